//! The upload itself.

use std::collections::VecDeque;
use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use object_store::{ObjectStoreExt, PutPayload};
use parquet_writer::sink::Sink;
use parquet_writer::{WriteError, WriterOptions};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::parts::PartSizes;
use crate::runtime;
use crate::target::Target;
use crate::upload::Upload;

/// Parts under way at once.
const MOST_FLYING: usize = 2;
/// The time between two calls of the caller's check.
const ATTEND_EVERY: Duration = Duration::from_millis(50);
/// The longest time to wait while uploads are aborted.
pub(crate) const FAREWELL: Duration = Duration::from_secs(10);

/// The reason why an upload is not read back, and what to do.
pub(crate) const UNREADABLE: &str = "an upload cannot be read before it is complete, and readers see it from then on. \
                                     Write to a local path, or append to a Delta table, which names its files later";

/// Refuses options that ask for files to be read back, before any request is made.
///
/// # Errors
/// [`WriteError::Option`] says why uploads are not read back.
pub fn refuse_reading_back(options: &WriterOptions) -> Result<(), WriteError> {
    match options.verify() {
        None => Ok(()),
        Some(_) => Err(WriteError::option(
            "verify",
            format!("verify is not accepted here: {UNREADABLE}"),
        )),
    }
}

/// A check that is called during every wait. Its error ends the wait.
pub type Attend = Box<dyn Fn() -> io::Result<()> + Send>;

/// The refusal of an object by a store. Its kind is that of the [`io::Error`] around it.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub(crate) message: String,
}

/// An object being uploaded. At most three parts are in memory: one that fills up and two under way.
pub struct ObjectSink {
    target: Target,
    /// The URL, stored as a path because error messages take one.
    shown: PathBuf,
    attend: Attend,
    runtime: Handle,
    buffer: Vec<u8>,
    sizes: PartSizes,
    parts: usize,
    upload: Option<Upload>,
    flying: VecDeque<JoinHandle<object_store::Result<()>>>,
    process: u32,
    done: bool,
}

impl ObjectSink {
    /// A sink for one object; no request is made before the first part is full or the file complete.
    ///
    /// # Errors
    /// When the threads that drive requests cannot be started.
    pub fn new(target: Target, attend: Attend) -> io::Result<Self> {
        Ok(Self {
            shown: PathBuf::from(&target.url),
            target,
            attend,
            runtime: runtime::handle()?,
            buffer: Vec::new(),
            sizes: PartSizes::default(),
            parts: 0,
            upload: None,
            flying: VecDeque::new(),
            process: std::process::id(),
            done: false,
        })
    }

    /// Asks the store if the object exists already.
    ///
    /// # Errors
    /// When the store refuses, or does not answer.
    pub fn is_there(&self) -> io::Result<bool> {
        match self.wait(self.target.store.head(&self.target.path)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits for a request, and calls `attend` meanwhile.
    fn wait<T>(&self, request: impl Future<Output = object_store::Result<T>>) -> io::Result<T> {
        wait(&self.runtime, &*self.attend, request)?.map_err(|error| self.target.refusal(&error))
    }

    fn begin(&mut self) -> io::Result<()> {
        let store = Arc::clone(&self.target.store);
        let request = Upload::begin(store, self.target.path.clone());
        match begin(&self.runtime, &*self.attend, &self.target, request) {
            Ok(upload) => {
                self.upload = Some(upload);
                Ok(())
            }
            Err(Unbegun { error, upload }) => {
                self.upload = upload;
                Err(error)
            }
        }
    }

    /// Sends the buffer as the next part, after waiting until another part may be under way.
    fn send(&mut self) -> io::Result<()> {
        if self.upload.is_none() {
            self.begin()?;
        }
        while self.flying.len() >= MOST_FLYING {
            self.land()?;
        }
        let Some(upload) = &mut self.upload else {
            return Ok(());
        };
        self.parts += 1;
        let next = Vec::with_capacity(self.sizes.of(self.parts));
        let part = upload.put_part(PutPayload::from(std::mem::replace(&mut self.buffer, next)));
        self.flying.push_back(self.runtime.spawn(part));
        Ok(())
    }

    /// Waits for the oldest part under way.
    fn land(&mut self) -> io::Result<()> {
        let Some(mut part) = self.flying.pop_front() else {
            return Ok(());
        };
        let landed = self.wait(async { (&mut part).await? });
        if landed.is_err() && !part.is_finished() {
            // It is the caller who wants to stop: the part is waited for when the upload is given up.
            self.flying.push_front(part);
        }
        landed
    }

    fn upload(&mut self) -> io::Result<()> {
        if self.upload.is_none() {
            let payload = PutPayload::from(std::mem::take(&mut self.buffer));
            return self
                .wait(self.target.store.put(&self.target.path, payload))
                .map(|_| ());
        }
        if !self.buffer.is_empty() {
            self.send()?;
        }
        while !self.flying.is_empty() {
            self.land()?;
        }
        match &self.upload {
            Some(upload) => self.wait(upload.replace(&*self.target.store)),
            None => Ok(()),
        }
    }
}

/// Waits for a request, and calls `attend` meanwhile, whose error ends the wait.
pub(crate) fn wait<T>(
    runtime: &Handle,
    attend: &dyn Fn() -> io::Result<()>,
    request: impl Future<Output = T>,
) -> io::Result<T> {
    let mut request = pin!(request);
    loop {
        let within = runtime.block_on(async { timeout(ATTEND_EVERY, request.as_mut()).await });
        match within {
            Ok(done) => return Ok(done),
            Err(_) => attend()?,
        }
    }
}

/// An upload that could not be begun, or that nobody waited for.
pub(crate) struct Unbegun<U> {
    pub error: io::Error,
    /// The upload, where the store began it all the same: it has to be aborted.
    pub upload: Option<U>,
}

/// Waits for a request that begins an upload.
pub(crate) fn begin<U: Send + 'static>(
    runtime: &Handle,
    attend: &dyn Fn() -> io::Result<()>,
    target: &Target,
    request: impl Future<Output = object_store::Result<U>> + Send + 'static,
) -> Result<U, Unbegun<U>> {
    let mut begun = runtime.spawn(request);
    match wait(runtime, attend, async { (&mut begun).await? }) {
        Ok(done) => done.map_err(|error| Unbegun {
            error: target.refusal(&error),
            upload: None,
        }),
        // It is the caller who wants to stop.
        Err(error) => {
            let begun = runtime.block_on(async { timeout(FAREWELL, begun).await });
            Err(Unbegun {
                error,
                upload: begun.ok().and_then(Result::ok).and_then(Result::ok),
            })
        }
    }
}

impl Target {
    /// The error of a request about the object.
    pub(crate) fn refusal(&self, error: &object_store::Error) -> io::Error {
        use object_store::Error::{NotFound, PermissionDenied, Unauthenticated};
        let kind = match error {
            NotFound { .. } => io::ErrorKind::NotFound,
            PermissionDenied { .. } | Unauthenticated { .. } => io::ErrorKind::PermissionDenied,
            _ => io::ErrorKind::Other,
        };
        let message = self.secrets.scrub(&with_cause(error));
        io::Error::new(kind, Refusal { message })
    }
}

/// The error's text with that of its deepest cause, the error of the network.
pub(crate) fn with_cause(error: &object_store::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause.and_then(Error::source) {
        cause = Some(deeper);
    }
    let deepest = cause.map(ToString::to_string).unwrap_or_default();
    if !text.contains(&deepest) {
        text.push_str(": ");
        text.push_str(&deepest);
    }
    text
}

impl Write for ObjectSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.done {
            return Err(io::Error::other("the object is complete or was discarded"));
        }
        let room = self.sizes.of(self.parts) - self.buffer.len();
        let taken = bytes.len().min(room);
        self.buffer.extend_from_slice(&bytes[..taken]);
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

impl Sink for ObjectSink {
    fn unreadable(&self) -> Option<&'static str> {
        Some(UNREADABLE)
    }

    fn commit(&mut self) -> io::Result<()> {
        let uploaded = self.upload();
        match uploaded {
            Ok(()) => self.done = true,
            Err(_) => self.discard(),
        }
        uploaded
    }

    /// Aborts the upload. If the store does not get the request, its own rules for old uploads remove the parts.
    fn discard(&mut self) {
        if self.done || self.process != std::process::id() {
            return;
        }
        self.done = true;
        self.buffer = Vec::new();
        let Some(upload) = self.upload.take() else {
            return;
        };
        let flying = std::mem::take(&mut self.flying);
        let farewell = async {
            for part in flying {
                part.abort();
                // A part that lands after the upload was aborted would stay.
                let _ = part.await;
            }
            upload.abort().await
        };
        let _ = self.runtime.block_on(async { timeout(FAREWELL, farewell).await });
    }

    fn path(&self) -> Option<&std::path::Path> {
        Some(&self.shown)
    }
}

impl Drop for ObjectSink {
    fn drop(&mut self) {
        self.discard();
    }
}
