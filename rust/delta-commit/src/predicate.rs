//! Predicates: the rows that a transaction read, matched against the files of other transactions.
//!
//! Every answer is either "certainly not" or "perhaps": values that cannot be compared count as a match.

use std::cell::OnceCell;
use std::cmp::Ordering;

use serde_json::Value;

use crate::actions::Add;
use crate::file_stats::FileStats;
use crate::time;

/// The part of a decimal's bound that rounding may have added or taken, at most.
const ROUNDING: f64 = 1e-14;

/// A value to compare with.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// True or false.
    Boolean(bool),
    /// Any of the integer types.
    Long(i64),
    /// Single precision, whatever the precision of the other side.
    Float(f32),
    /// Double precision.
    Double(f64),
    /// The double nearest to a decimal number. Other decimals may have the same one, so that it rules fewer files out.
    Decimal(f64),
    /// Text.
    String(String),
    /// Days since the epoch.
    Date(i64),
    /// Microseconds since the epoch.
    Timestamp(i64),
}

/// A comparison of a column's value.
#[derive(Debug, Clone, PartialEq)]
pub enum Comparison {
    /// Equal.
    Equal(Literal),
    /// Not equal, and not null.
    NotEqual(Literal),
    /// Less.
    Less(Literal),
    /// Less or equal.
    LessOrEqual(Literal),
    /// Greater.
    Greater(Literal),
    /// Greater or equal.
    GreaterOrEqual(Literal),
    /// Equal to one of these.
    In(Vec<Literal>),
    /// Null.
    IsNull,
    /// Not null.
    IsNotNull,
}

/// One condition on one column.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// The column's path from the top: one name for a top-level column.
    pub column: Vec<String>,
    /// The comparison that its value must satisfy.
    pub comparison: Comparison,
}

impl Term {
    /// A condition on a top-level column.
    pub fn new(column: impl Into<String>, comparison: Comparison) -> Self {
        Self {
            column: vec![column.into()],
            comparison,
        }
    }

    fn may_match<'a>(&self, file: &Add, stats: impl FnOnce() -> &'a FileStats) -> bool {
        if let Some(value) = self.top().and_then(|column| file.partition_values.get(column)) {
            return partition_may_match(value, &self.comparison);
        }
        stats_may_match(stats(), &self.column, &self.comparison)
    }

    /// The column's name, unless it is a field.
    fn top(&self) -> Option<&str> {
        match self.column.as_slice() {
            [column] => Some(column),
            _ => None,
        }
    }
}

/// Conditions on the rows that were read, in any combination. The default holds for every row.
#[derive(Debug, Clone, PartialEq)]
pub enum Predicate {
    /// One condition.
    Term(Term),
    /// All of these hold. Without any, every row was read.
    All(Vec<Predicate>),
    /// One of these holds, or several. Without any, no row was read.
    Any(Vec<Predicate>),
}

impl Default for Predicate {
    fn default() -> Self {
        Self::All(Vec::new())
    }
}

impl Predicate {
    /// Conditions that all hold.
    pub fn all(terms: impl IntoIterator<Item = Term>) -> Self {
        Self::All(terms.into_iter().map(Self::Term).collect())
    }

    /// Its conditions, whatever combines them.
    #[must_use]
    pub fn terms(&self) -> Vec<&Term> {
        match self {
            Self::Term(term) => vec![term],
            Self::All(parts) | Self::Any(parts) => parts.iter().flat_map(Self::terms).collect(),
        }
    }

    /// Returns true unless the file certainly holds no row that satisfies it.
    #[must_use]
    pub fn may_match(&self, file: &Add) -> bool {
        any_may_match(std::slice::from_ref(self), file)
    }

    /// As [`may_match`](Self::may_match), by statistics that are parsed when a condition asks for them.
    fn may_match_by<'a>(&self, file: &Add, stats: &dyn Fn() -> &'a FileStats) -> bool {
        match self {
            Self::Term(term) => term.may_match(file, stats),
            Self::All(parts) => parts.iter().all(|part| part.may_match_by(file, stats)),
            Self::Any(parts) => parts.iter().any(|part| part.may_match_by(file, stats)),
        }
    }

    /// Returns true if a condition is about this top-level column, or about a field of it.
    fn names(&self, column: &str) -> bool {
        match self {
            Self::Term(term) => term.column.first().is_some_and(|top| top == column),
            Self::All(parts) | Self::Any(parts) => parts.iter().any(|part| part.names(column)),
        }
    }
}

/// Returns true unless the file certainly holds no row that satisfies one of these. Its statistics are parsed once.
pub(crate) fn any_may_match(predicates: &[Predicate], file: &Add) -> bool {
    let parsed = OnceCell::new();
    let wants = |column: &str| predicates.iter().any(|predicate| predicate.names(column));
    let text = file.stats.as_deref().unwrap_or_default();
    let stats = || parsed.get_or_init(|| FileStats::parse(text, &wants));
    predicates
        .iter()
        .any(|predicate| predicate.may_match_by(file, &stats))
}

fn partition_may_match(value: Option<&str>, comparison: &Comparison) -> bool {
    let Some(value) = value else {
        // Every comparison with null is null, which is not true.
        return matches!(comparison, Comparison::IsNull);
    };
    let ordered = |literal: &Literal| order_text(value, literal);
    range_may_match(comparison, ordered, ordered).unwrap_or(match comparison {
        // The empty text is a value in columns of text, and null in others. The type is not known here.
        Comparison::IsNull => value.is_empty(),
        _ => true,
    })
}

/// Returns true if a value between two bounds may satisfy a comparison; none for questions about nulls.
///
/// `lower` and `upper` order a bound against a literal; they return none when the order is not known.
fn range_may_match(
    comparison: &Comparison,
    lower: impl Fn(&Literal) -> Option<Ordering>,
    upper: impl Fn(&Literal) -> Option<Ordering>,
) -> Option<bool> {
    use Comparison::{Equal, Greater, GreaterOrEqual, In, IsNotNull, IsNull, Less, LessOrEqual, NotEqual};
    let within = |literal: &Literal| {
        lower(literal) != Some(Ordering::Greater) && upper(literal) != Some(Ordering::Less)
    };
    let equal = Some(Ordering::Equal);
    Some(match comparison {
        Equal(literal) => within(literal),
        // Values that are equal to a rounded literal may be less or greater.
        NotEqual(Literal::Decimal(_)) => true,
        Less(literal @ Literal::Decimal(_)) | LessOrEqual(literal) => {
            lower(literal) != Some(Ordering::Greater)
        }
        Greater(literal @ Literal::Decimal(_)) | GreaterOrEqual(literal) => {
            upper(literal) != Some(Ordering::Less)
        }
        NotEqual(literal) => !(lower(literal) == equal && upper(literal) == equal),
        Less(literal) => !matches!(lower(literal), Some(Ordering::Equal | Ordering::Greater)),
        Greater(literal) => !matches!(upper(literal), Some(Ordering::Equal | Ordering::Less)),
        In(literals) => literals.iter().any(within),
        IsNull | IsNotNull => return None,
    })
}

/// Orders a partition value against a literal.
fn order_text(value: &str, literal: &Literal) -> Option<Ordering> {
    match literal {
        Literal::Boolean(other) => match value {
            "true" => Some(true.cmp(other)),
            "false" => Some(false.cmp(other)),
            _ => None,
        },
        Literal::Long(other) => value.parse::<i64>().ok().map(|v| v.cmp(other)),
        // NaN has no place in this order, so nothing follows from it.
        Literal::Float(other) => value.parse::<f32>().ok().and_then(|v| v.partial_cmp(other)),
        Literal::Double(other) | Literal::Decimal(other) => {
            value.parse::<f64>().ok().and_then(|v| v.partial_cmp(other))
        }
        Literal::String(other) => Some(value.cmp(other.as_str())),
        Literal::Date(other) => time::parse_date(value).map(|v| v.cmp(other)),
        Literal::Timestamp(other) => time::parse_moment(value).map(|v| v.cmp(other)),
    }
}

/// Returns true unless the statistics say that no value of a column satisfies a comparison.
fn stats_may_match(stats: &FileStats, column: &[String], comparison: &Comparison) -> bool {
    let nulls = stats.get("nullCount", column).and_then(Value::as_i64);
    if matches!(comparison, Comparison::IsNull) {
        return nulls != Some(0);
    }
    if nulls.is_some() && nulls == stats.rows() {
        return false;
    }
    let lower = stats.get("minValues", column);
    let upper = stats.get("maxValues", column);
    range_may_match(
        comparison,
        |literal| match literal {
            Literal::Double(other) => least_double(lower?)?.partial_cmp(other),
            Literal::Decimal(other) => widened_decimal(lower?, -1.0)?.partial_cmp(other),
            _ => order_bound(lower?, literal, |(first, _)| first),
        },
        |literal| match literal {
            // A NaN is above everything and in no statistics, so no maximum says anything.
            Literal::Float(_) | Literal::Double(_) => None,
            Literal::Decimal(other) => widened_decimal(upper?, 1.0)?.partial_cmp(other),
            _ => order_bound(upper?, literal, |(_, last)| {
                last.saturating_add(time::MICROS_PER_MILLI)
            }),
        },
    )
    .unwrap_or(true)
}

/// The least double that a lower bound may stand for. A column may have been of single precision when the bound was
/// written, and then the text is the shortest one for a single, which the double of the same text may be above of.
#[expect(clippy::cast_possible_truncation, reason = "the value of a single is meant")]
fn least_double(bound: &Value) -> Option<f64> {
    let bound = bound.as_f64()?;
    Some(bound.min(f64::from(bound as f32)))
}

/// The end of the numbers that a bound of decimals may stand for, downwards or upwards. Some writers compute the bound
/// as a double, in several steps that each round.
fn widened_decimal(bound: &Value, direction: f64) -> Option<f64> {
    let bound = bound.as_f64()?;
    Some(bound + direction * bound.abs() * ROUNDING)
}

/// Orders a bound against a literal. `end` is the end of what a timestamp may stand for: it may have lost microseconds,
/// and seconds of its offset.
fn order_bound(bound: &Value, literal: &Literal, end: impl Fn((i64, i64)) -> i64) -> Option<Ordering> {
    match literal {
        Literal::Boolean(other) => bound.as_bool().map(|v| v.cmp(other)),
        Literal::Long(other) => bound.as_i64().map(|v| v.cmp(other)),
        // Rounding keeps the order, so that a bound stays one.
        #[expect(clippy::cast_possible_truncation, reason = "the column has no more digits")]
        Literal::Float(other) => bound.as_f64().and_then(|v| (v as f32).partial_cmp(other)),
        Literal::Double(other) | Literal::Decimal(other) => bound.as_f64().and_then(|v| v.partial_cmp(other)),
        Literal::String(other) => bound.as_str().map(|v| v.cmp(other.as_str())),
        Literal::Date(other) => bound.as_str().and_then(time::parse_date).map(|v| v.cmp(other)),
        Literal::Timestamp(other) => bound
            .as_str()
            .and_then(time::parse_bound)
            .map(|bound| end(bound).cmp(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_single_is_found_once_its_column_is_a_double() {
        for least in [
            0.7_f32,
            0.3,
            -0.1,
            1e-8,
            f32::MIN_POSITIVE,
            16_777_216.0,
            f32::MAX,
            f32::MIN,
        ] {
            let file = Add {
                stats: Some(format!("{{\"numRecords\":1,\"minValues\":{{\"x\":{least}}}}}")),
                ..Add::default()
            };
            let wanted = Literal::Double(f64::from(least));
            for comparison in [
                Comparison::Equal(wanted.clone()),
                Comparison::LessOrEqual(wanted.clone()),
                Comparison::In(vec![wanted]),
                Comparison::Less(Literal::Double(f64::from(least).next_up())),
            ] {
                let predicate = Predicate::Term(Term::new("x", comparison));
                assert!(predicate.may_match(&file), "{least} {predicate:?}");
            }
        }
    }

    fn with_stats(stats: &str) -> Add {
        Add {
            stats: Some(stats.to_owned()),
            ..Add::default()
        }
    }

    #[test]
    fn bounds_of_decimals_count_with_what_rounding_may_have_moved() {
        let file = with_stats(
            r#"{"numRecords":2,"minValues":{"x":7.25},"maxValues":{"x":100.10},"nullCount":{"x":0}}"#,
        );
        let decimal = Literal::Decimal;
        for (comparison, expected) in [
            (Comparison::Equal(decimal(7.25)), true),
            (Comparison::Equal(decimal(7.24)), false),
            (Comparison::Equal(decimal(100.1)), true),
            (Comparison::Equal(decimal(100.1_f64.next_up().next_up())), true),
            (Comparison::Equal(decimal(100.11)), false),
            (Comparison::LessOrEqual(decimal(7.25_f64.next_down())), true),
            (Comparison::LessOrEqual(decimal(7.0)), false),
            (Comparison::GreaterOrEqual(decimal(100.1)), true),
            (Comparison::GreaterOrEqual(decimal(101.0)), false),
            (Comparison::Less(decimal(7.25)), true),
            (Comparison::Less(decimal(7.0)), false),
            (Comparison::Greater(decimal(100.1)), true),
            (Comparison::Greater(decimal(101.0)), false),
        ] {
            let predicate = Predicate::Term(Term::new("x", comparison));
            assert_eq!(predicate.may_match(&file), expected, "{predicate:?}");
        }
    }

    #[test]
    fn a_file_is_ruled_out_by_all_alternatives_or_by_one_of_several_conditions() {
        let file = with_stats(
            r#"{"numRecords":2,"minValues":{"x":5,"y":5},"maxValues":{"x":9,"y":9},"nullCount":{"x":0,"y":0}}"#,
        );
        let is =
            |column: &str, value| Predicate::Term(Term::new(column, Comparison::Equal(Literal::Long(value))));
        for (predicate, expected) in [
            (Predicate::Any(vec![is("x", 1), is("y", 2)]), false),
            (Predicate::Any(vec![is("x", 1), is("y", 7)]), true),
            (Predicate::All(vec![is("x", 7), is("y", 2)]), false),
            (
                Predicate::All(vec![
                    is("x", 7),
                    Predicate::Any(vec![is("y", 1), Predicate::default()]),
                ]),
                true,
            ),
            (Predicate::Any(Vec::new()), false),
            (Predicate::default(), true),
        ] {
            assert_eq!(predicate.may_match(&file), expected, "{predicate:?}");
        }
    }
}
