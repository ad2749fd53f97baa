//! Source rows: the columns of the key and those that clauses take in the types of the table, and those that only
//! expressions name as they were given, but for views.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_cast::cast;
use arrow_cast::display::array_value_to_string;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use arrow_select::interleave::interleave;
use parquet_writer::{Batch, column_named};

use crate::error::{Result, TableError};
use crate::fit::lacking;
use crate::head::TableHead;
use crate::limits::LengthLimits;
use crate::mapping::Mapping;
use crate::rows::RowConversion;
use crate::scan::{adapt, no_column};
use crate::schema::TableSchema;

use super::MergeOptions;
use super::clauses::{ClauseKind, MergeClause, unmade};
use super::condition::ClauseCondition;

/// A row of the source: its batch, and its place there.
pub(super) type SourceRow = (usize, usize);

/// Source rows.
pub(super) struct MergeSource {
    /// The rows of each batch.
    rows: Vec<usize>,
    columns: Vec<SourceColumn>,
}

struct SourceColumn {
    name: String,
    /// True if it has the type of the table's column of its name.
    is_fitted: bool,
    /// Its values in each batch.
    parts: Vec<ArrayRef>,
}

impl MergeSource {
    /// # Errors
    /// [`CommitError::Schema`](delta_commit::CommitError::Schema) when the rows do not fit the table;
    /// [`TableError::Option`] when they lack a column of the key, or one that a clause takes.
    pub fn of(
        head: &TableHead,
        schema: &SchemaRef,
        batches: &[Batch],
        options: &MergeOptions,
        conditions: &[Option<ClauseCondition>],
    ) -> Result<Self> {
        let needed = NeededColumns::of(head, schema, options, conditions)?;
        let given = wanted(schema, |name| needed.fitted.contains(name));
        let given_schema = TableSchema::of_rows(&given.0, head)?;
        head.schema.check_columns(&given_schema)?;
        check_whole(head, &given.0)?;
        check_inserted(head, schema, options)?;
        let shape = RowConversion::new(&head.schema, &given_schema);
        let limits = LengthLimits::of(&head.schema)?;
        let named = wanted(schema, |name| {
            needed.named.contains(name) && !needed.fitted.contains(name)
        });
        let fitted_fields = shape.schema().fields().iter().map(|field| (field, true));
        let fields = fitted_fields.chain(named.0.fields().iter().map(|field| (field, false)));
        let mut source = Self {
            rows: Vec::new(),
            columns: fields
                .map(|(field, is_fitted)| SourceColumn {
                    name: field.name().clone(),
                    is_fitted,
                    parts: Vec::new(),
                })
                .collect(),
        };
        for batch in batches.iter().filter(|batch| batch.rows() > 0) {
            let fitted = shape.fit(&some_of(batch, &given)?)?;
            let columns = fitted.columns().iter().zip(shape.schema().fields());
            let columns = columns.map(|(column, field)| {
                let column = in_type(column, head, field.name())?;
                limits.check(field.name(), &column)?;
                Ok::<_, TableError>(column)
            });
            let named = some_of(batch, &named)?;
            let columns = columns.chain(named.columns().iter().map(without_views));
            for (column, values) in source.columns.iter_mut().zip(columns) {
                column.parts.push(values?);
            }
            source.rows.push(batch.rows());
        }
        Ok(source)
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.rows.iter().map(|rows| *rows as u64).sum()
    }

    pub fn batches(&self) -> usize {
        self.rows.len()
    }

    pub fn rows_of(&self, batch: usize) -> usize {
        self.rows[batch]
    }

    /// Names of the columns that have the table's types, in the table's order.
    pub fn fitted_names(&self) -> Vec<String> {
        let fitted = self.columns.iter().filter(|column| column.is_fitted);
        fitted.map(|column| column.name.clone()).collect()
    }

    /// The place of a column.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The place of a column that has the type of the table's.
    pub fn fitted(&self, name: &str) -> Option<usize> {
        self.place(name).filter(|place| self.columns[*place].is_fitted)
    }

    /// A column in each batch.
    pub fn column(&self, place: usize) -> &[ArrayRef] {
        &self.columns[place].parts
    }

    /// Columns of a batch, by their names.
    pub fn columns(&self, batch: usize, names: &[String]) -> Result<Vec<ArrayRef>> {
        let columns = names.iter().map(|name| {
            let place = self.place(name).ok_or_else(|| no_key(name))?;
            Ok(Arc::clone(&self.columns[place].parts[batch]))
        });
        columns.collect()
    }

    /// The values of a column in some rows.
    pub fn values(&self, place: usize, rows: &[SourceRow]) -> Result<ArrayRef, ArrowError> {
        let parts: Vec<&dyn Array> = self.columns[place].parts.iter().map(AsRef::as_ref).collect();
        interleave(&parts, rows)
    }

    /// The key of a row, in words.
    pub fn key_text(&self, on: &[String], (batch, row): SourceRow) -> String {
        let texts = on.iter().map(|name| {
            let column = self.place(name).map(|place| &self.columns[place].parts[batch]);
            let value = column.and_then(|column| array_value_to_string(column, row).ok());
            format!("{name}={}", value.unwrap_or_default())
        });
        texts.collect::<Vec<_>>().join(", ")
    }
}

/// The columns of the source that are needed, by their names.
struct NeededColumns {
    /// Those that have to fit the table's.
    fitted: BTreeSet<String>,
    /// Those that expressions name.
    named: BTreeSet<String>,
}

impl NeededColumns {
    fn of(
        head: &TableHead,
        schema: &SchemaRef,
        options: &MergeOptions,
        conditions: &[Option<ClauseCondition>],
    ) -> Result<Self> {
        for name in &options.on {
            column_named("on", schema.fields(), name)?.ok_or_else(|| no_key(name))?;
        }
        let clauses = options.clauses.iter();
        let of_expressions = clauses
            .flat_map(MergeClause::expressions)
            .flat_map(|expressions| &expressions.source);
        let of_conditions = conditions
            .iter()
            .flatten()
            .flat_map(|condition| &condition.source);
        let named: BTreeSet<String> = of_expressions.chain(of_conditions).cloned().collect();
        for name in &named {
            column_named("clauses", schema.fields(), name)?;
        }
        for values in options.clauses.iter().filter_map(|clause| clause.values.as_ref()) {
            match &values.taken {
                None => check_named(head, schema, &named)?,
                Some(taken) => {
                    for name in taken {
                        let found = column_named("clauses", schema.fields(), name)?;
                        found.ok_or_else(|| not_taken(schema, name))?;
                        if head.schema.column(name).is_none() {
                            return Err(no_column(head, name));
                        }
                    }
                }
            }
        }
        let fitted = fitted(head, schema, options);
        Ok(Self { fitted, named })
    }
}

/// The columns of the source that have to fit the table's.
pub(super) fn fitted(head: &TableHead, schema: &SchemaRef, options: &MergeOptions) -> BTreeSet<String> {
    let mut fitted: BTreeSet<String> = options.on.iter().cloned().collect();
    for values in options.clauses.iter().filter_map(|clause| clause.values.as_ref()) {
        match &values.taken {
            None => {
                let names = schema.fields().iter().map(|field| field.name());
                fitted.extend(names.filter(|name| head.schema.column(name).is_some()).cloned());
            }
            Some(taken) => fitted.extend(taken.iter().cloned()),
        }
    }
    fitted
}

/// The fields that are wanted, and their places in the source.
fn wanted(schema: &SchemaRef, is_wanted: impl Fn(&str) -> bool) -> (SchemaRef, Vec<usize>) {
    let fields = schema.fields().iter().enumerate();
    let wanted = fields.filter(|(_, field)| is_wanted(field.name()));
    let (places, fields): (Vec<usize>, Vec<Field>) = wanted
        .map(|(place, field)| (place, field.as_ref().clone()))
        .unzip();
    (Arc::new(Schema::new(fields)), places)
}

/// Refuses columns of the source that the table lacks and no clause names: they may be a typo.
fn check_named(head: &TableHead, schema: &SchemaRef, named: &BTreeSet<String>) -> Result<()> {
    for field in schema.fields() {
        let name = field.name();
        if head.schema.column(name).is_none() && !named.contains(name) {
            let columns = head.schema.columns.iter().map(|column| column.name.as_str());
            let columns: Vec<&str> = columns.collect();
            return Err(TableError::column(
                name,
                format!(
                    "the source has the column {name:?}, which the table does not have and no clause names: leave it \
                     out, or name it; the table's columns are {}",
                    columns.join(", ")
                ),
            ));
        }
    }
    Ok(())
}

/// Refuses source structs without a field of the table's struct, which would become null in matching rows.
fn check_whole(head: &TableHead, given: &Schema) -> Result<()> {
    for field in given.fields() {
        let name = field.name();
        let known = head.schema.column(name);
        if let Some(below) = known.and_then(|known| lacking(field.data_type(), &known.kind.arrow())) {
            let path = format!("{name}.{below}");
            return Err(TableError::column(
                &path,
                format!(
                    "the source has no field {path:?}, which would become null in matching rows: add the field to it"
                ),
            ));
        }
    }
    Ok(())
}

/// Checks that inserted rows have values for all columns that need one.
fn check_inserted(head: &TableHead, schema: &SchemaRef, options: &MergeOptions) -> Result<()> {
    let inserts = options
        .clauses
        .iter()
        .filter(|clause| clause.kind == ClauseKind::NotMatched);
    for values in inserts.filter_map(|clause| clause.values.as_ref()) {
        let is_set = |name: &str| {
            let is_taken = match &values.taken {
                None => schema.column_with_name(name).is_some(),
                Some(names) => names.iter().any(|taken| taken == name),
            };
            is_taken
                || values.literals.column_by_name(name).is_some()
                || values.computed.iter().any(|computed| computed == name)
        };
        for column in head.schema.columns.iter().filter(|column| !is_set(&column.name)) {
            let why = if head.is_partition_column(column) {
                "which the table is partitioned by"
            } else if column.nullable {
                continue;
            } else {
                "which the table does not allow to be null"
            };
            let name = &column.name;
            return Err(TableError::column(
                name,
                format!("rows that are inserted have no value for the column {name:?}, {why}"),
            ));
        }
    }
    Ok(())
}

/// Some columns of a batch.
fn some_of(batch: &Batch, (schema, places): &(SchemaRef, Vec<usize>)) -> Result<Batch> {
    let columns = places.iter().map(|place| Arc::clone(&batch.columns()[*place]));
    let some = Batch::new(Arc::clone(schema), columns.collect(), batch.rows())?;
    some.check_text()?;
    Ok(some)
}

fn no_key(name: &str) -> TableError {
    TableError::option(
        "on",
        format!("on names the column {name:?}, which the source does not have: give it, or name another key"),
    )
}

fn not_taken(schema: &SchemaRef, name: &str) -> TableError {
    let names = schema.fields().iter().map(|field| field.name().as_str());
    let message = format!(
        "a clause takes the column {name:?}, which the source does not have: its columns are {}",
        names.collect::<Vec<_>>().join(", ")
    );
    TableError::option("clauses", message)
}

/// A column in a type that pyarrow has kernels for: texts and bytes that are no views.
fn without_views(array: &ArrayRef) -> Result<ArrayRef> {
    cast(array, &type_without_views(array.data_type())).map_err(|error| unmade(&error))
}

fn type_without_views(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(keys, values) => {
            DataType::Dictionary(keys.clone(), Box::new(type_without_views(values)))
        }
        other => other.clone(),
    }
}

/// A column in exactly the type of the table.
fn in_type(array: &ArrayRef, head: &TableHead, name: &str) -> Result<ArrayRef> {
    let Some(column) = head.schema.columns.iter().find(|column| column.name == name) else {
        return Ok(Arc::clone(array));
    };
    adapt(array, &column.kind, Mapping::None).map_err(|error| {
        let message = format!("the column {name:?} does not fit: {error}");
        TableError::column(name, message)
    })
}
