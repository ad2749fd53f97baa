//! Size limits: find values that Parquet cannot hold before anything of a batch is taken.
//!
//! Every batch first passes a check that costs next to nothing and errs on the safe side: sizes are estimated from
//! above, and bytes under nulls and outside of slices are counted in. Where that check fails, the column is checked
//! value by value.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType, Int64Type,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, downcast_run_array};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_cast::cast;
use arrow_schema::{DataType, TimeUnit};
use parquet_encode::stats;

use crate::batch::Batch;
use crate::byte_slots::ByteSlots;
use crate::error::{Result, WriteError};
use crate::lists::{ElementSlots, child_of_lists};

/// The most bytes of a value, and of all values that a row has in one leaf column. A row lies in one page, and a page
/// has at most 2^31 - 1 bytes. The rest of them is left for lengths, levels and what compression may add.
pub const MOST_ROW_BYTES: u64 = (1 << 31) - (1 << 24);

/// Bytes of a value in a list beside its own: levels, and headers among packed values.
const LEVEL_BYTES: u64 = 3;
/// Bytes of a length beside those.
const LENGTH_BYTES: u64 = 4;
const MILLISECONDS_PER_DAY: i64 = 86_400_000;

/// Checks that Parquet can hold every value.
///
/// # Errors
/// [`WriteError::Schema`] names the column, the row and the value.
pub(crate) fn check(batch: &Batch) -> Result<()> {
    let columns = batch.schema.fields().iter().zip(&batch.columns);
    for (field, column) in columns.filter(|(_, column)| is_suspicious(column, false)) {
        let rows = (0..column.len()).map(|row| (row, row..row + 1)).collect();
        visit(field.name(), column, rows)?;
    }
    Ok(())
}

/// Returns true if there may be a value that Parquet cannot hold, or, in lists, too many of them in one row.
fn is_suspicious(array: &ArrayRef, in_lists: bool) -> bool {
    let holds = match array.data_type() {
        DataType::Date64 => {
            let values = array.as_primitive::<Date64Type>().values();
            values.iter().all(|value| is_day(*value))
        }
        DataType::Time32(TimeUnit::Second) => are_times(array.as_primitive::<Time32SecondType>()),
        DataType::Time32(_) => are_times(array.as_primitive::<Time32MillisecondType>()),
        DataType::Time64(TimeUnit::Microsecond) => are_times(array.as_primitive::<Time64MicrosecondType>()),
        DataType::Time64(_) => are_times(array.as_primitive::<Time64NanosecondType>()),
        DataType::Decimal32(_, _) => are_decimals::<Decimal32Type>(array),
        DataType::Decimal64(_, _) => are_decimals::<Decimal64Type>(array),
        DataType::Decimal128(precision, _) => {
            let digits = stats::digits(array.as_primitive::<Decimal128Type>().values());
            let bound = 10_u128.checked_pow((*precision).into());
            bound.is_some_and(|bound| digits < bound - 1) || are_decimals::<Decimal128Type>(array)
        }
        DataType::Decimal256(_, _) => are_decimals::<Decimal256Type>(array),
        DataType::Struct(_) => {
            let mut children = array.as_struct().columns().iter();
            return children.any(|child| is_suspicious(child, in_lists));
        }
        DataType::Dictionary(_, _) => !is_suspicious(array.as_any_dictionary().values(), false),
        DataType::RunEndEncoded(_, _) => !is_suspicious(&values_of_runs(array), false),
        _ => match elements(array) {
            Some(elements) => return is_suspicious(&elements, true),
            None => true,
        },
    };
    let most = if in_lists {
        most_bytes(array)
    } else {
        longest(array)
    };
    !holds || most > MOST_ROW_BYTES
}

/// Returns true for midnight of a day that fits 32 bits.
fn is_day(milliseconds: i64) -> bool {
    milliseconds % MILLISECONDS_PER_DAY == 0 && i32::try_from(milliseconds / MILLISECONDS_PER_DAY).is_ok()
}

/// Returns true if all values are times of a day.
fn are_times<T: ArrowPrimitiveType>(times: &PrimitiveArray<T>) -> bool
where
    T::Native: Ord + Into<i64>,
{
    let range = times.values().iter().min().zip(times.values().iter().max());
    let ticks = ticks_per_day(&T::DATA_TYPE);
    range.is_none_or(|(min, max)| (0..ticks).contains(&(*min).into()) && (0..ticks).contains(&(*max).into()))
}

/// Ticks of a day in the unit of a type of times.
fn ticks_per_day(times: &DataType) -> i64 {
    MILLISECONDS_PER_DAY
        * match times {
            DataType::Time64(TimeUnit::Nanosecond) => 1_000_000,
            DataType::Time64(_) => 1_000,
            _ => 1,
        }
        / if matches!(times, DataType::Time32(TimeUnit::Second)) {
            1_000
        } else {
            1
        }
}

fn are_decimals<T: DecimalType>(array: &ArrayRef) -> bool {
    let values = array.as_primitive::<T>();
    let precision = precision_and_scale(array.data_type()).0;
    let mut values = values.values().iter();
    values.all(|value| T::is_valid_decimal_precision(*value, precision))
}

fn precision_and_scale(data_type: &DataType) -> (u8, i8) {
    match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => (*precision, *scale),
        _ => (0, 0),
    }
}

/// The elements of lists, without those before the first and behind the last list.
fn elements(array: &ArrayRef) -> Option<ArrayRef> {
    let (slots, values) = ElementSlots::of(array).zip(child_of_lists(array))?;
    let range = slots.reach();
    // Lists of null may lead anywhere.
    let (start, end) = (range.start.min(values.len()), range.end.min(values.len()));
    Some(values.slice(start, end - start))
}

fn values_of_runs(array: &ArrayRef) -> ArrayRef {
    let data = array.to_data();
    arrow_array::make_array(data.child_data()[1].clone())
}

/// An upper bound of the longest value's bytes.
fn longest(array: &ArrayRef) -> u64 {
    // Every value is shorter than all of them: usually there is nothing more to ask.
    match ByteSlots::of(array) {
        Some(ByteSlots::Views(_, buffers)) => longest_buffer(buffers),
        Some(slots) => match slots.bytes(0..array.len()) {
            all if all <= MOST_ROW_BYTES => all,
            _ => longest_value(array),
        },
        None => longest_value(array),
    }
}

fn longest_value(array: &ArrayRef) -> u64 {
    if let Some(slots) = ByteSlots::of(array) {
        let lengths = (0..array.len()).map(|slot| slots.length(slot));
        return lengths.max().unwrap_or(0);
    }
    match array.data_type() {
        DataType::FixedSizeBinary(width) => u64::from(width.unsigned_abs()),
        DataType::Dictionary(_, _) => longest_value(array.as_any_dictionary().values()),
        DataType::RunEndEncoded(_, _) => longest_value(&values_of_runs(array)),
        other => other.primitive_width().unwrap_or(1) as u64,
    }
}

/// The size of the largest buffer, which bounds the values of views that are not inline.
fn longest_buffer(buffers: &[Buffer]) -> u64 {
    let sizes = buffers.iter().map(|buffer| buffer.len() as u64);
    sizes.max().unwrap_or(0)
}

/// An upper bound of the bytes of a page that has all values.
fn most_bytes(array: &ArrayRef) -> u64 {
    let values = match ByteSlots::of(array) {
        Some(slots) => slots.bytes(0..array.len()),
        None => array.len() as u64 * longest_value(array),
    };
    values + overhead(array) * array.len() as u64
}

/// Bytes of a value in a list beside its own.
fn overhead(array: &ArrayRef) -> u64 {
    match array.data_type() {
        DataType::Dictionary(_, _) => overhead(array.as_any_dictionary().values()),
        DataType::RunEndEncoded(_, _) => overhead(&values_of_runs(array)),
        _ if ByteSlots::of(array).is_some() => LEVEL_BYTES + LENGTH_BYTES,
        _ => LEVEL_BYTES,
    }
}

/// Rows of the batch, each with its slots of an array. Slots under nulls are left out.
type RowSlots = Vec<(usize, Range<usize>)>;

/// Looks at every value of a column.
fn visit(path: &str, array: &ArrayRef, rows: RowSlots) -> Result<()> {
    if let Some(children) = array.as_struct_opt() {
        let rows = valid(array, rows);
        let DataType::Struct(fields) = array.data_type() else {
            return Ok(());
        };
        let mut children = fields.iter().zip(children.columns());
        return children
            .try_for_each(|(field, child)| visit(&format!("{path}.{}", field.name()), child, rows.clone()));
    }
    let Some((lists, elements)) = ElementSlots::of(array).zip(child_of_lists(array)) else {
        return visit_leaf(path, array, &rows);
    };
    let slots = valid(array, rows).into_iter();
    let slots = slots.flat_map(|(row, slots)| slots.map(move |slot| (row, slot)));
    let rows = slots.map(|(row, slot)| (row, lists.of_row(slot))).collect();
    visit(&format!("{path}.element"), &elements, rows)
}

/// The same without slots that are null.
fn valid(array: &ArrayRef, rows: RowSlots) -> RowSlots {
    let Some(nulls) = array.logical_nulls().filter(|nulls| nulls.null_count() > 0) else {
        return rows;
    };
    let slots = rows
        .into_iter()
        .flat_map(|(row, slots)| slots.map(move |slot| (row, slot)));
    let valid = slots.filter(|(_, slot)| nulls.is_valid(*slot));
    valid.map(|(row, slot)| (row, slot..slot + 1)).collect()
}

fn visit_leaf(path: &str, array: &ArrayRef, rows: &RowSlots) -> Result<()> {
    let (values, places) = looked_up(array)?;
    let overhead = overhead(&values);
    let mut sum = (0, 0);
    for (row, slots) in rows {
        if sum.0 != *row {
            sum = (*row, 0);
        }
        for slot in slots.clone() {
            let Some(place) = places.of(slot) else {
                sum.1 += LEVEL_BYTES;
                continue;
            };
            if let Some((value, why)) = problem(&values, place) {
                return Err(WriteError::column(
                    path,
                    format!(
                        "column {path:?} has {value} in row {row} of this batch, {why}; the writer can go on"
                    ),
                ));
            }
            sum.1 += bytes(&values, place) + overhead;
        }
        if sum.1 > MOST_ROW_BYTES + overhead {
            return Err(WriteError::column(
                path,
                format!(
                    "column {path:?} has more than {MOST_ROW_BYTES} bytes in row {row} of this batch, and a row lies in one \
                 page, which ends at 2147483647 bytes: spread the values over several rows; the writer can go on"
                ),
            ));
        }
    }
    Ok(())
}

/// The value of each slot of an array.
enum ValueIndices {
    /// The value at the slot's own index, unless it is null.
    Own(Option<NullBuffer>),
    /// Any, or null.
    Named(Vec<Option<usize>>),
}

impl ValueIndices {
    fn of(&self, slot: usize) -> Option<usize> {
        match self {
            Self::Own(nulls) => nulls
                .as_ref()
                .is_none_or(|nulls| nulls.is_valid(slot))
                .then_some(slot),
            Self::Named(places) => places.get(slot).copied().flatten(),
        }
    }
}

/// The values behind dictionaries and runs, and the index of each slot's value. Copying the values could take too much
/// memory.
fn looked_up(array: &ArrayRef) -> Result<(ArrayRef, ValueIndices)> {
    match array.data_type() {
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            let (values, places) = looked_up(dictionary.values())?;
            let keys = cast(dictionary.keys(), &DataType::Int64)?;
            let place = |key: i64| places.of(usize::try_from(key).ok()?);
            let keys = keys.as_primitive::<Int64Type>().iter();
            let named = keys.map(|key| key.and_then(place)).collect();
            Ok((values, ValueIndices::Named(named)))
        }
        DataType::RunEndEncoded(_, _) => {
            let (values, places) = looked_up(&values_of_runs(array))?;
            let slots = 0..array.len();
            let named = downcast_run_array!(
                array => slots.map(|slot| places.of(array.get_physical_index(slot))).collect(),
                _ => Vec::new()
            );
            Ok((values, ValueIndices::Named(named)))
        }
        _ => Ok((array.clone(), ValueIndices::Own(array.nulls().cloned()))),
    }
}

/// The description of a value that Parquet cannot hold, and the reason.
fn problem(values: &ArrayRef, place: usize) -> Option<(String, String)> {
    match values.data_type() {
        DataType::Date64 => {
            let value = values.as_primitive::<Date64Type>().value(place);
            let why = "which is not midnight of a day that fits 32 bits, as Parquet's dates must be: store it as a timestamp";
            (!is_day(value)).then(|| (format!("the date64 {value}"), why.into()))
        }
        DataType::Time32(TimeUnit::Second) => time_problem::<Time32SecondType>(values, place),
        DataType::Time32(_) => time_problem::<Time32MillisecondType>(values, place),
        DataType::Time64(TimeUnit::Microsecond) => time_problem::<Time64MicrosecondType>(values, place),
        DataType::Time64(_) => time_problem::<Time64NanosecondType>(values, place),
        DataType::Decimal32(_, _) => digits_problem::<Decimal32Type>(values, place),
        DataType::Decimal64(_, _) => digits_problem::<Decimal64Type>(values, place),
        DataType::Decimal128(_, _) => digits_problem::<Decimal128Type>(values, place),
        DataType::Decimal256(_, _) => digits_problem::<Decimal256Type>(values, place),
        _ => {
            let bytes = bytes(values, place);
            let why = || {
                format!(
                    "and {MOST_ROW_BYTES} are the most: a Parquet page ends at 2147483647 bytes. Cut it into several values"
                )
            };
            (bytes > MOST_ROW_BYTES).then(|| (format!("a value of {bytes} bytes"), why()))
        }
    }
}

fn time_problem<T: ArrowPrimitiveType>(values: &ArrayRef, place: usize) -> Option<(String, String)>
where
    T::Native: Into<i64>,
{
    let value = values.as_primitive::<T>().value(place).into();
    let ticks = ticks_per_day(&T::DATA_TYPE);
    let why = || {
        format!(
            "which is not a time of day (0 to {}): store it as a duration",
            ticks - 1
        )
    };
    (!(0..ticks).contains(&value)).then(|| (format!("the {} {value}", T::DATA_TYPE), why()))
}

fn digits_problem<T: DecimalType>(values: &ArrayRef, place: usize) -> Option<(String, String)> {
    let value = values.as_primitive::<T>().value(place);
    let (precision, scale) = precision_and_scale(values.data_type());
    let why = || {
        format!(
            "which has more digits than decimal({precision}, {scale}) allows: declare a greater precision"
        )
    };
    let holds = T::is_valid_decimal_precision(value, precision);
    (!holds).then(|| (T::format_decimal(value, precision, scale), why()))
}

/// The bytes of a value.
fn bytes(values: &ArrayRef, place: usize) -> u64 {
    ByteSlots::of(values).map_or_else(|| longest_value(values), |slots| slots.length(place))
}
