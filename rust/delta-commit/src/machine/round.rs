//! One round: from a tip that was just read to an attempt at the next version.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::known::MOST_KEPT;
use super::member::Member;
use super::turn::Request;
use super::{Asked, BatchKind, Gathered, MAX_FAILURES, Machine, Unread, back_off};
use crate::batch::{Batch, MAX_ACTIONS, MAX_BYTES};
use crate::conflict;
use crate::error::CommitError;
use crate::intent::{self, Intent, LIFETIME, MAX_AGE, MAX_BODY, ParsedIntent, Prepared};
use crate::log::{Bundles, Effect, IntentEntry, Listing, StoreError, StoreErrorKind, UnsyncedFile, Version};
use crate::transaction::MemberId;
use crate::winner::Winner;

/// The most intents that are read for one attempt, oldest first.
const MAX_INTENTS: usize = 1_000;

/// The most bytes of intents that are looked at together. More are only while these do not fill the version.
const MOST_READ: u64 = MOST_KEPT;

/// The number of listings in which an own intent may be missing before it is announced again. Listings may be late.
const MAX_UNSEEN: u32 = 2;

/// The longest wait in milliseconds of a member that comes while all others are put off.
const MAX_DATA_PAUSE: u64 = 50;

/// The sort key of members without an announcement: after all that have one.
const YOUNGEST: i64 = i64::MAX;

/// The sort key of a member that goes first.
const OLDEST: i64 = i64::MIN;

type Step = (Asked, Effect);

impl Machine {
    /// Takes waiting transactions into flight, as many as one batch can hold.
    pub(super) fn drain(&mut self) {
        if self.other.is_none() {
            self.other = self.waiting_other.pop_front();
        }
        if self.waiting_blind.is_empty() {
            return;
        }
        let (mut actions, mut bytes) = (0, 0);
        let mut in_flight = HashSet::new();
        for member in self.bundle.iter().chain(&self.other) {
            actions += member.prepared.transaction.actions.len();
            bytes += member.prepared.lines.len();
            in_flight.extend(app_ids(member));
        }
        let mut left = VecDeque::new();
        while let Some(member) = self.waiting_blind.pop_front() {
            let more = actions + member.prepared.transaction.actions.len();
            let longer = bytes + member.prepared.lines.len();
            if !self.bundle.is_empty() && (more > MAX_ACTIONS || longer > MAX_BYTES) {
                left.push_back(member);
                break;
            }
            // R1: no two of one application are in flight together.
            let mine = app_ids(&member);
            if mine.iter().any(|app| in_flight.contains(app)) {
                left.push_back(member);
                continue;
            }
            in_flight.extend(mine);
            (actions, bytes) = (more, longer);
            self.bundle.push(member);
        }
        left.append(&mut self.waiting_blind);
        self.waiting_blind = left;
    }

    /// Chooses the next kind of members. Blind appends and another transaction take turns when both are in flight. None
    /// when all are put off.
    pub(super) fn choose_kind(&self) -> Option<BatchKind> {
        let is_ready = |member: &Member| member.is_ready(self.now);
        let blind = self.bundle.iter().any(is_ready) || !self.settlements.is_empty();
        match (blind, self.other.as_ref().is_some_and(is_ready)) {
            (false, false) => None,
            (false, true) => Some(BatchKind::Other),
            (true, true) if self.last_kind == BatchKind::Blind || self.left_to_others() > 0 => {
                Some(BatchKind::Other)
            }
            (true, _) => Some(BatchKind::Blind),
        }
    }

    /// The next step towards an attempt. None where a member was refused.
    pub(super) fn round(&mut self, kind: BatchKind) -> Option<Step> {
        // The tip was just read, so all versions that came first count.
        if kind == BatchKind::Other {
            self.check_order();
            self.other.as_ref()?;
            if let Some(step) = self
                .ask_for_turn(kind)
                .or_else(|| self.leave_turn(kind))
                .or_else(|| self.look_for_requests())
                .or_else(|| self.merge())
            {
                return Some(step);
            }
        }
        if self.refuse_uncounted(kind) {
            return None;
        }
        if let Some(step) = self.sync_data(kind) {
            return Some(step);
        }
        if kind == BatchKind::Blind
            && let Some(step) = self
                .announce()
                .or_else(|| self.ask_for_turn(kind))
                .or_else(|| self.leave_to_others())
                .or_else(|| self.leave_turn(kind))
                .or_else(|| self.gather())
                .or_else(|| self.leave_turn(kind))
        {
            return Some(step);
        }
        if let Some(step) = self.sync_to(self.view.tip).or_else(|| self.check_before()) {
            return Some(step);
        }
        self.attempt(kind)
    }

    /// Refuses members with files that can get no row ids, where the table gives them. Returns true if there was one.
    fn refuse_uncounted(&mut self, kind: BatchKind) -> bool {
        let only = self.other.as_ref().filter(|_| kind == BatchKind::Other);
        let only = only.map(|other| other.prepared.transaction.as_ref());
        if self.view.row_tracking(only).is_none() {
            return false;
        }
        let is_uncounted = |member: &mut Member| member.prepared.uncounted().is_some();
        let mut refused: Vec<Member> = match kind {
            BatchKind::Blind => self.bundle.extract_if(.., is_uncounted).collect(),
            BatchKind::Other => self.other.take_if(is_uncounted).into_iter().collect(),
        };
        for member in &mut refused {
            if let Some(error) = member.prepared.uncounted().cloned() {
                self.refuse(member, error);
            }
        }
        self.release();
        !refused.is_empty()
    }

    /// The next pause, when all in flight are put off.
    pub(super) fn await_data(&self) -> Option<Step> {
        let put_off = self.bundle.iter().chain(&self.other).map(|m| m.put_off_until);
        let left = put_off.min()?.checked_sub(self.now.monotonic)?;
        Some((Asked::Pause, Effect::Pause(left.min(MAX_DATA_PAUSE))))
    }

    /// R8: syncs data files before the intent and before the log.
    fn sync_data(&self, kind: BatchKind) -> Option<Step> {
        if !self.rules.r8_durable_first {
            return None;
        }
        let is_wanted = |member: &&Member| !member.synced && member.is_ready(self.now);
        let is_due = self.is_due();
        let members: Vec<&Member> = match kind {
            BatchKind::Blind => {
                let joining = self.bundle.iter().filter(|member| member.may_join(is_due));
                joining.filter(is_wanted).collect()
            }
            BatchKind::Other => self.other.iter().filter(is_wanted).collect(),
        };
        let files: Vec<UnsyncedFile> = members
            .iter()
            .flat_map(|member| member.prepared.transaction.unsynced_files())
            .collect();
        let asked = members
            .iter()
            .map(|m| (m.id(), m.prepared.transaction.unsynced.len()));
        (!files.is_empty()).then(|| (Asked::Data(asked.collect()), Effect::SyncData(files)))
    }

    /// Notes the results. A failure concerns only the members whose files these are.
    pub(super) fn on_data_synced(&mut self, asked: &[(MemberId, usize)], results: &[Result<(), StoreError>]) {
        let mut outcomes = HashMap::new();
        let mut left = results;
        for (id, count) in asked {
            let (own, others) = left.split_at((*count).min(left.len()));
            outcomes.insert(*id, DataSync::of(own, *count));
            left = others;
        }
        let mut members = std::mem::take(&mut self.bundle);
        members.retain_mut(|member| self.keep_synced(member, &outcomes));
        self.bundle = members;
        if let Some(mut other) = self.other.take()
            && self.keep_synced(&mut other, &outcomes)
        {
            self.other = Some(other);
        }
    }

    fn keep_synced(&mut self, member: &mut Member, outcomes: &HashMap<MemberId, DataSync>) -> bool {
        match outcomes.get(&member.id()) {
            None => {}
            Some(DataSync::Done) => member.synced = true,
            Some(DataSync::Untried(_)) if member.sync_failures < MAX_FAILURES => {
                member.sync_failures += 1;
                member.put_off_until = self.now.monotonic + back_off(member.sync_failures);
            }
            Some(DataSync::Failed(error))
                if !self.rules.r8_data_once && error.kind != StoreErrorKind::NotFound => {}
            Some(DataSync::Untried(error) | DataSync::Failed(error)) => {
                self.refuse(member, CommitError::Store(error.clone()));
                return false;
            }
        }
        true
    }

    /// Announces the members that are in no open window, or are about to expire: those that lost a race or were
    /// announced before, and all while other processes commit too.
    pub(super) fn announce(&mut self) -> Option<Step> {
        if self.must_not_announce {
            return None;
        }
        let first = self.view.tip + 1;
        let (has_met, is_due) = (self.has_met(), self.is_due());
        let any_synced = !self.rules.r8_durable_first;
        let needs = |member: &Member| {
            let is_first = member.lost == 0 && member.claim.names.is_empty();
            (!is_first || (has_met && member.may_join(is_due)))
                && (member.synced || any_synced)
                && (!member.claim.is_open(first) || member.must_announce)
                && member.prepared.fits_a_batch()
        };
        let members: Vec<Prepared> = self
            .bundle
            .iter()
            .filter(|member| needs(member))
            .map(|member| member.prepared.clone())
            .collect();
        if members.is_empty() {
            return None;
        }
        // An intent says that nothing up to the tip is in its way. Another tip may be there after a power cut, and the
        // intent still. R13: nobody is told of members in another table.
        if let Some(step) = self.sync_to(self.view.tip).or_else(|| self.check_before()) {
            return Some(step);
        }
        // R2: it expires by the store's clock.
        let Some(now) = self.clock.at(self.now) else {
            return Some((Asked::Listing, Effect::ListIntents));
        };
        let expires = self.rules.expiring_intents.then_some(now + LIFETIME);
        let intent = Intent {
            world: self.view.world.clone(),
            first,
            expires,
            members,
        };
        let body = match intent.encode() {
            Ok(body) => body,
            Err(error) => {
                self.give_up_all(&error, "an intent has no text");
                return None;
            }
        };
        let name = self.name_intent(first);
        let ids = members_of(&intent);
        for member in self.bundle.iter_mut().filter(|member| needs(member)) {
            member.claim.announce(first, expires, name.clone());
            // Counted from the first one: a member that has waited is attempted at once after a lost race. Another wait
            // would leave the next version to software that carries nothing.
            member.waits_since.get_or_insert(self.now.monotonic);
            member.must_announce = false;
            member.unseen = 0;
            member.announced = None;
        }
        Some((
            Asked::Announcement(name.clone(), ids),
            Effect::PutIntent(name, body),
        ))
    }

    pub(super) fn on_announced(&mut self, name: &str) {
        for member in &mut self.bundle {
            member.claim.doubtful.remove(name);
        }
        // The tip must be read, and the intents listed, after the announcement.
        self.view.fresh = false;
        self.gathered = None;
    }

    /// Takes back an announcement that did not happen. A member without another one has not waited for anybody.
    pub(super) fn on_not_announced(&mut self, name: &str) {
        for member in &mut self.bundle {
            member.claim.withdraw(name);
            if member.claim.names.is_empty() {
                member.waits_since = None;
            }
        }
    }

    /// Pauses while the members are left to other processes. The next version is looked for after each pause.
    fn leave_to_others(&mut self) -> Option<Step> {
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
    fn left_to_others(&self) -> u64 {
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
    fn is_due(&self) -> bool {
        self.has_met() && self.due().is_some_and(|due| due <= self.now.monotonic)
    }

    fn has_met(&self) -> bool {
        self.rules.leaves_to_others && self.pace.has_met(self.now)
    }

    /// R7: lists the intents after the tip was read, and reads what carrying them needs.
    fn gather(&mut self) -> Option<Step> {
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
    fn read_since(&self, gathered: &Gathered) -> Option<Step> {
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
    fn is_open(&self, intent: &Intent, listed: i64) -> bool {
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
            known => gathered.unread.push_back(Unread { entry, known }),
        }
    }

    /// Notes that nothing of an intent can be carried. What begins with a later version can be, once that is the next
    /// one: its owner has read a version that this process has not.
    fn pass_by(&mut self, name: &str, first: Version) {
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
        for Unread { entry, known } in std::mem::take(&mut gathered.reading) {
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
        let has_landed = |member: &Prepared, first| {
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

    fn attempt(&mut self, kind: BatchKind) -> Option<Step> {
        let version = self.view.tip + 1;
        let batch = match kind {
            BatchKind::Blind => self.blind_batch(),
            BatchKind::Other => {
                let mut batch = Batch::new(true);
                if let Some(other) = &self.other {
                    batch.take(&other.prepared);
                }
                batch
            }
        };
        let only = self.other.as_ref().filter(|_| kind == BatchKind::Other);
        let tracking = self
            .view
            .row_tracking(only.map(|other| other.prepared.transaction.as_ref()));
        let in_commit = self.view.next_in_commit(self.now);
        let (body, winner) = match batch.seal(version, self.now, in_commit, tracking) {
            Ok(sealed) => sealed,
            Err(error) => {
                self.give_up_all(&error, "a commit has no text");
                return None;
            }
        };
        for member in self.bundle.iter_mut().chain(&mut self.other) {
            if winner.members.contains(&member.id()) {
                member.claim.attempted = Some(version);
                member.asking.try_once(self.now);
            }
        }
        if kind == BatchKind::Blind {
            self.must_not_announce = false;
            for member in &mut self.bundle {
                member.left_out |= !winner.members.contains(&member.id());
            }
        }
        if !self.rules.r7_deleted_last {
            self.discard_carried(&winner);
        }
        self.last_kind = kind;
        self.note_attempt(&winner);
        self.stats.attempts += 1;
        Some((
            Asked::Put(version, Box::new(winner)),
            Effect::PutVersion(version, body),
        ))
    }

    /// The batch of the own members and all eligible intents that no version holds, oldest first. A member that is too
    /// large to be announced would always be the youngest, so once it was left out it comes first.
    fn blind_batch(&mut self) -> Batch {
        let mut candidates: Vec<(i64, Prepared)> = self
            .bundle
            .iter()
            .filter(|member| member.synced || !self.rules.r8_durable_first)
            .map(|member| (sort_key(member), member.prepared.clone()))
            .collect();
        candidates.extend(self.helped());
        if !self.rules.r5_alone_or_blind {
            candidates.extend(self.other.iter().map(|other| (YOUNGEST, other.prepared.clone())));
        }
        candidates.sort_by_key(|(created, _)| *created);
        let mut batch = Batch::new(self.rules.r4_no_doubles);
        for (_, member) in candidates {
            if batch.has_room_for(&member) {
                batch.take(&member);
            }
        }
        batch
    }

    /// Members of others' intents that may land in the next version. Intents of which none may are dropped.
    fn helped(&mut self) -> Vec<(i64, Prepared)> {
        let Some(mut gathered) = self.gathered.take() else {
            return Vec::new();
        };
        let settling: HashSet<MemberId> = self.settlements.iter().map(|s| s.id).collect();
        let (mut helped, mut used) = (Vec::new(), Vec::new());
        for (name, created, intent) in std::mem::take(&mut gathered.read) {
            let (mut all_landed, before) = (true, helped.len());
            for member in &intent.members {
                let landed = self.has_landed(member, intent.first);
                all_landed &= landed;
                if !landed
                    && self.is_open(&intent, gathered.now)
                    && !settling.contains(&member.id())
                    && self.may_land(member, intent.first)
                {
                    helped.push((created, member.clone()));
                }
            }
            if all_landed {
                self.discard(name);
            } else if helped.len() > before {
                self.passed_by.remove(&name);
                used.push((name, created, intent));
            } else {
                self.pass_by(&name, intent.first);
            }
        }
        gathered.read = used;
        self.gathered = Some(gathered);
        helped
    }

    /// Checks R4: whether a version that was read holds the member.
    fn has_landed(&self, member: &Prepared, first: Version) -> bool {
        self.rules.r4_no_doubles
            && (first.max(0)..=self.view.tip)
                .filter_map(|version| self.view.get(version))
                .any(|winner| winner.members.contains(&member.id()))
    }

    /// Checks the member against the versions since its announcement. Its owner has checked those before.
    fn may_land(&self, member: &Prepared, first: Version) -> bool {
        if !self.rules.r1_window {
            return true;
        }
        if self.view.row_tracking(None).is_some() && member.uncounted().is_some() {
            return false;
        }
        let Some(winners) = self.view.all_since(first) else {
            return false;
        };
        winners.iter().all(|winner| {
            let doubled = self.rules.r4_no_doubles
                && member
                    .transaction
                    .added_normal_paths()
                    .any(|path| winner.added_paths.contains(path.as_ref()));
            let world = !self.rules.r6_same_world || conflict::check(&member.transaction, winner).is_ok();
            !doubled && world
        })
    }
}

impl Gathered {
    /// Returns true if intents were read, and others were not yet.
    fn is_begun(&self) -> bool {
        !self.read.is_empty() && !self.unread.is_empty() && self.reading.is_empty()
    }

    /// Reads the next intents, and looks those up whose content is known. At least one is read, whatever its size.
    fn read_more(&mut self) -> Option<Step> {
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
        let names = |these: Vec<&Unread>| these.iter().map(|one| one.entry.name.clone()).collect();
        let effect = Effect::ReadIntents(names(unread), names(known));
        (!self.reading.is_empty()).then_some((Asked::Intents, effect))
    }
}

/// The state of a member's data files.
enum DataSync {
    Done,
    /// One was not tried.
    Untried(StoreError),
    /// One may be lost in a crash, whatever a later sync says.
    Failed(StoreError),
}

impl DataSync {
    /// Sums up the results of `count` files.
    fn of(results: &[Result<(), StoreError>], count: usize) -> Self {
        let errors = || results.iter().filter_map(|result| result.as_ref().err());
        if let Some(error) = errors().find(|error| error.kind != StoreErrorKind::Transient) {
            return Self::Failed(error.clone());
        }
        let silent = || StoreError::transient("the store does not say what it synced");
        let untried = errors().next().cloned();
        let untried = untried.or_else(|| (results.len() < count).then(silent));
        untried.map_or(Self::Done, Self::Untried)
    }
}

/// The place of an own member in a batch.
fn sort_key(member: &Member) -> i64 {
    if member.left_out && !member.prepared.fits_a_batch() {
        return OLDEST;
    }
    member.announced.unwrap_or(YOUNGEST)
}

fn members_of(intent: &Intent) -> Vec<MemberId> {
    intent.members.iter().map(Prepared::id).collect()
}

fn app_ids(member: &Member) -> Vec<String> {
    let transaction = &member.prepared.transaction;
    transaction.written_app_ids().map(str::to_owned).collect()
}
