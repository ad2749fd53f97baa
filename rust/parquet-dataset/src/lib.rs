//! Writes Arrow batches to a folder of Parquet files.
//!
//! The path of a batch: [`partition`] splits it by the values of the partition columns. [`part`] writes each share into
//! the open file of its partition. [`rolling`] decides when that file is full. [`schema_change`] widens the schema
//! where later rows need it, and [`early`] holds rows whose file may still change. [`storage`] is where the files are:
//! in a local [`folder`], [`staging`] hides finished files from readers, and [`publish`] moves all of them to their
//! names at the end, and moves them back when that fails half-way.

mod early;
mod folder;
mod hive;
mod layout;
mod options;
mod part;
mod partition;
mod publish;
mod result;
mod rolling;
mod schema_change;
mod spread;
mod staging;
mod storage;
mod table_formats;
mod template;
mod writer;

pub use folder::LocalFolder;
pub use options::{
    DEFAULT_MAX_OPEN_FILES, DEFAULT_TEMPLATE, DatasetInput, DatasetMode, DatasetOptions, OnSchemaChange,
};
pub use partition::ValuesIn;
pub use publish::{COMMON_METADATA_FILE, is_hidden, unlisted};
pub use result::{DatasetResult, FileResult};
pub use schema_change::wider_type;
pub use spread::{Places, Prepared, Spread, SpreadFile, SpreadPlan};
pub use storage::{Published, Storage, Unpublished};
pub use table_formats::{DELTA_LOG, FoundTable, TableLog, logs, table_below, table_here, table_of};
pub use writer::DatasetWriter;
