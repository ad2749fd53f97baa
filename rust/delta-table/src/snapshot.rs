//! A snapshot: the state of a table at one version, from its log read in order.

use std::collections::BTreeMap;
use std::sync::Arc;

use delta_commit::actions::{Action, Add, DeletionVector, DomainMetadata, Metadata, Protocol, Remove, Txn};
use delta_commit::log::BEFORE_FIRST;
use delta_commit::{Isolation, Version};

use serde_json::Value;

use crate::error::{Result, TableError};
use crate::schema::{Column, TableSchema};

/// A table at one version.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The version.
    pub version: Version,
    /// The versions and features that readers and writers of the table must implement.
    pub protocol: Protocol,
    /// Schema, partitioning and properties.
    pub metadata: Arc<Metadata>,
    /// The schema of `metadata`, parsed.
    pub schema: Arc<TableSchema>,
    /// Its files and the rest of the state that versions add up to.
    pub contents: Contents,
    /// The last version that changed metadata or protocol.
    pub changed_in: Version,
    /// The version's in-commit timestamp, where the table has them.
    pub in_commit_timestamp: Option<i64>,
}

/// The state that the actions of all versions add up to.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// Files in the table, by path and deletion vector.
    pub files: BTreeMap<String, Arc<Add>>,
    /// Files that left it.
    pub tombstones: BTreeMap<String, Arc<Remove>>,
    /// The last transaction version of each application.
    pub transactions: BTreeMap<String, Txn>,
    /// Configured domains.
    pub domains: BTreeMap<String, DomainMetadata>,
}

/// The key of a file's entry: its path and its deletion vector.
fn key(path: &str, vector: Option<&DeletionVector>) -> String {
    vector.map_or_else(
        || path.to_owned(),
        |vector| format!("{path}\0{}", vector.unique_id()),
    )
}

impl Contents {
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
            Action::DomainMetadata(domain) if domain.removed => {
                self.domains.remove(&domain.domain);
            }
            Action::DomainMetadata(domain) => {
                self.domains.insert(domain.domain.clone(), domain);
            }
            Action::CommitInfo(_) | Action::Protocol(_) | Action::Metadata(_) | Action::Cdc(_) => {}
        }
    }
}

/// The replay of versions, from a checkpoint or from the first version on.
#[derive(Debug)]
pub(crate) struct Replay {
    version: Version,
    protocol: Option<Protocol>,
    metadata: Option<Metadata>,
    contents: Contents,
    changed_in: Version,
    in_commit_timestamp: Option<i64>,
}

impl Replay {
    pub fn new() -> Self {
        Self {
            version: BEFORE_FIRST,
            protocol: None,
            metadata: None,
            contents: Contents::default(),
            changed_in: BEFORE_FIRST,
            in_commit_timestamp: None,
        }
    }

    /// Adds the actions of a checkpoint, or of a part of it.
    pub fn checkpoint(&mut self, version: Version, changed_in: Version, actions: Vec<Action>) {
        self.commit(version, actions);
        self.changed_in = changed_in;
    }

    /// Takes in the next version.
    pub fn commit(&mut self, version: Version, actions: Vec<Action>) {
        self.version = version;
        for action in ordered(actions) {
            match action {
                // Who repeats them changes nothing, as the committer sees it too.
                Action::Protocol(protocol) => {
                    if self.protocol.as_ref() != Some(&protocol) {
                        self.changed_in = version;
                    }
                    self.protocol = Some(protocol);
                }
                Action::Metadata(metadata) => {
                    if self.metadata.as_ref() != Some(&metadata) {
                        self.changed_in = version;
                    }
                    self.metadata = Some(metadata);
                }
                Action::CommitInfo(info) => self.in_commit_timestamp = info.in_commit_timestamp,
                other => self.contents.apply(other),
            }
        }
    }

    pub fn version(&self) -> Version {
        self.version
    }

    /// The table at the last version that was replayed.
    ///
    /// # Errors
    /// When no version held a protocol or metadata, or they ask for what is not built.
    pub fn finish(self) -> Result<Snapshot> {
        let (Some(protocol), Some(metadata)) = (self.protocol, self.metadata) else {
            return Err(TableError::Malformed(format!(
                "the log up to version {} holds no protocol or no metadata: it is not whole",
                self.version
            )));
        };
        check_readable(&protocol, &metadata)?;
        Ok(Snapshot {
            version: self.version,
            schema: Arc::new(TableSchema::parse(&metadata.schema_string)?),
            protocol,
            metadata: Arc::new(metadata),
            contents: self.contents,
            changed_in: self.changed_in,
            in_commit_timestamp: self.in_commit_timestamp,
        })
    }
}

/// Orders removals first. A version that replaces a file under its own path keeps the new entry.
fn ordered(mut actions: Vec<Action>) -> Vec<Action> {
    actions.sort_by_key(|action| !matches!(action, Action::Remove(_)));
    actions
}

/// Metadata keys of columns whose values a writer must compute or check.
const COMPUTED: [&str; 3] = [
    "delta.generationExpression",
    "delta.identity.start",
    "delta.invariants",
];

impl Snapshot {
    /// The same table one version later.
    pub(crate) fn advance(&mut self, version: Version, actions: Vec<Action>) -> Result<()> {
        let mut schema = None;
        let (mut protocol, mut metadata) = (&self.protocol, self.metadata.as_ref());
        for action in &actions {
            match action {
                Action::Protocol(next) => protocol = next,
                Action::Metadata(next) => {
                    schema = Some(Arc::new(TableSchema::parse(&next.schema_string)?));
                    metadata = next;
                }
                _ => {}
            }
        }
        check_readable(protocol, metadata)?;
        for action in ordered(actions) {
            match action {
                Action::Protocol(protocol) if protocol != self.protocol => {
                    self.protocol = protocol;
                    self.changed_in = version;
                }
                Action::Metadata(metadata) if metadata != *self.metadata => {
                    self.metadata = Arc::new(metadata);
                    self.changed_in = version;
                }
                Action::CommitInfo(info) => self.in_commit_timestamp = info.in_commit_timestamp,
                other => self.contents.apply(other),
            }
        }
        if let Some(schema) = schema {
            self.schema = schema;
        }
        self.version = version;
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

    /// A table property.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&str> {
        self.metadata.configuration.get(name).map(String::as_str)
    }

    /// The table's isolation level.
    ///
    /// # Errors
    /// When the property names no level.
    pub fn isolation(&self) -> Result<Isolation> {
        match self.property("delta.isolationLevel") {
            None => Ok(Isolation::Serializable),
            Some(name) if name.eq_ignore_ascii_case("Serializable") => Ok(Isolation::Serializable),
            Some(name) if name.eq_ignore_ascii_case("WriteSerializable") => Ok(Isolation::WriteSerializable),
            Some(name) => Err(TableError::unsupported(format!(
                "delta.isolationLevel={name:?} is not accepted: set it to Serializable or WriteSerializable"
            ))),
        }
    }

    /// Refuses removals where only appends are allowed.
    pub(crate) fn check_removable(&self, what: &'static str) -> Result<()> {
        if self.metadata.is_enabled("delta.appendOnly") {
            return Err(TableError::AppendOnly(what));
        }
        Ok(())
    }

    /// Refuses a table whose writer features are not implemented.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.protocol.check_writable()?;
        let features = self.protocol.writer_features.iter().flatten();
        for feature in features {
            // Its writers give every file row ids.
            if feature == "rowTracking" {
                return Err(TableError::unsupported(
                    "the table has the feature rowTracking, which is not built: write it with Spark",
                ));
            }
        }
        for (name, value) in &self.metadata.configuration {
            let constrains = name.starts_with("delta.constraints.");
            let maps = name == "delta.columnMapping.mode" && !value.eq_ignore_ascii_case("none");
            if constrains || maps {
                return Err(TableError::unsupported(format!(
                    "the table has the property {name}={value:?}, which is not built: write it with Spark"
                )));
            }
        }
        if let Some((column, rule)) = computed(&self.schema.columns) {
            return Err(TableError::unsupported(format!(
                "the column {:?} has {rule}, which is not built: write the table with Spark",
                column.name
            )));
        }
        Ok(())
    }

    /// Refuses a table whose files have its columns under other names.
    pub(crate) fn check_names(&self) -> Result<()> {
        match self.property("delta.columnMapping.mode") {
            Some(mode) if !mode.eq_ignore_ascii_case("none") => Err(TableError::unsupported(format!(
                "the table has delta.columnMapping.mode={mode:?}, so its files name columns otherwise, and reading them \
                 is not built: read it with Spark, polars or DuckDB"
            ))),
            _ => Ok(()),
        }
    }

    /// Returns true if the table's rows are clustered by columns.
    pub(crate) fn is_clustered(&self) -> bool {
        self.protocol
            .writer_features
            .iter()
            .flatten()
            .any(|feature| feature == CLUSTERING)
    }

    /// Refuses operations that would change a clustered table's schema, or lose its clustering.
    pub(crate) fn check_not_clustered(&self, what: &'static str) -> Result<()> {
        if self.is_clustered() {
            return Err(TableError::unsupported(format!(
                "the table has the feature {CLUSTERING}, with which {what} is not built: append to it, or do this with \
                 Spark"
            )));
        }
        Ok(())
    }

    /// Refuses operations that a change data feed would report wrongly.
    pub(crate) fn check_rewritable(&self) -> Result<()> {
        if self.metadata.is_enabled("delta.enableChangeDataFeed") {
            return Err(TableError::unsupported(
                "the table has a change data feed (delta.enableChangeDataFeed=true), which would tell of a rewrite that \
                 every row was deleted and inserted: files that say what changed are not built. Where no row changes, \
                 add files with data_change=False; otherwise rewrite them with Spark",
            ));
        }
        Ok(())
    }

    /// The columns that the table's rows are clustered by, each a path from the top.
    ///
    /// # Errors
    /// [`delta_commit::CommitError::Unsupported`] when they cannot be understood: every file needs statistics of them.
    pub(crate) fn clustering(&self) -> Result<Vec<Vec<String>>> {
        let domain = self.contents.domains.get(CLUSTERING_DOMAIN);
        let Some(domain) = domain.filter(|_| self.is_clustered()) else {
            return Ok(Vec::new());
        };
        let leaves = self.schema.leaves(&[]);
        clustering_columns(&domain.configuration)
            .filter(|columns| columns.iter().all(|column| leaves.iter().any(|leaf| leaf.path == *column)))
            .ok_or_else(|| {
                TableError::unsupported(format!(
                    "the table has the feature {CLUSTERING}, and it cannot be understood by which columns: {}",
                    domain.configuration
                ))
            })
    }
}

/// The feature of tables whose rows are clustered by columns.
const CLUSTERING: &str = "clustering";

/// The domain that names the clustering columns.
const CLUSTERING_DOMAIN: &str = "delta.clustering";

/// The columns in the configuration of the domain: each a list of names from the top, or one name.
fn clustering_columns(configuration: &str) -> Option<Vec<Vec<String>>> {
    let value: Value = serde_json::from_str(configuration).ok()?;
    let columns = value.get("clusteringColumns")?.as_array()?;
    columns
        .iter()
        .map(|column| match column {
            Value::String(name) => Some(vec![name.clone()]),
            Value::Array(path) => path.iter().map(|name| name.as_str().map(str::to_owned)).collect(),
            _ => None,
        })
        .collect()
}

/// The first column at any depth whose values are computed or checked, and the metadata key that asks for it.
fn computed(columns: &[Column]) -> Option<(&Column, &'static str)> {
    columns.iter().find_map(|column| {
        let rule = COMPUTED.iter().find(|rule| column.metadata.contains_key(**rule));
        let below = || column.kind.structs().into_iter().find_map(computed);
        rule.map(|rule| (column, *rule)).or_else(below)
    })
}

/// Refuses a table whose reader features are not implemented.
fn check_readable(protocol: &Protocol, metadata: &Metadata) -> Result<()> {
    // Column mapping is one of them where nothing is mapped.
    const READABLE: [&str; 5] = [
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    ];
    let unknown: Vec<&str> = protocol
        .reader_features
        .iter()
        .flatten()
        .map(String::as_str)
        .filter(|feature| !READABLE.contains(feature))
        .collect();
    if !unknown.is_empty() {
        return Err(TableError::unsupported(format!(
            "the table asks its readers for the features {}; known are {}",
            unknown.join(", "),
            READABLE.join(", ")
        )));
    }
    if !matches!(protocol.min_reader_version, 1..=3) {
        return Err(TableError::unsupported(format!(
            "the table asks for reader version {}; known are 1, 2, and 3 with named features",
            protocol.min_reader_version
        )));
    }
    let mode = metadata.configuration.get("delta.columnMapping.mode");
    if let Some(mode) =
        mode.filter(|mode| protocol.min_reader_version > 1 && !mode.eq_ignore_ascii_case("none"))
    {
        return Err(TableError::unsupported(format!(
            "the table has the feature columnMapping with delta.columnMapping.mode={mode:?}, which is not built: read \
             it with Spark"
        )));
    }
    Ok(())
}
