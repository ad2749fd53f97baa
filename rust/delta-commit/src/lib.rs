//! The commit layer of Delta tables, for many writers.
//!
//! A [`Transaction`] goes to the [`Committer`] of its table. Inside a process the first thread to come leads: it drains
//! what the others handed in and writes one version for all of them. Between processes, a bundle that lost a race is
//! announced beside the log, and whoever attempts the next version carries it along. So nobody loses more than two
//! races to committers that follow the rules, however many there are.
//!
//! [`actions`] is what the log holds, [`conflict`] decides who may follow whom, [`machine`] is the committer without
//! I/O, [`log`] is what it asks of a store, [`store`] has the stores, and [`driver`] runs the machine on real threads.

pub mod actions;
pub mod batch;
pub mod conflict;
pub mod driver;
pub mod error;
mod intent;
pub mod log;
pub mod machine;
pub mod path;
pub mod predicate;
mod process;
#[doc(hidden)]
pub mod rules;
pub mod schema;
mod settle;
pub mod store;
mod time;
pub mod transaction;
pub mod winner;

pub use driver::{Committer, Patience};
pub use error::{CommitError, Result};
pub use intent::{MAX_AGE, WINDOW, World};
pub use log::{LogStore, Version};
pub use machine::{CommitStats, Machine, Start, Submission, Verdict};
pub use process::PerProcess;
pub use settle::{Outcome, Token};
pub use transaction::{Isolation, MemberId, Operation, ReadSet, Transaction};
