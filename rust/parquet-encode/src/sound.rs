//! Checks of many values at once, before they are encoded.

use std::ops::BitOr;

use crate::cpu::dispatch;

/// An integer that is the offset of a value.
pub trait Offset: Copy + Default + Ord + BitOr<Output = Self> {
    /// The difference, which wraps around.
    #[must_use]
    fn minus(self, other: Self) -> Self;
}

impl Offset for i32 {
    #[inline]
    fn minus(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }
}

impl Offset for i64 {
    #[inline]
    fn minus(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }
}

/// Combines the signs of offsets and of their differences without a branch. The difference of two offsets that are not
/// negative does not wrap.
#[inline(always)]
fn ascend_kernel<T: Offset>(offsets: &[T]) -> bool {
    let pairs = offsets.iter().zip(offsets.get(1..).unwrap_or_default());
    let signs = pairs.fold(T::default(), |signs, (left, right)| {
        signs | *left | right.minus(*left)
    });
    offsets.last().is_none_or(|last| signs | *last >= T::default())
}

dispatch! {
    /// Returns true if no offset is negative or less than the one before it.
    #[must_use]
    pub fn ascend<T: Offset>(offsets: &[T]) -> bool = ascend_kernel;
}

#[inline(always)]
fn is_ascii_kernel(text: &[u8]) -> bool {
    text.iter().fold(0, |all, byte| all | byte) < 0x80
}

dispatch! {
    /// Returns true if all bytes are ASCII. Reads all of them in any case.
    #[must_use]
    pub fn is_ascii(text: &[u8]) -> bool = is_ascii_kernel;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cpu::portably;

    fn ascends_one_by_one(offsets: &[i32]) -> bool {
        offsets.iter().all(|offset| *offset >= 0) && offsets.is_sorted()
    }

    proptest! {
        #[test]
        fn offsets_ascend_as_one_by_one(mut offsets in proptest::collection::vec(prop_oneof![0..50, any::<i32>()], 0..70), sorted: bool) {
            if sorted {
                offsets.sort_unstable();
            }
            let expected = ascends_one_by_one(&offsets);
            let large: Vec<_> = offsets.iter().map(|offset| i64::from(*offset) << 32).collect();
            prop_assert_eq!(ascend(&offsets), expected);
            prop_assert_eq!(portably(|| ascend(&offsets)), expected);
            prop_assert_eq!(ascend(&large), expected);
        }

        #[test]
        fn text_is_ascii_as_the_standard_library_has_it(text in proptest::collection::vec(prop_oneof![9 => 0..0x80_u8, 1 => any::<u8>()], 0..200)) {
            prop_assert_eq!(is_ascii(&text), text.is_ascii());
            prop_assert_eq!(portably(|| is_ascii(&text)), text.is_ascii());
        }
    }
}
