//! Byte arrays as packed lengths and joined bytes, with or without prefix compression.
//!
//! `Encodings.md`, "Delta-length byte array (`DELTA_LENGTH_BYTE_ARRAY` = 6)" and "Delta Strings (`DELTA_BYTE_ARRAY` =
//! 7)".

use crate::byte_arrays::{ByteArrays, Head, gather, head_of};
use crate::cpu::dispatch;
use crate::delta;

/// The buffers of the encoders, which the caller keeps from page to page.
#[derive(Debug, Default)]
pub struct LengthScratch {
    lengths: Vec<i32>,
    prefixes: Vec<i32>,
}

impl LengthScratch {
    /// The memory that is held, used or not.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        (self.lengths.capacity() + self.prefixes.capacity()) * size_of::<i32>()
    }
}

/// Appends a page of `DELTA_LENGTH_BYTE_ARRAY`, by the lengths of values and what appends their bytes.
pub fn encode_delta_length_byte_array(lengths: &[i32], joined: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    delta::encode(lengths, out);
    joined(out);
}

/// The number of bytes that two values have in common at their start.
#[inline(always)]
fn common_prefix((left, left_head): (&[u8], Head), (right, right_head): (&[u8], Head)) -> usize {
    let shortest = left.len().min(right.len());
    let different = left_head.bytes ^ right_head.bytes;
    if different != 0 || shortest <= 16 {
        // What is zero beyond the shorter value is not shared.
        return shortest.min(different.trailing_zeros() as usize / 8);
    }
    let mut at = 16;
    let (left, right) = (&left[..shortest], &right[..shortest]);
    for (left, right) in left[16..]
        .as_chunks::<8>()
        .0
        .iter()
        .zip(right[16..].as_chunks::<8>().0)
    {
        let different = u64::from_le_bytes(*left) ^ u64::from_le_bytes(*right);
        if different != 0 {
            return at + different.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + left[at..]
        .iter()
        .zip(&right[at..])
        .take_while(|(left, right)| left == right)
        .count()
}

#[inline(always)]
fn measure_kernel<V: ByteArrays>(values: &V, prefixes: &mut Vec<i32>, suffixes: &mut Vec<i32>) {
    let mut previous: (&[u8], Head) = (&[], Head { bytes: 0, len: 0 });
    for row in 0..values.len() {
        let value = (values.value(row), values.head(row));
        let common = common_prefix(previous, value);
        prefixes.push(common as i32);
        suffixes.push((value.0.len() - common) as i32);
        previous = value;
    }
}

dispatch! {
    fn measure<V: ByteArrays>(values: &V, prefixes: &mut Vec<i32>, suffixes: &mut Vec<i32>) = measure_kernel;
}

/// The values without their common prefixes.
struct Suffixes<'a, V> {
    values: &'a V,
    prefixes: &'a [i32],
}

impl<V: ByteArrays> ByteArrays for Suffixes<'_, V> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.prefixes.len()
    }

    #[inline(always)]
    fn value(&self, row: usize) -> &[u8] {
        &self.values.value(row)[self.prefixes[row] as usize..]
    }

    #[inline(always)]
    fn head(&self, row: usize) -> Head {
        let (head, prefix) = (self.values.head(row), self.prefixes[row]);
        let len = head.len - prefix as u32;
        if head.len <= 16 {
            // In two steps, as all sixteen bytes may be shared.
            Head {
                bytes: head.bytes >> (4 * prefix) >> (4 * prefix),
                len,
            }
        } else {
            let value = self.value(row);
            head_of(value, value.len())
        }
    }
}

#[inline(always)]
fn suffixes_kernel<V: ByteArrays>(values: &V, prefixes: &[i32], total: usize, out: &mut Vec<u8>) {
    gather(&Suffixes { values, prefixes }, total, out, |_| []);
}

dispatch! {
    fn append_suffixes<V: ByteArrays>(
        values: &V,
        prefixes: &[i32],
        total: usize,
        out: &mut Vec<u8>,
    ) = suffixes_kernel;
}

/// Appends a page of `DELTA_BYTE_ARRAY`.
pub fn encode_delta_byte_array<V: ByteArrays>(values: &V, scratch: &mut LengthScratch, out: &mut Vec<u8>) {
    let LengthScratch { lengths, prefixes } = scratch;
    lengths.clear();
    prefixes.clear();
    measure(values, prefixes, lengths);
    delta::encode(prefixes, out);
    delta::encode(lengths, out);
    let total = lengths.iter().map(|length| *length as usize).sum();
    append_suffixes(values, prefixes, total, out);
}
