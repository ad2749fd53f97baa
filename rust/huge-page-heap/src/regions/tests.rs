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

#[test]
fn a_region_is_a_huge_page_of_its_own() {
    static RANGE: AddressRange = AddressRange::new();
    let regions = Regions::new(&RANGE, Duration::MAX);
    let mut flags = Vec::new();
    for _ in 0..3 {
        let (region, size, flag) = regions.alloc(1);
        assert_eq!((size, region.align_offset(HUGE_PAGE)), (HUGE_PAGE, 0));
        assert!(RANGE.holds(region) && RANGE.holds(region.wrapping_add(HUGE_PAGE - 1)));
        let there = std::fs::exists("/sys/kernel/mm/transparent_hugepage/enabled").unwrap();
        assert_eq!(is_advised(region), there);
        flags.push(flag);
    }
    flags.dedup();
    assert_eq!(flags.len(), 3);
    assert!(!RANGE.holds((&raw const regions).cast_mut().cast()));
}

#[test]
fn a_region_that_was_given_back_is_mapped_again_and_four_stay() {
    static RANGE: AddressRange = AddressRange::new();
    let regions = Regions::new(&RANGE, Duration::MAX);
    let map = || regions.alloc(1).0;
    let mapped: Vec<*mut u8> = (0..6).map(|_| map()).collect();
    let freed: Vec<*mut u8> = mapped
        .iter()
        .copied()
        .filter(|region| regions.free(*region, HUGE_PAGE))
        .collect();
    assert_eq!(freed, mapped[..2]);
    assert_eq!([map(), map()], mapped[..2]);
}

#[test]
fn there_is_no_region_after_a_slow_huge_page_nor_for_more_than_one() {
    static RANGE: AddressRange = AddressRange::new();
    let regions = Regions::new(&RANGE, Duration::ZERO);
    assert!(regions.alloc(HUGE_PAGE + 1).0.is_null());
    assert!(!regions.alloc(1).0.is_null());
    assert!(regions.alloc(1).0.is_null());
}

#[test]
fn no_two_flags_are_equal_by_a_shift() {
    let flags: std::collections::HashSet<u32> = (0..REGIONS).map(flags_of).collect();
    assert_eq!(flags.len(), REGIONS);
    assert!(
        !flags
            .iter()
            .any(|flag| flags.contains(&(flag >> 1)) || flag & 1 == 1)
    );
}
