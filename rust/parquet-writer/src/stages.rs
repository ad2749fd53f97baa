//! The time that a file took, by stage. It decides about nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The time that a file took, by stage. That of several threads is added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Encoding of values and levels. What is compressed on trial is in `compress`.
    pub encode: Duration,
    /// Compression, also where it is only tried.
    pub compress: Duration,
    /// Writing to the destination, uploads included, and to the temporary file of pages; and reading back what was
    /// written.
    pub write: Duration,
    /// The time from the opening of the writer on in which it was not called. For a file of a dataset that is
    /// also the time in which other partitions were written.
    pub wait: Duration,
}

/// A stage whose time is added up by several threads.
#[derive(Debug, Default)]
pub(crate) struct Stage(AtomicU64);

impl Stage {
    /// Runs a piece of the stage's work.
    pub fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let done = work();
        self.add(started.elapsed());
        done
    }

    pub fn add(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// The stages of a file.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    /// The work of encoders, in which pages are compressed and kept as well.
    pub encoders: Stage,
    pub compress: Stage,
    /// Finished pages kept for their chunk, in memory or in the temporary file.
    pub keep: Stage,
    /// Chunks and the footer, written to the destination.
    pub write: Stage,
}

impl Stages {
    /// The times without those of the caller.
    pub fn times(&self) -> StageTimes {
        let (compress, keep) = (self.compress.total(), self.keep.total());
        StageTimes {
            encode: self.encoders.total().saturating_sub(compress + keep),
            compress,
            write: self.write.total() + keep,
            wait: Duration::ZERO,
        }
    }
}

/// A clock of the time between the calls of a writer.
#[derive(Debug)]
pub(crate) struct Between {
    left: Instant,
    total: Duration,
}

impl Between {
    /// A clock that begins outside of a call.
    pub fn new() -> Self {
        Self {
            left: Instant::now(),
            total: Duration::ZERO,
        }
    }

    /// Notes that a call begins.
    pub fn enter(&mut self) {
        self.total += self.left.elapsed();
    }

    /// Notes that a call ends.
    pub fn leave(&mut self) {
        self.left = Instant::now();
    }

    /// The time between calls so far.
    pub fn total(&self) -> Duration {
        self.total
    }
}
