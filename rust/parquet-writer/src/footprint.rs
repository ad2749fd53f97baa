//! The memory of all writers of the process, and whether much of it was freed.
//!
//! Writers that are open side by side leave a heap of holes when they are closed: the allocator gives none of it back
//! to the system. 100 writers of 52 columns leave 1,000 MB. Giving it back costs a page fault for each page that is
//! used again, so it is worth it only where the memory of all writers has fallen far below its peak.

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use per_process::PerProcess;

use crate::pages::Compressor;

/// The bytes of all open writers, and the most of them since memory was last given back.
#[derive(Debug, Default)]
struct Memory {
    open: AtomicUsize,
    peak: AtomicUsize,
}

/// A forked child counts its own writers only: those that it inherits stay open in its parent.
static MEMORY: PerProcess<Memory> = PerProcess::new();

fn memory() -> &'static Memory {
    MEMORY.get_or_init(Memory::default)
}

/// The least fall that counts. A few writers, one after the other, use the memory of those before.
const MUCH: usize = 64 << 20;

/// The bytes that one writer holds at most.
#[derive(Debug, Default)]
pub(crate) struct Footprint {
    bytes: usize,
    /// The memory that they count towards, once there are some.
    memory: Option<&'static Memory>,
}

impl Footprint {
    /// Notes the most bytes that the writer has held.
    pub fn note(&mut self, peak: usize) {
        let more = peak.saturating_sub(self.bytes);
        if more > 0 {
            self.bytes = peak;
            let memory = self.memory.get_or_insert_with(memory);
            let open = memory.open.fetch_add(more, Ordering::Relaxed) + more;
            memory.peak.fetch_max(open, Ordering::Relaxed);
        }
    }
}

impl Drop for Footprint {
    fn drop(&mut self) {
        let Some(own) = self.memory else { return };
        let open = own.open.fetch_sub(self.bytes, Ordering::Relaxed);
        if open == self.bytes && ptr::eq(own, memory()) {
            Compressor::free_idle();
        }
    }
}

/// Returns true if the memory of all writers has fallen to half of its peak, and by much. Begins a new peak then: the
/// caller gives free memory back to the system.
#[must_use]
pub fn was_much_freed() -> bool {
    let Memory { open, peak } = memory();
    let (open, highest) = (open.load(Ordering::Relaxed), peak.load(Ordering::Relaxed));
    let fell = highest.saturating_sub(open) >= MUCH.max(open);
    // One thread of several that find it.
    let begin_anew = || peak.compare_exchange(highest, open, Ordering::Relaxed, Ordering::Relaxed);
    fell && begin_anew().is_ok()
}
