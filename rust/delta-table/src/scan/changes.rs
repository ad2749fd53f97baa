//! The reading of a change data feed: version by version, file by file.

mod former;
mod schemas;
mod versions;

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, Int64Array, RecordBatch, RecordBatchReader, StringArray, TimestampMicrosecondArray,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use delta_commit::actions::Add;
use delta_commit::log::{StoreError, StoreErrorKind};
use delta_commit::{CommitError, Version};

use crate::change_feed::{
    CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, ChangeType, change_type, check_columns,
};
use crate::data_file::table_error;
use crate::deletion_vectors;
use crate::error::{Result, TableError};
use crate::snapshot::Snapshot;
use crate::storage::TableStorage;
use crate::table::Table;
use crate::vacuum::RETENTION_PROPERTY;

use super::positions::row_count_of;
use super::reader::{FileReader, RowsInOrder};
use super::{Filters, ScanPlan, chosen};

use former::Former;
use versions::{ChangedFiles, find, head_at};

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
    last: Version,
    parts: Vec<ChangedFile>,
}

/// Everything that holds for all files of a feed.
struct Plans {
    /// The reading of data files.
    of_data: ScanPlan,
    /// The reading of change data files, which have the column `_change_type`.
    of_changes: ScanPlan,
    /// The reading of rows that the first version deletes, if it replaced their schema.
    of_former: Option<Former>,
    first: Version,
    schema: SchemaRef,
}

/// A file with changed rows of a version.
#[derive(Clone)]
struct ChangedFile {
    version: Version,
    /// The time at which it was written, in milliseconds since the epoch.
    written: i64,
    rows: ChangedRows,
}

/// The rows of a file that changed.
#[derive(Clone)]
enum ChangedRows {
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
    /// Plans the reading of the rows that versions changed, by the schema of the last of them. Null is allowed wherever
    /// rows of the range may have it.
    ///
    /// Rows that the first version deleted together with their schema are read in the columns of the new one: null in
    /// those that they lack, or had with other values.
    ///
    /// # Errors
    /// [`TableError::Option`] when the range is empty, the table had no change data feed in one of its versions, or the
    /// last schema cannot hold the rows of one; [`TableError::NoSuchVersion`] when a version is not there, or no more;
    /// [`delta_commit::CommitError::Unsupported`] for a table that maps columns;
    /// [`WriteError::Interrupted`](parquet_writer::WriteError::Interrupted) when `go_on` said no.
    pub fn changes(&self, options: &ChangesOptions, go_on: &mut dyn FnMut() -> bool) -> Result<Changes> {
        let shared = self.shared()?;
        let newest = shared.refresh(&mut shared.looking())?;
        let (first, last) = (options.first, options.last.unwrap_or(newest.version));
        check_range(first, last, newest.version)?;
        let mut planned = || {
            let end = head_at(&shared, last)?;
            check_columns(&end.metadata, &end.schema)?;
            let columns = chosen(&end, options.columns.as_deref())?.into_iter();
            let names: Vec<String> = columns.map(|column| column.name).collect();
            let mut found = find(&shared, first, &end, go_on)?;
            let parts = std::mem::take(&mut found.parts);
            Ok(Changes {
                plans: Arc::new(Plans::new(&shared.storage, found, &names, first)?),
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
        (self.plans.first, self.last)
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

impl Plans {
    fn new(
        storage: &Arc<dyn TableStorage>,
        found: ChangedFiles,
        names: &[String],
        first: Version,
    ) -> Result<Self> {
        let mut columns = chosen(&found.end, Some(names))?;
        let of_former = found.former.map(|head| Former::new(storage, head, &mut columns));
        let of_former = of_former.transpose()?;
        let snapshot = Arc::new(Snapshot::empty(found.end));
        let plan = |columns| {
            Ok::<_, TableError>(ScanPlan::new(storage, &snapshot, columns, Filters::default())?.unadvised())
        };
        let of_data = plan(columns.clone())?;
        columns.push(change_type());
        let of_changes = plan(columns)?;
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
            of_former,
            first,
        })
    }

    /// The reading of the rows of a part, if their schema was replaced.
    fn former(&self, part: &ChangedFile) -> Option<&Former> {
        let deletes = matches!(
            part.rows,
            ChangedRows::Of {
                change: ChangeType::Delete,
                ..
            }
        );
        let former = self.of_former.as_ref();
        former.filter(|_| deletes && part.version == self.first)
    }

    fn of(&self, part: &ChangedFile) -> &ScanPlan {
        match (&part.rows, self.former(part)) {
            (ChangedRows::Noted(_), _) => &self.of_changes,
            (ChangedRows::Of { .. }, Some(former)) => &former.plan,
            (ChangedRows::Of { .. }, None) => &self.of_data,
        }
    }

    fn open(&self, part: &ChangedFile) -> Result<FileReader> {
        let plan = self.of(part);
        let (file, among) = match &part.rows {
            ChangedRows::Noted(file) => (file, None),
            ChangedRows::Of { file, among, .. } => (file, among.as_ref()),
        };
        let gone = deletion_vectors::read(&plan.storage, file)?;
        let mut reader = FileReader::open(plan, Arc::clone(file), gone)?;
        if let Some(among) = among {
            let among = deletion_vectors::read(&plan.storage, among)?;
            reader.deleted |= deletion_vectors::others(row_count_of(&reader), &among);
        }
        Ok(reader)
    }

    /// Rows with the columns of the feed.
    fn answer(&self, part: &ChangedFile, rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let count = rows.num_rows();
        let mut columns = match self.former(part) {
            Some(former) => former.answer(rows, &self.of_data.columns)?,
            None => rows.columns().to_vec(),
        };
        if let ChangedRows::Of { change, .. } = &part.rows {
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
    parts: VecDeque<ChangedFile>,
    open: Option<(ChangedFile, RowsInOrder)>,
}

impl ChangesReader {
    fn read(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some((part, reader)) = &mut self.open
                && let Some(rows) = reader
                    .next(self.plans.of(part))
                    .map_err(|error| of_version(part.version, error))?
            {
                let answer = self.plans.answer(part, &rows);
                let (ChangedRows::Noted(file) | ChangedRows::Of { file, .. }) = &part.rows;
                return answer
                    .map(Some)
                    .map_err(|error| table_error(&file.path, error.into()));
            }
            // Lets go of the last file before the next one is opened.
            self.open = None;
            let Some(part) = self.parts.pop_front() else {
                return Ok(None);
            };
            let reader = self.plans.open(&part);
            let reader = reader.map_err(|error| of_version(part.version, error))?;
            self.open = Some((part, RowsInOrder::new(reader)));
        }
    }
}

/// The error of a version's files. Of one that is not there it says what to do.
fn of_version(version: Version, error: TableError) -> TableError {
    match error {
        TableError::Commit(CommitError::Store(missing)) if missing.kind == StoreErrorKind::NotFound => {
            let message = format!(
                "the changes of version {version} cannot be read any more: {}: it is not there. A vacuum removes \
                 change data files, and data files that left the table, once they are past its retention: read from a \
                 later version on. A longer {RETENTION_PROPERTY} keeps more",
                missing.message
            );
            StoreError { message, ..missing }.into()
        }
        error => error,
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use delta_commit::WaitLimit;
    use parquet_writer::{OptionInput, WriterOptions};

    use super::*;
    use crate::change_feed::CHANGE_FEED;
    use crate::{AppendOptions, CreateMode, CreateOptions};

    #[test]
    fn the_plan_of_a_feed_keeps_no_statistics_of_files() {
        let folder = tempfile::tempdir().unwrap();
        let mut wait = WaitLimit::until(Instant::now() + Duration::from_secs(60));
        let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)]));
        let create = CreateOptions {
            properties: [(CHANGE_FEED.to_owned(), "true".to_owned())].into(),
            ..CreateOptions::default()
        };
        let table = Table::create(folder.path(), &schema, create, CreateMode::Error, &mut wait).unwrap();
        let rows = RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(vec![1, 2]))]).unwrap();
        let options = WriterOptions::new(OptionInput::default()).unwrap();
        let mut append = table.append(AppendOptions::default(), options).unwrap();
        append.write(&rows.into(), &mut || true).unwrap();
        append.commit(&mut wait, &mut || true).unwrap();
        table.truncate(&mut wait).unwrap();
        let changes = table.changes(&ChangesOptions::default(), &mut || true).unwrap();
        assert_eq!(changes.parts.len(), 2);
        for part in &changes.parts {
            let (ChangedRows::Noted(file) | ChangedRows::Of { file, .. }) = &part.rows;
            let needed = Add {
                path: file.path.clone(),
                size: file.size,
                ..Add::default()
            };
            assert_eq!(**file, needed);
        }
    }
}
