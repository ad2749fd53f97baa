//! Compression of pages.

use std::fmt;

use parquet::basic::{Compression, ZstdLevel};

use crate::error::Result;

/// Compresses pages one after the other with one context, whose tables stay warm.
pub(crate) struct Press {
    codec: Codec,
    scratch: Vec<u8>,
}

enum Codec {
    Zstd(zstd::bulk::Compressor<'static>),
    Lz4,
    /// Pages stay as they come.
    None,
}

impl fmt::Debug for Press {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Press").finish_non_exhaustive()
    }
}

impl Press {
    /// The press for a file's codec, and the codec that is left to the encoders: all but ZSTD are light enough for one
    /// context each.
    pub fn for_file(codec: Compression) -> Result<(Self, Compression)> {
        match codec {
            Compression::ZSTD(level) => Ok((Self::zstd(level)?, Compression::UNCOMPRESSED)),
            other => Ok((Self::with(Codec::None), other)),
        }
    }

    /// One that leaves pages as they come.
    pub fn none() -> Self {
        Self::with(Codec::None)
    }

    /// One that stands in for a codec on samples: it either codes entropy too, or only finds repeats too.
    pub fn for_samples(codec: Compression) -> Result<Self> {
        match codec {
            Compression::ZSTD(_) | Compression::GZIP(_) | Compression::BROTLI(_) => {
                Self::zstd(ZstdLevel::try_new(1)?)
            }
            Compression::SNAPPY | Compression::LZ4_RAW => Ok(Self::with(Codec::Lz4)),
            _ => Ok(Self::with(Codec::None)),
        }
    }

    fn zstd(level: ZstdLevel) -> Result<Self> {
        Ok(Self::with(Codec::Zstd(zstd::bulk::Compressor::new(
            level.compression_level(),
        )?)))
    }

    fn with(codec: Codec) -> Self {
        Self {
            codec,
            scratch: Vec::new(),
        }
    }

    /// Memory it holds, its context's tables left out.
    pub fn tracked_bytes(&self) -> usize {
        self.scratch.capacity()
    }

    pub fn press<'a>(&'a mut self, body: &'a [u8]) -> Result<&'a [u8]> {
        self.scratch.clear();
        match &mut self.codec {
            Codec::Zstd(zstd) => {
                self.scratch.reserve(zstd::zstd_safe::compress_bound(body.len()));
                zstd.compress_to_buffer(body, &mut self.scratch)?;
            }
            Codec::Lz4 => self.scratch.extend(lz4_flex::block::compress(body)),
            Codec::None => return Ok(body),
        }
        Ok(&self.scratch)
    }
}
