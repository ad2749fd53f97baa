//! Levels and values of nested columns are those that the `parquet` crate writes, and no cut of the rows changes a
//! byte.

use std::fmt::Debug;
use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date64Array, Decimal256Array, DictionaryArray, FixedSizeBinaryArray,
    FixedSizeListArray, Float64Array, Int32Array, Int64Array, LargeListArray, ListArray, MapArray, NullArray,
    RecordBatch, StringArray, StringViewArray, StructArray, make_array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, i256};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::basic::PageType;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType as ParquetType;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::statistics::Statistics;
use parquet_writer::{EncodingRule, OptionInput};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::common::written;

/// A generator that is the same everywhere.
struct Draws(u64);

impl Draws {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn small(&mut self) -> i32 {
        i32::try_from(self.below(50)).unwrap() - 20
    }

    fn nulls(&mut self, field: &Field, len: usize) -> Option<NullBuffer> {
        let kind = self.below(4);
        let valid = |draws: &mut Self| match kind {
            0 => true,
            1 => false,
            2 => draws.below(10) > 0,
            _ => draws.below(2) > 0,
        };
        field
            .is_nullable()
            .then(|| (0..len).map(|_| valid(self)).collect::<NullBuffer>())
    }

    /// Offsets of lists that start behind some unused slots. Null lists have elements like others.
    fn offsets(&mut self, len: usize) -> Vec<i32> {
        let mut at = i32::try_from(self.below(3)).unwrap();
        let mut offsets = vec![at];
        let longest = [1, 2, 5][self.below(3)];
        for _ in 0..len {
            at += i32::try_from(self.below(longest)).unwrap();
            offsets.push(at);
        }
        offsets
    }
}

/// An array of the field's type, sometimes a slice of a longer one.
fn array(field: &Field, len: usize, draws: &mut Draws) -> ArrayRef {
    if draws.below(3) == 0 {
        let before = draws.below(4);
        return whole(field, before + len + draws.below(3), draws).slice(before, len);
    }
    whole(field, len, draws)
}

fn whole(field: &Field, len: usize, draws: &mut Draws) -> ArrayRef {
    let nulls = draws.nulls(field, len);
    match field.data_type() {
        DataType::Struct(fields) => {
            let children = fields.iter().map(|field| array(field, len, draws)).collect();
            Arc::new(StructArray::try_new_with_length(fields.clone(), children, nulls, len).unwrap())
        }
        DataType::List(element) => {
            let offsets = draws.offsets(len);
            let values = elements(element, &offsets, draws);
            Arc::new(ListArray::new(
                Arc::clone(element),
                OffsetBuffer::new(offsets.into()),
                values,
                nulls,
            ))
        }
        DataType::LargeList(element) => {
            let offsets = draws.offsets(len);
            let values = elements(element, &offsets, draws);
            let offsets: Vec<i64> = offsets.into_iter().map(i64::from).collect();
            Arc::new(LargeListArray::new(
                Arc::clone(element),
                OffsetBuffer::new(offsets.into()),
                values,
                nulls,
            ))
        }
        DataType::FixedSizeList(element, size) => {
            let values = array(element, len * usize::try_from(*size).unwrap(), draws);
            Arc::new(
                FixedSizeListArray::try_new_with_length(Arc::clone(element), *size, values, nulls, len)
                    .unwrap(),
            )
        }
        DataType::Map(entries, sorted) => {
            let offsets = draws.offsets(len);
            let values = elements(entries, &offsets, draws);
            let entries_array = values.as_any().downcast_ref::<StructArray>().unwrap().clone();
            let offsets = OffsetBuffer::new(offsets.into());
            Arc::new(MapArray::new(
                Arc::clone(entries),
                offsets,
                entries_array,
                nulls,
                *sorted,
            ))
        }
        data_type => leaf(data_type, len, nulls, draws),
    }
}

/// As many elements as the offsets need, and a few more.
fn elements(field: &Field, offsets: &[i32], draws: &mut Draws) -> ArrayRef {
    let needed = usize::try_from(*offsets.last().unwrap()).unwrap();
    array(field, needed + draws.below(3), draws)
}

fn leaf(data_type: &DataType, len: usize, nulls: Option<NullBuffer>, draws: &mut Draws) -> ArrayRef {
    let numbers: Vec<i32> = (0..len).map(|_| draws.small()).collect();
    let texts = || {
        numbers
            .iter()
            .map(|number| "x".repeat(number.unsigned_abs() as usize) + &number.to_string())
    };
    let values: ArrayRef = match data_type {
        DataType::Null => return Arc::new(NullArray::new(len)),
        DataType::Int32 => Arc::new(Int32Array::from(numbers)),
        DataType::Int64 => Arc::new(
            numbers
                .iter()
                .map(|n| Some(i64::from(*n) << 30))
                .collect::<Int64Array>(),
        ),
        DataType::Float64 => Arc::new(
            numbers
                .iter()
                .map(|n| Some(f64::from(*n) / 3.0))
                .collect::<Float64Array>(),
        ),
        DataType::Boolean => Arc::new(numbers.iter().map(|n| Some(n % 2 == 0)).collect::<BooleanArray>()),
        DataType::Date64 => Arc::new(
            numbers
                .iter()
                .map(|n| Some(i64::from(*n) * 86_400_000))
                .collect::<Date64Array>(),
        ),
        DataType::Decimal256(precision, scale) => {
            let decimals = numbers
                .iter()
                .map(|n| Some(i256::from_i128((*n).into())))
                .collect::<Decimal256Array>();
            Arc::new(decimals.with_precision_and_scale(*precision, *scale).unwrap())
        }
        DataType::FixedSizeBinary(_) => {
            let bytes = numbers.iter().map(|n| n.to_be_bytes());
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes.map(Some), 4).unwrap())
        }
        DataType::Utf8 => Arc::new(texts().map(Some).collect::<StringArray>()),
        DataType::Utf8View => Arc::new(texts().map(Some).collect::<StringViewArray>()),
        _ => {
            let keys = numbers
                .iter()
                .map(|n| i8::try_from(n.rem_euclid(3)).unwrap())
                .collect::<Vec<_>>();
            let keys = arrow_array::Int8Array::new(keys.into(), nulls);
            let values = StringArray::from(vec!["a", "b", "a"]);
            return Arc::new(DictionaryArray::<Int8Type>::new(keys, Arc::new(values)));
        }
    };
    make_array(values.to_data().into_builder().nulls(nulls).build().unwrap())
}

fn field(name: &str, data_type: DataType, nullable: bool) -> FieldRef {
    let nullable = nullable || data_type == DataType::Null;
    Arc::new(Field::new(name, data_type, nullable))
}

fn types() -> impl Strategy<Value = DataType> {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let leaf = prop::sample::select(vec![
        DataType::Null,
        DataType::Int32,
        DataType::Int64,
        DataType::Float64,
        DataType::Boolean,
        DataType::Date64,
        DataType::Decimal256(8, 2),
        DataType::Decimal256(17, 2),
        DataType::Decimal256(60, 3),
        DataType::FixedSizeBinary(4),
        DataType::Utf8,
        DataType::Utf8View,
        dictionary,
    ]);
    leaf.prop_recursive(4, 12, 3, |inner| {
        let element =
            (inner.clone(), any::<bool>()).prop_map(|(inner, nullable)| field("element", inner, nullable));
        let fields = vec((inner.clone(), any::<bool>()), 1..4);
        prop_oneof![
            element.clone().prop_map(DataType::List),
            element.clone().prop_map(DataType::LargeList),
            (element, 0..3).prop_map(|(element, size)| DataType::FixedSizeList(element, size)),
            (inner, any::<bool>()).prop_map(|(inner, nullable)| map(inner, nullable)),
            fields.prop_map(|fields| {
                let fields = fields.into_iter().enumerate();
                let fields = fields.map(|(at, (inner, nullable))| field(&format!("f{at}"), inner, nullable));
                DataType::Struct(fields.collect())
            }),
        ]
    })
}

fn map(value: DataType, nullable: bool) -> DataType {
    let fields = Fields::from(vec![
        field("key", DataType::Utf8, false),
        field("value", value, nullable),
    ]);
    DataType::Map(field("key_value", DataType::Struct(fields), false), false)
}

fn batch(types: &[(DataType, bool)], rows: usize, seed: u64) -> RecordBatch {
    let mut draws = Draws(seed | 1);
    let fields = types.iter().enumerate();
    let fields: Vec<_> = fields
        .map(|(at, (kind, nullable))| field(&format!("c{at}"), kind.clone(), *nullable))
        .collect();
    let columns = fields
        .iter()
        .map(|field| array(field, rows, &mut draws))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

fn written_by_the_crate(batch: &RecordBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    let properties = WriterProperties::builder().set_coerce_types(true).build();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    bytes
}

/// Definition levels, repetition levels and values of a chunk.
type Contents = (Vec<i16>, Vec<i16>, Vec<String>);

/// The values and levels of each leaf of a file, all row groups together.
fn contents(bytes: Vec<u8>) -> Vec<Contents> {
    let reader = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
    let mut leaves =
        vec![Contents::default(); reader.metadata().file_metadata().schema_descr().num_columns()];
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).unwrap();
        let rows = usize::try_from(group.metadata().num_rows()).unwrap();
        for (index, leaf) in leaves.iter_mut().enumerate() {
            let before = (leaf.0.len(), leaf.1.len());
            match group.get_column_reader(index).unwrap() {
                ColumnReader::BoolColumnReader(reader) => read(reader, rows, leaf),
                ColumnReader::Int32ColumnReader(reader) => read(reader, rows, leaf),
                ColumnReader::Int64ColumnReader(reader) => read(reader, rows, leaf),
                ColumnReader::Int96ColumnReader(reader) => read(reader, rows, leaf),
                ColumnReader::FloatColumnReader(reader) => read(reader, rows, leaf),
                ColumnReader::DoubleColumnReader(reader) => read(reader, rows, leaf),
                ColumnReader::ByteArrayColumnReader(reader) => read(reader, rows, leaf),
                ColumnReader::FixedLenByteArrayColumnReader(reader) => read(reader, rows, leaf),
            }
            check_counts(
                group.metadata().column(index),
                &leaf.0[before.0..],
                &leaf.1[before.1..],
            );
        }
    }
    leaves
}

fn read<T: ParquetType>(mut reader: ColumnReaderImpl<T>, rows: usize, leaf: &mut Contents)
where
    T::T: Debug,
{
    let mut values = Vec::new();
    let mut read = 0;
    while read < rows {
        let (records, ..) = reader
            .read_records(rows - read, Some(&mut leaf.0), Some(&mut leaf.1), &mut values)
            .unwrap();
        assert!(records > 0, "{read} of {rows} rows");
        read += records;
    }
    leaf.2.extend(values.iter().map(|value| format!("{value:?}")));
}

/// Checks a chunk's counts in the footer against its levels.
fn check_counts(chunk: &ColumnChunkMetaData, definition: &[i16], repetition: &[i16]) {
    let column = chunk.column_descr();
    let count = |levels: &[i16], level| {
        i64::try_from(levels.iter().filter(|other| **other == level).count()).unwrap()
    };
    let histograms = [
        (
            chunk.definition_level_histogram(),
            definition,
            column.max_def_level(),
        ),
        (
            chunk.repetition_level_histogram(),
            repetition,
            column.max_rep_level(),
        ),
    ];
    for (histogram, levels, max) in histograms {
        let Some(histogram) = histogram else { continue };
        let counts: Vec<_> = (0..=max).map(|level| count(levels, level)).collect();
        assert_eq!(histogram.values(), &counts);
        assert_eq!(chunk.num_values(), i64::try_from(levels.len()).unwrap());
    }
    let nulls = chunk
        .statistics()
        .and_then(Statistics::null_count_opt)
        .unwrap_or(0);
    let valid = i64::try_from(definition.len()).unwrap() - count(definition, column.max_def_level());
    assert_eq!(i64::try_from(nulls).unwrap(), valid);
}

fn options() -> impl Strategy<Value = OptionInput> {
    let mode = prop_oneof![Just("modern"), Just("v1")];
    (mode, 1..3_000_i64, prop_oneof![1..200_i64, 200..20_000_i64]).prop_map(|(mode, rows, page)| {
        OptionInput {
            compatibility: mode.into(),
            row_group_rows: rows,
            page_bytes: page,
            ..OptionInput::default()
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn levels_and_values_are_those_that_the_crate_writes(
        types in vec((types(), any::<bool>()), 1..3),
        rows in prop_oneof![0..20_usize, 20..3_000_usize],
        seed: u64,
        cuts in vec(any::<prop::sample::Index>(), 0..6),
        options in options(),
    ) {
        let batch = batch(&types, rows, seed);
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(rows + 1)).collect();
        cuts.sort_unstable();
        let whole = written(&batch, &[], &options);
        prop_assert_eq!(&written(&batch, &cuts, &options), &whole);
        prop_assert_eq!(contents(whole), contents(written_by_the_crate(&batch)));
    }
}

/// Returns true if the first repetition level of a page of version 1 is 0.
fn begins_with_a_row(page: &[u8]) -> bool {
    // Behind the length of the levels: the header of a run, then its value or its first eight values.
    let mut header = 4;
    while page[header] & 0x80 != 0 {
        header += 1;
    }
    page[header + 1] & 1 == 0
}

#[test]
fn a_dictionary_that_fills_up_within_a_row_ends_the_page_before_that_row() {
    let element = field("element", DataType::Utf8, true);
    let texts = (0..150_000)
        .map(|number| Some(format!("{number:030}")))
        .collect::<StringArray>();
    let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(300, 500));
    let lists: ArrayRef = Arc::new(ListArray::new(element, offsets, Arc::new(texts), None));
    let batch = RecordBatch::try_from_iter([("list", lists)]).unwrap();
    let options = OptionInput {
        encoding: EncodingRule::All("dictionary".into()),
        ..OptionInput::default()
    };
    let bytes = written(&batch, &[], &options);
    assert_eq!(written(&batch, &[1, 70, 499], &options), bytes);
    let reader = SerializedFileReader::new(Bytes::from(bytes.clone())).unwrap();
    let group = reader.get_row_group(0).unwrap();
    let chunk = group.metadata().column(0);
    assert_eq!(chunk.unencoded_byte_array_data_bytes(), Some(150_000 * 30));
    let pages = group.get_column_page_reader(0).unwrap().map(Result::unwrap);
    let data: Vec<_> = pages
        .filter(|page| page.page_type() == PageType::DATA_PAGE)
        .collect();
    assert!(data.len() > 2);
    assert!(data.iter().all(|page| begins_with_a_row(page.buffer())));
    assert_eq!(contents(bytes), contents(written_by_the_crate(&batch)));
}
