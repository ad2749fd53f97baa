//! All values: decoded by the `parquet` crate, and compared by checksums with those that came in.
//!
//! The checksums are of the values that are stored: after times were put into the units that the file has, and after
//! rows were sorted. They are of all values of a column in one row group, in their order, nulls included.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups};
use parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels};
use parquet::column::page::{PageIterator, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::schema::types::{SchemaDescriptor, Type};
use row_digest::Sequence;

use super::pages::{self, CheckedPages};
use super::window::FileWindow;
use super::{Written, in_column, undecodable};
use crate::error::{Result, WriteError};
use crate::feed::BatchRows;
use crate::int96;
use crate::integrity;
use crate::lists::element_field;
use crate::normalize;
use crate::row_group::Patience;
use crate::schema::FileSchema;

/// Bytes of the values that are decoded at once, about.
const BATCH_BYTES: u64 = 1 << 20;
/// The most rows that are decoded at once.
const BATCH_ROWS: u64 = 8192;

/// Checksums of the values on their way in: of each column in each row group.
#[derive(Default)]
pub(crate) struct Digests {
    closed: Vec<Vec<u64>>,
    open: Vec<Sequence>,
}

impl Digests {
    /// Adds rows of the row group that is open.
    ///
    /// # Errors
    /// [`WriteError::Data`] for text that is not valid, which encoding would find later.
    pub fn add(&mut self, rows: &BatchRows, schema: &FileSchema) -> Result<()> {
        let fields = schema.carried.fields();
        self.open.resize_with(fields.len(), Sequence::default);
        for (index, (field, sequence)) in fields.iter().zip(&mut self.open).enumerate() {
            let column = rows.column(index);
            integrity::check_run(schema.declared.field(index).name(), &column)?;
            add(sequence, &readable(&column, field.data_type())?)?;
        }
        Ok(())
    }

    /// Ends the row group.
    pub fn end_row_group(&mut self) {
        let open = std::mem::take(&mut self.open);
        self.closed.push(open.iter().map(Sequence::checksum).collect());
    }
}

fn add(sequence: &mut Sequence, values: &ArrayRef) -> Result<()> {
    sequence
        .update(values.as_ref())
        .map_err(|error| WriteError::Encode(error.to_string()))
}

/// The column in a layout whose slots can all be read. Slots below nulls may hold anything, and runs have no digest.
fn readable(column: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    let is_readable = match column.data_type() {
        // Checked, and slots that are null are not read.
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => true,
        given => {
            !holds(given, &|inner| matches!(inner, DataType::RunEndEncoded(_, _)))
                && integrity::is_sound(column)
        }
    };
    let column = if is_readable {
        Arc::clone(column)
    } else {
        normalize::exactly(column, target)?
    };
    if holds(target, &|inner| *inner == DataType::Date64) {
        let column = normalize::exactly(&column, target)?;
        return Ok(arrow_cast::cast(&column, &compared(target))?);
    }
    Ok(column)
}

/// Compares the values of all row groups. Returns the most memory that it took.
pub(super) fn check(
    written: &Written<'_>,
    found: &ParquetMetaData,
    file: &FileWindow,
    most: usize,
    patience: &mut Patience<'_>,
) -> Result<usize> {
    let mut memory = 0;
    let mut first_leaf = 0;
    // Column by column, so that only the pages of one are in memory.
    for column in 0..written.schema.carried.fields().len() {
        let column = FileColumn::new(written.schema, column, first_leaf)?;
        first_leaf += column.leaves;
        for group in 0..found.num_row_groups() {
            let expected = written.digests.and_then(|digests| digests.closed.get(group));
            let expected = expected.and_then(|columns| columns.get(column.index));
            let chunk = ColumnChunks {
                column: &column,
                found,
                group,
            };
            let (checksum, taken) = chunk.read(file, most, patience)?;
            if expected != Some(&checksum) {
                return Err(in_column(
                    &column.name,
                    group,
                    "its values, as they are decoded, are not those that were written",
                ));
            }
            memory = memory.max(taken);
        }
    }
    Ok(memory)
}

/// A column of the file, which may have several leaves.
struct FileColumn {
    index: usize,
    name: String,
    first_leaf: usize,
    leaves: usize,
    levels: FieldLevels,
    /// The unit of times that are stored as INT96.
    int96: Option<TimeUnit>,
}

impl FileColumn {
    fn new(schema: &FileSchema, index: usize, first_leaf: usize) -> Result<Self> {
        let field = schema.encoded.field(index);
        let int96 = schema.int96[index].then(|| time_unit(schema.declared.field(index).data_type()));
        let read = match int96 {
            Some(unit) => DataType::Timestamp(unit, None),
            None => viewed(&compared(field.data_type())),
        };
        let hint = Fields::from(vec![Field::clone(field).with_data_type(read)]);
        let node = Arc::clone(&schema.parquet.root_schema().get_fields()[index]);
        let root = Type::group_type_builder("schema")
            .with_fields(vec![node])
            .build()?;
        let root = SchemaDescriptor::new(Arc::new(root));
        Ok(Self {
            index,
            name: field.name().clone(),
            first_leaf,
            leaves: root.num_columns(),
            levels: parquet_to_arrow_field_levels(&root, ProjectionMask::all(), Some(&hint))?,
            int96,
        })
    }
}

/// The type with days in the place of dates in milliseconds, of which the file has no more than the day.
fn compared(data_type: &DataType) -> DataType {
    mapped(data_type, &|leaf| match leaf {
        DataType::Date64 => DataType::Date32,
        other => other.clone(),
    })
}

/// The type by which values are read, with views of text and bytes: they are not copied out of their pages.
fn viewed(data_type: &DataType) -> DataType {
    mapped(data_type, &|leaf| match leaf {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        other => other.clone(),
    })
}

/// Returns true if this is so of the type or of one inside of it.
fn holds(data_type: &DataType, is_so: &dyn Fn(&DataType) -> bool) -> bool {
    is_so(data_type)
        || match data_type {
            DataType::Struct(fields) => fields.iter().any(|field| holds(field.data_type(), is_so)),
            DataType::Dictionary(_, values) => holds(values, is_so),
            other => element_field(other).is_some_and(|field| holds(field.data_type(), is_so)),
        }
}

/// The type with other leaves.
fn mapped(data_type: &DataType, leaf: &dyn Fn(&DataType) -> DataType) -> DataType {
    let inner = |field: &Arc<Field>| {
        let read = mapped(field.data_type(), leaf);
        Arc::new(Field::clone(field).with_data_type(read))
    };
    match data_type {
        DataType::List(field) => DataType::List(inner(field)),
        DataType::LargeList(field) => DataType::LargeList(inner(field)),
        DataType::FixedSizeList(field, size) => DataType::FixedSizeList(inner(field), *size),
        DataType::Map(field, sorted) => DataType::Map(inner(field), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        other => leaf(other),
    }
}

fn time_unit(data_type: &DataType) -> TimeUnit {
    match data_type {
        DataType::Timestamp(unit, _) => *unit,
        DataType::Dictionary(_, values) => time_unit(values),
        DataType::RunEndEncoded(_, values) => time_unit(values.data_type()),
        _ => TimeUnit::Nanosecond,
    }
}

/// The chunks of a column in one row group.
struct ColumnChunks<'a> {
    column: &'a FileColumn,
    found: &'a ParquetMetaData,
    group: usize,
}

impl ColumnChunks<'_> {
    /// The checksum of its values, and the memory that they took.
    fn read(&self, file: &FileWindow, most: usize, patience: &mut Patience<'_>) -> Result<(u64, usize)> {
        let mut opened = Vec::new();
        let mut progress = Vec::new();
        for leaf in 0..self.column.leaves {
            let place = (self.group, self.column.first_leaf + leaf);
            let (start, bytes) = self.found.row_group(place.0).column(place.1).byte_range();
            let file = file.until(start + bytes, most / self.column.leaves);
            let (pages, own) = pages::open(self.found, place, file)?;
            opened.push(std::sync::Mutex::new(Some(pages)));
            progress.push(own);
        }
        let source = ChunkSource { chunk: self, opened };
        let differs = |error: &dyn std::fmt::Display| {
            let found = progress.iter().find(|leaf| leaf.has_failed());
            let leaf = found.or(progress.first());
            leaf.map_or_else(
                || WriteError::Encode(error.to_string()),
                |leaf| leaf.error(&error.to_string()),
            )
        };
        let rows = self.batch_rows();
        let reader =
            ParquetRecordBatchReader::try_new_with_row_groups(&self.column.levels, &source, rows, None)
                .map_err(undecodable)?;
        let mut sequence = Sequence::default();
        let mut memory = 0;
        for batch in reader {
            let batch = batch.map_err(|error| differs(&error))?;
            let values = batch.column(0);
            memory = memory.max(values.get_array_memory_size());
            match self.column.int96 {
                Some(unit) => {
                    let stored = int96::from_timestamps(values, unit).map_err(|error| differs(&error))?;
                    add(&mut sequence, &stored)?;
                }
                None => add(&mut sequence, values)?,
            }
            patience.check()?;
        }
        for leaf in &progress {
            memory += leaf.end()? + file.ahead();
        }
        Ok((sequence.checksum(), memory))
    }

    /// Rows whose values take about as many bytes as may be decoded at once.
    fn batch_rows(&self) -> usize {
        let group = self.found.row_group(self.group);
        let leaves = self.column.first_leaf..self.column.first_leaf + self.column.leaves;
        let bytes = group.columns()[leaves].iter().map(|chunk| {
            let bytes = chunk
                .uncompressed_size()
                .max(chunk.num_values().saturating_mul(8));
            u64::try_from(bytes).unwrap_or(0)
        });
        let rows = u64::try_from(group.num_rows()).unwrap_or(0);
        let each = bytes.sum::<u64>() / rows.max(1);
        usize::try_from((BATCH_BYTES / each.max(1)).clamp(1, BATCH_ROWS)).unwrap_or(1)
    }
}

/// The chunks as the decoder asks for them.
struct ChunkSource<'a> {
    chunk: &'a ColumnChunks<'a>,
    opened: Vec<std::sync::Mutex<Option<CheckedPages>>>,
}

impl RowGroups for ChunkSource<'_> {
    fn num_rows(&self) -> usize {
        let rows = self.chunk.found.row_group(self.chunk.group).num_rows();
        usize::try_from(rows).unwrap_or(0)
    }

    fn column_chunks(&self, leaf: usize) -> Result<Box<dyn PageIterator>, ParquetError> {
        let pages = self.opened.get(leaf).and_then(|pages| pages.lock().ok()?.take());
        let pages = pages.ok_or_else(|| ParquetError::General(format!("leaf {leaf} is read twice")))?;
        Ok(Box::new(OneChunk(Some(pages))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.chunk.found.row_group(self.chunk.group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        self.chunk.found
    }
}

struct OneChunk(Option<CheckedPages>);

impl Iterator for OneChunk {
    type Item = Result<Box<dyn PageReader>, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0
            .take()
            .map(|pages| Ok(Box::new(pages) as Box<dyn PageReader>))
    }
}

impl PageIterator for OneChunk {}
