//! The seam: how a column becomes a column chunk.
//!
//! A row group asks for one [`FieldEncoder`] for each top-level field and feeds it units. Today every field is encoded
//! by the `parquet` crate; an encoder of our own for flat columns implements the same two traits.

mod crate_encoder;

use std::io::Write;

use arrow_array::ArrayRef;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::writer::SerializedRowGroupWriter;

pub(crate) use crate_encoder::Factory;

use crate::error::Result;
use crate::sink::Output;

/// Encodes the leaf columns of one top-level field of one row group.
pub(crate) trait FieldEncoder: Send {
    /// Encodes one unit.
    fn write(&mut self, unit: &ArrayRef) -> Result<()>;

    /// Memory it holds, pages that are finished left out.
    fn tracked_bytes(&self) -> usize;

    /// Bytes of its chunks if they were closed now, compressed where a page is finished.
    fn encoded_bytes(&self) -> u64;

    /// Closes its chunks one by one, so that the memory of each is free before the next is closed.
    fn close(self: Box<Self>, each: &mut dyn FnMut(Box<dyn EncodedChunk>) -> Result<()>) -> Result<()>;
}

/// A finished column chunk.
pub(crate) trait EncodedChunk {
    /// What the footer will say of it, but for its place in the file.
    fn metadata(&self) -> &ColumnChunkMetaData;

    /// Writes its pages to the file and frees them one by one.
    fn append_to(self: Box<Self>, row_group: &mut SerializedRowGroupWriter<'_, Output>) -> Result<()>;
}

/// A place for bytes that are not wanted.
pub(crate) fn nowhere() -> impl Write + Send {
    std::io::sink()
}
