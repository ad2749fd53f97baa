//! Tasks that several threads do.
//!
//! The calling thread takes one task after the other, and so do its helpers. It also looks after the caller: whether
//! the work should go on, and what the finished tasks gave, which it passes on as they come.
//!
//! A thread that finds no task left does errands for the tasks of others: pages that a long column has filled are
//! compressed by whoever is idle. A task hands over what an idle thread takes at once, and does the rest itself.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Result, WriteError};
use crate::helpers::{Busy, Done, Wanted};
use crate::row_group::Patience;

/// The longest time that the calling thread waits for others at a stretch.
const WAIT: Duration = Duration::from_millis(50);
/// The most threads that find something to do in one task: errands take about twice the time of the rest.
const THREADS_FOR_A_TASK: usize = 3;

/// The function that tasks must call now and then. It returns an error when they should end.
pub(crate) type Pause<'a> = &'a mut dyn FnMut() -> Result<()>;

/// A part of a task that another thread may do.
pub(crate) type Errand = Box<dyn FnOnce() -> Result<()> + Send>;

/// The threads that do the tasks of one call, as its tasks see them.
pub(crate) trait Crew: Send + Sync {
    /// Returns true if a thread has nothing to do.
    fn is_idle(&self) -> bool;

    /// Gives an errand to an idle thread. Returns it if there is none.
    fn hand_over(&self, errand: Errand) -> Option<Errand>;

    /// Does an errand that was handed over and that no thread has begun. Returns false if there is none.
    fn help(&self) -> bool;
}

/// Has tasks know of their crew, or forget it.
pub(crate) type Introduce<'a> = &'a dyn Fn(Option<Arc<dyn Crew>>);

/// Does the tasks in their order, each on the next free thread, and passes on what they return, in the order in which
/// they end. The first error ends all tasks. A panic of a helper goes on in the calling thread.
///
/// # Errors
/// That of a task or of `each`, or [`WriteError::Interrupted`] when the caller's patience ends.
pub(crate) fn side_by_side<T: Send + 'static, R: Send + 'static>(
    tasks: Vec<T>,
    wanted: Wanted,
    introduce: Introduce<'_>,
    patience: &mut Patience<'_>,
    work: impl Fn(T, Pause<'_>) -> Result<R> + Send + Sync + 'static,
    each: &mut dyn FnMut(R) -> Result<()>,
) -> Result<()> {
    let caller = Busy::caller();
    let helpers = wanted
        .helpers
        .min((THREADS_FOR_A_TASK * tasks.len()).saturating_sub(1));
    let board = Arc::new(Board::new(tasks));
    let work = Arc::new(work);
    introduce(Some(Arc::clone(&board) as _));
    let over = EndsOnDrop(&board, introduce);
    let done = (|| {
        loop {
            while board.has_work_for(helpers) && call(&caller, wanted.cores, &board, &work) {}
            let Some(task) = board.next() else { break };
            let result = work(task, &mut || {
                board.go_on()?;
                patience.check()
            })?;
            board.end_task(None);
            each(result)?;
            board.finished().into_iter().try_for_each(&mut *each)?;
        }
        while board.wait() {
            board.finished().into_iter().try_for_each(&mut *each)?;
            board.go_on()?;
            patience.check()?;
        }
        board.finished().into_iter().try_for_each(each)
    })();
    drop(over);
    while board.wait() {
        board.finished();
    }
    let mut state = board.state();
    if let Some(panic) = state.panic.take() {
        drop(state);
        resume_unwind(panic);
    }
    // What ended the other tasks comes before what they ended with.
    state.error.take().map_or(done, Err)
}

/// Has a helper take tasks. Returns false if there is none to be had.
fn call<T: Send + 'static, R: Send + 'static>(
    caller: &Busy,
    cores: usize,
    board: &Arc<Board<T, R>>,
    work: &Arc<impl Fn(T, Pause<'_>) -> Result<R> + Send + Sync + 'static>,
) -> bool {
    let (their_board, work) = (Arc::clone(board), Arc::clone(work));
    board.state().helpers += 1;
    let has_come = caller.call(cores, move |busy| {
        let is_spare = || !busy.is_beyond(cores);
        let outcome = catch_unwind(AssertUnwindSafe(|| their_board.serve(work.as_ref(), is_spare)));
        // What the tasks borrow from the caller is free before it goes on.
        drop(work);
        let done: Done = Box::new(move || their_board.leave(outcome.err()));
        done
    });
    if !has_come {
        board.state().helpers -= 1;
    }
    has_come
}

/// The tasks of one call, and what came of them.
struct Board<T, R> {
    state: Mutex<State<T, R>>,
    changed: Condvar,
    is_over: AtomicBool,
}

struct State<T, R> {
    tasks: std::vec::IntoIter<T>,
    finished: Vec<R>,
    /// The first error of a helper.
    error: Option<WriteError>,
    panic: Option<Box<dyn Any + Send>>,
    /// Helpers that take tasks.
    helpers: usize,
    /// Tasks that are not done.
    open: usize,
    /// Errands that are handed over, and threads that wait for one.
    errands: VecDeque<Errand>,
    idle: usize,
}

/// What a helper does next.
enum Step<T> {
    Task(T),
    Errand(Errand),
}

impl<T, R> Board<T, R> {
    fn new(tasks: Vec<T>) -> Self {
        Self {
            state: Mutex::new(State {
                open: tasks.len(),
                tasks: tasks.into_iter(),
                errands: VecDeque::new(),
                idle: 0,
                finished: Vec::new(),
                error: None,
                panic: None,
                helpers: 0,
            }),
            changed: Condvar::new(),
            is_over: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T, R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<T> {
        self.state().tasks.next()
    }

    /// Returns true if one more helper of at most `helpers` would find a task beside the caller, or errands of one.
    fn has_work_for(&self, helpers: usize) -> bool {
        let state = self.state();
        state.helpers < helpers && state.tasks.len() > 0
    }

    fn finished(&self) -> Vec<R> {
        std::mem::take(&mut self.state().finished)
    }

    /// Returns an error when the tasks should end.
    fn go_on(&self) -> Result<()> {
        if self.is_over.load(Ordering::Relaxed) {
            return Err(WriteError::Interrupted);
        }
        Ok(())
    }

    /// Does tasks and errands on a helper, as long as tasks are open and the helper is spare.
    fn serve(&self, work: &dyn Fn(T, Pause<'_>) -> Result<R>, is_spare: impl Fn() -> bool) {
        while let Some(step) = self.step(&is_spare) {
            match step {
                Step::Task(task) => match work(task, &mut || self.go_on()) {
                    Ok(result) => self.end_task(Some(result)),
                    Err(error) => self.fail(error),
                },
                Step::Errand(errand) => self.run(errand),
            }
        }
    }

    /// Waits for something that a helper can do.
    fn step(&self, is_spare: &impl Fn() -> bool) -> Option<Step<T>> {
        let mut state = self.state();
        loop {
            if self.go_on().is_err() {
                return None;
            }
            if let Some(errand) = state.errands.pop_front() {
                return Some(Step::Errand(errand));
            }
            if state.open == 0 || !is_spare() {
                return None;
            }
            if let Some(task) = state.tasks.next() {
                return Some(Step::Task(task));
            }
            state = self.idle(state);
        }
    }

    /// Waits until something has changed, or some time.
    fn idle<'a>(&'a self, mut state: MutexGuard<'a, State<T, R>>) -> MutexGuard<'a, State<T, R>> {
        state.idle += 1;
        let waited = self.changed.wait_timeout(state, WAIT);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.idle -= 1;
        state
    }

    /// Notes the end of a task, whose result the caller has or is to pass on.
    fn end_task(&self, result: Option<R>) {
        let mut state = self.state();
        state.open -= 1;
        state.finished.extend(result);
        drop(state);
        self.changed.notify_all();
    }

    /// Ends all tasks, unless they have ended already.
    fn fail(&self, error: WriteError) {
        let mut state = self.state();
        if self.go_on().is_ok() {
            state.error = Some(error);
            self.is_over.store(true, Ordering::Relaxed);
        }
        drop(state);
        self.changed.notify_all();
    }

    fn run(&self, errand: Errand) {
        if let Err(error) = errand() {
            self.fail(error);
        }
    }

    /// Notes that a helper takes no more tasks.
    fn leave(&self, panic: Option<Box<dyn Any + Send>>) {
        let mut state = self.state();
        state.helpers -= 1;
        if panic.is_some() {
            state.panic = panic;
            self.is_over.store(true, Ordering::Relaxed);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Does an errand, or waits until a helper has finished something or some time has passed. Returns false if no
    /// helper is at work.
    fn wait(&self) -> bool {
        let mut state = self.state();
        if state.helpers == 0 {
            return false;
        }
        if state.finished.is_empty() {
            if state.errands.is_empty() {
                state = self.idle(state);
            }
            let errand = state.errands.pop_front();
            drop(state);
            if let Some(errand) = errand {
                self.run(errand);
            }
        }
        true
    }
}

impl<T: Send, R: Send> Crew for Board<T, R> {
    fn is_idle(&self) -> bool {
        let state = self.state();
        state.idle > state.errands.len()
    }

    fn hand_over(&self, errand: Errand) -> Option<Errand> {
        let mut state = self.state();
        if state.idle <= state.errands.len() || self.go_on().is_err() {
            return Some(errand);
        }
        state.errands.push_back(errand);
        drop(state);
        self.changed.notify_all();
        None
    }

    fn help(&self) -> bool {
        let errand = self.state().errands.pop_front();
        errand.map(|errand| self.run(errand)).is_some()
    }
}

/// Ends the tasks of helpers when the caller has ended, also by a panic.
struct EndsOnDrop<'a, T, R>(&'a Board<T, R>, Introduce<'a>);

impl<T, R> Drop for EndsOnDrop<'_, T, R> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
        self.0.changed.notify_all();
        (self.1)(None);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use super::*;

    /// Steps after which a task gives up.
    const ENOUGH: usize = 10_000;
    const ONE_HELPER: Wanted = Wanted {
        helpers: 1,
        cores: usize::MAX,
    };

    /// Runs `other` as a task on a helper, while the caller does another task that returns at once.
    fn with_helper(
        patience: &mut Patience<'_>,
        other: impl Fn(Pause<'_>) -> Result<()> + Send + Sync + 'static,
        each: &mut dyn FnMut(()) -> Result<()>,
    ) -> Result<()> {
        let (both, here) = (Barrier::new(2), thread::current().id());
        let work = move |(), pause: Pause<'_>| {
            both.wait();
            if thread::current().id() == here {
                return Ok(());
            }
            other(pause)
        };
        side_by_side(vec![(), ()], ONE_HELPER, &|_| {}, patience, work, each)
    }

    /// A task that lasts until `is_over` or the pause ends it, and returns an error if nothing does.
    fn until(is_over: impl Fn() -> bool) -> impl Fn(Pause<'_>) -> Result<()> {
        move |pause| {
            for _ in 0..ENOUGH {
                if is_over() {
                    return Ok(());
                }
                pause()?;
                thread::sleep(Duration::from_millis(1));
            }
            Err(WriteError::Closed("nothing ended the task".into()))
        }
    }

    #[test]
    fn a_caller_without_patience_ends_what_another_thread_does() {
        let mut never = || false;
        let ended = with_helper(&mut Patience::new(&mut never), until(|| false), &mut Ok);
        assert!(matches!(ended, Err(WriteError::Interrupted)), "{ended:?}");
    }

    #[test]
    fn what_is_finished_is_passed_on_while_another_thread_works() {
        let (passed, mut always) = (Arc::new(AtomicUsize::new(0)), || true);
        let seen = Arc::clone(&passed);
        let is_over = until(move || seen.load(Ordering::Relaxed) > 0);
        let mut each = |()| {
            passed.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        with_helper(&mut Patience::new(&mut always), is_over, &mut each).unwrap();
        assert_eq!(passed.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn what_fails_while_another_thread_works_ends_it() {
        let mut always = || true;
        let mut each = |()| Err(WriteError::Closed("the disk is full".into()));
        let ended = with_helper(&mut Patience::new(&mut always), until(|| false), &mut each);
        assert_eq!(ended.unwrap_err().to_string(), "the disk is full");
    }

    #[test]
    fn the_error_of_a_helper_is_that_of_the_call() {
        let mut always = || true;
        let fails = |_: Pause<'_>| Err(WriteError::Closed("no memory".into()));
        let ended = with_helper(&mut Patience::new(&mut always), fails, &mut Ok);
        assert_eq!(ended.unwrap_err().to_string(), "no memory");
    }

    #[test]
    fn the_panic_of_a_helper_goes_on_in_the_caller() {
        let panics = |_: Pause<'_>| resume_unwind(Box::new("a bug"));
        let panicked = catch_unwind(|| {
            let mut always = || true;
            with_helper(&mut Patience::new(&mut always), panics, &mut Ok)
        });
        assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"a bug"));
    }

    /// Has the only task hand over an errand, and lasts until its end.
    fn with_errand(errand: impl Fn() -> Result<()> + Send + Sync + 'static) -> Result<()> {
        let (crew, mut always) = (Arc::new(Mutex::new(None::<Arc<dyn Crew>>)), || true);
        let (known, errand) = (Arc::clone(&crew), Arc::new(errand));
        let done = Arc::new(AtomicBool::new(false));
        let work = move |(), pause: Pause<'_>| {
            let crew = known.lock().unwrap().clone().unwrap();
            let (errand, is_done) = (Arc::clone(&errand), Arc::clone(&done));
            let mut left: Option<Errand> = Some(Box::new(move || {
                errand()?;
                is_done.store(true, Ordering::Relaxed);
                Ok(())
            }));
            for _ in 0..ENOUGH {
                left = left.and_then(|errand| crew.hand_over(errand));
                if done.load(Ordering::Relaxed) {
                    return Ok(());
                }
                pause()?;
                thread::sleep(Duration::from_millis(1));
            }
            Err(WriteError::Closed("nobody did the errand".into()))
        };
        let introduce = |members| *crew.lock().unwrap() = members;
        let patience = &mut Patience::new(&mut always);
        let ended = side_by_side(vec![()], ONE_HELPER, &introduce, patience, work, &mut Ok);
        assert!(crew.lock().unwrap().is_none());
        ended
    }

    #[test]
    fn an_idle_thread_does_the_errand_of_the_only_task() {
        with_errand(|| Ok(())).unwrap();
    }

    #[test]
    fn the_error_of_an_errand_is_that_of_the_call() {
        let ended = with_errand(|| Err(WriteError::Closed("the disk is full".into())));
        assert_eq!(ended.unwrap_err().to_string(), "the disk is full");
    }

    #[test]
    fn what_tasks_share_is_free_when_the_call_returns() {
        for _ in 0..100 {
            let (shared, mut always) = (Arc::new(()), || true);
            let held = Arc::clone(&shared);
            let work = move |(), _: Pause<'_>| {
                let _ = &held;
                Ok(())
            };
            side_by_side(
                vec![(); 8],
                ONE_HELPER,
                &|_| {},
                &mut Patience::new(&mut always),
                work,
                &mut Ok,
            )
            .unwrap();
            assert_eq!(Arc::strong_count(&shared), 1);
        }
    }
}
