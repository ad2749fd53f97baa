//! The place of a table, and of those that come after it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use delta_commit::actions::{Action, Add, Metadata, Protocol};
use delta_commit::log::{
    BEFORE_FIRST, BodyDigest, Bundles, Effect, Event, IntentEntry, Listing, PutOutcome, StoreError,
    VersionPresence,
};
use delta_commit::winner::Winner;
use delta_commit::{MemberId, Version};

use super::parsed;
use crate::rng::Rng;

type Log = BTreeMap<Version, Vec<u8>>;

/// The start of the simulation: milliseconds since the epoch.
const BIRTH: i64 = 1_700_000_000_000;

/// A version that was written once.
struct WrittenVersion {
    version: Version,
    /// The body of the version before it, at that moment.
    before: Option<BodyDigest>,
    /// The body that was put there later, if there was none.
    before_later: Option<BodyDigest>,
    members: HashSet<MemberId>,
    /// The process that wrote it, and the version with which it had opened its table; none for other software.
    by: Option<(usize, BodyDigest)>,
    /// True if nobody can be asked to remove it.
    is_excused: bool,
    /// True if its writer found another version after it, and so had to leave it.
    is_built_upon: bool,
    at: i64,
}

/// A version that may still be created, although no process waits for it.
struct LateVersion {
    process: usize,
    opened: BodyDigest,
    version: Version,
    body: Vec<u8>,
}

#[derive(Default)]
pub(super) struct TableLocation {
    pub(super) now: i64,
    /// The odds of a lost answer, out of a thousand.
    pub(super) lost: usize,
    pub(super) retracted: usize,
    log: Log,
    intents: BTreeMap<String, (i64, Vec<u8>)>,
    written: HashMap<BodyDigest, WrittenVersion>,
    /// The last time at which others removed or replaced a version.
    changed: BTreeMap<Version, i64>,
    /// Versions that are still to be deleted.
    doomed: Vec<Version>,
    copies: Vec<Log>,
    /// The last time at which a copy was put back.
    restored: i64,
    late: Vec<LateVersion>,
    numbers: u64,
}

impl TableLocation {
    pub(super) fn new(lost: usize) -> Self {
        Self {
            now: BIRTH,
            lost,
            ..Self::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    /// The number of versions.
    fn count(&self) -> Version {
        Version::try_from(self.log.len()).unwrap_or(Version::MAX)
    }

    pub(super) const fn log(&self) -> &Log {
        &self.log
    }

    /// The number of versions of the longest table so far.
    pub(super) fn longest(&self) -> usize {
        let last = self.written.values().map(|written| written.version).max();
        last.map_or(0, |last| usize::try_from(last + 1).unwrap_or(0))
    }

    pub(super) fn has_late(&self) -> bool {
        !self.late.is_empty()
    }

    pub(super) fn changed_at(&self, version: Version) -> i64 {
        self.changed.get(&version).copied().unwrap_or(BIRTH)
    }

    /// The versions of a whole table, and the digest of the newest one.
    pub(super) fn read_whole(&self) -> Option<(Vec<Winner>, BodyDigest)> {
        let is_whole = self.log.keys().copied().eq(0..self.count());
        if !is_whole || !self.doomed.is_empty() {
            return None;
        }
        let winners: Option<Vec<Winner>> = self.log.iter().map(|(v, body)| parsed(*v, body)).collect();
        let last = self.log.last_key_value()?;
        Some((winners?, BodyDigest::of(last.1)))
    }

    fn note_changed(&mut self, version: Version) {
        self.changed.insert(version, self.now);
    }

    pub(super) fn delete(&mut self) {
        let versions: Vec<Version> = self.log.keys().copied().collect();
        for version in versions {
            self.note_changed(version);
        }
        self.log.clear();
        self.intents.clear();
        self.doomed.clear();
    }

    /// Begins to delete what a listing shows, in some order.
    pub(super) fn begin_deleting(&mut self, rng: &mut Rng) {
        self.doomed = self.log.keys().copied().collect();
        match rng.below(3) {
            0 => {}
            1 => self.doomed.reverse(),
            _ => {
                for last in (1..self.doomed.len()).rev() {
                    let other = rng.below(last + 1);
                    self.doomed.swap(last, other);
                }
            }
        }
    }

    pub(super) fn go_on_deleting(&mut self, rng: &mut Rng) {
        for _ in 0..=rng.below(3) {
            if let Some(version) = self.doomed.pop()
                && self.log.remove(&version).is_some()
            {
                self.note_changed(version);
            }
        }
        // Some give up.
        if rng.permille(20) {
            self.doomed.clear();
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Creates a table of so many versions, as other software does it.
    pub(super) fn create(&mut self, id: &str, versions: usize) {
        let metadata = Metadata {
            id: id.to_owned(),
            ..Metadata::default()
        };
        let actions = [Action::Protocol(Protocol::default()), Action::Metadata(metadata)];
        let lines = actions.iter().filter_map(|action| action.to_line().ok());
        let body = lines.collect::<Vec<_>>().join("\n").into_bytes();
        self.write(0, body, None);
        for _ in 1..versions {
            self.append_as_another();
        }
    }

    /// Appends a version, as other software does it: it never leaves a gap.
    pub(super) fn append_as_another(&mut self) {
        if self.read_whole().is_none() || self.log.is_empty() {
            return;
        }
        let version = self.count();
        let add = Action::Add(Add {
            path: format!("other{}.parquet", self.number()),
            data_change: true,
            ..Add::default()
        });
        let info = r#"{"commitInfo":{"operation":"WRITE","isBlindAppend":true}}"#;
        if let Ok(line) = add.to_line() {
            self.write(version, format!("{info}\n{line}").into_bytes(), None);
        }
    }

    /// Keeps a copy of a whole table.
    pub(super) fn copy(&mut self) {
        if self.read_whole().is_some() {
            self.copies.push(self.log.clone());
        }
    }

    /// Puts a copy in the place of the table. Returns false if there is none.
    pub(super) fn restore(&mut self, rng: &mut Rng) -> bool {
        if self.copies.is_empty() {
            return false;
        }
        let copy = self.copies[rng.below(self.copies.len())].clone();
        self.doomed.clear();
        let versions: BTreeSet<Version> = self.log.keys().chain(copy.keys()).copied().collect();
        for version in versions {
            if self.log.get(&version) != copy.get(&version) {
                self.note_changed(version);
            }
        }
        self.log = copy;
        self.restored = self.now;
        true
    }

    /// Returns true if a body was in a copy, which may bring it back.
    pub(super) fn is_copied(&self, body: &[u8]) -> bool {
        let mut copies = self.copies.iter();
        copies.any(|copy| copy.values().any(|copied| copied == body))
    }

    fn write(&mut self, version: Version, body: Vec<u8>, by: Option<(usize, BodyDigest)>) -> PutOutcome {
        if self.log.contains_key(&version) {
            return PutOutcome::Exists;
        }
        let written = WrittenVersion {
            version,
            before: self.log.get(&(version - 1)).map(|body| BodyDigest::of(body)),
            before_later: None,
            members: parsed(version, &body)
                .map(|winner| winner.members)
                .unwrap_or_default(),
            by,
            is_excused: false,
            is_built_upon: false,
            at: self.now,
        };
        let digest = BodyDigest::of(&body);
        let next = self.log.get(&(version + 1)).map(|body| BodyDigest::of(body));
        if let Some(next) = next.and_then(|next| self.written.get_mut(&next))
            && next.before.is_none()
        {
            next.before_later = Some(digest);
        }
        self.written.insert(digest, written);
        self.log.insert(version, body);
        PutOutcome::Won
    }

    /// The digest and those of the versions before it, the latest first.
    ///
    /// A version that was left above a gap is of the table that fills the gap: readers cannot tell.
    fn lineage(&self, last: BodyDigest) -> impl Iterator<Item = BodyDigest> {
        std::iter::successors(Some(last), |digest| {
            let written = self.written.get(digest)?;
            written.before.or(written.before_later)
        })
    }

    /// Returns true if the version `opened` is the one of this digest, or came before it when it was written.
    fn follows(&self, digest: BodyDigest, opened: BodyDigest) -> bool {
        let before = self.written.get(&digest).and_then(|written| written.before);
        digest == opened || before.is_some_and(|before| self.lineage(before).any(|each| each == opened))
    }

    /// Returns true if the version that is there continues the table that was opened with `opened`, or is one of the
    /// versions before that.
    pub(super) fn is_in_lineage(&self, version: Version, opened: BodyDigest) -> bool {
        let Some(digest) = self.log.get(&version).map(|body| BodyDigest::of(body)) else {
            return false;
        };
        self.lineage(digest).any(|each| each == opened) || self.lineage(opened).any(|each| each == digest)
    }

    /// Returns true if a transaction was written in this version of the table that was opened with `opened`, or the
    /// place was restored after it: nobody can tell a table that came back from one that was always there.
    pub(super) fn is_of_table(&self, id: MemberId, version: Version, opened: BodyDigest) -> bool {
        let mut held = self
            .written
            .iter()
            .filter(|(_, written)| written.version == version && written.members.contains(&id));
        held.any(|(digest, written)| written.at <= self.restored || self.follows(*digest, opened))
    }

    fn is_misplaced(&self, digest: BodyDigest, written: &WrittenVersion) -> bool {
        written
            .by
            .is_some_and(|(_, opened)| !self.follows(digest, opened))
    }

    /// The number of versions that were ever created in the log of another table.
    pub(super) fn misplaced(&self) -> usize {
        let written = self.written.iter();
        written
            .filter(|(digest, written)| self.is_misplaced(**digest, written))
            .count()
    }

    /// A version that its writer should have removed.
    pub(super) fn left_over(&self) -> Option<Version> {
        let left = |version: &Version, body: &Vec<u8>| {
            let digest = BodyDigest::of(body);
            let written = self.written.get(&digest)?;
            let is_followed = written.is_built_upon || self.log.contains_key(&(version + 1));
            let is_left = self.is_misplaced(digest, written) && !written.is_excused && !is_followed;
            (is_left && !self.is_copied(body)).then_some(*version)
        };
        self.log.iter().find_map(|(version, body)| left(version, body))
    }

    pub(super) fn excuse_all_of(&mut self, process: usize) {
        for written in self.written.values_mut() {
            written.is_excused |= written.by.is_some_and(|(by, _)| by == process);
        }
    }

    /// Returns true if a body arrived after its process had stopped waiting for it, or had died.
    pub(super) fn is_excused(&self, body: &[u8]) -> bool {
        let written = self.written.get(&BodyDigest::of(body));
        written.is_some_and(|written| written.is_excused)
    }

    fn excuse(&mut self, body: &[u8]) {
        if let Some(written) = self.written.get_mut(&BodyDigest::of(body)) {
            written.is_excused = true;
        }
    }

    /// Lets a version arrive that no process waits for, or vanish.
    pub(super) fn arrive(&mut self, rng: &mut Rng) {
        if self.late.is_empty() {
            return;
        }
        let at = rng.below(self.late.len());
        let late = self.late.swap_remove(at);
        if rng.permille(800) {
            let by = Some((late.process, late.opened));
            if self.write(late.version, late.body.clone(), by) == PutOutcome::Won {
                self.excuse(&late.body);
            }
        }
    }

    pub(super) fn delete_intents(&mut self, names: &[String]) {
        self.intents.retain(|name, _| !names.contains(name));
    }

    /// Does an effect of a process that opened the table with `opened`.
    pub(super) fn apply(
        &mut self,
        process: usize,
        opened: BodyDigest,
        effect: &Effect,
        rng: &mut Rng,
    ) -> Event {
        if rng.permille(self.lost) {
            let lost = StoreError::transient("the answer was lost");
            let Effect::PutVersion(version, body) = effect else {
                return Event::Failed(lost);
            };
            match rng.below(3) {
                0 => {}
                1 => {
                    // Its owner reads it, and removes it if it has to.
                    self.write(*version, body.clone(), Some((process, opened)));
                }
                _ => self.late.push(LateVersion {
                    process,
                    opened,
                    version: *version,
                    body: body.clone(),
                }),
            }
            return Event::Put(PutOutcome::Unknown(lost));
        }
        match effect {
            Effect::FindTip => Event::Tip(self.log.keys().next_back().copied().unwrap_or(BEFORE_FIRST)),
            Effect::ReadVersion(version) => Event::Body(self.log.get(version).cloned()),
            Effect::PutVersion(version, body) => {
                Event::Put(self.write(*version, body.clone(), Some((process, opened))))
            }
            Effect::CheckVersion(version, digest) => Event::Standing(match self.log.get(version) {
                None => VersionPresence::Missing,
                Some(body) if digest.is_none_or(|digest| digest == BodyDigest::of(body)) => {
                    VersionPresence::Same
                }
                Some(_) => VersionPresence::Other,
            }),
            Effect::RetractVersion(version, digests) => Event::Retracted(self.retract(*version, digests)),
            Effect::ListIntents => Event::Listing(self.listing()),
            Effect::ReadIntents(unread, known) => Event::Intents(self.bundles(unread, known)),
            Effect::PutIntent(name, body) => {
                self.intents.insert(name.clone(), (self.now, body.clone()));
                Event::Done
            }
            Effect::DeleteIntents(names) | Effect::WithdrawIntents(names) => {
                self.delete_intents(names);
                Event::Done
            }
            Effect::SyncData(paths) => Event::Synced(vec![Ok(()); paths.len()]),
            Effect::SyncLog(..) => Event::Done,
            Effect::Merge(request) => Event::Merged(request.answer().map(Box::new)),
            Effect::Pause(milliseconds) => {
                self.now += i64::try_from(*milliseconds).unwrap_or(0);
                Event::Done
            }
        }
    }

    fn retract(&mut self, version: Version, digests: &[BodyDigest]) -> bool {
        let there = self.log.get(&version).map(|body| BodyDigest::of(body));
        let Some(digest) = there.filter(|digest| digests.contains(digest)) else {
            return false;
        };
        if self.log.contains_key(&(version + 1)) {
            if let Some(written) = self.written.get_mut(&digest) {
                written.is_built_upon = true;
            }
            return false;
        }
        self.log.remove(&version);
        self.note_changed(version);
        self.retracted += 1;
        true
    }

    fn listing(&self) -> Listing {
        let entry = |(name, (created, body)): (&String, &(i64, Vec<u8>))| IntentEntry {
            name: name.clone(),
            created: *created,
            bytes: body.len() as u64,
        };
        Listing {
            now: self.now,
            entries: self.intents.iter().map(entry).collect(),
        }
    }

    fn bundles(&self, unread: &[String], known: &[String]) -> Bundles {
        let body = |name: &String| Some((name.clone(), self.intents.get(name)?.1.clone()));
        let is_there = |name: &&String| self.intents.contains_key(*name);
        Bundles {
            bodies: unread.iter().filter_map(body).collect(),
            there: known.iter().filter(is_there).cloned().collect(),
        }
    }
}
