//! Pairs of concurrent transactions: those that may both commit, and the errors of the others.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use delta_commit::actions::{
    Action, Add, CommitInfo, DeletionVector, DomainMetadata, Metadata, PartitionValues, Protocol, Remove, Txn,
};
use delta_commit::conflict::{ConflictKind, check};
use delta_commit::predicate::{Comparison, Literal, Predicate, Term};
use delta_commit::winner::Winner;
use delta_commit::{CommitError, Isolation, Marked, Marks, MemberId, Merge, Operation, Transaction};
use proptest::prelude::*;

fn add(path: &str) -> Add {
    Add {
        path: path.to_owned(),
        data_change: true,
        ..Add::default()
    }
}

fn in_partition(path: &str, day: Option<&str>) -> Add {
    Add {
        partition_values: PartitionValues::from_iter([("day", day)]),
        ..add(path)
    }
}

fn with_stats(path: &str, stats: &str) -> Add {
    Add {
        stats: Some(stats.to_owned()),
        ..add(path)
    }
}

fn remove(path: &str) -> Action {
    Action::Remove(Remove::of(&add(path), 0, true))
}

fn winner(operation: &str, blind: bool, mut actions: Vec<Action>) -> Winner {
    let info = CommitInfo {
        operation: Some(operation.to_owned()),
        is_blind_append: Some(blind),
        ..CommitInfo::default()
    };
    actions.insert(0, Action::CommitInfo(info));
    Winner::of(6, actions)
}

fn transaction(actions: Vec<Action>) -> Transaction {
    Transaction::append(MemberId::from_number(1), 5, actions)
}

/// Rewrites what it read.
fn update(read: &[&str], isolation: Isolation) -> Transaction {
    let mut actions: Vec<Action> = read.iter().map(|path| remove(path)).collect();
    actions.push(Action::Add(add("rewritten")));
    let mut update = transaction(actions);
    update.operation = Operation::new("UPDATE");
    update.isolation = isolation;
    update.reads.predicates.push(Predicate::default());
    update.reads.files = read.iter().map(|&path| path.to_owned()).collect();
    update
}

fn kind(transaction: &Transaction, winner: &Winner) -> Option<ConflictKind> {
    check(transaction, winner).err().map(|conflict| conflict.kind)
}

fn append() -> Vec<Action> {
    vec![Action::Add(add("new"))]
}

#[test]
fn a_file_is_the_same_in_every_spelling_of_its_path() {
    for (mine, theirs) in [("day=é/a", "day=%C3%A9/a"), ("./a", "a"), ("b//a", "b/a")] {
        let mut reader = transaction(append());
        reader
            .reads
            .files
            .insert(delta_commit::path::normal(mine).into_owned());
        let removal = winner("UPDATE", false, vec![remove(theirs), Action::Add(add("y"))]);
        let found = kind(&reader, &removal);
        assert!(
            matches!(found, Some(ConflictKind::ConcurrentDeleteRead(_))),
            "{found:?}"
        );
        let found = kind(&transaction(vec![remove(mine)]), &removal);
        assert!(
            matches!(found, Some(ConflictKind::ConcurrentDeleteDelete(_))),
            "{found:?}"
        );
        let marked = Add {
            deletion_vector: Some(DeletionVector::inline(&[], 0, 1)),
            ..add(mine)
        };
        let marking = winner("DELETE", false, vec![remove(theirs), Action::Add(marked)]);
        assert_eq!(marking.marked_paths, marking.removed_paths);
        assert!(transaction(vec![remove(mine), remove(theirs)]).check().is_err());
    }
}

#[test]
fn a_blind_append_passes_appends_and_deletes() {
    let mine = transaction(append());
    for other in [
        winner("WRITE", true, vec![Action::Add(add("x"))]),
        winner("DELETE", false, vec![remove("x")]),
        winner("UPDATE", false, vec![remove("x"), Action::Add(add("y"))]),
        winner(
            "STREAMING UPDATE",
            true,
            vec![Action::Txn(Txn {
                app_id: "a".to_owned(),
                ..Txn::default()
            })],
        ),
    ] {
        assert_eq!(kind(&mine, &other), None, "{}", other.operation());
    }
}

#[test]
fn every_transaction_meets_changes_of_the_table_itself() {
    let metadata = || Action::Metadata(Metadata::default());
    let protocol = || Action::Protocol(Protocol::default());
    for mine in [
        transaction(append()),
        update(&["a"], Isolation::WriteSerializable),
        transaction(vec![metadata()]),
    ] {
        let other = winner("ADD COLUMNS", false, vec![metadata()]);
        assert_eq!(kind(&mine, &other), Some(ConflictKind::MetadataChanged));
        let other = winner("UPGRADE PROTOCOL", false, vec![metadata(), protocol()]);
        assert_eq!(kind(&mine, &other), Some(ConflictKind::ProtocolChanged));
    }
}

#[test]
fn what_should_have_been_read_depends_on_the_isolation_level() {
    let blind = winner("WRITE", true, vec![Action::Add(add("x"))]);
    let seeing = winner("MERGE", false, vec![Action::Add(add("x"))]);
    let appended = |transaction: &Transaction, other: &Winner| {
        matches!(
            kind(transaction, other),
            Some(ConflictKind::ConcurrentAppend { .. })
        )
    };
    let strict = update(&["a"], Isolation::Serializable);
    assert!(appended(&strict, &blind) && appended(&strict, &seeing));
    let loose = update(&["a"], Isolation::WriteSerializable);
    assert!(!appended(&loose, &blind) && appended(&loose, &seeing));
    let mut with_metadata = loose.clone();
    with_metadata.actions.push(Action::Metadata(Metadata::default()));
    assert!(appended(&with_metadata, &blind));
    let mut silent = loose;
    silent.isolation = Isolation::SnapshotIsolation;
    assert!(!appended(&silent, &blind) && !appended(&silent, &seeing));
}

#[test]
fn a_winner_that_does_not_say_it_is_blind_is_not() {
    let other = Winner::of(6, vec![Action::Add(add("x"))]);
    let conflict = check(&update(&["a"], Isolation::WriteSerializable), &other).unwrap_err();
    assert_eq!(conflict.version, 6);
    assert_eq!(conflict.operation, "an unnamed operation");
}

#[test]
fn compaction_passes_appends_under_every_level() {
    for isolation in [Isolation::Serializable, Isolation::WriteSerializable] {
        let mut optimize = update(&["a"], isolation);
        optimize.operation = Operation {
            changes_data: false,
            ..Operation::new("OPTIMIZE")
        };
        for action in &mut optimize.actions {
            match action {
                Action::Add(add) => add.data_change = false,
                Action::Remove(remove) => remove.data_change = false,
                _ => {}
            }
        }
        assert_eq!(optimize.effective_isolation(), Isolation::SnapshotIsolation);
        assert_eq!(kind(&optimize, &winner("WRITE", true, append())), None);
        let other = winner("DELETE", false, vec![remove("a")]);
        assert_eq!(
            kind(&optimize, &other),
            Some(ConflictKind::ConcurrentDeleteRead("a".to_owned()))
        );
    }
}

#[test]
fn files_that_were_read_or_removed_must_not_be_removed_by_another() {
    let other = winner("DELETE", false, vec![remove("a")]);
    let reader = update(&["a"], Isolation::WriteSerializable);
    assert_eq!(
        kind(&reader, &other),
        Some(ConflictKind::ConcurrentDeleteRead("a".to_owned()))
    );
    let remover = transaction(vec![remove("a")]);
    assert_eq!(
        kind(&remover, &other),
        Some(ConflictKind::ConcurrentDeleteDelete("a".to_owned()))
    );
    assert_eq!(kind(&update(&["b"], Isolation::WriteSerializable), &other), None);
    let mut whole = transaction(append());
    whole.reads.whole_table = true;
    assert_eq!(
        kind(&whole, &other),
        Some(ConflictKind::ConcurrentDeleteRead("a".to_owned()))
    );
}

#[test]
fn progress_and_domains_are_fought_over_by_name() {
    let progress = |app_id: &str| {
        Action::Txn(Txn {
            app_id: app_id.to_owned(),
            ..Txn::default()
        })
    };
    let domain = |name: &str| {
        Action::DomainMetadata(DomainMetadata {
            domain: name.to_owned(),
            ..DomainMetadata::default()
        })
    };
    let other = winner(
        "WRITE",
        true,
        vec![progress("a"), domain("d"), domain("delta.rowTracking")],
    );
    let fought =
        |mine: &Transaction| matches!(kind(mine, &other), Some(ConflictKind::ConcurrentTransaction(_)));
    let mut reader = transaction(append());
    reader.reads.app_ids.insert("a".to_owned());
    assert!(fought(&reader));
    assert!(fought(&transaction(vec![progress("a")])));
    assert!(fought(&transaction(vec![domain("d")])));
    assert!(!fought(&transaction(vec![
        progress("b"),
        domain("e"),
        domain("delta.rowTracking")
    ])));
}

#[test]
fn files_without_statistics_of_a_column_and_clustering_by_it_are_a_conflict() {
    let file = |nulls: &str| {
        let stats = format!(r#"{{"numRecords":1,"nullCount":{{{nulls}}}}}"#);
        vec![Action::Add(with_stats("x", &stats))]
    };
    let clustering = |columns: &str| {
        vec![Action::DomainMetadata(DomainMetadata {
            domain: "delta.clustering".to_owned(),
            configuration: format!(r#"{{"clusteringColumns":[{columns}]}}"#),
            ..DomainMetadata::default()
        })]
    };
    for (columns, nulls, lacking) in [
        (r#"["a"]"#, r#""a":0"#, None),
        (r#"["a"],["s","b"]"#, r#""a":0,"s":{"b":1}"#, None),
        (r#"["a"],["s","b"]"#, r#""a":0,"s":{"c":1}"#, Some("\"s.b\"")),
        (r#"["a"]"#, "", Some("\"a\"")),
        ("", "", None),
    ] {
        for isolation in [Isolation::Serializable, Isolation::WriteSerializable] {
            let mut by = transaction(clustering(columns));
            by.isolation = isolation;
            let pairs = [
                (
                    transaction(file(nulls)),
                    winner("CLUSTER BY", false, clustering(columns)),
                ),
                (by, winner("WRITE", true, file(nulls))),
            ];
            for (mine, other) in pairs {
                let met = kind(&mine, &other);
                let is_expected = match (&met, lacking) {
                    (None, None) => true,
                    (Some(ConflictKind::ConcurrentTransaction(text)), Some(column)) => {
                        text.contains("the file x")
                            && text.contains(column)
                            && text.contains("again with them")
                    }
                    _ => false,
                };
                assert!(is_expected, "{columns} {nulls}: {met:?}");
            }
        }
    }
}

#[test]
fn the_first_check_in_the_order_names_the_conflict() {
    let everything = [
        Action::Add(add("x")),
        remove("a"),
        Action::DomainMetadata(DomainMetadata {
            domain: "d".to_owned(),
            ..DomainMetadata::default()
        }),
        Action::Metadata(Metadata::default()),
        Action::Protocol(Protocol::default()),
    ];
    let mut mine = update(&["a"], Isolation::Serializable);
    mine.actions.push(Action::DomainMetadata(DomainMetadata {
        domain: "d".to_owned(),
        ..DomainMetadata::default()
    }));
    let mut names = Vec::new();
    for left in (1..=everything.len()).rev() {
        let other = winner("REPLACE", false, everything[..left].to_vec());
        let message = kind(&mine, &other).unwrap().to_string();
        names.push(message.split(':').next().unwrap().to_owned());
    }
    assert_eq!(
        names,
        [
            "ProtocolChanged",
            "MetadataChanged",
            "ConcurrentTransaction",
            "ConcurrentAppend",
            "ConcurrentAppend"
        ]
    );
}

#[test]
fn the_message_says_who_won_and_what_to_do() {
    let other = winner(
        "MERGE",
        false,
        vec![Action::Add(in_partition("day=1/x", Some("1")))],
    );
    let conflict = check(&update(&["a"], Isolation::Serializable), &other).unwrap_err();
    assert_eq!(
        conflict.to_string(),
        "ConcurrentAppend: the file day=1/x was added to the partition day=1, which this transaction should have \
         read by version 6 (MERGE) after version 5 was read: read the table again and redo the transaction"
    );
}

fn reads(column: &str, comparison: Comparison) -> Predicate {
    Predicate::Term(Term::new(column, comparison))
}

#[test]
fn partitions_that_were_not_read_do_not_matter() {
    let monday = || Literal::String("monday".to_owned());
    let file = |day| in_partition("x", day);
    let on_monday = reads("day", Comparison::Equal(monday()));
    assert!(on_monday.may_match(&file(Some("monday"))));
    assert!(!on_monday.may_match(&file(Some("tuesday"))));
    assert!(!on_monday.may_match(&file(None)));
    assert!(!reads("day", Comparison::NotEqual(monday())).may_match(&file(Some("monday"))));
    assert!(reads("day", Comparison::IsNull).may_match(&file(Some(""))));
    assert!(!reads("day", Comparison::IsNotNull).may_match(&file(None)));
    let date = reads("day", Comparison::Less(Literal::Date(20_000)));
    assert!(date.may_match(&file(Some("2024-10-03"))));
    assert!(!date.may_match(&file(Some("2024-10-04"))));
    assert!(date.may_match(&file(Some("who knows"))));
    let number = reads("day", Comparison::In(vec![Literal::Long(9), Literal::Long(11)]));
    assert!(number.may_match(&file(Some("11"))));
    assert!(!number.may_match(&file(Some("10"))));
}

#[test]
fn statistics_exclude_what_cannot_be_in_the_file() {
    let file = with_stats(
        "x",
        r#"{"numRecords":4,"minValues":{"n":-3,"s":{"t":"b"},"at":"2024-01-01T00:00:00.000Z","f":1.0},
            "maxValues":{"n":9,"s":{"t":"d"},"at":"2024-01-02T00:00:00.000Z","f":2.0},
            "nullCount":{"n":0,"e":4}}"#,
    );
    let matches = |column: &str, comparison| reads(column, comparison).may_match(&file);
    assert!(!matches("n", Comparison::Greater(Literal::Long(9))));
    assert!(matches("n", Comparison::GreaterOrEqual(Literal::Long(9))));
    assert!(!matches("n", Comparison::Equal(Literal::Long(-4))));
    assert!(!matches("n", Comparison::IsNull));
    assert!(!matches("e", Comparison::IsNotNull));
    assert!(matches("e", Comparison::IsNull));
    assert!(matches("unknown", Comparison::Equal(Literal::Long(1))));
    // A NaN is above every number and in no statistics.
    assert!(matches("f", Comparison::Greater(Literal::Double(5.0))));
    assert!(!matches("f", Comparison::Less(Literal::Double(1.0))));
    // Times are cut to milliseconds, so the latest may lie a little after the maximum.
    let second_of_january = 1_704_153_600_000_000;
    assert!(matches(
        "at",
        Comparison::Greater(Literal::Timestamp(second_of_january + 999))
    ));
    assert!(!matches(
        "at",
        Comparison::Greater(Literal::Timestamp(second_of_january + 1_000))
    ));
    let nested = Term {
        column: vec!["s".to_owned(), "t".to_owned()],
        comparison: Comparison::Less(Literal::String("b".to_owned())),
    };
    assert!(!Predicate::Term(nested).may_match(&file));
    assert!(Predicate::default().may_match(&with_stats("y", "not json")));
}

fn comparison(literal: i64, which: u8) -> (Comparison, fn(i64, i64) -> bool) {
    let value = Literal::Long(literal);
    match which {
        0 => (Comparison::Equal(value), |a, b| a == b),
        1 => (Comparison::NotEqual(value), |a, b| a != b),
        2 => (Comparison::Less(value), |a, b| a < b),
        3 => (Comparison::LessOrEqual(value), |a, b| a <= b),
        4 => (Comparison::Greater(value), |a, b| a > b),
        5 => (Comparison::GreaterOrEqual(value), |a, b| a >= b),
        _ => (Comparison::In(vec![value]), |a, b| a == b),
    }
}

proptest! {
    #[test]
    fn a_file_with_a_matching_row_is_never_excluded(
        rows in prop::collection::vec(-4_i64..4, 1..5), literal in -5_i64..5, which in 0_u8..7,
    ) {
        let (least, most) = (rows.iter().min().unwrap(), rows.iter().max().unwrap());
        let stats = format!(
            r#"{{"numRecords":{},"minValues":{{"n":{least}}},"maxValues":{{"n":{most}}},"nullCount":{{"n":0}}}}"#,
            rows.len()
        );
        let (asked, holds) = comparison(literal, which);
        let found = reads("n", asked.clone()).may_match(&with_stats("x", &stats));
        prop_assert!(found || !rows.iter().any(|row| holds(*row, literal)));
        // A partition holds one value, so there the answer is exact.
        let file = in_partition("x", Some(&rows[0].to_string()));
        prop_assert_eq!(reads("day", asked).may_match(&file), holds(rows[0], literal));
    }

    #[test]
    fn a_blind_append_only_meets_changes_of_the_table(
        adds in prop::collection::vec("[a-d]", 0..3), removes in prop::collection::vec("[a-d]", 0..3), blind: bool,
    ) {
        let mut actions: Vec<Action> = adds.iter().map(|path| Action::Add(add(path))).collect();
        actions.extend(removes.iter().map(|path| remove(path)));
        prop_assert_eq!(kind(&transaction(append()), &winner("ANY", blind, actions)), None);
    }
}

#[test]
fn empty_transactions_leave_a_trace_only_when_they_must() {
    let empty = |isolation, changes_data| {
        let mut empty = transaction(Vec::new());
        empty.isolation = isolation;
        empty.operation.changes_data = changes_data;
        empty.is_skippable()
    };
    assert!(empty(Isolation::Serializable, true));
    assert!(empty(Isolation::WriteSerializable, false));
    assert!(!empty(Isolation::WriteSerializable, true));
}

#[test]
fn two_of_a_kind_are_refused_before_anything_is_written() {
    let twice = transaction(vec![Action::Add(add("a")), Action::Add(add("a"))]);
    assert!(
        twice
            .check()
            .unwrap_err()
            .to_string()
            .contains("two add actions for \"a\"")
    );
    let foreign = transaction(vec![Action::CommitInfo(CommitInfo {
        tags: BTreeMap::new(),
        ..CommitInfo::default()
    })]);
    assert!(foreign.check().is_err());
}

#[derive(Debug)]
struct AsItIs;

impl Merge for AsItIs {
    fn merge(&self, transaction: &Transaction, _: &[Marked]) -> Result<Transaction, CommitError> {
        Ok(transaction.clone())
    }
}

/// Marks rows of a file.
fn marking(path: &str, id: &str) -> Vec<Action> {
    let vector = DeletionVector {
        storage_type: "i".to_owned(),
        path_or_inline_dv: id.to_owned(),
        ..DeletionVector::default()
    };
    let add = Add {
        deletion_vector: Some(vector),
        ..add(path)
    };
    vec![remove(path), Action::Add(add)]
}

/// A delete that marks rows of one file and removes others, and looked for rows everywhere.
fn delete(marked: &str, removed: &[&str]) -> Transaction {
    let mut delete = update(removed, Isolation::Serializable);
    delete
        .actions
        .retain(|action| matches!(action, Action::Remove(_)));
    delete.actions.extend(marking(marked, "mine"));
    delete.reads.files.insert(marked.to_owned());
    delete.operation = Operation::new("DELETE");
    delete.marks = Some(Marks {
        paths: BTreeSet::from([marked.to_owned()]),
        merge: Arc::new(AsItIs),
    });
    delete
}

#[test]
fn marks_pass_marks_of_the_same_file_and_no_other_change_of_it() {
    let mine = delete("a", &["b"]);
    for operation in ["DELETE", "UPDATE", "MERGE"] {
        let passed = winner(operation, false, marking("a", "theirs"));
        assert_eq!(kind(&mine, &passed), None, "{operation}");
        assert_eq!(
            kind(&mine, &winner(operation, false, marking("c", "theirs"))),
            None
        );
        // A file that is removed, or written again, has no rows by the same numbers.
        let met = winner(operation, false, marking("b", "theirs"));
        assert_eq!(
            kind(&mine, &met),
            Some(ConflictKind::ConcurrentDeleteRead("b".to_owned()))
        );
        // An update adds rows, too.
        let mut adds = marking("a", "theirs");
        adds.push(Action::Add(add("new")));
        assert!(matches!(
            kind(&mine, &winner(operation, false, adds)),
            Some(ConflictKind::ConcurrentAppend { path, .. }) if path == "new"
        ));
    }
    for met in [
        winner("DELETE", false, vec![remove("a")]),
        // It may bring rows back.
        winner("RESTORE", false, marking("a", "theirs")),
        winner(
            "OPTIMIZE",
            false,
            vec![remove("a"), Action::Add(add("compacted"))],
        ),
    ] {
        assert!(kind(&mine, &met).is_some(), "{}", met.operation());
    }
}

#[test]
fn marks_are_a_conflict_for_those_who_merge_none() {
    let theirs = winner("DELETE", false, marking("a", "theirs"));
    let mut mine = delete("a", &[]);
    mine.marks = None;
    assert!(kind(&mine, &theirs).is_some());
    assert!(kind(&update(&["a"], Isolation::WriteSerializable), &theirs).is_some());
    assert_eq!(kind(&transaction(append()), &theirs), None);
}
