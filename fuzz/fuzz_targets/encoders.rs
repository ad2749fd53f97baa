//! Arbitrary values through every encoder, read back by the decoders of the `parquet` crate.

#![no_main]

use std::fmt::Debug;
use std::sync::Arc;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use parquet::basic::{Encoding, Type as Physical};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FixedLenByteArrayType, FloatType, Int32Type,
    Int64Type,
};
use parquet::encodings::decoding::get_decoder;
use parquet::encodings::rle::RleDecoder;
use parquet::schema::types::{ColumnDescriptor, ColumnPath, Type};
use parquet_encode::bitmap::Bitmap;
use parquet_encode::bloom::{BloomFilter, hash_bytes, hash_fixed};
use parquet_encode::byte_arrays::{ByteArrays, FixedSize, Offsets};
use parquet_encode::compact::compact;
use parquet_encode::delta::{self, Delta};
use parquet_encode::delta_bytes::{self, LengthScratch};
use parquet_encode::dictionary::{ByteDictionary, Dictionary, DictionaryLimits, Indices, NumberDictionary};
use parquet_encode::fixed::as_bytes;
use parquet_encode::levels::{encode_levels, encode_validity};
use parquet_encode::stats::{self, ByteContent};
use parquet_encode::{byte_stream_split, plain, rle};

/// A value that is repeated, so that few bytes of input make long runs.
type Runs<T> = Vec<(T, u8)>;

#[derive(Arbitrary, Debug)]
enum Input {
    Narrow(Runs<i32>),
    Wide(Runs<i64>),
    Steps { start: i64, steps: Runs<i64> },
    Floats(Runs<f64>),
    Singles(Runs<f32>),
    Texts { texts: Runs<Vec<u8>>, limit: u8 },
    Fixed { width: u8, bytes: Vec<u8> },
    Bits { bits: Runs<bool>, offset: u8 },
    Indices { width: u8, runs: Runs<u32> },
    Levels { most: u8, runs: Runs<u8> },
}

fuzz_target!(|input: Input| match input {
    Input::Narrow(runs) => narrow(&repeated(runs)),
    Input::Wide(runs) => wide(&repeated(runs)),
    Input::Steps { start, steps } => wide(&sums(start, &repeated(steps))),
    Input::Floats(runs) => floats(&repeated(runs)),
    Input::Singles(runs) => singles(&repeated(runs)),
    Input::Texts { texts, limit } => byte_arrays(&repeated(texts), usize::from(limit)),
    Input::Fixed { width, bytes } => fixed_size(usize::from(width % 40) + 1, &bytes),
    Input::Bits { bits, offset } => bits_and_validity(&repeated(bits), usize::from(offset)),
    Input::Indices { width, runs } => indices(width % 33, &repeated(runs)),
    Input::Levels { most, runs } => levels(u32::from(most), &repeated(runs)),
});

fn repeated<T: Clone>(runs: Runs<T>) -> Vec<T> {
    let repeat = |(value, count): (T, u8)| std::iter::repeat_n(value, usize::from(count) + 1);
    runs.into_iter().flat_map(repeat).collect()
}

fn sums(start: i64, steps: &[i64]) -> Vec<i64> {
    let next = |sum: &mut i64, step: &i64| {
        *sum = sum.wrapping_add(*step);
        Some(*sum)
    };
    steps.iter().scan(start, next).collect()
}

fn body(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = b"before".to_vec();
    encode(&mut out);
    assert_eq!(&out[..6], b"before", "what was there is overwritten");
    out.split_off(6)
}

/// The values of a page body, of which there are `count` and no more.
fn decoded<T: DataType>(encoding: Encoding, width: usize, body: &[u8], count: usize) -> Vec<T::T> {
    let physical = T::get_physical_type();
    let mut column = Type::primitive_type_builder("column", physical);
    if physical == Physical::FIXED_LEN_BYTE_ARRAY {
        column = column.with_length(i32::try_from(width).unwrap());
    }
    let path = ColumnPath::new(vec!["column".into()]);
    let column = ColumnDescriptor::new(Arc::new(column.build().unwrap()), 0, 0, path);
    let mut decoder = get_decoder::<T>(Arc::new(column), encoding).unwrap();
    decoder.set_data(body.to_vec().into(), count).unwrap();
    let mut values = vec![T::T::default(); count];
    assert_eq!(decoder.get(&mut values).unwrap(), count);
    assert_eq!(decoder.values_left(), 0);
    values
}

fn delta_comes_back<T: Delta + PartialEq + Debug, D: DataType<T = T>>(values: &[T]) {
    let body = body(|out| delta::encode(values, out));
    assert_eq!(
        decoded::<D>(Encoding::DELTA_BINARY_PACKED, 0, &body, values.len()),
        values
    );
}

fn narrow(values: &[i32]) {
    let count = values.len();
    delta_comes_back::<_, Int32Type>(values);
    let plain = body(|out| plain::encode_fixed(values, out));
    assert_eq!(decoded::<Int32Type>(Encoding::PLAIN, 0, &plain, count), values);
    let split = body(|out| byte_stream_split::encode(as_bytes(values), 4, out));
    assert_eq!(
        decoded::<Int32Type>(Encoding::BYTE_STREAM_SPLIT, 0, &split, count),
        values
    );
}

fn wide(values: &[i64]) {
    delta_comes_back::<_, Int64Type>(values);
    let mut dictionary = NumberDictionary::new(DictionaryLimits::default());
    let mut found = Indices::new();
    assert_eq!(dictionary.encode(values, &mut found), values.len());
    let entries = decoded::<Int64Type>(Encoding::PLAIN, 0, dictionary.page(), dictionary.len());
    assert!(
        found
            .to_vec(0)
            .iter()
            .map(|index| entries[*index as usize])
            .eq(values.iter().copied())
    );
    let range = stats::integers(values).map(|range| (range.min, range.max));
    assert_eq!(
        range,
        values.iter().min().copied().zip(values.iter().max().copied())
    );
    let mut filter = BloomFilter::new(values.len(), 0.01);
    for value in values {
        filter.insert_hash(hash_fixed(*value));
    }
    filter.shrink(dictionary.len(), 0.01);
    assert!(
        values
            .iter()
            .all(|value| filter.may_hold_hash(hash_fixed(*value)))
    );
}

fn floats(values: &[f64]) {
    let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let split = body(|out| byte_stream_split::encode(as_bytes(values), 8, out));
    let back = decoded::<DoubleType>(Encoding::BYTE_STREAM_SPLIT, 0, &split, values.len());
    assert_eq!(bits(&back), bits(values));
    let mut dictionary = NumberDictionary::new(DictionaryLimits::default());
    let mut found = Indices::new();
    assert_eq!(dictionary.encode(values, &mut found), values.len());
    let looked_up: Vec<f64> = found
        .to_vec(0)
        .iter()
        .map(|index| dictionary.entries()[*index as usize])
        .collect();
    assert_eq!(bits(&looked_up), bits(values), "NaNs and zeros keep their bits");
    let found = stats::floats(values);
    let nans = values.iter().filter(|value| value.is_nan()).count();
    assert_eq!(found.nans, nans as u64);
    match found.range {
        Some(range) => {
            assert!(
                values
                    .iter()
                    .all(|value| range.min <= *value && *value <= range.max)
            );
            assert!(range.min.to_bits() != 0.0f64.to_bits() && range.max.to_bits() != (-0.0f64).to_bits());
        }
        None => assert!(values.is_empty() || nans > 0),
    }
}

fn singles(values: &[f32]) {
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let split = body(|out| byte_stream_split::encode(as_bytes(values), 4, out));
    let back = decoded::<FloatType>(Encoding::BYTE_STREAM_SPLIT, 0, &split, values.len());
    assert_eq!(bits(&back), bits(values));
}

fn byte_arrays(values: &[Vec<u8>], limit: usize) {
    let (mut data, mut offsets) = (b"another".to_vec(), vec![7i32]);
    for value in values {
        data.extend_from_slice(value);
        offsets.push(i32::try_from(data.len()).unwrap());
    }
    let source = Offsets {
        offsets: &offsets,
        data: &data,
    };
    let count = values.len();
    let expected: Vec<ByteArray> = values.iter().cloned().map(ByteArray::from).collect();
    let comes_back = |encoding, body: &[u8]| {
        assert_eq!(
            decoded::<ByteArrayType>(encoding, 0, body, count),
            expected,
            "{encoding}"
        );
    };
    comes_back(
        Encoding::PLAIN,
        &body(|out| plain::encode_byte_arrays(&source, out)),
    );
    let mut lengths = Vec::new();
    source.lengths(&mut lengths);
    let joined = |out: &mut Vec<u8>| plain::encode_fixed_size(&source, out);
    let packed = body(|out| delta_bytes::encode_delta_length_byte_array(&lengths, joined, out));
    comes_back(Encoding::DELTA_LENGTH_BYTE_ARRAY, &packed);
    let shared =
        body(|out| delta_bytes::encode_delta_byte_array(&source, &mut LengthScratch::default(), out));
    comes_back(Encoding::DELTA_BYTE_ARRAY, &shared);
    dictionary_of_byte_arrays(&source, &expected);
    bounds_hold(values, &source, limit);
}

/// As far as the dictionary takes the values, which a small limit ends early.
fn dictionary_of_byte_arrays(source: &Offsets<'_, i32>, expected: &[ByteArray]) {
    for bytes in [usize::MAX, 64] {
        let mut dictionary = ByteDictionary::new(DictionaryLimits {
            entries: usize::MAX,
            bytes,
            ..DictionaryLimits::default()
        });
        let mut found = Indices::new();
        let taken = dictionary.encode(source, &mut found);
        assert!(taken == expected.len() || bytes == 64);
        let entries = decoded::<ByteArrayType>(Encoding::PLAIN, 0, dictionary.page(), dictionary.len());
        assert!(
            found.to_vec(0)[..taken]
                .iter()
                .map(|index| &entries[*index as usize])
                .eq(&expected[..taken])
        );
    }
}

fn bounds_hold(values: &[Vec<u8>], source: &Offsets<'_, i32>, limit: usize) {
    let range = stats::byte_arrays(source).map(|range| (range.min.to_vec(), range.max.to_vec()));
    assert_eq!(
        range,
        values.iter().min().cloned().zip(values.iter().max().cloned())
    );
    let mut filter = BloomFilter::new(values.len(), 0.01);
    for value in values {
        filter.insert_hash(hash_bytes(value));
    }
    for value in values {
        assert!(filter.may_hold_hash(hash_bytes(value)));
        for content in [ByteContent::Utf8, ByteContent::Binary] {
            let is_text = content == ByteContent::Utf8 && std::str::from_utf8(value).is_ok();
            let low = stats::lower_bound(value, limit, content);
            assert!(
                *low.bytes <= **value && low.bytes.len() <= limit && low.exact == (*low.bytes == **value)
            );
            assert!(!is_text || std::str::from_utf8(&low.bytes).is_ok());
            if let Some(high) = stats::upper_bound(value, limit, content) {
                assert!(*high.bytes >= **value && high.bytes.len() <= limit);
                assert_eq!(high.exact, *high.bytes == **value);
                assert!(!is_text || std::str::from_utf8(&high.bytes).is_ok());
            }
        }
    }
}

fn fixed_size(width: usize, bytes: &[u8]) {
    let count = bytes.len() / width;
    let data = &bytes[..count * width];
    let values = FixedSize { data, width, count };
    let bodies = [
        (
            Encoding::PLAIN,
            body(|out| plain::encode_fixed_size(&values, out)),
        ),
        (
            Encoding::BYTE_STREAM_SPLIT,
            body(|out| byte_stream_split::encode(data, width, out)),
        ),
        (
            Encoding::DELTA_BYTE_ARRAY,
            body(|out| delta_bytes::encode_delta_byte_array(&values, &mut LengthScratch::default(), out)),
        ),
    ];
    for (encoding, body) in bodies {
        let back = decoded::<FixedLenByteArrayType>(encoding, width, &body, count);
        assert!(
            back.iter().map(|value| value.data()).eq(data.chunks_exact(width)),
            "{encoding}"
        );
    }
    if let Some(range) = stats::big_endian_decimals(&values) {
        let in_order = |left, right| stats::compare_decimals(left, right).is_le();
        let is_within =
            |row| in_order(range.min, values.value(row)) && in_order(values.value(row), range.max);
        assert!((0..count).all(is_within));
    }
}

fn bits_and_validity(bits: &[bool], offset: usize) {
    let mut packed = vec![0b1010_0110u8; (bits.len() + offset).div_ceil(8) + 1];
    for (index, bit) in bits.iter().enumerate() {
        let at = index + offset;
        packed[at / 8] = packed[at / 8] & !(1 << (at % 8)) | u8::from(*bit) << (at % 8);
    }
    let bitmap = Bitmap::new(&packed, offset, bits.len()).unwrap();
    let plain = body(|out| plain::encode_bools(&bitmap, out));
    assert_eq!(decoded::<BoolType>(Encoding::PLAIN, 0, &plain, bits.len()), bits);
    let numbers: Vec<i64> = (0..).take(bits.len()).collect();
    let mut dense = Vec::new();
    compact(&numbers, &bitmap, &mut dense);
    assert!(
        dense.iter().eq(numbers
            .iter()
            .zip(bits)
            .filter(|(_, bit)| **bit)
            .map(|(number, _)| number))
    );
    if !bits.is_empty() {
        let runs = body(|out| plain::encode_bools_rle(&bitmap, out));
        assert_eq!(decoded::<BoolType>(Encoding::RLE, 0, &runs, bits.len()), bits);
        let levels = body(|out| encode_validity(&bitmap, out));
        assert!(
            runs_of(&levels[4..], 1, bits.len())
                .into_iter()
                .eq(bits.iter().map(|bit| u32::from(*bit)))
        );
    }
}

fn indices(width: u8, values: &[u32]) {
    let mask = ((1u64 << width) - 1) as u32;
    let values: Vec<u32> = values.iter().map(|value| value & mask).collect();
    let runs = body(|out| rle::encode(&values, width, out));
    assert!(runs.len() <= rle::size_bound(values.len(), width));
    if !values.is_empty() {
        assert_eq!(runs_of(&runs, width, values.len()), values);
    }
}

fn levels(most: u32, values: &[u8]) {
    let values: Vec<u16> = values
        .iter()
        .map(|value| u16::from(*value).min(most as u16))
        .collect();
    let runs = body(|out| encode_levels(&values, most, out));
    if !values.is_empty() && most > 0 {
        let expected: Vec<u32> = values.iter().map(|value| u32::from(*value)).collect();
        assert_eq!(runs_of(&runs[4..], rle::bit_width(most), values.len()), expected);
    }
}

fn runs_of(body: &[u8], width: u8, count: usize) -> Vec<u32> {
    let mut decoder = RleDecoder::new(width);
    decoder.set_data(body.to_vec().into()).unwrap();
    let mut values = vec![0i32; count];
    assert_eq!(decoder.get_batch(&mut values).unwrap(), count);
    values.into_iter().map(i32::cast_unsigned).collect()
}
