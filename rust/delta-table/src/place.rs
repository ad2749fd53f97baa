//! The storage of a table: a local folder, or another implementation of [`Place`].
//!
//! What writes or deletes in a local folder goes through [`beneath`]: nothing outside the table's folder changes,
//! whatever is linked in it. Reads follow links.

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
use parquet_dataset::Places;
use parquet_writer::WriteError;
use parquet_writer::sink::{ReadBack, Sink};
use uuid::Uuid;

use crate::clock::{millis, now};
use crate::error::{Result, TableError};
use crate::log_dir::FOLDER;

/// Bytes that are gathered before a file is opened, and for each later call. A small append opens its file once, when
/// all of it is there.
const BUFFER_BYTES: usize = 64 << 10;

/// Maximum difference between the local clock and the storage's, in milliseconds. Beyond it nothing is removed by age.
const MOST_CLOCK_SKEW: i64 = 3_600_000;

/// The milliseconds by which times of files may lie behind the clock that they are of: ticks of the kernel, and whole
/// seconds where a file system keeps no more.
const FILE_TIME_LAG: i64 = 2_000;

/// Attempts to replace a file that other processes replace at the same time.
pub const MOST_REPLACEMENTS: usize = 4;

/// The most bytes of a file name on the file systems in use.
const MOST_NAME: usize = 255;

/// A file below a table's folder.
#[derive(Debug, Clone)]
pub struct StoredFile {
    /// Its name.
    pub name: String,
    /// Its time of writing: milliseconds since the epoch.
    pub modified: i64,
    /// Its size.
    pub bytes: u64,
}

/// All files below a table's folder.
#[derive(Debug, Clone)]
pub struct StoredFiles {
    /// The time now, by the clock that dates the files.
    pub now: i64,
    /// The files, in no order.
    pub files: Vec<StoredFile>,
}

/// A check that a thread makes while it waits for another one. Its error ends the wait.
pub type Attend = Box<dyn Fn() -> io::Result<()> + Send>;

/// The names of files in the order in which they are read.
pub type Names<'a> = Box<dyn Iterator<Item = String> + 'a>;

/// The files of some names in their order; none for one that is not there.
pub type Bodies<'a> = Box<dyn Iterator<Item = Result<Option<Bytes>>> + 'a>;

/// The storage of a table. Names are relative to the table, with `/` between their parts.
pub trait Place: Send + Sync {
    /// The table's path or URL, for people.
    fn root(&self) -> &Path;

    /// A key that differs between tables, and between users of one table with other rights.
    fn key(&self) -> OsString;

    /// The store that the committer works on.
    fn log_store(&self) -> Arc<dyn LogStore>;

    /// Makes the folders that must exist before the first file of a table is written.
    ///
    /// # Errors
    /// When it cannot be made.
    fn prepare(&self) -> Result<()>;

    /// The names in a folder that come after `after`; others may be among them. None when there is no such folder.
    ///
    /// # Errors
    /// When it cannot be listed.
    fn list(&self, folder: &str, after: Option<&str>) -> Result<Vec<String>>;

    /// A whole file; none when it is not there.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&self, name: &str) -> Result<Option<Bytes>>;

    /// Whole files in this order, none for those that are not there. Where each takes a request, a bounded number of
    /// them is requested before the caller asks for them.
    fn read_ahead<'a>(&'a self, names: Names<'a>) -> Bodies<'a> {
        Box::new(names.map(move |name| self.read(&name)))
    }

    /// Bytes of a file, fewer where the file ends before the range does.
    ///
    /// # Errors
    /// An error of the file: it is not there, or cannot be read.
    fn read_range(&self, name: &str, range: Range<u64>) -> Result<Bytes>;

    /// A file's bytes in all; none when it is not there.
    ///
    /// # Errors
    /// An error if that cannot be told.
    fn size(&self, name: &str) -> Result<Option<u64>>;

    /// Checks whether a file exists.
    ///
    /// # Errors
    /// An error if that cannot be told.
    fn has(&self, name: &str) -> Result<bool>;

    /// A mark that changes when the file is replaced or made anew; none when it does not exist.
    ///
    /// # Errors
    /// An error if that cannot be told.
    fn mark(&self, name: &str) -> Result<Option<String>>;

    /// The time for which a mark may be trusted without another look. Zero where a look costs no more than a system
    /// call.
    fn believes_marks_for(&self) -> Duration;

    /// Opens a file that replaces the existing one, appears whole, and survives a crash. It is sent at most once, as
    /// that of [`create_whole`](Self::create_whole).
    ///
    /// # Errors
    /// When it cannot be opened.
    fn replace(&self, name: &str) -> Result<Box<dyn Sink>>;

    /// Replaces a small file, unless `is_late` finds something newer by another process. It is called once the file's
    /// mark is known, and again if the mark has changed before the file is replaced. An object store replaces the file
    /// by a conditional PUT; a folder compares marks right before the rename. After [`MOST_REPLACEMENTS`] attempts the
    /// file is left to the other processes.
    ///
    /// # Errors
    /// When it cannot be read or written.
    fn replace_unless(
        &self,
        name: &str,
        body: &[u8],
        is_late: &mut dyn FnMut() -> Result<bool>,
    ) -> Result<()> {
        for _ in 0..MOST_REPLACEMENTS {
            let mark = self.mark(name)?;
            if is_late()? {
                break;
            }
            let mut sink = self.replace(name)?;
            let failed = |error| WriteError::io(self.root().join(name), error);
            sink.write_all(body).map_err(failed)?;
            if self.mark(name)? == mark {
                sink.commit().map_err(failed)?;
                break;
            }
            sink.discard();
        }
        Ok(())
    }

    /// Opens a file likewise, which does not replace one: where there is one by then, it does not appear, and the error
    /// is [`AlreadyExists`](io::ErrorKind::AlreadyExists) or none. It is sent at most once: a request that is repeated
    /// may arrive in another table.
    ///
    /// # Errors
    /// When it cannot be opened.
    fn create_whole(&self, name: &str) -> Result<Box<dyn Sink>> {
        self.replace(name)
    }

    /// Opens a new data file under its final name. No reader looks at it before the log names it.
    ///
    /// # Errors
    /// When it cannot be opened.
    fn create(&self, name: &Path) -> Result<Box<dyn Sink>, WriteError>;

    /// The files of a folder and when they were written, in milliseconds since the epoch; none where the store does not
    /// tell what time it is.
    ///
    /// # Errors
    /// When it cannot be listed.
    fn ages(&self, folder: &str) -> Result<Option<Vec<(String, i64)>>>;

    /// The files below the table's folder, at any depth; none where the store does not tell what time it is. Files of
    /// folders that `enters` refuses may be left out, and are where that saves requests.
    ///
    /// # Errors
    /// An error if a folder cannot be listed.
    fn walk(&self, enters: &dyn Fn(&str) -> bool) -> Result<Option<StoredFiles>>;

    /// Returns true if data files can lie in this folder.
    fn takes(&self, folder: &Path) -> bool;

    /// Returns true if a complete data file survives a crash without the committer's sync.
    fn keeps(&self) -> bool;

    /// The current time by the clock that sets file modification times. Ages of files to be removed are computed from
    /// it.
    ///
    /// # Errors
    /// [`delta_commit::CommitError::Unsupported`] when the clock of this machine is far off: what else it dated is
    /// wrong, too. [`delta_commit::CommitError::Store`] when the time cannot be told.
    fn now_for_removal(&self) -> Result<i64>;

    /// Removes files, roughly in this order, as far as that can be done. Returns the number of removed files.
    fn remove(&self, names: &[String]) -> usize;

    /// The check of the calling thread while it waits for another thread that reads the table.
    fn attend(&self) -> Attend {
        Box::new(|| Ok(()))
    }
}

/// A folder of this machine.
pub struct Folder {
    root: PathBuf,
    attend: fn() -> Attend,
}

impl Folder {
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
    pub fn attended(root: &Path, attend: fn() -> Attend) -> Result<Self> {
        let path = match fs::canonicalize(root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => std::path::absolute(root),
            path => path,
        };
        let root = path.map_err(|error| TableError::io(root.display(), &error))?;
        Ok(Self { root, attend })
    }
}

impl Folder {
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

impl Place for Folder {
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
        Ok(Box::new(DataFile::new(&self.root, name)))
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

    fn attend(&self) -> Attend {
        (self.attend)()
    }
}

fn is_of_full_disk(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// The time of the storage of a table, where the clock of this machine is not far off. Both are milliseconds since the
/// epoch.
///
/// # Errors
/// [`delta_commit::CommitError::Unsupported`] when they differ by more than an hour.
pub fn check_clock(served: i64, root: &Path) -> Result<i64> {
    let local = now();
    let off = local.saturating_sub(served);
    if (0..=FILE_TIME_LAG).contains(&off) {
        return Ok(local);
    }
    if off.abs() <= MOST_CLOCK_SKEW {
        return Ok(served);
    }
    let seconds = off.unsigned_abs() / 1_000;
    let side = if off > 0 { "ahead of" } else { "behind" };
    Err(TableError::unsupported(format!(
        "the clock of this machine is {seconds} s {side} that of the storage of {}, so nothing is removed by the age of \
         files: set the clock",
        root.display()
    )))
}

/// The data files of one writer, each with a name of its own.
pub(crate) struct DataFiles {
    place: Arc<dyn Place>,
    /// The folder in the table that all of them are in.
    folder: PathBuf,
    /// All that were begun.
    files: Vec<PathBuf>,
    /// True if each is read back before a version names it.
    is_read_back: bool,
    /// True if those of all partitions lie in one folder.
    is_flat: bool,
}

impl DataFiles {
    pub fn new(place: Arc<dyn Place>, folder: Option<&str>) -> Self {
        Self {
            place,
            folder: folder.map(PathBuf::from).unwrap_or_default(),
            files: Vec::new(),
            is_read_back: false,
            is_flat: false,
        }
    }

    /// Writes the files of all partitions into one folder, since partition columns may be renamed.
    #[must_use]
    pub fn in_one_folder(self, is_flat: bool) -> Self {
        Self { is_flat, ..self }
    }

    /// The same files, which may be read back.
    #[must_use]
    pub fn read_back(self, is_read_back: bool) -> Self {
        Self { is_read_back, ..self }
    }

    /// Removes all files of a transaction that certainly is not in the table and never will be.
    pub fn remove(&self) {
        let names = self.files.iter().filter_map(|file| file.to_str());
        let names: Vec<String> = names.map(str::to_owned).collect();
        self.place.remove(&names);
    }
}

impl Places for DataFiles {
    fn open(&mut self, folder: &Path) -> Result<(PathBuf, Box<dyn Sink>), WriteError> {
        let name = format!("part-{:05}-{}.c000.parquet", self.files.len(), Uuid::new_v4());
        // The log says what a file's partition values are; its folder is for people, and must only be possible.
        let relative = if !self.is_flat && self.place.takes(folder) {
            self.folder.join(folder).join(name)
        } else {
            self.folder.join(name)
        };
        let file = self.place.create(&relative)?;
        self.files.push(relative.clone());
        let file = match relative.to_str().filter(|_| self.is_read_back) {
            Some(name) => Box::new(Readable::new(file, &self.place, name)),
            None => file,
        };
        Ok((relative, file))
    }
}

/// A data file that is read back from its place, where no version names it yet: it is complete there before it is read,
/// as an upload has to be.
struct Readable {
    file: Box<dyn Sink>,
    place: Arc<dyn Place>,
    name: String,
    is_complete: bool,
}

impl Readable {
    fn new(file: Box<dyn Sink>, place: &Arc<dyn Place>, name: &str) -> Self {
        Self {
            file,
            place: Arc::clone(place),
            name: name.to_owned(),
            is_complete: false,
        }
    }
}

impl Write for Readable {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Sink for Readable {
    fn commit(&mut self) -> io::Result<()> {
        if !self.is_complete {
            self.file.commit()?;
            self.is_complete = true;
        }
        Ok(())
    }

    fn discard(&mut self) {
        if std::mem::take(&mut self.is_complete) {
            self.place.remove(std::slice::from_ref(&self.name));
        } else {
            self.file.discard();
        }
    }

    fn path(&self) -> Option<&Path> {
        self.file.path()
    }

    fn spill_directory(&self) -> Option<PathBuf> {
        self.file.spill_directory()
    }

    fn unreadable(&self) -> Option<&'static str> {
        None
    }

    fn read_back(&mut self) -> io::Result<Arc<dyn ReadBack>> {
        self.commit()?;
        Ok(Arc::new(Placed {
            place: Arc::clone(&self.place),
            name: self.name.clone(),
        }))
    }
}

/// A file at its place.
struct Placed {
    place: Arc<dyn Place>,
    name: String,
}

impl ReadBack for Placed {
    fn size(&self) -> io::Result<u64> {
        let size = self.place.size(&self.name).map_err(io::Error::other)?;
        size.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn read_at(&self, start: u64, length: usize) -> io::Result<Bytes> {
        let range = start..start.saturating_add(length as u64);
        let bytes = self
            .place
            .read_range(&self.name, range)
            .map_err(io::Error::other)?;
        if bytes.len() == length {
            Ok(bytes)
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
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

struct DataFile {
    root: PathBuf,
    /// Its name in the table.
    name: PathBuf,
    path: PathBuf,
    buffer: Vec<u8>,
    file: Option<File>,
    complete: bool,
    process: u32,
}

impl DataFile {
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

impl Write for DataFile {
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

impl Sink for DataFile {
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

impl Drop for DataFile {
    fn drop(&mut self) {
        self.discard();
    }
}
