//! Uploads of Parquet files as objects of S3, Google Cloud Storage or Azure.
//!
//! [`Target`] parses a URL and its options. [`ObjectSink`] uploads in parts while the file is written, and completes
//! the upload at its end; before that, readers see nothing. [`StoreFolder`] is for data that consists of many objects,
//! some of which may be created but never replaced. [`HeldUploads`] are uploads of many files that appear together, and
//! [`DatasetObjects`] are those of a dataset. [`PendingObjects`] leave their completion to another process. [`watch`]
//! records the date and the status of answers. [`scrub`] keeps secrets out of messages. [`runtime`] runs the requests.

mod copies;
mod dataset;
mod folder;
mod held;
mod journal;
mod parts;
mod pending;
mod runtime;
mod scrub;
mod sink;
mod tail;
mod target;
mod upload;
mod watch;

pub use dataset::DatasetObjects;
pub use folder::{
    Created, FailureKind, Listed, ListedObject, Location, ObjectVersion, RequestFailure, StoreFolder, Tagged,
};
pub use held::{HeldSink, HeldUploads, Incomplete};
pub use pending::{Detached, PendingObjects};
pub use sink::{Attend, ObjectSink, Refusal, refuse_reading_back};
pub use target::Target;
pub use upload::PendingUpload;
