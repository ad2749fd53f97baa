//! Partition values: texts or null, as the log has them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A data file's value in each partition column.
///
/// The empty text is kept apart from null. The protocol ("Partition Value Serialization") writes null for it, but some
/// writers do not, and Spark reads their empty texts as such in columns of text.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PartitionValues(BTreeMap<String, Option<String>>);

/// Returns the form in which a value is written: null for the empty text.
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

    /// Sets the value of `column`.
    pub fn insert(&mut self, column: impl Into<String>, value: Option<&str>) {
        self.0.insert(column.into(), value.map(str::to_owned));
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

    /// The values as they are written: null for empty texts.
    #[must_use]
    pub fn written(self) -> Self {
        let values = self.0.into_iter();
        Self(
            values
                .map(|(column, value)| (column, value.filter(|text| !text.is_empty())))
                .collect(),
        )
    }
}

impl<K: Into<String>, V: AsRef<str>> FromIterator<(K, Option<V>)> for PartitionValues {
    fn from_iter<I: IntoIterator<Item = (K, Option<V>)>>(values: I) -> Self {
        let values = values.into_iter();
        Self(
            values
                .map(|(column, value)| (column.into(), value.map(|text| text.as_ref().to_owned())))
                .collect(),
        )
    }
}
