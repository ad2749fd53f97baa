//! Writes batches to the files of their partitions, wherever those files are.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::SchemaRef;
use parquet_writer::sink::{Sink, Stream};
use parquet_writer::{Batch, FileWriter, Fit, Held, Weights, WriteError, WriteResult, WriterOptions};

use crate::options::DatasetOptions;
use crate::part::Part;
use crate::partition::{Partition, Partitioner, Share, ValuesIn, WINDOW_ROWS};
use crate::rolling::Rolling;

/// Shares of batches that are written together into the file of a partition.
const SHARES_TOGETHER: usize = 64;

/// The factory of the dataset's files.
pub trait Places: Send {
    /// Opens a new file for the partition with this Hive folder. Returns its path and its sink.
    ///
    /// # Errors
    /// [`WriteError::Io`] when it cannot be made.
    fn open(&mut self, folder: &Path) -> Result<(PathBuf, Box<dyn Sink>), WriteError>;
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
type Plan = Vec<(usize, Vec<Share>)>;

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
    fit: Fit,
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
        let fit = Fit::new(Arc::clone(schema), &writer_options)?.without(&options.partition_by);
        let partitioner = Partitioner::new(schema, &options.partition_by, values_in)?;
        // Options that name columns are held against the schema now, not when the first file is opened.
        let nowhere = Stream::new(Box::new(std::io::sink()));
        let stored = Arc::clone(partitioner.stored());
        FileWriter::new(
            Box::new(nowhere),
            Some(stored),
            writer_options.clone().for_a_check(),
        )?;
        Ok(Self {
            options,
            writer_options,
            holds_batches,
            fit,
            partitioner,
        })
    }
}

/// Writes batches of one schema into files, with one open file per partition.
pub struct Spread<P> {
    // Before the places that their files are in: fields are dropped in this order.
    open: HashMap<usize, Part>,
    places: P,
    prepared: Prepared,
    finished: Vec<Finished>,
    /// Bytes of the files that are finished.
    finished_bytes: u64,
    opened: usize,
    clock: u64,
    /// True once a part of a batch was taken, and the rest was refused.
    is_torn: bool,
    held: Held,
}

impl<P: Places> Spread<P> {
    /// Makes a writer. It opens no file before there are rows.
    #[must_use]
    pub fn new(prepared: Prepared, places: P) -> Self {
        Self {
            open: HashMap::new(),
            places,
            prepared,
            finished: Vec::new(),
            finished_bytes: 0,
            opened: 0,
            clock: 0,
            is_torn: false,
            held: Held::default(),
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

    /// Returns true if no file was opened.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        self.opened == 0
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
        self.prepared.fit.schema()
    }

    /// Checks that batches of `schema` have the same names, order and logical types.
    ///
    /// # Errors
    /// [`WriteError::Schema`] names the first difference.
    pub fn accept(&self, schema: &SchemaRef) -> Result<(), WriteError> {
        self.prepared.fit.accept(schema)
    }

    /// Checks that no row of a batch would be refused.
    ///
    /// # Errors
    /// [`WriteError::Schema`] names what does not fit; nothing was written and the next batch may come.
    pub fn check(&self, batch: &Batch) -> Result<(), WriteError> {
        self.prepared.fit.check(batch)?;
        if self.is_partitioned() {
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
        let starts = (0..batch.rows()).step_by(WINDOW_ROWS);
        starts
            .map(|start| {
                let rows = WINDOW_ROWS.min(batch.rows() - start);
                Ok((start, self.prepared.partitioner.split(&batch.slice(start, rows))?))
            })
            .collect::<Result<Plan, WriteError>>()
            .map(SpreadPlan)
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
        for (start, shares) in plan.0 {
            let window = batch.slice(start, WINDOW_ROWS.min(batch.rows() - start));
            for share in shares {
                let rows = self.prepared.partitioner.stored_rows(&window, &share)?;
                self.take_share(share.partition, &rows, taken, go_on)?;
                // Copies would wait in memory of their own, and so would slices without end.
                let is_long = |part: &&mut Part| !share.is_range() || part.waiting() >= SHARES_TOGETHER;
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
        self.part(whole, go_on).map(drop)
    }

    /// Completes all files. Returns them by partition in the order in which partitions were met, and then in the order
    /// of their rows.
    ///
    /// # Errors
    /// As [`FileWriter::close`].
    pub fn finish(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<Vec<SpreadFile>, WriteError> {
        let mut open: Vec<_> = self
            .open
            .iter()
            .map(|(partition, part)| (part.order, *partition))
            .collect();
        open.sort_unstable();
        for (_, partition) in open {
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
        let limited = self.prepared.options.max_file_bytes.is_some();
        let weights = limited.then(|| Weights::new(rows.columns()));
        self.clock += 1;
        let mut next = 0;
        while next < rows.rows() {
            let clock = self.clock;
            let part = self.part(partition, go_on)?;
            part.used = clock;
            let some = part.take(rows, weights.as_ref(), next, go_on)?;
            next += some;
            *taken += some;
            if part.is_full() {
                self.finish_part(partition, go_on)?;
            }
        }
        Ok(())
    }

    /// The open file of a partition. If it must be opened and too many are open, the one unused for the longest time is
    /// closed.
    fn part(&mut self, partition: usize, go_on: &mut dyn FnMut() -> bool) -> Result<&mut Part, WriteError> {
        if !self.open.contains_key(&partition) && self.open.len() >= self.prepared.options.max_open_files {
            let oldest = self.open.iter().min_by_key(|(_, part)| part.used);
            if let Some(oldest) = oldest.map(|(partition, _)| *partition) {
                self.finish_part(oldest, go_on)?;
            }
        }
        match self.open.entry(partition) {
            std::collections::hash_map::Entry::Occupied(part) => Ok(part.into_mut()),
            std::collections::hash_map::Entry::Vacant(place) => {
                let partition = self.prepared.partitioner.partition(partition);
                let (path, sink) = self.places.open(&partition.folder)?;
                let schema = Arc::clone(self.prepared.partitioner.stored());
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
                Ok(place.insert(Part::new(writer, path, self.opened, limits, is_eager)))
            }
        }
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

/// The partition of every row of a batch.
pub struct SpreadPlan(Plan);
