//! A transaction for the committer: the part of the table that it read, and its actions.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use crate::actions::{Action, DeletionVector};
use crate::error::{CommitError, Result};
use crate::log::{LoggedSize, UnsyncedFile, Version};
use crate::merge::Marks;
use crate::path::normal;
use crate::predicate::Predicate;
use crate::row_ids;

/// The unique id of a transaction. An id in the log proves that its transaction is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(Uuid);

impl MemberId {
    /// A random, unique id.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// The id with this number, for tests that must be repeatable.
    #[must_use]
    pub const fn from_number(number: u128) -> Self {
        Self(Uuid::from_u128(number))
    }

    pub(crate) const fn number(self) -> u128 {
        self.0.as_u128()
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.simple().fmt(f)
    }
}

impl FromStr for MemberId {
    type Err = CommitError;

    fn from_str(text: &str) -> Result<Self> {
        Uuid::try_parse(text)
            .map(Self)
            .map_err(|e| CommitError::Malformed(format!("{text:?} is not a member id: {e}")))
    }
}

/// The isolation level between concurrent transactions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Isolation {
    /// As if all transactions had run one by one in the log's order.
    #[default]
    Serializable,
    /// As if all writing transactions had run one by one, in the log's order but for blind appends: one may be ordered
    /// after versions that did not read it. R11 of `docs/design/commit-protocol.md` refuses a transaction that no such
    /// order holds.
    WriteSerializable,
    /// Only overlapping writes are checked. No table chooses this level; transactions that change no rows fall back to
    /// it.
    SnapshotIsolation,
}

impl Isolation {
    /// The name that the log uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Serializable => "Serializable",
            Self::WriteSerializable => "WriteSerializable",
            Self::SnapshotIsolation => "SnapshotIsolation",
        }
    }
}

/// The part of the table that a transaction read at its read version.
#[derive(Debug, Clone, Default)]
pub struct ReadSet {
    /// True if it read everything.
    pub whole_table: bool,
    /// Predicates of the rows that it looked for: it read their union.
    pub predicates: Vec<Predicate>,
    /// Paths of the files that it read, in [`normal`] form.
    pub files: BTreeSet<String>,
    /// Likewise the files that could hold rows which satisfy `predicates` at the read version, for a transaction that
    /// depends on those rows wherever they are. Removing rows of these files is a conflict; moving the rows to other
    /// files is not. None for a transaction whose `files` are all that it depends on.
    pub candidates: Option<BTreeSet<String>>,
    /// Applications whose transaction version it read.
    pub app_ids: BTreeSet<String>,
}

impl ReadSet {
    /// Returns true if the transaction depends on files.
    #[must_use]
    pub fn depends_on_files(&self) -> bool {
        self.looks_for_rows() || !self.files.is_empty()
    }

    /// Returns true if it depends on files that may be added.
    #[must_use]
    pub fn looks_for_rows(&self) -> bool {
        self.whole_table || !self.predicates.is_empty()
    }
}

/// The operation, as the table's history records it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Spark's name of it: `WRITE`, `DELETE`, `OPTIMIZE`.
    pub name: String,
    /// Its settings, string to string.
    pub parameters: BTreeMap<String, String>,
    /// Its counts, string to string.
    pub metrics: BTreeMap<String, String>,
    /// True if operations of this kind change rows, even if this one changed none.
    pub changes_data: bool,
    /// A note from the user.
    pub user_metadata: Option<String>,
    /// True if rows that it copies may lose their ids, in a table with row tracking.
    pub loses_row_ids: bool,
}

impl Operation {
    /// An operation that changes rows, without settings or counts.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            parameters: BTreeMap::new(),
            metrics: BTreeMap::new(),
            changes_data: true,
            user_metadata: None,
            loses_row_ids: false,
        }
    }

    /// An append of rows.
    #[must_use]
    pub fn append() -> Self {
        let mut operation = Self::new("WRITE");
        operation
            .parameters
            .insert("mode".to_owned(), "Append".to_owned());
        operation
    }
}

/// A transaction: the content of one version, or of a part of one.
#[derive(Debug, Clone)]
pub struct Transaction {
    /// Its id.
    pub id: MemberId,
    /// The version that it was made from; [`crate::log::BEFORE_FIRST`] for a table that does not exist.
    pub read_version: Version,
    /// The part of the table that it read at that version.
    pub reads: ReadSet,
    /// The actions that it writes. The committer adds `commitInfo`.
    pub actions: Vec<Action>,
    /// The operation, for the history.
    pub operation: Operation,
    /// The table's isolation level.
    pub isolation: Isolation,
    /// Data files, as in `add.path`, that are not yet known to survive a crash.
    pub unsynced: Vec<String>,
    /// The files of which it marks rows, where it can be merged with others that mark rows; none where other marks are
    /// conflicts.
    pub marks: Option<Marks>,
}

impl Transaction {
    /// An append that read nothing but the table's schema at `read_version`.
    #[must_use]
    pub fn append(id: MemberId, read_version: Version, actions: Vec<Action>) -> Self {
        Self {
            id,
            read_version,
            reads: ReadSet::default(),
            actions,
            operation: Operation::append(),
            isolation: Isolation::default(),
            unsynced: Vec::new(),
            marks: None,
        }
    }

    /// Returns true if it adds files, reads none, and changes nothing else but its own application's transaction
    /// version.
    #[must_use]
    pub fn is_blind_append(&self) -> bool {
        !self.actions.is_empty()
            && !self.reads.depends_on_files()
            && self
                .actions
                .iter()
                .all(|action| matches!(action, Action::Add(_) | Action::Txn(_)))
    }

    /// The level that its conflicts are checked under. A transaction that changes no rows can be ordered before the
    /// versions that it missed.
    #[must_use]
    pub fn effective_isolation(&self) -> Isolation {
        let data_changed = self.actions.iter().any(|action| match action {
            Action::Add(add) => add.data_change,
            Action::Remove(remove) => remove.data_change,
            Action::Cdc(cdc) => cdc.data_change,
            _ => false,
        });
        let only_files = self
            .actions
            .iter()
            .all(|action| matches!(action, Action::Add(_) | Action::Remove(_) | Action::Cdc(_)));
        let downgrade = only_files
            && !data_changed
            && match self.isolation {
                Isolation::Serializable => true,
                Isolation::WriteSerializable => !self.operation.changes_data,
                Isolation::SnapshotIsolation => false,
            };
        if downgrade {
            Isolation::SnapshotIsolation
        } else {
            self.isolation
        }
    }

    /// Returns true if it writes nothing and may be left out of the log.
    #[must_use]
    pub fn is_skippable(&self) -> bool {
        self.actions.is_empty() && self.effective_isolation() != Isolation::WriteSerializable
    }

    /// The files that are not yet known to survive a crash, with their sizes.
    #[must_use]
    pub fn unsynced_files(&self) -> Vec<UnsyncedFile> {
        let mut sizes = HashMap::new();
        if !self.unsynced.is_empty() {
            self.actions
                .iter()
                .for_each(|action| note_sizes(action, &mut sizes));
        }
        let file = |path: &String| UnsyncedFile {
            path: path.clone(),
            size: sizes.get(path).copied().unwrap_or(LoggedSize::Unknown),
        };
        self.unsynced.iter().map(file).collect()
    }

    /// Paths that it adds, as in `add.path`.
    pub fn added_paths(&self) -> impl Iterator<Item = &str> {
        self.actions.iter().filter_map(|action| match action {
            Action::Add(add) => Some(add.path.as_str()),
            _ => None,
        })
    }

    /// The same paths in [`normal`] form.
    pub fn added_normal_paths(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.added_paths().map(normal)
    }

    /// Applications whose progress it writes.
    pub fn written_app_ids(&self) -> impl Iterator<Item = &str> {
        self.actions.iter().filter_map(|action| match action {
            Action::Txn(txn) => Some(txn.app_id.as_str()),
            _ => None,
        })
    }

    /// Refuses actions that no version may hold: two of a kind that must be single, or one that the committer writes.
    ///
    /// # Errors
    /// [`CommitError::Invalid`] names what is there twice.
    pub fn check(&self) -> Result<()> {
        let mut seen = HashSet::new();
        for action in &self.actions {
            let (kind, key) = match action {
                Action::CommitInfo(_) => {
                    return Err(CommitError::Invalid(
                        "the transaction holds a commitInfo; the committer writes that itself".to_owned(),
                    ));
                }
                Action::DomainMetadata(domain) if domain.domain == row_ids::DOMAIN => {
                    return Err(CommitError::Invalid(format!(
                        "the transaction holds the domain {}; the committer writes that itself",
                        row_ids::DOMAIN
                    )));
                }
                Action::Protocol(_) => ("protocol", Cow::Borrowed("")),
                Action::Metadata(_) => ("metaData", Cow::Borrowed("")),
                Action::Add(add) => ("add", add.normal_path()),
                Action::Remove(remove) => ("remove", remove.normal_path()),
                Action::Cdc(cdc) => ("cdc", normal(&cdc.path)),
                Action::Txn(txn) => ("txn", Cow::Borrowed(txn.app_id.as_str())),
                Action::DomainMetadata(domain) => ("domainMetadata", Cow::Borrowed(domain.domain.as_str())),
            };
            if !seen.insert((kind, key.clone())) {
                return Err(CommitError::Invalid(format!(
                    "the transaction holds two {kind} actions{}; a version may hold one",
                    if key.is_empty() {
                        String::new()
                    } else {
                        format!(" for {key:?}")
                    }
                )));
            }
        }
        Ok(())
    }
}

/// Notes the sizes of files that an action names.
fn note_sizes(action: &Action, sizes: &mut HashMap<String, LoggedSize>) {
    match action {
        Action::Add(add) => {
            sizes.insert(add.path.clone(), LoggedSize::Exactly(add.size));
            let Some((path, end)) = add
                .deletion_vector
                .as_ref()
                .and_then(DeletionVector::end_in_table)
            else {
                return;
            };
            let least = match sizes.get(&path) {
                Some(LoggedSize::AtLeast(least)) => end.max(*least),
                _ => end,
            };
            sizes.insert(path, LoggedSize::AtLeast(least));
        }
        Action::Cdc(cdc) => {
            sizes.insert(cdc.path.clone(), LoggedSize::Exactly(cdc.size));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::actions::{Add, Cdc};

    #[test]
    fn files_have_the_sizes_that_the_actions_name() {
        let id = Uuid::from_u128(7);
        let marked = |path: &str, offset| {
            Action::Add(Add {
                path: path.to_owned(),
                size: 100,
                deletion_vector: Some(DeletionVector::in_table(id, offset, 30, 3)),
                ..Add::default()
            })
        };
        let noted = Action::Cdc(Cdc {
            path: "c".to_owned(),
            size: 5,
            ..Cdc::default()
        });
        let actions = vec![marked("a", 40), marked("b", 1), noted];
        let mut transaction = Transaction::append(MemberId::from_number(1), 0, actions);
        let vectors = DeletionVector::file_name(id);
        transaction.unsynced = ["a", "c", vectors.as_str(), "other"].map(str::to_owned).to_vec();
        let files = transaction.unsynced_files();
        let sizes: Vec<LoggedSize> = files.iter().map(|file| file.size).collect();
        let vectors = LoggedSize::AtLeast(40 + 4 + 30 + 4);
        let expected = [
            LoggedSize::Exactly(100),
            LoggedSize::Exactly(5),
            vectors,
            LoggedSize::Unknown,
        ];
        assert_eq!(sizes, expected);
        for (file, fitting) in files.iter().zip([vec![100], vec![5], vec![78, 79], vec![0, 1]]) {
            for bytes in [0, 1, 4, 5, 77, 78, 79, 99, 100, 101] {
                let fits = file.check_size(bytes, "it").is_ok();
                let is_least =
                    matches!(file.size, LoggedSize::AtLeast(least) if bytes >= least.cast_unsigned());
                let any = file.size == LoggedSize::Unknown || is_least;
                assert_eq!(fits, any || fitting.contains(&bytes), "{file:?} {bytes}");
            }
        }
    }
}
