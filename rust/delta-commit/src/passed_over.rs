//! Blind appends that a transaction looked for and did not read.
//!
//! Under `WriteSerializable` such an append counts as if it had come after the transaction, whereas all other versions
//! count in their order. So no order holds the append, a version that changed rows of it, and the transaction after
//! that version, if files that the transaction looked for are left of the append. An append is one version, which others
//! read whole or not at all.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::actions::Add;
use crate::conflict::{Conflict, ConflictKind, looked_for, partition_of};
use crate::transaction::{Isolation, Transaction};
use crate::winner::Winner;

/// The blind appends that a transaction passed over. [`take`](Self::take) takes in each version that it did not see, and
/// [`check`](Self::check) answers for all of them: a version may end the conflict with the one before it.
#[derive(Debug, Clone, Default)]
pub struct PassedOver(Vec<Append>);

/// A blind append, and what became of its files.
#[derive(Debug, Clone)]
struct Append {
    version: Arc<Winner>,
    /// Files that a compaction wrote, in which rows of the append may be.
    moved_to: BTreeSet<String>,
    /// Its files that left the table.
    gone: BTreeSet<String>,
    /// The first version that changed rows of it.
    changed_by: Option<Arc<Winner>>,
}

impl PassedOver {
    /// Takes in the next version that the transaction did not see, and has no other conflict with.
    ///
    /// A plain append is noted and no more: its files are compared with what the transaction looked for only where rows
    /// of it were changed.
    pub fn take(&mut self, transaction: &Transaction, winner: &Arc<Winner>) {
        if transaction.isolation != Isolation::WriteSerializable || !transaction.reads.looks_for_rows() {
            return;
        }
        if !winner.removed_paths.is_empty() {
            for append in &mut self.0 {
                append.follow(winner);
            }
        }
        if winner.is_blind_append() {
            self.0.push(Append {
                version: Arc::clone(winner),
                moved_to: BTreeSet::new(),
                gone: BTreeSet::new(),
                changed_by: None,
            });
        }
    }

    /// Checks whether there is an order of the transaction, the appends and the versions that changed rows of them.
    ///
    /// # Errors
    /// The conflict with the version that changed rows of an append of which the transaction missed a file.
    pub fn check(&self, transaction: &Transaction) -> Result<(), Box<Conflict>> {
        let found = self.0.iter().find_map(|append| {
            let changed_by = append.changed_by.as_ref()?;
            Some((append, changed_by, append.missed(transaction)?))
        });
        match found {
            Some((append, changed_by, file))
                if transaction.effective_isolation() == Isolation::WriteSerializable =>
            {
                let kind = ConflictKind::ChangedAppend {
                    path: file.path.clone(),
                    partition: partition_of(file),
                    added_in: append.version.version,
                };
                Err(Box::new(Conflict::new(transaction, changed_by, kind)))
            }
            _ => Ok(()),
        }
    }
}

impl Append {
    /// Takes in a version that removed files of the table.
    fn follow(&mut self, winner: &Arc<Winner>) {
        let added = self.version.adds.iter().map(|add| &add.path);
        let files = added.chain(&self.moved_to);
        let removed: Vec<String> = files
            .filter(|path| winner.removed_paths.contains(*path))
            .cloned()
            .collect();
        if removed.is_empty() {
            return;
        }
        if winner.changes_rows {
            self.changed_by.get_or_insert_with(|| Arc::clone(winner));
        } else {
            // The log does not say which of them the rows are in.
            let new = winner.adds.iter().filter(|new| self.is_beside(new));
            let new: Vec<String> = new.map(|new| new.path.clone()).collect();
            self.moved_to.extend(new);
        }
        let gone = removed
            .into_iter()
            .filter(|path| !winner.added_paths.contains(path));
        self.gone.extend(gone);
    }

    /// Returns true if the file is in a partition of the append.
    fn is_beside(&self, file: &Add) -> bool {
        let mut own = self.version.adds.iter();
        own.any(|add| add.partition_values == file.partition_values)
    }

    /// A file that the transaction looked for and did not read, and that is still in the table. Rows of those that left
    /// it are gone, or in files of versions that are no blind appends.
    fn missed(&self, transaction: &Transaction) -> Option<&Add> {
        let adds = self.version.adds.iter();
        adds.filter(|add| !self.gone.contains(&add.path))
            .find(|add| looked_for(transaction, add))
    }
}
