//! Clients that mark rows of a file. Each file has as many rows as bytes, and the text of a vector is their names.

use std::collections::BTreeSet;
use std::sync::Arc;

use delta_commit::actions::{Action, Add, DeletionVector, Remove};
use delta_commit::conflict::{Conflict, ConflictKind};
use delta_commit::winner::Winner;
use delta_commit::{CommitError, Isolation, Marked, Marks, MemberId, Merge, Operation, Transaction, Version};

use crate::client::{live, look};
use crate::rng::Rng;

/// Rows of a file that is no compaction's.
pub(crate) const ROWS: i64 = 8;

/// The statistics of a file with so many rows.
pub(crate) fn count(rows: i64) -> String {
    format!(r#"{{"numRecords":{rows}}}"#)
}

/// The names of a file's rows.
pub(crate) fn named(file: &Add) -> impl Iterator<Item = char> + use<> {
    ('a'..='z').take(usize::try_from(file.size).unwrap_or(0))
}

/// Files of which rows are marked. Few, so that clients meet.
const FILES: usize = 2;

/// The rows that a vector deletes.
pub(crate) fn rows(vector: Option<&DeletionVector>) -> BTreeSet<char> {
    vector
        .into_iter()
        .flat_map(|vector| vector.path_or_inline_dv.chars())
        .collect()
}

pub(crate) fn vector(rows: &BTreeSet<char>) -> DeletionVector {
    DeletionVector {
        storage_type: "i".to_owned(),
        path_or_inline_dv: rows.iter().collect(),
        size_in_bytes: 1,
        cardinality: i64::try_from(rows.len()).unwrap_or(i64::MAX),
        ..DeletionVector::default()
    }
}

fn actions(file: &Add, rows: &BTreeSet<char>) -> Vec<Action> {
    vec![
        Action::Remove(Remove::of(file, 0, true)),
        Action::Add(Add {
            deletion_vector: Some(vector(rows)),
            ..file.clone()
        }),
    ]
}

/// The rows that a transaction itself marks.
pub(crate) fn own(transaction: &Transaction) -> BTreeSet<char> {
    let (mut before, mut after) = (BTreeSet::new(), BTreeSet::new());
    for action in &transaction.actions {
        match action {
            Action::Add(add) => after.extend(rows(add.deletion_vector.as_ref())),
            Action::Remove(remove) => before.extend(rows(remove.deletion_vector.as_ref())),
            _ => {}
        }
    }
    &after - &before
}

/// Marks a row or two of a file that is in the table; none where there is no row to mark.
pub(crate) fn transaction(
    rng: &mut Rng,
    id: MemberId,
    read: &[Winner],
    read_version: Version,
    isolation: Isolation,
) -> Option<Transaction> {
    let live = live(read);
    let mut marks = Transaction::append(id, read_version, Vec::new());
    marks.operation = Operation::new("DELETE");
    // Some changes are of the newest append, which another one may have missed.
    let may_miss = isolation == Isolation::WriteSerializable;
    let newest = read.last().map_or(&[][..], |winner| winner.adds.as_slice());
    let file = if may_miss && !newest.is_empty() && rng.permille(300) {
        &newest[rng.below(newest.len())]
    } else {
        *live.get(rng.below(FILES))?
    };
    let base = rows(file.deletion_vector.as_ref());
    let left: Vec<char> = named(file).filter(|row| !base.contains(row)).collect();
    if left.is_empty() {
        return None;
    }
    let mine: BTreeSet<char> = (0..=rng.below(2)).map(|_| left[rng.below(left.len())]).collect();
    marks.actions = actions(file, &(&base | &mine));
    marks.reads.files.insert(file.path.clone());
    if may_miss {
        look(rng, &mut marks, isolation);
    }
    marks.marks = Some(Marks {
        paths: BTreeSet::from([file.path.clone()]),
        merge: Arc::new(Own { base, mine }),
    });
    Some(marks)
}

/// The merge of one client.
#[derive(Debug)]
struct Own {
    base: BTreeSet<char>,
    mine: BTreeSet<char>,
}

impl Merge for Own {
    fn merge(&self, transaction: &Transaction, theirs: &[Marked]) -> Result<Transaction, CommitError> {
        let Some(last) = theirs.last() else {
            return Ok(transaction.clone());
        };
        let win = rows(last.add.deletion_vector.as_ref());
        let both = win.intersection(&self.mine).count();
        if both > 0 || !self.base.is_subset(&win) {
            return Err(CommitError::Conflict(Box::new(Conflict {
                kind: ConflictKind::ConcurrentRows {
                    path: last.add.path.clone(),
                    rows: both as u64,
                },
                version: last.version,
                operation: last.operation.clone(),
                read_version: transaction.read_version,
                only_moved: false,
            })));
        }
        let mut merged = transaction.clone();
        merged.actions = actions(&last.add, &(&win | &self.mine));
        Ok(merged)
    }
}
