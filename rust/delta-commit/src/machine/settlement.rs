//! The settlement of doubts, after R2 and R3: for a caller with a token, and for an own member that met a conflict.
//!
//! First the intents are deleted. Then the tip T is read. Then T + 1 is seen, or created. A process that listed the
//! intents before the deletion had read a tip of at most T before, so it attempts at most T + 1. A process that lists
//! later does not find the intent.
//!
//! An announcement whose answer was lost may arrive after the deletion. So a listing is waited for whose time, by the
//! store's clock, is past the intent's expiry. A process that lists later leaves the intent alone.

use super::member::{Claim, Settlement};
use super::{Asked, AskedEffect, Machine, Verdict};
use crate::error::{CommitError, Result};
use crate::intent::CLOCK_MARGIN;
use crate::log::{Effect, Version};
use crate::settle::{Outcome, SettleStep, Token};
use crate::transaction::MemberId;

impl Machine {
    pub(super) fn start_settlement(&mut self, token: &Token) -> Result<MemberId> {
        let id: MemberId = token.id.parse()?;
        if token.table_id != self.view.world.table_id {
            return Err(CommitError::Invalid(format!(
                "the token is for the table {}, but this table is {}",
                token.table_id, self.view.world.table_id
            )));
        }
        self.view.fresh = false;
        self.view.synced = self.view.synced.min(token.first - 1);
        self.settlements.push(Settlement {
            id,
            claim: Claim {
                attempted: Some(token.last),
                window: Some((token.first, token.last)),
                names: token.intents.clone(),
                doubtful: if token.announcement_in_doubt {
                    token.intents.iter().cloned().collect()
                } else {
                    std::collections::BTreeSet::new()
                },
                expires: token.expires,
            },
            checked: token.first - 1,
            stage: if self.rules.r2_no_zombies {
                SettleStep::Delete
            } else {
                SettleStep::Await(self.view.tip)
            },
            reason: None,
            knows_time: false,
        });
        Ok(id)
    }

    /// Ends the settlements that the log now answers.
    pub(super) fn examine_settlements(&mut self) {
        let mut settlements = std::mem::take(&mut self.settlements);
        settlements.retain_mut(|settlement| match self.examine(settlement) {
            None => true,
            Some(Outcome::Committed(version)) => {
                let claim = settlement.claim.clone();
                self.released.append(&mut settlement.claim.names);
                self.landed
                    .push((settlement.id, version, settlement.reason.is_some(), claim));
                false
            }
            Some(outcome) => {
                let verdict = self.settled(settlement, outcome);
                self.verdicts.push((settlement.id, verdict));
                false
            }
        });
        self.settlements = settlements;
        self.release();
    }

    fn settled(&self, settlement: &Settlement, outcome: Outcome) -> Verdict {
        match (&settlement.reason, outcome) {
            (None, outcome) => Verdict::Settled(outcome),
            (Some(reason), Outcome::Rejected) => Verdict::Commit(Err(reason.clone())),
            (Some(reason), _) => Verdict::Commit(Err(CommitError::Unknown {
                token: Box::new(self.token_of(settlement.id, &settlement.claim, settlement.checked)),
                reason: reason.to_string(),
            })),
        }
    }

    fn examine(&self, settlement: &mut Settlement) -> Option<Outcome> {
        let last = settlement.last();
        while settlement.checked < self.view.tip.min(last) {
            let version = settlement.checked + 1;
            let Some(winner) = self.view.get(version) else {
                return Some(Outcome::Unknowable);
            };
            if winner.members.contains(&settlement.id) {
                return Some(Outcome::Committed(version));
            }
            settlement.checked = version;
        }
        if settlement.checked >= last {
            return Some(Outcome::Rejected);
        }
        if settlement.is_in_doubt() && self.rules.r2_no_zombies {
            if settlement.needs_time() {
                return None;
            }
            if !self.has_expired(&settlement.claim) {
                // A version that was created meanwhile may hold it, or be the last one that can.
                return self.view.fresh.then_some(Outcome::Pending);
            }
            settlement.claim.doubtful.clear();
        }
        match settlement.stage {
            SettleStep::Delete => None,
            SettleStep::ReadTip => {
                if self.view.fresh {
                    settlement.stage = SettleStep::Await(self.view.tip + 1);
                }
                None
            }
            SettleStep::Await(version) => (self.view.tip >= version).then_some(Outcome::Rejected),
        }
    }

    /// Returns true if no process that lists from now on carries an intent of the claim.
    pub(super) fn has_expired(&self, claim: &Claim) -> bool {
        let times = claim.expires.zip(self.clock.at(self.now));
        let margin = if self.rules.r2_clock_margin {
            CLOCK_MARGIN
        } else {
            0
        };
        times.is_some_and(|(expires, now)| now > expires.saturating_add(margin))
    }

    /// Deletes the intents of doubts that are to be settled, once the store's time is known where they depend on it.
    pub(super) fn withdraw(&mut self) -> Option<AskedEffect> {
        if self.rules.r2_no_zombies && self.settlements.iter().any(Settlement::needs_time) {
            return Some((Asked::Listing, Effect::ListIntents));
        }
        let mut names = Vec::new();
        let awaits = self.rules.r2_no_zombies;
        for settlement in &mut self.settlements {
            // One that may still arrive stays, and may land, while the outcome is pending.
            if settlement.stage == SettleStep::Delete && !(awaits && settlement.is_in_doubt()) {
                if settlement.claim.names.is_empty() {
                    settlement.stage = SettleStep::ReadTip;
                    self.view.fresh = false;
                } else {
                    names.extend(settlement.claim.names.iter().cloned());
                }
            }
        }
        if names.is_empty() {
            return None;
        }
        if self.must_replace(&names)
            && let Some(step) = self.announce()
        {
            return Some(step);
        }
        let asked = Asked::Deletion(names.clone());
        if self.rules.r2_withdrawn_for_good {
            Some((asked, Effect::WithdrawIntents(names)))
        } else {
            Some((asked, Effect::DeleteIntents(names)))
        }
    }

    /// Marks live members whose intents are about to be deleted, and returns true if any must be announced. They are
    /// announced in another intent first, to keep their place.
    fn must_replace(&mut self, names: &[String]) -> bool {
        let mut found = false;
        for member in &mut self.bundle {
            let last = member.claim.names.last();
            member.must_announce |= last.is_some_and(|name| names.contains(name));
            found |= member.must_announce;
        }
        found
    }

    pub(super) fn on_deleted(&mut self, names: &[String]) {
        let awaits = self.rules.r2_no_zombies;
        for settlement in &mut self.settlements {
            let deleted = settlement.claim.names.iter().all(|name| names.contains(name));
            // Of one that may still arrive, this deletion was not the last.
            if settlement.stage == SettleStep::Delete && deleted && !(awaits && settlement.is_in_doubt()) {
                settlement.stage = SettleStep::ReadTip;
                // The tip must be read after the deletion.
                self.view.fresh = false;
            }
        }
        if !self.settlements.is_empty() {
            self.gathered = None;
        }
    }

    pub(super) fn give_up_settling(&mut self, id: MemberId) -> Option<Verdict> {
        if let Some(at) = self.settlements.iter().position(|s| s.id == id) {
            let settlement = self.settlements.remove(at);
            return Some(self.settled(&settlement, Outcome::Pending));
        }
        let at = self.landed.iter().position(|(landed, ..)| *landed == id)?;
        let (_, version, own, claim) = self.landed.remove(at);
        if !own {
            return Some(Verdict::Settled(Outcome::Pending));
        }
        let claim = Claim {
            attempted: Some(version),
            ..claim
        };
        Some(Verdict::Commit(Err(CommitError::Unknown {
            token: Box::new(self.token_of(id, &claim, version)),
            reason: format!("it is in version {version}, which may not survive a crash"),
        })))
    }

    pub(super) fn token_of(&self, id: MemberId, claim: &Claim, checked: Version) -> Token {
        claim.token(&self.view.world.table_id, id, checked)
    }
}
