//! The heap, its lock, and what becomes of both in a forked child.
#![expect(unsafe_code, reason = "an allocator is a set of unsafe functions")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use dlmalloc::Dlmalloc;

use crate::regions::{AddressRange, HUGE_PAGE, Regions, SLOW};

/// Smaller allocations are many and short-lived: the C library has caches of them for each thread.
const LEAST: usize = 4 << 10;

/// From here on they would leave gaps. The C library maps each by itself, and moves it without copying.
const TOO_LARGE: usize = 1 << 20;

/// What every buffer of the heap is aligned to. With more it cannot grow where it is.
const ALIGNMENT: usize = 2 * size_of::<usize>();

static RANGE: AddressRange = AddressRange::new();

static HEAP: Mutex<Dlmalloc<Regions>> = Mutex::new(heap_of(Regions::new(&RANGE, SLOW)));

const fn heap_of(regions: Regions) -> Dlmalloc<Regions> {
    let mut heap = Dlmalloc::new_with_allocator(regions);
    heap.set_granularity(HUGE_PAGE);
    // Scans and snapshots free memory without closing a writer: look for empty regions every 256 frees.
    heap.set_max_release_check_rate(256);
    heap
}

/// The heap, locked. Nothing panics with the lock: what validates sizes is not called.
fn locked() -> MutexGuard<'static, Dlmalloc<Regions>> {
    HEAP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives regions that nothing is in back to the system, but for a few that the next writer finds warm.
pub fn give_back() {
    // SAFETY: the heap is locked.
    unsafe { locked().trim(0) };
}

/// Bytes of the regions, all of which are resident if they are huge pages.
#[must_use]
pub fn mapped_bytes() -> usize {
    locked().allocator().count() * HUGE_PAGE
}

/// Holds the heap over each fork from now on, so that the child finds it whole and unlocked.
pub fn hold_over_forks() {
    static HOLD: Once = Once::new();
    HOLD.call_once(|| {
        // SAFETY: the functions are there as long as the process. Without memory for it, a child that is forked while
        // another thread allocates may wait for ever; nothing else changes.
        unsafe {
            libc::pthread_atfork(
                Some(lock_for_fork),
                Some(unlock_after_fork),
                Some(unlock_after_fork),
            )
        };
    });
}

/// Holds the lock from before a fork until after it, so that the child finds the heap whole and unlocked.
struct Forking(UnsafeCell<Option<MutexGuard<'static, Dlmalloc<Regions>>>>);

// SAFETY: only who holds the lock of the heap looks at it.
unsafe impl Sync for Forking {}

static FORKING: Forking = Forking(UnsafeCell::new(None));

extern "C" fn lock_for_fork() {
    let heap = locked();
    // SAFETY: the heap is locked, by this thread.
    unsafe { *FORKING.0.get() = Some(heap) };
}

extern "C" fn unlock_after_fork() {
    // SAFETY: `lock_for_fork` locked the heap, in this thread or in the one that it is a copy of.
    drop(unsafe { (*FORKING.0.get()).take() });
}

/// Allocations of 4 KiB and more, below 1 MiB, in regions of huge pages, as long as there are some; all others by the C
/// library.
#[derive(Debug, Clone, Copy, Default)]
pub struct HugePageHeap;

const fn is_for_a_region(size: usize) -> bool {
    LEAST <= size && size < TOO_LARGE
}

/// Memory in a region, or null.
///
/// # Safety
/// That of [`GlobalAlloc::alloc`].
unsafe fn in_a_region(layout: Layout) -> *mut u8 {
    if is_for_a_region(layout.size()) {
        // SAFETY: the heap is locked.
        unsafe { locked().c_memalign(layout.align(), layout.size()) }
    } else {
        ptr::null_mut()
    }
}

// SAFETY: an address tells which of two allocators it is of, both of which fulfil the contract.
unsafe impl GlobalAlloc for HugePageHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by the caller.
        unsafe {
            let at = in_a_region(layout);
            if at.is_null() { System.alloc(layout) } else { at }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by the caller.
        unsafe {
            let at = in_a_region(layout);
            if at.is_null() {
                return System.alloc_zeroed(layout);
            }
            at.write_bytes(0, layout.size());
            at
        }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: by the caller, and the heap is locked.
        unsafe {
            if RANGE.holds(at) {
                locked().c_free(at);
            } else {
                System.dealloc(at, layout);
            }
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let was_in_a_region = RANGE.holds(at);
        // SAFETY: by the caller, and the heap is locked.
        unsafe {
            if was_in_a_region && is_for_a_region(size) && layout.align() <= ALIGNMENT {
                let resized = locked().c_realloc(at, size);
                if !resized.is_null() {
                    return resized;
                }
            } else if !was_in_a_region && is_for_a_region(layout.size()) == is_for_a_region(size) {
                return System.realloc(at, layout, size);
            }
            let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !moved.is_null() {
                ptr::copy_nonoverlapping(at, moved, size.min(layout.size()));
                self.dealloc(at, layout);
            }
            moved
        }
    }
}

#[cfg(test)]
mod tests;
