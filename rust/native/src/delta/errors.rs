//! Conversion of a table's errors to Python exceptions.

use delta_commit::conflict::{Conflict, ConflictKind};
use delta_commit::log::StoreError;
use delta_commit::{CommitError, Token};
use delta_table::TableError;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::errors::{made, option_error, ours};

/// The exception for an error of the table layer.
pub(crate) fn raised(py: Python<'_>, error: TableError) -> PyErr {
    let message = error.to_string();
    let class = match error {
        TableError::Commit(error) => return commit_error(py, error),
        TableError::Write(error) => return crate::errors::Failure::Write(error).into_py(py),
        TableError::NotFound(_) | TableError::Replaced(_) => "TableNotFoundError",
        TableError::Exists(_) => "TableExistsError",
        TableError::NoSuchVersion(_) => "VersionNotFoundError",
        TableError::Malformed(_) | TableError::CheckpointGone(_) => "CorruptLogError",
        TableError::AppendOnly(_) => "AppendOnlyError",
        TableError::Constraint {
            constraint,
            expression,
            ..
        } => return made(py, "ConstraintError", (message, constraint, expression)),
        TableError::Option(fault) => return option_error(py, fault),
    };
    ours(py, class, &message)
}

fn commit_error(py: Python<'_>, error: CommitError) -> PyErr {
    let message = error.to_string();
    let class = match error {
        CommitError::Conflict(conflict) => return conflicting(py, &conflict, &message),
        CommitError::Unknown { token, .. } => return unknown(py, &token, &message),
        CommitError::Store(error) => return store_error(py, &error),
        CommitError::DeadlinePassed => "CommitTimeoutError",
        CommitError::Invalid(_) | CommitError::DuplicateFile { .. } => "OptionError",
        CommitError::Replaced(_) => "TableNotFoundError",
        CommitError::LogTruncated(_) => "VersionNotFoundError",
        CommitError::Malformed(_) => "CorruptLogError",
        CommitError::Schema { column, .. } => return made(py, "SchemaError", (message, column)),
        CommitError::Unsupported(_) => "UnsupportedTableError",
    };
    ours(py, class, &message)
}

fn conflicting(py: Python<'_>, conflict: &Conflict, message: &str) -> PyErr {
    let class = match conflict.kind {
        ConflictKind::ProtocolChanged => "ProtocolChanged",
        ConflictKind::MetadataChanged => "MetadataChanged",
        ConflictKind::ConcurrentTransaction(_) => "ConcurrentTransaction",
        ConflictKind::ConcurrentAppend { .. } | ConflictKind::PinnedAppend { .. } => "ConcurrentAppend",
        ConflictKind::ConcurrentDeleteRead(_) => "ConcurrentDeleteRead",
        ConflictKind::ConcurrentDeleteDelete(_) | ConflictKind::ConcurrentRows { .. } => {
            "ConcurrentDeleteDelete"
        }
    };
    made(py, class, (message, conflict.version, &conflict.operation))
}

fn unknown(py: Python<'_>, token: &Token, message: &str) -> PyErr {
    match token.to_text() {
        Ok(text) => made(py, "CommitUnknown", (message, text)),
        Err(error) => ours(py, "DeltaError", &error.to_string()),
    }
}

fn store_error(py: Python<'_>, error: &StoreError) -> PyErr {
    match error.errno {
        // The message has the path, and the words for the number.
        Some(errno) => PyOSError::new_err((errno, error.message.clone())),
        None => ours(py, "DeltaError", &error.message),
    }
}
