//! The columns that files have statistics for.

use delta_commit::actions::Metadata;

use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::schema::TableSchema;

/// The number of leaf columns that have statistics, unless the table's properties say otherwise.
const FIRST_COLUMNS: i64 = 32;

const NUMBER: &str = "delta.dataSkippingNumIndexedCols";
const NAMES: &str = "delta.dataSkippingStatsColumns";

/// The leaf columns that files have statistics for.
///
/// These are the columns of `delta.dataSkippingStatsColumns`, or else the first ones, as many as
/// `delta.dataSkippingNumIndexedCols` says. Clustering columns are always among them, as the protocol requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatsColumns(Vec<bool>);

impl StatsColumns {
    /// # Errors
    /// [`delta_commit::CommitError::Unsupported`] when the table's names or its clustering cannot be understood.
    pub fn of(head: &TableHead, schema: &TableSchema) -> Result<Self> {
        let clustering = head.clustering()?;
        let mut indexed = Self::by_properties(&head.metadata, schema)?;
        let leaves = schema.leaves(&head.metadata.partition_columns);
        for (is_indexed, leaf) in indexed.0.iter_mut().zip(&leaves) {
            *is_indexed |= clustering.iter().any(|column| *column == leaf.path);
        }
        Ok(indexed)
    }

    /// The columns that the table's properties choose, whatever it is clustered by.
    ///
    /// # Errors
    /// [`delta_commit::CommitError::Unsupported`] when the table's names cannot be understood.
    pub fn by_properties(metadata: &Metadata, schema: &TableSchema) -> Result<Self> {
        let property = |name: &str| metadata.configuration.get(name);
        let named = match property(NAMES) {
            Some(text) => Some(parse(text).ok_or_else(|| {
                TableError::unsupported(format!(
                    "the property {NAMES}={text:?} cannot be understood: give names of columns, separated by commas"
                ))
            })?),
            None => None,
        };
        let first = property(NUMBER)
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(FIRST_COLUMNS);
        let leaves = schema.leaves(&metadata.partition_columns);
        let chosen = (0..).zip(&leaves).map(|(index, leaf): (i64, _)| match &named {
            Some(named) => named.iter().any(|name| begins(&leaf.path, name)),
            None => first < 0 || index < first,
        });
        Ok(Self(chosen.collect()))
    }

    /// All of so many leaf columns.
    pub fn all(leaves: usize) -> Self {
        Self(vec![true; leaves])
    }

    /// Returns true if the leaf column of this number, in the order of [`TableSchema::leaves`], is one of them.
    pub fn has(&self, leaf: usize) -> bool {
        self.0.get(leaf).copied().unwrap_or(false)
    }
}

/// Returns true if `path` is the column of this name or lies below it. Names of columns do not differ in case alone.
fn begins(path: &[&str], name: &[String]) -> bool {
    name.len() <= path.len()
        && name
            .iter()
            .zip(path)
            .all(|(name, part)| name == part || name.to_lowercase() == part.to_lowercase())
}

/// Parses a list of paths such as ``a, b.c, `d.e` ``; none when the text is no such list.
pub(crate) fn parse(text: &str) -> Option<Vec<Vec<String>>> {
    let mut names = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let mut name = Vec::new();
        loop {
            let part;
            (part, rest) = part_of_name(rest)?;
            name.push(part);
            match rest.strip_prefix('.') {
                Some(after) => rest = after,
                None => break,
            }
        }
        names.push(name);
        rest = match rest.trim_start() {
            "" => "",
            more => more
                .strip_prefix(',')
                .map(str::trim_start)
                .filter(|more| !more.is_empty())?,
        };
    }
    Some(names)
}

/// Splits off one part of a name, quoted or not.
fn part_of_name(text: &str) -> Option<(String, &str)> {
    let Some(mut quoted) = text.strip_prefix('`') else {
        let end = text.find(['.', ',']).unwrap_or(text.len());
        let (part, rest) = text.split_at(end);
        let part = if rest.starts_with('.') {
            part
        } else {
            part.trim_end()
        };
        return (!part.is_empty() && !part.contains('`')).then(|| (part.to_owned(), rest));
    };
    let mut part = String::new();
    loop {
        let (before, rest) = quoted.split_once('`')?;
        part.push_str(before);
        // A quote that is doubled is a part of the name.
        match rest.strip_prefix('`') {
            Some(more) => {
                part.push('`');
                quoted = more;
            }
            None => return (!part.is_empty()).then_some((part, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_spark_writes_them() {
        let names =
            |text| parse(text).map(|names| names.into_iter().map(|name| name.join("/")).collect::<Vec<_>>());
        assert_eq!(names("").unwrap(), Vec::<String>::new());
        assert_eq!(names(" a ,b.c").unwrap(), ["a", "b/c"]);
        assert_eq!(names("`a.b`,`c``d`.e , `f,g`").unwrap(), ["a.b", "c`d/e", "f,g"]);
        for odd in ["a,", ",a", "a..b", "`a", "``", "a`b`", "`a`b", "a,,b"] {
            assert_eq!(names(odd), None, "{odd}");
        }
    }
}
