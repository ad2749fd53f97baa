//! Simulates scenarios, and prints the answer of each as a line of JSON.
//!
//! `scale` reads scenarios from standard input, one line of JSON each. What a line leaves out is as in the default.
//! `scale machine` says how many nanoseconds of this machine the committer takes for an action.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a report is what it is for"
)]

use std::error::Error;
use std::io::stdin;
use std::time::{Duration, Instant};

use delta_commit::actions::{Action, Add};
use delta_commit::log::{Effect, Event, Listing, PutOutcome, Time, VersionPresence};
use delta_commit::winner::Winner;
use delta_commit::{Machine, MemberId, Start, Submission, Transaction};
use delta_sim::timed::{Scenario, run};

/// Actions of the version by which the committer's time is measured, and the number of times that it is.
const ACTIONS: u32 = 1_000;
const TIMES: usize = 30;

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).as_deref() == Some("machine") {
        return measure();
    }
    for line in stdin().lines() {
        let scenario: Scenario = serde_json::from_str(&line?)?;
        let name = &scenario.name;
        eprint!("{name} ... ");
        let began = Instant::now();
        let report = run(&scenario).map_err(|broken| format!("{name}: {broken}"))?;
        eprintln!(
            "{:.0} appends/s in {:.1} s; {:.1} s of this machine",
            report.appends_per_second,
            report.seconds,
            began.elapsed().as_secs_f64()
        );
        println!("{}", serde_json::to_string(&report)?);
    }
    Ok(())
}

/// Prints the least time of several, since other processes can only add to it.
fn measure() -> Result<(), Box<dyn Error>> {
    let (mut seal, mut parse) = (Duration::MAX, Duration::MAX);
    for _ in 0..TIMES {
        let (body, took) = commit()?;
        seal = seal.min(took);
        let began = Instant::now();
        Winner::parse(1, &body)?;
        parse = parse.min(began.elapsed());
    }
    let of_one = |time: Duration| (time / ACTIONS).as_nanos();
    println!(r#"{{"parse_ns":{},"seal_ns":{}}}"#, of_one(parse), of_one(seal));
    Ok(())
}

/// Commits many appends in one version. Returns its body, and the time that the committer took.
fn commit() -> Result<(Vec<u8>, Duration), Box<dyn Error>> {
    let start = Start {
        version: 0,
        table_id: "table".to_owned(),
        changed_in: 0,
        in_commit_timestamp: None,
        high_water_mark: None,
        digest: None,
        known: None,
    };
    let mut machine = Machine::new(MemberId::random(), start);
    for _ in 0..ACTIONS {
        let id = MemberId::random();
        let add = Add {
            path: format!("partition=w{id}/part-00000-{id}.c000.zstd.parquet"),
            size: 1_500,
            data_change: true,
            stats: Some(r#"{"numRecords":10,"minValues":{"number":1},"maxValues":{"number":1},"nullCount":{"number":0}}"#.to_owned()),
            ..Add::default()
        };
        machine.submit(Submission::new(Transaction::append(
            id,
            0,
            vec![Action::Add(add)],
        ))?);
    }
    let (mut body, mut took) = (Vec::new(), Duration::ZERO);
    let now = Time::default();
    loop {
        let began = Instant::now();
        let Some(effect) = machine.next(now) else {
            return Ok((body, took));
        };
        took += began.elapsed();
        let event = match effect {
            Effect::FindTip => Event::Tip(0),
            Effect::ReadVersion(_) => Event::Body(None),
            Effect::CheckVersion(..) => Event::Standing(VersionPresence::Same),
            Effect::ListIntents => Event::Listing(Listing::default()),
            Effect::PutVersion(_, written) => {
                body = written;
                Event::Put(PutOutcome::Won)
            }
            _ => Event::Done,
        };
        let began = Instant::now();
        machine.complete(now, event);
        took += began.elapsed();
    }
}
