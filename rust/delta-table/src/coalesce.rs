//! Coalescing appends: commits that meet in one process share files and a transaction, one file per partition.
//!
//! Each append keeps its rows until its commit and queues them then. A thread of the table takes all queued rows,
//! writes their files and commits them as one transaction. An append whose caller stops waiting leaves. Before its rows
//! are taken, it leaves at once. Afterwards the thread drops the shared files and writes them again without its rows;
//! or, when the commit was tried already, it reports the append in doubt and settles the doubt for the others.

use std::cell::Cell;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use arrow_schema::SchemaRef;
use delta_commit::{CommitError, Version, WaitLimit};
use parquet_writer::WriterOptions;

use crate::append::{Append, AppendBasis, AppendOptions};
use crate::buffered_rows::{BufferedRows, joined};
use crate::commit_waiter::{self, CommitWaiter, LONG, WaiterCallback, answer_all, part_with, serve_until};
use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::table::{SharedTable, lock};

/// The properties that appends must have in common to share files.
pub(crate) struct Terms {
    pub head: Arc<TableHead>,
    pub read_version: Version,
    pub schema: SchemaRef,
    pub options: AppendOptions,
    pub writer_options: WriterOptions,
}

impl Terms {
    fn are_those_of(&self, other: &Self) -> bool {
        self.head.metadata.id == other.head.metadata.id
            && self.head.changed_in == other.head.changed_in
            && self.schema == other.schema
            && self.options == other.options
            && self.writer_options == other.writer_options
    }

    /// The append of the shared files.
    fn begin(&self, shared: &Arc<SharedTable>) -> Result<Append> {
        let (head, version) = shared.base(&mut shared.looking())?;
        let is_same = head.metadata.id == self.head.metadata.id && head.changed_in == self.head.changed_in;
        // Where the table was changed meanwhile, the commit finds that out.
        let (head, version) = if is_same {
            (head, version)
        } else {
            (Arc::clone(&self.head), self.read_version)
        };
        let options = AppendOptions {
            coalesce: false,
            ..self.options.clone()
        };
        let basis = AppendBasis::blind(head, version);
        Append::begin(Arc::clone(shared), basis, options, self.writer_options.clone())
    }
}

/// An append that has handed in its rows.
struct WaitingAppend {
    terms: Terms,
    rows: BufferedRows,
    /// True if it must be written by itself, because a member of its last bundle could not be written.
    is_alone: AtomicBool,
    waiter: CommitWaiter,
}

impl Deref for WaitingAppend {
    type Target = CommitWaiter;

    fn deref(&self) -> &CommitWaiter {
        &self.waiter
    }
}

impl WaitingAppend {
    fn shares_with(&self, other: &Self) -> bool {
        let is_alone = |member: &Self| member.is_alone.load(Ordering::Acquire);
        !is_alone(self) && !is_alone(other) && self.terms.are_those_of(&other.terms)
    }
}

/// The queue of a table's coalescing appends.
#[derive(Default)]
pub(crate) struct AppendQueue(Mutex<AppendQueueState>);

#[derive(Default)]
struct AppendQueueState {
    waiting: Vec<Arc<WaitingAppend>>,
    is_served: bool,
}

/// Commits buffered rows together with those of other appends that come meanwhile. Returns the rows if no thread can be
/// started for that; the append then writes files of its own.
pub(crate) fn commit(
    shared: &Arc<SharedTable>,
    terms: Terms,
    buffered: BufferedRows,
    wait: &mut WaitLimit<'_>,
) -> Result<Result<Version>, BufferedRows> {
    if wait.left().is_none() {
        return Ok(Err(CommitError::DeadlinePassed.into()));
    }
    let member = hand_in(shared, terms, buffered, None)?;
    Ok(member.wait(wait).unwrap_or_else(|| leave(shared, &member)))
}

/// Commits buffered rows likewise, without a thread that waits: the result is for `reply`. Returns the rows if no
/// thread can be started.
pub(crate) fn post(
    shared: &Arc<SharedTable>,
    terms: Terms,
    buffered: BufferedRows,
    reply: WaiterCallback,
) -> Result<Queued, BufferedRows> {
    let member = hand_in(shared, terms, buffered, Some(reply))?;
    Ok(Queued {
        shared: Arc::clone(shared),
        member,
    })
}

/// An append that no thread waits for.
pub(crate) struct Queued {
    shared: Arc<SharedTable>,
    member: Arc<WaitingAppend>,
}

impl Queued {
    /// Ends the wait: the reply comes as soon as it is certain what became of the rows.
    pub fn leave(&self) {
        if withdraw(&self.shared, &self.member) {
            self.member.answer(Err(CommitError::DeadlinePassed.into()));
        } else {
            self.member.begin_to_leave();
        }
    }
}

/// Queues an append, and starts a thread for the queue if there is none.
fn hand_in(
    shared: &Arc<SharedTable>,
    terms: Terms,
    buffered: BufferedRows,
    reply: Option<WaiterCallback>,
) -> Result<Arc<WaitingAppend>, BufferedRows> {
    let mut queue = lock(&shared.pool.0);
    if !queue.is_served {
        let served = Arc::clone(shared);
        let begun = thread::Builder::new()
            .name("spillway-coalesce".to_owned())
            .spawn(move || serve(&served));
        if begun.is_err() {
            return Err(buffered);
        }
        queue.is_served = true;
    }
    let member = Arc::new(WaitingAppend {
        terms,
        rows: buffered,
        is_alone: AtomicBool::new(false),
        waiter: CommitWaiter::new(reply),
    });
    queue.waiting.push(Arc::clone(&member));
    Ok(member)
}

/// Takes an append out of the queue. Returns false if its rows were taken before.
fn withdraw(shared: &SharedTable, member: &Arc<WaitingAppend>) -> bool {
    let mut queue = lock(&shared.pool.0);
    let before = queue.waiting.len();
    queue.waiting.retain(|other| !Arc::ptr_eq(other, member));
    queue.waiting.len() < before
}

fn leave(shared: &SharedTable, member: &Arc<WaitingAppend>) -> Result<Version> {
    if withdraw(shared, member) {
        return Err(CommitError::DeadlinePassed.into());
    }
    member.leave()
}

/// Commits what waits until nothing does.
fn serve(shared: &Arc<SharedTable>) {
    while let Some(members) = shared.pool.next() {
        let mut bundle = Bundle {
            shared,
            members,
            is_tried: Cell::new(false),
        };
        let done = catch_unwind(AssertUnwindSafe(|| bundle.commit()));
        // Somebody's rows did that: the others are written without them.
        if done.is_err() && !bundle.is_tried.get() && bundle.members.len() > 1 {
            bundle.separate();
        }
    }
}

impl AppendQueue {
    /// Takes the first waiting append and all that can share files with it. None when the queue is empty; the thread
    /// ends then.
    fn next(&self) -> Option<Vec<Arc<WaitingAppend>>> {
        let mut queue = lock(&self.0);
        let waiting = std::mem::take(&mut queue.waiting);
        let Some(first) = waiting.first().cloned() else {
            queue.is_served = false;
            return None;
        };
        let (members, others) = waiting
            .into_iter()
            .partition(|member| Arc::ptr_eq(member, &first) || first.shares_with(member));
        queue.waiting = others;
        Some(members)
    }
}

/// Appends that are written together.
struct Bundle<'a> {
    shared: &'a Arc<SharedTable>,
    /// Those without an answer.
    members: Vec<Arc<WaitingAppend>>,
    /// True if their transaction may be in the table.
    is_tried: Cell<bool>,
}

/// The next step after an attempt.
enum BundleOutcome {
    /// No row is in the table. The members without an answer must be tried again.
    Again,
    /// One member makes the others fail.
    Alone(TableError),
    /// All have their answer.
    Nothing,
}

impl Bundle<'_> {
    fn commit(&mut self) {
        while !self.members.is_empty() {
            self.is_tried.set(false);
            let next = self.attempt();
            self.members.retain(|member| !member.is_answered());
            match (next, self.members.as_slice()) {
                (BundleOutcome::Alone(error), [only]) => only.answer(Err(error)),
                (BundleOutcome::Alone(_), _) => self.separate(),
                _ => {}
            }
            self.members.retain(|member| !member.is_answered());
        }
    }

    /// Puts all members back at the head of the queue, each to be written alone.
    fn separate(&mut self) {
        part_with(&self.members, || CommitError::DeadlinePassed);
        let mut queue = lock(&self.shared.pool.0);
        let mut members = std::mem::take(&mut self.members);
        members.retain(|member| !member.is_answered());
        for member in &members {
            member.is_alone.store(true, Ordering::Release);
        }
        members.append(&mut queue.waiting);
        queue.waiting = members;
    }

    fn attempt(&self) -> BundleOutcome {
        let Some(first) = self.members.first() else {
            return BundleOutcome::Nothing;
        };
        let someone_leaves = {
            let members = self.members.clone();
            move || members.iter().any(|member| member.is_leaving())
        };
        serve_until(someone_leaves.clone());
        let begun = first.terms.begin(self.shared);
        let rows = joined(self.members.iter().map(|member| &member.rows));
        let (mut append, batches) = match begun.and_then(|append| Ok((append, rows?))) {
            Ok(begun) => begun,
            Err(error) => return self.without_leaving().unwrap_or(BundleOutcome::Alone(error)),
        };
        let all_stay = || !someone_leaves();
        for batch in &batches {
            if let Err(error) = append.write(batch, &mut { &all_stay }) {
                return self.without_leaving().unwrap_or(BundleOutcome::Alone(error));
            }
        }
        let deadline = Instant::now() + LONG;
        let (mut to_wait, mut to_write) = (&all_stay, &all_stay);
        let mut wait = WaitLimit::while_asked(deadline, &mut to_wait);
        match append.commit_noted(&mut wait, &mut to_write, &|| self.is_tried.set(true)) {
            Ok(version) => self.all(|| Ok(version)),
            Err(TableError::Commit(CommitError::Unknown { token, reason })) => {
                if commit_waiter::settle(self.shared, &self.members, &token, &reason) {
                    BundleOutcome::Again
                } else {
                    BundleOutcome::Nothing
                }
            }
            Err(error) => self.without_leaving().unwrap_or_else(|| self.refused(error)),
        }
    }

    /// Handles an error after which no row is in the table. An error of the commit is every member's.
    fn refused(&self, error: TableError) -> BundleOutcome {
        match error {
            TableError::Commit(error) => self.all(|| Err(error.clone().into())),
            error => BundleOutcome::Alone(error),
        }
    }

    /// Gives everybody the same answer.
    fn all(&self, result: impl Fn() -> Result<Version>) -> BundleOutcome {
        answer_all(&self.members, result);
        BundleOutcome::Nothing
    }

    /// Answers the members that no longer wait; none of their rows are in the table. Returns none when all still wait.
    fn without_leaving(&self) -> Option<BundleOutcome> {
        part_with(&self.members, || CommitError::DeadlinePassed).then_some(BundleOutcome::Again)
    }
}

impl Drop for Bundle<'_> {
    fn drop(&mut self) {
        // All have their answer, but for a panic.
        for member in self.members.iter().filter(|member| !member.is_answered()) {
            member.lose();
        }
    }
}

/// Refuses options that appends with shared files cannot have.
pub(crate) fn check(options: &AppendOptions) -> Result<()> {
    if !options.coalesce {
        return Ok(());
    }
    let refused = if options.app_transaction.is_some() {
        "app_id: each of its versions is a commit of its own"
    } else if options.replace.is_some() {
        "rows that it replaces: they are one transaction alone"
    } else {
        return Ok(());
    };
    Err(TableError::option(
        "coalesce",
        format!("coalesce=True is not accepted with {refused}"),
    ))
}
