//! Commits that no thread waits for. One thread of the table leads for all of them, as long as there are any.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::{Committer, CommitterCore, CommitterState, Lead, News, VerdictSlot, committed, in_use};
use crate::error::{CommitError, Result};
use crate::log::{StoreError, Version};
use crate::machine::Submission;
use crate::serving::serve_until;
use crate::transaction::{MemberId, Transaction};

/// The function that takes the result of an asynchronous commit. It is called once, by any thread, while the committer
/// is locked: it neither waits nor calls the committer.
pub type CommitCallback = Box<dyn FnOnce(Result<Version>) + Send>;

/// The time between two looks of the thread while another one leads. It is woken for the lead.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The longest that an effect may pause the thread. No caller's deadline is its own.
const LONG: Duration = Duration::from_secs(60);

/// An asynchronous commit. Its reply comes whether this is kept or not.
pub struct AsyncCommit {
    core: Arc<CommitterCore>,
    id: MemberId,
}

impl AsyncCommit {
    /// Ends the wait for the reply, which comes at once with what is certain by now. Does nothing after the reply.
    ///
    /// A forked child may not call this for a commit of its parent.
    pub fn give_up(&self) {
        let mut state = self.core.lock();
        state.deliver();
        if let Some(reply) = state.async_commits.remove(&self.id) {
            let verdict = state.give_up(self.id);
            reply(committed(self.id, verdict));
        }
    }
}

impl Committer {
    /// Commits a transaction like [`commit`](Self::commit), for a caller that does not wait. The result is for `reply`,
    /// which gets it when the commit is done or [given up](AsyncCommit::give_up), and at no deadline.
    ///
    /// # Errors
    /// [`CommitError::Invalid`] or [`CommitError::Malformed`] when no version may hold the transaction, and
    /// [`CommitError::Store`] when no thread can be started to commit it. Nothing was submitted then.
    pub fn post(&self, transaction: Transaction, reply: CommitCallback) -> Result<AsyncCommit> {
        let submission = Submission::new(transaction)?;
        let id = submission.id();
        let core = Arc::clone(self.core());
        let mut state = core.lock();
        if state.is_asked(id) {
            return Err(in_use(id));
        }
        if !state.is_served {
            core.start_serving()?;
            state.is_served = true;
        }
        state.machine.submit(submission);
        state.async_commits.insert(id, reply);
        drop(state);
        Ok(AsyncCommit { core, id })
    }
}

impl CommitterCore {
    fn start_serving(self: &Arc<Self>) -> Result<()> {
        let core = Arc::clone(self);
        let begun = thread::Builder::new()
            .name("spillway-lead".to_owned())
            .spawn(move || {
                serve_until(|| false);
                core.serve();
            });
        match begun {
            Ok(_) => Ok(()),
            Err(error) => Err(StoreError::io("a thread that commits", &error).into()),
        }
    }

    /// Leads whenever nobody else does, until there is no asynchronous commit.
    fn serve(self: &Arc<Self>) {
        // No transaction has it: it stands for the thread among those that wait to lead.
        let id = MemberId::random();
        loop {
            let slot = Arc::new(VerdictSlot::default());
            {
                let mut state = self.lock();
                if state.async_commits.is_empty() {
                    state.is_served = false;
                    return;
                }
                state.waiting.insert(id, Arc::clone(&slot));
                if !state.led {
                    state.led = true;
                    slot.tell(News::Lead);
                }
            }
            while !matches!(slot.wait(Instant::now() + LOOK_EVERY), News::Lead) {}
            let led = catch_unwind(AssertUnwindSafe(|| self.lead_posted(id)));
            if led.is_err() {
                let panicked = StoreError::transient("the store panicked");
                self.lock().give_up_posted(&panicked.into());
            }
        }
    }

    /// Runs the machine until there is no asynchronous commit.
    fn lead_posted(self: &Arc<Self>, id: MemberId) {
        let _lead = Lead { core: self, id };
        loop {
            let mut state = self.lock();
            state.deliver();
            if state.async_commits.is_empty() {
                return;
            }
            let Some(effect) = state.machine.next(self.now()) else {
                state.deliver();
                // There is no work, so nothing would ever answer them.
                state.give_up_posted(&CommitError::DeadlinePassed);
                return;
            };
            // Others need not wait for what comes after their verdicts.
            state.deliver();
            self.tidy(&mut state);
            drop(state);
            self.perform(&effect, LONG);
        }
    }
}

impl CommitterState {
    /// Gives up all asynchronous commits. Those that are certainly in no version get the error.
    fn give_up_posted(&mut self, certain: &CommitError) {
        self.deliver();
        for (id, reply) in std::mem::take(&mut self.async_commits) {
            let verdict = self.give_up(id);
            reply(match committed(id, verdict) {
                Err(CommitError::DeadlinePassed) => Err(certain.clone()),
                other => other,
            });
        }
    }
}
