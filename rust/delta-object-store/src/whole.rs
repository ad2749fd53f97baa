//! Objects of the log beside its versions: checkpoints, and the hint that names the newest one.
//!
//! Each is sent once, in one request. A client that repeats a request for a minute may leave it in the log of another
//! table, which was made meanwhile.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use delta_commit::log::StoreError;
use object_sink::{Attend, Created, FailureKind, ObjectSink, RequestFailure};
use parquet_writer::sink::Sink;

use crate::objects::Clients;

/// The most bytes that are sent in one request. A larger object is uploaded in parts, which are sent again where an
/// answer was lost. Only the request that completes the upload makes it appear.
const MOST_AT_ONCE: usize = 32 << 20;

/// The treatment of an object that is there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    Keep,
    Replace,
}

/// A sink whose object appears whole.
pub(crate) struct WholeObject {
    clients: Arc<Clients>,
    name: String,
    shown: PathBuf,
    existing: Existing,
    body: Vec<u8>,
    upload: Option<ObjectSink>,
    attend: fn() -> Attend,
}

impl WholeObject {
    /// `attend` is called while a large object is uploaded.
    pub fn new(clients: Arc<Clients>, name: &str, existing: Existing, attend: fn() -> Attend) -> Self {
        Self {
            shown: PathBuf::from(format!("{}/{name}", clients.url())),
            clients,
            name: name.to_owned(),
            existing,
            body: Vec::new(),
            upload: None,
            attend,
        }
    }

    fn send(&self) -> io::Result<()> {
        let folder = self.clients.folder().map_err(unopened)?;
        if self.existing == Existing::Replace {
            return folder.write_once(&self.name, &self.body).map_err(failed);
        }
        match folder.create(&self.name, &self.body).map_err(failed)? {
            Created::Won(_) => Ok(()),
            Created::Exists => Err(io::ErrorKind::AlreadyExists.into()),
            Created::Unknown(failure) => Err(failed(failure)),
        }
    }
}

fn unopened(error: StoreError) -> io::Error {
    io::Error::other(error.message)
}

fn failed(failure: RequestFailure) -> io::Error {
    let kind = match failure.kind {
        FailureKind::Missing => io::ErrorKind::NotFound,
        FailureKind::Denied => io::ErrorKind::PermissionDenied,
        FailureKind::Refused | FailureKind::Throttled | FailureKind::Lost => io::ErrorKind::Other,
    };
    io::Error::new(kind, failure.message)
}

impl Write for WholeObject {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(upload) = &mut self.upload {
            return upload.write(bytes);
        }
        if self.body.len() + bytes.len() > MOST_AT_ONCE {
            let folder = self.clients.folder().map_err(unopened)?;
            let upload = ObjectSink::new(folder.target(&self.name)?, (self.attend)());
            let mut upload = upload.map_err(io::Error::other)?;
            upload.write_all(&std::mem::take(&mut self.body))?;
            return self.upload.insert(upload).write(bytes);
        }
        self.body.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for WholeObject {
    fn commit(&mut self) -> io::Result<()> {
        match &mut self.upload {
            Some(upload) => upload.commit(),
            None => self.send(),
        }
    }

    fn discard(&mut self) {
        self.body = Vec::new();
        if let Some(upload) = &mut self.upload {
            upload.discard();
        }
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.shown)
    }
}
