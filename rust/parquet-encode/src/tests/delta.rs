use std::fmt::Debug;

use parquet::basic::Encoding;
use parquet::data_type::{ByteArrayType, DataType, FixedLenByteArrayType, Int32Type, Int64Type};
use proptest::prelude::*;

use super::{as_offsets, as_views, byte_arrays, decoded, encoded, strings};
use crate::byte_arrays::{Offsets, Spans, Views};
use crate::delta::{self, Delta};
use crate::delta_bytes::{LengthScratch, encode_delta_byte_array, encode_delta_length_byte_array};
use crate::plain;

/// Ramps, extremes and noise of any width.
fn integers() -> impl Strategy<Value = Vec<i64>> {
    let stretch = prop_oneof![
        (any::<i64>(), -1000..1000i64, 1..200i64).prop_map(|(start, step, len)| {
            (0..len)
                .map(|at| start.wrapping_add(step.wrapping_mul(at)))
                .collect::<Vec<_>>()
        }),
        prop::collection::vec(prop::sample::select(vec![i64::MIN, i64::MAX, 0, -1, 1]), 1..50),
        (0..64u32)
            .prop_flat_map(|shift| prop::collection::vec(any::<i64>().prop_map(move |v| v >> shift), 1..300)),
    ];
    prop::collection::vec(stretch, 0..5).prop_map(|stretches| stretches.concat())
}

fn check<T: Delta + PartialEq + Debug, D: DataType<T = T>>(values: &[T]) {
    let body = encoded(|out| delta::encode(values, out));
    assert_eq!(
        decoded::<D>(Encoding::DELTA_BINARY_PACKED, 0, &body, values.len()),
        values
    );
}

proptest! {
    #[test]
    fn integers_come_back(values in integers()) {
        check::<_, Int64Type>(&values);
        let narrow: Vec<i32> = values.iter().map(|value| *value as i32).collect();
        check::<_, Int32Type>(&narrow);
        let narrow: Vec<i32> = values.iter().map(|value| (*value >> 32) as i32).collect();
        check::<_, Int32Type>(&narrow);
    }

    #[test]
    fn byte_arrays_come_back(values in strings()) {
        let (offsets, data) = as_offsets(&values);
        let (views, buffer) = as_views(&values);
        let offsets = Offsets { offsets: &offsets, data: &data };
        let views = Views { views: &views, buffers: &[&[], &buffer] };
        let expected = byte_arrays(&values);
        let scratch = || LengthScratch::default();

        let lengths: Vec<_> = values.iter().map(|value| value.len() as i32).collect();
        let body = encoded(|out| {
            encode_delta_length_byte_array(&lengths, |out| plain::encode_fixed_size(&views, out), out);
        });
        prop_assert_eq!(
            &decoded::<ByteArrayType>(Encoding::DELTA_LENGTH_BYTE_ARRAY, 0, &body, values.len()),
            &expected
        );

        let body = encoded(|out| encode_delta_byte_array(&offsets, &mut scratch(), out));
        prop_assert_eq!(&encoded(|out| encode_delta_byte_array(&views, &mut scratch(), out)), &body);
        prop_assert_eq!(&encoded(|out| encode_delta_byte_array(&values, &mut scratch(), out)), &body);
        prop_assert_eq!(&decoded::<ByteArrayType>(Encoding::DELTA_BYTE_ARRAY, 0, &body, values.len()), &expected);
    }

    #[test]
    fn sorted_strings_share_their_starts(mut values in strings()) {
        values.sort();
        let (offsets, data) = as_offsets(&values);
        let offsets = Offsets { offsets: &offsets, data: &data };
        let body = encoded(|out| encode_delta_byte_array(&offsets, &mut LengthScratch::default(), out));
        prop_assert_eq!(
            decoded::<ByteArrayType>(Encoding::DELTA_BYTE_ARRAY, 0, &body, values.len()),
            byte_arrays(&values)
        );
    }
}

#[test]
fn widths_on_wrap_around() {
    let extremes = [
        i64::MIN,
        i64::MAX,
        i64::MIN,
        0,
        i64::MAX,
        -1,
        i64::MIN + 1,
        i64::MAX - 1,
    ];
    let values: Vec<i64> = extremes.iter().copied().cycle().take(300).collect();
    check::<_, Int64Type>(&values);
    let extremes = [
        i32::MIN,
        i32::MAX,
        i32::MIN,
        0,
        i32::MAX,
        -1,
        i32::MIN + 1,
        i32::MAX - 1,
    ];
    let values: Vec<i32> = extremes.iter().copied().cycle().take(300).collect();
    check::<_, Int32Type>(&values);
    // A reader that packs into 32 bits fails on anything wider.
    let body = encoded(|out| delta::encode(&values, out));
    assert!(body.len() <= 20 + 3 * (10 + 4 + 128 * 4));
}

#[test]
fn every_length_around_the_block() {
    for count in [0, 1, 2, 31, 32, 33, 34, 127, 128, 129, 130, 256, 257, 258] {
        let values: Vec<i64> = (0..count).map(|value| value * value % 97).collect();
        check::<_, Int64Type>(&values);
    }
}

#[test]
fn a_page_of_no_values_is_a_header() {
    assert_eq!(encoded(|out| delta::encode::<i32>(&[], out)), [0x80, 1, 4, 0, 0]);
    assert_eq!(encoded(|out| delta::encode(&[-1i64], out)), [0x80, 1, 4, 1, 1]);
}

#[test]
fn miniblocks_without_values_have_no_width_and_no_bytes() {
    // Differences 1, 2, 3: the least is 1, and what is left takes two bits in the first miniblock.
    let body = encoded(|out| delta::encode(&[0i64, 1, 3, 6], out));
    assert_eq!(
        body,
        [0x80, 1, 4, 4, 0, 2, 2, 0, 0, 0, 0b10_01_00, 0, 0, 0, 0, 0, 0, 0]
    );
}

#[test]
fn nulls_leave_holes_in_the_data() {
    let data = b"oneXtwoYthree";
    let spans = [(0, 3), (4, 7), (8, 13)].map(|(start, end)| crate::byte_arrays::ByteSpan { start, end });
    let spans = Spans {
        spans: &spans,
        data,
        joined: false,
    };
    let body = encoded(|out| encode_delta_byte_array(&spans, &mut LengthScratch::default(), out));
    let expected = byte_arrays(&["one", "two", "three"]);
    assert_eq!(
        decoded::<ByteArrayType>(Encoding::DELTA_BYTE_ARRAY, 0, &body, 3),
        expected
    );
}

#[test]
fn fixed_size_binary_takes_delta_byte_array_too() {
    let values = crate::byte_arrays::FixedSize {
        data: b"aaabaaacabcd",
        width: 4,
        count: 3,
    };
    let body = encoded(|out| encode_delta_byte_array(&values, &mut LengthScratch::default(), out));
    let back = decoded::<FixedLenByteArrayType>(Encoding::DELTA_BYTE_ARRAY, 4, &body, 3);
    assert_eq!(
        back.iter().map(|value| value.data()).collect::<Vec<_>>().concat(),
        values.data
    );
}
