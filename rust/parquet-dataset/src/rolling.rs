//! The size limit of a file: decides after each step of rows whether the file is full.
//!
//! The length of a step follows from the content of the file, never from how the rows were cut into batches. Unfinished
//! pages count at their size before compression, so that a file is closed too early rather than too late.

use parquet_writer::Size;

/// The number of rows in the shortest step, and in a row group's units.
const STEP_ROWS: u64 = 1024;
/// The number of rows that encodings are chosen from. The size of a file is unknown before them.
const FIRST_ROWS: u64 = 2048;
/// Rows of the longest step.
const MOST_STEP_ROWS: u64 = 64 << 10;
/// Value bytes that end a step early.
const STEP_BYTES: u64 = 4 << 20;
/// Bytes of the footer per column chunk: its metadata and statistics.
const CHUNK_FOOTER_BYTES: u64 = 512;
/// Bytes of the page indexes per page: with text bounds of up to 64 bytes each, and with bounds that are numbers.
const TEXT_PAGE_BYTES: u64 = 160;
const NUMBER_PAGE_BYTES: u64 = 40;
/// Bytes of an encrypted file's footer per column chunk beside those: its metadata is there twice where the footer is
/// signed, and all modules of the chunk have a nonce, a tag and a length.
const SEALED_CHUNK_BYTES: u64 = 1024;

/// The rows that may be written before the next check of the file's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CheckInterval {
    pub rows: u64,
    /// Value bytes that end it before.
    pub weight: u64,
}

/// The rows that a file has got.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WrittenRows {
    pub count: u64,
    /// Bytes of their variable-length values.
    pub weight: u64,
}

impl WrittenRows {
    /// The average weight of these rows relative to that of `all`, in thousandths; a thousand at least.
    fn heavier_than(self, all: Self) -> u64 {
        let ours = u128::from(self.weight) * u128::from(all.count) * 1000;
        let theirs = u128::from(all.weight) * u128::from(self.count);
        u64::try_from(ours / theirs.max(1)).unwrap_or(u64::MAX).max(1000)
    }
}

/// The limits of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rolling {
    pub max_bytes: Option<u64>,
    pub columns: u64,
    /// Bytes of a page before compression.
    pub page_bytes: u64,
    /// Rows of a page.
    pub page_rows: u64,
    pub is_encrypted: bool,
}

impl Rolling {
    /// The next step of a file with these rows, of which `last` came in the last step; `None` when the file is full.
    pub fn next(&self, size: Size, rows: WrittenRows, last: WrittenRows) -> Option<CheckInterval> {
        let Some(limit) = self.max_bytes else {
            return Some(CheckInterval {
                rows: u64::MAX,
                weight: u64::MAX,
            });
        };
        if rows.count == 0 {
            return Some(CheckInterval {
                rows: FIRST_ROWS,
                weight: STEP_BYTES,
            });
        }
        let footer = self.footer(size.row_groups as u64, rows);
        let encoded = size.written + size.open;
        let per_thousand = encoded.saturating_mul(last.heavier_than(rows)) / size.rows.max(1);
        let waiting = per_thousand.saturating_mul(rows.count - size.rows) / 1000;
        let shortest = (per_thousand.saturating_mul(STEP_ROWS) / 1000).min(STEP_BYTES);
        let left = limit.checked_sub(encoded + footer + waiting + shortest)?;
        let affordable = left.saturating_mul(1000) / per_thousand.max(1) / 4;
        Some(CheckInterval {
            rows: (affordable / STEP_ROWS * STEP_ROWS).clamp(STEP_ROWS, MOST_STEP_ROWS),
            weight: (left / 2).max(STEP_BYTES),
        })
    }

    /// An upper bound of the bytes of the footer and the page indexes.
    fn footer(&self, row_groups: u64, rows: WrittenRows) -> u64 {
        // Pages are closed at three quarters of their size, and each has a row.
        let page = (self.page_bytes * 3 / 4).max(1);
        let most = rows.count * self.columns;
        let by_rows = self.columns * (rows.count / self.page_rows.max(1) + row_groups);
        let texts = (rows.weight / page).min(most) + by_rows;
        let numbers = (most * 8 / page).min(most);
        let chunks = self.columns * row_groups;
        let sealed = if self.is_encrypted { SEALED_CHUNK_BYTES } else { 0 };
        chunks * (CHUNK_FOOTER_BYTES + sealed) + texts * TEXT_PAGE_BYTES + numbers * NUMBER_PAGE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rolling(max_bytes: u64) -> Rolling {
        Rolling {
            max_bytes: Some(max_bytes),
            columns: 4,
            page_bytes: 256 << 10,
            page_rows: 32_768,
            is_encrypted: false,
        }
    }

    fn size(written: u64, rows: u64) -> Size {
        Size {
            written,
            open: 0,
            rows,
            row_groups: 1,
        }
    }

    fn rows(count: u64, weight: u64) -> WrittenRows {
        WrittenRows { count, weight }
    }

    #[test]
    fn a_file_takes_its_first_rows_whatever_the_limit() {
        let none = WrittenRows::default();
        assert_eq!(rolling(1).next(size(4, 0), none, none).unwrap().rows, FIRST_ROWS);
    }

    #[test]
    fn steps_grow_shorter_towards_the_limit() {
        let rolling = rolling(100 << 20);
        let mut last = u64::MAX;
        for percent in 1..=100 {
            let (bytes, count) = (percent << 20, percent * 10_000);
            let Some(step) = rolling.next(size(bytes, count), rows(count, bytes), rows(10_000, 1 << 20))
            else {
                assert!(bytes > 95 << 20, "full at {bytes} bytes");
                return;
            };
            assert!(step.rows <= last);
            last = step.rows;
        }
        panic!("the file was never full");
    }

    #[test]
    fn short_pages_fill_a_file_sooner() {
        let short = Rolling {
            page_rows: 100,
            ..rolling(16 << 20)
        };
        let (size, all) = (size(8 << 20, 2_000_000), rows(2_000_000, 0));
        assert!(rolling(16 << 20).next(size, all, rows(1_000, 0)).is_some());
        assert!(short.next(size, all, rows(1_000, 0)).is_none());
    }

    #[test]
    fn pages_of_a_few_bytes_are_no_more_than_values() {
        let of_bytes = |page_bytes| Rolling {
            page_bytes,
            ..rolling(16 << 20)
        };
        let all = rows(50_000, 2_000_000);
        let footer = |page_bytes| of_bytes(page_bytes).footer(1, all);
        assert_eq!(footer(1), footer(8));
        let most = 50_000 * 4 * (TEXT_PAGE_BYTES + NUMBER_PAGE_BYTES);
        assert!(footer(1) < most + 4 * 1024, "{}", footer(1));
    }

    #[test]
    fn heavy_rows_end_a_step_before_they_overrun_the_file() {
        let heavy = rows(4, 4 << 20);
        let step = rolling(16 << 20).next(size(4 << 20, 4), heavy, heavy).unwrap();
        assert!(step.weight <= 8 << 20);
    }

    #[test]
    fn rows_that_grow_heavier_fill_a_file_sooner() {
        let rolling = rolling(16 << 20);
        let (size, all) = (size(14 << 20, 14_000), rows(14_000, 14 << 20));
        assert!(rolling.next(size, all, rows(1_000, 1 << 20)).is_some());
        assert!(rolling.next(size, all, rows(1_000, 2 << 20)).is_none());
    }
}
