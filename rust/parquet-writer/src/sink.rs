//! Sinks: destinations of a file's bytes, which make the file appear when it is complete.

mod atomic;
mod device;
mod hidden;
mod stream;

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use atomic::AtomicFile;
use bytes::Bytes;
use device::Device;
pub use hidden::HiddenFile;
pub use stream::StreamSink;

use crate::error::{Result, WriteError};

/// A destination that takes bytes in order and makes a file of them at the end.
pub trait Sink: Write + Send {
    /// Makes the file appear. Nothing is written after it.
    ///
    /// # Errors
    /// What the operating system says; the file has not appeared then, unless the error is an [`Unsynced`] or the sink
    /// cannot know.
    fn commit(&mut self) -> io::Result<()>;

    /// Removes what was written, as far as that can be done.
    fn discard(&mut self);

    /// The file it is about, for messages.
    fn path(&self) -> Option<&Path> {
        None
    }

    /// The directory for pages that memory does not hold.
    fn spill_directory(&self) -> Option<PathBuf> {
        None
    }

    /// The reason why [`Self::read_back`] cannot be called, and what to do; `None` where it can.
    fn unreadable(&self) -> Option<&'static str> {
        Some(
            "pipes, devices, file objects and file systems of pyarrow and fsspec cannot be read back. Write to a local path",
        )
    }

    /// What was written, for reading, as far as possible from where readers will find it. Only [`Self::commit`] or
    /// [`Self::discard`] follows.
    ///
    /// # Errors
    /// What the operating system says.
    fn read_back(&mut self) -> io::Result<Arc<dyn ReadBack>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// What a sink has written, before it appears.
pub trait ReadBack: Send + Sync {
    /// Bytes of it.
    ///
    /// # Errors
    /// What the operating system says.
    fn size(&self) -> io::Result<u64>;

    /// As many bytes as `length`, from `start` on.
    ///
    /// # Errors
    /// What the operating system says; [`io::ErrorKind::UnexpectedEof`] where there are fewer.
    fn read_at(&self, start: u64, length: usize) -> io::Result<Bytes>;
}

impl ReadBack for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, start: u64, length: usize) -> io::Result<Bytes> {
        let mut bytes = vec![0; length];
        self.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

/// The file has appeared at its path, but may not survive a power cut.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0}: the file is complete at its path, but its folder could not be synced, so a power cut may undo the rename: \
     write it again or sync the folder"
)]
pub struct Unsynced(io::Error);

impl Unsynced {
    /// The error of a commit that failed after the file had appeared.
    fn after(source: io::Error) -> io::Error {
        io::Error::new(source.kind(), Self(source))
    }

    /// The error of the operating system.
    #[must_use]
    pub fn cause(&self) -> &io::Error {
        &self.0
    }

    /// This error, where it is the one of a commit.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

/// Opens `path` for a new file: a temporary sibling for a regular file, and the pipe, device or unlinked file itself.
///
/// # Errors
/// [`WriteError::Io`] with the path when it cannot be written.
pub fn create(path: &Path, durable: bool) -> Result<Box<dyn Sink>> {
    let with_path = |error| WriteError::io(path, error);
    let target = atomic::resolve(path).map_err(with_path)?;
    match std::fs::metadata(&target) {
        Ok(found) if found.is_dir() => Err(with_path(io::Error::from(io::ErrorKind::IsADirectory))),
        Ok(found) if !found.is_file() => {
            let file = File::options().write(true).open(&target).map_err(with_path)?;
            Ok(Box::new(Device::new(file, path)))
        }
        Ok(_) => Ok(Box::new(AtomicFile::create(&target, durable).map_err(with_path)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match open_nameless(path).map_err(with_path)? {
                Some(file) => Ok(Box::new(Device::new(file, path))),
                None => Ok(Box::new(AtomicFile::create(&target, durable).map_err(with_path)?)),
            }
        }
        Err(error) => Err(with_path(error)),
    }
}

/// Opens a pipe or an unlinked file behind a link of `/proc`, whose target is a description and no path.
fn open_nameless(path: &Path) -> io::Result<Option<File>> {
    let file = match File::options().write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let found = file.metadata()?;
    if !found.is_file() {
        return Ok(Some(file));
    }
    // Another writer may have created the file since.
    if found.nlink() > 0 {
        return Ok(None);
    }
    file.set_len(0)?;
    Ok(Some(file))
}

/// A sink that is bound to its process and can be told to write no more.
pub(crate) struct Output {
    sink: Box<dyn Sink>,
    process: u32,
    done: bool,
    /// Bytes held back since the end of the file began.
    end: Option<Vec<u8>>,
    /// The CRC-32 of the bytes in the sink, where it is wanted.
    checksum: Option<crc32fast::Hasher>,
}

impl Output {
    pub fn new(sink: Box<dyn Sink>) -> Self {
        Self {
            sink,
            process: std::process::id(),
            done: false,
            end: None,
            checksum: None,
        }
    }

    /// Takes the checksum of all that is written.
    #[must_use]
    pub fn with_checksum(mut self) -> Self {
        self.checksum = Some(crc32fast::Hasher::new());
        self
    }

    /// The CRC-32 of what is in the sink.
    pub fn checksum(&self) -> Option<u32> {
        self.checksum.clone().map(crc32fast::Hasher::finalize)
    }

    pub fn sink(&self) -> &dyn Sink {
        self.sink.as_ref()
    }

    /// Holds back what is written from here on, until [`Self::commit`].
    pub fn hold_end(&mut self) {
        self.end = Some(Vec::new());
    }

    /// The bytes that were held back.
    pub fn end_mut(&mut self) -> &mut [u8] {
        self.end.as_deref_mut().unwrap_or_default()
    }

    /// Memory of the bytes that are held back.
    pub fn held_bytes(&self) -> usize {
        self.end.as_ref().map_or(0, Vec::capacity)
    }

    /// Puts other bytes in the place of those that were held back.
    pub fn replace_end(&mut self, end: Vec<u8>) {
        self.end = Some(end);
    }

    /// Writes what was held back, and holds nothing back from here on.
    pub fn release(&mut self) -> io::Result<()> {
        match self.end.take() {
            Some(end) => self.put_all(&end),
            None => Ok(()),
        }
    }

    fn put_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sink.write_all(bytes)?;
        if let Some(checksum) = &mut self.checksum {
            checksum.update(bytes);
        }
        Ok(())
    }

    /// Writes what was held back, and opens all that was written for reading. Returns the former, too.
    pub fn read_back(&mut self) -> io::Result<(Vec<u8>, Arc<dyn ReadBack>)> {
        let end = self.end.take().unwrap_or_default();
        self.put_all(&end)?;
        Ok((end, self.sink.read_back()?))
    }

    pub fn commit(&mut self) -> io::Result<()> {
        self.release()?;
        self.done = true;
        self.sink.commit()
    }

    /// Removes what was written. Buffers that are flushed later are dropped.
    pub fn discard(&mut self) {
        if !self.done {
            self.done = true;
            self.sink.discard();
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.done {
            return Ok(bytes.len());
        }
        if self.process != std::process::id() {
            return Err(io::Error::other(
                "this writer was opened by another process: open one after the fork",
            ));
        }
        if let Some(end) = &mut self.end {
            return end.write(bytes);
        }
        let count = self.sink.write(bytes)?;
        if let Some(checksum) = &mut self.checksum {
            checksum.update(&bytes[..count]);
        }
        Ok(count)
    }

    /// Does nothing: the crate calls it to hand on its own buffer, and the sink flushes when it commits.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
