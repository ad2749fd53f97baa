//! Actions about files: `add`, `remove`, `cdc`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{PartitionValues, UnknownFields};
use crate::error::{CommitError, Result};
use crate::{path, z85};

/// A data file enters the table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Add {
    /// The file's path relative to the table's root, URL-encoded: see [`crate::path::encode`].
    pub path: String,
    /// The file's value in each partition column.
    pub partition_values: PartitionValues,
    /// Bytes.
    pub size: i64,
    /// Milliseconds since the epoch.
    pub modification_time: i64,
    /// True if the action changes the table's rows.
    pub data_change: bool,
    /// Statistics, a JSON object *as a string*.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<String>,
    /// Notes about the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, Option<String>>>,
    /// The rows of the file that are deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_vector: Option<DeletionVector>,
    /// The row id of the first row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_row_id: Option<i64>,
    /// The version in which the path was first added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_row_commit_version: Option<i64>,
    /// The implementation that clustered the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clustering_provider: Option<String>,
    /// Fields that this crate does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

impl Add {
    /// The path in [`normal`](path::normal) form.
    #[must_use]
    pub fn normal_path(&self) -> Cow<'_, str> {
        path::normal(&self.path)
    }
}

/// A data file leaves the table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remove {
    /// The path, exactly as the `add` had it.
    pub path: String,
    /// Milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<i64>,
    /// True if the action changes the table's rows.
    pub data_change: bool,
    /// True if `partition_values` and `size` are given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extended_file_metadata: Option<bool>,
    /// The file's value in each partition column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_values: Option<PartitionValues>,
    /// Bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    /// Statistics, a JSON object as a string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<String>,
    /// Notes about the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, Option<String>>>,
    /// The rows of the file that were deleted before it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_vector: Option<DeletionVector>,
    /// The row id of the first row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_row_id: Option<i64>,
    /// The version in which the path was first added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_row_commit_version: Option<i64>,
    /// Fields that this crate does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

impl Remove {
    /// The path in [`normal`](path::normal) form.
    #[must_use]
    pub fn normal_path(&self) -> Cow<'_, str> {
        path::normal(&self.path)
    }

    /// The removal of a file that `add` added, with everything that readers of tombstones can use.
    ///
    /// `now` is in milliseconds since the epoch.
    #[must_use]
    pub fn of(add: &Add, now: i64, data_change: bool) -> Self {
        Self {
            path: add.path.clone(),
            deletion_timestamp: Some(now),
            data_change,
            extended_file_metadata: Some(true),
            partition_values: Some(add.partition_values.clone()),
            size: Some(add.size),
            stats: add.stats.clone(),
            tags: add.tags.clone(),
            deletion_vector: add.deletion_vector.clone(),
            base_row_id: add.base_row_id,
            default_row_commit_version: add.default_row_commit_version,
            unknown: UnknownFields::default(),
        }
    }
}

/// A change data file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cdc {
    /// The file's path relative to the table's root, URL-encoded.
    pub path: String,
    /// The file's value in each partition column.
    pub partition_values: PartitionValues,
    /// Bytes.
    pub size: i64,
    /// Always false: the table's rows do not change by it.
    pub data_change: bool,
    /// Notes about the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, Option<String>>>,
}

impl Cdc {
    /// A change data file with the path, the partition and the size of `file`.
    #[must_use]
    pub fn of(file: Add) -> Self {
        Self {
            path: file.path,
            partition_values: file.partition_values,
            size: file.size,
            data_change: false,
            tags: file.tags,
        }
    }
}

/// The location of the bitmap of a file's deleted rows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletionVector {
    /// `u` beside the table, `p` at an absolute path, `i` inline.
    pub storage_type: String,
    /// An encoded UUID, a path or the bitmap itself, by storage type.
    pub path_or_inline_dv: String,
    /// The offset of the bitmap in its file, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<i32>,
    /// Its length, bytes.
    pub size_in_bytes: i32,
    /// The number of rows that it deletes.
    pub cardinality: i64,
    /// Fields that this crate does not know.
    #[serde(flatten)]
    pub unknown: UnknownFields,
}

impl DeletionVector {
    /// An id that differs between any two deletion vectors of one file.
    #[must_use]
    pub fn unique_id(&self) -> String {
        let (kind, place) = (&self.storage_type, &self.path_or_inline_dv);
        match self.offset {
            Some(offset) => format!("{kind}{place}@{offset}"),
            None => format!("{kind}{place}"),
        }
    }

    /// A vector in the table's file of this id, and at this offset in it.
    #[must_use]
    pub fn in_table(id: Uuid, offset: i32, size_in_bytes: i32, cardinality: i64) -> Self {
        Self {
            storage_type: "u".to_owned(),
            path_or_inline_dv: z85::encode(id.as_bytes()),
            offset: Some(offset),
            size_in_bytes,
            cardinality,
            unknown: UnknownFields::default(),
        }
    }

    /// A vector in the log itself.
    #[must_use]
    pub fn inline(bytes: &[u8], size_in_bytes: i32, cardinality: i64) -> Self {
        Self {
            storage_type: "i".to_owned(),
            path_or_inline_dv: z85::encode(bytes),
            offset: None,
            size_in_bytes,
            cardinality,
            unknown: UnknownFields::default(),
        }
    }

    /// The name, relative to the table, of the file of vectors with this id.
    #[must_use]
    pub fn file_name(id: Uuid) -> String {
        format!("deletion_vector_{id}.bin")
    }

    /// The file in the table's folder that holds it, and the place where it ends there, bytes. The protocol puts the
    /// vector's size before it and a checksum after it, four bytes each.
    #[must_use]
    pub fn end_in_table(&self) -> Option<(String, i64)> {
        let Ok(VectorFile::InTable(path)) = self.file() else {
            return None;
        };
        let end = i64::from(self.offset.unwrap_or(0)) + 4 + i64::from(self.size_in_bytes) + 4;
        Some((path, end))
    }

    /// The file that holds it.
    ///
    /// # Errors
    /// [`CommitError::Malformed`] when it does not say where it is in a way that the protocol knows.
    pub fn file(&self) -> Result<VectorFile> {
        let place = &self.path_or_inline_dv;
        let malformed = || {
            CommitError::Malformed(format!(
                "the deletion vector {:?} has no place that the protocol knows",
                self.unique_id()
            ))
        };
        match self.storage_type.as_str() {
            "i" => Ok(VectorFile::None),
            "p" => Ok(VectorFile::At(place.clone())),
            "u" => {
                // The folder, of any length, and the id.
                let split = place.len().checked_sub(ENCODED_ID).ok_or_else(malformed)?;
                let (folder, id) = place.split_at_checked(split).ok_or_else(malformed)?;
                let id = decoded_id(id).ok_or_else(malformed)?;
                let slash = if folder.is_empty() { "" } else { "/" };
                let name = Self::file_name(id);
                Ok(VectorFile::InTable(format!("{folder}{slash}{name}")))
            }
            _ => Err(malformed()),
        }
    }
}

/// The location of a deletion vector's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VectorFile {
    /// It has none: it is in the log.
    None,
    /// At a path relative to the table's root.
    InTable(String),
    /// At an absolute path, or a URL.
    At(String),
}

/// Characters of a UUID in Z85.
const ENCODED_ID: usize = 20;

/// Decodes a UUID from Z85.
fn decoded_id(text: &str) -> Option<Uuid> {
    Uuid::from_slice(&z85::decode(text)?).ok()
}
