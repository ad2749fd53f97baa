//! The simulator with time: the same committer, in as many processes as you like, against a clock that is not real.
//!
//! Each process is a [`Machine`](delta_commit::Machine), with the threads that its driver has: one that leads and does
//! effects one after the other, and one that deletes intents beside it. Effects take a processor of their host and an
//! answer of the store. Both are drawn from a [`Scenario`], and all follows from its seed. Nothing here is a formula of
//! the committer: what it attempts, and when, is its own decision.

mod appends;
mod committer;
mod cores;
mod events;
mod latency;
mod report;
mod scenario;
mod shared;
mod simulation;
mod table;
mod times;

use delta_commit::rules::ProtocolRules;

pub use latency::Latency;
pub use report::{EffectReport, Report, Waits};
pub use scenario::{Disk, Load, ObjectStore, Pauses, ProcessorTimes, Scenario, StoreModel, Synced};
pub use times::Requests;

/// Runs a scenario.
///
/// # Errors
/// A scenario that cannot be run, or the first promise that was broken, in words.
pub fn run(scenario: &Scenario) -> Result<Report, String> {
    run_with(scenario, ProtocolRules::default())
}

/// Runs it with some rules switched off.
///
/// # Errors
/// As [`run`].
#[doc(hidden)]
pub fn run_with(scenario: &Scenario, rules: ProtocolRules) -> Result<Report, String> {
    scenario.check()?;
    simulation::TimedSimulation::new(scenario, rules).run()
}
