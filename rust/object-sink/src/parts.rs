//! The sizes of an upload's parts.

/// The size of the first parts in bytes. S3 accepts 5 MiB and more.
const FIRST_BYTES: usize = 8 << 20;
/// The number of parts of one size. After each thousand, parts are twice as large.
const SAME_SIZE: usize = 1000;
/// The most doublings. Stores take ten thousand parts, and nine doublings of a thousand parts each exceed the 5 TiB of
/// S3.
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
