use parquet::basic::Encoding;
use parquet::data_type::{
    BoolType, ByteArrayType, DoubleType, FixedLenByteArrayType, FloatType, Int32Type, Int64Type,
};
use proptest::prelude::*;

use super::{as_offsets, as_views, byte_arrays, decoded, encoded, strings, validity, with_bitmap};
use crate::bitmap::Bitmap;
use crate::byte_arrays::{ByteArrays, FixedSize, Offsets, RowRange, Spans, Views};
use crate::compact::{compact, compact_bits, compact_offsets};
use crate::fixed::as_bytes;
use crate::{byte_stream_split, plain};

fn kept<T: Clone>(values: &[T], validity: &[bool]) -> Vec<T> {
    values
        .iter()
        .zip(validity)
        .filter(|(_, valid)| **valid)
        .map(|(value, _)| value.clone())
        .collect()
}

proptest! {
    #[test]
    fn fixed_values_come_back(values in prop::collection::vec(any::<i64>(), 0..500)) {
        let floats: Vec<f64> = values.iter().map(|value| *value as f64).collect();
        let singles: Vec<f32> = values.iter().map(|value| *value as f32).collect();
        let ints: Vec<i32> = values.iter().map(|value| *value as i32).collect();
        let n = values.len();
        let plain = Encoding::PLAIN;
        prop_assert_eq!(decoded::<Int64Type>(plain, 0, &encoded(|out| plain::encode_fixed(&values, out)), n), &values[..]);
        prop_assert_eq!(decoded::<Int32Type>(plain, 0, &encoded(|out| plain::encode_fixed(&ints, out)), n), &ints[..]);
        prop_assert_eq!(decoded::<DoubleType>(plain, 0, &encoded(|out| plain::encode_fixed(&floats, out)), n), &floats[..]);
        let split = Encoding::BYTE_STREAM_SPLIT;
        let body = encoded(|out| byte_stream_split::encode(as_bytes(&values), 8, out));
        prop_assert_eq!(decoded::<Int64Type>(split, 0, &body, n), &values[..]);
        let body = encoded(|out| byte_stream_split::encode(as_bytes(&floats), 8, out));
        prop_assert_eq!(decoded::<DoubleType>(split, 0, &body, n), floats);
        let body = encoded(|out| byte_stream_split::encode(as_bytes(&singles), 4, out));
        prop_assert_eq!(decoded::<FloatType>(split, 0, &body, n), singles);
    }

    #[test]
    fn fixed_size_values_come_back(width in 1..40usize, bytes in prop::collection::vec(any::<u8>(), 0..9000)) {
        let count = bytes.len() / width;
        let data = &bytes[..count * width];
        let values = FixedSize { data, width, count };
        let expected: Vec<&[u8]> = data.chunks(width).collect();
        let bodies = [
            (Encoding::PLAIN, encoded(|out| plain::encode_fixed_size(&values, out))),
            (Encoding::PLAIN, encoded(|out| plain::encode_fixed_size(&expected, out))),
            (Encoding::BYTE_STREAM_SPLIT, encoded(|out| byte_stream_split::encode(data, width, out))),
        ];
        for (encoding, body) in bodies {
            let values = decoded::<FixedLenByteArrayType>(encoding, width as i32, &body, count);
            let values: Vec<&[u8]> = values.iter().map(|value| value.data()).collect();
            prop_assert_eq!(&values, &expected);
        }
    }

    #[test]
    fn byte_arrays_come_back_from_every_source(values in strings(), from in 0..50usize) {
        let (offsets, data) = as_offsets(&values);
        let (views, buffer) = as_views(&values);
        let offsets = Offsets { offsets: &offsets, data: &data };
        let views = Views { views: &views, buffers: &[&[], &buffer] };
        let body = encoded(|out| plain::encode_byte_arrays(&offsets, out));
        prop_assert_eq!(&encoded(|out| plain::encode_byte_arrays(&views, out)), &body);
        prop_assert_eq!(&encoded(|out| plain::encode_byte_arrays(&values, out)), &body);
        prop_assert_eq!(decoded::<ByteArrayType>(Encoding::PLAIN, 0, &body, values.len()), byte_arrays(&values));

        let from = from.min(values.len());
        let rows = RowRange { values: &offsets, start: from, count: values.len() - from };
        let body = encoded(|out| plain::encode_byte_arrays(&rows, out));
        prop_assert_eq!(&body, &encoded(|out| plain::encode_byte_arrays(&values[from..].to_vec(), out)));
        for row in 0..values.len() {
            prop_assert_eq!(offsets.head(row), views.head(row));
            prop_assert_eq!(offsets.head(row), ByteArrays::head(&values, row));
            prop_assert_eq!(offsets.value(row), views.value(row));
        }
    }

    #[test]
    fn booleans_come_back(bits in validity(1000), valid in validity(1000), offset in 0..20usize) {
        let both = bits.len().min(valid.len());
        let body = with_bitmap(&bits, offset, |bits| encoded(|out| plain::encode_bools(bits, out)));
        prop_assert_eq!(decoded::<BoolType>(Encoding::PLAIN, 0, &body, bits.len()), &bits[..]);
        if !bits.is_empty() {
            let body = with_bitmap(&bits, offset, |bits| encoded(|out| plain::encode_bools_rle(bits, out)));
            prop_assert_eq!(decoded::<BoolType>(Encoding::RLE, 0, &body, bits.len()), &bits[..]);
        }
        let expected = kept(&bits[..both], &valid[..both]);
        let body = with_bitmap(&bits[..both], offset, |bits| with_bitmap(&valid[..both], 3, |valid| {
            let mut bytes = Vec::new();
            compact_bits(bits, valid, &mut bytes);
            assert_eq!(bytes.iter().map(|byte| *byte == 1).collect::<Vec<_>>(), expected);
            encoded(|out| plain::pack_bools(&bytes, out))
        }));
        prop_assert_eq!(decoded::<BoolType>(Encoding::PLAIN, 0, &body, expected.len()), expected);
    }

    #[test]
    fn garbage_under_nulls_is_left_out(valid in validity(3000), offset in 0..9usize) {
        let values: Vec<u32> = (0..valid.len() as u32).collect();
        let wide: Vec<[u8; 12]> = values.iter().map(|value| [*value as u8; 12]).collect();
        with_bitmap(&valid, offset, |bits| {
            let mut out = vec![99];
            compact(&values, bits, &mut out);
            assert_eq!(out[0], 99);
            assert_eq!(out[1..], kept(&values, &valid));
            let mut portable = vec![];
            crate::cpu::portably(|| compact(&values, bits, &mut portable));
            assert_eq!(out[1..], portable);
            let mut out = vec![];
            compact(&wide, bits, &mut out);
            assert_eq!(out, kept(&wide, &valid));
        });
    }

    #[test]
    fn nulls_of_byte_arrays_are_left_out(values in strings(), valid in validity(400), empty in any::<bool>()) {
        let both = values.len().min(valid.len());
        let (mut values, valid) = (values[..both].to_vec(), &valid[..both]);
        if empty {
            for (value, valid) in values.iter_mut().zip(valid) {
                if !valid {
                    value.clear();
                }
            }
        }
        let (offsets, data) = as_offsets(&values);
        let mut spans = vec![];
        let range = with_bitmap(valid, 2, |valid| compact_offsets(&offsets, valid, &mut spans));
        prop_assert!(range.is_some() || !empty);
        let expected = kept(&values, valid);
        let spans = Spans { spans: &spans, data: &data, joined: range.is_some() };
        prop_assert_eq!(spans.len(), expected.len());
        for (row, value) in expected.iter().enumerate() {
            prop_assert_eq!(spans.value(row), &value[..]);
        }
        if let Some(range) = range {
            prop_assert_eq!(&data[range], &expected.concat()[..]);
        }
        prop_assert_eq!(spans.total_bytes(), expected.concat().len());
    }

    #[test]
    fn slices_of_bitmaps(bits in validity(500), offset in 0..20usize, from in 0..600usize, len in 0..600usize) {
        let from = from.min(bits.len());
        let len = len.min(bits.len() - from);
        let expected = bits[from..from + len].to_vec();
        with_bitmap(&bits, offset, |bits| {
            let slice = bits.slice(from, len);
            assert_eq!(slice.len(), len);
            assert_eq!((0..len).map(|at| slice.get(at)).collect::<Vec<_>>(), expected);
            assert_eq!(slice.count_ones(), expected.iter().filter(|bit| **bit).count());
        });
    }

    #[test]
    fn decimals_are_big_endian(values in prop::collection::vec(-1_000_000i128..1_000_000, 0..50)) {
        for width in [3, 16, 20] {
            let body = encoded(|out| plain::encode_decimals(&values, width, out));
            let back: Vec<i128> = body.chunks(width).map(|bytes| {
                let sign = if bytes[0] & 0x80 == 0 { 0 } else { -1 };
                bytes.iter().fold(sign, |value: i128, byte| value << 8 | i128::from(*byte))
            }).collect();
            prop_assert_eq!(&back, &values);
        }
    }
}

#[test]
fn a_bitmap_must_be_long_enough() {
    assert!(Bitmap::new(&[1, 2], 3, 13).is_some());
    assert!(Bitmap::new(&[1, 2], 3, 14).is_none());
    assert!(Bitmap::new(&[], 0, 0).is_some());
    assert!(Bitmap::new(&[], 9, 0).is_none());
    assert!(Bitmap::new(&[1], usize::MAX, 2).is_none());
}

#[test]
fn offsets_of_nothing() {
    let none = Offsets::<i64> {
        offsets: &[],
        data: &[],
    };
    assert!(none.is_empty());
    assert_eq!(encoded(|out| plain::encode_byte_arrays(&none, out)), b"");
}
