//! New values of columns: literals, and those that a caller computes from rows.

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::concat::concat;
use parquet_writer::Batch;

use crate::error::{Result, TableError};
use crate::fit::{check_new_values, fitted};
use crate::head::TableHead;
use crate::limits::LengthLimits;
use crate::mapping::Mapping;
use crate::scan::{adapt, no_column, repeated};
use crate::schema::TableColumn;

/// Evaluates the expressions of this number over rows: batches of the columns that they are for, which together have as
/// many rows.
pub type Evaluate<'a> = dyn FnMut(usize, &RecordBatch) -> Result<Vec<Batch>> + 'a;

/// Bytes of values that are the same for all rows, which are in memory together.
const AT_ONCE: usize = 16 << 20;

/// The argument that new values come from.
#[derive(Debug, Clone)]
pub(crate) struct Argument {
    /// The words for it.
    pub what: String,
    /// Its name.
    pub option: &'static str,
}

/// New values of columns of the table, by the columns' places.
pub(crate) struct NewColumns {
    schema: SchemaRef,
    argument: Argument,
    limits: LengthLimits,
    literals: Vec<(usize, ArrayRef)>,
    computed: Vec<usize>,
    /// Rows of which the literals take [`AT_ONCE`] bytes.
    at_once: usize,
}

impl NewColumns {
    /// The columns of one row of literals, and those that are computed.
    ///
    /// # Errors
    /// [`CommitError::Schema`](delta_commit::CommitError::Schema) when the table lacks one, or a literal does not fit.
    pub fn of(
        head: &TableHead,
        given: &RecordBatch,
        computed: &[String],
        argument: Argument,
    ) -> Result<Self> {
        let limits = LengthLimits::of(&head.schema)?;
        let mut literals = Vec::new();
        for (field, value) in given.schema().fields().iter().zip(given.columns()) {
            let place = place_of(head, field.name())?;
            let value = literal(&head.schema.columns[place], value)?;
            limits.check(field.name(), &value)?;
            literals.push((place, value));
        }
        let computed = computed.iter().map(|name| place_of(head, name));
        let computed = computed.collect::<Result<Vec<_>>>()?;
        let bytes: usize = literals.iter().map(|(_, value)| bytes_of(value)).sum();
        Ok(Self {
            schema: head.schema.arrow(),
            argument,
            limits,
            literals,
            computed,
            at_once: (AT_ONCE / bytes.max(1)).max(1),
        })
    }

    /// The most rows, one or more, whose values are to be in memory together.
    pub fn at_once(&self) -> usize {
        self.at_once
    }

    /// The places of the columns.
    pub fn places(&self) -> impl Iterator<Item = usize> {
        let literals = self.literals.iter().map(|(place, _)| *place);
        literals.chain(self.computed.iter().copied())
    }

    /// Puts the values into the columns of as many rows. `compute` gives those that are computed.
    ///
    /// # Errors
    /// [`CommitError::Schema`](delta_commit::CommitError::Schema) when one does not fit, or there are fewer or more
    /// than rows; as `compute`.
    pub fn put(
        &self,
        columns: &mut [ArrayRef],
        rows: usize,
        compute: impl FnOnce() -> Result<Vec<Batch>>,
    ) -> Result<()> {
        for (place, value) in &self.literals {
            columns[*place] = repeated(value, rows).map_err(|error| self.unfit(*place, &error))?;
        }
        if self.computed.is_empty() {
            return Ok(());
        }
        let batches = compute()?;
        for place in &self.computed {
            columns[*place] = self.computed(*place, &batches, rows)?;
        }
        Ok(())
    }

    /// The values of a computed column.
    fn computed(&self, place: usize, batches: &[Batch], rows: usize) -> Result<ArrayRef> {
        let field = self.schema.field(place);
        let name = field.name();
        let mut parts = Vec::new();
        for batch in batches {
            batch.check_text()?;
            if let Some((index, _)) = batch.schema().column_with_name(name) {
                let (given, kind) = (&batch.columns()[index], field.data_type());
                let checked = check_new_values(given.data_type(), kind);
                let part = checked.and_then(|()| fitted(given, kind)).map_err(|why| {
                    let Argument { what, option } = &self.argument;
                    let message =
                        format!("{what} has an expression for '{name}' whose values do not fit: {why}");
                    TableError::option(option, message)
                })?;
                self.limits.check(name, &part)?;
                parts.push(part);
            }
        }
        let given: usize = parts.iter().map(Array::len).sum();
        if given != rows {
            return Err(TableError::column(
                name,
                format!("the column {name:?} has {given} new values for {rows} rows: give one for each"),
            ));
        }
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        concat(&parts).map_err(|error| self.unfit(place, &error))
    }

    fn unfit(&self, place: usize, error: &ArrowError) -> TableError {
        let name = self.schema.field(place).name();
        TableError::column(
            name,
            format!("the new values of the column {name:?} do not fit: {error}"),
        )
    }
}

/// The bytes of an array's values.
fn bytes_of(array: &ArrayRef) -> usize {
    let data = array.to_data();
    data.get_slice_memory_size().unwrap_or(0)
}

/// The place of a column in the table's schema.
fn place_of(head: &TableHead, name: &str) -> Result<usize> {
    let mut columns = head.schema.columns.iter();
    let place = columns.position(|column| column.name == name);
    place.ok_or_else(|| no_column(head, name))
}

/// A literal in its column's type: an array of one value.
fn literal(column: &TableColumn, value: &ArrayRef) -> Result<ArrayRef> {
    let refuse = |why: String| {
        let message = format!("the new value of the column {:?} {why}", column.name);
        TableError::column(&column.name, message)
    };
    if value.len() != 1 {
        return Err(refuse(format!("is not one, but {}", value.len())));
    }
    let value = adapt(value, &column.kind, Mapping::None)
        .map_err(|error| refuse(format!("does not fit: {error}")))?;
    if value.is_null(0) && !column.nullable {
        return Err(refuse("is null, which the table does not allow there".to_owned()));
    }
    Ok(value)
}
