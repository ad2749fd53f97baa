//! Rebases an append onto a newer state of the table, if its files are valid there.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use delta_commit::WaitLimit;
use delta_commit::clustering::without_statistics;

use crate::append::data_writer::target_schema;
use crate::append::{Append, AppendState, Merged};
use crate::change_feed;
use crate::constraints;
use crate::detached::{self, DetachedFiles, check_new};
use crate::error::{Result, TableError};
use crate::head::TableHead;
use crate::mapping::Mapping;
use crate::schema::{TableColumn, TableSchema};
use crate::single_flight::WaitProbe;
use crate::table::{or_late, patient};

impl Append {
    pub(super) fn rebase_in_time(&mut self, wait: &mut WaitLimit<'_>) -> Result<bool> {
        let done = self.rebase(&mut patient(wait));
        done.map_err(|error| or_late(error, wait))
    }

    /// Rebases the append on the table's present state, if the rows fit it as they were written.
    ///
    /// An append that merges schemas accepts any present schema, since two appends may add the same column at once.
    /// Other appends go on only if nothing but properties changed.
    pub(super) fn rebase(&mut self, look: WaitProbe<'_>) -> Result<bool> {
        // What is replaced was chosen in the version that was read.
        if self.writer.options.replace.is_some() {
            return Ok(false);
        }
        let app_id = self.writer.options.app_transaction.as_ref();
        let app_id = app_id.map(|(app_id, _)| app_id.as_str());
        let (head, app_version) = if self.attached.is_empty() {
            match app_id {
                Some(app_id) => self.shared.progress(app_id, look)?,
                None => (self.shared.refresh(look)?, None),
            }
        } else {
            // The committer compares paths with later versions only: another append may have added them before.
            let table = self.shared.snapshot(look)?;
            for part in &self.attached {
                check_new(part, &HashSet::new(), &table)?;
            }
            let app_version = app_id.and_then(|app_id| table.transaction_version(app_id));
            let head = Arc::clone(&table.head);
            self.known = Some(table);
            (head, app_version)
        };
        let before = &self.writer.head;
        if !(self.writer.options.merge_schema || is_same_but_for_properties(before, &head)?) {
            return Ok(false);
        }
        head.check_writable()?;
        // Nobody has compared the rows with a constraint that came since.
        if !constraints::are_of(before, &head) {
            return Ok(false);
        }
        if head.metadata.partition_columns != before.metadata.partition_columns
            || head.metadata.id != before.metadata.id
        {
            return Err(TableError::schema(
                "the table was replaced while the append was under way: write the rows again",
            ));
        }
        if app_version != self.app_version {
            return Ok(false);
        }
        if let AppendState::Written(written) = &self.state
            && without_statistics(&written.adds, &head.stored_clustering()?).is_some()
        {
            return Ok(false);
        }
        let all = self.written();
        let mut columns = all.iter().flat_map(|written| &written.columns);
        let is_found = |column: &TableColumn| head.mapping.finds(&head.schema.columns, column);
        if !columns.all(|column| holds_as_written(&head.schema, column) && is_found(column)) {
            return Ok(false);
        }
        let (schema, changes) = self.schema_with_rows(&head)?;
        if before.mapping != Mapping::None || head.mapping != Mapping::None {
            // Its files already contain physical names and ids. A column that was renamed or dropped meanwhile would
            // come back as a new one, and the ids of new columns may have been taken by another writer.
            let is_same = head.mapping == before.mapping && changes == self.writer.changes_schema();
            if !is_same || (changes && !head.has_ids_of(before)) {
                return Ok(false);
            }
        }
        if let Some(open) = &mut self.writer.open {
            open.schema = schema;
            open.changes_schema = changes;
        }
        self.read_version = head.version;
        self.writer.head = head;
        Ok(true)
    }

    /// The columns of all files: those of this process, and those of each attached part.
    pub(super) fn written(&self) -> Vec<Cow<'_, TableSchema>> {
        let own = self.writer.open.as_ref().map(|open| Cow::Owned(open.written()));
        let attached = self
            .attached
            .iter()
            .filter_map(DetachedFiles::schema)
            .map(Cow::Borrowed);
        own.into_iter().chain(attached).collect()
    }

    /// The table's schema with all rows of the append in it; true if it differs from that of `head`.
    ///
    /// # Errors
    /// An error if the table cannot hold them. It may have got a change data feed since they were written.
    pub(super) fn schema_with_rows(&self, head: &TableHead) -> Result<(Arc<TableSchema>, bool)> {
        let (schema, changes) = self.merged_schema(head)?;
        if changes {
            change_feed::check_columns(&head.metadata, &schema)?;
        }
        Ok((schema, changes))
    }

    fn merged_schema(&self, head: &TableHead) -> Result<(Arc<TableSchema>, bool)> {
        if self.attached.is_empty() {
            return Ok(match &self.writer.open {
                Some(open) => target_schema(
                    head,
                    &head.schema,
                    &open.written(),
                    self.writer.options.merge_schema,
                )?,
                None => (Arc::clone(&head.schema), false),
            });
        }
        let all = self.written();
        let mut schema = Arc::clone(&head.schema);
        for written in &all {
            schema = target_schema(head, &schema, written, self.writer.options.merge_schema)?.0;
        }
        for written in &all {
            check_one_type(&schema, written)?;
        }
        let changes = schema != head.schema;
        Ok((schema, changes))
    }

    /// The table's schema with one more part in it. Parts that are attached already are not checked again: a merge only
    /// adds columns and fields, which their files may lack.
    pub(super) fn merged_with(&self, part: &DetachedFiles) -> Result<Merged> {
        let has_own = self.writer.open.is_some();
        let mut schema = match &self.merged {
            Some(merged) if merged.has_own == has_own => Arc::clone(&merged.schema),
            _ => self.schema_with_rows(&self.writer.head)?.0,
        };
        if let Some(written) = part.schema() {
            let merge = self.writer.options.merge_schema;
            schema = target_schema(&self.writer.head, &schema, written, merge)?.0;
            check_one_type(&schema, written)?;
        }
        Ok(Merged { schema, has_own })
    }
}

/// Returns true if files written for `before` are valid in `after`: the same table, protocol, schema and clustering,
/// and no further constraint. Clustering columns decide which statistics a file must have.
fn is_same_but_for_properties(before: &TableHead, after: &TableHead) -> Result<bool> {
    Ok(detached::Basis::of(before)?.is_valid_in(&detached::Basis::of(after)?))
}

/// Returns true if the files' column can be read as the table's column once that has the new fields. Files are not
/// rewritten.
fn holds_as_written(schema: &TableSchema, column: &TableColumn) -> bool {
    schema.column(&column.name).is_none_or(|now| {
        let merged = now.kind.merged(&column.kind);
        (now.nullable || !column.nullable)
            && merged.is_some_and(|merged| merged.is_evolved_from(&column.kind))
    })
}

pub(super) fn check_one_type(schema: &TableSchema, written: &TableSchema) -> Result<()> {
    let mut columns = written.columns.iter();
    match columns.find(|column| !holds_as_written(schema, column)) {
        Some(column) => {
            let name = &column.name;
            let has_nulls = schema
                .column(name)
                .is_some_and(|now| !now.nullable && column.nullable);
            let why = if has_nulls {
                format!(
                    "the column {name:?} of the table accepts no nulls, and files of the append may have some"
                )
            } else {
                format!(
                    "the parts of the append have different types in the column {name:?}: give it one type in all of \
                     them"
                )
            };
            Err(TableError::column(name, why))
        }
        None => Ok(()),
    }
}
