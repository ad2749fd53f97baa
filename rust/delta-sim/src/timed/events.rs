//! The virtual clock: events in the order of their moments.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A moment of the simulation, or a time between two: microseconds.
pub(crate) type Moment = u64;

/// Events to come, by their moments. Those of one moment come in the order in which they were put down.
#[derive(Debug)]
pub(crate) struct Events<T> {
    heap: BinaryHeap<Reverse<(Moment, u64, T)>>,
    count: u64,
}

impl<T: Ord> Events<T> {
    pub(crate) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            count: 0,
        }
    }

    pub(crate) fn put(&mut self, at: Moment, event: T) {
        self.count += 1;
        self.heap.push(Reverse((at, self.count, event)));
    }

    /// The moment of the next event.
    pub(crate) fn next(&self) -> Option<Moment> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    pub(crate) fn take(&mut self) -> Option<(Moment, T)> {
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }
}
