//! The search for the files with changed rows, version by version.

use std::collections::BTreeMap;
use std::sync::Arc;

use delta_commit::actions::{Action, Add, CommitInfo, DeletionVector, PartitionValues, Remove};
use delta_commit::{Version, path};
use parquet_writer::WriteError;

use crate::change_feed::{CHANGE_FEED, ChangeType};
use crate::error::{Result, TableError};
use crate::head::{KnownReplay, TableHead};
use crate::mapping::Mapping;
use crate::properties::IN_COMMIT_TIMESTAMPS;
use crate::storage::TableStorage;
use crate::table::SharedTable;
use crate::versions::VersionCache;

use super::schemas::Schemas;
use super::{ChangedFile, ChangedRows};

/// The files with changed rows of a range of versions.
pub(super) struct ChangedFiles {
    pub parts: Vec<ChangedFile>,
    /// The state at the last version, with null allowed wherever rows of the range may have it.
    pub end: Arc<TableHead>,
    /// The state before the first version, if its rows cannot be read in the columns of the last one.
    pub former: Option<Arc<TableHead>>,
}

pub(super) fn head_at(shared: &SharedTable, version: Version) -> Result<Arc<TableHead>> {
    Ok(shared
        .log
        .load::<KnownReplay>(Some(version), VersionCache::default())?
        .state
        .head)
}

/// Finds the files of the versions from this one on, up to that of `end`.
///
/// # Errors
/// As [`Table::changes`](crate::Table::changes).
pub(super) fn find(
    shared: &SharedTable,
    first: Version,
    end: &TableHead,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<ChangedFiles> {
    let times = shared.log.written(first)?;
    let mut head = first_head(shared, first)?;
    let mut schemas = Schemas::of(end);
    let mut former = None;
    let mut parts = Vec::new();
    for found in shared.log.bodies(first..=end.version) {
        if !go_on() {
            return Err(WriteError::Interrupted.into());
        }
        let (version, body) = found?;
        let Some(body) = body else {
            return Err(cleaned_up(shared, version)?);
        };
        let actions = shared.log.parse(version, &body)?;
        let info = info_of(&actions);
        let noted = info.and_then(|info| info.timestamp);
        let is_empty = info.is_some_and(merged_nothing) && !has_change_data(&actions);
        if version == first && version > 0 && replaces_schema(&actions) {
            // Rows of the version before leave. The others of the range are checked in their turn.
            former = schemas.take_former(state_before(shared, version)?);
        }
        let rest = head.advance(version, actions)?;
        if version == first || head.changed_in == version {
            check_version(&head, end)?;
            schemas.take(&head);
        }
        // What is left of a range that cannot be read is looked at for the ranges that can.
        if is_empty || !schemas.hold_all() {
            continue;
        }
        let in_commit = head.in_commit_timestamp;
        let in_commit = in_commit.filter(|_| head.metadata.is_enabled(IN_COMMIT_TIMESTAMPS));
        let written = in_commit.or(times.get(&version).copied()).or(noted).unwrap_or(0);
        let rows = changed_rows(&shared.storage, &head, rest)?.into_iter();
        parts.extend(rows.map(|rows| ChangedFile {
            version,
            written,
            rows,
        }));
    }
    Ok(ChangedFiles {
        parts,
        end: Arc::new(schemas.finish()?),
        former,
    })
}

/// The state before a version that states the schema and removes files, by which these are read.
fn state_before(shared: &SharedTable, version: Version) -> Result<Arc<TableHead>> {
    match head_at(shared, version - 1) {
        Err(TableError::NoSuchVersion(_)) => Err(cleaned_up(shared, version)?),
        head => head,
    }
}

/// The state at the first version of a range.
fn first_head(shared: &SharedTable, first: Version) -> Result<TableHead> {
    match head_at(shared, first) {
        // There were so many versions.
        Err(TableError::NoSuchVersion(_)) => Err(cleaned_up(shared, first)?),
        head => Ok(head?.as_ref().clone()),
    }
}

/// The error of a version that is gone. It names the first one of which the changes are there.
fn cleaned_up(shared: &SharedTable, version: Version) -> Result<TableError> {
    let advice = match first_readable(shared)? {
        Some(first) if first > version => format!(
            ". The first version whose changes are there is {first}: read from it on. A longer \
             delta.logRetentionDuration keeps more versions"
        ),
        _ => String::new(),
    };
    Ok(TableError::NoSuchVersion(format!(
        "the changes of version {version} cannot be read any more: the log was cleaned up{advice}"
    )))
}

/// The first version of which the changes can be read.
fn first_readable(shared: &SharedTable) -> Result<Option<Version>> {
    let Some(first) = shared.log.first_with_changes()? else {
        return Ok(None);
    };
    let actions = shared.log.read(first)?.map(|body| shared.log.parse(first, &body));
    // The schema of its removed files is that of the version before, which is gone.
    let is_cut_off = first > 0
        && actions
            .transpose()?
            .is_some_and(|actions| replaces_schema(&actions));
    if !is_cut_off {
        return Ok(Some(first));
    }
    Ok(shared.log.read(first + 1)?.map(|_| first + 1))
}

fn info_of(actions: &[Action]) -> Option<&CommitInfo> {
    actions.iter().find_map(|action| match action {
        Action::CommitInfo(info) => Some(info),
        _ => None,
    })
}

/// Returns true for a merge that changed no row. delta-spark may write files again in one, as if their rows changed;
/// its own reader passes over such a version.
fn merged_nothing(info: &CommitInfo) -> bool {
    let counts = [
        "numTargetRowsInserted",
        "numTargetRowsUpdated",
        "numTargetRowsDeleted",
    ];
    let is_none = |count: &&str| info.operation_metrics.get(*count).is_some_and(|rows| rows == "0");
    info.operation.as_deref() == Some("MERGE") && counts.iter().all(is_none)
}

fn has_change_data(actions: &[Action]) -> bool {
    actions.iter().any(|action| matches!(action, Action::Cdc(_)))
}

/// Refuses a version without a feed, and one of a table that maps columns.
fn check_version(head: &TableHead, end: &TableHead) -> Result<()> {
    let version = head.version;
    if !head.has_change_feed() {
        return Err(TableError::option(
            "first_version",
            format!(
                "version {version} has no change data feed: the table had not {CHANGE_FEED}=true in it. Read from a \
                 version on that has one, or up to the last one that has"
            ),
        ));
    }
    if head.mapping != Mapping::None || end.mapping != Mapping::None {
        return Err(TableError::unsupported(
            "the table maps its columns to other names, and change data feeds of such tables are not supported: read it \
             with Spark",
        ));
    }
    Ok(())
}

/// Returns true if a version states the metadata and removes files.
fn replaces_schema(actions: &[Action]) -> bool {
    let states = actions.iter().any(|action| matches!(action, Action::Metadata(_)));
    let mut removals = actions
        .iter()
        .filter(|action| matches!(action, Action::Remove(_)));
    states && removals.next().is_some()
}

/// The changed rows of a version, by its actions about files.
///
/// The rules are those of "Add CDC File" in Delta's PROTOCOL.md. A file that leaves with one deletion vector and comes
/// with another is a change of the rows that one of both deletes.
fn changed_rows(
    storage: &Arc<dyn TableStorage>,
    head: &TableHead,
    actions: Vec<Action>,
) -> Result<Vec<ChangedRows>> {
    let mut noted = Vec::new();
    let mut files: BTreeMap<String, [Option<Arc<Add>>; 2]> = BTreeMap::new();
    for action in actions {
        match action {
            Action::Cdc(cdc) => noted.push(ChangedRows::Noted(file(
                cdc.path,
                cdc.partition_values,
                cdc.size,
                None,
            ))),
            Action::Add(add) if add.data_change => {
                let [_, comes] = files.entry(add.normal_path().into_owned()).or_default();
                *comes = Some(file(
                    add.path,
                    add.partition_values,
                    add.size,
                    add.deletion_vector,
                ));
            }
            Action::Remove(remove) if remove.data_change => {
                let removed = removed(storage, head, remove)?;
                let [leaves, _] = files.entry(removed.normal_path().into_owned()).or_default();
                *leaves = Some(removed);
            }
            _ => {}
        }
    }
    if !noted.is_empty() {
        return Ok(noted);
    }
    let of = |file: &Arc<Add>, change, among: Option<&Arc<Add>>| ChangedRows::Of {
        file: Arc::clone(file),
        change,
        among: among.cloned(),
    };
    let changed = files.values().flat_map(|[leaves, comes]| match (leaves, comes) {
        (Some(leaves), Some(comes)) => {
            let marked = comes.deletion_vector.as_ref();
            let deleted = marked.map(|_| of(leaves, ChangeType::Delete, Some(comes)));
            let unmarked = leaves.deletion_vector.as_ref();
            let back = unmarked.map(|_| of(comes, ChangeType::Insert, Some(leaves)));
            [deleted, back]
        }
        (Some(leaves), None) => [Some(of(leaves, ChangeType::Delete, None)), None],
        (None, Some(comes)) => [Some(of(comes, ChangeType::Insert, None)), None],
        (None, None) => [None, None],
    });
    Ok(changed.flatten().collect())
}

/// A file's entry, as far as its rows need it: there may be as many as a table ever had.
fn file(
    path: String,
    partition_values: PartitionValues,
    size: i64,
    deletion_vector: Option<DeletionVector>,
) -> Arc<Add> {
    Arc::new(Add {
        path,
        partition_values,
        size,
        deletion_vector,
        ..Add::default()
    })
}

/// A file that left the table, as it was in it.
fn removed(storage: &Arc<dyn TableStorage>, head: &TableHead, remove: Remove) -> Result<Arc<Add>> {
    let lost = |what: &str| {
        TableError::Malformed(format!(
            "{}: the removal of the file in version {} does not say {what}, so that its rows cannot be read",
            remove.path, head.version
        ))
    };
    let partition_values = match &remove.partition_values {
        Some(values) => values.clone(),
        None if head.metadata.partition_columns.is_empty() => PartitionValues::default(),
        None => return Err(lost("its partition")),
    };
    let size = if let Some(size) = remove.size {
        size
    } else {
        let size = storage.size(&path::decode_inside(&remove.path)?)?;
        let size = size.ok_or_else(|| lost("its size, and it is gone"))?;
        i64::try_from(size).unwrap_or(i64::MAX)
    };
    Ok(file(remove.path, partition_values, size, remove.deletion_vector))
}
