//! The dataset writer: takes batches and writes a folder of files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_schema::SchemaRef;
use parquet_writer::{Batch, WriteError, WriterOptions};

use crate::folder::LocalFolder;
use crate::options::DatasetOptions;
use crate::partition::ValuesIn;
use crate::result::{DatasetResult, FileResult};
use crate::spread::{Prepared, Spread, SpreadPlan};
use crate::storage::{Storage, Unpublished};

/// The consequence of a refusal that was found in one file: the others have rows of the same batch already.
const DISCARDED: &str = "every file of the dataset is discarded";

/// The end of a refusal of a schema that the dataset would take by another value of an option.
const WOULD_TAKE: &str = "on_schema_change=\"widen\" or \"rotate\" would take it; the writer can go on";

/// Writes one dataset: a folder of Parquet files.
pub struct DatasetWriter {
    options: DatasetOptions,
    writer_options: WriterOptions,
    written: Arc<AtomicU64>,
    left: Vec<PathBuf>,
    state: DatasetState,
}

enum DatasetState {
    /// Nothing is known of the schema yet.
    Unopened(Box<dyn Storage>),
    Open(Box<Spread<Box<dyn Storage>>>),
    Closed(Option<DatasetResult>),
    Failed(String),
}

impl DatasetWriter {
    /// A writer into the folder `root`, which is created if its parent exists. Without a schema, the first batch
    /// defines it.
    ///
    /// # Errors
    /// [`WriteError::Option`] when an option does not fit the schema or the folder, [`WriteError::Schema`] when the
    /// schema cannot be written, [`WriteError::Io`] when the folder cannot be written or has something in it that the
    /// options do not allow.
    pub fn new(
        root: &Path,
        schema: Option<SchemaRef>,
        options: DatasetOptions,
        writer_options: WriterOptions,
    ) -> Result<Self, WriteError> {
        let folder = LocalFolder::new(root, options.clone(), writer_options.durable())?;
        Self::over(Box::new(folder), schema, options, writer_options)
    }

    /// A writer into another storage, which has the same options.
    ///
    /// # Errors
    /// [`WriteError::Option`] when an option does not fit the schema, [`WriteError::Schema`] when the schema cannot be
    /// written.
    pub fn over(
        storage: Box<dyn Storage>,
        schema: Option<SchemaRef>,
        options: DatasetOptions,
        writer_options: WriterOptions,
    ) -> Result<Self, WriteError> {
        let mut writer = Self {
            options,
            writer_options,
            written: Arc::default(),
            left: Vec::new(),
            state: DatasetState::Unopened(storage),
        };
        if let Some(schema) = schema {
            writer.open(&schema)?;
        }
        Ok(writer)
    }

    /// Bytes written so far, which other threads may read at any time.
    #[must_use]
    pub fn written(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.written)
    }

    /// Returns true if the writer takes no more batches.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.state, DatasetState::Closed(_) | DatasetState::Failed(_))
    }

    /// The result of the dataset, once the writer is closed.
    #[must_use]
    pub fn result(&self) -> Option<&DatasetResult> {
        match &self.state {
            DatasetState::Closed(result) => result.as_ref(),
            _ => None,
        }
    }

    /// The files that appeared, or may have, although the dataset failed, and could not be removed.
    #[must_use]
    pub fn left(&self) -> &[PathBuf] {
        &self.left
    }

    /// The schema of the rows, once there is one.
    ///
    /// # Errors
    /// [`WriteError::Closed`] when the writer takes no more batches.
    pub fn schema(&self) -> Result<Option<SchemaRef>, WriteError> {
        self.refuse_if_closed()?;
        Ok(match &self.state {
            DatasetState::Open(dataset) => Some(Arc::clone(dataset.schema())),
            _ => None,
        })
    }

    /// Checks that batches of `schema` can be written; the first one opens a dataset that was made without a schema.
    ///
    /// # Errors
    /// [`WriteError::Schema`] names what does not fit; the writer can go on.
    pub fn accept(&mut self, schema: &SchemaRef) -> Result<(), WriteError> {
        self.refuse_if_closed()?;
        match &self.state {
            DatasetState::Open(dataset) => dataset.accept(schema).map_err(|refused| {
                if dataset.could_widen(schema) {
                    refused.with_outcome(WOULD_TAKE)
                } else {
                    refused
                }
            }),
            _ => self.open(schema),
        }
    }

    /// Writes a batch. `go_on` is called now and then; when it returns false, the write ends in
    /// [`WriteError::Interrupted`].
    ///
    /// # Errors
    /// [`WriteError::Schema`] when the batch does not fit: nothing of it was written and the writer can go on. After
    /// any other error every file is discarded and later calls say so.
    pub fn write(&mut self, batch: &Batch, go_on: &mut dyn FnMut() -> bool) -> Result<(), WriteError> {
        self.write_all(std::slice::from_ref(batch), go_on)
    }

    /// Writes batches. In each file, each column of theirs is encoded to its end before the next one, which is faster
    /// than batch by batch; the files are the same. Rows that have to be copied for their partition are encoded batch
    /// by batch. Nothing is kept of the batches, unless the options say that they may be held.
    ///
    /// # Errors
    /// As [`Self::write`]. The batches before one that does not fit are written.
    pub fn write_all(
        &mut self,
        batches: &[Batch],
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), WriteError> {
        if matches!(&self.state, DatasetState::Open(dataset) if dataset.holds_batches()) {
            return self.hold_all(batches, go_on);
        }
        let taken = self.take_all(batches, go_on);
        self.encode(go_on).and(taken)
    }

    /// Writes batches likewise, which are held until they make a round with those of other calls. Their buffers must
    /// stay as they are until [`Self::released`] returns them. Under a memory limit none are held.
    ///
    /// # Errors
    /// As [`Self::write_all`]; nothing is held after an error. Text that is not valid may be found by a later call.
    pub fn hold_all(&mut self, batches: &[Batch], go_on: &mut dyn FnMut() -> bool) -> Result<(), WriteError> {
        match self.take_all(batches, go_on) {
            Ok(()) => self.encode_round(batches, go_on),
            refused => self.encode(go_on).and(refused),
        }
    }

    /// The batches that were held and whose rows are encoded, or never will be. Their buffers are freed with them.
    pub fn released(&mut self) -> Vec<Batch> {
        match &mut self.state {
            DatasetState::Open(dataset) => dataset.released(),
            _ => Vec::new(),
        }
    }

    /// Takes batches, up to one that does not fit.
    fn take_all(&mut self, batches: &[Batch], go_on: &mut dyn FnMut() -> bool) -> Result<(), WriteError> {
        batches.iter().try_for_each(|batch| {
            let plan = self.plan(batch, None)?;
            self.take(batch, plan, go_on)
        })
    }

    /// Holds batches of rows likewise, or none of them when one does not fit. Columns of theirs that never have a type
    /// are text in files that are begun when the writer is closed.
    ///
    /// # Errors
    /// As [`Self::write`]. Nothing of any of the batches was written after [`WriteError::Schema`], unless the writer is
    /// closed then.
    pub fn write_whole(
        &mut self,
        batches: &[Batch],
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), WriteError> {
        let was_open = matches!(self.state, DatasetState::Open(_));
        let plans = batches
            .iter()
            .try_fold(Vec::with_capacity(batches.len()), |mut plans, batch| {
                plans.push(self.plan(batch, plans.last())?);
                Ok::<_, WriteError>(plans)
            });
        if plans.is_err() && !was_open {
            self.forget_schema();
        }
        let plans = plans?;
        if let DatasetState::Open(dataset) = &mut self.state {
            dataset.make_untyped_text();
        }
        let mut planned = batches.iter().zip(plans);
        let taken = planned.try_for_each(|(batch, plan)| self.take(batch, plan, go_on));
        self.encode_round(batches, go_on).and(taken)
    }

    /// Makes the dataset one without a schema again: rows of which nothing is kept give none.
    fn forget_schema(&mut self) {
        match std::mem::replace(&mut self.state, DatasetState::Closed(None)) {
            DatasetState::Open(dataset) => self.state = DatasetState::Unopened(dataset.into_places()),
            other => self.state = other,
        }
    }

    /// Checks a batch that comes after the one of the plan `before`, or next, and plans where its rows go.
    fn plan(&mut self, batch: &Batch, before: Option<&SpreadPlan>) -> Result<SpreadPlan, WriteError> {
        if !matches!(self.state, DatasetState::Open(_)) {
            self.accept(batch.schema())?;
        }
        let DatasetState::Open(dataset) = &mut self.state else {
            return Err(WriteError::Closed(
                "the writer is closed: open another one".into(),
            ));
        };
        dataset.plan_after(batch, before)
    }

    /// Takes a batch, whose rows may wait for the end of the call.
    fn take(
        &mut self,
        batch: &Batch,
        plan: SpreadPlan,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), WriteError> {
        let DatasetState::Open(dataset) = &mut self.state else {
            return self.refuse_if_closed();
        };
        let outcome = dataset.take(batch, plan, go_on);
        self.settle(outcome.map_err(|error| error.with_outcome(DISCARDED)))
    }

    /// Encodes the rows that wait.
    fn encode(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<(), WriteError> {
        let DatasetState::Open(dataset) = &mut self.state else {
            return Ok(());
        };
        let encoded = dataset.encode(go_on);
        self.written.store(dataset.written(), Ordering::Relaxed);
        self.settle(encoded)
    }

    /// Encodes the rows that wait, where they make a round.
    fn encode_round(&mut self, taken: &[Batch], go_on: &mut dyn FnMut() -> bool) -> Result<(), WriteError> {
        let DatasetState::Open(dataset) = &mut self.state else {
            return Ok(());
        };
        let encoded = dataset.encode_round(taken, go_on);
        self.written.store(dataset.written(), Ordering::Relaxed);
        self.settle(encoded)
    }

    /// Completes every file and makes all of them appear. Closing again does nothing.
    ///
    /// # Errors
    /// [`WriteError::Schema`] when there is neither schema nor batch, else as [`Self::write`]: no file has appeared,
    /// but for those of [`Self::left`]. Where there is a [`Self::result`] all the same, all files have appeared, and
    /// files that were to give way to them are still there.
    pub fn close(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<(), WriteError> {
        if matches!(self.state, DatasetState::Closed(Some(_))) {
            return Ok(());
        }
        self.refuse_if_closed()?;
        let DatasetState::Open(dataset) = &mut self.state else {
            self.abort();
            return Err(WriteError::schema(
                "nothing was written and no schema was given, so there is no file to write: pass schema=",
            ));
        };
        match close(dataset, go_on) {
            Ok((result, unremoved)) => {
                self.written.store(dataset.written(), Ordering::Relaxed);
                self.state = DatasetState::Closed(Some(result));
                unremoved.map_or(Ok(()), Err)
            }
            Err(Unpublished { error, left }) => {
                self.left = left;
                self.settle(Err(error))
            }
        }
    }

    /// Aborts the dataset and removes its files.
    pub fn abort(&mut self) {
        if !matches!(self.state, DatasetState::Closed(_)) {
            self.state = DatasetState::Closed(None);
        }
    }

    fn open(&mut self, schema: &SchemaRef) -> Result<(), WriteError> {
        let DatasetState::Unopened(storage) = &self.state else {
            return self.refuse_if_closed();
        };
        let prepared = Prepared::new(
            schema,
            self.options.clone(),
            self.writer_options.clone(),
            ValuesIn::Folders {
                longest_name: storage.longest_name(),
            },
        )?;
        match std::mem::replace(&mut self.state, DatasetState::Closed(None)) {
            DatasetState::Unopened(storage) => {
                self.state = DatasetState::Open(Box::new(Spread::new(prepared, storage)));
                Ok(())
            }
            other => {
                self.state = other;
                self.refuse_if_closed()
            }
        }
    }

    fn refuse_if_closed(&self) -> Result<(), WriteError> {
        match &self.state {
            DatasetState::Closed(Some(_)) => Err(WriteError::Closed(
                "the writer is closed: open another one".into(),
            )),
            DatasetState::Closed(None) => Err(WriteError::Closed(
                "the writer was aborted: open another one".into(),
            )),
            DatasetState::Failed(why) => Err(WriteError::Closed(format!(
                "the writer failed before and its files were discarded: {why}"
            ))),
            DatasetState::Unopened(_) | DatasetState::Open(_) => Ok(()),
        }
    }

    /// Aborts the dataset when a call failed half-way.
    fn settle(&mut self, outcome: Result<(), WriteError>) -> Result<(), WriteError> {
        if let Err(error) = &outcome {
            self.state = DatasetState::Failed(error.to_string());
        }
        outcome
    }
}

/// Completes all files and makes them appear. Returns also the reason why old files have not given way to them.
fn close(
    dataset: &mut Spread<Box<dyn Storage>>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(DatasetResult, Option<WriteError>), Unpublished> {
    if dataset.is_untouched() && !dataset.is_partitioned() {
        // A dataset of no rows still has its schema.
        dataset.open_whole(go_on)?;
    }
    let finished = dataset.finish(go_on)?;
    let published = dataset.places_mut().publish(&finished)?;
    let files = finished
        .into_iter()
        .zip(published.paths)
        .map(|(file, path)| FileResult {
            path,
            partition: file.partition,
            file: file.result,
        });
    let result = DatasetResult {
        files: files.collect(),
    };
    Ok((result, published.unremoved))
}
