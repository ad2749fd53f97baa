//! The rewriting of a group of files, with their rows along the curve.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::ArrowError;
use arrow_select::concat::concat;
use arrow_select::interleave::interleave_record_batch;
use arrow_select::nullif::nullif;
use delta_commit::actions::Add;
use delta_commit::path;
use parquet_writer::{Batch, WriteError, WriterOptions};

use crate::append::{AppendOptions, DataWriter};
use crate::deletion_vectors;
use crate::error::{Result, TableError};
use crate::row_ids::{CopiedRows, head_of_copies};
use crate::row_remap::{Bin, CopiedSource, NewFile};
use crate::scan::row_count;
use crate::schema::{ColumnType, Primitive, TableColumn};
use crate::snapshot::Snapshot;
use crate::table::SharedTable;

use super::cubes::{ClusteringMarks, new_marks};
use super::curve;

/// Rows of a row group, at most. Statistics of more rows would be those of most of the curve.
const ROW_GROUP_ROWS: usize = 1 << 15;

/// Rows that are put together at a time.
const CHUNK_ROWS: usize = 8_192;

/// Bytes that a row takes beside its columns while its group is put into order: ranks, positions and row numbers.
const ORDER_BYTES: usize = 48;

/// Bytes of a text, of which the schema does not tell the length.
const ASSUMED_TEXT_BYTES: u64 = 32;

/// Elements of a list, likewise.
const ASSUMED_ELEMENTS: u64 = 4;

/// The limits of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupLimits {
    /// Bytes of the rows of a group in memory, by the types of their columns.
    pub group_bytes: u64,
    /// Bytes of rows that are in memory at a time, as they are. What is larger is put into order part by part.
    pub held_bytes: usize,
    /// Rows of a new file, at least.
    pub file_rows: u64,
}

impl Default for GroupLimits {
    fn default() -> Self {
        Self {
            group_bytes: 512 << 20,
            held_bytes: 1 << 30,
            file_rows: 1_024,
        }
    }
}

impl GroupLimits {
    /// Rows of a group of a table with these columns.
    pub fn group_rows(&self, columns: &[TableColumn]) -> u64 {
        let row: u64 = columns.iter().map(|column| width(&column.kind)).sum();
        (self.group_bytes / (row + ORDER_BYTES as u64)).max(1)
    }
}

/// Bytes of a value in memory.
fn width(kind: &ColumnType) -> u64 {
    match kind {
        ColumnType::Primitive(primitive) => match primitive {
            Primitive::String | Primitive::Binary => ASSUMED_TEXT_BYTES,
            Primitive::Long | Primitive::Double | Primitive::Timestamp | Primitive::TimestampNtz => 8,
            Primitive::Integer | Primitive::Float | Primitive::Date => 4,
            Primitive::Short => 2,
            Primitive::Byte | Primitive::Boolean => 1,
        },
        ColumnType::Decimal(..) => 16,
        ColumnType::Struct(fields) => fields.iter().map(|field| width(&field.kind)).sum(),
        ColumnType::Array(element, _) => ASSUMED_ELEMENTS * width(element),
        ColumnType::Map(key, value, _) => ASSUMED_ELEMENTS * (width(key) + width(value)),
    }
}

/// A rewriting of groups: the table, and the form of new files.
pub(crate) struct Rewrite<'a> {
    pub shared: &'a Arc<SharedTable>,
    pub snapshot: &'a Arc<Snapshot>,
    /// The clustering columns.
    pub columns: &'a [Vec<String>],
    pub writer_options: WriterOptions,
    /// Bytes of a new file.
    pub file_bytes: u64,
    pub limits: GroupLimits,
}

impl Rewrite<'_> {
    /// Writes the rows of a group along the curve, as one cube.
    ///
    /// # Errors
    /// An error if a file cannot be read or written, [`WriteError::Interrupted`] when `go_on` said no. No new file
    /// stays.
    pub fn clustered(&self, old: Vec<Arc<Add>>, go_on: &mut dyn FnMut() -> bool) -> Result<Bin> {
        let mut cube = Cube {
            rewrite: self,
            file_rows: self.file_rows(&old)?,
            marks: new_marks(self.columns),
            held: HeldRows::default(),
            new: Vec::new(),
            places: Vec::new(),
        };
        let sources = cube.fill(old, go_on);
        if sources.is_err() {
            let names = cube
                .new
                .iter()
                .filter_map(|new| path::decode_inside(&new.add.path).ok());
            self.shared.storage.remove(&names.collect::<Vec<_>>());
        }
        Ok(Bin {
            sources: sources?,
            new: cube.new,
            places: Some(cube.places),
        })
    }

    /// Rows of a new file: as many as the old files have in so many bytes.
    fn file_rows(&self, old: &[Arc<Add>]) -> Result<u64> {
        let (mut bytes, mut rows) = (0_u128, 0_u128);
        for add in old {
            bytes += u128::from(add.size.unsigned_abs());
            rows += u128::from(row_count(&self.shared.storage, self.snapshot, add)?);
        }
        let fitting = rows * u128::from(self.file_bytes) / bytes.max(1);
        Ok(u64::try_from(fitting)
            .unwrap_or(u64::MAX)
            .max(self.limits.file_rows))
    }

    /// Bytes that the rows of a batch take until they are written: their own, and those of their values side by side in
    /// the clustering columns.
    fn held_bytes(&self, batch: &RecordBatch) -> Result<usize, ArrowError> {
        let mut bytes = batch.get_array_memory_size() + batch.num_rows() * ORDER_BYTES;
        for column in self.columns {
            bytes += leaf(batch, column)?.get_array_memory_size();
        }
        Ok(bytes)
    }

    fn writer(&self) -> Result<DataWriter> {
        let options = AppendOptions {
            max_file_bytes: Some(i64::MAX),
            ..AppendOptions::default()
        };
        let writer_options = self
            .writer_options
            .clone()
            .with_row_groups_of_at_most(ROW_GROUP_ROWS);
        let (shared, head) = (Arc::clone(self.shared), head_of_copies(&self.snapshot.head)?);
        DataWriter::new(shared, head, options, writer_options)
    }
}

/// Rows that are in memory.
#[derive(Default)]
struct HeldRows {
    batches: Vec<RecordBatch>,
    /// The number of each batch's first row.
    starts: Vec<usize>,
    rows: usize,
    bytes: usize,
}

impl HeldRows {
    fn push(&mut self, batch: RecordBatch, bytes: usize) {
        self.starts.push(self.rows);
        self.rows += batch.num_rows();
        self.bytes += bytes;
        self.batches.push(batch);
    }

    /// The rows of these numbers, in this order.
    fn take(&self, rows: &[u32]) -> Result<RecordBatch, ArrowError> {
        let places = rows.iter().map(|row| {
            let row = *row as usize;
            let batch = self.starts.partition_point(|start| *start <= row) - 1;
            (batch, row - self.starts[batch])
        });
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        interleave_record_batch(&batches, &places.collect::<Vec<_>>())
    }

    /// The values of a column, which may be a field of structs.
    fn column(&self, path: &[String]) -> Result<ArrayRef, ArrowError> {
        let parts = self.batches.iter().map(|batch| leaf(batch, path));
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        concat(&parts)
    }
}

/// The values of a column, null where a struct around it is.
fn leaf(batch: &RecordBatch, path: &[String]) -> Result<ArrayRef, ArrowError> {
    let absent = || ArrowError::SchemaError(format!("no column {path:?}"));
    let (first, fields) = path.split_first().ok_or_else(absent)?;
    let mut values = Arc::clone(batch.column_by_name(first).ok_or_else(absent)?);
    for name in fields {
        let around = values.as_struct_opt().ok_or_else(absent)?;
        let field = around.column_by_name(name).ok_or_else(absent)?;
        values = match around.nulls() {
            None => Arc::clone(field),
            Some(nulls) => nullif(field, &BooleanArray::new(!nulls.inner(), None))?,
        };
    }
    Ok(values)
}

/// A cube that is being written.
struct Cube<'a> {
    rewrite: &'a Rewrite<'a>,
    /// Rows of a new file.
    file_rows: u64,
    marks: ClusteringMarks,
    held: HeldRows,
    new: Vec<NewFile>,
    /// The place of each copied row among the rows of all new files.
    places: Vec<u32>,
}

impl Cube<'_> {
    /// Reads the files and writes their rows. Returns the files as sources of the rows.
    fn fill(&mut self, old: Vec<Arc<Add>>, go_on: &mut dyn FnMut() -> bool) -> Result<Vec<CopiedSource>> {
        let Rewrite { shared, snapshot, .. } = self.rewrite;
        let mut sources = Vec::with_capacity(old.len());
        let mut rows = 0;
        for add in old {
            let first = rows;
            let deleted = deletion_vectors::read(&shared.storage, &add)?;
            for batch in CopiedRows::open(&shared.storage, snapshot, &add, deleted.clone())? {
                if !go_on() {
                    return Err(WriteError::Interrupted.into());
                }
                let batch = batch?;
                rows += batch.num_rows() as u64;
                let bytes = self.rewrite.held_bytes(&batch).map_err(WriteError::from)?;
                if self.held.bytes.saturating_add(bytes) > self.rewrite.limits.held_bytes {
                    self.write(go_on)?;
                }
                self.held.push(batch, bytes);
            }
            sources.push(CopiedSource {
                rows: rows - first + deleted.len(),
                add,
                deleted,
                first,
            });
        }
        self.write(go_on)?;
        Ok(sources)
    }

    /// Writes the rows that are in memory, along the curve.
    fn write(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        let held = std::mem::take(&mut self.held);
        if held.rows == 0 {
            return Ok(());
        }
        let columns = self.rewrite.columns.iter().map(|column| held.column(column));
        let order = columns
            .collect::<Result<Vec<_>, _>>()
            .and_then(|columns| curve::order(&columns));
        let order = order.map_err(WriteError::from)?;
        self.note(&order)?;
        for rows in evenly(order.len(), self.file_rows) {
            let new = self.file(&held, &order[rows], go_on)?;
            self.new.push(new);
        }
        Ok(())
    }

    /// Notes the place of each row that is in memory.
    fn note(&mut self, order: &[u32]) -> Result<()> {
        let first = self.places.len();
        let last = first + order.len();
        if u32::try_from(last).is_err() {
            return Err(TableError::unsupported(format!(
                "a file of {last} rows or more is not clustered: write it again as several, by appends of its rows"
            )));
        }
        self.places.resize(last, 0);
        for (place, row) in (first..).zip(order) {
            self.places[first + *row as usize] = u32::try_from(place).unwrap_or(u32::MAX);
        }
        Ok(())
    }

    /// Writes a file of these rows.
    fn file(&self, held: &HeldRows, rows: &[u32], go_on: &mut dyn FnMut() -> bool) -> Result<NewFile> {
        let mut writer = self.rewrite.writer()?;
        let written = write_rows(&mut writer, held, rows, go_on);
        if written.is_err() {
            writer.discard();
        }
        let (clustering_provider, tags) = self.marks.clone();
        Ok(NewFile {
            add: Add {
                data_change: false,
                clustering_provider,
                tags,
                ..written?
            },
            rows: rows.len() as u64,
        })
    }
}

/// Writes rows into one file.
fn write_rows(
    writer: &mut DataWriter,
    held: &HeldRows,
    rows: &[u32],
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Add> {
    for chunk in rows.chunks(CHUNK_ROWS) {
        if !go_on() {
            return Err(WriteError::Interrupted.into());
        }
        let batch = Batch::from(held.take(chunk).map_err(WriteError::from)?);
        writer.take_known(&batch, go_on)?;
        writer.encode(go_on)?;
    }
    let mut written = writer.finish(go_on)?;
    match written.adds.pop() {
        Some(add) if written.adds.is_empty() && written.rows == rows.len() as u64 => Ok(add),
        _ => Err(TableError::Malformed(format!(
            "{} rows were not written into one file: nothing was changed",
            rows.len()
        ))),
    }
}

/// Ranges of as many numbers each, about `each`.
fn evenly(all: usize, each: u64) -> impl Iterator<Item = Range<usize>> {
    let each = usize::try_from(each).unwrap_or(usize::MAX).max(1);
    let count = (all.saturating_add(each / 2) / each).max(1);
    let (least, more) = (all / count, all % count);
    let start = move |number: usize| number * least + number.min(more);
    (0..count).map(move |number| start(number)..start(number + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_divided_evenly() {
        let parts = |all, each| {
            evenly(all, each)
                .map(|part| (part.start, part.end))
                .collect::<Vec<_>>()
        };
        assert_eq!(parts(10, 4), [(0, 4), (4, 7), (7, 10)]);
        assert_eq!(parts(10, 9), [(0, 10)]);
        assert_eq!(parts(3, 100), [(0, 3)]);
        assert_eq!(parts(3, 1), [(0, 1), (1, 2), (2, 3)]);
    }

    #[test]
    fn values_in_a_null_struct_are_null() {
        use arrow_array::types::Int64Type;
        use arrow_array::{Int64Array, StructArray};
        use arrow_schema::{DataType, Field, Fields};

        let fields = Fields::from(vec![Field::new("x", DataType::Int64, true)]);
        let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), None]));
        let nulls = vec![true, false, true].into();
        let around = StructArray::new(fields, vec![values], Some(nulls));
        let batch = RecordBatch::try_from_iter([("s", Arc::new(around) as ArrayRef)]).unwrap();
        let found = leaf(&batch, &["s".to_owned(), "x".to_owned()]).unwrap();
        let found: Vec<_> = found.as_primitive::<Int64Type>().iter().collect();
        assert_eq!(found, [Some(1), None, None]);
        assert!(leaf(&batch, &["s".to_owned(), "y".to_owned()]).is_err());
    }
}
