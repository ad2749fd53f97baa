//! The least and greatest values of a chunk, and the order of its pages' bounds.

use std::cmp::Ordering;

use parquet::basic::BoundaryOrder;

/// The bounds of a chunk's values so far, and the order of its pages.
#[derive(Debug)]
pub(super) struct Ranges<B> {
    compare: fn(&B, &B) -> Ordering,
    whole: Option<(B, B)>,
    /// The stored bounds of the page before.
    last: Option<(B, B)>,
    ascending: bool,
    descending: bool,
}

impl<B> Ranges<B> {
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

    /// Notes the range of the next page with values, and the bounds that the column index stores for it, where they can
    /// be stored. Stored bounds may be cut, and cut bounds may be ordered differently from the values: text is cut
    /// between characters.
    pub fn note(&mut self, (min, max): (B, B), stored: Option<(B, B)>) {
        let less = |left: &B, right: &B| (self.compare)(left, right) == Ordering::Less;
        if let Some((stored, (last_min, last_max))) = stored.as_ref().zip(self.last.as_ref()) {
            self.ascending &= !less(&stored.0, last_min) && !less(&stored.1, last_max);
            self.descending &= !less(last_min, &stored.0) && !less(last_max, &stored.1);
        }
        self.whole = Some(match self.whole.take() {
            None => (min, max),
            Some((least, most)) => (
                if less(&min, &least) { min } else { least },
                if less(&most, &max) { max } else { most },
            ),
        });
        self.last = stored;
    }

    /// The range of all pages.
    pub fn whole(&self) -> Option<&(B, B)> {
        self.whole.as_ref()
    }

    /// The bounds that are held, of the chunk and of its last page.
    pub fn bounds(&self) -> impl Iterator<Item = &B> {
        let pairs = self.whole.iter().chain(&self.last);
        pairs.flat_map(|(min, max)| [min, max])
    }

    /// The order after `PageIndex.md`: both the stored minima and the stored maxima of the pages rise, or both fall.
    /// Equal bounds do both.
    pub fn order(&self) -> BoundaryOrder {
        match (self.ascending, self.descending) {
            (true, _) => BoundaryOrder::ASCENDING,
            (false, true) => BoundaryOrder::DESCENDING,
            (false, false) => BoundaryOrder::UNORDERED,
        }
    }
}
