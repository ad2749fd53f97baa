//! Column chunks by the `parquet` crate's encoders.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, FieldRef, Schema};
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::column::page_store::PageStoreFactory;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};

use super::{EncodedChunk, FieldEncoder, bounds};
use crate::choose::{self, Choice};
use crate::error::{Result, WriteError};
use crate::feed::{UNIT_ROWS, copied};
use crate::normalize;
use crate::options::WriterOptions;
use crate::pages::{ChunkFactory, ChunkPages, Pages};
use crate::schema::FileSchema;
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

/// An encoder for one top-level field, given by its index and that of its first leaf.
pub(super) fn encoder(
    schema: &FileSchema,
    (field, first_leaf): (usize, usize),
    choices: &[Choice],
    pages: &Arc<Pages>,
    options: &WriterOptions,
) -> Result<Box<dyn FieldEncoder>> {
    let factory = Arc::new(ChunkFactory::new(Arc::clone(pages), first_leaf));
    let paths = schema.parquet.columns()[first_leaf..]
        .iter()
        .map(|column| column.path().clone());
    let columns: Vec<_> = paths.zip(choices.iter().copied()).collect();
    let properties = choose::properties(options, &columns, |leaf| pages.filter_plan(first_leaf + leaf));
    let arrow = Arc::new(Schema::new(vec![Arc::clone(&schema.encoded.fields()[field])]));
    // The crate ties its factory to a file; this one is only asked for schema and properties.
    let file = SerializedFileWriter::new(std::io::sink(), alone(schema, field)?, Arc::new(properties))?;
    let store = Arc::clone(&factory) as Arc<dyn PageStoreFactory>;
    let writers = ArrowRowGroupWriterFactory::new(&file, arrow).with_page_store_factory(store);
    let writers = writers.create_column_writers(0)?.into_iter();
    let leaves = writers
        .zip(factory.take_chunks())
        .map(|(writer, pages)| LeafWriter { writer, pages });
    Ok(Box::new(CrateEncoder {
        field: Arc::clone(&schema.encoded.fields()[field]),
        leaves: leaves.collect(),
        piece: Piece::of(options.page_bytes),
        carried: Arc::clone(&schema.carried.fields()[field]),
        waiting: Vec::new(),
    }))
}

/// The file's schema with one field only.
fn alone(schema: &FileSchema, field: usize) -> Result<TypePtr> {
    let root = schema.parquet.root_schema();
    let field = Arc::clone(&root.get_fields()[field]);
    let root = Type::group_type_builder(root.name()).with_fields(vec![field]);
    Ok(Arc::new(root.build()?))
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
    /// The field as copies of its rows have it.
    carried: FieldRef,
    /// The beginning of a unit.
    waiting: Vec<ArrayRef>,
}

impl CrateEncoder {
    /// Keeps a copy of rows whose unit is not whole: their batch is gone when the call returns.
    fn wait(&mut self, rows: &ArrayRef) -> Result<()> {
        let rows = normalize::exactly(rows, self.carried.data_type())?;
        self.waiting.push(copied(&[&rows])?);
        Ok(())
    }

    fn write_waiting(&mut self) -> Result<()> {
        let parts = std::mem::take(&mut self.waiting);
        if parts.is_empty() {
            return Ok(());
        }
        self.write_unit(&copied(&parts.iter().collect::<Vec<_>>())?)
    }

    fn write_unit(&mut self, unit: &ArrayRef) -> Result<()> {
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
    fn write(&mut self, run: &ArrayRef, ends: &[usize]) -> Result<()> {
        let mut start = 0;
        for &end in ends {
            let rows = run.slice(start, end - start);
            if self.waiting.is_empty() {
                self.write_unit(&rows)?;
            } else {
                self.wait(&rows)?;
                self.write_waiting()?;
            }
            start = end;
        }
        if start < run.len() {
            self.wait(&run.slice(start, run.len() - start))?;
        }
        Ok(())
    }

    fn tracked_bytes(&self) -> usize {
        let leaves: usize = self.leaves.iter().map(|leaf| leaf.writer.memory_size()).sum();
        let waiting: usize = self.waiting.iter().map(Array::get_buffer_memory_size).sum();
        leaves + waiting
    }

    fn encoded_bytes(&self) -> u64 {
        let bytes = |leaf: &LeafWriter| {
            let (finished, put) = leaf.pages.bytes();
            // The crate counts what it put and what it has begun.
            finished + (leaf.writer.get_estimated_total_bytes() as u64).saturating_sub(put)
        };
        self.leaves.iter().map(bytes).sum()
    }

    fn close(mut self: Box<Self>, each: &mut dyn FnMut(EncodedChunk) -> Result<()>) -> Result<()> {
        self.write_waiting()?;
        let Self { field, leaves, .. } = *self;
        leaves.into_iter().try_for_each(|LeafWriter { writer, pages }| {
            let close = closed(writer).map_err(|error| in_column(field.name(), error))?;
            each(EncodedChunk {
                close: bounds::comparable(pages.settle(close)?)?,
                pages,
            })
        })
    }
}

fn closed(writer: ArrowColumnWriter) -> Result<ColumnCloseResult, ParquetError> {
    Ok(writer.close()?.close().clone())
}
