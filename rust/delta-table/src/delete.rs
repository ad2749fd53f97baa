//! Deletion of rows by conditions: rows are marked by deletion vectors, or files are written again without them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delta_commit::actions::{Action, Add, Remove};
use delta_commit::{CommitError, Operation, Patience, Transaction, Version};
use parquet_writer::{Batch, WriteError, WriterOptions};
use roaring::RoaringTreemap;

use crate::append::{AppendOptions, DataWriter, Written};
use crate::checkpoint::now;
use crate::deletion_vectors::{self, WrittenVectors, widened};
use crate::error::{Result, TableError};
use crate::operations::{Condition, begin, describe};
use crate::row_merge::RowMerge;
use crate::scan::{FileRows, Found, Positions, Question, row_count};
use crate::snapshot::Snapshot;
use crate::table::{Shared, Table};

const DELETION_VECTORS: &str = "deletionVectors";

/// A deletion that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deleted {
    /// The version without the rows; the one that was read, where there was none to delete.
    pub version: Version,
    /// The number of rows that were deleted.
    pub rows: u64,
}

/// The fate of a file with rows to delete.
enum Fate {
    /// All its rows go, and the file leaves the table.
    Removed,
    /// The file is written again without these rows, some of which were deleted before.
    Rewritten(RoaringTreemap),
    /// These rows are marked, beside those that were before.
    Marked(Found),
}

/// A file with rows to delete.
struct Touched {
    add: Arc<Add>,
    fate: Fate,
}

/// The files with rows to delete.
#[derive(Default)]
struct Touch {
    files: Vec<Touched>,
    /// Rows to delete.
    rows: u64,
}

/// Files of a deletion that is not committed yet.
#[derive(Default)]
struct Files {
    writer: Option<DataWriter>,
    written: Written,
    vectors: WrittenVectors,
    /// The files of vectors, once others may follow them.
    merge: Option<Arc<RowMerge>>,
}

impl Table {
    /// Deletes all rows for which the conditions hold. A row of which a condition is null stays.
    ///
    /// A file of which all rows go leaves the table. Rows of others are marked by a deletion vector where the table has
    /// `delta.enableDeletionVectors`, unless they are more than half of the rows that the file was written with. Other
    /// files are written again without the rows.
    ///
    /// # Errors
    /// [`TableError::Option`] when a condition does not fit its column; [`CommitError::Unsupported`] when a file would
    /// have to be written again and the table has a change data feed; a conflict when a concurrent transaction added
    /// rows for which the conditions hold, marked a row that this one marks too, or changed a file with rows to delete in
    /// another way.
    pub fn delete_rows(
        &self,
        conditions: &[Condition],
        user_metadata: Option<String>,
        writer_options: WriterOptions,
        patience: &mut Patience<'_>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Deleted> {
        let (version, pending) = self.prepare_delete(conditions, user_metadata, writer_options, go_on)?;
        match pending {
            None => Ok(Deleted { version, rows: 0 }),
            Some(pending) => pending.commit(patience),
        }
    }

    /// Finds the rows and writes the files. Returns the version that was read, and no deletion without a row.
    fn prepare_delete(
        &self,
        conditions: &[Condition],
        user_metadata: Option<String>,
        writer_options: WriterOptions,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(Version, Option<PendingDelete>)> {
        let mut clock = Clock::start();
        let snapshot = self.removable("delete()")?;
        let question = Question::of(&snapshot, conditions)?;
        let shared = self.shared()?;
        let touch = touched(&shared, &snapshot, &question, go_on)?;
        clock.scanned = clock.begun.elapsed();
        if touch.files.is_empty() {
            return Ok((snapshot.version, None));
        }
        let mut operation = Operation::new("DELETE");
        operation.user_metadata = user_metadata;
        let predicate = describe(conditions);
        operation.parameters.insert("predicate".to_owned(), predicate);
        let mut transaction = begin(&snapshot, operation)?;
        transaction.reads.predicates.push(question.predicate());
        let mut files = Files::default();
        if let Err(error) = write_files(&mut files, &shared, &snapshot, &touch, writer_options, go_on) {
            files.remove(&shared);
            return Err(shared.or_replaced(error));
        }
        fill(&mut transaction, &touch, &files);
        clock.note(&mut transaction);
        if !shared.place.keeps() {
            let paths = files.written.adds.iter().map(|add| add.path.clone());
            transaction.unsynced = paths.chain(files.vectors.files.iter().cloned()).collect();
        }
        let rows = touch.rows;
        let merge = RowMerge::new(&shared.place, marked(touch), files.vectors.files.clone());
        transaction.marks = Some(merge.marks());
        files.merge = Some(merge);
        let pending = PendingDelete {
            shared,
            transaction,
            files,
            rows,
        };
        Ok((snapshot.version, Some(pending)))
    }
}

/// A deletion whose files are written, and that is not committed yet.
struct PendingDelete {
    shared: Arc<Shared>,
    transaction: Transaction,
    files: Files,
    rows: u64,
}

impl PendingDelete {
    fn commit(mut self, patience: &mut Patience<'_>) -> Result<Deleted> {
        let rows = self.rows;
        match self.shared.commit(self.transaction, patience) {
            Ok(version) => Ok(Deleted { version, rows }),
            Err(error) => {
                if !matches!(error, TableError::Commit(CommitError::Unknown { .. })) {
                    self.files.remove(&self.shared);
                }
                Err(self.shared.or_replaced(error))
            }
        }
    }
}

/// The times of a deletion's steps, for the history.
struct Clock {
    begun: Instant,
    scanned: Duration,
}

impl Clock {
    fn start() -> Self {
        Self {
            begun: Instant::now(),
            scanned: Duration::ZERO,
        }
    }

    fn note(&self, transaction: &mut Transaction) {
        let all = self.begun.elapsed();
        for (name, time) in [
            ("scanTimeMs", self.scanned),
            ("rewriteTimeMs", all.saturating_sub(self.scanned)),
            ("executionTimeMs", all),
        ] {
            note(transaction, name, time.as_millis());
        }
    }
}

impl Files {
    fn remove(&mut self, shared: &Shared) {
        if let Some(writer) = &mut self.writer {
            writer.discard();
        }
        match &self.merge {
            Some(merge) => merge.remove(),
            None => drop(shared.place.remove(&self.vectors.files)),
        }
    }
}

/// Finds the rows to delete, and decides over their files.
fn touched(
    shared: &Shared,
    snapshot: &Arc<Snapshot>,
    question: &Question,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Touch> {
    let marks = takes_vectors(snapshot);
    // What a change data feed tells of a file that is written again would be wrong.
    let rewrites = snapshot.check_rewritable();
    let mut touch = Touch::default();
    let positions = Positions::new(&shared.place, snapshot, question.of_rows.clone())?;
    for add in question.files(snapshot)? {
        if question.of_rows.0.is_empty() {
            let marked = add.deletion_vector.as_ref();
            let marked = marked.map_or(0, |vector| u64::try_from(vector.cardinality).unwrap_or(0));
            let rows = row_count(&shared.place, snapshot, &add)?;
            touch.rows += rows.saturating_sub(marked);
            let fate = Fate::Removed;
            touch.files.push(Touched { add, fate });
            continue;
        }
        let found = positions.of(&add, go_on)?;
        let goes = found.found.len();
        if goes == 0 {
            continue;
        }
        let is_most = goes > found.rows / 2;
        let fate = if goes + found.deleted.len() == found.rows {
            Fate::Removed
        } else if marks && !(is_most && rewrites.is_ok()) {
            Fate::Marked(found)
        } else {
            snapshot.check_rewritable()?;
            Fate::Rewritten(found.deleted | found.found)
        };
        touch.rows += goes;
        touch.files.push(Touched { add, fate });
    }
    Ok(touch)
}

/// Returns true if new deletion vectors may be written: the property asks for them, and readers and writers know them.
fn takes_vectors(snapshot: &Snapshot) -> bool {
    let has = |features: &Option<Vec<String>>| {
        let mut features = features.iter().flatten();
        features.any(|feature| feature == DELETION_VECTORS)
    };
    let protocol = &snapshot.protocol;
    snapshot.metadata.is_enabled("delta.enableDeletionVectors")
        && has(&protocol.reader_features)
        && has(&protocol.writer_features)
}

/// Writes what is left of the files to be written again, and the vectors.
fn write_files(
    files: &mut Files,
    shared: &Arc<Shared>,
    snapshot: &Arc<Snapshot>,
    touch: &Touch,
    writer_options: WriterOptions,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<()> {
    let rewritten: Vec<(&Arc<Add>, &RoaringTreemap)> = touch
        .files
        .iter()
        .filter_map(|touched| match &touched.fate {
            Fate::Rewritten(gone) => Some((&touched.add, gone)),
            _ => None,
        })
        .collect();
    if !rewritten.is_empty() {
        let place = &shared.place;
        let (shared, head) = (Arc::clone(shared), Arc::clone(snapshot));
        let writer = DataWriter::new(shared, head, AppendOptions::default(), writer_options)?;
        let writer = files.writer.insert(writer);
        for (add, gone) in rewritten {
            for batch in FileRows::open(place, snapshot, add, gone.clone())? {
                if !go_on() {
                    return Err(WriteError::Interrupted.into());
                }
                writer.write(&Batch::from(batch?), &mut None, go_on)?;
            }
        }
        files.written = writer.finish(go_on)?;
    }
    let marked: Vec<RoaringTreemap> = touch
        .files
        .iter()
        .filter_map(|touched| match &touched.fate {
            Fate::Marked(found) => Some(&found.deleted | &found.found),
            _ => None,
        })
        .collect();
    files.vectors = deletion_vectors::write(&shared.place, &marked)?;
    Ok(())
}

/// Takes the rows to mark, by the paths of their files.
fn marked(touch: Touch) -> BTreeMap<String, Found> {
    let marked = touch.files.into_iter().filter_map(|touched| match touched.fate {
        Fate::Marked(found) => Some((touched.add.path.clone(), found)),
        _ => None,
    });
    marked.collect()
}

/// Adds the actions, the files that were read, and the counts.
fn fill(transaction: &mut Transaction, touch: &Touch, files: &Files) {
    let at = now();
    let mut vectors = files.vectors.vectors.iter();
    let mut counts = Counts::default();
    for Touched { add, fate } in &touch.files {
        transaction.reads.files.insert(add.path.clone());
        transaction
            .actions
            .push(Action::Remove(Remove::of(add, at, true)));
        let had_vector = u64::from(add.deletion_vector.is_some());
        match fate {
            Fate::Removed | Fate::Rewritten(_) => {
                counts.removed_files += 1;
                counts.removed_bytes += u64::try_from(add.size).unwrap_or(0);
                counts.vectors_removed += had_vector;
            }
            Fate::Marked(found) => {
                counts.vectors_updated += had_vector;
                counts.vectors_added += 1 - had_vector;
                transaction.actions.push(Action::Add(Add {
                    deletion_vector: vectors.next().cloned(),
                    data_change: true,
                    stats: Some(widened(add.stats.as_deref(), found.rows)),
                    ..add.as_ref().clone()
                }));
            }
        }
    }
    let added = files.written.adds.iter().cloned().map(Action::Add);
    transaction.actions.extend(added);
    for (name, count) in [
        ("numRemovedFiles", counts.removed_files),
        ("numRemovedBytes", counts.removed_bytes),
        ("numAddedFiles", files.written.adds.len() as u64),
        ("numAddedBytes", files.written.bytes),
        ("numCopiedRows", files.written.rows),
        ("numDeletedRows", touch.rows),
        ("numDeletionVectorsAdded", counts.vectors_added),
        ("numDeletionVectorsUpdated", counts.vectors_updated),
        ("numDeletionVectorsRemoved", counts.vectors_removed),
        ("numAddedChangeFiles", 0),
    ] {
        note(transaction, name, count);
    }
}

/// Counts for the history, by delta-spark's names.
#[derive(Default)]
struct Counts {
    removed_files: u64,
    removed_bytes: u64,
    vectors_added: u64,
    vectors_updated: u64,
    vectors_removed: u64,
}

fn note(transaction: &mut Transaction, name: &str, count: impl ToString) {
    let metrics = &mut transaction.operation.metrics;
    metrics.insert(name.to_owned(), count.to_string());
}
