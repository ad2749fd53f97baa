//! The order of entries by frequency. A codec then meets small numbers more often than large ones.

use super::indices::{Indices, each_vector};
use crate::each_width;
use crate::rle::Symbol;

/// The order of entries with the most frequent of `indices` first. Equally frequent ones stay in order.
///
/// # Panics
///
/// If an index is not below `entries`.
pub(super) fn by_frequency(indices: &Indices, entries: usize) -> Vec<u32> {
    let mut counts = vec![0_u32; entries];
    each_width!(indices, 0, values => count(values, &mut counts));
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

fn count<T: Symbol>(indices: &[T], counts: &mut [u32]) {
    for index in indices {
        counts[(*index).into() as usize] += 1;
    }
}

/// The new place of each entry: the inverse of an order.
pub(super) fn places(order: &[u32]) -> Vec<u32> {
    let mut places = vec![0; order.len()];
    for (place, index) in (0..).zip(order) {
        places[*index as usize] = place;
    }
    places
}

/// Renames indices to places, each below their number.
pub(super) fn rename(indices: &mut Indices, places: &[u32]) {
    indices.widen(places.len() as u32);
    each_vector!(indices, values => rename_in(values, places));
}

/// Renames indices that are as wide as the places need.
pub(super) fn rename_in<T: Symbol>(indices: &mut [T], places: &[u32]) {
    for index in indices {
        if let Some(place) = places.get((*index).into() as usize) {
            *index = T::of(*place);
        }
    }
}
