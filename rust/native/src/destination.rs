//! A `spillway._destination.Destination` as a sink: Python code makes the file appear or removes it.

use std::io::{self, Write};

use parquet_writer::sink::Sink;
use pyo3::prelude::*;

use crate::file_object::FileObject;
use crate::turn::keeping_raised;

/// The file, and the object that completes or discards it.
pub(crate) struct Destination {
    file: FileObject,
    object: Py<PyAny>,
    process: u32,
    done: bool,
}

impl Destination {
    /// Takes a `Destination`; `None` for an object of another class, even one with methods of the same names.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let class = object
            .py()
            .import("spillway._destination")?
            .getattr("Destination")?;
        Ok(object.is_instance(&class)?.then(|| Self {
            file: FileObject::new(object.clone()),
            object: object.clone().unbind(),
            process: std::process::id(),
            done: false,
        }))
    }
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Destination {
    fn commit(&mut self) -> io::Result<()> {
        let committed = Python::attach(|py| self.object.call_method0(py, "commit").map(|_| ()));
        match committed {
            Ok(()) => self.done = true,
            Err(_) => self.discard(),
        }
        committed.map_err(io::Error::other)
    }

    fn discard(&mut self) {
        if self.done || self.process != std::process::id() {
            return;
        }
        self.done = true;
        // At the interpreter's end there is nobody left to call.
        let _ = Python::try_attach(|py| {
            keeping_raised(py, || {
                if let Err(error) = self.object.call_method0(py, "discard") {
                    error.write_unraisable(py, Some(self.object.bind(py)));
                }
            });
        });
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        self.discard();
    }
}
