//! The commit layer of Delta tables, for many writers.
//!
//! A [`Transaction`] goes to the [`Committer`] of its table. Inside a process commits are grouped: the first thread to
//! come leads, collects the transactions of the others, and writes one version for all of them. Between processes, a
//! bundle is announced beside the log where others commit too, and the next process to attempt a version carries it
//! along. So no transaction loses more than two races to committers that follow the rules, however many there are.
//!
//! [`actions`] are the content of the log. [`conflict`] decides which transactions may follow which. [`machine`] is the
//! committer without I/O. [`log`] is its interface to a store, and [`store`] has the stores. [`driver`] runs the
//! machine on real threads.

pub mod actions;
pub mod batch;
mod boot_time;
pub mod clustering;
pub mod conflict;
pub mod driver;
pub mod error;
mod file_stats;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod intent;
mod intent_gc;
pub mod log;
pub mod machine;
pub mod merge;
pub mod path;
pub mod predicate;
pub mod row_ids;
#[doc(hidden)]
pub mod rules;
pub mod schema;
mod serving;
mod settle;
pub mod store;
pub mod time;
pub mod timings;
pub mod transaction;
pub mod unread_appends;
pub mod winner;
pub mod z85;

pub use boot_time::BootTime;
pub use driver::{AsyncCommit, CommitCallback, Committer, CompactionBackoff, WaitLimit};
pub use error::{CommitError, Result};
#[doc(hidden)]
pub use intent::ParsedIntent;
pub use intent::{CLOCK_MARGIN, LIFETIME, WINDOW, World, announced_files};
pub use intent_gc::await_intent_gc;
pub use log::{LogStore, Version};
pub use machine::{CommitStats, Machine, Start, Submission, Verdict};
pub use merge::{Marked, Marks, Merge, MergeRequest};
pub use serving::{is_abandoned, is_serving, serve_until};
pub use settle::{Outcome, Token};
pub use timings::{EffectKind, EffectTimes, Timings};
pub use transaction::{Isolation, MemberId, Operation, ReadSet, Transaction};
