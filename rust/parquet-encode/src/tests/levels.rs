use proptest::prelude::*;

use super::rle::{check_runs, decode};
use super::{encoded, validity, with_bitmap};
use crate::levels::{LevelForm, encode_constant_levels, encode_levels, encode_validity};

proptest! {
    #[test]
    fn validity_bits_are_the_definition_levels(bits in validity(2000), offset in 0..20usize) {
        let runs = with_bitmap(&bits, offset, |bits| encoded(|out| encode_validity(bits, LevelForm::V2, out)));
        let held = check_runs(&runs, 1);
        prop_assert!(held >= bits.len() && held < bits.len() + 8);
        let levels: Vec<u32> = bits.iter().map(|bit| u32::from(*bit)).collect();
        if !bits.is_empty() {
            prop_assert_eq!(decode(&runs, 1, bits.len()), levels);
        }
        let sized = with_bitmap(&bits, offset, |bits| encoded(|out| encode_validity(bits, LevelForm::V1, out)));
        prop_assert_eq!(&sized[..4], (runs.len() as u32).to_le_bytes());
        prop_assert_eq!(&sized[4..], &runs);
    }

    #[test]
    fn nested_levels_come_back(levels in prop::collection::vec(0..=5u16, 1..1000)) {
        let runs = encoded(|out| encode_levels(&levels, 5, LevelForm::V2, out));
        let expected: Vec<u32> = levels.iter().map(|level| u32::from(*level)).collect();
        prop_assert_eq!(decode(&runs, 3, levels.len()), expected);
        let sized = encoded(|out| encode_levels(&levels, 5, LevelForm::V1, out));
        prop_assert_eq!(&sized[..4], (runs.len() as u32).to_le_bytes());
        prop_assert_eq!(&sized[4..], &runs);
    }
}

#[test]
fn a_column_without_nulls_is_one_run() {
    let all = vec![true; 1000];
    let runs = with_bitmap(&all, 3, |bits| {
        encoded(|out| encode_validity(bits, LevelForm::V2, out))
    });
    assert_eq!(
        runs,
        encoded(|out| encode_constant_levels(1, 1000, 1, LevelForm::V2, out))
    );
    assert_eq!(runs, [0xd0, 0x0f, 1]);
}

#[test]
fn levels_of_no_values() {
    with_bitmap(&[], 5, |bits| {
        assert_eq!(encoded(|out| encode_validity(bits, LevelForm::V2, out)), b"");
        assert_eq!(encoded(|out| encode_validity(bits, LevelForm::V1, out)), [0; 4]);
    });
    assert_eq!(
        encoded(|out| encode_levels::<u8>(&[], 3, LevelForm::V2, out)),
        b""
    );
    assert_eq!(
        encoded(|out| encode_constant_levels(1, 0, 1, LevelForm::V1, out)),
        [0; 4]
    );
}

#[test]
fn a_single_level_is_not_written() {
    assert_eq!(
        encoded(|out| encode_levels(&[0u8; 9], 0, LevelForm::V1, out)),
        b""
    );
    assert_eq!(
        encoded(|out| encode_constant_levels(0, 9, 0, LevelForm::V1, out)),
        b""
    );
}
