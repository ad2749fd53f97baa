//! Clients that compact: they copy the rows of one or two files into a new one, without those that are deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use delta_commit::actions::{Action, Add, Remove};
use delta_commit::conflict::{Conflict, ConflictKind};
use delta_commit::winner::Winner;
use delta_commit::{CommitError, Marked, Marks, MemberId, Merge, Operation, Transaction, Version};

use crate::client::live;
use crate::marks::{self, named, rows, vector};
use crate::rng::Rng;

/// The name of these transactions' operation.
pub(crate) const OPTIMIZE: &str = "OPTIMIZE";

/// Rows of a file, at most.
const MOST_ROWS: usize = 24;

/// Replaces files that are in the table; none where they hold no row, or too many.
pub(crate) fn transaction(
    rng: &mut Rng,
    id: MemberId,
    read: &[Winner],
    read_version: Version,
    new: &str,
) -> Option<Transaction> {
    let live = live(read);
    let sources: Vec<Add> = live.into_iter().take(1 + rng.below(2)).cloned().collect();
    let count: usize = sources.iter().map(|source| kept(source).len()).sum();
    if !(1..=MOST_ROWS).contains(&count) {
        return None;
    }
    let removes = sources
        .iter()
        .map(|source| Action::Remove(Remove::of(source, 0, false)));
    let mut actions: Vec<Action> = removes.collect();
    // A file of rows of several partitions is in none: it may have any row.
    let partition = sources.first().map(|source| source.partition_values.clone());
    let partition = partition.filter(|first| sources.iter().all(|source| source.partition_values == *first));
    actions.push(Action::Add(Add {
        path: new.to_owned(),
        partition_values: partition.unwrap_or_default(),
        size: i64::try_from(count).unwrap_or(i64::MAX),
        stats: Some(marks::count(i64::try_from(count).unwrap_or(i64::MAX))),
        ..Add::default()
    }));
    let mut moves = Transaction::append(id, read_version, actions);
    moves.operation = Operation::new(OPTIMIZE);
    moves.operation.changes_data = false;
    let paths: BTreeSet<String> = sources.iter().map(|source| source.path.clone()).collect();
    moves.reads.files.clone_from(&paths);
    moves.marks = Some(Marks {
        paths,
        merge: Arc::new(MoveMerge { sources }),
    });
    Some(moves)
}

/// The rows of a file that are copied, in their order.
fn kept(file: &Add) -> Vec<char> {
    let deleted = rows(file.deletion_vector.as_ref());
    named(file).filter(|row| !deleted.contains(row)).collect()
}

/// The merge of one client.
#[derive(Debug)]
struct MoveMerge {
    sources: Vec<Add>,
}

impl MoveMerge {
    /// The rows of the new file that stand for these of an old one.
    fn moved(&self, path: &str, deleted: &BTreeSet<char>, new: &Add) -> BTreeSet<char> {
        let mut places = named(new);
        let mut moved = BTreeSet::new();
        for source in &self.sources {
            for (row, place) in kept(source).into_iter().zip(places.by_ref()) {
                if source.path == path && deleted.contains(&row) {
                    moved.insert(place);
                }
            }
        }
        moved
    }
}

impl Merge for MoveMerge {
    fn merge(&self, transaction: &Transaction, theirs: &[Marked]) -> Result<Transaction, CommitError> {
        let last: BTreeMap<&str, &Marked> = theirs
            .iter()
            .map(|marked| (marked.add.path.as_str(), marked))
            .collect();
        let mut merged = transaction.clone();
        for (path, marked) in last {
            let win = rows(marked.add.deletion_vector.as_ref());
            let source = self.sources.iter().find(|source| source.path == path);
            let base = source.map(|source| rows(source.deletion_vector.as_ref()));
            if !base.is_some_and(|base| base.is_subset(&win)) {
                return Err(CommitError::Conflict(Box::new(Conflict {
                    kind: ConflictKind::ConcurrentDeleteRead(path.to_owned()),
                    version: marked.version,
                    operation: marked.operation.clone(),
                    read_version: transaction.read_version,
                    only_moved: false,
                })));
            }
            for action in &mut merged.actions {
                match action {
                    Action::Remove(remove) if remove.path == path => {
                        *remove = Remove::of(&marked.add, 0, false);
                    }
                    Action::Add(new) => {
                        let all = &rows(new.deletion_vector.as_ref()) | &self.moved(path, &win, new);
                        new.deletion_vector = Some(vector(&all));
                    }
                    _ => {}
                }
            }
        }
        Ok(merged)
    }
}

/// A row by the file that it was first in, and its name there.
pub(crate) type Row = (String, char);

/// The table's rows after each version, by where they were first.
#[derive(Default)]
pub(crate) struct RowHistory {
    /// The rows of each file that there ever was.
    files: BTreeMap<String, Vec<Row>>,
    /// The rows that are deleted from each file in the table.
    entries: BTreeMap<String, BTreeSet<char>>,
}

impl RowHistory {
    /// Takes a version in. `compaction` is the transaction in it as its client gave it, if it is one.
    pub fn take(&mut self, actions: &[Action], compaction: Option<&Transaction>) {
        let copied = compaction.map(|transaction| self.copied(transaction));
        for action in actions {
            if let Action::Remove(remove) = action {
                self.entries.remove(&remove.path);
            }
        }
        for action in actions {
            if let Action::Add(add) = action {
                let own = || named(add).map(|row| (add.path.clone(), row)).collect();
                let rows_of = || copied.clone().unwrap_or_else(own);
                self.files.entry(add.path.clone()).or_insert_with(rows_of);
                self.entries
                    .insert(add.path.clone(), rows(add.deletion_vector.as_ref()));
            }
        }
    }

    fn copied(&self, compaction: &Transaction) -> Vec<Row> {
        let mut copied = Vec::new();
        for action in &compaction.actions {
            if let Action::Remove(remove) = action {
                let deleted = rows(remove.deletion_vector.as_ref());
                let all = self.files.get(&remove.path).into_iter().flatten();
                let kept = LETTERS.zip(all).filter(|(name, _)| !deleted.contains(name));
                copied.extend(kept.map(|(_, row)| row.clone()));
            }
        }
        copied
    }

    /// The rows that are in the table.
    pub fn left(&self) -> BTreeSet<Row> {
        let mut left = BTreeSet::new();
        for (path, deleted) in &self.entries {
            let all = self.files.get(path).into_iter().flatten();
            let kept = LETTERS.zip(all).filter(|(name, _)| !deleted.contains(name));
            left.extend(kept.map(|(_, row)| row.clone()));
        }
        left
    }
}

/// The names of rows, in their order.
const LETTERS: std::ops::RangeInclusive<char> = 'a'..='z';
