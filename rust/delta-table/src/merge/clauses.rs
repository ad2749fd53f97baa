//! Clauses: which rows each of them is about, and what becomes of these rows.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, NullArray, RecordBatch, UInt32Array};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use arrow_select::take::take;

use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::values::{Argument, Evaluate, NewColumns};

use super::condition::ClauseCondition;
use super::source::{MergeSource, SourceRow};

/// The rows that a clause is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClauseKind {
    /// Pairs of a row of the table and a row of the source that have one key.
    Matched,
    /// Rows of the source whose key no row of the table has.
    NotMatched,
    /// Rows of the table whose key no row of the source has.
    NotMatchedBySource,
}

impl ClauseKind {
    /// The name in the history's parameters, by delta-spark.
    pub(super) fn parameter(self) -> &'static str {
        match self {
            Self::Matched => "matchedPredicates",
            Self::NotMatched => "notMatchedPredicates",
            Self::NotMatchedBySource => "notMatchedBySourcePredicates",
        }
    }

    /// The clause in words.
    fn words(self) -> &'static str {
        match self {
            Self::Matched => "when_matched",
            Self::NotMatched => "when_not_matched",
            Self::NotMatchedBySource => "when_not_matched_by_source",
        }
    }
}

/// A clause of a merge. Of the clauses of a kind, the first one whose condition is true for a row applies to it.
#[derive(Debug, Clone)]
pub struct MergeClause {
    /// The rows that it is about.
    pub kind: ClauseKind,
    /// The condition on them; none if it always holds, as in the last clause of a kind alone.
    pub condition: Option<MergeCondition>,
    /// The values that they get: those of updated rows, or of inserted ones. None if they are deleted.
    pub values: Option<MergeValues>,
}

/// A condition of a clause. A row for which it is null does not satisfy it.
#[derive(Debug, Clone)]
pub enum MergeCondition {
    /// One expression of booleans that the caller evaluates, and its text for the history.
    Expression(Expressions, String),
    /// This text in SQL is true. It names columns as `target.NAME` and `source.NAME`, or by the name alone where one
    /// side has it.
    Sql(String),
}

/// Expressions that the caller evaluates together, and the columns that they name.
#[derive(Debug, Clone)]
pub struct Expressions {
    /// The number by which the caller knows them.
    pub number: usize,
    /// Columns of the table. They come to the caller as `target.NAME`.
    pub target: Vec<String>,
    /// Columns of the source. They come to the caller as `source.NAME`.
    pub source: Vec<String>,
}

/// The values that rows get.
#[derive(Debug, Clone)]
pub struct MergeValues {
    /// The columns that have the values of the source row; without it, all that the source has.
    pub taken: Option<Vec<String>>,
    /// Values that are the same for all rows, in one row.
    pub literals: RecordBatch,
    /// Columns whose values are computed.
    pub computed: Vec<String>,
    /// The expressions of these columns, unless there are none.
    pub expressions: Option<Expressions>,
}

impl MergeClause {
    /// The word for what becomes of the rows, by delta-spark.
    pub(super) fn action(&self) -> &'static str {
        match (self.kind, &self.values) {
            (_, None) => "delete",
            (ClauseKind::NotMatched, Some(_)) => "insert",
            (_, Some(_)) => "update",
        }
    }

    /// The argument that its values come from.
    fn argument(&self) -> Argument {
        Argument {
            what: format!("{}_{}", self.kind.words(), self.action()),
            option: if self.kind == ClauseKind::NotMatched {
                "values"
            } else {
                "set"
            },
        }
    }

    /// All expressions that the caller evaluates.
    pub(super) fn expressions(&self) -> impl Iterator<Item = &Expressions> {
        let condition = self.condition.as_ref().and_then(|condition| match condition {
            MergeCondition::Expression(expression, _) => Some(expression),
            MergeCondition::Sql(_) => None,
        });
        let values = self
            .values
            .as_ref()
            .and_then(|values| values.expressions.as_ref());
        condition.into_iter().chain(values)
    }
}

/// Refuses clauses of which one can never apply.
///
/// # Errors
/// [`TableError::Option`] when there is none, or one follows an unconditional one of its kind, or one has values of
/// rows that are not there.
pub(super) fn check(clauses: &[MergeClause]) -> Result<()> {
    if clauses.is_empty() {
        return Err(TableError::option(
            "clauses",
            "a merge without a clause would do nothing",
        ));
    }
    for (number, clause) in clauses.iter().enumerate() {
        let words = clause.kind.words();
        let mut before = clauses[..number].iter();
        if before.any(|other| other.kind == clause.kind && other.condition.is_none()) {
            let message = format!(
                "a clause of {words} follows one without where, so it would never apply: only the last clause of a kind \
                 goes without where"
            );
            return Err(TableError::option("clauses", message));
        }
        let has = |columns: fn(&Expressions) -> &Vec<String>| {
            clause
                .expressions()
                .any(|expressions| !columns(expressions).is_empty())
        };
        let takes = clause
            .values
            .as_ref()
            .is_some_and(|values| values.taken.as_ref().is_none_or(|taken| !taken.is_empty()));
        let lacks_target = clause.kind == ClauseKind::NotMatched && has(|each| &each.target);
        let lacks_source =
            clause.kind == ClauseKind::NotMatchedBySource && (takes || has(|each| &each.source));
        let lacks_values = clause.kind == ClauseKind::NotMatched && clause.values.is_none();
        if lacks_target || lacks_source || lacks_values {
            let message = format!("a clause of {words} names columns of rows that are not there");
            return Err(TableError::option("clauses", message));
        }
    }
    Ok(())
}

/// A clause whose columns are found.
pub(super) struct Clause {
    pub kind: ClauseKind,
    condition: Option<ClauseCondition>,
    values: Option<ClauseValues>,
}

/// The values of a clause.
struct ClauseValues {
    /// Columns that have the values of the source, by their places in the table and there.
    taken: Vec<(usize, usize)>,
    new: NewColumns,
    expressions: Option<Expressions>,
}

impl Clause {
    /// A clause over this table and source. Updated rows have the columns of the key already.
    ///
    /// # Errors
    /// As [`NewColumns::of`]; [`TableError::Option`] when the source lacks a column.
    pub fn of(
        head: &TableHead,
        source: &MergeSource,
        clause: &MergeClause,
        condition: Option<ClauseCondition>,
        on: &[String],
    ) -> Result<Self> {
        let values = clause.values.as_ref().map(|given| {
            let mut taken = match &given.taken {
                None => source.fitted_names(),
                Some(names) => names.clone(),
            };
            if clause.kind != ClauseKind::NotMatched {
                taken.retain(|name| !on.contains(name));
            }
            let place = |name: &String| {
                let mut columns = head.schema.columns.iter();
                let place = columns.position(|column| column.name == *name);
                Some((place?, source.fitted(name)?))
            };
            Ok::<_, TableError>(ClauseValues {
                taken: taken.iter().filter_map(place).collect(),
                new: NewColumns::of(head, &given.literals, &given.computed, clause.argument())?,
                expressions: given.expressions.clone(),
            })
        });
        Ok(Self {
            kind: clause.kind,
            condition,
            values: values.transpose()?,
        })
    }

    /// Returns true if its rows are deleted.
    pub fn deletes(&self) -> bool {
        self.values.is_none()
    }

    /// Returns true if its rows stay as they are: it sets no column.
    pub fn is_idle(&self) -> bool {
        self.kind != ClauseKind::NotMatched && self.values.is_some() && self.places().next().is_none()
    }

    /// Returns true if it has no condition.
    pub fn is_unconditional(&self) -> bool {
        self.condition.is_none()
    }

    /// The most rows, one or more, whose values are to be in memory together.
    pub fn at_once(&self) -> usize {
        let values = self.values.as_ref();
        values.map_or(usize::MAX, |values| values.new.at_once())
    }

    /// The places of the columns that it sets.
    pub fn places(&self) -> impl Iterator<Item = usize> {
        let values = self.values.iter();
        values.flat_map(|values| {
            let taken = values.taken.iter().map(|(place, _)| *place);
            taken.chain(values.new.places())
        })
    }

    /// Returns true if rows that it updates need their former value of a column, which is at this place of the table.
    /// `is_equal` says that matched rows have the very value of the source there.
    pub fn reads(&self, place: usize, name: &String, is_equal: bool) -> bool {
        let values = self.values.iter();
        let mut expressions = values.filter_map(|values| values.expressions.as_ref());
        let comes_from_source = is_equal && self.kind == ClauseKind::Matched;
        let is_kept = !comes_from_source && self.places().all(|set| set != place);
        is_kept || expressions.any(|expressions| expressions.target.contains(name))
    }

    /// Columns of the table that its condition names.
    pub fn target_of_condition(&self) -> &[String] {
        self.condition
            .as_ref()
            .map_or(&[], |condition| condition.target.as_slice())
    }

    /// Puts the values into columns of the table, which have the rows as they were.
    pub fn put(
        &self,
        columns: &mut [ArrayRef],
        rows: &ClauseRows<'_>,
        evaluate: &mut Evaluate<'_>,
    ) -> Result<()> {
        let Some(values) = &self.values else {
            return Ok(());
        };
        if let Some((source, pairs)) = rows.source {
            for (to, from) in &values.taken {
                columns[*to] = source.values(*from, pairs).map_err(|error| unmade(&error))?;
            }
        }
        values.new.put(columns, rows.len, || {
            let Some(expressions) = &values.expressions else {
                return Ok(Vec::new());
            };
            let Expressions {
                number,
                target,
                source,
            } = expressions;
            evaluate(*number, &rows.columns_of(target, source, None)?)
        })
    }
}

/// The numbers of the clauses of a kind that apply to rows: of each row the first whose condition is true.
pub(super) fn chosen(
    clauses: &[Clause],
    kind: ClauseKind,
    rows: &ClauseRows<'_>,
    evaluate: &mut Evaluate<'_>,
) -> Result<Vec<Option<usize>>> {
    let mut chosen = vec![None; rows.len];
    let mut open: Vec<u32> = (0..u32::try_from(rows.len).unwrap_or(u32::MAX)).collect();
    for (number, clause) in clauses
        .iter()
        .enumerate()
        .filter(|(_, clause)| clause.kind == kind)
    {
        if open.is_empty() {
            break;
        }
        let holds = match &clause.condition {
            None => BooleanArray::from(vec![true; open.len()]),
            Some(condition) => condition.holds(rows, &open, evaluate)?,
        };
        let mut holds = holds.iter();
        open.retain(|row| {
            let holds = holds.next().flatten() == Some(true);
            if holds {
                chosen[*row as usize] = Some(number);
            }
            !holds
        });
    }
    Ok(chosen)
}

/// Rows of the table, of the source, or pairs of both.
pub(super) struct ClauseRows<'a> {
    /// Columns of the table, and the places of the rows there.
    pub target: Option<(&'a RecordBatch, &'a [u32])>,
    /// The source, and its rows.
    pub source: Option<(&'a MergeSource, &'a [SourceRow])>,
    pub len: usize,
}

impl ClauseRows<'_> {
    /// Columns of the table and of the source, of all rows or some.
    pub fn columns_of(
        &self,
        target: &[String],
        source: &[String],
        some: Option<&[u32]>,
    ) -> Result<RecordBatch> {
        let len = some.map_or(self.len, <[u32]>::len);
        let mut fields = Vec::new();
        let mut columns: Vec<ArrayRef> = Vec::new();
        let mut add = |name: String, column: ArrayRef| {
            fields.push(Field::new(name, column.data_type().clone(), true));
            columns.push(column);
        };
        if let Some((batch, places)) = self.target.filter(|_| !target.is_empty()) {
            let places: UInt32Array = match some {
                None => places.to_vec().into(),
                Some(some) => some.iter().map(|row| places[*row as usize]).collect(),
            };
            for name in target {
                let column = batch.column_by_name(name).ok_or_else(|| no_column(name))?;
                add(
                    format!("target.{name}"),
                    take(column, &places, None).map_err(|error| unmade(&error))?,
                );
            }
        }
        if let Some((table, rows)) = self.source.filter(|_| !source.is_empty()) {
            let few: Vec<SourceRow>;
            let rows: &[SourceRow] = match some {
                None => rows,
                Some(some) => {
                    few = some.iter().map(|row| rows[*row as usize]).collect();
                    &few
                }
            };
            for name in source {
                let place = table.place(name).ok_or_else(|| no_column(name))?;
                let column = table.values(place, rows).map_err(|error| unmade(&error))?;
                add(format!("source.{name}"), column);
            }
        }
        if columns.is_empty() {
            // Batches without a column lose the number of their rows on the way.
            fields.push(Field::new("rows", DataType::Null, true));
            columns.push(Arc::new(NullArray::new(len)));
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(|error| unmade(&error))
    }
}

fn no_column(name: &str) -> TableError {
    TableError::option(
        "clauses",
        format!("a clause names the column {name:?}, which is not there"),
    )
}

pub(super) fn unmade(error: &ArrowError) -> TableError {
    TableError::schema(format!("the rows of a merge cannot be put together: {error}"))
}
