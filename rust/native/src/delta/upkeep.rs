//! Operations that are retried where rows only moved: compactions, removals, and reads of all rows.

use delta_commit::Version;
use delta_table::{CompactOptions, Compacted, Compaction, Retry, Table, TableError};
use parquet_writer::WriterOptions;

use crate::errors::Failure;

use super::attention::{Caller, noted};

/// Repeats an operation on a table as long as it conflicts only with rows that moved to other files.
pub(super) fn retried<T>(
    table: &Table,
    mut work: impl FnMut() -> Result<T, TableError>,
) -> Result<T, TableError> {
    let mut retry = Retry::of(table);
    loop {
        match work() {
            Err(error) if retry.should_retry(&error) => {}
            done => return done,
        }
    }
}

/// Adds a constraint. The time of `committer` is that of the commit; the look at all rows may take longer. Rows that
/// moved to other files meanwhile are looked at again.
pub(super) fn constrain(
    table: &Table,
    name: &str,
    expression: &str,
    reader: Caller,
    committer: Caller,
) -> Result<Version, Failure> {
    let mut retry = Retry::of(table);
    loop {
        let pending = reader.wait(|_, go_on| table.prepare_constraint(name, expression, go_on))?;
        match committer.anew().commit(|wait, _| pending.commit(wait)) {
            Err(Failure::Table(error)) if retry.should_retry(&error) => {}
            done => return done,
        }
    }
}

/// Does a compaction. The time of `committer` is that of each commit; files may take longer.
pub(super) fn compact(
    table: &Table,
    options: CompactOptions,
    writer_options: WriterOptions,
    writer: Caller,
    committer: Caller,
) -> Result<Compacted, Failure> {
    let mut compaction = writer.wait(|_, _| table.compact(options, writer_options))?;
    let mut all = Compacted {
        version: compaction.version(),
        ..Compacted::default()
    };
    loop {
        match next(&mut compaction, writer, committer) {
            Ok(Some(done)) => all.include(done),
            Ok(None) => return Ok(all),
            Err(failure) if all.removed_files > 0 => return Err(noted(failure, all.version)),
            Err(failure) => return Err(failure),
        }
    }
}

/// Writes and commits the next version of a compaction.
fn next(
    compaction: &mut Compaction<'_>,
    writer: Caller,
    committer: Caller,
) -> Result<Option<Compacted>, Failure> {
    let Some(pending) = writer.wait(|_, go_on| compaction.rewrite(go_on))? else {
        return Ok(None);
    };
    let mut done = Compacted::default();
    committer.anew().commit(|wait, _| {
        done = pending.commit(wait)?;
        Ok(done.version)
    })?;
    Ok(Some(done))
}
