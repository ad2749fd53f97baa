//! An append: it writes files first, and commits them once at the end.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow_schema::SchemaRef;
use delta_commit::actions::Add;
use delta_commit::{CommitError, MemberId, Version};
use parquet_writer::{Batch, WriteError, WriterOptions};

use crate::buffered_rows::BufferedRows;
use crate::conditions::Conditions;
use crate::detached::DetachedFiles;
use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::scan::Question;
use crate::schema::TableSchema;
use crate::single_flight::WaitProbe;
use crate::snapshot::Snapshot;
use crate::table::{CommitCounter, SharedTable, Table};

mod async_commit;
mod coalesce;
mod commit;
mod data_writer;
mod options;
mod parts;
mod rebase;

pub use async_commit::{AnswerCallback, CommitAnswer, CommitStep, CommitWait};
pub(crate) use coalesce::SmallAppend;
pub(crate) use data_writer::{DataWriter, WrittenFiles};
pub use options::{AppendOptions, check_options};

/// An append that is under way. If it is dropped before its commit, its files are removed.
pub struct Append {
    shared: Arc<SharedTable>,
    read_version: Version,
    /// The transaction version of the append's application in that version.
    app_version: Option<i64>,
    /// The files that the append replaces; none when it replaces nothing.
    replaced: Option<Replaced>,
    writer: DataWriter,
    /// Rows that are to share files with other appends; none when the append has files of its own.
    buffered: Option<BufferedRows>,
    /// Measures of the caller for the history.
    metrics: BTreeMap<String, String>,
    /// Files that other processes wrote.
    attached: Vec<DetachedFiles>,
    /// The paths of these files.
    taken: HashSet<String>,
    /// The table's schema with the attached rows in it; none before the first part.
    merged: Option<Merged>,
    /// The table as it was when the first of them came.
    known: Option<Arc<Snapshot>>,
    /// Its transactions that the committer got.
    tried: Vec<MemberId>,
    /// True if the table already has these rows.
    is_repeated: bool,
    state: AppendState,
    /// True while a commit waits for an answer without a thread.
    is_posted: bool,
    /// True if the committer got the files and did not say that they are in no version.
    in_doubt: bool,
    /// The process that the append belongs to. A forked child inherits the append, but the files are its parent's.
    process: u32,
}

/// The state of the table that an append begins with.
pub(crate) struct AppendBasis {
    head: Arc<TableHead>,
    read_version: Version,
    /// The transaction version of the append's application.
    app_version: Option<i64>,
    replaced: Option<Replaced>,
}

/// The files that an append replaces.
struct Replaced {
    conditions: Conditions,
    choice: Question,
    files: Vec<Arc<Add>>,
}

impl AppendBasis {
    /// That of an append that depends on no file and no application.
    pub fn blind(head: Arc<TableHead>, read_version: Version) -> Self {
        Self {
            head,
            read_version,
            app_version: None,
            replaced: None,
        }
    }

    /// That of an append with these options, as far as it has to be read from the log.
    fn of(shared: &SharedTable, options: &AppendOptions, look: WaitProbe<'_>) -> Result<Self> {
        if let Some(conditions) = &options.replace {
            let table = shared.snapshot(look)?;
            table.check_removable("overwriting")?;
            let choice = Question::of_files(&table, conditions, "where")?;
            let app_id = options.app_transaction.as_ref().map(|(app_id, _)| app_id);
            return Ok(Self {
                head: Arc::clone(&table.head),
                read_version: table.version,
                app_version: app_id.and_then(|app_id| table.transaction_version(app_id)),
                replaced: Some(Replaced {
                    files: choice.files(&table)?,
                    conditions: conditions.clone(),
                    choice,
                }),
            });
        }
        if let Some((app_id, _)) = &options.app_transaction {
            let (head, app_version) = shared.progress(app_id, look)?;
            return Ok(Self {
                app_version,
                ..Self::at(head)
            });
        }
        let (head, version) = shared.base(look)?;
        Ok(Self::blind(head, version))
    }

    fn at(head: Arc<TableHead>) -> Self {
        let version = head.version;
        Self::blind(head, version)
    }
}

/// A schema that the next attached part is checked against.
struct Merged {
    schema: Arc<TableSchema>,
    /// True if the append's own rows are in it.
    has_own: bool,
}

enum AppendState {
    Writing,
    /// The files are complete, and their commit may be in doubt.
    Written(WrittenFiles),
    Committed(Version),
    Closed(&'static str),
}

impl Table {
    /// Begins an append.
    ///
    /// # Errors
    /// [`CommitError::Unsupported`] when the table asks its writers for what is not built.
    pub fn append(&self, options: AppendOptions, writer_options: WriterOptions) -> Result<Append> {
        coalesce::check(&options)?;
        let shared = self.shared()?;
        let basis = AppendBasis::of(&shared, &options, &mut shared.looking())?;
        Append::begin(shared, basis, options, writer_options)
    }
}

impl Append {
    /// Begins an append to the table as it is in `basis`.
    pub(crate) fn begin(
        shared: Arc<SharedTable>,
        basis: AppendBasis,
        options: AppendOptions,
        writer_options: WriterOptions,
    ) -> Result<Self> {
        let AppendBasis {
            head,
            read_version,
            app_version,
            replaced,
        } = basis;
        let is_repeated = options
            .app_transaction
            .as_ref()
            .is_some_and(|(_, version)| app_version.is_some_and(|known| known >= *version));
        let buffered = (options.coalesce && !shared.is_planned).then(BufferedRows::default);
        let writer = DataWriter::new(Arc::clone(&shared), head, options, writer_options)?;
        Ok(Self {
            shared,
            read_version,
            app_version,
            replaced,
            writer,
            buffered,
            metrics: BTreeMap::new(),
            attached: Vec::new(),
            taken: HashSet::new(),
            merged: None,
            known: None,
            tried: Vec::new(),
            is_repeated,
            state: AppendState::Writing,
            is_posted: false,
            in_doubt: false,
            process: std::process::id(),
        })
    }

    /// A counter of the versions that this process tries to write to the table.
    #[must_use]
    pub fn commit_counter(&self) -> CommitCounter {
        CommitCounter(Arc::clone(&self.shared))
    }

    /// Returns true if it takes no more rows.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_posted || !matches!(self.state, AppendState::Writing)
    }

    /// Returns true if the table already has these rows by their application's transaction version. They are not
    /// written again.
    #[must_use]
    pub fn is_repeated(&self) -> bool {
        self.is_repeated
    }

    /// The version that holds the rows, once they are committed.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        match self.state {
            AppendState::Committed(version) => Some(version),
            _ => None,
        }
    }

    fn refuse_if_closed(&self) -> Result<()> {
        let why = match self.state {
            AppendState::Writing if !self.is_posted => return Ok(()),
            AppendState::Writing | AppendState::Written(_) => {
                return Err(WriteError::Closed("the append is being committed".into()).into());
            }
            AppendState::Committed(_) => "is committed",
            AppendState::Closed(why) => why,
        };
        Err(WriteError::Closed(format!("the append {why}: begin another one")).into())
    }

    /// Checks that rows of this schema can be written.
    ///
    /// # Errors
    /// [`CommitError::Schema`] names what does not fit the table.
    pub fn accept(&mut self, schema: &SchemaRef) -> Result<()> {
        self.refuse_if_closed()?;
        self.writer.accept(schema)
    }

    /// Writes a batch.
    ///
    /// # Errors
    /// [`CommitError::Schema`] when the batch does not fit, and [`TableError::Constraint`] when a constraint is not
    /// true for a row of it: nothing of it was written and the append can go on. After any other error it is closed and
    /// its files are gone.
    pub fn write(&mut self, batch: &Batch, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        self.write_all(std::slice::from_ref(batch), go_on)
    }

    /// The schema that rows are built for: the columns of the files; before the first rows, all of the table's.
    ///
    /// # Errors
    /// [`WriteError::Closed`] when the append takes no more rows.
    pub fn schema(&self) -> Result<SchemaRef> {
        self.refuse_if_closed()?;
        Ok(self.writer.schema())
    }

    /// Writes batches, in each file one column of theirs after the other. Nothing is kept of the batches, unless the
    /// options say that they may be held.
    ///
    /// # Errors
    /// As [`Self::write`]. The batches before one that does not fit are written; [`TableError::Constraint`] has the
    /// number of their rows.
    pub fn write_all(&mut self, batches: &[Batch], go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        if self.writer.holds_batches() {
            return self.hold_all(batches, go_on);
        }
        let taken = self.take_all(batches, go_on);
        if self.is_closed() {
            return taken;
        }
        self.encode(go_on).and(taken)
    }

    /// Writes batches likewise, which are held until they make a round with those of other calls. Their buffers must
    /// stay as they are until [`Self::released`] returns them. Under a memory limit none are held.
    ///
    /// # Errors
    /// As [`Self::write_all`]; nothing is held after an error. Text that is not valid may be found by a later call.
    pub fn hold_all(&mut self, batches: &[Batch], go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        let taken = self.take_all(batches, go_on);
        if self.is_closed() {
            return taken;
        }
        match taken {
            Ok(()) => self.encode_round(batches, go_on),
            refused => self.encode(go_on).and(refused),
        }
    }

    /// The batches that were held and whose rows are encoded, or never will be. Their buffers are freed with them.
    pub fn released(&mut self) -> Vec<Batch> {
        match &mut self.writer.open {
            Some(open) => open.spread.released(),
            None => Vec::new(),
        }
    }

    /// Takes batches, up to one that does not fit.
    fn take_all(&mut self, batches: &[Batch], go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        let mut rows = 0;
        batches.iter().try_for_each(|batch| {
            let taken = self.take(batch, go_on).map_err(|error| error.after(rows));
            rows += batch.rows() as u64;
            taken
        })
    }

    /// Holds batches likewise, or none of them when one does not fit.
    ///
    /// # Errors
    /// As [`Self::write`]. Nothing of any of the batches was written where the append can go on. Rows that their file
    /// refuses close it, unless they are among those of the first batch.
    pub fn write_whole(&mut self, batches: &[Batch], go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        self.refuse_if_closed()?;
        if self.is_repeated {
            return Ok(());
        }
        let was_open = self.writer.open.is_some();
        let fitted = self.writer.fit_all(batches, self.buffered.is_some());
        if fitted.is_err() && !was_open {
            // Rows of which nothing is kept say nothing of the columns either.
            self.writer.open = None;
        }
        let fitted = fitted.map_err(|error| self.shared.or_replaced(error))?;
        for (number, fitted) in fitted.into_iter().enumerate() {
            let buffered = self.buffered.is_some();
            let done = self.writer.take_fitted(fitted, &mut self.buffered, go_on);
            let taken = self.after_take(done, buffered);
            if taken.is_err() && number > 0 && !self.is_closed() {
                self.fail();
            }
            taken?;
        }
        self.encode_round(batches, go_on)
    }

    /// Encodes the rows that wait.
    fn encode(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        let encoded = self.writer.encode(go_on);
        self.or_fail(encoded)
    }

    /// Encodes the rows that wait, where they make a round.
    fn encode_round(&mut self, taken: &[Batch], go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        let encoded = self.writer.encode_round(taken, go_on);
        self.or_fail(encoded)
    }

    /// Closes the append where rows could not be encoded.
    fn or_fail(&mut self, encoded: Result<()>) -> Result<()> {
        if encoded.is_err() {
            self.fail();
        }
        encoded.map_err(|error| self.shared.or_replaced(error))
    }

    /// Closes the append after an error, and removes its files.
    fn fail(&mut self) {
        self.abort();
        self.state = AppendState::Closed("failed before");
    }

    /// Takes a batch, whose rows may wait for the end of the call.
    fn take(&mut self, batch: &Batch, go_on: &mut dyn FnMut() -> bool) -> Result<()> {
        self.refuse_if_closed()?;
        if self.is_repeated {
            return Ok(());
        }
        let buffered = self.buffered.is_some();
        let done = self.writer.take(batch, &mut self.buffered, go_on);
        self.after_take(done, buffered)
    }

    /// Closes the append after an error, unless nothing of the batch was written. Rows were buffered before it, or not.
    fn after_take(&mut self, done: Result<()>, buffered: bool) -> Result<()> {
        // Rows that were buffered may be half written by then, and so may be those of some partitions.
        let refused = buffered == self.buffered.is_some()
            && !self.writer.is_torn()
            && matches!(
                &done,
                Err(TableError::Commit(CommitError::Schema { .. })
                    | TableError::Constraint { .. }
                    | TableError::Write(WriteError::Schema(_) | WriteError::Option(_)))
            );
        if done.is_err() && !refused {
            self.fail();
        }
        done.map_err(|error| self.shared.or_replaced(error))
    }

    /// Aborts the append and removes its files. Does nothing while an asynchronous commit waits for its answer.
    pub fn abort(&mut self) {
        if self.is_posted {
            return;
        }
        // Files that are open go with their writers, before those that are complete.
        let files = self.writer.open.take().map(|open| open.spread.into_places());
        if matches!(self.state, AppendState::Committed(_) | AppendState::Closed(_)) {
            return;
        }
        self.state = AppendState::Closed("was aborted");
        if self.in_doubt {
            return;
        }
        if self.process != std::process::id() {
            return;
        }
        if let Some(files) = files {
            files.remove();
        }
        self.remove_attached();
    }

    /// Adds measures of the caller to the `operationMetrics` of the commit. Counts of files, rows and bytes are there
    /// by themselves.
    ///
    /// # Errors
    /// [`WriteError::Closed`] when the append is committed or was given up.
    pub fn add_metrics(&mut self, metrics: BTreeMap<String, String>) -> Result<()> {
        self.refuse_if_closed()?;
        self.metrics.extend(metrics);
        Ok(())
    }
}

impl Drop for Append {
    fn drop(&mut self) {
        self.abort();
    }
}
