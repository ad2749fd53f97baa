//! Where logs lie.

mod local;

pub use local::LocalLogStore;
