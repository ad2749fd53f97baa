//! Writes batches to the files of their partitions, wherever those files are.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::SchemaRef;
use parquet_writer::sink::Sink;
use parquet_writer::{Batch, FileWriter, HeldBatches, RowWeights, WriteError, WriteResult, WriterOptions};

use crate::early::{Early, Limit};
use crate::layout::{DatasetLayout, adapted, widened};
use crate::options::{DatasetOptions, OnSchemaChange};
use crate::part::PartitionFile;
use crate::partition::{Partition, PartitionRows, Partitioner, ValuesIn, WINDOW_ROWS};
use crate::rolling::Rolling;
use crate::schema_change::{fitted, gains_only_types, wider_schema};

/// Shares of batches that are written together into the file of a partition.
const SHARES_TOGETHER: usize = 64;

/// The factory of the dataset's files.
pub trait Places: Send {
    /// Opens a new file for the partition with this Hive folder. Returns its path and its sink.
    ///
    /// # Errors
    /// [`WriteError::Io`] when it cannot be made.
    fn open(&mut self, folder: &Path) -> Result<(PathBuf, Box<dyn Sink>), WriteError>;

    /// The most bytes that the name of a folder may have.
    fn longest_name(&self) -> usize {
        usize::MAX
    }
}

/// A file that is complete.
#[derive(Debug, Clone)]
pub struct SpreadFile {
    /// The path that [`Places::open`] returned.
    pub path: PathBuf,
    /// The Hive folder of its partition.
    pub folder: PathBuf,
    /// Partition columns and their values as text, before anything is escaped; `None` is null.
    pub partition: Vec<(String, Option<String>)>,
    /// The result of its writer.
    pub result: WriteResult,
}

/// The shares of a batch, window by window, each with the window's first row.
type Plan = Vec<(usize, Vec<PartitionRows>)>;

struct Finished {
    path: PathBuf,
    partition: usize,
    order: usize,
    result: WriteResult,
}

/// The plan that follows from schema and options before anything is written.
pub struct Prepared {
    options: DatasetOptions,
    writer_options: WriterOptions,
    /// True if batches are held from call to call.
    holds_batches: bool,
    layout: Arc<DatasetLayout>,
    partitioner: Partitioner,
}

impl Prepared {
    /// Checks the schema and the options.
    ///
    /// # Errors
    /// [`WriteError::Schema`] when the schema cannot be written, [`WriteError::Option`] when an option does not fit it.
    pub fn new(
        schema: &SchemaRef,
        options: DatasetOptions,
        writer_options: WriterOptions,
        values_in: ValuesIn,
    ) -> Result<Self, WriteError> {
        if options.metadata_file && writer_options.is_encrypted() {
            return Err(WriteError::option(
                "metadata_file",
                "metadata_file=True with encryption is not accepted: _metadata would hold the statistics of encrypted files \
                 as they are. Leave one of the two out",
            ));
        }
        let writer_options = match options.max_file_bytes {
            Some(bytes) => writer_options.for_files_of(bytes),
            None => writer_options,
        };
        // Rows wait before they come to a file, whose size must be known now and then.
        let (writer_options, holds_batches) = writer_options.without_holding();
        let partitioner = Partitioner::new(schema, &options.partition_by, values_in)?;
        let layout = Arc::new(DatasetLayout::new(schema, &options, &writer_options)?);
        Ok(Self {
            options,
            writer_options,
            holds_batches,
            layout,
            partitioner,
        })
    }

    /// Returns true if the first rows of a file are held, since its schema may change.
    fn holds_early(&self) -> bool {
        match self.options.on_schema_change {
            OnSchemaChange::Raise => false,
            OnSchemaChange::Widen => true,
            OnSchemaChange::Rotate => self.layout.lacks_types(),
        }
    }
}

/// Writes batches of one schema into files, with one open file per partition.
pub struct Spread<P> {
    // Before the places that their files are in: fields are dropped in this order.
    open: HashMap<usize, PartitionFile>,
    /// Rows of partitions without an open file.
    early: HashMap<usize, Early>,
    places: P,
    prepared: Prepared,
    finished: Vec<Finished>,
    /// Bytes of the files that are finished.
    finished_bytes: u64,
    opened: usize,
    clock: u64,
    /// True once a part of a batch was taken, and the rest was refused.
    is_torn: bool,
    /// True once no more rows come.
    is_ending: bool,
    /// True if columns without a type are text in the end.
    untyped_is_text: bool,
    held: HeldBatches,
}

impl<P: Places> Spread<P> {
    /// Makes a writer. It opens no file before there are rows.
    #[must_use]
    pub fn new(prepared: Prepared, places: P) -> Self {
        Self {
            open: HashMap::new(),
            early: HashMap::new(),
            places,
            prepared,
            finished: Vec::new(),
            finished_bytes: 0,
            opened: 0,
            clock: 0,
            is_torn: false,
            is_ending: false,
            untyped_is_text: false,
            held: HeldBatches::default(),
        }
    }

    /// Bytes of all files so far, without the pages of open row groups.
    #[must_use]
    pub fn written(&self) -> u64 {
        let open = self.open.values().map(|part| part.writer.bytes_written());
        self.finished_bytes + open.sum::<u64>()
    }

    /// Discards the open files, and returns the factory that has the others.
    #[must_use]
    pub fn into_places(self) -> P {
        drop(self.open);
        self.places
    }

    /// The factory of the files.
    pub fn places_mut(&mut self) -> &mut P {
        &mut self.places
    }

    /// Returns true if there were no rows.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        self.opened == 0 && self.early.is_empty()
    }

    /// Returns true if a batch failed of which rows were taken: what was written is of no more use.
    #[must_use]
    pub fn is_torn(&self) -> bool {
        self.is_torn
    }

    /// Returns true if there are partition columns.
    #[must_use]
    pub fn is_partitioned(&self) -> bool {
        !self.prepared.options.partition_by.is_empty()
    }

    /// The schema of the rows, partition columns included.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        self.prepared.layout.fit.schema()
    }

    /// Makes columns that are still without a type in the end text, as those of rows are.
    pub fn make_untyped_text(&mut self) {
        self.untyped_is_text = true;
    }

    /// Checks that batches of `schema` have the same names, order and logical types, or, where the schema may change,
    /// that there is one that holds their rows and those before.
    ///
    /// # Errors
    /// [`WriteError::Schema`] names the first difference.
    pub fn accept(&self, schema: &SchemaRef) -> Result<(), WriteError> {
        let Prepared {
            options,
            writer_options,
            layout,
            ..
        } = &self.prepared;
        let accepted = layout.fit.accept(schema);
        if accepted.is_ok() || options.on_schema_change == OnSchemaChange::Raise {
            return accepted;
        }
        widened(layout, schema, options, writer_options).map(drop)
    }

    /// Returns true if rows of a schema that is refused would be taken if it might change.
    #[must_use]
    pub fn could_widen(&self, schema: &SchemaRef) -> bool {
        let may_change = self.prepared.options.on_schema_change != OnSchemaChange::Raise;
        !may_change && wider_schema(self.schema(), schema).is_ok()
    }

    /// Checks that no row of a batch would be refused.
    ///
    /// # Errors
    /// [`WriteError::Schema`] names what does not fit; nothing was written and the next batch may come.
    pub fn check(&self, batch: &Batch) -> Result<(), WriteError> {
        self.prepared.layout.fit.check(batch)?;
        if self.is_partitioned() || self.prepared.holds_early() {
            // Rows are gathered before a file is given any.
            batch.check_text()?;
        }
        Ok(())
    }

    /// Plans the partition of every row before any is written, so that a value that cannot name a folder refuses the
    /// whole batch.
    ///
    /// # Errors
    /// [`WriteError::Schema`] as [`check`](Self::check).
    pub fn plan(&mut self, batch: &Batch) -> Result<SpreadPlan, WriteError> {
        let layout = Arc::clone(&self.prepared.layout);
        self.planned(batch, layout, None)
    }

    /// Checks a batch that comes after the one of the plan `before`, or next, and plans where its rows go. Its schema
    /// may be another one, where the options allow that.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn plan_after(
        &mut self,
        batch: &Batch,
        before: Option<&SpreadPlan>,
    ) -> Result<SpreadPlan, WriteError> {
        let Prepared {
            options,
            writer_options,
            ..
        } = &self.prepared;
        let layout = before.map_or(&self.prepared.layout, |before| &before.layout);
        let (layout, fitted) = adapted(layout, batch, options, writer_options)?;
        let batch = fitted.as_ref().unwrap_or(batch);
        layout.fit.check(batch)?;
        if self.is_partitioned() || options.on_schema_change != OnSchemaChange::Raise {
            // Rows are gathered before a file is given any.
            batch.check_text()?;
        }
        let planned = batch.clone();
        self.planned(&planned, layout, fitted)
    }

    /// Plans the rows of a batch, which is also the one that is written where it is `fitted`. Columns that were added
    /// to the schema come after those of the partitions, so that these are where they were.
    fn planned(
        &mut self,
        batch: &Batch,
        layout: Arc<DatasetLayout>,
        fitted: Option<Batch>,
    ) -> Result<SpreadPlan, WriteError> {
        let starts = (0..batch.rows()).step_by(WINDOW_ROWS);
        starts
            .map(|start| {
                let rows = WINDOW_ROWS.min(batch.rows() - start);
                Ok((start, self.prepared.partitioner.split(&batch.slice(start, rows))?))
            })
            .collect::<Result<Plan, WriteError>>()
            .map(|shares| SpreadPlan {
                shares,
                layout,
                fitted,
            })
    }

    /// Returns true if batches are held from call to call.
    #[must_use]
    pub fn holds_batches(&self) -> bool {
        self.prepared.holds_batches
    }

    /// Encodes the rows that wait, where the batches that were taken since make a round; else they are held.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn encode_round(
        &mut self,
        taken: &[Batch],
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), WriteError> {
        drop(self.released());
        if self.open.values().all(|part| part.waiting() == 0) {
            return Ok(());
        }
        for batch in taken {
            self.held.add(batch);
        }
        if self.held.is_round() {
            self.encode(go_on)
        } else {
            Ok(())
        }
    }

    /// The batches that were held and whose rows are encoded. Their buffers are freed with them.
    pub fn released(&mut self) -> Vec<Batch> {
        if self.open.values().any(|part| part.waiting() > 0) {
            return Vec::new();
        }
        self.held.release()
    }

    /// Takes a batch that was checked and planned. Rows that need not be copied wait for [`Self::encode`], unless they
    /// may still be refused.
    ///
    /// # Errors
    /// As [`FileWriter::write_all`]. The next batch may come after [`WriteError::Schema`], unless [`Self::is_torn`].
    pub fn take(
        &mut self,
        batch: &Batch,
        plan: SpreadPlan,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), WriteError> {
        let mut taken = 0;
        let done = self.take_shares(batch, plan, &mut taken, go_on);
        self.is_torn |= done.is_err() && (taken > 0 || !self.is_eager());
        done
    }

    /// Returns true if the writer of a file may refuse rows that passed [`Self::check`].
    fn is_eager(&self) -> bool {
        self.prepared.writer_options.may_refuse_rows()
    }

    fn take_shares(
        &mut self,
        batch: &Batch,
        plan: SpreadPlan,
        taken: &mut usize,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), WriteError> {
        let partitioned = self.is_partitioned();
        if !Arc::ptr_eq(&plan.layout, &self.prepared.layout) {
            self.change_to(plan.layout, go_on)?;
        }
        let batch = plan.fitted.as_ref().unwrap_or(batch);
        for (start, shares) in plan.shares {
            let window = batch.slice(start, WINDOW_ROWS.min(batch.rows() - start));
            for share in shares {
                let rows = self.prepared.partitioner.stored_rows(&window, &share)?;
                self.take_share(share.partition, &rows, taken, go_on)?;
                // Copies would wait in memory of their own, and so would slices without end.
                let is_long =
                    |part: &&mut PartitionFile| !share.is_range() || part.waiting() >= SHARES_TOGETHER;
                let part = self.open.get_mut(&share.partition);
                if let Some(part) = part.filter(|part| partitioned && is_long(part)) {
                    part.encode(go_on)?;
                }
                if !go_on() {
                    return Err(WriteError::Interrupted);
                }
            }
        }
        Ok(())
    }

    /// Encodes the rows that wait, and keeps nothing of their batches.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn encode(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<(), WriteError> {
        self.open.values_mut().try_for_each(|part| {
            part.encode(go_on)?;
            if go_on() {
                Ok(())
            } else {
                Err(WriteError::Interrupted)
            }
        })
    }

    /// Opens the file of the single partition that a dataset without partition columns has, so that there is a file
    /// even without rows.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn open_whole(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<(), WriteError> {
        let whole = self.prepared.partitioner.whole()?;
        self.end_layout()?;
        self.part(whole, go_on).map(drop)
    }

    /// Completes all files. Returns them by partition in the order in which partitions were met, and then in the order
    /// of their rows.
    ///
    /// # Errors
    /// As [`FileWriter::close`].
    pub fn finish(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<Vec<SpreadFile>, WriteError> {
        self.finish_parts(go_on)?;
        self.end_layout()?;
        for partition in self.early_partitions() {
            self.begin(partition, go_on)?;
            self.finish_part(partition, go_on)?;
        }
        if !go_on() {
            return Err(WriteError::Interrupted);
        }
        // Which of two partitions began its file first depends on the batches; which was met first does not.
        self.finished.sort_by_key(|file| (file.partition, file.order));
        let files = self.finished.drain(..).map(|file| {
            let Partition { folder, values } = self.prepared.partitioner.partition(file.partition).clone();
            SpreadFile {
                path: file.path,
                folder,
                partition: values,
                result: file.result,
            }
        });
        Ok(files.collect())
    }

    fn take_share(
        &mut self,
        partition: usize,
        rows: &Batch,
        taken: &mut usize,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), WriteError> {
        let holds_early = !self.is_ending && self.prepared.holds_early();
        let limited = self.prepared.options.max_file_bytes.is_some();
        let weights = (limited || holds_early).then(|| RowWeights::new(rows.columns()));
        let layout = Arc::clone(&self.prepared.layout);
        let in_file = layout
            .lacks_types()
            .then(|| fitted(rows, &layout.file))
            .transpose()?;
        self.clock += 1;
        let mut next = 0;
        while next < rows.rows() {
            if holds_early && !self.open.contains_key(&partition) {
                if self.hold_early(partition, rows, weights.as_ref(), next, go_on)? {
                    *taken += rows.rows() - next;
                    return Ok(());
                }
                // Not all rows that were held may have come into that file.
                continue;
            }
            if self.early.contains_key(&partition) {
                // All columns have types now.
                self.begin(partition, go_on)?;
            }
            let clock = self.clock;
            let part = self.part(partition, go_on)?;
            part.used = clock;
            let rows = in_file.as_ref().unwrap_or(rows);
            let weights = weights.as_ref().filter(|_| limited);
            let some = part.take(rows, weights, next, go_on)?;
            next += some;
            *taken += some;
            if part.is_full() {
                self.finish_part(partition, go_on)?;
            }
        }
        Ok(())
    }

    /// Holds the rows of a partition without an open file from `start` on, and returns true; or begins the file with
    /// those that were held before, if there would be too many.
    fn hold_early(
        &mut self,
        partition: usize,
        rows: &Batch,
        weights: Option<&RowWeights>,
        start: usize,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool, WriteError> {
        let Prepared {
            options,
            writer_options,
            layout,
            ..
        } = &self.prepared;
        let limit = Limit::new(&layout.stored, options, writer_options);
        let (held, held_weight) = self
            .early
            .get(&partition)
            .map_or((0, 0), |early| (early.rows, early.weight));
        let weight = weights.map_or(0, |weights| weights.total(start, rows.rows()));
        if held + rows.rows() - start >= limit.rows || held_weight + weight >= limit.weight {
            self.begin(partition, go_on)?;
            return Ok(false);
        }
        if !self.early.contains_key(&partition) {
            self.make_way(go_on)?;
        }
        let copied = rows.slice(start, rows.rows() - start).copied()?;
        let early = self.early.entry(partition).or_default();
        early.rows += copied.rows();
        early.weight += weight;
        early.used = self.clock;
        early.batches.push(copied);
        Ok(true)
    }

    /// Begins the file of a partition with the rows that were held for it.
    fn begin(&mut self, partition: usize, go_on: &mut dyn FnMut() -> bool) -> Result<(), WriteError> {
        let early = self.early.remove(&partition).unwrap_or_default();
        self.part(partition, go_on)?;
        for batch in early.batches {
            self.take_share(partition, &batch, &mut 0, go_on)?;
            if let Some(part) = self.open.get_mut(&partition) {
                // Copies would wait in memory of their own.
                part.encode(go_on)?;
            }
        }
        Ok(())
    }

    /// The partitions whose rows are held, in the order in which they were met.
    fn early_partitions(&self) -> Vec<usize> {
        let mut partitions: Vec<_> = self.early.keys().copied().collect();
        partitions.sort_unstable();
        partitions
    }

    /// Goes on with another schema. Files that would have another one are completed, and rows that are held are
    /// converted where the options say so.
    fn change_to(
        &mut self,
        layout: Arc<DatasetLayout>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), WriteError> {
        let before = Arc::clone(&self.prepared.layout);
        if before.file.fields() != layout.file.fields() {
            self.finish_parts(go_on)?;
            let gains_types = gains_only_types(before.stored.fields(), layout.stored.fields());
            if self.prepared.options.on_schema_change == OnSchemaChange::Rotate && !gains_types {
                while !self.early.is_empty() {
                    for partition in self.early_partitions() {
                        self.begin(partition, go_on)?;
                    }
                    self.finish_parts(go_on)?;
                }
            }
        }
        self.convert_early(&layout)?;
        let Prepared { partitioner, .. } = &mut self.prepared;
        partitioner.renew(layout.fit.schema(), &layout.stored);
        self.prepared.layout = layout;
        Ok(())
    }

    /// Converts the rows that are held to another schema.
    fn convert_early(&mut self, layout: &DatasetLayout) -> Result<(), WriteError> {
        let batches = self.early.values_mut().flat_map(|early| &mut early.batches);
        for batch in batches {
            *batch = fitted(batch, &layout.stored)?;
        }
        Ok(())
    }

    /// Gives every column a type: files that are begun now leave none out.
    fn end_layout(&mut self) -> Result<(), WriteError> {
        self.is_ending = true;
        if self.prepared.layout.lacks_types() {
            let ended = (self.prepared.layout).ended(self.untyped_is_text, &self.prepared.writer_options)?;
            self.convert_early(&ended)?;
            self.prepared.layout = Arc::new(ended);
        }
        Ok(())
    }

    /// Completes the file without rows for the longest time, or begins and completes it, if there are so many that no
    /// other can be begun.
    fn make_way(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<(), WriteError> {
        if self.open.len() + self.early.len() < self.prepared.options.max_open_files {
            return Ok(());
        }
        let open = self.open.iter().map(|(partition, part)| (part.used, *partition));
        let early = self
            .early
            .iter()
            .map(|(partition, early)| (early.used, *partition));
        let Some((_, oldest)) = open.chain(early).min() else {
            return Ok(());
        };
        self.finish_part(oldest, go_on)?;
        while self.early.contains_key(&oldest) {
            self.begin(oldest, go_on)?;
            self.finish_part(oldest, go_on)?;
        }
        Ok(())
    }

    /// The open file of a partition. If it must be opened and too many are open, the one unused for the longest time is
    /// closed.
    fn part(
        &mut self,
        partition: usize,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<&mut PartitionFile, WriteError> {
        if !self.open.contains_key(&partition) {
            self.make_way(go_on)?;
        }
        match self.open.entry(partition) {
            std::collections::hash_map::Entry::Occupied(part) => Ok(part.into_mut()),
            std::collections::hash_map::Entry::Vacant(place) => {
                let partition = self.prepared.partitioner.partition(partition);
                let (path, sink) = self.places.open(&partition.folder)?;
                let schema = Arc::clone(&self.prepared.layout.file);
                let columns = schema.flattened_fields().len() as u64;
                let writer = FileWriter::new(sink, Some(schema), self.prepared.writer_options.clone())?;
                let rolling = Rolling {
                    max_bytes: self.prepared.options.max_file_bytes,
                    columns,
                    page_bytes: self.prepared.writer_options.page_bytes() as u64,
                    page_rows: self.prepared.writer_options.page_rows() as u64,
                    is_encrypted: self.prepared.writer_options.is_encrypted(),
                };
                self.opened += 1;
                let limits = (self.prepared.options.max_file_rows, rolling);
                let is_eager = self.prepared.writer_options.may_refuse_rows();
                Ok(place.insert(PartitionFile::new(writer, path, self.opened, limits, is_eager)))
            }
        }
    }

    /// Completes all open files.
    fn finish_parts(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<(), WriteError> {
        let open = self.open.iter().map(|(partition, part)| (part.order, *partition));
        let mut open: Vec<_> = open.collect();
        open.sort_unstable();
        open.into_iter()
            .try_for_each(|(_, partition)| self.finish_part(partition, go_on))
    }

    /// Completes the open file of a partition.
    fn finish_part(&mut self, partition: usize, go_on: &mut dyn FnMut() -> bool) -> Result<(), WriteError> {
        let Some(mut part) = self.open.remove(&partition) else {
            return Ok(());
        };
        if let Some(result) = part.finish(go_on)? {
            self.finished_bytes += result.bytes;
            self.finished.push(Finished {
                path: part.path,
                partition,
                order: part.order,
                result,
            });
        }
        Ok(())
    }
}

/// The partition of every row of a batch, and the schema that it is written with.
pub struct SpreadPlan {
    shares: Plan,
    layout: Arc<DatasetLayout>,
    /// The batch in that schema, where it came in another.
    fitted: Option<Batch>,
}
