//! The memory of all writers of the process, and whether much of it was freed.
//!
//! Writers that are open side by side leave a heap of holes when they are closed: the allocator gives none of it back
//! to the system. 100 writers of 52 columns leave 1,000 MB. Giving it back costs a page fault for each page that is
//! used again, so it is worth it only where the memory of all writers has fallen far below its peak.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::pages::Compressor;

/// Bytes of all open writers, and the most of them since memory was last given back.
static OPEN: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The least fall that counts. A few writers, one after the other, use the memory of those before.
const MUCH: usize = 64 << 20;

/// The bytes that one writer holds at most.
#[derive(Debug, Default)]
pub(crate) struct Footprint(usize);

impl Footprint {
    /// Notes the most bytes that the writer has held.
    pub fn note(&mut self, peak: usize) {
        let more = peak.saturating_sub(self.0);
        if more > 0 {
            self.0 = peak;
            let open = OPEN.fetch_add(more, Ordering::Relaxed) + more;
            PEAK.fetch_max(open, Ordering::Relaxed);
        }
    }
}

impl Drop for Footprint {
    fn drop(&mut self) {
        let open = OPEN.fetch_sub(self.0, Ordering::Relaxed);
        if self.0 > 0 && open == self.0 {
            Compressor::free_idle();
        }
    }
}

/// Returns true if the memory of all writers has fallen to half of its peak, and by much. Begins a new peak then: the
/// caller gives free memory back to the system.
#[must_use]
pub fn was_much_freed() -> bool {
    let (open, peak) = (OPEN.load(Ordering::Relaxed), PEAK.load(Ordering::Relaxed));
    let fell = peak.saturating_sub(open) >= MUCH.max(open);
    // One thread of several that find it.
    let begin_anew = || PEAK.compare_exchange(peak, open, Ordering::Relaxed, Ordering::Relaxed);
    fell && begin_anew().is_ok()
}
