//! Appends that a change of rows missed under `WriteSerializable`: the change is refused if no order holds it, the
//! appends and the changes before it, and only then.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod memory;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use delta_commit::actions::{Action, Add, CommitInfo, DeletionVector, PartitionValues, Remove, Txn};
use delta_commit::conflict::{Conflict, check};
use delta_commit::predicate::{Comparison, Literal, Predicate, Term};
use delta_commit::unread_appends::UnreadAppends;
use delta_commit::winner::Winner;
use delta_commit::{
    CommitError, Isolation, Machine, Marked, Marks, MemberId, Merge, Operation, Start, Submission,
    Transaction, Verdict, Version,
};
use proptest::prelude::*;

use memory::{Store, new_table, time_at};

const PARTS: i64 = 2;
const APPLICATIONS: u8 = 3;

/// A row: the version of its append, and its number in it.
type Row = (Version, usize);

/// A file in the table, and the rows that are left in it.
#[derive(Debug, Clone)]
struct File {
    path: String,
    part: i64,
    rows: Vec<Row>,
}

impl File {
    fn add(&self, is_marked: bool, data_change: bool) -> Add {
        Add {
            path: self.path.clone(),
            partition_values: PartitionValues::from_iter([("part", Some(self.part.to_string().as_str()))]),
            deletion_vector: is_marked.then(DeletionVector::default),
            data_change,
            ..Add::default()
        }
    }

    fn remove(&self, data_change: bool) -> Action {
        Action::Remove(Remove::of(&self.add(false, false), 0, data_change))
    }
}

/// A version that the change did not read.
#[derive(Debug, Clone)]
enum Step {
    /// A blind append of files in these partitions, each of two rows.
    Append(Vec<i64>),
    /// Marks a row of a file that has several.
    Mark(usize),
    /// Removes a file.
    Remove(usize),
    /// Copies the rows of a file into a new one, or those of all files of its partition.
    Move(usize, bool),
}

/// Steps, each with the applications of which it has progress.
fn steps() -> impl Strategy<Value = Vec<(Step, BTreeSet<u8>)>> {
    let step = prop_oneof![
        3 => prop::collection::vec(0..PARTS, 1..4).prop_map(Step::Append),
        2 => any::<usize>().prop_map(Step::Mark),
        2 => any::<usize>().prop_map(Step::Remove),
        1 => (any::<usize>(), any::<bool>()).prop_map(|(at, all)| Step::Move(at, all)),
    ];
    let app_ids = prop_oneof![
        2 => Just(BTreeSet::new()),
        1 => prop::collection::btree_set(0..APPLICATIONS, 1..3),
    ];
    prop::collection::vec((step, app_ids), 1..9)
}

fn info(operation: &str) -> Action {
    Action::CommitInfo(CommitInfo {
        operation: Some(operation.to_owned()),
        is_blind_append: Some(operation == "WRITE"),
        ..CommitInfo::default()
    })
}

fn progress(app_id: u8, version: Version) -> Action {
    Action::Txn(Txn {
        app_id: app_id.to_string(),
        version,
        ..Txn::default()
    })
}

fn winner(version: Version, operation: &str, mut actions: Vec<Action>) -> Arc<Winner> {
    actions.insert(0, info(operation));
    Arc::new(Winner::of(version, actions))
}

/// The appended files of a table.
#[derive(Default)]
struct Table {
    version: Version,
    files: Vec<File>,
    appends: Vec<Version>,
    /// The applications of which each version has progress.
    app_ids: BTreeMap<Version, BTreeSet<u8>>,
    /// The appends of which rows were changed.
    changed: BTreeSet<Version>,
    /// True if one file holds rows of several appends.
    is_mixed: bool,
}

impl Table {
    /// Makes the next version; none where it would do nothing.
    fn next(&mut self, (step, app_ids): &(Step, BTreeSet<u8>)) -> Option<Arc<Winner>> {
        let (operation, mut actions) = self.perform(step)?;
        self.version += 1;
        self.app_ids.insert(self.version, app_ids.clone());
        actions.extend(app_ids.iter().map(|app_id| progress(*app_id, self.version)));
        Some(winner(self.version, operation, actions))
    }

    /// The versions of these steps.
    fn all(&mut self, steps: &[(Step, BTreeSet<u8>)]) -> Vec<Arc<Winner>> {
        steps.iter().filter_map(|step| self.next(step)).collect()
    }

    fn perform(&mut self, step: &Step) -> Option<(&'static str, Vec<Action>)> {
        let count = self.files.len();
        let place = |number: &usize| number.checked_rem(count);
        let version = self.version + 1;
        Some(match step {
            Step::Append(parts) => {
                let files = parts.iter().enumerate().map(|(number, part)| File {
                    path: format!("{version}-{number}"),
                    part: *part,
                    rows: vec![(version, 2 * number), (version, 2 * number + 1)],
                });
                let files: Vec<File> = files.collect();
                let actions = files.iter().map(|file| Action::Add(file.add(false, true)));
                let actions = actions.collect();
                self.files.extend(files);
                self.appends.push(version);
                ("WRITE", actions)
            }
            Step::Mark(number) => {
                let file = &mut self.files[place(number)?];
                if file.rows.len() < 2 {
                    return None;
                }
                self.changed.extend(file.rows.pop().map(|(append, _)| append));
                (
                    "DELETE",
                    vec![file.remove(true), Action::Add(file.add(true, true))],
                )
            }
            Step::Remove(number) => {
                let file = self.files.remove(place(number)?);
                self.changed.extend(file.rows.iter().map(|(append, _)| append));
                ("UPDATE", vec![file.remove(true)])
            }
            Step::Move(number, all) => {
                let first = self.files[place(number)?].clone();
                let is_old = |file: &File| file.path == first.path || (*all && file.part == first.part);
                let (old, kept): (Vec<File>, Vec<File>) = self.files.drain(..).partition(is_old);
                let new = File {
                    path: format!("moved-{version}"),
                    part: first.part,
                    rows: old.iter().flat_map(|file| file.rows.clone()).collect(),
                };
                let appends: BTreeSet<Version> = new.rows.iter().map(|(append, _)| *append).collect();
                self.is_mixed |= appends.len() > 1;
                let mut actions: Vec<Action> = old.iter().map(|file| file.remove(false)).collect();
                actions.push(Action::Add(new.add(false, false)));
                self.files = kept;
                self.files.push(new);
                ("OPTIMIZE", actions)
            }
        })
    }

    /// Looks for an order of a change that found no row of any append: tries each choice of appends that come before
    /// it. All other versions do.
    fn has_order(&self, is_wanted: impl Fn(i64) -> bool) -> bool {
        let wanted = self.files.iter().filter(|file| is_wanted(file.part));
        let left: BTreeSet<Version> = wanted.flat_map(|file| &file.rows).map(|row| row.0).collect();
        (0..1_usize << self.appends.len()).any(|choice| {
            let is_before = |version| {
                let place = self.appends.iter().position(|append| *append == version);
                place.is_none_or(|place| choice >> place & 1 == 1)
            };
            self.appends.iter().all(|append| {
                if is_before(*append) {
                    !left.contains(append)
                } else {
                    !self.changed.contains(append) && !self.is_followed(*append, is_before)
                }
            })
        })
    }

    /// Returns true if a later version of one of an append's applications is among these.
    fn is_followed(&self, append: Version, among: impl Fn(Version) -> bool) -> bool {
        let own = &self.app_ids[&append];
        let mut later = self.app_ids.range(append + 1..);
        later.any(|(version, app_ids)| among(*version) && !app_ids.is_disjoint(own))
    }
}

#[derive(Debug)]
struct AsItIs;

impl Merge for AsItIs {
    fn merge(&self, transaction: &Transaction, _: &[Marked]) -> Result<Transaction, CommitError> {
        Ok(transaction.clone())
    }
}

/// A change of rows of a partition, or of any.
fn change(part: Option<i64>) -> Transaction {
    let mut change = Transaction::append(MemberId::from_number(1), 0, vec![Action::Add(Add::default())]);
    change.operation = Operation::new("UPDATE");
    change.isolation = Isolation::WriteSerializable;
    let term = |part| Term::new("part", Comparison::Equal(Literal::Long(part)));
    change.reads.predicates.push(Predicate::all(part.map(term)));
    change.marks = Some(Marks {
        paths: BTreeSet::new(),
        merge: Arc::new(AsItIs),
    });
    change
}

/// The appends that a change passes over, after these versions.
fn unread_appends(change: &Transaction, winners: &[Arc<Winner>]) -> Result<UnreadAppends, Box<Conflict>> {
    let mut unread_appends = UnreadAppends::default();
    for winner in winners {
        check(change, winner)?;
        unread_appends.take(change, winner)?;
    }
    Ok(unread_appends)
}

/// The answer to a change after these versions.
fn answer(change: &Transaction, winners: &[Arc<Winner>]) -> Result<(), Box<Conflict>> {
    unread_appends(change, winners)?.check(change)
}

/// A file of one row.
fn file(path: &str, part: i64) -> File {
    File {
        path: path.to_owned(),
        part,
        rows: vec![(0, 0)],
    }
}

fn append(version: Version, files: &[File], app_ids: &[u8]) -> Arc<Winner> {
    let adds = files.iter().map(|file| Action::Add(file.add(false, true)));
    let progress = app_ids.iter().map(|app_id| progress(*app_id, version));
    winner(version, "WRITE", adds.chain(progress).collect())
}

/// The actions of a delete that marks a row of a file.
fn mark(file: &File) -> Vec<Action> {
    vec![file.remove(true), Action::Add(file.add(true, true))]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_change_is_refused_where_no_order_holds_it_and_only_there(
        steps in steps(), part in prop::option::of(0..PARTS), depends_on_rows in any::<bool>(),
    ) {
        let mut table = Table::default();
        let mut change = change(part);
        if depends_on_rows {
            // It found none, so that only moves of appended rows matter.
            change.marks = None;
            change.reads.candidates = Some(BTreeSet::new());
        }
        let winners = table.all(&steps);
        if winners.iter().any(|winner| check(&change, winner).is_err()) {
            // Rows that it looked for were moved: it begins anew.
            return Ok(());
        }
        let answer = answer(&change, &winners);
        let has_order = table.has_order(|other| part.is_none_or(|part| part == other));
        prop_assert!(answer.is_err() || has_order);
        // The log does not say which append a row of a mixed file is from.
        prop_assert!(answer.is_ok() || !has_order || table.is_mixed, "{answer:?}");
    }
}

#[test]
fn the_message_names_the_file_its_version_and_the_one_that_changed_rows_of_it() {
    let mut table = Table::default();
    let steps = [Step::Append(vec![0, 1]), Step::Append(vec![0]), Step::Mark(0)];
    let winners = table.all(&steps.map(|step| (step, BTreeSet::new())));
    let refused = answer(&change(Some(1)), &winners).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "ConcurrentAppend: the file 1-1 was added to the partition part=1 in version 1, which this transaction should \
         have read, since rows of that version were changed by version 3 (DELETE) after version 0 was read: read the \
         table again and redo the transaction"
    );
}

#[test]
fn an_append_comes_before_what_follows_it_by_its_application() {
    let first = append(1, &[file("a", 1)], &[7]);
    let second = append(2, &[file("b", 0)], &[7, 8]);
    let third = append(3, &[file("c", 0)], &[8]);
    let mut merge = vec![file("other", 0).remove(true)];
    let of_none = [first.clone(), second.clone(), winner(3, "MERGE", merge.clone())];
    assert!(answer(&change(Some(1)), &of_none).is_ok());
    merge.push(progress(8, 3));
    let merged = [first.clone(), second.clone(), winner(3, "MERGE", merge)];
    let marked = [first, second, third, winner(4, "DELETE", mark(&file("c", 0)))];
    for (winners, by) in [(&merged[..], "3 (MERGE)"), (&marked[..], "4 (DELETE)")] {
        let refused = answer(&change(Some(1)), winners).unwrap_err().to_string();
        let why =
            format!("since the progress of the application \"7\" puts that version first by version {by} ");
        assert!(
            refused.contains("the file a was added to the partition part=1 in version 1"),
            "{refused}"
        );
        assert!(refused.contains(&why), "{refused}");
    }
}

/// The answer to a change of partition 2, after an append to partitions 0 and 2 and another one to partition 1, a
/// compaction of their files in 0 and 1 into files with these partition values, and a mark in one of these.
fn after_compaction(values: &[&str], marked: usize) -> Result<(), Box<Conflict>> {
    let new = |number: usize, is_marked: bool| Add {
        path: format!("new-{number}"),
        partition_values: PartitionValues::from_iter([("part", Some(values[number]))]),
        ..file("", 0).add(is_marked, is_marked)
    };
    let mut moved = vec![file("a", 0).remove(false), file("b", 1).remove(false)];
    moved.extend((0..values.len()).map(|number| Action::Add(new(number, false))));
    let remove = Action::Remove(Remove::of(&new(marked, false), 0, true));
    let winners = [
        append(1, &[file("a", 0), file("wanted", 2)], &[]),
        append(2, &[file("b", 1)], &[]),
        winner(3, "OPTIMIZE", moved),
        winner(4, "DELETE", vec![remove, Action::Add(new(marked, true))]),
    ];
    answer(&change(Some(2)), &winners)
}

#[test]
fn rows_move_within_their_partition_and_may_be_anywhere_if_none_is_spelled_like_it() {
    assert!(after_compaction(&["0", "1"], 0).is_err());
    assert!(after_compaction(&["0", "1"], 1).is_ok());
    assert!(after_compaction(&["00", "1"], 0).is_err());
    assert!(after_compaction(&["00", "01"], 1).is_err());
}

#[test]
fn an_append_is_kept_only_if_a_change_can_come_to_depend_on_it() {
    let unwanted = append(1, &[file("a", 0)], &[7]);
    let wanted = append(2, &[file("b", 1)], &[7]);
    let later = append(3, &[file("c", 0)], &[7]);
    let kept = |change: &Transaction, winners: &[&Arc<Winner>]| {
        let winners: Vec<_> = winners.iter().map(|winner| Arc::clone(winner)).collect();
        unread_appends(change, &winners).unwrap()
    };
    let change = change(Some(1));
    assert_eq!(kept(&change, &[&unwanted]), UnreadAppends::default());
    let both = kept(&change, &[&unwanted, &wanted]);
    assert_eq!(both, kept(&change, &[&wanted]));
    assert_ne!(both, kept(&change, &[&unwanted, &wanted, &later]));
    let mut whole = change;
    whole.reads.whole_table = true;
    whole.marks = None;
    assert_eq!(
        kept(&whole, &[&unwanted, &wanted, &later]),
        UnreadAppends::default()
    );
}

/// The verdict on a change that was handed in when the table had one version, after these came beside.
fn verdict(change: Transaction, others: Vec<(&str, Vec<Action>)>) -> Verdict {
    let mut store = Store::default();
    let first = ("CREATE TABLE", vec![]);
    for (operation, mut actions) in std::iter::once(first).chain(others) {
        actions.insert(0, info(operation));
        let lines = actions.iter().map(|action| action.to_line().unwrap());
        store.commit(&lines.collect::<Vec<_>>().join("\n"));
    }
    let start = Start {
        version: 0,
        changed_in: 0,
        ..new_table()
    };
    let mut machine = Machine::new(MemberId::from_number(2), start);
    machine.submit(Submission::new(change).unwrap());
    let mut now = 0;
    while let Some(effect) = machine.next(time_at(now)) {
        now += 1;
        let event = store.apply(time_at(now).wall, &effect);
        machine.complete(time_at(now), event);
    }
    let [(_, verdict)] = machine.take_verdicts().try_into().unwrap();
    verdict
}

#[test]
fn a_change_is_judged_by_the_whole_log() {
    let (wanted, other) = (file("a", 1), file("b", 0));
    let added = [&wanted, &other].map(|file| Action::Add(file.add(false, true)));
    let mut change = change(Some(1));
    change.actions = vec![Action::Add(file("new", 1).add(false, true))];
    let mut others = vec![("WRITE", added.to_vec()), ("DELETE", mark(&other))];
    match verdict(change.clone(), others.clone()) {
        Verdict::Commit(Err(CommitError::Conflict(conflict))) => assert_eq!(conflict.version, 2),
        verdict => panic!("expected a conflict, but got {verdict:?}"),
    }
    others.push(("UPDATE", vec![wanted.remove(true)]));
    match verdict(change, others) {
        Verdict::Commit(Ok(version)) => assert_eq!(version, 4),
        verdict => panic!("expected version 4, but got {verdict:?}"),
    }
}
