//! Dicts into builders. The GIL is held while they are walked, and given up while their batches are written.

use arrow_schema::SchemaRef;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyIterator, PyList, PyString};
use rows::{Misfit, RowError, Rows, Visitor as _};

use crate::errors::Failure;
use crate::rows::cells::{Fault, Reader, class_of};
use crate::rows::intake::{Intake, Rules};
use crate::rows::{Kept, SAMPLE_ROWS, guess};
use crate::writer::Writer;

/// Signals and time are looked at once in so many rows.
const ROWS_BETWEEN_LOOKS: u64 = 256;

/// Rows out of an iterable: the first ones, which a schema may be inferred from, and the others.
struct Supply<'py> {
    head: std::vec::IntoIter<Bound<'py, PyAny>>,
    rest: Rest<'py>,
}

enum Rest<'py> {
    /// A list, and the index of its next element.
    List(Bound<'py, PyList>, usize),
    Iterator(Bound<'py, PyIterator>),
}

impl<'py> Supply<'py> {
    fn of(data: &Bound<'py, PyAny>) -> PyResult<Self> {
        let is_rows = !(data.is_instance_of::<PyDict>()
            || data.is_instance_of::<PyString>()
            || data.is_instance_of::<PyBytes>());
        let rest = match data.cast::<PyList>() {
            Ok(list) => Rest::List(list.clone(), 0),
            Err(_) if is_rows && data.hasattr("__iter__")? => Rest::Iterator(data.try_iter()?),
            Err(_) => {
                return Err(PyTypeError::new_err(format!(
                    "rows must be a list or another iterable of dicts, not {}",
                    class_of(data)
                )));
            }
        };
        Ok(Self {
            head: Vec::new().into_iter(),
            rest,
        })
    }

    /// The first rows, which come again.
    fn peek(&mut self) -> PyResult<&[Bound<'py, PyAny>]> {
        let mut head = Vec::new();
        while head.len() < SAMPLE_ROWS
            && let Some(row) = self.next()
        {
            head.push(row?);
        }
        self.head = head.into_iter();
        Ok(self.head.as_slice())
    }
}

impl<'py> Iterator for Supply<'py> {
    type Item = PyResult<Bound<'py, PyAny>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if let Some(row) = self.head.next() {
            return Some(Ok(row));
        }
        match &mut self.rest {
            Rest::List(list, index) => {
                // Its length may have changed since the last row.
                if *index >= list.len() {
                    return None;
                }
                *index += 1;
                Some(list.get_item(*index - 1))
            }
            Rest::Iterator(rows) => rows.next(),
        }
    }
}

pub(crate) fn write(
    writer: &Writer,
    kept: &mut Kept,
    schema: Option<SchemaRef>,
    data: &Py<PyAny>,
    rules: &Rules,
) -> Result<u64, Failure> {
    Python::attach(|py| {
        let mut supply = Supply::of(data.bind(py))?;
        if schema.is_none() && supply.peek()?.is_empty() {
            return Ok(0);
        }
        let rows = kept.builders(schema, || guess::shape(supply.head.as_slice()))?;
        let mut intake = Intake::new(writer, rules);
        let mut reader = Reader::new(py, rules.extra)?;
        let outcome = walk(py, supply, rows, &mut reader, &mut intake);
        rows.fields.forget_tokens();
        py.detach(|| intake.end(rows, outcome))
    })
}

fn walk<'py>(
    py: Python<'py>,
    supply: Supply<'py>,
    rows: &mut Rows,
    reader: &mut Reader<'py>,
    intake: &mut Intake<'_>,
) -> Result<(), Failure> {
    for (row, index) in supply.zip(0..) {
        let row = row?;
        match append(&row, rows, reader) {
            Ok(()) => rows.commit(),
            Err(fault) => refused(&row, index, rows, reader, intake, fault)?,
        }
        if rows.is_full() {
            hand_over(py, rows, intake)?;
        }
        if index % ROWS_BETWEEN_LOOKS == 0 {
            intake.go_on()?;
        }
    }
    Ok(())
}

#[inline]
fn append<'py>(row: &Bound<'py, PyAny>, rows: &mut Rows, reader: &mut Reader<'py>) -> Result<(), Fault> {
    let len = rows.rows();
    match row.cast::<PyDict>() {
        Ok(dict) => reader.dict(dict, &mut rows.fields, len),
        Err(_) => Err(Misfit::expected("a dict", &class_of(row)).into()),
    }
}

/// A row that does not fit. When only the batch is full, the row is tried again in an empty one.
#[cold]
fn refused<'py>(
    row: &Bound<'py, PyAny>,
    index: u64,
    rows: &mut Rows,
    reader: &mut Reader<'py>,
    intake: &mut Intake<'_>,
    fault: Fault,
) -> Result<(), Failure> {
    rows.roll_back();
    let misfit = match fault {
        Fault::Raised(error) => return Err(Failure::Python(*error)),
        Fault::Misfit(misfit) if misfit.is_full() && rows.rows() > 0 => {
            hand_over(row.py(), rows, intake)?;
            return match append(row, rows, reader) {
                Ok(()) => {
                    rows.commit();
                    Ok(())
                }
                Err(fault) => refused(row, index, rows, reader, intake, fault),
            };
        }
        Fault::Misfit(misfit) => misfit,
    };
    intake.refuse(&RowError::new(&misfit, index, None), |_| row.clone().unbind())
}

fn hand_over(py: Python<'_>, rows: &mut Rows, intake: &mut Intake<'_>) -> Result<(), Failure> {
    let batch = rows.finish()?;
    py.detach(|| intake.batch(batch))
}
