//! A transaction of this process, from its arrival to its verdict.

use std::collections::BTreeSet;

use super::turn::Asking;
use crate::error::CommitError;
use crate::intent::{PreparedAppend, last_of, window_of};
use crate::log::{Time, Version};
use crate::merge::Marked;
use crate::settle::{SettleStep, Token};
use crate::transaction::MemberId;
use crate::unread_appends::UnreadAppends;

/// Versions and intents in which a transaction may be, or may yet appear, unseen by its process.
#[derive(Debug, Clone, Default)]
pub(super) struct Claim {
    /// An attempt whose outcome was not seen. It is the last one: each is at the version after those that were read,
    /// and an earlier attempt was at one of these.
    pub(super) attempted: Option<Version>,
    /// The first and the last version of its intents' windows.
    pub(super) window: Option<(Version, Version)>,
    /// Names of its intents.
    pub(super) names: Vec<String>,
    /// The names among them whose announcement may still arrive: the answer was lost, no listing has shown them since,
    /// and they have not expired.
    pub(super) doubtful: BTreeSet<String>,
    /// The last expiry of its intents, by the store's clock.
    pub(super) expires: Option<i64>,
}

impl Claim {
    /// Returns true if no version after `tip` can hold the transaction. Versions up to `tip` have been read.
    pub(super) fn is_clear(&self, tip: Version) -> bool {
        self.attempted.is_none_or(|at| at <= tip) && self.window.is_none_or(|(_, last)| last <= tip)
    }

    /// Returns true if the window of its last announcement holds this version.
    pub(super) fn is_open(&self, version: Version) -> bool {
        self.window.is_some_and(|(_, last)| last >= version)
    }

    pub(super) fn announce(&mut self, first: Version, expires: Option<i64>, name: String) {
        let from = self.window.map_or(first, |(from, _)| from.min(first));
        self.window = Some((from, last_of(first)));
        self.expires = self.expires.max(expires);
        self.doubtful.insert(name.clone());
        self.names.push(name);
    }

    /// Removes an announcement that certainly did not happen.
    pub(super) fn withdraw(&mut self, name: &str) {
        self.doubtful.remove(name);
        self.names.retain(|other| other != name);
        self.window = window_of(&self.names);
        if self.names.is_empty() {
            self.expires = None;
        }
    }

    pub(super) fn token(&self, table_id: &str, id: MemberId, checked: Version) -> Token {
        let bounds = self.window.into_iter().chain(self.attempted.map(|at| (at, at)));
        let (first, last) = bounds
            .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
            .unwrap_or((checked + 1, checked));
        Token {
            table_id: table_id.to_owned(),
            id: id.to_string(),
            first,
            last,
            intents: self.names.clone(),
            announcement_in_doubt: !self.doubtful.is_empty(),
            expires: self.expires,
        }
    }
}

/// A transaction that is waiting or in flight.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) prepared: PreparedAppend,
    /// The last version that it was checked against. No version between its read version and this one holds it or
    /// conflicts with it.
    pub(super) checked: Version,
    /// Marks of its files in the versions that it was checked against, with which it is not merged yet.
    pub(super) theirs: Vec<Marked>,
    /// Appends among those versions that count as if they had come after it.
    pub(super) unread_appends: UnreadAppends,
    /// True if its data files survive a crash.
    pub(super) synced: bool,
    /// The number of times that its data files could not be synced.
    pub(super) sync_failures: u32,
    /// The time from which syncing them may be tried again: milliseconds of the monotonic clock.
    pub(super) put_off_until: u64,
    /// Races that it lost.
    pub(super) lost: u32,
    /// The number of listings in which its intent was missing.
    pub(super) unseen: u32,
    /// True if the intent in the store is about to be too old, or is not seen there.
    pub(super) must_announce: bool,
    /// The time of its announcement by the store's clock.
    pub(super) announced: Option<i64>,
    /// The time of its first announcement that was not refused: milliseconds of the monotonic clock.
    pub(super) waits_since: Option<u64>,
    /// True if an attempt was made without it.
    pub(super) left_out: bool,
    pub(super) asking: Asking,
    pub(super) claim: Claim,
}

impl Member {
    pub(super) fn new(prepared: PreparedAppend) -> Self {
        Self {
            checked: prepared.transaction.read_version,
            theirs: Vec::new(),
            unread_appends: UnreadAppends::default(),
            synced: prepared.transaction.unsynced.is_empty(),
            prepared,
            sync_failures: 0,
            put_off_until: 0,
            lost: 0,
            unseen: 0,
            must_announce: false,
            announced: None,
            waits_since: None,
            left_out: false,
            asking: Asking::default(),
            claim: Claim::default(),
        }
    }

    pub(super) fn id(&self) -> MemberId {
        self.prepared.id()
    }

    /// Returns true if other processes can see an announcement of it whose window holds this version.
    pub(super) fn is_announced(&self, version: Version) -> bool {
        let last = self.claim.names.last();
        let is_certain = last.is_some_and(|name| !self.claim.doubtful.contains(name));
        is_certain && self.claim.is_open(version) && !self.must_announce
    }

    /// Returns true if the pause before the next sync of its data files is over.
    pub(super) fn is_ready(&self, now: Time) -> bool {
        self.put_off_until <= now.monotonic
    }

    /// Returns true if its data is synced, or it is announced for the first time, before the next attempt. Steady
    /// arrivals would put off one that is due for ever, so those that come by then wait for the one after it.
    pub(super) fn may_join(&self, is_due: bool) -> bool {
        !is_due || self.left_out
    }
}

/// A doubt that is being settled.
#[derive(Debug, Clone)]
pub(super) struct Settlement {
    pub(super) id: MemberId,
    pub(super) claim: Claim,
    pub(super) checked: Version,
    pub(super) stage: SettleStep,
    /// The reason why a transaction of this process cannot commit; none when a caller asked with a token.
    pub(super) reason: Option<CommitError>,
    /// True if the store told its time since the settlement began.
    pub(super) knows_time: bool,
}

impl Settlement {
    /// The last version that may hold it.
    pub(super) fn last(&self) -> Version {
        let window = self.claim.window.map(|(_, last)| last);
        window.max(self.claim.attempted).unwrap_or(self.checked)
    }

    /// Returns true if an announcement of it may still arrive.
    pub(super) fn is_in_doubt(&self) -> bool {
        !self.claim.doubtful.is_empty()
    }

    /// Returns true if it depends on the store's time, which was not asked for yet.
    pub(super) fn needs_time(&self) -> bool {
        self.is_in_doubt() && self.claim.expires.is_some() && !self.knows_time
    }
}
