//! The keys of an encrypted file, from Python. No error has a key in it.

use parquet_writer::{Encryption, EncryptionKey};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMapping};

use crate::errors::Failure;
use crate::options::{FLAG, parts};

/// The attributes of a `spillway.Encryption`.
pub(crate) struct EncryptionFields<'py> {
    footer_key: Bound<'py, PyAny>,
    column_keys: Option<Bound<'py, PyMapping>>,
    plaintext_footer: bool,
    aad_prefix: Option<Bound<'py, PyAny>>,
    store_aad_prefix: bool,
    footer_key_metadata: Option<Bound<'py, PyAny>>,
    column_key_metadata: Option<Bound<'py, PyMapping>>,
}

impl<'py> FromPyObject<'_, 'py> for EncryptionFields<'py> {
    type Error = PyErr;

    fn extract(fields: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let mapping = "a mapping from column paths to bytes, or None";
        Ok(Self {
            footer_key: fields.getattr("footer_key")?,
            column_keys: field(fields, "column_keys", mapping)?,
            plaintext_footer: field(fields, "plaintext_footer", FLAG)?,
            aad_prefix: field(fields, "aad_prefix", "bytes or None")?,
            store_aad_prefix: field(fields, "store_aad_prefix", FLAG)?,
            footer_key_metadata: field(fields, "footer_key_metadata", "bytes or None")?,
            column_key_metadata: field(fields, "column_key_metadata", mapping)?,
        })
    }
}

/// An attribute of the keys. The error of another type shows that type and no value, which may be a key.
fn field<'py, T: for<'a> FromPyObject<'a, 'py>>(
    fields: Borrowed<'_, 'py, PyAny>,
    name: &str,
    expected: &str,
) -> PyResult<T> {
    let value = fields.getattr(name)?;
    let kind = value.get_type();
    value.extract::<T>().or_else(|_| {
        Err(PyTypeError::new_err(format!(
            "{name} must be {expected}, not {}",
            kind.name()?
        )))
    })
}

impl EncryptionFields<'_> {
    fn read(&self) -> PyResult<Encryption> {
        let mut column_keys = Vec::new();
        for (path, key) in pairs(self.column_keys.as_ref())? {
            let key = (!key.is_none())
                .then(|| bytes(&key, "a column's key"))
                .transpose()?;
            let key = key.map(|bytes| EncryptionKey {
                bytes,
                metadata: None,
            });
            column_keys.push((path, key));
        }
        for (path, metadata) in pairs(self.column_key_metadata.as_ref())? {
            let named = column_keys.iter_mut().find(|(other, _)| *other == path);
            let Some((_, Some(key))) = named else {
                return Err(PyTypeError::new_err(format!(
                    "column_key_metadata names the column {:?}, which has no key in column_keys: name it alike in both",
                    path.join(".")
                )));
            };
            key.metadata = Some(bytes(&metadata, "a column's key metadata")?);
        }
        Ok(Encryption {
            footer_key: EncryptionKey {
                bytes: bytes(&self.footer_key, "footer_key")?,
                metadata: optional(self.footer_key_metadata.as_ref(), "footer_key_metadata")?,
            },
            column_keys,
            plaintext_footer: self.plaintext_footer,
            aad_prefix: optional(self.aad_prefix.as_ref(), "aad_prefix")?,
            store_aad_prefix: self.store_aad_prefix,
        })
    }
}

/// The keys in an option, which is none or a `spillway.Encryption`.
pub(crate) fn keys(value: &Bound<'_, PyAny>) -> PyResult<Option<Encryption>> {
    if value.is_none() {
        return Ok(None);
    }
    let fields: EncryptionFields<'_> = value
        .extract()
        .map_err(|_| PyTypeError::new_err("encryption must be a spillway.Encryption"))?;
    fields.read().map(Some)
}

/// Raises `OptionError` unless each key has the length of one.
#[pyfunction]
pub(crate) fn check_encryption(py: Python<'_>, encryption: &Bound<'_, PyAny>) -> PyResult<()> {
    let fields: EncryptionFields<'_> = encryption.extract()?;
    fields
        .read()?
        .check()
        .map_err(|error| Failure::from(error).into_py(py))
}

type ColumnKeys<'py> = Vec<(Vec<String>, Bound<'py, PyAny>)>;

fn pairs<'py>(mapping: Option<&Bound<'py, PyMapping>>) -> PyResult<ColumnKeys<'py>> {
    let Some(mapping) = mapping else {
        return Ok(Vec::new());
    };
    let items = mapping.items()?;
    let pairs = items.iter().map(|item| {
        let (path, value) = item.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        Ok((parts(&path)?, value))
    });
    pairs.collect()
}

fn optional(value: Option<&Bound<'_, PyAny>>, name: &str) -> PyResult<Option<Vec<u8>>> {
    value.map(|value| bytes(value, name)).transpose()
}

fn bytes(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<u8>> {
    match value.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes.as_bytes().to_vec()),
        Err(_) => Err(PyTypeError::new_err(format!(
            "{name} must be bytes, not {}",
            value.get_type().name()?
        ))),
    }
}
