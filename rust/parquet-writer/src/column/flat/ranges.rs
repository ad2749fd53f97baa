//! The least and greatest values of a chunk and of its pages, and how those of the pages are ordered.

use std::cmp::Ordering;

use parquet::basic::BoundaryOrder;

/// What is known of the values of a chunk so far.
#[derive(Debug)]
pub(super) struct Ranges<B> {
    compare: fn(&B, &B) -> Ordering,
    whole: Option<(B, B)>,
    last: Option<(B, B)>,
    ascending: bool,
    descending: bool,
}

impl<B: Clone> Ranges<B> {
    /// No values yet, to be ordered by `compare`.
    pub fn new(compare: fn(&B, &B) -> Ordering) -> Self {
        Self {
            compare,
            whole: None,
            last: None,
            ascending: true,
            descending: true,
        }
    }

    /// Notes the range of the next page that has one.
    pub fn note(&mut self, (min, max): (B, B)) {
        let less = |left: &B, right: &B| (self.compare)(left, right) == Ordering::Less;
        if let Some((last_min, last_max)) = &self.last {
            self.ascending &= !less(&min, last_min) && !less(&max, last_max);
            self.descending &= !less(last_min, &min) && !less(last_max, &max);
        }
        self.whole = Some(match self.whole.take() {
            None => (min.clone(), max.clone()),
            Some((least, most)) => (
                if less(&min, &least) { min.clone() } else { least },
                if less(&most, &max) { max.clone() } else { most },
            ),
        });
        self.last = Some((min, max));
    }

    /// The range of all pages.
    pub fn whole(&self) -> Option<&(B, B)> {
        self.whole.as_ref()
    }

    /// `PageIndex.md`: whether both the minima and the maxima of the pages rise or fall; equal ones do both.
    pub fn order(&self) -> BoundaryOrder {
        match (self.ascending, self.descending) {
            (true, _) => BoundaryOrder::ASCENDING,
            (false, true) => BoundaryOrder::DESCENDING,
            (false, false) => BoundaryOrder::UNORDERED,
        }
    }
}
