//! Conversion of columns from any layout to one that encoders take.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait,
    PrimitiveArray, StructArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, FieldRef, Fields, TimeUnit};
use arrow_select::take::take;

use crate::error::{Result, WriteError};
use crate::int96;
use crate::integrity;
use crate::schema::{FileSchema, same_type};

/// Converts `array` to a layout that encoders for `target` accept. String and binary layouts stay as they are.
pub(crate) fn loosely(array: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    if acceptable(array.data_type(), target) {
        Ok(Arc::clone(array))
    } else {
        exactly(array, target)
    }
}

/// The columns of a batch with their times in the units that are stored. All other columns stay as they are.
///
/// # Errors
/// [`WriteError::Schema`] names the column with a time that its unit cannot hold.
pub(crate) fn with_stored_times(columns: &[ArrayRef], schema: &FileSchema) -> Result<Vec<ArrayRef>> {
    let convert = |(place, column): (usize, &ArrayRef)| {
        let (declared, stored) = (schema.declared.field(place), schema.timed.field(place));
        if !schema.int96[place] && same_type(declared.data_type(), stored.data_type()) {
            return Ok(Arc::clone(column));
        }
        exactly(column, schema.carried.field(place).data_type()).map_err(|error| match error {
            WriteError::Schema(fault) => {
                WriteError::column(declared.name(), format!("column {:?}: {fault}", declared.name()))
            }
            other => other,
        })
    };
    columns.iter().enumerate().map(convert).collect()
}

/// Returns true if encoders made for `target` take arrays of `actual` as they are.
fn acceptable(actual: &DataType, target: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, FixedSizeList, LargeBinary, LargeList, LargeUtf8, List, Map, Struct, Utf8,
        Utf8View,
    };
    match (actual, target) {
        // A leaf's dictionary is taken as it is.
        (DataType::Dictionary(_, values), target) if crate::column::is_flat(target) => {
            acceptable(values, target)
        }
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8)
        | (Binary | LargeBinary | BinaryView, Binary | LargeBinary) => true,
        (List(l) | LargeList(l), List(r) | LargeList(r)) => acceptable(l.data_type(), r.data_type()),
        (Map(l, left_sorted), Map(r, right_sorted)) => {
            left_sorted == right_sorted && acceptable(l.data_type(), r.data_type())
        }
        (FixedSizeList(l, left_size), FixedSizeList(r, right_size)) => {
            left_size == right_size && acceptable(l.data_type(), r.data_type())
        }
        (Struct(l), Struct(r)) => {
            l.len() == r.len()
                && l.iter()
                    .zip(r)
                    .all(|(l, r)| acceptable(l.data_type(), r.data_type()))
        }
        (DataType::Timestamp(l, _), DataType::Timestamp(r, _)) => l == r,
        (l, r) => l == r,
    }
}

/// Converts `array` to the type `target`, which must be the same logical type.
pub(crate) fn exactly(array: &ArrayRef, target: &DataType) -> Result<ArrayRef> {
    if array.data_type() == target {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), target) {
        (DataType::Dictionary(_, _), _) => exactly(&looked_up(array)?, target),
        (DataType::RunEndEncoded(_, _), _) => exactly(&crate::schema::expand_runs(array)?, target),
        (DataType::Timestamp(_, _), DataType::Timestamp(unit, zone)) => {
            timestamps(array, *unit, zone.clone())
        }
        (DataType::Timestamp(unit, _), DataType::FixedSizeBinary(_)) => int96::from_timestamps(array, *unit),
        (DataType::Time32(TimeUnit::Second), DataType::Time32(TimeUnit::Millisecond)) => {
            let seconds = array.as_primitive::<Time32SecondType>();
            Ok(Arc::new(
                scaled::<Int32Type>(seconds.reinterpret_cast(), 1000)?
                    .reinterpret_cast::<Time32MillisecondType>(),
            ))
        }
        (DataType::Struct(_), DataType::Struct(fields)) => Ok(Arc::new(structs(array.as_struct(), fields)?)),
        (DataType::List(_), DataType::List(field)) => lists(array.as_list::<i32>(), field),
        (DataType::LargeList(_), DataType::LargeList(field)) => lists(array.as_list::<i64>(), field),
        (DataType::FixedSizeList(_, size), DataType::FixedSizeList(field, _)) => {
            let list = array.as_fixed_size_list();
            let values = exactly(list.values(), field.data_type())?;
            Ok(Arc::new(FixedSizeListArray::try_new_with_length(
                Arc::clone(field),
                *size,
                values,
                list.nulls().cloned(),
                list.len(),
            )?))
        }
        (DataType::Map(_, _), DataType::Map(field, sorted)) => maps(array.as_map(), field, *sorted),
        (
            DataType::List(from)
            | DataType::LargeList(from)
            | DataType::ListView(from)
            | DataType::LargeListView(from),
            DataType::List(_) | DataType::LargeList(_),
        ) => {
            let large = matches!(target, DataType::LargeList(_));
            let same_child = if large {
                DataType::LargeList(from.clone())
            } else {
                DataType::List(from.clone())
            };
            let array = integrity::without_stray_views(array)?;
            exactly(&arrow_cast::cast(&array, &same_child)?, target)
        }
        (DataType::Utf8View | DataType::BinaryView, _) => {
            Ok(arrow_cast::cast(&integrity::without_stray_views(array)?, target)?)
        }
        _ => Ok(arrow_cast::cast(array, target)?),
    }
}

/// The values that a dictionary's keys refer to. A key under a null parent may be invalid.
fn looked_up(array: &ArrayRef) -> Result<ArrayRef> {
    let dictionary = array.as_any_dictionary();
    let keys = arrow_cast::cast(dictionary.keys(), &DataType::Int64)?;
    let values = i64::try_from(dictionary.values().len()).unwrap_or(i64::MAX);
    let named = keys
        .as_primitive::<Int64Type>()
        .unary_opt::<_, Int64Type>(|key| (0..values).contains(&key).then_some(key));
    Ok(take(dictionary.values(), &named, None)?)
}

fn structs(array: &StructArray, fields: &Fields) -> Result<StructArray> {
    let columns = array
        .columns()
        .iter()
        .zip(fields)
        .map(|(column, field)| exactly(column, field.data_type()));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(StructArray::try_new_with_length(
        fields.clone(),
        columns,
        array.nulls().cloned(),
        array.len(),
    )?)
}

fn lists<T: OffsetSizeTrait>(list: &GenericListArray<T>, field: &FieldRef) -> Result<ArrayRef> {
    let (offsets, range) = from_zero(list.offsets());
    let values = exactly(&list.values().slice(range.start, range.len()), field.data_type())?;
    Ok(Arc::new(GenericListArray::<T>::try_new(
        Arc::clone(field),
        offsets,
        values,
        list.nulls().cloned(),
    )?))
}

/// Offsets that start at zero, and the range of elements that the given ones span. A slice has elements outside of that
/// range.
fn from_zero<T: OffsetSizeTrait>(offsets: &OffsetBuffer<T>) -> (OffsetBuffer<T>, Range<usize>) {
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    let range = first.as_usize()..last.as_usize();
    if first == T::zero() {
        return (offsets.clone(), range);
    }
    let moved: Vec<T> = offsets.iter().map(|offset| *offset - first).collect();
    (OffsetBuffer::new(moved.into()), range)
}

fn maps(map: &MapArray, field: &FieldRef, sorted: bool) -> Result<ArrayRef> {
    let DataType::Struct(fields) = field.data_type() else {
        return Err(WriteError::schema(format!(
            "a map's entries are {}, not a struct",
            field.data_type()
        )));
    };
    let (offsets, range) = from_zero(map.offsets());
    let entries = structs(&map.entries().slice(range.start, range.len()), fields)?;
    Ok(Arc::new(MapArray::try_new(
        Arc::clone(field),
        offsets,
        entries,
        map.nulls().cloned(),
        sorted,
    )?))
}

/// Timestamps in another unit: coarser ones are rounded down, also before 1970; finer ones must not overflow.
fn timestamps(array: &ArrayRef, unit: TimeUnit, zone: Option<Arc<str>>) -> Result<ArrayRef> {
    let DataType::Timestamp(from, _) = array.data_type() else {
        return Ok(arrow_cast::cast(array, &DataType::Timestamp(unit, zone))?);
    };
    let ticks: PrimitiveArray<arrow_array::types::Int64Type> = match from {
        TimeUnit::Second => array.as_primitive::<TimestampSecondType>().reinterpret_cast(),
        TimeUnit::Millisecond => array
            .as_primitive::<TimestampMillisecondType>()
            .reinterpret_cast(),
        TimeUnit::Microsecond => array
            .as_primitive::<TimestampMicrosecondType>()
            .reinterpret_cast(),
        TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().reinterpret_cast(),
    };
    let (from, to) = (per_second(*from), per_second(unit));
    let ticks = if from > to {
        ticks.unary(|tick| tick.div_euclid(from / to))
    } else {
        scaled(ticks, to / from)?
    };
    Ok(match unit {
        TimeUnit::Second => Arc::new(
            ticks
                .reinterpret_cast::<TimestampSecondType>()
                .with_timezone_opt(zone),
        ),
        TimeUnit::Millisecond => Arc::new(
            ticks
                .reinterpret_cast::<TimestampMillisecondType>()
                .with_timezone_opt(zone),
        ),
        TimeUnit::Microsecond => Arc::new(
            ticks
                .reinterpret_cast::<TimestampMicrosecondType>()
                .with_timezone_opt(zone),
        ),
        TimeUnit::Nanosecond => Arc::new(
            ticks
                .reinterpret_cast::<TimestampNanosecondType>()
                .with_timezone_opt(zone),
        ),
    })
}

const fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

fn scaled<T>(array: PrimitiveArray<T>, factor: T::Native) -> Result<PrimitiveArray<T>>
where
    T: ArrowPrimitiveType,
    T::Native: arrow_array::ArrowNativeTypeOp,
{
    use arrow_array::ArrowNativeTypeOp as _;
    if factor == T::Native::ONE {
        return Ok(array);
    }
    array.try_unary(|value| value.mul_checked(factor)).map_err(|_| {
        WriteError::schema(
            "a time is out of range in the unit that the file stores: filter it out, or store a coarser unit",
        )
    })
}
