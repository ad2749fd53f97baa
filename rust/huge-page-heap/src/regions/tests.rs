#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::*;

/// True if the kernel was asked for huge pages at an address: "hg" in `/proc/PID/smaps`.
fn is_advised(at: *mut u8) -> bool {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut inside = false;
    for line in maps.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            if inside {
                return flags.split(' ').any(|flag| flag == "hg");
            }
        } else if let Some((start, end)) = line.split(' ').next().unwrap().split_once('-') {
            let bound = |text| usize::from_str_radix(text, 16).unwrap();
            inside = (bound(start)..bound(end)).contains(&at.addr());
        }
    }
    false
}

/// True if a kernel was built with huge pages that are asked for.
fn are_there_huge_pages() -> bool {
    std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").is_ok()
}

#[test]
fn a_region_is_whole_huge_pages_and_advised() {
    let regions = Regions::new();
    for size in [1, HUGE_PAGE, HUGE_PAGE + 1] {
        let (region, mapped, _) = regions.alloc(size);
        assert_eq!(mapped, size.next_multiple_of(HUGE_PAGE));
        assert_eq!(region.align_offset(HUGE_PAGE), 0);
        // The first one; it may have been slow.
        if size == 1 {
            assert_eq!(is_advised(region), are_there_huge_pages());
        }
    }
}

#[test]
fn eight_megabytes_stay_mapped() {
    let regions = Regions::new();
    let mapped: Vec<_> = (0..6).map(|_| regions.alloc(1)).collect();
    let freed = mapped
        .iter()
        .filter(|(region, size, _)| regions.free(*region, *size));
    assert_eq!(freed.count(), 2);
}

#[test]
fn after_a_slow_huge_page_regions_have_ordinary_pages() {
    let regions = Regions::new();
    regions.judge(Duration::from_millis(4));
    let (region, mapped, _) = regions.alloc(HUGE_PAGE);
    assert!(!is_advised(region));
    assert_eq!(mapped, HUGE_PAGE);
}

#[test]
fn neighbours_are_told_apart() {
    let at = |index: usize| ptr::without_provenance_mut(index * HUGE_PAGE);
    assert_ne!(flags_of(at(7)), flags_of(at(8)));
    assert_eq!(flags_of(at(7)) & 1, 0);
}
