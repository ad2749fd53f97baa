//! Gathers the intents of a round: lists and reads them, and decides which are of use.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::known::MOST_KEPT;
use super::turn::Request;
use super::{Asked, AskedEffect, Gathered, Machine, UnreadIntent};
use crate::batch::{MAX_ACTIONS, MAX_BYTES};
use crate::intent::{self, Intent, LIFETIME, MAX_AGE, MAX_BODY, ParsedIntent, PreparedAppend};
use crate::log::{Bundles, Effect, IntentEntry, Listing, Version};
use crate::transaction::MemberId;
use crate::winner::Winner;

/// The most intents that are read for one attempt, oldest first.
const MAX_INTENTS: usize = 1_000;

/// The most bytes of intents that are looked at together. More are only while these do not fill the version.
const MOST_READ: u64 = MOST_KEPT;

/// The number of listings in which an own intent may be missing before it is announced again. Listings may be late.
const MAX_UNSEEN: u32 = 2;

impl Machine {
    /// Pauses while the members are left to other processes. The next version is looked for after each pause.
    pub(super) fn leave_to_others(&mut self) -> Option<AskedEffect> {
        let left = self.left_to_others();
        if left == 0 {
            return None;
        }
        self.pace.put_off();
        self.view.fresh = false;
        Some((Asked::Pause, Effect::Pause(left.min(self.pace.look()))))
    }

    /// The time in milliseconds for which the members are still left to other processes that were met: all are
    /// announced for certain, and the time of an attempt has not passed since. Where others announced before them,
    /// these go first.
    pub(super) fn left_to_others(&self) -> u64 {
        let next = self.view.tip + 1;
        let mut ready = self.bundle.iter().filter(|member| member.is_ready(self.now));
        let are_announced = ready.all(|member| member.is_announced(next));
        match self.due() {
            Some(due) if are_announced && self.settlements.is_empty() && self.has_met() => {
                due.saturating_sub(self.now.monotonic)
            }
            _ => 0,
        }
    }

    /// The time at which the oldest announced member is attempted: milliseconds of the monotonic clock.
    fn due(&self) -> Option<u64> {
        let since = self.bundle.iter().filter_map(|member| member.waits_since).min()?;
        Some(since + self.pace.wait(self.ahead.unwrap_or(0)))
    }

    /// Returns true if announced members were left to other processes for long enough.
    pub(super) fn is_due(&self) -> bool {
        self.has_met() && self.due().is_some_and(|due| due <= self.now.monotonic)
    }

    pub(super) fn has_met(&self) -> bool {
        self.rules.leaves_to_others && self.pace.has_met(self.now)
    }

    /// R7: lists the intents after the tip was read, and reads what carrying them needs.
    pub(super) fn gather(&mut self) -> Option<AskedEffect> {
        let Some(gathered) = &self.gathered else {
            return Some((Asked::Listing, Effect::ListIntents));
        };
        if gathered.reading.is_empty()
            && let Some(step) = self.read_since(gathered)
        {
            return Some(step);
        }
        if gathered.is_begun() && self.fills_a_version() {
            return None;
        }
        self.gathered.as_mut()?.read_more()
    }

    /// R1: reads the versions in which members of intents that were read may be.
    fn read_since(&self, gathered: &Gathered) -> Option<AskedEffect> {
        if !self.rules.r1_window {
            return None;
        }
        let mut open = gathered
            .read
            .iter()
            .filter(|(.., intent)| self.is_open(intent, gathered.now));
        let version = open.find_map(|(.., intent)| self.view.unread_since(intent.first))?;
        Some((Asked::Body(version), Effect::ReadVersion(version)))
    }

    /// Returns true if others' members that were read are as many as a version takes.
    fn fills_a_version(&mut self) -> bool {
        let (mut actions, mut bytes) = (0, 0);
        for (_, member) in self.helped() {
            actions += member.transaction.actions.len();
            bytes += member.lines.len();
        }
        actions >= MAX_ACTIONS || bytes >= MAX_BYTES
    }

    /// Checks R1, R2 and R6: whether the next version may hold the intent's members at all, if it was listed at
    /// `listed`.
    pub(super) fn is_open(&self, intent: &Intent, listed: i64) -> bool {
        let next = self.view.tip + 1;
        let alive = !self.rules.r2_expiry || intent.expires.is_none_or(|expires| listed <= expires);
        let window = !self.rules.r1_window || (intent.first <= next && next <= intent.last());
        let world = !self.rules.r6_same_world || intent.world == self.view.world;
        window && world && alive
    }

    pub(super) fn on_listing(&mut self, mut listing: Listing) {
        listing
            .entries
            .sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
        self.clock.set(listing.now, self.now);
        self.pace.list(self.asked_at);
        let created: HashMap<&str, i64> = listing
            .entries
            .iter()
            .map(|entry| (entry.name.as_str(), entry.created))
            .collect();
        self.clear_doubts(&created);
        self.look_for_own(listing.now, &created);
        self.forget_unlisted(&listing);
        let mut gathered = Gathered {
            now: listing.now,
            ..Gathered::default()
        };
        let (mut others, mut ahead) = (0, None);
        for entry in listing.entries {
            if let Some(request) = Request::of_name(&entry.name) {
                self.take_request(&entry, request, listing.now);
                continue;
            }
            let Some(first) = intent::first_of_name(&entry.name) else {
                continue;
            };
            if intent::last_of(first) <= self.view.tip && self.rules.r1_window {
                self.discard(entry.name);
            } else if self.is_own(&entry.name) {
                if self.is_in_flight(&entry.name) {
                    ahead.get_or_insert(others);
                }
            } else if (listing.now - entry.created <= MAX_AGE || !self.rules.r2_no_zombies)
                && gathered.unread.len() < MAX_INTENTS
                && self.is_of_use(&entry)
            {
                others += u64::from(!self.passed_by.contains(&entry.name));
                self.gather_one(&mut gathered, entry);
            }
        }
        self.ahead = ahead;
        if others > 0 {
            self.pace.meet(self.now);
        }
        self.gathered = Some(gathered);
    }

    /// Takes in another's request for a turn that a listing shows.
    fn take_request(&mut self, entry: &IntentEntry, request: Request, now: i64) {
        if intent::last_of(request.first) <= self.view.tip {
            self.discard(entry.name.clone());
        } else if now - entry.created <= MAX_AGE && !self.is_own_or_gone(&entry.name) {
            self.turns.note(&entry.name, request);
        }
    }

    /// Takes in an intent that a listing shows. One whose content is known is not read again. But it is looked up: it
    /// may be deleted by now, and the listing out of date.
    fn gather_one(&mut self, gathered: &mut Gathered, entry: IntentEntry) {
        let known = self.known.get(&entry.name).map(Arc::clone);
        match known {
            Some(intent) if !self.is_open(&intent, gathered.now) => self.pass_by(&entry.name, intent.first),
            Some(intent) if !self.rules.r2_read_anew => {
                gathered.read.push((entry.name, entry.created, intent));
            }
            known => gathered.unread.push_back(UnreadIntent { entry, known }),
        }
    }

    /// Notes that nothing of an intent can be carried. What begins with a later version can be, once that is the next
    /// one: its owner has read a version that this process has not.
    pub(super) fn pass_by(&mut self, name: &str, first: Version) {
        if first <= self.view.tip + 1 {
            self.passed_by.insert(name.to_owned());
        }
    }

    /// Returns true if a member in flight was announced by this name.
    fn is_in_flight(&self, name: &str) -> bool {
        let mut names = self.bundle.iter().flat_map(|member| &member.claim.names);
        names.any(|own| own == name)
    }

    /// Returns false for an intent that is being deleted, or is to be, and for one that cannot be read. One of which
    /// all members have landed is deleted without being read again.
    fn is_of_use(&mut self, entry: &IntentEntry) -> bool {
        let name = &entry.name;
        if self.garbage.contains(name) || self.deleting.contains(name) || self.known.is_unreadable(name) {
            return false;
        }
        if entry.bytes > MAX_BODY as u64 {
            self.known.note_unreadable(name);
            return false;
        }
        let has_landed = self.known.get(name).is_some_and(|intent| {
            let mut members = intent.members.iter();
            members.all(|member| self.has_landed(member, intent.first))
        });
        if has_landed {
            self.discard(name.clone());
        }
        !has_landed
    }

    /// Forgets intents that are gone.
    fn forget_unlisted(&mut self, listing: &Listing) {
        let listed: HashSet<&str> = listing.entries.iter().map(|entry| entry.name.as_str()).collect();
        self.known.retain(&listed);
        self.turns.list(&listed, self.view.tip);
        self.passed_by.retain(|name| listed.contains(name.as_str()));
        self.forget_names(&listed);
    }

    /// R2: announces a live member again before its intent expires, or when the intent is missing.
    fn look_for_own(&mut self, now: i64, created: &HashMap<&str, i64>) {
        for member in &mut self.bundle {
            let Some(name) = member.claim.names.last() else {
                continue;
            };
            if let Some(created) = created.get(name.as_str()) {
                member.unseen = 0;
                member.announced = Some(*created);
                member.must_announce = match member.claim.expires {
                    Some(expires) => now > expires - LIFETIME / 2,
                    None => now - created > MAX_AGE / 2,
                };
            } else {
                member.unseen += 1;
                member.must_announce = member.unseen >= MAX_UNSEEN;
            }
        }
    }

    /// R2: clears doubts about announcements, of members in flight and of those that are being settled. What a listing
    /// shows has arrived, and was sent once. What has expired is carried by nobody who lists from now on.
    fn clear_doubts(&mut self, listed: &HashMap<&str, i64>) {
        let (mut bundle, mut settlements) = (
            std::mem::take(&mut self.bundle),
            std::mem::take(&mut self.settlements),
        );
        let claims = bundle.iter_mut().map(|member| &mut member.claim);
        for claim in claims.chain(settlements.iter_mut().map(|settlement| &mut settlement.claim)) {
            let is_over = !self.rules.r2_doubt_until_seen || self.has_expired(claim);
            claim
                .doubtful
                .retain(|name| !is_over && !listed.contains_key(name.as_str()));
        }
        for settlement in &mut settlements {
            settlement.knows_time = true;
        }
        (self.bundle, self.settlements) = (bundle, settlements);
    }

    /// Takes bodies in. What is malformed, or of a later format, is left to those who understand it.
    pub(super) fn on_intents(&mut self, bundles: Bundles) {
        let parsed = bundles.bodies.into_iter().map(|(name, body)| {
            let intent = Intent::decode(&body).ok().map(Arc::new);
            (name, intent, body.len() as u64)
        });
        self.take_intents(parsed, bundles.there);
    }

    pub(super) fn on_parsed_intents(&mut self, parsed: Vec<(String, ParsedIntent)>, there: Vec<String>) {
        let parsed = parsed
            .into_iter()
            .map(|(name, parsed)| (name, Some(parsed.intent), parsed.bytes));
        self.take_intents(parsed, there);
    }

    fn take_intents(
        &mut self,
        parsed: impl Iterator<Item = (String, Option<Arc<Intent>>, u64)>,
        there: Vec<String>,
    ) {
        let Some(mut gathered) = self.gathered.take() else {
            return;
        };
        let mut parsed: HashMap<_, _> = parsed
            .map(|(name, intent, bytes)| (name, (intent, bytes)))
            .collect();
        let there: HashSet<String> = there.into_iter().collect();
        for UnreadIntent { entry, known } in std::mem::take(&mut gathered.reading) {
            let intent = match (known, parsed.remove(&entry.name)) {
                (Some(intent), _) if there.contains(&entry.name) => Some(intent),
                (None, Some((intent, bytes))) => self.keep_parsed(&entry.name, intent, bytes),
                _ => {
                    self.known.forget(&entry.name);
                    None
                }
            };
            match intent {
                Some(intent) if self.is_open(&intent, gathered.now) => {
                    gathered.read.push((entry.name, entry.created, intent));
                }
                Some(intent) => self.pass_by(&entry.name, intent.first),
                None => {}
            }
        }
        self.gathered = Some(gathered);
    }

    /// Keeps an intent that was read, if it was one.
    fn keep_parsed(&mut self, name: &str, intent: Option<Arc<Intent>>, bytes: u64) -> Option<Arc<Intent>> {
        let knows = |intent: &Arc<Intent>| self.rules.expiring_intents || intent.expires.is_none();
        let intent = intent.filter(knows);
        match &intent {
            Some(intent) => self.known.keep(name, intent, bytes),
            None => self.known.note_unreadable(name),
        }
        intent
    }

    pub(super) fn discard(&mut self, name: String) {
        self.garbage.insert(name);
    }

    /// Discards the others' intents that are used up by a version of this process.
    pub(super) fn discard_carried(&mut self, winner: &Winner) {
        let Some(gathered) = &self.gathered else {
            return;
        };
        let has_landed = |member: &PreparedAppend, first| {
            winner.members.contains(&member.id()) || self.has_landed(member, first)
        };
        let carried = gathered.read.iter().filter(|(.., intent)| {
            let mut members = intent.members.iter();
            members.all(|member| has_landed(member, intent.first))
        });
        let carried: Vec<String> = carried.map(|(name, ..)| name.clone()).collect();
        for name in carried {
            self.discard(name);
        }
    }
}

impl Gathered {
    /// Returns true if intents were read, and others were not yet.
    fn is_begun(&self) -> bool {
        !self.read.is_empty() && !self.unread.is_empty() && self.reading.is_empty()
    }

    /// Reads the next intents, and looks those up whose content is known. At least one is read, whatever its size.
    fn read_more(&mut self) -> Option<AskedEffect> {
        if self.reading.is_empty() {
            let mut bytes = 0;
            while let Some(next) = self.unread.front() {
                bytes += next.entry.bytes;
                if bytes > MOST_READ && !self.reading.is_empty() {
                    break;
                }
                self.reading.extend(self.unread.pop_front());
            }
        }
        let (known, unread): (Vec<_>, Vec<_>) = self.reading.iter().partition(|one| one.known.is_some());
        let names = |these: Vec<&UnreadIntent>| these.iter().map(|one| one.entry.name.clone()).collect();
        let effect = Effect::ReadIntents(names(unread), names(known));
        (!self.reading.is_empty()).then_some((Asked::Intents, effect))
    }
}

pub(super) fn members_of(intent: &Intent) -> Vec<MemberId> {
    intent.members.iter().map(PreparedAppend::id).collect()
}
