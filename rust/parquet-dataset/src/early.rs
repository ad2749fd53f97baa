//! Rows whose file is not begun: its schema may still change.
//!
//! They are copied, up to the rows of a row group or a share of memory. Which rows are held when the schema changes
//! follows from their number and their weight, never from how they were cut into batches.

use arrow_schema::Schema;
use parquet_writer::{Batch, WriterOptions};

use crate::options::DatasetOptions;

/// Bytes of the rows that are held for all files.
const MOST_BYTES: usize = 64 << 20;
/// The part of the memory limit that they may take beside it.
const MEMORY_SHARE: usize = 8;
/// Bytes of a value of any size but text and bytes, which have a weight beside it.
const VALUE_BYTES: usize = 16;

/// The rows that are held for one file at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    pub rows: usize,
    pub weight: u64,
}

impl Limit {
    pub fn new(schema: &Schema, options: &DatasetOptions, writer_options: &WriterOptions) -> Self {
        let limit = writer_options.memory_limit();
        let all = limit.map_or(MOST_BYTES, |limit| MOST_BYTES.min(limit / MEMORY_SHARE));
        let files = if options.partition_by.is_empty() {
            1
        } else {
            options.max_open_files
        };
        // Half is for values of a fixed size, half for the others.
        let half = all / files / 2;
        let row = schema.flattened_fields().len() * VALUE_BYTES;
        let file_rows = options.max_file_rows.unwrap_or(u64::MAX);
        let most = writer_options
            .row_group_rows()
            .min(usize::try_from(file_rows).unwrap_or(usize::MAX));
        Self {
            rows: (half / row.max(1)).min(most),
            weight: half as u64,
        }
    }
}

/// The rows that are held for one file.
#[derive(Debug, Default)]
pub(crate) struct Early {
    pub batches: Vec<Batch>,
    pub rows: usize,
    pub weight: u64,
    /// The count of writes at its last rows.
    pub used: u64,
}
