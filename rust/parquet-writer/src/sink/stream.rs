//! Streams: file objects, which get bytes as they come.

use std::io::{self, Write};

use super::Sink;

/// A sink without atomicity: what was written stays written.
pub struct StreamSink {
    inner: Box<dyn Write + Send>,
}

impl StreamSink {
    /// A sink over anything that takes bytes.
    #[must_use]
    pub fn new(inner: Box<dyn Write + Send>) -> Self {
        Self { inner }
    }
}

impl Write for StreamSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl Sink for StreamSink {
    fn commit(&mut self) -> io::Result<()> {
        self.inner.flush()
    }

    fn discard(&mut self) {}
}
