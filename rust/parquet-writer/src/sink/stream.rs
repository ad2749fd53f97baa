//! Streams: pipes, devices and file objects, which get bytes as they come.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::Sink;

/// A sink without atomicity: what was written stays written.
pub struct Stream {
    inner: Box<dyn Write + Send>,
    path: Option<PathBuf>,
}

impl Stream {
    /// A sink over anything that takes bytes.
    #[must_use]
    pub fn new(inner: Box<dyn Write + Send>) -> Self {
        Self { inner, path: None }
    }

    /// The same with a path for messages.
    #[must_use]
    pub fn named(self, path: &Path) -> Self {
        Self {
            path: Some(path.to_path_buf()),
            ..self
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl Sink for Stream {
    fn commit(&mut self) -> io::Result<()> {
        self.inner.flush()
    }

    fn discard(&mut self) {}

    fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}
