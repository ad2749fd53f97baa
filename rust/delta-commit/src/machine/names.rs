//! The names of the intents that a process announces.
//!
//! A process may be cloned: a virtual machine goes on from a snapshot, twice. The clones have the same id and the same
//! counts, and know nothing of each other. So each name has a random part, which is drawn at the announcement.
//! Otherwise one clone would replace the other's intent, and take it for its own.

use std::collections::HashSet;

use super::Machine;
use crate::intent;
use crate::log::Version;
use crate::transaction::MemberId;

/// The source of the random parts, and the names that are in use.
#[derive(Debug, Clone)]
pub(super) struct IntentNames {
    source: NameSource,
    own: HashSet<String>,
}

#[derive(Debug, Clone)]
enum NameSource {
    /// The operating system.
    Random,
    /// A count, for schedules that can be repeated.
    Counted(u128),
}

impl IntentNames {
    pub(super) fn random() -> Self {
        Self {
            source: NameSource::Random,
            own: HashSet::new(),
        }
    }

    /// Names that no other process gets, as long as the numbers of processes are small.
    pub(super) fn counted(process: MemberId) -> Self {
        Self {
            source: NameSource::Counted(first_of(process)),
            own: HashSet::new(),
        }
    }

    /// Counts on from another number, if it counts.
    pub(super) fn count_from(&mut self, process: MemberId) {
        if let NameSource::Counted(last) = &mut self.source {
            *last = first_of(process);
        }
    }

    fn draw(&mut self) -> MemberId {
        match &mut self.source {
            NameSource::Random => MemberId::random(),
            NameSource::Counted(last) => {
                *last = last.wrapping_add(1);
                MemberId::from_number(*last)
            }
        }
    }
}

const fn first_of(process: MemberId) -> u128 {
    process.number().wrapping_shl(32)
}

impl Machine {
    /// The name of the next announcement, whose window begins with `first`.
    pub(super) fn name_intent(&mut self, first: Version) -> String {
        let random = if self.rules.r2_own_names {
            self.names.draw()
        } else {
            self.process
        };
        let name = intent::name(first, random, self.announcements);
        self.announcements += 1;
        self.names.own.insert(name.clone());
        name
    }

    /// Returns true if this process announced an intent.
    pub(super) fn is_own(&self, name: &str) -> bool {
        if self.rules.r2_own_names {
            return self.names.own.contains(name);
        }
        name.contains(&self.process.to_string())
    }

    /// Forgets the names of own intents that are gone.
    pub(super) fn forget_names(&mut self, listed: &HashSet<&str>) {
        let members = self.bundle.iter().map(|member| &member.claim);
        let claims = members.chain(self.settlements.iter().map(|settlement| &settlement.claim));
        let in_use: HashSet<&String> = claims.flat_map(|claim| &claim.names).collect();
        self.names
            .own
            .retain(|name| listed.contains(name.as_str()) || in_use.contains(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_give_their_announcements_other_names() {
        let start = crate::machine::Start {
            version: 0,
            table_id: "t".to_owned(),
            changed_in: 0,
            in_commit_timestamp: None,
            high_water_mark: None,
            digest: None,
            known: None,
        };
        let mut first = Machine::new(MemberId::from_number(1), start);
        let mut second = first.clone();
        let (ours, theirs) = (first.name_intent(1), second.name_intent(1));
        assert_ne!(ours, theirs);
        assert!(first.is_own(&ours) && !first.is_own(&theirs));
    }
}
