//! Real threads on a real disk: all commit, each once, and everybody is told the truth in time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use delta_commit::actions::{Action, Add, Metadata, Protocol, Remove, parse_commit};
use delta_commit::conflict::ConflictKind;
use delta_commit::log::{BEFORE_FIRST, Listing, LogStore, PutOutcome, StoreError, version_file};
use delta_commit::store::LocalLogStore;
use delta_commit::{CommitError, Committer, MemberId, Outcome, Patience, Start, Token, Transaction, Version};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn start(version: Version) -> Start {
    Start {
        version,
        table_id: "t".to_owned(),
        changed_in: version,
        in_commit_timestamp: None,
        known: None,
    }
}

fn metadata() -> Action {
    Action::Metadata(Metadata {
        id: "t".to_owned(),
        schema_string: r#"{"type":"struct","fields":[]}"#.to_owned(),
        ..Metadata::default()
    })
}

fn table() -> tempfile::TempDir {
    let table = tempfile::tempdir().unwrap();
    let committer = Committer::new(Arc::new(LocalLogStore::new(table.path())), start(BEFORE_FIRST));
    let creation = vec![Action::Protocol(Protocol::default()), metadata()];
    let creation = Transaction::append(MemberId::random(), BEFORE_FIRST, creation);
    assert_eq!(committer.commit(creation, soon()).unwrap(), 0);
    table
}

fn local(table: &Path) -> Committer {
    Committer::new(Arc::new(LocalLogStore::new(table)), start(0))
}

fn add(path: &str) -> Action {
    Action::Add(Add {
        path: path.to_owned(),
        size: 1,
        data_change: true,
        ..Add::default()
    })
}

fn append(path: &str) -> Transaction {
    Transaction::append(MemberId::random(), 0, vec![add(path)])
}

/// The version of each file that the log adds; none may be there twice.
fn adds(table: &Path) -> HashMap<String, Version> {
    let store = LocalLogStore::new(table);
    let mut found = HashMap::new();
    for version in 0..=store.find_tip().unwrap() {
        let body = store
            .read_version(version)
            .unwrap()
            .expect("the log is contiguous");
        for action in parse_commit(&body).unwrap() {
            if let Action::Add(add) = action {
                assert_eq!(found.insert(add.path, version), None);
            }
        }
    }
    found
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

/// A local store that fails in ways of its own.
struct Failing<F: Fn(&LocalLogStore, Version, &[u8]) -> Result<PutOutcome, StoreError> + Send + Sync> {
    inner: LocalLogStore,
    put: F,
}

impl<F: Fn(&LocalLogStore, Version, &[u8]) -> Result<PutOutcome, StoreError> + Send + Sync> LogStore
    for Failing<F>
{
    fn find_tip(&self) -> Result<Version, StoreError> {
        self.inner.find_tip()
    }
    fn read_version(&self, version: Version) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.read_version(version)
    }
    fn put_version(&self, version: Version, body: &[u8]) -> Result<PutOutcome, StoreError> {
        (self.put)(&self.inner, version, body)
    }
    fn list_intents(&self) -> Result<Listing, StoreError> {
        self.inner.list_intents()
    }
    fn read_intent(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.read_intent(name)
    }
    fn put_intent(&self, name: &str, body: &[u8]) -> Result<(), StoreError> {
        self.inner.put_intent(name, body)
    }
    fn delete_intent(&self, name: &str) -> Result<(), StoreError> {
        self.inner.delete_intent(name)
    }
    fn sync_data(&self, paths: &[String]) -> Result<(), StoreError> {
        self.inner.sync_data(paths)
    }
    fn sync_log(&self, first: Version, last: Version) -> Result<(), StoreError> {
        self.inner.sync_log(first, last)
    }
}

fn failing(
    table: &Path,
    put: impl Fn(&LocalLogStore, Version, &[u8]) -> Result<PutOutcome, StoreError> + Send + Sync + 'static,
) -> Committer {
    let inner = LocalLogStore::new(table);
    Committer::new(Arc::new(Failing { inner, put }), start(0))
}

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
        let committer = failing(table.path(), move |store, version, body| {
            if arrives {
                store.put_version(version, body)?;
            }
            thread::sleep(Duration::from_millis(120));
            Ok(PutOutcome::Unknown(StoreError::transient("lost")))
        });
        let doubt = token(committer.commit(append("a"), Instant::now() + Duration::from_millis(60)));
        let doubt = Token::from_text(&doubt.to_text().unwrap()).unwrap();
        let expected = if arrives {
            Outcome::Committed(1)
        } else {
            Outcome::Rejected
        };
        let other = local(table.path());
        assert_eq!(
            other.outcome(&doubt, &mut Patience::until(soon())).unwrap(),
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
    };
    let error = local(table.path())
        .outcome(&token, &mut Patience::until(soon()))
        .unwrap_err();
    assert!(error.to_string().contains("other"), "{error}");
}

#[test]
fn a_deadline_in_the_queue_leaves_nothing_behind() {
    let table = table();
    let committer = Arc::new(failing(table.path(), |store, version, body| {
        thread::sleep(Duration::from_millis(200));
        store.put_version(version, body)
    }));
    let leader = {
        let committer = Arc::clone(&committer);
        thread::spawn(move || committer.commit(append("slow"), soon()))
    };
    thread::sleep(Duration::from_millis(50));
    let late = committer.commit(append("late"), Instant::now() + Duration::from_millis(20));
    assert!(matches!(late, Err(CommitError::DeadlinePassed)), "{late:?}");
    assert_eq!(leader.join().unwrap().unwrap(), 1);
    assert_eq!(committer.commit(append("next"), soon()).unwrap(), 2);
    assert!(!adds(table.path()).contains_key("late"));
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
    let committer = Arc::new(failing(table.path(), move |store, version, body| {
        thread::sleep(Duration::from_millis(100));
        assert!(
            calls.fetch_add(1, Ordering::Relaxed) > 0,
            "the first attempt panics"
        );
        store.put_version(version, body)
    }));
    let spawn = |path: &'static str| {
        let committer = Arc::clone(&committer);
        thread::spawn(move || committer.commit(append(path), soon()))
    };
    let first = spawn("first");
    thread::sleep(Duration::from_millis(30));
    let second = spawn("second");
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
    let old = std::fs::File::create(staging.join("old")).unwrap();
    old.set_modified(std::time::SystemTime::now() - Duration::from_secs(3_700))
        .unwrap();
    std::fs::write(staging.join("new"), "").unwrap();
    local(table.path()).commit(append("a"), soon()).unwrap();
    assert!(!staging.join("old").exists());
    assert!(staging.join("new").exists());
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
