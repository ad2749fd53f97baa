//! The result of a file.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};

use crate::choose::Reason;
use crate::stages::StageTimes;
use crate::stored_schema::StoredSchema;

/// The result of a closed writer.
#[derive(Debug, Clone)]
pub struct WriteResult {
    /// Rows in the file.
    pub rows: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Row groups in the file.
    pub row_groups: usize,
    /// One entry for each leaf column, in file order.
    pub columns: Vec<ColumnResult>,
    /// The most memory that the writer held at once, by its own count.
    pub peak_tracked_bytes: u64,
    /// Bytes of finished pages that waited in a temporary file.
    pub spilled_bytes: u64,
    /// The time that it took, by stage.
    pub times: StageTimes,
    /// The footer without page indexes, for callers that keep statistics of files elsewhere. Of an encrypted file it
    /// has the places that indexes and filters had before their encryption.
    pub metadata: Arc<ParquetMetaData>,
    /// The footer as it is in the file: `FileMetaData`, its length and the magic. Empty for an encrypted file.
    pub footer: Bytes,
    /// The Arrow schema that the file stores, if it stores one.
    pub(crate) stored: Option<StoredSchema>,
}

impl WriteResult {
    /// The result of a file whose row groups were copied from other files.
    ///
    /// `footer` is as in the file, from `FileMetaData` to the magic, and `metadata` what it says; `held` is the most
    /// memory that was held at once.
    #[must_use]
    pub fn copied(metadata: ParquetMetaData, footer: Bytes, bytes: u64, time: Duration, held: u64) -> Self {
        let schema = metadata.file_metadata().schema_descr();
        let reasons = vec![Reason::Copied; schema.num_columns()];
        Self {
            rows: unsigned(metadata.file_metadata().num_rows()),
            bytes,
            row_groups: metadata.num_row_groups(),
            columns: columns(schema, metadata.row_groups(), &reasons),
            peak_tracked_bytes: held,
            spilled_bytes: 0,
            times: StageTimes {
                write: time,
                ..StageTimes::default()
            },
            metadata: Arc::new(metadata),
            footer,
            stored: None,
        }
    }
}

/// One leaf column over all row groups.
#[derive(Debug, Clone)]
pub struct ColumnResult {
    /// Parquet's dotted path.
    pub path: String,
    /// Parquet's physical type.
    pub physical_type: String,
    /// The encodings of its pages, levels left out.
    pub encodings: Vec<String>,
    /// The reason for these encodings: that of the last row group that had one.
    pub reason: Reason,
    /// The codec of its pages.
    pub compression: String,
    /// Values, nulls included.
    pub values: u64,
    /// Nulls, where counted.
    pub nulls: u64,
    /// Bytes in the file, page headers included.
    pub compressed_bytes: u64,
    /// Bytes before compression, page headers included.
    pub uncompressed_bytes: u64,
}

/// Sums up the columns of all row groups.
pub(crate) fn columns(
    parquet: &parquet::schema::types::SchemaDescriptor,
    row_groups: &[RowGroupMetaData],
    reasons: &[Reason],
) -> Vec<ColumnResult> {
    (0..parquet.num_columns())
        .map(|index| {
            let column = parquet.column(index);
            let chunks = || row_groups.iter().map(move |group| group.column(index));
            ColumnResult {
                path: column.path().string(),
                physical_type: column.physical_type().to_string(),
                encodings: encodings(chunks()),
                reason: reasons.get(index).copied().unwrap_or(Reason::Only),
                compression: chunks().next().map_or_else(String::new, codec),
                values: chunks().map(|chunk| unsigned(chunk.num_values())).sum(),
                nulls: chunks().filter_map(nulls).sum(),
                compressed_bytes: chunks().map(|chunk| unsigned(chunk.compressed_size())).sum(),
                uncompressed_bytes: chunks().map(|chunk| unsigned(chunk.uncompressed_size())).sum(),
            }
        })
        .collect()
}

/// Nulls of a chunk, which its levels tell where it has no statistics.
pub(crate) fn nulls(chunk: &ColumnChunkMetaData) -> Option<u64> {
    if let Some(statistics) = chunk.statistics() {
        return statistics.null_count_opt();
    }
    let levels = chunk.definition_level_histogram()?;
    let values = *levels.values().last()?;
    u64::try_from(chunk.num_values() - values).ok()
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

fn codec(chunk: &ColumnChunkMetaData) -> String {
    let name = chunk.compression().to_string();
    name.split('(').next().unwrap_or(&name).to_string()
}

/// Encodings of data pages, most pages first.
fn encodings<'a>(chunks: impl Iterator<Item = &'a ColumnChunkMetaData>) -> Vec<String> {
    let mut pages = BTreeMap::<String, i64>::new();
    for chunk in chunks {
        for stats in chunk.page_encoding_stats().into_iter().flatten() {
            if stats.page_type != parquet::basic::PageType::DICTIONARY_PAGE {
                *pages.entry(encoding_name(stats.encoding)).or_default() += i64::from(stats.count);
            }
        }
    }
    let mut names: Vec<_> = pages.into_iter().collect();
    names.sort_by(|left, right| right.1.cmp(&left.1).then_with(|| left.0.cmp(&right.0)));
    names.into_iter().map(|(name, _)| name).collect()
}

fn encoding_name(encoding: Encoding) -> String {
    match encoding {
        Encoding::PLAIN_DICTIONARY => Encoding::RLE_DICTIONARY.to_string(),
        other => other.to_string(),
    }
}
