//! Conditions as a caller gives them: tuples of column, operator and values, or a text in SQL.

use chrono::{NaiveDate, NaiveDateTime, Timelike};
use delta_commit::predicate::Literal;
use parquet_writer::OptionFault;
use serde_json::Value;

use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::limits::DECLARED;
use crate::scan::instead_of;
use crate::schema::{ColumnType, Primitive, TableColumn};
use crate::sql::{self, BoundCondition, Operator, Purpose, Scope};

/// Days from 0001-01-01 to the epoch.
const EPOCH_FROM_CE: i32 = 719_163;

/// The length of a date.
const DAY_LENGTH: usize = "2026-01-31".len();

/// Values of a condition in the history, which each reader of the log reads.
const MOST_SHOWN: usize = 100;

/// Characters of a text in the history.
const MOST_TEXT: usize = 2_000;

/// A value to compare with, as a caller gives it.
#[derive(Debug, Clone, PartialEq)]
pub enum ConditionValue {
    /// No value.
    Null,
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Long(i64),
    /// A number.
    Double(f64),
    /// Text; also a date or a timestamp in ISO 8601.
    Text(String),
}

/// A condition on one column.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// The column's name.
    pub column: String,
    /// `=`, `!=`, `<`, `<=`, `>`, `>=` or `in`.
    pub operator: String,
    /// One value, or for `in` any number.
    pub values: Vec<ConditionValue>,
}

/// Conditions on rows.
#[derive(Debug, Clone, PartialEq)]
pub enum Conditions {
    /// All of these hold. Without any, every row is meant.
    All(Vec<Condition>),
    /// This text in SQL is true.
    Sql(String),
}

impl Default for Conditions {
    fn default() -> Self {
        Self::All(Vec::new())
    }
}

impl From<Vec<Condition>> for Conditions {
    fn from(conditions: Vec<Condition>) -> Self {
        Self::All(conditions)
    }
}

impl<const N: usize> From<[Condition; N]> for Conditions {
    fn from(conditions: [Condition; N]) -> Self {
        Self::All(conditions.into())
    }
}

impl Conditions {
    /// Returns true if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::All(conditions) if conditions.is_empty())
    }

    /// Binds the conditions to the columns of a table. With `of_files` they select whole files, and may name partition
    /// columns only.
    ///
    /// # Errors
    /// [`TableError::Option`] names `option`, and the position in a text.
    pub(crate) fn bound(&self, head: &TableHead, option: &str, of_files: bool) -> Result<BoundCondition> {
        match self {
            Self::All(conditions) => {
                let parts = conditions.iter().map(|condition| {
                    if of_files {
                        check_partition_column(head, &condition.column)?;
                    }
                    condition.bound(head)
                });
                Ok(BoundCondition::All(parts.collect::<Result<_>>()?))
            }
            Self::Sql(text) => {
                let scope = Scope {
                    schema: &head.schema,
                    partition_columns: &head.metadata.partition_columns,
                    purpose: Purpose::Asked,
                    of_files,
                    sides: &[],
                };
                let condition = scope.read(text);
                condition.map_err(|fault| sql::refused(option, text, &fault))
            }
        }
    }

    /// The conditions as the history shows them.
    pub(crate) fn describe(&self) -> String {
        let texts: Vec<String> = match self {
            Self::All(conditions) => conditions.iter().map(Condition::describe).collect(),
            Self::Sql(text) => vec![described(text)],
        };
        serde_json::Value::from(texts).to_string()
    }
}

/// A condition in SQL as the history shows it.
pub(crate) fn described(text: &str) -> String {
    let mut shown: String = text.chars().take(MOST_TEXT).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    format!("({shown})")
}

/// Refuses a text that is no condition, whatever columns there are.
///
/// # Errors
/// [`TableError::Option`] names `option`, and the place in the text.
pub fn check_condition(text: &str, option: &str) -> Result<()> {
    sql::check(text, option)
}

const OPERATORS: [&str; 7] = ["=", "!=", "<", "<=", ">", ">=", "in"];

impl Condition {
    /// The condition on a table's column.
    fn bound(&self, head: &TableHead) -> Result<BoundCondition> {
        let Some(column) = head.schema.column(&self.column) else {
            return Err(TableError::refused(format!(
                "a condition names the column {:?}, which the table does not have: {}",
                self.column,
                instead_of(head, &self.column)
            )));
        };
        if self.operator != "==" && !OPERATORS.contains(&self.operator.as_str()) {
            return Err(self.refused("is unknown"));
        }
        // Delta stores an empty string in a partition column as null; some writers store the empty string.
        let is_empty = |value: &ConditionValue| {
            matches!(value, ConditionValue::Text(text) if text.is_empty()) && head.is_partition_column(column)
        };
        let literals = self.values.iter().map(|value| match value {
            value if *value == ConditionValue::Null || is_empty(value) => Ok(None),
            value => literal(value, &column.kind, &self.column).map(Some),
        });
        let literals = literals.collect::<Result<Vec<_>>>()?;
        if is_char(column) && literals.iter().any(Option::is_some) {
            return Err(TableError::refused(format!(
                "a condition compares the column {:?}, which has the type char, whose spaces engines compare differently",
                self.column
            )));
        }
        let null = BoundCondition::is_null(column);
        let null = if column.kind.has_empty() && self.values.iter().any(is_empty) {
            let empty = Literal::String(String::new());
            BoundCondition::Any(vec![null, BoundCondition::among(column, vec![empty])])
        } else {
            null
        };
        let compared = |operator, value: &Literal| BoundCondition::compare(column, operator, value.clone());
        Ok(match (self.operator.as_str(), literals.as_slice()) {
            ("=" | "==", [None]) => null,
            ("!=", [None]) => BoundCondition::Not(Box::new(null)),
            ("=" | "==", [Some(value)]) => compared(Operator::Equal, value),
            ("!=", [Some(value)]) => compared(Operator::NotEqual, value),
            ("<", [Some(value)]) => compared(Operator::Less, value),
            ("<=", [Some(value)]) => compared(Operator::LessOrEqual, value),
            (">", [Some(value)]) => compared(Operator::Greater, value),
            (">=", [Some(value)]) => compared(Operator::GreaterOrEqual, value),
            ("in", values) if values.iter().all(Option::is_some) => {
                BoundCondition::among(column, values.iter().flatten().cloned().collect())
            }
            _ => {
                return Err(self.refused(
                    "is not accepted with its value: None goes with = and != alone, and so does an empty text, which is \
                     null, on a partition column",
                ));
            }
        })
    }

    /// The error for this condition's operator.
    fn refused(&self, why: &str) -> TableError {
        TableError::Option(OptionFault {
            message: format!(
                "the operator {:?} of the condition on {:?} {why}; choose one of {}",
                self.operator,
                self.column,
                OPERATORS.join(", ")
            ),
            option: None,
            accepted: OPERATORS.map(String::from).to_vec(),
        })
    }

    /// The condition as the history shows it.
    fn describe(&self) -> String {
        let values = self.values.iter().take(MOST_SHOWN);
        let mut values: Vec<String> = values.map(ConditionValue::describe).collect();
        let others = self.values.len() - values.len();
        if others > 0 {
            values.push(format!("... {others} more"));
        }
        match self.operator.as_str() {
            "in" => format!("({} IN ({}))", self.column, values.join(", ")),
            operator => format!("({} {operator} {})", self.column, values.join(", ")),
        }
    }
}

/// Converts a value to the column's type.
fn literal(value: &ConditionValue, kind: &ColumnType, column: &str) -> Result<Literal> {
    use Primitive::{
        Boolean, Byte, Date, Double, Float, Integer, Long, Short, String, Timestamp, TimestampNtz,
    };
    let ColumnType::Primitive(primitive) = kind else {
        let (what, instead) = match kind {
            ColumnType::Struct(_) => (
                "a struct",
                "compare a field of it in SQL, such as \"address.city = 'Ulm'\"",
            ),
            ColumnType::Array(..) | ColumnType::Map(..) => ("nested", "it goes with None alone"),
            _ => ("a decimal", "write the condition in SQL, such as \"price < 7.5\""),
        };
        return Err(TableError::refused(format!(
            "a tuple cannot compare the column {column:?}, which is {what}: {instead}"
        )));
    };
    let wrong = || {
        let instead = match primitive {
            Date => ": give a date, or a text such as '2026-01-31'",
            Timestamp => ": give a datetime with a tzinfo, or a text such as '2026-01-31T12:00:00Z'",
            TimestampNtz => ": give a datetime without a tzinfo, or a text such as '2026-01-31T12:00:00'",
            Byte | Short | Integer | Long if value.is_beyond_longs() => ", which ends before 2^63",
            Byte | Short | Integer | Long => ": give an int",
            _ => "",
        };
        TableError::refused(format!(
            "a condition compares the column {column:?} with {}, which is no value of its type, {}{instead}",
            value.describe(),
            primitive.name()
        ))
    };
    Ok(match (value, primitive) {
        (ConditionValue::Boolean(value), Boolean) => Literal::Boolean(*value),
        (ConditionValue::Long(value), Byte | Short | Integer | Long) => Literal::Long(*value),
        (ConditionValue::Double(value), Byte | Short | Integer | Long) => {
            Literal::Long(whole(*value).ok_or_else(wrong)?)
        }
        #[expect(clippy::cast_precision_loss, reason = "the column is a float")]
        (ConditionValue::Long(value), Float) => Literal::Float(*value as f32),
        #[expect(clippy::cast_precision_loss, reason = "the column is a double")]
        (ConditionValue::Long(value), Double) => Literal::Double(*value as f64),
        #[expect(clippy::cast_possible_truncation, reason = "the column has no more digits")]
        (ConditionValue::Double(value), Float) => match *value as f32 {
            single if single.is_infinite() && value.is_finite() => return Err(wrong()),
            single => Literal::Float(single),
        },
        (ConditionValue::Double(value), Double) => Literal::Double(*value),
        (ConditionValue::Text(text), String) => Literal::String(text.clone()),
        (ConditionValue::Text(text), Date) => Literal::Date(days(text).ok_or_else(wrong)?),
        (ConditionValue::Text(text), Timestamp | TimestampNtz) => {
            let (clock, offset) = time(text).ok_or_else(wrong)?;
            let refused = |why: &str| {
                TableError::refused(format!(
                    "a condition compares the column {column:?} with '{text}', {why}"
                ))
            };
            if offset.is_none() && *primitive == Timestamp {
                return Err(refused(
                    "which has no time zone, and the column has one: give a datetime with a tzinfo, or a text with Z \
                     or an offset such as +01:00",
                ));
            }
            if offset.is_some() && *primitive == TimestampNtz {
                return Err(refused(
                    "which has a time zone, and the column has none: leave it out",
                ));
            }
            if clock.nanosecond() % 1_000 != 0 {
                return Err(refused(
                    "which has nanoseconds, and the column has microseconds: round it first",
                ));
            }
            let micros = clock.and_utc().timestamp_micros();
            Literal::Timestamp(micros - offset.unwrap_or_default() * 1_000_000)
        }
        _ => return Err(wrong()),
    })
}

/// The integer that a double represents exactly. From 2^53 on, several integers round to one double.
fn whole(value: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole, and in the range")]
    (value.fract() == 0.0 && value.abs() < EXACT).then_some(value as i64)
}

fn days(text: &str) -> Option<i64> {
    use chrono::Datelike;
    let day: NaiveDate = text.parse().ok()?;
    Some(i64::from(day.num_days_from_ce() - EPOCH_FROM_CE))
}

/// The clock of `2026-01-31T12:00:00.5+01:00`, and the seconds by which its zone is ahead of UTC, if it has one. Zones
/// of before 1900 have seconds: `+00:53:28`.
fn time(text: &str) -> Option<(NaiveDateTime, Option<i64>)> {
    let (clock, offset) = match text.strip_suffix(['Z', 'z']) {
        Some(clock) => (clock, Some(0)),
        // After the date, which contains minus signs itself.
        None => match text
            .char_indices()
            .skip(DAY_LENGTH)
            .find(|(_, sign)| ['+', '-'].contains(sign))
        {
            Some((at, sign)) => {
                let (clock, zone) = text.split_at(at);
                let mut parts = zone[1..].split(':').map(|part| {
                    let is_number = part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_digit());
                    part.parse::<i64>().ok().filter(|_| is_number)
                });
                let (hours, minutes) = (parts.next()??, parts.next()??);
                let seconds = parts.next().unwrap_or(Some(0))?;
                if parts.next().is_some() || hours > 23 || minutes > 59 || seconds > 59 {
                    return None;
                }
                let ahead = (hours * 60 + minutes) * 60 + seconds;
                (clock, Some(if sign == '-' { -ahead } else { ahead }))
            }
            None => (text, None),
        },
    };
    let clock: NaiveDateTime = clock.replacen([' ', 't'], "T", 1).parse().ok()?;
    // A leap second has no place in a table.
    (clock.nanosecond() < 1_000_000_000).then_some((clock, offset))
}

impl ConditionValue {
    /// True for a number that no long has.
    fn is_beyond_longs(&self) -> bool {
        const LONGS_END: f64 = 9_223_372_036_854_775_808.0;
        matches!(self, Self::Double(value) if value.is_finite() && value.abs() >= LONGS_END)
    }

    fn describe(&self) -> String {
        match self {
            Self::Null => "NULL".to_owned(),
            Self::Boolean(value) => value.to_string(),
            Self::Long(value) => value.to_string(),
            Self::Double(value) => value.to_string(),
            Self::Text(text) => format!("'{}'", text.replace('\'', "''")),
        }
    }
}

/// Refuses a condition that whole files do not answer.
fn check_partition_column(head: &TableHead, column: &str) -> Result<()> {
    let columns = &head.metadata.partition_columns;
    if columns.iter().any(|known| known == column) {
        return Ok(());
    }
    Err(TableError::refused(format!(
        "the condition on {column:?} cannot choose whole files: {}",
        sql::partitions_alone(columns)
    )))
}
/// Returns true if a column has Spark's type `char(n)`, whose spaces engines compare differently.
pub(crate) fn is_char(column: &TableColumn) -> bool {
    let declared = column.metadata.get(DECLARED).and_then(Value::as_str);
    declared.is_some_and(|declared| declared.starts_with("char("))
}
