//! The change data feed: the rows that versions inserted, updated and deleted.
//!
//! A version with change data files says by them alone which rows it changed. Of another version, the rows of its new
//! files are inserted, and those of the files that left are deleted ("Change Data Files" and "Add CDC File" in Delta's
//! PROTOCOL.md).

use std::fmt;
use std::sync::Arc;

use arrow_array::StringArray;
use arrow_schema::{DataType, Field, Schema};
use delta_commit::actions::Metadata;
use parquet_writer::Batch;
use serde_json::Map;

use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::schema::{ColumnType, Primitive, TableColumn, TableSchema};

/// The property of tables that have one.
pub(crate) const CHANGE_FEED: &str = "delta.enableChangeDataFeed";

/// The folder of change data files in a table.
pub(crate) const FOLDER: &str = "_change_data";

/// The column that says what happened to a row.
pub(crate) const CHANGE_TYPE: &str = "_change_type";

/// The column of the version that changed a row. Readers make it.
pub(crate) const COMMIT_VERSION: &str = "_commit_version";

/// The column of the time at which that version was written. Readers make it.
pub(crate) const COMMIT_TIMESTAMP: &str = "_commit_timestamp";

/// A value of the column `_change_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeType {
    Insert,
    UpdatePreimage,
    UpdatePostimage,
    Delete,
}

impl fmt::Display for ChangeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Insert => "insert",
            Self::UpdatePreimage => "update_preimage",
            Self::UpdatePostimage => "update_postimage",
            Self::Delete => "delete",
        })
    }
}

/// The column `_change_type` of change data files.
pub(crate) fn change_type() -> TableColumn {
    TableColumn {
        name: CHANGE_TYPE.to_owned(),
        kind: ColumnType::Primitive(Primitive::String),
        nullable: true,
        metadata: Map::new(),
    }
}

/// Refuses columns of a table with a change data feed that have the names of the feed's own.
///
/// # Errors
/// [`delta_commit::CommitError::Schema`] names the first one.
pub(crate) fn check_columns(metadata: &Metadata, schema: &TableSchema) -> Result<()> {
    if !metadata.is_enabled(CHANGE_FEED) {
        return Ok(());
    }
    let reserved = [CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP];
    let mut columns = schema.columns.iter();
    match columns.find(|column| {
        reserved
            .iter()
            .any(|name| name.eq_ignore_ascii_case(&column.name))
    }) {
        Some(column) => Err(TableError::column(
            &column.name,
            format!(
                "the column {:?} is one that a change data feed adds, and the table has one ({CHANGE_FEED}=true): give \
                 the column another name, or the table no feed",
                column.name
            ),
        )),
        None => Ok(()),
    }
}

/// The table as writers of change data files have it: with the column `_change_type`.
pub(crate) fn with_change_type(head: &TableHead) -> TableHead {
    let mut columns = head.schema.columns.clone();
    columns.push(change_type());
    TableHead {
        schema: Arc::new(TableSchema { columns }),
        ..head.clone()
    }
}

/// The rows of a change data file to which this happened.
pub(crate) fn changed(rows: &Batch, change: ChangeType) -> Result<Batch> {
    let fields = rows.schema().fields().iter().cloned();
    let field = Arc::new(Field::new(CHANGE_TYPE, DataType::Utf8, true));
    let schema = Schema::new(fields.chain([field]).collect::<Vec<_>>());
    let mut columns = rows.columns().to_vec();
    let values = std::iter::repeat_n(change.to_string(), rows.rows());
    columns.push(Arc::new(StringArray::from_iter_values(values)));
    Ok(Batch::new(Arc::new(schema), columns, rows.rows())?)
}
