//! Row ids of a table with row tracking: each is given once, whoever writes the version and however often it is tried.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod memory;

use std::ops::Range;

use delta_commit::actions::{Action, Add, DomainMetadata, Metadata, Protocol, Remove, parse_commit};
use delta_commit::{
    CommitError, Machine, MemberId, Operation, Start, Submission, Transaction, Verdict, Version,
};
use memory::{ELSEWHERE, Fate, Store, new_table, time_at};
use proptest::prelude::*;

fn protocol() -> Protocol {
    Protocol {
        min_writer_version: 7,
        writer_features: Some(["rowTracking", "domainMetadata"].map(str::to_owned).to_vec()),
        ..Protocol::default()
    }
}

fn metadata(properties: &[&str]) -> Metadata {
    let properties = properties
        .iter()
        .map(|name| ((*name).to_owned(), "true".to_owned()));
    Metadata {
        id: "t".to_owned(),
        configuration: properties.collect(),
        ..Metadata::default()
    }
}

fn file(path: &str, rows: i64) -> Add {
    Add {
        path: path.to_owned(),
        data_change: true,
        stats: Some(format!(r#"{{"numRecords":{rows}}}"#)),
        ..Add::default()
    }
}

fn added(path: &str, rows: i64) -> Action {
    Action::Add(file(path, rows))
}

fn mark(highest: i64) -> Action {
    Action::DomainMetadata(DomainMetadata {
        domain: "delta.rowTracking".to_owned(),
        configuration: format!(r#"{{"rowIdHighWaterMark":{highest}}}"#),
        ..DomainMetadata::default()
    })
}

/// A version that another process wrote.
fn theirs(actions: &[Action]) -> String {
    memory::version(&[], actions)
}

/// A table, and a process that has opened it.
struct Table {
    store: Store,
    machine: Machine,
    now: u64,
}

impl Table {
    fn with(properties: &[&str]) -> Self {
        let mut store = Store::default();
        let first = [
            Action::Protocol(protocol()),
            Action::Metadata(metadata(properties)),
        ];
        store.commit(&theirs(&first));
        let start = Start {
            version: 0,
            changed_in: 0,
            known: Some((protocol(), metadata(properties))),
            ..new_table()
        };
        Self {
            store,
            machine: Machine::new(MemberId::from_number(2), start),
            now: 0,
        }
    }

    fn new() -> Self {
        Self::with(&[])
    }

    /// Submits transactions together, and runs the machine until it has no more work.
    fn commit(&mut self, transactions: Vec<Transaction>) -> Vec<Result<Version, CommitError>> {
        let ids: Vec<MemberId> = transactions.iter().map(|transaction| transaction.id).collect();
        for transaction in transactions {
            self.machine.submit(Submission::new(transaction).unwrap());
        }
        while let Some(effect) = self.machine.next(time_at(self.now)) {
            self.now += 1;
            let event = self.store.apply(time_at(self.now).wall, &effect);
            self.machine.complete(time_at(self.now), event);
        }
        let verdicts = self.machine.take_verdicts();
        let of = |id: &MemberId| {
            let found = verdicts.iter().find(|(told, _)| told == id);
            match found {
                Some((_, Verdict::Commit(result))) => result.clone(),
                other => panic!("{other:?}"),
            }
        };
        ids.iter().map(of).collect()
    }

    fn append(&mut self, actions: Vec<Action>) -> Result<Version, CommitError> {
        let read = self.machine.tip();
        let append = Transaction::append(MemberId::random(), read, actions);
        self.commit(vec![append]).remove(0)
    }

    fn actions(&self, version: Version) -> Vec<Action> {
        parse_commit(&self.store.log[&version]).unwrap()
    }

    /// The files that a version adds, with their first row ids and the versions that their rows are of.
    fn given(&self, version: Version) -> Vec<(String, Option<i64>, Option<i64>)> {
        let adds = self
            .actions(version)
            .into_iter()
            .filter_map(|action| match action {
                Action::Add(add) => Some((add.path, add.base_row_id, add.default_row_commit_version)),
                _ => None,
            });
        adds.collect()
    }

    /// The highest id that the log says was given.
    fn highest(&self) -> i64 {
        let actions = self
            .store
            .log
            .values()
            .flat_map(|body| parse_commit(body).unwrap());
        let marks = actions.filter_map(|action| match action {
            Action::DomainMetadata(domain) => {
                let text: serde_json::Value = serde_json::from_str(&domain.configuration).unwrap();
                text["rowIdHighWaterMark"].as_i64()
            }
            _ => None,
        });
        marks.max().unwrap_or(-1)
    }

    /// The row ids of all files, in the order of the log. None may be there twice, or lie above the mark.
    fn check(&self) {
        let mut ids: Vec<Range<i64>> = Vec::new();
        let mut highest = -1;
        for (version, body) in &self.store.log {
            let before = highest;
            for action in parse_commit(body).unwrap() {
                match action {
                    Action::Add(add) => {
                        let first = add.base_row_id.unwrap();
                        let stats: serde_json::Value = serde_json::from_str(&add.stats.unwrap()).unwrap();
                        let rows = stats["numRecords"].as_i64().unwrap();
                        assert!(first > before, "version {version}: {first} is not above {before}");
                        assert_eq!(add.default_row_commit_version, Some(*version));
                        ids.push(first..first + rows);
                    }
                    Action::DomainMetadata(domain) => {
                        let text: serde_json::Value = serde_json::from_str(&domain.configuration).unwrap();
                        highest = text["rowIdHighWaterMark"].as_i64().unwrap();
                    }
                    _ => {}
                }
            }
            let end = ids.iter().map(|ids| ids.end).max().unwrap_or(0);
            assert!(highest >= end - 1, "version {version}: {highest} is below {end}");
        }
        ids.retain(|ids| !ids.is_empty());
        ids.sort_by_key(|ids| ids.start);
        for pair in ids.windows(2) {
            assert!(pair[0].end <= pair[1].start, "{pair:?}");
        }
    }
}

/// The name and the body of another process' intent with one append.
fn intent(action: &Action) -> (String, Vec<u8>) {
    let id = MemberId::from_number(2 * ELSEWHERE);
    let name = format!("{:020}-{}-0.json", 1, MemberId::from_number(ELSEWHERE));
    let line = action.to_line().unwrap();
    let body = format!(
        r#"{{"format":2,"tableId":"t","changedIn":0,"first":1,"expires":1000000,"members":1}}
{{"id":"{id}","readVersion":0,"readAppIds":[],"actions":[{line}]}}"#
    );
    (name, body.into_bytes())
}

#[test]
fn files_get_ids_after_those_that_the_table_has_given() {
    let mut table = Table::new();
    table.append(vec![added("a", 3), added("b", 4)]).unwrap();
    table.append(vec![added("c", 5)]).unwrap();
    assert_eq!(
        table.given(1),
        [
            ("a".to_owned(), Some(0), Some(1)),
            ("b".to_owned(), Some(3), Some(1))
        ]
    );
    assert_eq!(table.given(2), [("c".to_owned(), Some(7), Some(2))]);
    assert!(table.actions(1).contains(&mark(6)) && table.actions(2).contains(&mark(11)));
}

#[test]
fn an_attempt_that_lost_gets_ids_after_those_of_the_winner() {
    let mut table = Table::new();
    let winner = Add {
        base_row_id: Some(0),
        default_row_commit_version: Some(1),
        ..file("x", 42)
    };
    table.store.fate = Some(Fate::Late(theirs(&[Action::Add(winner), mark(41)])));
    assert_eq!(table.append(vec![added("a", 2)]).unwrap(), 2);
    assert_eq!(table.given(2), [("a".to_owned(), Some(42), Some(2))]);
    table.check();
}

#[test]
fn an_attempt_whose_answer_was_lost_has_given_its_ids() {
    for fate in [Fate::Unanswered, Fate::Doubled] {
        let mut table = Table::new();
        table.store.fate = Some(fate);
        assert_eq!(table.append(vec![added("a", 2)]).unwrap(), 1);
        assert_eq!(table.append(vec![added("b", 2)]).unwrap(), 2);
        table.check();
    }
}

#[test]
fn an_append_of_another_process_gets_ids_from_the_one_that_carries_it() {
    let mut table = Table::new();
    // Whatever it says of itself: its writer knew no version that it might land in.
    let stale = Action::Add(Add {
        base_row_id: Some(0),
        default_row_commit_version: Some(0),
        ..file("theirs", 10)
    });
    let (name, body) = intent(&stale);
    table.store.intents.insert(name, (0, body));
    assert_eq!(table.append(vec![added("mine", 5)]).unwrap(), 1);
    let given = table.given(1);
    assert_eq!(given.len(), 2, "{given:?}");
    table.check();
}

#[test]
fn a_file_without_a_count_of_its_rows_is_refused_and_fails_no_other() {
    refuse_alone(&|| memory::added("uncounted"));
}

#[test]
fn a_file_with_more_rows_than_can_be_is_refused_and_fails_no_other() {
    refuse_alone(&|| added("uncounted", i64::MAX));
    refuse_alone(&|| added("uncounted", (1 << 40) + 1));
}

fn refuse_alone(uncounted: &dyn Fn() -> Action) {
    let mut table = Table::new();
    let (name, body) = intent(&uncounted());
    table.store.intents.insert(name, (0, body));
    let append = |actions| Transaction::append(MemberId::random(), 0, actions);
    let results = table.commit(vec![append(vec![uncounted()]), append(vec![added("a", 1)])]);
    let refused = results[0].as_ref().unwrap_err().to_string();
    assert!(refused.contains("\"uncounted\" has no numRecords"), "{refused}");
    assert_eq!(*results[1].as_ref().unwrap(), 1);
    assert_eq!(table.given(1), [("a".to_owned(), Some(0), Some(1))]);
    let mut change = append(vec![uncounted()]);
    change.reads.whole_table = true;
    change.read_version = 1;
    let refused = table.commit(vec![change]).remove(0).unwrap_err().to_string();
    assert!(refused.contains("numRecords"), "{refused}");
    assert_eq!(table.machine.tip(), 1);
}

#[test]
fn a_file_that_comes_again_keeps_its_ids() {
    let mut table = Table::new();
    table.append(vec![added("a", 10)]).unwrap();
    let Some(Action::Add(a)) = table
        .actions(1)
        .into_iter()
        .find(|action| matches!(action, Action::Add(_)))
    else {
        panic!("no file");
    };
    let mut delete = Transaction::append(MemberId::random(), 1, Vec::new());
    delete.operation = Operation::new("DELETE");
    delete.actions = vec![
        Action::Remove(Remove::of(&a, 0, true)),
        Action::Add(a),
        added("b", 1),
    ];
    table.commit(vec![delete]).remove(0).unwrap();
    assert_eq!(
        table.given(2),
        [
            ("a".to_owned(), Some(0), Some(1)),
            ("b".to_owned(), Some(10), Some(2))
        ]
    );
}

#[test]
fn ids_begin_with_the_version_that_brings_the_feature() {
    let mut store = Store::default();
    store.commit(&theirs(&[
        Action::Protocol(Protocol::default()),
        Action::Metadata(metadata(&[])),
    ]));
    let start = Start {
        version: 0,
        changed_in: 0,
        known: Some((Protocol::default(), metadata(&[]))),
        ..new_table()
    };
    let machine = Machine::new(MemberId::from_number(2), start);
    let mut table = Table {
        store,
        machine,
        now: 0,
    };
    table.append(vec![memory::added("a")]).unwrap();
    assert_eq!(table.given(1), [("a".to_owned(), None, None)]);
    table
        .append(vec![Action::Protocol(protocol()), added("b", 2)])
        .unwrap();
    table.append(vec![added("c", 2)]).unwrap();
    assert_eq!(table.given(2), [("b".to_owned(), Some(0), Some(2))]);
    assert_eq!(table.given(3), [("c".to_owned(), Some(2), Some(3))]);
}

#[test]
fn a_suspended_table_gives_no_ids() {
    let mut table = Table::with(&["delta.rowTrackingSuspended"]);
    table.append(vec![memory::added("a")]).unwrap();
    assert_eq!(table.given(1), [("a".to_owned(), None, None)]);
    assert!(
        !table
            .actions(1)
            .iter()
            .any(|action| matches!(action, Action::DomainMetadata(_)))
    );
}

#[test]
fn the_history_says_whether_rows_kept_their_ids() {
    let preserved = |table: &Table, version| {
        table
            .actions(version)
            .into_iter()
            .find_map(|action| match action {
                Action::CommitInfo(info) => info.tags.get("delta.rowTracking.preserved").cloned(),
                _ => None,
            })
    };
    let mut table = Table::with(&["delta.enableRowTracking"]);
    table.append(vec![added("a", 1)]).unwrap();
    let mut copy = Transaction::append(MemberId::random(), 1, vec![added("b", 1)]);
    copy.operation.loses_row_ids = true;
    table.commit(vec![copy]).remove(0).unwrap();
    assert_eq!(preserved(&table, 1).as_deref(), Some("true"));
    assert_eq!(preserved(&table, 2).as_deref(), Some("false"));
    let mut supported = Table::new();
    supported.append(vec![added("a", 1)]).unwrap();
    assert_eq!(preserved(&supported, 1), None);
}

#[test]
fn the_highest_id_is_the_committers_to_write() {
    let transaction = Transaction::append(MemberId::random(), 0, vec![mark(7)]);
    let refused = Submission::new(transaction).unwrap_err().to_string();
    assert!(refused.contains("the committer writes that itself"), "{refused}");
}

#[test]
fn a_mark_of_another_writer_that_cannot_be_read_ends_the_commit() {
    let mut table = Table::new();
    let odd = Action::DomainMetadata(DomainMetadata {
        domain: "delta.rowTracking".to_owned(),
        configuration: "{}".to_owned(),
        ..DomainMetadata::default()
    });
    table.store.commit(&theirs(&[odd]));
    let refused = table.append(vec![added("a", 1)]).unwrap_err();
    assert!(matches!(&refused, CommitError::Malformed(_)), "{refused}");
    assert_eq!(table.store.log.len(), 2);
}

#[derive(Debug, Clone)]
enum Step {
    /// Appends of one version, each of files with so many rows.
    Appends(Vec<Vec<i64>>),
    /// Another writer comes first, with a file of so many rows.
    Beaten(Vec<i64>, i64),
    /// The answer is lost.
    Unanswered(Vec<i64>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let files = || prop::collection::vec(0_i64..50, 1..4);
    let step = prop_oneof![
        prop::collection::vec(files(), 1..4).prop_map(Step::Appends),
        (files(), 1_i64..50).prop_map(|(mine, theirs)| Step::Beaten(mine, theirs)),
        files().prop_map(Step::Unanswered),
    ];
    prop::collection::vec(step, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_history_gives_an_id_twice(steps in steps()) {
        let mut table = Table::new();
        let mut number = 0;
        let mut files = |rows: Vec<i64>| {
            let actions = rows.into_iter().map(|rows| {
                number += 1;
                added(&number.to_string(), rows)
            });
            Transaction::append(MemberId::random(), 0, actions.collect())
        };
        for step in steps {
            let transactions = match step {
                Step::Appends(appends) => appends.into_iter().map(&mut files).collect(),
                Step::Unanswered(append) => {
                    table.store.fate = Some(Fate::Unanswered);
                    vec![files(append)]
                }
                Step::Beaten(append, rows) => {
                    let tip = table.machine.tip();
                    let highest = table.highest();
                    let winner = Add {
                        base_row_id: Some(highest + 1),
                        default_row_commit_version: Some(tip + 1),
                        ..file(&format!("theirs{tip}"), rows)
                    };
                    let body = theirs(&[Action::Add(winner), mark(highest + rows)]);
                    table.store.fate = Some(Fate::Late(body));
                    vec![files(append)]
                }
            };
            for result in table.commit(transactions) {
                result.unwrap();
            }
        }
        table.check();
    }
}
