//! The hybrid of run lengths and bit-packing for dictionary indices, levels and booleans.
//!
//! `Encodings.md`, "Run Length Encoding / Bit-Packing Hybrid (RLE = 3)". Bit-packed runs hold a multiple of 8 values;
//! only the last run of a page may be padded. A width of 0 still gets its run header: parquet-java and Arrow C++ refuse
//! pages without one.

use crate::bitpack::{pack_u32_kernel, packed_size, width_of};
use crate::cpu::dispatch;
use crate::sink::{grow, varint, with_length_prefix};

/// The most values that are bit-packed under one header. The limit keeps the scanned values in the cache until they are
/// packed.
const LITERAL_VALUES: usize = 4096;

/// The longest run under one header. Readers keep the count in 31 bits.
const RUN_VALUES: usize = 1 << 30;

/// An unsigned integer that can be a level or an index.
pub trait Symbol:
    Copy + Eq + Into<u32> + std::ops::BitXor<Output = Self> + std::ops::BitOr<Output = Self> + Default
{
    /// A value that is known to fit.
    fn of(value: u32) -> Self;

    /// The values as 32-bit ones. `wide` has their length, and may be used as a buffer.
    fn widen<'a>(values: &'a [Self], wide: &'a mut [u32]) -> &'a [u32];
}

impl Symbol for u32 {
    #[inline(always)]
    fn of(value: u32) -> Self {
        value
    }

    #[inline(always)]
    fn widen<'a>(values: &'a [Self], _wide: &'a mut [u32]) -> &'a [u32] {
        values
    }
}

macro_rules! narrow_symbol {
    ($($ty:ty)+) => {$(
        impl Symbol for $ty {
            #[inline(always)]
            fn of(value: u32) -> Self {
                value as Self
            }

            #[inline(always)]
            fn widen<'a>(values: &'a [Self], wide: &'a mut [u32]) -> &'a [u32] {
                for (wide, narrow) in wide.iter_mut().zip(values) {
                    *wide = (*narrow).into();
                }
                wide
            }
        }
    )+};
}
narrow_symbol!(u8 u16);

/// Values of any type as 32-bit ones.
pub fn numbers<T: Symbol>(values: &[T]) -> impl Iterator<Item = u32> {
    values.iter().map(|value| (*value).into())
}

/// The width of values up to `max`.
#[must_use]
pub fn bit_width(max: u32) -> u8 {
    width_of(u64::from(max))
}

/// The least number of equal values, a multiple of 8, that takes fewer bytes as a run of its own. Such a run costs a
/// header and a value, and the bit-packed run after it costs another header.
fn least_run(width: u8) -> usize {
    let width = usize::from(width.max(1));
    8 * (width.div_ceil(8) + 4).div_ceil(width)
}

/// An upper bound of the bytes that [`encode`] appends for `count` values.
#[must_use]
pub fn size_bound(count: usize, width: u8) -> usize {
    packed_size(count, width) + 3 * count.div_ceil(LITERAL_VALUES) + count.div_ceil(8) + 8
}

/// Appends one run of `count` times `value`.
pub fn encode_run(value: u32, count: usize, width: u8, out: &mut Vec<u8>) {
    let mut left = count;
    while left > 0 {
        let piece = left.min(RUN_VALUES);
        varint((piece as u64) << 1, out);
        out.extend_from_slice(&value.to_le_bytes()[..usize::from(width).div_ceil(8).min(4)]);
        left -= piece;
    }
}

/// Appends the header of a bit-packed run of `groups` times 8 values.
pub(crate) fn literal_header(groups: usize, out: &mut Vec<u8>) {
    varint((groups as u64) << 1 | 1, out);
}

#[inline(always)]
fn literals<T: Symbol>(values: &[T], width: u8, out: &mut Vec<u8>) {
    let mut wide = [0; 256];
    for run in values.chunks(LITERAL_VALUES) {
        literal_header(run.len().div_ceil(8), out);
        let mut at = grow(out, packed_size(run.len(), width));
        for piece in run.chunks(wide.len()) {
            let end = at + packed_size(piece.len(), width);
            pack_u32_kernel(
                T::widen(piece, &mut wide[..piece.len()]),
                width,
                &mut out[at..end],
            );
            at = end;
        }
    }
}

#[inline(always)]
fn all_equal<T: Symbol>(values: &[T]) -> bool {
    let first = values.first().copied().unwrap_or_default();
    values
        .iter()
        .fold(T::default(), |seen, value| seen | (*value ^ first))
        == T::default()
}

/// The end of the run of `value` that extends at least to `from`.
#[inline(always)]
fn run_end<T: Symbol>(values: &[T], mut from: usize, value: T) -> usize {
    while let Some(group) = values.get(from..from + 32) {
        if group
            .iter()
            .fold(T::default(), |seen, other| seen | (*other ^ value))
            != T::default()
        {
            break;
        }
        from += 32;
    }
    from + values[from..].iter().take_while(|other| **other == value).count()
}

#[inline(always)]
fn encode_kernel<T: Symbol>(values: &[T], width: u8, out: &mut Vec<u8>) {
    let least = least_run(width);
    // Everything before `start` is written; everything before `at` is known to hold no run worth its header.
    let (mut start, mut at) = (0, 0);
    while let Some(group) = values[at..].first_chunk::<8>() {
        if !all_equal(group) {
            at += 8;
            continue;
        }
        let end = run_end(values, at + 8, group[0]);
        if width == 0 || end - at >= least {
            literals(&values[start..at], width, out);
            encode_run(group[0].into(), end - at, width, out);
            (start, at) = (end, end);
        } else {
            at += (end - at) / 8 * 8;
        }
    }
    let rest = &values[start..];
    if at == start && !rest.is_empty() && all_equal(rest) {
        encode_run(rest[0].into(), rest.len(), width, out);
    } else {
        literals(rest, width, out);
    }
}

dispatch! {
    /// Appends `values`, each below `2^width`, as runs. Nothing is appended for no values.
    pub fn encode<T: Symbol>(values: &[T], width: u8, out: &mut Vec<u8>) = encode_kernel;
}

/// Appends dictionary indices as a data page holds them: the width in a byte, then the runs.
///
/// `Encodings.md`, "Dictionary Encoding (`PLAIN_DICTIONARY` = 2 and `RLE_DICTIONARY` = 8)". The width is that of
/// [`index_width`] or more: a codec that counts bytes sees the indices as they are when each fills a byte or two.
pub fn encode_indices_in<T: Symbol>(indices: &[T], width: u8, out: &mut Vec<u8>) {
    out.push(width);
    encode(indices, width, out);
}

/// The width of indices into a dictionary of `entries` entries.
#[must_use]
pub fn index_width(entries: usize) -> u8 {
    width_of(entries.saturating_sub(1) as u64)
}

/// Appends `values` as runs, behind their size in four bytes: levels of V1 pages.
pub fn encode_with_length<T: Symbol>(values: &[T], width: u8, out: &mut Vec<u8>) {
    with_length_prefix(out, |out| encode(values, width, out));
}
