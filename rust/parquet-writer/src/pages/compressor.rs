//! Compression of pages.

use std::fmt;
use std::io::Write;
use std::sync::{Mutex, OnceLock, TryLockError};

use parquet::basic::{Compression, ZstdLevel};
use zstd::zstd_safe::{CParameter, ResetDirective};

use super::match_strategy::MatchStrategy;
use crate::error::{Result, WriteError};

/// Idle compressors: contexts with warm tables. There are as many as pages are compressed at a time, not one per writer
/// or column.
static IDLE: Mutex<Vec<Compressor>> = Mutex::new(Vec::new());

/// Buffers above this are not kept for the next page.
const KEPT_BYTES: usize = 1 << 20;
/// Pages whose compressed form is remembered, and the most bytes of one: few enough that small files profit, whose
/// pages are tried as they are written.
const PAGES_TRIED: usize = 6;
const MOST_TRIED: usize = 64 << 10;

/// Compresses pages one after the other with one context.
pub(crate) struct Compressor {
    compression: Compression,
    codec: Codec,
    compressed: Vec<u8>,
    /// Room for the page to be compressed.
    pub body: Vec<u8>,
    tried: Tried,
}

/// The last pages that were tried. A page is often written as it was tried.
#[derive(Default)]
struct Tried {
    pages: [(Vec<u8>, Vec<u8>); PAGES_TRIED],
    next: usize,
}

impl Tried {
    /// The place of a page, if it is remembered.
    fn place(&self, body: &[u8]) -> Option<usize> {
        let mut tried = self.pages.iter().map(|(body, _)| body);
        tried.position(|tried| tried == body && !tried.is_empty())
    }

    /// The compressed form of the page at a place.
    fn compressed(&self, place: usize) -> &[u8] {
        &self.pages[place].1
    }

    fn remember(&mut self, body: &[u8], compressed: &[u8]) {
        let page = &mut self.pages[self.next % PAGES_TRIED];
        for (room, bytes) in [(&mut page.0, body), (&mut page.1, compressed)] {
            room.clear();
            room.extend_from_slice(bytes);
        }
        self.next += 1;
    }
}

enum Codec {
    Zstd(Box<Zstd>),
    Snappy(Box<snap::raw::Encoder>),
    Lz4,
    Gzip(flate2::Compression),
    Brotli(brotli::enc::BrotliEncoderParams),
    /// Pages stay as they come.
    None,
}

/// A context of ZSTD and its settings.
struct Zstd {
    context: zstd::bulk::Compressor<'static>,
    level: i32,
    strategy: MatchStrategy,
}

impl Zstd {
    fn new(level: i32) -> Result<Self> {
        Ok(Self {
            context: zstd::bulk::Compressor::new(level)?,
            level,
            strategy: MatchStrategy::default(),
        })
    }

    fn set(&mut self, strategy: MatchStrategy) -> std::io::Result<()> {
        if strategy == self.strategy {
            return Ok(());
        }
        let context = self.context.context_mut();
        context
            .reset(ResetDirective::Parameters)
            .map_err(|code| std::io::Error::other(zstd::zstd_safe::get_error_name(code)))?;
        self.context
            .set_parameter(CParameter::CompressionLevel(self.level))?;
        for parameter in strategy.parameters() {
            self.context.set_parameter(*parameter)?;
        }
        self.strategy = strategy;
        Ok(())
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor")
            .field("compression", &self.compression)
            .finish_non_exhaustive()
    }
}

impl Compressor {
    /// Runs `work` with a compressor for pages of this codec, which is kept for the next page afterwards.
    pub fn with<T>(compression: Compression, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let idle = with_idle(|idle| {
            let place = idle
                .iter()
                .position(|compressor| compressor.compression == compression)?;
            Some(idle.swap_remove(place))
        });
        let mut compressor = idle.flatten().map_or_else(|| Self::new(compression), Ok)?;
        let done = work(&mut compressor);
        if compressor.is_worth_keeping() {
            compressor.keep();
        }
        done
    }

    /// The codec that replaces another on samples: one with entropy coding for one with, one without for one without.
    pub fn codec_for_samples(codec: Compression) -> Result<Compression> {
        Ok(match codec {
            Compression::ZSTD(_) | Compression::GZIP(_) | Compression::BROTLI(_) => {
                Compression::ZSTD(ZstdLevel::try_new(1)?)
            }
            Compression::SNAPPY | Compression::LZ4_RAW => Compression::LZ4_RAW,
            _ => Compression::UNCOMPRESSED,
        })
    }

    fn keep(self) {
        with_idle(|idle| {
            let alike = idle.iter().filter(|other| other.compression == self.compression);
            if alike.count() < cores() {
                idle.push(self);
            }
        });
    }

    fn new(compression: Compression) -> Result<Self> {
        let codec = match compression {
            Compression::UNCOMPRESSED => Codec::None,
            Compression::ZSTD(level) => Codec::Zstd(Box::new(Zstd::new(level.compression_level())?)),
            Compression::SNAPPY => Codec::Snappy(Box::new(snap::raw::Encoder::new())),
            Compression::LZ4_RAW => Codec::Lz4,
            Compression::GZIP(level) => Codec::Gzip(flate2::Compression::new(level.compression_level())),
            Compression::BROTLI(level) => Codec::Brotli(brotli_parameters(level.compression_level())),
            other => return Err(WriteError::Encode(format!("pages are not written in {other}"))),
        };
        Ok(Self {
            compression,
            codec,
            compressed: Vec::new(),
            body: Vec::new(),
            tried: Tried::default(),
        })
    }

    /// The compressed size of a page, by the parameters of the level. A small page is remembered, compressed.
    pub fn try_out(&mut self, body: &[u8]) -> Result<usize> {
        if let Codec::None = self.codec {
            return Ok(body.len());
        }
        if let Some(place) = self.tried.place(body) {
            return Ok(self.tried.compressed(place).len());
        }
        self.compress_anew(MatchStrategy::Level, body)?;
        if body.len() <= MOST_TRIED {
            self.tried.remember(body, &self.compressed);
        }
        Ok(self.compressed.len())
    }

    /// Compresses a page. Only ZSTD has match parameters.
    pub(super) fn compress_with<'a>(
        &'a mut self,
        strategy: MatchStrategy,
        body: &'a [u8],
    ) -> Result<&'a [u8]> {
        if let Codec::None = self.codec {
            return Ok(body);
        }
        let Some(place) = self
            .tried
            .place(body)
            .filter(|_| strategy == MatchStrategy::Level)
        else {
            self.compress_anew(strategy, body)?;
            return Ok(&self.compressed);
        };
        Ok(self.tried.compressed(place))
    }

    /// Compresses a page into its own buffer.
    fn compress_anew(&mut self, strategy: MatchStrategy, body: &[u8]) -> Result<()> {
        let Self {
            codec, compressed, ..
        } = self;
        compressed.clear();
        match codec {
            Codec::None => compressed.extend_from_slice(body),
            Codec::Zstd(zstd) => {
                compressed.reserve(zstd::zstd_safe::compress_bound(body.len()));
                zstd.set(strategy)?;
                zstd.context.compress_to_buffer(body, compressed)?;
            }
            Codec::Snappy(snappy) => {
                compressed.resize(snap::raw::max_compress_len(body.len()), 0);
                let size = snappy.compress(body, compressed).map_err(std::io::Error::from)?;
                compressed.truncate(size);
            }
            Codec::Lz4 => {
                compressed.resize(lz4_flex::block::get_maximum_output_size(body.len()), 0);
                let size = lz4_flex::block::compress_into(body, compressed).map_err(std::io::Error::other)?;
                compressed.truncate(size);
            }
            Codec::Gzip(level) => {
                let mut gzip = flate2::write::GzEncoder::new(compressed, *level);
                gzip.write_all(body)?;
                gzip.finish()?;
            }
            Codec::Brotli(parameters) => {
                brotli::BrotliCompress(&mut &*body, compressed, parameters)?;
            }
        }
        Ok(())
    }

    /// Chooses the best match parameters for pages like this one, where the codec has any.
    pub(super) fn best_strategy(&mut self, body: &[u8]) -> Result<MatchStrategy> {
        match self.codec {
            // Who asks for a higher level asks for the time that it takes.
            Codec::Zstd(ref zstd) if zstd.level == 1 => MatchStrategy::best(body, |strategy, sample| {
                Ok(self.compress_with(strategy, sample)?.len())
            }),
            _ => Ok(MatchStrategy::Level),
        }
    }

    fn is_worth_keeping(&self) -> bool {
        self.compressed.capacity() <= KEPT_BYTES && self.body.capacity() <= KEPT_BYTES
    }
}

fn brotli_parameters(level: u32) -> brotli::enc::BrotliEncoderParams {
    brotli::enc::BrotliEncoderParams {
        quality: i32::try_from(level).unwrap_or(1),
        ..Default::default()
    }
}

/// The number of cores, computed once: that takes reading several files.
fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Runs `work` on the idle compressors, without waiting for the lock: after a fork its holder may be a thread that does
/// not exist here.
fn with_idle<T>(work: impl FnOnce(&mut Vec<Compressor>) -> T) -> Option<T> {
    match IDLE.try_lock() {
        Ok(mut idle) => Some(work(&mut idle)),
        Err(TryLockError::Poisoned(poisoned)) => Some(work(&mut poisoned.into_inner())),
        Err(TryLockError::WouldBlock) => None,
    }
}
