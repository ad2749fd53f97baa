//! Detached parts of an append: files that one process wrote, for an append of another process to commit.
//!
//! A part holds the files' `add` actions, and all of the table's state that the files were written for. The append that
//! takes the part compares this state with its own, so that files never get into a table that changed under them.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use delta_commit::actions::{Add, Format, Protocol};
use delta_commit::conflict::{Conflict, ConflictKind};
use delta_commit::log::BEFORE_FIRST;
use delta_commit::{CommitError, Version, announced_files, path};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::append::WrittenFiles;
use crate::constraints;
use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::mapping::Mapping;
use crate::schema::TableSchema;
use crate::snapshot::Snapshot;
use crate::table::Table;

/// The form of a part's bytes.
const FORM: u32 = 1;

/// The state of a table on which its data files depend. Other properties than constraints are not in it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Basis {
    id: String,
    protocol: Protocol,
    schema: Value,
    partition_columns: Vec<String>,
    format: Format,
    /// The columns that every file must have statistics of.
    clustering: Vec<Vec<String>>,
    /// True if files have other names for the columns than the table.
    #[serde(default)]
    is_mapped: bool,
    /// The constraints and invariants that the rows were compared with: names and expressions.
    #[serde(default)]
    constraints: Vec<(String, String)>,
}

impl Basis {
    pub fn of(head: &TableHead) -> Result<Self> {
        let metadata = &head.metadata;
        Ok(Self {
            id: metadata.id.clone(),
            protocol: head.protocol.clone(),
            schema: json_of(&head.schema)?,
            partition_columns: metadata.partition_columns.clone(),
            format: metadata.format.clone(),
            clustering: head.clustering()?,
            is_mapped: head.mapping != Mapping::None,
            constraints: constraints::compared(head),
        })
    }

    /// The mapping that finds the columns of the part.
    fn mapping(&self) -> Mapping {
        if self.is_mapped {
            Mapping::Name
        } else {
            Mapping::None
        }
    }

    /// Returns true if files that were written for this state are valid in the present one.
    pub fn is_valid_in(&self, now: &Self) -> bool {
        self.id == now.id && self.conflict(now, false).is_none()
    }

    /// The conflict between this state and the present one. Rows of a merged schema may be written before or after
    /// another append adds columns: they depend on their own columns alone. Where files have names and ids that the
    /// schema gives, they depend on all of it.
    fn conflict(&self, now: &Self, merge: bool) -> Option<ConflictKind> {
        let merge = merge && !(self.is_mapped || now.is_mapped);
        if !merge && self.protocol != now.protocol {
            return Some(ConflictKind::ProtocolChanged);
        }
        let is_same = (&self.partition_columns, &self.format, &self.clustering)
            == (&now.partition_columns, &now.format, &now.clustering);
        let mut constraints = now.constraints.iter();
        let are_checked = constraints.all(|constraint| self.constraints.contains(constraint));
        let fits = is_same && are_checked && (merge || self.schema == now.schema);
        (!fits).then_some(ConflictKind::MetadataChanged)
    }
}

/// The files of a finished append that has no commit of its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DetachedFiles {
    /// The form of these fields.
    #[serde(rename = "deltaAppendPart")]
    form: u32,
    version: Version,
    basis: Basis,
    /// The columns of the rows, as the table is to hold them; none where no rows came.
    columns: Option<Value>,
    /// The parsed `columns`.
    #[serde(skip)]
    schema: Option<TableSchema>,
    pub adds: Vec<Add>,
    pub rows: u64,
    pub bytes: u64,
}

impl DetachedFiles {
    pub fn new(head: &TableHead, columns: Option<&TableSchema>, written: WrittenFiles) -> Result<Self> {
        Ok(Self {
            form: FORM,
            version: head.version,
            basis: Basis::of(head)?,
            columns: columns.map(json_of).transpose()?,
            schema: columns.cloned(),
            adds: written.adds,
            rows: written.rows,
            bytes: written.bytes,
        })
    }

    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|error| TableError::Malformed(format!("the part: {error}")))
    }

    /// Parses the bytes of [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    /// [`TableError::Option`] when they are none.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let refused = |why: String| {
            TableError::option(
                "part",
                format!("{why}: give the bytes that detach() returned, of the same version of Spillway"),
            )
        };
        let value: Value = serde_json::from_slice(bytes)
            .map_err(|error| refused(format!("this is no part of an append ({error})")))?;
        match value.get("deltaAppendPart").and_then(Value::as_u64) {
            Some(form) if form == u64::from(FORM) => {}
            Some(form) => {
                return Err(refused(format!(
                    "the part has form {form}, and {FORM} is the one that is known"
                )));
            }
            None => return Err(refused("this is no part of an append".to_owned())),
        }
        let mut part: Self = serde_json::from_value(value)
            .map_err(|error| refused(format!("the part is damaged ({error})")))?;
        let columns = part.columns.as_ref();
        part.schema = columns
            .map(|columns| TableSchema::parse(&columns.to_string(), part.basis.mapping()))
            .transpose()?;
        for add in &part.adds {
            path::decode_inside(&add.path)?;
            if path::as_reference(&add.path) != add.path {
                return Err(refused(format!(
                    "the part is damaged (the path {:?} is no URI reference)",
                    add.path
                )));
            }
        }
        Ok(part)
    }

    /// The columns of the rows.
    pub fn schema(&self) -> Option<&TableSchema> {
        self.schema.as_ref()
    }

    /// Checks that the files can become part of the table as it is in `head`.
    ///
    /// # Errors
    /// [`TableError::Option`] when they are another table's. [`CommitError::Conflict`] when the table changed since
    /// they were written, or was changed before they were and `head` is older.
    pub fn check(&self, head: &TableHead, merge: bool) -> Result<()> {
        let now = Basis::of(head)?;
        // What was planned got another id where somebody else was quicker to create the table.
        if self.basis.id != now.id && self.version != BEFORE_FIRST {
            return Err(TableError::option(
                "part",
                format!(
                    "the part was written for the table with the id {}, and this one has the id {}",
                    self.basis.id, now.id
                ),
            ));
        }
        match self.basis.conflict(&now, merge) {
            None => Ok(()),
            Some(kind) => Err(CommitError::from(Box::new(Conflict {
                kind,
                version: head.changed_in.max(self.version),
                operation: "a change of the table".to_owned(),
                read_version: self.version.min(head.version),
                only_moved: false,
            }))
            .into()),
        }
    }
}

impl Table {
    /// The names, relative to the table, of files below a folder that the table has, that its older versions have, or
    /// that an announced transaction may add. An absolute path in the log counts as every name in the folder that it
    /// may stand for.
    ///
    /// # Errors
    /// When the log or the announcements cannot be read.
    pub fn paths_in_use(&self, folder: &str) -> Result<Vec<String>> {
        // In this order: what is announced no more may be in the table.
        let announced = announced_files(self.shared()?.storage.log_store().as_ref(), &[])?;
        let snapshot = self.snapshot()?;
        let below = format!("{folder}/");
        let mut names = Vec::new();
        for path in announced.iter().map(String::as_str).chain(snapshot.known_paths()) {
            let path = path::normal(path);
            let inside = path::names_of(&path).filter(|name| name.starts_with(&below));
            names.extend(inside.map(str::to_owned));
        }
        Ok(names)
    }
}

/// The names, in the table's folder, of those files that no version of the table has or had, and that are not among the
/// announced paths, however these are spelled.
pub(crate) fn stray_files<'a>(
    adds: impl Iterator<Item = &'a Add>,
    table: &Snapshot,
    announced: &[String],
) -> Vec<String> {
    let mut strays: HashMap<Cow<'_, str>, String> = adds
        .filter_map(|add| Some((add.normal_path(), path::decode_inside(&add.path).ok()?)))
        .collect();
    strays.retain(|name, _| !table.contents.knows(name));
    for path in announced {
        for name in path::names_of(&path::normal(path)) {
            strays.remove(name);
        }
    }
    strays.into_values().collect()
}

/// Returns true if a version of the table has or had this file.
pub(crate) fn is_known(add: &Add, table: &Snapshot) -> bool {
    table.contents.knows(&add.normal_path())
}

/// Refuses a part whose files are in the table, in another part, or in this one twice. `taken` has the normal paths of
/// the other parts' files.
pub(crate) fn check_new(part: &DetachedFiles, taken: &HashSet<String>, table: &Snapshot) -> Result<()> {
    let mut own = HashSet::new();
    for add in &part.adds {
        let path = add.normal_path();
        if is_known(add, table) || taken.contains(path.as_ref()) || !own.insert(path) {
            return Err(CommitError::DuplicateFile {
                path: add.path.clone(),
                version: None,
            }
            .into());
        }
    }
    Ok(())
}

/// A schema as JSON, which does not depend on the writer of the log.
fn json_of(schema: &TableSchema) -> Result<Value> {
    serde_json::from_str(&schema.to_json())
        .map_err(|error| TableError::Malformed(format!("the schema of the table: {error}")))
}
