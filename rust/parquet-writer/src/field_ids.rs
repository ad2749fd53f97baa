//! The option `field_ids`: Parquet field ids, which override those of the Arrow schema.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

use crate::error::{Result, WriteError};
use crate::lists::element_field;
use crate::names::{ambiguous, is_path, missing};
use crate::options::check_keys;
use crate::stored_schema::with_fields;

/// Checks what needs no schema: ids are not negative, and no two columns have the same.
pub(crate) fn checked(columns: Vec<(Vec<String>, i64)>) -> Result<Vec<(Vec<String>, i32)>> {
    check_keys("field_ids", &columns)?;
    let mut named: HashMap<i32, String> = HashMap::new();
    let checked = columns.into_iter().map(|(path, id)| {
        let name = path.join(".");
        let id = i32::try_from(id).ok().filter(|id| *id >= 0).ok_or_else(|| {
            let message = format!(
                "field_ids={{{name:?}: {id}}} is not accepted: give an integer from 0 to {}",
                i32::MAX
            );
            WriteError::option("field_ids", message)
        })?;
        if let Some(other) = named.insert(id, name.clone()) {
            return Err(doubled(id, &other, &name));
        }
        Ok((path, id))
    });
    checked.collect()
}

/// The error for a field id that two columns would have.
fn doubled(id: i32, first: &str, second: &str) -> WriteError {
    WriteError::option(
        "field_ids",
        format!(
            "the field id {id} is that of {first:?} and of {second:?}: give each column an id of its own"
        ),
    )
}

/// The schema with these ids in the metadata of its fields. Other fields keep their ids.
///
/// # Errors
/// [`WriteError::Option`] if a path names no field or several, or if two fields would have the same id.
pub(crate) fn given(stored: SchemaRef, ids: &[(Vec<String>, i32)]) -> Result<SchemaRef> {
    if ids.is_empty() {
        return Ok(stored);
    }
    let paths: Vec<Vec<String>> = nodes(stored.fields()).into_iter().map(|node| node.path).collect();
    let mut chosen = chosen(&paths, ids)?.into_iter();
    let fields = stored.fields().iter();
    let fields: Fields = fields.map(|field| numbered(field, true, &mut chosen)).collect();
    check_unique(&nodes(&fields))?;
    Ok(Arc::new(Schema::new_with_metadata(
        fields,
        stored.metadata().clone(),
    )))
}

/// The id that the option gives to each path, if any.
fn chosen(paths: &[Vec<String>], ids: &[(Vec<String>, i32)]) -> Result<Vec<Option<i32>>> {
    // The option may name every column of a wide table, so each is looked up by its path.
    let mut places: HashMap<String, Vec<usize>> = HashMap::new();
    for (place, path) in paths.iter().enumerate() {
        places.entry(path.join(".")).or_default().push(place);
    }
    let mut chosen = vec![None; paths.len()];
    for (key, id) in ids {
        let name = key.join(".");
        let named = places.get(&name).into_iter().flatten().copied();
        let mut matching = named.filter(|&place| is_path(&paths[place], key));
        let Some(place) = matching.next() else {
            return Err(missing(
                "field_ids",
                &name,
                paths.iter().map(|path| path.join(".")),
            ));
        };
        if let Some(other) = matching.next() {
            let both = [place, other].map(|place| paths[place].clone());
            return Err(ambiguous("field_ids", &name, &both));
        }
        if chosen[place].replace(*id).is_some() {
            let message = format!("field_ids names the column {name:?} twice: name it once");
            return Err(WriteError::option("field_ids", message));
        }
    }
    Ok(chosen)
}

/// A node of the Parquet schema that may have an id: all but the repeated groups of lists and maps.
struct FieldNode {
    path: Vec<String>,
    id: Option<i32>,
}

fn check_unique(nodes: &[FieldNode]) -> Result<()> {
    let mut named: HashMap<i32, &[String]> = HashMap::new();
    for FieldNode { path, id } in nodes {
        let Some(id) = id else { continue };
        if let Some(other) = named.insert(*id, path) {
            return Err(doubled(*id, &other.join("."), &path.join(".")));
        }
    }
    Ok(())
}

/// The nodes of these fields, each before those that are nested in it.
fn nodes(fields: &Fields) -> Vec<FieldNode> {
    let mut found = Vec::new();
    for field in fields {
        find_nodes(field, &[field.name()], &mut found);
    }
    found
}

fn find_nodes(field: &Field, path: &[&str], found: &mut Vec<FieldNode>) {
    let id = field.metadata().get(PARQUET_FIELD_ID_META_KEY);
    found.push(FieldNode {
        path: path.iter().map(|part| (*part).to_owned()).collect(),
        // Readers take a negative id for none.
        id: id.and_then(|id| id.parse().ok()).filter(|id| *id >= 0),
    });
    match (field.data_type(), element_field(field.data_type())) {
        (DataType::Struct(fields), _) => {
            for field in fields {
                find_nodes(field, &[path, &[field.name()]].concat(), found);
            }
        }
        (DataType::Map(_, _), Some(entries)) => {
            let DataType::Struct(fields) = entries.data_type() else {
                return;
            };
            for (field, name) in fields.iter().zip(["key", "value"]) {
                find_nodes(field, &[path, &["key_value", name]].concat(), found);
            }
        }
        (_, Some(element)) => find_nodes(element, &[path, &["list", "element"]].concat(), found),
        _ => {}
    }
}

/// The field with the next id, and its nested fields with the ids after it. The entries of a map are no [`FieldNode`].
fn numbered(field: &FieldRef, takes_id: bool, ids: &mut dyn Iterator<Item = Option<i32>>) -> FieldRef {
    let id = if takes_id { ids.next().flatten() } else { None };
    let are_entries = matches!(field.data_type(), DataType::Map(_, _));
    let mut inner = |field: &FieldRef| numbered(field, !are_entries, ids);
    let nested = with_fields(field.data_type(), &mut inner);
    let mut field = Field::clone(field);
    if let Some(data_type) = nested {
        field.set_data_type(data_type);
    }
    if let Some(id) = id {
        let key = PARQUET_FIELD_ID_META_KEY.to_owned();
        field.metadata_mut().insert(key, id.to_string());
    }
    Arc::new(field)
}
