//! The combining committer: a machine without I/O.
//!
//! It holds facts (the tip and whether it was just read, the intents listed since, the versions that survive a crash)
//! and the transactions of its callers. [`Machine::next`] returns the next effect that an attempt needs, and
//! [`Machine::complete`] takes its result. The facts alone determine the order. An answer that is lost, late or false
//! only leaves a fact missing, and the same effect is emitted again.
//!
//! The order of a round: read the log to its tip, check the own members against the versions that were read, make their
//! data and the tip survive a crash; announce members that have lost a race, or all members while other processes
//! commit too, and leave them to others for a while; *then* list the intents, read what they need, and attempt the
//! version after the tip. Rules are named as in docs/design/commit-protocol.md: R1 to R13.

mod clock;
mod gathering;
mod known;
mod member;
mod merge;
mod names;
mod pace;
mod round;
mod same_table;
mod settlement;
mod submission;
mod turn;
mod verdict;
mod view;

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

use crate::actions::CommitInfo;
use crate::error::{CommitError, Result};
use crate::intent::{Intent, World};
use crate::log::{
    BodyDigest, Effect, Event, IntentEntry, PutOutcome, StoreError, StoreErrorKind, Time, Version,
};
use crate::rules::ProtocolRules;
use crate::settle::Token;
use crate::transaction::MemberId;
use crate::winner::Winner;

pub use submission::{CommitStats, Start, Submission, Verdict};

use clock::StoreClock;
use known::KnownIntents;
use member::{Claim, Member, Settlement};
use names::IntentNames;
use pace::AttemptPace;
use turn::TurnRequests;
use view::View;

/// Attempts in a row that won, after which a process counts as alone.
const ALONE: u32 = 4;

/// Failures in a row, without an attempt or a commit between them, after which the store counts as broken.
const MAX_FAILURES: u32 = 10;

/// The pause after so many failures in a row, in milliseconds.
fn back_off(failures: u32) -> u64 {
    (5 << failures.min(8)).min(1_000)
}

/// The pause between two attempts at a version of which nothing is seen: milliseconds, doubled each time up to a
/// second.
const UNSEEN_PAUSE: u64 = 5;
const MAX_UNSEEN_PAUSE: u64 = 1_000;

/// The kind of transactions that a version is attempted for: any number of blind appends, or one other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BatchKind {
    Blind,
    Other,
}

/// The effect that was given out and not yet completed.
#[derive(Debug, Clone)]
enum Asked {
    Tip,
    /// The version after the tip, or an older one again.
    Body(Version),
    Put(Version, Box<Winner>),
    /// The last version that is certain to be one of this table.
    Check,
    Retraction(Version),
    Listing,
    Intents,
    Announcement(String, Vec<MemberId>),
    /// The request for a turn.
    Request,
    /// A listing for the requests of others alone.
    Look,
    Deletion(Vec<String>),
    /// The number of data files of each member.
    Data(Vec<(MemberId, usize)>),
    Log(Version),
    /// The member that is merged.
    Merge(MemberId),
    Pause,
}

/// An effect, and what is remembered of it until it is completed.
type AskedEffect = (Asked, Effect);

/// An intent that a listing showed, and that is still to be read or looked up.
#[derive(Debug, Clone)]
struct UnreadIntent {
    entry: IntentEntry,
    /// Its content, if it is known.
    known: Option<Arc<Intent>>,
}

/// The intents, as listed after the tip was read.
#[derive(Debug, Clone, Default)]
struct Gathered {
    /// The store's clock at the listing.
    now: i64,
    /// Those of which it is not known yet whether they are there, oldest first.
    unread: VecDeque<UnreadIntent>,
    /// Those that an effect is reading.
    reading: Vec<UnreadIntent>,
    read: Vec<(String, i64, Arc<Intent>)>,
}

/// The committer of one table in one process.
#[derive(Debug, Clone)]
pub struct Machine {
    process: MemberId,
    rules: ProtocolRules,
    now: Time,
    view: View,
    waiting_blind: VecDeque<Member>,
    waiting_other: VecDeque<Member>,
    bundle: Vec<Member>,
    other: Option<Member>,
    settlements: Vec<Settlement>,
    /// In the log, but not yet known to survive a crash. The claim is that from before: in a crash the version may go,
    /// and an intent stay.
    landed: Vec<(MemberId, Version, bool, Claim)>,
    gathered: Option<Gathered>,
    known: KnownIntents,
    /// Names of intents of which nothing could be carried when they were last looked at. They do not count as others to
    /// wait for.
    passed_by: HashSet<String>,
    /// The number of others' intents that are older than the oldest one of the members in flight, as listed since the
    /// tip changed; none while no listing showed one of theirs. It stays when more members are announced: theirs are
    /// younger.
    ahead: Option<u64>,
    clock: StoreClock,
    pace: AttemptPace,
    turns: TurnRequests,
    last_kind: BatchKind,
    /// Attempts in a row that won, with no version of another process between them.
    alone: u32,
    /// The last version that this process knows to have written.
    last_won: Option<Version>,
    announcements: u64,
    names: IntentNames,
    /// True if the last announcement was refused for now: the next attempt is made without one.
    must_not_announce: bool,
    /// Names of intents that are of no more use.
    garbage: BTreeSet<String>,
    /// Those of them that are being deleted.
    deleting: HashSet<String>,
    /// Names of intents that a member with a verdict was in.
    released: Vec<String>,
    failures: u32,
    /// The version of the last attempt, if its outcome is not known. One is enough: by R9 the next attempt is at the
    /// same version until that is seen, and members that are in it are found when it is read.
    unseen_attempt: Option<Version>,
    /// The `commitInfo` of attempts at the next version that were not told to have won. If that version has one of
    /// them, this process wrote it.
    unseen_wins: Vec<CommitInfo>,
    /// The number of such attempts in a row at that version.
    unseen_attempts: u32,
    pause: Option<u64>,
    /// R8: the reason why this process can neither acknowledge nor build upon the log any more.
    undurable: Option<StoreError>,
    /// True if the version before an attempt was missing once already, or was another one. The second time is final.
    unfounded: bool,
    /// R13: the version of the last attempts of which it is not certain that they were made in the log of this table,
    /// and the digests of their bodies.
    unproven: Option<(Version, Vec<BodyDigest>)>,
    /// R13: the reason why this process can commit nothing any more: its table is gone.
    replaced: Option<CommitError>,
    /// The version that was removed then, if it is certain that it stays so.
    retracted: Option<Version>,
    outdated: bool,
    asked: Option<Asked>,
    /// The time at which the effect was given out: an answer is as old as its question.
    asked_at: Time,
    verdicts: Vec<(MemberId, Verdict)>,
    stats: CommitStats,
}

impl Machine {
    /// The committer of a table in a process with this id, which no other process ever has.
    #[must_use]
    pub fn new(process: MemberId, start: Start) -> Self {
        Self {
            names: IntentNames::random(),
            ..Self::with_rules(process, start, ProtocolRules::default())
        }
    }

    /// A clone of it, as of a virtual machine that goes on from a snapshot. Both have the same id; what they draw at
    /// random differs by `process`.
    #[doc(hidden)]
    #[must_use]
    pub fn cloned_as(&self, process: MemberId) -> Self {
        let mut machine = self.clone();
        machine.names.count_from(process);
        machine
    }

    /// The same with some rules switched off.
    #[doc(hidden)]
    #[must_use]
    pub fn with_rules(process: MemberId, start: Start, rules: ProtocolRules) -> Self {
        Self {
            process,
            rules,
            now: Time::default(),
            view: View::new(start),
            waiting_blind: VecDeque::new(),
            waiting_other: VecDeque::new(),
            bundle: Vec::new(),
            other: None,
            settlements: Vec::new(),
            landed: Vec::new(),
            gathered: None,
            known: KnownIntents::default(),
            passed_by: HashSet::new(),
            ahead: None,
            clock: StoreClock::default(),
            pace: AttemptPace::default(),
            turns: TurnRequests::default(),
            last_kind: BatchKind::Other,
            alone: 0,
            last_won: None,
            announcements: 0,
            names: IntentNames::counted(process),
            must_not_announce: false,
            garbage: BTreeSet::new(),
            deleting: HashSet::new(),
            released: Vec::new(),
            failures: 0,
            unseen_attempt: None,
            unseen_wins: Vec::new(),
            unseen_attempts: 0,
            pause: None,
            undurable: None,
            unfounded: false,
            unproven: None,
            replaced: None,
            retracted: None,
            outdated: false,
            asked: None,
            asked_at: Time::default(),
            verdicts: Vec::new(),
            stats: CommitStats::default(),
        }
    }

    /// The newest version that this process has seen.
    #[must_use]
    pub fn tip(&self) -> Version {
        self.view.tip
    }

    /// Counts of the races for versions so far.
    #[must_use]
    pub fn commit_stats(&self) -> CommitStats {
        self.stats
    }

    /// The table, metadata and protocol at the last version that was read.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.view.world
    }

    /// Returns true if log cleanup has passed the last version that this process has read. The table must be opened
    /// again.
    #[must_use]
    pub fn is_outdated(&self) -> bool {
        self.outdated
    }

    /// Returns true if this process knows to have written a version from `first` on.
    #[must_use]
    pub fn has_written_since(&self, first: Version) -> bool {
        self.last_won.is_some_and(|version| version >= first)
    }

    /// Takes a transaction in. Its verdict will be among [`take_verdicts`](Self::take_verdicts).
    pub fn submit(&mut self, submission: Submission) {
        let member = Member::new(submission.0);
        let transaction = &member.prepared.transaction;
        if transaction.is_skippable() {
            let read = transaction.read_version;
            self.verdicts.push((member.id(), Verdict::Commit(Ok(read))));
        } else if transaction.is_blind_append() {
            self.waiting_blind.push_back(member);
        } else {
            self.waiting_other.push_back(member);
        }
    }

    /// Verdicts since the last call, each given once.
    pub fn take_verdicts(&mut self) -> Vec<(MemberId, Verdict)> {
        std::mem::take(&mut self.verdicts)
    }

    /// Returns true if there are intents to be deleted: they are of no more use, and the members that were in them have
    /// their verdicts.
    #[must_use]
    pub fn has_garbage(&self) -> bool {
        self.landed.is_empty() && !self.garbage.is_empty()
    }

    /// Names of intents to be deleted, if [`has_garbage`](Self::has_garbage), each given once. The deletion is for the
    /// sake of others, who would look at them in vain. It may take place beside other effects, and may fail.
    pub fn take_garbage(&mut self) -> Vec<String> {
        if !self.has_garbage() {
            return Vec::new();
        }
        let names: Vec<String> = std::mem::take(&mut self.garbage).into_iter().collect();
        self.deleting.extend(names.iter().cloned());
        names
    }

    /// Notes that the deletion of intents was tried. Those that are listed after that will be deleted again.
    pub fn tidied(&mut self, names: &[String]) {
        for name in names {
            self.deleting.remove(name);
        }
    }

    /// Returns true if an effect was given out and not yet completed.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.asked.is_some()
    }

    /// Returns the next effect; none when there is nothing to do, or when an effect is still under way.
    pub fn next(&mut self, now: Time) -> Option<Effect> {
        if self.asked.is_some() {
            return None;
        }
        self.now = now;
        let (asked, effect) = self.decide()?;
        self.asked = Some(asked);
        self.asked_at = now;
        Some(effect)
    }

    /// Takes the result of the effect that [`next`](Self::next) returned.
    pub fn complete(&mut self, now: Time, event: Event) {
        self.now = now;
        let Some(asked) = self.asked.take() else {
            return;
        };
        match (asked, event) {
            (Asked::Data(asked), Event::Failed(error)) => {
                let paths = asked.iter().map(|(_, count)| count).sum();
                self.on_data_synced(&asked, &vec![Err(error); paths]);
            }
            // Both are about speed alone, and come again: after more lost races, and after more versions.
            (Asked::Request, Event::Failed(_)) => {}
            (Asked::Look, Event::Failed(_)) => self.turns.look(self.view.tip),
            (asked, Event::Failed(error)) => self.on_failure(&asked, error),
            (Asked::Tip, Event::Tip(tip)) => self.on_tip(tip),
            (Asked::Body(version), Event::Body(body)) => self.on_body(version, body.as_deref()),
            (Asked::Body(version), Event::Parsed(winner)) => self.on_version(version, winner),
            (Asked::Put(version, winner), Event::Put(outcome)) => self.on_put(version, *winner, &outcome),
            (Asked::Check, Event::Standing(standing)) => self.on_standing(standing),
            (Asked::Retraction(version), Event::Retracted(is_done)) => self.on_retracted(version, is_done),
            (Asked::Listing | Asked::Look, Event::Listing(listing)) => self.on_listing(listing),
            (Asked::Intents, Event::Intents(bundles)) => self.on_intents(bundles),
            (Asked::Intents, Event::ParsedIntents(parsed, there)) => self.on_parsed_intents(parsed, there),
            (Asked::Announcement(name, _), Event::Done) => self.on_announced(&name),
            (Asked::Deletion(names), Event::Done) => self.on_deleted(&names),
            (Asked::Data(asked), Event::Synced(results)) => self.on_data_synced(&asked, &results),
            (Asked::Merge(id), Event::Merged(merged)) => self.on_merged(id, merged),
            (Asked::Log(version), Event::Done) => self.view.synced = self.view.synced.max(version),
            // A pause is over; an answer to another question leaves its fact missing, so it is asked again.
            _ => {}
        }
    }

    fn has_work(&self) -> bool {
        self.has_blind() || self.has_other() || !self.landed.is_empty()
    }

    fn has_blind(&self) -> bool {
        !(self.bundle.is_empty() && self.waiting_blind.is_empty() && self.settlements.is_empty())
    }

    fn has_other(&self) -> bool {
        self.other.is_some() || !self.waiting_other.is_empty()
    }

    fn decide(&mut self) -> Option<AskedEffect> {
        if let Some(milliseconds) = self.pause.take() {
            return Some((Asked::Pause, Effect::Pause(milliseconds)));
        }
        // Judging and settling may end the last work there was.
        while self.has_work() {
            if let Some(error) = self.undurable.clone() {
                let reason = error.message.clone();
                self.give_up_all(&CommitError::Store(error), &reason);
                return None;
            }
            if let Some(error) = self.replaced.clone() {
                let step = self.retract();
                if step.is_none() {
                    self.give_up_replaced(&error);
                }
                return step;
            }
            self.drain();
            if let Some(step) = self.catch_up() {
                return Some(step);
            }
            self.judge();
            self.examine_settlements();
            if let Some(step) = self.acknowledge().or_else(|| self.withdraw()) {
                return Some(step);
            }
            let Some(kind) = self.choose_kind() else {
                match self.await_data() {
                    Some(step) => return Some(step),
                    None => continue,
                }
            };
            if !self.view.fresh {
                match self.look_ahead(kind) {
                    Some(step) => return Some(step),
                    None => continue,
                }
            }
            if let Some(step) = self.round(kind) {
                return Some(step);
            }
        }
        None
    }

    /// Reads the versions that the own members were not checked against yet.
    fn catch_up(&mut self) -> Option<AskedEffect> {
        if self.view.must_list(self.now) {
            return Some((Asked::Tip, Effect::FindTip));
        }
        let tip = self.view.tip;
        let members = self.bundle.iter().chain(&self.other).map(|m| (m.checked, tip));
        let settlements = self.settlements.iter().map(|s| (s.checked, s.last().min(tip)));
        let version = members
            .chain(settlements)
            .find_map(|(checked, last)| self.view.unread(checked + 1, last))?;
        Some((Asked::Body(version), Effect::ReadVersion(version)))
    }

    /// Looks for the version after the tip. A process that was alone for a while does not: the look at its own last
    /// version takes the place of that, and if another process came first, the attempt tells.
    fn look_ahead(&mut self, kind: BatchKind) -> Option<AskedEffect> {
        let is_alone = self.alone >= ALONE && !self.pace.has_met(self.now) && !self.view.is_passed();
        let is_certain = self.settlements.is_empty() && self.unseen_attempt.is_none();
        if kind == BatchKind::Other || !is_alone || !is_certain || !self.rules.r13_checked_before {
            let version = self.view.tip + 1;
            return Some((Asked::Body(version), Effect::ReadVersion(version)));
        }
        let step = self.check_before();
        if step.is_none() {
            self.forget_listing();
            self.view.fresh = true;
        }
        step
    }

    /// R7: what was listed before the tip was read says too little.
    fn forget_listing(&mut self) {
        self.gathered = self.gathered.take().filter(|_| !self.rules.r7_always_list);
    }

    fn on_tip(&mut self, tip: Version) {
        if !self.view.list(tip, self.asked_at) {
            self.on_truncation();
        }
    }

    fn on_body(&mut self, version: Version, body: Option<&[u8]>) {
        match body.map(|body| Winner::parse(version, body)).transpose() {
            Ok(winner) => self.on_version(version, winner.map(Arc::new)),
            Err(error) => self.give_up_all(&error, "the log cannot be read"),
        }
    }

    fn on_version(&mut self, version: Version, winner: Option<Arc<Winner>>) {
        let next = version == self.view.tip + 1;
        match winner {
            Some(mut winner) if next => {
                self.ahead = None;
                self.see_attempt(&winner);
                if !self.rules.r12_new_row_ids {
                    Arc::make_mut(&mut winner).high_water_mark = None;
                }
                let unseen = std::mem::take(&mut self.unseen_wins);
                if winner
                    .commit_info
                    .as_ref()
                    .is_some_and(|info| unseen.contains(info))
                {
                    self.note_win(&winner);
                } else {
                    self.alone = 0;
                }
                self.advance(winner);
            }
            Some(winner) => self.view.remember(winner),
            None if next => {
                // R9: the attempt's answer was lost and nothing is seen of it, so the same version is tried again.
                self.forget_listing();
                self.pause = (self.unseen_attempt == Some(version)).then(|| self.unseen_pause());
                if !self.view.reach_end() {
                    self.on_truncation();
                }
            }
            None => self.view.forget(version),
        }
    }

    fn advance(&mut self, winner: impl Into<Arc<Winner>>) {
        let waiting = self.waiting_blind.iter().chain(&self.waiting_other);
        let members = waiting.chain(&self.bundle).chain(&self.other);
        let first = members.map(|member| member.checked + 1).min();
        self.view.need(first.unwrap_or(Version::MAX));
        self.view.advance(winner, self.asked_at);
    }

    fn on_put(&mut self, version: Version, winner: Winner, outcome: &PutOutcome) {
        self.failures = 0;
        self.unfounded = false;
        self.view.fresh = false;
        self.ahead = None;
        if self.last_kind == BatchKind::Blind {
            self.pace.end(self.now);
        }
        let unseen = (*outcome != PutOutcome::Won).then_some(version);
        if unseen.is_some() {
            self.view.doubt_table();
        }
        self.unseen_attempts = match unseen {
            Some(_) if self.unseen_attempt == unseen => self.unseen_attempts.saturating_add(1),
            _ => 0,
        };
        self.unseen_attempt = unseen;
        match outcome {
            PutOutcome::Won => {
                self.alone = self.alone.saturating_add(1);
                self.unseen_wins.clear();
                self.note_win(&winner);
                self.advance(winner);
            }
            // Whose version it is shows when it is read: it may be this very attempt, sent twice.
            PutOutcome::Exists | PutOutcome::Unknown(_) if self.rules.r9_no_gap => {
                self.unseen_wins.extend(winner.commit_info);
            }
            PutOutcome::Exists | PutOutcome::Unknown(_) => {
                self.advance(Winner::of(version, Vec::new()));
            }
        }
    }

    fn note_win(&mut self, winner: &Winner) {
        self.stats.won += 1;
        self.last_won = Some(winner.version);
        self.discard_carried(winner);
    }

    /// The pause before a version of which nothing is seen is tried again. A busy store is not helped by haste.
    fn unseen_pause(&self) -> u64 {
        (UNSEEN_PAUSE << self.unseen_attempts.min(8)).min(MAX_UNSEEN_PAUSE)
    }

    fn on_failure(&mut self, asked: &Asked, error: StoreError) {
        self.failures += 1;
        self.view.fresh = false;
        self.gathered = None;
        let mut is_final = error.kind == StoreErrorKind::Permanent || self.failures > MAX_FAILURES;
        match (asked, error.kind) {
            (Asked::Put(version, _), kind) => {
                self.forget_attempt(*version);
                if kind == StoreErrorKind::NotFound {
                    // The log may have been cleaned up, which shows when it is listed; else the table is gone.
                    self.view.doubt_tip();
                    is_final |= std::mem::replace(&mut self.unfounded, true);
                }
            }
            (Asked::Announcement(name, _), kind) if self.is_certain(kind) => {
                self.on_not_announced(name);
                // A store that has too much to do may take an attempt. It is not asked twice for each.
                self.must_not_announce = kind != StoreErrorKind::Permanent;
            }
            // What a removal left is left.
            (Asked::Retraction(_), _) if is_final => {
                self.failures = 0;
                self.unproven = None;
                return;
            }
            (Asked::Log(_), StoreErrorKind::NotFound) => self.view.doubt_tip(),
            (Asked::Log(_), StoreErrorKind::Permanent) if self.rules.r8_log_once => {
                self.undurable = Some(error);
                return;
            }
            _ => {}
        }
        if is_final {
            self.failures = 0;
            self.unfounded = false;
            let reason = error.message.clone();
            self.give_up_concerned(asked, &CommitError::Store(error), &reason);
        } else {
            self.pause = Some(back_off(self.failures));
        }
    }

    /// Returns true if a failure of this kind says that an announcement did not happen and will not.
    fn is_certain(&self, kind: StoreErrorKind) -> bool {
        matches!(kind, StoreErrorKind::Permanent | StoreErrorKind::Throttled)
            || !self.rules.r3_unheard_is_doubt
    }

    /// Forgets an attempt that certainly failed. An earlier one at the same version may still succeed.
    fn forget_attempt(&mut self, version: Version) {
        if self.unseen_attempt == Some(version) {
            return;
        }
        self.unproven = None;
        for member in self.bundle.iter_mut().chain(&mut self.other) {
            member.claim.attempted = member.claim.attempted.filter(|at| *at != version);
        }
    }

    fn on_truncation(&mut self) {
        self.outdated = true;
        self.view.doubt_tip();
        let error = CommitError::LogTruncated(self.view.tip);
        self.give_up_all(&error, "the log was cleaned up past it");
    }

    /// Settles the doubt of a token. The verdict carries the token's id.
    ///
    /// # Errors
    /// [`CommitError::Malformed`] when the token is not one, [`CommitError::Invalid`] when it is another table's.
    pub fn settle(&mut self, token: &Token) -> Result<MemberId> {
        self.start_settlement(token)
    }
}
