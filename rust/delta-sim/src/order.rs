//! Blind appends, as far as it matters whether they came before or after transactions that missed them.

use std::collections::{BTreeMap, BTreeSet};

use delta_commit::actions::Add;
use delta_commit::winner::Winner;
use delta_commit::{Isolation, Transaction, Version};

use crate::moves::Row;

/// A blind append.
struct Append {
    files: Vec<Add>,
    /// True if another version changed a row of it, and so came after it.
    is_changed: bool,
}

impl Append {
    fn has(&self, (path, _): &Row) -> bool {
        self.files.iter().any(|file| file.path == *path)
    }
}

/// The blind appends of a log, by their versions.
#[derive(Default)]
pub(crate) struct Appends(BTreeMap<Version, Append>);

impl Appends {
    /// Takes a version in that deleted these rows.
    pub fn take(&mut self, winner: &Winner, deleted: &BTreeSet<Row>) {
        for append in self.0.values_mut() {
            append.is_changed |= deleted.iter().any(|row| append.has(row));
        }
        if winner.is_blind_append() {
            let append = Append {
                files: winner.adds.clone(),
                is_changed: false,
            };
            self.0.insert(winner.version, append);
        }
    }

    /// The version of an append that is neither before nor after a transaction: it has rows that the transaction looked
    /// for and did not read, and others were changed before.
    pub fn without_order(&self, transaction: &Transaction, left: &BTreeSet<Row>) -> Option<Version> {
        if transaction.effective_isolation() != Isolation::WriteSerializable {
            return None;
        }
        let is_wanted = |file: &Add| {
            let mut predicates = transaction.reads.predicates.iter();
            predicates.any(|predicate| predicate.may_match(file))
        };
        let missed = self.0.range(transaction.read_version + 1..);
        let mut changed = missed.filter(|(_, append)| append.is_changed);
        let found = changed.find(|(_, append)| {
            let mut wanted = append.files.iter().filter(|file| is_wanted(file));
            wanted.any(|file| {
                let mut rows = left.range((file.path.clone(), char::MIN)..);
                rows.next().is_some_and(|(path, _)| *path == file.path)
            })
        });
        found.map(|(version, _)| *version)
    }
}
