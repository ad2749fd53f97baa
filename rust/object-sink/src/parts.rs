//! The sizes of an upload's parts.
//!
//! Stores take ten thousand parts. Some of them, such as Cloudflare R2, take only parts of one size, except for the
//! last. So five thousand parts have one size. After them, the size doubles every 500 parts, for stores that take parts
//! of any size: the ten thousand parts hold the 5 TiB of the largest objects, and the parts of an object of 100 GB have
//! 64 MiB at most.

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
    /// Parts of 8 MiB up to 39 GiB, and then larger ones. S3 accepts 5 MiB and more.
    fn default() -> Self {
        Self {
            first: 8 << 20,
            equal: 5_000,
            doubled: 500,
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
    fn ten_thousand_parts_hold_the_largest_object() {
        let sizes = (0..MOST_PARTS).map(|number| PartSizes::default().of(number));
        assert!(sizes.clone().sum::<usize>() > 5 << 40);
        assert!(sizes.clone().max().unwrap() <= 5 << 30);
        assert_eq!(sizes.min().unwrap(), 8 << 20);
    }

    #[test]
    fn thirty_nine_gigabytes_go_in_equal_parts_and_a_hundred_in_small_ones() {
        let sizes = (0..MOST_PARTS).map(|number| PartSizes::default().of(number));
        let bytes_below = |size| sizes.clone().take_while(|part| *part < size).sum::<usize>();
        assert!(bytes_below(16 << 20) >= 39 << 30);
        assert!(bytes_below(128 << 20) >= 100_000_000_000);
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
