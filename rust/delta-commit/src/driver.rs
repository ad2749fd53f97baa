//! The driver: group commit on real threads. The first thread to come leads, and commits for all that come meanwhile.
//! [`Committer::post`] is for callers without a thread that waits.
//!
//! The leader does I/O without holding the lock, so that others can add their transactions. Once it has its own verdict
//! it passes the lead on, so no thread works for others for longer than a version or two. The machine keeps its state
//! between two leaders: when one's deadline passes in the middle of a round, the next goes on from there.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::boot_time::BootTime;
use crate::error::{CommitError, Result};
use crate::intent::World;
use crate::intent_gc;
use crate::log::{Effect, Event, LogStore, PutOutcome, StoreError, Time, Version, perform};
use crate::machine::{CommitStats, Machine, Start, Submission, Verdict};
use crate::settle::{Outcome, Token};
use crate::timings::{EffectKind, Timings};
use crate::transaction::{MemberId, Transaction};
use per_process::PerProcess;

mod async_commit;
mod compaction_backoff;

pub use async_commit::{AsyncCommit, CommitCallback};
pub use compaction_backoff::CompactionBackoff;

/// The time between two checks whether the caller still waits.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The committer of one table, shared by all threads of a process.
///
/// After a fork the child's first commit makes the child a machine of its own: leaders belong to a process.
///
/// ```
/// use std::time::{Duration, Instant};
/// use std::sync::Arc;
/// use delta_commit::actions::{Action, Add, Metadata, Protocol};
/// use delta_commit::{Committer, MemberId, Start, Transaction, store::LocalLogStore, log::BEFORE_FIRST};
///
/// let table = tempfile::tempdir()?;
/// let start = Start {
///     version: BEFORE_FIRST,
///     table_id: "4f1c".into(),
///     changed_in: BEFORE_FIRST,
///     in_commit_timestamp: None,
///     high_water_mark: None,
///     digest: None,
///     known: None,
/// };
/// let committer = Committer::new(Arc::new(LocalLogStore::new(table.path())), start);
/// let metadata = Metadata {
///     id: "4f1c".into(),
///     schema_string: r#"{"type":"struct","fields":[]}"#.into(),
///     ..Metadata::default()
/// };
/// let create = vec![Action::Protocol(Protocol::default()), Action::Metadata(metadata)];
/// let soon = Instant::now() + Duration::from_secs(5);
/// assert_eq!(committer.commit(Transaction::append(MemberId::random(), BEFORE_FIRST, create), soon)?, 0);
/// let add = Action::Add(Add { path: "part-0.parquet".into(), size: 1, data_change: true, ..Add::default() });
/// assert_eq!(committer.commit(Transaction::append(MemberId::random(), 0, vec![add]), soon)?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Committer {
    store: Arc<dyn LogStore>,
    start: Start,
    cores: PerProcess<Arc<CommitterCore>>,
}

/// The limit of a caller's wait: a deadline, and a callback that may end the wait earlier.
pub struct WaitLimit<'a> {
    deadline: Instant,
    go_on: Option<&'a mut dyn FnMut() -> bool>,
    looked: Instant,
    lost: bool,
}

impl<'a> WaitLimit<'a> {
    /// Until a moment, whatever happens.
    #[must_use]
    pub fn until(deadline: Instant) -> Self {
        Self {
            deadline,
            go_on: None,
            looked: Instant::now(),
            lost: false,
        }
    }

    /// Until a moment, or until `go_on` returns false. It is called some twenty times a second.
    #[must_use]
    pub fn while_asked(deadline: Instant, go_on: &'a mut dyn FnMut() -> bool) -> Self {
        Self {
            go_on: Some(go_on),
            ..Self::until(deadline)
        }
    }

    /// Returns the time that is left; none when the wait is over.
    #[must_use]
    pub fn left(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if let Some(go_on) = &mut self.go_on
            && now.duration_since(self.looked) >= LOOK_EVERY
        {
            self.looked = now;
            self.lost |= !go_on();
        }
        let left = self.deadline.saturating_duration_since(now);
        (!self.lost && !left.is_zero()).then_some(left)
    }

    /// Returns the moment at which a waiting thread must next check the limit.
    #[must_use]
    pub fn next_look(&self) -> Instant {
        match self.go_on {
            Some(_) => self.deadline.min(Instant::now() + LOOK_EVERY),
            None => self.deadline,
        }
    }
}

struct CommitterCore {
    store: Arc<dyn LogStore>,
    state: Mutex<CommitterState>,
    born: BootTime,
    /// The time until which compactions wait for nobody: milliseconds since it was born.
    rests_until: AtomicU64,
}

struct CommitterState {
    machine: Machine,
    timings: Timings,
    waiting: BTreeMap<MemberId, Arc<VerdictSlot>>,
    /// The replies to commits that no thread waits for.
    async_commits: BTreeMap<MemberId, CommitCallback>,
    led: bool,
    /// True if a thread leads for asynchronous commits whenever no other does.
    is_served: bool,
    /// True if a thread deletes intents that are of no more use.
    is_tidied: bool,
}

/// The slot in which a thread waits for its verdict, or for its turn to lead.
#[derive(Default)]
struct VerdictSlot {
    news: Mutex<News>,
    bell: Condvar,
}

#[derive(Default)]
enum News {
    #[default]
    None,
    Lead,
    Verdict(Verdict),
}

impl Committer {
    /// The committer of the table whose log is in `store`, and of which `start` is known.
    #[must_use]
    pub fn new(store: Arc<dyn LogStore>, start: Start) -> Self {
        Self {
            store,
            start,
            cores: PerProcess::new(),
        }
    }

    /// Commits a transaction, and returns its version once that survives a crash.
    ///
    /// Blocks until then, or until the deadline. A call of the store is not cut short.
    ///
    /// # Errors
    /// [`CommitError::Unknown`] when the deadline passed while it may already be in the table. After every other error
    /// it certainly is not and will not be.
    pub fn commit(&self, transaction: Transaction, deadline: Instant) -> Result<Version> {
        self.commit_while(transaction, &mut WaitLimit::until(deadline))
    }

    /// Commits like [`commit`](Self::commit), for a caller that may stop waiting before the deadline.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn commit_while(&self, transaction: Transaction, wait: &mut WaitLimit<'_>) -> Result<Version> {
        let submission = Submission::new(transaction)?;
        let id = submission.id();
        let verdict = self.ask(id, wait, |machine| {
            machine.submit(submission);
            Ok(())
        })?;
        verdict.map_or_else(|| Err(in_use(id)), |verdict| committed(id, verdict))
    }

    /// Settles a doubt: finds out whether the transaction of a [`CommitError::Unknown`] is in the table.
    ///
    /// Where another thread commits or settles the same transaction, that one comes first.
    ///
    /// # Errors
    /// [`CommitError::Invalid`] or [`CommitError::Malformed`] when the token is not one of this table's.
    pub fn outcome(&self, token: &Token, wait: &mut WaitLimit<'_>) -> Result<Outcome> {
        let id = token.id.parse()?;
        loop {
            match self.ask(id, wait, |machine| machine.settle(token).map(drop))? {
                Some(Verdict::Settled(outcome)) => return Ok(outcome),
                Some(Verdict::Commit(_)) => {
                    return Err(CommitError::Invalid(format!("the id {id} is in use")));
                }
                None => match wait.left() {
                    Some(left) => thread::sleep(left.min(LOOK_EVERY)),
                    None => return Ok(Outcome::Pending),
                },
            }
        }
    }

    /// The newest version that this process has seen, and the table's identity there. Does no I/O.
    #[must_use]
    pub fn known(&self) -> (Version, World) {
        let state = self.core().lock();
        (state.machine.tip(), state.machine.world().clone())
    }

    /// Returns true if this process is known to have written a version from `first` on. Does no I/O.
    #[must_use]
    pub fn has_written_since(&self, first: Version) -> bool {
        self.core().lock().machine.has_written_since(first)
    }

    /// Counts of the races for versions that this process took part in so far, and the times of its effects. Does no
    /// I/O.
    #[must_use]
    pub fn commit_stats(&self) -> CommitStats {
        let state = self.core().lock();
        CommitStats {
            timings: state.timings,
            ..state.machine.commit_stats()
        }
    }

    /// Waits for the verdict on a transaction that is submitted; none when another thread already waits for it.
    fn ask(
        &self,
        id: MemberId,
        wait: &mut WaitLimit<'_>,
        hand_in: impl FnOnce(&mut Machine) -> Result<()>,
    ) -> Result<Option<Verdict>> {
        let core = self.core();
        let slot = Arc::new(VerdictSlot::default());
        {
            let mut state = core.lock();
            if state.is_asked(id) {
                return Ok(None);
            }
            hand_in(&mut state.machine)?;
            state.waiting.insert(id, Arc::clone(&slot));
            if !state.led {
                state.led = true;
                slot.tell(News::Lead);
            }
        }
        loop {
            match slot.wait(wait.next_look()) {
                News::Verdict(verdict) => return Ok(Some(verdict)),
                News::Lead => return Ok(Some(core.lead(id, &slot, wait))),
                News::None if wait.left().is_some() => {}
                News::None => {
                    let mut state = core.lock();
                    // Between the bell and this lock the news may have come after all.
                    if matches!(*lock(&slot.news), News::None) {
                        return Ok(Some(state.give_up(id)));
                    }
                }
            }
        }
    }

    fn core(&self) -> &Arc<CommitterCore> {
        self.cores.get_or_init(|| {
            let machine = Machine::new(MemberId::random(), self.start.clone());
            Arc::new(CommitterCore::new(Arc::clone(&self.store), machine))
        })
    }
}

/// The result of a commit by its verdict.
fn committed(id: MemberId, verdict: Verdict) -> Result<Version> {
    match verdict {
        Verdict::Commit(result) => result,
        Verdict::Settled(_) => Err(in_use(id)),
    }
}

fn in_use(id: MemberId) -> CommitError {
    CommitError::Invalid(format!(
        "the transaction {id} is being committed already; give each its own id"
    ))
}

/// Completes the effect in the machine, even when the store panicked.
struct EffectCompletion<'a> {
    core: &'a CommitterCore,
    effect: &'a Effect,
    began: Instant,
    event: Option<Event>,
}

impl Drop for EffectCompletion<'_> {
    fn drop(&mut self) {
        let event = self
            .event
            .take()
            .unwrap_or_else(|| lost(self.effect, StoreError::transient("the store panicked")));
        let (now, took) = (self.core.now(), self.began.elapsed());
        let mut state = self.core.lock();
        state.timings.note(EffectKind::of(self.effect), took);
        state.machine.complete(now, event);
    }
}

/// Makes the event of an effect whose answer never came.
fn lost(effect: &Effect, error: StoreError) -> Event {
    match effect {
        Effect::PutVersion(..) => Event::Put(PutOutcome::Unknown(error)),
        _ => Event::Failed(error),
    }
}

/// The deletion of intents by a thread of its own. Another thread can follow if the store panics under it.
struct Tidied<'a>(&'a CommitterCore);

impl Drop for Tidied<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.lock().is_tidied = false;
        }
    }
}

/// The lead. When it is dropped, it passes to a waiting thread, or to none.
struct Lead<'a> {
    core: &'a Arc<CommitterCore>,
    id: MemberId,
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut state = self.core.lock();
        state.deliver();
        // Still there only if the store panicked under this leader, who hears nothing more.
        if state.waiting.contains_key(&self.id) {
            state.give_up(self.id);
        }
        self.core.tidy(&mut state);
        match state.waiting.first_key_value() {
            Some((_, next)) => next.tell(News::Lead),
            None => state.led = false,
        }
    }
}

impl CommitterCore {
    fn new(store: Arc<dyn LogStore>, machine: Machine) -> Self {
        Self {
            store,
            state: Mutex::new(CommitterState {
                machine,
                timings: Timings::default(),
                waiting: BTreeMap::new(),
                async_commits: BTreeMap::new(),
                led: false,
                is_served: false,
                is_tidied: false,
            }),
            born: BootTime::now(),
            rests_until: AtomicU64::new(0),
        }
    }

    /// Runs the machine until the verdict on this thread's transaction is there.
    fn lead(self: &Arc<Self>, id: MemberId, slot: &VerdictSlot, wait: &mut WaitLimit<'_>) -> Verdict {
        let _lead = Lead { core: self, id };
        loop {
            // Asked with the state unlocked: the answer may want a lock of the caller's own.
            let left = wait.left();
            let mut state = self.lock();
            state.deliver();
            if let News::Verdict(verdict) = slot.take() {
                return verdict;
            }
            let Some(left) = left else {
                return state.give_up(id);
            };
            let Some(effect) = state.machine.next(self.now()) else {
                state.deliver();
                if let News::Verdict(verdict) = slot.take() {
                    return verdict;
                }
                return state.give_up(id);
            };
            // Others need not wait for what comes after their verdicts.
            state.deliver();
            self.tidy(&mut state);
            drop(state);
            self.perform(&effect, left);
        }
    }

    fn perform(&self, effect: &Effect, left: Duration) {
        let mut answer = EffectCompletion {
            core: self,
            effect,
            began: Instant::now(),
            event: None,
        };
        answer.event = Some(match effect {
            Effect::Pause(milliseconds) => {
                thread::sleep(Duration::from_millis(*milliseconds).min(left));
                Event::Done
            }
            effect => perform(self.store.as_ref(), effect),
        });
    }

    /// Has intents deleted that are of no more use, beside the next attempt. Where no thread can be had they stay until
    /// the next time.
    fn tidy(self: &Arc<Self>, state: &mut CommitterState) {
        if !state.is_tidied && state.machine.has_garbage() {
            let core = Arc::clone(self);
            state.is_tidied = intent_gc::spawn(move || core.delete_garbage());
        }
    }

    fn delete_garbage(&self) {
        let _tidied = Tidied(self);
        loop {
            let mut state = self.lock();
            let names = state.machine.take_garbage();
            if names.is_empty() {
                state.is_tidied = false;
                return;
            }
            drop(state);
            let began = Instant::now();
            // Whether it succeeds is of no consequence here: others can do it as well.
            let _ = self.store.delete_intents(&names);
            let mut state = self.lock();
            state.timings.note(EffectKind::DeleteIntents, began.elapsed());
            state.machine.tidied(&names);
        }
    }

    fn lock(&self) -> MutexGuard<'_, CommitterState> {
        lock(&self.state)
    }

    fn now(&self) -> Time {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .ok()
            .and_then(|since| i64::try_from(since.as_millis()).ok())
            .unwrap_or(0);
        Time {
            monotonic: self.millis(),
            wall,
        }
    }

    /// Milliseconds since it was born.
    fn millis(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl CommitterState {
    fn deliver(&mut self) {
        for (id, verdict) in self.machine.take_verdicts() {
            if let Some(slot) = self.waiting.remove(&id) {
                slot.tell(News::Verdict(verdict));
            } else if let Some(reply) = self.async_commits.remove(&id) {
                reply(committed(id, verdict));
            }
        }
    }

    /// Returns true if a verdict on this transaction is waited for.
    fn is_asked(&self, id: MemberId) -> bool {
        self.waiting.contains_key(&id) || self.async_commits.contains_key(&id)
    }

    fn give_up(&mut self, id: MemberId) -> Verdict {
        self.waiting.remove(&id);
        self.machine
            .give_up(id)
            .unwrap_or(Verdict::Commit(Err(CommitError::DeadlinePassed)))
    }
}

impl VerdictSlot {
    fn tell(&self, news: News) {
        *lock(&self.news) = news;
        self.bell.notify_one();
    }

    fn take(&self) -> News {
        std::mem::take(&mut *lock(&self.news))
    }

    /// Waits for news, or returns none at the deadline.
    fn wait(&self, deadline: Instant) -> News {
        let mut news = lock(&self.news);
        while matches!(*news, News::None) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return News::None;
            }
            news = self
                .bell
                .wait_timeout(news, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        std::mem::take(&mut *news)
    }
}

/// Locks a mutex, poisoned or not. No value is changed in parts under these locks, so a thread that panicked left whole
/// values.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
