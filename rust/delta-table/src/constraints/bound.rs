//! CHECK expressions over the columns of a table, and their truth for rows.
//!
//! Two values are compared in one type, the one that Spark and delta-rs choose. Where they choose differently, or a
//! value would be rounded on the way, the expression is refused.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Datum, Decimal128Array, Float64Array,
    Int64Array, Scalar, StringArray, TimestampMicrosecondArray, new_null_array,
};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_ord::cmp;
use arrow_schema::{ArrowError, DataType};
use arrow_select::nullif::nullif;
use chrono::{NaiveDate, NaiveDateTime, NaiveTime, TimeDelta};
use parquet_writer::Batch;

use crate::clustering::shown;
use crate::mapping::Mapping;
use crate::scan::{adapt, plain};
use crate::schema::{Column, Kind, Primitive, TableSchema};

use super::sql::{Expression, Literal, Number, Operator};

/// The digits of the widest decimal.
const MOST_DIGITS: u8 = 38;

/// The digits of a number with a fraction that a double keeps.
const MOST_FRACTIONAL: u8 = 15;

/// The note of a column whose texts Spark pads or cuts.
const FIXED_TEXT: &str = "__CHAR_VARCHAR_TYPE_STRING";

/// Whole numbers up to this one are the same in single precision.
const MOST_SINGLE: i128 = 1 << 24;

/// A column, or a field at any depth of structs, that an expression names.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Named {
    /// Names from the top, as the table has them.
    pub path: Vec<String>,
    kind: Kind,
    /// True if empty text is null in it, as in all partition columns.
    is_partition: bool,
}

/// An expression whose columns are known.
#[derive(Debug, Clone)]
pub(super) enum Bound {
    Constant(Option<bool>),
    Flag(Named),
    IsNull(Named),
    Not(Box<Bound>),
    All(Vec<Bound>),
    Any(Vec<Bound>),
    Compare(Compared),
}

/// A comparison in one type.
#[derive(Debug, Clone)]
pub(super) struct Compared {
    left: Side,
    operator: Operator,
    right: Side,
    data_type: DataType,
}

/// A side of a comparison.
#[derive(Debug, Clone)]
enum Side {
    Column(Named),
    /// An array of one value, in the type of the comparison.
    Value(ArrayRef),
}

/// The rows for which an expression is true, and those for which it is false. It is null for all others.
#[derive(Debug)]
pub(super) struct Truth {
    pub is_true: BooleanBuffer,
    is_false: BooleanBuffer,
}

/// The columns that expressions may name.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub schema: &'a TableSchema,
    pub partition_columns: &'a [String],
    /// True if names are in any case, as some engines and not all have it.
    pub any_case: bool,
}

impl Scope<'_> {
    /// Binds a condition. The error says why an expression is none.
    pub fn condition(&self, expression: &Expression) -> Result<Bound, String> {
        let each = |parts: &[Expression]| -> Result<Vec<Bound>, String> {
            parts.iter().map(|part| self.condition(part)).collect()
        };
        Ok(match expression {
            Expression::Literal(Literal::Boolean(value)) => Bound::Constant(Some(*value)),
            Expression::Literal(Literal::Null) => Bound::Constant(None),
            Expression::Literal(_) => return Err("it has a literal that is not compared".to_owned()),
            Expression::Column(path) => {
                let named = self.column(path)?;
                if named.kind != Kind::Primitive(Primitive::Boolean) {
                    let name = shown(&named.path);
                    return Err(format!("the column {name} is no boolean, and is not compared"));
                }
                Bound::Flag(named)
            }
            Expression::Not(inner) => Bound::Not(Box::new(self.condition(inner)?)),
            Expression::All(parts) => Bound::All(each(parts)?),
            Expression::Any(parts) => Bound::Any(each(parts)?),
            Expression::IsNull(inner) => match inner.as_ref() {
                Expression::Column(path) => Bound::IsNull(self.column(path)?),
                _ => return Err("IS NULL goes with a column".to_owned()),
            },
            Expression::In(left, literals) => self.among(left, literals)?,
            Expression::Compare(left, operator, right) => self.comparison(left, *operator, right)?,
        })
    }

    /// The column of these names.
    fn column(&self, path: &[String]) -> Result<Named, String> {
        let lacking = || format!("there is no column {}", shown(path));
        let mut columns = self.schema.columns.as_slice();
        let mut names = Vec::new();
        let mut kind = None;
        for name in path {
            let lower = name.to_lowercase();
            let mut found = columns.iter();
            let found: &Column = found
                .find(|column| column.name.to_lowercase() == lower)
                .ok_or_else(lacking)?;
            if !self.any_case && found.name != *name {
                return Err(format!("the column {} is named {name}", found.name));
            }
            if found.metadata.contains_key(FIXED_TEXT) {
                return Err(format!(
                    "the column {} has the type char or varchar, whose spaces engines compare differently",
                    found.name
                ));
            }
            names.push(found.name.clone());
            kind = Some(&found.kind);
            columns = match &found.kind {
                Kind::Struct(fields) => fields.as_slice(),
                _ => &[],
            };
        }
        Ok(Named {
            is_partition: names.len() == 1 && self.partition_columns.contains(&names[0]),
            path: names,
            kind: kind.cloned().ok_or_else(lacking)?,
        })
    }

    fn comparison(&self, left: &Expression, operator: Operator, right: &Expression) -> Result<Bound, String> {
        let (left, right, data_type) = match (left, right) {
            (Expression::Column(path), Expression::Literal(Literal::Null))
            | (Expression::Literal(Literal::Null), Expression::Column(path)) => {
                self.column(path)?;
                return Ok(Bound::Constant(None));
            }
            (Expression::Column(left), Expression::Column(right)) => {
                let (left, right) = (self.column(left)?, self.column(right)?);
                let data_type = common(&left.kind, &right.kind).ok_or_else(|| {
                    format!(
                        "the columns {} and {} have types that cannot be compared here",
                        shown(&left.path),
                        shown(&right.path)
                    )
                })?;
                (Side::Column(left), Side::Column(right), data_type)
            }
            (Expression::Column(path), Expression::Literal(literal)) => {
                let (column, value) = self.with_value(path, literal)?;
                let data_type = value.data_type().clone();
                (Side::Column(column), Side::Value(value), data_type)
            }
            (Expression::Literal(literal), Expression::Column(path)) => {
                let (column, value) = self.with_value(path, literal)?;
                let data_type = value.data_type().clone();
                (Side::Value(value), Side::Column(column), data_type)
            }
            _ => return Err("a comparison is not of a column with a literal or another column".to_owned()),
        };
        Ok(Bound::Compare(Compared {
            left,
            operator,
            right,
            data_type,
        }))
    }

    /// A list, whose literals engines convert to one type before they compare.
    fn among(&self, left: &Expression, literals: &[Literal]) -> Result<Bound, String> {
        let Expression::Column(path) = left else {
            return Err("IN goes with a column".to_owned());
        };
        let has = |is: fn(&Literal) -> bool| literals.iter().any(is);
        if has(|literal| matches!(literal, Literal::Double(_)))
            && has(|literal| matches!(literal, Literal::Number(_)))
        {
            return Err(
                "a list has numbers with an exponent and others, which are compared as doubles".to_owned(),
            );
        }
        let is_time = matches!(
            self.column(path)?.kind,
            Kind::Primitive(Primitive::Timestamp | Primitive::TimestampNtz)
        );
        if is_time && has(|literal| matches!(literal, Literal::Text(_))) {
            return Err("a list has the text of a time, which Spark compares as text".to_owned());
        }
        let equal = literals.iter().map(|literal| {
            let literal = Expression::Literal(literal.clone());
            self.comparison(left, Operator::Equal, &literal)
        });
        Ok(Bound::Any(equal.collect::<Result<_, _>>()?))
    }

    fn with_value(&self, path: &[String], literal: &Literal) -> Result<(Named, ArrayRef), String> {
        let column = self.column(path)?;
        let value = value_of(&column.kind, literal)
            .map_err(|why| format!("the column {} cannot be compared with {why}", shown(path)))?;
        Ok((column, value))
    }
}

/// The type in which two columns are compared; none where engines choose different ones.
fn common(left: &Kind, right: &Kind) -> Option<DataType> {
    use Primitive::{Binary, Byte, Double, Float, Integer, Long, Short};
    let (Kind::Primitive(a), Kind::Primitive(b)) = (left, right) else {
        return decimal_of(digits_of(left)?, digits_of(right)?);
    };
    match (a, b) {
        (Binary, _) => None,
        (a, b) if a == b => Some(left.arrow()),
        (Byte | Short | Integer | Long, Byte | Short | Integer | Long) => Some(DataType::Int64),
        (Byte | Short | Integer | Long | Float, Double)
        | (Double, Byte | Short | Integer | Long | Float)
        | (Byte | Short, Float)
        | (Float, Byte | Short) => Some(DataType::Float64),
        _ => None,
    }
}

/// The digits of a type's numbers, and how many of them are behind the point.
fn digits_of(kind: &Kind) -> Option<(u8, u8)> {
    match kind {
        Kind::Primitive(Primitive::Byte) => Some((3, 0)),
        Kind::Primitive(Primitive::Short) => Some((5, 0)),
        Kind::Primitive(Primitive::Integer) => Some((10, 0)),
        Kind::Primitive(Primitive::Long) => Some((20, 0)),
        Kind::Decimal(precision, scale) => Some((*precision, u8::try_from(*scale).ok()?)),
        _ => None,
    }
}

/// The decimal type that holds the numbers of both; none where it would have too many digits.
fn decimal_of((digits, scale): (u8, u8), (other, other_scale): (u8, u8)) -> Option<DataType> {
    let whole = digits.checked_sub(scale)?.max(other.checked_sub(other_scale)?);
    let scale = scale.max(other_scale);
    let precision = whole.checked_add(scale).filter(|all| *all <= MOST_DIGITS)?;
    Some(DataType::Decimal128(precision, i8::try_from(scale).ok()?))
}

/// A literal as an array of one value, in the type in which it is compared with a column. The error is in words that
/// follow "compared with".
fn value_of(kind: &Kind, literal: &Literal) -> Result<ArrayRef, String> {
    use Primitive::{
        Boolean, Byte, Date, Double, Float, Integer, Long, Short, String as Text, Timestamp, TimestampNtz,
    };
    let double = |value: f64| -> ArrayRef { Arc::new(Float64Array::from(vec![value])) };
    if let (Some(digits), Literal::Number(number)) = (digits_of(kind), literal) {
        return exact(kind, digits, *number);
    }
    let Kind::Primitive(primitive) = kind else {
        return Err("this literal".to_owned());
    };
    let value: ArrayRef = match (primitive, literal) {
        (Boolean, Literal::Boolean(value)) => Arc::new(BooleanArray::from(vec![*value])),
        (Float, Literal::Number(number)) if number.scale == 0 && number.unscaled.abs() > MOST_SINGLE => {
            return Err("so large a whole number, which single precision would round".to_owned());
        }
        (Float | Double, Literal::Number(number)) => double(number.to_double().ok_or("this number")?),
        (Byte | Short | Integer | Long | Float | Double, Literal::Double(value)) => double(*value),
        (Text, Literal::Text(text)) => Arc::new(StringArray::from(vec![text.as_str()])),
        (Date, Literal::Date(text) | Literal::Text(text)) => {
            let days =
                days(text).ok_or_else(|| format!("'{text}', which is no date such as '2026-01-31'"))?;
            Arc::new(Date32Array::from(vec![days]))
        }
        (Timestamp, Literal::Timestamp(text) | Literal::Text(text)) => {
            let micros = moment(text).ok_or_else(|| {
                format!("'{text}', which is no time with a zone, such as '2026-01-31 12:00:00Z'")
            })?;
            Arc::new(TimestampMicrosecondArray::from(vec![micros]).with_timezone("UTC"))
        }
        (TimestampNtz, Literal::Text(text)) => {
            let micros = clock(text).ok_or_else(|| {
                format!("'{text}', which is no time without a zone, such as '2026-01-31 12:00:00'")
            })?;
            Arc::new(TimestampMicrosecondArray::from(vec![micros]))
        }
        _ => return Err("a literal of this type".to_owned()),
    };
    Ok(value)
}

/// A number for the comparison with a column of exact numbers.
fn exact(kind: &Kind, digits: (u8, u8), number: Number) -> Result<ArrayRef, String> {
    // DataFusion takes it for a double first.
    if number.scale > 0 && number.digits > MOST_FRACTIONAL {
        return Err(format!(
            "a fraction of more than {MOST_FRACTIONAL} digits, which delta-rs would round"
        ));
    }
    if matches!(kind, Kind::Primitive(_)) {
        // Spark takes nulls for true where no long is as large.
        let whole = i64::try_from(number.unscaled / 10_i128.pow(number.scale.into()))
            .map_err(|_| "a number beyond the longs".to_owned())?;
        if number.scale == 0 {
            return Ok(Arc::new(Int64Array::from(vec![whole])));
        }
    }
    let too_long = || format!("this number: it takes decimals of more than {MOST_DIGITS} digits");
    let data_type = decimal_of(digits, (number.digits, number.scale)).ok_or_else(too_long)?;
    let DataType::Decimal128(_, scale) = data_type else {
        return Err(too_long());
    };
    let more = u32::try_from(scale).map_err(|_| too_long())? - u32::from(number.scale);
    let unscaled = 10_i128
        .checked_pow(more)
        .and_then(|factor| number.unscaled.checked_mul(factor))
        .ok_or_else(too_long)?;
    Ok(Arc::new(
        Decimal128Array::from(vec![unscaled]).with_data_type(data_type),
    ))
}

/// The date `2026-01-31`, in no other spelling.
fn date(text: &str) -> Option<NaiveDate> {
    let is_plain = is_like(text, b"0000-00-00");
    text.parse().ok().filter(|_| is_plain)
}

/// Returns true if a text has the signs of a pattern, and any digit where that has one.
fn is_like(text: &str, pattern: &[u8]) -> bool {
    let mut pairs = text.bytes().zip(pattern);
    let is_one = |(byte, sign): (u8, &u8)| byte == *sign || (*sign == b'0' && byte.is_ascii_digit());
    text.len() == pattern.len() && pairs.all(is_one)
}

/// Days since the epoch of a date.
fn days(text: &str) -> Option<i32> {
    let days = date(text)?.signed_duration_since(NaiveDate::default());
    i32::try_from(days.num_days()).ok()
}

/// Microseconds since the epoch of a time with a zone: `Z` or an offset such as `+01:00`.
fn moment(text: &str) -> Option<i64> {
    let (clock, zone) = clock_and_rest(text)?;
    Some(clock.and_utc().timestamp_micros() - offset_micros(zone)?)
}

/// Microseconds of a clock without a zone.
fn clock(text: &str) -> Option<i64> {
    let (clock, rest) = clock_and_rest(text)?;
    rest.is_empty().then(|| clock.and_utc().timestamp_micros())
}

/// The clock that a text begins with, `2026-01-31 12:00:00.000000` with a fraction of one to six digits or none and
/// perhaps a `T`, and what follows. All engines read it alike.
fn clock_and_rest(text: &str) -> Option<(NaiveDateTime, &str)> {
    let (day, rest) = text.split_at_checked(10)?;
    let (time, rest) = rest.strip_prefix([' ', 'T'])?.split_at_checked(8)?;
    // A leap second has no place in a table.
    if !is_like(time, b"00:00:00") || &time[6..] > "59" {
        return None;
    }
    let time: NaiveTime = time.parse().ok()?;
    let (micros, rest) = match rest.strip_prefix('.') {
        None => (0, rest),
        Some(fraction) => {
            let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
            let (digits, rest) = fraction.split_at(digits);
            if !(1..=6).contains(&digits.len()) {
                return None;
            }
            (format!("{digits:0<6}").parse().ok()?, rest)
        }
    };
    let clock = date(day)?.and_time(time) + TimeDelta::microseconds(micros);
    Some((clock, rest))
}

/// Microseconds that a zone is ahead of UTC, 18 hours at most.
fn offset_micros(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    let (sign, ahead) = match zone.strip_prefix('-') {
        Some(behind) => (-1, behind),
        None => (1, zone.strip_prefix('+')?),
    };
    let (hours, minutes) = ahead.split_once(':').filter(|_| is_like(ahead, b"00:00"))?;
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    let all = hours * 60 + minutes;
    (minutes < 60 && all <= 18 * 60).then_some(sign * all * 60_000_000)
}

impl Bound {
    /// The columns that it names, each once, in their order.
    pub fn columns(&self) -> Vec<&Named> {
        let mut columns = Vec::new();
        self.collect(&mut columns);
        columns
    }

    fn collect<'a>(&'a self, columns: &mut Vec<&'a Named>) {
        let mut add = |column: &'a Named| {
            if !columns.contains(&column) {
                columns.push(column);
            }
        };
        match self {
            Self::Constant(_) => {}
            Self::Flag(column) | Self::IsNull(column) => add(column),
            Self::Not(inner) => inner.collect(columns),
            Self::All(parts) | Self::Any(parts) => parts.iter().for_each(|part| part.collect(columns)),
            Self::Compare(Compared { left, right, .. }) => {
                for side in [left, right] {
                    if let Side::Column(column) = side {
                        add(column);
                    }
                }
            }
        }
    }

    /// Its truth for each of some rows, whose texts are checked. A column that they lack is null.
    pub fn truth(&self, rows: &Batch) -> Result<Truth, ArrowError> {
        Ok(match self {
            Self::Constant(value) => Truth::constant(*value, rows.rows()),
            Self::Flag(column) => Truth::of(column.values(rows)?.as_boolean()),
            Self::IsNull(column) => {
                let nulls = column.values(rows)?.logical_nulls();
                let valid = nulls.map_or_else(
                    || BooleanBuffer::new_set(rows.rows()),
                    |nulls| nulls.inner().clone(),
                );
                Truth {
                    is_true: !&valid,
                    is_false: valid,
                }
            }
            Self::Not(inner) => {
                let Truth { is_true, is_false } = inner.truth(rows)?;
                Truth {
                    is_true: is_false,
                    is_false: is_true,
                }
            }
            Self::All(parts) => {
                let mut all = Truth::constant(Some(true), rows.rows());
                for part in parts {
                    let part = part.truth(rows)?;
                    all.is_true = &all.is_true & &part.is_true;
                    all.is_false = &all.is_false | &part.is_false;
                }
                all
            }
            Self::Any(parts) => {
                let mut any = Truth::constant(Some(false), rows.rows());
                for part in parts {
                    let part = part.truth(rows)?;
                    any.is_true = &any.is_true | &part.is_true;
                    any.is_false = &any.is_false & &part.is_false;
                }
                any
            }
            Self::Compare(compared) => Truth::of(&compared.compare(rows)?),
        })
    }
}

impl Truth {
    fn constant(value: Option<bool>, rows: usize) -> Self {
        let all = |is: bool| {
            if is {
                BooleanBuffer::new_set(rows)
            } else {
                BooleanBuffer::new_unset(rows)
            }
        };
        Self {
            is_true: all(value == Some(true)),
            is_false: all(value == Some(false)),
        }
    }

    fn of(array: &BooleanArray) -> Self {
        let (is_true, is_false) = (array.values().clone(), !array.values());
        match array.nulls() {
            None => Self { is_true, is_false },
            Some(valid) => Self {
                is_true: &is_true & valid.inner(),
                is_false: &is_false & valid.inner(),
            },
        }
    }
}

impl Compared {
    fn compare(&self, rows: &Batch) -> Result<BooleanArray, ArrowError> {
        let compare = match self.operator {
            Operator::Equal => cmp::eq,
            Operator::NotEqual => cmp::neq,
            Operator::Less => cmp::lt,
            Operator::LessOrEqual => cmp::lt_eq,
            Operator::Greater => cmp::gt,
            Operator::GreaterOrEqual => cmp::gt_eq,
        };
        let (left, right) = (self.datum(&self.left, rows)?, self.datum(&self.right, rows)?);
        compare(left.as_ref(), right.as_ref())
    }

    fn datum(&self, side: &Side, rows: &Batch) -> Result<Box<dyn Datum>, ArrowError> {
        let strict = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        Ok(match side {
            Side::Value(value) => Box::new(Scalar::new(plain(value))),
            Side::Column(column) => {
                let values = cast_with_options(&column.values(rows)?, &self.data_type, &strict)?;
                Box::new(plain(&values))
            }
        })
    }
}

impl Named {
    /// The values of some rows, in the type of the table. A field of a struct that is null is null.
    pub fn values(&self, rows: &Batch) -> Result<ArrayRef, ArrowError> {
        let (top, below) = self.path.split_first().ok_or_else(|| lost(&self.path))?;
        let Some((place, _)) = rows.schema().column_with_name(top) else {
            return Ok(new_null_array(&self.kind.arrow(), rows.rows()));
        };
        let mut array = Arc::clone(&rows.columns()[place]);
        let mut nulls: Option<NullBuffer> = None;
        for name in below {
            let group = array.as_struct_opt().ok_or_else(|| lost(&self.path))?;
            nulls = NullBuffer::union(nulls.as_ref(), group.nulls());
            array = Arc::clone(group.column_by_name(name).ok_or_else(|| lost(&self.path))?);
        }
        let array = adapt(&array, &self.kind, Mapping::None)?;
        let array = match nulls {
            None => array,
            Some(nulls) => nullif(&array, &BooleanArray::new(!nulls.inner(), None))?,
        };
        self.without_empty(array)
    }

    /// The values as the log of a table has them: an empty text of a partition column is null.
    fn without_empty(&self, array: ArrayRef) -> Result<ArrayRef, ArrowError> {
        if !self.is_partition {
            return Ok(array);
        }
        let empty = match array.data_type() {
            DataType::Utf8 => cmp::eq(&array, &StringArray::new_scalar(""))?,
            DataType::Binary => cmp::eq(&array, &BinaryArray::new_scalar(""))?,
            _ => return Ok(array),
        };
        nullif(&array, &empty)
    }
}

fn lost(path: &[String]) -> ArrowError {
    ArrowError::SchemaError(format!("the rows have no column {}", shown(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_one_spelling() {
        let noon = 1_769_860_800_000_000;
        for (text, micros) in [
            ("2026-01-31 12:00:00Z", noon),
            ("2026-01-31T12:00:00.5Z", noon + 500_000),
            ("2026-01-31 13:00:00.000001+01:00", noon + 1),
            ("2026-01-30 18:00:00-18:00", noon),
        ] {
            assert_eq!(moment(text), Some(micros), "{text}");
            assert_eq!(clock(text), None, "{text}");
        }
        assert_eq!(clock("2026-01-31T12:00:00.000010"), Some(noon + 10));
        for text in [
            "2026-01-31",
            "2026-01-31 12:00",
            "2026-01-31  12:00:00",
            "2026-01-31t12:00:00",
            "2026-01-31 12:00:60",
            "2026-01-31 24:00:00",
            "2026-01-31 12:00:00.",
            "2026-01-31 12:00:00.1234567",
            "2026-1-31 12:00:00",
            "2026-02-30 12:00:00",
            "-026-01-31 12:00:00",
            " 2026-01-31 12:00:00",
        ] {
            assert_eq!(clock(text), None, "{text}");
            assert_eq!(moment(&format!("{text}Z")), None, "{text}Z");
        }
        for zone in [
            "",
            "z",
            " Z",
            "UTC",
            "+1:00",
            "+0100",
            "+01:60",
            "+18:01",
            "+01:00:00",
            "01:00",
        ] {
            assert_eq!(moment(&format!("2026-01-31 12:00:00{zone}")), None, "{zone}");
        }
    }
}
