//! Signals seen in waits.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use delta_commit::Patience;
use delta_table::TableError;
use pyo3::prelude::*;

use crate::errors::Failure;
use crate::turn::check_signals;

/// Longer than any program runs, and no overflow.
const FOREVER: f64 = 1e8;

/// A wait that a signal can end.
pub(crate) struct Attention {
    /// Python runs signal handlers in its main thread alone: other threads need not take the GIL to look.
    is_main: bool,
    raised: RefCell<Option<Failure>>,
    deadline: Instant,
}

impl Attention {
    /// A wait of the calling thread; without a number of seconds, for ever.
    pub fn new(py: Python<'_>, seconds: Option<f64>) -> PyResult<(bool, Instant)> {
        let threading = py.import("threading")?;
        let main = threading.call_method0("main_thread")?.getattr("ident")?;
        let here = threading.call_method0("get_ident")?;
        let seconds = seconds.unwrap_or(FOREVER).clamp(0.0, FOREVER);
        Ok((main.eq(here)?, Instant::now() + Duration::from_secs_f64(seconds)))
    }

    pub fn of((is_main, deadline): (bool, Instant)) -> Self {
        Self {
            is_main,
            raised: RefCell::new(None),
            deadline,
        }
    }

    /// Whether to go on; after a no, [`Self::settle`] has the reason.
    pub fn go_on(&self) -> bool {
        if !self.is_main {
            return true;
        }
        match check_signals() {
            Ok(()) => true,
            Err(failure) => {
                *self.raised.borrow_mut() = Some(failure);
                false
            }
        }
    }

    /// Runs a wait.
    pub fn wait<T>(
        self,
        work: impl FnOnce(&mut Patience<'_>, &mut dyn FnMut() -> bool) -> Result<T, TableError>,
    ) -> Result<T, Failure> {
        let mut go_on = || self.go_on();
        let done = work(&mut Patience::while_asked(self.deadline, &mut go_on), &mut || {
            self.go_on()
        });
        self.settle(done)
    }

    /// What a handler raised comes first; what became of the work is its cause.
    fn settle<T>(self, done: Result<T, TableError>) -> Result<T, Failure> {
        match (done, self.raised.into_inner()) {
            (Err(error), Some(Failure::Python(raised))) => Err(Failure::Python(Python::attach(|py| {
                raised.set_cause(py, Some(Failure::from(error).into_py(py)));
                raised
            }))),
            (Err(error), _) => Err(error.into()),
            // It was done before the wait ended.
            (Ok(done), None) => Ok(done),
            (Ok(_), Some(raised)) => Err(raised),
        }
    }
}
