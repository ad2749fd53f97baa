//! The storage of a table: a local folder, or another implementation of [`TableStorage`].

use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use delta_commit::LogStore;
use parquet_writer::WriteError;
use parquet_writer::sink::Sink;

use crate::clock::now;
use crate::error::{Result, TableError};

mod data_files;
mod local;

pub(crate) use data_files::DataFiles;
pub use local::LocalStorage;

/// Maximum difference between the local clock and the storage's, in milliseconds. Beyond it nothing is removed by age.
const MOST_CLOCK_SKEW: i64 = 3_600_000;

/// The milliseconds by which times of files may lie behind the clock that they are of: ticks of the kernel, and whole
/// seconds where a file system keeps no more.
const FILE_TIME_LAG: i64 = 2_000;

/// Attempts to replace a file that other processes replace at the same time.
pub const MOST_REPLACEMENTS: usize = 4;

/// A file below a table's folder.
#[derive(Debug, Clone)]
pub struct StoredFile {
    /// Its name.
    pub name: String,
    /// Its time of writing: milliseconds since the epoch.
    pub modified: i64,
    /// Its size.
    pub bytes: u64,
}

/// All files below a table's folder.
#[derive(Debug, Clone)]
pub struct StoredFiles {
    /// The time now, by the clock that dates the files.
    pub now: i64,
    /// The files, in no order.
    pub files: Vec<StoredFile>,
}

/// A check that a thread makes while it waits for another one. Its error ends the wait.
pub type WaitCheck = Box<dyn Fn() -> io::Result<()> + Send>;

/// The names of files in the order in which they are read.
pub type Names<'a> = Box<dyn Iterator<Item = String> + 'a>;

/// The files of some names in their order; none for one that is not there.
pub type Bodies<'a> = Box<dyn Iterator<Item = Result<Option<Bytes>>> + 'a>;

/// The storage of a table. Names are relative to the table, with `/` between their parts.
pub trait TableStorage: Send + Sync {
    /// The table's path or URL, for people.
    fn root(&self) -> &Path;

    /// A key that differs between tables, and between users of one table with other rights.
    fn key(&self) -> OsString;

    /// The store that the committer works on.
    fn log_store(&self) -> Arc<dyn LogStore>;

    /// Makes the folders that must exist before the first file of a table is written.
    ///
    /// # Errors
    /// When it cannot be made.
    fn prepare(&self) -> Result<()>;

    /// The names in a folder that come after `after`; others may be among them. None when there is no such folder.
    ///
    /// # Errors
    /// When it cannot be listed.
    fn list(&self, folder: &str, after: Option<&str>) -> Result<Vec<String>>;

    /// A whole file; none when it is not there.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&self, name: &str) -> Result<Option<Bytes>>;

    /// Whole files in this order, none for those that are not there. Where each takes a request, a bounded number of
    /// them is requested before the caller asks for them.
    fn read_ahead<'a>(&'a self, names: Names<'a>) -> Bodies<'a> {
        Box::new(names.map(move |name| self.read(&name)))
    }

    /// Bytes of a file, fewer where the file ends before the range does.
    ///
    /// # Errors
    /// An error of the file: it is not there, or cannot be read.
    fn read_range(&self, name: &str, range: Range<u64>) -> Result<Bytes>;

    /// A file's bytes in all; none when it is not there.
    ///
    /// # Errors
    /// An error if that cannot be told.
    fn size(&self, name: &str) -> Result<Option<u64>>;

    /// Checks whether a file exists.
    ///
    /// # Errors
    /// An error if that cannot be told.
    fn has(&self, name: &str) -> Result<bool>;

    /// A mark that changes when the file is replaced or made anew; none when it does not exist.
    ///
    /// # Errors
    /// An error if that cannot be told.
    fn mark(&self, name: &str) -> Result<Option<String>>;

    /// The time for which a mark may be trusted without another look. Zero where a look costs no more than a system
    /// call.
    fn believes_marks_for(&self) -> Duration;

    /// Opens a file that replaces the existing one, appears whole, and survives a crash. It is sent at most once, as
    /// that of [`create_whole`](Self::create_whole).
    ///
    /// # Errors
    /// When it cannot be opened.
    fn replace(&self, name: &str) -> Result<Box<dyn Sink>>;

    /// Replaces a small file, unless `is_late` finds something newer by another process. It is called once the file's
    /// mark is known, and again if the mark has changed before the file is replaced. An object store replaces the file
    /// by a conditional PUT; a folder compares marks right before the rename. After [`MOST_REPLACEMENTS`] attempts the
    /// file is left to the other processes.
    ///
    /// # Errors
    /// When it cannot be read or written.
    fn replace_unless(
        &self,
        name: &str,
        body: &[u8],
        is_late: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<()> {
        for _ in 0..MOST_REPLACEMENTS {
            let mark = self.mark(name)?;
            if is_late()? {
                break;
            }
            let mut sink = self.replace(name)?;
            let failed = |error| WriteError::io(self.root().join(name), error);
            sink.write_all(body).map_err(failed)?;
            if self.mark(name)? == mark {
                sink.commit().map_err(failed)?;
                break;
            }
            sink.discard();
        }
        Ok(())
    }

    /// Opens a file likewise, which does not replace one: where there is one by then, it does not appear, and the error
    /// is [`AlreadyExists`](io::ErrorKind::AlreadyExists) or none. It is sent at most once: a request that is repeated
    /// may arrive in another table.
    ///
    /// # Errors
    /// When it cannot be opened.
    fn create_whole(&self, name: &str) -> Result<Box<dyn Sink>> {
        self.replace(name)
    }

    /// Opens a new data file under its final name. No reader looks at it before the log names it.
    ///
    /// # Errors
    /// When it cannot be opened.
    fn create(&self, name: &Path) -> Result<Box<dyn Sink>, WriteError>;

    /// The files of a folder and when they were written, in milliseconds since the epoch; none where the store does not
    /// tell what time it is.
    ///
    /// # Errors
    /// When it cannot be listed.
    fn ages(&self, folder: &str) -> Result<Option<Vec<(String, i64)>>>;

    /// The files below the table's folder, at any depth; none where the store does not tell what time it is. Files of
    /// folders that `enters` refuses may be left out, and are where that saves requests.
    ///
    /// # Errors
    /// An error if a folder cannot be listed.
    fn walk(&self, enters: &dyn Fn(&str) -> bool) -> Result<Option<StoredFiles>>;

    /// Returns true if data files can lie in this folder.
    fn takes(&self, folder: &Path) -> bool;

    /// Returns true if a complete data file survives a crash without the committer's sync.
    fn keeps(&self) -> bool;

    /// The current time by the clock that sets file modification times. Ages of files to be removed are computed from
    /// it.
    ///
    /// # Errors
    /// [`delta_commit::CommitError::Unsupported`] when the clock of this machine is far off: what else it dated is
    /// wrong, too. [`delta_commit::CommitError::Store`] when the time cannot be told.
    fn now_for_removal(&self) -> Result<i64>;

    /// Removes files, roughly in this order, as far as that can be done. Returns the number of removed files.
    fn remove(&self, names: &[String]) -> usize;

    /// The check of the calling thread while it waits for another thread that reads the table.
    fn attend(&self) -> WaitCheck {
        Box::new(|| Ok(()))
    }
}

/// The time of the storage of a table, where the clock of this machine is not far off. Both are milliseconds since the
/// epoch.
///
/// # Errors
/// [`delta_commit::CommitError::Unsupported`] when they differ by more than an hour.
pub fn check_clock(served: i64, root: &Path) -> Result<i64> {
    let local = now();
    let off = local.saturating_sub(served);
    if (0..=FILE_TIME_LAG).contains(&off) {
        return Ok(local);
    }
    if off.abs() <= MOST_CLOCK_SKEW {
        return Ok(served);
    }
    let seconds = off.unsigned_abs() / 1_000;
    let side = if off > 0 { "ahead of" } else { "behind" };
    Err(TableError::unsupported(format!(
        "the clock of this machine is {seconds} s {side} that of the storage of {}, so nothing is removed by the age of \
         files: set the clock",
        root.display()
    )))
}
