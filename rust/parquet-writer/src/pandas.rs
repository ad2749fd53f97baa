//! The metadata by which pandas restores the index of a data frame.
//!
//! See <https://pandas.pydata.org/docs/development/developer.html>.

use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use serde_json::Value;

/// The key of the metadata.
pub(crate) const KEY: &str = "pandas";

/// The schema without an index that numbers rows by their place (`"kind": "range"`), for a file whose rows have other
/// places than those of the frame: they would be given the numbers of others.
#[must_use]
pub fn without_range_index(schema: &SchemaRef) -> SchemaRef {
    let Some(text) = schema.metadata().get(KEY).filter(|text| text.contains("range")) else {
        return Arc::clone(schema);
    };
    let Ok(mut pandas) = serde_json::from_str::<Value>(text) else {
        return Arc::clone(schema);
    };
    let Some(Value::Array(columns)) = pandas.get_mut("index_columns") else {
        return Arc::clone(schema);
    };
    let before = columns.len();
    columns.retain(|column| column.get("kind").is_none_or(|kind| kind != "range"));
    if columns.len() == before {
        return Arc::clone(schema);
    }
    let mut metadata = schema.metadata().clone();
    metadata.insert(KEY, pandas.to_string());
    Arc::new(Schema::new_with_metadata(schema.fields().clone(), metadata))
}
