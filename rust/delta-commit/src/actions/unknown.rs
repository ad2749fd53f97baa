//! Fields of known actions that this crate does not know.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Fields of an action that this crate does not know, by name.
///
/// The protocol lets readers ignore them. They are kept, so that a checkpoint does not lose them for writers that do
/// know them. A null field counts as absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct UnknownFields(pub BTreeMap<String, Value>);

/// Columns of a checkpoint that repeat other columns in another form.
const DERIVED: [&str; 2] = ["stats_parsed", "partitionValues_parsed"];

impl<'de> Deserialize<'de> for UnknownFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = BTreeMap::<String, Value>::deserialize(deserializer)?;
        fields.retain(|name, value| !DERIVED.contains(&name.as_str()) && is_there(value));
        Ok(Self(fields))
    }
}

/// Removes nulls, which a checkpoint holds for absent fields. Returns true if anything is left.
fn is_there(value: &mut Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(fields) => {
            let empty = fields.is_empty();
            fields.retain(|_, value| is_there(value));
            empty || !fields.is_empty()
        }
        Value::Array(values) => {
            for value in values {
                is_there(value);
            }
            true
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_null_is_not_there() {
        let given =
            json!({"a": null, "b": {"c": null}, "d": {}, "e": [null, {"f": null}], "stats_parsed": {"g": 1}});
        let fields: UnknownFields = serde_json::from_value(given).unwrap();
        assert_eq!(
            serde_json::to_value(fields).unwrap(),
            json!({"d": {}, "e": [null, {}]})
        );
    }
}
