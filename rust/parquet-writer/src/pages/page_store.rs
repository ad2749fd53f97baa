//! The store of finished pages: memory first, then one temporary file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::budget::Budget;
use crate::error::{Result, WriteError};
use crate::shared_memory::MemoryShare;

/// Keeps pages until they are read, each once.
#[derive(Debug)]
pub(crate) struct PageStore {
    resident: AtomicUsize,
    /// Bytes of metadata that waits for the footer.
    metadata: AtomicUsize,
    /// Bytes of batches that are held.
    held: AtomicUsize,
    /// Bytes of pages that may be in memory.
    room: AtomicUsize,
    budget: Budget,
    /// The share of a budget of several writers: all that waits counts there.
    share: Option<MemoryShare>,
    spill: Option<Spill>,
}

/// A temporary file without a name, made when it is first needed.
#[derive(Debug)]
struct Spill {
    directory: PathBuf,
    file: OnceLock<File>,
    end: AtomicU64,
    /// Bytes that were ever written to it.
    total: AtomicU64,
}

/// A page in the store.
#[derive(Debug)]
pub(super) enum StoredPage {
    Resident(Box<[u8]>),
    /// A page at this offset of the temporary file.
    Spilled(u64),
}

/// A page that is being read.
#[derive(Debug)]
pub(super) struct PageRead {
    page: StoredPage,
    /// The bytes that were read, of all of them.
    read: usize,
    length: usize,
}

impl PageRead {
    /// The start of a page of `length` bytes.
    pub(super) fn new(page: StoredPage, length: usize) -> Self {
        Self {
            page,
            read: 0,
            length,
        }
    }

    /// Bytes that were not read yet.
    pub(super) fn left(&self) -> usize {
        self.length - self.read
    }
}

impl PageStore {
    /// A store that spills into `directory`, or keeps all pages in memory when there is none.
    pub fn new(directory: Option<PathBuf>, budget: Budget) -> Self {
        let spill = directory.map(|directory| Spill {
            directory,
            file: OnceLock::new(),
            end: AtomicU64::new(0),
            total: AtomicU64::new(0),
        });
        Self {
            resident: AtomicUsize::new(0),
            metadata: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            room: AtomicUsize::new(budget.resident),
            budget,
            share: None,
            spill,
        }
    }

    /// The same with a share of a budget of several writers.
    pub fn with_share(mut self, mut share: Option<MemoryShare>) -> Self {
        if let Some(share) = &mut share {
            share.leave(self.budget.resident);
        }
        self.share = share;
        self
    }

    /// Bytes of pages in memory.
    pub fn resident(&self) -> usize {
        self.resident.load(Ordering::Relaxed)
    }

    /// Bytes of metadata that waits for the footer.
    pub fn metadata(&self) -> usize {
        self.metadata.load(Ordering::Relaxed)
    }

    /// Notes that metadata of `before` bytes takes `now` bytes.
    pub fn note_metadata(&self, before: usize, now: usize) {
        self.metadata.fetch_add(now, Ordering::Relaxed);
        self.metadata.fetch_sub(before, Ordering::Relaxed);
        self.note_shared(before, now);
    }

    /// Bytes of batches that are held.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Holds `bytes` of batches from here on, if there is room. Under a limit, they take of the memory for pages.
    pub fn try_hold(&self, bytes: usize) -> bool {
        let waiting = self.resident() + self.metadata() + bytes;
        if self.budget.is_limited() && waiting > self.room.load(Ordering::Relaxed) {
            return false;
        }
        let before = self.held();
        let more = bytes.saturating_sub(before);
        if self.share.as_ref().is_some_and(|share| !share.try_add(more)) {
            return false;
        }
        self.held.store(before + more, Ordering::Relaxed);
        true
    }

    /// Notes that no batches are held any more.
    pub fn release_held(&self) {
        let before = self.held.swap(0, Ordering::Relaxed);
        self.note_shared(before, 0);
    }

    /// Notes what waits in the budget of several writers.
    fn note_shared(&self, before: usize, now: usize) {
        if let Some(share) = &self.share {
            share.change(before, now);
        }
    }

    /// Bytes of pages that were written to the temporary file.
    pub fn spilled(&self) -> u64 {
        let spill = self.spill.as_ref();
        spill.map_or(0, |spill| spill.total.load(Ordering::Relaxed))
    }

    /// Makes room for the pages of one chunk more: from here on, chunks go into the file one by one.
    pub fn make_room_for_a_chunk(&self) {
        self.room.store(
            self.budget.resident + self.budget.resident_chunk,
            Ordering::Relaxed,
        );
    }

    /// Starts the temporary file over; only when every page was read.
    pub fn rewind(&self) -> Result<()> {
        self.room.store(self.budget.resident, Ordering::Relaxed);
        if let Some(spill) = &self.spill
            && let Some(file) = spill.file.get()
        {
            spill.end.store(0, Ordering::Relaxed);
            file.set_len(0).map_err(|error| spill.failed(error))?;
        }
        Ok(())
    }

    /// Keeps a page that is given in two parts.
    pub(super) fn keep(&self, header: &[u8], body: &[u8]) -> Result<StoredPage> {
        let length = header.len() + body.len();
        if let Some(spill) = &self.spill
            && length >= self.budget.smallest_spilled
            && !self.has_room(length)
        {
            return spill.put(header, body).map_err(|error| spill.failed(error));
        }
        let page = [header, body].concat();
        self.resident.fetch_add(length, Ordering::Relaxed);
        Ok(StoredPage::Resident(page.into_boxed_slice()))
    }

    /// Returns true if a page of `length` bytes may be in memory, and takes that much of the budget of several writers.
    fn has_room(&self, length: usize) -> bool {
        match &self.share {
            Some(share) => share.try_add(length),
            None => self.resident() + length <= self.room(),
        }
    }

    /// Bytes of pages that may be in memory. Under a limit, metadata that waits for the footer takes of it, and so do
    /// batches that are held.
    fn room(&self) -> usize {
        let room = self.room.load(Ordering::Relaxed);
        if self.budget.is_limited() {
            room.saturating_sub(self.metadata() + self.held())
        } else {
            room
        }
    }

    /// Reads on in a page.
    pub(super) fn read(&self, from: &mut PageRead, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(from.left());
        let buffer = &mut buffer[..count];
        match &from.page {
            StoredPage::Resident(page) => {
                buffer.copy_from_slice(&page[from.read..][..count]);
                self.resident.fetch_sub(count, Ordering::Relaxed);
                self.note_shared(count, 0);
            }
            StoredPage::Spilled(offset) => {
                let spill = self.spill.as_ref();
                let spill = spill.ok_or_else(|| io::Error::other("a page was spilled to nowhere"))?;
                spill
                    .get(offset + from.read as u64, buffer)
                    .map_err(|error| io::Error::other(spill.failed(error)))?;
            }
        }
        from.read += count;
        Ok(count)
    }
}

impl Spill {
    fn failed(&self, source: io::Error) -> WriteError {
        WriteError::Spill {
            directory: self.directory.clone(),
            source,
        }
    }

    fn get(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let file = self.file.get().ok_or(io::ErrorKind::NotFound)?;
        file.read_exact_at(buffer, offset)
    }

    fn put(&self, header: &[u8], body: &[u8]) -> io::Result<StoredPage> {
        let file = if let Some(file) = self.file.get() {
            file
        } else {
            let file = tempfile::tempfile_in(&self.directory)?;
            self.file.get_or_init(|| file)
        };
        let length = header.len() + body.len();
        let offset = self.end.fetch_add(length as u64, Ordering::Relaxed);
        self.total.fetch_add(length as u64, Ordering::Relaxed);
        file.write_all_at(header, offset)?;
        file.write_all_at(body, offset + header.len() as u64)?;
        Ok(StoredPage::Spilled(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_back_from_memory_and_from_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let budget = Budget::UNLIMITED;
        let store = PageStore::new(Some(directory.path().to_path_buf()), budget);
        let page = |index: usize| vec![u8::try_from(index % 251).unwrap(); 1 << 20];
        let kept: Vec<_> = (0..20)
            .map(|index| store.keep(&page(index)[..9], &page(index)[9..]).unwrap())
            .collect();
        assert!(store.resident() <= budget.resident);
        assert_eq!(store.spilled() + store.resident() as u64, 20 << 20);
        assert_eq!(
            std::fs::read_dir(directory.path()).unwrap().count(),
            0,
            "the temporary file has no name"
        );
        for (index, kept) in kept.into_iter().enumerate() {
            let mut kept = PageRead::new(kept, 1 << 20);
            let mut back = vec![0; 2 << 20];
            // Of an odd size, so that the last piece of a page is smaller.
            let mut length = 0;
            while kept.left() > 0 {
                length += store.read(&mut kept, &mut back[length..][..9999]).unwrap();
            }
            assert_eq!(&back[..length], page(index));
        }
        assert_eq!(store.resident(), 0);
    }
}
