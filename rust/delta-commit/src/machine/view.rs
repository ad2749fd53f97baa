//! The part of the log that this process has read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Start;
use crate::actions::{Action, Metadata, Protocol};
use crate::intent::{WINDOW, World};
use crate::log::{BEFORE_FIRST, BodyDigest, Time, Version};
use crate::row_ids::RowTracking;
use crate::transaction::Transaction;
use crate::winner::Winner;

/// The age in milliseconds above which a confirmed tip may have been cleaned up.
const STALE_TIP: u64 = 10 * 60 * 1_000;

/// The milliseconds for which nobody has to look up the tip again before the next attempt: the time of a round.
const CHECK_LASTS: u64 = 1_000;

/// The number of parsed versions that are kept: those that an open window may need, and as many again for slow readers.
const KEPT: Version = 2 * WINDOW;

const IN_COMMIT_TIMESTAMPS: &str = "delta.enableInCommitTimestamps";

/// Versions that were read, the tip, and the state that follows from them.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub(super) tip: Version,
    /// True if the version after the tip was looked for since the last attempt, and did not exist.
    pub(super) fresh: bool,
    /// The last time at which the tip was seen in the log.
    confirmed: Option<u64>,
    /// The newest version that a listing showed.
    listed: Version,
    /// R13: the last version that is certain to be one of this table, and its digest. It was looked up after all
    /// versions up to it were read.
    sure: (Version, Option<BodyDigest>),
    /// True if that version was found, and the one before the tip is still to be looked up.
    is_sure_there: bool,
    /// The version before the tip, or the tip where no other is known.
    prior: (Version, Option<BodyDigest>),
    tip_digest: Option<BodyDigest>,
    /// The time at which the tip was asked for, when it was read or created.
    tip_seen: u64,
    /// The time of the last look at the tip; none after an attempt that was not told to have won.
    checked: Option<u64>,
    /// The last version up to which everything survives a crash.
    pub(super) synced: Version,
    pub(super) world: World,
    protocol: Option<Protocol>,
    metadata: Option<Metadata>,
    in_commit_timestamps: bool,
    last_in_commit: i64,
    high_water_mark: Option<i64>,
    winners: BTreeMap<Version, Arc<Winner>>,
    /// The first version that a transaction of this process may still be checked against.
    needed: Version,
    gone: BTreeSet<Version>,
}

impl View {
    pub(super) fn new(start: Start) -> Self {
        let (protocol, metadata) = start.known.unzip();
        Self {
            tip: start.version,
            fresh: false,
            confirmed: None,
            listed: start.version,
            sure: (start.version, start.digest),
            is_sure_there: false,
            prior: (start.version, start.digest),
            tip_digest: start.digest,
            tip_seen: 0,
            checked: None,
            synced: start.version - 1,
            world: World {
                table_id: start.table_id,
                changed_in: start.changed_in,
            },
            protocol,
            metadata,
            in_commit_timestamps: start.in_commit_timestamp.is_some(),
            last_in_commit: start.in_commit_timestamp.unwrap_or(0),
            high_water_mark: start.high_water_mark,
            winners: BTreeMap::new(),
            needed: Version::MAX,
            gone: BTreeSet::new(),
        }
    }

    pub(super) fn must_list(&self, now: Time) -> bool {
        self.confirmed
            .is_none_or(|at| now.monotonic.saturating_sub(at) > STALE_TIP)
    }

    /// Marks the tip as doubtful: it must be looked for in a listing before anything else.
    pub(super) fn doubt_tip(&mut self) {
        self.confirmed = None;
        self.fresh = false;
    }

    /// Takes a tip that a listing showed. Returns false when the table is gone.
    pub(super) fn list(&mut self, tip: Version, now: Time) -> bool {
        self.confirmed = Some(now.monotonic);
        self.listed = self.listed.max(tip);
        self.fresh = false;
        // The listing may be late, or the table restored from a copy: the next attempt needs another look.
        if tip < self.tip {
            self.doubt_table();
        }
        tip >= 0 || self.tip < 0
    }

    /// The last version that is certain to be one of this table.
    pub(super) const fn sure(&self) -> Version {
        self.sure.0
    }

    /// The version to be looked up, and its digest.
    ///
    /// While the sure version is there, the versions that were read after it are of the same table, or were: it may
    /// have been restored from a copy between two of them, and the later one written above the gap. So the version
    /// before the tip must be there, too. It is another one only where more than one was read since the last look.
    pub(super) const fn to_look_up(&self) -> (Version, Option<BodyDigest>) {
        if self.is_sure_there { self.prior } else { self.sure }
    }

    /// Returns true if the tip was looked up just now, after it was read or created.
    pub(super) fn is_checked(&self, now: Time) -> bool {
        let age = self.checked.map(|at| now.monotonic.saturating_sub(at));
        self.sure.0 == self.tip && age.is_some_and(|age| age <= CHECK_LASTS)
    }

    /// Notes that the version to be looked up is there, by a look that began after the tip was read or created.
    pub(super) fn confirm_table(&mut self, asked: Time) {
        if !self.is_sure_there && self.sure.0 < self.prior.0 {
            self.is_sure_there = true;
            return;
        }
        // While an older version is there, a later one may be gone: a copy has fewer.
        let is_tip = self.sure.0 == self.tip;
        self.checked = Some(if is_tip { asked.monotonic } else { self.tip_seen });
        self.sure = (self.tip, self.tip_digest);
        self.is_sure_there = false;
    }

    /// Notes that another table may be in the place of this one.
    pub(super) fn doubt_table(&mut self) {
        self.checked = None;
    }

    /// Returns true if a listing showed a later version than the tip.
    pub(super) const fn is_passed(&self) -> bool {
        self.listed > self.tip
    }

    /// Notes that the version after the tip does not exist. Returns false when a later one does: then the versions
    /// between were cleaned up.
    pub(super) fn reach_end(&mut self) -> bool {
        self.fresh = true;
        self.listed <= self.tip
    }

    /// Notes the first version that a transaction of this process is still to be checked against. Those that wait for
    /// others would each read the same versions again.
    pub(super) fn need(&mut self, first: Version) {
        self.needed = first;
    }

    /// The version after the tip is there.
    pub(super) fn advance(&mut self, winner: impl Into<Arc<Winner>>, now: Time) {
        let mut winner = winner.into();
        if winner.changes_world() {
            // Spark's RESTORE repeats what the table has: nothing that others know of it has changed.
            let own = Arc::make_mut(&mut winner);
            keep_changed(&mut self.protocol, &mut own.protocol);
            keep_changed(&mut self.metadata, &mut own.metadata);
        }
        self.prior = (self.tip, self.tip_digest);
        self.is_sure_there = false;
        self.tip = winner.version;
        self.tip_digest = winner.digest;
        self.tip_seen = now.monotonic;
        if self.sure.0 <= BEFORE_FIRST {
            // Nothing was known of the table before.
            self.sure = (self.tip, self.tip_digest);
            self.prior = self.sure;
        }
        self.fresh = false;
        self.confirmed = Some(now.monotonic);
        self.listed = self.listed.max(self.tip);
        if winner.changes_world() {
            self.world.changed_in = winner.version;
        }
        if let Some(metadata) = &winner.metadata {
            self.world.table_id.clone_from(&metadata.id);
            self.in_commit_timestamps = metadata.is_enabled(IN_COMMIT_TIMESTAMPS);
        }
        if let Some(at) = winner.commit_info.as_ref().and_then(|i| i.in_commit_timestamp) {
            self.last_in_commit = at;
        }
        // Another writer may lower the highest id. Those above it were given all the same.
        self.high_water_mark = self.high_water_mark.max(winner.high_water_mark);
        self.remember(winner);
        let oldest = (self.tip - KEPT + 1).min(self.needed);
        self.winners.retain(|version, _| *version >= oldest);
    }

    /// An older version was read once more.
    pub(super) fn remember(&mut self, winner: impl Into<Arc<Winner>>) {
        let mut winner = winner.into();
        // Nothing has changed since then: it repeats what the table has.
        if winner.version > self.world.changed_in && winner.changes_world() {
            let own = Arc::make_mut(&mut winner);
            own.protocol = None;
            own.metadata = None;
        }
        self.gone.remove(&winner.version);
        self.winners.insert(winner.version, winner);
    }

    pub(super) fn forget(&mut self, version: Version) {
        self.gone.insert(version);
    }

    pub(super) fn get(&self, version: Version) -> Option<&Arc<Winner>> {
        self.winners.get(&version)
    }

    /// The first version from `first` to `last` that must still be read.
    pub(super) fn unread(&self, first: Version, last: Version) -> Option<Version> {
        (first.max(0)..=last).find(|v| !self.winners.contains_key(v) && !self.gone.contains(v))
    }

    /// The first version from `first` to the tip that must still be read.
    pub(super) fn unread_since(&self, first: Version) -> Option<Version> {
        self.unread(first, self.tip)
    }

    /// All versions from `first` to the tip; none when one of them is gone.
    pub(super) fn all_since(&self, first: Version) -> Option<Vec<&Winner>> {
        (first.max(0)..=self.tip)
            .map(|version| self.get(version).map(AsRef::as_ref))
            .collect()
    }

    /// The row tracking of the next version, if `transaction` is in it alone; none where its files get no ids.
    pub(super) fn row_tracking(&self, transaction: Option<&Transaction>) -> Option<RowTracking> {
        let (mut protocol, mut metadata) = (self.protocol.as_ref(), self.metadata.as_ref());
        for action in transaction
            .into_iter()
            .flat_map(|transaction| &transaction.actions)
        {
            match action {
                Action::Protocol(next) => protocol = Some(next),
                Action::Metadata(next) => metadata = Some(next),
                _ => {}
            }
        }
        RowTracking::of(protocol, metadata, self.high_water_mark)
    }

    /// The in-commit timestamp of the next version, where the table has them. They rise strictly.
    pub(super) fn next_in_commit(&self, now: Time) -> Option<i64> {
        self.in_commit_timestamps
            .then(|| now.wall.max(self.last_in_commit + 1))
    }
}

/// Moves a version's new value into `known`, and drops it from the version if it is unchanged.
fn keep_changed<T: Clone + PartialEq>(known: &mut Option<T>, brought: &mut Option<T>) {
    if brought == known {
        *brought = None;
    } else if brought.is_some() {
        known.clone_from(brought);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(version: Version) -> View {
        View::new(Start {
            version,
            table_id: "t".to_owned(),
            changed_in: version,
            in_commit_timestamp: None,
            high_water_mark: None,
            digest: None,
            known: (version > BEFORE_FIRST).then(|| (Protocol::default(), Metadata::default())),
        })
    }

    /// A version that says what the table is.
    fn stating(version: Version) -> Winner {
        Winner {
            protocol: Some(Protocol::default()),
            metadata: Some(Metadata::default()),
            ..Winner::of(version, Vec::new())
        }
    }

    #[test]
    fn what_a_version_repeats_is_no_change_when_it_is_read_again() {
        let mut view = view(BEFORE_FIRST);
        view.advance(stating(0), Time::default());
        view.advance(stating(1), Time::default());
        for version in 2..2 + KEPT {
            view.advance(Winner::of(version, Vec::new()), Time::default());
        }
        assert_eq!(view.unread(1, 1), Some(1));
        view.remember(stating(1));
        assert!(view.get(1).is_some_and(|winner| !winner.changes_world()));
        view.remember(stating(0));
        assert!(view.get(0).is_some_and(|winner| winner.changes_world()));
    }

    #[test]
    fn what_came_before_a_checkpoint_may_have_changed_the_table() {
        let mut view = view(20);
        view.remember(stating(15));
        assert!(view.get(15).is_some_and(|winner| winner.changes_world()));
    }
}
