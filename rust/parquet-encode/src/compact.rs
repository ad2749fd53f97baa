//! Compaction: leaves out the slots under nulls, for which Parquet stores no value.

use crate::bitmap::Bitmap;
use crate::byte_arrays::ByteSpan;
use crate::cpu::dispatch;
use crate::fixed::Fixed;

/// Slots that go the same way.
enum SlotRun {
    /// All of these are valid.
    All(std::ops::Range<usize>),
    /// Some slots from here on: those whose bits are set are valid.
    Some(usize, u64),
}

/// The pieces of a bitmap, in words of 64 slots. Words that are all valid are joined, and words that are all null are
/// skipped.
struct Pieces<'a> {
    validity: &'a Bitmap<'a>,
    word: usize,
}

impl Iterator for Pieces<'_> {
    type Item = SlotRun;

    #[inline(always)]
    fn next(&mut self) -> Option<SlotRun> {
        let whole = self.validity.len() / 64;
        while self.word < self.validity.word_count() {
            let (start, word) = (self.word * 64, self.validity.word(self.word));
            self.word += 1;
            if word == u64::MAX {
                while self.word < whole && self.validity.word(self.word) == u64::MAX {
                    self.word += 1;
                }
                return Some(SlotRun::All(start..self.word * 64));
            }
            if word != 0 {
                return Some(SlotRun::Some(start, word));
            }
        }
        None
    }
}

/// The number of valid slots out of 64 below which finding each costs less than passing all.
const FEW: u32 = 12;

#[inline(always)]
fn compact_kernel<T: Fixed>(values: &[T], validity: &Bitmap<'_>, out: &mut Vec<T>) {
    assert!(
        validity.len() == values.len(),
        "{} validity bits for {} values",
        validity.len(),
        values.len()
    );
    let mut used = out.len();
    // The spare slots let a mixed word be written without a branch per value.
    out.resize(used + validity.count_ones() + 64, T::ZERO);
    for piece in (Pieces { validity, word: 0 }) {
        match piece {
            SlotRun::All(range) => {
                out[used..used + range.len()].copy_from_slice(&values[range.clone()]);
                used += range.len();
            }
            SlotRun::Some(start, mut word) if word.count_ones() < FEW => {
                while word != 0 {
                    out[used] = values[start + word.trailing_zeros() as usize];
                    used += 1;
                    word &= word - 1;
                }
            }
            SlotRun::Some(start, word) => {
                let source = &values[start..values.len().min(start + 64)];
                let slots = &mut out[used..used + 64];
                let mut filled = 0;
                for (bit, value) in source.iter().enumerate() {
                    // At most 63 before the last: the mask only tells the compiler.
                    slots[filled & 63] = *value;
                    filled += (word >> bit & 1) as usize;
                }
                used += filled;
            }
        }
    }
    out.truncate(used);
}

dispatch! {
    /// Appends the values whose bit is set.
    ///
    /// # Panics
    ///
    /// If there are not as many bits as values.
    pub fn compact<T: Fixed>(values: &[T], validity: &Bitmap<'_>, out: &mut Vec<T>) = compact_kernel;
}

/// Appends the bits of `values` whose bit in `validity` is set, each as a byte of 0 or 1.
///
/// # Panics
///
/// If there are not as many validity bits as values.
pub fn compact_bits(values: &Bitmap<'_>, validity: &Bitmap<'_>, out: &mut Vec<u8>) {
    assert!(
        validity.len() == values.len(),
        "{} validity bits for {} values",
        validity.len(),
        values.len()
    );
    for index in 0..validity.word_count() {
        let (mut left, bits) = (validity.word(index), values.word(index));
        while left != 0 {
            out.push((bits >> left.trailing_zeros() & 1) as u8);
            left &= left - 1;
        }
    }
}

/// Appends the spans of the valid byte arrays. Bytes under null slots are skipped.
///
/// Returns the bytes from the first to the last span if the spans are contiguous.
///
/// # Panics
///
/// If there is not one more offset than bits.
pub fn compact_offsets<O: Copy + Into<i64>>(
    offsets: &[O],
    validity: &Bitmap<'_>,
    out: &mut Vec<ByteSpan>,
) -> Option<std::ops::Range<usize>> {
    assert!(
        validity.len() + 1 == offsets.len(),
        "{} validity bits for {} offsets",
        validity.len(),
        offsets.len()
    );
    let at = |index: usize| -> usize { offsets[index].into() as usize };
    let first = out.len();
    let (mut joined, mut end) = (true, None);
    let mut push = |row: usize| {
        let span = ByteSpan {
            start: at(row),
            end: at(row + 1),
        };
        joined &= end.is_none_or(|end| end == span.start);
        end = Some(span.end);
        out.push(span);
    };
    for piece in (Pieces { validity, word: 0 }) {
        match piece {
            SlotRun::All(range) => range.for_each(&mut push),
            SlotRun::Some(start, mut word) => {
                while word != 0 {
                    push(start + word.trailing_zeros() as usize);
                    word &= word - 1;
                }
            }
        }
    }
    let range = out
        .get(first)
        .map_or(0..0, |span| span.start..end.unwrap_or(span.start));
    joined.then_some(range)
}
