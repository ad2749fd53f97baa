//! A table as its log adds up, version by version and by way of checkpoints.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use delta_commit::Patience;
use delta_table::{AppendOptions, Condition, CreateMode, CreateOptions, Scalar, Snapshot, Table, TableError};
use parquet_writer::{OptionInput, WriterOptions};

fn patience() -> Patience<'static> {
    Patience::until(Instant::now() + Duration::from_secs(30))
}

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
    Table::create(root, &schema(), options, CreateMode::Error, &mut patience()).unwrap()
}

fn append(table: &Table, day: Option<&str>, id: i64) -> i64 {
    let rows = RecordBatch::try_new(
        schema(),
        vec![
            Arc::new(StringArray::from(vec![day])),
            Arc::new(Int64Array::from(vec![id])),
        ],
    );
    let options = WriterOptions::new(OptionInput::default()).unwrap();
    let mut append = table.append(AppendOptions::default(), options).unwrap();
    append.write(&rows.unwrap().into(), &mut || true).unwrap();
    append.commit(&mut patience(), &mut || true).unwrap()
}

fn paths(snapshot: &Snapshot) -> Vec<String> {
    snapshot.files().map(|add| add.path.clone()).collect()
}

#[test]
fn reading_on_is_reading_anew() {
    let folder = tempfile::tempdir().unwrap();
    let table = create(folder.path());
    for id in 0..5 {
        append(&table, [Some("a"), None, Some("b c")][id as usize % 3], id);
        let read_on = table.snapshot().unwrap();
        let anew = table.snapshot_at(read_on.version).unwrap();
        assert_eq!(paths(&read_on), paths(&anew));
        assert_eq!(read_on.changed_in, anew.changed_in);
    }
    let condition = Condition {
        column: "day".to_owned(),
        operator: "=".to_owned(),
        values: vec![Scalar::Null],
    };
    assert_eq!(table.delete(&[condition], &mut patience()).unwrap(), 6);
    assert_eq!(table.snapshot().unwrap().files().count(), 3);
}

#[test]
fn a_checkpoint_holds_what_the_log_holds() {
    let folder = tempfile::tempdir().unwrap();
    let table = create(folder.path());
    for id in 0..4 {
        append(&table, [Some("x=y"), None][id as usize % 2], id);
    }
    table.truncate(&mut patience()).unwrap();
    append(&table, Some("50%"), 9);
    let before = table.snapshot().unwrap();
    assert_eq!(table.checkpoint().unwrap(), 6);
    for version in 0..6 {
        std::fs::remove_file(folder.path().join(format!("_delta_log/{version:020}.json"))).unwrap();
    }
    let after = table.snapshot_at(6).unwrap();
    assert_eq!(after.metadata, before.metadata);
    assert_eq!(after.protocol, before.protocol);
    assert_eq!(after.changed_in, before.changed_in);
    assert_eq!(after.contents.tombstones.len(), 4);
    let (old, new) = (before.files().next().unwrap(), after.files().next().unwrap());
    assert_eq!(
        (&old.path, &old.partition_values, &old.stats),
        (&new.path, &new.partition_values, &new.stats)
    );
    assert!(matches!(table.snapshot_at(3), Err(TableError::NoSuchVersion(_))));
}

#[test]
fn an_older_checkpoint_does_not_move_the_hint_back() {
    let folder = tempfile::tempdir().unwrap();
    let table = create(folder.path());
    append(&table, None, 1);
    table.checkpoint().unwrap();
    let hint = || std::fs::read_to_string(folder.path().join("_delta_log/_last_checkpoint")).unwrap();
    let newest = hint();
    let log = folder.path().join("_delta_log");
    std::fs::copy(
        log.join("00000000000000000001.checkpoint.parquet"),
        log.join("00000000000000000007.checkpoint.parquet"),
    )
    .unwrap();
    table.checkpoint().unwrap();
    assert_eq!(hint(), newest);
}

#[test]
fn handles_on_one_table_share_a_committer() {
    let folder = tempfile::tempdir().unwrap();
    create(folder.path());
    let writers: Vec<_> = (0..32)
        .map(|id| {
            let root = folder.path().to_path_buf();
            thread::spawn(move || append(&Table::open(&root).unwrap(), Some("a"), id))
        })
        .collect();
    let versions: Vec<i64> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
    let table = Table::open(folder.path()).unwrap();
    let newest = table.snapshot().unwrap();
    assert_eq!(newest.files().count(), 32);
    assert_eq!(versions.into_iter().max(), Some(newest.version));
    assert!(table.is_checkpoint_due(10).unwrap());
    assert!(!table.is_checkpoint_due(11).unwrap());
    assert!(table.is_checkpoint_due(20).unwrap());
}
