//! A memory budget that the writers of a process share.
//!
//! Each writer cuts its pages by a fixed share, as if that were its limit: so its file depends on nothing but its rows
//! and options. Seven eighths of a share are the writer's own. The last eighth is for finished pages, metadata and
//! batches that wait. The last eighths of all shares make one pool: a file that is being filled fast may use what
//! others leave. What is in memory and what is spilled changes no byte.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Result, WriteError};
use crate::options::{Amount, bytes_of_amount};

/// The most writers of a budget.
const MOST_WRITERS: usize = 1 << 20;

/// Memory that writers share.
#[derive(Debug)]
pub struct MemoryBudget {
    bytes: usize,
    writers: usize,
    /// Writers that are open.
    open: AtomicUsize,
    /// The bytes that the shares of these leave for what waits.
    room: AtomicUsize,
    /// Bytes that wait: pages, metadata and batches of all writers.
    waiting: AtomicUsize,
}

impl MemoryBudget {
    /// A budget of `limit` bytes for at most `writers` open writers.
    ///
    /// # Errors
    /// [`WriteError::Option`] when one of the two is not accepted.
    pub fn new(limit: &Amount, writers: i64) -> Result<Self> {
        let bytes = bytes_of_amount("limit", limit)?;
        let counted = usize::try_from(writers).ok();
        let writers = counted
            .filter(|writers| (1..=MOST_WRITERS).contains(writers))
            .ok_or_else(|| {
                WriteError::option(
                    "writers",
                    format!("writers={writers} is not accepted: give an integer from 1 to {MOST_WRITERS}"),
                )
            })?;
        Ok(Self {
            bytes,
            writers,
            open: AtomicUsize::new(0),
            room: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
        })
    }

    /// All bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The most writers that may be open at a time.
    #[must_use]
    pub fn writers(&self) -> usize {
        self.writers
    }

    /// The bytes by which each writer cuts its pages.
    #[must_use]
    pub fn share(&self) -> usize {
        self.bytes / self.writers
    }

    /// Writers that are open.
    #[must_use]
    pub fn open_writers(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Bytes that may wait: what open writers leave of their shares, and as much of the shares of others, so that there
    /// is memory for these when they are opened.
    fn room(&self) -> usize {
        let room = self.room.load(Ordering::Relaxed) as u128 * self.writers as u128;
        usize::try_from(room / self.open_writers().max(1) as u128).unwrap_or(usize::MAX)
    }
}

/// Two budgets are equal if they are one.
impl PartialEq for MemoryBudget {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

/// The share of one open writer.
#[derive(Debug)]
pub(crate) struct MemoryShare {
    budget: Arc<MemoryBudget>,
    room: usize,
    waiting: AtomicUsize,
}

impl MemoryShare {
    /// Takes a share for a writer that is opened.
    ///
    /// # Errors
    /// [`WriteError::Option`] when as many writers are open as the budget is for.
    pub fn take(budget: &Arc<MemoryBudget>) -> Result<Self> {
        let one_more = |open| (open < budget.writers).then_some(open + 1);
        let taken = budget
            .open
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        if taken.is_err() {
            return Err(WriteError::option(
                "memory_limit",
                format!(
                    "the memory budget is for {} files at a time, and all of them are open: close one first, or make the \
                     budget for more writers",
                    budget.writers
                ),
            ));
        }
        Ok(Self {
            budget: Arc::clone(budget),
            room: 0,
            waiting: AtomicUsize::new(0),
        })
    }

    /// Gives the pool the bytes that the writer leaves of its share.
    pub fn leave(&mut self, room: usize) {
        self.budget.room.fetch_add(room, Ordering::Relaxed);
        self.room += room;
    }

    /// Has `bytes` more wait, if there is room.
    pub fn try_add(&self, bytes: usize) -> bool {
        let before = self.budget.waiting.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= self.budget.room();
        if fits {
            self.waiting.fetch_add(bytes, Ordering::Relaxed);
        } else {
            self.budget.waiting.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }

    /// Notes that `now` bytes wait where `before` did, which cannot be spilled.
    pub fn change(&self, before: usize, now: usize) {
        for waiting in [&self.budget.waiting, &self.waiting] {
            waiting.fetch_add(now, Ordering::Relaxed);
            waiting.fetch_sub(before, Ordering::Relaxed);
        }
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        let budget = &self.budget;
        budget
            .waiting
            .fetch_sub(*self.waiting.get_mut(), Ordering::Relaxed);
        budget.room.fetch_sub(self.room, Ordering::Relaxed);
        budget.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(bytes: i64, writers: i64) -> Arc<MemoryBudget> {
        Arc::new(MemoryBudget::new(&Amount::Bytes(bytes), writers).unwrap())
    }

    #[test]
    fn one_writer_too_many_is_refused_until_another_is_closed() {
        let budget = budget(100, 2);
        let first = MemoryShare::take(&budget).unwrap();
        let _second = MemoryShare::take(&budget).unwrap();
        assert!(MemoryShare::take(&budget).is_err());
        drop(first);
        assert!(MemoryShare::take(&budget).is_ok());
    }

    #[test]
    fn what_waits_shares_one_pool_which_a_dropped_writer_leaves() {
        let budget = budget(80, 2);
        let open = || {
            let mut share = MemoryShare::take(&budget).unwrap();
            share.leave(5);
            share
        };
        let (first, second) = (open(), open());
        assert!(first.try_add(8));
        assert!(!second.try_add(3));
        second.change(0, 2);
        assert!(!first.try_add(1));
        drop(first);
        assert!(second.try_add(8));
        assert!(!second.try_add(1));
        drop(second);
        assert_eq!(budget.waiting.load(Ordering::Relaxed), 0);
        assert_eq!(budget.room(), 0);
    }
}
