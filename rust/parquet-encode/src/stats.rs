//! Least and greatest values, and bounds that are short enough to be stored.
//!
//! `parquet.thrift`, `Statistics` and `ColumnOrder`: `TYPE_ORDER`, the order of each type. The values given here
//! contain no nulls. `None` means that no statistics may be written.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::bitmap::Bitmap;
use crate::byte_arrays::ByteArrays;
use crate::cpu::dispatch;
use crate::fixed::as_bytes;

/// The least and the greatest of some values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinMax<T> {
    /// No value is less.
    pub min: T,
    /// No value is greater.
    pub max: T,
}

/// Merges two ranges.
pub fn merge<T: Ord + Copy>(left: Option<MinMax<T>>, right: Option<MinMax<T>>) -> Option<MinMax<T>> {
    match (left, right) {
        (Some(left), Some(right)) => Some(MinMax {
            min: left.min.min(right.min),
            max: left.max.max(right.max),
        }),
        (one, None) | (None, one) => one,
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A signed or unsigned integer. The type defines the order, which for unsigned columns is not that of the signed types
/// in which Parquet stores them.
pub trait Integer: Ord + Copy + sealed::Sealed {}
macro_rules! integer {
    ($($ty:ty)+) => {$(
        impl sealed::Sealed for $ty {}
        impl Integer for $ty {}
    )+};
}
integer!(i8 i16 i32 i64 i128 u8 u16 u32 u64);

#[inline(always)]
fn integers_kernel<T: Integer>(values: &[T]) -> Option<MinMax<T>> {
    let first = *values.first()?;
    let (min, max) = values.iter().fold((first, first), |(min, max), value| {
        (min.min(*value), max.max(*value))
    });
    Some(MinMax { min, max })
}

dispatch! {
    /// The range of integers.
    pub fn integers<T: Integer>(values: &[T]) -> Option<MinMax<T>> = integers_kernel;
}

#[inline(always)]
fn digits_kernel(values: &[i128]) -> u128 {
    let (mut low, mut high) = (0, 0);
    for value in as_bytes(values).as_chunks::<16>().0 {
        let halves = value.as_chunks::<8>().0;
        let (first, second) = (u64::from_le_bytes(halves[0]), u64::from_le_bytes(halves[1]));
        let sign = (second as i64 >> 63) as u64;
        low |= first ^ sign;
        high |= second ^ sign;
    }
    u128::from(high) << 64 | u128::from(low)
}

dispatch! {
    /// The bits in which any of the values differs from its sign. The magnitude of every value is below the next power
    /// of two.
    pub fn digits(values: &[i128]) -> u128 = digits_kernel;
}

/// The range of floats, and how many of them are NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floats<T> {
    /// `None` without values, and where one of them is NaN. Engines that sort NaN above all numbers trust bounds, so
    /// that bounds which leave it out would hide it from them.
    pub range: Option<MinMax<T>>,
    /// Values that are NaN.
    pub nans: u64,
}

/// f32 or f64.
pub trait Float: Copy + PartialOrd + sealed::Sealed {
    /// Counts NaN, in as many bits as a value has: both then fill vectors alike.
    type Count: Copy + Default + Into<u64> + From<bool> + std::ops::AddAssign;
    /// Above all.
    const INFINITY: Self;
    /// Below all.
    const NEG_INFINITY: Self;
    /// The zero that counts as less.
    const NEG_ZERO: Self;
    /// The zero that counts as greater.
    const ZERO: Self;
    /// Returns true for NaN.
    fn is_nan(self) -> bool;
}
macro_rules! float {
    ($($ty:ident $count:ty),+) => {$(
        impl sealed::Sealed for $ty {}
        impl Float for $ty {
            type Count = $count;
            const INFINITY: Self = $ty::INFINITY;
            const NEG_INFINITY: Self = $ty::NEG_INFINITY;
            const NEG_ZERO: Self = -0.0;
            const ZERO: Self = 0.0;

            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }
        }
    )+};
}
float!(f32 u32, f64 u64);

/// The number of values that are compared side by side: four registers of f64 for each end.
const LANES: usize = 16;

#[inline(always)]
fn floats_kernel<T: Float>(values: &[T]) -> Floats<T> {
    // Written so that a NaN, which is neither less nor greater than anything, changes nothing.
    let least = |value: T, than: T| if value < than { value } else { than };
    let most = |value: T, than: T| if value > than { value } else { than };
    let (mut mins, mut maxes) = ([T::INFINITY; LANES], [T::NEG_INFINITY; LANES]);
    let mut nans = [T::Count::default(); LANES];
    let (groups, rest) = values.as_chunks::<LANES>();
    for group in groups {
        for lane in 0..LANES {
            mins[lane] = least(group[lane], mins[lane]);
            maxes[lane] = most(group[lane], maxes[lane]);
            nans[lane] += group[lane].is_nan().into();
        }
    }
    let nans = nans.iter().map(|count| (*count).into()).sum::<u64>()
        + rest.iter().map(|value| u64::from(value.is_nan())).sum::<u64>();
    let min = mins
        .iter()
        .chain(rest)
        .fold(T::INFINITY, |min, value| least(*value, min));
    let max = maxes
        .iter()
        .chain(rest)
        .fold(T::NEG_INFINITY, |max, value| most(*value, max));
    // Without values the ends are still where they started.
    let range = (nans == 0 && min <= max).then(|| MinMax {
        min: if min == T::ZERO { T::NEG_ZERO } else { min },
        max: if max == T::ZERO { T::ZERO } else { max },
    });
    Floats { range, nans }
}

dispatch! {
    /// The range of floats and the count of NaN. A zero at an end gets the sign that includes both zeros.
    ///
    /// `parquet.thrift`, `ColumnOrder`, the rules for FLOAT and DOUBLE, and `Statistics.nan_count`.
    pub fn floats<T: Float>(values: &[T]) -> Floats<T> = floats_kernel;
}

/// The sign of a half float.
const HALF_SIGN: u16 = 0x8000;

/// Returns true if these are the bits of a half float that is NaN.
#[must_use]
pub fn is_half_nan(bits: u16) -> bool {
    const INFINITY: u16 = 0x7c00;
    bits & !HALF_SIGN > INFINITY
}

/// The range of half floats, given as their bits, and the count of NaN, by the rules of [`floats`].
#[must_use]
pub fn half_floats(values: &[u16]) -> Floats<u16> {
    const SIGN: u16 = HALF_SIGN;
    let nans = values.iter().map(|bits| u64::from(is_half_nan(*bits))).sum();
    // Ordered like the numbers; -0 comes just before +0.
    let order = |bits: u16| if bits & SIGN == 0 { bits | SIGN } else { !bits };
    let keys = values.iter().map(|bits| order(*bits));
    let range = keys.fold(None, |range, key| {
        merge(range, Some(MinMax { min: key, max: key }))
    });
    let bits = |key: u16| if key & SIGN == 0 { !key } else { key & !SIGN };
    let range = range.filter(|_| nans == 0).map(|range| {
        let (min, max) = (bits(range.min), bits(range.max));
        MinMax {
            min: if min == 0 { SIGN } else { min },
            max: if max == SIGN { 0 } else { max },
        }
    });
    Floats { range, nans }
}

/// The range of booleans.
#[must_use]
pub fn bools(values: &Bitmap<'_>) -> Option<MinMax<bool>> {
    let ones = values.count_ones();
    (!values.is_empty()).then(|| MinMax {
        min: ones == values.len(),
        max: ones > 0,
    })
}

/// The rows with the least and the greatest value, ordered by unsigned bytes after `flip` was applied to the first
/// byte.
#[inline(always)]
fn extreme_rows<V: ByteArrays + ?Sized>(values: &V, flip: u8) -> Option<(usize, usize)> {
    if values.is_empty() {
        return None;
    }
    let flip = u128::from(flip) << 120;
    let key = |row: usize| {
        let head = values.head(row);
        (head.bytes.swap_bytes() ^ flip, head.len)
    };
    let (mut min, mut max) = (0, 0);
    let (mut min_key, mut max_key) = (key(0), key(0));
    for row in 1..values.len() {
        let (head, len) = key(row);
        // A short value with the head and the length of the other is the other.
        let new = |other: (u128, u32)| head != other.0 || len != other.1 || len > 16;
        if head <= min_key.0 && new(min_key) && (head < min_key.0 || values.value(row) < values.value(min)) {
            (min, min_key) = (row, (head, len));
        }
        if head >= max_key.0 && new(max_key) && (head > max_key.0 || values.value(row) > values.value(max)) {
            (max, max_key) = (row, (head, len));
        }
    }
    Some((min, max))
}

#[inline(always)]
fn byte_arrays_rows<V: ByteArrays>(values: &V) -> Option<(usize, usize)> {
    extreme_rows(values, 0)
}

dispatch! {
    fn byte_arrays_dispatched<V: ByteArrays>(values: &V) -> Option<(usize, usize)> = byte_arrays_rows;
}

/// The range of strings and binary values: unsigned bytes, shorter before longer.
pub fn byte_arrays<V: ByteArrays>(values: &V) -> Option<MinMax<&[u8]>> {
    let (min, max) = byte_arrays_dispatched(values)?;
    Some(MinMax {
        min: values.value(min),
        max: values.value(max),
    })
}

/// The range of decimals that are stored as big-endian two's complement of one width.
pub fn big_endian_decimals<V: ByteArrays>(values: &V) -> Option<MinMax<&[u8]>> {
    // With the sign bit flipped, two's complement has the order of unsigned bytes. Values with equal heads have the
    // same sign, so that what follows compares as it is.
    let (min, max) = extreme_rows(values, 0x80)?;
    Some(MinMax {
        min: values.value(min),
        max: values.value(max),
    })
}

/// Compares two decimals in big-endian two's complement of one width.
#[must_use]
pub fn compare_decimals(left: &[u8], right: &[u8]) -> Ordering {
    let flipped = |value: &[u8]| value.first().map(|first| first ^ 0x80);
    flipped(left).cmp(&flipped(right)).then_with(|| left.cmp(right))
}

/// Rows or dictionary entries picked by index: the used entries of a page as a source of their own.
#[derive(Clone, Copy, Debug)]
pub struct Picked<'a, V> {
    /// The source.
    pub values: &'a V,
    /// Its rows.
    pub rows: &'a [u32],
}

impl<V: ByteArrays> ByteArrays for Picked<'_, V> {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn value(&self, row: usize) -> &[u8] {
        self.values.value(self.rows[row] as usize)
    }

    fn head(&self, row: usize) -> crate::byte_arrays::Head {
        self.values.head(self.rows[row] as usize)
    }
}

/// A bound of some values, not necessarily one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound<'a> {
    /// The bytes.
    pub bytes: Cow<'a, [u8]>,
    /// True if it is the value itself: `is_min_value_exact`, `is_max_value_exact`.
    pub exact: bool,
}

/// The kind of a byte array's content, which decides where it may be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteContent {
    /// Characters: a bound is cut between them. What is not valid UTF-8 is treated as bytes.
    Utf8,
    /// Bytes.
    Binary,
}

/// The value, or its first bytes if it is longer than `limit`. The result is not greater than the value.
#[must_use]
pub fn lower_bound(value: &[u8], limit: usize, content: ByteContent) -> Bound<'_> {
    if value.len() <= limit {
        return Bound {
            bytes: value.into(),
            exact: true,
        };
    }
    let cut = match (content, std::str::from_utf8(value)) {
        (ByteContent::Utf8, Ok(text)) => text.floor_char_boundary_at(limit),
        _ => limit,
    };
    Bound {
        bytes: value[..cut].into(),
        exact: false,
    }
}

/// The value, or at most `limit` bytes that are greater than every value with the same prefix.
///
/// `None` if there are no such bytes. The greatest value must then be stored whole, or not at all.
#[must_use]
pub fn upper_bound(value: &[u8], limit: usize, content: ByteContent) -> Option<Bound<'_>> {
    if value.len() <= limit {
        return Some(Bound {
            bytes: value.into(),
            exact: true,
        });
    }
    let bytes = match (content, std::str::from_utf8(value)) {
        (ByteContent::Utf8, Ok(text)) => next_text(&text[..text.floor_char_boundary_at(limit)], limit)?,
        _ => next_bytes(&value[..limit])?,
    };
    Some(Bound {
        bytes: bytes.into(),
        exact: false,
    })
}

trait CharBoundary {
    fn floor_char_boundary_at(&self, index: usize) -> usize;
}

impl CharBoundary for str {
    /// The last character boundary at or before `index`.
    fn floor_char_boundary_at(&self, index: usize) -> usize {
        (0..=index.min(self.len()))
            .rev()
            .find(|at| self.is_char_boundary(*at))
            .unwrap_or(0)
    }
}

/// The least byte string that is no longer than `prefix` and greater than all that start with it.
fn next_bytes(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut next = prefix[..=last].to_vec();
    next[last] += 1;
    Some(next)
}

/// The same for text: increments the last character that has a successor which fits, and cuts the text behind it.
fn next_text(prefix: &str, limit: usize) -> Option<Vec<u8>> {
    for (at, last) in prefix.char_indices().rev() {
        // Steps over the surrogates, which are no characters.
        let successor = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
        if let Some(successor) = successor
            && at + successor.len_utf8() <= limit
        {
            let mut next = prefix[..at].to_owned();
            next.push(successor);
            return Some(next.into_bytes());
        }
    }
    None
}
