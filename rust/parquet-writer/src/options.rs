//! The writer's options, validated in this one place.

use std::sync::Arc;

use parquet::basic::{BrotliLevel, Compression, Encoding, GzipLevel, ZstdLevel};
use parquet_encode::dictionary::DictionaryLimits;

use crate::budget::{self, Budget};
use crate::choose::{DICTIONARY_BYTES, PAGE_ROWS};
use crate::chunker::ChunkSizes;
use crate::encryption::{Encryption, MOST_ORDINALS};
use crate::error::{OptionFault, Result, WriteError};
use crate::field_ids;
use crate::names::{ByColumn, is_path};
use crate::pages::{self, Compressor};
use crate::shared_memory::MemoryBudget;
use crate::stored_names::StoredNames;
use crate::thread_pool::Threads;

/// Rows of a row group unless bytes end it first.
pub const DEFAULT_ROW_GROUP_ROWS: i64 = 1_048_576;
/// Encoded and compressed bytes of a row group.
pub const DEFAULT_ROW_GROUP_BYTES: i64 = 128 << 20;
/// Bytes of a page before compression. One byte more, and ZSTD level 1 loses a quarter of its ratio.
pub const DEFAULT_PAGE_BYTES: i64 = 256 << 10;

/// The least and the most bytes of a chunk of values, where pages end by their content. They are those of pyarrow.
pub const DEFAULT_CHUNK_BYTES: (i64, i64) = (256 << 10, 1 << 20);

const MAX_ROW_GROUP_ROWS: i64 = i32::MAX as i64;
const MAX_PAGE_BYTES: i64 = 512 << 20;
const MAX_THREADS: i64 = 1024;

/// A compression codec, by Parquet's own name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Zstandard; levels 1 to 22, by default 1.
    Zstd,
    /// Snappy; no level.
    Snappy,
    /// `LZ4_RAW`; no level.
    Lz4,
    /// Gzip; levels 0 to 9, by default 6.
    Gzip,
    /// Brotli; levels 0 to 11, by default 1.
    Brotli,
    /// No compression.
    Uncompressed,
}

impl Codec {
    const ALL: [(&'static str, Self); 6] = [
        ("zstd", Self::Zstd),
        ("snappy", Self::Snappy),
        ("lz4", Self::Lz4),
        ("gzip", Self::Gzip),
        ("brotli", Self::Brotli),
        ("uncompressed", Self::Uncompressed),
    ];

    /// The accepted levels and the default one; `None` for a codec without levels.
    const fn levels(self) -> Option<(i64, i64, i64)> {
        match self {
            Self::Zstd => Some((1, 22, 1)),
            Self::Gzip => Some((0, 9, 6)),
            Self::Brotli => Some((0, 11, 1)),
            Self::Snappy | Self::Lz4 | Self::Uncompressed => None,
        }
    }
}

/// The readers that the file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compatibility {
    /// Every encoding that Spark, pyarrow, polars, DuckDB and arrow-rs read.
    Modern,
    /// Data pages of version 1, PLAIN and dictionary encodings only.
    V1,
}

impl Compatibility {
    const ALL: [(&'static str, Self); 2] = [("modern", Self::Modern), ("v1", Self::V1)];
}

/// The treatment of timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timestamps {
    /// Every unit stays, except seconds, which Parquet does not have: they become milliseconds.
    Keep,
    /// Every unit becomes microseconds, which is what Spark and Delta Lake read.
    Us,
    /// Every unit becomes milliseconds.
    Ms,
    /// Flat columns become INT96, which is all that some old readers know; times in nested columns stay.
    Int96,
}

impl Timestamps {
    const ALL: [(&'static str, Self); 4] = [
        ("keep", Self::Keep),
        ("us", Self::Us),
        ("ms", Self::Ms),
        ("int96", Self::Int96),
    ];
}

/// The treatment of times that a coarser unit cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampLoss {
    /// They are rounded down.
    Allow,
    /// They are refused.
    Refuse,
}

impl TimestampLoss {
    const ALL: [(&'static str, Self); 2] = [("allow", Self::Allow), ("refuse", Self::Refuse)];
}

/// The treatment of rows that break the order of `sorting_columns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortingMode {
    /// Rows that break it are refused.
    Verify,
    /// The rows of a row group are put into it.
    Sort,
}

impl SortingMode {
    const ALL: [(&'static str, Self); 2] = [("verify", Self::Verify), ("sort", Self::Sort)];
}

/// How much of a file is read back, and compared with what was written, before it appears. A later one includes those
/// before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verify {
    /// The footer, the page indexes and the places of Bloom filters.
    Footer,
    /// Each page: its checksum, its bytes after decompression, and the counts and sizes of its header.
    Pages,
    /// Each value, as another reader decodes it, by checksums that were taken on the way in.
    Values,
}

impl Verify {
    const ALL: [(&'static str, Self); 3] = [
        ("footer", Self::Footer),
        ("pages", Self::Pages),
        ("values", Self::Values),
    ];
}

/// One column that rows are ordered by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortKey {
    /// Its name.
    pub column: String,
    /// True if the greatest value comes first.
    pub descending: bool,
    /// True if nulls come before all values.
    pub nulls_first: bool,
}

/// One column that rows are ordered by, as a caller gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortInput {
    /// Its name.
    pub column: String,
    /// `ascending` or `descending`.
    pub direction: String,
    /// `nulls_first` or `nulls_last`.
    pub nulls: String,
}

/// An encoding of values, by the name a caller gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedEncoding {
    /// Chosen by the compressed size of the first page of the column.
    Auto,
    /// A dictionary, and PLAIN behind it when it is full.
    Dictionary,
    /// One of Parquet's encodings.
    Direct(Encoding),
}

impl NamedEncoding {
    /// All that are accepted, in Parquet's names in lower case.
    pub(crate) const ALL: [(&'static str, Self); 8] = [
        ("auto", Self::Auto),
        ("dictionary", Self::Dictionary),
        ("plain", Self::Direct(Encoding::PLAIN)),
        ("rle", Self::Direct(Encoding::RLE)),
        ("delta_binary_packed", Self::Direct(Encoding::DELTA_BINARY_PACKED)),
        (
            "delta_length_byte_array",
            Self::Direct(Encoding::DELTA_LENGTH_BYTE_ARRAY),
        ),
        ("delta_byte_array", Self::Direct(Encoding::DELTA_BYTE_ARRAY)),
        ("byte_stream_split", Self::Direct(Encoding::BYTE_STREAM_SPLIT)),
    ];
}

impl<T> ByColumn<T> {
    /// The same rule with its values validated by `check`, and its keys.
    fn checked<U>(self, option: &str, check: impl Fn(T) -> Result<U>) -> Result<ByColumn<U>> {
        Ok(match self {
            Self::All(value) => ByColumn::All(check(value)?),
            Self::Columns(columns) => {
                check_keys(option, &columns)?;
                let columns = columns.into_iter().map(|(path, value)| Ok((path, check(value)?)));
                ByColumn::Columns(columns.collect::<Result<_>>()?)
            }
        })
    }
}

/// The columns that may have a dictionary.
pub type DictionaryRule = ByColumn<bool>;
/// The encodings of columns, by the names of encodings.
pub type EncodingRule<N = String> = ByColumn<N>;
/// The codecs of columns: `"zstd"`, or `"zstd(3)"` with a level.
pub type CompressionRule<C = String> = ByColumn<C>;
/// The columns with statistics.
pub type StatisticsRule = ByColumn<bool>;
/// The columns with a bloom filter, and the false positive rate of each.
pub type BloomRule = ByColumn<Option<f64>>;

/// An amount of memory as a caller gives it.
#[derive(Debug, Clone, PartialEq)]
pub enum Amount {
    /// Bytes.
    Bytes(i64),
    /// A number with a unit: `"16MB"`, `"16MiB"`.
    Text(String),
    /// A share of what several writers have together.
    Share(Arc<MemoryBudget>),
}

/// The default false positive rate of a bloom filter.
pub const DEFAULT_FPP: f64 = 0.01;

/// Options as a caller gives them: names and plain integers.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct OptionInput {
    /// The name of a codec in lower case, which may carry a level.
    pub compression: CompressionRule,
    /// The level of the one codec; `None` for its default.
    pub compression_level: Option<i64>,
    /// Rows of a row group.
    pub row_group_rows: i64,
    /// Encoded and compressed bytes of a row group.
    pub row_group_bytes: i64,
    /// Bytes of a page before compression.
    pub page_bytes: i64,
    /// Rows of a page.
    pub page_rows: i64,
    /// Bytes of a dictionary page before compression.
    pub dictionary_page_bytes: i64,
    /// The least and the most bytes of a chunk of values with which a page ends; `None` for pages that end when they
    /// are full.
    pub content_defined_chunking: Option<(i64, i64)>,
    /// All that a writer may keep in memory; `None` for as much as it needs.
    pub memory_limit: Option<Amount>,
    /// Threads that encode columns, the caller's among them; `None` for as many as the process has cores for, where
    /// they are worth it.
    pub threads: Option<i64>,
    /// True if batches are held until they make a round: their buffers stay as they are.
    pub hold_batches: bool,
    /// The columns that may have a dictionary.
    pub dictionary: DictionaryRule,
    /// The encodings of columns.
    pub encoding: EncodingRule,
    /// The columns with a bloom filter.
    pub bloom_filter: BloomRule,
    /// True if pages carry a CRC-32 of their bytes.
    pub page_checksums: bool,
    /// The columns with statistics.
    pub statistics: StatisticsRule,
    /// True if the file has its Arrow schema.
    pub store_schema: bool,
    /// `modern` or `v1`.
    pub compatibility: String,
    /// `keep`, `us`, `ms` or `int96`.
    pub timestamps: String,
    /// `allow` or `refuse`.
    pub timestamp_loss: String,
    /// The columns that rows are ordered by, the first before the others.
    pub sorting_columns: Vec<SortInput>,
    /// `verify` or `sort`.
    pub sorting: String,
    /// True if the file and its directory are synced before the file appears.
    pub durable: bool,
    /// `footer`, `pages` or `values`; `None` for a file that is not read back.
    pub verify: Option<String>,
    /// Key-value metadata of the file.
    pub metadata: Vec<(String, String)>,
    /// Parquet field ids by the paths of columns and of what they are nested in.
    pub field_ids: Vec<(Vec<String>, i64)>,
    /// The keys of an encrypted file.
    pub encryption: Option<Encryption>,
}

impl Default for OptionInput {
    fn default() -> Self {
        Self {
            compression: CompressionRule::All("zstd".into()),
            compression_level: None,
            row_group_rows: DEFAULT_ROW_GROUP_ROWS,
            row_group_bytes: DEFAULT_ROW_GROUP_BYTES,
            page_bytes: DEFAULT_PAGE_BYTES,
            page_rows: as_input(PAGE_ROWS),
            dictionary_page_bytes: as_input(DICTIONARY_BYTES),
            content_defined_chunking: None,
            memory_limit: None,
            threads: None,
            hold_batches: false,
            dictionary: DictionaryRule::All(true),
            encoding: EncodingRule::All("auto".into()),
            bloom_filter: BloomRule::All(None),
            page_checksums: false,
            statistics: StatisticsRule::All(true),
            store_schema: true,
            compatibility: "modern".into(),
            timestamps: "keep".into(),
            timestamp_loss: "allow".into(),
            sorting_columns: Vec::new(),
            sorting: "verify".into(),
            durable: false,
            verify: None,
            metadata: Vec::new(),
            field_ids: Vec::new(),
            encryption: None,
        }
    }
}

fn as_input(default: usize) -> i64 {
    i64::try_from(default).unwrap_or(i64::MAX)
}

/// Options that were found valid.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct WriterOptions {
    pub(crate) compression: CompressionRule<Compression>,
    pub(crate) row_group_rows: usize,
    pub(crate) row_group_bytes: u64,
    /// The most bytes of a file, as far as that is known.
    pub(crate) file_bytes: u64,
    pub(crate) page_bytes: usize,
    pub(crate) dictionary_page_bytes: usize,
    pub(crate) chunk_sizes: Option<ChunkSizes>,
    pub(crate) memory_limit: Option<usize>,
    /// The budget of which the memory limit is a share.
    pub(crate) memory_budget: Option<Arc<MemoryBudget>>,
    pub(crate) budget: Budget,
    pub(crate) threads: Threads,
    pub(crate) hold_batches: bool,
    pub(crate) dictionary: DictionaryRule,
    pub(crate) encoding: EncodingRule<NamedEncoding>,
    pub(crate) bloom_filter: BloomRule,
    pub(crate) page_checksums: bool,
    pub(crate) statistics: StatisticsRule,
    pub(crate) store_schema: bool,
    pub(crate) compatibility: Compatibility,
    pub(crate) timestamps: Timestamps,
    pub(crate) timestamp_loss: TimestampLoss,
    pub(crate) sorting_columns: Vec<SortKey>,
    pub(crate) sorting: SortingMode,
    pub(crate) durable: bool,
    pub(crate) verify: Option<Verify>,
    pub(crate) metadata: Vec<(String, String)>,
    pub(crate) field_ids: Vec<(Vec<String>, i32)>,
    /// The names of columns in files, where they differ from the names in the rows.
    pub(crate) stored_names: StoredNames,
    pub(crate) encryption: Option<Encryption>,
}

impl WriterOptions {
    /// Validates what a caller gave.
    ///
    /// # Errors
    /// [`WriteError::Option`] names the option, the value and what is accepted.
    pub fn new(input: OptionInput) -> Result<Self> {
        let sorting = sorting(&input)?;
        let verify = input.verify.as_deref();
        let verify = verify
            .map(|level| named("verify", level, &Verify::ALL))
            .transpose()?;
        if let (Some(level), Some(_)) = (&input.verify, &input.encryption) {
            return Err(WriteError::option(
                "verify",
                format!(
                    "verify={level:?} with encryption is not accepted: an encrypted file is not read back. Leave verify out: \
                     AES-GCM tells readers of changed bytes"
                ),
            ));
        }
        let sorting_columns = input
            .sorting_columns
            .iter()
            .map(sort_key)
            .collect::<Result<_>>()?;
        input.encryption.as_ref().map_or(Ok(()), Encryption::check)?;
        if input.encryption.is_some() && input.content_defined_chunking.is_some() {
            return Err(WriteError::option(
                "content_defined_chunking",
                "content_defined_chunking with encryption is not accepted: encrypted pages of equal rows differ. Leave one \
                 of the two out",
            ));
        }
        Ok(Self {
            compression: compression(input.compression, input.compression_level)?,
            row_group_rows: within("row_group_rows", input.row_group_rows, MAX_ROW_GROUP_ROWS)?,
            row_group_bytes: within("row_group_bytes", input.row_group_bytes, i64::MAX)? as u64,
            file_bytes: u64::MAX,
            page_bytes: within("page_bytes", input.page_bytes, MAX_PAGE_BYTES)?,
            memory_limit: input
                .memory_limit
                .as_ref()
                .map(|limit| bytes_of_amount("memory_limit", limit))
                .transpose()?,
            memory_budget: match input.memory_limit {
                Some(Amount::Share(budget)) => Some(budget),
                _ => None,
            },
            dictionary_page_bytes: within(
                "dictionary_page_bytes",
                input.dictionary_page_bytes,
                MAX_PAGE_BYTES,
            )?,
            chunk_sizes: input.content_defined_chunking.map(chunk_sizes).transpose()?,
            budget: Budget {
                page_rows: within("page_rows", input.page_rows, MAX_ROW_GROUP_ROWS)?,
                ..Budget::UNLIMITED
            },
            threads: threads(input.threads)?,
            hold_batches: input.hold_batches,
            dictionary: input.dictionary.checked("dictionary", Ok)?,
            encoding: input
                .encoding
                .checked("encoding", |name| named("encoding", &name, &NamedEncoding::ALL))?,
            bloom_filter: input.bloom_filter.checked("bloom_filter", bloom_filter)?,
            page_checksums: input.page_checksums || verify.is_some(),
            statistics: input.statistics.checked("statistics", Ok)?,
            store_schema: input.store_schema,
            compatibility: named("compatibility", &input.compatibility, &Compatibility::ALL)?,
            timestamps: named("timestamps", &input.timestamps, &Timestamps::ALL)?,
            timestamp_loss: named("timestamp_loss", &input.timestamp_loss, &TimestampLoss::ALL)?,
            sorting,
            sorting_columns,
            durable: input.durable,
            verify,
            metadata: metadata(input.metadata)?,
            field_ids: field_ids::checked(input.field_ids)?,
            stored_names: StoredNames::default(),
            encryption: input.encryption,
        })
    }

    /// The options for a file whose leaf columns have these codecs, with the memory limit divided among them.
    ///
    /// # Errors
    /// [`WriteError::Option`] says the least limit that would do.
    pub(crate) fn for_leaves(&self, codecs: &[Compression]) -> Result<Self> {
        let mut options = self.clone();
        options.budget.page_rows = self.page_rows();
        if let Some(limit) = self.memory_limit {
            let in_use = pages::codecs_in_use(codecs)?;
            let contexts = |window| {
                let contexts = in_use
                    .iter()
                    .map(|codec| Compressor::context_bytes(*codec, window));
                contexts.sum()
            };
            let counts = (codecs.len(), in_use.len());
            let (budget, page_bytes) = Budget::new(limit, counts, self.page_bytes, contexts)?;
            let (budget, threads) = budget.on_threads(self.threads);
            options.budget = Budget {
                page_rows: budget.page_rows.min(options.budget.page_rows),
                ..budget
            };
            options.page_bytes = self.page_bytes.min(page_bytes);
            options.threads = threads;
        }
        if self.is_encrypted() {
            options.row_group_rows = options
                .row_group_rows
                .min(options.budget.page_rows.saturating_mul(MOST_ORDINALS));
        }
        Ok(options)
    }

    /// The same options for files of at most so many bytes.
    #[must_use]
    pub fn for_files_of(self, bytes: u64) -> Self {
        Self {
            file_bytes: bytes,
            ..self
        }
    }

    /// The same options for a writer that holds no batches, and whether these ask for it.
    #[must_use]
    pub fn without_holding(self) -> (Self, bool) {
        let holds = self.hold_batches;
        let options = Self {
            hold_batches: false,
            ..self
        };
        (options, holds)
    }

    /// The same options for a writer that takes no share of a memory budget and reads nothing back: its schema and
    /// options are checked.
    #[must_use]
    pub fn for_a_check(self) -> Self {
        Self {
            memory_budget: None,
            verify: None,
            ..self
        }
    }

    /// The same options for rows in any order.
    #[must_use]
    pub fn in_any_order(self) -> Self {
        Self {
            sorting_columns: Vec::new(),
            sorting: SortingMode::Verify,
            ..self
        }
    }

    /// The same options with row groups of at most so many rows.
    #[must_use]
    pub fn with_row_groups_of_at_most(self, rows: usize) -> Self {
        Self {
            row_group_rows: self.row_group_rows.min(rows.max(1)),
            ..self
        }
    }

    /// The limits of each of `columns` preserved dictionaries, in a file of `leaves` leaf columns.
    pub(crate) fn preserved_limits(&self, columns: usize, leaves: usize) -> DictionaryLimits {
        match self.budget.dictionaries {
            None => budget::preserved_limits(self.row_group_bytes.min(self.file_bytes), columns),
            Some(memory) => budget::preserved_limits_within(memory, leaves),
        }
    }

    /// Bytes of a page before compression, about: where content ends pages no more than half the average chunk, or than
    /// the least one.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        let of_chunk = |sizes: ChunkSizes| sizes.least.max(sizes.least.midpoint(sizes.most) / 2);
        self.page_bytes.min(self.chunk_sizes.map_or(usize::MAX, of_chunk))
    }

    /// Rows of a page. Levels, and indices in memory, take space even where values take none: so there are no more than
    /// `page_bytes`, or than by default where that is less.
    #[must_use]
    pub fn page_rows(&self) -> usize {
        self.budget.page_rows.min(self.page_bytes.max(PAGE_ROWS))
    }

    /// The unit of timestamps.
    #[must_use]
    pub fn timestamps(&self) -> Timestamps {
        self.timestamps
    }

    /// Returns true if the leaf column with this path has statistics.
    #[must_use]
    pub fn has_statistics(&self, path: &[String]) -> bool {
        match &self.statistics {
            ByColumn::All(all) => *all,
            ByColumn::Columns(columns) => {
                let mut named = columns.iter().filter(|(key, _)| is_path(path, key));
                named.next_back().is_none_or(|(_, has)| *has)
            }
        }
    }

    /// Returns true if rows are put into an order before they are written.
    #[must_use]
    pub fn sorts(&self) -> bool {
        self.sorting == SortingMode::Sort
    }

    /// Returns true if the file is encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.encryption.is_some()
    }

    /// Returns true if columns are given field ids, over those of the schema.
    #[must_use]
    pub fn has_field_ids(&self) -> bool {
        !self.field_ids.is_empty()
    }

    /// Returns true if a writer may refuse rows that have passed [`Fit::check`](crate::Fit::check): rows out of order,
    /// and values that the memory limit has no room for.
    #[must_use]
    pub fn may_refuse_rows(&self) -> bool {
        self.memory_limit.is_some() || !self.sorting_columns.is_empty()
    }

    /// The most rows of a row group.
    #[must_use]
    pub fn row_group_rows(&self) -> usize {
        self.row_group_rows
    }

    /// All that a writer may keep in memory, in bytes; `None` without a limit.
    #[must_use]
    pub fn memory_limit(&self) -> Option<usize> {
        self.memory_limit
    }

    /// How much of a file is read back before it appears.
    #[must_use]
    pub fn verify(&self) -> Option<Verify> {
        self.verify
    }

    /// Returns true if the file is synced before it appears.
    #[must_use]
    pub fn durable(&self) -> bool {
        self.durable
    }
}

/// Names of values in other libraries: the option, the name there, and the name here.
const ELSEWHERE: [(&str, &str, &str); 10] = [
    ("compression", "none", "uncompressed"),
    ("compression", "lz4_raw", "lz4"),
    ("encoding", "plain_dictionary", "dictionary"),
    ("encoding", "rle_dictionary", "dictionary"),
    ("compatibility", "1.0", "v1"),
    ("compatibility", "parquet_1_0", "v1"),
    ("compatibility", "2.6", "modern"),
    ("compatibility", "parquet_2_0", "modern"),
    ("timestamps", "timestamp_micros", "us"),
    ("timestamps", "timestamp_millis", "ms"),
];

/// The refusal of a name, with the one that it may stand for.
fn unknown_name(option: &str, value: &str, accepted: &[&str]) -> OptionFault {
    let lower = value.to_ascii_lowercase();
    let known = ELSEWHERE
        .iter()
        .find(|(of, theirs, _)| *of == option && *theirs == lower);
    let meant = known.map_or(lower.as_str(), |(_, _, ours)| *ours);
    let hint = if accepted.contains(&meant) {
        format!("here it is {meant:?}; ")
    } else {
        String::new()
    };
    OptionFault::choose(option, value, &hint, accepted)
}

/// The values that an option accepts, where they are names or integers of a range.
#[must_use]
pub fn accepted(option: &str) -> Vec<String> {
    fn names<T: Copy>(all: &[(&'static str, T)]) -> Vec<String> {
        all.iter().map(|(name, _)| (*name).to_owned()).collect()
    }
    match option {
        "compression" => names(&Codec::ALL),
        "compression_level" => levels(),
        "row_group_rows" | "page_rows" => vec![range(1, MAX_ROW_GROUP_ROWS)],
        "row_group_bytes" => vec![range(1, i64::MAX)],
        "page_bytes" | "dictionary_page_bytes" => vec![range(1, MAX_PAGE_BYTES)],
        "threads" => vec![range(1, MAX_THREADS)],
        "encoding" => names(&NamedEncoding::ALL),
        "compatibility" => names(&Compatibility::ALL),
        "timestamps" => names(&Timestamps::ALL),
        "timestamp_loss" => names(&TimestampLoss::ALL),
        "sorting" => names(&SortingMode::ALL),
        "verify" => names(&Verify::ALL),
        _ => Vec::new(),
    }
}

fn levels() -> Vec<String> {
    let with_levels = |(name, codec): &(&str, Codec)| {
        let (lowest, highest, _) = codec.levels()?;
        Some(format!("{name} {}", range(lowest, highest)))
    };
    Codec::ALL.iter().filter_map(with_levels).collect()
}

fn range(lowest: i64, highest: i64) -> String {
    format!("{lowest} to {highest}")
}

fn named<T: Copy>(option: &str, value: &str, accepted: &[(&'static str, T)]) -> Result<T> {
    accepted
        .iter()
        .find(|(name, _)| *name == value)
        .map(|(_, found)| *found)
        .ok_or_else(|| {
            let names: Vec<_> = accepted.iter().map(|(name, _)| *name).collect();
            WriteError::Option(unknown_name(option, value, &names))
        })
}

fn within(option: &str, value: i64, highest: i64) -> Result<usize> {
    if (1..=highest).contains(&value) {
        return usize::try_from(value)
            .map_err(|error| WriteError::option(option, format!("{option}={value}: {error}")));
    }
    let message = format!("{option}={value} is not accepted: give an integer from 1 to {highest}");
    Err(WriteError::Option(
        OptionFault::new(option, message).accepting(&[range(1, highest)]),
    ))
}

fn threads(threads: Option<i64>) -> Result<Threads> {
    threads.map_or(Ok(Threads::UpTo(usize::MAX)), |threads| {
        Ok(Threads::Exactly(within("threads", threads, MAX_THREADS)?))
    })
}

fn chunk_sizes((least, most): (i64, i64)) -> Result<ChunkSizes> {
    let sizes = usize::try_from(least).ok().zip(usize::try_from(most).ok());
    let accepted = sizes.filter(|_| 1 <= least && least < most && most <= MAX_PAGE_BYTES);
    accepted
        .map(|(least, most)| ChunkSizes { least, most })
        .ok_or_else(|| {
            WriteError::option(
                "content_defined_chunking",
                format!(
                    "content_defined_chunking=({least}, {most}) is not accepted: give the least and the most bytes of a chunk, \
                     from 1 to {MAX_PAGE_BYTES}, the second greater than the first"
                ),
            )
        })
}

const UNITS: [(&str, u64); 7] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
];

/// Bytes of an amount of memory that an option gives.
pub(crate) fn bytes_of_amount(option: &str, amount: &Amount) -> Result<usize> {
    let (written, bytes) = match amount {
        Amount::Bytes(bytes) => (bytes.to_string(), u64::try_from(*bytes).ok()),
        Amount::Text(text) => (format!("{text:?}"), bytes_of(text)),
        Amount::Share(budget) => (budget.share().to_string(), u64::try_from(budget.share()).ok()),
    };
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    bytes.filter(|bytes| *bytes > 0).ok_or_else(|| {
        WriteError::option(option, format!(
            "{option}={written} is not accepted: give bytes from 1 up as an integer, or text with a unit such as \"16MB\" or \"16MiB\""
        ))
    })
}

fn bytes_of(text: &str) -> Option<u64> {
    let unit = UNITS.iter().find_map(|(unit, bytes)| {
        let start = text.len().checked_sub(unit.len())?;
        let (number, end) = (text.get(..start)?, text.get(start..)?);
        end.eq_ignore_ascii_case(unit).then_some((number, *bytes))
    });
    let (number, unit) = unit?;
    number.trim().parse::<u64>().ok()?.checked_mul(unit)
}

fn compression(rule: CompressionRule, level: Option<i64>) -> Result<CompressionRule<Compression>> {
    if let (CompressionRule::Columns(_), Some(level)) = (&rule, level) {
        return Err(WriteError::option(
            "compression_level",
            format!(
                "compression_level={level} is not accepted beside codecs by column: write the level behind the codec, as in \"zstd({level})\""
            ),
        ));
    }
    rule.checked("compression", |name| named_codec(&name, level))
}

/// Parses a codec by its name, which a level in brackets may follow.
fn named_codec(text: &str, level: Option<i64>) -> Result<Compression> {
    let (name, own) = match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        Some((name, own)) => (name, own.parse::<i64>().ok()),
        None => (text, None),
    };
    if (name.len() < text.len() && own.is_none()) || (own.is_some() && level.is_some()) {
        return Err(WriteError::option(
            "compression",
            format!("compression={text:?} is not accepted: write the level once, as in \"zstd(3)\""),
        ));
    }
    codec_at(named("compression", name, &Codec::ALL)?, name, own.or(level))
}

fn codec_at(codec: Codec, name: &str, level: Option<i64>) -> Result<Compression> {
    let Some((lowest, highest, default)) = codec.levels() else {
        return match level {
            None => Ok(match codec {
                Codec::Snappy => Compression::SNAPPY,
                Codec::Lz4 => Compression::LZ4_RAW,
                _ => Compression::UNCOMPRESSED,
            }),
            Some(level) => Err(WriteError::option(
                "compression_level",
                format!("compression_level={level} is not accepted: {name:?} has no levels, leave it out"),
            )),
        };
    };
    let level = level.unwrap_or(default);
    if !(lowest..=highest).contains(&level) {
        let message =
            format!("compression_level={level} is not accepted: {name:?} takes {lowest} to {highest}");
        return Err(WriteError::Option(
            OptionFault::new("compression_level", message).accepting(&[range(lowest, highest)]),
        ));
    }
    let level =
        i32::try_from(level).map_err(|error| WriteError::option("compression_level", error.to_string()))?;
    Ok(match codec {
        Codec::Zstd => Compression::ZSTD(ZstdLevel::try_new(level)?),
        Codec::Gzip => Compression::GZIP(GzipLevel::try_new(level.unsigned_abs())?),
        _ => Compression::BROTLI(BrotliLevel::try_new(level.unsigned_abs())?),
    })
}

fn bloom_filter(fpp: Option<f64>) -> Result<Option<f64>> {
    match fpp.filter(|fpp| !(f64::MIN_POSITIVE..1.0).contains(fpp)) {
        None => Ok(fpp),
        Some(fpp) => Err(WriteError::option(
            "bloom_filter",
            format!(
                "bloom_filter={fpp} is not accepted: give the share of wrong answers, between 0 and 1, such as {DEFAULT_FPP}"
            ),
        )),
    }
}

fn sorting(input: &OptionInput) -> Result<SortingMode> {
    let mode = named("sorting", &input.sorting, &SortingMode::ALL)?;
    let refuse = |why: &str| {
        Err(WriteError::option(
            "sorting",
            format!("sorting=\"sort\" is not accepted {why}"),
        ))
    };
    match mode {
        SortingMode::Sort if input.sorting_columns.is_empty() => {
            refuse("without sorting_columns: name the columns to sort by")
        }
        SortingMode::Sort if input.memory_limit.is_some() => {
            refuse("beside memory_limit, since it keeps a whole row group in memory: leave one of them out")
        }
        mode => Ok(mode),
    }
}

fn sort_key(input: &SortInput) -> Result<SortKey> {
    Ok(SortKey {
        column: input.column.clone(),
        descending: named(
            "sorting_columns",
            &input.direction,
            &[("ascending", false), ("descending", true)],
        )?,
        nulls_first: named(
            "sorting_columns",
            &input.nulls,
            &[("nulls_first", true), ("nulls_last", false)],
        )?,
    })
}

pub(crate) fn check_keys<T>(option: &str, columns: &[(Vec<String>, T)]) -> Result<()> {
    let empty = |(path, _): &&(Vec<String>, T)| path.is_empty();
    match columns.iter().find(empty) {
        None => Ok(()),
        Some((path, _)) => Err(WriteError::option(
            option,
            format!(
                "{option} has the key {path:?}: a key is a column's dotted path (\"a.list.element\") or a tuple of its parts"
            ),
        )),
    }
}

/// Checks key-value metadata.
pub(crate) fn metadata(pairs: Vec<(String, String)>) -> Result<Vec<(String, String)>> {
    if pairs
        .iter()
        .any(|(key, _)| key == parquet::arrow::ARROW_SCHEMA_META_KEY)
    {
        return Err(WriteError::option(
            "metadata",
            format!(
                "metadata has the key {:?}, which the writer sets itself: choose another",
                parquet::arrow::ARROW_SCHEMA_META_KEY
            ),
        ));
    }
    Ok(pairs)
}
