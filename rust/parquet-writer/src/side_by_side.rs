//! Tasks that several threads do.
//!
//! The calling thread takes one task after the other, and so do its helpers. It also looks after the caller: whether
//! the work should go on, and what the finished tasks gave, which it passes on as they come.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Result, WriteError};
use crate::helpers::{Busy, Done, Wanted};
use crate::row_group::Patience;

/// The longest time that the calling thread waits for others at a stretch.
const WAIT: Duration = Duration::from_millis(50);

/// The function that tasks must call now and then. It returns an error when they should end.
pub(crate) type Pause<'a> = &'a mut dyn FnMut() -> Result<()>;

/// Does the tasks in their order, each on the next free thread, and passes on what they return, in the order in which
/// they end. The first error ends all tasks. A panic of a helper goes on in the calling thread.
///
/// # Errors
/// That of a task or of `each`, or [`WriteError::Interrupted`] when the caller's patience ends.
pub(crate) fn side_by_side<T: Send + 'static, R: Send + 'static>(
    tasks: Vec<T>,
    wanted: Wanted,
    patience: &mut Patience<'_>,
    work: impl Fn(T, Pause<'_>) -> Result<R> + Send + Sync + 'static,
    each: &mut dyn FnMut(R) -> Result<()>,
) -> Result<()> {
    let caller = Busy::caller();
    let helpers = wanted.helpers.min(tasks.len().saturating_sub(1));
    let board = Arc::new(Board::new(tasks));
    let work = Arc::new(work);
    let ends = EndsOnDrop(&board);
    let done = (|| {
        loop {
            while board.has_work_for(helpers) && call(&caller, wanted.cores, &board, &work) {}
            let Some(task) = board.next() else { break };
            each(work(task, &mut || {
                board.go_on()?;
                patience.check()
            })?)?;
            board.finished().into_iter().try_for_each(&mut *each)?;
        }
        while board.wait() {
            board.finished().into_iter().try_for_each(&mut *each)?;
            board.go_on()?;
            patience.check()?;
        }
        board.finished().into_iter().try_for_each(each)
    })();
    drop(ends);
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
    let called = caller.call(cores, move |busy| {
        let is_spare = || !busy.is_beyond(cores);
        let outcome = catch_unwind(AssertUnwindSafe(|| their_board.serve(work.as_ref(), is_spare)));
        // What the tasks borrow from the caller is free before it goes on.
        drop(work);
        let done: Done = Box::new(move || their_board.leave(outcome.err()));
        done
    });
    if !called {
        board.state().helpers -= 1;
    }
    called
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
}

impl<T, R> Board<T, R> {
    fn new(tasks: Vec<T>) -> Self {
        Self {
            state: Mutex::new(State {
                tasks: tasks.into_iter(),
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

    /// Returns true if one more helper of at most `helpers` would find a task beside the caller.
    fn has_work_for(&self, helpers: usize) -> bool {
        let state = self.state();
        state.helpers < helpers && state.tasks.len() > 1
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

    /// Does tasks on a helper, as long as there are some and the helper is spare.
    fn serve(&self, work: &dyn Fn(T, Pause<'_>) -> Result<R>, is_spare: impl Fn() -> bool) {
        while self.go_on().is_ok()
            && is_spare()
            && let Some(task) = self.next()
        {
            let result = work(task, &mut || self.go_on());
            let mut state = self.state();
            match result {
                Ok(result) => state.finished.push(result),
                Err(error) if self.go_on().is_ok() => {
                    state.error = Some(error);
                    self.is_over.store(true, Ordering::Relaxed);
                }
                Err(_) => {}
            }
            drop(state);
            self.changed.notify_one();
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
        self.changed.notify_one();
    }

    /// Waits until a helper has finished something or some time has passed. Returns false if there is none at work.
    fn wait(&self) -> bool {
        let state = self.state();
        if state.helpers == 0 {
            return false;
        }
        if state.finished.is_empty() {
            let waited = self.changed.wait_timeout(state, WAIT);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
        true
    }
}

/// Ends the tasks of helpers when the caller has ended, also by a panic.
struct EndsOnDrop<'a, T, R>(&'a Board<T, R>);

impl<T, R> Drop for EndsOnDrop<'_, T, R> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
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
        side_by_side(vec![(), ()], ONE_HELPER, patience, work, each)
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
                &mut Patience::new(&mut always),
                work,
                &mut Ok,
            )
            .unwrap();
            assert_eq!(Arc::strong_count(&shared), 1);
        }
    }
}
