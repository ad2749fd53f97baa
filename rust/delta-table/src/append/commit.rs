//! Commits an append: builds its transaction and handles the result.

use delta_commit::actions::{Action, Metadata, Txn};
use delta_commit::{CommitError, MemberId, Operation, Transaction, Version, WaitLimit};
use parquet_writer::WriteError;

use crate::append::coalesce::SmallAppend;
use crate::append::data_writer::WrittenFiles;
use crate::append::{Append, AppendState, Replaced};
use crate::buffered_rows::BufferedRows;
use crate::clock::now;
use crate::create::is_quicker;
use crate::error::{Result, TableError};
use crate::group_commit;
use crate::head::TableHead;
use crate::operations::remove_chosen;
use crate::schema::TableSchema;

impl Append {
    /// Completes the files and commits them.
    ///
    /// Returns their version, which survives a crash; without rows, the version that was read.
    ///
    /// # Errors
    /// [`CommitError::Unknown`] when it is not known yet whether they are in the table: their files stay. After every
    /// other error they certainly are not, and their files are gone.
    pub fn commit(&mut self, wait: &mut WaitLimit<'_>, go_on: &mut dyn FnMut() -> bool) -> Result<Version> {
        self.commit_noted(wait, go_on, &|| {})
    }

    /// Commits likewise, and calls back when the files are complete and may be in the table from then on.
    pub(crate) fn commit_noted(
        &mut self,
        wait: &mut WaitLimit<'_>,
        go_on: &mut dyn FnMut() -> bool,
        tries: &dyn Fn(),
    ) -> Result<Version> {
        self.refuse_if_closed()?;
        if self.is_repeated {
            return self.commit_nothing();
        }
        let done = self.commit_rows(wait, go_on, tries);
        self.end(done)
    }

    /// Ends an append whose rows the table has.
    pub(super) fn commit_nothing(&mut self) -> Result<Version> {
        // Its writer may have died before the version survived a crash.
        self.shared.sync_log(self.read_version)?;
        self.remove_attached();
        self.state = AppendState::Committed(self.read_version);
        Ok(self.read_version)
    }

    /// Closes the append with the result of its commit.
    pub(super) fn end(&mut self, done: Result<Version>) -> Result<Version> {
        self.state = match &done {
            Ok(version) => AppendState::Committed(*version),
            Err(TableError::Commit(CommitError::Unknown { .. })) => AppendState::Closed("is in doubt"),
            Err(error) => {
                if matches!(error, TableError::Exists(_)) {
                    // An append to the table that is there takes them.
                    self.attached.clear();
                }
                self.abort();
                AppendState::Closed("failed before")
            }
        };
        done.map_err(|error| self.shared.or_replaced(error))
    }

    pub(super) fn commit_rows(
        &mut self,
        wait: &mut WaitLimit<'_>,
        go_on: &mut dyn FnMut() -> bool,
        tries: &dyn Fn(),
    ) -> Result<Version> {
        match self.small_append() {
            Ok(append) => {
                return group_commit::commit(&self.shared, append, wait)
                    .unwrap_or_else(|alone| alone.commit(&self.shared, wait, go_on, tries));
            }
            Err(buffered) => self.complete(buffered, go_on)?,
        }
        tries();
        self.prepare()?;
        loop {
            let transaction = self.transaction()?;
            self.tried.push(transaction.id);
            // Should it panic, nobody knows.
            self.in_doubt = true;
            let done = self.shared.commit(transaction, wait);
            if let Some(version) = self.judge(done, wait)? {
                return Ok(version);
            }
        }
    }

    /// Takes buffered rows to share files with those of others. Returns those that cannot.
    pub(super) fn small_append(&mut self) -> Result<SmallAppend, Option<BufferedRows>> {
        let buffered = self.buffered.take().filter(|buffered| !buffered.is_empty());
        let Some(rows) = buffered else {
            return Err(None);
        };
        match self.writer.terms(self.read_version) {
            Some(terms) => Ok(SmallAppend {
                terms: Box::new(terms),
                rows,
            }),
            None => Err(Some(rows)),
        }
    }

    /// Completes the files.
    pub(super) fn complete(
        &mut self,
        buffered: Option<BufferedRows>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        self.writer.take_buffered(buffered, go_on)?;
        let mut written = self.writer.finish(go_on)?;
        for part in &self.attached {
            written.extend(part);
        }
        self.state = AppendState::Written(written);
        Ok(())
    }

    /// Makes the storage of a planned table ready for its first version.
    pub(super) fn prepare(&self) -> Result<()> {
        if self.shared.is_planned {
            self.shared.storage.prepare()?;
        }
        Ok(())
    }

    /// Returns the version that the committer answered with; none where the append is to be committed once more.
    pub(super) fn judge(
        &mut self,
        done: Result<Version>,
        wait: &mut WaitLimit<'_>,
    ) -> Result<Option<Version>> {
        self.in_doubt = matches!(&done, Err(TableError::Commit(CommitError::Unknown { .. })));
        let moved = matches!(&done, Err(TableError::Commit(error)) if is_quicker(error));
        if moved && self.shared.is_planned {
            return Err(TableError::Exists(self.shared.storage.root().to_path_buf()));
        }
        if moved && self.rebase_in_time(wait)? {
            return Ok(None);
        }
        done.map(Some)
    }

    pub(super) fn transaction(&self) -> Result<Transaction> {
        let AppendState::Written(written) = &self.state else {
            return Err(WriteError::Closed("the append has no files yet".into()).into());
        };
        let (schema, changes) = self.schema_with_rows(&self.writer.head)?;
        let mut actions = if self.shared.is_planned {
            first_actions(&self.writer.head, changes)?
        } else {
            Vec::new()
        };
        actions.extend(written.adds.iter().cloned().map(Action::Add));
        if changes {
            actions.extend(metadata_actions(&self.writer.head, &schema)?);
        }
        if let Some((app_id, version)) = &self.writer.options.app_transaction {
            actions.push(Action::Txn(Txn {
                app_id: app_id.clone(),
                version: *version,
                last_updated: Some(now()),
                ..Txn::default()
            }));
        }
        let head = &self.writer.head;
        let mut transaction = Transaction::append(MemberId::random(), self.read_version, actions);
        transaction.isolation = head.isolation()?;
        if !self.shared.storage.keeps() {
            transaction.unsynced = written.adds.iter().map(|add| add.path.clone()).collect();
        }
        if let Some(replaced) = &self.replaced {
            replace(&mut transaction, head, replaced, written)?;
        }
        let operation = &mut transaction.operation;
        operation.metrics.clone_from(&self.metrics);
        describe(operation, head, written);
        operation
            .user_metadata
            .clone_from(&self.writer.options.user_metadata);
        Ok(transaction)
    }
}

/// The actions that give the table another schema.
fn metadata_actions(head: &TableHead, schema: &TableSchema) -> Result<Vec<Action>> {
    let mut actions = Vec::new();
    if schema.has_ntz() && !head.schema.has_ntz() {
        actions
            .extend(crate::create::with_feature(&head.protocol, "timestampNtz", true)?.map(Action::Protocol));
    }
    let mut metadata = Metadata {
        schema_string: schema.to_json(),
        ..head.metadata.as_ref().clone()
    };
    head.mapping.note_highest(&mut metadata, schema);
    actions.push(Action::Metadata(metadata));
    Ok(actions)
}

/// The actions that a planned table begins with.
fn first_actions(head: &TableHead, changes: bool) -> Result<Vec<Action>> {
    if changes {
        return Err(TableError::refused(
            "the rows have columns that the planned table lacks: plan it with all of them",
        ));
    }
    Ok(vec![
        Action::Protocol(head.protocol.clone()),
        Action::Metadata(head.metadata.as_ref().clone()),
    ])
}

/// Turns an append into the replacement of the rows that the conditions choose.
fn replace(
    transaction: &mut Transaction,
    head: &TableHead,
    replaced: &Replaced,
    written: &WrittenFiles,
) -> Result<()> {
    let (conditions, choice) = (&replaced.conditions, &replaced.choice);
    let mut answers = choice.of_partitions(head);
    for add in &written.adds {
        if answers.hold(add)? {
            continue;
        }
        return Err(TableError::option(
            "where",
            format!(
                "the rows for {:?} lie outside of what they replace, {}: leave them out, or append them",
                add.path,
                conditions.describe()
            ),
        ));
    }
    let parameters = &mut transaction.operation.parameters;
    parameters.insert("mode".to_owned(), "Overwrite".to_owned());
    if !conditions.is_empty() {
        parameters.insert("predicate".to_owned(), conditions.describe());
    }
    remove_chosen(transaction, choice.predicate(), &replaced.files);
    Ok(())
}

/// Adds parameters and counts of the written files to the operation, for the history.
fn describe(operation: &mut Operation, head: &TableHead, written: &WrittenFiles) {
    let columns = serde_json::Value::from(head.metadata.partition_columns.clone());
    operation
        .parameters
        .insert("partitionBy".to_owned(), columns.to_string());
    for (name, count) in [
        ("numFiles", written.adds.len() as u64),
        ("numOutputRows", written.rows),
        ("numOutputBytes", written.bytes),
    ] {
        operation.metrics.insert(name.to_owned(), count.to_string());
    }
}
