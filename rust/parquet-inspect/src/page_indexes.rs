//! The page indexes of a file that may come from anyone, checked before they are decoded.
//!
//! The decoder makes room for as many pages as an offset index says that there are, before it reads one of them. Ten
//! bytes can ask for 50 GB, and the process ends where there is no such memory.

use std::ops::Range;

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMask, ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader,
    RowGroupMetaData,
};
use parquet::file::reader::{ChunkReader, Length};

use crate::schema_nodes::check_pages;

/// Reads the page indexes of these column chunks, as far as the file has them.
///
/// # Errors
/// Those of the decoder; and [`ParquetError::General`] when an offset index says that it has more pages than bytes.
pub fn read_page_indexes<R: ChunkReader>(
    metadata: ParquetMetaData,
    file: &R,
    mask: ColumnChunkMask,
) -> Result<ParquetMetaData, ParquetError> {
    let chunks = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    let file = Checked {
        file,
        indexes: chunks
            .filter_map(ColumnChunkMetaData::offset_index_range)
            .collect(),
    };
    let mut reader = ParquetMetaDataReader::new_with_metadata(metadata)
        .with_page_index_policy(PageIndexPolicy::Optional)
        .with_page_index_mask(mask);
    reader.read_page_indexes(&file)?;
    reader.finish()
}

/// A file whose offset indexes are checked as they are read.
struct Checked<'a, R> {
    file: &'a R,
    /// Their places in the file.
    indexes: Vec<Range<u64>>,
}

impl<R: ChunkReader> Length for Checked<'_, R> {
    fn len(&self) -> u64 {
        self.file.len()
    }
}

impl<R: ChunkReader> ChunkReader for Checked<'_, R> {
    type T = R::T;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        self.file.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let bytes = self.file.get_bytes(start, length)?;
        let place = |byte: u64| byte.checked_sub(start).and_then(|at| usize::try_from(at).ok());
        for index in &self.indexes {
            let found = place(index.start).zip(place(index.end));
            if let Some(index) = found.and_then(|(from, to)| bytes.get(from..to)) {
                check_pages(index)?;
            }
        }
        Ok(bytes)
    }
}
