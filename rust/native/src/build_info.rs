//! Facts about this build, so that a bench can refuse the wrong one.

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The version, build profile, target and dependencies of the compiled module.
#[pyfunction]
pub(crate) fn build_info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let versions = PyDict::new(py);
    for (name, version) in [
        ("arrow", env!("SPILLWAY_VERSION_arrow_array")),
        ("parquet", env!("SPILLWAY_VERSION_parquet")),
        ("pyo3", env!("SPILLWAY_VERSION_pyo3")),
        ("zstd", env!("SPILLWAY_VERSION_zstd")),
    ] {
        versions.set_item(name, version)?;
    }
    let info = PyDict::new(py);
    info.set_item("version", env!("CARGO_PKG_VERSION"))?;
    info.set_item("profile", env!("SPILLWAY_PROFILE"))?;
    info.set_item("opt_level", env!("SPILLWAY_OPT_LEVEL"))?;
    info.set_item("debug_assertions", cfg!(debug_assertions))?;
    info.set_item("target", env!("SPILLWAY_TARGET"))?;
    let features: Vec<_> = env!("SPILLWAY_TARGET_FEATURES")
        .split(',')
        .filter(|feature| !feature.is_empty())
        .collect();
    info.set_item("features", features)?;
    info.set_item("rustc", env!("SPILLWAY_RUSTC"))?;
    info.set_item("versions", versions)?;
    Ok(info)
}
