//! Parquet field ids that an option gives, over those that come with the Arrow schema.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

use crate::error::{Result, WriteError};
use crate::lists::element_field;
use crate::names::{ambiguous, is_path, missing};
use crate::options::check_keys;
use crate::stored_schema::with_fields;

/// Checks field ids without the schema: each is that of one column.
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

/// The refusal of a field id that two columns would have.
fn doubled(id: i32, first: &str, second: &str) -> WriteError {
    WriteError::option(
        "field_ids",
        format!(
            "the field id {id} is that of {first:?} and of {second:?}: give each column an id of its own"
        ),
    )
}

/// The schema with these ids in the metadata of its fields. Fields that are not named keep the id that they have.
///
/// # Errors
/// [`WriteError::Option`] when a path is that of no field, or of several, or when two fields would have one id.
pub(crate) fn given(stored: SchemaRef, ids: &[(Vec<String>, i32)]) -> Result<SchemaRef> {
    if ids.is_empty() {
        return Ok(stored);
    }
    let mut paths = Vec::new();
    for field in stored.fields() {
        find_paths(field, &[field.name()], &mut paths);
    }
    let chosen = chosen(&paths, ids)?;
    let mut left = chosen.into_iter();
    let fields = stored.fields().iter();
    let fields: Vec<_> = fields.map(|field| numbered(field, true, &mut left)).collect();
    let mut found = Vec::new();
    for field in &fields {
        find_ids(field, true, &mut found);
    }
    check_unique(&paths, &found)?;
    Ok(Arc::new(Schema::new_with_metadata(
        fields,
        stored.metadata().clone(),
    )))
}

/// The id of each path that has one in the option.
fn chosen(paths: &[Vec<String>], ids: &[(Vec<String>, i32)]) -> Result<Vec<Option<i32>>> {
    // Wide tables name all of their columns.
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

fn check_unique(paths: &[Vec<String>], found: &[Option<i32>]) -> Result<()> {
    let mut named: HashMap<i32, &[String]> = HashMap::new();
    for (path, id) in paths.iter().zip(found) {
        let Some(id) = id else { continue };
        if let Some(other) = named.insert(*id, path) {
            return Err(doubled(*id, &other.join("."), &path.join(".")));
        }
    }
    Ok(())
}

/// Collects Parquet's paths of a field and of those in it, but for the repeated groups of lists and maps, which have no
/// ids.
fn find_paths(field: &Field, path: &[&str], found: &mut Vec<Vec<String>>) {
    found.push(path.iter().map(|part| (*part).to_owned()).collect());
    match (field.data_type(), element_field(field.data_type())) {
        (DataType::Struct(fields), _) => {
            for field in fields {
                find_paths(field, &[path, &[field.name()]].concat(), found);
            }
        }
        (DataType::Map(_, _), Some(entries)) => {
            let DataType::Struct(fields) = entries.data_type() else {
                return;
            };
            for (field, name) in fields.iter().zip(["key", "value"]) {
                find_paths(field, &[path, &["key_value", name]].concat(), found);
            }
        }
        (_, Some(element)) => find_paths(element, &[path, &["list", "element"]].concat(), found),
        _ => {}
    }
}

/// The field with the next id, and those in it with the ids that follow. The entries of a map take none.
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

/// Collects the ids of a field and of those in it, in the order of their paths.
fn find_ids(field: &Field, takes_id: bool, found: &mut Vec<Option<i32>>) {
    if takes_id {
        let id = field.metadata().get(PARQUET_FIELD_ID_META_KEY);
        // A negative one is none, as readers have it.
        found.push(id.and_then(|id| id.parse().ok()).filter(|id| *id >= 0));
    }
    let are_entries = matches!(field.data_type(), DataType::Map(_, _));
    match (field.data_type(), element_field(field.data_type())) {
        (DataType::Struct(fields), _) => fields.iter().for_each(|field| find_ids(field, true, found)),
        (_, Some(element)) => find_ids(element, !are_entries, found),
        _ => {}
    }
}
