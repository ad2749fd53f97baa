//! Compression of pages.

use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};

use parquet::basic::{Compression, ZstdLevel};
use per_process::PerProcess;
use zstd::zstd_safe::{CParameter, ResetDirective};

use super::match_strategy::MatchStrategy;
use crate::error::{Result, WriteError};

/// Idle compressors: contexts with warm tables. There are as many as pages are compressed at a time, not one per writer
/// or column. Those that a process leaves idle when its last writer is closed are bounded by [`MOST_IDLE_BYTES`].
static IDLE: PerProcess<Mutex<Vec<Compressor>>> = PerProcess::new();

/// The sizes of contexts, which are measured once.
static KNOWN: PerProcess<Mutex<Vec<Known>>> = PerProcess::new();

/// Bytes of the idle compressors of a process without an open writer. Small files that are written one after the other
/// find the contexts of the usual levels, and the tables of the highest ones, of up to 80 MB each, are freed.
const MOST_IDLE_BYTES: usize = 8 << 20;

/// More of a buffer is not kept for the next page.
const KEPT_BYTES: usize = 1 << 20;
/// Pages whose compressed form is remembered, and the most bytes of one: few enough that small files profit, whose
/// pages are tried as they are written.
const PAGES_TRIED: usize = 6;
const MOST_TRIED: usize = 64 << 10;
/// The tables of `snap`: 2^14 and 2^10 entries of two bytes.
const SNAPPY_BYTES: usize = 34 << 10;
/// Bytes of the smallest and of the largest page that contexts are measured with. No window is larger, and above it the
/// tables of ZSTD are those of the window.
const SMALLEST_MEASURED: usize = 4 << 10;
const LARGEST_MEASURED: usize = 512 << 10;
/// The table of `lz4_flex`: 2^12 entries of four bytes.
const LZ4_BYTES: usize = 16 << 10;
/// The window of gzip, which every reader has: 32 KiB.
const GZIP_WINDOW_LOG: u8 = 15;
/// The state of `zlib-rs` for this window: 64 KiB of window, 192 of tables, 112 of symbols and output.
const GZIP_BYTES: usize = 378 << 10;
/// Further bytes for a compressed page that has more than its estimate.
const LEAST_OUTPUT: usize = 4 << 10;

/// The bytes in which a compressor looks for repeats, where memory is limited. The buffers and tables of a context are
/// no larger than its window asks for. A larger one than pages have was tried: files are not smaller for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CompressionWindow {
    log: u8,
}

impl CompressionWindow {
    /// The least: 4 KiB.
    pub const LEAST: Self = Self { log: 12 };
    /// The largest: 512 KiB, which level 1 of ZSTD has as well.
    const LARGEST: Self = Self { log: 19 };

    /// Windows that are larger than the least, up to that of a page of so many bytes.
    pub fn up_to(page_bytes: usize) -> impl Iterator<Item = Self> {
        let fits = move |window: &Self| window.bytes() < 2 * page_bytes;
        let logs = Self::LEAST.log + 1..=Self::LARGEST.log;
        logs.map(|log| Self { log }).take_while(fits)
    }

    /// Its size.
    pub fn bytes(self) -> usize {
        1 << self.log
    }
}

/// The size of a context.
struct Known {
    compression: Compression,
    window: CompressionWindow,
    bytes: usize,
}

/// Compresses pages one after the other with one context.
pub(crate) struct Compressor {
    compression: Compression,
    window: Option<CompressionWindow>,
    codec: CodecContext,
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

    fn memory_bytes(&self) -> usize {
        let pages = self.pages.iter();
        pages
            .map(|(body, compressed)| body.capacity() + compressed.capacity())
            .sum()
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

enum CodecContext {
    Zstd(Box<Zstd>),
    Snappy(Box<snap::raw::Encoder>),
    Lz4,
    Gzip(flate2::Compress),
    Brotli(brotli::enc::BrotliEncoderParams),
    /// Pages stay as they come.
    None,
}

impl CodecContext {
    /// Memory of the context while a page is compressed.
    fn memory_bytes(&self) -> usize {
        match self {
            Self::Zstd(zstd) => zstd.bytes,
            Self::Snappy(_) => SNAPPY_BYTES,
            Self::Lz4 => LZ4_BYTES,
            Self::Gzip(_) => GZIP_BYTES,
            Self::Brotli(parameters) => brotli_bytes(parameters.quality, parameters.lgwin),
            Self::None => 0,
        }
    }
}

/// A context of ZSTD and its settings.
struct Zstd {
    context: zstd::bulk::Compressor<'static>,
    level: i32,
    window: Option<CompressionWindow>,
    strategy: MatchStrategy,
    /// Its size after the last page.
    bytes: usize,
}

impl Zstd {
    fn new(level: i32, window: Option<CompressionWindow>) -> Result<Self> {
        let mut zstd = Self {
            context: zstd::bulk::Compressor::new(level)?,
            level,
            window,
            strategy: MatchStrategy::default(),
            bytes: 0,
        };
        zstd.limit_window()?;
        Ok(zstd)
    }

    fn limit_window(&mut self) -> std::io::Result<()> {
        self.window.map_or(Ok(()), |window| {
            let log = CParameter::WindowLog(u32::from(window.log));
            self.context.set_parameter(log)
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
        self.limit_window()?;
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
    /// Runs `work` with a compressor for pages of this codec, which is kept for the next page afterwards. Where memory
    /// is limited, it has this window.
    pub fn with<T>(
        compression: Compression,
        window: Option<CompressionWindow>,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let idle = locked(&IDLE, |idle| {
            let place = idle.iter().position(|compressor| {
                (compressor.compression, compressor.window) == (compression, window)
            })?;
            Some(idle.swap_remove(place))
        });
        let mut compressor = idle.map_or_else(|| Self::new(compression, window), Ok)?;
        let done = work(&mut compressor);
        compressor.keep();
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

    /// Keeps it for another page. Where there are enough, it takes the place of one that has another window.
    fn keep(self) {
        locked(&IDLE, |idle| {
            let mut alike: Vec<_> = idle
                .iter_mut()
                .filter(|other| other.compression == self.compression)
                .collect();
            if alike.len() < cores() {
                idle.push(self);
            } else if let Some(other) = alike.iter_mut().find(|other| other.window != self.window) {
                **other = self;
            }
        });
    }

    /// Frees idle compressors but for the smallest of a process that has no open writer.
    pub fn free_idle() {
        let freed = locked(&IDLE, |idle| beyond(idle, MOST_IDLE_BYTES));
        drop(freed);
    }

    /// Memory of its context and of its buffers.
    pub fn memory_bytes(&self) -> usize {
        self.memory_with(self.body.capacity())
    }

    /// Memory while it has a page. Of a buffer that doubled, the part behind the page was never written.
    pub fn memory_with_page(&self) -> usize {
        self.memory_with(self.body.len())
    }

    fn memory_with(&self, body: usize) -> usize {
        self.codec.memory_bytes() + body + self.compressed.capacity() + self.tried.memory_bytes()
    }

    /// Bytes of a context with this window, as the library has them.
    pub fn context_bytes(compression: Compression, window: CompressionWindow) -> Result<usize> {
        let is_it = |known: &&Known| (known.compression, known.window) == (compression, window);
        let find = |known: &mut Vec<Known>| known.iter().find(is_it).map(|known| known.bytes);
        if let Some(bytes) = locked(&KNOWN, find) {
            return Ok(bytes);
        }
        let bytes = Self::new(compression, Some(window))?.measured()?;
        let known = Known {
            compression,
            window,
            bytes,
        };
        locked(&KNOWN, |all| all.push(known));
        Ok(bytes)
    }

    /// Bytes of its context after pages of all sizes. Tables of smaller pages may be the larger ones.
    fn measured(mut self) -> Result<usize> {
        if let CodecContext::Zstd(zstd) = &self.codec {
            let both: &[_] = &[MatchStrategy::TwoTables, MatchStrategy::Level];
            let strategies = if zstd.level == 1 { both } else { &both[1..] };
            let zeros = vec![0; LARGEST_MEASURED];
            let sizes = std::iter::successors(Some(SMALLEST_MEASURED), |size| Some(size * 2));
            for size in sizes.take_while(|size| *size <= LARGEST_MEASURED) {
                for strategy in strategies {
                    self.compress_anew(*strategy, &zeros[..size])?;
                }
            }
        }
        Ok(self.codec.memory_bytes())
    }

    fn new(compression: Compression, window: Option<CompressionWindow>) -> Result<Self> {
        let codec = match compression {
            Compression::UNCOMPRESSED => CodecContext::None,
            Compression::ZSTD(level) => {
                CodecContext::Zstd(Box::new(Zstd::new(level.compression_level(), window)?))
            }
            Compression::SNAPPY => CodecContext::Snappy(Box::new(snap::raw::Encoder::new())),
            Compression::LZ4_RAW => CodecContext::Lz4,
            Compression::GZIP(level) => {
                let level = flate2::Compression::new(level.compression_level());
                CodecContext::Gzip(flate2::Compress::new_gzip(level, GZIP_WINDOW_LOG))
            }
            Compression::BROTLI(level) => {
                CodecContext::Brotli(brotli_parameters(level.compression_level(), window))
            }
            other => return Err(WriteError::Encode(format!("pages are not written in {other}"))),
        };
        Ok(Self {
            compression,
            window,
            codec,
            compressed: Vec::new(),
            body: Vec::new(),
            tried: Tried::default(),
        })
    }

    /// The compressed size of a page, by the parameters of the level. A small page is remembered, compressed.
    pub fn try_out(&mut self, body: &[u8]) -> Result<usize> {
        if let CodecContext::None = self.codec {
            return Ok(body.len());
        }
        if let Some(place) = self.tried.place(body) {
            return Ok(self.tried.compressed(place).len());
        }
        self.compress_anew(MatchStrategy::Level, body)?;
        if self.window.is_none() && body.len() <= MOST_TRIED {
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
        if let CodecContext::None = self.codec {
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
            CodecContext::None => compressed.extend_from_slice(body),
            CodecContext::Zstd(zstd) => {
                compressed.reserve(zstd::zstd_safe::compress_bound(body.len()));
                zstd.set(strategy)?;
                zstd.context.compress_to_buffer(body, compressed)?;
                zstd.bytes = zstd.context.context_mut().sizeof();
            }
            CodecContext::Snappy(snappy) => {
                compressed.resize(snap::raw::max_compress_len(body.len()), 0);
                let size = snappy.compress(body, compressed).map_err(std::io::Error::from)?;
                compressed.truncate(size);
            }
            CodecContext::Lz4 => {
                compressed.resize(lz4_flex::block::get_maximum_output_size(body.len()), 0);
                let size = lz4_flex::block::compress_into(body, compressed).map_err(std::io::Error::other)?;
                compressed.truncate(size);
            }
            CodecContext::Gzip(gzip) => compress_gzip(gzip, body, compressed)?,
            CodecContext::Brotli(parameters) => {
                brotli::BrotliCompress(&mut &*body, compressed, parameters)?;
            }
        }
        Ok(())
    }

    /// Chooses the best match parameters for pages like this one, where the codec has any.
    pub(super) fn best_strategy(&mut self, body: &[u8]) -> Result<MatchStrategy> {
        match self.codec {
            // Who asks for a higher level asks for the time that it takes.
            CodecContext::Zstd(ref zstd) if zstd.level == 1 => {
                MatchStrategy::best(body, |strategy, sample| {
                    Ok(self.compress_with(strategy, sample)?.len())
                })
            }
            _ => Ok(MatchStrategy::Level),
        }
    }

    /// Frees buffers that are larger than pages are as a rule.
    pub fn forget_large_pages(&mut self) {
        // A page that does not shrink is a little larger than a window.
        let most = self.window.map_or(KEPT_BYTES, |window| window.bytes() / 8 * 9);
        for buffer in [&mut self.body, &mut self.compressed] {
            if buffer.capacity() > most {
                buffer.clear();
                buffer.shrink_to(most);
            }
        }
    }
}

/// Compresses a page with a context that other pages had before.
fn compress_gzip(gzip: &mut flate2::Compress, body: &[u8], compressed: &mut Vec<u8>) -> Result<()> {
    gzip.reset();
    // Mostly enough: stored blocks and the frame of gzip.
    compressed.reserve(body.len() + body.len() / 1_024 + 64);
    let mut left = body;
    loop {
        let before = gzip.total_in();
        let status = gzip
            .compress_vec(left, compressed, flate2::FlushCompress::Finish)
            .map_err(std::io::Error::from)?;
        if let flate2::Status::StreamEnd = status {
            return Ok(());
        }
        let taken = usize::try_from(gzip.total_in() - before).unwrap_or(left.len());
        left = &left[taken..];
        compressed.reserve(LEAST_OUTPUT);
    }
}

/// The memory of `brotli` for a page: two windows, a table that grows with the quality, and a megabyte for commands and
/// histograms.
fn brotli_bytes(quality: i32, window_log: i32) -> usize {
    let table = match quality {
        ..=1 => return 128 << 10,
        2..=3 => 256 << 10,
        4 => 512 << 10,
        5 => 1 << 20,
        6 => 2 << 20,
        7 => 8 << 20,
        8 => 16 << 20,
        9 => 32 << 20,
        _ => (8 << 20) + (8 << window_log),
    };
    (2 << window_log) + table + (1 << 20)
}

fn brotli_parameters(level: u32, window: Option<CompressionWindow>) -> brotli::enc::BrotliEncoderParams {
    let mut parameters = brotli::enc::BrotliEncoderParams {
        quality: i32::try_from(level).unwrap_or(1),
        ..Default::default()
    };
    if let Some(window) = window {
        // For smaller ones these qualities take tables of 32 MiB.
        let least = if (5..=8).contains(&parameters.quality) {
            17
        } else {
            0
        };
        parameters.lgwin = i32::from(window.log).max(least);
    }
    parameters
}

/// Takes out what has more than `most` bytes in all, the largest first.
fn beyond(idle: &mut Vec<Compressor>, most: usize) -> Vec<Compressor> {
    idle.sort_by_key(Compressor::memory_bytes);
    let mut bytes = 0;
    let within = idle.iter().take_while(|compressor| {
        bytes += compressor.memory_bytes();
        bytes <= most
    });
    let within = within.count();
    idle.split_off(within)
}

/// The number of cores, computed once: that takes reading several files.
fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Runs `work` on what the writers of this process share. No thread waits long: the lock is never held while a page is
/// compressed.
fn locked<V: Default, T>(shared: &PerProcess<Mutex<V>>, work: impl FnOnce(&mut V) -> T) -> T {
    let value = shared.get_or_init(Mutex::default);
    work(&mut value.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use parquet::basic::GzipLevel;
    use proptest::prelude::*;

    use super::*;

    fn zstd(level: i32) -> Compression {
        Compression::ZSTD(ZstdLevel::try_new(level).unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(16)))]

        #[test]
        fn a_context_takes_no_more_than_is_said_of_its_window(
            level in 1..=19_i32,
            page_bytes in 1..(1_usize << 20),
            pages in prop::collection::vec((any::<u8>(), 1..(2_usize << 20), any::<bool>()), 1..4),
        ) {
            let window = CompressionWindow::up_to(page_bytes).last().unwrap_or(CompressionWindow::LEAST);
            let said = Compressor::context_bytes(zstd(level), window).unwrap();
            let mut compressor = Compressor::new(zstd(level), Some(window)).unwrap();
            for (step, size, has_two_tables) in pages {
                let body: Vec<u8> = (0..size).map(|at| (at * usize::from(step) / 7).to_le_bytes()[0]).collect();
                let strategy = if level == 1 && has_two_tables { MatchStrategy::TwoTables } else { MatchStrategy::Level };
                let compressed = compressor.compress_with(strategy, &body).unwrap().to_vec();
                prop_assert_eq!(zstd::bulk::decompress(&compressed, body.len()).unwrap(), body);
                let taken = compressor.codec.memory_bytes();
                prop_assert!(taken <= said, "{taken} bytes, and {said} are said");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(8)))]

        /// Noise does not shrink, and takes more than a first estimate of it.
        #[test]
        fn a_page_of_gzip_is_that_of_a_context_of_its_own(
            level in 0..=9_u32,
            pages in prop::collection::vec((0..(300_usize << 10), any::<u64>(), any::<bool>()), 1..6),
        ) {
            let level = GzipLevel::try_new(level).unwrap();
            let new = || Compressor::new(Compression::GZIP(level), None).unwrap();
            let mut compressor = new();
            for (size, seed, is_noise) in pages {
                let step = if is_noise { seed | 1 } else { 1 };
                let byte = |at| (at as u64).wrapping_mul(step).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()[0];
                let body: Vec<u8> = (0..size).map(byte).collect();
                let compressed = compressor.compress_with(MatchStrategy::Level, &body).unwrap().to_vec();
                let own = new().compress_with(MatchStrategy::Level, &body).unwrap().to_vec();
                prop_assert!(own == compressed);
                let mut read = Vec::new();
                flate2::read::GzDecoder::new(compressed.as_slice()).read_to_end(&mut read).unwrap();
                prop_assert!(read == body);
            }
        }
    }

    #[test]
    fn a_context_is_found_again_while_another_thread_looks_for_one() {
        // No other test has this level.
        let level = zstd(13);
        Compressor::with(level, None, |compressor| {
            compressor.body.reserve_exact(12_345);
            Ok(())
        })
        .unwrap();
        std::thread::scope(|threads| {
            let (begun, begins) = std::sync::mpsc::channel();
            threads.spawn(move || {
                locked(&IDLE, |_| {
                    begun.send(()).unwrap();
                    std::thread::sleep(std::time::Duration::from_millis(50));
                });
            });
            begins.recv().unwrap();
            let kept = Compressor::with(level, None, |compressor| Ok(compressor.body.capacity()));
            assert!(kept.unwrap() >= 12_345);
        });
    }

    proptest! {
        #[test]
        fn idle_contexts_beyond_a_size_are_freed_largest_first(
            sizes in prop::collection::vec(0..(1_usize << 20), 0..9),
            most in 0..(4_usize << 20),
        ) {
            let compressor = |size: &usize| {
                let mut compressor = Compressor::new(Compression::LZ4_RAW, None).unwrap();
                compressor.body.reserve_exact(*size);
                compressor
            };
            let bytes = |all: &[Compressor]| all.iter().map(Compressor::memory_bytes).sum::<usize>();
            let mut idle: Vec<_> = sizes.iter().map(compressor).collect();
            let all = bytes(&idle);
            let freed = beyond(&mut idle, most);
            prop_assert!(bytes(&idle) <= most);
            prop_assert_eq!(bytes(&idle) + bytes(&freed), all);
            let largest_kept = idle.iter().map(Compressor::memory_bytes).max().unwrap_or(0);
            prop_assert!(freed.iter().all(|compressor| compressor.memory_bytes() >= largest_kept));
            let smallest_freed = freed.iter().map(Compressor::memory_bytes).min();
            prop_assert!(smallest_freed.is_none_or(|smallest| bytes(&idle) + smallest > most));
        }
    }

    #[test]
    fn windows_end_with_that_of_a_page() {
        let logs = |page| {
            CompressionWindow::up_to(page)
                .map(|window| window.log)
                .collect::<Vec<_>>()
        };
        assert!(logs(0).is_empty());
        assert!(logs(4 << 10).is_empty());
        assert_eq!(logs((4 << 10) + 1), [13]);
        assert_eq!(logs(256 << 10), [13, 14, 15, 16, 17, 18]);
        assert_eq!(logs(usize::MAX / 4).last(), Some(&19));
    }
}
