//! Conditions over the columns of a table: each name is that of a column, each comparison has a type.
//!
//! Two values are compared in one type, the one that Spark and delta-rs choose. Where they choose differently, or a
//! value would be rounded on the way, the condition is refused.

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use delta_commit::predicate::Literal as PredicateLiteral;
use sqlparser::ast::{BinaryOperator, Expr, Ident, InTarget, UnaryOperator};
use sqlparser::tokenizer::Location;

use crate::clustering::shown;
use crate::limits::DECLARED;
use crate::near::near;
use crate::schema::{ColumnType, Primitive, TableColumn, TableSchema};

use super::Purpose;
use super::bound::{BoundCondition, Compared, NamedColumn, Operator, Side};
use super::fault::SqlFault;
use super::literals::{MOST_DIGITS, SqlLiteral, value_of};
use super::parse::{bare, place, unknown};
use super::sides::{SideColumns, name_side};

/// Columns that an error names at most.
const MOST_NAMED: usize = 20;

/// The columns that conditions may name.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub schema: &'a TableSchema,
    pub partition_columns: &'a [String],
    pub purpose: Purpose,
    /// True if partition columns alone may be named, as where a condition chooses whole files.
    pub of_files: bool,
    /// The sides whose columns are named, each a struct of the schema; none where those of a table are.
    pub sides: &'a [SideColumns],
}

/// What is compared.
enum Operand {
    Column(Path),
    Literal(SqlLiteral, Location),
}

/// The names of a column, from the top.
struct Path {
    names: Vec<String>,
    at: Location,
}

impl Scope<'_> {
    /// Binds a condition. The error says why an expression is none.
    pub(super) fn condition(&self, expression: &Expr) -> Result<BoundCondition, SqlFault> {
        let each = |operator: &BinaryOperator| -> Result<Vec<BoundCondition>, SqlFault> {
            let mut parts = Vec::new();
            collect(expression, operator, &mut parts);
            parts.into_iter().map(|part| self.condition(part)).collect()
        };
        Ok(match expression {
            Expr::Nested(inner) => self.condition(inner)?,
            Expr::UnaryOp {
                op: UnaryOperator::Not,
                expr,
            } => BoundCondition::Not(Box::new(self.condition(expr)?)),
            Expr::BinaryOp {
                op: op @ BinaryOperator::And,
                ..
            } => BoundCondition::All(each(op)?),
            Expr::BinaryOp {
                op: op @ BinaryOperator::Or,
                ..
            } => BoundCondition::Any(joined(each(op)?)),
            Expr::BinaryOp { left, op, right } => {
                let Some(operator) = Operator::of(op) else {
                    return Err(unknown(expression));
                };
                self.comparison(left, operator, right)?
            }
            Expr::IsNull(inner) => self.is_null(inner)?,
            Expr::IsNotNull(inner) => BoundCondition::Not(Box::new(self.is_null(inner)?)),
            Expr::In {
                expr,
                target: InTarget::List(list),
                negated,
                ..
            } => negated_if(*negated, self.among(expr, list)?),
            Expr::Between {
                expr,
                negated,
                low,
                high,
            } => {
                let least = self.comparison(expr, Operator::GreaterOrEqual, low)?;
                let greatest = self.comparison(expr, Operator::LessOrEqual, high)?;
                negated_if(*negated, BoundCondition::All(vec![least, greatest]))
            }
            other => match self.operand(other)? {
                Some(Operand::Column(path)) => {
                    let named = self.column(&path)?;
                    if named.kind != ColumnType::Primitive(Primitive::Boolean) {
                        let name = shown(&named.path);
                        let why = format!("the column {name} is no boolean, and is not compared");
                        return Err(SqlFault::at(path.at, why));
                    }
                    BoundCondition::Flag(named)
                }
                Some(Operand::Literal(SqlLiteral::Boolean(value), _)) => {
                    BoundCondition::Constant(Some(value))
                }
                Some(Operand::Literal(SqlLiteral::Null, _)) => BoundCondition::Constant(None),
                Some(Operand::Literal(_, at)) => {
                    return Err(SqlFault::at(at, "it has a literal that is not compared"));
                }
                None => return Err(unknown(other)),
            },
        })
    }

    /// The column or the literal that an expression is; none for another one.
    fn operand(&self, expression: &Expr) -> Result<Option<Operand>, SqlFault> {
        let expression = bare(expression);
        let at = place(expression);
        Ok(match expression {
            Expr::CompoundIdentifier(names) => {
                let mut path = Path {
                    names: names.iter().map(unquoted).collect(),
                    at,
                };
                if !self.sides.is_empty() {
                    name_side(self.sides, &mut path.names).map_err(|why| SqlFault::at(at, why))?;
                }
                Some(Operand::Column(path))
            }
            other => SqlLiteral::of(other)?.map(|literal| Operand::Literal(literal, at)),
        })
    }

    fn is_null(&self, inner: &Expr) -> Result<BoundCondition, SqlFault> {
        match self.operand(inner)? {
            Some(Operand::Column(path)) => Ok(BoundCondition::IsNull(self.column(&path)?)),
            _ => Err(SqlFault::at(place(inner), "IS NULL goes with a column")),
        }
    }

    /// The column of these names.
    fn column(&self, path: &Path) -> Result<NamedColumn, SqlFault> {
        let fault = |why| SqlFault::at(path.at, why);
        let mut columns = self.schema.columns.as_slice();
        let mut names: Vec<String> = Vec::new();
        let (mut kind, mut is_padded) = (None, false);
        for name in &path.names {
            let found = find(columns, name);
            let found = found.ok_or_else(|| fault(no_column(&path.names, &names, columns)))?;
            if self.purpose != Purpose::Stated && found.name != *name {
                let here = &found.name;
                return Err(fault(format!(
                    "the column {name} is named {here} here, and case matters: write {here}"
                )));
            }
            is_padded |= found.metadata.contains_key(DECLARED);
            if self.of_files && !self.partition_columns.contains(&found.name) {
                return Err(fault(format!(
                    "the condition on {:?} cannot choose whole files: {}",
                    found.name,
                    partitions_alone(self.partition_columns)
                )));
            }
            names.push(found.name.clone());
            kind = Some(&found.kind);
            columns = match &found.kind {
                ColumnType::Struct(fields) => fields.as_slice(),
                _ => &[],
            };
        }
        let Some(kind) = kind.cloned() else {
            return Err(fault("a column has no name".to_owned()));
        };
        Ok(NamedColumn {
            has_no_empty: self.purpose != Purpose::Asked
                && names.len() == 1
                && self.partition_columns.contains(&names[0]),
            // The note is that of the column at the top also where a field of it is meant.
            is_padded: is_padded && kind == ColumnType::Primitive(Primitive::String),
            path: names,
            kind,
        })
    }

    /// The column of these names, whose values are compared.
    fn compared(&self, path: &Path) -> Result<NamedColumn, SqlFault> {
        let named = self.column(path)?;
        if named.is_padded {
            let why = format!(
                "the column {} has the type char or varchar, whose spaces engines compare differently",
                shown(&named.path)
            );
            return Err(SqlFault::at(path.at, why));
        }
        Ok(named)
    }

    fn comparison(&self, left: &Expr, operator: Operator, right: &Expr) -> Result<BoundCondition, SqlFault> {
        let at = place(left);
        match (self.operand(left)?, self.operand(right)?) {
            (Some(left), Some(right)) => self.compare(left, operator, right, at),
            _ => Err(no_operand(at)),
        }
    }

    fn compare(
        &self,
        left: Operand,
        operator: Operator,
        right: Operand,
        at: Location,
    ) -> Result<BoundCondition, SqlFault> {
        use Operand::{Column, Literal as Value};
        let (left, right, data_type) = match (left, right) {
            (Column(path), Value(SqlLiteral::Null, _)) | (Value(SqlLiteral::Null, _), Column(path)) => {
                self.column(&path)?;
                return Ok(BoundCondition::Constant(None));
            }
            (Column(first), Column(second)) => {
                let (left, right) = (self.compared(&first)?, self.compared(&second)?);
                let data_type = common(&left.kind, &right.kind).ok_or_else(|| {
                    let why = format!(
                        "the columns {} and {} have types that cannot be compared here",
                        shown(&left.path),
                        shown(&right.path)
                    );
                    SqlFault::at(first.at, why)
                })?;
                (Side::Column(left), Side::Column(right), data_type)
            }
            (Column(path), Value(literal, at)) => {
                let (column, value) = self.with_value(&path, &literal, at)?;
                let data_type = value.data_type().clone();
                (Side::Column(column), Side::Value(value), data_type)
            }
            (Value(literal, at), Column(path)) => {
                let (column, value) = self.with_value(&path, &literal, at)?;
                let data_type = value.data_type().clone();
                (Side::Value(value), Side::Column(column), data_type)
            }
            (Value(..), Value(..)) => return Err(no_operand(at)),
        };
        Ok(BoundCondition::Compare(Compared {
            left,
            operator,
            right,
            data_type,
        }))
    }

    /// A list, whose literals engines convert to one type before they compare.
    fn among(&self, left: &Expr, list: &[Expr]) -> Result<BoundCondition, SqlFault> {
        let Some(Operand::Column(path)) = self.operand(left)? else {
            return Err(SqlFault::at(place(left), "IN goes with a column"));
        };
        let literals = list.iter().map(|item| match SqlLiteral::of(item)? {
            Some(literal) => Ok((literal, place(item))),
            None => Err(unknown(item)),
        });
        let literals = literals.collect::<Result<Vec<_>, SqlFault>>()?;
        let find = |is: fn(&SqlLiteral) -> bool| literals.iter().find(|(literal, _)| is(literal));
        let number = find(|literal| matches!(literal, SqlLiteral::Number(_)));
        if let (Some((_, at)), Some(_)) = (find(|literal| matches!(literal, SqlLiteral::Double(_))), number) {
            let why = "a list has numbers with an exponent and others, which are compared as doubles";
            return Err(SqlFault::at(*at, why));
        }
        let kind = self.column(&path)?.kind;
        if let (
            Some((_, at)),
            ColumnType::Primitive(time @ (Primitive::Timestamp | Primitive::TimestampNtz)),
        ) = (find(|literal| matches!(literal, SqlLiteral::Text(_))), &kind)
        {
            let has_literal = *time == Primitive::Timestamp || self.purpose == Purpose::Asked;
            let instead = if has_literal {
                "write TIMESTAMP before it"
            } else {
                "compare with each, joined by OR"
            };
            let why = format!("a list has the text of a time, which Spark compares as text: {instead}");
            return Err(SqlFault::at(*at, why));
        }
        let equal = list
            .iter()
            .map(|item| self.comparison(left, Operator::Equal, item));
        Ok(BoundCondition::Any(joined(equal.collect::<Result<_, _>>()?)))
    }

    fn with_value(
        &self,
        path: &Path,
        literal: &SqlLiteral,
        at: Location,
    ) -> Result<(NamedColumn, ArrayRef), SqlFault> {
        let column = self.compared(path)?;
        let value = value_of(&column.kind, literal, self.purpose).map_err(|why| {
            let why = format!("the column {} cannot be compared with {why}", shown(&path.names));
            SqlFault::at(at, why)
        })?;
        Ok((column, value))
    }
}

/// The parts that `AND` or `OR` joins, from the left.
fn collect<'a>(expression: &'a Expr, operator: &BinaryOperator, parts: &mut Vec<&'a Expr>) {
    match expression {
        Expr::BinaryOp { left, op, right } if op == operator => {
            collect(left, operator, parts);
            collect(right, operator, parts);
        }
        other => parts.push(other),
    }
}

/// The name without its backquotes, which are doubled in it.
fn unquoted(name: &Ident) -> String {
    match name.quote_style {
        None => name.value.clone(),
        Some(_) => name.value.replace("``", "`"),
    }
}

fn negated_if(is_negated: bool, bound: BoundCondition) -> BoundCondition {
    if is_negated {
        BoundCondition::Not(Box::new(bound))
    } else {
        bound
    }
}

fn no_operand(at: Location) -> SqlFault {
    SqlFault::at(
        at,
        "a comparison is not of a column with a literal or another column",
    )
}

/// The column of a name in any case.
fn find<'a>(columns: &'a [TableColumn], name: &str) -> Option<&'a TableColumn> {
    let exact = columns.iter().find(|column| column.name == name);
    exact.or_else(|| {
        let lower = name.to_lowercase();
        columns.iter().find(|column| column.name.to_lowercase() == lower)
    })
}

/// Alternatives, with those in one that say that a column has a value of its own type: a row is looked up among these
/// values once.
fn joined(alternatives: Vec<BoundCondition>) -> Vec<BoundCondition> {
    let mut joined = Vec::new();
    let mut among: Vec<(NamedColumn, Vec<PredicateLiteral>)> = Vec::new();
    for bound in alternatives {
        let BoundCondition::Compare(compared) = &bound else {
            joined.push(bound);
            continue;
        };
        let Some((column, literal)) = compared.equal_literal() else {
            joined.push(bound);
            continue;
        };
        match among.iter_mut().find(|(known, _)| known == column) {
            Some((_, literals)) => literals.push(literal),
            None => among.push((column.clone(), vec![literal])),
        }
    }
    let among = among.into_iter();
    joined.extend(among.map(|(column, literals)| BoundCondition::Among(column, literals)));
    joined
}

/// The words for the columns that choose whole files.
pub(crate) fn partitions_alone(columns: &[String]) -> String {
    let known = if columns.is_empty() {
        "none here".to_owned()
    } else {
        columns.join(", ")
    };
    format!("name partition columns alone, which are {known}")
}

/// The words for a name that is not among these columns, which are the fields of those before it.
fn no_column(path: &[String], before: &[String], columns: &[TableColumn]) -> String {
    let whole = |name: &str| {
        let mut whole = before.to_vec();
        whole.push(name.to_owned());
        shown(&whole)
    };
    let wanted = path.get(before.len()).map_or("", String::as_str);
    let names = || columns.iter().map(|column| column.name.as_str());
    let near: Vec<String> = near(wanted, names()).into_iter().map(whole).collect();
    let advice = match (near.as_slice(), columns) {
        ([], []) => format!("{} has no fields", shown(before)),
        ([], _) => {
            let mut known: Vec<String> = names().take(MOST_NAMED).map(whole).collect();
            if columns.len() > MOST_NAMED {
                known.push("...".to_owned());
            }
            format!("there are {}", known.join(", "))
        }
        (near, _) => format!("did you mean {}?", near.join(" or ")),
    };
    format!("there is no column {}: {advice}", shown(path))
}

/// The type in which two columns are compared; none where engines choose different ones.
fn common(left: &ColumnType, right: &ColumnType) -> Option<DataType> {
    use Primitive::{Binary, Byte, Double, Float, Integer, Long, Short};
    let (ColumnType::Primitive(a), ColumnType::Primitive(b)) = (left, right) else {
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
pub(super) fn digits_of(kind: &ColumnType) -> Option<(u8, u8)> {
    match kind {
        ColumnType::Primitive(Primitive::Byte) => Some((3, 0)),
        ColumnType::Primitive(Primitive::Short) => Some((5, 0)),
        ColumnType::Primitive(Primitive::Integer) => Some((10, 0)),
        ColumnType::Primitive(Primitive::Long) => Some((20, 0)),
        ColumnType::Decimal(precision, scale) => Some((*precision, u8::try_from(*scale).ok()?)),
        _ => None,
    }
}

/// The decimal type that holds the numbers of both; none where it would have too many digits.
pub(super) fn decimal_of((digits, scale): (u8, u8), (other, other_scale): (u8, u8)) -> Option<DataType> {
    let whole = digits.checked_sub(scale)?.max(other.checked_sub(other_scale)?);
    let scale = scale.max(other_scale);
    let precision = whole.checked_add(scale).filter(|all| *all <= MOST_DIGITS)?;
    Some(DataType::Decimal128(precision, i8::try_from(scale).ok()?))
}
