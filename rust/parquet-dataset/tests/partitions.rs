//! Every row lands once, in the files of its own partition, in its order, however the rows are cut and mixed.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet_dataset::{DatasetInput, DatasetOptions, DatasetResult, DatasetWriter};
use parquet_writer::{Batch, OptionInput, WriterOptions};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

type Key = (Option<String>, Option<i64>);

fn batch(keys: &[Key]) -> RecordBatch {
    let rows = i64::try_from(keys.len()).unwrap();
    let columns: [(&str, ArrayRef); 3] = [
        (
            "text",
            Arc::new(keys.iter().map(|key| key.0.clone()).collect::<StringArray>()),
        ),
        ("row", Arc::new((0..rows).collect::<Int64Array>())),
        (
            "number",
            Arc::new(keys.iter().map(|key| key.1).collect::<Int64Array>()),
        ),
    ];
    let nullable = columns.map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(nullable).unwrap()
}

fn rows(result: &DatasetResult) -> BTreeMap<Vec<Option<String>>, Vec<i64>> {
    let mut found: BTreeMap<_, Vec<i64>> = BTreeMap::new();
    for file in &result.files {
        let key = file
            .partition
            .iter()
            .map(|(_, value)| value.clone())
            .collect::<Vec<_>>();
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&file.path).unwrap()).unwrap();
        let rows = found.entry(key).or_default();
        for batch in reader.build().unwrap() {
            rows.extend(batch.unwrap().column(0).as_primitive::<Int64Type>().values());
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.div_ceil(6), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_row_is_in_its_place(
        keys in vec((option::of("[a-b]{0,1}"), option::of(0..3_i64)), 1..200),
        cuts in vec(any::<prop::sample::Index>(), 0..6),
        max_open_files in 1..6_i64,
        max_file_rows in option::of(1..40_i64),
        together in 1..4_usize,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let options = DatasetOptions::new(DatasetInput {
            partition_by: vec!["text".into(), "number".into()],
            max_open_files,
            max_file_rows,
            ..DatasetInput::default()
        });
        let batch = batch(&keys);
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(keys.len() + 1)).collect();
        cuts.extend([0, keys.len()]);
        cuts.sort_unstable();
        let writer_options = WriterOptions::new(OptionInput::default()).unwrap();
        let mut writer =
            DatasetWriter::new(folder.path(), Some(batch.schema()), options.unwrap(), writer_options).unwrap();
        let parts = cuts.windows(2).map(|edge| Batch::from(batch.slice(edge[0], edge[1] - edge[0])));
        let parts: Vec<_> = parts.collect();
        for parts in parts.chunks(together) {
            writer.write_all(parts, &mut || true).unwrap();
        }
        writer.close(&mut || true).unwrap();
        let result = writer.result().unwrap();

        let mut expected: BTreeMap<_, Vec<i64>> = BTreeMap::new();
        for (row, (text, number)) in (0_i64..).zip(&keys) {
            let text = text.clone().filter(|text| !text.is_empty());
            let number = number.map(|number| number.to_string());
            expected.entry(vec![text, number]).or_default().push(row);
        }
        prop_assert_eq!(rows(result), expected);
        let most = u64::try_from(max_file_rows.unwrap_or(i64::MAX)).unwrap();
        prop_assert!(result.files.iter().all(|file| file.file.rows <= most));
    }
}
