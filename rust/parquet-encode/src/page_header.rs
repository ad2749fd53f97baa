//! Page headers.
//!
//! `parquet.thrift`: `PageHeader`, `DataPageHeader`, `DictionaryPageHeader`. Data pages have no statistics: the column
//! index has their bounds.

use crate::thrift::StructWriter;

/// The encoding of values: `Encoding` of `parquet.thrift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// As they are.
    Plain = 0,
    /// Runs: levels, and booleans.
    Rle = 3,
    /// Packed differences.
    DeltaBinaryPacked = 5,
    /// Packed lengths, joined bytes.
    DeltaLengthByteArray = 6,
    /// Packed lengths of common prefixes, then the rest.
    DeltaByteArray = 7,
    /// Indices into the dictionary.
    RleDictionary = 8,
    /// A stream for each byte.
    ByteStreamSplit = 9,
}

/// The error of a number that does not fit the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} of a page is {number}; the format ends at 2147483647")]
pub struct TooLarge {
    /// The name of the number.
    pub what: &'static str,
    /// The number.
    pub number: usize,
}

/// The kind of a page and the fields of its header.
#[derive(Clone, Copy, Debug)]
pub enum PageContent {
    /// Data page V1; its levels are always runs.
    Data {
        /// The number of values, nulls included; for nested columns, the number of levels.
        values: usize,
        /// Their encoding.
        encoding: Encoding,
    },
    /// Dictionary page, PLAIN.
    Dictionary {
        /// Its entries.
        entries: usize,
    },
}

/// The header before a page.
#[derive(Clone, Copy, Debug)]
pub struct PageHeader {
    /// Bytes of the page before compression, levels included, without this header.
    pub uncompressed_size: usize,
    /// Bytes of the page in the file, levels included, without this header.
    pub compressed_size: usize,
    /// CRC-32 (the polynomial of gzip) of the page as it is in the file.
    pub crc: Option<u32>,
    /// The kind of the page and its own fields.
    pub content: PageContent,
}

fn fit(what: &'static str, number: usize) -> Result<i32, TooLarge> {
    i32::try_from(number).map_err(|_| TooLarge { what, number })
}

impl PageHeader {
    /// Appends the header.
    ///
    /// # Errors
    ///
    /// [`TooLarge`] if a size or a count does not fit into 31 bits; nothing is appended then.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), TooLarge> {
        let start = out.len();
        self.write_fields(out).inspect_err(|_| out.truncate(start))
    }

    fn write_fields(&self, out: &mut Vec<u8>) -> Result<(), TooLarge> {
        let kind = match self.content {
            PageContent::Data { .. } => 0,
            PageContent::Dictionary { .. } => 2,
        };
        let mut header = StructWriter::new(out);
        header.i32(1, kind);
        header.i32(2, fit("uncompressed size", self.uncompressed_size)?);
        header.i32(3, fit("compressed size", self.compressed_size)?);
        if let Some(crc) = self.crc {
            header.i32(4, crc.cast_signed());
        }
        match self.content {
            PageContent::Data { values, encoding } => {
                let values = fit("number of values", values)?;
                header.nested(5, |page| {
                    page.i32(1, values);
                    page.i32(2, encoding as i32);
                    page.i32(3, Encoding::Rle as i32);
                    page.i32(4, Encoding::Rle as i32);
                });
            }
            PageContent::Dictionary { entries } => {
                let entries = fit("number of entries", entries)?;
                header.nested(7, |page| {
                    page.i32(1, entries);
                    page.i32(2, Encoding::Plain as i32);
                    // Not said to be sorted.
                    page.bool(3, false);
                });
            }
        }
        header.end();
        Ok(())
    }
}
