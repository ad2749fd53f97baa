//! Garbage collection of intents: threads that delete those that are decided. Only a process that exits waits for them.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use per_process::PerProcess;

static UNDER_WAY: PerProcess<UnderWay> = PerProcess::new();

/// The number of threads of this process that delete intents.
#[derive(Default)]
struct UnderWay {
    count: Mutex<usize>,
    bell: Condvar,
}

impl UnderWay {
    fn add(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    fn subtract(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.bell.notify_all();
    }
}

thread_local! {
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
}

/// Returns true if the calling thread was started here, to delete intents or to lead for commits that no thread waits
/// for. It is none of a caller's, and none of Python's.
#[must_use]
pub fn is_own_thread() -> bool {
    IS_OWN.get()
}

/// Marks the calling thread as one that was started here.
pub(crate) fn own_this_thread() {
    IS_OWN.set(true);
}

/// Waits until no thread of this process deletes intents. Returns false if the time was up before.
pub fn await_intent_gc(wait: Duration) -> bool {
    let Some(under_way) = UNDER_WAY.get() else {
        return true;
    };
    let count = under_way.count.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = under_way.bell.wait_timeout_while(count, wait, |count| *count > 0);
    let (count, _) = waited.unwrap_or_else(PoisonError::into_inner);
    *count == 0
}

/// Has a thread of its own do this. Returns false if none can be had.
pub(crate) fn spawn(work: impl FnOnce() + Send + 'static) -> bool {
    let under_way = UNDER_WAY.get_or_init(UnderWay::default);
    under_way.add();
    let begun = thread::Builder::new()
        .name("spillway-tidy".to_owned())
        .spawn(move || {
            own_this_thread();
            // A store that panicked has said so by then.
            let _ = catch_unwind(AssertUnwindSafe(work));
            under_way.subtract();
        });
    if begun.is_err() {
        under_way.subtract();
    }
    begun.is_ok()
}
