//! Data files under their final names: nobody sees them before the log names them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use parquet_dataset::Places;
use parquet_writer::WriteError;
use parquet_writer::sink::Sink;
use uuid::Uuid;

/// Bytes gathered before a file is opened, and for each call after that: a small append opens its file once, when all
/// of it is there.
const BUFFER_BYTES: usize = 64 << 10;

/// Bytes that a name in a folder may have on the file systems in use.
const MOST_NAME: usize = 255;

/// The folder of a table, where data files go.
pub(crate) struct DataFiles {
    root: PathBuf,
    files: usize,
}

impl DataFiles {
    pub fn new(root: PathBuf) -> Self {
        Self { root, files: 0 }
    }
}

impl Places for DataFiles {
    fn open(&mut self, folder: &Path) -> Result<(PathBuf, Box<dyn Sink>), WriteError> {
        let name = format!("part-{:05}-{}.c000.parquet", self.files, Uuid::new_v4());
        self.files += 1;
        // The log says what a file's partition values are; its folder is for people, and must only be possible.
        let possible = folder.iter().all(|part| part.len() <= MOST_NAME);
        let relative = if possible {
            folder.join(name)
        } else {
            PathBuf::from(name)
        };
        let file = DataFile::new(self.root.join(&relative));
        Ok((relative, Box::new(file)))
    }
}

struct DataFile {
    path: PathBuf,
    buffer: Vec<u8>,
    file: Option<File>,
    complete: bool,
    process: u32,
}

impl DataFile {
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            buffer: Vec::new(),
            file: None,
            complete: false,
            process: std::process::id(),
        }
    }

    fn file(&mut self) -> io::Result<&mut File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => match File::create_new(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if let Some(folder) = self.path.parent() {
                        fs::create_dir_all(folder)?;
                    }
                    File::create_new(&self.path)?
                }
                other => other?,
            },
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
    /// The committer makes it survive a crash, together with those of other appends.
    fn commit(&mut self) -> io::Result<()> {
        self.write_out()?;
        self.file = None;
        self.complete = true;
        Ok(())
    }

    fn discard(&mut self) {
        self.buffer = Vec::new();
        // A forked child only inherited it.
        if !self.complete && self.file.take().is_some() && self.process == std::process::id() {
            let _ = fs::remove_file(&self.path);
        }
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn spill_directory(&self) -> Option<PathBuf> {
        // The table's own folder of a new partition may not be there yet.
        self.path
            .ancestors()
            .skip(1)
            .find(|folder| folder.is_dir())
            .map(Path::to_path_buf)
    }
}

impl Drop for DataFile {
    fn drop(&mut self) {
        self.discard();
    }
}
