//! Changes at the end of a finished file, where readers need other bytes than the crate writes.
//!
//! `FileMetaData` ends with its list of column orders, a union of one empty struct each, and a stop byte. The length
//! and the magic follow. Thrift's compact protocol has three bytes for such a union: the field's number and type, and
//! two stops. One order can therefore be exchanged for another without moving a byte.

use bytes::Bytes;
use parquet::file::FOOTER_SIZE;

use crate::error::{Result, WriteError};

const TYPE_ORDER: [u8; 3] = [0x1c, 0, 0];
const IEEE_754_TOTAL_ORDER: [u8; 3] = [0x2c, 0, 0];
const INT96_TIMESTAMP_ORDER: [u8; 3] = [0x3c, 0, 0];

/// A copy of the footer, `FileMetaData` to magic, of the end of a file that is not encrypted.
pub(crate) fn of_end(end_of_file: &[u8]) -> Result<Bytes> {
    let unexpected = || WriteError::Encode("the file does not end with the length of its footer".into());
    let start = end_of_file
        .last_chunk::<FOOTER_SIZE>()
        .and_then(|[first, second, third, fourth, ..]| {
            let length = u32::from_le_bytes([*first, *second, *third, *fourth]);
            end_of_file
                .len()
                .checked_sub(FOOTER_SIZE + usize::try_from(length).ok()?)
        });
    let footer = start.and_then(|start| end_of_file.get(start..));
    footer.map(Bytes::copy_from_slice).ok_or_else(unexpected)
}

/// Sets every column's order to `TYPE_ORDER`, the one that readers know and that the bounds follow.
pub(crate) fn set_type_order(end_of_file: &mut [u8], columns: usize) -> Result<()> {
    let orders = 3 * columns;
    let unexpected = || WriteError::Encode("the footer does not end with the order of its columns".into());
    let end = end_of_file
        .len()
        .checked_sub(FOOTER_SIZE + 1)
        .ok_or_else(unexpected)?;
    let start = end.checked_sub(orders).ok_or_else(unexpected)?;
    for order in end_of_file[start..end].chunks_exact_mut(3) {
        if order == IEEE_754_TOTAL_ORDER || order == INT96_TIMESTAMP_ORDER {
            order.copy_from_slice(&TYPE_ORDER);
        } else if order != TYPE_ORDER {
            return Err(unexpected());
        }
    }
    Ok(())
}
