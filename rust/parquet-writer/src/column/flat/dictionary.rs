//! The part of a column that goes through a dictionary: its entries, and the indices of the page.

use arrow_array::ArrayRef;
use parquet_encode::dictionary::{
    ByteDictionary, Dictionary, Indices, KeyMap, NumberDictionary, UsedEntries, Word,
};
use parquet_encode::each_width;
use parquet_encode::rle::{self, Symbol};

use super::contest::{Neighbours, Repeats};
use super::preserved::{Preserved, Standing};
use super::source::RunValues;

/// Values of an Arrow dictionary above which mapping all of them for a run costs more than looking its keys up.
const MAPPED_VALUES: usize = 8192;

/// Different indices of less than a byte.
const NARROW: usize = 128;
/// The bits of indices by their frequency, as a share of those by their width, below which the difference is certain.
const UNEVEN: f64 = 0.95;
/// The share of one index among all, as a divisor, below which its code has several bits.
const MOST_FREQUENT: usize = 4;

/// A dictionary that a column may have; preserved where rows come with theirs.
pub(super) trait ColumnDictionary: Dictionary + Sized + Send {
    /// Adds the values of a dictionary that rows come with, as [`Standing::add`] does.
    fn preserve(&mut self, _: &mut Standing, _values: &ArrayRef, _room: &dyn Fn(usize) -> bool) -> bool {
        true
    }

    fn into_preserved(self, _: Standing) -> Option<Preserved> {
        None
    }
}

impl ColumnDictionary for ByteDictionary {
    fn preserve(&mut self, standing: &mut Standing, values: &ArrayRef, room: &dyn Fn(usize) -> bool) -> bool {
        standing.add(self, values, room)
    }

    fn into_preserved(self, standing: Standing) -> Option<Preserved> {
        let dictionary = self;
        Some(Preserved { dictionary, standing })
    }
}

impl<T: Word> ColumnDictionary for NumberDictionary<T> {}

/// A dictionary and the indices of the page that is not finished.
#[derive(Debug)]
pub(super) struct DictionaryEncoder<D> {
    pub dictionary: D,
    pub indices: Indices,
    /// The index of each value of the run's Arrow dictionary.
    pub keys: KeyMap,
    /// True if `keys` is in use.
    pub mapped: bool,
    /// The state of the column's preserved dictionaries, if there are any.
    standing: Option<Standing>,
    /// Entries of the dictionary when the page began.
    entries_before: usize,
    /// Indices of the first page whose entries were ranked.
    ranked: usize,
    used: UsedEntries,
}

impl DictionaryEncoder<ByteDictionary> {
    /// Begins with the values of dictionaries that rows come with.
    pub fn preserved(Preserved { dictionary, standing }: Preserved) -> Self {
        Self {
            standing: Some(standing),
            ..Self::new(dictionary)
        }
    }
}

impl<D: ColumnDictionary> DictionaryEncoder<D> {
    pub fn new(dictionary: D) -> Self {
        Self {
            entries_before: dictionary.len(),
            dictionary,
            indices: Indices::new(),
            keys: KeyMap::new(),
            mapped: false,
            standing: None,
            ranked: 0,
            used: UsedEntries::new(),
        }
    }

    /// Adds the values of an Arrow dictionary, where these are preserved. Returns `false`, and adds nothing, if the
    /// page's indices would then be too wide for `page` bytes.
    pub fn preserve(&mut self, values: &ArrayRef, page: usize) -> bool {
        let Some(standing) = &mut self.standing else {
            return true;
        };
        let (indices, entries) = (self.indices.len(), self.dictionary.len());
        let room = |new| indices <= index_capacity(entries + new, page);
        let done = self.dictionary.preserve(standing, values, &room);
        if self.dictionary.len() > entries {
            // No index of the page refers to them.
            self.entries_before = self.dictionary.len();
        }
        done
    }

    /// The preserved dictionary, once nothing is left to be encoded.
    pub fn into_preserved(self) -> Option<Preserved> {
        self.dictionary.into_preserved(self.standing?)
    }

    /// Prepares for a run of rows, of which the page takes up to `rows`.
    pub fn begin(&mut self, run: &RunValues<'_>, rows: usize) {
        self.indices.reserve(rows);
        if let RunValues::Keys { len, .. } = run {
            self.mapped = *len <= MAPPED_VALUES;
            if self.mapped {
                self.keys.reset(*len);
            }
        }
    }

    /// The number of further indices that go into a page of `page` bytes.
    pub fn room(&self, page: usize) -> usize {
        index_capacity(self.entries_before, page).saturating_sub(self.indices.len())
    }

    /// Drops the last `count` indices of the page and returns them; their entries stay.
    pub fn drop_last(&mut self, count: usize) -> Vec<u32> {
        let kept = self.indices.len().saturating_sub(count);
        let dropped = self.indices.to_vec(kept);
        self.indices.truncate(kept);
        dropped
    }

    /// Gives the most frequent of the values so far the smallest indices. Only the first page may have values.
    pub fn rank(&mut self) {
        if self.standing.is_none_or(|standing| standing.is_empty()) {
            self.ranked = self.indices.len();
            self.dictionary.rank(&mut self.indices, &mut self.keys);
        }
    }

    /// Notes that pages go on without it: a preserved dictionary takes no more values.
    pub fn end(&mut self) {
        if let Some(standing) = &mut self.standing {
            standing.end();
        }
    }

    /// Returns true if an earlier page refers to the dictionary.
    pub fn serves_earlier_pages(&self) -> bool {
        self.entries_before > 0
    }

    /// The repeats among the indices of the page.
    pub fn repeats(&self) -> Repeats {
        // Entries come in the order of the values, but for those that were ranked.
        let in_order = self.entries_before == 0 && self.indices.len() / 2 >= self.ranked;
        each_width!(&self.indices, 0, indices => Repeats::of(indices, self.dictionary.len(), in_order))
    }

    /// The neighbours of the page's last indices.
    pub fn neighbours(&self, last: usize) -> Neighbours {
        let start = self.indices.len().saturating_sub(last);
        each_width!(&self.indices, start, indices => Neighbours::of(indices, self.dictionary.len()))
    }

    /// Returns true if each index of the first page has an entry of its own.
    pub fn never_repeats(&self) -> bool {
        self.indices.len() == self.dictionary.len()
    }

    /// The bits that an index needs.
    pub fn width(&self) -> u8 {
        rle::index_width(self.dictionary.len())
    }

    /// Returns true if the page's indices from the one at `start` on, of 5 to 7 bits, are certain to compress better in
    /// a byte each: a codec that counts bytes takes fewer bits for each than their width, going by their frequency.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub fn suits_bytes(&self, start: usize) -> bool {
        let mut counts = [0_u32; NARROW];
        each_width!(&self.indices, start, indices => count(indices, &mut counts));
        let values = self.indices.len() - start;
        let all = (values as f64).log2();
        let used = || counts.iter().filter(|count| **count > 0);
        let bits: f64 = used()
            .map(|count| f64::from(*count) * (all - f64::from(*count).log2()))
            .sum();
        // A code has whole bits, one at least, so what is very frequent is better off with others in one byte.
        let most = used().max().copied().unwrap_or(0) as usize;
        // The codec's table takes up to half a byte for each entry.
        let symbols = bits + (self.dictionary.len() * 4) as f64;
        let width = usize::from(self.width());
        most * MOST_FREQUENT < values && width > 4 && symbols < (values * width) as f64 * UNEVEN
    }

    /// Appends the page's indices, in `width` bits at least; returns `false` when there is no entry to refer to.
    pub fn encode(&self, width: u8, out: &mut Vec<u8>) -> bool {
        let some = self.dictionary.len() > 0;
        if some {
            self.encode_from(0, width, out);
        }
        some
    }

    /// Appends the page's indices from the one at `start` on, in `width` bits at least.
    pub fn encode_from(&self, start: usize, width: u8, out: &mut Vec<u8>) {
        let width = self.width().max(width);
        each_width!(&self.indices, start, indices => rle::encode_indices_in(indices, width, out));
    }

    /// The dictionary, and the entries that the page refers to, ascending.
    pub fn used(&mut self) -> (&D, &[u32]) {
        (
            &self.dictionary,
            self.used.of(&self.indices, self.dictionary.len()),
        )
    }

    /// Ends the page.
    pub fn finish(&mut self) {
        self.indices.clear();
        self.entries_before = self.dictionary.len();
    }

    /// The body of the dictionary page and how many entries it has; `None` without entries.
    pub fn page(&self) -> Option<(&[u8], usize)> {
        let entries = self.dictionary.len();
        (entries > 0).then(|| (self.dictionary.page(), entries))
    }

    /// An upper bound of the bytes of the page's indices.
    pub fn pending_bytes(&self) -> usize {
        (self.indices.len() * most_bits(self.width().into())).div_ceil(8)
    }

    pub fn memory_bytes(&self) -> usize {
        self.dictionary.memory_bytes()
            + self.indices.memory_bytes()
            + self.keys.memory_bytes()
            + self.used.memory_bytes()
    }
}

fn count<T: Symbol>(indices: &[T], counts: &mut [u32; NARROW]) {
    for index in indices {
        counts[(*index).into() as usize % NARROW] += 1;
    }
}

/// The most bits of an index for a dictionary that needs `bits`: some widths are rounded up to whole bytes.
fn most_bits(bits: usize) -> usize {
    match bits {
        4..=8 => 8,
        9..=16 => 16,
        17..=24 => 24,
        bits => bits,
    }
}

/// Bits per index to reserve for a page. Widths 9-12 and 17-23 take whole bytes only where the page has room, so their
/// packed width is reserved.
fn bits_with_room(bits: usize) -> usize {
    match bits {
        9..=12 | 17..=23 => bits,
        bits => most_bits(bits),
    }
}

/// The number of indices that go into `page` bytes, for a dictionary with `entries` at the beginning of the page. Each
/// index may bring a new entry.
fn index_capacity(entries: usize, page: usize) -> usize {
    // Behind the width and between the headers of runs.
    let room = page.saturating_sub(8 + page / 32) * 8;
    let capacity = |bits: usize| room / bits_with_room(bits);
    let wide_enough = |bits: &usize| entries + capacity(*bits) <= 1 << bits;
    (1..=31).find(wide_enough).map_or(room / 32, capacity)
}

#[cfg(test)]
mod tests {
    use parquet_encode::dictionary::DictionaryLimits;
    use proptest::prelude::*;

    use super::*;

    fn compressed(indexed: &DictionaryEncoder<NumberDictionary<i32>>, width: u8) -> usize {
        let mut page = Vec::new();
        indexed.encode(width, &mut page);
        zstd::bulk::compress(&page, 1).unwrap().len()
    }

    proptest! {
        #[test]
        fn indices_that_are_certain_to_suit_bytes_are_smaller_in_bytes(
            values in 17..=128_i32,
            uneven in 1.0..6.0_f64,
            draws in prop::collection::vec(0.0..1.0_f64, 64..4096),
        ) {
            let mut indexed = DictionaryEncoder::new(NumberDictionary::new(DictionaryLimits::default()));
            let all: Vec<i32> = (0..values).collect();
            indexed.dictionary.encode(&all, &mut Indices::new());
            #[expect(clippy::cast_possible_truncation, reason = "below the number of values")]
            let drawn: Vec<i32> = draws.iter().map(|draw| (draw.powf(uneven) * f64::from(values)) as i32).collect();
            indexed.dictionary.encode(&drawn, &mut indexed.indices);
            if indexed.suits_bytes(0) {
                let (bytes, bits) = (compressed(&indexed, 8), compressed(&indexed, 0));
                prop_assert!(bytes <= bits + bits / 50 + 16, "{bytes} bytes against {bits}");
            }
        }
    }
}
