//! The shape of the first rows.

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyTuple,
};
use rows::{Guess, Misfit, Shape};

use crate::errors::Failure;
use crate::rows::cells::{Fault, NumpyClock, clock_of_numpy, elements_of_numpy, half_of_a_pair, not_a_name};
use crate::rows::classes::{Classes, is_missing};
use crate::rows::conflict;

const MOST_DEPTH: usize = 128;

/// The shape of `rows`. Rows that are no dicts, or have keys that name no field, are skipped here, and reported when
/// they are read.
pub(crate) fn shape(rows: &[Bound<'_, PyAny>]) -> Result<Shape, Failure> {
    let mut shape = Shape::default();
    for (row, number) in rows.iter().zip(0..) {
        let Ok(dict) = row.cast::<PyDict>() else { continue };
        let fields = match fields(dict) {
            Ok(fields) => fields,
            Err(Fault::Misfit(_)) => continue,
            Err(Fault::Raised(error)) => return Err(Failure::Python(*error)),
        };
        for (name, guess) in fields {
            shape
                .observe(&name, guess)
                .map_err(|found| conflict(number, &found))?;
        }
    }
    Ok(shape)
}

/// The shape of rows of one column.
pub(crate) fn column(name: &str, values: &Bound<'_, PyAny>) -> Result<Shape, Failure> {
    let mut shape = Shape::default();
    // A column without values is one all the same.
    shape
        .observe(name, Guess::Null)
        .map_err(|found| conflict(0, &found))?;
    for (value, number) in values.try_iter().map_err(Failure::Python)?.zip(0..) {
        let guess = match guess(&value.map_err(Failure::Python)?, 1) {
            Ok(guess) => guess,
            // Whoever appends the value says so, with its place.
            Err(Fault::Misfit(_)) => Guess::Null,
            Err(Fault::Raised(error)) => return Err(Failure::Python(*error)),
        };
        shape
            .observe(name, guess)
            .map_err(|found| conflict(number, &found))?;
    }
    Ok(shape)
}

/// What keeps a row from being read under any schema that is inferred: a key that names no field.
pub(crate) fn unreadable(row: &Bound<'_, PyAny>) -> Result<Option<Misfit>, Failure> {
    let Ok(dict) = row.cast::<PyDict>() else {
        return Ok(None);
    };
    match fields(dict) {
        Ok(_) => Ok(None),
        Err(Fault::Misfit(misfit)) => Ok(Some(misfit)),
        Err(Fault::Raised(error)) => Err(Failure::Python(*error)),
    }
}

/// The values of a row. A misfit is that of a key, in the row or in a dict inside of it.
fn fields(row: &Bound<'_, PyDict>) -> Result<Vec<(String, Guess)>, Fault> {
    let field = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let name = name_of(&key)?;
        let guess = match guess(&value, 1) {
            // Whoever appends a value that cannot be read says so, with its row and field.
            Err(Fault::Raised(error)) if error.is_instance_of::<PyException>(value.py()) => Guess::Null,
            guess => guess.map_err(|fault| fault.in_field(&name))?,
        };
        Ok((name, guess))
    };
    row.iter().map(field).collect()
}

fn name_of(key: &Bound<'_, PyAny>) -> Result<String, Misfit> {
    let text = key.cast::<PyString>().map_err(|_| not_a_name())?;
    text.extract().map_err(|_| half_of_a_pair())
}

fn guess(value: &Bound<'_, PyAny>, depth: usize) -> Result<Guess, Fault> {
    let py = value.py();
    let classes = Classes::get(py)?;
    let is = |class: &Py<pyo3::types::PyType>| value.is_instance(class.bind(py));
    Ok(if value.is_none() || depth > MOST_DEPTH || is_missing(value) {
        Guess::Null
    } else if value.is_instance_of::<PyString>() {
        Guess::Text
    } else if value.is_instance_of::<PyBool>() {
        Guess::Bool
    } else if value.is_instance_of::<PyInt>() {
        Guess::Int
    } else if value.is_instance_of::<PyFloat>() {
        Guess::Float
    } else if value.is_instance_of::<PyBytes>()
        || value.is_instance_of::<PyByteArray>()
        || value.is_instance_of::<PyMemoryView>()
    {
        Guess::Bytes
    } else if let Ok(dict) = value.cast::<PyDict>() {
        structure(dict, depth)?
    } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        list(value, depth)?
    } else if is(&classes.datetime)? {
        Guess::Timestamp {
            zoned: !value.call_method0("utcoffset")?.is_none(),
        }
    } else if is(&classes.date)? {
        Guess::Date
    } else if is(&classes.time)? {
        Guess::Time
    } else if is(&classes.timedelta)? {
        Guess::Duration
    } else if is(&classes.decimal)? {
        decimal(value)?
    } else if is(&classes.uuid)? {
        Guess::Uuid
    } else {
        foreign(value, depth)?
    })
}

fn structure(dict: &Bound<'_, PyDict>, depth: usize) -> Result<Guess, Fault> {
    let mut shape = Shape::default();
    for (key, value) in dict.iter() {
        let name = name_of(&key)?;
        let guess = guess(&value, depth + 1).map_err(|fault| fault.in_field(&name))?;
        // Two values under one name conflict nowhere: a dict has each key once.
        let _ = shape.observe(&name, guess);
    }
    Ok(Guess::Struct(shape))
}

fn list(items: &Bound<'_, PyAny>, depth: usize) -> Result<Guess, Fault> {
    let mut merged = Guess::Null;
    for (index, item) in items.try_iter()?.enumerate() {
        let item = guess(&item?, depth + 1).map_err(|fault| fault.in_item(index))?;
        // Elements that do not go together are reported by the column that takes the first ones.
        let before = merged.clone();
        merged = merged.merge(item).unwrap_or(before);
    }
    Ok(Guess::List(Box::new(merged)))
}

fn decimal(value: &Bound<'_, PyAny>) -> PyResult<Guess> {
    let (_, digits, exponent) = value
        .call_method0("as_tuple")?
        .extract::<(i64, Vec<u8>, Bound<'_, PyAny>)>()?;
    // Infinities and NaN have letters for exponents: they say nothing of the column.
    let Ok(exponent) = exponent.extract::<i64>() else {
        return Ok(Guess::Null);
    };
    let digits = i64::try_from(digits.len()).unwrap_or(i64::MAX);
    let clamp = |count: i64| u8::try_from(count.clamp(0, 76)).unwrap_or(76);
    Ok(Guess::Decimal {
        whole: clamp(digits.saturating_add(exponent)),
        scale: clamp(exponent.saturating_neg()),
    })
}

/// Infers the type of other libraries' values from their Python equivalents.
fn foreign(value: &Bound<'_, PyAny>, depth: usize) -> Result<Guess, Fault> {
    // For nanoseconds, `tolist()` returns an integer without its unit.
    if let Some(clock) = clock_of_numpy(value)?
        && !matches!(clock, NumpyClock::Other)
    {
        return Ok(match (value.call_method0("item")?.is_none(), clock) {
            (true, _) => Guess::Null,
            (false, NumpyClock::Duration) => Guess::Duration,
            (false, _) => Guess::Timestamp { zoned: false },
        });
    }
    if let Some(elements) = elements_of_numpy(value)? {
        return guess(&elements, depth);
    }
    for method in ["tolist", "__index__", "__float__"] {
        if value.get_type().hasattr(method)? {
            return guess(&value.call_method0(method)?, depth + 1);
        }
    }
    // Whoever appends it says that it fits nowhere.
    Ok(Guess::Null)
}
