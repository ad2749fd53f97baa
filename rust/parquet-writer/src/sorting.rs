//! The declared order of rows: verified as rows come, or established by sorting each row group.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef};
use arrow_row::{OwnedRow, RowConverter, Rows, SortField};
use arrow_schema::{DataType, SchemaRef, SortOptions};
use arrow_select::interleave::interleave;
use half::f16;
use parquet::file::metadata::SortingColumn;

use crate::column::is_flat;
use crate::error::{CAN_GO_ON, Result, WriteError};
use crate::feed::copied;
use crate::names::column_named;
use crate::normalize;
use crate::options::{SortKey, SortingMode, WriterOptions};
use crate::schema::{FileSchema, leaves};

/// Rows that are compared or sorted at a time.
const ROWS_AT_A_TIME: usize = 8192;

/// The order of a file's rows, and the state that checking it needs.
pub(crate) struct Sorting {
    mode: SortingMode,
    /// Place and type of each column that rows are ordered by.
    keys: Vec<(usize, DataType)>,
    columns: Vec<SortingColumn>,
    converter: RowConverter,
    /// The key of the last row before the next.
    last: Option<OwnedRow>,
    rows: u64,
}

impl Sorting {
    /// The order that the options declare; `None` without one.
    ///
    /// # Errors
    /// [`WriteError::Option`] when they name a column that is not there or not flat.
    pub fn new(schema: &FileSchema, options: &WriterOptions) -> Result<Option<Self>> {
        if options.sorting_columns.is_empty() {
            return Ok(None);
        }
        let mut sorting = (Vec::new(), Vec::new(), Vec::new());
        let last = options.sorting_columns.len() - 1;
        for (number, key) in options.sorting_columns.iter().enumerate() {
            let place = place(schema, &key.column)?;
            let data_type = compared_type(schema, place, number == last);
            let order = SortOptions::new(key.descending, key.nulls_first);
            sorting
                .0
                .push(SortField::new_with_options(data_type.clone(), order));
            sorting.1.push((place, data_type));
            sorting.2.push(declared(schema, place, key)?);
        }
        let (fields, keys, columns) = sorting;
        Ok(Some(Self {
            mode: options.sorting,
            keys,
            columns,
            converter: RowConverter::new(fields)?,
            last: None,
            rows: 0,
        }))
    }

    /// The sorting columns that every row group declares.
    pub fn columns(&self) -> &[SortingColumn] {
        &self.columns
    }

    /// Returns true if the writer sorts the rows.
    pub fn sorts(&self) -> bool {
        self.mode == SortingMode::Sort
    }

    /// Begins a new order after a row group that the caller ended.
    pub fn begin_anew(&mut self) {
        self.last = None;
    }

    /// The last row, and the number of rows so far.
    pub fn place(&self) -> (Option<OwnedRow>, u64) {
        (self.last.clone(), self.rows)
    }

    /// Forgets the rows behind a place.
    pub fn go_back(&mut self, (last, rows): (Option<OwnedRow>, u64)) {
        (self.last, self.rows) = (last, rows);
    }

    /// Checks that the rows of a batch follow in order on those before it.
    ///
    /// # Errors
    /// [`WriteError::Schema`] names the first row that does not.
    pub fn verify(&mut self, batch: &[ArrayRef], rows: usize) -> Result<()> {
        let mut last = self.last.clone();
        for start in (0..rows).step_by(ROWS_AT_A_TIME) {
            let count = ROWS_AT_A_TIME.min(rows - start);
            let slices: Vec<_> = batch.iter().map(|column| column.slice(start, count)).collect();
            let keys = self.keys_of(&slices)?;
            // The first row of all follows on none.
            let first = usize::from(last.is_none());
            let before = last.as_ref().map(OwnedRow::row);
            let pairs = before.into_iter().chain(&keys).zip(keys.iter().skip(first));
            if let Some((row, _)) = (first..).zip(pairs).find(|(_, (before, row))| row < before) {
                return Err(self.out_of_order(start + row));
            }
            last = keys.iter().last().map(|row| row.owned()).or(last);
        }
        self.last = last;
        self.rows += rows as u64;
        Ok(())
    }

    fn out_of_order(&self, row: usize) -> WriteError {
        WriteError::schema(format!(
            "row {row} of the batch, row {} of the file, comes before the one in front of it by sorting_columns: sort the rows, or let sorting=\"sort\" do it; {CAN_GO_ON}",
            self.rows + row as u64
        ))
    }

    /// The keys of rows, comparable as bytes.
    fn keys_of(&self, columns: &[ArrayRef]) -> Result<Rows> {
        let keys = self
            .keys
            .iter()
            .map(|(place, data_type)| {
                let column = normalize::exactly(&columns[*place], data_type)?;
                Ok(as_numbers(column))
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(self.converter.convert_columns(&keys)?)
    }
}

/// Floats, changed so that the order of their bits is that of the numbers: both zeros are equal, and so are all NaN,
/// which come last.
fn as_numbers(column: ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float32 => {
            let one_form = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
            Arc::new(
                column
                    .as_primitive::<Float32Type>()
                    .unary::<_, Float32Type>(one_form),
            )
        }
        DataType::Float64 => {
            let one_form = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
            Arc::new(
                column
                    .as_primitive::<Float64Type>()
                    .unary::<_, Float64Type>(one_form),
            )
        }
        DataType::Float16 => {
            let one_form = |value: f16| {
                if value.is_nan() {
                    f16::NAN
                } else if value == f16::NEG_ZERO {
                    f16::ZERO
                } else {
                    value
                }
            };
            Arc::new(
                column
                    .as_primitive::<Float16Type>()
                    .unary::<_, Float16Type>(one_form),
            )
        }
        _ => column,
    }
}

/// The rows of one row group before they are sorted.
#[derive(Default)]
pub(crate) struct Waiting {
    parts: Vec<KeyedRows>,
    pub rows: usize,
    bytes: usize,
}

/// Rows of one batch, copied, and the keys that they are ordered by.
struct KeyedRows {
    columns: Vec<ArrayRef>,
    keys: Rows,
}

impl Waiting {
    /// Memory that it holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes rows as they were given and as they are stored.
    pub fn take(
        &mut self,
        sorting: &Sorting,
        given: &[ArrayRef],
        stored: &[ArrayRef],
        carried: &SchemaRef,
    ) -> Result<()> {
        let columns = stored
            .iter()
            .zip(carried.fields())
            .map(|(column, field)| copied(&[&normalize::exactly(column, field.data_type())?]))
            .collect::<Result<Vec<_>>>()?;
        let keys = sorting.keys_of(given)?;
        self.rows += keys.num_rows();
        self.bytes += keys.size() + columns.iter().map(Array::get_buffer_memory_size).sum::<usize>();
        self.parts.push(KeyedRows { columns, keys });
        Ok(())
    }

    /// Calls `each` with all rows in order, some thousands at a time. Equal rows stay in the order in which they came.
    pub fn in_order(self, mut each: impl FnMut(&[ArrayRef], usize) -> Result<()>) -> Result<()> {
        let mut order: Vec<_> = self
            .parts
            .iter()
            .enumerate()
            .flat_map(|(part, rows)| (0..rows.keys.num_rows()).map(move |row| (part, row)))
            .collect();
        order.sort_by(|left, right| {
            let key = |(part, row): &(usize, usize)| self.parts[*part].keys.row(*row);
            key(left).cmp(&key(right))
        });
        let width = self.parts.first().map_or(0, |part| part.columns.len());
        for rows in order.chunks(ROWS_AT_A_TIME) {
            let gathered = (0..width).map(|column| {
                let parts: Vec<&dyn Array> = self
                    .parts
                    .iter()
                    .map(|part| part.columns[column].as_ref())
                    .collect();
                Ok(interleave(&parts, rows)?)
            });
            each(&gathered.collect::<Result<Vec<_>>>()?, rows.len())?;
        }
        Ok(())
    }
}

/// The field that a key names.
fn place(schema: &FileSchema, name: &str) -> Result<usize> {
    // Under the names of the rows. The types are those of the files.
    let fields = schema.declared.fields();
    let flat = |place: &usize| is_flat(schema.encoded.field(*place).data_type());
    let found = column_named("sorting_columns", fields, name)?;
    found.filter(flat).ok_or_else(|| {
        let names: Vec<_> = (0..fields.len())
            .filter(flat)
            .map(|place| format!("{:?}", fields[place].name()))
            .collect();
        WriteError::option(
            "sorting_columns",
            format!(
                "sorting_columns names {name:?}, which is not a flat column of the schema: choose among {}",
                names.join(", ")
            ),
        )
    })
}

/// The type that the keys of a column are compared in: one layout. Times of the last key are compared before their
/// conversion to the stored unit. Those of others are compared in that unit: rows whose times are rounded to the same
/// one follow each other by the next key.
fn compared_type(schema: &FileSchema, place: usize, is_last: bool) -> DataType {
    let compared = if is_last || schema.int96[place] {
        &schema.declared
    } else {
        &schema.stored
    };
    match crate::schema::plain(compared.field(place).data_type()) {
        time @ DataType::Timestamp(_, _) => time.clone(),
        _ => schema.encoded.field(place).data_type().clone(),
    }
}

fn declared(schema: &FileSchema, place: usize, key: &SortKey) -> Result<SortingColumn> {
    let before = schema.encoded.fields().iter().take(place);
    let leaf: usize = before.map(|field| leaves(field.data_type())).sum();
    let column_idx =
        i32::try_from(leaf).map_err(|error| WriteError::option("sorting_columns", error.to_string()))?;
    Ok(SortingColumn {
        column_idx,
        descending: key.descending,
        nulls_first: key.nulls_first,
    })
}
