//! A snapshot: the state of a table at one version, from its log read in order.

use std::collections::BTreeMap;
use std::ops::{Bound, Deref};
use std::sync::Arc;

use delta_commit::actions::{Action, Add, DeletionVector, Remove, Txn};
use delta_commit::{Version, path};

use crate::checkpoint;
use crate::error::Result;
use crate::head::{HeadReplay, TableHead};
use crate::log_dir::{LogDir, Replaying};

/// A table at one version: its head, and its files.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(crate) head: Arc<TableHead>,
    /// Its files and the rest of the state that versions add up to.
    pub contents: Contents,
}

impl Deref for Snapshot {
    type Target = TableHead;

    fn deref(&self) -> &TableHead {
        &self.head
    }
}

/// The state that the actions of all versions add up to, but for the head.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// Files in the table, by path, in [`normal`](path::normal) form, and deletion vector.
    pub files: BTreeMap<String, Arc<Add>>,
    /// Files that left it.
    pub tombstones: BTreeMap<String, Arc<Remove>>,
    /// The last transaction version of each application.
    pub transactions: BTreeMap<String, Txn>,
}

/// The key of a file's entry: its path and its deletion vector. Whoever removes a file may spell its path in another
/// way than whoever added it.
pub(crate) fn key(path: &str, vector: Option<&DeletionVector>) -> String {
    let path = path::normal(path);
    match vector {
        None => path.into_owned(),
        Some(vector) => format!("{path}\0{}", vector.unique_id()),
    }
}

/// Returns true if there is an entry of this name in the table's folder, whatever its deletion vector is.
fn has_name<T>(entries: &BTreeMap<String, T>, name: &str) -> bool {
    fn path_of(key: &str) -> &str {
        key.split('\0').next().unwrap_or_default()
    }
    let mut of_it = entries.range::<str, _>((Bound::Included(name), Bound::Unbounded));
    if of_it.next().is_some_and(|(key, _)| path_of(key) == name) {
        return true;
    }
    // The next character after a slash.
    let mut absolute = entries.range::<str, _>((Bound::Included("/"), Bound::Excluded("0")));
    absolute.any(|(key, _)| path::names_of(path_of(key)).any(|end| end == name))
}

impl Contents {
    /// Returns true if it has this very entry: the file, with the same deletion vector.
    pub(crate) fn has(&self, add: &Add) -> bool {
        self.files
            .contains_key(&key(&add.path, add.deletion_vector.as_ref()))
    }

    /// Returns true if the file of this name is in the table, under any spelling of its path.
    pub(crate) fn holds(&self, name: &str) -> bool {
        has_name(&self.files, name)
    }

    /// Returns true if the file of this name is in the table, or was in a version of it, under any spelling of its
    /// path.
    pub(crate) fn knows(&self, name: &str) -> bool {
        has_name(&self.files, name) || has_name(&self.tombstones, name)
    }

    /// Returns true if it says of this entry that it is in the table or left it.
    pub(crate) fn states(&self, key: &str) -> bool {
        self.files.contains_key(key) || self.tombstones.contains_key(key)
    }

    fn apply(&mut self, action: Action) {
        match action {
            Action::Add(add) => {
                let key = key(&add.path, add.deletion_vector.as_ref());
                self.tombstones.remove(&key);
                self.files.insert(key, Arc::new(add));
            }
            Action::Remove(remove) => {
                let key = key(&remove.path, remove.deletion_vector.as_ref());
                self.files.remove(&key);
                self.tombstones.insert(key, Arc::new(remove));
            }
            Action::Txn(txn) => {
                self.transactions.insert(txn.app_id.clone(), txn);
            }
            Action::CommitInfo(_)
            | Action::Protocol(_)
            | Action::Metadata(_)
            | Action::Cdc(_)
            | Action::DomainMetadata(_) => {}
        }
    }
}

/// The replay of whole versions, from a checkpoint or from the first version on.
#[derive(Debug)]
pub(crate) struct Replay {
    head: HeadReplay,
    contents: Contents,
}

impl Replay {
    fn take(&mut self, actions: Vec<Action>) {
        for action in ordered(actions) {
            if let Some(other) = self.head.take(action) {
                self.contents.apply(other);
            }
        }
    }

    /// Applies actions of a checkpoint's file. `changed_in` is the last version that changed metadata or protocol.
    pub(crate) fn take_checkpoint(&mut self, version: Version, changed_in: Version, actions: Vec<Action>) {
        self.head.begin(version);
        self.take(actions);
        self.head.set_changed_in(changed_in);
    }

    /// Applies the actions of the next version.
    pub(crate) fn take_version(&mut self, version: Version, actions: Vec<Action>) {
        self.head.begin(version);
        self.take(actions);
    }

    /// Forgets the statistics of all files, those that left the table included.
    pub(crate) fn drop_statistics(&mut self) {
        for add in self.contents.files.values_mut() {
            if add.stats.is_some() {
                Arc::make_mut(add).stats = None;
            }
        }
        for remove in self.contents.tombstones.values_mut() {
            if remove.stats.is_some() {
                Arc::make_mut(remove).stats = None;
            }
        }
    }
}

impl Replaying for Replay {
    type Done = Snapshot;

    const READ_AGAIN: bool = false;

    fn new() -> Self {
        Self {
            head: HeadReplay::new(),
            contents: Contents::default(),
        }
    }

    fn version(&self) -> Version {
        self.head.version()
    }

    fn has_head(&self) -> bool {
        self.head.is_whole()
    }

    fn checkpoint(&mut self, log: &LogDir, name: &str, version: Version, changed_in: Version) -> Result<()> {
        self.take_checkpoint(version, changed_in, checkpoint::read(log, name)?);
        Ok(())
    }

    fn commit(&mut self, log: &LogDir, version: Version, body: &[u8]) -> Result<()> {
        self.take_version(version, log.parse(version, body)?);
        Ok(())
    }

    fn finish(self) -> Result<Snapshot> {
        Ok(Snapshot {
            head: Arc::new(self.head.finish()?),
            contents: self.contents,
        })
    }
}

/// Orders removals first. A version that replaces a file under its own path keeps the new entry.
fn ordered(mut actions: Vec<Action>) -> Vec<Action> {
    actions.sort_by_key(|action| !matches!(action, Action::Remove(_)));
    actions
}

impl Snapshot {
    /// A table without files.
    pub(crate) fn empty(head: Arc<TableHead>) -> Self {
        Self {
            head,
            contents: Contents::default(),
        }
    }

    /// The same table one version later.
    pub(crate) fn advance(&mut self, version: Version, actions: Vec<Action>) -> Result<()> {
        let rest = Arc::make_mut(&mut self.head).advance(version, actions)?;
        for action in ordered(rest) {
            self.contents.apply(action);
        }
        Ok(())
    }

    /// The files in the table.
    pub fn files(&self) -> impl Iterator<Item = &Arc<Add>> {
        self.contents.files.values()
    }

    /// The paths of files that are in the table, or that left it and may be read in older versions.
    pub fn known_paths(&self) -> impl Iterator<Item = &str> {
        let present = self.contents.files.values().map(|add| add.path.as_str());
        let gone = self
            .contents
            .tombstones
            .values()
            .map(|remove| remove.path.as_str());
        present.chain(gone)
    }

    /// The last transaction version of an application.
    #[must_use]
    pub fn transaction_version(&self, app_id: &str) -> Option<i64> {
        self.contents.transactions.get(app_id).map(|txn| txn.version)
    }
}
