//! Arrow batches in, a folder of Parquet files out.
//!
//! The way of a batch: [`partition`] splits it by the values of the partition columns, [`part`] writes each share into
//! the open file of its partition, [`rolling`] says when that file is full, and [`staging`] keeps finished files out of
//! sight. At the end [`publish`] moves all of them to where readers look, and takes that back when it fails half-way.

mod hive;
mod options;
mod part;
mod partition;
mod publish;
mod result;
mod rolling;
mod spread;
mod staging;
mod template;
mod writer;

pub use options::{DEFAULT_MAX_OPEN_FILES, DEFAULT_TEMPLATE, DatasetInput, DatasetOptions, Existing};
pub use result::{DatasetResult, FileResult};
pub use spread::{Places, Prepared, Spread, SpreadFile, SpreadPlan};
pub use writer::DatasetWriter;
