//! Small objects that name uploads, so that those of a process that was killed can be found.

use object_store::PutPayload;
use object_store::path::Path;

use crate::target::Target;
use crate::upload::Upload;

/// The objects that name the uploads of one writer: each holds the store's name of an upload, a line feed, and the path
/// of the upload's object below a root.
pub(crate) struct Journal {
    /// The folder of the objects.
    target: Target,
    root: String,
    written: usize,
}

impl Journal {
    pub fn new(target: Target, root: String) -> Self {
        Self {
            target,
            root,
            written: 0,
        }
    }

    /// The folder of the objects.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The path and the body of the object that names an upload.
    pub fn entry(&mut self, upload: &Upload) -> (Path, PutPayload) {
        let path = self.target.path.clone().join(format!("{:05}", self.written));
        self.written += 1;
        let name = upload.path().as_ref();
        let name = name.strip_prefix(&self.root).unwrap_or(name);
        let body = format!("{}\n{}", upload.id(), name.trim_start_matches('/'));
        (path, PutPayload::from(body.into_bytes()))
    }
}
