//! The committers: the machine of each table in each process, and the threads that do its effects, as in the driver.

use std::time::Duration;

use delta_commit::log::{Effect, Event};
use delta_commit::rules::ProtocolRules;
use delta_commit::{CommitError, EffectKind, Machine, MemberId, Timings, Verdict, Version};

use super::appends::Owner;
use super::events::Moment;
use super::simulation::{BIRTH, Thread, TimedSimulation, milliseconds};
use super::table::SimulatedTable;
use super::times::TimedStep;
use crate::client::Told;

/// The versions from one checkpoint to the next, as in small tables of the committer.
const CHECKPOINT_INTERVAL: Version = 10;

/// The committer of one table in one process.
pub(super) struct SimulatedCommitter {
    pub(super) process: usize,
    pub(super) table: usize,
    pub(super) machine: Machine,
    pub(super) timings: Timings,
    /// Transactions without a verdict.
    pub(super) waiting: usize,
    pub(super) is_led: bool,
    is_tidied: bool,
    /// Writers whose rows are to share a file.
    pub(super) queue: Vec<usize>,
    /// Writers whose rows do.
    pub(super) sharing: Vec<usize>,
}

/// An effect that is under way.
pub(super) struct TimedEffect {
    effect: Effect,
    event: Option<Event>,
    began: Moment,
}

impl SimulatedCommitter {
    /// The committer of this number, where each process has so many.
    pub(super) fn new(number: usize, tables: usize, rules: ProtocolRules) -> Self {
        Self {
            process: number / tables,
            table: number % tables,
            machine: Machine::with_rules(
                MemberId::from_number(number as u128),
                SimulatedTable::start(),
                rules,
            ),
            timings: Timings::default(),
            waiting: 0,
            is_led: false,
            is_tidied: false,
            queue: Vec::new(),
            sharing: Vec::new(),
        }
    }
}

impl TimedSimulation<'_> {
    /// Does the next effect, as the thread that leads does it while anybody waits.
    pub(super) fn lead(&mut self, at: usize) {
        self.deliver(at);
        if self.committers[at].waiting == 0 {
            self.committers[at].is_led = false;
            return;
        }
        let time = self.time(at);
        let effect = self.committers[at].machine.next(time);
        self.deliver(at);
        let Some(effect) = effect else {
            self.committers[at].is_led = false;
            if self.committers[at].waiting > 0 {
                self.violation = Some("a committer stops, and a member waits".to_owned());
            }
            return;
        };
        self.fly(Thread::Lead(at), at, effect);
    }

    fn fly(&mut self, thread: Thread, at: usize, effect: Effect) {
        let table = self.committers[at].table;
        let steps = self
            .times
            .steps(table, &self.tables[table], &effect, self.now, &mut self.rng);
        let flight = TimedEffect {
            effect,
            event: None,
            began: self.now,
        };
        self.flights.insert(thread, flight);
        self.take_steps(thread, steps);
    }

    /// Does the effect of a thread in the store.
    pub(super) fn apply(&mut self, thread: Thread) {
        let (Thread::Lead(at) | Thread::Tidy(at)) = thread else {
            return;
        };
        let Some(flight) = self.flights.get_mut(&thread) else {
            return;
        };
        let at = self.committers[at].table;
        let table = &mut self.tables[at];
        let clock = self.times.clock(BIRTH + milliseconds(self.now));
        let mut event = table.apply(&flight.effect, clock);
        let (more, reading) = self.times.answer(at, table, &flight.effect, &mut event, self.now);
        flight.event = Some(event);
        self.violation = self.violation.take().or_else(|| table.violation.take());
        if let Some(steps) = self.steps.get_mut(&thread) {
            steps.push_front(TimedStep::Wait(more));
            steps.push_back(TimedStep::Cpu(reading));
        }
    }

    /// Tells a machine how its effect ended.
    pub(super) fn complete(&mut self, at: usize) {
        let Some(mut flight) = self.flights.remove(&Thread::Lead(at)) else {
            return;
        };
        self.note(at, &flight);
        let time = self.time(at);
        let machine = &mut self.committers[at].machine;
        let won = machine.commit_stats().won;
        if let Some(event) = flight.event.take() {
            machine.complete(time, event);
        }
        let has_won = machine.commit_stats().won > won;
        let each = self.scenario.work.version_us;
        if has_won && each > 0 && machine.tip() % CHECKPOINT_INTERVAL == 0 {
            self.compute(Thread::Checkpoint(at), each * CHECKPOINT_INTERVAL.unsigned_abs());
        }
    }

    fn note(&mut self, at: usize, flight: &TimedEffect) {
        let took = Duration::from_micros(self.now - flight.began);
        let kind = EffectKind::of(&flight.effect);
        self.committers[at].timings.note(kind, took);
    }

    /// Has intents deleted that are of no more use, unless that is under way.
    fn tidy(&mut self, at: usize) {
        let committer = &mut self.committers[at];
        if committer.is_tidied || !committer.machine.has_garbage() {
            return;
        }
        committer.is_tidied = true;
        let names = committer.machine.take_garbage();
        self.fly(Thread::Tidy(at), at, Effect::DeleteIntents(names));
    }

    /// Goes on after a deletion.
    pub(super) fn tidied(&mut self, at: usize) {
        if let Some(flight) = self.flights.remove(&Thread::Tidy(at)) {
            self.note(at, &flight);
            if let Effect::DeleteIntents(names) = &flight.effect {
                self.committers[at].machine.tidied(names);
            }
        }
        self.committers[at].is_tidied = false;
        self.tidy(at);
    }

    /// Gives members their verdicts.
    fn deliver(&mut self, at: usize) {
        for (id, verdict) in self.committers[at].machine.take_verdicts() {
            let Some(owner) = self.owners.remove(&id) else {
                self.violation = Some(format!("a verdict for nobody: {id}"));
                return;
            };
            self.committers[at].waiting -= 1;
            let told = match verdict {
                Verdict::Commit(Ok(version)) => Told::Committed(version),
                Verdict::Commit(Err(CommitError::Unknown { token, .. })) => Told::Doubt(token),
                Verdict::Commit(Err(error)) => Told::Rejected(error.to_string()),
                Verdict::Settled(_) => Told::Unknowable,
            };
            let is_committed = matches!(told, Told::Committed(_));
            self.told[self.committers[at].table].push((id, told));
            match owner {
                Owner::Writer(writer) => self.answer(writer, is_committed),
                Owner::Sharing => {
                    for writer in std::mem::take(&mut self.committers[at].sharing) {
                        self.answer(writer, is_committed);
                    }
                    self.coalesce(at);
                }
            }
        }
        self.tidy(at);
    }
}
