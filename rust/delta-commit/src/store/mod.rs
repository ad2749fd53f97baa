//! The stores of the log on a local file system.

mod entries;
mod local;
mod o_tmpfile;
mod sync;

pub use local::LocalLogStore;
