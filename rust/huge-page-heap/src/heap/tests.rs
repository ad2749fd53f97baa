#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

/// One allocation, filled with a byte of its own.
struct Filled {
    at: *mut u8,
    layout: Layout,
    byte: u8,
}

impl Filled {
    fn new(layout: Layout, byte: u8, zeroed: bool) -> Self {
        // SAFETY: the layout is not empty, and the memory is written within it.
        unsafe {
            let at = if zeroed {
                HugePageHeap.alloc_zeroed(layout)
            } else {
                HugePageHeap.alloc(layout)
            };
            assert!(!at.is_null() && at.align_offset(layout.align()) == 0);
            let held = Self { at, layout, byte };
            if zeroed {
                held.assert_filled(0, layout.size());
            }
            at.write_bytes(byte, layout.size());
            held
        }
    }

    fn resize(&mut self, size: usize) {
        // SAFETY: the layout is that of the allocation, and the size is not zero.
        unsafe {
            self.at = HugePageHeap.realloc(self.at, self.layout, size);
            assert!(!self.at.is_null() && self.at.align_offset(self.layout.align()) == 0);
            let kept = size.min(self.layout.size());
            self.layout = Layout::from_size_align(size, self.layout.align()).unwrap();
            self.assert_filled(self.byte, kept);
            self.at.write_bytes(self.byte, size);
        }
    }

    fn assert_filled(&self, byte: u8, size: usize) {
        // SAFETY: the size is at most that of the allocation, all of which was written.
        let bytes = unsafe { std::slice::from_raw_parts(self.at, size) };
        assert!(bytes.iter().all(|held| *held == byte));
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        self.assert_filled(self.byte, self.layout.size());
        // SAFETY: allocated with this layout, and freed once.
        unsafe { HugePageHeap.dealloc(self.at, self.layout) };
    }
}

fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![
        1_usize..LEAST,
        LEAST..64 << 10,
        (64_usize << 10)..TOO_LARGE,
        TOO_LARGE..4 << 20,
        prop::sample::select(vec![LEAST - 1, LEAST, TOO_LARGE - 1, TOO_LARGE]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_allocation_touches_another(
        steps in prop::collection::vec((sizes(), 0_u32..21, 0_usize..20, any::<bool>()), 1..120),
    ) {
        let mut held: Vec<Filled> = Vec::new();
        for (step, (size, power, which, grows)) in steps.into_iter().enumerate() {
            let byte = u8::try_from(step % 255).unwrap() + 1;
            if grows || held.is_empty() {
                let layout = Layout::from_size_align(size, 1 << power).unwrap();
                held.push(Filled::new(layout, byte, size % 2 == 0));
            } else if size % 3 == 0 {
                held.swap_remove(which % held.len());
            } else {
                let which = which % held.len();
                held[which].resize(size);
            }
        }
    }
}

/// True if an address may be written.
fn is_mapped(at: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().any(|line| {
        let (range, access) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let bound = |text| usize::from_str_radix(text, 16).unwrap();
        access.starts_with("rw") && (bound(start)..bound(end)).contains(&at)
    })
}

#[test]
fn regions_that_nothing_is_in_go_back_to_the_system_beside_one_in_use() {
    static RANGE: AddressRange = AddressRange::new();
    let mut heap = heap_of(Regions::new(&RANGE, Duration::MAX));
    let size = 900 << 10;
    // SAFETY: each is freed once, with its size.
    unsafe {
        let held: Vec<*mut u8> = (0..40).map(|_| heap.malloc(size, 8)).collect();
        let (kept, freed) = held.split_first().unwrap();
        for at in freed {
            heap.free(*at, size, 8);
        }
        heap.trim(0);
        let left = freed.iter().filter(|at| is_mapped(at.addr())).count();
        // The one in use has a neighbour, and four regions stay.
        assert!(left <= 9, "{left} of {} buffers are still mapped", freed.len());
        heap.free(*kept, size, 8);
    }
}

#[test]
fn a_child_forked_while_threads_allocate_can_allocate() {
    hold_over_forks();
    let stop = AtomicBool::new(false);
    let layout = Layout::from_size_align(8 << 10, 8).unwrap();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    drop(Filled::new(layout, 2, false));
                }
            });
        }
        let ended = (0..200).all(|_| child_ends(layout));
        stop.store(true, Ordering::Relaxed);
        assert!(ended, "a child waited for a lock that nobody holds");
    });
}

/// Forks a child that allocates and leaves, and returns true if it does within ten seconds.
fn child_ends(layout: Layout) -> bool {
    // SAFETY: the child calls nothing but the allocator and `_exit`.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            HugePageHeap.dealloc(HugePageHeap.alloc(layout), layout);
            libc::_exit(0);
        }
        let until = Instant::now() + Duration::from_secs(10);
        let mut status = 0;
        while libc::waitpid(child, &raw mut status, libc::WNOHANG) == 0 {
            if Instant::now() > until {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, &raw mut status, 0);
                return false;
            }
            thread::sleep(Duration::from_micros(200));
        }
        libc::WIFEXITED(status)
    }
}
