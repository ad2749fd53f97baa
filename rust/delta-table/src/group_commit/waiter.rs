//! Callers that wait while a thread of the table commits for several of them.
//!
//! Each caller has a [`CommitWaiter`]. A caller that stops waiting leaves: the committing thread answers it as soon as
//! it is certain that nothing of the caller's is in the table, or that the outcome is unknown.

use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use delta_commit::{CommitError, Outcome, Token, Version, WaitLimit, serve_until};

use crate::error::Result;
use crate::table::{SharedTable, lock};

/// The longest time for which a commit in doubt is queried while callers wait. After a minute no process carries an
/// announcement any more.
const SETTLING: Duration = Duration::from_secs(90);

/// The pause after the first query. Each is twice as long as the one before, since each query deletes and lists.
const PAUSE: Duration = Duration::from_millis(100);

/// The longest pause between two queries.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// One caller that is blocked until its commit is decided.
#[derive(Default)]
pub(crate) struct CommitWaiter {
    stage: Mutex<WaiterStage>,
    bell: Condvar,
    /// The function that takes the answer, where no thread waits for it.
    reply: Mutex<Option<WaiterCallback>>,
}

/// The function that takes the answer; none when the thread that commits panicked.
pub(crate) type WaiterCallback = Box<dyn FnOnce(Option<Result<Version>>) + Send>;

#[derive(Default)]
enum WaiterStage {
    #[default]
    Waiting,
    /// The caller stops waiting once it is safe to.
    Leaving,
    Done(Result<Version>),
    /// The thread that commits panicked.
    Lost,
    /// The caller has its result.
    Answered,
}

impl CommitWaiter {
    /// A waiter that gets its answer by a callback, if there is one.
    pub fn new(reply: Option<WaiterCallback>) -> Self {
        Self {
            reply: Mutex::new(reply),
            ..Self::default()
        }
    }

    pub fn answer(&self, result: Result<Version>) {
        self.set(WaiterStage::Done(result));
    }

    /// Says that the thread panicked.
    pub fn lose(&self) {
        self.set(WaiterStage::Lost);
    }

    fn set(&self, stage: WaiterStage) {
        if let Some(reply) = lock(&self.reply).take() {
            *lock(&self.stage) = WaiterStage::Answered;
            reply(match stage {
                WaiterStage::Done(result) => Some(result),
                _ => None,
            });
            return;
        }
        *lock(&self.stage) = stage;
        self.bell.notify_one();
    }

    pub fn is_leaving(&self) -> bool {
        matches!(*lock(&self.stage), WaiterStage::Leaving)
    }

    pub fn is_answered(&self) -> bool {
        !matches!(*lock(&self.stage), WaiterStage::Waiting | WaiterStage::Leaving)
    }

    /// Waits for the answer as long as the caller does; none when it stops waiting.
    pub fn wait(&self, wait: &mut WaitLimit<'_>) -> Option<Result<Version>> {
        loop {
            if let Some(result) = self.wait_until(Some(wait.next_look())) {
                return Some(result);
            }
            wait.left()?;
        }
    }

    /// Says that the caller waits no longer than it must.
    pub fn begin_to_leave(&self) {
        let mut stage = lock(&self.stage);
        if matches!(*stage, WaiterStage::Waiting) {
            *stage = WaiterStage::Leaving;
        }
    }

    /// Leaves. The answer comes as soon as it is certain.
    pub fn leave(&self) -> Result<Version> {
        self.begin_to_leave();
        let answer = self.wait_until(None);
        answer.unwrap_or_else(|| Err(CommitError::DeadlinePassed.into()))
    }

    /// Waits for the answer; none when the deadline passes before it.
    pub fn wait_until(&self, deadline: Option<Instant>) -> Option<Result<Version>> {
        let mut stage = lock(&self.stage);
        loop {
            match std::mem::replace(&mut *stage, WaiterStage::Answered) {
                WaiterStage::Done(result) => return Some(result),
                // As if the thread that waits had done the work itself; the panic was reported where it happened.
                WaiterStage::Lost => {
                    std::panic::resume_unwind(Box::new("the thread that committed panicked"))
                }
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

/// Answers those that no longer wait with an error; true if there are any.
pub(super) fn part_with<M: Deref<Target = CommitWaiter>>(
    members: &[Arc<M>],
    error: impl Fn() -> CommitError,
) -> bool {
    let mut some = false;
    for member in members.iter().filter(|member| member.is_leaving()) {
        member.answer(Err(error().into()));
        some = true;
    }
    some
}

/// Gives everybody who waits the same answer.
pub(super) fn answer_all<M: Deref<Target = CommitWaiter>>(
    members: &[Arc<M>],
    result: impl Fn() -> Result<Version>,
) {
    for member in members.iter().filter(|member| !member.is_answered()) {
        member.answer(result());
    }
}

/// What became of a transaction with an unknown outcome.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    Committed,
    /// No version holds it: the members without an answer must be tried again.
    Rejected,
    /// Nobody knows, or nobody waits for it.
    Unknown,
}

/// Answers the members that no longer wait with the unknown outcome of the transaction, and settles it for the others.
/// All have their answer then, unless it was rejected.
pub(super) fn settle<M: Deref<Target = CommitWaiter> + 'static>(
    shared: &SharedTable,
    members: &[Arc<M>],
    token: &Token,
    reason: &str,
) -> Settled {
    let unknown = {
        let (token, reason) = (token.clone(), reason.to_owned());
        move || CommitError::Unknown {
            token: Box::new(token.clone()),
            reason: reason.clone(),
        }
    };
    if !part_with(members, &unknown) {
        answer_all(members, || Err(unknown().into()));
        return Settled::Unknown;
    }
    // Those that stop waiting hear at once, whatever the others wait for.
    let some_stay = {
        let (members, unknown) = (members.to_vec(), unknown.clone());
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
        match shared.outcome(token, &mut WaitLimit::while_asked(deadline, &mut to_wait)) {
            Ok(Outcome::Committed(version)) => {
                answer_all(members, || Ok(version));
                return Settled::Committed;
            }
            // The files of appends stay behind, as after every unknown outcome: VACUUM removes them.
            Ok(Outcome::Rejected) => return Settled::Rejected,
            Ok(Outcome::Unknowable) => break,
            Ok(Outcome::Pending) | Err(_) => {
                sleep_while(&some_stay, pause);
                pause = (2 * pause).min(LONGEST_PAUSE);
            }
        }
    }
    answer_all(members, || Err(unknown().into()));
    Settled::Unknown
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

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType, Field, Schema, SchemaRef};

    use super::*;
    use crate::create::{CreateMode, CreateOptions};
    use crate::error::TableError;
    use crate::table::Table;

    struct Member(CommitWaiter);

    impl Deref for Member {
        type Target = CommitWaiter;

        fn deref(&self) -> &CommitWaiter {
            &self.0
        }
    }

    #[test]
    fn who_stops_waiting_for_the_end_of_a_doubt_hears_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]));
        let mut wait = WaitLimit::until(Instant::now() + Duration::from_secs(60));
        let options = CreateOptions::default();
        Table::create(folder.path(), &schema, options, CreateMode::Error, &mut wait).unwrap();
        let table = Table::open(folder.path()).unwrap();
        let shared = table.shared().unwrap();
        let members: Vec<_> = (0..3)
            .map(|_| Arc::new(Member(CommitWaiter::default())))
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
        members[0].set(WaiterStage::Leaving);
        thread::scope(|scope| {
            let begun = Instant::now();
            let settling = scope.spawn(|| settle(&shared, &members, &token, "no answer"));
            let is_unknown = |result| matches!(result, Err(TableError::Commit(CommitError::Unknown { .. })));
            assert!(is_unknown(members[0].wait_until(None).unwrap()));
            assert!(is_unknown(members[1].leave()));
            assert!(!members[2].is_answered());
            assert!(!settling.is_finished());
            assert!(is_unknown(members[2].leave()));
            assert!(settling.join().unwrap() == Settled::Unknown);
            assert!(begun.elapsed() < SETTLING / 2);
        });
    }
}
