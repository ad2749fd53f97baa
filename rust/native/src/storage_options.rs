//! Settings of an object store, from a dict of Python.

use pyo3::Borrowed;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// Names and values, in the order of the dict: of two spellings of one name, the last counts.
pub(crate) struct StorageOptions(pub(crate) Vec<(String, String)>);

impl<'py> FromPyObject<'_, 'py> for StorageOptions {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let given = object.cast::<PyDict>()?;
        given
            .iter()
            .map(|(name, value)| option(&name, &value))
            .collect::<PyResult<_>>()
            .map(Self)
    }
}

fn option(name: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<(String, String)> {
    match (name.cast::<PyString>(), value.cast::<PyString>()) {
        (Ok(name), Ok(value)) => Ok((name.extract()?, value.extract()?)),
        // The value may be a secret.
        (name_as_text, _) => Err(PyTypeError::new_err(format!(
            "storage_options has {}, whose {} is {}: names and values are texts, such as \"max_retries\": \"3\"",
            name.repr()?,
            if name_as_text.is_err() { "name" } else { "value" },
            if name_as_text.is_err() {
                name.get_type().name()?
            } else {
                value.get_type().name()?
            },
        ))),
    }
}
