//! The conflict check: decides whether a transaction may commit after a version that it did not read.
//!
//! The order of the checks is delta-spark's, so that the same pair of transactions gets the same error;
//! `tests/matrix.rs` holds it to that. The check differs in five points. It is finer in one: added files are matched
//! by their statistics too. It is coarser in four: any change of the protocol is a conflict, a file without statistics
//! of clustering columns is one with their change, so is a version that enables row tracking, and so is one that states
//! the entry of a file that this transaction read and states anew. The ids of rows are
//! none: each attempt gives them anew ([`row_ids`]). A transaction with [`Marks`](crate::merge::Marks) has no conflict
//! with versions that only mark other rows: whether they are others, its merge finds out. A transaction with
//! [candidates](crate::transaction::ReadSet::candidates) has no conflict with versions that only move rows to other
//! files.

use std::fmt;

use crate::actions::{Action, Add, PartitionValues};
use crate::clustering;
use crate::log::Version;
use crate::predicate;
use crate::row_ids;
use crate::transaction::{Isolation, Transaction};
use crate::winner::Winner;

/// The reason why an append comes before another version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bond {
    /// Rows of the append were changed.
    Rows,
    /// Progress of this application came after that of the append.
    Application(String),
}

impl fmt::Display for Bond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows => f.write_str("rows of that version were changed"),
            Self::Application(app_id) => {
                write!(
                    f,
                    "the progress of the application {app_id:?} puts that version first"
                )
            }
        }
    }
}

/// The kind of a conflict.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConflictKind {
    /// The protocol changed.
    #[error("ProtocolChanged: the protocol of the table was changed")]
    ProtocolChanged,
    /// The metadata changed.
    #[error("MetadataChanged: the metadata of the table was changed")]
    MetadataChanged,
    /// Progress of an application that this transaction read, a domain that it writes, or clustering columns of which a
    /// file has no statistics.
    #[error("ConcurrentTransaction: {0}")]
    ConcurrentTransaction(String),
    /// A file was added that this transaction should have read.
    #[error(
        "ConcurrentAppend: the file {path} was added{partition}, which this transaction should have read"
    )]
    ConcurrentAppend {
        /// The file's path.
        path: String,
        /// In words.
        partition: String,
    },
    /// A file was added that this transaction should have read, because its append comes before a version that this
    /// transaction follows.
    #[error(
        "ConcurrentAppend: the file {path} was added{partition} in version {added_in}, which this transaction should \
         have read, since {bond}"
    )]
    PinnedAppend {
        /// The file's path.
        path: String,
        /// In words.
        partition: String,
        /// The version of the append.
        added_in: Version,
        /// The reason why the append comes first.
        bond: Bond,
    },
    /// A file was removed that this transaction read.
    #[error("ConcurrentDeleteRead: the file {0} was removed, which this transaction read")]
    ConcurrentDeleteRead(String),
    /// A file was removed that this transaction removes too.
    #[error("ConcurrentDeleteDelete: the file {0} was removed, which this transaction removes too")]
    ConcurrentDeleteDelete(String),
    /// Rows of a file were deleted or updated that this transaction deletes or updates too.
    #[error(
        "ConcurrentDeleteDelete: {rows} rows of the file {path} were deleted or updated, which this transaction \
         deletes or updates too"
    )]
    ConcurrentRows {
        /// The file's path.
        path: String,
        /// Their number.
        rows: u64,
    },
}

impl ConflictKind {
    /// Returns true if it is about files that were added, removed or marked, and not about the table itself.
    #[must_use]
    pub const fn is_of_files(&self) -> bool {
        match self {
            Self::ProtocolChanged | Self::MetadataChanged | Self::ConcurrentTransaction(_) => false,
            Self::ConcurrentAppend { .. }
            | Self::PinnedAppend { .. }
            | Self::ConcurrentDeleteRead(_)
            | Self::ConcurrentDeleteDelete(_)
            | Self::ConcurrentRows { .. } => true,
        }
    }
}

/// A conflict, and with whom.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{kind} by version {version} ({operation}) after version {read_version} was read: read the table again and redo the transaction"
)]
pub struct Conflict {
    /// The kind of the conflict.
    pub kind: ConflictKind,
    /// The winner's version.
    pub version: Version,
    /// The winner's operation.
    pub operation: String,
    /// The version that the losing transaction had read.
    pub read_version: Version,
    /// True if the winner's version changed no row, as a compaction that moves rows to other files. The same work,
    /// begun anew, has no conflict with it.
    pub only_moved: bool,
}

impl Conflict {
    pub(crate) fn new(transaction: &Transaction, winner: &Winner, kind: ConflictKind) -> Self {
        Self {
            only_moved: kind.is_of_files() && !winner.changes_rows,
            kind,
            version: winner.version,
            operation: winner.operation().to_owned(),
            read_version: transaction.read_version,
        }
    }
}

/// Checks a transaction against one version that it did not see. Appends that it passes over are checked together with
/// the versions after them: see [`UnreadAppends`](crate::unread_appends::UnreadAppends).
///
/// # Errors
/// The first conflict in delta-spark's order.
pub fn check(transaction: &Transaction, winner: &Winner) -> Result<(), Box<Conflict>> {
    match find(transaction, winner) {
        None => Ok(()),
        Some(kind) => Err(Box::new(Conflict::new(transaction, winner, kind))),
    }
}

fn find(transaction: &Transaction, winner: &Winner) -> Option<ConflictKind> {
    if winner.protocol.is_some() {
        return Some(ConflictKind::ProtocolChanged);
    }
    if winner.metadata.is_some() {
        return Some(ConflictKind::MetadataChanged);
    }
    concurrent_domain(transaction, winner)
        .or_else(|| unclustered(transaction, winner))
        .or_else(|| concurrent_progress(transaction, winner))
        .or_else(|| concurrent_append(transaction, winner))
        .or_else(|| concurrent_delete_read(transaction, winner))
        .or_else(|| concurrent_delete_delete(transaction, winner))
        .or_else(|| concurrent_entry(transaction, winner))
}

fn concurrent_domain(transaction: &Transaction, winner: &Winner) -> Option<ConflictKind> {
    transaction.actions.iter().find_map(|action| match action {
        Action::DomainMetadata(domain)
            // The highest row id is taken from the version before, whoever wrote it.
            if domain.domain != row_ids::DOMAIN && winner.domains.contains(&domain.domain) =>
        {
            Some(ConflictKind::ConcurrentTransaction(format!(
                "the metadata domain {:?} was changed, which this transaction changes too",
                domain.domain
            )))
        }
        _ => None,
    })
}

/// Finds a file without statistics of the columns that the other side clusters the table by.
fn unclustered(transaction: &Transaction, winner: &Winner) -> Option<ConflictKind> {
    let actions = || transaction.actions.iter();
    let own = actions().filter_map(|action| match action {
        Action::Add(add) => Some(add),
        _ => None,
    });
    if let Some((add, column)) = clustering::without_statistics(own, &winner.clustering) {
        return Some(ConflictKind::ConcurrentTransaction(format!(
            "the file {} of this transaction has no statistics of the column {:?}: write it again with them; the table was \
             clustered by that column",
            add.path,
            column.join(".")
        )));
    }
    let columns = actions().find_map(clustering::columns_by)?;
    let (add, column) = clustering::without_statistics(&winner.adds, &columns)?;
    Some(ConflictKind::ConcurrentTransaction(format!(
        "the file {} has no statistics of the column {:?}, by which this transaction clusters the table: choose another \
         column, or write the file again with them; it was added",
        add.path,
        column.join(".")
    )))
}

/// Finds a conflict in applications whose transaction version was read or is written. R1 lets no two transactions of
/// one application be in flight together.
fn concurrent_progress(transaction: &Transaction, winner: &Winner) -> Option<ConflictKind> {
    let read = transaction.reads.app_ids.iter().map(String::as_str);
    read.chain(transaction.written_app_ids())
        .find(|app_id| winner.app_ids.contains(*app_id))
        .map(|app_id| {
            ConflictKind::ConcurrentTransaction(format!(
                "the application {app_id:?} made progress, on which this transaction depends"
            ))
        })
}

fn concurrent_append(transaction: &Transaction, winner: &Winner) -> Option<ConflictKind> {
    let changes_metadata = || {
        transaction
            .actions
            .iter()
            .any(|action| matches!(action, Action::Metadata(_)))
    };
    match transaction.effective_isolation() {
        Isolation::SnapshotIsolation => return None,
        Isolation::WriteSerializable if winner.is_blind_append() && !changes_metadata() => return None,
        Isolation::Serializable | Isolation::WriteSerializable => {}
    }
    if is_passed_move(transaction, winner) {
        return None;
    }
    let file = winner
        .adds
        .iter()
        // A file of which rows are marked has no row that it did not have before.
        .filter(|add| {
            transaction.marks.is_none() || !winner.marked_paths.contains(add.normal_path().as_ref())
        })
        .find(|add| looked_for(transaction, add))?;
    Some(ConflictKind::ConcurrentAppend {
        path: file.path.clone(),
        partition: partition_of(&file.partition_values),
    })
}

/// Returns true if a file may hold rows that a transaction looked for.
pub(crate) fn looked_for(transaction: &Transaction, file: &Add) -> bool {
    let reads = &transaction.reads;
    reads.whole_table || predicate::any_may_match(&reads.predicates, file)
}

fn concurrent_delete_read(transaction: &Transaction, winner: &Winner) -> Option<ConflictKind> {
    let reads = &transaction.reads;
    winner
        .removed_paths
        .iter()
        .filter(|path| !is_merged(transaction, winner, path))
        .find(|path| {
            reads.whole_table || reads.files.contains(*path) || loses_candidate(transaction, winner, path)
        })
        .map(|path| ConflictKind::ConcurrentDeleteRead(path.clone()))
}

/// Returns true if rows leave the table with this file that the transaction may have read.
fn loses_candidate(transaction: &Transaction, winner: &Winner, path: &str) -> bool {
    let candidates = transaction.reads.candidates.as_ref();
    candidates.is_some_and(|candidates| candidates.contains(path)) && !winner.moved_paths.contains(path)
}

/// Returns true if the version only moves rows to other files, and the transaction depends on rows and on none of the
/// removed files themselves. [`UnreadAppends`](crate::unread_appends::UnreadAppends) follows the rows from there.
pub(crate) fn is_passed_move(transaction: &Transaction, winner: &Winner) -> bool {
    let reads = &transaction.reads;
    let own_removals = || {
        transaction.actions.iter().filter_map(|action| match action {
            Action::Remove(remove) => Some(remove.normal_path()),
            _ => None,
        })
    };
    reads.candidates.is_some()
        && !reads.whole_table
        && !winner.changes_rows
        && reads.files.is_disjoint(&winner.removed_paths)
        && !own_removals().any(|path| winner.removed_paths.contains(path.as_ref()))
}

fn concurrent_delete_delete(transaction: &Transaction, winner: &Winner) -> Option<ConflictKind> {
    transaction.actions.iter().find_map(|action| {
        let Action::Remove(remove) = action else {
            return None;
        };
        let path = remove.normal_path();
        let is_removed = winner.removed_paths.contains(path.as_ref());
        (is_removed && !is_merged(transaction, winner, &path))
            .then(|| ConflictKind::ConcurrentDeleteDelete(remove.path.clone()))
    })
}

/// Finds a file of which both state the entry anew, as when both give its rows ids.
fn concurrent_entry(transaction: &Transaction, winner: &Winner) -> Option<ConflictKind> {
    transaction.actions.iter().find_map(|action| {
        let Action::Add(add) = action else {
            return None;
        };
        let path = add.normal_path();
        let is_read = transaction.reads.files.contains(path.as_ref());
        let is_stated = is_read && winner.added_paths.contains(path.as_ref());
        (is_stated && !is_merged(transaction, winner, &path)).then(|| ConflictKind::ConcurrentAppend {
            path: add.path.clone(),
            partition: partition_of(&add.partition_values),
        })
    })
}

/// Returns true if both mark rows of the file, so that a merge decides.
pub(crate) fn is_merged(transaction: &Transaction, winner: &Winner, path: &str) -> bool {
    let mine = transaction.marks.as_ref();
    mine.is_some_and(|marks| marks.paths.contains(path)) && winner.marked_paths.contains(path)
}

/// The partition of a file, in words that follow "was added".
pub(crate) fn partition_of(values: &PartitionValues) -> String {
    if values.is_empty() {
        return String::new();
    }
    let values: Vec<String> = values
        .iter()
        .map(|(column, value)| format!("{column}={}", value.unwrap_or("null")))
        .collect();
    format!(" to the partition {}", values.join(", "))
}
