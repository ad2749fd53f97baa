//! Changes of rows that meet in one process share a version.
//!
//! They depend on nothing of each other: none would be refused if any of the others were in a version before it. So
//! every order of them is one that explains the version.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use delta_commit::actions::{Action, Add, CommitInfo, DeletionVector};
use delta_commit::log::StoreErrorKind;
use delta_commit::winner::Winner;
use delta_commit::{CommitError, MemberId, Operation, ReadSet, Transaction, Version, WaitLimit, conflict};
use serde_json::Value;

use crate::deletion_vectors;
use crate::error::Result;
use crate::group_commit::{self, GroupMember, GroupQueue, Grouped, Split};
use crate::row_merge::RowMerge;
use crate::scan::FoundRows;
use crate::storage::TableStorage;
use crate::table::SharedTable;

use super::note_files;

/// The most changes of one version. Each is compared with each other.
const MOST: usize = 64;

/// The most actions of a version that changes share.
const MOST_ACTIONS: usize = 5_000;

/// The most predicates of changes that the history shows of one version.
const MOST_SHOWN: usize = 8;

/// Commits a change of rows, in one version with others that come meanwhile.
pub(super) fn commit(
    shared: &Arc<SharedTable>,
    transaction: Transaction,
    merge: &Arc<RowMerge>,
    wait: &mut WaitLimit<'_>,
) -> Result<Version> {
    if transaction.actions.len() > MOST_ACTIONS {
        return shared.commit(transaction, wait);
    }
    let change = GroupedChange::new(transaction, Arc::clone(merge));
    match group_commit::commit(shared, change, wait) {
        Ok(done) => done,
        Err(alone) => shared.commit(alone.transaction.clone(), wait),
    }
}

/// A change that may be in one version with others.
pub(crate) struct GroupedChange {
    transaction: Transaction,
    merge: Arc<RowMerge>,
    /// The version that it would be, once it is compared with others.
    winner: OnceLock<Winner>,
    /// True if it has change data files. Readers look at these alone, so that those of one version say all of it.
    has_changes: bool,
    /// False if it has a vector that no merge may add to, or anything else than files.
    may_join: bool,
}

impl GroupedChange {
    fn new(transaction: Transaction, merge: Arc<RowMerge>) -> Self {
        let may_join = |action: &Action| match action {
            Action::Add(add) => {
                add.deletion_vector.is_none() || merge.files().contains_key(add.normal_path().as_ref())
            }
            Action::Remove(_) | Action::Cdc(_) => true,
            _ => false,
        };
        Self {
            has_changes: transaction
                .actions
                .iter()
                .any(|action| matches!(action, Action::Cdc(_))),
            may_join: transaction.actions.iter().all(may_join),
            winner: OnceLock::new(),
            merge,
            transaction,
        }
    }

    fn winner(&self) -> &Winner {
        self.winner.get_or_init(|| {
            let info = CommitInfo {
                operation: Some(self.transaction.operation.name.clone()),
                ..CommitInfo::default()
            };
            let actions = self.transaction.actions.iter().cloned();
            let actions = std::iter::once(Action::CommitInfo(info)).chain(actions);
            Winner::of(self.transaction.read_version, actions.collect())
        })
    }

    /// Returns true if both can be in one version, in any order: neither has a conflict with the other, and they mark
    /// different rows.
    fn commutes_with(&self, other: &Self) -> bool {
        self.may_join
            && other.may_join
            && self.has_changes == other.has_changes
            && is_alike(&self.transaction, &other.transaction)
            && conflict::check(&self.transaction, other.winner()).is_ok()
            && conflict::check(&other.transaction, self.winner()).is_ok()
            && self.merge.is_disjoint(&other.merge)
    }
}

/// The transaction of a group.
pub(crate) struct UnitedChanges {
    transaction: Transaction,
    /// The merge of several; none for one, which has its own.
    merge: Option<Arc<RowMerge>>,
}

impl Grouped for GroupedChange {
    const THREAD: &'static str = "spillway-changes";
    const MOST_SEEN: usize = 2 * MOST;

    type United = UnitedChanges;

    fn queue(shared: &SharedTable) -> &GroupQueue<Self> {
        &shared.changes
    }

    fn joins(&self, group: &[Arc<GroupMember<Self>>]) -> bool {
        let changes = || group.iter().map(|member| &member.request);
        let actions: usize = changes().map(|change| change.transaction.actions.len()).sum();
        group.len() < MOST
            && actions + self.transaction.actions.len() <= MOST_ACTIONS
            && changes().all(|change| self.commutes_with(change))
    }

    fn unite(
        shared: &Arc<SharedTable>,
        group: &[Arc<GroupMember<Self>>],
        _: &mut dyn FnMut() -> bool,
    ) -> Result<UnitedChanges> {
        let changes: Vec<&Self> = group.iter().map(|member| &member.request).collect();
        if let [only] = changes[..] {
            return Ok(UnitedChanges {
                transaction: only.transaction.clone(),
                merge: None,
            });
        }
        let (transaction, merge) = united(&shared.storage, &changes)?;
        Ok(UnitedChanges {
            transaction,
            merge: Some(merge),
        })
    }

    fn commit(
        united: &mut UnitedChanges,
        shared: &Arc<SharedTable>,
        wait: &mut WaitLimit<'_>,
        _: &mut dyn FnMut() -> bool,
        tries: &dyn Fn(),
    ) -> Result<Version> {
        tries();
        shared.commit(united.transaction.clone(), wait)
    }

    fn committed(united: UnitedChanges, group: &[Arc<GroupMember<Self>>]) {
        // The version has deletion vectors of all of them.
        if united.merge.is_some() {
            for member in group {
                member.request.merge.remove();
            }
        }
    }

    fn rejected(united: UnitedChanges) {
        if let Some(merge) = united.merge {
            merge.remove();
        }
    }

    /// A conflict is that of one of them or of a few. Without the store, none can be committed. All else may be due to
    /// the files of one.
    fn split(error: &CommitError) -> Option<Split> {
        match error {
            CommitError::Conflict(_) => Some(Split::Halves),
            CommitError::Store(error) if error.kind == StoreErrorKind::Transient => None,
            _ => Some(Split::Each),
        }
    }
}

/// Returns true if the history has the same to say of both.
fn is_alike(one: &Transaction, other: &Transaction) -> bool {
    one.isolation == other.isolation
        && one.operation.name == other.operation.name
        && one.operation.user_metadata == other.operation.user_metadata
        && one.operation.loses_row_ids == other.operation.loses_row_ids
}

/// The transaction of all of them, which commute. The rows of each file are marked in a vector of its own, none of the
/// members'.
fn united(
    storage: &Arc<dyn TableStorage>,
    changes: &[&GroupedChange],
) -> Result<(Transaction, Arc<RowMerge>)> {
    let files = marked(changes);
    let mut left = Vec::new();
    let mut rows = Vec::new();
    for (path, (_, found)) in &files {
        let all = &found.deleted | &found.matching;
        if all.len() < found.rows {
            left.push(path.as_str());
            rows.push(all);
        }
    }
    let written = deletion_vectors::write(storage, &rows)?;
    let vectors: BTreeMap<&str, DeletionVector> = left.into_iter().zip(written.vectors).collect();
    let mut all = Transaction::append(MemberId::random(), 0, Vec::new());
    for (number, change) in changes.iter().enumerate() {
        // A file that several mark has one entry, that of the change which read the newest version.
        let is_stated = |path: &str| files.get(path).is_none_or(|(newest, _)| *newest == number);
        for action in &change.transaction.actions {
            match action {
                Action::Remove(remove) if !is_stated(&remove.normal_path()) => {}
                Action::Add(add) if !is_stated(&add.normal_path()) => {}
                Action::Add(add) if files.contains_key(add.normal_path().as_ref()) => {
                    let vector = vectors.get(add.normal_path().as_ref());
                    all.actions.extend(vector.map(|vector| {
                        Action::Add(Add {
                            deletion_vector: Some(vector.clone()),
                            ..add.clone()
                        })
                    }));
                }
                other => all.actions.push(other.clone()),
            }
        }
        read(&mut all.reads, &change.transaction.reads);
        let own = change.merge.vector_files();
        let unsynced = change.transaction.unsynced.iter();
        all.unsynced
            .extend(unsynced.filter(|path| !own.contains(*path)).cloned());
    }
    let transactions: Vec<&Transaction> = changes.iter().map(|change| &change.transaction).collect();
    if let Some(first) = transactions.first() {
        all.isolation = first.isolation;
        all.operation = operation(&first.operation, &transactions);
    }
    // What one of them read later counts as missed: that may refuse them together, and lets nothing pass.
    let read = transactions.iter().map(|transaction| transaction.read_version);
    all.read_version = read.min().unwrap_or_default();
    note_files(&mut all);
    if !storage.keeps() {
        all.unsynced.extend(written.files.iter().cloned());
    }
    let files = files.into_iter().map(|(path, (_, found))| (path, found));
    let merge = RowMerge::new(storage, files.collect(), written.files);
    all.marks = Some(merge.marks());
    Ok((all, merge))
}

/// The rows of each file that one of the changes marks, and the number of the change that read the newest version of
/// these.
fn marked(changes: &[&GroupedChange]) -> BTreeMap<String, (usize, FoundRows)> {
    let mut files = BTreeMap::<String, (usize, FoundRows)>::new();
    let read = |number: usize| changes[number].transaction.read_version;
    for (number, change) in changes.iter().enumerate() {
        for (path, found) in change.merge.files() {
            let Some((newest, all)) = files.get_mut(path) else {
                files.insert(path.clone(), (number, found.clone()));
                continue;
            };
            all.deleted |= &found.deleted;
            all.matching |= &found.matching;
            if read(number) > read(*newest) {
                *newest = number;
            }
        }
    }
    files
}

fn read(all: &mut ReadSet, one: &ReadSet) {
    all.whole_table |= one.whole_table;
    all.predicates.extend(one.predicates.iter().cloned());
    all.files.extend(one.files.iter().cloned());
    all.app_ids.extend(one.app_ids.iter().cloned());
}

/// The operation of all of them: what is the same of each, predicates one beside the other, and counts summed.
fn operation(first: &Operation, all: &[&Transaction]) -> Operation {
    let mut operation = first.clone();
    operation.parameters.retain(|name, value| {
        let mut each = all.iter().map(|one| one.operation.parameters.get(name));
        if each.all(|other| other == Some(value)) {
            return true;
        }
        let each = all.iter().filter_map(|one| one.operation.parameters.get(name));
        match any_of(&each.collect::<Vec<_>>()) {
            Some(any) if name == "predicate" => *value = any,
            _ => return false,
        }
        true
    });
    for (name, sum) in &mut operation.metrics {
        let each = all
            .iter()
            .filter_map(|one| one.operation.metrics.get(name)?.parse().ok());
        let each: Vec<i64> = each.collect();
        // Their times are those of threads side by side.
        let total = if name.ends_with("TimeMs") {
            each.iter().max().copied().unwrap_or_default()
        } else {
            each.iter().sum()
        };
        *sum = total.to_string();
    }
    operation
}

/// A predicate that holds where one of these does, each a list of texts in JSON.
fn any_of(predicates: &[&String]) -> Option<String> {
    let mut shown = Vec::new();
    for predicate in predicates.iter().take(MOST_SHOWN) {
        let texts: Vec<String> = serde_json::from_str(predicate).ok()?;
        shown.push(match texts.as_slice() {
            [] => "(true)".to_owned(),
            [only] => only.clone(),
            several => format!("({})", several.join(" AND ")),
        });
    }
    let more = predicates.len() - shown.len();
    if more > 0 {
        shown.push(format!("... {more} more"));
    }
    Some(Value::from(vec![shown.join(" OR ")]).to_string())
}
