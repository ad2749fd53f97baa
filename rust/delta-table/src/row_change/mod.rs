//! A change of rows: some leave their files and others come, in one version.
//!
//! A row leaves its file by a mark in a deletion vector, or the file is written again without it. Deletions, updates
//! and merges differ in the rows that they find ([`RowChange::touch`]) and in those that they write ([`NewRows`]).
//! The rows are in change data files too, if the table has a change data feed.

mod files;
mod grouped;
mod history;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;
use delta_commit::actions::{Action, Add, Cdc, Remove};
use delta_commit::predicate::Predicate;
use delta_commit::{CommitError, Operation, Transaction, Version, WaitLimit};
use parquet_writer::{Batch, WriterOptions};
use roaring::RoaringTreemap;

use crate::change_feed;
use crate::clock::now;
use crate::deletion_vectors::widened;
use crate::error::{Result, TableError};
use crate::operations::begin;
use crate::row_merge::RowMerge;
use crate::scan::{FoundRows, row_count};
use crate::schema::TableColumn;
use crate::snapshot::Snapshot;
use crate::table::{SharedTable, Table};

use files::Files;
use history::ChangeTimes;

pub(crate) use grouped::GroupedChange;
pub(crate) use history::note_files;

const DELETION_VECTORS: &str = "deletionVectors";

/// What happens to a file that loses rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileAction {
    /// All its rows go, and the file leaves the table.
    Removed,
    /// The file is written again without them, and without those that were deleted before.
    Rewritten,
    /// They are marked, beside those that were before.
    Marked,
}

/// A file with rows that leave it.
struct Touched {
    add: Arc<Add>,
    fate: FileAction,
    found: FoundRows,
    /// Those of the rows that come back with other values.
    changed: RoaringTreemap,
    /// True if the change depends on nothing of the file but the rows that leave it. Other transactions may mark other
    /// rows then.
    is_mergeable: bool,
}

/// Rows that change, with their new values.
pub(crate) struct UpdatedRows {
    pub rows: Batch,
    /// Their places among the rows that they were; none for all of them in their order.
    pub places: Option<Vec<u32>>,
}

/// The rows that a change writes.
pub(crate) trait NewRows {
    /// The rows that change with their new values, in any order: of those of one file, in their order, these are from
    /// number `first` on, in the columns that it [`reads`](Self::reads).
    fn changed(&mut self, path: &str, first: usize, rows: &RecordBatch) -> Result<Vec<UpdatedRows>>;

    /// Returns true if the new values depend on the former ones of this column, or are the same.
    fn reads(&self, column: &TableColumn) -> bool;

    /// The most rows, one or more, whose new values are in memory together.
    fn at_once(&self) -> usize {
        usize::MAX
    }

    /// Returns true if rows that change stay in their partition.
    fn keeps_partitions(&self) -> bool;

    /// The next rows that come beside them; none at the end.
    fn added(&mut self) -> Result<Option<Batch>>;
}

/// The part of the table that a change depends on.
pub(crate) struct Dependence {
    /// The rows that it looked for.
    pub predicate: Predicate,
    /// Files whose rows it found and leaves as they are.
    pub files: Vec<String>,
}

/// A change of rows under way: the files that it touches are chosen, and none is written yet.
pub(crate) struct RowChange<'a> {
    shared: Arc<SharedTable>,
    snapshot: Arc<Snapshot>,
    writer_options: &'a WriterOptions,
    clock: ChangeTimes,
    marks: bool,
    touched: Vec<Touched>,
}

impl<'a> RowChange<'a> {
    /// Begins a change of the table's newest version. `removal` names an operation by which rows leave the table.
    ///
    /// # Errors
    /// [`CommitError::Unsupported`] when the table asks its writers for what is not built; [`TableError::AppendOnly`]
    /// when no row may leave it.
    pub fn begin(
        table: &Table,
        removal: Option<&'static str>,
        writer_options: &'a WriterOptions,
    ) -> Result<Self> {
        let clock = ChangeTimes::start();
        let snapshot = table.writable()?;
        if let Some(what) = removal {
            snapshot.check_removable(what)?;
        }
        change_feed::check_columns(&snapshot.metadata, &snapshot.schema)?;
        Ok(Self {
            shared: table.shared()?,
            marks: takes_vectors(&snapshot),
            snapshot,
            writer_options,
            clock,
            touched: Vec::new(),
        })
    }

    pub fn shared(&self) -> &Arc<SharedTable> {
        &self.shared
    }

    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Takes a whole file out of the table without a look at its rows. Returns the number of those that are left in it.
    pub fn remove(&mut self, add: Arc<Add>) -> Result<u64> {
        let marked = add.deletion_vector.as_ref();
        let marked = marked.map_or(0, |vector| u64::try_from(vector.cardinality).unwrap_or(0));
        let rows = row_count(&self.shared.storage, &self.snapshot, &add)?;
        self.touched.push(Touched {
            add,
            fate: FileAction::Removed,
            found: FoundRows::default(),
            changed: RoaringTreemap::new(),
            is_mergeable: true,
        });
        Ok(rows.saturating_sub(marked))
    }

    /// Takes the matching rows out of a file. Those of `changed` come back with other values.
    ///
    /// Rows of a file are marked where the table takes deletion vectors, unless they are more than half of the rows
    /// that it was written with.
    pub fn touch(&mut self, add: Arc<Add>, found: FoundRows, changed: RoaringTreemap, is_mergeable: bool) {
        let leaving = found.matching.len();
        if leaving == 0 {
            return;
        }
        let is_most = leaving > found.rows / 2;
        let fate = if leaving + found.deleted.len() == found.rows {
            FileAction::Removed
        } else if self.marks && !is_most {
            FileAction::Marked
        } else {
            FileAction::Rewritten
        };
        self.touched.push(Touched {
            add,
            fate,
            found,
            changed,
            is_mergeable,
        });
    }

    /// Notes that all rows are found.
    pub fn scanned(&mut self) {
        self.clock.scanned();
    }

    /// Returns true if no file changes.
    pub fn is_empty(&self) -> bool {
        self.touched.is_empty()
    }

    /// Writes the files, and makes the transaction.
    ///
    /// # Errors
    /// As those of the files and of the new rows. No file stays.
    pub fn prepare(
        self,
        mut operation: Operation,
        dependence: Dependence,
        counts: RowCounts,
        new: Option<&mut dyn NewRows>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<PendingChange> {
        let mut files = Files::of(&self.shared);
        files
            .write(&self.snapshot, &self.touched, new, self.writer_options, go_on)
            .map_err(|error| self.shared.or_replaced(error))?;
        history::note_written(&mut operation, &files.written, files.copied, &files.changes);
        self.clock.note(&mut operation);
        let mut transaction = begin(&self.snapshot, operation)?;
        transaction.reads.predicates.push(dependence.predicate);
        transaction.reads.files.extend(dependence.files);
        transaction.actions = actions(&self.touched, &files);
        let touched = self
            .touched
            .iter()
            .map(|touched| touched.add.normal_path().into_owned());
        transaction.reads.files.extend(touched);
        note_files(&mut transaction);
        if !self.shared.storage.keeps() {
            transaction.unsynced = files.unsynced();
        }
        let merge = RowMerge::new(
            &self.shared.storage,
            marked(self.touched),
            files.vectors.files.clone(),
        );
        transaction.marks = Some(merge.marks());
        files.merge = Some(merge);
        Ok(PendingChange {
            transaction,
            files,
            counts,
        })
    }
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

/// The entries of the files that leave, of those with marks, of new ones, and of change data files.
fn actions(touched: &[Touched], files: &Files) -> Vec<Action> {
    let at = now();
    let mut actions = Vec::new();
    let mut vectors = files.vectors.vectors.iter();
    for Touched { add, fate, found, .. } in touched {
        actions.push(Action::Remove(Remove::of(add, at, true)));
        if *fate == FileAction::Marked {
            actions.push(Action::Add(Add {
                deletion_vector: vectors.next().cloned(),
                data_change: true,
                stats: Some(widened(add.stats.as_deref(), found.rows)),
                ..add.as_ref().clone()
            }));
        }
    }
    actions.extend(files.written.adds.iter().cloned().map(Action::Add));
    let changes = files.changes.adds.iter().cloned();
    actions.extend(changes.map(|file| Action::Cdc(Cdc::of(file))));
    actions
}

/// Takes the rows to mark that a merge may add to those of others, by the normal paths of their files.
fn marked(touched: Vec<Touched>) -> BTreeMap<String, FoundRows> {
    let marked = touched
        .into_iter()
        .filter(|touched| touched.fate == FileAction::Marked && touched.is_mergeable);
    marked
        .map(|touched| (touched.add.normal_path().into_owned(), touched.found))
        .collect()
}

/// Counts of the rows of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowCounts {
    /// Rows that came.
    pub inserted: u64,
    /// Rows with new values.
    pub updated: u64,
    /// Rows that left. None are in a file that was empty before and leaves the table.
    pub deleted: u64,
}

/// A change whose files are written, and that is not committed yet. If it is dropped, its files are removed.
pub struct PendingChange {
    pub(crate) transaction: Transaction,
    files: Files,
    counts: RowCounts,
}

impl fmt::Debug for PendingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingChange")
            .field("counts", &self.counts)
            .finish_non_exhaustive()
    }
}

impl PendingChange {
    /// Counts of its rows.
    #[must_use]
    pub fn counts(&self) -> RowCounts {
        self.counts
    }

    /// Commits it; returns the version that holds it. Others that are committed at the same time may share it.
    ///
    /// # Errors
    /// A conflict when a concurrent transaction added rows that the change looked for, marked a row that it takes out
    /// of its file, or changed a file with such rows in another way; [`CommitError::DeadlinePassed`] when the time was
    /// up and the table is certainly without the change; [`CommitError::Unknown`] when nobody knows, which
    /// [`Table::outcome`] finds out by its token. Unless it is not known, the files are removed.
    pub fn commit(self, wait: &mut WaitLimit<'_>) -> Result<Version> {
        let Self {
            transaction,
            mut files,
            ..
        } = self;
        files.stay = true;
        let done = match &files.merge {
            Some(merge) => grouped::commit(&files.shared, transaction, merge, wait),
            None => files.shared.commit(transaction, wait),
        };
        files.stay = matches!(done, Ok(_) | Err(TableError::Commit(CommitError::Unknown { .. })));
        done.map_err(|error| files.shared.or_replaced(error))
    }
}
