//! Spark's hash of rows. What Spark computes itself is compared in the tests of Python; here are the example of Spark's
//! documentation, and rows that `xxhash64` alone would not tell apart.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Float16Array, Float64Array, Int32Array, Int64Array, ListArray, RecordBatch,
    StringArray, StringViewArray, StructArray, Time64MicrosecondArray, Time64NanosecondArray,
    new_empty_array,
};
use arrow_schema::{DataType, Field, TimeUnit};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use row_digest::{Error, spark_row_hashes};

fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
    let named = columns
        .into_iter()
        .enumerate()
        .map(|(i, column)| (format!("c{i}"), column, true));
    RecordBatch::try_from_iter_with_nullable(named).unwrap()
}

fn list(rows: Vec<Option<Vec<Option<i32>>>>) -> ArrayRef {
    Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows))
}

/// `xxhash64` of one long with a seed, which the words of nulls add to the hash of the values.
fn with_word(word: i64, seed: u64) -> u64 {
    twox_hash::XxHash64::oneshot(seed, &word.to_le_bytes())
}

#[test]
fn the_example_of_sparks_documentation_has_the_hash_that_it_says() {
    // SELECT xxhash64('Spark', array(123), 2) is 5602566077635097486; two words of what is not null follow here.
    let rows = batch(vec![
        Arc::new(StringArray::from(vec!["Spark"])),
        list(vec![Some(vec![Some(123)])]),
        Arc::new(Int32Array::from(vec![2])),
    ]);
    let int = |value: i32, seed| twox_hash::XxHash64::oneshot(seed, &value.to_le_bytes());
    let shape = int(0, int(1, with_word(0, 5_602_566_077_635_097_486)));
    assert_eq!(spark_row_hashes(&rows).unwrap(), [shape]);
}

#[test]
fn a_time_of_day_hashes_as_its_nanoseconds() {
    // SELECT xxhash64(make_time(1, 2, 3.000004)) is 6425569229933067245.
    let columns: [ArrayRef; 2] = [
        Arc::new(Time64MicrosecondArray::from(vec![3_723_000_004])),
        Arc::new(Time64NanosecondArray::from(vec![3_723_000_004_000])),
    ];
    for column in columns {
        let hashes = spark_row_hashes(&batch(vec![column])).unwrap();
        assert_eq!(hashes, [with_word(0, 6_425_569_229_933_067_245)]);
    }
}

#[test]
fn nulls_at_other_places_make_other_rows() {
    let rows = batch(vec![
        Arc::new(Int32Array::from(vec![
            Some(1),
            None,
            Some(1),
            None,
            Some(1),
            Some(1),
            Some(1),
        ])),
        Arc::new(Int32Array::from(vec![
            None,
            Some(1),
            Some(1),
            None,
            None,
            None,
            None,
        ])),
        list(vec![
            None,
            None,
            None,
            None,
            Some(vec![]),
            Some(vec![None]),
            Some(vec![None, None]),
        ]),
    ]);
    let mut hashes = spark_row_hashes(&rows).unwrap();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), rows.num_rows());
}

#[test]
fn zeros_and_nans_hash_as_one() {
    let nan = f64::from_bits(0xfff8_0000_0000_0001);
    let rows = batch(vec![Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, nan]))]);
    let hashes = spark_row_hashes(&rows).unwrap();
    assert_eq!((hashes[0], hashes[2]), (hashes[1], hashes[3]));
    assert_ne!(hashes[0], hashes[2]);
}

#[test]
fn a_type_that_spark_does_not_have_is_refused() {
    let rows = batch(vec![Arc::new(Float16Array::from(vec![half::f16::ONE]))]);
    assert_eq!(spark_row_hashes(&rows), Err(Error::NotInSpark("Float16".into())));
}

#[test]
fn a_type_that_spark_does_not_have_is_refused_without_rows() {
    let half = DataType::Float16;
    let listed = DataType::new_list(half.clone(), true);
    let indexed = DataType::Dictionary(Box::new(DataType::Int32), Box::new(half));
    for kind in [listed, indexed, DataType::Time32(TimeUnit::Millisecond)] {
        let rows = batch(vec![new_empty_array(&kind)]);
        assert!(
            matches!(spark_row_hashes(&rows), Err(Error::NotInSpark(_))),
            "{kind}"
        );
    }
}

proptest! {
    #[test]
    fn layouts_hash_alike(
        texts in vec(option::of("[a-c]{0,20}"), 1..40),
        numbers in vec(option::of(any::<i64>()), 40),
        cut in 0_usize..40,
    ) {
        let numbers = Int64Array::from(numbers[..texts.len()].to_vec());
        let plain = StringArray::from(texts.clone());
        let forms: [ArrayRef; 3] = [
            Arc::new(plain.clone()),
            Arc::new(StringViewArray::from_iter(texts.clone())),
            Arc::new(texts.iter().map(Option::as_deref).collect::<DictionaryArray<Int32Type>>()),
        ];
        let hashes: Vec<_> = forms
            .iter()
            .map(|form| spark_row_hashes(&batch(vec![form.clone(), Arc::new(numbers.clone())])).unwrap())
            .collect();
        prop_assert_eq!(&hashes[0], &hashes[1]);
        prop_assert_eq!(&hashes[0], &hashes[2]);

        // The same as a struct's fields, whole and cut.
        let field = |name, kind| Arc::new(Field::new(name, kind, true));
        let pair = StructArray::from(vec![
            (field("text", DataType::Utf8), Arc::new(plain) as ArrayRef),
            (field("number", DataType::Int64), Arc::new(numbers) as ArrayRef),
        ]);
        let whole = spark_row_hashes(&batch(vec![Arc::new(pair.clone())])).unwrap();
        let cut = cut.min(texts.len());
        let rest = spark_row_hashes(&batch(vec![Arc::new(pair.slice(cut, texts.len() - cut))])).unwrap();
        prop_assert_eq!(&whole[cut..], &rest[..]);
    }

    #[test]
    fn rows_that_differ_hash_differently(
        one in (option::of(0_i32..2), option::of(vec(option::of(0_i32..2), 0..3)), option::of(0_i32..2)),
        other in (option::of(0_i32..2), option::of(vec(option::of(0_i32..2), 0..3)), option::of(0_i32..2)),
    ) {
        let rows = batch(vec![
            Arc::new(Int32Array::from(vec![one.0, other.0])),
            list(vec![one.1.clone(), other.1.clone()]),
            Arc::new(Int32Array::from(vec![one.2, other.2])),
        ]);
        let hashes = spark_row_hashes(&rows).unwrap();
        prop_assert_eq!(one == other, hashes[0] == hashes[1]);
    }
}
