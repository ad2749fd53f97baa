//! Turns: threads that use one writer wait for each other.

use std::any::Any;
use std::cell::RefCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use delta_table::Append;
use object_sink::Attend;
use parquet_dataset::DatasetWriter;
use parquet_writer::{Batch, FileWriter, WriteError};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::errors::Failure;
use crate::heap;

/// A writer that threads use in turns.
pub(crate) trait Takes: Send {
    /// Returns true if it takes no more batches.
    fn is_closed(&self) -> bool;

    /// Gives up what it writes.
    fn abort(&mut self);

    /// The batches that it held and needs no more.
    fn released(&mut self) -> Vec<Batch>;
}

macro_rules! takes {
    ($($writer:ty),*) => {
        $(impl Takes for $writer {
            fn is_closed(&self) -> bool {
                Self::is_closed(self)
            }

            fn abort(&mut self) {
                Self::abort(self);
            }

            fn released(&mut self) -> Vec<Batch> {
                Self::released(self)
            }
        })*
    };
}

takes!(FileWriter, DatasetWriter, Append);

/// A writer that any thread may use, one at a time.
pub(crate) struct Turns<T: Takes> {
    writer: Mutex<T>,
    /// The thread whose turn it is, by the address of something it owns; 0 for none.
    turn: AtomicUsize,
    closed: AtomicBool,
    process: u32,
}

impl<T: Takes> Turns<T> {
    pub fn new(writer: T) -> Self {
        Self {
            writer: Mutex::new(writer),
            turn: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            process: std::process::id(),
        }
    }

    /// Returns true if the writer takes no more batches. Does not wait for a turn.
    pub fn closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Waits for this thread's turn and runs `work`. The GIL is not held.
    pub fn take<R>(&self, work: impl FnOnce(&mut T) -> Result<R, Failure>) -> Result<R, Failure> {
        if self.process != std::process::id() {
            return Err(WriteError::Closed(
                "the writer belongs to another process: open one after the fork".into(),
            )
            .into());
        }
        let me = thread_mark();
        if self.turn.load(Ordering::Relaxed) == me {
            return Err(
                PyRuntimeError::new_err("the writer was called from inside one of its own calls").into(),
            );
        }
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        self.turn.store(me, Ordering::Relaxed);
        // Also after a panic the turn is over.
        let done = catch_unwind(AssertUnwindSafe(|| work(&mut writer)));
        self.closed.store(writer.is_closed(), Ordering::Release);
        let done = done.unwrap_or_else(|panic| {
            writer.abort();
            self.closed.store(true, Ordering::Release);
            Err(Failure::Panic(words_of(panic.as_ref())))
        });
        let released = writer.released();
        self.turn.store(0, Ordering::Relaxed);
        drop(writer);
        // Their producer is told when the writer is no longer locked.
        drop(released);
        heap::after_call(self.closed());
        done
    }

    /// Aborts the writer. In a forked child it does nothing: the writer is its parent's.
    pub fn abort(&self, py: Python<'_>) -> PyResult<()> {
        if self.process != std::process::id() {
            return Ok(());
        }
        detached(py, || {
            self.take(|writer| {
                writer.abort();
                Ok(())
            })
        })
    }
}

impl<T: Takes> Drop for Turns<T> {
    /// Removes what was written. The GIL is released, because a store may be slow to answer.
    fn drop(&mut self) {
        if self.closed() {
            return;
        }
        let _ = Python::try_attach(|py| {
            keeping_raised(py, || {
                if let Err(error) = self.abort(py) {
                    error.write_unraisable(py, None);
                }
            });
        });
    }
}

/// Runs Python code from a destructor. An exception may be propagating at the time, and the code would clear it.
pub(crate) fn keeping_raised<R>(py: Python<'_>, call: impl FnOnce() -> R) -> R {
    let raised = PyErr::take(py);
    let done = call();
    if let Some(raised) = raised {
        raised.restore(py);
    }
    done
}

/// The words that a panic left.
fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no words").into()
}

/// Runs `work` without the GIL.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let done = py.detach(|| ended(work(), take_raised()));
    done.map_err(|failure| failure.into_py(py))
}

/// The end of work during which a signal handler may have raised: its exception comes first, with the error of the work
/// as its cause, which is often what it made of the signal.
pub(crate) fn ended<T>(done: Result<T, Failure>, raised: Option<PyErr>) -> Result<T, Failure> {
    match (done, raised) {
        (done, None) => done,
        (Ok(_) | Err(Failure::Write(WriteError::Interrupted)), Some(raised)) => Err(raised.into()),
        (Err(failure), Some(raised)) => Err(Python::attach(|py| {
            raised.set_cause(py, Some(failure.into_py(py)));
            raised.into()
        })),
    }
}

thread_local! {
    /// An exception of a signal handler, raised while this thread waited in code that cannot return it.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Runs signal handlers, and keeps the exception of one that raises.
pub(crate) fn note_signals() {
    if is_raised() {
        return;
    }
    if let Err(raised) = check_signals() {
        keep_raised(raised);
    }
}

/// Keeps the exception of a signal handler for the caller, unless there is one already.
pub(crate) fn keep_raised(raised: PyErr) {
    if !is_raised() {
        RAISED.set(Some(raised));
    }
}

pub(crate) fn is_raised() -> bool {
    RAISED.with_borrow(Option::is_some)
}

/// Takes the exception of a signal handler out, if there is one.
pub(crate) fn take_raised() -> Option<PyErr> {
    RAISED.take()
}

/// A number that no two living threads share.
pub(crate) fn thread_mark() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark) as usize)
}

/// Ends the wait for a store with the exception of a signal handler.
pub(crate) fn attend() -> io::Result<()> {
    note_signals();
    take_raised().map_or(Ok(()), |raised| Err(io::Error::other(raised)))
}

/// The check that a thread makes while several requests to a store are under way. The exception of a signal handler is
/// kept for the caller: between it and the store there is code that cannot return it.
pub(crate) fn watch() -> Attend {
    Box::new(|| {
        note_signals();
        if is_raised() {
            // Whoever writes tries again after `Interrupted`.
            return Err(io::Error::new(io::ErrorKind::TimedOut, "a signal came"));
        }
        Ok(())
    })
}

/// Runs the handlers of signals that have come.
#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method alone is one of a single lifetime"
)]
pub(crate) fn check_signals() -> PyResult<()> {
    Python::attach(|py| py.check_signals())
}

/// Runs `work` with a check for signals. A handler's exception is the error then.
pub(crate) fn interruptible(
    work: impl FnOnce(&mut dyn FnMut() -> bool) -> Result<(), WriteError>,
) -> Result<(), Failure> {
    let mut raised = None;
    let done = work(&mut || {
        raised = raised.take().or_else(|| check_signals().err());
        raised.is_none()
    });
    ended(done.map_err(Failure::from), raised)
}
