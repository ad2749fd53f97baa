//! Dictionaries: each value once, and an index per row.
//!
//! `Encodings.md`, "Dictionary Encoding (`PLAIN_DICTIONARY` = 2 and `RLE_DICTIONARY` = 8)". A dictionary stores its
//! values in the form of its page. Indices count up from 0 in the order in which values first appear, so the same rows
//! give the same dictionary however they were cut into calls.
//!
//! Values are looked up in batches. The first passes over a batch have no branch that depends on the data: they hash,
//! load the home slot of each value, and compare it with the entry there. Only values that were not found take a
//! second, slower look.

mod bytes;
mod hash;
mod indices;
mod keys;
mod numbers;
mod rank;
mod used;

pub use bytes::{ByteDictionary, Entries};
pub use indices::Indices;
pub use keys::{DictionaryKey, KeyMap};
pub use numbers::{NumberDictionary, Word};
pub use used::UsedEntries;

/// The number of values that are looked up together, each with one bit of a word.
const BATCH: usize = 64;

/// Slots of a new table.
const LEAST_SLOTS: usize = 512;

/// The most taken slots that are probed for a new value, from its home on. Hashes have fixed seeds, so values can be
/// chosen that all have one home. A dictionary of them is given up before its cost grows with the square of their
/// number. Tables are at most a third full, so other values leave no run of taken slots nearly so long.
const MOST_PROBES: usize = 128;

/// The limits of a dictionary. It also ends at a value whose hash collides with too many others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DictionaryLimits {
    /// It takes no more entries than this.
    pub entries: usize,
    /// Its page grows no larger than this.
    pub bytes: usize,
    /// The widest range of integers that is looked up without a hash, in a table of so many slots.
    pub window: usize,
}

impl DictionaryLimits {
    /// The limits of the format: numbers of a page header, and indices of 31 bits.
    const FORMAT: Self = Self {
        entries: i32::MAX as usize,
        bytes: i32::MAX as usize,
        window: 1 << 16,
    };

    fn within_format(self) -> Self {
        Self {
            entries: self.entries.min(Self::FORMAT.entries),
            bytes: self.bytes.min(Self::FORMAT.bytes),
            window: self.window.min(Self::FORMAT.window),
        }
    }
}

impl Default for DictionaryLimits {
    /// The 1 MiB at which other writers stop.
    fn default() -> Self {
        Self {
            entries: usize::MAX,
            bytes: 1 << 20,
            window: Self::FORMAT.window,
        }
    }
}

/// What dictionaries of all types share.
pub trait Dictionary {
    /// The number of entries.
    #[must_use]
    fn len(&self) -> usize;

    /// Returns true if there are no entries.
    #[must_use]
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The body of the dictionary page, PLAIN.
    #[must_use]
    fn page(&self) -> &[u8];

    /// Sorts the entries by their number of occurrences in `indices`, the most frequent first. Updates `indices` and
    /// `map`.
    ///
    /// # Panics
    ///
    /// If an index names no entry.
    fn rank(&mut self, indices: &mut Indices, map: &mut KeyMap);

    /// The memory that was written. Vectors hold up to twice as much, which the operating system gives when it is used.
    #[must_use]
    fn memory_bytes(&self) -> usize;
}

/// An open-addressing table of entry numbers; 0 is a free slot. A value's home slot is given by the highest bits of its
/// 32-bit hash.
#[derive(Debug)]
struct EntryTable {
    slots: Vec<u32>,
    /// 32 less the bits that choose a slot.
    shift: u32,
}

impl EntryTable {
    fn new() -> Self {
        let mut table = Self {
            slots: Vec::new(),
            shift: 0,
        };
        table.reset(LEAST_SLOTS);
        table
    }

    /// Empties the table and gives it `slots` slots, a power of two.
    fn reset(&mut self, slots: usize) {
        self.slots.clear();
        self.slots.resize(slots, 0);
        self.shift = 32 - slots.trailing_zeros();
    }

    /// The number of slots that the table should grow to for `entries` entries; none if it has enough. Many columns
    /// share the cache: a sparse table displaces few of its own values and more of the others'.
    fn wanted(&self, entries: usize) -> Option<usize> {
        let slots = self.slots.len();
        let load = match slots {
            0..4096 => 8,
            4096..16384 => 4,
            _ => 3,
        };
        (entries * load > slots && slots < 1 << 31).then(|| slots * 2)
    }

    #[inline(always)]
    fn home(&self, tag: u32) -> usize {
        (tag >> self.shift) as usize
    }

    #[inline(always)]
    fn after(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots.len() - 1)
    }

    /// Puts in an entry that the table does not have.
    fn put(&mut self, tag: u32, entry: u32) {
        let mut slot = self.home(tag);
        while self.slots[slot] != 0 {
            slot = self.after(slot);
        }
        self.slots[slot] = entry;
    }

    fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u32>()
    }
}
