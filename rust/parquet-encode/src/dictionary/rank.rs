//! The order of entries by frequency. A codec then meets small numbers more often than large ones.

/// The order of entries with the most frequent of `indices` first. Equally frequent ones stay in order.
///
/// # Panics
///
/// If an index is not below `entries`.
pub(super) fn by_frequency(indices: &[u32], entries: usize) -> Vec<u32> {
    let mut counts = vec![0_u32; entries];
    for index in indices {
        counts[*index as usize] += 1;
    }
    // Entries are sorted by counting: no count is above the number of indices.
    let most = counts.iter().copied().max().unwrap_or(0) as usize;
    let mut starts = vec![0_u32; most + 2];
    for count in &counts {
        starts[most + 1 - *count as usize] += 1;
    }
    let mut start = 0;
    for place in &mut starts {
        start += std::mem::replace(place, start);
    }
    let mut order = vec![0; entries];
    for (index, count) in (0..).zip(&counts) {
        let place = &mut starts[most - *count as usize + 1];
        order[*place as usize] = index;
        *place += 1;
    }
    order
}

/// The new place of each entry: the inverse of an order.
pub(super) fn places(order: &[u32]) -> Vec<u32> {
    let mut places = vec![0; order.len()];
    for (place, index) in (0..).zip(order) {
        places[*index as usize] = place;
    }
    places
}

/// Renames indices.
pub(super) fn rename(indices: &mut [u32], places: &[u32]) {
    for index in indices {
        if let Some(place) = places.get(*index as usize) {
            *index = *place;
        }
    }
}
