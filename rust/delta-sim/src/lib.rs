//! A simulator of many processes that commit to one table over a store that fails.
//!
//! It drives the real committer. [`delta_commit::Machine`] does no I/O, so every effect passes through here. It is
//! applied at one moment and answered at another; both moments and all failures follow from a seed. In [`timed`]
//! nothing fails, and everything takes its time.

mod check;
mod client;
mod coverage;
pub mod lifetimes;
mod marks;
mod moves;
mod order;
mod rng;
mod store;
pub mod timed;

use std::collections::BTreeMap;

use delta_commit::actions::{Action, Metadata, Protocol};
use delta_commit::log::{BEFORE_FIRST, Effect, Event, PutOutcome, Time};
use delta_commit::rules::ProtocolRules;
use delta_commit::winner::Winner;
use delta_commit::{
    CLOCK_MARGIN, CommitError, Isolation, LIFETIME, Machine, MemberId, Outcome, Start, Submission,
    Transaction, Verdict, Version, WINDOW,
};

use client::{SimulatedClient, Told};
pub use coverage::Coverage;
use rng::Rng;
use store::{Faults, SKEW, Store, around};

const TEN_MINUTES: i64 = 10 * 60 * 1_000;

/// Steps, with all faults gone, after which a process that still works counts as blocked.
const PATIENCE: usize = 100_000;

/// The most processes of a schedule that are cloned further.
const MOST_PROCESSES: usize = 10;

/// The state of an effect that is under way.
#[derive(Debug)]
enum Flight {
    /// To be applied.
    Issued(Effect),
    /// To be told.
    Answered(Effect, Event),
}

struct Process {
    id: MemberId,
    machine: Machine,
    flight: Option<Flight>,
    /// Names of intents that it is deleting beside that.
    deleting: Vec<String>,
}

struct Simulation {
    rng: Rng,
    rules: ProtocolRules,
    /// True if some processes are of the former version.
    mixed: bool,
    /// The level of the table.
    isolation: Isolation,
    store: Store,
    processes: Vec<Process>,
    clients: BTreeMap<MemberId, SimulatedClient>,
    numbers: u128,
    calm: bool,
    authors: BTreeMap<Version, usize>,
    coverage: Coverage,
}

/// Runs the schedule of a seed.
///
/// # Errors
/// The first promise that was broken, in words.
pub fn run(seed: u64, rules: ProtocolRules) -> Result<Coverage, String> {
    let mut simulation = Simulation::new(seed, rules);
    let steps = 300 + simulation.rng.below(700);
    for _ in 0..steps {
        simulation.step();
        if let Some(violation) = simulation.store.violation.take() {
            return Err(violation);
        }
    }
    simulation.come_to_rest()?;
    if let Some(promise) = check::broken_promise(&simulation.store, &simulation.clients, simulation.calm) {
        return Err(promise);
    }
    Ok(simulation.tally())
}

fn faults(kind: u64, rng: &mut Rng) -> Faults {
    let mut often = |most: usize| if rng.permille(500) { rng.below(most) } else { 0 };
    match kind {
        // Nothing fails: the bound must hold.
        0 => Faults::default(),
        // A local disk.
        1 => Faults {
            lost: often(20),
            volatile: true,
            refused: often(6),
            busy: often(100),
            bad_data: often(20),
            bad_log: often(10),
            ..Faults::default()
        },
        // An object store, on bad days.
        _ => Faults {
            lost: often(200),
            phantom: often(100),
            stale: often(400),
            late: true,
            slow: often(600),
            skewed: true,
            refused: often(6),
            throttled: often(300),
            busy: often(100),
            bad_data: often(20),
            ..Faults::default()
        },
    }
}

impl Simulation {
    fn new(seed: u64, rules: ProtocolRules) -> Self {
        let mut rng = Rng::new(seed);
        let kind = seed % 4;
        let mut store = Store::new(faults(kind, &mut rng));
        create_table(&mut store);
        // Each kind of store has tables of both levels.
        let isolation = if seed / 32 % 4 == 3 {
            Isolation::WriteSerializable
        } else {
            Isolation::Serializable
        };
        let mut simulation = Self {
            rng,
            // In half of the schedules nobody waits for others, so that there are more races.
            rules: ProtocolRules {
                leaves_to_others: (seed / 4).is_multiple_of(2),
                ..rules
            },
            mixed: kind != 0 && (seed / 8).is_multiple_of(4),
            isolation,
            store,
            processes: Vec::new(),
            clients: BTreeMap::new(),
            numbers: 1,
            calm: kind == 0,
            authors: BTreeMap::new(),
            coverage: Coverage::default(),
        };
        for _ in 0..2 + simulation.rng.below(6) {
            let process = simulation.open();
            simulation.processes.push(process);
        }
        simulation
    }

    fn number(&mut self) -> u128 {
        self.numbers += 1;
        self.numbers
    }

    /// Starts a process that opens the table at its tip. It has read no versions before that, as after reading a
    /// checkpoint.
    fn open(&mut self) -> Process {
        let version = self.store.tip();
        let winners = self.winners();
        let changed_in = winners
            .iter()
            .rfind(|winner| winner.changes_world())
            .map_or(BEFORE_FIRST, |winner| winner.version);
        let metadata = winners.iter().rev().find_map(|winner| winner.metadata.clone());
        let start = Start {
            version,
            table_id: "table".to_owned(),
            changed_in,
            in_commit_timestamp: None,
            digest: winners.last().and_then(|winner| winner.digest),
            high_water_mark: winners.iter().rev().find_map(|winner| winner.high_water_mark),
            known: metadata.map(|metadata| (protocol(), metadata)),
        };
        let id = MemberId::from_number(self.number());
        let rules = self.rules_of_one();
        Process {
            id,
            machine: Machine::with_rules(id, start, rules),
            flight: None,
            deleting: Vec::new(),
        }
    }

    /// The rules of a new process. One of the former version waits for nobody, and its intents have no expiry.
    fn rules_of_one(&mut self) -> ProtocolRules {
        if !self.mixed || self.rng.permille(500) {
            return self.rules;
        }
        ProtocolRules {
            leaves_to_others: false,
            expiring_intents: false,
            ..self.rules
        }
    }

    fn winners(&self) -> Vec<Winner> {
        check::winners(&self.store).unwrap_or_default()
    }

    fn time(&self) -> Time {
        Time {
            monotonic: u64::try_from(self.store.now).unwrap_or(0),
            wall: self.store.now,
        }
    }

    fn step(&mut self) {
        self.store.now += i64::try_from(self.rng.below(20)).unwrap_or(0);
        let at = self.rng.below(self.processes.len());
        match self.rng.below(1_000) {
            0..120 => self.submit(at),
            120..150 => self.submit_to_all(),
            150..165 if !self.calm => self.time_out(),
            165..195 if !self.calm => self.ask_about_a_doubt(at),
            195..200 if !self.calm => self.kill(at),
            200..203 if self.store.faults.volatile => self.cut_power(),
            203..206 if !self.calm => self.let_time_pass(),
            206..209 => self.clone_one(at),
            209..250 => self.store.arrive(&mut self.rng),
            250..320 => drop(self.tidy(at)),
            _ => drop(self.advance(at)),
        }
    }

    fn submit(&mut self, at: usize) {
        let read_version = self.processes[at].machine.tip();
        let mut read = self.winners();
        read.retain(|winner| winner.version <= read_version);
        let number = self.number();
        let mut transaction = client::transaction(&mut self.rng, number, &read, read_version, self.isolation);
        transaction.isolation = self.isolation;
        if transaction.marks.is_none() || transaction.operation.name == moves::OPTIMIZE {
            transaction.unsynced = transaction.added_paths().map(str::to_owned).collect();
        }
        for path in &transaction.unsynced {
            self.store.write_data(path);
        }
        let Ok(submission) = Submission::new(transaction.clone()) else {
            self.store.violation = Some("a client's transaction was refused unseen".to_owned());
            return;
        };
        self.processes[at].machine.submit(submission);
        let client = SimulatedClient {
            transaction,
            process: at,
            told: Told::Nothing,
            lost_races: 0,
            announced: false,
        };
        self.clients.insert(client.transaction.id, client);
    }

    /// Many at once are what makes races.
    fn submit_to_all(&mut self) {
        for at in 0..self.processes.len() {
            self.submit(at);
        }
    }

    /// Brings a process one small step forward.
    fn advance(&mut self, at: usize) -> bool {
        let time = self.time();
        if self.processes[at].machine.is_outdated() {
            self.open_again(at);
        }
        let process = &mut self.processes[at];
        match process.flight.take() {
            None => {
                let effect = process.machine.next(time);
                let busy = effect.is_some();
                process.flight = effect.map(Flight::Issued);
                self.deliver(at);
                busy
            }
            Some(Flight::Issued(effect)) => {
                let event = self.store.apply(process.id, &effect, &mut self.rng);
                if let (Effect::PutVersion(version, _), Event::Put(PutOutcome::Won)) = (&effect, &event) {
                    self.authors.insert(*version, at);
                }
                if let Event::Merged(Ok(merged)) = &event {
                    self.coverage.merged += 1;
                    self.coverage.moved += usize::from(merged.operation.name == moves::OPTIMIZE);
                }
                self.processes[at].flight = Some(Flight::Answered(effect, event));
                true
            }
            Some(Flight::Answered(effect, event)) => {
                self.count_races(at, &effect, &event);
                self.processes[at].machine.complete(time, event);
                self.deliver(at);
                true
            }
        }
    }

    /// Brings the deletion of intents of no more use forward, which goes on beside the commits of a process.
    fn tidy(&mut self, at: usize) -> bool {
        let process = &mut self.processes[at];
        if process.deleting.is_empty() {
            let names = process.machine.take_garbage();
            let tip = process.machine.tip();
            process.deleting.clone_from(&names);
            if let Some(name) = names.iter().find(|name| self.is_awaited(name, tip)) {
                let violation = format!("{name} is deleted, but a member that waits is in no version");
                self.store.violation.get_or_insert(violation);
            }
            return !names.is_empty();
        }
        let names = std::mem::take(&mut process.deleting);
        // It may fail, and nobody looks whether it did.
        let _ = self
            .store
            .apply(process.id, &Effect::DeleteIntents(names.clone()), &mut self.rng);
        process.machine.tidied(&names);
        true
    }

    /// Returns true if an intent may still land after this tip, and has a member that waits and is in no version.
    fn is_awaited(&self, name: &str, tip: Version) -> bool {
        let first: Option<Version> = name.split('-').next().and_then(|digits| digits.parse().ok());
        if first.is_none_or(|first| first + WINDOW - 1 <= tip) {
            return false;
        }
        let members = self.store.members_of(name);
        let mut waiting = self
            .clients
            .iter()
            .filter(|(id, client)| matches!(client.told, Told::Nothing) && members.contains(&id.to_string()));
        waiting.any(|(id, _)| !self.store.holds(*id))
    }

    /// Opens the table again for a process that the log cleanup has passed.
    fn open_again(&mut self, at: usize) {
        self.deliver(at);
        let waiting = self.with(|told| matches!(told, Told::Nothing));
        for id in waiting {
            if self.clients[&id].process == at
                && let Some(verdict) = self.processes[at].machine.give_up(id)
            {
                self.tell(id, verdict);
            }
        }
        self.processes[at] = self.open();
    }

    /// Counts the races that R7 bounds: those lost after the announcement, to bundles of blind appends.
    fn count_races(&mut self, at: usize, effect: &Effect, event: &Event) {
        match (effect, event) {
            (Effect::PutIntent(_, body), Event::Done) => {
                let text = String::from_utf8_lossy(body);
                for client in self.clients.values_mut().filter(|client| client.process == at) {
                    client.announced |= text.contains(&client.transaction.id.to_string());
                }
            }
            (Effect::PutVersion(version, body), Event::Put(PutOutcome::Exists)) => {
                let Ok(mine) = Winner::parse(*version, body) else {
                    return;
                };
                let blind = self
                    .store
                    .history
                    .get(version)
                    .and_then(|body| Winner::parse(*version, body).ok())
                    .is_some_and(|winner| winner.is_blind_append());
                for client in self.clients.values_mut() {
                    let own = client.process == at && mine.members.contains(&client.transaction.id);
                    client.lost_races += u32::from(own && blind && client.announced);
                }
            }
            _ => {}
        }
    }

    fn deliver(&mut self, at: usize) {
        for (id, verdict) in self.processes[at].machine.take_verdicts() {
            self.tell(id, verdict);
        }
    }

    fn tell(&mut self, id: MemberId, verdict: Verdict) {
        let Some(client) = self.clients.get_mut(&id) else {
            self.store.violation = Some(format!("a verdict for nobody: {id}"));
            return;
        };
        let told = match verdict {
            Verdict::Commit(Ok(version)) | Verdict::Settled(Outcome::Committed(version)) => {
                Told::Committed(version)
            }
            Verdict::Commit(Err(CommitError::Unknown { token, .. })) => {
                self.coverage.doubts += 1;
                Told::Doubt(token)
            }
            Verdict::Commit(Err(error)) => Told::Rejected(error.to_string()),
            Verdict::Settled(Outcome::Rejected) => Told::Rejected("settled".to_owned()),
            Verdict::Settled(Outcome::Unknowable) => Told::Unknowable,
            Verdict::Settled(Outcome::Pending) => return,
        };
        let settled = matches!(client.told, Told::Doubt(_)) && !matches!(told, Told::Unknowable);
        self.coverage.settled += usize::from(settled);
        if matches!(told, Told::Rejected(_)) {
            // A rejection is final, so the client tidies up.
            for path in &client.transaction.unsynced {
                self.store.delete_data(path);
            }
        }
        client.told = told;
    }

    /// A client's deadline passes.
    fn time_out(&mut self) {
        let mut waiting: Vec<MemberId> = self.with(|told| matches!(told, Told::Nothing));
        let announced = waiting.iter().filter(|id| self.store.has_announced(**id));
        let announced: Vec<MemberId> = announced.copied().collect();
        if !announced.is_empty() && self.rng.permille(700) {
            waiting = announced;
        }
        if waiting.is_empty() {
            return;
        }
        let id = waiting[self.rng.below(waiting.len())];
        let process = self.clients[&id].process;
        if let Some(verdict) = self.processes[process].machine.give_up(id) {
            self.tell(id, verdict);
        }
        // Some ask at once.
        if self.rng.permille(500) {
            let at = self.rng.below(self.processes.len());
            self.ask(at, id);
        }
    }

    fn with(&self, wanted: impl Fn(&Told) -> bool) -> Vec<MemberId> {
        let found = self.clients.iter().filter(|(_, client)| wanted(&client.told));
        found.map(|(id, _)| *id).collect()
    }

    /// Asks a process, this one or another, about a commit in doubt.
    fn ask_about_a_doubt(&mut self, at: usize) {
        let is_slow = |told: &Told| matches!(told, Told::Doubt(token) if token.announcement_in_doubt);
        let mut doubts = self.with(is_slow);
        if doubts.is_empty() || self.rng.permille(500) {
            doubts = self.with(|told| matches!(told, Told::Doubt(_)));
        }
        if doubts.is_empty() {
            return;
        }
        let id = doubts[self.rng.below(doubts.len())];
        self.ask(at, id);
    }

    fn ask(&mut self, at: usize, id: MemberId) {
        let Told::Doubt(token) = &self.clients[&id].told else {
            return;
        };
        let token = token.clone();
        if let Some(expires) = token.expires.filter(|_| token.announcement_in_doubt) {
            self.await_expiry(expires);
        }
        if let Err(error) = self.processes[at].machine.settle(&token) {
            self.store.violation = Some(error.to_string());
        }
        if self.rng.permille(500) {
            self.run_alone(at);
            self.store.arrive_announced(&mut self.rng);
        }
    }

    /// Lets time pass for one who was told to ask again later: none, until about the expiry, or until it is past for
    /// all.
    fn await_expiry(&mut self, expires: i64) {
        let until = match self.rng.below(3) {
            0 => expires + CLOCK_MARGIN + SKEW + 1,
            1 => expires + around(&mut self.rng, SKEW),
            _ => return,
        };
        self.store.now = self.store.now.max(until);
    }

    /// Brings one process forward, as if all others were slow.
    fn run_alone(&mut self, at: usize) {
        for _ in 0..self.rng.below(100) {
            self.advance(at);
        }
    }

    /// Kills the process between two operations, and starts another in its place.
    fn kill(&mut self, at: usize) {
        self.coverage.crashes += 1;
        for client in self.clients.values_mut() {
            if client.process == at && matches!(client.told, Told::Nothing) {
                client.told = Told::Died;
            }
        }
        self.processes[at] = self.open();
    }

    /// Goes on with a process twice, from the same moment, as a virtual machine from a snapshot. None of its clients
    /// waits: two that wait for one transaction would each hold its files.
    fn clone_one(&mut self, from: usize) {
        let count = self.processes.len();
        if count >= MOST_PROCESSES {
            return;
        }
        let is_idle = |at: &usize| {
            let process = &self.processes[*at];
            let mut clients = self.clients.values().filter(|client| client.process == *at);
            process.flight.is_none()
                && process.deleting.is_empty()
                && !clients.any(|client| matches!(client.told, Told::Nothing))
        };
        let Some(at) = (from..count).chain(0..from).find(is_idle) else {
            return;
        };
        let id = MemberId::from_number(self.number());
        self.processes.push(Process {
            id,
            machine: self.processes[at].machine.cloned_as(id),
            flight: None,
            deleting: Vec::new(),
        });
        self.coverage.clones += 1;
        // Both commit at once.
        self.submit(at);
        self.submit(count);
    }

    fn cut_power(&mut self) {
        self.coverage.power_cuts += 1;
        self.store.cut_power(&mut self.rng);
        if let Some(promise) = check::broken_promise(&self.store, &self.clients, self.calm) {
            self.store.violation = Some(format!("after a power cut: {promise}"));
            return;
        }
        for at in 0..self.processes.len() {
            self.kill(at);
        }
    }

    /// Lets intents grow old. When nothing is under way, enough time may pass for the log to be cleaned up.
    fn let_time_pass(&mut self) {
        let writing = self.processes.iter().any(|process| {
            let effect = match &process.flight {
                Some(Flight::Issued(effect) | Flight::Answered(effect, _)) => Some(effect),
                None => None,
            };
            matches!(
                effect,
                Some(Effect::PutVersion(..) | Effect::ListIntents | Effect::ReadIntents(..))
            )
        });
        // Nobody makes a checkpoint of what cannot be synced.
        let is_kept = writing || self.store.has_late() || self.store.has_doomed_version();
        if is_kept || self.rng.permille(600) {
            let times = [LIFETIME / 2 + 1, LIFETIME + CLOCK_MARGIN + 1];
            self.store.now += times[self.rng.below(2)];
        } else {
            self.store.now += TEN_MINUTES + 2;
            let with_newest = self.rng.permille(500);
            self.store.clean_up(TEN_MINUTES + 1, with_newest);
        }
    }

    /// Checks that every client gets a verdict once all faults are gone, whichever processes died.
    fn come_to_rest(&mut self) -> Result<(), String> {
        while self.store.has_late() {
            self.store.arrive(&mut self.rng);
        }
        self.store.faults = Faults {
            volatile: self.store.faults.volatile,
            ..Faults::default()
        };
        self.run_until_idle()?;
        if self.store.has_doomed_version() {
            // No process goes on from there, and a new one would not know: nobody told it.
            self.cut_power();
        }
        // Doubts are brought to one who just opened the table.
        let newest = self.open();
        self.processes.push(newest);
        self.settle_doubts()?;
        // An announcement that may still arrive is of no use once it has expired.
        self.store.now += LIFETIME + CLOCK_MARGIN + SKEW + 1;
        self.settle_doubts()?;
        let open = self.with(|told| match told {
            Told::Nothing => true,
            // Those of the former version are pending until their window is closed.
            Told::Doubt(token) => !token.announcement_in_doubt || token.expires.is_some(),
            _ => false,
        });
        match open.first() {
            Some(id) => Err(format!("{id} never got an answer: {:?}", self.clients[id].told)),
            None => self.store.violation.take().map_or(Ok(()), Err),
        }
    }

    /// Asks some process about each doubt.
    fn settle_doubts(&mut self) -> Result<(), String> {
        for id in self.with(|told| matches!(told, Told::Doubt(_))) {
            if let Told::Doubt(token) = self.clients[&id].told.clone() {
                let at = self.rng.below(self.processes.len());
                let settled = self.processes[at].machine.settle(&token);
                settled.map_err(|e| e.to_string())?;
            }
        }
        self.run_until_idle()
    }

    fn run_until_idle(&mut self) -> Result<(), String> {
        let mut idle = 0;
        for _ in 0..PATIENCE {
            self.store.now += 1;
            let at = self.rng.below(self.processes.len());
            let is_busy = self.advance(at) | self.tidy(at);
            idle = if is_busy { 0 } else { idle + 1 };
            if idle > 20 * self.processes.len() && self.processes.iter().all(|p| p.flight.is_none()) {
                return Ok(());
            }
        }
        Err("a process does not come to rest".to_owned())
    }

    fn tally(mut self) -> Coverage {
        let winners = self.winners();
        self.coverage.versions = winners.len();
        self.coverage.doomed = self.store.doomed;
        self.coverage.after_checkpoint = self.store.after_checkpoint;
        for client in self.clients.values() {
            match &client.told {
                Told::Committed(version) => {
                    self.coverage.committed += 1;
                    let author = self.authors.get(version);
                    self.coverage.helped += usize::from(author.is_some_and(|a| *a != client.process));
                }
                Told::Rejected(_) => self.coverage.rejected += 1,
                _ => {}
            }
        }
        self.coverage
    }
}

/// The protocol of the table, whose rows have ids.
fn protocol() -> Protocol {
    Protocol {
        min_writer_version: 7,
        writer_features: Some(["rowTracking", "domainMetadata"].map(str::to_owned).to_vec()),
        ..Protocol::default()
    }
}

fn create_table(store: &mut Store) {
    let metadata = Metadata {
        id: "table".to_owned(),
        ..Metadata::default()
    };
    let actions = vec![Action::Protocol(protocol()), Action::Metadata(metadata)];
    let creation = Transaction::append(MemberId::from_number(1), BEFORE_FIRST, actions);
    let lines: Result<Vec<String>, CommitError> = creation.actions.iter().map(Action::to_line).collect();
    let faults = std::mem::take(&mut store.faults);
    if let Ok(lines) = lines {
        let body = lines.join("\n").into_bytes();
        for effect in [Effect::PutVersion(0, body), Effect::SyncLog(0, 0)] {
            let _ = store.apply(creation.id, &effect, &mut Rng::new(0));
        }
    }
    store.faults = faults;
}
