//! Appends dicts to builders. The GIL is held while dicts are read, and released while their batches are written.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyIterator, PyList, PyString, PyTuple};
use rows::{Misfit, RowError, Rows, Shape, Visitor as _};

use crate::errors::Failure;
use crate::rows::cells::{CellReader, Fault, class_of};
use crate::rows::intake::{Intake, Rules};
use crate::rows::usual::{Cell, gather};
use crate::rows::{PendingRows, SAMPLE_ROWS, TakesRows, guess};

/// The number of rows between two looks for signals. Other threads may run then, too.
const ROWS_BETWEEN_LOOKS: u64 = 256;
/// The number of rows that are gathered in advance.
const ROWS_AHEAD: usize = 2;
/// The number of rows that are read directly after one that could not be gathered.
const ROWS_IN_TURN: usize = 64;

/// Rows of an iterable: the first ones, which a schema may be inferred from, and the others.
struct Supply<'py> {
    head: std::vec::IntoIter<Bound<'py, PyAny>>,
    /// The error after the first ones.
    failed: Option<PyErr>,
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
            failed: None,
            rest,
        })
    }

    /// The first rows, which come again. An error after one of them comes again, too.
    fn peek(&mut self) -> PyResult<&[Bound<'py, PyAny>]> {
        let mut head = Vec::new();
        while head.len() < SAMPLE_ROWS
            && let Some(row) = self.next()
        {
            match row {
                Ok(row) => head.push(row),
                Err(error) if head.is_empty() => return Err(error),
                Err(error) => {
                    self.failed = Some(error);
                    break;
                }
            }
        }
        self.head = head.into_iter();
        Ok(self.head.as_slice())
    }
}

impl<'py> Supply<'py> {
    /// The dict that comes `offset` rows after the next one, if it is known without running Python code.
    #[inline]
    fn ahead(&self, offset: usize) -> Option<Bound<'py, PyDict>> {
        let Rest::List(list, index) = &self.rest else {
            return None;
        };
        if self.head.len() > 0 || index + offset >= list.len() {
            return None;
        }
        list.get_item(index + offset).ok()?.cast_into().ok()
    }

    /// Passes over the next row of a list.
    #[inline]
    fn advance(&mut self) {
        if let Rest::List(_, index) = &mut self.rest {
            *index += 1;
        }
    }
}

impl<'py> Iterator for Supply<'py> {
    type Item = PyResult<Bound<'py, PyAny>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if let Some(row) = self.head.next() {
            return Some(Ok(row));
        }
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
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

/// Rows whose cells were gathered in advance, so that they are in the cache when they are appended. No Python code may
/// run between the two; before any runs, the rows must be forgotten.
#[derive(Default)]
struct Ahead<'py> {
    rows: VecDeque<(Bound<'py, PyDict>, Vec<Cell>)>,
    /// Vectors to gather into, reused.
    spare: Vec<Vec<Cell>>,
    /// The row whose turn it is.
    current: Vec<Cell>,
    /// The number of rows before any is gathered again.
    pause: usize,
}

/// The next row.
enum Next<'a, 'py> {
    Gathered(Bound<'py, PyAny>, &'a [Cell]),
    Row(PyResult<Bound<'py, PyAny>>),
    End,
}

impl<'py> Ahead<'py> {
    /// Returns the next row: a gathered one, if rows come from a list and are dicts.
    #[inline]
    fn next(&mut self, supply: &mut Supply<'py>) -> Next<'_, 'py> {
        if self.pause > 0 {
            self.pause -= 1;
        } else {
            self.gather(supply);
        }
        if let Some((row, cells)) = self.rows.pop_front() {
            let used = std::mem::replace(&mut self.current, cells);
            self.spare.push(used);
            supply.advance();
            return Next::Gathered(row.into_any(), &self.current);
        }
        supply.next().map_or(Next::End, Next::Row)
    }

    #[inline]
    fn gather(&mut self, supply: &Supply<'py>) {
        while self.rows.len() < ROWS_AHEAD
            && let Some(row) = supply.ahead(self.rows.len())
        {
            let mut cells = self.spare.pop().unwrap_or_default();
            gather(&row, &mut cells);
            self.rows.push_back((row, cells));
        }
    }

    /// Stops gathering for a while. A row with unusual cells is seldom alone.
    fn rest(&mut self) {
        self.forget();
        self.pause = ROWS_IN_TURN;
    }

    /// Forgets the rows that were gathered. They are still to be appended.
    fn forget(&mut self) {
        self.spare.extend(self.rows.drain(..).map(|(_, cells)| cells));
    }
}

pub(crate) fn write(
    writer: &dyn TakesRows,
    kept: &mut PendingRows,
    schema: Option<SchemaRef>,
    data: &Py<PyAny>,
    rules: &Rules,
) -> Result<u64, Failure> {
    Python::attach(|py| {
        let mut supply = Supply::of(data.bind(py))?;
        if schema.is_none() && supply.peek()?.is_empty() {
            return Ok(0);
        }
        let mut inferred = None;
        let rows = kept.builders(schema, writer, || {
            let shape = guess::shape(supply.head.as_slice())?;
            inferred = writer.typed_from_the_start().is_none().then(|| shape.clone());
            Ok(shape)
        })?;
        let data = data.bind(py);
        let is_stream = !(data.is_instance_of::<PyList>() || data.is_instance_of::<PyTuple>());
        let mut intake = Intake::new(writer, rules, is_stream);
        let mut reader = CellReader::new(py, rules.extra)?;
        let outcome = walk(py, supply, rows, &mut reader, &mut intake, inferred.as_ref());
        rows.fields.forget_tokens();
        py.detach(|| intake.end(rows, outcome))
    })
}

fn walk<'py>(
    py: Python<'py>,
    mut supply: Supply<'py>,
    rows: &mut Rows,
    reader: &mut CellReader<'py>,
    intake: &mut Intake<'_>,
    inferred: Option<&Shape>,
) -> Result<(), Failure> {
    let mut ahead = Ahead::default();
    let mut index = 0;
    loop {
        let len = rows.rows();
        let row = match ahead.next(&mut supply) {
            Next::Gathered(row, cells) => {
                if let Ok(true) = reader.gathered(cells, &mut rows.fields, len) {
                    rows.commit();
                    None
                } else {
                    // It is read again, one cell at a time.
                    rows.roll_back();
                    // What runs then may change the rows that were gathered.
                    ahead.rest();
                    Some(row)
                }
            }
            Next::Row(row) => Some(row?),
            Next::End => return Ok(()),
        };
        if let Some(row) = row {
            match append(&row, rows, reader) {
                Ok(()) => rows.commit(),
                Err(fault) => refused(&row, index, rows, reader, intake, inferred, fault)?,
            }
        }
        if rows.is_full() {
            ahead.forget();
            hand_over(py, rows, intake)?;
        }
        if index % ROWS_BETWEEN_LOOKS == 0 {
            ahead.forget();
            // Whoever waits for the GIL gets it here.
            py.detach(|| intake.go_on())?;
        }
        index += 1;
    }
}

#[inline]
fn append<'py>(row: &Bound<'py, PyAny>, rows: &mut Rows, reader: &mut CellReader<'py>) -> Result<(), Fault> {
    let len = rows.rows();
    match row.cast::<PyDict>() {
        Ok(dict) => reader.dict(dict, &mut rows.fields, len),
        Err(_) => Err(Misfit::expected("a dict", &class_of(row)).into()),
    }
}

/// Handles a row that does not fit. When only the batch is full, the row is tried again in an empty one.
#[cold]
fn refused<'py>(
    row: &Bound<'py, PyAny>,
    index: u64,
    rows: &mut Rows,
    reader: &mut CellReader<'py>,
    intake: &mut Intake<'_>,
    inferred: Option<&Shape>,
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
                Err(fault) => refused(row, index, rows, reader, intake, inferred, fault),
            };
        }
        Fault::Misfit(misfit) => match widen(row, rows, reader, intake, misfit)? {
            None => return Ok(()),
            Some(misfit) => misfit,
        },
    };
    let misfit = match inferred {
        // The first rows with such keys leave the schema without their other ones.
        _ if misfit.is_unknown_key() && (inferred.is_some() || intake.may_widen()) => {
            guess::unreadable(row)?.unwrap_or(misfit)
        }
        Some(shape) if !shape.knows(&misfit) => misfit.explained(
            "the first rows do not say what the field is, and it is taken for text. Convert the value, or pass schema=",
        ),
        _ => misfit,
    };
    intake.refuse(&RowError::new(&misfit, index, None), |_| row.clone().unbind())
}

/// Appends the row to builders of a wider schema, where the writer accepts one that has a place for it. Returns the
/// misfit otherwise.
fn widen<'py>(
    row: &Bound<'py, PyAny>,
    rows: &mut Rows,
    reader: &mut CellReader<'py>,
    intake: &mut Intake<'_>,
    mut misfit: Misfit,
) -> Result<Option<Misfit>, Failure> {
    if !intake.may_widen() {
        return Ok(Some(misfit));
    }
    let shape = guess::shape(std::slice::from_ref(row))?;
    let mut schema = Arc::clone(rows.declared());
    let py = row.py();
    while let Some(wider) = py.detach(|| intake.wider_for(&schema, &misfit, &shape))? {
        let Ok(mut widened) = rows.widened(Arc::clone(&wider)) else {
            break;
        };
        match append(row, &mut widened, reader) {
            Ok(()) => {
                widened.commit();
                if rows.rows() > 0 {
                    hand_over(py, rows, intake)?;
                }
                *rows = widened;
                return Ok(None);
            }
            Err(Fault::Raised(error)) => return Err(Failure::Python(*error)),
            Err(Fault::Misfit(other)) => misfit = other,
        }
        schema = wider;
    }
    Ok(Some(misfit))
}

fn hand_over(py: Python<'_>, rows: &mut Rows, intake: &mut Intake<'_>) -> Result<(), Failure> {
    let batch = rows.finish()?;
    py.detach(|| intake.batch(batch))
}
