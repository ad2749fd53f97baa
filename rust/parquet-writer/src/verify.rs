//! Reads a file back before it appears, and compares it with what was written.
//!
//! The footer, the page indexes and the Bloom filters are decoded by `parquet-inspect` and the `parquet` crate, pages
//! are decompressed and values decoded by the `parquet` crate: readers that share no code with the encoders. Pages are
//! read one by one and values in batches, so that memory does not grow with the file.

mod footer;
mod pages;
mod values;
mod window;

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;

use crate::error::{Result, WriteError};
use crate::options::Verify;
use crate::row_group::Patience;
use crate::schema::FileSchema;
use crate::sink::ReadBack;
pub(crate) use values::Digests;
use window::FileWindow;

/// Bytes of all windows into the file together, without a memory limit.
const WINDOW_BYTES: usize = 4 << 20;
/// The part of the memory limit that the windows may have.
const WINDOW_SHARE: usize = 16;

/// What the writer knows of a file that is complete but for its name.
pub(crate) struct Written<'a> {
    pub schema: &'a FileSchema,
    /// The footer as it was encoded, with the page indexes.
    pub metadata: &'a ParquetMetaData,
    /// The last bytes of the file: the page indexes and the footer.
    pub end: &'a [u8],
    /// Bytes of the whole file.
    pub bytes: u64,
    /// The CRC-32 of all of them, where it was taken.
    pub checksum: Option<u32>,
    pub rows: u64,
    /// The checksums of its values, where they were taken.
    pub digests: Option<&'a Digests>,
}

/// Compares the file with what was written. Returns the most memory that it took.
///
/// # Errors
/// [`WriteError::Corrupt`] says what differs, in which column and row group; [`WriteError::Io`] when the file cannot be
/// read.
pub(crate) fn check(
    level: Verify,
    written: &Written<'_>,
    file: Arc<dyn ReadBack>,
    memory_limit: Option<usize>,
    patience: &mut Patience<'_>,
) -> Result<usize> {
    let most = memory_limit.map_or(WINDOW_BYTES, |limit| (limit / WINDOW_SHARE).min(WINDOW_BYTES));
    let window = FileWindow::new(file, most)?;
    let (found, mut memory) = footer::check(written, &window)?;
    if level >= Verify::Pages {
        memory += pages::check(level, written, &found, &window, most, patience)?;
        check_bytes(written, &window, patience)?;
    }
    Ok(memory)
}

/// Compares all bytes with their checksum, those of headers and Bloom filters included, which no page's own has.
fn check_bytes(written: &Written<'_>, window: &FileWindow, patience: &mut Patience<'_>) -> Result<()> {
    let Some(expected) = written.checksum else {
        return Ok(());
    };
    let mut hasher = crc32fast::Hasher::new();
    let mut at = 0;
    while at < written.bytes {
        let bytes = window.from(at, 1)?;
        hasher.update(&bytes);
        at += bytes.len() as u64;
        patience.check()?;
    }
    if hasher.finalize() == expected {
        Ok(())
    } else {
        Err(WriteError::Corrupt(
            "its bytes are not those that were written, and the difference is in no page: it is in a header or a Bloom \
             filter"
                .into(),
        ))
    }
}

/// A difference in a column chunk.
fn in_column(column: &str, row_group: usize, what: &str) -> WriteError {
    WriteError::Corrupt(format!("column {column:?}, row group {row_group}: {what}"))
}

/// A difference that only shows when the bytes are decoded.
fn undecodable(error: ParquetError) -> WriteError {
    match WriteError::from(error) {
        WriteError::Encode(what) => WriteError::Corrupt(format!("it cannot be decoded: {what}")),
        other => other,
    }
}

/// Bytes that end before they should are a difference, not an error of the operating system.
fn ended_early(error: io::Error) -> WriteError {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return WriteError::Corrupt("it ends before the bytes that its footer names".into());
    }
    WriteError::from(error)
}

/// A position and length as a range of memory that is in `bytes`.
fn within(bytes: &Bytes, start: usize, length: u64) -> Option<Bytes> {
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    (end <= bytes.len()).then(|| bytes.slice(start..end))
}
