//! Appends Python objects to builders.
//!
//! Most cells have a built-in class that is not a subclass, and are read as `usual` has it. All others become a
//! [`Bound`] object first.

use std::ffi::c_char;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyTuple,
};
use pyo3::{ffi, intern};
use rows::{ColumnBuilder, Extra, Fields, MapValues, Misfit, Scalar, Values};

use crate::rows::classes::{Classes, is_missing};
use crate::rows::clock::Clock;
use crate::rows::layout::VerifiedLayouts;
use crate::rows::usual::BuiltIn;

const NANOS_PER_SECOND: i128 = 1_000_000_000;
const SECONDS_PER_DAY: i128 = 86_400;
/// The ordinal of 1970-01-01 in `datetime`.
const EPOCH_ORDINAL: i32 = 719_163;

/// The reason why a cell was not appended.
pub(crate) enum Fault {
    Misfit(Misfit),
    /// An exception that no bad value causes, such as an interrupt.
    Raised(Box<PyErr>),
}

impl From<Misfit> for Fault {
    #[cold]
    fn from(misfit: Misfit) -> Self {
        Self::Misfit(misfit)
    }
}

impl From<PyErr> for Fault {
    #[cold]
    fn from(error: PyErr) -> Self {
        Self::Raised(Box::new(error))
    }
}

impl Fault {
    /// The fault of an object whose value was asked for and which raised.
    #[cold]
    fn asked(py: Python<'_>, error: PyErr) -> Self {
        if error.is_instance_of::<PyException>(py) {
            Misfit::new(format!("the value cannot be read: {error}")).into()
        } else {
            Self::Raised(Box::new(error))
        }
    }

    #[cold]
    pub(super) fn in_field(self, name: &str) -> Self {
        match self {
            Self::Misfit(misfit) => Self::Misfit(misfit.in_field(name)),
            raised @ Self::Raised(_) => raised,
        }
    }

    #[cold]
    pub(super) fn in_item(self, index: usize) -> Self {
        match self {
            Self::Misfit(misfit) => Self::Misfit(misfit.in_item(index)),
            raised @ Self::Raised(_) => raised,
        }
    }
}

type CellResult = Result<(), Fault>;

/// The classes of cells by address, and the handling of keys.
pub(crate) struct CellReader<'py> {
    pub(super) py: Python<'py>,
    classes: &'static Classes,
    pub(super) built_in: BuiltIn,
    pub(super) layout: VerifiedLayouts,
    pub(super) clock: Clock,
    extra: Extra,
    /// The keys whose addresses the builders remember, kept alive.
    keys: Vec<Py<PyAny>>,
}

impl<'py> CellReader<'py> {
    pub fn new(py: Python<'py>, extra: Extra) -> PyResult<Self> {
        let classes = Classes::get(py)?;
        Ok(Self {
            py,
            classes,
            built_in: BuiltIn::new(py, classes),
            layout: VerifiedLayouts::get(py)?,
            clock: Clock::new(classes),
            extra,
            keys: Vec::new(),
        })
    }

    /// The index of the column of a key; `None` for a key that is dropped. `place` is that of the expected key, `len`
    /// the number of rows before this one.
    #[inline]
    pub(super) fn column_of(
        &mut self,
        key: *mut ffi::PyObject,
        fields: &mut Fields,
        place: &mut usize,
        len: usize,
    ) -> Result<Option<usize>, Fault> {
        let index = match fields.keys.expected(*place) {
            Some((index, slot)) if slot.token == key as usize => {
                *place += 1;
                index
            }
            _ => match self.other_key(key, fields, place)? {
                Some(index) => index,
                None => return Ok(None),
            },
        };
        let column = &fields.columns[index];
        if column.len() != len {
            return Err(Misfit::repeated_key().in_field(column.name()).into());
        }
        Ok(Some(index))
    }

    /// Appends a row, or a struct inside of one. `len` is the number of rows before it.
    pub fn dict(&mut self, dict: &Bound<'py, PyDict>, fields: &mut Fields, len: usize) -> CellResult {
        let (mut place, mut found) = (0, 0);
        let mut position = 0;
        let (mut key, mut value) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: `dict` is a dict and lives as long as this loop. What it lends is used at once, before anything that
        // could change the dict; `slow_cell` takes a reference of its own first.
        #[expect(
            unsafe_code,
            reason = "a walk by PyDict_Next counts no references: a fifth of the time"
        )]
        while unsafe { ffi::PyDict_Next(dict.as_ptr(), &raw mut position, &raw mut key, &raw mut value) } != 0
        {
            let Some(index) = self.column_of(key, fields, &mut place, len)? else {
                continue;
            };
            let column = &mut fields.columns[index];
            if let Err(fault) = self.cell(column, value) {
                return Err(fault.in_field(column.name()));
            }
            found += 1;
        }
        Ok(fields.fill(len, found)?)
    }

    /// Finds the column of a key whose object is not the one that came here last.
    pub(super) fn other_key(
        &mut self,
        key: *mut ffi::PyObject,
        fields: &mut Fields,
        place: &mut usize,
    ) -> Result<Option<usize>, Fault> {
        let token = key as usize;
        if !self.is_text(key) {
            return Err(not_a_name().into());
        }
        let name = self.utf8(key)?;
        // Rows of a parser have other key objects each time, in the same order.
        let expected = fields.keys.expected(*place).filter(|(_, slot)| slot.is(name));
        let found = match expected {
            Some((index, _)) => Some((index, *place)),
            None => fields
                .keys
                .ahead(*place + 1, |slot| slot.token == token || slot.is(name))
                .or_else(|| fields.keys.look_up(name, *place)),
        };
        if let Some((index, now)) = found {
            *place = now + 1;
            if let Some(slot) = fields.keys.slot_mut(index)
                && slot.token == 0
            {
                slot.token = token;
                self.keys.push(self.bound(key).unbind());
            }
            return Ok(Some(index));
        }
        match self.extra {
            Extra::Ignore => Ok(None),
            Extra::Error => Err(Misfit::unknown_key().in_field(name).into()),
        }
    }

    /// Makes an owned reference from a borrowed one.
    fn bound(&self, object: *mut ffi::PyObject) -> Bound<'py, PyAny> {
        // SAFETY: callers hold the container, and nothing ran since it lent the object.
        #[expect(unsafe_code, reason = "a borrowed reference becomes an owned one")]
        unsafe {
            Bound::from_borrowed_ptr(self.py, object)
        }
    }

    /// The text of a str. It is valid as long as the str, so until other Python code runs.
    #[inline]
    pub(super) fn utf8<'a>(&self, text: *mut ffi::PyObject) -> Result<&'a str, Fault> {
        if let Some(text) = self.layout.ascii(text) {
            return Ok(text);
        }
        let mut size = 0;
        // SAFETY: `text` is a str; what it lends is UTF-8, lives with it, and is `size` bytes long.
        #[expect(unsafe_code, reason = "the text is copied once, into the builder")]
        let found = unsafe {
            let start: *const c_char = ffi::PyUnicode_AsUTF8AndSize(text, &raw mut size);
            if start.is_null() {
                None
            } else {
                let bytes = std::slice::from_raw_parts(start.cast::<u8>(), size.unsigned_abs());
                Some(std::str::from_utf8_unchecked(bytes))
            }
        };
        found.ok_or_else(|| self.no_utf8())
    }

    #[cold]
    fn no_utf8(&self) -> Fault {
        match PyErr::take(self.py) {
            Some(error) if !error.is_instance_of::<pyo3::exceptions::PyUnicodeError>(self.py) => {
                Fault::asked(self.py, error)
            }
            _ => half_of_a_pair().into(),
        }
    }

    /// Appends a cell that a container lent.
    #[inline]
    fn cell(&mut self, column: &mut ColumnBuilder, cell: *mut ffi::PyObject) -> CellResult {
        if self.usual_cell(column, cell)? {
            return Ok(());
        }
        let cell = self.bound(cell);
        self.slow_cell(column, &cell)
    }

    /// Appends a cell of any class.
    fn slow_cell(&mut self, column: &mut ColumnBuilder, cell: &Bound<'py, PyAny>) -> CellResult {
        if cell.is_none() || is_missing(cell) {
            return Ok(column.push_null()?);
        }
        let len = column.len();
        match &mut column.values {
            Values::List(list) => {
                self.items(&mut list.items, cell)?;
                list.end()?;
            }
            Values::LargeList(list) => {
                self.items(&mut list.items, cell)?;
                list.end()?;
            }
            Values::FixedList(list) => {
                self.items(&mut list.items, cell)?;
                list.end()?;
            }
            Values::Struct(fields) => match cell.cast::<PyDict>() {
                Ok(dict) => self.dict(dict, fields, len)?,
                Err(_) => return Err(unfit(&column.values, cell)),
            },
            Values::Map(map) => {
                self.entries(map, cell)?;
                map.end()?;
            }
            _ => return self.scalar(column, cell),
        }
        column.count();
        Ok(())
    }

    /// Appends the elements of a list, a tuple, or anything with `tolist()`.
    fn items(&mut self, items: &mut ColumnBuilder, cell: &Bound<'py, PyAny>) -> CellResult {
        if let Ok(list) = cell.cast::<PyList>() {
            let mut index = 0;
            // The list may change its length while elements are asked for their values.
            while let Ok(item) = list.get_item(index) {
                self.item(items, index, &item)?;
                index += 1;
            }
            return Ok(());
        }
        if let Ok(tuple) = cell.cast::<PyTuple>() {
            return tuple
                .iter()
                .enumerate()
                .try_for_each(|(index, item)| self.item(items, index, &item));
        }
        if let Some(elements) = elements_of_numpy(cell).map_err(|error| Fault::asked(self.py, error))? {
            return self.items(items, &elements);
        }
        let list = cell
            .call_method0(intern!(self.py, "tolist"))
            .map_err(|_| Misfit::expected("a list or a tuple", &class_of(cell)))?;
        if list.is_instance_of::<PyList>() {
            return self.items(items, &list);
        }
        Err(Misfit::expected("a list or a tuple", &class_of(cell)).into())
    }

    fn item(&mut self, items: &mut ColumnBuilder, index: usize, item: &Bound<'py, PyAny>) -> CellResult {
        self.cell(items, item.as_ptr())
            .map_err(|fault| fault.in_item(index))
    }

    /// Appends the entries of a dict, or of a list of pairs.
    fn entries(&mut self, map: &mut MapValues, cell: &Bound<'py, PyAny>) -> CellResult {
        if let Ok(dict) = cell.cast::<PyDict>() {
            return dict
                .items()
                .iter()
                .enumerate()
                .try_for_each(|(index, pair)| self.pair(map, &pair).map_err(|fault| fault.in_item(index)));
        }
        if cell.is_instance_of::<PyList>() || cell.is_instance_of::<PyTuple>() {
            let pairs = cell.try_iter().map_err(|error| Fault::asked(self.py, error))?;
            for (index, pair) in pairs.enumerate() {
                let pair = pair.map_err(|error| Fault::asked(self.py, error))?;
                self.pair(map, &pair).map_err(|fault| fault.in_item(index))?;
            }
            return Ok(());
        }
        Err(Misfit::expected("a dict, or a list of pairs of keys and values", &class_of(cell)).into())
    }

    fn pair(&mut self, map: &mut MapValues, pair: &Bound<'py, PyAny>) -> CellResult {
        let (key, value) = match (pair.cast::<PyTuple>(), pair.cast::<PyList>()) {
            (Ok(pair), _) if pair.len() == 2 => (pair.get_item(0), pair.get_item(1)),
            (_, Ok(pair)) if pair.len() == 2 => (pair.get_item(0), pair.get_item(1)),
            _ => return Err(Misfit::expected("a pair of a key and a value", &class_of(pair)).into()),
        };
        let key = key.map_err(|error| Fault::asked(self.py, error))?;
        let value = value.map_err(|error| Fault::asked(self.py, error))?;
        if key.is_none() || is_missing(&key) {
            return Err(Misfit::new("null as the key of a map").into());
        }
        self.cell(&mut map.keys, key.as_ptr())
            .map_err(|fault| fault.in_field("key"))?;
        self.cell(&mut map.values, value.as_ptr())
            .map_err(|fault| fault.in_field("value"))
    }

    /// Appends a value that is not nested, by its class.
    fn scalar(&mut self, column: &mut ColumnBuilder, cell: &Bound<'py, PyAny>) -> CellResult {
        if let Ok(text) = cell.cast::<PyString>() {
            return Ok(column.push(Scalar::Text(self.utf8(text.as_ptr())?))?);
        }
        if let Ok(flag) = cell.cast::<PyBool>() {
            return Ok(column.push(Scalar::Bool(flag.is_true()))?);
        }
        if let Ok(int) = cell.cast::<PyInt>() {
            return self.integer(column, int);
        }
        if let Ok(float) = cell.cast::<PyFloat>() {
            return Ok(column.push(Scalar::Float(float.value()))?);
        }
        if let Ok(bytes) = cell.cast::<PyBytes>() {
            return Ok(column.push(Scalar::Bytes(bytes.as_bytes()))?);
        }
        if let Ok(bytes) = cell.cast::<PyByteArray>() {
            return Ok(column.push(Scalar::Bytes(&bytes.to_vec()))?);
        }
        if cell.is_instance_of::<PyMemoryView>() {
            let bytes = cell
                .call_method0("tobytes")
                .map_err(|error| Fault::asked(self.py, error))?;
            return self.scalar(column, &bytes);
        }
        match self.of_standard_library(cell) {
            Ok(Some(StandardValue::Scalar(scalar))) => Ok(column.push(scalar)?),
            Ok(Some(StandardValue::Decimal(text))) => Ok(column.push(Scalar::Number(&text))?),
            Ok(None) => self.number_like(column, cell),
            Err(error) => Err(Fault::asked(self.py, error)),
        }
    }

    fn integer(&self, column: &mut ColumnBuilder, int: &Bound<'py, PyInt>) -> CellResult {
        if let Ok(value) = int.extract::<i64>() {
            return Ok(column.push(Scalar::Int(value.into()))?);
        }
        // Not that of a subclass, which may say anything.
        let digits = self
            .py
            .get_type::<PyInt>()
            .call_method1(intern!(self.py, "__repr__"), (int,));
        let digits = digits.and_then(|text| text.extract::<String>());
        let digits = digits.map_err(|error| Fault::asked(self.py, error))?;
        Ok(column.push(digits.parse().map_or(Scalar::Number(&digits), Scalar::Int))?)
    }

    /// Converts dates, times, decimals, UUIDs, and instances of their subclasses.
    fn of_standard_library(&mut self, cell: &Bound<'py, PyAny>) -> PyResult<Option<StandardValue>> {
        let (py, classes) = (self.py, self.classes);
        Ok(Some(StandardValue::Scalar(
            if cell.is_instance(classes.datetime.bind(py))? {
                self.instant(cell)?
            } else if cell.is_instance(classes.date.bind(py))? {
                let ordinal: i32 = cell.call_method0(intern!(py, "toordinal"))?.extract()?;
                Scalar::Date(ordinal - EPOCH_ORDINAL)
            } else if cell.is_instance(classes.time.bind(py))? {
                return self.time(cell).map(|time| time.map(StandardValue::Scalar));
            } else if cell.is_instance(classes.timedelta.bind(py))? {
                Scalar::Duration(nanos_of(cell)?)
            } else if cell.is_instance(classes.decimal.bind(py))? {
                let decimal = classes.decimal.bind(py);
                // Not that of a subclass, which may say anything.
                let text = decimal.call_method1(intern!(py, "__str__"), (cell,))?;
                return Ok(Some(StandardValue::Decimal(text.extract()?)));
            } else if cell.is_instance(classes.uuid.bind(py))? {
                Scalar::Uuid(cell.getattr(intern!(py, "bytes"))?.extract()?)
            } else {
                return Ok(None);
            },
        )))
    }

    fn instant(&mut self, cell: &Bound<'py, PyAny>) -> PyResult<Scalar<'static>> {
        self.clock.learn(cell)?;
        let zoned = !cell.call_method0(intern!(self.py, "utcoffset"))?.is_none();
        let epoch = if zoned {
            &self.classes.epoch_utc
        } else {
            &self.classes.epoch_local
        };
        Ok(Scalar::Instant {
            nanos: nanos_of(&cell.sub(epoch.bind(self.py))?)?,
            zoned,
        })
    }

    /// Converts a time without a zone; none for one with a zone, whose offset would depend on an unknown day.
    fn time(&self, cell: &Bound<'py, PyAny>) -> PyResult<Option<Scalar<'static>>> {
        let py = self.py;
        if !cell.getattr(intern!(py, "tzinfo"))?.is_none() {
            return Ok(None);
        }
        let part = |name| -> PyResult<i64> { cell.getattr(name)?.extract() };
        let minutes = part(intern!(py, "hour"))? * 60 + part(intern!(py, "minute"))?;
        let micros =
            (minutes * 60 + part(intern!(py, "second"))?) * 1_000_000 + part(intern!(py, "microsecond"))?;
        Ok(Some(Scalar::Time(micros * 1_000)))
    }

    /// Appends numbers of other libraries: numpy's through `item()`, others through `__index__`, their numerator or
    /// `__float__`.
    fn number_like(&mut self, column: &mut ColumnBuilder, cell: &Bound<'py, PyAny>) -> CellResult {
        let py = self.py;
        let class = cell.get_type();
        let has = |name| class.hasattr(name).map_err(|error| Fault::asked(py, error));
        let ask = |name| cell.getattr_opt(name).map_err(|error| Fault::asked(py, error));
        let value = if has(intern!(py, "dtype"))? && has(intern!(py, "item"))? {
            // A series may have no dimensions to speak of, and an `item()` where it is one element long.
            let dimensions = ask(intern!(py, "ndim"))?.and_then(|number| number.extract::<usize>().ok());
            if dimensions != Some(0) {
                return Err(unfit(&column.values, cell));
            }
            // An element of a masked array has a number below its mask.
            let mask = ask(intern!(py, "mask"))?.map_or(Ok(false), |mask| mask.is_truthy());
            if mask.map_err(|error| Fault::asked(py, error))? {
                return Ok(column.push_null()?);
            }
            cell.call_method0(intern!(py, "item"))
        } else if has(intern!(py, "__index__"))? {
            cell.call_method0(intern!(py, "__index__"))
        } else if has(intern!(py, "numerator"))? && has(intern!(py, "denominator"))? {
            // As a float, a whole number would lose digits, and a fraction might become a whole number.
            let numerator = whole_numerator(cell).map_err(|error| Fault::asked(py, error))?;
            let is_float = matches!(column.values, Values::F16(_) | Values::F32(_) | Values::F64(_));
            match numerator {
                Some(numerator) => Ok(numerator),
                None if is_float => cell.call_method0(intern!(py, "__float__")),
                None => return Err(unfit(&column.values, cell)),
            }
        } else if has(intern!(py, "__float__"))? {
            cell.call_method0(intern!(py, "__float__"))
        } else {
            return Err(unfit(&column.values, cell));
        };
        let value = value.map_err(|error| Fault::asked(py, error))?;
        // A datetime64 that is NaT gives none at all.
        if value.is_none() {
            return Ok(column.push_null()?);
        }
        // A datetime64 of nanoseconds gives an integer that has lost its unit.
        if let Ok(count) = value.cast::<PyInt>()
            && let Some(unit) = clock_of_numpy(cell).map_err(|error| Fault::asked(py, error))?
        {
            let nanos = i128::from(count.extract::<i64>().map_err(|error| Fault::asked(py, error))?);
            return match unit {
                NumpyClock::Instant => Ok(column.push(Scalar::Instant { nanos, zoned: false })?),
                NumpyClock::Duration => Ok(column.push(Scalar::Duration(nanos))?),
                NumpyClock::Other => Err(unfit(&column.values, cell)),
            };
        }
        if is_plain(&value) {
            return self.slow_cell(column, &value);
        }
        Err(unfit(&column.values, cell))
    }
}

/// A NumPy `datetime64` or `timedelta64` whose `item()` is an integer.
pub(super) enum NumpyClock {
    /// Nanoseconds since the epoch.
    Instant,
    /// Nanoseconds.
    Duration,
    /// A unit that no column has, or a time out of Python's range.
    Other,
}

/// The kind of time of a NumPy scalar; `None` for numbers and arrays.
pub(super) fn clock_of_numpy(value: &Bound<'_, PyAny>) -> PyResult<Option<NumpyClock>> {
    match numpy_clock(value)? {
        Some((dtype, 0)) => {
            let text: String = dtype.getattr(intern!(value.py(), "str"))?.extract()?;
            Ok(Some(match text.get(1..) {
                Some("M8[ns]") => NumpyClock::Instant,
                Some("m8[ns]") => NumpyClock::Duration,
                _ => NumpyClock::Other,
            }))
        }
        Some(_) | None => Ok(None),
    }
}

/// The elements of a NumPy array of times; `None` for anything else. Its `tolist()` would return integers without their
/// unit.
pub(super) fn elements_of_numpy<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyList>>> {
    match numpy_clock(value)? {
        Some((_, dimensions)) if dimensions > 0 => {
            let elements = value.try_iter()?.collect::<PyResult<Vec<_>>>()?;
            Ok(Some(PyList::new(value.py(), elements)?))
        }
        Some(_) | None => Ok(None),
    }
}

/// The dtype and the number of dimensions of NumPy times.
fn numpy_clock<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<(Bound<'py, PyAny>, usize)>> {
    let py = value.py();
    let Some(dtype) = value.getattr_opt(intern!(py, "dtype"))? else {
        return Ok(None);
    };
    let (Some(kind), Some(dimensions)) = (
        dtype.getattr_opt(intern!(py, "kind"))?,
        value.getattr_opt(intern!(py, "ndim"))?,
    ) else {
        return Ok(None);
    };
    let is_clock = kind
        .cast::<PyString>()
        .is_ok_and(|kind| kind.to_str().is_ok_and(|kind| matches!(kind, "M" | "m")));
    Ok(if is_clock {
        Some((dtype, dimensions.extract()?))
    } else {
        None
    })
}

/// The integer that a fraction is, if it is one.
fn whole_numerator<'py>(fraction: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = fraction.py();
    if !fraction.getattr(intern!(py, "denominator"))?.eq(1)? {
        return Ok(None);
    }
    let numerator = fraction.getattr(intern!(py, "numerator"))?;
    numerator.call_method0(intern!(py, "__index__")).map(Some)
}

/// A value of the standard library.
enum StandardValue {
    Scalar(Scalar<'static>),
    Decimal(String),
}

/// Returns true if the value's class is a plain one, which is not asked for another value in turn.
fn is_plain(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyInt>()
        || value.is_instance_of::<PyFloat>()
        || value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyBytes>()
        || value.get_type().module().is_ok_and(|module| module == "datetime")
}

/// The nanoseconds of a timedelta. pandas' class has nanoseconds, and all other parts, of its own.
fn nanos_of(delta: &Bound<'_, PyAny>) -> PyResult<i128> {
    let py = delta.py();
    let nanos: Option<i128> = match delta.getattr_opt(intern!(py, "nanoseconds"))? {
        Some(nanos) => Some(nanos.extract::<i64>()?.into()),
        None => None,
    };
    let timedelta = Classes::get(py)?.timedelta.bind(py);
    let is_of_other = nanos.is_none() && !delta.get_type().is(timedelta);
    let part = |name: &Bound<'_, PyString>| -> PyResult<i128> {
        let part = if is_of_other {
            // Not those of a subclass, which may say anything.
            timedelta
                .getattr(name)?
                .call_method1(intern!(py, "__get__"), (delta,))?
        } else {
            delta.getattr(name)?
        };
        part.extract::<i64>().map(i128::from)
    };
    let seconds = part(intern!(py, "days"))? * SECONDS_PER_DAY + part(intern!(py, "seconds"))?;
    let nanos = nanos.unwrap_or(0);
    Ok(seconds * NANOS_PER_SECOND + part(intern!(py, "microseconds"))? * 1_000 + nanos)
}

/// The misfit of a key that names no field.
#[cold]
pub(super) fn not_a_name() -> Misfit {
    Misfit::new("a key is not a str: keys are the names of fields")
}

#[cold]
pub(super) fn half_of_a_pair() -> Misfit {
    Misfit::new("the text has half of a surrogate pair, which UTF-8 cannot hold")
}

#[cold]
fn unfit(values: &Values, cell: &Bound<'_, PyAny>) -> Fault {
    Misfit::expected(values.expects(), &class_of(cell)).into()
}

/// The class of a value, in words.
pub(crate) fn class_of(value: &Bound<'_, PyAny>) -> String {
    value.get_type().qualname().map_or_else(
        |_| "something else".into(),
        |name| format!("a value of class {name}"),
    )
}
