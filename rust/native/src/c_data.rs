//! The Arrow C Data Interface: accepts what producers export, and checks what consumers rely on.
//!
//! arrow-rs imports almost everything that producers export. The exceptions are metadata that is not UTF-8 and null
//! arrays with a buffer. It refuses an unknown type without naming the column, and trusts lengths without a check.

use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, make_array};
use arrow_data::layout;
use arrow_schema::ffi::Flags;
use arrow_schema::{ArrowError, DataType, Field, FieldRef};
use parquet_writer::{MOST_LEVELS, WriteError, element_field, metadata_text, too_deep};

use crate::errors::Failure;

/// `struct ArrowSchema`.
#[repr(C)]
struct CSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Self,
    dictionary: *mut Self,
    release: Option<unsafe extern "C" fn(*mut Self)>,
    private_data: *mut c_void,
}

impl CSchema {
    fn of(schema: &FFI_ArrowSchema) -> &Self {
        // SAFETY: both are `struct ArrowSchema`, field by field.
        #[expect(unsafe_code, reason = "arrow-rs lends metadata as text alone")]
        unsafe {
            &*std::ptr::from_ref(schema).cast()
        }
    }
}

/// `struct ArrowArray`.
#[repr(C)]
#[derive(Clone, Copy)]
struct CArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Self,
    dictionary: *mut Self,
    release: Option<unsafe extern "C" fn(*mut Self)>,
    private_data: *mut c_void,
}

const _: () = assert!(size_of::<CSchema>() == size_of::<FFI_ArrowSchema>());
const _: () = assert!(size_of::<CArray>() == size_of::<FFI_ArrowArray>());

/// Converts a schema to a field. That of a table is a struct of its columns.
pub(crate) fn field(schema: &FFI_ArrowSchema) -> Result<Field, Failure> {
    check_levels(schema)?;
    let imported = if has_bytes(schema)? {
        Field::try_from(&with_text(schema)?)
    } else {
        Field::try_from(schema)
    };
    imported.map_err(|error| match unknown_type(schema, "") {
        Some(refusal) => WriteError::schema(refusal).into(),
        None => unreadable(error),
    })
}

/// Refuses columns that are nested too deep before anything follows them by recursion.
fn check_levels(schema: &FFI_ArrowSchema) -> Result<(), Failure> {
    for column in schema.children() {
        let mut levels = 0;
        let mut level = schemas_within(column);
        while !level.is_empty() {
            levels += 1;
            level = level.into_iter().flat_map(schemas_within).collect();
        }
        if levels > MOST_LEVELS {
            return Err(too_deep(column.name().unwrap_or(""), levels).into());
        }
    }
    Ok(())
}

/// The schemas of a nested type's fields, those of the entries for a map.
fn schemas_within(schema: &FFI_ArrowSchema) -> Vec<&FFI_ArrowSchema> {
    let within = schema.children().chain(schema.dictionary());
    if schema.format() == "+m" {
        within.flat_map(FFI_ArrowSchema::children).collect()
    } else {
        within.collect()
    }
}

/// An array of the type `data_type`.
pub(crate) fn array(array: FFI_ArrowArray, data_type: &DataType) -> Result<ArrayRef, Failure> {
    CArray::of(&array).check(data_type)?;
    let array = if has_nulls(data_type) {
        Shadow::of(array, data_type)
    } else {
        array
    };
    // SAFETY: the struct is the producer's, or a shadow of it, and nobody else uses it any more.
    #[expect(unsafe_code, reason = "importing over the C Data Interface")]
    let data = unsafe { from_ffi_and_data_type(array, data_type.clone()) }.map_err(produced)?;
    Ok(make_array(data))
}

/// A stream of arrays of one type.
pub(crate) struct ArrayStream {
    stream: FFI_ArrowArrayStream,
    data_type: DataType,
}

impl ArrayStream {
    /// The field of a stream's arrays, and the stream.
    pub fn open(mut stream: FFI_ArrowArrayStream) -> Result<(Field, Self), Failure> {
        let Some(get_schema) = stream.get_schema().filter(|_| stream.release().is_some()) else {
            return Err(Failure::Producer("the stream was read before".into()));
        };
        let mut schema = FFI_ArrowSchema::empty();
        // SAFETY: the callback is the stream's own, which was not released. It fills the schema, or says that it
        // failed.
        #[expect(unsafe_code, reason = "a callback of the C Stream Interface")]
        let code = unsafe { get_schema(&raw mut stream, &raw mut schema) };
        if code != 0 {
            return Err(failed(&mut stream, code));
        }
        let field = field(&schema)?;
        let data_type = field.data_type().clone();
        Ok((field, Self { stream, data_type }))
    }

    /// The next array.
    pub fn next(&mut self) -> Result<Option<ArrayRef>, Failure> {
        let Some(get_next) = self.stream.get_next() else {
            return Err(broken("the stream gives no arrays"));
        };
        let mut next = FFI_ArrowArray::empty();
        // SAFETY: as in `open`.
        #[expect(unsafe_code, reason = "a callback of the C Stream Interface")]
        let code = unsafe { get_next(&raw mut self.stream, &raw mut next) };
        if code != 0 {
            return Err(failed(&mut self.stream, code));
        }
        if next.is_released() {
            return Ok(None);
        }
        array(next, &self.data_type).map(Some)
    }
}

/// The error of a stream's last call.
fn failed(stream: &mut FFI_ArrowArrayStream, code: i32) -> Failure {
    let message = stream.get_last_error().and_then(|last_error| {
        // SAFETY: the callback is the stream's own, and the call before it failed. What it lends is text that ends in
        // NUL and lives until the next call.
        #[expect(unsafe_code, reason = "a callback of the C Stream Interface")]
        unsafe {
            let message = last_error(stream);
            (!message.is_null()).then(|| CStr::from_ptr(message).to_string_lossy().into_owned())
        }
    });
    Failure::Producer(message.unwrap_or_else(|| format!("its producer failed with the error number {code}")))
}

fn produced(error: ArrowError) -> Failure {
    Failure::Producer(match error {
        ArrowError::CDataInterface(message) => message,
        other => other.to_string(),
    })
}

fn unreadable(error: ArrowError) -> Failure {
    match error {
        ArrowError::SchemaError(message) => WriteError::schema(message).into(),
        other => produced(other),
    }
}

/// An error about a producer that breaks the rules of the interface.
fn broken(what: &str) -> Failure {
    Failure::Producer(format!("it breaks the rules of the Arrow C interface: {what}"))
}

/// The metadata of one level of a schema, read step by step.
struct MetadataReader<'a> {
    at: *const u8,
    schema: PhantomData<&'a FFI_ArrowSchema>,
}

type MetadataPairs<'a> = Vec<(&'a [u8], &'a [u8])>;

impl<'a> MetadataReader<'a> {
    /// The keys and values.
    fn of(schema: &'a FFI_ArrowSchema) -> Result<MetadataPairs<'a>, Failure> {
        let start = CSchema::of(schema).metadata;
        if start.is_null() {
            return Ok(Vec::new());
        }
        let mut metadata = Self {
            at: start.cast(),
            schema: PhantomData,
        };
        let count = metadata.length()?;
        (0..count)
            .map(|_| Ok((metadata.text()?, metadata.text()?)))
            .collect()
    }

    fn text(&mut self) -> Result<&'a [u8], Failure> {
        let length = self.length()?;
        Ok(self.take(length))
    }

    fn length(&mut self) -> Result<usize, Failure> {
        let number = self.take(4).try_into().map_or(0, i32::from_ne_bytes);
        usize::try_from(number).map_err(|_| broken("a length in metadata is negative"))
    }

    fn take(&mut self, length: usize) -> &'a [u8] {
        // SAFETY: the interface says that so many bytes are here. They live as long as the schema.
        #[expect(unsafe_code, reason = "metadata does not say where it ends")]
        let found = unsafe { std::slice::from_raw_parts(self.at, length) };
        self.at = self.at.wrapping_add(length);
        found
    }
}

/// Returns true if any metadata is bytes that must be carried as text.
fn has_bytes(schema: &FFI_ArrowSchema) -> Result<bool, Failure> {
    let carried =
        |(key, value): &(&[u8], &[u8])| !(metadata_text::is_plain(key) && metadata_text::is_plain(value));
    if MetadataReader::of(schema)?.iter().any(carried) {
        return Ok(true);
    }
    for level in schema.children().chain(schema.dictionary()) {
        if has_bytes(level)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A copy of the schema whose metadata is text.
fn with_text(schema: &FFI_ArrowSchema) -> Result<FFI_ArrowSchema, Failure> {
    let children = schema.children().map(with_text).collect::<Result<_, _>>()?;
    let dictionary = schema.dictionary().map(with_text).transpose()?;
    let pairs = MetadataReader::of(schema)?.into_iter();
    let pairs = pairs.map(|(key, value)| (metadata_text::carried(key), metadata_text::carried(value)));
    let copy = FFI_ArrowSchema::try_new(schema.format(), children, dictionary).map_err(unreadable)?;
    let copy = copy.with_name(schema.name().unwrap_or("")).map_err(unreadable)?;
    let copy = copy
        .with_flags(Flags::from_bits_truncate(CSchema::of(schema).flags))
        .map_err(unreadable)?;
    // SAFETY: the copy was made by arrow-rs, just now.
    #[expect(unsafe_code, reason = "it would not do for a schema of others")]
    unsafe { copy.with_metadata(pairs) }.map_err(unreadable)
}

/// Returns the reason why a schema cannot be read, if that is a type that arrow-rs does not know.
fn unknown_type(schema: &FFI_ArrowSchema, path: &str) -> Option<String> {
    let is_struct = schema.format() == "+s";
    let inner = schema.children().chain(schema.dictionary()).find_map(|level| {
        match level.name().filter(|_| is_struct) {
            Some(name) if path.is_empty() => unknown_type(level, name),
            Some(name) => unknown_type(level, &format!("{path}.{name}")),
            None => unknown_type(level, path),
        }
    });
    if inner.is_some() || DataType::try_from(schema).is_ok() {
        return inner;
    }
    Some(match schema.format() {
        "_pli128" | "_plu128" => {
            let name = if schema.format() == "_pli128" {
                "Int128"
            } else {
                "UInt128"
            };
            format!(
                "column {path:?} has type {name}, which Arrow and Parquet do not have: cast it to Decimal(38, 0), or to \
                 Int64 where its values fit"
            )
        }
        other => format!(
            "column {path:?} has the Arrow type {other:?}, which is not known here: cast it to another"
        ),
    })
}

/// Returns true if the type is null, or contains null.
fn has_nulls(data_type: &DataType) -> bool {
    match data_type {
        DataType::Null => true,
        DataType::Dictionary(_, values) => has_nulls(values),
        other => children_of(other)
            .into_iter()
            .any(|child| has_nulls(child.data_type())),
    }
}

/// The fields of an array's children.
fn children_of(data_type: &DataType) -> Vec<&FieldRef> {
    match data_type {
        DataType::Struct(fields) => fields.iter().collect(),
        DataType::Union(fields, _) => fields.iter().map(|(_, field)| field).collect(),
        DataType::RunEndEncoded(ends, values) => vec![ends, values],
        other => element_field(other).into_iter().collect(),
    }
}

impl CArray {
    fn of(array: &FFI_ArrowArray) -> &Self {
        // SAFETY: both are `struct ArrowArray`, field by field.
        #[expect(unsafe_code, reason = "arrow-rs trusts what it says of lengths")]
        unsafe {
            &*std::ptr::from_ref(array).cast()
        }
    }

    /// The array that a pointer in this one leads to.
    #[expect(clippy::unused_self, reason = "it lives as long as this one")]
    fn at(&self, pointer: *mut Self) -> Option<&Self> {
        // SAFETY: the pointer is one of this array's, which are null or lead to arrays that live as long as it does.
        #[expect(unsafe_code, reason = "children are pointers")]
        unsafe {
            pointer.as_ref()
        }
    }

    /// The children, if there are `count`.
    fn children(&self, count: usize) -> Option<Vec<&Self>> {
        if usize::try_from(self.n_children) != Ok(count) {
            return None;
        }
        if count == 0 {
            return Some(Vec::new());
        }
        if self.children.is_null() {
            return None;
        }
        // SAFETY: it points to so many pointers.
        #[expect(unsafe_code, reason = "children are pointers")]
        let pointers = unsafe { std::slice::from_raw_parts(self.children, count) };
        pointers.iter().map(|pointer| self.at(*pointer)).collect()
    }

    /// The first and the last offset of an array with offsets, if it has values.
    fn ends<T: Into<i64>>(&self) -> Option<(i64, i64)> {
        let first = usize::try_from(self.offset).ok()?;
        let last = first.checked_add(usize::try_from(self.length).ok()?)?;
        if first == last || self.buffers.is_null() {
            return None;
        }
        // SAFETY: the array has more than one buffer, and the second is null or holds an offset more than it has slots.
        #[expect(unsafe_code, reason = "buffers are pointers")]
        unsafe {
            let offsets = self.buffers.add(1).read().cast::<T>();
            let offset = |slot| offsets.add(slot).read_unaligned().into();
            (!offsets.is_null()).then(|| (offset(first), offset(last)))
        }
    }
}

/// A broken rule, and the path to the array that breaks it, from the inside out.
struct Broken {
    path: Vec<String>,
    what: String,
}

impl From<Broken> for Failure {
    fn from(Broken { path, what }: Broken) -> Self {
        let path: Vec<_> = path.into_iter().rev().collect();
        match path.as_slice() {
            [] => broken(&what),
            path => broken(&format!("column {:?} {what}", path.join("."))),
        }
    }
}

impl CArray {
    /// Checks everything that needs no look at values: lengths, numbers of buffers and children, ends of offsets.
    fn check(&self, data_type: &DataType) -> Result<(), Broken> {
        let refuse = |what: String| {
            Err(Broken {
                path: Vec::new(),
                what,
            })
        };
        let ends = self.offset.checked_add(self.length);
        let Some(slots) = ends.filter(|_| self.offset >= 0 && self.length >= 0) else {
            return refuse("has a negative length".into());
        };
        let layout = layout(data_type);
        let buffers =
            layout.buffers.len() + usize::from(layout.can_contain_null_mask) + usize::from(layout.variadic);
        let has_buffers = usize::try_from(self.n_buffers).is_ok_and(|found| found >= buffers);
        if !layout.buffers.is_empty() && !has_buffers {
            return refuse(format!("has {} buffers, and needs {buffers}", self.n_buffers));
        }
        let fields = children_of(data_type);
        let Some(children) = self.children(fields.len()) else {
            return refuse(format!(
                "has {} children, and needs {}",
                self.n_children,
                fields.len()
            ));
        };
        let Some(elements) = self.elements(data_type) else {
            return refuse("has offsets that are negative or go down".into());
        };
        let needed = match data_type {
            DataType::Struct(_) => slots,
            DataType::FixedSizeList(_, size) => slots.saturating_mul(i64::from(*size)),
            DataType::RunEndEncoded(_, _) => children.first().map_or(0, |ends| ends.length),
            _ => elements,
        };
        let is_struct = matches!(data_type, DataType::Struct(_));
        for (field, child) in fields.into_iter().zip(children) {
            let checked = match child.length {
                length if length < needed => refuse(format!("has {length} values, and needs {needed}")),
                _ => child.check(field.data_type()),
            };
            checked.map_err(|mut broken| {
                if is_struct {
                    broken.path.push(field.name().clone());
                }
                broken
            })?;
        }
        match (data_type, self.at(self.dictionary)) {
            (DataType::Dictionary(_, values), Some(dictionary)) => dictionary.check(values),
            (DataType::Dictionary(_, _), None) => refuse("has no dictionary".into()),
            _ => Ok(()),
        }
    }

    /// The number of bytes or elements that offsets span; `None` where they are negative or end before they begin.
    fn elements(&self, data_type: &DataType) -> Option<i64> {
        let ends = match data_type {
            DataType::Utf8 | DataType::Binary | DataType::List(_) | DataType::Map(_, _) => self.ends::<i32>(),
            DataType::LargeUtf8 | DataType::LargeBinary | DataType::LargeList(_) => self.ends::<i64>(),
            _ => None,
        };
        match ends {
            Some((first, last)) => (0 <= first && first <= last).then_some(last),
            None => Some(0),
        }
    }
}

/// The parts of an array that stands in for another one.
struct Shadow {
    children: Box<[*mut CArray]>,
    dictionary: *mut CArray,
    /// The other one, where it owns itself.
    _original: Option<FFI_ArrowArray>,
}

impl Shadow {
    /// Makes an array that differs from `array` only in its null arrays: those have no buffers. The interface allows
    /// them none, and arrow-rs refuses others; polars gives them one.
    fn of(array: FFI_ArrowArray, data_type: &DataType) -> FFI_ArrowArray {
        let root = *CArray::of(&array);
        let mut shadow = Self::over(&root, data_type, Some(array));
        // SAFETY: the struct was made whole, and is moved from here.
        #[expect(unsafe_code, reason = "arrow-rs makes none of parts")]
        unsafe {
            FFI_ArrowArray::from_raw((&raw mut shadow).cast())
        }
    }

    fn over(array: &CArray, data_type: &DataType, original: Option<FFI_ArrowArray>) -> CArray {
        let own = |array: &CArray, data_type| Box::into_raw(Box::new(Self::over(array, data_type, None)));
        let fields = children_of(data_type);
        let children = array.children(fields.len()).unwrap_or_default();
        let children = fields
            .iter()
            .zip(children)
            .map(|(field, child)| own(child, field.data_type()));
        let dictionary = match (data_type, array.at(array.dictionary)) {
            (DataType::Dictionary(_, values), Some(dictionary)) => own(dictionary, values),
            _ => std::ptr::null_mut(),
        };
        let mut owned = Box::new(Self {
            children: children.collect(),
            dictionary,
            _original: original,
        });
        CArray {
            n_buffers: if data_type.is_null() { 0 } else { array.n_buffers },
            children: owned.children.as_mut_ptr(),
            dictionary,
            release: Some(release_shadow),
            private_data: Box::into_raw(owned).cast(),
            ..*array
        }
    }
}

/// Releases an array that stands in for another one, together with that one.
///
/// # Safety
/// As the C Data Interface has it: called once, with an array that `Shadow::over` made.
#[expect(unsafe_code, reason = "a callback of the C Data Interface")]
unsafe extern "C" fn release_shadow(array: *mut CArray) {
    // SAFETY: `Shadow::over` made the arrays below it as well, and what it owns.
    unsafe {
        let shadow = Box::from_raw((*array).private_data.cast::<Shadow>());
        for below in shadow
            .children
            .iter()
            .chain([&shadow.dictionary])
            .filter(|below| !below.is_null())
        {
            // One that was moved elsewhere is released there.
            if let Some(release) = (**below).release {
                release(*below);
            }
            drop(Box::from_raw(*below));
        }
        (*array).release = None;
    }
}
