//! The writers, and their appends from the first row to the answer.

use delta_commit::actions::{Action, Add, PartitionValues};
use delta_commit::{MemberId, Submission, Transaction, Version};

use super::events::Moment;
use super::latency::gap;
use super::scenario::{Load, Scenario};
use super::simulation::{BIRTH, Thread, TimedSimulation};
use super::times::TimedStep;

/// The statistics of a small file.
const STATS: &str = concat!(
    r#"{"numRecords":10,"minValues":{"writer":1,"number":1,"row":0,"message":"writer 1 says 0 in append 1"},"#,
    r#""maxValues":{"writer":1,"number":1,"row":9,"message":"writer 1 says 9 in append 1"},"#,
    r#""nullCount":{"writer":0,"number":0,"row":0,"message":0}}"#
);

pub(super) struct SimulatedWriter {
    pub(super) committer: usize,
    /// Appends that it is yet to begin; none where there is no end of them.
    left: Option<u64>,
    /// The moment at which its append is to begin, for those that come at a rate.
    due: Moment,
    /// The moment from which its wait counts, while it waits.
    pub(super) since: Option<Moment>,
}

/// The owner of a transaction.
pub(super) enum Owner {
    Writer(usize),
    /// All writers that share its file.
    Sharing,
}

impl SimulatedWriter {
    /// The writer of this number. Those of a process take its tables by turns.
    pub(super) fn new(number: usize, scenario: &Scenario) -> Self {
        let (turn, process) = (number / scenario.processes, number % scenario.processes);
        Self {
            committer: process * scenario.tables + turn % scenario.tables,
            left: match scenario.load {
                Load::Burst { appends } => Some(appends),
                Load::Endless { .. } => None,
            },
            due: 0,
            since: None,
        }
    }
}

impl TimedSimulation<'_> {
    /// Begins the next append of a writer, when it is due.
    pub(super) fn begin_append(&mut self, writer: usize) {
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
        let steps = vec![
            TimedStep::Wait(wait),
            TimedStep::Locked(self.scenario.work.prepare_us),
        ];
        self.take_steps(Thread::Writer(writer), steps);
    }

    /// Goes on with an append: its rows are handed over, or its files are written.
    pub(super) fn write(&mut self, writer: usize) {
        let committer = self.writers[writer].committer;
        if self.writers[writer].since.is_some() {
            self.hand_in(committer, self.scenario.files, Owner::Writer(writer));
            return;
        }
        self.writers[writer].since = Some(self.now);
        if self.scenario.coalesce {
            self.committers[committer].queue.push(writer);
            if self.committers[committer].sharing.is_empty() {
                self.coalesce(committer);
            }
        } else {
            let (table, files) = (self.committers[committer].table, self.scenario.files);
            let steps = self.times.write(table, files, self.now, &mut self.rng);
            self.take_steps(Thread::Writer(writer), steps);
        }
    }

    /// Writes the file of all writers that wait for one, if there are any.
    pub(super) fn coalesce(&mut self, at: usize) {
        let committer = &mut self.committers[at];
        committer.sharing = std::mem::take(&mut committer.queue);
        if !committer.sharing.is_empty() {
            let steps = self.times.write(committer.table, 1, self.now, &mut self.rng);
            self.take_steps(Thread::Coalesce(at), steps);
        }
    }

    /// Hands a transaction to the committer. Where nobody leads, its thread does.
    pub(super) fn hand_in(&mut self, at: usize, files: usize, owner: Owner) {
        self.numbers += 1;
        let id = MemberId::from_number(self.numbers);
        let append = append(id, self.committers[at].machine.tip(), files, self.times.syncs());
        let submission = match Submission::new(append) {
            Ok(submission) => submission,
            Err(error) => {
                self.violation = Some(format!("an append was refused unseen: {error}"));
                return;
            }
        };
        self.owners.insert(id, owner);
        let committer = &mut self.committers[at];
        committer.machine.submit(submission);
        committer.waiting += 1;
        if !committer.is_led {
            committer.is_led = true;
            let company = TimedStep::Wait(self.scenario.company_ms * 1_000);
            self.take_steps(Thread::Lead(at), vec![company]);
        }
    }

    /// Gives a writer its answer.
    pub(super) fn answer(&mut self, writer: usize, is_committed: bool) {
        if let Some(since) = self.writers[writer].since.take()
            && self.before.is_some()
        {
            self.answered.push(self.now - since);
            self.failed += u64::from(!is_committed);
        }
        self.begin_append(writer);
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
