//! Delta tables on S3, Google Cloud Storage and Azure.
//!
//! [`Objects`] is a [`TableStorage`](delta_table::TableStorage) for `delta-table`, and its log is a
//! [`LogStore`](delta_commit::LogStore) for the committer. A version is an object that a conditional PUT creates once
//! and whole. Announcements are objects under `_spillway/intents/`, and the store's own clock gives their ages.

mod log;
mod objects;
mod whole;

pub use objects::Objects;
