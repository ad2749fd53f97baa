//! A lock for work that one thread does for all that wait. A deadline or a signal ends a wait.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::error::Result;
use crate::table::lock;

/// The time between two looks of a waiting thread.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A check that a waiting thread makes. Its error ends the wait.
pub(crate) type WaitProbe<'a> = &'a mut dyn FnMut() -> Result<()>;

/// Work that one thread at a time does. Threads that waited for it find it done.
#[derive(Default)]
pub(crate) struct SingleFlight {
    is_taken: Mutex<bool>,
    bell: Condvar,
}

/// The thread that does the work. The next one may begin when this is dropped.
pub(crate) struct Leader<'a> {
    flight: &'a SingleFlight,
    is_finished: bool,
}

impl Leader<'_> {
    /// Ends with the work done. All that waited check whether it is theirs.
    pub fn finish(mut self) {
        self.is_finished = true;
    }
}

impl SingleFlight {
    /// Returns true if a thread does the work. It may have ended by the time of the answer.
    pub fn is_taken(&self) -> bool {
        *lock(&self.is_taken)
    }

    /// Waits until no other thread does the work.
    ///
    /// # Errors
    /// That of `look`, which is called while another thread does the work.
    pub fn take(&self, look: WaitProbe<'_>) -> Result<Leader<'_>> {
        loop {
            if let Some(taken) = self.take_unless(&|| false, look)? {
                return Ok(taken);
            }
        }
    }

    /// Waits likewise, or until the work is done; none then. Threads that wait for the same work continue together.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn take_unless(&self, is_done: &dyn Fn() -> bool, look: WaitProbe<'_>) -> Result<Option<Leader<'_>>> {
        loop {
            let is_taken = lock(&self.is_taken);
            let (mut is_taken, _) = self
                .bell
                .wait_timeout_while(is_taken, LOOK_EVERY, |is_taken| *is_taken && !is_done())
                .unwrap_or_else(PoisonError::into_inner);
            if is_done() {
                return Ok(None);
            }
            if !*is_taken {
                *is_taken = true;
                return Ok(Some(Leader {
                    flight: self,
                    is_finished: false,
                }));
            }
            // Asked without the lock: the answer may want a lock of the caller's own.
            drop(is_taken);
            look()?;
        }
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        *lock(&self.flight.is_taken) = false;
        if self.is_finished {
            self.flight.bell.notify_all();
        } else {
            self.flight.bell.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;
    use crate::error::TableError;

    #[test]
    fn a_waiting_thread_calls_its_check() {
        let flight = SingleFlight::default();
        let first = flight.take(&mut || Ok(())).unwrap();
        let looks = Cell::new(0);
        let mut look = || {
            looks.set(looks.get() + 1);
            if looks.get() < 3 {
                Ok(())
            } else {
                Err(TableError::refused("enough"))
            }
        };
        assert!(flight.take(&mut look).is_err());
        drop(first);
        assert!(flight.take(&mut look).is_ok());
        assert_eq!(looks.get(), 3);
    }

    #[test]
    fn threads_that_waited_for_the_same_work_do_not_repeat_it() {
        let (flight, is_done) = (SingleFlight::default(), AtomicBool::new(false));
        let first = flight.take(&mut || Ok(())).unwrap();
        thread::scope(|scope| {
            let waiting: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let is_done = || is_done.load(Ordering::Acquire);
                        let taken = flight.take_unless(&is_done, &mut || Ok(())).unwrap();
                        taken.is_none()
                    })
                })
                .collect();
            is_done.store(true, Ordering::Release);
            first.finish();
            assert!(waiting.into_iter().all(|waiting| waiting.join().unwrap()));
        });
        // Without the work done, the next thread may do it.
        is_done.store(false, Ordering::Release);
        assert!(flight.take_unless(&|| false, &mut || Ok(())).unwrap().is_some());
    }
}
