//! Dictionaries against direct encodings, in bytes of the file.
//!
//! A chunk begins with a dictionary where it may have one. Its first page is then weighed in every encoding, and goes
//! on in the lightest. Pages that follow are weighed against what a value took in that one.

use parquet_encode::rle::Symbol;

use crate::choose::Growth;

/// The cost of looking a value up, in bytes of a file; see `BYTES_WORTH_ONE` of the pages.
const LOOK_UP: f64 = 0.1;
/// Bytes of the header of a dictionary page.
const DICTIONARY_HEADER: usize = 16;
/// Pages after which a dictionary that cost more than it saved is given up.
const PAGES_TO_GIVE_UP: usize = 2;
/// The cost of a page with a dictionary, as a multiple of that without, above which it cost more than it saved. A few
/// bytes of a page say less than that about what it weighs without.
const GIVEN_UP_ABOVE: f64 = 1.05;
/// Entries below which a dictionary with many repeats is the best in any order of its values.
const FEW_ENTRIES: usize = 16;
/// Values in which a sequence is looked for, at least.
const LEAST_IN_SEQUENCE: usize = 1024;

/// The repeats among the values of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Repeats {
    /// Values.
    pub values: usize,
    /// Different ones.
    pub distinct: usize,
    /// Different ones in the first half of them.
    pub distinct_in_half: usize,
}

impl Repeats {
    /// The repeats among indices of a dictionary with `entries` entries. `in_order` if each entry has been added by the
    /// first index that refers to it, at least behind the first half.
    pub fn of<T: Symbol>(indices: &[T], entries: usize, in_order: bool) -> Self {
        let half = &indices[..indices.len() / 2];
        let distinct_in = |indices: &[T]| match indices {
            [] => 0,
            _ if in_order => {
                indices
                    .iter()
                    .fold(0, |last: u32, index| last.max((*index).into())) as usize
                    + 1
            }
            _ => marked(indices, entries),
        };
        Self {
            values: indices.len(),
            distinct: distinct_in(indices),
            distinct_in_half: distinct_in(half),
        }
    }

    /// Returns true if each value stands for so many others that the page of the dictionary weighs nothing.
    pub fn are_many(self, integers: bool) -> bool {
        // Few different integers may still be runs or steps, which deltas code in next to nothing.
        let least = if integers { 32 } else { 8 };
        self.distinct * least <= self.values
    }

    /// The number of last values of the page that show whether values come in sequences; `None` if they are so few
    /// different ones that it does not matter.
    pub fn window(self) -> Option<usize> {
        // Enough for a sequence of all of them to come eight times.
        let window = self.values.min((self.distinct * 8).max(LEAST_IN_SEQUENCE));
        (self.distinct >= FEW_ENTRIES).then_some(window)
    }
}

/// The number of different indices.
fn marked<T: Symbol>(indices: &[T], entries: usize) -> usize {
    let mut seen = vec![false; entries];
    let is_new = |index: &&T| !std::mem::replace(&mut seen[(**index).into() as usize], true);
    indices.iter().filter(is_new).count()
}

/// The neighbours of some indices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Neighbours {
    /// Indices that follow themselves.
    pub runs: usize,
    /// Indices that follow the same other index as the time before.
    pub sequences: usize,
}

impl Neighbours {
    /// The neighbours of indices of a dictionary with `entries` entries.
    pub fn of<T: Symbol>(indices: &[T], entries: usize) -> Self {
        let mut next = vec![u32::MAX; entries];
        let mut counts = Self::default();
        for pair in indices.windows(2) {
            let [one, other] = [pair[0].into(), pair[1].into()];
            let before = std::mem::replace(&mut next[one as usize], other);
            counts.runs += usize::from(one == other);
            counts.sequences += usize::from(before == other && one != other);
        }
        counts
    }
}

/// The weight of the first page with a dictionary.
#[derive(Debug, Clone, Copy)]
pub(super) struct DictionaryWeight {
    pub repeats: Repeats,
    /// The weight of the page's indices.
    pub indices: usize,
    /// The weight of the dictionary page.
    pub dictionary: usize,
    /// Bytes of the dictionary page before compression.
    pub dictionary_bytes: usize,
    /// Bytes that it may have.
    pub most_bytes: usize,
}

impl DictionaryWeight {
    /// The cost with the dictionary, as a share of that in a direct encoding in which the page weighs `direct`, over
    /// `values` values; `None` if nothing follows the page. `are_many` if values repeat so much that the dictionary
    /// weighs nothing.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub fn share_of(&self, direct: usize, values: Option<f64>, are_many: bool) -> f64 {
        let with = match values {
            None => (self.indices + self.dictionary + DICTIONARY_HEADER) as f64,
            // Both are small: what a look-up takes counts less than the error of the estimate.
            Some(_) if are_many => self.indices as f64 * 0.8,
            Some(values) => self.of_value(values) * self.repeats.values as f64,
        };
        with / direct.max(1) as f64
    }

    /// The weight of a value, over those that the dictionary serves before it is full or before `values` came.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn of_value(&self, values: f64) -> f64 {
        let (sampled, distinct) = (self.repeats.values as f64, self.repeats.distinct as f64);
        let growth = Growth::new(sampled, distinct, self.repeats.distinct_in_half as f64);
        let most_entries = self.most_bytes as f64 / (self.dictionary_bytes as f64 / distinct);
        let served = growth.values_for(most_entries).min(values.max(sampled));
        let entries = growth.distinct(served);
        let index_bits = |entries: f64| entries.log2().ceil().max(1.0);
        let bits = match growth {
            Growth::Uniform { .. } => index_bits(entries),
            // The wider indices are those of rare values, and a codec takes fewer bits for the others.
            Growth::Power { exponent, .. } => {
                let first = index_bits(distinct);
                first + (index_bits(entries) - first) * exponent
            }
        };
        // First occurrences have rising indices, which compress in a sample; over a row group they are few.
        let (first, ratio) = (
            distinct / sampled,
            self.indices as f64 / (sampled * index_bits(distinct) / 8.0),
        );
        let index_bytes = bits / 8.0 * (ratio.min(1.0) * (1.0 - first) + first);
        let page_bytes = entries / served * self.dictionary as f64 / distinct;
        index_bytes + page_bytes + LOOK_UP
    }
}

/// The cost of a dictionary against that of encoding without it, from the first page on, which decides on fallback as
/// pages come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Contest {
    /// The weight of a value without it.
    direct_weight: f64,
    /// The weight of a byte of the dictionary page.
    entry_weight: f64,
    dictionary_bytes: usize,
    pages: usize,
    /// The weight that the dictionary has saved since the first page.
    saved: f64,
}

impl Contest {
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    /// The lightest direct encoding of the first page has the weight `direct`.
    pub fn new(direct: usize, with: &DictionaryWeight) -> Self {
        Self {
            direct_weight: direct as f64 / with.repeats.values as f64,
            entry_weight: with.dictionary as f64 / with.dictionary_bytes as f64,
            dictionary_bytes: with.dictionary_bytes,
            pages: 0,
            saved: 0.0,
        }
    }

    /// Notes a page of `values` values whose indices took `indices` bytes. Returns true if the dictionary cost more
    /// than it saved, in all pages since the first.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub fn is_lost(&mut self, values: usize, indices: usize, dictionary_bytes: usize) -> bool {
        let added = dictionary_bytes.saturating_sub(self.dictionary_bytes);
        self.dictionary_bytes = dictionary_bytes;
        let with = indices as f64 + added as f64 * self.entry_weight + values as f64 * LOOK_UP;
        self.saved += values as f64 * self.direct_weight * GIVEN_UP_ABOVE - with;
        self.pages += 1;
        self.pages >= PAGES_TO_GIVE_UP && self.saved < 0.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Contest, DictionaryWeight, Neighbours, Repeats};

    proptest! {
        #[test]
        fn repeats_are_counted(indices in prop::collection::vec(0..50_u32, 0..200)) {
            let different = |indices: &[u32]| indices.iter().collect::<std::collections::HashSet<_>>().len();
            let repeats = Repeats::of(&indices, 50, false);
            prop_assert_eq!(repeats.values, indices.len());
            prop_assert_eq!(repeats.distinct, different(&indices));
            prop_assert_eq!(repeats.distinct_in_half, different(&indices[..indices.len() / 2]));
        }

        #[test]
        fn entries_in_the_order_of_their_indices_are_counted_by_the_last_of_them(
            values in prop::collection::vec(0..50_u32, 0..200)
        ) {
            let mut entries = Vec::new();
            let index = |value: &u32| {
                let known = entries.iter().position(|entry| entry == value).unwrap_or_else(|| {
                    entries.push(*value);
                    entries.len() - 1
                });
                u32::try_from(known).unwrap()
            };
            let indices: Vec<u32> = values.iter().map(index).collect();
            prop_assert_eq!(Repeats::of(&indices, 50, true), Repeats::of(&indices, 50, false));
        }
    }

    /// A page of 1,000 values, `distinct` of them different, and as many in its first half as when all are equally
    /// likely.
    fn page(distinct: usize, distinct_in_half: usize) -> DictionaryWeight {
        DictionaryWeight {
            repeats: Repeats {
                values: 1000,
                distinct,
                distinct_in_half,
            },
            indices: 1000,
            dictionary: distinct * 8,
            dictionary_bytes: distinct * 10,
            most_bytes: 2 << 20,
        }
    }

    #[test]
    fn a_dictionary_that_is_complete_costs_less_the_more_values_follow() {
        let complete = page(100, 100);
        assert!(complete.of_value(1e6) < 0.6 * complete.of_value(1e3));
    }

    #[test]
    fn a_dictionary_that_goes_on_growing_costs_no_less_however_many_follow() {
        let growing = page(900, 450);
        assert!(growing.of_value(1e6) > 0.9 * growing.of_value(1e3));
    }

    #[test]
    fn a_dictionary_that_may_be_larger_serves_more_values() {
        let small = DictionaryWeight {
            most_bytes: 64 << 10,
            ..page(500, 320)
        };
        let large = DictionaryWeight {
            most_bytes: 16 << 20,
            ..small
        };
        assert!(large.of_value(1e6) < 0.9 * small.of_value(1e6));
    }

    #[test]
    fn a_dictionary_is_given_up_when_it_cost_more_than_it_saved() {
        // A value takes 4 bytes without the dictionary, and 4.2 with what is allowed; an entry 0.8 of its 10.
        let mut contest = Contest::new(4000, &page(100, 100));
        let mut held = 1000;
        let mut page_of = |entries: usize| {
            held += entries * 10;
            contest.is_lost(1000, 1000, held)
        };
        assert!(!page_of(0), "saves 3,100");
        assert!(!page_of(600), "costs 1,700");
        assert!(!page_of(500), "costs 900");
        assert!(page_of(500));
    }

    #[test]
    fn values_in_sequences_follow_the_same_value_each_time() {
        let cycle: Vec<u32> = (0..100).cycle().take(10_000).collect();
        let expected = Neighbours {
            runs: 0,
            sequences: 10_000 - 101,
        };
        assert_eq!(Neighbours::of(&cycle, 100), expected);
        let scattered: Vec<u32> = (0..10_000_u32)
            .map(|row| row * row % 97 * (row / 97) % 89)
            .collect();
        assert!(Neighbours::of(&scattered, 100).sequences < 2_000);
    }

    #[test]
    fn runs_are_no_sequences() {
        let runs: Vec<u32> = (0..1000).map(|row| row / 100).collect();
        let expected = Neighbours {
            runs: 990,
            sequences: 0,
        };
        assert_eq!(Neighbours::of(&runs, 10), expected);
    }

    #[test]
    fn a_sequence_shows_in_the_window_of_its_repeats() {
        let cycle: Vec<u32> = (0..1201).cycle().take(20_000).collect();
        let window = Repeats::of(&cycle, 1201, true).window().unwrap();
        assert!(Neighbours::of(&cycle[20_000 - window..], 1201).sequences * 4 > window * 3);
        assert_eq!(Repeats::of(&[0_u32, 1, 0, 1], 2, true).window(), None);
    }
}
