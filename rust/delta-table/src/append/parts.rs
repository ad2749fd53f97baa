//! Rows of several processes in one append: files are detached where they are written, and attached where they are
//! committed.

use std::sync::Arc;

use delta_commit::announced_files;
use delta_commit::log::{LoggedSize, UnsyncedFile};

use crate::append::data_writer::OpenWriter;
use crate::append::{Append, AppendState};
use crate::detached::{DetachedFiles, check_new, is_known, stray_files};
use crate::error::{Result, TableError};
use crate::mapping::Mapping;

impl Append {
    /// Completes the files and closes the append without a commit. Another append can [`attach`](Self::attach) the
    /// files by the returned bytes. They survive a crash of this machine: the process that commits them can sync only
    /// what its own machine has.
    ///
    /// # Errors
    /// [`TableError::Option`] when the append has an option that only a commit can follow. After any other error it is
    /// closed and its files are gone.
    pub fn detach(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<Vec<u8>> {
        self.refuse_if_closed()?;
        self.check_detachable()?;
        let done = self.detached(go_on);
        if done.is_ok() {
            self.state = AppendState::Closed("was detached");
        } else {
            self.fail();
        }
        done.map_err(|error| self.shared.or_replaced(error))
    }

    fn check_detachable(&self) -> Result<()> {
        let options = &self.writer.options;
        let of_commit = [
            ("app_id", options.app_transaction.is_some()),
            ("mode", options.replace.is_some()),
            ("user_metadata", options.user_metadata.is_some()),
            ("coalesce", options.coalesce),
        ];
        if let Some((option, _)) = of_commit.iter().find(|(_, given)| *given) {
            return Err(TableError::option(
                option,
                format!("{option} goes with the append that commits: leave it out where rows are detached"),
            ));
        }
        if self.writer.changes_schema() && self.writer.head.mapping != Mapping::None {
            return Err(TableError::refused(
                "the rows have columns that the table lacks, and the table has column mapping: each append would give \
                 them other ids. Add the columns first, by an append of no rows with schema_mode=\"merge\"",
            ));
        }
        if !self.attached.is_empty() {
            return Err(TableError::refused(
                "the append has parts of others: attach them to the append that commits",
            ));
        }
        Ok(())
    }

    fn detached(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<Vec<u8>> {
        let written = self.writer.finish(go_on)?;
        if !self.shared.storage.keeps() {
            let files = written.adds.iter().map(|add| UnsyncedFile {
                path: add.path.clone(),
                size: LoggedSize::Exactly(add.size),
            });
            let synced = self
                .shared
                .storage
                .log_store()
                .sync_data(&files.collect::<Vec<_>>());
            synced.into_iter().collect::<Result<(), _>>()?;
        }
        let columns = self.writer.open.as_ref().map(OpenWriter::written);
        DetachedFiles::new(&self.writer.head, columns.as_ref(), written)?.to_bytes()
    }

    /// Takes over files that another process wrote for this table, as if this append had written them: its commit adds
    /// them, and its end without one removes them.
    ///
    /// # Errors
    /// [`TableError::Option`] when the bytes are not those of [`detach`](Self::detach), or of another table.
    /// [`CommitError`](delta_commit::CommitError): `Conflict` when the table changed since they were written, `Schema`
    /// when the rows do not fit the table or the other rows of this append, and `DuplicateFile` when the table or this
    /// append has the files already. The append can go on without the part.
    pub fn attach(&mut self, part: &[u8]) -> Result<()> {
        self.refuse_if_closed()?;
        if self.writer.options.coalesce {
            return Err(TableError::option(
                "coalesce",
                "coalesce goes with rows that this process writes: leave it out where parts are attached",
            ));
        }
        let mut part = DetachedFiles::parse(part)?;
        part.check(&self.writer.head, self.writer.options.merge_schema)
            .map_err(|error| self.shared.or_replaced(error))?;
        let known = match &self.known {
            Some(known) => Arc::clone(known),
            None => self.shared.snapshot(&mut self.shared.looking())?,
        };
        if self.is_repeated {
            // These may be the very files that the table has.
            part.adds.retain(|add| !is_known(add, &known));
        }
        check_new(&part, &self.taken, &known)?;
        self.merged = Some(self.merged_with(&part)?);
        self.known = Some(known);
        let paths = part.adds.iter().map(|add| add.normal_path().into_owned());
        self.taken.extend(paths);
        self.attached.push(part);
        Ok(())
    }

    /// Removes the files of attached parts, except those that the table has by another append's commit, and those that
    /// another process has announced: it, or any other, may still commit them.
    pub(super) fn remove_attached(&mut self) {
        let attached = std::mem::take(&mut self.attached);
        if attached.iter().all(|part| part.adds.is_empty()) {
            return;
        }
        // Where the log or the announcements cannot be read, the files stay: no reader sees them. What is announced no
        // more may be in the table, which is read afterwards.
        let storage = &self.shared.storage;
        let Ok(announced) = announced_files(storage.log_store().as_ref(), &self.tried) else {
            return;
        };
        if let Ok(table) = self.shared.snapshot(&mut self.shared.looking()) {
            let adds = attached.iter().flat_map(|part| &part.adds);
            storage.remove(&stray_files(adds, &table, &announced));
        }
    }
}
