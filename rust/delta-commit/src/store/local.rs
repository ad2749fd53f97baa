//! A table in a directory.
//!
//! A version is a file that is written and synced elsewhere, and then renamed to its place without replacing (or, where
//! the kernel cannot, hard-linked). Announcements and files in the making lie in `_spillway/`: names with a leading `_`
//! are no data to any reader, and `_delta_log` stays free of what is not the log.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::log::{
    BEFORE_FIRST, IntentEntry, Listing, LogStore, PutOutcome, StoreError, StoreErrorKind, Version,
    version_file, version_of_file,
};
use crate::path;

/// Threads that sync data files side by side: the device does several at the price of one.
const SYNC_THREADS: usize = 8;

/// A file in the making that is older was left behind: nobody takes so long.
const ABANDONED: Duration = Duration::from_secs(3_600);

/// The log of a table in a directory of this machine.
///
/// On network file systems a rename whose answer was lost may have worked; the committer finds its own id then.
#[derive(Debug, Clone)]
pub struct LocalLogStore {
    root: PathBuf,
    log: PathBuf,
    intents: PathBuf,
    staging: PathBuf,
}

impl LocalLogStore {
    /// The log of the table in `root`, which need not exist yet.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self {
            log: root.join("_delta_log"),
            intents: root.join("_spillway/intents"),
            staging: root.join("_spillway/staging"),
            root,
        }
    }

    fn version_path(&self, version: Version) -> PathBuf {
        self.log.join(version_file(version))
    }

    /// Writes a whole file beside its place and makes it survive a crash.
    fn stage(&self, body: &[u8]) -> io::Result<tempfile::NamedTempFile> {
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        {
            // Others read the table too; the process' umask decides who.
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        }
        let mut file = match builder.tempfile_in(&self.staging) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make(&self.staging)?;
                builder.tempfile_in(&self.staging)?
            }
            other => other?,
        };
        file.write_all(body)?;
        file.as_file().sync_all()?;
        Ok(file)
    }

    /// Makes a directory of the table, and it and those above it survive a crash.
    fn make(&self, directory: &Path) -> io::Result<()> {
        fs::create_dir_all(directory)?;
        let above = self.root.parent().filter(|parent| !parent.as_os_str().is_empty());
        directory
            .ancestors()
            .take_while(|ancestor| ancestor.starts_with(&self.root))
            .chain(above)
            .try_for_each(sync)
    }

    /// Removes what processes left behind that died while they wrote.
    fn sweep(&self) {
        // Nothing depends on it, so what cannot be read or removed stays.
        let Ok(entries) = fs::read_dir(&self.staging) else {
            return;
        };
        for entry in entries.flatten() {
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            let age = modified.ok().and_then(|at| at.elapsed().ok());
            if age.is_some_and(|age| age > ABANDONED) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn create_version(&self, place: &Path, body: &[u8]) -> io::Result<PutOutcome> {
        // Only a short cut: the rename below decides.
        if place.try_exists()? {
            return Ok(PutOutcome::Exists);
        }
        let mut staged = self.stage(body)?;
        if !self.log.try_exists()? {
            self.make(&self.log)?;
        }
        for _ in 0..2 {
            match staged.persist_noclobber(place) {
                Ok(_) => return Ok(PutOutcome::Won),
                Err(refused) if refused.error.kind() == io::ErrorKind::AlreadyExists => {
                    return Ok(PutOutcome::Exists);
                }
                Err(refused) if refused.error.kind() == io::ErrorKind::Interrupted => staged = refused.file,
                Err(refused) => return Err(refused.error),
            }
        }
        Ok(PutOutcome::Unknown(StoreError::transient(format!(
            "{}: interrupted",
            place.display()
        ))))
    }

    fn create_intent(&self, name: &str, body: &[u8]) -> io::Result<()> {
        let staged = self.stage(body)?;
        if !self.intents.try_exists()? {
            self.make(&self.intents)?;
        }
        staged
            .persist(self.intents.join(name))
            .map_err(|refused| refused.error)?;
        sync(&self.intents)
    }

    fn entries(&self) -> io::Result<Vec<IntentEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.intents)? {
            let entry = entry?;
            let created = match entry.metadata().and_then(|metadata| metadata.modified()) {
                Ok(created) => created,
                // It was withdrawn meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if let Ok(name) = entry.file_name().into_string() {
                entries.push(IntentEntry {
                    name,
                    created: milliseconds(created),
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

impl LogStore for LocalLogStore {
    fn find_tip(&self) -> Result<Version, StoreError> {
        self.sweep();
        let listed = (|| {
            let mut tip = BEFORE_FIRST;
            for entry in fs::read_dir(&self.log)? {
                let version = entry?.file_name().to_str().and_then(version_of_file);
                tip = tip.max(version.unwrap_or(BEFORE_FIRST));
            }
            Ok(tip)
        })();
        or_missing(listed, BEFORE_FIRST).map_err(|e| StoreError::io(self.log.display(), &e))
    }

    fn read_version(&self, version: Version) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.version_path(version);
        or_missing(fs::read(&path).map(Some), None).map_err(|e| StoreError::io(path.display(), &e))
    }

    fn put_version(&self, version: Version, body: &[u8]) -> Result<PutOutcome, StoreError> {
        let path = self.version_path(version);
        self.create_version(&path, body)
            .map_err(|e| certain(StoreError::io(path.display(), &e)))
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

    fn put_intent(&self, name: &str, body: &[u8]) -> Result<(), StoreError> {
        self.create_intent(name, body)
            .map_err(|e| StoreError::io(self.intents.join(name).display(), &e))
    }

    fn delete_intent(&self, name: &str) -> Result<(), StoreError> {
        let path = self.intents.join(name);
        or_missing(fs::remove_file(&path), ()).map_err(|e| StoreError::io(path.display(), &e))
    }

    fn sync_data(&self, paths: &[String]) -> Result<(), StoreError> {
        let files = paths
            .iter()
            .map(|path| self.data_path(path))
            .collect::<Result<Vec<_>, _>>()?;
        let directories: BTreeSet<&Path> = files
            .iter()
            .flat_map(|file| file.ancestors().skip(1))
            .filter(|directory| directory.starts_with(&self.root))
            .collect();
        let share = files.len().div_ceil(SYNC_THREADS).max(1);
        if files.len() == share {
            files.iter().try_for_each(|file| sync_named(file))?;
            return directories.into_iter().rev().try_for_each(sync_named);
        }
        thread::scope(|scope| {
            let workers: Vec<_> = files
                .chunks(share)
                .map(|files| scope.spawn(|| files.iter().try_for_each(|file| sync_named(file))))
                .collect();
            workers.into_iter().try_for_each(|worker| {
                worker
                    .join()
                    .unwrap_or_else(|_| Err(StoreError::transient("a thread that synced files panicked")))
            })
        })?;
        // A directory is synced after what lies in it: deeper ones have longer paths, so they come later in the set.
        directories.into_iter().rev().try_for_each(sync_named)
    }

    fn sync_log(&self, first: Version, last: Version) -> Result<(), StoreError> {
        for version in first..=last {
            let path = self.version_path(version);
            match sync(&path) {
                // Cleaned up: a checkpoint stands for it.
                Err(error) if error.kind() == io::ErrorKind::NotFound && version < last => {}
                other => other.map_err(|e| StoreError::io(path.display(), &e))?,
            }
        }
        sync_named(&self.log)
    }
}

/// On a local disk, a refusal says that nothing was done.
fn certain(error: StoreError) -> StoreError {
    let kind = match error.kind {
        StoreErrorKind::NotFound => StoreErrorKind::Permanent,
        kind => kind,
    };
    StoreError { kind, ..error }
}

fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn sync_named(path: &Path) -> Result<(), StoreError> {
    sync(path).map_err(|e| {
        let error = StoreError::io(path.display(), &e);
        // A data file that is not there will not come: its transaction must not commit.
        certain(error)
    })
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
