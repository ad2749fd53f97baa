//! Errors of a table, each kind defined by what the caller can do about it.

use std::io::ErrorKind;
use std::path::PathBuf;

use delta_commit::CommitError;
use delta_commit::log::{StoreError, StoreErrorKind};
use parquet_writer::{OptionFault, WriteError};

/// A result of this crate.
pub type Result<T, E = TableError> = std::result::Result<T, E>;

/// The reason why an operation on a table failed.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The commit layer's own error.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The Parquet writer's own error.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// There is no table.
    #[error("{0}: not a Delta table: it has no version in _delta_log")]
    NotFound(PathBuf),
    /// There is a table already.
    #[error("{0}: there is a Delta table already: open it, or create with mode=\"overwrite\"")]
    Exists(PathBuf),
    /// Another table has taken the place of the one that was opened.
    #[error(
        "{0}: the table that was opened is no longer there: it was deleted or moved, and another one may be in its \
         place: open it again"
    )]
    Replaced(PathBuf),
    /// A version does not exist, or no longer.
    #[error("{0}")]
    NoSuchVersion(String),
    /// The log, or a checkpoint, does not follow the protocol.
    #[error("{0}")]
    Malformed(String),
    /// A file of a checkpoint is not there any more: another process cleaned up the log, or the file was lost.
    #[error("{}: this file of a checkpoint no longer exists: open the table again", .0.display())]
    CheckpointGone(PathBuf),
    /// The table only takes appends.
    #[error("the table has delta.appendOnly=true, so {0} is refused: its rows are added and never removed")]
    AppendOnly(&'static str),
    /// A constraint is not true for rows that are written, or for those that the table has.
    #[error("{message}{}", with_taken(*taken))]
    Constraint {
        /// The report about the row.
        message: String,
        /// The name of the constraint.
        constraint: String,
        /// Its condition, in SQL.
        expression: String,
        /// The rows of the same data that an append took before: those of other batches.
        taken: u64,
    },
    /// An option or argument of the caller is not accepted.
    #[error("{0}")]
    Option(OptionFault),
}

/// The words for rows that an append took before a broken constraint.
fn with_taken(rows: u64) -> String {
    match rows {
        0 => String::new(),
        _ => format!(". The append has the rows of the batches before: the first {rows} of the data"),
    }
}

impl TableError {
    /// Wraps an error of the operating system; `what` names its object.
    pub(crate) fn io(what: impl std::fmt::Display, error: &std::io::Error) -> Self {
        Self::from(StoreError::io(what, error))
    }

    /// Adds rows of the same data that were taken before to a broken constraint.
    #[must_use]
    pub fn after(mut self, rows: u64) -> Self {
        if let Self::Constraint { taken, .. } = &mut self {
            *taken += rows;
        }
        self
    }

    /// Returns true if the error says that a file of the table is missing.
    pub(crate) fn is_of_missing(&self) -> bool {
        match self {
            Self::Commit(CommitError::LogTruncated(_) | CommitError::Replaced(_)) => true,
            Self::Commit(CommitError::Store(error)) => error.kind == StoreErrorKind::NotFound,
            Self::Write(WriteError::Io { source, .. }) => source.kind() == ErrorKind::NotFound,
            _ => false,
        }
    }

    /// Returns true if nothing was committed because a version in between moved rows to other files, as a compaction
    /// does. The same work, begun anew, has no conflict with that version.
    #[must_use]
    pub fn is_of_moved_rows(&self) -> bool {
        matches!(self, Self::Commit(CommitError::Conflict(conflict)) if conflict.only_moved)
    }

    /// Returns true if the store may give another answer the next time.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Commit(CommitError::Store(error)) if error.kind == StoreErrorKind::Transient)
    }

    /// Returns true if the log or a checkpoint is not what the protocol asks for.
    pub(crate) const fn is_corruption(&self) -> bool {
        matches!(
            self,
            Self::Malformed(_) | Self::CheckpointGone(_) | Self::Commit(CommitError::Malformed(_))
        )
    }

    /// Data or a schema that does not fit.
    pub(crate) fn schema(message: impl Into<String>) -> Self {
        Self::Commit(CommitError::schema(message))
    }

    /// A column that does not fit.
    pub(crate) fn column(column: &str, message: impl Into<String>) -> Self {
        Self::Commit(CommitError::column(column, message))
    }

    /// A request that is not accepted, about no single option.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::Option(OptionFault {
            message: message.into(),
            option: None,
            accepted: Vec::new(),
        })
    }

    /// A refused value of `option`.
    pub fn option(option: &str, message: impl Into<String>) -> Self {
        Self::Option(OptionFault::new(option, message))
    }

    /// An error about a feature that is not implemented.
    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::Commit(CommitError::Unsupported(message.into()))
    }
}

impl From<StoreError> for TableError {
    fn from(error: StoreError) -> Self {
        Self::Commit(CommitError::Store(error))
    }
}
