//! The Python module `spillway._native`: conversion and the GIL, nothing else.

use pyo3::prelude::*;

#[pymodule]
mod _native {}
