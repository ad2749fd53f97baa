//! Preserved dictionaries: the values of the dictionaries that a column came with, in their order, unused ones
//! included. Readers make the categories of a column from its dictionary page.

use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use parquet::basic::Type;
use parquet_encode::byte_arrays::{ByteArrays, Views};
use parquet_encode::dictionary::{ByteDictionary, Dictionary, DictionaryLimits};

use super::source::{self, RunValues, Scratch};
use crate::stored_schema::DictionaryOrder;

/// The values of all dictionaries since a row group or a file began, each once, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Preserved {
    pub(super) dictionary: ByteDictionary,
    pub(super) standing: Standing,
}

/// The state of a dictionary that is to hold all dictionaries of its column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing {
    /// Limits for all of them together.
    limits: DictionaryLimits,
    /// The values that came with them.
    entries: usize,
    /// True while it holds each of them whole and in its order, and nothing else.
    whole: bool,
    /// True until a value did not fit: after that, none is added.
    open: bool,
}

impl Preserved {
    /// No values yet.
    pub fn new(limits: DictionaryLimits) -> Self {
        Self {
            dictionary: ByteDictionary::new(limits),
            standing: Standing {
                limits,
                entries: 0,
                whole: true,
                open: true,
            },
        }
    }

    /// Adds the values of a dictionary that are new.
    pub fn add(&mut self, values: &ArrayRef) {
        self.standing.add(&mut self.dictionary, values, &|_| true);
    }

    /// Returns true if it holds every dictionary that came, each in its order.
    pub fn is_whole(&self) -> bool {
        self.standing.is_whole(&self.dictionary)
    }

    /// The order of its values.
    pub fn order(&self) -> DictionaryOrder {
        DictionaryOrder::of(self.dictionary.len(), self.dictionary.page())
    }

    /// Its values and the bytes of their page; `None` without values, or when one of its dictionaries is not whole.
    pub fn size(&self) -> Option<(usize, usize)> {
        let some = self.standing.open && self.standing.entries > 0;
        some.then(|| (self.dictionary.len(), self.dictionary.page().len()))
    }

    pub fn memory_bytes(&self) -> usize {
        self.dictionary.memory_bytes()
    }

    /// Limits it to a row group's dictionary; `None` when it holds more already. With a memory limit, the limit holds
    /// for later additions, too.
    pub(super) fn within(mut self, limits: DictionaryLimits, has_memory_limit: bool) -> Option<Self> {
        if has_memory_limit {
            self.standing.limits = limits;
        }
        self.dictionary.set_limits(limits);
        let fits = self.dictionary.len() <= self.standing.limits.entries
            && self.dictionary.page().len() <= self.standing.limits.bytes;
        (fits && self.standing.open).then_some(self)
    }
}

/// Returns true if `test` holds for the row and the bytes of every non-null text; false for arrays of another type.
pub(crate) fn all_texts(values: &ArrayRef, test: &dyn Fn(usize, &[u8]) -> bool) -> bool {
    fn all<V: ByteArrays>(
        values: &V,
        nulls: Option<&NullBuffer>,
        test: &dyn Fn(usize, &[u8]) -> bool,
    ) -> bool {
        let mut valid = (0..values.len()).filter(|row| nulls.is_none_or(|nulls| nulls.is_valid(*row)));
        valid.all(|row| test(row, values.value(row)))
    }
    let (data, mut scratch) = (values.to_data(), Scratch::default());
    let nulls = values.nulls();
    match source::values(&data, (Type::BYTE_ARRAY, 0), &mut scratch) {
        _ if values.is_empty() => true,
        Ok(RunValues::Small(values)) => all(&values, nulls, test),
        Ok(RunValues::Large(values)) => all(&values, nulls, test),
        Ok(RunValues::Views { views, buffers }) => {
            let values = Views {
                views,
                buffers: &buffers,
            };
            all(&values, nulls, test)
        }
        _ => false,
    }
}

impl Standing {
    /// Adds the values that `dictionary` does not have. Adds none and returns `false` if there are such values and
    /// `room` refuses so many.
    pub fn add(
        &mut self,
        dictionary: &mut ByteDictionary,
        values: &ArrayRef,
        room: &dyn Fn(usize) -> bool,
    ) -> bool {
        let (data, mut scratch) = (values.to_data(), Scratch::default());
        let nulls = values.nulls();
        match source::values(&data, (Type::BYTE_ARRAY, 0), &mut scratch) {
            _ if values.is_empty() => true,
            Ok(RunValues::Small(values)) => self.add_all(dictionary, (&values, nulls), room),
            Ok(RunValues::Large(values)) => self.add_all(dictionary, (&values, nulls), room),
            Ok(RunValues::Views { views, buffers }) => {
                let values = Views {
                    views,
                    buffers: &buffers,
                };
                self.add_all(dictionary, (&values, nulls), room)
            }
            _ => {
                self.end();
                true
            }
        }
    }

    fn add_all<V: ByteArrays>(
        &mut self,
        dictionary: &mut ByteDictionary,
        (values, nulls): (&V, Option<&NullBuffer>),
        room: &dyn Fn(usize) -> bool,
    ) -> bool {
        // Values that rows brought without a dictionary have no place in the order of one.
        self.whole &= dictionary.len() == self.entries;
        let valid = || (0..values.len()).filter(|row| nulls.is_none_or(|nulls| nulls.is_valid(*row)));
        if !self.open || begins_with(dictionary, values, valid()) {
            return true;
        }
        let new: Vec<_> = valid()
            .filter(|row| !dictionary.contains(values.value(*row)))
            .collect();
        let bytes: usize = new
            .iter()
            .map(|row| values.value_len(*row) + size_of::<u32>())
            .sum();
        if dictionary.len() + new.len() > self.limits.entries
            || dictionary.page().len() + bytes > self.limits.bytes
        {
            self.end();
            return true;
        }
        if !new.is_empty() && !room(new.len()) {
            return false;
        }
        let usual = dictionary.limits();
        dictionary.set_limits(self.limits);
        let mut last = None;
        for row in valid() {
            let Some(index) = dictionary.index_of(values.value(row)) else {
                self.end();
                break;
            };
            self.whole &= last.is_none_or(|last| last < index);
            last = Some(index);
        }
        dictionary.set_limits(usual);
        self.entries = dictionary.len();
        true
    }

    /// Notes that a dictionary is incomplete.
    pub fn end(&mut self) {
        self.whole = false;
        self.open = false;
    }

    /// Returns true if no values came with dictionaries.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    fn is_whole(&self, dictionary: &ByteDictionary) -> bool {
        self.whole && self.entries == dictionary.len()
    }
}

/// Returns true if the entries begin with these values. Usually they do: a batch has the dictionary of the batch
/// before.
fn begins_with<V: ByteArrays>(
    dictionary: &ByteDictionary,
    values: &V,
    mut rows: impl Iterator<Item = usize>,
) -> bool {
    let entries = dictionary.entries();
    let mut next = 0;
    rows.all(|row| {
        let same = next < entries.len() && entries.value(next) == values.value(row);
        next += 1;
        same
    })
}
