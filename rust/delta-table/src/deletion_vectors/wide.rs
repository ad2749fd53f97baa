//! Statistics of a file of which rows are marked: bounds that are wide.

use serde_json::Value;

/// The statistics of a file with so many rows, deleted ones too, once some of them are marked.
///
/// Its bounds hold for the rows that are left, and need not be among them: `tightBounds` is false. The other fields
/// stay as they are, to the digit. See "Per-file Statistics" in the protocol.
pub(crate) fn widened(stats: Option<&str>, rows: u64) -> String {
    let mut wide = format!("{{\"numRecords\":{rows},\"tightBounds\":false");
    let is_object = |text: &&str| matches!(serde_json::from_str(text), Ok(Value::Object(_)));
    for (name, value) in stats.filter(is_object).map(fields).unwrap_or_default() {
        if name != "\"numRecords\"" && name != "\"tightBounds\"" {
            wide.push(',');
            wide.push_str(name);
            wide.push(':');
            wide.push_str(value);
        }
    }
    wide.push('}');
    wide
}

/// The names, in quotes, and values of an object that is JSON. A number that is parsed could lose digits.
fn fields(object: &str) -> Vec<(&str, &str)> {
    let inner = object.trim();
    let inner = inner.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let inner = inner.unwrap_or_default();
    let (mut fields, mut start, mut colon) = (Vec::new(), 0, None);
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for (at, byte) in inner.bytes().chain(std::iter::once(b',')).enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b':' if depth == 0 => colon = colon.or(Some(at)),
            b',' if depth == 0 => {
                if let Some(colon) = colon.take() {
                    fields.push((inner[start..colon].trim(), inner[colon + 1..at].trim()));
                }
                start = at + 1;
            }
            _ => {}
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn all_other_fields_stay(
            given in prop::collection::btree_map(any::<String>(), json(), 0..5),
            tight in any::<Option<bool>>(),
            rows in any::<u64>(),
        ) {
            let mut given: serde_json::Map<String, Value> = given.into_iter().collect();
            if let Some(tight) = tight {
                given.insert("tightBounds".to_owned(), tight.into());
            }
            let text = Value::Object(given.clone()).to_string();
            let found: Value = serde_json::from_str(&widened(Some(&text), rows)).unwrap();
            given.insert("tightBounds".to_owned(), false.into());
            given.insert("numRecords".to_owned(), rows.into());
            prop_assert_eq!(found, Value::Object(given));
        }
    }

    #[test]
    fn digits_that_a_double_has_not_stay() {
        let stats =
            r#"{ "numRecords" : 3, "minValues":{"d":0.12345678901234567890123456789} ,"tightBounds":true}"#;
        assert_eq!(
            widened(Some(stats), 3),
            r#"{"numRecords":3,"tightBounds":false,"minValues":{"d":0.12345678901234567890123456789}}"#
        );
        for none in [None, Some(""), Some("[1]"), Some("{")] {
            assert_eq!(widened(none, 7), r#"{"numRecords":7,"tightBounds":false}"#);
        }
    }
}
