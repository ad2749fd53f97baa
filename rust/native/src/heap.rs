//! The module's allocator, and when freed memory goes back to the system.

use parquet_writer::was_much_freed;
use pyo3::prelude::*;

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub(crate) use huge_page_heap::{give_back, hold_over_forks, mapped_bytes};

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
#[global_allocator]
static HEAP: huge_page_heap::HugePageHeap = huge_page_heap::HugePageHeap;

/// Elsewhere the C library's allocator is the only one.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
mod c_library {
    pub(crate) fn give_back() {}

    pub(crate) fn hold_over_forks() {}

    pub(crate) fn mapped_bytes() -> usize {
        0
    }
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
pub(crate) use c_library::{give_back, hold_over_forks, mapped_bytes};

/// Gives freed memory back after a call of a writer, if it was the last call or much was freed.
pub(crate) fn after_call(is_closed: bool) {
    if is_closed {
        give_back();
    }
    if was_much_freed() {
        trim_c_heap();
    }
}

/// Bytes of resident memory from which the module cuts its buffers, be they in use or not.
#[pyfunction]
pub(crate) fn huge_page_bytes() -> usize {
    mapped_bytes()
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim_c_heap() {
    // SAFETY: any thread may call it at any time.
    #[expect(unsafe_code, reason = "a function of the C library")]
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim_c_heap() {}
