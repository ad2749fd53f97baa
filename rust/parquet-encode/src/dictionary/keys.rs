//! Input with a dictionary of its own: its keys are translated, and its values are hashed once.

use super::{BATCH, Indices, rank};

/// A key of an Arrow dictionary.
pub trait DictionaryKey: Copy {
    /// The row of the dictionary's values. Negative keys have none.
    fn row(self) -> usize;
}

macro_rules! key {
    ($($ty:ty)+) => {$(
        impl DictionaryKey for $ty {
            #[inline(always)]
            #[allow(clippy::cast_sign_loss, reason = "a negative key becomes one that is out of range")]
            fn row(self) -> usize {
                self as usize
            }
        }
    )+};
}
key!(i8 i16 i32 i64 u8 u16 u32 u64);

/// The index of no value.
const UNMAPPED: u32 = u32::MAX;

/// A map from the values of an input dictionary to their indices in the dictionary that is written.
#[derive(Debug, Default)]
pub struct KeyMap {
    indices: Vec<u32>,
}

impl KeyMap {
    /// A map of no values.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Clears the map for keys below `values`.
    pub fn reset(&mut self, values: usize) {
        self.indices.clear();
        self.indices.resize(values, UNMAPPED);
    }

    pub(super) fn rename(&mut self, places: &[u32]) {
        rank::rename_in(&mut self.indices, places);
    }

    /// The memory that is held, used or not.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.indices.capacity() * size_of::<u32>()
    }
}

/// Appends the index of each key. `index_of` finds that of a value that was not met before.
pub(super) fn map_keys<K: DictionaryKey>(
    keys: &[K],
    map: &mut KeyMap,
    indices: &mut Indices,
    mut index_of: impl FnMut(usize) -> Option<u32>,
) -> usize {
    let mut out = [0; BATCH];
    for (batch, keys) in keys.chunks(BATCH).enumerate() {
        let out = &mut out[..keys.len()];
        let mut missed = 0u64;
        for (at, (key, out)) in keys.iter().zip(out.iter_mut()).enumerate() {
            *out = map.indices[key.row()];
            missed |= u64::from(*out == UNMAPPED) << at;
        }
        while missed != 0 {
            let at = missed.trailing_zeros() as usize;
            missed &= missed - 1;
            let row = keys[at].row();
            if map.indices[row] == UNMAPPED {
                let Some(index) = index_of(row) else {
                    indices.extend(&out[..at]);
                    return batch * BATCH + at;
                };
                map.indices[row] = index;
            }
            out[at] = map.indices[row];
        }
        indices.extend(out);
    }
    keys.len()
}
