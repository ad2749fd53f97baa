//! Coalescing appends: commits that meet in one process share files and a transaction, one file per partition.
//!
//! Each append keeps its rows until its commit and queues them then. A thread of the table takes all queued rows,
//! writes their files and commits them as one transaction. An append whose caller stops waiting leaves. Before its rows
//! are taken, it leaves at once. Afterwards the thread drops the shared files and writes them again without its rows;
//! or, when the commit was tried already, it reports the append in doubt and settles the doubt for the others.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use delta_commit::{CommitError, Outcome, Patience, Token, Version};
use parquet_writer::WriterOptions;

use crate::append::{Append, AppendOptions, Basis};
use crate::error::{Result, TableError};
use crate::head::Head;
use crate::kept::{Kept, joined};
use crate::table::{Shared, lock};

/// The longest time for which a commit in doubt is queried while callers wait. After a minute no process carries an
/// announcement any more.
const SETTLING: Duration = Duration::from_secs(90);

/// The pause after the first query. Each is twice as long as the one before, since each query deletes and lists.
const PAUSE: Duration = Duration::from_millis(100);

/// The longest pause between two queries.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Longer than any commit takes. Waiting callers have deadlines of their own.
const LONG: Duration = Duration::from_secs(24 * 60 * 60);

/// The properties that appends must have in common to share files.
pub(crate) struct Terms {
    pub head: Arc<Head>,
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
    fn begin(&self, shared: &Arc<Shared>) -> Result<Append> {
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
        let basis = Basis::blind(head, version);
        Append::begin(Arc::clone(shared), basis, options, self.writer_options.clone())
    }
}

/// An append that has handed in its rows.
struct Member {
    terms: Terms,
    rows: Kept,
    /// True if it must be written by itself, because a member of its last bundle could not be written.
    is_alone: AtomicBool,
    stage: Mutex<Stage>,
    bell: Condvar,
}

enum Stage {
    Waiting,
    /// It waits no longer than it must.
    Leaving,
    Done(Result<Version>),
    /// The thread that writes the rows panicked.
    Lost,
    /// It has heard.
    Answered,
}

impl Member {
    fn shares_with(&self, other: &Self) -> bool {
        let is_alone = |member: &Self| member.is_alone.load(Ordering::Acquire);
        !is_alone(self) && !is_alone(other) && self.terms.are_those_of(&other.terms)
    }

    fn answer(&self, result: Result<Version>) {
        self.set(Stage::Done(result));
    }

    fn set(&self, stage: Stage) {
        *lock(&self.stage) = stage;
        self.bell.notify_one();
    }

    fn is_leaving(&self) -> bool {
        matches!(*lock(&self.stage), Stage::Leaving)
    }

    fn is_answered(&self) -> bool {
        !matches!(*lock(&self.stage), Stage::Waiting | Stage::Leaving)
    }

    /// Waits for the result; none when the deadline passes before it.
    fn wait(&self, deadline: Option<Instant>) -> Option<Result<Version>> {
        let mut stage = lock(&self.stage);
        loop {
            match std::mem::replace(&mut *stage, Stage::Answered) {
                Stage::Done(result) => return Some(result),
                // As if it had been written by the thread that waits; the panic was reported where it happened.
                Stage::Lost => std::panic::resume_unwind(Box::new("the thread that wrote the rows panicked")),
                other => *stage = other,
            }
            stage = match deadline {
                None => self.bell.wait(stage).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    self.bell
                        .wait_timeout(stage, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
    }
}

/// The queue of a table's coalescing appends.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    waiting: Vec<Arc<Member>>,
    is_served: bool,
}

/// Commits kept rows together with those of other appends that come meanwhile. Returns the rows if no thread can be
/// started for that; the append then writes files of its own.
pub(crate) fn commit(
    shared: &Arc<Shared>,
    terms: Terms,
    kept: Kept,
    patience: &mut Patience<'_>,
) -> Result<Result<Version>, Kept> {
    if patience.left().is_none() {
        return Ok(Err(CommitError::DeadlinePassed.into()));
    }
    let member = hand_in(shared, terms, kept)?;
    loop {
        if let Some(result) = member.wait(Some(patience.next_look())) {
            return Ok(result);
        }
        if patience.left().is_none() {
            return Ok(leave(shared, &member));
        }
    }
}

/// Queues an append, and starts a thread for the queue if there is none.
fn hand_in(shared: &Arc<Shared>, terms: Terms, kept: Kept) -> Result<Arc<Member>, Kept> {
    let mut queue = lock(&shared.pool.0);
    if !queue.is_served {
        let served = Arc::clone(shared);
        let begun = thread::Builder::new()
            .name("spillway-coalesce".to_owned())
            .spawn(move || serve(&served));
        if begun.is_err() {
            return Err(kept);
        }
        queue.is_served = true;
    }
    let member = Arc::new(Member {
        terms,
        rows: kept,
        is_alone: AtomicBool::new(false),
        stage: Mutex::new(Stage::Waiting),
        bell: Condvar::new(),
    });
    queue.waiting.push(Arc::clone(&member));
    Ok(member)
}

fn leave(shared: &Arc<Shared>, member: &Arc<Member>) -> Result<Version> {
    let mut queue = lock(&shared.pool.0);
    let before = queue.waiting.len();
    queue.waiting.retain(|other| !Arc::ptr_eq(other, member));
    if queue.waiting.len() < before {
        return Err(CommitError::DeadlinePassed.into());
    }
    drop(queue);
    {
        let mut stage = lock(&member.stage);
        if matches!(*stage, Stage::Waiting) {
            *stage = Stage::Leaving;
        }
    }
    let answer = member.wait(None);
    answer.unwrap_or_else(|| Err(CommitError::DeadlinePassed.into()))
}

/// Commits what waits until nothing does.
fn serve(shared: &Arc<Shared>) {
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

impl Pool {
    /// Takes the first waiting append and all that can share files with it. None when the queue is empty; the thread
    /// ends then.
    fn next(&self) -> Option<Vec<Arc<Member>>> {
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

thread_local! {
    /// The test that says whether the callers that this thread works for have stopped waiting.
    static ABANDONED: RefCell<Option<Box<dyn Fn() -> bool>>> = const { RefCell::new(None) };
}

/// Says from when on nobody waits for the work of the calling thread.
pub(crate) fn serve_until(is_abandoned: impl Fn() -> bool + 'static) {
    ABANDONED.set(Some(Box::new(is_abandoned)));
}

/// Returns true if the calling thread works for callers that no longer wait, so that requests to a store should end.
#[must_use]
pub fn is_abandoned() -> bool {
    ABANDONED.with_borrow(|asked| asked.as_ref().is_some_and(|asked| asked()))
}

/// Returns true if the calling thread was started here, to write the files of several appends or to read ahead. No
/// signal and no deadline of a caller is its own.
#[must_use]
pub fn is_serving() -> bool {
    ABANDONED.with_borrow(Option::is_some)
}

/// Appends that are written together.
struct Bundle<'a> {
    shared: &'a Arc<Shared>,
    /// Those without an answer.
    members: Vec<Arc<Member>>,
    /// True if their transaction may be in the table.
    is_tried: Cell<bool>,
}

/// The next step after an attempt.
enum Next {
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
                (Next::Alone(error), [only]) => only.answer(Err(error)),
                (Next::Alone(_), _) => self.separate(),
                _ => {}
            }
            self.members.retain(|member| !member.is_answered());
        }
    }

    /// Puts all members back at the head of the queue, each to be written alone.
    fn separate(&mut self) {
        self.part_with(|| CommitError::DeadlinePassed);
        let mut queue = lock(&self.shared.pool.0);
        let mut members = std::mem::take(&mut self.members);
        members.retain(|member| !member.is_answered());
        for member in &members {
            member.is_alone.store(true, Ordering::Release);
        }
        members.append(&mut queue.waiting);
        queue.waiting = members;
    }

    fn attempt(&self) -> Next {
        let Some(first) = self.members.first() else {
            return Next::Nothing;
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
            Err(error) => return self.without_leaving().unwrap_or(Next::Alone(error)),
        };
        let all_stay = || !someone_leaves();
        for batch in &batches {
            if let Err(error) = append.write(batch, &mut { &all_stay }) {
                return self.without_leaving().unwrap_or(Next::Alone(error));
            }
        }
        let deadline = Instant::now() + LONG;
        let (mut to_wait, mut to_write) = (&all_stay, &all_stay);
        let mut patience = Patience::while_asked(deadline, &mut to_wait);
        match append.commit_noted(&mut patience, &mut to_write, &|| self.is_tried.set(true)) {
            Ok(version) => self.all(|| Ok(version)),
            Err(TableError::Commit(CommitError::Unknown { token, reason })) => self.settle(&token, &reason),
            Err(error) => self.without_leaving().unwrap_or_else(|| self.refused(error)),
        }
    }

    /// Handles an error after which no row is in the table. An error of the commit is every member's.
    fn refused(&self, error: TableError) -> Next {
        match error {
            TableError::Commit(error) => self.all(|| Err(error.clone().into())),
            error => Next::Alone(error),
        }
    }

    /// Gives everybody the same answer.
    fn all(&self, result: impl Fn() -> Result<Version>) -> Next {
        for member in self.members.iter().filter(|member| !member.is_answered()) {
            member.answer(result());
        }
        Next::Nothing
    }

    /// Answers the members that no longer wait; none of their rows are in the table. Returns none when all still wait.
    fn without_leaving(&self) -> Option<Next> {
        self.part_with(|| CommitError::DeadlinePassed)
            .then_some(Next::Again)
    }

    fn part_with(&self, error: impl Fn() -> CommitError) -> bool {
        part_with(&self.members, error)
    }

    /// Answers the members that no longer wait with the doubt, and settles it for the others.
    fn settle(&self, token: &Token, reason: &str) -> Next {
        let unknown = {
            let (token, reason) = (token.clone(), reason.to_owned());
            move || CommitError::Unknown {
                token: Box::new(token.clone()),
                reason: reason.clone(),
            }
        };
        if !self.part_with(&unknown) {
            return self.all(|| Err(unknown().into()));
        }
        // Those that stop waiting hear at once, whatever the others wait for.
        let some_stay = {
            let (members, unknown) = (self.members.clone(), unknown.clone());
            move || {
                part_with(&members, &unknown);
                members.iter().any(|member| !member.is_answered())
            }
        };
        let nobody_stays = {
            let some_stay = some_stay.clone();
            move || !some_stay()
        };
        serve_until(nobody_stays);
        let deadline = Instant::now() + SETTLING;
        let mut pause = PAUSE;
        while some_stay() && Instant::now() < deadline {
            let mut to_wait = &some_stay;
            match self
                .shared
                .outcome(token, &mut Patience::while_asked(deadline, &mut to_wait))
            {
                Ok(Outcome::Committed(version)) => return self.all(|| Ok(version)),
                // The files stay behind, as those of every append that was in doubt: VACUUM removes them.
                Ok(Outcome::Rejected) => return Next::Again,
                Ok(Outcome::Unknowable) => break,
                Ok(Outcome::Pending) | Err(_) => {
                    sleep_while(&some_stay, pause);
                    pause = (2 * pause).min(LONGEST_PAUSE);
                }
            }
        }
        self.all(|| Err(unknown().into()))
    }
}

/// Answers those that no longer wait with an error; true if there are any.
fn part_with(members: &[Arc<Member>], error: impl Fn() -> CommitError) -> bool {
    let mut some = false;
    for member in members.iter().filter(|member| member.is_leaving()) {
        member.answer(Err(error().into()));
        some = true;
    }
    some
}

/// Sleeps as long as the condition holds, and no longer than `most`.
fn sleep_while(holds: &impl Fn() -> bool, most: Duration) {
    let end = Instant::now() + most;
    while holds() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(PAUSE));
    }
}

impl Drop for Bundle<'_> {
    fn drop(&mut self) {
        // All have their answer, but for a panic.
        for member in self.members.iter().filter(|member| !member.is_answered()) {
            member.set(Stage::Lost);
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

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType, Field, Schema};
    use parquet_writer::OptionInput;

    use super::*;
    use crate::create::{CreateMode, CreateOptions};
    use crate::table::Table;

    #[test]
    fn who_stops_waiting_for_the_end_of_a_doubt_hears_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]));
        let mut patience = Patience::until(Instant::now() + Duration::from_secs(60));
        let options = CreateOptions::default();
        Table::create(folder.path(), &schema, options, CreateMode::Error, &mut patience).unwrap();
        let table = Table::open(folder.path()).unwrap();
        let shared = table.shared().unwrap();
        let members: Vec<_> = (0..3)
            .map(|_| {
                Arc::new(Member {
                    terms: Terms {
                        head: shared.head(),
                        read_version: 0,
                        schema: Arc::clone(&schema),
                        options: AppendOptions::default(),
                        writer_options: WriterOptions::new(OptionInput::default()).unwrap(),
                    },
                    rows: Kept::default(),
                    is_alone: AtomicBool::new(false),
                    stage: Mutex::new(Stage::Waiting),
                    bell: Condvar::new(),
                })
            })
            .collect();
        // One that never settles.
        let token = Token {
            table_id: "another".to_owned(),
            id: "another".to_owned(),
            first: 0,
            last: 0,
            intents: Vec::new(),
            announcement_in_doubt: false,
            expires: None,
        };
        members[0].set(Stage::Leaving);
        thread::scope(|scope| {
            let begun = Instant::now();
            let settling = scope.spawn(|| {
                let bundle = Bundle {
                    shared: &shared,
                    members: members.clone(),
                    is_tried: Cell::new(true),
                };
                bundle.settle(&token, "no answer");
            });
            let is_unknown = |result| matches!(result, Err(TableError::Commit(CommitError::Unknown { .. })));
            assert!(is_unknown(members[0].wait(None).unwrap()));
            assert!(is_unknown(leave(&shared, &members[1])));
            assert!(!members[2].is_answered());
            assert!(!settling.is_finished());
            assert!(is_unknown(leave(&shared, &members[2])));
            settling.join().unwrap();
            assert!(begun.elapsed() < SETTLING / 2);
        });
    }
}
