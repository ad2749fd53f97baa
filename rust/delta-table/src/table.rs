//! A table that is open.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use delta_commit::actions::Metadata;
use delta_commit::log::{BEFORE_FIRST, StoreError, StoreErrorKind};
use delta_commit::{
    BootTime, CommitError, CommitStats, Committer, Outcome, Patience, Posted, Precedence, Start, Token,
    Transaction, Version,
};
use per_process::PerProcess;
use serde_json::Value;

use crate::checkpoint::{self, Since, SinceReplay};
use crate::cleanup;
use crate::coalesce::Pool;
use crate::create::before_first;
use crate::error::{Result, TableError};
use crate::head::{Head, Known, KnownReplay, but_files, in_commit_timestamp};
use crate::log_dir::{Damaged, Loaded, LogDir, Witness};
use crate::pinned::Pinned;
use crate::place::{Folder, Place};
use crate::row_change::Waiting;
use crate::row_ids;
use crate::snapshot::{Replay, Snapshot};
use crate::turn::{Look, Turn};
use crate::versions::{Kept, Versions};

/// The number of versions between two checkpoints, unless the table's properties say otherwise.
const CHECKPOINT_INTERVAL: i64 = 10;

/// The actions of a checkpoint for which there is one more version up to the next.
const ACTIONS_A_VERSION: i64 = 100;

/// The most intervals between two checkpoints. A reader reads all versions since the last one.
const MOST_INTERVALS: i64 = 50;

/// The number of versions that are read before the table's identity is checked again.
const READ_AT_ONCE: usize = 64;

/// The open tables of this process by their keys. Threads that write to one table must share one committer.
static OPEN: PerProcess<Mutex<HashMap<OsString, Opened>>> = PerProcess::new();

/// A table of this process.
#[derive(Default)]
struct Opened {
    shared: Weak<Shared>,
    /// The turn to read the table anew. One thread does it for all that wait.
    loading: Arc<Turn>,
    /// The start of the last reading, and its error, if the store did not answer.
    failed: Option<(Instant, StoreError)>,
}

/// A table that is open. Any thread may use it, and so may forked children.
pub struct Table {
    pub(crate) place: Arc<dyn Place>,
    shared: PerProcess<Mutex<Arc<Shared>>>,
    /// The version that the caller reads.
    pub(crate) pinned: PerProcess<Mutex<Pinned>>,
    /// The last version that the handle was pinned to.
    pub(crate) seen: AtomicI64,
}

/// The state of a table that all handles in one process share.
pub(crate) struct Shared {
    pub(crate) place: Arc<dyn Place>,
    pub(crate) log: LogDir,
    /// The queue of appends that share files.
    pub(crate) pool: Pool,
    /// The queue of changes of rows that share versions.
    pub(crate) changes: Waiting,
    committer: Committer,
    known: Mutex<Known>,
    /// The turn to read the versions that were added since.
    reading: Turn,
    /// The start of the newest reading of the log. One thread reads for all that wait.
    read: Mutex<Option<Instant>>,
    /// The versions that the head was read from, until the files are.
    opened_with: Mutex<Kept>,
    /// The table with its files, as they were when an operation last asked for them, and the start of that reading.
    files: Mutex<Option<(Instant, Arc<Snapshot>)>>,
    /// The turn to read the files.
    reading_files: Turn,
    /// A mark of this table's log that another table at the same place would not have.
    witness: Witness,
    /// The time of the last check of the witness.
    confirmed: Mutex<BootTime>,
    /// The turn to write a checkpoint. Each has all files in memory.
    writing_checkpoint: Turn,
    /// The newest version of which a checkpoint was made, or is being made.
    checkpointed: AtomicI64,
    /// The checkpoint that was damaged when the table was opened, until this process has made another one.
    damaged: Mutex<Option<Damaged>>,
    /// True if the log was cleaned up past the known version, so that the table must be opened anew.
    outdated: AtomicBool,
    /// The same table as it was opened anew. It is kept for those that still hold this one.
    heir: Mutex<Option<Arc<Self>>>,
    /// True if the table is not there yet: its first version holds the first rows, too.
    pub(crate) is_planned: bool,
}

/// A counter of the versions that all threads of this process try to write to a table.
#[derive(Clone)]
pub struct CommitCounter(pub(crate) Arc<Shared>);

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
pub(crate) fn looking(place: &dyn Place) -> impl FnMut() -> Result<()> + '_ {
    let mut attend = None;
    // Most waits end before anybody has to look.
    move || {
        let attend = attend.get_or_insert_with(|| place.attend());
        attend().map_err(|error| TableError::io(place.root().display(), &error))
    }
}

/// The check of a thread that waits for another one in a commit.
pub(crate) fn patient<'a>(patience: &'a mut Patience<'_>) -> impl FnMut() -> Result<()> + 'a {
    move || match patience.left() {
        Some(_) => Ok(()),
        None => Err(CommitError::DeadlinePassed.into()),
    }
}

/// Replaces an error that the end of the time may have caused. A request that it has cut short says so in its own way.
pub(crate) fn or_late(error: TableError, patience: &mut Patience<'_>) -> TableError {
    match &error {
        TableError::Commit(CommitError::Store(_)) if patience.left().is_none() => {
            CommitError::DeadlinePassed.into()
        }
        _ => error,
    }
}

/// The in-commit timestamp of a version, which checkpoints do not hold. Those of later versions rise above it.
fn newest_in_commit_timestamp(log: &LogDir, head: &Head) -> Result<Option<i64>> {
    if head.in_commit_timestamp.is_some() {
        return Ok(head.in_commit_timestamp);
    }
    match log.read(head.version)? {
        Some(body) => in_commit_timestamp(log, head.version, &body),
        None => log.timestamp_of_checkpoint(head.version),
    }
}

/// The versions from one checkpoint to the next, where the last one has so many actions: a multiple of `interval`.
///
/// Each checkpoint holds all files. In a table of many, to which each version adds a few, checkpoints would cost more
/// than commits.
fn spacing(interval: Version, size: i64) -> Version {
    interval.saturating_mul((size / ACTIONS_A_VERSION / interval).clamp(1, MOST_INTERVALS))
}

/// The state of this table that all handles share, if it is up to date.
fn opened(key: &OsStr) -> Option<Arc<Shared>> {
    let open = lock(OPEN.get_or_init(Mutex::default));
    let known = open.get(key).and_then(|opened| opened.shared.upgrade());
    known.filter(|known| !known.is_outdated())
}

impl Shared {
    /// Opens the table in a place once for the whole process.
    fn open(place: &Arc<dyn Place>, look: Look<'_>) -> Result<Arc<Self>> {
        let key = place.key();
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
        let loaded = Self::load(place);
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

    fn load(place: &Arc<dyn Place>) -> Result<Self> {
        let confirmed = BootTime::now();
        let log = LogDir(Arc::clone(place));
        let Loaded {
            state: known,
            checkpoint,
            damaged,
            witness,
            digest,
            read,
        } = log.load::<KnownReplay>(None, Kept::default())?;
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
            ..Self::new(place, start, known, witness, confirmed)
        })
    }

    fn new(
        place: &Arc<dyn Place>,
        start: Start,
        known: Known,
        witness: Witness,
        confirmed: BootTime,
    ) -> Self {
        Self {
            place: Arc::clone(place),
            log: LogDir(Arc::clone(place)),
            pool: Pool::default(),
            changes: Waiting::default(),
            committer: Committer::new(place.log_store(), start),
            known: Mutex::new(known),
            reading: Turn::default(),
            read: Mutex::new(None),
            opened_with: Mutex::default(),
            files: Mutex::new(None),
            reading_files: Turn::default(),
            witness,
            confirmed: Mutex::new(confirmed),
            writing_checkpoint: Turn::default(),
            checkpointed: AtomicI64::new(0),
            damaged: Mutex::new(None),
            outdated: AtomicBool::new(false),
            heir: Mutex::new(None),
            is_planned: false,
        }
    }

    /// The state of a table that is not there yet. Nothing of it is read from the log.
    fn planned(place: &Arc<dyn Place>, head: Head) -> Self {
        let start = before_first(&head.metadata);
        Self {
            is_planned: true,
            ..Self::new(place, start, Known::new(head), Witness::none(), BootTime::now())
        }
    }

    /// The newest version that this process has read, without files. Does no I/O.
    pub fn head(&self) -> Arc<Head> {
        Arc::clone(&lock(&self.known).head)
    }

    /// The check of a thread that waits for another one here.
    pub fn looking(&self) -> impl FnMut() -> Result<()> + '_ {
        looking(self.place.as_ref())
    }

    fn is_outdated(&self) -> bool {
        self.outdated.load(Ordering::Acquire)
    }

    /// Returns true if the known version is gone or replaced: the log was cleaned up, or another table is here. Object
    /// stores are not asked each time.
    fn is_doubtful(&self) -> Result<bool> {
        if self.is_planned {
            return Ok(false);
        }
        // Another thread found that out.
        if self.is_outdated() {
            return Ok(true);
        }
        let before = {
            let mut confirmed = lock(&self.confirmed);
            if confirmed.elapsed() < self.place.believes_marks_for() {
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

    fn is_confirmed(&self) -> Result<bool> {
        let asked = BootTime::now();
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
        if found.id == self.head().metadata.id {
            return Ok(());
        }
        Err(self.replaced())
    }

    /// The same table as it is in its place now. Refuses a table whose versions are not those that the committer knows.
    /// The committer knows versions by number, and another table has the same numbers.
    fn reopened(&self, look: Look<'_>) -> Result<Arc<Self>> {
        // Before it is read: others go on committing.
        let least = self.committer.known().0.max(self.head().version);
        let found = match Self::open(&self.place, look) {
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
            *lock(&self.heir) = Some(Arc::clone(&found));
            *lock(&self.files) = None;
        }
        Ok(found)
    }

    /// Refuses another table in the place of this one, asking the store anew.
    fn check_in_place(&self) -> Result<()> {
        if !self.is_confirmed()? {
            self.reopened(&mut self.looking())?;
        }
        Ok(())
    }

    /// Reads the versions that were added since. Returns false when the table has to be opened anew.
    fn catch_up(&self, look: Look<'_>) -> Result<bool> {
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
            .versions(newest + 1..=Version::MAX, newest, Kept::default())
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
    pub fn refresh(&self, look: Look<'_>) -> Result<Arc<Head>> {
        if self.catch_up(look)? {
            return Ok(self.head());
        }
        Ok(self.reopened(look)?.head())
    }

    /// The table at its newest version, without files, and the last transaction version of an application there.
    pub fn progress(&self, app_id: &str, look: Look<'_>) -> Result<(Arc<Head>, Option<i64>)> {
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
    pub fn snapshot(&self, look: Look<'_>) -> Result<Arc<Snapshot>> {
        self.with_files(true, look)
    }

    /// The same for one operation alone. What was not kept before is not kept.
    pub fn snapshot_once(&self, look: Look<'_>) -> Result<Arc<Snapshot>> {
        self.with_files(false, look)
    }

    fn with_files(&self, keep: bool, look: Look<'_>) -> Result<Arc<Snapshot>> {
        if self.is_planned {
            return Ok(Arc::new(Snapshot::empty(self.head())));
        }
        if let Some(snapshot) = self.own_files(keep, look)? {
            return Ok(snapshot);
        }
        *lock(&self.files) = None;
        let heir = self.reopened(look)?;
        if let Some(snapshot) = heir.own_files(keep, look)? {
            return Ok(snapshot);
        }
        // Where marks do not last, no other reading would be believed any more than this one.
        let least = heir.head().version;
        let snapshot = heir.log.load::<Replay>(None, Kept::default())?.state;
        heir.check_same(&snapshot.metadata)?;
        if snapshot.version < least {
            return Err(self.replaced());
        }
        Ok(Arc::new(snapshot))
    }

    /// The table with its files, read by one thread for all that wait. None when the table has to be opened anew.
    fn own_files(&self, keep: bool, look: Look<'_>) -> Result<Option<Arc<Snapshot>>> {
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

    /// The table with the files of the versions after its newest checkpoint. None if that checkpoint is damaged, or if
    /// the table has to be opened anew.
    fn since_checkpoint(&self) -> Result<Option<Since>> {
        if self.is_planned {
            return Ok(None);
        }
        let loaded = self.log.load::<SinceReplay>(None, Kept::default());
        // Asked after it was read, and before it is believed, or its absence.
        if !self.is_confirmed()? {
            return Ok(None);
        }
        let loaded = match loaded {
            Err(error) if error.is_corruption() => return Ok(None),
            loaded => loaded?,
        };
        if loaded.damaged.is_some() {
            return Ok(None);
        }
        self.check_same(&loaded.state.snapshot.metadata)?;
        Ok(Some(loaded.state))
    }

    /// Writes the checkpoint of a version. An existing file of its name is replaced if it is among the `unreadable`
    /// ones. Returns false if the entries of the previous checkpoint cannot be copied.
    fn write_checkpoint(self: &Arc<Self>, since: &Since, unreadable: &[&str]) -> Result<bool> {
        let snapshot = &since.snapshot;
        snapshot.check_writable()?;
        self.checkpointed.fetch_max(snapshot.version, Ordering::AcqRel);
        // Checkpoints of other writers do not say what changed metadata last. This process may have seen it.
        let known = self.refresh(&mut self.looking())?.changed_in;
        let changed_in = if known <= snapshot.version {
            known.min(snapshot.changed_in)
        } else {
            snapshot.changed_in
        };
        let check: Arc<checkpoint::InPlace> = {
            let shared = Arc::clone(self);
            Arc::new(move || shared.check_in_place())
        };
        // Any other existing file was written by another process meanwhile, and is kept.
        let replace = unreadable.contains(&checkpoint::file_name(snapshot.version).as_str());
        let is_written = checkpoint::write(&self.log, since, changed_in, replace, &check)?;
        if is_written {
            *lock(&self.damaged) = None;
        }
        Ok(is_written)
    }

    /// The table at an older version, with its files.
    fn snapshot_at(&self, version: Version, look: Look<'_>) -> Result<Snapshot> {
        let loaded = self.log.load::<Replay>(Some(version), Kept::default());
        if !self.is_planned && !self.is_confirmed()? {
            let same = self.reopened(look)?;
            return Ok(same.log.load::<Replay>(Some(version), Kept::default())?.state);
        }
        Ok(loaded?.state)
    }

    /// A head with the newest known protocol and metadata, and the newest version that they are valid for. By which
    /// columns the rows are clustered is read from the log.
    pub fn base(&self, look: Look<'_>) -> Result<(Arc<Head>, Version)> {
        let (tip, world) = self.committer.known();
        let head = self.head();
        if world.changed_in > head.changed_in || head.is_clustered() {
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

    pub fn commit(&self, transaction: Transaction, patience: &mut Patience<'_>) -> Result<Version> {
        self.check_committer(patience)
            .map_err(|error| or_late(error, patience))?;
        self.answered(self.committer.commit_while(transaction, patience))
    }

    /// Asks compactions, of all processes, to wait for so long; see [`Precedence`].
    pub fn ask_precedence(&self, wait: Duration) -> Option<Precedence> {
        self.committer.ask_precedence(wait)
    }

    /// Waits for those that asked compactions to. Returns true if it did.
    pub fn give_precedence(&self, patience: &mut Patience<'_>) -> bool {
        self.committer.give_precedence(patience)
    }

    /// Commits likewise for a caller that does not wait: the committer's answer is for `reply`, and then for
    /// [`answered`](Self::answered).
    pub fn post(
        &self,
        transaction: Transaction,
        patience: &mut Patience<'_>,
        reply: delta_commit::Reply,
    ) -> Result<Posted> {
        self.check_committer(patience)
            .map_err(|error| or_late(error, patience))?;
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
    fn check_committer(&self, patience: &mut Patience<'_>) -> Result<()> {
        if self.is_doubtful()? {
            self.reopened(&mut patient(patience))?;
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
        match self.place.log_store().sync_log(version, version) {
            // Cleaned up: a checkpoint stands for it.
            Err(error) if error.kind == StoreErrorKind::NotFound => Ok(()),
            done => Ok(done?),
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
        let shared = Shared::open(&place, &mut looking(place.as_ref()))?;
        let (own, pinned) = (PerProcess::new(), PerProcess::new());
        let head = shared.head();
        let seen = AtomicI64::new(head.version);
        own.get_or_init(|| Mutex::new(Arc::clone(&shared)));
        pinned.get_or_init(|| Mutex::new(Pinned::to(head)));
        Ok(Self {
            place,
            shared: own,
            pinned,
            seen,
        })
    }

    /// A table that is not there yet, by its protocol and metadata.
    pub(crate) fn planned_as(place: Arc<dyn Place>, head: Head) -> Self {
        let shared = Arc::new(Shared::planned(&place, head));
        let own = PerProcess::new();
        own.get_or_init(|| Mutex::new(Arc::clone(&shared)));
        Self {
            place,
            shared: own,
            pinned: PerProcess::new(),
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
            if !known.is_outdated() && !known.is_doubtful()? {
                return Ok(known);
            }
            let found = Shared::open(&self.place, &mut known.looking())?;
            known.check_same(&found.head().metadata)?;
            *lock(own) = Arc::clone(&found);
            return Ok(found);
        }
        let shared = Shared::open(&self.place, &mut looking(self.place.as_ref()))?;
        let own = self.shared.get_or_init(|| Mutex::new(Arc::clone(&shared)));
        Ok(Arc::clone(&lock(own)))
    }

    /// The table at its newest version, without files.
    ///
    /// # Errors
    /// When its log cannot be read; [`TableError::Replaced`] when it is another table's by now.
    pub fn head(&self) -> Result<Arc<Head>> {
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
    pub(crate) fn snapshot_in_time(&self, patience: &mut Patience<'_>) -> Result<Arc<Snapshot>> {
        let snapshot = self.shared()?.snapshot(&mut patient(patience));
        snapshot.map_err(|error| or_late(error, patience))
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
    pub fn outcome(&self, token: &Token, patience: &mut Patience<'_>) -> Result<Outcome> {
        self.shared()?.outcome(token, patience)
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
    fn held(&self) -> Option<Arc<Shared>> {
        self.shared.get().map(|own| Arc::clone(&lock(own)))
    }

    /// Counts of this process' races for versions, and the times of its effects, since the table was first opened.
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
        let newest = shared.refresh(&mut shared.looking())?.version;
        let mut history = Vec::new();
        let versions = (0..=newest).rev().take(limit.unwrap_or(usize::MAX));
        for found in shared.log.bodies(versions) {
            let (version, body) = found?;
            // What is not there was cleaned up.
            let Some(body) = body else {
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
        let named = shared
            .head()
            .property("delta.checkpointInterval")
            .and_then(|text| text.parse().ok())
            .filter(|interval| *interval > 0);
        let interval = named.unwrap_or(CHECKPOINT_INTERVAL);
        let last = shared.checkpointed.load(Ordering::Acquire);
        // While one is written the next one waits: the versions after it ask again.
        if version / interval <= last / interval || shared.writing_checkpoint.is_taken() {
            return Ok(false);
        }
        // Each version has one process that wrote it, and may have many whose rows are in it.
        if !shared.committer.has_written_since(version - version % interval) {
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
        let listing = shared.log.list(None).inspect_err(|_| {
            // The next version asks again.
            shared.checkpointed.store(last, Ordering::Release);
        })?;
        let damaged = lock(&shared.damaged).as_ref().map(|damaged| damaged.version);
        let newest = listing.checkpoint(Version::MAX).map(|(version, _)| version);
        let Some(newest) = newest.filter(|newest| Some(*newest) != damaged) else {
            return Ok(true);
        };
        let step = match named {
            Some(interval) => interval,
            None => spacing(interval, shared.log.size_of_checkpoint(newest)?),
        };
        if version / step <= newest / step {
            return Ok(false);
        }
        // One that takes a while is made by the process that wrote the version. Others would each make it, too, before
        // it is there. They do so later, if it is not there by then.
        let past = version % step;
        Ok(step == interval
            || (shared.committer.has_written_since(version - past) && (past == 0 || past >= step / 2)))
    }

    /// Writes a checkpoint of the newest version, unless there is one of it or of a later one. One that cannot be read
    /// is replaced. Returns the version that has one.
    ///
    /// # Errors
    /// [`CommitError::Unsupported`] when the table asks its writers for what is not built, which may be about
    /// checkpoints too, or has fields of other writers that no checkpoint can hold; when the log's folder cannot be
    /// written. Nothing depends on it.
    pub fn checkpoint(&self) -> Result<Version> {
        let shared = self.shared()?;
        let head = shared.refresh(&mut shared.looking())?;
        head.check_writable()?;
        let _turn = shared.writing_checkpoint.take(&mut shared.looking())?;
        let listing = shared.log.list(None)?;
        let mut unreadable = Vec::new();
        if let Some((newest, names)) = listing.checkpoint(Version::MAX)
            && newest >= head.version
        {
            let damaged = lock(&shared.damaged).as_ref().map(|damaged| damaged.version);
            if damaged != Some(newest) && checkpoint::is_readable(&shared.log, &names)? {
                return Ok(newest);
            }
            unreadable = names;
        }
        // Nothing of a damaged checkpoint is copied, even if parts of it can be read.
        let is_damaged = lock(&shared.damaged).is_some();
        let since = if is_damaged {
            None
        } else {
            shared.since_checkpoint()?
        };
        if let Some(since) = since {
            match shared.write_checkpoint(&since, &unreadable) {
                // A full read says what is damaged, and falls back to an older checkpoint.
                Err(error) if error.is_corruption() && !since.base.is_empty() => {}
                done if !matches!(done, Ok(false)) => return done.map(|_| since.snapshot.version),
                _ => {}
            }
        }
        let since = Since {
            snapshot: shared.snapshot_once(&mut shared.looking())?,
            base: Vec::new(),
        };
        shared.write_checkpoint(&since, &unreadable)?;
        Ok(since.snapshot.version)
    }

    /// Removes versions that are past the table's retention and not needed. Returns the number of removed files.
    ///
    /// # Errors
    /// [`CommitError::Unsupported`] when the table asks its writers for what is not built, which may be about what is
    /// removed too; when the log's folder cannot be read or written. Nothing depends on it.
    pub fn clean_up_log(&self) -> Result<usize> {
        let shared = self.shared()?;
        let head = shared.refresh(&mut shared.looking())?;
        head.check_writable()?;
        cleanup::clean_up(&shared.log, &head)
    }
}

/// The unparsed `commitInfo` of a commit, into which any writer may put anything.
fn commit_info(body: &[u8]) -> Value {
    body.split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
        .find_map(|mut line| line.get_mut("commitInfo").map(Value::take))
        .unwrap_or(Value::Null)
}
