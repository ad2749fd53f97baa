//! Files that are written, and read back by the `parquet` crate. One program, since each compiles a reader of its own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bloom;
mod chunking;
mod common;
mod content_defined;
mod encryption;
mod logical_types;
mod memory;
mod nested;
mod verify;
