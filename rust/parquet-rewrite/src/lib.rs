//! Joins Parquet files and splits them by row group. Column chunks are copied byte for byte, and nothing is decoded.
//!
//! [`source`] reads the footer of an input, [`common`] what all footers say. [`groups`] has a row group of an input and
//! gives it a place in another file, and [`copied`] is that file: chunks and Bloom filters are copied through one
//! buffer, page indexes one by one.
//!
//! Footers are changed as trees of Thrift values. The `parquet` crate copies chunks, too, by
//! `SerializedRowGroupWriter::append_column`. It would declare one order of rows for all row groups of a file, hold the
//! Bloom filters of a row group and all page indexes in memory, rename the order of floats' bounds, and lose fields
//! that it does not know.

mod common;
mod copied;
mod creators;
mod error;
mod groups;
mod ids;
mod source;
mod watch;

use std::io;
use std::path::{Path, PathBuf};

use parquet_dataset::{DatasetResult, FileResult, SpreadFile, Storage, Unpublished};
use parquet_writer::sink::Sink;
use parquet_writer::thrift::ThriftValue;
use parquet_writer::{WriteError, WriteResult};

use common::Common;
use copied::CopiedFile;
use error::UNEXPECTED;
pub use error::{Result, RewriteError};
use groups::SourceRowGroup;
use ids::file;
use source::{Footer, OpenSource, SourceFile};
pub use watch::Copied;
use watch::Watch;

/// Limits of a file that row groups are copied into. One row group may exceed them.
#[derive(Debug, Clone, Copy, Default)]
pub struct FileLimits {
    /// Bytes at most.
    pub bytes: Option<u64>,
    /// Row groups at most.
    pub row_groups: Option<u64>,
}

/// Files whose row groups can be copied into one, because their schemas are equal.
pub struct Inputs {
    sources: Vec<SourceFile>,
    common: Common,
}

impl Inputs {
    /// Reads the footers of all files. `go_on` is called after each; when it returns false, the call ends in
    /// [`WriteError::Interrupted`].
    ///
    /// # Errors
    /// [`RewriteError::Corrupt`] for a file that is no whole Parquet file; [`WriteError::Option`] when there is no
    /// file, or one is encrypted; [`WriteError::Schema`] names the file, the column and the difference; and
    /// [`WriteError::Io`].
    pub fn open(paths: &[PathBuf], go_on: &mut dyn FnMut(Copied) -> bool) -> Result<Self> {
        let mut watch = Watch::new(go_on);
        let first = paths
            .first()
            .ok_or_else(|| WriteError::option("files", "files is empty: name at least one"))?;
        let mut inputs = Self {
            common: Common::new(first, &mut SourceFile::open(first)?.1)?,
            sources: Vec::with_capacity(paths.len()),
        };
        // All that the footers say is checked before anything is written.
        for (index, path) in paths.iter().enumerate() {
            let (source, mut footer) = SourceFile::open(path)?;
            if index > 0 {
                inputs.common.add(path, &mut footer)?;
            }
            groups_of(&source.reopen()?, footer, &mut |_| Ok(()))?;
            inputs.sources.push(source);
            watch.copied(0)?;
        }
        Ok(inputs)
    }

    /// Copies all row groups into one file, which appears when it is complete.
    ///
    /// # Errors
    /// A file cannot be read or written, or was changed meanwhile; the file has not appeared then.
    pub fn into_file(
        self,
        open: impl FnOnce() -> Result<Box<dyn Sink>, WriteError>,
        go_on: &mut dyn FnMut(Copied) -> bool,
    ) -> Result<WriteResult> {
        let watch = &mut Watch::new(go_on);
        let mut file = CopiedFile::new(open()?, &self.common)?;
        let mut buffer = Vec::new();
        self.each_group(&mut |index, source, mut group| {
            let placed = file.place(&mut group)?;
            file.copy(&group, placed, (index, source), &mut buffer, watch)
        })?;
        file.finish(&self.sources, watch)
    }

    /// Copies all row groups into files of a folder, in their order. All files appear together.
    ///
    /// # Errors
    /// As [`Self::into_file`]; and where all files have appeared and old ones could not be removed.
    pub fn into_folder(
        self,
        open: impl FnOnce() -> Result<Box<dyn Storage>, WriteError>,
        limits: FileLimits,
        go_on: &mut dyn FnMut(Copied) -> bool,
    ) -> Result<DatasetResult> {
        let watch = &mut Watch::new(go_on);
        let mut storage = open()?;
        let mut finished = Vec::new();
        let mut current = None;
        let mut buffer = Vec::new();
        self.each_group(&mut |index, source, mut group| {
            let (path, mut file) = match current.take() {
                Some((path, file)) if is_full(&file, &mut group, limits)? => {
                    finished.push(self.finished(path, file, watch)?);
                    self.opened(storage.as_mut())?
                }
                Some(open) => open,
                None => self.opened(storage.as_mut())?,
            };
            let placed = file.place(&mut group)?;
            file.copy(&group, placed, (index, source), &mut buffer, watch)?;
            current = Some((path, file));
            Ok(())
        })?;
        let (path, file) = match current {
            Some(open) => open,
            // Files without row groups still have a schema.
            None if finished.is_empty() => self.opened(storage.as_mut())?,
            None => return Err(WriteError::Encode("a file was lost".into()).into()),
        };
        finished.push(self.finished(path, file, watch)?);
        let published = storage.publish(&finished).map_err(with_left)?;
        if let Some(unremoved) = published.unremoved {
            return Err(unremoved.into());
        }
        let files = finished.into_iter().zip(published.paths);
        let files = files.map(|(file, path)| FileResult {
            path,
            partition: Vec::new(),
            file: file.result,
        });
        Ok(DatasetResult {
            files: files.collect(),
        })
    }

    fn opened<'a>(&'a self, storage: &mut dyn Storage) -> Result<(PathBuf, CopiedFile<'a>), WriteError> {
        let (path, sink) = storage.open(Path::new(""))?;
        Ok((path, CopiedFile::new(sink, &self.common)?))
    }

    fn finished(&self, path: PathBuf, file: CopiedFile<'_>, watch: &mut Watch<'_>) -> Result<SpreadFile> {
        Ok(SpreadFile {
            path,
            folder: PathBuf::new(),
            partition: Vec::new(),
            result: file.finish(&self.sources, watch)?,
        })
    }

    /// Passes on the row groups of all files in their order, each with its file and the number of that.
    fn each_group(
        &self,
        each: &mut dyn FnMut(usize, &OpenSource<'_>, SourceRowGroup) -> Result<()>,
    ) -> Result<()> {
        for (index, source) in self.sources.iter().enumerate() {
            let open = source.reopen()?;
            groups_of(&open, open.footer()?, &mut |group| each(index, &open, group))?;
            open.check_unchanged()?;
        }
        Ok(())
    }
}

/// The error of files that could not all appear, with those that did and could not be removed.
fn with_left(failed: Unpublished) -> WriteError {
    let left: Vec<_> = failed
        .left
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    match failed.error {
        WriteError::Io { path, source } if !left.is_empty() => WriteError::Io {
            path,
            source: io::Error::new(
                source.kind(),
                format!("{source}; files may be left: {}", left.join(", ")),
            ),
        },
        error => error,
    }
}

/// Passes on the row groups of a file.
fn groups_of(
    open: &OpenSource<'_>,
    mut footer: Footer,
    each: &mut dyn FnMut(SourceRowGroup) -> Result<()>,
) -> Result<()> {
    let unexpected = || open.source.damaged(UNEXPECTED);
    let groups = footer.tree.list(file::ROW_GROUPS).map_err(|_| unexpected())?;
    let mut bytes = 0_u64;
    for group in std::mem::take(groups) {
        let ThriftValue::Struct(group) = group else {
            return Err(unexpected());
        };
        let group = SourceRowGroup::new(group, open)?;
        bytes = bytes.saturating_add(group.bytes());
        // A copy of a damaged file is not larger than that.
        if bytes > open.source.footer_start() {
            return Err(open.source.damaged("its row groups overlap"));
        }
        each(group)?;
    }
    Ok(())
}

/// Returns true if a file that has a row group has no room for one more.
fn is_full(
    file: &CopiedFile<'_>,
    group: &mut SourceRowGroup,
    limits: FileLimits,
) -> Result<bool, WriteError> {
    if limits
        .row_groups
        .is_some_and(|most| file.row_groups() as u64 >= most)
    {
        return Ok(true);
    }
    let Some(most) = limits.bytes else {
        return Ok(false);
    };
    Ok(file.bytes_with(&file.place(group)?) > most)
}
