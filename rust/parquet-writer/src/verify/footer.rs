//! The footer, the page indexes and the places of Bloom filters.

use parquet::bloom_filter::Sbbf;
use parquet::file::metadata::page_index::RowGroupPageIndex;
use parquet::file::metadata::{
    ColumnChunkMask, ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataOptions, RowGroupMetaData,
};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::reader::{ChunkReader, Length};
use parquet_inspect::{read_footer, read_page_indexes};

use super::window::FileWindow;
use super::{Written, in_column, undecodable};
use crate::error::{Result, WriteError};

const MAGIC: &[u8; 4] = b"PAR1";

/// Compares the ends of the file, and returns its footer and the memory that it takes.
pub(super) fn check(written: &Written<'_>, file: &FileWindow) -> Result<(ParquetMetaData, usize)> {
    let differs = |what: String| Err(WriteError::Corrupt(what));
    if file.len() != written.bytes {
        return differs(format!(
            "it has {} bytes, and {} were written",
            file.len(),
            written.bytes
        ));
    }
    if file.get_bytes(0, MAGIC.len())?[..] != MAGIC[..] {
        return differs("it does not begin with PAR1".into());
    }
    let options = ParquetMetaDataOptions::new().with_encoding_stats_as_mask(false);
    let found = read_footer(file, options).map_err(undecodable)?;
    let file_metadata = found.file_metadata();
    if u64::try_from(file_metadata.num_rows()) != Ok(written.rows) {
        return differs(format!(
            "its footer has {} rows, and {} were written",
            file_metadata.num_rows(),
            written.rows
        ));
    }
    if file_metadata.schema_descr().root_schema() != written.schema.parquet.root_schema() {
        return differs("its footer has another schema than was written".into());
    }
    let (groups, expected) = (found.num_row_groups(), written.metadata.num_row_groups());
    if groups != expected {
        return differs(format!(
            "its footer has {groups} row groups, and {expected} were written"
        ));
    }
    let pairs = found.row_groups().iter().zip(written.metadata.row_groups());
    pairs
        .enumerate()
        .try_for_each(|(index, (found, written))| check_row_group(index, found, written))?;
    let found = read_page_indexes(found, file, ColumnChunkMask::all()).map_err(undecodable)?;
    for (index, group) in found.row_groups().iter().enumerate() {
        let pages = found.page_index_for_row_group(index);
        for (leaf, chunk) in group.columns().iter().enumerate() {
            let differs = |what: &str| in_column(&chunk.column_path().string(), index, what);
            check_page_index(chunk, leaf, &pages, group.num_rows()).map_err(|what| differs(&what))?;
            Sbbf::read_from_column_chunk(chunk, file).map_err(|error| match WriteError::from(error) {
                WriteError::Encode(what) => differs(&format!("its Bloom filter cannot be decoded: {what}")),
                other => other,
            })?;
        }
    }
    // What is decoded into the same values may still differ in its bytes.
    check_end(written, file)?;
    let memory = found.memory_size() + file.ahead();
    Ok((found, memory))
}

fn check_row_group(index: usize, found: &RowGroupMetaData, written: &RowGroupMetaData) -> Result<()> {
    if found.num_rows() != written.num_rows() || found.num_columns() != written.num_columns() {
        return Err(WriteError::Corrupt(format!(
            "row group {index} has {} rows and {} columns in its footer, and {} rows and {} columns were written",
            found.num_rows(),
            found.num_columns(),
            written.num_rows(),
            written.num_columns()
        )));
    }
    let pairs = found.columns().iter().zip(written.columns());
    for (found, written) in pairs {
        if let Some(what) = differing(found, written) {
            return Err(in_column(&written.column_path().string(), index, &what));
        }
    }
    Ok(())
}

/// The first fact about a column chunk that is another one in the footer.
fn differing(found: &ColumnChunkMetaData, written: &ColumnChunkMetaData) -> Option<String> {
    let facts = |chunk: &ColumnChunkMetaData| {
        [
            ("values", Some(chunk.num_values())),
            ("bytes", Some(chunk.compressed_size())),
            ("bytes before compression", Some(chunk.uncompressed_size())),
            ("the place of its first data page", Some(chunk.data_page_offset())),
            ("the place of its dictionary page", chunk.dictionary_page_offset()),
            ("the place of its Bloom filter", chunk.bloom_filter_offset()),
            (
                "bytes of its Bloom filter",
                chunk.bloom_filter_length().map(i64::from),
            ),
            ("the place of its column index", chunk.column_index_offset()),
            (
                "bytes of its column index",
                chunk.column_index_length().map(i64::from),
            ),
            ("the place of its offset index", chunk.offset_index_offset()),
            (
                "bytes of its offset index",
                chunk.offset_index_length().map(i64::from),
            ),
        ]
    };
    let (found, written) = (facts(found), facts(written));
    let mut pairs = found.iter().zip(&written);
    let (found, written) = pairs.find(|(found, written)| found != written)?;
    let shown = |value: Option<i64>| value.map_or_else(|| "none".into(), |value| value.to_string());
    Some(format!(
        "its footer has other {}: {} for {}",
        written.0,
        shown(found.1),
        shown(written.1)
    ))
}

/// Compares the pages of an offset index with the place of their chunk.
fn check_page_index(
    chunk: &ColumnChunkMetaData,
    leaf: usize,
    pages: &RowGroupPageIndex,
    rows: i64,
) -> Result<(), String> {
    let Some(places) = pages.page_locations(leaf) else {
        return Ok(());
    };
    let (start, bytes) = chunk.byte_range();
    let mut at = chunk.data_page_offset();
    let mut row = 0;
    for (number, place) in places.iter().enumerate() {
        let follows = if number == 0 {
            place.first_row_index == 0
        } else {
            place.first_row_index > row
        };
        if place.offset != at || place.compressed_page_size <= 0 || !follows {
            return Err(format!("its offset index has page {number} where it is not"));
        }
        at = at.saturating_add(place.compressed_page_size.into());
        row = place.first_row_index;
    }
    if u64::try_from(at) != Ok(start + bytes) || row > rows {
        return Err("the pages of its offset index do not add up to its bytes and rows".into());
    }
    let bounds = pages.column_index(leaf).map(ColumnIndexMetaData::num_pages);
    match bounds {
        Some(bounds) if usize::try_from(bounds) != Ok(places.len()) => Err(format!(
            "its column index has {bounds} pages, and its offset index {}",
            places.len()
        )),
        _ => Ok(()),
    }
}

/// Compares the last bytes of the file, from the page indexes on.
fn check_end(written: &Written<'_>, file: &FileWindow) -> Result<()> {
    let start = written.bytes.saturating_sub(written.end.len() as u64);
    let mut done = 0;
    while done < written.end.len() {
        let left = &written.end[done..];
        let bytes = file.from(start + done as u64, 1)?;
        let count = bytes.len().min(left.len());
        if let Some(place) = (0..count).find(|place| bytes[*place] != left[*place]) {
            return Err(WriteError::Corrupt(format!(
                "byte {} is another one than was written: it is one of the page indexes or of the footer",
                start + (done + place) as u64
            )));
        }
        done += count;
    }
    Ok(())
}
