//! Checkpoints: files that replace all versions up to their own.
//!
//! Those that are read ([`read`]) are of all forms of the protocol: one Parquet file, several parts, and the V2 spec,
//! of which a Parquet or JSON file names sidecars with the entries of files. Those that are written ([`write`]) are one
//! Parquet file of the V1 spec, which every table may have ("Checkpoints" in Delta's PROTOCOL.md).

mod actions;
mod cells;
mod foreign_fields;
mod incremental;
mod layout;
mod parsed;
mod read;
mod write;

use std::path::Path;

use delta_commit::Version;

pub(crate) use incremental::{Since, SinceReplay};
pub(crate) use read::{is_readable, is_whole, read, read_head, sidecars_of};
#[cfg(any(test, fuzzing))]
pub(crate) use write::write_actions;
pub(crate) use write::{InPlace, write};

/// Actions that are converted together. Their intermediate forms cost memory: the statistics of a file with fifty
/// columns are 6 kB of text.
const BATCH_ROWS: usize = 512;

const ADD: &str = "add";

/// The column that names files with the actions of a V2 checkpoint. Other checkpoints may have the column, but no
/// values in it.
const SIDECAR: &str = "sidecar";

/// The folder of those files in the log's.
pub(crate) const SIDECARS: &str = "_sidecars";

/// The name of a version's checkpoint.
pub(crate) fn file_name(version: Version) -> String {
    format!("{version:020}.checkpoint.parquet")
}

pub(crate) fn is_json(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end == "json")
}
