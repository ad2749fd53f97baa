//! The sizes of an upload's parts.
//!
//! Stores take ten thousand parts. Some of them, such as Cloudflare R2, take only parts of one size, except for the
//! last. So nine thousand parts have one size. Those after them double, for stores that take parts of any size.

/// The sizes of the parts of an upload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartSizes {
    /// Bytes of the first parts.
    first: usize,
    /// Parts of this size. After them, parts double.
    equal: usize,
    /// Parts of each further size.
    doubled: usize,
}

/// The most doublings: no part has more than the 5 GiB of S3.
const MOST_DOUBLINGS: usize = 9;

impl Default for PartSizes {
    /// Parts of 8 MiB up to 70 GiB, and then larger ones up to a terabyte. S3 accepts 5 MiB and more.
    fn default() -> Self {
        Self {
            first: 8 << 20,
            equal: 9_000,
            doubled: 100,
        }
    }
}

impl PartSizes {
    /// The size of the part with this number, counted from 0.
    pub fn of(self, number: usize) -> usize {
        let doublings = match number.checked_sub(self.equal) {
            Some(further) => 1 + further / self.doubled,
            None => 0,
        };
        self.first << doublings.min(MOST_DOUBLINGS)
    }

    /// Small parts, for tests.
    #[cfg(test)]
    pub fn small(first: usize) -> Self {
        Self {
            first,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOST_PARTS: usize = 10_000;

    #[test]
    fn seventy_gigabytes_go_in_equal_parts_and_most_of_a_terabyte_in_ten_thousand() {
        let sizes = PartSizes::default();
        let equal = (0..MOST_PARTS).take_while(|number| sizes.of(*number) == sizes.of(0));
        assert!(equal.count() * sizes.of(0) >= 70 << 30);
        assert!((0..MOST_PARTS).map(|number| sizes.of(number)).sum::<usize>() > 900_000_000_000);
        assert!((0..MOST_PARTS).all(|number| (5 << 20..=5 << 30).contains(&sizes.of(number))));
    }

    proptest! {
        #[test]
        fn parts_are_equal_at_first_and_never_shrink(
            first in 1..100_usize,
            equal in 0..20_usize,
            doubled in 1..5_usize,
        ) {
            let sizes = PartSizes { first, equal, doubled };
            prop_assert!((0..equal).all(|number| sizes.of(number) == first));
            prop_assert!((0..100).all(|number| sizes.of(number) <= sizes.of(number + 1)));
            prop_assert!((equal..100).all(|number| sizes.of(number) >= 2 * first));
        }
    }
}
