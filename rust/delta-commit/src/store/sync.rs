//! Syncs files and folders, several at once, and none again after its sync failed.
//!
//! Linux reports an error of write-back once, to the descriptors that were open then. The next sync succeeds although
//! the bytes are lost. So failures are remembered for as long as the process lives.

use std::collections::{HashMap, VecDeque};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::SystemTime;

use crate::log::{StoreError, StoreErrorKind};
use per_process::PerProcess;

/// The most threads of a process that sync beside their callers. A device does several syncs at the price of one.
const HELPERS: usize = 7;

/// The number of syncs that is worth waking another thread.
const FOR_A_HELPER: usize = 4;

const STACK_BYTES: usize = 256 << 10;

/// Files and folders whose sync has failed.
static FAILED: PerProcess<Mutex<HashMap<FileIdentity, StoreError>>> = PerProcess::new();

static POOL: PerProcess<SyncPool> = PerProcess::new();

/// The identity of a file: device, inode and, where known, time of creation. The last tells it from a later file with
/// the same inode.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct FileIdentity(u64, u64, Option<SystemTime>);

impl FileIdentity {
    pub(super) fn of(found: &Metadata) -> Self {
        Self(found.dev(), found.ino(), found.created().ok())
    }

    /// This identity, if no later file can have it.
    pub(super) fn if_unique(self) -> Option<Self> {
        self.2.is_some().then_some(self)
    }
}

/// Makes a file or a folder survive a crash. Returns its size, bytes.
///
/// An error of the sync itself is [`StoreErrorKind::Permanent`], and so is every later one of the same file. Other
/// errors mean that the file was not tried.
pub(super) fn sync(path: &Path) -> Result<u64, StoreError> {
    let untried = |error: io::Error| StoreError::io(path.display(), &error);
    let file = File::open(path).map_err(untried)?;
    let failed = FAILED.get_or_init(Mutex::default);
    if !lock(failed).is_empty() {
        let identity = FileIdentity::of(&file.metadata().map_err(untried)?);
        if let Some(error) = lock(failed).get(&identity) {
            return Err(error.clone());
        }
    }
    let Err(error) = file.sync_all() else {
        return Ok(file.metadata().map_err(untried)?.len());
    };
    let error = StoreError {
        message: format!(
            "{}: {error}, as it was synced: what was written to it may be lost, and a later sync would not tell",
            path.display()
        ),
        kind: StoreErrorKind::Permanent,
        errno: error.raw_os_error(),
    };
    if let Ok(found) = file.metadata() {
        lock(failed).insert(FileIdentity::of(&found), error.clone());
    }
    Err(error)
}

/// Syncs several paths and returns the results in their order. If no other thread can be had, the caller syncs all of
/// them.
pub(super) fn sync_each(paths: &[&Path]) -> Vec<Result<u64, StoreError>> {
    let helpers = (paths.len() / FOR_A_HELPER).min(HELPERS);
    if helpers == 0 {
        return paths.iter().map(|path| sync(path)).collect();
    }
    let job = Arc::new(Job::new(paths.iter().map(|path| path.to_path_buf()).collect()));
    let pool = POOL.get_or_init(SyncPool::default);
    pool.call(&job, helpers);
    job.work();
    pool.forget(&job);
    job.results()
}

/// Paths that several threads sync, each thread taking the next one.
struct Job {
    paths: Vec<PathBuf>,
    next: AtomicUsize,
    done: Mutex<SyncResults>,
    bell: Condvar,
}

struct SyncResults {
    results: Vec<Result<u64, StoreError>>,
    left: usize,
}

impl Job {
    fn new(paths: Vec<PathBuf>) -> Self {
        let left = paths.len();
        Self {
            paths,
            next: AtomicUsize::new(0),
            done: Mutex::new(SyncResults {
                results: vec![Ok(0); left],
                left,
            }),
            bell: Condvar::new(),
        }
    }

    /// Syncs paths until every one is done or taken by another thread.
    fn work(&self) {
        while let Some((at, path)) = self.take() {
            let result = catch_unwind(AssertUnwindSafe(|| sync(path)))
                .unwrap_or_else(|_| Err(StoreError::transient("a thread that synced a file panicked")));
            let mut done = lock(&self.done);
            done.results[at] = result;
            done.left -= 1;
            if done.left == 0 {
                self.bell.notify_all();
            }
        }
    }

    fn take(&self) -> Option<(usize, &Path)> {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        Some((at, self.paths.get(at)?))
    }

    /// The results, once all are there.
    fn results(&self) -> Vec<Result<u64, StoreError>> {
        let mut done = lock(&self.done);
        while done.left > 0 {
            done = self.bell.wait(done).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::take(&mut done.results)
    }
}

/// The sync threads of a process, started when they are needed and can be had.
#[derive(Default)]
struct SyncPool {
    queue: Mutex<SyncQueue>,
    bell: Condvar,
}

#[derive(Default)]
struct SyncQueue {
    jobs: VecDeque<Arc<Job>>,
    threads: usize,
}

impl SyncPool {
    /// Assigns so many threads to a job.
    fn call(&'static self, job: &Arc<Job>, helpers: usize) {
        let mut queue = lock(&self.queue);
        while queue.threads < helpers {
            let begun = thread::Builder::new()
                .name("spillway-sync".to_owned())
                .stack_size(STACK_BYTES)
                .spawn(|| self.serve());
            if begun.is_err() {
                break;
            }
            queue.threads += 1;
        }
        let helpers = helpers.min(queue.threads);
        queue.jobs.extend((0..helpers).map(|_| Arc::clone(job)));
        drop(queue);
        for _ in 0..helpers {
            self.bell.notify_one();
        }
    }

    /// Takes the job out of the queue: it needs no further threads.
    fn forget(&self, job: &Arc<Job>) {
        lock(&self.queue).jobs.retain(|other| !Arc::ptr_eq(other, job));
    }

    fn serve(&self) {
        loop {
            let mut queue = lock(&self.queue);
            let job = loop {
                match queue.jobs.pop_front() {
                    Some(job) => break job,
                    None => queue = self.bell.wait(queue).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(queue);
            job.work();
        }
    }
}

/// Locks a mutex, poisoned or not. No value is changed in parts under these locks, so a thread that panicked left whole
/// values.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_its_own_result_whoever_syncs_it() {
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = (0..200).map(|n| folder.path().join(n.to_string())).collect();
        for path in paths.iter().step_by(3) {
            std::fs::write(path, "rows").unwrap();
        }
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for (n, result) in sync_each(&paths).into_iter().enumerate() {
                        let kind = result.err().map(|error| error.kind);
                        assert_eq!(kind, (n % 3 > 0).then_some(StoreErrorKind::NotFound), "{n}");
                    }
                });
            }
        });
        let pool = POOL.get().unwrap();
        assert!(lock(&pool.queue).jobs.is_empty());
        assert!(lock(&pool.queue).threads <= HELPERS);
    }

    #[test]
    fn what_could_not_be_synced_is_remembered_by_what_it_is() {
        // A device that has nothing to sync refuses, and a path to it is as good as another.
        let folder = tempfile::tempdir().unwrap();
        let first = sync(Path::new("/dev/null")).unwrap_err();
        assert_eq!(first.kind, StoreErrorKind::Permanent);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        assert_eq!(sync(&link).unwrap_err(), first);
        std::fs::write(folder.path().join("other"), "rows").unwrap();
        assert_eq!(sync(&folder.path().join("other")), Ok(4));
    }
}
