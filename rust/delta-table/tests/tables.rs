//! A table as its log adds up, version by version and by way of checkpoints.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use delta_commit::actions::{Action, Add};
use delta_commit::store::LocalLogStore;
use delta_commit::{Committer, MemberId, Start, Transaction, WaitLimit};
use delta_table::{
    Append, AppendOptions, Condition, ConditionValue, CreateMode, CreateOptions, Snapshot, Table, TableError,
};
use parquet_writer::{OptionInput, WriterOptions};

fn wait_limit() -> WaitLimit<'static> {
    WaitLimit::until(Instant::now() + Duration::from_secs(30))
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
    Table::create(root, &schema(), options, CreateMode::Error, &mut wait_limit()).unwrap()
}

fn append(table: &Table, day: Option<&str>, id: i64) -> i64 {
    written(table, day, id)
        .commit(&mut wait_limit(), &mut || true)
        .unwrap()
}

/// An append that is not committed yet.
fn written(table: &Table, day: Option<&str>, id: i64) -> Append {
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
    append
}

fn version_path(root: &Path, version: i64) -> PathBuf {
    root.join(format!("_delta_log/{version:020}.json"))
}

/// Makes another table where one was, in the same folders.
fn make_anew(root: &Path, versions: i64) {
    for file in std::fs::read_dir(root.join("_delta_log")).unwrap() {
        std::fs::remove_file(file.unwrap().path()).unwrap();
    }
    // As another process does it: this one would tell its own handles.
    let elsewhere = tempfile::tempdir().unwrap();
    let other = create(elsewhere.path());
    for version in 0..=versions {
        if version > 0 {
            append(&other, Some("b"), version);
        }
        std::fs::copy(
            version_path(elsewhere.path(), version),
            version_path(root, version),
        )
        .unwrap();
    }
}

fn paths(snapshot: &Snapshot) -> Vec<String> {
    snapshot.files().map(|add| add.path.clone()).collect()
}

#[test]
fn reading_on_is_reading_anew() {
    let folder = tempfile::tempdir().unwrap();
    let table = create(folder.path());
    for (id, day) in (0..).zip([Some("a"), None, Some("b c"), Some("a"), None]) {
        append(&table, day, id);
        let read_on = table.snapshot().unwrap();
        let anew = table.snapshot_at(read_on.version).unwrap();
        assert_eq!(paths(&read_on), paths(&anew));
        assert_eq!(read_on.changed_in, anew.changed_in);
    }
    let condition = Condition {
        column: "day".to_owned(),
        operator: "=".to_owned(),
        values: vec![ConditionValue::Null],
    };
    assert_eq!(table.delete(&[condition].into(), &mut wait_limit()).unwrap(), 6);
    assert_eq!(table.snapshot().unwrap().files().count(), 3);
}

#[test]
fn a_checkpoint_holds_what_the_log_holds() {
    let folder = tempfile::tempdir().unwrap();
    let table = create(folder.path());
    for (id, day) in (0..).zip([Some("x=y"), None, Some("x=y"), None]) {
        append(&table, day, id);
    }
    table.truncate(&mut wait_limit()).unwrap();
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
    let append_up_to = |version| while append(&table, Some("a"), 0) < version {};
    append_up_to(10);
    assert!(table.is_checkpoint_due(10).unwrap());
    assert!(!table.is_checkpoint_due(11).unwrap());
    append_up_to(20);
    assert!(table.is_checkpoint_due(20).unwrap());
}

#[test]
fn the_process_that_wrote_a_version_makes_its_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let table = create(folder.path());
    let start = Start {
        version: 0,
        table_id: table.head().unwrap().metadata.id.clone(),
        changed_in: 0,
        in_commit_timestamp: None,
        high_water_mark: None,
        digest: None,
        known: None,
    };
    let elsewhere = Committer::new(Arc::new(LocalLogStore::new(folder.path())), start);
    for version in 1..=10 {
        let add = Action::Add(Add {
            path: version.to_string(),
            data_change: true,
            ..Add::default()
        });
        let soon = Instant::now() + Duration::from_secs(60);
        let one = Transaction::append(MemberId::random(), version - 1, vec![add]);
        assert_eq!(elsewhere.commit(one, soon).unwrap(), version);
    }
    assert_eq!(table.version().unwrap(), 10);
    assert!(!table.is_checkpoint_due(10).unwrap());
    assert_eq!(append(&table, Some("a"), 0), 11);
    assert!(table.is_checkpoint_due(11).unwrap());
}

#[test]
fn nothing_is_committed_into_a_table_that_was_made_anew() {
    // With fewer versions it would get a gap, with as many it would take rows that are another's.
    for versions in [0, 2, 5] {
        let folder = tempfile::tempdir().unwrap();
        let table = create(folder.path());
        append(&table, Some("a"), 1);
        append(&table, Some("a"), 2);
        let mut open = written(&table, Some("a"), 3);
        make_anew(folder.path(), versions);
        let done = open.commit(&mut wait_limit(), &mut || true);
        assert!(matches!(done, Err(TableError::Replaced(_))), "{done:?}");
        assert!(matches!(
            table.truncate(&mut wait_limit()),
            Err(TableError::Replaced(_))
        ));
        assert!(!version_path(folder.path(), versions + 1).exists());
        assert_eq!(
            Table::open(folder.path()).unwrap().snapshot().unwrap().version,
            versions
        );
    }
}

#[test]
fn versions_of_a_table_that_was_made_anew_are_not_read_as_those_of_the_old_one() {
    for versions in [0, 1, 4] {
        let folder = tempfile::tempdir().unwrap();
        let table = create(folder.path());
        append(&table, Some("a"), 1);
        assert_eq!(table.snapshot().unwrap().version, 1);
        make_anew(folder.path(), versions);
        assert!(matches!(table.snapshot(), Err(TableError::Replaced(_))));
    }
}

#[test]
fn a_handle_outlives_the_version_that_it_knows_the_table_by() {
    let folder = tempfile::tempdir().unwrap();
    let table = create(folder.path());
    let mut open = written(&table, Some("a"), 1);
    for id in 0..5 {
        append(&table, Some("a"), id);
    }
    table.checkpoint().unwrap();
    for version in 0..5 {
        std::fs::remove_file(version_path(folder.path(), version)).unwrap();
    }
    assert_eq!(open.commit(&mut wait_limit(), &mut || true).unwrap(), 6);
    assert_eq!(append(&table, Some("a"), 7), 7);
    assert_eq!(table.snapshot().unwrap().files().count(), 7);
}

#[test]
fn a_handle_reads_on_over_many_versions() {
    let folder = tempfile::tempdir().unwrap();
    let table = create(folder.path());
    for id in 0..130 {
        append(&table, Some("a"), id);
    }
    assert_eq!(table.snapshot().unwrap().files().count(), 130);
}

#[test]
fn clean_up_counts_only_what_it_removed() {
    let folder = tempfile::tempdir().unwrap();
    let table = create(folder.path());
    for id in 0..3 {
        append(&table, Some("a"), id);
    }
    table.checkpoint().unwrap();
    // A folder is not removed as a file is.
    std::fs::remove_file(version_path(folder.path(), 1)).unwrap();
    std::fs::create_dir(version_path(folder.path(), 1)).unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(40 * 86_400);
    for file in std::fs::read_dir(folder.path().join("_delta_log")).unwrap() {
        let file = std::fs::File::open(file.unwrap().path()).unwrap();
        file.set_modified(long_ago).unwrap();
    }
    assert_eq!(table.clean_up_log().unwrap(), 2);
    assert_eq!(table.snapshot().unwrap().version, 3);
}

#[test]
fn who_loses_the_race_to_make_a_table_overwrites_it() {
    for _ in 0..40 {
        let folder = tempfile::tempdir().unwrap();
        let start = Barrier::new(2);
        let overwrite = || {
            start.wait();
            let options = CreateOptions::default();
            let mode = CreateMode::Overwrite;
            Table::create(folder.path(), &schema(), options, mode, &mut wait_limit()).map(|_| ())
        };
        thread::scope(|scope| {
            let other = scope.spawn(overwrite);
            overwrite().unwrap();
            other.join().unwrap().unwrap();
        });
        assert_eq!(Table::open(folder.path()).unwrap().snapshot().unwrap().version, 1);
    }
}

/// A plan of the table that `create` makes, and a part that another process wrote by it.
fn planned(root: &Path) -> (Vec<u8>, Vec<u8>) {
    let options = CreateOptions {
        partition_by: vec!["day".to_owned()],
        ..CreateOptions::default()
    };
    let plan = Table::plan(&schema(), options).unwrap();
    let elsewhere = Table::planned(root, &plan).unwrap();
    let part = written(&elsewhere, Some("a"), 1).detach(&mut || true).unwrap();
    assert!(matches!(Table::open(root), Err(TableError::NotFound(_))));
    (plan, part)
}

fn commit_part(table: &Table, part: &[u8]) -> Result<i64, TableError> {
    let options = WriterOptions::new(OptionInput::default()).unwrap();
    let mut append = table.append(AppendOptions::default(), options).unwrap();
    append.attach(part).unwrap();
    append.commit(&mut wait_limit(), &mut || true)
}

#[test]
fn a_planned_table_begins_with_its_first_rows() {
    let folder = tempfile::tempdir().unwrap();
    let (plan, part) = planned(folder.path());
    let table = Table::planned(folder.path(), &plan).unwrap();
    assert_eq!(commit_part(&table, &part).unwrap(), 0);
    let snapshot = Table::open(folder.path()).unwrap().snapshot().unwrap();
    assert_eq!((snapshot.version, snapshot.files().count()), (0, 1));
    assert_eq!(snapshot.metadata.partition_columns, ["day"]);
}

#[test]
fn files_of_a_planned_table_go_into_the_one_that_was_created_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let (plan, part) = planned(folder.path());
    let there = create(folder.path());
    let late = Table::planned(folder.path(), &plan).unwrap();
    assert!(matches!(commit_part(&late, &part), Err(TableError::Exists(_))));
    assert_eq!(commit_part(&there, &part).unwrap(), 1);
    assert_eq!(there.snapshot().unwrap().files().count(), 1);
}
