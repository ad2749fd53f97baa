//! A Python object with `write()` as a destination of bytes.

use std::io::{self, Write};

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A file object. It takes the GIL for each call and for nothing else.
pub(crate) struct FileObject(Py<PyAny>);

impl FileObject {
    pub fn new(object: Bound<'_, PyAny>) -> Self {
        Self(object.unbind())
    }
}

impl Write for FileObject {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Python::attach(|py| {
            let written = self
                .0
                .bind(py)
                .call_method1("write", (PyBytes::new(py, bytes),))
                .map_err(io::Error::other)?;
            // Raw files say how much they took; a file object that says nothing took all of it.
            let written = written
                .extract::<Option<usize>>()
                .map_err(io::Error::other)?
                .unwrap_or(bytes.len());
            if written > bytes.len() {
                return Err(io::Error::other(format!(
                    "write() took {} bytes and says {written}",
                    bytes.len()
                )));
            }
            Ok(written)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Python::attach(
            |py| match self.0.bind(py).getattr_opt("flush").map_err(io::Error::other)? {
                Some(flush) => flush.call0().map(|_| ()).map_err(io::Error::other),
                None => Ok(()),
            },
        )
    }
}
