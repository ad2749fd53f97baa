//! Many writers append to one table on a local disk, all at once.
//!
//! `race` runs the whole series; `race THREADS [PROCESSES]` one race. Each append is an add action of a file that does
//! not exist: only the commits are measured.
#![allow(clippy::print_stdout, reason = "a report is what it is for")]

use std::collections::HashSet;
use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use delta_commit::actions::{Action, Add, Metadata, Protocol, parse_commit};
use delta_commit::log::{BEFORE_FIRST, LogStore};
use delta_commit::store::LocalLogStore;
use delta_commit::{Committer, MemberId, Start, Transaction};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const PATIENCE: Duration = Duration::from_secs(300);
const STACK_BYTES: usize = 256 << 10;
const SERIES: [(usize, usize); 6] = [(1, 1), (10, 1), (100, 1), (1_000, 1), (10_000, 1), (16, 64)];

/// The file that all processes wait for.
const START_SIGNAL: &str = "_start";

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, table, threads] = arguments.as_slice()
        && role == "worker"
    {
        return work(Path::new(table), threads.parse()?);
    }
    let number = |at: usize| arguments.get(at).map(|text| text.parse::<usize>()).transpose();
    println!("threads  processes  seconds  versions  longest wait, s  commits/s");
    match (number(0)?, number(1)?) {
        (Some(threads), processes) => race(threads, processes.unwrap_or(1))?,
        (None, _) => {
            for (threads, processes) in SERIES {
                race(threads, processes)?;
            }
        }
    }
    Ok(())
}

fn race(threads: usize, processes: usize) -> Outcome<()> {
    let table = tempfile::Builder::new().prefix("race").tempdir_in(".")?;
    create(table.path())?;
    let (elapsed, longest) = if processes == 1 {
        append_all(table.path(), threads, || Ok(()))?
    } else {
        race_processes(table.path(), threads, processes)?
    };
    let versions = check(table.path(), threads * processes)?;
    let commits = u32::try_from(threads * processes)?;
    println!(
        "{threads:>7}  {processes:>9}  {:>7.3}  {versions:>8}  {:>15.3}  {:>9.0}",
        elapsed.as_secs_f64(),
        longest.as_secs_f64(),
        f64::from(commits) / elapsed.as_secs_f64(),
    );
    Ok(())
}

fn start(version: i64) -> Start {
    Start {
        version,
        table_id: "race".to_owned(),
        changed_in: version,
        in_commit_timestamp: None,
        high_water_mark: None,
        digest: None,
        known: None,
    }
}

fn create(table: &Path) -> Outcome<()> {
    let committer = Committer::new(Arc::new(LocalLogStore::new(table)), start(BEFORE_FIRST));
    let metadata = Metadata {
        id: "race".to_owned(),
        schema_string: r#"{"type":"struct","fields":[]}"#.to_owned(),
        ..Metadata::default()
    };
    let actions = vec![Action::Protocol(Protocol::default()), Action::Metadata(metadata)];
    let creation = Transaction::append(MemberId::random(), BEFORE_FIRST, actions);
    committer.commit(creation, Instant::now() + PATIENCE)?;
    Ok(())
}

/// Appends from all threads and returns the total time and that of the slowest append.
fn append_all(
    table: &Path,
    threads: usize,
    ready: impl Fn() -> Outcome<()>,
) -> Outcome<(Duration, Duration)> {
    let committer = Arc::new(Committer::new(Arc::new(LocalLogStore::new(table)), start(0)));
    let barrier = Arc::new(Barrier::new(threads + 1));
    let mut writers = Vec::with_capacity(threads);
    for number in 0..threads {
        let (committer, barrier) = (Arc::clone(&committer), Arc::clone(&barrier));
        writers.push(thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
            let transaction = append(number);
            barrier.wait();
            let begun = Instant::now();
            let result = committer.commit(transaction, begun + PATIENCE);
            result.map(|_| begun.elapsed())
        })?);
    }
    ready()?;
    let begun = Instant::now();
    barrier.wait();
    let mut longest = Duration::ZERO;
    for writer in writers {
        let wait = writer.join().map_err(|_| "a writer panicked")??;
        longest = longest.max(wait);
    }
    Ok((begun.elapsed(), longest))
}

fn append(number: usize) -> Transaction {
    let id = MemberId::random();
    let add = Add {
        path: format!("part-{number:05}-{id}.c000.zstd.parquet"),
        size: 1_048_576,
        modification_time: 1_700_000_000_000,
        data_change: true,
        stats: Some(
            r#"{"numRecords":1000,"minValues":{"id":1},"maxValues":{"id":1000},"nullCount":{"id":0}}"#
                .to_owned(),
        ),
        ..Add::default()
    };
    Transaction::append(id, 0, vec![Action::Add(add)])
}

fn race_processes(table: &Path, threads: usize, processes: usize) -> Outcome<(Duration, Duration)> {
    let mut workers = Vec::new();
    for _ in 0..processes {
        let worker = Command::new(std::env::current_exe()?)
            .arg("worker")
            .arg(table)
            .arg(threads.to_string())
            .stdout(Stdio::piped())
            .spawn()?;
        workers.push(worker);
    }
    // Workers that are not ready by now only shorten the race for the others.
    thread::sleep(Duration::from_secs(1));
    let begun = Instant::now();
    std::fs::write(table.join(START_SIGNAL), "")?;
    let mut longest = Duration::ZERO;
    for worker in workers {
        let output = worker.wait_with_output()?;
        let text = String::from_utf8(output.stdout)?;
        let seconds: f64 = text
            .trim()
            .parse()
            .map_err(|_| format!("a worker failed: {text}"))?;
        longest = longest.max(Duration::from_secs_f64(seconds));
    }
    Ok((begun.elapsed(), longest))
}

fn work(table: &Path, threads: usize) -> Outcome<()> {
    let signal = table.join(START_SIGNAL);
    let (_, longest) = append_all(table, threads, || {
        while !signal.exists() {
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    })?;
    println!("{}", longest.as_secs_f64());
    Ok(())
}

/// Versions that the appends took, if each append is in exactly one.
fn check(table: &Path, appends: usize) -> Outcome<i64> {
    let store = LocalLogStore::new(table);
    let tip = store.find_tip()?;
    let mut paths = HashSet::new();
    for version in 1..=tip {
        let body = store.read_version(version)?.ok_or("the log has a gap")?;
        for action in parse_commit(&body)? {
            if let Action::Add(add) = action
                && !paths.insert(add.path)
            {
                return Err("an append is there twice".into());
            }
        }
    }
    if paths.len() == appends {
        Ok(tip)
    } else {
        Err(format!("{} of {appends} appends", paths.len()).into())
    }
}
