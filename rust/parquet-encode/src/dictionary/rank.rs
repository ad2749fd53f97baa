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
    let mut order: Vec<u32> = (0..entries as u32).collect();
    order.sort_by_key(|index| std::cmp::Reverse(counts[*index as usize]));
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
