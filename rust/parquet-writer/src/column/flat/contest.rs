//! Dictionaries against direct encodings, in bytes of the file.
//!
//! A chunk begins with a dictionary where it may have one. Its first page is then weighed in every encoding, and goes on
//! in the lightest. Pages that follow are weighed against what a value took in that one.

use crate::choose::{DICTIONARY_BYTES, Growth};

/// The cost of looking a value up, in bytes of a file; see `BYTES_WORTH_ONE` of the pages.
const LOOK_UP: f64 = 0.1;
/// Bytes of the header of a dictionary page.
const DICTIONARY_HEADER: usize = 16;
/// Pages after which a dictionary that cost more than it saved is given up.
const PAGES_TO_GIVE_UP: usize = 2;
/// Entries below which a dictionary with many repeats is the best in any order of its values.
const FEW_ENTRIES: usize = 16;
/// Values of a full page below which each is large.
const FEW_VALUES: usize = 8;

/// The repeats among the values of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Repeats {
    /// Values.
    pub values: usize,
    /// Different ones.
    pub distinct: usize,
    /// Different ones in the first half of them.
    pub distinct_in_half: usize,
    /// Values that follow the same value as the time before.
    pub in_sequence: usize,
}

impl Repeats {
    /// The repeats among indices of a dictionary with `entries` entries.
    pub fn of(indices: &[u32], entries: usize) -> Self {
        let mut seen = vec![false; entries];
        let mut new = |indices: &[u32]| {
            let is_new = |index: &&u32| !std::mem::replace(&mut seen[**index as usize], true);
            indices.iter().filter(is_new).count()
        };
        let (half, rest) = indices.split_at(indices.len() / 2);
        let distinct_in_half = new(half);
        Self {
            values: indices.len(),
            distinct: distinct_in_half + new(rest),
            distinct_in_half,
            in_sequence: in_sequence(indices, entries),
        }
    }

    /// Returns true if each value stands for so many others that the page of the dictionary weighs nothing.
    fn are_many(self, integers: bool) -> bool {
        // Few different integers may still be runs or steps, which deltas code in next to nothing.
        let least = if integers { 32 } else { 8 };
        self.distinct * least <= self.values
    }

    /// Returns true if a dictionary is the best without being weighed, in a page that others follow or in the only one.
    /// Values so large that a page has a few of them are looked up until the dictionary is full: none of them may repeat
    /// in one page, and each that does saves much.
    pub fn are_plain_to_see(self, integers: bool, others_follow: bool) -> bool {
        (others_follow && self.values < FEW_VALUES) || (self.are_many(integers) && !self.are_in_sequence())
    }

    /// Returns true if most values follow each other in sequences that come again. A codec finds these among values
    /// better than among packed indices.
    fn are_in_sequence(self) -> bool {
        self.distinct >= FEW_ENTRIES && self.in_sequence * 4 > self.values * 3
    }
}

/// The number of indices that follow the same index as the time before.
fn in_sequence(indices: &[u32], entries: usize) -> usize {
    let mut next = vec![u32::MAX; entries];
    let follows = |pair: &&[u32]| std::mem::replace(&mut next[pair[0] as usize], pair[1]) == pair[1];
    indices.windows(2).filter(follows).count()
}

/// The weight of the first page with a dictionary.
#[derive(Debug, Clone, Copy)]
pub(super) struct Indexed {
    pub repeats: Repeats,
    /// The weight of the page's indices.
    pub indices: usize,
    /// The weight of the dictionary page.
    pub dictionary: usize,
    /// Bytes of the dictionary page before compression.
    pub dictionary_bytes: usize,
}

impl Indexed {
    /// Returns true if the dictionary costs less than a direct encoding in which the page weighs `direct`, over `values`
    /// values.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub fn pays(&self, direct: usize, values: f64, integers: bool) -> bool {
        if self.repeats.are_many(integers) {
            // Both are small: what a look-up takes counts less than the error of the estimate.
            return self.indices * 4 < direct * 5;
        }
        self.of_value(values) < direct as f64 / self.repeats.values as f64
    }

    /// The weight where nothing follows.
    pub fn whole(&self) -> usize {
        self.indices + self.dictionary + DICTIONARY_HEADER
    }

    /// The weight of a value, over those that the dictionary serves before it is full or before `values` came.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn of_value(&self, values: f64) -> f64 {
        let (sampled, distinct) = (self.repeats.values as f64, self.repeats.distinct as f64);
        let growth = Growth::new(sampled, distinct, self.repeats.distinct_in_half as f64);
        let most_entries = DICTIONARY_BYTES as f64 / (self.dictionary_bytes as f64 / distinct);
        let served = growth.values_for(most_entries).min(values.max(sampled));
        let entries = growth.distinct(served);
        let index_bits = |entries: f64| entries.log2().ceil().max(1.0);
        // First occurrences have rising indices, which compress in a sample; over a row group they are few.
        let (first, ratio) = (
            distinct / sampled,
            self.indices as f64 / (sampled * index_bits(distinct) / 8.0),
        );
        let index_bytes = index_bits(entries) / 8.0 * (ratio.min(1.0) * (1.0 - first) + first);
        let page_bytes = entries / served * self.dictionary as f64 / distinct;
        index_bytes + page_bytes + LOOK_UP
    }
}

/// A dictionary that won the first page narrowly enough to be watched.
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
    pub fn new(direct: usize, with: &Indexed) -> Self {
        Self {
            direct_weight: direct as f64 / with.repeats.values as f64,
            entry_weight: with.dictionary as f64 / with.dictionary_bytes as f64,
            dictionary_bytes: with.dictionary_bytes,
            pages: 0,
            saved: 0.0,
        }
    }

    /// Notes a page of `values` values whose indices took `indices` bytes. Returns true if the dictionary cost more than
    /// it saved, in all pages since the first.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub fn is_lost(&mut self, values: usize, indices: usize, dictionary_bytes: usize) -> bool {
        let added = dictionary_bytes.saturating_sub(self.dictionary_bytes);
        self.dictionary_bytes = dictionary_bytes;
        let with = indices as f64 + added as f64 * self.entry_weight + values as f64 * LOOK_UP;
        self.saved += values as f64 * self.direct_weight - with;
        self.pages += 1;
        self.pages >= PAGES_TO_GIVE_UP && self.saved < 0.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Contest, Indexed, Repeats};

    proptest! {
        #[test]
        fn repeats_are_counted(indices in prop::collection::vec(0..50_u32, 0..200)) {
            let different = |indices: &[u32]| indices.iter().collect::<std::collections::HashSet<_>>().len();
            let repeats = Repeats::of(&indices, 50);
            prop_assert_eq!(repeats.values, indices.len());
            prop_assert_eq!(repeats.distinct, different(&indices));
            prop_assert_eq!(repeats.distinct_in_half, different(&indices[..indices.len() / 2]));
        }
    }

    /// A page of 1,000 values, `distinct` of them different, and as many in its first half as when all are equally
    /// likely.
    fn page(distinct: usize, distinct_in_half: usize) -> Indexed {
        Indexed {
            repeats: Repeats {
                values: 1000,
                distinct,
                distinct_in_half,
                in_sequence: 0,
            },
            indices: 1000,
            dictionary: distinct * 8,
            dictionary_bytes: distinct * 10,
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
    fn a_dictionary_is_given_up_when_it_cost_more_than_it_saved() {
        // A value takes 4 bytes without the dictionary, and an entry 0.8 of its 10.
        let mut contest = Contest::new(4000, &page(100, 100));
        let mut held = 1000;
        let mut page_of = |entries: usize| {
            held += entries * 10;
            contest.is_lost(1000, 1000, held)
        };
        assert!(!page_of(0), "saves 2,900");
        assert!(!page_of(500), "costs 1,100");
        assert!(!page_of(500), "costs 1,100");
        assert!(page_of(500));
    }

    #[test]
    fn sequences_that_come_again_are_tried_without_a_dictionary() {
        let cycle: Vec<u32> = (0..100).cycle().take(10_000).collect();
        assert!(Repeats::of(&cycle, 100).are_in_sequence());
        let scattered: Vec<u32> = (0..10_000_u32).map(|row| row * row % 97).collect();
        let scattered: Vec<u32> = scattered
            .iter()
            .zip(cycle.iter().rev())
            .map(|(a, b)| (a * b) % 89)
            .collect();
        assert!(!Repeats::of(&scattered, 100).are_in_sequence());
    }
}
