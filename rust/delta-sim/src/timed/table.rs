//! A table as its store holds it. Each body is parsed once, for all processes that read it.

use std::collections::BTreeMap;
use std::sync::Arc;

use delta_commit::actions::{Action, Metadata, Protocol};
use delta_commit::log::{Effect, Event, IntentEntry, Listing, PutOutcome, VersionPresence};
use delta_commit::winner::Winner;
use delta_commit::{ParsedIntent, Start, Version};

/// The id of every table.
const ID: &str = "table";

/// An intent that is there.
#[derive(Debug)]
struct Announced {
    created: i64,
    intent: ParsedIntent,
}

/// A version, and the bytes of its body.
#[derive(Debug)]
struct LogEntry {
    winner: Arc<Winner>,
    bytes: u64,
}

/// The log of a table and its intents.
#[derive(Debug)]
pub(crate) struct SimulatedTable {
    log: Vec<LogEntry>,
    intents: BTreeMap<String, Announced>,
    /// The newest version that survives a crash.
    pub(crate) synced: Version,
    /// The first event that a store must never see.
    pub(crate) violation: Option<String>,
}

impl SimulatedTable {
    /// A table without rows.
    pub(crate) fn new() -> Self {
        let (protocol, metadata) = world();
        let winner = Winner::of(0, vec![Action::Protocol(protocol), Action::Metadata(metadata)]);
        Self {
            log: vec![LogEntry {
                winner: Arc::new(winner),
                bytes: 0,
            }],
            intents: BTreeMap::new(),
            synced: 0,
            violation: None,
        }
    }

    /// The state with which a process begins.
    pub(crate) fn start() -> Start {
        Start {
            version: 0,
            table_id: ID.to_owned(),
            changed_in: 0,
            in_commit_timestamp: None,
            high_water_mark: None,
            digest: None,
            known: Some(world()),
        }
    }

    /// Versions beside the first one.
    pub(crate) fn versions(&self) -> u64 {
        self.log.len() as u64 - 1
    }

    /// All versions.
    pub(crate) fn winners(&self) -> Vec<Arc<Winner>> {
        self.log.iter().map(|stored| Arc::clone(&stored.winner)).collect()
    }

    fn get(&self, version: Version) -> Option<&LogEntry> {
        self.log.get(usize::try_from(version).ok()?)
    }

    pub(crate) fn has(&self, version: Version) -> bool {
        self.get(version).is_some()
    }

    /// The number of intents that a listing shows.
    pub(crate) fn announced(&self) -> u64 {
        self.intents.len() as u64
    }

    /// The bytes of an intent; 0 if it is gone.
    pub(crate) fn intent_bytes(&self, name: &str) -> u64 {
        self.intents.get(name).map_or(0, |found| found.intent.bytes())
    }

    /// The bytes and the actions of what an event brings.
    pub(crate) fn content(&self, event: &Event) -> (u64, u64) {
        match event {
            Event::Parsed(Some(winner)) => {
                let bytes = self.get(winner.version).map_or(0, |stored| stored.bytes);
                (bytes, winner.adds.len() as u64)
            }
            Event::ParsedIntents(parsed, _) => {
                let bytes = parsed.iter().map(|(_, intent)| intent.bytes()).sum();
                (
                    bytes,
                    parsed.iter().map(|(_, intent)| intent.actions() as u64).sum(),
                )
            }
            _ => (0, 0),
        }
    }

    /// Does an effect, at this time of the store's clock.
    pub(crate) fn apply(&mut self, effect: &Effect, now: i64) -> Event {
        match effect {
            Effect::FindTip => Event::Tip(Version::try_from(self.versions()).unwrap_or(Version::MAX)),
            Effect::ReadVersion(version) => {
                Event::Parsed(self.get(*version).map(|stored| Arc::clone(&stored.winner)))
            }
            Effect::PutVersion(version, body) => Event::Put(self.put(*version, body)),
            // Nobody deletes it.
            Effect::CheckVersion(..) => Event::Standing(VersionPresence::Same),
            Effect::RetractVersion(..) => Event::Retracted(false),
            Effect::ListIntents => Event::Listing(self.listing(now)),
            Effect::ReadIntents(unread, known) => self.read(unread, known),
            Effect::PutIntent(name, body) => {
                self.announce(name, body, now);
                Event::Done
            }
            Effect::DeleteIntents(names) | Effect::WithdrawIntents(names) => {
                for name in names {
                    self.intents.remove(name);
                }
                Event::Done
            }
            Effect::SyncData(files) => Event::Synced(vec![Ok(()); files.len()]),
            Effect::SyncLog(_, last) => {
                self.synced = self.synced.max(*last);
                Event::Done
            }
            Effect::Merge(request) => Event::Merged(request.answer().map(Box::new)),
            Effect::Pause(_) => Event::Done,
        }
    }

    fn put(&mut self, version: Version, body: &[u8]) -> PutOutcome {
        if self.has(version) {
            return PutOutcome::Exists;
        }
        if !self.has(version - 1) {
            self.violate(format!(
                "version {version} was created, but there is no {}",
                version - 1
            ));
        }
        match Winner::parse(version, body) {
            Ok(winner) => self.log.push(LogEntry {
                winner: Arc::new(winner),
                bytes: body.len() as u64,
            }),
            Err(error) => self.violate(format!("version {version} is no commit: {error}")),
        }
        PutOutcome::Won
    }

    fn listing(&self, now: i64) -> Listing {
        let entry = |(name, found): (&String, &Announced)| IntentEntry {
            name: name.clone(),
            created: found.created,
            bytes: found.intent.bytes(),
        };
        Listing {
            now,
            entries: self.intents.iter().map(entry).collect(),
        }
    }

    fn read(&self, unread: &[String], known: &[String]) -> Event {
        let body = |name: &String| Some((name.clone(), self.intents.get(name)?.intent.clone()));
        let is_there = |name: &&String| self.intents.contains_key(*name);
        Event::ParsedIntents(
            unread.iter().filter_map(body).collect(),
            known.iter().filter(is_there).cloned().collect(),
        )
    }

    fn announce(&mut self, name: &str, body: &[u8], now: i64) {
        match ParsedIntent::parse(body) {
            Ok(intent) => {
                let announced = Announced { created: now, intent };
                self.intents.insert(name.to_owned(), announced);
            }
            Err(error) => self.violate(format!("{name} is no intent: {error}")),
        }
    }

    fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }
}

fn world() -> (Protocol, Metadata) {
    let metadata = Metadata {
        id: ID.to_owned(),
        partition_columns: vec!["partition".to_owned()],
        ..Metadata::default()
    };
    (Protocol::default(), metadata)
}
