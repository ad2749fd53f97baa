//! Geometries and variants, which Arrow names by extension types and Parquet by logical types.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, Int64Array, LargeBinaryArray, ListArray, RecordBatch, StructArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields, Schema};
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{EdgeInterpolationAlgorithm, LogicalType, Repetition};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::schema::types::Type;
use parquet_writer::sink::StreamSink;
use parquet_writer::{Batch, FileWriter, OptionInput, WriteError, WriterOptions};

use crate::common::written;

const VARIANT: &str = "arrow.parquet.variant";
/// The metadata of a variant without field names.
const NO_NAMES: &[u8] = &[1, 0, 0];
/// The variant 5, and null.
const FIVE: &[u8] = &[12, 5];
const NULL: &[u8] = &[0];

fn extension(field: Field, name: &str, metadata: &str) -> Field {
    let pairs = [("name", name), ("metadata", metadata)];
    let pairs = pairs.map(|(key, value)| (format!("ARROW:extension:{key}"), value.to_owned()));
    field.with_metadata(pairs)
}

fn batch(columns: Vec<(Field, ArrayRef)>) -> RecordBatch {
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

fn footer(file: &Bytes) -> ParquetMetaData {
    ParquetMetaDataReader::new().parse_and_finish(file).unwrap()
}

fn logical(node: &Type) -> Option<LogicalType> {
    node.get_basic_info().logical_type_ref().cloned()
}

fn first_field(metadata: &ParquetMetaData) -> Type {
    let fields = metadata.file_metadata().schema().get_fields();
    Type::clone(&fields[0])
}

fn rows(file: Bytes) -> RecordBatch {
    let mut reader = ParquetRecordBatchReaderBuilder::try_new(file)
        .unwrap()
        .build()
        .unwrap();
    reader.next().unwrap().unwrap()
}

/// Points, the second of which is null.
fn points() -> BinaryArray {
    let point = |x: f64| {
        let header = [1, 1, 0, 0, 0];
        [&header[..], &x.to_le_bytes(), &2.0_f64.to_le_bytes()].concat()
    };
    let all = [Some(point(7.0)), None, Some(point(-3.0))];
    all.iter().map(Option::as_deref).collect()
}

fn geometry(metadata: &str) -> RecordBatch {
    let field = extension(Field::new("g", DataType::Binary, true), "geoarrow.wkb", metadata);
    batch(vec![(field, Arc::new(points()))])
}

#[test]
fn geometries_have_their_type_and_no_bounds() {
    let crs = "EPSG:3857".to_owned();
    let karney = Some(EdgeInterpolationAlgorithm::KARNEY);
    let cases = [
        (r#"{"crs": "OGC:CRS84"}"#, LogicalType::geometry(None)),
        (
            r#"{"crs": "EPSG:3857"}"#,
            LogicalType::geometry(Some(crs.clone())),
        ),
        (
            r#"{"crs": "EPSG:3857", "edges": "karney"}"#,
            LogicalType::geography(Some(crs), karney),
        ),
    ];
    for (metadata, expected) in cases {
        let batch = geometry(metadata);
        let file = Bytes::from(written(&batch, &[], &OptionInput::default()));
        let footer = footer(&file);
        assert_eq!(logical(&first_field(&footer)), Some(expected));
        let chunk = footer.row_group(0).column(0);
        let statistics = chunk.statistics().unwrap();
        assert_eq!(statistics.null_count_opt(), Some(1));
        assert_eq!(
            (statistics.min_bytes_opt(), statistics.max_bytes_opt()),
            (None, None)
        );
        assert_eq!(chunk.column_index_offset(), None);
        assert!(chunk.offset_index_offset().is_some());
        assert_eq!(rows(file).columns(), batch.columns());
    }
}

#[test]
fn wrong_metadata_of_geometries_is_refused_by_name() {
    let options = WriterOptions::new(OptionInput::default()).unwrap();
    let sink = Box::new(StreamSink::new(Box::new(Vec::new())));
    let schema = geometry(r#"{"edges": "round"}"#).schema();
    let refused = FileWriter::new(sink, Some(schema), options).err().unwrap();
    let WriteError::Schema(fault) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(fault.column.as_deref(), Some("g"));
    assert!(
        fault.message.contains("no edges are \"round\""),
        "{}",
        fault.message
    );
}

/// Variants of these fields, of which the second is null.
fn variants(fields: Vec<(Field, ArrayRef)>) -> (Field, ArrayRef) {
    let (fields, arrays): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
    let fields = Fields::from(fields);
    let nulls = NullBuffer::from(vec![true, false, true]);
    let array = StructArray::new(fields.clone(), arrays, Some(nulls));
    let field = extension(Field::new("v", DataType::Struct(fields), true), VARIANT, "");
    (field, Arc::new(array))
}

fn bytes(name: &str, values: [Option<&[u8]>; 3], nullable: bool) -> (Field, ArrayRef) {
    let array: BinaryArray = values.into_iter().collect();
    (Field::new(name, DataType::Binary, nullable), Arc::new(array))
}

fn metadata() -> (Field, ArrayRef) {
    let array: LargeBinaryArray = [Some(NO_NAMES); 3].into_iter().collect();
    (
        Field::new("metadata", DataType::LargeBinary, true),
        Arc::new(array),
    )
}

/// The names of the fields of a group, and whether they are required.
fn required(group: &Type) -> Vec<(&str, bool)> {
    let fields = group.get_fields().iter();
    let of = |repetition| repetition == Repetition::REQUIRED;
    fields
        .map(|field| (field.name(), of(field.get_basic_info().repetition())))
        .collect()
}

#[test]
fn variants_have_their_type_and_no_row_without_a_value() {
    let value = bytes("value", [Some(FIVE), Some(NULL), Some(NULL)], true);
    let given = batch(vec![variants(vec![metadata(), value])]);
    let file = Bytes::from(written(&given, &[1], &OptionInput::default()));
    let group = first_field(&footer(&file));
    assert_eq!(logical(&group), Some(LogicalType::variant(Some(1))));
    assert_eq!(required(&group), [("metadata", true), ("value", true)]);
    let read = rows(file);
    let field = read.schema().field(0).clone();
    assert_eq!(field.extension_type_name(), Some(VARIANT));
    let column = |batch: &RecordBatch| {
        let rows = batch
            .column(0)
            .as_any()
            .downcast_ref::<StructArray>()
            .unwrap()
            .clone();
        (rows.nulls().cloned(), rows.columns().to_vec())
    };
    let ((nulls, found), (_, arrays)) = (column(&read), column(&given));
    assert_eq!(nulls.unwrap(), NullBuffer::from(vec![true, false, true]));
    for (found, given) in found.iter().zip(&arrays) {
        assert_eq!(
            (&found.slice(0, 1), &found.slice(2, 1)),
            (&given.slice(0, 1), &given.slice(2, 1))
        );
    }
}

#[test]
fn a_variant_without_a_value_is_refused_and_the_writer_goes_on() {
    let options = WriterOptions::new(OptionInput::default()).unwrap();
    let sink = Box::new(StreamSink::new(Box::new(Vec::new())));
    let of = |values| {
        Batch::from(batch(vec![variants(vec![
            metadata(),
            bytes("value", values, true),
        ])]))
    };
    let good = of([Some(FIVE), None, Some(NULL)]);
    let mut writer = FileWriter::new(sink, None, options).unwrap();
    writer.write(&good, &mut || true).unwrap();
    let refused = writer
        .write(&of([Some(FIVE), None, None]), &mut || true)
        .unwrap_err();
    let WriteError::Schema(fault) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(fault.column.as_deref(), Some("v.value"));
    writer.write(&good, &mut || true).unwrap();
    writer.close(&mut || true).unwrap();
    assert_eq!(writer.result().unwrap().rows, 6);
}

#[test]
fn shredded_variants_pass_as_they_are() {
    let value = bytes("value", [None, None, Some(FIVE)], true);
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(4), None, None]));
    let typed = (Field::new("typed_value", DataType::Int64, true), numbers);
    let given = batch(vec![variants(vec![metadata(), value, typed])]);
    let file = Bytes::from(written(&given, &[], &OptionInput::default()));
    let group = first_field(&footer(&file));
    assert_eq!(logical(&group), Some(LogicalType::variant(Some(1))));
    let expected = [("metadata", true), ("value", false), ("typed_value", false)];
    assert_eq!(required(&group), expected);
    let read = rows(file);
    let of = |batch: &RecordBatch| {
        let rows = batch.column(0).as_any().downcast_ref::<StructArray>().unwrap();
        rows.columns()[1..].to_vec()
    };
    assert_eq!(of(&read), of(&given));
}

#[test]
fn variants_in_lists_have_their_type() {
    let value = bytes("value", [Some(FIVE), None, Some(NULL)], true);
    let (field, array) = variants(vec![metadata(), value]);
    let element = Arc::new(field.with_name("element"));
    let offsets = OffsetBuffer::from_lengths([2, 0, 1]);
    let lists: ArrayRef = Arc::new(ListArray::new(Arc::clone(&element), offsets, array, None));
    let field = Field::new("l", DataType::List(element), true);
    let file = Bytes::from(written(
        &batch(vec![(field, lists)]),
        &[],
        &OptionInput::default(),
    ));
    let list = first_field(&footer(&file));
    assert_eq!(logical(&list), Some(LogicalType::List));
    let element = &list.get_fields()[0].get_fields()[0];
    assert_eq!(logical(element), Some(LogicalType::variant(Some(1))));
    assert_eq!(rows(file).num_rows(), 3);
}

#[test]
fn files_for_readers_of_the_first_version_have_neither() {
    let options = OptionInput {
        compatibility: "v1".into(),
        ..OptionInput::default()
    };
    let value = bytes("value", [Some(FIVE), None, Some(NULL)], true);
    for batch in [geometry("{}"), batch(vec![variants(vec![metadata(), value])])] {
        let file = Bytes::from(written(&batch, &[], &options));
        assert_eq!(logical(&first_field(&footer(&file))), None);
        assert_eq!(rows(file).num_rows(), 3);
    }
}
