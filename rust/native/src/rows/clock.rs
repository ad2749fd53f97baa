//! Direct access to datetimes: reading their eight attributes would cost more than all other cells of a row.
//!
//! The stable ABI has no interface for datetimes, but every `CPython` from 3.11 on lays them out alike. The layout is
//! verified: where a few known datetimes do not read back, attributes are used instead.

use arrow_schema::TimeUnit;
use pyo3::ffi;
use pyo3::prelude::*;
use rows::Instant;

use crate::rows::classes::Classes;

/// The size of a datetime with a zone, and the offsets of its parts.
const SIZE: usize = 48;
const HAS_ZONE: usize = 24;
const CLOCK: usize = 25;
const CLOCK_BYTES: usize = 10;
const ZONE: usize = 40;
/// Zones that are remembered in one call.
const MOST_ZONES: usize = 16;

/// Reads datetimes, and remembers zones with a constant offset from UTC.
pub(crate) struct Clock {
    trusted: bool,
    /// Each zone with its seconds east of UTC.
    zones: Vec<(Py<PyAny>, i64)>,
}

impl Clock {
    pub fn new(classes: &Classes) -> Self {
        Self {
            trusted: classes.known_layout,
            zones: Vec::new(),
        }
    }

    /// The ticks of a datetime of exactly that class; none where its attributes must be read.
    #[inline]
    pub fn ticks(&self, datetime: *mut ffi::PyObject, unit: TimeUnit, zoned: bool) -> Option<i64> {
        if !self.trusted {
            return None;
        }
        let (instant, zone) = read(datetime);
        if instant.zoned != zoned {
            return None;
        }
        let east = if zoned {
            self.zones.iter().find(|(known, _)| known.as_ptr() == zone)?.1
        } else {
            0
        };
        Instant {
            seconds: instant.seconds - east,
            ..instant
        }
        .ticks(unit)
    }

    /// Remembers the zone of a datetime, if the zone's class guarantees a constant offset.
    pub fn learn(&mut self, datetime: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = datetime.py();
        let zone = datetime.getattr("tzinfo")?;
        let known = self.zones.iter().any(|(known, _)| known.is(&zone));
        if zone.is_none() || known || self.zones.len() == MOST_ZONES {
            return Ok(());
        }
        let class = zone.get_type();
        let classes = Classes::get(py)?;
        if !class.is(&classes.timezone) && !class.is(&classes.zone_info) {
            return Ok(());
        }
        let offset = zone.call_method1("utcoffset", (py.None(),))?;
        let whole = !offset.is_none() && offset.getattr("microseconds")?.extract::<i64>()? == 0;
        if whole {
            let days: i64 = offset.getattr("days")?.extract()?;
            let seconds: i64 = offset.getattr("seconds")?.extract()?;
            self.zones.push((zone.unbind(), days * 86_400 + seconds));
        }
        Ok(())
    }
}

/// Reads a datetime's clock, and its zone if it has one.
#[inline]
fn read(datetime: *mut ffi::PyObject) -> (Instant, *mut ffi::PyObject) {
    let start = datetime.cast::<u8>().cast_const();
    // SAFETY: the object is a datetime and somebody holds it; `matches_layout` has found these places to be what they
    // are called, and the zone's place is read only where there is one.
    #[expect(unsafe_code, reason = "a fiftieth of the time that its attributes take")]
    let (has_zone, clock, zone) = unsafe {
        let has_zone = start.add(HAS_ZONE).read() != 0;
        let clock = start.add(CLOCK).cast::<[u8; CLOCK_BYTES]>().read();
        let zone = if has_zone {
            start.add(ZONE).cast::<*mut ffi::PyObject>().read_unaligned()
        } else {
            std::ptr::null_mut()
        };
        (has_zone, clock, zone)
    };
    let [y1, y0, month, day, hour, minute, second, u2, u1, u0] = clock.map(u32::from);
    let date = (y1 << 8 | y0, month, day);
    let micros = u2 << 16 | u1 << 8 | u0;
    (
        Instant::of_clock(date, (hour, minute, second), micros, has_zone),
        zone,
    )
}

/// Checks the memory layout by reading back known datetimes.
pub(crate) fn matches_layout(class: &Bound<'_, PyAny>, utc: &Bound<'_, PyAny>) -> PyResult<bool> {
    let size: usize = class.getattr("__basicsize__")?.extract()?;
    if size != SIZE || size_of::<usize>() != 8 {
        return Ok(false);
    }
    for (date, time, micros) in [
        ((1970, 1, 1), (0, 0, 0), 0),
        ((1, 2, 3), (4, 5, 6), 7),
        ((9999, 12, 31), (23, 59, 59), 999_999),
        ((2026, 11, 21), (13, 5, 59), 0x01_02_03),
    ] {
        let (year, month, day) = date;
        let (hour, minute, second) = time;
        let parts = (year, month, day, hour, minute, second, micros);
        let expected = |zoned| Instant::of_clock(date, time, micros, zoned);
        let zoned = class.call1((year, month, day, hour, minute, second, micros, utc))?;
        if read(zoned.as_ptr()) != (expected(true), utc.as_ptr()) {
            return Ok(false);
        }
        if read(class.call1(parts)?.as_ptr()).0 != expected(false) {
            return Ok(false);
        }
    }
    Ok(true)
}
