//! The cost of each encoder per value, beside that of the `parquet` crate where it can be reached.
//!
//! Run by `cargo run --release --manifest-path bench/encoders/Cargo.toml -- --bench`. The column of items per second is
//! values per second. `theirs_*` are those of the `parquet` crate.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss
)]
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]

use std::hint::black_box;
use std::sync::Arc;

use divan::Bencher;
use divan::counter::ItemsCount;
use parquet::basic::{Encoding, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::encodings::encoding::{DictEncoder, Encoder, get_encoder};
use parquet::encodings::rle::RleEncoder;
use parquet::schema::types::{ColumnDescriptor, ColumnPath, Type};

use parquet_encode::bitmap::Bitmap;
use parquet_encode::bloom::{BloomFilter, hash_bytes, hash_fixed};
use parquet_encode::byte_arrays::{ByteArrays, Offsets};
use parquet_encode::delta_bytes::{LengthScratch, encode_delta_byte_array};
use parquet_encode::dictionary::{ByteDictionary, DictionaryLimits, KeyMap, NumberDictionary, UsedEntries};
use parquet_encode::fixed::as_bytes;
use parquet_encode::levels::encode_validity;
use parquet_encode::{byte_stream_split, compact, delta, plain, rle, stats};

fn main() {
    divan::main();
}

/// Values of one iteration.
const N: usize = 1 << 17;
const NO_LIMITS: DictionaryLimits = DictionaryLimits {
    entries: usize::MAX,
    bytes: usize::MAX,
    window: 1 << 16,
};

/// A generator that needs no crate: the same numbers in every run.
fn noise() -> impl Iterator<Item = u64> {
    let mut state = 42u64;
    std::iter::from_fn(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Some(mixed ^ mixed >> 29)
    })
}

fn below(most: u64) -> impl Iterator<Item = u64> {
    noise().map(move |value| (value >> 16) % most)
}

/// String columns as logs have them.
#[derive(Clone, Copy, Debug)]
enum Text {
    /// 5 values of 3 to 7 bytes: levels, methods.
    Tiny,
    /// 200 values of 8 to 15 bytes: hosts, services.
    Short,
    /// 200 values of 8 to 15 bytes, often the one before.
    Runs,
    /// 5,000 values of 9 to 30 bytes: paths.
    Paths,
    /// 100 values of 60 to 100 bytes: user agents.
    Long,
    /// 40,000 values of 16 bytes.
    Many,
    /// One value of 20 bytes.
    One,
}

const TEXTS: [Text; 7] = [
    Text::Tiny,
    Text::Short,
    Text::Runs,
    Text::Paths,
    Text::Long,
    Text::Many,
    Text::One,
];

struct Column {
    offsets: Vec<i32>,
    data: Vec<u8>,
}

impl Column {
    fn of(values: impl Iterator<Item = String>) -> Self {
        let mut column = Self {
            offsets: vec![0],
            data: vec![],
        };
        for value in values {
            column.data.extend_from_slice(value.as_bytes());
            column.offsets.push(column.data.len() as i32);
        }
        column
    }

    fn new(kind: Text) -> Self {
        let pick = |count| below(count).take(N);
        match kind {
            Text::Tiny => {
                Self::of(pick(5).map(|at| ["GET", "POST", "DELETE", "OPTIONS", "PUT"][at as usize].into()))
            }
            Text::Short => {
                Self::of(pick(200).map(|at| format!("host-{at:0width$}", width = 3 + at as usize % 8)))
            }
            Text::Runs => {
                let mut last = 0;
                let values = pick(200 * 20).map(move |at| {
                    if at < 200 {
                        last = at;
                    }
                    format!("host-{last:0width$}", width = 3 + last as usize % 8)
                });
                Self::of(values)
            }
            Text::Paths => {
                Self::of(pick(5000).map(|at| format!("/api/v1/{at:0width$}", width = 1 + at as usize % 22)))
            }
            Text::Long => Self::of(
                pick(100).map(|at| format!("Mozilla/5.0 (X11) {at:0width$}", width = 42 + at as usize % 40)),
            ),
            Text::One => Self::of(pick(1).map(|_| "eu-central-1a-node-7".into())),
            Text::Many => {
                Self::of(pick(40_000).map(|at| format!("{:016x}", at.wrapping_mul(0x9e37_79b9_7f4a_7c15))))
            }
        }
    }

    fn source(&self) -> Offsets<'_, i32> {
        Offsets {
            offsets: &self.offsets,
            data: &self.data,
        }
    }

    fn theirs(&self) -> Vec<ByteArray> {
        (0..N)
            .map(|row| ByteArray::from(self.source().value(row).to_vec()))
            .collect()
    }
}

fn column(physical: Physical) -> Arc<ColumnDescriptor> {
    let column = Type::primitive_type_builder("column", physical).build().unwrap();
    Arc::new(ColumnDescriptor::new(
        Arc::new(column),
        0,
        0,
        ColumnPath::new(vec!["column".into()]),
    ))
}

/// Runs an encoder into a buffer that is reused.
fn appending(bencher: Bencher<'_, '_>, mut encode: impl FnMut(&mut Vec<u8>)) {
    let mut out = Vec::new();
    bencher.counter(ItemsCount::new(N)).bench_local(|| {
        out.clear();
        encode(&mut out);
        black_box(out.len())
    });
}

fn theirs<T: DataType>(bencher: Bencher<'_, '_>, encoding: Encoding, values: &[T::T]) {
    let mut encoder = get_encoder::<T>(encoding, &column(T::get_physical_type())).unwrap();
    bencher.counter(ItemsCount::new(N)).bench_local(|| {
        encoder.put(values).unwrap();
        black_box(encoder.flush_buffer().unwrap())
    });
}

#[divan::bench(args = TEXTS)]
fn dictionary_bytes(bencher: Bencher<'_, '_>, kind: Text) {
    let column = Column::new(kind);
    let mut dictionary = ByteDictionary::new(NO_LIMITS);
    let mut indices = Vec::new();
    bencher.counter(ItemsCount::new(N)).bench_local(|| {
        indices.clear();
        dictionary.clear();
        black_box(dictionary.encode(&column.source(), &mut indices))
    });
}

#[divan::bench(args = TEXTS)]
fn dictionary_bytes_theirs(bencher: Bencher<'_, '_>, kind: Text) {
    let values = Column::new(kind).theirs();
    bencher.counter(ItemsCount::new(N)).bench_local(|| {
        let mut encoder = DictEncoder::<ByteArrayType>::new(column(Physical::BYTE_ARRAY));
        encoder.put(&values).unwrap();
        black_box(encoder.num_entries())
    });
}

/// Integer columns: how many distinct values, how far apart.
const NUMBERS: [(u64, u64); 4] = [(10, 1), (3000, 1), (1000, 1_000_003), (40_000, 1_000_003)];

fn numbers((distinct, step): (u64, u64)) -> Vec<i64> {
    below(distinct)
        .take(N)
        .map(|value| (value * step) as i64)
        .collect()
}

#[divan::bench(args = NUMBERS)]
fn dictionary_i64(bencher: Bencher<'_, '_>, kind: (u64, u64)) {
    let values = numbers(kind);
    let mut dictionary = NumberDictionary::new(NO_LIMITS);
    let mut indices = Vec::new();
    bencher.counter(ItemsCount::new(N)).bench_local(|| {
        indices.clear();
        dictionary.clear();
        black_box(dictionary.encode(&values, &mut indices))
    });
}

#[divan::bench(args = NUMBERS)]
fn dictionary_i64_theirs(bencher: Bencher<'_, '_>, kind: (u64, u64)) {
    let values = numbers(kind);
    bencher.counter(ItemsCount::new(N)).bench_local(|| {
        let mut encoder = DictEncoder::<Int64Type>::new(column(Physical::INT64));
        encoder.put(&values).unwrap();
        black_box(encoder.num_entries())
    });
}

#[divan::bench]
fn dictionary_f64_cents(bencher: Bencher<'_, '_>) {
    let values: Vec<f64> = below(5000).take(N).map(|value| value as f64 / 100.0).collect();
    let mut dictionary = NumberDictionary::new(NO_LIMITS);
    let mut indices = Vec::new();
    bencher.counter(ItemsCount::new(N)).bench_local(|| {
        indices.clear();
        dictionary.clear();
        black_box(dictionary.encode(&values, &mut indices))
    });
}

#[divan::bench]
fn dictionary_keys_u16(bencher: Bencher<'_, '_>) {
    let column = Column::new(Text::Short);
    let keys: Vec<u16> = below(200).take(N).map(|key| key as u16).collect();
    let mut dictionary = ByteDictionary::new(NO_LIMITS);
    let (mut map, mut indices) = (KeyMap::new(), Vec::new());
    bencher.counter(ItemsCount::new(N)).bench_local(|| {
        indices.clear();
        dictionary.clear();
        map.reset(N);
        black_box(dictionary.encode_keys(&keys, &column.source(), &mut map, &mut indices))
    });
}

#[divan::bench(args = [10, 64, 3000])]
fn used_entries(bencher: Bencher<'_, '_>, entries: u64) {
    let indices: Vec<u32> = below(entries).take(N).map(|index| index as u32).collect();
    let mut used = UsedEntries::new();
    bencher
        .counter(ItemsCount::new(N))
        .bench_local(|| black_box(used.of(&indices, entries as usize).len()));
}

/// Indices: width, and how many values in a run on average.
const INDICES: [(u8, u64); 7] = [(1, 1), (3, 1), (4, 1), (8, 1), (12, 1), (16, 1), (8, 30)];

fn indices((width, run): (u8, u64)) -> Vec<u32> {
    let mut last = 0;
    noise()
        .take(N)
        .map(|value| {
            if (value >> 40) % run == 0 {
                last = (value >> 8) as u32 & ((1 << width) - 1);
            }
            last
        })
        .collect()
}

#[divan::bench(args = INDICES)]
fn rle_indices(bencher: Bencher<'_, '_>, kind: (u8, u64)) {
    let values = indices(kind);
    appending(bencher, |out| rle::encode(&values, kind.0, out));
}

#[divan::bench(args = INDICES)]
fn rle_indices_theirs(bencher: Bencher<'_, '_>, kind: (u8, u64)) {
    let values: Vec<u64> = indices(kind).into_iter().map(u64::from).collect();
    let mut out = Vec::new();
    bencher.counter(ItemsCount::new(N)).bench_local(|| {
        out.clear();
        let mut encoder = RleEncoder::new_from_buf(kind.0, std::mem::take(&mut out));
        encoder.put_batch(&values);
        out = encoder.consume();
        black_box(out.len())
    });
}

/// Nulls of a thousand values, and where the bits start.
const VALIDITY: [(u64, usize); 5] = [(0, 0), (10, 0), (300, 0), (300, 3), (990, 0)];

fn validity(nulls: u64) -> Vec<u8> {
    let mut bytes = vec![0u8; N / 8 + 1];
    for (row, value) in below(1000).take(N + 8).enumerate() {
        bytes[row / 8] |= u8::from(value >= nulls) << (row % 8);
    }
    bytes
}

#[divan::bench(args = VALIDITY)]
fn levels_of_validity(bencher: Bencher<'_, '_>, (nulls, offset): (u64, usize)) {
    let bytes = validity(nulls);
    let bits = Bitmap::new(&bytes, offset, N).unwrap();
    appending(bencher, |out| encode_validity(&bits, out));
}

#[divan::bench(args = VALIDITY)]
fn compact_i64(bencher: Bencher<'_, '_>, (nulls, offset): (u64, usize)) {
    let bytes = validity(nulls);
    let bits = Bitmap::new(&bytes, offset, N).unwrap();
    let values: Vec<i64> = noise().take(N).map(u64::cast_signed).collect();
    let mut out = Vec::new();
    per_value_local(bencher, || {
        out.clear();
        compact::compact(&values, &bits, &mut out);
        out.len()
    });
}

#[divan::bench(args = VALIDITY)]
fn compact_offsets(bencher: Bencher<'_, '_>, (nulls, offset): (u64, usize)) {
    let bytes = validity(nulls);
    let bits = Bitmap::new(&bytes, offset, N).unwrap();
    let column = Column::new(Text::Short);
    let mut out = Vec::new();
    per_value_local(bencher, || {
        out.clear();
        compact::compact_offsets(&column.offsets, &bits, &mut out);
        out.len()
    });
}

fn per_value_local(bencher: Bencher<'_, '_>, mut run: impl FnMut() -> usize) {
    bencher
        .counter(ItemsCount::new(N))
        .bench_local(|| black_box(run()));
}

/// Integers for deltas: jitter around a step.
const JITTER: [u64; 4] = [1, 1000, 1_000_000_000, u64::MAX];

fn times(jitter: u64) -> Vec<i64> {
    (0..N as i64)
        .zip(below(jitter))
        .map(|(row, jitter)| (row * 1000).wrapping_add(jitter as i64))
        .collect()
}

#[divan::bench(args = JITTER)]
fn delta_i64(bencher: Bencher<'_, '_>, jitter: u64) {
    let values = times(jitter);
    appending(bencher, |out| delta::encode(&values, out));
}

#[divan::bench(args = JITTER)]
fn delta_i64_theirs(bencher: Bencher<'_, '_>, jitter: u64) {
    theirs::<Int64Type>(bencher, Encoding::DELTA_BINARY_PACKED, &times(jitter));
}

#[divan::bench(args = [1, 1000, 1 << 31])]
fn delta_i32(bencher: Bencher<'_, '_>, jitter: u64) {
    let values: Vec<i32> = below(jitter).take(N).map(|value| value as i32).collect();
    appending(bencher, |out| delta::encode(&values, out));
}

#[divan::bench(args = TEXTS)]
fn delta_byte_array(bencher: Bencher<'_, '_>, kind: Text) {
    let column = Column::new(kind);
    let mut scratch = LengthScratch::default();
    appending(bencher, |out| {
        encode_delta_byte_array(&column.source(), &mut scratch, out);
    });
}

#[divan::bench(args = TEXTS)]
fn plain_byte_arrays(bencher: Bencher<'_, '_>, kind: Text) {
    let column = Column::new(kind);
    appending(bencher, |out| plain::encode_byte_arrays(&column.source(), out));
}

#[divan::bench(args = TEXTS)]
fn plain_byte_arrays_theirs(bencher: Bencher<'_, '_>, kind: Text) {
    theirs::<ByteArrayType>(bencher, Encoding::PLAIN, &Column::new(kind).theirs());
}

fn floats() -> Vec<f64> {
    noise().take(N).map(|value| value as f64).collect()
}

#[divan::bench]
fn plain_f64(bencher: Bencher<'_, '_>) {
    let values = floats();
    appending(bencher, |out| plain::encode_fixed(&values, out));
}

#[divan::bench]
fn byte_stream_split_f64(bencher: Bencher<'_, '_>) {
    let values = floats();
    appending(bencher, |out| {
        byte_stream_split::encode(as_bytes(&values), 8, out);
    });
}

#[divan::bench]
fn byte_stream_split_f64_theirs(bencher: Bencher<'_, '_>) {
    theirs::<DoubleType>(bencher, Encoding::BYTE_STREAM_SPLIT, &floats());
}

#[divan::bench]
fn byte_stream_split_f32(bencher: Bencher<'_, '_>) {
    let values: Vec<f32> = noise().take(N).map(|value| value as f32).collect();
    appending(bencher, |out| {
        byte_stream_split::encode(as_bytes(&values), 4, out);
    });
}

#[divan::bench]
fn stats_i64(bencher: Bencher<'_, '_>) {
    let values = times(1000);
    bencher
        .counter(ItemsCount::new(N))
        .bench_local(|| black_box(stats::integers(&values)));
}

#[divan::bench]
fn stats_f64(bencher: Bencher<'_, '_>) {
    let values = floats();
    bencher
        .counter(ItemsCount::new(N))
        .bench_local(|| black_box(stats::floats(&values)));
}

#[divan::bench(args = TEXTS)]
fn stats_byte_arrays(bencher: Bencher<'_, '_>, kind: Text) {
    let column = Column::new(kind);
    bencher
        .counter(ItemsCount::new(N))
        .bench_local(|| black_box(stats::byte_arrays(&column.source()).is_some()));
}

#[divan::bench]
fn bloom_i64(bencher: Bencher<'_, '_>) {
    let values = times(1000);
    let mut filter = BloomFilter::new(N, 0.01);
    bencher.counter(ItemsCount::new(N)).bench_local(|| {
        for value in &values {
            filter.insert_hash(hash_fixed(*value));
        }
    });
}

#[divan::bench]
fn bloom_text(bencher: Bencher<'_, '_>) {
    let column = Column::new(Text::Many);
    let mut filter = BloomFilter::new(N, 0.01);
    bencher.counter(ItemsCount::new(N)).bench_local(|| {
        let source = column.source();
        for row in 0..source.len() {
            filter.insert_hash(hash_bytes(source.value(row)));
        }
    });
}
