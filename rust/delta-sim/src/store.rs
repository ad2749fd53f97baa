//! A store that fails at every step.

use std::collections::{BTreeMap, BTreeSet};

use delta_commit::log::{
    BEFORE_FIRST, BodyDigest, Bundles, Effect, Event, IntentEntry, Listing, PutOutcome, StoreError,
    StoreErrorKind, UnsyncedFile, VersionPresence,
};

use delta_commit::{MemberId, Version};

use crate::rng::Rng;

/// The faults of the store, each by its odds out of a thousand operations.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    /// The answer is lost; the operation was done, was not, or will be.
    pub(crate) lost: usize,
    /// A create-only write says that the key exists, but it does not.
    pub(crate) phantom: usize,
    /// A listing shows what was there a while ago.
    pub(crate) stale: usize,
    /// True if an operation whose answer was lost may still be done later.
    pub(crate) late: bool,
    /// An announcement takes longer than its owner waits for the answer.
    pub(crate) slow: usize,
    /// True if the servers of the store differ in time.
    pub(crate) skewed: bool,
    /// True if a power cut loses everything that is not synced.
    pub(crate) volatile: bool,
    /// The operation was not done, and the store says so. The error is transient or permanent, or says that the store
    /// has too much to do.
    pub(crate) refused: usize,
    /// An announcement was not made, since the store has too much to do.
    pub(crate) throttled: usize,
    /// A data file, or the log, cannot be synced now.
    pub(crate) busy: usize,
    /// A data file cannot be synced, ever.
    pub(crate) bad_data: usize,
    /// A version cannot be synced, ever.
    pub(crate) bad_log: usize,
}

#[derive(Debug, Clone)]
struct StoredVersion {
    body: Vec<u8>,
    durable: bool,
    created: i64,
    /// Processes that were told that its bytes never reached the disk; none if they did. An error of a sync is told
    /// once.
    doomed: Option<BTreeSet<MemberId>>,
}

/// A data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Data {
    Written,
    Durable,
    /// Its bytes never reached the disk, and its owner was told so.
    Doomed,
}

/// A write that may still arrive, although no process waits for it.
#[derive(Debug)]
enum LateWrite {
    Version(Version, Vec<u8>),
    Intent(String, Vec<u8>),
}

/// The table's directory, or bucket.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) now: i64,
    pub(crate) faults: Faults,
    log: BTreeMap<Version, StoredVersion>,
    /// The version of a checkpoint that stands alone: all versions up to it were cleaned up.
    checkpoint: Option<Version>,
    /// The newest version that was cleaned up.
    cleaned_up: Version,
    /// Versions that were created right after such a checkpoint.
    pub(crate) after_checkpoint: usize,
    intents: BTreeMap<String, StoredVersion>,
    data: BTreeMap<String, Data>,
    /// Intents that were deleted, and may come back in a power cut.
    deleted: BTreeMap<String, StoredVersion>,
    /// Names and times as listings saw them before each change.
    past_intents: Vec<Vec<IntentEntry>>,
    past_tips: Vec<Version>,
    late: Vec<LateWrite>,
    /// Every version that ever existed and was not lost to a power cut, even if it was cleaned up.
    pub(crate) history: BTreeMap<Version, Vec<u8>>,
    /// Data files and versions that never reached the disk.
    pub(crate) doomed: usize,
    /// The first event that a store must never see.
    pub(crate) violation: Option<String>,
}

const REMEMBERED: usize = 6;

/// The milliseconds by which a server's clock may be early or late.
pub(crate) const SKEW: i64 = 4_000;

/// The start of the simulation: milliseconds since the epoch.
const BIRTH: i64 = 1_700_000_000_000;

impl Store {
    pub(crate) fn new(faults: Faults) -> Self {
        Self {
            faults,
            now: BIRTH,
            cleaned_up: BEFORE_FIRST,
            ..Self::default()
        }
    }

    pub(crate) fn tip(&self) -> Version {
        let newest = self.log.keys().next_back().copied();
        newest.max(self.checkpoint).unwrap_or(BEFORE_FIRST)
    }

    pub(crate) fn write_data(&mut self, path: &str) {
        let state = if self.faults.volatile {
            Data::Written
        } else {
            Data::Durable
        };
        self.data.insert(path.to_owned(), state);
    }

    pub(crate) fn delete_data(&mut self, path: &str) {
        self.data.remove(path);
    }

    /// Returns true if a data file exists and can still be read from disk.
    pub(crate) fn has_data(&self, path: &str) -> bool {
        self.data.get(path).is_some_and(|data| *data != Data::Doomed)
    }

    /// Returns true if the sync of some version failed for good.
    pub(crate) fn has_doomed_version(&self) -> bool {
        self.log.values().any(|stored| stored.doomed.is_some())
    }

    /// Applies a process' effect, or does not, and gives a true or a false answer.
    pub(crate) fn apply(&mut self, process: MemberId, effect: &Effect, rng: &mut Rng) -> Event {
        if rng.permille(self.faults.lost) {
            return self.apply_unheard(effect, rng);
        }
        match effect {
            Effect::Pause(_) => self.apply_truly(effect),
            Effect::SyncData(files) => self.sync_data(files, rng),
            Effect::SyncLog(..) if rng.permille(self.faults.busy) => {
                Event::Failed(StoreError::transient("too many open files"))
            }
            Effect::SyncLog(_, last) => self.sync_log(process, *last, rng),
            _ if rng.permille(self.faults.refused) => {
                let kinds = [
                    StoreErrorKind::Transient,
                    StoreErrorKind::Permanent,
                    StoreErrorKind::Throttled,
                ];
                Event::Failed(refused(kinds[rng.below(3)], "refused".to_owned()))
            }
            Effect::PutIntent(..) if rng.permille(self.faults.throttled) => {
                let told = "too many requests".to_owned();
                Event::Failed(refused(StoreErrorKind::Throttled, told))
            }
            Effect::PutVersion(version, _) if rng.permille(self.faults.phantom) && *version > 0 => {
                Event::Put(PutOutcome::Exists)
            }
            Effect::FindTip if rng.permille(self.faults.stale) && !self.past_tips.is_empty() => {
                Event::Tip(self.past_tips[rng.below(self.past_tips.len())])
            }
            Effect::ListIntents => Event::Listing(self.listing(rng)),
            Effect::PutIntent(name, body) if rng.permille(self.faults.slow) => {
                self.late.push(LateWrite::Intent(name.clone(), body.clone()));
                Event::Failed(StoreError::transient("no answer in time"))
            }
            effect => self.apply_truly(effect),
        }
    }

    /// A listing of the intents by some server.
    fn listing(&self, rng: &mut Rng) -> Listing {
        let is_stale = rng.permille(self.faults.stale) && !self.past_intents.is_empty();
        let entries = if is_stale {
            self.past_intents[rng.below(self.past_intents.len())].clone()
        } else {
            self.entries()
        };
        let now = if self.faults.skewed {
            self.now + around(rng, SKEW)
        } else {
            self.now
        };
        Listing { now, entries }
    }

    fn apply_unheard(&mut self, effect: &Effect, rng: &mut Rng) -> Event {
        // What a sync says is lost with its process alone.
        let is_sync = matches!(effect, Effect::SyncData(_) | Effect::SyncLog(..));
        let done = !is_sync && rng.permille(500);
        let late = self.faults.late && rng.permille(500);
        match effect {
            _ if done => drop(self.apply_truly(effect)),
            Effect::PutVersion(version, body) if late => {
                self.late.push(LateWrite::Version(*version, body.clone()));
            }
            Effect::PutIntent(name, body) if late => {
                self.late.push(LateWrite::Intent(name.clone(), body.clone()));
            }
            _ => {}
        }
        let lost = StoreError::transient("the answer was lost");
        if matches!(effect, Effect::PutVersion(..)) {
            Event::Put(PutOutcome::Unknown(lost))
        } else {
            Event::Failed(lost)
        }
    }

    fn apply_truly(&mut self, effect: &Effect) -> Event {
        match effect {
            Effect::FindTip => Event::Tip(self.tip()),
            Effect::ReadVersion(version) => Event::Body(self.log.get(version).map(|s| s.body.clone())),
            Effect::PutVersion(version, body) => Event::Put(self.put_version(*version, body)),
            Effect::CheckVersion(version, digest) => Event::Standing(self.standing(*version, *digest)),
            Effect::RetractVersion(version, digests) => Event::Retracted(self.retract(*version, digests)),
            Effect::ReadIntents(unread, known) => Event::Intents(self.bundles(unread, known)),
            Effect::PutIntent(name, body) => {
                self.put_intent(name, body);
                Event::Done
            }
            Effect::DeleteIntents(names) => {
                self.delete_intents(names);
                Event::Done
            }
            Effect::WithdrawIntents(names) => {
                self.delete_intents(names);
                self.deleted.clear();
                Event::Done
            }
            Effect::SyncData(files) => Event::Synced(vec![Ok(()); files.len()]),
            Effect::SyncLog(..) | Effect::ListIntents => Event::Done,
            Effect::Merge(request) => Event::Merged(request.answer().map(Box::new)),
            Effect::Pause(milliseconds) => {
                self.now += i64::try_from(*milliseconds).unwrap_or(0);
                Event::Done
            }
        }
    }

    fn put_version(&mut self, version: Version, body: &[u8]) -> PutOutcome {
        if self.log.contains_key(&version) {
            return PutOutcome::Exists;
        }
        if self.history.contains_key(&version) {
            self.violate(format!("version {version} was created again after its clean-up"));
        }
        let follows_checkpoint = self.checkpoint == Some(version - 1);
        self.after_checkpoint += usize::from(follows_checkpoint);
        if version > 0 && !follows_checkpoint && !self.log.contains_key(&(version - 1)) {
            self.violate(format!(
                "version {version} was created, but there is no {}",
                version - 1
            ));
        }
        self.past_tips.push(self.tip());
        trim(&mut self.past_tips);
        let stored = StoredVersion {
            body: body.to_vec(),
            durable: !self.faults.volatile,
            created: self.now,
            doomed: None,
        };
        self.history.insert(version, stored.body.clone());
        self.log.insert(version, stored);
        PutOutcome::Won
    }

    fn standing(&self, version: Version, digest: Option<BodyDigest>) -> VersionPresence {
        match self.log.get(&version) {
            Some(stored) if digest.is_none_or(|digest| digest == BodyDigest::of(&stored.body)) => {
                VersionPresence::Same
            }
            Some(_) => VersionPresence::Other,
            None if self.checkpoint == Some(version) => VersionPresence::Checkpoint,
            None if version <= self.cleaned_up => VersionPresence::CleanedUp,
            None => VersionPresence::Missing,
        }
    }

    fn retract(&mut self, version: Version, digests: &[BodyDigest]) -> bool {
        let is_ours = |stored: &StoredVersion| digests.contains(&BodyDigest::of(&stored.body));
        let is_last = !self.log.contains_key(&(version + 1));
        if !is_last || !self.log.get(&version).is_some_and(is_ours) {
            return false;
        }
        self.log.remove(&version);
        self.history.remove(&version);
        true
    }

    fn bundles(&self, unread: &[String], known: &[String]) -> Bundles {
        let body = |name: &String| Some((name.clone(), self.intents.get(name)?.body.clone()));
        let is_there = |name: &&String| self.intents.contains_key(*name);
        Bundles {
            bodies: unread.iter().filter_map(body).collect(),
            there: known.iter().filter(is_there).cloned().collect(),
        }
    }

    fn put_intent(&mut self, name: &str, body: &[u8]) {
        self.remember();
        let stored = StoredVersion {
            body: body.to_vec(),
            durable: true,
            created: self.now,
            doomed: None,
        };
        self.intents.insert(name.to_owned(), stored);
    }

    fn delete_intents(&mut self, names: &[String]) {
        self.remember();
        for name in names {
            self.deleted.extend(self.intents.remove_entry(name));
        }
    }

    fn sync_data(&mut self, files: &[UnsyncedFile], rng: &mut Rng) -> Event {
        Event::Synced(files.iter().map(|file| self.sync_file(&file.path, rng)).collect())
    }

    fn sync_file(&mut self, path: &str, rng: &mut Rng) -> Result<(), StoreError> {
        if rng.permille(self.faults.busy) {
            return Err(StoreError::transient("too many open files"));
        }
        let bad = rng.permille(self.faults.bad_data);
        match self.data.get_mut(path) {
            // Its client gave up in time, and tidied up.
            None => Err(refused(StoreErrorKind::NotFound, format!("{path} is not there"))),
            Some(data @ Data::Written) if bad => {
                *data = Data::Doomed;
                self.doomed += 1;
                let why = ["no space is left", "input/output error"][rng.below(2)];
                Err(refused(StoreErrorKind::Permanent, format!("{path}: {why}")))
            }
            Some(Data::Durable) if bad => {
                Err(refused(StoreErrorKind::Permanent, format!("{path}: not yours")))
            }
            // The pages are clean, so there is nothing to do.
            Some(Data::Doomed) => Ok(()),
            Some(data) => {
                *data = Data::Durable;
                Ok(())
            }
        }
    }

    /// Syncs versions. Each process gets an error once, like a descriptor that was open when it happened.
    fn sync_log(&mut self, process: MemberId, last: Version, rng: &mut Rng) -> Event {
        let mut is_told = false;
        for (_, stored) in self.log.range_mut(..=last) {
            if !stored.durable && stored.doomed.is_none() && rng.permille(self.faults.bad_log) {
                stored.doomed = Some(BTreeSet::new());
                self.doomed += 1;
            }
            match &mut stored.doomed {
                Some(told) => is_told |= told.insert(process),
                None => stored.durable = true,
            }
        }
        if is_told {
            let failed = refused(StoreErrorKind::Permanent, "input/output error".to_owned());
            return Event::Failed(failed);
        }
        Event::Done
    }

    fn entries(&self) -> Vec<IntentEntry> {
        let entry = |(name, stored): (&String, &StoredVersion)| IntentEntry {
            name: name.clone(),
            created: stored.created,
            bytes: stored.body.len() as u64,
        };
        self.intents.iter().map(entry).collect()
    }

    fn remember(&mut self) {
        self.past_intents.push(self.entries());
        trim(&mut self.past_intents);
    }

    fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    /// Lets one write that no process waits for arrive, or vanish.
    pub(crate) fn arrive(&mut self, rng: &mut Rng) {
        if self.late.is_empty() {
            return;
        }
        let at = rng.below(self.late.len());
        // An intent that takes its time may arrive after its doubt was settled.
        if matches!(self.late[at], LateWrite::Intent(..)) && rng.permille(800) {
            return;
        }
        match self.late.swap_remove(at) {
            LateWrite::Version(version, body) if rng.permille(800) => drop(self.put_version(version, &body)),
            LateWrite::Intent(name, body) if rng.permille(800) => self.put_intent(&name, &body),
            _ => {}
        }
    }

    pub(crate) fn has_late(&self) -> bool {
        !self.late.is_empty()
    }

    /// Lets the announcements that no process waits for arrive, or not yet.
    pub(crate) fn arrive_announced(&mut self, rng: &mut Rng) {
        for late in std::mem::take(&mut self.late) {
            match late {
                LateWrite::Intent(name, body) if rng.permille(500) => self.put_intent(&name, &body),
                late => self.late.push(late),
            }
        }
    }

    /// The text of an intent that is there, which names its members.
    pub(crate) fn members_of(&self, name: &str) -> String {
        let body = self.intents.get(name).map(|stored| stored.body.as_slice());
        String::from_utf8_lossy(body.unwrap_or_default()).into_owned()
    }

    /// Returns true if a version names the member.
    pub(crate) fn holds(&self, member: MemberId) -> bool {
        let id = member.to_string();
        let mut bodies = self.history.values();
        bodies.any(|body| String::from_utf8_lossy(body).contains(&id))
    }

    /// Returns true if an intent of the member is there, or may still arrive.
    pub(crate) fn has_announced(&self, member: MemberId) -> bool {
        let id = member.to_string();
        let late = self.late.iter().filter_map(|late| match late {
            LateWrite::Intent(_, body) => Some(body),
            LateWrite::Version(..) => None,
        });
        let mut bodies = self.intents.values().map(|stored| &stored.body).chain(late);
        bodies.any(|body| String::from_utf8_lossy(body).contains(&id))
    }

    /// Cuts the power. Each file and directory entry that was not synced may be lost, independently of the others.
    pub(crate) fn cut_power(&mut self, rng: &mut Rng) {
        let lost: Vec<Version> = self
            .log
            .iter()
            .filter(|(_, stored)| stored.doomed.is_some() || (!stored.durable && rng.permille(500)))
            .map(|(version, _)| *version)
            .collect();
        for version in lost {
            self.log.remove(&version);
            self.history.remove(&version);
        }
        self.data.retain(|_, data| match data {
            Data::Durable => true,
            Data::Written => rng.permille(500),
            Data::Doomed => false,
        });
        let intents = std::mem::take(&mut self.deleted);
        self.intents.extend(intents);
        self.intents.retain(|_, _| rng.permille(500));
        for stored in self.log.values_mut() {
            stored.durable = true;
        }
        for data in self.data.values_mut() {
            *data = Data::Durable;
        }
        self.past_intents.clear();
        self.past_tips.clear();
    }

    /// Removes versions older than so many milliseconds. The newest goes too where others leave its checkpoint alone.
    pub(crate) fn clean_up(&mut self, age: i64, with_newest: bool) {
        let (tip, now) = (self.tip(), self.now);
        // A checkpoint stands for what goes, and it was built on the tip.
        for stored in self.log.values_mut().filter(|stored| stored.doomed.is_none()) {
            stored.durable = true;
        }
        self.log
            .retain(|version, stored| (*version == tip && !with_newest) || now - stored.created <= age);
        // Versions have no gap, so it is the newest of those that went.
        let is_alone = tip > BEFORE_FIRST && !self.log.contains_key(&tip);
        self.checkpoint = is_alone.then_some(tip);
        let kept = self.log.keys().next().copied();
        self.cleaned_up = self.cleaned_up.max(kept.map_or(tip, |first| first - 1));
        self.past_tips.clear();
    }
}

/// A number from `-most` to `most`.
pub(crate) fn around(rng: &mut Rng, most: i64) -> i64 {
    let count = usize::try_from(2 * most + 1).unwrap_or(1);
    i64::try_from(rng.below(count)).unwrap_or(0) - most
}

fn refused(kind: StoreErrorKind, message: String) -> StoreError {
    StoreError {
        kind,
        ..StoreError::transient(message)
    }
}

fn trim<T>(past: &mut Vec<T>) {
    if past.len() > REMEMBERED {
        past.remove(0);
    }
}
