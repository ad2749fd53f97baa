//! The values of a page of integers or floats.

use std::cmp::Ordering;

use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet_encode::dictionary::{KeyMap, Limits, NumberDictionary, UsedEntries, Word};
use parquet_encode::fixed::as_bytes;
use parquet_encode::page_header::Encoding;
use parquet_encode::{byte_stream_split, delta, plain, rle, stats};

use super::page::{PageFacts, PageValues, index_capacity};
use super::piece::Piece;
use super::ranges::Ranges;
use super::source::Values;
use crate::error::{Result, WriteError};

/// Values of an Arrow dictionary above which mapping all of them for a run costs more than looking its keys up.
pub(super) const MAPPED_VALUES: usize = 8192;

/// How the integers of a column are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Signed,
    Unsigned,
}

/// One of Parquet's numbers.
pub(super) trait Number: Word + std::fmt::Debug + Send + Sync {
    /// The values of a run, and those of its dictionary if it has one.
    fn slots<'a>(values: &'a Values<'a>) -> Option<&'a [Self]>;
    /// Least and greatest, `None` when nothing has an order.
    fn range(values: &[Self], order: Order) -> Option<(Self, Self)>;
    /// The order of values, which are not NaN.
    fn compare(order: Order) -> fn(&Self, &Self) -> Ordering;
    /// Appends a page of deltas; `false` for floats, which have none.
    fn deltas(values: &[Self], out: &mut Vec<u8>) -> bool;
    fn statistics(min: Option<Self>, max: Option<Self>, nulls: u64) -> Statistics;
}

macro_rules! integer {
    ($ty:ty, $unsigned:ty, $kind:ident, $statistics:ident) => {
        impl Number for $ty {
            fn slots<'a>(values: &'a Values<'a>) -> Option<&'a [Self]> {
                match values {
                    Values::$kind(slots) => Some(slots),
                    _ => None,
                }
            }

            fn range(values: &[Self], order: Order) -> Option<(Self, Self)> {
                if order == Order::Signed {
                    return stats::integers(values).map(|range| (range.min, range.max));
                }
                let first = values.first()?.cast_unsigned();
                let (min, max) = values.iter().fold((first, first), |(min, max), value| {
                    (
                        min.min(value.cast_unsigned()),
                        max.max(value.cast_unsigned()),
                    )
                });
                Some((min.cast_signed(), max.cast_signed()))
            }

            fn compare(order: Order) -> fn(&Self, &Self) -> Ordering {
                match order {
                    Order::Signed => Self::cmp,
                    Order::Unsigned => |left, right| left.cast_unsigned().cmp(&right.cast_unsigned()),
                }
            }

            fn deltas(values: &[Self], out: &mut Vec<u8>) -> bool {
                delta::encode(values, out);
                true
            }

            fn statistics(min: Option<Self>, max: Option<Self>, nulls: u64) -> Statistics {
                Statistics::$statistics(ValueStatistics::new(min, max, None, Some(nulls), false))
            }
        }
    };
}
integer!(i32, u32, I32, Int32);
integer!(i64, u64, I64, Int64);

macro_rules! float {
    ($ty:ty, $kind:ident, $statistics:ident) => {
        impl Number for $ty {
            fn slots<'a>(values: &'a Values<'a>) -> Option<&'a [Self]> {
                match values {
                    Values::$kind(slots) => Some(slots),
                    _ => None,
                }
            }

            fn range(values: &[Self], _: Order) -> Option<(Self, Self)> {
                stats::floats(values).map(|range| (range.min, range.max))
            }

            fn compare(_: Order) -> fn(&Self, &Self) -> Ordering {
                Self::total_cmp
            }

            fn deltas(_: &[Self], _: &mut Vec<u8>) -> bool {
                false
            }

            fn statistics(min: Option<Self>, max: Option<Self>, nulls: u64) -> Statistics {
                let statistics = ValueStatistics::new(min, max, None, Some(nulls), false);
                Statistics::$statistics(statistics.with_backwards_compatible_min_max(true))
            }
        }
    };
}
float!(f32, F32, Float);
float!(f64, F64, Double);

/// Collects the values of a page: as indices while there is a dictionary, as they are without one.
#[derive(Debug)]
pub(super) struct Numbers<T> {
    order: Order,
    dictionary: Option<NumberDictionary<T>>,
    /// Whether pages still get indices.
    indexed: bool,
    /// Entries of the dictionary when the page began.
    entries_before: usize,
    encoding: Encoding,
    indices: Vec<u32>,
    values: Vec<T>,
    ranges: Ranges<T>,
    keys: KeyMap,
    /// Whether each key's value is looked up once in a run.
    mapped: bool,
    rows: Vec<u32>,
    valid: Vec<T>,
    used: UsedEntries,
}

impl<T: Number> Numbers<T> {
    /// `limits` is what its dictionary may hold; without them it has none.
    pub fn new(order: Order, limits: Option<Limits>, encoding: Encoding) -> Self {
        Self {
            order,
            dictionary: limits.map(NumberDictionary::new),
            indexed: limits.is_some(),
            entries_before: 0,
            encoding,
            indices: Vec::new(),
            values: Vec::new(),
            ranges: Ranges::new(T::compare(order)),
            keys: KeyMap::new(),
            mapped: false,
            rows: Vec::new(),
            valid: Vec::new(),
            used: UsedEntries::new(),
        }
    }

    fn append_slots(&mut self, slots: &[T], piece: Piece<'_>) -> usize {
        let valid = piece.numbers(slots, &mut self.valid);
        if let Some(dictionary) = self.dictionary.as_mut().filter(|_| self.indexed) {
            return dictionary.encode(valid, &mut self.indices);
        }
        self.values.extend_from_slice(valid);
        valid.len()
    }

    fn append_keyed(&mut self, values: &[T]) -> usize {
        let dictionary = self.dictionary.as_mut().filter(|_| self.indexed);
        if let Some(dictionary) = dictionary.filter(|_| self.mapped) {
            return dictionary.encode_keys(&self.rows, values, &mut self.keys, &mut self.indices);
        }
        self.valid.clear();
        self.valid
            .extend(self.rows.iter().map(|row| values[*row as usize]));
        if let Some(dictionary) = self.dictionary.as_mut().filter(|_| self.indexed) {
            return dictionary.encode(&self.valid, &mut self.indices);
        }
        self.values.extend_from_slice(&self.valid);
        self.valid.len()
    }

    fn note_range(&mut self) -> Option<(T, T)> {
        let range = if self.indexed {
            let entries = self
                .dictionary
                .as_ref()
                .map_or(&[][..], NumberDictionary::entries);
            let used = self.used.of(&self.indices, entries.len());
            self.valid.clear();
            self.valid
                .extend(used.iter().map(|index| entries[*index as usize]));
            T::range(&self.valid, self.order)
        } else {
            T::range(&self.values, self.order)
        };
        if let Some(range) = range {
            self.ranges.note(range);
        }
        range
    }
}

impl<T: Number> PageValues for Numbers<T> {
    fn begin(&mut self, run: &Values<'_>) {
        if let Values::Keys { len, .. } = run {
            self.mapped = *len <= MAPPED_VALUES;
            if self.mapped {
                self.keys.reset(*len);
            }
        }
    }

    fn fitting(&self, _: &Values<'_>, piece: Piece<'_>, page: usize) -> usize {
        let capacity = if self.indexed {
            index_capacity(self.entries_before, page).saturating_sub(self.indices.len())
        } else {
            (page / size_of::<T>()).saturating_sub(self.values.len())
        };
        piece.rows_with(capacity)
    }

    fn append(&mut self, run: &Values<'_>, piece: Piece<'_>) -> Result<usize> {
        if let Values::Keys { keys, values, .. } = run {
            keys.rows(piece, &mut self.rows);
            let values = T::slots(values).ok_or_else(mismatch)?;
            return Ok(self.append_keyed(values));
        }
        let slots = T::slots(run).ok_or_else(mismatch)?;
        Ok(self.append_slots(slots, piece))
    }

    fn rank(&mut self) {
        if let Some(dictionary) = self.dictionary.as_mut().filter(|_| self.indexed) {
            dictionary.rank(&mut self.indices, &mut self.keys);
        }
    }

    fn give_up_dictionary(&mut self) {
        self.indexed = false;
    }

    fn index_width(&self) -> Option<u8> {
        let dictionary = self.dictionary.as_ref().filter(|_| self.indexed)?;
        Some(rle::index_width(dictionary.len()))
    }

    fn encode(&mut self, index_width: u8, out: &mut Vec<u8>) -> Encoding {
        let entries = self.dictionary.as_ref().map_or(0, NumberDictionary::len);
        if self.indexed && entries > 0 {
            rle::encode_indices_in(&self.indices, rle::index_width(entries).max(index_width), out);
            return Encoding::RleDictionary;
        }
        match self.encoding {
            _ if self.values.is_empty() => {}
            Encoding::DeltaBinaryPacked if T::deltas(&self.values, out) => {
                return Encoding::DeltaBinaryPacked;
            }
            Encoding::ByteStreamSplit => {
                byte_stream_split::encode(as_bytes(&self.values), size_of::<T>(), out);
                return Encoding::ByteStreamSplit;
            }
            _ => plain::encode_fixed(&self.values, out),
        }
        Encoding::Plain
    }

    fn finish(&mut self) -> PageFacts {
        let range = self.note_range();
        let bytes = |value: T| as_bytes(std::slice::from_ref(&value)).to_vec();
        let facts = PageFacts {
            bounds: range.map(|(min, max)| (bytes(min), bytes(max))),
            ordered: range.is_some() || (self.indices.is_empty() && self.values.is_empty()),
            value_bytes: None,
        };
        self.indices.clear();
        self.entries_before = self.dictionary.as_ref().map_or(0, NumberDictionary::len);
        self.values.clear();
        facts
    }

    fn dictionary(&self) -> Option<(&[u8], usize)> {
        let dictionary = self
            .dictionary
            .as_ref()
            .filter(|dictionary| !dictionary.is_empty())?;
        Some((dictionary.page(), dictionary.len()))
    }

    fn statistics(&self, nulls: u64) -> Statistics {
        let (min, max) = self.ranges.whole().copied().unzip();
        T::statistics(min, max, nulls)
    }

    fn boundary_order(&self) -> parquet::basic::BoundaryOrder {
        self.ranges.order()
    }

    fn pending_bytes(&self) -> usize {
        self.indices.len() + size_of_val(self.values.as_slice())
    }

    fn memory_bytes(&self) -> usize {
        self.dictionary.as_ref().map_or(0, NumberDictionary::memory_bytes)
            + (self.indices.capacity() + self.rows.capacity()) * size_of::<u32>()
            + (self.values.capacity() + self.valid.capacity()) * size_of::<T>()
            + self.keys.memory_bytes()
            + self.used.memory_bytes()
    }
}

pub(super) fn mismatch() -> WriteError {
    WriteError::Encode("values of one physical type came where the column has another".into())
}
