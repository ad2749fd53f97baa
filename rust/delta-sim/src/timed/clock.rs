//! The virtual clock: what is to happen, and when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A moment of the simulation, or a time between two: microseconds.
pub(crate) type Moment = u64;

/// What is to happen, by its moments; at one moment, in the order in which it was put down.
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    heap: BinaryHeap<Reverse<(Moment, u64, T)>>,
    count: u64,
}

impl<T: Ord> Agenda<T> {
    pub(crate) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            count: 0,
        }
    }

    pub(crate) fn put(&mut self, at: Moment, what: T) {
        self.count += 1;
        self.heap.push(Reverse((at, self.count, what)));
    }

    pub(crate) fn take(&mut self) -> Option<(Moment, T)> {
        self.heap.pop().map(|Reverse((at, _, what))| (at, what))
    }
}
