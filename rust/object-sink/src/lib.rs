//! Uploads of Parquet files as objects of S3, Google Cloud Storage or Azure.
//!
//! [`Target`] parses a URL and its options. [`ObjectSink`] uploads in parts while the file is written, and completes
//! the upload at its end; before that, readers see nothing. [`Folder`] is for data that consists of many objects, some
//! of which may be created but never replaced. [`watch`] records the clock and the status in answers. [`scrub`] keeps
//! secrets out of messages. [`runtime`] runs the requests.

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
