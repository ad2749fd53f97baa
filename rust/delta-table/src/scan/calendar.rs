//! Dates and times of the calendar that Spark wrote before version 3.0.
//!
//! That calendar is Julian before 1582-10-15. Spark 3 writes it in its mode `LEGACY` and says so in the footer, by
//! `org.apache.spark.legacyDateTime` and, for timestamps in 96 bits, `org.apache.spark.legacyINT96`; files of older
//! versions have their version alone (`DataSourceUtils.datetimeRebaseSpec` and `int96RebaseSpec` in Spark). A value
//! stands for the date and time of day that it has in the old calendar. Dates, and times in UTC, are converted to it
//! exactly. In other time zones Spark also takes the offsets of local mean time in another way, so that timestamps
//! before 1900 are refused. Timestamps without a time zone are always of today's calendar.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowTimestampType, Date32Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, ListArray, MapArray, PrimitiveArray, RecordBatch, StructArray};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use chrono::DateTime;
use parquet::basic::Type as PhysicalType;
use parquet::file::metadata::ParquetMetaData;

use crate::error::TableError;
use crate::schema::{ColumnType, Primitive};

const VERSION: &str = "org.apache.spark.version";
const ZONE: &str = "org.apache.spark.timeZone";
const LEGACY_TIMES: &str = "org.apache.spark.legacyDateTime";
const LEGACY_INT96: &str = "org.apache.spark.legacyINT96";

/// 1582-10-15, the first day of the Gregorian calendar, in days since the epoch.
const FIRST_GREGORIAN: i64 = -141_427;

/// 1900-01-01, in seconds since the epoch. From then on timestamps are the same whatever the calendar and the zone.
const FIRST_COMMON: i64 = -2_208_988_800;

const SECONDS_PER_DAY: i64 = 86_400;

/// 1 March of the year 0 in the Julian calendar, in days since the epoch. Years begin in March here, so that the day of
/// a leap year is the last one.
const JULIAN_MARCH: i64 = -719_470;

/// 1 March of the year 0 in today's calendar, in days since the epoch.
const MARCH: i64 = -719_468;

/// Names of UTC in footers.
const UTC: [&str; 8] = ["UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z", "+00:00", "Zulu", "UCT"];

/// The conversion of a file's values to today's calendar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Calendar {
    /// The name of the file.
    name: String,
    has_old_dates: bool,
    times: FileCalendar,
}

/// The timestamps of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FileCalendar {
    /// They are of today's calendar.
    New,
    /// They are of the old one, in UTC.
    Old,
    /// They are of the old one, in this time zone, in words.
    OldIn(String),
}

impl Calendar {
    /// The conversion of a file of this name and footer; none if its values are as they are.
    pub fn of(name: &str, footer: &ParquetMetaData) -> Option<Self> {
        let pairs = footer.file_metadata().key_value_metadata()?;
        let value = |key: &str| {
            let mut pairs = pairs.iter();
            let pair = pairs.find(|pair| pair.key == key);
            pair.map(|pair| pair.value.as_deref().unwrap_or_default())
        };
        // Other writers than Spark have no mark.
        let version = value(VERSION)?;
        let is_old = |mark: &str, since: (u32, u32)| {
            value(mark).is_some() || version_of(version).is_some_and(|version| version < since)
        };
        let (old_dates, old_int96) = (is_old(LEGACY_TIMES, (3, 0)), is_old(LEGACY_INT96, (3, 1)));
        if !old_dates && !old_int96 {
            return None;
        }
        let leaves = footer.file_metadata().schema_descr().columns();
        let has_int96 = leaves
            .iter()
            .any(|leaf| leaf.physical_type() == PhysicalType::INT96);
        // Spark writes all timestamps of a file in one form.
        let times = match (if has_int96 { old_int96 } else { old_dates }, value(ZONE)) {
            (false, _) => FileCalendar::New,
            (true, Some(zone)) if UTC.contains(&zone) => FileCalendar::Old,
            (true, Some(zone)) => FileCalendar::OldIn(format!("the time zone {zone:?}")),
            (true, None) => FileCalendar::OldIn("a time zone that it does not name".to_owned()),
        };
        Some(Self {
            name: name.to_owned(),
            has_old_dates: old_dates,
            times,
        })
    }

    /// Returns true if bounds of the file's row groups and pages in a column of this type are bounds of its values.
    pub fn keeps(&self, kind: &ColumnType) -> bool {
        match kind {
            ColumnType::Primitive(Primitive::Date) => !self.has_old_dates,
            // The column may have been one of dates when the file was written.
            ColumnType::Primitive(Primitive::Timestamp | Primitive::TimestampNtz) => false,
            ColumnType::Struct(fields) => fields.iter().all(|field| self.keeps(&field.kind)),
            ColumnType::Primitive(_)
            | ColumnType::Decimal(..)
            | ColumnType::Array(..)
            | ColumnType::Map(..) => true,
        }
    }

    /// The rows with the dates and times that they stand for.
    ///
    /// # Errors
    /// [`ArrowError::ExternalError`] with a [`TableError`] when it is not known what a timestamp stands for.
    pub fn converted(&self, rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let columns = rows.columns().iter().map(|column| self.array(column));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        if columns.is_empty() {
            return Ok(rows.clone());
        }
        RecordBatch::try_new(rows.schema(), columns)
    }

    /// As [`converted`](Self::converted), of one column.
    pub fn array(&self, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        Ok(match array.data_type() {
            DataType::Date32 if self.has_old_dates => {
                let days = array.as_primitive::<Date32Type>();
                let new = |day: i32| {
                    i32::try_from(new_day(i64::from(day)))
                        .map_err(|_| self.refused("a date beyond all calendars"))
                };
                Arc::new(days.try_unary::<_, Date32Type, _>(new)?)
            }
            DataType::Timestamp(unit, Some(_)) => match unit {
                TimeUnit::Second => self.moments::<TimestampSecondType>(array, 1)?,
                TimeUnit::Millisecond => self.moments::<TimestampMillisecondType>(array, 1_000)?,
                TimeUnit::Microsecond => self.moments::<TimestampMicrosecondType>(array, 1_000_000)?,
                TimeUnit::Nanosecond => self.moments::<TimestampNanosecondType>(array, 1_000_000_000)?,
            },
            DataType::Struct(fields) => {
                let group = array.as_struct();
                let columns = group.columns().iter().map(|column| self.array(column));
                let columns = columns.collect::<Result<_, _>>()?;
                let nulls = group.nulls().cloned();
                Arc::new(StructArray::try_new_with_length(
                    fields.clone(),
                    columns,
                    nulls,
                    group.len(),
                )?)
            }
            DataType::List(element) => {
                let list = array.as_list::<i32>();
                let values = self.array(list.values())?;
                let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
                Arc::new(ListArray::try_new(Arc::clone(element), offsets, values, nulls)?)
            }
            DataType::Map(entries, sorted) => {
                let map = array.as_map();
                let given: ArrayRef = Arc::new(map.entries().clone());
                let new = self.array(&given)?.as_struct().clone();
                let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
                Arc::new(MapArray::try_new(
                    Arc::clone(entries),
                    offsets,
                    new,
                    nulls,
                    *sorted,
                )?)
            }
            _ => Arc::clone(array),
        })
    }

    fn moments<T: ArrowTimestampType>(
        &self,
        array: &ArrayRef,
        per_second: i64,
    ) -> Result<ArrayRef, ArrowError> {
        let moments = array.as_primitive::<T>();
        let first_common = FIRST_COMMON.saturating_mul(per_second);
        let new: PrimitiveArray<T> = match &self.times {
            FileCalendar::New => return Ok(Arc::clone(array)),
            FileCalendar::Old => moments.try_unary(|moment| {
                new_moment(moment, SECONDS_PER_DAY * per_second)
                    .ok_or_else(|| self.refused("a timestamp beyond all calendars"))
            })?,
            FileCalendar::OldIn(zone) => {
                if let Some(moment) = moments.iter().flatten().find(|moment| *moment < first_common) {
                    let stored = DateTime::from_timestamp(moment.div_euclid(per_second), 0);
                    let stored =
                        stored.map_or_else(|| "?".to_owned(), |stored| stored.date_naive().to_string());
                    return Err(
                        self.refused(&format!("a timestamp before 1900, stored as {stored}, in {zone}"))
                    );
                }
                return Ok(Arc::clone(array));
            }
        };
        Ok(Arc::new(new.with_data_type(array.data_type().clone())))
    }

    /// The error of a value that cannot be converted.
    fn refused(&self, what: &str) -> ArrowError {
        let message = format!(
            "{}: the file has {what}. Spark wrote it in its calendar of before version 3.0 (the footer has \
             {LEGACY_TIMES}, {LEGACY_INT96} or an old {VERSION}), and what the value stands for is not known here: \
             write the rows again with Spark, with spark.sql.parquet.datetimeRebaseModeInWrite and int96RebaseModeInWrite as \
             CORRECTED, or leave the column out",
            self.name
        );
        ArrowError::ExternalError(Box::new(TableError::unsupported(message)))
    }
}

/// The major and the minor version.
fn version_of(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split(['.', '-']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The days since the epoch of the date that this day has in the old calendar.
fn new_day(day: i64) -> i64 {
    if day >= FIRST_GREGORIAN {
        return day;
    }
    let from_march = day - JULIAN_MARCH;
    let (cycle, in_cycle) = (from_march.div_euclid(1_461), from_march.rem_euclid(1_461));
    let year_of_cycle = (in_cycle - in_cycle / 1_460) / 365;
    let day_of_year = in_cycle - 365 * year_of_cycle;
    let year = 4 * cycle + year_of_cycle;
    // 29 February of a year that is no leap year today becomes 1 March, as in Spark.
    MARCH + 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year
}

/// The moment, in units of which a day has so many, of the date and time of day that this one has in the old calendar.
fn new_moment(moment: i64, per_day: i64) -> Option<i64> {
    let (day, time) = (moment.div_euclid(per_day), moment.rem_euclid(per_day));
    new_day(day).checked_mul(per_day)?.checked_add(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_the_old_calendar_become_those_of_the_same_date() {
        // Days in the hybrid calendar and in today's, as Spark's RebaseDateTimeSuite has them.
        for (old, new) in [
            (-719_164, -719_162), // 0001-01-01
            (-354_220, -354_226), // 1000-03-01
            (-141_428, -141_438), // 1582-10-04
            (-141_427, -141_427), // 1582-10-15
            (0, 0),
            (20_000, 20_000),
        ] {
            assert_eq!(new_day(old), new, "{old}");
        }
        assert_eq!(new_day(-354_221), -354_226, "1000-02-29 is 1000-03-01 today");
        assert_eq!(new_day(-354_222), -354_227, "1000-02-28");
    }

    #[test]
    fn days_of_the_old_calendar_keep_their_order() {
        let mut before = new_day(-800_001);
        for day in -800_000..-141_000 {
            let new = new_day(day);
            assert!(new >= before, "{day}");
            before = new;
        }
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(version_of("2.4.8").unwrap() < (3, 0));
        assert!(version_of("3.0.1-amzn-0").unwrap() < (3, 1));
        assert!(version_of("10.1").unwrap() > (3, 1));
        assert_eq!(version_of("snapshot"), None);
    }
}
