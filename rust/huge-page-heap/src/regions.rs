//! Regions of address space: whole huge pages, private to this process.
#![expect(unsafe_code, reason = "memory is mapped and unmapped by address")]

use std::cell::Cell;
use std::ptr;
use std::time::{Duration, Instant};

use dlmalloc::Allocator;

/// What x86-64 and aarch64 (with pages of 4 KiB) call a huge page.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// A huge page takes 0.2 ms, and the ordinary pages in its place 0.8 ms. It takes longer than these where memory has to
/// be compacted first, and in a virtual machine that reports free memory to its host: 3 to 4.5 ms were measured, since
/// the host faults each 4 KiB of it in anew.
const SLOW: Duration = Duration::from_micros(800);

/// What stays mapped for the next writer although nothing is in it.
const KEPT: usize = 4 * HUGE_PAGE;

/// Maps the regions of a heap.
pub(crate) struct Regions {
    /// The bytes of all regions.
    mapped: Cell<usize>,
    /// False as soon as a huge page was slow: what follows is likely to be.
    huge: Cell<bool>,
}

impl Regions {
    pub(crate) const fn new() -> Self {
        Self {
            mapped: Cell::new(0),
            huge: Cell::new(true),
        }
    }

    /// Asks for a huge page and takes it at once, to see how long that takes.
    fn advise(&self, region: *mut u8, size: usize) {
        if !self.huge.get() {
            return;
        }
        let start = Instant::now();
        // SAFETY: the range was just mapped. A kernel without huge pages refuses the advice, which changes nothing.
        unsafe {
            libc::madvise(region.cast(), size, libc::MADV_HUGEPAGE);
            region.write_volatile(0);
        }
        self.judge(start.elapsed());
    }

    fn judge(&self, took: Duration) {
        self.huge.set(took < SLOW);
    }
}

// SAFETY: a region is mapped here and belongs to the heap alone until it is unmapped.
unsafe impl Allocator for Regions {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let size = size.next_multiple_of(HUGE_PAGE);
        let region = aligned(size).unwrap_or(ptr::null_mut());
        if !region.is_null() {
            self.mapped.set(self.mapped.get() + size);
            self.advise(region, size);
        }
        (region, size, flags_of(region))
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        ptr::null_mut()
    }

    // Regions go back as wholes: none is larger than what is asked for at a time.
    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }

    fn free(&self, region: *mut u8, size: usize) -> bool {
        let left = self.mapped.get() - size;
        // SAFETY: the heap gives up a region of its own.
        let goes = left >= KEPT && unsafe { unmap(region, size) };
        if goes {
            self.mapped.set(left);
        }
        goes
    }

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

/// Neighbours have different flags, so that the heap does not join them: one buffer in use would hold all of them.
fn flags_of(region: *mut u8) -> u32 {
    // Bit 0 is the heap's.
    let index = region.addr() / HUGE_PAGE % (1 << 30);
    u32::try_from(index).unwrap_or(0) << 1
}

/// Maps `size` bytes at a multiple of the size of a huge page.
fn aligned(size: usize) -> Option<*mut u8> {
    // Linux aligns a mapping of this size by itself since version 6.7.
    let first = mapped(size)?;
    if first.addr().is_multiple_of(HUGE_PAGE) {
        return Some(first);
    }
    // SAFETY: it was just mapped, and nobody has its address.
    unsafe { unmap(first, size) };
    let wide = mapped(size.checked_add(HUGE_PAGE)?)?;
    let before = wide.align_offset(HUGE_PAGE);
    // SAFETY: the three parts are those of the new mapping, and the one in the middle is kept.
    unsafe {
        if before > 0 {
            unmap(wide, before);
        }
        unmap(wide.add(before + size), HUGE_PAGE - before);
        Some(wide.add(before))
    }
}

fn mapped(size: usize) -> Option<*mut u8> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the kernel chooses an address at which nothing is mapped.
    let at = unsafe { libc::mmap(ptr::null_mut(), size, access, private, -1, 0) };
    (at != libc::MAP_FAILED).then_some(at.cast())
}

/// # Safety
/// The range was mapped by [`mapped`], and nobody uses it.
unsafe fn unmap(at: *mut u8, size: usize) -> bool {
    // SAFETY: by the caller.
    unsafe { libc::munmap(at.cast(), size) == 0 }
}

#[cfg(test)]
mod tests;
