//! The values of a leaf's Arrow array as slices of Parquet's physical types, whatever the array's layout.

use arrow_buffer::{ArrowNativeType, Buffer, NullBuffer, i256};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use parquet::basic::Type;
use parquet_encode::bitmap::Bitmap;
use parquet_encode::byte_arrays::{FixedSize, Offsets};
use parquet_encode::dictionary::DictionaryKey;
use parquet_encode::fixed::Fixed;
use parquet_encode::plain;

use super::piece::Piece;
use crate::column::unexpected;
use crate::error::Result;

/// Values of one run of rows; slots of nulls hold anything.
pub(super) enum RunValues<'a> {
    Bools {
        bytes: &'a [u8],
        offset: usize,
    },
    I32(&'a [i32]),
    I64(&'a [i64]),
    F32(&'a [f32]),
    F64(&'a [f64]),
    Small(Offsets<'a, i32>),
    Large(Offsets<'a, i64>),
    Views {
        views: &'a [u128],
        buffers: Vec<&'a [u8]>,
    },
    Fixed(FixedSize<'a>),
    /// Keys into values of one of the other kinds, none of which is null.
    Keys {
        keys: DictionaryKeys<'a>,
        values: Box<RunValues<'a>>,
        len: usize,
    },
}

/// The keys of a dictionary array.
#[derive(Clone, Copy)]
pub(super) enum DictionaryKeys<'a> {
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
}

impl DictionaryKeys<'_> {
    /// Collects into `rows` the rows that the valid keys of a piece refer to.
    pub fn rows(self, piece: Piece<'_>, rows: &mut Vec<u32>) {
        rows.clear();
        match self {
            Self::I8(keys) => named_rows(keys, piece, rows),
            Self::I16(keys) => named_rows(keys, piece, rows),
            Self::I32(keys) => named_rows(keys, piece, rows),
            Self::I64(keys) => named_rows(keys, piece, rows),
            Self::U8(keys) => named_rows(keys, piece, rows),
            Self::U16(keys) => named_rows(keys, piece, rows),
            Self::U32(keys) => named_rows(keys, piece, rows),
            Self::U64(keys) => named_rows(keys, piece, rows),
        }
    }

    /// The rows that the valid keys of so many slots refer to, each once.
    pub fn distinct_rows(self, nulls: Option<&NullBuffer>, slots: usize) -> Vec<u32> {
        let piece = Piece {
            start: 0,
            rows: slots,
            validity: nulls.and_then(validity),
        };
        let mut named = Vec::new();
        self.rows(piece, &mut named);
        named.sort_unstable();
        named.dedup();
        named
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "an array has fewer than 2^32 distinct values in memory"
)]
fn named_rows<K: DictionaryKey + Fixed>(keys: &[K], piece: Piece<'_>, rows: &mut Vec<u32>) {
    let mut valid = Vec::new();
    rows.extend(piece.numbers(keys, &mut valid).iter().map(|key| key.row() as u32));
}

/// Buffers for values that have to be converted first; reused from run to run.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    small: Vec<i32>,
    large: Vec<i64>,
    bytes: Vec<u8>,
}

impl Scratch {
    pub fn memory_bytes(&self) -> usize {
        self.small.capacity() * 4 + self.large.capacity() * 8 + self.bytes.capacity()
    }
}

/// Returns true if columns of this type, in its encoded form, have one leaf and no levels but those of nulls.
pub(crate) fn is_flat(data_type: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, Boolean, Date32, Date64, Decimal32, Decimal64, Decimal128, Decimal256, Duration,
        FixedSizeBinary, Float16, Float32, Float64, Int8, Int16, Int32, Int64, LargeBinary, LargeUtf8, Null,
        Time32, Time64, Timestamp, UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    matches!(
        data_type,
        Null | Boolean
            | Int8
            | Int16
            | Int32
            | Int64
            | UInt8
            | UInt16
            | UInt32
            | UInt64
            | Float16
            | Float32
            | Float64
            | Date32
            | Date64
            | Time32(_)
            | Time64(_)
            | Timestamp(_, _)
            | Duration(_)
            | Decimal32(_, _)
            | Decimal64(_, _)
            | Decimal128(_, _)
            | Decimal256(_, _)
            | Utf8
            | LargeUtf8
            | Utf8View
            | Binary
            | LargeBinary
            | BinaryView
            | FixedSizeBinary(_)
    )
}

/// The validity bits of a column with nulls.
pub(super) fn validity(nulls: &NullBuffer) -> Option<Bitmap<'_>> {
    let bits = nulls.inner();
    Bitmap::new(bits.values(), bits.offset(), bits.len())
}

/// Views an array that is not empty as Parquet's `physical` type, `width` bytes wide where that has a width.
pub(super) fn values<'a>(
    array: &'a ArrayData,
    (physical, width): (Type, usize),
    scratch: &'a mut Scratch,
) -> Result<RunValues<'a>> {
    if let DataType::Dictionary(keys, _) = array.data_type() {
        let dictionary = array.child_data().first().filter(|values| !values.is_empty());
        let (dictionary, keys) = dictionary
            .zip(keys_of(array, keys))
            .ok_or_else(|| unexpected(array.data_type()))?;
        let values = Box::new(self::values(dictionary, (physical, width), scratch)?);
        let len = dictionary.len();
        return Ok(RunValues::Keys { keys, values, len });
    }
    match physical {
        Type::BOOLEAN => bools(array),
        Type::INT32 => small(array, &mut scratch.small),
        Type::INT64 => large(array, &mut scratch.large),
        Type::FLOAT => Some(RunValues::F32(slots(array))),
        Type::DOUBLE => Some(RunValues::F64(slots(array))),
        Type::BYTE_ARRAY => byte_arrays(array),
        Type::FIXED_LEN_BYTE_ARRAY | Type::INT96 => fixed(array, width, &mut scratch.bytes),
    }
    .ok_or_else(|| unexpected(array.data_type()))
}

/// The slots of an array of fixed-size values.
fn slots<T: ArrowNativeType>(array: &ArrayData) -> &[T] {
    &array.buffer::<T>(0)[..array.len()]
}

fn keys_of<'a>(array: &'a ArrayData, keys: &DataType) -> Option<DictionaryKeys<'a>> {
    Some(match keys {
        DataType::Int8 => DictionaryKeys::I8(slots(array)),
        DataType::Int16 => DictionaryKeys::I16(slots(array)),
        DataType::Int32 => DictionaryKeys::I32(slots(array)),
        DataType::Int64 => DictionaryKeys::I64(slots(array)),
        DataType::UInt8 => DictionaryKeys::U8(slots(array)),
        DataType::UInt16 => DictionaryKeys::U16(slots(array)),
        DataType::UInt32 => DictionaryKeys::U32(slots(array)),
        DataType::UInt64 => DictionaryKeys::U64(slots(array)),
        _ => return None,
    })
}

fn bools(array: &ArrayData) -> Option<RunValues<'_>> {
    Some(RunValues::Bools {
        bytes: array.buffers().first()?,
        offset: array.offset(),
    })
}

fn converted<'a, F, T>(array: &ArrayData, scratch: &'a mut Vec<T>, convert: impl Fn(F) -> T) -> &'a [T]
where
    F: ArrowNativeType,
{
    scratch.clear();
    scratch.extend(slots::<F>(array).iter().map(|value| convert(*value)));
    scratch
}

fn small<'a>(array: &'a ArrayData, scratch: &'a mut Vec<i32>) -> Option<RunValues<'a>> {
    Some(RunValues::I32(match array.data_type() {
        DataType::Int32
        | DataType::UInt32
        | DataType::Date32
        | DataType::Decimal32(_, _)
        | DataType::Time32(_) => slots(array),
        DataType::Int8 => converted::<i8, _>(array, scratch, i32::from),
        DataType::Int16 => converted::<i16, _>(array, scratch, i32::from),
        DataType::UInt8 => converted::<u8, _>(array, scratch, i32::from),
        DataType::UInt16 => converted::<u16, _>(array, scratch, i32::from),
        DataType::Decimal64(_, _) => converted::<i64, _>(array, scratch, low_half),
        DataType::Decimal128(_, _) => converted::<i128, _>(array, scratch, |value| low_half(low_word(value))),
        DataType::Decimal256(_, _) => {
            converted::<i256, _>(array, scratch, |value| low_half(low_word(value.as_i128())))
        }
        // Whole days, as all writers store it.
        DataType::Date64 => converted::<i64, _>(array, scratch, |value| low_half(value / 86_400_000)),
        _ => return None,
    }))
}

fn large<'a>(array: &'a ArrayData, scratch: &'a mut Vec<i64>) -> Option<RunValues<'a>> {
    Some(RunValues::I64(match array.data_type() {
        DataType::Int64
        | DataType::UInt64
        | DataType::Time64(_)
        | DataType::Timestamp(_, _)
        | DataType::Duration(_)
        | DataType::Decimal64(_, _) => slots(array),
        DataType::Decimal32(_, _) => converted::<i32, _>(array, scratch, i64::from),
        DataType::Decimal128(_, _) => converted::<i128, _>(array, scratch, low_word),
        DataType::Decimal256(_, _) => converted::<i256, _>(array, scratch, |value| low_word(value.as_i128())),
        _ => return None,
    }))
}

/// A decimal whose precision says that it fits; what lies under a null need not.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the precision bounds every valid value"
)]
fn low_half(value: i64) -> i32 {
    value as i32
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the precision bounds every valid value"
)]
fn low_word(value: i128) -> i64 {
    value as i64
}

fn byte_arrays(array: &ArrayData) -> Option<RunValues<'_>> {
    let buffers = array.buffers();
    Some(match array.data_type() {
        DataType::Utf8 | DataType::Binary => RunValues::Small(Offsets {
            offsets: &array.buffer::<i32>(0)[..=array.len()],
            data: buffers.get(1)?,
        }),
        DataType::LargeUtf8 | DataType::LargeBinary => RunValues::Large(Offsets {
            offsets: &array.buffer::<i64>(0)[..=array.len()],
            data: buffers.get(1)?,
        }),
        DataType::Utf8View | DataType::BinaryView => RunValues::Views {
            views: slots(array),
            buffers: buffers[1..].iter().map(Buffer::as_slice).collect(),
        },
        _ => return None,
    })
}

fn fixed<'a>(array: &'a ArrayData, width: usize, scratch: &'a mut Vec<u8>) -> Option<RunValues<'a>> {
    let (start, count) = (array.offset() * width, array.len());
    let data = match array.data_type() {
        DataType::FixedSizeBinary(_) | DataType::Float16 => {
            array.buffers().first()?.get(start..start + count * width)?
        }
        DataType::Decimal128(_, _) => {
            scratch.clear();
            plain::encode_decimals(slots(array), width, scratch);
            scratch
        }
        DataType::Decimal256(_, _) => {
            scratch.clear();
            for value in slots::<i256>(array) {
                scratch.extend_from_slice(value.to_be_bytes().get(32_usize.checked_sub(width)?..)?);
            }
            scratch
        }
        _ => return None,
    };
    Some(RunValues::Fixed(FixedSize { data, width, count }))
}
