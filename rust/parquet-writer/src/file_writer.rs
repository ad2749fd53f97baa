//! The writer: batches in, row groups out, a footer at the end.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use arrow_array::ArrayRef;
use arrow_schema::{Schema, SchemaRef};
use bytes::Bytes;
use parquet::basic::Compression;
use parquet::file::metadata::{KeyValue, ParquetMetaData};
use parquet::file::properties::{BloomFilterPosition, WriterProperties};
use parquet::file::writer::SerializedFileWriter;

use crate::batch::Batch;
use crate::budget::{COLUMN, VALUE_SHARE};
use crate::choose::Chooser;
use crate::column::{self, FieldEncoder, Preserved};
use crate::encryption::{self, FileCipher};
use crate::error::{Result, WriteError};
use crate::feed::{BatchRows, Carry, Feed, Pace, RowGroupRows, SAMPLE_ROWS};
use crate::footer;
use crate::footprint::Footprint;
use crate::held::HeldBatches;
use crate::integrity;
use crate::leaf_options;
use crate::limits;
use crate::metadata_text;
use crate::names::by_leaf;
use crate::normalize;
use crate::options::{self, TimestampLoss, Verify, WriterOptions};
use crate::pages::{FilterPlan, PageStore, Pages};
use crate::pandas::without_range_index;
use crate::preserved_dictionaries::{BatchDictionary, Dictionaries};
use crate::result::{self, WriteResult};
use crate::row_group::{Meter, Patience, RowGroupEncoder};
use crate::schema::FileSchema;
use crate::shared_memory::MemoryShare;
use crate::sink::{Output, Sink, Unsynced};
use crate::size_checks::SizeChecks;
use crate::sorting::{Sorting, Waiting};
use crate::stages::Between;
use crate::stored_schema::{self, StoredSchema, without_hidden};
use crate::thread_pool::Threads;
use crate::timestamp_loss;
use crate::verify::{self, Digests, Written};
use crate::weight::{ROWS_TOGETHER, RowWeights};

/// The name of this writer in footers.
pub const CREATED_BY: &str = concat!("spillway version ", env!("CARGO_PKG_VERSION"));

/// Figures that may be read while a write is under way.
#[derive(Debug, Default)]
pub struct Progress {
    bytes: AtomicU64,
}

impl Progress {
    /// Bytes handed to the sink.
    #[must_use]
    pub fn bytes_written(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// The size of a file that is not complete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// Bytes handed to the sink: the row groups that are closed.
    pub written: u64,
    /// Bytes of the open row group if it were closed now, pages that are not finished counted before compression.
    pub open: u64,
    /// Rows that these bytes hold; the last rows written may wait for a full unit.
    pub rows: u64,
    /// Row groups, the open one included.
    pub row_groups: usize,
}

/// Writes one Parquet file.
pub struct FileWriter {
    options: WriterOptions,
    progress: Arc<Progress>,
    between: Between,
    state: WriterState,
    held: HeldBatches,
    /// The share of a memory budget, until the file is open.
    share: Option<MemoryShare>,
}

enum WriterState {
    /// Nothing is known of the schema yet.
    Unopened(Box<Output>),
    Open(Box<OpenFile>),
    Closed(Option<WriteResult>),
    Failed {
        /// The file had appeared at its path before.
        has_appeared: bool,
        why: String,
    },
}

impl FileWriter {
    /// A writer into `sink`; without a schema the first batch gives it.
    ///
    /// # Errors
    /// [`WriteError::Schema`] when the schema cannot be written, [`WriteError::Option`] when an option names a column
    /// that the schema does not have or all writers of a memory budget are open, [`WriteError::Io`] when the sink
    /// refuses.
    pub fn new(sink: Box<dyn Sink>, schema: Option<SchemaRef>, options: WriterOptions) -> Result<Self> {
        if let (Some(_), Some(why)) = (options.verify, sink.unreadable()) {
            return Err(WriteError::option(
                "verify",
                format!("verify is not accepted here: {why}"),
            ));
        }
        let share = options
            .memory_budget
            .as_ref()
            .map(MemoryShare::take)
            .transpose()?;
        let state = WriterState::Unopened(Box::new(Output::new(sink)));
        let mut writer = Self {
            options,
            progress: Arc::default(),
            between: Between::new(),
            state,
            held: HeldBatches::default(),
            share,
        };
        if let Some(schema) = schema {
            writer.open(&schema)?;
        }
        Ok(writer)
    }

    /// Figures that other threads may read at any time.
    #[must_use]
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Bytes handed to the sink.
    #[must_use]
    pub fn bytes_written(&self) -> u64 {
        self.progress.bytes_written()
    }

    /// The size of the file so far; nothing before the schema is known or after the file is complete. It takes time:
    /// values of unfinished pages are encoded for it.
    #[must_use]
    pub fn size(&self) -> Size {
        match &self.state {
            WriterState::Open(file) => file.size(),
            _ => Size::default(),
        }
    }

    /// Returns true if the writer takes no more batches.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.state, WriterState::Closed(_) | WriterState::Failed { .. })
    }

    /// The result of the file, once the writer is closed.
    #[must_use]
    pub fn result(&self) -> Option<&WriteResult> {
        match &self.state {
            WriterState::Closed(result) => result.as_ref(),
            _ => None,
        }
    }

    /// The schema of the file, once there is one.
    ///
    /// # Errors
    /// [`WriteError::Closed`] when the writer takes no more batches.
    pub fn schema(&self) -> Result<Option<SchemaRef>> {
        self.refuse_if_closed()?;
        Ok(match &self.state {
            WriterState::Open(file) => Some(Arc::clone(&file.schema.declared)),
            _ => None,
        })
    }

    /// Checks that batches of `schema` can be written; the first one opens the file when it was made without a schema.
    ///
    /// # Errors
    /// [`WriteError::Schema`] names what does not fit; the writer can go on.
    pub fn accept(&mut self, schema: &SchemaRef) -> Result<()> {
        self.refuse_if_closed()?;
        match &self.state {
            WriterState::Open(file) => file.schema.check(schema),
            _ => self.open(schema),
        }
    }

    /// Writes a batch. `go_on` is called now and then; when it returns false, the write ends in
    /// [`WriteError::Interrupted`].
    ///
    /// # Errors
    /// [`WriteError::Schema`] when the batch does not fit: nothing of it was written and the writer can go on. After
    /// any other error the file is discarded and later calls say so.
    pub fn write(&mut self, batch: &Batch, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        self.write_all(std::slice::from_ref(batch), go_on)
    }

    /// Writes batches. Each column of theirs is encoded to its end before the next one, which is faster than batch by
    /// batch; the bytes are the same. Columns that have to be converted are encoded batch by batch. Nothing is kept of
    /// the batches, unless the options say that they may be held.
    ///
    /// # Errors
    /// As [`Self::write`]. The batches before one that does not fit are written.
    pub fn write_all(&mut self, batches: &[Batch], go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        if self.options.hold_batches {
            return self.hold_all(batches, go_on);
        }
        self.between.enter();
        let patience = &mut Patience::new(go_on);
        let taken = self.take_all(batches, patience);
        let written = self.encode(patience).and(taken);
        self.between.leave();
        written
    }

    /// Writes batches likewise, which are held until they make a round with those of other calls. Their buffers must
    /// stay as they are until [`Self::released`] returns them. Under a memory limit, what is held counts.
    ///
    /// # Errors
    /// As [`Self::write_all`]; nothing is held after an error. Text that is not valid may be found by a later call.
    pub fn hold_all(&mut self, batches: &[Batch], go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        self.hold_rounds(batches, false, go_on)
    }

    /// Like [`Self::hold_all`], for batches built for this file. A round ends once all threads have work, so that the
    /// next batches reuse its memory instead of faulting in new pages.
    ///
    /// # Errors
    /// As [`Self::hold_all`].
    pub fn hold_built(&mut self, batches: &[Batch], go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        self.hold_rounds(batches, true, go_on)
    }

    fn hold_rounds(
        &mut self,
        batches: &[Batch],
        are_built: bool,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        self.between.enter();
        let patience = &mut Patience::new(go_on);
        let mut held = batches
            .iter()
            .try_for_each(|batch| self.hold(batch, are_built, patience));
        if held.is_err() {
            held = self.encode(patience).and(held);
        }
        self.between.leave();
        held
    }

    /// The batches that were held and whose rows are encoded, or never will be. Their buffers are freed with them.
    pub fn released(&mut self) -> Vec<Batch> {
        match &self.state {
            WriterState::Open(file) if file.waits() => Vec::new(),
            _ => self.held.release(),
        }
    }

    /// Writes the last batches and closes the file. The chunks of the last row group go into the file one by one. Pages
    /// of theirs wait for other columns only where the row group's size was looked at before, or columns were
    /// converted.
    ///
    /// # Errors
    /// As [`Self::write_all`], where the file stays open, and [`Self::close`].
    pub fn write_last(&mut self, batches: &[Batch], go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        self.between.enter();
        let patience = &mut Patience::new(go_on);
        let written = match self.take_all(batches, patience) {
            Ok(()) => self.complete(patience),
            Err(refused) => self.encode(patience).and(Err(refused)),
        };
        self.between.leave();
        written
    }

    /// Checks that [`Self::write`] would refuse none of these batches, one after the other. Writes none of their rows.
    ///
    /// # Errors
    /// [`WriteError::Schema`] as [`Self::write`]; the writer can go on.
    pub fn check_all(&mut self, batches: &[Batch]) -> Result<()> {
        let Some(first) = batches.first() else {
            return Ok(());
        };
        self.accept(&first.schema)?;
        let WriterState::Open(file) = &mut self.state else {
            return self.refuse_if_closed();
        };
        let place = file.sorting.as_ref().map(Sorting::place);
        let checked = batches
            .iter()
            .try_for_each(|batch| file.check(batch, &self.options));
        if let (Some(sorting), Some(place)) = (&mut file.sorting, place) {
            sorting.go_back(place);
        }
        checked
    }

    /// Takes batches, up to one that does not fit.
    fn take_all(&mut self, batches: &[Batch], patience: &mut Patience<'_>) -> Result<()> {
        batches.iter().try_for_each(|batch| self.take(batch, patience))
    }

    /// Takes a batch, and holds it while its rows wait for a round.
    fn hold(&mut self, batch: &Batch, is_built: bool, patience: &mut Patience<'_>) -> Result<()> {
        drop(self.released());
        self.take(batch, patience)?;
        let WriterState::Open(file) = &mut self.state else {
            return Ok(());
        };
        if !file.waits() {
            return Ok(());
        }
        self.held.add(batch);
        // A batch that there is no memory for is encoded now, as it would be if none were held.
        let is_held = file.pages.store.try_hold(self.held.bytes());
        file.account();
        let ends_early = is_built && self.options.threads.are_busy_with(self.held.bytes() as u64);
        if is_held && !ends_early && !self.held.is_round() {
            return Ok(());
        }
        self.encode(patience)
    }

    /// Encodes the rows that wait.
    fn encode(&mut self, patience: &mut Patience<'_>) -> Result<()> {
        let WriterState::Open(file) = &mut self.state else {
            return Ok(());
        };
        let encoded = file.encode(&self.options, patience);
        self.settle(encoded)
    }

    /// Takes a batch, whose rows may wait for [`OpenFile::encode`].
    fn take(&mut self, batch: &Batch, patience: &mut Patience<'_>) -> Result<()> {
        self.accept(&batch.schema)?;
        let WriterState::Open(file) = &mut self.state else {
            return self.refuse_if_closed();
        };
        let columns = file.fitted(batch, &self.options)?;
        let mut pairs = columns.iter().zip(&batch.columns);
        let is_converted = pairs.any(|(stored, given)| !Arc::ptr_eq(stored, given));
        let given = file.dictionaries.of(&batch.columns, &file.schema);
        if let Some(sorting) = file.sorting.as_mut().filter(|sorting| !sorting.sorts()) {
            sorting.verify(&batch.columns, batch.rows)?;
        }
        let written = if file.sorting.as_ref().is_some_and(Sorting::sorts) {
            file.take_in_order(batch, &columns, &given, &self.options, patience)
        } else {
            file.take(&columns, batch.rows, &given, &self.options, patience)
        };
        file.dictionaries.look_for_others(&batch.columns, &file.schema);
        let written = match written {
            // What was converted is not the caller's, and would wait in memory of its own.
            Ok(()) if is_converted => file.encode(&self.options, patience),
            other => other,
        };
        self.settle(written.and_then(|()| patience.check()))
    }

    /// Closes the row group, however short it is.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn flush(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        self.refuse_if_closed()?;
        let WriterState::Open(file) = &mut self.state else {
            return Ok(());
        };
        self.between.enter();
        let flushed = file.end_row_group(&self.options, &mut Patience::new(go_on));
        if let Some(sorting) = &mut file.sorting {
            sorting.begin_anew();
        }
        let flushed = self.settle(flushed);
        self.between.leave();
        flushed
    }

    /// Adds key-value metadata to the file. Of two values of one key, the later one is kept.
    ///
    /// # Errors
    /// [`WriteError::Option`] when a key is the writer's own, [`WriteError::Closed`] when the writer is closed.
    pub fn add_metadata(&mut self, pairs: Vec<(String, String)>) -> Result<()> {
        self.refuse_if_closed()?;
        self.options.metadata.extend(options::metadata(pairs)?);
        Ok(())
    }

    /// Writes what is left and the footer, and makes the file appear. Closing again does nothing.
    ///
    /// # Errors
    /// [`WriteError::Schema`] when there is neither schema nor batch, else as [`Self::write`].
    pub fn close(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        self.between.enter();
        self.complete(&mut Patience::new(go_on))
    }

    fn complete(&mut self, patience: &mut Patience<'_>) -> Result<()> {
        if matches!(self.state, WriterState::Closed(Some(_))) {
            return Ok(());
        }
        self.refuse_if_closed()?;
        let WriterState::Open(file) = &mut self.state else {
            self.abort();
            return Err(WriteError::schema(
                "nothing was written and no schema was given, so there is no file to write: pass schema=",
            ));
        };
        let closed = file.close(&self.options, patience);
        self.progress.bytes.store(file.bytes_written(), Ordering::Relaxed);
        match closed {
            Ok(mut result) => {
                result.times.wait = self.between.total();
                self.state = WriterState::Closed(Some(result));
                Ok(())
            }
            Err(error) => self.settle(Err(error)),
        }
    }

    /// Discards the file: the temporary file is removed, and the file that was at the path stays.
    pub fn abort(&mut self) {
        match &mut self.state {
            WriterState::Unopened(output) => output.discard(),
            WriterState::Open(file) => file.discard(),
            WriterState::Closed(_) => return,
            WriterState::Failed { .. } => {}
        }
        self.state = WriterState::Closed(None);
        self.share = None;
    }

    fn open(&mut self, schema: &SchemaRef) -> Result<()> {
        let prepared = FilePlan::new(schema, &self.options)?;
        self.options = prepared.options.clone();
        match std::mem::replace(
            &mut self.state,
            WriterState::Failed {
                has_appeared: false,
                why: "it could not be started".into(),
            },
        ) {
            WriterState::Unopened(output) => {
                let share = self.share.take();
                let file = OpenFile::start(*output, prepared, share, &self.options)?;
                self.state = WriterState::Open(Box::new(file));
                Ok(())
            }
            other => {
                self.state = other;
                self.refuse_if_closed()
            }
        }
    }

    fn refuse_if_closed(&self) -> Result<()> {
        match &self.state {
            WriterState::Closed(Some(_)) => Err(WriteError::Closed(
                "the writer is closed: open another one".into(),
            )),
            WriterState::Closed(None) => Err(WriteError::Closed(
                "the writer was aborted: open another one".into(),
            )),
            WriterState::Failed { has_appeared, why } => {
                let of_file = if *has_appeared {
                    ", after its file had appeared at its path"
                } else {
                    " and its file was discarded"
                };
                Err(WriteError::Closed(format!(
                    "the writer failed before{of_file}: {why}"
                )))
            }
            WriterState::Unopened(_) | WriterState::Open(_) => Ok(()),
        }
    }

    /// Updates the progress after a call, and discards the file when the call failed half-way.
    fn settle(&mut self, outcome: Result<()>) -> Result<()> {
        if let WriterState::Open(file) = &mut self.state {
            self.progress.bytes.store(file.bytes_written(), Ordering::Relaxed);
            if let Err(error) = outcome {
                let error = file.name(error);
                file.discard();
                self.state = WriterState::Failed {
                    has_appeared: matches!(
                        &error,
                        WriteError::Io { source, .. } if Unsynced::of(source).is_some()
                    ),
                    why: error.to_string(),
                };
                return Err(error);
            }
        }
        outcome
    }
}

impl Drop for FileWriter {
    fn drop(&mut self) {
        self.abort();
    }
}

/// Checks that no value is larger than the memory limit allows.
fn check_sizes(batch: &Batch, options: &WriterOptions) -> Result<()> {
    let Some(limit) = options.budget.value_bytes else {
        return Ok(());
    };
    for (field, column) in batch.schema.fields().iter().zip(&batch.columns) {
        let mut starts = (0..batch.rows).step_by(ROWS_TOGETHER);
        let above = starts.find_map(|start| {
            let rows = column.slice(start, ROWS_TOGETHER.min(batch.rows - start));
            let above = RowWeights::new(std::slice::from_ref(&rows)).first_above(rows.len(), limit);
            above.map(|(row, bytes)| (start + row, bytes))
        });
        if let Some((row, bytes)) = above {
            return Err(WriteError::column(
                field.name(),
                format!(
                    "column {:?} has a value of {bytes} bytes in row {row} of the batch, and memory_limit={} has room for values of {limit}: raise the limit to {} or cut the value",
                    field.name(),
                    limit * VALUE_SHARE,
                    bytes * VALUE_SHARE
                ),
            ));
        }
    }
    Ok(())
}

/// The plan that follows from schema and options before anything is written.
struct FilePlan {
    schema: FileSchema,
    /// The options with their limits shared out among the columns.
    options: WriterOptions,
    codecs: Vec<Compression>,
    filters: Vec<Option<FilterPlan>>,
    without_statistics: Vec<usize>,
    cipher: Option<Arc<FileCipher>>,
    chooser: Chooser,
    dictionaries: Dictionaries,
    sorting: Option<Sorting>,
}

impl FilePlan {
    fn new(schema: &SchemaRef, options: &WriterOptions) -> Result<Self> {
        let declared = if options.sorts() {
            without_range_index(schema)
        } else {
            Arc::clone(schema)
        };
        let (timestamps, compatibility) = (options.timestamps, options.compatibility);
        let (ids, of_files) = (&options.field_ids, &options.stored_names);
        let schema = FileSchema::new(declared, timestamps, compatibility, ids, of_files)?;
        if options.store_schema {
            stored_schema::check_depth(&schema.stored)?;
        }
        let codecs = leaf_options::codecs(schema.named(), &options.compression)?;
        let options = options.for_leaves(&codecs)?;
        let allowed = by_leaf(schema.named(), "dictionary", &options.dictionary, true)?;
        let named = leaf_options::named_choices(&schema, &options)?;
        let dictionaries = Dictionaries::new(&schema, &allowed, &named, &options);
        let chooser = Chooser::new(&allowed, &named, &schema, &options);
        let encryption = options.encryption.as_ref();
        let statistics = by_leaf(schema.named(), "statistics", &options.statistics, true)?;
        Ok(Self {
            without_statistics: (0..statistics.len()).filter(|leaf| !statistics[*leaf]).collect(),
            cipher: encryption
                .map(|encryption| FileCipher::new(encryption, schema.named()))
                .transpose()?,
            sorting: Sorting::new(&schema, &options)?,
            codecs,
            filters: leaf_options::filters(schema.named(), &options)?,
            schema,
            options,
            chooser,
            dictionaries,
        })
    }
}

/// The directory for spilled pages. With a memory limit there must be one: if need be, the system's directory for
/// temporary files.
fn spill_directory(sink: &dyn Sink, options: &WriterOptions) -> Option<PathBuf> {
    let beside = sink.spill_directory();
    match options.memory_limit {
        None => beside,
        Some(_) if std::env::var_os("TMPDIR").is_some() => Some(std::env::temp_dir()),
        Some(_) => Some(beside.unwrap_or_else(std::env::temp_dir)),
    }
}

/// The key-value metadata: the schema's own, overridden by the caller's, and the Arrow schema last, where it is stored.
fn key_values(stored: &Schema, options: &WriterOptions) -> Result<Vec<KeyValue>> {
    let mut pairs: std::collections::BTreeMap<&str, &str> = stored
        .metadata()
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .filter(|(key, value)| !metadata_text::is_carried(key) && !metadata_text::is_carried(value))
        .collect();
    pairs.remove(parquet::arrow::ARROW_SCHEMA_META_KEY);
    pairs.extend(
        options
            .metadata
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str())),
    );
    let pairs = pairs
        .into_iter()
        .map(|(key, value)| Ok(KeyValue::new(key.to_string(), value.to_string())));
    let schema = options.store_schema.then(|| stored_schema::encoded(stored));
    pairs.chain(schema).collect()
}

struct OpenFile {
    schema: FileSchema,
    chooser: Chooser,
    dictionaries: Dictionaries,
    sorting: Option<Sorting>,
    /// Rows that are not in order yet.
    waiting: Waiting,
    file: SerializedFileWriter<Output>,
    pages: Arc<Pages>,
    carry: Carry,
    row_group: Option<RowGroupEncoder>,
    rows: u64,
    /// Checksums of the values, where they are compared with those in the file.
    digests: Option<Digests>,
    peak: usize,
    cipher: Option<Arc<FileCipher>>,
    /// Bytes of the complete file, where that is encrypted.
    sealed_bytes: Option<u64>,
    /// After all else: fields are dropped in this order.
    footprint: Footprint,
}

impl OpenFile {
    fn start(
        mut output: Output,
        prepared: FilePlan,
        share: Option<MemoryShare>,
        options: &WriterOptions,
    ) -> Result<Self> {
        let FilePlan {
            schema,
            chooser,
            dictionaries,
            sorting,
            codecs,
            filters,
            without_statistics,
            cipher,
            ..
        } = prepared;
        let store = PageStore::new(spill_directory(output.sink(), options), options.budget).with_share(share);
        let pages = Pages::new(store, codecs)
            .with_window(options.budget.window)
            .with_filters(filters)
            .with_checksums(options.page_checksums)
            .content_defined(options.chunk_sizes.is_some())
            .without_statistics(without_statistics)
            .with_cipher(cipher.clone());
        let pages = Arc::new(pages);
        // Filters of an encrypted file are sealed with the end of the file.
        let filters_at = match cipher {
            Some(_) => BloomFilterPosition::End,
            None => BloomFilterPosition::AfterRowGroup,
        };
        let properties = WriterProperties::builder()
            .set_bloom_filter_position(filters_at)
            .set_created_by(CREATED_BY.to_string())
            .set_sorting_columns(sorting.as_ref().map(|sorting| sorting.columns().to_vec()))
            .build();
        let hides_footer = cipher
            .as_ref()
            .is_some_and(|cipher| !cipher.has_plaintext_footer());
        if hides_footer {
            output.hold_end();
        }
        if options.verify >= Some(Verify::Pages) {
            output = output.with_checksum();
        }
        let mut file =
            SerializedFileWriter::new(output, schema.parquet.root_schema_ptr(), Arc::new(properties))?;
        if hides_footer {
            file.flush()?;
            file.inner_mut().replace_end(encryption::MAGIC.to_vec());
            file.inner_mut().release()?;
        }
        Ok(Self {
            schema,
            chooser,
            dictionaries,
            sorting,
            waiting: Waiting::default(),
            file,
            pages,
            carry: Carry::default(),
            row_group: None,
            rows: 0,
            digests: (options.verify == Some(Verify::Values)).then(Digests::default),
            peak: 0,
            cipher,
            sealed_bytes: None,
            footprint: Footprint::default(),
        })
    }

    fn bytes_written(&self) -> u64 {
        self.sealed_bytes.unwrap_or(self.file.bytes_written() as u64)
    }

    fn size(&self) -> Size {
        Size {
            written: self.bytes_written() + self.pages.filter_bytes() as u64,
            open: self
                .row_group
                .as_ref()
                .map_or(0, |open| open.encoded_bytes() + open.filter_bytes()),
            rows: self.rows,
            row_groups: self.file.flushed_row_groups().len() + usize::from(self.row_group.is_some()),
        }
    }

    /// Checks that a batch fits, and returns its columns with their times in the units that are stored.
    fn fitted(&self, batch: &Batch, options: &WriterOptions) -> Result<Vec<ArrayRef>> {
        if self.sorting.is_some() {
            batch.check_text()?;
        }
        self.schema.check_nulls(&batch.columns)?;
        limits::check(batch)?;
        check_sizes(batch, options)?;
        let columns = normalize::with_stored_times(&batch.columns, &self.schema)?;
        if options.timestamp_loss == TimestampLoss::Refuse {
            timestamp_loss::check(&batch.columns, &columns, &self.schema)?;
        }
        Ok(columns)
    }

    /// Checks that a batch fits behind those that were checked before.
    fn check(&mut self, batch: &Batch, options: &WriterOptions) -> Result<()> {
        self.schema.check(&batch.schema)?;
        self.fitted(batch, options)?;
        match self.sorting.as_mut().filter(|sorting| !sorting.sorts()) {
            Some(sorting) => sorting.verify(&batch.columns, batch.rows),
            None => Ok(()),
        }
    }

    /// Takes rows that come with the dictionaries `given`. The last of them wait for [`Self::encode`].
    fn take(
        &mut self,
        columns: &[ArrayRef],
        rows: usize,
        given: &[BatchDictionary],
        options: &WriterOptions,
        patience: &mut Patience<'_>,
    ) -> Result<()> {
        let (declared, carried) = (
            Arc::clone(&self.schema.declared),
            Arc::clone(&self.schema.carried),
        );
        let mut feed = Feed::new(columns, rows, (&declared, &carried), Pace::new(options));
        let mut named = false;
        while !feed.is_empty() {
            if !named {
                self.preserve(given);
            }
            let position = self
                .row_group
                .as_ref()
                .map(RowGroupEncoder::position)
                .unwrap_or_default();
            let Some(run) = feed.next(position, &mut self.carry)? else {
                break;
            };
            self.take_run(run, options, patience)?;
            // A row group that ended knows nothing of the next one's rows.
            named = self.row_group.is_some();
        }
        self.account();
        Ok(())
    }

    /// Adds the dictionaries of the next rows to the row group, which may not be open yet.
    fn preserve(&mut self, given: &[BatchDictionary]) {
        for given in given {
            match &mut self.row_group {
                Some(row_group) => row_group.preserve(given),
                None => self.dictionaries.add(given),
            }
        }
    }

    /// Takes rows of one row group, and closes it where they fill it.
    fn take_run(
        &mut self,
        run: RowGroupRows,
        options: &WriterOptions,
        patience: &mut Patience<'_>,
    ) -> Result<()> {
        if self.row_group.is_none() {
            self.row_group = Some(self.open_row_group(&run, options)?);
        }
        let Some(row_group) = &mut self.row_group else {
            return Ok(());
        };
        if let Some(digests) = &mut self.digests {
            digests.add(&run.rows, &self.schema)?;
        }
        self.rows += run.rows.count as u64;
        let (check, whole) = (run.check, run.after.rows >= options.row_group_rows);
        row_group.take(run);
        if whole {
            return self.close_row_group(options.threads, patience);
        }
        if check && self.is_check_due(options, patience)? {
            self.encode(options, patience)?;
            if self.row_group.as_mut().is_some_and(RowGroupEncoder::is_full) {
                self.close_row_group(options.threads, patience)?;
            }
        }
        Ok(())
    }

    /// Returns true if the size of the row group must be known now. A look at its first rows may put that off.
    fn is_check_due(&mut self, options: &WriterOptions, patience: &mut Patience<'_>) -> Result<bool> {
        let is_due = |file: &Self| file.row_group.as_ref().is_some_and(RowGroupEncoder::is_check_due);
        if is_due(self) {
            self.metered(|row_group, meter| row_group.look(options.threads, meter, patience))?;
        }
        Ok(is_due(self))
    }

    /// Encodes the rows that wait, and copies those that are not enough to be encoded.
    fn encode(&mut self, options: &WriterOptions, patience: &mut Patience<'_>) -> Result<()> {
        self.carry.keep()?;
        self.metered(|row_group, meter| row_group.encode(options.threads, meter, patience))?;
        self.account();
        self.pages.store.release_held();
        Ok(())
    }

    /// Returns true if rows wait whose batches are needed.
    fn waits(&self) -> bool {
        self.carry.has_borrowed() || self.row_group.as_ref().is_some_and(RowGroupEncoder::waits)
    }

    /// Has the row group encode, and notes the memory that it takes.
    fn metered(
        &mut self,
        encode: impl FnOnce(&mut RowGroupEncoder, &Arc<Meter>) -> Result<()>,
    ) -> Result<()> {
        let other = self.waiting_bytes();
        let Some(row_group) = &mut self.row_group else {
            return Ok(());
        };
        let meter = Arc::new(Meter::new(Arc::clone(&self.pages), other));
        let encoded = encode(row_group, &meter);
        self.peak = self.peak.max(meter.peak());
        encoded
    }

    /// Opens a row group that begins with these rows, by which its encodings are chosen.
    fn open_row_group(&mut self, run: &RowGroupRows, options: &WriterOptions) -> Result<RowGroupEncoder> {
        let declared = Arc::clone(&self.schema.declared);
        for (index, field) in declared.fields().iter().enumerate() {
            integrity::check_run(field.name(), &run.rows.column(index))?;
        }
        self.pages.begin_row_group(self.file.flushed_row_groups().len());
        let encoders = self.encoders(&run.rows, options)?;
        let schemas = (declared, Arc::clone(&self.schema.carried));
        let checks = SizeChecks::new(options.row_group_bytes);
        Ok(RowGroupEncoder::new(
            schemas,
            encoders,
            checks,
            self.schema.row_bytes(),
        ))
    }

    /// Encoders for a row group that begins with these rows.
    fn encoders(&mut self, first: &BatchRows, options: &WriterOptions) -> Result<Vec<Box<dyn FieldEncoder>>> {
        let rows = first.count.min(SAMPLE_ROWS);
        let columns = 0..self.schema.carried.fields().len();
        let sample: Vec<_> = columns.map(|index| first.column(index).slice(0, rows)).collect();
        let preserved = self.dictionaries.take();
        let sizes: Vec<_> = preserved
            .iter()
            .map(|leaf| leaf.as_ref().and_then(Preserved::size))
            .collect();
        let choices = self.chooser.choose(&sample, &sizes, &self.schema, options)?;
        let encoders = column::encoders(&self.schema, &choices, preserved, &self.pages, options);
        Ok(encoders)
    }

    /// Keeps rows until there is a row group of them to sort.
    fn take_in_order(
        &mut self,
        batch: &Batch,
        stored: &[ArrayRef],
        given: &[BatchDictionary],
        options: &WriterOptions,
        patience: &mut Patience<'_>,
    ) -> Result<()> {
        let mut start = 0;
        while start < batch.rows {
            let rows = (batch.rows - start).min(options.row_group_rows - self.waiting.rows);
            self.preserve(given);
            if let Some(sorting) = &self.sorting {
                let slice = |columns: &[ArrayRef]| -> Vec<ArrayRef> {
                    columns.iter().map(|column| column.slice(start, rows)).collect()
                };
                let (given, stored) = (slice(&batch.columns), slice(stored));
                self.waiting
                    .take(sorting, &given, &stored, &self.schema.carried)?;
            }
            start += rows;
            self.account();
            patience.check()?;
            if self.waiting.rows == options.row_group_rows {
                self.end_row_group(options, patience)?;
            }
        }
        Ok(())
    }

    /// Writes the rows that wait and closes the row group.
    fn end_row_group(&mut self, options: &WriterOptions, patience: &mut Patience<'_>) -> Result<()> {
        if self.waiting.rows > 0 {
            self.dictionaries.hold();
        }
        std::mem::take(&mut self.waiting).in_order(|columns, rows| {
            patience.check()?;
            self.take(columns, rows, &[], options, patience)?;
            // What is gathered in order is not kept.
            self.encode(options, patience)
        })?;
        if self.carry.rows() > 0 {
            let run = self.carry.take(Pace::new(options))?;
            self.take_run(run, options, patience)?;
        }
        self.close_row_group(options.threads, patience)?;
        self.dictionaries.release();
        Ok(())
    }

    fn close_row_group(&mut self, threads: Threads, patience: &mut Patience<'_>) -> Result<()> {
        let other = self.waiting_bytes();
        if let Some(row_group) = self.row_group.take() {
            let meter = Arc::new(Meter::new(Arc::clone(&self.pages), other));
            let closed = row_group.close(&mut self.file, threads, &meter, patience);
            self.peak = self.peak.max(meter.peak());
            let closed = closed?;
            self.pages.store.release_held();
            let choices: Vec<_> = closed.iter().map(|leaf| leaf.choice).collect();
            self.dictionaries.put_back(closed);
            if let Some(digests) = &mut self.digests {
                digests.end_row_group();
            }
            self.file.flush()?;
            self.pages.store.rewind()?;
            if let Some(closed) = self.file.flushed_row_groups().last() {
                self.chooser.learn(closed, &choices);
            }
        }
        Ok(())
    }

    fn close(&mut self, options: &WriterOptions, patience: &mut Patience<'_>) -> Result<WriteResult> {
        self.end_row_group(options, patience)?;
        self.file.flush()?;
        let stored = StoredSchema::new(Arc::clone(&self.schema.stored), self.dictionaries.kept());
        let mut shown = stored.to_arrow();
        if let Some(cipher) = &self.cipher {
            shown = without_hidden(&shown, &|leaf| cipher.hides(leaf));
        }
        for pair in key_values(&shown, options)? {
            self.file.append_key_value_metadata(pair);
        }
        let started = Instant::now();
        let start = self.bytes_written();
        self.file.inner_mut().hold_end();
        let metadata = self.file.finish()?;
        let output = self.file.inner_mut();
        footer::set_type_order(output.end_mut(), self.schema.parquet.num_columns())?;
        let mut footer = Bytes::new();
        if let Some(cipher) = &self.cipher {
            let sealed = encryption::seal_end(output.end_mut(), start, cipher)?;
            self.sealed_bytes = Some(start + sealed.len() as u64);
            // Filters are there as they were and as they are in the file.
            self.peak = self.peak.max(2 * self.pages.filter_bytes());
            output.replace_end(sealed);
        } else {
            footer = footer::of_end(output.end_mut())?;
        }
        let mut end = output.held_bytes() + footer.len();
        if let Some(level) = options.verify {
            end += self.verify(level, &metadata, options, patience)?;
        }
        self.file.inner_mut().commit()?;
        self.peak = self
            .peak
            .max(self.pages.tracked_bytes() + self.waiting_bytes() + end);
        self.pages.stages.write.add(started.elapsed());
        // Callers keep the metadata of many files, and page indexes are most of it.
        let metadata = metadata.into_builder().set_page_index(None).build();
        Ok(WriteResult {
            rows: self.rows,
            bytes: self.bytes_written(),
            row_groups: metadata.num_row_groups(),
            columns: result::columns(
                &self.schema.parquet,
                metadata.row_groups(),
                &self.chooser.reasons(),
            ),
            peak_tracked_bytes: self.peak as u64,
            spilled_bytes: self.pages.store.spilled(),
            times: self.pages.stages.times(),
            metadata: Arc::new(metadata),
            footer,
            stored: options.store_schema.then_some(stored),
        })
    }

    /// Reads back what was written. Returns the memory that it took.
    fn verify(
        &mut self,
        level: Verify,
        metadata: &ParquetMetaData,
        options: &WriterOptions,
        patience: &mut Patience<'_>,
    ) -> Result<usize> {
        let bytes = self.bytes_written();
        let output = self.file.inner_mut();
        let (end, file) = output.read_back()?;
        let checksum = output.checksum();
        let written = Written {
            schema: &self.schema,
            metadata,
            end: &end,
            bytes,
            checksum,
            rows: self.rows,
            digests: self.digests.as_ref(),
        };
        let checked = verify::check(level, &written, file, options.memory_limit, patience);
        checked.map_err(|error| match error {
            WriteError::Corrupt(what) => {
                let path = self.file.inner().sink().path();
                let name = path.map_or_else(|| "the file".into(), |path| path.display().to_string());
                WriteError::Corrupt(format!(
                    "{name}: what is read back is not what was written: {what}. It is not published, and what was written \
                     is removed"
                ))
            }
            other => other,
        })
    }

    /// Notes the memory held now.
    fn account(&mut self) {
        let encoders = self.row_group.as_ref().map_or(0, RowGroupEncoder::tracked_bytes);
        let held = encoders + self.pages.tracked_bytes() + self.waiting_bytes();
        self.peak = self.peak.max(held);
        self.footprint.note(self.peak);
    }

    /// Memory of columns, of rows and dictionaries that wait for a row group, and of filters that wait for the end of
    /// the file.
    fn waiting_bytes(&self) -> usize {
        let rows = self.carry.bytes() + self.waiting.bytes();
        let columns = self.schema.parquet.num_columns() * COLUMN;
        rows + self.dictionaries.memory_bytes() + self.pages.filter_bytes() + columns
    }

    fn discard(&mut self) {
        self.file.inner_mut().discard();
    }

    /// The error with the file's path, where it is one of the operating system.
    fn name(&self, error: WriteError) -> WriteError {
        match (error, self.file.inner().sink().path()) {
            (WriteError::Io { path: None, source }, Some(path)) => WriteError::io(path, source),
            (error, _) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, RecordBatch};

    use super::*;
    use crate::options::OptionInput;
    use crate::sink::StreamSink;

    #[test]
    fn a_call_with_many_small_batches_asks_at_each_whether_to_go_on() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let batch = Batch::from(RecordBatch::try_from_iter([("x", column)]).unwrap());
        for write in [FileWriter::write_all, FileWriter::write_last] {
            let sink = Box::new(StreamSink::new(Box::new(Vec::new())));
            let options = WriterOptions::new(OptionInput::default()).unwrap();
            let mut writer = FileWriter::new(sink, None, options).unwrap();
            let mut asked = 0;
            let ended = write(&mut writer, &vec![batch.clone(); 9], &mut || {
                asked += 1;
                asked < 7
            });
            assert!(matches!(ended, Err(WriteError::Interrupted)), "{ended:?}");
            assert_eq!(asked, 7);
            assert!(writer.is_closed());
        }
    }
}
