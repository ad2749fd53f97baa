//! The shares of `memory_limit` that the parts of a writer get.
//!
//! Every share follows from options and schema, never from the content of memory. The ends of pages and of dictionaries
//! must not depend on how rows were cut into batches. Only the choice between memory and disk for finished pages
//! depends on the moment, and that changes no byte of the file.

use parquet_encode::dictionary::DictionaryLimits;

use crate::choose::{DICTIONARY_BYTES, PAGE_ROWS};
use crate::error::{Result, WriteError};
use crate::feed;
use crate::pages::CompressionWindow;
use crate::thread_pool::{self, Threads};

/// The least bytes of a page, however small the limit.
const LEAST_PAGE: usize = 4 << 10;
/// The divisor of a column's share of the memory limit that gives the size of a page. Values and their encoded form
/// take up to twice the size of the page.
const PAGE_SHARE: usize = 4;
/// Pages that the buffers of a compressor hold: the page and its compressed form, each in a vector that doubles. A
/// column holds half as many.
const BUFFERS: usize = 4;
/// The divisor of the memory limit that limits a column's values in one row. A value is held up to four times: as it
/// came, in its page, in the body of that page, and compressed.
pub(crate) const VALUE_SHARE: u64 = 8;
/// Bytes that a file needs besides its columns and compressors: the buffer in front of the operating system, and rows
/// that wait.
const BASE: usize = 192 << 10;
/// Bytes that a leaf column takes besides its values: its part of schemas and choices, its encoder and its place in the
/// metadata of a row group.
pub(crate) const COLUMN: usize = 4 << 10;
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
    /// Finished pages that wait in memory, and under a limit the metadata that waits for the footer.
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
    /// The window of compressors; `None` for that of their level.
    pub window: Option<CompressionWindow>,
    /// Bytes of the compressors of one thread, with their buffers.
    pub compressors: usize,
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
        window: None,
        compressors: 0,
    };

    /// Divides `limit` among the columns of a file with pages of `page_bytes` at most, and the compressors of a thread.
    /// Returns the shares and the bytes of a page. `contexts` are the bytes of these compressors with a window. They
    /// come off the limit before it is shared out.
    ///
    /// # Errors
    /// [`WriteError::Option`] says the least limit that would do.
    pub fn new(
        limit: usize,
        (columns, compressors): (usize, usize),
        page_bytes: usize,
        contexts: impl Fn(CompressionWindow) -> Result<usize>,
    ) -> Result<(Self, usize)> {
        let shares = PAGE_SHARE * (columns + BUFFERS / 2 * compressors);
        let beside = columns * COLUMN;
        let needed = BASE + beside + shares * LEAST_PAGE;
        let (mut window, mut context) = (CompressionWindow::LEAST, contexts(CompressionWindow::LEAST)?);
        let least = needed + context;
        if limit < least {
            return Err(WriteError::option(
                "memory_limit",
                format!(
                    "memory_limit={limit} is not accepted: a file with {columns} columns needs at least {least} bytes"
                ),
            ));
        }
        for larger in CompressionWindow::up_to((limit / shares).min(page_bytes)) {
            let bytes = contexts(larger)?;
            // Pages and dictionaries get half at least.
            if bytes > limit / 2 || needed + bytes > limit {
                break;
            }
            (window, context) = (larger, bytes);
        }
        let (budget, page) = Self::with_shares_of(limit - context - beside, shares);
        let budget = Self {
            value_bytes: Some(limit as u64 / VALUE_SHARE),
            window: Some(window),
            compressors: context + compressors * BUFFERS * page.min(page_bytes),
            ..budget
        };
        Ok((budget, page))
    }

    /// The parts of what contexts leave, and the bytes of a page: one of so many shares.
    fn with_shares_of(rest: usize, shares: usize) -> (Self, usize) {
        let page = (rest / shares).max(LEAST_PAGE);
        let budget = Self {
            // Indices take four bytes in memory, however few in the page.
            page_rows: (page / 4).min(PAGE_ROWS),
            piece_rows: (page / 64).clamp(64, PIECE_ROWS),
            sample_rows: (page / 32).clamp(128, feed::SAMPLE_ROWS),
            unit_bytes: (rest as u64 / 16).min(feed::UNIT_BYTES),
            resident: rest / 8,
            resident_chunk: 0,
            smallest_spilled: 0,
            dictionaries: Some(rest / 8 * 3),
            bloom_filters: Some(rest / 16),
            ..Self::UNLIMITED
        };
        (budget, page)
    }

    /// Returns true if there is a limit.
    pub fn is_limited(&self) -> bool {
        self.value_bytes.is_some()
    }

    /// The same with room for the compressors of further threads, and the threads that there is room for. They come out
    /// of the share of finished pages, which changes no byte of the file: out of all of it for a number that the caller
    /// gave, else out of half, since small batches are encoded by one thread.
    pub fn on_threads(self, threads: Threads) -> (Self, Threads) {
        if self.compressors == 0 {
            return (self, threads);
        }
        let further = |threads: usize, room: usize| (threads - 1).min(room / self.compressors);
        let (further, threads) = match threads {
            Threads::Exactly(threads) => {
                let further = further(threads, self.resident);
                (further, Threads::Exactly(1 + further))
            }
            Threads::UpTo(most) => {
                let further = further(most.min(thread_pool::cores()), self.resident / 2);
                (further, Threads::UpTo(1 + further))
            }
        };
        let budget = Self {
            resident: self.resident - further * self.compressors,
            ..self
        };
        (budget, threads)
    }
}

/// The divisor of a row group's bytes that limits preserved dictionaries.
const PRESERVED_SHARE: u64 = 4;
/// Bytes that a value of such a dictionary is assumed to take, where memory has a limit.
const PRESERVED_VALUE: usize = 16;

/// The limits of a dictionary that is as large as it pays.
pub(crate) const LARGEST_DICTIONARY: DictionaryLimits = DictionaryLimits {
    entries: usize::MAX,
    bytes: DICTIONARY_BYTES,
    window: 1 << 16,
};

/// The limits of one preserved dictionary, where `columns` of them share a quarter of a row group's bytes.
pub(crate) fn preserved_limits(row_group_bytes: u64, columns: usize) -> DictionaryLimits {
    let bytes = row_group_bytes / PRESERVED_SHARE / columns.max(1) as u64;
    DictionaryLimits {
        bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
        ..LARGEST_DICTIONARY
    }
}

/// The limits of one preserved dictionary, where `leaves` of them share half of `memory` bytes equally.
pub(crate) fn preserved_limits_within(memory: usize, leaves: usize) -> DictionaryLimits {
    dictionary_limits_within(memory / 2 / leaves.max(1), PRESERVED_VALUE)
}

/// The limits of a dictionary for `memory` bytes, where an entry takes `entry_bytes` of the page.
pub(crate) fn dictionary_limits_within(memory: usize, entry_bytes: usize) -> DictionaryLimits {
    // Entries lie in vectors that double, and are hashed into a table that is never a third full.
    let entry = 106 + 2 * entry_bytes;
    let entries = (memory / 8 * 7 / entry).max(1);
    DictionaryLimits {
        entries,
        bytes: (entries * entry_bytes.max(1)).min(DICTIONARY_BYTES),
        window: (memory / 32).clamp(256, 1 << 16),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A budget of two columns, where contexts take 16 bytes for each byte of a window's size.
    fn budget(limit: usize) -> Result<(Budget, usize)> {
        Budget::new(limit, (2, 1), 256 << 10, |window| Ok(16 * window.bytes()))
    }

    #[test]
    fn a_window_is_smaller_before_a_limit_is_refused() {
        let window = |limit| budget(limit).unwrap().0.window.unwrap().bytes();
        assert_eq!(window(64 << 20), 256 << 10);
        assert_eq!(window(2 << 20), 64 << 10);
        assert_eq!(window(400 << 10), 8 << 10);
        assert_eq!(window(350 << 10), 4 << 10);
        let least = (192 << 10) + 2 * (4 << 10) + 4 * 4 * (4 << 10) + 16 * (4 << 10);
        assert!(budget(least).is_ok());
        let refused = budget(least - 1).unwrap_err().to_string();
        assert!(refused.contains(&format!("at least {least} bytes")), "{refused}");
    }

    #[test]
    fn further_threads_take_their_compressors_from_finished_pages() {
        let (of_one, _) = budget(64 << 20).unwrap();
        let (of_two, threads) = of_one.on_threads(Threads::Exactly(2));
        assert_eq!(
            (threads, of_two.resident),
            (Threads::Exactly(2), of_one.resident - of_one.compressors)
        );
        let (of_many, threads) = of_one.on_threads(Threads::Exactly(64));
        assert!(threads.most() < 64, "{threads:?}");
        assert!(of_many.resident < of_one.compressors);
        for threads in [Threads::Exactly(64), Threads::UpTo(64)] {
            assert_eq!(
                Budget::UNLIMITED.on_threads(threads),
                (Budget::UNLIMITED, threads)
            );
        }
    }
}
