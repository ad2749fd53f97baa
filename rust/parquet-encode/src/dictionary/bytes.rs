//! The dictionary of byte arrays and fixed-size binary.

use super::keys::{DictionaryKey, KeyMap, map_keys};
use super::{BATCH, Dictionary, DictionaryLimits, EntryTable, Indices, MOST_PROBES, hash, rank};
use crate::byte_arrays::{ByteArrays, Head, head_of};
use crate::cpu::dispatch;

/// The facts about a value that are kept beside the page.
#[derive(Clone, Copy, Debug)]
struct Entry {
    head: u128,
    len: u32,
    /// The start of the value in the page.
    start: u32,
    tag: u32,
}

impl Entry {
    #[inline(always)]
    fn bytes<'a>(&self, page: &'a [u8]) -> &'a [u8] {
        &page[self.start as usize..][..self.len as usize]
    }
}

/// The entry of free slots. No value is so long.
const NO_ENTRY: Entry = Entry {
    head: 0,
    len: u32::MAX,
    start: 0,
    tag: 0,
};

/// A dictionary of byte arrays. Its values are stored as the page that is written in the end.
#[derive(Debug)]
pub struct ByteDictionary {
    limits: DictionaryLimits,
    /// Bytes of the length before each value: 4, or 0 for fixed-size binary.
    prefix: usize,
    page: Vec<u8>,
    /// The first one is [`NO_ENTRY`]; index `i` is entry `i + 1`.
    entries: Vec<Entry>,
    table: EntryTable,
}

impl Dictionary for ByteDictionary {
    fn len(&self) -> usize {
        self.entries.len() - 1
    }

    fn page(&self) -> &[u8] {
        &self.page
    }

    fn rank(&mut self, indices: &mut Indices, map: &mut KeyMap) {
        let order = rank::by_frequency(indices, self.len());
        let (page, entries) = (std::mem::take(&mut self.page), self.entries.split_off(1));
        self.page.reserve(page.len());
        self.table.reset(self.table.slots.len());
        for (number, index) in (1..).zip(&order) {
            let mut entry = entries[*index as usize];
            self.page
                .extend_from_slice(&entry.len.to_le_bytes()[..self.prefix]);
            let start = self.page.len() as u32;
            self.page.extend_from_slice(entry.bytes(&page));
            entry.start = start;
            self.entries.push(entry);
            self.table.put(entry.tag, number);
        }
        let places = rank::places(&order);
        rank::rename(indices, &places);
        map.rename(&places);
    }

    fn memory_bytes(&self) -> usize {
        self.page.len() + size_of_val(self.entries.as_slice()) + self.table.memory_bytes()
    }
}

impl ByteDictionary {
    /// A dictionary of `BYTE_ARRAY` values.
    #[must_use]
    pub fn new(limits: DictionaryLimits) -> Self {
        Self::with_prefix(limits, 4)
    }

    /// A dictionary of `FIXED_LEN_BYTE_ARRAY` values, whose page has no lengths.
    #[must_use]
    pub fn fixed_size(limits: DictionaryLimits) -> Self {
        Self::with_prefix(limits, 0)
    }

    fn with_prefix(limits: DictionaryLimits, prefix: usize) -> Self {
        Self {
            limits: limits.within_format(),
            prefix,
            page: Vec::new(),
            entries: vec![NO_ENTRY],
            table: EntryTable::new(),
        }
    }

    /// Changes the limits. Present entries stay.
    pub fn set_limits(&mut self, limits: DictionaryLimits) {
        self.limits = limits.within_format();
    }

    /// The limits at which it stops.
    #[must_use]
    pub fn limits(&self) -> DictionaryLimits {
        self.limits
    }

    /// The values, in the order of their indices.
    #[must_use]
    pub fn entries(&self) -> Entries<'_> {
        Entries {
            page: &self.page,
            entries: &self.entries[1..],
        }
    }

    /// Appends the index of each value, adding those that are new.
    ///
    /// Returns how many values were taken: fewer than there are when the next one would break a limit.
    pub fn encode<V: ByteArrays>(&mut self, values: &V, indices: &mut Indices) -> usize {
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
    pub fn encode_keys<K: DictionaryKey, V: ByteArrays>(
        &mut self,
        keys: &[K],
        values: &V,
        map: &mut KeyMap,
        indices: &mut Indices,
    ) -> usize {
        map_keys(keys, map, indices, |row| self.index_of(values.value(row)))
    }

    /// The index of a value, which is added if it is new; `None` if that would exceed a limit.
    pub fn index_of(&mut self, value: &[u8]) -> Option<u32> {
        let head = head_of(value, value.len());
        self.find_or_add(tag_of(head, value), head, value)
    }

    /// Returns true if the value is among the entries.
    #[must_use]
    pub fn contains(&self, value: &[u8]) -> bool {
        let head = head_of(value, value.len());
        self.find(tag_of(head, value), head, value).is_ok()
    }

    /// The entry that equals the value. If there is none, the free slot for it, and the number of taken slots before
    /// that.
    #[inline(always)]
    fn find(&self, tag: u32, head: Head, value: &[u8]) -> Result<u32, (usize, usize)> {
        let (mut slot, mut probes) = (self.table.home(tag), 0);
        loop {
            let entry = self.table.slots[slot];
            if entry == 0 {
                return Err((slot, probes));
            }
            if self.entries[entry as usize].tag == tag && holds(&self.entries, &self.page, entry, head, value)
            {
                return Ok(entry);
            }
            slot = self.table.after(slot);
            probes += 1;
        }
    }

    #[inline(never)]
    fn find_or_add(&mut self, tag: u32, head: Head, value: &[u8]) -> Option<u32> {
        let (slot, probes) = match self.find(tag, head, value) {
            Ok(entry) => return Some(entry - 1),
            Err(place) => place,
        };
        let size = self.prefix + head.len as usize;
        let full = self.len() >= self.limits.entries || self.page.len() + size > self.limits.bytes;
        if full || probes > MOST_PROBES {
            return None;
        }
        let index = self.len() as u32;
        self.page
            .extend_from_slice(&head.len.to_le_bytes()[..self.prefix]);
        let start = self.page.len() as u32;
        self.page.extend_from_slice(value);
        self.entries.push(Entry {
            head: head.bytes,
            len: head.len,
            start,
            tag,
        });
        if let Some(slots) = self.table.wanted(self.entries.len()) {
            self.table.reset(slots);
            for (number, entry) in self.entries.iter().enumerate().skip(1) {
                self.table.put(entry.tag, number as u32);
            }
        } else {
            self.table.slots[slot] = index + 1;
        }
        Some(index)
    }
}

#[inline(always)]
fn tag_of(head: Head, value: &[u8]) -> u32 {
    if head.len <= 16 {
        hash::of_short(head)
    } else {
        hash::of_long(head, value)
    }
}

/// Compares an entry's head and length. If they are equal and the value is no longer than its head, the values are
/// equal.
#[inline(always)]
fn has_head(entry: &Entry, head: Head) -> bool {
    u128::from(entry.len ^ head.len) | (entry.head ^ head.bytes) == 0
}

/// Returns true if an entry equals the value with this head.
#[inline(always)]
fn holds(entries: &[Entry], page: &[u8], entry: u32, head: Head, value: &[u8]) -> bool {
    let entry = &entries[entry as usize];
    has_head(entry, head) && (head.len <= 16 || same_tail(entry.bytes(page), value))
}

/// Returns true if two values of one length above 16 are equal behind their first 16 bytes.
#[inline(always)]
fn same_tail(left: &[u8], right: &[u8]) -> bool {
    // Ends overlap the steps before them, so that no length has a remainder of its own.
    if left.len() < 48 {
        left.last_chunk::<16>() == right.last_chunk()
            && left[16..].first_chunk::<16>() == right[16..].first_chunk()
    } else {
        let mut steps = left[16..]
            .as_chunks::<32>()
            .0
            .iter()
            .zip(right[16..].as_chunks::<32>().0);
        left.last_chunk::<32>() == right.last_chunk() && steps.all(|(left, right)| left == right)
    }
}

/// The rows of a batch whose values are longer than their heads. They are found without a branch, since columns mix
/// both.
struct Longer {
    rows: [u8; BATCH],
    count: usize,
}

impl Longer {
    #[inline(always)]
    fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        self.rows[..self.count.min(BATCH)]
            .iter()
            .map(|row| usize::from(*row))
    }
}

/// Hashes a batch by its heads alone, and notes the values that need more.
#[inline(always)]
fn hash_heads(heads: &[Head], tags: &mut [u32]) -> Longer {
    let mut longer = Longer {
        rows: [0; BATCH],
        count: 0,
    };
    for (at, (head, tag)) in heads.iter().zip(tags).enumerate() {
        *tag = hash::of_short(*head);
        longer.rows[longer.count % BATCH] = at as u8;
        longer.count += usize::from(head.len > 16);
    }
    longer
}

/// Loads the home slot of each tag. The loads are independent of each other.
#[inline(always)]
fn look_up(table: &EntryTable, tags: &[u32], found: &mut [u32]) {
    for (found, tag) in found.iter_mut().zip(tags) {
        *found = table.slots[table.home(*tag)];
    }
}

/// Compares each head with the entry found for it; returns a bit for each that differs.
#[inline(always)]
fn compare_heads(entries: &[Entry], heads: &[Head], found: &[u32], out: &mut [u32]) -> u64 {
    let mut missed = 0;
    for (at, ((head, entry), out)) in heads.iter().zip(found).zip(out).enumerate() {
        missed |= u64::from(!has_head(&entries[*entry as usize], *head)) << at;
        *out = entry.wrapping_sub(1);
    }
    missed
}

/// The values of a batch, if all of them are longer than their heads, as in columns of host names or URLs.
#[inline(always)]
fn all_longer<'v, V: ByteArrays>(values: &'v V, start: usize, batch: &mut [&'v [u8]]) -> bool {
    batch.iter_mut().enumerate().all(|(at, value)| {
        *value = values.value(start + at);
        value.len() > 16
    })
}

/// Looks up values that are all longer than their heads. Each is fetched once, with no check for shorter ones. Returns
/// a bit for each that was not found at its home.
#[inline(always)]
fn find_longer(
    dictionary: &ByteDictionary,
    batch: &[&[u8]],
    tags: &mut [u32],
    found: &mut [u32],
    out: &mut [u32],
) -> u64 {
    for (tag, value) in tags.iter_mut().zip(batch) {
        *tag = hash::of_long(head_of(value, value.len()), value);
    }
    look_up(&dictionary.table, tags, found);
    let mut missed = 0;
    for (at, ((value, entry), out)) in batch.iter().zip(found).zip(out).enumerate() {
        let known = &dictionary.entries[*entry as usize];
        let same =
            has_head(known, head_of(value, value.len())) && same_tail(known.bytes(&dictionary.page), value);
        missed |= u64::from(!same) << at;
        *out = entry.wrapping_sub(1);
    }
    missed
}

/// Hashes and looks up values of any length, as [`find_longer`] does.
#[inline(always)]
fn find_mixed<V: ByteArrays>(
    dictionary: &ByteDictionary,
    (values, start): (&V, usize),
    heads: &[Head],
    tags: &mut [u32],
    found: &mut [u32],
    out: &mut [u32],
) -> u64 {
    let longer = hash_heads(heads, tags);
    for at in longer.rows() {
        tags[at] = hash::of_long(heads[at], values.value(start + at));
    }
    look_up(&dictionary.table, tags, found);
    let mut missed = compare_heads(&dictionary.entries, heads, found, out);
    for at in longer.rows() {
        let entry = &dictionary.entries[found[at] as usize];
        if missed >> at & 1 == 0 && !same_tail(entry.bytes(&dictionary.page), values.value(start + at)) {
            missed |= 1 << at;
        }
    }
    missed
}

/// The single value of a batch that repeats it, as in sorted columns and those of one source. Any other batch is
/// recognised by its first few values.
#[inline(always)]
fn repeated<'v, V: ByteArrays>(values: &'v V, start: usize, heads: &[Head]) -> Option<&'v [u8]> {
    let first = *heads.first()?;
    if !heads.iter().all(|head| *head == first) {
        return None;
    }
    let value = values.value(start);
    let same = |at| same_tail(value, values.value(start + at));
    (first.len <= 16 || (1..heads.len()).all(same)).then_some(value)
}

#[inline(always)]
fn encode_kernel<V: ByteArrays>(dictionary: &mut ByteDictionary, values: &V, indices: &mut Indices) -> usize {
    let count = values.len();
    let mut out = [0; BATCH];
    let mut heads = [Head { bytes: 0, len: 0 }; BATCH];
    let mut tags = [0; BATCH];
    let mut found = [0; BATCH];
    let mut batch: [&[u8]; BATCH] = [&[]; BATCH];
    let mut start = 0;
    while start < count {
        let size = BATCH.min(count - start);
        let (tags, found) = (&mut tags[..size], &mut found[..size]);
        let out = &mut out[..size];
        let longer = all_longer(values, start, &mut batch[..size]);
        let repeated = if longer {
            let (first, others) = (batch[0], &batch[1..size]);
            others.iter().all(|value| *value == first).then_some(first)
        } else {
            values.heads(start, &mut heads[..size]);
            repeated(values, start, &heads[..size])
        };
        // A value that breaks a limit is left to the careful look.
        if let Some(index) = repeated.and_then(|value| dictionary.index_of(value)) {
            out.fill(index);
            indices.extend(out);
            start += size;
            continue;
        }
        let mut missed = if longer {
            find_longer(dictionary, &batch[..size], tags, found, out)
        } else {
            find_mixed(dictionary, (values, start), &heads[..size], tags, found, out)
        };
        while missed != 0 {
            let at = missed.trailing_zeros() as usize;
            missed &= missed - 1;
            let (head, value) = (values.head(start + at), values.value(start + at));
            if let Some(index) = dictionary.find_or_add(tags[at], head, value) {
                out[at] = index;
            } else {
                indices.extend(&out[..at]);
                return start + at;
            }
        }
        indices.extend(out);
        start += size;
    }
    count
}

dispatch! {
    fn encode<V: ByteArrays>(
        dictionary: &mut ByteDictionary,
        values: &V,
        indices: &mut Indices,
    ) -> usize = encode_kernel;
}

/// The values of a dictionary, as a source for statistics or another encoding.
#[derive(Clone, Copy, Debug)]
pub struct Entries<'a> {
    page: &'a [u8],
    entries: &'a [Entry],
}

impl ByteArrays for Entries<'_> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline(always)]
    fn value(&self, row: usize) -> &[u8] {
        self.entries[row].bytes(self.page)
    }

    #[inline(always)]
    fn head(&self, row: usize) -> Head {
        let entry = &self.entries[row];
        Head {
            bytes: entry.head,
            len: entry.len,
        }
    }
}
