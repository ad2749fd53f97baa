//! `DELTA_BINARY_PACKED`: differences, packed to as few bits as each 32 of them need.
//!
//! `Encodings.md`, "Delta Encoding (`DELTA_BINARY_PACKED` = 5)". All arithmetic wraps in the width of the column, as
//! the specification asks: the differences of i32 extremes fit into 32 bits, those of i64 into 64.

use crate::bitpack::{pack_u32_kernel, pack_u64_kernel, width_of};
use crate::cpu::dispatch;
use crate::sink::{grow, varint, zigzag};

/// Values in a block.
const BLOCK: usize = 128;
/// Miniblocks in a block.
const MINIBLOCKS: usize = 4;
/// Values in a miniblock.
const MINIBLOCK: usize = BLOCK / MINIBLOCKS;

mod sealed {
    pub trait Sealed: Copy + Default {
        /// The largest value of a difference.
        const MAX: Self;
        fn minus(self, other: Self) -> Self;
        fn least(self, other: Self) -> Self;
        fn wide(self) -> i64;
        /// The difference as an unsigned number.
        fn bits(self) -> u64;
        /// Packs differences that are already unsigned.
        fn pack(values: &[Self; super::MINIBLOCK], width: u8, out: &mut [u8]);
    }
}
use sealed::Sealed;

/// i32 or i64.
pub trait Delta: Sealed {}

macro_rules! delta {
    ($ty:ty, $unsigned:ty, $pack:path) => {
        impl Sealed for $ty {
            const MAX: Self = <$ty>::MAX;

            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[inline(always)]
            fn least(self, other: Self) -> Self {
                self.min(other)
            }

            #[inline(always)]
            fn wide(self) -> i64 {
                self.into()
            }

            #[inline(always)]
            fn bits(self) -> u64 {
                (self as $unsigned).into()
            }

            #[inline(always)]
            fn pack(values: &[Self; MINIBLOCK], width: u8, out: &mut [u8]) {
                $pack(values, width, out);
            }
        }
        impl Delta for $ty {}
    };
}
delta!(i32, u32, pack_i32);
delta!(i64, u64, pack_i64);

#[inline(always)]
fn pack_i32(values: &[i32; MINIBLOCK], width: u8, out: &mut [u8]) {
    pack_u32_kernel(&values.map(i32::cast_unsigned), width, out);
}

#[inline(always)]
fn pack_i64(values: &[i64; MINIBLOCK], width: u8, out: &mut [u8]) {
    if width <= 32 {
        // Most differences are small, and twice as many of them fit into a register.
        pack_u32_kernel(&values.map(|value| value as u32), width, out);
    } else {
        pack_u64_kernel(&values.map(i64::cast_unsigned), width, out);
    }
}

/// Appends a page of values.
pub fn encode<T: Delta>(values: &[T], out: &mut Vec<u8>) {
    header(values.len(), values.first().copied(), out);
    if let Some((first, rest)) = values.split_first() {
        blocks(*first, rest, out);
    }
}

fn header<T: Delta>(count: usize, first: Option<T>, out: &mut Vec<u8>) {
    varint(BLOCK as u64, out);
    varint(MINIBLOCKS as u64, out);
    varint(count as u64, out);
    varint(zigzag(first.unwrap_or_default().wide()), out);
}

/// Appends up to a block of differences, the first against `previous`.
#[inline(always)]
fn block<T: Delta>(previous: T, values: &[T], out: &mut Vec<u8>) {
    let mut deltas = [T::default(); BLOCK];
    let mut least = T::MAX;
    if let Some(values) = values.first_chunk::<BLOCK>() {
        deltas[0] = values[0].minus(previous);
        for index in 1..BLOCK {
            deltas[index] = values[index].minus(values[index - 1]);
        }
        for delta in &deltas {
            least = least.least(*delta);
        }
    } else {
        let mut previous = previous;
        for (delta, value) in deltas.iter_mut().zip(values) {
            *delta = value.minus(previous);
            least = least.least(*delta);
            previous = *value;
        }
    }
    // Of the last block only what holds values is stored: padding counts as the least difference.
    for delta in &mut deltas[..values.len()] {
        *delta = delta.minus(least);
    }
    let mut widths = [0; MINIBLOCKS];
    let (miniblocks, _) = deltas.as_chunks::<MINIBLOCK>();
    for (width, miniblock) in widths.iter_mut().zip(miniblocks) {
        // A miniblock without values has width 0 and no bytes.
        *width = width_of(miniblock.iter().fold(0, |bits, delta| bits | delta.bits()));
    }
    varint(zigzag(least.wide()), out);
    out.extend_from_slice(&widths);
    let size = |width: u8| usize::from(width) * (MINIBLOCK / 8);
    let mut at = grow(out, widths.iter().map(|width| size(*width)).sum());
    for (width, miniblock) in widths.iter().zip(miniblocks) {
        let end = at + size(*width);
        T::pack(miniblock, *width, &mut out[at..end]);
        at = end;
    }
}

#[inline(always)]
fn blocks_kernel<T: Delta>(previous: T, values: &[T], out: &mut Vec<u8>) {
    let mut previous = previous;
    for values in values.chunks(BLOCK) {
        block(previous, values, out);
        previous = values[values.len() - 1];
    }
}

dispatch! {
    fn blocks<T: Delta>(previous: T, values: &[T], out: &mut Vec<u8>) = blocks_kernel;
}
