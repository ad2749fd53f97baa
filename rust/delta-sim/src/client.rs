//! Clients: their transactions, the answers that they got, and their reactions.

use std::collections::BTreeMap;

use delta_commit::actions::{Action, Add, Metadata, PartitionValues, Remove, Txn, UnknownFields};
use delta_commit::predicate::{Comparison, Literal, Predicate, Term};
use delta_commit::winner::Winner;
use delta_commit::{Isolation, MemberId, Operation, Token, Transaction, Version};

use crate::rng::Rng;
use crate::{marks, moves};

/// The last answer that a client got on its transaction.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    /// Nothing yet.
    Nothing,
    /// Nothing, and its process is dead.
    Died,
    /// It is in this version.
    Committed(Version),
    /// It is not in the table and will not be: its data files are deleted.
    Rejected(String),
    /// Nobody knows.
    Doubt(Box<Token>),
    /// Nobody will know.
    Unknowable,
}

/// A transaction, from its client's side.
#[derive(Debug)]
pub(crate) struct SimulatedClient {
    pub(crate) transaction: Transaction,
    pub(crate) process: usize,
    pub(crate) told: Told,
    /// Races lost to bundles of blind appends since its announcement.
    pub(crate) lost_races: u32,
    pub(crate) announced: bool,
}

const APPLICATIONS: usize = 3;

/// Files of an append, at most. Each is in a partition of its own.
const MOST_FILES: usize = 3;

/// Makes the next client's transaction for the table at `read_version`.
pub(crate) fn transaction(
    rng: &mut Rng,
    number: u128,
    read: &[Winner],
    read_version: Version,
    isolation: Isolation,
) -> Transaction {
    let id = MemberId::from_number(number);
    let files = |count: usize| {
        (0..count).map(move |n| {
            Action::Add(Add {
                path: format!("f{number}-{n}.parquet"),
                partition_values: PartitionValues::from_iter([("part", Some(n.to_string().as_str()))]),
                data_change: true,
                size: marks::ROWS,
                stats: Some(marks::count(marks::ROWS)),
                ..Add::default()
            })
        })
    };
    match rng.below(100) {
        0..3 => {
            let metadata = Metadata {
                id: "table".to_owned(),
                description: Some(number.to_string()),
                ..Metadata::default()
            };
            let mut change = Transaction::append(id, read_version, vec![Action::Metadata(metadata)]);
            change.operation = Operation::new("SET TBLPROPERTIES");
            change
        }
        3..15 => update(rng, id, read, read_version, isolation, files(1).collect()),
        25..40 => marks::transaction(rng, id, read, read_version, isolation)
            .unwrap_or_else(|| Transaction::append(id, read_version, files(1).collect())),
        40..48 => moves::transaction(rng, id, read, read_version, &format!("c{number}.parquet"))
            .unwrap_or_else(|| Transaction::append(id, read_version, files(1).collect())),
        15..25 => {
            let app_id = format!("app{}", rng.below(APPLICATIONS));
            let version = i64::try_from(number).unwrap_or(0);
            let progress = Action::Txn(Txn {
                app_id: app_id.clone(),
                version,
                last_updated: None,
                unknown: UnknownFields::default(),
            });
            let mut append = Transaction::append(
                id,
                read_version,
                files(1).chain(std::iter::once(progress)).collect(),
            );
            append.reads.app_ids.insert(app_id);
            append
        }
        _ => Transaction::append(id, read_version, files(1 + rng.below(MOST_FILES)).collect()),
    }
}

/// The files in the table after these versions.
pub(crate) fn live(read: &[Winner]) -> Vec<&Add> {
    let mut live = BTreeMap::new();
    for winner in read {
        live.retain(|path: &&str, _| !winner.removed_paths.contains(*path));
        live.extend(winner.adds.iter().map(|add| (add.path.as_str(), add)));
    }
    live.into_values().collect()
}

/// Has some transactions look for rows: of all partitions, or of one where they may miss appends.
pub(crate) fn look(rng: &mut Rng, transaction: &mut Transaction, isolation: Isolation) {
    if !rng.permille(300) {
        return;
    }
    let mut predicate = Predicate::default();
    if isolation == Isolation::WriteSerializable && rng.permille(700) {
        let part = i64::try_from(rng.below(MOST_FILES)).unwrap_or(0);
        predicate = Predicate::Term(Term::new("part", Comparison::Equal(Literal::Long(part))));
    }
    transaction.reads.predicates.push(predicate);
}

/// Rewrites a file that is in the table.
fn update(
    rng: &mut Rng,
    id: MemberId,
    read: &[Winner],
    read_version: Version,
    isolation: Isolation,
    mut actions: Vec<Action>,
) -> Transaction {
    let live = live(read);
    let mut update = if live.is_empty() {
        Transaction::append(id, read_version, actions)
    } else {
        let old = live[rng.below(live.len())];
        actions.push(Action::Remove(Remove::of(old, 0, true)));
        let mut update = Transaction::append(id, read_version, actions);
        update.reads.files.insert(old.path.clone());
        update
    };
    look(rng, &mut update, isolation);
    update.operation = Operation::new("UPDATE");
    update
}
