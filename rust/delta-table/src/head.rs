//! The head of a table: all that a version says of it but its files.
//!
//! An append needs no more. From a checkpoint it is read by columns, one row group at a time, and from versions line by
//! line. What is kept does not depend on the number of files of the table; a version is in memory while it is read.

use std::collections::BTreeMap;
use std::sync::Arc;

use delta_commit::actions::{Action, DomainMetadata, Metadata, Protocol};
use delta_commit::log::BEFORE_FIRST;
use delta_commit::{Isolation, Version};

use crate::change_feed::CHANGE_FEED;
use crate::checkpoint;
use crate::clustering;
use crate::constraints::Constraints;
use crate::error::{Result, TableError};
use crate::log_dir::{LogDir, Replaying};
use crate::mapping::{MODE, Mapping};
use crate::row_ids;
use crate::schema::{TableColumn, TableSchema};
use crate::widening;

/// The protocol, the metadata and the domains of a table at one version. A copy is cheap.
#[derive(Debug, Clone)]
pub struct TableHead {
    /// The version.
    pub version: Version,
    /// The versions and features that readers and writers of the table must implement.
    pub protocol: Protocol,
    /// Schema, partitioning and properties.
    pub metadata: Arc<Metadata>,
    /// The schema of `metadata`, parsed.
    pub schema: Arc<TableSchema>,
    /// The way in which its columns are found in files.
    pub mapping: Mapping,
    /// Configured domains.
    pub domains: Arc<BTreeMap<String, DomainMetadata>>,
    /// The last version that changed metadata or protocol.
    pub changed_in: Version,
    /// The version's in-commit timestamp, where the table has them.
    pub in_commit_timestamp: Option<i64>,
}

/// The replay of heads, from a checkpoint or from the first version on.
#[derive(Debug)]
pub(crate) struct HeadReplay {
    version: Version,
    protocol: Option<Protocol>,
    metadata: Option<Metadata>,
    domains: BTreeMap<String, DomainMetadata>,
    changed_in: Version,
    in_commit_timestamp: Option<i64>,
}

impl HeadReplay {
    pub fn new() -> Self {
        Self {
            version: BEFORE_FIRST,
            protocol: None,
            metadata: None,
            domains: BTreeMap::new(),
            changed_in: BEFORE_FIRST,
            in_commit_timestamp: None,
        }
    }

    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns true if protocol and metadata are known.
    pub fn is_whole(&self) -> bool {
        self.protocol.is_some() && self.metadata.is_some()
    }

    /// Begins the next version.
    pub fn begin(&mut self, version: Version) {
        self.version = version;
    }

    /// Replaces the last version that changed metadata or protocol, which a checkpoint does not hold.
    pub fn set_changed_in(&mut self, version: Version) {
        self.changed_in = version;
    }

    /// Takes an action of the version in, or returns one that is not of the head.
    pub fn take(&mut self, action: Action) -> Option<Action> {
        match action {
            // Stating them again unchanged is no change; the committer agrees.
            Action::Protocol(protocol) => {
                if self.protocol.as_ref() != Some(&protocol) {
                    self.changed_in = self.version;
                }
                self.protocol = Some(protocol);
            }
            Action::Metadata(metadata) => {
                if self.metadata.as_ref() != Some(&metadata) {
                    self.changed_in = self.version;
                }
                self.metadata = Some(metadata);
            }
            Action::CommitInfo(info) => self.in_commit_timestamp = info.in_commit_timestamp,
            Action::DomainMetadata(domain) => set_domain(&mut self.domains, domain),
            other => return Some(other),
        }
        None
    }

    /// The head at the last version that was replayed.
    ///
    /// # Errors
    /// An error if no version held a protocol or metadata, or they ask for what is not built.
    pub fn finish(self) -> Result<TableHead> {
        let (Some(protocol), Some(metadata)) = (self.protocol, self.metadata) else {
            return Err(TableError::Malformed(format!(
                "the log up to version {} holds no protocol or no metadata: it is not whole",
                self.version
            )));
        };
        let (mapping, schema) = readable(&protocol, &metadata)?;
        Ok(TableHead {
            version: self.version,
            schema,
            mapping,
            protocol,
            metadata: Arc::new(metadata),
            domains: Arc::new(self.domains),
            changed_in: self.changed_in,
            in_commit_timestamp: self.in_commit_timestamp,
        })
    }
}

fn set_domain(domains: &mut BTreeMap<String, DomainMetadata>, domain: DomainMetadata) {
    if domain.removed {
        domains.remove(&domain.domain);
    } else {
        domains.insert(domain.domain.clone(), domain);
    }
}

/// A head, and how far each application has come.
#[derive(Debug)]
pub(crate) struct KnownHead {
    pub head: Arc<TableHead>,
    progress: AppVersions,
}

/// The last transaction version of each application.
type AppVersions = BTreeMap<String, i64>;

impl KnownHead {
    /// A head of which no application has written.
    pub fn new(head: TableHead) -> Self {
        Self {
            head: Arc::new(head),
            progress: AppVersions::new(),
        }
    }

    /// The last transaction version of an application.
    pub fn transaction_version(&self, app_id: &str) -> Option<i64> {
        self.progress.get(app_id).copied()
    }

    /// Takes the next version in.
    ///
    /// # Errors
    /// An error if the version asks its readers for what is not built.
    pub fn advance(&mut self, version: Version, actions: Vec<Action>) -> Result<()> {
        let rest = Arc::make_mut(&mut self.head).advance(version, actions)?;
        note(&mut self.progress, rest);
        Ok(())
    }
}

fn note(progress: &mut AppVersions, actions: impl IntoIterator<Item = Action>) {
    for action in actions {
        if let Action::Txn(txn) = action {
            progress.insert(txn.app_id, txn.version);
        }
    }
}

/// The replay of what an append needs.
pub(crate) struct KnownReplay {
    head: HeadReplay,
    progress: AppVersions,
}

impl Replaying for KnownReplay {
    type Done = KnownHead;

    const READ_AGAIN: bool = true;

    fn new() -> Self {
        Self {
            head: HeadReplay::new(),
            progress: AppVersions::new(),
        }
    }

    fn version(&self) -> Version {
        self.head.version()
    }

    fn has_head(&self) -> bool {
        self.head.is_whole()
    }

    fn checkpoint(&mut self, log: &LogDir, name: &str, version: Version, changed_in: Version) -> Result<()> {
        self.head.begin(version);
        let actions = match checkpoint::read_head(log, name) {
            // Who writes it anew meanwhile exchanges the file between two ranges. One reading of all of it is whole.
            Err(error) if !error.is_transient() => checkpoint::read(log, name)?,
            done => done?,
        };
        let rest: Vec<Action> = actions
            .into_iter()
            .filter(|action| !is_of_files(action))
            .filter_map(|action| self.head.take(action))
            .collect();
        note(&mut self.progress, rest);
        self.head.set_changed_in(changed_in);
        Ok(())
    }

    fn commit(&mut self, log: &LogDir, version: Version, body: &[u8]) -> Result<()> {
        self.head.begin(version);
        let actions = but_files(log, version, body)?;
        let rest: Vec<Action> = actions
            .into_iter()
            .filter_map(|action| self.head.take(action))
            .collect();
        note(&mut self.progress, rest);
        Ok(())
    }

    fn finish(self) -> Result<KnownHead> {
        Ok(KnownHead {
            head: Arc::new(self.head.finish()?),
            progress: self.progress,
        })
    }
}

pub(crate) fn is_of_files(action: &Action) -> bool {
    matches!(action, Action::Add(_) | Action::Remove(_) | Action::Cdc(_))
}

/// The actions of a version that are not about files. Those are looked at one by one, since a damaged version must be
/// found, and none is kept.
pub(crate) fn but_files(log: &LogDir, version: Version, body: &[u8]) -> Result<Vec<Action>> {
    let mut kept = Vec::new();
    log.each_action(version, body, |action| {
        if !is_of_files(&action) {
            kept.push(action);
        }
    })?;
    Ok(kept)
}

/// The in-commit timestamp that a version states.
pub(crate) fn in_commit_timestamp(log: &LogDir, version: Version, body: &[u8]) -> Result<Option<i64>> {
    let actions = but_files(log, version, body)?;
    Ok(actions.into_iter().find_map(|action| match action {
        Action::CommitInfo(info) => info.in_commit_timestamp,
        _ => None,
    }))
}

/// Metadata keys of columns whose values a writer must compute.
const COMPUTED: [&str; 2] = ["delta.generationExpression", "delta.identity.start"];

impl TableHead {
    /// Takes the next version in, and returns its actions that are not of the head.
    ///
    /// # Errors
    /// An error if the version asks its readers for what is not built. The head is unchanged then.
    pub(crate) fn advance(&mut self, version: Version, actions: Vec<Action>) -> Result<Vec<Action>> {
        let (mut protocol, mut metadata) = (&self.protocol, self.metadata.as_ref());
        let mut is_stated = false;
        for action in &actions {
            match action {
                Action::Protocol(next) => protocol = next,
                Action::Metadata(next) => metadata = next,
                _ => continue,
            }
            is_stated = true;
        }
        let stated = is_stated.then(|| readable(protocol, metadata)).transpose()?;
        let mut rest = Vec::new();
        for action in actions {
            match action {
                Action::Protocol(protocol) => {
                    if protocol != self.protocol {
                        self.protocol = protocol;
                        self.changed_in = version;
                    }
                }
                Action::Metadata(metadata) => {
                    if metadata != *self.metadata {
                        self.metadata = Arc::new(metadata);
                        self.changed_in = version;
                    }
                }
                Action::CommitInfo(info) => self.in_commit_timestamp = info.in_commit_timestamp,
                Action::DomainMetadata(domain) => set_domain(Arc::make_mut(&mut self.domains), domain),
                other => rest.push(other),
            }
        }
        if let Some(stated) = stated {
            (self.mapping, self.schema) = stated;
        }
        self.version = version;
        Ok(rest)
    }

    /// A table property.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&str> {
        self.metadata.configuration.get(name).map(String::as_str)
    }

    /// The table's isolation level.
    ///
    /// # Errors
    /// An error if the property names no level.
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

    /// Refuses a table whose writer features are not implemented, or whose constraints are not understood.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_features()?;
        Constraints::of(&self.metadata, &self.schema).map(drop)
    }

    /// Refuses a table whose writer features are not implemented.
    pub(crate) fn check_features(&self) -> Result<()> {
        self.check_names()?;
        self.protocol.check_writable()?;
        row_ids::check(self)?;
        if let Some((column, rule)) = computed(&self.schema.columns) {
            return Err(TableError::unsupported(format!(
                "the column {:?} has {rule}, which is not supported: write the table with Spark",
                column.name
            )));
        }
        Ok(())
    }

    /// Refuses a table that sets the mapping mode but whose protocol lacks `columnMapping`.
    pub(crate) fn check_names(&self) -> Result<()> {
        match self.property(MODE).filter(|_| self.mapping == Mapping::None) {
            Some(mode) if !mode.eq_ignore_ascii_case("none") => Err(TableError::unsupported(format!(
                "the table has {MODE}={mode:?}, and its protocol does not name the feature columnMapping: some readers \
                 would find its columns by other names than others do. Give the table the feature, or unset the \
                 property"
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses files of the caller where files have other names for the columns than the table.
    pub(crate) fn check_unmapped(&self, what: &str) -> Result<()> {
        if self.mapping == Mapping::None {
            return Ok(());
        }
        Err(TableError::unsupported(format!(
            "the table has column mapping ({MODE}), so that its files have physical names and field ids in place of the \
             names of its columns, and {what} takes files as they are: append their rows"
        )))
    }

    /// Refuses to bring back a state of the table with another mapping of its columns.
    pub(crate) fn check_mapping_of(&self, now: &Self) -> Result<()> {
        if self.mapping == now.mapping {
            return Ok(());
        }
        Err(TableError::unsupported(format!(
            "version {} has another column mapping ({MODE}) than the table has now, and restore() does not change it: \
             read that version, and write its rows",
            self.version
        )))
    }

    /// Returns true if the table's rows are clustered by columns.
    pub(crate) fn is_clustered(&self) -> bool {
        self.protocol
            .writer_features
            .iter()
            .flatten()
            .any(|feature| feature == clustering::FEATURE)
    }

    /// Returns true if the table asks its writers for a change data feed. Readers of the feed look for nothing else, so
    /// that the property counts whatever the protocol names.
    pub(crate) fn has_change_feed(&self) -> bool {
        self.metadata.is_enabled(CHANGE_FEED)
    }

    /// Refuses files of the caller in the place of others, since nobody says which of their rows changed.
    pub(crate) fn check_replaceable(&self) -> Result<()> {
        if self.has_change_feed() {
            return Err(TableError::unsupported(format!(
                "the table has a change data feed ({CHANGE_FEED}=true), which would say that every row of the removed \
                 files was deleted, and every row of the new ones inserted: change rows by delete(), update() or \
                 merge(). Where no row changes, add files with data_change=False"
            )));
        }
        Ok(())
    }

    /// The columns that the table's rows are clustered by, each a path from the top.
    ///
    /// # Errors
    /// [`delta_commit::CommitError::Unsupported`] when they cannot be understood: every file needs statistics of them.
    pub(crate) fn clustering(&self) -> Result<Vec<Vec<String>>> {
        let domain = self.domains.get(clustering::DOMAIN);
        let Some(domain) = domain.filter(|_| self.is_clustered()) else {
            return Ok(Vec::new());
        };
        let stored = clustering::columns_of(&domain.configuration);
        let named = stored.and_then(|columns| {
            let named = columns
                .iter()
                .map(|column| self.mapping.leaf_of(&self.schema.columns, column));
            named.collect()
        });
        named.ok_or_else(|| {
            TableError::unsupported(format!(
                "the table has the feature {}, and it cannot be understood by which columns: {}",
                clustering::FEATURE,
                domain.configuration
            ))
        })
    }

    /// The names of the columns that the table's rows are clustered by, as SQL writes them.
    ///
    /// # Errors
    /// [`delta_commit::CommitError::Unsupported`] when they cannot be understood.
    pub fn clustering_columns(&self) -> Result<Vec<String>> {
        let columns = self.clustering()?;
        Ok(columns.iter().map(|column| clustering::shown(column)).collect())
    }
}

/// The first column at any depth whose values are computed, and the metadata key that asks for it.
fn computed(columns: &[TableColumn]) -> Option<(&TableColumn, &'static str)> {
    columns.iter().find_map(|column| {
        let rule = COMPUTED.iter().find(|rule| column.metadata.contains_key(**rule));
        let below = || column.kind.structs().into_iter().find_map(computed);
        rule.map(|rule| (column, *rule)).or_else(below)
    })
}

/// The mapping and the schema of a table.
///
/// # Errors
/// An error if the table asks its readers for what is not built.
fn readable(protocol: &Protocol, metadata: &Metadata) -> Result<(Mapping, Arc<TableSchema>)> {
    check_readable(protocol)?;
    let mapping = Mapping::of(protocol, metadata)?;
    let schema = TableSchema::parse(&metadata.schema_string, mapping)?;
    check_partitioning(metadata, &schema)?;
    widening::check(protocol, &schema.columns)?;
    Ok((mapping, Arc::new(schema)))
}

/// Refuses a table with a partition column that its schema lacks: nobody can say what type the values of its files
/// have, and a scan would leave them out.
fn check_partitioning(metadata: &Metadata, schema: &TableSchema) -> Result<()> {
    let by = &metadata.partition_columns;
    match by.iter().find(|name| schema.column(name).is_none()) {
        None => Ok(()),
        Some(missing) => {
            let names = schema.columns.iter().map(|column| column.name.as_str());
            let names: Vec<&str> = names.collect();
            Err(TableError::Malformed(format!(
                "the table is partitioned by {missing:?}, which is no column of its schema ({}): have its writer commit \
                 a metaData action with both",
                names.join(", ")
            )))
        }
    }
}

/// Refuses a table whose reader features are not implemented.
fn check_readable(protocol: &Protocol) -> Result<()> {
    const READABLE: [&str; 8] = [
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        // A column of the type is refused by itself. delta-rs gives the feature to tables without one.
        "variantType",
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
    Ok(())
}
