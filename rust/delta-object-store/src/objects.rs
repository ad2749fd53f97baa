//! The objects of a table below a prefix of an object store.

use std::ffi::OsString;
use std::iter::{self, repeat_n};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use delta_commit::log::{StoreError, StoreErrorKind};
use delta_commit::{CommitError, LogStore};
use delta_table::{
    Bodies, MOST_REPLACEMENTS, Names, Result, StoredFile, StoredFiles, TableStorage, check_clock,
};
use object_sink::{Attend, Created, Location, ObjectSink, RequestFailure, StoreFolder};
use parquet_writer::sink::Sink;
use parquet_writer::{OptionFault, WriteError};
use per_process::PerProcess;
use uuid::Uuid;

use crate::log::{EIO, ObjectLog, error};
use crate::whole::{Existing, WholeObject};

pub(crate) const LOG: &str = "_delta_log";

/// A folder that no table has.
const NOTHING: &str = "_spillway/clock";

/// The time for which a commit trusts a mark and saves a request. A table that is made anew under a writer is noticed
/// after it.
const MARK_LASTS: Duration = Duration::from_secs(10);

/// How often to check whether the caller still waits.
const ATTEND_EVERY: Duration = Duration::from_millis(50);

/// The waits before the attempts to create an object.
const CREATE_AGAIN_AFTER: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_secs(1),
];

/// The most bytes of a data file's folder. Keys may have 1,024, and the table's prefix and the file's name take a part
/// of them.
const MOST_FOLDER: usize = 512;

/// The most bytes of a part of the path. Stores that keep objects in files, and copies of a table on a disk, allow no
/// more.
const MOST_NAME: usize = 255;

/// The clients of a folder. A forked child makes its own.
pub(crate) struct Clients {
    location: Location,
    folder: PerProcess<StoreFolder>,
    attend: fn() -> Attend,
    /// True once the store has shown that it creates an object only once.
    creates_once: AtomicBool,
}

impl Clients {
    pub fn folder(&self) -> Result<&StoreFolder, StoreError> {
        let open = || StoreFolder::open(&self.location, self.attend);
        self.folder.get_or_try_init(open).map_err(|error| match error {
            // For example, no thread could be started.
            WriteError::Io { source, .. } => StoreError::io(self.url(), &source),
            error => StoreError {
                message: error.to_string(),
                kind: StoreErrorKind::Permanent,
                errno: None,
            },
        })
    }

    pub fn url(&self) -> &str {
        self.location.url()
    }

    /// Tests before the first commit that the store does not replace an object that it should create. Such a store
    /// would lose commits without an error. Nothing is committed until the test has passed.
    ///
    /// # Errors
    /// Refuses such a store. The error is transient where answers to all tests were lost: the next commit tests again.
    pub fn require_conditional_put(&self) -> Result<(), StoreError> {
        if self.creates_once.load(Ordering::Acquire) {
            return Ok(());
        }
        let folder = self.folder()?;
        let name = format!("_spillway/probe-{}", Uuid::new_v4());
        let proven = self.refuses_second(folder, &name);
        // What cannot be deleted is a stray object of one byte.
        let _ = folder.delete(&[name]);
        proven?;
        self.creates_once.store(true, Ordering::Release);
        Ok(())
    }

    /// Repeats a conditional PUT to a unique key until the store rejects it.
    fn refuses_second(&self, folder: &StoreFolder, name: &str) -> Result<(), StoreError> {
        let mut was_created = false;
        let mut waits = CREATE_AGAIN_AFTER
            .iter()
            .chain(repeat_n(&CREATE_AGAIN_AFTER[3], 4));
        loop {
            match folder.create(name, b"1").map_err(error)? {
                Created::Won(_) if was_created => {
                    return Err(StoreError {
                        message: format!(
                            "{}: the store replaces objects that it was asked only to create, so writers would lose \
                             each other's commits: choose one with conditional PUT (If-None-Match: *)",
                            self.url()
                        ),
                        kind: StoreErrorKind::Permanent,
                        errno: None,
                    });
                }
                Created::Won(_) => was_created = true,
                // If the response that created the object was lost, look for the object: some stores reject every
                // conditional PUT.
                Created::Exists if was_created || folder.holds(name).map_err(error)? => return Ok(()),
                Created::Exists => {
                    return Err(StoreError::transient(format!(
                        "{}: the store says that an object exists, but does not have it: try again, or choose a store \
                         with conditional PUT (If-None-Match: *)",
                        self.url()
                    )));
                }
                Created::Unknown(failure) => {
                    let Some(wait) = waits.next() else {
                        return Err(self.not_proven(&failure));
                    };
                    self.pause(*wait)?;
                }
            }
        }
    }

    /// Waits, unless the caller gives up.
    fn pause(&self, wait: Duration) -> Result<(), StoreError> {
        let attend = (self.attend)();
        let end = Instant::now() + wait;
        loop {
            attend().map_err(|source| StoreError::io(self.url(), &source))?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(ATTEND_EVERY));
        }
    }

    fn not_proven(&self, failure: &RequestFailure) -> StoreError {
        StoreError {
            errno: Some(EIO),
            ..StoreError::transient(format!(
                "{}: nothing was committed, because it is not known if the store has conditional PUT (If-None-Match: \
                 *), without which writers would lose each other's commits ({}): try again",
                self.url(),
                failure.message
            ))
        }
    }
}

/// A table under a prefix of a bucket.
pub struct Objects {
    clients: Arc<Clients>,
    /// The URL, where a path is expected.
    root: PathBuf,
    attend: fn() -> Attend,
}

/// The error of a URL, which is an argument of another name for a table than for a file.
fn of_uri(error: WriteError) -> WriteError {
    match error {
        WriteError::Option(fault) if fault.option.as_deref() == Some("destination") => {
            WriteError::Option(OptionFault {
                option: Some("uri".into()),
                ..fault
            })
        }
        other => other,
    }
}

impl Objects {
    /// The table that `url` names; options are those of [`object_sink::Target::new`]. Each `attend` is called while
    /// data files are uploaded, each `watch` while other requests are not answered, and its error ends that.
    ///
    /// # Errors
    /// [`WriteError::Option`] when the URL does not name an object store, or an option is unknown or invalid.
    pub fn new(
        url: &str,
        options: &[(String, String)],
        attend: fn() -> Attend,
        watch: fn() -> Attend,
    ) -> Result<Self, WriteError> {
        let location = Location::new(url, options).map_err(of_uri)?;
        Ok(Self {
            root: PathBuf::from(location.url()),
            clients: Arc::new(Clients {
                location,
                folder: PerProcess::new(),
                attend: watch,
                creates_once: AtomicBool::new(false),
            }),
            attend,
        })
    }

    /// Creates an object, if there is none of its name; returns false if there is one with another body. The body has
    /// to be one that nobody else writes: where the store's answer is lost, it tells whose object is there.
    ///
    /// # Errors
    /// Refuses a store that replaces objects that it should create, and an answer that leaves open who created the
    /// object.
    pub fn create_once(&self, name: &str, body: &[u8]) -> Result<bool> {
        self.clients.require_conditional_put()?;
        let folder = self.clients.folder()?;
        let mut lost = None;
        for wait in CREATE_AGAIN_AFTER {
            self.clients.pause(wait)?;
            match folder.create(name, body).map_err(error)? {
                Created::Won(_) => return Ok(true),
                // Two creations that conflict may both be told so, and both have failed.
                Created::Exists => {}
                Created::Unknown(failure) => lost = Some(failure),
            }
            if let Some(found) = self.read(name)? {
                return Ok(found == body);
            }
        }
        Err(lost.map_or_else(
            || {
                let message = format!(
                    "{}/{name}: the store says that it exists, and that it does not: try again",
                    self.clients.url()
                );
                StoreError::transient(message).into()
            },
            |failure| error(failure).into(),
        ))
    }

    fn whole(&self, name: &str, existing: Existing) -> Box<dyn Sink> {
        let clients = Arc::clone(&self.clients);
        Box::new(WholeObject::new(clients, name, existing, self.attend))
    }

    fn sink(&self, name: &str) -> Result<Box<dyn Sink>, WriteError> {
        let folder = self.clients.folder();
        let target = folder
            .map_err(|error| WriteError::option("storage_options", error.message))?
            .target(name)?;
        Ok(Box::new(ObjectSink::new(target, (self.attend)())?))
    }
}

impl TableStorage for Objects {
    fn root(&self) -> &Path {
        &self.root
    }

    fn key(&self) -> OsString {
        self.clients.location.key().into()
    }

    fn log_store(&self) -> Arc<dyn LogStore> {
        Arc::new(ObjectLog::new(Arc::clone(&self.clients)))
    }

    /// A prefix needs no making.
    fn prepare(&self) -> Result<()> {
        Ok(self.clients.require_conditional_put()?)
    }

    fn list(&self, folder: &str, after: Option<&str>) -> Result<Vec<String>> {
        let listed = self.clients.folder()?.list(folder, after).map_err(error)?;
        Ok(listed.found.into_iter().map(|found| found.name).collect())
    }

    fn ages(&self, folder: &str) -> Result<Option<Vec<(String, i64)>>> {
        let listed = self.clients.folder()?.list(folder, None).map_err(error)?;
        let files = listed.found.into_iter().map(|found| (found.name, found.modified));
        Ok(listed.now.map(|_| files.collect()))
    }

    fn walk(&self, _enters: &dyn Fn(&str) -> bool) -> Result<Option<StoredFiles>> {
        // One listing has the objects of all folders.
        let listed = self.clients.folder()?.list("", None).map_err(error)?;
        // The markers of folders are no files, and their names are those of the folders once they are parsed.
        let found = listed.found.into_iter();
        let found = found.filter(|found| found.bytes > 0 && !found.name.is_empty());
        let files = found.map(|found| StoredFile {
            name: found.name,
            modified: found.modified,
            bytes: found.bytes,
        });
        let files = files.collect();
        Ok(listed.now.map(|now| StoredFiles { now, files }))
    }

    fn read(&self, name: &str) -> Result<Option<Bytes>> {
        let mut bodies = self.clients.folder()?.read(&[name.to_owned()]).map_err(error)?;
        Ok(bodies.pop().flatten().map(Bytes::from))
    }

    fn read_ahead<'a>(&'a self, names: Names<'a>) -> Bodies<'a> {
        match self.clients.folder() {
            Ok(folder) => Box::new(folder.read_ahead(names).map(|found| {
                let found = found.map_err(error)?;
                Ok(found.map(|(body, _)| Bytes::from(body)))
            })),
            Err(error) => Box::new(iter::once(Err(error.into()))),
        }
    }

    fn read_range(&self, name: &str, range: Range<u64>) -> Result<Bytes> {
        let body = self.clients.folder()?.read_range(name, range).map_err(error)?;
        Ok(body.into())
    }

    fn size(&self, name: &str) -> Result<Option<u64>> {
        Ok(self.clients.folder()?.size(name).map_err(error)?)
    }

    fn has(&self, name: &str) -> Result<bool> {
        Ok(self.size(name)?.is_some())
    }

    fn mark(&self, name: &str) -> Result<Option<String>> {
        Ok(self.clients.folder()?.mark(name).map_err(error)?)
    }

    fn believes_marks_for(&self) -> Duration {
        MARK_LASTS
    }

    fn replace(&self, name: &str) -> Result<Box<dyn Sink>> {
        Ok(self.whole(name, Existing::Replace))
    }

    fn replace_unless(
        &self,
        name: &str,
        body: &[u8],
        is_late: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<()> {
        let folder = self.clients.folder()?;
        for _ in 0..MOST_REPLACEMENTS {
            let seen = folder.seen(name).map_err(error)?;
            if is_late()? {
                break;
            }
            let replaced = match seen {
                Some(seen) => folder.exchange(name, body, seen).map_err(error)?,
                None => match folder.create(name, body).map_err(error)? {
                    Created::Won(_) => true,
                    Created::Exists => false,
                    Created::Unknown(failure) => return Err(error(failure).into()),
                },
            };
            if replaced {
                break;
            }
        }
        Ok(())
    }

    fn create_whole(&self, name: &str) -> Result<Box<dyn Sink>> {
        Ok(self.whole(name, Existing::Keep))
    }

    fn create(&self, name: &Path) -> Result<Box<dyn Sink>, WriteError> {
        let name = name
            .to_str()
            .ok_or_else(|| WriteError::option("uri", format!("the path {} is not UTF-8", name.display())))?;
        self.sink(name)
    }

    fn takes(&self, folder: &Path) -> bool {
        folder.as_os_str().len() <= MOST_FOLDER && folder.iter().all(|part| part.len() <= MOST_NAME)
    }

    fn keeps(&self) -> bool {
        true
    }

    /// The store's clock, taken from the `Date` header of an empty listing.
    fn now_for_removal(&self) -> Result<i64> {
        let listed = self.clients.folder()?.list(NOTHING, None).map_err(error)?;
        let now = listed.now.ok_or_else(|| {
            CommitError::Unsupported(format!(
                "{}: the store's answers have no Date, by which the ages of files are told: nothing is removed",
                self.clients.url()
            ))
        })?;
        check_clock(now, &self.root)
    }

    fn remove(&self, names: &[String]) -> usize {
        // What cannot be deleted is a stray object, which no reader sees.
        self.clients.folder().map_or(0, |folder| folder.remove(names))
    }

    fn attend(&self) -> Attend {
        (self.clients.attend)()
    }
}
