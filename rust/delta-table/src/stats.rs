//! The statistics of `add.stats`, taken from a file's footer.

use std::fmt::Write;

use chrono::{DateTime, Datelike, NaiveDate};
use parquet::basic::{ConvertedType, LogicalType, TimeUnit as ParquetTimeUnit};
use parquet::data_type::ByteArray;
use parquet::file::metadata::{ColumnChunkMetaData, FileMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::statistics::Statistics;
use serde_json::Value;

use crate::schema::{ColumnType, Primitive, TableColumn, TableSchema};
use crate::stats_columns::StatsColumns;

/// Characters of a text's bound.
const TEXT_CHARS: usize = 32;

/// Days from 0001-01-01 to the epoch.
const EPOCH_FROM_CE: i32 = 719_163;

/// A bound, in a form that can be compared with those of other row groups.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
enum ComparableBound {
    Whole(i128),
    Real(f64),
    Text(Vec<u8>),
}

/// The statistics of a leaf column.
#[derive(Default)]
struct LeafStats {
    nulls: Option<u64>,
    min: Option<String>,
    max: Option<String>,
}

/// The statistics of a file with these columns, as JSON text.
pub(crate) fn stats_json(
    schema: &TableSchema,
    partition_columns: &[String],
    indexed: &StatsColumns,
    footer: &ParquetMetaData,
) -> String {
    let mut collector = Collector {
        footer,
        indexed,
        leaf: 0,
        path: Vec::new(),
        nulls: String::new(),
        mins: String::new(),
        maxs: String::new(),
    };
    for column in &schema.columns {
        if !partition_columns.contains(&column.name) {
            collector.column(column);
        }
    }
    let mut json = format!("{{\"numRecords\":{}", footer.file_metadata().num_rows());
    for (name, fields) in [
        ("minValues", &collector.mins),
        ("maxValues", &collector.maxs),
        ("nullCount", &collector.nulls),
    ] {
        // Writing into a string cannot fail.
        let _ = write!(json, ",\"{name}\":{{{fields}}}");
    }
    json.push('}');
    json
}

/// The statistics of one row group in these columns, as [`stats_json`] has them of a file.
///
/// Columns are left out whose bounds have another order or unit in the file than in the table: text with bounds in the
/// fields that the format deprecates, unsigned integers, decimals of another scale, timestamps that are not in
/// microseconds.
pub(crate) fn row_group_stats_json(
    columns: &[&TableColumn],
    footer: &ParquetMetaData,
    row_group: usize,
) -> String {
    group_stats_json(columns, footer.row_group(row_group))
}

/// The same of a row group that need not be in the file: of rows of one that is.
pub(crate) fn group_stats_json(columns: &[&TableColumn], group: &RowGroupMetaData) -> String {
    let file = FileMetaData::new(1, group.num_rows(), None, None, group.schema_descr_ptr(), None);
    let alone = ParquetMetaData::new(file, vec![group.clone()]);
    let columns = columns.iter();
    let schema = TableSchema {
        columns: columns
            .filter_map(|column| sound(group, column, &mut Vec::new()))
            .collect(),
    };
    let all = StatsColumns::all(schema.leaves(&[]).len());
    stats_json(&schema, &[], &all, &alone)
}

/// The column without those of its leaves that are left out; none where nothing is left. `above` has the names of the
/// structs that it is a field of.
fn sound<'a>(
    group: &RowGroupMetaData,
    column: &'a TableColumn,
    above: &mut Vec<&'a str>,
) -> Option<TableColumn> {
    above.push(&column.name);
    let sound = match &column.kind {
        ColumnType::Struct(fields) => {
            let fields = fields.iter();
            let fields: Vec<TableColumn> = fields.filter_map(|field| sound(group, field, above)).collect();
            (!fields.is_empty()).then(|| TableColumn {
                kind: ColumnType::Struct(fields),
                ..column.clone()
            })
        }
        kind => is_sound(group, above, kind).then(|| column.clone()),
    };
    above.pop();
    sound
}

fn is_sound(group: &RowGroupMetaData, path: &[&str], kind: &ColumnType) -> bool {
    let mut chunks = group.columns().iter();
    let Some(chunk) = chunks.find(|chunk| chunk.column_path().parts() == path) else {
        return true;
    };
    let descriptor = chunk.column_descr();
    let kind = match kind {
        ColumnType::Primitive(kind) => kind,
        // Those of arrays of bytes in the deprecated fields are in another order.
        ColumnType::Decimal(_, scale) => {
            return descriptor.converted_type() == ConvertedType::DECIMAL
                && descriptor.type_scale() == i32::from(*scale)
                && chunk
                    .statistics()
                    .is_none_or(|stats| !stats.is_min_max_deprecated());
        }
        ColumnType::Struct(_) | ColumnType::Array(..) | ColumnType::Map(..) => return false,
    };
    match kind {
        Primitive::String => chunk
            .statistics()
            .is_none_or(|stats| !stats.is_min_max_deprecated()),
        Primitive::Timestamp | Primitive::TimestampNtz => matches!(
            descriptor.logical_type_ref(),
            Some(LogicalType::Timestamp(kind)) if matches!(kind.unit, ParquetTimeUnit::MICROS)
        ),
        Primitive::Date => descriptor.converted_type() == ConvertedType::DATE,
        // Those of unsigned integers, and of the digits of decimals, are others than their bytes say.
        Primitive::Byte | Primitive::Short | Primitive::Integer | Primitive::Long => {
            matches!(
                descriptor.converted_type(),
                ConvertedType::NONE
                    | ConvertedType::INT_8
                    | ConvertedType::INT_16
                    | ConvertedType::INT_32
                    | ConvertedType::INT_64
            )
        }
        Primitive::Float | Primitive::Double => descriptor.converted_type() == ConvertedType::NONE,
        Primitive::Boolean | Primitive::Binary => true,
    }
}

struct Collector<'a> {
    footer: &'a ParquetMetaData,
    indexed: &'a StatsColumns,
    /// The next leaf column's number.
    leaf: usize,
    path: Vec<&'a str>,
    nulls: String,
    mins: String,
    maxs: String,
}

impl<'a> Collector<'a> {
    fn column(&mut self, column: &'a TableColumn) {
        self.path.push(&column.name);
        if let ColumnType::Struct(fields) = &column.kind {
            self.group(&column.name, fields);
        } else if self.next_is_indexed() {
            let leaf = leaf(self.footer, &self.path, &column.kind);
            let name = &column.name;
            field(&mut self.nulls, name, leaf.nulls.map(|nulls| nulls.to_string()));
            field(&mut self.mins, name, leaf.min);
            field(&mut self.maxs, name, leaf.max);
        }
        self.path.pop();
    }

    fn next_is_indexed(&mut self) -> bool {
        self.leaf += 1;
        self.indexed.has(self.leaf - 1)
    }

    fn group(&mut self, name: &str, fields: &'a [TableColumn]) {
        let outer = [
            std::mem::take(&mut self.nulls),
            std::mem::take(&mut self.mins),
            std::mem::take(&mut self.maxs),
        ];
        for column in fields {
            self.column(column);
        }
        for (of, outer) in [&mut self.nulls, &mut self.mins, &mut self.maxs]
            .into_iter()
            .zip(outer)
        {
            let inner = std::mem::replace(of, outer);
            field(of, name, (!inner.is_empty()).then(|| format!("{{{inner}}}")));
        }
    }
}

pub(crate) fn field(into: &mut String, name: &str, json: Option<String>) {
    if let Some(json) = json {
        if !into.is_empty() {
            into.push(',');
        }
        let _ = write!(into, "{}:{json}", Value::from(name));
    }
}

/// Merges the statistics that the row groups have of one column.
fn leaf(footer: &ParquetMetaData, path: &[&str], kind: &ColumnType) -> LeafStats {
    let descriptor = footer.file_metadata().schema_descr();
    let mut columns = descriptor.columns().iter();
    let Some(index) = columns.position(|column| column.path().parts() == path) else {
        // A list's or a map's leaf has a longer path: its nulls are not those of the column. What the file does not
        // have at all is null in all of its rows.
        let top = path.first().copied();
        let is_absent = !descriptor
            .columns()
            .iter()
            .any(|column| column.path().parts().first().map(String::as_str) == top);
        return LeafStats {
            nulls: u64::try_from(footer.file_metadata().num_rows())
                .ok()
                .filter(|_| is_absent),
            ..LeafStats::default()
        };
    };
    let chunks: Vec<&ColumnChunkMetaData> = footer
        .row_groups()
        .iter()
        .map(|group| group.column(index))
        .collect();
    let nulls = chunks
        .iter()
        .map(|chunk| chunk.statistics().and_then(Statistics::null_count_opt))
        .sum::<Option<u64>>();
    let bounds = chunks
        .iter()
        // Nothing but nulls has no bounds and moves none.
        .filter(|chunk| !only_nulls(chunk))
        .map(|chunk| bounds(chunk.statistics()?, kind))
        .reduce(|all, next| {
            let ((min, max), (next_min, next_max)) = (all?, next?);
            let lower = if next_min < min { next_min } else { min };
            // A maximum that is not known in one row group is not known at all.
            let upper = max.zip(next_max).map(|(a, b)| if b > a { b } else { a });
            Some((lower, upper))
        })
        .flatten();
    let Some((min, max)) = bounds else {
        return LeafStats {
            nulls,
            ..LeafStats::default()
        };
    };
    LeafStats {
        nulls,
        min: lower_json(min, kind),
        max: max.and_then(|max| upper_json(max, kind)),
    }
}

fn only_nulls(chunk: &ColumnChunkMetaData) -> bool {
    let nulls = chunk.statistics().and_then(Statistics::null_count_opt);
    nulls.is_some_and(|nulls| i64::try_from(nulls).is_ok_and(|nulls| nulls == chunk.num_values()))
}

/// The least value, and the greatest one where it is known.
fn bounds(statistics: &Statistics, kind: &ColumnType) -> Option<(ComparableBound, Option<ComparableBound>)> {
    if *kind == ColumnType::Primitive(Primitive::Binary) {
        return None;
    }
    // NaN is above all numbers, and most writers leave it out of their bounds.
    let no_nan = statistics.nan_count_opt() == Some(0);
    let text = |bytes: &ByteArray| match kind {
        ColumnType::Decimal(..) => ComparableBound::Whole(big_endian(bytes.data())),
        _ => ComparableBound::Text(bytes.data().to_vec()),
    };
    match statistics {
        Statistics::Int32(values) => Some((
            ComparableBound::Whole(i128::from(*values.min_opt()?)),
            Some(ComparableBound::Whole(i128::from(*values.max_opt()?))),
        )),
        Statistics::Int64(values) => Some((
            ComparableBound::Whole(i128::from(*values.min_opt()?)),
            Some(ComparableBound::Whole(i128::from(*values.max_opt()?))),
        )),
        Statistics::Float(values) => Some((
            ComparableBound::Real(f64::from(*values.min_opt()?)),
            no_nan.then_some(ComparableBound::Real(f64::from(*values.max_opt()?))),
        )),
        Statistics::Double(values) => Some((
            ComparableBound::Real(*values.min_opt()?),
            no_nan.then_some(ComparableBound::Real(*values.max_opt()?)),
        )),
        Statistics::ByteArray(values) => Some((text(values.min_opt()?), values.max_opt().map(text))),
        Statistics::FixedLenByteArray(values) => {
            Some((text(values.min_opt()?), values.max_opt().map(|max| text(max))))
        }
        // Spark writes no bounds for booleans, but delta-rs skips a file that lacks them.
        Statistics::Boolean(values) => Some((
            ComparableBound::Whole(i128::from(*values.min_opt()?)),
            Some(ComparableBound::Whole(i128::from(*values.max_opt()?))),
        )),
        Statistics::Int96(_) => None,
    }
}

/// A two's complement number of up to 16 bytes.
fn big_endian(bytes: &[u8]) -> i128 {
    let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    bytes.iter().fold(if negative { -1 } else { 0 }, |number, byte| {
        (number << 8) | i128::from(*byte)
    })
}

fn lower_json(bound: ComparableBound, kind: &ColumnType) -> Option<String> {
    match bound {
        ComparableBound::Text(bytes) => {
            let text = String::from_utf8(bytes).ok()?;
            let cut: String = text.chars().take(TEXT_CHARS).collect();
            Some(Value::from(cut).to_string())
        }
        ComparableBound::Whole(number) => whole_json(number, kind, i128::div_euclid),
        ComparableBound::Real(number) => real_json(number),
    }
}

fn upper_json(bound: ComparableBound, kind: &ColumnType) -> Option<String> {
    match bound {
        ComparableBound::Text(bytes) => {
            raised(&String::from_utf8(bytes).ok()?).map(|text| Value::from(text).to_string())
        }
        ComparableBound::Whole(number) => whole_json(number, kind, div_ceil),
        ComparableBound::Real(number) => real_json(number),
    }
}

fn real_json(number: f64) -> Option<String> {
    number.is_finite().then(|| Value::from(number).to_string())
}

/// A shortened text that is no less than this one.
fn raised(text: &str) -> Option<String> {
    let mut kept: Vec<char> = text.chars().take(TEXT_CHARS).collect();
    if text.chars().nth(TEXT_CHARS).is_none() {
        return Some(text.to_owned());
    }
    while let Some(last) = kept.pop() {
        if let Some(next) = next_char(last) {
            kept.push(next);
            return Some(kept.into_iter().collect());
        }
    }
    None
}

fn next_char(character: char) -> Option<char> {
    match character {
        // Between them lie the surrogates, which are no characters.
        '\u{d7ff}' => Some('\u{e000}'),
        other => char::from_u32(u32::from(other) + 1),
    }
}

/// A number as JSON. `to_millis` rounds microseconds, down or up, to the milliseconds that readers of statistics
/// expect.
fn whole_json(number: i128, kind: &ColumnType, to_millis: fn(i128, i128) -> i128) -> Option<String> {
    match kind {
        ColumnType::Decimal(_, scale) => Some(decimal(number, u32::try_from(*scale).ok()?)),
        ColumnType::Primitive(Primitive::Date) => date(i64::try_from(number).ok()?),
        ColumnType::Primitive(Primitive::Timestamp) => bound_moment(number, "Z", to_millis),
        ColumnType::Primitive(Primitive::TimestampNtz) => bound_moment(number, "", to_millis),
        ColumnType::Primitive(Primitive::Boolean) => Some((number != 0).to_string()),
        _ => Some(number.to_string()),
    }
}

/// Decimal digits with a point, computed without a double.
pub(crate) fn decimal(unscaled: i128, scale: u32) -> String {
    if scale == 0 {
        return unscaled.to_string();
    }
    let sign = if unscaled < 0 { "-" } else { "" };
    let width = scale as usize + 1;
    let digits = format!("{:0>width$}", unscaled.unsigned_abs());
    let (whole, fraction) = digits.split_at(digits.len() - scale as usize);
    format!("{sign}{whole}.{fraction}")
}

pub(crate) fn date(days: i64) -> Option<String> {
    let day = NaiveDate::from_num_days_from_ce_opt(i32::try_from(days).ok()?.checked_add(EPOCH_FROM_CE)?)?;
    (1..=9_999).contains(&day.year()).then(|| format!("\"{day}\""))
}

/// A quotient that is rounded up.
pub(crate) fn div_ceil(number: i128, unit: i128) -> i128 {
    -(-number).div_euclid(unit)
}

/// Microseconds as a bound of milliseconds. In the last millisecond of year 9999 an upper bound is truncated, which
/// readers allow for, rather than left out: delta-rs skips a file without one.
pub(crate) fn bound_moment(micros: i128, zone: &str, to_millis: fn(i128, i128) -> i128) -> Option<String> {
    moment(to_millis(micros, 1_000), zone).or_else(|| moment(micros.div_euclid(1_000), zone))
}

fn moment(millis: i128, zone: &str) -> Option<String> {
    let moment = DateTime::from_timestamp_millis(i64::try_from(millis).ok()?)?;
    (1..=9_999)
        .contains(&moment.year())
        .then(|| format!("\"{}{zone}\"", moment.format("%Y-%m-%dT%H:%M:%S%.3f")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_keep_every_digit() {
        assert_eq!(decimal(-150, 2), "-1.50");
        assert_eq!(decimal(5, 3), "0.005");
        assert_eq!(decimal(i128::MAX, 0), i128::MAX.to_string());
        assert_eq!(big_endian(&[0xff, 0x6a]), -150);
        assert_eq!(big_endian(&[0x00, 0x96]), 150);
    }

    #[test]
    fn a_cut_maximum_is_raised_or_left_out() {
        let long = "x".repeat(40);
        assert_eq!(raised(&long).unwrap(), format!("{}y", "x".repeat(31)));
        assert_eq!(raised("short").unwrap(), "short");
        assert_eq!(raised(&"\u{10ffff}".repeat(40)), None);
        let edge = format!("{}\u{d7ff}tail", "a".repeat(31));
        assert_eq!(raised(&edge).unwrap(), format!("{}\u{e000}", "a".repeat(31)));
    }

    #[test]
    fn times_are_cut_outwards() {
        let ntz = ColumnType::Primitive(Primitive::TimestampNtz);
        assert_eq!(
            lower_json(ComparableBound::Whole(-1), &ntz).unwrap(),
            "\"1969-12-31T23:59:59.999\""
        );
        let zoned = ColumnType::Primitive(Primitive::Timestamp);
        assert_eq!(
            upper_json(ComparableBound::Whole(1), &zoned).unwrap(),
            "\"1970-01-01T00:00:00.001Z\""
        );
        assert_eq!(
            upper_json(ComparableBound::Whole(i128::from(i64::MAX)), &zoned),
            None
        );
        let date = ColumnType::Primitive(Primitive::Date);
        assert_eq!(
            lower_json(ComparableBound::Whole(0), &date).unwrap(),
            "\"1970-01-01\""
        );
    }
}
