//! Content-defined chunks: a stream of values is cut where its own bytes say so, and nothing else.
//!
//! After W. Xia et al., "`FastCDC`: a Fast and Efficient Content-Defined Chunking Approach for Data
//! Deduplication" (USENIX ATC 2016). A gear hash rolls over the bytes. Each byte shifts it by a bit, so that it depends
//! on the last 64 bytes alone. A chunk ends where the hash has no bit in common with a mask. The first bytes of a chunk
//! are not looked at, and the mask asks for more before the average size than behind it: sizes come close to that.

/// The sizes of chunks, in bytes of values before they are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkSizes {
    pub least: usize,
    pub most: usize,
}

/// Bits by which the masks before and behind the average size differ from that of chunks of equal odds.
const NORMALIZATION: u32 = 2;

/// A number for each byte. All numbers follow from a fixed seed, since files must not differ from run to run.
static GEAR: [u64; 256] = {
    let mut gear = [0; 256];
    let mut state = 0_u64;
    let mut byte = 0;
    while byte < gear.len() {
        // `SplitMix64`, by G. Steele et al., "Fast Splittable Pseudorandom Number Generators" (OOPSLA 2014).
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        gear[byte] = mixed ^ (mixed >> 31);
        byte += 1;
    }
    gear
};

/// Cuts a stream of values into chunks. A chunk ends with the value in which its end is found.
#[derive(Debug)]
pub(crate) struct Chunker {
    sizes: ChunkSizes,
    average: usize,
    /// The masks before and behind the average size.
    masks: [u64; 2],
    hash: u64,
    /// Bytes of the chunk so far.
    size: usize,
    ends: bool,
}

impl Chunker {
    pub fn new(sizes: ChunkSizes) -> Self {
        let average = sizes.least.midpoint(sizes.most);
        // One byte in so many ends a chunk, on average.
        let odds = (average - sizes.least).max(1).ilog2();
        let mask = |bits: u32| !(u64::MAX >> bits.clamp(1, u64::BITS - 1));
        Self {
            sizes,
            average,
            masks: [
                mask(odds + NORMALIZATION),
                mask(odds.saturating_sub(NORMALIZATION)),
            ],
            hash: 0,
            size: 0,
            ends: false,
        }
    }

    /// Takes bytes of a value.
    pub fn roll(&mut self, bytes: &[u8]) {
        let skipped = self.sizes.least.saturating_sub(self.size).min(bytes.len());
        let mask = self.masks[usize::from(self.size >= self.average)];
        self.size += bytes.len();
        for byte in &bytes[skipped..] {
            self.hash = (self.hash << 1).wrapping_add(GEAR[usize::from(*byte)]);
            self.ends |= self.hash & mask == 0;
        }
    }

    /// Returns true if the chunk ends here, and begins the next one then.
    pub fn end(&mut self) -> bool {
        let ends = self.ends || self.size >= self.sizes.most;
        if ends {
            self.hash = 0;
            self.size = 0;
            self.ends = false;
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZES: ChunkSizes = ChunkSizes {
        least: 256,
        most: 1024,
    };

    /// The sizes of chunks of a text, which is cut behind any byte. The last one may be short.
    fn chunks(bytes: &[u8]) -> Vec<usize> {
        let mut chunker = Chunker::new(SIZES);
        let mut sizes = vec![0];
        for byte in bytes {
            chunker.roll(&[*byte]);
            *sizes.last_mut().unwrap() += 1;
            if chunker.end() {
                sizes.push(0);
            }
        }
        sizes
    }

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 7_u64;
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..length).map(next).collect()
    }

    #[test]
    fn sizes_lie_between_their_bounds_and_around_the_average() {
        let mut sizes = chunks(&noise(1 << 20));
        sizes.pop();
        assert!(sizes.iter().all(|size| (SIZES.least..=SIZES.most).contains(size)));
        let average = (1 << 20) / sizes.len();
        assert!((512..768).contains(&average), "{average}");
        let at_most = sizes.iter().filter(|size| **size == SIZES.most).count();
        assert!(at_most * 10 < sizes.len(), "{at_most} of {}", sizes.len());
    }

    #[test]
    fn values_that_are_all_the_same_are_cut_by_size() {
        assert!(
            chunks(&[0; 10_000])
                .iter()
                .rev()
                .skip(1)
                .all(|size| *size <= SIZES.most)
        );
    }

    proptest! {
        #[test]
        fn an_insertion_changes_few_chunks(at in 0..100_000_usize, inserted in prop::collection::vec(any::<u8>(), 1..500)) {
            let before = noise(100_000);
            let after = [&before[..at], &inserted, &before[at..]].concat();
            let ends = |sizes: Vec<usize>, whole: usize| {
                let mut end = 0;
                let from_behind = sizes.into_iter().map(move |size| {
                    end += size;
                    whole - end
                });
                from_behind.collect::<std::collections::BTreeSet<_>>()
            };
            // Places are counted from the end, where both are the same.
            let (before_ends, after_ends) = (ends(chunks(&before), before.len()), ends(chunks(&after), after.len()));
            let behind = |place: &&usize| **place < before.len() - at;
            let lost = before_ends.iter().filter(behind).filter(|place| !after_ends.contains(place)).count();
            prop_assert!(lost < 64, "{lost}");
        }
    }
}
