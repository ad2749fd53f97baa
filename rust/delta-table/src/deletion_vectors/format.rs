//! The bytes of a deletion vector, alone and in a file.

use std::io::{self, Read};

use delta_commit::z85;
use roaring::{RoaringBitmap, RoaringTreemap};

use crate::error::{Result, TableError};

/// The number that the bytes of a vector begin with.
const MAGIC: u32 = 1_681_511_377;

/// The bytes that a file of vectors begins with: the version of its format.
pub(super) const FILE_HEADER: [u8; 1] = [1];

/// Bytes of the size before a vector in a file, and of the checksum after it.
const AROUND: u64 = 4 + 4;

/// The bytes of a vector: the magic number, and a 64-bit bitmap in the portable format of `RoaringBitmap`.
pub(crate) fn to_bytes(rows: &RoaringTreemap) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(4 + rows.serialized_size());
    bytes.extend(MAGIC.to_le_bytes());
    rows.serialize_into(&mut bytes)
        .map_err(|error| TableError::Malformed(format!("a deletion vector has no bytes: {error}")))?;
    Ok(bytes)
}

/// Reads the bytes of a vector.
pub(crate) fn from_bytes(bytes: &[u8]) -> Result<RoaringTreemap> {
    let (magic, mut bitmap) = bytes.split_first_chunk().ok_or_else(|| {
        malformed(format!(
            "it has {} bytes, and no magic number fits into them",
            bytes.len()
        ))
    })?;
    let magic = u32::from_le_bytes(*magic);
    if magic != MAGIC {
        return Err(malformed(format!(
            "it begins with the number {magic}, expected {MAGIC}"
        )));
    }
    let rows =
        bitmap_of(&mut bitmap).map_err(|error| malformed(format!("its bitmap is damaged: {error}")))?;
    if !bitmap.is_empty() {
        return Err(malformed(format!(
            "{} bytes come after its bitmap, expected none",
            bitmap.len()
        )));
    }
    if rows.max().is_some_and(|last| i64::try_from(last).is_err()) {
        return Err(malformed("it has a row with a negative number".to_owned()));
    }
    Ok(rows)
}

/// Reads a bitmap of 64 bits: the number of its bitmaps of 32 bits, and each after the high half of its rows.
/// `RoaringTreemap`'s own reader takes the last of two with one high half, and leaves out the rows of the first.
fn bitmap_of(mut bytes: impl Read) -> io::Result<RoaringTreemap> {
    let mut count = [0; 8];
    bytes.read_exact(&mut count)?;
    let mut bitmaps: Vec<(u32, RoaringBitmap)> = Vec::new();
    for _ in 0..u64::from_le_bytes(count) {
        let mut high = [0; 4];
        bytes.read_exact(&mut high)?;
        let high = u32::from_le_bytes(high);
        if bitmaps.last().is_some_and(|(last, _)| *last >= high) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "its parts are not in order",
            ));
        }
        bitmaps.push((high, RoaringBitmap::deserialize_from(&mut bytes)?));
    }
    Ok(RoaringTreemap::from_bitmaps(bitmaps))
}

/// Decodes a vector of `size` bytes that is inlined in the log.
pub(crate) fn from_text(text: &str, size: usize) -> Result<RoaringTreemap> {
    let bytes = z85::decode(text).ok_or_else(|| malformed("its text is no Z85".to_owned()))?;
    // Zeros fill the last four bytes.
    if bytes.len() != size.next_multiple_of(4) {
        return Err(malformed(format!(
            "its text has {} bytes, and the log says {size}",
            bytes.len()
        )));
    }
    from_bytes(&bytes[..size])
}

/// The bytes that a vector of `size` bytes takes in a file, with its size and checksum.
pub(super) fn in_file(size: usize) -> u64 {
    size as u64 + AROUND
}

/// Adds a vector to a file: its size, itself and its checksum, the numbers with the highest byte first.
pub(crate) fn put_in_file(file: &mut Vec<u8>, size: i32, bytes: &[u8]) {
    file.extend(size.to_be_bytes());
    file.extend(bytes);
    file.extend(crc32fast::hash(bytes).to_be_bytes());
}

/// Decodes a vector of `size` bytes from its range of a file.
pub(crate) fn from_file(part: &[u8], size: usize) -> Result<RoaringTreemap> {
    let cut_short = || {
        malformed(format!(
            "the file has {} bytes there, expected {}",
            part.len(),
            in_file(size)
        ))
    };
    let (stored, rest) = part.split_first_chunk().ok_or_else(cut_short)?;
    let stored = u32::from_be_bytes(*stored);
    if usize::try_from(stored) != Ok(size) {
        return Err(malformed(format!(
            "the file says that it has {stored} bytes, and the log {size}"
        )));
    }
    let (bytes, checksum) = rest.split_at_checked(size).ok_or_else(cut_short)?;
    let checksum = checksum.first_chunk().ok_or_else(cut_short)?;
    let (stored, computed) = (u32::from_be_bytes(*checksum), crc32fast::hash(bytes));
    if stored != computed {
        return Err(malformed(format!(
            "its checksum is {computed:08x}, and the file says {stored:08x}"
        )));
    }
    from_bytes(bytes)
}

fn malformed(message: String) -> TableError {
    TableError::Malformed(message)
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use proptest::prelude::*;

    use super::*;

    /// The rows of the protocol's "JSON Example 3 — Inline", in the format that its section "Deletion Vector Format"
    /// describes.
    const EXAMPLE: &str = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L";
    /// The example itself. Its bytes are of an older format, with another magic number.
    const OLDER: &str = "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L";
    const EXAMPLE_ROWS: [u64; 6] = [3, 4, 7, 11, 18, 29];

    fn rows() -> impl Strategy<Value = RoaringTreemap> {
        let somewhere = prop::collection::vec(0..i64::MAX as u64, 0..50);
        let dense = (0..1_u64 << 33, 0..200_000_u64).prop_map(|(from, count)| from..from + count);
        (somewhere, dense, any::<bool>()).prop_map(|(some, range, runs)| {
            let mut rows: RoaringTreemap = some.into_iter().collect();
            if runs {
                rows.insert_range(range);
            }
            rows
        })
    }

    proptest! {
        #[test]
        fn rows_come_back(given in prop::collection::vec(rows(), 1..4)) {
            let mut file = FILE_HEADER.to_vec();
            let mut parts = Vec::new();
            for rows in &given {
                let bytes = to_bytes(rows).unwrap();
                prop_assert_eq!(&from_bytes(&bytes).unwrap(), rows);
                prop_assert_eq!(&from_text(&z85::encode(&bytes), bytes.len()).unwrap(), rows);
                parts.push((file.len(), bytes.len()));
                put_in_file(&mut file, i32::try_from(bytes.len()).unwrap(), &bytes);
            }
            for (rows, (offset, size)) in given.iter().zip(parts) {
                prop_assert_eq!(&from_file(&file[offset..], size).unwrap(), rows);
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in any::<String>()) {
            let _ = from_bytes(&bytes);
            let _ = from_bytes(&[&MAGIC.to_le_bytes(), bytes.as_slice()].concat());
            let _ = from_text(&text, bytes.len());
            let _ = from_file(&bytes, bytes.len().saturating_sub(8));
        }

        #[test]
        fn a_changed_byte_is_found(rows in rows(), at in any::<prop::sample::Index>(), bit in 0..8_u8) {
            let bytes = to_bytes(&rows).unwrap();
            let mut file = Vec::new();
            put_in_file(&mut file, i32::try_from(bytes.len()).unwrap(), &bytes);
            let at = at.index(file.len());
            file[at] ^= 1 << bit;
            prop_assert!(from_file(&file, bytes.len()).is_err());
        }

        #[test]
        fn half_a_vector_is_none(rows in rows(), cut in any::<prop::sample::Index>()) {
            let bytes = to_bytes(&rows).unwrap();
            prop_assert!(from_bytes(&bytes[..cut.index(bytes.len())]).is_err());
        }
    }

    #[test]
    fn no_part_of_a_bitmap_hides_another() {
        let part = |rows: Range<u64>| to_bytes(&rows.collect()).unwrap()[12..].to_vec();
        let of_parts = |parts: &[Vec<u8>]| {
            let count = parts.len() as u64;
            from_bytes(
                &[
                    MAGIC.to_le_bytes().to_vec(),
                    count.to_le_bytes().to_vec(),
                    parts.concat(),
                ]
                .concat(),
            )
        };
        let high = 1 << 32;
        assert_eq!(of_parts(&[part(0..3), part(high..high + 3)]).unwrap().len(), 6);
        assert!(of_parts(&[part(0..3), part(7..9)]).is_err());
        assert!(of_parts(&[part(high..high + 3), part(0..3)]).is_err());
    }

    #[test]
    fn the_example_of_the_protocol_is_read_and_written() {
        let rows = from_text(EXAMPLE, 44).unwrap();
        assert_eq!(rows.iter().collect::<Vec<_>>(), EXAMPLE_ROWS);
        assert_eq!(z85::encode(&to_bytes(&rows).unwrap()), EXAMPLE);
        let refused = from_text(OLDER, 40).unwrap_err().to_string();
        assert!(refused.contains("expected 1681511377"), "{refused}");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let bytes = to_bytes(&EXAMPLE_ROWS.into_iter().collect()).unwrap();
        let said = |result: Result<RoaringTreemap>| result.unwrap_err().to_string();
        assert!(said(from_bytes(&bytes[..3])).contains("3 bytes"));
        assert!(said(from_bytes(&[bytes.as_slice(), &[0]].concat())).contains("come after"));
        assert!(said(from_bytes(&[0; 12])).contains("expected 1681511377"));
        assert!(said(from_text(EXAMPLE, 36)).contains("the log says 36"));
        assert!(said(from_text("vector", 4)).contains("Z85"));
        let mut file = Vec::new();
        put_in_file(&mut file, 44, &bytes);
        assert!(said(from_file(&file, 40)).contains("and the log 40"));
        assert!(said(from_file(&file[..51], 44)).contains("51 bytes"));
        file[51] ^= 1;
        assert!(said(from_file(&file, 44)).contains("checksum"));
        let negative = to_bytes(&std::iter::once(u64::MAX).collect()).unwrap();
        assert!(said(from_bytes(&negative)).contains("negative"));
    }
}
