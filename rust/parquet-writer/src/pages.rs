//! Finished pages, kept in memory or in one temporary file until their chunk is written out.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use parquet::column::page_store::{PageKey, PageStore, PageStoreArgs, PageStoreFactory};
use parquet::errors::{ParquetError, Result};

/// Pages kept in memory before the rest goes to the temporary file.
const RESIDENT_BYTES: usize = 4 << 20;
/// Smaller pieces, page headers above all, stay in memory.
const SMALLEST_SPILLED: usize = 4 << 10;

/// Where the columns of one writer keep their finished pages.
#[derive(Debug)]
pub(crate) struct Pages {
    resident: AtomicUsize,
    spill: Option<Spill>,
}

/// A temporary file without a name, made when it is first needed.
#[derive(Debug)]
struct Spill {
    directory: PathBuf,
    file: std::sync::OnceLock<File>,
    end: AtomicU64,
}

impl Pages {
    /// Pages that may spill into `directory`, or stay in memory when there is none.
    pub fn new(directory: Option<PathBuf>) -> Arc<Self> {
        let spill = directory.map(|directory| Spill { directory, file: std::sync::OnceLock::new(), end: AtomicU64::new(0) });
        Arc::new(Self { resident: AtomicUsize::new(0), spill })
    }

    /// Bytes of pages in memory.
    pub fn resident(&self) -> usize {
        self.resident.load(Ordering::Relaxed)
    }

    /// Forgets what the temporary file holds; only between row groups, when every page was taken.
    pub fn rewind(&self) -> std::io::Result<()> {
        if let Some(spill) = &self.spill
            && let Some(file) = spill.file.get()
        {
            spill.end.store(0, Ordering::Relaxed);
            file.set_len(0)?;
        }
        Ok(())
    }

    fn keep(&self, value: Bytes) -> std::io::Result<Kept> {
        if let Some(spill) = &self.spill
            && value.len() >= SMALLEST_SPILLED
            && self.resident() + value.len() > RESIDENT_BYTES
        {
            return spill.put(&value);
        }
        self.resident.fetch_add(value.len(), Ordering::Relaxed);
        Ok(Kept::Resident(value))
    }

    fn fetch(&self, kept: Kept) -> std::io::Result<Bytes> {
        match kept {
            Kept::Resident(value) => {
                self.resident.fetch_sub(value.len(), Ordering::Relaxed);
                Ok(value)
            }
            Kept::Spilled { offset, length } => match self.spill.as_ref().and_then(|spill| spill.file.get()) {
                Some(file) => {
                    let mut value = vec![0; length];
                    file.read_exact_at(&mut value, offset)?;
                    Ok(value.into())
                }
                None => Err(std::io::Error::other("a page was spilled and the temporary file is gone")),
            },
            Kept::Taken => Err(std::io::Error::other("a page was taken twice")),
        }
    }
}

impl Spill {
    fn put(&self, value: &[u8]) -> std::io::Result<Kept> {
        let file = match self.file.get() {
            Some(file) => file,
            None => {
                let file = tempfile::tempfile_in(&self.directory)?;
                self.file.get_or_init(|| file)
            }
        };
        let offset = self.end.fetch_add(value.len() as u64, Ordering::Relaxed);
        file.write_all_at(value, offset)?;
        Ok(Kept::Spilled { offset, length: value.len() })
    }
}

#[derive(Debug, Default)]
enum Kept {
    Resident(Bytes),
    Spilled {
        offset: u64,
        length: usize,
    },
    #[default]
    Taken,
}

/// Makes the store of one column chunk.
#[derive(Debug)]
pub(crate) struct ChunkPagesFactory(pub Arc<Pages>);

impl PageStoreFactory for ChunkPagesFactory {
    fn create(&self, _: &PageStoreArgs<'_>) -> Result<Box<dyn PageStore>> {
        Ok(Box::new(ChunkPages { pages: Arc::clone(&self.0), kept: Vec::new() }))
    }
}

struct ChunkPages {
    pages: Arc<Pages>,
    kept: Vec<Kept>,
}

impl PageStore for ChunkPages {
    fn put(&mut self, value: Bytes) -> Result<PageKey> {
        let key = PageKey::new(self.kept.len() as u64);
        self.kept.push(self.pages.keep(value).map_err(ParquetError::from)?);
        Ok(key)
    }

    fn take(&mut self, key: PageKey) -> Result<Bytes> {
        let index = usize::try_from(key.get()).map_err(|error| ParquetError::External(Box::new(error)))?;
        let kept = self.kept.get_mut(index).map(std::mem::take).unwrap_or_default();
        self.pages.fetch(kept).map_err(ParquetError::from)
    }

    fn memory_size(&self) -> usize {
        // Counted once for all columns, by `Pages::resident`.
        0
    }
}

impl Drop for ChunkPages {
    fn drop(&mut self) {
        let left = self.kept.iter().map(|kept| if let Kept::Resident(value) = kept { value.len() } else { 0 }).sum();
        self.pages.resident.fetch_sub(left, Ordering::Relaxed);
    }
}
