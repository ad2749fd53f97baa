use proptest::prelude::*;

use super::rle::{check_runs, decode};
use super::{encoded, validity, with_bitmap};
use crate::levels::{encode_constant_levels, encode_levels, encode_validity};

/// The runs behind their size, which must be right.
fn without_size(levels: &[u8]) -> &[u8] {
    let (size, runs) = levels.split_at(4);
    assert_eq!(size, (runs.len() as u32).to_le_bytes());
    runs
}

proptest! {
    #[test]
    fn validity_bits_are_the_definition_levels(bits in validity(2000), offset in 0..20usize) {
        let sized = with_bitmap(&bits, offset, |bits| encoded(|out| encode_validity(bits, out)));
        let runs = without_size(&sized);
        let held = check_runs(runs, 1);
        prop_assert!(held >= bits.len() && held < bits.len() + 8);
        let levels: Vec<u32> = bits.iter().map(|bit| u32::from(*bit)).collect();
        if !bits.is_empty() {
            prop_assert_eq!(decode(runs, 1, bits.len()), levels);
        }
    }

    #[test]
    fn nested_levels_come_back(levels in prop::collection::vec(0..=5u16, 1..1000)) {
        let sized = encoded(|out| encode_levels(&levels, 5, out));
        let expected: Vec<u32> = levels.iter().map(|level| u32::from(*level)).collect();
        prop_assert_eq!(decode(without_size(&sized), 3, levels.len()), expected);
    }
}

#[test]
fn a_column_without_nulls_is_one_run() {
    let all = vec![true; 1000];
    let runs = with_bitmap(&all, 3, |bits| encoded(|out| encode_validity(bits, out)));
    assert_eq!(runs, encoded(|out| encode_constant_levels(1, 1000, 1, out)));
    assert_eq!(without_size(&runs), [0xd0, 0x0f, 1]);
}

#[test]
fn levels_of_no_values() {
    with_bitmap(&[], 5, |bits| {
        assert_eq!(encoded(|out| encode_validity(bits, out)), [0; 4]);
    });
    assert_eq!(encoded(|out| encode_levels::<u8>(&[], 3, out)), [0; 4]);
    assert_eq!(encoded(|out| encode_constant_levels(1, 0, 1, out)), [0; 4]);
}

#[test]
fn a_single_level_is_not_written() {
    assert_eq!(encoded(|out| encode_levels(&[0u8; 9], 0, out)), b"");
    assert_eq!(encoded(|out| encode_constant_levels(0, 9, 0, out)), b"");
}
