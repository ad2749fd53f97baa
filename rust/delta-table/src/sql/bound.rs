//! Conditions whose columns are known, and their truth for rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Datum, RecordBatch, Scalar, StringArray, new_null_array,
};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_ord::cmp;
use arrow_schema::{ArrowError, DataType};
use arrow_select::nullif::nullif;
use delta_commit::predicate::Literal;
use parquet_writer::Batch;
use sqlparser::ast::BinaryOperator;

use crate::clustering::shown;
use crate::mapping::Mapping;
use crate::scan::adapt;
use crate::schema::{ColumnType, TableColumn};

use super::values::{array_of, is_in, plain};

/// A column, or a field at any depth of structs, that a condition names.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NamedColumn {
    /// Names from the top, as the table has them.
    pub path: Vec<String>,
    pub(super) kind: ColumnType,
    /// True if empty text is null in it, as in partition columns of rows that are to be written.
    pub(super) has_no_empty: bool,
    /// True for text that Spark pads or cuts.
    pub(super) is_padded: bool,
}

/// A condition whose columns are known.
#[derive(Debug, Clone)]
pub(crate) enum BoundCondition {
    /// The same for all rows; none for null.
    Constant(Option<bool>),
    /// The value of a column of booleans.
    Flag(NamedColumn),
    IsNull(NamedColumn),
    /// True if the column has one of these values, which are of its type.
    Among(NamedColumn, Vec<Literal>),
    Not(Box<BoundCondition>),
    All(Vec<BoundCondition>),
    Any(Vec<BoundCondition>),
    Compare(Compared),
}

/// A comparison of two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Operator {
    /// The operator of SQL; none for one that compares no values.
    pub(super) fn of(operator: &BinaryOperator) -> Option<Self> {
        Some(match operator {
            BinaryOperator::Eq => Self::Equal,
            BinaryOperator::NotEq => Self::NotEqual,
            BinaryOperator::Lt => Self::Less,
            BinaryOperator::LtEq => Self::LessOrEqual,
            BinaryOperator::Gt => Self::Greater,
            BinaryOperator::GtEq => Self::GreaterOrEqual,
            _ => return None,
        })
    }
}

/// A comparison in one type.
#[derive(Debug, Clone)]
pub(crate) struct Compared {
    pub(super) left: Side,
    pub(super) operator: Operator,
    pub(super) right: Side,
    pub(super) data_type: DataType,
}

/// A side of a comparison.
#[derive(Debug, Clone)]
pub(crate) enum Side {
    Column(NamedColumn),
    /// An array of one value, in the type of the comparison.
    Value(ArrayRef),
}

/// The rows for which a condition is true, and those for which it is false. It is null for all others.
#[derive(Debug)]
pub(crate) struct Truth {
    pub is_true: BooleanBuffer,
    is_false: BooleanBuffer,
}

impl BoundCondition {
    /// The condition that a column is null.
    pub fn is_null(column: &TableColumn) -> Self {
        Self::IsNull(NamedColumn::of(column))
    }

    /// The condition that a column has one of these values, which are of its type.
    pub fn among(column: &TableColumn, literals: Vec<Literal>) -> Self {
        Self::Among(NamedColumn::of(column), literals)
    }

    /// The comparison of a column with a value of its type.
    pub fn compare(column: &TableColumn, operator: Operator, literal: Literal) -> Self {
        match operator {
            Operator::Equal => Self::among(column, vec![literal]),
            Operator::NotEqual => Self::Not(Box::new(Self::among(column, vec![literal]))),
            _ => {
                let value = array_of(&literal, &column.kind.arrow());
                Self::Compare(Compared {
                    data_type: value.data_type().clone(),
                    left: Side::Column(NamedColumn::of(column)),
                    operator,
                    right: Side::Value(value),
                })
            }
        }
    }

    /// Names of the top-level columns that the condition refers to.
    pub fn names(&self) -> BTreeSet<&str> {
        let columns = self.columns().into_iter();
        columns
            .filter_map(|column| column.path.first())
            .map(String::as_str)
            .collect()
    }

    /// Evaluates the condition: true where it is true, and false where it is false or null. `rows` has the columns that
    /// the condition names, with the names and types of the table.
    pub fn holds(&self, rows: &RecordBatch) -> Result<BooleanArray, ArrowError> {
        let truth = self.truth(&Batch::from(rows.clone()))?;
        Ok(BooleanArray::new(truth.is_true, None))
    }

    /// The columns that it names, each once, in their order.
    pub fn columns(&self) -> Vec<&NamedColumn> {
        let mut columns = Vec::new();
        self.collect(&mut columns);
        columns
    }

    fn collect<'a>(&'a self, columns: &mut Vec<&'a NamedColumn>) {
        let mut add = |column: &'a NamedColumn| {
            if !columns.contains(&column) {
                columns.push(column);
            }
        };
        match self {
            Self::Constant(_) => {}
            Self::Flag(column) | Self::IsNull(column) | Self::Among(column, _) => add(column),
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
            Self::Among(column, literals) => {
                let values = column.values(rows)?;
                let among = is_in(&values, literals)?;
                Truth::of(&BooleanArray::new(among.values().clone(), values.logical_nulls()))
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

impl NamedColumn {
    /// A top-level column of a table, by its own name.
    fn of(column: &TableColumn) -> Self {
        Self {
            path: vec![column.name.clone()],
            kind: column.kind.clone(),
            has_no_empty: false,
            is_padded: false,
        }
    }

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

    /// The values as the log of a table gets them: an empty text of a partition column is null.
    fn without_empty(&self, array: ArrayRef) -> Result<ArrayRef, ArrowError> {
        if !self.has_no_empty {
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
