//! Digests of Arrow data, for validation: `digest`, `row_hashes`, `spark_row_sums` and the class `Digest`.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType, Schema};
use parquet_writer::Batch;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use row_digest::{ColumnDigest, Digest, Positions};

use crate::arrow::ArrowSource;
use crate::errors::Failure;

/// The digest of some rows; equal digests mean equal rows in equal order.
#[pyclass(module = "spillway._native", name = "Digest", frozen, eq)]
#[derive(PartialEq)]
pub(crate) struct PyDigest(Digest);

#[pymethods]
impl PyDigest {
    /// Decodes what `to_bytes` made; `ValueError` if it is damaged.
    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        Digest::from_bytes(data).map(Self).map_err(|e| refused(&e))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        Ok((py.get_type::<Self>().getattr("from_bytes")?, (self.to_bytes(py),)))
    }

    /// The digest of these rows and those of `other`; `ValueError` if their columns differ.
    fn merge(&self, other: &Self) -> PyResult<Self> {
        let mut merged = self.0.clone();
        merged.merge(&other.0).map_err(|e| refused(&e))?;
        Ok(Self(merged))
    }

    #[getter]
    fn rows(&self) -> u64 {
        self.0.rows()
    }

    /// Checksum over whole rows, whatever their order: 32 hexadecimal digits.
    #[getter]
    fn row_checksum(&self) -> String {
        format!("{:032x}", self.0.row_sum())
    }

    /// Checksum over whole rows and their positions: 32 hexadecimal digits.
    #[getter]
    fn sequence_checksum(&self) -> String {
        format!("{:032x}", self.0.sequence_sum())
    }

    /// One dict per column: name, type, values, nulls, min, max, checksum; all JSON values.
    #[getter]
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let columns = self.0.columns().iter().map(|column| describe(py, column));
        PyList::new(py, columns.collect::<PyResult<Vec<_>>>()?)
    }

    fn __repr__(&self) -> String {
        format!(
            "Digest(rows={}, columns={}, row_checksum='{}')",
            self.rows(),
            self.0.columns().len(),
            self.row_checksum()
        )
    }
}

/// The digest of an Arrow stream whose rows begin at `first_row` of their table.
///
/// With `positions`, the int64 column of that name holds the position of each row. The column itself is not digested.
#[pyfunction]
#[pyo3(signature = (data, *, first_row = 0, positions = None))]
pub(crate) fn digest(data: &Bound<'_, PyAny>, first_row: u64, positions: Option<&str>) -> PyResult<PyDigest> {
    let source = ArrowSource::take(data)?;
    let digest = data.py().detach(|| digest_rows(source, first_row, positions));
    digest.map_err(|failure| failure.into_py(data.py()))
}

/// The hash of every row of an Arrow stream, as little-endian 64-bit words one after the other.
#[pyfunction]
pub(crate) fn row_hashes<'py>(data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let source = ArrowSource::take(data)?;
    let words = data.py().detach(|| -> Result<Vec<u8>, Failure> {
        let mut words = Vec::new();
        let (_, mut batches) = source.open()?;
        while let Some(batch) = batches.next()? {
            let hashes = row_digest::row_hashes(&checked(&batch)?).map_err(|e| refused(&e))?;
            words.extend(hashes.into_iter().flat_map(u64::to_le_bytes));
        }
        Ok(words)
    });
    let words = words.map_err(|failure| failure.into_py(data.py()))?;
    Ok(PyBytes::new(data.py(), &words))
}

/// The number of rows of an Arrow stream, and the sum of their hashes in Spark.
#[pyfunction]
pub(crate) fn spark_row_sums(data: &Bound<'_, PyAny>) -> PyResult<(u64, u128)> {
    let source = ArrowSource::take(data)?;
    let sums = data.py().detach(|| -> Result<(u64, u128), Failure> {
        let mut sums = (0, 0);
        let (schema, mut batches) = source.open()?;
        // Types are refused without rows, too.
        row_digest::spark_row_hashes(&RecordBatch::new_empty(schema)).map_err(|e| refused(&e))?;
        while let Some(batch) = batches.next()? {
            let hashes = row_digest::spark_row_hashes(&checked(&batch)?).map_err(|e| refused(&e))?;
            for hash in hashes {
                sums = (sums.0 + 1, sums.1 + u128::from(hash));
            }
        }
        Ok(sums)
    });
    sums.map_err(|failure| failure.into_py(data.py()))
}

fn digest_rows(source: ArrowSource, first_row: u64, positions: Option<&str>) -> Result<PyDigest, Failure> {
    let (schema, mut batches) = source.open()?;
    let split = positions.map(|name| position_index(&schema, name)).transpose()?;
    let mut schema = schema.as_ref().clone();
    if let Some(index) = split {
        schema = without(&schema, index)?;
    }
    let mut digest = Digest::new(&schema).map_err(|e| refused(&e))?;
    while let Some(batch) = batches.next()? {
        let mut batch = checked(&batch)?;
        let places = split.map(|index| take_positions(&mut batch, index));
        let next = Positions::From(first_row + digest.rows());
        digest
            .update(&batch, places.as_ref().map_or(next, Positions::At))
            .map_err(|e| refused(&e))?;
    }
    Ok(PyDigest(digest))
}

/// The batch for the digest, which relies on text that is valid.
fn checked(batch: &Batch) -> Result<RecordBatch, Failure> {
    batch.check_text()?;
    let fields = batch.schema().fields().iter();
    // A null in a column that says it has none is digested as one: the digest is of what is there.
    let fields: Vec<_> = fields
        .map(|field| field.as_ref().clone().with_nullable(true))
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.rows()));
    let schema = Arc::new(Schema::new(fields));
    Ok(RecordBatch::try_new_with_options(
        schema,
        batch.columns().to_vec(),
        &options,
    )?)
}

fn position_index(schema: &Schema, name: &str) -> PyResult<usize> {
    match schema.column_with_name(name) {
        Some((index, field)) if field.data_type() == &DataType::Int64 => Ok(index),
        Some((_, field)) => Err(PyTypeError::new_err(format!(
            "positions must be an int64 column; {name:?} is {}",
            field.data_type()
        ))),
        None => Err(PyValueError::new_err(format!(
            "the data has no column {name:?} of positions"
        ))),
    }
}

fn without(schema: &Schema, index: usize) -> PyResult<Schema> {
    let others: Vec<usize> = (0..schema.fields().len()).filter(|i| *i != index).collect();
    schema.project(&others).map_err(|e| invalid(&e))
}

fn take_positions(batch: &mut RecordBatch, index: usize) -> Int64Array {
    batch.remove_column(index).as_primitive::<Int64Type>().clone()
}

fn describe<'py>(py: Python<'py>, column: &ColumnDigest) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", &column.name)?;
    dict.set_item("type", &column.type_name)?;
    dict.set_item("values", column.values)?;
    dict.set_item("nulls", column.nulls)?;
    dict.set_item("min", column.min.as_ref().map(ToString::to_string))?;
    dict.set_item("max", column.max.as_ref().map(ToString::to_string))?;
    dict.set_item("checksum", format!("{:032x}", column.checksum))?;
    Ok(dict)
}

fn refused(error: &row_digest::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn invalid(error: &ArrowError) -> PyErr {
    PyValueError::new_err(format!("the Arrow stream cannot be read: {error}"))
}
