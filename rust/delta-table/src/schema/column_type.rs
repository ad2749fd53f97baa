//! Types of the log, their names in it, and their Arrow types.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};
use serde_json::{Map, Value, json};

use crate::error::{Result, TableError};
use crate::schema_evolution;
use crate::widening::widens;

use super::TableColumn;

/// A type of the log.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnType {
    /// `string`, `long`, and so on: all that have no parameters.
    Primitive(Primitive),
    /// Precision and scale.
    Decimal(u8, i8),
    /// Fields.
    Struct(Vec<TableColumn>),
    /// The element's type, and whether it may be null.
    Array(Box<ColumnType>, bool),
    /// The key's type, the value's, and whether a value may be null.
    Map(Box<ColumnType>, Box<ColumnType>, bool),
}

/// A type without parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Primitive {
    /// UTF-8 text.
    String,
    /// 64 bits.
    Long,
    /// 32 bits.
    Integer,
    /// 16 bits.
    Short,
    /// 8 bits.
    Byte,
    /// Single precision.
    Float,
    /// Double precision.
    Double,
    /// True or false.
    Boolean,
    /// Bytes.
    Binary,
    /// Days.
    Date,
    /// Microseconds, a moment.
    Timestamp,
    /// Microseconds of a clock in an unknown time zone.
    TimestampNtz,
}

impl Primitive {
    const ALL: [(&'static str, Self); 12] = [
        ("string", Self::String),
        ("long", Self::Long),
        ("integer", Self::Integer),
        ("short", Self::Short),
        ("byte", Self::Byte),
        ("float", Self::Float),
        ("double", Self::Double),
        ("boolean", Self::Boolean),
        ("binary", Self::Binary),
        ("date", Self::Date),
        ("timestamp", Self::Timestamp),
        ("timestamp_ntz", Self::TimestampNtz),
    ];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(_, kind)| *kind == self)
            .map_or("", |(name, _)| name)
    }

    fn arrow(self) -> DataType {
        match self {
            Self::String => DataType::Utf8,
            Self::Long => DataType::Int64,
            Self::Integer => DataType::Int32,
            Self::Short => DataType::Int16,
            Self::Byte => DataType::Int8,
            Self::Float => DataType::Float32,
            Self::Double => DataType::Float64,
            Self::Boolean => DataType::Boolean,
            Self::Binary => DataType::Binary,
            Self::Date => DataType::Date32,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::TimestampNtz => DataType::Timestamp(TimeUnit::Microsecond, None),
        }
    }
}

impl ColumnType {
    /// Returns true if the empty text of a partition value is a value of this type. In others it is null.
    #[must_use]
    pub fn has_empty(&self) -> bool {
        matches!(self, Self::Primitive(Primitive::String | Primitive::Binary))
    }

    /// Returns true if every value of `other` can be stored as this type unchanged. Fields of structs go by name, and
    /// those that `other` lacks are null.
    pub(crate) fn holds(&self, other: &Self) -> bool {
        use Primitive::{Byte, Double, Float, Integer, Long, Short};
        match (self, other) {
            (Self::Primitive(to), Self::Primitive(from)) => {
                to == from
                    || matches!(
                        (from, to),
                        (Byte, Short | Integer | Long)
                            | (Short, Integer | Long)
                            | (Integer, Long)
                            | (Float, Double)
                    )
            }
            (Self::Decimal(to, to_scale), Self::Decimal(from, from_scale)) => {
                to_scale >= from_scale
                    && i16::from(*to) - i16::from(*to_scale) >= i16::from(*from) - i16::from(*from_scale)
            }
            (Self::Struct(to), Self::Struct(from)) => schema_evolution::hold(to, from),
            (Self::Array(to, _), Self::Array(from, _)) => to.holds(from),
            (Self::Map(key, value, _), Self::Map(from_key, from_value, _)) => {
                key.holds(from_key) && value.holds(from_value)
            }
            _ => false,
        }
    }

    /// This type, with null allowed wherever `other` allows it or lacks a field; none where a value of `other` is not
    /// one of it. A file's values of the one type are read as those of the other.
    pub(crate) fn relaxed(&self, other: &Self) -> Option<Self> {
        Some(match (self, other) {
            (Self::Struct(to), Self::Struct(from)) => Self::Struct(relaxed_fields(to, from)?),
            (Self::Array(to, nullable), Self::Array(from, from_nullable)) => {
                Self::Array(Box::new(to.relaxed(from)?), *nullable || *from_nullable)
            }
            (Self::Map(key, value, nullable), Self::Map(from_key, from_value, from_nullable)) => Self::Map(
                Box::new(key.relaxed(from_key)?),
                Box::new(value.relaxed(from_value)?),
                *nullable || *from_nullable,
            ),
            _ if self.holds(other) || widens(other, self) => self.clone(),
            _ => return None,
        })
    }

    /// This type without the fields that `other` lacks.
    pub(crate) fn within(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Struct(fields), Self::Struct(others)) => {
                let fields = fields.iter().filter_map(|field| {
                    let other = others.iter().find(|other| other.name == field.name)?;
                    let kind = field.kind.within(&other.kind);
                    Some(TableColumn {
                        kind,
                        ..field.clone()
                    })
                });
                Self::Struct(fields.collect())
            }
            (Self::Array(element, nullable), Self::Array(other, _)) => {
                Self::Array(Box::new(element.within(other)), *nullable)
            }
            // Keys stay as they are: without a field, two of them could be equal.
            (Self::Map(key, value, nullable), Self::Map(_, other, _)) => {
                Self::Map(key.clone(), Box::new(value.within(other)), *nullable)
            }
            _ => self.clone(),
        }
    }

    /// The structs in it, without those inside other structs.
    pub(crate) fn structs(&self) -> Vec<&[TableColumn]> {
        match self {
            Self::Primitive(_) | Self::Decimal(..) => Vec::new(),
            Self::Struct(columns) => vec![columns],
            Self::Array(element, _) => element.structs(),
            Self::Map(key, value, _) => [key.structs(), value.structs()].concat(),
        }
    }

    /// Returns true if it contains a timestamp without time zone.
    pub(super) fn has_ntz(&self) -> bool {
        match self {
            Self::Primitive(primitive) => *primitive == Primitive::TimestampNtz,
            Self::Decimal(..) => false,
            Self::Struct(columns) => columns.iter().any(|column| column.kind.has_ntz()),
            Self::Array(element, _) => element.has_ntz(),
            Self::Map(key, value, _) => key.has_ntz() || value.has_ntz(),
        }
    }

    /// The Arrow type in the table's files.
    #[must_use]
    pub fn arrow(&self) -> DataType {
        match self {
            Self::Primitive(primitive) => primitive.arrow(),
            Self::Decimal(precision, scale) => DataType::Decimal128(*precision, *scale),
            Self::Struct(columns) => DataType::Struct(fields(columns)),
            Self::Array(element, nullable) => {
                DataType::List(Arc::new(Field::new("element", element.arrow(), *nullable)))
            }
            Self::Map(key, value, nullable) => {
                let entries = Fields::from(vec![
                    Field::new("key", key.arrow(), false),
                    Field::new("value", value.arrow(), *nullable),
                ]);
                DataType::Map(
                    Arc::new(Field::new("key_value", DataType::Struct(entries), false)),
                    false,
                )
            }
        }
    }

    /// The type for values of an Arrow type.
    pub(super) fn of(data_type: &DataType, at: &str) -> Result<Self> {
        Ok(match data_type {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Primitive(Primitive::String),
            DataType::Int64 | DataType::UInt32 => Self::Primitive(Primitive::Long),
            DataType::Int32 | DataType::UInt16 => Self::Primitive(Primitive::Integer),
            DataType::Int16 | DataType::UInt8 => Self::Primitive(Primitive::Short),
            DataType::Int8 => Self::Primitive(Primitive::Byte),
            DataType::Float32 => Self::Primitive(Primitive::Float),
            DataType::Float64 => Self::Primitive(Primitive::Double),
            DataType::Boolean => Self::Primitive(Primitive::Boolean),
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Self::Primitive(Primitive::Binary),
            DataType::Date32 | DataType::Date64 => Self::Primitive(Primitive::Date),
            DataType::Timestamp(_, Some(_)) => Self::Primitive(Primitive::Timestamp),
            DataType::Timestamp(_, None) => Self::Primitive(Primitive::TimestampNtz),
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
                if (0..=38).contains(scale) && scale.unsigned_abs() <= *precision =>
            {
                Self::Decimal(*precision, *scale)
            }
            DataType::Struct(fields) => Self::Struct(columns(fields, at)?),
            DataType::List(field)
            | DataType::LargeList(field)
            | DataType::ListView(field)
            | DataType::LargeListView(field)
            | DataType::FixedSizeList(field, _) => {
                let element = Self::of(field.data_type(), &format!("{at}.element"))?;
                Self::Array(Box::new(element), field.is_nullable())
            }
            DataType::Map(entries, _) => map(entries, at)?,
            DataType::Dictionary(_, values) => Self::of(values, at)?,
            DataType::RunEndEncoded(_, values) => Self::of(values.data_type(), at)?,
            other => {
                return Err(TableError::column(
                    at,
                    format!(
                        "the column {at:?} has the type {other}, which a Delta table cannot hold{}",
                        advice(other)
                    ),
                ));
            }
        })
    }

    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Primitive(primitive) => Value::from(primitive.name()),
            Self::Decimal(precision, scale) => Value::from(format!("decimal({precision},{scale})")),
            Self::Struct(columns) => struct_json(columns),
            Self::Array(element, nullable) => {
                json!({"type": "array", "elementType": element.to_json(), "containsNull": nullable})
            }
            Self::Map(key, value, nullable) => json!({
                "type": "map",
                "keyType": key.to_json(),
                "valueType": value.to_json(),
                "valueContainsNull": nullable,
            }),
        }
    }

    /// The type in a schema that was checked.
    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        if let Some(name) = value.as_str() {
            return Self::named(name);
        }
        let child = |name: &str| value.get(name).and_then(Self::from_json).map(Box::new);
        let flag = |name: &str| value.get(name).and_then(Value::as_bool).unwrap_or(true);
        match value.get("type")?.as_str()? {
            "struct" => Some(Self::Struct(columns_from_json(value)?)),
            "array" => Some(Self::Array(child("elementType")?, flag("containsNull"))),
            "map" => Some(Self::Map(
                child("keyType")?,
                child("valueType")?,
                flag("valueContainsNull"),
            )),
            _ => None,
        }
    }

    fn named(name: &str) -> Option<Self> {
        if let Some((_, primitive)) = Primitive::ALL.iter().find(|(known, _)| *known == name) {
            return Some(Self::Primitive(*primitive));
        }
        if name == "decimal" {
            return Some(Self::Decimal(10, 0));
        }
        let (precision, scale) = name
            .strip_prefix("decimal(")?
            .strip_suffix(')')?
            .split_once(',')?;
        Some(Self::Decimal(
            precision.trim().parse().ok()?,
            scale.trim().parse().ok()?,
        ))
    }
}

/// The fields of a struct for values of another one too; none where that has a field which these lack.
fn relaxed_fields(to: &[TableColumn], from: &[TableColumn]) -> Option<Vec<TableColumn>> {
    let is_known = |field: &TableColumn| to.iter().any(|known| known.name == field.name);
    if !from.iter().all(is_known) {
        return None;
    }
    let fields = to.iter().map(|field| {
        let former = from.iter().find(|known| known.name == field.name);
        field.relaxed(former)
    });
    fields.collect()
}

fn advice(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::UInt64 => ": cast it to decimal(20, 0), or to int64 if its values fit",
        DataType::Float16 => ": cast it to float32",
        DataType::Duration(_) | DataType::Interval(_) | DataType::Time32(_) | DataType::Time64(_) => {
            ": cast it to int64"
        }
        DataType::Null => ": give the column a type",
        _ => "",
    }
}

fn map(entries: &FieldRef, at: &str) -> Result<ColumnType> {
    let DataType::Struct(fields) = entries.data_type() else {
        return Err(TableError::column(
            at,
            format!("the map {at:?} has entries that are no struct"),
        ));
    };
    let [key, value] = fields.as_ref() else {
        return Err(TableError::column(
            at,
            format!("the map {at:?} has not a key and a value"),
        ));
    };
    Ok(ColumnType::Map(
        Box::new(ColumnType::of(key.data_type(), &format!("{at}.key"))?),
        Box::new(ColumnType::of(value.data_type(), &format!("{at}.value"))?),
        value.is_nullable(),
    ))
}

/// The columns for values of Arrow fields, of which `at` are the names above them.
pub(crate) fn columns(fields: &Fields, at: &str) -> Result<Vec<TableColumn>> {
    fields
        .iter()
        .map(|field| {
            let below = if at.is_empty() {
                field.name().clone()
            } else {
                format!("{at}.{}", field.name())
            };
            Ok(TableColumn {
                name: field.name().clone(),
                kind: ColumnType::of(field.data_type(), &below)?,
                nullable: field.is_nullable(),
                metadata: Map::new(),
            })
        })
        .collect()
}

pub(super) fn fields(columns: &[TableColumn]) -> Fields {
    columns.iter().map(TableColumn::arrow).collect()
}

pub(super) fn struct_json(columns: &[TableColumn]) -> Value {
    let fields: Vec<Value> = columns
        .iter()
        .map(|column| {
            json!({
                "name": column.name,
                "type": column.kind.to_json(),
                "nullable": column.nullable,
                "metadata": column.metadata,
            })
        })
        .collect();
    json!({"type": "struct", "fields": fields})
}

pub(super) fn columns_from_json(value: &Value) -> Option<Vec<TableColumn>> {
    let fields = value.get("fields")?.as_array()?;
    fields
        .iter()
        .map(|field| {
            Some(TableColumn {
                name: field.get("name")?.as_str()?.to_owned(),
                kind: ColumnType::from_json(field.get("type")?)?,
                nullable: field.get("nullable")?.as_bool()?,
                metadata: field
                    .get("metadata")
                    .and_then(Value::as_object)
                    .cloned()
                    .unwrap_or_default(),
            })
        })
        .collect()
}
