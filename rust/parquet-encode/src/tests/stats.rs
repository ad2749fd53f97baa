use proptest::prelude::*;

use super::{as_offsets, strings, with_bitmap};
use crate::byte_arrays::{ByteArrays, FixedSize, Offsets};
use crate::stats::{
    ByteContent, Floats, MinMax, Picked, big_endian_decimals, bools, byte_arrays, compare_decimals, floats,
    half_floats, integers, lower_bound, merge, upper_bound,
};

proptest! {
    #[test]
    fn ranges_of_numbers(values in prop::collection::vec(any::<i64>(), 0..200)) {
        let range = integers(&values);
        prop_assert_eq!(range.map(|range| range.min), values.iter().copied().min());
        prop_assert_eq!(range.map(|range| range.max), values.iter().copied().max());
        prop_assert_eq!(range, crate::cpu::portably(|| integers(&values)));
        let (left, right) = values.split_at(values.len() / 3);
        prop_assert_eq!(range, merge(integers(left), integers(right)));
        let unsigned: Vec<u64> = values.iter().map(|value| value.cast_unsigned()).collect();
        prop_assert_eq!(integers(&unsigned).map(|range| range.max), unsigned.iter().copied().max());
        let wide: Vec<i128> = values.iter().map(|value| i128::from(*value) << 40).collect();
        prop_assert_eq!(integers(&wide).map(|range| range.min), wide.iter().copied().min());
        let floats_of: Vec<f64> = values.iter().map(|value| f64::from_bits(value.cast_unsigned())).collect();
        let numbers: Vec<f64> = floats_of.into_iter().filter(|value| !value.is_nan()).collect();
        let Floats { range, nans } = floats(&numbers);
        prop_assert_eq!(range.map(|range| range.min), numbers.iter().copied().min_by(f64::total_cmp));
        prop_assert_eq!(range.map(|range| range.max), numbers.iter().copied().max_by(f64::total_cmp));
        prop_assert_eq!(nans, 0);
        prop_assert_eq!(range, crate::cpu::portably(|| floats(&numbers)).range);
    }

    #[test]
    fn every_nan_is_counted_and_ends_the_range(
        numbers in prop::collection::vec(prop_oneof![any::<f64>(), Just(f64::NAN), Just(-f64::NAN)], 0..100),
    ) {
        let singles: Vec<f32> = numbers.iter().map(|value| *value as f32).collect();
        let nans = numbers.iter().filter(|value| value.is_nan()).count() as u64;
        let double = floats(&numbers);
        prop_assert_eq!((double.nans, double.range.is_some()), (nans, nans == 0 && !numbers.is_empty()));
        prop_assert_eq!(double, crate::cpu::portably(|| floats(&numbers)));
        let single = floats(&singles);
        prop_assert_eq!((single.nans, single.range.is_some()), (nans, nans == 0 && !numbers.is_empty()));
        prop_assert_eq!(single, crate::cpu::portably(|| floats(&singles)));
    }

    #[test]
    fn ranges_of_byte_arrays(values in strings()) {
        let (offsets, data) = as_offsets(&values);
        let source = Offsets { offsets: &offsets, data: &data };
        let range = byte_arrays(&source);
        prop_assert_eq!(range.map(|range| range.min.to_vec()), values.iter().min().cloned());
        prop_assert_eq!(range.map(|range| range.max.to_vec()), values.iter().max().cloned());
        prop_assert_eq!(crate::cpu::portably(|| byte_arrays(&source)), range);
        let rows: Vec<u32> = (0..values.len() as u32).step_by(3).collect();
        let picked = Picked { values: &source, rows: &rows };
        prop_assert_eq!(
            byte_arrays(&picked).map(|range| range.max.to_vec()),
            values.iter().step_by(3).max().cloned()
        );
    }

    #[test]
    fn decimals_have_signed_order(values in prop::collection::vec(any::<i128>(), 1..50), shift in 0..128) {
        let values: Vec<i128> = values.iter().map(|value| value >> shift).collect();
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_be_bytes()).collect();
        let source = FixedSize { data: &bytes, width: 16, count: values.len() };
        let range = big_endian_decimals(&source).unwrap();
        prop_assert_eq!(range.min, values.iter().min().unwrap().to_be_bytes());
        prop_assert_eq!(range.max, values.iter().max().unwrap().to_be_bytes());
        for pair in values.windows(2) {
            prop_assert_eq!(
                compare_decimals(&pair[0].to_be_bytes(), &pair[1].to_be_bytes()),
                pair[0].cmp(&pair[1])
            );
        }
        // Wider than a head: the sign in front, the number behind.
        let wide: Vec<u8> = values.iter().flat_map(|value| {
            let mut wide = [if *value < 0 { 0xff } else { 0 }; 20];
            wide[4..].copy_from_slice(&value.to_be_bytes());
            wide
        }).collect();
        let source = FixedSize { data: &wide, width: 20, count: values.len() };
        let range = big_endian_decimals(&source).unwrap();
        prop_assert_eq!(&range.min[4..], values.iter().min().unwrap().to_be_bytes());
        prop_assert_eq!(&range.max[4..], values.iter().max().unwrap().to_be_bytes());
    }

    #[test]
    fn bounds_hold(text in "\\PC{0,20}", bytes in prop::collection::vec(200..=255u8, 0..20), limit in 0..24usize) {
        for (value, content) in [(text.as_bytes(), ByteContent::Utf8), (&bytes[..], ByteContent::Binary), (&bytes[..], ByteContent::Utf8)] {
            let lower = lower_bound(value, limit, content);
            prop_assert!(&*lower.bytes <= value && lower.bytes.len() <= limit);
            prop_assert_eq!(lower.exact, &*lower.bytes == value);
            if let Some(upper) = upper_bound(value, limit, content) {
                prop_assert!(&*upper.bytes >= value && upper.bytes.len() <= limit);
                prop_assert_eq!(upper.exact, &*upper.bytes == value);
                if value == text.as_bytes() && content == ByteContent::Utf8 {
                    prop_assert!(std::str::from_utf8(&upper.bytes).is_ok());
                }
            } else {
                prop_assert!(value.len() > limit);
            }
        }
        prop_assert!(std::str::from_utf8(&lower_bound(text.as_bytes(), limit, ByteContent::Utf8).bytes).is_ok());
    }

    #[test]
    fn half_floats_have_the_order_of_numbers(values in prop::collection::vec(any::<u16>(), 0..100)) {
        // The value of a half float, by the book.
        let number = |bits: u16| {
            let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023) / 1024.0);
            let size = match exponent {
                0 => fraction * 2f64.powi(-14),
                31 if fraction == 0.0 => f64::INFINITY,
                31 => f64::NAN,
                _ => (1.0 + fraction) * 2f64.powi(exponent - 15),
            };
            if bits >> 15 == 1 { -size } else { size }
        };
        let numbers: Vec<f64> = values.iter().map(|bits| number(*bits)).collect();
        let (half, double) = (half_floats(&values), floats(&numbers));
        let range = half.range.map(|range| (number(range.min), number(range.max)));
        prop_assert_eq!(range, double.range.map(|range| (range.min, range.max)));
        prop_assert_eq!(half.nans, double.nans);
    }
}

#[test]
fn nan_ends_a_range_and_zeros_widen_it() {
    let some = floats(&[f64::NAN, 3.0, f64::NAN, -1.0]);
    assert_eq!((some.range, some.nans), (None, 2));
    let all = floats(&[f32::NAN; 40]);
    assert_eq!((all.range, all.nans), (None, 40));
    let empty = floats::<f32>(&[]);
    assert_eq!((empty.range, empty.nans), (None, 0));
    for values in [[0.0, 0.0], [-0.0, -0.0], [0.0, -0.0]] {
        let range = floats::<f64>(&values).range.unwrap();
        assert!(range.min.is_sign_negative() && range.max.is_sign_positive());
        let range = half_floats(&values.map(|zero| if zero.is_sign_negative() { 0x8000 } else { 0 }))
            .range
            .unwrap();
        assert_eq!((range.min, range.max), (0x8000, 0));
    }
    let range = floats(&[f32::INFINITY; 20]).range.unwrap();
    assert_eq!((range.min, range.max), (f32::INFINITY, f32::INFINITY));
    let halves = half_floats(&[0x7e00, 0, 0xfe00]);
    assert_eq!((halves.range, halves.nans), (None, 2));
}

#[test]
fn unsigned_integers_are_not_signed() {
    assert_eq!(
        integers(&[1u32, u32::MAX]),
        Some(MinMax {
            min: 1,
            max: u32::MAX
        })
    );
    assert_eq!(integers(&[1i32, -1]), Some(MinMax { min: -1, max: 1 }));
}

#[test]
fn unsigned_bytes_are_not_signed() {
    let values: [&[u8]; 3] = [b"\x7f", b"\x80", b""];
    let source = Rowed(&values);
    assert_eq!(
        byte_arrays(&source),
        Some(MinMax {
            min: &b""[..],
            max: &b"\x80"[..]
        })
    );
}

struct Rowed<'a>(&'a [&'a [u8]]);

impl ByteArrays for Rowed<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn value(&self, row: usize) -> &[u8] {
        self.0[row]
    }
}

#[test]
fn pages_of_nulls_have_no_range() {
    assert_eq!(integers::<i32>(&[]), None);
    assert_eq!(byte_arrays(&Rowed(&[])), None);
    assert_eq!(big_endian_decimals(&Rowed(&[])), None);
    with_bitmap(&[], 0, |bits| assert_eq!(bools(bits), None));
}

#[test]
fn ranges_of_booleans() {
    for (values, min, max) in [
        (&[true, true][..], true, true),
        (&[false], false, false),
        (&[true, false], false, true),
    ] {
        with_bitmap(values, 6, |bits| {
            assert_eq!(bools(bits), Some(MinMax { min, max }));
        });
    }
}

#[test]
fn a_text_maximum_is_incremented_when_cut() {
    let upper = |text: &str, limit| {
        upper_bound(text.as_bytes(), limit, ByteContent::Utf8)
            .map(|bound| String::from_utf8(bound.bytes.into()).unwrap())
    };
    assert_eq!(upper("abcdef", 3).as_deref(), Some("abd"));
    // Cut between characters, and the character before grows by a byte only where there is room.
    assert_eq!(upper("aé€x", 5).as_deref(), Some("aê"));
    assert_eq!(upper("a\u{7f}x", 2).as_deref(), Some("b"));
    assert_eq!(upper("a\u{7f}x", 3).as_deref(), Some("a\u{7f}x"));
    assert_eq!(upper("\u{d7ff}x", 3).as_deref(), Some("\u{e000}"));
    assert_eq!(upper("\u{10ffff}\u{10ffff}", 4), None);
    assert_eq!(upper("a\u{10ffff}x", 5).as_deref(), Some("b"));
    assert_eq!(upper("é", 1), None);
    assert_eq!(lower_bound("é".as_bytes(), 1, ByteContent::Utf8).bytes, &b""[..]);
    assert_eq!(upper_bound(b"\xff\xff\xff", 2, ByteContent::Binary), None);
    assert_eq!(
        upper_bound(b"\x01\xff\xff", 2, ByteContent::Binary)
            .unwrap()
            .bytes,
        &b"\x02"[..]
    );
}
