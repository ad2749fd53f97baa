//! Transactions that remove files: deletion, truncation, restore, and commits of the caller's own.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use delta_commit::actions::{Action, Add, Metadata, Remove};
use delta_commit::clustering::without_statistics;
use delta_commit::log::BEFORE_FIRST;
use delta_commit::predicate::Predicate;
use delta_commit::{CommitError, MemberId, Operation, Transaction, Version, WaitLimit, path};
use serde_json::Value;

use crate::clock::now;
use crate::clustering;
use crate::conditions::Conditions;
use crate::constraints;
use crate::create::{check_in_commit_timestamps, with_all_of};
use crate::deletion_vectors;
use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::row_ids;
use crate::scan::{Question, constant};
use crate::snapshot::Snapshot;
use crate::table::{Table, or_late, patient};

/// Up to this many files are looked up one by one, whatever a listing would take.
const FEW: usize = 32;

/// Names in one page of a listing. To request a page takes as long as to look up one file.
const NAMES_OF_A_PAGE: usize = 1000;

/// The part of the table that a transaction read.
#[derive(Debug, Clone, Default)]
pub struct DeclaredReads {
    /// The version that was read. The default is the last version that the handle was pinned to.
    pub version: Option<Version>,
    /// Everything.
    pub whole_table: bool,
    /// These files, as in `add.path`.
    pub files: Vec<String>,
    /// Rows for which these hold.
    pub conditions: Conditions,
}

impl DeclaredReads {
    fn is_nothing(&self) -> bool {
        self.version.is_none() && !self.whole_table && self.files.is_empty() && self.conditions.is_empty()
    }
}

/// Adds the removals of files, and the predicate that they were read by.
pub(crate) fn remove_chosen(transaction: &mut Transaction, predicate: Predicate, files: &[Arc<Add>]) {
    transaction
        .reads
        .files
        .extend(files.iter().map(|add| add.normal_path().into_owned()));
    transaction.reads.predicates.push(predicate);
    let at = now();
    let removals = files.iter().map(|add| Action::Remove(Remove::of(add, at, true)));
    transaction.actions.extend(removals);
}

pub(crate) fn begin(head: &TableHead, operation: Operation) -> Result<Transaction> {
    let mut transaction = Transaction::append(MemberId::random(), head.version, Vec::new());
    transaction.isolation = head.isolation()?;
    transaction.operation = operation;
    Ok(transaction)
}

impl Table {
    /// Removes all rows for which the conditions hold. They may name partition columns alone.
    ///
    /// # Errors
    /// [`TableError::Option`] when whole files cannot answer the conditions; a conflict when a concurrent transaction
    /// added or removed files that they choose.
    pub fn delete(&self, conditions: &Conditions, wait: &mut WaitLimit<'_>) -> Result<Version> {
        let snapshot = self
            .removable("delete_partition()")
            .map_err(|error| or_late(error, wait))?;
        let choice = Question::of_files(&snapshot, conditions, "where")?;
        let mut operation = Operation::new("DELETE");
        operation
            .parameters
            .insert("predicate".to_owned(), conditions.describe());
        self.remove(&snapshot, &choice, operation, wait)
    }

    /// Removes all rows.
    ///
    /// # Errors
    /// As [`delete`](Self::delete).
    pub fn truncate(&self, wait: &mut WaitLimit<'_>) -> Result<Version> {
        let snapshot = self
            .removable("truncate()")
            .map_err(|error| or_late(error, wait))?;
        self.remove(&snapshot, &Question::default(), Operation::new("TRUNCATE"), wait)
    }

    /// The newest version with its files, for an operation that changes rows.
    pub(crate) fn writable(&self) -> Result<Arc<Snapshot>> {
        let shared = self.shared()?;
        let snapshot = shared.snapshot(&mut shared.looking())?;
        snapshot.check_writable()?;
        Ok(snapshot)
    }

    fn removable(&self, what: &'static str) -> Result<Arc<Snapshot>> {
        let snapshot = self.writable()?;
        snapshot.check_removable(what)?;
        Ok(snapshot)
    }

    fn remove(
        &self,
        snapshot: &Snapshot,
        choice: &Question,
        mut operation: Operation,
        wait: &mut WaitLimit<'_>,
    ) -> Result<Version> {
        let files = choice.files(snapshot)?;
        operation
            .metrics
            .insert("numRemovedFiles".to_owned(), files.len().to_string());
        let mut transaction = begin(snapshot, operation)?;
        remove_chosen(&mut transaction, choice.predicate(), &files);
        self.shared()?.commit(transaction, wait)
    }

    /// Restores the state of an older version, as a new version.
    ///
    /// # Errors
    /// [`TableError::NoSuchVersion`] when the version, a data file of it or a deletion vector is gone.
    pub fn restore(&self, version: Version, wait: &mut WaitLimit<'_>) -> Result<Version> {
        let snapshot = self
            .removable("restore()")
            .map_err(|error| or_late(error, wait))?;
        let target = self.snapshot_at(version).map_err(|error| or_late(error, wait))?;
        // The version may be older than what is refused above.
        target.check_writable()?;
        clustering::check_partitions(&snapshot, &target.metadata, "restore()")?;
        target.check_mapping_of(&snapshot)?;
        let columns = target.stored_clustering()?;
        let (now, before) = (&snapshot.contents.files, &target.contents.files);
        let returning: Vec<&Arc<Add>> = before
            .iter()
            .filter(|(key, _)| !now.contains_key(*key))
            .map(|(_, add)| add)
            .collect();
        let leaving: Vec<&Arc<Add>> = now
            .iter()
            .filter(|(key, _)| !before.contains_key(*key))
            .map(|(_, add)| add)
            .collect();
        let known = now.len() + returning.len();
        self.check_there(version, &returning, known, wait)
            .map_err(|error| or_late(error, wait))?;
        let mut operation = Operation::new("RESTORE");
        operation.parameters = [("version".to_owned(), version.to_string())].into();
        operation.metrics = [
            ("numRestoredFiles".to_owned(), returning.len().to_string()),
            ("numRemovedFiles".to_owned(), leaving.len().to_string()),
        ]
        .into();
        check_in_commit_timestamps(&snapshot, &target.metadata)?;
        row_ids::check_restored(&snapshot, &target)?;
        row_ids::check_returning(&snapshot, version, &returning)?;
        let mut transaction = begin(&snapshot, operation)?;
        transaction.reads.whole_table = true;
        transaction.actions = restoring(&snapshot, &target, &returning, &leaving)?;
        if snapshot.is_clustered() {
            // Also where they are those of before, so that a concurrent change of them is a conflict.
            transaction.actions.push(clustering::action(&columns));
        }
        self.shared()?.commit(transaction, wait)
    }

    /// Refuses files of an older version that are gone. The table's folder has at least `known` files.
    fn check_there(
        &self,
        version: Version,
        files: &[&Arc<Add>],
        known: usize,
        wait: &mut WaitLimit<'_>,
    ) -> Result<()> {
        let mut named = Vec::new();
        for add in files {
            named.push(("data file", path::decode_inside(&add.path)?));
            if let Some(vector) = &add.deletion_vector
                && let Some(file) = deletion_vectors::file_of(self.root(), vector)?
            {
                named.push(("deletion vector", file));
            }
        }
        let is_listed = named.len() > FEW + known / NAMES_OF_A_PAGE;
        let stored = if is_listed {
            self.storage.walk(&|_| true)?
        } else {
            None
        };
        let stored = stored.into_iter().flat_map(|stored| stored.files);
        let there: HashSet<String> = stored.map(|file| file.name).collect();
        let mut in_time = patient(wait);
        for (what, file) in named {
            in_time()?;
            // A listing does not enter links.
            if !there.contains(&*file) && !self.storage.has(&file)? {
                return Err(TableError::NoSuchVersion(format!(
                    "version {version} cannot be restored: its {what} {file:?} is gone"
                )));
            }
        }
        Ok(())
    }

    /// Commits files that the caller wrote, and removals of files, as one transaction.
    ///
    /// A transaction that read or removes something is checked against every version after [`DeclaredReads::version`].
    ///
    /// # Errors
    /// [`TableError::Option`] when a removed file is not in the table, or an added one has a null in a column that
    /// allows none; [`TableError::Constraint`] when a row of it breaks a constraint; [`TableError::NoSuchVersion`] when
    /// the version that was read is not there; a conflict when a concurrent transaction changed what was read or is
    /// removed.
    pub fn commit(
        &self,
        adds: Vec<Add>,
        removes: &[String],
        read: &DeclaredReads,
        operation: Operation,
        wait: &mut WaitLimit<'_>,
    ) -> Result<Version> {
        let shared = self.shared()?;
        let snapshot = if adds.is_empty() && removes.is_empty() {
            None
        } else {
            Some(self.snapshot_in_time(wait)?)
        };
        let head = if let Some(snapshot) = &snapshot {
            Arc::clone(&snapshot.head)
        } else {
            let head = shared.refresh(&mut patient(wait));
            head.map_err(|error| or_late(error, wait))?
        };
        head.check_writable()?;
        if !adds.is_empty() {
            head.check_unmapped("commit(adds=...)")?;
        }
        let data_change = adds.is_empty() || adds.iter().any(|add| add.data_change);
        if !removes.is_empty() && data_change {
            head.check_removable("commit(removes=...) that changes rows")?;
            if !adds.is_empty() {
                head.check_replaceable()?;
            }
        }
        let mut transaction = begin(&head, operation)?;
        transaction.operation.loses_row_ids = !(adds.is_empty() || removes.is_empty());
        if !(read.is_nothing() && removes.is_empty()) {
            transaction.read_version = self.read_version(read, &head)?;
        }
        transaction.reads.whole_table = read.whole_table;
        let read_files = read.files.iter().map(|path| path::normal(path).into_owned());
        transaction.reads.files = read_files.collect();
        if !read.conditions.is_empty() {
            let question = Question::of(&head, &read.conditions, "where")?;
            transaction.reads.predicates.push(question.predicate());
            let read = self.snapshot_read(transaction.read_version, snapshot.as_ref(), wait)?;
            transaction.reads.candidates = Some(candidates(&question, &head, &read)?);
        }
        transaction.unsynced = adds.iter().map(|add| add.path.clone()).collect();
        check_paths(&adds)?;
        check_adds(&adds, &head)?;
        if let Some(snapshot) = &snapshot {
            check_absent(&adds, removes, snapshot)?;
        }
        row_ids::check_added(&head, &adds)?;
        constraints::check_nulls(&shared.storage, &head, &adds, &mut patient(wait))?;
        constraints::check_files(&shared.storage, &head, &adds, &mut patient(wait))?;
        if let Some(snapshot) = snapshot.filter(|_| !removes.is_empty()) {
            let files = self.files_at(&snapshot, transaction.read_version, removes)?;
            transaction.actions = removals(&files, data_change);
        }
        transaction.actions.extend(adds.into_iter().map(Action::Add));
        shared.commit(transaction, wait)
    }

    /// The version that a transaction read, with its files. `newest` is the newest one, if that is loaded.
    fn snapshot_read(
        &self,
        version: Version,
        newest: Option<&Arc<Snapshot>>,
        wait: &mut WaitLimit<'_>,
    ) -> Result<Arc<Snapshot>> {
        let newest = match newest {
            Some(newest) => Arc::clone(newest),
            None => self.snapshot_in_time(wait)?,
        };
        if newest.version == version {
            return Ok(newest);
        }
        Ok(Arc::new(self.snapshot_at(version)?))
    }

    fn read_version(&self, read: &DeclaredReads, newest: &TableHead) -> Result<Version> {
        let version = read.version.unwrap_or_else(|| self.seen());
        if version <= BEFORE_FIRST || version > newest.version {
            return Err(TableError::NoSuchVersion(format!(
                "version {version} cannot have been read: the table has versions 0 to {}",
                newest.version
            )));
        }
        Ok(version)
    }

    /// The files with these paths. Files that are gone by now, but existed when they were read, are left to the
    /// committer's check.
    fn files_at(&self, newest: &Snapshot, read: Version, paths: &[String]) -> Result<Vec<Arc<Add>>> {
        let missing = match find(newest, paths) {
            Err(missing) if read < newest.version => missing,
            found => return found.map_err(|path| not_there(&path, newest)),
        };
        let before = self.snapshot_at(read)?;
        find(&before, paths).map_err(|_| not_there(&missing, newest))
    }
}

/// Paths of the files of a snapshot that may hold rows for which the conditions hold.
fn candidates(question: &Question, head: &TableHead, read: &Snapshot) -> Result<BTreeSet<String>> {
    // The conditions are bound to the newest metadata. With another one any file may match; the committer finds the
    // version that changed it.
    let files = if read.metadata == head.metadata {
        question.files(read)?
    } else {
        read.files().cloned().collect()
    };
    Ok(files.iter().map(|add| add.normal_path().into_owned()).collect())
}

fn restoring(
    snapshot: &Snapshot,
    target: &Snapshot,
    returning: &[&Arc<Add>],
    leaving: &[&Arc<Add>],
) -> Result<Vec<Action>> {
    let at = now();
    let mut actions = Vec::with_capacity(returning.len() + leaving.len() + 2);
    // Features may have been dropped since: without them, readers would not look at deletion vectors that return.
    let protocol = with_all_of(&snapshot.protocol, &target.protocol)?;
    if protocol != snapshot.protocol {
        actions.push(Action::Protocol(protocol));
    }
    let mut metadata = Metadata {
        id: snapshot.metadata.id.clone(),
        ..target.metadata.as_ref().clone()
    };
    row_ids::keep_names(snapshot, &mut metadata);
    // An id is never given twice, also where the column that has it is gone.
    target.mapping.keep_highest(&mut metadata, snapshot);
    if metadata != *snapshot.metadata {
        actions.push(Action::Metadata(metadata));
    }
    actions.extend(returning.iter().map(|add| {
        Action::Add(Add {
            data_change: true,
            ..add.as_ref().clone()
        })
    }));
    actions.extend(
        leaving
            .iter()
            .map(|add| Action::Remove(Remove::of(add, at, true))),
    );
    Ok(actions)
}

/// Checks that the path of every file is a relative URI reference, which stays in the table and names a file there for
/// every reader.
fn check_paths(adds: &[Add]) -> Result<()> {
    for add in adds {
        let refused = |why: String| TableError::option("adds", format!("the path {:?} {why}", add.path));
        let reference = path::as_reference(&add.path);
        if reference != add.path {
            return Err(refused(format!(
                "is no URI reference, so that Spark could not read the table: give {reference:?}, which is its encoded \
                 form"
            )));
        }
        let decoded = path::decode_inside(&add.path);
        let decoded = decoded.map_err(|error| TableError::option("adds", error.to_string()))?;
        if decoded.split('/').any(|part| part.is_empty() || part == ".") {
            return Err(refused(
                "has an empty segment or \".\", which readers resolve differently: leave it out".to_owned(),
            ));
        }
    }
    Ok(())
}

/// Refuses statistics that other readers cannot parse, such as a `numRecords` that is a text: they would read nothing
/// of the table.
fn check_counts(add: &Add) -> Result<()> {
    fn is_count(value: &Value) -> bool {
        match value {
            Value::Object(nested) => nested.values().all(is_count),
            Value::Null => true,
            number => number.as_i64().is_some_and(|count| count >= 0),
        }
    }
    let Some(text) = &add.stats else { return Ok(()) };
    let stats: Value = serde_json::from_str(text).unwrap_or(Value::Bool(false));
    let strange = match &stats {
        Value::Object(sections) => ["numRecords", "nullCount"]
            .into_iter()
            .find(|name| sections.get(*name).is_some_and(|value| !is_count(value))),
        _ => Some("stats"),
    };
    match strange {
        None => Ok(()),
        Some(name) => Err(TableError::option(
            "adds",
            format!(
                "the file {:?} has statistics whose {name} has the wrong form: numRecords is a number of rows, and \
                 nullCount has one for each column",
                add.path
            ),
        )),
    }
}

/// Refuses files that are in the table, under any spelling of their paths and with any deletion vector, unless they are
/// removed: readers would find the rows of such a file twice, or those that its vector marks.
fn check_absent(adds: &[Add], removes: &[String], snapshot: &Snapshot) -> Result<()> {
    let leaving: BTreeSet<Cow<'_, str>> = removes.iter().map(|path| path::normal(path)).collect();
    let is_there = |add: &&Add| {
        let name = add.normal_path();
        !leaving.contains(&name) && snapshot.contents.holds(&name)
    };
    match adds.iter().find(is_there) {
        None => Ok(()),
        Some(add) => Err(CommitError::DuplicateFile {
            path: add.path.clone(),
            version: None,
        }
        .into()),
    }
}

/// Checks that every file has a value or null in each partition column and in no other, and statistics of the
/// clustering columns.
fn check_adds(adds: &[Add], head: &TableHead) -> Result<()> {
    let clustering = head.stored_clustering()?;
    let wanted: BTreeSet<&str> = head
        .metadata
        .partition_columns
        .iter()
        .map(String::as_str)
        .collect();
    for add in adds {
        let given: BTreeSet<&str> = add.partition_values.iter().map(|(column, _)| column).collect();
        if given != wanted {
            return Err(TableError::option(
                "adds",
                format!(
                    "the file {:?} has values of the partition columns [{}], and the table is partitioned by [{}]",
                    add.path,
                    given.into_iter().collect::<Vec<_>>().join(", "),
                    wanted.into_iter().collect::<Vec<_>>().join(", ")
                ),
            ));
        }
        let nulls = add.partition_values.iter().filter(|(_, value)| value.is_none());
        let mut columns = nulls.filter_map(|(name, _)| head.schema.column(name));
        if let Some(column) = columns.find(|column| !column.nullable) {
            return Err(TableError::option(
                "adds",
                format!(
                    "the file {:?} has null or an empty text, which Delta stores as null, as its partition value of \
                     {:?}, and the table allows no null there",
                    add.path, column.name
                ),
            ));
        }
        for column in wanted.iter().filter_map(|name| head.schema.column(name)) {
            if constant(add, column, head.mapping).is_err() {
                return Err(TableError::option(
                    "adds",
                    format!(
                        "the file {:?} has the partition value {:?} of {:?}, which does not parse as {}",
                        add.path,
                        add.partition_values
                            .get(&column.name)
                            .flatten()
                            .unwrap_or_default(),
                        column.name,
                        column.kind.arrow()
                    ),
                ));
            }
        }
        check_counts(add)?;
        if let Some((_, column)) = without_statistics([add], &clustering) {
            return Err(TableError::option(
                "adds",
                format!(
                    "the file {:?} has no statistics with numRecords, and nullCount of {:?}, by which the table is \
                 clustered: add it with them",
                    add.path,
                    column.join(".")
                ),
            ));
        }
    }
    Ok(())
}

/// The files of a snapshot with these paths; the error is a path that it does not have.
fn find(snapshot: &Snapshot, paths: &[String]) -> Result<Vec<Arc<Add>>, String> {
    let wanted: BTreeSet<Cow<'_, str>> = paths.iter().map(|path| path::normal(path)).collect();
    let there: Vec<Arc<Add>> = snapshot
        .files()
        .filter(|add| wanted.contains(&add.normal_path()))
        .cloned()
        .collect();
    let found: BTreeSet<Cow<'_, str>> = there.iter().map(|add| add.normal_path()).collect();
    match wanted.difference(&found).next() {
        Some(missing) => Err(missing.clone().into_owned()),
        None => Ok(there),
    }
}

fn not_there(path: &str, snapshot: &Snapshot) -> TableError {
    TableError::refused(format!(
        "the file {path:?} is not in version {} of the table: give a path as files() has it",
        snapshot.version
    ))
}

fn removals(files: &[Arc<Add>], data_change: bool) -> Vec<Action> {
    let at = now();
    files
        .iter()
        .map(|add| Action::Remove(Remove::of(add, at, data_change)))
        .collect()
}
