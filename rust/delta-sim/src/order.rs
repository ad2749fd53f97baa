//! Blind appends, as far as it matters whether they came before or after transactions that missed them.

use std::collections::{BTreeMap, BTreeSet};

use delta_commit::actions::Add;
use delta_commit::winner::Winner;
use delta_commit::{Isolation, Transaction, Version};

use crate::moves::Row;

/// A blind append.
struct OrderedAppend {
    files: Vec<Add>,
    app_ids: BTreeSet<String>,
    /// True if a version follows it that cannot be moved behind it: one that changed a row of it, or has later progress
    /// of an application.
    is_first: bool,
}

impl OrderedAppend {
    fn has(&self, (path, _): &Row) -> bool {
        self.files.iter().any(|file| file.path == *path)
    }
}

/// The blind appends of a log, by their versions.
#[derive(Default)]
pub(crate) struct Appends(BTreeMap<Version, OrderedAppend>);

impl Appends {
    /// Takes a version in that deleted these rows.
    pub fn take(&mut self, winner: &Winner, deleted: &BTreeSet<Row>) {
        let is_blind = winner.is_blind_append();
        let mut app_ids = BTreeSet::new();
        if !is_blind {
            app_ids.clone_from(&winner.app_ids);
        }
        for append in self.0.values_mut().rev() {
            let is_changed = deleted.iter().any(|row| append.has(row));
            append.is_first |= is_changed || !append.app_ids.is_disjoint(&app_ids);
            if append.is_first {
                app_ids.extend(append.app_ids.iter().cloned());
            }
        }
        if is_blind {
            let append = OrderedAppend {
                files: winner.adds.clone(),
                app_ids: winner.app_ids.clone(),
                is_first: false,
            };
            self.0.insert(winner.version, append);
        }
    }

    /// The version of an append that is neither before nor after a transaction: it has rows that the transaction looked
    /// for and did not read, and a version before the transaction follows it.
    pub fn without_order(&self, transaction: &Transaction, left: &BTreeSet<Row>) -> Option<Version> {
        if transaction.effective_isolation() != Isolation::WriteSerializable {
            return None;
        }
        let is_wanted = |file: &Add| {
            let mut predicates = transaction.reads.predicates.iter();
            predicates.any(|predicate| predicate.may_match(file))
        };
        let missed = self.0.range(transaction.read_version + 1..);
        let mut first = missed.filter(|(_, append)| append.is_first);
        let found = first.find(|(_, append)| {
            let mut wanted = append.files.iter().filter(|file| is_wanted(file));
            wanted.any(|file| {
                let mut rows = left.range((file.path.clone(), char::MIN)..);
                rows.next().is_some_and(|(path, _)| *path == file.path)
            })
        });
        found.map(|(version, _)| *version)
    }
}
