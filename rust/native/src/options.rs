//! The writer's options, from Python and to it.

use parquet_writer::{
    Amount, BloomRule, ByColumn, DEFAULT_CHUNK_BYTES, DEFAULT_FPP, OptionInput, SortInput, WriterOptions,
    accepted,
};
use pyo3::exceptions::{PyException, PyTypeError, PyUnicodeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyMapping, PyString, PyTuple};

use crate::encryption;
use crate::errors::Failure;
use crate::memory_budget::PyMemoryBudget;

/// Characters of a value that an error shows.
const MOST_SHOWN: usize = 60;

/// A `spillway.WriterOptions`, whose attributes were not looked at.
#[derive(FromPyObject)]
#[pyo3(transparent)]
pub(crate) struct Options<'py>(Bound<'py, PyAny>);

pub(crate) const INTEGER: &str = "an int";
pub(crate) const INTEGER_OR_NONE: &str = "an int or None";
pub(crate) const FLAG: &str = "True or False";
pub(crate) const TEXT: &str = "str";
const METADATA: &str = "a mapping from str to str, or None";
const SORTING_COLUMNS: &str =
    "a list of column names, such as [\"time\"], or of tuples of a name, a direction and a place of nulls";

/// An attribute of an object of options. A value of another type is a `TypeError` that says what is expected.
pub(crate) fn attribute<'py, T: for<'a> FromPyObject<'a, 'py>>(
    options: Borrowed<'_, 'py, PyAny>,
    name: &str,
    expected: &str,
) -> PyResult<T> {
    let value = options.getattr(name)?;
    let wrong = || -> PyResult<PyErr> {
        let value = shown(&value)?;
        Ok(PyTypeError::new_err(format!(
            "{name} must be {expected}, not {value}"
        )))
    };
    // True is an int of Python, but no number of rows.
    if expected != FLAG && value.is_instance_of::<PyBool>() {
        return Err(wrong()?);
    }
    value.extract::<T>().or_else(|error| {
        let wrong = wrong()?;
        wrong.set_cause(value.py(), Some(error.into()));
        Err(wrong)
    })
}

/// An attribute that may be `None`, as `convert` makes it.
fn optional<T>(
    options: Borrowed<'_, '_, PyAny>,
    name: &str,
    convert: impl Fn(&Bound<'_, PyAny>) -> PyResult<T>,
) -> PyResult<Option<T>> {
    let value: Option<Bound<'_, PyAny>> = options.getattr(name)?.extract()?;
    value.as_ref().map(convert).transpose()
}

/// The `repr` of a value that is refused, cut to a few words.
///
/// # Errors
/// What a handler of signals raised meanwhile.
pub(crate) fn shown(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let repr = match value.repr() {
        Ok(repr) => repr.to_string_lossy().into_owned(),
        Err(error) if error.is_instance_of::<PyException>(value.py()) => "a value".to_owned(),
        Err(raised) => return Err(raised),
    };
    Ok(match repr.char_indices().nth(MOST_SHOWN) {
        Some((end, _)) => format!("{}…", &repr[..end]),
        None => repr,
    })
}

impl Options<'_> {
    pub fn validated(self, py: Python<'_>) -> PyResult<WriterOptions> {
        let options = self.0.as_borrowed();
        let of = |name: &str| options.getattr(name);
        let input = OptionInput {
            compression: rule(&of("compression")?, COMPRESSION_RULE)?,
            compression_level: attribute(options, "compression_level", INTEGER_OR_NONE)?,
            row_group_rows: attribute(options, "row_group_rows", INTEGER)?,
            row_group_bytes: attribute(options, "row_group_bytes", INTEGER)?,
            page_bytes: attribute(options, "page_bytes", INTEGER)?,
            page_rows: attribute(options, "page_rows", INTEGER)?,
            dictionary_page_bytes: attribute(options, "dictionary_page_bytes", INTEGER)?,
            content_defined_chunking: chunk_bytes(&of("content_defined_chunking")?)?,
            memory_limit: optional(options, "memory_limit", amount)?,
            threads: attribute(options, "threads", INTEGER_OR_NONE)?,
            hold_batches: attribute(options, "hold_batches", FLAG)?,
            dictionary: rule(&of("dictionary")?, DICTIONARY_RULE)?,
            encoding: rule(&of("encoding")?, ENCODING_RULE)?,
            bloom_filter: bloom_rule(&of("bloom_filter")?)?,
            page_checksums: attribute(options, "page_checksums", FLAG)?,
            statistics: rule(&of("statistics")?, STATISTICS_RULE)?,
            store_schema: attribute(options, "store_schema", FLAG)?,
            compatibility: attribute(options, "compatibility", TEXT)?,
            timestamps: attribute(options, "timestamps", TEXT)?,
            timestamp_loss: attribute(options, "timestamp_loss", TEXT)?,
            sorting_columns: attribute::<Vec<Bound<'_, PyAny>>>(options, "sorting_columns", SORTING_COLUMNS)?
                .iter()
                .map(sort_key)
                .collect::<PyResult<_>>()?,
            sorting: attribute(options, "sorting", TEXT)?,
            durable: attribute(options, "durable", FLAG)?,
            verify: attribute(options, "verify", "str or None")?,
            metadata: attribute::<Option<Bound<'_, PyMapping>>>(options, "metadata", METADATA)?
                .map_or(Ok(Vec::new()), |pairs| metadata(&pairs))?,
            field_ids: optional(options, "field_ids", field_ids)?.unwrap_or_default(),
            encryption: encryption::keys(&of("encryption")?)?,
        };
        WriterOptions::new(input).map_err(|error| Failure::from(error).into_py(py))
    }
}

pub(crate) fn metadata(pairs: &Bound<'_, PyMapping>) -> PyResult<Vec<(String, String)>> {
    let items = pairs.items()?;
    items.extract().map_err(|error: PyErr| {
        // Text that UTF-8 cannot hold says so itself.
        if error.is_instance_of::<PyUnicodeError>(pairs.py()) {
            return error;
        }
        let wrong = PyTypeError::new_err("metadata must be a mapping from str to str");
        wrong.set_cause(pairs.py(), Some(error));
        wrong
    })
}

fn field_ids(value: &Bound<'_, PyAny>) -> PyResult<Vec<(Vec<String>, i64)>> {
    by_column(
        value,
        "field_ids must be a mapping from column paths to int, such as {\"a\": 1, \"a.b\": 7}",
    )
}

const DICTIONARY_RULE: &str =
    "dictionary must be True, False or a mapping from column paths to bool, such as {\"id\": False}";
const STATISTICS_RULE: &str =
    "statistics must be True, False or a mapping from column paths to bool, such as {\"id\": False}";
const ENCODING_RULE: &str = "encoding must be the name of an encoding or a mapping from column paths to names, such as {\"id\": \"plain\"}";
const COMPRESSION_RULE: &str = "compression must be the name of a codec or a mapping from column paths to names, such as {\"id\": \"snappy\"}";

/// One value for all columns, or a mapping from column paths to values.
fn rule<T>(value: &Bound<'_, PyAny>, wrong: &'static str) -> PyResult<ByColumn<T>>
where
    T: for<'a, 'py> FromPyObject<'a, 'py, Error = PyErr>,
{
    match value.extract() {
        Ok(all) => Ok(ByColumn::All(all)),
        Err(_) => Ok(ByColumn::Columns(by_column(value, wrong)?)),
    }
}

/// The usual sizes of chunks, none, or the least and the most bytes of one.
fn chunk_bytes(value: &Bound<'_, PyAny>) -> PyResult<Option<(i64, i64)>> {
    if let Ok(usual) = value.extract::<bool>() {
        return Ok(usual.then_some(DEFAULT_CHUNK_BYTES));
    }
    match value.extract::<Vec<i64>>().as_deref() {
        Ok([least, most]) => Ok(Some((*least, *most))),
        _ => Err(PyTypeError::new_err(
            "content_defined_chunking must be True, False or the least and the most bytes of a chunk, such as \
             (262144, 1048576)",
        )),
    }
}

fn amount(value: &Bound<'_, PyAny>) -> PyResult<Amount> {
    if let Ok(budget) = value.cast::<PyMemoryBudget>() {
        return Ok(Amount::Share(budget.get().shared()));
    }
    let wrong = "memory_limit must be bytes as an int, text such as \"16MB\", or a MemoryBudget";
    bytes_or_text(value, wrong)
}

/// An amount of memory of its own.
pub(crate) fn bytes_or_text(value: &Bound<'_, PyAny>, wrong: &'static str) -> PyResult<Amount> {
    if value.is_instance_of::<PyString>() {
        return Ok(Amount::Text(value.extract()?));
    }
    let bytes = value.extract::<i64>().map_err(|error| {
        let wrong = PyTypeError::new_err(wrong);
        wrong.set_cause(value.py(), Some(error));
        wrong
    });
    Ok(Amount::Bytes(bytes?))
}

/// All columns or none, some by their paths, or some with how often their filters may be wrong.
fn bloom_rule(value: &Bound<'_, PyAny>) -> PyResult<BloomRule> {
    let wrong = "bloom_filter must be True, False, a list of column paths or a mapping from them to a share of wrong answers";
    if let Ok(all) = value.extract::<bool>() {
        return Ok(BloomRule::All(all.then_some(DEFAULT_FPP)));
    }
    if value.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(wrong));
    }
    if value.cast::<PyMapping>().is_ok() {
        let columns = by_column::<f64>(value, wrong)?.into_iter();
        return Ok(ByColumn::Columns(
            columns.map(|(path, fpp)| (path, Some(fpp))).collect(),
        ));
    }
    let paths = value.try_iter().map_err(|_| PyTypeError::new_err(wrong))?;
    let columns = paths.map(|path| Ok((parts(&path?)?, Some(DEFAULT_FPP))));
    Ok(ByColumn::Columns(columns.collect::<PyResult<_>>()?))
}

/// A name, or a tuple of a name, a direction and the place of nulls, as far as it goes.
fn sort_key(key: &Bound<'_, PyAny>) -> PyResult<SortInput> {
    let wrong = || {
        PyTypeError::new_err(
            "sorting_columns must be column names, or tuples such as (\"a\", \"descending\", \"nulls_first\")",
        )
    };
    let parts: Vec<String> = match key.cast::<PyString>() {
        Ok(name) => vec![name.extract()?],
        Err(_) => key.extract().map_err(|_| wrong())?,
    };
    let mut parts = parts.into_iter();
    let input = SortInput {
        column: parts.next().ok_or_else(wrong)?,
        direction: parts.next().unwrap_or_else(|| "ascending".into()),
        nulls: parts.next().unwrap_or_else(|| "nulls_last".into()),
    };
    parts.next().map_or(Ok(input), |_| Err(wrong()))
}

/// A dotted path, or a tuple of its parts.
pub(crate) fn parts(path: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    match path.cast::<PyString>() {
        Ok(path) => Ok(vec![path.extract()?]),
        Err(_) => path.extract(),
    }
}

/// A mapping from dotted paths, or tuples of their parts.
fn by_column<T>(value: &Bound<'_, PyAny>, wrong: &'static str) -> PyResult<Vec<(Vec<String>, T)>>
where
    T: for<'a, 'py> FromPyObject<'a, 'py, Error = PyErr>,
{
    let columns = value
        .cast::<PyMapping>()
        .map_err(|_| PyTypeError::new_err(wrong))?;
    let rule = columns.items()?.iter().map(|item| {
        let (key, value) = item.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        let pair = parts(&key).and_then(|path| Ok((path, value.extract::<T>()?)));
        pair.or_else(|error| {
            let pair = PyTypeError::new_err(format!("{wrong}, not {}: {}", shown(&key)?, shown(&value)?));
            pair.set_cause(key.py(), Some(error));
            Err(pair)
        })
    });
    rule.collect()
}

/// Raises `OptionError` unless every option has a value that is accepted.
#[pyfunction]
pub(crate) fn check_options(py: Python<'_>, options: Options<'_>) -> PyResult<()> {
    options.validated(py).map(|_| ())
}

/// Describes options by their names. A field of the input that is not named does not compile.
macro_rules! describe_each {
    ($options:ident, $input:ident { $($name:ident => $default:expr),* $(,)? }) => {
        let $input { $($name),* } = $input::default();
        $(describe_own(&$options, stringify!($name), $default)?;)*
    };
}

/// The writer's options by their names: `default`, and what is `accepted` where that can be listed.
#[pyfunction]
pub(crate) fn writer_options(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let bytes_of = |amount| match amount {
        Amount::Bytes(bytes) => bytes.to_string(),
        Amount::Text(text) => text,
        Amount::Share(budget) => budget.share().to_string(),
    };
    let options = PyDict::new(py);
    describe_each!(options, OptionInput {
        compression => of_all(compression),
        compression_level => compression_level,
        row_group_rows => row_group_rows,
        row_group_bytes => row_group_bytes,
        page_bytes => page_bytes,
        page_rows => page_rows,
        dictionary_page_bytes => dictionary_page_bytes,
        content_defined_chunking => content_defined_chunking.is_some(),
        memory_limit => memory_limit.map(bytes_of),
        threads => threads,
        hold_batches => hold_batches,
        dictionary => of_all(dictionary),
        encoding => of_all(encoding),
        bloom_filter => of_all(bloom_filter).map(|fpp| fpp.is_some()),
        page_checksums => page_checksums,
        statistics => of_all(statistics),
        store_schema => store_schema,
        compatibility => compatibility,
        timestamps => timestamps,
        timestamp_loss => timestamp_loss,
        sorting_columns => PyTuple::new(py, sorting_columns.into_iter().map(|key| key.column))?,
        sorting => sorting,
        durable => durable,
        verify => verify,
        metadata => (!metadata.is_empty()).then_some(metadata),
        field_ids => (!field_ids.is_empty()).then_some("ids"),
        encryption => encryption.map(|_| "keys"),
    });
    Ok(options)
}

/// The value of a rule that holds for every column, unless the rule goes by column.
fn of_all<T>(rule: ByColumn<T>) -> Option<T> {
    match rule {
        ByColumn::All(all) => Some(all),
        ByColumn::Columns(_) => None,
    }
}

/// Adds an option of the writer to those that are listed.
fn describe_own<'py>(
    options: &Bound<'py, PyDict>,
    name: &str,
    default: impl IntoPyObject<'py>,
) -> PyResult<()> {
    describe(options, name, default, &accepted(name))
}

/// Adds an option to those that are listed.
pub(crate) fn describe<'py>(
    options: &Bound<'py, PyDict>,
    name: &str,
    default: impl IntoPyObject<'py>,
    accepted: &[impl AsRef<str>],
) -> PyResult<()> {
    let facts = PyDict::new(options.py());
    facts.set_item("default", default)?;
    facts.set_item(
        "accepted",
        accepted.iter().map(AsRef::as_ref).collect::<Vec<&str>>(),
    )?;
    options.set_item(name, facts)
}
