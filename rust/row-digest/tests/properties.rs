//! Properties of a digest: it is independent of parts, and of order where that should not matter, and any change of the
//! rows shows in it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder, MapBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Decimal256Array, DictionaryArray, FixedSizeListArray,
    Float64Array, Int64Array, LargeListArray, LargeStringArray, ListArray, NullArray, RecordBatch,
    StringArray, StringViewArray, StructArray, TimestampMicrosecondArray, UInt64Array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, i256};
use arrow_schema::{DataType, Field, Fields, Schema};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use row_digest::{Digest, Error, Positions, Sequence, Value, row_hashes};

/// One row of the test table, with a nullable column of each shape.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    int: Option<i64>,
    other: Option<i64>,
    float: Option<f64>,
    text: Option<String>,
    list: Option<Vec<Option<i64>>>,
    pair: Option<(Option<bool>, Option<u64>)>,
}

fn rows(range: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = Vec<Row>> {
    // Few distinct values, so that equal cells in unequal rows happen often.
    let int = || option::of(prop_oneof![Just(0), Just(1), Just(-1), any::<i64>()]);
    let float = option::of(prop_oneof![
        Just(0.0),
        Just(-0.0),
        Just(1.0),
        Just(f64::INFINITY),
        -1e9..1e9
    ]);
    let text = option::of(prop_oneof![Just(String::new()), "[a-c]{1,3}", ".{0,300}"]);
    let list = option::of(vec(int(), 0..4));
    let pair = option::of((option::of(any::<bool>()), option::of(any::<u64>())));
    let row = (int(), int(), float, text, list, pair);
    vec(
        row.prop_map(|(int, other, float, text, list, pair)| Row {
            int,
            other,
            float,
            text,
            list,
            pair,
        }),
        range,
    )
}

fn lists(rows: &[Row]) -> ListArray {
    let mut lists = ListBuilder::new(Int64Builder::new());
    for row in rows {
        lists.append_option(row.list.clone());
    }
    lists.finish()
}

fn pairs(rows: &[Row]) -> StructArray {
    let flags: BooleanArray = rows.iter().map(|r| r.pair.and_then(|p| p.0)).collect();
    let counts: UInt64Array = rows.iter().map(|r| r.pair.and_then(|p| p.1)).collect();
    let fields: Fields = vec![
        Field::new("flag", DataType::Boolean, true),
        Field::new("count", DataType::UInt64, true),
    ]
    .into();
    let nulls = rows.iter().map(|r| r.pair.is_some()).collect::<NullBuffer>();
    StructArray::new(fields, vec![Arc::new(flags), Arc::new(counts)], Some(nulls))
}

fn batch(rows: &[Row]) -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "int",
            Arc::new(rows.iter().map(|r| r.int).collect::<Int64Array>()),
        ),
        (
            "other",
            Arc::new(rows.iter().map(|r| r.other).collect::<Int64Array>()),
        ),
        (
            "float",
            Arc::new(rows.iter().map(|r| r.float).collect::<Float64Array>()),
        ),
        (
            "text",
            Arc::new(rows.iter().map(|r| r.text.as_deref()).collect::<StringArray>()),
        ),
        ("list", Arc::new(lists(rows))),
        ("pair", Arc::new(pairs(rows))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

fn digest(batch: &RecordBatch) -> Digest {
    let mut digest = Digest::new(&batch.schema()).unwrap();
    digest.update(batch, Positions::From(0)).unwrap();
    digest
}

fn digest_rows(rows: &[Row]) -> Digest {
    digest(&batch(rows))
}

fn checksum(array: &ArrayRef) -> u64 {
    let mut sequence = Sequence::default();
    sequence.update(array).unwrap();
    sequence.checksum()
}

fn digest_array(array: ArrayRef) -> Digest {
    digest(&RecordBatch::try_from_iter_with_nullable([("a", array, true)]).unwrap())
}

/// `(rows, i, j)` with `i < j` inside the rows.
fn rows_and_two_places() -> impl Strategy<Value = (Vec<Row>, usize, usize)> {
    rows(2..40).prop_flat_map(|rows| {
        let places = (0..rows.len(), 0..rows.len()).prop_filter("distinct", |(i, j)| i < j);
        (Just(rows), places).prop_map(|(rows, (i, j))| (rows, i, j))
    })
}

fn same_floats(a: Option<f64>, b: Option<f64>) -> bool {
    a.map(f64::to_bits) == b.map(f64::to_bits)
}

proptest! {
    #[test]
    fn chunks_and_slices_and_merge_order_do_not_matter(rows in rows(0..60), size in 1_usize..20, rotate in 0_usize..60) {
        let whole = batch(&rows);
        let mut parts: Vec<Digest> = (0..rows.len()).step_by(size).map(|start| {
            let slice = whole.slice(start, size.min(rows.len() - start));
            let mut part = Digest::new(&whole.schema()).unwrap();
            part.update(&slice, Positions::From(start as u64)).unwrap();
            part
        }).collect();
        let middle = if parts.is_empty() { 0 } else { rotate % parts.len() };
        parts.rotate_left(middle);
        let mut merged = Digest::new(&whole.schema()).unwrap();
        for part in &parts {
            merged.merge(part).unwrap();
        }
        prop_assert_eq!(merged, digest(&whole));
    }

    #[test]
    fn a_sequence_knows_the_order_of_its_values_and_not_their_batches(
        (rows, i, j) in rows_and_two_places(),
        size in 1_usize..20,
    ) {
        let whole = batch(&rows);
        let mut exchanged = rows.clone();
        exchanged.swap(i, j);
        let exchanged = batch(&exchanged);
        for (column, other) in whole.columns().iter().zip(exchanged.columns()) {
            let mut parts = Sequence::default();
            for start in (0..rows.len()).step_by(size) {
                parts.update(&column.slice(start, size.min(rows.len() - start))).unwrap();
            }
            prop_assert_eq!(parts.checksum(), checksum(column));
            prop_assert_eq!(parts.checksum() == checksum(other), digest_array(Arc::clone(column)) == digest_array(Arc::clone(other)));
        }
        let texts = whole.column_by_name("text").unwrap();
        let keys = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        let dictionary: ArrayRef = Arc::new(texts.as_string::<i32>().iter().collect::<DictionaryArray<Int32Type>>());
        prop_assert_eq!(dictionary.data_type(), &keys);
        prop_assert_eq!(checksum(&dictionary), checksum(texts));
    }

    #[test]
    fn given_positions_undo_a_permutation(rows in rows(0..40).prop_map(|r| r.into_iter().enumerate().collect::<Vec<_>>()).prop_shuffle()) {
        let shuffled: Vec<Row> = rows.iter().map(|(_, row)| row.clone()).collect();
        let places: Int64Array = rows.iter().map(|(place, _)| Some(i64::try_from(*place).unwrap())).collect();
        let mut ordered = rows.clone();
        ordered.sort_by_key(|(place, _)| *place);
        let ordered: Vec<Row> = ordered.into_iter().map(|(_, row)| row).collect();
        let mut found = Digest::new(&batch(&shuffled).schema()).unwrap();
        found.update(&batch(&shuffled), Positions::At(&places)).unwrap();
        prop_assert_eq!(found, digest_rows(&ordered));
    }

    #[test]
    fn order_shows_in_the_sequence_alone((rows, i, j) in rows_and_two_places()) {
        let mut swapped = rows.clone();
        swapped.swap(i, j);
        let (before, after) = (digest_rows(&rows), digest_rows(&swapped));
        prop_assert_eq!(before.row_sum(), after.row_sum());
        prop_assert_eq!(before.columns(), after.columns());
        let equal = row_hashes(&batch(&rows)).unwrap()[i] == row_hashes(&batch(&rows)).unwrap()[j];
        prop_assert_eq!(before.sequence_sum() == after.sequence_sum(), equal);
    }

    #[test]
    fn a_changed_value_shows_in_its_column_and_in_the_rows(rows in rows(1..40), place in any::<prop::sample::Index>(), change in 0_usize..6) {
        let mut changed = rows.clone();
        let row = place.get_mut(&mut changed);
        match change {
            0 => row.int = Some(row.int.map_or(0, |v| v.wrapping_add(1))),
            1 => row.other = row.other.map_or(Some(0), |_| None),
            2 => row.float = Some(row.float.map_or(0.0, |v| -v)),
            3 => row.text = Some(row.text.as_ref().map_or(String::new(), |v| format!("{v} "))),
            4 => row.list = Some(row.list.as_ref().map_or(Vec::new(), |v| { let mut v = v.clone(); v.push(None); v })),
            _ => row.pair = Some(row.pair.map_or((None, None), |(a, b)| (a, Some(b.map_or(0, |v| v ^ 1))))),
        }
        let (before, after) = (digest_rows(&rows), digest_rows(&changed));
        prop_assert_ne!(before.row_sum(), after.row_sum());
        for (index, (a, b)) in before.columns().iter().zip(after.columns()).enumerate() {
            prop_assert_eq!(a == b, index != change, "column {}", index);
        }
    }

    #[test]
    fn values_swapped_between_rows_show((rows, i, j) in rows_and_two_places(), column in 0..4) {
        let mut swapped = rows.clone();
        let (a, b) = (rows[i].clone(), rows[j].clone());
        let differ = match column {
            0 => { (swapped[i].int, swapped[j].int) = (b.int, a.int); a.int != b.int }
            1 => { (swapped[i].float, swapped[j].float) = (b.float, a.float); !same_floats(a.float, b.float) }
            2 => { (swapped[i].text, swapped[j].text) = (b.text.clone(), a.text.clone()); a.text != b.text }
            _ => { (swapped[i].list, swapped[j].list) = (b.list.clone(), a.list.clone()); a.list != b.list }
        };
        prop_assume!(differ);
        let (before, after) = (digest_rows(&rows), digest_rows(&swapped));
        prop_assert_eq!(before.columns(), after.columns());
        // Rows alike but for that column merely change places, which the sequence shows.
        prop_assert_ne!(before.sequence_sum(), after.sequence_sum());
    }

    #[test]
    fn values_swapped_across_columns_show(rows in rows(1..40), place in any::<prop::sample::Index>()) {
        let mut swapped = rows.clone();
        let row = place.get_mut(&mut swapped);
        prop_assume!(row.int != row.other);
        std::mem::swap(&mut row.int, &mut row.other);
        prop_assert_ne!(digest_rows(&rows).row_sum(), digest_rows(&swapped).row_sum());
    }

    #[test]
    fn a_row_missing_or_doubled_shows(rows in rows(1..40), place in any::<prop::sample::Index>()) {
        let whole = digest_rows(&rows);
        let index = place.index(rows.len());
        let mut missing = rows.clone();
        missing.remove(index);
        let mut doubled = rows.clone();
        doubled.insert(index, rows[index].clone());
        for other in [digest_rows(&missing), digest_rows(&doubled)] {
            prop_assert_ne!(whole.rows(), other.rows());
            prop_assert_ne!(whole.row_sum(), other.row_sum());
        }
    }

    #[test]
    fn nulls_shifted_in_a_column_show(values in vec(option::of(0_i64..3), 2..40)) {
        let ids: Vec<i64> = (0..).take(values.len()).collect();
        let mut shifted = values.clone();
        shifted.rotate_right(1);
        prop_assume!(shifted != values);
        let table = |values: &[Option<i64>]| digest(&RecordBatch::try_from_iter_with_nullable([
            ("id", Arc::new(Int64Array::from(ids.clone())) as ArrayRef, true),
            ("value", Arc::new(values.iter().copied().collect::<Int64Array>()), true),
        ]).unwrap());
        let (before, after) = (table(&values), table(&shifted));
        prop_assert_eq!(before.columns(), after.columns());
        prop_assert_ne!(before.row_sum(), after.row_sum());
    }

    #[test]
    fn forms_of_one_string_type_are_equal(values in vec(option::of("[a-c]{0,20}"), 0..40), offset in 0_usize..40) {
        let forms: [ArrayRef; 4] = [
            Arc::new(values.iter().map(|v| v.as_deref()).collect::<StringArray>()),
            Arc::new(values.iter().map(|v| v.as_deref()).collect::<LargeStringArray>()),
            Arc::new(values.iter().map(|v| v.as_deref()).collect::<StringViewArray>()),
            Arc::new(values.iter().map(|v| v.as_deref()).collect::<DictionaryArray<Int8Type>>()),
        ];
        let offset = offset.min(values.len());
        let found: Vec<Digest> = forms.iter().map(|a| digest_array(a.slice(offset, values.len() - offset))).collect();
        prop_assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "{:?}", found);
    }

    #[test]
    fn decimals_hash_alike_at_every_width(values in vec(option::of(-10_i128.pow(18)..10_i128.pow(18)), 0..20)) {
        let narrow: Decimal128Array = values.iter().copied().collect();
        let wide: Decimal256Array = values.iter().map(|v| v.map(i256::from_i128)).collect();
        let narrow = digest_array(Arc::new(narrow.with_precision_and_scale(20, 4).unwrap()));
        let wide = digest_array(Arc::new(wide.with_precision_and_scale(20, 4).unwrap()));
        prop_assert_eq!(narrow, wide);
    }

    #[test]
    fn the_encoding_reads_back(rows in rows(0..20)) {
        let digest = digest_rows(&rows);
        prop_assert_eq!(Digest::from_bytes(&digest.to_bytes()), Ok(digest));
    }

    #[test]
    fn damaged_encodings_are_errors_not_panics(rows in rows(0..5), cut in any::<prop::sample::Index>(), bytes in vec(any::<u8>(), 0..200)) {
        let whole = digest_rows(&rows).to_bytes();
        prop_assert!(Digest::from_bytes(&whole[..cut.index(whole.len())]).is_err());
        let _ = Digest::from_bytes(&bytes);
    }

    #[test]
    fn extremes_are_those_of_the_values(values in vec(option::of(-1e6..1e6), 1..40)) {
        let digest = digest_array(Arc::new(values.iter().copied().collect::<Float64Array>()));
        let column = &digest.columns()[0];
        let mut sorted: Vec<f64> = values.iter().flatten().copied().collect();
        sorted.sort_by(f64::total_cmp);
        prop_assert_eq!(&column.min, &sorted.first().copied().map(Value::Float));
        prop_assert_eq!(&column.max, &sorted.last().copied().map(Value::Float));
    }
}

#[test]
fn every_nan_is_one_nan_and_zeros_keep_their_sign() {
    let float = |bits: u64| digest_array(Arc::new(Float64Array::from(vec![f64::from_bits(bits)])));
    let quiet = f64::NAN.to_bits();
    assert_eq!(float(quiet), float(quiet | 1 << 63));
    assert_eq!(float(quiet), float(quiet | 0x4d));
    assert_ne!(float(0), float(1 << 63));
    assert_eq!(float(quiet).columns()[0].min, None);
}

#[test]
fn zeros_order_by_sign() {
    let found = digest_array(Arc::new(Float64Array::from(vec![0.0, -0.0])));
    assert_eq!(found.columns()[0].min.as_ref().unwrap().to_string(), "-0.0");
    assert_eq!(found.columns()[0].max.as_ref().unwrap().to_string(), "0.0");
}

#[test]
fn list_forms_are_equal_and_null_slots_are_not_read() {
    let field = Arc::new(Field::new("item", DataType::Int32, true));
    let values = Arc::new(arrow_array::Int32Array::from(vec![1, 2, 99, 98, 3, 4]));
    let nulls = Some(NullBuffer::from(vec![true, false, true]));
    let fixed = FixedSizeListArray::new(field.clone(), 2, values.clone(), nulls.clone());
    let other_garbage = Arc::new(arrow_array::Int32Array::from(vec![1, 2, 0, 0, 3, 4]));
    let fixed_again = FixedSizeListArray::new(field.clone(), 2, other_garbage, nulls);
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1), Some(2)]),
        None,
        Some(vec![Some(3), Some(4)]),
    ]);
    let offsets = OffsetBuffer::new(vec![0_i64, 2, 4, 6].into());
    let large = LargeListArray::new(
        field,
        offsets,
        values,
        Some(NullBuffer::from(vec![true, false, true])),
    );
    let expected = digest_array(Arc::new(list));
    assert_eq!(digest_array(Arc::new(fixed)), expected);
    assert_eq!(digest_array(Arc::new(fixed_again)), expected);
    assert_eq!(digest_array(Arc::new(large)), expected);
}

#[test]
fn elements_moved_between_lists_show() {
    let list = |rows: Vec<Vec<i32>>| {
        let rows = rows.into_iter().map(|row| Some(row.into_iter().map(Some)));
        digest_array(Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows))).row_sum()
    };
    assert_ne!(list(vec![vec![1, 2], vec![3]]), list(vec![vec![1], vec![2, 3]]));
    assert_ne!(list(vec![vec![], vec![1]]), list(vec![vec![1], vec![1]]));
}

#[test]
fn a_map_is_a_list_of_structs() {
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    maps.keys().append_value("k");
    maps.values().append_value(7);
    maps.append(true).unwrap();
    maps.append(false).unwrap();
    let map = maps.finish();
    let entries = Arc::new(map.entries().clone());
    let field = Arc::new(Field::new(
        "item",
        DataType::Struct(entries.fields().clone()),
        false,
    ));
    let list = ListArray::new(field, map.offsets().clone(), entries, map.nulls().cloned());
    assert_eq!(digest_array(Arc::new(map)), digest_array(Arc::new(list)));
}

#[test]
fn a_dictionary_counts_the_nulls_among_its_values() {
    let values = Arc::new(StringArray::from(vec![Some("a"), None, Some("a")]));
    let keys = arrow_array::Int32Array::from(vec![Some(0), Some(1), None, Some(2)]);
    let dictionary = DictionaryArray::new(keys, values);
    let plain = StringArray::from(vec![Some("a"), None, None, Some("a")]);
    assert_eq!(digest_array(Arc::new(dictionary)), digest_array(Arc::new(plain)));
}

#[test]
fn units_and_zones_belong_to_the_type() {
    let micros = digest_array(Arc::new(TimestampMicrosecondArray::from(vec![1])));
    let utc = digest_array(Arc::new(
        TimestampMicrosecondArray::from(vec![1]).with_timezone("UTC"),
    ));
    let paris = digest_array(Arc::new(
        TimestampMicrosecondArray::from(vec![1]).with_timezone("Europe/Paris"),
    ));
    assert_eq!(micros.columns()[0].type_name, "timestamp[us]");
    assert_ne!(micros, utc);
    assert_eq!(utc, paris);
}

#[test]
fn all_null_columns_count_their_rows() {
    let digest = digest_array(Arc::new(NullArray::new(5)));
    assert_eq!((digest.columns()[0].values, digest.columns()[0].nulls), (0, 5));
    assert_eq!(digest.columns()[0].checksum, 0);
}

#[test]
fn parts_with_other_columns_are_refused_and_change_nothing() {
    let mut ints = digest_array(Arc::new(Int64Array::from(vec![1])));
    let before = ints.clone();
    let texts = digest_array(Arc::new(StringArray::from(vec!["1"])));
    let error = ints.merge(&texts).unwrap_err();
    assert_eq!(
        error.to_string(),
        "parts of one digest must have the same columns: expected [a: int64], got [a: string]"
    );
    assert_eq!(ints, before);
}

#[test]
fn positions_must_be_one_a_row() {
    let rows =
        RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef)]).unwrap();
    let mut digest = Digest::new(&rows.schema()).unwrap();
    let result = digest.update(&rows, Positions::At(&Int64Array::from(vec![Some(0), None])));
    assert_eq!(
        result,
        Err(Error::Positions {
            positions: 1,
            rows: 2
        })
    );
    assert_eq!(digest.rows(), 0);
}

#[test]
fn the_canonical_encoding_does_not_drift() {
    // Stored digests must stay comparable: a change here is a new version of the encoding.
    let row = Row {
        int: Some(1),
        other: None,
        float: Some(0.5),
        text: Some("text".into()),
        list: Some(vec![Some(1), None]),
        pair: Some((Some(true), None)),
    };
    assert_eq!(
        format!("{:032x}", digest_rows(&[row]).sequence_sum()),
        "00000000000000004593c2a08852136b"
    );
}

#[test]
fn unions_are_refused_by_name() {
    let fields = arrow_schema::UnionFields::try_new([0], [Field::new("a", DataType::Int32, true)]).unwrap();
    let union = Field::new(
        "u",
        DataType::Union(fields, arrow_schema::UnionMode::Sparse),
        true,
    );
    assert!(matches!(
        Digest::new(&Schema::new(vec![union])),
        Err(Error::Unsupported(_))
    ));
}
