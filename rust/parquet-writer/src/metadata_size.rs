//! The memory of metadata that waits for the footer.

use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::Int96;
use parquet::file::metadata::{ColumnChunkMetaData, LevelHistogram};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::{OffsetIndexMetaData, PageLocation};

/// Bytes that an allocator adds to the some sixteen small vectors of a chunk.
const ALLOCATIONS: usize = 16 * 16;

/// Memory of the metadata and the indexes of a chunk: an estimate, since vectors of the crate are its own.
pub(crate) fn of_chunk(close: &ColumnCloseResult) -> usize {
    ALLOCATIONS
        + size_of::<ColumnChunkMetaData>()
        + size_of::<Option<ColumnIndexMetaData>>()
        + size_of::<Option<OffsetIndexMetaData>>()
        + of_statistics(&close.metadata)
        + close.column_index.as_ref().map_or(0, of_column_index)
        + close.offset_index.as_ref().map_or(0, of_offset_index)
}

/// Memory of bounds, counts of levels and kinds of pages.
fn of_statistics(chunk: &ColumnChunkMetaData) -> usize {
    let bounds = chunk.statistics().map_or(0, |statistics| {
        statistics.min_bytes_opt().map_or(0, <[u8]>::len) + statistics.max_bytes_opt().map_or(0, <[u8]>::len)
    });
    let levels = [
        chunk.repetition_level_histogram(),
        chunk.definition_level_histogram(),
    ];
    let levels: usize = levels.into_iter().flatten().map(LevelHistogram::len).sum();
    bounds + levels * size_of::<i64>()
}

fn of_offset_index(index: &OffsetIndexMetaData) -> usize {
    let bytes = index.unencoded_byte_array_data_bytes.as_ref().map_or(0, Vec::len);
    index.page_locations.len() * size_of::<PageLocation>() + bytes * size_of::<i64>()
}

fn of_column_index(index: &ColumnIndexMetaData) -> usize {
    let pages = usize::try_from(index.num_pages()).unwrap_or(0);
    let levels = [
        index.repetition_level_histogram(0),
        index.definition_level_histogram(0),
    ];
    let levels: usize = levels.into_iter().flatten().map(<[i64]>::len).sum();
    pages * (size_of::<bool>() + (1 + levels) * size_of::<i64>()) + of_bounds(index, pages)
}

fn of_bounds(index: &ColumnIndexMetaData, pages: usize) -> usize {
    match index {
        ColumnIndexMetaData::BOOLEAN(_) => 2 * pages * size_of::<bool>(),
        ColumnIndexMetaData::INT32(_) | ColumnIndexMetaData::FLOAT(_) => 2 * pages * size_of::<i32>(),
        ColumnIndexMetaData::INT64(_) | ColumnIndexMetaData::DOUBLE(_) => 2 * pages * size_of::<i64>(),
        ColumnIndexMetaData::INT96(_) => 2 * pages * size_of::<Int96>(),
        ColumnIndexMetaData::BYTE_ARRAY(bounds) | ColumnIndexMetaData::FIXED_LEN_BYTE_ARRAY(bounds) => {
            let bytes = bounds.min_values_iter().chain(bounds.max_values_iter());
            let bytes: usize = bytes.flatten().map(<[u8]>::len).sum();
            bytes + 2 * pages * size_of::<usize>()
        }
    }
}
