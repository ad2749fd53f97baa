//! Staging: keeps finished files in a hidden folder inside the dataset's own, so that a rename publishes them.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet_writer::sink::{HiddenFile, ReadBack, Sink};
use tempfile::{NamedTempFile, TempDir, TempPath};

/// The hidden folder. Dropping it removes it with all its files.
pub(crate) struct Staging {
    hidden: Option<TempDir>,
    /// The dataset's folder, if this writer made it.
    made: Option<PathBuf>,
    files: u64,
    process: u32,
}

impl Staging {
    /// Makes `folder` if it is missing, and the hidden folder in it.
    ///
    /// # Errors
    /// What the operating system says; nothing is left then.
    pub fn new(folder: &Path) -> io::Result<Self> {
        let made = match std::fs::create_dir(folder) {
            Ok(()) => Some(folder.to_path_buf()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
            Err(error) => return Err(error),
        };
        let mut staging = Self {
            hidden: None,
            made,
            files: 0,
            process: std::process::id(),
        };
        let hidden = tempfile::Builder::new()
            .prefix(".spillway-")
            .suffix(".tmp")
            .tempdir_in(folder)?;
        staging.hidden = Some(hidden);
        Ok(staging)
    }

    /// Returns true if the dataset's folder was missing.
    pub fn made_folder(&self) -> bool {
        self.made.is_some()
    }

    /// A path for one more file. Even readers that look into hidden folders pass over its name.
    ///
    /// # Errors
    /// When the folder is gone.
    pub fn next_path(&mut self) -> io::Result<PathBuf> {
        let hidden = self
            .hidden
            .as_ref()
            .ok_or_else(|| io::Error::other("the dataset is complete or was discarded"))?;
        self.files += 1;
        Ok(hidden.path().join(format!(".{:08}.tmp", self.files)))
    }

    /// Removes the hidden folder, and keeps the dataset's.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn finish(&mut self) -> io::Result<()> {
        self.made = None;
        self.hidden.take().map_or(Ok(()), TempDir::close)
    }

    /// Keeps the hidden folder, which may hold the only copy of files, and returns its path.
    pub fn keep(&mut self) -> PathBuf {
        self.made = None;
        self.hidden.take().map(TempDir::keep).unwrap_or_default()
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let hidden = self.hidden.take();
        // A forked child only inherited it.
        if self.process != std::process::id() {
            std::mem::forget(hidden);
            return;
        }
        drop(hidden);
        if let Some(made) = self.made.take() {
            // It stays when somebody else has put something into it.
            let _ = std::fs::remove_dir(made);
        }
    }
}

/// A file in the hidden folder.
pub(crate) struct StagedFile {
    hidden: HiddenFile,
    /// The folder that it will be moved to, for messages.
    folder: PathBuf,
    durable: bool,
}

impl StagedFile {
    /// # Errors
    /// What the operating system says.
    pub fn create(staged: PathBuf, folder: PathBuf, durable: bool) -> io::Result<Self> {
        let file = File::create_new(&staged)?;
        let file = NamedTempFile::from_parts(file, TempPath::try_from_path(staged)?);
        Ok(Self {
            hidden: HiddenFile::new(file),
            folder,
            durable,
        })
    }
}

impl Write for StagedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hidden.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hidden.flush()
    }
}

impl Sink for StagedFile {
    fn commit(&mut self) -> io::Result<()> {
        self.hidden.settle(self.durable)?;
        if let Some(hidden) = self.hidden.close()? {
            hidden.keep()?;
        }
        Ok(())
    }

    fn discard(&mut self) {
        self.hidden.discard();
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.folder)
    }

    fn spill_directory(&self) -> Option<PathBuf> {
        self.hidden.path()?.parent().map(Path::to_path_buf)
    }

    fn unreadable(&self) -> Option<&'static str> {
        None
    }

    fn read_back(&mut self) -> io::Result<Arc<dyn ReadBack>> {
        self.hidden.settle(self.durable)?;
        self.hidden.read_back()
    }
}
