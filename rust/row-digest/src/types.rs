//! One name per logical type: forms that only differ in layout share a name.

use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use crate::error::Error;

/// Names the logical type. Field names inside nested types are not part of it, nor is nullability.
pub(crate) fn type_name(data_type: &DataType) -> Result<String, Error> {
    use DataType as T;
    Ok(match data_type {
        T::Null => "null".into(),
        T::Boolean => "bool".into(),
        T::Int8 => "int8".into(),
        T::Int16 => "int16".into(),
        T::Int32 => "int32".into(),
        T::Int64 => "int64".into(),
        T::UInt8 => "uint8".into(),
        T::UInt16 => "uint16".into(),
        T::UInt32 => "uint32".into(),
        T::UInt64 => "uint64".into(),
        T::Float16 => "float16".into(),
        T::Float32 => "float32".into(),
        T::Float64 => "float64".into(),
        T::Date32 => "date[days]".into(),
        T::Date64 => "date[ms]".into(),
        T::Time32(unit) | T::Time64(unit) => format!("time[{}]", unit_name(*unit)),
        T::Timestamp(unit, None) => format!("timestamp[{}]", unit_name(*unit)),
        // An instant is the same instant in every zone.
        T::Timestamp(unit, Some(_)) => format!("timestamp[{}, UTC]", unit_name(*unit)),
        T::Duration(unit) => format!("duration[{}]", unit_name(*unit)),
        T::Interval(unit) => format!("interval[{}]", interval_name(*unit)),
        T::Utf8 | T::LargeUtf8 | T::Utf8View => "string".into(),
        T::Binary | T::LargeBinary | T::BinaryView => "binary".into(),
        T::FixedSizeBinary(width) => format!("fixed_size_binary[{width}]"),
        T::Decimal32(p, s) | T::Decimal64(p, s) | T::Decimal128(p, s) | T::Decimal256(p, s) => {
            format!("decimal({p},{s})")
        }
        T::Dictionary(_, values) => type_name(values)?,
        T::List(f) | T::LargeList(f) | T::ListView(f) | T::LargeListView(f) | T::FixedSizeList(f, _) => {
            format!("list<{}>", type_name(f.data_type())?)
        }
        T::Map(entries, _) => format!("list<{}>", type_name(entries.data_type())?),
        T::Struct(fields) => {
            let names: Result<Vec<_>, _> = fields.iter().map(|f| type_name(f.data_type())).collect();
            format!("struct<{}>", names?.join(","))
        }
        T::Union(..) | T::RunEndEncoded(..) => return Err(Error::Unsupported(data_type.to_string())),
    })
}

fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

fn interval_name(unit: IntervalUnit) -> &'static str {
    match unit {
        IntervalUnit::YearMonth => "year-month",
        IntervalUnit::DayTime => "day-time",
        IntervalUnit::MonthDayNano => "month-day-nano",
    }
}
