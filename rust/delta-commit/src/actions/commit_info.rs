//! The `commitInfo` action: the provenance of a commit.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

/// The provenance of a commit.
///
/// Any writer may put any JSON here, so reading never fails: fields of another type than expected are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitInfo {
    /// Must come first where it is used: milliseconds since the epoch, strictly rising from version to version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_commit_timestamp: Option<i64>,
    /// Milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<i64>,
    /// The operation, by Spark's name: `WRITE`, `DELETE`, `CREATE TABLE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The operation's settings. String to string.
    pub operation_parameters: BTreeMap<String, String>,
    /// The version that the transaction read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_version: Option<i64>,
    /// The isolation level that it was checked under.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation_level: Option<String>,
    /// True if the transaction only added files and read nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_blind_append: Option<bool>,
    /// Counts for people. String to string.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub operation_metrics: BTreeMap<String, String>,
    /// A note from the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_metadata: Option<String>,
    /// Notes. They hold the ids of a combined commit's members.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// The software that wrote the commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine_info: Option<String>,
    /// The id of the transaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub txn_id: Option<String>,
}

impl CommitInfo {
    /// Reads the fields that are understood from the body of a `commitInfo`.
    #[must_use]
    pub fn from_json(body: &Value) -> Self {
        let Value::Object(fields) = body else {
            return Self::default();
        };
        let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
        let number = |name: &str| fields.get(name).and_then(Value::as_i64);
        Self {
            in_commit_timestamp: number("inCommitTimestamp"),
            timestamp: number("timestamp"),
            operation: text("operation"),
            operation_parameters: strings(fields, "operationParameters"),
            read_version: number("readVersion"),
            isolation_level: text("isolationLevel"),
            is_blind_append: fields.get("isBlindAppend").and_then(Value::as_bool),
            operation_metrics: strings(fields, "operationMetrics"),
            user_metadata: text("userMetadata"),
            tags: strings(fields, "tags"),
            engine_info: text("engineInfo"),
            txn_id: text("txnId"),
        }
    }
}

/// A map of strings. Other writers put numbers and booleans there, which become their JSON text.
fn strings(fields: &Map<String, Value>, name: &str) -> BTreeMap<String, String> {
    let Some(Value::Object(map)) = fields.get(name) else {
        return BTreeMap::new();
    };
    map.iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (key.clone(), text)
        })
        .collect()
}
