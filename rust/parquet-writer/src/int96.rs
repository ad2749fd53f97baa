//! INT96 timestamps, as the first Hive and Spark stored them: nanoseconds of a day, and the day by Julian count.
//!
//! `parquet.thrift` deprecates INT96 and leaves its order undefined, so such columns get no bounds.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray};
use arrow_buffer::MutableBuffer;
use arrow_schema::{DataType, TimeUnit};

use crate::error::{Result, WriteError};

/// Bytes of a value.
pub(crate) const WIDTH: usize = 12;
/// The type that holds such times in Arrow.
pub(crate) const ARROW: DataType = DataType::FixedSizeBinary(12);

const SECONDS_OF_DAY: i64 = 86_400;
/// The Julian day of 1970-01-01.
const EPOCH: i64 = 2_440_588;

/// Timestamps of any unit as INT96.
///
/// # Errors
/// [`WriteError::Schema`] when a time is before the first or behind the last Julian day of 31 bits.
pub(crate) fn from_timestamps(array: &ArrayRef, unit: TimeUnit) -> Result<ArrayRef> {
    let (values, per_second) = match unit {
        TimeUnit::Second => (array.as_primitive::<TimestampSecondType>().values(), 1),
        TimeUnit::Millisecond => (array.as_primitive::<TimestampMillisecondType>().values(), 1_000),
        TimeUnit::Microsecond => (
            array.as_primitive::<TimestampMicrosecondType>().values(),
            1_000_000,
        ),
        TimeUnit::Nanosecond => (
            array.as_primitive::<TimestampNanosecondType>().values(),
            1_000_000_000,
        ),
    };
    let mut bytes = MutableBuffer::with_capacity(values.len() * WIDTH);
    for (row, value) in values.iter().enumerate() {
        // What lies under a null may be anything.
        let value = if array.is_valid(row) { *value } else { 0 };
        let per_day = SECONDS_OF_DAY * per_second;
        // Some readers take the day for signed.
        let day = i32::try_from(value.div_euclid(per_day) + EPOCH).ok();
        let day = day.filter(|day| *day >= 0).ok_or_else(|| {
            WriteError::schema(format!(
                "the time {value} in row {row} has no Julian day for INT96"
            ))
        })?;
        let nanoseconds = value.rem_euclid(per_day) * (1_000_000_000 / per_second);
        bytes.extend_from_slice(&nanoseconds.to_le_bytes());
        bytes.extend_from_slice(&day.to_le_bytes());
    }
    let nulls = array.nulls().cloned();
    Ok(Arc::new(FixedSizeBinaryArray::try_new(12, bytes.into(), nulls)?))
}

#[cfg(test)]
mod tests {
    use arrow_array::TimestampMicrosecondArray;

    use super::*;

    #[test]
    fn the_epoch_is_its_julian_day_and_the_moment_before_it_the_end_of_another() {
        let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![Some(0), Some(-1), None]));
        let stored = from_timestamps(&times, TimeUnit::Microsecond).unwrap();
        let stored = stored.as_fixed_size_binary();
        assert_eq!(stored.value(0), [0, 0, 0, 0, 0, 0, 0, 0, 0x8c, 0x3d, 0x25, 0]);
        let mut before = 86_399_999_999_000_i64.to_le_bytes().to_vec();
        before.extend_from_slice(&2_440_587_u32.to_le_bytes());
        assert_eq!(stored.value(1), before);
        assert!(stored.is_null(2));
    }

    #[test]
    fn a_time_without_a_julian_day_is_an_error() {
        let times: ArrayRef = Arc::new(arrow_array::TimestampSecondArray::from(vec![i64::MIN]));
        assert!(from_timestamps(&times, TimeUnit::Second).is_err());
    }
}
