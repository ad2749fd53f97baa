//! A simulator of tables that go away: others delete a table, as a whole or object by object, make another one in its
//! place, or restore it from an older copy, while processes commit to it, are suspended, and die.
//!
//! A process may learn of that at any time. What it may never do is acknowledge a transaction that is not in the table
//! that it opened, or leave its version in another one.

mod location;
mod oracle;

use std::collections::BTreeMap;

use delta_commit::actions::{Action, Add};
use delta_commit::log::{BodyDigest, Effect, Event, Time};
use delta_commit::predicate::Predicate;
use delta_commit::rules::ProtocolRules;
use delta_commit::winner::Winner;
use delta_commit::{CommitError, Machine, MemberId, Operation, Start, Submission, Transaction, Verdict};

use crate::rng::Rng;
use location::TableLocation;

/// Steps, with nothing else going on, after which a process that still works counts as blocked.
const PATIENCE: usize = 100_000;

/// Counts of the events of a schedule.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct LifetimeCoverage {
    /// Tables that were deleted at once.
    pub deleted: usize,
    /// Tables that were deleted object by object.
    pub half_deleted: usize,
    /// Tables that were made in the place of another one.
    pub recreated: usize,
    /// Tables that were restored from a copy.
    pub restored: usize,
    /// Processes that were suspended.
    pub suspended: usize,
    /// Transactions that were acknowledged.
    pub committed: usize,
    /// Transactions that were refused since the table was gone.
    pub refused: usize,
    /// Versions that were created in the log of another table.
    pub misplaced: usize,
    /// Those of them that were removed.
    pub retracted: usize,
    /// Commits that ended in doubt.
    pub doubts: usize,
}

impl LifetimeCoverage {
    fn counts(&mut self) -> [&mut usize; 10] {
        [
            &mut self.deleted,
            &mut self.half_deleted,
            &mut self.recreated,
            &mut self.restored,
            &mut self.suspended,
            &mut self.committed,
            &mut self.refused,
            &mut self.misplaced,
            &mut self.retracted,
            &mut self.doubts,
        ]
    }

    /// The count of what happened least.
    #[must_use]
    pub fn least(mut self) -> usize {
        self.counts().into_iter().map(|count| *count).min().unwrap_or(0)
    }
}

impl std::ops::AddAssign for LifetimeCoverage {
    fn add_assign(&mut self, mut other: Self) {
        for (sum, count) in self.counts().into_iter().zip(other.counts()) {
            *sum += *count;
        }
    }
}

/// The state of an effect that is under way.
enum LifetimeFlight {
    Issued(Effect, i64),
    Answered(Event),
}

struct LifetimeProcess {
    machine: Machine,
    /// The digest of the version with which it opened the table.
    opened: BodyDigest,
    flight: Option<LifetimeFlight>,
    /// The time until which it is suspended.
    asleep_until: i64,
    /// The time for which it was suspended so far.
    slept: i64,
}

struct LifetimeSimulation {
    rng: Rng,
    rules: ProtocolRules,
    /// True if processes have a clock that counts the time for which they were suspended.
    boot_clock: bool,
    location: TableLocation,
    processes: Vec<Option<LifetimeProcess>>,
    /// The process of each transaction that waits.
    waiting: BTreeMap<MemberId, usize>,
    rejected: Vec<MemberId>,
    numbers: u128,
    violation: Option<String>,
    coverage: LifetimeCoverage,
}

/// Runs the schedule of a seed. Without `boot_clock`, the clock of a process stands still while it is suspended.
///
/// # Errors
/// The first promise that was broken, in words.
pub fn run(seed: u64, rules: ProtocolRules, boot_clock: bool) -> Result<LifetimeCoverage, String> {
    let mut simulation = LifetimeSimulation::new(seed, rules, boot_clock);
    let steps = 400 + simulation.rng.below(800);
    for _ in 0..steps {
        simulation.step();
        if let Some(violation) = simulation.violation.take() {
            return Err(violation);
        }
    }
    simulation.come_to_rest()?;
    if let Some(promise) = simulation.broken_promise() {
        return Err(promise);
    }
    simulation.coverage.retracted = simulation.location.retracted;
    simulation.coverage.misplaced = simulation.location.misplaced();
    Ok(simulation.coverage)
}

impl LifetimeSimulation {
    fn new(seed: u64, rules: ProtocolRules, boot_clock: bool) -> Self {
        let mut rng = Rng::new(seed ^ 0xA5A5_0000);
        let mut location = TableLocation::new(if seed.is_multiple_of(2) { 60 } else { 0 });
        location.create("table-0", 1 + rng.below(6));
        let count = 1 + rng.below(4);
        let mut simulation = Self {
            rng,
            rules: ProtocolRules {
                leaves_to_others: (seed / 2).is_multiple_of(2),
                ..rules
            },
            boot_clock,
            location,
            processes: (0..count).map(|_| None).collect(),
            waiting: BTreeMap::new(),
            rejected: Vec::new(),
            numbers: 1,
            violation: None,
            coverage: LifetimeCoverage::default(),
        };
        for at in 0..count {
            simulation.open(at);
        }
        simulation
    }

    fn number(&mut self) -> u128 {
        self.numbers += 1;
        self.numbers
    }

    /// Opens the table, if there is a whole one.
    fn open(&mut self, at: usize) {
        let Some((winners, opened)) = self.location.read_whole() else {
            return;
        };
        let tip = winners.last().map_or(0, |winner| winner.version);
        let metadata = winners.iter().rev().find_map(|winner| winner.metadata.clone());
        let protocol = winners.iter().rev().find_map(|winner| winner.protocol.clone());
        let changed_in = winners.iter().rfind(|winner| winner.changes_world());
        let start = Start {
            version: tip,
            table_id: metadata.as_ref().map(|m| m.id.clone()).unwrap_or_default(),
            changed_in: changed_in.map_or(0, |winner| winner.version),
            in_commit_timestamp: None,
            high_water_mark: None,
            digest: Some(opened),
            known: protocol.zip(metadata),
        };
        let id = MemberId::from_number(self.number());
        self.processes[at] = Some(LifetimeProcess {
            machine: Machine::with_rules(id, start, self.rules),
            opened,
            flight: None,
            asleep_until: 0,
            slept: 0,
        });
    }

    fn time_of(&self, process: &LifetimeProcess) -> Time {
        let slept = if self.boot_clock { 0 } else { process.slept };
        Time {
            monotonic: u64::try_from(self.location.now - slept).unwrap_or(0),
            wall: self.location.now,
        }
    }

    fn step(&mut self) {
        self.location.now += i64::try_from(self.rng.below(20)).unwrap_or(0);
        let at = self.rng.below(self.processes.len());
        match self.rng.below(1_000) {
            0..110 => self.submit(at),
            110..114 => self.change_life(),
            114..140 => self.location.go_on_deleting(&mut self.rng),
            140..150 => self.location.append_as_another(),
            150..156 => self.suspend(at),
            156..158 => self.kill(at),
            158..161 => self.location.now += 1_500,
            161..175 => self.location.arrive(&mut self.rng),
            175..180 => self.location.copy(),
            _ => drop(self.advance(at)),
        }
    }

    /// Others delete the table, or make another one, or restore it.
    fn change_life(&mut self) {
        let rng = &mut self.rng;
        match rng.below(6) {
            0 if !self.location.is_empty() => {
                self.location.delete();
                self.coverage.deleted += 1;
            }
            1 if !self.location.is_empty() => {
                self.location.begin_deleting(rng);
                self.coverage.half_deleted += 1;
            }
            2 | 3 => {
                // Shorter than the table before, as long, or longer.
                let versions = self.location.longest().saturating_sub(2) + rng.below(6);
                let name = format!("table-{}", self.numbers);
                self.numbers += 1;
                self.location.delete();
                self.location.create(&name, versions.max(1));
                self.coverage.recreated += 1;
            }
            _ => {
                self.coverage.restored += usize::from(self.location.restore(rng));
            }
        }
    }

    fn suspend(&mut self, at: usize) {
        let lasts = i64::try_from(self.rng.below(4_000)).unwrap_or(0);
        let now = self.location.now;
        if let Some(process) = &mut self.processes[at]
            && process.asleep_until <= now
        {
            process.asleep_until = now + lasts;
            process.slept += lasts;
            self.coverage.suspended += 1;
        }
    }

    /// Kills a process. Whatever it sent may be there, and nobody removes it.
    fn kill(&mut self, at: usize) {
        self.location.excuse_all_of(at);
        self.waiting.retain(|_, process| *process != at);
        self.processes[at] = None;
        self.open(at);
    }

    fn submit(&mut self, at: usize) {
        let number = self.number();
        if self.processes[at].is_none() {
            self.open(at);
        }
        let is_append = self.rng.permille(800);
        let Some(process) = &mut self.processes[at] else {
            return;
        };
        let id = MemberId::from_number(number);
        let add = Action::Add(Add {
            path: format!("f{number}.parquet"),
            data_change: true,
            ..Add::default()
        });
        let mut transaction = Transaction::append(id, process.machine.tip(), vec![add]);
        if !is_append {
            transaction.reads.predicates.push(Predicate::default());
            transaction.operation = Operation::new("UPDATE");
        }
        match Submission::new(transaction) {
            Ok(submission) => process.machine.submit(submission),
            Err(error) => self.violation = Some(error.to_string()),
        }
        self.waiting.insert(id, at);
    }

    /// Brings a process one small step forward. Returns false if it has nothing to do.
    fn advance(&mut self, at: usize) -> bool {
        let Some(mut process) = self.processes[at].take() else {
            return false;
        };
        if process.asleep_until > self.location.now {
            self.processes[at] = Some(process);
            return true;
        }
        let time = self.time_of(&process);
        let mut is_busy = true;
        match process.flight.take() {
            None => {
                let effect = process.machine.next(time);
                is_busy = effect.is_some();
                process.flight = effect.map(|effect| LifetimeFlight::Issued(effect, self.location.now));
            }
            Some(LifetimeFlight::Issued(effect, issued)) => {
                self.judge_attempt(&process, &effect, issued);
                let event = self.location.apply(at, process.opened, &effect, &mut self.rng);
                process.flight = Some(LifetimeFlight::Answered(event));
            }
            Some(LifetimeFlight::Answered(event)) => process.machine.complete(time, event),
        }
        let is_lost = self.deliver(at, &mut process) || process.machine.is_outdated();
        let garbage = process.machine.take_garbage();
        self.location.delete_intents(&garbage);
        process.machine.tidied(&garbage);
        if is_lost && process.flight.is_none() {
            self.waiting.retain(|_, process| *process != at);
            self.open(at);
        } else {
            self.processes[at] = Some(process);
        }
        is_busy
    }

    /// Gives members their verdicts. Returns true if the table has to be opened again.
    fn deliver(&mut self, at: usize, process: &mut LifetimeProcess) -> bool {
        let mut is_lost = false;
        for (id, verdict) in process.machine.take_verdicts() {
            if self.waiting.remove(&id) != Some(at) {
                self.violation = Some(format!("a verdict for nobody: {id}"));
            }
            match verdict {
                Verdict::Commit(Ok(version)) => {
                    self.coverage.committed += 1;
                    if !self.location.is_of_table(id, version, process.opened) {
                        self.violation = Some(format!(
                            "{id} was acknowledged in version {version}, which is not of the table that was opened"
                        ));
                    }
                }
                Verdict::Commit(Err(CommitError::Unknown { .. })) => self.coverage.doubts += 1,
                Verdict::Commit(Err(error)) => {
                    is_lost |= matches!(error, CommitError::Replaced(_) | CommitError::LogTruncated(_));
                    self.coverage.refused += usize::from(matches!(error, CommitError::Replaced(_)));
                    self.rejected.push(id);
                }
                Verdict::Settled(_) => {}
            }
        }
        is_lost
    }

    fn come_to_rest(&mut self) -> Result<(), String> {
        while self.location.has_late() {
            self.location.arrive(&mut self.rng);
        }
        self.location.lost = 0;
        let mut idle = 0;
        for _ in 0..PATIENCE {
            self.location.now += 1;
            let at = self.rng.below(self.processes.len());
            idle = if self.advance(at) { 0 } else { idle + 1 };
            if let Some(violation) = self.violation.take() {
                return Err(violation);
            }
            if idle > 20 * self.processes.len() {
                return match self.waiting.first_key_value() {
                    Some((id, _)) => Err(format!("{id} never got an answer")),
                    None => Ok(()),
                };
            }
        }
        Err("a process does not come to rest".to_owned())
    }
}

/// Parses what the simulation wrote.
fn parsed(version: i64, body: &[u8]) -> Option<Winner> {
    Winner::parse(version, body).ok()
}
