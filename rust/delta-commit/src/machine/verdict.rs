//! The verdicts on members: found in the log, in conflict with it, or in doubt.

use super::member::{Member, Settlement};
use super::{Asked, AskedEffect, BatchKind, Machine, Verdict, merge};
use crate::conflict;
use crate::error::CommitError;
use crate::log::{Effect, Version};
use crate::path::normal;
use crate::settle::{Outcome, SettleStep};
use crate::transaction::MemberId;

/// The state of a member, as the log shows it.
enum Finding {
    Landed(Version),
    Refused(CommitError),
    /// A version that would tell is gone.
    Lost(Version),
}

impl Machine {
    /// Checks the own members against every version that they were not checked against: are they in it, or in conflict
    /// with it?
    pub(super) fn judge(&mut self) {
        let mut members = std::mem::take(&mut self.bundle);
        members.retain_mut(|member| self.keep(member));
        self.bundle = members;
        if let Some(mut member) = self.other.take()
            && self.keep(&mut member)
        {
            self.other = Some(member);
        }
        self.release();
    }

    /// Discards the own intents of members that have their verdict, unless another member is in them. Others' intents,
    /// of which a member was settled here, may have members that still wait.
    pub(super) fn release(&mut self) {
        for name in std::mem::take(&mut self.released) {
            let members = self.bundle.iter().map(|member| &member.claim);
            let mut claims = members.chain(self.settlements.iter().map(|settlement| &settlement.claim));
            if self.is_own(&name) && !claims.any(|claim| claim.names.contains(&name)) {
                self.discard(name);
            }
        }
    }

    fn keep(&mut self, member: &mut Member) -> bool {
        let finding = self.find(member);
        let tip = self.view.tip;
        if let Some(at) = member.claim.attempted.take_if(|at| *at <= tip) {
            if finding.is_none() {
                member.lost += 1;
                self.note_rival(at);
            }
            self.stats.most_lost = self.stats.most_lost.max(member.lost);
        }
        match finding {
            None => true,
            Some(Finding::Landed(version)) => {
                self.failures = 0;
                self.note_rival(version);
                let claim = member.claim.clone();
                // A process that carried it deletes its intent, too.
                if self.last_won == Some(version) {
                    self.released.append(&mut member.claim.names);
                }
                self.end_requests(member);
                self.landed.push((member.id(), version, true, claim));
                false
            }
            Some(Finding::Refused(error)) => {
                self.refuse(member, error);
                false
            }
            Some(Finding::Lost(version)) => {
                let error = CommitError::LogTruncated(version);
                self.give_up_member(member, &error, "a version that may hold it was cleaned up");
                false
            }
        }
    }

    /// Notes that another process that carries intents wrote this version, if one did.
    fn note_rival(&mut self, version: Version) {
        let carries = self
            .view
            .get(version)
            .is_some_and(|winner| !winner.members.is_empty());
        if carries && self.last_won != Some(version) {
            self.pace.meet(self.now);
        }
    }

    fn find(&self, member: &mut Member) -> Option<Finding> {
        let transaction = &member.prepared.transaction;
        while member.checked < self.view.tip {
            let version = member.checked + 1;
            let Some(winner) = self.view.get(version) else {
                return Some(Finding::Lost(version));
            };
            if winner.members.contains(&transaction.id) {
                return Some(Finding::Landed(version));
            }
            member.checked = version;
            let checked = conflict::check(transaction, winner);
            if let Err(conflict) = checked.and_then(|()| member.unread_appends.take(transaction, winner)) {
                return Some(Finding::Refused(CommitError::Conflict(conflict)));
            }
            member.theirs.extend(merge::marked(transaction, winner));
            if self.rules.r4_no_doubles
                && transaction.is_blind_append()
                && let Some(path) = transaction
                    .added_paths()
                    .find(|path| winner.added_paths.contains(normal(path).as_ref()))
            {
                return Some(Finding::Refused(CommitError::DuplicateFile {
                    path: path.to_owned(),
                    version: Some(version),
                }));
            }
        }
        None
    }

    /// R11: refuses the transaction in flight if no order holds it and the appends that it missed. The tip was just
    /// read: a version may end the conflict with one before it.
    pub(super) fn check_order(&mut self) {
        if let Some(mut member) = self.other.take_if(|_| self.rules.r11_one_order) {
            match member.unread_appends.check(&member.prepared.transaction) {
                Ok(()) => self.other = Some(member),
                Err(conflict) => self.refuse(&mut member, CommitError::Conflict(conflict)),
            }
        }
    }

    /// R3: refuses a member for good only when no process can land it any more.
    pub(super) fn refuse(&mut self, member: &mut Member, error: CommitError) {
        self.end_requests(member);
        if !self.rules.r3_no_lone_abort || member.claim.is_clear(self.view.tip) {
            self.released.append(&mut member.claim.names);
            self.verdicts.push((member.id(), Verdict::Commit(Err(error))));
            return;
        }
        self.settlements.push(Settlement {
            id: member.id(),
            claim: std::mem::take(&mut member.claim),
            checked: member.checked,
            stage: SettleStep::Delete,
            reason: Some(error),
            knows_time: false,
        });
    }

    /// Makes versions survive a crash, and then acknowledges their members.
    pub(super) fn acknowledge(&mut self) -> Option<AskedEffect> {
        let last = self.landed.iter().map(|(_, version, ..)| *version).max()?;
        if let Some(step) = self.check_after(last).or_else(|| self.sync_to(last)) {
            return Some(step);
        }
        for (id, version, own, _) in std::mem::take(&mut self.landed) {
            let verdict = if own {
                Verdict::Commit(Ok(version))
            } else {
                Verdict::Settled(Outcome::Committed(version))
            };
            self.verdicts.push((id, verdict));
        }
        None
    }

    pub(super) fn sync_to(&self, last: Version) -> Option<AskedEffect> {
        let first = (self.view.synced + 1).max(0);
        (self.rules.r8_durable_first && first <= last).then(|| {
            // A committer syncs the body of a version before it is there. Nobody knows that of other writers.
            let is_synced = |version: &Version| self.view.get(*version).is_some_and(|found| found.is_ours());
            let first = (first..=last).find(|version| !is_synced(version));
            let first = first.unwrap_or(last + 1);
            (Asked::Log(last), Effect::SyncLog(first, last))
        })
    }

    /// Stops trying for a member whose caller no longer waits, and returns what is certain of it.
    ///
    /// None when its verdict was taken already, or it never came.
    pub fn give_up(&mut self, id: MemberId) -> Option<Verdict> {
        // Between the end of an effect and the next step, a verdict may be there that nobody has taken.
        if let Some(at) = self.verdicts.iter().position(|(told, _)| *told == id) {
            return Some(self.verdicts.remove(at).1);
        }
        for queue in [&mut self.waiting_blind, &mut self.waiting_other] {
            if let Some(at) = queue.iter().position(|member| member.id() == id) {
                queue.remove(at);
                return Some(Verdict::Commit(Err(CommitError::DeadlinePassed)));
            }
        }
        let in_bundle = self.bundle.iter().position(|member| member.id() == id);
        let member = match in_bundle {
            Some(at) => Some(self.bundle.remove(at)),
            None => self.other.take_if(|member| member.id() == id),
        };
        if let Some(member) = member {
            self.end_requests(&member);
            return Some(Verdict::Commit(Err(self.last_word(
                &member,
                &CommitError::DeadlinePassed,
                "the deadline passed",
            ))));
        }
        self.give_up_settling(id)
    }

    pub(super) fn last_word(&self, member: &Member, certain: &CommitError, reason: &str) -> CommitError {
        if !self.rules.r3_no_lone_abort || member.claim.is_clear(member.checked) {
            return certain.clone();
        }
        CommitError::Unknown {
            token: Box::new(self.token_of(member.id(), &member.claim, member.checked)),
            reason: reason.to_owned(),
        }
    }

    pub(super) fn give_up_member(&mut self, member: &Member, certain: &CommitError, reason: &str) {
        self.end_requests(member);
        let error = self.last_word(member, certain, reason);
        self.verdicts.push((member.id(), Verdict::Commit(Err(error))));
    }

    /// Ends all members when nothing more can be done: each gets the verdict that is certain of it.
    pub(super) fn give_up_all(&mut self, certain: &CommitError, reason: &str) {
        let mut waiting = std::mem::take(&mut self.waiting_blind);
        waiting.append(&mut self.waiting_other);
        self.give_up_each(waiting, certain, reason);
        self.give_up_in_flight(certain, reason);
    }

    /// Ends all members in flight likewise. Waiting ones are tried next.
    fn give_up_in_flight(&mut self, certain: &CommitError, reason: &str) {
        self.give_up_blind(certain, reason);
        let other = self.other.take();
        self.give_up_each(other, certain, reason);
        let landed = self.landed.iter().map(|(id, ..)| *id).collect();
        self.give_up_settlements(landed);
    }

    /// Ends the members in flight with blind appends likewise.
    fn give_up_blind(&mut self, certain: &CommitError, reason: &str) {
        let bundle = std::mem::take(&mut self.bundle);
        self.give_up_each(bundle, certain, reason);
        let settlements = self.settlements.iter().map(|s| s.id).collect();
        self.give_up_settlements(settlements);
        self.gathered = None;
    }

    fn give_up_each(
        &mut self,
        members: impl IntoIterator<Item = Member>,
        certain: &CommitError,
        reason: &str,
    ) {
        for member in members {
            self.give_up_member(&member, certain, reason);
        }
    }

    fn give_up_settlements(&mut self, ids: Vec<MemberId>) {
        for id in ids {
            if let Some(verdict) = self.give_up_settling(id) {
                self.verdicts.push((id, verdict));
            }
        }
    }

    /// Ends the members that a failed effect was for, each with the verdict that is certain of it. The others go on.
    pub(super) fn give_up_concerned(&mut self, asked: &Asked, certain: &CommitError, reason: &str) {
        match asked {
            Asked::Announcement(_, ids) => {
                let announced = self.bundle.extract_if(.., |member| ids.contains(&member.id()));
                let announced: Vec<Member> = announced.collect();
                self.give_up_each(announced, certain, reason);
            }
            Asked::Merge(_) => {
                let other = self.other.take();
                self.give_up_each(other, certain, reason);
            }
            Asked::Put(..) if self.last_kind == BatchKind::Other => {
                let other = self.other.take();
                self.give_up_each(other, certain, reason);
            }
            Asked::Put(..) | Asked::Listing | Asked::Intents => self.give_up_blind(certain, reason),
            Asked::Deletion(_) => {
                let settlements = self.settlements.iter().map(|s| s.id).collect();
                self.give_up_settlements(settlements);
            }
            _ => self.give_up_in_flight(certain, reason),
        }
    }
}
