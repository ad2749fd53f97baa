//! Processes that commit to one table at once leave most attempts to one another.
//!
//! Each process is a machine, and each effect takes a time of a clock that is counted here: nothing depends on how busy
//! this machine is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;

use delta_commit::actions::{Action, Add};
use delta_commit::log::{BEFORE_FIRST, Effect, Event, IntentEntry, Listing, PutOutcome, Time};
use delta_commit::rules::Rules;
use delta_commit::winner::Winner;
use delta_commit::{Machine, MemberId, Start, Submission, Transaction, Verdict, Version};

/// A store in memory that never fails.
#[derive(Default)]
struct Store {
    log: BTreeMap<Version, Vec<u8>>,
    intents: BTreeMap<String, (i64, Vec<u8>)>,
}

impl Store {
    fn apply(&mut self, now: i64, effect: &Effect) -> Event {
        match effect {
            Effect::FindTip => Event::Tip(self.log.keys().next_back().copied().unwrap_or(BEFORE_FIRST)),
            Effect::ReadVersion(version) => Event::Body(self.log.get(version).cloned()),
            Effect::PutVersion(version, body) => {
                if self.log.contains_key(version) {
                    return Event::Put(PutOutcome::Exists);
                }
                self.log.insert(*version, body.clone());
                Event::Put(PutOutcome::Won)
            }
            Effect::ListIntents => Event::Listing(Listing {
                now,
                entries: self.entries(),
            }),
            Effect::ReadIntents(names) => {
                let bodies = names.iter().filter_map(|name| {
                    let (_, body) = self.intents.get(name)?;
                    Some((name.clone(), body.clone()))
                });
                Event::Intents(bodies.collect())
            }
            Effect::PutIntent(name, body) => {
                self.intents.insert(name.clone(), (now, body.clone()));
                Event::Done
            }
            Effect::DeleteIntents(names) | Effect::WithdrawIntents(names) => {
                for name in names {
                    self.intents.remove(name);
                }
                Event::Done
            }
            Effect::SyncData(paths) => Event::Synced(vec![Ok(()); paths.len()]),
            Effect::SyncLog(..) | Effect::Pause(_) => Event::Done,
            Effect::Merge(_) => panic!("an append merges no rows"),
        }
    }

    fn entries(&self) -> Vec<IntentEntry> {
        let entries = self.intents.iter().map(|(name, (created, _))| IntentEntry {
            name: name.clone(),
            created: *created,
        });
        entries.collect()
    }
}

/// The time that an effect takes: milliseconds.
fn time_of(effect: &Effect) -> u64 {
    match effect {
        Effect::PutVersion(..) => 6,
        Effect::Pause(milliseconds) => *milliseconds,
        Effect::SyncData(_) | Effect::ReadIntents(_) => 2,
        _ => 1,
    }
}

/// A process: its machine, the effect under way and its end, and the appends that are left to do.
struct Process {
    machine: Machine,
    flight: Option<(u64, Effect)>,
    /// The time at which the next append begins, while none is under way.
    begins: Option<u64>,
    left: u32,
}

struct Fleet {
    store: Store,
    processes: Vec<Process>,
    ids: u128,
    appended: usize,
}

impl Fleet {
    /// Processes of which each appends so many times in sequence.
    fn new(processes: u32, appends: u32, rules: Rules) -> Self {
        let start = Start {
            version: BEFORE_FIRST,
            table_id: "t".to_owned(),
            changed_in: BEFORE_FIRST,
            in_commit_timestamp: None,
            known: None,
        };
        let process = |number: u32| Process {
            machine: Machine::with_rules(MemberId::from_number(number.into()), start.clone(), rules),
            flight: None,
            // They do not begin in one moment.
            begins: Some(u64::from(number) % 7),
            left: appends,
        };
        Self {
            store: Store::default(),
            processes: (0..processes).map(process).collect(),
            ids: processes.into(),
            appended: 0,
        }
    }

    fn append(&mut self) -> Submission {
        self.ids += 1;
        let add = Action::Add(Add {
            path: self.ids.to_string(),
            data_change: true,
            ..Add::default()
        });
        let mut append = Transaction::append(MemberId::from_number(self.ids), BEFORE_FIRST, vec![add]);
        append.unsynced = vec![self.ids.to_string()];
        Submission::new(append).unwrap()
    }

    /// Lets time pass until every append is committed.
    fn run(&mut self) {
        loop {
            let ends = self.processes.iter().enumerate().filter_map(|(at, process)| {
                let flight = process.flight.as_ref().map(|(end, _)| *end);
                Some((flight.or(process.begins)?, at))
            });
            let Some((now, at)) = ends.min() else {
                return;
            };
            self.step(now, at);
        }
    }

    fn step(&mut self, now: u64, at: usize) {
        let time = Time {
            monotonic: now,
            wall: i64::try_from(now).unwrap(),
        };
        let submission = match self.processes[at].begins.take() {
            Some(_) => Some(self.append()),
            None => None,
        };
        let process = &mut self.processes[at];
        match (submission, process.flight.take()) {
            (Some(submission), _) => process.machine.submit(submission),
            (None, Some((_, effect))) => {
                let event = self.store.apply(time.wall, &effect);
                process.machine.complete(time, event);
            }
            (None, None) => {}
        }
        process.flight = process
            .machine
            .next(time)
            .map(|effect| (now + time_of(&effect), effect));
        for (_, verdict) in process.machine.take_verdicts() {
            assert!(matches!(verdict, Verdict::Commit(Ok(_))), "{verdict:?}");
            self.appended += 1;
            process.left -= 1;
        }
        // Rows are written in between. What is left to tidy up comes first.
        if process.flight.is_none() && process.left > 0 && !process.machine.is_busy() {
            process.begins = Some(now + 5 + (now % 11));
        }
    }

    fn attempts(&self) -> u64 {
        let stats = self
            .processes
            .iter()
            .map(|process| process.machine.commit_stats());
        stats.map(|stats| stats.attempts).sum()
    }

    /// Versions, of which each append is in one.
    fn versions(&self) -> u64 {
        let winners = self.store.log.iter();
        let winners = winners.map(|(version, body)| Winner::parse(*version, body).unwrap());
        assert_eq!(
            winners.map(|winner| winner.members.len()).sum::<usize>(),
            self.appended
        );
        self.store.log.len() as u64
    }
}

/// The attempts and the versions of processes that each append 20 times.
fn race(processes: u32, rules: Rules) -> (u64, u64) {
    let mut fleet = Fleet::new(processes, 20, rules);
    fleet.run();
    assert_eq!(fleet.appended as u64, u64::from(20 * processes));
    // Carriers delete what they carried while they go on.
    let left = fleet.store.intents.len() as u64;
    assert!(left <= u64::from(processes), "{left} intents are left");
    (fleet.attempts(), fleet.versions())
}

#[test]
fn processes_leave_most_attempts_to_one_another() {
    let hasty = Rules {
        leaves_to_others: false,
        ..Rules::default()
    };
    for processes in [8, 64] {
        let (attempts, versions) = race(processes, Rules::default());
        let (most, more) = race(processes, hasty);
        let told = format!("{attempts} attempts for {versions} versions, else {most} for {more}");
        // The first attempts of all are made before they have met.
        assert!(attempts <= 2 * versions + u64::from(processes), "{told}");
        assert!(2 * attempts <= most, "{told}");
    }
}

#[test]
fn a_process_that_is_alone_announces_nothing_and_waits_for_nobody() {
    let mut fleet = Fleet::new(1, 20, Rules::default());
    fleet.run();
    assert_eq!((fleet.attempts(), fleet.versions()), (20, 20));
    let stats = fleet.processes[0].machine.commit_stats();
    assert_eq!((stats.won, stats.most_lost), (20, 0));
}
