//! The ids and physical names that new columns of a table with column mapping get.

use std::collections::BTreeMap;

use delta_commit::actions::{Metadata, Protocol};
use serde_json::Value;
use uuid::Uuid;

use super::{FEATURE, ID, MODE, Mapping, PHYSICAL_NAME, id, physical_name};
use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::schema::{ColumnType, TableColumn, TableSchema};

/// The property with the highest id that a table has ever given.
pub(crate) const HIGHEST: &str = "delta.columnMapping.maxColumnId";

/// The versions that stand for the feature where none is named.
const LEGACY: (i32, i32) = (2, 5);

impl Mapping {
    /// The mapping that properties of a new table ask for.
    ///
    /// # Errors
    /// [`TableError::Option`] when there is no such mode.
    pub(crate) fn asked(properties: &BTreeMap<String, String>) -> Result<Self> {
        match properties.get(MODE).map(String::as_str) {
            None | Some("none") => Ok(Self::None),
            Some("name") => Ok(Self::Name),
            Some("id") => Ok(Self::Id),
            Some(mode) => Err(TableError::option(
                "properties",
                format!("{MODE}={mode:?} is not accepted: give name, id or none"),
            )),
        }
    }

    /// The schema with an id and a physical name for each column, and each field of structs, that has none. Ids go on
    /// from the highest that the table has given.
    pub(crate) fn assigned(self, schema: &TableSchema, metadata: &Metadata) -> TableSchema {
        if self == Self::None {
            return schema.clone();
        }
        let mut last = highest_id(metadata, schema);
        TableSchema {
            columns: assign(&schema.columns, &mut last),
        }
    }

    /// Keeps the highest id that the table has given in metadata that comes after `before`, so that none is given
    /// twice.
    pub(crate) fn keep_highest(self, metadata: &mut Metadata, before: &TableHead) {
        let noted = metadata
            .configuration
            .get(HIGHEST)
            .and_then(|id| id.trim().parse().ok());
        if self != Self::None && before.mapping != Self::None {
            let highest = highest_id(&before.metadata, &before.schema).max(noted.unwrap_or(0));
            metadata
                .configuration
                .insert(HIGHEST.to_owned(), highest.to_string());
        }
    }

    /// Notes in a table's metadata the highest id of this schema, where columns have ids.
    pub(crate) fn note_highest(self, metadata: &mut Metadata, schema: &TableSchema) {
        if self != Self::None {
            let highest = highest_id(metadata, schema).to_string();
            metadata.configuration.insert(HIGHEST.to_owned(), highest);
        }
    }
}

/// The highest id that a table has given.
pub(super) fn highest_id(metadata: &Metadata, schema: &TableSchema) -> i64 {
    let noted = metadata.configuration.get(HIGHEST);
    let noted = noted.and_then(|id| id.trim().parse().ok()).unwrap_or(0);
    highest_of(&schema.columns).max(noted)
}

fn highest_of(columns: &[TableColumn]) -> i64 {
    let ids = columns.iter().map(|column| {
        let below = column.kind.structs().into_iter().map(highest_of).max();
        id(column).unwrap_or(0).max(below.unwrap_or(0))
    });
    ids.max().unwrap_or(0)
}

fn assign(columns: &[TableColumn], last: &mut i64) -> Vec<TableColumn> {
    let assigned = columns.iter().map(|column| {
        let mut metadata = column.metadata.clone();
        if id(column).is_none() {
            *last += 1;
            metadata.insert(ID.to_owned(), Value::from(*last));
        }
        if physical_name(column).is_none() {
            let name = format!("col-{}", Uuid::new_v4());
            metadata.insert(PHYSICAL_NAME.to_owned(), Value::from(name));
        }
        TableColumn {
            kind: assign_below(&column.kind, last),
            metadata,
            ..column.clone()
        }
    });
    assigned.collect()
}

fn assign_below(kind: &ColumnType, last: &mut i64) -> ColumnType {
    match kind {
        ColumnType::Primitive(_) | ColumnType::Decimal(..) => kind.clone(),
        ColumnType::Struct(columns) => ColumnType::Struct(assign(columns, last)),
        ColumnType::Array(element, nullable) => {
            ColumnType::Array(Box::new(assign_below(element, last)), *nullable)
        }
        ColumnType::Map(key, value, nullable) => {
            let key = Box::new(assign_below(key, last));
            ColumnType::Map(key, Box::new(assign_below(value, last)), *nullable)
        }
    }
}

/// The protocol of a table with column mapping: named where features are, and by the versions that stand for it where
/// none is.
pub(crate) fn with_mapping(protocol: &Protocol) -> Protocol {
    let mut next = protocol.clone();
    next.min_reader_version = next.min_reader_version.max(LEGACY.0);
    next.min_writer_version = next.min_writer_version.max(LEGACY.1);
    // Features are named from these versions on.
    let lists = [
        (next.min_writer_version >= 7, &mut next.writer_features),
        (next.min_reader_version >= 3, &mut next.reader_features),
    ];
    for (is_named, list) in lists {
        if is_named {
            let list = list.get_or_insert_default();
            if !list.iter().any(|known| known == FEATURE) {
                list.push(FEATURE.to_owned());
            }
        }
    }
    next
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn long(name: &str) -> Value {
        json!({"name": name, "type": "long", "nullable": true, "metadata": {}})
    }

    fn columns(fields: &Value) -> TableSchema {
        let text = json!({"type": "struct", "fields": fields}).to_string();
        TableSchema::parse(&text, Mapping::None).unwrap()
    }

    #[test]
    fn new_columns_at_every_depth_get_the_next_ids() {
        let inner = json!({"type": "struct", "fields": [long("x"), long("y")]});
        let list = json!({"type": "array", "elementType": inner, "containsNull": true});
        let given =
            columns(&json!([long("a"), {"name": "l", "type": list, "nullable": true, "metadata": {}}]));
        let mut metadata = Metadata::default();
        let schema = Mapping::Name.assigned(&given, &metadata);
        assert!(TableSchema::parse(&schema.to_json(), Mapping::Id).is_ok());
        assert_eq!(highest_id(&metadata, &schema), 4);
        Mapping::Name.note_highest(&mut metadata, &schema);
        assert_eq!(metadata.configuration[HIGHEST], "4");
        // A column that was dropped leaves its id behind.
        metadata.configuration.insert(HIGHEST.to_owned(), "9".to_owned());
        let mut more = schema.clone();
        more.columns.extend(columns(&json!([long("b")])).columns);
        let grown = Mapping::Name.assigned(&more, &metadata);
        assert_eq!(grown.columns[..2], schema.columns);
        assert_eq!(id(&grown.columns[2]), Some(10));
        assert!(physical_name(&grown.columns[2]).unwrap().starts_with("col-"));
        assert_eq!(Mapping::None.assigned(&given, &metadata), given);
    }

    #[test]
    fn the_protocol_names_the_mapping_as_its_version_does() {
        let of = |reader, writer| Protocol {
            min_reader_version: reader,
            min_writer_version: writer,
            writer_features: (writer == 7).then(Vec::new),
            reader_features: (reader == 3).then(Vec::new),
            ..Protocol::default()
        };
        assert_eq!(with_mapping(&of(1, 2)), of(2, 5));
        let named = with_mapping(&of(1, 7));
        assert_eq!((named.min_reader_version, named.reader_features), (2, None));
        assert_eq!(named.writer_features.unwrap(), [FEATURE]);
        let both = with_mapping(&of(3, 7));
        assert_eq!(both.reader_features.unwrap(), [FEATURE]);
        assert_eq!(both.writer_features.unwrap(), [FEATURE]);
    }
}
