//! The stores of the log on a local file system.

mod local;
mod sync;

pub use local::LocalLogStore;
