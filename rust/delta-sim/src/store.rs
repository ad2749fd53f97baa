//! A store that fails at every step.

use std::collections::BTreeMap;

use delta_commit::Version;
use delta_commit::log::{
    BEFORE_FIRST, Effect, Event, IntentEntry, Listing, PutOutcome, StoreError, StoreErrorKind,
};

use crate::rng::Rng;

/// Which of a thousand operations go wrong, and in which way.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    /// The answer is lost; the operation was done, was not, or will be.
    pub(crate) lost: usize,
    /// A create-only write says that the key exists, but it does not.
    pub(crate) phantom: usize,
    /// A listing shows what was there a while ago.
    pub(crate) stale: usize,
    /// Whether an operation whose answer was lost may still be done later.
    pub(crate) late: bool,
    /// Whether what is not synced is lost in a power cut.
    pub(crate) volatile: bool,
}

#[derive(Debug, Clone)]
struct Stored {
    body: Vec<u8>,
    durable: bool,
    created: i64,
}

/// A write on its way that nobody waits for any more.
#[derive(Debug)]
enum Late {
    Version(Version, Vec<u8>),
    Intent(String, Vec<u8>),
}

/// The table's directory, or bucket.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) now: i64,
    pub(crate) faults: Faults,
    log: BTreeMap<Version, Stored>,
    intents: BTreeMap<String, Stored>,
    /// Data files, and whether they survive a power cut.
    data: BTreeMap<String, bool>,
    /// Names and times as listings saw them before each change.
    past_intents: Vec<Vec<IntentEntry>>,
    past_tips: Vec<Version>,
    late: Vec<Late>,
    /// Every version that ever was and was not lost to a power cut, whether cleaned up or not.
    pub(crate) history: BTreeMap<Version, Vec<u8>>,
    /// What must never happen, and did.
    pub(crate) violation: Option<String>,
}

const REMEMBERED: usize = 6;

/// When the simulation begins: milliseconds since the epoch.
const BIRTH: i64 = 1_700_000_000_000;

impl Store {
    pub(crate) fn new(faults: Faults) -> Self {
        Self {
            faults,
            now: BIRTH,
            ..Self::default()
        }
    }

    pub(crate) fn tip(&self) -> Version {
        self.log.keys().next_back().copied().unwrap_or(BEFORE_FIRST)
    }

    pub(crate) fn write_data(&mut self, path: &str) {
        self.data.insert(path.to_owned(), !self.faults.volatile);
    }

    pub(crate) fn delete_data(&mut self, path: &str) {
        self.data.remove(path);
    }

    pub(crate) fn has_data(&self, path: &str) -> bool {
        self.data.contains_key(path)
    }

    /// Does an effect, or not, and answers, truly or not.
    pub(crate) fn apply(&mut self, effect: &Effect, rng: &mut Rng) -> Event {
        if rng.permille(self.faults.lost) {
            return self.apply_unheard(effect, rng);
        }
        match effect {
            Effect::PutVersion(version, _) if rng.permille(self.faults.phantom) && *version > 0 => {
                Event::Put(PutOutcome::Exists)
            }
            Effect::FindTip if rng.permille(self.faults.stale) && !self.past_tips.is_empty() => {
                Event::Tip(self.past_tips[rng.below(self.past_tips.len())])
            }
            Effect::ListIntents if rng.permille(self.faults.stale) && !self.past_intents.is_empty() => {
                Event::Listing(Listing {
                    now: self.now,
                    entries: self.past_intents[rng.below(self.past_intents.len())].clone(),
                })
            }
            effect => self.apply_truly(effect),
        }
    }

    fn apply_unheard(&mut self, effect: &Effect, rng: &mut Rng) -> Event {
        let done = rng.permille(500);
        let late = self.faults.late && rng.permille(500);
        match effect {
            _ if done => drop(self.apply_truly(effect)),
            Effect::PutVersion(version, body) if late => {
                self.late.push(Late::Version(*version, body.clone()));
            }
            Effect::PutIntent(name, body) if late => {
                self.late.push(Late::Intent(name.clone(), body.clone()));
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
            Effect::ListIntents => Event::Listing(Listing {
                now: self.now,
                entries: self.entries(),
            }),
            Effect::ReadIntents(names) => Event::Intents(
                names
                    .iter()
                    .filter_map(|name| Some((name.clone(), self.intents.get(name)?.body.clone())))
                    .collect(),
            ),
            Effect::PutIntent(name, body) => {
                self.put_intent(name, body);
                Event::Done
            }
            Effect::DeleteIntents(names) => {
                self.remember();
                self.intents.retain(|name, _| !names.contains(name));
                Event::Done
            }
            Effect::SyncData(paths) => self.sync_data(paths),
            Effect::SyncLog(first, last) => {
                for (_, stored) in self.log.range_mut(first..=last) {
                    stored.durable = true;
                }
                Event::Done
            }
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
        if version > 0 && !self.log.contains_key(&(version - 1)) {
            self.violate(format!(
                "version {version} was created, but there is no {}",
                version - 1
            ));
        }
        self.past_tips.push(self.tip());
        trim(&mut self.past_tips);
        let stored = Stored {
            body: body.to_vec(),
            durable: !self.faults.volatile,
            created: self.now,
        };
        self.history.insert(version, stored.body.clone());
        self.log.insert(version, stored);
        PutOutcome::Won
    }

    fn put_intent(&mut self, name: &str, body: &[u8]) {
        self.remember();
        let stored = Stored {
            body: body.to_vec(),
            durable: true,
            created: self.now,
        };
        self.intents.insert(name.to_owned(), stored);
    }

    fn sync_data(&mut self, paths: &[String]) -> Event {
        for path in paths {
            match self.data.get_mut(path) {
                Some(durable) => *durable = true,
                // Its client gave up in time, and tidied up.
                None => {
                    return Event::Failed(StoreError {
                        kind: StoreErrorKind::Permanent,
                        ..StoreError::transient(format!("{path} is not there"))
                    });
                }
            }
        }
        Event::Done
    }

    fn entries(&self) -> Vec<IntentEntry> {
        let entry = |(name, stored): (&String, &Stored)| IntentEntry {
            name: name.clone(),
            created: stored.created,
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

    /// Lets one write that nobody waits for arrive, or vanish.
    pub(crate) fn arrive(&mut self, rng: &mut Rng) {
        if self.late.is_empty() {
            return;
        }
        let at = rng.below(self.late.len());
        match self.late.swap_remove(at) {
            Late::Version(version, body) if rng.permille(800) => drop(self.put_version(version, &body)),
            Late::Intent(name, body) if rng.permille(800) => self.put_intent(&name, &body),
            _ => {}
        }
    }

    pub(crate) fn has_late(&self) -> bool {
        !self.late.is_empty()
    }

    /// What was not synced is gone, or is not, one by one: directory entries too.
    pub(crate) fn cut_power(&mut self, rng: &mut Rng) {
        let lost: Vec<Version> = self
            .log
            .iter()
            .filter(|(_, stored)| !stored.durable)
            .map(|(version, _)| *version)
            .filter(|_| rng.permille(500))
            .collect();
        for version in lost {
            self.log.remove(&version);
            self.history.remove(&version);
        }
        self.data.retain(|_, durable| *durable || rng.permille(500));
        self.intents.retain(|_, _| rng.permille(500));
        for stored in self.log.values_mut() {
            stored.durable = true;
        }
        for durable in self.data.values_mut() {
            *durable = true;
        }
        self.past_intents.clear();
        self.past_tips.clear();
    }

    /// Removes versions older than so many milliseconds, but not the newest.
    pub(crate) fn clean_up(&mut self, age: i64) {
        let (tip, now) = (self.tip(), self.now);
        // A checkpoint stands for what goes, and it was built on the tip.
        for stored in self.log.values_mut() {
            stored.durable = true;
        }
        self.log
            .retain(|version, stored| *version == tip || now - stored.created <= age);
        self.past_tips.clear();
    }
}

fn trim<T>(past: &mut Vec<T>) {
    if past.len() > REMEMBERED {
        past.remove(0);
    }
}
