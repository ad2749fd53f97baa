//! Table properties: which ones there are, and what they may be.

use std::collections::BTreeMap;

use delta_commit::actions::{Action, Metadata, Protocol};
use delta_commit::row_ids::{ENABLED, FEATURE};
use delta_commit::{CommitError, MemberId, Operation, Transaction, Version, WaitLimit};
use serde_json::json;

use crate::change_feed::{self, CHANGE_FEED};
use crate::create::{check_in_commit_timestamps, with_features};
use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::interval::interval_millis;
use crate::mapping;
use crate::near::{distance, nearest};
use crate::optimize::bytes_of;
use crate::row_ids;
use crate::stats_columns;
use crate::table::{Table, or_late, patient};

/// The time for which checkpoints keep the progress of applications.
pub(crate) const TRANSACTION_RETENTION: &str = "delta.setTransactionRetentionDuration";

/// The bytes of a file.
pub(crate) const TARGET_FILE_SIZE: &str = "delta.targetFileSize";

pub(crate) const IN_COMMIT_TIMESTAMPS: &str = "delta.enableInCommitTimestamps";

/// The property that names the first version with in-commit timestamps, where they began in the middle of a table.
pub(crate) const IN_COMMIT_TIMESTAMPS_FROM: &str = "delta.inCommitTimestampEnablementVersion";

/// When that version was committed.
const IN_COMMIT_TIMESTAMPS_SINCE: &str = "delta.inCommitTimestampEnablementTimestamp";

/// Keeps where in-commit timestamps began, in the metadata of a table that goes on with them (PROTOCOL.md, "Writer
/// Requirements for In-Commit Timestamps").
pub(crate) fn keep_enablement(before: &Metadata, after: &mut Metadata) {
    let is_on = |value: &String| value.eq_ignore_ascii_case("true");
    if !after.configuration.get(IN_COMMIT_TIMESTAMPS).is_some_and(is_on) {
        return;
    }
    for name in [IN_COMMIT_TIMESTAMPS_FROM, IN_COMMIT_TIMESTAMPS_SINCE] {
        if let Some(value) = before.configuration.get(name) {
            after.configuration.insert(name.to_owned(), value.clone());
        }
    }
}

/// Properties that need a feature where they are true: the property, the feature, and true if readers must know it.
const FEATURES: [(&str, &str, bool); 6] = [
    ("delta.appendOnly", "appendOnly", false),
    (IN_COMMIT_TIMESTAMPS, "inCommitTimestamp", false),
    (CHANGE_FEED, "changeDataFeed", false),
    ("delta.enableDeletionVectors", "deletionVectors", true),
    (ENABLED, FEATURE, false),
    (ENABLED, "domainMetadata", false),
];

/// Prefixes of properties that are not implemented, or that the protocol reserves.
const REFUSED: [&str; 13] = [
    "delta.checkpointPolicy",
    "delta.columnMapping.",
    "delta.coordinatedCommits.",
    "delta.enableIcebergCompat",
    "delta.enableTypeWidening",
    "delta.enableVariantShredding",
    "delta.feature.",
    "delta.inCommitTimestampEnablement",
    "delta.minReaderVersion",
    "delta.minWriterVersion",
    "delta.requireCheckpointProtection",
    "delta.rowTracking",
    "delta.universalFormat.",
];

/// The length of the beginning of a name that is enough to find it: `delta.lo`.
const LEAST_BEGUN: usize = 8;

/// The prefix of constraints.
const CONSTRAINTS: &str = "delta.constraints.";

/// The levels of isolation.
const LEVELS: [&str; 2] = ["Serializable", "WriteSerializable"];

/// The values that a property may have.
#[derive(Debug, Clone, Copy)]
enum PropertyType {
    /// `true` or `false`.
    Flag,
    /// A length of time.
    Interval,
    /// A whole number that is not less than this one, of 32 bits, as Spark reads it.
    Number(i32),
    /// A size.
    Bytes,
    /// A level of isolation.
    Level,
    /// Names of columns.
    Columns,
    /// `false`, the value that changes nothing: what the others ask for is not built.
    Off,
    /// No value: what it asks for is not built.
    Unbuilt,
}

/// The properties of Delta. Those that are not built may be in tables of other writers, and are not set here.
const KNOWN: [(&str, PropertyType); 28] = [
    ("delta.appendOnly", PropertyType::Flag),
    ("delta.autoOptimize.autoCompact", PropertyType::Off),
    ("delta.autoOptimize.optimizeWrite", PropertyType::Off),
    ("delta.checkpoint.writeStatsAsJson", PropertyType::Flag),
    ("delta.checkpoint.writeStatsAsStruct", PropertyType::Flag),
    ("delta.checkpointInterval", PropertyType::Number(1)),
    ("delta.checkpointRetentionDuration", PropertyType::Unbuilt),
    (
        "delta.compatibility.symlinkFormatManifest.enabled",
        PropertyType::Off,
    ),
    ("delta.dataSkippingNumIndexedCols", PropertyType::Number(-1)),
    ("delta.dataSkippingStatsColumns", PropertyType::Columns),
    ("delta.deletedFileRetentionDuration", PropertyType::Interval),
    (
        "delta.dropFeatureTruncateHistory.retentionDuration",
        PropertyType::Unbuilt,
    ),
    (CHANGE_FEED, PropertyType::Flag),
    ("delta.enableDeletionVectors", PropertyType::Flag),
    ("delta.enableExpiredLogCleanup", PropertyType::Flag),
    ("delta.enableFullRetentionRollback", PropertyType::Unbuilt),
    (IN_COMMIT_TIMESTAMPS, PropertyType::Flag),
    (ENABLED, PropertyType::Flag),
    ("delta.isolationLevel", PropertyType::Level),
    ("delta.logRetentionDuration", PropertyType::Interval),
    ("delta.parquet.compression.codec", PropertyType::Unbuilt),
    ("delta.parquet.format.version", PropertyType::Unbuilt),
    ("delta.randomPrefixLength", PropertyType::Unbuilt),
    ("delta.randomizeFilePrefixes", PropertyType::Off),
    ("delta.sampleRetentionDuration", PropertyType::Unbuilt),
    (TRANSACTION_RETENTION, PropertyType::Interval),
    (TARGET_FILE_SIZE, PropertyType::Bytes),
    ("delta.tuneFileSizesForRewrites", PropertyType::Off),
];

impl PropertyType {
    fn accepts(self, value: &str) -> bool {
        match self {
            Self::Flag => value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false"),
            Self::Interval => interval_millis(value).is_some(),
            Self::Number(least) => value.parse().is_ok_and(|number: i32| number >= least),
            Self::Bytes => bytes_of(value).is_some(),
            Self::Level => LEVELS.iter().any(|level| level.eq_ignore_ascii_case(value)),
            Self::Columns => stats_columns::parse(value).is_some(),
            Self::Off => value.eq_ignore_ascii_case("false"),
            Self::Unbuilt => false,
        }
    }

    /// The words for its values.
    fn words(self) -> String {
        match self {
            Self::Flag => "true or false".to_owned(),
            Self::Interval => {
                "numbers of weeks, days, hours, minutes or seconds, such as \"interval 7 days\"".to_owned()
            }
            Self::Number(least) => format!("a whole number from {least} to {}", i32::MAX),
            Self::Bytes => "a size such as 134217728 or 128mb".to_owned(),
            Self::Level => "Serializable or WriteSerializable".to_owned(),
            Self::Columns => "names of columns, separated by commas".to_owned(),
            Self::Off | Self::Unbuilt => "false".to_owned(),
        }
    }
}

fn begins(property: &str, prefix: &str) -> bool {
    let start = property.get(..prefix.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// Refuses a property that may neither come nor go.
fn check_name(property: &str) -> Result<()> {
    if property.is_empty() {
        return Err(refused("a property has no name: give each one".to_owned()));
    }
    if begins(property, CONSTRAINTS) {
        return Err(refused(format!(
            "the property {property:?} is a constraint: add_constraint() adds one to a table that is there, and \
             drop_constraint() drops it"
        )));
    }
    if REFUSED.iter().any(|prefix| begins(property, prefix)) {
        return Err(not_built(property));
    }
    Ok(())
}

fn not_built(property: &str) -> TableError {
    TableError::unsupported(format!(
        "the property {property:?} needs a feature that is not supported: leave it out, or set it with Spark"
    ))
}

/// Refuses a property that is not built, a value that its property may not have, and a name that Delta does not know.
///
/// # Errors
/// [`delta_commit::CommitError::Unsupported`] for what is not built, else [`TableError::Option`].
pub(crate) fn check(property: &str, value: &str) -> Result<()> {
    check_name(property)?;
    if let Some((_, kind)) = KNOWN.iter().find(|(known, _)| *known == property) {
        if kind.accepts(value) {
            return Ok(());
        }
        if matches!(kind, PropertyType::Unbuilt)
            || (matches!(kind, PropertyType::Off) && value.eq_ignore_ascii_case("true"))
        {
            return Err(not_built(property));
        }
        let words = kind.words();
        return Err(refused(format!(
            "{property}={value:?} is not accepted: give {words}"
        )));
    }
    if !begins(property, "delta.") {
        return Ok(());
    }
    let near = near(property);
    let advice = if near.is_empty() {
        "leave it out, or choose a name that does not begin with delta.".to_owned()
    } else {
        format!("did you mean {}?", near.join(" or "))
    };
    Err(refused(format!("Delta has no property {property:?}: {advice}")))
}

fn refused(message: String) -> TableError {
    TableError::option("properties", message)
}

/// The value in the spelling that Delta has for it. Other readers compare some values letter by letter: of a mode
/// `NAME`, delta-rs reads nulls.
pub(crate) fn canonical(property: &str, value: &str) -> String {
    let kind = KNOWN.iter().find(|(known, _)| *known == property);
    match kind {
        Some((_, PropertyType::Flag | PropertyType::Off)) => value.to_ascii_lowercase(),
        Some((_, PropertyType::Level)) => {
            let level = LEVELS.iter().find(|level| level.eq_ignore_ascii_case(value));
            level.map_or(value, |level| *level).to_owned()
        }
        _ if property == mapping::MODE => value.to_ascii_lowercase(),
        _ => value.to_owned(),
    }
}

/// The known properties whose names are like this one: they differ in case or in few letters, or go on from it.
fn near(property: &str) -> Vec<&'static str> {
    let lower = property.to_lowercase();
    nearest(KNOWN.iter().map(|(known, _)| *known), |known| {
        let name = known.to_lowercase();
        let is_begun = lower.len() > LEAST_BEGUN && name.starts_with(&lower);
        let distance = distance(&name, &lower);
        (is_begun || distance <= known.len() / 5).then_some(distance)
    })
}

/// The features that properties need, each with true if readers must know it.
pub(crate) fn features<'a>(
    properties: impl IntoIterator<Item = (&'a String, &'a String)>,
) -> Vec<(&'static str, bool)> {
    let enabled = properties
        .into_iter()
        .filter(|(_, value)| value.eq_ignore_ascii_case("true"));
    let needed =
        enabled.flat_map(|(property, _)| FEATURES.iter().filter(move |(known, ..)| known == property));
    needed.map(|(_, feature, reader)| (*feature, *reader)).collect()
}

impl Table {
    /// Sets properties, and takes away those without a value, in one version. Returns the version that has them: the
    /// newest one where nothing changes.
    ///
    /// A property that needs a feature enables it. Before `delta.enableRowTracking` comes, rows that have no ids get
    /// some, in versions of their own. Where a concurrent transaction made the same change, that is the version.
    ///
    /// # Errors
    /// [`TableError::Option`] when Delta has no such property, or it may not have the value;
    /// [`CommitError::Unsupported`](delta_commit::CommitError::Unsupported) when one asks for what is not built; a
    /// conflict when a concurrent transaction changed the schema, the properties or the protocol in another way.
    pub fn set_properties(
        &self,
        properties: &BTreeMap<String, Option<String>>,
        wait: &mut WaitLimit<'_>,
    ) -> Result<Version> {
        for (property, value) in properties {
            match value {
                Some(value) => check(property, value)?,
                None => check_name(property)?,
            }
        }
        let spelled = properties.iter().map(|(property, value)| {
            let value = value.as_deref().map(|value| canonical(property, value));
            (property.clone(), value)
        });
        let properties = &spelled.collect::<BTreeMap<_, _>>();
        let done = self.change_properties(properties, wait);
        if let Err(TableError::Commit(CommitError::Conflict(conflict))) = &done
            && !conflict.kind.is_of_files()
        {
            let head = self.shared()?.refresh(&mut patient(wait));
            let head = head.map_err(|error| or_late(error, wait))?;
            if are_set(&head, properties)? {
                return Ok(head.version);
            }
        }
        done
    }

    fn change_properties(
        &self,
        properties: &BTreeMap<String, Option<String>>,
        wait: &mut WaitLimit<'_>,
    ) -> Result<Version> {
        let shared = self.shared()?;
        let head = shared.refresh(&mut patient(wait));
        let mut head = head.map_err(|error| or_late(error, wait))?;
        let mut metadata = with_properties(&head, properties)?;
        let enables_row_ids = metadata.is_enabled(ENABLED) && !row_ids::is_enabled(&head);
        if enables_row_ids {
            if self.backfill(wait)? {
                head = shared.refresh(&mut patient(wait))?;
                metadata = with_properties(&head, properties)?;
            }
            row_ids::name_columns(&mut metadata);
        }
        let protocol = protocol_for(&head, properties)?;
        let mut actions = Vec::new();
        if protocol != head.protocol {
            actions.push(Action::Protocol(protocol));
        }
        if metadata != *head.metadata {
            actions.push(Action::Metadata(metadata));
        }
        if actions.is_empty() {
            return Ok(head.version);
        }
        // It reads no file, so that it has no conflict with appends, whatever the level.
        let mut transaction = Transaction::append(MemberId::random(), head.version, actions);
        transaction.operation = operation(properties);
        if enables_row_ids {
            let snapshot = self.snapshot_in_time(wait)?;
            row_ids::check_files(&snapshot)?;
            transaction.read_version = snapshot.version.min(transaction.read_version);
            // A file that comes first may have no ids, where the feature is not there yet.
            transaction.reads.whole_table = !row_ids::gives_ids(&head);
        }
        shared.commit(transaction, wait)
    }
}

/// Returns true if the table has these properties, their features, and none of those without a value.
fn are_set(head: &TableHead, properties: &BTreeMap<String, Option<String>>) -> Result<bool> {
    let is_kept = with_properties(head, properties)? == *head.metadata;
    Ok(is_kept && protocol_for(head, properties)? == head.protocol)
}

/// The protocol of a table with these properties.
fn protocol_for(head: &TableHead, properties: &BTreeMap<String, Option<String>>) -> Result<Protocol> {
    let set = properties
        .iter()
        .filter_map(|(property, value)| Some((property, value.as_ref()?)));
    with_features(&head.protocol, &features(set))
}

/// The metadata of a table with these properties, and without those that have no value.
fn with_properties(head: &TableHead, properties: &BTreeMap<String, Option<String>>) -> Result<Metadata> {
    // No row is written, so that a constraint need not be understood.
    head.check_features()?;
    let mut metadata = head.metadata.as_ref().clone();
    for (property, value) in properties {
        match value {
            Some(value) => metadata.configuration.insert(property.clone(), value.clone()),
            None => metadata.configuration.remove(property),
        };
    }
    check_in_commit_timestamps(head, &metadata)?;
    change_feed::check_columns(&metadata, &head.schema)?;
    row_ids::check_properties(&metadata)?;
    Ok(metadata)
}

/// The operation for the history, under Spark's names.
fn operation(properties: &BTreeMap<String, Option<String>>) -> Operation {
    let set: BTreeMap<&String, &String> = properties
        .iter()
        .filter_map(|(property, value)| Some((property, value.as_ref()?)))
        .collect();
    let unset = properties.iter().filter(|(_, value)| value.is_none());
    let unset: Vec<&String> = unset.map(|(property, _)| property).collect();
    let (name, parameters) = if set.is_empty() {
        let listed = ("properties", json!(unset));
        ("UNSET TBLPROPERTIES", vec![listed, ("ifExists", json!(true))])
    } else {
        let mut parameters = vec![("properties", json!(set))];
        parameters.extend((!unset.is_empty()).then(|| ("unset", json!(unset))));
        ("SET TBLPROPERTIES", parameters)
    };
    let mut operation = Operation::new(name);
    operation.parameters = parameters
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_string()))
        .collect();
    operation.changes_data = false;
    operation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_their_property() {
        for (property, value) in [
            ("delta.appendOnly", "TRUE"),
            ("delta.logRetentionDuration", "interval 30 days"),
            ("delta.checkpointInterval", "20"),
            ("delta.dataSkippingNumIndexedCols", "-1"),
            ("delta.dataSkippingStatsColumns", "a, `b.c`"),
            ("delta.targetFileSize", "128mb"),
            ("delta.isolationLevel", "writeserializable"),
            ("owner", "anything"),
            ("deltas", ""),
        ] {
            assert!(check(property, value).is_ok(), "{property}={value}");
        }
        for (property, value, words) in [
            ("delta.appendOnly", "yes", "true or false"),
            ("delta.logRetentionDuration", "a while", "interval 7 days"),
            ("delta.checkpointInterval", "0", "from 1 to 2147483647"),
            ("delta.checkpointInterval", "2147483648", "from 1 to 2147483647"),
            ("delta.checkpointInterval", "1.5", "whole number"),
            ("delta.dataSkippingNumIndexedCols", "-2", "from -1 to"),
            ("delta.dataSkippingStatsColumns", "a,,b", "separated by commas"),
            ("delta.targetFileSize", "much", "128mb"),
            ("delta.isolationLevel", "odd", "WriteSerializable"),
            ("delta.constraints.c", "a > 0", "add_constraint()"),
            ("delta.rowTrackingSuspended", "true", "not supported"),
            ("Delta.columnMapping.mode", "name", "not supported"),
            ("", "x", "no name"),
        ] {
            let refused = check(property, value).unwrap_err().to_string();
            assert!(refused.contains(words), "{property}={value}: {refused}");
        }
    }

    #[test]
    fn a_name_that_delta_does_not_have_gets_the_ones_like_it() {
        for (property, meant) in [
            ("delta.appendonly", "delta.appendOnly?"),
            ("delta.logRetention", "delta.logRetentionDuration?"),
            ("delta.checkpointsInterval", "delta.checkpointInterval?"),
            ("delta.nothing.like.it", "leave it out"),
        ] {
            let refused = check(property, "true").unwrap_err().to_string();
            assert!(refused.contains(meant), "{refused}");
        }
    }
}
