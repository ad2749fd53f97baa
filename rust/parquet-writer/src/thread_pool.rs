//! The helper threads of a process, which its writers share.
//!
//! All threads that encode are counted together, callers and helpers. Where `threads` is not given, a writer gets a
//! helper only while the process has a core for it.
//!
//! An idle helper waits for the next row group or file. A `rayon` pool has a fixed size: it would start all its threads
//! for the first file, and could not run the extra ones that an explicit `threads` asks for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use per_process::PerProcess;

/// Bytes of values above which a helper pays off.
const BYTES_FOR_A_HELPER: u64 = 8 << 20;
/// The time after which an idle helper ends, which frees its stack and heap.
const KEPT: Duration = if cfg!(test) {
    Duration::from_millis(100)
} else {
    Duration::from_secs(2)
};

/// The threads of this process. A forked child has none of its parent's.
static POOL: PerProcess<Pool> = PerProcess::new();

/// The threads that a writer may use, the caller's among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Threads {
    /// Exactly this many, as the caller asked for.
    Exactly(usize),
    /// One per 8 MiB of values, limited by this number and by the cores of the process.
    UpTo(usize),
}

impl Threads {
    /// The helpers to use for `bytes` of values.
    pub fn for_values(self, bytes: u64) -> Wanted {
        let Self::UpTo(threads) = self else {
            return Wanted {
                helpers: self.most() - 1,
                cores: usize::MAX,
            };
        };
        let worth = usize::try_from(bytes / BYTES_FOR_A_HELPER).unwrap_or(usize::MAX);
        let cores = match worth.min(threads - 1) {
            0 => 1,
            _ => cores(),
        };
        Wanted {
            helpers: worth.min(threads - 1).min(cores - 1),
            cores,
        }
    }

    /// Returns true if `bytes` of values already get the most helpers that this setting allows.
    pub fn are_busy_with(self, bytes: u64) -> bool {
        let helpers = u64::try_from(self.for_values(bytes).helpers).unwrap_or(u64::MAX);
        helpers < bytes / BYTES_FOR_A_HELPER
    }

    /// The most threads.
    pub fn most(self) -> usize {
        match self {
            Self::Exactly(threads) | Self::UpTo(threads) => threads,
        }
    }
}

/// The number of cores that this process may use: by its affinity and the quota of its control groups.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The limits on the helpers of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The most at once.
    pub helpers: usize,
    /// The most threads of the process that may encode while this work has helpers.
    pub cores: usize,
}

/// A thread that encodes, as long as this lives.
pub(crate) struct ActiveThread(&'static Pool);

impl ActiveThread {
    /// The calling thread, which needs no core to be free.
    pub fn caller() -> Self {
        let pool = POOL.get_or_init(Pool::default);
        pool.active.fetch_add(1, Ordering::Relaxed);
        Self(pool)
    }

    /// A helper, if at most `cores` threads encode including it.
    fn helper(&self, cores: usize) -> Option<Self> {
        let one_more = |active| (active < cores).then_some(active + 1);
        let active = &self.0.active;
        active
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .is_ok()
            .then(|| Self(self.0))
    }

    /// Returns true if more threads than `cores` encode.
    pub fn is_beyond(&self, cores: usize) -> bool {
        self.0.active.load(Ordering::Relaxed) > cores
    }

    /// Runs `work` on a helper, if a core and a thread are available. The function that `work` returns is called once
    /// the helper is idle and no longer counted.
    pub fn call(&self, cores: usize, work: impl FnOnce(&Self) -> DoneCallback + Send + 'static) -> bool {
        let Some(active) = self.helper(cores) else {
            return false;
        };
        self.0.run(Box::new(move || {
            let done = work(&active);
            Box::new(move || {
                drop(active);
                done();
            })
        }))
    }
}

impl Drop for ActiveThread {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The end of some work.
pub(crate) type DoneCallback = Box<dyn FnOnce() + Send>;
/// Work that does not panic.
type Work = Box<dyn FnOnce() -> DoneCallback + Send>;

#[derive(Default)]
struct Pool {
    /// The number of threads that encode.
    active: AtomicUsize,
    /// Helpers without work, the last one to finish last: its stack is the warmest.
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    thread: ThreadId,
    work: Sender<Work>,
}

impl Pool {
    /// Gives the work to a helper. Returns false if no thread can be had.
    fn run(&'static self, mut work: Work) -> bool {
        loop {
            let Some(idle) = self.idle().pop() else {
                let helper = thread::Builder::new().name("spillway-encode".to_owned());
                return helper.spawn(move || self.serve(work)).is_ok();
            };
            match idle.work.send(work) {
                Ok(()) => return true,
                Err(unsent) => work = unsent.0,
            }
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The life of a helper.
    fn serve(&self, first: Work) {
        let (sender, receiver) = mpsc::channel();
        let mut next = Some(first);
        while let Some(work) = next {
            let done = work();
            // Idle before anybody can know: the next writer takes this thread instead of a new one.
            self.idle().push(Idle {
                thread: thread::current().id(),
                work: sender.clone(),
            });
            done();
            next = self.wait(&receiver);
        }
    }

    /// Waits for more work, but not for ever.
    fn wait(&self, receiver: &Receiver<Work>) -> Option<Work> {
        match receiver.recv_timeout(KEPT) {
            Ok(work) => Some(work),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                let me = thread::current().id();
                let mut idle = self.idle();
                let place = idle.iter().position(|helper| helper.thread == me);
                if let Some(place) = place {
                    idle.remove(place);
                    return None;
                }
                drop(idle);
                // Work is on its way.
                receiver.recv().ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};
    use std::time::Instant;

    use super::*;

    impl ActiveThread {
        /// A calling thread of a pool of its own.
        fn of(pool: &'static Pool) -> Self {
            pool.active.fetch_add(1, Ordering::Relaxed);
            Self(pool)
        }
    }

    /// The most threads of the writers below that may encode at once.
    const CORES: usize = 4;

    #[test]
    fn many_writers_share_the_cores() {
        let pool: &'static Pool = Box::leak(Box::default());
        let helping = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let start = Barrier::new(16);
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    start.wait();
                    let caller = ActiveThread::of(pool);
                    for _ in 0..50 {
                        let helping = Arc::clone(&helping);
                        caller.call(CORES, move |_| {
                            let (now, most) = &*helping;
                            most.fetch_max(1 + now.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
                            thread::yield_now();
                            now.fetch_sub(1, Ordering::Relaxed);
                            Box::new(|| {})
                        });
                    }
                });
            }
        });
        let most = helping.1.load(Ordering::Relaxed);
        assert!(most < CORES, "{most} helpers");
        while pool.active.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
        let threads = pool.idle().len();
        assert!(threads < CORES, "{threads} threads");
    }

    #[test]
    fn a_helper_serves_again_and_ends_when_it_has_long_been_idle() {
        let pool: &'static Pool = Box::leak(Box::default());
        let caller = ActiveThread::of(pool);
        let (sender, threads) = mpsc::channel();
        for _ in 0..3 {
            let sender = sender.clone();
            assert!(caller.call(2, move |_| {
                let me = thread::current().id();
                Box::new(move || sender.send(me).unwrap())
            }));
            // It sends when it is idle, and no other one is started.
            let first = threads.recv().unwrap();
            assert_eq!(pool.idle().first().map(|idle| idle.thread), Some(first));
            assert_eq!(pool.idle().len(), 1);
        }
        let started = Instant::now();
        while !pool.idle().is_empty() {
            assert!(started.elapsed() < 20 * KEPT, "the helper never ends");
            thread::sleep(KEPT / 4);
        }
    }

    #[test]
    fn threads_are_busy_once_more_values_bring_no_helper() {
        assert!(!Threads::Exactly(1).are_busy_with(BYTES_FOR_A_HELPER - 1));
        assert!(Threads::Exactly(1).are_busy_with(BYTES_FOR_A_HELPER));
        assert!(!Threads::Exactly(3).are_busy_with(2 * BYTES_FOR_A_HELPER));
        assert!(Threads::Exactly(3).are_busy_with(3 * BYTES_FOR_A_HELPER));
        let cores = cores() as u64;
        assert!(!Threads::UpTo(usize::MAX).are_busy_with((cores - 1) * BYTES_FOR_A_HELPER));
        assert!(Threads::UpTo(usize::MAX).are_busy_with(cores * BYTES_FOR_A_HELPER));
    }

    #[test]
    fn small_work_has_no_helper() {
        assert_eq!(
            Threads::UpTo(usize::MAX)
                .for_values(BYTES_FOR_A_HELPER - 1)
                .helpers,
            0
        );
        assert_eq!(Threads::Exactly(3).for_values(0).helpers, 2);
        assert!(Threads::UpTo(3).for_values(u64::MAX).helpers < cores().min(3));
        assert!(
            Threads::UpTo(usize::MAX)
                .for_values(2 * BYTES_FOR_A_HELPER)
                .helpers
                <= 2
        );
    }
}
