//! A table that is open.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use delta_commit::actions::{Action, Metadata};
use delta_commit::log::BEFORE_FIRST;
use delta_commit::{
    CommitError, CommitStats, Committer, Outcome, Patience, PerProcess, Start, Token, Transaction, Version,
};
use serde_json::Value;

use crate::checkpoint;
use crate::cleanup;
use crate::coalesce::Pool;
use crate::create::before_first;
use crate::error::{Result, TableError};
use crate::log_dir::{Loaded, LogDir, Witness};
use crate::place::{Folder, Place};
use crate::snapshot::Snapshot;

/// The number of versions between two checkpoints, unless the table's properties say otherwise.
const CHECKPOINT_INTERVAL: i64 = 10;

/// The number of versions that are read before the table's identity is checked again.
const READ_AT_ONCE: usize = 64;

/// The open tables of this process by their keys. Threads that write to one table must share one committer.
static OPEN: PerProcess<Mutex<HashMap<OsString, Weak<Shared>>>> = PerProcess::new();

/// A table that is open. Any thread may use it, and so may forked children.
pub struct Table {
    pub(crate) place: Arc<dyn Place>,
    shared: PerProcess<Mutex<Arc<Shared>>>,
    /// The newest version that the caller was shown.
    seen: AtomicI64,
}

/// The state of a table that all handles in one process share.
pub(crate) struct Shared {
    pub(crate) place: Arc<dyn Place>,
    pub(crate) log: LogDir,
    /// The queue of appends that share files.
    pub(crate) pool: Pool,
    committer: Committer,
    snapshot: Mutex<Arc<Snapshot>>,
    /// The start of the newest reading of the log. One thread reads for all that wait.
    read: Mutex<Option<Instant>>,
    /// A mark of this table's log that another table at the same place would not have.
    witness: Witness,
    /// The time of the last check of the witness.
    confirmed: Mutex<Instant>,
    /// The newest version of which a checkpoint was made, or is being made.
    checkpointed: AtomicI64,
    /// True if the log was cleaned up past the known version, so that the table must be opened anew.
    outdated: AtomicBool,
    /// True if the table is not there yet: its first version holds the first rows, too.
    pub(crate) is_planned: bool,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The in-commit timestamp of a snapshot, which checkpoints do not hold.
fn in_commit_timestamp(log: &LogDir, snapshot: &Snapshot) -> Result<Option<i64>> {
    if snapshot.in_commit_timestamp.is_some() {
        return Ok(snapshot.in_commit_timestamp);
    }
    let Some(body) = log.read(snapshot.version)? else {
        return Ok(None);
    };
    let actions = log.parse(snapshot.version, &body)?;
    Ok(actions.into_iter().find_map(|action| match action {
        Action::CommitInfo(info) => info.in_commit_timestamp,
        _ => None,
    }))
}

fn newest_checkpoint(log: &LogDir) -> Result<Option<Version>> {
    Ok(log
        .list(None)?
        .checkpoint(Version::MAX)
        .map(|(version, _)| version))
}

impl Shared {
    /// Opens the table in a place once for the whole process.
    fn open(place: &Arc<dyn Place>) -> Result<Arc<Self>> {
        let open = OPEN.get_or_init(Mutex::default);
        let key = place.key();
        let known = lock(open).get(&key).and_then(Weak::upgrade);
        if let Some(known) = known
            && !known.outdated.load(Ordering::Acquire)
        {
            match known.refresh() {
                Err(TableError::Replaced(_)) => {}
                Ok(_) if known.outdated.load(Ordering::Acquire) => {}
                done => return done.map(|_| known),
            }
        }
        let loaded = Arc::new(Self::load(place)?);
        let mut open = lock(open);
        open.retain(|_, shared| shared.strong_count() > 0);
        // Somebody may have been quicker: then theirs is the one where threads meet.
        if let Some(other) = open.get(&key).and_then(Weak::upgrade)
            && !other.outdated.load(Ordering::Acquire)
            && other.snapshot().metadata.id == loaded.snapshot().metadata.id
        {
            return Ok(other);
        }
        open.insert(key, Arc::downgrade(&loaded));
        Ok(loaded)
    }

    fn load(place: &Arc<dyn Place>) -> Result<Self> {
        let confirmed = Mutex::new(Instant::now());
        let log = LogDir(Arc::clone(place));
        let Loaded {
            snapshot,
            checkpoint,
            witness,
        } = log.load(None)?;
        let in_commit_timestamp = if snapshot.metadata.is_enabled("delta.enableInCommitTimestamps") {
            // Without a time that is known, the clock alone says how they rise.
            Some(in_commit_timestamp(&log, &snapshot)?.unwrap_or(0))
        } else {
            None
        };
        let start = Start {
            version: snapshot.version,
            table_id: snapshot.metadata.id.clone(),
            changed_in: snapshot.changed_in,
            in_commit_timestamp,
            known: Some((snapshot.protocol.clone(), snapshot.metadata.as_ref().clone())),
        };
        Ok(Self {
            place: Arc::clone(place),
            committer: Committer::new(place.log_store(), start),
            pool: Pool::default(),
            witness,
            confirmed,
            log,
            snapshot: Mutex::new(Arc::new(snapshot)),
            read: Mutex::new(None),
            checkpointed: AtomicI64::new(checkpoint.unwrap_or(0)),
            outdated: AtomicBool::new(false),
            is_planned: false,
        })
    }

    /// The state of a table that is not there yet. Nothing of it is read from the log.
    fn planned(place: &Arc<dyn Place>, snapshot: Snapshot) -> Self {
        Self {
            place: Arc::clone(place),
            committer: Committer::new(place.log_store(), before_first(&snapshot.metadata)),
            pool: Pool::default(),
            witness: Witness::none(),
            confirmed: Mutex::new(Instant::now()),
            log: LogDir(Arc::clone(place)),
            snapshot: Mutex::new(Arc::new(snapshot)),
            read: Mutex::new(None),
            checkpointed: AtomicI64::new(0),
            outdated: AtomicBool::new(false),
            is_planned: true,
        }
    }

    /// The newest version that this process has read. Does no I/O.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&lock(&self.snapshot))
    }

    /// Returns true if the known version is gone or replaced: the log was cleaned up, or another table is here. Object
    /// stores are not asked each time.
    fn is_doubtful(&self) -> Result<bool> {
        if self.is_planned {
            return Ok(false);
        }
        let before = {
            let mut confirmed = lock(&self.confirmed);
            if confirmed.elapsed() < self.place.believes_marks_for() {
                return Ok(false);
            }
            // Whoever comes meanwhile need not ask too.
            std::mem::replace(&mut *confirmed, Instant::now())
        };
        let confirmed = self
            .is_confirmed()
            .inspect_err(|_| *lock(&self.confirmed) = before)?;
        Ok(!confirmed)
    }

    fn is_confirmed(&self) -> Result<bool> {
        let asked = Instant::now();
        let confirmed = self.log.confirms(&self.witness)?;
        if confirmed {
            *lock(&self.confirmed) = asked;
        } else {
            self.outdated.store(true, Ordering::Release);
        }
        Ok(confirmed)
    }

    fn replaced(&self) -> TableError {
        TableError::Replaced(self.place.root().to_path_buf())
    }

    /// Refuses another table in the place of the one that was opened.
    fn check_same(&self, found: &Metadata) -> Result<()> {
        if found.id == self.snapshot().metadata.id {
            return Ok(());
        }
        Err(self.replaced())
    }

    /// Refuses a table whose versions are not those that the committer knows. The committer knows versions by number,
    /// and another table has the same numbers.
    fn check_committer(&self) -> Result<()> {
        if self.is_doubtful()? {
            return self.check_log();
        }
        Ok(())
    }

    /// The same, by what the log holds.
    fn check_log(&self) -> Result<()> {
        // Before it is read: others go on committing.
        let least = self.committer.known().0.max(self.snapshot().version);
        let found = match self.log.load(None) {
            Err(TableError::NotFound(_)) => return Err(self.replaced()),
            found => found?.snapshot,
        };
        self.check_same(&found.metadata)?;
        // An older copy of the table has fewer versions.
        if found.version < least {
            return Err(self.replaced());
        }
        Ok(())
    }

    /// The table at its newest version.
    pub fn refresh(&self) -> Result<Arc<Snapshot>> {
        if self.is_planned {
            return Ok(self.snapshot());
        }
        let asked = Instant::now();
        let mut read = lock(&self.read);
        // Whoever was before in the queue began to read after this was asked.
        if read.is_some_and(|began| began > asked) {
            return Ok(self.snapshot());
        }
        let began = Instant::now();
        self.read_on()?;
        *read = Some(began);
        Ok(self.snapshot())
    }

    /// Reads the versions that were added since. Other threads may use the snapshot meanwhile.
    fn read_on(&self) -> Result<()> {
        loop {
            let newest = self.snapshot().version;
            let come = self.read_after(newest)?;
            // Asked after they were read, and before they are believed.
            if !self.is_confirmed()? {
                return self.read_anew();
            }
            let more = come.len() == READ_AT_ONCE;
            for (version, actions) in (newest + 1..).zip(come) {
                Arc::make_mut(&mut lock(&self.snapshot)).advance(version, actions)?;
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// The actions of the versions after `newest`, at most [`READ_AT_ONCE`] of them.
    fn read_after(&self, newest: Version) -> Result<Vec<Vec<Action>>> {
        let mut come = Vec::new();
        for version in (newest + 1..).take(READ_AT_ONCE) {
            let Some(body) = self.log.read(version)? else {
                break;
            };
            come.push(self.log.parse(version, &body)?);
        }
        Ok(come)
    }

    /// Reads the whole table again: versions were cleaned up, or the table is gone or replaced.
    fn read_anew(&self) -> Result<()> {
        let found = self.log.load(None)?.snapshot;
        self.check_same(&found.metadata)?;
        *lock(&self.snapshot) = Arc::new(found);
        Ok(())
    }

    /// A snapshot with the newest known protocol and metadata, and the newest version that they are valid for.
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
        self.check_committer().map_err(|error| match patience.left() {
            // A request that the end of the time has cut short says so in its own way.
            None => CommitError::DeadlinePassed.into(),
            Some(_) => error,
        })?;
        let done = self.committer.commit_while(transaction, patience);
        if let Err(CommitError::LogTruncated(_)) = &done {
            self.outdated.store(true, Ordering::Release);
        }
        done.map_err(|error| self.or_replaced(error.into()))
    }

    /// Replaces an error about something missing, if the cause is that the whole table was replaced.
    pub fn or_replaced(&self, error: TableError) -> TableError {
        if self.is_planned || !error.is_of_missing() {
            return error;
        }
        match self.check_log() {
            Err(replaced @ TableError::Replaced(_)) => {
                self.outdated.store(true, Ordering::Release);
                replaced
            }
            _ => error,
        }
    }

    pub fn outcome(&self, token: &Token, patience: &mut Patience<'_>) -> Result<Outcome> {
        Ok(self.committer.outcome(token, patience)?)
    }
}

impl Table {
    /// Opens the table in a folder.
    ///
    /// # Errors
    /// [`TableError::NotFound`] when there is none; [`TableError::Malformed`] when its log has a gap or is damaged;
    /// [`CommitError::Unsupported`] when it asks its readers for what is not built.
    pub fn open(root: &Path) -> Result<Self> {
        Self::open_at(Arc::new(Folder::new(root)?))
    }

    /// Opens the table wherever it is.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_at(place: Arc<dyn Place>) -> Result<Self> {
        let shared = Shared::open(&place)?;
        let own = PerProcess::new();
        let seen = AtomicI64::new(shared.snapshot().version);
        own.get_or_init(|| Mutex::new(Arc::clone(&shared)));
        Ok(Self {
            place,
            shared: own,
            seen,
        })
    }

    /// A table that is not there yet, by its protocol and metadata.
    pub(crate) fn planned_as(place: Arc<dyn Place>, snapshot: Snapshot) -> Self {
        let shared = Arc::new(Shared::planned(&place, snapshot));
        let own = PerProcess::new();
        own.get_or_init(|| Mutex::new(Arc::clone(&shared)));
        Self {
            place,
            shared: own,
            seen: AtomicI64::new(BEFORE_FIRST),
        }
    }

    /// The table's folder, or its URL.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.place.root()
    }

    pub(crate) fn shared(&self) -> Result<Arc<Shared>> {
        if let Some(own) = self.shared.get() {
            // Stores are asked without the lock: others must not wait for an answer behind it.
            let known = Arc::clone(&lock(own));
            if !known.outdated.load(Ordering::Acquire) && !known.is_doubtful()? {
                return Ok(known);
            }
            let found = Shared::open(&self.place)?;
            known.check_same(&found.snapshot().metadata)?;
            *lock(own) = Arc::clone(&found);
            return Ok(found);
        }
        let shared = Shared::open(&self.place)?;
        let own = self.shared.get_or_init(|| Mutex::new(Arc::clone(&shared)));
        Ok(Arc::clone(&lock(own)))
    }

    /// The table at its newest version.
    ///
    /// # Errors
    /// When its log cannot be read; [`TableError::Replaced`] when it is another table's by now.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>> {
        self.shared()?.refresh()
    }

    /// The table at its newest version, for a caller that bases a commit on it: see [`ReadSet`](crate::ReadSet).
    ///
    /// # Errors
    /// As [`snapshot`](Self::snapshot).
    pub fn look(&self) -> Result<Arc<Snapshot>> {
        let snapshot = self.snapshot()?;
        self.seen.store(snapshot.version, Ordering::Release);
        Ok(snapshot)
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
        Ok(self.shared()?.log.load(Some(version))?.snapshot)
    }

    /// Settles the doubt of a token.
    ///
    /// # Errors
    /// When the token is not one of this table's.
    pub fn outcome(&self, token: &Token, patience: &mut Patience<'_>) -> Result<Outcome> {
        self.shared()?.outcome(token, patience)
    }

    /// Counts of this process' races for versions since the table was first opened.
    ///
    /// # Errors
    /// When the table cannot be opened again.
    pub fn commit_stats(&self) -> Result<CommitStats> {
        Ok(self.shared()?.committer.commit_stats())
    }

    /// The `commitInfo` of each version, the newest first.
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

    /// Returns true if a checkpoint should be made now that this version is there. Of all threads that ask, one gets
    /// true.
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
        if version / interval <= last / interval {
            return Ok(false);
        }
        let first = shared
            .checkpointed
            .compare_exchange(last, version, Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        if !first {
            return Ok(false);
        }
        // Another process may have made it.
        let newest = newest_checkpoint(&shared.log).inspect_err(|_| {
            // The next version asks again.
            shared.checkpointed.store(last, Ordering::Release);
        })?;
        Ok(version / interval > newest.unwrap_or(0) / interval)
    }

    /// Writes a checkpoint of the newest version, unless there is one of it or of a later one. Returns the version that
    /// has one.
    ///
    /// # Errors
    /// [`CommitError::Unsupported`] when the table asks its writers for what is not built, which may be about
    /// checkpoints too, or has fields of other writers that no checkpoint can hold; when the log's folder cannot be
    /// written. Nothing depends on it.
    pub fn checkpoint(&self) -> Result<Version> {
        let shared = self.shared()?;
        let snapshot = shared.refresh()?;
        snapshot.check_writable()?;
        let newest = newest_checkpoint(&shared.log)?;
        if let Some(newest) = newest.filter(|newest| *newest >= snapshot.version) {
            return Ok(newest);
        }
        shared.checkpointed.fetch_max(snapshot.version, Ordering::AcqRel);
        checkpoint::write(&shared.log, &snapshot)?;
        Ok(snapshot.version)
    }

    /// Removes versions that are past the table's retention and not needed. Returns the number of removed files.
    ///
    /// # Errors
    /// [`CommitError::Unsupported`] when the table asks its writers for what is not built, which may be about what is
    /// removed too; when the log's folder cannot be read or written. Nothing depends on it.
    pub fn clean_up_log(&self) -> Result<usize> {
        let shared = self.shared()?;
        let snapshot = shared.refresh()?;
        snapshot.check_writable()?;
        cleanup::clean_up(&shared.log, &snapshot)
    }
}

/// The unparsed `commitInfo` of a commit, into which any writer may put anything.
fn commit_info(body: &[u8]) -> Value {
    body.split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
        .find_map(|mut line| line.get_mut("commitInfo").map(Value::take))
        .unwrap_or(Value::Null)
}
