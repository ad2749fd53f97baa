//! A transaction of this process, from its arrival to its verdict.

use std::collections::BTreeSet;

use crate::error::CommitError;
use crate::intent::{Prepared, last_of};
use crate::log::{Time, Version};
use crate::settle::{Stage, Token};
use crate::transaction::MemberId;

/// Where a transaction may be, or come to be, without its process knowing.
#[derive(Debug, Clone, Default)]
pub(super) struct Claim {
    /// An attempt whose outcome was not seen.
    pub(super) attempted: Option<Version>,
    /// First and last version of its intents' windows.
    pub(super) window: Option<(Version, Version)>,
    /// Names of its intents.
    pub(super) names: Vec<String>,
    /// Those of them whose announcement may still be on its way.
    pub(super) doubtful: BTreeSet<String>,
}

impl Claim {
    /// Whether it is certain that it is in no version after the ones that were read up to `tip`.
    pub(super) fn is_clear(&self, tip: Version) -> bool {
        self.attempted.is_none_or(|at| at <= tip) && self.window.is_none_or(|(_, last)| last <= tip)
    }

    pub(super) fn announce(&mut self, first: Version, name: String) {
        let from = self.window.map_or(first, |(from, _)| from.min(first));
        self.window = Some((from, last_of(first)));
        self.doubtful.insert(name.clone());
        self.names.push(name);
    }

    /// The announcement under this name certainly did not happen.
    pub(super) fn withdraw(&mut self, name: &str) {
        self.doubtful.remove(name);
        self.names.retain(|other| other != name);
        if self.names.is_empty() {
            self.window = None;
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
        }
    }
}

/// A transaction that is waiting or in flight.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) prepared: Prepared,
    /// Every version up to here was read since, and neither holds it nor conflicts with it.
    pub(super) checked: Version,
    /// Whether its data files survive a crash.
    pub(super) synced: bool,
    /// How often they could not be tried.
    pub(super) sync_failures: u32,
    /// When they may be tried again: milliseconds of the monotonic clock.
    pub(super) put_off_until: u64,
    /// Races that it lost.
    pub(super) lost: u32,
    /// In how many listings its intent was missing.
    pub(super) unseen: u32,
    /// Whether the intent that is in the store is about to be too old, or is not seen there.
    pub(super) must_announce: bool,
    /// When it was announced, by the store's clock.
    pub(super) announced: Option<i64>,
    pub(super) claim: Claim,
}

impl Member {
    pub(super) fn new(prepared: Prepared) -> Self {
        Self {
            checked: prepared.transaction.read_version,
            synced: prepared.transaction.unsynced.is_empty(),
            prepared,
            sync_failures: 0,
            put_off_until: 0,
            lost: 0,
            unseen: 0,
            must_announce: false,
            announced: None,
            claim: Claim::default(),
        }
    }

    pub(super) fn id(&self) -> MemberId {
        self.prepared.id()
    }

    /// Whether it need not wait before its data files are tried again.
    pub(super) fn is_ready(&self, now: Time) -> bool {
        self.put_off_until <= now.monotonic
    }
}

/// A doubt that is being settled.
#[derive(Debug)]
pub(super) struct Settlement {
    pub(super) id: MemberId,
    pub(super) claim: Claim,
    pub(super) checked: Version,
    pub(super) stage: Stage,
    /// Why a transaction of this process cannot commit; none when a caller asked with a token.
    pub(super) reason: Option<CommitError>,
}

impl Settlement {
    /// The last version that may hold it.
    pub(super) fn last(&self) -> Version {
        let window = self.claim.window.map(|(_, last)| last);
        window.max(self.claim.attempted).unwrap_or(self.checked)
    }
}
