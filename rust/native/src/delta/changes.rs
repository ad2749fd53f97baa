//! Changes of rows: deletions, updates and merges.

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use delta_commit::Version;
use delta_table::{
    ClauseKind, Evaluate, Expressions, MergeClause, MergeCondition, MergeValues, PendingChange, Retry,
    RowCounts, Table, TableError,
};
use parquet_writer::{Batch, WriteError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::arrow::{ArrowSource, Batches};
use crate::errors::Failure;
use crate::rows::one_row;
use crate::turn::detached;

use super::attention::Caller;

/// A change as Python has it: the version; the rows that were inserted, updated and deleted; and true if the version is
/// new.
pub(super) type Changed = (Version, u64, u64, u64, bool);

/// The caller of a change. The timeout is that of the commit: a search of all files may take longer.
#[derive(Clone, Copy)]
pub(super) struct Changing {
    writer: Caller,
    committer: Caller,
}

impl Changing {
    pub fn of(py: Python<'_>, timeout: Option<f64>) -> PyResult<Self> {
        Ok(Self {
            writer: Caller::of(py, None)?,
            committer: Caller::of(py, timeout)?,
        })
    }

    /// All batches of a source. Signals are looked for after each, whoever makes it.
    pub fn collect(self, mut batches: Batches) -> Result<Vec<Batch>, Failure> {
        let mut all = Vec::new();
        while let Some(batch) = batches.next()? {
            all.push(batch);
            self.writer.check()?;
        }
        Ok(all)
    }

    /// Prepares a change, and commits it if it changes anything. Rows that moved to other files meanwhile are looked
    /// for again.
    pub fn change(
        self,
        table: &Table,
        mut prepare: impl FnMut(&mut dyn FnMut() -> bool) -> Result<(Version, Option<PendingChange>), TableError>,
    ) -> Result<Changed, Failure> {
        let mut retry = Retry::of(table);
        loop {
            let (version, pending) = self.writer.wait(|_, go_on| prepare(go_on))?;
            let Some(pending) = pending else {
                return Ok((version, 0, 0, 0, false));
            };
            let RowCounts {
                inserted,
                updated,
                deleted,
            } = pending.counts();
            let commit = self.committer.anew();
            match commit.commit(|wait, _| pending.commit(wait)) {
                Err(Failure::Table(error)) if retry.should_retry(&error) => {}
                done => return Ok((done?, inserted, updated, deleted, true)),
            }
        }
    }
}

/// Expressions that Python evaluates.
pub(super) struct Evaluation {
    /// By their numbers: each takes a capsule with a stream of rows, and returns an object with a stream of columns.
    evaluate: Vec<Py<PyAny>>,
    /// The reason why Python could not evaluate them.
    failed: Option<Failure>,
}

impl Evaluation {
    pub fn new(evaluate: Vec<Py<PyAny>>) -> Self {
        Self {
            evaluate,
            failed: None,
        }
    }

    /// Runs a change with these expressions. What Python raised is the error then.
    pub fn run<T>(
        mut self,
        change: impl FnOnce(&mut Evaluate<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let done = change(&mut |number: usize, rows: &RecordBatch| {
            self.evaluated(number, rows).map_err(|failure| {
                self.failed = Some(failure);
                WriteError::Interrupted.into()
            })
        });
        self.failed.map_or(done, Err)
    }

    fn evaluated(&self, number: usize, rows: &RecordBatch) -> Result<Vec<Batch>, Failure> {
        let Some(evaluate) = self.evaluate.get(number) else {
            return Ok(Vec::new());
        };
        let source = Python::attach(|py| {
            let batches = RecordBatchIterator::new(vec![Ok(rows.clone())], rows.schema());
            let stream = FFI_ArrowArrayStream::new(Box::new(batches));
            let capsule = PyCapsule::new_with_value(py, stream, c"arrow_array_stream")?;
            ArrowSource::take(evaluate.call1(py, (capsule,))?.bind(py))
        })?;
        let (_, batches) = source.open()?;
        batches.collect()
    }
}

/// Expressions as Python has them: their number, and the columns of the table and of the source that they name.
type GivenExpressions = (usize, Vec<String>, Vec<String>);

fn expressions((number, target, source): GivenExpressions) -> Expressions {
    Expressions {
        number,
        target,
        source,
    }
}

/// A condition of a clause as Python has it: SQL, or an expression and its text.
#[derive(FromPyObject)]
enum GivenCondition {
    Sql(String),
    Expression(GivenExpressions, String),
}

/// A clause of a merge as Python has it.
#[derive(FromPyObject)]
pub(super) struct GivenClause<'py> {
    kind: String,
    condition: Option<GivenCondition>,
    deletes: bool,
    taken: Option<Vec<String>>,
    literals: Bound<'py, PyDict>,
    computed: Vec<String>,
    expressions: Option<GivenExpressions>,
}

impl GivenClause<'_> {
    /// The clause; its literals are converted to the types of the table's columns.
    pub fn read(self, py: Python<'_>, table: &Table) -> PyResult<MergeClause> {
        let kind = match self.kind.as_str() {
            "matched" => ClauseKind::Matched,
            "not_matched" => ClauseKind::NotMatched,
            _ => ClauseKind::NotMatchedBySource,
        };
        let values = if self.deletes {
            None
        } else {
            let what = match kind {
                ClauseKind::NotMatched => "values",
                ClauseKind::Matched | ClauseKind::NotMatchedBySource => "set",
            };
            Some(MergeValues {
                taken: self.taken,
                literals: literals_of(py, table, &self.literals, what)?,
                computed: self.computed,
                expressions: self.expressions.map(expressions),
            })
        };
        Ok(MergeClause {
            kind,
            condition: self.condition.map(|given| match given {
                GivenCondition::Sql(text) => MergeCondition::Sql(text),
                GivenCondition::Expression(given, text) => {
                    MergeCondition::Expression(expressions(given), text)
                }
            }),
            values,
        })
    }
}

/// Literals in the types of the table's columns, in one row. `what` names them in an error.
pub(super) fn literals_of(
    py: Python<'_>,
    table: &Table,
    literals: &Bound<'_, PyDict>,
    what: &str,
) -> PyResult<RecordBatch> {
    let names: Vec<String> = literals.keys().extract()?;
    let schema = detached(py, || Ok(table.columns(&names)?))?;
    one_row(schema, literals, what).map_err(|failure| failure.into_py(py))
}
