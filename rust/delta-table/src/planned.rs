//! A planned table: it begins with its first rows, in one version.
//!
//! The plan is the protocol and the metadata of version 0. Many processes write data files by it, and one append
//! commits all of them together with the plan. There is no table before, so that rows which never come leave none.

use std::path::Path;
use std::sync::Arc;

use arrow_schema::Schema;
use delta_commit::actions::{Action, Metadata, Protocol};
use serde::{Deserialize, Serialize};

use crate::create::{CreateOptions, first_actions};
use crate::error::{Result, TableError};
use crate::head::HeadReplay;
use crate::storage::{LocalStorage, TableStorage};
use crate::table::Table;

/// The form of a plan's bytes.
const FORM: u32 = 1;

/// A table that is not there yet.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TablePlan {
    /// The form of these fields.
    #[serde(rename = "deltaTablePlan")]
    form: u32,
    protocol: Protocol,
    metadata: Metadata,
}

impl Table {
    /// Plans a table. Nothing is written: [`planned`](Self::planned) takes the bytes in any process.
    ///
    /// # Errors
    /// [`CommitError::Schema`](delta_commit::CommitError::Schema) when a table cannot hold the schema.
    pub fn plan(schema: &Schema, options: CreateOptions) -> Result<Vec<u8>> {
        let (protocol, metadata) = first_actions(schema, options)?;
        let plan = TablePlan {
            form: FORM,
            protocol,
            metadata,
        };
        serde_json::to_vec(&plan).map_err(|error| TableError::Malformed(format!("the plan: {error}")))
    }

    /// The planned table of a folder. The commit of an append to it creates the table.
    ///
    /// That commit fails with [`TableError::Exists`] when there is a table by then. Parts that were attached keep their
    /// files after this error alone: an append to the table that is there takes them, if it differs from the plan in
    /// its id only.
    ///
    /// # Errors
    /// [`TableError::Option`] when the bytes are not those of [`plan`](Self::plan).
    pub fn planned(root: &Path, plan: &[u8]) -> Result<Self> {
        Self::planned_at(Arc::new(LocalStorage::new(root)?), plan)
    }

    /// The planned table in any storage.
    ///
    /// # Errors
    /// As [`planned`](Self::planned).
    pub fn planned_at(storage: Arc<dyn TableStorage>, plan: &[u8]) -> Result<Self> {
        let plan: TablePlan = serde_json::from_slice(plan)
            .ok()
            .filter(|plan: &TablePlan| plan.form == FORM)
            .ok_or_else(|| {
                TableError::option(
                    "plan",
                    "this is no plan of a table: give the bytes that plan() returned, of the same version of Spillway",
                )
            })?;
        let mut replay = HeadReplay::new();
        for action in [Action::Protocol(plan.protocol), Action::Metadata(plan.metadata)] {
            replay.take(action);
        }
        Ok(Self::planned_as(storage, replay.finish()?))
    }
}
