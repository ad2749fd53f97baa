//! Delta tables: the class `DeltaTable` and what it gives, which `spillway.delta` wraps.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use delta_commit::{Operation, Outcome, Token};
use delta_object_store::Objects;
use delta_table::{
    AppendOptions, ChangesOptions, CompactOptions, CreateMode, CreateOptions, DeclaredReads, LocalStorage,
    MergeOptions, NewValues, ScanOptions, Table, TableError, TableStorage, VacuumOptions,
};
use parquet_writer::OptionFault;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::arrow::schema_from;
use crate::errors::Failure;
use crate::options::Options;
use crate::storage_options::StorageOptions;
use crate::turn::detached;

mod append;
mod attention;
mod awaited;
mod changes;
pub(crate) mod errors;
mod given;
mod scan;
mod schema;
mod upkeep;

pub(crate) use append::DeltaAppend;
pub(crate) use awaited::{AwaitedCommit, stop_telling_loops};
pub(crate) use scan::{DeltaChanges, DeltaRows, DeltaScan};
pub(crate) use schema::{DeltaSchema, RowSource};

use attention::{Caller, attention, watch};
use changes::{Changed, Changing, Evaluation, GivenClause, literals_of};
use given::{GivenConditions, GivenFile, file_dict};

/// The storage of a folder, or with storage options, of a URL.
fn storage_of(root: &Path, options: Option<StorageOptions>) -> Result<Arc<dyn TableStorage>, TableError> {
    Ok(match options {
        None => Arc::new(LocalStorage::attended(root, watch)?),
        Some(options) => Arc::new(store_of(root, &options)?),
    })
}

fn store_of(url: &Path, options: &StorageOptions) -> Result<Objects, TableError> {
    let url = url.to_str().ok_or_else(|| {
        TableError::option(
            "uri",
            format!("{} is not accepted: it is not UTF-8", url.display()),
        )
    })?;
    Ok(Objects::new(url, &options.0, attention, watch)?)
}

/// Raises `OptionError` unless a Delta table takes files with these options.
#[pyfunction]
pub(crate) fn check_delta_options(py: Python<'_>, options: Options<'_>) -> PyResult<()> {
    delta_table::check_options(&options.validated(py)?).map_err(|error| errors::raised(py, error))
}

/// Raises `OptionError`, which names `option`, for a text that is no condition, whatever columns there are.
#[pyfunction]
pub(crate) fn check_condition(py: Python<'_>, text: &str, option: &str) -> PyResult<()> {
    delta_table::check_condition(text, option).map_err(|error| errors::raised(py, error))
}

/// The columns of `given` whose type does not fit the column of the same name in `table`, each with the reason.
#[pyfunction]
pub(crate) fn unfit_columns(
    given: &Bound<'_, PyAny>,
    table: &Bound<'_, PyAny>,
) -> PyResult<Vec<(String, String)>> {
    let (given, table) = (schema_from(given)?, schema_from(table)?);
    let fields = given.fields().iter();
    let unfit = fields.filter_map(|field| {
        let (_, known) = table.fields().find(field.name())?;
        let why = delta_table::check_new_values(field.data_type(), known.data_type()).err()?;
        Some((field.name().clone(), why))
    });
    Ok(unfit.collect())
}

/// Waits until announcements of no more use are deleted, at most so many seconds. Returns false if the time was up
/// before.
#[pyfunction]
pub(crate) fn await_intent_gc(py: Python<'_>, seconds: f64) -> bool {
    let wait = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    py.detach(|| delta_commit::await_intent_gc(wait))
}

/// Creates an object below a URL, if there is none of its name; returns false if there is another one. Nobody else
/// writes this body.
#[pyfunction]
pub(crate) fn create_object(
    py: Python<'_>,
    folder: PathBuf,
    name: &str,
    body: Vec<u8>,
    storage_options: StorageOptions,
) -> PyResult<bool> {
    detached(py, move || {
        Ok(store_of(&folder, &storage_options)?.create_once(name, &body)?)
    })
}

/// A table that is open.
#[pyclass(module = "spillway._native", frozen)]
pub(crate) struct DeltaTable {
    table: Table,
}

#[pymethods]
impl DeltaTable {
    /// Opens the table in a folder, or with storage options, at a URL.
    #[staticmethod]
    fn open(py: Python<'_>, root: PathBuf, storage_options: Option<StorageOptions>) -> PyResult<Self> {
        detached(py, move || {
            let table = Table::open_at(storage_of(&root, storage_options)?)?;
            Ok(Self { table })
        })
    }

    /// Plans a table: returns the bytes that `planned` takes. Nothing is written.
    #[staticmethod]
    fn plan<'py>(
        py: Python<'py>,
        schema: &Bound<'_, PyAny>,
        partition_by: Vec<String>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let schema = schema_from(schema)?;
        let options = CreateOptions {
            partition_by,
            ..CreateOptions::default()
        };
        let plan = Table::plan(&schema, options).map_err(|error| Failure::from(error).into_py(py))?;
        Ok(PyBytes::new(py, &plan))
    }

    /// The planned table of a folder, or with storage options, of a URL. The commit of an append creates it.
    #[staticmethod]
    fn planned(
        py: Python<'_>,
        root: PathBuf,
        plan: Vec<u8>,
        storage_options: Option<StorageOptions>,
    ) -> PyResult<Self> {
        detached(py, move || {
            let table = Table::planned_at(storage_of(&root, storage_options)?, &plan)?;
            Ok(Self { table })
        })
    }

    /// Makes a table in a folder, or with storage options, at a URL.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn create(
        py: Python<'_>,
        root: PathBuf,
        schema: &Bound<'_, PyAny>,
        partition_by: Vec<String>,
        cluster_by: Vec<String>,
        properties: BTreeMap<String, String>,
        name: Option<String>,
        description: Option<String>,
        mode: &str,
        timeout: Option<f64>,
        storage_options: Option<StorageOptions>,
    ) -> PyResult<Self> {
        let schema = schema_from(schema)?;
        let options = CreateOptions {
            partition_by,
            cluster_by,
            properties,
            name,
            description,
        };
        let mode = create_mode(mode).map_err(|error| Failure::from(error).into_py(py))?;
        let caller = Caller::of(py, timeout)?;
        detached(py, move || {
            caller.wait(|wait, _| {
                let storage = storage_of(&root, storage_options)?;
                let table = Table::create_at(storage, &schema, options, mode, wait)?;
                Ok(Self { table })
            })
        })
    }

    /// The table's folder, or its URL.
    #[getter]
    fn root(&self) -> OsString {
        // A path of Python would take a slash from a URL.
        self.table.root().as_os_str().to_os_string()
    }

    /// The protocol, metadata and properties of the pinned version, as a dict.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let head = detached(py, || Ok(self.table.pinned_head()?))?;
        let state = PyDict::new(py);
        let metadata = &head.metadata;
        state.set_item("version", head.version)?;
        state.set_item("id", &metadata.id)?;
        state.set_item("name", &metadata.name)?;
        state.set_item("description", &metadata.description)?;
        state.set_item("partition_columns", &metadata.partition_columns)?;
        state.set_item("properties", &metadata.configuration)?;
        let schema = Arc::clone(&head.schema);
        state.set_item("schema", DeltaSchema { schema })?;
        Ok(state)
    }

    /// The columns that the pinned version is clustered by.
    fn clustering_columns(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        detached(py, || Ok(self.table.pinned_head()?.clustering_columns()?))
    }

    /// Pins the table to its newest version, and returns the number of that.
    fn refresh(&self, py: Python<'_>) -> PyResult<i64> {
        detached(py, || Ok(self.table.refresh()?.version))
    }

    /// The schema of the newest version, whatever the table is pinned to.
    fn newest_schema(&self, py: Python<'_>) -> PyResult<DeltaSchema> {
        let head = detached(py, || Ok(self.table.head()?))?;
        let schema = Arc::clone(&head.schema);
        Ok(DeltaSchema { schema })
    }

    /// Unpins the table: the next question pins it to the newest version. Does no I/O.
    fn unpin(&self) {
        self.table.unpin();
    }

    /// The version that was the newest at a time, in milliseconds since the epoch.
    fn version_at(&self, py: Python<'_>, time: i64) -> PyResult<i64> {
        detached(py, || Ok(self.table.version_at(time)?))
    }

    /// Changes the columns that the table is clustered by.
    fn cluster_by(&self, py: Python<'_>, columns: Vec<String>, timeout: Option<f64>) -> PyResult<i64> {
        let caller = Caller::of(py, timeout)?;
        self.committed(py, move || {
            caller.commit(|wait, _| self.table.cluster_by(&columns, wait))
        })
    }

    /// Sets properties, and takes away those whose value is None.
    fn set_properties(
        &self,
        py: Python<'_>,
        properties: BTreeMap<String, Option<String>>,
        timeout: Option<f64>,
    ) -> PyResult<i64> {
        let caller = Caller::of(py, timeout)?;
        self.committed(py, move || {
            caller.commit(|wait, _| self.table.set_properties(&properties, wait))
        })
    }

    /// Adds a constraint, once all rows are compared with it.
    fn add_constraint(
        &self,
        py: Python<'_>,
        name: &str,
        expression: &str,
        timeout: Option<f64>,
    ) -> PyResult<i64> {
        let (reader, committer) = (Caller::of(py, None)?, Caller::of(py, timeout)?);
        let (name, expression) = (name.to_owned(), expression.to_owned());
        self.committed(py, move || {
            upkeep::constrain(&self.table, &name, &expression, reader, committer)
        })
    }

    /// Drops a constraint.
    fn drop_constraint(&self, py: Python<'_>, name: &str, timeout: Option<f64>) -> PyResult<i64> {
        let caller = Caller::of(py, timeout)?;
        let name = name.to_owned();
        self.committed(py, move || {
            caller.commit(|wait, _| self.table.drop_constraint(&name, wait))
        })
    }

    /// The pinned version's number.
    fn version(&self, py: Python<'_>) -> PyResult<i64> {
        detached(py, || Ok(self.table.pinned_head()?.version))
    }

    /// The files of a version, by default the pinned one, as dicts.
    fn files<'py>(&self, py: Python<'py>, version: Option<i64>) -> PyResult<Bound<'py, PyList>> {
        let snapshot = detached(py, move || {
            Ok(match version {
                None => self.table.pinned_snapshot()?,
                Some(version) => self.table.snapshot_of(version)?,
            })
        })?;
        let files = snapshot.files().map(|add| file_dict(py, &snapshot.named(add)));
        PyList::new(py, files.collect::<PyResult<Vec<_>>>()?)
    }

    /// Plans a scan of a version, by default the pinned one.
    fn scan<'py>(
        &self,
        py: Python<'py>,
        columns: Option<Vec<String>>,
        given: GivenConditions,
        version: Option<i64>,
    ) -> PyResult<Bound<'py, DeltaScan>> {
        let scan = detached(py, move || {
            let version = match version {
                None => self.table.pinned_head()?.version,
                Some(version) => version,
            };
            Ok(self.table.scan(&ScanOptions {
                columns,
                conditions: given.0,
                version: Some(version),
            })?)
        })?;
        DeltaScan::of(py, scan)
    }

    /// Plans the reading of the rows that versions changed, by default up to the newest.
    fn changes<'py>(
        &self,
        py: Python<'py>,
        first: i64,
        last: Option<i64>,
        columns: Option<Vec<String>>,
    ) -> PyResult<Bound<'py, DeltaChanges>> {
        let options = ChangesOptions { first, last, columns };
        let caller = Caller::of(py, None)?;
        let changes = detached(py, move || {
            caller.wait(|_, go_on| self.table.changes(&options, go_on))
        })?;
        DeltaChanges::of(py, changes)
    }

    /// The names, relative to the table, of files below a folder that the table has, had or may get.
    fn paths_in_use(&self, py: Python<'_>, folder: &str) -> PyResult<Vec<String>> {
        detached(py, || Ok(self.table.paths_in_use(folder)?))
    }

    /// Versions, their times and their `commitInfo` as JSON, the newest first.
    fn history(&self, py: Python<'_>, limit: Option<usize>) -> PyResult<Vec<(i64, Option<i64>, String)>> {
        let history = detached(py, || Ok(self.table.history(limit)?))?;
        let entries = history.into_iter();
        Ok(entries
            .map(|entry| (entry.version, entry.time, entry.info.to_string()))
            .collect())
    }

    /// The version of an application's last transaction.
    fn transaction_version(&self, py: Python<'_>, app_id: &str) -> PyResult<Option<i64>> {
        detached(py, || Ok(self.table.transaction_version(app_id)?))
    }

    /// Begins an append.
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn append(
        &self,
        py: Python<'_>,
        options: Options<'_>,
        merge_schema: bool,
        app_transaction: Option<(String, i64)>,
        replace: Option<GivenConditions>,
        user_metadata: Option<String>,
        max_file_bytes: Option<i64>,
        max_file_rows: Option<i64>,
        coalesce: bool,
        folder: Option<String>,
    ) -> PyResult<DeltaAppend> {
        let writer_options = options.validated(py)?;
        let options = AppendOptions {
            merge_schema,
            app_transaction,
            replace: replace.map(|conditions| conditions.0),
            user_metadata,
            max_file_bytes,
            max_file_rows,
            coalesce,
            folder,
        };
        let append = detached(py, || Ok(self.table.append(options, writer_options)?))?;
        Ok(DeltaAppend::new(append))
    }

    /// Removes the files that conditions on partition columns choose.
    fn delete(&self, py: Python<'_>, given: GivenConditions, timeout: Option<f64>) -> PyResult<i64> {
        let caller = Caller::of(py, timeout)?;
        self.committed(py, move || {
            caller.commit(|wait, _| upkeep::retried(&self.table, || self.table.delete(&given.0, wait)))
        })
    }

    /// Deletes the rows for which conditions hold.
    fn delete_rows(
        &self,
        py: Python<'_>,
        given: GivenConditions,
        options: Options<'_>,
        user_metadata: Option<String>,
        timeout: Option<f64>,
    ) -> PyResult<Changed> {
        let writer_options = options.validated(py)?;
        let caller = Changing::of(py, timeout)?;
        self.committed(py, move || {
            caller.change(&self.table, |go_on| {
                self.table
                    .prepare_delete(&given.0, user_metadata.clone(), &writer_options, go_on)
            })
        })
    }

    /// Sets columns of the rows for which conditions hold: to literals, and to what `evaluate` makes of rows.
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn update_rows(
        &self,
        py: Python<'_>,
        given: GivenConditions,
        literals: &Bound<'_, PyDict>,
        computed: Vec<String>,
        evaluate: Vec<Py<PyAny>>,
        options: Options<'_>,
        user_metadata: Option<String>,
        timeout: Option<f64>,
    ) -> PyResult<Changed> {
        let writer_options = options.validated(py)?;
        let caller = Changing::of(py, timeout)?;
        let literals = literals_of(py, &self.table, literals, "set")?;
        self.committed(py, move || {
            Evaluation::new(evaluate).run(|evaluate| {
                caller.change(&self.table, |go_on| {
                    let values = NewValues {
                        literals: literals.clone(),
                        computed: computed.clone(),
                        compute: &mut |rows: &RecordBatch| evaluate(0, rows),
                    };
                    self.table
                        .prepare_update(&given.0, values, user_metadata.clone(), &writer_options, go_on)
                })
            })
        })
    }

    /// Merges rows by their keys, as clauses say, whose expressions `evaluate` answers by their numbers.
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn merge_rows(
        &self,
        py: Python<'_>,
        data: &Bound<'_, RowSource>,
        on: Vec<String>,
        clauses: Vec<GivenClause<'_>>,
        evaluate: Vec<Py<PyAny>>,
        options: Options<'_>,
        user_metadata: Option<String>,
        timeout: Option<f64>,
    ) -> PyResult<Changed> {
        let writer_options = options.validated(py)?;
        let caller = Changing::of(py, timeout)?;
        let clauses = clauses.into_iter().map(|clause| clause.read(py, &self.table));
        let options = MergeOptions {
            on,
            clauses: clauses.collect::<PyResult<_>>()?,
            user_metadata,
        };
        let source = data.get();
        self.committed(py, move || {
            let (schema, batches) = source.open()?;
            let rows = caller.collect(batches)?;
            Evaluation::new(evaluate).run(|evaluate| {
                caller.change(&self.table, |go_on| {
                    self.table
                        .prepare_merge(&schema, &rows, &options, evaluate, &writer_options, go_on)
                })
            })
        })
    }

    /// Writes small files, or those with deleted rows, again; returns the version, how many files left the table, their
    /// bytes, how many came, and their bytes.
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn compact(
        &self,
        py: Python<'_>,
        given: GivenConditions,
        target_file_bytes: Option<i64>,
        purge: bool,
        options: Options<'_>,
        user_metadata: Option<String>,
        timeout: Option<f64>,
    ) -> PyResult<(i64, u64, u64, u64, u64)> {
        let writer_options = options.validated(py)?;
        let options = CompactOptions {
            conditions: given.0,
            target_file_bytes,
            purge,
            user_metadata,
        };
        let (writer, committer) = (Caller::of(py, None)?, Caller::of(py, timeout)?);
        let done = self.committed(py, move || {
            upkeep::compact(&self.table, options, writer_options, writer, committer)
        })?;
        Ok((
            done.version,
            done.removed_files,
            done.removed_bytes,
            done.added_files,
            done.added_bytes,
        ))
    }

    /// Names the files that no version within the retention, in milliseconds, needs, and removes them; returns their
    /// names, their bytes, and how many were removed.
    fn vacuum(
        &self,
        py: Python<'_>,
        retention: Option<i64>,
        dry_run: bool,
        enforce_retention: bool,
    ) -> PyResult<(Vec<String>, u64, usize)> {
        let options = VacuumOptions {
            retention,
            dry_run,
            enforce_retention,
        };
        let caller = Caller::of(py, None)?;
        let done = detached(py, move || {
            caller.wait(|_, go_on| self.table.vacuum(&options, go_on))
        })?;
        Ok((done.files, done.bytes, done.removed))
    }

    /// Removes all files.
    fn truncate(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<i64> {
        let caller = Caller::of(py, timeout)?;
        self.committed(py, move || {
            caller.commit(|wait, _| upkeep::retried(&self.table, || self.table.truncate(wait)))
        })
    }

    /// Makes the table what it was.
    fn restore(&self, py: Python<'_>, version: i64, timeout: Option<f64>) -> PyResult<i64> {
        let caller = Caller::of(py, timeout)?;
        self.committed(py, move || {
            caller.commit(|wait, _| self.table.restore(version, wait))
        })
    }

    /// Commits files that the caller wrote, and removals.
    #[expect(clippy::too_many_arguments, reason = "Python names them")]
    fn commit(
        &self,
        py: Python<'_>,
        adds: Vec<GivenFile>,
        removes: Vec<String>,
        version: Option<i64>,
        whole_table: bool,
        files: Vec<String>,
        given: GivenConditions,
        operation: String,
        user_metadata: Option<String>,
        timeout: Option<f64>,
    ) -> PyResult<i64> {
        let read = DeclaredReads {
            version,
            whole_table,
            files,
            conditions: given.0,
        };
        let adds = adds.into_iter().map(GivenFile::into_add).collect();
        let operation = Operation {
            user_metadata,
            ..Operation::new(operation)
        };
        let caller = Caller::of(py, timeout)?;
        self.committed(py, move || {
            caller.commit(|wait, _| self.table.commit(adds, &removes, &read, operation, wait))
        })
    }

    /// The outcome of a commit in doubt: a word, and the version where there is one.
    fn outcome(
        &self,
        py: Python<'_>,
        token: &str,
        timeout: Option<f64>,
    ) -> PyResult<(&'static str, Option<i64>)> {
        let token = Token::from_text(token).map_err(|_| {
            let message = "token is not that of a CommitUnknown: give the `token` of the error as it was";
            Failure::from(TableError::option("token", message)).into_py(py)
        })?;
        let caller = Caller::of(py, timeout)?;
        let outcome = self.committed(py, move || {
            caller.wait(|wait, _| self.table.outcome(&token, wait))
        })?;
        Ok(match outcome {
            Outcome::Committed(version) => ("committed", Some(version)),
            Outcome::Rejected => ("rejected", None),
            Outcome::Pending => ("pending", None),
            Outcome::Unknowable => ("unknowable", None),
        })
    }

    /// Counts of this process' races for versions: attempts, won, and the most that one transaction lost; and the times
    /// of effects as dicts, by their kind.
    fn commit_stats<'py>(&self, py: Python<'py>) -> PyResult<(u64, u64, u32, Bound<'py, PyDict>)> {
        let stats = detached(py, || Ok(self.table.commit_stats()?))?;
        let effects = PyDict::new(py);
        for (kind, times) in stats.timings.iter() {
            let effect = PyDict::new(py);
            effect.set_item("count", times.count)?;
            effect.set_item("total_seconds", times.total.as_secs_f64())?;
            effect.set_item("longest_seconds", times.longest.as_secs_f64())?;
            effects.set_item(kind.name(), effect)?;
        }
        Ok((stats.attempts, stats.won, stats.most_lost, effects))
    }

    /// A counter of the versions that this process tries to write. Does no I/O.
    fn commit_counter(&self) -> Option<PyCommitCounter> {
        self.table.commit_counter().map(PyCommitCounter)
    }

    /// The error of a checkpoint that was damaged when the table was opened. Does no I/O.
    #[getter]
    fn damaged_checkpoint(&self) -> Option<String> {
        self.table.damaged_checkpoint()
    }

    /// Returns true if a checkpoint should be made. Of all threads that ask, one gets true.
    fn is_checkpoint_due(&self, py: Python<'_>, version: i64) -> PyResult<bool> {
        detached(py, || Ok(self.table.is_checkpoint_due(version)?))
    }

    /// Writes a checkpoint.
    fn checkpoint(&self, py: Python<'_>) -> PyResult<i64> {
        detached(py, || Ok(self.table.checkpoint()?))
    }

    /// Removes versions that are past the table's retention; returns the number of files.
    fn clean_up_log(&self, py: Python<'_>) -> PyResult<usize> {
        detached(py, || Ok(self.table.clean_up_log()?))
    }
}

impl DeltaTable {
    /// Runs a commit without the GIL. Whatever its outcome, the caller's next read sees the newest version.
    fn committed<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce() -> Result<T, Failure> + Send,
    ) -> PyResult<T> {
        let done = detached(py, work);
        self.table.unpin();
        done
    }
}

fn create_mode(mode: &str) -> Result<CreateMode, TableError> {
    match mode {
        "error" => Ok(CreateMode::Error),
        "ignore" => Ok(CreateMode::Ignore),
        "overwrite" => Ok(CreateMode::Overwrite),
        other => {
            let accepted = ["error", "ignore", "overwrite"];
            Err(TableError::Option(OptionFault::choose(
                "mode", other, "", &accepted,
            )))
        }
    }
}

/// A counter of the versions that this process tries to write to a table.
#[pyclass(module = "spillway._native", name = "CommitCounter", frozen)]
pub(crate) struct PyCommitCounter(delta_table::CommitCounter);

#[pymethods]
impl PyCommitCounter {
    /// Attempts so far.
    #[getter]
    fn attempts(&self) -> u64 {
        self.0.attempts()
    }
}
