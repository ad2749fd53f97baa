//! The times of effects: the steps that each takes, on each kind of store.

use std::collections::HashMap;

use delta_commit::Version;
use delta_commit::log::{Effect, Event, PutOutcome, StoreError};
use serde::Serialize;

use super::events::Moment;
use super::latency::{Gate, Latency, microseconds, side_by_side, transfer};
use super::scenario::{Disk, ObjectStore, ProcessorTimes, StoreModel, Synced};
use super::table::SimulatedTable;
use crate::rng::Rng;

/// The most requests of a process that are under way at once, as in `object-sink`.
const MOST_FLYING: usize = 32;

/// Entries of a page of a listing.
const PAGE: u64 = 1_000;

/// Milliseconds between two readings of an object store's clock: its answers have whole seconds.
const TICK: i64 = 1_000;

/// The most threads that sync files beside the caller, and the files and folders that are worth another one, as in
/// `delta-commit`.
const HELPERS: u64 = 7;
const FOR_A_HELPER: u64 = 4;

/// A step of an effect, or of an append. Each begins when the one before it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimedStep {
    /// So much processor time.
    Cpu(Moment),
    /// So much of it, with Python's lock.
    Locked(Moment),
    /// Syncs: so many side by side, and the time of each on a disk that does nothing else.
    Sync(u64, Moment),
    /// A wait for somebody else.
    Wait(Moment),
    /// The effect takes place.
    Apply,
}

/// Requests by their kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Requests {
    /// GET of versions and intents.
    pub get: u64,
    /// HEAD of intents.
    pub head: u64,
    /// Pages of listings.
    pub list: u64,
    /// Attempts at versions.
    pub conditional_put: u64,
    /// PUT of intents.
    pub put_intent: u64,
    /// PUT of data files.
    pub put_data: u64,
    /// DELETE of intents.
    pub delete: u64,
}

impl Requests {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            get: self.get - before.get,
            head: self.head - before.head,
            list: self.list - before.list,
            conditional_put: self.conditional_put - before.conditional_put,
            put_intent: self.put_intent - before.put_intent,
            put_data: self.put_data - before.put_data,
            delete: self.delete - before.delete,
        }
    }

    /// Those that cost as a PUT, and those that cost as a GET. DELETE costs nothing.
    pub(crate) fn charged(self) -> (u64, u64) {
        let writes = self.list + self.conditional_put + self.put_intent + self.put_data;
        (writes, self.get + self.head)
    }
}

/// The prefix of a table's log and intents, and those of its data files.
#[derive(Debug)]
struct Prefixes {
    reads: Gate,
    writes: Gate,
    data: Gate,
    /// Keys of versions.
    keys: HashMap<Version, Gate>,
}

/// The store of all tables, as far as it takes time.
#[derive(Debug)]
pub(crate) struct StoreTimes {
    store: StoreModel,
    work: ProcessorTimes,
    prefixes: Vec<Prefixes>,
    pub(crate) requests: Requests,
}

impl StoreTimes {
    pub(crate) fn new(store: StoreModel, work: ProcessorTimes, tables: usize) -> Self {
        let (reads, writes, data) = match store {
            StoreModel::ObjectStore(store) => (
                store.reads_per_second,
                store.writes_per_second,
                store.writes_per_second * f64::from(store.data_prefixes),
            ),
            StoreModel::Disk(_) => (0.0, 0.0, 0.0),
        };
        let prefixes = || Prefixes {
            reads: Gate::new(reads),
            writes: Gate::new(writes),
            data: Gate::new(data),
            keys: HashMap::new(),
        };
        Self {
            store,
            work,
            prefixes: (0..tables).map(|_| prefixes()).collect(),
            requests: Requests::default(),
        }
    }

    /// Returns true if data files have to be synced.
    pub(crate) fn syncs(&self) -> bool {
        matches!(self.store, StoreModel::Disk(_))
    }

    /// Syncs that the disk of a host does side by side.
    pub(crate) fn side_by_side(&self) -> u32 {
        match self.store {
            StoreModel::Disk(disk) => disk.side_by_side,
            StoreModel::ObjectStore(_) => 1,
        }
    }

    /// The store's time at this moment: milliseconds.
    pub(crate) fn clock(&self, now: i64) -> i64 {
        match self.store {
            StoreModel::ObjectStore(_) => now - now.rem_euclid(TICK),
            StoreModel::Disk(_) => now,
        }
    }

    /// The steps of writing the data files of an append.
    pub(crate) fn write(&mut self, table: usize, files: usize, now: Moment, rng: &mut Rng) -> Vec<TimedStep> {
        let files = files as u64;
        let mut steps = vec![TimedStep::Locked(self.work.write_us * files)];
        if let StoreModel::ObjectStore(store) = self.store {
            self.requests.put_data += files;
            // Each file is completed before the next one.
            let time: Moment = (0..files).map(|_| store.put.draw(rng)).sum();
            let turn = self.prefixes[table].data.take(now, files);
            steps.extend([
                TimedStep::Cpu(self.work.request_us * files),
                TimedStep::Wait(turn + time),
            ]);
        }
        steps
    }

    /// The steps of an effect.
    pub(crate) fn steps(
        &mut self,
        at: usize,
        table: &SimulatedTable,
        effect: &Effect,
        now: Moment,
        rng: &mut Rng,
    ) -> Vec<TimedStep> {
        if let Effect::Pause(milliseconds) = effect {
            return vec![TimedStep::Wait(milliseconds * 1_000), TimedStep::Apply];
        }
        let mut steps = vec![TimedStep::Cpu(self.work.seal_ns * actions_in(effect) / 1_000)];
        match self.store {
            StoreModel::ObjectStore(store) => {
                let (requests, turn, time) = self.ask(store, at, table, effect, now, rng);
                // The store does it half-way.
                let before = turn + time / 2;
                steps.extend([
                    TimedStep::Cpu(self.work.request_us * requests),
                    TimedStep::Wait(before),
                    TimedStep::Apply,
                    TimedStep::Wait(turn + time - before),
                ]);
            }
            StoreModel::Disk(disk) => {
                steps.extend(on_disk(disk, table, effect));
                steps.push(TimedStep::Apply);
            }
        }
        steps
    }

    /// The further time that an answer takes once the effect took place, and the processor time of reading it. An
    /// answer that takes too long is lost.
    pub(crate) fn answer(
        &mut self,
        at: usize,
        table: &SimulatedTable,
        effect: &Effect,
        event: &mut Event,
        now: Moment,
    ) -> (Moment, Moment) {
        let (bytes, actions) = table.content(event);
        let parsing = self.work.parse_ns * actions / 1_000;
        let StoreModel::ObjectStore(store) = self.store else {
            return (0, parsing);
        };
        match effect {
            Effect::PutVersion(version, _) => {
                let key = self.prefixes[at].keys.entry(*version);
                let turn = key.or_insert_with(|| Gate::new(store.puts_per_key)).take(now, 1);
                let patience = microseconds(store.patience_seconds * 1e3);
                if turn > patience {
                    *event = Event::Put(PutOutcome::Unknown(StoreError::transient("no answer in time")));
                }
                (turn.min(patience), parsing)
            }
            Effect::ReadVersion(_) => (transfer(bytes, store.megabytes_per_second), parsing),
            _ => (0, parsing),
        }
    }

    /// Sends the requests of an effect. Returns their number, the time for which they wait for their turn, and that of
    /// their answers.
    fn ask(
        &mut self,
        store: ObjectStore,
        at: usize,
        table: &SimulatedTable,
        effect: &Effect,
        now: Moment,
        rng: &mut Rng,
    ) -> (u64, Moment, Moment) {
        let prefixes = &mut self.prefixes[at];
        let rate = store.megabytes_per_second;
        let mut time = |latency: Latency| latency.draw(rng);
        match effect {
            Effect::FindTip => {
                // The hint, and a listing from there on.
                self.requests.get += 1;
                self.requests.list += 1;
                (2, prefixes.reads.take(now, 2), time(store.get) + time(store.list))
            }
            Effect::ReadVersion(_) => {
                self.requests.get += 1;
                (1, prefixes.reads.take(now, 1), time(store.get))
            }
            Effect::CheckVersion(..) => {
                self.requests.head += 1;
                (1, prefixes.reads.take(now, 1), time(store.get))
            }
            Effect::PutVersion(_, body) => {
                self.requests.conditional_put += 1;
                let sent = transfer(body.len() as u64, rate);
                (
                    1,
                    prefixes.writes.take(now, 1) + sent,
                    time(store.conditional_put),
                )
            }
            Effect::PutIntent(_, body) => {
                self.requests.put_intent += 1;
                let sent = transfer(body.len() as u64, rate);
                (1, prefixes.writes.take(now, 1) + sent, time(store.put))
            }
            Effect::ListIntents => {
                let pages = table.announced().div_ceil(PAGE).max(1);
                self.requests.list += pages;
                let all = (0..pages).map(|_| time(store.list)).sum();
                (pages, prefixes.reads.take(now, pages), all)
            }
            Effect::ReadIntents(unread, known) => {
                self.requests.get += unread.len() as u64;
                self.requests.head += known.len() as u64;
                let body = |name: &String| time(store.get) + transfer(table.intent_bytes(name), rate);
                let bodies = side_by_side(unread.iter().map(body), MOST_FLYING);
                let heads = side_by_side(known.iter().map(|_| time(store.get)), MOST_FLYING);
                let requests = (unread.len() + known.len()) as u64;
                (requests, prefixes.reads.take(now, requests), bodies.max(heads))
            }
            Effect::DeleteIntents(names) | Effect::WithdrawIntents(names) => {
                let requests = names.len() as u64;
                self.requests.delete += requests;
                let all = side_by_side(names.iter().map(|_| time(store.put)), MOST_FLYING);
                (requests, prefixes.writes.take(now, requests), all)
            }
            // What was seen survives a crash, and appends merge no rows.
            Effect::SyncData(_)
            | Effect::SyncLog(..)
            | Effect::RetractVersion(..)
            | Effect::Merge(_)
            | Effect::Pause(_) => (0, 0, 0),
        }
    }
}

/// The actions that an effect writes.
fn actions_in(effect: &Effect) -> u64 {
    match effect {
        // The first line is no member's, and nothing follows the last one.
        Effect::PutVersion(_, body) | Effect::PutIntent(_, body) => {
            let lines = body.split(|byte| *byte == b'\n').count();
            lines.saturating_sub(2) as u64
        }
        _ => 0,
    }
}

/// The work of an effect on a disk.
fn on_disk(disk: Disk, table: &SimulatedTable, effect: &Effect) -> Vec<TimedStep> {
    let alone = |time| vec![TimedStep::Cpu(time)];
    match effect {
        Effect::FindTip => alone(disk.find_tip_us),
        Effect::ReadVersion(_) | Effect::CheckVersion(..) => alone(disk.read_version_us),
        // It looks before it writes.
        Effect::PutVersion(version, _) if table.has(*version) => alone(disk.read_version_us),
        Effect::PutVersion(..) => synced(disk.put_version, 1, 1),
        Effect::ListIntents => alone(disk.list_intents_us + disk.list_intent_us * table.announced()),
        Effect::ReadIntents(unread, known) => {
            alone(disk.read_intent_us * (unread.len() + known.len()) as u64)
        }
        Effect::PutIntent(..) => alone(disk.put_intent_us),
        Effect::DeleteIntents(names) | Effect::WithdrawIntents(names) => {
            alone(disk.delete_intent_us * names.len() as u64)
        }
        Effect::SyncData(files) => {
            let files = files.len() as u64;
            // Each is in a folder of its own, and all are in the table's.
            let threads = 1 + ((2 * files + 1) / FOR_A_HELPER).min(HELPERS);
            let lanes = files.min(threads);
            synced(disk.sync_data, files, lanes)
        }
        // Versions of committers are synced by the log's folder.
        Effect::SyncLog(_, last) if *last <= table.synced => synced(disk.sync_again, 1, 1),
        Effect::SyncLog(..) => synced(disk.sync_log, 1, 1),
        Effect::RetractVersion(..) | Effect::Merge(_) | Effect::Pause(_) => Vec::new(),
    }
}

/// Syncs in several lanes side by side: one wait after the other, each with its part of the processor time before it.
fn synced(each: Synced, count: u64, lanes: u64) -> Vec<TimedStep> {
    let waits = each.waits.max(1);
    let rounds = count.div_ceil(lanes.max(1));
    (0..waits)
        .flat_map(|wait| {
            let part = |whole: u64| whole * (wait + 1) / waits - whole * wait / waits;
            [
                TimedStep::Cpu(part(each.cpu_us * count)),
                TimedStep::Sync(lanes, part(each.disk_us * rounds)),
            ]
        })
        .collect()
}
