//! The bytes that large values bring, which a row's end asks for without a look at every column.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The size from which on a value is counted. Smaller ones cost nothing here.
pub(crate) const LARGE: usize = 1 << 10;
/// The bytes of an element of a list, by and large.
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

    /// Adds a list of so many elements, if it is large.
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
