//! The storage of a dataset: a local folder, or another implementation of [`Storage`].

use std::path::{Path, PathBuf};

use parquet_writer::WriteError;
use parquet_writer::sink::Sink;

use crate::spread::{Places, SpreadFile};

/// The storage of a dataset's files. A file that is complete stays invisible there until all files appear. Dropping the
/// storage discards every file that has not appeared.
pub trait Storage: Places {
    /// Makes all files appear that were opened and completed, which are `files`.
    ///
    /// # Errors
    /// [`Unpublished`] when they could not all appear.
    fn publish(&mut self, files: &[SpreadFile]) -> Result<Published, Unpublished>;
}

/// Files that have all appeared.
#[derive(Debug)]
pub struct Published {
    /// Their paths or URLs, in the order in which the files were given.
    pub paths: Vec<PathBuf>,
    /// The reason why files that should have given way to them are still there.
    pub unremoved: Option<WriteError>,
}

/// Files that could not all appear.
#[derive(Debug)]
pub struct Unpublished {
    /// The reason.
    pub error: WriteError,
    /// The paths or URLs of those that appeared, or may have, and could not be removed.
    pub left: Vec<PathBuf>,
}

impl From<WriteError> for Unpublished {
    fn from(error: WriteError) -> Self {
        Self {
            error,
            left: Vec::new(),
        }
    }
}

impl Places for Box<dyn Storage> {
    fn open(&mut self, folder: &Path) -> Result<(PathBuf, Box<dyn Sink>), WriteError> {
        (**self).open(folder)
    }

    fn longest_name(&self) -> usize {
        (**self).longest_name()
    }
}
