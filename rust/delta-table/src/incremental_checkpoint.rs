//! Entries of files that a checkpoint carries over from the one before.
//!
//! A version adds a few files to a table that may have very many, each with kilobytes of statistics. A checkpoint needs
//! the versions since the one before, and the entries of that one which they do not state anew. These go from file to
//! file a batch at a time: they are not parsed, and not in memory together.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, StructArray};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::filter::filter_record_batch;
use delta_commit::Version;
use delta_commit::actions::DeletionVector;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use serde::Deserialize;

use crate::cells::Cell;
use crate::checkpoint;
use crate::data_file::{DataFile, load_footer, table_error};
use crate::error::{Result, TableError};
use crate::head::is_of_files;
use crate::log_dir::{LogDir, Replaying};
use crate::snapshot::{Contents, Replay, Snapshot, key};

/// A table, of whose files only those that were stated since a checkpoint are in memory.
pub(crate) struct Since {
    /// The table. Its entries of files are those of the versions after the checkpoint.
    pub snapshot: Arc<Snapshot>,
    /// The checkpoint's files in the log; none where the versions are all that there is.
    pub base: Vec<String>,
}

/// The replay of the versions after a checkpoint.
pub(crate) struct SinceReplay {
    replay: Replay,
    base: Vec<String>,
}

impl Replaying for SinceReplay {
    type Done = Since;

    const READ_AGAIN: bool = false;

    fn new() -> Self {
        Self {
            replay: Replay::new(),
            base: Vec::new(),
        }
    }

    fn version(&self) -> Version {
        self.replay.version()
    }

    fn has_head(&self) -> bool {
        self.replay.has_head()
    }

    fn checkpoint(&mut self, log: &LogDir, name: &str, version: Version, changed_in: Version) -> Result<()> {
        let mut actions = checkpoint::read_head(log, name)?;
        actions.retain(|action| !is_of_files(action));
        self.replay.take_checkpoint(version, changed_in, actions);
        self.base.push(name.to_owned());
        Ok(())
    }

    fn commit(&mut self, log: &LogDir, version: Version, body: &[u8]) -> Result<()> {
        self.replay.commit(log, version, body)
    }

    fn finish(self) -> Result<Since> {
        Ok(Since {
            snapshot: Arc::new(self.replay.finish()?),
            base: self.base,
        })
    }
}

/// A file of the checkpoint before, whose columns are those of the one that is written.
pub(crate) struct Base {
    file: DataFile,
    metadata: ArrowReaderMetadata,
    shown: String,
}

impl Base {
    /// Opens a checkpoint's file; none where it has other columns, as those of other writers.
    ///
    /// # Errors
    /// An error if it cannot be read.
    pub fn open(log: &LogDir, name: &str, columns: &SchemaRef) -> Result<Option<Self>> {
        if checkpoint::is_json(name) {
            return Ok(None);
        }
        let shown = log.shown(name).display().to_string();
        let failed = |error| table_error(&shown, error);
        let Some(file) = log.open(name).map_err(failed)? else {
            return Err(TableError::CheckpointGone(log.shown(name)));
        };
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let loaded = load_footer(&file, options.clone()).map_err(failed)?;
        let options = options.with_schema(Arc::clone(columns));
        let metadata = ArrowReaderMetadata::try_new(Arc::clone(loaded.metadata()), options);
        Ok(metadata.ok().map(|metadata| Self {
            file,
            metadata,
            shown,
        }))
    }

    /// Calls back with its entries of files, as far as no version stated them anew, and removals are younger than
    /// `kept_since`.
    ///
    /// # Errors
    /// Those of `take`, and an error if it cannot be read.
    pub fn each(
        &self,
        since: &Contents,
        kept_since: i64,
        take: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let malformed = |error: ArrowError| TableError::Malformed(format!("{}: {error}", self.shown));
        let all = ProjectionMask::all();
        checkpoint::each_batch(&self.file, &self.metadata, &all, &self.shown, |batch| {
            let kept = self.kept(&batch, since, kept_since)?;
            match kept.true_count() {
                0 => Ok(()),
                all if all == batch.num_rows() => take(batch),
                _ => take(filter_record_batch(&batch, &kept).map_err(malformed)?),
            }
        })
    }

    /// The rows of a batch that the next checkpoint has, too.
    fn kept(&self, batch: &RecordBatch, since: &Contents, kept_since: i64) -> Result<BooleanArray> {
        let group = |name| {
            batch
                .column_by_name(name)
                .and_then(|column| column.as_struct_opt())
        };
        let (Some(adds), Some(removes)) = (group("add"), group("remove")) else {
            return Err(self.lacks("a column of entries of files"));
        };
        let times = removes
            .column_by_name("deletionTimestamp")
            .and_then(|times| times.as_primitive_opt::<Int64Type>());
        let times = times.ok_or_else(|| self.lacks("the times of removals"))?;
        let is_kept = |row: usize| -> Result<bool> {
            let entry = if adds.is_valid(row) {
                adds
            } else if removes.is_valid(row) && (times.is_null(row) || times.value(row) > kept_since) {
                removes
            } else {
                return Ok(false);
            };
            Ok(!since.states(&self.key(entry, row)?))
        };
        let kept = (0..batch.num_rows()).map(is_kept);
        Ok(BooleanArray::from(kept.collect::<Result<Vec<_>>>()?))
    }

    /// The key of an entry.
    fn key(&self, entries: &StructArray, row: usize) -> Result<String> {
        let column = |name: &str| entries.column_by_name(name);
        let paths = column("path").and_then(|paths| paths.as_string_opt::<i32>());
        let path = paths
            .filter(|paths| paths.is_valid(row))
            .map(|paths| paths.value(row));
        let path = path.ok_or_else(|| self.lacks("the path of a file"))?;
        let vector = column("deletionVector").map(|array: &ArrayRef| Cell { array, row });
        let vector = vector.filter(|vector| vector.has_value());
        let vector = vector.map(DeletionVector::deserialize).transpose();
        let vector = vector.map_err(|error| TableError::Malformed(format!("{}: {error}", self.shown)))?;
        Ok(key(path, vector.as_ref()))
    }

    fn lacks(&self, what: &str) -> TableError {
        TableError::Malformed(format!("{}: the checkpoint lacks {what}", self.shown))
    }
}
