//! The files of a change: data files, deletion vectors and change data files.

use std::collections::BTreeMap;
use std::sync::Arc;

use delta_commit::actions::PartitionValues;
use parquet_writer::{Batch, WriteError, WriterOptions};
use roaring::RoaringTreemap;

use crate::append::{AppendOptions, DataWriter, WrittenFiles};
use crate::change_feed::{self, ChangeType};
use crate::deletion_vectors::{self, WrittenVectors};
use crate::error::Result;
use crate::head::TableHead;
use crate::row_ids::{self, CopiedRows, RowColumns};
use crate::row_merge::RowMerge;
use crate::scan::FileRows;
use crate::snapshot::Snapshot;
use crate::table::SharedTable;

use super::{FileAction, NewRows, Touched, UpdatedRows};

/// The numbers of the writers of some rows.
#[derive(Clone, Copy)]
struct Outputs {
    /// That of data files.
    data: usize,
    /// That of change data files, where they are needed.
    changes: Option<usize>,
}

/// Returns true if the change needs change data files: the table asks for them, and rows change in another way than
/// that whole files come and go. One of them says all of the version, so that all of its rows are in them then.
fn needs_change_data(snapshot: &Snapshot, touched: &[Touched]) -> bool {
    let is_whole = |touched: &Touched| touched.fate == FileAction::Removed && touched.changed.is_empty();
    snapshot.has_change_feed() && !touched.iter().all(is_whole)
}

/// Files of a change. If they are dropped before a version may name them, they are removed.
pub(super) struct Files {
    pub shared: Arc<SharedTable>,
    writers: Vec<DataWriter>,
    pub written: WrittenFiles,
    /// Change data files.
    pub changes: WrittenFiles,
    /// Rows that were copied as they are.
    pub copied: u64,
    pub vectors: WrittenVectors,
    /// The files of vectors, once others may follow them.
    pub merge: Option<Arc<RowMerge>>,
    /// True if a version names them, or may yet.
    pub stay: bool,
}

impl Drop for Files {
    fn drop(&mut self) {
        if self.stay {
            return;
        }
        for writer in &mut self.writers {
            writer.discard();
        }
        match &self.merge {
            Some(merge) => merge.remove(),
            None => {
                self.shared.storage.remove(&self.vectors.files);
            }
        }
    }
}

impl Files {
    pub fn of(shared: &Arc<SharedTable>) -> Self {
        Self {
            shared: Arc::clone(shared),
            writers: Vec::new(),
            written: WrittenFiles::default(),
            changes: WrittenFiles::default(),
            copied: 0,
            vectors: WrittenVectors::default(),
            merge: None,
            stay: false,
        }
    }

    /// The paths of files that the committer has to sync.
    pub fn unsynced(&self) -> Vec<String> {
        let files = self.written.adds.iter().chain(&self.changes.adds);
        let paths = files.map(|add| add.path.clone());
        paths.chain(self.vectors.files.iter().cloned()).collect()
    }

    /// Writes what is left of files that are written again, the new rows, and the vectors. Change data files have the
    /// rows that leave, and the new ones.
    pub fn write(
        &mut self,
        snapshot: &Arc<Snapshot>,
        touched: &[Touched],
        mut new: Option<&mut dyn NewRows>,
        options: &WriterOptions,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let feed = needs_change_data(snapshot, touched).then(|| change_feed::with_change_type(snapshot));
        let feed = feed.map(Arc::new);
        let mut partitions: BTreeMap<&PartitionValues, Vec<&Touched>> = BTreeMap::new();
        for touched in touched {
            if feed.is_some() || touched.fate == FileAction::Rewritten || !touched.changed.is_empty() {
                let sources = partitions.entry(&touched.add.partition_values).or_default();
                sources.push(touched);
            }
        }
        let is_partitioned = !snapshot.metadata.partition_columns.is_empty();
        // Rows of any partition.
        let free = self.begin(snapshot, feed.as_ref(), None, options)?;
        for (values, sources) in partitions {
            let own = if is_partitioned {
                self.begin(snapshot, feed.as_ref(), Some(values), options)?
            } else {
                free
            };
            for touched in sources {
                if touched.fate == FileAction::Rewritten {
                    self.copy(own.data, snapshot, touched, go_on)?;
                }
                if let Some(changes) = own.changes {
                    self.delete(changes, snapshot, touched, go_on)?;
                }
                if let Some(new) = &mut new {
                    let to = if new.keeps_partitions() { own } else { free };
                    self.change(own, to, snapshot, touched, &mut **new, go_on)?;
                }
            }
            if is_partitioned {
                self.end(own, go_on)?;
            }
        }
        if let Some(new) = &mut new {
            let columns = RowColumns::of(snapshot)?;
            while let Some(rows) = new.added()? {
                let kept = columns
                    .as_ref()
                    .map(|columns| columns.beside(&rows, None))
                    .transpose()?;
                self.put(free, &rows, kept.as_ref(), ChangeType::Insert, go_on)?;
            }
        }
        self.end(free, go_on)?;
        let marked = touched
            .iter()
            .filter(|touched| touched.fate == FileAction::Marked);
        let marked: Vec<RoaringTreemap> = marked
            .map(|touched| &touched.found.deleted | &touched.found.matching)
            .collect();
        self.vectors = deletion_vectors::write(&self.shared.storage, &marked)?;
        Ok(())
    }

    /// Copies the rows that stay in a file.
    fn copy(
        &mut self,
        to: usize,
        snapshot: &Arc<Snapshot>,
        touched: &Touched,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let gone = &touched.found.deleted | &touched.found.matching;
        for batch in CopiedRows::open(&self.shared.storage, snapshot, &touched.add, gone)? {
            let batch = Batch::from(batch?);
            self.copied += batch.rows() as u64;
            let writer = self.writer(to, go_on)?;
            writer.take_known(&batch, go_on)?;
            writer.encode(go_on)?;
        }
        Ok(())
    }

    /// Writes the rows of a file that are deleted to change data files.
    fn delete(
        &mut self,
        to: usize,
        snapshot: &Arc<Snapshot>,
        touched: &Touched,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let deleted = &touched.found.matching - &touched.changed;
        if deleted.is_empty() {
            return Ok(());
        }
        let others = deletion_vectors::others(touched.found.rows, &deleted);
        let columns = snapshot.schema.columns.clone();
        for rows in FileRows::in_columns(&self.shared.storage, snapshot, columns, &touched.add, others)? {
            self.note(to, &Batch::from(rows?), ChangeType::Delete, go_on)?;
        }
        Ok(())
    }

    /// Writes the rows of a file that change, with their new values. Their former ones are in change data files.
    fn change(
        &mut self,
        from: Outputs,
        to: Outputs,
        snapshot: &Arc<Snapshot>,
        touched: &Touched,
        new: &mut dyn NewRows,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        if touched.changed.is_empty() {
            return Ok(());
        }
        let others = deletion_vectors::others(touched.found.rows, &touched.changed);
        let mut first = 0;
        let columns = snapshot.schema.columns.iter();
        let columns = columns.filter(|column| from.changes.is_some() || new.reads(column));
        let columns = columns.cloned().collect();
        let storage = Arc::clone(&self.shared.storage);
        let hidden = RowColumns::of(snapshot)?;
        let mut old = CopiedRows::in_columns(&storage, snapshot, columns, &touched.add, others)?;
        while let Some(batch) = old.next() {
            let (batch, ids) = old.apart(batch?)?;
            let mut done = 0;
            while done < batch.num_rows() {
                let count = new.at_once().min(batch.num_rows() - done);
                let rows = batch.slice(done, count);
                let changed = new.changed(&touched.add.path, first, &rows)?;
                let ids = ids.as_ref().map(|ids| ids.slice(done, count));
                first += count;
                done += count;
                if let Some(changes) = from.changes {
                    self.note(changes, &Batch::from(rows), ChangeType::UpdatePreimage, go_on)?;
                }
                for UpdatedRows { rows, places } in changed {
                    let kept = match (&hidden, &ids) {
                        (Some(hidden), Some(ids)) => {
                            Some(hidden.beside(&rows, Some(row_ids::at(ids, places)?))?)
                        }
                        _ => None,
                    };
                    self.put(to, &rows, kept.as_ref(), ChangeType::UpdatePostimage, go_on)?;
                }
            }
        }
        Ok(())
    }

    /// Opens writers of data files, and of change data files by the head that these have. Where all rows are of one
    /// partition, the files get its values as the log has them.
    fn begin(
        &mut self,
        snapshot: &Arc<Snapshot>,
        feed: Option<&Arc<TableHead>>,
        partition: Option<&PartitionValues>,
        options: &WriterOptions,
    ) -> Result<Outputs> {
        let copies = row_ids::head_of_copies(&snapshot.head)?;
        let data = self.open(&copies, AppendOptions::default(), partition, options.clone())?;
        let in_feed = AppendOptions {
            folder: Some(change_feed::FOLDER.to_owned()),
            ..AppendOptions::default()
        };
        // Rows that leave and rows that come are in no order together.
        let changes = feed.map(|head| self.open(head, in_feed, partition, options.clone().in_any_order()));
        Ok(Outputs {
            data,
            changes: changes.transpose()?,
        })
    }

    /// Opens a writer; returns its number.
    fn open(
        &mut self,
        head: &Arc<TableHead>,
        to: AppendOptions,
        partition: Option<&PartitionValues>,
        options: WriterOptions,
    ) -> Result<usize> {
        let (shared, head) = (Arc::clone(&self.shared), Arc::clone(head));
        let writer = DataWriter::new(shared, head, to, options)?;
        self.writers.push(match partition {
            Some(values) => writer.in_partition(values),
            None => writer,
        });
        Ok(self.writers.len() - 1)
    }

    fn writer(&mut self, number: usize, go_on: &mut dyn FnMut() -> bool) -> Result<&mut DataWriter> {
        if go_on() {
            Ok(&mut self.writers[number])
        } else {
            Err(WriteError::Interrupted.into())
        }
    }

    /// Writes new rows. Where rows keep their ids, `kept` are the same ones with these beside them, for data files.
    fn put(
        &mut self,
        to: Outputs,
        rows: &Batch,
        kept: Option<&Batch>,
        change: ChangeType,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let writer = self.writer(to.data, go_on)?;
        if rows.rows() == 0 {
            return Ok(());
        }
        writer.take_changed(kept.unwrap_or(rows), go_on)?;
        writer.encode(go_on)?;
        match to.changes {
            Some(changes) => self.note(changes, rows, change, go_on),
            None => Ok(()),
        }
    }

    /// Writes rows to change data files.
    fn note(
        &mut self,
        to: usize,
        rows: &Batch,
        change: ChangeType,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        if rows.rows() == 0 {
            return Ok(());
        }
        let rows = change_feed::changed(rows, change)?;
        let writer = self.writer(to, go_on)?;
        writer.take_known(&rows, go_on)?;
        writer.encode(go_on)
    }

    /// Completes the files of some writers.
    fn end(&mut self, from: Outputs, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        let ended = [
            (Some(from.data), &mut self.written),
            (from.changes, &mut self.changes),
        ];
        for (writer, all) in ended {
            let Some(writer) = writer else {
                continue;
            };
            let written = self.writers[writer].finish(go_on)?;
            all.rows += written.rows;
            all.bytes += written.bytes;
            all.adds.extend(written.adds);
        }
        Ok(())
    }
}
