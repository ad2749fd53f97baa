//! A file that appears at its path only when it is complete.

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::Sink;

/// The most symbolic links that are followed before a path counts as a loop, as on Linux.
const MOST_LINKS: usize = 40;
/// Bytes of the destination's name that the temporary one keeps, so that it stays below 255 in all.
const MOST_NAME: usize = 200;

/// Bytes gathered for one call of the operating system.
const BUFFER_BYTES: usize = 128 << 10;

/// A hidden temporary sibling of the destination, renamed over it at the end.
pub struct AtomicFile {
    temporary: Option<BufWriter<NamedTempFile>>,
    destination: PathBuf,
    durable: bool,
    process: u32,
}

impl AtomicFile {
    /// Makes the temporary sibling of `destination`, which must not be a symbolic link (see `resolve`).
    ///
    /// # Errors
    /// What the operating system says.
    pub fn create(destination: &Path, durable: bool) -> io::Result<Self> {
        let name = destination
            .file_name()
            .ok_or_else(|| io::Error::from(io::ErrorKind::IsADirectory))?;
        let mut prefix = vec![b'.'];
        prefix.extend(name.as_bytes().iter().take(MOST_NAME));
        prefix.push(b'.');
        let temporary = tempfile::Builder::new()
            .prefix(&OsString::from_vec(prefix))
            .suffix(".tmp")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory(destination))?;
        Ok(Self {
            temporary: Some(BufWriter::with_capacity(BUFFER_BYTES, temporary)),
            destination: destination.to_path_buf(),
            durable,
            process: std::process::id(),
        })
    }

    fn buffer(&mut self) -> io::Result<&mut BufWriter<NamedTempFile>> {
        self.temporary
            .as_mut()
            .ok_or_else(|| io::Error::other("the file is complete or was discarded"))
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.buffer()?.flush()
    }
}

impl Sink for AtomicFile {
    fn commit(&mut self) -> io::Result<()> {
        self.buffer()?.flush()?;
        if self.durable {
            self.buffer()?.get_ref().as_file().sync_all()?;
        }
        if let Some(temporary) = self.temporary.take() {
            let (temporary, _) = temporary.into_parts();
            let (file, temporary) = temporary.into_parts();
            // Before the rename: a network file system may say only here that bytes are lost.
            checked_close::close(file)?;
            temporary
                .persist(&self.destination)
                .map_err(|failed| failed.error)?;
        }
        if self.durable {
            File::open(directory(&self.destination))?.sync_all()?;
        }
        Ok(())
    }

    fn discard(&mut self) {
        let Some(temporary) = self.temporary.take() else {
            return;
        };
        // Taken apart, because a buffer that is dropped would be written.
        let (temporary, _) = temporary.into_parts();
        // Dropping it removes it, unless this process only inherited it over a fork.
        if self.process != std::process::id() {
            std::mem::forget(temporary);
        }
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.destination)
    }

    fn spill_directory(&self) -> Option<PathBuf> {
        Some(directory(&self.destination).to_path_buf())
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        self.discard();
    }
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The path at the end of the symbolic links that start at `path`, whether something is there or not.
///
/// A relative path becomes absolute, so that a later change of directory does not move the destination.
///
/// # Errors
/// What the operating system says, or that the links never end.
pub(super) fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut path = std::path::absolute(path)?;
    for _ in 0..MOST_LINKS {
        match std::fs::read_link(&path) {
            Ok(target) => path = directory(&path).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::from_raw_os_error(40))
}
