//! The processes, their threads, and the hosts that they run on.

use std::collections::{HashMap, VecDeque};

use delta_commit::actions::{Action, Add, PartitionValues};
use delta_commit::log::{Effect, Event, Time};
use delta_commit::rules::Rules;
use delta_commit::{
    CommitError, EffectKind, Machine, MemberId, Submission, Timings, Transaction, Verdict, Version,
};

use super::clock::{Agenda, Moment};
use super::latency::{gap, microseconds};
use super::medium::{Medium, Step};
use super::report::{Counts, Course, Report};
use super::scenario::{Load, Scenario};
use super::shared::Shared;
use super::table::Table;
use crate::check;
use crate::client::Told;
use crate::rng::Rng;

/// The start of the simulation: milliseconds since the epoch.
const BIRTH: i64 = 1_700_000_000_000;

/// The time after which a burst counts as stuck: ten hours.
const PATIENCE: Moment = 36_000 * 1_000_000;

/// The statistics of a small file.
const STATS: &str = r#"{"numRecords":10,"minValues":{"writer":1,"number":1,"row":0,"message":"writer 1 says 0 in append 1"},"maxValues":{"writer":1,"number":1,"row":9,"message":"writer 1 says 9 in append 1"},"nullCount":{"writer":0,"number":0,"row":0,"message":0}}"#;

/// A thread, by the number of its desk or of its writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Thread {
    /// The one that leads.
    Lead(usize),
    /// The one that deletes intents.
    Tidy(usize),
    /// The one that writes the shared files of appends.
    Coalesce(usize),
    /// One that makes checkpoints. Nobody waits for it.
    Checkpoint(usize),
    Writer(usize),
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A thread goes on.
    Goes(Thread),
    /// A job on the cores of a host ends, if none has begun since.
    Core(usize, u64),
    /// A job on the disk of a host ends, if none has begun since.
    Disk(usize, u64),
    /// A process pauses.
    Pause(usize),
}

struct Host {
    cores: Shared<Thread>,
    disk: Shared<Thread>,
    /// Milliseconds by which its clock is early.
    skew: i64,
}

/// An effect that is under way.
struct Flight {
    effect: Effect,
    event: Option<Event>,
    began: Moment,
}

/// The committer of one table in one process.
struct Desk {
    process: usize,
    table: usize,
    machine: Machine,
    timings: Timings,
    /// Transactions without a verdict.
    waiting: usize,
    is_led: bool,
    is_tidied: bool,
    is_coalescing: bool,
    /// Writers whose rows are to share a file.
    queue: Vec<usize>,
    /// Writers whose rows do.
    sharing: Vec<usize>,
}

struct Writer {
    desk: usize,
    /// Appends that it is yet to begin; none where there is no end of them.
    left: Option<u64>,
    /// The moment at which its append began, for those that come at a rate.
    due: Moment,
    /// The moment from which its wait counts, while it waits.
    since: Option<Moment>,
}

/// The owner of a transaction.
enum Owner {
    Writer(usize),
    /// All writers that share its file.
    Sharing,
}

pub(super) struct Fleet<'a> {
    scenario: &'a Scenario,
    rng: Rng,
    now: Moment,
    agenda: Agenda<What>,
    hosts: Vec<Host>,
    /// The moment until which each process pauses.
    paused: Vec<Moment>,
    desks: Vec<Desk>,
    tables: Vec<Table>,
    medium: Medium,
    writers: Vec<Writer>,
    /// The steps that each thread has yet to take.
    steps: HashMap<Thread, VecDeque<Step>>,
    flights: HashMap<Thread, Flight>,
    owners: HashMap<MemberId, Owner>,
    told: Vec<Vec<(MemberId, Told)>>,
    numbers: u128,
    cpu: Moment,
    /// Writers that have appends to make.
    busy: usize,
    /// The counts at the moment from which they are reported, once that has come.
    before: Option<Counts>,
    answered: Vec<Moment>,
    failed: u64,
    violation: Option<String>,
}

impl<'a> Fleet<'a> {
    pub(super) fn new(scenario: &'a Scenario, rules: Rules) -> Self {
        let mut rng = Rng::new(scenario.seed);
        let medium = Medium::new(scenario.store, scenario.work, scenario.tables);
        let most = i64::from(scenario.skew_ms);
        let mut host = || Host {
            cores: Shared::new(scenario.cores),
            disk: Shared::new(medium.side_by_side()),
            skew: crate::store::around(&mut rng, most),
        };
        let hosts = (0..scenario.hosts).map(|_| host()).collect();
        let desk = |number: usize| Desk {
            process: number / scenario.tables,
            table: number % scenario.tables,
            machine: Machine::with_rules(MemberId::from_number(number as u128), Table::start(), rules),
            timings: Timings::default(),
            waiting: 0,
            is_led: false,
            is_tidied: false,
            is_coalescing: false,
            queue: Vec::new(),
            sharing: Vec::new(),
        };
        let desks: Vec<Desk> = (0..scenario.processes * scenario.tables).map(desk).collect();
        let left = match scenario.load {
            Load::Burst { appends } => Some(appends),
            Load::Endless { .. } => None,
        };
        let writer = |number: usize| Writer {
            // The writers of a process take its tables by turns.
            desk: (number % scenario.processes) * scenario.tables
                + (number / scenario.processes) % scenario.tables,
            left,
            due: 0,
            since: None,
        };
        Self {
            scenario,
            rng,
            now: 0,
            agenda: Agenda::new(),
            hosts,
            paused: vec![0; scenario.processes],
            numbers: desks.len() as u128,
            desks,
            tables: (0..scenario.tables).map(|_| Table::new()).collect(),
            medium,
            writers: (0..scenario.writers).map(writer).collect(),
            steps: HashMap::new(),
            flights: HashMap::new(),
            owners: HashMap::new(),
            told: (0..scenario.tables).map(|_| Vec::new()).collect(),
            cpu: 0,
            busy: scenario.writers,
            before: None,
            answered: Vec::new(),
            failed: 0,
            violation: None,
        }
    }

    pub(super) fn run(mut self) -> Result<Report, String> {
        let (begin, end) = self.period();
        for writer in 0..self.writers.len() {
            self.begin_append(writer);
        }
        for process in 0..self.paused.len() {
            self.plan_pause(process);
        }
        while self.busy > 0
            && let Some((at, what)) = self.agenda.take()
            && at <= end
        {
            self.now = at;
            if self.before.is_none() && at >= begin {
                self.before = Some(self.counts());
            }
            self.happen(what);
            if let Some(violation) = self.violation.take() {
                return Err(violation);
            }
        }
        if matches!(self.scenario.load, Load::Endless { .. }) {
            self.now = end;
        } else if self.busy > 0 {
            return Err(format!("{} writers never got an answer", self.busy));
        }
        self.check()?;
        Ok(self.report(begin))
    }

    /// The moments from which appends count, and at which the run ends.
    fn period(&self) -> (Moment, Moment) {
        match self.scenario.load {
            Load::Burst { .. } => (0, PATIENCE),
            Load::Endless {
                warm_up_seconds,
                seconds,
                ..
            } => {
                let begin = microseconds(warm_up_seconds * 1e3);
                (begin, begin + microseconds(seconds * 1e3))
            }
        }
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Goes(thread) => self.go_on(thread),
            What::Core(host, begun) if begun == self.hosts[host].cores.begun() => {
                while let Some(thread) = self.hosts[host].cores.end(self.now) {
                    self.agenda.put(self.now, What::Goes(thread));
                }
                self.expect_core(host);
            }
            What::Disk(host, begun) if begun == self.hosts[host].disk.begun() => {
                while let Some(thread) = self.hosts[host].disk.end(self.now) {
                    self.agenda.put(self.now, What::Goes(thread));
                }
                self.expect_disk(host);
            }
            What::Core(..) | What::Disk(..) => {}
            What::Pause(process) => {
                if let Some(pauses) = self.scenario.pauses {
                    self.paused[process] = self.now + pauses.time.draw(&mut self.rng);
                    self.plan_pause(process);
                }
            }
        }
    }

    fn expect_core(&mut self, host: usize) {
        let cores = &self.hosts[host].cores;
        if let Some(end) = cores.next_end() {
            self.agenda.put(end, What::Core(host, cores.begun()));
        }
    }

    fn expect_disk(&mut self, host: usize) {
        let disk = &self.hosts[host].disk;
        if let Some(end) = disk.next_end() {
            self.agenda.put(end, What::Disk(host, disk.begun()));
        }
    }

    fn plan_pause(&mut self, process: usize) {
        if let Some(pauses) = self.scenario.pauses {
            let next = gap(pauses.an_hour / 3_600.0, &mut self.rng);
            let at = self.now.max(self.paused[process]) + next;
            self.agenda.put(at, What::Pause(process));
        }
    }

    fn process_of(&self, thread: Thread) -> usize {
        let desk = match thread {
            Thread::Writer(writer) => self.writers[writer].desk,
            Thread::Lead(desk) | Thread::Tidy(desk) | Thread::Coalesce(desk) | Thread::Checkpoint(desk) => desk,
        };
        self.desks[desk].process
    }

    fn host_of(&self, process: usize) -> usize {
        process % self.hosts.len()
    }

    /// Has a thread take these steps from now on.
    fn take_steps(&mut self, thread: Thread, steps: Vec<Step>) {
        self.steps.insert(thread, steps.into());
        self.agenda.put(self.now, What::Goes(thread));
    }

    /// Lets a thread take its next steps, up to one that takes time.
    fn go_on(&mut self, thread: Thread) {
        let process = self.process_of(thread);
        let next = self.steps.get(&thread).and_then(VecDeque::front);
        // A store does what it was asked for, though the one who asked pauses.
        if self.paused[process] > self.now && next != Some(&Step::Apply) {
            self.agenda.put(self.paused[process], What::Goes(thread));
            return;
        }
        let host = self.host_of(process);
        while let Some(step) = self.steps.get_mut(&thread).and_then(VecDeque::pop_front) {
            match step {
                Step::Apply => self.apply(thread),
                Step::Cpu(0) | Step::Wait(0) | Step::Sync(_, 0) => {}
                Step::Cpu(time) => {
                    self.cpu += time;
                    self.hosts[host].cores.begin(self.now, time, 1, thread);
                    return self.expect_core(host);
                }
                Step::Sync(lanes, time) => {
                    self.hosts[host].disk.begin(self.now, time, lanes, thread);
                    return self.expect_disk(host);
                }
                Step::Wait(time) => return self.agenda.put(self.now + time, What::Goes(thread)),
            }
        }
        self.finish(thread);
    }

    /// Does the effect of a thread in the store.
    fn apply(&mut self, thread: Thread) {
        let Some(flight) = self.flights.get_mut(&thread) else {
            return;
        };
        let (Thread::Lead(desk) | Thread::Tidy(desk)) = thread else {
            return;
        };
        let at = self.desks[desk].table;
        let table = &mut self.tables[at];
        let clock = BIRTH + milliseconds(self.now);
        let mut event = table.apply(&flight.effect, self.medium.clock(clock));
        let (more, reading) = self.medium.answer(at, table, &flight.effect, &mut event, self.now);
        flight.event = Some(event);
        self.violation = self.violation.take().or_else(|| table.violation.take());
        if let Some(steps) = self.steps.get_mut(&thread) {
            steps.push_front(Step::Wait(more));
            steps.push_back(Step::Cpu(reading));
        }
    }

    /// Goes on after the last step of a thread.
    fn finish(&mut self, thread: Thread) {
        match thread {
            Thread::Lead(desk) => {
                self.complete(desk);
                self.lead(desk);
            }
            Thread::Tidy(desk) => {
                if let Some(flight) = self.flights.remove(&thread) {
                    self.note(desk, &flight);
                    if let Effect::DeleteIntents(names) = &flight.effect {
                        self.desks[desk].machine.tidied(names);
                    }
                }
                self.desks[desk].is_tidied = false;
                self.tidy(desk);
            }
            Thread::Coalesce(desk) => self.hand_in(desk, 1, Owner::Sharing),
            Thread::Checkpoint(_) => {}
            Thread::Writer(writer) => self.write(writer),
        }
    }

    fn time(&self, desk: usize) -> Time {
        let host = self.host_of(self.desks[desk].process);
        Time {
            monotonic: self.now / 1_000,
            wall: BIRTH + milliseconds(self.now) + self.hosts[host].skew,
        }
    }

    fn note(&mut self, desk: usize, flight: &Flight) {
        let took = std::time::Duration::from_micros(self.now - flight.began);
        let kind = EffectKind::of(&flight.effect);
        self.desks[desk].timings.note(kind, took);
    }

    /// Tells a machine how its effect ended.
    fn complete(&mut self, desk: usize) {
        let thread = Thread::Lead(desk);
        let Some(mut flight) = self.flights.remove(&thread) else {
            return;
        };
        self.note(desk, &flight);
        let time = self.time(desk);
        let machine = &mut self.desks[desk].machine;
        let won = machine.commit_stats().won;
        if let Some(event) = flight.event.take() {
            machine.complete(time, event);
        }
        let more = self.desks[desk].machine.commit_stats().won - won;
        let time = self.scenario.work.version_us * more;
        if time > 0 {
            let host = self.host_of(self.desks[desk].process);
            self.cpu += time;
            let cores = &mut self.hosts[host].cores;
            cores.begin(self.now, time, 1, Thread::Checkpoint(desk));
            self.expect_core(host);
        }
    }

    /// Does the next effect, as the thread that leads does it while anybody waits.
    fn lead(&mut self, desk: usize) {
        self.deliver(desk);
        if self.desks[desk].waiting == 0 {
            self.desks[desk].is_led = false;
            return;
        }
        let time = self.time(desk);
        let effect = self.desks[desk].machine.next(time);
        self.deliver(desk);
        let Some(effect) = effect else {
            self.desks[desk].is_led = false;
            if self.desks[desk].waiting > 0 {
                self.violation = Some("a committer stops, and a member waits".to_owned());
            }
            return;
        };
        self.fly(Thread::Lead(desk), desk, effect);
    }

    fn fly(&mut self, thread: Thread, desk: usize, effect: Effect) {
        let at = self.desks[desk].table;
        let steps = self
            .medium
            .steps(at, &self.tables[at], &effect, self.now, &mut self.rng);
        let flight = Flight {
            effect,
            event: None,
            began: self.now,
        };
        self.flights.insert(thread, flight);
        self.take_steps(thread, steps);
    }

    /// Has intents deleted that are of no more use, unless that is under way.
    fn tidy(&mut self, desk: usize) {
        let each = &mut self.desks[desk];
        if each.is_tidied || !each.machine.has_garbage() {
            return;
        }
        each.is_tidied = true;
        let names = each.machine.take_garbage();
        self.fly(Thread::Tidy(desk), desk, Effect::DeleteIntents(names));
    }

    /// Gives members their verdicts.
    fn deliver(&mut self, desk: usize) {
        for (id, verdict) in self.desks[desk].machine.take_verdicts() {
            let Some(owner) = self.owners.remove(&id) else {
                self.violation = Some(format!("a verdict for nobody: {id}"));
                return;
            };
            self.desks[desk].waiting -= 1;
            let told = match verdict {
                Verdict::Commit(Ok(version)) => Told::Committed(version),
                Verdict::Commit(Err(CommitError::Unknown { token, .. })) => Told::Doubt(token),
                Verdict::Commit(Err(error)) => Told::Rejected(error.to_string()),
                Verdict::Settled(_) => Told::Unknowable,
            };
            let is_committed = matches!(told, Told::Committed(_));
            self.told[self.desks[desk].table].push((id, told));
            match owner {
                Owner::Writer(writer) => self.answer(writer, is_committed),
                Owner::Sharing => {
                    for writer in std::mem::take(&mut self.desks[desk].sharing) {
                        self.answer(writer, is_committed);
                    }
                    self.coalesce(desk);
                }
            }
        }
        self.tidy(desk);
    }

    /// Begins the next append of a writer, when it is due.
    fn begin_append(&mut self, writer: usize) {
        let each = &mut self.writers[writer];
        if let Some(left) = &mut each.left {
            if *left == 0 {
                self.busy -= 1;
                return;
            }
            *left -= 1;
        }
        if let Load::Endless {
            each_per_second: Some(rate),
            ..
        } = self.scenario.load
        {
            each.due += gap(rate, &mut self.rng);
        }
        let wait = each.due.saturating_sub(self.now);
        let steps = vec![Step::Wait(wait), Step::Cpu(self.scenario.work.prepare_us)];
        self.take_steps(Thread::Writer(writer), steps);
    }

    /// Goes on with an append: its rows are handed over, or its files are written.
    fn write(&mut self, writer: usize) {
        let desk = self.writers[writer].desk;
        if self.writers[writer].since.is_some() {
            self.hand_in(desk, self.scenario.files, Owner::Writer(writer));
            return;
        }
        self.writers[writer].since = Some(self.now);
        if self.scenario.coalesce {
            self.desks[desk].queue.push(writer);
            if !self.desks[desk].is_coalescing {
                self.coalesce(desk);
            }
        } else {
            let (table, files) = (self.desks[desk].table, self.scenario.files);
            let steps = self.medium.write(table, files, self.now, &mut self.rng);
            self.take_steps(Thread::Writer(writer), steps);
        }
    }

    /// Writes the file of all writers that wait for one, if there are any.
    fn coalesce(&mut self, desk: usize) {
        let each = &mut self.desks[desk];
        each.sharing = std::mem::take(&mut each.queue);
        each.is_coalescing = !each.sharing.is_empty();
        if each.is_coalescing {
            let steps = self.medium.write(each.table, 1, self.now, &mut self.rng);
            self.take_steps(Thread::Coalesce(desk), steps);
        }
    }

    /// Hands a transaction to the committer. Where nobody leads, its thread does.
    fn hand_in(&mut self, desk: usize, files: usize, owner: Owner) {
        self.numbers += 1;
        let id = MemberId::from_number(self.numbers);
        let append = append(id, self.desks[desk].machine.tip(), files, self.medium.syncs());
        let submission = match Submission::new(append) {
            Ok(submission) => submission,
            Err(error) => {
                self.violation = Some(format!("an append was refused unseen: {error}"));
                return;
            }
        };
        self.owners.insert(id, owner);
        let each = &mut self.desks[desk];
        each.machine.submit(submission);
        each.waiting += 1;
        if !each.is_led {
            each.is_led = true;
            let company = Step::Wait(self.scenario.company_ms * 1_000);
            self.take_steps(Thread::Lead(desk), vec![company]);
        }
    }

    /// Gives a writer its answer.
    fn answer(&mut self, writer: usize, is_committed: bool) {
        if let Some(since) = self.writers[writer].since.take()
            && self.before.is_some()
        {
            self.answered.push(self.now - since);
            self.failed += u64::from(!is_committed);
        }
        self.begin_append(writer);
    }

    fn counts(&self) -> Counts {
        Counts {
            versions: self.tables.iter().map(Table::versions).sum(),
            attempts: self
                .desks
                .iter()
                .map(|desk| desk.machine.commit_stats().attempts)
                .sum(),
            requests: self.medium.requests,
            cpu: self.cpu,
        }
    }

    /// Checks that each table holds what writers were told, and all of it once.
    fn check(&self) -> Result<(), String> {
        for (table, told) in self.tables.iter().zip(&self.told) {
            let told = told.iter().map(|(id, told)| (id, told));
            if let Some(promise) = check::broken_by_appends(&table.winners(), told) {
                return Err(promise);
            }
        }
        Ok(())
    }

    fn report(self, begin: Moment) -> Report {
        let after = self.counts();
        let waiting = self.writers.iter().filter_map(|writer| writer.since);
        let stats = self.desks.iter().map(|desk| desk.machine.commit_stats());
        let course = Course {
            scenario: self.scenario.clone(),
            passed: self.now - begin,
            failed: self.failed,
            waiting: waiting.clone().count() as u64,
            longest_waiting: waiting.min().map_or(0, |since| self.now - since),
            most_lost: stats.map(|stats| stats.most_lost).max().unwrap_or(0),
            timings: self.desks.iter().map(|desk| desk.timings).collect(),
            answered: self.answered,
        };
        Report::new(course, self.before.unwrap_or_default(), after)
    }
}

/// An append of small files, each in the folder of its partition.
fn append(id: MemberId, read_version: Version, files: usize, syncs: bool) -> Transaction {
    let file = |number: usize| Add {
        path: format!("partition=w{id}/part-{number:05}-{id}.c000.zstd.parquet"),
        partition_values: PartitionValues::from_iter([("partition", Some(id.to_string().as_str()))]),
        size: 1_500,
        modification_time: BIRTH,
        data_change: true,
        stats: Some(STATS.to_owned()),
        ..Add::default()
    };
    let adds = (0..files).map(|number| Action::Add(file(number))).collect();
    let mut append = Transaction::append(id, read_version, adds);
    if syncs {
        append.unsynced = append.added_paths().map(str::to_owned).collect();
    }
    append
}

fn milliseconds(time: Moment) -> i64 {
    i64::try_from(time / 1_000).unwrap_or(i64::MAX)
}
