//! Where logs lie.

mod local;
mod sync;

pub use local::LocalLogStore;
