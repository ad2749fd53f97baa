//! R13: a version belongs to the table that its writer knows, and follows the version before it.
//!
//! A table may be deleted, restored from an older copy, or made again by others at any moment, in any order of its
//! objects. Numbers of versions do not show that: another table has the same ones. A store creates a version without
//! looking at the one before it, so this is looked at in two requests: before the attempt, so that as a rule nothing is
//! written to a foreign log; and after it, since the table may have changed in between.
//!
//! What is looked at is the last version that is *sure*. As versions never change, a version with the same body is of
//! the same table, and so is all that was read after it. The look must come after that reading. Where several versions
//! were read since, the one before the tip is looked up as well: a restore may have left a gap below it.

use super::{Asked, AskedEffect, Machine, Verdict, back_off};
use crate::error::CommitError;
use crate::log::{Effect, Version, VersionPresence};
use crate::settle::Outcome;
use crate::winner::Winner;

impl Machine {
    /// The look before an attempt, if the last one is too old.
    pub(super) fn check_before(&self) -> Option<AskedEffect> {
        let is_needed = self.view.tip >= 0 && !self.view.is_checked(self.now);
        (self.rules.r13_checked_before && is_needed).then(|| self.check())
    }

    /// The look before members of versions up to `last` are acknowledged.
    pub(super) fn check_after(&self, last: Version) -> Option<AskedEffect> {
        let is_needed = self.view.sure() < last;
        (self.rules.r13_checked_after && is_needed).then(|| self.check())
    }

    fn check(&self) -> AskedEffect {
        let (version, digest) = self.view.to_look_up();
        (Asked::Check, Effect::CheckVersion(version, digest))
    }

    pub(super) fn on_standing(&mut self, standing: VersionPresence) {
        if matches!(standing, VersionPresence::Same | VersionPresence::Checkpoint) {
            self.unfounded = false;
            self.view.confirm_table(self.asked_at);
            let sure = self.view.sure();
            self.unproven.take_if(|(version, _)| *version <= sure);
        } else if std::mem::replace(&mut self.unfounded, true) {
            self.unfounded = false;
            self.replaced = Some(self.loss(standing));
            if standing == VersionPresence::CleanedUp {
                // Readers begin after it, so no version is out of place.
                self.unproven = None;
            }
        } else {
            // The log may have been cleaned up, which shows when it is listed.
            if self.unproven.is_none() {
                self.view.doubt_tip();
            }
            self.pause = Some(back_off(0));
        }
    }

    /// The error for members of a table that is not there any more.
    fn loss(&self, standing: VersionPresence) -> CommitError {
        let (version, _) = self.view.to_look_up();
        if standing == VersionPresence::CleanedUp {
            return CommitError::LogTruncated(version);
        }
        CommitError::Replaced(version)
    }

    /// Notes the body of an attempt.
    pub(super) fn note_attempt(&mut self, winner: &Winner) {
        let Some(digest) = winner.digest else {
            return;
        };
        match &mut self.unproven {
            Some((version, digests)) if *version == winner.version => digests.push(digest),
            unproven => *unproven = Some((winner.version, vec![digest])),
        }
    }

    /// Forgets the attempts at a version that another process created.
    pub(super) fn see_attempt(&mut self, winner: &Winner) {
        self.unproven.take_if(|(version, digests)| {
            *version <= winner.version && winner.digest.is_none_or(|digest| !digests.contains(&digest))
        });
    }

    /// Removes the version that this process may have created in the log of another table.
    pub(super) fn retract(&mut self) -> Option<AskedEffect> {
        if !self.rules.r13_retracted {
            return None;
        }
        if let Some(milliseconds) = self.pause.take() {
            return Some((Asked::Pause, Effect::Pause(milliseconds)));
        }
        let (version, digests) = self.unproven.clone()?;
        Some((
            Asked::Retraction(version),
            Effect::RetractVersion(version, digests),
        ))
    }

    pub(super) fn on_retracted(&mut self, version: Version, is_done: bool) {
        let attempts = self.unproven.take().map_or(0, |(_, digests)| digests.len());
        // Of several attempts, another one may still arrive.
        self.retracted = (is_done && attempts == 1).then_some(version);
    }

    /// Ends all members. None of them is acknowledged, and it is certain that one is in no version only where its last
    /// attempt was taken back, and it was not announced.
    pub(super) fn give_up_replaced(&mut self, error: &CommitError) {
        let reason = error.to_string();
        let retracted = self.retracted;
        self.outdated = true;
        // The version that used them up is not there.
        self.garbage.clear();
        let sure = self.view.sure();
        let unsure = self.landed.extract_if(.., |(_, version, ..)| *version > sure);
        let unsure: Vec<_> = unsure.collect();
        for (id, version, own, mut claim) in unsure {
            claim.attempted = Some(version).filter(|version| retracted != Some(*version));
            let verdict = if !own {
                Verdict::Settled(Outcome::Pending)
            } else if claim.is_clear(sure) {
                Verdict::Commit(Err(error.clone()))
            } else {
                Verdict::Commit(Err(CommitError::Unknown {
                    token: Box::new(self.token_of(id, &claim, sure)),
                    reason: reason.clone(),
                }))
            };
            self.verdicts.push((id, verdict));
        }
        for member in self.bundle.iter_mut().chain(&mut self.other) {
            member.claim.attempted = member.claim.attempted.filter(|at| retracted != Some(*at));
        }
        self.give_up_all(error, &reason);
    }
}
