//! The hash of a row that Spark SQL computes, too.
//!
//! Spark's `xxhash64` chains XXH64 over the columns: the hash of one value is the seed of the next, and a null leaves
//! the seed as it is (`HashExpression` in Catalyst). Nulls at different places would therefore hash alike, and so would
//! an empty list and one of nulls. After the values, the positions of nulls are hashed:
//!
//! 1. for every 63 columns without nesting, in their order, a long with a bit for each null;
//! 2. for each nested column its [`ShapeHash`].
//!
//! Floats hash as Spark's: -0.0 like 0.0, and every NaN like one.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, OffsetSizeTrait, RecordBatch, StructArray};
use arrow_buffer::ArrowNativeType;
use arrow_schema::{DataType, TimeUnit};
use twox_hash::XxHash64;

use crate::error::Error;

/// The seed of `xxhash64` in Spark.
const SEED: u64 = 42;
/// Flat columns whose nulls share a long.
const COLUMNS_OF_A_WORD: usize = 63;
/// The most digits of a decimal that Spark keeps in a long.
const LONG_DIGITS: u8 = 18;
const MILLIS_OF_A_DAY: i64 = 86_400_000;

/// Takes the value at an index into a hash.
type Hash<'a> = Box<dyn Fn(usize, u64) -> u64 + 'a>;
/// Takes the nulls and sizes of the value at an index into a hash; the flag is false below a null.
type ShapeHash<'a> = Box<dyn Fn(usize, bool, u64) -> u64 + 'a>;

/// The hash of each row of `batch`, as Spark computes it from the rows that it reads of a file of them.
///
/// # Errors
/// [`Error::NotInSpark`] if a column has a type that Spark does not have.
pub fn spark_row_hashes(batch: &RecordBatch) -> Result<Vec<u64>, Error> {
    let mut hashes = vec![SEED; batch.num_rows()];
    for column in batch.columns() {
        let hash = hash_of(column.as_ref())?;
        for (index, row) in hashes.iter_mut().enumerate() {
            *row = hash(index, *row);
        }
    }
    let (nested, flat): (Vec<_>, Vec<_>) = batch
        .columns()
        .iter()
        .partition(|column| column.data_type().is_nested() && !is_dictionary(column.data_type()));
    for columns in flat.chunks(COLUMNS_OF_A_WORD) {
        let nulls: Vec<_> = columns.iter().map(Array::logical_nulls).collect();
        for (index, row) in hashes.iter_mut().enumerate() {
            let bits = nulls.iter().enumerate().fold(0, |bits, (place, nulls)| {
                let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(index));
                bits | i64::from(is_null) << place
            });
            *row = long(bits, *row);
        }
    }
    for column in nested {
        let shape = shape_of(column.as_ref())?;
        for (index, row) in hashes.iter_mut().enumerate() {
            *row = shape(index, true, *row);
        }
    }
    Ok(hashes)
}

const fn is_dictionary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(..))
}

fn int(value: i32, seed: u64) -> u64 {
    XxHash64::oneshot(seed, &value.to_le_bytes())
}

fn long(value: i64, seed: u64) -> u64 {
    XxHash64::oneshot(seed, &value.to_le_bytes())
}

fn hash_of(array: &dyn Array) -> Result<Hash<'_>, Error> {
    use DataType as T;
    Ok(match array.data_type() {
        T::Null => Box::new(|_, seed| seed),
        T::Boolean => {
            let values = array.as_boolean();
            unless_null(array, move |index, seed| int(values.value(index).into(), seed))
        }
        T::Int8 => primitive::<Int8Type>(array, |v, seed| int(v.into(), seed)),
        T::Int16 => primitive::<Int16Type>(array, |v, seed| int(v.into(), seed)),
        T::Int32 => primitive::<Int32Type>(array, int),
        T::Int64 => primitive::<Int64Type>(array, long),
        // Spark reads unsigned integers as the next wider type.
        T::UInt8 => primitive::<UInt8Type>(array, |v, seed| int(v.into(), seed)),
        T::UInt16 => primitive::<UInt16Type>(array, |v, seed| int(v.into(), seed)),
        T::UInt32 => primitive::<UInt32Type>(array, |v, seed| long(v.into(), seed)),
        T::UInt64 => primitive::<UInt64Type>(array, |v, seed| big_integer(v.into(), seed)),
        T::Float32 => primitive::<Float32Type>(array, |v, seed| int(float_bits(v), seed)),
        T::Float64 => primitive::<Float64Type>(array, |v, seed| long(double_bits(v), seed)),
        T::Date32 => primitive::<Date32Type>(array, int),
        T::Date64 => primitive::<Date64Type>(array, |v, seed| {
            // Days of a year that four digits hold fit.
            int(
                i32::try_from(v.div_euclid(MILLIS_OF_A_DAY)).unwrap_or(i32::MIN),
                seed,
            )
        }),
        T::Timestamp(TimeUnit::Second, _) => {
            primitive::<TimestampSecondType>(array, |v, seed| long(v.wrapping_mul(1_000_000), seed))
        }
        T::Timestamp(TimeUnit::Millisecond, _) => {
            primitive::<TimestampMillisecondType>(array, |v, seed| long(v.wrapping_mul(1000), seed))
        }
        T::Timestamp(TimeUnit::Microsecond, _) => primitive::<TimestampMicrosecondType>(array, long),
        // Spark keeps a time of day in a long of nanoseconds. It does not read times in milliseconds.
        T::Time64(TimeUnit::Microsecond) => {
            primitive::<Time64MicrosecondType>(array, |v, seed| long(v.wrapping_mul(1000), seed))
        }
        T::Time64(TimeUnit::Nanosecond) => primitive::<Time64NanosecondType>(array, long),
        T::Decimal32(precision, _) => {
            let hash = decimal(*precision);
            primitive::<Decimal32Type>(array, move |v, seed| hash(v.into(), seed))
        }
        T::Decimal64(precision, _) => {
            let hash = decimal(*precision);
            primitive::<Decimal64Type>(array, move |v, seed| hash(v.into(), seed))
        }
        T::Decimal128(precision, _) => primitive::<Decimal128Type>(array, decimal(*precision)),
        T::Utf8 => bytes(array, array.as_string::<i32>(), |v| v.as_bytes()),
        T::LargeUtf8 => bytes(array, array.as_string::<i64>(), |v| v.as_bytes()),
        T::Utf8View => bytes(array, array.as_string_view(), |v| v.as_bytes()),
        T::Binary => bytes(array, array.as_binary::<i32>(), |v| v),
        T::LargeBinary => bytes(array, array.as_binary::<i64>(), |v| v),
        T::BinaryView => bytes(array, array.as_binary_view(), |v| v),
        T::FixedSizeBinary(_) => bytes(array, array.as_fixed_size_binary(), |v| v),
        T::Dictionary(..) => hash_of_dictionary(array)?,
        T::List(_) => hash_of_list::<i32>(array)?,
        T::LargeList(_) => hash_of_list::<i64>(array)?,
        T::FixedSizeList(..) => {
            let list = array.as_fixed_size_list();
            let width = list.value_length().as_usize();
            let element = hash_of(list.values())?;
            unless_null(array, move |index, seed| {
                (index * width..(index + 1) * width).fold(seed, |seed, at| element(at, seed))
            })
        }
        T::Map(..) => {
            let map = array.as_map();
            let (key, value) = (hash_of(map.keys())?, hash_of(map.values())?);
            unless_null(array, move |index, seed| {
                range(map.value_offsets(), index).fold(seed, |seed, at| value(at, key(at, seed)))
            })
        }
        T::Struct(_) => {
            let fields = fields(array.as_struct(), hash_of)?;
            unless_null(array, move |index, seed| {
                fields.iter().fold(seed, |seed, hash| hash(index, seed))
            })
        }
        other => return Err(Error::NotInSpark(other.to_string())),
    })
}

fn unless_null<'a>(array: &'a dyn Array, hash: impl Fn(usize, u64) -> u64 + 'a) -> Hash<'a> {
    match array.nulls().filter(|nulls| nulls.null_count() > 0) {
        Some(nulls) => Box::new(move |index, seed| {
            if nulls.is_null(index) {
                seed
            } else {
                hash(index, seed)
            }
        }),
        None => Box::new(hash),
    }
}

fn primitive<'a, T: ArrowPrimitiveType>(
    array: &'a dyn Array,
    hash: impl Fn(T::Native, u64) -> u64 + 'a,
) -> Hash<'a> {
    let values = array.as_primitive::<T>().values();
    unless_null(array, move |index, seed| hash(values[index], seed))
}

fn bytes<'a, A: arrow_array::ArrayAccessor + 'a>(
    array: &'a dyn Array,
    values: A,
    bytes: impl Fn(&A::Item) -> &[u8] + 'a,
) -> Hash<'a> {
    unless_null(array, move |index, seed| {
        XxHash64::oneshot(seed, bytes(&values.value(index)))
    })
}

fn hash_of_dictionary(array: &dyn Array) -> Result<Hash<'_>, Error> {
    let dictionary = array.as_any_dictionary();
    let value = hash_of(dictionary.values().as_ref())?;
    if dictionary.values().is_empty() {
        return Ok(Box::new(|_, seed| seed));
    }
    let keys = dictionary.normalized_keys();
    Ok(unless_null(array, move |index, seed| value(keys[index], seed)))
}

fn hash_of_list<O: OffsetSizeTrait>(array: &dyn Array) -> Result<Hash<'_>, Error> {
    let list = array.as_list::<O>();
    let element = hash_of(list.values())?;
    Ok(unless_null(array, move |index, seed| {
        range(list.value_offsets(), index).fold(seed, |seed, at| element(at, seed))
    }))
}

fn fields<'a, T>(
    array: &'a StructArray,
    of: impl Fn(&'a dyn Array) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    array.columns().iter().map(|column| of(column.as_ref())).collect()
}

fn range<O: OffsetSizeTrait>(offsets: &[O], index: usize) -> std::ops::Range<usize> {
    offsets[index].as_usize()..offsets[index + 1].as_usize()
}

fn float_bits(value: f32) -> i32 {
    if value == 0.0 {
        0
    } else if value.is_nan() {
        f32::NAN.to_bits().cast_signed() & i32::MAX
    } else {
        value.to_bits().cast_signed()
    }
}

fn double_bits(value: f64) -> i64 {
    if value == 0.0 {
        0
    } else if value.is_nan() {
        f64::NAN.to_bits().cast_signed() & i64::MAX
    } else {
        value.to_bits().cast_signed()
    }
}

/// Spark keeps decimals of few digits in a long, and others as a big integer.
fn decimal(precision: u8) -> fn(i128, u64) -> u64 {
    if precision <= LONG_DIGITS {
        |value, seed| XxHash64::oneshot(seed, &value.to_le_bytes()[..8])
    } else {
        big_integer
    }
}

/// The bytes of Java's `BigInteger`: two's complement, the highest first, as few as hold the sign.
fn big_integer(value: i128, seed: u64) -> u64 {
    let all = value.to_be_bytes();
    let unneeded = all
        .windows(2)
        .take_while(|pair| match pair[0] {
            0x00 => pair[1] < 0x80,
            0xff => pair[1] >= 0x80,
            _ => false,
        })
        .count();
    XxHash64::oneshot(seed, &all[unneeded..])
}

/// The shape of a value: if it is null; of a list or map its size, -1 for a null, and the shapes of what it holds; of a
/// struct the shapes of its fields, too. Below a null all fields are null, and there are no elements.
fn shape_of(array: &dyn Array) -> Result<ShapeHash<'_>, Error> {
    use DataType as T;
    let nulls = array.logical_nulls();
    let is_valid = move |index| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(index));
    Ok(match array.data_type() {
        T::List(_) => shape_of_list::<i32>(array, is_valid)?,
        T::LargeList(_) => shape_of_list::<i64>(array, is_valid)?,
        T::FixedSizeList(..) => {
            let list = array.as_fixed_size_list();
            let width = list.value_length().as_usize();
            elements(vec![shape_of(list.values())?], is_valid, move |index| {
                index * width..(index + 1) * width
            })
        }
        T::Map(..) => {
            let map = array.as_map();
            let parts = vec![shape_of(map.keys())?, shape_of(map.values())?];
            elements(parts, is_valid, move |index| range(map.value_offsets(), index))
        }
        T::Struct(_) => {
            let fields = fields(array.as_struct(), shape_of)?;
            Box::new(move |index, below, seed| {
                let below = below && is_valid(index);
                fields.iter().fold(int((!below).into(), seed), |seed, shape| {
                    shape(index, below, seed)
                })
            })
        }
        _ => Box::new(move |index, below, seed| int((!(below && is_valid(index))).into(), seed)),
    })
}

fn shape_of_list<'a, O: OffsetSizeTrait>(
    array: &'a dyn Array,
    is_valid: impl Fn(usize) -> bool + 'a,
) -> Result<ShapeHash<'a>, Error> {
    let list = array.as_list::<O>();
    let parts = vec![shape_of(list.values())?];
    Ok(elements(parts, is_valid, move |index| {
        range(list.value_offsets(), index)
    }))
}

/// The size of a list or map, and the shapes of all its elements, part after part.
fn elements<'a>(
    parts: Vec<ShapeHash<'a>>,
    is_valid: impl Fn(usize) -> bool + 'a,
    range: impl Fn(usize) -> std::ops::Range<usize> + 'a,
) -> ShapeHash<'a> {
    Box::new(move |index, below, seed| {
        if !(below && is_valid(index)) {
            return int(-1, seed);
        }
        let range = range(index);
        let size = int(i32::try_from(range.len()).unwrap_or(i32::MAX), seed);
        parts.iter().fold(size, |seed, part| {
            range.clone().fold(seed, |seed, at| part(at, true, seed))
        })
    })
}
