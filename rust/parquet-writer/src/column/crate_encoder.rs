//! Column chunks by the `parquet` crate's encoders.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{FieldRef, SchemaRef};
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::column::page_store::PageStoreFactory;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::TypePtr;

use super::{EncodedChunk, FieldEncoder};
use crate::error::{Result, WriteError};
use crate::feed::UNIT_ROWS;
use crate::sink::Output;
use crate::weight::Weights;

/// Makes the encoders of a row group.
pub(crate) struct Factory {
    writers: ArrowRowGroupWriterFactory,
    schema: SchemaRef,
    piece: Piece,
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
        Self { rows: (page_bytes / 128).clamp(1, UNIT_ROWS), bytes: (page_bytes / 8).max(1) as u64 }
    }
}

impl Factory {
    pub fn new(
        schema: SchemaRef,
        parquet: TypePtr,
        properties: WriterProperties,
        pages: Arc<dyn PageStoreFactory>,
        page_bytes: usize,
    ) -> Result<Self> {
        // The crate ties its factory to a file; this one is only asked for schema and properties.
        let file = SerializedFileWriter::new(super::nowhere(), parquet, Arc::new(properties))?;
        let writers = ArrowRowGroupWriterFactory::new(&file, Arc::clone(&schema)).with_page_store_factory(pages);
        Ok(Self { writers, schema, piece: Piece::of(page_bytes) })
    }

    /// One encoder for each top-level field.
    pub fn encoders(&self) -> Result<Vec<Box<dyn FieldEncoder>>> {
        let mut leaves = self.writers.create_column_writers(0)?.into_iter();
        let encoder = |field: &FieldRef| -> Box<dyn FieldEncoder> {
            let leaves: Vec<_> = leaves.by_ref().take(leaf_count(field.data_type())).collect();
            Box::new(CrateEncoder { field: Arc::clone(field), leaves, piece: self.piece })
        };
        Ok(self.schema.fields().iter().map(encoder).collect())
    }
}

/// Leaf columns of a type in its encoded form.
pub(crate) fn leaf_count(data_type: &arrow_schema::DataType) -> usize {
    use arrow_schema::DataType;
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| leaf_count(field.data_type())).sum(),
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) | DataType::Map(field, _) => {
            leaf_count(field.data_type())
        }
        _ => 1,
    }
}

struct CrateEncoder {
    field: FieldRef,
    leaves: Vec<ArrowColumnWriter>,
    piece: Piece,
}

impl CrateEncoder {
    fn write_piece(&mut self, piece: &ArrayRef) -> Result<()> {
        for (writer, leaf) in self.leaves.iter_mut().zip(compute_leaves(&self.field, piece)?) {
            writer.write(&leaf).map_err(|error| match WriteError::from(error) {
                WriteError::Encode(message) => WriteError::Encode(format!("column {:?}: {message}", self.field.name())),
                other => other,
            })?;
        }
        Ok(())
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
        self.leaves.iter().map(ArrowColumnWriter::memory_size).sum()
    }

    fn encoded_bytes(&self) -> u64 {
        self.leaves.iter().map(|leaf| leaf.get_estimated_total_bytes() as u64).sum()
    }

    fn close(self: Box<Self>, each: &mut dyn FnMut(Box<dyn EncodedChunk>) -> Result<()>) -> Result<()> {
        self.leaves.into_iter().try_for_each(|leaf| each(Box::new(CrateChunk(leaf.close()?))))
    }
}

struct CrateChunk(ArrowColumnChunk);

impl EncodedChunk for CrateChunk {
    fn metadata(&self) -> &ColumnChunkMetaData {
        &self.0.close().metadata
    }

    fn append_to(self: Box<Self>, row_group: &mut SerializedRowGroupWriter<'_, Output>) -> Result<()> {
        Ok(self.0.append_to_row_group(row_group)?)
    }
}
