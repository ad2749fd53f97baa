//! The options of an append.

use parquet_writer::{OptionFault, Timestamps, WriterOptions};

use crate::conditions::Conditions;
use crate::error::{Result, TableError};

/// The options of an append.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AppendOptions {
    /// True if columns that the table lacks are added to it.
    pub merge_schema: bool,
    /// The application's id and its transaction version. Rows of a version that the table already has are not written
    /// again.
    pub app_transaction: Option<(String, i64)>,
    /// Conditions on partition columns alone. The append replaces the rows that satisfy all of them; with an empty list
    /// it replaces every row.
    pub replace: Option<Conditions>,
    /// A note for the history.
    pub user_metadata: Option<String>,
    /// Bytes of a file.
    pub max_file_bytes: Option<i64>,
    /// Rows of a file.
    pub max_file_rows: Option<i64>,
    /// True if appends of this process that commit at the same time share files and a transaction.
    pub coalesce: bool,
    /// The folder in the table for the data files, where they are not to be in the table's own.
    pub folder: Option<String>,
}

/// Checks that a Delta table takes files with these options.
///
/// # Errors
/// [`TableError::Option`] says why not.
pub fn check_options(options: &WriterOptions) -> Result<()> {
    let refuse = |option: &str, why: &str| Err(TableError::Option(OptionFault::new(option, why)));
    if options.is_encrypted() {
        return refuse(
            "encryption",
            "encryption is not accepted for a Delta table: its log holds the least and the greatest value of each column \
             as they are, and its readers are given no keys; leave it out",
        );
    }
    if options.has_field_ids() {
        return refuse(
            "field_ids",
            "field_ids is not accepted for a Delta table, which numbers its columns itself where it maps their names; \
             leave it out",
        );
    }
    if options.timestamps() == Timestamps::Ms {
        return refuse(
            "timestamps",
            "timestamps=\"ms\" is not accepted for a Delta table, whose timestamps are in microseconds: leave it out, or \
             round the times before",
        );
    }
    Ok(())
}
