//! Errors of a copy.

use std::io;
use std::path::Path;

use parquet_inspect::InspectError;
use parquet_writer::WriteError;

/// What is wrong with a footer whose fields are not those of `parquet.thrift`.
pub(crate) const UNEXPECTED: &str = "a field is not what the format has there";

/// The reason why files could not be joined or split. Nothing has appeared then.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    /// An argument is not accepted, schemas differ, a file cannot be read or written, or the caller asked to stop.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A file is not Parquet, or is truncated or damaged. The message has its path.
    #[error("{0}")]
    Corrupt(String),
}

/// A result of this crate.
pub type Result<T, E = RewriteError> = std::result::Result<T, E>;

impl RewriteError {
    /// A file whose footer, or what the footer says of places in the file, is not what it should be.
    pub(crate) fn damaged(path: &Path, what: impl std::fmt::Display) -> Self {
        Self::Corrupt(format!("{}: the footer is damaged: {what}", path.display()))
    }

    /// An error of the operating system about an input.
    pub(crate) fn io(path: &Path, error: io::Error) -> Self {
        WriteError::io(path, error).into()
    }

    /// An input whose footer could not be read.
    pub(crate) fn of_footer(path: &Path, error: InspectError) -> Self {
        match error {
            InspectError::Io(error) => Self::io(path, error),
            InspectError::Encrypted => Self::encrypted(path),
            other => Self::Corrupt(format!("{}: {other}", path.display())),
        }
    }

    /// An encrypted input: a page is bound to the file that it was encrypted for.
    pub(crate) fn encrypted(path: &Path) -> Self {
        WriteError::option(
            "files",
            format!(
                "{} is encrypted, and its pages can be decrypted in that file alone: read its rows with the key, and \
                 write them again",
                path.display()
            ),
        )
        .into()
    }

    /// An input that is not the file any more whose footer was read.
    pub(crate) fn changed(path: &Path) -> Self {
        WriteError::Data(format!(
            "{} was changed while it was copied, and nothing was written: copy it again when its writer is done",
            path.display()
        ))
        .into()
    }
}
