use proptest::prelude::*;

use super::encoded;
use crate::bitpack::{pack_u32_kernel, pack_u64_kernel, packed_size};
use crate::rle::{bit_width, encode, encode_indices_in, encode_run, index_width, size_bound};

/// Walks runs of values of `width` bits as the specification defines them; the last one may be padded.
///
/// Its own few lines, since the `parquet` crate opens its decoder only with features that the module does not have:
/// then every crate would be compiled twice. The fuzz target has that decoder as its oracle, and `pages` reads
/// dictionary indices and levels with it.
fn walk(body: &[u8], width: u8) -> Vec<u32> {
    let (mut at, mut values) = (0, vec![]);
    while at < body.len() {
        let (mut header, mut shift) = (0u64, 0);
        loop {
            header |= u64::from(body[at] & 0x7f) << shift;
            shift += 7;
            at += 1;
            if body[at - 1] < 0x80 {
                break;
            }
        }
        let count = (header >> 1) as usize;
        assert!(count > 0, "an empty run");
        if header & 1 == 1 {
            let bytes = &body[at..at + count * usize::from(width)];
            let bit = |bit: usize| u32::from(bytes[bit / 8] >> (bit % 8) & 1);
            let value = |index: usize| {
                (0..usize::from(width)).fold(0, |value, place| {
                    value | bit(index * usize::from(width) + place) << place
                })
            };
            values.extend((0..count * 8).map(value));
            at += bytes.len();
        } else {
            let size = usize::from(width).div_ceil(8);
            let mut value = [0; 4];
            value[..size].copy_from_slice(&body[at..at + size]);
            values.resize(values.len() + count, u32::from_le_bytes(value));
            at += size;
        }
    }
    values
}

pub(super) fn decode(body: &[u8], width: u8, count: usize) -> Vec<u32> {
    let mut values = walk(body, width);
    assert!(values.len() >= count, "a value is missing");
    values.truncate(count);
    values
}

/// Checks the runs; returns how many values they hold, padding and all.
pub(super) fn check_runs(body: &[u8], width: u8) -> usize {
    walk(body, width).len()
}

/// Values below `2^width` in runs, cycles and noise.
fn symbols() -> impl Strategy<Value = (u8, Vec<u32>)> {
    (0..=32u8).prop_flat_map(|width| {
        let mask = ((1u64 << width) - 1) as u32;
        let stretch = prop_oneof![
            (any::<u32>(), 1..100usize).prop_map(|(value, len)| vec![value; len]),
            prop::collection::vec(any::<u32>(), 1..100),
            prop::collection::vec(0..2u32, 1..100),
        ];
        let values = prop::collection::vec(stretch, 0..8)
            .prop_map(move |stretches| stretches.concat().iter().map(|value| value & mask).collect());
        (Just(width), values)
    })
}

proptest! {
    #[test]
    fn runs_come_back((width, values) in symbols()) {
        let body = encoded(|out| encode(&values, width, out));
        prop_assert!(body.len() <= size_bound(values.len(), width));
        let held = check_runs(&body, width);
        prop_assert!(held >= values.len() && held < values.len() + 8);
        if !values.is_empty() {
            prop_assert_eq!(decode(&body, width, values.len()), values);
        }
    }

    #[test]
    fn narrow_symbols_give_the_same_bytes(values in prop::collection::vec(0..4u8, 0..2000)) {
        let wide: Vec<u32> = values.iter().map(|value| u32::from(*value)).collect();
        let middle: Vec<u16> = values.iter().map(|value| u16::from(*value)).collect();
        let body = encoded(|out| encode(&wide, 2, out));
        prop_assert_eq!(&encoded(|out| encode(&values, 2, out)), &body);
        prop_assert_eq!(&encoded(|out| encode(&middle, 2, out)), &body);
    }

    #[test]
    fn packing_puts_bits_in_order(width in 0..=64u8, values in prop::collection::vec(any::<u64>(), 0..100)) {
        let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
        let values: Vec<u64> = values.iter().map(|value| value & mask).collect();
        let mut expected = vec![0u8; packed_size(values.len(), width)];
        for (index, value) in values.iter().enumerate() {
            for bit in 0..usize::from(width) {
                let at = index * usize::from(width) + bit;
                expected[at / 8] |= ((value >> bit & 1) as u8) << (at % 8);
            }
        }
        let packed = encoded(|out| {
            let start = out.len();
            out.resize(start + expected.len(), 0xff);
            pack_u64_kernel(&values, width, &mut out[start..]);
        });
        if width > 0 {
            prop_assert_eq!(&packed, &expected);
        }
        if (1..=32).contains(&width) {
            let narrow: Vec<u32> = values.iter().map(|value| *value as u32).collect();
            let packed = encoded(|out| {
                let start = out.len();
                out.resize(start + expected.len(), 0xff);
                pack_u32_kernel(&narrow, width, &mut out[start..]);
            });
            prop_assert_eq!(&packed, &expected);
        }
    }
}

#[test]
fn a_dictionary_of_one_entry_has_a_run_header() {
    let body = encoded(|out| encode_indices_in(&[0_u8; 1000], index_width(1), out));
    // The width, then 1000 << 1 as a varint, then a value of no bytes.
    assert_eq!(body, [0, 0xd0, 0x0f]);
}

#[test]
fn indices_of_no_values_are_a_width_alone() {
    assert_eq!(
        encoded(|out| encode_indices_in(&[0_u8; 0], index_width(0), out)),
        [0]
    );
    assert_eq!(
        encoded(|out| encode_indices_in(&[0_u8; 0], index_width(300), out)),
        [9]
    );
}

#[test]
fn a_bit_packed_tail_is_padded_to_eight_values() {
    let body = encoded(|out| encode(&[1u32, 2, 3], 2, out));
    assert_eq!(body, [0b11, 0b11_10_01, 0]);
}

#[test]
fn only_the_last_run_is_padded() {
    // Three odd values, a long run, three odd values: the run gives up five of its values to the first literal.
    let mut values = vec![1u32, 2, 3];
    values.extend([7; 100]);
    values.extend([1, 2, 3]);
    let body = encoded(|out| encode(&values, 3, out));
    assert_eq!(decode(&body, 3, values.len()), values);
    assert_eq!(check_runs(&body, 3), 8 + 95 + 8);
}

#[test]
fn a_long_literal_takes_several_runs() {
    let values: Vec<u32> = (0..20_000).map(|value| value * 7 % 1024).collect();
    let body = encoded(|out| encode(&values, 10, out));
    assert_eq!(decode(&body, 10, values.len()), values);
    assert!(body.len() <= size_bound(values.len(), 10));
}

#[test]
fn one_run_of_many() {
    let mut body = Vec::new();
    encode_run(300, 5_000_000, bit_width(300), &mut body);
    assert_eq!(decode(&body, 9, 5_000_000), vec![300; 5_000_000]);
}
