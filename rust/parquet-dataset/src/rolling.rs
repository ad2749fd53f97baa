//! When a file is full.
//!
//! A file is looked at between steps of its rows. How long a step is follows from what is in the file and from the
//! files of the same partition before it, never from how the rows were cut into batches.

use parquet_writer::{Size, WriteResult};

/// Rows of the shortest step, and of a row group's units.
const STEP_ROWS: u64 = 1024;
/// Rows that encodings are chosen from: nothing is known of a first file's size before them.
const FIRST_ROWS: u64 = 2048;
/// Rows of the longest step.
const MOST_STEP_ROWS: u64 = 64 << 10;
/// Value bytes that end a step early.
const STEP_BYTES: u64 = 4 << 20;
/// What the footer holds of a column chunk: its metadata, statistics and indexes.
const CHUNK_FOOTER_BYTES: u64 = 512;

/// What finished files of a partition tell of the next one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Experience {
    /// Bytes that a thousand rows came to.
    per_thousand: u64,
    /// What a thousand bytes of an open row group came to.
    shrinks_to: Option<u64>,
}

/// The rows that may be written before the file is looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub rows: u64,
    /// Value bytes that end it before.
    pub weight: u64,
}

/// The limits of a file, and what is known of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rolling {
    pub max_bytes: Option<u64>,
    pub columns: usize,
    pub experience: Experience,
}

impl Rolling {
    /// The next step of a file of `rows` rows; `None` when it is full.
    pub fn next(&self, size: Size, rows: u64) -> Option<Step> {
        let Some(limit) = self.max_bytes else {
            return Some(Step {
                rows: u64::MAX,
                weight: u64::MAX,
            });
        };
        if rows == 0 {
            return Some(Step {
                rows: FIRST_ROWS,
                weight: STEP_BYTES,
            });
        }
        let bytes = self.bytes(size);
        let per_thousand = match size.rows {
            0 => self.experience.per_thousand,
            encoded => bytes.saturating_mul(1000) / encoded,
        };
        let bytes = bytes + per_thousand.saturating_mul(rows - size.rows) / 1000;
        let shortest = (per_thousand.saturating_mul(STEP_ROWS) / 1000).min(STEP_BYTES);
        let left = limit
            .checked_sub(bytes + shortest)
            .filter(|left| *left > limit / 64)?;
        let affordable = left.saturating_mul(1000) / per_thousand.max(1) / 4;
        Some(Step {
            rows: (affordable / STEP_ROWS * STEP_ROWS).clamp(STEP_ROWS, MOST_STEP_ROWS),
            weight: (left / 2).max(STEP_BYTES),
        })
    }

    /// What the file would be if it were closed with the rows that are encoded.
    fn bytes(&self, size: Size) -> u64 {
        let open = match self.experience.shrinks_to {
            // A twentieth more, because a row group may shrink less than the last one did.
            Some(shrinks_to) => size.open.saturating_mul(shrinks_to + shrinks_to / 20) / 1000,
            None => size.open,
        };
        size.written + open + (self.columns * size.row_groups) as u64 * CHUNK_FOOTER_BYTES
    }
}

impl Experience {
    /// Learns from a file that was `size` before it was closed.
    pub fn learn(&mut self, size: Size, closed: &WriteResult) {
        if closed.rows == 0 {
            return;
        }
        self.per_thousand = closed.bytes.saturating_mul(1000) / closed.rows;
        if size.open > 0 && size.rows > 0 {
            // Rows that waited for a unit came on top of what was open.
            let open = size.open.saturating_mul(closed.rows) / size.rows;
            let became = closed.bytes.saturating_sub(size.written);
            self.shrinks_to = Some((became.saturating_mul(1000) / open.max(1)).clamp(1, 1000));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rolling(max_bytes: u64) -> Rolling {
        Rolling {
            max_bytes: Some(max_bytes),
            columns: 4,
            experience: Experience::default(),
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

    #[test]
    fn a_file_takes_its_first_rows_whatever_the_limit() {
        assert_eq!(rolling(1).next(size(4, 0), 0).unwrap().rows, FIRST_ROWS);
    }

    #[test]
    fn steps_grow_shorter_towards_the_limit() {
        let rolling = rolling(100 << 20);
        let mut last = u64::MAX;
        for filled in (1..100).map(|percent| (percent << 20, percent * 10_000)) {
            let Some(step) = rolling.next(size(filled.0, filled.1), filled.1) else {
                assert!(filled.0 > 95 << 20, "full at {} bytes", filled.0);
                return;
            };
            assert!(step.rows <= last);
            last = step.rows;
        }
        panic!("the file was never full");
    }

    #[test]
    fn heavy_rows_end_a_step_before_they_overrun_the_file() {
        let step = rolling(16 << 20).next(size(4 << 20, 4), 4).unwrap();
        assert!(step.weight <= 8 << 20);
    }
}
