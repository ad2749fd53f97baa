//! The first bytes of least and greatest values, which are all that their bounds need.

use parquet_encode::stats::ByteContent;

/// Bytes of a bound in statistics and indexes; longer values are cut.
pub(super) const BOUND_BYTES: usize = 64;

/// The head of a least or a greatest value: as many bytes as decide where its bound is cut. Heads of one content have
/// the order of their values, except that values which differ only after them are equal. Those have the same bounds.
pub(super) fn head(value: &[u8], content: ByteContent) -> &[u8] {
    // One byte more than a bound tells that the value is cut, and where the last character of the bound ends.
    let end = value.len().min(BOUND_BYTES + 1);
    let continues = |at: &usize| value.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let rest = match content {
        ByteContent::Binary => 0,
        // Half a character would make the head bytes instead of text.
        ByteContent::Utf8 => (end..end + 3).take_while(continues).count(),
    };
    &value[..end + rest]
}

#[cfg(test)]
mod tests {
    use parquet_encode::stats;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Values that differ around the place where bounds are cut.
    fn texts() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let filler = prop_oneof![Just("a"), Just("é"), Just("€"), Just("\u{10ffff}")];
        let tail = vec(
            prop_oneof![
                Just('a'),
                Just('\u{7f}'),
                Just('é'),
                Just('€'),
                Just('\u{10ffff}')
            ],
            0..9,
        );
        (filler, vec((0..68_usize, tail), 1..12)).prop_map(|(filler, values)| {
            let text = |(bytes, tail): (usize, Vec<char>)| {
                let start = filler.repeat(bytes / filler.len());
                (start + &tail.into_iter().collect::<String>()).into_bytes()
            };
            values.into_iter().map(text).collect()
        })
    }

    fn binaries() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let tail = vec(prop_oneof![Just(0_u8), Just(0x80), Just(0xfe), Just(0xff)], 0..9);
        (
            prop_oneof![Just(0x80_u8), Just(0xff)],
            vec((58..68_usize, tail), 1..12),
        )
            .prop_map(|(filler, values)| {
                let value = |(bytes, tail): (usize, Vec<u8>)| [vec![filler; bytes], tail].concat();
                values.into_iter().map(value).collect()
            })
    }

    fn check(values: &[Vec<u8>], content: ByteContent) {
        let (least, greatest) = (values.iter().min().unwrap(), values.iter().max().unwrap());
        let heads = values.iter().map(|value| head(value, content));
        let (least_head, greatest_head) = (heads.clone().min().unwrap(), heads.max().unwrap());
        assert_eq!(
            stats::lower_bound(least_head, BOUND_BYTES, content),
            stats::lower_bound(least, BOUND_BYTES, content)
        );
        assert_eq!(
            stats::upper_bound(greatest_head, BOUND_BYTES, content),
            stats::upper_bound(greatest, BOUND_BYTES, content)
        );
        assert!(least_head.len().max(greatest_head.len()) <= BOUND_BYTES + 4);
    }

    proptest! {
        #[test]
        fn heads_have_the_bounds_of_text(values in texts()) {
            check(&values, ByteContent::Utf8);
        }

        #[test]
        fn heads_have_the_bounds_of_bytes(values in binaries()) {
            check(&values, ByteContent::Binary);
        }
    }
}
