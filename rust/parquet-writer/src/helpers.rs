//! Threads that help writers.
//!
//! The process has a limited number of cores, whoever writes. So threads that encode are counted in one place, those of
//! callers and helpers, and a writer without a number of its own gets helpers only while there are cores for them.
//!
//! A helper that has no work is kept for the next row group or file. A fixed pool, as of `rayon`, would start all its
//! threads for the first file, and could not have those that `threads=` asks for beyond the cores: a writer would wait
//! for the turn of helpers that it no longer needs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use per_process::PerProcess;

/// Bytes of values that are worth a helper.
const BYTES_FOR_A_HELPER: u64 = 8 << 20;
/// The time after which a helper without work ends, and its stack and heap are free.
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
    /// As many as the caller asks for.
    Exactly(usize),
    /// As many as the work is worth and the process has cores for, at most so many.
    UpTo(usize),
}

impl Threads {
    /// The helpers for values of so many bytes.
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

/// The helpers that a piece of work is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The most at once.
    pub helpers: usize,
    /// The most threads of the process that may encode while this work has helpers.
    pub cores: usize,
}

/// A thread that encodes, as long as this lives.
pub(crate) struct Busy(&'static Pool);

impl Busy {
    /// The calling thread, which needs no core to be free.
    pub fn caller() -> Self {
        let pool = POOL.get_or_init(Pool::default);
        pool.busy.fetch_add(1, Ordering::Relaxed);
        Self(pool)
    }

    /// A helper, if no more threads than `cores` encode with it.
    fn helper(&self, cores: usize) -> Option<Self> {
        let one_more = |busy| (busy < cores).then_some(busy + 1);
        let busy = &self.0.busy;
        busy.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .is_ok()
            .then(|| Self(self.0))
    }

    /// Returns true if more threads than `cores` encode.
    pub fn is_beyond(&self, cores: usize) -> bool {
        self.0.busy.load(Ordering::Relaxed) > cores
    }

    /// Has a helper do `work`, if there is a core and a thread for it. What `work` returns is called when the helper is
    /// ready for other work and no longer counts.
    pub fn call(&self, cores: usize, work: impl FnOnce(&Self) -> Done + Send + 'static) -> bool {
        let Some(busy) = self.helper(cores) else {
            return false;
        };
        self.0.run(Box::new(move || {
            let done = work(&busy);
            Box::new(move || {
                drop(busy);
                done();
            })
        }))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The end of some work.
pub(crate) type Done = Box<dyn FnOnce() + Send>;
/// Work that does not panic.
type Work = Box<dyn FnOnce() -> Done + Send>;

#[derive(Default)]
struct Pool {
    /// The number of threads that encode.
    busy: AtomicUsize,
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

    impl Busy {
        /// A calling thread of a pool of its own.
        fn of(pool: &'static Pool) -> Self {
            pool.busy.fetch_add(1, Ordering::Relaxed);
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
                    let caller = Busy::of(pool);
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
        while pool.busy.load(Ordering::Relaxed) > 0 {
            thread::yield_now();
        }
        let threads = pool.idle().len();
        assert!(threads < CORES, "{threads} threads");
    }

    #[test]
    fn a_helper_serves_again_and_ends_when_it_has_long_been_idle() {
        let pool: &'static Pool = Box::leak(Box::default());
        let caller = Busy::of(pool);
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
