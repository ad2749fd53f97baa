//! The times of requests, and the number of them that is taken a second.

use std::collections::VecDeque;
use std::f64::consts::TAU;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::events::Moment;
use crate::rng::Rng;

/// The 99th percentile of the normal distribution.
const P99: f64 = 2.326_347_874;

/// A time with a log-normal distribution. Half of all are shorter than the median, and one in a hundred is longer than
/// the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Milliseconds.
    pub median_ms: f64,
    /// Milliseconds; the median for a time that is always the same.
    pub p99_ms: f64,
}

impl Latency {
    /// A time with this median and this 99th percentile.
    #[must_use]
    pub const fn new(median_ms: f64, p99_ms: f64) -> Self {
        Self { median_ms, p99_ms }
    }

    /// A time that is always the same.
    #[must_use]
    pub const fn exactly(milliseconds: f64) -> Self {
        Self::new(milliseconds, milliseconds)
    }

    pub(crate) fn draw(self, rng: &mut Rng) -> Moment {
        if self.p99_ms <= self.median_ms {
            return microseconds(self.median_ms);
        }
        let deviation = (self.p99_ms / self.median_ms).ln() / P99;
        let normal = (-2.0 * rng.unit().ln()).sqrt() * (TAU * rng.unit()).cos();
        microseconds(self.median_ms * (deviation * normal).exp())
    }
}

/// The time between two events of which so many come a second, on average.
pub(crate) fn gap(per_second: f64, rng: &mut Rng) -> Moment {
    microseconds(-rng.unit().ln() * 1e3 / per_second)
}

/// Milliseconds as a time of the simulation.
pub(crate) fn microseconds(milliseconds: f64) -> Moment {
    Duration::try_from_secs_f64(milliseconds / 1e3).map_or(0, |time| whole(time.as_micros()))
}

fn whole(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The time in which bytes go over a connection.
pub(crate) fn transfer(bytes: u64, megabytes_per_second: f64) -> Moment {
    let bytes = f64::from(u32::try_from(bytes).unwrap_or(u32::MAX));
    microseconds(bytes / (megabytes_per_second * 1e3))
}

/// The time in which requests are answered of which so many are under way at most. Answers are taken in the order of
/// the requests.
pub(crate) fn side_by_side(times: impl IntoIterator<Item = Moment>, most: usize) -> Moment {
    let mut taken = VecDeque::new();
    let mut last = 0;
    for time in times {
        let begins = if taken.len() == most {
            taken.pop_front().unwrap_or(0)
        } else {
            0
        };
        last = last.max(begins + time);
        taken.push_back(last);
    }
    last
}

/// A bound of requests a second. One above it waits for its turn.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    /// Nanoseconds of a request.
    each: u64,
    /// The nanosecond at which the next one is taken.
    free: u64,
}

impl Gate {
    /// A gate for so many requests a second; for any number where that is 0.
    pub(crate) fn new(per_second: f64) -> Self {
        let each = Duration::try_from_secs_f64(per_second.recip());
        Self {
            each: each.map_or(0, |each| whole(each.as_nanos())),
            free: 0,
        }
    }

    /// Takes requests. Returns the time for which the last of them waits.
    pub(crate) fn take(&mut self, now: Moment, requests: u64) -> Moment {
        let now = now * 1_000;
        self.free = self.free.max(now) + self.each * requests;
        self.free.saturating_sub(self.each).saturating_sub(now) / 1_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_the_median_and_the_tail_that_are_asked_for() {
        let (latency, mut rng) = (Latency::new(30.0, 200.0), Rng::new(1));
        let mut draws: Vec<Moment> = (0..100_000).map(|_| latency.draw(&mut rng)).collect();
        draws.sort_unstable();
        assert!((29_500..30_500).contains(&draws[50_000]), "{}", draws[50_000]);
        assert!((190_000..210_000).contains(&draws[99_000]), "{}", draws[99_000]);
        assert_eq!(Latency::exactly(63.0).draw(&mut rng), 63_000);
    }

    #[test]
    fn gaps_have_the_rate_that_is_asked_for() {
        let mut rng = Rng::new(1);
        let all: Moment = (0..100_000).map(|_| gap(50.0, &mut rng)).sum();
        assert!((1_980_000_000..2_020_000_000).contains(&all), "{all}");
    }

    #[test]
    fn no_more_requests_pass_a_gate_than_its_rate() {
        let mut gate = Gate::new(100.0);
        let waits: Vec<Moment> = (0..4).map(|_| gate.take(5_000, 1)).collect();
        assert_eq!(waits, [0, 10_000, 20_000, 30_000]);
        assert_eq!(gate.take(1_000_000, 3), 20_000);
        assert_eq!(Gate::new(0.0).take(5_000, 1_000_000), 0);
    }

    #[test]
    fn requests_side_by_side_take_the_time_of_the_longest() {
        assert_eq!(side_by_side([5, 9, 2], 3), 9);
        assert_eq!(side_by_side([5, 9, 2], 1), 16);
        // The third begins once the first was taken.
        assert_eq!(side_by_side([5, 9, 6], 2), 11);
        assert_eq!(side_by_side([], 2), 0);
    }
}
