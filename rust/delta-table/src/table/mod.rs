//! A table that is open.

mod checkpoints;
mod shared;

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use delta_commit::log::BEFORE_FIRST;
use delta_commit::{CommitError, CommitStats, Outcome, Token, Version, WaitLimit};
use per_process::PerProcess;
use serde_json::Value;

use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::pinned::Pinned;
use crate::snapshot::Snapshot;
use crate::storage::{LocalStorage, TableStorage};
use crate::time_travel;

pub(crate) use shared::SharedTable;

/// A table that is open. Any thread may use it, and so may forked children.
pub struct Table {
    pub(crate) storage: Arc<dyn TableStorage>,
    shared: PerProcess<Mutex<Arc<SharedTable>>>,
    /// The version that the caller reads.
    pub(crate) pinned: PerProcess<Mutex<Pinned>>,
    /// The last version that the handle was pinned to.
    pub(crate) seen: AtomicI64,
}

/// A counter of the versions that all threads of this process try to write to a table.
#[derive(Clone)]
pub struct CommitCounter(pub(crate) Arc<SharedTable>);

impl CommitCounter {
    /// The number of attempts so far. Does no I/O.
    #[must_use]
    pub fn attempts(&self) -> u64 {
        self.0.committer.commit_stats().attempts
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The check of a thread without a deadline of its own that waits for another one.
pub(crate) fn looking(storage: &dyn TableStorage) -> impl FnMut() -> Result<()> + '_ {
    let mut attend = None;
    // Most waits end before anybody has to look.
    move || {
        let attend = attend.get_or_insert_with(|| storage.attend());
        attend().map_err(|error| TableError::io(storage.root().display(), &error))
    }
}

/// The check of a thread that waits for another one in a commit.
pub(crate) fn patient<'a>(wait: &'a mut WaitLimit<'_>) -> impl FnMut() -> Result<()> + 'a {
    move || match wait.left() {
        Some(_) => Ok(()),
        None => Err(CommitError::DeadlinePassed.into()),
    }
}

/// Replaces an error that the end of the time may have caused. A request that it has cut short says so in its own way.
pub(crate) fn or_late(error: TableError, wait: &mut WaitLimit<'_>) -> TableError {
    match &error {
        TableError::Commit(CommitError::Store(_)) if wait.left().is_none() => {
            CommitError::DeadlinePassed.into()
        }
        _ => error,
    }
}

impl Table {
    /// Opens the table in a folder.
    ///
    /// # Errors
    /// [`TableError::NotFound`] if there is no table; [`TableError::Malformed`] if its log has a gap or is damaged;
    /// [`CommitError::Unsupported`] when it asks its readers for what is not built.
    pub fn open(root: &Path) -> Result<Self> {
        Self::open_at(Arc::new(LocalStorage::new(root)?))
    }

    /// Opens the table wherever it is.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_at(storage: Arc<dyn TableStorage>) -> Result<Self> {
        let shared = SharedTable::open(&storage, &mut looking(storage.as_ref()))?;
        let (own, pinned) = (PerProcess::new(), PerProcess::new());
        let head = shared.head();
        let seen = AtomicI64::new(head.version);
        own.get_or_init(|| Mutex::new(Arc::clone(&shared)));
        pinned.get_or_init(|| Mutex::new(Pinned::to(head)));
        Ok(Self {
            storage,
            shared: own,
            pinned,
            seen,
        })
    }

    /// A table that is not there yet, by its protocol and metadata.
    pub(crate) fn planned_as(storage: Arc<dyn TableStorage>, head: TableHead) -> Self {
        let shared = Arc::new(SharedTable::planned(&storage, head));
        let own = PerProcess::new();
        own.get_or_init(|| Mutex::new(Arc::clone(&shared)));
        Self {
            storage,
            shared: own,
            pinned: PerProcess::new(),
            seen: AtomicI64::new(BEFORE_FIRST),
        }
    }

    /// The table's folder, or its URL.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.storage.root()
    }

    pub(crate) fn shared(&self) -> Result<Arc<SharedTable>> {
        if let Some(own) = self.shared.get() {
            // Stores are asked without the lock: others must not wait for an answer behind it.
            let known = Arc::clone(&lock(own));
            if !known.is_outdated() && !known.is_doubtful()? {
                return Ok(known);
            }
            let found = SharedTable::open(&self.storage, &mut known.looking())?;
            known.check_same(&found.head().metadata)?;
            *lock(own) = Arc::clone(&found);
            return Ok(found);
        }
        let shared = SharedTable::open(&self.storage, &mut looking(self.storage.as_ref()))?;
        let own = self.shared.get_or_init(|| Mutex::new(Arc::clone(&shared)));
        Ok(Arc::clone(&lock(own)))
    }

    /// The table at its newest version, without files.
    ///
    /// # Errors
    /// When its log cannot be read; [`TableError::Replaced`] when it is another table's by now.
    pub fn head(&self) -> Result<Arc<TableHead>> {
        let shared = self.shared()?;
        shared.refresh(&mut shared.looking())
    }

    /// The table at its newest version, with its files. They are read at the first call, and kept.
    ///
    /// # Errors
    /// As [`head`](Self::head).
    pub fn snapshot(&self) -> Result<Arc<Snapshot>> {
        let shared = self.shared()?;
        shared.snapshot(&mut shared.looking())
    }

    /// The table with its files, for a commit that waits no longer than its caller.
    pub(crate) fn snapshot_in_time(&self, wait: &mut WaitLimit<'_>) -> Result<Arc<Snapshot>> {
        let snapshot = self.shared()?.snapshot(&mut patient(wait));
        snapshot.map_err(|error| or_late(error, wait))
    }

    /// The newest version.
    ///
    /// # Errors
    /// As [`head`](Self::head).
    pub fn version(&self) -> Result<Version> {
        Ok(self.head()?.version)
    }

    /// The version of an application's last transaction.
    ///
    /// # Errors
    /// As [`head`](Self::head).
    pub fn transaction_version(&self, app_id: &str) -> Result<Option<i64>> {
        let shared = self.shared()?;
        Ok(shared.progress(app_id, &mut shared.looking())?.1)
    }

    pub(crate) fn seen(&self) -> Version {
        self.seen.load(Ordering::Acquire)
    }

    /// The table at an older version.
    ///
    /// # Errors
    /// [`TableError::NoSuchVersion`] when it is not there, or cannot be put together any more.
    pub fn snapshot_at(&self, version: Version) -> Result<Snapshot> {
        if version <= BEFORE_FIRST {
            return Err(TableError::NoSuchVersion(format!(
                "{version} is no version: the first is 0"
            )));
        }
        let shared = self.shared()?;
        shared.snapshot_at(version, &mut shared.looking())
    }

    /// Settles the doubt of a token.
    ///
    /// # Errors
    /// When the token is not one of this table's.
    pub fn outcome(&self, token: &Token, wait: &mut WaitLimit<'_>) -> Result<Outcome> {
        self.shared()?.outcome(token, wait)
    }

    /// The error of the newest checkpoint, if that was damaged when the table was opened and an older one, or versions,
    /// were read in its place. Does no I/O.
    #[must_use]
    pub fn damaged_checkpoint(&self) -> Option<String> {
        let shared = self.held()?;
        let damaged = lock(&shared.damaged);
        damaged.as_ref().map(|damaged| damaged.error.clone())
    }

    /// A counter of the versions that this process tries to write; none in a forked child that has not used the table
    /// yet. Does no I/O.
    #[must_use]
    pub fn commit_counter(&self) -> Option<CommitCounter> {
        self.held().map(CommitCounter)
    }

    /// The state that this handle holds, be it up to date or not.
    fn held(&self) -> Option<Arc<SharedTable>> {
        self.shared.get().map(|own| Arc::clone(&lock(own)))
    }

    /// Counts of this process' races for versions, and the times of its effects, since the table was first opened.
    ///
    /// # Errors
    /// When the table cannot be opened again.
    pub fn commit_stats(&self) -> Result<CommitStats> {
        Ok(self.shared()?.committer.commit_stats())
    }

    /// The versions, the newest first, as far back as the log has them.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn history(&self, limit: Option<usize>) -> Result<Vec<HistoryEntry>> {
        let shared = self.shared()?;
        let head = shared.refresh(&mut shared.looking())?;
        let mut history = Vec::new();
        let versions = (0..=head.version).rev().take(limit.unwrap_or(usize::MAX));
        for found in shared.log.bodies(versions) {
            let (version, body) = found?;
            // What is not there was cleaned up.
            let Some(body) = body else {
                break;
            };
            history.push(HistoryEntry {
                version,
                time: None,
                info: commit_info(&body),
            });
        }
        time_travel::tell_times(&shared.log, &head, &mut history)?;
        Ok(history)
    }
}

/// An entry of a table's history: a version.
#[derive(Debug, Clone)]
pub struct HistoryEntry {
    /// Its number.
    pub version: Version,
    /// Its time in milliseconds since the epoch, as [`Table::version_at`] goes by; none where the store does not report
    /// when files were written.
    pub time: Option<i64>,
    /// Its `commitInfo`.
    pub info: Value,
}

/// The unparsed `commitInfo` of a commit, into which any writer may put anything.
fn commit_info(body: &[u8]) -> Value {
    body.split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
        .find_map(|mut line| line.get_mut("commitInfo").map(Value::take))
        .unwrap_or(Value::Null)
}
