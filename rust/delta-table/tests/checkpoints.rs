//! Checkpoints beside other processes: what they clean up, write anew and replace.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod counted;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch, StructArray, new_null_array};
use delta_commit::Version;
use delta_table::{Snapshot, Table, TableStorage};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use counted::{Counted, HINT, add_files, append, create, open, version_path};

/// A table of two versions with a checkpoint of the second, as another process left it.
fn with_checkpoint(root: &Path) -> PathBuf {
    create(root);
    let before = Table::open(root).unwrap();
    append(&before);
    before.checkpoint().unwrap();
    root.join("_delta_log/00000000000000000001.checkpoint.parquet")
}

#[test]
fn a_checkpoint_cleaned_up_while_it_is_read_is_not_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let old = with_checkpoint(folder.path());
    let elsewhere = tempfile::tempdir().unwrap();
    for file in fs::read_dir(folder.path().join("_delta_log")).unwrap() {
        let file = file.unwrap();
        fs::create_dir_all(elsewhere.path().join("_delta_log")).unwrap();
        fs::copy(
            file.path(),
            elsewhere.path().join("_delta_log").join(file.file_name()),
        )
        .unwrap();
    }
    let later = Table::open(elsewhere.path()).unwrap();
    append(&later);
    assert_eq!(later.checkpoint().unwrap(), 2);
    drop(later);
    let root = folder.path().to_path_buf();
    let storage = Counted::new(folder.path());
    *storage.before_checkpoint.lock().unwrap() = Some(Box::new(move || {
        for name in [
            "00000000000000000002.json",
            "00000000000000000002.checkpoint.parquet",
        ] {
            let (from, to) = (elsewhere.path().join("_delta_log"), root.join("_delta_log"));
            fs::copy(from.join(name), to.join(name)).unwrap();
        }
        for version in 0..2 {
            fs::remove_file(version_path(&root, version)).unwrap();
        }
        fs::remove_file(old).unwrap();
    }));
    let table = open(&storage);
    assert_eq!(table.snapshot().unwrap().files().count(), 2);
    assert_eq!(table.damaged_checkpoint(), None);
}

#[test]
fn a_checkpoint_that_replaced_a_damaged_one_meanwhile_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let good = with_checkpoint(folder.path());
    let body = fs::read(&good).unwrap();
    fs::remove_file(&good).unwrap();
    let damaged = "00000000000000000001.checkpoint.00000000-0000-4000-8000-000000000000.parquet";
    fs::write(
        folder.path().join("_delta_log").join(damaged),
        b"PAR1 and no more",
    )
    .unwrap();
    let storage = Counted::new(folder.path());
    let name = format!("_delta_log/{}", good.file_name().unwrap().to_str().unwrap());
    let mark = Arc::new(Mutex::new(None));
    let (written, written_as) = (Arc::clone(&mark), Arc::clone(&storage));
    *storage.before_replacing.lock().unwrap() = Some(Box::new({
        let name = name.clone();
        move || {
            fs::write(&good, body).unwrap();
            *written.lock().unwrap() = written_as.mark(&name).unwrap();
        }
    }));
    let table = open(&storage);
    assert!(table.damaged_checkpoint().is_some());
    assert_eq!(table.checkpoint().unwrap(), 1);
    assert!(mark.lock().unwrap().is_some());
    assert_eq!(storage.mark(&name).unwrap(), *mark.lock().unwrap());
}

#[test]
fn a_late_checkpoint_does_not_move_the_hint_back() {
    let folder = tempfile::tempdir().unwrap();
    create(folder.path());
    let storage = Counted::new(folder.path());
    let table = open(&storage);
    append(&table);
    let (root, hooked) = (folder.path().to_path_buf(), Arc::clone(&storage));
    let newer = r#"{"version":7,"size":2}"#;
    // Before the checkpoint's file, and then before the hint.
    *storage.before_replacing.lock().unwrap() = Some(Box::new(move || {
        *hooked.before_replacing.lock().unwrap() = Some(Box::new(move || {
            let log = root.join("_delta_log");
            let of = |version: i64| log.join(format!("{version:020}.checkpoint.parquet"));
            fs::copy(of(1), of(7)).unwrap();
            fs::write(root.join(HINT), newer).unwrap();
        }));
    }));
    assert_eq!(table.checkpoint().unwrap(), 1);
    assert!(storage.before_replacing.lock().unwrap().is_none());
    assert_eq!(fs::read_to_string(folder.path().join(HINT)).unwrap(), newer);
}

#[test]
fn a_checkpoint_that_is_there_is_not_read_whole_to_say_so() {
    let folder = tempfile::tempdir().unwrap();
    create(folder.path());
    add_files(folder.path(), 1, 40_000);
    Table::open(folder.path()).unwrap().checkpoint().unwrap();
    let checkpoint = folder
        .path()
        .join("_delta_log/00000000000000000001.checkpoint.parquet");
    let size = usize::try_from(fs::metadata(checkpoint).unwrap().len()).unwrap();
    let storage = Counted::new(folder.path());
    let table = open(&storage);
    storage.forget();
    assert_eq!(table.checkpoint().unwrap(), 1);
    let (_, bytes) = storage.counts();
    assert!(bytes * 2 < size, "{bytes} of {size} bytes");
}

/// What a version says of a file of this number.
#[derive(Debug, Clone)]
enum Change {
    Add(u8, Option<u8>),
    Remove(u8),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (0..6_u8, prop::option::of(0..3_u8)).prop_map(|(file, vector)| Change::Add(file, vector)),
        (0..6_u8).prop_map(Change::Remove),
    ]
}

/// The actions of versions with these changes, each of the file as it was by then. Some removals are old.
fn versions(changes: &[Vec<Change>]) -> Vec<Vec<Value>> {
    let mut files: BTreeMap<u8, Value> = BTreeMap::new();
    let mut versions = Vec::new();
    for (number, changes) in changes.iter().enumerate() {
        let mut actions = vec![json!({"txn": {"appId": format!("app-{}", number % 2), "version": number}})];
        let mut met = Vec::new();
        for change in changes {
            let (Change::Add(file, _) | Change::Remove(file)) = change;
            if met.contains(file) {
                continue;
            }
            met.push(*file);
            let path = format!("day=%C3%A9/{file}.parquet");
            if let Some(vector) = files.remove(file) {
                let at = if number % 3 == 0 { json!(1) } else { json!(null) };
                let mut remove = json!({"path": path, "dataChange": true, "deletionTimestamp": at});
                if !vector.is_null() {
                    remove["deletionVector"] = vector;
                }
                actions.push(json!({"remove": remove}));
            }
            if let Change::Add(_, vector) = change {
                let mut add = json!({
                    "path": path, "partitionValues": {}, "size": number, "modificationTime": 1, "dataChange": true,
                    "stats": format!("{{\"numRecords\":{number}}}"),
                });
                let vector = vector.map(|vector| {
                    json!({"storageType": "i", "pathOrInlineDv": format!("v{vector}"), "sizeInBytes": 1, "cardinality": 1})
                });
                let vector = vector.unwrap_or(Value::Null);
                if !vector.is_null() {
                    add["deletionVector"] = vector.clone();
                }
                actions.push(json!({"add": add}));
                files.insert(*file, vector);
            }
        }
        versions.push(actions);
    }
    versions
}

fn write_version(root: &Path, version: Version, actions: &[Value]) {
    let lines: Vec<String> = actions.iter().map(Value::to_string).collect();
    fs::write(version_path(root, version), lines.join("\n")).unwrap();
}

/// The state of a table, without what a checkpoint leaves out.
fn state(snapshot: &Snapshot) -> Vec<String> {
    let contents = &snapshot.contents;
    let files = contents.files.values().map(|add| {
        format!(
            "{} {} {:?} {:?}",
            add.path, add.size, add.stats, add.deletion_vector
        )
    });
    let young = contents
        .tombstones
        .values()
        .filter(|remove| remove.deletion_timestamp != Some(1));
    let removed = young.map(|remove| format!("{} {:?}", remove.path, remove.deletion_vector));
    let progress = contents.transactions.values().map(|txn| format!("{txn:?}"));
    files.chain(removed).chain(progress).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.div_ceil(8), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_checkpoint_after_others_is_that_of_all_versions(
        changes in vec(vec(change(), 1..5), 1..12),
        checkpoints in vec(any::<bool>(), 12),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        create(root);
        let plain = tempfile::tempdir().unwrap();
        fs::create_dir(plain.path().join("_delta_log")).unwrap();
        fs::copy(version_path(root, 0), version_path(plain.path(), 0)).unwrap();
        for ((version, actions), is_due) in (1..).zip(versions(&changes)).zip(&checkpoints) {
            write_version(root, version, &actions);
            write_version(plain.path(), version, &actions);
            if *is_due {
                prop_assert_eq!(Table::open(root).unwrap().checkpoint().unwrap(), version);
            }
        }
        let newest = Version::try_from(changes.len()).unwrap();
        let table = Table::open(root).unwrap();
        prop_assert_eq!(table.checkpoint().unwrap(), newest);
        drop(table);
        for version in 0..=newest {
            fs::remove_file(version_path(root, version)).unwrap();
        }
        let (found, expected) = (Table::open(root).unwrap(), Table::open(plain.path()).unwrap());
        let found = found.snapshot().unwrap();
        prop_assert_eq!(found.version, newest);
        prop_assert_eq!(state(&found), state(&expected.snapshot().unwrap()));
        let hint: Value = serde_json::from_slice(&fs::read(root.join(HINT)).unwrap()).unwrap();
        prop_assert_eq!(&hint["numOfAddFiles"], &json!(found.contents.files.len()));
    }
}

#[test]
fn a_checkpoint_copies_the_previous_one_without_reading_it_whole() {
    let folder = tempfile::tempdir().unwrap();
    create(folder.path());
    add_files(folder.path(), 1, 2_000);
    Table::open(folder.path()).unwrap().checkpoint().unwrap();
    add_files(folder.path(), 2, 3);
    let storage = Counted::new(folder.path());
    let table = open(&storage);
    storage.forget();
    assert_eq!(table.checkpoint().unwrap(), 2);
    let whole = storage.whole.lock().unwrap().clone();
    assert!(
        !whole.iter().any(|name| name.contains(".checkpoint.")),
        "{whole:?}"
    );
    assert_eq!(table.snapshot().unwrap().files().count(), 2_003);
}

/// Statistics of a file, padded with `bytes` bytes that no reader needs.
fn statistics(rows: usize, bytes: usize) -> String {
    json!({"numRecords": rows, "padding": "a".repeat(bytes)}).to_string()
}

#[test]
fn a_first_checkpoint_of_more_statistics_than_are_held_has_the_newest_of_each_file() {
    let (folder, plain) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    create(folder.path());
    let add = |file: usize, rows: usize, bytes: usize| {
        json!({"add": {
            "path": format!("{file}.parquet"), "partitionValues": {}, "size": 1, "modificationTime": 1,
            "dataChange": true, "stats": statistics(rows, bytes),
        }})
    };
    let remove = |file: usize| json!({"remove": {"path": format!("{file}.parquet"), "dataChange": true}});
    // 40 MB in the first of them.
    let first = (0..20).map(|file| add(file, 1, 2 << 20)).collect();
    // Statistics that come later, twice in one version, of a file that comes back, and of others.
    let second = vec![add(0, 2, 10), add(0, 3, 10), remove(1), remove(2), add(20, 1, 10)];
    let third = vec![add(2, 4, 10), remove(20), add(21, 1, 10)];
    for (version, actions) in (1..).zip([first, second, third]) {
        write_version(folder.path(), version, &actions);
    }
    fs::create_dir(plain.path().join("_delta_log")).unwrap();
    for version in 0..=3 {
        fs::copy(
            version_path(folder.path(), version),
            version_path(plain.path(), version),
        )
        .unwrap();
    }
    let storage = Counted::new(folder.path());
    let table = open(&storage);
    storage.forget();
    assert_eq!(table.checkpoint().unwrap(), 3);
    let whole = storage.whole.lock().unwrap().clone();
    let readings = whole.iter().filter(|name| name.ends_with("01.json")).count();
    assert_eq!(readings, 2, "{whole:?}");
    for version in 0..=3 {
        fs::remove_file(version_path(folder.path(), version)).unwrap();
    }
    let (found, expected) = (
        Table::open(folder.path()).unwrap(),
        Table::open(plain.path()).unwrap(),
    );
    let (found, expected) = (found.snapshot().unwrap(), expected.snapshot().unwrap());
    assert!(state(&found) == state(&expected), "the states differ");
    assert_eq!(found.contents.files.len(), 20);
}

/// Writes a checkpoint's file again, with null as the size of each file.
fn forget_sizes(checkpoint: &Path) {
    let file = fs::File::open(checkpoint).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let schema = reader.schema().clone();
    let batches: Vec<RecordBatch> = reader.build().unwrap().map(Result::unwrap).collect();
    let mut writer = ArrowWriter::try_new(fs::File::create(checkpoint).unwrap(), schema, None).unwrap();
    for batch in batches {
        let (place, _) = batch.schema_ref().column_with_name("add").unwrap();
        let (fields, mut columns, nulls) = batch.column(place).as_struct().clone().into_parts();
        let (size, field) = fields.find("size").unwrap();
        columns[size] = new_null_array(field.data_type(), batch.num_rows());
        let mut all = batch.columns().to_vec();
        all[place] = Arc::new(StructArray::new(fields, columns, nulls)) as ArrayRef;
        writer
            .write(&RecordBatch::try_new(batch.schema(), all).unwrap())
            .unwrap();
    }
    writer.close().unwrap();
}

#[test]
fn a_damaged_entry_is_not_copied_into_the_next_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    forget_sizes(&with_checkpoint(folder.path()));
    append(&Table::open(folder.path()).unwrap());
    let table = Table::open(folder.path()).unwrap();
    assert_eq!(table.checkpoint().unwrap(), 2);
    drop(table);
    let table = Table::open(folder.path()).unwrap();
    assert_eq!(table.snapshot().unwrap().files().count(), 2);
    assert_eq!(table.damaged_checkpoint(), None);
}
