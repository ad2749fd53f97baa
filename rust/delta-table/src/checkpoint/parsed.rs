//! Statistics and partition values in checkpoint columns of their own types.
//!
//! `add.stats_parsed` repeats the text in `add.stats`, and `add.partitionValues_parsed` the texts in
//! `add.partitionValues`. A table's properties choose the form of the statistics.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, BooleanArray, StringArray, StructArray, TimestampMicrosecondArray};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_cast::{CastOptions, cast, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use delta_commit::actions::Add;
use delta_commit::time::parse_bound;
use serde_json::Value;

use crate::error::{Result, TableError};
use crate::schema::{ColumnType, Primitive, TableColumn};
use crate::snapshot::Snapshot;
use crate::stats::{bound_moment, date, div_ceil, field};
use crate::stats_columns::StatsColumns;

/// The column of statistics.
pub(crate) const STATS: &str = "stats_parsed";

/// The column of partition values.
pub(crate) const PARTITION_VALUES: &str = "partitionValues_parsed";

const LOWER: &str = "minValues";
const UPPER: &str = "maxValues";

/// The columns in which a checkpoint has statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Forms {
    /// As text.
    pub json: bool,
    /// As structs.
    pub parsed: bool,
}

impl Forms {
    /// The forms that the table's properties ask for. Where they do not mention structs, structs are written exactly
    /// when text is not, as Spark does: statistics must be somewhere.
    pub fn of(snapshot: &Snapshot) -> Self {
        let property = |name| {
            snapshot
                .property(name)
                .map(|text| text.eq_ignore_ascii_case("true"))
        };
        let json = property("delta.checkpoint.writeStatsAsJson").unwrap_or(true);
        let parsed = property("delta.checkpoint.writeStatsAsStruct").unwrap_or(!json);
        Self { json, parsed }
    }
}

/// The statistics of each row as text.
pub(crate) fn stats_texts(stats: &StructArray) -> Result<Vec<Option<String>>, ArrowError> {
    objects(stats, "")
}

/// The rows of a struct as JSON objects, those without fields left out.
fn objects(rows: &StructArray, of: &str) -> Result<Vec<Option<String>>, ArrowError> {
    let mut objects = vec![String::new(); rows.len()];
    for (column, values) in rows.fields().iter().zip(rows.columns()) {
        let of = if of.is_empty() { column.name() } else { of };
        for (object, text) in objects.iter_mut().zip(texts(values, of)?) {
            field(object, column.name(), text);
        }
    }
    let all = objects.into_iter().enumerate().map(|(row, object)| {
        let there = rows.is_valid(row) && !object.is_empty();
        there.then(|| format!("{{{object}}}"))
    });
    Ok(all.collect())
}

/// Values as JSON.
fn texts(values: &ArrayRef, of: &str) -> Result<Vec<Option<String>>, ArrowError> {
    let rows = 0..values.len();
    let there = |row: &usize| values.is_valid(*row);
    Ok(match values.data_type() {
        DataType::Struct(_) => return objects(values.as_struct(), of),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let values = cast(values, &DataType::Utf8)?;
            let values = values.as_string::<i32>();
            let texts = values.iter().map(|text| Some(Value::from(text?).to_string()));
            texts.collect()
        }
        DataType::Date32 => {
            let days = values.as_primitive::<Date32Type>();
            days.iter().map(|days| date(i64::from(days?))).collect()
        }
        DataType::Timestamp(_, zone) => {
            let zone = zone.as_ref().map_or("", |_| "Z");
            let micros = DataType::Timestamp(TimeUnit::Microsecond, zone_of(zone));
            let values = cast(values, &micros)?;
            let micros = values.as_primitive::<TimestampMicrosecondType>();
            let texts = micros.iter().map(|micros| {
                let micros = i128::from(micros?);
                let to_millis = if of == UPPER { div_ceil } else { i128::div_euclid };
                bound_moment(micros, zone, to_millis)
            });
            texts.collect()
        }
        // As other writers' text has it: the digits of single precision mean another number in double precision.
        DataType::Float32 => return texts(&cast(values, &DataType::Float64)?, of),
        numbers if numbers.is_numeric() || *numbers == DataType::Boolean => {
            let options = FormatOptions::default();
            let formatter = ArrayFormatter::try_new(values, &options)?;
            let text = |row: usize| {
                let text = formatter.value(row).to_string();
                // JSON has neither NaN nor infinity.
                serde_json::from_str::<Value>(&text).is_ok().then_some(text)
            };
            rows.map(|row| Some(row).filter(there).and_then(text)).collect()
        }
        // The protocol has no statistics of other types.
        _ => vec![None; values.len()],
    })
}

fn zone_of(suffix: &str) -> Option<Arc<str>> {
    (!suffix.is_empty()).then(|| "UTC".into())
}

/// The columns of statistics and partition values for the files of one checkpoint.
pub(crate) struct Parsed {
    stats: SchemaRef,
    partitions: Vec<TableColumn>,
}

impl Parsed {
    /// # Errors
    /// When it cannot be understood of which columns the table wants statistics.
    pub fn of(snapshot: &Snapshot) -> Result<Self> {
        let by = &snapshot.metadata.partition_columns;
        let partitions = by.iter().filter_map(|name| snapshot.schema.column(name)).cloned();
        let partitions: Vec<TableColumn> = partitions.collect();
        Ok(Self {
            stats: Arc::new(stats_schema(snapshot)?),
            partitions: snapshot.mapping.stored_columns(&partitions),
        })
    }

    /// The columns' fields.
    pub fn fields(&self) -> Vec<Field> {
        let mut fields = vec![Field::new(
            STATS,
            DataType::Struct(self.stats.fields().clone()),
            true,
        )];
        if !self.partitions.is_empty() {
            let partitions = DataType::Struct(self.partition_fields());
            fields.push(Field::new(PARTITION_VALUES, partitions, true));
        }
        fields
    }

    /// The columns' values for some rows, not all of which are files.
    ///
    /// # Errors
    /// When a partition value is none of its column's type.
    pub fn columns(&self, adds: &[Option<&Add>]) -> Result<Vec<ArrayRef>> {
        let mut columns = vec![self.stats(adds)?];
        if !self.partitions.is_empty() {
            columns.push(self.partition_values(adds)?);
        }
        Ok(columns)
    }

    fn stats(&self, adds: &[Option<&Add>]) -> Result<ArrayRef> {
        let texts: Vec<Option<&str>> = adds.iter().map(|add| add.as_ref()?.stats.as_deref()).collect();
        let parsed = match self.parse(&texts) {
            Ok(parsed) => parsed,
            // Another writer's statistics are not what the protocol asks for: only of those nothing is known.
            Err(_) => self
                .parse(&self.sound(&texts))
                .map_err(|error| malformed(&error))?,
        };
        Ok(Arc::new(parsed))
    }

    fn sound<'a>(&self, texts: &[Option<&'a str>]) -> Vec<Option<&'a str>> {
        let sound = |text: &&str| self.parse(&[Some(*text)]).is_ok();
        texts.iter().map(|text| text.filter(sound)).collect()
    }

    fn parse(&self, texts: &[Option<&str>]) -> Result<StructArray, ArrowError> {
        let schema = Schema::new(as_texts(self.stats.fields()));
        let mut decoder = arrow_json::ReaderBuilder::new(Arc::new(schema))
            .with_batch_size(texts.len() + 1)
            .build_decoder()?;
        for text in texts {
            decoder.decode(text.unwrap_or("{}").as_bytes())?;
            decoder.decode(b"\n")?;
        }
        let rows = match decoder.flush()? {
            Some(batch) if batch.num_rows() == texts.len() => StructArray::from(batch),
            _ => return Err(ArrowError::JsonError("not one object a file".to_owned())),
        };
        let (_, columns, _) = with_moments(&rows, self.stats.fields(), "")?.into_parts();
        StructArray::try_new(
            self.stats.fields().clone(),
            columns,
            there(texts).nulls().cloned(),
        )
    }

    fn partition_fields(&self) -> Fields {
        let columns = self.partitions.iter();
        columns.map(|column| column.arrow().with_nullable(true)).collect()
    }

    fn partition_values(&self, adds: &[Option<&Add>]) -> Result<ArrayRef> {
        let columns = self.partitions.iter().map(|column| {
            let texts = adds
                .iter()
                .map(|add| add.as_ref()?.partition_values.get(&column.name)?)
                .map(|text| text.filter(|text| !text.is_empty() || column.kind.has_empty()));
            typed(&texts.collect(), &column.kind).map_err(|error| {
                TableError::Malformed(format!(
                    "the partition column {:?} has a value that is none of its type: {error}",
                    column.name
                ))
            })
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let there = there(adds).nulls().cloned();
        let columns = StructArray::try_new(self.partition_fields(), columns, there)
            .map_err(|error| malformed(&error))?;
        Ok(Arc::new(columns))
    }
}

/// The validity of rows, as the nulls of an array.
fn there<T>(rows: &[Option<T>]) -> BooleanArray {
    rows.iter().map(|row| row.is_some().then_some(true)).collect()
}

fn malformed(error: &ArrowError) -> TableError {
    TableError::Malformed(format!("the checkpoint cannot be written: {error}"))
}

/// Partition values in their own type.
fn typed(texts: &StringArray, kind: &ColumnType) -> Result<ArrayRef, ArrowError> {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    match kind.arrow() {
        zoned @ DataType::Timestamp(unit, Some(_)) => {
            let by_offset = DataType::Timestamp(unit, Some("+00:00".into()));
            cast(&cast_with_options(texts, &by_offset, &options)?, &zoned)
        }
        plain => cast_with_options(texts, &plain, &options),
    }
}

/// The types that statistics are parsed to first: timestamps with a time zone are texts, since they may stand for other
/// moments than they say.
fn as_texts(fields: &Fields) -> Fields {
    let fields = fields.iter().map(|field| {
        let data_type = match field.data_type() {
            DataType::Timestamp(_, Some(_)) => DataType::Utf8,
            DataType::Struct(fields) => DataType::Struct(as_texts(fields)),
            other => other.clone(),
        };
        field.as_ref().clone().with_data_type(data_type)
    });
    fields.collect()
}

/// The statistics in their own types, of which timestamps with a time zone are texts. `of` is the name of the bounds
/// that these fields are of.
fn with_moments(rows: &StructArray, fields: &Fields, of: &str) -> Result<StructArray, ArrowError> {
    let columns = rows.columns().iter().zip(fields).map(|(column, field)| {
        let of = if of.is_empty() { field.name() } else { of };
        Ok(match field.data_type() {
            DataType::Struct(fields) => Arc::new(with_moments(column.as_struct(), fields, of)?) as ArrayRef,
            DataType::Timestamp(_, Some(_)) => {
                let moments = column.as_string::<i32>().iter().map(|text| {
                    let (first, last) = parse_bound(text?)?;
                    Some(if of == UPPER { last } else { first })
                });
                let moments: TimestampMicrosecondArray = moments.collect();
                cast(&moments.with_timezone("+00:00"), field.data_type())?
            }
            _ => Arc::clone(column),
        })
    });
    let columns = columns.collect::<Result<_, ArrowError>>()?;
    StructArray::try_new_with_length(fields.clone(), columns, rows.nulls().cloned(), rows.len())
}

/// The types of a table's statistics: those of the columns that its properties choose, and of columns that files have
/// statistics for.
fn stats_schema(snapshot: &Snapshot) -> Result<Schema> {
    let indexed = StatsColumns::of(snapshot, &snapshot.schema)?;
    let met = Met::of(snapshot);
    let partitions = &snapshot.metadata.partition_columns;
    let columns = snapshot.schema.columns.iter();
    let columns = columns.filter(|column| !partitions.contains(&column.name));
    let columns: Vec<TableColumn> = columns.cloned().collect();
    let columns = snapshot.mapping.stored_columns(&columns);
    let tree = |wanted: ParsedTypeOf<'_>| {
        let mut leaf = 0;
        let fields: Fields = columns
            .iter()
            .filter_map(|column| stats_field(column, &mut Vec::new(), &mut leaf, wanted))
            .collect();
        fields
    };
    let nulls = tree(&|leaf, path, _| (indexed.has(leaf) || met.nulls(path)).then_some(DataType::Int64));
    let bounds = tree(&|leaf, path, kind| {
        let wanted = (indexed.has(leaf) && has_bounds(kind)) || (met.bounds(path) && is_plain(kind));
        wanted.then(|| kind.arrow())
    });
    let mut fields = vec![Field::new("numRecords", DataType::Int64, true)];
    for (name, columns) in [("nullCount", nulls), (LOWER, bounds.clone()), (UPPER, bounds)] {
        if !columns.is_empty() {
            fields.push(Field::new(name, DataType::Struct(columns), true));
        }
    }
    fields.push(Field::new("tightBounds", DataType::Boolean, true));
    Ok(Schema::new(fields))
}

/// A function from a leaf column's number, path and type to the type that it gets; none where it is left out.
type ParsedTypeOf<'a> = &'a dyn Fn(usize, &[&str], &ColumnType) -> Option<DataType>;

/// A column with the leaves that are wanted; none without any.
fn stats_field<'a>(
    column: &'a TableColumn,
    path: &mut Vec<&'a str>,
    leaf: &mut usize,
    wanted: ParsedTypeOf<'_>,
) -> Option<Field> {
    path.push(&column.name);
    let data_type = if let ColumnType::Struct(columns) = &column.kind {
        let fields = columns
            .iter()
            .filter_map(|column| stats_field(column, path, leaf, wanted));
        let fields: Fields = fields.collect();
        (!fields.is_empty()).then_some(DataType::Struct(fields))
    } else {
        *leaf += 1;
        wanted(*leaf - 1, path, &column.kind)
    };
    path.pop();
    Some(Field::new(&column.name, data_type?, true))
}

/// Returns true if the protocol defines bounds for a type.
fn has_bounds(kind: &ColumnType) -> bool {
    is_plain(kind) && *kind != ColumnType::Primitive(Primitive::Boolean)
}

/// Returns true if other writers may write bounds for a type.
fn is_plain(kind: &ColumnType) -> bool {
    match kind {
        ColumnType::Primitive(primitive) => *primitive != Primitive::Binary,
        ColumnType::Decimal(..) => true,
        ColumnType::Struct(_) | ColumnType::Array(..) | ColumnType::Map(..) => false,
    }
}

/// Columns that some file has statistics for, whatever the table's properties say.
#[derive(Default)]
struct Met {
    nulls: BTreeSet<Vec<String>>,
    bounds: BTreeSet<Vec<String>>,
}

impl Met {
    fn of(snapshot: &Snapshot) -> Self {
        let mut met = Self::default();
        for add in snapshot.files() {
            let stats = add
                .stats
                .as_deref()
                .and_then(|text| serde_json::from_str::<Value>(text).ok());
            let Some(stats) = stats else { continue };
            note(stats.get("nullCount"), &mut Vec::new(), &mut met.nulls);
            for name in [LOWER, UPPER] {
                note(stats.get(name), &mut Vec::new(), &mut met.bounds);
            }
        }
        met
    }

    fn nulls(&self, path: &[&str]) -> bool {
        has(&self.nulls, path)
    }

    fn bounds(&self, path: &[&str]) -> bool {
        has(&self.bounds, path)
    }
}

fn has(columns: &BTreeSet<Vec<String>>, path: &[&str]) -> bool {
    columns.contains(&path.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
}

fn note(value: Option<&Value>, path: &mut Vec<String>, columns: &mut BTreeSet<Vec<String>>) {
    match value {
        Some(Value::Object(fields)) => {
            for (name, value) in fields {
                path.push(name.clone());
                note(Some(value), path, columns);
                path.pop();
            }
        }
        Some(Value::Null) | None => {}
        Some(_) if columns.contains(path) => {}
        Some(_) => {
            columns.insert(path.clone());
        }
    }
}
