//! The set of entries that a page uses. Statistics over them equal those over the page's rows.

use super::Indices;
use crate::cpu::dispatch;
use crate::each_width;
use crate::rle::Symbol;

/// The distinct indices of a page. Reused from page to page.
#[derive(Debug, Default)]
pub struct UsedEntries {
    /// One byte per entry; all zero between calls.
    marks: Vec<u8>,
    used: Vec<u32>,
}

impl UsedEntries {
    /// Entries of a dictionary of which those that a page uses are found at next to no cost.
    pub const FEW: usize = 64;

    /// Nothing used yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The distinct values of `indices`, ascending. All are below `entries`, the size of the dictionary.
    ///
    /// # Panics
    ///
    /// If an index is not below `entries`.
    pub fn of(&mut self, indices: &Indices, entries: usize) -> &[u32] {
        self.used.clear();
        if entries <= Self::FEW {
            let mut bits = each_width!(indices, 0, values => few(values));
            while bits != 0 {
                self.used.push(bits.trailing_zeros());
                bits &= bits - 1;
            }
            return &self.used;
        }
        if self.marks.len() < entries {
            self.marks.resize(entries, 0);
        }
        let marks = &mut self.marks[..entries];
        each_width!(indices, 0, values => mark(values, marks));
        for (group, marks) in marks.chunks_mut(8).enumerate() {
            if marks.iter().any(|mark| *mark != 0) {
                let first = group as u32 * 8;
                self.used.extend(
                    (first..)
                        .zip(marks.iter())
                        .filter(|(_, mark)| **mark != 0)
                        .map(|(index, _)| index),
                );
                marks.fill(0);
            }
        }
        &self.used
    }

    /// The memory that is held, used or not.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.marks.capacity() + self.used.capacity() * size_of::<u32>()
    }
}

fn mark<T: Symbol>(indices: &[T], marks: &mut [u8]) {
    for index in indices {
        marks[(*index).into() as usize] = 1;
    }
}

#[inline(always)]
fn few_kernel<T: Symbol>(indices: &[T]) -> u64 {
    indices
        .iter()
        .fold(0, |bits, index| bits | 1 << ((*index).into() & 63))
}

dispatch! {
    /// A bit for each index below 64.
    fn few<T: Symbol>(indices: &[T]) -> u64 = few_kernel;
}
