//! Group commit above the committer: requests of one kind that meet in one process become one transaction.
//!
//! A caller that meets no other commits by itself. A thread of the table takes the requests that came meanwhile, as
//! many as can share a version, and commits them, until none waits. How they become one transaction is said by
//! [`Grouped`]: appends share files, changes of rows share deletion vectors. Where that fails for one of them, they are
//! tried again in smaller groups, so that each has the result that it would have alone.
//!
//! A caller that stops waiting leaves: at once while its request waits. If no version may hold the transaction, the
//! others are tried again without it. If one may, the outcome is unknown, and is settled for the others.

#[cfg(test)]
mod tests;
mod waiter;

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use delta_commit::{CommitError, Version, WaitLimit, serve_until};
use parquet_writer::WriteError;

use crate::error::{Result, TableError};
use crate::table::{SharedTable, lock};

pub(crate) use waiter::WaiterCallback;
use waiter::{CommitWaiter, Settled, answer_all, part_with, settle};

/// Longer than any commit takes. Waiting callers have deadlines of their own.
const LONG: Duration = Duration::from_secs(24 * 60 * 60);

/// A request for a commit that others may share.
pub(crate) trait Grouped: Send + Sync + Sized + 'static {
    /// The name of the thread that commits.
    const THREAD: &'static str;

    /// The most waiting requests that are looked at for one version.
    const MOST_SEEN: usize;

    /// The transaction of a group, with what was written for it.
    type United;

    /// The table's queue of such requests.
    fn queue(shared: &SharedTable) -> &GroupQueue<Self>;

    /// Returns true if this request can share a version with all of a group, which is not empty.
    fn joins(&self, group: &[Arc<GroupMember<Self>>]) -> bool;

    /// Writes what the transaction of a group needs.
    ///
    /// # Errors
    /// Those of the files. Nothing that was written stays.
    fn unite(
        shared: &Arc<SharedTable>,
        group: &[Arc<GroupMember<Self>>],
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Self::United>;

    /// Commits the transaction, and calls `tries` once a version may hold it from then on.
    ///
    /// # Errors
    /// After every error but [`CommitError::Unknown`], no version holds it.
    fn commit(
        united: &mut Self::United,
        shared: &Arc<SharedTable>,
        wait: &mut WaitLimit<'_>,
        go_on: &mut dyn FnMut() -> bool,
        tries: &dyn Fn(),
    ) -> Result<Version>;

    /// Removes what a version with all of the group does not need.
    fn committed(_: Self::United, _group: &[Arc<GroupMember<Self>>]) {}

    /// Removes what was written for a transaction that no version holds.
    fn rejected(_: Self::United) {}

    /// Returns how a group is tried again whose commit failed; none where the error is that of each of them.
    fn split(error: &CommitError) -> Option<Split>;
}

/// How a group is tried again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Split {
    /// One half after the other. A few of many were refused.
    Halves,
    /// Each by itself.
    Each,
}

/// A request that waits for its version.
pub(crate) struct GroupMember<G> {
    pub request: G,
    /// True if its caller must commit it, since no thread can be started.
    is_alone: AtomicBool,
    waiter: CommitWaiter,
}

impl<G> GroupMember<G> {
    fn new(request: G, reply: Option<WaiterCallback>) -> Arc<Self> {
        Arc::new(Self {
            request,
            is_alone: AtomicBool::new(false),
            waiter: CommitWaiter::new(reply),
        })
    }

    /// Leaves the commit to the caller. One that does not wait gets the error.
    fn send_back(&self, error: &io::Error) {
        self.is_alone.store(true, Ordering::Release);
        let source = io::Error::from(error.kind());
        self.answer(Err(WriteError::Io { path: None, source }.into()));
    }
}

impl<G> Deref for GroupMember<G> {
    type Target = CommitWaiter;

    fn deref(&self) -> &CommitWaiter {
        &self.waiter
    }
}

/// The requests of one kind that wait for their versions.
pub(crate) struct GroupQueue<G>(Mutex<GroupQueueState<G>>);

struct GroupQueueState<G> {
    waiting: VecDeque<Arc<GroupMember<G>>>,
    /// Groups that are tried again as they are, the next one last.
    again: Vec<Vec<Arc<GroupMember<G>>>>,
    /// True if a caller commits by itself, or a thread commits what waits.
    is_served: bool,
}

impl<G> Default for GroupQueue<G> {
    fn default() -> Self {
        Self(Mutex::new(GroupQueueState {
            waiting: VecDeque::new(),
            again: Vec::new(),
            is_served: false,
        }))
    }
}

/// The turn of a caller that commits by itself. When it is dropped, a thread commits what came meanwhile.
struct GroupLead<G: Grouped>(Arc<SharedTable>, PhantomData<G>);

impl<G: Grouped> Drop for GroupLead<G> {
    fn drop(&mut self) {
        let mut queue = lock(&G::queue(&self.0).0);
        if queue.waiting.is_empty() {
            queue.is_served = false;
        } else if let Err(error) = start::<G>(&self.0) {
            queue.is_served = false;
            for member in queue.waiting.drain(..) {
                member.send_back(&error);
            }
        }
    }
}

/// A request that its caller commits by itself.
pub(crate) struct Alone<G: Grouped> {
    member: Arc<GroupMember<G>>,
    /// None where others do so at the same time, since no thread can be started.
    _lead: Option<GroupLead<G>>,
}

impl<G: Grouped> Deref for Alone<G> {
    type Target = G;

    fn deref(&self) -> &G {
        &self.member.request
    }
}

/// Commits a request together with others that come meanwhile. Returns it if it is the first: its caller commits it,
/// and holds it until that is done.
pub(crate) fn commit<G: Grouped>(
    shared: &Arc<SharedTable>,
    request: G,
    wait: &mut WaitLimit<'_>,
) -> Result<Result<Version>, Alone<G>> {
    if wait.left().is_none() {
        return Ok(Err(CommitError::DeadlinePassed.into()));
    }
    let member = GroupMember::new(request, None);
    let mut queue = lock(&G::queue(shared).0);
    if !queue.is_served {
        queue.is_served = true;
        let lead = Some(GroupLead(Arc::clone(shared), PhantomData));
        return Err(Alone { member, _lead: lead });
    }
    queue.waiting.push_back(Arc::clone(&member));
    drop(queue);
    let done = member.wait(wait).unwrap_or_else(|| {
        if G::queue(shared).withdraw(&member) {
            return Err(CommitError::DeadlinePassed.into());
        }
        member.leave()
    });
    if member.is_alone.load(Ordering::Acquire) {
        return Err(Alone { member, _lead: None });
    }
    Ok(done)
}

/// Commits a request likewise, without a thread that waits: the result is for `reply`. Returns it if no thread can be
/// started.
pub(crate) fn post<G: Grouped>(
    shared: &Arc<SharedTable>,
    request: G,
    reply: WaiterCallback,
) -> Result<Queued<G>, G> {
    let mut queue = lock(&G::queue(shared).0);
    if !queue.is_served {
        if start::<G>(shared).is_err() {
            return Err(request);
        }
        queue.is_served = true;
    }
    let member = GroupMember::new(request, Some(reply));
    queue.waiting.push_back(Arc::clone(&member));
    Ok(Queued {
        shared: Arc::clone(shared),
        member,
    })
}

/// Starts the thread that commits what waits.
fn start<G: Grouped>(shared: &Arc<SharedTable>) -> io::Result<()> {
    let served = Arc::clone(shared);
    let begun = thread::Builder::new().name(G::THREAD.to_owned());
    begun.spawn(move || serve::<G>(&served)).map(drop)
}

/// A request that no thread waits for.
pub(crate) struct Queued<G> {
    shared: Arc<SharedTable>,
    member: Arc<GroupMember<G>>,
}

impl<G: Grouped> Queued<G> {
    /// Ends the wait: the reply comes as soon as it is certain what became of the request.
    pub fn leave(&self) {
        if G::queue(&self.shared).withdraw(&self.member) {
            self.member.answer(Err(CommitError::DeadlinePassed.into()));
        } else {
            self.member.begin_to_leave();
        }
    }
}

impl<G: Grouped> GroupQueue<G> {
    /// The number of requests that wait.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        lock(&self.0).waiting.len()
    }

    /// Takes a request out. Returns false if it was taken before.
    fn withdraw(&self, member: &Arc<GroupMember<G>>) -> bool {
        let mut queue = lock(&self.0);
        let mut is_found = false;
        let mut stays = |other: &Arc<GroupMember<G>>| {
            let is_it = Arc::ptr_eq(other, member);
            is_found |= is_it;
            !is_it
        };
        queue.waiting.retain(&mut stays);
        queue.again.iter_mut().for_each(|group| group.retain(&mut stays));
        is_found
    }

    /// Takes the next group. None when the queue is empty; the thread ends then.
    fn next(&self) -> Option<Vec<Arc<GroupMember<G>>>> {
        let mut queue = lock(&self.0);
        while let Some(group) = queue.again.pop() {
            if !group.is_empty() {
                return Some(group);
            }
        }
        let Some(first) = queue.waiting.pop_front() else {
            queue.is_served = false;
            return None;
        };
        let mut group = vec![first];
        let seen = queue.waiting.len().min(G::MOST_SEEN);
        let mut left = VecDeque::new();
        for member in queue.waiting.drain(..seen) {
            // A panic here must not lose those that wait: one that cannot be compared is committed by itself.
            let joins = catch_unwind(AssertUnwindSafe(|| member.request.joins(&group)));
            if joins.unwrap_or(false) {
                group.push(member);
            } else {
                left.push_back(member);
            }
        }
        left.append(&mut queue.waiting);
        queue.waiting = left;
        Some(group)
    }

    /// Puts the members without an answer back.
    fn put_back(&self, mut group: Vec<Arc<GroupMember<G>>>, next: NextAttempt) {
        group.retain(|member| !member.is_answered());
        let mut queue = lock(&self.0);
        match next {
            NextAttempt::None => {}
            NextAttempt::Together => queue.again.push(group),
            NextAttempt::Apart(Split::Halves) => {
                let second = group.split_off(group.len() / 2);
                queue.again.extend([second, group]);
            }
            NextAttempt::Apart(Split::Each) => {
                queue
                    .again
                    .extend(group.into_iter().rev().map(|member| vec![member]));
            }
        }
    }
}

/// Commits what waits until nothing does.
fn serve<G: Grouped>(shared: &Arc<SharedTable>) {
    let queue = G::queue(shared);
    while let Some(group) = queue.next() {
        let is_tried = Cell::new(false);
        let done = catch_unwind(AssertUnwindSafe(|| attempt(shared, &group, &is_tried)));
        // A panic was reported where it happened. It may be due to the data of one of them.
        let next = done.unwrap_or_else(|_| {
            if !is_tried.get() && group.len() > 1 {
                part_with(&group, || CommitError::DeadlinePassed);
                return NextAttempt::Apart(Split::Each);
            }
            for member in group.iter().filter(|member| !member.is_answered()) {
                member.lose();
            }
            NextAttempt::None
        });
        queue.put_back(group, next);
    }
}

/// The next step for the members of a group without an answer: no version holds them.
#[derive(Clone, Copy)]
enum NextAttempt {
    /// All have their answer.
    None,
    Together,
    Apart(Split),
}

fn attempt<G: Grouped>(
    shared: &Arc<SharedTable>,
    group: &[Arc<GroupMember<G>>],
    is_tried: &Cell<bool>,
) -> NextAttempt {
    let someone_leaves = {
        let group = group.to_vec();
        move || group.iter().any(|member| member.is_leaving())
    };
    serve_until(someone_leaves.clone());
    let all_stay = || !someone_leaves();
    let mut united = match G::unite(shared, group, &mut { &all_stay }) {
        Ok(united) => united,
        Err(error) => return failed(group, error),
    };
    let (mut to_wait, mut to_write) = (&all_stay, &all_stay);
    let mut wait = WaitLimit::while_asked(Instant::now() + LONG, &mut to_wait);
    match G::commit(&mut united, shared, &mut wait, &mut to_write, &|| {
        is_tried.set(true);
    }) {
        Ok(version) => {
            G::committed(united, group);
            answer_all(group, || Ok(version));
            NextAttempt::None
        }
        Err(TableError::Commit(CommitError::Unknown { token, reason })) => {
            match settle(shared, group, &token, &reason) {
                Settled::Committed => G::committed(united, group),
                Settled::Rejected => {
                    G::rejected(united);
                    return NextAttempt::Together;
                }
                Settled::Unknown => {}
            }
            NextAttempt::None
        }
        Err(error) => {
            G::rejected(united);
            failed(group, error)
        }
    }
}

/// Handles an error after which no version holds the group.
fn failed<G: Grouped>(group: &[Arc<GroupMember<G>>], error: TableError) -> NextAttempt {
    // Someone's leaving ends an attempt as well.
    if part_with(group, || CommitError::DeadlinePassed) {
        return NextAttempt::Together;
    }
    match (group, error) {
        ([only], error) => only.answer(Err(error)),
        (_, TableError::Commit(error)) => match G::split(&error) {
            Some(split) => return NextAttempt::Apart(split),
            None => answer_all(group, || Err(error.clone().into())),
        },
        _ => return NextAttempt::Apart(Split::Each),
    }
    NextAttempt::None
}
