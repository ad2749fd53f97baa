//! A run: hosts, the threads on them, and the events of all.

use std::collections::{BTreeSet, HashMap, VecDeque};

use delta_commit::MemberId;
use delta_commit::log::Time;
use delta_commit::rules::ProtocolRules;

use super::appends::{Owner, SimulatedWriter};
use super::committer::{SimulatedCommitter, TimedEffect};
use super::cores::{Cores, Turn};
use super::events::{Events, Moment};
use super::latency::{gap, microseconds};
use super::report::{Course, EventCounts, Report};
use super::scenario::{Load, Scenario};
use super::shared::SharedResource;
use super::table::SimulatedTable;
use super::times::{StoreTimes, TimedStep};
use crate::check;
use crate::client::Told;
use crate::rng::Rng;

/// The start of the simulation: milliseconds since the epoch.
pub(super) const BIRTH: i64 = 1_700_000_000_000;

/// The time after which a burst counts as stuck: ten hours.
const PATIENCE: Moment = 36_000 * 1_000_000;

/// A thread, by the number of its committer or of its writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Thread {
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

/// An event.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Happening {
    /// A thread goes on.
    Goes(Thread),
    /// A turn on a core of this host ends.
    Core(usize, Turn<Thread>),
    /// A job on the disk of a host ends, if none has begun since.
    Disk(usize, u64),
    /// A process pauses.
    Pause(usize),
}

struct Host {
    cores: Cores<Thread>,
    disk: SharedResource<Thread>,
    /// Milliseconds by which its clock is early.
    skew: i64,
}

pub(super) struct TimedSimulation<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) rng: Rng,
    pub(super) now: Moment,
    events: Events<Happening>,
    hosts: Vec<Host>,
    /// Hosts of which a thread has ended or wants a core at this moment.
    turning: BTreeSet<usize>,
    /// The moment until which each process pauses.
    paused: Vec<Moment>,
    /// Of each process, the thread that has Python's lock, and those that wait for it, with the time that each needs.
    locks: Vec<VecDeque<(Thread, Moment)>>,
    pub(super) committers: Vec<SimulatedCommitter>,
    pub(super) tables: Vec<SimulatedTable>,
    pub(super) times: StoreTimes,
    pub(super) writers: Vec<SimulatedWriter>,
    /// The steps that each thread has yet to take.
    pub(super) steps: HashMap<Thread, VecDeque<TimedStep>>,
    pub(super) flights: HashMap<Thread, TimedEffect>,
    pub(super) owners: HashMap<MemberId, Owner>,
    /// The answers on each transaction of each table.
    pub(super) told: Vec<Vec<(MemberId, Told)>>,
    /// The number of the last transaction.
    pub(super) numbers: u128,
    cpu: Moment,
    /// Turns on a core that another process had before.
    cold_turns: u64,
    /// Writers that have appends to make.
    pub(super) busy: usize,
    /// The counts at the moment from which they are reported, once that has come.
    pub(super) before: Option<EventCounts>,
    pub(super) answered: Vec<Moment>,
    pub(super) failed: u64,
    pub(super) violation: Option<String>,
}

impl<'a> TimedSimulation<'a> {
    pub(super) fn new(scenario: &'a Scenario, rules: ProtocolRules) -> Self {
        let mut rng = Rng::new(scenario.seed);
        let times = StoreTimes::new(scenario.store, scenario.work, scenario.tables);
        let most = i64::from(scenario.skew_ms);
        let mut host = || Host {
            cores: Cores::new(scenario.cores, scenario.work.cold_us),
            disk: SharedResource::new(times.side_by_side()),
            skew: crate::store::around(&mut rng, most),
        };
        let hosts = (0..scenario.hosts).map(|_| host()).collect();
        let committers = scenario.processes * scenario.tables;
        let committer = |number: usize| SimulatedCommitter::new(number, scenario.tables, rules);
        Self {
            scenario,
            rng,
            now: 0,
            events: Events::new(),
            hosts,
            turning: BTreeSet::new(),
            paused: vec![0; scenario.processes],
            locks: vec![VecDeque::new(); scenario.processes],
            committers: (0..committers).map(committer).collect(),
            tables: (0..scenario.tables).map(|_| SimulatedTable::new()).collect(),
            times,
            writers: (0..scenario.writers)
                .map(|number| SimulatedWriter::new(number, scenario))
                .collect(),
            steps: HashMap::new(),
            flights: HashMap::new(),
            owners: HashMap::new(),
            told: (0..scenario.tables).map(|_| Vec::new()).collect(),
            // Committers have the numbers below.
            numbers: committers as u128,
            cpu: 0,
            cold_turns: 0,
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
            self.expect_pause(process);
        }
        self.pass();
        while self.busy > 0
            && let Some((at, happening)) = self.events.take()
            && at <= end
        {
            self.now = at;
            if self.before.is_none() && at >= begin {
                self.before = Some(self.counts());
            }
            self.happen(happening);
            if self.events.next() != Some(self.now) {
                self.pass();
            }
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

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Goes(thread) => self.go_on(thread),
            Happening::Core(host, turn) => {
                if let Some(thread) = self.hosts[host].cores.end(turn) {
                    self.unlock(thread);
                    self.events.put(self.now, Happening::Goes(thread));
                }
                self.turning.insert(host);
            }
            Happening::Disk(host, begun) if begun == self.hosts[host].disk.begun() => {
                while let Some(thread) = self.hosts[host].disk.end(self.now) {
                    self.events.put(self.now, Happening::Goes(thread));
                }
                self.expect_disk(host);
            }
            Happening::Disk(..) => {}
            Happening::Pause(process) => {
                if let Some(pauses) = self.scenario.pauses {
                    self.paused[process] = self.now + pauses.time.draw(&mut self.rng);
                    self.expect_pause(process);
                }
            }
        }
    }

    /// Ends a moment: all that goes on in it waits for its cores, which are given now.
    fn pass(&mut self) {
        while let Some(host) = self.turning.pop_first() {
            self.begin_turns(host);
            self.hosts[host].cores.pass();
        }
    }

    fn begin_turns(&mut self, host: usize) {
        while let Some(turn) = self.hosts[host].cores.begin() {
            self.cold_turns += u64::from(turn.is_cold);
            self.events.put(self.now + turn.time, Happening::Core(host, turn));
        }
    }

    fn expect_disk(&mut self, host: usize) {
        let disk = &self.hosts[host].disk;
        if let Some(end) = disk.next_end() {
            self.events.put(end, Happening::Disk(host, disk.begun()));
        }
    }

    fn expect_pause(&mut self, process: usize) {
        if let Some(pauses) = self.scenario.pauses {
            let next = gap(pauses.an_hour / 3_600.0, &mut self.rng);
            let at = self.now.max(self.paused[process]) + next;
            self.events.put(at, Happening::Pause(process));
        }
    }

    fn process_of(&self, thread: Thread) -> usize {
        let committer = match thread {
            Thread::Writer(writer) => self.writers[writer].committer,
            Thread::Lead(at) | Thread::Tidy(at) | Thread::Coalesce(at) | Thread::Checkpoint(at) => at,
        };
        self.committers[committer].process
    }

    fn host_of(&self, process: usize) -> usize {
        process % self.hosts.len()
    }

    /// The readings of the clocks of a committer's host.
    pub(super) fn time(&self, committer: usize) -> Time {
        let host = self.host_of(self.committers[committer].process);
        Time {
            monotonic: self.now / 1_000,
            wall: BIRTH + milliseconds(self.now) + self.hosts[host].skew,
        }
    }

    /// Has a thread take these steps from now on.
    pub(super) fn take_steps(&mut self, thread: Thread, steps: Vec<TimedStep>) {
        self.steps.insert(thread, steps.into());
        self.events.put(self.now, Happening::Goes(thread));
    }

    /// Has a thread take processor time.
    pub(super) fn compute(&mut self, thread: Thread, time: Moment) {
        let process = self.process_of(thread);
        let host = self.host_of(process);
        self.cpu += time;
        self.hosts[host].cores.go_on(thread, process, time);
        self.turning.insert(host);
    }

    /// Has a thread take processor time that one thread of its process has at a time.
    fn compute_locked(&mut self, thread: Thread, time: Moment) {
        let process = self.process_of(thread);
        self.locks[process].push_back((thread, time));
        if self.locks[process].len() == 1 {
            self.compute(thread, time);
        }
    }

    /// Passes the lock of a process on, if a thread has it.
    fn unlock(&mut self, thread: Thread) {
        let process = self.process_of(thread);
        let lock = &mut self.locks[process];
        if lock.front().is_none_or(|(holder, _)| *holder != thread) {
            return;
        }
        lock.pop_front();
        // The next one is woken.
        if let Some((next, time)) = lock.front().copied() {
            let host = self.host_of(process);
            self.cpu += time;
            self.hosts[host].cores.wait(next, process, time);
            self.turning.insert(host);
        }
    }

    fn sync(&mut self, thread: Thread, lanes: u64, time: Moment) {
        let host = self.host_of(self.process_of(thread));
        self.hosts[host].disk.begin(self.now, time, lanes, thread);
        self.expect_disk(host);
    }

    /// Lets a thread take its next steps, up to one that takes time.
    fn go_on(&mut self, thread: Thread) {
        let paused = self.paused[self.process_of(thread)];
        let next = self.steps.get(&thread).and_then(VecDeque::front);
        // A store does what it was asked for, though the one who asked pauses.
        if paused > self.now && next != Some(&TimedStep::Apply) {
            self.events.put(paused, Happening::Goes(thread));
            return;
        }
        while let Some(step) = self.steps.get_mut(&thread).and_then(VecDeque::pop_front) {
            match step {
                TimedStep::Apply => self.apply(thread),
                TimedStep::Cpu(0) | TimedStep::Locked(0) | TimedStep::Wait(0) | TimedStep::Sync(_, 0) => {}
                TimedStep::Locked(time) => return self.compute_locked(thread, time),
                TimedStep::Cpu(time) => return self.compute(thread, time),
                TimedStep::Sync(lanes, time) => return self.sync(thread, lanes, time),
                TimedStep::Wait(time) => return self.events.put(self.now + time, Happening::Goes(thread)),
            }
        }
        self.finish(thread);
    }

    /// Goes on after the last step of a thread.
    fn finish(&mut self, thread: Thread) {
        match thread {
            Thread::Lead(at) => {
                self.complete(at);
                self.lead(at);
            }
            Thread::Tidy(at) => self.tidied(at),
            Thread::Coalesce(at) => self.hand_in(at, 1, Owner::Sharing),
            Thread::Checkpoint(_) => {}
            Thread::Writer(writer) => self.write(writer),
        }
    }

    fn counts(&self) -> EventCounts {
        let stats = self
            .committers
            .iter()
            .map(|committer| committer.machine.commit_stats());
        EventCounts {
            versions: self.tables.iter().map(SimulatedTable::versions).sum(),
            attempts: stats.map(|stats| stats.attempts).sum(),
            requests: self.times.requests,
            cpu: self.cpu + self.cold_turns * self.scenario.work.cold_us,
            cold_turns: self.cold_turns,
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
        let stats = self
            .committers
            .iter()
            .map(|committer| committer.machine.commit_stats());
        let course = Course {
            scenario: self.scenario.clone(),
            passed: self.now - begin,
            failed: self.failed,
            waiting: waiting.clone().count() as u64,
            longest_waiting: waiting.min().map_or(0, |since| self.now - since),
            most_lost: stats.map(|stats| stats.most_lost).max().unwrap_or(0),
            timings: self
                .committers
                .iter()
                .map(|committer| committer.timings)
                .collect(),
            answered: self.answered,
        };
        Report::new(course, self.before.unwrap_or_default(), after)
    }
}

pub(super) fn milliseconds(time: Moment) -> i64 {
    i64::try_from(time / 1_000).unwrap_or(i64::MAX)
}
