//! The places of rows in a file: rows by their numbers, in a few columns.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::BooleanBuffer;
use arrow_schema::ArrowError;
use delta_commit::actions::Add;
use delta_commit::predicate::Predicate;
use parquet::arrow::arrow_reader::RowSelection;
use parquet_writer::WriteError;
use roaring::RoaringTreemap;

use crate::data_file::table_error;
use crate::deletion_vectors;
use crate::error::Result;
use crate::schema::TableColumn;
use crate::snapshot::Snapshot;
use crate::storage::TableStorage;

use super::question::columns_of;
use super::reader::{FileReader, RowsInOrder};
use super::{Filters, ScanPlan};

/// A reading of some columns with the numbers of rows.
pub(crate) struct NumberedRows {
    plan: ScanPlan,
}

impl NumberedRows {
    /// A reading of these columns. Row groups and pages in which no row can satisfy the predicate, by their statistics,
    /// are passed over; of the others every row comes.
    pub fn new(
        storage: &Arc<dyn TableStorage>,
        snapshot: &Arc<Snapshot>,
        columns: Vec<TableColumn>,
        wanted: Predicate,
    ) -> Result<Self> {
        Ok(Self {
            plan: ScanPlan::new(storage, snapshot, columns, Filters::covered_by(wanted))?,
        })
    }

    /// Hands over the batches of a file, deleted rows included, each with the number of its first row and the deleted
    /// rows of the file. Returns the number of rows in the file, and those that are deleted. One row group's columns
    /// are in memory at a time.
    pub fn each(
        &self,
        add: &Arc<Add>,
        go_on: &mut dyn FnMut() -> bool,
        take: &mut dyn FnMut(u64, &RecordBatch, &RoaringTreemap) -> Result<()>,
    ) -> Result<(u64, RoaringTreemap)> {
        let deleted = deletion_vectors::read(&self.plan.storage, add)?;
        let mut reader = FileReader::open(&self.plan, Arc::clone(add), deleted)?;
        while let Some(group) = reader.groups.pop_front() {
            let (first, rows) = reader.rows_of(group);
            let rows = usize::try_from(rows).unwrap_or(usize::MAX);
            let mut runs: VecDeque<Range<usize>> = match reader.runs(&self.plan, group) {
                Some(runs) if runs.is_empty() => continue,
                Some(runs) => runs.into(),
                None => std::iter::once(0..rows).collect(),
            };
            let selection = (runs.front() != Some(&(0..rows)))
                .then(|| RowSelection::from_consecutive_ranges(runs.iter().cloned(), rows));
            for batch in reader.group_reader(group, Vec::new(), selection)? {
                let batch = batch.and_then(|batch| reader.answer(&self.plan, &batch));
                let batch = batch.map_err(|error| reader.failed(error.into()))?;
                // A batch may have rows of several runs.
                let mut taken = 0;
                while let Some(run) = runs.front_mut().filter(|_| taken < batch.num_rows()) {
                    let count = run.len().min(batch.num_rows() - taken);
                    take(
                        first + run.start as u64,
                        &batch.slice(taken, count),
                        &reader.deleted,
                    )?;
                    taken += count;
                    run.start += count;
                    if run.start == run.end {
                        runs.pop_front();
                    }
                }
                if !go_on() {
                    return Err(WriteError::Interrupted.into());
                }
            }
        }
        Ok((row_count_of(&reader), reader.deleted))
    }
}

/// A search for rows for which conditions hold.
pub(crate) struct RowSearch {
    rows: NumberedRows,
    filters: Filters,
}

/// The rows of a file, by their numbers from 0 on.
#[derive(Debug, Clone, Default)]
pub(crate) struct FoundRows {
    /// The number of rows in the file, deleted ones too.
    pub rows: u64,
    /// The rows that are deleted already.
    pub deleted: RoaringTreemap,
    /// The others that were looked for.
    pub matching: RoaringTreemap,
}

impl RowSearch {
    pub fn new(storage: &Arc<dyn TableStorage>, snapshot: &Arc<Snapshot>, filters: Filters) -> Result<Self> {
        let mut columns: Vec<TableColumn> = Vec::new();
        for column in filters
            .each
            .iter()
            .flat_map(|filter| columns_of(snapshot, filter))
        {
            if columns.iter().all(|known| known.name != column.name) {
                columns.push(column.clone());
            }
        }
        Ok(Self {
            rows: NumberedRows::new(storage, snapshot, columns, filters.cover.clone())?,
            filters,
        })
    }

    /// Searches a file for the rows for which all conditions hold.
    pub fn of(&self, add: &Arc<Add>, go_on: &mut dyn FnMut() -> bool) -> Result<FoundRows> {
        let mut matching = RoaringTreemap::new();
        let (rows, deleted) = self.rows.each(add, go_on, &mut |first, batch, _| {
            let held = self.hold(batch);
            let held = held.map_err(|error| table_error(&add.path, error.into()))?;
            matching.extend(held.set_indices().map(|row| first + row as u64));
            Ok(())
        })?;
        matching -= &deleted;
        Ok(FoundRows {
            rows,
            deleted,
            matching,
        })
    }

    /// The rows of a batch for which all conditions hold.
    fn hold(&self, batch: &RecordBatch) -> Result<BooleanBuffer, ArrowError> {
        let mut all = BooleanBuffer::new_set(batch.num_rows());
        for filter in &self.filters.each {
            all = &all & filter.holds(batch)?.values();
        }
        Ok(all)
    }
}

/// The rows of one file, in some columns of the table, without some rows.
pub(crate) struct FileRows {
    plan: ScanPlan,
    rows: RowsInOrder,
}

impl FileRows {
    /// Opens a file by a plan, without the rows of these numbers.
    pub fn open(plan: ScanPlan, add: &Arc<Add>, gone: RoaringTreemap) -> Result<Self> {
        let rows = RowsInOrder::new(FileReader::open(&plan, Arc::clone(add), gone)?);
        Ok(Self { plan, rows })
    }

    /// Opens a file in these columns, without the rows of these numbers.
    pub fn in_columns(
        storage: &Arc<dyn TableStorage>,
        snapshot: &Arc<Snapshot>,
        columns: Vec<TableColumn>,
        add: &Arc<Add>,
        gone: RoaringTreemap,
    ) -> Result<Self> {
        let plan = ScanPlan::new(storage, snapshot, columns, Filters::default())?;
        Self::open(plan, add, gone)
    }
}

impl Iterator for FileRows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.rows.next(&self.plan).transpose()
    }
}

pub(super) fn row_count_of(reader: &FileReader) -> u64 {
    u64::try_from(reader.metadata.metadata().file_metadata().num_rows()).unwrap_or(0)
}

/// The number of rows in a file, deleted ones too: that of its statistics, or that of its footer.
pub(crate) fn row_count(
    storage: &Arc<dyn TableStorage>,
    snapshot: &Arc<Snapshot>,
    add: &Arc<Add>,
) -> Result<u64> {
    if let Some(rows) = add.stats.as_deref().and_then(record_count) {
        return Ok(rows);
    }
    let plan = ScanPlan::new(storage, snapshot, Vec::new(), Filters::default())?;
    let reader = FileReader::open(&plan, Arc::clone(add), RoaringTreemap::new())?;
    Ok(row_count_of(&reader))
}

/// The count of rows in statistics.
fn record_count(stats: &str) -> Option<u64> {
    let stats: serde_json::Value = serde_json::from_str(stats).ok()?;
    stats.get("numRecords")?.as_u64()
}
