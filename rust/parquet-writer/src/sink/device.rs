//! Pipes and devices at a path, which get bytes as they come.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::Sink;

/// A sink without atomicity: what was written stays written.
pub(super) struct Device {
    /// None once it is closed.
    file: Option<File>,
    path: PathBuf,
}

impl Device {
    /// A sink over a pipe or a device that is open for writing.
    pub fn new(file: File, path: &Path) -> Self {
        Self {
            file: Some(file),
            path: path.to_path_buf(),
        }
    }
}

impl Write for Device {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.file {
            Some(file) => file.write(bytes),
            None => Err(io::Error::other("the destination is closed")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Device {
    fn commit(&mut self) -> io::Result<()> {
        self.file.take().map_or(Ok(()), checked_close::close)
    }

    fn discard(&mut self) {
        self.file = None;
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }
}
