//! The log of a table in a local directory.
//!
//! A version is a file that is written and synced elsewhere, and then renamed to its place without replacing (or
//! hard-linked, where the kernel cannot do that). Announcements and unfinished files lie in `_spillway/`. Readers take
//! names with a leading `_` for no data, and `_delta_log` holds nothing but the log.
//!
//! What writes or deletes goes through [`beneath`]: nothing outside the table's folder changes, whatever is linked in
//! it.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind::{AlreadyExists, NotFound, PermissionDenied, Unsupported};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use beneath::{Folder, Temporary, is_linked, is_temporary};

use crate::log::{
    BEFORE_FIRST, BodyDigest, IntentEntry, Listing, LogStore, PutOutcome, StoreError, StoreErrorKind,
    UnsyncedFile, Version, VersionPresence, standing_of_missing, version_file, version_of_checkpoint,
    version_shown_by_file,
};
use crate::path;
use crate::store::entries::FolderEntry;
use crate::store::o_tmpfile;
use crate::store::sync::{sync, sync_each};

const LOG: &str = "_delta_log";
const ASIDE: &str = "_spillway";
const INTENTS: &str = "_spillway/intents";
const STAGING: &str = "staging";

const ENOENT: i32 = 2;
const EIO: i32 = 5;

/// The age above which an unfinished file counts as left behind. No write takes so long.
const ABANDONED: Duration = Duration::from_secs(3_600);

/// The log of a table in a directory of this machine.
///
/// On network file systems a rename whose answer was lost may have succeeded. The committer then finds its own id in
/// the log.
#[derive(Debug, Clone)]
pub struct LocalLogStore {
    root: PathBuf,
    log: PathBuf,
    intents: PathBuf,
}

impl LocalLogStore {
    /// The log of the table in `root`, which need not exist yet.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self {
            log: root.join(LOG),
            intents: root.join(INTENTS),
            root,
        }
    }

    fn version_path(&self, version: Version) -> PathBuf {
        self.log.join(version_file(version))
    }

    /// Names of the log's files.
    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.log)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    /// The newest version that the log's files show.
    fn newest(&self) -> io::Result<Version> {
        let names = self.names()?;
        let versions = names.iter().filter_map(|name| version_shown_by_file(name));
        Ok(versions.max().unwrap_or(BEFORE_FIRST))
    }

    /// Returns true if another version may follow this one: it is there, or a checkpoint stands for it. Where something
    /// later is there the log was cleaned up past it, and the checkpoint is left over.
    fn can_follow(&self, version: Version) -> io::Result<bool> {
        Ok(self.version_path(version).try_exists()? || self.newest()? == version)
    }

    /// Makes the checkpoint that stands for a version survive a crash. Returns false when there is none.
    fn sync_checkpoint(&self, version: Version) -> Result<bool, StoreError> {
        let names = or_missing(self.names(), Vec::new());
        let names = names.map_err(|e| StoreError::io(self.log.display(), &e))?;
        let is_of_version = |name: &&String| version_of_checkpoint(name) == Some(version);
        let mut found = false;
        for name in names.iter().filter(is_of_version) {
            sync(&self.log.join(name))?;
            found = true;
        }
        Ok(found)
    }

    /// Writes a whole file beside its place, and closes it: a network file system may say only then that bytes are
    /// lost, and nobody may see the file before.
    fn stage(&self, body: &[u8], durable: bool) -> io::Result<Temporary> {
        let mut staged = Temporary::create(self.staging()?)?;
        staged.write_all(body)?;
        staged.close(durable)?;
        Ok(staged)
    }

    /// The folder of unfinished files. If the table's own folder is missing, the table was deleted or moved, and
    /// nothing is made. A link in its place is somebody else's and stays; the files then lie beside it.
    fn staging(&self) -> io::Result<Folder> {
        let aside = Folder::make(&self.root, Path::new(ASIDE))?;
        match aside.enter_or_make(OsStr::new(STAGING)) {
            Err(error) if is_linked(&error) => Ok(aside),
            staging => staging,
        }
    }

    fn log_folder(&self) -> io::Result<Folder> {
        Folder::open(&self.root, Path::new(LOG))
    }

    /// Makes the folders of a new table, and makes them survive a crash.
    fn make_log(&self) -> Result<(), StoreError> {
        let made = fs::create_dir_all(&self.root).and_then(|()| Folder::make(&self.root, Path::new(LOG)));
        made.map_err(|e| StoreError::io(self.log.display(), &e))?;
        let above = self.root.parent().filter(|parent| !parent.as_os_str().is_empty());
        [self.log.as_path(), &self.root]
            .into_iter()
            .chain(above)
            .try_for_each(|folder| sync(folder).map(drop))
    }

    /// Removes unfinished files of processes that died. They have names that [`Temporary`] gave.
    fn sweep(&self) {
        for folder in [Path::new(ASIDE), &Path::new(ASIDE).join(STAGING)] {
            // Nothing depends on it, so what cannot be read or removed stays.
            let Ok(folder) = Folder::open(&self.root, folder) else {
                continue;
            };
            for name in folder.names().unwrap_or_default() {
                let modified = || folder.modified(&name).ok().flatten();
                if is_temporary(&name) && modified().is_some_and(is_abandoned) {
                    let _ = folder.remove_file(&name);
                }
            }
        }
    }

    fn create_version(&self, version: Version, place: &Path, body: &[u8]) -> io::Result<PutOutcome> {
        // Only a short cut: the rename below decides.
        if place.try_exists()? {
            return Ok(PutOutcome::Exists);
        }
        let (log, name) = (self.log_folder()?, version_file(version));
        let mut staged = self.stage(body, true)?;
        // The table may be gone, or another one, or its log may have been cleaned up: none of them may get a gap.
        if version > 0 && !self.can_follow(version - 1)? {
            // After a checkpoint that stands alone, another writer's version is what nothing may follow.
            if place.try_exists()? {
                return Ok(PutOutcome::Exists);
            }
            return Err(io::ErrorKind::NotFound.into());
        }
        for _ in 0..2 {
            match staged.place_new(&log, OsStr::new(&name)) {
                Ok(()) => return Ok(PutOutcome::Won),
                Err(error) if error.kind() == AlreadyExists => return Ok(PutOutcome::Exists),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A file server that was asked twice no longer finds what it renamed the first time.
                Err(error) if error.kind() == NotFound && place.try_exists()? => {
                    return Ok(PutOutcome::Exists);
                }
                Err(error) if is_uncertain(&error) => {
                    return Ok(PutOutcome::Unknown(StoreError::io(place.display(), &error)));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(PutOutcome::Unknown(StoreError::transient(format!(
            "{}: interrupted",
            place.display()
        ))))
    }

    fn entries(&self) -> io::Result<Vec<IntentEntry>> {
        let mut entries = Vec::new();
        // Refuses a link, since intents that are carried are deleted.
        Folder::open(&self.root, Path::new(INTENTS))?;
        for entry in fs::read_dir(&self.intents)? {
            let entry = entry?;
            let found = entry
                .metadata()
                .and_then(|found| Ok((found.modified()?, found.len())));
            let (created, bytes) = match found {
                Ok(found) => found,
                // It was withdrawn meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if let Ok(name) = entry.file_name().into_string() {
                entries.push(IntentEntry {
                    name,
                    created: milliseconds(created),
                    bytes,
                });
            }
        }
        Ok(entries)
    }

    fn data_path(&self, path: &str) -> Result<PathBuf, StoreError> {
        path::decode_inside(path)
            .map(|relative| self.root.join(relative))
            .map_err(|error| StoreError {
                message: error.to_string(),
                kind: StoreErrorKind::Permanent,
                errno: None,
            })
    }
}

impl LocalLogStore {
    /// The folders below the table's own that a data file lies in.
    fn folders<'a>(&self, file: &'a Path) -> impl Iterator<Item = &'a Path> + use<'a> {
        let root = self.root.components().count();
        file.ancestors()
            .skip(1)
            .take_while(move |part| part.components().count() > root)
    }

    /// Parts to be synced for a data file: it, its folder, and the folders above up to the table's own, as far as they
    /// have an entry that may not survive a crash.
    fn parts<'a>(
        &self,
        file: &'a Path,
        entries: &HashMap<&Path, Option<FolderEntry>>,
    ) -> impl Iterator<Item = &'a Path> {
        let is_new = |folder: &&Path| {
            let entry = entries.get(folder).and_then(Option::as_ref);
            !entry.is_some_and(FolderEntry::is_synced)
        };
        let above = self.folders(file).filter(is_new).filter_map(Path::parent);
        std::iter::once(file).chain(file.parent()).chain(above)
    }

    fn unfounded(&self, version: Version) -> StoreError {
        StoreError {
            message: format!(
                "{}: it cannot follow version {}, which is not there: the table was deleted, moved or replaced",
                self.version_path(version).display(),
                version - 1
            ),
            kind: StoreErrorKind::NotFound,
            errno: Some(ENOENT),
        }
    }
}

impl LogStore for LocalLogStore {
    fn find_tip(&self) -> Result<Version, StoreError> {
        self.sweep();
        or_missing(self.newest(), BEFORE_FIRST).map_err(|e| StoreError::io(self.log.display(), &e))
    }

    fn read_version(&self, version: Version) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.version_path(version);
        or_missing(fs::read(&path).map(Some), None).map_err(|e| StoreError::io(path.display(), &e))
    }

    fn put_version(&self, version: Version, body: &[u8]) -> Result<PutOutcome, StoreError> {
        let path = self.version_path(version);
        if version == 0 && !self.log.is_dir() {
            self.make_log().map_err(certain)?;
        }
        let created = self.create_version(version, &path, body);
        created.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound if version > 0 => self.unfounded(version),
            _ => certain(StoreError::io(path.display(), &error)),
        })
    }

    fn check_version(
        &self,
        version: Version,
        digest: Option<BodyDigest>,
    ) -> Result<VersionPresence, StoreError> {
        match self.read_version(version)? {
            Some(body) if digest.is_none_or(|digest| digest == BodyDigest::of(&body)) => {
                Ok(VersionPresence::Same)
            }
            Some(_) => Ok(VersionPresence::Other),
            None => {
                let names = or_missing(self.names(), Vec::new());
                let names = names.map_err(|error| StoreError::io(self.log.display(), &error))?;
                Ok(standing_of_missing(names.iter().map(String::as_str), version))
            }
        }
    }

    fn remove_version(&self, version: Version) -> Result<(), StoreError> {
        let name = version_file(version);
        let removed = self
            .log_folder()
            .and_then(|log| log.remove_file(OsStr::new(&name)));
        or_missing(removed, ()).map_err(|e| StoreError::io(self.version_path(version).display(), &e))?;
        match sync(&self.log) {
            Err(error) if error.kind == StoreErrorKind::NotFound => Ok(()),
            done => done.map(drop),
        }
    }

    fn list_intents(&self) -> Result<Listing, StoreError> {
        let entries =
            or_missing(self.entries(), Vec::new()).map_err(|e| StoreError::io(self.intents.display(), &e))?;
        Ok(Listing {
            now: milliseconds(SystemTime::now()),
            entries,
        })
    }

    fn read_intent(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.intents.join(name);
        or_missing(fs::read(&path).map(Some), None).map_err(|e| StoreError::io(path.display(), &e))
    }

    /// Opens it: a file server's client may know an attribute from before a deletion, but asks anew for what it opens.
    fn has_intent(&self, name: &str) -> Result<bool, StoreError> {
        let path = self.intents.join(name);
        let opened = fs::File::open(&path).map(|_| true);
        or_missing(opened, false).map_err(|e| StoreError::io(path.display(), &e))
    }

    fn put_intent(&self, name: &str, body: &[u8]) -> Result<(), StoreError> {
        let place = self.intents.join(name);
        let unplaced = |error: io::Error| certain(StoreError::io(place.display(), &error));
        let intents = Folder::make(&self.root, Path::new(INTENTS)).map_err(unplaced)?;
        let linked = match o_tmpfile::write(&intents, body) {
            Some(file) => intents.link(&file.map_err(unplaced)?, OsStr::new(name)),
            None => Err(Unsupported.into()),
        };
        let placed = match linked {
            // One that is announced again takes the place of the first, which no link does. It need not survive a crash
            // of the machine: nor does its owner.
            Err(error) if matches!(error.kind(), AlreadyExists | PermissionDenied | Unsupported) => {
                let mut staged = self.stage(body, false).map_err(unplaced)?;
                staged.place(&intents, OsStr::new(name))
            }
            done => done,
        };
        placed.map_err(|error| {
            let has_folder = self.intents.try_exists().unwrap_or(true);
            not_announced(&place, &error, has_folder)
        })
    }

    fn delete_intent(&self, name: &str) -> Result<(), StoreError> {
        match beneath::remove_file(&self.root, &Path::new(INTENTS).join(name)) {
            // What is in a folder of somebody else is no intent of this table.
            Err(error) if is_linked(&error) => Ok(()),
            removed => {
                or_missing(removed, ()).map_err(|e| StoreError::io(self.intents.join(name).display(), &e))
            }
        }
    }

    fn withdraw_intents(&self, names: &[String]) -> Result<(), StoreError> {
        self.delete_intents(names)?;
        match sync(&self.intents) {
            Err(error) if error.kind == StoreErrorKind::NotFound => Ok(()),
            done => done.map(drop),
        }
    }

    fn sync_data(&self, data: &[UnsyncedFile]) -> Vec<Result<(), StoreError>> {
        let files: Vec<_> = data.iter().map(|file| self.data_path(&file.path)).collect();
        let folders: BTreeSet<&Path> = files
            .iter()
            .flatten()
            .flat_map(|file| self.folders(file))
            .collect();
        let entries: HashMap<&Path, Option<FolderEntry>> = folders
            .into_iter()
            .map(|folder| (folder, FolderEntry::of(folder)))
            .collect();
        // Files and folders of all depths side by side: one after the other, n partitions would be n waits. Their order
        // is of no consequence, since nobody is told before all are done.
        let parts_of: HashMap<&Path, Vec<&Path>> = files
            .iter()
            .flatten()
            .map(|file| (file.as_path(), self.parts(file, &entries).collect()))
            .collect();
        let parts: BTreeSet<&Path> = parts_of.values().flatten().copied().collect();
        let parts: Vec<&Path> = parts.into_iter().collect();
        let results: HashMap<&Path, _> = parts.iter().copied().zip(sync_each(&parts)).collect();
        let whole = |file: &UnsyncedFile, path: &PathBuf| {
            let parts = parts_of.get(path.as_path()).into_iter().flatten();
            for result in parts.filter_map(|part| results.get(part)) {
                result.as_ref().map_err(Clone::clone)?;
            }
            match results.get(path.as_path()) {
                Some(Ok(bytes)) => file.check_size(*bytes, path.display()),
                _ => Ok(()),
            }
        };
        let all = data
            .iter()
            .zip(&files)
            .map(|(file, path)| {
                path.as_ref()
                    .map_err(Clone::clone)
                    .and_then(|path| whole(file, path))
            })
            .collect();
        for (folder, entry) in entries {
            let above = folder.parent().and_then(|above| results.get(above));
            if let (Some(entry), Some(Ok(_))) = (entry, above) {
                entry.keep(folder);
            }
        }
        all
    }

    fn sync_log(&self, first: Version, last: Version) -> Result<(), StoreError> {
        let files: Vec<_> = (first..=last).map(|version| self.version_path(version)).collect();
        let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        for synced in sync_each(&files) {
            match synced {
                // Cleaned up: a later version or a checkpoint stands for it.
                Err(error) if error.kind == StoreErrorKind::NotFound => {}
                done => drop(done?),
            }
        }
        let path = self.version_path(last);
        if let Err(error) = fs::symlink_metadata(&path) {
            let error = StoreError::io(path.display(), &error);
            if error.kind != StoreErrorKind::NotFound || !self.sync_checkpoint(last)? {
                return Err(error);
            }
        }
        sync(&self.log).map(drop)
    }
}

/// Returns true if no write takes so long.
fn is_abandoned(modified: SystemTime) -> bool {
    modified.elapsed().is_ok_and(|age| age > ABANDONED)
}

/// Returns true if the rename may have taken effect in spite of its error.
fn is_uncertain(error: &io::Error) -> bool {
    let kind = StoreError::io("", error).kind;
    kind == StoreErrorKind::Transient || error.raw_os_error() == Some(EIO)
}

/// Wraps the error of a link or a rename that announces. A file server that was asked twice may have renamed the file
/// the first time, and no longer find it: that is a doubt, and so is every error in spite of which a rename may take
/// effect.
fn not_announced(place: &Path, error: &io::Error, has_folder: bool) -> StoreError {
    let is_gone = error.kind() == io::ErrorKind::NotFound;
    let told = certain(StoreError::io(place.display(), error));
    if is_uncertain(error) || (is_gone && has_folder) {
        return StoreError {
            kind: StoreErrorKind::Transient,
            ..told
        };
    }
    told
}

/// Turns a missing file or folder into a permanent error: on a local disk it means that nothing was done.
fn certain(error: StoreError) -> StoreError {
    let kind = match error.kind {
        StoreErrorKind::NotFound => StoreErrorKind::Permanent,
        kind => kind,
    };
    StoreError { kind, ..error }
}

fn or_missing<T>(result: io::Result<T>, missing: T) -> io::Result<T> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(missing),
        other => other,
    }
}

fn milliseconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_that_may_have_happened_is_a_doubt() {
        let kind = |errno, has_folder| {
            let error = io::Error::from_raw_os_error(errno);
            not_announced(Path::new("a"), &error, has_folder).kind
        };
        let (eintr, eacces, enospc) = (4, 13, 28);
        for (errno, has_folder) in [(EIO, true), (eintr, true), (ENOENT, true)] {
            assert_eq!(kind(errno, has_folder), StoreErrorKind::Transient, "{errno}");
        }
        for (errno, has_folder) in [(ENOENT, false), (eacces, true), (enospc, true)] {
            assert_eq!(kind(errno, has_folder), StoreErrorKind::Permanent, "{errno}");
        }
    }
}
