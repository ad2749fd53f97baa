//! A process that dies between any two of its changes of the folder loses no row and doubles none.

use std::collections::BTreeSet;
use std::fs::{self, File, FileTimes};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use super::model::{Change, Merging, Model, Wanted};
use super::process::{Process, Step};
use super::{Has, Rows, append, files_of, opened, options, rows, stored, table, wait_limit};
use crate::{CompactOptions, Result, Table, VacuumOptions};

/// Rows of the first file. Every third of them takes a deletion vector that the log does not hold.
const MARKED: i64 = 600;

/// Rows of the second file, of which more than half leave, and of the third, of which all do.
const REWRITTEN: i64 = 12;
const REMOVED: i64 = 4;

/// An operation of the process that dies.
enum Operation {
    Change(Change),
    Compact {
        purge: bool,
    },
    /// A compaction beside a deletion of another process that marks rows of its files.
    CompactLate,
    Vacuum,
}

impl Operation {
    fn run(&self, table: &Table) -> Result<()> {
        match self {
            Self::Change(change) => {
                if let Some(pending) = change.prepare(table)?.1 {
                    pending.commit(&mut wait_limit())?;
                }
            }
            Self::Compact { purge } => compact(table, *purge, || ())?,
            Self::CompactLate => compact(table, false, || {
                let others = Change::Delete(Wanted::Ids((1..MARKED).step_by(3).collect()));
                Self::Change(others).run(&opened(table.root())).unwrap();
            })?,
            Self::Vacuum => vacuum(table)?,
        }
        Ok(())
    }

    /// The rows after it, if these are there before.
    fn after(&self, before: &Rows) -> Rows {
        let mut model = Model::new("Serializable");
        model.append(0, before);
        match self {
            Self::Change(change) => {
                model.change(0, change);
            }
            Self::CompactLate => {
                let others = Wanted::Ids((1..MARKED).step_by(3).collect());
                model.change(0, &Change::Delete(others));
            }
            Self::Compact { .. } | Self::Vacuum => {}
        }
        model.rows()
    }
}

fn compact(table: &Table, purge: bool, meanwhile: impl FnOnce()) -> Result<()> {
    let compact = CompactOptions {
        purge,
        ..CompactOptions::default()
    };
    let mut compaction = table.compact(compact, options())?;
    let mut pending = compaction.rewrite(&mut || true)?;
    meanwhile();
    while let Some(version) = pending {
        version.commit(&mut wait_limit())?;
        pending = compaction.rewrite(&mut || true)?;
    }
    Ok(())
}

fn vacuum(table: &Table) -> Result<()> {
    vacuum_while(table, &mut || true)
}

fn vacuum_while(table: &Table, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
    let all = VacuumOptions {
        retention: Some(0),
        dry_run: false,
        enforce_retention: false,
    };
    table.vacuum(&all, go_on).map(drop)
}

/// Rows of all three files.
fn touched() -> BTreeSet<i64> {
    let first = (0..MARKED).step_by(3);
    let second = MARKED..MARKED + REWRITTEN - 2;
    let third = MARKED + REWRITTEN..MARKED + REWRITTEN + REMOVED;
    first.chain(second).chain(third).collect()
}

/// A table of three files. If `is_used`, rows of the first are marked, files that left the table are there, and it has
/// a change data feed.
fn begin(root: &Path, is_used: bool) {
    let table = table(
        root,
        "Serializable",
        Has {
            marks: true,
            feed: is_used,
            tracks: false,
        },
    );
    let mut first = 0;
    for count in [MARKED, REWRITTEN, REMOVED] {
        append(
            &table,
            &(first..first + count).map(|id| (id, 0)).collect::<Rows>(),
        );
        first += count;
    }
    if is_used {
        let some = || Wanted::Ids((2..MARKED).step_by(3).collect());
        let increments = (0..3).map(|_| Change::Increment(some()));
        for change in increments.chain([Change::Delete(Wanted::Ids([1, 4].into()))]) {
            Operation::Change(change).run(&table).unwrap();
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Makes the files of a folder, without those of the log, two days old.
fn age(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            if entry.file_name() != "_delta_log" {
                age(&entry.path());
            }
        } else {
            let file = File::options().write(true).open(entry.path()).unwrap();
            let then = SystemTime::now() - Duration::from_secs(2 * 86_400);
            file.set_times(FileTimes::new().set_modified(then)).unwrap();
        }
    }
}

/// Runs an operation in a process that dies after so many changes of the folder. Returns true if it died.
fn die_after(root: &Path, changes: usize, operation: &Operation) -> bool {
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let before = move |_: Step| {
        if count.fetch_add(1, Ordering::Relaxed) < changes {
            return Ok(());
        }
        Err(io::Error::from(io::ErrorKind::BrokenPipe))
    };
    let table = Table::open_at(Process::storage(root, 0, Arc::new(before))).unwrap();
    let done = operation.run(&table);
    let died = made.load(Ordering::Relaxed) > changes;
    assert!(died || done.is_ok(), "{done:?}");
    died
}

/// The names of the files that the newest version needs.
fn needed(table: &Table) -> BTreeSet<String> {
    let snapshot = table.snapshot().unwrap();
    snapshot
        .files()
        .flat_map(|add| files_of(table.root(), add))
        .collect()
}

fn survives(operation: &Operation, is_used: bool) {
    let template = tempfile::tempdir().unwrap();
    begin(template.path(), is_used);
    let before = rows(&opened(template.path()));
    let after = operation.after(&before);
    for changes in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("table");
        copy(template.path(), &root);
        let died = die_after(&root, changes, operation);
        let table = opened(&root);
        let left = rows(&table);
        assert!(
            left == before || left == after,
            "after {changes} changes: {left:?}"
        );
        assert!(died || left == after);
        operation.run(&table).unwrap();
        assert_eq!(rows(&table), operation.after(&left), "after {changes} changes");
        // Files that no version names stay for a day.
        age(&root);
        vacuum(&table).unwrap();
        assert_eq!(stored(&root), needed(&table), "after {changes} changes");
        assert_eq!(rows(&table), operation.after(&left), "after {changes} changes");
        if !died {
            assert!(changes > 2, "it changed the folder {changes} times alone");
            break;
        }
    }
}

#[test]
fn a_change_of_rows_survives_its_process() {
    let mut keys = touched();
    keys.extend([-1, -2]);
    for change in [
        Change::Delete(Wanted::Ids(touched())),
        Change::Increment(Wanted::Ids(touched())),
        Change::Merge(Merging::Upsert, keys, 7),
    ] {
        survives(&Operation::Change(change), true);
    }
}

#[test]
fn a_compaction_survives_its_process() {
    for purge in [true, false] {
        survives(&Operation::Compact { purge }, true);
    }
    survives(&Operation::CompactLate, false);
}

#[test]
fn a_vacuum_survives_its_process() {
    survives(&Operation::Vacuum, true);
}

#[test]
fn versions_of_a_day_are_read_only_for_a_file_that_no_other_thing_tells_of() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path(), "Serializable", Has::default());
    for id in 0..5 {
        append(&table, &[(id, id)]);
    }
    // A vacuum asks before each version that it reads, and once before it removes files.
    let questions = || {
        let mut questions = 0;
        let mut count = || {
            questions += 1;
            true
        };
        vacuum_while(&table, &mut count).unwrap();
        questions
    };
    assert_eq!(questions(), 0);
    table.truncate(&mut wait_limit()).unwrap();
    assert_eq!(questions(), 1, "the newest version says what left the table");
    assert_eq!(stored(folder.path()), BTreeSet::new());
    let young = "part-of-another.parquet";
    fs::write(folder.path().join(young), "").unwrap();
    assert!(questions() >= 6, "some version may have named it");
    assert_eq!(stored(folder.path()), [young.to_owned()].into());
}
