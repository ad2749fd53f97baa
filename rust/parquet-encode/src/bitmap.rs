//! Bits packed least significant first, as Arrow keeps validity and booleans and as Parquet packs width 1.

use crate::cpu::dispatch;

/// A run of bits that may start anywhere in its first byte.
#[derive(Clone, Copy, Debug)]
pub struct Bitmap<'a> {
    /// Starts with the byte that holds the first bit; ends with the byte that holds the last.
    bytes: &'a [u8],
    /// Position of the first bit in the first byte, below 8.
    shift: usize,
    len: usize,
}

impl<'a> Bitmap<'a> {
    /// The `len` bits that start at bit `offset` of `bytes`; `None` if `bytes` is too short.
    #[must_use]
    pub fn new(bytes: &'a [u8], offset: usize, len: usize) -> Option<Self> {
        let end = offset.checked_add(len)?.div_ceil(8);
        let bytes = bytes.get(offset / 8..end.max(offset / 8))?;
        Some(Self {
            bytes,
            shift: offset % 8,
            len,
        })
    }

    /// The number of bits.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no bits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// `len` bits from bit `start` on.
    ///
    /// # Panics
    ///
    /// If they are not all there.
    #[must_use]
    pub fn slice(&self, start: usize, len: usize) -> Self {
        assert!(
            start <= self.len && len <= self.len - start,
            "bits {start}..+{len} of {}",
            self.len
        );
        let (first, shift) = ((self.shift + start) / 8, (self.shift + start) % 8);
        let end = first + (shift + len).div_ceil(8);
        Self {
            bytes: &self.bytes[first.min(end)..end],
            shift,
            len,
        }
    }

    /// Bit `index`.
    ///
    /// # Panics
    ///
    /// If there is no such bit.
    #[must_use]
    pub fn get(&self, index: usize) -> bool {
        assert!(index < self.len, "bit {index} of {}", self.len);
        let at = self.shift + index;
        self.bytes[at / 8] >> (at % 8) & 1 == 1
    }

    /// The number of set bits.
    #[must_use]
    pub fn count_ones(&self) -> usize {
        count_ones(self)
    }

    /// The number of 64-bit words that cover the bits.
    #[inline]
    pub(crate) fn word_count(&self) -> usize {
        self.len.div_ceil(64)
    }

    /// Bits `64 * index` and following; those past the end are zero.
    #[inline(always)]
    pub(crate) fn word(&self, index: usize) -> u64 {
        let at = index * 8;
        let left = self.len - index * 64;
        let word = if let Some(window) = self.bytes.get(at..at + 9) {
            let low = u64::from_le_bytes(array(window));
            // A shift by 64 is avoided by going in two steps.
            low >> self.shift | u64::from(window[8]) << 1 << (63 - self.shift)
        } else {
            self.last_word(at)
        };
        if left >= 64 {
            word
        } else {
            word & ((1 << left) - 1)
        }
    }

    #[inline(never)]
    fn last_word(&self, at: usize) -> u64 {
        let mut wide = [0u8; 16];
        let rest = &self.bytes[at..];
        wide[..rest.len()].copy_from_slice(rest);
        (u128::from_le_bytes(wide) >> self.shift) as u64
    }

    /// Appends the bits, shifted to start at a byte and padded with zeros to whole bytes.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        if self.len == 0 {
            return;
        }
        if self.shift == 0 {
            out.extend_from_slice(self.bytes);
        } else {
            append_shifted(self, out);
        }
        let spare = self.len % 8;
        if spare != 0
            && let Some(last) = out.last_mut()
        {
            *last &= (1 << spare) - 1;
        }
    }
}

/// The first `N` bytes of a slice that has at least that many.
#[inline(always)]
pub(crate) fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[..N]);
    array
}

#[inline(always)]
fn count_ones_kernel(bits: &Bitmap<'_>) -> usize {
    (0..bits.word_count())
        .map(|index| bits.word(index).count_ones() as usize)
        .sum()
}

dispatch! {
    fn count_ones(bits: &Bitmap<'_>) -> usize = count_ones_kernel;
}

#[inline(always)]
fn append_shifted_kernel(bits: &Bitmap<'_>, out: &mut Vec<u8>) {
    let size = bits.len.div_ceil(8);
    let start = out.len();
    out.resize(start + size, 0);
    let target = &mut out[start..];
    // All but the last byte have a successor to borrow bits from.
    let whole = bits.bytes.len() - 1;
    let shift = bits.shift as u32;
    for ((byte, low), high) in target.iter_mut().zip(&bits.bytes[..whole]).zip(&bits.bytes[1..]) {
        *byte = ((u16::from(*low) | u16::from(*high) << 8) >> shift) as u8;
    }
    if size > whole {
        target[whole] = bits.bytes[whole] >> shift;
    }
}

dispatch! {
    fn append_shifted(bits: &Bitmap<'_>, out: &mut Vec<u8>) = append_shifted_kernel;
}
