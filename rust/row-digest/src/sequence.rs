//! The checksum of one column whose values come in their order.

use arrow_array::Array;

use crate::cells::hash_cells;
use crate::error::Error;
use crate::mixing::{fold, mix};

/// The checksum of a column's values in their order, whatever the batches that they come in, and whatever the layout of
/// each. It is made for speed: it merges with no other, and names no value.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    values: u64,
    hash: u64,
    cells: Vec<u64>,
}

impl Sequence {
    /// Adds the values of an array, nulls included, which follow those before.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the type has no canonical encoding. The checksum is then as it was.
    pub fn update(&mut self, array: &dyn Array) -> Result<(), Error> {
        hash_cells(array, &mut self.cells)?;
        self.values += self.cells.len() as u64;
        self.hash = self.cells.iter().fold(self.hash, |hash, cell| fold(hash, *cell));
        Ok(())
    }

    /// The checksum of the values so far.
    #[must_use]
    pub fn checksum(&self) -> u64 {
        mix(fold(self.hash, self.values))
    }
}
