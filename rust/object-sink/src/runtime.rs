//! The threads that run requests: few, started when the first is needed, and started anew after a fork.

use std::io;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::Builder as Thread;

use tokio::runtime::{Builder, Handle, Runtime};

static RUNTIME: Mutex<Option<(u32, Runtime)>> = Mutex::new(None);

/// The number of threads. Two parts are under way at once, and requests wait rather than compute.
const THREADS: usize = 2;

/// Chooses the cryptography for TLS, without which no client can be made.
pub(crate) fn choose_cryptography() {
    // Whoever links this crate may have chosen already; then that stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Fails if so many threads cannot be started. The runtime would panic, or wait for ever for the ones it got.
fn check_threads() -> io::Result<()> {
    let (keep, done) = mpsc::channel::<()>();
    let done = Mutex::new(done);
    std::thread::scope(|scope| {
        let wait = || drop(done.lock().map(|done| done.recv()));
        let begun = (0..THREADS).try_for_each(|_| Thread::new().spawn_scoped(scope, wait).map(drop));
        drop(keep);
        begun
    })
}

/// The runtime of this process.
///
/// # Errors
/// When its threads cannot be started.
pub(crate) fn handle() -> io::Result<Handle> {
    let mut held = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if let Some((owner, runtime)) = held.as_ref()
        && *owner == process
    {
        return Ok(runtime.handle().clone());
    }
    check_threads()?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("spillway-upload")
        .enable_all()
        .build()?;
    let handle = runtime.handle().clone();
    // The threads of the parent's runtime are not in this process: there is nobody to wait for.
    std::mem::forget(held.replace((process, runtime)));
    Ok(handle)
}
