//! The rows of a column that content-defined pages end with.
//!
//! Parquet's data pages are what stores of content share: those of equal rows are equal, if they begin and end with the
//! same rows. So a page ends where a chunk of values does, besides where it is full.

use parquet_encode::byte_arrays::{ByteArrays, Views};

use super::piece::Piece;
use super::run::Run;
use super::source::{self, Values};
use crate::chunker::{ChunkSizes, Chunker};

/// Stands for an entry without a value.
const NO_VALUE: &[u8] = &[0];

/// Finds the rows of a column chunk that pages end with.
pub(super) struct Cuts {
    chunker: Chunker,
    /// The rows that the keys of a run refer to.
    named: Vec<u32>,
}

impl Cuts {
    pub fn new(sizes: ChunkSizes) -> Self {
        Self {
            chunker: Chunker::new(sizes),
            named: Vec::new(),
        }
    }

    /// The memory that is held, used or not.
    pub fn memory_bytes(&self) -> usize {
        self.named.capacity() * size_of::<u32>()
    }

    /// The rows of the next run behind which a page begins: for each the number of rows before that.
    pub fn find(&mut self, run: &Run<'_>) -> Vec<usize> {
        if let Some(Values::Keys { keys, values, .. }) = run.values {
            let whole = Piece {
                start: 0,
                rows: run.slots(0, run.rows).len(),
                validity: run.nulls.and_then(source::validity),
            };
            let mut named = std::mem::take(&mut self.named);
            keys.rows(whole, &mut named);
            let mut next = named.iter();
            let found = self.find_by(run, |chunker, _| {
                if let Some(row) = next.next() {
                    roll(chunker, values, *row as usize);
                }
            });
            self.named = named;
            return found;
        }
        self.find_by(run, |chunker, slot| {
            if let Some(values) = run.values {
                roll(chunker, values, slot);
            }
        })
    }

    /// The same, where `value` rolls the value of a slot that has one.
    fn find_by(&mut self, run: &Run<'_>, mut value: impl FnMut(&mut Chunker, usize)) -> Vec<usize> {
        let mut found = Vec::new();
        for row in 0..run.rows {
            let (slots, entries) = (run.slots(row, 1), run.entries(row, 1));
            let empty = entries.len() - slots.len();
            for slot in slots {
                if run.values.is_some() && run.nulls.is_none_or(|nulls| nulls.is_valid(slot)) {
                    value(&mut self.chunker, slot);
                } else {
                    self.chunker.roll(NO_VALUE);
                }
            }
            // Empty lists, and nulls in the place of lists.
            for _ in 0..empty {
                self.chunker.roll(NO_VALUE);
            }
            if self.chunker.end() {
                found.push(row + 1);
            }
        }
        found
    }
}

/// Rolls a value as PLAIN has it, but booleans in a byte each.
fn roll(chunker: &mut Chunker, values: &Values<'_>, slot: usize) {
    match values {
        Values::Bools { bytes, offset } => {
            let bit = offset + slot;
            chunker.roll(&[bytes[bit / 8] >> (bit % 8) & 1]);
        }
        Values::I32(values) => chunker.roll(&values[slot].to_le_bytes()),
        Values::I64(values) => chunker.roll(&values[slot].to_le_bytes()),
        Values::F32(values) => chunker.roll(&values[slot].to_le_bytes()),
        Values::F64(values) => chunker.roll(&values[slot].to_le_bytes()),
        Values::Small(values) => roll_bytes(chunker, values.value(slot)),
        Values::Large(values) => roll_bytes(chunker, values.value(slot)),
        Values::Views { views, buffers } => roll_bytes(chunker, Views { views, buffers }.value(slot)),
        Values::Fixed(values) => chunker.roll(values.value(slot)),
        // Keys refer to no keys.
        Values::Keys { .. } => {}
    }
}

#[expect(clippy::cast_possible_truncation, reason = "values are shorter than 4 GiB")]
fn roll_bytes(chunker: &mut Chunker, value: &[u8]) {
    chunker.roll(&(value.len() as u32).to_le_bytes());
    chunker.roll(value);
}
