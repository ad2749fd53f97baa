//! Finished pages on their way from an encoder to the file.
//!
//! Encoders hand over plain pages. They are compressed here, by contexts that all writers share, and kept in memory or
//! in one temporary file until their chunk is written out.

mod compressor;
mod filter;
mod match_strategy;
mod page_store;
mod tally;

use std::borrow::Cow;
use std::fmt;
use std::io::Read;
use std::iter::{Chain, Flatten};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{option, vec};

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};

pub(crate) use compressor::{CompressionWindow, Compressor};
pub(crate) use filter::{Filter, FilterPlan};
pub(crate) use page_store::PageStore;

use parquet_encode::bloom::BLOCK_BYTES;
use parquet_encode::page_header::{self as encode, PageContent};

use crate::encryption::{ChunkCipher, FileCipher, Module};
use crate::error::{Result, WriteError};
use crate::parallel::Subtasks;
use crate::stages::Stages;
use match_strategy::MatchStrategy;
use page_store::{PageRead, StoredPage};
use tally::Tally;

/// Bytes before compression that count as one of the file where encodings are compared: a tenth more time for a
/// fiftieth less size.
const BYTES_WORTH_ONE: usize = 80;
/// Bytes of a chunk's pages after which its match parameters are chosen. For fewer it is not worth the time.
const BYTES_BEFORE_STRATEGY: usize = 256 << 10;
/// Bytes of a dictionary page above which match parameters are chosen for it.
const DICTIONARY_BYTES_FOR_FINDER: usize = 64 << 10;
/// The longest time that a chunk waits for its pages before it looks for one that no thread has begun.
const WAIT: Duration = Duration::from_millis(50);

/// The settings and the page store that all chunks of one writer share.
#[derive(Debug)]
pub(crate) struct Pages {
    /// The store of finished pages.
    pub store: PageStore,
    /// The time that chunks take.
    pub stages: Stages,
    /// The codec of each leaf column.
    codecs: Vec<Compression>,
    /// The bloom filter that each leaf column is to have.
    filters: Vec<Option<FilterPlan>>,
    checksums: bool,
    /// True if equal pages have to be equal after compression, whatever pages were before them.
    is_content_defined: bool,
    /// The leaf columns without statistics and column indexes. Counts of levels and bytes stay: readers need them to
    /// share out memory.
    without_statistics: Vec<usize>,
    cipher: Option<Arc<FileCipher>>,
    /// The ordinal of the row group whose chunks are begun.
    row_group: AtomicUsize,
    /// Bytes of the bloom filters that wait for the end of an encrypted file.
    filter_bytes: AtomicUsize,
    /// The compressors of all chunks, and their window where memory is limited.
    compressors: Tally,
    window: Option<CompressionWindow>,
    /// The threads that encode chunks at the moment, where there are several.
    subtasks: CurrentSubtasks,
}

#[derive(Default)]
struct CurrentSubtasks(Mutex<Option<Arc<dyn Subtasks>>>);

impl fmt::Debug for CurrentSubtasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CurrentSubtasks").finish_non_exhaustive()
    }
}

impl Pages {
    /// Pages of leaf columns with these codecs.
    pub fn new(store: PageStore, codecs: Vec<Compression>) -> Self {
        Self {
            store,
            stages: Stages::default(),
            filters: vec![None; codecs.len()],
            codecs,
            checksums: false,
            is_content_defined: false,
            without_statistics: Vec::new(),
            cipher: None,
            row_group: AtomicUsize::new(0),
            filter_bytes: AtomicUsize::new(0),
            compressors: Tally::default(),
            window: None,
            subtasks: CurrentSubtasks::default(),
        }
    }

    /// The same with compressors of this window.
    pub fn with_window(self, window: Option<CompressionWindow>) -> Self {
        Self { window, ..self }
    }

    /// The same without statistics of leaf columns.
    pub fn without_statistics(self, without_statistics: Vec<usize>) -> Self {
        Self {
            without_statistics,
            ..self
        }
    }

    /// The same, encrypted.
    pub fn with_cipher(self, cipher: Option<Arc<FileCipher>>) -> Self {
        Self { cipher, ..self }
    }

    /// Has idle threads compress pages as subtasks from here on; `None` ends that. Where memory is limited, each
    /// thread has the pages of its own column alone.
    pub fn set_subtasks(&self, subtasks: Option<Arc<dyn Subtasks>>) {
        *lock(&self.subtasks.0) = subtasks.filter(|_| self.window.is_none());
    }

    fn subtasks(&self) -> Option<Arc<dyn Subtasks>> {
        lock(&self.subtasks.0).clone()
    }

    /// Notes the ordinal of the row group that chunks belong to from here on.
    pub fn begin_row_group(&self, ordinal: usize) {
        self.row_group.store(ordinal, Ordering::Relaxed);
    }

    /// The same with a CRC-32 in the header of each page.
    pub fn with_checksums(self, checksums: bool) -> Self {
        Self { checksums, ..self }
    }

    /// The same with pages whose compression depends on nothing but their content.
    pub fn content_defined(self, is_content_defined: bool) -> Self {
        Self {
            is_content_defined,
            ..self
        }
    }

    /// The same with bloom filters.
    pub fn with_filters(self, filters: Vec<Option<FilterPlan>>) -> Self {
        Self { filters, ..self }
    }

    /// A chunk without pages of a leaf column.
    pub fn chunk(self: &Arc<Self>, leaf: usize) -> ChunkPages {
        ChunkPages {
            pages: Arc::clone(self),
            leaf,
            row_group: self.row_group.load(Ordering::Relaxed),
            state: Arc::default(),
            added: Arc::default(),
        }
    }

    /// The bloom filter that a leaf column is to have.
    pub fn filter_plan(&self, leaf: usize) -> Option<FilterPlan> {
        self.filters.get(leaf).copied().flatten()
    }

    /// Bytes of the bloom filters that wait for the end of the file.
    pub fn filter_bytes(&self) -> usize {
        self.filter_bytes.load(Ordering::Relaxed)
    }

    /// Memory held for all chunks.
    pub fn tracked_bytes(&self) -> usize {
        self.store.resident() + self.store.metadata() + self.store.held() + self.compressors.peak()
    }

    /// Fills the body of a page in a shared buffer, and passes it on together with the compressor that owns the buffer.
    fn filled<C, T>(
        &self,
        codec: Compression,
        fill: &mut dyn FnMut(&mut Vec<u8>) -> C,
        then: impl FnOnce(C, &[u8], &mut Compressor) -> Result<T>,
    ) -> Result<T> {
        Compressor::with(codec, self.window, |compressor| {
            let place = self.compressors.begin(codec);
            let mut body = std::mem::take(&mut compressor.body);
            body.clear();
            let content = fill(&mut body);
            let done = then(content, &body, compressor);
            compressor.body = body;
            let used = compressor.memory_with_page();
            compressor.forget_large_pages();
            self.compressors.end(place, used, compressor.memory_bytes());
            done
        })
    }
}

/// The codecs whose compressors a thread has for leaves of these codecs: each of them, and those that weigh samples.
pub(crate) fn codecs_in_use(codecs: &[Compression]) -> Result<Vec<Compression>> {
    let mut found: Vec<Compression> = Vec::new();
    for codec in codecs {
        for codec in [*codec, Compressor::codec_for_samples(*codec)?] {
            if !found.contains(&codec) {
                found.push(codec);
            }
        }
    }
    Ok(found)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pages of one chunk so far.
#[derive(Debug, Clone)]
pub(crate) struct ChunkPages {
    pages: Arc<Pages>,
    leaf: usize,
    row_group: usize,
    state: Arc<Mutex<ChunkState>>,
    /// Notified when a page was added by another thread.
    added: Arc<Condvar>,
}

/// The parts of a page that are encrypted by themselves.
#[derive(Debug, Clone, Copy)]
enum PageModule {
    Header,
    Body,
}

#[derive(Debug, Default)]
struct ChunkState {
    dictionary: Option<Page>,
    dictionary_entries: usize,
    /// The data pages; `None` for those that other threads compress.
    data: Vec<Option<Page>>,
    /// The number of pages that other threads compress.
    elsewhere: usize,
    /// Bytes as they go to the file.
    finished: u64,
    /// Bytes of data pages before compression.
    uncompressed: usize,
    /// The match parameters of further data pages, once they were chosen by trial.
    strategy: Option<MatchStrategy>,
}

#[derive(Debug)]
struct Page {
    /// Header and body.
    kept: StoredPage,
    header_bytes: u32,
    bytes: u32,
    /// Bytes of the body before compression.
    uncompressed_bytes: u32,
}

impl Page {
    /// Bytes of header and body before compression.
    fn uncompressed(&self) -> u64 {
        u64::from(self.header_bytes) + u64::from(self.uncompressed_bytes)
    }
}

impl ChunkPages {
    /// Bytes of finished pages as they go to the file.
    pub fn bytes(&self) -> u64 {
        lock(&self.state).finished
    }

    /// Notes that metadata of `before` bytes takes `now` bytes until the footer is written.
    pub fn note_metadata(&self, before: usize, now: usize) {
        self.pages.store.note_metadata(before, now);
    }

    /// Entries of its dictionary page and their bytes before compression.
    pub fn dictionary(&self) -> (usize, usize) {
        let chunk = lock(&self.state);
        (
            chunk.dictionary_entries,
            chunk
                .dictionary
                .as_ref()
                .map_or(0, |page| page.uncompressed_bytes as usize),
        )
    }

    /// The chunk's metadata with the sizes and places of the pages as they go to the file, dictionary first.
    pub fn settle(&self, mut close: ColumnCloseResult) -> Result<ColumnCloseResult> {
        self.await_pages();
        let chunk = lock(&self.state);
        if chunk.data.iter().any(Option::is_none) {
            // The thread that had to compress it says why it could not.
            return Err(WriteError::Interrupted);
        }
        let dictionary_bytes = chunk.dictionary.as_ref().map_or(0, |page| u64::from(page.bytes));
        if !self.has_statistics() {
            close.metadata = close.metadata.into_builder().clear_statistics().build()?;
            close.column_index = None;
        }
        if let Some(filter) = close
            .bloom_filter
            .as_ref()
            .filter(|_| self.pages.cipher.is_some())
        {
            let bytes = filter.num_blocks() * BLOCK_BYTES;
            self.pages.filter_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        let data = || chunk.data.iter().flatten();
        let all = || chunk.dictionary.iter().chain(data());
        let uncompressed = all().map(Page::uncompressed).sum();
        close.bytes_written = chunk.finished;
        close.metadata = close
            .metadata
            .into_builder()
            .set_compression_codec(self.codec().into())
            .set_total_compressed_size(signed(chunk.finished)?)
            .set_total_uncompressed_size(signed(uncompressed)?)
            .set_dictionary_page_offset(chunk.dictionary.as_ref().map(|_| 0))
            .set_data_page_offset(signed(dictionary_bytes)?)
            .build()?;
        if let Some(index) = &mut close.offset_index {
            let mut offset = dictionary_bytes;
            for (location, page) in index.page_locations.iter_mut().zip(data()) {
                location.offset = signed(offset)?;
                location.compressed_page_size = i32::try_from(page.bytes).map_err(too_large)?;
                offset += u64::from(page.bytes);
            }
        }
        Ok(close)
    }

    /// Returns true if the leaf column has statistics.
    pub fn has_statistics(&self) -> bool {
        !self.pages.without_statistics.contains(&self.leaf)
    }

    /// The codec of the leaf column.
    fn codec(&self) -> Compression {
        self.pages
            .codecs
            .get(self.leaf)
            .copied()
            .unwrap_or(Compression::UNCOMPRESSED)
    }

    /// An empty bloom filter, where the column is to have one.
    pub fn filter(&self) -> Option<Filter> {
        self.pages.filter_plan(self.leaf).map(Filter::new)
    }

    /// The page's checksum after the format's `README.md`, "Checksumming": the CRC-32 of the page as it is in the file,
    /// without its header.
    fn checksum(&self, compressed: &[u8]) -> Option<u32> {
        self.pages.checksums.then(|| crc32fast::hash(compressed))
    }

    /// Returns true if the codec gives frequent bytes short codes.
    pub fn counts_symbols(&self) -> bool {
        use Compression::{BROTLI, GZIP, ZSTD};
        matches!(self.codec(), ZSTD(_) | GZIP(_) | BROTLI(_))
    }

    /// Bytes that a page would take.
    pub fn compressed_size_of(&self, fill: &mut dyn FnMut(&mut Vec<u8>)) -> Result<usize> {
        self.pages
            .filled(self.codec(), &mut |body| fill(body), |(), body, compressor| {
                self.pages.stages.compress.time(|| compressor.try_out(body))
            })
    }

    /// Weighs a page that is not added: the compressed size plus a share of the size before compression. Another codec
    /// stands in for a slow one.
    pub fn weight_of(&self, fill: &mut dyn FnMut(&mut Vec<u8>)) -> Result<usize> {
        let codec = Compressor::codec_for_samples(self.codec())?;
        self.pages
            .filled(codec, &mut |body| fill(body), |(), body, compressor| {
                let size = self.pages.stages.compress.time(|| compressor.try_out(body))?;
                Ok(size + body.len() / BYTES_WORTH_ONE)
            })
    }

    /// Adds a page: `fill` appends its body and returns its kind. An idle thread may compress it, unless its size must
    /// be known `at_once`.
    pub fn add(&self, at_once: bool, fill: &mut dyn FnMut(&mut Vec<u8>) -> PageContent) -> Result<()> {
        let subtasks = self
            .pages
            .subtasks()
            .filter(|subtasks| !at_once && subtasks.has_idle_thread());
        let add = |content: PageContent, body: &[u8], compressor: &mut Compressor| {
            let stages = &self.pages.stages;
            let strategy = stages
                .compress
                .time(|| self.strategy(content, body, compressor))?;
            let place = self.next_place(content);
            if let (Some(subtasks), Some(place)) = (&subtasks, place) {
                let page = Elsewhere::new(self, content, strategy, place);
                let mut body = body.to_vec();
                let refused = subtasks.submit(Box::new(move || page.add(&mut body)));
                return refused.map_or(Ok(()), |refused| refused());
            }
            self.add_body(content, place, body, (strategy, compressor))
        };
        self.pages.filled(self.codec(), fill, add)
    }

    /// The place of the next data page.
    fn next_place(&self, content: PageContent) -> Option<usize> {
        let PageContent::Data { .. } = content else {
            return None;
        };
        let chunk = &mut *lock(&self.state);
        let before = chunk.data.capacity();
        chunk.data.push(None);
        let page = size_of::<Option<Page>>();
        self.note_metadata(before * page, chunk.data.capacity() * page);
        Some(chunk.data.len() - 1)
    }

    /// Adds a page at its place, or the dictionary page.
    fn add_body(
        &self,
        content: PageContent,
        place: Option<usize>,
        body: &[u8],
        (strategy, compressor): (MatchStrategy, &mut Compressor),
    ) -> Result<()> {
        let compressed = self
            .pages
            .stages
            .compress
            .time(|| compressor.compress_with(strategy, body))?;
        let cipher = self.cipher()?;
        let stored = match &cipher {
            Some(cipher) => Cow::Owned(sealed(cipher, place, PageModule::Body, compressed)?),
            None => Cow::Borrowed(compressed),
        };
        let header = encode::PageHeader {
            uncompressed_size: body.len(),
            compressed_size: stored.len(),
            crc: self.checksum(&stored),
            content,
        };
        let mut header_bytes = Vec::with_capacity(32);
        header
            .write(&mut header_bytes)
            .map_err(|error| WriteError::Encode(error.to_string()))?;
        if let Some(cipher) = &cipher {
            header_bytes = sealed(cipher, place, PageModule::Header, &header_bytes)?;
        }
        let page = self.page(&header_bytes, &stored, body.len())?;
        let mut chunk = lock(&self.state);
        chunk.finished += u64::from(page.bytes);
        match (content, place) {
            (PageContent::Dictionary { entries, .. }, _) => {
                chunk.dictionary_entries = entries;
                chunk.dictionary = Some(page);
            }
            (PageContent::Data { .. }, Some(place)) => chunk.data[place] = Some(page),
            (PageContent::Data { .. }, None) => chunk.data.push(Some(page)),
        }
        Ok(())
    }

    /// Waits for the pages that other threads compress.
    fn await_pages(&self) {
        let subtasks = self.pages.subtasks();
        loop {
            if lock(&self.state).elsewhere == 0 {
                return;
            }
            // What no thread has begun may be one of them.
            if subtasks.as_ref().is_some_and(|subtasks| subtasks.run_one()) {
                continue;
            }
            let chunk = lock(&self.state);
            if chunk.elsewhere > 0 {
                drop(
                    self.added
                        .wait_timeout(chunk, WAIT)
                        .unwrap_or_else(PoisonError::into_inner),
                );
            }
        }
    }

    /// The cipher of the chunk, where the column is encrypted.
    fn cipher(&self) -> Result<Option<ChunkCipher>> {
        match &self.pages.cipher {
            Some(file) => file.chunk(self.row_group, self.leaf),
            None => Ok(None),
        }
    }

    /// Chooses the match parameters of a page. For the data pages of a chunk they are chosen once, by one of the first.
    fn strategy(
        &self,
        content: PageContent,
        body: &[u8],
        compressor: &mut Compressor,
    ) -> Result<MatchStrategy> {
        if self.pages.is_content_defined {
            return Ok(MatchStrategy::Level);
        }
        if let PageContent::Dictionary { .. } = content {
            return if body.len() < DICTIONARY_BYTES_FOR_FINDER {
                Ok(MatchStrategy::Level)
            } else {
                compressor.best_strategy(body)
            };
        }
        let mut chunk = lock(&self.state);
        chunk.uncompressed += body.len();
        if chunk.strategy.is_none() && chunk.uncompressed >= BYTES_BEFORE_STRATEGY {
            chunk.strategy = Some(compressor.best_strategy(body)?);
        }
        Ok(chunk.strategy.unwrap_or_default())
    }

    fn page(&self, header: &[u8], compressed: &[u8], uncompressed_bytes: usize) -> Result<Page> {
        Ok(Page {
            kept: self
                .pages
                .stages
                .keep
                .time(|| self.pages.store.keep(header, compressed))?,
            header_bytes: short(header.len())?,
            bytes: short(header.len() + compressed.len())?,
            uncompressed_bytes: short(uncompressed_bytes)?,
        })
    }
}

/// A part of a data page at its place, or of the dictionary page, encrypted.
fn sealed(cipher: &ChunkCipher, place: Option<usize>, part: PageModule, plain: &[u8]) -> Result<Vec<u8>> {
    match (place, part) {
        (None, PageModule::Header) => cipher.seal(Module::DictionaryPageHeader, plain),
        (None, PageModule::Body) => cipher.seal(Module::DictionaryPage, plain),
        (Some(place), PageModule::Header) => cipher.seal_page(Module::DataPageHeader, place, plain),
        (Some(place), PageModule::Body) => cipher.seal_page(Module::DataPage, place, plain),
    }
}

/// A data page that another thread compresses.
struct Elsewhere {
    chunk: ChunkPages,
    content: PageContent,
    strategy: MatchStrategy,
    place: usize,
}

impl Elsewhere {
    fn new(chunk: &ChunkPages, content: PageContent, strategy: MatchStrategy, place: usize) -> Self {
        lock(&chunk.state).elsewhere += 1;
        Self {
            chunk: chunk.clone(),
            content,
            strategy,
            place,
        }
    }

    fn add(&self, body: &mut Vec<u8>) -> Result<()> {
        let chunk = &self.chunk;
        let fill = &mut |out: &mut Vec<u8>| std::mem::swap(out, body);
        chunk.pages.stages.encoders.time(|| {
            chunk.pages.filled(chunk.codec(), fill, |(), body, compressor| {
                chunk.add_body(self.content, Some(self.place), body, (self.strategy, compressor))
            })
        })
    }
}

/// Also where it was not added: its chunk finds no page at its place.
impl Drop for Elsewhere {
    fn drop(&mut self) {
        lock(&self.chunk.state).elsewhere -= 1;
        self.chunk.added.notify_all();
    }
}

fn short(bytes: usize) -> Result<u32> {
    u32::try_from(bytes).map_err(too_large)
}

fn signed(value: u64) -> Result<i64> {
    i64::try_from(value).map_err(too_large)
}

fn too_large(_: std::num::TryFromIntError) -> crate::error::WriteError {
    crate::error::WriteError::Encode(
        "a page or column chunk is too large for Parquet: write smaller row groups".into(),
    )
}

/// Reads the pages of a chunk once, from its start, and frees each as it goes.
impl ChunkReader for ChunkPages {
    type T = ChunkRead;

    fn get_read(&self, start: u64) -> ParquetResult<ChunkRead> {
        if start != 0 {
            return Err(ParquetError::General("a chunk is read from its start".into()));
        }
        let mut chunk = lock(&self.state);
        let data = std::mem::take(&mut chunk.data);
        self.note_metadata(data.capacity() * size_of::<Option<Page>>(), 0);
        Ok(ChunkRead {
            chunk: self.clone(),
            pages: chunk
                .dictionary
                .take()
                .into_iter()
                .chain(data.into_iter().flatten()),
            current: None,
        })
    }

    fn get_bytes(&self, _: u64, _: usize) -> ParquetResult<Bytes> {
        Err(ParquetError::General("a chunk is read from its start".into()))
    }
}

impl Length for ChunkPages {
    fn len(&self) -> u64 {
        self.bytes()
    }
}

/// See [`ChunkPages::get_read`].
pub(crate) struct ChunkRead {
    chunk: ChunkPages,
    pages: Chain<option::IntoIter<Page>, Flatten<vec::IntoIter<Option<Page>>>>,
    current: Option<PageRead>,
}

impl Read for ChunkRead {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            if let Some(page) = self.current.as_mut().filter(|page| page.left() > 0) {
                return self.chunk.pages.store.read(page, buffer);
            }
            let Some(page) = self.pages.next() else {
                return Ok(0);
            };
            self.current = Some(PageRead::new(page.kept, page.bytes as usize));
        }
    }
}
