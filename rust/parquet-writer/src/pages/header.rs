//! As much of a page header as changes when its page is compressed after all.
//!
//! Thrift's compact protocol writes `PageHeader` as field after field: type, uncompressed size and compressed size come
//! first, each a header byte 0x15 (next field, i32) and a zigzag varint. What follows does not depend on them.

use crate::error::{Result, WriteError};

const NEXT_FIELD_I32: u8 = 0x15;
const DICTIONARY_PAGE: i32 = 2;
/// One field further, in the high half of a field's first byte.
const ONE_FIELD: u8 = 0x10;
/// Field 7 after field 3, a struct.
const DICTIONARY_HEADER: u8 = 0x4c;

/// A page header in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PageHeader {
    kind: i32,
    uncompressed: i32,
    compressed: i32,
    /// Field 4, which the crate does not write.
    checksum: Option<u32>,
    /// The fields behind those, counted from field 3.
    rest: Vec<u8>,
}

impl PageHeader {
    /// Takes apart a header that the crate wrote.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let mut rest = bytes;
        let (kind, uncompressed, compressed) = (field(&mut rest)?, field(&mut rest)?, field(&mut rest)?);
        Ok(Self {
            kind,
            uncompressed,
            compressed,
            checksum: None,
            rest: rest.to_vec(),
        })
    }

    pub fn is_dictionary(&self) -> bool {
        self.kind == DICTIONARY_PAGE
    }

    /// Bytes of the page before compression, the header left out.
    pub fn uncompressed(&self) -> usize {
        usize::try_from(self.uncompressed).unwrap_or(0)
    }

    /// Entries of a dictionary page: the first field of the first struct that follows the sizes.
    pub fn dictionary_entries(&self) -> Result<usize> {
        let mut rest = self.rest.strip_prefix(&[DICTIONARY_HEADER]).unwrap_or_default();
        Ok(usize::try_from(field(&mut rest)?).unwrap_or(0))
    }

    pub fn set_compressed(&mut self, bytes: usize) -> Result<()> {
        self.compressed = i32::try_from(bytes).map_err(|_| {
            WriteError::Encode("a page is larger than 2 GiB: a value is too large for Parquet".into())
        })?;
        Ok(())
    }

    /// Gives the page the CRC-32 of its bytes.
    pub fn set_checksum(&mut self, checksum: Option<u32>) -> Result<()> {
        // The first field behind the sizes must leave room for field 4 before it.
        if checksum.is_some() && self.rest.first().is_none_or(|first| *first < 2 * ONE_FIELD) {
            return Err(unexpected());
        }
        self.checksum = checksum;
        Ok(())
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.rest.len() + 24);
        let checksum = self.checksum.map(u32::cast_signed);
        let numbers = [self.kind, self.uncompressed, self.compressed];
        for value in numbers.into_iter().chain(checksum) {
            bytes.push(NEXT_FIELD_I32);
            put_varint(&mut bytes, zigzag(value));
        }
        let start = bytes.len();
        bytes.extend_from_slice(&self.rest);
        if let Some(first) = bytes.get_mut(start).filter(|_| checksum.is_some()) {
            *first -= ONE_FIELD;
        }
        bytes
    }
}

fn unexpected() -> WriteError {
    WriteError::Encode("a page header does not begin with its type and sizes".into())
}

fn field(bytes: &mut &[u8]) -> Result<i32> {
    match bytes.split_first() {
        Some((&NEXT_FIELD_I32, rest)) => *bytes = rest,
        _ => return Err(unexpected()),
    }
    let mut value = 0_u32;
    for shift in (0..35).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or_else(unexpected)?;
        *bytes = rest;
        value |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
        }
    }
    Err(unexpected())
}

fn zigzag(value: i32) -> u32 {
    ((value << 1) ^ (value >> 31)).cast_unsigned()
}

fn put_varint(bytes: &mut Vec<u8>, mut value: u32) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            return bytes.push(low & 0x7f);
        }
        bytes.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_header_comes_back_from_its_bytes(kind in 0..4, uncompressed in any::<i32>(), compressed in any::<i32>(), rest: Vec<u8>) {
            let header = PageHeader { kind, uncompressed, compressed, checksum: None, rest };
            prop_assert_eq!(PageHeader::parse(&header.bytes()).unwrap(), header);
        }

        #[test]
        fn bytes_that_are_no_header_are_an_error_or_a_header(bytes: Vec<u8>) {
            if let Ok(header) = PageHeader::parse(&bytes) {
                prop_assert!(header.bytes().len() <= bytes.len());
            }
        }
    }
}
