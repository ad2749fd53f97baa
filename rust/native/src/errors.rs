//! Errors on their way to Python.

use std::io;

use delta_table::TableError;
use object_sink::Refusal;
use parquet_rewrite::RewriteError;
use parquet_writer::sink::Unsynced;
use parquet_writer::{OptionFault, WriteError};
use pyo3::call::PyCallArgs;
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;

/// The error of a call, made without the GIL and turned into an exception later.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The writer's own error.
    Write(WriteError),
    /// A Delta table's own error.
    Table(TableError),
    /// A file that is not Parquet, or is truncated or damaged.
    Corrupt(String),
    /// An exception that is ready.
    Python(PyErr),
    /// The producer of the batches reported an error, or breaks the rules.
    Producer(String),
    /// A panic in the middle of a call, with its message.
    Panic(String),
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

impl From<TableError> for Failure {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Write(error) => Self::Write(error),
            other => Self::Table(other),
        }
    }
}

impl From<RewriteError> for Failure {
    fn from(error: RewriteError) -> Self {
        match error {
            RewriteError::Write(error) => Self::Write(error),
            RewriteError::Corrupt(message) => Self::Corrupt(message),
        }
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl Failure {
    /// Adds rows of the same call that were written before to a row that the error names.
    pub fn after(self, rows: u64) -> Self {
        match self {
            Self::Table(error) => Self::Table(error.after(rows)),
            other => other,
        }
    }

    pub fn into_py(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Python(error) => error,
            Self::Corrupt(message) => ours(py, "CorruptFileError", &message),
            Self::Producer(message) => ours(
                py,
                "SpillwayError",
                &format!("the data could not be read: {message}"),
            ),
            Self::Panic(words) => ours(
                py,
                "SpillwayError",
                &format!(
                    "the write was given up half-way: the data breaks the rules of the Arrow format, or this is a fault of \
                     Spillway ({words})"
                ),
            ),
            Self::Write(error) => write_error(py, error),
            Self::Table(error) => crate::delta::errors::raised(py, error),
        }
    }
}

fn write_error(py: Python<'_>, error: WriteError) -> PyErr {
    match error {
        WriteError::Option(fault) => option_error(py, fault),
        WriteError::Schema(fault) => made(py, "SchemaError", (fault.message, fault.column)),
        WriteError::Closed(message) => ours(py, "ClosedError", &message),
        WriteError::Io { path, source } => os_error(py, path, source),
        WriteError::Spill { directory, source } => spill_error(directory, &source),
        other @ WriteError::Interrupted => PyRuntimeError::new_err(other.to_string()),
        WriteError::Corrupt(message) => ours(py, "CorruptFileError", &message),
        WriteError::Data(message) | WriteError::Encode(message) => ours(py, "SpillwayError", &message),
    }
}

/// An exception of `spillway.errors`.
pub(crate) fn ours(py: Python<'_>, class: &str, message: &str) -> PyErr {
    made(py, class, (message,))
}

/// An exception of `spillway.errors`, with the facts that its class takes beside the message.
pub(crate) fn made<'py>(py: Python<'py>, class: &str, arguments: impl PyCallArgs<'py>) -> PyErr {
    let made = py
        .import("spillway.errors")
        .and_then(|errors| errors.getattr(class)?.call1(arguments));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// An `OptionError`, which knows the option and what it accepts.
pub(crate) fn option_error(py: Python<'_>, fault: OptionFault) -> PyErr {
    made(py, "OptionError", (fault.message, fault.option, fault.accepted))
}

/// `OSError`, or the subclass that its `errno` selects; an exception of a file object comes back as it was.
pub(crate) fn os_error(py: Python<'_>, path: Option<std::path::PathBuf>, source: io::Error) -> PyErr {
    if let Some(refusal) = source.get_ref().and_then(|inner| inner.downcast_ref::<Refusal>()) {
        return refused(path, source.kind(), refusal);
    }
    if let Some(unsynced) = Unsynced::of(&source) {
        let errno = unsynced.cause().raw_os_error();
        let path = path.map(std::path::PathBuf::into_os_string);
        return PyOSError::new_err((errno, unsynced.to_string(), path));
    }
    let Some(errno) = source.raw_os_error().or_else(|| errno_of(source.kind())) else {
        return match source.downcast::<PyErr>() {
            Ok(error) => error,
            Err(source) => PyOSError::new_err(source.to_string()),
        };
    };
    let explained = py
        .import("os")
        .and_then(|os| os.call_method1("strerror", (errno,)));
    match explained {
        Ok(text) => PyOSError::new_err((errno, text.unbind(), path.map(std::path::PathBuf::into_os_string))),
        Err(error) => error,
    }
}

/// An `OSError` about spilled pages that could not be written. Its number chooses the subclass.
fn spill_error(directory: std::path::PathBuf, source: &io::Error) -> PyErr {
    let errno = source.raw_os_error().or_else(|| errno_of(source.kind()));
    let message = format!(
        "{source}, while pages that do not fit memory were put into a temporary file there (TMPDIR names another place)"
    );
    match errno {
        Some(errno) => PyOSError::new_err((errno, message, directory.into_os_string())),
        None => PyOSError::new_err(message),
    }
}

/// An `OSError` with an object store's own message, which says more than the text for its number.
fn refused(path: Option<std::path::PathBuf>, kind: io::ErrorKind, refusal: &Refusal) -> PyErr {
    let message = refusal.to_string();
    match (errno_of(kind), path) {
        (Some(errno), path) => {
            PyOSError::new_err((errno, message, path.map(std::path::PathBuf::into_os_string)))
        }
        (None, Some(url)) => PyOSError::new_err(format!("{}: {message}", url.display())),
        (None, None) => PyOSError::new_err(message),
    }
}

/// The error number of a kind, for errors that a library wrapped.
fn errno_of(kind: io::ErrorKind) -> Option<i32> {
    Some(match kind {
        io::ErrorKind::NotFound => 2,
        io::ErrorKind::PermissionDenied => 13,
        io::ErrorKind::AlreadyExists => 17,
        io::ErrorKind::NotADirectory => 20,
        io::ErrorKind::IsADirectory => 21,
        io::ErrorKind::FileTooLarge => 27,
        io::ErrorKind::StorageFull => 28,
        io::ErrorKind::ReadOnlyFilesystem => 30,
        io::ErrorKind::BrokenPipe => 32,
        io::ErrorKind::InvalidFilename => 36,
        io::ErrorKind::QuotaExceeded => 122,
        _ => return None,
    })
}
