//! Column chunks by the `parquet` crate's encoders.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, FieldRef, SchemaRef};
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::Compression;
use parquet::column::page_store::PageStoreFactory;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::TypePtr;

use super::{EncodedChunk, FieldEncoder, bounds};
use crate::error::{Result, WriteError};
use crate::feed::UNIT_ROWS;
use crate::pages::{ChunkFactory, ChunkPages, Pages};
use crate::weight::Weights;

/// What one leaf column is written with.
pub(crate) struct LeafWriter {
    writer: ArrowColumnWriter,
    pages: ChunkPages,
}

/// How much an encoder takes before it looks at the size of its page.
#[derive(Debug, Clone, Copy)]
struct Piece {
    rows: usize,
    bytes: u64,
}

impl Piece {
    /// An eighth of a page: with the page's limit at three quarters, levels included it stays below the whole.
    fn of(page_bytes: usize) -> Self {
        Self {
            rows: (page_bytes / 128).clamp(1, UNIT_ROWS),
            bytes: (page_bytes / 8).max(1) as u64,
        }
    }
}

/// One encoder for each top-level field of `schema`. Pages that come out of them go through `pages`; `codec` is what
/// they are compressed with in the end.
pub(crate) fn encoders(
    schema: &SchemaRef,
    parquet: TypePtr,
    properties: WriterProperties,
    pages: &Arc<Pages>,
    (codec, page_bytes): (Compression, usize),
) -> Result<Vec<Box<dyn FieldEncoder>>> {
    let factory = Arc::new(ChunkFactory::new(Arc::clone(pages)));
    // The crate ties its factory to a file; this one is only asked for schema and properties.
    let file = SerializedFileWriter::new(std::io::sink(), parquet, Arc::new(properties))?;
    let store = Arc::clone(&factory) as Arc<dyn PageStoreFactory>;
    let writers = ArrowRowGroupWriterFactory::new(&file, Arc::clone(schema)).with_page_store_factory(store);
    let writers = writers.create_column_writers(0)?.into_iter();
    let mut leaves = writers
        .zip(factory.take_chunks())
        .map(|(writer, pages)| LeafWriter { writer, pages });
    let piece = Piece::of(page_bytes);
    let encoder = |field: &FieldRef| -> Box<dyn FieldEncoder> {
        let leaves = leaves.by_ref().take(leaf_count(field.data_type())).collect();
        Box::new(CrateEncoder {
            field: Arc::clone(field),
            leaves,
            piece,
            codec,
        })
    };
    Ok(schema.fields().iter().map(encoder).collect())
}

/// Leaf columns of a type in its encoded form.
pub(crate) fn leaf_count(data_type: &DataType) -> usize {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| leaf_count(field.data_type())).sum(),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => leaf_count(field.data_type()),
        _ => 1,
    }
}

struct CrateEncoder {
    field: FieldRef,
    leaves: Vec<LeafWriter>,
    piece: Piece,
    codec: Compression,
}

impl CrateEncoder {
    fn write_piece(&mut self, piece: &ArrayRef) -> Result<()> {
        let leaves = compute_leaves(&self.field, piece)?;
        let field = &self.field;
        self.leaves.iter_mut().zip(leaves).try_for_each(|(leaf, values)| {
            leaf.writer
                .write(&values)
                .map_err(|error| in_column(field.name(), error))
        })
    }
}

fn in_column(name: &str, error: ParquetError) -> WriteError {
    match WriteError::from(error) {
        WriteError::Encode(message) => WriteError::Encode(format!("column {name:?}: {message}")),
        other => other,
    }
}

impl FieldEncoder for CrateEncoder {
    fn write(&mut self, unit: &ArrayRef) -> Result<()> {
        let weights = Weights::new(std::slice::from_ref(unit));
        let mut start = 0;
        while start < unit.len() {
            let end = (start + self.piece.rows).min(unit.len());
            let (rows, _) = weights.rows_within(start, end, self.piece.bytes);
            self.write_piece(&unit.slice(start, rows))?;
            start += rows;
        }
        Ok(())
    }

    fn tracked_bytes(&self) -> usize {
        self.leaves.iter().map(|leaf| leaf.writer.memory_size()).sum()
    }

    fn encoded_bytes(&self) -> u64 {
        let bytes = |leaf: &LeafWriter| {
            let (finished, put) = leaf.pages.bytes();
            // The crate counts what it put and what it has begun.
            finished + (leaf.writer.get_estimated_total_bytes() as u64).saturating_sub(put)
        };
        self.leaves.iter().map(bytes).sum()
    }

    fn close(self: Box<Self>, each: &mut dyn FnMut(EncodedChunk) -> Result<()>) -> Result<()> {
        let Self {
            field, leaves, codec, ..
        } = *self;
        leaves.into_iter().try_for_each(|LeafWriter { writer, pages }| {
            let close = closed(writer).map_err(|error| in_column(field.name(), error))?;
            each(EncodedChunk {
                close: bounds::comparable(pages.settle(close, codec)?)?,
                pages,
            })
        })
    }
}

fn closed(writer: ArrowColumnWriter) -> Result<ColumnCloseResult, ParquetError> {
    Ok(writer.close()?.close().clone())
}
