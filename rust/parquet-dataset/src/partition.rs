//! Partitioning: splits batches by the values of their partition columns.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, UInt32Array};
use arrow_cast::cast;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{DataType, Schema, SchemaRef};
use arrow_select::take::take;
use parquet_writer::{Batch, WriteError, column_named};

use crate::hive;

/// The number of rows that are split together. State per row costs memory.
pub(crate) const WINDOW_ROWS: usize = 1 << 18;

/// The place that readers take the values of the partition columns from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValuesIn {
    /// From the names of the folders, as Hive does. A text that no name stands for is refused.
    Folders {
        /// The most bytes of a folder's name.
        longest_name: usize,
    },
    /// From a table's log, which has every value as text. Folders are only where the files are, and partitions may
    /// share one.
    Log,
}

/// One combination of values of the partition columns.
#[derive(Debug, Clone)]
pub(crate) struct Partition {
    /// The folder below the dataset's own.
    pub folder: PathBuf,
    /// Columns and values, in the form that the result has.
    pub values: Vec<(String, Option<String>)>,
}

/// The rows of a batch that belong to one partition.
#[derive(Debug)]
pub(crate) struct PartitionRows {
    /// The partition, by its number.
    pub partition: usize,
    rows: Selection,
}

#[derive(Debug)]
enum Selection {
    Range(Range<usize>),
    Picked(Vec<u32>),
}

impl PartitionRows {
    /// Returns true if its rows lie together, so that they need not be copied.
    pub fn is_range(&self) -> bool {
        matches!(self.rows, Selection::Range(_))
    }
}

/// The partition columns of a schema, and every partition met so far.
pub(crate) struct Partitioner {
    keys: Vec<PartitionKey>,
    rest: Vec<usize>,
    /// The schema of the files.
    stored: SchemaRef,
    converter: Option<RowConverter>,
    numbers: HashMap<Box<[u8]>, usize>,
    /// The partition of each combination of values as text. Different values may have one text: null and the empty
    /// string do, and so does every NaN.
    by_values: HashMap<Vec<Option<String>>, usize>,
    partitions: Vec<Partition>,
    values_in: ValuesIn,
}

struct PartitionKey {
    name: String,
    column: usize,
    /// One layout for all layouts of a type, so that equal values have equal bytes.
    data_type: DataType,
}

impl Partitioner {
    /// # Errors
    /// [`WriteError::Option`] when a column is not there, cannot name folders, or none is left for the files.
    pub fn new(schema: &SchemaRef, columns: &[String], values_in: ValuesIn) -> Result<Self, WriteError> {
        let keys = columns
            .iter()
            .map(|name| key(schema, name, values_in))
            .collect::<Result<Vec<_>, _>>()?;
        let rest: Vec<_> = (0..schema.fields().len())
            .filter(|index| keys.iter().all(|key| key.column != *index))
            .collect();
        if rest.is_empty() && !keys.is_empty() {
            return Err(WriteError::option(
                "partition_by",
                "partition_by names every column, so that none is left for the files: leave one out",
            ));
        }
        let fields: Vec<_> = rest
            .iter()
            .map(|&index| Arc::clone(&schema.fields()[index]))
            .collect();
        let sort = keys.iter().map(|key| SortField::new(key.data_type.clone()));
        let converter = (!keys.is_empty())
            .then(|| RowConverter::new(sort.collect()))
            .transpose()?;
        Ok(Self {
            stored: Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())),
            keys,
            rest,
            converter,
            numbers: HashMap::new(),
            by_values: HashMap::new(),
            partitions: Vec::new(),
            values_in,
        })
    }

    /// Takes a schema to which columns were added at the end, or whose other columns have other types. Those met so far
    /// keep their places.
    pub fn renew(&mut self, schema: &Schema, stored: &SchemaRef) {
        let is_key = |index: &usize| self.keys.iter().any(|key| key.column == *index);
        self.rest = (0..schema.fields().len())
            .filter(|index| !is_key(index))
            .collect();
        self.stored = Arc::clone(stored);
    }

    pub fn partition(&self, number: usize) -> &Partition {
        &self.partitions[number]
    }

    /// Splits a batch into shares, in the order of their first rows.
    ///
    /// # Errors
    /// [`WriteError::Schema`] when a value cannot name a folder; then no partition was noted.
    pub fn split(&mut self, batch: &Batch) -> Result<Vec<PartitionRows>, WriteError> {
        let Some(converter) = &self.converter else {
            return Ok(vec![PartitionRows {
                partition: self.number(&[], &[], 0)?,
                rows: Selection::Range(0..batch.rows()),
            }]);
        };
        let columns = self
            .keys
            .iter()
            .map(|key| Ok(cast(&batch.columns()[key.column], &key.data_type)?))
            .collect::<Result<Vec<_>, WriteError>>()?;
        let rows = converter.convert_columns(&columns)?;
        let runs = runs(&rows);
        let mut numbers = Vec::with_capacity(runs.len());
        for run in &runs {
            numbers.push(self.number(rows.row(run.start).data(), &columns, run.start)?);
        }
        Ok(shares(runs, &numbers))
    }

    /// Selects the rows and columns of a share that its partition's files store. Rows that lie together are not copied.
    ///
    /// # Errors
    /// When an array cannot be taken apart.
    pub fn stored_rows(&self, batch: &Batch, share: &PartitionRows) -> Result<Batch, WriteError> {
        let columns = self.rest.iter().map(|&index| &batch.columns()[index]);
        match &share.rows {
            Selection::Range(range) => {
                let columns = columns.map(|column| column.slice(range.start, range.len()));
                self.batch(columns.collect(), range.len())
            }
            Selection::Picked(rows) => {
                let picked = UInt32Array::from(rows.clone());
                let columns = columns.map(|column| take(column, &picked, None));
                self.batch(columns.collect::<Result<_, _>>()?, rows.len())
            }
        }
    }

    /// The number of the single partition that a dataset without partition columns has.
    pub fn whole(&mut self) -> Result<usize, WriteError> {
        self.number(&[], &[], 0)
    }

    fn batch(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<Batch, WriteError> {
        // The types are those of the batch, which may be other layouts than the schema's.
        let fields = self.stored.fields().iter().zip(&columns).map(|(field, column)| {
            if field.data_type() == column.data_type() {
                Arc::clone(field)
            } else {
                Arc::new(field.as_ref().clone().with_data_type(column.data_type().clone()))
            }
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Batch::new(schema, columns, rows)
    }

    /// The number of the partition with this key. `columns` hold its values at `row`.
    fn number(&mut self, key: &[u8], columns: &[ArrayRef], row: usize) -> Result<usize, WriteError> {
        if let Some(number) = self.numbers.get(key) {
            return Ok(*number);
        }
        let mut values = Vec::with_capacity(columns.len());
        for (key, column) in self.keys.iter().zip(columns) {
            let value = hive::text(&key.name, column, row)?.filter(|value| !value.is_empty());
            if let ValuesIn::Folders { longest_name } = self.values_in {
                hive::check(&key.name, value.as_deref(), longest_name)?;
            }
            values.push(value);
        }
        let next = self.partitions.len();
        let number = *self.by_values.entry(values.clone()).or_insert(next);
        if number == next {
            self.partitions.push(self.partition_of(values));
        }
        self.numbers.insert(key.into(), number);
        Ok(number)
    }

    /// The partition with these values, in the order of the partition columns.
    fn partition_of(&self, values: Vec<Option<String>>) -> Partition {
        let names = self.keys.iter().map(|key| &key.name);
        let values: Vec<_> = names.cloned().zip(values).collect();
        let folders = values
            .iter()
            .map(|(name, value)| hive::folder(name, value.as_deref()));
        Partition {
            folder: folders.collect(),
            values,
        }
    }
}

fn key(schema: &Schema, name: &str, values_in: ValuesIn) -> Result<PartitionKey, WriteError> {
    if name.starts_with('.') && values_in != ValuesIn::Log {
        return Err(WriteError::option(
            "partition_by",
            format!(
                "partition_by names {name:?}: readers pass over folders whose names begin with a dot. Rename the column"
            ),
        ));
    }
    let Some(column) = column_named("partition_by", schema.fields(), name)? else {
        let names: Vec<_> = schema
            .fields()
            .iter()
            .map(|field| format!("{:?}", field.name()))
            .collect();
        return Err(WriteError::option(
            "partition_by",
            format!(
                "partition_by names {name:?}, which the schema does not have: its columns are {}",
                names.join(", ")
            ),
        ));
    };
    let field = schema.field(column);
    let data_type = comparable(field.data_type());
    if hive::can_name(&data_type) {
        return Ok(PartitionKey {
            name: name.into(),
            column,
            data_type,
        });
    }
    Err(WriteError::option(
        "partition_by",
        format!(
            "partition_by names {name:?}, which is {}: folders can be named after integers, floats, booleans, strings, \
         dates, timestamps and decimals",
            field.data_type()
        ),
    ))
}

/// The layout in which values of a type are compared.
fn comparable(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => comparable(values),
        DataType::RunEndEncoded(_, values) => comparable(values.data_type()),
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        other => other.clone(),
    }
}

/// Stretches of rows with equal keys.
fn runs(rows: &Rows) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let mut start = 0;
    for row in 1..rows.num_rows() {
        if rows.row(row) != rows.row(start) {
            runs.push(start..row);
            start = row;
        }
    }
    if rows.num_rows() > 0 {
        runs.push(start..rows.num_rows());
    }
    runs
}

/// Groups runs of rows by partition, in the order of their first rows.
fn shares(runs: Vec<Range<usize>>, numbers: &[usize]) -> Vec<PartitionRows> {
    let mut places: HashMap<usize, usize> = HashMap::new();
    let mut shares: Vec<PartitionRows> = Vec::new();
    for (run, &partition) in runs.into_iter().zip(numbers) {
        let place = *places.entry(partition).or_insert(shares.len());
        match shares.get_mut(place) {
            Some(share) => share.rows.add(run),
            None => shares.push(PartitionRows {
                partition,
                rows: Selection::Range(run),
            }),
        }
    }
    shares
}

impl Selection {
    fn add(&mut self, run: Range<usize>) {
        if let Self::Range(range) = self {
            *self = Self::Picked(indices(range.clone()).collect());
        }
        if let Self::Picked(picked) = self {
            picked.extend(indices(run));
        }
    }
}

/// A window has far fewer rows than 2³².
#[expect(clippy::cast_possible_truncation, reason = "the window bounds it")]
fn indices(range: Range<usize>) -> impl Iterator<Item = u32> {
    range.map(|row| row as u32)
}
