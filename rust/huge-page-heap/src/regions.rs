//! Regions of one range of addresses: a huge page each, private to this process.
#![expect(unsafe_code, reason = "memory is mapped and unmapped by address")]

use std::cell::Cell;
use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

use dlmalloc::Allocator;
use rustix::time::{ClockId, clock_gettime};

/// What x86-64 and aarch64 (with pages of 4 KiB) call a huge page.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// The regions that the range has room for: 8 GiB of addresses, without memory until they are used.
const REGIONS: usize = 4096;

/// As long as no more regions are mapped, none is given back: the next writer finds them warm.
const LEAST_MAPPED: usize = 4;

/// A huge page takes 0.2 ms, and the ordinary pages in its place 0.8 ms. It takes longer than these where memory has to
/// be compacted first, and in a virtual machine that reports free memory to its host: 3 to 4.5 ms were measured, since
/// the host faults each 4 KiB of it in anew.
pub(crate) const SLOW: Duration = Duration::from_micros(800);

/// The addresses of a heap's regions.
pub(crate) struct AddressRange {
    /// Null until the first region.
    start: AtomicPtr<u8>,
}

impl AddressRange {
    pub(crate) const fn new() -> Self {
        Self {
            start: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Tells if an allocation is in one of the regions.
    pub(crate) fn holds(&self, at: *mut u8) -> bool {
        let start = self.start.load(Ordering::Acquire);
        !start.is_null() && at.addr().wrapping_sub(start.addr()) < REGIONS * HUGE_PAGE
    }

    /// Where the range begins. The first call reserves it; only who holds the lock of the heap calls it.
    fn start(&self) -> Option<*mut u8> {
        let start = self.start.load(Ordering::Relaxed);
        if !start.is_null() {
            return Some(start);
        }
        if !is_wanted() {
            return None;
        }
        // SAFETY: the kernel chooses addresses at which nothing is mapped.
        let reserved = unsafe { reserve(ptr::null_mut(), (REGIONS + 1) * HUGE_PAGE, 0)? };
        let start = reserved.wrapping_add(reserved.align_offset(HUGE_PAGE));
        self.start.store(start, Ordering::Release);
        Some(start)
    }
}

/// The regions of the heap. It has no more where huge pages are slow, or the range is full.
pub(crate) struct Regions {
    range: &'static AddressRange,
    /// A bit for each region that is mapped.
    mapped: [Cell<u64>; REGIONS / 64],
    /// A huge page that takes longer is slow.
    slow: Duration,
    /// False as soon as one was: what follows is likely to be.
    fast: Cell<bool>,
}

impl Regions {
    pub(crate) const fn new(range: &'static AddressRange, slow: Duration) -> Self {
        Self {
            range,
            mapped: [const { Cell::new(0) }; REGIONS / 64],
            slow,
            fast: Cell::new(true),
        }
    }

    /// Maps a region and takes its huge page at once, to see how long that takes.
    fn map(&self) -> Option<(*mut u8, usize)> {
        if !self.fast.get() {
            return None;
        }
        let (word, bits) = self
            .mapped
            .iter()
            .enumerate()
            .find(|(_, bits)| bits.get() != u64::MAX)?;
        let bit = bits.get().trailing_ones() as usize;
        let index = word * 64 + bit;
        let start = processor_time();
        // SAFETY: the region is within the range, and unmapped. A kernel without huge pages refuses the advice, which
        // changes nothing.
        let region = unsafe {
            let Some(range) = self.range.start() else {
                self.fast.set(false);
                return None;
            };
            let region = range.add(index * HUGE_PAGE);
            if libc::mprotect(region.cast(), HUGE_PAGE, libc::PROT_READ | libc::PROT_WRITE) != 0 {
                return None;
            }
            libc::madvise(region.cast(), HUGE_PAGE, libc::MADV_HUGEPAGE);
            region.write_volatile(0);
            region
        };
        bits.set(bits.get() | 1 << bit);
        self.fast.set(processor_time().saturating_sub(start) < self.slow);
        Some((region, index))
    }

    /// How many regions are mapped.
    pub(crate) fn count(&self) -> usize {
        self.mapped
            .iter()
            .map(|bits| bits.get().count_ones() as usize)
            .sum()
    }
}

// SAFETY: a region belongs to the heap alone from when it is mapped until it is unmapped.
unsafe impl Allocator for Regions {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        match (size <= HUGE_PAGE).then(|| self.map()).flatten() {
            Some((region, index)) => (region, HUGE_PAGE, flags_of(index)),
            // The heap has changed nothing yet, and says null itself.
            None => (ptr::null_mut(), 0, 0),
        }
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        ptr::null_mut()
    }

    // Regions go back as wholes, by `free`.
    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }

    fn free(&self, region: *mut u8, size: usize) -> bool {
        let index = (region.addr() - self.range.start.load(Ordering::Relaxed).addr()) / HUGE_PAGE;
        // SAFETY: the heap gives up a region of its own.
        if size != HUGE_PAGE
            || self.count() <= LEAST_MAPPED
            || unsafe { reserve(region, HUGE_PAGE, libc::MAP_FIXED) }.is_none()
        {
            return false;
        }
        let bits = &self.mapped[index / 64];
        bits.set(bits.get() & !(1 << (index % 64)));
        true
    }

    // Asked before `free`, too.
    fn can_release_part(&self, _: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        HUGE_PAGE
    }
}

/// Neighbours have different flags, so that the heap does not join them: one buffer in use would hold all of them. Bit
/// 0 is the heap's. It compares flags with flags shifted by one, which no two of these are equal by.
fn flags_of(index: usize) -> u32 {
    u32::try_from(REGIONS + index).unwrap_or(0) << 1
}

/// False where addresses are limited, of which the range takes many, and with `SPILLWAY_HUGE_PAGES=0`: a tracer of
/// allocations sees those of the C library alone.
fn is_wanted() -> bool {
    // SAFETY: a null-terminated name, a value that is read at once, and a struct that the kernel fills in.
    unsafe {
        let set = libc::getenv(c"SPILLWAY_HUGE_PAGES".as_ptr());
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_AS, &raw mut limit);
        (set.is_null() || CStr::from_ptr(set) != c"0") && limit.rlim_cur == libc::RLIM_INFINITY
    }
}

/// The time that the calling thread has had a processor: who else has it does not make a page slow.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Reserves addresses without memory; what was there is gone.
///
/// # Safety
/// With `MAP_FIXED` nobody may use what is at the addresses.
unsafe fn reserve(at: *mut u8, size: usize, how: libc::c_int) -> Option<*mut u8> {
    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: by the caller.
    let at = unsafe { libc::mmap(at.cast(), size, libc::PROT_NONE, private | how, -1, 0) };
    (at != libc::MAP_FAILED).then_some(at.cast())
}

#[cfg(test)]
mod tests;
