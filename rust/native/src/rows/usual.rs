//! Appends cells of built-in classes that are not subclasses. No Python code runs for them, so that references are
//! borrowed and none is counted. What else there is, and every row with a fault, is read again by [`CellReader::dict`].

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyType};
use rows::{ColumnBuilder, Fields, Scalar, Values};

use crate::rows::cells::{CellReader, Fault};
use crate::rows::classes::Classes;

/// Integers up to this one are exact as doubles.
const EXACT: u64 = 1 << f64::MANTISSA_DIGITS;

/// The built-in classes, and the objects that have only one instance, by address.
pub(super) struct BuiltIn {
    none: *mut ffi::PyObject,
    yes: *mut ffi::PyObject,
    no: *mut ffi::PyObject,
    text: *mut ffi::PyTypeObject,
    int: *mut ffi::PyTypeObject,
    float: *mut ffi::PyTypeObject,
    bytes: *mut ffi::PyTypeObject,
    list: *mut ffi::PyTypeObject,
    dict: *mut ffi::PyTypeObject,
    datetime: *mut ffi::PyTypeObject,
}

impl BuiltIn {
    pub fn new(py: Python<'_>, classes: &Classes) -> Self {
        let address = |class: Bound<'_, PyType>| class.as_ptr().cast::<ffi::PyTypeObject>();
        Self {
            none: py.None().as_ptr(),
            yes: PyBool::new(py, true).as_ptr(),
            no: PyBool::new(py, false).as_ptr(),
            text: address(py.get_type::<PyString>()),
            int: address(py.get_type::<PyInt>()),
            float: address(py.get_type::<PyFloat>()),
            bytes: address(py.get_type::<PyBytes>()),
            list: address(py.get_type::<PyList>()),
            dict: address(py.get_type::<PyDict>()),
            datetime: classes.datetime.as_ptr().cast(),
        }
    }
}

/// A key and a value that a dict lent.
#[derive(Clone, Copy)]
pub(crate) struct Cell {
    key: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
}

/// The keys and values of a dict. Nothing else may run while it is walked.
struct Lent {
    dict: *mut ffi::PyObject,
    position: ffi::Py_ssize_t,
}

impl Iterator for Lent {
    type Item = Cell;

    #[inline]
    fn next(&mut self) -> Option<Cell> {
        let (mut key, mut value) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: `dict` is a dict, and somebody holds it.
        #[expect(
            unsafe_code,
            reason = "a walk by PyDict_Next counts no references: a fifth of the time"
        )]
        let more =
            unsafe { ffi::PyDict_Next(self.dict, &raw mut self.position, &raw mut key, &raw mut value) };
        (more != 0).then_some(Cell { key, value })
    }
}

/// Collects the addresses of a row's keys and values, and prefetches the objects into the cache.
#[inline]
pub(crate) fn gather(dict: &Bound<'_, PyDict>, cells: &mut Vec<Cell>) {
    cells.clear();
    let lent = Lent {
        dict: dict.as_ptr(),
        position: 0,
    };
    for cell in lent {
        prefetch(cell.key);
        prefetch(cell.value);
        cells.push(cell);
    }
}

/// Prefetches an object, and the start of its text, into the cache.
#[inline]
fn prefetch(object: *mut ffi::PyObject) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = object.cast::<i8>();
        // SAFETY: a hint about an address that is never read by it.
        #[expect(unsafe_code, reason = "rows out of the cache take half of the time with it")]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(start);
            _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(56));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = object;
}

/// True if the cell was appended. Else it may be in part, and the row has to be rolled back.
type Appended = Result<bool, Fault>;

impl CellReader<'_> {
    /// Appends a row that was gathered, if all of its cells are usual ones. No Python code may run between gathering
    /// and appending, so that borrowed references stay valid.
    #[inline]
    pub fn gathered(&mut self, cells: &[Cell], fields: &mut Fields, len: usize) -> Appended {
        self.usual_row(cells.iter().copied(), fields, len)
    }

    #[inline]
    fn usual_row(&mut self, cells: impl Iterator<Item = Cell>, fields: &mut Fields, len: usize) -> Appended {
        let (mut place, mut found) = (0, 0);
        for Cell { key, value } in cells {
            let Some(index) = self.column_of(key, fields, &mut place, len)? else {
                continue;
            };
            let column = &mut fields.columns[index];
            match self.usual_cell(column, value) {
                Ok(true) => found += 1,
                Ok(false) if self.usual_nested(column, value)? => found += 1,
                Ok(false) => return Ok(false),
                Err(fault) => return Err(fault.in_field(column.name())),
            }
        }
        fields.fill(len, found)?;
        Ok(true)
    }

    /// Appends a cell that is not nested. When it is not appended, nothing of it is.
    #[inline]
    pub(super) fn usual_cell(&self, column: &mut ColumnBuilder, cell: *mut ffi::PyObject) -> Appended {
        let built_in = &self.built_in;
        if cell == built_in.none {
            column.push_null()?;
            return Ok(true);
        }
        // SAFETY: the container holds the cell.
        #[expect(unsafe_code, reason = "one look at the class")]
        let class = unsafe { ffi::Py_TYPE(cell) };
        let done = match &mut column.values {
            Values::Text(text) if class == built_in.text => {
                text.push(self.utf8(cell)?)?;
                true
            }
            Values::I64(values) if class == built_in.int => self.push_int(values, cell),
            Values::I32(values) if class == built_in.int => self.push_int(values, cell),
            Values::I16(values) if class == built_in.int => self.push_int(values, cell),
            Values::I8(values) if class == built_in.int => self.push_int(values, cell),
            Values::F64(values) if class == built_in.float => {
                values.push(self.float(cell));
                true
            }
            Values::F64(values) if class == built_in.int => match self.short_int(cell) {
                #[expect(clippy::cast_precision_loss, reason = "it is exact")]
                Some(value) if value.unsigned_abs() <= EXACT => {
                    values.push(value as f64);
                    true
                }
                _ => false,
            },
            Values::Bool(values) if cell == built_in.yes || cell == built_in.no => {
                values.push(cell == built_in.yes);
                true
            }
            Values::Timestamp(unit, zoned, values) if class == built_in.datetime => {
                match self.clock.ticks(cell, *unit, *zoned) {
                    Some(ticks) => {
                        values.push(ticks);
                        true
                    }
                    None => false,
                }
            }
            Values::List(_)
            | Values::LargeList(_)
            | Values::FixedList(_)
            | Values::Struct(_)
            | Values::Map(_) => false,
            _ => return self.converted(column, cell, class),
        };
        if done {
            column.count();
        }
        Ok(done)
    }

    /// Appends a cell of a class that its column has to convert, such as text to a column of timestamps.
    fn converted(
        &self,
        column: &mut ColumnBuilder,
        cell: *mut ffi::PyObject,
        class: *mut ffi::PyTypeObject,
    ) -> Appended {
        let built_in = &self.built_in;
        let value = if class == built_in.text {
            Scalar::Text(self.utf8(cell)?)
        } else if class == built_in.int {
            match self.short_int(cell) {
                Some(value) => Scalar::Int(value.into()),
                None => return Ok(false),
            }
        } else if class == built_in.float {
            Scalar::Float(self.float(cell))
        } else if class == built_in.bytes {
            Scalar::Bytes(bytes(cell))
        } else {
            return Ok(false);
        };
        column.push(value)?;
        Ok(true)
    }

    /// Appends a list or a dict with usual cells.
    fn usual_nested(&mut self, column: &mut ColumnBuilder, cell: *mut ffi::PyObject) -> Appended {
        // SAFETY: the container holds the cell.
        #[expect(unsafe_code, reason = "one look at the class")]
        let class = unsafe { ffi::Py_TYPE(cell) };
        let len = column.len();
        let (is_list, is_dict) = (class == self.built_in.list, class == self.built_in.dict);
        let lent = Lent {
            dict: cell,
            position: 0,
        };
        let done = match &mut column.values {
            Values::List(list) if is_list => {
                let done = self.usual_items(&mut list.items, cell)?;
                list.end()?;
                done
            }
            Values::Struct(fields) if is_dict => self.usual_row(lent, fields, len)?,
            Values::Map(map) if is_dict => {
                for Cell { key, value } in lent {
                    if key == self.built_in.none
                        || !self.usual_value(&mut map.keys, key)?
                        || !self.usual_value(&mut map.values, value)?
                    {
                        return Ok(false);
                    }
                }
                map.end()?;
                true
            }
            _ => false,
        };
        if done {
            column.count();
        }
        Ok(done)
    }

    fn usual_items(&mut self, items: &mut ColumnBuilder, list: *mut ffi::PyObject) -> Appended {
        // SAFETY: `list` is a list that its container holds, and nothing runs that could change it.
        #[expect(unsafe_code, reason = "elements are borrowed, as cells are")]
        let length = unsafe { ffi::PyList_Size(list) };
        for index in 0..length {
            // SAFETY: as above; the index is below the length.
            #[expect(unsafe_code, reason = "elements are borrowed, as cells are")]
            let item = unsafe { ffi::PyList_GetItem(list, index) };
            if !self.usual_value(items, item)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn usual_value(&mut self, column: &mut ColumnBuilder, cell: *mut ffi::PyObject) -> Appended {
        Ok(self.usual_cell(column, cell)? || self.usual_nested(column, cell)?)
    }

    #[inline]
    fn push_int<T: TryFrom<i64>>(&self, values: &mut Vec<T>, cell: *mut ffi::PyObject) -> bool {
        match self.short_int(cell).map(T::try_from) {
            Some(Ok(value)) => {
                values.push(value);
                true
            }
            _ => false,
        }
    }

    /// An int within 64 bits.
    #[inline]
    fn short_int(&self, int: *mut ffi::PyObject) -> Option<i64> {
        if let Some(value) = self.layout.int(int) {
            return Some(value);
        }
        // SAFETY: the cell is an int; an overflow is an exception, which is taken back.
        #[expect(unsafe_code, reason = "as for every cell")]
        let value = unsafe { ffi::PyLong_AsLongLong(int) };
        if value == -1 && PyErr::take(self.py).is_some() {
            return None;
        }
        Some(value)
    }

    #[inline]
    fn float(&self, float: *mut ffi::PyObject) -> f64 {
        if let Some(value) = self.layout.float(float) {
            return value;
        }
        // SAFETY: the cell is a float, so this cannot fail.
        #[expect(unsafe_code, reason = "as for every cell")]
        unsafe {
            ffi::PyFloat_AsDouble(float)
        }
    }

    /// Returns true if a key is a str, or of a subclass.
    #[inline]
    pub(super) fn is_text(&self, key: *mut ffi::PyObject) -> bool {
        // SAFETY: the dict holds the key.
        #[expect(unsafe_code, reason = "one look at the class")]
        unsafe {
            ffi::Py_TYPE(key) == self.built_in.text || ffi::PyUnicode_Check(key) != 0
        }
    }
}

/// The content of a bytes object, valid as long as that.
#[inline]
fn bytes<'a>(bytes: *mut ffi::PyObject) -> &'a [u8] {
    // SAFETY: the cell is a bytes object, so neither can fail, and its container holds it.
    #[expect(unsafe_code, reason = "as for every cell")]
    unsafe {
        let start = ffi::PyBytes_AsString(bytes).cast::<u8>();
        std::slice::from_raw_parts(start, ffi::PyBytes_Size(bytes).unsigned_abs())
    }
}
