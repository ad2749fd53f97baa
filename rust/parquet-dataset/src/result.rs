//! The results of a dataset and of its files.

use std::path::PathBuf;

use parquet_writer::WriteResult;

/// The result of a closed dataset writer.
#[derive(Debug, Clone, Default)]
pub struct DatasetResult {
    /// The files, by partition in the order in which partitions were met, and then in the order of their rows.
    pub files: Vec<FileResult>,
}

/// One file of a dataset.
#[derive(Debug, Clone)]
pub struct FileResult {
    /// Its path, or its URL.
    pub path: PathBuf,
    /// Partition columns and their values as text, before anything is escaped; `None` is null.
    pub partition: Vec<(String, Option<String>)>,
    /// The result of its writer.
    pub file: WriteResult,
}
