//! Compactions wait for a change of rows that one of them got ahead of.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use delta_commit::await_intent_gc;

use super::model::{Change, Wanted};
use super::process::Process;
use super::{Has, append, options, rows_at, table, wait_limit};
use crate::{CompactOptions, PendingChange, PendingCompaction, Retry, Table};

/// The table in a process of its own.
fn opened(root: &Path, process: usize) -> Table {
    Table::open_at(Process::storage(root, process, Arc::new(|_| Ok(())))).unwrap()
}

/// A table with deletion vectors and several files.
fn create(root: &Path) {
    let has = Has {
        marks: true,
        ..Has::default()
    };
    let table = table(root, "WriteSerializable", has);
    append_some(&table, 0);
}

fn append_some(table: &Table, from: i64) {
    for id in [from, from + 10] {
        let rows: Vec<_> = (id..id + 10).map(|id| (id, id)).collect();
        append(table, &rows);
    }
}

fn deletion(table: &Table) -> PendingChange {
    let change = Change::Delete(Wanted::Ids(BTreeSet::from([3])));
    change.prepare(table).unwrap().1.unwrap()
}

fn compaction(table: &Table) -> PendingCompaction<'_> {
    let mut compaction = table.compact(CompactOptions::default(), options()).unwrap();
    compaction.rewrite(&mut || true).unwrap().unwrap()
}

/// A deletion in one process that lost to a compaction of another one, and must be retried.
fn overtaken<'a>(change: &'a Table, optimiser: &Table) -> Retry<'a> {
    let mut retry = Retry::of(change);
    let late = deletion(change);
    compaction(optimiser).commit(&mut wait_limit()).unwrap();
    assert!(retry.should_retry(&late.commit(&mut wait_limit()).unwrap_err()));
    append_some(optimiser, 100);
    retry
}

#[test]
fn the_next_compaction_comes_after_it_and_takes_its_marks_over() {
    let folder = tempfile::tempdir().unwrap();
    create(folder.path());
    let (change, optimiser) = (opened(folder.path(), 1), opened(folder.path(), 2));
    let retry = overtaken(&change, &optimiser);
    // The request of `retry` lasts twice as long as a deletion took, which a busy machine outlasts.
    let longer = change.shared().unwrap().request_backoff(Duration::from_secs(10));
    let pending = compaction(&optimiser);
    let (deleted, compacted) = thread::scope(|scope| {
        let waits = scope.spawn(|| pending.commit(&mut wait_limit()).unwrap());
        thread::sleep(Duration::from_millis(100));
        let deleted = deletion(&change).commit(&mut wait_limit()).unwrap();
        drop((retry, longer));
        (deleted, waits.join().unwrap().version)
    });
    assert!(deleted < compacted, "{deleted} came after {compacted}");
    let ids: Vec<i64> = rows_at(&change, None).into_iter().map(|(id, _)| id).collect();
    let expected: Vec<i64> = (0..20).chain(100..120).filter(|id| *id != 3).collect();
    assert_eq!(ids, expected);
}

#[test]
fn one_that_ends_leaves_no_request() {
    let folder = tempfile::tempdir().unwrap();
    create(folder.path());
    let (change, optimiser) = (opened(folder.path(), 1), opened(folder.path(), 2));
    let requests = || {
        let names = std::fs::read_dir(folder.path().join("_spillway/intents")).unwrap();
        let mut names = names.map(|name| name.unwrap().file_name().into_string().unwrap());
        names.any(|name| name.ends_with(".precedence"))
    };
    let retry = overtaken(&change, &optimiser);
    assert!(requests());
    drop(retry);
    assert!(await_intent_gc(Duration::from_secs(60)));
    assert!(!requests());
}

#[test]
fn one_that_died_stops_no_compaction_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    create(folder.path());
    let (change, optimiser) = (opened(folder.path(), 1), opened(folder.path(), 2));
    std::mem::forget(overtaken(&change, &optimiser));
    let compacted = compaction(&optimiser).commit(&mut wait_limit()).unwrap();
    assert!(compacted.added_files > 0);
}
