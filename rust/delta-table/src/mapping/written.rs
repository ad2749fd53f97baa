//! The names by which a table with column mapping is written: those of files and of the log.
//!
//! Rows keep the names of the table up to the writer of a file, which gives the file's columns their physical names and
//! ids. What the log says of a file, its partition values and statistics, gets its names here.

use std::borrow::Cow;
use std::collections::HashMap;

use arrow_schema::{DataType, Field, FieldRef, Fields};
use delta_commit::actions::PartitionValues;
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;
use parquet::file::metadata::ParquetMetaData;

use super::{Mapping, id};
use crate::error::Result;
use crate::head::TableHead;
use crate::schema::{ColumnType, TableColumn, TableSchema};
use crate::stats::stats_json;
use crate::stats_columns::StatsColumns;

impl Mapping {
    /// The fields of files by the names of the columns; none where files have the names of the table.
    pub(crate) fn stored_fields(self, columns: &[TableColumn]) -> Vec<(String, FieldRef)> {
        if self == Self::None {
            return Vec::new();
        }
        let fields = columns
            .iter()
            .map(|column| (column.name.clone(), self.stored_field(column)));
        fields.collect()
    }

    fn stored_field(self, column: &TableColumn) -> FieldRef {
        let id = id(column).map(|id| (PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string()));
        let field = Field::new(
            self.stored_name(column),
            self.stored_type(&column.kind),
            column.nullable,
        );
        FieldRef::new(field.with_metadata(id.into_iter().collect::<HashMap<_, _>>()))
    }

    /// The type in files. Elements of arrays, keys and values have no names and no ids of their own.
    fn stored_type(self, kind: &ColumnType) -> DataType {
        let below = |name: &str, kind: &ColumnType, nullable| {
            FieldRef::new(Field::new(name, self.stored_type(kind), nullable))
        };
        match kind {
            ColumnType::Primitive(_) | ColumnType::Decimal(..) => kind.arrow(),
            ColumnType::Struct(columns) => {
                DataType::Struct(columns.iter().map(|column| self.stored_field(column)).collect())
            }
            ColumnType::Array(element, nullable) => DataType::List(below("element", element, *nullable)),
            ColumnType::Map(key, value, nullable) => {
                let entries = Fields::from(vec![below("key", key, false), below("value", value, *nullable)]);
                let entries = Field::new("key_value", DataType::Struct(entries), false);
                DataType::Map(FieldRef::new(entries), false)
            }
        }
    }

    /// The columns under the names that files and the log have for them, at every depth.
    pub(crate) fn stored_columns(self, columns: &[TableColumn]) -> Vec<TableColumn> {
        let columns = columns.iter().map(|column| TableColumn {
            name: self.stored_name(column).to_owned(),
            kind: self.stored_kind(&column.kind),
            ..column.clone()
        });
        columns.collect()
    }

    fn stored_kind(self, kind: &ColumnType) -> ColumnType {
        match kind {
            ColumnType::Primitive(_) | ColumnType::Decimal(..) => kind.clone(),
            ColumnType::Struct(columns) => ColumnType::Struct(self.stored_columns(columns)),
            ColumnType::Array(element, nullable) => {
                ColumnType::Array(Box::new(self.stored_kind(element)), *nullable)
            }
            ColumnType::Map(key, value, nullable) => ColumnType::Map(
                Box::new(self.stored_kind(key)),
                Box::new(self.stored_kind(value)),
                *nullable,
            ),
        }
    }

    fn stored_schema(self, schema: &TableSchema) -> Cow<'_, TableSchema> {
        match self {
            Self::None => Cow::Borrowed(schema),
            Self::Name | Self::Id => Cow::Owned(TableSchema {
                columns: self.stored_columns(&schema.columns),
            }),
        }
    }

    /// Returns false if the table's column of the same name has another physical name or id by now, also in a field
    /// below it: files that were written with `written` would not be found under it.
    pub(crate) fn finds(self, columns: &[TableColumn], written: &TableColumn) -> bool {
        if self == Self::None {
            return true;
        }
        let mut known = columns.iter().filter(|column| column.name == written.name);
        known.all(|known| {
            self.stored_name(known) == self.stored_name(written)
                && id(known) == id(written)
                && self.finds_below(&known.kind, &written.kind)
        })
    }

    fn finds_below(self, known: &ColumnType, written: &ColumnType) -> bool {
        match (known, written) {
            (ColumnType::Struct(known), ColumnType::Struct(written)) => {
                written.iter().all(|field| self.finds(known, field))
            }
            (ColumnType::Array(known, _), ColumnType::Array(written, _)) => self.finds_below(known, written),
            (ColumnType::Map(known_key, known, _), ColumnType::Map(key, written, _)) => {
                self.finds_below(known_key, key) && self.finds_below(known, written)
            }
            // Types are compared elsewhere.
            _ => true,
        }
    }
}

impl TableHead {
    /// Partition values under the names of the log.
    pub(crate) fn stored_values(&self, values: PartitionValues) -> PartitionValues {
        if self.mapping == Mapping::None {
            return values;
        }
        let stored = values.iter().map(|(name, value)| {
            let column = self.schema.column(name);
            let name = column.map_or(name, |column| self.mapping.stored_name(column));
            (name.to_owned(), value.map(str::to_owned))
        });
        stored.collect()
    }

    /// The statistics of a file with columns of `schema`, as the log has them.
    pub(crate) fn stored_stats(
        &self,
        schema: &TableSchema,
        indexed: &StatsColumns,
        footer: &ParquetMetaData,
    ) -> String {
        let by = self.metadata.partition_columns.iter();
        let by = by.map(|name| match schema.column(name) {
            Some(column) => self.mapping.stored_name(column).to_owned(),
            None => name.clone(),
        });
        let by: Vec<String> = by.collect();
        stats_json(&self.mapping.stored_schema(schema), &by, indexed, footer)
    }

    /// The columns that the table's rows are clustered by, each a path of the names that statistics have.
    ///
    /// # Errors
    /// [`delta_commit::CommitError::Unsupported`] when they cannot be understood.
    pub(crate) fn stored_clustering(&self) -> Result<Vec<Vec<String>>> {
        let columns = self.clustering()?;
        Ok(self.stored_paths(&columns))
    }

    /// Columns, each as the path of the names that the log has.
    pub(crate) fn stored_paths(&self, columns: &[Vec<String>]) -> Vec<Vec<String>> {
        let stored = columns
            .iter()
            .map(|column| self.mapping.stored_path(&self.schema.columns, column));
        stored.collect()
    }

    /// Returns true if files with columns that were added to `before`, a state of the same table, can become part of
    /// this one: no other column has got their ids.
    pub(crate) fn has_ids_of(&self, before: &Self) -> bool {
        let highest = |head: &Self| super::assigned::highest_id(&head.metadata, &head.schema);
        self.mapping == Mapping::None || (self.schema == before.schema && highest(self) == highest(before))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(fields: &serde_json::Value) -> TableSchema {
        let text = json!({"type": "struct", "fields": fields}).to_string();
        TableSchema::parse(&text, Mapping::Name).unwrap()
    }

    fn field(name: &str, kind: &serde_json::Value, id: i64) -> serde_json::Value {
        let metadata =
            json!({"delta.columnMapping.id": id, "delta.columnMapping.physicalName": format!("col-{id}")});
        json!({"name": name, "type": kind, "nullable": true, "metadata": metadata})
    }

    #[test]
    fn files_have_physical_names_and_ids_at_every_depth() {
        let inner = json!({"type": "struct", "fields": [field("x", &json!("long"), 3)]});
        let list = json!({"type": "array", "elementType": inner, "containsNull": true});
        let map = json!({"type": "map", "keyType": "string", "valueType": list, "valueContainsNull": true});
        let schema = parsed(&json!([field("a b", &map, 2)]));
        let stored = Mapping::Name.stored_fields(&schema.columns);
        let [(name, field)] = stored.as_slice() else {
            panic!("one column");
        };
        let ids = |field: &Field| field.metadata().get(PARQUET_FIELD_ID_META_KEY).cloned();
        assert_eq!((name.as_str(), field.name().as_str()), ("a b", "col-2"));
        assert_eq!(ids(field).as_deref(), Some("2"));
        let DataType::Map(entries, _) = field.data_type() else {
            panic!("a map");
        };
        let DataType::Struct(of_entry) = entries.data_type() else {
            panic!("entries");
        };
        assert_eq!(ids(&of_entry[1]), None);
        let DataType::List(element) = of_entry[1].data_type() else {
            panic!("a list");
        };
        let DataType::Struct(fields) = element.data_type() else {
            panic!("a struct");
        };
        assert_eq!(fields[0].name(), "col-3");
        assert_eq!(ids(&fields[0]).as_deref(), Some("3"));
        assert!(Mapping::None.stored_fields(&schema.columns).is_empty());
        // The types of both forms are the same but for the names.
        let lowered = Mapping::Name.stored_columns(&schema.columns);
        assert_eq!(lowered[0].name, "col-2");
        assert!(lowered[0].kind.arrow().equals_datatype(field.data_type()));
    }

    #[test]
    fn files_of_a_column_with_another_id_are_not_found() {
        let long = json!("long");
        let known = parsed(&json!([field("a", &long, 1), field("b", &long, 2)]));
        let other = parsed(&json!([field("a", &long, 1), field("b", &long, 3)]));
        let finds = |column: usize| Mapping::Name.finds(&known.columns, &other.columns[column]);
        assert!(finds(0));
        assert!(!finds(1));
        // A column that the table lacks contradicts none: the schema with it differs from the table's.
        let new = parsed(&json!([field("c", &long, 2)]));
        assert!(Mapping::Name.finds(&known.columns, &new.columns[0]));
        let within = |id| json!({"type": "struct", "fields": [field("x", &long, id)]});
        let known = parsed(&json!([field("s", &within(2), 1)]));
        let other = parsed(&json!([field("s", &within(3), 1)]));
        assert!(!Mapping::Name.finds(&known.columns, &other.columns[0]));
        assert!(Mapping::None.finds(&known.columns, &other.columns[0]));
    }
}
