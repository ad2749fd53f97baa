//! Threads that work for callers in other threads.

use std::cell::RefCell;

thread_local! {
    /// The test that says whether the callers that this thread works for have stopped waiting.
    static ABANDONED: RefCell<Option<Box<dyn Fn() -> bool>>> = const { RefCell::new(None) };
}

/// Makes the calling thread one that serves others, and sets the check that says whether its work is abandoned: no
/// caller waits for its result any more.
pub fn serve_until(is_abandoned: impl Fn() -> bool + 'static) {
    ABANDONED.set(Some(Box::new(is_abandoned)));
}

/// Returns true if the calling thread works for callers that no longer wait, so that requests to a store should end.
#[must_use]
pub fn is_abandoned() -> bool {
    ABANDONED.with_borrow(|asked| asked.as_ref().is_some_and(|asked| asked()))
}

/// Returns true if the calling thread serves callers in other threads: it commits for several of them, deletes intents,
/// reads ahead or takes the steps of asynchronous commits. No signal is its own, and it must not wait for the GIL.
#[must_use]
pub fn is_serving() -> bool {
    ABANDONED.with_borrow(Option::is_some)
}
