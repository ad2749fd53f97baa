//! Writes Arrow batches to a Parquet file.
//!
//! The path of a batch: [`schema`] checks that it fits. [`feed`] cuts its rows at fixed positions of their row group.
//! [`column`] encodes: the first page of a column decides on its encoding, among those that [`choose`] offers.
//! [`row_group`] closes chunks one by one into the file. [`verify`] reads it back, where that is asked for. [`sink`]
//! makes the file appear.
//!
//! The same rows, schema and options give the same bytes however the rows were cut into batches, because no decision
//! about bytes looks at batches.

mod batch;
mod budget;
mod byte_slots;
mod choose;
mod chunker;
mod column;
mod common_schema;
mod encryption;
mod enum_categories;
mod error;
mod feed;
mod field_ids;
mod file_writer;
mod fit;
mod footer;
mod footprint;
mod held;
mod int96;
mod integrity;
mod leaf_options;
mod limits;
mod lists;
mod metadata_file;
mod metadata_size;
pub mod metadata_text;
mod names;
mod normalize;
mod options;
mod pages;
mod pandas;
mod parallel;
mod preserved_dictionaries;
mod result;
mod row_group;
mod schema;
mod shared_memory;
pub mod sink;
mod size_checks;
mod sorting;
mod stages;
mod stored_names;
mod stored_schema;
mod thread_pool;
pub mod thrift;
mod timestamp_loss;
mod verify;
mod weight;

pub use batch::Batch;
pub use choose::Reason;
pub use common_schema::{STORED_SCHEMA_KEY, common_schema, other_durations};
pub use encryption::{Encryption, EncryptionKey};
pub use error::{OptionFault, Result, SchemaFault, WriteError};
pub use file_writer::{CREATED_BY, FileWriter, Progress, Size};
pub use fit::Fit;
pub use footprint::was_much_freed;
pub use held::HeldBatches;
pub use limits::MOST_ROW_BYTES;
pub use lists::element_field;
pub use metadata_file::{METADATA_FILE, metadata_file};
pub use names::{ByColumn, column_named};
pub use options::{
    Amount, BloomRule, Codec, Compatibility, CompressionRule, DEFAULT_CHUNK_BYTES, DEFAULT_FPP,
    DEFAULT_PAGE_BYTES, DEFAULT_ROW_GROUP_BYTES, DEFAULT_ROW_GROUP_ROWS, DictionaryRule, EncodingRule,
    NamedEncoding, OptionInput, SortInput, SortKey, SortingMode, StatisticsRule, TimestampLoss, Timestamps,
    Verify, WriterOptions, accepted,
};
pub use pandas::without_range_index;
pub use result::{ColumnResult, WriteResult};
pub use schema::{MOST_LEVELS, plain_array, same_type, too_deep};
pub use shared_memory::MemoryBudget;
pub use stages::StageTimes;
pub use weight::RowWeights;
