//! Runs tasks on the calling thread and on helper threads.
//!
//! The calling thread takes tasks from the same queue as the helpers. Between tasks it checks for interrupts and passes
//! results on, as they come.
//!
//! A thread that finds the queue empty runs subtasks of the tasks that are still running: full pages of a long column
//! are compressed by idle threads. A task submits a subtask only while a thread is idle, and runs the others itself.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Result, WriteError};
use crate::row_group::Patience;
use crate::thread_pool::{ActiveThread, DoneCallback, Wanted};

/// The longest time that the calling thread waits for others at a stretch.
const WAIT: Duration = Duration::from_millis(50);
/// The most threads that one task can use: its subtasks take about twice the time of the rest.
const THREADS_FOR_A_TASK: usize = 3;

/// The function that tasks must call now and then. It returns an error when they should end.
pub(crate) type Pause<'a> = &'a mut dyn FnMut() -> Result<()>;

/// A part of a task that another thread may do.
pub(crate) type Subtask = Box<dyn FnOnce() -> Result<()> + Send>;

/// The subtasks of one call of [`run_tasks`].
pub(crate) trait Subtasks: Send + Sync {
    /// Returns true if a thread has nothing to do.
    fn has_idle_thread(&self) -> bool;

    /// Queues a subtask for an idle thread. Returns it if no thread is idle.
    fn submit(&self, subtask: Subtask) -> Option<Subtask>;

    /// Runs a queued subtask on the calling thread. Returns false if the queue is empty.
    fn run_one(&self) -> bool;
}

/// Tells the tasks where to submit subtasks; `None` when the call ends.
pub(crate) type SetSubtasks<'a> = &'a dyn Fn(Option<Arc<dyn Subtasks>>);

/// Runs tasks in order, each on the next free thread, and passes their results to `each` in the order in which they
/// end. The first error ends all tasks. The panic of a helper is resumed in the calling thread.
///
/// # Errors
/// The first error of a task or of `each`, or [`WriteError::Interrupted`] when the caller's patience ends.
pub(crate) fn run_tasks<T: Send + 'static, R: Send + 'static>(
    tasks: Vec<T>,
    wanted: Wanted,
    set_subtasks: SetSubtasks<'_>,
    patience: &mut Patience<'_>,
    work: impl Fn(T, Pause<'_>) -> Result<R> + Send + Sync + 'static,
    each: &mut dyn FnMut(R) -> Result<()>,
) -> Result<()> {
    let caller = ActiveThread::caller();
    let helpers = wanted
        .helpers
        .min((THREADS_FOR_A_TASK * tasks.len()).saturating_sub(1));
    let queue = Arc::new(TaskQueue::new(tasks));
    let work = Arc::new(work);
    set_subtasks(Some(Arc::clone(&queue) as _));
    let over = EndsOnDrop(&queue, set_subtasks);
    let done = (|| {
        loop {
            while queue.has_work_for(helpers) && call(&caller, wanted.cores, &queue, &work) {}
            let Some(task) = queue.next() else { break };
            let result = work(task, &mut || {
                queue.go_on()?;
                patience.check()
            })?;
            queue.end_task(None);
            each(result)?;
            queue.finished().into_iter().try_for_each(&mut *each)?;
        }
        while queue.wait() {
            queue.finished().into_iter().try_for_each(&mut *each)?;
            queue.go_on()?;
            patience.check()?;
        }
        queue.finished().into_iter().try_for_each(each)
    })();
    drop(over);
    while queue.wait() {
        queue.finished();
    }
    let mut state = queue.state();
    if let Some(panic) = state.panic.take() {
        drop(state);
        resume_unwind(panic);
    }
    // What ended the other tasks comes before what they ended with.
    state.error.take().map_or(done, Err)
}

/// Has a helper take tasks. Returns false if no helper is available.
fn call<T: Send + 'static, R: Send + 'static>(
    caller: &ActiveThread,
    cores: usize,
    queue: &Arc<TaskQueue<T, R>>,
    work: &Arc<impl Fn(T, Pause<'_>) -> Result<R> + Send + Sync + 'static>,
) -> bool {
    let (their_queue, work) = (Arc::clone(queue), Arc::clone(work));
    queue.state().helpers += 1;
    let has_come = caller.call(cores, move |busy| {
        let is_spare = || !busy.is_beyond(cores);
        let outcome = catch_unwind(AssertUnwindSafe(|| their_queue.serve(work.as_ref(), is_spare)));
        // What the tasks borrow from the caller is free before it goes on.
        drop(work);
        let done: DoneCallback = Box::new(move || their_queue.leave(outcome.err()));
        done
    });
    if !has_come {
        queue.state().helpers -= 1;
    }
    has_come
}

/// The tasks of one call, and their results.
struct TaskQueue<T, R> {
    state: Mutex<QueueState<T, R>>,
    changed: Condvar,
    is_over: AtomicBool,
}

struct QueueState<T, R> {
    tasks: std::vec::IntoIter<T>,
    finished: Vec<R>,
    /// The first error of a helper.
    error: Option<WriteError>,
    panic: Option<Box<dyn Any + Send>>,
    /// Helpers that take tasks.
    helpers: usize,
    /// Tasks that are not done.
    open: usize,
    /// Queued subtasks, and the number of threads that wait for one.
    subtasks: VecDeque<Subtask>,
    idle: usize,
}

/// What a helper does next.
enum HelperTask<T> {
    Task(T),
    Subtask(Subtask),
}

impl<T, R> TaskQueue<T, R> {
    fn new(tasks: Vec<T>) -> Self {
        Self {
            state: Mutex::new(QueueState {
                open: tasks.len(),
                tasks: tasks.into_iter(),
                subtasks: VecDeque::new(),
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

    fn state(&self) -> MutexGuard<'_, QueueState<T, R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<T> {
        self.state().tasks.next()
    }

    /// Returns true if one more helper of at most `helpers` would find a task beside the caller, or subtasks of one.
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

    /// Runs tasks and subtasks on a helper, as long as tasks are open and the helper is spare.
    fn serve(&self, work: &dyn Fn(T, Pause<'_>) -> Result<R>, is_spare: impl Fn() -> bool) {
        while let Some(step) = self.step(&is_spare) {
            match step {
                HelperTask::Task(task) => match work(task, &mut || self.go_on()) {
                    Ok(result) => self.end_task(Some(result)),
                    Err(error) => self.fail(error),
                },
                HelperTask::Subtask(subtask) => self.run(subtask),
            }
        }
    }

    /// Waits for something that a helper can do.
    fn step(&self, is_spare: &impl Fn() -> bool) -> Option<HelperTask<T>> {
        let mut state = self.state();
        loop {
            if self.go_on().is_err() {
                return None;
            }
            if let Some(subtask) = state.subtasks.pop_front() {
                return Some(HelperTask::Subtask(subtask));
            }
            if state.open == 0 || !is_spare() {
                return None;
            }
            if let Some(task) = state.tasks.next() {
                return Some(HelperTask::Task(task));
            }
            state = self.idle(state);
        }
    }

    /// Waits until something has changed, or some time.
    fn idle<'a>(&'a self, mut state: MutexGuard<'a, QueueState<T, R>>) -> MutexGuard<'a, QueueState<T, R>> {
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

    fn run(&self, subtask: Subtask) {
        if let Err(error) = subtask() {
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

    /// Runs a subtask, or waits until a helper has finished something or some time has passed. Returns false if no
    /// helper is at work.
    fn wait(&self) -> bool {
        let mut state = self.state();
        if state.helpers == 0 {
            return false;
        }
        if state.finished.is_empty() {
            if state.subtasks.is_empty() {
                state = self.idle(state);
            }
            let subtask = state.subtasks.pop_front();
            drop(state);
            if let Some(subtask) = subtask {
                self.run(subtask);
            }
        }
        true
    }
}

impl<T: Send, R: Send> Subtasks for TaskQueue<T, R> {
    fn has_idle_thread(&self) -> bool {
        let state = self.state();
        state.idle > state.subtasks.len()
    }

    fn submit(&self, subtask: Subtask) -> Option<Subtask> {
        let mut state = self.state();
        if state.idle <= state.subtasks.len() || self.go_on().is_err() {
            return Some(subtask);
        }
        state.subtasks.push_back(subtask);
        drop(state);
        self.changed.notify_all();
        None
    }

    fn run_one(&self) -> bool {
        let subtask = self.state().subtasks.pop_front();
        subtask.map(|subtask| self.run(subtask)).is_some()
    }
}

/// Ends the tasks of helpers when the caller has ended, also by a panic.
struct EndsOnDrop<'a, T, R>(&'a TaskQueue<T, R>, SetSubtasks<'a>);

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
        run_tasks(vec![(), ()], ONE_HELPER, &|_| {}, patience, work, each)
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

    /// Has the only task submit a subtask, and lasts until its end.
    fn with_subtask(subtask: impl Fn() -> Result<()> + Send + Sync + 'static) -> Result<()> {
        let (subtasks, mut always) = (Arc::new(Mutex::new(None::<Arc<dyn Subtasks>>)), || true);
        let (known, subtask) = (Arc::clone(&subtasks), Arc::new(subtask));
        let done = Arc::new(AtomicBool::new(false));
        let work = move |(), pause: Pause<'_>| {
            let subtasks = known.lock().unwrap().clone().unwrap();
            let (subtask, is_done) = (Arc::clone(&subtask), Arc::clone(&done));
            let mut left: Option<Subtask> = Some(Box::new(move || {
                subtask()?;
                is_done.store(true, Ordering::Relaxed);
                Ok(())
            }));
            for _ in 0..ENOUGH {
                left = left.and_then(|subtask| subtasks.submit(subtask));
                if done.load(Ordering::Relaxed) {
                    return Ok(());
                }
                pause()?;
                thread::sleep(Duration::from_millis(1));
            }
            Err(WriteError::Closed("nobody did the subtask".into()))
        };
        let set_subtasks = |members| *subtasks.lock().unwrap() = members;
        let patience = &mut Patience::new(&mut always);
        let ended = run_tasks(vec![()], ONE_HELPER, &set_subtasks, patience, work, &mut Ok);
        assert!(subtasks.lock().unwrap().is_none());
        ended
    }

    #[test]
    fn an_idle_thread_does_the_subtask_of_the_only_task() {
        with_subtask(|| Ok(())).unwrap();
    }

    #[test]
    fn the_error_of_a_subtask_is_that_of_the_call() {
        let ended = with_subtask(|| Err(WriteError::Closed("the disk is full".into())));
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
            run_tasks(
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
