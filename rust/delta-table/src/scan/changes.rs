//! The reading of a change data feed: version by version, file by file.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arrow_array::{
    ArrayRef, Int64Array, RecordBatch, RecordBatchReader, StringArray, TimestampMicrosecondArray,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use delta_commit::actions::{Action, Add, CommitInfo, PartitionValues, Remove};
use delta_commit::{Version, path};
use roaring::RoaringTreemap;

use crate::change_feed::{
    CHANGE_FEED, CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, ChangeType, change_type, check_columns,
};
use crate::deletion_vectors;
use crate::error::{Result, TableError};
use crate::head::{Head, KnownReplay};
use crate::mapping::Mapping;
use crate::place::Place;
use crate::properties::IN_COMMIT_TIMESTAMPS;
use crate::snapshot::Snapshot;
use crate::table::{Shared, Table};

use super::positions::row_count_of;
use super::reader::{FileReader, of_file};
use super::{Filters, Plan, chosen};

/// The versions and columns of a change data feed to read.
#[derive(Debug, Clone, Default)]
pub struct ChangesOptions {
    /// The first version.
    pub first: Version,
    /// The last version. The default is the newest.
    pub last: Option<Version>,
    /// Names of top-level columns, in the order of the answer. The default is all of the table.
    pub columns: Option<Vec<String>>,
}

/// The changes of rows in a range of versions. Their files are chosen, and none is read yet.
pub struct Changes {
    plans: Arc<Plans>,
    first: Version,
    last: Version,
    parts: Vec<Part>,
}

/// Everything that holds for all files of a feed.
struct Plans {
    /// The reading of data files.
    of_data: Plan,
    /// The reading of change data files, which have the column `_change_type`.
    of_changes: Plan,
    schema: SchemaRef,
}

/// A file with changed rows of a version.
#[derive(Clone)]
struct Part {
    version: Version,
    /// The time at which it was written, in milliseconds since the epoch.
    written: i64,
    rows: Rows,
}

/// The rows of a file that changed.
#[derive(Clone)]
enum Rows {
    /// All of a change data file.
    Noted(Arc<Add>),
    /// Those of a data file that its deletion vector leaves.
    Of {
        file: Arc<Add>,
        change: ChangeType,
        /// The same file with another vector. Only rows that this one deletes are changed.
        among: Option<Arc<Add>>,
    },
}

impl Table {
    /// Plans the reading of the rows that versions changed, by the schema of the last of them.
    ///
    /// # Errors
    /// [`TableError::Option`] when the range is empty, the table had no change data feed in one of its versions, or the
    /// last schema cannot hold the rows of one; [`TableError::NoSuchVersion`] when a version is not there, or no more;
    /// [`delta_commit::CommitError::Unsupported`] for a table that maps columns.
    pub fn changes(&self, options: &ChangesOptions) -> Result<Changes> {
        let shared = self.shared()?;
        let newest = shared.refresh(&mut shared.looking())?;
        let (first, last) = (options.first, options.last.unwrap_or(newest.version));
        check_range(first, last, newest.version)?;
        let planned = || {
            let end = head_at(&shared, last)?;
            let plans = Plans::new(&shared.place, &end, options.columns.as_deref())?;
            let parts = parts(&shared, first, &end)?;
            Ok(Changes {
                plans: Arc::new(plans),
                first,
                last,
                parts,
            })
        };
        planned().map_err(|error| shared.or_replaced(error))
    }
}

impl Changes {
    /// The schema of the answer: the table's columns, and those of the feed.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.plans.schema)
    }

    /// The first and the last version that are read.
    #[must_use]
    pub fn versions(&self) -> (Version, Version) {
        (self.first, self.last)
    }

    /// Starts to read, from the first version on. Each call reads anew.
    #[must_use]
    pub fn reader(&self) -> ChangesReader {
        ChangesReader {
            plans: Arc::clone(&self.plans),
            parts: self.parts.clone().into(),
            open: None,
        }
    }
}

fn check_range(first: Version, last: Version, newest: Version) -> Result<()> {
    if let Some(version) = [first, last]
        .into_iter()
        .find(|version| !(0..=newest).contains(version))
    {
        return Err(TableError::NoSuchVersion(format!(
            "the table has no version {version}: it has versions 0 to {newest}"
        )));
    }
    if first > last {
        return Err(TableError::option(
            "first_version",
            format!(
                "there are no versions from {first} to {last}: give a first one that is not after the last"
            ),
        ));
    }
    Ok(())
}

fn head_at(shared: &Shared, version: Version) -> Result<Arc<Head>> {
    Ok(shared.log.load::<KnownReplay>(Some(version))?.state.head)
}

/// The files with changed rows of the versions from this one on, up to that of `end`.
fn parts(shared: &Shared, first: Version, end: &Head) -> Result<Vec<Part>> {
    let times = shared.log.written()?;
    let mut head = head_at(shared, first)?.as_ref().clone();
    let mut parts = Vec::new();
    for version in first..=end.version {
        let body = shared.log.read(version)?;
        let body = body.ok_or_else(|| {
            TableError::NoSuchVersion(format!(
                "the changes of version {version} cannot be read any more: the log was cleaned up"
            ))
        })?;
        let actions = shared.log.parse(version, &body)?;
        let info = actions.iter().find_map(|action| match action {
            Action::CommitInfo(info) => Some(info),
            _ => None,
        });
        let noted = info.and_then(|info| info.timestamp);
        let is_empty = info.is_some_and(merged_nothing) && !has_change_data(&actions);
        if version == first && version > 0 && replaces_schema(&actions) {
            // Rows of the version before leave. The others of the range are checked in their turn.
            let before = head_at(shared, version - 1)?;
            check_held(&before, end)?;
        }
        let rest = head.advance(version, actions)?;
        if version == first || head.changed_in == version {
            check_version(&head, end)?;
        }
        let in_commit = head.in_commit_timestamp;
        let in_commit = in_commit.filter(|_| head.metadata.is_enabled(IN_COMMIT_TIMESTAMPS));
        let written = in_commit.or(times.get(&version).copied()).or(noted).unwrap_or(0);
        if is_empty {
            continue;
        }
        let rows = changed_rows(&shared.place, &head, rest)?.into_iter();
        parts.extend(rows.map(|rows| Part {
            version,
            written,
            rows,
        }));
    }
    Ok(parts)
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

/// Refuses a version without a feed, one of a table that maps columns, and one whose rows cannot be rows of the last
/// version.
fn check_version(head: &Head, end: &Head) -> Result<()> {
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
            "the table maps its columns to other names, and change data feeds of such tables are not built: read it \
             with Spark",
        ));
    }
    check_held(head, end)
}

/// Returns true if a version states the metadata and removes files.
fn replaces_schema(actions: &[Action]) -> bool {
    let states = actions.iter().any(|action| matches!(action, Action::Metadata(_)));
    let mut removals = actions
        .iter()
        .filter(|action| matches!(action, Action::Remove(_)));
    states && removals.next().is_some()
}

/// Refuses a version whose rows cannot be rows of the last version.
fn check_held(head: &Head, end: &Head) -> Result<()> {
    let same = head.metadata.partition_columns == end.metadata.partition_columns;
    let why = match end.schema.check_rows(&head.schema) {
        Ok(()) if same => return Ok(()),
        Ok(()) => "the table was partitioned by other columns".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(TableError::option(
        "last_version",
        format!(
            "the rows of version {} cannot be read as those of version {}: {why}. Read both apart",
            head.version, end.version
        ),
    ))
}

/// The changed rows of a version, by its actions about files.
///
/// The rules are those of "Add CDC File" in Delta's PROTOCOL.md. A file that leaves with one deletion vector and comes
/// with another is a change of the rows that one of both deletes.
fn changed_rows(place: &Arc<dyn Place>, head: &Head, actions: Vec<Action>) -> Result<Vec<Rows>> {
    let mut noted = Vec::new();
    let mut files: BTreeMap<String, [Option<Arc<Add>>; 2]> = BTreeMap::new();
    for action in actions {
        match action {
            Action::Cdc(cdc) => noted.push(Rows::Noted(Arc::new(Add {
                path: cdc.path,
                partition_values: cdc.partition_values,
                size: cdc.size,
                ..Add::default()
            }))),
            Action::Add(add) if add.data_change => {
                let [_, comes] = files.entry(add.path.clone()).or_default();
                *comes = Some(Arc::new(add));
            }
            Action::Remove(remove) if remove.data_change => {
                let removed = removed(place, head, remove)?;
                let [leaves, _] = files.entry(removed.path.clone()).or_default();
                *leaves = Some(Arc::new(removed));
            }
            _ => {}
        }
    }
    if !noted.is_empty() {
        return Ok(noted);
    }
    let of = |file: &Arc<Add>, change, among: Option<&Arc<Add>>| Rows::Of {
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

/// A file that left the table, as it was in it.
fn removed(place: &Arc<dyn Place>, head: &Head, remove: Remove) -> Result<Add> {
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
        let size = place.size(&path::decode_inside(&remove.path)?)?;
        let size = size.ok_or_else(|| lost("its size, and it is gone"))?;
        i64::try_from(size).unwrap_or(i64::MAX)
    };
    Ok(Add {
        path: remove.path,
        partition_values,
        size,
        deletion_vector: remove.deletion_vector,
        ..Add::default()
    })
}

impl Plans {
    fn new(place: &Arc<dyn Place>, end: &Arc<Head>, names: Option<&[String]>) -> Result<Self> {
        check_columns(&end.metadata, &end.schema)?;
        let snapshot = Arc::new(Snapshot::empty(Arc::clone(end)));
        let mut columns = chosen(end, names)?;
        let of_data = Plan::new(place, &snapshot, columns.clone(), Filters::default())?;
        columns.push(change_type());
        let of_changes = Plan::new(place, &snapshot, columns, Filters::default())?;
        let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let fields = of_data.schema.fields().iter().map(|field| field.as_ref().clone());
        let fields = fields.chain([
            Field::new(CHANGE_TYPE, DataType::Utf8, false),
            Field::new(COMMIT_VERSION, DataType::Int64, false),
            Field::new(COMMIT_TIMESTAMP, time, false),
        ]);
        Ok(Self {
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
            of_data,
            of_changes,
        })
    }

    fn of(&self, rows: &Rows) -> &Plan {
        match rows {
            Rows::Noted(_) => &self.of_changes,
            Rows::Of { .. } => &self.of_data,
        }
    }

    fn open(&self, rows: &Rows) -> Result<FileReader> {
        let plan = self.of(rows);
        let (file, among) = match rows {
            Rows::Noted(file) => (file, None),
            Rows::Of { file, among, .. } => (file, among.as_ref()),
        };
        let gone = deletion_vectors::read(&plan.place, file)?;
        let mut reader = FileReader::open(plan, Arc::clone(file), gone)?;
        if let Some(among) = among {
            let mut others = RoaringTreemap::new();
            others.insert_range(0..row_count_of(&reader));
            others -= deletion_vectors::read(&plan.place, among)?;
            reader.deleted |= others;
        }
        Ok(reader)
    }

    /// Rows with the columns of the feed.
    fn answer(&self, part: &Part, rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let count = rows.num_rows();
        let mut columns = rows.columns().to_vec();
        if let Rows::Of { change, .. } = &part.rows {
            let values = std::iter::repeat_n(change.to_string(), count);
            columns.push(Arc::new(StringArray::from_iter_values(values)));
        }
        let written = part.written.saturating_mul(1_000);
        let written = TimestampMicrosecondArray::from_value(written, count).with_timezone("UTC");
        let of_version: [ArrayRef; 2] = [
            Arc::new(Int64Array::from_value(part.version, count)),
            Arc::new(written),
        ];
        columns.extend(of_version);
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
    }
}

/// The batches of a change data feed. One row group is in memory at a time, compressed, and of it one batch decoded.
pub struct ChangesReader {
    plans: Arc<Plans>,
    parts: VecDeque<Part>,
    open: Option<(Part, FileReader)>,
}

impl ChangesReader {
    fn read(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some((part, reader)) = &mut self.open
                && let Some(rows) = reader.read(self.plans.of(&part.rows))?
            {
                let answer = self.plans.answer(part, &rows);
                let (Rows::Noted(file) | Rows::Of { file, .. }) = &part.rows;
                return answer.map(Some).map_err(|error| of_file(file, error.into()));
            }
            // Lets go of the last file before the next one is opened.
            self.open = None;
            let Some(part) = self.parts.pop_front() else {
                return Ok(None);
            };
            let reader = self.plans.open(&part.rows)?;
            self.open = Some((part, reader));
        }
    }
}

impl Iterator for ChangesReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read();
        if read.is_err() {
            // What comes after a failure would look like the whole rest.
            self.parts.clear();
            self.open = None;
        }
        read.map_err(|error| ArrowError::ExternalError(Box::new(error)))
            .transpose()
    }
}

impl RecordBatchReader for ChangesReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.plans.schema)
    }
}
