//! The sealing of one module: its layout in the file, and what it is authenticated with.

use std::sync::Arc;

use ring::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce};
use ring::rand::SecureRandom;

use super::{FileCipher, MOST_ORDINALS, no_random};
use crate::error::{Result, WriteError};

/// Bytes of the length before a module.
const LENGTH: usize = 4;
/// Bytes of the tag behind it.
pub(super) const TAG: usize = 16;

/// The kinds of modules, by their numbers in `Encryption.md`, "AAD suffix".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Module {
    Footer = 0,
    ColumnMetaData = 1,
    DataPage = 2,
    DictionaryPage = 3,
    DataPageHeader = 4,
    DictionaryPageHeader = 5,
    ColumnIndex = 6,
    OffsetIndex = 7,
    BloomFilterHeader = 8,
    BloomFilterBitset = 9,
}

/// The cipher of one column chunk, which knows its place in the file.
#[derive(Debug, Clone)]
pub(crate) struct ChunkCipher {
    file: Arc<FileCipher>,
    leaf: usize,
    place: [u8; 4],
}

impl ChunkCipher {
    pub(super) fn new(file: Arc<FileCipher>, row_group: usize, leaf: usize) -> Result<Self> {
        Ok(Self {
            file,
            leaf,
            place: place(row_group, leaf)?,
        })
    }

    /// Seals a module of the dictionary page.
    pub fn seal(&self, module: Module, plain: &[u8]) -> Result<Vec<u8>> {
        self.seal_at(module, &self.place, plain)
    }

    /// Seals a module of a data page, given its number in the chunk.
    ///
    /// # Errors
    /// [`WriteError::Option`] when there are more pages in the chunk than can be numbered.
    pub fn seal_page(&self, module: Module, page: usize, plain: &[u8]) -> Result<Vec<u8>> {
        let page = ordinal(
            page,
            "pages in a column chunk",
            "raise page_bytes, page_rows and memory_limit, as far as they are set, or lower row_group_rows",
        )?;
        self.seal_at(module, &[&self.place[..], &page].concat(), plain)
    }

    fn seal_at(&self, module: Module, place: &[u8], plain: &[u8]) -> Result<Vec<u8>> {
        let key = self.file.key_of(self.leaf).ok_or_else(failed)?;
        self.file.seal(key, &self.file.aad(module, place), plain)
    }
}

impl FileCipher {
    /// The bytes that a module is authenticated with, given the bytes of its place in the file.
    pub(super) fn aad(&self, module: Module, place: &[u8]) -> Vec<u8> {
        let prefix = self.prefix.as_deref().unwrap_or_default();
        [prefix, &self.unique, &[module as u8], place].concat()
    }

    /// A module as it is in the file: its length, a nonce, the encrypted bytes and their tag.
    ///
    /// Nonces are random: a key may seal 2^32 modules, after NIST SP 800-38D, 8.3.
    pub(super) fn seal(&self, key: &LessSafeKey, aad: &[u8], plain: &[u8]) -> Result<Vec<u8>> {
        let length = u32::try_from(NONCE_LEN + plain.len() + TAG).map_err(|_| failed())?;
        let nonce = self.nonce()?;
        let mut sealed = Vec::with_capacity(LENGTH + NONCE_LEN + plain.len() + TAG);
        sealed.extend_from_slice(&length.to_le_bytes());
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(plain);
        let tag = key
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(aad),
                &mut sealed[LENGTH + NONCE_LEN..],
            )
            .map_err(|_| failed())?;
        sealed.extend_from_slice(tag.as_ref());
        Ok(sealed)
    }

    fn nonce(&self) -> Result<[u8; NONCE_LEN]> {
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).map_err(|_| no_random())?;
        Ok(nonce)
    }
}

/// The nonce of a sealed module, and its tag.
pub(super) fn nonce_and_tag(sealed: &[u8]) -> (&[u8], &[u8]) {
    (&sealed[LENGTH..LENGTH + NONCE_LEN], &sealed[sealed.len() - TAG..])
}

/// The bytes of a chunk's place in the file.
///
/// # Errors
/// [`WriteError::Option`] when there are more row groups or columns than can be numbered.
pub(super) fn place(row_group: usize, leaf: usize) -> Result<[u8; 4]> {
    let row_group = ordinal(row_group, "row groups", "raise row_group_rows or row_group_bytes")?;
    let column = ordinal(leaf, "columns", "write several files")?;
    Ok([row_group[0], row_group[1], column[0], column[1]])
}

fn ordinal(number: usize, what: &str, instead: &str) -> Result<[u8; 2]> {
    let number = i16::try_from(number).map_err(|_| {
        WriteError::option(
            "encryption",
            format!(
                "there are more than {MOST_ORDINALS} {what}, which an encrypted file has no numbers for: {instead}"
            ),
        )
    });
    Ok(number?.to_le_bytes())
}

fn failed() -> WriteError {
    WriteError::Encode("a module could not be encrypted".into())
}
