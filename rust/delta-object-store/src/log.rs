//! The log of a table on an object store, as the committer reads and writes it.

use std::sync::Arc;

use delta_commit::log::{
    BEFORE_FIRST, Bundles, IntentEntry, Listing, LogStore, PutOutcome, StoreError, StoreErrorKind,
    UnsyncedFile, Version, version_file, version_shown_by_file,
};
use delta_commit::path;
use object_sink::{Created, Failure, FailureKind};
use serde_json::Value;

use crate::objects::{Clients, LOG};

const INTENTS: &str = "_spillway/intents";

/// The operating system's numbers for a store's failures, which choose the exception in Python.
const ENOENT: i32 = 2;
const EIO: i32 = 5;
const EACCES: i32 = 13;

/// The log of a table under a prefix of a bucket.
pub(crate) struct ObjectLog(pub Arc<Clients>);

/// Converts a store's failure to the committer's error.
pub(crate) fn error(failure: Failure) -> StoreError {
    let (kind, errno) = match failure.kind {
        FailureKind::Missing => (StoreErrorKind::NotFound, ENOENT),
        FailureKind::Denied => (StoreErrorKind::Permanent, EACCES),
        FailureKind::Refused => (StoreErrorKind::Permanent, EIO),
        FailureKind::Throttled | FailureKind::Lost => (StoreErrorKind::Transient, EIO),
    };
    StoreError {
        message: failure.message,
        kind,
        errno: Some(errno),
    }
}

/// Turns a missing bucket into a permanent error: nothing was written and nothing will be.
fn certain(failure: Failure) -> StoreError {
    certain_error(error(failure))
}

fn certain_error(error: StoreError) -> StoreError {
    match error.kind {
        StoreErrorKind::NotFound => StoreError {
            kind: StoreErrorKind::Permanent,
            ..error
        },
        _ => error,
    }
}

fn version_name(version: Version) -> String {
    format!("{LOG}/{}", version_file(version))
}

fn intent_name(name: &str) -> String {
    format!("{INTENTS}/{name}")
}

impl ObjectLog {
    fn read(&self, name: String) -> Result<Option<Vec<u8>>, StoreError> {
        let mut bodies = self.0.folder()?.read(&[name]).map_err(error)?;
        Ok(bodies.pop().flatten())
    }

    /// The version of the newest checkpoint, taken from the hint. A log that is never cleaned up is too long to list.
    fn hinted(&self) -> Result<Option<Version>, StoreError> {
        let hint = self.read(format!("{LOG}/_last_checkpoint"))?;
        let hint = hint.and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        Ok(hint.and_then(|hint| hint.get("version")?.as_i64()))
    }

    /// The newest version from `first` on, if there is one.
    fn newest(&self, first: Option<Version>) -> Result<Option<Version>, StoreError> {
        // The bare number comes before all names that begin with it.
        let after = first.map(|first| format!("{first:020}"));
        let listed = self.0.folder()?.list(LOG, after.as_deref()).map_err(error)?;
        Ok(listed
            .found
            .iter()
            .filter_map(|found| version_shown_by_file(&found.name))
            .max())
    }
}

impl LogStore for ObjectLog {
    fn find_tip(&self) -> Result<Version, StoreError> {
        if let Some(hinted) = self.hinted()?
            && let Some(tip) = self.newest(Some(hinted))?
        {
            return Ok(tip);
        }
        Ok(self.newest(None)?.unwrap_or(BEFORE_FIRST))
    }

    fn read_version(&self, version: Version) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(version_name(version))
    }

    /// Creates the version. "Exists" is not final here: the committer reads the version and looks for its own members.
    /// The store may answer so for an object that does not exist (when two creations conflict and both fail), and a
    /// proxy may have sent the request twice.
    fn put_version(&self, version: Version, body: &[u8]) -> Result<PutOutcome, StoreError> {
        self.0.require_conditional_put().map_err(certain_error)?;
        let created = self.0.folder()?.create(&version_name(version), body);
        Ok(match created.map_err(certain)? {
            Created::Won => PutOutcome::Won,
            Created::Exists => PutOutcome::Exists,
            Created::Unknown(failure) => PutOutcome::Unknown(error(failure)),
        })
    }

    fn list_intents(&self) -> Result<Listing, StoreError> {
        let listed = self.0.folder()?.list(INTENTS, None).map_err(error)?;
        // The date of another answer may be older than the listing, or younger.
        let now = listed.now.ok_or_else(|| StoreError {
            message: format!(
                "{}: the answer to the listing of {INTENTS} has no Date, which tells how old announcements are; let the \
                 store, or a proxy before it, date its answers",
                self.0.url()
            ),
            kind: StoreErrorKind::Permanent,
            errno: None,
        })?;
        let entries = listed.found.into_iter().map(|found| IntentEntry {
            name: found.name,
            created: found.modified,
            bytes: found.bytes,
        });
        Ok(Listing {
            now,
            entries: entries.collect(),
        })
    }

    fn read_intent(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.read(intent_name(name))
    }

    fn read_intents(&self, unread: &[String], known: &[String]) -> Result<Bundles, StoreError> {
        let objects = |names: &[String]| names.iter().map(|name| intent_name(name)).collect::<Vec<_>>();
        let folder = self.0.folder()?;
        let (bodies, there) = folder
            .read_and_find(&objects(unread), &objects(known))
            .map_err(error)?;
        let read = unread.iter().zip(bodies);
        let found = known.iter().zip(there).filter(|(_, is_there)| *is_there);
        Ok(Bundles {
            bodies: read
                .filter_map(|(name, body)| Some((name.clone(), body?)))
                .collect(),
            there: found.map(|(name, _)| name.clone()).collect(),
        })
    }

    fn put_intent(&self, name: &str, body: &[u8]) -> Result<(), StoreError> {
        let written = self.0.folder()?.write_once(&intent_name(name), body);
        written.map_err(|failure| match failure.kind {
            FailureKind::Throttled => StoreError {
                kind: StoreErrorKind::Throttled,
                ..error(failure)
            },
            _ => certain(failure),
        })
    }

    fn delete_intent(&self, name: &str) -> Result<(), StoreError> {
        self.delete_intents(&[name.to_owned()])
    }

    fn delete_intents(&self, names: &[String]) -> Result<(), StoreError> {
        let objects: Vec<String> = names.iter().map(|name| intent_name(name)).collect();
        self.0.folder()?.delete(&objects).map_err(error)
    }

    /// Checks files of other writers. An object that exists survives a crash.
    fn sync_data(&self, files: &[UnsyncedFile]) -> Vec<Result<(), StoreError>> {
        let names: Vec<_> = files.iter().map(|file| path::decode_inside(&file.path)).collect();
        let inside: Vec<String> = names.iter().flatten().cloned().collect();
        let sizes = self
            .0
            .folder()
            .and_then(|folder| folder.sizes(&inside).map_err(error));
        let sizes = match sizes {
            Ok(sizes) => sizes,
            Err(error) => return vec![Err(error); files.len()],
        };
        let mut sizes = sizes.into_iter();
        let missing = |name: &str| StoreError {
            message: format!("{}/{name}: there is no such object", self.0.url()),
            kind: StoreErrorKind::NotFound,
            errno: Some(ENOENT),
        };
        let told = files.iter().zip(&names).map(|(file, name)| match name {
            Ok(name) => match sizes.next().flatten() {
                Some(bytes) => file.check_size(bytes, format_args!("{}/{name}", self.0.url())),
                None => Err(missing(name)),
            },
            Err(outside) => Err(StoreError {
                message: outside.to_string(),
                kind: StoreErrorKind::Permanent,
                errno: None,
            }),
        });
        told.collect()
    }

    /// Does nothing: an object that was seen survives a crash.
    fn sync_log(&self, _first: Version, _last: Version) -> Result<(), StoreError> {
        Ok(())
    }
}
