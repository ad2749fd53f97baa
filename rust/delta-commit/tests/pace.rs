//! Processes that commit to one table at once leave most attempts to one another, and wait for nobody in vain.
//!
//! Each process is a machine, and each effect takes a time of a clock that is counted here: nothing depends on how busy
//! this machine is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod memory;

use std::collections::BTreeSet;

use delta_commit::actions::{Action, Add, Remove, Txn};
use delta_commit::log::{BEFORE_FIRST, Effect, Event, StoreError, StoreErrorKind};
use delta_commit::rules::ProtocolRules;
use delta_commit::winner::Winner;
use delta_commit::{
    CommitError, EffectKind, LIFETIME, Machine, MemberId, Submission, Transaction, Verdict, Version,
};

use proptest::prelude::*;

use memory::{ELSEWHERE, Fate, Store, UNREADABLE, added, intent, intent_of, new_table, time_at, version};

/// The progress of an application.
fn progress(version: i64) -> Action {
    Action::Txn(Txn {
        app_id: "loader".to_owned(),
        version,
        ..Txn::default()
    })
}

/// The time that an effect takes: milliseconds.
fn time_of(effect: &Effect) -> u64 {
    match effect {
        Effect::PutVersion(..) => 6,
        Effect::Pause(milliseconds) => *milliseconds,
        Effect::SyncData(_) | Effect::ReadIntents(..) => 2,
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
    /// Files of each append.
    files: u32,
    /// True if each of its transactions removes a file, too, and so is no append.
    removes: bool,
    /// The milliseconds of its own between two transactions, at least.
    rest: u64,
    /// The factor of the time that its effects take.
    slowness: u64,
}

struct Fleet {
    store: Store,
    processes: Vec<Process>,
    now: u64,
    ids: u128,
    appended: usize,
    /// Names of intents whose bodies were read, each with its reader.
    read: BTreeSet<(usize, String)>,
}

impl Fleet {
    /// Processes of which each appends so many times in sequence.
    fn new(processes: u32, appends: u32, rules: ProtocolRules) -> Self {
        let process = |number: u32| Process {
            machine: Machine::with_rules(MemberId::from_number(number.into()), new_table(), rules),
            flight: None,
            // They do not begin in one moment.
            begins: Some(u64::from(number) % 7),
            left: appends,
            files: 1,
            removes: false,
            rest: 5,
            slowness: 1,
        };
        Self {
            store: Store::default(),
            processes: (0..processes).map(process).collect(),
            now: 0,
            ids: processes.into(),
            appended: 0,
            read: BTreeSet::new(),
        }
    }

    /// One process, which does what it is told.
    fn of_one(rules: ProtocolRules) -> Self {
        Self::new(1, 0, rules)
    }

    fn append(&mut self, files: u32) -> Transaction {
        self.ids += 1;
        let paths: Vec<String> = (0..files).map(|file| format!("{}-{file}", self.ids)).collect();
        let adds = paths.iter().map(|path| added(path));
        let mut append = Transaction::append(MemberId::from_number(self.ids), BEFORE_FIRST, adds.collect());
        append.unsynced = paths;
        append
    }

    /// The next transaction of a process.
    fn transaction(&mut self, at: usize) -> Transaction {
        let mut next = self.append(self.processes[at].files);
        if self.processes[at].removes {
            let old = Add {
                path: format!("{}-old", self.ids),
                ..Add::default()
            };
            next.actions.push(Action::Remove(Remove::of(&old, 0, true)));
        }
        next
    }

    /// Lets time pass until every append is committed.
    fn run(&mut self) {
        while self.pass() {}
    }

    /// Lets time pass until the next effect ends. Returns false where there is none.
    fn pass(&mut self) -> bool {
        let ends = self.processes.iter().enumerate().filter_map(|(at, process)| {
            let flight = process.flight.as_ref().map(|(end, _)| *end);
            Some((flight.or(process.begins)?, at))
        });
        let Some((now, at)) = ends.min() else {
            return false;
        };
        self.now = now;
        self.step(at);
        true
    }

    fn step(&mut self, at: usize) {
        let (now, time) = (self.now, time_at(self.now));
        let begun = self.processes[at].begins.take();
        let transaction = begun.map(|_| self.transaction(at));
        let process = &mut self.processes[at];
        match (transaction, process.flight.take()) {
            (Some(append), _) => process.machine.submit(Submission::new(append).unwrap()),
            (None, Some((_, effect))) => {
                let event = self.store.apply(time.wall, &effect);
                process.machine.complete(time, event);
                if let Effect::ReadIntents(unread, _) = effect {
                    for name in unread {
                        assert!(self.read.insert((at, name.clone())), "{at} reads {name} again");
                    }
                }
            }
            (None, None) => {}
        }
        process.flight = process
            .machine
            .next(time)
            .map(|effect| (now + process.slowness * time_of(&effect), effect));
        for (_, verdict) in process.machine.take_verdicts() {
            assert!(matches!(verdict, Verdict::Commit(Ok(_))), "{verdict:?}");
            self.appended += 1;
            process.left -= 1;
        }
        self.store.tidy(&mut process.machine);
        // Rows are written in between. What is left to tidy up comes first.
        if process.flight.is_none() && process.left > 0 && !process.machine.is_busy() {
            process.begins = Some(now + process.rest + (now % (2 * process.rest + 1)));
        }
    }

    /// Hands the first process an append of one file. Returns it.
    fn hand_in(&mut self) -> Transaction {
        let append = self.append(1);
        self.submit(append.clone());
        append
    }

    fn submit(&mut self, append: Transaction) {
        self.processes[0].machine.submit(Submission::new(append).unwrap());
    }

    /// Performs the next effect of the first process; none where it has nothing to do.
    fn perform(&mut self) -> Option<Effect> {
        self.perform_after(|_, _, _| {})
    }

    /// Performs it likewise, after what others do to the store.
    fn perform_after(&mut self, others: impl FnOnce(&mut Store, &Effect, u64)) -> Option<Effect> {
        let machine = &mut self.processes[0].machine;
        let effect = machine.next(time_at(self.now));
        if let Some(effect) = &effect {
            others(&mut self.store, effect, self.now);
            self.now += time_of(effect);
            let event = self.store.apply(time_at(self.now).wall, effect);
            machine.complete(time_at(self.now), event);
        }
        self.store.tidy(machine);
        effect
    }

    /// Performs effects up to the first of a kind, and returns all of them.
    fn perform_to(&mut self, kind: EffectKind) -> Vec<Effect> {
        let mut effects = Vec::new();
        while effects.last().is_none_or(|last| EffectKind::of(last) != kind) {
            effects.push(self.perform().expect("an effect"));
        }
        effects
    }

    /// Performs all that the first process has to do, and returns the kinds of the effects.
    fn finish(&mut self) -> Vec<EffectKind> {
        let effects: Vec<Effect> = std::iter::from_fn(|| self.perform()).collect();
        kinds(&effects)
    }

    /// The verdicts that are new.
    fn verdicts(&mut self) -> Vec<Result<Version, CommitError>> {
        let verdicts = self.processes[0].machine.take_verdicts();
        let results = verdicts.into_iter().map(|(_, verdict)| match verdict {
            Verdict::Commit(result) => result,
            Verdict::Settled(outcome) => panic!("nobody asked, but {outcome:?}"),
        });
        results.collect()
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

fn kinds(effects: &[Effect]) -> Vec<EffectKind> {
    effects.iter().map(EffectKind::of).collect()
}

fn hasty() -> ProtocolRules {
    ProtocolRules {
        leaves_to_others: false,
        ..ProtocolRules::default()
    }
}

/// The attempts and the versions of processes that each append 20 times.
fn race(processes: u32, rules: ProtocolRules) -> (u64, u64) {
    let mut fleet = Fleet::new(processes, 20, rules);
    fleet.run();
    assert_eq!(fleet.appended as u64, u64::from(20 * processes));
    // Carriers delete what they carried while they go on, and read nothing twice.
    assert_eq!(fleet.read.is_empty(), processes == 1);
    let left = fleet.store.intents.len() as u64;
    assert!(left <= u64::from(processes), "{left} intents are left");
    (fleet.attempts(), fleet.versions())
}

#[test]
fn processes_leave_most_attempts_to_one_another() {
    for processes in [8, 64] {
        let (attempts, versions) = race(processes, ProtocolRules::default());
        let (most, more) = race(processes, hasty());
        let told = format!("{attempts} attempts for {versions} versions, else {most} for {more}");
        // The first attempts of all are made before they have met.
        assert!(attempts <= 2 * versions + u64::from(processes), "{told}");
        assert!(2 * attempts <= most, "{told}");
    }
}

#[test]
fn a_process_that_is_alone_announces_nothing_and_waits_for_nobody() {
    let alone = |rules| {
        let mut fleet = Fleet::of_one(rules);
        let appends = (0..20).flat_map(|_| {
            fleet.hand_in();
            fleet.finish()
        });
        let kinds: Vec<EffectKind> = appends.collect();
        let stats = fleet.processes[0].machine.commit_stats();
        assert_eq!((stats.attempts, stats.won, stats.most_lost), (20, 20, 0));
        kinds
    };
    let kinds = alone(ProtocolRules::default());
    assert_eq!(kinds, alone(hasty()));
    assert!(!kinds.contains(&EffectKind::PutIntent) && !kinds.contains(&EffectKind::Pause));
}

#[test]
fn an_append_that_is_too_large_to_be_announced_lands_beside_steady_announcers() {
    let mut fleet = Fleet::new(24, 30, ProtocolRules::default());
    let process = &mut fleet.processes[0];
    (process.begins, process.left, process.files) = (Some(300), 1, 6_000);
    fleet.run();
    let stats = fleet.processes[0].machine.commit_stats();
    let mut winners = fleet.store.log.iter();
    let at = winners.position(|(version, body)| {
        let winner = Winner::parse(*version, body).unwrap();
        winner.added_paths.len() == 6_000
    });
    let (at, versions) = (at.unwrap(), fleet.store.log.len());
    assert!(
        3 * at < 2 * versions,
        "it is version {at} of {versions}: {stats:?}"
    );
}

/// The races that slow transactions of one process lose before each commits, beside processes that write version after
/// version; none where they did not commit while those went on.
fn lost_beside(removes: bool, files: u32, rules: ProtocolRules) -> Option<u32> {
    let mut fleet = Fleet::new(3, 200, rules);
    for process in &mut fleet.processes {
        process.rest = 0;
    }
    fleet.processes[1].removes = true;
    let slow = &mut fleet.processes[2];
    (slow.begins, slow.left, slow.files, slow.slowness) = (Some(300), 1, files, 4);
    slow.removes = removes;
    while fleet.processes[2].left > 0 && fleet.processes.iter().any(|process| process.left > 1) {
        fleet.pass();
    }
    let stats = fleet.processes[2].machine.commit_stats();
    (fleet.processes[2].left == 0).then_some(stats.most_lost)
}

#[test]
fn a_slow_transaction_that_nobody_carries_gets_its_turn() {
    for (removes, files) in [(true, 1), (false, 6_000)] {
        let without = lost_beside(removes, files, hasty());
        let lost = lost_beside(removes, files, ProtocolRules::default());
        let told = format!("{files} files: {lost:?} lost races, {without:?} where nobody waits");
        assert!(lost.is_some_and(|lost| lost <= 4), "{told}");
        assert!(without.is_none_or(|without| without > 12), "{told}");
    }
}

#[test]
fn a_request_is_waited_for_once_and_goes_with_its_owner() {
    let mut fleet = Fleet::of_one(ProtocolRules::default());
    // Nobody will ever take this turn.
    let theirs = format!("{:020}-{}-40.turn", 0, MemberId::from_number(ELSEWHERE));
    let at = i64::try_from(fleet.now).unwrap();
    fleet.store.intents.insert(theirs.clone(), (at, Vec::new()));
    let pauses = [(); 3].map(|()| {
        let before = fleet.now;
        fleet.hand_in();
        let kinds = fleet.finish();
        (kinds.contains(&EffectKind::Pause), fleet.now - before)
    });
    assert!(pauses[0].0 && pauses[0].1 < 80, "{pauses:?}");
    assert!(!pauses[1].0 && !pauses[2].0, "{pauses:?}");
    // It is deleted when nothing that was asked then could still be wanted.
    while fleet.store.log.len() < 40 {
        fleet.hand_in();
        fleet.finish();
    }
    assert!(!fleet.store.intents.contains_key(&theirs));
}

#[test]
fn what_is_no_append_needs_no_listing_of_intents() {
    let mut fleet = Fleet::of_one(ProtocolRules::default());
    fleet.processes[0].removes = true;
    for _ in 0..8 {
        let removal = fleet.transaction(0);
        fleet.submit(removal);
        let machine = &mut fleet.processes[0].machine;
        for _ in 0..20 {
            let Some(effect) = machine.next(time_at(fleet.now)) else {
                break;
            };
            fleet.now += time_of(&effect);
            let event = match &effect {
                Effect::ListIntents => Event::Failed(StoreError {
                    message: "no listing here".to_owned(),
                    kind: StoreErrorKind::Permanent,
                    errno: None,
                }),
                _ => fleet.store.apply(time_at(fleet.now).wall, &effect),
            };
            machine.complete(time_at(fleet.now), event);
        }
        let verdicts = fleet.verdicts();
        assert!(matches!(verdicts.as_slice(), [Ok(_)]), "{verdicts:?}");
    }
}

#[test]
fn steady_arrivals_keep_no_process_from_attempting() {
    let mut fleet = Fleet::of_one(ProtocolRules::default());
    fleet.store.announce(fleet.now, ELSEWHERE, UNREADABLE);
    for effect in 0..180 {
        // One is synced and announced until the next comes.
        if effect % 3 == 0 {
            fleet.hand_in();
        }
        fleet.perform();
    }
    let attempts = fleet.attempts();
    assert!(attempts >= 4, "{attempts} attempts beside steady arrivals");
}

#[test]
fn what_comes_once_an_attempt_is_due_joins_the_next() {
    let mut fleet = Fleet::of_one(ProtocolRules::default());
    fleet.store.announce(fleet.now, ELSEWHERE, UNREADABLE);
    fleet.hand_in();
    // They are read just before the attempt.
    fleet.perform_to(EffectKind::ReadIntents);
    let late = fleet.hand_in();
    fleet.store.fate = Some(Fate::Late(version(&[], &[added("theirs")])));
    let first = fleet.perform_to(EffectKind::PutVersion);
    assert_eq!(kinds(&first), [EffectKind::PutVersion]);
    let mut second = fleet.perform_to(EffectKind::PutVersion);
    let Some(Effect::PutVersion(_, body)) = second.pop() else {
        panic!("it ends with an attempt");
    };
    assert!(kinds(&second).contains(&EffectKind::SyncData));
    let winner = Winner::parse(1, &body).unwrap();
    assert!(winner.members.len() == 2 && winner.members.contains(&late.id));
}

#[test]
fn failures_between_commits_do_not_add_up_where_others_make_every_attempt() {
    let mut fleet = Fleet::of_one(ProtocolRules::default());
    for _ in 0..12 {
        let append = fleet.hand_in();
        fleet.store.is_busy = true;
        fleet.perform();
        fleet.store.commit(&version(&[append.id], &append.actions));
        fleet.finish();
        let verdicts = fleet.verdicts();
        assert!(matches!(verdicts.as_slice(), [Ok(_)]), "{verdicts:?}");
    }
    assert_eq!(fleet.attempts(), 0);
}

#[test]
fn an_intent_is_renewed_before_it_expires_though_the_others_have_gone() {
    let mut fleet = Fleet::of_one(ProtocolRules::default());
    let theirs = fleet.store.announce(fleet.now, ELSEWHERE, UNREADABLE);
    fleet.hand_in();
    fleet.perform_to(EffectKind::PutIntent);
    fleet.store.intents.remove(&theirs);
    fleet.now += u64::try_from(2 * LIFETIME / 3).unwrap();
    let effects = kinds(&fleet.perform_to(EffectKind::PutVersion));
    assert!(effects.contains(&EffectKind::PutIntent), "{effects:?}");
}

#[test]
fn the_intent_of_a_refused_member_goes_at_once_though_the_others_have_gone() {
    let mut fleet = Fleet::of_one(ProtocolRules::default());
    let theirs = fleet.store.announce(fleet.now, ELSEWHERE, UNREADABLE);
    let mut loading = fleet.append(1);
    loading.actions.push(progress(1));
    loading.reads.app_ids.insert("loader".to_owned());
    fleet.submit(loading);
    fleet.hand_in();
    fleet.perform_to(EffectKind::PutIntent);
    fleet.store.intents.remove(&theirs);
    fleet.store.commit(&version(&[], &[progress(2)]));
    fleet.now += u64::try_from(2 * LIFETIME / 3).unwrap();
    let effects = kinds(&fleet.perform_to(EffectKind::PutVersion));
    let at = |kind| effects.iter().position(|effect| *effect == kind);
    let (renewed, withdrawn) = (at(EffectKind::PutIntent), at(EffectKind::WithdrawIntents));
    assert!(renewed.is_some() && renewed < withdrawn, "{effects:?}");
    fleet.finish();
    let verdicts = fleet.verdicts();
    assert_eq!(verdicts.iter().filter(|verdict| verdict.is_ok()).count(), 1);
    assert_eq!(verdicts.len(), 2);
}

#[test]
fn a_version_counts_as_ones_own_though_nobody_said_that_it_was_won() {
    let mut fleet = Fleet::of_one(ProtocolRules::default());
    for fate in [Some(Fate::Unanswered), Some(Fate::Doubled), None] {
        fleet.store.fate = fate;
        fleet.hand_in();
        let effects = fleet.finish();
        assert!(!effects.contains(&EffectKind::PutIntent), "{effects:?}");
    }
    let stats = fleet.processes[0].machine.commit_stats();
    assert_eq!((stats.attempts, stats.won, fleet.verdicts().len()), (3, 3, 3));
    // And what it carried goes, with its own intent.
    let theirs = intent(BEFORE_FIRST, i64::MAX, "theirs");
    fleet.store.announce(fleet.now, ELSEWHERE, &theirs);
    fleet.store.fate = Some(Fate::Unanswered);
    fleet.hand_in();
    let effects = fleet.finish();
    assert!(effects.contains(&EffectKind::PutIntent), "{effects:?}");
    let (_, newest) = fleet.store.log.last_key_value().unwrap();
    assert!(Winner::parse(3, newest).unwrap().added_paths.contains("theirs"));
    assert!(fleet.store.intents.is_empty(), "{:?}", fleet.store.intents.keys());
}

#[test]
fn intents_that_cannot_be_carried_are_waited_for_once() {
    let mut fleet = Fleet::of_one(ProtocolRules::default());
    fleet.now = 1_000;
    fleet.store.commit(&version(&[], &[added("taken")]));
    let (of_another_world, expired) = (intent(0, i64::MAX, "a"), intent(BEFORE_FIRST, 1, "b"));
    let in_conflict = intent(BEFORE_FIRST, i64::MAX, "taken");
    for (body, number) in [of_another_world, expired, in_conflict].iter().zip(1..) {
        fleet.store.announce(fleet.now, number * ELSEWHERE, body);
    }
    let waits = [(); 3].map(|()| {
        fleet.hand_in();
        let effects = fleet.finish();
        fleet.now += 2_000;
        effects.contains(&EffectKind::PutIntent)
    });
    assert_eq!((waits, fleet.store.intents.len()), ([true, false, false], 3));
}

#[test]
fn an_intent_for_a_later_version_is_one_to_wait_for() {
    let mut fleet = Fleet::of_one(ProtocolRules::default());
    let theirs = fleet.store.announce(fleet.now, ELSEWHERE, UNREADABLE);
    let append = fleet.hand_in();
    fleet.perform_to(EffectKind::PutIntent);
    fleet.store.intents.remove(&theirs);
    // Just before the listing, its owner has read a version that this process has not.
    let later = |store: &mut Store, now: u64| {
        store.commit(&version(&[], &[added("theirs")]));
        store.announce_for(1, now, ELSEWHERE, &intent(BEFORE_FIRST, i64::MAX, "later"));
    };
    let mut later = Some(later);
    let is_attempt = |effect: Effect| EffectKind::of(&effect) == EffectKind::PutVersion;
    while !fleet
        .perform_after(|store, effect, now| {
            if matches!(effect, Effect::ListIntents)
                && let Some(later) = later.take()
            {
                later(store, now);
            }
        })
        .is_some_and(is_attempt)
    {}
    // Another process commits the append, so that this one carries nothing.
    fleet.store.commit(&version(&[append.id], &append.actions));
    fleet.finish();
    let verdicts = fleet.verdicts();
    assert!(matches!(verdicts.as_slice(), [Ok(1)]), "{verdicts:?}");
    fleet.now += 2_000;
    fleet.hand_in();
    let effects = kinds(&fleet.perform_to(EffectKind::PutVersion));
    assert!(effects.contains(&EffectKind::PutIntent), "{effects:?}");
}

#[test]
fn an_announcement_that_is_refused_for_now_is_none() {
    let mut fleet = Fleet::of_one(ProtocolRules::default());
    fleet.store.announce(fleet.now, ELSEWHERE, UNREADABLE);
    fleet.store.throttles = true;
    let append = fleet.hand_in();
    let effects = kinds(&fleet.perform_to(EffectKind::PutIntent));
    assert!(!effects.contains(&EffectKind::PutVersion), "{effects:?}");
    // Nobody can see it, so its outcome is certain.
    let given_up = fleet.processes[0].machine.give_up(append.id);
    assert!(
        matches!(given_up, Some(Verdict::Commit(Err(CommitError::DeadlinePassed)))),
        "{given_up:?}"
    );
    // And the next is attempted without a wait for those who cannot see it.
    fleet.hand_in();
    let effects = kinds(&fleet.perform_to(EffectKind::PutVersion));
    assert!(!effects.contains(&EffectKind::PutIntent), "{effects:?}");
    fleet.finish();
    let verdicts = fleet.verdicts();
    assert!(matches!(verdicts.as_slice(), [Ok(0)]), "{verdicts:?}");
}

#[test]
fn an_announcement_without_an_answer_is_waited_for_once_a_listing_shows_it() {
    let waited = |arrives: bool| {
        let mut fleet = Fleet::of_one(ProtocolRules::default());
        fleet.store.announce(fleet.now, ELSEWHERE, UNREADABLE);
        fleet.store.holds_back = true;
        fleet.hand_in();
        fleet.perform_to(EffectKind::PutIntent);
        if arrives {
            fleet.store.let_arrive(time_at(fleet.now).wall);
        }
        let mut effects = fleet.perform_to(EffectKind::ListIntents);
        // A failure is followed by a pause of its own.
        assert!(matches!(effects.remove(0), Effect::Pause(_)));
        assert!(!kinds(&effects).contains(&EffectKind::Pause));
        kinds(&fleet.perform_to(EffectKind::PutVersion)).contains(&EffectKind::Pause)
    };
    assert_eq!((waited(true), waited(false)), (true, false));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.div_ceil(8),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_version_carries_no_more_than_a_batch_and_what_is_left_comes_next(
        announced in prop::collection::vec(prop_oneof![1..50_usize, 2_000..=5_000_usize], 1..4),
        own in prop_oneof![1..50_u32, 5_001..6_000_u32],
    ) {
        let mut fleet = Fleet::of_one(hasty());
        for (number, files) in (1..).zip(&announced) {
            let adds: Vec<Action> = (0..*files).map(|file| added(&format!("{number}-of-{file}"))).collect();
            let body = intent_of(number * ELSEWHERE, BEFORE_FIRST, i64::MAX, &adds);
            fleet.store.announce(fleet.now, number * ELSEWHERE, &body);
        }
        while !fleet.store.intents.is_empty() {
            let append = fleet.append(own);
            fleet.submit(append);
            fleet.finish();
            let verdicts = fleet.verdicts();
            prop_assert!(matches!(verdicts.as_slice(), [Ok(_)]), "{:?}", verdicts);
        }
        let mut landed = 0;
        for (version, body) in &fleet.store.log {
            let winner = Winner::parse(*version, body).unwrap();
            let files = winner.added_paths.len();
            prop_assert!(files <= 5_000 || winner.members.len() == 1, "{files} files of several");
            landed += winner.added_paths.iter().filter(|path| path.contains("-of-")).count();
        }
        prop_assert_eq!(landed, announced.iter().sum::<usize>());
    }
}

#[test]
fn no_more_is_read_than_a_version_takes() {
    let mut fleet = Fleet::of_one(hasty());
    let long = "x".repeat(3 << 20);
    for number in 1..=6 {
        let adds = [added(&format!("{long}{number}"))];
        let body = intent_of(number * ELSEWHERE, BEFORE_FIRST, i64::MAX, &adds);
        fleet.store.announce(fleet.now, number * ELSEWHERE, &body);
    }
    let mut read = Vec::new();
    while !fleet.store.intents.is_empty() {
        fleet.hand_in();
        let effects: Vec<Effect> = std::iter::from_fn(|| fleet.perform()).collect();
        let unread = effects.iter().filter_map(|effect| match effect {
            Effect::ReadIntents(unread, _) => Some(unread.len()),
            _ => None,
        });
        read.extend(unread);
    }
    // Each version takes one of them, and the next one that is known already.
    assert_eq!(read.iter().sum::<usize>(), 6, "{read:?}");
    assert!(read.iter().all(|bodies| *bodies <= 2), "{read:?}");
}

#[test]
fn a_member_that_joins_makes_no_other_listing() {
    let mut fleet = Fleet::of_one(ProtocolRules::default());
    for number in 1..=3 {
        let theirs = intent_of(
            number * ELSEWHERE,
            BEFORE_FIRST,
            i64::MAX,
            &[added(&number.to_string())],
        );
        fleet.store.announce(fleet.now, number * ELSEWHERE, &theirs);
    }
    fleet.hand_in();
    fleet.perform_to(EffectKind::PutIntent);
    // It waits for those that are older than its own, by a listing.
    fleet.perform_to(EffectKind::ListIntents);
    fleet.perform_to(EffectKind::Pause);
    fleet.hand_in();
    fleet.perform_to(EffectKind::PutIntent);
    let effects = kinds(&fleet.perform_to(EffectKind::PutVersion));
    let listings = effects.iter().filter(|kind| **kind == EffectKind::ListIntents);
    assert_eq!(listings.count(), 1, "{effects:?}");
}
