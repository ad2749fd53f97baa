//! Garbage collection of intents: threads that delete those that are decided. Only a process that exits waits for them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use per_process::PerProcess;

use crate::serving::serve_until;

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
            serve_until(|| false);
            // A store that panicked has said so by then.
            let _ = catch_unwind(AssertUnwindSafe(work));
            under_way.subtract();
        });
    if begun.is_err() {
        under_way.subtract();
    }
    begun.is_ok()
}
