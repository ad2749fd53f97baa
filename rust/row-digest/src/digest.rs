//! The digest of a table, made batch by batch and merged in any order.

use arrow_array::{Array, Int64Array, RecordBatch};
use arrow_schema::Schema;

use crate::cells::hash_cells;
use crate::error::Error;
use crate::extremes::{Value, extremes};
use crate::mixing::{NULL, ROW, fold, mix};
use crate::types::type_name;

/// The digest of one column. Two columns hold the same values, up to order, when these are equal.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDigest {
    /// Name in the schema.
    pub name: String,
    /// Logical type, the same for every physical form.
    pub type_name: String,
    /// Values that are not null.
    pub values: u64,
    /// Nulls.
    pub nulls: u64,
    /// Smallest value; `None` for nested types and where all is null or NaN.
    pub min: Option<Value>,
    /// Largest value.
    pub max: Option<Value>,
    /// Sum of the cells of all values, nulls left out.
    pub checksum: u128,
}

/// The digest of some rows. Equal digests mean equal rows in equal order.
#[derive(Clone, Debug, PartialEq)]
pub struct Digest {
    pub(crate) rows: u64,
    pub(crate) columns: Vec<ColumnDigest>,
    pub(crate) row_sum: u128,
    pub(crate) sequence_sum: u128,
}

/// The positions of a batch's rows in their table.
#[derive(Clone, Copy, Debug)]
pub enum Positions<'a> {
    /// Row after row from this 0-based position.
    From(u64),
    /// The position of each row.
    At(&'a Int64Array),
}

impl Digest {
    /// The digest of no rows.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if a column's type has no canonical encoding.
    pub fn new(schema: &Schema) -> Result<Self, Error> {
        let column = |field: &arrow_schema::FieldRef| {
            Ok(ColumnDigest {
                name: field.name().clone(),
                type_name: type_name(field.data_type())?,
                values: 0,
                nulls: 0,
                min: None,
                max: None,
                checksum: 0,
            })
        };
        let columns = schema.fields().iter().map(column).collect::<Result<_, Error>>()?;
        Ok(Self {
            rows: 0,
            columns,
            row_sum: 0,
            sequence_sum: 0,
        })
    }

    /// Adds the rows of `batch`, which have these positions.
    ///
    /// # Errors
    /// [`Error::ColumnsDiffer`] if the batch has other names or logical types; [`Error::Positions`] if there is not
    /// one position per row. The digest is then as it was.
    pub fn update(&mut self, batch: &RecordBatch, positions: Positions<'_>) -> Result<(), Error> {
        let mut part = Self::new(&batch.schema())?;
        self.check_columns(&part)?;
        check_positions(positions, batch.num_rows())?;
        part.rows = batch.num_rows() as u64;
        let mut rows = vec![ROW; batch.num_rows()];
        let mut cells = Vec::new();
        for (column, array) in part.columns.iter_mut().zip(batch.columns()) {
            hash_cells(array.as_ref(), &mut cells)?;
            fold_column(&mut rows, &cells);
            column.add(array.as_ref(), &cells)?;
        }
        part.add_rows(&rows, positions);
        self.merge(&part)
    }

    /// Adds the rows of another digest.
    ///
    /// # Errors
    /// [`Error::ColumnsDiffer`] if names or logical types differ.
    pub fn merge(&mut self, other: &Self) -> Result<(), Error> {
        self.check_columns(other)?;
        self.rows += other.rows;
        self.row_sum = self.row_sum.wrapping_add(other.row_sum);
        self.sequence_sum = self.sequence_sum.wrapping_add(other.sequence_sum);
        for (mine, theirs) in self.columns.iter_mut().zip(&other.columns) {
            mine.merge(theirs);
        }
        Ok(())
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The columns in order.
    #[must_use]
    pub fn columns(&self) -> &[ColumnDigest] {
        &self.columns
    }

    /// A checksum of whole rows, independent of their order.
    #[must_use]
    pub fn row_sum(&self) -> u128 {
        self.row_sum
    }

    /// A checksum of whole rows and their positions.
    #[must_use]
    pub fn sequence_sum(&self) -> u128 {
        self.sequence_sum
    }

    fn add_rows(&mut self, rows: &[u64], positions: Positions<'_>) {
        for (index, row) in rows.iter().enumerate() {
            let row = mix(*row);
            let position = match positions {
                Positions::From(first) => first + index as u64,
                Positions::At(array) => array.value(index).cast_unsigned(),
            };
            self.row_sum = self.row_sum.wrapping_add(row.into());
            self.sequence_sum = self.sequence_sum.wrapping_add(mix(row ^ mix(position)).into());
        }
    }

    fn check_columns(&self, other: &Self) -> Result<(), Error> {
        let same = self.columns.len() == other.columns.len()
            && self
                .columns
                .iter()
                .zip(&other.columns)
                .all(|(a, b)| a.name == b.name && a.type_name == b.type_name);
        if same {
            Ok(())
        } else {
            Err(Error::ColumnsDiffer {
                expected: self.describe(),
                actual: other.describe(),
            })
        }
    }

    fn describe(&self) -> String {
        let columns: Vec<_> = self
            .columns
            .iter()
            .map(|c| format!("{}: {}", c.name, c.type_name))
            .collect();
        columns.join(", ")
    }
}

/// The hash of every row of `batch`. Equal rows have equal hashes, whatever their positions.
///
/// # Errors
/// [`Error::Unsupported`] if a column's type has no canonical encoding.
pub fn row_hashes(batch: &RecordBatch) -> Result<Vec<u64>, Error> {
    let mut rows = vec![ROW; batch.num_rows()];
    let mut cells = Vec::new();
    for array in batch.columns() {
        hash_cells(array.as_ref(), &mut cells)?;
        fold_column(&mut rows, &cells);
    }
    for row in &mut rows {
        *row = mix(*row);
    }
    Ok(rows)
}

fn fold_column(rows: &mut [u64], cells: &[u64]) {
    for (row, cell) in rows.iter_mut().zip(cells) {
        *row = fold(*row, *cell);
    }
}

fn check_positions(positions: Positions<'_>, rows: usize) -> Result<(), Error> {
    match positions {
        Positions::At(array) if array.len() != rows || array.null_count() > 0 => Err(Error::Positions {
            positions: array.len() - array.null_count(),
            rows,
        }),
        _ => Ok(()),
    }
}

impl ColumnDigest {
    fn add(&mut self, array: &dyn Array, cells: &[u64]) -> Result<(), Error> {
        // Logical nulls: a dictionary may hold them among its values.
        let nulls = array.logical_null_count() as u64;
        let sum = cells
            .iter()
            .fold(0_u128, |sum, cell| sum.wrapping_add(u128::from(*cell)));
        self.nulls = nulls;
        self.values = cells.len() as u64 - nulls;
        self.checksum = sum.wrapping_sub(u128::from(NULL).wrapping_mul(u128::from(nulls)));
        (self.min, self.max) = extremes(array)?.unzip();
        Ok(())
    }

    fn merge(&mut self, other: &Self) {
        self.values += other.values;
        self.nulls += other.nulls;
        self.checksum = self.checksum.wrapping_add(other.checksum);
        keep(&mut self.min, other.min.as_ref(), |mine, theirs| {
            theirs.order(mine).is_lt()
        });
        keep(&mut self.max, other.max.as_ref(), |mine, theirs| {
            theirs.order(mine).is_gt()
        });
    }
}

fn keep(mine: &mut Option<Value>, theirs: Option<&Value>, better: impl Fn(&Value, &Value) -> bool) {
    if let Some(theirs) = theirs
        && mine.as_ref().is_none_or(|mine| better(mine, theirs))
    {
        *mine = Some(theirs.clone());
    }
}
