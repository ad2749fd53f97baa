//! Actions about the table: `protocol`, `metaData`, `txn`, `domainMetadata`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::UnknownFields;
use crate::error::{CommitError, Result};

/// Writer features of tables that this crate may write to: see "What is written, exactly" in
/// docs/design/commit-protocol.md. Writer version 4 asks for `generatedColumns` whether a column is generated or not:
/// columns that are make their table unwritable.
const WRITABLE_FEATURES: [&str; 16] = [
    "appendOnly",
    "invariants",
    "checkConstraints",
    "timestampNtz",
    "inCommitTimestamp",
    "rowTracking",
    "domainMetadata",
    "deletionVectors",
    "v2Checkpoint",
    "clustering",
    "changeDataFeed",
    "generatedColumns",
    "columnMapping",
    "typeWidening",
    "typeWidening-preview",
    // Of tables without a column of the type, which could not be opened.
    "variantType",
];

/// The versions and features that readers and writers of the table must implement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Protocol {
    /// The protocol version that a reader must implement.
    pub min_reader_version: i32,
    /// The protocol version that a writer must implement.
    pub min_writer_version: i32,
    /// Features a reader must implement, with reader version 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader_features: Option<Vec<String>>,
    /// Features a writer must implement, with writer version 7.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer_features: Option<Vec<String>>,
    /// Fields that this crate does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

impl Default for Protocol {
    fn default() -> Self {
        Self {
            min_reader_version: 1,
            min_writer_version: 2,
            reader_features: None,
            writer_features: None,
            unknown: UnknownFields::default(),
        }
    }
}

impl Protocol {
    /// Refuses a table that requires writer features which are not implemented.
    ///
    /// # Errors
    /// [`CommitError::Unsupported`], with the version or the features by name.
    pub fn check_writable(&self) -> Result<()> {
        let unsupported = |what: String| {
            CommitError::Unsupported(format!(
                "the table's protocol asks for {what}; supported are reader version 1 with writer versions 1 to 4, 2 \
                 with 5, and any with 7 and the features {}",
                WRITABLE_FEATURES.join(", ")
            ))
        };
        match (self.min_reader_version, self.min_writer_version) {
            // The mapping of columns came with the second version for readers and the fifth for writers.
            (1, 1..=4) | (2, 5) => Ok(()),
            (1..=3, 7) => {
                let unknown: BTreeSet<&str> = self
                    .writer_features
                    .iter()
                    .chain(&self.reader_features)
                    .flatten()
                    .map(String::as_str)
                    .filter(|feature| !WRITABLE_FEATURES.contains(feature))
                    .collect();
                if unknown.is_empty() {
                    Ok(())
                } else {
                    let unknown: Vec<&str> = unknown.into_iter().collect();
                    Err(unsupported(format!("the features {}", unknown.join(", "))))
                }
            }
            (reader, writer) => Err(unsupported(format!(
                "reader version {reader} and writer version {writer}"
            ))),
        }
    }
}

/// The format of the data files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Format {
    /// Always `parquet`.
    pub provider: String,
    /// Always empty.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// Fields that this crate does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

impl Default for Format {
    fn default() -> Self {
        Self {
            provider: "parquet".to_owned(),
            options: BTreeMap::new(),
            unknown: UnknownFields::default(),
        }
    }
}

/// Schema, partitioning and properties.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The table's own id, a UUID.
    pub id: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The format of the data files.
    #[serde(default)]
    pub format: Format,
    /// The schema, a JSON object as a string: see [`crate::schema`]. Empty where a writer had none yet.
    #[serde(default)]
    pub schema_string: String,
    /// The partition columns, in their order.
    #[serde(default)]
    pub partition_columns: Vec<String>,
    /// Table properties.
    #[serde(default)]
    pub configuration: BTreeMap<String, String>,
    /// Milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_time: Option<i64>,
    /// Fields that this crate does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

impl Metadata {
    /// Returns true if a property is set to `true`.
    #[must_use]
    pub fn is_enabled(&self, property: &str) -> bool {
        self.configuration
            .get(property)
            .is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }
}

/// The last transaction version of an application.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Txn {
    /// The application's id.
    pub app_id: String,
    /// The application's own count of its transactions.
    pub version: i64,
    /// Milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<i64>,
    /// Fields that this crate does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

/// The configuration of a named domain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainMetadata {
    /// The name of the domain. Names that begin with `delta.` are reserved by the format.
    pub domain: String,
    /// Its configuration, in a form of its own.
    pub configuration: String,
    /// True if the action removes the domain.
    pub removed: bool,
    /// Fields that this crate does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}
