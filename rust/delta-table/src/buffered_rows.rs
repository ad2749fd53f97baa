//! Rows that an append keeps until its commit, copied so that their owner may change the originals.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait, make_array};
use arrow_cast::cast;
use arrow_data::transform::MutableArrayData;
use arrow_schema::{DataType, SchemaRef};
use arrow_select::concat::concat;
use parquet_writer::{Batch, WriteError};

use crate::error::{Result, TableError};

/// The most bytes of rows that an append keeps. With more it writes files of its own: only small appends gain by
/// sharing.
const KEPT_BYTES: usize = 4 << 20;

/// Rows that it keeps.
const KEPT_ROWS: usize = 1 << 16;

/// Rows that wait for the commit of their append.
#[derive(Default)]
pub(crate) struct BufferedRows {
    batches: Vec<Batch>,
    rows: usize,
    bytes: usize,
}

impl BufferedRows {
    /// Copies the rows of a batch, whose owner may change or free it afterwards. Returns false when they are too many
    /// to be kept.
    pub fn keep(&mut self, batch: &Batch, schema: &SchemaRef) -> Result<bool> {
        let room = KEPT_BYTES - self.bytes;
        if self.rows + batch.rows() > KEPT_ROWS || batch.columns().iter().map(at_most).sum::<usize>() > room {
            return Ok(false);
        }
        if batch.rows() == 0 {
            return Ok(true);
        }
        let columns = batch.columns().iter().zip(schema.fields());
        let columns = columns.map(|(column, field)| copied(column, field.data_type()));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let bytes: usize = columns.iter().map(bytes_of).sum();
        if bytes > room {
            return Ok(false);
        }
        self.batches
            .push(Batch::new(Arc::clone(schema), columns, batch.rows())?);
        self.rows += batch.rows();
        self.bytes += bytes;
        Ok(true)
    }

    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    pub fn into_batches(self) -> Vec<Batch> {
        self.batches
    }
}

/// Joins the rows of several appends into few batches. Most batches then meet each partition once, and its file stays
/// open.
pub(crate) fn joined<'a>(all: impl Iterator<Item = &'a BufferedRows>) -> Result<Vec<Batch>> {
    let mut groups: Vec<Vec<&Batch>> = Vec::new();
    let mut bytes = usize::MAX;
    for buffered in all {
        bytes = bytes.saturating_add(buffered.bytes);
        if bytes > KEPT_BYTES {
            groups.push(Vec::new());
            bytes = buffered.bytes;
        }
        if let Some(group) = groups.last_mut() {
            group.extend(&buffered.batches);
        }
    }
    groups.iter().filter_map(|group| one_of(group)).collect()
}

/// Joins batches of one schema.
fn one_of(batches: &[&Batch]) -> Option<Result<Batch>> {
    let schema = batches.first()?.schema();
    let columns = (0..schema.fields().len()).map(|index| {
        let parts: Vec<&dyn Array> = batches
            .iter()
            .map(|batch| batch.columns()[index].as_ref())
            .collect();
        concat(&parts).map_err(WriteError::from)
    });
    let rows = batches.iter().map(|batch| batch.rows()).sum();
    let columns = columns.collect::<Result<Vec<_>, _>>();
    Some(
        columns
            .and_then(|columns| Batch::new(Arc::clone(schema), columns, rows))
            .map_err(TableError::from),
    )
}

/// An upper bound of the bytes of a column's copy, as far as it is known without copying. It is zero for nested
/// columns: a slice does not tell which elements are its own.
fn at_most(column: &ArrayRef) -> usize {
    match column.data_type() {
        DataType::Dictionary(_, _) => {
            let values = column.as_any_dictionary().values();
            column.len().saturating_mul(longest(values))
        }
        DataType::Utf8View => lengths(column.as_string_view().views()),
        DataType::BinaryView => lengths(column.as_binary_view().views()),
        nested if nested.is_nested() => 0,
        _ => bytes_of(column),
    }
}

/// Bytes of the longest value.
fn longest(values: &ArrayRef) -> usize {
    fn widest<T: OffsetSizeTrait>(offsets: &[T]) -> usize {
        let widths = offsets.windows(2).map(|ends| (ends[1] - ends[0]).as_usize());
        widths.max().unwrap_or(0)
    }
    match values.data_type() {
        DataType::Utf8 => widest(values.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => widest(values.as_string::<i64>().value_offsets()),
        DataType::Binary => widest(values.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => widest(values.as_binary::<i64>().value_offsets()),
        _ => bytes_of(values),
    }
}

/// The bytes of all values. Their lengths are the first four bytes of their views (Arrow columnar format,
/// "Variable-size Binary View Layout").
fn lengths(views: &[u128]) -> usize {
    views
        .iter()
        .map(|view| (view & u128::from(u32::MAX)) as usize)
        .sum()
}

/// Bytes that a column takes.
fn bytes_of(column: &ArrayRef) -> usize {
    let sliced = column.to_data().get_slice_memory_size();
    sliced.unwrap_or_else(|_| column.get_array_memory_size())
}

/// A copy of the values, in a type without dictionaries or views, which would share memory.
fn copied(column: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    let column = cast(column, target).map_err(WriteError::from)?;
    let data = column.to_data();
    let mut copy = MutableArrayData::new(vec![&data], false, data.len());
    copy.try_extend(0, 0, data.len()).map_err(WriteError::from)?;
    Ok(make_array(copy.freeze()))
}
