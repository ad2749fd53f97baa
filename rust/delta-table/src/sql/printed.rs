//! Expressions as text, which tests and fuzz targets parse again.

use super::Purpose;
use super::parse::{Expression, Literal, MOST_BYTES, MOST_DEPTH, Number, Operator, parse};

/// The levels of an expression that one level of parentheses or `NOT` makes at most: an alternative, a conjunction, a
/// negated `BETWEEN` with the conjunction that it is, and a comparison.
const MOST_LEVELS: usize = 5;

/// The text of the expression that a text is; none for one that is not understood.
///
/// # Panics
/// When the text of the expression is another expression, or the expression is deeper than texts may be nested.
pub(crate) fn reprinted(text: &str, purpose: Purpose) -> Option<String> {
    let expression = parse(text, purpose).ok()?;
    assert!(
        depth(&expression) <= MOST_LEVELS * (MOST_DEPTH + 1),
        "{text} is too deep"
    );
    let printed = any(&expression);
    if printed.len() > MOST_BYTES {
        return None;
    }
    assert_eq!(
        parse(&printed, purpose),
        Ok(expression),
        "{text} became {printed}"
    );
    Some(printed)
}

fn depth(expression: &Expression) -> usize {
    1 + match expression {
        Expression::Literal(_) | Expression::Column(_) => 0,
        Expression::Not(inner) | Expression::IsNull(inner) | Expression::In(inner, _) => depth(inner),
        Expression::All(parts) | Expression::Any(parts) => parts.iter().map(depth).max().unwrap_or_default(),
        Expression::Compare(left, _, right) => depth(left).max(depth(right)),
    }
}

fn any(expression: &Expression) -> String {
    match expression {
        Expression::Any(parts) => parts.iter().map(all).collect::<Vec<_>>().join(" OR "),
        other => all(other),
    }
}

fn all(expression: &Expression) -> String {
    match (expression, range(expression, "")) {
        (_, Some(range)) => range,
        (Expression::All(parts), None) => parts.iter().map(negated).collect::<Vec<_>>().join(" AND "),
        (other, None) => negated(other),
    }
}

/// Without parentheses that the text did not need: they count as levels.
fn negated(expression: &Expression) -> String {
    let Expression::Not(inner) = expression else {
        return predicate(expression);
    };
    match inner.as_ref() {
        Expression::IsNull(value) => format!("{} IS NOT NULL", operand(value)),
        Expression::In(value, literals) => among(value, "NOT ", literals.iter().map(|literal| &literal.it)),
        inner => range(inner, "NOT ").unwrap_or_else(|| format!("NOT {}", negated(inner))),
    }
}

fn predicate(expression: &Expression) -> String {
    match expression {
        Expression::IsNull(value) => format!("{} IS NULL", operand(value)),
        Expression::In(value, literals) => among(value, "", literals.iter().map(|literal| &literal.it)),
        Expression::Compare(left, operator, right) => {
            format!("{} {} {}", operand(left), sign(*operator), operand(right))
        }
        other => range(other, "").unwrap_or_else(|| operand(other)),
    }
}

/// The conjunction that `BETWEEN` is.
fn range(expression: &Expression, not: &str) -> Option<String> {
    let Expression::All(parts) = expression else {
        return None;
    };
    let [
        Expression::Compare(value, Operator::GreaterOrEqual, least),
        Expression::Compare(again, Operator::LessOrEqual, greatest),
    ] = parts.as_slice()
    else {
        return None;
    };
    let is_range = value == again && matches!(**value, Expression::Column(_) | Expression::Literal(_));
    let (value, least, greatest) = (operand(value), operand(least), operand(greatest));
    is_range.then(|| format!("{value} {not}BETWEEN {least} AND {greatest}"))
}

fn among<'a>(value: &Expression, not: &str, literals: impl Iterator<Item = &'a Literal>) -> String {
    let literals: Vec<String> = literals.map(literal).collect();
    format!("{} {not}IN ({})", operand(value), literals.join(", "))
}

fn operand(expression: &Expression) -> String {
    match expression {
        Expression::Literal(value) => literal(&value.it),
        Expression::Column(path) => {
            let names = path
                .it
                .iter()
                .map(|name| format!("`{}`", name.replace('`', "``")));
            names.collect::<Vec<_>>().join(".")
        }
        other => format!("({})", any(other)),
    }
}

fn literal(literal: &Literal) -> String {
    let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
    match literal {
        Literal::Null => "NULL".to_owned(),
        Literal::Boolean(value) => value.to_string(),
        Literal::Number(number) => decimal(*number),
        Literal::Double(value) => format!("{value:e}"),
        Literal::Text(value) => text(value),
        Literal::Date(value) => format!("DATE {}", text(value)),
        Literal::Timestamp(value) => format!("TIMESTAMP {}", text(value)),
    }
}

fn decimal(number: Number) -> String {
    let scale = usize::from(number.scale);
    let digits = format!("{:0>width$}", number.unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let point = if scale == 0 { "" } else { "." };
    format!(
        "{}{whole}{point}{fraction}",
        if number.unscaled < 0 { "-" } else { "" }
    )
}

fn sign(operator: Operator) -> &'static str {
    match operator {
        Operator::Equal => "=",
        Operator::NotEqual => "<>",
        Operator::Less => "<",
        Operator::LessOrEqual => "<=",
        Operator::Greater => ">",
        Operator::GreaterOrEqual => ">=",
    }
}
