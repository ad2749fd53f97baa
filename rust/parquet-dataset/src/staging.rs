//! Staging: keeps finished files in a hidden folder inside the dataset's own, so that a rename publishes them.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet_writer::sink::{ReadBack, Sink};
use tempfile::TempDir;

/// Bytes gathered for one call of the operating system.
const BUFFER_BYTES: usize = 128 << 10;

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
    file: Option<BufWriter<File>>,
    staged: PathBuf,
    /// The folder that it will be moved to, for messages.
    folder: PathBuf,
    durable: bool,
    /// True once all bytes are with the operating system, and on the disk where they have to be.
    is_settled: bool,
    process: u32,
}

impl StagedFile {
    /// # Errors
    /// What the operating system says.
    pub fn create(staged: PathBuf, folder: PathBuf, durable: bool) -> io::Result<Self> {
        let file = File::create_new(&staged)?;
        Ok(Self {
            file: Some(BufWriter::with_capacity(BUFFER_BYTES, file)),
            staged,
            folder,
            durable,
            is_settled: false,
            process: std::process::id(),
        })
    }

    fn buffer(&mut self) -> io::Result<&mut BufWriter<File>> {
        self.file
            .as_mut()
            .ok_or_else(|| io::Error::other("the file is complete or was discarded"))
    }

    fn settle(&mut self) -> io::Result<()> {
        if self.is_settled {
            return Ok(());
        }
        self.buffer()?.flush()?;
        if self.durable {
            self.buffer()?.get_ref().sync_all()?;
        }
        self.is_settled = true;
        Ok(())
    }
}

impl Write for StagedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.buffer()?.flush()
    }
}

impl Sink for StagedFile {
    fn commit(&mut self) -> io::Result<()> {
        self.settle()?;
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        let (file, _) = file.into_parts();
        checked_close::close(file).inspect_err(|_| {
            let _ = std::fs::remove_file(&self.staged);
        })
    }

    fn discard(&mut self) {
        let Some(file) = self.file.take() else {
            return;
        };
        // Taken apart, because a buffer that is dropped would be written.
        drop(file.into_parts());
        if self.process == std::process::id() {
            let _ = std::fs::remove_file(&self.staged);
        }
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.folder)
    }

    fn spill_directory(&self) -> Option<PathBuf> {
        self.staged.parent().map(Path::to_path_buf)
    }

    fn unreadable(&self) -> Option<&'static str> {
        None
    }

    fn read_back(&mut self) -> io::Result<Arc<dyn ReadBack>> {
        self.settle()?;
        Ok(Arc::new(File::open(&self.staged)?))
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        self.discard();
    }
}
