//! Times and counts of a change for the history, by delta-spark's names.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use delta_commit::actions::Action;
use delta_commit::{Operation, Transaction};

use crate::append::WrittenFiles;

/// The times of a change's steps.
pub(super) struct ChangeTimes {
    begun: Instant,
    scanned: Duration,
}

impl ChangeTimes {
    pub fn start() -> Self {
        Self {
            begun: Instant::now(),
            scanned: Duration::ZERO,
        }
    }

    pub fn scanned(&mut self) {
        self.scanned = self.begun.elapsed();
    }

    pub fn note(&self, operation: &mut Operation) {
        let all = self.begun.elapsed();
        for (name, time) in [
            ("scanTimeMs", self.scanned),
            ("rewriteTimeMs", all.saturating_sub(self.scanned)),
            ("executionTimeMs", all),
        ] {
            note(operation, name, &time.as_millis());
        }
    }
}

/// Counts the files that were written, the rows that were copied into them, and change data files.
pub(super) fn note_written(
    operation: &mut Operation,
    written: &WrittenFiles,
    copied: u64,
    changes: &WrittenFiles,
) {
    for (name, count) in [
        ("numAddedFiles", written.adds.len() as u64),
        ("numAddedBytes", written.bytes),
        ("numCopiedRows", copied),
        ("numAddedChangeFiles", changes.adds.len() as u64),
    ] {
        let name = named(&operation.name, name);
        note(operation, name, &count);
    }
    if operation.name == "MERGE" {
        note(operation, "numOutputRows", &written.rows);
    }
}

/// Counts the files that leave the table, and the vectors.
pub(crate) fn note_files(transaction: &mut Transaction) {
    let marked: BTreeSet<Cow<'_, str>> = transaction.added_normal_paths().collect();
    let (mut files, mut bytes) = (0, 0);
    let (mut added, mut updated, mut removed) = (0, 0, 0);
    for action in &transaction.actions {
        let Action::Remove(remove) = action else {
            continue;
        };
        match (marked.contains(&remove.normal_path()), &remove.deletion_vector) {
            (true, None) => added += 1,
            (true, Some(_)) => updated += 1,
            (false, vector) => {
                files += 1;
                bytes += remove.size.unwrap_or(0);
                removed += i64::from(vector.is_some());
            }
        }
    }
    for (name, count) in [
        ("numRemovedFiles", files),
        ("numRemovedBytes", bytes),
        ("numDeletionVectorsAdded", added),
        ("numDeletionVectorsUpdated", updated),
        ("numDeletionVectorsRemoved", removed),
    ] {
        let name = named(&transaction.operation.name, name);
        note(&mut transaction.operation, name, &count);
    }
}

/// The name of a count in the history of an operation. A `MERGE` has names of its own.
fn named(operation: &str, name: &'static str) -> &'static str {
    if operation != "MERGE" {
        return name;
    }
    match name {
        "numAddedFiles" => "numTargetFilesAdded",
        "numAddedBytes" => "numTargetBytesAdded",
        "numCopiedRows" => "numTargetRowsCopied",
        "numAddedChangeFiles" => "numTargetChangeFilesAdded",
        "numRemovedFiles" => "numTargetFilesRemoved",
        "numRemovedBytes" => "numTargetBytesRemoved",
        "numDeletionVectorsAdded" => "numTargetDeletionVectorsAdded",
        "numDeletionVectorsUpdated" => "numTargetDeletionVectorsUpdated",
        "numDeletionVectorsRemoved" => "numTargetDeletionVectorsRemoved",
        other => other,
    }
}

fn note(operation: &mut Operation, name: &str, count: &impl ToString) {
    operation.metrics.insert(name.to_owned(), count.to_string());
}
