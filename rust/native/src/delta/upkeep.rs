//! Compactions, and removals that go on after them.

use delta_table::{CompactOptions, Compacted, Table, TableError};
use parquet_writer::WriterOptions;

use crate::errors::Failure;

use super::attention::Caller;

/// Does work anew as long as rows that only moved to other files are in its way.
pub(super) fn anew<T>(mut work: impl FnMut() -> Result<T, TableError>) -> Result<T, TableError> {
    loop {
        match work() {
            Err(error) if error.is_of_moved_rows() => {}
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
    while let Some(pending) = writer.wait(|_, go_on| compaction.rewrite(go_on))? {
        let mut next = Compacted::default();
        committer.anew().commit(|patience, _| {
            next = pending.commit(patience)?;
            Ok(next.version)
        })?;
        all.include(next);
    }
    Ok(all)
}
