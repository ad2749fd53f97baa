//! Reads NDJSON from Python objects, and parses it without the GIL.

use arrow_schema::SchemaRef;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyString;
use rows::{Ndjson, Shape, Visitor as _, infer_ndjson};

use crate::errors::Failure;
use crate::rows::intake::{Intake, Rules};
use crate::rows::{PendingRows, SAMPLE_ROWS, TakesRows, conflict};

/// Bytes that a schema is inferred from.
const SAMPLE_BYTES: usize = 1 << 20;
const READ_BYTES: usize = 1 << 20;

/// A source of NDJSON.
pub(crate) enum NdjsonSource {
    Chunk(PyBackedBytes),
    /// An object with `read(size)`.
    File(Py<PyAny>),
}

impl NdjsonSource {
    pub fn of(source: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = source.extract::<PyBackedBytes>() {
            return Ok(Self::Chunk(bytes));
        }
        if source.hasattr("read")? {
            return Ok(Self::File(source.clone().unbind()));
        }
        let view = (!source.is_instance_of::<PyString>())
            .then(|| {
                source
                    .py()
                    .import("builtins")?
                    .getattr("memoryview")?
                    .call1((source,))
            })
            .transpose()
            .ok()
            .flatten();
        let Some(view) = view else {
            let class = source.get_type().qualname()?;
            return Err(PyTypeError::new_err(format!(
                "NDJSON must be bytes or a file object opened for reading bytes, not {class}: encode text, or open a path with \"rb\""
            )));
        };
        Ok(Self::Chunk(view.call_method0("tobytes")?.extract()?))
    }
}

/// Reads up to a mebibyte; none at the end of the file.
fn read(file: &Py<PyAny>) -> Result<Option<PyBackedBytes>, Failure> {
    Python::attach(|py| {
        let read = file.bind(py).call_method1("read", (READ_BYTES,))?;
        let bytes = read.extract::<PyBackedBytes>().map_err(|_| {
            let class = read.get_type().qualname().map_or_else(
                |_| "something else".into(),
                |name| name.to_string_lossy().into_owned(),
            );
            PyTypeError::new_err(format!(
                "read() must give bytes, not {class}: open the file with \"rb\""
            ))
        })?;
        Ok((!bytes.is_empty()).then_some(bytes))
    })
}

pub(crate) fn write(
    writer: &dyn TakesRows,
    kept: &mut PendingRows,
    schema: Option<SchemaRef>,
    source: NdjsonSource,
    rules: Rules,
) -> Result<u64, Failure> {
    let written = match source {
        // No line ends, so nothing is read that could fail. The line is not copied for each of its pieces.
        NdjsonSource::Chunk(chunk) if !chunk.contains(&b'\n') => {
            kept.ndjson.keep(&chunk);
            Ok(0)
        }
        NdjsonSource::Chunk(chunk) => {
            let before = kept.ndjson.clone();
            let written = write_chunk(writer, kept, schema, &chunk, &rules);
            if written.is_err() && rules.is_all_or_nothing(false) {
                kept.ndjson = before;
            }
            written
        }
        NdjsonSource::File(file) => {
            let before = kept.ndjson.clone();
            let written = write_file(writer, kept, schema, &file, &rules);
            if written.is_err() {
                kept.ndjson.leave_file(before);
            }
            written
        }
    };
    if !kept.ndjson.is_mid_line() {
        // A callback may hold the writer.
        kept.rules = None;
    } else if written.is_ok() || kept.rules.is_none() {
        kept.rules = Some(rules);
    }
    written
}

fn write_chunk(
    writer: &dyn TakesRows,
    kept: &mut PendingRows,
    schema: Option<SchemaRef>,
    chunk: &[u8],
    rules: &Rules,
) -> Result<u64, Failure> {
    let mut ndjson = std::mem::take(&mut kept.ndjson);
    let rows = match kept.builders(schema, writer, || shape(&ndjson, chunk, false)) {
        Ok(rows) => rows,
        Err(failure) => {
            // Nothing of the chunk was read.
            kept.ndjson = ndjson;
            return Err(failure);
        }
    };
    let mut intake = Intake::new(writer, rules, false);
    let fed = ndjson.feed(chunk, 0, rows, rules.extra, &mut intake);
    let written = intake.end(rows, fed.map(|_| ()));
    kept.ndjson = ndjson;
    written
}

fn write_file(
    writer: &dyn TakesRows,
    kept: &mut PendingRows,
    schema: Option<SchemaRef>,
    file: &Py<PyAny>,
    rules: &Rules,
) -> Result<u64, Failure> {
    let mut head = Vec::new();
    let (mut has_line, mut ended, mut failed) = (false, false, None);
    if schema.is_none() {
        while !ended && failed.is_none() && (head.len() < SAMPLE_BYTES || !has_line) {
            match read(file) {
                Ok(Some(bytes)) => {
                    has_line |= bytes.contains(&b'\n');
                    head.extend_from_slice(&bytes);
                }
                Ok(None) => ended = true,
                Err(failure) if has_line => failed = Some(failure),
                Err(failure) => return Err(failure),
            }
        }
    }
    let mut ndjson = std::mem::take(&mut kept.ndjson);
    ndjson.begin_file();
    if ended && head.is_empty() && !ndjson.is_mid_line() {
        return Ok(0);
    }
    let rows = kept.builders(schema, writer, || shape(&ndjson, &head, ended))?;
    let mut intake = Intake::new(writer, rules, true);
    let mut outcome = ndjson.feed(&head, 0, rows, rules.extra, &mut intake);
    // The rows that came before a failure are kept, as they are with a schema.
    if let Some(failure) = failed {
        outcome = outcome.and(Err(failure));
    }
    while let (Ok(row), false) = (&outcome, ended) {
        outcome = match read(file) {
            Ok(Some(bytes)) => ndjson.feed(&bytes, *row, rows, rules.extra, &mut intake),
            Ok(None) => {
                ended = true;
                Ok(*row)
            }
            Err(failure) => Err(failure),
        };
        outcome = outcome.and_then(|row| intake.go_on().map(|()| row));
    }
    let outcome = outcome.and_then(|row| ndjson.finish(row, rows, rules.extra, &mut intake));
    let written = intake.end(rows, outcome.map(|_| ()));
    kept.ndjson = ndjson;
    written
}

/// Writes the unended last line. Good or bad, it is dropped afterwards.
pub(crate) fn write_tail(
    writer: &dyn TakesRows,
    kept: &mut PendingRows,
    schema: Option<SchemaRef>,
) -> Result<(), Failure> {
    let Some(rules) = kept.rules.take() else {
        return Ok(());
    };
    let mut ndjson = std::mem::take(&mut kept.ndjson);
    let rows = kept.builders(schema, writer, || shape(&ndjson, &[], true))?;
    let mut intake = Intake::new(writer, &rules, false);
    let outcome = ndjson.finish(0, rows, rules.extra, &mut intake);
    let written = intake.end(rows, outcome.map(|_| ()));
    ndjson.drop_tail();
    kept.ndjson = ndjson;
    written.map(|_| ())
}

/// The shape of the first rows, taken from the unended line and from `chunk`.
fn shape(ndjson: &Ndjson, chunk: &[u8], is_all: bool) -> Result<Shape, Failure> {
    let head = chunk.get(..SAMPLE_BYTES).filter(|head| head.contains(&b'\n'));
    let is_all = is_all && head.is_none();
    let sample = [ndjson.tail(), head.unwrap_or(chunk)].concat();
    infer_ndjson(&sample, SAMPLE_ROWS, is_all).map_err(|(row, found)| conflict(row, &found))
}
