//! The schemas of a range of versions, whose rows are all read in the columns of the last one.

use std::sync::Arc;

use delta_commit::Version;

use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::schema::{TableColumn, TableSchema};

/// The states of a table in a range of versions, as far as its columns are concerned.
pub(super) struct Schemas<'a> {
    /// The state at the last version.
    end: &'a TableHead,
    /// The columns of the last version, with null allowed wherever rows of the range may have it.
    columns: Vec<TableColumn>,
    /// The state at the first version of each schema, in order.
    heads: Vec<TableHead>,
    /// The first version whose rows cannot be read in these columns, and why.
    refused: Option<(Version, String)>,
}

impl<'a> Schemas<'a> {
    pub fn of(end: &'a TableHead) -> Self {
        Self {
            end,
            columns: end.schema.columns.clone(),
            heads: Vec::new(),
            refused: None,
        }
    }

    /// Takes the state from a version on in.
    pub fn take(&mut self, head: &TableHead) {
        let is_same = |known: &TableHead| {
            known.schema == head.schema && known.metadata.partition_columns == head.metadata.partition_columns
        };
        if self.heads.last().is_some_and(is_same) {
            return;
        }
        self.heads.push(head.clone());
        match relaxed(&self.columns, self.end, head) {
            Ok(columns) => self.columns = columns,
            Err(why) => {
                self.refused.get_or_insert((head.version, why));
            }
        }
    }

    /// Takes the state before the first version in, which the rows that leave in it have. Returns it if these cannot be
    /// read in the columns of the last version.
    pub fn take_former(&mut self, former: Arc<TableHead>) -> Option<Arc<TableHead>> {
        match relaxed(&self.columns, self.end, &former) {
            Ok(columns) => {
                self.columns = columns;
                None
            }
            Err(_) => Some(former),
        }
    }

    /// Returns true if the rows of all versions so far can be read.
    pub fn hold_all(&self) -> bool {
        self.refused.is_none()
    }

    /// The state at the last version, with null allowed wherever rows of the range may have it.
    ///
    /// # Errors
    /// [`TableError::Option`] when its columns cannot hold the rows of a version; it names the ranges that can be read.
    pub fn finish(self) -> Result<TableHead> {
        match &self.refused {
            Some((version, why)) => Err(self.crossing(*version, why)),
            None => Ok(TableHead {
                schema: Arc::new(TableSchema {
                    columns: self.columns,
                }),
                ..self.end.clone()
            }),
        }
    }

    fn crossing(&self, version: Version, why: &str) -> TableError {
        let ranges = self.ranges();
        let replaced = ranges.last().map_or(self.end.version, |(first, _)| *first);
        let ranges: Vec<String> = ranges.iter().map(shown).collect();
        TableError::option(
            "last_version",
            format!(
                "the rows of version {version} cannot be read as those of version {}: {why}, since version {replaced} \
                 replaced the schema. Read {}, each by themselves",
                self.end.version,
                ranges.join(" and ")
            ),
        )
    }

    /// The ranges, in order, that can be read in the columns of their last versions.
    fn ranges(&self) -> Vec<(Version, Version)> {
        let mut ranges = Vec::new();
        let mut last = self.end.version;
        let mut heads = self.heads.as_slice();
        while let Some((end, before)) = heads.split_last() {
            let fits = |head: &&TableHead| relaxed(&end.schema.columns, end, head).is_ok();
            let others = before.iter().rev().take_while(fits).count();
            let (before, range) = heads.split_at(before.len() - others);
            let first = range.first().map_or(last, |head| head.version);
            ranges.push((first, last));
            last = first - 1;
            heads = before;
        }
        ranges.reverse();
        ranges
    }
}

fn shown((first, last): &(Version, Version)) -> String {
    if first == last {
        format!("version {first}")
    } else {
        format!("versions {first} to {last}")
    }
}

/// The columns of a last version for rows of another one, too. The error says why they cannot hold them.
fn relaxed(columns: &[TableColumn], end: &TableHead, of: &TableHead) -> Result<Vec<TableColumn>, String> {
    if of.mapping != end.mapping {
        return Err("the table mapped its columns to other names".to_owned());
    }
    if of.metadata.partition_columns != end.metadata.partition_columns {
        return Err("the table was partitioned by other columns".to_owned());
    }
    let is_gone = |column: &&TableColumn| columns.iter().all(|known| known.name != column.name);
    if let Some(gone) = of.schema.columns.iter().find(is_gone) {
        return Err(format!("the column {:?} is gone", gone.name));
    }
    let columns = columns.iter().map(|column| {
        let former = of.schema.column(&column.name);
        column.relaxed(former).ok_or_else(|| {
            format!(
                "the column {:?} was {} and is {}",
                column.name,
                former.map_or_else(String::new, |former| former.kind.to_json().to_string()),
                column.kind.to_json()
            )
        })
    });
    columns.collect()
}
