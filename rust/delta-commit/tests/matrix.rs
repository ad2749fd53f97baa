//! Every pair of operations ends here as it ends in delta-spark, but for the deviations that are listed with reasons.
//!
//! `tests/delta/conflicts/generate.py` made the table by asking delta-spark, and says what its fields mean.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::sync::Arc;

use delta_commit::actions::{
    Action, Add, CommitInfo, DeletionVector, DomainMetadata, Metadata, PartitionValues, Protocol, Remove, Txn,
};
use delta_commit::conflict::{Conflict, ConflictKind, check};
use delta_commit::predicate::{Comparison, Literal, Predicate, Term};
use delta_commit::winner::Winner;
use delta_commit::{CommitError, Isolation, Marked, Marks, MemberId, Merge, Operation, Transaction};
use serde::Deserialize;

const MATRIX: &str = include_str!("../../../tests/delta/conflicts/matrix.json");
const DEVIATIONS: &str = include_str!("../../../tests/delta/conflicts/deviations.json");

const EARLIER: &str = "2026-11-20";
const TODAY: &str = "2026-11-21";
/// `TODAY` since the epoch.
const TODAY_IN_DAYS: i64 = 20_778;
const READ_VERSION: i64 = 2;

#[derive(Deserialize)]
struct Matrix {
    pairs: Vec<Pair>,
}

#[derive(Debug, Deserialize)]
struct Pair {
    winner: String,
    winner_day: String,
    loser: String,
    loser_day: String,
    isolation: String,
    /// A table with features, whose rows of a day are in one file.
    table: Option<String>,
    checked: String,
    outcome: String,
}

/// Pairs that do not end as in Spark. What is not named here may be anything.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Deviation {
    winner: Option<Vec<String>>,
    loser: Option<Vec<String>>,
    isolation: Option<String>,
    table: Option<Vec<String>>,
    spark: String,
    ours: String,
    reason: String,
}

impl Deviation {
    fn covers(&self, pair: &Pair) -> bool {
        let named =
            |names: &Option<Vec<String>>, name| names.as_ref().is_none_or(|names| names.contains(name));
        named(&self.winner, &pair.winner)
            && named(&self.loser, &pair.loser)
            && self
                .isolation
                .as_ref()
                .is_none_or(|level| *level == pair.isolation)
            && (self.table.as_ref())
                .is_none_or(|tables| (pair.table.iter()).any(|table| tables.contains(table)))
            && self.spark == pair.outcome
    }
}

fn pairs() -> Vec<Pair> {
    serde_json::from_str::<Matrix>(MATRIX).unwrap().pairs
}

fn file(name: &str, day: &str) -> Add {
    Add {
        path: format!("day={day}/{name}"),
        partition_values: PartitionValues::from_iter([("day", Some(day))]),
        data_change: true,
        ..Add::default()
    }
}

/// The files of the snapshot that both sides read.
fn snapshot(table: Option<&str>) -> Vec<Add> {
    let of = |name, day| file(name, day);
    match table {
        None => vec![of("1", EARLIER), of("2", EARLIER), of("3", TODAY), of("4", TODAY)],
        Some(_) => vec![of("1 and 2", EARLIER), of("3 and 4", TODAY)],
    }
}

/// The one row that a transaction marks, which stands for its vector.
#[derive(Debug)]
struct MarkedRow(String);

impl Merge for MarkedRow {
    fn merge(&self, transaction: &Transaction, theirs: &[Marked]) -> delta_commit::Result<Transaction> {
        let has_row = |add: &Add| {
            let vector = add.deletion_vector.as_ref();
            vector.is_some_and(|vector| vector.path_or_inline_dv == self.0)
        };
        match theirs.iter().find(|marked| has_row(&marked.add)) {
            None => Ok(transaction.clone()),
            Some(marked) => Err(CommitError::Conflict(Box::new(Conflict {
                kind: ConflictKind::ConcurrentRows {
                    path: marked.add.path.clone(),
                    rows: 1,
                },
                version: marked.version,
                operation: marked.operation.clone(),
                read_version: transaction.read_version,
                only_moved: false,
            }))),
        }
    }
}

/// Marks one of the two rows of the day's file.
fn mark(transaction: &mut Transaction, row: &str, day: &str, table: Option<&str>) {
    let of_day = day_is(Comparison::Equal, day);
    let marked = snapshot(table).into_iter().find(|file| of_day.may_match(file));
    let marked = marked.unwrap();
    transaction
        .actions
        .push(Action::Remove(Remove::of(&marked, 0, true)));
    transaction.reads.files.insert(marked.path.clone());
    transaction.reads.predicates.push(of_day);
    transaction.marks = Some(Marks {
        paths: BTreeSet::from([marked.path.clone()]),
        merge: Arc::new(MarkedRow(row.to_owned())),
    });
    transaction.actions.push(Action::Add(Add {
        deletion_vector: Some(DeletionVector {
            storage_type: "i".to_owned(),
            path_or_inline_dv: row.to_owned(),
            cardinality: 1,
            ..DeletionVector::default()
        }),
        ..marked
    }));
}

/// The properties that a transaction enables.
fn enabling(property: &str) -> Action {
    let mut metadata = Metadata::default();
    metadata
        .configuration
        .insert(property.to_owned(), "true".to_owned());
    Action::Metadata(metadata)
}

fn day_is(comparison: fn(Literal) -> Comparison, day: &str) -> Predicate {
    let days = TODAY_IN_DAYS - i64::from(day == EARLIER);
    Predicate::Term(Term::new("day", comparison(Literal::Date(days))))
}

/// Reads what the predicate chooses and removes it.
fn replace(transaction: &mut Transaction, table: Option<&str>, predicate: Predicate, data_change: bool) {
    for read in snapshot(table).iter().filter(|file| predicate.may_match(file)) {
        transaction.reads.files.insert(read.path.clone());
        transaction
            .actions
            .push(Action::Remove(Remove::of(read, 0, data_change)));
    }
    transaction.reads.predicates.push(predicate);
}

fn isolation(name: &str) -> Isolation {
    match name {
        "Serializable" => Isolation::Serializable,
        "WriteSerializable" => Isolation::WriteSerializable,
        _ => panic!("a table has no isolation level {name}"),
    }
}

/// One side of a pair; `side` keeps their new files apart.
fn transaction(operation: &str, side: &str, day: &str, level: &str, table: Option<&str>) -> Transaction {
    let mut mine = Transaction::append(MemberId::random(), READ_VERSION, Vec::new());
    mine.isolation = isolation(level);
    mine.operation = Operation::new(operation);
    let added = || Action::Add(file(side, day));
    let of_day = || day_is(Comparison::Equal, day);
    match operation {
        "append" | "INSERT of today" => mine.actions = vec![added()],
        "append with schema change" => mine.actions = vec![Action::Metadata(Metadata::default()), added()],
        "partition delete" => replace(&mut mine, table, of_day(), true),
        "DELETE of earlier days" => replace(&mut mine, table, day_is(Comparison::Less, TODAY), true),
        "overwrite" => {
            mine.actions = vec![added()];
            replace(&mut mine, table, Predicate::default(), true);
        }
        "overwrite of a partition" => {
            mine.actions = vec![added()];
            replace(&mut mine, table, of_day(), true);
        }
        "truncate" => replace(&mut mine, table, Predicate::default(), true),
        "restore" => {
            let removed = [file("2", EARLIER), file("4", TODAY)];
            mine.reads.whole_table = true;
            mine.actions = vec![Action::Add(file("5", EARLIER))];
            mine.actions
                .extend(removed.map(|file| Action::Remove(Remove::of(&file, 0, true))));
        }
        "rewrite" => {
            mine.operation.changes_data = false;
            mine.actions = vec![Action::Add(Add {
                data_change: false,
                ..file(side, day)
            })];
            replace(&mut mine, table, of_day(), false);
        }
        "property change" => mine.actions = vec![Action::Metadata(Metadata::default())],
        "protocol change" | "protocol change to constraints" => {
            mine.actions = vec![Action::Protocol(Protocol::default())];
        }
        "delete of a row" | "delete of another row" => {
            mine.operation = Operation::new("DELETE");
            mark(&mut mine, operation, day, table);
        }
        "update of a row" => {
            mine.operation = Operation::new("UPDATE");
            mine.actions = vec![added()];
            mark(&mut mine, "delete of a row", day, table);
        }
        "append of a stream" | "append of another stream" => {
            mine.reads.app_ids.insert(operation.to_owned());
            let progress = Txn {
                app_id: operation.to_owned(),
                version: 1,
                ..Txn::default()
            };
            mine.actions = vec![Action::Txn(progress), added()];
        }
        "domain change" | "change of another domain" => {
            mine.actions = vec![Action::DomainMetadata(DomainMetadata {
                domain: operation.to_owned(),
                configuration: side.to_owned(),
                ..DomainMetadata::default()
            })];
        }
        "row tracking enablement" => mine.actions = vec![enabling("delta.enableRowTracking")],
        "in-commit timestamps enablement" => {
            // The table gets the feature with them.
            let protocol = Action::Protocol(Protocol::default());
            mine.actions = vec![protocol, enabling("delta.enableInCommitTimestamps")];
        }
        _ => panic!("the table names an operation that is not built here: {operation}"),
    }
    mine
}

/// The version that a transaction becomes.
fn landed(transaction: Transaction) -> Winner {
    let info = CommitInfo {
        operation: Some(transaction.operation.name.clone()),
        is_blind_append: Some(transaction.is_blind_append()),
        ..CommitInfo::default()
    };
    let mut actions = vec![Action::CommitInfo(info)];
    actions.extend(transaction.actions);
    Winner::of(READ_VERSION + 1, actions)
}

fn loser(pair: &Pair) -> Transaction {
    let table = pair.table.as_deref();
    transaction(&pair.loser, "loser", &pair.loser_day, &pair.isolation, table)
}

fn winner(pair: &Pair) -> Winner {
    landed(transaction(
        &pair.winner,
        "winner",
        &pair.winner_day,
        &pair.isolation,
        pair.table.as_deref(),
    ))
}

/// Returns the outcome of the pair here, in the words of the matrix.
fn ours(pair: &Pair) -> String {
    ours_of(&loser(pair), &winner(pair))
}

fn ours_of(loser: &Transaction, winner: &Winner) -> String {
    match check(loser, winner).and_then(|()| merged(loser, winner)) {
        Ok(()) => "commit".to_owned(),
        Err(conflict) => {
            let message = conflict.kind.to_string();
            message.split(':').next().unwrap_or_default().to_owned()
        }
    }
}

/// Merges marks of rows, where both mark some in one file.
fn merged(loser: &Transaction, winner: &Winner) -> Result<(), Box<Conflict>> {
    let Some(marks) = &loser.marks else {
        return Ok(());
    };
    let both = |add: &&Add| marks.paths.contains(&add.path) && winner.marked_paths.contains(&add.path);
    let theirs = winner.adds.iter().filter(both).map(|add| Marked {
        version: winner.version,
        operation: winner.operation().to_owned(),
        add: add.clone(),
    });
    let theirs: Vec<Marked> = theirs.collect();
    match marks.merge.merge(loser, &theirs) {
        Ok(_) => Ok(()),
        Err(CommitError::Conflict(conflict)) => Err(conflict),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn every_pair_ends_as_in_spark_or_as_a_listed_deviation_says() {
    let deviations: Vec<Deviation> = serde_json::from_str(DEVIATIONS).unwrap();
    let mut wrong = Vec::new();
    for pair in pairs() {
        let listed: Vec<&Deviation> = deviations
            .iter()
            .filter(|deviation| deviation.covers(&pair))
            .collect();
        assert!(listed.len() <= 1, "{pair:?} is listed twice: {listed:?}");
        let expected = listed.first().map_or(&pair.outcome, |deviation| &deviation.ours);
        let ours = ours(&pair);
        if ours != *expected {
            wrong.push(format!("{pair:?}: {ours} here, not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_listed_deviation_deviates_somewhere_and_has_its_reason() {
    let pairs = pairs();
    for deviation in serde_json::from_str::<Vec<Deviation>>(DEVIATIONS).unwrap() {
        assert_ne!(deviation.ours, deviation.spark, "{deviation:?}");
        assert!(!deviation.reason.is_empty(), "{deviation:?}");
        assert!(
            pairs.iter().any(|pair| deviation.covers(pair)),
            "no pair deviates so any more: {deviation:?}"
        );
    }
}

#[test]
fn row_ids_change_the_end_of_no_pair() {
    for pair in pairs() {
        let mut tracked = winner(&pair);
        for (place, add) in (0..).zip(&mut tracked.adds) {
            add.base_row_id = Some(10 * place);
            add.default_row_commit_version = Some(tracked.version);
        }
        tracked.domains.insert("delta.rowTracking".to_owned());
        tracked.high_water_mark = Some(100);
        let mut loser = loser(&pair);
        assert_eq!(ours_of(&loser, &tracked), ours(&pair), "{pair:?}");
        // As another writer's transaction is, which brings the domain itself.
        if pair.checked != "SnapshotIsolation" {
            loser.actions.push(Action::DomainMetadata(DomainMetadata {
                domain: "delta.rowTracking".to_owned(),
                configuration: r#"{"rowIdHighWaterMark":7}"#.to_owned(),
                ..DomainMetadata::default()
            }));
            assert_eq!(ours_of(&loser, &tracked), ours(&pair), "{pair:?}");
        }
    }
}

#[test]
fn the_loser_is_checked_under_the_level_that_spark_falls_back_to() {
    // RESTORE is not checked there at all.
    for pair in pairs().iter().filter(|pair| pair.checked != "none") {
        assert_eq!(loser(pair).effective_isolation().name(), pair.checked, "{pair:?}");
    }
}
