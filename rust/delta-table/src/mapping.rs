//! Column mapping: the names and ids by which files and the log have a table's columns.
//!
//! The rules are those of "Column Mapping" in Delta's PROTOCOL.md.

mod assigned;
mod written;

use std::borrow::Cow;
use std::collections::HashSet;

use arrow_schema::{DataType, Field, Fields};
use delta_commit::actions::{Add, Metadata, Protocol};
use delta_commit::schema::{SchemaFacts, check_mapped_schema, check_schema};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;
use serde_json::{Map, Value};

use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::schema::{ColumnType, TableColumn};

pub(crate) use assigned::with_mapping;

/// The table property that says how columns are found.
pub(crate) const MODE: &str = "delta.columnMapping.mode";

pub(crate) const FEATURE: &str = "columnMapping";
const PHYSICAL_NAME: &str = "delta.columnMapping.physicalName";
const ID: &str = "delta.columnMapping.id";

/// The fields of statistics that name columns.
const OF_COLUMNS: [&str; 3] = ["minValues", "maxValues", "nullCount"];

/// The way in which a table's columns are found in its files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mapping {
    /// By their names. The log has them under their names too.
    #[default]
    None,
    /// By their physical names.
    Name,
    /// By their ids.
    Id,
}

/// The name of the column, or of a field below it, for which several fields may stand.
fn doubtful<'a>(fields: &Fields, column: &'a TableColumn) -> Option<&'a str> {
    match Mapping::None.place(fields, column) {
        Some(place) => doubtful_below(fields[place].data_type(), &column.kind),
        None => (alike(fields, &column.name).len() > 1).then_some(column.name.as_str()),
    }
}

fn doubtful_below<'a>(found: &DataType, kind: &'a ColumnType) -> Option<&'a str> {
    match (found, kind) {
        (DataType::Struct(fields), ColumnType::Struct(columns)) => {
            columns.iter().find_map(|column| doubtful(fields, column))
        }
        (DataType::List(element) | DataType::LargeList(element), ColumnType::Array(kind, _)) => {
            doubtful_below(element.data_type(), kind)
        }
        (DataType::Map(entries, _), ColumnType::Map(key, value, _)) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => doubtful_below(fields[0].data_type(), key)
                .or_else(|| doubtful_below(fields[1].data_type(), value)),
            _ => None,
        },
        _ => None,
    }
}

/// The places of fields whose names are this one, regardless of case.
fn alike(fields: &Fields, name: &str) -> Vec<usize> {
    let name = name.to_lowercase();
    let places = fields.iter().enumerate();
    let places = places.filter(|(_, field)| field.name().to_lowercase() == name);
    places.map(|(place, _)| place).collect()
}

impl Mapping {
    /// The mapping of a table. The property counts only where the protocol lets readers know of it.
    ///
    /// # Errors
    /// [`delta_commit::CommitError::Unsupported`] when there is no such mode.
    pub(crate) fn of(protocol: &Protocol, metadata: &Metadata) -> Result<Self> {
        let Some(mode) = metadata.configuration.get(MODE).filter(|_| allows(protocol)) else {
            return Ok(Self::None);
        };
        match mode.to_ascii_lowercase().as_str() {
            "none" => Ok(Self::None),
            "name" => Ok(Self::Name),
            "id" => Ok(Self::Id),
            _ => Err(TableError::unsupported(format!(
                "the table has the feature columnMapping with {MODE}={mode:?}; known are none, name and id"
            ))),
        }
    }

    /// Checks the names and types of a schema. With a mapping its names may hold any character.
    ///
    /// # Errors
    /// [`delta_commit::CommitError::Schema`] names the column.
    pub(crate) fn check_schema(self, schema: &str) -> Result<SchemaFacts> {
        Ok(match self {
            Self::None => check_schema(schema)?,
            Self::Name | Self::Id => check_mapped_schema(schema)?,
        })
    }

    /// Checks that columns at all depths have what they are found by.
    ///
    /// # Errors
    /// [`TableError::Malformed`] names the first column without it.
    pub(crate) fn check(self, columns: &[TableColumn]) -> Result<()> {
        if self == Self::None {
            return Ok(());
        }
        let mut physical = HashSet::new();
        for column in columns {
            let Some(name) = physical_name(column) else {
                return Err(unmapped(column, PHYSICAL_NAME));
            };
            if self == Self::Id && id(column).is_none() {
                return Err(unmapped(column, ID));
            }
            if !physical.insert(name) {
                return Err(TableError::Malformed(format!(
                    "the table has the feature columnMapping, and two of its columns have the {PHYSICAL_NAME} {name:?}"
                )));
            }
            for fields in column.kind.structs() {
                self.check(fields)?;
            }
        }
        Ok(())
    }

    /// The name of a column in the log: in partition values and in statistics.
    pub(crate) fn stored_name(self, column: &TableColumn) -> &str {
        match self {
            Self::None => &column.name,
            Self::Name | Self::Id => physical_name(column).unwrap_or(&column.name),
        }
    }

    /// The names that the log has for a column, or a field of one, from the top.
    pub(crate) fn stored_path(self, columns: &[TableColumn], names: &[String]) -> Vec<String> {
        let mut columns = columns;
        let stored = names.iter().map(|name| {
            let Some(column) = columns.iter().find(|column| column.name == *name) else {
                return name.clone();
            };
            columns = match &column.kind {
                ColumnType::Struct(fields) => fields.as_slice(),
                _ => &[],
            };
            self.stored_name(column).to_owned()
        });
        stored.collect()
    }

    /// The names, from the top, of the column without fields that the log has under these.
    pub(crate) fn leaf_of(self, columns: &[TableColumn], stored: &[String]) -> Option<Vec<String>> {
        let (first, below) = stored.split_first()?;
        let mut columns = columns.iter();
        let column = columns.find(|column| self.stored_name(column) == first)?;
        let mut names = vec![column.name.clone()];
        match &column.kind {
            ColumnType::Struct(fields) => names.extend(self.leaf_of(fields, below)?),
            _ if below.is_empty() => {}
            _ => return None,
        }
        Some(names)
    }

    /// The place of a column among the fields of a file; none where the file lacks it.
    ///
    /// Files that a table took over as they were may have names in another case. Names of a table's columns are unique
    /// regardless of it ("Schema Serialization Format" in Delta's PROTOCOL.md), and Spark looks for them so.
    pub(crate) fn place(self, fields: &Fields, column: &TableColumn) -> Option<usize> {
        match self {
            Self::None => {
                let exact = fields.iter().position(|field| *field.name() == column.name);
                exact.or_else(|| match alike(fields, &column.name)[..] {
                    [place] => Some(place),
                    _ => None,
                })
            }
            Self::Name => {
                let name = self.stored_name(column);
                fields.iter().position(|field| field.name() == name)
            }
            Self::Id => match id(column) {
                Some(wanted) => fields.iter().position(|field| field_id(field) == Some(wanted)),
                // A column that files have and the schema does not, such as those of row tracking.
                None => fields.iter().position(|field| *field.name() == column.name),
            },
        }
    }

    /// Refuses a file in which these columns cannot be found: it has no ids, or several of one name in other cases.
    ///
    /// # Errors
    /// [`TableError::Malformed`], as the protocol asks for.
    pub(crate) fn check_file<'a>(
        self,
        fields: &Fields,
        mut columns: impl Iterator<Item = &'a TableColumn>,
        path: &str,
    ) -> Result<()> {
        if self == Self::None
            && let Some(name) = columns.find_map(|column| doubtful(fields, column))
        {
            return Err(TableError::Malformed(format!(
                "{path}: the file has several columns whose names differ from {name:?} in case alone"
            )));
        }
        if self != Self::Id || fields.iter().any(|field| field_id(field).is_some()) {
            return Ok(());
        }
        Err(TableError::Malformed(format!(
            "{path}: the file has no field ids, and the table has {MODE}=id: its columns cannot be found"
        )))
    }

    /// The statistics of columns, under the names that the columns have in the table.
    fn named(self, stats: Map<String, Value>, columns: &[TableColumn]) -> Map<String, Value> {
        let named = stats.into_iter().filter_map(|(stored, value)| {
            // What is not found is of a column that the table has no more.
            let column = columns.iter().find(|column| self.stored_name(column) == stored)?;
            let value = match (&column.kind, value) {
                (ColumnType::Struct(below), Value::Object(fields)) => {
                    Value::Object(self.named(fields, below))
                }
                (_, value) => value,
            };
            Some((column.name.clone(), value))
        });
        named.collect()
    }
}

/// Returns true if readers of the table must look at the property.
fn allows(protocol: &Protocol) -> bool {
    let mut features = protocol.reader_features.iter().flatten();
    match protocol.min_reader_version {
        2 => true,
        3 => features.any(|feature| feature == FEATURE),
        _ => false,
    }
}

fn physical_name(column: &TableColumn) -> Option<&str> {
    column.metadata.get(PHYSICAL_NAME)?.as_str()
}

fn id(column: &TableColumn) -> Option<i64> {
    column.metadata.get(ID)?.as_i64()
}

/// The id of a file's field, as the `parquet` crate keeps it.
fn field_id(field: &Field) -> Option<i64> {
    field.metadata().get(PARQUET_FIELD_ID_META_KEY)?.parse().ok()
}

fn unmapped(column: &TableColumn, lacks: &str) -> TableError {
    TableError::Malformed(format!(
        "the table has the feature columnMapping, and its column {:?} has no {lacks}: its files cannot be read",
        column.name
    ))
}

impl TableHead {
    /// Returns true if the table is partitioned by a column.
    pub(crate) fn is_partition_column(&self, column: &TableColumn) -> bool {
        self.metadata.partition_columns.contains(&column.name)
    }

    /// A file's entry with the names that the columns have in the table.
    #[must_use]
    pub fn named<'a>(&self, add: &'a Add) -> Cow<'a, Add> {
        if self.mapping == Mapping::None {
            return Cow::Borrowed(add);
        }
        let columns = self.schema.columns.iter();
        let values = columns.filter_map(|column| {
            let value = add.partition_values.get(self.mapping.stored_name(column))?;
            Some((column.name.as_str(), value))
        });
        Cow::Owned(Add {
            partition_values: values.collect(),
            stats: add.stats.as_deref().map(|stats| self.named_stats(stats)),
            ..add.clone()
        })
    }

    fn named_stats(&self, text: &str) -> String {
        let Ok(Value::Object(mut stats)) = serde_json::from_str(text) else {
            return text.to_owned();
        };
        for name in OF_COLUMNS {
            if let Some(Value::Object(columns)) = stats.get_mut(name) {
                *columns = self.mapping.named(std::mem::take(columns), &self.schema.columns);
            }
        }
        Value::Object(stats).to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::TableSchema;

    fn field(name: &str, kind: &Value, physical: Option<&str>) -> Value {
        let metadata = physical.map_or_else(|| json!({}), |name| json!({PHYSICAL_NAME: name, ID: 7}));
        json!({"name": name, "type": kind, "nullable": true, "metadata": metadata})
    }

    fn structure(fields: &[Value]) -> Value {
        json!({"type": "struct", "fields": fields})
    }

    fn schema(fields: &[Value], mapping: Mapping) -> Result<TableSchema> {
        TableSchema::parse(&structure(fields).to_string(), mapping)
    }

    #[test]
    fn every_column_at_any_depth_says_how_it_is_found() {
        fn inner(physical: Option<&str>) -> Value {
            structure(&[field("x", &json!("long"), physical)])
        }
        fn array(physical: Option<&str>) -> Value {
            json!({"type": "array", "elementType": inner(physical), "containsNull": true})
        }
        for kind in [inner as fn(Option<&str>) -> Value, array] {
            let of = |physical| schema(&[field("odd name", &kind(physical), Some("p"))], Mapping::Name);
            assert!(of(Some("q")).is_ok());
            assert!(of(None).unwrap_err().to_string().contains(PHYSICAL_NAME));
        }
        let twice = [
            field("a", &json!("long"), Some("p")),
            field("b", &json!("long"), Some("p")),
        ];
        assert!(
            schema(&twice, Mapping::Name)
                .unwrap_err()
                .to_string()
                .contains("two of")
        );
        // Without a mapping, what is left of one means nothing.
        assert!(schema(&twice, Mapping::None).is_ok());
    }

    #[test]
    fn a_field_has_stored_names_from_the_top() {
        let below = structure(&[field("x", &json!("long"), Some("q"))]);
        let schema = schema(&[field("s", &below, Some("p"))], Mapping::Name).unwrap();
        let names = ["s".to_owned(), "x".to_owned()];
        let stored = |mapping: Mapping| mapping.stored_path(&schema.columns, &names);
        assert_eq!(stored(Mapping::Name), ["p", "q"]);
        assert_eq!(stored(Mapping::None), names);
    }

    #[test]
    fn statistics_get_the_names_of_the_table() {
        let below = structure(&[field("x", &json!("long"), Some("q"))]);
        let schema = schema(
            &[
                field("s", &below, Some("p")),
                field("p", &json!("long"), Some("s")),
            ],
            Mapping::Name,
        )
        .unwrap();
        let stats = json!({"p": {"q": 1}, "s": 2, "gone": 3});
        let named = Mapping::Name.named(stats.as_object().unwrap().clone(), &schema.columns);
        assert_eq!(Value::Object(named), json!({"s": {"x": 1}, "p": 2}));
    }
}
