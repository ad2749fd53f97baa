//! Coalescing appends: commits that meet in one process share files and a transaction, one file per partition.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use delta_commit::{CommitError, Version, WaitLimit};
use parquet_writer::WriterOptions;

use super::{Append, AppendBasis, AppendOptions};
use crate::buffered_rows::{BufferedRows, joined};
use crate::error::{Result, TableError};
use crate::group_commit::{GroupMember, GroupQueue, Grouped, Split};
use crate::head::TableHead;
use crate::table::SharedTable;

/// The properties that appends must have in common to share files.
pub(crate) struct Terms {
    pub head: Arc<TableHead>,
    pub read_version: Version,
    pub schema: SchemaRef,
    pub options: AppendOptions,
    pub writer_options: WriterOptions,
}

impl Terms {
    fn are_those_of(&self, other: &Self) -> bool {
        self.head.metadata.id == other.head.metadata.id
            && self.head.changed_in == other.head.changed_in
            && self.schema == other.schema
            && self.options == other.options
            && self.writer_options == other.writer_options
    }

    /// The append of files with these rows.
    fn written<'a>(
        &self,
        shared: &Arc<SharedTable>,
        rows: impl Iterator<Item = &'a BufferedRows>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Append> {
        let mut append = self.begin(shared)?;
        for batch in &joined(rows)? {
            append.write(batch, go_on)?;
        }
        Ok(append)
    }

    fn begin(&self, shared: &Arc<SharedTable>) -> Result<Append> {
        let (head, version) = shared.base(&mut shared.looking())?;
        let is_same = head.metadata.id == self.head.metadata.id && head.changed_in == self.head.changed_in;
        // Where the table was changed meanwhile, the commit finds that out.
        let (head, version) = if is_same {
            (head, version)
        } else {
            (Arc::clone(&self.head), self.read_version)
        };
        let options = AppendOptions {
            coalesce: false,
            ..self.options.clone()
        };
        let basis = AppendBasis::blind(head, version);
        Append::begin(Arc::clone(shared), basis, options, self.writer_options.clone())
    }
}

/// The rows of an append that is being committed.
pub(crate) struct SmallAppend {
    pub terms: Box<Terms>,
    pub rows: BufferedRows,
}

impl SmallAppend {
    /// Commits the rows in files of their own.
    pub fn commit(
        &self,
        shared: &Arc<SharedTable>,
        wait: &mut WaitLimit<'_>,
        go_on: &mut dyn FnMut() -> bool,
        tries: &dyn Fn(),
    ) -> Result<Version> {
        let mut append = self.terms.written(shared, std::iter::once(&self.rows), go_on)?;
        append.commit_noted(wait, go_on, tries)
    }
}

impl Grouped for SmallAppend {
    const THREAD: &'static str = "spillway-coalesce";
    const MOST_SEEN: usize = usize::MAX;

    type United = Append;

    fn queue(shared: &SharedTable) -> &GroupQueue<Self> {
        &shared.small_appends
    }

    fn joins(&self, group: &[Arc<GroupMember<Self>>]) -> bool {
        group
            .first()
            .is_some_and(|first| self.terms.are_those_of(&first.request.terms))
    }

    fn unite(
        shared: &Arc<SharedTable>,
        group: &[Arc<GroupMember<Self>>],
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Append> {
        let Some(first) = group.first() else {
            return Err(CommitError::Invalid("no append was handed in".to_owned()).into());
        };
        let rows = group.iter().map(|member| &member.request.rows);
        first.request.terms.written(shared, rows, go_on)
    }

    fn commit(
        append: &mut Append,
        _: &Arc<SharedTable>,
        wait: &mut WaitLimit<'_>,
        go_on: &mut dyn FnMut() -> bool,
        tries: &dyn Fn(),
    ) -> Result<Version> {
        append.commit_noted(wait, go_on, tries)
    }

    /// What the rows of one append cause is not the error of the others.
    fn split(error: &CommitError) -> Option<Split> {
        matches!(error, CommitError::Schema { .. } | CommitError::Invalid(_)).then_some(Split::Each)
    }
}

/// Refuses options that appends with shared files cannot have.
pub(crate) fn check(options: &AppendOptions) -> Result<()> {
    if !options.coalesce {
        return Ok(());
    }
    let refused = if options.app_transaction.is_some() {
        "app_id: each of its versions is a commit of its own"
    } else if options.replace.is_some() {
        "rows that it replaces: they are one transaction alone"
    } else {
        return Ok(());
    };
    Err(TableError::option(
        "coalesce",
        format!("coalesce=True is not accepted with {refused}"),
    ))
}
