//! Transactions that depend on rows, and not on the files that hold them: they have a conflict with versions that
//! remove such rows, wherever others moved them, and none with versions that only move them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use delta_commit::actions::{Action, Add, CommitInfo, DeletionVector, Remove};
use delta_commit::conflict::{Conflict, check};
use delta_commit::predicate::{Comparison, Literal, Predicate, Term};
use delta_commit::unread_appends::UnreadAppends;
use delta_commit::winner::Winner;
use delta_commit::{Isolation, MemberId, Operation, Transaction, Version};
use proptest::prelude::*;

/// A file, the least and the greatest value of `x` in it, and the files of the first snapshot that its rows are from.
#[derive(Debug, Clone)]
struct File {
    path: String,
    range: (i64, i64),
    from: BTreeSet<usize>,
    /// True if its statistics are in the log.
    is_known: bool,
}

impl File {
    fn add(&self, data_change: bool) -> Add {
        let (min, max) = self.range;
        let stats = format!(
            r#"{{"numRecords":9,"minValues":{{"x":{min}}},"maxValues":{{"x":{max}}},"nullCount":{{"x":0}}}}"#
        );
        Add {
            path: self.path.clone(),
            stats: self.is_known.then_some(stats),
            data_change,
            ..Add::default()
        }
    }

    /// Its removal, which other writers may leave without statistics.
    fn remove(&self, data_change: bool, is_bare: bool) -> Action {
        let mut remove = Remove::of(&self.add(false), 0, data_change);
        if is_bare {
            remove.stats = None;
            remove.partition_values = None;
            remove.extended_file_metadata = None;
        }
        Action::Remove(remove)
    }

    fn may_match(&self, wanted: (i64, i64)) -> bool {
        !self.is_known || (self.range.0 <= wanted.1 && wanted.0 <= self.range.1)
    }
}

#[derive(Debug, Clone)]
enum Step {
    Append((i64, i64)),
    Remove(usize, bool),
    Mark(usize),
    /// Moves the rows of two files, or of one, into a new file.
    Move(usize, usize),
}

fn range() -> impl Strategy<Value = (i64, i64)> {
    (0..20_i64, 0..5_i64).prop_map(|(first, width)| (first, first + width))
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        1 => range().prop_map(Step::Append),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(at, bare)| Step::Remove(at, bare)),
        1 => any::<usize>().prop_map(Step::Mark),
        3 => (any::<usize>(), any::<usize>()).prop_map(|(one, two)| Step::Move(one, two)),
    ];
    prop::collection::vec(step, 1..8)
}

/// A table, and whether its versions since the first took rows from a reader or added some for it.
struct Table {
    files: Vec<File>,
    version: Version,
    wanted: (i64, i64),
    candidates: BTreeSet<usize>,
    isolation: Isolation,
    is_conflict: bool,
    /// True once a file holds rows that were appended, so that the reader's own are not told apart from them.
    is_mixed: bool,
}

impl Table {
    fn holds_candidate(&self, file: &File) -> bool {
        !file.from.is_disjoint(&self.candidates)
    }

    fn next(&mut self, step: &Step) -> Option<Winner> {
        let place = |number: &usize| number.checked_rem(self.files.len());
        let version = self.version + 1;
        let (operation, actions) = match step {
            Step::Append(range) => {
                let file = File {
                    path: format!("appended-{version}"),
                    range: *range,
                    from: BTreeSet::new(),
                    is_known: true,
                };
                self.is_conflict |= self.isolation == Isolation::Serializable && file.may_match(self.wanted);
                let actions = vec![Action::Add(file.add(true))];
                self.files.push(file);
                ("WRITE", actions)
            }
            Step::Remove(number, is_bare) => {
                let at = place(number)?;
                let file = self.files.remove(at);
                self.is_conflict |= self.holds_candidate(&file);
                ("DELETE", vec![file.remove(true, *is_bare)])
            }
            Step::Mark(number) => {
                let file = self.files[place(number)?].clone();
                self.is_conflict |= self.holds_candidate(&file) || file.may_match(self.wanted);
                let marked = Add {
                    deletion_vector: Some(DeletionVector::default()),
                    ..file.add(true)
                };
                ("DELETE", vec![file.remove(true, false), Action::Add(marked)])
            }
            Step::Move(one, two) => {
                let chosen = BTreeSet::from([place(one)?, place(two)?]);
                let old: Vec<File> = chosen.iter().map(|at| self.files[*at].clone()).collect();
                let new = File {
                    path: format!("moved-{version}"),
                    range: (
                        old.iter().map(|file| file.range.0).min()?,
                        old.iter().map(|file| file.range.1).max()?,
                    ),
                    from: old.iter().flat_map(|file| file.from.clone()).collect(),
                    is_known: old.iter().all(|file| file.is_known),
                };
                self.is_mixed |= old.iter().any(|file| file.from.is_empty());
                let mut actions: Vec<Action> = old.iter().map(|file| file.remove(false, false)).collect();
                actions.push(Action::Add(new.add(false)));
                let mut at = 0..;
                self.files.retain(|_| !chosen.contains(&at.next().unwrap()));
                self.files.push(new);
                ("OPTIMIZE", actions)
            }
        };
        self.version = version;
        let info = Action::CommitInfo(CommitInfo {
            operation: Some(operation.to_owned()),
            is_blind_append: Some(operation == "WRITE"),
            ..CommitInfo::default()
        });
        Some(Winner::of(
            version,
            std::iter::once(info).chain(actions).collect(),
        ))
    }
}

/// A transaction that read the rows with `x` in this range.
fn reader(table: &Table) -> Transaction {
    let (first, last) = table.wanted;
    let added = Add {
        data_change: true,
        ..Add::default()
    };
    let mut mine = Transaction::append(MemberId::from_number(1), 0, vec![Action::Add(added)]);
    mine.operation = Operation::new("WRITE");
    mine.isolation = table.isolation;
    mine.reads.predicates.push(Predicate::all([
        Term::new("x", Comparison::GreaterOrEqual(Literal::Long(first))),
        Term::new("x", Comparison::LessOrEqual(Literal::Long(last))),
    ]));
    let files = table.files.iter().filter(|file| file.may_match(table.wanted));
    mine.reads.candidates = Some(files.map(|file| file.path.clone()).collect());
    mine
}

fn answer(mine: &Transaction, winners: &[Winner]) -> Result<(), Box<Conflict>> {
    let mut unread_appends = UnreadAppends::default();
    for winner in winners {
        check(mine, winner)?;
        unread_appends.take(mine, winner)?;
    }
    unread_appends.check(mine)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_reader_of_rows_conflicts_with_their_removal_and_with_nothing_else(
        ranges in prop::collection::vec((range(), any::<bool>()), 1..5),
        wanted in range(),
        serializable in any::<bool>(),
        steps in steps(),
    ) {
        let files = ranges.into_iter().enumerate().map(|(number, (range, is_known))| File {
            path: number.to_string(),
            range,
            from: BTreeSet::from([number]),
            is_known,
        });
        let files: Vec<File> = files.collect();
        let candidates = files.iter().enumerate().filter(|(_, file)| file.may_match(wanted));
        let mut table = Table {
            candidates: candidates.map(|(number, _)| number).collect(),
            files,
            version: 0,
            wanted,
            isolation: if serializable { Isolation::Serializable } else { Isolation::WriteSerializable },
            is_conflict: false,
            is_mixed: false,
        };
        let mine = reader(&table);
        let winners: Vec<Winner> = steps.iter().filter_map(|step| table.next(step)).collect();
        let answer = answer(&mine, &winners);
        prop_assert!(answer.is_err() || !table.is_conflict);
        prop_assert!(answer.is_ok() || table.is_conflict || table.is_mixed, "{answer:?}");
    }
}
