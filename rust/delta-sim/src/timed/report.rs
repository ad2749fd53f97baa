//! The answers of the timed mode.

use std::collections::BTreeMap;
use std::time::Duration;

use delta_commit::Timings;
use serde::Serialize;

use super::events::Moment;
use super::scenario::{Scenario, StoreModel};
use super::times::Requests;

/// Seconds of an hour.
const HOUR: f64 = 3_600.0;

/// The waits of appends, from the moment at which all rows are handed over to the answer. In seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Waits {
    /// The wait that half of them do not exceed.
    pub median: f64,
    /// The wait that 99 of 100 do not exceed.
    pub p99: f64,
    /// The longest wait, also of an append that still waits at the end.
    pub longest: f64,
}

impl Waits {
    pub(crate) fn of(mut answered: Vec<Moment>, longest_waiting: Moment) -> Self {
        answered.sort_unstable();
        let quantile = |percent: usize| {
            let place = (answered.len() * percent).div_ceil(100).saturating_sub(1);
            answered.get(place).copied().map_or(0.0, seconds)
        };
        Self {
            median: quantile(50),
            p99: quantile(99),
            longest: quantile(100).max(seconds(longest_waiting)),
        }
    }
}

/// The times of the effects of one kind, of all processes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct EffectReport {
    /// Their number.
    pub count: u64,
    /// The time of all of them.
    pub total_seconds: f64,
    /// The time of the longest one.
    pub longest_seconds: f64,
}

/// Counts of what happened up to some moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EventCounts {
    pub(crate) versions: u64,
    pub(crate) attempts: u64,
    pub(crate) requests: Requests,
    /// Processor time of all hosts: microseconds.
    pub(crate) cpu: Moment,
    pub(crate) cold_turns: u64,
}

/// The answer for a scenario. Counts are of the time that counts, effects of the whole run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The scenario.
    pub scenario: Scenario,
    /// The time that counts. That of a burst ends with the last answer.
    pub seconds: f64,
    /// Appends that were acknowledged.
    pub appends: u64,
    /// Appends that ended with an error.
    pub failed: u64,
    /// Appends that still waited at the end.
    pub waiting: u64,
    /// Acknowledged appends a second.
    pub appends_per_second: f64,
    /// The waits of appends that were answered.
    pub wait_seconds: Waits,
    /// Versions of all tables.
    pub versions: u64,
    /// Attempts at versions.
    pub attempts: u64,
    /// The most races that an append lost.
    pub most_lost: u32,
    /// Requests by their kind.
    pub requests: Requests,
    /// Requests an hour of what goes on like this.
    pub requests_an_hour: f64,
    /// US dollars of requests an hour of what goes on like this.
    pub usd_an_hour: f64,
    /// US dollars of the requests of a million appends.
    pub usd_a_million: f64,
    /// The processor time of all hosts.
    pub cpu_seconds: f64,
    /// Turns on cores that another process had before.
    pub cold_turns: u64,
    /// The times of effects, by their kind.
    pub effects: BTreeMap<&'static str, EffectReport>,
}

/// The course of a run, beside its counts.
pub(crate) struct Course {
    pub(crate) scenario: Scenario,
    pub(crate) passed: Moment,
    pub(crate) failed: u64,
    pub(crate) waiting: u64,
    pub(crate) answered: Vec<Moment>,
    pub(crate) longest_waiting: Moment,
    pub(crate) most_lost: u32,
    pub(crate) timings: Vec<Timings>,
}

impl Report {
    pub(crate) fn new(course: Course, before: EventCounts, after: EventCounts) -> Self {
        let appends = course.answered.len() as u64 - course.failed;
        let requests = after.requests.since(before.requests);
        let usd = usd(&course.scenario.store, requests);
        let passed = seconds(course.passed);
        let a_second = |count: f64| if passed > 0.0 { count / passed } else { 0.0 };
        let (writes, reads) = requests.charged();
        Self {
            seconds: passed,
            appends,
            failed: course.failed,
            waiting: course.waiting,
            appends_per_second: a_second(number(appends)),
            wait_seconds: Waits::of(course.answered, course.longest_waiting),
            versions: after.versions - before.versions,
            attempts: after.attempts - before.attempts,
            most_lost: course.most_lost,
            requests,
            requests_an_hour: a_second(number(writes + reads + requests.delete)) * HOUR,
            usd_an_hour: a_second(usd) * HOUR,
            usd_a_million: if appends > 0 {
                usd * 1e6 / number(appends)
            } else {
                0.0
            },
            cpu_seconds: seconds(after.cpu - before.cpu),
            cold_turns: after.cold_turns - before.cold_turns,
            effects: summed(&course.timings),
            scenario: course.scenario,
        }
    }
}

fn usd(store: &StoreModel, requests: Requests) -> f64 {
    let (writes, reads) = requests.charged();
    match store {
        StoreModel::ObjectStore(store) => {
            (number(writes) * store.write_usd + number(reads) * store.read_usd) / 1e3
        }
        StoreModel::Disk(_) => 0.0,
    }
}

/// The times of effects of all processes together.
fn summed(all: &[Timings]) -> BTreeMap<&'static str, EffectReport> {
    let mut sums = BTreeMap::new();
    for (kind, times) in all.iter().flat_map(Timings::iter) {
        let sum = sums.entry(kind.name()).or_insert(EffectReport {
            count: 0,
            total_seconds: 0.0,
            longest_seconds: 0.0,
        });
        sum.count += times.count;
        sum.total_seconds += times.total.as_secs_f64();
        sum.longest_seconds = sum.longest_seconds.max(times.longest.as_secs_f64());
    }
    sums
}

fn seconds(time: Moment) -> f64 {
    Duration::from_micros(time).as_secs_f64()
}

fn number(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
