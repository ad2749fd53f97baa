//! A Python object with `write()` as a destination of bytes.

use std::io::{self, Write};

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes};

/// A file object. It takes the GIL for each call and for nothing else.
pub(crate) struct FileObject(Py<PyAny>);

impl FileObject {
    pub fn new(object: Bound<'_, PyAny>) -> Self {
        Self(object.unbind())
    }
}

impl FileObject {
    /// A file object that does not say how much it took has all of it; but a raw file, which is not blocking then, has
    /// nothing (`io.RawIOBase.write`).
    fn took_all(&self, py: Python<'_>) -> io::Result<()> {
        let raw = py.import("io").and_then(|io| io.getattr("RawIOBase"));
        let is_raw = raw.and_then(|raw| self.0.bind(py).is_instance(&raw));
        if is_raw.map_err(io::Error::other)? {
            return Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                "the file does not block, and takes no more bytes now: pass a blocking or a buffered file",
            ));
        }
        Ok(())
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
            if written.is_none() {
                return self.took_all(py).map(|()| bytes.len());
            }
            match written.extract::<usize>() {
                Ok(count) if (1..=bytes.len()).contains(&count) && !written.is_instance_of::<PyBool>() => {
                    Ok(count)
                }
                _ => Err(io::Error::other(format!(
                    "write() was given {} bytes and returned {}: it has to return how many it took, or None for all",
                    bytes.len(),
                    written
                        .repr()
                        .map_or_else(|_| String::new(), |text| text.to_string()),
                ))),
            }
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
