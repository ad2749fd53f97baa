//! A summary of a version, as far as later transactions are checked against it.

use std::collections::{BTreeSet, HashSet};

use crate::actions::{Action, Add, CommitInfo, Metadata, Protocol, parse_commit};
use crate::clustering;
use crate::error::Result;
use crate::log::{BodyDigest, Version};
use crate::row_ids;
use crate::transaction::MemberId;

/// The tag of `commitInfo` that holds the ids of a version's members, separated by commas.
pub const MEMBERS_TAG: &str = "spillway.members";

/// Operations whose deletion vectors only grow. A `RESTORE` may bring rows back.
const MARKING: [&str; 3] = ["DELETE", "UPDATE", "MERGE"];

/// A version that is in the log.
#[derive(Debug, Clone, Default)]
pub struct Winner {
    /// The version.
    pub version: Version,
    /// The digest of its body, where that was read or written.
    pub digest: Option<BodyDigest>,
    /// Its provenance, if it has a `commitInfo`.
    pub commit_info: Option<CommitInfo>,
    /// Ids of the transactions in it, if a committer of ours wrote it.
    pub members: HashSet<MemberId>,
    /// Its protocol, if it changes that.
    pub protocol: Option<Protocol>,
    /// Its metadata, if it changes that.
    pub metadata: Option<Metadata>,
    /// True if it changes rows. A compaction only moves them to other files.
    pub changes_rows: bool,
    /// Files it adds.
    pub adds: Vec<Add>,
    /// Their paths, in [`normal`](crate::path::normal) form, as all paths below.
    pub added_paths: HashSet<String>,
    /// Paths it removes.
    pub removed_paths: BTreeSet<String>,
    /// Paths it removes without changing rows (`dataChange` is false): it adds other files with their rows.
    pub moved_paths: BTreeSet<String>,
    /// Paths of files that stay in the table, of which it only marks rows as deleted.
    pub marked_paths: BTreeSet<String>,
    /// Applications whose progress it writes.
    pub app_ids: BTreeSet<String>,
    /// Domains it configures.
    pub domains: BTreeSet<String>,
    /// Columns that it clusters the table by.
    pub clustering: Vec<Vec<String>>,
    /// The highest row id that was given up to it, if it says so.
    pub high_water_mark: Option<i64>,
}

impl Winner {
    /// Parses the body of a commit.
    ///
    /// # Errors
    /// [`crate::CommitError::Malformed`] when it is not a commit, or its highest row id cannot be read.
    pub fn parse(version: Version, body: &[u8]) -> Result<Self> {
        let actions = parse_commit(body)?;
        for action in &actions {
            if let Action::DomainMetadata(domain) = action {
                row_ids::high_water_mark(domain)?;
            }
        }
        Ok(Self {
            digest: Some(BodyDigest::of(body)),
            ..Self::of(version, actions)
        })
    }

    /// The version that these actions made.
    #[must_use]
    pub fn of(version: Version, actions: Vec<Action>) -> Self {
        let mut winner = Self {
            version,
            ..Self::default()
        };
        for action in actions {
            if let Some(columns) = clustering::columns_by(&action) {
                winner.clustering = columns;
            }
            match action {
                Action::CommitInfo(info) => {
                    winner.members = info
                        .tags
                        .get(MEMBERS_TAG)
                        .into_iter()
                        .flat_map(|ids| ids.split(','))
                        .filter_map(|id| id.parse().ok())
                        .collect();
                    winner.commit_info = Some(info);
                }
                Action::Protocol(protocol) => winner.protocol = Some(protocol),
                Action::Metadata(metadata) => winner.metadata = Some(metadata),
                Action::Add(add) => {
                    winner.changes_rows |= add.data_change;
                    winner.added_paths.insert(add.normal_path().into_owned());
                    winner.adds.push(add);
                }
                Action::Remove(remove) => {
                    winner.changes_rows |= remove.data_change;
                    let path = remove.normal_path().into_owned();
                    if !remove.data_change {
                        winner.moved_paths.insert(path.clone());
                    }
                    winner.removed_paths.insert(path);
                }
                Action::Cdc(_) => {}
                Action::Txn(txn) => {
                    winner.app_ids.insert(txn.app_id);
                }
                Action::DomainMetadata(domain) => {
                    let mark = row_ids::high_water_mark(&domain).unwrap_or_default();
                    winner.high_water_mark = winner.high_water_mark.max(mark);
                    winner.domains.insert(domain.domain);
                }
            }
        }
        winner.marked_paths = winner.find_marked();
        winner
    }

    fn find_marked(&self) -> BTreeSet<String> {
        if !MARKING.contains(&self.operation()) {
            return BTreeSet::new();
        }
        let marked = self.adds.iter().filter(|add| add.deletion_vector.is_some());
        let paths = marked.map(|add| add.normal_path().into_owned());
        paths.filter(|path| self.removed_paths.contains(path)).collect()
    }

    /// Returns true if its `commitInfo` says that it only added files and read nothing.
    #[must_use]
    pub fn is_blind_append(&self) -> bool {
        self.commit_info
            .as_ref()
            .and_then(|info| info.is_blind_append)
            .unwrap_or(false)
    }

    /// Returns true if a committer of ours wrote it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        !self.members.is_empty()
    }

    /// Returns true if it changes the protocol or the metadata.
    #[must_use]
    pub fn changes_world(&self) -> bool {
        self.protocol.is_some() || self.metadata.is_some()
    }

    /// Its operation, in words for a message.
    #[must_use]
    pub fn operation(&self) -> &str {
        self.commit_info
            .as_ref()
            .and_then(|info| info.operation.as_deref())
            .unwrap_or("an unnamed operation")
    }
}
