//! Errors, each kind defined by what the caller can do about it.

use std::io;
use std::path::PathBuf;

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;

/// A result of this crate.
pub type Result<T, E = WriteError> = std::result::Result<T, E>;

/// The end of a refusal by a writer of one file, which takes more batches after it.
pub(crate) const CAN_GO_ON: &str = "the writer can go on";

/// The reason why a write failed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// An option has a value that is not accepted; the message lists what is.
    #[error("{0}")]
    Option(OptionFault),
    /// Data does not fit the writer's schema, or a schema cannot be written to Parquet.
    #[error("{0}")]
    Schema(SchemaFault),
    /// Data breaks the rules of its layout.
    #[error("{0}")]
    Data(String),
    /// The writer is closed, was aborted, or failed before.
    #[error("{0}")]
    Closed(String),
    /// The caller's check asked to stop.
    #[error("the write was interrupted")]
    Interrupted,
    /// The operating system, or the object written to, refused.
    #[error("{}", io_message(path.as_ref(), source))]
    Io {
        /// The path of the file, where there is one.
        path: Option<PathBuf>,
        /// The system's own error.
        #[source]
        source: io::Error,
    },
    /// The operating system refused the temporary file of pages that memory does not hold.
    #[error("{}: {source}, while pages that do not fit memory were put into a temporary file there", directory.display())]
    Spill {
        /// The directory of the temporary file.
        directory: PathBuf,
        /// The system's own error.
        #[source]
        source: io::Error,
    },
    /// A value could not be encoded.
    #[error("{0}")]
    Encode(String),
    /// What was read back of a file is not what was written: [`Verify`](crate::Verify).
    #[error("{0}")]
    Corrupt(String),
}

/// A refused option, and what would have been accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct OptionFault {
    /// The whole report.
    pub message: String,
    /// The option; `None` when it is about no single one.
    pub option: Option<String>,
    /// The accepted values, where they can be listed.
    pub accepted: Vec<String>,
}

impl OptionFault {
    /// A refusal of the value of one option.
    pub fn new(option: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            option: Some(option.into()),
            accepted: Vec::new(),
        }
    }

    /// A refusal of a value that is none of the `accepted` names. `hint` is text that precedes their list, such as
    /// the name meant.
    #[must_use]
    pub fn choose(option: &str, value: &str, hint: &str, accepted: &[&str]) -> Self {
        let names: Vec<_> = accepted.iter().map(|name| format!("{name:?}")).collect();
        let list = names.join(", ");
        let message = format!("{option}={value:?} is not accepted: {hint}choose one of {list}");
        Self::new(option, message).accepting(accepted)
    }

    /// The same, with the accepted values.
    #[must_use]
    pub fn accepting<T: ToString>(mut self, accepted: &[T]) -> Self {
        self.accepted = accepted.iter().map(ToString::to_string).collect();
        self
    }
}

/// Data or a schema that does not fit, and the column that it is about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SchemaFault {
    /// The whole report.
    pub message: String,
    /// The dotted path of the column; `None` when it is about no single one.
    pub column: Option<String>,
}

fn io_message(path: Option<&PathBuf>, source: &io::Error) -> String {
    path.map_or_else(
        || source.to_string(),
        |path| format!("{}: {source}", path.display()),
    )
}

impl WriteError {
    /// A refused value of `option`.
    pub fn option(option: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Option(OptionFault::new(option, message))
    }

    /// Data or a schema that does not fit.
    pub fn schema(message: impl Into<String>) -> Self {
        Self::Schema(SchemaFault {
            message: message.into(),
            column: None,
        })
    }

    /// A column that does not fit.
    pub fn column(column: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Schema(SchemaFault {
            message: message.into(),
            column: Some(column.into()),
        })
    }

    /// The same refusal of data for a caller that takes no more batches after it. The end of its message says the
    /// `outcome`, and not that the writer can go on.
    #[must_use]
    pub fn with_outcome(self, outcome: &str) -> Self {
        match self {
            Self::Schema(SchemaFault { message, column }) => {
                let refusal = message.strip_suffix(CAN_GO_ON).unwrap_or(&message);
                let refusal = refusal.trim_end_matches([';', ' ']);
                Self::Schema(SchemaFault {
                    message: format!("{refusal}; {outcome}"),
                    column,
                })
            }
            other => other,
        }
    }

    /// An error of the operating system about `path`.
    pub fn io(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io {
            path: Some(path.into()),
            source,
        }
    }
}

impl From<io::Error> for WriteError {
    /// Unwraps an error of this crate that has passed through a reader, which only knows errors of this type.
    fn from(source: io::Error) -> Self {
        source
            .downcast()
            .unwrap_or_else(|source| Self::Io { path: None, source })
    }
}

impl From<ParquetError> for WriteError {
    /// Unwraps the sink's own error.
    fn from(error: ParquetError) -> Self {
        match error {
            ParquetError::External(inner) => match inner.downcast::<io::Error>() {
                Ok(source) => Self::from(*source),
                Err(inner) => inner
                    .downcast::<Self>()
                    .map_or_else(|inner| Self::Encode(inner.to_string()), |error| *error),
            },
            other => Self::Encode(other.to_string()),
        }
    }
}

impl From<ArrowError> for WriteError {
    fn from(error: ArrowError) -> Self {
        Self::Encode(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_takes_the_place_of_the_promise_to_go_on() {
        for message in ["row 3 is bad", "row 3 is bad; the writer can go on"] {
            let told = WriteError::column("a", message).with_outcome("nothing is left");
            assert_eq!(told.to_string(), "row 3 is bad; nothing is left");
        }
    }
}
