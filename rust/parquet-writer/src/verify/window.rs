//! A view of a file that holds a piece of it in memory.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use super::ended_early;
use crate::error::WriteError;
use crate::sink::ReadBack;

/// The fewest bytes that are read at once.
const LEAST_BYTES: usize = 16 << 10;
/// The most bytes that are read ahead of those that are asked for.
const MOST_BYTES: usize = 1 << 20;

/// A file of which one piece is in memory: readers that go forward read each byte about once.
#[derive(Clone)]
pub(super) struct FileWindow(Arc<WindowedFile>);

struct WindowedFile {
    file: Arc<dyn ReadBack>,
    size: u64,
    /// Nothing is read ahead beyond this place.
    end: u64,
    ahead: usize,
    held: Mutex<(u64, Bytes)>,
}

impl FileWindow {
    /// A window that reads at most `most` bytes ahead.
    pub fn new(file: Arc<dyn ReadBack>, most: usize) -> Result<Self, WriteError> {
        let size = file.size()?;
        Ok(Self::over(file, size, size, most))
    }

    fn over(file: Arc<dyn ReadBack>, size: u64, end: u64, most: usize) -> Self {
        Self(Arc::new(WindowedFile {
            file,
            size,
            end,
            ahead: most.clamp(LEAST_BYTES, MOST_BYTES),
            held: Mutex::new((0, Bytes::new())),
        }))
    }

    /// Another window into the same file, for what lies before `end`.
    pub fn until(&self, end: u64, most: usize) -> Self {
        Self::over(Arc::clone(&self.0.file), self.0.size, end, most)
    }

    /// Bytes that it reads ahead.
    pub fn ahead(&self) -> usize {
        self.0.ahead
    }

    /// The bytes from `start` on that are in memory, `least` of them or more.
    pub fn from(&self, start: u64, least: usize) -> Result<Bytes, WriteError> {
        self.read(start, least).map_err(ended_early)
    }

    fn read(&self, start: u64, least: usize) -> io::Result<Bytes> {
        let mut held = self.0.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = within(&held, start, least) {
            return Ok(bytes);
        }
        self.check_end(start, least)?;
        // The old piece is freed before the new one is read.
        held.1 = Bytes::new();
        let left = usize::try_from(self.0.end.saturating_sub(start)).unwrap_or(usize::MAX);
        let bytes = self.0.file.read_at(start, least.max(self.0.ahead.min(left)))?;
        *held = (start, bytes.clone());
        Ok(bytes)
    }

    /// These bytes, which are not kept where they are not in memory.
    fn read_alone(&self, start: u64, length: usize) -> io::Result<Bytes> {
        let held = self.0.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = within(&held, start, length) {
            return Ok(bytes.slice(..length));
        }
        self.check_end(start, length)?;
        self.0.file.read_at(start, length)
    }

    fn check_end(&self, start: u64, length: usize) -> io::Result<()> {
        let end = start.checked_add(length as u64);
        if end.is_some_and(|end| end <= self.0.size) {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
}

impl Length for FileWindow {
    fn len(&self) -> u64 {
        self.0.size
    }
}

impl ChunkReader for FileWindow {
    type T = Forward;

    fn get_read(&self, start: u64) -> Result<Forward, ParquetError> {
        Ok(Forward {
            window: self.clone(),
            at: start,
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let bytes = self.read_alone(start, length).map_err(ended_early);
        bytes.map_err(|error| ParquetError::External(Box::new(error)))
    }
}

/// The bytes from `start` on in a piece, `least` of them or more.
fn within((begin, piece): &(u64, Bytes), start: u64, least: usize) -> Option<Bytes> {
    let at = usize::try_from(start.checked_sub(*begin)?).ok()?;
    (at.checked_add(least)? <= piece.len()).then(|| piece.slice(at..))
}

/// Reads on from a place in the file.
pub(super) struct Forward {
    window: FileWindow,
    at: u64,
}

impl Read for Forward {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() || self.at >= self.window.0.size {
            return Ok(0);
        }
        let bytes = self.window.read(self.at, 1)?;
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        self.at += count as u64;
        Ok(count)
    }
}
