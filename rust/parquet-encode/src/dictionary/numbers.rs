//! The dictionary of integers and floats.

use super::keys::{DictionaryKey, KeyMap, map_keys};
use super::{BATCH, Dictionary, DictionaryLimits, EntryTable, Indices, MOST_PROBES, hash, rank};
use crate::cpu::dispatch;
use crate::fixed::{Fixed, as_bytes};

/// A number that is looked up by its bits. For floats, too: each NaN and both zeros are separate values.
pub trait Word: Fixed {
    /// The bits, sign-extended.
    fn bits(self) -> i64;
}

macro_rules! word {
    ($($ty:ty: $value:ident => $bits:expr),+ $(,)?) => {$(
        impl Word for $ty {
            #[inline(always)]
            fn bits(self) -> i64 {
                let $value = self;
                $bits
            }
        }
    )+};
}
word!(
    i32: value => value.into(),
    u32: value => value.into(),
    f32: value => value.to_bits().cast_signed().into(),
    i64: value => value,
    u64: value => value.cast_signed(),
    f64: value => value.to_bits().cast_signed(),
);

/// A plain array over a range of values, searched before the table. Most integer columns need no hash.
#[derive(Debug, Default)]
struct ValueWindow {
    /// The value of the first slot.
    base: i64,
    /// Entry numbers; 0 for values that have not been seen.
    slots: Vec<u32>,
}

impl ValueWindow {
    #[inline(always)]
    fn place(&self, bits: i64) -> u64 {
        bits.wrapping_sub(self.base).cast_unsigned()
    }

    fn covers(&self, least: i64, most: i64) -> bool {
        self.place(least) <= self.place(most) && self.place(most) < self.slots.len() as u64
    }
}

/// A dictionary of integers or floats.
#[derive(Debug)]
pub struct NumberDictionary<T> {
    limits: DictionaryLimits,
    /// The entries. The first one stands for free slots; index `i` is entry `i + 1`.
    entries: Vec<T>,
    table: EntryTable,
    window: ValueWindow,
}

impl<T: Word> Dictionary for NumberDictionary<T> {
    fn len(&self) -> usize {
        self.entries.len() - 1
    }

    fn page(&self) -> &[u8] {
        as_bytes(self.entries())
    }

    fn rank(&mut self, indices: &mut Indices, map: &mut KeyMap) {
        let order = rank::by_frequency(indices, self.len());
        let entries = self.entries.split_off(1);
        self.table.reset(self.table.slots.len());
        self.window.slots.clear();
        for (number, index) in (1..).zip(&order) {
            let value = entries[*index as usize];
            self.entries.push(value);
            self.table.put(tag_of(value), number);
        }
        let places = rank::places(&order);
        rank::rename(indices, &places);
        map.rename(&places);
    }

    fn memory_bytes(&self) -> usize {
        size_of_val(self.entries.as_slice())
            + self.table.memory_bytes()
            + self.window.slots.capacity() * size_of::<u32>()
    }
}

impl<T: Word> NumberDictionary<T> {
    /// An empty dictionary.
    #[must_use]
    pub fn new(limits: DictionaryLimits) -> Self {
        Self {
            limits: limits.within_format(),
            entries: vec![T::ZERO],
            table: EntryTable::new(),
            window: ValueWindow::default(),
        }
    }

    /// The values, in the order of their indices.
    #[must_use]
    pub fn entries(&self) -> &[T] {
        &self.entries[1..]
    }

    /// Appends the index of each value, adding those that are new.
    ///
    /// Returns how many values were taken: fewer than there are when the next one would break a limit.
    pub fn encode(&mut self, values: &[T], indices: &mut Indices) -> usize {
        encode(self, values, indices)
    }

    /// Appends the index of each key's value, and hashes each of `values` at most once.
    ///
    /// `map` belongs to `values` and to what this dictionary holds: [`KeyMap::reset`] it when either changes. Values
    /// that no key names are not added. Returns how many keys were taken, as [`Self::encode`] does.
    ///
    /// # Panics
    ///
    /// If a key is not below the length that the map was reset to.
    pub fn encode_keys<K: DictionaryKey>(
        &mut self,
        keys: &[K],
        values: &[T],
        map: &mut KeyMap,
        indices: &mut Indices,
    ) -> usize {
        map_keys(keys, map, indices, |row| self.index_of(values[row]))
    }

    /// The index of a value, which is added if it is new; `None` if that would exceed a limit.
    #[inline(never)]
    pub fn index_of(&mut self, value: T) -> Option<u32> {
        let mut slot = self.table.home(tag_of(value));
        let mut probes = 0;
        loop {
            let entry = self.table.slots[slot];
            if entry == 0 {
                break;
            }
            if self.entries[entry as usize].bits() == value.bits() {
                return Some(entry - 1);
            }
            slot = self.table.after(slot);
            probes += 1;
        }
        let full =
            self.len() >= self.limits.entries || self.entries.len() * size_of::<T>() > self.limits.bytes;
        if full || probes > MOST_PROBES {
            return None;
        }
        let index = self.len() as u32;
        self.entries.push(value);
        if let Some(slots) = self.table.wanted(self.entries.len()) {
            self.table.reset(slots);
            for (number, value) in self.entries.iter().enumerate().skip(1) {
                self.table.put(tag_of(*value), number as u32);
            }
        } else {
            self.table.slots[slot] = index + 1;
        }
        Some(index)
    }

    /// Widens the window to values from `least` to `most`, beside its present range, if that is narrow enough.
    fn widen_window(&mut self, mut least: i64, mut most: i64) -> bool {
        if self.window.covers(least, most) {
            return true;
        }
        if !self.window.slots.is_empty() {
            least = least.min(self.window.base);
            most = most.max(
                self.window
                    .base
                    .saturating_add(self.window.slots.len() as i64 - 1),
            );
        }
        let span = most.wrapping_sub(least).cast_unsigned();
        let widest = self.limits.window as u64;
        if span >= widest {
            return false;
        }
        // Twice what is needed, so that a drifting range moves the window seldom.
        let slots = (2 * (span + 1)).clamp(widest.min(256), widest);
        self.window.base = least.saturating_sub((slots - span) as i64 / 2);
        self.window.slots.clear();
        self.window.slots.resize(slots as usize, 0);
        for (number, value) in self.entries.iter().enumerate().skip(1) {
            let place = self.window.place(value.bits());
            if let Some(slot) = self.window.slots.get_mut(place as usize) {
                *slot = number as u32;
            }
        }
        self.window.covers(least, most)
    }
}

#[inline(always)]
fn tag_of<T: Word>(value: T) -> u32 {
    hash::of_word(value.bits().cast_unsigned())
}

#[inline(always)]
fn extremes<T: Word>(values: &[T]) -> (i64, i64) {
    values.iter().fold((i64::MAX, i64::MIN), |(least, most), value| {
        (least.min(value.bits()), most.max(value.bits()))
    })
}

#[inline(always)]
fn encode_kernel<T: Word>(
    dictionary: &mut NumberDictionary<T>,
    values: &[T],
    indices: &mut Indices,
) -> usize {
    if values.is_empty() {
        return 0;
    }
    let (least, most) = extremes(values);
    if dictionary.widen_window(least, most) {
        through_window(dictionary, values, indices)
    } else {
        through_table(dictionary, values, indices)
    }
}

#[inline(always)]
fn through_window<T: Word>(
    dictionary: &mut NumberDictionary<T>,
    values: &[T],
    indices: &mut Indices,
) -> usize {
    let mut out = [0; BATCH];
    for (batch, values) in values.chunks(BATCH).enumerate() {
        let out = &mut out[..values.len()];
        let window = &dictionary.window;
        let mut missed = 0u64;
        for (at, (value, out)) in values.iter().zip(out.iter_mut()).enumerate() {
            let entry = window.slots[window.place(value.bits()) as usize];
            missed |= u64::from(entry == 0) << at;
            *out = entry.wrapping_sub(1);
        }
        while missed != 0 {
            let at = missed.trailing_zeros() as usize;
            missed &= missed - 1;
            let Some(index) = dictionary.index_of(values[at]) else {
                indices.extend(&out[..at]);
                return batch * BATCH + at;
            };
            let place = dictionary.window.place(values[at].bits());
            dictionary.window.slots[place as usize] = index + 1;
            out[at] = index;
        }
        indices.extend(out);
    }
    values.len()
}

#[inline(always)]
fn through_table<T: Word>(
    dictionary: &mut NumberDictionary<T>,
    values: &[T],
    indices: &mut Indices,
) -> usize {
    let (mut found, mut out) = ([0u32; BATCH], [0; BATCH]);
    for (batch, values) in values.chunks(BATCH).enumerate() {
        let out = &mut out[..values.len()];
        let table = &dictionary.table;
        for (found, value) in found.iter_mut().zip(values) {
            *found = table.slots[table.home(tag_of(*value))];
        }
        let mut missed = 0u64;
        for (at, ((entry, value), out)) in found.iter().zip(values).zip(out.iter_mut()).enumerate() {
            let same = (*entry != 0) & (dictionary.entries[*entry as usize].bits() == value.bits());
            missed |= u64::from(!same) << at;
            *out = entry.wrapping_sub(1);
        }
        while missed != 0 {
            let at = missed.trailing_zeros() as usize;
            missed &= missed - 1;
            let Some(index) = dictionary.index_of(values[at]) else {
                indices.extend(&out[..at]);
                return batch * BATCH + at;
            };
            out[at] = index;
        }
        indices.extend(out);
    }
    values.len()
}

dispatch! {
    fn encode<T: Word>(
        dictionary: &mut NumberDictionary<T>,
        values: &[T],
        indices: &mut Indices,
    ) -> usize = encode_kernel;
}
