//! From a file to its report.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use parquet::basic::{PageType, Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMask, ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataOptions, RowGroupMetaData,
};
use parquet::file::statistics::Statistics;
use parquet::schema::printer::print_schema;
use parquet::schema::types::Type as SchemaType;

use crate::error::InspectError;
use crate::footer::read_footer;
use crate::meaning::Meaning;
use crate::page_indexes::read_page_indexes;
use crate::pages::add_pages;
use crate::report::{ColumnChunkReport, FileReport, PageEncoding, RowGroupReport, SortingColumn};
use crate::value::bounds;

const MAGIC: [u8; 4] = *b"PAR1";
const ENCRYPTED_MAGIC: [u8; 4] = *b"PARE";
const DICTIONARY_PAGE: &str = "DICTIONARY_PAGE";
/// Bytes of the paths of all column chunks at most.
const MOST_REPORT_BYTES: usize = 1 << 30;
/// Bytes of a schema's text at most: ten thousand columns take less.
const SCHEMA_TEXT_BYTES: usize = 1 << 20;
/// The footer's length, and the magic.
const TAIL_BYTES: u64 = 8;

/// How much of a file is read for its report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// The footer and the page indexes.
    Footer,
    /// The header of each page as well.
    Pages,
}

/// Reports the content of the Parquet file at `path`.
///
/// # Errors
///
/// [`InspectError::Io`] if the file cannot be read; the others if it is not a whole Parquet file with a plain footer.
pub fn inspect(path: &Path, depth: Depth) -> Result<FileReport, InspectError> {
    // To open a pipe waits for its writer.
    let kind = path.metadata()?.file_type();
    if !kind.is_file() && !kind.is_dir() {
        let message = format!(
            "{} is not a regular file: copy it to a regular file first",
            path.display()
        );
        return Err(io::Error::other(message).into());
    }
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let footer_bytes = check_ends(&mut file, bytes)?;
    let options = ParquetMetaDataOptions::new().with_encoding_stats_as_mask(false);
    let metadata = read_footer(&file, options).map_err(damaged)?;
    check_report(&metadata)?;
    let metadata = with_page_indexes(metadata, &file).map_err(|error| match damaged(error) {
        InspectError::Damaged(reason) => InspectError::DamagedIndex(reason),
        other => other,
    })?;
    let mut report = report(&metadata, bytes, footer_bytes);
    if depth == Depth::Pages {
        add_pages(&mut report, &metadata, &file)?;
    }
    Ok(report)
}

/// Reads the footer of a file, and no page index: what it says, and its own bytes, `FileMetaData` alone.
///
/// # Errors
/// As [`inspect`].
pub fn open_footer(file: &mut File) -> Result<(ParquetMetaData, Vec<u8>), InspectError> {
    let bytes = file.metadata()?.len();
    let footer_bytes = check_ends(file, bytes)?;
    let options = ParquetMetaDataOptions::new().with_encoding_stats_as_mask(false);
    let metadata = read_footer(file, options).map_err(damaged)?;
    let mut footer =
        vec![0; usize::try_from(footer_bytes - TAIL_BYTES).map_err(|_| InspectError::Truncated)?];
    file.seek(SeekFrom::Start(bytes - footer_bytes))?;
    file.read_exact(&mut footer)?;
    Ok((metadata, footer))
}

/// Refuses a report that would take far more memory than the footer: it has the path of each column chunk, where the
/// footer may have them once.
fn check_report(metadata: &ParquetMetaData) -> Result<(), InspectError> {
    let columns = metadata.file_metadata().schema_descr().columns().iter();
    let names = columns.flat_map(|column| column.path().parts());
    let paths: usize = names.map(|name| name.len() + 1).sum();
    let groups = metadata.num_row_groups();
    match paths
        .checked_mul(groups)
        .filter(|bytes| *bytes <= MOST_REPORT_BYTES)
    {
        Some(_) => Ok(()),
        None => Err(InspectError::Damaged(format!(
            "the paths of its columns take {paths} bytes in each of {groups} row groups, and no more than \
             {MOST_REPORT_BYTES} are reported"
        ))),
    }
}

/// Reads the page indexes, unless some need a key.
fn with_page_indexes(metadata: ParquetMetaData, file: &File) -> Result<ParquetMetaData, ParquetError> {
    let mut chunks = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    if chunks.any(|chunk| chunk.crypto_metadata().is_some()) {
        return Ok(metadata);
    }
    read_page_indexes(metadata, file, ColumnChunkMask::all())
}

/// Checks that the file begins and ends like Parquet, and returns the footer's size.
fn check_ends(file: &mut File, bytes: u64) -> Result<u64, InspectError> {
    // Reading comes first: it is what fails on a directory.
    let mut head = [0; 4];
    let read = file.take(4).read(&mut head)?;
    if read == 0 {
        return Err(InspectError::Empty);
    }
    if head == ENCRYPTED_MAGIC {
        return Err(InspectError::Encrypted);
    }
    if head != MAGIC {
        return Err(InspectError::NotParquet);
    }
    if bytes < MAGIC.len() as u64 + TAIL_BYTES {
        return Err(InspectError::Truncated);
    }
    let mut length = [0; 4];
    let mut magic = [0; 4];
    file.seek(SeekFrom::Start(bytes - TAIL_BYTES))?;
    file.read_exact(&mut length)?;
    file.read_exact(&mut magic)?;
    match magic {
        MAGIC => Ok(u64::from(u32::from_le_bytes(length)) + TAIL_BYTES),
        ENCRYPTED_MAGIC => Err(InspectError::Encrypted),
        _ => Err(InspectError::Truncated),
    }
}

fn damaged(error: ParquetError) -> InspectError {
    match error {
        ParquetError::External(source) => match source.downcast::<std::io::Error>() {
            Ok(error) if error.raw_os_error().is_some() => InspectError::Io(*error),
            Ok(error) => InspectError::Damaged(error.to_string()),
            Err(source) => InspectError::Damaged(source.to_string()),
        },
        other => InspectError::Damaged(other.to_string()),
    }
}

fn report(metadata: &ParquetMetaData, bytes: u64, footer_bytes: u64) -> FileReport {
    let file = metadata.file_metadata();
    FileReport {
        bytes,
        footer_bytes,
        created_by: file.created_by().map(str::to_owned),
        version: file.version(),
        rows: file.num_rows(),
        schema: schema_text(file.schema()),
        metadata_keys: file
            .key_value_metadata()
            .into_iter()
            .flatten()
            .map(|pair| pair.key.clone())
            .collect(),
        row_groups: (0..metadata.num_row_groups())
            .map(|index| row_group(metadata, index))
            .collect(),
    }
}

/// The schema as text, cut where it is longer than anyone reads: deep groups are indented line by line.
fn schema_text(schema: &SchemaType) -> String {
    let mut printed = Vec::new();
    print_schema(&mut printed, schema);
    let text = String::from_utf8_lossy(&printed);
    let text = text.trim_end();
    if text.len() <= SCHEMA_TEXT_BYTES {
        return text.to_owned();
    }
    let end = (0..=SCHEMA_TEXT_BYTES)
        .rev()
        .find(|end| text.is_char_boundary(*end));
    let cut = &text[..end.unwrap_or_default()];
    format!("{cut}\n... ({} bytes more)", text.len() - cut.len())
}

fn row_group(metadata: &ParquetMetaData, index: usize) -> RowGroupReport {
    let group = metadata.row_group(index);
    let pages = metadata.page_index_for_row_group(index);
    let columns = group.columns().iter().enumerate();
    let root = metadata.file_metadata().schema();
    RowGroupReport {
        rows: group.num_rows(),
        compressed_bytes: group
            .columns()
            .iter()
            .fold(0, |sum, c| sum.saturating_add(c.compressed_size())),
        uncompressed_bytes: group.total_byte_size(),
        sorting_columns: sorting_columns(group),
        columns: columns
            .map(|(index, chunk)| column_chunk(chunk, root, pages.num_data_pages(index)))
            .collect(),
    }
}

fn sorting_columns(group: &RowGroupMetaData) -> Vec<SortingColumn> {
    let described = group.sorting_columns().into_iter().flatten();
    described
        .filter_map(|column| {
            // An index outside the schema says nothing.
            let chunk = group.columns().get(usize::try_from(column.column_idx).ok()?)?;
            Some(SortingColumn {
                path: chunk.column_path().string(),
                descending: column.descending,
                nulls_first: column.nulls_first,
            })
        })
        .collect()
}

fn column_chunk(
    chunk: &ColumnChunkMetaData,
    root: &SchemaType,
    indexed_pages: Option<usize>,
) -> ColumnChunkReport {
    let meaning = Meaning::of(chunk.column_descr(), root);
    let statistics = chunk.statistics();
    let (min, max) = statistics.map_or((None, None), |statistics| bounds(statistics, &meaning));
    let encoding_stats = encoding_stats(chunk);
    let descriptor = chunk.column_descr();
    let node = descriptor.self_type().get_basic_info();
    ColumnChunkReport {
        path: chunk.column_path().string(),
        // Readers take a negative id for none.
        field_id: node.has_id().then(|| node.id()).filter(|id| *id >= 0),
        max_definition_level: descriptor.max_def_level(),
        max_repetition_level: descriptor.max_rep_level(),
        physical_type: physical_type(chunk),
        logical_type: meaning.name(),
        codec: chunk.compression_codec().to_string(),
        encodings: chunk.encodings().map(|encoding| encoding.to_string()).collect(),
        values: chunk.num_values(),
        nulls: statistics.and_then(Statistics::null_count_opt),
        distinct: statistics.and_then(Statistics::distinct_count_opt),
        min,
        max,
        min_exact: statistics.is_some_and(Statistics::min_is_exact),
        max_exact: statistics.is_some_and(Statistics::max_is_exact),
        compressed_bytes: chunk.compressed_size(),
        uncompressed_bytes: chunk.uncompressed_size(),
        dictionary_page: chunk.dictionary_page_offset().is_some()
            || encoding_stats
                .iter()
                .flatten()
                .any(|stats| stats.page_type == DICTIONARY_PAGE),
        data_pages: indexed_pages
            .map(|pages| pages as u64)
            .or_else(|| recorded_data_pages(chunk)),
        encoding_stats,
        column_index: chunk.column_index_offset().is_some(),
        offset_index: chunk.offset_index_offset().is_some(),
        bloom_filter: chunk.bloom_filter_offset().is_some(),
        bloom_filter_bytes: chunk.bloom_filter_length(),
        pages: None,
    }
}

/// The physical type, with the length of a fixed-size one.
fn physical_type(chunk: &ColumnChunkMetaData) -> String {
    match chunk.column_type() {
        Type::FIXED_LEN_BYTE_ARRAY => format!("FIXED_LEN_BYTE_ARRAY({})", chunk.column_descr().type_length()),
        other => other.to_string(),
    }
}

fn encoding_stats(chunk: &ColumnChunkMetaData) -> Option<Vec<PageEncoding>> {
    let stats = chunk.page_encoding_stats()?.iter().map(|stats| PageEncoding {
        page_type: stats.page_type.to_string(),
        encoding: stats.encoding.to_string(),
        pages: stats.count,
    });
    Some(stats.collect())
}

fn recorded_data_pages(chunk: &ColumnChunkMetaData) -> Option<u64> {
    let data = chunk
        .page_encoding_stats()?
        .iter()
        .filter(|stats| matches!(stats.page_type, PageType::DATA_PAGE | PageType::DATA_PAGE_V2));
    data.map(|stats| u64::try_from(stats.count).ok()).sum()
}
