//! The first inputs of the targets, made by the crates' own writers.

use std::fs;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, StructArray};
use delta_commit::actions::{
    Action, Add, Cdc, CommitInfo, DeletionVector, DomainMetadata, Metadata, Protocol, Remove, Txn,
    UnknownFields,
};
use delta_table::fuzzing::{Checkpoints, vectors};
use parquet_writer::{BloomRule, CompressionRule, FileWriter, OptionInput, WriterOptions, sink};
use serde_json::{Value, json};

use crate::{scratch, unframed};

const SCHEMA: &str =
    r#"{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}"#;

/// One action of each kind.
fn actions() -> Vec<Action> {
    let unknown = || UnknownFields([("future".to_owned(), json!({"a": [1.5], "b": "x"}))].into());
    let add = Add {
        path: "p=a/part-0.parquet".to_owned(),
        partition_values: [("p", Some("a")), ("q", None)].into_iter().collect(),
        size: 1_000,
        modification_time: 1_700_000_000_000,
        data_change: true,
        stats: Some(
            r#"{"numRecords":3,"minValues":{"id":1},"maxValues":{"id":3},"nullCount":{"id":0}}"#.to_owned(),
        ),
        tags: Some([("t".to_owned(), None)].into()),
        deletion_vector: Some(DeletionVector::inline(&[1; 8], 8, 2)),
        base_row_id: Some(7),
        default_row_commit_version: Some(1),
        clustering_provider: Some("liquid".to_owned()),
        unknown: unknown(),
    };
    vec![
        Action::CommitInfo(CommitInfo {
            timestamp: Some(1),
            operation: Some("WRITE".to_owned()),
            ..CommitInfo::default()
        }),
        Action::Protocol(Protocol {
            min_reader_version: 3,
            min_writer_version: 7,
            reader_features: Some(vec!["deletionVectors".to_owned()]),
            writer_features: Some(vec!["deletionVectors".to_owned()]),
            ..Protocol::default()
        }),
        Action::Metadata(Metadata {
            id: "t".to_owned(),
            schema_string: SCHEMA.to_owned(),
            partition_columns: vec!["p".to_owned()],
            configuration: [("delta.appendOnly".to_owned(), "true".to_owned())].into(),
            created_time: Some(1),
            ..Metadata::default()
        }),
        Action::Remove(Remove::of(&add, 1_700_000_000_000, true)),
        Action::Cdc(Cdc::of(add.clone())),
        Action::Add(add),
        Action::Txn(Txn {
            app_id: "app".to_owned(),
            version: 3,
            last_updated: Some(1),
            unknown: unknown(),
        }),
        Action::DomainMetadata(DomainMetadata {
            domain: "d".to_owned(),
            configuration: "{}".to_owned(),
            removed: false,
            ..DomainMetadata::default()
        }),
    ]
}

fn line(action: &Action) -> String {
    action.to_line().expect("an action has a JSON form")
}

/// A version with each action, and one with all of them.
pub fn log_seeds() -> Vec<Vec<u8>> {
    let lines: Vec<String> = actions().iter().map(line).collect();
    let all = lines.join("\n");
    lines.into_iter().chain([all]).map(String::into_bytes).collect()
}

/// Bundles of one member and of two.
pub fn intent_seeds() -> Vec<Vec<u8>> {
    let carried = actions()
        .into_iter()
        .filter(|action| matches!(action, Action::Add(_) | Action::Txn(_)));
    let carried: Vec<Value> = carried
        .map(|action| serde_json::to_value(action).expect("JSON"))
        .collect();
    let member = |number: u8, actions: &[Value]| {
        let id = format!("{number:032x}");
        json!({"id": id, "readVersion": 3, "readAppIds": ["app"], "actions": actions}).to_string()
    };
    let header = |members: usize| {
        json!({"format": 2, "tableId": "t", "changedIn": 1, "first": 4, "expires": 9, "members": members})
            .to_string()
    };
    let one = [header(1), member(1, &carried)].join("\n");
    let two = [header(2), member(1, &carried[..1]), member(2, &carried[1..])].join("\n");
    vec![one.into_bytes(), two.into_bytes()]
}

/// A Parquet file of these columns.
fn file_of(columns: &RecordBatch, options: OptionInput) -> Vec<u8> {
    let path = scratch().join("seed.parquet");
    let options = WriterOptions::new(options).expect("the options fit together");
    let sink = sink::create(&path, false).expect("there is room for files");
    let mut writer = FileWriter::new(sink, Some(columns.schema()), options).expect("the columns have a form");
    writer
        .write(&columns.clone().into(), &mut || true)
        .expect("there is room for files");
    writer.close(&mut || true).expect("there is room for files");
    fs::read(path).expect("the file was written")
}

/// Flat columns and nested ones, with page indexes and bloom filters.
pub fn footer_seeds() -> Vec<Vec<u8>> {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    let flat = RecordBatch::try_from_iter([("id", Arc::clone(&numbers)), ("name", Arc::clone(&texts))]);
    let flat = flat.expect("the columns have one length");
    let nested: ArrayRef = Arc::new(StructArray::from(flat.clone()));
    let nested = RecordBatch::try_from_iter([("group", nested)]).expect("there is one column");
    let plain = || OptionInput {
        compression: CompressionRule::All("uncompressed".to_owned()),
        store_schema: false,
        ..OptionInput::default()
    };
    let files = [
        file_of(&flat, plain()),
        file_of(&nested, plain()),
        file_of(
            &flat,
            OptionInput {
                page_rows: 1,
                row_group_rows: 2,
                ..plain()
            },
        ),
        file_of(
            &nested,
            OptionInput {
                bloom_filter: BloomRule::All(Some(0.01)),
                ..OptionInput::default()
            },
        ),
    ];
    files.iter().filter_map(|file| unframed(file)).collect()
}

/// A Parquet file with each kind of action and one with a few, and the same in JSON.
pub fn checkpoint_seeds() -> Vec<Vec<u8>> {
    let checkpoints = Checkpoints::of(scratch()).expect("there is such a folder");
    let kept: Vec<Action> = actions()
        .into_iter()
        .filter(|action| !matches!(action, Action::CommitInfo(_) | Action::Cdc(_)))
        .collect();
    let mut seeds = Vec::new();
    for kept in [kept.as_slice(), &kept[..2]] {
        checkpoints
            .write("seed.parquet", kept)
            .expect("a checkpoint holds the actions");
        let file = fs::read(scratch().join("_delta_log/seed.parquet")).expect("the file was written");
        seeds.extend(unframed(&file));
        seeds.push(kept.iter().map(line).collect::<Vec<_>>().join("\n").into_bytes());
    }
    seeds.push(
        format!(
            "{}\n",
            json!({"sidecar": {"path": "s.parquet", "sizeInBytes": 1, "modificationTime": 1}})
        )
        .into(),
    );
    seeds
}

/// Vectors of rows near each other and far apart, and of runs.
pub fn vector_seeds() -> Vec<Vec<u8>> {
    let far = [1, 2, 70_000, 1 << 33, (1 << 33) + 5];
    let ranges = [0..0, 3..4, 0..10_000, 65_530..65_540, 0..200_000];
    let rows = [far.to_vec()].into_iter().chain(ranges.map(Iterator::collect));
    let mut seeds: Vec<Vec<u8>> = rows
        .map(|rows: Vec<u64>| vectors::of_rows(&rows).expect("rows have bytes"))
        .collect();
    // A container of runs, which the writer does not make of these rows, and the protocol's example in text.
    let mut runs = 1_681_511_377_u32.to_le_bytes().to_vec();
    runs.extend(1_u64.to_le_bytes());
    runs.extend([0; 4]);
    runs.extend(12_347_u32.to_le_bytes());
    runs.extend([1, 0, 0, 9, 0, 2, 0, 0, 0, 4, 0, 9, 0, 4, 0]);
    seeds.push(runs);
    seeds.push(b"^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L".to_vec());
    seeds
}

/// Conditions with every word that is known.
pub fn condition_seeds() -> Vec<Vec<u8>> {
    let texts = [
        "i64 >= 1 AND s IS NOT NULL OR NOT (b AND i8 < -7)",
        "`st`.`x` = 'it''s' and s in ('a', 'b') or d5 between 0.10 and 1e3",
        "day > DATE '2026-01-31' AND ntz <> TIMESTAMP '2026-01-31 12:00:00' AND ts = '2026-01-31 12:00:00.5+01:00'",
        "f64 != 1.5e-3 and f32 <= 2 and d38 == 99999999999999999999.5 and p not in ('', null)",
        "i64 not between i8 and 9223372036854775807 or true or null or (li is null)",
    ];
    texts.map(|text| text.as_bytes().to_vec()).into()
}
