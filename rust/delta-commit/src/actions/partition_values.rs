//! Partition values: strings or null. An empty string is null.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A data file's value in each partition column.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionValues(BTreeMap<String, Option<String>>);

/// Returns the stored form of a value. The protocol reads an empty string as null, so null is written for both.
#[must_use]
pub fn partition_value(value: Option<&str>) -> Option<&str> {
    value.filter(|text| !text.is_empty())
}

impl PartitionValues {
    /// The value of `column`: none when this is no partition column, `Some(None)` for null.
    #[must_use]
    pub fn get(&self, column: &str) -> Option<Option<&str>> {
        self.0.get(column).map(Option::as_deref)
    }

    /// Sets the value of `column`; an empty string becomes null.
    pub fn insert(&mut self, column: impl Into<String>, value: Option<&str>) {
        self.0
            .insert(column.into(), partition_value(value).map(str::to_owned));
    }

    /// Columns and values, by column name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.0.iter().map(|(k, v)| (k.as_str(), v.as_deref()))
    }

    /// Returns true if the file has no partition columns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K: Into<String>, V: AsRef<str>> FromIterator<(K, Option<V>)> for PartitionValues {
    fn from_iter<I: IntoIterator<Item = (K, Option<V>)>>(values: I) -> Self {
        let mut collected = Self::default();
        for (column, value) in values {
            collected.insert(column, value.as_ref().map(AsRef::as_ref));
        }
        collected
    }
}

impl Serialize for PartitionValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PartitionValues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = BTreeMap::<String, Option<String>>::deserialize(deserializer)?;
        Ok(values.into_iter().collect())
    }
}
