//! Incremental checkpoints: the entries of the previous checkpoint, updated by the versions after it.
//!
//! A version adds a few files to a table that may have very many, each with kilobytes of statistics (`add.stats`). Only
//! the versions after the previous checkpoint are held in memory, and if their statistics exceed [`MOST_STATISTICS`],
//! without these: they are read again while the checkpoint is written, one version at a time. The entries of the
//! previous checkpoint are copied from file to file a batch at a time, unless a later version added or removed the same
//! file.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::filter::filter_record_batch;
use delta_commit::Version;
use delta_commit::actions::{Action, Add, Remove};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};

use crate::data_file::{DataFile, load_footer, table_error};
use crate::error::{Result, TableError};
use crate::head::is_of_files;
use crate::log_dir::{LogDir, Replaying};
use crate::snapshot::{Contents, Replay, Snapshot, key};

use super::read::{each_action, each_batch, read_head};
use super::{BATCH_ROWS, is_json};

/// The most bytes of statistics that are held. Those of 200,000 files with fifty columns are half a gigabyte.
const MOST_STATISTICS: usize = 32 << 20;

/// A table with the files of the versions after a checkpoint alone.
pub(crate) struct Since {
    /// The table. Its files and tombstones are those of the versions after the checkpoint.
    pub snapshot: Arc<Snapshot>,
    /// The names of the checkpoint's files in the log. Empty if the log was read from its first version.
    pub base: Vec<String>,
    /// The versions that have the statistics of the snapshot's files; none where these are in the snapshot.
    pub statistics_in: Option<RangeInclusive<Version>>,
}

impl Since {
    /// A whole table.
    pub fn first(snapshot: Arc<Snapshot>) -> Self {
        Self {
            snapshot,
            base: Vec::new(),
            statistics_in: None,
        }
    }

    /// Returns true if nothing else is read for its checkpoint.
    pub fn is_whole(&self) -> bool {
        self.base.is_empty() && self.statistics_in.is_none()
    }

    /// Calls back with the files of the snapshot and their statistics, a version at a time, from these versions.
    ///
    /// # Errors
    /// Those of `take`; [`TableError::Malformed`] if the versions do not have them any more.
    pub fn each_read_again(
        &self,
        log: &LogDir,
        versions: &RangeInclusive<Version>,
        take: &mut dyn FnMut(Vec<Add>) -> Result<()>,
    ) -> Result<()> {
        let files = &self.snapshot.contents.files;
        let mut found = HashSet::with_capacity(files.len());
        let mut batch = Vec::new();
        // The newest entry of a file is the one that counts.
        for body in log.bodies(versions.clone().rev()) {
            // Where one is gone, older ones may have entries that it replaced.
            let (version, Some(body)) = body? else {
                break;
            };
            let mut adds = Vec::new();
            log.each_action(version, &body, |action| {
                if let Action::Add(add) = action {
                    adds.push(add);
                }
            })?;
            batch.extend(adds.into_iter().rev().filter(|add| {
                let key = key(&add.path, add.deletion_vector.as_ref());
                let known = files.get_key_value(&key);
                known.is_some_and(|(key, _)| found.insert(key.as_str()))
            }));
            if batch.len() >= BATCH_ROWS {
                take(std::mem::take(&mut batch))?;
            }
            if found.len() == files.len() {
                break;
            }
        }
        take(batch)?;
        if found.len() < files.len() {
            return Err(TableError::Malformed(format!(
                "{} of {} files were in versions {} to {} of the log, which are no longer there",
                files.len() - found.len(),
                files.len(),
                versions.start(),
                versions.end()
            )));
        }
        Ok(())
    }
}

/// The replay of the versions after a checkpoint.
pub(crate) struct SinceReplay {
    replay: Replay,
    base: Vec<String>,
    /// The first version after the checkpoint.
    first: Option<Version>,
    /// The bytes of all statistics. Above the limit, none are held.
    statistics: usize,
}

impl Replaying for SinceReplay {
    type Done = Since;

    const READ_AGAIN: bool = false;

    fn new() -> Self {
        Self {
            replay: Replay::new(),
            base: Vec::new(),
            first: None,
            statistics: 0,
        }
    }

    fn version(&self) -> Version {
        self.replay.version()
    }

    fn has_head(&self) -> bool {
        self.replay.has_head()
    }

    fn checkpoint(&mut self, log: &LogDir, name: &str, version: Version, changed_in: Version) -> Result<()> {
        let mut actions = read_head(log, name)?;
        actions.retain(|action| !is_of_files(action));
        self.replay.take_checkpoint(version, changed_in, actions);
        self.base.push(name.to_owned());
        Ok(())
    }

    fn commit(&mut self, log: &LogDir, version: Version, body: &[u8]) -> Result<()> {
        let mut actions = Vec::new();
        let mut statistics = self.statistics;
        log.each_action(version, body, |mut action| {
            if let Action::Add(Add { stats, .. }) | Action::Remove(Remove { stats, .. }) = &mut action {
                statistics += stats.as_ref().map_or(0, String::len);
                if statistics > MOST_STATISTICS {
                    *stats = None;
                }
            }
            actions.push(action);
        })?;
        self.first.get_or_insert(version);
        self.replay.take_version(version, actions);
        if self.statistics <= MOST_STATISTICS && statistics > MOST_STATISTICS {
            self.replay.drop_statistics();
        }
        self.statistics = statistics;
        Ok(())
    }

    fn finish(self) -> Result<Since> {
        let snapshot = Arc::new(self.replay.finish()?);
        let first = self.first.filter(|_| self.statistics > MOST_STATISTICS);
        Ok(Since {
            statistics_in: first.map(|first| first..=snapshot.version),
            snapshot,
            base: self.base,
        })
    }
}

/// A file of the previous checkpoint. It has the columns of the checkpoint that is being written.
pub(crate) struct Base {
    file: DataFile,
    metadata: ArrowReaderMetadata,
    shown: String,
}

impl Base {
    /// Opens a checkpoint's file. Returns none if it has other columns, as the files of other writers may.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn open(log: &LogDir, name: &str, columns: &SchemaRef) -> Result<Option<Self>> {
        if is_json(name) {
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

    /// Calls back with the file's adds and removes, except those that `since` has a newer action for, and removes that
    /// are not younger than `kept_since`.
    ///
    /// # Errors
    /// Those of `take`; [`TableError::Malformed`] if the file cannot be read, or has a row that is not an action.
    pub fn each(
        &self,
        since: &Contents,
        kept_since: i64,
        take: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let malformed = |error: ArrowError| TableError::Malformed(format!("{}: {error}", self.shown));
        let all = ProjectionMask::all();
        each_batch(&self.file, &self.metadata, &all, &self.shown, |batch| {
            let kept = self.kept(&batch, since, kept_since)?;
            match kept.true_count() {
                0 => Ok(()),
                all if all == batch.num_rows() => take(batch),
                _ => take(filter_record_batch(&batch, &kept).map_err(malformed)?),
            }
        })
    }

    /// The rows of a batch that the next checkpoint has, too. Each row is parsed, so that an entry which no reader
    /// accepts is an error here as well, and is not copied.
    fn kept(&self, batch: &RecordBatch, since: &Contents, kept_since: i64) -> Result<BooleanArray> {
        let mut kept = Vec::with_capacity(batch.num_rows());
        let parsed = each_action(batch, |action| {
            kept.push(match action {
                Some(Action::Add(add)) => !since.states(&key(&add.path, add.deletion_vector.as_ref())),
                Some(Action::Remove(remove)) => {
                    let is_young = remove.deletion_timestamp.is_none_or(|at| at > kept_since);
                    is_young && !since.states(&key(&remove.path, remove.deletion_vector.as_ref()))
                }
                _ => false,
            });
        });
        parsed.map_err(|error| TableError::Malformed(format!("{}: {error}", self.shown)))?;
        Ok(BooleanArray::from(kept))
    }
}
