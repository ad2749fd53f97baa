//! A table begins, or begins again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_schema::Schema;
use delta_commit::actions::{Action, Metadata, Protocol, Remove};
use delta_commit::conflict::ConflictKind;
use delta_commit::log::BEFORE_FIRST;
use delta_commit::schema::check_partitioning;
use delta_commit::{CommitError, Committer, MemberId, Operation, Start, Transaction, Version, WaitLimit};
use serde_json::Value;
use uuid::Uuid;

use crate::change_feed;
use crate::clock::now;
use crate::clustering;
use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::mapping::{self, Mapping};
use crate::properties::{self, IN_COMMIT_TIMESTAMPS};
use crate::row_ids;
use crate::schema::{ColumnType, Primitive, TableSchema};
use crate::storage::{LocalStorage, TableStorage};
use crate::table::Table;

/// The behaviour when the table exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateMode {
    /// It is an error.
    Error,
    /// It stays as it is.
    Ignore,
    /// It gets this schema, these properties and no rows.
    Overwrite,
}

/// The options of a new table.
#[derive(Debug, Clone, Default)]
pub struct CreateOptions {
    /// The partition columns, in their order. All rows of a file have the same value in each.
    pub partition_by: Vec<String>,
    /// The columns that compactions order rows by, as [`Table::cluster_by`] takes them.
    pub cluster_by: Vec<String>,
    /// Table properties.
    pub properties: BTreeMap<String, String>,
    /// A name for people.
    pub name: Option<String>,
    /// A description for people.
    pub description: Option<String>,
}

/// The features that older writer versions stand for without naming them, each from its version on.
const IMPLIED: [(i32, &str); 6] = [
    (2, "appendOnly"),
    (2, "invariants"),
    (3, "checkConstraints"),
    (4, "changeDataFeed"),
    (4, "generatedColumns"),
    (5, mapping::FEATURE),
];

/// The protocol with one more feature; none when it already has it.
///
/// # Errors
/// When it is of a version that has no named features and is not the oldest.
pub(crate) fn with_feature(protocol: &Protocol, feature: &str, reader: bool) -> Result<Option<Protocol>> {
    if feature == mapping::FEATURE {
        let next = mapping::with_mapping(protocol);
        return Ok((next != *protocol).then_some(next));
    }
    let mut next = protocol.clone();
    if protocol.min_writer_version < 7 {
        let version = protocol.min_writer_version.max(2);
        let implied = IMPLIED.iter().filter(|(since, _)| *since <= version);
        let implied: Vec<String> = implied.map(|(_, feature)| (*feature).to_owned()).collect();
        if version == protocol.min_writer_version && implied.iter().any(|known| known == feature) {
            return Ok(None);
        }
        if version > 5 {
            return Err(TableError::unsupported(format!(
                "the table has writer version {version}, which cannot get the feature {feature}"
            )));
        }
        next.min_writer_version = 7;
        next.writer_features = Some(implied);
    }
    if reader && next.min_reader_version < 3 {
        // The second version stands for the mapping of columns, which readers may not need where writers do not:
        // a feature is not added to the readers' alone (PROTOCOL.md, Table Features).
        let mapped = next
            .writer_features
            .iter()
            .flatten()
            .any(|known| known == mapping::FEATURE);
        let implied = (next.min_reader_version == 2 && mapped).then(|| mapping::FEATURE.to_owned());
        next.min_reader_version = 3;
        next.reader_features = Some(implied.into_iter().collect());
    }
    let lists = [
        (true, &mut next.writer_features),
        (reader, &mut next.reader_features),
    ];
    for (wanted, list) in lists {
        if wanted
            && let Some(list) = list
            && !list.iter().any(|known| known == feature)
        {
            list.push(feature.to_owned());
        }
    }
    Ok((next != *protocol).then_some(next))
}

/// The features that a table needs, each with true if its readers must know it.
fn features(
    schema: &TableSchema,
    properties: &BTreeMap<String, String>,
) -> Result<Vec<(&'static str, bool)>> {
    for (property, value) in properties
        .iter()
        .filter(|(property, _)| *property != mapping::MODE)
    {
        properties::check(property, value)?;
    }
    let mut wanted = properties::features(properties);
    if schema.has_ntz() {
        wanted.push(("timestampNtz", true));
    }
    Ok(wanted)
}

/// The protocol with these features too. Features that its older version implies are kept.
pub(crate) fn with_features(protocol: &Protocol, features: &[(&str, bool)]) -> Result<Protocol> {
    let mut protocol = protocol.clone();
    for (feature, reader) in features {
        if let Some(next) = with_feature(&protocol, feature, *reader)? {
            protocol = next;
        }
    }
    Ok(protocol)
}

/// The protocol with the features that another one has, too, as for `RESTORE` in Spark.
///
/// # Errors
/// As [`with_feature`].
pub(crate) fn with_all_of(protocol: &Protocol, other: &Protocol) -> Result<Protocol> {
    if protocol.writer_features.is_none() && other.writer_features.is_none() {
        return Ok(Protocol {
            min_reader_version: protocol.min_reader_version.max(other.min_reader_version),
            min_writer_version: protocol.min_writer_version.max(other.min_writer_version),
            ..protocol.clone()
        });
    }
    let is_of_readers = |feature: &str| match &other.reader_features {
        Some(features) => features.iter().any(|known| known == feature),
        None => feature == mapping::FEATURE,
    };
    let features: Vec<(&str, bool)> = match &other.writer_features {
        Some(features) => features
            .iter()
            .map(|feature| (feature.as_str(), is_of_readers(feature)))
            .collect(),
        None => IMPLIED
            .into_iter()
            .filter(|(since, _)| *since <= other.min_writer_version)
            .map(|(_, feature)| (feature, is_of_readers(feature)))
            .collect(),
    };
    with_features(protocol, &features)
}

fn metadata(schema: &TableSchema, mapping: Mapping, options: CreateOptions) -> Result<Metadata> {
    let text = schema.to_json();
    check_partitioning(&mapping.check_schema(&text)?, &options.partition_by)?;
    for name in &options.partition_by {
        check_partition_column(schema, name)?;
    }
    Ok(Metadata {
        id: Uuid::new_v4().to_string(),
        name: options.name,
        description: options.description,
        schema_string: text,
        partition_columns: options.partition_by,
        configuration: options.properties,
        created_time: Some(now()),
        ..Metadata::default()
    })
}

/// Checks that the values of a partition column can be part of a folder's name.
fn check_partition_column(schema: &TableSchema, name: &str) -> Result<()> {
    let shown = match schema.column(name).map(|column| &column.kind) {
        Some(ColumnType::Struct(_)) => "a struct",
        Some(ColumnType::Array(..)) => "a list",
        Some(ColumnType::Map(..)) => "a map",
        Some(ColumnType::Primitive(Primitive::Binary)) => "binary",
        _ => return Ok(()),
    };
    Err(TableError::column(
        name,
        format!(
            "the partition column {name:?} is {shown}, and folders are named after its values: partition by columns of \
             numbers, text, dates, times or booleans"
        ),
    ))
}

/// The state that a table begins with.
struct First {
    features: Vec<(&'static str, bool)>,
    metadata: Metadata,
    /// The clustering columns.
    cluster_by: Vec<Vec<String>>,
    mapping: Mapping,
    /// The columns as they were given.
    schema: TableSchema,
    /// The same with their ids and physical names.
    mapped: TableSchema,
}

impl First {
    fn of(schema: &Schema, mut options: CreateOptions) -> Result<Self> {
        for (property, value) in &mut options.properties {
            *value = properties::canonical(property, value);
        }
        let mapping = Mapping::asked(&options.properties)?;
        let schema = TableSchema::of_mapped(schema, mapping)?;
        let mut features = features(&schema, &options.properties)?;
        let names = std::mem::take(&mut options.cluster_by);
        let mut metadata = metadata(&schema, mapping, options)?;
        row_ids::name_columns(&mut metadata);
        change_feed::check_columns(&metadata, &schema)?;
        let cluster_by = clustering::chosen(&names, &metadata, &schema)?;
        if !cluster_by.is_empty() {
            features.extend(clustering::FEATURES);
        }
        if mapping != Mapping::None {
            // After all others, which may have to be named.
            features.push((mapping::FEATURE, true));
        }
        let mut first = Self {
            features,
            metadata,
            cluster_by,
            mapping,
            mapped: schema.clone(),
            schema,
        };
        first.assign();
        Ok(first)
    }

    /// Gives the columns their ids and physical names where the table maps them.
    fn assign(&mut self) {
        if self.mapping == Mapping::None {
            return;
        }
        self.mapped = self.mapping.assigned(&self.schema, &self.metadata);
        self.metadata.schema_string = self.mapped.to_json();
        self.mapping.note_highest(&mut self.metadata, &self.mapped);
    }

    /// Gives the columns ids that no column of the table had before.
    fn assign_after(&mut self, before: &TableHead) {
        self.mapping.keep_highest(&mut self.metadata, before);
        self.assign();
    }

    /// The action that clusters the table by its columns.
    fn clustering(&self) -> Action {
        let columns = self.cluster_by.iter();
        let stored = columns.map(|column| self.mapping.stored_path(&self.mapped.columns, column));
        clustering::action(&stored.collect::<Vec<_>>())
    }

    fn operation(&self, name: &str) -> Operation {
        let metadata = &self.metadata;
        let mut operation = Operation::new(name);
        let partition_by = Value::from(metadata.partition_columns.clone()).to_string();
        let properties = serde_json::to_string(&metadata.configuration).unwrap_or_default();
        operation.parameters = BTreeMap::from([
            ("isManaged".to_owned(), "false".to_owned()),
            ("partitionBy".to_owned(), partition_by),
            ("clusterBy".to_owned(), clustering::listed(&self.cluster_by)),
            ("properties".to_owned(), properties),
            (
                "description".to_owned(),
                metadata.description.clone().unwrap_or_else(|| "null".to_owned()),
            ),
        ]);
        operation
    }
}

impl Table {
    /// Creates a table in a folder, which is made together with its parents.
    ///
    /// # Errors
    /// [`TableError::Exists`] when there is one and the mode is [`CreateMode::Error`]; [`CommitError::Schema`] when a
    /// table cannot hold the schema.
    pub fn create(
        root: &Path,
        schema: &Schema,
        options: CreateOptions,
        mode: CreateMode,
        wait: &mut WaitLimit<'_>,
    ) -> Result<Self> {
        Self::create_at(Arc::new(LocalStorage::new(root)?), schema, options, mode, wait)
    }

    /// Creates a table in any storage.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_at(
        storage: Arc<dyn TableStorage>,
        schema: &Schema,
        options: CreateOptions,
        mode: CreateMode,
        wait: &mut WaitLimit<'_>,
    ) -> Result<Self> {
        let first = First::of(schema, options)?;
        match (Self::open_at(Arc::clone(&storage)), mode) {
            (Ok(_), CreateMode::Error) => return Err(TableError::Exists(storage.root().to_path_buf())),
            (Ok(table), CreateMode::Ignore) => return Ok(table),
            (Ok(table), CreateMode::Overwrite) => {
                table.replace(first, wait)?;
                return Ok(table);
            }
            (Err(TableError::NotFound(_)), _) => {}
            (Err(error), _) => return Err(error),
        }
        storage.prepare()?;
        let begun = begin(storage.as_ref(), &first, wait);
        // Somebody else may have been quicker.
        let quicker = matches!(begun, Err(TableError::Exists(_))) && mode != CreateMode::Error;
        if !quicker {
            begun?;
        }
        let table = Self::open_at(storage)?;
        if quicker && mode == CreateMode::Overwrite {
            table.replace(first, wait)?;
        }
        Ok(table)
    }

    /// Gives a table another schema and no rows, as one version.
    fn replace(&self, mut first: First, wait: &mut WaitLimit<'_>) -> Result<Version> {
        let shared = self.shared()?;
        let snapshot = self.snapshot_in_time(wait)?;
        snapshot.check_writable()?;
        snapshot.check_removable("create(mode=\"overwrite\")")?;
        clustering::check_partitions(&snapshot, &first.metadata, "create(mode=\"overwrite\")")?;
        first.metadata.id.clone_from(&snapshot.metadata.id);
        row_ids::keep_names(&snapshot, &mut first.metadata);
        first.assign_after(&snapshot);
        check_in_commit_timestamps(&snapshot, &first.metadata)?;
        properties::keep_enablement(&snapshot.metadata, &mut first.metadata);
        let operation = first.operation("CREATE OR REPLACE TABLE");
        let mut actions = Vec::new();
        let protocol = with_features(&snapshot.protocol, &first.features)?;
        if protocol != snapshot.protocol {
            actions.push(Action::Protocol(protocol));
        }
        // Also where they are those of before: another transaction may change them meanwhile, and has a conflict then.
        if snapshot.is_clustered() || !first.cluster_by.is_empty() {
            actions.push(first.clustering());
        }
        actions.push(Action::Metadata(first.metadata));
        let removed = snapshot
            .files()
            .map(|add| Action::Remove(Remove::of(add, now(), true)));
        actions.extend(removed);
        let mut transaction = Transaction::append(MemberId::random(), snapshot.version, actions);
        transaction.reads.whole_table = true;
        transaction.isolation = snapshot.isolation()?;
        transaction.operation = operation;
        let version = shared.commit(transaction, wait)?;
        // The handle is pinned to what is replaced.
        self.unpin();
        Ok(version)
    }
}

/// Refuses to enable in-commit timestamps on an existing table, whose history would then mix two clocks.
pub(crate) fn check_in_commit_timestamps(before: &TableHead, after: &Metadata) -> Result<()> {
    if after.is_enabled(IN_COMMIT_TIMESTAMPS) && !before.metadata.is_enabled(IN_COMMIT_TIMESTAMPS) {
        return Err(TableError::unsupported(format!(
            "{IN_COMMIT_TIMESTAMPS} cannot be enabled on an existing table: leave it out, or set it when the table is \
             created"
        )));
    }
    Ok(())
}

/// Writes version 0.
fn begin(storage: &dyn TableStorage, first: &First, wait: &mut WaitLimit<'_>) -> Result<Version> {
    let committer = Committer::new(storage.log_store(), before_first(&first.metadata));
    let mut actions = vec![
        Action::Protocol(with_features(&Protocol::default(), &first.features)?),
        Action::Metadata(first.metadata.clone()),
    ];
    if !first.cluster_by.is_empty() {
        actions.push(first.clustering());
    }
    let mut transaction = Transaction::append(MemberId::random(), BEFORE_FIRST, actions);
    transaction.operation = first.operation("CREATE TABLE");
    committer
        .commit_while(transaction, wait)
        .map_err(|error| match error {
            error if is_quicker(&error) => TableError::Exists(storage.root().to_path_buf()),
            other => other.into(),
        })
}

/// The start of the committer that writes version 0.
pub(crate) fn before_first(metadata: &Metadata) -> Start {
    Start {
        version: BEFORE_FIRST,
        table_id: metadata.id.clone(),
        changed_in: BEFORE_FIRST,
        in_commit_timestamp: metadata.is_enabled(IN_COMMIT_TIMESTAMPS).then(now),
        high_water_mark: None,
        digest: None,
        known: None,
    }
}

/// Returns true if version 0 was not written because another writer wrote it.
pub(crate) fn is_quicker(error: &CommitError) -> bool {
    matches!(
        error,
        CommitError::Conflict(conflict)
            if matches!(conflict.kind, ConflictKind::ProtocolChanged | ConflictKind::MetadataChanged)
    )
}

/// The protocol and metadata of version 0 of a planned table.
///
/// # Errors
/// [`TableError::Option`] when it is to be clustered, which its first append would have to say too.
pub(crate) fn first_actions(schema: &Schema, options: CreateOptions) -> Result<(Protocol, Metadata)> {
    let first = First::of(schema, options)?;
    if !first.cluster_by.is_empty() {
        return Err(TableError::option(
            "cluster_by",
            "cluster_by goes with a table that is there: name the columns by cluster_by() after the first commit",
        ));
    }
    Ok((
        with_features(&Protocol::default(), &first.features)?,
        first.metadata,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protocol(reader: i32, writer: i32) -> Protocol {
        Protocol {
            min_reader_version: reader,
            min_writer_version: writer,
            ..Protocol::default()
        }
    }

    #[test]
    fn features_of_older_versions_are_named_once_one_has_to_be() {
        let with = |writer, feature, reader| with_feature(&protocol(1, writer), feature, reader).unwrap();
        assert_eq!(with(2, "appendOnly", false), None);
        assert_eq!(with(3, "checkConstraints", false), None);
        assert_eq!(with(4, "changeDataFeed", false), None);
        let named = |writer, feature, reader| with(writer, feature, reader).unwrap();
        for (writer, feature, expected) in [
            (1, "appendOnly", ["appendOnly", "invariants"].as_slice()),
            (
                2,
                "checkConstraints",
                &["appendOnly", "invariants", "checkConstraints"],
            ),
            (
                3,
                "clustering",
                &["appendOnly", "invariants", "checkConstraints", "clustering"],
            ),
        ] {
            let next = named(writer, feature, false);
            assert_eq!((next.min_reader_version, next.min_writer_version), (1, 7));
            assert_eq!(next.writer_features.as_deref().unwrap(), expected);
        }
        let marks = named(3, "deletionVectors", true);
        assert_eq!(marks.min_reader_version, 3);
        assert_eq!(marks.reader_features.unwrap(), ["deletionVectors"]);
        assert_eq!(marks.writer_features.unwrap().len(), 4);
        let all = named(4, "clustering", false).writer_features.unwrap();
        assert_eq!(all[3..], ["changeDataFeed", "generatedColumns", "clustering"]);
        let mapped = with_feature(&protocol(2, 5), "clustering", false)
            .unwrap()
            .unwrap();
        assert_eq!((mapped.min_reader_version, mapped.min_writer_version), (2, 7));
        assert_eq!(
            mapped.writer_features.unwrap()[5..],
            ["columnMapping", "clustering"]
        );
        let marked = with_feature(&protocol(2, 5), "deletionVectors", true)
            .unwrap()
            .unwrap();
        assert_eq!(
            marked.reader_features.unwrap(),
            ["columnMapping", "deletionVectors"]
        );
        assert!(with_feature(&protocol(2, 6), "clustering", false).is_err());
    }
}
