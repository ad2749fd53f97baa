//! A running count of the bytes of large values, so that the end of a row need not look at every column.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The size from which on a value is counted. Smaller ones cost nothing here.
pub(crate) const LARGE: usize = 1 << 10;
/// A rough size of an element of a list.
const ITEM_BYTES: usize = 8;

/// The bytes of large values since the last look, shared by all columns of some rows. Only one thread has the rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct LargeValues(Arc<AtomicUsize>);

impl LargeValues {
    #[inline(never)]
    pub(crate) fn add(&self, bytes: usize) {
        self.0
            .store(self.bytes().saturating_add(bytes), Ordering::Relaxed);
    }

    /// Counts a list of `items` elements if it is large.
    #[inline]
    pub(crate) fn add_items(&self, items: usize) {
        if items > LARGE / ITEM_BYTES {
            self.add(items * ITEM_BYTES);
        }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
