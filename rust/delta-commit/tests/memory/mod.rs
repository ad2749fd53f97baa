//! A store in memory, for machines that are driven by hand.
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;

use delta_commit::actions::{Action, Add};
use delta_commit::log::{
    BEFORE_FIRST, BodyDigest, Bundles, Effect, Event, IntentEntry, Listing, PutOutcome, StoreError,
    StoreErrorKind, Time, VersionPresence,
};
use delta_commit::{Machine, MemberId, Start, Version};

/// The fate of an attempt.
pub enum Fate {
    /// Another process creates the version first, with this body.
    Late(String),
    /// The version is created, and nobody is told.
    Unanswered,
    /// The version is created, and said to exist: the request was sent twice.
    Doubled,
}

/// A store in memory that fails only when it is told to.
#[derive(Default)]
pub struct Store {
    pub log: BTreeMap<Version, Vec<u8>>,
    pub intents: BTreeMap<String, (i64, Vec<u8>)>,
    /// The fate of the next attempt, if it is not to succeed.
    pub fate: Option<Fate>,
    /// True if the next effect is to fail for once.
    pub is_busy: bool,
    /// The milliseconds by which listings are ahead of time.
    pub ahead: i64,
    /// True if announcements are refused, since there is too much to do.
    pub throttles: bool,
    /// True if announcements are held back, and nobody is told.
    pub holds_back: bool,
    /// Those that are.
    pub held_back: BTreeMap<String, Vec<u8>>,
    /// Names and times that listings show, if they are out of date.
    pub out_of_date: Option<Vec<IntentEntry>>,
}

impl Store {
    pub fn apply(&mut self, now: i64, effect: &Effect) -> Event {
        if std::mem::take(&mut self.is_busy) {
            return Event::Failed(StoreError::transient("try again"));
        }
        match effect {
            Effect::FindTip => Event::Tip(self.log.keys().next_back().copied().unwrap_or(BEFORE_FIRST)),
            Effect::ReadVersion(version) => Event::Body(self.log.get(version).cloned()),
            Effect::PutVersion(version, body) => Event::Put(self.put(*version, body)),
            Effect::CheckVersion(version, digest) => Event::Standing(match self.log.get(version) {
                None => VersionPresence::Missing,
                Some(body) if digest.is_none_or(|digest| digest == BodyDigest::of(body)) => {
                    VersionPresence::Same
                }
                Some(_) => VersionPresence::Other,
            }),
            Effect::RetractVersion(version, digests) => {
                let body = self.log.get(version);
                let is_ours = body.is_some_and(|body| digests.contains(&BodyDigest::of(body)));
                let is_last = !self.log.contains_key(&(version + 1));
                if is_ours && is_last {
                    self.log.remove(version);
                }
                Event::Retracted(is_ours && is_last)
            }
            Effect::ListIntents => Event::Listing(Listing {
                now: now + self.ahead,
                entries: self.out_of_date.clone().unwrap_or_else(|| self.entries()),
            }),
            Effect::ReadIntents(unread, known) => Event::Intents(self.bundles(unread, known)),
            Effect::PutIntent(..) if self.throttles => Event::Failed(StoreError {
                kind: StoreErrorKind::Throttled,
                ..StoreError::transient("too many requests")
            }),
            Effect::PutIntent(name, body) if self.holds_back => {
                self.held_back.insert(name.clone(), body.clone());
                Event::Failed(StoreError::transient("no answer in time"))
            }
            Effect::PutIntent(name, body) => {
                self.intents.insert(name.clone(), (now, body.clone()));
                Event::Done
            }
            Effect::DeleteIntents(names) | Effect::WithdrawIntents(names) => {
                self.delete(names);
                Event::Done
            }
            Effect::SyncData(paths) => Event::Synced(vec![Ok(()); paths.len()]),
            Effect::SyncLog(..) | Effect::Pause(_) => Event::Done,
            Effect::Merge(_) => panic!("an append merges no rows"),
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

    /// Deletes the intents that are of no more use to a machine, as its driver does it beside its effects.
    pub fn tidy(&mut self, machine: &mut Machine) {
        let names = machine.take_garbage();
        self.delete(&names);
        machine.tidied(&names);
    }

    pub fn delete(&mut self, names: &[String]) {
        self.intents.retain(|name, _| !names.contains(name));
    }

    fn put(&mut self, version: Version, body: &[u8]) -> PutOutcome {
        let fate = self.fate.take();
        if let Some(Fate::Late(theirs)) = &fate {
            self.log.insert(version, theirs.as_bytes().to_vec());
        }
        if self.log.contains_key(&version) {
            return PutOutcome::Exists;
        }
        self.log.insert(version, body.to_vec());
        match fate {
            Some(Fate::Unanswered) => PutOutcome::Unknown(StoreError::transient("the answer was lost")),
            Some(Fate::Doubled) => PutOutcome::Exists,
            _ => PutOutcome::Won,
        }
    }

    /// Lets the announcements arrive that were held back.
    pub fn let_arrive(&mut self, now: i64) {
        let bodies = std::mem::take(&mut self.held_back);
        let intents = bodies.into_iter().map(|(name, body)| (name, (now, body)));
        self.intents.extend(intents);
    }

    pub fn entries(&self) -> Vec<IntentEntry> {
        let entries = self.intents.iter().map(|(name, (created, body))| IntentEntry {
            name: name.clone(),
            created: *created,
            bytes: body.len() as u64,
        });
        entries.collect()
    }

    /// Creates the next version, as another process does it.
    pub fn commit(&mut self, body: &str) {
        let version = self.log.keys().next_back().map_or(0, |newest| newest + 1);
        self.log.insert(version, body.as_bytes().to_vec());
    }

    /// Announces a body, as another process does it. Returns the intent's name.
    pub fn announce(&mut self, now: u64, number: u128, body: &str) -> String {
        self.announce_for(0, now, number, body)
    }

    /// Announces a body likewise, for the versions from `first` on.
    pub fn announce_for(&mut self, first: Version, now: u64, number: u128, body: &str) -> String {
        let name = format!("{first:020}-{}-0.json", MemberId::from_number(number));
        let body = body.replace(r#""first":0"#, &format!(r#""first":{first}"#));
        let intent = (time_at(now).wall, body.into_bytes());
        self.intents.insert(name.clone(), intent);
        name
    }
}

/// An intent of no known format. Whose it is commits to the table, too.
pub const UNREADABLE: &str = "{\"format\":9}";

/// An id of another process or of its member.
pub const ELSEWHERE: u128 = 1 << 64;

/// The body of an intent with one member.
pub fn intent(changed_in: Version, expires: i64, path: &str) -> String {
    intent_of(2 * ELSEWHERE, changed_in, expires, &[added(path)])
}

/// The body of an intent with one member, of this number and with these actions.
pub fn intent_of(number: u128, changed_in: Version, expires: i64, actions: &[Action]) -> String {
    let id = MemberId::from_number(number);
    let actions: Vec<String> = actions.iter().map(|action| action.to_line().unwrap()).collect();
    let actions = actions.join(",");
    format!(
        r#"{{"format":2,"tableId":"t","changedIn":{changed_in},"first":0,"expires":{expires},"members":1}}
{{"id":"{id}","readVersion":-1,"readAppIds":[],"actions":[{actions}]}}"#
    )
}

/// The body of a version that another process wrote.
pub fn version(members: &[MemberId], actions: &[Action]) -> String {
    let members: Vec<String> = members.iter().map(ToString::to_string).collect();
    let info = format!(
        r#"{{"commitInfo":{{"isBlindAppend":true,"tags":{{"spillway.members":"{}"}}}}}}"#,
        members.join(",")
    );
    let lines = actions.iter().map(|action| action.to_line().unwrap());
    std::iter::once(info).chain(lines).collect::<Vec<_>>().join("\n")
}

pub fn added(path: &str) -> Action {
    Action::Add(Add {
        path: path.to_owned(),
        data_change: true,
        ..Add::default()
    })
}

/// A table that is not there yet.
pub fn new_table() -> Start {
    Start {
        version: BEFORE_FIRST,
        table_id: "t".to_owned(),
        changed_in: BEFORE_FIRST,
        in_commit_timestamp: None,
        high_water_mark: None,
        digest: None,
        known: None,
    }
}

pub fn time_at(milliseconds: u64) -> Time {
    Time {
        monotonic: milliseconds,
        wall: i64::try_from(milliseconds).unwrap(),
    }
}
