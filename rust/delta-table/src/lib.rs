//! Delta tables: writer and committer together.
//!
//! [`Table::open`] reads the [`head`] of a table from its log, by way of checkpoints, and its files are read when an
//! operation asks for them ([`snapshot`]). [`Table::append`] writes Parquet files and commits one transaction through
//! the committer that all threads of the process share. The log is read with the
//! action types that commits are written with, so that reading and writing cannot disagree.

mod append;
mod backfill;
mod buffered_rows;
mod change_feed;
mod checkpoint;
mod cleanup;
mod clock;
mod clustering;
mod conditions;
mod constraints;
mod create;
mod data_file;
mod delete;
mod deletion_vectors;
mod detached;
mod error;
mod fit;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod group_commit;
pub mod head;
mod interval;
mod limits;
mod log_dir;
mod mapping;
mod merge;
mod near;
mod operations;
mod optimize;
mod pinned;
mod planned;
mod properties;
mod retry;
mod row_change;
mod row_ids;
mod row_merge;
mod row_remap;
mod rows;
mod scan;
pub mod schema;
mod schema_evolution;
mod single_flight;
pub mod snapshot;
mod sql;
mod stats;
mod stats_columns;
mod storage;
mod table;
#[cfg(test)]
mod tests;
mod time_travel;
mod update;
mod vacuum;
mod values;
mod versions;
mod widening;

pub use append::{
    AnswerCallback, Append, AppendOptions, CommitAnswer, CommitStep, CommitWait, check_options,
};
pub use conditions::{Condition, ConditionValue, Conditions, check_condition};
pub use constraints::PendingConstraint;
pub use create::{CreateMode, CreateOptions};
pub use error::{Result, TableError};
pub use fit::check_new_values;
pub use head::TableHead;
pub use mapping::Mapping;
pub use merge::{ClauseKind, Expressions, MergeClause, MergeCondition, MergeOptions, MergeValues};
pub use operations::DeclaredReads;
pub use optimize::{CompactOptions, Compacted, Compaction, PendingCompaction};
pub use retry::Retry;
pub use row_change::{PendingChange, RowCounts};
pub use scan::{Changes, ChangesOptions, ChangesReader, Scan, ScanOptions, ScanReader};
pub use snapshot::Snapshot;
pub use storage::{
    Bodies, LocalStorage, MOST_REPLACEMENTS, Names, StoredFile, StoredFiles, TableStorage, WaitCheck,
    check_clock,
};
pub use table::{CommitCounter, HistoryEntry, Table};
pub use update::NewValues;
pub use vacuum::{Vacuum, VacuumOptions};
pub use values::Evaluate;
