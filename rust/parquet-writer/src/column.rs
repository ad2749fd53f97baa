//! Column encoders: the interface between row groups and the encoding of columns.
//!
//! A row group has one [`FieldEncoder`] per top-level field and feeds it runs of rows. Every leaf column has an encoder
//! of its own; a nested field computes the levels of its leaves and hands each its slots.

mod flat;
mod nested;

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use parquet::column::writer::ColumnCloseResult;
use parquet::file::writer::SerializedRowGroupWriter;
use parquet_encode::bloom::BLOCK_BYTES;

pub(crate) use flat::{Preserved, all_texts, is_flat};

use nested::NestedEncoder;

use crate::choose::Choice;
use crate::error::{Result, WriteError};
use crate::options::WriterOptions;
use crate::pages::{ChunkPages, Pages};
use crate::schema::{FileSchema, leaves};
use crate::sink::Output;

/// An encoder for each top-level field, its leaves encoded as `choices` say; their dictionaries begin with what is
/// `preserved`.
pub(crate) fn encoders(
    schema: &FileSchema,
    choices: &[Choice],
    preserved: Vec<Option<Preserved>>,
    pages: &Arc<Pages>,
    options: &WriterOptions,
) -> Vec<Box<dyn FieldEncoder>> {
    let mut first_leaf = 0;
    let mut preserved = preserved.into_iter();
    let fields = schema.encoded.fields().iter().enumerate();
    let encoders = fields.map(|(index, field)| {
        let leaves = leaves(field.data_type());
        let (place, choices) = ((index, first_leaf), &choices[first_leaf..first_leaf + leaves]);
        first_leaf += leaves;
        encoder(schema, place, choices, &mut preserved, pages, options)
    });
    encoders.collect()
}

/// An encoder for one top-level field, given by its index and that of its first leaf.
pub(crate) fn encoder(
    schema: &FileSchema,
    (field, first_leaf): (usize, usize),
    choices: &[Choice],
    preserved: &mut dyn Iterator<Item = Option<Preserved>>,
    pages: &Arc<Pages>,
    options: &WriterOptions,
) -> Box<dyn FieldEncoder> {
    let field = &schema.encoded.fields()[field];
    let leaf = |(leaf, choice): (usize, &Choice)| {
        let leaf = first_leaf + leaf;
        let preserved = preserved.next().flatten();
        flat::leaf_encoder(
            schema.parquet.column(leaf),
            *choice,
            preserved,
            options,
            pages.chunk(leaf),
        )
    };
    let mut leaves: Vec<_> = choices.iter().enumerate().map(leaf).collect();
    match leaves.pop() {
        Some(only) if leaves.is_empty() && is_flat(field.data_type()) => only,
        last => {
            leaves.extend(last);
            Box::new(NestedEncoder::new(Arc::clone(field), leaves))
        }
    }
}

/// Encodes the leaf columns of one top-level field of one row group.
pub(crate) trait FieldEncoder: Send {
    /// Encodes rows. The result must not depend on how they are cut into runs, except for the first run.
    fn write(&mut self, run: &ArrayRef) -> Result<()>;

    /// Adds the values of a dictionary that rows come with to that of a leaf, given by its place in the field.
    fn preserve(&mut self, leaf: usize, values: &ArrayRef) -> Result<()>;

    /// Memory that it holds, without finished pages.
    fn tracked_bytes(&self) -> usize;

    /// Bytes of its chunks if they were closed now, compressed where a page is finished.
    fn encoded_bytes(&self) -> u64;

    /// Bytes of the Bloom filters of its chunks if they were closed now.
    fn filter_bytes(&self) -> u64;

    /// Closes its chunks one by one, so that the memory of each is free before the next is closed.
    fn close(self: Box<Self>, each: &mut dyn FnMut(EncodedChunk) -> Result<()>) -> Result<()>;
}

/// An error of a column's encoder, with the name of the column.
fn in_column(name: &str, error: WriteError) -> WriteError {
    match error {
        WriteError::Encode(message) => WriteError::Encode(format!("column {name:?}: {message}")),
        other => other,
    }
}

/// The error of an array whose type is not that of its column.
fn unexpected(data_type: &DataType) -> WriteError {
    WriteError::Encode(format!(
        "an array of type {data_type} came where its column has another"
    ))
}

/// A finished column chunk.
pub(crate) struct EncodedChunk {
    /// Its metadata and indexes for the footer. Offsets count from the chunk's first byte.
    pub close: ColumnCloseResult,
    /// Its pages, dictionary first.
    pub pages: ChunkPages,
    /// An upper bound of the number of different values.
    pub distinct: usize,
    /// The dictionaries that the rows came with, if they are preserved.
    pub preserved: Option<Preserved>,
    /// The choice that it ended with.
    pub choice: Choice,
}

impl EncodedChunk {
    /// Memory that it leaves until the row group ends: its bloom filter and its preserved dictionary.
    pub fn retained_bytes(&self) -> usize {
        let filter = self
            .close
            .bloom_filter
            .as_ref()
            .map_or(0, |filter| filter.num_blocks() * BLOCK_BYTES);
        filter + self.preserved.as_ref().map_or(0, Preserved::memory_bytes)
    }

    /// Writes its pages to the file and frees them one by one.
    pub fn append_to(self, row_group: &mut SerializedRowGroupWriter<'_, Output>) -> Result<()> {
        Ok(row_group.append_column(&self.pages, self.close)?)
    }
}
