//! Changes of rows that meet in one process share a version.
//!
//! The first one commits in its own thread. Those that come meanwhile wait. A thread of the table then takes those of
//! them that depend on nothing of each other, and commits them as one transaction, until none waits. After a conflict
//! it tries the halves, each by itself: so each change has the verdict that it would have alone.
//!
//! A change whose caller stops waiting leaves. If no version may hold it, the others are tried again without it. If
//! one may, it is in doubt, and the doubt is settled for the others.

use std::collections::VecDeque;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use delta_commit::{CommitError, Transaction, Version, WaitLimit};

use crate::commit_waiter::{CommitWaiter, LONG, answer_all, part_with, serve_until, settle};
use crate::error::{Result, TableError};
use crate::row_merge::RowMerge;
use crate::table::{SharedTable, lock};

use super::united::{Joined, united};

/// The most changes of one version. Each is compared with each other.
const MOST: usize = 64;

/// The most waiting changes that are looked at for one version.
const MOST_SEEN: usize = 2 * MOST;

/// The most actions of a version that changes share.
const MOST_ACTIONS: usize = 5_000;

/// A change that waits for its version.
struct WaitingChange {
    change: Joined,
    /// True if its own thread has to commit it.
    is_alone: AtomicBool,
    waiter: CommitWaiter,
}

impl Deref for WaitingChange {
    type Target = CommitWaiter;

    fn deref(&self) -> &CommitWaiter {
        &self.waiter
    }
}

impl WaitingChange {
    fn new(transaction: Transaction, merge: &Arc<RowMerge>) -> Arc<Self> {
        Arc::new(Self {
            change: Joined::new(transaction, Arc::clone(merge)),
            is_alone: AtomicBool::new(false),
            waiter: CommitWaiter::default(),
        })
    }

    fn transaction(&self) -> &Transaction {
        &self.change.transaction
    }

    /// Leaves the commit to the change's own thread.
    fn send_back(&self) {
        self.is_alone.store(true, Ordering::Release);
        self.answer(Err(CommitError::DeadlinePassed.into()));
    }
}

/// The queue of a table's changes.
#[derive(Default)]
pub(crate) struct ChangeQueue(Mutex<ChangeQueueState>);

#[derive(Default)]
struct ChangeQueueState {
    waiting: VecDeque<Arc<WaitingChange>>,
    /// True if a change is being committed, after which those that wait are served.
    is_served: bool,
}

impl ChangeQueue {
    /// The number of changes that wait.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        lock(&self.0).waiting.len()
    }

    /// Takes the first waiting change, and those that can share a version with it. None when the queue is empty; the
    /// thread ends then.
    fn next(&self) -> Option<Vec<Arc<WaitingChange>>> {
        let mut queue = lock(&self.0);
        let Some(first) = queue.waiting.pop_front() else {
            queue.is_served = false;
            return None;
        };
        let mut actions = first.transaction().actions.len();
        let mut members = vec![first];
        let seen = queue.waiting.len().min(MOST_SEEN);
        let mut left = VecDeque::new();
        for member in queue.waiting.drain(..seen) {
            let more = actions + member.transaction().actions.len();
            let fits = members.len() < MOST && more <= MOST_ACTIONS;
            if fits
                && members
                    .iter()
                    .all(|other| member.change.commutes_with(&other.change))
            {
                actions = more;
                members.push(member);
            } else {
                left.push_back(member);
            }
        }
        left.append(&mut queue.waiting);
        queue.waiting = left;
        Some(members)
    }
}

/// The turn to commit. When it is dropped, those that wait are served.
struct Leading<'a>(&'a Arc<SharedTable>);

impl<'a> Leading<'a> {
    /// Takes the turn, unless another change has it. This one waits then, if it is given.
    fn take(shared: &'a Arc<SharedTable>, or_wait: Option<&Arc<WaitingChange>>) -> Option<Self> {
        let mut queue = lock(&shared.changes.0);
        if queue.is_served {
            queue.waiting.extend(or_wait.cloned());
            return None;
        }
        queue.is_served = true;
        Some(Self(shared))
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        let mut queue = lock(&self.0.changes.0);
        if queue.waiting.is_empty() {
            queue.is_served = false;
            return;
        }
        let served = Arc::clone(self.0);
        let begun = thread::Builder::new()
            .name("spillway-share".to_owned())
            .spawn(move || serve(&served));
        if begun.is_err() {
            queue.is_served = false;
            for member in queue.waiting.drain(..) {
                member.send_back();
            }
        }
    }
}

/// Commits a change of rows, in one version with others that come meanwhile.
pub(super) fn commit(
    shared: &Arc<SharedTable>,
    transaction: Transaction,
    merge: &Arc<RowMerge>,
    wait: &mut WaitLimit<'_>,
) -> Result<Version> {
    if let Some(_turn) = Leading::take(shared, None) {
        return shared.commit(transaction, wait);
    }
    let member = WaitingChange::new(transaction, merge);
    if let Some(_turn) = Leading::take(shared, Some(&member)) {
        return shared.commit(member.transaction().clone(), wait);
    }
    let done = member.wait(wait).unwrap_or_else(|| leave(shared, &member));
    if member.is_alone.load(Ordering::Acquire) {
        return shared.commit(member.transaction().clone(), wait);
    }
    done
}

fn leave(shared: &SharedTable, member: &Arc<WaitingChange>) -> Result<Version> {
    let mut queue = lock(&shared.changes.0);
    let before = queue.waiting.len();
    queue.waiting.retain(|other| !Arc::ptr_eq(other, member));
    if queue.waiting.len() < before {
        return Err(CommitError::DeadlinePassed.into());
    }
    drop(queue);
    member.leave()
}

/// Commits what waits until nothing does.
fn serve(shared: &Arc<SharedTable>) {
    while let Some(members) = shared.changes.next() {
        let group = ChangeGroup { shared, members };
        // The panic was reported where it happened; those without an answer hear of it.
        let _ = catch_unwind(AssertUnwindSafe(|| group.commit()));
    }
}

/// Changes that are committed together.
struct ChangeGroup<'a> {
    shared: &'a Arc<SharedTable>,
    members: Vec<Arc<WaitingChange>>,
}

/// The next step after an attempt.
enum GroupOutcome {
    /// No version holds a member. Those without an answer must be tried again.
    Again,
    /// A member has a conflict.
    Halves,
    /// All have their answer.
    Nothing,
}

impl ChangeGroup<'_> {
    fn commit(&self) {
        let mut left = vec![self.members.clone()];
        while let Some(mut members) = left.pop() {
            members.retain(|member| !member.is_answered());
            if members.is_empty() {
                continue;
            }
            match self.attempt(&members) {
                GroupOutcome::Again => left.push(members),
                GroupOutcome::Halves => {
                    left.push(members.split_off(members.len() / 2));
                    left.push(members);
                }
                GroupOutcome::Nothing => {}
            }
        }
    }

    fn attempt(&self, members: &[Arc<WaitingChange>]) -> GroupOutcome {
        let someone_leaves = {
            let members = members.to_vec();
            move || members.iter().any(|member| member.is_leaving())
        };
        serve_until(someone_leaves.clone());
        let (transaction, merge) = if let [only] = members {
            (only.transaction().clone(), None)
        } else {
            let changes: Vec<&Joined> = members.iter().map(|member| &member.change).collect();
            match united(&self.shared.storage, &changes) {
                Ok((transaction, merge)) => (transaction, Some(merge)),
                Err(_) => return send_back(members),
            }
        };
        let all_stay = || !someone_leaves();
        let mut to_wait = &all_stay;
        let mut wait = WaitLimit::while_asked(Instant::now() + LONG, &mut to_wait);
        match self.shared.commit(transaction, &mut wait) {
            Ok(version) => {
                if merge.is_some() {
                    // The version has vectors of all of them.
                    for member in members {
                        member.change.merge.remove();
                    }
                }
                answer_all(members, || Ok(version));
                GroupOutcome::Nothing
            }
            Err(TableError::Commit(CommitError::Unknown { token, reason })) => {
                if !settle(self.shared, members, &token, &reason) {
                    return GroupOutcome::Nothing;
                }
                // No version holds it.
                take_back(merge.as_ref());
                GroupOutcome::Again
            }
            Err(error) => {
                take_back(merge.as_ref());
                if part_with(members, || CommitError::DeadlinePassed) {
                    return GroupOutcome::Again;
                }
                match (members, error) {
                    ([only], error) => {
                        only.answer(Err(error));
                        GroupOutcome::Nothing
                    }
                    (_, TableError::Commit(CommitError::Conflict(_))) => GroupOutcome::Halves,
                    _ => send_back(members),
                }
            }
        }
    }
}

impl Drop for ChangeGroup<'_> {
    fn drop(&mut self) {
        // All have their answer, but for a panic.
        for member in self.members.iter().filter(|member| !member.is_answered()) {
            member.lose();
        }
    }
}

/// Leaves each to its own thread.
fn send_back(members: &[Arc<WaitingChange>]) -> GroupOutcome {
    for member in members {
        member.send_back();
    }
    GroupOutcome::Nothing
}

/// Removes the vectors of a transaction of several, which no version holds.
fn take_back(merge: Option<&Arc<RowMerge>>) {
    if let Some(merge) = merge {
        merge.remove();
    }
}
