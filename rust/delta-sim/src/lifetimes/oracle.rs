//! The promises to those whose table went away.

use delta_commit::log::Effect;

use super::{LifetimeProcess, LifetimeSimulation, parsed};

/// The milliseconds for which a process may believe that its table is there.
const BELIEVED: i64 = 1_000;

impl LifetimeSimulation {
    /// Checks that a version is attempted only where the table was there a moment before.
    pub(super) fn judge_attempt(&mut self, process: &LifetimeProcess, effect: &Effect, issued: i64) {
        let Effect::PutVersion(version, _) = effect else {
            return;
        };
        let before = version - 1;
        if self.location.is_in_lineage(before, process.opened) {
            return;
        }
        let since = self.location.changed_at(before);
        if issued - since > BELIEVED {
            self.violation = Some(format!(
                "version {version} is attempted, but its table was gone for {} ms",
                issued - since
            ));
        }
    }

    /// The first promise that is broken once nothing is under way.
    pub(super) fn broken_promise(&self) -> Option<String> {
        if let Some(version) = self.location.left_over() {
            return Some(format!(
                "version {version} was left in a log that is not of its writer's table"
            ));
        }
        for (version, body) in self.location.log() {
            let members = parsed(*version, body)?.members;
            let rejected = self.rejected.iter().find(|id| members.contains(id));
            let is_beyond_reach = self.location.is_copied(body) || self.location.is_excused(body);
            if let Some(id) = rejected.filter(|_| !is_beyond_reach) {
                return Some(format!("{id} was rejected, but it is in version {version}"));
            }
        }
        None
    }
}
