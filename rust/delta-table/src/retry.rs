//! Operations that are retried because a compaction moved their rows to other files.

use std::fmt;
use std::time::Instant;

use delta_commit::CompactionBackoff;

use crate::error::TableError;
use crate::table::Table;

/// The attempts of one operation. From the second attempt on, compactions are asked to wait for it.
pub struct Retry<'a> {
    table: &'a Table,
    began: Instant,
    backoff: Option<CompactionBackoff>,
}

impl fmt::Debug for Retry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry").finish_non_exhaustive()
    }
}

impl<'a> Retry<'a> {
    /// An operation whose first attempt begins now.
    #[must_use]
    pub fn of(table: &'a Table) -> Self {
        Self {
            table,
            began: Instant::now(),
            backoff: None,
        }
    }

    /// Returns true if the operation must be retried after this error. Compactions wait from now on until it is done,
    /// or has taken twice as long as before, or ten seconds.
    pub fn should_retry(&mut self, error: &TableError) -> bool {
        let is_retried = error.is_of_moved_rows();
        if is_retried {
            let took = self.began.elapsed();
            self.began = Instant::now();
            // The former request ends here.
            self.backoff = self
                .table
                .shared()
                .ok()
                .and_then(|shared| shared.request_backoff(2 * took));
        }
        is_retried
    }
}
