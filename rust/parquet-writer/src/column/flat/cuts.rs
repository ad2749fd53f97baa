//! The rows of a column that content-defined pages end with.
//!
//! Parquet's data pages are what stores of content share: those of equal rows are equal, if they begin and end with the
//! same rows. So a page ends where a chunk of values does, besides where it is full.

use parquet_encode::byte_arrays::{ByteArrays, Views};

use super::piece::Piece;
use super::run::Run;
use super::source::{self, RunValues};
use crate::chunker::{ChunkSizes, Chunker};

/// Stands for an entry without a value.
const NO_VALUE: &[u8] = &[0];

/// Finds the rows of a column chunk that pages end with.
pub(super) struct Cuts {
    chunker: Chunker,
    /// The rows that the keys of a run refer to.
    named: Vec<u32>,
    /// The number of them that were rolled.
    rolled: usize,
}

impl Cuts {
    pub fn new(sizes: ChunkSizes) -> Self {
        Self {
            chunker: Chunker::new(sizes),
            named: Vec::new(),
            rolled: 0,
        }
    }

    /// The memory that is held, used or not.
    pub fn memory_bytes(&self) -> usize {
        self.named.capacity() * size_of::<u32>()
    }

    /// A run begins, whose rows [`Self::next`] looks at.
    pub fn begin(&mut self, run: &Run<'_>) {
        self.rolled = 0;
        if let Some(RunValues::Keys { keys, .. }) = run.values {
            let whole = Piece {
                start: 0,
                rows: run.slots(0, run.rows).len(),
                validity: run.nulls.and_then(source::validity),
            };
            keys.rows(whole, &mut self.named);
        }
    }

    /// The number of the run's rows before the next page, where one begins behind the row `start` or a later one. Each
    /// row is looked at once.
    pub fn next(&mut self, run: &Run<'_>, start: usize) -> Option<usize> {
        let mut rows = start..run.rows;
        rows.find(|row| self.ends_with(run, *row)).map(|row| row + 1)
    }

    /// Rolls a row, and returns true if a page ends with it.
    fn ends_with(&mut self, run: &Run<'_>, row: usize) -> bool {
        let (slots, entries) = (run.slots(row, 1), run.entries(row, 1));
        let empty = entries.len() - slots.len();
        for slot in slots {
            let is_valid = run.nulls.is_none_or(|nulls| nulls.is_valid(slot));
            match run.values.filter(|_| is_valid) {
                Some(RunValues::Keys { values, .. }) => {
                    if let Some(named) = self.named.get(self.rolled) {
                        roll(&mut self.chunker, values, *named as usize);
                    }
                    self.rolled += 1;
                }
                Some(values) => roll(&mut self.chunker, values, slot),
                None => self.chunker.roll(NO_VALUE),
            }
        }
        // Empty lists, and nulls in the place of lists.
        for _ in 0..empty {
            self.chunker.roll(NO_VALUE);
        }
        self.chunker.end()
    }
}

/// Rolls a value as PLAIN has it, but booleans in a byte each.
fn roll(chunker: &mut Chunker, values: &RunValues<'_>, slot: usize) {
    match values {
        RunValues::Bools { bytes, offset } => {
            let bit = offset + slot;
            chunker.roll(&[bytes[bit / 8] >> (bit % 8) & 1]);
        }
        RunValues::I32(values) => chunker.roll(&values[slot].to_le_bytes()),
        RunValues::I64(values) => chunker.roll(&values[slot].to_le_bytes()),
        RunValues::F32(values) => chunker.roll(&values[slot].to_le_bytes()),
        RunValues::F64(values) => chunker.roll(&values[slot].to_le_bytes()),
        RunValues::Small(values) => roll_bytes(chunker, values.value(slot)),
        RunValues::Large(values) => roll_bytes(chunker, values.value(slot)),
        RunValues::Views { views, buffers } => roll_bytes(chunker, Views { views, buffers }.value(slot)),
        RunValues::Fixed(values) => chunker.roll(values.value(slot)),
        // Keys refer to no keys.
        RunValues::Keys { .. } => {}
    }
}

#[expect(clippy::cast_possible_truncation, reason = "values are shorter than 4 GiB")]
fn roll_bytes(chunker: &mut Chunker, value: &[u8]) {
    chunker.roll(&(value.len() as u32).to_le_bytes());
    chunker.roll(value);
}
