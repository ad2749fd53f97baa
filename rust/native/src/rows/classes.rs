//! The Python classes of cells, looked up once.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use crate::rows::clock::matches_layout;

/// Python classes and constants, looked up once.
pub(crate) struct Classes {
    pub datetime: Py<PyType>,
    pub date: Py<PyType>,
    pub time: Py<PyType>,
    pub timedelta: Py<PyType>,
    pub timezone: Py<PyType>,
    pub zone_info: Py<PyType>,
    pub decimal: Py<PyType>,
    pub uuid: Py<PyType>,
    /// 1970-01-01, in UTC and without a zone.
    pub epoch_utc: Py<PyAny>,
    pub epoch_local: Py<PyAny>,
    /// True if datetimes are laid out as `Clock` reads them.
    pub known_layout: bool,
}

static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();

impl Classes {
    pub fn get(py: Python<'_>) -> PyResult<&'static Self> {
        CLASSES.get_or_try_init(py, || Self::find(py))
    }

    fn find(py: Python<'_>) -> PyResult<Self> {
        let module = py.import("datetime")?;
        let class = |module: &Bound<'_, PyModule>, name: &str| -> PyResult<Py<PyType>> {
            Ok(module.getattr(name)?.cast_into::<PyType>()?.unbind())
        };
        let datetime = class(&module, "datetime")?;
        let utc = module.getattr("timezone")?.getattr("utc")?;
        let local = datetime.bind(py).call1((1970, 1, 1))?;
        let zoned = datetime.bind(py).call1((1970, 1, 1, 0, 0, 0, 0, &utc))?;
        let known_layout = matches_layout(datetime.bind(py), &utc)?;
        Ok(Self {
            datetime,
            date: class(&module, "date")?,
            time: class(&module, "time")?,
            timedelta: class(&module, "timedelta")?,
            timezone: class(&module, "timezone")?,
            zone_info: class(&py.import("zoneinfo")?, "ZoneInfo")?,
            decimal: class(&py.import("decimal")?, "Decimal")?,
            uuid: class(&py.import("uuid")?, "UUID")?,
            epoch_utc: zoned.unbind(),
            epoch_local: local.unbind(),
            known_layout,
        })
    }
}

/// The values that stand for a missing one in pandas: `NaT` and `NA`.
static MISSING: PyOnceLock<[Py<PyAny>; 2]> = PyOnceLock::new();

/// Returns true if a value stands for a missing one in pandas. No value does unless pandas has been imported.
pub(crate) fn is_missing(value: &Bound<'_, PyAny>) -> bool {
    let missing = MISSING.get_or_try_init(value.py(), || missing(value.py()));
    missing.is_ok_and(|missing| missing.iter().any(|missing| missing.is(value)))
}

fn missing(py: Python<'_>) -> PyResult<[Py<PyAny>; 2]> {
    let pandas = py.import("sys")?.getattr("modules")?.get_item("pandas")?;
    Ok([pandas.getattr("NaT")?.unbind(), pandas.getattr("NA")?.unbind()])
}
