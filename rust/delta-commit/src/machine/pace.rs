//! The pace of a table's commits: the time that announced members leave to other processes before they are attempted.
//!
//! Nothing here concerns safety. Too short a time costs attempts that lose their race, too long a time delays commits.

use crate::log::Time;

/// The time of an attempt before one was measured: milliseconds.
const FIRST_ATTEMPT: u64 = 10;

/// The least and the most milliseconds that an attempt counts as.
const SHORTEST_ATTEMPT: u64 = 2;
const LONGEST_ATTEMPT: u64 = 1_000;

/// Averages are kept in microseconds: whole milliseconds would never come near to a short one.
const MICROSECONDS: u64 = 1_000;

/// The longest pause in milliseconds between two looks for the next version.
const LONGEST_LOOK: u64 = 150;

/// The time in milliseconds after which processes that were met count as gone.
const MET_FOR: u64 = 1_000;

/// The most older announcements that are left to go first. Those of processes that died may be among them.
const MOST_AHEAD: u64 = 8;

/// The time of attempts, and the last meeting with another process.
#[derive(Debug, Clone)]
pub(super) struct AttemptPace {
    /// The average time of the last attempts, each from its listing to its answer: microseconds.
    average: u64,
    /// The time of the listing before the next attempt.
    listed: Option<u64>,
    /// The last time at which another process that announces and carries was met.
    met: Option<u64>,
}

impl Default for AttemptPace {
    fn default() -> Self {
        Self {
            average: FIRST_ATTEMPT * MICROSECONDS,
            listed: None,
            met: None,
        }
    }
}

impl AttemptPace {
    /// Notes a listing, with which an attempt begins.
    pub(super) fn list(&mut self, asked: Time) {
        self.listed = Some(asked.monotonic);
    }

    /// Notes that the attempt is put off.
    pub(super) fn put_off(&mut self) {
        self.listed = None;
    }

    /// Notes that the attempt has its answer.
    pub(super) fn end(&mut self, now: Time) {
        if let Some(listed) = self.listed.take() {
            let took = now.monotonic.saturating_sub(listed);
            let took = took.clamp(SHORTEST_ATTEMPT, LONGEST_ATTEMPT);
            self.average = (3 * self.average + took * MICROSECONDS) / 4;
        }
    }

    /// The time of an attempt in milliseconds.
    fn attempt(&self) -> u64 {
        self.average.div_ceil(MICROSECONDS)
    }

    /// Notes that another process commits to the table, too.
    pub(super) fn meet(&mut self, now: Time) {
        self.met = Some(now.monotonic);
    }

    /// Returns true if another process was met lately. Members are announced at once then: most attempts would lose.
    pub(super) fn has_met(&self, now: Time) -> bool {
        self.met
            .is_some_and(|at| now.monotonic.saturating_sub(at) <= MET_FOR.max(10 * self.attempt()))
    }

    /// The time in milliseconds from the announcement of members to their attempt, with so many older announcements. It
    /// is that of an attempt, in which others announce their members too, and of one more for each older announcement.
    pub(super) fn wait(&self, ahead: u64) -> u64 {
        self.attempt() * (1 + ahead.min(MOST_AHEAD))
    }

    /// The pause between two looks for the next version.
    pub(super) fn look(&self) -> u64 {
        (self.attempt() / 2).clamp(1, LONGEST_LOOK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(monotonic: u64) -> Time {
        Time {
            monotonic,
            ..Time::default()
        }
    }

    #[test]
    fn the_wait_follows_the_time_of_attempts() {
        let mut pace = AttemptPace::default();
        for began in (0..100_000).step_by(1_000) {
            pace.list(at(began));
            pace.end(at(began + 80));
        }
        assert_eq!((pace.wait(0), pace.wait(2), pace.look()), (80, 240, 40));
        assert_eq!(pace.wait(1_000_000), pace.wait(MOST_AHEAD));
        // Members that another process committed were not attempted.
        pace.list(at(200_000));
        pace.put_off();
        pace.end(at(500_000));
        assert_eq!(pace.wait(0), 80);
        for began in (0..100_000).step_by(1_000) {
            pace.list(at(began));
            pace.end(at(began));
        }
        assert_eq!((pace.wait(0), pace.look()), (SHORTEST_ATTEMPT, 1));
    }

    #[test]
    fn others_count_as_gone_after_a_while() {
        let mut pace = AttemptPace::default();
        assert!(!pace.has_met(at(0)));
        pace.meet(at(5));
        assert!(pace.has_met(at(5 + MET_FOR)));
        assert!(!pace.has_met(at(6 + MET_FOR)));
    }
}
