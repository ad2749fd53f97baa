//! The actions of the Delta log, as this and other writers write them.
//!
//! One action is one JSON object with one key, on one line. Unknown actions are left out when reading: the protocol
//! promises that they are never needed to read a table correctly. Unknown fields are kept, so that checkpoints have
//! them too. The exceptions are fields of `commitInfo` and `cdc`, which no checkpoint holds.

mod commit_info;
mod files;
mod partition_values;
mod table;
mod unknown;

pub use commit_info::CommitInfo;
pub use files::{Add, Cdc, DeletionVector, Remove, VectorFile};
pub use partition_values::{PartitionValues, partition_value};
pub use table::{DomainMetadata, Format, Metadata, Protocol, Txn};
pub use unknown::UnknownFields;

use std::fmt;

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::error::{CommitError, Result};

/// One entry of a commit.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// The provenance of the commit.
    CommitInfo(CommitInfo),
    /// The versions and features that readers and writers of the table must implement.
    Protocol(Protocol),
    /// Schema, partitioning and properties.
    #[serde(rename = "metaData")]
    Metadata(Metadata),
    /// A data file enters the table.
    Add(Add),
    /// A data file leaves the table.
    Remove(Remove),
    /// A change data file.
    Cdc(Cdc),
    /// The last transaction version of an application.
    Txn(Txn),
    /// The configuration of a named domain.
    DomainMetadata(DomainMetadata),
}

impl Action {
    /// The action as one line of a commit, without the line's end.
    ///
    /// # Errors
    /// [`CommitError::Malformed`] when a value has no JSON form.
    pub fn to_line(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|e| CommitError::Malformed(format!("an action has no JSON form: {e}")))
    }

    /// The action of a name by its fields, in any format that serde reads; none when this crate does not know it.
    ///
    /// # Errors
    /// Those of the format, and when a field is missing that the action requires.
    pub fn from_fields<'de, D: Deserializer<'de>>(
        name: &str,
        fields: D,
    ) -> std::result::Result<Option<Self>, D::Error> {
        NamedAction(name).deserialize(fields)
    }

    /// The action in one line of a commit; none when this crate does not know it.
    ///
    /// # Errors
    /// [`CommitError::Malformed`] when the line is not JSON, or lacks what its action requires.
    pub fn from_line(line: &str) -> Result<Option<Self>> {
        match serde_json::from_str(line) {
            Ok(Line(action)) => Ok(action),
            Err(e) => Err(CommitError::Malformed(format!(
                "not an action of the Delta log: {e} in {}",
                shorten(line)
            ))),
        }
    }
}

/// The action of a line, if it is known. It is read from the text as it goes by: every process reads every version.
pub(crate) struct Line(pub(crate) Option<Action>);

impl<'de> Deserialize<'de> for Line {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_map(LineVisitor)
    }
}

struct LineVisitor;

impl<'de> Visitor<'de> for LineVisitor {
    type Value = Line;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> std::result::Result<Line, A::Error> {
        let mut action = None;
        while let Some(name) = fields.next_key::<String>()? {
            // Readers disagree on which of two actions counts. A `commitInfo` does not change the table, so it may be
            // beside another action.
            match (fields.next_value_seed(NamedAction(&name))?, &action) {
                (None | Some(Action::CommitInfo(_)), Some(_)) | (None, None) => {}
                (found, None | Some(Action::CommitInfo(_))) => action = found,
                (Some(_), Some(_)) => return Err(A::Error::custom("a line has two actions")),
            }
        }
        Ok(Line(action))
    }
}

/// The action of a name, by its fields; none when it is not known.
struct NamedAction<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for NamedAction<'_> {
    type Value = Option<Action>;

    fn deserialize<D: Deserializer<'de>>(self, fields: D) -> std::result::Result<Self::Value, D::Error> {
        Ok(Some(match self.0 {
            "commitInfo" => Action::CommitInfo(CommitInfo::from_json(&Value::deserialize(fields)?)),
            "protocol" => Action::Protocol(Protocol::deserialize(fields)?),
            "metaData" => Action::Metadata(Metadata::deserialize(fields)?),
            "add" => Action::Add(Add::deserialize(fields)?),
            "remove" => Action::Remove(Remove::deserialize(fields)?),
            "cdc" => Action::Cdc(Cdc::deserialize(fields)?),
            "txn" => Action::Txn(Txn::deserialize(fields)?),
            "domainMetadata" => Action::DomainMetadata(DomainMetadata::deserialize(fields)?),
            _ => {
                IgnoredAny::deserialize(fields)?;
                return Ok(None);
            }
        }))
    }
}

/// The known actions of a whole commit, in its order.
///
/// # Errors
/// [`CommitError::Malformed`] when it is not UTF-8, or one of its lines is not an action.
pub fn parse_commit(body: &[u8]) -> Result<Vec<Action>> {
    actions_of(body)?.collect()
}

/// The known actions of a whole commit, in its order, each parsed when it is asked for.
///
/// # Errors
/// [`CommitError::Malformed`] when it is not UTF-8; of an action, when its line is none.
pub fn actions_of(body: &[u8]) -> Result<impl Iterator<Item = Result<Action>> + '_> {
    let text = std::str::from_utf8(body)
        .map_err(|e| CommitError::Malformed(format!("a commit is UTF-8 text, but: {e}")))?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    Ok(lines.filter_map(|line| Action::from_line(line).transpose()))
}

fn shorten(line: &str) -> String {
    const SHOWN: usize = 120;
    match line.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line.to_owned(),
    }
}
