//! Tables on the local disk, and a store of one that fails on demand.
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delta_commit::actions::{Action, Add, Metadata, Protocol, parse_commit};
use delta_commit::log::{
    BEFORE_FIRST, BodyDigest, Listing, LogStore, PutOutcome, StoreError, UnsyncedFile, VersionPresence,
};
use delta_commit::store::LocalLogStore;
use delta_commit::{Committer, MemberId, Start, Transaction, Version};

pub fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

pub fn start(version: Version) -> Start {
    Start {
        version,
        table_id: "t".to_owned(),
        changed_in: version,
        in_commit_timestamp: None,
        high_water_mark: None,
        digest: None,
        known: None,
    }
}

fn metadata() -> Action {
    Action::Metadata(Metadata {
        id: "t".to_owned(),
        schema_string: r#"{"type":"struct","fields":[]}"#.to_owned(),
        ..Metadata::default()
    })
}

/// A folder with a table of one version, and without files.
pub fn table() -> tempfile::TempDir {
    let table = tempfile::tempdir().unwrap();
    let committer = Committer::new(Arc::new(LocalLogStore::new(table.path())), start(BEFORE_FIRST));
    let creation = vec![Action::Protocol(Protocol::default()), metadata()];
    let creation = Transaction::append(MemberId::random(), BEFORE_FIRST, creation);
    assert_eq!(committer.commit(creation, soon()).unwrap(), 0);
    table
}

pub fn local(table: &Path) -> Committer {
    Committer::new(Arc::new(LocalLogStore::new(table)), start(0))
}

pub fn add(path: &str) -> Action {
    Action::Add(Add {
        path: path.to_owned(),
        size: 1,
        data_change: true,
        ..Add::default()
    })
}

pub fn append(path: &str) -> Transaction {
    Transaction::append(MemberId::random(), 0, vec![add(path)])
}

/// The version of each file that the log adds; none may be there twice.
pub fn adds(table: &Path) -> HashMap<String, Version> {
    let store = LocalLogStore::new(table);
    let mut found = HashMap::new();
    for version in 0..=store.find_tip().unwrap() {
        let body = store
            .read_version(version)
            .unwrap()
            .expect("the log is contiguous");
        for action in parse_commit(&body).unwrap() {
            if let Action::Add(add) = action {
                assert_eq!(found.insert(add.path, version), None);
            }
        }
    }
    found
}

pub type Put = dyn Fn(&LocalLogStore, Version, &[u8]) -> Result<PutOutcome, StoreError> + Send + Sync;
type Delete = dyn Fn(&LocalLogStore, &str) -> Result<(), StoreError> + Send + Sync;
type SyncData = dyn Fn(&LocalLogStore, &[UnsyncedFile]) -> Vec<Result<(), StoreError>> + Send + Sync;
type SyncLog = dyn Fn(&LocalLogStore, Version, Version) -> Result<(), StoreError> + Send + Sync;

/// A local store, with some calls replaced.
pub struct Failing {
    pub inner: LocalLogStore,
    pub put: Box<Put>,
    pub delete: Box<Delete>,
    pub sync_data: Box<SyncData>,
    pub sync_log: Box<SyncLog>,
}

impl Failing {
    pub fn new(table: &Path) -> Self {
        Self {
            inner: LocalLogStore::new(table),
            put: Box::new(LocalLogStore::put_version),
            delete: Box::new(LocalLogStore::delete_intent),
            sync_data: Box::new(LocalLogStore::sync_data),
            sync_log: Box::new(LocalLogStore::sync_log),
        }
    }

    pub fn committer(self) -> Committer {
        Committer::new(Arc::new(self), start(0))
    }
}

impl LogStore for Failing {
    fn find_tip(&self) -> Result<Version, StoreError> {
        self.inner.find_tip()
    }
    fn read_version(&self, version: Version) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.read_version(version)
    }
    fn put_version(&self, version: Version, body: &[u8]) -> Result<PutOutcome, StoreError> {
        (self.put)(&self.inner, version, body)
    }
    fn check_version(
        &self,
        version: Version,
        digest: Option<BodyDigest>,
    ) -> Result<VersionPresence, StoreError> {
        self.inner.check_version(version, digest)
    }
    fn remove_version(&self, version: Version) -> Result<(), StoreError> {
        self.inner.remove_version(version)
    }
    fn list_intents(&self) -> Result<Listing, StoreError> {
        self.inner.list_intents()
    }
    fn read_intent(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.read_intent(name)
    }
    fn put_intent(&self, name: &str, body: &[u8]) -> Result<(), StoreError> {
        self.inner.put_intent(name, body)
    }
    fn delete_intent(&self, name: &str) -> Result<(), StoreError> {
        (self.delete)(&self.inner, name)
    }
    fn sync_data(&self, files: &[UnsyncedFile]) -> Vec<Result<(), StoreError>> {
        (self.sync_data)(&self.inner, files)
    }
    fn sync_log(&self, first: Version, last: Version) -> Result<(), StoreError> {
        (self.sync_log)(&self.inner, first, last)
    }
}

/// A committer whose store creates versions by `put`.
pub fn failing(
    table: &Path,
    put: impl Fn(&LocalLogStore, Version, &[u8]) -> Result<PutOutcome, StoreError> + Send + Sync + 'static,
) -> Committer {
    let put = Box::new(put);
    let store = Failing::new(table);
    Failing { put, ..store }.committer()
}
