//! A table that is open.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use delta_commit::log::BEFORE_FIRST;
use delta_commit::store::LocalLogStore;
use delta_commit::{CommitError, Committer, Outcome, Patience, Start, Token, Transaction, Version};
use serde_json::Value;

use crate::checkpoint;
use crate::error::{Result, TableError};
use crate::log_dir::LogDir;
use crate::process::PerProcess;
use crate::snapshot::Snapshot;

/// Versions between two checkpoints, unless the table says otherwise.
const CHECKPOINT_INTERVAL: i64 = 10;

/// The open tables of this process, by path: threads that write to one table must meet at one committer.
static OPEN: PerProcess<Mutex<HashMap<PathBuf, Weak<Shared>>>> = PerProcess::new();

/// A table that is open. Any thread may use it, and so may forked children.
pub struct Table {
    root: PathBuf,
    shared: PerProcess<Mutex<Arc<Shared>>>,
}

/// What all handles of a process on one table share.
pub(crate) struct Shared {
    pub(crate) root: PathBuf,
    pub(crate) log: LogDir,
    committer: Committer,
    snapshot: Mutex<Arc<Snapshot>>,
    /// The log folder's device and inode: another one is another table.
    folder: (u64, u64),
    /// The newest version of which a checkpoint is made, or being made.
    checkpointed: AtomicI64,
    /// Whether the log was cleaned up under it, so that it must be opened anew.
    outdated: AtomicBool,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The folder itself, so that all names of it mean one table.
pub(crate) fn resolve(root: &Path) -> Result<PathBuf> {
    match std::fs::canonicalize(root) {
        Ok(path) => Ok(path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            std::path::absolute(root).map_err(|e| TableError::io(root.display(), &e))
        }
        Err(error) => Err(TableError::io(root.display(), &error)),
    }
}

fn folder_of(log: &LogDir) -> Option<(u64, u64)> {
    let found = std::fs::metadata(&log.path).ok()?;
    Some((found.dev(), found.ino()))
}

impl Shared {
    /// The table in a folder, opened once for the whole process.
    fn open(root: &Path) -> Result<Arc<Self>> {
        let open = OPEN.get_or_init(Mutex::default);
        let known = lock(open).get(root).and_then(Weak::upgrade);
        if let Some(known) = known
            && !known.outdated.load(Ordering::Acquire)
            && folder_of(&known.log) == Some(known.folder)
        {
            known.refresh()?;
            return Ok(known);
        }
        let loaded = Arc::new(Self::load(root)?);
        let mut open = lock(open);
        open.retain(|_, shared| shared.strong_count() > 0);
        // Somebody may have been quicker: then theirs is the one where threads meet.
        if let Some(other) = open.get(root).and_then(Weak::upgrade)
            && !other.outdated.load(Ordering::Acquire)
            && other.folder == loaded.folder
        {
            return Ok(other);
        }
        open.insert(root.to_path_buf(), Arc::downgrade(&loaded));
        Ok(loaded)
    }

    fn load(root: &Path) -> Result<Self> {
        let log = LogDir {
            path: root.join("_delta_log"),
        };
        let snapshot = log.load(root, None)?;
        let start = Start {
            version: snapshot.version,
            table_id: snapshot.metadata.id.clone(),
            changed_in: snapshot.changed_in,
            in_commit_timestamp: if snapshot.metadata.is_enabled("delta.enableInCommitTimestamps") {
                snapshot.in_commit_timestamp
            } else {
                None
            },
        };
        let checkpointed = log
            .list()?
            .checkpoint(Version::MAX)
            .map_or(0, |(version, _)| version);
        Ok(Self {
            root: root.to_path_buf(),
            committer: Committer::new(Arc::new(LocalLogStore::new(root)), start),
            folder: folder_of(&log).ok_or_else(|| TableError::NotFound(root.to_path_buf()))?,
            log,
            snapshot: Mutex::new(Arc::new(snapshot)),
            checkpointed: AtomicI64::new(checkpointed),
            outdated: AtomicBool::new(false),
        })
    }

    /// The newest version that this process has read: no I/O.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&lock(&self.snapshot))
    }

    /// The table at its newest version.
    pub fn refresh(&self) -> Result<Arc<Snapshot>> {
        let mut snapshot = lock(&self.snapshot);
        loop {
            let next = snapshot.version + 1;
            let Some(body) = self.log.read(next)? else {
                break;
            };
            let actions = self.log.parse(next, &body)?;
            Arc::make_mut(&mut snapshot).advance(next, actions)?;
        }
        // The newest version may have been cleaned up, or the table be gone.
        if !self.log.has(snapshot.version) {
            self.outdated.store(true, Ordering::Release);
            *snapshot = Arc::new(self.log.load(&self.root, None)?);
        }
        Ok(Arc::clone(&snapshot))
    }

    /// A snapshot whose protocol and metadata are the newest known, and the newest version that they hold for.
    pub fn head(&self) -> Result<(Arc<Snapshot>, Version)> {
        let (tip, world) = self.committer.known();
        let snapshot = self.snapshot();
        if world.changed_in > snapshot.changed_in {
            let snapshot = self.refresh()?;
            let version = snapshot.version;
            return Ok((snapshot, version));
        }
        let unchanged = world.changed_in == snapshot.changed_in && world.table_id == snapshot.metadata.id;
        let version = if unchanged {
            tip.max(snapshot.version)
        } else {
            snapshot.version
        };
        Ok((snapshot, version))
    }

    pub fn commit(&self, transaction: Transaction, patience: &mut Patience<'_>) -> Result<Version> {
        let done = self.committer.commit_while(transaction, patience);
        if let Err(CommitError::LogTruncated(_)) = &done {
            self.outdated.store(true, Ordering::Release);
        }
        Ok(done?)
    }
}

impl Table {
    /// Opens the table in a folder.
    ///
    /// # Errors
    /// [`TableError::NotFound`] when there is none; [`TableError::Malformed`] when its log has a gap or is damaged;
    /// [`CommitError::Unsupported`] when it asks its readers for what is not built.
    pub fn open(root: &Path) -> Result<Self> {
        let root = resolve(root)?;
        let shared = Shared::open(&root)?;
        let own = PerProcess::new();
        own.get_or_init(|| Mutex::new(Arc::clone(&shared)));
        Ok(Self { root, shared: own })
    }

    /// The table's folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn shared(&self) -> Result<Arc<Shared>> {
        if let Some(own) = self.shared.get() {
            let mut own = lock(own);
            if own.outdated.load(Ordering::Acquire) {
                *own = Shared::open(&self.root)?;
            }
            return Ok(Arc::clone(&own));
        }
        let shared = Shared::open(&self.root)?;
        let own = self.shared.get_or_init(|| Mutex::new(Arc::clone(&shared)));
        Ok(Arc::clone(&lock(own)))
    }

    /// The table at its newest version.
    ///
    /// # Errors
    /// When its log cannot be read.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>> {
        self.shared()?.refresh()
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
        self.shared()?.log.load(&self.root, Some(version))
    }

    /// Settles the doubt that a token stands for.
    ///
    /// # Errors
    /// When the token is not one of this table's.
    pub fn outcome(&self, token: &Token, patience: &mut Patience<'_>) -> Result<Outcome> {
        Ok(self.shared()?.committer.outcome(token, patience)?)
    }

    /// What `commitInfo` says of each version, the newest first.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn history(&self, limit: Option<usize>) -> Result<Vec<(Version, Value)>> {
        let shared = self.shared()?;
        let newest = shared.refresh()?.version;
        let mut history = Vec::new();
        for version in (0..=newest).rev().take(limit.unwrap_or(usize::MAX)) {
            // What is not there was cleaned up.
            let Some(body) = shared.log.read(version)? else {
                break;
            };
            history.push((version, commit_info(&body)));
        }
        Ok(history)
    }

    /// Whether a checkpoint should be made now that this version is there. Of all threads that ask, one hears yes.
    ///
    /// # Errors
    /// When the table cannot be opened again.
    pub fn is_checkpoint_due(&self, version: Version) -> Result<bool> {
        let shared = self.shared()?;
        let interval = shared
            .snapshot()
            .property("delta.checkpointInterval")
            .and_then(|text| text.parse().ok())
            .filter(|interval| *interval > 0)
            .unwrap_or(CHECKPOINT_INTERVAL);
        let last = shared.checkpointed.load(Ordering::Acquire);
        let due = version / interval > last / interval;
        Ok(due
            && shared
                .checkpointed
                .compare_exchange(last, version, Ordering::AcqRel, Ordering::Acquire)
                .is_ok())
    }

    /// Writes a checkpoint of the newest version, which it returns.
    ///
    /// # Errors
    /// When the log's folder cannot be written; nothing depends on it.
    pub fn checkpoint(&self) -> Result<Version> {
        let shared = self.shared()?;
        let snapshot = shared.refresh()?;
        shared.checkpointed.fetch_max(snapshot.version, Ordering::AcqRel);
        checkpoint::write(&shared.log, &snapshot)?;
        Ok(snapshot.version)
    }
}

/// The raw `commitInfo` of a commit: any writer may put anything into it.
fn commit_info(body: &[u8]) -> Value {
    body.split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
        .find_map(|mut line| line.get_mut("commitInfo").map(Value::take))
        .unwrap_or(Value::Null)
}
