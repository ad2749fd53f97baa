//! Compactions: the small files of a partition are written again as few, and files without their deleted rows. In a
//! table with clustering columns, files are written again in the order of these ([`clustering`]).
//!
//! No row of the table changes, so the actions have `dataChange=false`, and no append has a conflict with them. Deletes
//! that mark rows of the old files meanwhile are taken over ([`RowRemap`]). Where another transaction replaced or
//! removed an old file, the compaction leaves the files out that were to be one with it.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use delta_commit::actions::{Add, PartitionValues};
use delta_commit::{CommitError, Operation, Transaction, Version, WaitLimit, path};
use parquet_writer::{Batch, OptionFault, WriteError, WriterOptions};

use crate::append::{AppendOptions, DataWriter};
use crate::clustering::{self, GroupLimits, Packing, Rewrite};
use crate::conditions::Conditions;
use crate::deletion_vectors;
use crate::detached::stray_files;
use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::operations::begin;
use crate::properties::TARGET_FILE_SIZE;
use crate::row_ids::{CopiedRows, head_of_copies};
use crate::row_remap::{Bin, CopiedSource, NewFile, RowRemap};
use crate::scan::{Question, row_count};
use crate::snapshot::Snapshot;
use crate::table::{SharedTable, Table};

/// Bytes of a new file, unless the table or the caller says otherwise.
const TARGET: u64 = 128 << 20;

/// A file is written again for its deleted rows alone if they are more than one in so many: delta-spark's
/// `optimize.maxDeletedRowsRatio` of 0.05.
const ONE_DELETED_IN: u64 = 20;

/// Bytes of old files that are replaced by one version. A crash loses no more work than that.
const AT_ONCE: u64 = 16 << 30;

/// The options of a compaction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CompactOptions {
    /// Conditions on partition columns, which choose the files. The default is all.
    pub conditions: Conditions,
    /// Bytes of a new file. Files that have as many are left as they are.
    pub target_file_bytes: Option<i64>,
    /// True if all files with deleted rows are written again, each by itself, and no others.
    pub purge: bool,
    /// A note for the history.
    pub user_metadata: Option<String>,
}

/// The result of a compaction's version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compacted {
    /// The version; where no file changed, the one that was read.
    pub version: Version,
    /// Files that left the table.
    pub removed_files: u64,
    /// Their bytes.
    pub removed_bytes: u64,
    /// Files that came into it.
    pub added_files: u64,
    /// Their bytes.
    pub added_bytes: u64,
}

impl Compacted {
    /// Takes the next version of the same compaction in.
    pub fn include(&mut self, next: Self) {
        if next.removed_files > 0 {
            self.version = next.version;
        }
        self.removed_files += next.removed_files;
        self.removed_bytes += next.removed_bytes;
        self.added_files += next.added_files;
        self.added_bytes += next.added_bytes;
    }
}

/// A compaction under way. It makes one version, or several where there is much to do.
pub struct Compaction<'a> {
    table: &'a Table,
    options: CompactOptions,
    writer_options: WriterOptions,
    /// The table when the bins were chosen.
    snapshot: Arc<Snapshot>,
    /// The columns that rows are ordered by; none where they stay in their order.
    cluster_by: Vec<Vec<String>>,
    limits: GroupLimits,
    /// Files that are to be one, each with others of its partition.
    bins: VecDeque<Vec<Arc<Add>>>,
    /// The files that were there at first, and the own ones. Those that come meanwhile are left for the next time, so
    /// that it ends beside an append that does not.
    known: Option<HashSet<String>>,
    at_once: u64,
}

impl Table {
    /// Begins a compaction. Nothing is read or written before [`Compaction::rewrite`].
    ///
    /// # Errors
    /// [`TableError::Option`] when conditions do not choose whole files, the target is none, or rows are to be sorted;
    /// [`CommitError::Unsupported`] when the table asks its writers for what is not built.
    pub fn compact(&self, options: CompactOptions, writer_options: WriterOptions) -> Result<Compaction<'_>> {
        if let Some(bytes) = options.target_file_bytes.filter(|bytes| *bytes < 1) {
            let message = format!("target_file_bytes={bytes} is not accepted: give bytes, 1 or more");
            return Err(TableError::option("target_file_bytes", message));
        }
        if writer_options.sorts() {
            let why = "sorting=\"sort\" is not accepted here: rows are copied in their order, or in that of the table's \
                       clustering columns; sort rows when they are appended, or give the table such columns";
            return Err(TableError::Option(OptionFault::new("sorting", why)));
        }
        let mut compaction = Compaction {
            table: self,
            snapshot: self.snapshot()?,
            cluster_by: Vec::new(),
            limits: GroupLimits::default(),
            options,
            writer_options,
            bins: VecDeque::new(),
            known: None,
            at_once: AT_ONCE,
        };
        compaction.plan()?;
        Ok(compaction)
    }
}

impl<'a> Compaction<'a> {
    /// The version that was read last.
    #[must_use]
    pub fn version(&self) -> Version {
        self.snapshot.version
    }

    /// Writes the files of the next version; none when there is nothing left to do.
    ///
    /// # Errors
    /// An error if a file cannot be read or written, [`WriteError::Interrupted`] when `go_on` said no. No new file
    /// stays.
    pub fn rewrite(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<Option<PendingCompaction<'a>>> {
        // New files may be smaller together than it seemed, and small enough for another round.
        if self.bins.is_empty() && !self.options.purge {
            self.snapshot = self.table.snapshot()?;
            self.plan()?;
        }
        self.follow_columns()?;
        if self.bins.is_empty() {
            return Ok(None);
        }
        let shared = self.table.shared()?;
        let mut files = NewFiles::of(&shared);
        let mut bytes = 0;
        while bytes < self.at_once
            && let Some(old) = self.bins.pop_front()
        {
            bytes += old.iter().map(|add| size(add)).sum::<u64>();
            // The places of a group's rows are in memory until its version.
            if self.is_ordered(&old) {
                bytes = self.at_once;
            }
            let bin = match self.written(&shared, old.clone(), go_on) {
                Err(error) if error.is_of_missing() && !self.are_there(&old)? => continue,
                bin => bin.map_err(|error| shared.or_replaced(error))?,
            };
            let new = bin.new.iter().map(|new| new.add.path.clone());
            self.known.get_or_insert_default().extend(new);
            files.bins.push(Arc::new(bin));
        }
        files.moved = Arc::new(RowRemap::new(&shared.storage, files.bins.clone()));
        let mut pending = PendingCompaction {
            table: self.table,
            head: Arc::clone(&self.snapshot.head),
            operation: self.operation(),
            files,
        };
        // The commit of a long compaction would read all versions since its plan, and others would wait for it.
        let newest = self.table.snapshot()?;
        pending.rebase(&newest)?;
        Ok(Some(pending))
    }

    /// Plans anew where the table got other clustering columns.
    fn follow_columns(&mut self) -> Result<()> {
        if self.bins.is_empty() || self.options.purge {
            return Ok(());
        }
        let newest = self.table.snapshot()?;
        if newest.clustering()? != self.cluster_by {
            self.snapshot = newest;
            self.plan()?;
        }
        Ok(())
    }

    /// Returns true if the rows of these files are put into the order of the clustering columns.
    fn is_ordered(&self, old: &[Arc<Add>]) -> bool {
        let is_clustered = |add: &Arc<Add>| clustering::is_clustered(add, &self.cluster_by);
        !self.cluster_by.is_empty() && !matches!(old, [add] if is_clustered(add))
    }

    /// Returns true if the table still has these files, with the same deletion vectors. A vacuum may have removed files
    /// that left the table, and vectors that others took the place of.
    fn are_there(&self, files: &[Arc<Add>]) -> Result<bool> {
        let newest = self.table.snapshot()?;
        Ok(files.iter().all(|add| newest.contents.has(add)))
    }

    /// Chooses the groups of files to combine.
    fn plan(&mut self) -> Result<()> {
        self.snapshot.check_writable()?;
        let target = self.target()?;
        if !self.options.purge {
            self.cluster_by = self.snapshot.clustering()?;
        }
        let choice = Question::of_files(&self.snapshot, &self.options.conditions, "where")?;
        let mut files = choice.files(&self.snapshot)?;
        let is_first = self.known.is_none();
        match &self.known {
            Some(known) => files.retain(|add| known.contains(&add.path)),
            None => self.known = Some(files.iter().map(|add| add.path.clone()).collect()),
        }
        self.bins = if self.options.purge {
            files.retain(|add| add.deletion_vector.is_some());
            files.into_iter().map(|add| vec![add]).collect()
        } else {
            let rows = |add: &Arc<Add>| row_count(&self.table.storage, &self.snapshot, add);
            let is_wanted = |add: &Arc<Add>| {
                Ok(is_first && add.deletion_vector.is_some() && is_mostly_deleted(add, rows(add)?))
            };
            if self.cluster_by.is_empty() {
                small(files, target, is_wanted)?
            } else {
                let packing = Packing {
                    columns: &self.cluster_by,
                    most_rows: self.limits.group_rows(&self.snapshot.schema.columns),
                    rows: &|add| Ok(rows(add)?.saturating_sub(deleted_rows(add))),
                    is_wanted: &is_wanted,
                };
                clustering::groups(files, &packing)?
            }
        };
        Ok(())
    }

    fn target(&self) -> Result<u64> {
        let of_table = || {
            let text = self.snapshot.property(TARGET_FILE_SIZE)?;
            Some(bytes_of(text).ok_or_else(|| {
                TableError::option(
                    "target_file_bytes",
                    format!(
                        "the table has {TARGET_FILE_SIZE}={text:?}, which is no size such as 134217728 or 128mb: give \
                         target_file_bytes"
                    ),
                )
            }))
        };
        match self.options.target_file_bytes {
            Some(bytes) => Ok(u64::try_from(bytes).unwrap_or(TARGET)),
            None => of_table().unwrap_or(Ok(TARGET)),
        }
    }

    fn operation(&self) -> Operation {
        let listed = clustering::listed(&self.cluster_by);
        let (name, mut parameters) = if self.options.purge {
            ("REORG", vec![("applyPurge", "true")])
        } else {
            let parameters = vec![
                ("auto", "false"),
                ("clusterBy", listed.as_str()),
                ("zOrderBy", "[]"),
            ];
            ("OPTIMIZE", parameters)
        };
        if !self.cluster_by.is_empty() {
            parameters.push(("isFull", "false"));
        }
        let mut operation = Operation::new(name);
        // Under WriteSerializable, too, it may come after appends that it did not read.
        operation.changes_data = false;
        operation.parameters = parameters
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let predicate = self.options.conditions.describe();
        operation.parameters.insert("predicate".to_owned(), predicate);
        operation.user_metadata.clone_from(&self.options.user_metadata);
        operation
    }

    /// Writes the rows of files that belong together.
    fn written(
        &self,
        shared: &Arc<SharedTable>,
        old: Vec<Arc<Add>>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Bin> {
        if !self.is_ordered(&old) {
            return self.copied(shared, old, go_on);
        }
        let rewrite = Rewrite {
            shared,
            snapshot: &self.snapshot,
            columns: &self.cluster_by,
            writer_options: self.writer_options.clone(),
            file_bytes: self.target()?,
            limits: self.limits,
        };
        rewrite.clustered(old, go_on)
    }

    /// Copies the rows of files of one partition into one file. One batch of rows is in memory at a time, and what the
    /// reader and the writer of one file need.
    fn copied(
        &self,
        shared: &Arc<SharedTable>,
        old: Vec<Arc<Add>>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Bin> {
        let options = AppendOptions {
            max_file_bytes: Some(i64::MAX),
            ..AppendOptions::default()
        };
        let (head, writer_options) = (head_of_copies(&self.snapshot.head)?, self.writer_options.clone());
        let mut writer = DataWriter::new(Arc::clone(shared), head, options, writer_options)?;
        if let Some(first) = old.first() {
            writer = writer.in_partition(&first.partition_values);
        }
        let mut copied = copy(&mut writer, shared, &self.snapshot, old, go_on);
        if copied.is_err() {
            writer.discard();
        }
        // A file that is written again by itself stays as clustered as it is.
        if let Ok(Bin { sources, new, .. }) = &mut copied
            && let ([source], [new]) = (sources.as_slice(), new.as_mut_slice())
        {
            (new.add.clustering_provider, new.add.tags) = clustering::marks_of(&source.add);
        }
        copied
    }
}

impl fmt::Debug for Compaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compaction")
            .field("bins", &self.bins.len())
            .finish_non_exhaustive()
    }
}

fn copy(
    writer: &mut DataWriter,
    shared: &SharedTable,
    snapshot: &Arc<Snapshot>,
    old: Vec<Arc<Add>>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Bin> {
    let mut sources = Vec::with_capacity(old.len());
    let mut rows = 0;
    for add in old {
        let first = rows;
        let deleted = deletion_vectors::read(&shared.storage, &add)?;
        for batch in CopiedRows::open(&shared.storage, snapshot, &add, deleted.clone())? {
            if !go_on() {
                return Err(WriteError::Interrupted.into());
            }
            let batch = Batch::from(batch?);
            rows += batch.rows() as u64;
            writer.take_known(&batch, go_on)?;
            writer.encode(go_on)?;
        }
        sources.push(CopiedSource {
            rows: rows - first + deleted.len(),
            add,
            deleted,
            first,
        });
    }
    let mut written = writer.finish(go_on)?;
    // The places of rows in the new file are known only if it is one, and whole.
    if written.adds.len() > 1 || written.rows != rows {
        return Err(TableError::Malformed(format!(
            "{} rows were written into {} files, expected {rows} in one: nothing was changed",
            written.rows,
            written.adds.len()
        )));
    }
    let new = written.adds.pop().map(|add| NewFile {
        add: Add {
            data_change: false,
            ..add
        },
        rows,
    });
    Ok(Bin {
        sources,
        new: new.into_iter().collect(),
        places: None,
    })
}

/// The new files of a version. If they are dropped before a version may name them, they are removed.
struct NewFiles {
    shared: Arc<SharedTable>,
    bins: Vec<Arc<Bin>>,
    moved: Arc<RowRemap>,
    /// True if a version names them, or may yet.
    stay: bool,
}

impl NewFiles {
    fn of(shared: &Arc<SharedTable>) -> Self {
        Self {
            shared: Arc::clone(shared),
            bins: Vec::new(),
            moved: Arc::new(RowRemap::new(&shared.storage, Vec::new())),
            stay: false,
        }
    }

    fn remove(&self, bins: &[Arc<Bin>]) {
        let new = bins.iter().flat_map(|bin| &bin.new);
        let names = new.filter_map(|new| path::decode_inside(&new.add.path).ok());
        self.shared.storage.remove(&names.collect::<Vec<_>>());
    }

    /// Removes those that the version does not name, since all of their rows were marked meanwhile. Where the log
    /// cannot be read they stay until a vacuum.
    fn remove_left_out(&self, table: &Table, version: Version, added: u64) {
        if self.bins.iter().map(|bin| bin.new.len() as u64).sum::<u64>() == added {
            return;
        }
        let Ok(snapshot) = table.snapshot() else {
            return;
        };
        if snapshot.version < version {
            return;
        }
        let new = self.bins.iter().flat_map(|bin| &bin.new);
        let left_out = stray_files(new.map(|new| &new.add), &snapshot, &[]);
        self.shared.storage.remove(&left_out);
    }
}

impl Drop for NewFiles {
    fn drop(&mut self) {
        if !self.stay {
            self.moved.give_up();
            self.remove(&self.bins);
        }
    }
}

/// A version of a compaction whose files are written, and that is not committed yet. If it is dropped, its files are
/// removed.
pub struct PendingCompaction<'a> {
    table: &'a Table,
    /// The table that the files were written for.
    head: Arc<TableHead>,
    operation: Operation,
    files: NewFiles,
}

impl fmt::Debug for PendingCompaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCompaction").finish_non_exhaustive()
    }
}

impl PendingCompaction<'_> {
    /// Commits it. Files that are no longer there as they were read stay as they are, and so do those that were to be
    /// one with them; without any other there is no version.
    ///
    /// # Errors
    /// A conflict when a concurrent transaction changed the table's schema, properties or protocol;
    /// [`CommitError::DeadlinePassed`] when the time was up and the files are certainly as they were;
    /// [`CommitError::Unknown`] when nobody knows, which [`Table::outcome`] finds out by its token. Unless it is not
    /// known, the new files are removed.
    pub fn commit(mut self, wait: &mut WaitLimit<'_>) -> Result<Compacted> {
        loop {
            let shared = Arc::clone(&self.files.shared);
            // Changes of rows that compactions got ahead of would find their rows moved once more.
            if shared.back_off(wait) {
                let newest = self.table.snapshot_in_time(wait)?;
                self.rebase(&newest)?;
            }
            if self.files.bins.is_empty() {
                let version = self.head.version;
                return Ok(Compacted {
                    version,
                    ..Compacted::default()
                });
            }
            let transaction = self.transaction()?;
            self.files.stay = true;
            let done = shared.commit(transaction, wait);
            self.files.stay = matches!(done, Ok(_) | Err(TableError::Commit(CommitError::Unknown { .. })));
            match done {
                Ok(version) => {
                    let counts = self.files.moved.counts();
                    self.files
                        .remove_left_out(self.table, version, counts.added_files);
                    return Ok(Compacted {
                        version,
                        removed_files: counts.removed_files,
                        removed_bytes: counts.removed_bytes,
                        added_files: counts.added_files,
                        added_bytes: counts.added_bytes,
                    });
                }
                Err(TableError::Commit(CommitError::Conflict(conflict))) if conflict.kind.is_of_files() => {
                    let snapshot = self.table.snapshot_in_time(wait)?;
                    let before = (self.head.version, self.files.bins.len());
                    let is_same_table = self.rebase(&snapshot)?;
                    // Where nothing has changed, the same transaction would meet the same conflict, without an end.
                    if !is_same_table || before == (self.head.version, self.files.bins.len()) {
                        return Err(CommitError::Conflict(conflict).into());
                    }
                }
                Err(error) => return Err(shared.or_replaced(error)),
            }
        }
    }

    fn transaction(&self) -> Result<Transaction> {
        let mut transaction = begin(&self.head, self.operation.clone())?;
        transaction.reads.files = self.files.moved.paths();
        transaction.marks = Some(self.files.moved.marks());
        self.files.moved.fill(transaction)
    }

    /// Goes on from a newer version, without files that are not there any more. Returns false where the table itself is
    /// no longer what the files were written for.
    fn rebase(&mut self, snapshot: &Snapshot) -> Result<bool> {
        if snapshot.metadata != self.head.metadata || snapshot.protocol != self.head.protocol {
            return Ok(false);
        }
        let (moved, dropped) = self.files.moved.rebased(snapshot)?;
        self.files.moved.give_up();
        self.files.bins = moved.bins().to_vec();
        self.files.moved = Arc::new(moved);
        self.files.remove(&dropped);
        self.head = Arc::clone(&snapshot.head);
        Ok(true)
    }
}

fn size(add: &Add) -> u64 {
    u64::try_from(add.size).unwrap_or(0)
}

/// Rows of a file that are marked as deleted.
fn deleted_rows(add: &Add) -> u64 {
    let vector = add.deletion_vector.as_ref();
    vector.map_or(0, |vector| u64::try_from(vector.cardinality).unwrap_or(0))
}

fn is_mostly_deleted(add: &Add, rows: u64) -> bool {
    deleted_rows(add) > rows / ONE_DELETED_IN
}

/// Small files, in groups of one partition that are to be one file each. They come in the order in which they were
/// written: rows that came together stay together. A file that is `wanted` is among them even alone.
fn small(
    files: Vec<Arc<Add>>,
    target: u64,
    wanted: impl Fn(&Arc<Add>) -> Result<bool>,
) -> Result<VecDeque<Vec<Arc<Add>>>> {
    let mut partitions: BTreeMap<PartitionValues, Vec<Arc<Add>>> = BTreeMap::new();
    for add in files {
        let values = add.partition_values.clone();
        partitions.entry(values).or_default().push(add);
    }
    let mut bins = VecDeque::new();
    for mut files in partitions.into_values() {
        files.sort_by(|a, b| (a.modification_time, &a.path).cmp(&(b.modification_time, &b.path)));
        let mut open = OpenGroup::default();
        for add in files {
            let is_wanted = wanted(&add)?;
            if size(&add) >= target && !is_wanted {
                continue;
            }
            if open.bytes.saturating_add(size(&add)) > target {
                bins.extend(std::mem::take(&mut open).closed());
            }
            open.bytes += size(&add);
            open.is_wanted |= is_wanted;
            open.files.push(add);
        }
        bins.extend(open.closed());
    }
    Ok(bins)
}

/// A group that takes more files.
#[derive(Default)]
struct OpenGroup {
    files: Vec<Arc<Add>>,
    bytes: u64,
    is_wanted: bool,
}

impl OpenGroup {
    /// The files, if something is gained by writing them again.
    fn closed(self) -> Option<Vec<Arc<Add>>> {
        (self.files.len() > 1 || self.is_wanted).then_some(self.files)
    }
}

/// A size in bytes, as in Spark's properties: a number, with or without a unit of powers of 1,024.
pub(crate) fn bytes_of(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].trim().trim_end_matches('b') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    let bytes = digits.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    (bytes > 0).then_some(bytes)
}

#[cfg(test)]
mod tests;
