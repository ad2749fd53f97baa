//! The footer of a file that may come from anyone, checked before it is decoded.
//!
//! A file lists the nodes of its schema in depth-first order (`parquet.thrift`, `FileMetaData.schema`), and decoders
//! make a tree of them by recursion. A footer of 800 KB can nest 100,000 nodes, which overflows the stack and ends the
//! process. So the list is read first, without recursion.

use bytes::{Buf, Bytes};
use parquet::errors::ParquetError;
use parquet::file::FOOTER_SIZE;
use parquet::file::metadata::{
    ColumnChunkMetaData, FooterTail, ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader,
    RowGroupMetaData,
};
use parquet::file::reader::{ChunkReader, Length};

use crate::schema_nodes::check_schema;

/// Reads the footer of a file, and no page index.
///
/// # Errors
/// Those of the decoder; and [`ParquetError::General`] when columns are nested deeper than [`MOST_LEVELS`] levels,
/// their names together take more memory than any file needs, or a column chunk has a negative place or size.
///
/// [`MOST_LEVELS`]: crate::MOST_LEVELS
pub fn read_footer<R: ChunkReader>(
    file: &R,
    options: ParquetMetaDataOptions,
) -> Result<ParquetMetaData, ParquetError> {
    let end = FileTail::of(file)?;
    if !end.is_encrypted {
        check_schema(&end.bytes[..end.bytes.len() - FOOTER_SIZE])?;
    }
    let metadata = ParquetMetaDataReader::new()
        .with_metadata_options(Some(options))
        .parse_and_finish(&end)?;
    check_places(&metadata)?;
    Ok(metadata)
}

/// Refuses column chunks with negative places or sizes, at which readers panic.
fn check_places(metadata: &ParquetMetaData) -> Result<(), ParquetError> {
    let mut chunks = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    let is_negative = |chunk: &ColumnChunkMetaData| {
        let dictionary = chunk.dictionary_page_offset().unwrap_or(0);
        dictionary < 0 || chunk.data_page_offset() < 0 || chunk.compressed_size() < 0
    };
    match chunks.find(|chunk| is_negative(chunk)) {
        None => Ok(()),
        Some(chunk) => Err(ParquetError::General(format!(
            "a column chunk of {} has a negative place or size",
            chunk.column_path()
        ))),
    }
}

/// The end of a file from its footer on, in memory: it is read once and parsed twice.
struct FileTail {
    start: u64,
    bytes: Bytes,
    is_encrypted: bool,
}

impl FileTail {
    fn of<R: ChunkReader>(file: &R) -> Result<Self, ParquetError> {
        let size = file.len();
        let cut = |what: &str| ParquetError::EOF(format!("the file has {size} bytes, {what}"));
        let start = size
            .checked_sub(FOOTER_SIZE as u64)
            .ok_or_else(|| cut("fewer than the end of a Parquet file"))?;
        let tail = file.get_bytes(start, FOOTER_SIZE)?;
        let tail = FooterTail::try_from(tail.as_ref())?;
        let length = tail.metadata_length();
        let start = start
            .checked_sub(length as u64)
            .ok_or_else(|| cut(&format!("and its footer is said to have {length}")))?;
        Ok(Self {
            start,
            bytes: file.get_bytes(start, length + FOOTER_SIZE)?,
            is_encrypted: tail.is_encrypted_footer(),
        })
    }

    fn from(&self, start: u64) -> Result<Bytes, ParquetError> {
        let at = start
            .checked_sub(self.start)
            .and_then(|at| usize::try_from(at).ok());
        let at = at.filter(|at| *at <= self.bytes.len());
        let outside = || ParquetError::EOF("the footer lies outside of the end of the file".to_owned());
        Ok(self.bytes.slice(at.ok_or_else(outside)?..))
    }
}

impl Length for FileTail {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for FileTail {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(self.from(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let bytes = self.from(start)?;
        if length > bytes.len() {
            return Err(ParquetError::EOF("the footer ends early".to_owned()));
        }
        Ok(bytes.slice(..length))
    }
}
