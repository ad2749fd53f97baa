//! The seam: how a column becomes a column chunk.
//!
//! A row group asks for one [`FieldEncoder`] for each top-level field and feeds it units. Today every field is encoded
//! by the `parquet` crate; an encoder of our own for flat columns implements the same trait and puts its pages into the
//! same [`ChunkPages`].

mod bounds;
mod crate_encoder;

use arrow_array::ArrayRef;
use parquet::column::writer::ColumnCloseResult;
use parquet::file::writer::SerializedRowGroupWriter;

pub(crate) use crate_encoder::{encoders, leaf_count};

use crate::error::Result;
use crate::pages::ChunkPages;
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
    fn close(self: Box<Self>, each: &mut dyn FnMut(EncodedChunk) -> Result<()>) -> Result<()>;
}

/// A finished column chunk.
pub(crate) struct EncodedChunk {
    /// What the footer will say of it; offsets count from its first byte.
    pub close: ColumnCloseResult,
    /// Its pages, dictionary first.
    pub pages: ChunkPages,
}

impl EncodedChunk {
    /// Writes its pages to the file and frees them one by one.
    pub fn append_to(self, row_group: &mut SerializedRowGroupWriter<'_, Output>) -> Result<()> {
        Ok(row_group.append_column(&self.pages, self.close)?)
    }
}
