//! The same rows give the same bytes, however they are cut, and come back as they were.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, StringViewArray};
use arrow_schema::{DataType, Field};
use arrow_select::concat::concat_batches;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet_writer::sink::Stream;
use parquet_writer::{Batch, FileWriter, OptionInput, WriterOptions};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

type Row = (Option<i64>, Option<String>, f64, Option<Vec<Option<String>>>);

fn row() -> impl Strategy<Value = Row> {
    let number = prop_oneof![option::of(0..20_i64), option::of(any::<i64>())];
    let text = prop_oneof![option::of("[a-c]{0,3}"), option::of(".{0,40}")];
    let list = option::weighted(0.8, vec(option::weighted(0.8, "[a-z]{0,20}"), 0..4));
    (number, text, any::<f64>(), list)
}

fn batch(rows: &[Row]) -> RecordBatch {
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

fn written(batch: &RecordBatch, cuts: &[usize], options: &OptionInput) -> Vec<u8> {
    let file = Shared::default();
    let sink = Box::new(Stream::new(Box::new(file.clone())));
    let options = WriterOptions::new(options.clone()).unwrap();
    let mut writer = FileWriter::new(sink, Some(batch.schema()), options).unwrap();
    let edges: Vec<_> = std::iter::once(0)
        .chain(cuts.iter().copied())
        .chain([batch.num_rows()])
        .collect();
    for edge in edges.windows(2) {
        let part = Batch::from(batch.slice(edge[0], edge[1] - edge[0]));
        writer.write(&part, &mut || true).unwrap();
    }
    writer.close(&mut || true).unwrap();
    drop(writer);
    Arc::try_unwrap(file.0).unwrap().into_inner().unwrap()
}

fn read(bytes: Vec<u8>) -> RecordBatch {
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes)).unwrap();
    let schema = Arc::clone(reader.schema());
    let batches: Vec<_> = reader.build().unwrap().map(Result::unwrap).collect();
    concat_batches(&schema, &batches).unwrap()
}

fn options() -> impl Strategy<Value = OptionInput> {
    let codec = prop_oneof![Just("zstd"), Just("snappy"), Just("uncompressed"), Just("lz4")];
    let mode = prop_oneof![Just("modern"), Just("v1")];
    (codec, mode, 1..5_000_i64, 1..40_000_i64, 16..8_000_i64).prop_map(|(codec, mode, rows, bytes, page)| {
        OptionInput {
            compression: codec.into(),
            compatibility: mode.into(),
            row_group_rows: rows,
            row_group_bytes: bytes,
            page_bytes: page,
            ..OptionInput::default()
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cuts_change_no_byte_and_rows_come_back(
        rows in vec(row(), 0..60),
        times in 1..100_usize,
        cuts in vec(any::<prop::sample::Index>(), 0..8),
        options in options(),
    ) {
        let rows: Vec<_> = std::iter::repeat_n(rows, times).flatten().collect();
        let batch = batch(&rows);
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(rows.len() + 1)).collect();
        cuts.sort_unstable();
        let whole = written(&batch, &[], &options);
        prop_assert_eq!(&written(&batch, &cuts, &options), &whole);
        prop_assert_eq!(read(whole), batch);
    }
}
