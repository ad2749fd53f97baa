//! Names and field ids that columns have in files alone, for tables that map the names of their columns.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

use crate::options::WriterOptions;

/// The fields of files by the names of the columns that they stand for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StoredNames(Arc<HashMap<String, FieldRef>>);

impl StoredNames {
    /// Returns true if the columns of files have the names of the rows'.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The schema with the names and the ids of files. Columns without a field here stay as they are.
    pub fn given(&self, schema: &SchemaRef) -> SchemaRef {
        if self.is_empty() {
            return Arc::clone(schema);
        }
        let fields = schema
            .fields()
            .iter()
            .map(|field| match self.0.get(field.name()) {
                Some(stored) => renamed(field, stored),
                None => Arc::clone(field),
            });
        let fields: Fields = fields.collect();
        Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
    }
}

impl WriterOptions {
    /// The same options for files that have other names and field ids for their columns, at every depth. Each pair is
    /// the name of a column and its field in files, of the same type. Options and errors keep the names of the rows.
    #[must_use]
    pub fn stored_as(self, fields: impl IntoIterator<Item = (String, FieldRef)>) -> Self {
        Self {
            stored_names: StoredNames(Arc::new(fields.into_iter().collect())),
            ..self
        }
    }
}

/// The field with the name and the id that `stored` has. Fields below go by their places.
fn renamed(field: &FieldRef, stored: &FieldRef) -> FieldRef {
    let named = Field::clone(field)
        .with_name(stored.name())
        .with_data_type(with_names(field.data_type(), stored.data_type()));
    Arc::new(with_id_of(named, stored))
}

fn with_id_of(mut field: Field, stored: &Field) -> Field {
    let metadata = field.metadata_mut();
    match stored.metadata().get(PARQUET_FIELD_ID_META_KEY) {
        Some(id) => metadata.insert(PARQUET_FIELD_ID_META_KEY.to_owned(), id.clone()),
        None => metadata.remove(PARQUET_FIELD_ID_META_KEY),
    };
    field
}

/// The type with the names below it that `stored` has. Elements of lists, keys and values keep theirs, which are those
/// of the format.
fn with_names(data_type: &DataType, stored: &DataType) -> DataType {
    let below = |field: &FieldRef, stored: &FieldRef| {
        let data_type = with_names(field.data_type(), stored.data_type());
        Arc::new(Field::clone(field).with_data_type(data_type))
    };
    match (data_type, stored) {
        (DataType::Struct(fields), DataType::Struct(stored)) => {
            let fields = fields.iter().zip(stored);
            DataType::Struct(fields.map(|(field, stored)| renamed(field, stored)).collect())
        }
        (DataType::List(field), DataType::List(stored)) => DataType::List(below(field, stored)),
        (DataType::LargeList(field), DataType::List(stored)) => DataType::LargeList(below(field, stored)),
        (DataType::Map(entries, sorted), DataType::Map(stored, _)) => {
            DataType::Map(with_entries(entries, stored), *sorted)
        }
        (other, _) => other.clone(),
    }
}

fn with_entries(entries: &FieldRef, stored: &FieldRef) -> FieldRef {
    let (DataType::Struct(fields), DataType::Struct(stored)) = (entries.data_type(), stored.data_type())
    else {
        return Arc::clone(entries);
    };
    let fields = fields.iter().zip(stored).map(|(field, stored)| {
        let data_type = with_names(field.data_type(), stored.data_type());
        Arc::new(Field::clone(field).with_data_type(data_type))
    });
    let fields = DataType::Struct(fields.collect());
    Arc::new(Field::clone(entries).with_data_type(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, data_type: DataType, id: Option<&str>) -> FieldRef {
        let metadata = id.map(|id| (PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_owned()));
        Arc::new(
            Field::new(name, data_type, true).with_metadata(metadata.into_iter().collect::<HashMap<_, _>>()),
        )
    }

    fn nested(names: [&str; 3], ids: [Option<&str>; 3]) -> FieldRef {
        let inner = DataType::Struct(vec![field(names[2], DataType::Int64, ids[2])].into());
        let list = DataType::List(field("element", inner, None));
        field(
            names[0],
            DataType::Struct(vec![field(names[1], list, ids[1])].into()),
            ids[0],
        )
    }

    #[test]
    fn fields_at_every_depth_get_the_names_and_ids_of_files() {
        let given = nested(["a", "b", "c"], [Some("9"), None, None]);
        let stored = nested(["x", "y", "z"], [Some("1"), Some("2"), Some("3")]);
        let other = field("other", DataType::Utf8, Some("7"));
        let names = StoredNames(Arc::new([("a".to_owned(), Arc::clone(&stored))].into()));
        let schema = Arc::new(Schema::new(vec![given, Arc::clone(&other)]));
        assert_eq!(*names.given(&schema), Schema::new(vec![stored, other]));
        assert!(Arc::ptr_eq(&StoredNames::default().given(&schema), &schema));
    }
}
