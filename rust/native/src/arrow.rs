//! Batches and schemas out of `PyCapsule`s.
//!
//! Calls into the producer may take the GIL, so none of them is made with it held, nor with a writer locked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{ArrayRef, make_array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use parquet_writer::{Batch, WriteError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::{Failure, ours};

/// What an object gave, before anything of it was looked at.
pub(crate) enum Source {
    Stream(FFI_ArrowArrayStream),
    Array(FFI_ArrowSchema, FFI_ArrowArray),
}

impl Source {
    /// Takes a stream, or else an array, from any object with the Arrow `PyCapsule` interface.
    pub fn take(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Some(method) = data.getattr_opt("__arrow_c_stream__")? {
            let capsule = method.call0()?.cast_into::<PyCapsule>()?;
            return Ok(Self::Stream(take_stream(&capsule)?));
        }
        if let Some(method) = data.getattr_opt("__arrow_c_array__")? {
            let (schema, array) = method
                .call0()?
                .extract::<(Bound<'_, PyCapsule>, Bound<'_, PyCapsule>)>()?;
            return Ok(Self::Array(take_schema(&schema)?, take_array(&array)?));
        }
        Err(not_arrow(
            data,
            "__arrow_c_stream__ nor __arrow_c_array__",
            "a table, a data frame or a record batch",
        ))
    }

    /// The schema and the batches; the producer is called for both.
    pub fn open(self) -> Result<(SchemaRef, Batches), Failure> {
        guarded(move || match self {
            Self::Stream(stream) => {
                let reader = ArrayStreamReader::try_new(stream).map_err(unreadable)?;
                let schema = struct_schema(arrow_array::ArrayReader::field(&reader))?;
                Ok((
                    Arc::clone(&schema),
                    Batches {
                        schema,
                        inner: Inner::Stream(reader),
                    },
                ))
            }
            Self::Array(schema, array) => {
                let field = Field::try_from(&schema).map_err(unreadable)?;
                let columns = struct_schema(&field)?;
                // SAFETY: the capsules hold what the C Data Interface says, and nobody else uses them any more.
                #[expect(unsafe_code, reason = "importing over the C Data Interface")]
                let data = unsafe { from_ffi(array, &schema) }.map_err(produced)?;
                Ok((
                    Arc::clone(&columns),
                    Batches {
                        schema: columns,
                        inner: Inner::One(Some(make_array(data))),
                    },
                ))
            }
        })
    }
}

/// The batches of one source.
pub(crate) struct Batches {
    schema: SchemaRef,
    inner: Inner,
}

enum Inner {
    Stream(ArrayStreamReader),
    One(Option<ArrayRef>),
}

impl Batches {
    /// The next batch; the producer is called for it.
    pub fn next(&mut self) -> Result<Option<Batch>, Failure> {
        let next = guarded(|| match &mut self.inner {
            Inner::Stream(reader) => reader.next().transpose().map_err(produced),
            Inner::One(array) => Ok(array.take()),
        })?;
        next.map(|array| {
            Ok(Batch::from_struct(
                Arc::clone(&self.schema),
                array.as_struct().clone(),
            )?)
        })
        .transpose()
    }
}

/// Runs what a malformed producer can bring to panic.
fn guarded<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Failure::Producer(
            "it breaks the rules of the Arrow C interface".into(),
        ))
    })
}

fn produced(error: ArrowError) -> Failure {
    match error {
        ArrowError::CDataInterface(message) => Failure::Producer(message),
        other => Failure::Producer(other.to_string()),
    }
}

/// What was wrong with a schema; the crate wants text where Arrow allows bytes.
fn unreadable(error: ArrowError) -> Failure {
    match error {
        ArrowError::ParseError(message) => {
            let message =
                format!("the schema cannot be read: {message}. Names and metadata must be UTF-8 text");
            WriteError::Schema(message).into()
        }
        ArrowError::SchemaError(message) => WriteError::Schema(message).into(),
        other => produced(other),
    }
}

fn struct_schema(field: &Field) -> Result<SchemaRef, Failure> {
    match field.data_type() {
        DataType::Struct(fields) => Ok(Arc::new(Schema::new_with_metadata(
            fields.clone(),
            field.metadata().clone(),
        ))),
        other => Err(WriteError::Schema(format!(
            "the data is one column of type {other}, not rows: put it into a table or record batch first"
        ))
        .into()),
    }
}

/// A schema from any object with `__arrow_c_schema__`.
pub(crate) fn schema_from(object: &Bound<'_, PyAny>) -> PyResult<SchemaRef> {
    let Some(method) = object.getattr_opt("__arrow_c_schema__")? else {
        return Err(not_arrow(
            object,
            "__arrow_c_schema__",
            "a pyarrow.Schema or another Arrow schema",
        ));
    };
    let capsule = method.call0()?.cast_into::<PyCapsule>()?;
    let schema = take_schema(&capsule)?;
    let imported = guarded(move || struct_schema(&Field::try_from(&schema).map_err(unreadable)?));
    imported.map_err(|failure| failure.into_py(object.py()))
}

fn not_arrow(object: &Bound<'_, PyAny>, lacking: &str, wanted: &str) -> PyErr {
    let class = object
        .get_type()
        .qualname()
        .map_or_else(|_| "object".into(), |name| name.to_string());
    let message = format!(
        "{class} has neither {lacking}: give {wanted}, such as those of pyarrow, polars, pandas, DuckDB or arro3"
    );
    ours(
        object.py(),
        "NotArrowError",
        &message.replace("neither __arrow_c_schema__", "no __arrow_c_schema__"),
    )
}

fn take_stream(capsule: &Bound<'_, PyCapsule>) -> PyResult<FFI_ArrowArrayStream> {
    let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
    // SAFETY: a capsule of this name holds such a struct; moving out of it marks it released.
    #[expect(unsafe_code, reason = "the struct is moved out of its capsule")]
    Ok(unsafe { FFI_ArrowArrayStream::from_raw(pointer.cast().as_ptr()) })
}

fn take_schema(capsule: &Bound<'_, PyCapsule>) -> PyResult<FFI_ArrowSchema> {
    let pointer = capsule.pointer_checked(Some(c"arrow_schema"))?;
    // SAFETY: as in `take_stream`.
    #[expect(unsafe_code, reason = "the struct is moved out of its capsule")]
    Ok(unsafe { FFI_ArrowSchema::from_raw(pointer.cast().as_ptr()) })
}

fn take_array(capsule: &Bound<'_, PyCapsule>) -> PyResult<FFI_ArrowArray> {
    let pointer = capsule.pointer_checked(Some(c"arrow_array"))?;
    // SAFETY: as in `take_stream`.
    #[expect(unsafe_code, reason = "the struct is moved out of its capsule")]
    Ok(unsafe { FFI_ArrowArray::from_raw(pointer.cast().as_ptr()) })
}
