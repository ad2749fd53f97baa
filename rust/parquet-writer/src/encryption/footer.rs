//! The end of an encrypted file: bloom filters, page indexes and the footer.
//!
//! The crate writes them as they are. Here the modules of encrypted columns are sealed, which moves those behind, and
//! the footer gets the new places, and what readers need to find the keys.

use parquet::file::FOOTER_SIZE;

use super::module::{Module, nonce_and_tag, place};
use super::{FileCipher, Protection};
use crate::error::{Result, WriteError};
use crate::thrift::{ThriftStruct, ThriftValue};

/// The first and the last bytes of a file with an encrypted footer.
pub(crate) const MAGIC: [u8; 4] = *b"PARE";
const PLAIN_MAGIC: [u8; 4] = *b"PAR1";

/// Ids of fields in `parquet.thrift`.
mod id {
    /// `FileMetaData`.
    pub const ROW_GROUPS: i16 = 4;
    pub const ENCRYPTION_ALGORITHM: i16 = 8;
    pub const FOOTER_SIGNING_KEY_METADATA: i16 = 9;
    /// `RowGroup`.
    pub const COLUMNS: i16 = 1;
    /// `ColumnChunk`.
    pub const META_DATA: i16 = 3;
    pub const OFFSET_INDEX: (i16, i16) = (4, 5);
    pub const COLUMN_INDEX: (i16, i16) = (6, 7);
    pub const CRYPTO_METADATA: i16 = 8;
    pub const ENCRYPTED_COLUMN_METADATA: i16 = 9;
    /// `ColumnMetaData`.
    pub const PATH_IN_SCHEMA: i16 = 3;
    pub const BLOOM_FILTER: (i16, i16) = (14, 15);
    /// Statistics, encodings of pages, the filter's place and statistics of sizes: what tells of values.
    pub const TELLING: std::ops::RangeInclusive<i16> = 12..=17;
}

/// Seals the end of a file, which begins at `start` with the first bloom filter or page index.
pub(crate) fn seal_end(end: &[u8], start: u64, cipher: &FileCipher) -> Result<Vec<u8>> {
    let footer = footer_of(end).ok_or_else(unexpected)?;
    let mut file = ThriftStruct::parse(&end[footer.clone()])?;
    let mut moved = Moved {
        end: &end[..footer.start],
        start,
        out: Vec::new(),
        cipher,
    };
    each_chunk(&mut file, &mut |row_group, leaf, chunk| {
        moved.bloom_filter(row_group, leaf, chunk.nested(id::META_DATA)?)
    })?;
    for (place, module) in [
        (id::COLUMN_INDEX, Module::ColumnIndex),
        (id::OFFSET_INDEX, Module::OffsetIndex),
    ] {
        each_chunk(&mut file, &mut |row_group, leaf, chunk| {
            moved.index(row_group, leaf, chunk, place, module)
        })?;
    }
    let mut end = moved.out;
    each_chunk(&mut file, &mut |row_group, leaf, chunk| {
        protect(row_group, leaf, chunk, cipher)
    })?;
    write_footer(file, cipher, &mut end)?;
    Ok(end)
}

/// The range of the footer.
fn footer_of(end: &[u8]) -> Option<std::ops::Range<usize>> {
    let stop = end.len().checked_sub(FOOTER_SIZE)?;
    let length = u32::from_le_bytes(end[stop..stop + 4].try_into().ok()?);
    Some(stop.checked_sub(usize::try_from(length).ok()?)?..stop)
}

/// Calls `each` with the ordinals of each chunk and its `ColumnChunk`.
fn each_chunk(
    file: &mut ThriftStruct,
    each: &mut dyn FnMut(usize, usize, &mut ThriftStruct) -> Result<()>,
) -> Result<()> {
    for (row_group, value) in file.list(id::ROW_GROUPS)?.iter_mut().enumerate() {
        for (leaf, chunk) in value.as_struct()?.list(id::COLUMNS)?.iter_mut().enumerate() {
            each(row_group, leaf, chunk.as_struct()?)?;
        }
    }
    Ok(())
}

/// The modules before the footer, as they are laid out anew.
struct Moved<'a> {
    end: &'a [u8],
    start: u64,
    out: Vec<u8>,
    cipher: &'a FileCipher,
}

impl<'a> Moved<'a> {
    fn index(
        &mut self,
        row_group: usize,
        leaf: usize,
        chunk: &mut ThriftStruct,
        place: (i16, i16),
        module: Module,
    ) -> Result<()> {
        let Some(plain) = self.bytes_at(chunk, place)? else {
            return Ok(());
        };
        let sealed = self.sealed(row_group, leaf, module, plain)?;
        self.put(chunk, place, &sealed)
    }

    /// Moves a filter, whose header and bits are modules of their own.
    fn bloom_filter(&mut self, row_group: usize, leaf: usize, metadata: &mut ThriftStruct) -> Result<()> {
        let Some(plain) = self.bytes_at(metadata, id::BLOOM_FILTER)? else {
            return Ok(());
        };
        let (_, length) = ThriftStruct::parse_first(plain)?;
        let (header, bits) = plain.split_at(length);
        let mut sealed = self.sealed(row_group, leaf, Module::BloomFilterHeader, header)?;
        sealed.extend(self.sealed(row_group, leaf, Module::BloomFilterBitset, bits)?);
        self.put(metadata, id::BLOOM_FILTER, &sealed)
    }

    /// The bytes that a struct's fields say the place of, if they do.
    fn bytes_at(&self, fields: &ThriftStruct, place: (i16, i16)) -> Result<Option<&'a [u8]>> {
        let Some(offset) = fields.integer(place.0) else {
            return Ok(None);
        };
        let within = || {
            let offset = u64::try_from(offset).ok()?.checked_sub(self.start)?;
            let offset = usize::try_from(offset).ok()?;
            let length = usize::try_from(fields.integer(place.1)?).ok()?;
            self.end.get(offset..offset.checked_add(length)?)
        };
        within().map(Some).ok_or_else(unexpected)
    }

    fn sealed(&self, row_group: usize, leaf: usize, module: Module, plain: &[u8]) -> Result<Vec<u8>> {
        self.cipher.seal_of(row_group, leaf, module, plain)
    }

    fn put(&mut self, fields: &mut ThriftStruct, place: (i16, i16), bytes: &[u8]) -> Result<()> {
        let offset = self.start + self.out.len() as u64;
        fields.set_integer(place.0, i64::try_from(offset).map_err(|_| unexpected())?)?;
        fields.set_integer(place.1, i64::try_from(bytes.len()).map_err(|_| unexpected())?)?;
        self.out.extend_from_slice(bytes);
        Ok(())
    }
}

/// Hides what a chunk's metadata tells, and says by which key that is found again.
fn protect(row_group: usize, leaf: usize, chunk: &mut ThriftStruct, cipher: &FileCipher) -> Result<()> {
    let metadata = chunk.nested(id::META_DATA)?;
    let whose = match &cipher.columns[leaf] {
        Protection::None => return Ok(()),
        Protection::Footer => ThriftStruct::default().with(1, ThriftValue::Struct(ThriftStruct::default())),
        Protection::Own(own) => {
            let path = metadata.get(id::PATH_IN_SCHEMA).ok_or_else(unexpected)?;
            let mut key = ThriftStruct::default().with(1, path.clone());
            if let Some(metadata) = &own.metadata {
                key.set(2, ThriftValue::Binary(metadata.clone()));
            }
            ThriftStruct::default().with(2, ThriftValue::Struct(key))
        }
    };
    // What the footer's key protects is in the encrypted footer as it is.
    let is_own = matches!(&cipher.columns[leaf], Protection::Own(_));
    let sealed = if is_own || cipher.plaintext_footer {
        Some(cipher.seal_of(row_group, leaf, Module::ColumnMetaData, &metadata.bytes())?)
    } else {
        None
    };
    if sealed.is_some() {
        id::TELLING.for_each(|field| metadata.remove(field));
        if !cipher.plaintext_footer {
            chunk.remove(id::META_DATA);
        }
    }
    chunk.set(id::CRYPTO_METADATA, ThriftValue::Struct(whose));
    if let Some(sealed) = sealed {
        chunk.set(id::ENCRYPTED_COLUMN_METADATA, ThriftValue::Binary(sealed));
    }
    Ok(())
}

/// Appends the footer, its length and the magic.
fn write_footer(mut file: ThriftStruct, cipher: &FileCipher, end: &mut Vec<u8>) -> Result<()> {
    let start = end.len();
    let aad = cipher.aad(Module::Footer, &[]);
    let key_metadata = cipher.footer.metadata.clone().map(ThriftValue::Binary);
    let magic = if cipher.plaintext_footer {
        file.set(id::ENCRYPTION_ALGORITHM, ThriftValue::Struct(cipher.algorithm()));
        if let Some(metadata) = key_metadata {
            file.set(id::FOOTER_SIGNING_KEY_METADATA, metadata);
        }
        let plain = file.bytes();
        let sealed = cipher.seal(&cipher.footer.key, &aad, &plain)?;
        let (nonce, tag) = nonce_and_tag(&sealed);
        end.extend([&plain[..], nonce, tag].into_iter().flatten());
        PLAIN_MAGIC
    } else {
        let mut crypto = ThriftStruct::default().with(1, ThriftValue::Struct(cipher.algorithm()));
        if let Some(metadata) = key_metadata {
            crypto.set(2, metadata);
        }
        crypto.write(end);
        end.extend(cipher.seal(&cipher.footer.key, &aad, &file.bytes())?);
        MAGIC
    };
    let length = u32::try_from(end.len() - start).map_err(|_| unexpected())?;
    end.extend_from_slice(&length.to_le_bytes());
    end.extend_from_slice(&magic);
    Ok(())
}

impl FileCipher {
    /// `EncryptionAlgorithm`: `AES_GCM_V1` and what the modules are authenticated with.
    fn algorithm(&self) -> ThriftStruct {
        let mut algorithm = ThriftStruct::default().with(2, ThriftValue::Binary(self.unique.to_vec()));
        if let Some(prefix) = &self.prefix {
            if self.store_prefix {
                algorithm.set(1, ThriftValue::Binary(prefix.clone()));
            }
            algorithm.set(3, ThriftValue::Bool(!self.store_prefix));
        }
        ThriftStruct::default().with(1, ThriftValue::Struct(algorithm))
    }

    /// A module of a chunk, sealed where the column is encrypted.
    fn seal_of(&self, row_group: usize, leaf: usize, module: Module, plain: &[u8]) -> Result<Vec<u8>> {
        let Some(key) = self.key_of(leaf) else {
            return Ok(plain.to_vec());
        };
        self.seal(key, &self.aad(module, &place(row_group, leaf)?), plain)
    }
}

fn unexpected() -> WriteError {
    WriteError::Encode("the end of the file is not what was expected of it".into())
}
