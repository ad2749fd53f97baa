//! The content of bloom filters, read back by the `parquet` crate.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, Float16Array, Float32Array, Float64Array, RecordBatch};
use bytes::Bytes;
use half::f16;
use parquet::bloom_filter::Sbbf;
use parquet::data_type::FixedLenByteArray;
use parquet::file::properties::ReaderProperties;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::{ReadOptionsBuilder, SerializedFileReader};
use parquet_writer::{BloomRule, OptionInput};

use crate::common;

fn filter_of(values: ArrayRef) -> Sbbf {
    let rows = values.len();
    let batch = RecordBatch::try_from_iter([("x", values)]).unwrap();
    let input = OptionInput {
        bloom_filter: BloomRule::All(Some(0.01)),
        row_group_rows: i64::try_from(rows).unwrap(),
        ..OptionInput::default()
    };
    let file = common::written(&batch, &[], &input);
    let properties = ReaderProperties::builder().set_read_bloom_filter(true).build();
    let options = ReadOptionsBuilder::new()
        .with_reader_properties(properties)
        .build();
    let reader = SerializedFileReader::new_with_options(Bytes::from(file), options).unwrap();
    let group = reader.get_row_group(0).unwrap();
    group.get_column_bloom_filter(0).unwrap().clone()
}

#[test]
fn nan_of_any_bits_and_both_zeros_are_found() {
    let odd = f16::from_bits(f16::NAN.to_bits() + 1);
    let filter = filter_of(Arc::new(Float16Array::from(vec![odd, f16::NEG_ZERO])));
    let holds = |value: f16| filter.check(&FixedLenByteArray::from(value.to_le_bytes().to_vec()));
    assert!([odd, f16::NAN, f16::ZERO, f16::NEG_ZERO].into_iter().all(holds));
    assert!(!holds(f16::ONE));

    let odd = f32::from_bits(f32::NAN.to_bits() + 1);
    let filter = filter_of(Arc::new(Float32Array::from(vec![odd, -0.0])));
    assert!([odd, f32::NAN, 0.0, -0.0].iter().all(|value| filter.check(value)));
    assert!(!filter.check(&1.0_f32));

    let odd = f64::from_bits(f64::NAN.to_bits() + 1);
    let filter = filter_of(Arc::new(Float64Array::from(vec![odd, -0.0])));
    assert!([odd, f64::NAN, 0.0, -0.0].iter().all(|value| filter.check(value)));
    assert!(!filter.check(&1.0_f64));
}

#[test]
fn lists_may_have_more_values_than_rows() {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for row in 0..20_000 {
        (0..4).for_each(|at| lists.values().append_value(format!("{row}.{at}")));
        lists.append(true);
    }
    let filter = filter_of(Arc::new(lists.finish()));
    assert!((0..20_000).all(|row| filter.check(&format!("{row}.3").as_str())));
    let wrong = (0..20_000).filter(|row| filter.check(&format!("{row}.5").as_str()));
    assert!(wrong.count() < 400);
}
