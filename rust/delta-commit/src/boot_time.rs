//! A clock for ages: it never goes back, and counts the time for which the machine was suspended.
//!
//! [`Instant`](std::time::Instant) stands still while a laptop sleeps or a virtual machine is paused. A fact that was
//! true ten seconds ago by that clock may be a day old.

use std::time::Duration;

/// A moment, by the time since the machine was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootTime(Duration);

impl BootTime {
    /// The current moment.
    #[must_use]
    pub fn now() -> Self {
        Self(since_boot())
    }

    /// The time since this moment.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        since_boot().saturating_sub(self.0)
    }
}

#[cfg(unix)]
fn since_boot() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    // CLOCK_MONOTONIC of Apple's systems counts the time for which the machine was suspended.
    #[cfg(target_vendor = "apple")]
    let clock = ClockId::Monotonic;
    #[cfg(not(target_vendor = "apple"))]
    let clock = ClockId::Boottime;
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanoseconds)
}

#[cfg(not(unix))]
fn since_boot() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_goes_back() {
        let first = BootTime::now();
        std::thread::sleep(Duration::from_millis(2));
        assert!(BootTime::now() > first);
        assert!(first.elapsed() >= Duration::from_millis(2));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_clock_is_that_of_the_boot() {
        let told = std::fs::read_to_string("/proc/uptime").unwrap();
        let seconds: f64 = told.split(' ').next().unwrap().parse().unwrap();
        assert!((since_boot().as_secs_f64() - seconds).abs() < 5.0);
    }
}
