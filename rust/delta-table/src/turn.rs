//! A lock whose waiters look up: a deadline or a signal ends their wait.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::error::Result;
use crate::table::lock;

/// The time between two looks of a waiting thread.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A check that a waiting thread makes. Its error ends the wait.
pub(crate) type Look<'a> = &'a mut dyn FnMut() -> Result<()>;

/// A piece of work that threads do one after the other. Whoever waited finds it done.
#[derive(Default)]
pub(crate) struct Turn {
    is_taken: Mutex<bool>,
    bell: Condvar,
}

/// The turn of a thread. It ends when this is dropped.
pub(crate) struct Taken<'a> {
    turn: &'a Turn,
    is_finished: bool,
}

impl Taken<'_> {
    /// Ends the turn with the work done. Everybody who waited looks whether it is theirs.
    pub fn finish(mut self) {
        self.is_finished = true;
    }
}

impl Turn {
    /// Returns true if a thread has the turn. By the time of the answer it may have ended.
    pub fn is_taken(&self) -> bool {
        *lock(&self.is_taken)
    }

    /// Waits for the turn.
    ///
    /// # Errors
    /// That of `look`, which is called while another thread has the turn.
    pub fn take(&self, look: Look<'_>) -> Result<Taken<'_>> {
        loop {
            if let Some(taken) = self.take_unless(&|| false, look)? {
                return Ok(taken);
            }
        }
    }

    /// Waits for the turn, or until the work is done; none then. Those that wait for the same work go on together.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn take_unless(&self, is_done: &dyn Fn() -> bool, look: Look<'_>) -> Result<Option<Taken<'_>>> {
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
                return Ok(Some(Taken {
                    turn: self,
                    is_finished: false,
                }));
            }
            // Asked without the lock: the answer may want a lock of the caller's own.
            drop(is_taken);
            look()?;
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *lock(&self.turn.is_taken) = false;
        if self.is_finished {
            self.turn.bell.notify_all();
        } else {
            self.turn.bell.notify_one();
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
    fn who_waits_for_a_turn_looks_up() {
        let turn = Turn::default();
        let first = turn.take(&mut || Ok(())).unwrap();
        let looks = Cell::new(0);
        let mut look = || {
            looks.set(looks.get() + 1);
            if looks.get() < 3 {
                Ok(())
            } else {
                Err(TableError::refused("enough"))
            }
        };
        assert!(turn.take(&mut look).is_err());
        drop(first);
        assert!(turn.take(&mut look).is_ok());
        assert_eq!(looks.get(), 3);
    }

    #[test]
    fn who_waits_for_the_same_work_takes_no_turn() {
        let (turn, is_done) = (Turn::default(), AtomicBool::new(false));
        let first = turn.take(&mut || Ok(())).unwrap();
        thread::scope(|scope| {
            let waiting: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let is_done = || is_done.load(Ordering::Acquire);
                        let taken = turn.take_unless(&is_done, &mut || Ok(())).unwrap();
                        taken.is_none()
                    })
                })
                .collect();
            is_done.store(true, Ordering::Release);
            first.finish();
            assert!(waiting.into_iter().all(|waiting| waiting.join().unwrap()));
        });
        // Without the work done, the turn is free.
        is_done.store(false, Ordering::Release);
        assert!(turn.take_unless(&|| false, &mut || Ok(())).unwrap().is_some());
    }
}
