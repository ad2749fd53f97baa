//! Conditions in SQL: CHECK constraints, and texts of `where`.
//!
//! sqlparser parses both, within what is accepted ([`tokens`], [`parse`]) and the same limits. They are bound to the
//! columns of a table ([`bind`]), and are true, false or null for its rows ([`bound`]). Those of merges are about the
//! columns of two sides ([`sides`]). [`cover`] derives the predicates by which files are skipped and transactions are
//! compared. [`Purpose`] says who reads the condition, and so how strict it is.

mod bind;
mod bound;
mod cover;
mod fault;
mod literals;
mod parse;
mod sides;
mod tokens;
mod values;

use std::{panic, thread};

pub(crate) use bind::{Scope, partitions_alone};
pub(crate) use bound::{BoundCondition, NamedColumn, Operator};
pub(crate) use fault::SqlFault;
#[cfg(any(test, fuzzing))]
pub(crate) use parse::reprinted;
pub(crate) use sides::{SideColumns, over_sides};
pub(crate) use values::plain;

use crate::error::{Result, TableError};

/// The words for what a condition may be.
const ACCEPTED: &str = "give comparisons of columns with literals or other columns, IS NULL, IN and BETWEEN, with AND, \
                        OR and NOT, such as \"status >= 100 AND host IS NOT NULL\"";

/// Characters of a condition that an error shows.
const MOST_SHOWN: usize = 200;

/// The purpose of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A constraint that a table has. Names are in any case, as some engines have them.
    Stated,
    /// A constraint that is to come, which every engine will read: words that SQL reserves have backquotes.
    Added,
    /// A condition of a call, which nobody else reads. So texts may have a doubled quote, numbers with a fraction any
    /// digits, and `TIMESTAMP` and `DATE` go with times without a zone.
    Asked,
}

impl Scope<'_> {
    /// The condition that a text has over the columns. The error says why there is none.
    pub fn read(&self, text: &str) -> Result<BoundCondition, SqlFault> {
        on_own_stack(|| self.condition(&parse::parse(text, self.purpose)?))
    }
}

/// Refuses a text that is no condition, over whatever columns.
///
/// # Errors
/// [`TableError::Option`] with the place in the text.
pub(crate) fn check(text: &str, option: &str) -> Result<()> {
    let parsed = on_own_stack(|| parse::parse(text, Purpose::Asked));
    parsed.map(|_| ()).map_err(|fault| refused(option, text, &fault))
}

/// The bytes of stack for a condition. The deepest takes 1.5 MB to parse, and 8 MB without optimisation.
const STACK: usize = 16 << 20;

/// Parses on a stack of its own. That of a caller's thread may be smaller than it takes: Python starts threads with
/// what `threading.stack_size` says, and musl with 128 KB.
fn on_own_stack<T: Send>(parse: impl Fn() -> Result<T, SqlFault> + Sync) -> Result<T, SqlFault> {
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("spillway-sql".into())
            .stack_size(STACK);
        match thread.spawn_scoped(scope, &parse) {
            Ok(parsing) => parsing.join().unwrap_or_else(|cause| panic::resume_unwind(cause)),
            // If no thread can be started, the caller's stack is most likely large enough.
            Err(_) => parse(),
        }
    })
}

/// The error of an argument whose text is not understood.
pub(crate) fn refused(option: &str, text: &str, fault: &SqlFault) -> TableError {
    let why = fault.words(text);
    let shown = fault::cut(text, MOST_SHOWN);
    let advice = if fault.has_advice() {
        String::new()
    } else {
        format!("; {ACCEPTED}")
    };
    TableError::option(
        option,
        format!("{option}={shown:?} is not accepted: {why}{advice}"),
    )
}
