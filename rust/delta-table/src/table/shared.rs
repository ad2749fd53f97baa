//! The state of an open table, which all handles of a process share: it follows the log, and reads files on demand.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use delta_commit::actions::Metadata;
use delta_commit::log::{StoreError, StoreErrorKind};
use delta_commit::{
    AsyncCommit, BootTime, CommitError, Committer, CompactionBackoff, Outcome, Start, Token, Transaction,
    Version, WaitLimit,
};
use per_process::PerProcess;

use crate::append::SmallAppend;
use crate::create::before_first;
use crate::error::{Result, TableError};
use crate::group_commit::GroupQueue;
use crate::head::{KnownHead, KnownReplay, TableHead, but_files, in_commit_timestamp};
use crate::log_dir::{Damaged, Incarnation, Loaded, LogDir};
use crate::row_change::GroupedChange;
use crate::row_ids;
use crate::single_flight::{SingleFlight, WaitProbe};
use crate::snapshot::{Replay, Snapshot};
use crate::storage::TableStorage;
use crate::versions::{VersionCache, Versions};

use super::{lock, looking, or_late, patient};

/// The number of versions that are read before the table's identity is checked again.
const READ_AT_ONCE: usize = 64;

/// The open tables of this process by their keys. Threads that write to one table must share one committer.
static OPEN: PerProcess<Mutex<HashMap<OsString, Opened>>> = PerProcess::new();

/// A table of this process.
#[derive(Default)]
struct Opened {
    shared: Weak<SharedTable>,
    /// One thread reads the table again for all that wait.
    loading: Arc<SingleFlight>,
    /// The start of the last reading, and its error, if the store did not answer.
    failed: Option<(Instant, StoreError)>,
}

/// The state of a table that all handles in one process share.
pub(crate) struct SharedTable {
    pub(crate) storage: Arc<dyn TableStorage>,
    pub(crate) log: LogDir,
    /// The queue of appends that share files.
    pub(crate) small_appends: GroupQueue<SmallAppend>,
    /// The queue of changes of rows that share versions.
    pub(crate) changes: GroupQueue<GroupedChange>,
    pub(super) committer: Committer,
    pub(super) known: Mutex<KnownHead>,
    /// One thread reads the versions that were added since.
    pub(super) reading: SingleFlight,
    /// The start of the newest reading of the log. One thread reads for all that wait.
    pub(super) read: Mutex<Option<Instant>>,
    /// The versions that the head was read from, until the files are.
    pub(super) opened_with: Mutex<VersionCache>,
    /// The table with its files, as they were when an operation last asked for them, and the start of that reading.
    pub(super) files: Mutex<Option<(Instant, Arc<Snapshot>)>>,
    /// One thread reads the files.
    pub(super) reading_files: SingleFlight,
    /// What distinguishes this table from one that is created at the same place later.
    pub(super) incarnation: Incarnation,
    /// The time of the last check of the incarnation.
    pub(super) confirmed: Mutex<BootTime>,
    /// One thread at a time writes a checkpoint.
    pub(super) writing_checkpoint: SingleFlight,
    /// The newest version of which a checkpoint was made, or is being made.
    pub(super) checkpointed: AtomicI64,
    /// The checkpoint that was damaged when the table was opened, until this process has made another one.
    pub(super) damaged: Mutex<Option<Damaged>>,
    /// True if the log was cleaned up past the known version, so that the table must be opened anew.
    pub(super) outdated: AtomicBool,
    /// The same table, opened again. Handles that still hold this one continue with it.
    pub(super) reopened_as: Mutex<Option<Arc<Self>>>,
    /// True if the table is not there yet: its first version holds the first rows, too.
    pub(crate) is_planned: bool,
}

/// The in-commit timestamp of a version, which checkpoints do not hold. Those of later versions rise above it.
fn newest_in_commit_timestamp(log: &LogDir, head: &TableHead) -> Result<Option<i64>> {
    if head.in_commit_timestamp.is_some() {
        return Ok(head.in_commit_timestamp);
    }
    match log.read(head.version)? {
        Some(body) => in_commit_timestamp(log, head.version, &body),
        None => log.timestamp_of_checkpoint(head.version),
    }
}

/// The state of this table that all handles share, if it is up to date.
fn opened(key: &OsStr) -> Option<Arc<SharedTable>> {
    let open = lock(OPEN.get_or_init(Mutex::default));
    let known = open.get(key).and_then(|opened| opened.shared.upgrade());
    known.filter(|known| !known.is_outdated())
}

impl SharedTable {
    /// Opens the table in a storage once for the whole process.
    pub(super) fn open(storage: &Arc<dyn TableStorage>, look: WaitProbe<'_>) -> Result<Arc<Self>> {
        let key = storage.key();
        let asked = Instant::now();
        if let Some(known) = opened(&key)
            && known.catch_up(look)?
        {
            return Ok(known);
        }
        let loading = {
            let mut open = lock(OPEN.get_or_init(Mutex::default));
            open.retain(|_, opened| {
                opened.shared.strong_count() > 0 || Arc::strong_count(&opened.loading) > 1
            });
            Arc::clone(&open.entry(key.clone()).or_default().loading)
        };
        let _turn = loading.take(look)?;
        // Somebody may have read it meanwhile.
        if let Some(known) = opened(&key)
            && known.catch_up(look)?
        {
            return Ok(known);
        }
        let failed = {
            let open = lock(OPEN.get_or_init(Mutex::default));
            open.get(&key).and_then(|opened| opened.failed.clone())
        };
        // Those that wait for a store that does not answer do not ask it one after the other.
        if let Some((began, error)) = failed
            && began > asked
        {
            return Err(error.into());
        }
        let began = Instant::now();
        let loaded = Self::load(storage);
        let mut open = lock(OPEN.get_or_init(Mutex::default));
        let opened = open.entry(key).or_default();
        opened.failed = match &loaded {
            Err(TableError::Commit(CommitError::Store(error))) if error.kind == StoreErrorKind::Transient => {
                Some((began, error.clone()))
            }
            _ => None,
        };
        let loaded = Arc::new(loaded?);
        opened.shared = Arc::downgrade(&loaded);
        Ok(loaded)
    }

    fn load(storage: &Arc<dyn TableStorage>) -> Result<Self> {
        let confirmed = BootTime::now();
        let log = LogDir(Arc::clone(storage));
        let Loaded {
            state: known,
            checkpoint,
            damaged,
            incarnation,
            digest,
            read,
        } = log.load::<KnownReplay>(None, VersionCache::default())?;
        let head = &known.head;
        let in_commit_timestamp = if head.metadata.is_enabled("delta.enableInCommitTimestamps") {
            // Without a time that is known, the clock alone says how they rise.
            Some(newest_in_commit_timestamp(&log, head)?.unwrap_or(0))
        } else {
            None
        };
        let start = Start {
            version: head.version,
            table_id: head.metadata.id.clone(),
            changed_in: head.changed_in,
            in_commit_timestamp,
            high_water_mark: row_ids::high_water_mark(head),
            digest,
            known: Some((head.protocol.clone(), head.metadata.as_ref().clone())),
        };
        Ok(Self {
            checkpointed: AtomicI64::new(checkpoint.unwrap_or(0)),
            damaged: Mutex::new(damaged),
            opened_with: Mutex::new(read),
            ..Self::new(storage, start, known, incarnation, confirmed)
        })
    }

    fn new(
        storage: &Arc<dyn TableStorage>,
        start: Start,
        known: KnownHead,
        incarnation: Incarnation,
        confirmed: BootTime,
    ) -> Self {
        Self {
            storage: Arc::clone(storage),
            log: LogDir(Arc::clone(storage)),
            small_appends: GroupQueue::default(),
            changes: GroupQueue::default(),
            committer: Committer::new(storage.log_store(), start),
            known: Mutex::new(known),
            reading: SingleFlight::default(),
            read: Mutex::new(None),
            opened_with: Mutex::default(),
            files: Mutex::new(None),
            reading_files: SingleFlight::default(),
            incarnation,
            confirmed: Mutex::new(confirmed),
            writing_checkpoint: SingleFlight::default(),
            checkpointed: AtomicI64::new(0),
            damaged: Mutex::new(None),
            outdated: AtomicBool::new(false),
            reopened_as: Mutex::new(None),
            is_planned: false,
        }
    }

    /// The state of a table that is not there yet. Nothing of it is read from the log.
    pub(super) fn planned(storage: &Arc<dyn TableStorage>, head: TableHead) -> Self {
        let start = before_first(&head.metadata);
        Self {
            is_planned: true,
            ..Self::new(
                storage,
                start,
                KnownHead::new(head),
                Incarnation::none(),
                BootTime::now(),
            )
        }
    }

    /// The newest version that this process has read, without files. Does no I/O.
    pub fn head(&self) -> Arc<TableHead> {
        Arc::clone(&lock(&self.known).head)
    }

    /// The check of a thread that waits for another one here.
    pub fn looking(&self) -> impl FnMut() -> Result<()> + '_ {
        looking(self.storage.as_ref())
    }

    pub(super) fn is_outdated(&self) -> bool {
        self.outdated.load(Ordering::Acquire)
    }

    /// Returns true if the known version is gone or replaced: the log was cleaned up, or another table is here. Object
    /// stores are not asked each time.
    pub(super) fn is_doubtful(&self) -> Result<bool> {
        if self.is_planned {
            return Ok(false);
        }
        // Another thread found that out.
        if self.is_outdated() {
            return Ok(true);
        }
        let before = {
            let mut confirmed = lock(&self.confirmed);
            if confirmed.elapsed() < self.storage.believes_marks_for() {
                return Ok(false);
            }
            // Whoever comes meanwhile need not ask too.
            std::mem::replace(&mut *confirmed, BootTime::now())
        };
        let confirmed = self
            .is_confirmed()
            .inspect_err(|_| *lock(&self.confirmed) = before)?;
        Ok(!confirmed)
    }

    pub(super) fn is_confirmed(&self) -> Result<bool> {
        let asked = BootTime::now();
        let confirmed = self.log.confirms(&self.incarnation)?;
        if confirmed {
            *lock(&self.confirmed) = asked;
        } else {
            self.outdated.store(true, Ordering::Release);
        }
        Ok(confirmed)
    }

    fn replaced(&self) -> TableError {
        TableError::Replaced(self.storage.root().to_path_buf())
    }

    /// Refuses another table in the place of the one that was opened.
    pub(super) fn check_same(&self, found: &Metadata) -> Result<()> {
        if found.id == self.head().metadata.id {
            return Ok(());
        }
        Err(self.replaced())
    }

    /// The same table as it is in its place now. Refuses a table whose versions are not those that the committer knows.
    /// The committer knows versions by number, and another table has the same numbers.
    fn reopened(&self, look: WaitProbe<'_>) -> Result<Arc<Self>> {
        // Before it is read: others go on committing.
        let least = self.committer.known().0.max(self.head().version);
        let found = match Self::open(&self.storage, look) {
            Err(TableError::NotFound(_)) => return Err(self.replaced()),
            found => found?,
        };
        let head = found.head();
        self.check_same(&head.metadata)?;
        // An older copy of the table has fewer versions.
        if head.version < least {
            return Err(self.replaced());
        }
        // It may have been found outdated after it was opened: it must not keep itself alive.
        if self.is_outdated() && !std::ptr::eq(self, found.as_ref()) {
            *lock(&self.reopened_as) = Some(Arc::clone(&found));
            *lock(&self.files) = None;
        }
        Ok(found)
    }

    /// Refuses another table in the place of this one, asking the store anew.
    pub(super) fn check_in_place(&self) -> Result<()> {
        if !self.is_confirmed()? {
            self.reopened(&mut self.looking())?;
        }
        Ok(())
    }

    /// Reads the versions that were added since. Returns false when the table has to be opened anew.
    fn catch_up(&self, look: WaitProbe<'_>) -> Result<bool> {
        if self.is_planned {
            return Ok(true);
        }
        let asked = Instant::now();
        // Whoever was before in the queue began to read after this was asked.
        let is_read = || lock(&self.read).is_some_and(|began| began > asked);
        let Some(turn) = self.reading.take_unless(&is_read, look)? else {
            return Ok(!self.is_outdated());
        };
        if self.is_outdated() {
            return Ok(false);
        }
        let began = Instant::now();
        let is_current = self.read_on()?;
        if is_current {
            *lock(&self.read) = Some(began);
            turn.finish();
        }
        Ok(is_current)
    }

    /// Reads on likewise. Other threads may use the head meanwhile.
    fn read_on(&self) -> Result<bool> {
        let newest = self.head().version;
        let mut after = self.versions_after(newest);
        loop {
            let come = self.parse_some(&mut after, but_files)?;
            // Asked after they were read, and before they are believed.
            if !self.is_confirmed()? {
                return Ok(false);
            }
            let more = come.len() == READ_AT_ONCE;
            let mut known = lock(&self.known);
            for (version, actions) in come {
                known.advance(version, actions)?;
            }
            if !more {
                return Ok(true);
            }
        }
    }

    /// The versions that came after this one.
    fn versions_after(&self, newest: Version) -> Versions<'_> {
        self.log
            .versions(newest + 1..=Version::MAX, newest, VersionCache::default())
    }

    /// Parses the next [`READ_AT_ONCE`] versions, or as many as there are.
    fn parse_some<T>(
        &self,
        versions: &mut Versions<'_>,
        parse: impl Fn(&LogDir, Version, &[u8]) -> Result<T>,
    ) -> Result<Vec<(Version, T)>> {
        let parsed = versions.take(READ_AT_ONCE).map(|next| {
            let (version, body) = next?;
            Ok((version, parse(&self.log, version, &body)?))
        });
        parsed.collect()
    }

    /// The table at its newest version, without files.
    pub fn refresh(&self, look: WaitProbe<'_>) -> Result<Arc<TableHead>> {
        if self.catch_up(look)? {
            return Ok(self.head());
        }
        Ok(self.reopened(look)?.head())
    }

    /// The table at its newest version, without files, and the last transaction version of an application there.
    pub fn progress(&self, app_id: &str, look: WaitProbe<'_>) -> Result<(Arc<TableHead>, Option<i64>)> {
        let of = |shared: &Self| {
            let known = lock(&shared.known);
            (Arc::clone(&known.head), known.transaction_version(app_id))
        };
        if self.catch_up(look)? {
            return Ok(of(self));
        }
        Ok(of(self.reopened(look)?.as_ref()))
    }

    /// The table at its newest version, with its files. They are kept for the next one to ask.
    pub fn snapshot(&self, look: WaitProbe<'_>) -> Result<Arc<Snapshot>> {
        self.with_files(true, look)
    }

    /// The same for one operation alone. What was not kept before is not kept.
    pub fn snapshot_once(&self, look: WaitProbe<'_>) -> Result<Arc<Snapshot>> {
        self.with_files(false, look)
    }

    fn with_files(&self, keep: bool, look: WaitProbe<'_>) -> Result<Arc<Snapshot>> {
        if self.is_planned {
            return Ok(Arc::new(Snapshot::empty(self.head())));
        }
        if let Some(snapshot) = self.own_files(keep, look)? {
            return Ok(snapshot);
        }
        *lock(&self.files) = None;
        let reopened_as = self.reopened(look)?;
        if let Some(snapshot) = reopened_as.own_files(keep, look)? {
            return Ok(snapshot);
        }
        // Where marks do not last, no other reading would be believed any more than this one.
        let least = reopened_as.head().version;
        let snapshot = reopened_as
            .log
            .load::<Replay>(None, VersionCache::default())?
            .state;
        reopened_as.check_same(&snapshot.metadata)?;
        if snapshot.version < least {
            return Err(self.replaced());
        }
        Ok(Arc::new(snapshot))
    }

    /// The table with its files, read by one thread for all that wait. None when the table has to be opened anew.
    fn own_files(&self, keep: bool, look: WaitProbe<'_>) -> Result<Option<Arc<Snapshot>>> {
        let asked = Instant::now();
        let _turn = self.reading_files.take(look)?;
        if let Some((began, snapshot)) = lock(&self.files).as_ref()
            && *began > asked
            && !self.is_outdated()
        {
            return Ok(Some(Arc::clone(snapshot)));
        }
        self.read_files(keep)
    }

    /// Reads the files, or what was added to them since. None when the table has to be opened anew.
    fn read_files(&self, keep: bool) -> Result<Option<Arc<Snapshot>>> {
        let began = Instant::now();
        if self.is_outdated() {
            return Ok(None);
        }
        let held = lock(&self.files).as_ref().map(|(_, snapshot)| snapshot.version);
        let Some(newest) = held else {
            return self.load_files(keep, began);
        };
        let mut after = self.versions_after(newest);
        loop {
            let come = self.parse_some(&mut after, LogDir::parse)?;
            if !self.is_confirmed()? {
                return Ok(None);
            }
            let more = come.len() == READ_AT_ONCE;
            let mut files = lock(&self.files);
            let Some((read, snapshot)) = files.as_mut() else {
                drop(files);
                return self.load_files(keep, began);
            };
            for (version, actions) in come {
                Arc::make_mut(snapshot).advance(version, actions)?;
            }
            if !more {
                *read = began;
                return Ok(Some(Arc::clone(snapshot)));
            }
        }
    }

    fn load_files(&self, keep: bool, began: Instant) -> Result<Option<Arc<Snapshot>>> {
        let kept = std::mem::take(&mut *lock(&self.opened_with));
        let loaded = self.log.load::<Replay>(None, kept);
        // Asked after it was read, and before it is believed, or its absence.
        if !self.is_confirmed()? {
            return Ok(None);
        }
        let loaded = loaded?;
        let snapshot = Arc::new(loaded.state);
        self.check_same(&snapshot.metadata)?;
        if loaded.damaged.is_some() {
            // Opening a table does not read the columns of files, so the damage may be found only here.
            *lock(&self.damaged) = loaded.damaged;
        }
        if keep {
            *lock(&self.files) = Some((began, Arc::clone(&snapshot)));
        }
        Ok(Some(snapshot))
    }

    /// The table at an older version, with its files.
    pub(super) fn snapshot_at(&self, version: Version, look: WaitProbe<'_>) -> Result<Snapshot> {
        let loaded = self.log.load::<Replay>(Some(version), VersionCache::default());
        if !self.is_planned && !self.is_confirmed()? {
            let same = self.reopened(look)?;
            return Ok(same
                .log
                .load::<Replay>(Some(version), VersionCache::default())?
                .state);
        }
        Ok(loaded?.state)
    }

    /// A head with the newest known protocol and metadata, and the newest version that they are valid for. By which
    /// columns the rows are clustered is read from the log.
    pub fn base(&self, look: WaitProbe<'_>) -> Result<(Arc<TableHead>, Version)> {
        let (tip, world) = self.committer.known();
        let head = self.head();
        // Reading a snapshot follows the log too, without advancing the head.
        let files_changed_in = lock(&self.files)
            .as_ref()
            .map(|(_, snapshot)| snapshot.changed_in);
        let newest_change =
            files_changed_in.map_or(world.changed_in, |version| version.max(world.changed_in));
        if newest_change > head.changed_in || head.is_clustered() {
            let head = self.refresh(look)?;
            let version = head.version;
            return Ok((head, version));
        }
        let unchanged = world.changed_in == head.changed_in && world.table_id == head.metadata.id;
        let version = if unchanged {
            tip.max(head.version)
        } else {
            head.version
        };
        Ok((head, version))
    }

    pub fn commit(&self, transaction: Transaction, wait: &mut WaitLimit<'_>) -> Result<Version> {
        self.check_committer(wait).map_err(|error| or_late(error, wait))?;
        self.answered(self.committer.commit_while(transaction, wait))
    }

    /// Asks compactions, of all processes, to wait for so long; see [`CompactionBackoff`].
    pub fn request_backoff(&self, wait: Duration) -> Option<CompactionBackoff> {
        self.committer.request_backoff(wait)
    }

    /// Waits for those that asked compactions to. Returns true if it did.
    pub fn back_off(&self, wait: &mut WaitLimit<'_>) -> bool {
        self.committer.back_off(wait)
    }

    /// Commits likewise for a caller that does not wait: the committer's answer is for `reply`, and then for
    /// [`answered`](Self::answered).
    pub fn post(
        &self,
        transaction: Transaction,
        wait: &mut WaitLimit<'_>,
        reply: delta_commit::CommitCallback,
    ) -> Result<AsyncCommit> {
        self.check_committer(wait).map_err(|error| or_late(error, wait))?;
        Ok(self.committer.post(transaction, reply)?)
    }

    /// The result of a commit by the committer's answer.
    pub fn answered(&self, done: delta_commit::Result<Version>) -> Result<Version> {
        if let Err(CommitError::LogTruncated(_) | CommitError::Replaced(_)) = &done {
            self.outdated.store(true, Ordering::Release);
        }
        if let Err(CommitError::Replaced(_)) = &done {
            return Err(self.replaced());
        }
        done.map_err(|error| self.or_replaced(error.into()))
    }

    /// Refuses a table whose versions are not those that the committer knows.
    fn check_committer(&self, wait: &mut WaitLimit<'_>) -> Result<()> {
        if self.is_doubtful()? {
            self.reopened(&mut patient(wait))?;
        }
        Ok(())
    }

    /// Replaces an error about something missing, if the cause is that the whole table was replaced.
    pub fn or_replaced(&self, error: TableError) -> TableError {
        if self.is_planned || !error.is_of_missing() {
            return error;
        }
        match self.reopened(&mut self.looking()) {
            Err(replaced @ TableError::Replaced(_)) => {
                self.outdated.store(true, Ordering::Release);
                replaced
            }
            _ => error,
        }
    }

    /// Makes the versions up to this one survive a crash, whoever wrote them.
    pub fn sync_log(&self, version: Version) -> Result<()> {
        match self.storage.log_store().sync_log(version, version) {
            // Cleaned up: a checkpoint stands for it.
            Err(error) if error.kind == StoreErrorKind::NotFound => Ok(()),
            done => Ok(done?),
        }
    }

    pub fn outcome(&self, token: &Token, wait: &mut WaitLimit<'_>) -> Result<Outcome> {
        Ok(self.committer.outcome(token, wait)?)
    }
}
