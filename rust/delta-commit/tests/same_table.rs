//! R13: what a process commits is in the table that it knows, whatever becomes of its place.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod memory;

use std::collections::BTreeMap;

use delta_commit::log::{BodyDigest, Effect, Version, VersionPresence, standing_of_missing};
use delta_commit::{CommitError, Machine, MemberId, Start, Submission, Transaction, Verdict};

use memory::{Store, added, new_table, time_at, version};

/// The version that the table has, of a log that begins with 0.
const TIP: Version = 3;

struct Scene {
    store: Store,
    machine: Machine,
    now: u64,
    number: u128,
    done: Vec<Effect>,
}

/// A log of so many versions, with bodies of its own.
fn log(name: &str, versions: Version) -> BTreeMap<Version, Vec<u8>> {
    let body = |at: Version| version(&[], &[added(&format!("{name}-{at}"))]).into_bytes();
    (0..versions).map(|at| (at, body(at))).collect()
}

impl Scene {
    fn new() -> Self {
        let store = Store {
            log: log("old", TIP + 1),
            ..Store::default()
        };
        let start = Start {
            version: TIP,
            digest: store.log.get(&TIP).map(|body| BodyDigest::of(body)),
            ..new_table()
        };
        Self {
            store,
            machine: Machine::new(MemberId::from_number(1), start),
            now: 0,
            number: 1,
            done: Vec::new(),
        }
    }

    /// Appends, and calls back before each effect.
    fn append(&mut self, mut before: impl FnMut(&Effect, &mut Store)) -> Result<Version, CommitError> {
        self.number += 1;
        let id = MemberId::from_number(self.number);
        let append = Transaction::append(id, self.machine.tip(), vec![added(&id.to_string())]);
        self.machine.submit(Submission::new(append).unwrap());
        loop {
            let effect = self.machine.next(time_at(self.now));
            if let Some((_, Verdict::Commit(result))) = self.machine.take_verdicts().pop() {
                return result;
            }
            let effect = effect.expect("a member waits");
            self.now += match &effect {
                Effect::Pause(milliseconds) => *milliseconds,
                _ => 1,
            };
            before(&effect, &mut self.store);
            let now = time_at(self.now);
            let event = self.store.apply(now.wall, &effect);
            self.machine.complete(now, event);
            self.done.push(effect);
        }
    }

    fn count(&mut self, wanted: impl Fn(&Effect) -> bool) -> usize {
        self.done.drain(..).filter(wanted).count()
    }
}

fn is_put(effect: &Effect) -> bool {
    matches!(effect, Effect::PutVersion(..))
}

#[test]
fn a_table_of_any_length_in_the_place_of_another_gets_no_version() {
    for versions in [0, 1, TIP, TIP + 1, TIP + 4] {
        let mut scene = Scene::new();
        scene.store.log = log("new", versions);
        let error = scene.append(|_, _| ()).unwrap_err();
        assert!(
            matches!(error, CommitError::Replaced(_) | CommitError::LogTruncated(_)),
            "{versions}: {error:?}"
        );
        assert_eq!(scene.store.log, log("new", versions));
        assert_eq!(scene.count(is_put), 0, "{versions}");
    }
}

#[test]
fn a_version_above_the_gap_that_a_restore_left_is_not_built_upon() {
    let mut scene = Scene::new();
    let others = log("other", TIP + 3);
    scene.store.log.insert(TIP + 1, others[&(TIP + 1)].clone());
    let mut is_restored = false;
    let error = scene.append(|effect, store| {
        let reads_next = matches!(effect, Effect::ReadVersion(at) if *at == TIP + 2);
        if reads_next && !std::mem::replace(&mut is_restored, true) {
            store.log.remove(&(TIP + 1));
            store.log.insert(TIP + 2, others[&(TIP + 2)].clone());
        }
    });
    assert!(
        matches!(error, Err(CommitError::Replaced(at)) if at == TIP + 1),
        "{error:?}"
    );
    assert_eq!(scene.count(is_put), 0);
}

#[test]
fn no_more_versions_are_looked_up_than_were_read() {
    for (versions, looks) in [(1, 1), (2, 2), (5, 2)] {
        let mut scene = Scene::new();
        let others = log("other", TIP + 1 + versions);
        scene
            .store
            .log
            .extend(others.into_iter().skip(scene.store.log.len()));
        scene.append(|_, _| ()).unwrap();
        // One more is that of its own version.
        let found = scene.count(|effect| matches!(effect, Effect::CheckVersion(..)));
        assert_eq!(found, looks + 1, "{versions}");
    }
}

#[test]
fn a_version_that_came_into_another_table_is_taken_back() {
    for versions in [0, 1, TIP, TIP + 1] {
        let mut scene = Scene::new();
        let error = scene.append(|effect, store| {
            if is_put(effect) {
                store.log = log("new", versions);
            }
        });
        assert!(
            matches!(error, Err(CommitError::Replaced(TIP))),
            "{versions}: {error:?}"
        );
        assert_eq!(scene.store.log, log("new", versions));
    }
}

#[test]
fn a_version_that_another_one_follows_stays_and_is_in_doubt() {
    let mut scene = Scene::new();
    let error = scene.append(|effect, store| match effect {
        Effect::PutVersion(..) => store.log = log("new", TIP + 1),
        Effect::CheckVersion(..) if store.log.contains_key(&(TIP + 1)) => {
            let after = version(&[], &[added("after")]).into_bytes();
            store.log.insert(TIP + 2, after);
        }
        _ => {}
    });
    assert!(matches!(error, Err(CommitError::Unknown { .. })), "{error:?}");
    assert_eq!(scene.store.log.len(), 6);
}

#[test]
fn the_table_is_looked_at_again_after_a_second() {
    let is_check = |effect: &Effect| matches!(effect, Effect::CheckVersion(..));
    let mut scene = Scene::new();
    for (wait, looks) in [(0, 2), (0, 1), (1_500, 2), (900, 1)] {
        scene.now += wait;
        scene.append(|_, _| ()).unwrap();
        assert_eq!(scene.count(is_check), looks, "after {wait} ms");
    }
}

#[test]
fn a_process_that_is_alone_makes_no_more_requests_than_before() {
    let is_request = |effect: &Effect| {
        !matches!(
            effect,
            Effect::SyncData(_) | Effect::SyncLog(..) | Effect::Pause(_)
        )
    };
    let mut scene = Scene::new();
    for _ in 0..5 {
        scene.append(|_, _| ()).unwrap();
    }
    scene.done.clear();
    // A listing, the version, and the look after it.
    scene.append(|_, _| ()).unwrap();
    assert_eq!(scene.count(is_request), 3);
    // A look before it where it was idle.
    scene.now += 60_000;
    scene.append(|_, _| ()).unwrap();
    assert_eq!(scene.count(is_request), 4);
}

#[test]
fn what_others_wrote_meanwhile_is_followed() {
    let mut scene = Scene::new();
    for round in 0..8 {
        if round % 3 == 2 {
            let body = version(&[], &[added(&format!("other-{round}"))]);
            scene.store.commit(&body);
        }
        scene.append(|_, _| ()).unwrap();
        let versions: Vec<Version> = scene.store.log.keys().copied().collect();
        let count = Version::try_from(versions.len()).unwrap();
        assert!(versions.into_iter().eq(0..count));
    }
}

#[test]
fn a_checkpoint_stands_for_a_version_only_where_nothing_after_it_is_missing() {
    let checkpoint = |of: Version| format!("{of:020}.checkpoint.parquet");
    let json = |of: Version| format!("{of:020}.json");
    let standing = |names: &[String]| standing_of_missing(names.iter().map(String::as_str), 5);
    assert_eq!(standing(&[]), VersionPresence::Missing);
    assert_eq!(standing(&[json(4), json(6)]), VersionPresence::Missing);
    assert_eq!(standing(&[checkpoint(4), json(4)]), VersionPresence::Missing);
    assert_eq!(standing(&[checkpoint(5)]), VersionPresence::Checkpoint);
    assert_eq!(
        standing(&[checkpoint(5), json(6), json(7)]),
        VersionPresence::Checkpoint
    );
    assert_eq!(standing(&[checkpoint(5), json(7)]), VersionPresence::Missing);
    assert_eq!(standing(&[checkpoint(8), json(8)]), VersionPresence::CleanedUp);
}
