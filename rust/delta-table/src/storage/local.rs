//! A table in a local folder.
//!
//! What writes or deletes there goes through [`beneath`]: nothing outside the table's folder changes, whatever is
//! linked in it. Reads follow links.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use beneath::Temporary;
use bytes::Bytes;
use delta_commit::LogStore;
use delta_commit::store::LocalLogStore;
use parquet_writer::WriteError;
use parquet_writer::sink::Sink;

use super::StoredFile;
use super::StoredFiles;
use super::TableStorage;
use super::WaitCheck;
use super::check_clock;
use crate::clock::{millis, now};
use crate::error::{Result, TableError};
use crate::log_dir::FOLDER;

/// Bytes that are gathered before a file is opened, and for each later call. A small append opens its file once, when
/// all of it is there.
const BUFFER_BYTES: usize = 64 << 10;

/// The most bytes of a file name on the file systems in use.
const MOST_NAME: usize = 255;

/// A folder of this machine.
pub struct LocalStorage {
    root: PathBuf,
    attend: fn() -> WaitCheck,
}

impl LocalStorage {
    /// Resolves the folder's path, so that all its names mean one table.
    ///
    /// # Errors
    /// When the path cannot be resolved.
    pub fn new(root: &Path) -> Result<Self> {
        Self::attended(root, || Box::new(|| Ok(())))
    }

    /// The same folder for callers that may stop waiting. Each `attend` is called while a thread waits for another one.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn attended(root: &Path, attend: fn() -> WaitCheck) -> Result<Self> {
        let path = match fs::canonicalize(root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => std::path::absolute(root),
            path => path,
        };
        let root = path.map_err(|error| TableError::io(root.display(), &error))?;
        Ok(Self { root, attend })
    }
}

impl LocalStorage {
    /// Adds what is in a folder. What goes meanwhile is left out, and so are names that no log can hold, and links to
    /// folders: nobody can say whose the files behind them are.
    fn walk_folder(
        &self,
        folder: &str,
        folders: &mut Vec<String>,
        files: &mut Vec<StoredFile>,
    ) -> Result<()> {
        let path = self.root.join(folder);
        let failed = |error| TableError::io(path.display(), &error);
        let entries = match fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let name = if folder.is_empty() {
                name
            } else {
                format!("{folder}/{name}")
            };
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() {
                folders.push(name);
                continue;
            }
            let found = match fs::metadata(entry.path()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                found => found.map_err(failed)?,
            };
            if !found.is_file() {
                continue;
            }
            files.push(StoredFile {
                name,
                modified: millis(found.modified().map_err(failed)?),
                bytes: found.len(),
            });
        }
        Ok(())
    }
}

impl TableStorage for LocalStorage {
    fn root(&self) -> &Path {
        &self.root
    }

    fn key(&self) -> OsString {
        self.root.clone().into_os_string()
    }

    fn log_store(&self) -> Arc<dyn LogStore> {
        Arc::new(LocalLogStore::new(&self.root))
    }

    fn prepare(&self) -> Result<()> {
        let missing: Vec<&Path> = self
            .root
            .ancestors()
            .take_while(|folder| !folder.exists())
            .collect();
        fs::create_dir_all(&self.root).map_err(|error| TableError::io(self.root.display(), &error))?;
        // The folders above the table survive a crash too; the committer sees to the table's own.
        for above in missing.iter().filter_map(|folder| folder.parent()) {
            let synced = File::open(above).and_then(|folder| folder.sync_all());
            synced.map_err(|error| TableError::io(above.display(), &error))?;
        }
        Ok(())
    }

    fn list(&self, folder: &str, _after: Option<&str>) -> Result<Vec<String>> {
        let path = self.root.join(folder);
        let failed = |error| TableError::io(path.display(), &error);
        let entries = match fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            names.extend(entry.map_err(failed)?.file_name().into_string());
        }
        Ok(names)
    }

    fn ages(&self, folder: &str) -> Result<Option<Vec<(String, i64)>>> {
        let path = self.root.join(folder);
        let failed = |error| TableError::io(path.display(), &error);
        let mut files = Vec::new();
        for name in self.list(folder, None)? {
            match fs::metadata(path.join(&name)).and_then(|found| found.modified()) {
                // Somebody else cleans up too.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                modified => files.push((name, millis(modified.map_err(failed)?))),
            }
        }
        Ok(Some(files))
    }

    fn walk(&self, enters: &dyn Fn(&str) -> bool) -> Result<Option<StoredFiles>> {
        let now = now();
        let mut files = Vec::new();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            let known = folders.len();
            self.walk_folder(&folder, &mut folders, &mut files)?;
            let found = folders.split_off(known);
            folders.extend(found.into_iter().filter(|folder| enters(folder)));
        }
        Ok(Some(StoredFiles { now, files }))
    }

    fn read(&self, name: &str) -> Result<Option<Bytes>> {
        let path = self.root.join(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(TableError::io(path.display(), &error)),
        }
    }

    fn read_range(&self, name: &str, range: Range<u64>) -> Result<Bytes> {
        let path = self.root.join(name);
        let read = || {
            let mut file = File::open(&path)?;
            file.seek(SeekFrom::Start(range.start))?;
            let mut bytes = Vec::new();
            file.take(range.end - range.start).read_to_end(&mut bytes)?;
            Ok(bytes.into())
        };
        read().map_err(|error| TableError::io(path.display(), &error))
    }

    fn size(&self, name: &str) -> Result<Option<u64>> {
        let path = self.root.join(name);
        match fs::metadata(&path) {
            Ok(found) => Ok(Some(found.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(TableError::io(path.display(), &error)),
        }
    }

    fn has(&self, name: &str) -> Result<bool> {
        let path = self.root.join(name);
        path.try_exists().map_err(|e| TableError::io(path.display(), &e))
    }

    fn mark(&self, name: &str) -> Result<Option<String>> {
        let path = self.root.join(name);
        match fs::metadata(&path) {
            // An inode is used again, and a copy may have the times of what was copied; nobody sets the time of the
            // inode's last change.
            Ok(found) => Ok(Some(format!(
                "{}-{}-{}.{:09}-{}.{:09}",
                found.ino(),
                found.size(),
                found.mtime(),
                found.mtime_nsec(),
                found.ctime(),
                found.ctime_nsec()
            ))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(TableError::io(path.display(), &error)),
        }
    }

    fn believes_marks_for(&self) -> Duration {
        Duration::ZERO
    }

    fn replace(&self, name: &str) -> Result<Box<dyn Sink>> {
        Ok(Box::new(Replacement::new(&self.root, Path::new(name))?))
    }

    fn create(&self, name: &Path) -> Result<Box<dyn Sink>, WriteError> {
        Ok(Box::new(DataFileSink::new(&self.root, name)))
    }

    fn takes(&self, folder: &Path) -> bool {
        folder.iter().all(|part| part.len() <= MOST_NAME)
    }

    fn keeps(&self) -> bool {
        false
    }

    /// That of the file server, which may not be this machine's: a file that is written now tells it. On a full disk
    /// the file stays empty, and its creation tells the time.
    fn now_for_removal(&self) -> Result<i64> {
        let written = beneath::Folder::open(&self.root, Path::new(FOLDER)).and_then(|folder| {
            let mut file = Temporary::create(folder)?;
            match file.write_all(b"?").and_then(|()| file.closed_at()) {
                Err(error) if is_of_full_disk(&error) => file.closed_at(),
                written => written,
            }
        });
        let path = self.root.join(FOLDER);
        let written = written.map_err(|error| TableError::io(path.display(), &error))?;
        check_clock(millis(written), &self.root)
    }

    fn remove(&self, names: &[String]) -> usize {
        // What cannot be removed is a stray file, which no reader sees. So is what lies in a linked folder.
        let went = |name: &&String| beneath::remove_file(&self.root, Path::new(name)).is_ok();
        names.iter().filter(went).count()
    }

    fn attend(&self) -> WaitCheck {
        (self.attend)()
    }
}

fn is_of_full_disk(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// A file that takes the place of another one when it is complete, and survives a crash from then on.
struct Replacement {
    root: PathBuf,
    name: PathBuf,
    path: PathBuf,
    temporary: Option<BufWriter<Temporary>>,
}

impl Replacement {
    fn new(root: &Path, name: &Path) -> Result<Self> {
        let path = root.join(name);
        let opened = beneath::split(name).and_then(|(folder, _)| beneath::Folder::open(root, folder));
        let temporary = opened.and_then(Temporary::create);
        let temporary = temporary.map_err(|error| TableError::io(path.display(), &error))?;
        Ok(Self {
            root: root.to_path_buf(),
            name: name.to_path_buf(),
            path,
            temporary: Some(BufWriter::with_capacity(BUFFER_BYTES, temporary)),
        })
    }

    fn buffer(&mut self) -> io::Result<&mut BufWriter<Temporary>> {
        let closed = || io::Error::other("the file is complete or was discarded");
        self.temporary.as_mut().ok_or_else(closed)
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.buffer()?.flush()
    }
}

impl Sink for Replacement {
    fn commit(&mut self) -> io::Result<()> {
        self.flush()?;
        let (folder, name) = beneath::split(&self.name)?;
        let folder = beneath::Folder::open(&self.root, folder)?;
        if let Some(temporary) = &mut self.temporary {
            temporary.get_mut().close(true)?;
            temporary.get_mut().place(&folder, name)?;
        }
        self.temporary = None;
        folder.sync()
    }

    fn discard(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            // Taken apart, because a buffer that is dropped would be written.
            drop(temporary.into_parts());
        }
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn spill_directory(&self) -> Option<PathBuf> {
        Some(self.root.clone())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        self.discard();
    }
}

struct DataFileSink {
    root: PathBuf,
    /// Its name in the table.
    name: PathBuf,
    path: PathBuf,
    buffer: Vec<u8>,
    file: Option<File>,
    complete: bool,
    process: u32,
}

impl DataFileSink {
    fn new(root: &Path, name: &Path) -> Self {
        Self {
            root: root.to_path_buf(),
            name: name.to_path_buf(),
            path: root.join(name),
            buffer: Vec::new(),
            file: None,
            complete: false,
            process: std::process::id(),
        }
    }

    fn file(&mut self) -> io::Result<&mut File> {
        let file = if let Some(file) = self.file.take() {
            file
        } else {
            // The table's own folder exists unless the table was deleted or moved.
            let (folder, name) = beneath::split(&self.name)?;
            beneath::Folder::make(&self.root, folder)?.create(name)?
        };
        Ok(self.file.insert(file))
    }

    fn write_out(&mut self) -> io::Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        self.file()?.write_all(&buffer)
    }
}

impl Write for DataFileSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.write_out()?;
        }
        if bytes.len() > BUFFER_BYTES {
            return self.file()?.write(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for DataFileSink {
    /// Closes the file. The committer makes it survive a crash, together with those of other appends.
    fn commit(&mut self) -> io::Result<()> {
        self.write_out()?;
        if let Some(file) = self.file.take() {
            checked_close::close(file).inspect_err(|_| {
                let _ = beneath::remove_file(&self.root, &self.name);
            })?;
        }
        self.complete = true;
        Ok(())
    }

    fn discard(&mut self) {
        self.buffer = Vec::new();
        // A forked child only inherited it.
        if !self.complete && self.file.take().is_some() && self.process == std::process::id() {
            let _ = beneath::remove_file(&self.root, &self.name);
        }
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn spill_directory(&self) -> Option<PathBuf> {
        // The folder of a new partition may not be there yet, or be a link.
        Some(self.root.clone())
    }
}

impl Drop for DataFileSink {
    fn drop(&mut self) {
        self.discard();
    }
}
