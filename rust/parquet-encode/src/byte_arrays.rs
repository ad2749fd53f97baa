//! Sources of byte arrays: Arrow's offsets or views, the values left over when nulls are skipped, or plain slices.
//!
//! None of these sources has nulls; `compact` makes a source without them.

use crate::bitmap::array;
use crate::sink::grow;

/// Up to 16 bytes of a value, zero-padded, the first byte least significant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The bytes.
    pub bytes: u128,
    /// The length of the whole value.
    pub len: u32,
}

/// Masks for the first 0 to 16 bytes, in two halves: the hash wants them in general registers.
static MASKS: [[u64; 2]; 17] = {
    let mut masks = [[u64::MAX; 2]; 17];
    let mut len = 0;
    while len < 16 {
        let mask = (1u128 << (8 * len)) - 1;
        masks[len] = [mask as u64, (mask >> 64) as u64];
        len += 1;
    }
    masks
};

/// The first `len` bytes of sixteen, or all.
#[inline(always)]
fn masked(low: u64, high: u64, len: usize) -> u128 {
    let mask = &MASKS[len.min(16)];
    u128::from(low & mask[0]) | u128::from(high & mask[1]) << 64
}

/// The head of the value of `len` bytes at the start of `window`. Bytes behind the value are masked out.
#[inline(always)]
pub(crate) fn head_of(window: &[u8], len: usize) -> Head {
    let bytes = if let Some(bytes) = window.first_chunk::<16>() {
        masked(
            u64::from_le_bytes(array(&bytes[..8])),
            u64::from_le_bytes(array(&bytes[8..])),
            len,
        )
    } else {
        short_head(&window[..len])
    };
    Head {
        bytes,
        len: len as u32,
    }
}

#[inline(never)]
fn short_head(value: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    bytes[..value.len()].copy_from_slice(value);
    u128::from_le_bytes(bytes)
}

/// A column of byte arrays without nulls, each shorter than 4 GiB.
///
/// Implementations panic if a row, or the place that it refers to, does not exist.
pub trait ByteArrays {
    /// The number of values.
    fn len(&self) -> usize;

    /// The bytes of a value.
    fn value(&self, row: usize) -> &[u8];

    /// Returns true if there are no values.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The start of a value.
    #[inline(always)]
    fn head(&self, row: usize) -> Head {
        let value = self.value(row);
        head_of(value, value.len())
    }

    /// The starts of the values from row `start` on.
    #[inline(always)]
    fn heads(&self, start: usize, heads: &mut [Head]) {
        for (at, head) in heads.iter_mut().enumerate() {
            *head = self.head(start + at);
        }
    }

    /// The length of a value.
    #[inline(always)]
    fn value_len(&self, row: usize) -> usize {
        self.value(row).len()
    }

    /// Appends the lengths of all values.
    #[inline(always)]
    fn lengths(&self, out: &mut Vec<i32>) {
        out.extend((0..self.len()).map(|row| self.value_len(row) as i32));
    }

    /// The bytes of rows `start..end`, if they are contiguous.
    fn joined(&self, _start: usize, _end: usize) -> Option<&[u8]> {
        None
    }

    /// The size of all values.
    fn total_bytes(&self) -> usize {
        self.joined(0, self.len()).map_or_else(
            || (0..self.len()).map(|row| self.value_len(row)).sum(),
            <[u8]>::len,
        )
    }
}

/// Arrow's `Binary`, `Utf8` and their large forms: one offset more than there are values.
#[derive(Clone, Copy, Debug)]
pub struct Offsets<'a, O> {
    /// The start of each value in `data`, and the end of the last. The first need not be 0.
    pub offsets: &'a [O],
    /// The bytes.
    pub data: &'a [u8],
}

impl<O: Copy + Into<i64>> Offsets<'_, O> {
    #[inline(always)]
    fn at(&self, row: usize) -> usize {
        self.offsets[row].into() as usize
    }
}

impl<O: Copy + Into<i64>> ByteArrays for Offsets<'_, O> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    #[inline(always)]
    fn value(&self, row: usize) -> &[u8] {
        &self.data[self.at(row)..self.at(row + 1)]
    }

    #[inline(always)]
    fn head(&self, row: usize) -> Head {
        let start = self.at(row);
        head_of(&self.data[start..], self.at(row + 1) - start)
    }

    #[inline(always)]
    fn heads(&self, start: usize, heads: &mut [Head]) {
        let offsets = &self.offsets[start..=start + heads.len()];
        let mut from = offsets[0].into() as usize;
        for (head, to) in heads.iter_mut().zip(&offsets[1..]) {
            let to = (*to).into() as usize;
            *head = head_of(&self.data[from..], to - from);
            from = to;
        }
    }

    #[inline(always)]
    fn value_len(&self, row: usize) -> usize {
        self.at(row + 1) - self.at(row)
    }

    #[inline(always)]
    fn lengths(&self, out: &mut Vec<i32>) {
        if let Some((_, ends)) = self.offsets.split_first() {
            out.extend(
                self.offsets
                    .iter()
                    .zip(ends)
                    .map(|(start, end)| ((*end).into() - (*start).into()) as i32),
            );
        }
    }

    fn joined(&self, start: usize, end: usize) -> Option<&[u8]> {
        if start >= end {
            return Some(&[]);
        }
        Some(&self.data[self.at(start)..self.at(end)])
    }
}

/// The place of a value in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSpan {
    /// The first byte.
    pub start: usize,
    /// Behind the last byte.
    pub end: usize,
}

/// Values at any places of one buffer.
#[derive(Clone, Copy, Debug)]
pub struct Spans<'a> {
    /// The places.
    pub spans: &'a [ByteSpan],
    /// The buffer.
    pub data: &'a [u8],
    /// True if each span starts where the one before it ends.
    pub joined: bool,
}

impl ByteArrays for Spans<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.spans.len()
    }

    #[inline(always)]
    fn value(&self, row: usize) -> &[u8] {
        let ByteSpan { start, end } = self.spans[row];
        &self.data[start..end]
    }

    #[inline(always)]
    fn head(&self, row: usize) -> Head {
        let ByteSpan { start, end } = self.spans[row];
        head_of(&self.data[start..], end - start)
    }

    #[inline(always)]
    fn value_len(&self, row: usize) -> usize {
        let ByteSpan { start, end } = self.spans[row];
        end - start
    }

    fn joined(&self, start: usize, end: usize) -> Option<&[u8]> {
        if start >= end {
            return Some(&[]);
        }
        self.joined
            .then(|| &self.data[self.spans[start].start..self.spans[end - 1].end])
    }
}

/// Arrow's `BinaryView` and `Utf8View`.
#[derive(Clone, Copy, Debug)]
pub struct Views<'a> {
    /// Arrow's views: the length in the lowest 32 bits, then up to 12 bytes of the value, or 4 bytes of it, a buffer
    /// and an offset.
    pub views: &'a [u128],
    /// The buffers that long values lie in.
    pub buffers: &'a [&'a [u8]],
}

impl Views<'_> {
    #[inline(always)]
    fn window(&self, view: u128) -> &[u8] {
        let (buffer, offset) = ((view >> 64) as u32 as usize, (view >> 96) as u32 as usize);
        &self.buffers[buffer][offset..]
    }
}

impl ByteArrays for Views<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.views.len()
    }

    #[inline(always)]
    fn value(&self, row: usize) -> &[u8] {
        let view = &self.views[row];
        let len = *view as u32 as usize;
        if len <= 12 {
            &crate::fixed::as_bytes(std::slice::from_ref(view))[4..4 + len]
        } else {
            &self.window(*view)[..len]
        }
    }

    #[inline(always)]
    fn head(&self, row: usize) -> Head {
        let view = self.views[row];
        let len = view as u32 as usize;
        if len <= 12 {
            Head {
                bytes: masked((view >> 32) as u64, (view >> 96) as u64, len),
                len: len as u32,
            }
        } else {
            head_of(self.window(view), len)
        }
    }

    #[inline(always)]
    fn value_len(&self, row: usize) -> usize {
        self.views[row] as u32 as usize
    }
}

/// Arrow's `FixedSizeBinary`, and decimals that are stored as bytes.
#[derive(Clone, Copy, Debug)]
pub struct FixedSize<'a> {
    /// The values, one behind the other.
    pub data: &'a [u8],
    /// The size of each.
    pub width: usize,
    /// The number of values, which cannot be computed from the data when the width is 0.
    pub count: usize,
}

impl ByteArrays for FixedSize<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.count
    }

    #[inline(always)]
    fn value(&self, row: usize) -> &[u8] {
        &self.data[row * self.width..(row + 1) * self.width]
    }

    #[inline(always)]
    fn head(&self, row: usize) -> Head {
        head_of(&self.data[row * self.width..], self.width)
    }

    #[inline(always)]
    fn value_len(&self, _row: usize) -> usize {
        self.width
    }

    fn joined(&self, start: usize, end: usize) -> Option<&[u8]> {
        Some(&self.data[start * self.width..end * self.width])
    }
}

/// Values in separate allocations.
impl<B: AsRef<[u8]>> ByteArrays for Vec<B> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.as_slice().len()
    }

    #[inline(always)]
    fn value(&self, row: usize) -> &[u8] {
        self[row].as_ref()
    }
}

/// Rows `start..start + count` of another source.
#[derive(Debug)]
pub struct RowRange<'a, V: ?Sized> {
    /// The source.
    pub values: &'a V,
    /// Its first row.
    pub start: usize,
    /// The number of rows.
    pub count: usize,
}

impl<V: ByteArrays + ?Sized> ByteArrays for RowRange<'_, V> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.count
    }

    #[inline(always)]
    fn value(&self, row: usize) -> &[u8] {
        self.values.value(self.start + row)
    }

    #[inline(always)]
    fn head(&self, row: usize) -> Head {
        self.values.head(self.start + row)
    }

    #[inline(always)]
    fn value_len(&self, row: usize) -> usize {
        self.values.value_len(self.start + row)
    }

    #[inline(always)]
    fn heads(&self, start: usize, heads: &mut [Head]) {
        self.values.heads(self.start + start, heads);
    }

    fn joined(&self, start: usize, end: usize) -> Option<&[u8]> {
        self.values.joined(self.start + start, self.start + end)
    }
}

/// Appends the values, `total` bytes in all, each behind the prefix that `before` makes from its length.
///
/// Values that fit into a head are written as 16 bytes, and the next value overwrites those that are too many. This
/// costs less than a copy whose length no branch can predict.
#[inline(always)]
pub(crate) fn gather<V: ByteArrays + ?Sized, const N: usize>(
    values: &V,
    total: usize,
    out: &mut Vec<u8>,
    before: impl Fn(u32) -> [u8; N],
) {
    let mut at = grow(out, total + values.len() * N + 16);
    for row in 0..values.len() {
        let head = values.head(row);
        out[at..at + N].copy_from_slice(&before(head.len));
        at += N;
        let len = head.len as usize;
        out[at..at + 16].copy_from_slice(&head.bytes.to_le_bytes());
        if len > 16 {
            out[at..at + len].copy_from_slice(values.value(row));
        }
        at += len;
    }
    out.truncate(at);
}
