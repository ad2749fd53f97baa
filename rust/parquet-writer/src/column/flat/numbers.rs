//! The values of a page of integers or floats.

use std::cmp::Ordering;

use parquet::basic::BoundaryOrder;
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet_encode::dictionary::{Dictionary, NumberDictionary, UsedEntries, Word};
use parquet_encode::each_width;
use parquet_encode::fixed::as_bytes;
use parquet_encode::page_header::Encoding;
use parquet_encode::rle::numbers;
use parquet_encode::{byte_stream_split, delta, plain, stats};

use super::dictionary::DictionaryEncoder;
use super::piece::Piece;
use super::ranges::Ranges;
use super::source::RunValues;
use super::values::{PageFacts, ValueEncoder};
use crate::error::{Result, WriteError};

/// Values of a page whose deltas stand for those of all.
const DELTAS_TRIED: usize = 1024;

/// The order of a column's integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IntegerOrder {
    Signed,
    Unsigned,
}

/// One of Parquet's numbers.
pub(super) trait ParquetNumber: Word + std::fmt::Debug + Send + Sync {
    /// The values of a run, and those of its dictionary if it has one.
    fn slots<'a>(values: &'a RunValues<'a>) -> Option<&'a [Self]>;
    /// Least and greatest, `None` without values and where one is NaN; and how many are NaN.
    fn range(values: &[Self], order: IntegerOrder) -> (Option<(Self, Self)>, u64);
    /// Returns true for NaN; integers have none.
    fn is_nan(self) -> bool;
    /// The order of values, which are not NaN.
    fn compare(order: IntegerOrder) -> fn(&Self, &Self) -> Ordering;
    /// Appends a page of deltas; returns `false` for floats, which have none.
    fn deltas(values: &[Self], out: &mut Vec<u8>) -> bool;
    /// Statistics of a chunk with so many nulls and so many NaN.
    fn statistics(range: Option<(Self, Self)>, nulls: u64, nans: u64) -> Statistics;
}

macro_rules! integer {
    ($ty:ty, $unsigned:ty, $kind:ident, $statistics:ident) => {
        impl ParquetNumber for $ty {
            fn slots<'a>(values: &'a RunValues<'a>) -> Option<&'a [Self]> {
                match values {
                    RunValues::$kind(slots) => Some(slots),
                    _ => None,
                }
            }

            fn range(values: &[Self], order: IntegerOrder) -> (Option<(Self, Self)>, u64) {
                if order == IntegerOrder::Signed {
                    let range = stats::integers(values).map(|range| (range.min, range.max));
                    return (range, 0);
                }
                let range = values.first().map(|first| {
                    let first = first.cast_unsigned();
                    let (min, max) = values.iter().fold((first, first), |(min, max), value| {
                        (
                            min.min(value.cast_unsigned()),
                            max.max(value.cast_unsigned()),
                        )
                    });
                    (min.cast_signed(), max.cast_signed())
                });
                (range, 0)
            }

            fn is_nan(self) -> bool {
                false
            }

            fn compare(order: IntegerOrder) -> fn(&Self, &Self) -> Ordering {
                match order {
                    IntegerOrder::Signed => Self::cmp,
                    IntegerOrder::Unsigned => |left, right| left.cast_unsigned().cmp(&right.cast_unsigned()),
                }
            }

            fn deltas(values: &[Self], out: &mut Vec<u8>) -> bool {
                delta::encode(values, out);
                true
            }

            fn statistics(range: Option<(Self, Self)>, nulls: u64, _: u64) -> Statistics {
                let (min, max) = range.unzip();
                Statistics::$statistics(ValueStatistics::new(min, max, None, Some(nulls), false))
            }
        }
    };
}
integer!(i32, u32, I32, Int32);
integer!(i64, u64, I64, Int64);

macro_rules! float {
    ($ty:ty, $kind:ident, $statistics:ident) => {
        impl ParquetNumber for $ty {
            fn slots<'a>(values: &'a RunValues<'a>) -> Option<&'a [Self]> {
                match values {
                    RunValues::$kind(slots) => Some(slots),
                    _ => None,
                }
            }

            fn range(values: &[Self], _: IntegerOrder) -> (Option<(Self, Self)>, u64) {
                let stats::Floats { range, nans } = stats::floats(values);
                (range.map(|range| (range.min, range.max)), nans)
            }

            fn is_nan(self) -> bool {
                self.is_nan()
            }

            fn compare(_: IntegerOrder) -> fn(&Self, &Self) -> Ordering {
                Self::total_cmp
            }

            fn deltas(_: &[Self], _: &mut Vec<u8>) -> bool {
                false
            }

            fn statistics(range: Option<(Self, Self)>, nulls: u64, nans: u64) -> Statistics {
                let (min, max) = range.unzip();
                let statistics =
                    ValueStatistics::new(min, max, None, Some(nulls), false).with_nan_count(Some(nans));
                Statistics::$statistics(statistics)
            }
        }
    };
}
float!(f32, F32, Float);
float!(f64, F64, Double);

/// The range of the first values of a page that go through a dictionary.
///
/// Behind a dictionary of many entries it costs less to look at the values as they come than to find the entries that
/// the page refers to.
#[derive(Debug)]
struct Noted<T> {
    /// The values that were looked at; `None` once one of them was dropped.
    values: Option<usize>,
    range: Option<(T, T)>,
    nans: u64,
}

impl<T> Default for Noted<T> {
    fn default() -> Self {
        Self {
            values: Some(0),
            range: None,
            nans: 0,
        }
    }
}

impl<T: ParquetNumber> Noted<T> {
    /// Notes values that follow the first `before` of the page; values that follow others are not noted.
    fn add(&mut self, before: usize, values: &[T], order: IntegerOrder) {
        if self.values != Some(before) {
            return;
        }
        let (range, nans) = T::range(values, order);
        let less = |left: &T, right: &T| T::compare(order)(left, right).is_lt();
        self.range = match (self.range, range) {
            (Some((least, most)), Some((min, max))) => Some((
                if less(&min, &least) { min } else { least },
                if less(&most, &max) { max } else { most },
            )),
            (known, new) => known.or(new),
        };
        self.nans += nans;
        self.values = Some(before + values.len());
    }

    /// Least and greatest of the page's `count` values, and its NaN; `None` if not all of them were noted.
    fn of(&self, count: usize) -> Option<(Option<(T, T)>, u64)> {
        let range = self.range.filter(|_| self.nans == 0);
        (self.values == Some(count)).then_some((range, self.nans))
    }
}

/// The dictionary of numbers and its indices.
type IndexedNumbers<T> = DictionaryEncoder<NumberDictionary<T>>;

/// Collects the values of a page that have no dictionary, unchanged, and knows the range of all.
#[derive(Debug)]
pub(super) struct Numbers<T> {
    order: IntegerOrder,
    encoding: Encoding,
    values: Vec<T>,
    ranges: Ranges<T>,
    /// NaN in the pages that ended.
    nans: u64,
    /// The range of the page's values, noted as they came.
    noted: Noted<T>,
    rows: Vec<u32>,
    valid: Vec<T>,
}

impl<T: ParquetNumber> Numbers<T> {
    pub fn new(order: IntegerOrder, encoding: Encoding) -> Self {
        Self {
            order,
            encoding,
            values: Vec::new(),
            ranges: Ranges::new(T::compare(order)),
            nans: 0,
            noted: Noted::default(),
            rows: Vec::new(),
            valid: Vec::new(),
        }
    }

    /// The number of values of the page.
    fn count(&self, indexed: Option<&IndexedNumbers<T>>) -> usize {
        indexed.map_or(self.values.len(), |indexed| indexed.indices.len())
    }

    fn append_slots(
        &mut self,
        slots: &[T],
        piece: Piece<'_>,
        indexed: Option<&mut IndexedNumbers<T>>,
    ) -> usize {
        let valid = piece.numbers(slots, &mut self.valid);
        if let Some(indexed) = indexed {
            let before = indexed.indices.len();
            let taken = indexed.dictionary.encode(valid, &mut indexed.indices);
            if indexed.dictionary.len() > UsedEntries::FEW {
                self.noted.add(before, &valid[..taken], self.order);
            }
            return taken;
        }
        self.values.extend_from_slice(valid);
        valid.len()
    }

    fn append_keyed(&mut self, values: &[T], indexed: Option<&mut IndexedNumbers<T>>) -> usize {
        let indexed = match indexed {
            Some(DictionaryEncoder {
                dictionary,
                indices,
                keys,
                mapped: true,
                ..
            }) => return dictionary.encode_keys(&self.rows, values, keys, indices),
            indexed => indexed,
        };
        let mut named = std::mem::take(&mut self.valid);
        named.clear();
        named.extend(self.rows.iter().map(|row| values[*row as usize]));
        let all = Piece {
            start: 0,
            rows: named.len(),
            validity: None,
        };
        let taken = self.append_slots(&named, all, indexed);
        self.valid = named;
        taken
    }

    /// Least and greatest of the page, and its NaN, as [`ParquetNumber::range`] has them.
    fn page_range(&mut self, indexed: Option<&mut IndexedNumbers<T>>) -> (Option<(T, T)>, u64) {
        let Some(indexed) = indexed else {
            return T::range(&self.values, self.order);
        };
        if let Some(noted) = self.noted.of(indexed.indices.len()) {
            return noted;
        }
        let (dictionary, used) = indexed.used();
        let entries = dictionary.entries();
        self.valid.clear();
        self.valid
            .extend(used.iter().map(|index| entries[*index as usize]));
        let (range, nans) = T::range(&self.valid, self.order);
        if nans == 0 {
            return (range, 0);
        }
        let entries = indexed.dictionary.entries();
        let is_nan = |index: u32| entries[index as usize].is_nan();
        let nans = each_width!(&indexed.indices, 0, indices => {
            numbers(indices).filter(|index| is_nan(*index)).count()
        });
        (range, nans as u64)
    }
}

/// Collects in `values` those that the page's indices from the one at `start` on stand for.
fn look_up<T: ParquetNumber>(indexed: &IndexedNumbers<T>, start: usize, values: &mut Vec<T>) {
    let entries = indexed.dictionary.entries();
    values.clear();
    each_width!(&indexed.indices, start, indices => {
        values.extend(numbers(indices).map(|index| entries[index as usize]));
    });
}

impl<T: ParquetNumber> ValueEncoder for Numbers<T> {
    type Dictionary = NumberDictionary<T>;

    fn reserve(&mut self, count: usize) {
        self.values.reserve(count);
    }

    fn fitting(
        &self,
        _: &RunValues<'_>,
        piece: Piece<'_>,
        page: usize,
        indexed: Option<&IndexedNumbers<T>>,
    ) -> usize {
        piece.rows_with((page / size_of::<T>()).saturating_sub(self.count(indexed)))
    }

    fn append(
        &mut self,
        run: &RunValues<'_>,
        piece: Piece<'_>,
        indexed: Option<&mut IndexedNumbers<T>>,
    ) -> Result<usize> {
        if let RunValues::Keys { keys, values, .. } = run {
            keys.rows(piece, &mut self.rows);
            let values = T::slots(values).ok_or_else(mismatch)?;
            return Ok(self.append_keyed(values, indexed));
        }
        let slots = T::slots(run).ok_or_else(mismatch)?;
        Ok(self.append_slots(slots, piece, indexed))
    }

    fn dropped(&mut self, _: &NumberDictionary<T>, indices: &[u32]) {
        if !indices.is_empty() {
            self.noted.values = None;
        }
    }

    fn take_out(&mut self, indexed: &mut IndexedNumbers<T>) {
        look_up(indexed, 0, &mut self.values);
    }

    fn set_encoding(&mut self, encoding: Encoding) {
        self.encoding = encoding;
    }

    fn encode_direct(
        &mut self,
        encoding: Encoding,
        start: usize,
        indexed: Option<&IndexedNumbers<T>>,
        out: &mut Vec<u8>,
    ) {
        if let Some(indexed) = indexed {
            look_up(indexed, start, &mut self.valid);
            append_direct(&self.valid, encoding, out);
        } else {
            append_direct(&self.values[start..], encoding, out);
        }
    }

    fn direct_bytes(&self, encoding: Encoding, indexed: Option<&IndexedNumbers<T>>) -> usize {
        let count = self.count(indexed);
        if encoding != Encoding::DeltaBinaryPacked {
            return count * size_of::<T>();
        }
        let start = count.saturating_sub(DELTAS_TRIED);
        let mut named = Vec::new();
        let last = match indexed {
            Some(indexed) => {
                look_up(indexed, start, &mut named);
                &named
            }
            None => &self.values[start..],
        };
        let mut deltas = Vec::new();
        if T::deltas(last, &mut deltas) {
            return deltas.len() * count / last.len().max(1);
        }
        count * size_of::<T>()
    }

    fn encode(&mut self, out: &mut Vec<u8>) -> Encoding {
        append_direct(&self.values, self.encoding, out)
    }

    fn finish(&mut self, indexed: Option<&mut IndexedNumbers<T>>) -> PageFacts {
        let is_empty = self.count(indexed.as_deref()) == 0;
        let (range, nans) = self.page_range(indexed);
        self.nans += nans;
        let bytes = |value: T| as_bytes(std::slice::from_ref(&value)).to_vec();
        let facts = PageFacts {
            bounds: range.map(|(min, max)| (bytes(min), bytes(max))),
            has_bounds: range.is_some() || is_empty,
            value_bytes: None,
        };
        if let Some(range) = range {
            self.ranges.note(range, Some(range));
        }
        self.noted = Noted::default();
        self.values.clear();
        facts
    }

    fn statistics(&self, nulls: u64) -> Statistics {
        let range = self.ranges.whole().copied().filter(|_| self.nans == 0);
        T::statistics(range, nulls, self.nans)
    }

    fn boundary_order(&self) -> BoundaryOrder {
        self.ranges.order()
    }

    fn pending_bytes(&self) -> usize {
        let mut deltas = Vec::new();
        if self.encoding == Encoding::DeltaBinaryPacked && T::deltas(&self.values, &mut deltas) {
            return deltas.len();
        }
        size_of_val(self.values.as_slice())
    }

    fn memory_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<u32>()
            + (self.values.capacity() + self.valid.capacity()) * size_of::<T>()
    }
}

/// Appends values without a dictionary. Returns the encoding, which is PLAIN for those that it does not suit.
fn append_direct<T: ParquetNumber>(values: &[T], encoding: Encoding, out: &mut Vec<u8>) -> Encoding {
    match encoding {
        _ if values.is_empty() => {}
        Encoding::DeltaBinaryPacked if T::deltas(values, out) => return Encoding::DeltaBinaryPacked,
        Encoding::ByteStreamSplit => {
            byte_stream_split::encode(as_bytes(values), size_of::<T>(), out);
            return Encoding::ByteStreamSplit;
        }
        _ => plain::encode_fixed(values, out),
    }
    Encoding::Plain
}

pub(super) fn mismatch() -> WriteError {
    WriteError::Encode("values of one physical type came where the column has another".into())
}

#[cfg(test)]
mod tests {
    use parquet_encode::dictionary::DictionaryLimits;
    use proptest::prelude::*;

    use super::*;

    type PageRange = (Option<(f64, f64)>, u64);

    /// The range of a page that goes through a dictionary, and its values: pieces are added and the last values of some
    /// are dropped, as where a row does not fit.
    fn page(pieces: &[(Vec<f64>, usize)]) -> (PageRange, Vec<f64>) {
        let mut numbers = Numbers::new(IntegerOrder::Signed, Encoding::Plain);
        let mut indexed = DictionaryEncoder::new(NumberDictionary::new(DictionaryLimits::default()));
        let mut values: Vec<f64> = Vec::new();
        for (piece, dropped) in pieces {
            let rows = Piece {
                start: 0,
                rows: piece.len(),
                validity: None,
            };
            numbers.append_slots(piece, rows, Some(&mut indexed));
            let last = indexed.drop_last(*dropped);
            numbers.dropped(&indexed.dictionary, &last);
            values.extend(piece);
            values.truncate(values.len().saturating_sub(*dropped));
        }
        (numbers.page_range(Some(&mut indexed)), values)
    }

    fn bits((range, nans): PageRange) -> (Option<(u64, u64)>, u64) {
        (range.map(|(min, max)| (min.to_bits(), max.to_bits())), nans)
    }

    proptest! {
        #[test]
        fn the_range_of_a_page_is_that_of_its_values_however_they_came(
            pieces in prop::collection::vec(
                (
                    prop::collection::vec(prop_oneof![40 => -500.0..500.0_f64, 1 => Just(-0.0), 1 => Just(0.0)], 0..200),
                    prop_oneof![4 => Just(0_usize), 1 => 1..3_usize],
                ),
                1..6,
            ),
            nan in proptest::option::of(any::<prop::sample::Index>()),
        ) {
            let mut pieces = pieces;
            if let Some(nan) = nan {
                let place = nan.index(pieces.len());
                pieces[place].0.insert(0, f64::NAN);
            }
            let (range, values) = page(&pieces);
            prop_assert_eq!(bits(range), bits(f64::range(&values, IntegerOrder::Signed)));
        }
    }
}
