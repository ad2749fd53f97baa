//! The files of a change: data files and deletion vectors.

use std::collections::BTreeMap;
use std::sync::Arc;

use delta_commit::actions::{Add, PartitionValues};
use parquet_writer::{Batch, WriteError, WriterOptions};
use roaring::RoaringTreemap;

use crate::append::{AppendOptions, DataWriter, Written};
use crate::deletion_vectors::{self, WrittenVectors};
use crate::error::Result;
use crate::row_merge::RowMerge;
use crate::scan::FileRows;
use crate::snapshot::Snapshot;
use crate::table::Shared;

use super::{Fate, NewRows, Touched};

/// Files of a change. If they are dropped before a version may name them, they are removed.
pub(super) struct Files {
    pub shared: Arc<Shared>,
    writers: Vec<DataWriter>,
    pub written: Written,
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
                self.shared.place.remove(&self.vectors.files);
            }
        }
    }
}

impl Files {
    pub fn of(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            writers: Vec::new(),
            written: Written::default(),
            copied: 0,
            vectors: WrittenVectors::default(),
            merge: None,
            stay: false,
        }
    }

    /// The paths of files that the committer has to sync.
    pub fn unsynced(&self) -> Vec<String> {
        let paths = self.written.adds.iter().map(|add| add.path.clone());
        paths.chain(self.vectors.files.iter().cloned()).collect()
    }

    /// Writes what is left of files that are written again, the new rows, and the vectors.
    pub fn write(
        &mut self,
        snapshot: &Arc<Snapshot>,
        touched: &[Touched],
        mut new: Option<&mut dyn NewRows>,
        options: &WriterOptions,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let mut partitions: BTreeMap<&PartitionValues, Vec<&Touched>> = BTreeMap::new();
        for touched in touched {
            if touched.fate == Fate::Rewritten || !touched.changed.is_empty() {
                let sources = partitions.entry(&touched.add.partition_values).or_default();
                sources.push(touched);
            }
        }
        let is_partitioned = !snapshot.metadata.partition_columns.is_empty();
        // Rows of any partition.
        let free = self.begin(snapshot, options)?;
        for (values, sources) in partitions {
            let own = if is_partitioned {
                self.begin(snapshot, options)?
            } else {
                free
            };
            for touched in sources {
                if touched.fate == Fate::Rewritten {
                    self.copy(own, snapshot, touched, go_on)?;
                }
                if let Some(new) = &mut new {
                    let to = if new.keeps_partitions() { own } else { free };
                    self.change(to, snapshot, touched, &mut **new, go_on)?;
                }
            }
            if is_partitioned {
                self.end(own, Some(values), go_on)?;
            }
        }
        if let Some(new) = &mut new {
            while let Some(rows) = new.added()? {
                self.put(free, &rows, go_on)?;
            }
        }
        self.end(free, None, go_on)?;
        let marked = touched.iter().filter(|touched| touched.fate == Fate::Marked);
        let marked: Vec<RoaringTreemap> = marked
            .map(|touched| &touched.found.deleted | &touched.found.matching)
            .collect();
        self.vectors = deletion_vectors::write(&self.shared.place, &marked)?;
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
        for batch in FileRows::open(&self.shared.place, snapshot, &touched.add, gone)? {
            let batch = Batch::from(batch?);
            self.copied += batch.rows() as u64;
            let writer = self.writer(to, go_on)?;
            writer.take_known(&batch, go_on)?;
            writer.encode(go_on)?;
        }
        Ok(())
    }

    /// Writes the rows of a file that change, with their new values.
    fn change(
        &mut self,
        to: usize,
        snapshot: &Arc<Snapshot>,
        touched: &Touched,
        new: &mut dyn NewRows,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        if touched.changed.is_empty() {
            return Ok(());
        }
        let mut others = RoaringTreemap::new();
        others.insert_range(0..touched.found.rows);
        others -= &touched.changed;
        let mut first = 0;
        let columns = snapshot.schema.columns.iter();
        let columns = columns.filter(|column| new.reads(column)).cloned().collect();
        let place = &self.shared.place;
        for batch in FileRows::in_columns(place, snapshot, columns, &touched.add, others)? {
            let batch = batch?;
            let mut from = 0;
            while from < batch.num_rows() {
                let rows = batch.slice(from, new.at_once().min(batch.num_rows() - from));
                let changed = new.changed(&touched.add.path, first, &rows)?;
                first += rows.num_rows();
                from += rows.num_rows();
                for rows in changed {
                    self.put(to, &rows, go_on)?;
                }
            }
        }
        Ok(())
    }

    /// Opens a writer; returns its number.
    fn begin(&mut self, snapshot: &Arc<Snapshot>, options: &WriterOptions) -> Result<usize> {
        self.writers.push(DataWriter::new(
            Arc::clone(&self.shared),
            Arc::clone(&snapshot.head),
            AppendOptions::default(),
            options.clone(),
        )?);
        Ok(self.writers.len() - 1)
    }

    fn writer(&mut self, number: usize, go_on: &mut dyn FnMut() -> bool) -> Result<&mut DataWriter> {
        if go_on() {
            Ok(&mut self.writers[number])
        } else {
            Err(WriteError::Interrupted.into())
        }
    }

    fn put(&mut self, to: usize, rows: &Batch, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        let writer = self.writer(to, go_on)?;
        if rows.rows() == 0 {
            return Ok(());
        }
        writer.take_changed(rows, go_on)?;
        writer.encode(go_on)
    }

    /// Completes a writer's files. Where all are of one partition, they have its values as the log has them: a value
    /// may have another meaning for another reader, as a timestamp without a zone has.
    fn end(
        &mut self,
        writer: usize,
        partition: Option<&PartitionValues>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let written = self.writers[writer].finish(go_on)?;
        self.written.rows += written.rows;
        self.written.bytes += written.bytes;
        self.written.adds.extend(written.adds.into_iter().map(|add| {
            let partition_values = partition.unwrap_or(&add.partition_values).clone();
            Add {
                partition_values,
                ..add
            }
        }));
        Ok(())
    }
}
