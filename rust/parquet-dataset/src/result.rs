//! What was written.

use std::path::PathBuf;

use parquet_writer::WriteResult;

/// What a closed dataset writer tells.
#[derive(Debug, Clone, Default)]
pub struct DatasetResult {
    /// The files: those of the partition met first come first, and of one partition those of earlier rows.
    pub files: Vec<FileResult>,
}

/// One file of a dataset.
#[derive(Debug, Clone)]
pub struct FileResult {
    /// Where it is.
    pub path: PathBuf,
    /// Partition columns and their values as text, before anything is escaped; `None` is null.
    pub partition: Vec<(String, Option<String>)>,
    /// What its writer tells.
    pub file: WriteResult,
}
