//! Delta tables: writer and committer together.
//!
//! [`Table::open`] reads a table's log ([`snapshot`], by way of checkpoints). [`Table::append`] writes Parquet files
//! and commits one transaction through the committer that all threads of the process share. The log is read with the
//! action types that commits are written with, so that reading and writing cannot disagree.

mod append;
mod checkpoint;
mod cleanup;
mod coalesce;
mod create;
mod delete;
mod deletion_vectors;
mod detached;
mod error;
mod foreign_fields;
mod indexed;
mod kept;
mod log_dir;
mod operations;
mod parsed;
mod place;
mod planned;
mod row_merge;
mod rows;
mod scan;
pub mod schema;
pub mod snapshot;
mod stats;
mod table;

pub use append::{Append, AppendOptions};
pub use coalesce::{is_abandoned, is_serving};
pub use create::{CreateMode, CreateOptions};
pub use delete::PendingDelete;
pub use delta_commit::PerProcess;
pub use error::{Result, TableError};
pub use operations::{Condition, ReadSet, Scalar};
pub use place::{Ages, Place};
pub use scan::{Scan, ScanOptions, ScanReader};
pub use snapshot::Snapshot;
pub use table::Table;
