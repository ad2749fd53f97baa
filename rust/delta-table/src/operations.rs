//! Transactions that remove files: deletion, truncation, restore, and commits of the caller's own.

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, NaiveDateTime};
use delta_commit::actions::{Action, Add, Metadata, Remove};
use delta_commit::clustering::without_statistics;
use delta_commit::log::BEFORE_FIRST;
use delta_commit::predicate::{Comparison, Literal, Predicate, Term};
use delta_commit::{MemberId, Operation, Patience, Transaction, Version, path};

use crate::checkpoint::now;
use crate::clustering;
use crate::constraints;
use crate::create::check_in_commit_timestamps;
use crate::deletion_vectors;
use parquet_writer::OptionFault;

use crate::error::{Result, TableError};
use crate::head::Head;
use crate::row_ids;
use crate::schema::{Kind, Primitive};
use crate::snapshot::Snapshot;
use crate::table::{Table, or_late, patient};

/// Days from 0001-01-01 to the epoch.
const EPOCH_FROM_CE: i32 = 719_163;

/// A value to compare with, as a caller gives it.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// No value.
    Null,
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Long(i64),
    /// A number.
    Double(f64),
    /// Text; also a date or a timestamp in ISO 8601.
    Text(String),
    /// Days since the epoch.
    Date(i64),
    /// Microseconds since the epoch.
    Timestamp(i64),
}

/// A condition on one column.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// The column's name.
    pub column: String,
    /// `=`, `!=`, `<`, `<=`, `>`, `>=` or `in`.
    pub operator: String,
    /// One value, or for `in` any number.
    pub values: Vec<Scalar>,
}

/// The part of the table that a transaction read.
#[derive(Debug, Clone, Default)]
pub struct ReadSet {
    /// The version that was read. The default is the last version that the handle returned to its caller.
    pub version: Option<Version>,
    /// Everything.
    pub whole_table: bool,
    /// These files, as in `add.path`.
    pub files: Vec<String>,
    /// Rows for which all of these hold.
    pub conditions: Vec<Condition>,
}

impl ReadSet {
    fn is_nothing(&self) -> bool {
        self.version.is_none() && !self.whole_table && self.files.is_empty() && self.conditions.is_empty()
    }
}

const OPERATORS: [&str; 7] = ["=", "!=", "<", "<=", ">", ">=", "in"];

impl Condition {
    /// The condition on a table's column.
    pub(crate) fn term(&self, head: &Head) -> Result<Term> {
        let Some(column) = head.schema.column(&self.column) else {
            return Err(TableError::refused(format!(
                "a condition names the column {:?}, which the table does not have",
                self.column
            )));
        };
        // The log has an empty text and null of a partition column alike; a file's rows do not.
        let is_of_partitions = head.metadata.partition_columns.contains(&self.column);
        let literals = self
            .values
            .iter()
            .map(|value| match value {
                Scalar::Text(text) if text.is_empty() && is_of_partitions => Ok(None),
                value => literal(value, &column.kind, &self.column),
            })
            .collect::<Result<Vec<_>>>()?;
        let comparison = match (self.operator.as_str(), literals.as_slice()) {
            ("=" | "==", [None]) => Comparison::IsNull,
            ("!=", [None]) => Comparison::IsNotNull,
            ("=" | "==", [Some(value)]) => Comparison::Equal(value.clone()),
            ("!=", [Some(value)]) => Comparison::NotEqual(value.clone()),
            ("<", [Some(value)]) => Comparison::Less(value.clone()),
            ("<=", [Some(value)]) => Comparison::LessOrEqual(value.clone()),
            (">", [Some(value)]) => Comparison::Greater(value.clone()),
            (">=", [Some(value)]) => Comparison::GreaterOrEqual(value.clone()),
            ("in", values) if values.iter().all(Option::is_some) => {
                Comparison::In(values.iter().flatten().cloned().collect())
            }
            _ => {
                return Err(TableError::Option(OptionFault {
                    message: format!(
                        "the condition on {:?} has the operator {:?}, which is not accepted with its value: choose one \
                         of {}; None goes with = and != alone, and so does an empty text, which is null, on a \
                         partition column",
                        self.column,
                        self.operator,
                        OPERATORS.join(", ")
                    ),
                    option: None,
                    accepted: OPERATORS.map(String::from).to_vec(),
                }));
            }
        };
        Ok(Term::new(head.mapping.stored_name(column), comparison))
    }
}

/// Converts a value to the column's type; none for null.
fn literal(value: &Scalar, kind: &Kind, column: &str) -> Result<Option<Literal>> {
    use Primitive::{
        Boolean, Byte, Date, Double, Float, Integer, Long, Short, String, Timestamp, TimestampNtz,
    };
    let wrong = || {
        TableError::refused(format!(
            "a condition compares the column {column:?} with {value:?}, which is no value of its type"
        ))
    };
    let Kind::Primitive(primitive) = kind else {
        return Err(TableError::refused(format!(
            "a condition names the column {column:?}, of whose type no conditions are built"
        )));
    };
    Ok(Some(match (value, primitive) {
        (Scalar::Null, _) => return Ok(None),
        (Scalar::Boolean(value), Boolean) => Literal::Boolean(*value),
        (Scalar::Long(value), Byte | Short | Integer | Long) => Literal::Long(*value),
        #[expect(clippy::cast_precision_loss, reason = "the column is a float")]
        (Scalar::Long(value), Float) => Literal::Float(*value as f32),
        #[expect(clippy::cast_precision_loss, reason = "the column is a double")]
        (Scalar::Long(value), Double) => Literal::Double(*value as f64),
        #[expect(clippy::cast_possible_truncation, reason = "the column has no more digits")]
        (Scalar::Double(value), Float) => match *value as f32 {
            single if single.is_infinite() && value.is_finite() => return Err(wrong()),
            single => Literal::Float(single),
        },
        (Scalar::Double(value), Double) => Literal::Double(*value),
        (Scalar::Text(text), String) => Literal::String(text.clone()),
        (Scalar::Date(days), Date) => Literal::Date(*days),
        (Scalar::Text(text), Date) => Literal::Date(days(text).ok_or_else(wrong)?),
        (Scalar::Timestamp(micros), Timestamp | TimestampNtz) => Literal::Timestamp(*micros),
        (Scalar::Text(text), Timestamp | TimestampNtz) => Literal::Timestamp(micros(text).ok_or_else(wrong)?),
        _ => return Err(wrong()),
    }))
}

fn days(text: &str) -> Option<i64> {
    use chrono::Datelike;
    let day: NaiveDate = text.parse().ok()?;
    Some(i64::from(day.num_days_from_ce() - EPOCH_FROM_CE))
}

fn micros(text: &str) -> Option<i64> {
    if let Ok(moment) = DateTime::parse_from_rfc3339(text) {
        return Some(moment.timestamp_micros());
    }
    let text = text.replacen(' ', "T", 1);
    let clock: NaiveDateTime = text.parse().ok()?;
    Some(clock.and_utc().timestamp_micros())
}

/// Builds a predicate that whole files can answer: its conditions name partition columns alone.
pub(crate) fn partition_predicate(conditions: &[Condition], head: &Head) -> Result<Predicate> {
    let columns = &head.metadata.partition_columns;
    let terms = conditions.iter().map(|condition| {
        if !columns.contains(&condition.column) {
            return Err(TableError::refused(format!(
                "the condition on {:?} cannot choose whole files: name partition columns alone, which are {}",
                condition.column,
                if columns.is_empty() {
                    "none here".to_owned()
                } else {
                    columns.join(", ")
                }
            )));
        }
        condition.term(head)
    });
    Ok(Predicate(terms.collect::<Result<_>>()?))
}

/// Values of a condition in the history, which each reader of the log reads.
const MOST_SHOWN: usize = 100;

/// Conditions as the history shows them.
pub(crate) fn describe(conditions: &[Condition]) -> String {
    let texts: Vec<String> = conditions
        .iter()
        .map(|condition| {
            let mut values: Vec<String> = condition
                .values
                .iter()
                .take(MOST_SHOWN)
                .map(Scalar::describe)
                .collect();
            let others = condition.values.len() - values.len();
            if others > 0 {
                values.push(format!("... {others} more"));
            }
            match condition.operator.as_str() {
                "in" => format!("({} IN ({}))", condition.column, values.join(", ")),
                operator => format!("({} {operator} {})", condition.column, values.join(", ")),
            }
        })
        .collect();
    serde_json::Value::from(texts).to_string()
}

impl Scalar {
    fn describe(&self) -> String {
        match self {
            Self::Null => "NULL".to_owned(),
            Self::Boolean(value) => value.to_string(),
            Self::Long(value) => value.to_string(),
            Self::Double(value) => value.to_string(),
            Self::Text(text) => format!("'{}'", text.replace('\'', "''")),
            Self::Date(days) => {
                let days = i32::try_from(*days)
                    .ok()
                    .and_then(|days| days.checked_add(EPOCH_FROM_CE));
                days.and_then(NaiveDate::from_num_days_from_ce_opt)
                    .map_or_else(|| "?".to_owned(), |day| format!("'{day}'"))
            }
            Self::Timestamp(micros) => DateTime::from_timestamp_micros(*micros)
                .map_or_else(|| "?".to_owned(), |moment| format!("'{}'", moment.to_rfc3339())),
        }
    }
}

/// The files that a predicate on partition columns chooses.
///
/// # Errors
/// [`TableError::Option`] when it cannot be said of a file: nothing is removed on a guess.
pub(crate) fn chosen(snapshot: &Snapshot, predicate: &Predicate) -> Result<Vec<Arc<Add>>> {
    let mut chosen = Vec::new();
    for add in snapshot.files() {
        match predicate.partition_matches(add) {
            Some(true) => chosen.push(Arc::clone(add)),
            Some(false) => {}
            None => return Err(incomparable(add)),
        }
    }
    Ok(chosen)
}

fn incomparable(add: &Add) -> TableError {
    let values = add.partition_values.iter();
    let values: Vec<String> = values
        .map(|(column, value)| format!("{column}={}", value.unwrap_or("null")))
        .collect();
    TableError::refused(format!(
        "the file {:?} is in the partition {}, which cannot be compared with the conditions, so that nobody can say \
         whether its rows were meant: choose by another column, or by commit(removes=[...])",
        add.path,
        values.join(", ")
    ))
}

/// Adds the removals of files, and the predicate that they were read by.
pub(crate) fn remove_chosen(transaction: &mut Transaction, predicate: Predicate, files: &[Arc<Add>]) {
    transaction
        .reads
        .files
        .extend(files.iter().map(|add| add.path.clone()));
    transaction.reads.predicates.push(predicate);
    let at = now();
    let removals = files.iter().map(|add| Action::Remove(Remove::of(add, at, true)));
    transaction.actions.extend(removals);
}

pub(crate) fn begin(head: &Head, operation: Operation) -> Result<Transaction> {
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
    pub fn delete(&self, conditions: &[Condition], patience: &mut Patience<'_>) -> Result<Version> {
        let snapshot = self
            .removable("delete_partition()")
            .map_err(|error| or_late(error, patience))?;
        let predicate = partition_predicate(conditions, &snapshot)?;
        let mut operation = Operation::new("DELETE");
        operation
            .parameters
            .insert("predicate".to_owned(), describe(conditions));
        self.remove(&snapshot, predicate, operation, patience)
    }

    /// Removes all rows.
    ///
    /// # Errors
    /// As [`delete`](Self::delete).
    pub fn truncate(&self, patience: &mut Patience<'_>) -> Result<Version> {
        let snapshot = self
            .removable("truncate()")
            .map_err(|error| or_late(error, patience))?;
        self.remove(
            &snapshot,
            Predicate::default(),
            Operation::new("TRUNCATE"),
            patience,
        )
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
        predicate: Predicate,
        mut operation: Operation,
        patience: &mut Patience<'_>,
    ) -> Result<Version> {
        let files = chosen(snapshot, &predicate)?;
        operation
            .metrics
            .insert("numRemovedFiles".to_owned(), files.len().to_string());
        let mut transaction = begin(snapshot, operation)?;
        remove_chosen(&mut transaction, predicate, &files);
        self.shared()?.commit(transaction, patience)
    }

    /// Restores the state of an older version, as a new version.
    ///
    /// # Errors
    /// [`TableError::NoSuchVersion`] when the version, a data file of it or a deletion vector is gone.
    pub fn restore(&self, version: Version, patience: &mut Patience<'_>) -> Result<Version> {
        let snapshot = self
            .removable("restore()")
            .map_err(|error| or_late(error, patience))?;
        let target = self.snapshot_at(version)?;
        // The version may be older than what is refused above.
        target.check_writable()?;
        clustering::check_partitions(&snapshot, &target.metadata, "restore()")?;
        let columns = target.clustering()?;
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
        self.check_there(version, &returning)?;
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
        transaction.actions = restoring(&snapshot, &target, &returning, &leaving);
        if snapshot.is_clustered() {
            // Also where they are those of before, so that a concurrent change of them is a conflict.
            transaction.actions.push(clustering::action(&columns));
        }
        self.shared()?.commit(transaction, patience)
    }

    fn check_there(&self, version: Version, files: &[&Arc<Add>]) -> Result<()> {
        for add in files {
            let data = path::decode_inside(&add.path)?;
            let vector = add.deletion_vector.as_ref();
            let root = self.root();
            let vector = vector.map(|vector| deletion_vectors::file_of(root, vector));
            let vector = vector.transpose()?;
            let named = [("data file", Some(data)), ("deletion vector", vector.flatten())];
            for (what, file) in named {
                if let Some(file) = file
                    && !self.place.has(&file)?
                {
                    return Err(TableError::NoSuchVersion(format!(
                        "version {version} cannot be restored: its {what} {file:?} is gone"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Commits files that the caller wrote, and removals of files, as one transaction.
    ///
    /// A transaction that read or removes something is checked against every version after [`ReadSet::version`].
    ///
    /// # Errors
    /// [`TableError::Option`] when a removed file is not in the table; [`TableError::NoSuchVersion`] when the version
    /// that was read is not there; a conflict when a concurrent transaction changed what was read or is removed.
    pub fn commit(
        &self,
        adds: Vec<Add>,
        removes: &[String],
        read: &ReadSet,
        operation: Operation,
        patience: &mut Patience<'_>,
    ) -> Result<Version> {
        let shared = self.shared()?;
        // Without removals no file of the table has to be known.
        let snapshot = if removes.is_empty() {
            None
        } else {
            Some(self.snapshot_in_time(patience)?)
        };
        let head = if let Some(snapshot) = &snapshot {
            Arc::clone(&snapshot.head)
        } else {
            let head = shared.refresh(&mut patient(patience));
            head.map_err(|error| or_late(error, patience))?
        };
        head.check_writable()?;
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
        transaction.reads.files = read.files.iter().cloned().collect();
        if !read.conditions.is_empty() {
            let terms = read.conditions.iter().map(|condition| condition.term(&head));
            let predicate = Predicate(terms.collect::<Result<_>>()?);
            transaction.reads.predicates.push(predicate);
        }
        transaction.unsynced = adds.iter().map(|add| add.path.clone()).collect();
        check_adds(&adds, &head)?;
        row_ids::check_added(&head, &adds)?;
        constraints::check_files(&shared.place, &head, &adds, &mut patient(patience))?;
        if let Some(snapshot) = snapshot {
            let files = self.files_at(&snapshot, transaction.read_version, removes)?;
            transaction.actions = removals(&files, data_change);
        }
        transaction.actions.extend(adds.into_iter().map(Action::Add));
        shared.commit(transaction, patience)
    }

    fn read_version(&self, read: &ReadSet, newest: &Head) -> Result<Version> {
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

fn restoring(
    snapshot: &Snapshot,
    target: &Snapshot,
    returning: &[&Arc<Add>],
    leaving: &[&Arc<Add>],
) -> Vec<Action> {
    let at = now();
    let mut actions = Vec::with_capacity(returning.len() + leaving.len() + 1);
    let mut metadata = Metadata {
        id: snapshot.metadata.id.clone(),
        ..target.metadata.as_ref().clone()
    };
    row_ids::keep_names(snapshot, &mut metadata);
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
    actions
}

/// Checks that every file has a value or null in each partition column and in no other, and statistics of the
/// clustering columns.
fn check_adds(adds: &[Add], head: &Head) -> Result<()> {
    let clustering = head.clustering()?;
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
    let wanted: BTreeSet<&str> = paths.iter().map(String::as_str).collect();
    let there: Vec<Arc<Add>> = snapshot
        .files()
        .filter(|add| wanted.contains(add.path.as_str()))
        .cloned()
        .collect();
    let found: BTreeSet<&str> = there.iter().map(|add| add.path.as_str()).collect();
    match wanted.difference(&found).next() {
        Some(missing) => Err((*missing).to_owned()),
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
