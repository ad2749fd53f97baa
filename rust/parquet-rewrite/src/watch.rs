//! How far a copy is, and whether it goes on.

use parquet_writer::WriteError;

/// What has been copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copied {
    /// Rows of whole row groups.
    pub rows: u64,
    /// Bytes of chunks, filters and indexes.
    pub bytes: u64,
}

/// The caller's check, asked after each buffer.
pub(crate) struct Watch<'a> {
    copied: Copied,
    go_on: &'a mut dyn FnMut(Copied) -> bool,
}

impl<'a> Watch<'a> {
    pub fn new(go_on: &'a mut dyn FnMut(Copied) -> bool) -> Self {
        Self {
            copied: Copied::default(),
            go_on,
        }
    }

    /// Counts bytes, and asks.
    ///
    /// # Errors
    /// [`WriteError::Interrupted`] when the caller says so.
    pub fn copied(&mut self, bytes: u64) -> Result<(), WriteError> {
        self.copied.bytes += bytes;
        if (self.go_on)(self.copied) {
            Ok(())
        } else {
            Err(WriteError::Interrupted)
        }
    }

    pub fn has_rows(&mut self, rows: u64) {
        self.copied.rows = self.copied.rows.saturating_add(rows);
    }
}
