//! One round: from a tip that was just read to an attempt at the next version.

use std::collections::{HashMap, HashSet, VecDeque};

use super::gathering::members_of;
use super::member::Member;
use super::{Asked, AskedEffect, BatchKind, MAX_FAILURES, Machine, back_off};
use crate::batch::{CommitBatch, MAX_ACTIONS, MAX_BYTES};
use crate::conflict;
use crate::error::CommitError;
use crate::intent::{Intent, LIFETIME, PreparedAppend};
use crate::log::{Effect, StoreError, StoreErrorKind, UnsyncedFile, Version};
use crate::transaction::MemberId;

/// The longest wait in milliseconds of a member that comes while all others are put off.
const MAX_DATA_PAUSE: u64 = 50;

/// The sort key of members without an announcement: after all that have one.
const YOUNGEST: i64 = i64::MAX;

/// The sort key of a member that goes first.
const OLDEST: i64 = i64::MIN;

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
    pub(super) fn round(&mut self, kind: BatchKind) -> Option<AskedEffect> {
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
    pub(super) fn await_data(&self) -> Option<AskedEffect> {
        let put_off = self.bundle.iter().chain(&self.other).map(|m| m.put_off_until);
        let left = put_off.min()?.checked_sub(self.now.monotonic)?;
        Some((Asked::Pause, Effect::Pause(left.min(MAX_DATA_PAUSE))))
    }

    /// R8: syncs data files before the intent and before the log.
    fn sync_data(&self, kind: BatchKind) -> Option<AskedEffect> {
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
    pub(super) fn announce(&mut self) -> Option<AskedEffect> {
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
        let members: Vec<PreparedAppend> = self
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

    fn attempt(&mut self, kind: BatchKind) -> Option<AskedEffect> {
        let version = self.view.tip + 1;
        let batch = match kind {
            BatchKind::Blind => self.blind_batch(),
            BatchKind::Other => {
                let mut batch = CommitBatch::new(true);
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
    fn blind_batch(&mut self) -> CommitBatch {
        let mut candidates: Vec<(i64, PreparedAppend)> = self
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
        let mut batch = CommitBatch::new(self.rules.r4_no_doubles);
        for (_, member) in candidates {
            if batch.has_room_for(&member) {
                batch.take(&member);
            }
        }
        batch
    }

    /// Members of others' intents that may land in the next version. Intents of which none may are dropped.
    pub(super) fn helped(&mut self) -> Vec<(i64, PreparedAppend)> {
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
    pub(super) fn has_landed(&self, member: &PreparedAppend, first: Version) -> bool {
        self.rules.r4_no_doubles
            && (first.max(0)..=self.view.tip)
                .filter_map(|version| self.view.get(version))
                .any(|winner| winner.members.contains(&member.id()))
    }

    /// Checks the member against the versions since its announcement. Its owner has checked those before.
    fn may_land(&self, member: &PreparedAppend, first: Version) -> bool {
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

fn app_ids(member: &Member) -> Vec<String> {
    let transaction = &member.prepared.transaction;
    transaction.written_app_ids().map(str::to_owned).collect()
}
