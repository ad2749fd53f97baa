//! What callers give and get in Python's own types: conditions, and files.

use std::collections::HashMap;

use delta_commit::actions::{Add, PartitionValues};
use delta_table::{Condition, ConditionValue, Conditions};
use pyo3::Borrowed;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// Conditions from Python: a text in SQL, or a list, each with a column, an operator and values.
pub(super) struct GivenConditions(pub(super) Conditions);

impl<'py> FromPyObject<'_, 'py> for GivenConditions {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyString>() {
            return Ok(Self(Conditions::Sql(object.extract()?)));
        }
        let given: Vec<(String, String, Vec<Bound<'py, PyAny>>)> = object.extract()?;
        let conditions = given.into_iter().map(|(column, operator, values)| {
            Ok(Condition {
                column,
                operator,
                values: values.iter().map(scalar).collect::<PyResult<_>>()?,
            })
        });
        let conditions: Vec<Condition> = conditions.collect::<PyResult<_>>()?;
        Ok(Self(conditions.into()))
    }
}

/// A file that a caller wrote.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct GivenFile {
    path: String,
    size: i64,
    modification_time: i64,
    partition_values: HashMap<String, Option<String>>,
    stats: Option<String>,
    data_change: bool,
}

impl GivenFile {
    pub(super) fn into_add(self) -> Add {
        Add {
            path: self.path,
            size: self.size,
            modification_time: self.modification_time,
            partition_values: self
                .partition_values
                .into_iter()
                .collect::<PartitionValues>()
                .written(),
            stats: self.stats,
            data_change: self.data_change,
            ..Add::default()
        }
    }
}

pub(super) fn file_dict<'py>(py: Python<'py>, add: &Add) -> PyResult<Bound<'py, PyDict>> {
    let values = PyDict::new(py);
    for (column, value) in add.partition_values.iter() {
        values.set_item(column, value)?;
    }
    let file = PyDict::new(py);
    file.set_item("path", &add.path)?;
    file.set_item("size", add.size)?;
    file.set_item("modification_time", add.modification_time)?;
    file.set_item("partition_values", values)?;
    file.set_item("stats", &add.stats)?;
    let vector = add.deletion_vector.as_ref();
    file.set_item("deleted_rows", vector.map_or(0, |vector| vector.cardinality))?;
    Ok(file)
}

/// Converts a Python value. Dates and times come as ISO text with their type.
fn scalar(value: &Bound<'_, PyAny>) -> PyResult<ConditionValue> {
    if value.is_none() {
        return Ok(ConditionValue::Null);
    }
    if let Ok(text) = value.cast::<PyString>() {
        let text = text.to_str().map_err(|_| {
            PyValueError::new_err("a condition's text has half of a surrogate pair, which UTF-8 cannot hold")
        })?;
        return Ok(ConditionValue::Text(text.to_owned()));
    }
    if let Some(iso) = value.getattr_opt("isoformat")? {
        return Ok(ConditionValue::Text(iso.call0()?.extract()?));
    }
    if let Ok(value) = value.extract::<bool>() {
        return Ok(ConditionValue::Boolean(value));
    }
    if let Ok(value) = value.extract::<i64>() {
        return Ok(ConditionValue::Long(value));
    }
    value.extract::<f64>().map(ConditionValue::Double).map_err(|_| {
        PyTypeError::new_err(format!(
            "a condition's value is None, a bool, an int, a float, a str, a date or a datetime, not {}",
            value.get_type()
        ))
    })
}
