//! Modular encryption: the keys of a file, and the sealing of its modules.
//!
//! Parquet's `Encryption.md`. Each page, page header, index, filter and the metadata is a module of its own, which
//! AES-GCM encrypts and authenticates together with its place in the file.

mod footer;
mod module;

use std::fmt;
use std::sync::Arc;

use parquet::schema::types::SchemaDescriptor;
use ring::aead::{AES_128_GCM, AES_256_GCM, LessSafeKey, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};

use crate::error::{Result, WriteError};
use crate::names::{ByColumn, by_leaf, is_named};

pub(crate) use footer::{MAGIC, seal_end};
pub(crate) use module::{ChunkCipher, Module};

/// Ordinals of row groups, columns and pages are 16-bit integers in what is authenticated.
pub(crate) const MOST_ORDINALS: usize = 1 << 15;
/// Bytes of the part of what is authenticated that differs in each file.
const UNIQUE_BYTES: usize = 8;

/// A key of AES, and what a key management system needs to find it.
#[derive(Clone, PartialEq, Eq)]
pub struct EncryptionKey {
    /// 16 or 32 bytes.
    pub bytes: Vec<u8>,
    /// Stored in the file as it is.
    pub metadata: Option<Vec<u8>>,
}

impl fmt::Debug for EncryptionKey {
    /// Shows nothing of the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncryptionKey").finish_non_exhaustive()
    }
}

/// The keys of a file.
#[derive(Clone, PartialEq, Eq)]
pub struct Encryption {
    /// The key of the footer, and of all columns that are not named.
    pub footer_key: EncryptionKey,
    /// The keys of single leaf columns, by their paths; `None` leaves a column as it is.
    pub column_keys: Vec<(Vec<String>, Option<EncryptionKey>)>,
    /// True if the footer is signed, and readable without a key.
    pub plaintext_footer: bool,
    /// Bytes that name the file, and that every module is authenticated with.
    pub aad_prefix: Option<Vec<u8>>,
    /// True if the file has the prefix; else readers must bring it.
    pub store_aad_prefix: bool,
}

impl fmt::Debug for Encryption {
    /// Shows neither keys nor the prefix.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encryption")
            .field("plaintext_footer", &self.plaintext_footer)
            .finish_non_exhaustive()
    }
}

impl Encryption {
    /// Checks what can be checked without a schema.
    ///
    /// # Errors
    /// [`WriteError::Option`] names the key that has another length than those of AES-128 and AES-256, or says that the
    /// prefix is empty or missing.
    pub fn check(&self) -> Result<()> {
        check_length("its footer_key", &self.footer_key)?;
        for (path, key) in &self.column_keys {
            if let Some(key) = key {
                check_length(&format!("the key of column {:?}", path.join(".")), key)?;
            }
        }
        match &self.aad_prefix {
            Some(prefix) if prefix.is_empty() => Err(refused(
                "its aad_prefix is empty, which readers take for none: give at least one byte, or leave it out",
            )),
            None if !self.store_aad_prefix => Err(refused(
                "store_aad_prefix=False leaves a prefix out of the file, and there is none: give an aad_prefix",
            )),
            _ => Ok(()),
        }
    }
}

fn check_length(whose: &str, key: &EncryptionKey) -> Result<()> {
    match key.bytes.len() {
        16 | 32 => Ok(()),
        other => Err(refused(&format!(
            "{whose} has {other} bytes, give 16 (AES-128) or 32 (AES-256)"
        ))),
    }
}

fn refused(why: &str) -> WriteError {
    WriteError::option("encryption", format!("encryption is not accepted: {why}"))
}

/// The protection of one leaf column.
enum Protection {
    None,
    /// By the footer's key.
    Footer,
    /// By a key of its own.
    Own(Box<Cipher>),
}

/// A key that is ready for use.
struct Cipher {
    key: LessSafeKey,
    metadata: Option<Vec<u8>>,
}

impl Cipher {
    fn new(key: &EncryptionKey) -> Result<Self> {
        let algorithm = if key.bytes.len() == AES_128_GCM.key_len() {
            &AES_128_GCM
        } else {
            &AES_256_GCM
        };
        let unbound = UnboundKey::new(algorithm, &key.bytes)
            .map_err(|_| WriteError::Encode("a key could not be made ready".into()))?;
        Ok(Self {
            key: LessSafeKey::new(unbound),
            metadata: key.metadata.clone(),
        })
    }
}

/// The keys of one file that is being written.
pub(crate) struct FileCipher {
    footer: Cipher,
    columns: Vec<Protection>,
    plaintext_footer: bool,
    prefix: Option<Vec<u8>>,
    store_prefix: bool,
    unique: [u8; UNIQUE_BYTES],
    random: SystemRandom,
}

impl fmt::Debug for FileCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileCipher").finish_non_exhaustive()
    }
}

impl FileCipher {
    /// # Errors
    /// [`WriteError::Option`] when a column is named that the schema does not have, or is named twice, or the schema
    /// has more columns than can be numbered.
    pub fn new(encryption: &Encryption, parquet: &SchemaDescriptor) -> Result<Arc<Self>> {
        if parquet.num_columns() > MOST_ORDINALS {
            return Err(WriteError::option(
                "encryption",
                format!(
                    "encryption is not accepted for {} leaf columns: the format numbers {MOST_ORDINALS} of an encrypted file",
                    parquet.num_columns()
                ),
            ));
        }
        let named = encryption.column_keys.iter().enumerate();
        let named = named.map(|(at, (path, _))| (path.clone(), Some(at))).collect();
        let columns = by_leaf(parquet, "encryption", &ByColumn::Columns(named), None)?;
        for leaf in 0..parquet.num_columns() {
            let mut keys = encryption.column_keys.iter();
            let named = keys.by_ref().any(|(path, _)| is_named(parquet, leaf, path));
            if named && keys.any(|(path, _)| is_named(parquet, leaf, path)) {
                return Err(refused(&format!(
                    "column_keys names the column {:?} twice, in two spellings: leave one of them out",
                    parquet.column(leaf).path().string()
                )));
            }
        }
        let columns = columns.into_iter().map(|named| {
            Ok(match named.map(|at| &encryption.column_keys[at].1) {
                None => Protection::Footer,
                Some(None) => Protection::None,
                Some(Some(key)) => Protection::Own(Box::new(Cipher::new(key)?)),
            })
        });
        let random = SystemRandom::new();
        let mut unique = [0; UNIQUE_BYTES];
        random.fill(&mut unique).map_err(|_| no_random())?;
        Ok(Arc::new(Self {
            footer: Cipher::new(&encryption.footer_key)?,
            columns: columns.collect::<Result<_>>()?,
            plaintext_footer: encryption.plaintext_footer,
            prefix: encryption.aad_prefix.clone(),
            store_prefix: encryption.store_aad_prefix,
            unique,
            random,
        }))
    }

    /// Returns true if the footer can be read without a key.
    pub fn has_plaintext_footer(&self) -> bool {
        self.plaintext_footer
    }

    /// The cipher of the chunk of a leaf column, unless that is left as it is.
    ///
    /// # Errors
    /// [`WriteError::Option`] when there are more row groups than can be numbered.
    pub fn chunk(self: &Arc<Self>, row_group: usize, leaf: usize) -> Result<Option<ChunkCipher>> {
        let key = self.key_of(leaf).is_some();
        key.then(|| ChunkCipher::new(Arc::clone(self), row_group, leaf))
            .transpose()
    }

    /// Returns true if a leaf column has secrets from readers of the footer: it has a key of its own, or any key where
    /// the footer needs none.
    pub fn hides(&self, leaf: usize) -> bool {
        match self.columns.get(leaf) {
            None | Some(Protection::None) => false,
            Some(Protection::Footer) => self.plaintext_footer,
            Some(Protection::Own(_)) => true,
        }
    }

    /// The key of a leaf column.
    fn key_of(&self, leaf: usize) -> Option<&LessSafeKey> {
        match self.columns.get(leaf)? {
            Protection::None => None,
            Protection::Footer => Some(&self.footer.key),
            Protection::Own(cipher) => Some(&cipher.key),
        }
    }
}

fn no_random() -> WriteError {
    WriteError::Encode("the system has no random bytes for encryption".into())
}
