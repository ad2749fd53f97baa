//! A multipart upload whose parts are recorded, so that another process may complete it.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use md5::{Digest, Md5};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{Error, MultipartId, ObjectStore, ObjectStoreExt, PutPayload, UploadPart};

/// A client whose uploads another process may complete.
pub(crate) trait Client: ObjectStore + MultipartStore {}

impl<T: ObjectStore + MultipartStore> Client for T {}

/// An upload that has all its parts and lacks its completion: until then its object is invisible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingUpload {
    /// The object's path below its folder.
    pub name: String,
    /// The store's name of the upload; empty on Azure, which has none.
    pub id: String,
    /// The store's names of the parts, in their order: entity tags on S3 and Google Cloud Storage, blocks on Azure.
    pub parts: Vec<String>,
    /// The object's size.
    pub bytes: u64,
}

/// The parts of an upload; none for one that the store has not answered yet.
type UploadParts = Arc<Mutex<Vec<Option<PartId>>>>;

/// An upload that has begun. Dropping it does not abort it.
pub(crate) struct Upload {
    store: Arc<dyn MultipartStore>,
    path: Path,
    id: MultipartId,
    parts: UploadParts,
    bytes: u64,
}

impl Upload {
    /// Begins an upload.
    ///
    /// # Errors
    /// The store's.
    pub async fn begin(store: Arc<dyn MultipartStore>, path: Path) -> object_store::Result<Self> {
        let id = store.create_multipart(&path).await?;
        Ok(Self {
            store,
            path,
            id,
            parts: UploadParts::default(),
            bytes: 0,
        })
    }

    /// The upload that another process has begun and given all parts.
    pub fn resume(store: Arc<dyn MultipartStore>, path: Path, pending: &PendingUpload) -> Self {
        let parts = pending.parts.iter().map(|part| {
            Some(PartId {
                content_id: part.clone(),
            })
        });
        Self {
            store,
            path,
            id: pending.id.clone(),
            parts: Arc::new(Mutex::new(parts.collect())),
            bytes: pending.bytes,
        }
    }

    /// The store's name of the upload.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The object's path in the bucket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sends the next part.
    pub fn put_part(&mut self, body: PutPayload) -> UploadPart {
        let (store, path, id) = (Arc::clone(&self.store), self.path.clone(), self.id.clone());
        let parts = Arc::clone(&self.parts);
        self.bytes += body.content_length() as u64;
        let number = {
            let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
            parts.push(None);
            parts.len() - 1
        };
        Box::pin(async move {
            let part = store.put_part(&path, &id, number, body).await?;
            let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
            parts[number] = Some(part);
            Ok(())
        })
    }

    /// The parts that the store has; `None` where one has not arrived.
    fn sent(&self) -> Option<Vec<PartId>> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.iter().cloned().collect()
    }

    /// What another process needs for the completion of the object `name`; `None` where a part has not arrived.
    pub fn pending(&self, name: String) -> Option<PendingUpload> {
        Some(PendingUpload {
            name,
            id: self.id.clone(),
            parts: self.sent()?.into_iter().map(|part| part.content_id).collect(),
            bytes: self.bytes,
        })
    }

    /// Makes the object appear. Of an upload that was completed before, the store knows nothing: then the object has to
    /// be there in its size. Its path has to be that of this upload alone.
    ///
    /// # Errors
    /// The store's.
    pub async fn complete(&self, objects: &dyn ObjectStore) -> object_store::Result<()> {
        match self.finish().await {
            // The answer to a completion may be lost. The completion that is sent again finds no upload then.
            Err(error) if !self.has_appeared(objects).await => Err(error),
            _ => Ok(()),
        }
    }

    /// Completes the upload at a key that other writers may use. If the response is lost, the retry fails because the
    /// upload no longer exists. It then counts as complete only if the object's `ETag` is the one S3 derives from these
    /// parts. Stores with other `ETag`s return the error.
    ///
    /// # Errors
    /// The store's.
    pub async fn replace(&self, objects: &dyn ObjectStore) -> object_store::Result<()> {
        let Err(error) = self.finish().await else {
            return Ok(());
        };
        let Some(tag) = self.sent().and_then(|parts| entity_tag(&parts)) else {
            return Err(error);
        };
        let found = objects.head(&self.path).await.ok().and_then(|found| found.e_tag);
        match found {
            Some(found) if bare(&found) == tag => Ok(()),
            _ => Err(error),
        }
    }

    /// Sends the completion.
    ///
    /// # Errors
    /// The store's, also for an upload that was completed before.
    pub async fn finish(&self) -> object_store::Result<()> {
        let parts = self.sent().ok_or_else(|| Error::Generic {
            store: "multipart upload",
            source: "a part has not arrived".into(),
        })?;
        let done = self.store.complete_multipart(&self.path, &self.id, parts).await;
        done.map(|_| ())
    }

    /// Returns true if the object is there, in its size.
    pub async fn has_appeared(&self, objects: &dyn ObjectStore) -> bool {
        let found = objects.head(&self.path).await;
        found.is_ok_and(|found| found.size == self.bytes)
    }

    /// Aborts the upload; one that is gone is no error.
    ///
    /// # Errors
    /// The store's.
    pub async fn abort(&self) -> object_store::Result<()> {
        or_gone(self.store.abort_multipart(&self.path, &self.id).await)
    }

    /// Removes an object that the completion made, or may have made.
    ///
    /// # Errors
    /// The store's, where the object may still be there.
    pub async fn delete(&self, objects: &dyn ObjectStore) -> object_store::Result<()> {
        let Err(error) = or_gone(objects.delete(&self.path).await) else {
            return Ok(());
        };
        // Whoever may not delete an object may still see that there is none.
        match objects.head(&self.path).await {
            Err(Error::NotFound { .. }) => Ok(()),
            _ => Err(error),
        }
    }
}

/// The `ETag` of a multipart object on S3: the MD5 of the concatenated part MD5s, a dash, and the number of parts.
/// `None` if a part's `ETag` is not an MD5.
fn entity_tag(parts: &[PartId]) -> Option<String> {
    let mut all = Md5::new();
    for part in parts {
        let digits = bare(&part.content_id);
        let byte = |at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let bytes: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect::<Option<_>>()?;
        all.update(<[u8; 16]>::try_from(bytes).ok()?);
    }
    let mut tag = String::new();
    for byte in all.finalize() {
        // Writing to a string does not fail.
        let _ = write!(tag, "{byte:02x}");
    }
    Some(format!("{tag}-{}", parts.len()))
}

/// An entity tag without its quotes.
fn bare(tag: &str) -> &str {
    tag.trim_matches('"')
}

fn or_gone(done: object_store::Result<()>) -> object_store::Result<()> {
    match done {
        Err(Error::NotFound { .. }) => Ok(()),
        other => other,
    }
}
