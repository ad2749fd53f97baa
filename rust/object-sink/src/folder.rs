//! A prefix of an object store: its objects are read, listed, created, replaced and deleted by their relative paths.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::io;
use std::iter;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesOrdered;
use futures_util::{StreamExt, TryStreamExt, future, stream};
use object_store::path::Path;
use object_store::{
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload, RetryConfig, UpdateVersion,
};
use parquet_writer::WriteError;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::runtime;
use crate::scrub::Secrets;
use crate::sink::{self, Attend, Refusal, with_cause};
use crate::target::{Address, REQUEST_TIME, Target};
use crate::upload::Client;
use crate::watch::{Watcher, with_answer, with_status};

/// The time after which the outcome of a creation counts as unknown. It is enough for the 4 MB of the largest commit at
/// one megabit per second.
const CREATE_TIME: &str = "40s";

/// Time that cleaning up may take.
const REMOVAL_TIME: Duration = Duration::from_secs(10);

/// The most requests of one operation at a time.
pub(crate) const MOST_FLYING: usize = 32;

/// The most bytes of bodies that are requested ahead, estimated by the largest one so far.
const MOST_FLYING_BYTES: usize = 64 << 20;

/// The bodies that are requested ahead while no size is known.
const FIRST_FLYING: usize = 4;

/// A folder of an object store, as a URL and options name it. No client is made of it yet.
#[derive(Clone)]
pub struct Location(Address);

impl Location {
    /// The folder that `url` names. Options are those of [`Target::new`].
    ///
    /// # Errors
    /// [`WriteError::Option`] when the URL does not name an object store, or an option is unknown or invalid.
    pub fn new(url: &str, options: &[(String, String)]) -> Result<Self, WriteError> {
        let mut address = Address::new(url, options)?;
        address.shown.truncate(address.shown.trim_end_matches('/').len());
        Ok(Self(address))
    }

    /// The URL as it may be shown, without a slash at its end.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.0.shown
    }

    /// A key that differs between folders, and between users of one folder with other rights. It holds secrets: do not
    /// show it.
    #[must_use]
    pub fn key(&self) -> String {
        self.0.key()
    }
}

/// The failure of a request to a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RequestFailure {
    /// The store's message, with the object's URL and without secrets.
    pub message: String,
    /// The consequence for the caller.
    pub kind: FailureKind,
}

impl From<RequestFailure> for io::Error {
    fn from(failure: RequestFailure) -> Self {
        let kind = match failure.kind {
            FailureKind::Missing => io::ErrorKind::NotFound,
            FailureKind::Denied => io::ErrorKind::PermissionDenied,
            FailureKind::Refused | FailureKind::Throttled | FailureKind::Lost => io::ErrorKind::Other,
        };
        let RequestFailure { message, .. } = failure;
        Self::new(kind, Refusal { message })
    }
}

/// The consequence of a failure for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The bucket is not there.
    Missing,
    /// The credentials do not allow it.
    Denied,
    /// It was not done and will not be.
    Refused,
    /// It was not done: the store is asked too often. The same may work later.
    Throttled,
    /// The answer was lost, or proves nothing: the request may have been carried out.
    Lost,
}

/// The outcome of an attempt to create an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// This attempt created it. Its entity tag, where the store told it.
    Won(Option<String>),
    /// The store says that it exists, or that another request is creating it now.
    Exists,
    /// It may be there, now or in a while.
    Unknown(RequestFailure),
}

/// The entity tag and the version of an object at the time of a request.
#[derive(Debug, Clone)]
pub struct ObjectVersion(UpdateVersion);

/// The body of an object, and its entity tag where the store tells one.
pub type Tagged = (Vec<u8>, Option<String>);

/// An object that a listing showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedObject {
    /// Its path in the folder that was listed.
    pub name: String,
    /// The object's time of writing by the store's clock: milliseconds since the epoch.
    pub modified: i64,
    /// Its size.
    pub bytes: u64,
}

/// The answer to a listing.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The store's clock when it answered: milliseconds since the epoch; none where the answer had no date.
    pub now: Option<i64>,
    /// The objects, in no order.
    pub found: Vec<ListedObject>,
}

/// A folder of an object store, with clients that belong to this process.
pub struct StoreFolder {
    pub(crate) address: Address,
    /// A client that repeats a request when its answer was lost.
    pub(crate) store: Arc<dyn Client>,
    /// A client that sends each request once. A repeated creation may find the object that it created itself, and a
    /// repeated write may bring back an object that was deleted.
    once: Arc<dyn Client>,
    pub(crate) path: Path,
    url: String,
    secrets: Secrets,
    attend: fn() -> Attend,
    pub(crate) runtime: Handle,
}

impl StoreFolder {
    /// Makes the clients; no request is sent. The function that `attend` returns is called during every wait, and its
    /// error ends the wait.
    ///
    /// # Errors
    /// [`WriteError::Option`] when the options do not fit the store; [`WriteError::Io`] when the threads that drive
    /// requests cannot be started.
    pub fn open(location: &Location, attend: fn() -> Attend) -> Result<Self, WriteError> {
        let address = &location.0;
        let never = RetryConfig {
            max_retries: 0,
            ..address.retry.clone()
        };
        Ok(Self {
            address: address.clone(),
            store: address.connect(address.retry.clone(), REQUEST_TIME, Watcher)?,
            once: address.connect(never, CREATE_TIME, Watcher)?,
            path: address.path.clone(),
            url: address.shown.clone(),
            secrets: address.secrets.clone(),
            attend,
            runtime: runtime::handle().map_err(|error| WriteError::Io {
                path: Some(address.shown.clone().into()),
                source: error,
            })?,
        })
    }

    /// The target for uploading one object of the folder.
    ///
    /// # Errors
    /// When no object can have this path.
    pub fn target(&self, relative: &str) -> io::Result<Target> {
        let path = self.path_of(relative).map_err(io::Error::other)?;
        Ok(Target {
            store: Arc::clone(&self.store),
            path,
            url: format!("{}/{relative}", self.url),
            secrets: self.secrets.clone(),
        })
    }

    /// The URL of an object of the folder, with what is special in a URL escaped.
    #[must_use]
    pub fn url_of(&self, relative: &str) -> String {
        self.address.url_of(relative)
    }

    /// The bodies of objects, none for those that do not exist.
    ///
    /// # Errors
    /// When the store refuses, or does not answer.
    pub fn read(&self, relative: &[String]) -> Result<Vec<Option<Vec<u8>>>, RequestFailure> {
        let requests = relative.iter().map(|relative| self.body(relative));
        self.wait(stream::iter(requests).buffered(MOST_FLYING).try_collect())?
    }

    /// The bodies of some objects, none for those that do not exist, and for each of others whether it exists.
    ///
    /// # Errors
    /// A [`RequestFailure`] if the store refuses, or does not answer.
    #[expect(clippy::type_complexity, reason = "a pair of what two methods return")]
    pub fn read_and_find(
        &self,
        read: &[String],
        find: &[String],
    ) -> Result<(Vec<Option<Vec<u8>>>, Vec<bool>), RequestFailure> {
        let bodies = read.iter().map(|relative| self.body(relative));
        let there = find.iter().map(|relative| self.is_there(relative));
        self.wait(future::try_join(
            stream::iter(bodies).buffered(MOST_FLYING).try_collect(),
            stream::iter(there).buffered(MOST_FLYING).try_collect(),
        ))?
    }

    async fn body(&self, relative: &str) -> Result<Option<Vec<u8>>, RequestFailure> {
        Ok(self.tagged(relative).await?.map(|(body, _)| body))
    }

    /// The body of an object, with its entity tag where the store tells one; none when it does not exist.
    ///
    /// # Errors
    /// A [`RequestFailure`] if the store refuses, or does not answer.
    pub fn read_tagged(&self, relative: &str) -> Result<Option<Tagged>, RequestFailure> {
        self.wait(self.tagged(relative))?
    }

    async fn tagged(&self, relative: &str) -> Result<Option<Tagged>, RequestFailure> {
        let path = self.path_of(relative)?;
        let request = async {
            let found = self.store.get(&path).await?;
            let tag = found.meta.e_tag.clone();
            Ok((found.bytes().await?.into(), tag))
        };
        match with_status(request).await {
            (Ok(found), _) => Ok(Some(found)),
            (Err(object_store::Error::NotFound { .. }), _) => Ok(None),
            (Err(error), status) => Err(self.failure(relative, &error, status)),
        }
    }

    /// The bodies of objects in this order, each with its entity tag; none for those that do not exist. Up to 32
    /// requests are in flight: as many as fit into 64 MiB if every body is as large as the largest so far, and four
    /// before the first response.
    pub fn read_ahead<'a>(
        &'a self,
        relative: impl Iterator<Item = String> + 'a,
    ) -> impl Iterator<Item = Result<Option<Tagged>, RequestFailure>> + 'a {
        let mut requests = relative.map(move |relative| async move { self.tagged(&relative).await });
        let mut flying = FuturesOrdered::new();
        let mut largest = None;
        iter::from_fn(move || {
            let most = largest.map_or(FIRST_FLYING, |bytes: usize| {
                (MOST_FLYING_BYTES / bytes.max(1)).clamp(1, MOST_FLYING)
            });
            while flying.len() < most
                && let Some(request) = requests.next()
            {
                flying.push_back(request);
            }
            let body = self
                .wait(flying.next())
                .unwrap_or_else(|failure| Some(Err(failure)));
            if let Some(Ok(found)) = &body {
                let bytes = found.as_ref().map_or(0, |(body, _)| body.len());
                largest = largest.max(Some(bytes));
            }
            body
        })
    }

    /// Bytes of an object, fewer where it ends before the range does.
    ///
    /// # Errors
    /// A [`RequestFailure`] if it is not there, or the store refuses, or does not answer.
    pub fn read_range(&self, relative: &str, range: Range<u64>) -> Result<Vec<u8>, RequestFailure> {
        let path = self.path_of(relative)?;
        let request = self.store.get_range(&path, range);
        let (read, status) = self.wait(with_status(request))?;
        let body = read.map_err(|error| self.failure(relative, &error, status))?;
        Ok(body.into())
    }

    /// The bytes of each of the objects; none for one that does not exist.
    ///
    /// # Errors
    /// When the store refuses, or does not answer.
    pub fn sizes(&self, relative: &[String]) -> Result<Vec<Option<u64>>, RequestFailure> {
        let requests = relative.iter().map(|relative| self.size_of(relative));
        self.wait(stream::iter(requests).buffered(MOST_FLYING).try_collect())?
    }

    /// Returns true if there is an object of this name.
    ///
    /// # Errors
    /// A [`RequestFailure`] where the store does not say.
    pub fn holds(&self, relative: &str) -> Result<bool, RequestFailure> {
        self.wait(self.is_there(relative))?
    }

    async fn is_there(&self, relative: &str) -> Result<bool, RequestFailure> {
        Ok(self.head(relative).await?.is_some())
    }

    /// A mark that changes when the object is replaced or made anew; none when it does not exist.
    ///
    /// # Errors
    /// When the store refuses, or does not answer.
    pub fn mark(&self, relative: &str) -> Result<Option<String>, RequestFailure> {
        let found = self.wait(self.head(relative))??;
        Ok(found.map(|found| {
            let tag = found.e_tag.unwrap_or_default();
            format!("{tag} {} {}", found.last_modified.timestamp_millis(), found.size)
        }))
    }

    /// The entity tag of an object; none when it does not exist, or the store tells none.
    ///
    /// # Errors
    /// A [`RequestFailure`] if the store refuses, or does not answer.
    pub fn tag(&self, relative: &str) -> Result<Option<String>, RequestFailure> {
        let found = self.wait(self.head(relative))??;
        Ok(found.and_then(|found| found.e_tag))
    }

    /// The bytes of an object; none when it does not exist.
    ///
    /// # Errors
    /// When the store refuses, or does not answer.
    pub fn size(&self, relative: &str) -> Result<Option<u64>, RequestFailure> {
        self.wait(self.size_of(relative))?
    }

    pub(crate) async fn size_of(&self, relative: &str) -> Result<Option<u64>, RequestFailure> {
        Ok(self.head(relative).await?.map(|found| found.size))
    }

    async fn head(&self, relative: &str) -> Result<Option<ObjectMeta>, RequestFailure> {
        let path = self.path_of(relative)?;
        match with_status(self.store.head(&path)).await {
            (Ok(found), _) => Ok(Some(found)),
            (Err(object_store::Error::NotFound { .. }), _) => Ok(None),
            (Err(error), status) => Err(self.failure(relative, &error, status)),
        }
    }

    /// Lists the objects under `folder` that come after `after`.
    ///
    /// # Errors
    /// When the store refuses, or does not answer.
    pub fn list(&self, folder: &str, after: Option<&str>) -> Result<Listed, RequestFailure> {
        let prefix = self.path_of(folder)?;
        let offset = match after {
            Some(after) => Some(self.path_of(&format!("{folder}/{after}"))?),
            None => None,
        };
        let listed = match &offset {
            Some(offset) => self.store.list_with_offset(Some(&prefix), offset),
            None => self.store.list(Some(&prefix)),
        };
        let (listed, answer) = self.wait(with_answer(listed.try_collect::<Vec<_>>()))?;
        let listed = listed.map_err(|error| self.failure(folder, &error, answer.status))?;
        let found = listed.into_iter().filter_map(|object| {
            Some(ListedObject {
                name: below(&prefix, &object.location)?,
                modified: object.last_modified.timestamp_millis(),
                bytes: object.size,
            })
        });
        Ok(Listed {
            now: answer.date,
            found: found.collect(),
        })
    }

    /// The objects and the folders directly in `folder`, by their names there. An empty object whose key ends in a
    /// slash marks a folder.
    ///
    /// # Errors
    /// A [`RequestFailure`] if the store refuses, or does not answer.
    pub fn children(&self, folder: &str) -> Result<(Vec<ListedObject>, Vec<String>), RequestFailure> {
        let prefix = self.path_of(folder)?;
        let (listed, status) = self.wait(with_status(self.store.list_with_delimiter(Some(&prefix))))?;
        let listed = listed.map_err(|error| self.failure(folder, &error, status))?;
        let found = listed.objects.into_iter().filter_map(|object| {
            Some(ListedObject {
                name: below(&prefix, &object.location).filter(|name| !name.is_empty())?,
                modified: object.last_modified.timestamp_millis(),
                bytes: object.size,
            })
        });
        let folders = listed.common_prefixes.iter();
        let folders = folders.filter_map(|folder| below(&prefix, folder));
        Ok((found.collect(), folders.collect()))
    }

    /// The path in `folder` of one object under it for which `wanted` holds; none where there is no such object.
    ///
    /// # Errors
    /// A [`RequestFailure`] if the store refuses, or does not answer.
    pub fn find(
        &self,
        folder: &str,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Option<String>, RequestFailure> {
        let prefix = self.path_of(folder)?;
        let names = self.store.list(Some(&prefix)).try_filter_map(|object| {
            let name = below(&prefix, &object.location).filter(|name| wanted(name));
            future::ready(Ok(name))
        });
        let mut names = pin!(names);
        let (found, status) = self.wait(with_status(names.try_next()))?;
        found.map_err(|error| self.failure(folder, &error, status))
    }

    /// Creates an object, if there is none of its name. The request is sent once.
    ///
    /// # Errors
    /// When it is certain that this attempt did not create it.
    pub fn create(&self, relative: &str, body: &[u8]) -> Result<Created, RequestFailure> {
        use object_store::Error::{AlreadyExists, Precondition};
        let path = self.path_of(relative)?;
        let payload = PutPayload::from(body.to_vec());
        let request = self.once.put_opts(&path, payload, PutMode::Create.into());
        let done = match self.wait(with_status(request)) {
            Ok(done) => done,
            Err(failure) => return Ok(Created::Unknown(failure)),
        };
        match done {
            (Ok(put), _) => Ok(Created::Won(put.e_tag)),
            (Err(AlreadyExists { .. } | Precondition { .. }), _) => Ok(Created::Exists),
            (Err(error), status) => {
                let failure = self.failure(relative, &error, status);
                match failure.kind {
                    // Nobody needs to know of a creation that it was certainly not done: it is tried again.
                    FailureKind::Lost | FailureKind::Throttled => Ok(Created::Unknown(failure)),
                    _ => Err(failure),
                }
            }
        }
    }

    /// Replaces an object if it still has this entity tag and version; returns false otherwise. The request is sent
    /// once. On a store without conditional updates or without entity tags, the object is replaced in any case.
    ///
    /// # Errors
    /// A failure after which it may not be replaced.
    pub fn exchange(&self, relative: &str, body: &[u8], seen: ObjectVersion) -> Result<bool, RequestFailure> {
        use object_store::Error::{AlreadyExists, NotFound, Precondition};
        if seen.0.e_tag.is_none() {
            return self.write_once(relative, body).map(|()| true);
        }
        let path = self.path_of(relative)?;
        let payload = PutPayload::from(body.to_vec());
        let request = self.once.put_opts(&path, payload, PutMode::Update(seen.0).into());
        match self.wait(with_status(request))? {
            (Ok(_), _) => Ok(true),
            (Err(AlreadyExists { .. } | NotFound { .. } | Precondition { .. }), _) => Ok(false),
            (Err(error), status) => {
                let failure = self.failure(relative, &error, status);
                if matches!(failure.kind, FailureKind::Refused) {
                    // Stores without conditional updates answer 400, 405 or 501. If the store refuses for another
                    // reason, it refuses the next request, too.
                    return self.write_once(relative, body).map(|()| true);
                }
                Err(failure)
            }
        }
    }

    /// An object as it is now, for [`exchange`](Self::exchange); none when it does not exist.
    ///
    /// # Errors
    /// A [`RequestFailure`] if the store refuses, or does not answer.
    pub fn seen(&self, relative: &str) -> Result<Option<ObjectVersion>, RequestFailure> {
        let found = self.wait(self.head(relative))??;
        Ok(found.map(|found| {
            ObjectVersion(UpdateVersion {
                e_tag: found.e_tag,
                version: found.version,
            })
        }))
    }

    /// Writes an object, and replaces an existing one.
    ///
    /// # Errors
    /// A failure after which it may not be written.
    pub fn write(&self, relative: &str, body: &[u8]) -> Result<(), RequestFailure> {
        self.write_by(self.store.as_ref(), relative, body)
    }

    /// Writes an object likewise. The request is sent once: of one that is repeated, the first sending may arrive after
    /// the object was deleted again, and nobody would know of it.
    ///
    /// # Errors
    /// A failure after which it may not be written.
    pub fn write_once(&self, relative: &str, body: &[u8]) -> Result<(), RequestFailure> {
        self.write_by(self.once.as_ref(), relative, body)
    }

    fn write_by(&self, store: &dyn ObjectStore, relative: &str, body: &[u8]) -> Result<(), RequestFailure> {
        let path = self.path_of(relative)?;
        let request = store.put(&path, PutPayload::from(body.to_vec()));
        match self.wait(with_status(request))? {
            (Ok(_), _) => Ok(()),
            (Err(error), status) => Err(self.failure(relative, &error, status)),
        }
    }

    /// Deletes objects; one that is gone is no error.
    ///
    /// # Errors
    /// A failure after which they may be there.
    pub fn delete(&self, relative: &[String]) -> Result<(), RequestFailure> {
        let requests = relative.iter().map(|relative| self.removed(relative));
        self.wait(stream::iter(requests).buffered(MOST_FLYING).try_collect())?
    }

    /// Deletes objects, as far as that can be done. Returns those that may still be there, each with the reason.
    #[must_use]
    pub fn delete_each(&self, relative: &[String]) -> Vec<(String, RequestFailure)> {
        let gone = self.delete_together(relative);
        let rest = relative.iter().filter(|name| !gone.contains(*name)).cloned();
        let rest: Vec<_> = rest.collect();
        self.each(&rest, String::as_str, |name| self.removed(name))
    }

    /// Deletes objects, many by one request where the store has such a request, up to the first failure. Returns those
    /// that are gone for certain.
    fn delete_together(&self, relative: &[String]) -> HashSet<String> {
        let paths = relative
            .iter()
            .filter_map(|name| Some((self.path_of(name).ok()?, name)));
        let names: HashMap<_, _> = paths.collect();
        let all: Vec<_> = names.keys().cloned().map(Ok).collect();
        let deleted = self.store.delete_stream(stream::iter(all).boxed());
        let gone = RefCell::new(HashSet::new());
        let noted = deleted.for_each(|done| {
            let name = done.ok().and_then(|path| names.get(&path));
            gone.borrow_mut().extend(name.map(|name| (*name).clone()));
            future::ready(())
        });
        // Of an end that the caller asks for, the requests that follow are told.
        let _ = self.wait(noted);
        gone.into_inner()
    }

    /// Does the same to many objects, some at a time, as far as that can be done. Returns the names of those to which
    /// it may not have been done, each with the reason.
    pub(crate) fn each<'a, T, F: Future<Output = Result<(), RequestFailure>>>(
        &self,
        items: &'a [T],
        name: impl Fn(&T) -> &str,
        work: impl Fn(&'a T) -> F,
    ) -> Vec<(String, RequestFailure)> {
        let outcomes: RefCell<Vec<_>> = RefCell::new(items.iter().map(|_| None).collect());
        let requests = items.iter().enumerate().map(|(index, item)| {
            let request = work(item);
            async move { (index, request.await) }
        });
        let all = stream::iter(requests)
            .buffer_unordered(MOST_FLYING)
            .for_each(|(index, outcome)| {
                outcomes.borrow_mut()[index] = Some(outcome);
                future::ready(())
            });
        let ended = self.wait(all).err();
        let failed = items
            .iter()
            .zip(outcomes.into_inner())
            .filter_map(|(item, outcome)| {
                let failure = match outcome {
                    Some(done) => done.err()?,
                    None => ended.clone()?,
                };
                Some((name(item).to_owned(), failure))
            });
        failed.collect()
    }

    /// A client of the folder's store whose requests have this time limit.
    pub(crate) fn client(&self, time: &str) -> Result<Arc<dyn Client>, RequestFailure> {
        let connected = self.address.connect(self.address.retry.clone(), time, Watcher);
        connected.map_err(|error| RequestFailure {
            message: error.to_string(),
            kind: FailureKind::Refused,
        })
    }

    /// Deletes objects, roughly in this order, as far as that can be done; returns the number of deleted ones.
    #[must_use]
    pub fn remove(&self, relative: &[String]) -> usize {
        let requests = relative.iter().map(|relative| self.removed(relative));
        let gone = Cell::new(0);
        let all = stream::iter(requests).buffered(MOST_FLYING).for_each(|done| {
            gone.set(gone.get() + usize::from(done.is_ok()));
            future::ready(())
        });
        // It cleans up after those who were interrupted, so only time ends it.
        let _ = self.runtime.block_on(async { timeout(REMOVAL_TIME, all).await });
        gone.get()
    }

    async fn removed(&self, relative: &str) -> Result<(), RequestFailure> {
        let path = self.path_of(relative)?;
        match with_status(self.store.delete(&path)).await {
            (Ok(()) | Err(object_store::Error::NotFound { .. }), _) => Ok(()),
            (Err(error), status) => Err(self.failure(relative, &error, status)),
        }
    }

    /// Waits for a request, and calls `attend` meanwhile.
    pub(crate) fn wait<T>(&self, request: impl Future<Output = T>) -> Result<T, RequestFailure> {
        // Most requests are answered before anybody has to look.
        let attend = OnceCell::new();
        let attend = || attend.get_or_init(self.attend)();
        sink::wait(&self.runtime, &attend, request).map_err(|error| RequestFailure {
            message: format!("{}: the wait for an answer was ended: {error}", self.url),
            kind: FailureKind::Lost,
        })
    }

    /// An object's key, which is the path unchanged.
    pub(crate) fn path_of(&self, relative: &str) -> Result<Path, RequestFailure> {
        let whole = if self.path.is_root() {
            relative.to_owned()
        } else {
            format!("{}/{relative}", self.path)
        };
        Path::parse(&whole).map_err(|error| RequestFailure {
            message: format!("{}/{relative}: no object can have this name: {error}", self.url),
            kind: FailureKind::Refused,
        })
    }

    pub(crate) fn failure(
        &self,
        relative: &str,
        error: &object_store::Error,
        status: Option<u16>,
    ) -> RequestFailure {
        use object_store::Error::{
            NotFound, NotImplemented, NotSupported, PermissionDenied, Unauthenticated,
        };
        // Listings hide what a status says behind a general error.
        let kind = match (error, status) {
            (NotFound { .. }, _) | (_, Some(404)) => FailureKind::Missing,
            (PermissionDenied { .. } | Unauthenticated { .. }, _) | (_, Some(401 | 403)) => {
                FailureKind::Denied
            }
            (NotImplemented { .. } | NotSupported { .. }, _) => FailureKind::Refused,
            // "Too many requests" is said instead of doing it. A 503 may be a proxy's, which lost the store's answer,
            // or that of a store which wrote a part.
            (_, Some(429)) => FailureKind::Throttled,
            // Too late, too early: the same may work later.
            (_, Some(408 | 409 | 425)) => FailureKind::Lost,
            (_, Some(300..=499 | 501)) => FailureKind::Refused,
            _ => FailureKind::Lost,
        };
        let message = self.secrets.scrub(&with_cause(error));
        RequestFailure {
            message: format!("{}/{relative}: {message}", self.url),
            kind,
        }
    }
}

/// Does the same to many objects, some at a time. After a failure, or once `stop` is true, no other one begins, and
/// those that have begun are waited for.
///
/// # Errors
/// The first [`RequestFailure`].
pub(crate) async fn until_failure<'a, T, F: Future<Output = Result<(), RequestFailure>>>(
    items: &'a [T],
    stop: &Cell<bool>,
    work: impl Fn(&'a T) -> F,
) -> Result<(), RequestFailure> {
    let first = RefCell::new(None);
    let all = stream::iter(items).for_each_concurrent(MOST_FLYING, |item| {
        let request = (!stop.get()).then(|| work(item));
        let first = &first;
        async move {
            let Some(request) = request else { return };
            if let Err(failure) = request.await {
                stop.set(true);
                first.borrow_mut().get_or_insert(failure);
            }
        }
    });
    all.await;
    first.into_inner().map_or(Ok(()), Err)
}

/// The path of an object below a prefix; empty for an object that marks the prefix as a folder.
pub(crate) fn below(prefix: &Path, object: &Path) -> Option<String> {
    let name = object.as_ref().strip_prefix(prefix.as_ref())?;
    Some(name.trim_start_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(url: &str, options: &[(&str, &str)]) -> Result<Location, WriteError> {
        let options: Vec<_> = options
            .iter()
            .map(|(name, value)| ((*name).to_string(), (*value).to_string()))
            .collect();
        Location::new(url, &options)
    }

    #[test]
    fn a_folder_has_one_url_with_and_without_its_slash() {
        for url in ["s3://bucket/a/table", "s3://bucket/a/table/"] {
            assert_eq!(location(url, &[]).unwrap().url(), "s3://bucket/a/table");
        }
        assert_eq!(location("s3://bucket/", &[]).unwrap().url(), "s3://bucket");
    }

    #[test]
    fn other_rights_are_another_key() {
        let key = |secret| {
            let options = [("aws_secret_access_key", secret)];
            location("s3://bucket/table", &options).unwrap().key()
        };
        assert_eq!(key("mine"), key("mine"));
        assert_ne!(key("mine"), key("yours"));
    }

    #[test]
    fn keys_are_what_the_path_says_letter_by_letter() {
        for (url, key) in [
            ("s3://bucket/a%20b", "a b/p=%3A/c d"),
            ("s3://bucket", "p=%3A/c d"),
        ] {
            let options = [("aws_region", "us-east-1")];
            let folder =
                StoreFolder::open(&location(url, &options).unwrap(), || Box::new(|| Ok(()))).unwrap();
            assert_eq!(folder.path_of("p=%3A/c d").unwrap().as_ref(), key);
            assert!(folder.path_of("a/../b").is_err());
        }
    }
}
