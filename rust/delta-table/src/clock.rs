//! Times as Delta's log has them: milliseconds since the epoch.

use std::time::{SystemTime, UNIX_EPOCH};

/// The time of this machine.
pub(crate) fn now() -> i64 {
    millis(SystemTime::now())
}

/// Milliseconds since the epoch.
pub(crate) fn millis(at: SystemTime) -> i64 {
    at.duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or(0)
}
