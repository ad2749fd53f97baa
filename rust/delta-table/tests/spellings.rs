//! Other writers spell the path of a file in other ways: a file stays the same file.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use delta_commit::{CommitError, WaitLimit, path};
use delta_table::{Append, AppendOptions, CreateMode, CreateOptions, Table, TableError};
use parquet_writer::{OptionInput, WriterOptions};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("day", DataType::Utf8, true),
        Field::new("id", DataType::Int64, true),
    ]))
}

fn create(root: &Path) -> Table {
    let options = CreateOptions {
        partition_by: vec!["day".to_owned()],
        ..CreateOptions::default()
    };
    let mut wait = WaitLimit::until(Instant::now() + Duration::from_secs(30));
    Table::create(root, &schema(), options, CreateMode::Error, &mut wait).unwrap()
}

fn append(table: &Table) -> Append {
    let options = WriterOptions::new(OptionInput::default()).unwrap();
    table.append(AppendOptions::default(), options).unwrap()
}

/// The bytes of a part with one file, and the file's entry.
fn detached(table: &Table, day: &str) -> (Vec<u8>, Value) {
    let day = Arc::new(StringArray::from(vec![day]));
    let rows = RecordBatch::try_new(schema(), vec![day, Arc::new(Int64Array::from(vec![1]))]);
    let mut append = append(table);
    append.write(&rows.unwrap().into(), &mut || true).unwrap();
    let part = append.detach(&mut || true).unwrap();
    let entry = serde_json::from_slice::<Value>(&part).unwrap()["adds"][0].take();
    (part, entry)
}

/// Another writer's spelling of a name: one of these choices for each character and each slash.
fn spelled(name: &str, choices: &[u8]) -> String {
    let mut spelled = String::new();
    for (character, choice) in name.chars().zip(choices.iter().cycle()) {
        match (character, choice % 4) {
            ('/', 0) => spelled.push_str("//"),
            ('/', 1) => spelled.push_str("/./"),
            ('%', _) | (_, 0) => {
                for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                    write!(spelled, "%{byte:02x}").unwrap();
                }
            }
            _ => spelled.push(character),
        }
    }
    spelled
}

fn write_version(root: &Path, version: i64, action: &Value) {
    fs::write(
        root.join(format!("_delta_log/{version:020}.json")),
        action.to_string(),
    )
    .unwrap();
}

fn is_duplicate(done: &Result<(), TableError>) -> bool {
    matches!(done, Err(TableError::Commit(CommitError::DuplicateFile { .. })))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.div_ceil(8), failure_persistence: None, ..ProptestConfig::default() })]

    /// Whoever gave up an append removed the files of its parts, but for those that the table had under their own
    /// spelling.
    #[test]
    fn a_file_that_another_writer_listed_is_neither_removed_nor_added_twice(
        day in "[ab é%=]{1,4}",
        start in prop_oneof![Just(""), Just("./"), Just("/"), Just("file:"), Just("file://"), Just("s3://bucket/at")],
        choices in vec(any::<u8>(), 1..40),
        others in vec(any::<u8>(), 1..40),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let table = create(&root);
        let (part, mut entry) = detached(&table, &day);
        let name = path::decode_inside(entry["path"].as_str().unwrap()).unwrap();
        let mut first = append(&table);
        first.attach(&part).unwrap();
        let relative = spelled(&name, &choices);
        let listed = match start {
            "" | "./" => format!("{start}{relative}"),
            "/" => format!("{}/{relative}", root.display()),
            _ => format!("{start}{}/{relative}", root.display()),
        };
        entry["path"] = json!(listed);
        write_version(&root, 1, &json!({"add": entry}));
        first.abort();
        prop_assert!(root.join(&name).exists());
        prop_assert!(is_duplicate(&append(&table).attach(&part)));
        prop_assert!(root.join(&name).exists());
        let folder = name.rsplit_once('/').unwrap().0;
        prop_assert!(table.paths_in_use(folder).unwrap().contains(&name));
        if path::decode_inside(&listed).is_err() {
            return Ok(());
        }
        let removed = spelled(&name, &others);
        write_version(&root, 2, &json!({"remove": {"path": removed, "dataChange": true, "deletionTimestamp": 1}}));
        prop_assert_eq!(table.snapshot().unwrap().files().count(), 0);
        prop_assert!(is_duplicate(&append(&table).attach(&part)));
    }
}
