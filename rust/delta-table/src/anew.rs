//! Work that begins anew where compactions moved its rows to other files.

use std::fmt;
use std::time::Instant;

use delta_commit::Precedence;

use crate::error::TableError;
use crate::table::Table;

/// The beginnings of a piece of work. From the second one on, compactions are asked to wait for it.
pub struct Anew<'a> {
    table: &'a Table,
    began: Instant,
    precedence: Option<Precedence>,
}

impl fmt::Debug for Anew<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Anew").finish_non_exhaustive()
    }
}

impl<'a> Anew<'a> {
    /// Work that begins now.
    #[must_use]
    pub fn of(table: &'a Table) -> Self {
        Self {
            table,
            began: Instant::now(),
            precedence: None,
        }
    }

    /// Returns true if the work begins anew after this error. Compactions wait from now on until it is done, or has
    /// taken twice the time that it took before, or ten seconds.
    pub fn begins(&mut self, error: &TableError) -> bool {
        let begins = error.is_of_moved_rows();
        if begins {
            let took = self.began.elapsed();
            self.began = Instant::now();
            // The former request ends here.
            self.precedence = self
                .table
                .shared()
                .ok()
                .and_then(|shared| shared.ask_precedence(2 * took));
        }
        begins
    }
}
