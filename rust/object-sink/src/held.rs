//! Uploads that appear together: each is complete but for its completion, which waits until all are.
//!
//! The parts of all uploads that are not full, and those under way, share the memory that a single upload may take.
//! Other parts that are not full wait in temporary files: a store takes no part but the last of less than 5 MiB (S3,
//! "Amazon S3 multipart upload limits").

use std::cell::{Cell, OnceCell};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::{StreamExt, stream};
use object_store::path::Path as Key;
use object_store::{ObjectStoreExt, PutPayload};
use parquet_writer::WriteError;
use parquet_writer::sink::Sink;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::journal::Journal;
use crate::parts::PartSizes;
use crate::runtime;
use crate::sink::{Attend, FAREWELL, UNREADABLE, Unbegun, begin, wait};
use crate::tail::Tail;
use crate::target::Target;
use crate::upload::{PendingUpload, Upload};

/// Bytes of the parts under way, in all uploads together. A part that is larger goes alone.
const MOST_FLYING_BYTES: usize = 16 << 20;
/// Parts under way, in all uploads together.
const MOST_FLYING: usize = 16;
/// Bytes in memory of parts that are not full, in all uploads together.
const MOST_WAITING_BYTES: usize = 8 << 20;
/// Completions, and requests that clean up, under way at once.
const MOST_ENDING: usize = 32;

/// Uploads that have not all appeared.
#[derive(Debug)]
pub struct Incomplete {
    /// The reason.
    pub error: WriteError,
    /// The URLs of objects that appeared, or may have, and could not be removed.
    pub left: Vec<String>,
}

/// Uploads that appear together. Dropping them aborts those that have not appeared.
pub struct HeldUploads {
    shared: Arc<Mutex<Shared>>,
    process: u32,
}

impl HeldUploads {
    /// No upload yet. The function that `attend` returns is called during every wait, and its error ends the wait.
    ///
    /// # Errors
    /// [`io::Error`] when the threads that drive requests cannot be started.
    pub fn new(attend: fn() -> Attend) -> io::Result<Self> {
        Ok(Self {
            shared: Arc::new(Mutex::new(Shared {
                runtime: runtime::handle()?,
                attend,
                flying: VecDeque::new(),
                flying_bytes: 0,
                waiting_bytes: 0,
                held: Vec::new(),
                given_up: Vec::new(),
                journal: None,
            })),
            process: std::process::id(),
        })
    }

    /// Names each upload, before its first part, in a small object of its own in the folder `target`: the store's name
    /// of the upload, a line feed, and the object's path below `root`. With it, whoever finds the uploads of a process
    /// that was killed can abort them.
    #[must_use]
    pub fn with_journal(self, target: Target, root: String) -> Self {
        lock(&self.shared).journal = Some(Journal::new(target, root));
        self
    }

    /// A sink for one object. Its commit only ends the upload of its parts. No request is made before the first part is
    /// full or the file complete.
    #[must_use]
    pub fn sink(&self, target: Target) -> HeldSink {
        HeldSink {
            shared: Arc::clone(&self.shared),
            shown: PathBuf::from(&target.url),
            target,
            tail: Tail::default(),
            sizes: PartSizes::default(),
            parts: 0,
            upload: None,
            process: self.process,
            done: false,
        }
    }

    /// Waits until the store has every part.
    ///
    /// # Errors
    /// [`WriteError::Io`] with the URL of an object of which it refused a part.
    pub fn land(&mut self) -> Result<(), WriteError> {
        Ok(lock(&self.shared).land_all()?)
    }

    /// Makes the objects of all committed sinks appear. Those that have appeared are removed again if another one
    /// cannot. Keys have to be new, and nobody else's: an object is taken for that of the upload.
    ///
    /// An error of `attend` that comes when all completions have been sent and are good has no effect.
    ///
    /// # Errors
    /// [`Incomplete`] says what is left all the same.
    pub fn complete(&mut self) -> Result<(), Incomplete> {
        let mut shared = lock(&self.shared);
        shared.land_all().map_err(|error| Incomplete {
            error: error.into(),
            left: Vec::new(),
        })?;
        let mut held = std::mem::take(&mut shared.held);
        let waited = shared.complete(&mut held);
        let Some(error) = failure(&mut held, waited) else {
            return Ok(());
        };
        shared.undo(&mut held);
        let left = held.into_iter();
        let left =
            left.filter(|held| matches!(held.state, CompletionState::Sent | CompletionState::Appeared));
        Err(Incomplete {
            error: error.into(),
            left: left.map(|held| held.target.url).collect(),
        })
    }
}

impl HeldUploads {
    /// Leaves the completion of all committed sinks to another process. `name` gives an object's name from its path.
    ///
    /// # Errors
    /// [`WriteError::Io`] with the URL of an object of which the store refused a part.
    pub fn detach(
        &mut self,
        name: impl Fn(&Key) -> Option<String>,
    ) -> Result<Vec<PendingUpload>, WriteError> {
        let mut shared = lock(&self.shared);
        shared.land_all()?;
        let pending = shared.held.iter().map(|held| {
            let name = name(held.upload.path())?;
            held.upload.pending(name)
        });
        let pending: Option<Vec<_>> = pending.collect();
        let pending = pending.ok_or_else(|| WriteError::schema("a part of an upload has not arrived"))?;
        shared.held.clear();
        Ok(pending)
    }
}

impl Drop for HeldUploads {
    fn drop(&mut self) {
        // A forked child only inherited them, and perhaps a lock that nobody opens.
        if self.process == std::process::id() {
            lock(&self.shared).give_up();
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state that the sinks share.
struct Shared {
    runtime: Handle,
    attend: fn() -> Attend,
    flying: VecDeque<Flying>,
    flying_bytes: usize,
    waiting_bytes: usize,
    held: Vec<HeldUpload>,
    /// Uploads to be aborted.
    given_up: Vec<Upload>,
    journal: Option<Journal>,
}

/// A part under way.
struct Flying {
    part: JoinHandle<object_store::Result<()>>,
    bytes: usize,
    target: Target,
}

/// An upload that lacks its completion alone.
struct HeldUpload {
    upload: Upload,
    target: Target,
    state: CompletionState,
    /// The store's answer to the completion, if it did not make the object appear.
    refusal: Option<io::Error>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CompletionState {
    Waiting,
    /// The store may have its completion.
    Sent,
    Appeared,
    /// It was removed, or cannot appear any more.
    Gone,
}

impl HeldUpload {
    /// Completes the upload. Returns true if the object has appeared.
    async fn complete(&mut self) -> bool {
        self.state = CompletionState::Sent;
        match self.upload.complete(&*self.target.store).await {
            Ok(()) => self.state = CompletionState::Appeared,
            Err(error) => self.refusal = Some(refusal(&self.target, &error)),
        }
        self.state == CompletionState::Appeared
    }

    /// Removes the object, or the upload. Returns true if that is certain.
    async fn undo(&mut self) -> bool {
        // Before the object, so that no late completion makes one after that.
        let aborted = self.state == CompletionState::Appeared || self.upload.abort().await.is_ok();
        if self.state == CompletionState::Waiting {
            // An upload that is left is invisible.
            self.state = CompletionState::Gone;
            return aborted;
        }
        let deleted = self.upload.delete(&*self.target.store).await.is_ok();
        if aborted && deleted {
            self.state = CompletionState::Gone;
        }
        aborted && deleted
    }
}

/// The error of an object, by its own name: it may be found out while another one is written.
fn refusal(target: &Target, error: &object_store::Error) -> io::Error {
    io::Error::other(WriteError::io(&target.url, target.refusal(error)))
}

/// The error of uploads that have not all appeared: that of a completion, else that of the wait.
fn failure(held: &mut [HeldUpload], waited: io::Result<()>) -> Option<io::Error> {
    if held.iter().all(|held| held.state == CompletionState::Appeared) {
        return None;
    }
    let refused = held.iter_mut().find_map(|held| held.refusal.take());
    let error = refused.or(waited.err());
    Some(error.unwrap_or_else(|| io::Error::other("not every upload was completed")))
}

impl Shared {
    /// Waits for a request, and calls `attend` meanwhile.
    fn wait<T>(&self, request: impl Future<Output = T>) -> io::Result<T> {
        let attend = OnceCell::new();
        wait(&self.runtime, &|| attend.get_or_init(self.attend)(), request)
    }

    fn begin(&mut self, target: &Target) -> io::Result<Upload> {
        let attend = OnceCell::new();
        let attend = || attend.get_or_init(self.attend)();
        let store = Arc::clone(&target.store);
        let request = Upload::begin(store, target.path.clone());
        let upload =
            begin(&self.runtime, &attend, target, request).map_err(|Unbegun { error, upload }| {
                self.given_up.extend(upload);
                error
            })?;
        match self.note(&upload) {
            Ok(()) => Ok(upload),
            Err(error) => {
                self.given_up.push(upload);
                Err(error)
            }
        }
    }

    /// Names an upload in the journal.
    fn note(&mut self, upload: &Upload) -> io::Result<()> {
        let Some(journal) = &mut self.journal else {
            return Ok(());
        };
        let (path, body) = journal.entry(upload);
        let target = journal.target().clone();
        let written = self.wait(target.store.put(&path, body))?;
        written.map(|_| ()).map_err(|error| refusal(&target, &error))
    }

    /// Waits until another part of so many bytes may be under way.
    fn make_room(&mut self, bytes: usize) -> io::Result<()> {
        while self.flying.len() >= MOST_FLYING
            || (!self.flying.is_empty() && self.flying_bytes + bytes > MOST_FLYING_BYTES)
        {
            self.land()?;
        }
        Ok(())
    }

    fn land_all(&mut self) -> io::Result<()> {
        while !self.flying.is_empty() {
            self.land()?;
        }
        Ok(())
    }

    /// Waits for the oldest part under way.
    fn land(&mut self) -> io::Result<()> {
        let Some(mut flying) = self.flying.pop_front() else {
            return Ok(());
        };
        match self.wait(async { (&mut flying.part).await? }) {
            Ok(stored) => {
                self.flying_bytes -= flying.bytes;
                stored.map_err(|error| refusal(&flying.target, &error))
            }
            // It is the caller who wants to stop: the part is waited for when the uploads are given up.
            Err(error) => {
                self.flying.push_front(flying);
                Err(error)
            }
        }
    }

    /// Completes uploads, many at a time. After a failure, or when the caller wants to stop, no other one begins, and
    /// those under way have a little time.
    fn complete(&self, held: &mut [HeldUpload]) -> io::Result<()> {
        let stop = &Cell::new(false);
        let all = stream::iter(held).for_each_concurrent(MOST_ENDING, |held| async move {
            if !stop.get() && !held.complete().await {
                stop.set(true);
            }
        });
        let mut all = pin!(all);
        let Err(error) = self.wait(all.as_mut()) else {
            return Ok(());
        };
        stop.set(true);
        let _ = self.runtime.block_on(async { timeout(FAREWELL, all).await });
        Err(error)
    }

    fn undo(&self, held: &mut [HeldUpload]) {
        self.clean_up(held.iter_mut().map(HeldUpload::undo));
    }

    /// Runs requests, many at a time, for as long as one of them succeeds every now and then.
    fn clean_up<F: Future<Output = bool>>(&self, requests: impl Iterator<Item = F>) {
        let mut requests = pin!(stream::iter(requests).buffer_unordered(MOST_ENDING));
        self.runtime.block_on(async {
            let mut end = Instant::now() + FAREWELL;
            while let Ok(Some(succeeded)) = timeout_at(end, requests.next()).await {
                if succeeded {
                    end = Instant::now() + FAREWELL;
                }
            }
        });
    }

    /// Aborts all uploads. Of those that the store does not hear of, its own rules for old uploads remove the parts.
    fn give_up(&mut self) {
        let flying = std::mem::take(&mut self.flying);
        let landed = async {
            for flying in &flying {
                flying.part.abort();
            }
            for flying in flying {
                // A part that lands after its upload was aborted would stay.
                let _ = flying.part.await;
            }
        };
        let _ = self.runtime.block_on(async { timeout(FAREWELL, landed).await });
        let held = std::mem::take(&mut self.held).into_iter();
        let uploads = held
            .map(|held| held.upload)
            .chain(std::mem::take(&mut self.given_up));
        self.clean_up(uploads.map(|upload| async move { upload.abort().await.is_ok() }));
    }
}

/// An object being uploaded, which appears with others.
pub struct HeldSink {
    shared: Arc<Mutex<Shared>>,
    target: Target,
    /// The URL, stored as a path because error messages take one.
    shown: PathBuf,
    tail: Tail,
    sizes: PartSizes,
    parts: usize,
    upload: Option<Upload>,
    process: u32,
    done: bool,
}

impl HeldSink {
    /// Adds bytes to the part that is not full, in memory while there is room.
    fn keep(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut shared = lock(&self.shared);
        if shared.waiting_bytes + bytes.len() <= MOST_WAITING_BYTES {
            shared.waiting_bytes += bytes.len();
            self.tail.push(bytes);
            return Ok(());
        }
        shared.waiting_bytes -= self.tail.in_memory();
        self.tail.spill(bytes).map_err(spill_error)
    }

    /// Sends what was kept as the next part.
    fn send(&mut self) -> io::Result<()> {
        let mut shared = lock(&self.shared);
        let upload = match &mut self.upload {
            Some(upload) => upload,
            none => none.insert(shared.begin(&self.target)?),
        };
        let bytes = self.tail.len();
        shared.make_room(bytes)?;
        shared.waiting_bytes -= self.tail.in_memory();
        let body = self.tail.take().map_err(spill_error)?;
        self.parts += 1;
        let part = shared.runtime.spawn(upload.put_part(PutPayload::from(body)));
        shared.flying_bytes += bytes;
        shared.flying.push_back(Flying {
            part,
            bytes,
            target: self.target.clone(),
        });
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        if self.tail.len() > 0 || self.upload.is_none() {
            self.send()?;
        }
        if let Some(upload) = self.upload.take() {
            lock(&self.shared).held.push(HeldUpload {
                upload,
                target: self.target.clone(),
                state: CompletionState::Waiting,
                refusal: None,
            });
        }
        Ok(())
    }
}

fn spill_error(source: io::Error) -> io::Error {
    io::Error::other(WriteError::Spill {
        directory: std::env::temp_dir(),
        source,
    })
}

impl Write for HeldSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.done {
            return Err(io::Error::other("the object is complete or was discarded"));
        }
        let room = self.sizes.of(self.parts) - self.tail.len();
        let taken = bytes.len().min(room);
        self.keep(&bytes[..taken])?;
        if taken == room {
            self.send()?;
        }
        Ok(taken)
    }

    /// Nothing: parts have a least size.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for HeldSink {
    fn unreadable(&self) -> Option<&'static str> {
        Some(UNREADABLE)
    }

    /// Ends the upload but for its completion, which [`HeldUploads::complete`] asks for.
    fn commit(&mut self) -> io::Result<()> {
        let ended = self.end();
        match ended {
            Ok(()) => self.done = true,
            Err(_) => self.discard(),
        }
        ended
    }

    /// Leaves the upload to be aborted with the others.
    fn discard(&mut self) {
        if self.done || self.process != std::process::id() {
            return;
        }
        self.done = true;
        let mut shared = lock(&self.shared);
        shared.waiting_bytes -= self.tail.in_memory();
        shared.given_up.extend(self.upload.take());
        self.tail = Tail::default();
    }

    fn path(&self) -> Option<&std::path::Path> {
        Some(&self.shown)
    }
}

impl Drop for HeldSink {
    fn drop(&mut self) {
        self.discard();
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use futures_util::TryStreamExt;
    use object_store::memory::InMemory;
    use object_store::multipart::{MultipartStore, PartId};
    use object_store::path::Path;
    use object_store::{MultipartId, ObjectStore, PutResult};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::scrub::Secrets;

    const KIB: usize = 1 << 10;

    fn uploads() -> HeldUploads {
        HeldUploads::new(|| Box::new(|| Ok(()))).unwrap()
    }

    fn target(store: &Arc<InMemory>, name: &str) -> Target {
        Target {
            store: Arc::<InMemory>::clone(store),
            path: Path::from(name),
            url: format!("s3://bucket/{name}"),
            secrets: Secrets::default(),
        }
    }

    fn objects(uploads: &HeldUploads, store: &InMemory) -> Vec<(String, Vec<u8>)> {
        let runtime = lock(&uploads.shared).runtime.clone();
        let found = runtime.block_on(async {
            let listed = store.list(None).try_collect::<Vec<_>>().await?;
            let mut found = Vec::new();
            for object in listed {
                let body = store.get(&object.location).await?.bytes().await?;
                found.push((object.location.to_string(), body.to_vec()));
            }
            Ok::<_, object_store::Error>(found)
        });
        found.unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.div_ceil(16), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn files_are_whole_when_they_appear_and_memory_is_shared(
            writes in vec((0..4_usize, any::<u8>(), 1..3 * 1024_usize), 1..40)
        ) {
            let (store, mut uploads) = (Arc::new(InMemory::new()), uploads());
            let mut sinks: Vec<_> =
                (0..4).map(|file| uploads.sink(target(&store, &format!("{file}")))).collect();
            let mut expected = vec![Vec::new(); 4];
            for (file, byte, kib) in writes {
                let bytes = vec![byte; kib * KIB];
                sinks[file].write_all(&bytes).unwrap();
                expected[file].extend(bytes);
                let shared = lock(&uploads.shared);
                let waiting = sinks.iter().map(|sink| sink.tail.in_memory()).sum::<usize>();
                prop_assert_eq!(shared.waiting_bytes, waiting);
                prop_assert!(shared.waiting_bytes <= MOST_WAITING_BYTES);
                prop_assert!(shared.flying_bytes <= MOST_FLYING_BYTES);
            }
            for sink in &mut sinks {
                sink.commit().unwrap();
            }
            prop_assert!(objects(&uploads, &store).is_empty());
            uploads.complete().unwrap();
            let expected: Vec<_> = (0..4).map(|file| format!("{file}")).zip(expected).collect();
            prop_assert_eq!(objects(&uploads, &store), expected);
            prop_assert_eq!(lock(&uploads.shared).waiting_bytes, 0);
        }
    }

    #[derive(Debug)]
    enum Completes {
        /// As Cloudflare R2 does: only uploads whose parts have one size, except for the last.
        PartsOfOneSize,
        /// None. A store that is given makes the object all the same: the response is lost.
        None { makes: Option<Arc<InMemory>> },
    }

    /// A store that completes some uploads only.
    #[derive(Debug)]
    struct Selective {
        completes: Completes,
        sizes: Mutex<Vec<usize>>,
    }

    impl Selective {
        fn new(completes: Completes) -> Arc<Self> {
            let sizes = Mutex::default();
            Arc::new(Self { completes, sizes })
        }
    }

    #[async_trait]
    impl MultipartStore for Selective {
        async fn create_multipart(&self, _: &Path) -> object_store::Result<MultipartId> {
            Ok("1".into())
        }

        async fn put_part(
            &self,
            _: &Path,
            _: &MultipartId,
            number: usize,
            body: PutPayload,
        ) -> object_store::Result<PartId> {
            let mut sizes = self.sizes.lock().unwrap();
            let count = sizes.len().max(number + 1);
            sizes.resize(count, 0);
            sizes[number] = body.content_length();
            Ok(PartId {
                content_id: String::new(),
            })
        }

        async fn complete_multipart(
            &self,
            path: &Path,
            _: &MultipartId,
            _: Vec<PartId>,
        ) -> object_store::Result<PutResult> {
            let sizes = self.sizes.lock().unwrap().clone();
            match &self.completes {
                Completes::PartsOfOneSize => {
                    let (last, others) = sizes.split_last().unwrap();
                    if others.iter().all(|size| *size == others[0] && size >= last) {
                        return InMemory::new().put(path, PutPayload::new()).await;
                    }
                }
                Completes::None { makes: Some(store) } => {
                    store.put(path, PutPayload::from_static(b"made")).await?;
                }
                Completes::None { makes: None } => {}
            }
            Err(object_store::Error::Generic {
                store: "test",
                source: format!("not completed, with parts of these sizes: {sizes:?}").into(),
            })
        }

        async fn abort_multipart(&self, _: &Path, _: &MultipartId) -> object_store::Result<()> {
            Ok(())
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.div_ceil(16), failure_persistence: None, ..ProptestConfig::default() })]

        /// As many parts as 20 GiB have at their full size.
        #[test]
        fn a_store_for_parts_of_one_size_completes_every_upload(
            writes in vec(1..5_000_usize, 1..30),
            others in 0..3_000_usize,
        ) {
            let (memory, mut uploads) = (Arc::new(InMemory::new()), uploads());
            let mut sink = uploads.sink(target(&memory, "a"));
            sink.sizes = PartSizes::small(64);
            let begun = PendingUpload { name: "a".into(), id: "1".into(), parts: Vec::new(), bytes: 0 };
            sink.upload = Some(Upload::resume(Selective::new(Completes::PartsOfOneSize), Path::from("a"), &begun));
            for size in writes.into_iter().chain([64 * others]) {
                sink.write_all(&vec![0; size]).unwrap();
            }
            sink.commit().unwrap();
            prop_assert!(uploads.complete().is_ok());
        }
    }

    fn with_refused(store: &Arc<InMemory>, is_made: bool) -> HeldUploads {
        let uploads = uploads();
        for name in ["a", "b"] {
            let mut sink = uploads.sink(target(store, name));
            sink.write_all(name.as_bytes()).unwrap();
            sink.commit().unwrap();
        }
        let makes = is_made.then(|| Arc::clone(store));
        let pending = PendingUpload {
            name: "c".into(),
            id: "1".into(),
            parts: vec![String::new()],
            bytes: 4,
        };
        lock(&uploads.shared).held.push(HeldUpload {
            upload: Upload::resume(
                Selective::new(Completes::None { makes }),
                Path::from("c"),
                &pending,
            ),
            target: target(store, "c"),
            state: CompletionState::Waiting,
            refusal: None,
        });
        uploads
    }

    #[test]
    fn a_completion_that_fails_takes_the_others_back() {
        let store = Arc::new(InMemory::new());
        let mut uploads = with_refused(&store, false);
        let incomplete = uploads.complete().unwrap_err();
        assert!(incomplete.error.to_string().contains("s3://bucket/c"));
        assert!(incomplete.left.is_empty());
        assert!(objects(&uploads, &store).is_empty());
    }

    #[test]
    fn a_completion_whose_answer_is_lost_is_good() {
        let store = Arc::new(InMemory::new());
        let mut uploads = with_refused(&store, true);
        uploads.complete().unwrap();
        assert_eq!(objects(&uploads, &store).len(), 3);
    }

    #[test]
    fn a_detached_upload_is_invisible_until_another_process_completes_it() {
        let (store, mut uploads) = (Arc::new(InMemory::new()), uploads());
        let journal = target(&store, "jobs/1");
        uploads = uploads.with_journal(journal, "folder".into());
        let mut sink = uploads.sink(target(&store, "folder/a"));
        sink.write_all(b"rows").unwrap();
        sink.commit().unwrap();
        let below = |path: &Path| path.as_ref().strip_prefix("folder/").map(ToOwned::to_owned);
        let pending = uploads.detach(below).unwrap();
        assert_eq!(pending.len(), 1);
        let (name, id) = ("folder/a".to_owned(), &pending[0].id);
        let noted = ("jobs/1/00000".to_owned(), format!("{id}\na").into_bytes());
        assert_eq!(objects(&uploads, &store), vec![noted.clone()]);
        let runtime = lock(&uploads.shared).runtime.clone();
        // Nothing aborts it when the process ends.
        drop(uploads);
        let resumed = Upload::resume(
            Arc::<InMemory>::clone(&store),
            Path::from("folder/a"),
            &pending[0],
        );
        for _ in 0..2 {
            runtime.block_on(resumed.complete(&*store)).unwrap();
        }
        let uploads = self::uploads();
        assert_eq!(objects(&uploads, &store), vec![(name, b"rows".to_vec()), noted]);
        runtime.block_on(resumed.delete(&*store)).unwrap();
        assert!(runtime.block_on(resumed.complete(&*store)).is_err());
    }
}
