//! Changes of rows of one process that wait at the same time share a version.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use delta_commit::conflict::ConflictKind;
use delta_commit::{CommitError, Version, WaitLimit};
use serde_json::Value;

use super::histories::{Worker, conflict, held};
use super::model::{Change, Merging, Wanted};
use super::process::{Process, Step};
use super::{Has, Rows, append, changes, rows, stray, table, wait_limit};
use crate::{PendingChange, Table, TableError};

const ROWS: i64 = 200;

/// A table with one file of rows that may be marked.
fn filled(root: &Path, has: Has) -> Rows {
    let table = table(root, "Serializable", Has { marks: true, ..has });
    let all: Rows = (0..ROWS).map(|id| (id, 0)).collect();
    append(&table, &all);
    all
}

fn delete(id: i64) -> Change {
    Change::Delete(Wanted::Ids([id].into()))
}

fn set(id: i64, value: i64) -> Change {
    Change::Set(Wanted::Ids([id].into()), value)
}

fn prepared(table: &Table, change: &Change) -> PendingChange {
    change.prepare(table).unwrap().1.unwrap()
}

type Done = crate::Result<Version>;

/// Commits the first change, and the others while it is about to create its version.
fn together(worker: &Worker, changes: &[Change]) -> Vec<Done> {
    let pending: Vec<PendingChange> = changes
        .iter()
        .map(|change| prepared(&worker.table, change))
        .collect();
    commit_together(worker, pending)
}

fn commit_together(worker: &Worker, pending: Vec<PendingChange>) -> Vec<Done> {
    held(worker, pending, |pending| pending.commit(&mut wait_limit()))
}

fn info(table: &Table, version: Version) -> Value {
    let history = table.history(None).unwrap();
    history
        .into_iter()
        .find(|entry| entry.version == version)
        .unwrap()
        .info
}

#[test]
fn updates_that_wait_together_are_in_a_few_versions() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path(), Has::default());
    let worker = Worker::new(folder.path(), 0);
    let updates: Vec<Change> = (0..100).map(|id| set(id, 1)).collect();
    let done = together(&worker, &updates);
    let versions: BTreeSet<Version> = done.into_iter().map(Result::unwrap).collect();
    assert_eq!(versions, BTreeSet::from([2, 3, 4]));
    let expected: Rows = (0..ROWS).map(|id| (id, i64::from(id < 100))).collect();
    assert_eq!(rows(&worker.table), expected);
    assert_eq!(stray(&worker.table), Vec::<String>::new());
    let info = info(&worker.table, 3);
    assert_eq!(info["operation"], "UPDATE");
    assert_eq!(info["operationMetrics"]["numUpdatedRows"], "64");
    assert_eq!(info["operationMetrics"]["numAddedFiles"], "64");
    assert_eq!(info["operationMetrics"]["numDeletionVectorsUpdated"], "1");
    let predicate = info["operationParameters"]["predicate"].as_str().unwrap();
    assert!(
        predicate.starts_with(r#"["(id IN (1)) OR (id IN (2)) OR "#),
        "{predicate}"
    );
    assert!(
        predicate.ends_with(r#"(id IN (8)) OR ... 56 more"]"#),
        "{predicate}"
    );
}

#[test]
fn rows_that_two_delete_fail_the_later_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path(), Has::default());
    let worker = Worker::new(folder.path(), 0);
    let ids = [0, 1, 2, 2, 3];
    let done = together(&worker, &ids.map(delete));
    let versions: Vec<Option<Version>> = done.iter().map(|done| done.as_ref().ok().copied()).collect();
    assert_eq!(versions, [Some(2), Some(3), Some(3), None, Some(3)]);
    let refused = conflict(done.into_iter().find_map(Result::err).unwrap());
    assert!(
        matches!(refused.kind, ConflictKind::ConcurrentRows { rows: 1, .. }),
        "{refused}"
    );
    assert_eq!((refused.version, refused.operation.as_str()), (3, "DELETE"));
    let expected: Rows = (4..ROWS).map(|id| (id, 0)).collect();
    assert_eq!(rows(&worker.table), expected);
    assert_eq!(stray(&worker.table), Vec::<String>::new());
}

#[test]
fn a_key_that_two_insert_is_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut expected = filled(folder.path(), Has::default());
    let worker = Worker::new(folder.path(), 0);
    let insert = |id, value| Change::Merge(Merging::Insert, [id].into(), value);
    let done = together(
        &worker,
        &[delete(0), insert(500, 1), insert(500, 2), insert(501, 3)],
    );
    let versions: Vec<Option<Version>> = done.iter().map(|done| done.as_ref().ok().copied()).collect();
    assert_eq!(versions, [Some(2), Some(3), None, Some(3)]);
    let refused = conflict(done.into_iter().find_map(Result::err).unwrap());
    let is_append = matches!(refused.kind, ConflictKind::ConcurrentAppend { .. });
    assert!(is_append && refused.version == 3, "{refused}");
    expected.remove(0);
    expected.extend([(500, 1), (501, 3)]);
    assert_eq!(rows(&worker.table), expected);
    assert_eq!(stray(&worker.table), Vec::<String>::new());
}

#[test]
fn a_conflict_with_another_process_fails_one_of_those_that_wait() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path(), Has::default());
    let (worker, other) = (Worker::new(folder.path(), 0), Worker::new(folder.path(), 1));
    let pending = (0..6).map(|id| prepared(&worker.table, &delete(id)));
    let pending: Vec<PendingChange> = pending.collect();
    let version = prepared(&other.table, &delete(4))
        .commit(&mut wait_limit())
        .unwrap();
    let mut done = commit_together(&worker, pending);
    let refused = conflict(done.remove(4).unwrap_err());
    assert_eq!(refused.version, version);
    for done in done {
        assert!(done.unwrap() > version);
    }
    let expected: Rows = (6..ROWS).map(|id| (id, 0)).collect();
    assert_eq!(rows(&worker.table), expected);
    assert_eq!(stray(&worker.table), Vec::<String>::new());
}

#[test]
fn changes_that_read_different_versions_share_one() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path(), Has::default());
    let worker = Worker::new(folder.path(), 0);
    let mut pending = vec![prepared(&worker.table, &delete(0))];
    for id in 1..5 {
        pending.push(prepared(&worker.table, &delete(id)));
        prepared(&worker.table, &delete(100 + id))
            .commit(&mut wait_limit())
            .unwrap();
    }
    let done = commit_together(&worker, pending);
    let versions: Vec<Version> = done.into_iter().map(Result::unwrap).collect();
    assert_eq!(versions, [6, 7, 7, 7, 7]);
    let gone = |id: &i64| *id < 5 || (101..105).contains(id);
    let expected: Rows = (0..ROWS).filter(|id| !gone(id)).map(|id| (id, 0)).collect();
    assert_eq!(rows(&worker.table), expected);
    assert_eq!(stray(&worker.table), Vec::<String>::new());
}

#[test]
fn a_version_of_several_has_all_of_them_in_its_change_feed() {
    let folder = tempfile::tempdir().unwrap();
    let has = Has {
        feed: true,
        tracks: true,
        ..Has::default()
    };
    filled(folder.path(), has);
    let worker = Worker::new(folder.path(), 0);
    let done = together(&worker, &[set(0, 1), set(1, 2), set(2, 3), delete(3), delete(4)]);
    let versions: Vec<Version> = done.into_iter().map(Result::unwrap).collect();
    // Updates and deletions are different operations.
    assert_eq!(versions, [2, 3, 3, 4, 4]);
    let changed = |version, kind: &str| {
        let mut rows = changes(&worker.table, version).remove(kind).unwrap();
        rows.sort_unstable();
        rows
    };
    assert_eq!(changed(3, "update_preimage"), [(1, 0), (2, 0)]);
    assert_eq!(changed(3, "update_postimage"), [(1, 2), (2, 3)]);
    assert_eq!(changed(4, "delete"), [(3, 0), (4, 0)]);
    super::row_ids::check(&worker.table);
}

/// A process that asks before it creates a version.
fn asking(root: &Path, before: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> Worker {
    Worker::at(|gate| {
        let passing = move |step| {
            gate.pass(step);
            if step == Step::Version { before() } else { Ok(()) }
        };
        Process::storage(root, 0, Arc::new(passing))
    })
}

/// Commits three deletions and one, the last, that waits no longer than this. `leaves` is called when it has left.
fn one_leaves(worker: &Worker, after: Duration, leaves: impl Fn() + Sync) {
    let pending = [0, 1, 2, 3].map(|id| (id, prepared(&worker.table, &delete(id))));
    let done = held(worker, pending.into(), |(id, pending): (i64, PendingChange)| {
        if id < 3 {
            return pending.commit(&mut wait_limit());
        }
        let done = pending.commit(&mut WaitLimit::until(Instant::now() + after));
        leaves();
        done
    });
    let versions: Vec<Option<Version>> = done.iter().map(|done| done.as_ref().ok().copied()).collect();
    assert_eq!(versions, [Some(2), Some(3), Some(3), None]);
    let last = done.into_iter().last().unwrap();
    assert!(
        matches!(last, Err(TableError::Commit(CommitError::DeadlinePassed))),
        "{last:?}"
    );
    let expected: Rows = (3..ROWS).map(|id| (id, 0)).collect();
    assert_eq!(rows(&worker.table), expected);
    assert_eq!(stray(&worker.table), Vec::<String>::new());
}

#[test]
fn who_waits_no_longer_leaves_and_the_others_commit() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path(), Has::default());
    let has_left = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&has_left);
    let worker = asking(folder.path(), move || {
        while !asked.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    });
    one_leaves(&worker, Duration::from_millis(50), || {
        has_left.store(true, Ordering::Release);
    });
}

#[test]
fn who_leaves_while_all_are_tried_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path(), Has::default());
    let has_left = Arc::new(AtomicBool::new(false));
    let (asked, is_second) = (Arc::clone(&has_left), AtomicBool::new(false));
    // A store that is busy from the second version on.
    let worker = asking(folder.path(), move || {
        if is_second.swap(true, Ordering::AcqRel) && !asked.load(Ordering::Acquire) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    });
    one_leaves(&worker, Duration::from_millis(400), || {
        has_left.store(true, Ordering::Release);
    });
}
