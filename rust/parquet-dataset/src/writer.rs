//! The writer: batches in, a folder of files out.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_schema::SchemaRef;
use parquet_writer::{Batch, FileWriter, Fit, Weights, WriteError, WriteResult, WriterOptions};

use crate::options::DatasetOptions;
use crate::part::Part;
use crate::partition::{Partitioner, WINDOW_ROWS};
use crate::publish::{self, Staged, Target};
use crate::result::{DatasetResult, FileResult};
use crate::rolling::Rolling;
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
    Open(Box<OpenDataset>),
    Closed(Option<DatasetResult>),
    Failed(String),
}

impl DatasetWriter {
    /// A writer into the folder `root`, which is made if only it is missing; without a schema the first batch gives it.
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

    /// Whether the writer takes no more batches.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed(_) | State::Failed(_))
    }

    /// What was written, once the writer is closed.
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
            State::Open(dataset) => dataset.fit.accept(schema),
            _ => self.open(schema),
        }
    }

    /// Writes a batch. `go_on` is called now and then; when it says no, the write ends in [`WriteError::Interrupted`].
    ///
    /// # Errors
    /// [`WriteError::Schema`] when the batch does not fit: nothing of it was written and the writer can go on. After
    /// any other error every file is discarded and later calls say so.
    pub fn write(&mut self, batch: &Batch, go_on: &mut dyn FnMut() -> bool) -> Result<(), WriteError> {
        self.accept(batch.schema())?;
        let State::Open(dataset) = &mut self.state else {
            return self.refuse_if_closed();
        };
        dataset.fit.check(batch)?;
        let plan = dataset.plan(batch)?;
        let context = Context {
            root: &self.root,
            options: &self.options,
            writer_options: &self.writer_options,
        };
        let outcome = dataset.write(batch, plan, context, go_on);
        self.written.store(dataset.written(), Ordering::Relaxed);
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
            return Err(WriteError::Schema(
                "nothing was written and no schema was given, so there is no file to write: pass schema="
                    .into(),
            ));
        };
        let context = Context {
            root: &self.root,
            options: &self.options,
            writer_options: &self.writer_options,
        };
        match dataset.close(context, go_on) {
            Ok(result) => {
                self.written.store(dataset.written(), Ordering::Relaxed);
                self.state = State::Closed(Some(result));
                Ok(())
            }
            Err(error) => self.settle(Err(error)),
        }
    }

    /// Gives the dataset up: nothing of it stays.
    pub fn abort(&mut self) {
        if !matches!(self.state, State::Closed(_)) {
            self.state = State::Closed(None);
        }
    }

    fn open(&mut self, schema: &SchemaRef) -> Result<(), WriteError> {
        let prepared = Prepared::new(schema, &self.options, &self.writer_options)?;
        match std::mem::replace(&mut self.state, State::Closed(None)) {
            State::Unopened(staging) => {
                self.state = State::Open(Box::new(OpenDataset::new(staging, prepared)));
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

    /// Gives the dataset up when a call failed half-way.
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

#[derive(Clone, Copy)]
struct Context<'a> {
    root: &'a Path,
    options: &'a DatasetOptions,
    writer_options: &'a WriterOptions,
}

/// What follows from schema and options before anything is written.
struct Prepared {
    fit: Fit,
    partitioner: Partitioner,
}

impl Prepared {
    fn new(
        schema: &SchemaRef,
        options: &DatasetOptions,
        writer_options: &WriterOptions,
    ) -> Result<Self, WriteError> {
        let fit = Fit::new(Arc::clone(schema), writer_options)?;
        let partitioner = Partitioner::new(schema, &options.partition_by)?;
        // Options that name columns are held against the schema now, not when the first file is opened.
        let nowhere = parquet_writer::sink::Stream::new(Box::new(std::io::sink()));
        let stored = Arc::clone(partitioner.stored());
        FileWriter::new(Box::new(nowhere), Some(stored), writer_options.clone())?;
        Ok(Self { fit, partitioner })
    }
}

/// A file that waits to be published.
struct Finished {
    staged: PathBuf,
    partition: usize,
    order: usize,
    result: WriteResult,
}

/// The shares of a batch, window by window, and where each window starts.
type Plan = Vec<(usize, Vec<crate::partition::Share>)>;

struct OpenDataset {
    // Before the folder that their files are in: fields are dropped in this order.
    open: HashMap<usize, Part>,
    staging: Staging,
    fit: Fit,
    partitioner: Partitioner,
    finished: Vec<Finished>,
    /// Bytes of the files that are finished.
    finished_bytes: u64,
    opened: usize,
    clock: u64,
}

impl OpenDataset {
    fn new(staging: Staging, Prepared { fit, partitioner }: Prepared) -> Self {
        Self {
            open: HashMap::new(),
            staging,
            fit,
            partitioner,
            finished: Vec::new(),
            finished_bytes: 0,
            opened: 0,
            clock: 0,
        }
    }

    fn written(&self) -> u64 {
        let open = self.open.values().map(|part| part.writer.size().written);
        self.finished_bytes + open.sum::<u64>()
    }

    /// Says where every row goes, before any is written: a value that cannot name a folder refuses the whole batch.
    fn plan(&mut self, batch: &Batch) -> Result<Plan, WriteError> {
        let starts = (0..batch.rows()).step_by(WINDOW_ROWS);
        starts
            .map(|start| {
                let rows = WINDOW_ROWS.min(batch.rows() - start);
                Ok((start, self.partitioner.split(&batch.slice(start, rows))?))
            })
            .collect()
    }

    fn write(
        &mut self,
        batch: &Batch,
        plan: Plan,
        context: Context<'_>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), WriteError> {
        for (start, shares) in plan {
            let window = batch.slice(start, WINDOW_ROWS.min(batch.rows() - start));
            for share in shares {
                let rows = self.partitioner.stored_rows(&window, &share)?;
                self.write_share(share.partition, &rows, context, go_on)?;
                if !go_on() {
                    return Err(WriteError::Interrupted);
                }
            }
        }
        Ok(())
    }

    fn write_share(
        &mut self,
        partition: usize,
        rows: &Batch,
        context: Context<'_>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), WriteError> {
        let limited = context.options.max_file_bytes.is_some();
        let weights = limited.then(|| Weights::new(rows.columns()));
        self.clock += 1;
        let mut next = 0;
        while next < rows.rows() {
            let clock = self.clock;
            let part = self.part(partition, context, go_on)?;
            part.used = clock;
            next += part.write(rows, weights.as_ref(), next, go_on)?;
            if part.is_full() {
                self.finish(partition, go_on)?;
            }
        }
        Ok(())
    }

    /// The open file of a partition. When it has to be opened and too many are, the one unused for longest is closed.
    fn part(
        &mut self,
        partition: usize,
        context: Context<'_>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<&mut Part, WriteError> {
        if !self.open.contains_key(&partition) && self.open.len() >= context.options.max_open_files {
            let oldest = self.open.iter().min_by_key(|(_, part)| part.used);
            if let Some(oldest) = oldest.map(|(partition, _)| *partition) {
                self.finish(oldest, go_on)?;
            }
        }
        match self.open.entry(partition) {
            std::collections::hash_map::Entry::Occupied(part) => Ok(part.into_mut()),
            std::collections::hash_map::Entry::Vacant(place) => {
                let folder = context.root.join(&self.partitioner.partition(partition).folder);
                let with_path = |error| WriteError::io(context.root, error);
                let staged = self.staging.next_path().map_err(with_path)?;
                let durable = context.writer_options.durable();
                let sink = StagedFile::create(staged.clone(), folder, durable).map_err(with_path)?;
                let schema = Arc::clone(self.partitioner.stored());
                let columns = schema.flattened_fields().len() as u64;
                let writer = FileWriter::new(Box::new(sink), Some(schema), context.writer_options.clone())?;
                let rolling = Rolling {
                    max_bytes: context.options.max_file_bytes,
                    columns,
                    page_bytes: context.writer_options.page_bytes() as u64,
                };
                self.opened += 1;
                let limits = (context.options.max_file_rows, rolling);
                Ok(place.insert(Part::new(writer, staged, self.opened, limits)))
            }
        }
    }

    /// Completes the open file of a partition, out of sight as yet.
    fn finish(&mut self, partition: usize, go_on: &mut dyn FnMut() -> bool) -> Result<(), WriteError> {
        let Some(mut part) = self.open.remove(&partition) else {
            return Ok(());
        };
        if let Some(result) = part.finish(go_on)? {
            self.finished_bytes += result.bytes;
            self.finished.push(Finished {
                staged: part.staged,
                partition,
                order: part.order,
                result,
            });
        }
        Ok(())
    }

    fn close(
        &mut self,
        context: Context<'_>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<DatasetResult, WriteError> {
        if self.opened == 0 && context.options.partition_by.is_empty() {
            // A dataset of no rows still has its schema.
            let whole = self.partitioner.whole()?;
            self.part(whole, context, go_on)?;
        }
        let mut open: Vec<_> = self
            .open
            .iter()
            .map(|(partition, part)| (part.order, *partition))
            .collect();
        open.sort_unstable();
        for (_, partition) in open {
            self.finish(partition, go_on)?;
        }
        if !go_on() {
            return Err(WriteError::Interrupted);
        }
        // Which of two partitions began its file first depends on the batches; which was met first does not.
        self.finished.sort_by_key(|file| (file.partition, file.order));
        let paths = self.publish(context)?;
        Ok(self.result(paths))
    }

    fn publish(&mut self, context: Context<'_>) -> Result<Vec<PathBuf>, WriteError> {
        let files: Vec<_> = self
            .finished
            .iter()
            .map(|file| Staged {
                from: &file.staged,
                folder: &self.partitioner.partition(file.partition).folder,
            })
            .collect();
        let target = target(context.root, context.options, context.writer_options);
        let paths = publish::publish(&files, target, &mut self.staging)?;
        // The files are where they belong: what is left of the hidden folder is no reason to say otherwise.
        let _ = self.staging.finish();
        Ok(paths)
    }

    fn result(&mut self, paths: Vec<PathBuf>) -> DatasetResult {
        let files = self.finished.drain(..).zip(paths);
        let files = files.map(|(file, path)| FileResult {
            path,
            partition: self.partitioner.partition(file.partition).values.clone(),
            file: file.result,
        });
        DatasetResult {
            files: files.collect(),
        }
    }
}
