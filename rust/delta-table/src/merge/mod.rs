//! Merge of a source into a table by keys: clauses update or delete rows of the table whose key a source row has,
//! insert source rows whose key no row has, and update or delete rows whose key no source row has.
//!
//! The source is in memory. Files that can hold none of its keys, by partition values and statistics, are not read,
//! unless a clause is about rows that no source row matches.

mod bounds;
mod clauses;
mod condition;
mod history;
mod keys;
mod rows;
mod search;
mod source;

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_schema::SchemaRef;
use delta_commit::Version;
use parquet_writer::{Batch, WriterOptions};

use crate::conditions::is_char;
use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::row_change::{Dependence, PendingChange, RowChange};
use crate::scan::{NumberedRows, Question, chosen};
use crate::schema::TableColumn;
use crate::table::Table;
use crate::values::Evaluate;

use clauses::Clause;
use condition::ClauseCondition;
use keys::{Groups, KeyConverter};
use rows::MergedRows;
use search::{MergeCounts, Search};
use source::MergeSource;

pub use clauses::{ClauseKind, Expressions, MergeClause, MergeCondition, MergeValues};

/// The options of a merge.
#[derive(Debug, Clone, Default)]
pub struct MergeOptions {
    /// The columns whose values are the key. Keys with a null equal no other.
    pub on: Vec<String>,
    /// The clauses. Of those of a kind, the first one whose condition is true applies.
    pub clauses: Vec<MergeClause>,
    /// A note for the history.
    pub user_metadata: Option<String>,
}

impl MergeOptions {
    fn has(&self, kind: ClauseKind) -> bool {
        self.clauses.iter().any(|clause| clause.kind == kind)
    }
}

impl Table {
    /// Finds the rows that clauses apply to, and writes the files of a merge. Returns the version that was read, and no
    /// merge where nothing changes. `evaluate` answers the expressions of the clauses.
    ///
    /// Rows leave their files as those of [`prepare_delete`](Self::prepare_delete) do. Updated and inserted rows are in
    /// new files.
    ///
    /// # Errors
    /// [`TableError::Option`] when the key, or a clause, names a column that is not there, a clause never applies, or
    /// several source rows would change one row of the table;
    /// [`CommitError::Schema`](delta_commit::CommitError::Schema) when source rows or new values do not fit the table;
    /// [`WriteError::Interrupted`](parquet_writer::WriteError::Interrupted) when `go_on` said no; as `evaluate`.
    pub fn prepare_merge(
        &self,
        schema: &SchemaRef,
        rows: &[Batch],
        options: &MergeOptions,
        evaluate: &mut Evaluate<'_>,
        writer_options: &WriterOptions,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(Version, Option<PendingChange>)> {
        clauses::check(&options.clauses)?;
        let mut change = RowChange::begin(self, None, writer_options)?;
        let (mut search, question) = search_of(&change, schema, rows, options)?;
        for add in question.files(change.snapshot())? {
            search.file(&mut change, add, evaluate, go_on)?;
        }
        let insertions = search.insertions(evaluate)?;
        change.scanned();
        let version = change.snapshot().version;
        if change.is_empty() && insertions.is_empty() {
            return Ok((version, None));
        }
        let operation = history::operation(options, search.source.rows(), search.tally);
        let dependence = Dependence {
            predicate: question.predicate(),
            files: std::mem::take(&mut search.read),
        };
        let counts = search.tally.counts();
        let mut new = MergedRows::new(change.snapshot(), search, insertions, evaluate);
        let pending = change.prepare(operation, dependence, counts, Some(&mut new), go_on)?;
        Ok((version, Some(pending)))
    }
}

/// The search of a merge, and the conditions on the rows that it reads: those with a key of the source, or with clauses
/// about rows that no source row matches, all.
fn search_of<'a>(
    change: &RowChange<'_>,
    schema: &SchemaRef,
    rows: &[Batch],
    options: &'a MergeOptions,
) -> Result<(Search<'a>, Question)> {
    let (shared, snapshot) = (change.shared(), change.snapshot());
    let key = key_columns(snapshot, &options.on)?;
    let conditions = ClauseCondition::of_clauses(snapshot, schema, options)?;
    let source = MergeSource::of(snapshot, schema, rows, options, &conditions)?;
    let clauses = options.clauses.iter().zip(conditions);
    let clauses =
        clauses.map(|(clause, condition)| Clause::of(snapshot, &source, clause, condition, &options.on));
    let clauses = clauses.collect::<Result<Vec<_>>>()?;
    if clauses
        .iter()
        .any(|clause| clause.kind != ClauseKind::NotMatched && !clause.is_idle())
    {
        snapshot.check_removable("merge()")?;
    }
    check_keys(snapshot, &key, &source)?;
    let keys = KeyConverter::new(&key)?;
    let groups = Groups::of(&keys, &source, &options.on)?;
    let question = if options.has(ClauseKind::NotMatchedBySource) {
        Question::default()
    } else {
        Question::of_condition(snapshot, bounds::condition(&key, &source)?)
    };
    let columns = read_columns(snapshot, key, &clauses)?;
    let search = Search {
        on: &options.on,
        clauses,
        rows: NumberedRows::new(&shared.storage, snapshot, columns, question.of_rows.cover.clone())?,
        keys,
        source,
        groups,
        updates: HashMap::new(),
        read: Vec::new(),
        tally: MergeCounts::default(),
    };
    Ok((search, question))
}

/// The columns that a search reads: those of the key, and then others that conditions name.
fn read_columns(head: &TableHead, key: Vec<TableColumn>, clauses: &[Clause]) -> Result<Vec<TableColumn>> {
    let mut columns = key;
    for name in clauses.iter().flat_map(Clause::target_of_condition) {
        if columns.iter().all(|column| column.name != *name) {
            columns.extend(chosen(head, Some(std::slice::from_ref(name)))?);
        }
    }
    Ok(columns)
}

/// The columns of the key.
fn key_columns(head: &TableHead, on: &[String]) -> Result<Vec<TableColumn>> {
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
    let key = chosen(head, Some(on))?;
    match key.iter().find(|column| is_char(column)) {
        None => Ok(key),
        Some(column) => Err(TableError::refused(format!(
            "on names the column {:?}, which has the type char, whose spaces engines compare differently",
            column.name
        ))),
    }
}

/// Refuses empty texts in partition columns of the key. Delta stores them as nulls, which equal no key: each merge of
/// such a row would insert it again.
fn check_keys(head: &TableHead, key: &[TableColumn], source: &MergeSource) -> Result<()> {
    for column in key.iter().filter(|column| head.is_partition_column(column)) {
        let Some(place) = source.place(&column.name) else {
            continue;
        };
        let mut texts = source
            .column(place)
            .iter()
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
