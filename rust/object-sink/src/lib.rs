//! A Parquet file as an object of S3, Google Cloud Storage or Azure.
//!
//! [`Target`] reads a URL and its options, [`ObjectSink`] uploads in parts while the file is written and completes the
//! upload at its end: before that, no reader sees anything. [`Folder`] is for what consists of many objects, some of
//! which may only be created and never replaced; [`watch`] notes what answers say beside their bodies. [`scrub`] keeps secrets out of messages, and [`runtime`]
//! drives the requests.

mod folder;
mod parts;
mod runtime;
mod scrub;
mod sink;
mod target;
mod watch;

pub use folder::{Created, Failure, FailureKind, Folder, Found, Location};
pub use sink::{Attend, ObjectSink, Refusal};
pub use target::Target;
