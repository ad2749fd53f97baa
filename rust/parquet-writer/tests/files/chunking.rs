//! The same rows give the same bytes, however they are cut, and come back as they were.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, StringViewArray, TimestampMicrosecondArray,
};
use arrow_schema::{DataType, Field};
use arrow_select::concat::concat_batches;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet_writer::sink::StreamSink;
use parquet_writer::{
    Amount, Batch, BloomRule, CompressionRule, FileWriter, OptionInput, SortInput, WriterOptions,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::common::{Shared, written, written_together};

pub type Row = (Option<i64>, Option<String>, f64, Option<Vec<Option<String>>>);

pub fn row() -> impl Strategy<Value = Row> {
    let number = prop_oneof![option::of(0..20_i64), option::of(any::<i64>())];
    let text = prop_oneof![option::of("[a-c]{0,3}"), option::of(".{0,40}")];
    let list = option::weighted(0.8, vec(option::weighted(0.8, "[a-z]{0,20}"), 0..4));
    (number, text, any::<f64>(), list)
}

pub fn batch(rows: &[Row]) -> RecordBatch {
    let mut lists =
        ListBuilder::new(StringBuilder::new()).with_field(Field::new("element", DataType::Utf8, true));
    for row in rows {
        lists.append_option(row.3.clone());
    }
    let columns: [(&str, ArrayRef); 5] = [
        (
            "number",
            Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()),
        ),
        (
            "text",
            Arc::new(rows.iter().map(|row| row.1.clone()).collect::<StringArray>()),
        ),
        (
            "view",
            Arc::new(rows.iter().map(|row| row.1.clone()).collect::<StringViewArray>()),
        ),
        (
            "float",
            Arc::new(rows.iter().map(|row| row.2).collect::<Float64Array>()),
        ),
        ("list", Arc::new(lists.finish())),
    ];
    let nullable = columns.map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(nullable).unwrap()
}

/// The batch as a file holds it: views are declared as what all readers can use.
fn without_views(batch: &RecordBatch) -> RecordBatch {
    let columns = batch
        .schema()
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(field, column)| {
            let column = match column.data_type() {
                DataType::Utf8View => arrow_cast::cast(column, &DataType::LargeUtf8).unwrap(),
                _ => Arc::clone(column),
            };
            (field.name().clone(), column, true)
        })
        .collect::<Vec<_>>();
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn read(bytes: Vec<u8>) -> RecordBatch {
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes)).unwrap();
    let schema = Arc::clone(reader.schema());
    let batches: Vec<_> = reader.build().unwrap().map(Result::unwrap).collect();
    concat_batches(&schema, &batches).unwrap()
}

pub fn options() -> impl Strategy<Value = OptionInput> {
    let codec = prop_oneof![Just("zstd"), Just("snappy"), Just("uncompressed"), Just("lz4")];
    let mode = prop_oneof![Just("modern"), Just("v1")];
    let sizes = (1..5_000_i64, 1..40_000_i64, 16..8_000_i64);
    let extras = (
        option::of(440_000..660_000_i64),
        any::<bool>(),
        option::of(0.001..0.5_f64),
        option::of((1..300_i64).prop_flat_map(|least| (Just(least), least + 1..3_000))),
    );
    (codec, mode, sizes, extras).prop_map(
        |(codec, mode, (rows, bytes, page), (limit, checksums, fpp, chunk))| OptionInput {
            compression: CompressionRule::All(codec.into()),
            compatibility: mode.into(),
            row_group_rows: rows,
            row_group_bytes: bytes,
            page_bytes: page,
            memory_limit: limit.map(Amount::Bytes),
            page_checksums: checksums,
            content_defined_chunking: chunk,
            bloom_filter: BloomRule::All(fpp),
            ..OptionInput::default()
        },
    )
}

/// The rows in order of number, then of text from the greatest down; nulls as `SortInput` below has them.
fn in_order(rows: &[Row]) -> Vec<Row> {
    let mut rows = rows.to_vec();
    rows.sort_by(|left, right| {
        let numbers = (left.0.is_some(), left.0).cmp(&(right.0.is_some(), right.0));
        let texts = (left.1.is_none(), &right.1).cmp(&(right.1.is_none(), &left.1));
        numbers.then(texts)
    });
    rows
}

fn order() -> Vec<SortInput> {
    let key = |column: &str, direction: &str, nulls: &str| SortInput {
        column: column.into(),
        direction: direction.into(),
        nulls: nulls.into(),
    };
    vec![
        key("number", "ascending", "nulls_first"),
        key("view", "descending", "nulls_last"),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.div_ceil(6), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cuts_change_no_byte_and_rows_come_back(
        rows in vec(row(), 0..60),
        times in 1..100_usize,
        cuts in vec(any::<prop::sample::Index>(), 0..8),
        last in 0..9_usize,
        threads in 1..4_i64,
        options in options(),
    ) {
        let rows: Vec<_> = std::iter::repeat_n(rows, times).flatten().collect();
        let batch = batch(&rows);
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(rows.len() + 1)).collect();
        cuts.sort_unstable();
        let whole = written(&batch, &[], &options);
        prop_assert_eq!(&written(&batch, &cuts, &options), &whole);
        let options = OptionInput { threads: Some(threads), ..options };
        prop_assert_eq!(&written_together(&batch, &cuts, last, &options), &whole);
        let options = OptionInput { hold_batches: true, ..options };
        prop_assert_eq!(&written(&batch, &cuts, &options), &whole);
        prop_assert_eq!(&written_together(&batch, &cuts, last, &options), &whole);
        prop_assert_eq!(read(whole), without_views(&batch));
    }

    #[test]
    fn sorted_row_groups_hold_their_rows_in_order_however_they_came(
        rows in vec(row(), 1..200),
        cuts in vec(any::<prop::sample::Index>(), 0..8),
        row_group_rows in 1..150_i64,
    ) {
        let options = OptionInput {
            row_group_rows,
            sorting_columns: order(),
            sorting: "sort".into(),
            ..OptionInput::default()
        };
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(rows.len() + 1)).collect();
        cuts.sort_unstable();
        let whole = written(&batch(&rows), &[], &options);
        prop_assert_eq!(&written(&batch(&rows), &cuts, &options), &whole);
        let size = usize::try_from(row_group_rows).unwrap();
        let expected: Vec<_> = rows.chunks(size).flat_map(in_order).collect();
        prop_assert_eq!(read(whole.clone()), without_views(&batch(&expected)));
        if rows.len() <= size {
            let verified = OptionInput { sorting: "verify".into(), ..options };
            prop_assert_eq!(written(&batch(&expected), &cuts, &verified), whole);
        }
    }

    #[test]
    fn a_row_out_of_order_is_refused_by_its_place_and_nothing_of_its_batch_is_written(
        rows in vec(row(), 2..100),
        cut in any::<prop::sample::Index>(),
    ) {
        let options = OptionInput { sorting_columns: order(), ..OptionInput::default() };
        let sorted = in_order(&rows);
        let options = WriterOptions::new(options).unwrap();
        let file = Shared::default();
        let sink = Box::new(StreamSink::new(Box::new(file.clone())));
        let mut writer = FileWriter::new(sink, None, options).unwrap();
        let cut = cut.index(rows.len());
        let whole = batch(&rows);
        let first_wrong = (1..rows.len()).find(|&end| in_order(&rows[..=end]) != rows[..=end] && {
            let pair = [rows[end - 1].clone(), rows[end].clone()];
            in_order(&pair) != pair
        });
        let mut outcome = Ok(());
        for part in [whole.slice(0, cut), whole.slice(cut, rows.len() - cut)] {
            outcome = outcome.and_then(|()| writer.write(&Batch::from(part), &mut || true));
        }
        match (first_wrong, outcome) {
            (None, outcome) => prop_assert!(outcome.is_ok()),
            (Some(row), Ok(())) => prop_assert!(false, "row {row} was taken"),
            (Some(row), Err(error)) => {
                let place = format!("row {row} of the file");
                prop_assert!(error.to_string().contains(&place), "{error} should name {place}");
                writer.flush(&mut || true).unwrap();
                writer.write(&Batch::from(batch(&sorted)), &mut || true).unwrap();
                let before = if row < cut { 0 } else { cut };
                writer.close(&mut || true).unwrap();
                prop_assert_eq!(writer.result().unwrap().rows, (before + sorted.len()) as u64);
            }
        }
    }
}

#[test]
fn times_as_int96_come_back() {
    let ticks = [Some(0), None, Some(-1), Some(1_790_000_000_123_456)];
    let times: TimestampMicrosecondArray = ticks.into_iter().cycle().take(5_000).collect();
    let microseconds: ArrayRef = Arc::new(times);
    let batch = RecordBatch::try_from_iter_with_nullable([("t", microseconds, true)]).unwrap();
    let options = OptionInput {
        timestamps: "int96".into(),
        ..OptionInput::default()
    };
    let whole = written(&batch, &[], &options);
    assert_eq!(written(&batch, &[7, 3_000], &options), whole);
    assert_eq!(read(whole), batch);
}
