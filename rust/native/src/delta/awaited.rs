//! Commits that tasks of asyncio wait for. A few threads take their steps, and none waits for an answer.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use delta_commit::{Version, WaitLimit};
use delta_table::{AnswerCallback, CommitAnswer, CommitStep, CommitWait, TableError};
use parquet_writer::WriteError;
use per_process::PerProcess;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::attention::limited;
use super::{DeltaAppend, DeltaTable};
use crate::errors::Failure;

/// The most threads of a process that take steps. The first step completes files, which takes a store its time.
const THREADS: usize = 16;

static DESK: PerProcess<Desk> = PerProcess::new();

/// The queue of the steps that can be taken.
#[derive(Default)]
struct Desk {
    line: Mutex<StepQueue>,
    bell: Condvar,
}

#[derive(Default)]
struct StepQueue {
    steps: VecDeque<(Arc<Awaited>, Option<CommitAnswer>)>,
    /// Commits that have not ended.
    under_way: usize,
    threads: usize,
    /// Threads that wait for a step.
    idle: usize,
    /// Commits whose loops were not told of their end yet.
    ended: Vec<Ended>,
    is_telling: bool,
    /// True once the interpreter ends: no loop is told any more.
    is_closed: bool,
}

/// A commit that has ended, with whether a checkpoint is due.
struct Ended {
    receiver: Receiver,
    done: Result<(Version, Result<bool, Failure>), Failure>,
}

/// The waiter of a commit, and its loop.
struct Receiver {
    event_loop: Py<PyAny>,
    waiter: Py<PyAny>,
}

/// A commit that a task waits for.
pub(super) struct Awaited {
    append: Py<DeltaAppend>,
    table: Py<DeltaTable>,
    deadline: Instant,
    /// The one to be told of the end; none once it has come.
    receiver: Mutex<Option<Receiver>>,
    /// The answer that it waits for.
    wait: Mutex<Option<CommitWait>>,
    /// True if the task was cancelled.
    is_left: Arc<AtomicBool>,
    /// True if the time is up.
    is_late: AtomicBool,
    process: u32,
}

/// The handle of such a commit for its task.
#[pyclass(module = "spillway._native", frozen)]
pub(crate) struct AwaitedCommit(Arc<Awaited>);

#[pymethods]
impl AwaitedCommit {
    /// Ends the wait of a task that was cancelled. Its waiter is still told of the end. Returns false in a forked
    /// child, where nobody tells it.
    fn leave(&self, py: Python<'_>) -> bool {
        self.0.is_left.store(true, Ordering::Release);
        py.detach(|| self.0.end_wait())
    }

    /// Ends the wait since the time is up.
    fn expire(&self, py: Python<'_>) {
        self.0.is_late.store(true, Ordering::Release);
        py.detach(|| self.0.end_wait());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Awaited {
    pub fn new(
        append: Py<DeltaAppend>,
        table: Py<DeltaTable>,
        deadline: Instant,
        event_loop: Py<PyAny>,
        waiter: Py<PyAny>,
    ) -> Arc<Self> {
        Arc::new(Self {
            append,
            table,
            deadline,
            receiver: Mutex::new(Some(Receiver { event_loop, waiter })),
            wait: Mutex::new(None),
            is_left: Arc::default(),
            is_late: AtomicBool::new(false),
            process: std::process::id(),
        })
    }

    /// Has the first step taken.
    ///
    /// # Errors
    /// No thread can be started. Nothing was begun then.
    pub fn begin(self: Arc<Self>) -> Result<AwaitedCommit, Failure> {
        let desk = DESK.get_or_init(Desk::default);
        let mut line = lock(&desk.line);
        if line.is_closed {
            // Nobody would be told of its end.
            let ending =
                "the interpreter is ending, and no event loop is told of commits any more: use commit()";
            return Err(PyRuntimeError::new_err(ending).into());
        }
        line.under_way += 1;
        if let Err(source) = desk.put(&mut line, (Arc::clone(&self), None)) {
            line.under_way -= 1;
            return Err(WriteError::Io { path: None, source }.into());
        }
        drop(line);
        Ok(AwaitedCommit(self))
    }

    /// Takes a step. Returns none when the commit waits for another answer.
    fn step(self: &Arc<Self>, answer: Option<CommitAnswer>) -> Result<Option<Version>, Failure> {
        let is_left = Arc::clone(&self.is_left);
        delta_commit::serve_until(move || is_left.load(Ordering::Acquire));
        let _limited = limited(self.deadline);
        let (mut stays, mut goes_on) = (|| self.stays(), || self.stays());
        let mut wait = WaitLimit::while_asked(self.deadline, &mut stays);
        self.append.get().append.take(|append| {
            let reply = self.reply();
            let step = match answer {
                None => append.post(&mut wait, &mut goes_on, &reply),
                Some(answer) => append.resume(answer, &mut wait, &reply),
            };
            match step {
                CommitStep::Waits(wait) => {
                    // Before the append is free again: its answer may be there already, and lead to another wait.
                    *lock(&self.wait) = Some(wait);
                    Ok(None)
                }
                CommitStep::Ended(done) => Ok(Some(done?)),
            }
        })
    }

    /// The function that queues the step for an answer.
    fn reply(self: &Arc<Self>) -> AnswerCallback {
        let awaited = Arc::clone(self);
        Arc::new(move |answer| {
            let desk = DESK.get_or_init(Desk::default);
            // There is a thread as long as a commit is under way.
            let _ = desk.put(&mut lock(&desk.line), (Arc::clone(&awaited), Some(answer)));
        })
    }

    fn stays(&self) -> bool {
        !self.is_left.load(Ordering::Acquire)
    }

    /// Ends the wait, if there is one. Returns false in a forked child, which may not.
    fn end_wait(&self) -> bool {
        if self.process != std::process::id() {
            return false;
        }
        let wait = lock(&self.wait).clone();
        if let Some(wait) = wait {
            wait.end();
        }
        true
    }

    /// Notes the end of the commit.
    fn end(&self, desk: &Desk, done: Result<Version, Failure>) {
        let Some(receiver) = lock(&self.receiver).take() else {
            return;
        };
        *lock(&self.wait) = None;
        // Asked here: a store may take its time, and the loop has none.
        let is_due = |version| catch_unwind(AssertUnwindSafe(|| self.is_checkpoint_due(version)));
        let done = done.map(|version| (version, is_due(version).unwrap_or(Ok(false))));
        let mut line = lock(&desk.line);
        line.under_way -= 1;
        if line.under_way == 0 {
            desk.bell.notify_all();
        }
        if line.is_closed {
            return;
        }
        line.ended.push(Ended { receiver, done });
        if line.is_telling {
            return;
        }
        line.is_telling = true;
        drop(line);
        desk.tell();
    }

    fn is_checkpoint_due(&self, version: Version) -> Result<bool, Failure> {
        let due: Result<bool, TableError> = self.table.get().table.is_checkpoint_due(version);
        Ok(due?)
    }
}

impl Desk {
    /// Queues a step, and sees to a thread for it.
    fn put(
        &'static self,
        line: &mut StepQueue,
        step: (Arc<Awaited>, Option<CommitAnswer>),
    ) -> io::Result<()> {
        line.steps.push_back(step);
        if line.idle >= line.steps.len() {
            self.bell.notify_one();
        } else if line.threads < THREADS {
            let begun = thread::Builder::new()
                .name("spillway-commit".to_owned())
                .spawn(|| self.work());
            match begun {
                Ok(_) => line.threads += 1,
                Err(error) if line.threads == 0 => {
                    line.steps.pop_back();
                    return Err(error);
                }
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Takes steps until there are none.
    fn work(&self) {
        while let Some((awaited, answer)) = self.next() {
            match awaited.step(answer) {
                Ok(Some(version)) => awaited.end(self, Ok(version)),
                Err(failure) => awaited.end(self, Err(failure)),
                Ok(None) => {
                    if !awaited.stays() || awaited.is_late.load(Ordering::Acquire) {
                        awaited.end_wait();
                    }
                }
            }
        }
    }

    /// The next step; none when the thread is to end. One thread stays as long as commits are under way: when their
    /// answers come, the system may not have another one.
    fn next(&self) -> Option<(Arc<Awaited>, Option<CommitAnswer>)> {
        let mut line = lock(&self.line);
        loop {
            if let Some(step) = line.steps.pop_front() {
                return Some(step);
            }
            if line.threads > 1 || line.under_way == 0 {
                line.threads -= 1;
                return None;
            }
            line.idle += 1;
            line = self.bell.wait(line).unwrap_or_else(PoisonError::into_inner);
            line.idle -= 1;
        }
    }

    /// Tells loops of the commits that have ended, until there are no more. Those that end while this thread waits for
    /// the GIL are told together.
    fn tell(&self) {
        loop {
            let told = Python::try_attach(|py| {
                let ended = std::mem::take(&mut lock(&self.line).ended);
                tell_loops(py, ended);
            });
            let mut line = lock(&self.line);
            if told.is_none() || line.is_closed {
                line.ended.clear();
            }
            if line.ended.is_empty() {
                line.is_telling = false;
                self.bell.notify_all();
                return;
            }
        }
    }
}

/// Ends the telling of loops, before the interpreter ends: a thread that Python stops in the middle of a call takes the
/// process down.
#[pyfunction]
pub(crate) fn stop_telling_loops(py: Python<'_>) {
    py.detach(|| {
        let Some(desk) = DESK.get() else {
            return;
        };
        let mut line = lock(&desk.line);
        line.is_closed = true;
        while line.is_telling {
            line = desk.bell.wait(line).unwrap_or_else(PoisonError::into_inner);
        }
    });
}

/// Tells each loop of its commits, by one call.
fn tell_loops(py: Python<'_>, ended: Vec<Ended>) {
    let mut by_loop: Vec<(Py<PyAny>, Vec<Bound<'_, PyTuple>>)> = Vec::new();
    for Ended { receiver, done } in ended {
        let Receiver { event_loop, waiter } = receiver;
        let Ok(told) = outcome(py, done).and_then(|outcome| (waiter, outcome).into_pyobject(py)) else {
            continue;
        };
        match by_loop.iter_mut().find(|(known, _)| known.is(&event_loop)) {
            Some((_, all)) => all.push(told),
            None => by_loop.push((event_loop, vec![told])),
        }
    }
    for (event_loop, all) in by_loop {
        let event_loop = event_loop.bind(py);
        if let Err(error) = schedule(event_loop, all) {
            // A loop that is closed has no task that waits.
            let is_closed = event_loop
                .call_method0("is_closed")
                .and_then(|closed| closed.is_truthy());
            if !is_closed.unwrap_or(false) {
                error.write_unraisable(py, Some(event_loop));
            }
        }
    }
}

fn schedule(event_loop: &Bound<'_, PyAny>, all: Vec<Bound<'_, PyTuple>>) -> PyResult<()> {
    let py = event_loop.py();
    let settle = py.import("spillway.delta._awaited")?.getattr("settle")?;
    let all = PyList::new(py, all)?;
    event_loop.call_method1("call_soon_threadsafe", (settle, all))?;
    Ok(())
}

/// The outcome as its task takes it: the version with whether a checkpoint is due, or an exception.
fn outcome(
    py: Python<'_>,
    done: Result<(Version, Result<bool, Failure>), Failure>,
) -> PyResult<Bound<'_, PyAny>> {
    let raised = |failure: Failure| failure.into_py(py).into_value(py).into_bound(py).into_any();
    let (version, due) = match done {
        Ok(done) => done,
        Err(failure) => return Ok(raised(failure)),
    };
    Ok(match due {
        Ok(due) => (version, due).into_pyobject(py)?.into_any(),
        Err(failure) => (version, raised(failure)).into_pyobject(py)?.into_any(),
    })
}
