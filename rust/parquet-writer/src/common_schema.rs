//! The merged Arrow schema of files from possibly different writers, for one with the row groups of all.

use std::sync::Arc;

use arrow_ipc::convert::try_schema_from_ipc_buffer;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use parquet::arrow::{ARROW_SCHEMA_META_KEY, parquet_to_arrow_schema};
use parquet::schema::types::SchemaDescriptor;

use crate::stored_schema::{self, with_fields};

/// The key of the metadata that holds a file's Arrow schema.
pub const STORED_SCHEMA_KEY: &str = ARROW_SCHEMA_META_KEY;

/// The stored schema of a file with the row groups of several files, where `stored` has the different values of theirs.
/// None where there is no such schema.
///
/// A field that is equal in all files stays, and so does metadata. Any other field is that of the Parquet schema: a
/// column that is a dictionary in one file and text in another is text. No dictionary is ordered, because those of
/// different files may have different orders; and its keys have 32 bits, because all of them together may have more
/// values than shorter keys can count.
#[must_use]
pub fn common_schema(stored: &[&str], parquet: &SchemaDescriptor) -> Option<String> {
    let schemas = stored
        .iter()
        .map(|text| decoded(text))
        .collect::<Option<Vec<_>>>();
    let Some(schemas) = schemas else {
        // Whatever one value says that cannot be decoded, it says of all files.
        return (stored.len() == 1).then(|| stored[0].to_owned());
    };
    let (first, others) = schemas.split_first()?;
    let is_in_all = |has: &dyn Fn(&Schema) -> bool| others.iter().all(has);
    let mut plain: Option<Schema> = None;
    let mut fields = Vec::with_capacity(first.fields().len());
    for (index, field) in first.fields().iter().enumerate() {
        let field = for_several(field);
        if is_in_all(&|schema| {
            schema
                .fields()
                .get(index)
                .is_some_and(|other| for_several(other) == field)
        }) {
            fields.push(field);
            continue;
        }
        if plain.is_none() {
            plain = Some(parquet_to_arrow_schema(parquet, None).ok()?);
        }
        fields.push(Arc::clone(plain.as_ref()?.fields().get(index)?));
    }
    let mut metadata = first.metadata().clone();
    metadata.retain(|key, value| is_in_all(&|schema| schema.metadata().get(key) == Some(value)));
    let common = Schema::new_with_metadata(fields, metadata);
    stored_schema::encoded(&common).ok()?.value
}

/// The first column that holds durations in one stored schema and another type in the other, with both types. Parquet
/// has no type for durations: only the stored schema has their unit, and a file without one holds integers.
#[must_use]
pub fn other_durations(one: Option<&str>, other: Option<&str>) -> Option<(String, DataType, DataType)> {
    fn among(ours: &Fields, theirs: &Fields, path: &str) -> Option<(String, DataType, DataType)> {
        ours.iter().zip(theirs).find_map(|(ours, theirs)| {
            let path = match path {
                "" => ours.name().clone(),
                above => format!("{above}.{}", ours.name()),
            };
            match (ours.data_type(), theirs.data_type()) {
                (one @ DataType::Duration(_), other) | (one, other @ DataType::Duration(_)) => {
                    (one != other).then(|| (path, one.clone(), other.clone()))
                }
                (one, other) => among(&children(one), &children(other), &path),
            }
        })
    }
    let fields = |stored: &str| Some(decoded(stored)?.fields);
    let (one, other) = match (one, other) {
        (None, None) => return None,
        (Some(one), Some(other)) => (fields(one)?, fields(other)?),
        (Some(one), None) => (fields(one)?, without_durations(&fields(one)?)),
        (None, Some(other)) => (without_durations(&fields(other)?), fields(other)?),
    };
    among(&one, &other, "")
}

/// The fields as they are read of a file that stores no Arrow schema, as far as durations go.
fn without_durations(fields: &Fields) -> Fields {
    fn as_integers(field: &FieldRef) -> FieldRef {
        let data_type = match field.data_type() {
            DataType::Duration(_) => DataType::Int64,
            nested => match with_fields(nested, &mut as_integers) {
                Some(nested) => nested,
                None => return Arc::clone(field),
            },
        };
        Arc::new(Field::clone(field).with_data_type(data_type))
    }
    fields.iter().map(as_integers).collect()
}

/// The fields of a nested type.
fn children(data_type: &DataType) -> Fields {
    let mut found = Vec::new();
    with_fields(data_type, &mut |field| {
        found.push(Arc::clone(field));
        Arc::clone(field)
    });
    found.into()
}

/// The schema in the text of the footer's metadata.
fn decoded(text: &str) -> Option<Schema> {
    try_schema_from_ipc_buffer(&BASE64_STANDARD.decode(text).ok()?).ok()
}

/// The field as the dictionaries of several files allow it.
fn for_several(field: &FieldRef) -> FieldRef {
    if let Some(nested) = with_fields(field.data_type(), &mut for_several) {
        return Arc::new(Field::clone(field).with_data_type(nested));
    }
    let DataType::Dictionary(keys, values) = field.data_type() else {
        return Arc::clone(field);
    };
    let keys = match keys.as_ref() {
        DataType::Int8 | DataType::Int16 => Box::new(DataType::Int32),
        DataType::UInt8 | DataType::UInt16 => Box::new(DataType::UInt32),
        _ => keys.clone(),
    };
    let wide = Field::clone(field).with_data_type(DataType::Dictionary(keys, values.clone()));
    Arc::new(wide.with_dict_is_ordered(false))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow_schema::DataType::{Dictionary, Int8, Int16, Int32, Int64, Utf8};
    use parquet::arrow::ArrowSchemaConverter;

    use super::*;

    fn dictionary(keys: DataType) -> DataType {
        Dictionary(Box::new(keys), Box::new(Utf8))
    }

    fn merged(all: &[Schema]) -> Schema {
        let parquet = ArrowSchemaConverter::new().convert(&all[0]).unwrap();
        let stored: Vec<_> = all
            .iter()
            .map(|schema| stored_schema::encoded(schema).unwrap().value.unwrap())
            .collect();
        let stored: Vec<_> = stored.iter().map(String::as_str).collect();
        decoded(&common_schema(&stored, &parquet).unwrap()).unwrap()
    }

    fn of(kind: DataType, source: &str) -> Schema {
        let pairs = [("app", "x"), ("source", source)];
        let metadata: HashMap<_, _> = pairs
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        let fields = vec![
            Field::new("a", kind, true),
            Field::new("b", DataType::LargeUtf8, true),
        ];
        Schema::new_with_metadata(fields, metadata)
    }

    #[test]
    fn what_all_files_have_stays_and_the_rest_is_as_parquet_has_it() {
        let common = merged(&[of(dictionary(Int32), "1"), of(Utf8, "2")]);
        assert_eq!(common.field(0).data_type(), &Utf8);
        assert_eq!(common.field(1).data_type(), &DataType::LargeUtf8);
        assert_eq!(common.metadata().len(), 1);
        let duration = DataType::Duration(arrow_schema::TimeUnit::Second);
        assert_eq!(merged(&[of(duration, "1"), of(Int64, "1")]), of(Int64, "1"));
    }

    #[test]
    fn keys_can_count_the_values_of_all_dictionaries() {
        let common = merged(&[of(dictionary(Int8), "1"), of(dictionary(Int16), "1")]);
        assert_eq!(common.field(0).data_type(), &dictionary(Int32));
    }

    #[test]
    fn no_dictionary_of_several_files_is_ordered() {
        let ordered = Field::new("a", dictionary(Int32), true).with_dict_is_ordered(true);
        let inner = Field::new("item", dictionary(Int32), true).with_dict_is_ordered(true);
        let list = Field::new("l", DataType::List(Arc::new(inner)), true);
        let common = merged(&[Schema::new(vec![ordered, list])]);
        assert_eq!(common.field(0).dict_is_ordered(), Some(false));
        let DataType::List(inner) = common.field(1).data_type() else {
            panic!("{common}")
        };
        assert_eq!(inner.dict_is_ordered(), Some(false));
    }
}
