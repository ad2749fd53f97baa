//! The meaning of stored values: a column's logical type, or its converted type in files that have no other.

use std::fmt;

use parquet::basic::{ConvertedType, LogicalType, TimeUnit};
use parquet::schema::types::{ColumnDescriptor, Type};

/// The meaning of a column's stored values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The physical type, without a logical one.
    Plain,
    /// Text in UTF-8: a string, an enum, JSON.
    Text(&'static str),
    /// An integer of fewer bits than its physical type, or an unsigned one.
    Integer { bits: i8, signed: bool },
    /// An unscaled integer.
    Decimal { precision: i32, scale: i32 },
    /// Days since the epoch.
    Date,
    /// Time of day.
    Time { unit: Unit, utc: bool },
    /// Time since the epoch.
    Timestamp { unit: Unit, utc: bool },
    /// Sixteen bytes of a UUID.
    Uuid,
    /// Half precision.
    Float16,
    /// Anything else, by its name.
    Other(String),
}

/// Unit of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Millis,
    Micros,
    Nanos,
}

impl Unit {
    pub(crate) fn per_second(self) -> i64 {
        match self {
            Self::Millis => 1_000,
            Self::Micros => 1_000_000,
            Self::Nanos => 1_000_000_000,
        }
    }
}

impl Meaning {
    /// The meaning of a column of the file with the schema `root`.
    pub(crate) fn of(column: &ColumnDescriptor, root: &Type) -> Self {
        match (column.logical_type_ref(), part_of_variant(column, root)) {
            (Some(logical), _) => Self::of_logical(logical),
            (None, Some(part)) => Self::Other(part.to_owned()),
            (None, None) => Self::of_converted(column.self_type()),
        }
    }

    /// The meaning of a node of a schema, without those that it is in.
    pub(crate) fn of_node(node: &Type) -> Self {
        match node.get_basic_info().logical_type_ref() {
            Some(logical) => Self::of_logical(logical),
            None => Self::of_converted(node),
        }
    }

    fn of_logical(logical: &LogicalType) -> Self {
        match logical {
            LogicalType::String => Self::Text("string"),
            LogicalType::Enum => Self::Text("enum"),
            LogicalType::Json => Self::Text("json"),
            LogicalType::Integer(int) => Self::Integer {
                bits: int.bit_width,
                signed: int.is_signed,
            },
            LogicalType::Decimal(decimal) => Self::Decimal {
                precision: decimal.precision,
                scale: decimal.scale,
            },
            LogicalType::Date => Self::Date,
            LogicalType::Time(time) => Self::Time {
                unit: unit(time.unit),
                utc: time.is_adjusted_to_u_t_c,
            },
            LogicalType::Timestamp(time) => Self::Timestamp {
                unit: unit(time.unit),
                utc: time.is_adjusted_to_u_t_c,
            },
            LogicalType::Uuid => Self::Uuid,
            LogicalType::Float16 => Self::Float16,
            LogicalType::Unknown => Self::Other("null".to_owned()),
            LogicalType::Geometry(kind) => Self::Other(with_parameters("geometry", [crs(kind.crs.as_ref())])),
            LogicalType::Geography(kind) => {
                let algorithm = kind.algorithm().map(|name| name.to_string().to_lowercase());
                Self::Other(with_parameters("geography", [crs(kind.crs.as_ref()), algorithm]))
            }
            other => Self::Other(name_of(other)),
        }
    }

    fn of_converted(node: &Type) -> Self {
        let integer = |bits, signed| Self::Integer { bits, signed };
        match node.get_basic_info().converted_type() {
            ConvertedType::NONE => Self::Plain,
            ConvertedType::UTF8 => Self::Text("string"),
            ConvertedType::ENUM => Self::Text("enum"),
            ConvertedType::JSON => Self::Text("json"),
            ConvertedType::DECIMAL => {
                let (precision, scale) = decimal(node);
                Self::Decimal { precision, scale }
            }
            ConvertedType::DATE => Self::Date,
            ConvertedType::TIME_MILLIS => Self::Time {
                unit: Unit::Millis,
                utc: true,
            },
            ConvertedType::TIME_MICROS => Self::Time {
                unit: Unit::Micros,
                utc: true,
            },
            ConvertedType::TIMESTAMP_MILLIS => Self::Timestamp {
                unit: Unit::Millis,
                utc: true,
            },
            ConvertedType::TIMESTAMP_MICROS => Self::Timestamp {
                unit: Unit::Micros,
                utc: true,
            },
            ConvertedType::UINT_8 => integer(8, false),
            ConvertedType::UINT_16 => integer(16, false),
            ConvertedType::UINT_32 => integer(32, false),
            ConvertedType::UINT_64 => integer(64, false),
            ConvertedType::INT_8 => integer(8, true),
            ConvertedType::INT_16 => integer(16, true),
            ConvertedType::INT_32 => integer(32, true),
            ConvertedType::INT_64 => integer(64, true),
            other => Self::Other(other.to_string().to_lowercase()),
        }
    }

    /// The name for people; none if the physical type is all there is.
    pub(crate) fn name(&self) -> Option<String> {
        (*self != Self::Plain).then(|| self.to_string())
    }
}

impl fmt::Display for Meaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain => Ok(()),
            Self::Text(name) => f.write_str(name),
            Self::Integer { bits, signed } => write!(f, "{}int{bits}", if *signed { "" } else { "u" }),
            Self::Decimal { precision, scale } => write!(f, "decimal({precision}, {scale})"),
            Self::Date => f.write_str("date"),
            Self::Time { unit, utc } => write!(f, "time({unit}{})", if *utc { ", utc" } else { "" }),
            Self::Timestamp { unit, utc } => {
                write!(f, "timestamp({unit}{})", if *utc { ", utc" } else { "" })
            }
            Self::Uuid => f.write_str("uuid"),
            Self::Float16 => f.write_str("float16"),
            Self::Other(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Millis => "ms",
            Self::Micros => "us",
            Self::Nanos => "ns",
        })
    }
}

/// Precision and scale of a decimal.
fn decimal(node: &Type) -> (i32, i32) {
    match node {
        Type::PrimitiveType { precision, scale, .. } => (*precision, *scale),
        Type::GroupType { .. } => (0, 0),
    }
}

fn unit(unit: TimeUnit) -> Unit {
    match unit {
        TimeUnit::MILLIS => Unit::Millis,
        TimeUnit::MICROS => Unit::Micros,
        TimeUnit::NANOS => Unit::Nanos,
    }
}

/// The part of a variant that a column of bytes holds, if it is one.
fn part_of_variant(column: &ColumnDescriptor, root: &Type) -> Option<&'static str> {
    let (last, above) = column.path().parts().split_last()?;
    let mut node = root;
    let mut depth = None;
    for (level, name) in above.iter().enumerate() {
        let mut fields = node.get_fields().iter();
        node = fields.find(|field| field.is_group() && field.name() == name)?;
        if matches!(
            node.get_basic_info().logical_type_ref(),
            Some(LogicalType::Variant(_))
        ) {
            depth = Some(level);
        }
    }
    let is_direct = depth? + 1 == above.len();
    match last.as_str() {
        "metadata" if is_direct => Some("variant metadata"),
        "value" => Some("variant value"),
        _ => None,
    }
}

/// The CRS of geometries by its name, and not by all of its definition.
fn crs(crs: Option<&String>) -> Option<String> {
    let crs = crs?;
    Some(if crs.starts_with('{') {
        "projjson".to_owned()
    } else {
        crs.clone()
    })
}

fn with_parameters(name: &str, parameters: impl IntoIterator<Item = Option<String>>) -> String {
    let parameters: Vec<_> = parameters.into_iter().flatten().collect();
    if parameters.is_empty() {
        name.to_owned()
    } else {
        format!("{name}({})", parameters.join(", "))
    }
}

/// The variant's name without its fields, in lower case.
fn name_of(logical: &LogicalType) -> String {
    let text = format!("{logical:?}");
    let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
    text[..end].to_lowercase()
}
