//! The rows of one leaf column that are written together.

use std::ops::Range;

use arrow_buffer::NullBuffer;

use super::piece::Piece;
use super::source::{self, RunValues};

/// A run of rows. A slot is a position in the leaf's array: a row's, or that of a list's element.
pub(super) struct Run<'a> {
    /// `None` when no slot is valid.
    pub values: Option<&'a RunValues<'a>>,
    pub nulls: Option<&'a NullBuffer>,
    /// `None` when slots are rows and validity is the only level.
    pub levels: Option<RunLevels<'a>>,
    pub rows: usize,
}

/// The levels of a run's entries.
#[derive(Debug, Clone, Copy)]
pub(in crate::column) struct RunLevels<'a> {
    /// `None` when all are `level`.
    pub definition: Option<&'a [u8]>,
    pub level: u8,
    /// `None` when nothing repeats: then entries, slots and rows are the same.
    pub repetition: Option<&'a Repetition>,
}

/// The repetition levels of rows with lists, and the entries and slots of each row.
#[derive(Debug)]
pub(in crate::column) struct Repetition {
    /// The repetition level of each entry.
    pub levels: Vec<u8>,
    /// The highest of them.
    pub depth: u8,
    /// The first entry of each row, and at the end the number of entries.
    pub entries: Vec<usize>,
    /// The first slot of each row, and at the end the number of slots.
    pub slots: Vec<usize>,
    /// The least definition level of an entry that has a slot.
    pub element: u8,
}

impl<'a> Run<'a> {
    fn repetition(&self) -> Option<&'a Repetition> {
        self.levels.and_then(|levels| levels.repetition)
    }

    /// The entries of some rows.
    pub fn entries(&self, start: usize, rows: usize) -> Range<usize> {
        self.repetition().map_or(start..start + rows, |repetition| {
            repetition.entries[start]..repetition.entries[start + rows]
        })
    }

    /// The slots of some rows.
    pub fn slots(&self, start: usize, rows: usize) -> Range<usize> {
        self.repetition().map_or(start..start + rows, |repetition| {
            repetition.slots[start]..repetition.slots[start + rows]
        })
    }

    /// The slots of some rows, and which of them are valid.
    pub fn piece(&self, start: usize, rows: usize) -> Piece<'a> {
        let slots = self.slots(start, rows);
        let validity = self
            .nulls
            .and_then(source::validity)
            .map(|bits| bits.slice(slots.start, slots.len()));
        Piece {
            start: slots.start,
            rows: slots.len(),
            validity: validity.filter(|bits| bits.count_ones() < slots.len()),
        }
    }

    /// The number of rows from `start` that are processed together, with at most `most` slots; at least one.
    pub fn rows_together(&self, start: usize, most: usize) -> usize {
        let rows = (self.rows - start).min(most);
        let Some(repetition) = self.repetition() else {
            return rows;
        };
        let slots = repetition.slots[start] + most;
        self.rows_before(start, rows, slots).max(1)
    }

    /// The number of the first `rows` rows that have all their slots before `slot`.
    pub fn rows_before(&self, start: usize, rows: usize, slot: usize) -> usize {
        match self.repetition() {
            None => rows.min(slot - start),
            Some(repetition) => {
                repetition.slots[start + 1..=start + rows].partition_point(|end| *end <= slot)
            }
        }
    }

    /// The number of the first `rows` rows that together have no more than `count` entries.
    pub fn rows_with_entries(&self, start: usize, rows: usize, count: usize) -> usize {
        self.repetition().map_or(rows.min(count), |repetition| {
            let last = repetition.entries[start].saturating_add(count);
            repetition.entries[start + 1..=start + rows].partition_point(|end| *end <= last)
        })
    }
}
