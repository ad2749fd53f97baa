//! The sizes of an upload's parts.

/// Bytes of the first parts. S3 accepts 5 MiB and up.
const FIRST_BYTES: usize = 8 << 20;
/// Parts of one size: after each thousand the next are twice as large.
const SAME_SIZE: usize = 1000;
/// Stores take ten thousand parts; nine doublings of a thousand parts each are past the 5 TiB of S3.
const MOST_DOUBLINGS: usize = 9;

/// The size of the part with this number, counted from 0.
pub(crate) fn size(number: usize) -> usize {
    FIRST_BYTES << (number / SAME_SIZE).min(MOST_DOUBLINGS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_thousand_parts_hold_the_largest_object() {
        let sizes = (0..10_000).map(size);
        assert!(sizes.clone().sum::<usize>() > 5 << 40);
        assert!(sizes.clone().max().unwrap() <= 5 << 30);
        assert_eq!(sizes.min().unwrap(), 8 << 20);
    }

    #[test]
    fn the_first_eight_gigabytes_go_in_equal_parts() {
        assert!((0..1000).all(|number| size(number) == 8 << 20));
    }
}
