//! The dataset writer: takes batches and writes a folder of files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_schema::SchemaRef;
use parquet_writer::sink::Sink;
use parquet_writer::{Batch, WriteError, WriterOptions};

use crate::options::DatasetOptions;
use crate::publish::{self, Staged, Target};
use crate::result::{DatasetResult, FileResult};
use crate::spread::{Places, Prepared, Spread};
use crate::staging::{StagedFile, Staging};

/// Writes one dataset: a folder of Parquet files.
pub struct DatasetWriter {
    root: PathBuf,
    options: DatasetOptions,
    writer_options: WriterOptions,
    written: Arc<AtomicU64>,
    state: State,
}

enum State {
    /// Nothing is known of the schema yet.
    Unopened(Staging),
    Open(Box<Spread<Hidden>>),
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
        let root = std::path::absolute(root).map_err(|error| WriteError::io(root, error))?;
        publish::check_folder(target(&root, &options, &writer_options))?;
        let staging = Staging::new(&root).map_err(|error| WriteError::io(&root, error))?;
        let mut writer = Self {
            root,
            options,
            writer_options,
            written: Arc::default(),
            state: State::Unopened(staging),
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
        matches!(self.state, State::Closed(_) | State::Failed(_))
    }

    /// The result of the dataset, once the writer is closed.
    #[must_use]
    pub fn result(&self) -> Option<&DatasetResult> {
        match &self.state {
            State::Closed(result) => result.as_ref(),
            _ => None,
        }
    }

    /// Checks that batches of `schema` can be written; the first one opens a dataset that was made without a schema.
    ///
    /// # Errors
    /// [`WriteError::Schema`] names what does not fit; the writer can go on.
    pub fn accept(&mut self, schema: &SchemaRef) -> Result<(), WriteError> {
        self.refuse_if_closed()?;
        match &self.state {
            State::Open(dataset) => dataset.accept(schema),
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

    /// Writes batches. In each file, each column of theirs is encoded to its end before the next one, which is faster than
    /// batch by batch; the files are the same. Rows that have to be copied for their partition are encoded batch by batch.
    /// Nothing is kept of the batches.
    ///
    /// # Errors
    /// As [`Self::write`]. The batches before one that does not fit are written.
    pub fn write_all(
        &mut self,
        batches: &[Batch],
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), WriteError> {
        let taken = batches.iter().try_for_each(|batch| self.take(batch, go_on));
        let State::Open(dataset) = &mut self.state else {
            return taken;
        };
        let encoded = dataset.encode(go_on);
        self.written.store(dataset.written(), Ordering::Relaxed);
        self.settle(encoded).and(taken)
    }

    /// Takes a batch, whose rows may wait for the end of the call.
    fn take(&mut self, batch: &Batch, go_on: &mut dyn FnMut() -> bool) -> Result<(), WriteError> {
        self.accept(batch.schema())?;
        let State::Open(dataset) = &mut self.state else {
            return self.refuse_if_closed();
        };
        dataset.check(batch)?;
        let plan = dataset.plan(batch)?;
        let outcome = dataset.take(batch, plan, go_on);
        self.settle(outcome)
    }

    /// Completes every file and makes all of them appear. Closing again does nothing.
    ///
    /// # Errors
    /// [`WriteError::Schema`] when there is neither schema nor batch, else as [`Self::write`]: no file has appeared.
    pub fn close(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<(), WriteError> {
        if matches!(self.state, State::Closed(Some(_))) {
            return Ok(());
        }
        self.refuse_if_closed()?;
        let State::Open(dataset) = &mut self.state else {
            self.abort();
            return Err(WriteError::schema(
                "nothing was written and no schema was given, so there is no file to write: pass schema=",
            ));
        };
        let target = target(&self.root, &self.options, &self.writer_options);
        match close(dataset, target, go_on) {
            Ok(result) => {
                self.written.store(dataset.written(), Ordering::Relaxed);
                self.state = State::Closed(Some(result));
                Ok(())
            }
            Err(error) => self.settle(Err(error)),
        }
    }

    /// Aborts the dataset and removes its files.
    pub fn abort(&mut self) {
        if !matches!(self.state, State::Closed(_)) {
            self.state = State::Closed(None);
        }
    }

    fn open(&mut self, schema: &SchemaRef) -> Result<(), WriteError> {
        let prepared = Prepared::new(schema, self.options.clone(), self.writer_options.clone())?;
        match std::mem::replace(&mut self.state, State::Closed(None)) {
            State::Unopened(staging) => {
                let hidden = Hidden {
                    staging,
                    root: self.root.clone(),
                    durable: self.writer_options.durable(),
                };
                self.state = State::Open(Box::new(Spread::new(prepared, hidden)));
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
            State::Closed(Some(_)) => Err(WriteError::Closed(
                "the writer is closed: open another one".into(),
            )),
            State::Closed(None) => Err(WriteError::Closed(
                "the writer was aborted: open another one".into(),
            )),
            State::Failed(why) => Err(WriteError::Closed(format!(
                "the writer failed before and its files were discarded: {why}"
            ))),
            State::Unopened(_) | State::Open(_) => Ok(()),
        }
    }

    /// Aborts the dataset when a call failed half-way.
    fn settle(&mut self, outcome: Result<(), WriteError>) -> Result<(), WriteError> {
        if let Err(error) = &outcome {
            self.state = State::Failed(error.to_string());
        }
        outcome
    }
}

fn target<'a>(root: &'a Path, options: &'a DatasetOptions, writer: &WriterOptions) -> Target<'a> {
    Target {
        root,
        template: &options.template,
        existing: options.existing,
        durable: writer.durable(),
    }
}

/// Files that readers do not see until all are complete.
struct Hidden {
    staging: Staging,
    root: PathBuf,
    durable: bool,
}

impl Places for Hidden {
    fn open(&mut self, folder: &Path) -> Result<(PathBuf, Box<dyn Sink>), WriteError> {
        let with_path = |error| WriteError::io(&self.root, error);
        let staged = self.staging.next_path().map_err(with_path)?;
        let file = StagedFile::create(staged.clone(), self.root.join(folder), self.durable);
        Ok((staged, Box::new(file.map_err(with_path)?)))
    }
}

/// Completes all files and moves them to where readers look.
fn close(
    dataset: &mut Spread<Hidden>,
    target: Target<'_>,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<DatasetResult, WriteError> {
    if dataset.is_untouched() && !dataset.is_partitioned() {
        // A dataset of no rows still has its schema.
        dataset.open_whole(go_on)?;
    }
    let finished = dataset.finish(go_on)?;
    let files: Vec<_> = finished
        .iter()
        .map(|file| Staged {
            from: &file.path,
            folder: &file.folder,
        })
        .collect();
    let staging = &mut dataset.places_mut().staging;
    let paths = publish::publish(&files, target, staging)?;
    // The files are where they belong: what is left of the hidden folder is no reason to say otherwise.
    let _ = staging.finish();
    let files = finished.into_iter().zip(paths).map(|(file, path)| FileResult {
        path,
        partition: file.partition,
        file: file.result,
    });
    Ok(DatasetResult {
        files: files.collect(),
    })
}
