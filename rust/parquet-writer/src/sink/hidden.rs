//! A file under a name that readers do not look for, until it is complete.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use tempfile::{NamedTempFile, TempPath};

use super::ReadBack;

/// Bytes gathered for one call of the operating system.
const BUFFER_BYTES: usize = 128 << 10;

/// A file under a temporary name. Dropping it removes it, unless this process only inherited it over a fork.
pub struct HiddenFile {
    file: Option<BufWriter<NamedTempFile>>,
    /// True once all bytes are with the operating system, and on the disk where they have to be.
    is_settled: bool,
    process: u32,
}

impl HiddenFile {
    /// Takes a file in which nothing is written yet.
    #[must_use]
    pub fn new(file: NamedTempFile) -> Self {
        Self {
            file: Some(BufWriter::with_capacity(BUFFER_BYTES, file)),
            is_settled: false,
            process: std::process::id(),
        }
    }

    fn buffer(&mut self) -> io::Result<&mut BufWriter<NamedTempFile>> {
        self.file
            .as_mut()
            .ok_or_else(|| io::Error::other("the file is complete or was discarded"))
    }

    /// Hands all bytes to the operating system; with `sync`, waits until they are on the disk. The first call decides.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn settle(&mut self, sync: bool) -> io::Result<()> {
        if !self.is_settled {
            self.flush()?;
            if sync {
                self.buffer()?.get_ref().as_file().sync_all()?;
            }
            self.is_settled = true;
        }
        Ok(())
    }

    /// Closes the settled file, which is removed when its path is dropped. `None` when it was closed or discarded.
    ///
    /// # Errors
    /// A network file system may say only here that bytes are lost.
    pub fn close(&mut self) -> io::Result<Option<TempPath>> {
        let Some(file) = self.file.take() else {
            return Ok(None);
        };
        let (file, path) = file.into_parts().0.into_parts();
        checked_close::close(file)?;
        Ok(Some(path))
    }

    /// Removes the file.
    pub fn discard(&mut self) {
        if let Some(file) = self.file.take() {
            // Taken apart, because a buffer that is dropped would be written.
            let (_, path) = file.into_parts().0.into_parts();
            if self.process != std::process::id() {
                std::mem::forget(path);
            }
        }
    }

    /// Its path; `None` when it was closed or discarded.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.get_ref().path())
    }

    /// The bytes of the settled file, by the descriptor that wrote them: others may not be permitted to open it.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn read_back(&mut self) -> io::Result<Arc<dyn ReadBack>> {
        let file: File = self.buffer()?.get_ref().as_file().try_clone()?;
        Ok(Arc::new(file))
    }
}

impl Write for HiddenFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.buffer()?.flush()
    }
}

impl Drop for HiddenFile {
    fn drop(&mut self) {
        self.discard();
    }
}
