//! The indices of a page, in memory.

use crate::rle::{Symbol, numbers};

/// Indices into a dictionary. Each takes one, two or four bytes: what the greatest of them needs. Between the calls of
/// a writer they are most of what a column holds, and most dictionaries are small.
///
/// [`each_width!`](crate::each_width) runs an expression over the slice of any width.
#[derive(Clone, Debug)]
pub enum Indices {
    /// Below 2^8.
    Narrow(Vec<u8>),
    /// Below 2^16.
    Medium(Vec<u16>),
    /// All others.
    Wide(Vec<u32>),
}

/// Evaluates an expression with `$values` as the slice of indices from `$start` on, whatever their width is.
#[macro_export]
macro_rules! each_width {
    ($indices:expr, $start:expr, $values:ident => $result:expr) => {
        match $indices {
            $crate::dictionary::Indices::Narrow(values) => {
                let $values = &values[$start..];
                $result
            }
            $crate::dictionary::Indices::Medium(values) => {
                let $values = &values[$start..];
                $result
            }
            $crate::dictionary::Indices::Wide(values) => {
                let $values = &values[$start..];
                $result
            }
        }
    };
}

/// The same for the vector itself.
macro_rules! each_vector {
    ($indices:expr, $values:ident => $result:expr) => {
        match $indices {
            Indices::Narrow($values) => $result,
            Indices::Medium($values) => $result,
            Indices::Wide($values) => $result,
        }
    };
}
pub(super) use each_vector;

impl Default for Indices {
    fn default() -> Self {
        Self::new()
    }
}

impl Indices {
    /// No indices.
    #[must_use]
    pub const fn new() -> Self {
        Self::Narrow(Vec::new())
    }

    /// The number of indices.
    #[must_use]
    pub fn len(&self) -> usize {
        each_vector!(self, values => values.len())
    }

    /// Returns true if there are no indices.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes room for so many further indices of the present width.
    pub fn reserve(&mut self, count: usize) {
        each_vector!(self, values => values.reserve(count));
    }

    /// Drops all indices, and keeps their memory and width.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Drops the indices behind the first `count`.
    pub fn truncate(&mut self, count: usize) {
        each_vector!(self, values => values.truncate(count));
    }

    /// The indices from the one at `start` on.
    #[must_use]
    pub fn to_vec(&self, start: usize) -> Vec<u32> {
        each_width!(self, start, values => numbers(values).collect())
    }

    /// Appends the indices of a batch.
    #[inline(always)]
    pub(crate) fn extend(&mut self, batch: &[u32]) {
        let bits = batch.iter().fold(0, |bits, index| bits | index);
        let most = match self {
            Self::Narrow(_) => u8::MAX.into(),
            Self::Medium(_) => u16::MAX.into(),
            Self::Wide(_) => u32::MAX,
        };
        if bits > most {
            self.widen(bits);
        }
        each_vector!(self, values => append(values, batch));
    }

    /// Changes the width if an index of up to `most` needs it.
    #[cold]
    pub(super) fn widen(&mut self, most: u32) {
        let wider = match self {
            Self::Narrow(values) if most > u32::from(u16::MAX) => Self::Wide(widened(values)),
            Self::Medium(values) if most > u32::from(u16::MAX) => Self::Wide(widened(values)),
            Self::Narrow(values) if most > u32::from(u8::MAX) => Self::Medium(widened(values)),
            _ => return,
        };
        *self = wider;
    }

    /// The memory that is held, used or not.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Narrow(values) => values.capacity(),
            Self::Medium(values) => values.capacity() * size_of::<u16>(),
            Self::Wide(values) => values.capacity() * size_of::<u32>(),
        }
    }
}

#[inline(always)]
fn append<T: Symbol>(values: &mut Vec<T>, batch: &[u32]) {
    values.extend(batch.iter().map(|index| T::of(*index)));
}

/// The same numbers in more bytes, with room for as many.
fn widened<T: Copy, U: From<T>>(values: &Vec<T>) -> Vec<U> {
    let mut wider = Vec::with_capacity(values.capacity());
    wider.extend(values.iter().map(|value| U::from(*value)));
    wider
}
