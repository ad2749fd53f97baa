//! The statistics of a data file, as far as conditions ask for them ("Per-file Statistics" in Delta's PROTOCOL.md).
//!
//! A file of fifty columns has kilobytes of statistics, and a plan looks at those of every file. Only the columns that
//! some condition names become values; all others are skipped while the text is read.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

/// Statistics of some columns of a file. Empty where they cannot be read.
#[derive(Default)]
pub(crate) struct FileStats(Map<String, Value>);

impl FileStats {
    /// Parses the statistics of the top-level columns that `wants` accepts.
    pub fn parse(text: &str, wants: &dyn Fn(&str) -> bool) -> Self {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let parsed = Sections(wants).deserialize(&mut deserializer);
        let whole = parsed.and_then(|stats| deserializer.end().map(|()| stats));
        Self(whole.unwrap_or_default())
    }

    /// The number of rows, whether or not a deletion vector leaves some out.
    pub fn rows(&self) -> Option<i64> {
        self.0.get("numRecords").and_then(Value::as_i64)
    }

    /// One statistic of a column, such as `minValues`.
    pub fn get(&self, section: &str, column: &[String]) -> Option<&Value> {
        let section = self.0.get(section)?;
        column.iter().try_fold(section, |value, name| value.get(name))
    }
}

/// A key of a JSON object, borrowed unless it has escapes.
#[derive(Deserialize)]
struct StatsKey<'a>(#[serde(borrow)] Cow<'a, str>);

/// The sections of the statistics: numbers, and objects with a value for each column.
struct Sections<'a>(&'a dyn Fn(&str) -> bool);

impl<'de> DeserializeSeed<'de> for Sections<'_> {
    type Value = Map<String, Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Sections<'_> {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the statistics of a file")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut sections: A) -> Result<Self::Value, A::Error> {
        let mut kept = Map::new();
        while let Some(StatsKey(name)) = sections.next_key()? {
            let value = match name.as_ref() {
                "numRecords" => sections.next_value()?,
                "minValues" | "maxValues" | "nullCount" => sections.next_value_seed(StatsSection(self.0))?,
                _ => {
                    sections.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            kept.insert(name.into_owned(), value);
        }
        Ok(kept)
    }
}

/// One section: a value for each column.
struct StatsSection<'a>(&'a dyn Fn(&str) -> bool);

impl<'de> DeserializeSeed<'de> for StatsSection<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StatsSection<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a value for each column")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut columns: A) -> Result<Value, A::Error> {
        let mut kept = Map::new();
        while let Some(StatsKey(name)) = columns.next_key()? {
            if (self.0)(&name) {
                kept.insert(name.into_owned(), columns.next_value()?);
            } else {
                columns.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Value::Object(kept))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn leaf() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<i64>().prop_map(Value::from),
            "[a-c\"\\\\é]{0,3}".prop_map(Value::from),
            Just(Value::Null),
            btree_map("[ab\"]", any::<i32>(), 0..3).prop_map(|fields| json!(fields)),
        ]
    }

    fn section() -> impl Strategy<Value = Value> {
        btree_map("[abc\"\\\\é]{1,2}", leaf(), 0..6).prop_map(|columns| json!(columns))
    }

    proptest! {
        #[test]
        fn what_is_kept_is_what_a_whole_parse_finds(
            rows in any::<i64>(),
            sections in vec(section(), 3),
            wanted in vec("[abc\"\\\\é]{1,2}", 0..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let whole = json!({
                "numRecords": rows,
                "minValues": sections[0],
                "maxValues": sections[1],
                "nullCount": sections[2],
                "tightBounds": true,
            });
            let text = whole.to_string();
            let wants = |name: &str| wanted.iter().any(|other| other == name);
            let stats = FileStats::parse(&text, &wants);
            prop_assert_eq!(stats.rows(), Some(rows));
            for name in &wanted {
                for section in ["minValues", "maxValues", "nullCount"] {
                    let path = std::slice::from_ref(name);
                    prop_assert_eq!(stats.get(section, path), whole[section].get(name));
                    let field = [name.clone(), "a".to_owned()];
                    prop_assert_eq!(stats.get(section, &field), whole[section].get(name).and_then(|v| v.get("a")));
                }
            }
            // A text that is cut says nothing.
            let ends = text.char_indices().map(|(at, _)| at).collect::<Vec<_>>();
            let cut = FileStats::parse(&text[..ends[cut.index(ends.len())]], &wants);
            prop_assert_eq!(cut.rows(), None);
        }
    }
}
