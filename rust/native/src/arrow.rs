//! Import of batches and schemas from `PyCapsule`s.
//!
//! Calls into the producer may take the GIL, so none of them is made while this thread holds the GIL or locks a writer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use parquet_writer::{Batch, WriteError, element_field};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyType};

use crate::c_data::{self, ArrayStream};
use crate::errors::{Failure, ours};

/// Classes whose rows are in memory whether or not they are asked for, by the package of their module and by name.
/// Readers, queries and classes that are not known may make each batch when it is asked for.
const IN_MEMORY: [(&str, &str); 6] = [
    ("pyarrow", "Table"),
    ("pyarrow", "RecordBatch"),
    ("polars", "DataFrame"),
    ("pandas", "DataFrame"),
    ("arro3", "Table"),
    ("arro3", "RecordBatch"),
];

/// Arrays of batches that are written together, nested ones included. Each takes some hundred bytes beside its rows.
const ARRAYS_TOGETHER: usize = 1 << 13;

/// An Arrow object from Python, imported and not yet checked.
pub(crate) struct ArrowSource {
    given: CDataInput,
    /// True if it is an object of polars.
    of_polars: bool,
    /// True if its batches are in memory whether or not they are asked for.
    in_memory: bool,
}

enum CDataInput {
    Stream(FFI_ArrowArrayStream),
    Array(FFI_ArrowSchema, FFI_ArrowArray),
}

impl ArrowSource {
    /// Takes a stream, or else an array, from any object with the Arrow `PyCapsule` interface.
    pub fn take(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let class = data.get_type();
        let mut in_memory = false;
        for base in class.mro() {
            in_memory |= is_in_memory(&base.cast_into()?)?;
        }
        Ok(Self {
            given: CDataInput::take(data)?,
            of_polars: class.module()?.to_string_lossy().starts_with("polars."),
            in_memory,
        })
    }

    /// The number of arrays that are written together: many if its batches are in memory whether or not they are asked
    /// for, as those of a table are, which is faster; else those of one batch.
    pub fn arrays_together(&self) -> usize {
        if self.in_memory { ARRAYS_TOGETHER } else { 1 }
    }

    /// Returns true if each batch may be made when it is asked for. Nobody else needs it then.
    pub fn is_made(&self) -> bool {
        !self.in_memory
    }

    /// The schema and the batches; the producer is called for both.
    pub fn open(self) -> Result<(SchemaRef, Batches), Failure> {
        let of_polars = self.of_polars;
        let (schema, batches) = guarded(move || {
            let (field, inner) = match self.given {
                CDataInput::Stream(stream) => {
                    let (field, stream) = ArrayStream::open(stream)?;
                    (field, ArraySource::Stream(stream))
                }
                CDataInput::Array(schema, array) => {
                    let field = c_data::field(&schema)?;
                    let array = c_data::array(array, field.data_type())?;
                    (field, ArraySource::One(Some(array)))
                }
            };
            let schema = struct_schema(&field)?;
            Ok((Arc::clone(&schema), Batches { schema, inner }))
        })?;
        if of_polars {
            refuse_objects(&schema)?;
        }
        Ok((schema, batches))
    }
}

impl CDataInput {
    fn take(data: &Bound<'_, PyAny>) -> PyResult<Self> {
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
}

/// Returns true if a class itself is one of [`IN_MEMORY`].
fn is_in_memory(class: &Bound<'_, PyType>) -> PyResult<bool> {
    let (module, name) = (class.module()?, class.qualname()?);
    let (module, name) = (module.to_string_lossy(), name.to_string_lossy());
    let package = module.split('.').next().unwrap_or_default();
    Ok(IN_MEMORY.contains(&(package, &name)))
}

/// Refuses columns of Python objects. polars exports their addresses as bytes of a fixed size, a type that it has no
/// other columns of.
fn refuse_objects(schema: &Schema) -> Result<(), Failure> {
    let is_objects = |field: &&Arc<Field>| matches!(field.data_type(), DataType::FixedSizeBinary(_));
    match schema.fields().iter().find(is_objects) {
        None => Ok(()),
        Some(field) => Err(WriteError::column(field.name(), format!(
            "column {:?} has type Object, which holds Python objects: map it to a type of Arrow's, or drop it",
            field.name()
        ))
        .into()),
    }
}

/// The batches of one source.
pub(crate) struct Batches {
    schema: SchemaRef,
    inner: ArraySource,
}

enum ArraySource {
    Stream(ArrayStream),
    One(Option<ArrayRef>),
}

/// What follows a group of batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Follows {
    /// Maybe more batches.
    More,
    /// Nothing.
    Nothing,
    /// The error of the producer.
    Failure,
}

impl Batches {
    /// Calls `write` with all batches in groups, each up to the batch with which it has `most` arrays. Where the
    /// producer fails, the batches before it are written first.
    pub fn each_group(
        mut self,
        most: usize,
        mut write: impl FnMut(&[Batch], Follows) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let arrays = arrays(self.schema.fields()).max(1);
        loop {
            let (mut group, mut end) = (Vec::new(), None);
            while end.is_none() && group.len() * arrays < most {
                match self.next() {
                    Ok(Some(batch)) => group.push(batch),
                    Ok(None) => end = Some(Ok(())),
                    Err(failure) => end = Some(Err(failure)),
                }
            }
            let follows = match &end {
                None => Follows::More,
                Some(Ok(())) => Follows::Nothing,
                Some(Err(_)) => Follows::Failure,
            };
            write(&group, follows)?;
            // Their producer is told when the writer is no longer locked.
            drop(group);
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// All batches; the producer is called for each.
    pub fn collect(mut self) -> Result<Vec<Batch>, Failure> {
        let mut all = Vec::new();
        while let Some(batch) = self.next()? {
            all.push(batch);
        }
        Ok(all)
    }

    /// The next batch; the producer is called for it.
    pub fn next(&mut self) -> Result<Option<Batch>, Failure> {
        guarded(|| {
            let next = match &mut self.inner {
                ArraySource::Stream(stream) => stream.next()?,
                ArraySource::One(array) => array.take(),
            };
            let batch = |array: ArrayRef| {
                Ok(Batch::from_struct(
                    Arc::clone(&self.schema),
                    array.as_struct().clone(),
                )?)
            };
            next.map(batch).transpose()
        })
    }
}

/// The number of arrays of columns, those inside of nested columns included.
fn arrays(fields: &Fields) -> usize {
    let within = |field: &Arc<Field>| match field.data_type() {
        DataType::Struct(fields) => arrays(fields),
        DataType::Dictionary(_, _) | DataType::RunEndEncoded(_, _) => 1,
        other => element_field(other).map_or(0, |element| arrays(&Fields::from(vec![Arc::clone(element)]))),
    };
    fields.iter().map(|field| 1 + within(field)).sum()
}

/// Runs work in which a malformed producer can cause a panic, and turns a panic into an error.
fn guarded<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Failure::Producer(
            "it breaks the rules of the Arrow C interface".into(),
        ))
    })
}

fn struct_schema(field: &Field) -> Result<SchemaRef, Failure> {
    match field.data_type() {
        DataType::Struct(fields) => Ok(Arc::new(Schema::new_with_metadata(
            fields.clone(),
            field.metadata().clone(),
        ))),
        other => Err(WriteError::schema(format!(
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
    let imported = guarded(move || struct_schema(&c_data::field(&schema)?));
    imported.map_err(|failure| failure.into_py(object.py()))
}

fn not_arrow(object: &Bound<'_, PyAny>, lacking: &str, wanted: &str) -> PyErr {
    let class = object
        .get_type()
        .qualname()
        .map_or_else(|_| "object".into(), |name| name.to_string_lossy().into_owned());
    let message = match class.as_str() {
        "LazyFrame" => "LazyFrame has no rows before it is collected: give it to write_parquet as it is, or the \
                        frame of .collect() or each of .collect_batches() to a writer"
            .into(),
        _ => format!(
            "{class} has neither {lacking}: give {wanted}, such as those of pyarrow, polars, pandas, DuckDB or arro3"
        )
        .replace("neither __arrow_c_schema__", "no __arrow_c_schema__"),
    };
    ours(object.py(), "NotArrowError", &message)
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
