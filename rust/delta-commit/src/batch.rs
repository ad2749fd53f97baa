//! A batch: the members of one attempt at one version, and its bytes.

use std::collections::{BTreeMap, HashSet};

use crate::actions::{Action, CommitInfo};
use crate::error::Result;
use crate::intent::PreparedAppend;
use crate::log::{BodyDigest, Time, Version};
use crate::row_ids::{PRESERVED_TAG, RowIds, RowTracking};
use crate::transaction::Operation;
use crate::winner::{MEMBERS_TAG, Winner};

/// The most actions of a batch, except for a single transaction that has more.
pub const MAX_ACTIONS: usize = 5_000;

/// The most bytes of a batch, except for a single transaction that has more.
pub const MAX_BYTES: usize = 4 << 20;

/// Members of one version, none twice.
#[derive(Debug, Default)]
pub(crate) struct CommitBatch {
    members: Vec<PreparedAppend>,
    actions: usize,
    bytes: usize,
    taken: HashSet<String>,
    dedupe: bool,
}

impl CommitBatch {
    pub(crate) fn new(dedupe: bool) -> Self {
        Self {
            dedupe,
            ..Self::default()
        }
    }

    /// Returns true if the member fits into the batch by its actions and bytes. An empty batch takes any member.
    pub(crate) fn has_room_for(&self, member: &PreparedAppend) -> bool {
        self.members.is_empty()
            || (self.actions + member.transaction.actions.len() <= MAX_ACTIONS
                && self.bytes + member.lines.len() <= MAX_BYTES)
    }

    /// Takes a member, unless its id, one of its paths or one of its applications is in the batch.
    pub(crate) fn take(&mut self, member: &PreparedAppend) -> bool {
        let keys = keys(member);
        if self.dedupe && keys.iter().any(|key| self.taken.contains(key)) {
            return false;
        }
        self.taken.extend(keys);
        self.actions += member.transaction.actions.len();
        self.bytes += member.lines.len();
        self.members.push(member.clone());
        true
    }

    fn commit_info(&self, version: Version, time: Time, in_commit: Option<i64>) -> CommitInfo {
        let ids: Vec<String> = self.members.iter().map(|m| m.id().to_string()).collect();
        let first = self.members.first().map(|member| &member.transaction);
        let operation = match self.members.as_slice() {
            [only] => only.transaction.operation.clone(),
            _ => Operation {
                metrics: self.summed_metrics(),
                ..Operation::append()
            },
        };
        CommitInfo {
            in_commit_timestamp: in_commit,
            timestamp: Some(in_commit.unwrap_or(time.wall)),
            operation: Some(operation.name),
            operation_parameters: operation.parameters,
            read_version: Some(
                self.members
                    .iter()
                    .map(|member| member.transaction.read_version)
                    .min()
                    .unwrap_or(version - 1),
            )
            .filter(|read| *read >= 0),
            isolation_level: first.map(|t| t.effective_isolation().name().to_owned()),
            is_blind_append: Some(self.members.iter().all(|m| m.transaction.is_blind_append())),
            operation_metrics: operation.metrics,
            user_metadata: self.user_metadata(),
            tags: BTreeMap::from([(MEMBERS_TAG.to_owned(), ids.join(","))]),
            engine_info: Some(concat!("Spillway/", env!("CARGO_PKG_VERSION")).to_owned()),
            txn_id: match self.members.as_slice() {
                [only] => Some(only.id().to_string()),
                _ => None,
            },
        }
    }

    /// The members' notes, each once, one per line: a combined version has a single field for them.
    fn user_metadata(&self) -> Option<String> {
        let mut notes: Vec<&str> = Vec::new();
        for member in &self.members {
            let note = member.transaction.operation.user_metadata.as_deref();
            notes.extend(note.filter(|note| !notes.contains(note)));
        }
        (!notes.is_empty()).then(|| notes.join("\n"))
    }

    /// The members' counts, summed where they are whole numbers.
    fn summed_metrics(&self) -> BTreeMap<String, String> {
        let mut sums = BTreeMap::<&str, i64>::new();
        for member in &self.members {
            for (name, value) in &member.transaction.operation.metrics {
                if let Ok(value) = value.parse::<i64>() {
                    *sums.entry(name).or_default() += value;
                }
            }
        }
        sums.into_iter()
            .map(|(name, sum)| (name.to_owned(), sum.to_string()))
            .collect()
    }

    /// Makes the version's body, and its summary for the check of later transactions.
    ///
    /// # Errors
    /// [`CommitError::Invalid`](crate::CommitError::Invalid) when its files get row ids, and one cannot.
    pub(crate) fn seal(
        &self,
        version: Version,
        time: Time,
        in_commit: Option<i64>,
        tracking: Option<RowTracking>,
    ) -> Result<(Vec<u8>, Winner)> {
        let mut info = self.commit_info(version, time, in_commit);
        if tracking.is_some_and(|tracking| tracking.is_enabled) {
            let mut operations = self.members.iter().map(|member| &member.transaction.operation);
            let keeps = !operations.any(|operation| operation.loses_row_ids);
            info.tags.insert(PRESERVED_TAG.to_owned(), keeps.to_string());
        }
        let info = Action::CommitInfo(info);
        let mut body = String::with_capacity(self.bytes + 1_024 + 33 * self.members.len());
        body.push_str(&info.to_line()?);
        body.push('\n');
        let mut actions = vec![info];
        if let Some(tracking) = tracking {
            for action in self.with_row_ids(version, tracking)? {
                body.push_str(&action.to_line()?);
                body.push('\n');
                actions.push(action);
            }
        } else {
            for member in &self.members {
                body.push_str(&member.lines);
                actions.extend(member.transaction.actions.iter().cloned());
            }
        }
        let body = body.into_bytes();
        let winner = Winner {
            digest: Some(BodyDigest::of(&body)),
            ..Winner::of(version, actions)
        };
        Ok((body, winner))
    }

    /// R12: the members' actions, with row ids that no version before has given.
    fn with_row_ids(&self, version: Version, tracking: RowTracking) -> Result<Vec<Action>> {
        let mut ids = RowIds::of(version, tracking);
        let mut actions = Vec::with_capacity(self.actions + 1);
        for member in &self.members {
            let new = member.transaction.is_blind_append();
            for action in &member.transaction.actions {
                actions.push(match action {
                    Action::Add(add) => Action::Add(ids.give(add.clone(), new)?),
                    other => other.clone(),
                });
            }
        }
        actions.extend(ids.domain()?);
        Ok(actions)
    }
}

fn keys(member: &PreparedAppend) -> Vec<String> {
    let transaction = &member.transaction;
    let paths = transaction
        .added_normal_paths()
        .map(|path| format!("path {path}"));
    let apps = transaction.written_app_ids().map(|app| format!("app {app}"));
    std::iter::once(format!("id {}", member.id()))
        .chain(paths)
        .chain(apps)
        .collect()
}
