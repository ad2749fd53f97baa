//! The log of a table on an object store, as the committer reads and writes it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use delta_commit::log::{
    BEFORE_FIRST, BodyDigest, Bundles, IntentEntry, Listing, LogStore, PutOutcome, StoreError,
    StoreErrorKind, UnsyncedFile, Version, VersionPresence, standing_of_missing, version_file,
    version_shown_by_file,
};
use delta_commit::{BootTime, path};
use object_sink::{Created, FailureKind, RequestFailure, Tagged};
use per_process::PerProcess;
use serde_json::Value;

use crate::objects::{Clients, LOG};

const INTENTS: &str = "_spillway/intents";

/// The operating system's numbers for a store's failures, which choose the exception in Python.
const ENOENT: i32 = 2;
pub(crate) const EIO: i32 = 5;
const EACCES: i32 = 13;

/// The number of versions whose tags are kept: the last ones of a log.
const MOST_TAGS: usize = 8;

/// Consecutive reads before prefetching starts.
const LEAST_ROW: usize = 4;

/// The most versions that are requested at a time.
const MOST_AHEAD: usize = 32;

/// The most bytes of prefetched versions.
const MOST_AHEAD_BYTES: usize = 16 << 20;

/// How long prefetched versions stay valid.
const AHEAD_LASTS: Duration = Duration::from_secs(1);

/// The log of a table under a prefix of a bucket.
pub(crate) struct ObjectLog {
    clients: Arc<Clients>,
    /// The entity tags of the last versions that were read or created. While a version has the same tag, it has the
    /// same body, which need not be read again. A forked child may not wait for a lock of its parent.
    tags: PerProcess<Mutex<VecDeque<VersionTag>>>,
    /// What was requested before the committer asked for it.
    ahead: PerProcess<Mutex<PrefetchedVersions>>,
}

/// Versions after those that the committer has read one after the other.
#[derive(Default)]
struct PrefetchedVersions {
    /// The next version, if the committer goes on.
    next: Version,
    /// The number of versions in a row that were requested and are there; 0 once one is missing.
    row: usize,
    /// The next ones that are there, when they were last looked for.
    found: Option<(BootTime, VecDeque<Tagged>)>,
    /// Changes of the log by this process so far. Versions that were requested before a change are not kept after it.
    changes: u64,
}

impl PrefetchedVersions {
    /// The body of this version, if it was found a moment ago. Otherwise the number of versions to request.
    ///
    /// A committer that reads a version or two requests no others. The table may be replaced, so entries expire and
    /// misses are never cached. If the store is so slow that entries expire unused, the next request is for one version
    /// again.
    fn take(&mut self, version: Version) -> Result<Tagged, usize> {
        if version != self.next {
            self.row = 0;
        } else if let Some((at, found)) = &mut self.found {
            if at.elapsed() >= AHEAD_LASTS && !found.is_empty() {
                self.row = 0;
            } else if let Some(body) = found.pop_front() {
                self.next += 1;
                return Ok(body);
            }
        }
        self.found = None;
        Err(if self.row < LEAST_ROW {
            1
        } else {
            self.row.min(MOST_AHEAD)
        })
    }

    /// Drops prefetched versions, and those of requests in flight, because the log changes.
    fn forget(&mut self) {
        *self = Self {
            changes: self.changes + 1,
            ..Self::default()
        };
    }
}

/// The entity tag of a version with a body of this digest.
struct VersionTag {
    version: Version,
    digest: BodyDigest,
    text: String,
}

/// Converts a store's failure to the committer's error.
pub(crate) fn error(failure: RequestFailure) -> StoreError {
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
fn certain(failure: RequestFailure) -> StoreError {
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
    pub fn new(clients: Arc<Clients>) -> Self {
        Self {
            clients,
            tags: PerProcess::new(),
            ahead: PerProcess::new(),
        }
    }

    fn ahead(&self) -> MutexGuard<'_, PrefetchedVersions> {
        let ahead = self.ahead.get_or_init(Mutex::default);
        ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tags(&self) -> MutexGuard<'_, VecDeque<VersionTag>> {
        let tags = self.tags.get_or_init(Mutex::default);
        tags.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tag_of(&self, version: Version, digest: BodyDigest) -> Option<String> {
        let tags = self.tags();
        let known = tags
            .iter()
            .rfind(|tag| tag.version == version && tag.digest == digest);
        known.map(|known| known.text.clone())
    }

    fn keep_tag(&self, version: Version, digest: BodyDigest, tag: Option<String>) {
        let Some(tag) = tag else {
            return;
        };
        let mut tags = self.tags();
        tags.retain(|known| known.version != version);
        if tags.len() == MOST_TAGS {
            tags.pop_front();
        }
        tags.push_back(VersionTag {
            version,
            digest,
            text: tag,
        });
    }

    /// The body of a version. Its tag is kept.
    fn body(&self, version: Version) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.clients.folder()?.read_tagged(&version_name(version));
        let Some((body, tag)) = found.map_err(error)? else {
            return Ok(None);
        };
        self.keep_tag(version, BodyDigest::of(&body), tag);
        Ok(Some(body))
    }

    /// Says what is in the place of a version that is not there.
    fn standing_of_missing(&self, version: Version) -> Result<VersionPresence, StoreError> {
        let after = format!("{version:020}");
        let listed = self.clients.folder()?.list(LOG, Some(&after)).map_err(error)?;
        let names = listed.found.iter().map(|found| found.name.as_str());
        Ok(standing_of_missing(names, version))
    }

    fn read(&self, name: String) -> Result<Option<Vec<u8>>, StoreError> {
        let mut bodies = self.clients.folder()?.read(&[name]).map_err(error)?;
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
        let listed = self
            .clients
            .folder()?
            .list(LOG, after.as_deref())
            .map_err(error)?;
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
        let (taken, changes) = {
            let mut ahead = self.ahead();
            (ahead.take(version), ahead.changes)
        };
        let (body, tag) = match taken {
            Ok(found) => found,
            Err(count) => {
                let at = BootTime::now();
                let names = (version..).take(count).map(version_name);
                let mut bodies = self.clients.folder()?.read_ahead(names);
                let Some(first) = bodies.next().transpose().map_err(error)?.flatten() else {
                    self.ahead().row = 0;
                    return Ok(None);
                };
                // Errors of later requests are dropped: the caller of that version retries.
                let found = bodies.map_while(|body| body.ok().flatten());
                let mut bytes = 0;
                let found: VecDeque<_> = found
                    .take_while(|(body, _)| {
                        bytes += body.len();
                        bytes <= MOST_AHEAD_BYTES
                    })
                    .collect();
                let mut ahead = self.ahead();
                if ahead.changes == changes {
                    ahead.next = version + 1;
                    ahead.row = if found.len() + 1 == count {
                        ahead.row + count
                    } else {
                        0
                    };
                    ahead.found = Some((at, found));
                }
                first
            }
        };
        self.keep_tag(version, BodyDigest::of(&body), tag);
        Ok(Some(body))
    }

    /// Creates the version. "Exists" is not final here: the committer reads the version and looks for its own members.
    /// The store may answer so for an object that does not exist (when two creations conflict and both fail), and a
    /// proxy may have sent the request twice.
    fn put_version(&self, version: Version, body: &[u8]) -> Result<PutOutcome, StoreError> {
        self.ahead().forget();
        self.clients.require_conditional_put().map_err(certain_error)?;
        let created = self.clients.folder()?.create(&version_name(version), body);
        Ok(match created.map_err(certain)? {
            Created::Won(tag) => {
                self.keep_tag(version, BodyDigest::of(body), tag);
                PutOutcome::Won
            }
            Created::Exists => PutOutcome::Exists,
            Created::Unknown(failure) => PutOutcome::Unknown(error(failure)),
        })
    }

    /// Takes one request as a rule. A version without a tag that is known is read.
    fn check_version(
        &self,
        version: Version,
        digest: Option<BodyDigest>,
    ) -> Result<VersionPresence, StoreError> {
        if let Some(known) = digest.and_then(|digest| self.tag_of(version, digest))
            && self
                .clients
                .folder()?
                .tag(&version_name(version))
                .map_err(error)?
                == Some(known)
        {
            return Ok(VersionPresence::Same);
        }
        Ok(match self.body(version)? {
            Some(body) if digest.is_none_or(|digest| digest == BodyDigest::of(&body)) => {
                VersionPresence::Same
            }
            Some(_) => VersionPresence::Other,
            None => self.standing_of_missing(version)?,
        })
    }

    fn remove_version(&self, version: Version) -> Result<(), StoreError> {
        self.ahead().forget();
        let removed = self.clients.folder()?.delete(&[version_name(version)]);
        removed.map_err(error)
    }

    fn list_intents(&self) -> Result<Listing, StoreError> {
        let listed = self.clients.folder()?.list(INTENTS, None).map_err(error)?;
        // The date of another answer may be older than the listing, or younger.
        let now = listed.now.ok_or_else(|| StoreError {
            message: format!(
                "{}: the answer to the listing of {INTENTS} has no Date, which tells how old announcements are; let the \
                 store, or a proxy before it, date its answers",
                self.clients.url()
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
        let folder = self.clients.folder()?;
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
        let written = self.clients.folder()?.write_once(&intent_name(name), body);
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
        self.clients.folder()?.delete(&objects).map_err(error)
    }

    /// Checks files of other writers. An object that exists survives a crash.
    fn sync_data(&self, files: &[UnsyncedFile]) -> Vec<Result<(), StoreError>> {
        let names: Vec<_> = files.iter().map(|file| path::decode_inside(&file.path)).collect();
        let inside: Vec<String> = names.iter().flatten().cloned().collect();
        let sizes = self
            .clients
            .folder()
            .and_then(|folder| folder.sizes(&inside).map_err(error));
        let sizes = match sizes {
            Ok(sizes) => sizes,
            Err(error) => return vec![Err(error); files.len()],
        };
        let mut sizes = sizes.into_iter();
        let missing = |name: &str| StoreError {
            message: format!("{}/{name}: there is no such object", self.clients.url()),
            kind: StoreErrorKind::NotFound,
            errno: Some(ENOENT),
        };
        let told = files.iter().zip(&names).map(|(file, name)| match name {
            Ok(name) => match sizes.next().flatten() {
                Some(bytes) => file.check_size(bytes, format_args!("{}/{name}", self.clients.url())),
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
