//! Signals seen in waits.

use std::cell::{Cell, RefCell};
use std::io;
use std::time::{Duration, Instant};

use delta_commit::{Version, WaitLimit};
use delta_table::TableError;
use object_sink::Attend;
use pyo3::prelude::*;

use crate::errors::Failure;
use crate::turn::{self, check_signals, ended, is_raised, keep_raised, note_signals, take_raised};

/// Seconds: longer than any program runs, and too few to overflow.
const FOREVER: f64 = 1e8;

/// Python runs signal handlers in its main thread alone.
fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    main.eq(threading.call_method0("get_ident")?)
}

/// The check that the calling thread runs during an upload. Only the main thread looks for signals: thousands of others
/// would only take the GIL from each other. An exception of a signal handler is kept for the caller: between it and the
/// upload there may be code that cannot return it.
pub(crate) fn attention() -> Attend {
    if !is_main_here() {
        return Box::new(unless_abandoned);
    }
    turn::watch()
}

/// Returns true if the calling thread is Python's main thread. Threads that serve commits of others, and those that
/// delete announcements, are not Python's, and must not wait for the GIL.
fn is_main_here() -> bool {
    if delta_commit::is_serving() {
        return false;
    }
    Python::attach(is_main_thread).unwrap_or_else(|raised| {
        // It runs Python, and with it the handler of a signal that has come: what that raises must not be lost.
        keep_raised(raised);
        true
    })
}

fn unless_abandoned() -> io::Result<()> {
    if delta_commit::is_abandoned() {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody waits any more"));
    }
    Ok(())
}

thread_local! {
    /// The deadline of the calling thread's requests.
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Restores the former deadline, also after a panic.
#[must_use]
pub(super) struct Limited(Option<Instant>);

/// Gives the requests of the calling thread a deadline.
pub(super) fn limited(deadline: Instant) -> Limited {
    Limited(DEADLINE.replace(Some(deadline)))
}

impl Drop for Limited {
    fn drop(&mut self) {
        DEADLINE.set(self.0);
    }
}

/// The check that the calling thread runs while a store does not answer. An exception of a signal handler is kept for
/// the caller.
pub(crate) fn watch() -> Attend {
    let is_main = is_main_here();
    Box::new(move || {
        unless_abandoned()?;
        if DEADLINE.get().is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the time was up"));
        }
        if is_main {
            note_signals();
        }
        if is_raised() {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "a signal came"));
        }
        Ok(())
    })
}

/// A waiting caller: its thread and its deadline.
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    /// True on the main thread. Other threads need not take the GIL to look for signals.
    is_main: bool,
    wait: Duration,
    deadline: Instant,
}

impl Caller {
    /// The calling thread; without a number of seconds, it waits for ever.
    pub fn of(py: Python<'_>, seconds: Option<f64>) -> PyResult<Self> {
        let seconds = seconds.unwrap_or(FOREVER);
        if !(seconds.is_finite() && seconds >= 0.0) {
            let message = format!(
                "timeout={seconds} is not accepted: give seconds, none or more, or None to wait for ever"
            );
            return Err(Failure::from(TableError::option("timeout", message)).into_py(py));
        }
        let wait = Duration::from_secs_f64(seconds.min(FOREVER));
        Ok(Self {
            is_main: is_main_thread(py)?,
            wait,
            deadline: Instant::now() + wait,
        })
    }

    /// The same caller, whose time begins now.
    pub fn anew(self) -> Self {
        Self {
            deadline: Instant::now() + self.wait,
            ..self
        }
    }

    /// The end of its time.
    pub fn deadline(self) -> Instant {
        self.deadline
    }

    /// Runs a wait that a signal can end. The handler's exception is raised, with the outcome of the work as its cause.
    pub fn wait<T>(
        self,
        work: impl FnOnce(&mut WaitLimit<'_>, &mut dyn FnMut() -> bool) -> Result<T, TableError>,
    ) -> Result<T, Failure> {
        let raised = RefCell::new(None);
        let mut go_on = || self.go_on(&raised);
        // Thousands of threads that looked up twenty times a second would leave the processor no time for work.
        let mut wait = if self.is_main {
            WaitLimit::while_asked(self.deadline, &mut go_on)
        } else {
            WaitLimit::until(self.deadline)
        };
        let limited = limited(self.deadline);
        let done = work(&mut wait, &mut || self.go_on(&raised));
        drop(limited);
        ended(
            done.map_err(Failure::from),
            raised.into_inner().or_else(take_raised),
        )
    }

    /// Runs a commit. If it succeeds although a signal handler raised, the exception carries the version.
    pub fn commit(
        self,
        work: impl FnOnce(&mut WaitLimit<'_>, &mut dyn FnMut() -> bool) -> Result<Version, TableError>,
    ) -> Result<Version, Failure> {
        let mut committed = None;
        let done = self.wait(|wait, go_on| {
            let version = work(wait, go_on)?;
            committed = Some(version);
            Ok(version)
        });
        match (done, committed) {
            (Err(failure @ Failure::Python(_)), Some(version)) => Err(noted(failure, version)),
            (done, _) => done,
        }
    }

    /// Runs the handlers of signals that have come.
    pub fn check(self) -> Result<(), Failure> {
        if self.is_main {
            check_signals()?;
        }
        Ok(())
    }

    fn go_on(self, raised: &RefCell<Option<PyErr>>) -> bool {
        let look = || if self.is_main { check_signals().err() } else { None };
        let mut raised = raised.borrow_mut();
        *raised = raised.take().or_else(take_raised).or_else(look);
        raised.is_none()
    }
}

/// Adds the version that was committed before a failure to its exception.
pub(super) fn noted(failure: Failure, version: Version) -> Failure {
    Failure::Python(Python::attach(|py| {
        let raised = failure.into_py(py);
        let note = format!("the commit was done before: it is in version {version}");
        // Without its note it is still what the handler raised.
        let _ = raised.value(py).call_method1("add_note", (note,));
        raised
    }))
}
