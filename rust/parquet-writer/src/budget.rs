//! The shares of `memory_limit` that the parts of a writer get.
//!
//! Every share follows from options and schema, never from the content of memory. The ends of pages and of dictionaries
//! must not depend on how rows were cut into batches. Only the choice between memory and disk for finished pages
//! depends on the moment, and that changes no byte of the file.

use parquet_encode::dictionary::Limits;

use crate::choose::{DICTIONARY_BYTES, PAGE_ROWS};
use crate::error::{Result, WriteError};
use crate::feed;

/// The least bytes of a page, however small the limit.
const LEAST_PAGE: usize = 4 << 10;
/// The divisor of a column's share of the memory limit that gives the size of a page. Values and their encoded form
/// take up to twice the size of the page.
const PAGE_SHARE: usize = 4;
/// The divisor of the memory limit that limits a column's values in one row. A value is held up to four times: as it
/// came, in its page, compressed, and as a bound where no shorter one is above it.
pub(crate) const VALUE_SHARE: u64 = 8;
/// Bytes that a file needs besides its columns: the buffer in front of the operating system and the page that is
/// compressed.
const BASE: usize = 256 << 10;
/// Bytes of finished pages that are kept in memory when there is no limit.
const RESIDENT_BYTES: usize = 8 << 20;
/// Bytes of one chunk's pages that are kept in memory beside those, when there is no limit and the chunk goes into the
/// file as soon as it is whole.
const RESIDENT_CHUNK_BYTES: usize = 64 << 20;
/// Pages below this are kept in memory when there is no limit.
const SMALLEST_SPILLED: usize = 4 << 10;
/// Rows, or slots, that are processed together. Their values, with nulls skipped, fit a cache.
const PIECE_ROWS: usize = 2048;

/// The limits of a writer's parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Rows of a page.
    pub page_rows: usize,
    /// Rows of a column that are processed together.
    pub piece_rows: usize,
    /// Rows of a row group's first unit: the sample that limited memory is shared out by.
    pub sample_rows: usize,
    /// Value bytes that end a unit early.
    pub unit_bytes: u64,
    /// Finished pages that wait in memory.
    pub resident: usize,
    /// Finished pages of one chunk that wait in memory beside those, where chunks go into the file one by one.
    pub resident_chunk: usize,
    /// Pages below this size stay in memory even when it is full.
    pub smallest_spilled: usize,
    /// Memory of all dictionaries of a row group; `None` when each may grow as long as it pays.
    pub dictionaries: Option<usize>,
    /// Memory of all bloom filters of a row group; `None` for as much as they need.
    pub bloom_filters: Option<usize>,
    /// Bytes of a row of one column.
    pub value_bytes: Option<u64>,
}

impl Budget {
    /// Without a limit.
    pub const UNLIMITED: Self = Self {
        page_rows: PAGE_ROWS,
        piece_rows: PIECE_ROWS,
        sample_rows: feed::SAMPLE_ROWS,
        unit_bytes: feed::UNIT_BYTES,
        resident: RESIDENT_BYTES,
        resident_chunk: RESIDENT_CHUNK_BYTES,
        smallest_spilled: SMALLEST_SPILLED,
        dictionaries: None,
        bloom_filters: None,
        value_bytes: None,
    };

    /// Divides `limit` among the columns of a file, and returns the bytes of a page beside the shares.
    ///
    /// # Errors
    /// [`WriteError::Option`] says the least limit that would do.
    pub fn new(limit: usize, columns: usize) -> Result<(Self, usize)> {
        let least = BASE + columns * PAGE_SHARE * LEAST_PAGE;
        if limit < least {
            return Err(WriteError::option(
                "memory_limit",
                format!(
                    "memory_limit={limit} is not accepted: a file with {columns} columns needs at least {least} bytes"
                ),
            ));
        }
        let page = (limit / (PAGE_SHARE * columns.max(1))).max(LEAST_PAGE);
        let budget = Self {
            // Indices take four bytes in memory, however few in the page.
            page_rows: (page / 4).min(PAGE_ROWS),
            piece_rows: (page / 64).clamp(64, PIECE_ROWS),
            sample_rows: (page / 32).clamp(128, feed::SAMPLE_ROWS),
            unit_bytes: (limit as u64 / 16).min(feed::UNIT_BYTES),
            resident: limit / 8,
            resident_chunk: 0,
            smallest_spilled: 0,
            dictionaries: Some(limit / 8 * 3),
            bloom_filters: Some(limit / 16),
            value_bytes: Some(limit as u64 / VALUE_SHARE),
        };
        Ok((budget, page))
    }
}

/// The divisor of a row group's bytes that limits preserved dictionaries.
const PRESERVED_SHARE: u64 = 4;
/// Bytes that a value of such a dictionary is assumed to take, where memory has a limit.
const PRESERVED_VALUE: usize = 16;

/// The limits of the dictionary of one leaf column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// Entries.
    pub entries: usize,
    /// Bytes of its page.
    pub bytes: usize,
    /// Slots of the table that small ranges of integers are looked up in.
    pub window: usize,
}

impl Room {
    /// As large as a dictionary is worth it.
    pub const UNLIMITED: Self = Self {
        entries: usize::MAX,
        bytes: DICTIONARY_BYTES,
        window: 1 << 16,
    };

    /// The limits of each of `columns` preserved dictionaries, in row groups of so many bytes.
    pub fn preserved(row_group_bytes: u64, columns: usize) -> Self {
        let bytes = row_group_bytes / PRESERVED_SHARE / columns.max(1) as u64;
        Self {
            bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
            ..Self::UNLIMITED
        }
    }

    /// The limits of each of `leaves` preserved dictionaries that share `memory` bytes: the part of them that each gets
    /// in any case.
    pub fn preserved_within(memory: usize, leaves: usize) -> Self {
        Self::within(memory / 2 / leaves.max(1), PRESERVED_VALUE)
    }

    /// The limits for `memory` bytes, where an entry takes `entry_bytes` of the page.
    pub fn within(memory: usize, entry_bytes: usize) -> Self {
        // Entries lie in vectors that double, and are hashed into a table that is never a third full.
        let entry = 106 + 2 * entry_bytes;
        let entries = (memory / 8 * 7 / entry).max(1);
        Self {
            entries,
            bytes: (entries * entry_bytes.max(1)).min(DICTIONARY_BYTES),
            window: (memory / 32).clamp(256, 1 << 16),
        }
    }
}

impl Room {
    /// The same, as encoders take it.
    pub fn limits(self) -> Limits {
        Limits {
            entries: self.entries,
            bytes: self.bytes,
            window: self.window,
        }
    }
}

impl Default for Room {
    fn default() -> Self {
        Self::UNLIMITED
    }
}
