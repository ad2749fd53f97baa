//! Processes that are killed at any moment leave a whole log, and everything they had acknowledged in it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use delta_commit::actions::{Action, Add, Metadata, Protocol, parse_commit};
use delta_commit::log::{BEFORE_FIRST, LogStore};
use delta_commit::store::LocalLogStore;
use delta_commit::{Committer, MemberId, Start, Transaction, Version};

/// Set for the processes that this test starts of itself: the table they write to until they are killed.
const TABLE: &str = "SPILLWAY_TEST_KILLED_WRITER";

const PROCESSES: usize = 4;
const THREADS: usize = 3;
/// A process that was not killed by now has lost its parent.
const ORPHANED: Duration = Duration::from_secs(60);
/// Appends that a process acknowledges, at least, before it is killed.
const APPENDS: usize = 3;
/// The folder of what processes have acknowledged.
const NOTED: &str = "_noted";

fn committer(table: &Path, version: Version) -> Committer {
    let start = Start {
        version,
        table_id: "t".to_owned(),
        changed_in: version.min(0),
        in_commit_timestamp: None,
        high_water_mark: None,
        digest: None,
        known: None,
    };
    Committer::new(Arc::new(LocalLogStore::new(table)), start)
}

fn commit(committer: &Committer, read_version: Version, actions: Vec<Action>) {
    let mut transaction = Transaction::append(MemberId::random(), read_version, actions);
    transaction.unsynced = transaction.added_paths().map(str::to_owned).collect();
    let deadline = Instant::now() + Duration::from_secs(60);
    committer.commit(transaction, deadline).unwrap();
}

/// Appends until it is killed, and notes each file once its commit is acknowledged.
fn write_until_killed(table: &Path) {
    let tip = LocalLogStore::new(table).find_tip().unwrap();
    let committer = committer(table, tip);
    let notes = notes_of(table, std::process::id());
    fs::create_dir_all(&notes).unwrap();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let name = MemberId::random();
                let mut notes = File::create(notes.join(name.to_string())).unwrap();
                let begun = Instant::now();
                for number in 0.. {
                    if begun.elapsed() > ORPHANED {
                        return;
                    }
                    let path = format!("{name}-{number}.parquet");
                    fs::write(table.join(&path), "rows").unwrap();
                    let add = Add {
                        path: path.clone(),
                        size: 4,
                        data_change: true,
                        ..Add::default()
                    };
                    commit(&committer, tip, vec![Action::Add(add)]);
                    notes.write_all(format!("{path}\n").as_bytes()).unwrap();
                }
            });
        }
    });
}

fn start_writer(table: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed_processes_lose_nothing_that_they_acknowledged"])
        .env(TABLE, table)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// The folder of what a process has acknowledged.
fn notes_of(table: &Path, process: u32) -> PathBuf {
    table.join(NOTED).join(process.to_string())
}

/// The files in a folder of notes; none where it is not there yet.
fn noted(notes: &Path) -> HashSet<String> {
    let files = fs::read_dir(notes).into_iter().flatten();
    files
        .flat_map(|entry| {
            let text = fs::read_to_string(entry.unwrap().path()).unwrap();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

/// Waits until a process has acknowledged some appends, however busy the machine is.
fn await_notes(notes: &Path) {
    let begun = Instant::now();
    while noted(notes).len() < APPENDS {
        assert!(begun.elapsed() < ORPHANED, "it acknowledges nothing");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn killed_processes_lose_nothing_that_they_acknowledged() {
    if let Some(table) = std::env::var_os(TABLE) {
        write_until_killed(&PathBuf::from(table));
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let table = directory.path();
    let metadata = Metadata {
        id: "t".to_owned(),
        schema_string: "{}".to_owned(),
        ..Metadata::default()
    };
    let creation = vec![Action::Protocol(Protocol::default()), Action::Metadata(metadata)];
    commit(&committer(table, BEFORE_FIRST), BEFORE_FIRST, creation);

    let kills = match std::env::var("SPILLWAY_TESTS").as_deref() {
        Ok("quick") => 10,
        Ok("soak") => 1_000,
        _ => 40_u64,
    };
    let mut writers: Vec<Child> = (0..PROCESSES).map(|_| start_writer(table)).collect();
    for kill in 0..kills {
        let mut victim = writers.remove(0);
        await_notes(&notes_of(table, victim.id()));
        thread::sleep(Duration::from_millis(kill * 37 % 50));
        victim.kill().unwrap();
        victim.wait().unwrap();
        writers.push(start_writer(table));
    }
    for mut writer in writers {
        writer.kill().unwrap();
        writer.wait().unwrap();
    }

    // The dead are in nobody's way.
    let store = LocalLogStore::new(table);
    let tip = store.find_tip().unwrap();
    fs::write(table.join("last.parquet"), "rows").unwrap();
    let last = Add {
        path: "last.parquet".to_owned(),
        size: 4,
        data_change: true,
        ..Add::default()
    };
    commit(&committer(table, tip), tip, vec![Action::Add(last)]);

    let mut added = HashSet::new();
    for version in 0..=store.find_tip().unwrap() {
        let body = store
            .read_version(version)
            .unwrap()
            .expect("the log is contiguous");
        for action in parse_commit(&body).unwrap() {
            if let Action::Add(add) = action {
                assert!(table.join(&add.path).exists(), "{} dangles", add.path);
                assert!(added.insert(add.path.clone()), "{} is there twice", add.path);
            }
        }
    }
    let processes = fs::read_dir(table.join(NOTED)).unwrap();
    let noted: HashSet<String> = processes
        .flat_map(|process| noted(&process.unwrap().path()))
        .collect();
    let missing: Vec<&String> = noted.difference(&added).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
