//! The canonical 64 bits of every cell of an array, as the table in the crate's documentation defines them.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalDayTimeType,
    IntervalMonthDayNanoType, IntervalYearMonthType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayAccessor, FixedSizeListArray, StructArray, downcast_dictionary_array};
use arrow_array::{GenericListArray, GenericListViewArray, MapArray, OffsetSizeTrait, PrimitiveArray};
use arrow_buffer::{ArrowNativeType, NullBuffer, ScalarBuffer, i256};
use arrow_schema::{DataType, IntervalUnit};

use crate::error::Error;
use crate::mixing::{NULL, Tag, bytes, float_bits, fold, mix, word};
use crate::types::type_name;

/// Hashes every cell of `array` into `out`, which is cleared first.
pub(crate) fn hash_cells(array: &dyn Array, out: &mut Vec<u64>) -> Result<(), Error> {
    use DataType as T;
    out.clear();
    out.reserve(array.len());
    match array.data_type() {
        T::Null => out.resize(array.len(), NULL),
        T::Boolean => {
            let values = array.as_boolean();
            out.extend(values.values().iter().map(|v| word(Tag::Bool, u64::from(v))));
        }
        T::Int8 => words::<Int8Type>(array, out, |v| signed(v.into())),
        T::Int16 => words::<Int16Type>(array, out, |v| signed(v.into())),
        T::Int32 => words::<Int32Type>(array, out, |v| signed(v.into())),
        T::Int64 => words::<Int64Type>(array, out, signed),
        T::UInt8 => words::<UInt8Type>(array, out, |v| word(Tag::Unsigned, v.into())),
        T::UInt16 => words::<UInt16Type>(array, out, |v| word(Tag::Unsigned, v.into())),
        T::UInt32 => words::<UInt32Type>(array, out, |v| word(Tag::Unsigned, v.into())),
        T::UInt64 => words::<UInt64Type>(array, out, |v| word(Tag::Unsigned, v)),
        T::Float16 => words::<Float16Type>(array, out, |v| word(Tag::Float, float_bits(v.to_f64()))),
        T::Float32 => words::<Float32Type>(array, out, |v| word(Tag::Float, float_bits(v.into()))),
        T::Float64 => words::<Float64Type>(array, out, |v| word(Tag::Float, float_bits(v))),
        T::Date32 => words::<Date32Type>(array, out, |v| signed(v.into())),
        T::Date64 => words::<Date64Type>(array, out, signed),
        T::Time32(_) => return hash_cells(&integers::<Int32Type>(array), out),
        T::Time64(_) | T::Timestamp(..) | T::Duration(_) => {
            return hash_cells(&integers::<Int64Type>(array), out);
        }
        T::Decimal32(..) => words::<Decimal32Type>(array, out, |v| decimal(v.into())),
        T::Decimal64(..) => words::<Decimal64Type>(array, out, |v| decimal(v.into())),
        T::Decimal128(..) => words::<Decimal128Type>(array, out, decimal),
        T::Decimal256(..) => words::<Decimal256Type>(array, out, wide_decimal),
        T::Interval(unit) => hash_intervals(array, *unit, out),
        T::Utf8 => spans(&array.as_string::<i32>(), out, |v: &str| {
            bytes(Tag::Text, v.as_bytes())
        }),
        T::LargeUtf8 => spans(&array.as_string::<i64>(), out, |v: &str| {
            bytes(Tag::Text, v.as_bytes())
        }),
        T::Utf8View => spans(&array.as_string_view(), out, |v: &str| {
            bytes(Tag::Text, v.as_bytes())
        }),
        T::Binary => spans(&array.as_binary::<i32>(), out, |v| bytes(Tag::Bytes, v)),
        T::LargeBinary => spans(&array.as_binary::<i64>(), out, |v| bytes(Tag::Bytes, v)),
        T::BinaryView => spans(&array.as_binary_view(), out, |v| bytes(Tag::Bytes, v)),
        T::FixedSizeBinary(_) => spans(&array.as_fixed_size_binary(), out, |v| bytes(Tag::Bytes, v)),
        T::Dictionary(..) => return hash_dictionary(array, out),
        T::List(_) => hash_list(array.as_list::<i32>(), out)?,
        T::LargeList(_) => hash_list(array.as_list::<i64>(), out)?,
        T::ListView(_) => hash_list_view(array.as_list_view::<i32>(), out)?,
        T::LargeListView(_) => hash_list_view(array.as_list_view::<i64>(), out)?,
        T::FixedSizeList(..) => hash_fixed_size_list(array.as_fixed_size_list(), out)?,
        T::Map(..) => hash_map(array.as_map(), out)?,
        T::Struct(_) => hash_struct(array.as_struct(), out)?,
        other @ (T::Union(..) | T::RunEndEncoded(..)) => return Err(Error::Unsupported(other.to_string())),
    }
    mark_nulls(array.nulls(), out);
    Ok(())
}

/// Hashes each value of the dictionary once, unless it has more of them than there are cells.
fn hash_dictionary(array: &dyn Array, out: &mut Vec<u64>) -> Result<(), Error> {
    let dictionary = array.as_any_dictionary();
    let values = dictionary.values();
    if values.is_empty() || values.len() > array.len() {
        return hash_cells(plain(array)?.as_ref(), out);
    }
    let mut hashed = Vec::new();
    hash_cells(values.as_ref(), &mut hashed)?;
    out.extend(dictionary.normalized_keys().into_iter().map(|key| hashed[key]));
    mark_nulls(dictionary.keys().nulls(), out);
    Ok(())
}

/// The dictionary-encoded `array` with its values in place of its keys; other arrays are an error.
pub(crate) fn plain(array: &dyn Array) -> Result<arrow_array::ArrayRef, Error> {
    downcast_dictionary_array!(
        array => arrow_select::take::take(array.values(), array.keys(), None).map_err(|e| Error::Arrow(e.to_string())),
        other => Err(Error::Unsupported(type_name(other)?))
    )
}

/// The integers under a temporal array of any unit; `T` has the array's width.
pub(crate) fn integers<T: ArrowPrimitiveType>(array: &dyn Array) -> PrimitiveArray<T> {
    let data = array.to_data();
    let values = ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len());
    PrimitiveArray::new(values, array.nulls().cloned())
}

const fn signed(value: i64) -> u64 {
    word(Tag::Signed, value.cast_unsigned())
}

/// Low and high half, so that a decimal hashes alike at every width that holds it.
fn decimal(value: i128) -> u64 {
    wide_decimal(i256::from_i128(value))
}

fn wide_decimal(value: i256) -> u64 {
    let word_at = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |word, byte| (word << 8) | u64::from(*byte))
    };
    value
        .to_le_bytes()
        .chunks_exact(8)
        .fold(Tag::Decimal as u64, |hash, chunk| mix(hash ^ word_at(chunk)))
}

fn words<T: ArrowPrimitiveType>(array: &dyn Array, out: &mut Vec<u64>, hash: impl Fn(T::Native) -> u64) {
    out.extend(array.as_primitive::<T>().values().iter().map(|v| hash(*v)));
}

fn spans<A: ArrayAccessor>(array: &A, out: &mut Vec<u64>, hash: impl Fn(A::Item) -> u64) {
    for index in 0..array.len() {
        // What lies under a null is not part of the data, and need not be read.
        out.push(if array.is_null(index) {
            NULL
        } else {
            hash(array.value(index))
        });
    }
}

fn hash_intervals(array: &dyn Array, unit: IntervalUnit, out: &mut Vec<u64>) {
    let start = Tag::Interval as u64;
    match unit {
        IntervalUnit::YearMonth => {
            words::<IntervalYearMonthType>(array, out, |v| fold(start, signed(v.into())));
        }
        IntervalUnit::DayTime => words::<IntervalDayTimeType>(array, out, |v| {
            fold(fold(start, signed(v.days.into())), signed(v.milliseconds.into()))
        }),
        IntervalUnit::MonthDayNano => words::<IntervalMonthDayNanoType>(array, out, |v| {
            let days = fold(fold(start, signed(v.months.into())), signed(v.days.into()));
            fold(days, signed(v.nanoseconds))
        }),
    }
}

fn mark_nulls(nulls: Option<&NullBuffer>, out: &mut [u64]) {
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else {
        return;
    };
    for (cell, valid) in out.iter_mut().zip(nulls.iter()) {
        if !valid {
            *cell = NULL;
        }
    }
}

fn hash_element_range(children: &[u64]) -> u64 {
    let start = word(Tag::List, children.len() as u64);
    mix(children.iter().fold(start, |hash, cell| fold(hash, *cell)))
}

/// Hashes the lists whose elements are `ranges` of `elements`; `ranges` yields `None` for a null list.
fn hash_ranges(
    elements: &dyn Array,
    ranges: impl Iterator<Item = Option<Range<usize>>>,
    out: &mut Vec<u64>,
) -> Result<(), Error> {
    let mut children = Vec::new();
    hash_cells(elements, &mut children)?;
    out.extend(ranges.map(|range| range.map_or(NULL, |range| hash_element_range(&children[range]))));
    Ok(())
}

fn hash_list<O: OffsetSizeTrait>(array: &GenericListArray<O>, out: &mut Vec<u64>) -> Result<(), Error> {
    hash_offsets(array, array.values(), array.value_offsets(), out)
}

fn hash_map(array: &MapArray, out: &mut Vec<u64>) -> Result<(), Error> {
    hash_offsets(array, array.entries(), array.value_offsets(), out)
}

fn hash_offsets<O: OffsetSizeTrait>(
    array: &dyn Array,
    elements: &dyn Array,
    offsets: &[O],
    out: &mut Vec<u64>,
) -> Result<(), Error> {
    // A slice keeps the whole child: hash only what its offsets reach.
    let first = offsets.first().map_or(0, |o| o.as_usize());
    let last = offsets.last().map_or(0, |o| o.as_usize());
    let reached = elements.slice(first, last - first);
    let ranges = (0..array.len()).map(|i| {
        array
            .is_valid(i)
            .then(|| offsets[i].as_usize() - first..offsets[i + 1].as_usize() - first)
    });
    hash_ranges(reached.as_ref(), ranges, out)
}

fn hash_list_view<O: OffsetSizeTrait>(
    array: &GenericListViewArray<O>,
    out: &mut Vec<u64>,
) -> Result<(), Error> {
    let ranges = (0..array.len()).map(|i| {
        let start = array.value_offset(i).as_usize();
        array
            .is_valid(i)
            .then(|| start..start + array.value_size(i).as_usize())
    });
    hash_ranges(array.values(), ranges, out)
}

fn hash_fixed_size_list(array: &FixedSizeListArray, out: &mut Vec<u64>) -> Result<(), Error> {
    let width = array.value_length().as_usize();
    let ranges = (0..array.len()).map(|i| array.is_valid(i).then(|| i * width..(i + 1) * width));
    hash_ranges(array.values(), ranges, out)
}

fn hash_struct(array: &StructArray, out: &mut Vec<u64>) -> Result<(), Error> {
    out.resize(array.len(), Tag::Struct as u64);
    let mut cells = Vec::new();
    for column in array.columns() {
        hash_cells(column.as_ref(), &mut cells)?;
        for (hash, cell) in out.iter_mut().zip(&cells) {
            *hash = fold(*hash, *cell);
        }
    }
    for hash in out.iter_mut() {
        *hash = mix(*hash);
    }
    Ok(())
}
