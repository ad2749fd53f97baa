//! Requests for a turn: a transaction that others cannot carry asks them to leave the next version to it.
//!
//! Nothing here concerns safety. A request that is late, lost or never answered costs races, and one whose owner died
//! costs each process one wait.

use std::collections::{HashMap, HashSet};

use super::member::Member;
use super::{Asked, AskedEffect, BatchKind, Machine};
use crate::intent::first_of_digits;
use crate::log::{Effect, Time, Version};
use crate::transaction::MemberId;

/// Lost races after which a transaction asks.
const LOST: u32 = 2;

/// Lost races after which it asks again.
const LOST_AGAIN: u32 = 8;

/// The least and the most milliseconds that others wait for a request.
const SHORTEST: u64 = 20;
const LONGEST: u64 = 1_000;

/// The time that a process leaves to others is at most one part in so many: each of their versions may be one that its
/// own transactions have to follow.
const ONE_IN: u64 = 10;

/// Versions between two looks for requests by a process that has no other reason to list the intents.
const LOOK_EVERY: Version = 4;

const ENDING: &str = ".turn";

/// A request, as its name says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    /// The version after the tip when it was made. It is of no use after the window of an intent that begins there.
    pub(super) first: Version,
    /// The transaction.
    id: MemberId,
    /// The milliseconds for which others are asked to wait.
    milliseconds: u64,
}

impl Request {
    fn name(&self) -> String {
        format!("{:020}-{}-{}{ENDING}", self.first, self.id, self.milliseconds)
    }

    /// The request of this name; none where the name is not a request's.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let mut parts = name.strip_suffix(ENDING)?.splitn(3, '-');
        Some(Self {
            first: first_of_digits(parts.next()?)?,
            id: parts.next()?.parse().ok()?,
            milliseconds: parts.next()?.parse().ok()?,
        })
    }
}

/// The requests of a transaction of this process.
#[derive(Debug, Clone, Default)]
pub(super) struct Asking {
    pub(super) names: Vec<String>,
    /// The races that it had lost when it asked last.
    asked_at: Option<u32>,
    /// The time of its last attempt: milliseconds of the monotonic clock.
    tried: Option<u64>,
    /// The longest time from one attempt to the next.
    longest: u64,
}

impl Asking {
    pub(super) fn try_once(&mut self, now: Time) {
        if let Some(before) = self.tried.replace(now.monotonic) {
            self.longest = self.longest.max(now.monotonic.saturating_sub(before));
        }
    }

    fn is_due(&self, lost: u32) -> bool {
        let least = self.asked_at.map_or(LOST, |at| at + LOST_AGAIN);
        lost >= least
    }
}

/// The requests of other processes.
#[derive(Debug, Clone, Default)]
pub(super) struct TurnRequests {
    /// Those that the last listing showed, each with the time until which it is waited for, if the wait has begun.
    seen: HashMap<String, (Request, Option<u64>)>,
    /// The tip at the last listing.
    listed: Option<Version>,
    /// The beginning of the wait under way.
    waits_since: Option<u64>,
    /// The time until which nobody is waited for.
    rests_until: u64,
}

impl TurnRequests {
    pub(super) fn note(&mut self, name: &str, request: Request) {
        self.seen.entry(name.to_owned()).or_insert((request, None));
    }

    /// Notes a listing, and forgets what is not in it.
    pub(super) fn list(&mut self, listed: &HashSet<&str>, tip: Version) {
        self.seen.retain(|name, _| listed.contains(name.as_str()));
        self.look(tip);
    }

    /// Notes a look for requests, whatever came of it.
    pub(super) fn look(&mut self, tip: Version) {
        self.listed = Some(tip);
    }

    /// The milliseconds for which requests are still waited for, of those for which `is_open` holds.
    fn left(&mut self, now: u64, is_open: impl Fn(&Request) -> bool) -> u64 {
        if now < self.rests_until {
            return 0;
        }
        let open = self.seen.values_mut().filter(|(request, _)| is_open(request));
        let until = open.map(|(request, until)| {
            let wait = request.milliseconds.min(LONGEST);
            *until.get_or_insert(now + wait)
        });
        let until = until.max().unwrap_or(0);
        // Those that ask meanwhile would go on for ever.
        let last = self.waits_since.unwrap_or(now) + LONGEST;
        let left = until.min(last).saturating_sub(now);
        if left > 0 {
            self.waits_since.get_or_insert(now);
        } else if let Some(since) = self.waits_since.take() {
            // It may have had nothing to do since then.
            self.rests_until = now + (ONE_IN - 1) * (now - since).min(LONGEST);
        }
        left
    }
}

impl Machine {
    /// Asks for a turn for the transaction in flight, if others cannot carry it and it has lost races.
    pub(super) fn ask_for_turn(&mut self, kind: BatchKind) -> Option<AskedEffect> {
        if !self.rules.leaves_to_others {
            return None;
        }
        let first = self.view.tip + 1;
        let member = self.uncarried(kind)?;
        if !member.asking.is_due(member.lost) {
            return None;
        }
        let request = Request {
            first,
            id: member.id(),
            milliseconds: (2 * member.asking.longest).clamp(SHORTEST, LONGEST),
        };
        let name = request.name();
        member.asking.asked_at = Some(member.lost);
        member.asking.names.push(name.clone());
        Some((Asked::Request, Effect::PutIntent(name, Vec::new())))
    }

    /// Pauses while others have asked for a turn and there is time for it. The next version is looked for after each
    /// pause.
    pub(super) fn leave_turn(&mut self, kind: BatchKind) -> Option<AskedEffect> {
        let left = self.left_of_turns(kind);
        if left == 0 {
            return None;
        }
        self.pace.put_off();
        self.view.fresh = false;
        Some((Asked::Pause, Effect::Pause(left.min(self.pace.look()))))
    }

    /// The milliseconds for which others' requests are still waited for. A transaction that has asked itself waits for
    /// nobody.
    fn left_of_turns(&mut self, kind: BatchKind) -> u64 {
        if !self.rules.leaves_to_others
            || self
                .uncarried(kind)
                .is_some_and(|member| member.asking.asked_at.is_some())
        {
            return 0;
        }
        let view = &self.view;
        self.turns.left(self.now.monotonic, |request| {
            let mut since = (request.first.max(0)..=view.tip).filter_map(|version| view.get(version));
            !since.any(|winner| winner.members.contains(&request.id))
        })
    }

    /// Lists the intents for the requests among them, once in several versions. A round for blind appends always lists
    /// them.
    pub(super) fn look_for_requests(&self) -> Option<AskedEffect> {
        let is_due = self
            .turns
            .listed
            .is_some_and(|tip| self.view.tip < tip + LOOK_EVERY);
        (self.rules.leaves_to_others && !is_due && self.gathered.is_none())
            .then_some((Asked::Look, Effect::ListIntents))
    }

    /// Discards the requests of a transaction that has its verdict.
    pub(super) fn end_requests(&mut self, member: &Member) {
        for name in &member.asking.names {
            self.discard(name.clone());
        }
    }

    /// Returns true if a request is of this process, or of no more use.
    pub(super) fn is_own_or_gone(&self, name: &str) -> bool {
        let mut own = self.bundle.iter().chain(&self.other);
        own.any(|member| member.asking.names.iter().any(|asked| asked == name))
            || self.garbage.contains(name)
            || self.deleting.contains(name)
    }

    /// The transaction of this turn that is never announced.
    fn uncarried(&mut self, kind: BatchKind) -> Option<&mut Member> {
        match kind {
            BatchKind::Other => self.other.as_mut(),
            BatchKind::Blind => self
                .bundle
                .iter_mut()
                .find(|member| !member.prepared.fits_a_batch()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn however_many_ask_each_wait_ends_and_a_rest_follows_it() {
        let mut turns = TurnRequests::default();
        let (mut waited, mut longest, mut since) = (0, 0, None);
        for now in 0..100_000_u64 {
            if now % 10 == 0 {
                let id = MemberId::from_number(u128::from(now));
                let request = Request {
                    first: 0,
                    id,
                    milliseconds: 500,
                };
                turns.note(&request.name(), request);
            }
            let waits = turns.left(now, |_| true) > 0;
            waited += u64::from(waits);
            since = waits.then(|| since.unwrap_or(now));
            longest = longest.max(since.map_or(0, |since| now - since));
        }
        assert!(longest < LONGEST, "a wait of {longest} ms");
        assert!((1..=11_000).contains(&waited), "{waited} ms of 100,000");
    }

    #[test]
    fn a_wait_that_nobody_ended_is_followed_by_no_longer_rest() {
        let mut turns = TurnRequests::default();
        let request = |number| Request {
            first: 0,
            id: MemberId::from_number(number),
            milliseconds: 500,
        };
        turns.note(&request(1).name(), request(1));
        assert_eq!(turns.left(0, |_| true), 500);
        // An hour without a transaction.
        assert_eq!(turns.left(3_600_000, |_| true), 0);
        turns.note(&request(2).name(), request(2));
        assert_eq!(turns.left(3_600_000 + 10 * LONGEST, |_| true), 500);
    }

    proptest! {
        #[test]
        fn a_name_says_what_is_asked(first in 0..Version::MAX, id in any::<u128>(), milliseconds in any::<u64>()) {
            let request = Request { first, id: MemberId::from_number(id), milliseconds };
            prop_assert_eq!(Request::of_name(&request.name()), Some(request));
            prop_assert_eq!(crate::intent::first_of_name(&request.name()), None);
        }

        #[test]
        fn other_names_ask_for_nothing(name in any::<String>()) {
            prop_assert_eq!(Request::of_name(&name), None);
            prop_assert_eq!(Request::of_name(&format!("{name}{ENDING}")), None);
        }
    }
}
