//! Histories of concurrent transactions of several processes. The order of the versions explains the rows of each, and
//! the rows that each transaction found.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;

use delta_commit::conflict::{Conflict, ConflictKind};
use delta_commit::{CommitError, Version};
use proptest::prelude::*;
use proptest::sample::Index;

use super::model::{Change, Merging, Model, Wanted};
use super::process::{Process, Step};
use super::{
    Has, Rows, append, appended, changes, options, row_ids, rows, rows_at, stray, table, wait_limit,
};
use crate::append::Append;
use crate::storage::TableStorage;
use crate::table::lock;
use crate::{CompactOptions, Compaction, PendingChange, PendingCompaction, RowCounts, Table, TableError};

const PROCESSES: usize = 3;

/// Rows of each of the two files that a history begins with.
const FILE_ROWS: i64 = 6;

/// Rows of a file that comes later, at most.
const NEW_FILE_ROWS: i64 = 2;

/// Identifiers. Those that are in no row at first are for appends and merges.
const IDS: i64 = 2 * FILE_ROWS + 4;

/// Few, so that conditions on them meet.
const VALUES: i64 = 4;

/// The work of one transaction.
#[derive(Debug, Clone)]
enum Work {
    Append(Rows),
    Change(Change),
    Compact { purge: bool },
}

/// A step of a history.
#[derive(Debug, Clone)]
enum Event {
    /// A process reads the table, and writes the files of a transaction.
    Begin(usize, Work),
    /// A transaction is committed.
    Commit(Index),
    /// One is committed while another, which read the log before, is about to create the same version.
    Overtake(Index, Index),
    /// A process commits all of its changes at once, the others while one of them is about to create a version.
    Share(usize),
}

fn wanted() -> impl Strategy<Value = Wanted> {
    prop_oneof![
        6 => prop::collection::btree_set(0..IDS, 1..5).prop_map(Wanted::Ids),
        4 => (0..VALUES).prop_map(Wanted::Value),
        1 => Just(Wanted::All),
    ]
}

fn work() -> impl Strategy<Value = Work> {
    let merging = prop::sample::select(&[
        Merging::Upsert,
        Merging::Insert,
        Merging::Delete,
        Merging::DeleteOthers,
    ]);
    let ids = prop::collection::btree_set(0..IDS, 1..5);
    let change = prop_oneof![
        3 => wanted().prop_map(Change::Delete),
        3 => (wanted(), 0..VALUES).prop_map(|(wanted, value)| Change::Set(wanted, value)),
        2 => wanted().prop_map(Change::Increment),
        4 => (merging, ids, 0..VALUES).prop_map(|(merging, ids, value)| Change::Merge(merging, ids, value)),
    ];
    prop_oneof![
        3 => prop::collection::vec((0..IDS, 0..VALUES), 1..6).prop_map(Work::Append),
        9 => change.prop_map(Work::Change),
        2 => any::<bool>().prop_map(|purge| Work::Compact { purge }),
    ]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        5 => (0..PROCESSES, work()).prop_map(|(process, work)| Event::Begin(process, work)),
        3 => any::<Index>().prop_map(Event::Commit),
        1 => any::<(Index, Index)>().prop_map(|(first, second)| Event::Overtake(first, second)),
        1 => (0..PROCESSES).prop_map(Event::Share),
    ];
    prop::collection::vec(event, 1..18)
}

/// A place where a commit waits, once, before it creates a version.
#[derive(Default)]
pub(super) struct Gate(Mutex<Option<(Sender<()>, Receiver<()>)>>);

impl Gate {
    pub fn pass(&self, step: Step) {
        if step != Step::Version {
            return;
        }
        // The lock is not held while it waits.
        let waits = lock(&self.0).take();
        if let Some((arrived, opened)) = waits {
            let _ = arrived.send(());
            let _ = opened.recv();
        }
    }
}

/// A process that has the table open.
pub(super) struct Worker {
    pub table: Table,
    gate: Arc<Gate>,
}

impl Worker {
    pub fn new(root: &Path, number: usize) -> Self {
        Self::at(|gate| {
            let before = Arc::new(move |step| -> io::Result<()> {
                gate.pass(step);
                Ok(())
            });
            Process::storage(root, number, before)
        })
    }

    /// The process that has the table open in a storage with this gate.
    pub fn at(storage: impl FnOnce(Arc<Gate>) -> Arc<dyn TableStorage>) -> Self {
        let gate = Arc::new(Gate::default());
        let table = Table::open_at(storage(Arc::clone(&gate))).unwrap();
        Self { table, gate }
    }
}

/// Commits the first of these, and the others, one after the other, while it is about to create a version.
pub(super) fn held<T: Send, D: Send>(worker: &Worker, all: Vec<T>, commit: impl Fn(T) -> D + Sync) -> Vec<D> {
    let (arrived, at_gate) = mpsc::channel();
    let (open, opened) = mpsc::channel();
    *lock(&worker.gate.0) = Some((arrived.clone(), opened));
    let shared = worker.table.shared().unwrap();
    let commit = &commit;
    let mut all = all.into_iter();
    thread::scope(|scope| {
        let first = all.next().map(|first| {
            scope.spawn(move || {
                let done = commit(first);
                let _ = arrived.send(());
                done
            })
        });
        at_gate.recv().unwrap();
        // One that has a conflict does not come to the gate, and the next one does not wait there.
        *lock(&worker.gate.0) = None;
        let mut threads: Vec<_> = first.into_iter().collect();
        for next in all {
            let before = shared.changes.count();
            let thread = scope.spawn(move || commit(next));
            // In the order in which they come.
            while shared.changes.count() == before && !thread.is_finished() {
                thread::yield_now();
            }
            threads.push(thread);
        }
        let _ = open.send(());
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// The files of a transaction that is not committed yet.
enum Pending<'a> {
    Append(Box<Append>),
    Change(Box<PendingChange>),
    Compaction(Box<PendingCompaction<'a>>),
}

/// A transaction that is not committed yet.
struct Begun<'a> {
    process: usize,
    read: Version,
    work: Work,
    /// The rows of a change, as far as it found them.
    found: RowCounts,
    pending: Pending<'a>,
}

impl<'a> Begun<'a> {
    fn begin(process: usize, worker: &'a Worker, work: &Work, model: &Model) -> Option<Self> {
        let table = &worker.table;
        let (mut read, mut found) = (0, RowCounts::default());
        let pending = match work {
            Work::Append(rows) => {
                let append = appended(table, rows, Some(NEW_FILE_ROWS));
                Some(Pending::Append(Box::new(append)))
            }
            Work::Change(change) => {
                let (version, pending) = change.prepare(table).unwrap();
                read = version;
                found = pending.as_ref().map(PendingChange::counts).unwrap_or_default();
                assert_eq!(found, model.expected(change), "{change:?} finds other rows");
                pending.map(|pending| Pending::Change(Box::new(pending)))
            }
            Work::Compact { purge } => {
                let pending = compaction(table, *purge).rewrite(&mut || true).unwrap();
                pending.map(|pending| Pending::Compaction(Box::new(pending)))
            }
        };
        Some(Self {
            process,
            read,
            work: work.clone(),
            found,
            pending: pending?,
        })
    }

    fn commit(self) -> Done {
        let version = match self.pending {
            Pending::Append(mut append) => append.commit(&mut wait_limit(), &mut || true),
            Pending::Change(change) => change.commit(&mut wait_limit()),
            Pending::Compaction(compaction) => {
                let done = compaction.commit(&mut wait_limit());
                done.map(|done| done.version)
            }
        };
        Done {
            version: version.map_err(conflict).ok(),
            read: self.read,
            work: self.work,
            found: self.found,
        }
    }
}

/// A transaction that has its verdict.
struct Done {
    /// None for a conflict.
    version: Option<Version>,
    read: Version,
    work: Work,
    found: RowCounts,
}

impl Done {
    fn take_into(&self, model: &mut Model) {
        match (&self.work, self.version) {
            (Work::Append(rows), version) => {
                let version = version.expect("an append has no conflict");
                model.append(version, rows);
            }
            (Work::Change(change), Some(_)) => {
                let found = model.change(self.read, change);
                assert_eq!(
                    found, self.found,
                    "{change:?} would find other rows in its version"
                );
            }
            (Work::Change(_), None) | (Work::Compact { .. }, _) => {}
        }
    }
}

/// Takes in what one version holds. Those that read the same version have no order among them.
fn take_into(model: &mut Model, together: &[Done]) {
    let mut backwards: Vec<&Done> = together.iter().rev().collect();
    backwards.sort_by_key(|done| done.read);
    let mut other = model.clone();
    for done in backwards {
        done.take_into(&mut other);
    }
    for done in together {
        done.take_into(model);
    }
    assert_eq!(model.rows(), other.rows(), "one version, and two orders");
}

fn compaction(table: &Table, purge: bool) -> Compaction<'_> {
    let compact = CompactOptions {
        purge,
        ..CompactOptions::default()
    };
    table.compact(compact, options()).unwrap()
}

pub(super) fn conflict(error: TableError) -> Conflict {
    match error {
        TableError::Commit(CommitError::Conflict(conflict)) => *conflict,
        other => panic!("{other}"),
    }
}

/// Commits both. The second one does so while the first is about to create a version.
fn overtake<'a>(gate: &Gate, first: Begun<'a>, second: Begun<'a>) -> [Done; 2] {
    let (arrived, at_gate) = mpsc::channel();
    let (open, opened) = mpsc::channel();
    *lock(&gate.0) = Some((arrived.clone(), opened));
    let done = thread::scope(|scope| {
        let first = scope.spawn(move || {
            let done = first.commit();
            let _ = arrived.send(());
            done
        });
        at_gate.recv().unwrap();
        let second = second.commit();
        let _ = open.send(());
        [first.join().unwrap(), second]
    });
    *lock(&gate.0) = None;
    done
}

/// The rows that a history begins with, file by file.
fn first_rows() -> [Rows; 2] {
    let file = |first: i64| (first..first + FILE_ROWS).map(|id| (id, id % VALUES)).collect();
    [file(0), file(FILE_ROWS)]
}

/// Compares the change data feed of each version with the rows before and after it, and with the counts of its change.
fn check_feed(table: &Table, counts: &BTreeMap<Version, RowCounts>) {
    for version in 1..=table.version().unwrap() {
        let mut expected = rows_at(table, Some(version - 1));
        let mut changes = changes(table, version);
        let mut take = |kind: &str| changes.remove(kind).unwrap_or_default();
        let [inserted, before, after, deleted] =
            ["insert", "update_preimage", "update_postimage", "delete"].map(&mut take);
        let noted = RowCounts {
            inserted: inserted.len() as u64,
            updated: after.len() as u64,
            deleted: deleted.len() as u64,
        };
        assert_eq!(before.len(), after.len());
        assert!(counts.get(&version).is_none_or(|found| *found == noted));
        for row in before.into_iter().chain(deleted) {
            let storage = expected.iter().position(|there| *there == row);
            expected.remove(storage.expect("a changed row was there"));
        }
        expected.extend(inserted.into_iter().chain(after));
        expected.sort_unstable();
        assert_eq!(rows_at(table, Some(version)), expected, "version {version}");
    }
}

fn follow(events: &[Event], isolation: &str, has: Has) {
    let folder = tempfile::tempdir().unwrap();
    let first = table(folder.path(), isolation, has);
    let mut counts = BTreeMap::new();
    let mut model = Model::new(isolation);
    for (rows, version) in first_rows().iter().zip(1..) {
        append(&first, rows);
        model.append(version, rows);
    }
    let workers: Vec<Worker> = (0..PROCESSES)
        .map(|number| Worker::new(folder.path(), number))
        .collect();
    let mut begun: Vec<Begun<'_>> = Vec::new();
    for event in events {
        let mut done: Vec<Done> = Vec::new();
        match event {
            Event::Begin(process, work) => {
                begun.extend(Begun::begin(*process, &workers[*process], work, &model));
            }
            Event::Commit(at) if !begun.is_empty() => {
                done.push(begun.remove(at.index(begun.len())).commit());
            }
            Event::Overtake(at, other) if begun.len() > 1 => {
                let first = begun.remove(at.index(begun.len()));
                let second = begun.remove(other.index(begun.len()));
                if first.process == second.process {
                    // The threads of a process take turns.
                    done.extend([first.commit(), second.commit()]);
                } else {
                    let gate = Arc::clone(&workers[first.process].gate);
                    done.extend(overtake(&gate, first, second));
                }
            }
            Event::Share(process) => {
                let worker = &workers[*process];
                let is_its_change = |begun: &mut Begun<'_>| {
                    begun.process == *process && matches!(begun.work, Work::Change(_))
                };
                let changes: Vec<Begun<'_>> = begun.extract_if(.., is_its_change).collect();
                if changes.len() > 1 {
                    done.extend(held(worker, changes, Begun::commit));
                } else {
                    begun.extend(changes);
                }
            }
            Event::Commit(_) | Event::Overtake(..) => {}
        }
        done.sort_by_key(|done| (done.version, done.read));
        for together in done.chunk_by(|one, other| one.version == other.version) {
            take_into(&mut model, together);
        }
        for done in &done {
            if let (Work::Change(_), Some(version)) = (&done.work, done.version) {
                let all: &mut RowCounts = counts.entry(version).or_default();
                all.inserted += done.found.inserted;
                all.updated += done.found.updated;
                all.deleted += done.found.deleted;
            }
        }
        if !done.is_empty() {
            assert_eq!(rows(&first), model.rows(), "after {event:?}");
        }
    }
    drop(begun);
    assert_eq!(stray(&first), Vec::<String>::new());
    if has.feed {
        check_feed(&first, &counts);
    }
    row_ids::check(&first);
}

proptest! {
    // 2,500 histories of each where PROPTEST_CASES is 10,000, as `make soak` has it.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.div_ceil(4), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_versions_explains_every_history_of_files_that_are_written_again(
        events in events(),
        isolation in prop::sample::select(&["Serializable", "WriteSerializable"]),
        (feed, tracks) in any::<(bool, bool)>(),
    ) {
        let has = Has { marks: false, feed, tracks };
        follow(&events, isolation, has);
    }

    #[test]
    fn the_order_of_versions_explains_every_history_of_rows_that_are_marked(
        events in events(),
        isolation in prop::sample::select(&["Serializable", "WriteSerializable"]),
        (feed, tracks) in any::<(bool, bool)>(),
    ) {
        let has = Has { marks: true, feed, tracks };
        follow(&events, isolation, has);
    }
}

fn prepared(table: &Table, change: &Change) -> PendingChange {
    change.prepare(table).unwrap().1.unwrap()
}

#[test]
fn an_append_that_counts_as_later_has_not_been_read_before() {
    let first = [(0, 1), (1, 0), (2, 2)];
    let late = Change::Set(Wanted::Value(1), 3);
    let of_value_3 = || Change::Delete(Wanted::Value(3));
    let of_ids = |ids: &[i64]| Change::Delete(Wanted::Ids(ids.iter().copied().collect()));
    // The rows of an append in files of two, a change of them, and the answer to a change that missed the append.
    for (appended_rows, other, is_refused) in [
        // A row of the file that it looked for.
        (vec![(10, 1), (11, 3)], of_value_3(), true),
        // None of the append.
        (vec![(10, 1), (11, 3)], of_ids(&[1]), false),
        // A row of another file of the append.
        (vec![(10, 1), (11, 1), (12, 3), (13, 2)], of_value_3(), true),
        // All rows of another file.
        (vec![(10, 1), (11, 1), (12, 3), (13, 3)], of_value_3(), true),
        // All rows of the file: none is left that it missed.
        (vec![(10, 1), (11, 3)], of_ids(&[10, 11]), false),
        (
            vec![(10, 1), (11, 1)],
            Change::Set(Wanted::Ids([10, 11].into()), 2),
            false,
        ),
        (vec![(10, 1), (11, 1), (12, 3), (13, 2)], of_ids(&[10, 11]), false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let table = table(
            folder.path(),
            "WriteSerializable",
            Has {
                marks: true,
                ..Has::default()
            },
        );
        let mut model = Model::new("WriteSerializable");
        append(&table, &first);
        model.append(1, &first);
        let pending = prepared(&table, &late);
        let mut more = appended(&table, &appended_rows, Some(2));
        more.commit(&mut wait_limit(), &mut || true).unwrap();
        model.append(2, &appended_rows);
        let version = prepared(&table, &other).commit(&mut wait_limit()).unwrap();
        model.change(2, &other);
        let done = pending.commit(&mut wait_limit());
        assert_eq!(done.is_err(), is_refused, "{appended_rows:?} {other:?}");
        if let Err(error) = done {
            let refused = conflict(error);
            let is_named = matches!(refused.kind, ConflictKind::PinnedAppend { added_in: 2, .. });
            assert!(is_named, "{refused}");
            assert_eq!((refused.version, refused.operation.as_str()), (version, "DELETE"));
        } else {
            model.change(1, &late);
            assert_eq!(rows(&table), model.rows());
        }
    }
}
