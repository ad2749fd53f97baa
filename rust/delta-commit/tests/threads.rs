//! Real threads on a real disk: all commit, each once, and everybody is told the truth in time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod disk;
mod memory;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use delta_commit::actions::{Action, Add, DeletionVector, Metadata, Protocol, Remove, parse_commit};
use delta_commit::conflict::ConflictKind;
use delta_commit::log::{BEFORE_FIRST, LogStore, PutOutcome, StoreError, StoreErrorKind, version_file};
use delta_commit::store::LocalLogStore;
use delta_commit::{
    CommitError, Committer, EffectKind, Marked, Marks, MemberId, Merge, Operation, Outcome, Start, Token,
    Transaction, Version, WaitLimit, await_intent_gc,
};

use disk::{Failing, Put, add, adds, append, failing, local, soon, start, table};

/// Commits, and calls `queued` once the transaction is in the queue: its wait limit is not asked before.
fn commit_queued(
    committer: &Committer,
    transaction: Transaction,
    queued: impl FnOnce(),
) -> Result<Version, CommitError> {
    let mut queued = Some(queued);
    let mut go_on = || {
        if let Some(queued) = queued.take() {
            queued();
        }
        true
    };
    committer.commit_while(transaction, &mut WaitLimit::while_asked(soon(), &mut go_on))
}

#[test]
fn the_times_of_effects_are_counted_by_their_kind() {
    let table = table();
    let committer = local(table.path());
    let asked = Instant::now();
    for name in ["a", "b"] {
        committer.commit(append(name), soon()).unwrap();
    }
    let took = asked.elapsed();
    let stats = committer.commit_stats();
    let puts = stats.timings.of(EffectKind::PutVersion);
    assert_eq!((puts.count, stats.attempts, stats.won), (2, 2, 2));
    let total: Duration = stats.timings.iter().map(|(_, times)| times.total).sum();
    assert!(total <= took, "{total:?} of {took:?}");
    for (kind, times) in stats.timings.iter() {
        assert!(
            times.longest <= times.total && times.count > 0,
            "{kind:?}: {times:?}"
        );
    }
    assert_eq!(stats.timings.of(EffectKind::PutIntent).count, 0);
    assert!(stats.timings.of(EffectKind::ListIntents).count >= 2);
}

/// Threads of several committers, each of which is to the others as another process is.
fn race(committers: usize, threads: usize) {
    let table = table();
    let barrier = Arc::new(Barrier::new(committers * threads));
    let mut writers = Vec::new();
    for c in 0..committers {
        let committer = Arc::new(local(table.path()));
        for t in 0..threads {
            let (committer, barrier) = (Arc::clone(&committer), Arc::clone(&barrier));
            writers.push(thread::spawn(move || {
                let path = format!("{c}-{t}.parquet");
                barrier.wait();
                let version = committer.commit(append(&path), soon()).unwrap();
                (path, version)
            }));
        }
    }
    let told: HashMap<String, Version> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
    assert_eq!(told, adds(table.path()));
    assert!(await_intent_gc(Duration::from_secs(60)));
    let intents = std::fs::read_dir(table.path().join("_spillway/intents"));
    let left = intents.map_or(0, Iterator::count);
    assert!(left <= committers, "{left} intents are left over");
}

#[test]
fn threads_of_one_process_share_versions() {
    race(1, 200);
}

#[test]
fn processes_carry_each_other() {
    race(16, 8);
}

#[test]
fn lone_processes_carry_each_other() {
    race(32, 1);
}

#[test]
fn rows_that_many_append_at_once_have_ids_of_their_own() {
    const ROWS: i64 = 3;
    const WRITERS: usize = 8;
    const APPENDS: usize = 5;
    let table = tempfile::tempdir().unwrap();
    let protocol = Protocol {
        min_writer_version: 7,
        writer_features: Some(["rowTracking", "domainMetadata"].map(str::to_owned).to_vec()),
        ..Protocol::default()
    };
    let known = Metadata {
        id: "t".to_owned(),
        ..Metadata::default()
    };
    let of = |start| Committer::new(Arc::new(LocalLogStore::new(table.path())), start);
    let creation = vec![
        Action::Protocol(protocol.clone()),
        Action::Metadata(known.clone()),
    ];
    let creation = Transaction::append(MemberId::random(), BEFORE_FIRST, creation);
    of(start(BEFORE_FIRST)).commit(creation, soon()).unwrap();
    let start = Start {
        known: Some((protocol, known)),
        ..start(0)
    };
    let committers = [of(start.clone()), of(start.clone()), of(start)];
    thread::scope(|scope| {
        for (c, committer) in committers.iter().enumerate() {
            for writer in 0..WRITERS {
                scope.spawn(move || {
                    for n in 0..APPENDS {
                        let add = Add {
                            path: format!("{c}-{writer}-{n}"),
                            data_change: true,
                            stats: Some(format!(r#"{{"numRecords":{ROWS}}}"#)),
                            ..Add::default()
                        };
                        let append = Transaction::append(MemberId::random(), 0, vec![Action::Add(add)]);
                        committer.commit(append, soon()).unwrap();
                    }
                });
            }
        }
    });
    let store = LocalLogStore::new(table.path());
    let (mut given, mut marks) = (Vec::new(), Vec::new());
    for version in 1..=store.find_tip().unwrap() {
        for action in parse_commit(&store.read_version(version).unwrap().unwrap()).unwrap() {
            match action {
                Action::Add(add) => {
                    assert_eq!(add.default_row_commit_version, Some(version));
                    given.push(add.base_row_id.unwrap());
                }
                Action::DomainMetadata(domain) => marks.push(domain.configuration),
                _ => {}
            }
        }
    }
    let files = i64::try_from(3 * WRITERS * APPENDS).unwrap();
    // Nothing is left out where each version goes on from the one before.
    assert_eq!(given, (0..files).map(|file| file * ROWS).collect::<Vec<_>>());
    let highest = format!(r#"{{"rowIdHighWaterMark":{}}}"#, files * ROWS - 1);
    assert_eq!(marks.last(), Some(&highest));
}

fn os_error(errno: i32) -> StoreError {
    StoreError::io("a file", &std::io::Error::from_raw_os_error(errno))
}

const EIO: i32 = 5;
const EMFILE: i32 = 24;

fn token(result: Result<Version, CommitError>) -> Token {
    match result {
        Err(CommitError::Unknown { token, .. }) => *token,
        other => panic!("expected a doubt, but got {other:?}"),
    }
}

#[test]
fn an_attempt_whose_answer_was_lost_is_found_in_the_log() {
    let table = table();
    let sent = AtomicUsize::new(0);
    let committer = failing(table.path(), move |store, version, body| {
        let outcome = store.put_version(version, body)?;
        let first = sent.fetch_add(1, Ordering::Relaxed) == 0;
        Ok(if first {
            PutOutcome::Unknown(StoreError::transient("lost"))
        } else {
            outcome
        })
    });
    assert_eq!(committer.commit(append("a"), soon()).unwrap(), 1);
    assert_eq!(adds(table.path()).len(), 1);
}

#[test]
fn a_doubt_is_settled_either_way_and_by_anyone() {
    for arrives in [true, false] {
        let table = table();
        let is_tried = Arc::new(AtomicBool::new(false));
        let tried = Arc::clone(&is_tried);
        let committer = failing(table.path(), move |store, version, body| {
            if arrives {
                store.put_version(version, body)?;
            }
            tried.store(true, Ordering::Release);
            // Longer than a commit goes without a look at its wait limit.
            thread::sleep(Duration::from_millis(120));
            Ok(PutOutcome::Unknown(StoreError::transient("lost")))
        });
        let mut until_tried = || !is_tried.load(Ordering::Acquire);
        let mut wait = WaitLimit::while_asked(soon(), &mut until_tried);
        let doubt = token(committer.commit_while(append("a"), &mut wait));
        let doubt = Token::from_text(&doubt.to_text().unwrap()).unwrap();
        let expected = if arrives {
            Outcome::Committed(1)
        } else {
            Outcome::Rejected
        };
        let other = local(table.path());
        assert_eq!(
            other.outcome(&doubt, &mut WaitLimit::until(soon())).unwrap(),
            expected
        );
        assert_eq!(adds(table.path()).len(), usize::from(arrives));
        // The version that might still have come is taken, so the answer stays true.
        assert_eq!(LocalLogStore::new(table.path()).find_tip().unwrap(), 1);
    }
}

#[test]
fn a_token_of_another_table_is_refused() {
    let table = table();
    let token = Token {
        table_id: "other".to_owned(),
        id: MemberId::random().to_string(),
        first: 1,
        last: 1,
        intents: Vec::new(),
        announcement_in_doubt: false,
        expires: None,
    };
    let error = local(table.path())
        .outcome(&token, &mut WaitLimit::until(soon()))
        .unwrap_err();
    assert!(error.to_string().contains("other"), "{error}");
}

#[test]
fn a_doubt_that_never_expires_is_pending() {
    let table = table();
    let token = Token {
        table_id: "t".to_owned(),
        id: MemberId::random().to_string(),
        first: 1,
        last: 32,
        intents: vec!["lost.json".to_owned()],
        announcement_in_doubt: true,
        expires: Some(i64::MAX),
    };
    let outcome = local(table.path()).outcome(&token, &mut WaitLimit::until(soon()));
    assert_eq!(outcome.unwrap(), Outcome::Pending);
}

#[test]
fn a_deadline_in_the_queue_leaves_nothing_behind() {
    let table = table();
    let both = Arc::new(Barrier::new(2));
    let leaders = Arc::clone(&both);
    let committer = Arc::new(failing(table.path(), move |store, version, body| {
        if version == 1 {
            // Begun, and not done before the other has given up.
            leaders.wait();
            leaders.wait();
        }
        store.put_version(version, body)
    }));
    let leader = {
        let committer = Arc::clone(&committer);
        thread::spawn(move || committer.commit(append("slow"), soon()))
    };
    both.wait();
    let late = committer.commit(append("late"), Instant::now() + Duration::from_millis(20));
    both.wait();
    assert!(matches!(late, Err(CommitError::DeadlinePassed)), "{late:?}");
    assert_eq!(leader.join().unwrap().unwrap(), 1);
    assert_eq!(committer.commit(append("next"), soon()).unwrap(), 2);
    assert!(!adds(table.path()).contains_key("late"));
}

/// An attempt at version 1 that begins, and is not done before all others are in the queue.
fn held_until(all: &Arc<Barrier>) -> Box<Put> {
    let leaders = Arc::clone(all);
    Box::new(move |store, version, body| {
        if version == 1 {
            leaders.wait();
            leaders.wait();
        }
        store.put_version(version, body)
    })
}

/// Appends of three threads: the second version is for two of them, and carries an intent of another process.
struct Carried {
    table: tempfile::TempDir,
    committer: Arc<Committer>,
    /// The number of threads that have their verdict.
    answered: Arc<Mutex<usize>>,
}

impl Carried {
    /// Appends beside deletions of intents that take place like this. It is told the number of answered threads.
    fn new(delete: impl Fn(&LocalLogStore, &Mutex<usize>) + Send + Sync + 'static) -> Self {
        let table = table();
        let (all, answered) = (Arc::new(Barrier::new(3)), Arc::new(Mutex::new(0)));
        let (leaders, answers) = (Arc::clone(&all), Arc::clone(&answered));
        let store = Failing {
            put: Box::new(move |store, version, body| {
                if version == 1 {
                    leaders.wait();
                    // Its owner has read the table's first version.
                    let theirs =
                        memory::intent(0, i64::MAX, "theirs").replace(r#""first":0"#, r#""first":1"#);
                    store.put_intent(
                        &format!("{:020}-{}-0.json", 1, MemberId::random()),
                        theirs.as_bytes(),
                    )?;
                    leaders.wait();
                }
                store.put_version(version, body)
            }),
            delete: Box::new(move |store, name| {
                delete(store, &answers);
                store.delete_intent(name)
            }),
            ..Failing::new(table.path())
        };
        let carried = Self {
            table,
            committer: Arc::new(store.committer()),
            answered,
        };
        carried.append(&all);
        carried
    }

    fn append(&self, all: &Arc<Barrier>) {
        let first = Arc::clone(&self.committer);
        let first = thread::spawn(move || first.commit(append("first"), soon()));
        let others = ["second", "third"].map(|path| {
            let (committer, all) = (Arc::clone(&self.committer), Arc::clone(all));
            let answered = Arc::clone(&self.answered);
            thread::spawn(move || {
                all.wait();
                let queued = || {
                    all.wait();
                };
                let version = commit_queued(&committer, append(path), queued);
                *answered.lock().unwrap() += 1;
                version
            })
        });
        assert_eq!(first.join().unwrap().unwrap(), 1);
        for other in others {
            assert_eq!(other.join().unwrap().unwrap(), 2);
        }
    }

    /// Waits for the deletions, and checks that nothing is left of the intents.
    fn finish(self) {
        assert!(await_intent_gc(Duration::from_secs(60)));
        assert_eq!(adds(self.table.path())["theirs"], 2);
        let left = std::fs::read_dir(self.table.path().join("_spillway/intents")).unwrap();
        assert_eq!(left.count(), 0);
    }
}

/// Waits until something is so, and returns false where it is not so after a long time.
fn comes_true(mut is_so: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        if Instant::now() > until {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    true
}

#[test]
fn verdicts_come_before_the_deletion_of_intents() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let carried = Carried::new(move |store, answered| {
        // Both are committed by then, and an intent of the first may go before.
        if store.find_tip().unwrap() == 2 {
            let are_told = comes_true(|| *answered.lock().unwrap() == 2);
            noted.lock().unwrap().push(are_told);
        }
    });
    carried.finish();
    let seen = seen.lock().unwrap();
    assert!(!seen.is_empty() && !seen.contains(&false), "{seen:?}");
}

#[test]
fn the_deletion_of_intents_delays_no_commit() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let carried = Carried::new(move |store, _| {
        let is_next = comes_true(|| store.find_tip().unwrap() >= 3);
        noted.lock().unwrap().push(is_next);
    });
    assert_eq!(carried.committer.commit(append("fourth"), soon()).unwrap(), 3);
    carried.finish();
    let seen = seen.lock().unwrap();
    assert!(!seen.is_empty() && !seen.contains(&false), "{seen:?}");
}

#[test]
fn a_full_disk_fails_everybody_and_certainly() {
    let table = table();
    let committer = failing(table.path(), |_, _, _| {
        Err(StoreError::io("the log", &std::io::Error::from_raw_os_error(28)))
    });
    match committer.commit(append("a"), soon()) {
        Err(CommitError::Store(error)) => assert_eq!(error.errno, Some(28)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_leader_that_panics_hands_the_lead_on() {
    let table = table();
    let calls = AtomicUsize::new(0);
    let both = Arc::new(Barrier::new(2));
    let leaders = Arc::clone(&both);
    let committer = Arc::new(failing(table.path(), move |store, version, body| {
        if calls.fetch_add(1, Ordering::Relaxed) == 0 {
            // Begun, and not done before the other is in the queue.
            leaders.wait();
            leaders.wait();
            panic!("the first attempt panics");
        }
        store.put_version(version, body)
    }));
    let first = {
        let committer = Arc::clone(&committer);
        thread::spawn(move || committer.commit(append("first"), soon()))
    };
    both.wait();
    let second = {
        let (committer, both) = (Arc::clone(&committer), Arc::clone(&both));
        thread::spawn(move || {
            commit_queued(&committer, append("second"), || {
                both.wait();
            })
        })
    };
    assert!(first.join().is_err());
    assert!(second.join().unwrap().is_ok());
    assert!(adds(table.path()).contains_key("second"));
}

#[test]
fn a_missing_data_file_fails_its_own_transaction_only() {
    let table = table();
    let committer = Arc::new(local(table.path()));
    std::fs::create_dir(table.path().join("p=a%3Ab")).unwrap();
    std::fs::write(table.path().join("p=a%3Ab/there.parquet"), "x").unwrap();
    let paths = ["p=a%253Ab/there.parquet", "missing.parquet"];
    let writers = paths.map(|path| {
        let committer = Arc::clone(&committer);
        thread::spawn(move || {
            let mut transaction = append(path);
            transaction.unsynced = vec![path.to_owned()];
            committer.commit(transaction, soon())
        })
    });
    let [there, missing] = writers.map(|writer| writer.join().unwrap());
    assert_eq!(there.unwrap(), 1);
    assert!(missing.unwrap_err().to_string().contains("missing.parquet"));
}

/// Appends two files per member, all in one bundle, and returns the results and the number of syncs of each file.
fn synced_together(
    members: usize,
    sync: impl Fn(&str) -> Result<(), StoreError> + Send + Sync + 'static,
) -> (
    tempfile::TempDir,
    Vec<Result<Version, CommitError>>,
    HashMap<String, usize>,
) {
    let table = table();
    let counts = Arc::new(Mutex::new(HashMap::new()));
    let all = Arc::new(Barrier::new(members + 1));
    let counted = Arc::clone(&counts);
    let mut store = Failing::new(table.path());
    store.put = held_until(&all);
    store.sync_data = Box::new(move |_, files| {
        let mut counted = counted.lock().unwrap();
        let each = files.iter().map(|file| {
            *counted.entry(file.path.clone()).or_insert(0) += 1;
            sync(&file.path)
        });
        each.collect()
    });
    let committer = Arc::new(store.committer());
    let first = Arc::clone(&committer);
    let first = thread::spawn(move || first.commit(append("first"), soon()));
    let writers: Vec<_> = (0..members)
        .map(|n| {
            let (committer, all) = (Arc::clone(&committer), Arc::clone(&all));
            thread::spawn(move || {
                let paths = [format!("{n}-a"), format!("{n}-b")];
                let adds = paths.iter().map(|path| add(path)).collect();
                let mut transaction = Transaction::append(MemberId::random(), 0, adds);
                transaction.unsynced = paths.to_vec();
                all.wait();
                commit_queued(&committer, transaction, || {
                    all.wait();
                })
            })
        })
        .collect();
    let told = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
    assert_eq!(first.join().unwrap().unwrap(), 1);
    drop(committer);
    let counts = std::mem::take(&mut *counts.lock().unwrap());
    (table, told, counts)
}

#[test]
fn files_whose_sync_failed_are_their_own_appends_loss_and_not_synced_again() {
    // A disk that tells of an error once, as Linux does.
    let failed = Mutex::new(HashSet::new());
    let (table, told, counts) = synced_together(64, move |path| {
        let bad = ["7-a", "7-b", "8-b", "63-a"].contains(&path);
        let first = bad && failed.lock().unwrap().insert(path.to_owned());
        if first { Err(os_error(EIO)) } else { Ok(()) }
    });
    for (n, told) in told.iter().enumerate() {
        let added = adds(table.path()).contains_key(&format!("{n}-a"));
        assert_eq!(added, ![7, 8, 63].contains(&n), "{n}");
        match told {
            Ok(_) => assert!(added, "{n}"),
            Err(CommitError::Store(error)) => assert_eq!((error.errno, added), (Some(EIO), false)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(counts.len(), 128);
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
}

#[test]
fn files_that_cannot_be_tried_now_hold_nobody_else_up() {
    let tries = AtomicUsize::new(0);
    let (table, told, counts) = synced_together(16, move |path| {
        let untried = path == "3-a" && tries.fetch_add(1, Ordering::Relaxed) < 3;
        if untried { Err(os_error(EMFILE)) } else { Ok(()) }
    });
    let versions: Vec<Version> = told.into_iter().map(Result::unwrap).collect();
    assert_eq!(counts["3-a"], 4);
    assert_eq!(adds(table.path()).len(), 33);
    assert!(
        versions
            .iter()
            .enumerate()
            .all(|(n, version)| n == 3 || *version < versions[3]),
        "{versions:?}"
    );
}

#[test]
fn files_that_can_never_be_tried_are_their_own_appends_loss() {
    let (table, told, counts) = synced_together(4, move |path| match path {
        "3-a" => Err(os_error(EMFILE)),
        _ => Ok(()),
    });
    for (n, told) in told.into_iter().enumerate() {
        match told {
            Ok(_) => assert_ne!(n, 3),
            Err(CommitError::Store(error)) => assert_eq!((n, error.errno), (3, Some(EMFILE))),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(adds(table.path()).len(), 7);
    assert!(counts["3-a"] < 20, "{counts:?}");
}

#[test]
fn what_a_process_has_no_room_for_is_tried_again() {
    for errno in [EMFILE, 23, 12, 116] {
        let table = table();
        let tries = AtomicUsize::new(0);
        let committer = failing(table.path(), move |store, version, body| {
            if tries.fetch_add(1, Ordering::Relaxed) < 3 {
                return Err(os_error(errno));
            }
            store.put_version(version, body)
        });
        assert_eq!(committer.commit(append("a"), soon()).unwrap(), 1, "{errno}");
    }
}

#[test]
fn an_attempt_that_certainly_failed_leaves_no_doubt() {
    let table = table();
    let committer = failing(table.path(), |_, _, _| Err(os_error(EMFILE)));
    let late = committer.commit(append("a"), Instant::now() + Duration::from_millis(100));
    assert!(matches!(late, Err(CommitError::DeadlinePassed)), "{late:?}");
}

#[test]
fn a_log_whose_sync_failed_is_believed_no_more() {
    let table = table();
    let calls = AtomicUsize::new(0);
    let mut store = Failing::new(table.path());
    store.sync_log = Box::new(move |store, first, last| {
        // The second call is for the version that was just won; a disk tells of an error once.
        match calls.fetch_add(1, Ordering::Relaxed) {
            1 => Err(os_error(EIO)),
            _ => store.sync_log(first, last),
        }
    });
    let committer = store.committer();
    let doubt = token(committer.commit(append("a"), soon()));
    match committer.commit(append("b"), soon()) {
        Err(CommitError::Store(error)) => assert_eq!(error.errno, Some(EIO)),
        other => panic!("{other:?}"),
    }
    let outcome = committer.outcome(&doubt, &mut WaitLimit::until(soon())).unwrap();
    assert_eq!(outcome, Outcome::Pending);
    // Another process was told of no error.
    let other = local(table.path());
    let outcome = other.outcome(&doubt, &mut WaitLimit::until(soon())).unwrap();
    assert_eq!(outcome, Outcome::Committed(1));
    assert_eq!(other.commit(append("c"), soon()).unwrap(), 2);
}

#[test]
fn no_version_comes_without_the_one_before_it() {
    let table = table();
    let store = LocalLogStore::new(table.path());
    let gap = store.put_version(2, b"{}").unwrap_err();
    assert_eq!((gap.kind, gap.errno), (StoreErrorKind::NotFound, Some(2)));
    assert!(gap.message.contains("version 1, which is not there"), "{gap}");
    let committer = local(table.path());
    assert_eq!(committer.commit(append("a"), soon()).unwrap(), 1);
    std::fs::remove_file(table.path().join("_delta_log").join(version_file(1))).unwrap();
    let error = committer.commit(append("b"), soon()).unwrap_err();
    assert!(matches!(&error, CommitError::Replaced(1)), "{error:?}");
    assert_eq!(store.find_tip().unwrap(), 0);
}

#[test]
fn a_checkpoint_stands_for_its_version_where_nothing_later_is_there() {
    let table = table();
    let log = table.path().join("_delta_log");
    let store = LocalLogStore::new(table.path());
    let checkpoint = |version| log.join(version_file(version).replace("json", "checkpoint.parquet"));
    for version in 1..=2 {
        assert_eq!(store.put_version(version, b"{}").unwrap(), PutOutcome::Won);
    }
    std::fs::write(checkpoint(2), b"").unwrap();
    for version in 0..=2 {
        std::fs::remove_file(log.join(version_file(version))).unwrap();
    }
    assert_eq!(store.find_tip().unwrap(), 2);
    store.sync_log(2, 2).unwrap();
    assert_eq!(
        store.put_version(4, b"{}").unwrap_err().kind,
        StoreErrorKind::NotFound
    );
    assert_eq!(store.put_version(3, b"{}").unwrap(), PutOutcome::Won);
    // Left over where the log was cleaned up past them.
    std::fs::remove_file(log.join(version_file(3))).unwrap();
    for version in [1, 3] {
        std::fs::write(checkpoint(version), b"").unwrap();
    }
    for version in [2, 3] {
        assert_eq!(
            store.put_version(version, b"{}").unwrap_err().kind,
            StoreErrorKind::NotFound,
            "{version}"
        );
    }
    assert_eq!(store.sync_log(0, 0).unwrap_err().kind, StoreErrorKind::NotFound);
}

#[test]
fn a_table_that_is_gone_does_not_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("table");
    std::fs::create_dir(&root).unwrap();
    let store = LocalLogStore::new(&root);
    assert_eq!(store.put_version(0, b"{}").unwrap(), PutOutcome::Won);
    std::fs::rename(&root, folder.path().join("elsewhere")).unwrap();
    assert_eq!(
        store.put_version(1, b"{}").unwrap_err().kind,
        StoreErrorKind::NotFound
    );
    assert_eq!(
        store.put_intent("a", b"").unwrap_err().kind,
        StoreErrorKind::Permanent
    );
    assert!(!root.exists());
}

#[test]
fn the_second_of_two_deletions_of_one_file_is_refused() {
    let table = table();
    let committer = local(table.path());
    committer.commit(append("a"), soon()).unwrap();
    let delete = || {
        let old = Add {
            path: "a".to_owned(),
            ..Add::default()
        };
        let removal = Action::Remove(Remove::of(&old, 0, true));
        Transaction::append(MemberId::random(), 1, vec![removal])
    };
    assert_eq!(committer.commit(delete(), soon()).unwrap(), 2);
    match committer.commit(delete(), soon()) {
        Err(CommitError::Conflict(conflict)) => {
            assert_eq!(conflict.version, 2);
            assert_eq!(
                conflict.kind,
                ConflictKind::ConcurrentDeleteDelete("a".to_owned())
            );
        }
        other => panic!("{other:?}"),
    }
    // A blind append from before the deletion is not in its way.
    assert_eq!(committer.commit(append("b"), soon()).unwrap(), 3);
}

#[test]
fn a_file_is_added_once_even_under_a_new_id() {
    let table = table();
    let committer = local(table.path());
    assert_eq!(committer.commit(append("a"), soon()).unwrap(), 1);
    let again = committer.commit(append("a"), soon());
    assert!(
        matches!(again, Err(CommitError::DuplicateFile { version: Some(1), .. })),
        "{again:?}"
    );
}

#[test]
fn what_no_version_may_hold_is_refused_unseen() {
    let table = table();
    let committer = local(table.path());
    for path in ["../outside", "/absolute"] {
        assert!(committer.commit(append(path), soon()).is_err(), "{path}");
    }
    let nothing = Transaction::append(MemberId::random(), 0, Vec::new());
    assert_eq!(committer.commit(nothing, soon()).unwrap(), 0);
    assert_eq!(LocalLogStore::new(table.path()).find_tip().unwrap(), 0);
}

#[test]
fn in_commit_timestamps_come_first_and_rise() {
    let table = table();
    let future = 9_000_000_000_000;
    let start = Start {
        in_commit_timestamp: Some(future),
        ..start(0)
    };
    let committer = Committer::new(Arc::new(LocalLogStore::new(table.path())), start);
    for n in 1..3 {
        let version = committer.commit(append(&n.to_string()), soon()).unwrap();
        let text =
            std::fs::read_to_string(table.path().join("_delta_log").join(version_file(version))).unwrap();
        let expected = format!(r#"{{"commitInfo":{{"inCommitTimestamp":{}"#, future + n);
        assert!(text.starts_with(&expected), "{text}");
    }
}

#[test]
fn what_the_dead_left_behind_is_removed_after_an_hour() {
    let table = table();
    let staging = table.path().join("_spillway/staging");
    let (old, older) = (".spillway-0123456789abcdef0123456789abcdef.tmp", ".tmpaB3dE6");
    for name in [old, older, "thesis.docx"] {
        let file = std::fs::File::create(staging.join(name)).unwrap();
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(3_700))
            .unwrap();
    }
    std::fs::write(staging.join(".tmpaB3dE7"), "").unwrap();
    local(table.path()).commit(append("a"), soon()).unwrap();
    let left = std::fs::read_dir(&staging).unwrap();
    let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, [".tmpaB3dE7", "thesis.docx"]);
}

#[test]
fn an_intent_that_is_put_again_takes_the_place_of_the_first() {
    let table = table();
    let store = LocalLogStore::new(table.path());
    // The first has its folder made, and those after it find it.
    for body in [b"one", b"two"] {
        for name in ["a", "b"] {
            store.put_intent(name, body).unwrap();
            assert_eq!(store.read_intent(name).unwrap().unwrap(), body);
        }
    }
    assert_eq!(store.list_intents().unwrap().entries.len(), 2);
}

#[test]
fn a_version_is_created_once_and_readable_by_others() {
    let table = table();
    let store = LocalLogStore::new(table.path());
    assert_eq!(store.put_version(1, b"{}").unwrap(), PutOutcome::Won);
    assert_eq!(store.put_version(1, b"[]").unwrap(), PutOutcome::Exists);
    assert_eq!(store.read_version(1).unwrap().unwrap(), b"{}");
    assert_eq!(store.read_version(2).unwrap(), None);
    assert_eq!(
        std::fs::read_dir(table.path().join("_spillway/staging"))
            .unwrap()
            .count(),
        0
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let file = table.path().join("_delta_log").join(version_file(1));
        let mode = std::fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode & 0o400, 0o400);
        let plain = table.path().join("plain");
        std::fs::write(&plain, "").unwrap();
        assert_eq!(mode, std::fs::metadata(plain).unwrap().permissions().mode());
    }
}

/// Counts the merges, and how many versions each is with.
#[derive(Debug, Default)]
struct Counted(Mutex<Vec<usize>>);

impl Merge for Counted {
    fn merge(&self, transaction: &Transaction, theirs: &[Marked]) -> Result<Transaction, CommitError> {
        self.0.lock().unwrap().push(theirs.len());
        Ok(transaction.clone())
    }
}

/// A transaction that marks rows of a file, and its merges.
fn marking(read_version: Version) -> (Transaction, Arc<Counted>) {
    let file = Add {
        path: "a".to_owned(),
        size: 1,
        data_change: true,
        ..Add::default()
    };
    let vector = DeletionVector {
        storage_type: "i".to_owned(),
        path_or_inline_dv: "vector".to_owned(),
        ..DeletionVector::default()
    };
    let remove = Action::Remove(Remove::of(&file, 0, true));
    let add = Action::Add(Add {
        deletion_vector: Some(vector),
        ..file
    });
    let merges = Arc::new(Counted::default());
    let mut delete = Transaction::append(MemberId::random(), read_version, vec![remove, add]);
    delete.operation = Operation::new("DELETE");
    delete.marks = Some(Marks {
        paths: BTreeSet::from(["a".to_owned()]),
        merge: Arc::clone(&merges) as Arc<dyn Merge>,
    });
    (delete, merges)
}

#[test]
fn one_merge_is_with_all_versions_that_came_first() {
    let table = table();
    let (here, elsewhere) = (local(table.path()), local(table.path()));
    assert_eq!(here.commit(append("a"), soon()).unwrap(), 1);
    for before in 1..6 {
        elsewhere.commit(marking(before).0, soon()).unwrap();
    }
    let (late, merges) = marking(1);
    assert_eq!(here.commit(late, soon()).unwrap(), 7);
    assert_eq!(*merges.0.lock().unwrap(), [5]);
}

#[test]
fn what_cannot_be_committed_is_not_merged() {
    let table = table();
    let (here, elsewhere) = (local(table.path()), local(table.path()));
    assert_eq!(here.commit(append("a"), soon()).unwrap(), 1);
    elsewhere.commit(marking(1).0, soon()).unwrap();
    let named = Action::Metadata(Metadata {
        id: "t".to_owned(),
        name: Some("other".to_owned()),
        ..Metadata::default()
    });
    let change = Transaction::append(MemberId::random(), 2, vec![named]);
    elsewhere.commit(change, soon()).unwrap();
    let (late, merges) = marking(1);
    let refused = here.commit(late, soon()).unwrap_err();
    assert!(matches!(refused, CommitError::Conflict(_)), "{refused}");
    assert!(merges.0.lock().unwrap().is_empty());
}
