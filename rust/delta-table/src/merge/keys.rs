//! Keys of rows as bytes, and source rows by their keys.

use std::collections::HashMap;

use arrow_array::{Array, ArrayRef};
use arrow_buffer::NullBuffer;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::ArrowError;

use crate::error::{Result, TableError};
use crate::schema::{ColumnType, TableColumn};
use crate::sql::plain;

use super::source::{MergeSource, SourceRow};

/// The conversion of key columns to bytes that are equal where keys are.
///
/// NaN equals NaN and -0.0 equals 0.0, as in Spark ("NaN Semantics" in its SQL reference).
pub(super) struct KeyConverter(RowConverter);

impl KeyConverter {
    /// # Errors
    /// [`TableError::Option`] when a column is nested.
    pub fn new(columns: &[TableColumn]) -> Result<Self> {
        let fields = columns.iter().map(|column| match &column.kind {
            ColumnType::Primitive(_) | ColumnType::Decimal(..) => Ok(SortField::new(column.kind.arrow())),
            ColumnType::Struct(_) | ColumnType::Array(..) | ColumnType::Map(..) => {
                let message = format!(
                    "on names the column {:?}, which is nested: keys are numbers, text, bytes, booleans, dates or \
                     timestamps",
                    column.name
                );
                Err(TableError::option("on", message))
            }
        });
        let fields = fields.collect::<Result<Vec<_>>>()?;
        RowConverter::new(fields)
            .map(Self)
            .map_err(|error| refused(&error))
    }

    /// The keys of rows, of which these are the key columns in the table's types.
    pub fn of(&self, columns: &[ArrayRef]) -> Result<RowKeys> {
        let columns: Vec<ArrayRef> = columns.iter().map(plain).collect();
        let nulls = NullBuffer::union_many(columns.iter().map(Array::nulls));
        let rows = self.0.convert_columns(&columns);
        let rows = rows.map_err(|error| refused(&error))?;
        Ok(RowKeys { rows, nulls })
    }
}

fn refused(error: &ArrowError) -> TableError {
    TableError::option("on", format!("the columns of on make no key: {error}"))
}

/// The keys of some rows.
pub(super) struct RowKeys {
    rows: Rows,
    nulls: Option<NullBuffer>,
}

impl RowKeys {
    /// The key of a row; none where it has a null.
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        let has_null = self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        (!has_null).then(|| self.rows.row(row).data())
    }
}

/// Source rows by their keys. Those of one key are a group.
pub(super) struct Groups {
    by_key: HashMap<Box<[u8]>, usize>,
    all: Vec<KeyRows>,
    /// The rows of groups behind the first ones.
    more: HashMap<usize, Vec<SourceRow>>,
    /// The group of each row, by batches; none for a row whose key has a null.
    of_rows: Vec<Vec<Option<usize>>>,
}

/// Source rows of one key.
struct KeyRows {
    first: SourceRow,
    is_matched: bool,
}

impl Groups {
    pub fn of(keys: &KeyConverter, source: &MergeSource, on: &[String]) -> Result<Self> {
        let mut groups = Self {
            by_key: HashMap::new(),
            all: Vec::new(),
            more: HashMap::new(),
            of_rows: Vec::new(),
        };
        for batch in 0..source.batches() {
            let keys = keys.of(&source.columns(batch, on)?)?;
            let rows = 0..source.rows_of(batch);
            let of_rows = rows.map(|row| keys.get(row).map(|key| groups.add(key, (batch, row))));
            let of_rows = of_rows.collect();
            groups.of_rows.push(of_rows);
        }
        Ok(groups)
    }

    fn add(&mut self, key: &[u8], row: SourceRow) -> usize {
        if let Some(group) = self.by_key.get(key).copied() {
            self.more.entry(group).or_default().push(row);
            return group;
        }
        let group = self.all.len();
        self.by_key.insert(key.into(), group);
        self.all.push(KeyRows {
            first: row,
            is_matched: false,
        });
        group
    }

    /// The group of a key.
    pub fn find(&self, key: &[u8]) -> Option<usize> {
        self.by_key.get(key).copied()
    }

    /// The rows of a group.
    pub fn rows(&self, group: usize) -> impl Iterator<Item = SourceRow> {
        let more = self.more.get(&group).map_or(&[][..], Vec::as_slice);
        std::iter::once(self.all[group].first).chain(more.iter().copied())
    }

    /// The number of rows of a group.
    pub fn count(&self, group: usize) -> usize {
        1 + self.more.get(&group).map_or(0, Vec::len)
    }

    /// The group of a row.
    pub fn of_row(&self, (batch, row): SourceRow) -> Option<usize> {
        self.of_rows[batch][row]
    }

    /// Notes that a row of the table has the key of a group.
    pub fn note_match(&mut self, group: usize) {
        self.all[group].is_matched = true;
    }

    /// The rows of a batch whose key no row of the table has.
    pub fn unmatched(&self, batch: usize) -> Vec<SourceRow> {
        let groups = self.of_rows[batch].iter().enumerate();
        let unmatched = groups.filter(|(_, group)| group.is_none_or(|group| !self.all[group].is_matched));
        unmatched.map(|(row, _)| (batch, row)).collect()
    }
}
