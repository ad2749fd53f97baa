//! The report on a file, as plain values. Sizes are in bytes.

/// A Parquet file.
#[derive(Debug, Clone, PartialEq)]
pub struct FileReport {
    /// Size of the whole file.
    pub bytes: u64,
    /// Size of the footer, its length and the closing magic included.
    pub footer_bytes: u64,
    /// The writer's name for itself.
    pub created_by: Option<String>,
    /// Version of the format that the footer states.
    pub version: i32,
    /// Rows in all row groups.
    pub rows: i64,
    /// The schema in the notation of the Parquet specification.
    pub schema: String,
    /// Keys of the key-value metadata, in the footer's order.
    pub metadata_keys: Vec<String>,
    /// The row groups, in the file's order.
    pub row_groups: Vec<RowGroupReport>,
}

/// A row group.
#[derive(Debug, Clone, PartialEq)]
pub struct RowGroupReport {
    /// Rows in it.
    pub rows: i64,
    /// Its pages as they are stored.
    pub compressed_bytes: i64,
    /// Its pages before compression.
    pub uncompressed_bytes: i64,
    /// The columns that its rows are declared to be sorted by, the leading column first.
    pub sorting_columns: Vec<SortingColumn>,
    /// Its column chunks, in the schema's order.
    pub columns: Vec<ColumnChunkReport>,
}

/// A column that rows are sorted by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortingColumn {
    /// Dotted path of the column.
    pub path: String,
    /// Largest value first.
    pub descending: bool,
    /// Nulls before all values.
    pub nulls_first: bool,
}

/// The number of pages of one type with one encoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageEncoding {
    /// Type of the pages.
    pub page_type: String,
    /// Encoding of their values.
    pub encoding: String,
    /// The number of such pages.
    pub pages: i32,
}

/// A column chunk.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact about the chunk, none a mode"
)]
pub struct ColumnChunkReport {
    /// Dotted path of the column.
    pub path: String,
    /// The field id of its schema node.
    pub field_id: Option<i32>,
    /// The maximum definition level.
    pub max_definition_level: i16,
    /// The maximum repetition level.
    pub max_repetition_level: i16,
    /// Type of the stored values.
    pub physical_type: String,
    /// The meaning of the stored values, if the schema states it.
    pub logical_type: Option<String>,
    /// Compression codec, by its name in the format.
    pub codec: String,
    /// All encodings in the chunk, those of levels included.
    pub encodings: Vec<String>,
    /// Pages by type and encoding, if the writer recorded them.
    pub encoding_stats: Option<Vec<PageEncoding>>,
    /// Values, nulls included; for a nested column, one for each level entry.
    pub values: i64,
    /// Nulls, if the statistics tell.
    pub nulls: Option<u64>,
    /// Distinct values, if the statistics tell.
    pub distinct: Option<u64>,
    /// The smallest value, written by its logical type.
    pub min: Option<String>,
    /// The largest value, written by its logical type.
    pub max: Option<String>,
    /// True if `min` occurs, rather than being a lower bound.
    pub min_exact: bool,
    /// True if `max` occurs, rather than being an upper bound.
    pub max_exact: bool,
    /// Pages and their headers as they are stored.
    pub compressed_bytes: i64,
    /// Pages and their headers before compression.
    pub uncompressed_bytes: i64,
    /// True if there is a dictionary page.
    pub dictionary_page: bool,
    /// Data pages, if the offset index or the encoding statistics tell.
    pub data_pages: Option<u64>,
    /// True if there is a column index.
    pub column_index: bool,
    /// True if there is an offset index.
    pub offset_index: bool,
    /// True if there is a bloom filter.
    pub bloom_filter: bool,
    /// Size of the bloom filter, if the writer recorded it.
    pub bloom_filter_bytes: Option<i32>,
    /// Its pages, if they were requested and are not encrypted.
    pub pages: Option<Vec<PageReport>>,
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageReport {
    /// Type of the page, by its name in the format.
    pub page_type: String,
    /// Encoding of its values; none for a page without values.
    pub encoding: Option<String>,
    /// Offset of its header in the file.
    pub offset: u64,
    /// The page and its header as they are stored.
    pub compressed_bytes: u64,
    /// The page and its header before compression.
    pub uncompressed_bytes: u64,
    /// True if the header has a checksum.
    pub checksum: bool,
    /// Values, nulls included; for a nested column, one for each level entry.
    pub values: i64,
    /// The first row of the page, counted from the start of the row group, if known.
    pub first_row: Option<i64>,
    /// Rows that begin in the page, if known.
    pub rows: Option<i64>,
    /// Nulls, if the column index or the header counts them.
    pub nulls: Option<i64>,
    /// The smallest value, written by its logical type, if the column index has it.
    pub min: Option<String>,
    /// The largest value, likewise.
    pub max: Option<String>,
}
