//! A Parquet file as an object of S3, Google Cloud Storage or Azure.
//!
//! [`Target`] reads a URL and its options, [`ObjectSink`] uploads in parts while the file is written and completes the
//! upload at its end: before that, no reader sees anything. [`scrub`] keeps secrets out of messages, and [`runtime`]
//! drives the requests.

mod parts;
mod runtime;
mod scrub;
mod sink;
mod target;

pub use sink::{Attend, ObjectSink, Refusal};
pub use target::Target;
