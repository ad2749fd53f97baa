//! The log's folder: lists versions and checkpoints, and reads a table from them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use delta_commit::actions::{Action, actions_of};
use delta_commit::log::{BEFORE_FIRST, BodyDigest, version_file, version_of_file};
use delta_commit::{CommitError, Version};
use parquet::errors::ParquetError;
use parquet_writer::sink::Sink;
use serde_json::Value;
use uuid::Uuid;

use crate::checkpoint::SIDECARS;
use crate::data_file::DataFile;
use crate::error::{Result, TableError};
use crate::storage::TableStorage;
use crate::versions::VersionCache;

/// The log's folder in a table.
pub(crate) const FOLDER: &str = "_delta_log";

/// The file that names the newest checkpoint.
pub(crate) const HINT: &str = "_last_checkpoint";

/// The tag of our hints that keeps the last version that changed metadata or protocol.
pub(crate) const CHANGED_IN: &str = "spillway.changedIn";

/// The tag of our hints that keeps the in-commit timestamp of the checkpoint's version.
pub(crate) const IN_COMMIT_TIMESTAMP: &str = "spillway.inCommitTimestamp";

/// The end of the names of compacted ranges.
const COMPACTED: &str = ".compacted.json";

/// The versions before a range from which on delta-spark lets the times of versions rise.
const RISING_BEFORE: Version = 100;

/// `_delta_log`.
#[derive(Clone)]
pub(crate) struct LogDir(pub Arc<dyn TableStorage>);

/// A version, or a part of a checkpoint, as a file.
pub(crate) struct LogFile {
    pub version: Version,
    /// Milliseconds since the epoch.
    pub modified: i64,
    name: String,
}

impl LogFile {
    /// Returns true if nothing needs a derived file where the checkpoint of `kept` stands for what came before. A
    /// compacted range that begins with that version has actions that the checkpoint has.
    pub fn is_past(&self, kept: Version) -> bool {
        self.version < kept || (self.version == kept && self.name.ends_with(COMPACTED))
    }
}

/// All versions and all parts of checkpoints.
pub(crate) struct LogFiles {
    pub files: Vec<LogFile>,
    /// The same by their versions.
    pub listing: LogListing,
    /// Files that other writers derive from versions: checksums, and compacted ranges under their first version.
    pub derived: Vec<LogFile>,
}

/// The result of a listing.
#[derive(Debug)]
pub(crate) struct LogListing {
    /// The newest version; [`BEFORE_FIRST`] without any.
    pub tip: Version,
    versions: BTreeSet<Version>,
    /// Parts of checkpoints: part number, number of parts, file name.
    checkpoints: BTreeMap<Version, Vec<(u32, u32, String)>>,
}

impl LogListing {
    fn new() -> Self {
        Self {
            tip: BEFORE_FIRST,
            versions: BTreeSet::new(),
            checkpoints: BTreeMap::new(),
        }
    }

    /// Adds a file of the log, if it is a version or a part of a checkpoint.
    fn add(&mut self, name: &str) {
        if let Some(version) = version_of_file(name) {
            self.tip = self.tip.max(version);
            self.versions.insert(version);
        } else if let Some((version, part, of)) = checkpoint_of_file(name) {
            let parts = self.checkpoints.entry(version).or_default();
            parts.push((part, of, name.to_owned()));
        }
    }

    /// The files of the newest complete checkpoint at or before `at_most`.
    pub fn checkpoint(&self, at_most: Version) -> Option<(Version, Vec<&str>)> {
        self.checkpoints
            .range(..=at_most)
            .rev()
            .find_map(|(version, parts)| {
                // One file before several parts, so that it can take the place of damaged ones.
                let whole = parts
                    .iter()
                    .map(|(_, of, _)| *of)
                    .filter(|of| (1..=*of).all(|part| parts.iter().any(|(n, m, _)| (*n, *m) == (part, *of))))
                    .min()?;
                let names = parts.iter().filter(|(_, of, _)| *of == whole);
                let mut names: Vec<&str> = names.map(|(.., name)| name.as_str()).collect();
                // Several writers may have made one each. The last in this order is the one without an id.
                if whole == 1 {
                    names.sort_unstable();
                    names.drain(..names.len() - 1);
                }
                Some((*version, names))
            })
    }

    /// Returns true if every version from `first` to `last` is there.
    fn has_all(&self, first: Version, last: Version) -> bool {
        let there = self.versions.range(first..=last).count();
        usize::try_from(last - first + 1) == Ok(there)
    }

    /// The names of all files of checkpoints.
    pub fn checkpoint_files(&self) -> impl Iterator<Item = &str> {
        let parts = self.checkpoints.values().flatten();
        parts.map(|(.., name)| name.as_str())
    }

    /// The version of the oldest complete checkpoint at or after `at_least`.
    fn first_checkpoint(&self, at_least: Version) -> Option<Version> {
        let mut versions = self.checkpoints.range(at_least..).map(|(version, _)| *version);
        versions.find(|version| {
            self.checkpoint(*version)
                .is_some_and(|(found, _)| found == *version)
        })
    }
}

/// The replay of a log, up to the state of the table that an operation needs.
pub(crate) trait Replaying {
    /// That state.
    type Done;

    /// True if the versions are read again for the rest of the table's state.
    const READ_AGAIN: bool;

    /// A replay before the first version.
    fn new() -> Self;

    /// The last version that was replayed.
    fn version(&self) -> Version;

    /// Returns true if protocol and metadata are known, which every checkpoint holds.
    fn has_head(&self) -> bool;

    /// Takes a file of a version's checkpoint in.
    fn checkpoint(&mut self, log: &LogDir, name: &str, version: Version, changed_in: Version) -> Result<()>;

    /// Takes the next version in.
    fn commit(&mut self, log: &LogDir, version: Version, body: &[u8]) -> Result<()>;

    /// The state after the last version.
    fn finish(self) -> Result<Self::Done>;
}

/// A checkpoint that cannot be read.
#[derive(Debug, Clone)]
pub(crate) struct Damaged {
    pub version: Version,
    pub error: String,
}

/// A table as its log has it.
pub(crate) struct Loaded<T> {
    pub state: T,
    /// The checkpoint that it was read from.
    pub checkpoint: Option<Version>,
    /// The newest checkpoint, if it is damaged and was not read, and its error.
    pub damaged: Option<Damaged>,
    /// A version of the table that existed before any of it was read.
    pub incarnation: Incarnation,
    /// The digest of the last version, where its file is there.
    pub digest: Option<BodyDigest>,
    /// The versions that will be read again.
    pub read: VersionCache,
}

/// The result of a reading.
enum LogRead<T> {
    Whole(Loaded<T>),
    /// This version is not there, and a later one was listed.
    UpTo(Version),
}

/// A file of the log that identifies the table: another table in its place has another file.
pub(crate) struct Incarnation {
    name: String,
    /// None when there was no such file.
    mark: Option<String>,
}

impl Incarnation {
    /// That of a table that does not exist, which confirms nothing.
    pub fn none() -> Self {
        Self {
            name: version_file(BEFORE_FIRST),
            mark: None,
        }
    }

    /// Returns true if there was no such file.
    pub const fn is_none(&self) -> bool {
        self.mark.is_none()
    }
}

/// The version of a checkpoint's file, the number of the part that it is, and the number of parts.
///
/// The names are those of "Checkpoint Naming Scheme" in Delta's PROTOCOL.md.
fn checkpoint_of_file(name: &str) -> Option<(Version, u32, u32)> {
    let (digits, rest) = name.split_once(".checkpoint.")?;
    let version = version_of_file(&format!("{digits}.json"))?;
    if rest == "parquet" {
        return Some((version, 1, 1));
    }
    let (middle, form) = rest.rsplit_once('.')?;
    if ["parquet", "json"].contains(&form) && Uuid::try_parse(middle).is_ok() {
        return Some((version, 1, 1));
    }
    let (part, of) = middle.split_once('.').filter(|_| form == "parquet")?;
    Some((version, part.parse().ok()?, of.parse().ok()?))
}

/// The version of a checksum, or the first one of a compacted range, by the names of PROTOCOL.md.
fn version_of_derived(name: &str) -> Option<Version> {
    let digits = if let Some(digits) = name.strip_suffix(".crc") {
        digits
    } else {
        let (first, last) = name.strip_suffix(COMPACTED)?.split_once('.')?;
        version_of_file(&format!("{last}.json"))?;
        first
    };
    version_of_file(&format!("{digits}.json"))
}

impl LogDir {
    /// Lists the log. With a version, older files may be left out.
    pub fn list(&self, from: Option<Version>) -> Result<LogListing> {
        let mut listing = LogListing::new();
        // All that a version has comes after its bare number.
        let after = from.map(|version| format!("{version:020}"));
        for name in self.0.list(FOLDER, after.as_deref())? {
            listing.add(&name);
        }
        Ok(listing)
    }

    /// Lists the files of the log and their ages; none where the store does not tell times.
    pub fn files(&self) -> Result<Option<LogFiles>> {
        let Some(ages) = self.0.ages(FOLDER)? else {
            return Ok(None);
        };
        let (mut files, mut derived) = (Vec::new(), Vec::new());
        let mut listing = LogListing::new();
        for (name, modified) in ages {
            listing.add(&name);
            let checkpoint = || checkpoint_of_file(&name).map(|(version, ..)| version);
            let (version, kind) = match version_of_file(&name).or_else(checkpoint) {
                Some(version) => (version, &mut files),
                None => match version_of_derived(&name) {
                    Some(version) => (version, &mut derived),
                    None => continue,
                },
            };
            kind.push(LogFile {
                version,
                modified,
                name,
            });
        }
        Ok(Some(LogFiles {
            files,
            listing,
            derived,
        }))
    }

    /// The sidecars of checkpoints, by their names in the log, and the times at which they were written.
    pub fn sidecars(&self) -> Result<Vec<(String, i64)>> {
        let ages = self.0.ages(&Self::named(SIDECARS))?;
        let files = ages.unwrap_or_default().into_iter();
        let files = files.filter(|(name, _)| !name.contains('/'));
        Ok(files
            .map(|(name, at)| (format!("{SIDECARS}/{name}"), at))
            .collect())
    }

    /// The times at which versions from `first` on were written, in milliseconds since the epoch; none where the store
    /// does not tell times. They rise: a version whose file is no younger than the one before comes a millisecond after
    /// that, as delta-spark has it, which begins so many versions before the first.
    pub fn written(&self, first: Version) -> Result<BTreeMap<Version, i64>> {
        let files = self.files()?.map(|log| log.files).unwrap_or_default();
        let versions = files
            .into_iter()
            .filter(|file| file.version >= first - RISING_BEFORE && version_of_file(&file.name).is_some());
        let mut times: BTreeMap<_, _> = versions.map(|file| (file.version, file.modified)).collect();
        let mut least = i64::MIN;
        for time in times.values_mut() {
            *time = least.max(*time);
            least = time.saturating_add(1);
        }
        Ok(times)
    }

    /// The first version of which the state and the changes can be read; none where the log has no such.
    pub fn first_with_changes(&self) -> Result<Option<Version>> {
        let names = self.0.list(FOLDER, None)?;
        let versions: BTreeSet<Version> = names.iter().filter_map(|name| version_of_file(name)).collect();
        let Some(newest) = versions.last() else {
            return Ok(None);
        };
        let whole = (0..=*newest)
            .rev()
            .take_while(|version| versions.contains(version));
        let first = whole.last().unwrap_or(*newest);
        let checkpoint = self.list(None)?.first_checkpoint(first - 1);
        Ok(match checkpoint {
            _ if first == 0 => Some(0),
            Some(checkpoint) => Some(checkpoint.max(first)).filter(|first| first <= newest),
            None => None,
        })
    }

    /// Removes files, as far as that can be done; returns how many went.
    pub fn remove(&self, files: &[&LogFile]) -> usize {
        let names: Vec<String> = files.iter().map(|file| Self::named(&file.name)).collect();
        self.0.remove(&names)
    }

    /// The name of a file of the log, relative to the table, for other parts of this crate and messages.
    pub fn named(name: &str) -> String {
        format!("{FOLDER}/{name}")
    }

    /// A file of the log, for people.
    pub fn shown(&self, name: &str) -> PathBuf {
        self.0.root().join(FOLDER).join(name)
    }

    /// A version's bytes; none when it is not there.
    pub fn read(&self, version: Version) -> Result<Option<Bytes>> {
        self.file(&version_file(version))
    }

    /// A file's bytes; none when it is not there.
    pub fn file(&self, name: &str) -> Result<Option<Bytes>> {
        self.0.read(&Self::named(name))
    }

    /// Opens a file that replaces the existing one, and appears whole.
    pub fn replace(&self, name: &str) -> Result<Box<dyn Sink>> {
        self.0.replace(&Self::named(name))
    }

    /// Replaces a small file of the log, unless `is_late` finds something newer: see [`TableStorage::replace_unless`].
    pub fn replace_unless(
        &self,
        name: &str,
        body: &[u8],
        is_late: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<()> {
        self.0.replace_unless(&Self::named(name), body, is_late)
    }

    /// Opens a file likewise that replaces nothing.
    pub fn create_whole(&self, name: &str) -> Result<Box<dyn Sink>> {
        self.0.create_whole(&Self::named(name))
    }

    /// Removes files by their names in the log, as far as that can be done; returns how many went.
    pub fn remove_named(&self, names: &[String]) -> usize {
        let names: Vec<String> = names.iter().map(|name| Self::named(name)).collect();
        self.0.remove(&names)
    }

    /// Removes a file, as far as that can be done.
    pub fn remove_file(&self, name: &str) {
        self.0.remove(&[Self::named(name)]);
    }

    /// The incarnation that a file of the log identifies, by its mark.
    pub fn incarnation(&self, name: String) -> Result<Incarnation> {
        let mark = self.0.mark(&Self::named(&name))?;
        Ok(Incarnation { name, mark })
    }

    /// Returns true if the incarnation's file is unchanged: there, and not replaced by another one.
    pub fn confirms(&self, incarnation: &Incarnation) -> Result<bool> {
        Ok(incarnation.mark.is_some() && self.0.mark(&Self::named(&incarnation.name))? == incarnation.mark)
    }

    /// Lists the files from which a version can be read. A hint at a checkpoint leaves older versions out.
    fn list_for(&self, target: Version, hint: Option<&Value>) -> Result<LogListing> {
        if let Some(hinted) = hint.and_then(version_of_hint).filter(|hinted| *hinted <= target) {
            let listing = self.list(Some(hinted))?;
            if listing.checkpoint(target).is_some() {
                return Ok(listing);
            }
        }
        self.list(None)
    }

    /// Opens a file to be read in ranges; none when it is not there.
    ///
    /// # Errors
    /// An error of the storage is inside of the one of the file.
    pub fn open(&self, name: &str) -> Result<Option<DataFile>, ParquetError> {
        let name = Self::named(name);
        match self.0.size(&name) {
            Ok(size) => size.map(|size| DataFile::open(&self.0, &name, size)).transpose(),
            Err(error) => Err(ParquetError::External(Box::new(error))),
        }
    }

    /// Reads the table at version `at`, or at its newest version, without requests for what was kept of it.
    ///
    /// A log that is cleaned up meanwhile is read from the checkpoint that stands for what is gone.
    pub fn load<R: Replaying>(&self, at: Option<Version>, cache: VersionCache) -> Result<Loaded<R::Done>> {
        let target = at.unwrap_or(Version::MAX);
        let (mut hint, mut cache) = (self.hint()?, cache);
        let mut listing = self.list_for(target, hint.as_ref())?;
        // A file may be cleaned up between the listing and the read. If a file of the next listing is missing too, it
        // is lost.
        let mut is_listed_again = false;
        loop {
            let began = listing.checkpoint(target).map(|(version, _)| version);
            let cache = std::mem::take(&mut cache);
            let missing = match self.load_listed::<R>(at, &listing, hint.as_ref(), cache, is_listed_again) {
                Err(TableError::CheckpointGone(_)) if !is_listed_again => {
                    is_listed_again = true;
                    None
                }
                Ok(LogRead::UpTo(missing)) => Some(missing),
                Ok(LogRead::Whole(loaded)) => return Ok(loaded),
                Err(error) => return Err(error),
            };
            listing = self.list(None)?;
            let newest = listing.checkpoint(target).map(|(version, _)| version);
            if newest.is_none() && listing.tip == BEFORE_FIRST {
                return Err(TableError::NotFound(self.0.root().to_path_buf()));
            }
            if let Some(missing) = missing
                && (newest.is_none_or(|newest| newest < missing) || newest <= began)
            {
                return Err(self.gap(missing, &listing, at));
            }
            hint = self.hint()?;
        }
    }

    /// Reads the table from the files of a listing. With `is_lost`, a missing file of a checkpoint counts as damage.
    fn load_listed<R: Replaying>(
        &self,
        at: Option<Version>,
        listing: &LogListing,
        hint: Option<&Value>,
        cache: VersionCache,
        is_lost: bool,
    ) -> Result<LogRead<R::Done>> {
        let target = at.unwrap_or(Version::MAX);
        let checkpoint = listing.checkpoint(target);
        // Before it is read: what replaces it meanwhile has another mark.
        let incarnation = match (at, &checkpoint) {
            (Some(_), _) => Incarnation::none(),
            // Other software may have left the checkpoint alone.
            (None, Some((_, names))) if listing.tip == BEFORE_FIRST => {
                self.incarnation(names.first().map_or_else(String::new, |name| (*name).to_owned()))?
            }
            (None, _) => self.incarnation(version_file(listing.tip))?,
        };
        if checkpoint.is_none() && listing.tip == BEFORE_FIRST {
            return Err(TableError::NotFound(self.0.root().to_path_buf()));
        }
        let (mut replay, checkpoint, damaged) = self.begin::<R>(checkpoint, hint, is_lost)?;
        let mut last = None;
        let mut read = VersionCache::default();
        for next in self.versions(replay.version() + 1..=target, listing.tip, cache) {
            let (version, body) = next?;
            replay.commit(self, version, &body)?;
            if at.is_none() && R::READ_AGAIN {
                read.add(version, body.clone());
            }
            last = Some(body);
        }
        if replay.version() < listing.tip.min(target) {
            return Ok(LogRead::UpTo(replay.version() + 1));
        }
        if at.is_none() && last.is_none() {
            // Another table's checkpoint may have the same number.
            last = self.read(replay.version())?;
        }
        match at {
            Some(at) if replay.version() != at => Err(TableError::NoSuchVersion(format!(
                "the table has no version {at}: its newest is {}",
                replay.version()
            ))),
            _ => Ok(LogRead::Whole(Loaded {
                state: replay.finish()?,
                checkpoint,
                damaged,
                incarnation,
                digest: last.map(|body| BodyDigest::of(&body)),
                read,
            })),
        }
    }

    /// A replay up to a checkpoint, and the version of the one that it has read. Where the newest is damaged and the
    /// versions that it stands for are all there, the replay begins with an older checkpoint or before the first
    /// version.
    fn begin<R: Replaying>(
        &self,
        checkpoint: Option<(Version, Vec<&str>)>,
        hint: Option<&Value>,
        is_lost: bool,
    ) -> Result<(R, Option<Version>, Option<Damaged>)> {
        let is_damage = |error: &TableError| {
            error.is_corruption() && (is_lost || !matches!(error, TableError::CheckpointGone(_)))
        };
        let read = |(version, names): (Version, Vec<&str>)| -> Result<_> {
            let mut replay = R::new();
            for name in &names {
                replay.checkpoint(self, name, version, changed_in(version, hint))?;
            }
            if replay.has_head() {
                return Ok(replay);
            }
            let shown = names.first().map_or_else(PathBuf::new, |name| self.shown(name));
            Err(TableError::Malformed(format!(
                "{}: the checkpoint lacks protocol or metadata and is incomplete",
                shown.display()
            )))
        };
        let Some((newest, names)) = checkpoint else {
            return Ok((R::new(), None, None));
        };
        let error = match read((newest, names)) {
            Err(error) if is_damage(&error) => error,
            done => return Ok((done?, Some(newest), None)),
        };
        let damaged = || {
            Some(Damaged {
                version: newest,
                error: error.to_string(),
            })
        };
        let listing = self.list(None)?;
        let mut before = newest - 1;
        while let Some((version, names)) = listing.checkpoint(before) {
            if !listing.has_all(version + 1, newest) {
                return Err(error);
            }
            match read((version, names)) {
                Err(older) if is_damage(&older) => before = version - 1,
                done => return Ok((done?, Some(version), damaged())),
            }
        }
        if listing.has_all(0, newest) {
            return Ok((R::new(), None, damaged()));
        }
        Err(error)
    }

    /// The actions of a version.
    pub fn parse(&self, version: Version, body: &[u8]) -> Result<Vec<Action>> {
        let mut actions = Vec::new();
        self.each_action(version, body, |action| actions.push(action))?;
        Ok(actions)
    }

    /// Calls back with each action of a version. They are parsed line by line.
    pub fn each_action(&self, version: Version, body: &[u8], mut take: impl FnMut(Action)) -> Result<()> {
        let mut each = || {
            for action in actions_of(body)? {
                take(action?);
            }
            Ok(())
        };
        each().map_err(|error: CommitError| {
            let path = self.shown(&version_file(version));
            TableError::Malformed(format!("{}: {error}", path.display()))
        })
    }

    fn gap(&self, missing: Version, listing: &LogListing, at: Option<Version>) -> TableError {
        if let (Some(at), Some(first)) = (at, listing.first_checkpoint(missing)) {
            return TableError::NoSuchVersion(format!(
                "version {at} cannot be read any more: the log before a later checkpoint was cleaned up. The first \
                 version that is still there is {first}"
            ));
        }
        TableError::Malformed(format!(
            "{}: it is missing, and version {} is there: the log has a gap",
            self.shown(&version_file(missing)).display(),
            listing.tip
        ))
    }

    /// A time that is not before the in-commit timestamp of a version of which only a checkpoint is there: that of our
    /// own hint, or else, as far as clocks agree, the one at which the checkpoint was written.
    pub fn timestamp_of_checkpoint(&self, version: Version) -> Result<Option<i64>> {
        let hint = self.hint()?;
        if let Some(noted) = tag(version, hint.as_ref(), IN_COMMIT_TIMESTAMP) {
            return Ok(Some(noted));
        }
        let files = self.files()?.map(|log| log.files).unwrap_or_default();
        let of_it = files.iter().filter(|file| file.version == version);
        Ok(of_it.map(|file| file.modified).max())
    }

    /// The number of actions of a checkpoint. 0 where that is not noted.
    pub fn size_of_checkpoint(&self, version: Version) -> Result<i64> {
        let hint = self.hint()?;
        let hint = hint.filter(|hint| version_of_hint(hint) == Some(version));
        Ok(hint.and_then(|hint| hint.get("size")?.as_i64()).unwrap_or(0))
    }

    /// Reads `_last_checkpoint`. It is only a hint: if it cannot be parsed it counts as absent. A failing store is an
    /// error.
    fn hint(&self) -> Result<Option<Value>> {
        match self.file(HINT) {
            Err(error) if error.is_transient() => Err(error),
            text => Ok(text
                .ok()
                .flatten()
                .and_then(|text| serde_json::from_slice(&text).ok())),
        }
    }
}

fn version_of_hint(hint: &Value) -> Option<Version> {
    hint.get("version").and_then(Value::as_i64)
}

/// Reads from our own hint the last version that changed metadata or protocol. Without the hint it is the checkpoint's
/// version, so that processes that start from one checkpoint agree.
fn changed_in(checkpoint: Version, hint: Option<&Value>) -> Version {
    tag(checkpoint, hint, CHANGED_IN).unwrap_or(checkpoint)
}

/// A number that our own hint at this checkpoint notes.
fn tag(checkpoint: Version, hint: Option<&Value>, name: &str) -> Option<i64> {
    let hint = hint.filter(|hint| version_of_hint(hint) == Some(checkpoint))?;
    hint.get("tags")?.get(name)?.as_str()?.parse().ok()
}
