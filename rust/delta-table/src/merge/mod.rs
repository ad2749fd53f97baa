//! Merge of rows into a table by keys: rows of the table whose key a source row has are updated or deleted, and source
//! rows whose key no row has are inserted.
//!
//! The source is in memory. Files that can hold none of its keys, by partition values and statistics, are not read.

mod bounds;
mod keys;
mod rows;
mod source;

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_schema::SchemaRef;
use delta_commit::actions::Add;
use delta_commit::{Operation, Version};
use parquet_writer::{Batch, WriterOptions};
use roaring::RoaringTreemap;
use serde_json::json;

use crate::error::{Result, TableError};
use crate::head::Head;
use crate::row_change::{Counts, Dependence, PendingChange, RowChange};
use crate::scan::{Found, NumberedRows, Question, chosen};
use crate::schema::Column;
use crate::table::Table;

use keys::{Groups, Keys};
use rows::MergedRows;
use source::Source;

/// The options of a merge.
#[derive(Debug, Clone, Default)]
pub struct MergeOptions {
    /// The columns whose values are the key. Keys with a null equal no other.
    pub on: Vec<String>,
    /// Columns that matched rows take from the source. The default is all that the source has.
    pub update: Option<Vec<String>>,
    /// The matched rows that are deleted. They are not updated.
    pub delete: MatchedDelete,
    /// True if source rows that match none are inserted.
    pub insert: bool,
    /// A note for the history.
    pub user_metadata: Option<String>,
}

/// The matched rows that a merge deletes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum MatchedDelete {
    /// None.
    #[default]
    Never,
    /// All.
    Always,
    /// Those whose source row has true in this column. Such source rows are not inserted. The column is stored only
    /// where the table has it too.
    Where(String),
}

impl MatchedDelete {
    fn flag(&self) -> Option<&str> {
        match self {
            Self::Where(column) => Some(column),
            Self::Never | Self::Always => None,
        }
    }
}

impl Table {
    /// Finds the rows of the table whose keys source rows have, and writes the files of a merge. Returns the version that
    /// was read, and no merge where nothing changes.
    ///
    /// Rows leave their files as those of [`prepare_delete`](Self::prepare_delete) do. Updated and inserted rows are in
    /// new files.
    ///
    /// # Errors
    /// [`TableError::Option`] when the key, or a column to update, is none, or several source rows match one row of the
    /// table; [`CommitError::Schema`](delta_commit::CommitError::Schema) when source rows do not fit the table;
    /// [`CommitError::Unsupported`](delta_commit::CommitError::Unsupported) when the table has a change data feed;
    /// [`WriteError::Interrupted`](parquet_writer::WriteError::Interrupted) when `go_on` said no.
    pub fn prepare_merge(
        &self,
        schema: &SchemaRef,
        rows: &[Batch],
        options: &MergeOptions,
        writer_options: &WriterOptions,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(Version, Option<PendingChange>)> {
        let mut change = RowChange::begin(self, None, writer_options)?;
        change.snapshot().check_rewritable()?;
        let key = key_columns(change.snapshot(), &options.on)?;
        let source = Source::of(change.snapshot(), schema, rows, options)?;
        let updated = updated_columns(&source, options)?;
        if options.delete != MatchedDelete::Never || !updated.is_empty() {
            change.snapshot().check_removable("merge()")?;
        }
        check_keys(change.snapshot(), &key, &source)?;
        let keys = Keys::new(&key)?;
        let groups = Groups::of(&keys, &source, &options.on)?;
        let terms = bounds::terms(&key, &source)?;
        let question = Question::of_terms(change.snapshot(), terms);
        let mut search = Search {
            options,
            updates: !updated.is_empty(),
            rows: NumberedRows::new(
                &change.shared().place,
                change.snapshot(),
                key,
                question.of_rows.clone(),
            )?,
            keys,
            source,
            groups,
            pairs: HashMap::new(),
            read: Vec::new(),
            counts: Counts::default(),
        };
        for add in question.files(change.snapshot())? {
            search.file(&mut change, add, go_on)?;
        }
        change.scanned();
        search.counts.inserted = search.source.inserted(&search.groups, options.insert);
        let version = change.snapshot().version;
        if change.is_empty() && search.counts.inserted == 0 {
            return Ok((version, None));
        }
        let operation = operation(options, &search);
        let dependence = Dependence {
            predicate: question.predicate(),
            files: std::mem::take(&mut search.read),
        };
        let counts = search.counts;
        let mut new = MergedRows::new(change.snapshot(), search, &updated);
        let pending = change.prepare(operation, dependence, counts, Some(&mut new), go_on)?;
        Ok((version, Some(pending)))
    }
}

/// The columns of the key.
fn key_columns(head: &Head, on: &[String]) -> Result<Vec<Column>> {
    if on.is_empty() {
        return Err(TableError::option(
            "on",
            "on names no column: name those whose values are the key",
        ));
    }
    if let Some((at, name)) = on.iter().enumerate().find(|(at, name)| on[..*at].contains(*name)) {
        let message = format!(
            "on names the column {name:?} twice, as number {}: name it once",
            at + 1
        );
        return Err(TableError::option("on", message));
    }
    chosen(head, Some(on))
}

/// Refuses empty texts in partition columns of the key. Delta stores them as nulls, which equal no key: each merge of such
/// a row would insert it again.
fn check_keys(head: &Head, key: &[Column], source: &Source) -> Result<()> {
    for column in key.iter().filter(|column| head.is_partition_column(column)) {
        let Some(place) = source.place(&column.name) else {
            continue;
        };
        let mut texts = source
            .column(place)
            .filter_map(|array| array.as_string_opt::<i32>());
        if texts.any(|array| array.iter().flatten().any(str::is_empty)) {
            return Err(TableError::option(
                "on",
                format!(
                    "the key has an empty text in the partition column {:?}: Delta stores it as null, which equals no \
                     key; give null for a row that is to be inserted, or another text",
                    column.name
                ),
            ));
        }
    }
    Ok(())
}

/// The columns that matched rows take from the source.
fn updated_columns(source: &Source, options: &MergeOptions) -> Result<Vec<String>> {
    let names = match &options.update {
        None => source.names(),
        Some(names) => {
            for name in names {
                source.place(name).ok_or_else(|| {
                    let message = format!(
                        "update names the column {name:?}, which the source does not have: its columns are {}",
                        source.names().join(", ")
                    );
                    TableError::option("update", message)
                })?;
            }
            names.clone()
        }
    };
    // They are equal already.
    Ok(names
        .into_iter()
        .filter(|name| !options.on.contains(name))
        .collect())
}

/// The search for rows of the table whose keys source rows have.
struct Search<'a> {
    options: &'a MergeOptions,
    /// True if matched rows that are not deleted are updated.
    updates: bool,
    rows: NumberedRows,
    keys: Keys,
    source: Source,
    groups: Groups,
    /// The source rows of the rows that are updated, in the order of those in their file: each a batch and a row of it.
    pairs: HashMap<String, Vec<(usize, usize)>>,
    /// Files of which matched rows stay as they are, and no row leaves.
    read: Vec<String>,
    counts: Counts,
}

impl Search<'_> {
    /// Finds the matches of a file, and what becomes of them.
    fn file(
        &mut self,
        change: &mut RowChange<'_>,
        add: Arc<Add>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let (keys, groups) = (&self.keys, &self.groups);
        let mut matches: Vec<(u64, usize)> = Vec::new();
        let (rows, deleted) = self.rows.each(&add, go_on, &mut |first, batch, deleted| {
            let keys = keys.of(batch.columns())?;
            for row in 0..batch.num_rows() {
                let number = first + row as u64;
                if let Some(key) = keys.get(row)
                    && let Some(group) = groups.find(key)
                    && !deleted.contains(number)
                {
                    matches.push((number, group));
                }
            }
            Ok(())
        })?;
        let mut found = Found {
            rows,
            deleted,
            matching: RoaringTreemap::new(),
        };
        let mut changed = RoaringTreemap::new();
        let mut pairs = Vec::new();
        let mut stays = false;
        for (row, group) in matches {
            let (batch, source_row) = self.take_match(group)?;
            if self.deletes(batch, source_row) {
                found.matching.insert(row);
                self.counts.deleted += 1;
            } else if self.updates {
                found.matching.insert(row);
                changed.insert(row);
                pairs.push((batch, source_row));
                self.counts.updated += 1;
            } else {
                stays = true;
            }
        }
        if !pairs.is_empty() {
            self.pairs.insert(add.path.clone(), pairs);
        }
        if stays && found.matching.is_empty() {
            self.read.push(add.path.clone());
        }
        // That a row is there kept a source row from being inserted: nobody may mark it beside this merge.
        change.touch(add, found, changed, !stays)
    }

    /// The source row of a group that matches a row of the table.
    ///
    /// # Errors
    /// [`TableError::Option`] when there are several, of which each would do something else.
    fn take_match(&mut self, group: usize) -> Result<(usize, usize)> {
        let group = self.groups.matched(group);
        let is_plain = self.options.delete == MatchedDelete::Always
            || (self.options.delete == MatchedDelete::Never && !self.updates);
        if group.rows > 1 && !is_plain {
            let (batch, row) = group.first;
            let message = format!(
                "{} rows of the source have the key {}, which a row of the table has too: give one of them, so that it is \
                 certain which of their values the row gets",
                group.rows,
                self.source.key_text(&self.options.on, batch, row)
            );
            return Err(TableError::option("source", message));
        }
        Ok(group.first)
    }

    fn deletes(&self, batch: usize, row: usize) -> bool {
        match self.options.delete {
            MatchedDelete::Never => false,
            MatchedDelete::Always => true,
            MatchedDelete::Where(_) => self.source.is_flagged(batch, row),
        }
    }
}

/// The operation with parameters and counts for the history, by delta-spark's names.
fn operation(options: &MergeOptions, search: &Search<'_>) -> Operation {
    let mut operation = Operation::new("MERGE");
    operation.user_metadata.clone_from(&options.user_metadata);
    let keys = options.on.iter();
    let keys: Vec<String> = keys
        .map(|name| format!("(target.{name} = source.{name})"))
        .collect();
    let mut matched = Vec::new();
    let mut insert = json!({"actionType": "insert"});
    match &options.delete {
        MatchedDelete::Never => {}
        MatchedDelete::Always => matched.push(json!({"actionType": "delete"})),
        MatchedDelete::Where(flag) => {
            matched.push(json!({"predicate": format!("source.{flag}"), "actionType": "delete"}));
            insert = json!({"predicate": format!("(NOT source.{flag})"), "actionType": "insert"});
        }
    }
    if search.updates {
        matched.push(json!({"actionType": "update"}));
    }
    let inserts = if options.insert { vec![insert] } else { Vec::new() };
    for (name, value) in [
        ("predicate", json!([keys.join(" AND ")])),
        ("matchedPredicates", json!(matched)),
        ("notMatchedPredicates", json!(inserts)),
        ("notMatchedBySourcePredicates", json!([])),
    ] {
        operation.parameters.insert(name.to_owned(), value.to_string());
    }
    let Counts {
        inserted,
        updated,
        deleted,
    } = search.counts;
    for (name, count) in [
        ("numSourceRows", search.source.rows()),
        ("numTargetRowsInserted", inserted),
        ("numTargetRowsUpdated", updated),
        ("numTargetRowsDeleted", deleted),
        ("numTargetRowsMatchedUpdated", updated),
        ("numTargetRowsMatchedDeleted", deleted),
        ("numTargetRowsNotMatchedBySourceUpdated", 0),
        ("numTargetRowsNotMatchedBySourceDeleted", 0),
    ] {
        operation.metrics.insert(name.to_owned(), count.to_string());
    }
    operation
}
