//! The merge of a change of rows with others that marked rows of the same files first.
//!
//! With the rows that both read as deleted (`base`), the winner's (`win`) and the change's own (`mine`): where `win`
//! and `mine` have no row in common, `win | mine` takes the place of the winner's entry. Rows are numbered by their
//! places in the file, which never change.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};

use delta_commit::actions::{Action, Add, DeletionVector, Remove};
use delta_commit::conflict::{Conflict, ConflictKind};
use delta_commit::log::{StoreError, StoreErrorKind};
use delta_commit::{CommitError, Marked, Marks, Merge, Transaction};
use parquet_writer::WriteError;
use roaring::RoaringTreemap;

use crate::deletion_vectors::{self, widened};
use crate::error::TableError;
use crate::row_change::note_files;
use crate::scan::FoundRows;
use crate::storage::TableStorage;
use crate::table::lock;

/// The rows that a change marks, and the files of its vectors.
pub(crate) struct RowMerge {
    storage: Arc<dyn TableStorage>,
    files: BTreeMap<String, FoundRows>,
    written: Mutex<Vectors>,
}

/// Files of vectors that were written for a change and are still there.
#[derive(Default)]
struct Vectors {
    files: BTreeSet<String>,
    /// True if the change was given up. A merge that another thread still does for it leaves no file then.
    given_up: bool,
}

impl fmt::Debug for RowMerge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowMerge").finish_non_exhaustive()
    }
}

impl RowMerge {
    /// The merge of a change that marks these rows, by the normal paths of their files, in vectors of these files.
    pub fn new(
        storage: &Arc<dyn TableStorage>,
        files: BTreeMap<String, FoundRows>,
        written: Vec<String>,
    ) -> Arc<Self> {
        Arc::new(Self {
            storage: Arc::clone(storage),
            files,
            written: Mutex::new(Vectors {
                files: written.into_iter().collect(),
                given_up: false,
            }),
        })
    }

    /// The rows that are marked, by the normal paths of their files.
    pub fn files(&self) -> &BTreeMap<String, FoundRows> {
        &self.files
    }

    /// The files of its vectors.
    pub fn vector_files(&self) -> BTreeSet<String> {
        lock(&self.written).files.clone()
    }

    /// Returns true if both mark different rows.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.files.iter().all(|(path, found)| {
            let theirs = other.files.get(path);
            theirs.is_none_or(|theirs| found.matching.is_disjoint(&theirs.matching))
        })
    }

    pub fn marks(self: &Arc<Self>) -> Marks {
        Marks {
            paths: self.files.keys().cloned().collect(),
            merge: Arc::clone(self) as Arc<dyn Merge>,
        }
    }

    /// Removes the files of vectors of a change that certainly is not in the table and never will be.
    pub fn remove(&self) {
        let mut written = lock(&self.written);
        written.given_up = true;
        let gone: Vec<String> = std::mem::take(&mut written.files).into_iter().collect();
        drop(written);
        self.storage.remove(&gone);
    }

    /// The rows of a file that are deleted once the change follows a version with this entry of it, and these deleted
    /// rows.
    fn merged(
        &self,
        transaction: &Transaction,
        last: &Marked,
        win: &RoaringTreemap,
        theirs: &[Marked],
    ) -> Result<RoaringTreemap, CommitError> {
        let path = last.add.normal_path();
        let Some(FoundRows {
            deleted: base,
            matching: mine,
            ..
        }) = self.files.get(path.as_ref())
        else {
            return Err(refusal(
                transaction,
                last,
                ConflictKind::ConcurrentDeleteRead(path.into_owned()),
            ));
        };
        if !base.is_subset(win) {
            let came_back = ConflictKind::ConcurrentAppend {
                path: path.into_owned(),
                partition: " again with rows that were deleted".to_owned(),
            };
            return Err(refusal(transaction, last, came_back));
        }
        let rows = win.intersection_len(mine);
        if rows == 0 {
            return Ok(win | mine);
        }
        // The first version that deleted one of them, where its vector can still be read.
        let culprit = theirs.iter().find_map(|marked| {
            let of_it = marked.add.normal_path() == path;
            let rows = of_it.then(|| deletion_vectors::read(&self.storage, &marked.add).ok())??;
            let rows = rows.intersection_len(mine);
            (rows > 0).then_some((marked, rows))
        });
        let (culprit, rows) = culprit.unwrap_or((last, rows));
        let path = path.into_owned();
        Err(refusal(
            transaction,
            culprit,
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
                && let Ok(Some(file)) = deletion_vectors::file_of(self.storage.root(), vector)
            {
                needed.insert(file);
            }
        }
        let mut written = lock(&self.written);
        written.files.extend(new);
        if written.given_up {
            needed.clear();
        }
        let gone: Vec<String> = written.files.difference(&needed).cloned().collect();
        written.files.retain(|file| needed.contains(file));
        let kept = written.files.clone();
        drop(written);
        self.storage.remove(&gone);
        kept
    }
}

impl Merge for RowMerge {
    fn merge(&self, transaction: &Transaction, theirs: &[Marked]) -> Result<Transaction, CommitError> {
        let mut last = BTreeMap::new();
        for marked in theirs {
            last.insert(marked.add.normal_path(), marked);
        }
        let mut emptied = HashSet::new();
        let (mut paths, mut rows) = (Vec::new(), Vec::new());
        let adds: Vec<&Add> = last.values().map(|marked| &marked.add).collect();
        let wins = deletion_vectors::read_each(&self.storage, &adds).map_err(as_commit)?;
        for ((path, marked), win) in last.iter().zip(&wins) {
            let all = self.merged(transaction, marked, win, theirs)?;
            if self
                .files
                .get(path.as_ref())
                .is_some_and(|file| file.rows == all.len())
            {
                emptied.insert(path);
            } else {
                paths.push(path);
                rows.push(all);
            }
        }
        let written = deletion_vectors::write(&self.storage, &rows).map_err(as_commit)?;
        let vectors: BTreeMap<&Cow<'_, str>, DeletionVector> =
            paths.into_iter().zip(written.vectors).collect();
        let mut merged = transaction.clone();
        merged.actions.retain_mut(|action| match action {
            Action::Remove(remove) => {
                if let Some(marked) = last.get(&remove.normal_path()) {
                    *remove = Remove::of(&marked.add, remove.deletion_timestamp.unwrap_or(0), true);
                }
                true
            }
            Action::Add(add) => {
                let path = Cow::Owned(add.normal_path().into_owned());
                let (Some(marked), Some(file)) = (last.get(&path), self.files.get(path.as_ref())) else {
                    return true;
                };
                let is_left = !emptied.contains(&path);
                *add = Add {
                    deletion_vector: vectors.get(&path).cloned(),
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
        if !self.storage.keeps() {
            merged.unsynced.retain(|path| {
                merged.actions.iter().any(|action| match action {
                    Action::Add(add) => add.path == *path,
                    Action::Cdc(cdc) => cdc.path == *path,
                    _ => false,
                })
            });
            merged.unsynced.extend(kept);
        }
        Ok(merged)
    }
}

pub(crate) fn refusal(transaction: &Transaction, marked: &Marked, kind: ConflictKind) -> CommitError {
    CommitError::Conflict(Box::new(Conflict {
        kind,
        version: marked.version,
        operation: marked.operation.clone(),
        read_version: transaction.read_version,
        only_moved: false,
    }))
}

pub(crate) fn as_commit(error: TableError) -> CommitError {
    match error {
        TableError::Commit(error) => error,
        TableError::Malformed(message) => CommitError::Malformed(message),
        TableError::Write(WriteError::Io { path, source }) => {
            let what = path.unwrap_or_default();
            let mut error = StoreError::io(what.display(), &source);
            // An answer of an object store that has no kind of its own, as one of a server that is busy.
            if source.kind() == ErrorKind::Other && error.errno.is_none() {
                error.kind = StoreErrorKind::Transient;
            }
            CommitError::Store(error)
        }
        other => CommitError::Invalid(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_store_that_takes_no_vector_now_is_asked_again() {
        let kind_of = |source: io::Error| match as_commit(WriteError::io("vector", source).into()) {
            CommitError::Store(error) => error.kind,
            other => panic!("{other}"),
        };
        let busy = io::Error::other("503: slow down");
        assert_eq!(kind_of(busy), StoreErrorKind::Transient);
        assert_eq!(kind_of(io::ErrorKind::TimedOut.into()), StoreErrorKind::Transient);
        assert_eq!(
            kind_of(io::ErrorKind::PermissionDenied.into()),
            StoreErrorKind::Permanent
        );
        let full = io::Error::from_raw_os_error(28);
        assert_eq!(kind_of(full), StoreErrorKind::Permanent);
    }
}
