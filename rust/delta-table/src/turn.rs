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
pub(crate) struct Taken<'a>(&'a Turn);

impl Turn {
    /// Waits for the turn.
    ///
    /// # Errors
    /// That of `look`, which is called while another thread has the turn.
    pub fn take(&self, look: Look<'_>) -> Result<Taken<'_>> {
        loop {
            let is_taken = lock(&self.is_taken);
            let (mut is_taken, _) = self
                .bell
                .wait_timeout_while(is_taken, LOOK_EVERY, |is_taken| *is_taken)
                .unwrap_or_else(PoisonError::into_inner);
            if !*is_taken {
                *is_taken = true;
                return Ok(Taken(self));
            }
            // Asked without the lock: the answer may want a lock of the caller's own.
            drop(is_taken);
            look()?;
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *lock(&self.0.is_taken) = false;
        self.0.bell.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

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
}
