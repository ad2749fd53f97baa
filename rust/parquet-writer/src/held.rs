//! Batches whose rows wait for those of later calls.
//!
//! A few thousand rows are not enough to encode one column after the other: each call would begin with dictionaries
//! that left the cache, and with buffers of all columns. So batches that stay as they are may be held by reference
//! until they make a round. When that is changes no byte of a file.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, OffsetSizeTrait};
use arrow_schema::DataType;

use crate::batch::Batch;

/// Rows of a round.
const ROUND_ROWS: usize = 100_000;
/// Bytes of a round whose rows are large.
const ROUND_BYTES: usize = 64 << 20;
/// Batches of a round, each of which takes some memory beside its rows.
const ROUND_BATCHES: usize = 1024;

/// Batches that are held until they make a round.
#[derive(Debug, Default)]
pub struct HeldBatches {
    batches: Vec<Batch>,
    rows: usize,
    bytes: usize,
}

impl HeldBatches {
    /// Holds a batch.
    pub fn add(&mut self, batch: &Batch) {
        self.rows += batch.rows;
        self.bytes += bytes_of(batch);
        self.batches.push(batch.clone());
    }

    /// Bytes of the rows that are held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if the batches make a round.
    #[must_use]
    pub fn is_round(&self) -> bool {
        self.rows >= ROUND_ROWS || self.bytes >= ROUND_BYTES || self.batches.len() >= ROUND_BATCHES
    }

    /// Holds nothing any more, and returns the batches. Their buffers are freed with them, which may call their
    /// producer.
    #[must_use]
    pub fn release(&mut self) -> Vec<Batch> {
        std::mem::take(self).batches
    }
}

/// Bytes of the rows of a batch. Of slices, the rows of flat columns count; buffers of other columns count whole.
fn bytes_of(batch: &Batch) -> usize {
    batch.columns.iter().map(column_bytes).sum()
}

fn column_bytes(column: &ArrayRef) -> usize {
    let rows = column.len();
    let values = match column.data_type() {
        DataType::Utf8 => text_bytes(column.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => text_bytes(column.as_string::<i64>().value_offsets()),
        DataType::Binary => text_bytes(column.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => text_bytes(column.as_binary::<i64>().value_offsets()),
        DataType::Boolean => rows / 8,
        other => match other.primitive_width() {
            Some(width) => rows * width,
            None => return column.get_buffer_memory_size(),
        },
    };
    values + column.nulls().map_or(0, |_| rows / 8)
}

/// Bytes of text and of its offsets, which are not checked yet.
fn text_bytes<O: OffsetSizeTrait>(offsets: &[O]) -> usize {
    let ends = offsets.first().zip(offsets.last());
    let text = ends.map_or(0, |(first, last)| {
        last.as_usize().saturating_sub(first.as_usize())
    });
    text + size_of_val(offsets)
}
