//! The commit of an append that no thread waits for: its steps. Between two of them it waits for an answer of the
//! committer, or of the queue of appends that share files.

use std::sync::Arc;

use delta_commit::{AsyncCommit, CommitError, Version, WaitLimit};

use super::Append;
use super::coalesce::SmallAppend;
use crate::error::Result;
use crate::group_commit::{self, Queued, WaiterCallback};

/// The answer that a commit waited for.
pub struct CommitAnswer(Said);

enum Said {
    /// The result of rows that shared files; none after a panic.
    Queue(Option<Result<Version>>),
    Committer(delta_commit::Result<Version>),
}

/// The function that takes an answer. It is called once for each wait, by any thread: it neither waits nor calls the
/// table.
pub type AnswerCallback = Arc<dyn Fn(CommitAnswer) + Send + Sync>;

/// The end of a step.
pub enum CommitStep {
    /// The commit waits: the answer is for [`Append::resume`].
    Waits(CommitWait),
    /// The commit has ended.
    Ended(Result<Version>),
}

/// A commit that waits.
#[derive(Clone)]
pub struct CommitWait(Arc<WaitingCommit>);

enum WaitingCommit {
    Queue(Queued<SmallAppend>),
    Committer(AsyncCommit),
}

impl CommitWait {
    /// Ends the wait: the answer comes as soon as it is certain what became of the rows, or that nobody can say. Does
    /// nothing after the answer.
    ///
    /// A forked child may not call this for a commit of its parent.
    pub fn end(&self) {
        match self.0.as_ref() {
            WaitingCommit::Queue(queued) => queued.leave(),
            WaitingCommit::Committer(posted) => posted.give_up(),
        }
    }
}

/// The result of a step.
enum StepResult {
    Waits(WaitingCommit),
    Committed(Version),
}

impl Append {
    /// Completes the files, and commits them like [`commit`](Self::commit) without a thread that waits. Until the
    /// commit has ended, the append takes no rows.
    ///
    /// No deadline ends a wait: that is for [`CommitWait::end`].
    pub fn post(
        &mut self,
        wait: &mut WaitLimit<'_>,
        go_on: &mut dyn FnMut() -> bool,
        reply: &AnswerCallback,
    ) -> CommitStep {
        if let Err(error) = self.refuse_if_closed() {
            return CommitStep::Ended(Err(error));
        }
        if self.is_repeated {
            return CommitStep::Ended(self.commit_nothing());
        }
        let next = self.first(wait, go_on, reply);
        self.after(next)
    }

    /// Goes on with the answer.
    pub fn resume(
        &mut self,
        answer: CommitAnswer,
        wait: &mut WaitLimit<'_>,
        reply: &AnswerCallback,
    ) -> CommitStep {
        self.is_posted = false;
        let next = match answer.0 {
            Said::Queue(Some(done)) => done.map(StepResult::Committed),
            // As if it had been written by this thread; the panic was reported where it happened.
            Said::Queue(None) => {
                std::panic::resume_unwind(Box::new("the thread that wrote the rows panicked"))
            }
            Said::Committer(done) => {
                let done = self.shared.answered(done);
                match self.judge(done, wait) {
                    Ok(Some(version)) => Ok(StepResult::Committed(version)),
                    Ok(None) => self.submit(wait, reply),
                    Err(error) => Err(error),
                }
            }
        };
        self.after(next)
    }

    fn first(
        &mut self,
        wait: &mut WaitLimit<'_>,
        go_on: &mut dyn FnMut() -> bool,
        reply: &AnswerCallback,
    ) -> Result<StepResult> {
        if self
            .buffered
            .as_ref()
            .is_some_and(|buffered| !buffered.is_empty())
            && wait.left().is_none()
        {
            return Err(CommitError::DeadlinePassed.into());
        }
        let told = Arc::clone(reply);
        let told: WaiterCallback = Box::new(move |done| told(CommitAnswer(Said::Queue(done))));
        let own = match self.small_append() {
            Ok(append) => match group_commit::post(&self.shared, append, told) {
                Ok(queued) => return Ok(StepResult::Waits(WaitingCommit::Queue(queued))),
                Err(append) => Some(append.rows),
            },
            Err(buffered) => buffered,
        };
        self.complete(own, go_on)?;
        self.prepare()?;
        self.submit(wait, reply)
    }

    fn submit(&mut self, wait: &mut WaitLimit<'_>, reply: &AnswerCallback) -> Result<StepResult> {
        let transaction = self.transaction()?;
        if !transaction.is_skippable() && wait.left().is_none() {
            return Err(CommitError::DeadlinePassed.into());
        }
        self.tried.push(transaction.id);
        // Should it panic, nobody knows.
        self.in_doubt = true;
        let told = Arc::clone(reply);
        let told = Box::new(move |done| told(CommitAnswer(Said::Committer(done))));
        let posted = self.shared.post(transaction, wait, told);
        self.in_doubt = posted.is_ok();
        Ok(StepResult::Waits(WaitingCommit::Committer(posted?)))
    }

    fn after(&mut self, next: Result<StepResult>) -> CommitStep {
        let done = match next {
            Ok(StepResult::Waits(place)) => {
                self.is_posted = true;
                return CommitStep::Waits(CommitWait(Arc::new(place)));
            }
            Ok(StepResult::Committed(version)) => Ok(version),
            Err(error) => Err(error),
        };
        CommitStep::Ended(self.end(done))
    }
}
