//! The interface between the committer and a store: effects out, events in.
//!
//! The committer itself does no I/O. It emits one [`Effect`] at a time and takes one [`Event`] for it. [`perform`]
//! connects it to a [`LogStore`]; the simulator connects the same committer to a store that fails.

use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::sync::Arc;

use crate::error::CommitError;
use crate::intent::ParsedIntent;
use crate::merge::MergeRequest;
use crate::transaction::Transaction;
use crate::winner::Winner;

/// A version of the table: the number of a commit.
pub type Version = i64;

/// The version before the first one, which stands for a table that does not exist.
pub const BEFORE_FIRST: Version = -1;

/// The name of a version's file in `_delta_log`.
#[must_use]
pub fn version_file(version: Version) -> String {
    format!("{version:020}.json")
}

/// The version that a file of `_delta_log` holds, if it is a commit.
#[must_use]
pub fn version_of_file(name: &str) -> Option<Version> {
    let digits = name.strip_suffix(".json")?;
    let commit = digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit());
    if commit { digits.parse().ok() } else { None }
}

/// The version that a file of `_delta_log` is a checkpoint of, or a part of one.
///
/// A checkpoint is made of a version that is there, and stands for it once its own file is cleaned up.
#[must_use]
pub fn version_of_checkpoint(name: &str) -> Option<Version> {
    let (digits, rest) = name.split_once(".checkpoint.")?;
    let form = rest.rsplit('.').next()?;
    let known = ["parquet", "json"].contains(&form);
    version_of_file(&format!("{digits}.json")).filter(|_| known)
}

/// The version that a file of `_delta_log` shows to have been there.
#[must_use]
pub fn version_shown_by_file(name: &str) -> Option<Version> {
    version_of_file(name).or_else(|| version_of_checkpoint(name))
}

/// Says what the log's files of these names have in the place of a version of which the own file is not there.
pub fn standing_of_missing<'a>(
    names: impl IntoIterator<Item = &'a str>,
    version: Version,
) -> VersionPresence {
    let (mut has_next, mut newest) = (false, BEFORE_FIRST);
    let (mut has_checkpoint, mut has_later) = (false, false);
    for name in names {
        let checkpoint = version_of_checkpoint(name);
        has_checkpoint |= checkpoint == Some(version);
        has_later |= checkpoint.is_some_and(|of| of > version);
        has_next |= version_of_file(name) == Some(version + 1);
        newest = newest.max(version_shown_by_file(name).unwrap_or(BEFORE_FIRST));
    }
    if has_checkpoint && (has_next || newest <= version) {
        VersionPresence::Checkpoint
    } else if has_later {
        VersionPresence::CleanedUp
    } else {
        VersionPresence::Missing
    }
}

/// `EMFILE` and `ENFILE`. They have these numbers on every Unix, but no kind of their own in the standard library.
const TOO_MANY_OPEN_FILES: [i32; 2] = [24, 23];

/// The consequence of a store's failure for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// The operation may succeed later. It may also have succeeded now, with its answer lost.
    Transient,
    /// The store has too much to do. The operation was certainly not done, and may succeed later. It is said of
    /// announcements: for everything else, [`Self::Transient`] has the same consequence.
    Throttled,
    /// It did not work and will not.
    Permanent,
    /// The requested object does not exist.
    NotFound,
}

/// A file that a commit names, which is not yet known to survive a crash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsyncedFile {
    /// Its path, as in `add.path`.
    pub path: String,
    /// Its size by the log, bytes.
    pub size: LoggedSize,
}

/// The size of a file by the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoggedSize {
    /// The log says nothing about it.
    Unknown,
    /// So many bytes.
    Exactly(i64),
    /// So many bytes or more: a file of deletion vectors may hold more of them than the commit names.
    AtLeast(i64),
}

impl UnsyncedFile {
    /// Compares a size that was found with that of the log; `shown` is the file's place, for the message.
    ///
    /// # Errors
    /// [`StoreErrorKind::Permanent`] when they differ: rows are missing, or the file is not the one that was meant.
    pub fn check_size(&self, found: u64, shown: impl std::fmt::Display) -> Result<(), StoreError> {
        let (fits, wanted) = match self.size {
            LoggedSize::Unknown => return Ok(()),
            LoggedSize::Exactly(size) => (u64::try_from(size) == Ok(found), size.to_string()),
            LoggedSize::AtLeast(size) => (
                u64::try_from(size).is_ok_and(|size| size <= found),
                format!("{size} or more"),
            ),
        };
        if fits {
            return Ok(());
        }
        Err(StoreError {
            message: format!(
                "{shown}: the file has {found} bytes, where the commit says {wanted}: it is incomplete or was replaced, so \
                 nothing was committed; write the file again, or name its true size"
            ),
            kind: StoreErrorKind::Permanent,
            errno: None,
        })
    }
}

/// The store refused, or did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    /// The operation, its object and its failure.
    pub message: String,
    /// The consequence for the caller.
    pub kind: StoreErrorKind,
    /// The operating system's number of the error, where it has one.
    pub errno: Option<i32>,
}

impl StoreError {
    /// An answer that did not come.
    pub fn transient(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            kind: StoreErrorKind::Transient,
            errno: None,
        }
    }

    /// Wraps an error of the operating system; `what` names its object.
    pub fn io(what: impl std::fmt::Display, error: &io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => StoreErrorKind::NotFound,
            // The last two: this process, or the machine, has no room now; a file server has forgotten a handle.
            io::ErrorKind::Interrupted
            | io::ErrorKind::TimedOut
            | io::ErrorKind::WouldBlock
            | io::ErrorKind::OutOfMemory
            | io::ErrorKind::StaleNetworkFileHandle => StoreErrorKind::Transient,
            _ if error
                .raw_os_error()
                .is_some_and(|errno| TOO_MANY_OPEN_FILES.contains(&errno)) =>
            {
                StoreErrorKind::Transient
            }
            _ => StoreErrorKind::Permanent,
        };
        Self {
            message: format!("{what}: {error}"),
            kind,
            errno: error.raw_os_error(),
        }
    }
}

/// The outcome of an attempt to create a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutOutcome {
    /// It was created, by this attempt.
    Won,
    /// The version is said to exist, written by another process or by an earlier sending of this very attempt.
    Exists,
    /// The answer was lost. The version may exist now or in a while, written by this attempt or another.
    Unknown(StoreError),
}

/// The identity of the body of a version.
///
/// A version never changes, and its body has ids that no other one has: those of its members, of its data files, or of
/// the table. So whoever finds a body again finds the same table, with the same versions before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BodyDigest {
    hash: u64,
    bytes: u64,
}

impl BodyDigest {
    /// The digest of a body. It is good for one process: another one may have another hash.
    #[must_use]
    pub fn of(body: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(body);
        Self {
            hash: hasher.finish(),
            bytes: body.len() as u64,
        }
    }
}

/// The contents of the place of a version that was read or written before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionPresence {
    /// The same version.
    Same,
    /// No version, but a checkpoint of it, after which nothing is missing: clean-up has removed the version.
    Checkpoint,
    /// No version, but a checkpoint of a later one: clean-up has removed the version, and perhaps others.
    CleanedUp,
    /// Nothing of that.
    Missing,
    /// A version with another body.
    Other,
}

/// One announced bundle, as a listing shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntentEntry {
    /// Its name, without a directory.
    pub name: String,
    /// The intent's time of creation by the store's clock: milliseconds since the epoch.
    pub created: i64,
    /// The bytes of its body.
    pub bytes: u64,
}

/// All announced bundles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// The store's clock at the listing: milliseconds since the epoch.
    pub now: i64,
    /// The intents that are there.
    pub entries: Vec<IntentEntry>,
}

/// Announced bundles, as they are when they are asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bundles {
    /// The name and the body of each that was to be read and is there.
    pub bodies: Vec<(String, Vec<u8>)>,
    /// The name of each that was to be looked up and is there.
    pub there: Vec<String>,
}

/// The operations that a store must implement.
///
/// Safety rests on [`put_version`](Self::put_version) alone: of all attempts at one version, at most one may ever win,
/// and it appears whole. Listings may be late.
pub trait LogStore: Send + Sync {
    /// The newest version that a listing of the log shows, by its file or by a checkpoint; [`BEFORE_FIRST`] without
    /// any.
    ///
    /// # Errors
    /// A store that does not answer.
    fn find_tip(&self) -> Result<Version, StoreError>;

    /// The body of a version; none when there is no such version.
    ///
    /// # Errors
    /// A store that does not answer.
    fn read_version(&self, version: Version) -> Result<Option<Vec<u8>>, StoreError>;

    /// Creates a version, if there is none of that number. Never replaces one.
    ///
    /// # Errors
    /// Only when it is certain that the version was not created by this call; else the outcome is
    /// [`PutOutcome::Unknown`]. [`StoreErrorKind::NotFound`] says that the version before it is not there, or no table.
    /// A checkpoint stands for the version before it where nothing later is there. Where looking takes a request of its
    /// own, this is left to [`check_version`](Self::check_version).
    fn put_version(&self, version: Version, body: &[u8]) -> Result<PutOutcome, StoreError>;

    /// Says what is in the place of a version by now. Its body had this digest, if that is known.
    ///
    /// The table may be deleted, moved, or restored from a copy at any moment, and another one made in its place. The
    /// committer asks for the last version that it knows before it creates the next one, and for the version before it
    /// once it was created. An earlier answer does not do.
    ///
    /// # Errors
    /// A store that does not answer.
    fn check_version(
        &self,
        version: Version,
        digest: Option<BodyDigest>,
    ) -> Result<VersionPresence, StoreError> {
        Ok(match self.read_version(version)? {
            None => VersionPresence::Missing,
            Some(body) if digest.is_none_or(|digest| digest == BodyDigest::of(&body)) => {
                VersionPresence::Same
            }
            Some(_) => VersionPresence::Other,
        })
    }

    /// Removes a version that [`put_version`](Self::put_version) created in another table's log. One that is gone is no
    /// error.
    ///
    /// # Errors
    /// A failure after which it may be there.
    fn remove_version(&self, version: Version) -> Result<(), StoreError>;

    /// All announced bundles, and the store's clock.
    ///
    /// # Errors
    /// A store that does not answer.
    fn list_intents(&self) -> Result<Listing, StoreError>;

    /// The body of an announced bundle as it is now; none when it is gone.
    ///
    /// # Errors
    /// A store that does not answer.
    fn read_intent(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Returns true if an announced bundle is there now. A copy of an earlier answer does not do: whoever settles a
    /// doubt has it deleted, and relies on everybody seeing that.
    ///
    /// # Errors
    /// A store that does not answer.
    fn has_intent(&self, name: &str) -> Result<bool, StoreError> {
        Ok(self.read_intent(name)?.is_some())
    }

    /// Reads some announced bundles, and looks others up of which the body is known.
    ///
    /// # Errors
    /// A store that does not answer.
    fn read_intents(&self, unread: &[String], known: &[String]) -> Result<Bundles, StoreError> {
        let mut bundles = Bundles::default();
        for name in unread {
            let body = self.read_intent(name)?;
            bundles.bodies.extend(body.map(|body| (name.clone(), body)));
        }
        for name in known {
            if self.has_intent(name)? {
                bundles.there.push(name.clone());
            }
        }
        Ok(bundles)
    }

    /// Announces a bundle.
    ///
    /// # Errors
    /// A failure after which it may not be announced; one that is [`StoreErrorKind::Permanent`] or
    /// [`StoreErrorKind::Throttled`] says that it is not.
    fn put_intent(&self, name: &str, body: &[u8]) -> Result<(), StoreError>;

    /// Removes an announced bundle; one that is gone is no error.
    ///
    /// # Errors
    /// A failure after which it may be there.
    fn delete_intent(&self, name: &str) -> Result<(), StoreError>;

    /// Removes several announced bundles.
    ///
    /// # Errors
    /// A failure after which some may be there.
    fn delete_intents(&self, names: &[String]) -> Result<(), StoreError> {
        names.iter().try_for_each(|name| self.delete_intent(name))
    }

    /// Removes several announced bundles so that they do not come back after a crash either.
    ///
    /// # Errors
    /// A failure after which some may be there, or come back.
    fn withdraw_intents(&self, names: &[String]) -> Result<(), StoreError> {
        self.delete_intents(names)
    }

    /// Makes data files survive a crash, with their directories up to the table's root, and compares their sizes with
    /// those that the log will have. Returns a result for each file, in their order.
    ///
    /// A [`StoreErrorKind::Transient`] error says that the file was not tried. After any other the file is never tried
    /// again: an error of a sync is told once, and the next sync succeeds although the bytes are lost.
    fn sync_data(&self, files: &[UnsyncedFile]) -> Vec<Result<(), StoreError>>;

    /// Makes all versions up to `last` survive a crash, or a checkpoint that stands for it. The bodies of those before
    /// `first` do so already, as do all that [`put_version`](Self::put_version) wrote: their names may not. `first` is
    /// above `last` where that holds for all.
    ///
    /// # Errors
    /// A `last` that is not there, or a version that may not survive. A [`StoreErrorKind::Permanent`] one is final, as
    /// that of a data file is.
    fn sync_log(&self, first: Version, last: Version) -> Result<(), StoreError>;
}

/// An operation that the committer asks for.
#[derive(Debug, Clone)]
pub enum Effect {
    /// [`LogStore::find_tip`]
    FindTip,
    /// [`LogStore::read_version`]
    ReadVersion(Version),
    /// [`LogStore::put_version`]
    PutVersion(Version, Vec<u8>),
    /// [`LogStore::check_version`]
    CheckVersion(Version, Option<BodyDigest>),
    /// [`retract_version`]
    RetractVersion(Version, Vec<BodyDigest>),
    /// [`LogStore::list_intents`]
    ListIntents,
    /// [`LogStore::read_intents`]: those to be read, and those to be looked up.
    ReadIntents(Vec<String>, Vec<String>),
    /// [`LogStore::put_intent`]
    PutIntent(String, Vec<u8>),
    /// [`LogStore::delete_intents`]
    DeleteIntents(Vec<String>),
    /// [`LogStore::withdraw_intents`]
    WithdrawIntents(Vec<String>),
    /// [`LogStore::sync_data`]
    SyncData(Vec<UnsyncedFile>),
    /// [`LogStore::sync_log`]
    SyncLog(Version, Version),
    /// [`MergeRequest::answer`]
    Merge(MergeRequest),
    /// Wait so many milliseconds; a deadline may cut it short.
    Pause(u64),
}

/// The result of an effect.
#[derive(Debug, Clone)]
pub enum Event {
    /// Of [`Effect::FindTip`].
    Tip(Version),
    /// Of [`Effect::ReadVersion`].
    Body(Option<Vec<u8>>),
    /// Of [`Effect::ReadVersion`], where the version was parsed before: the machines of a simulator share it.
    #[doc(hidden)]
    Parsed(Option<Arc<Winner>>),
    /// Of [`Effect::PutVersion`].
    Put(PutOutcome),
    /// Of [`Effect::CheckVersion`].
    Standing(VersionPresence),
    /// Of [`Effect::RetractVersion`]: whether the version was there and was removed.
    Retracted(bool),
    /// Of [`Effect::ListIntents`].
    Listing(Listing),
    /// Of [`Effect::ReadIntents`].
    Intents(Bundles),
    /// Of [`Effect::ReadIntents`], where bodies were parsed before: those, and the names of what is there.
    #[doc(hidden)]
    ParsedIntents(Vec<(String, ParsedIntent)>, Vec<String>),
    /// Of [`Effect::SyncData`]: the result of each file, in their order.
    Synced(Vec<Result<(), StoreError>>),
    /// Of [`Effect::Merge`]: the transaction to go on with.
    Merged(Result<Box<Transaction>, CommitError>),
    /// Of every other effect.
    Done,
    /// Of any effect: the store refused.
    Failed(StoreError),
}

/// Does one effect on a store.
#[must_use]
pub fn perform(store: &dyn LogStore, effect: &Effect) -> Event {
    let result = match effect {
        Effect::FindTip => store.find_tip().map(Event::Tip),
        Effect::ReadVersion(version) => store.read_version(*version).map(Event::Body),
        Effect::PutVersion(version, body) => store.put_version(*version, body).map(Event::Put),
        Effect::CheckVersion(version, digest) => store.check_version(*version, *digest).map(Event::Standing),
        Effect::RetractVersion(version, digests) => {
            retract_version(store, *version, digests).map(Event::Retracted)
        }
        Effect::ListIntents => store.list_intents().map(Event::Listing),
        Effect::ReadIntents(unread, known) => store.read_intents(unread, known).map(Event::Intents),
        Effect::PutIntent(name, body) => store.put_intent(name, body).map(|()| Event::Done),
        Effect::DeleteIntents(names) => store.delete_intents(names).map(|()| Event::Done),
        Effect::WithdrawIntents(names) => store.withdraw_intents(names).map(|()| Event::Done),
        Effect::SyncData(files) => Ok(Event::Synced(store.sync_data(files))),
        Effect::SyncLog(first, last) => store.sync_log(*first, *last).map(|()| Event::Done),
        Effect::Merge(request) => match request.answer() {
            Err(CommitError::Store(error)) => Err(error),
            answer => Ok(Event::Merged(answer.map(Box::new))),
        },
        Effect::Pause(milliseconds) => {
            std::thread::sleep(std::time::Duration::from_millis(*milliseconds));
            Ok(Event::Done)
        }
    };
    result.unwrap_or_else(Event::Failed)
}

/// Removes a version that this process created in the log of another table, with a body of one of these digests.
/// Returns false if it was not there, or has to stay: once another version follows it, the log would have a gap without
/// it.
///
/// # Errors
/// A store that does not answer. The version may be there.
pub fn retract_version(
    store: &dyn LogStore,
    version: Version,
    digests: &[BodyDigest],
) -> Result<bool, StoreError> {
    let Some(body) = store.read_version(version)? else {
        return Ok(false);
    };
    if !digests.contains(&BodyDigest::of(&body)) || store.read_version(version + 1)?.is_some() {
        return Ok(false);
    }
    store.remove_version(version)?;
    // Another writer may have followed it meanwhile.
    if store.read_version(version + 1)?.is_some() {
        store.put_version(version, &body)?;
        return Ok(false);
    }
    Ok(true)
}

/// The readings of this machine's clocks when an event arrives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Time {
    /// Milliseconds that only rise, also while the machine is suspended.
    pub monotonic: u64,
    /// Milliseconds since the epoch.
    pub wall: i64,
}
