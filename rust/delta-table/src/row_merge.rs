//! The merge of a deletion with others that marked rows of the same files first.
//!
//! With the rows that both read as deleted (`base`), the winner's (`win`) and the deletion's own (`mine`): where `win`
//! and `mine` have no row in common, `win | mine` takes the place of the winner's entry. Rows are numbered by their
//! places in the file, which never change.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex};

use delta_commit::actions::{Action, Add, DeletionVector, Remove};
use delta_commit::conflict::{Conflict, ConflictKind};
use delta_commit::log::StoreError;
use delta_commit::{CommitError, Marked, Marks, Merge, Transaction};
use parquet_writer::WriteError;
use roaring::RoaringTreemap;

use crate::delete::note_files;
use crate::deletion_vectors::{self, widened};
use crate::error::TableError;
use crate::place::Place;
use crate::scan::Found;
use crate::table::lock;

/// The rows that a deletion marks, and the files of its vectors.
pub(crate) struct RowMerge {
    place: Arc<dyn Place>,
    files: BTreeMap<String, Found>,
    /// Files of vectors that were written for it and are still there.
    written: Mutex<BTreeSet<String>>,
}

impl fmt::Debug for RowMerge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowMerge").finish_non_exhaustive()
    }
}

impl RowMerge {
    /// The merge of a deletion that marks these rows, by the paths of their files, in vectors of these files.
    pub fn new(place: &Arc<dyn Place>, files: BTreeMap<String, Found>, written: Vec<String>) -> Arc<Self> {
        Arc::new(Self {
            place: Arc::clone(place),
            files,
            written: Mutex::new(written.into_iter().collect()),
        })
    }

    pub fn marks(self: &Arc<Self>) -> Marks {
        Marks {
            paths: self.files.keys().cloned().collect(),
            merge: Arc::clone(self) as Arc<dyn Merge>,
        }
    }

    /// Removes the files of vectors of a deletion that certainly is not in the table and never will be.
    pub fn remove(&self) {
        let written: Vec<String> = std::mem::take(&mut *lock(&self.written)).into_iter().collect();
        self.place.remove(&written);
    }

    /// The rows of a file that are deleted once the deletion follows a version with this entry of it.
    fn merged(
        &self,
        transaction: &Transaction,
        last: &Marked,
        theirs: &[Marked],
    ) -> Result<RoaringTreemap, CommitError> {
        let path = &last.add.path;
        let win = deletion_vectors::read(&self.place, &last.add).map_err(as_commit)?;
        let Some(Found {
            deleted: base,
            matching: mine,
            ..
        }) = self.files.get(path)
        else {
            return Err(refusal(
                transaction,
                last,
                ConflictKind::ConcurrentDeleteRead(path.clone()),
            ));
        };
        if !base.is_subset(&win) {
            let came_back = ConflictKind::ConcurrentAppend {
                path: path.clone(),
                partition: " again with rows that were deleted".to_owned(),
            };
            return Err(refusal(transaction, last, came_back));
        }
        let rows = win.intersection_len(mine);
        if rows == 0 {
            return Ok(win | mine);
        }
        // The first version that deleted one of them, where its vector can still be read.
        let culprit = theirs.iter().find(|marked| {
            marked.add.path == *path
                && deletion_vectors::read(&self.place, &marked.add).is_ok_and(|rows| !rows.is_disjoint(mine))
        });
        let path = path.clone();
        Err(refusal(
            transaction,
            culprit.unwrap_or(last),
            ConflictKind::ConcurrentRows { path, rows },
        ))
    }

    /// Notes the files of new vectors, and removes those that the transaction needs no more.
    fn keep_needed(&self, transaction: &Transaction, new: Vec<String>) -> BTreeSet<String> {
        let mut needed = BTreeSet::new();
        for action in &transaction.actions {
            if let Action::Add(Add {
                deletion_vector: Some(vector),
                ..
            }) = action
                && let Ok(Some(file)) = deletion_vectors::file_of(self.place.root(), vector)
            {
                needed.insert(file);
            }
        }
        let mut written = lock(&self.written);
        written.extend(new);
        let gone: Vec<String> = written.difference(&needed).cloned().collect();
        written.retain(|file| needed.contains(file));
        let kept = written.clone();
        drop(written);
        self.place.remove(&gone);
        kept
    }
}

impl Merge for RowMerge {
    fn merge(&self, transaction: &Transaction, theirs: &[Marked]) -> Result<Transaction, CommitError> {
        let mut last = BTreeMap::new();
        for marked in theirs {
            last.insert(marked.add.path.as_str(), marked);
        }
        let mut emptied = HashSet::new();
        let (mut paths, mut rows) = (Vec::new(), Vec::new());
        for (path, marked) in &last {
            let all = self.merged(transaction, marked, theirs)?;
            if self.files.get(*path).is_some_and(|file| file.rows == all.len()) {
                emptied.insert(*path);
            } else {
                paths.push(*path);
                rows.push(all);
            }
        }
        let written = deletion_vectors::write(&self.place, &rows).map_err(as_commit)?;
        let vectors: BTreeMap<&str, DeletionVector> = paths.into_iter().zip(written.vectors).collect();
        let mut merged = transaction.clone();
        merged.actions.retain_mut(|action| match action {
            Action::Remove(remove) => {
                if let Some(marked) = last.get(remove.path.as_str()) {
                    *remove = Remove::of(&marked.add, remove.deletion_timestamp.unwrap_or(0), true);
                }
                true
            }
            Action::Add(add) => {
                let (Some(marked), Some(file)) =
                    (last.get(add.path.as_str()), self.files.get(add.path.as_str()))
                else {
                    return true;
                };
                let is_left = !emptied.contains(add.path.as_str());
                *add = Add {
                    deletion_vector: vectors.get(add.path.as_str()).cloned(),
                    data_change: true,
                    stats: Some(widened(marked.add.stats.as_deref(), file.rows)),
                    ..marked.add.clone()
                };
                is_left
            }
            _ => true,
        });
        note_files(&mut merged);
        let kept = self.keep_needed(&merged, written.files);
        if !self.place.keeps() {
            merged.unsynced.retain(|path| {
                merged
                    .actions
                    .iter()
                    .any(|action| matches!(action, Action::Add(add) if add.path == *path))
            });
            merged.unsynced.extend(kept);
        }
        Ok(merged)
    }
}

fn refusal(transaction: &Transaction, marked: &Marked, kind: ConflictKind) -> CommitError {
    CommitError::Conflict(Box::new(Conflict {
        kind,
        version: marked.version,
        operation: marked.operation.clone(),
        read_version: transaction.read_version,
    }))
}

fn as_commit(error: TableError) -> CommitError {
    match error {
        TableError::Commit(error) => error,
        TableError::Malformed(message) => CommitError::Malformed(message),
        TableError::Write(WriteError::Io { path, source }) => {
            let what = path.unwrap_or_default();
            CommitError::Store(StoreError::io(what.display(), &source))
        }
        other => CommitError::Invalid(other.to_string()),
    }
}
