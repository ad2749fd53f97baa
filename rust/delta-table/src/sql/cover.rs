//! Conditions in the form in which files are left out and transactions are compared.
//!
//! A row for which a condition is true satisfies its cover. Other rows may satisfy it, too: a predicate knows one
//! literal for each comparison, in the types of the log, and no comparison of two columns.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int64Type, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use delta_commit::predicate::{Comparison, Literal, Predicate, Term};

use crate::head::TableHead;
use crate::schema::{ColumnType, Primitive};

use super::bound::{BoundCondition, Compared, NamedColumn, Operator, Side};
use super::literals::nearest_double;

impl BoundCondition {
    /// A predicate that holds for every row for which the condition is true, under the names of the log.
    pub fn cover(&self, head: &TableHead) -> Predicate {
        self.cover_of(head, true)
    }

    /// A predicate that holds for every row for which the condition has this truth.
    fn cover_of(&self, head: &TableHead, truth: bool) -> Predicate {
        match self {
            Self::Constant(value) if *value == Some(truth) => Predicate::default(),
            Self::Constant(_) => Predicate::Any(Vec::new()),
            Self::Flag(column) => column.satisfies(head, Comparison::Equal(Literal::Boolean(truth))),
            Self::IsNull(column) if truth => column.satisfies(head, Comparison::IsNull),
            Self::IsNull(column) => column.satisfies(head, Comparison::IsNotNull),
            Self::Among(column, literals) if truth => {
                column.satisfies(head, Comparison::In(literals.clone()))
            }
            Self::Among(column, literals) => {
                let others = literals.iter().cloned().map(Comparison::NotEqual);
                Predicate::All(others.map(|other| column.satisfies(head, other)).collect())
            }
            Self::Not(inner) => inner.cover_of(head, !truth),
            Self::All(parts) | Self::Any(parts) => {
                let are_all = matches!(self, Self::All(_)) == truth;
                let parts = parts.iter().map(|part| part.cover_of(head, truth)).collect();
                if are_all {
                    Predicate::All(parts)
                } else {
                    Predicate::Any(parts)
                }
            }
            Self::Compare(compared) => compared.cover_of(head, truth),
        }
    }

    /// Conditions that are all true where this one is, and nowhere else.
    pub fn conjuncts(self) -> Vec<Self> {
        match self {
            Self::All(parts) => parts.into_iter().flat_map(Self::conjuncts).collect(),
            Self::Not(inner) => match *inner {
                Self::Any(parts) => {
                    let parts = parts.into_iter();
                    parts
                        .flat_map(|part| Self::Not(Box::new(part)).conjuncts())
                        .collect()
                }
                Self::Not(inner) => inner.conjuncts(),
                other => vec![Self::Not(Box::new(other))],
            },
            other => vec![other],
        }
    }
}

impl NamedColumn {
    /// The predicate that a comparison of the column holds.
    fn satisfies(&self, head: &TableHead, comparison: Comparison) -> Predicate {
        Predicate::Term(Term {
            column: head.mapping.stored_path(&head.schema.columns, &self.path),
            comparison,
        })
    }
}

impl Compared {
    fn cover_of(&self, head: &TableHead, truth: bool) -> Predicate {
        if let Some((column, operator, value)) = self.of_column() {
            let operator = if truth { operator } else { operator.negated() };
            return column.satisfies(head, told(&column.kind, operator, value).0);
        }
        // Every comparison with null is null.
        let columns = [&self.left, &self.right]
            .into_iter()
            .filter_map(|side| match side {
                Side::Column(column) => Some(column.satisfies(head, Comparison::IsNotNull)),
                Side::Value(_) => None,
            });
        Predicate::All(columns.collect())
    }

    /// The column and the literal that is equal to it, if the comparison is of those and a predicate tells it exactly.
    pub fn equal_literal(&self) -> Option<(&NamedColumn, Literal)> {
        match self.of_column()? {
            (column, Operator::Equal, value) => match told(&column.kind, Operator::Equal, value) {
                (Comparison::Equal(literal), true) => Some((column, literal)),
                _ => None,
            },
            _ => None,
        }
    }

    /// The column, the operator and the value, if the comparison is of a column with a literal.
    fn of_column(&self) -> Option<(&NamedColumn, Operator, &ArrayRef)> {
        match (&self.left, &self.right) {
            (Side::Column(column), Side::Value(value)) => Some((column, self.operator, value)),
            (Side::Value(value), Side::Column(column)) => Some((column, self.operator.flipped(), value)),
            _ => None,
        }
    }
}

impl Operator {
    /// The operator that is true where this one is false.
    fn negated(self) -> Self {
        match self {
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::Less => Self::GreaterOrEqual,
            Self::LessOrEqual => Self::Greater,
            Self::Greater => Self::LessOrEqual,
            Self::GreaterOrEqual => Self::Less,
        }
    }

    /// The operator for the sides in the other order.
    fn flipped(self) -> Self {
        match self {
            Self::Equal | Self::NotEqual => self,
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
        }
    }

    fn with(self, literal: Literal) -> Comparison {
        match self {
            Self::Equal => Comparison::Equal(literal),
            Self::NotEqual => Comparison::NotEqual(literal),
            Self::Less => Comparison::Less(literal),
            Self::LessOrEqual => Comparison::LessOrEqual(literal),
            Self::Greater => Comparison::Greater(literal),
            Self::GreaterOrEqual => Comparison::GreaterOrEqual(literal),
        }
    }

    /// The comparison with a value to which both sides of the original are rounded, so that different ones may be
    /// equal.
    fn with_rounded(self, literal: Literal) -> Comparison {
        match self {
            Self::Equal => Comparison::Equal(literal),
            Self::NotEqual => Comparison::IsNotNull,
            Self::Less | Self::LessOrEqual => Comparison::LessOrEqual(literal),
            Self::Greater | Self::GreaterOrEqual => Comparison::GreaterOrEqual(literal),
        }
    }
}

/// The comparison of a column of this type with a value, and true if it holds for the same rows. It may hold for others
/// otherwise.
fn told(kind: &ColumnType, operator: Operator, value: &ArrayRef) -> (Comparison, bool) {
    let exactly = |literal| (operator.with(literal), true);
    match value.data_type() {
        DataType::Boolean => exactly(Literal::Boolean(value.as_boolean().value(0))),
        DataType::Utf8 => exactly(Literal::String(value.as_string::<i32>().value(0).to_owned())),
        DataType::Int64 => exactly(Literal::Long(value.as_primitive::<Int64Type>().value(0))),
        DataType::Date32 => exactly(Literal::Date(value.as_primitive::<Date32Type>().value(0).into())),
        DataType::Timestamp(TimeUnit::Microsecond, _) => exactly(Literal::Timestamp(
            value.as_primitive::<TimestampMicrosecondType>().value(0),
        )),
        DataType::Float32 => exactly(Literal::Float(value.as_primitive::<Float32Type>().value(0))),
        DataType::Float64 => {
            let double = value.as_primitive::<Float64Type>().value(0);
            if *kind == ColumnType::Primitive(Primitive::Float) {
                #[expect(clippy::cast_possible_truncation, reason = "the column has no more digits")]
                let single = Literal::Float(double as f32);
                return (operator.with_rounded(single), false);
            }
            exactly(Literal::Double(double))
        }
        DataType::Decimal128(_, scale) => {
            let unscaled = value.as_primitive::<Decimal128Type>().value(0);
            let scale = u8::try_from(*scale).unwrap_or(0);
            match kind {
                ColumnType::Primitive(_) => told_whole(operator, unscaled, scale),
                _ => told_decimal(operator, unscaled, scale),
            }
        }
        _ => (Comparison::IsNotNull, false),
    }
}

/// The comparison of whole numbers with a decimal.
fn told_whole(operator: Operator, unscaled: i128, scale: u8) -> (Comparison, bool) {
    let one = 10_i128.pow(scale.into());
    let is_whole = unscaled.rem_euclid(one) == 0;
    let Ok(below) = i64::try_from(unscaled.div_euclid(one)) else {
        return (Comparison::IsNotNull, false);
    };
    let below = Literal::Long(below);
    let comparison = match operator {
        _ if is_whole => operator.with(below),
        Operator::Equal => Comparison::In(Vec::new()),
        Operator::NotEqual => Comparison::IsNotNull,
        Operator::Less | Operator::LessOrEqual => Comparison::LessOrEqual(below),
        Operator::Greater | Operator::GreaterOrEqual => Comparison::Greater(below),
    };
    (comparison, true)
}

/// The comparison of decimals, by the doubles nearest to them.
fn told_decimal(operator: Operator, unscaled: i128, scale: u8) -> (Comparison, bool) {
    match nearest_double(unscaled, scale) {
        Some(double) => (operator.with_rounded(Literal::Decimal(double)), false),
        None => (Comparison::IsNotNull, false),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use arrow_schema::{Field, Schema};
    use delta_commit::WaitLimit;

    use super::*;
    use crate::conditions::Conditions;
    use crate::{CreateMode, CreateOptions, Table};

    fn head(root: &Path) -> Arc<TableHead> {
        let schema = Arc::new(Schema::new(vec![
            Field::new("n", DataType::Int32, true),
            Field::new("price", DataType::Decimal128(9, 2), true),
            Field::new("single", DataType::Float32, true),
            Field::new("flag", DataType::Boolean, true),
        ]));
        let mut wait = WaitLimit::until(Instant::now() + Duration::from_secs(60));
        let options = CreateOptions::default();
        let table = Table::create(root, &schema, options, CreateMode::Error, &mut wait).unwrap();
        table.head().unwrap()
    }

    fn term(column: &str, comparison: Comparison) -> Predicate {
        Predicate::Term(Term::new(column, comparison))
    }

    #[test]
    fn a_comparison_is_told_exactly_or_by_a_wider_one() {
        use Comparison::{Equal, Greater, GreaterOrEqual, In, IsNotNull, IsNull, LessOrEqual, NotEqual};
        let folder = tempfile::tempdir().unwrap();
        let head = head(folder.path());
        let (long, decimal) = (Literal::Long, Literal::Decimal);
        for (text, expected) in [
            ("n < 0.5", term("n", LessOrEqual(long(0)))),
            ("n <= -0.5", term("n", LessOrEqual(long(-1)))),
            ("n > -0.5", term("n", Greater(long(-1)))),
            ("-0.5 < n", term("n", Greater(long(-1)))),
            ("n = 0.5", term("n", In(Vec::new()))),
            ("n <> 0.5", term("n", IsNotNull)),
            ("n <> 7.0", term("n", NotEqual(long(7)))),
            ("NOT n <= 7", term("n", Greater(long(7)))),
            ("NOT n <> 7", term("n", Equal(long(7)))),
            (
                "n IN (1, 2.0)",
                Predicate::Any(vec![term("n", In(vec![long(1), long(2)]))]),
            ),
            (
                "n NOT IN (1, 2)",
                Predicate::All(vec![Predicate::All(vec![
                    term("n", NotEqual(long(1))),
                    term("n", NotEqual(long(2))),
                ])]),
            ),
            ("price < 7.25", term("price", LessOrEqual(decimal(7.25)))),
            ("price <> 7.25", term("price", IsNotNull)),
            (
                "single > 0.1",
                term("single", GreaterOrEqual(Literal::Float(0.1))),
            ),
            ("flag", term("flag", Equal(Literal::Boolean(true)))),
            ("NOT flag", term("flag", Equal(Literal::Boolean(false)))),
            ("NOT n IS NOT NULL", term("n", IsNull)),
            (
                "n = n",
                Predicate::All(vec![term("n", IsNotNull), term("n", IsNotNull)]),
            ),
            ("TRUE", Predicate::default()),
            ("NOT TRUE", Predicate::Any(Vec::new())),
            ("n = NULL", Predicate::Any(Vec::new())),
            (
                "NOT (n = 1 OR flag)",
                Predicate::All(vec![
                    term("flag", Equal(Literal::Boolean(false))),
                    Predicate::All(vec![term("n", NotEqual(long(1)))]),
                ]),
            ),
        ] {
            let condition = Conditions::Sql(text.to_owned());
            let condition = condition.bound(&head, "where", false).unwrap();
            assert_eq!(condition.cover(&head), expected, "{text}");
        }
    }

    #[test]
    fn conditions_that_must_all_hold_come_apart() {
        let folder = tempfile::tempdir().unwrap();
        let head = head(folder.path());
        for (text, count) in [
            ("n = 1 AND (flag AND price > 1)", 3),
            ("NOT (n = 1 OR NOT (flag AND price > 1))", 3),
            ("n = 1 OR flag AND price > 1", 1),
            ("NOT (n = 1 AND flag)", 1),
        ] {
            let condition = Conditions::Sql(text.to_owned());
            let condition = condition.bound(&head, "where", false).unwrap();
            assert_eq!(condition.conjuncts().len(), count, "{text}");
        }
    }
}
