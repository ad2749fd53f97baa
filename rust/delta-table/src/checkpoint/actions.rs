//! The actions of a checkpoint: what later readers need of a snapshot, without what has expired.

use std::sync::Arc;

use delta_commit::actions::{Action, Add, Remove};

use crate::error::Result;
use crate::interval::interval_millis;
use crate::properties::TRANSACTION_RETENTION;
use crate::snapshot::Snapshot;

use super::foreign_fields::ForeignFields;

/// The time for which tombstones are kept, unless the table's properties say otherwise.
const TOMBSTONE_DAYS: i64 = 7;

/// The actions that later readers need. Those of files are in memory once, in the snapshot.
pub(super) struct Actions<'a> {
    pub others: Vec<Action>,
    pub adds: Vec<&'a Add>,
    pub removes: Vec<&'a Remove>,
    /// The time since which removals are kept.
    pub kept_since: i64,
}

impl<'a> Actions<'a> {
    /// `now` decides what has expired.
    pub fn of(snapshot: &'a Snapshot, now: i64) -> Self {
        let contents = &snapshot.contents;
        let kept_since = kept_since(snapshot, now);
        let progress_since = progress_since(snapshot, now);
        let mut others = vec![
            Action::Protocol(snapshot.protocol.clone()),
            Action::Metadata(snapshot.metadata.as_ref().clone()),
        ];
        let progress = contents.transactions.values();
        let young = progress.filter(|txn| txn.last_updated.is_none_or(|at| at >= progress_since));
        others.extend(young.cloned().map(Action::Txn));
        others.extend(snapshot.domains.values().cloned().map(Action::DomainMetadata));
        let removes = contents.tombstones.values().map(Arc::as_ref);
        let kept = removes.filter(|remove| remove.deletion_timestamp.is_none_or(|at| at > kept_since));
        Self {
            others,
            adds: contents.files.values().map(Arc::as_ref).collect(),
            removes: kept.collect(),
            kept_since,
        }
    }

    pub fn foreign_fields(&self) -> Result<ForeignFields> {
        ForeignFields::of(&self.others, &self.adds, &self.removes)
    }

    /// The actions as a checkpoint has them, one at a time.
    pub fn written(&self) -> impl Iterator<Item = Action> + '_ {
        let adds = self.adds.iter().map(|add| checkpoint_add((*add).clone()));
        self.others.iter().cloned().chain(adds).chain(self.tombstones())
    }

    /// The `remove` actions.
    pub fn tombstones(&self) -> impl Iterator<Item = Action> + '_ {
        self.removes.iter().map(|remove| {
            Action::Remove(Remove {
                data_change: false,
                stats: None,
                tags: None,
                ..(*remove).clone()
            })
        })
    }
}

/// An `add` action as a checkpoint has it.
pub(super) fn checkpoint_add(add: Add) -> Action {
    Action::Add(Add {
        data_change: false,
        ..add
    })
}

/// The time after which removals are kept. All are, if the table's retention cannot be parsed.
fn kept_since(snapshot: &Snapshot, now: i64) -> i64 {
    const DAY: i64 = 86_400_000;
    let millis = match snapshot.property("delta.deletedFileRetentionDuration") {
        Some(text) => interval_millis(text),
        None => Some(TOMBSTONE_DAYS * DAY),
    };
    millis.map_or(i64::MIN, |millis| now.saturating_sub(millis))
}

/// The time since which the progress of applications is kept: all, unless the table says for how long. Without it a
/// table of many applications would have all of their entries in each checkpoint for ever.
fn progress_since(snapshot: &Snapshot, now: i64) -> i64 {
    let millis = snapshot.property(TRANSACTION_RETENTION).and_then(interval_millis);
    millis.map_or(i64::MIN, |millis| now.saturating_sub(millis))
}
