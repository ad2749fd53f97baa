//! The refusal of timestamps that a coarser unit cannot hold.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};

use crate::error::{Result, WriteError};
use crate::normalize::exactly;
use crate::schema::FileSchema;

/// Checks that the times of `stored` are those of `given`.
///
/// # Errors
/// [`WriteError::Schema`] names the column and the first row with a time that lies between two of the stored unit.
pub(crate) fn check(given: &[ArrayRef], stored: &[ArrayRef], schema: &FileSchema) -> Result<()> {
    let unrounded = schema.unrounded();
    for (index, (given, stored)) in given.iter().zip(stored).enumerate() {
        // INT96 holds nanoseconds.
        if schema.int96[index] || Arc::ptr_eq(given, stored) {
            continue;
        }
        let unrounded = unrounded.field(index).data_type();
        let given = exactly(given, unrounded)?.to_data();
        let is_kept = |start: usize, rows: usize| {
            // Where the way back fails, the time was rounded to one that the finer unit does not reach.
            let back = exactly(&stored.slice(start, rows), unrounded);
            back.is_ok_and(|back| back.to_data() == given.slice(start, rows))
        };
        if is_kept(0, given.len()) {
            continue;
        }
        let row = (0..given.len()).find(|row| !is_kept(*row, 1)).unwrap_or_default();
        let name = schema.declared.field(index).name();
        return Err(WriteError::column(
            name,
            format!(
                "column {name:?} has a time in row {row} of this batch that {} rounds: round it before, keep its unit \
                 with timestamps=\"keep\", or allow the loss with timestamp_loss=\"allow\"; the writer can go on",
                schema.stored.field(index).data_type()
            ),
        ));
    }
    Ok(())
}
