//! Errors, each kind defined by what the caller can do about it.

use crate::conflict::Conflict;
use crate::log::StoreError;
use crate::settle::Token;

/// A result of this crate.
pub type Result<T, E = CommitError> = std::result::Result<T, E>;

/// The reason why a transaction did not commit.
///
/// After every kind but [`CommitError::Unknown`] it is certain that nothing of the transaction is in the table, now or
/// later, and its data files may be deleted.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError {
    /// A conflict with a transaction that committed first: read the table again and redo the transaction.
    #[error("{0}")]
    Conflict(#[from] Box<Conflict>),
    /// The outcome is not known yet: keep the data files, and ask [`outcome`](crate::Committer::outcome).
    #[error(
        "the commit of {} is in doubt ({reason}): it may be in version {} to {}; keep its data files and ask \
         outcome(token)", token.id, token.first, token.last
    )]
    Unknown {
        /// The token to ask `outcome` with.
        token: Box<Token>,
        /// The reason why the outcome is not known.
        reason: String,
    },
    /// The deadline passed before the transaction was tried.
    #[error("the deadline passed before the commit was tried; nothing was written: commit again")]
    DeadlinePassed,
    /// The transaction itself cannot be committed.
    #[error("{0}")]
    Invalid(String),
    /// Its data file is in the table already, or in another transaction that commits now.
    #[error("the data file {path:?} is added already{}: a file is added once", in_version(*version))]
    DuplicateFile {
        /// The path as in `add.path`.
        path: String,
        /// The version that holds it, when it is in the log.
        version: Option<i64>,
    },
    /// The log was cleaned up past this version, and the versions in between are gone.
    #[error("the log of the table was cleaned up past version {0}: open the table again")]
    LogTruncated(i64),
    /// The table is not there any more: this version of its log is gone, or another one is in its place.
    #[error(
        "version {0} of the table's log is gone, or is another one by now: the table was deleted, moved or replaced; \
         open it again"
    )]
    Replaced(i64),
    /// Bytes of the log, or of an action, do not follow the protocol.
    #[error("{0}")]
    Malformed(String),
    /// A schema that Delta cannot hold.
    #[error("{message}")]
    Schema {
        /// The dotted path of the column; `None` when it is about no single one.
        column: Option<String>,
        /// The whole report.
        message: String,
    },
    /// The table asks for what is not built.
    #[error("{0}")]
    Unsupported(String),
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl CommitError {
    /// Data or a schema that does not fit.
    pub fn schema(message: impl Into<String>) -> Self {
        Self::Schema {
            column: None,
            message: message.into(),
        }
    }

    /// A column that does not fit.
    pub fn column(column: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Schema {
            column: Some(column.into()),
            message: message.into(),
        }
    }
}

fn in_version(version: Option<i64>) -> String {
    version.map_or_else(String::new, |version| format!(" in version {version}"))
}
