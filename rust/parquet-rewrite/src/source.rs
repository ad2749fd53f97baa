//! An input file: its footer, and its bytes as they were when the footer was read.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use parquet::file::metadata::ParquetMetaData;
use parquet_inspect::open_footer;
use parquet_writer::WriteError;
use parquet_writer::thrift::ThriftStruct;

use crate::error::{Result, RewriteError, UNEXPECTED};
use crate::ids::{column, file, row_group};

/// Bytes of a footer's length and of the magic.
const TAIL_BYTES: u64 = 8;

/// What tells a file from another one, or from itself after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Identity {
    fn of(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
        }
    }
}

/// An input file whose footer was read once.
#[derive(Debug)]
pub(crate) struct SourceFile {
    path: PathBuf,
    identity: Identity,
    /// Where the footer begins: no chunk, filter or index is behind it.
    footer_start: u64,
}

/// The footer of an input file.
pub(crate) struct Footer {
    pub metadata: ParquetMetaData,
    /// The same as a tree, with all that the `parquet` crate does not keep.
    pub tree: ThriftStruct,
}

impl SourceFile {
    /// Opens an input file and reads its footer.
    ///
    /// # Errors
    /// The file cannot be read, is no regular file, is encrypted, has its chunks in other files, or is damaged.
    pub fn open(path: &Path) -> Result<(Self, Footer)> {
        let with_path = |error| RewriteError::io(path, error);
        // A pipe would wait for a writer when it is opened.
        let found = std::fs::metadata(path).map_err(with_path)?;
        if found.is_dir() {
            return Err(with_path(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        if !found.is_file() {
            let message = format!(
                "{} is not a regular file: copy it to a regular file first",
                path.display()
            );
            return Err(WriteError::option("files", message).into());
        }
        let mut file = File::open(path).map_err(with_path)?;
        let found = file.metadata().map_err(with_path)?;
        let (metadata, bytes) =
            open_footer(&mut file).map_err(|error| RewriteError::of_footer(path, error))?;
        let footer_start = found.size().checked_sub(TAIL_BYTES + bytes.len() as u64);
        let source = Self {
            path: path.to_owned(),
            identity: Identity::of(&found),
            footer_start: footer_start.ok_or_else(|| RewriteError::changed(path))?,
        };
        // A signature may follow.
        let parsed = ThriftStruct::parse_first(&bytes);
        let (tree, _) = parsed.map_err(|_| RewriteError::damaged(path, UNEXPECTED))?;
        let mut footer = Footer { metadata, tree };
        source.check(&mut footer.tree)?;
        Ok((source, footer))
    }

    pub fn footer_start(&self) -> u64 {
        self.footer_start
    }

    /// Opens the file again.
    ///
    /// # Errors
    /// It is another file now.
    pub fn reopen(&self) -> Result<OpenSource<'_>> {
        let file = File::open(&self.path).map_err(|error| self.io(error))?;
        let open = OpenSource { source: self, file };
        open.check_unchanged()?;
        Ok(open)
    }

    /// The error with the file's path, of what could not be understood in it.
    pub fn damaged(&self, what: impl std::fmt::Display) -> RewriteError {
        RewriteError::damaged(&self.path, what)
    }

    fn io(&self, error: io::Error) -> RewriteError {
        RewriteError::io(&self.path, error)
    }

    /// Refuses what cannot be copied.
    fn check(&self, tree: &mut ThriftStruct) -> Result<()> {
        if tree.get(file::ENCRYPTION_ALGORITHM).is_some() {
            return Err(RewriteError::encrypted(&self.path));
        }
        let damaged = |_: WriteError| self.damaged(UNEXPECTED);
        for group in tree.list(file::ROW_GROUPS).map_err(damaged)? {
            let columns = group.as_struct().and_then(|group| group.list(row_group::COLUMNS));
            for chunk in columns.map_err(damaged)? {
                let chunk = chunk.as_struct().map_err(damaged)?;
                let has = |id| chunk.get(id).is_some();
                if has(column::CRYPTO_METADATA) || has(column::ENCRYPTED_METADATA) {
                    return Err(RewriteError::encrypted(&self.path));
                }
                if has(column::FILE_PATH) {
                    let message = format!(
                        "{} has the row groups of other files, as _metadata has: name those files",
                        self.path.display()
                    );
                    return Err(WriteError::option("files", message).into());
                }
            }
        }
        Ok(())
    }
}

/// An input file that is open.
pub(crate) struct OpenSource<'a> {
    pub source: &'a SourceFile,
    file: File,
}

impl OpenSource<'_> {
    /// Reads bytes of the file, all of them.
    ///
    /// # Errors
    /// The file is shorter than it was, or cannot be read.
    pub fn read(&self, bytes: &mut [u8], at: u64) -> Result<()> {
        self.file
            .read_exact_at(bytes, at)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => RewriteError::changed(&self.source.path),
                _ => self.source.io(error),
            })
    }

    /// # Errors
    /// The file is not what it was when its footer was read first.
    pub fn check_unchanged(&self) -> Result<()> {
        let found = self.file.metadata().map_err(|error| self.source.io(error))?;
        if Identity::of(&found) == self.source.identity {
            Ok(())
        } else {
            Err(RewriteError::changed(&self.source.path))
        }
    }

    /// The footer as it was read first.
    ///
    /// # Errors
    /// As [`SourceFile::open`].
    pub fn footer(&self) -> Result<Footer> {
        let (source, footer) = SourceFile::open(&self.source.path)?;
        if source.identity == self.source.identity {
            Ok(footer)
        } else {
            Err(RewriteError::changed(&self.source.path))
        }
    }
}
