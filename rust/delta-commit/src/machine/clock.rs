//! The store's clock, as the listings of intents tell it.

use crate::log::Time;

/// The last reading of the store's clock.
#[derive(Debug, Clone, Default)]
pub(super) struct StoreClock {
    /// The store's time in milliseconds since the epoch, and this machine's monotonic time by then.
    told: Option<(i64, u64)>,
}

impl StoreClock {
    /// Takes the store's time, which an answer had that arrived now.
    pub(super) fn set(&mut self, store: i64, now: Time) {
        self.told = Some((store, now.monotonic));
    }

    /// The store's time, or an earlier one, since the answer took its time. None before the first listing.
    pub(super) fn at(&self, now: Time) -> Option<i64> {
        let (store, then) = self.told?;
        let passed = now.monotonic.saturating_sub(then);
        Some(store.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX)))
    }
}
