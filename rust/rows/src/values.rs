//! The values of one column that is being built, by type.

use std::sync::Arc;

use arrow_array::types::{
    Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeBinaryArray, FixedSizeListArray, GenericListArray,
    MapArray, NullArray, OffsetSizeTrait, PrimitiveArray, StructArray,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer, i256};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, TimeUnit};
use half::f16;

use crate::column::{ColumnBuilder, packed};
use crate::error::{Misfit, UnsupportedColumn};
use crate::large_values::LargeValues;
use crate::repeated::check_keys;
use crate::table::Fields;
use crate::text::{Blob, Text};

/// The values of one column. Code that appends to a variant directly calls [`ColumnBuilder::count`].
#[derive(Debug)]
#[expect(missing_docs, reason = "the variants are Arrow's types")]
pub enum Values {
    Null,
    Bool(Vec<bool>),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    F16(Vec<f16>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Text(Text<i32>),
    LargeText(Text<i64>),
    Binary(Blob<i32>),
    LargeBinary(Blob<i64>),
    /// The width, and the bytes.
    FixedBinary(i32, Vec<u8>),
    /// Days.
    Date32(Vec<i32>),
    /// Milliseconds, of whole days.
    Date64(Vec<i64>),
    Time32(TimeUnit, Vec<i32>),
    Time64(TimeUnit, Vec<i64>),
    /// The unit, true if the column has a zone, and ticks since 1970.
    Timestamp(TimeUnit, bool, Vec<i64>),
    Duration(TimeUnit, Vec<i64>),
    /// Precision and scale.
    Decimal32(u8, i8, Vec<i32>),
    Decimal64(u8, i8, Vec<i64>),
    Decimal128(u8, i8, Vec<i128>),
    Decimal256(u8, i8, Vec<i256>),
    List(Box<ListValues<i32>>),
    LargeList(Box<ListValues<i64>>),
    FixedList(Box<FixedListValues>),
    Struct(Box<Fields>),
    Map(Box<MapValues>),
}

/// Lists: their elements in one column.
#[derive(Debug)]
pub struct ListValues<O> {
    ends: Vec<O>,
    large: LargeValues,
    /// The elements. [`Self::end`] makes one list of those that were appended.
    pub items: ColumnBuilder,
}

impl<O: OffsetSizeTrait> ListValues<O> {
    /// Ends a list.
    ///
    /// # Errors
    /// When there are more elements than the column's offsets can count.
    #[inline]
    pub fn end(&mut self) -> Result<(), Misfit> {
        let end = O::from_usize(self.items.len()).filter(|_| self.items.len() <= O::MAX_OFFSET);
        let start = self.ends[self.ends.len() - 1].as_usize();
        self.large.add_items(self.items.len() - start);
        self.ends.push(end.ok_or_else(too_many)?);
        Ok(())
    }

    pub(crate) fn share(&mut self, large: &LargeValues) {
        self.large = large.clone();
        self.items.share(large);
    }

    pub(crate) fn ends(&self) -> &[O] {
        &self.ends
    }

    fn push_empty(&mut self) {
        let last = self.ends.len() - 1;
        self.ends.push(self.ends[last]);
    }

    fn truncate(&mut self, len: usize) {
        self.ends.truncate(len + 1);
        self.items.truncate(self.ends[len].as_usize());
    }

    fn take_ends(&mut self) -> OffsetBuffer<O> {
        OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(
            &mut self.ends,
            vec![O::zero()],
        )))
    }

    fn finish(&mut self, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let ends = self.take_ends();
        let field = self.items.field();
        let items = self.items.finish()?;
        Ok(Arc::new(GenericListArray::<O>::try_new(
            field, ends, items, nulls,
        )?))
    }
}

/// Lists of one length.
#[derive(Debug)]
pub struct FixedListValues {
    size: i32,
    /// The elements. [`Self::end`] makes one list of those that were appended.
    pub items: ColumnBuilder,
    lists: usize,
}

impl FixedListValues {
    /// Ends a list.
    ///
    /// # Errors
    /// When it has another number of elements than the type says.
    pub fn end(&mut self) -> Result<(), Misfit> {
        let size = self.size.unsigned_abs() as usize;
        let found = self.items.len() - self.lists * size;
        if found != size {
            return Err(Misfit::new(format!("expected {size} elements, found {found}")));
        }
        self.lists += 1;
        Ok(())
    }

    pub(crate) fn size(&self) -> usize {
        self.size.unsigned_abs() as usize
    }

    fn push_filler(&mut self) {
        for _ in 0..self.size {
            self.items.push_filler();
        }
        self.lists += 1;
    }

    fn truncate(&mut self, len: usize) {
        self.lists = len;
        self.items.truncate(len * self.size.unsigned_abs() as usize);
    }

    fn finish(&mut self, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let lists = std::mem::take(&mut self.lists);
        let field = self.items.field();
        let items = self.items.finish()?;
        let array = FixedSizeListArray::try_new_with_length(field, self.size, items, nulls, lists)?;
        Ok(Arc::new(array))
    }
}

/// Maps: their keys and values in two columns.
#[derive(Debug)]
pub struct MapValues {
    ends: Vec<i32>,
    large: LargeValues,
    entries: FieldRef,
    sorted: bool,
    /// The keys.
    pub keys: ColumnBuilder,
    /// The values, one for each key.
    pub values: ColumnBuilder,
}

impl MapValues {
    /// Ends a map.
    ///
    /// # Errors
    /// When a key comes twice, or there are more entries than the column's offsets can count.
    pub fn end(&mut self) -> Result<(), Misfit> {
        let start = self.ends.last().map_or(0, |end| end.unsigned_abs() as usize);
        check_keys(&self.keys, start)?;
        let end = i32::try_from(self.keys.len()).map_err(|_| too_many())?;
        self.large.add_items(self.keys.len() - start);
        self.ends.push(end);
        Ok(())
    }

    pub(crate) fn share(&mut self, large: &LargeValues) {
        self.large = large.clone();
        self.keys.share(large);
        self.values.share(large);
    }

    pub(crate) fn ends(&self) -> &[i32] {
        &self.ends
    }

    fn push_empty(&mut self) {
        let last = self.ends.len() - 1;
        self.ends.push(self.ends[last]);
    }

    fn truncate(&mut self, len: usize) {
        self.ends.truncate(len + 1);
        let entries = self.ends[len].unsigned_abs() as usize;
        self.keys.truncate(entries);
        self.values.truncate(entries);
    }

    fn finish(&mut self, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        let ends = std::mem::replace(&mut self.ends, vec![0]);
        let fields = vec![self.keys.field(), self.values.field()].into();
        let length = self.keys.len();
        let columns = vec![self.keys.finish()?, self.values.finish()?];
        let entries = StructArray::try_new_with_length(fields, columns, None, length)?;
        Ok(Arc::new(MapArray::try_new(
            Arc::clone(&self.entries),
            OffsetBuffer::new(ScalarBuffer::from(ends)),
            entries,
            nulls,
            self.sorted,
        )?))
    }
}

#[cold]
fn too_many() -> Misfit {
    Misfit::full("more list elements than one batch can hold: write fewer rows at once".into())
}

/// Runs one expression for every variant whose values stand in a plain vector.
macro_rules! each_vector {
    ($values:expr, $vector:ident => $plain:expr, $($other:tt)*) => {
        match $values {
            Values::Bool($vector) => $plain,
            Values::I8($vector) => $plain,
            Values::I16($vector) => $plain,
            Values::I32($vector) | Values::Date32($vector) | Values::Time32(_, $vector)
            | Values::Decimal32(_, _, $vector) => $plain,
            Values::I64($vector) | Values::Date64($vector) | Values::Time64(_, $vector)
            | Values::Timestamp(_, _, $vector) | Values::Duration(_, $vector)
            | Values::Decimal64(_, _, $vector) => $plain,
            Values::U8($vector) => $plain,
            Values::U16($vector) => $plain,
            Values::U32($vector) => $plain,
            Values::U64($vector) => $plain,
            Values::F16($vector) => $plain,
            Values::F32($vector) => $plain,
            Values::F64($vector) => $plain,
            Values::Decimal128(_, _, $vector) => $plain,
            Values::Decimal256(_, _, $vector) => $plain,
            $($other)*
        }
    };
}

pub(crate) use each_vector;

impl Values {
    /// Empty values for columns of a type in its plain form.
    pub(crate) fn new(path: &str, data_type: &DataType) -> Result<Self, UnsupportedColumn> {
        use DataType as D;
        Ok(match data_type {
            D::Null => Self::Null,
            D::Boolean => Self::Bool(Vec::new()),
            D::Int8 => Self::I8(Vec::new()),
            D::Int16 => Self::I16(Vec::new()),
            D::Int32 => Self::I32(Vec::new()),
            D::Int64 => Self::I64(Vec::new()),
            D::UInt8 => Self::U8(Vec::new()),
            D::UInt16 => Self::U16(Vec::new()),
            D::UInt32 => Self::U32(Vec::new()),
            D::UInt64 => Self::U64(Vec::new()),
            D::Float16 => Self::F16(Vec::new()),
            D::Float32 => Self::F32(Vec::new()),
            D::Float64 => Self::F64(Vec::new()),
            D::Utf8 => Self::Text(Text::default()),
            D::LargeUtf8 => Self::LargeText(Text::default()),
            D::Binary => Self::Binary(Blob::default()),
            D::LargeBinary => Self::LargeBinary(Blob::default()),
            D::FixedSizeBinary(width) if *width >= 0 => Self::FixedBinary(*width, Vec::new()),
            D::Date32 => Self::Date32(Vec::new()),
            D::Date64 => Self::Date64(Vec::new()),
            D::Time32(unit) => Self::Time32(*unit, Vec::new()),
            D::Time64(unit) => Self::Time64(*unit, Vec::new()),
            D::Timestamp(unit, zone) => Self::Timestamp(
                *unit,
                zone.as_ref().is_some_and(|zone| !zone.is_empty()),
                Vec::new(),
            ),
            D::Duration(unit) => Self::Duration(*unit, Vec::new()),
            D::Decimal32(precision, scale) => Self::Decimal32(*precision, *scale, Vec::new()),
            D::Decimal64(precision, scale) => Self::Decimal64(*precision, *scale, Vec::new()),
            D::Decimal128(precision, scale) => Self::Decimal128(*precision, *scale, Vec::new()),
            D::Decimal256(precision, scale) => Self::Decimal256(*precision, *scale, Vec::new()),
            other => return Self::nested(path, other),
        })
    }

    fn nested(path: &str, data_type: &DataType) -> Result<Self, UnsupportedColumn> {
        let column = |field: &FieldRef| ColumnBuilder::new(&format!("{path}.{}", field.name()), field);
        Ok(match data_type {
            DataType::List(field) => Self::List(Box::new(ListValues {
                ends: vec![0],
                large: LargeValues::default(),
                items: column(field)?,
            })),
            DataType::LargeList(field) => Self::LargeList(Box::new(ListValues {
                ends: vec![0],
                large: LargeValues::default(),
                items: column(field)?,
            })),
            DataType::FixedSizeList(field, size) if *size >= 0 => {
                Self::FixedList(Box::new(FixedListValues {
                    size: *size,
                    items: column(field)?,
                    lists: 0,
                }))
            }
            DataType::Struct(fields) => Self::Struct(Box::new(Fields::new(path, fields)?)),
            DataType::Map(entries, sorted) => {
                let DataType::Struct(fields) = entries.data_type() else {
                    return Err(unsupported(path, data_type));
                };
                let [keys, values] = fields.as_ref() else {
                    return Err(unsupported(path, data_type));
                };
                Self::Map(Box::new(MapValues {
                    ends: vec![0],
                    large: LargeValues::default(),
                    entries: Arc::clone(entries),
                    sorted: *sorted,
                    keys: column(keys)?,
                    values: column(values)?,
                }))
            }
            other => return Err(unsupported(path, other)),
        })
    }

    /// Appends a value for the slot of a null.
    #[inline]
    pub(crate) fn push_filler(&mut self) {
        each_vector!(self, vector => push_default(vector),
            Self::Text(text) => text.push_empty(),
            Self::LargeText(text) => text.push_empty(),
            other => other.push_nested_filler(),
        );
    }

    fn push_nested_filler(&mut self) {
        match self {
            Self::Binary(blob) => blob.push_empty(),
            Self::LargeBinary(blob) => blob.push_empty(),
            Self::FixedBinary(width, data) => {
                data.resize(data.len() + width.unsigned_abs() as usize, 0);
            }
            Self::List(list) => list.push_empty(),
            Self::LargeList(list) => list.push_empty(),
            Self::FixedList(list) => list.push_filler(),
            Self::Struct(fields) => fields.columns.iter_mut().for_each(ColumnBuilder::push_filler),
            Self::Map(map) => map.push_empty(),
            _ => {}
        }
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        each_vector!(self, vector => vector.truncate(len),
            Self::Null => {},
            Self::Text(text) => text.truncate(len),
            Self::LargeText(text) => text.truncate(len),
            Self::Binary(blob) => blob.truncate(len),
            Self::LargeBinary(blob) => blob.truncate(len),
            Self::FixedBinary(width, data) => data.truncate(len * width.unsigned_abs() as usize),
            Self::List(list) => list.truncate(len),
            Self::LargeList(list) => list.truncate(len),
            Self::FixedList(list) => list.truncate(len),
            Self::Struct(fields) => fields.columns.iter_mut().for_each(|column| column.truncate(len)),
            Self::Map(map) => map.truncate(len),
        );
    }

    /// Bytes held, by and large.
    pub(crate) fn bytes(&self) -> usize {
        each_vector!(self, vector => std::mem::size_of_val(vector.as_slice()),
            Self::Null => 0,
            Self::Text(text) => text.bytes(),
            Self::LargeText(text) => text.bytes(),
            Self::Binary(blob) => blob.bytes(),
            Self::LargeBinary(blob) => blob.bytes(),
            Self::FixedBinary(_, data) => data.len(),
            Self::List(list) => list.items.bytes() + list.ends.len() * 4,
            Self::LargeList(list) => list.items.bytes() + list.ends.len() * 8,
            Self::FixedList(list) => list.items.bytes(),
            Self::Struct(fields) => fields.columns.iter().map(ColumnBuilder::bytes).sum(),
            Self::Map(map) => map.keys.bytes() + map.values.bytes() + map.ends.len() * 4,
        )
    }

    /// Builds the array, and empties the values.
    pub(crate) fn finish(
        &mut self,
        field: &Field,
        len: usize,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, ArrowError> {
        let kind = field.data_type();
        Ok(match self {
            Self::Null => Arc::new(NullArray::new(len)),
            Self::Bool(values) => {
                let bits = packed(values);
                values.clear();
                Arc::new(BooleanArray::new(bits, nulls))
            }
            Self::I8(values) => primitive::<Int8Type>(values, nulls, kind),
            Self::I16(values) => primitive::<Int16Type>(values, nulls, kind),
            Self::I32(values) => primitive::<Int32Type>(values, nulls, kind),
            Self::I64(values) => primitive::<Int64Type>(values, nulls, kind),
            Self::U8(values) => primitive::<UInt8Type>(values, nulls, kind),
            Self::U16(values) => primitive::<UInt16Type>(values, nulls, kind),
            Self::U32(values) => primitive::<UInt32Type>(values, nulls, kind),
            Self::U64(values) => primitive::<UInt64Type>(values, nulls, kind),
            Self::F16(values) => primitive::<Float16Type>(values, nulls, kind),
            Self::F32(values) => primitive::<Float32Type>(values, nulls, kind),
            Self::F64(values) => primitive::<Float64Type>(values, nulls, kind),
            Self::Text(text) => text.finish(nulls),
            Self::LargeText(text) => text.finish(nulls),
            Self::Binary(blob) => blob.finish(nulls),
            Self::LargeBinary(blob) => blob.finish(nulls),
            Self::FixedBinary(width, data) => {
                let data = Buffer::from_vec(std::mem::take(data));
                Arc::new(FixedSizeBinaryArray::try_new_with_len(*width, data, nulls, len)?)
            }
            Self::Decimal32(_, _, values) => primitive::<Decimal32Type>(values, nulls, kind),
            Self::Decimal64(_, _, values) => primitive::<Decimal64Type>(values, nulls, kind),
            Self::Decimal128(_, _, values) => primitive::<Decimal128Type>(values, nulls, kind),
            Self::Decimal256(_, _, values) => primitive::<Decimal256Type>(values, nulls, kind),
            Self::List(list) => list.finish(nulls)?,
            Self::LargeList(list) => list.finish(nulls)?,
            Self::FixedList(list) => list.finish(nulls)?,
            Self::Struct(fields) => {
                let columns = fields.finish()?;
                let of = fields.columns.iter().map(ColumnBuilder::field).collect();
                Arc::new(StructArray::try_new_with_length(of, columns, nulls, len)?)
            }
            Self::Map(map) => map.finish(nulls)?,
            temporal => temporal.finish_temporal(kind, nulls),
        })
    }

    fn finish_temporal(&mut self, kind: &DataType, nulls: Option<NullBuffer>) -> ArrayRef {
        use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
        match self {
            Self::Date32(values) => primitive::<Date32Type>(values, nulls, kind),
            Self::Date64(values) => primitive::<Date64Type>(values, nulls, kind),
            Self::Time32(Second, values) => primitive::<Time32SecondType>(values, nulls, kind),
            Self::Time32(_, values) => primitive::<Time32MillisecondType>(values, nulls, kind),
            Self::Time64(Nanosecond, values) => primitive::<Time64NanosecondType>(values, nulls, kind),
            Self::Time64(_, values) => primitive::<Time64MicrosecondType>(values, nulls, kind),
            Self::Timestamp(Second, _, values) => primitive::<TimestampSecondType>(values, nulls, kind),
            Self::Timestamp(Millisecond, _, values) => {
                primitive::<TimestampMillisecondType>(values, nulls, kind)
            }
            Self::Timestamp(Microsecond, _, values) => {
                primitive::<TimestampMicrosecondType>(values, nulls, kind)
            }
            Self::Timestamp(Nanosecond, _, values) => {
                primitive::<TimestampNanosecondType>(values, nulls, kind)
            }
            Self::Duration(Second, values) => primitive::<DurationSecondType>(values, nulls, kind),
            Self::Duration(Millisecond, values) => primitive::<DurationMillisecondType>(values, nulls, kind),
            Self::Duration(Microsecond, values) => primitive::<DurationMicrosecondType>(values, nulls, kind),
            Self::Duration(Nanosecond, values) => primitive::<DurationNanosecondType>(values, nulls, kind),
            // `finish` has taken all others.
            _ => Arc::new(NullArray::new(0)),
        }
    }
}

#[inline]
fn push_default<T: Default>(vector: &mut Vec<T>) {
    vector.push(T::default());
}

fn unsupported(path: &str, data_type: &DataType) -> UnsupportedColumn {
    UnsupportedColumn::Type {
        path: path.into(),
        data_type: data_type.clone(),
    }
}

fn primitive<T: ArrowPrimitiveType>(
    values: &mut Vec<T::Native>,
    nulls: Option<NullBuffer>,
    kind: &DataType,
) -> ArrayRef {
    // The next batch is expected to be as large.
    let next = Vec::with_capacity(values.len());
    let values = ScalarBuffer::from(std::mem::replace(values, next));
    Arc::new(PrimitiveArray::<T>::new(values, nulls).with_data_type(kind.clone()))
}
