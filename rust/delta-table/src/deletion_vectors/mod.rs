//! Deletion vectors: the rows of data files that are marked as deleted.
//!
//! [`format`](mod@format) has the bytes, [`read`] and [`write`] have the places: the log itself, or files in the table's
//! root that hold several vectors each. The rules are those of "Deletion Vectors" and "Deletion Vector Format" in
//! Delta's protocol.

mod format;
mod wide;

use std::path::Path;
use std::sync::Arc;

use delta_commit::actions::{Add, DeletionVector, VectorFile};
use delta_commit::path;
use parquet_writer::WriteError;
use roaring::RoaringTreemap;
use uuid::Uuid;

use crate::error::{Result, TableError};
use crate::place::Place;

pub(crate) use wide::widened;

/// Bytes up to which a vector is in the log. A request for a file, or its sync, costs more than reading so many.
const MOST_INLINE: usize = 256;

/// The rows that are deleted from a data file.
///
/// # Errors
/// [`TableError::Malformed`] names the data file, and the vector's file, when the vector is damaged or is another's.
pub(crate) fn read(place: &Arc<dyn Place>, add: &Add) -> Result<RoaringTreemap> {
    match &add.deletion_vector {
        None => Ok(RoaringTreemap::new()),
        Some(vector) => {
            let rows = read_vector(place, vector).map_err(|error| named(add, error))?;
            check_cardinality(add, vector, &rows)?;
            Ok(rows)
        }
    }
}

fn read_vector(place: &Arc<dyn Place>, vector: &DeletionVector) -> Result<RoaringTreemap> {
    let size = usize::try_from(vector.size_in_bytes).map_err(|_| {
        TableError::Malformed(format!(
            "its size is {} bytes, expected none or more",
            vector.size_in_bytes
        ))
    })?;
    let Some(file) = file_of(place.root(), vector)? else {
        return format::from_text(&vector.path_or_inline_dv, size);
    };
    let offset = u64::try_from(vector.offset.unwrap_or(0)).map_err(|_| {
        TableError::Malformed(format!(
            "{file}: its offset is {:?}, expected none or more",
            vector.offset
        ))
    })?;
    let range = offset..offset + format::in_file(size);
    let bytes = place.read_range(&file, range)?;
    format::from_file(&bytes, size)
        .map_err(|error| TableError::Malformed(format!("{file}, from byte {offset} on: {error}")))
}

fn named(add: &Add, error: TableError) -> TableError {
    match error {
        TableError::Malformed(message) => TableError::Malformed(format!(
            "{}: the file's deletion vector cannot be read: {message}: restore its file, or an older version of the \
             table",
            add.path
        )),
        other => other,
    }
}

fn check_cardinality(add: &Add, vector: &DeletionVector, rows: &RoaringTreemap) -> Result<()> {
    if i64::try_from(rows.len()) != Ok(vector.cardinality) {
        let error = TableError::Malformed(format!(
            "it has {} rows, and the log says {}",
            rows.len(),
            vector.cardinality
        ));
        return Err(named(add, error));
    }
    Ok(())
}

/// The file of a deletion vector, relative to the table's root; none when it is in the log.
///
/// # Errors
/// [`delta_commit::CommitError::Unsupported`] when the file is not in the table's folder.
pub(crate) fn file_of(root: &Path, vector: &DeletionVector) -> Result<Option<String>> {
    let at = match vector.file()? {
        VectorFile::None => return Ok(None),
        VectorFile::InTable(file) => return Ok(Some(file)),
        VectorFile::At(at) => at,
    };
    inside(root, &at).map(Some).ok_or_else(|| {
        TableError::unsupported(format!(
            "the deletion vector at {at:?} is not in the table's folder, from which alone it is read: read or restore \
             the table with Spark"
        ))
    })
}

/// Converts an absolute path, or a URL, to a path relative to the table's root.
fn inside(root: &Path, at: &str) -> Option<String> {
    let path = at.strip_prefix("file:").map(|path| path.trim_start_matches('/'));
    let path = path.map_or_else(|| at.to_owned(), |path| format!("/{path}"));
    let root = root.to_str()?;
    let below = [root.to_owned(), path::encode(root)]
        .iter()
        .find_map(|root| path.strip_prefix(root.trim_end_matches('/')).map(str::to_owned))?;
    path::decode_inside(below.strip_prefix('/')?).ok()
}

/// Vectors that were written, and their file.
#[derive(Debug, Default)]
pub(crate) struct WrittenVectors {
    /// The vectors, in the order of the rows that were given.
    pub vectors: Vec<DeletionVector>,
    /// The files that hold those that are not in the log.
    pub files: Vec<String>,
}

/// Writes vectors. Small ones go into the log, and the others into one file.
///
/// # Errors
/// When the file cannot be written: nothing of it stays.
pub(crate) fn write(place: &Arc<dyn Place>, of_files: &[RoaringTreemap]) -> Result<WrittenVectors> {
    let mut written = WrittenVectors::default();
    let mut packed = Packed::new();
    for rows in of_files {
        let bytes = format::to_bytes(rows)?;
        let cardinality = i64::try_from(rows.len()).unwrap_or(i64::MAX);
        let size = i32::try_from(bytes.len()).map_err(|_| too_large())?;
        if bytes.len() <= MOST_INLINE {
            written
                .vectors
                .push(DeletionVector::inline(&bytes, size, cardinality));
            continue;
        }
        let offset = i32::try_from(packed.body.len()).map_err(|_| too_large())?;
        format::put_in_file(&mut packed.body, size, &bytes);
        written
            .vectors
            .push(DeletionVector::in_table(packed.id, offset, size, cardinality));
    }
    if packed.body.len() > format::FILE_HEADER.len() {
        let name = DeletionVector::file_name(packed.id);
        put(place, &name, &packed.body)?;
        written.files.push(name);
    }
    Ok(written)
}

/// The file that vectors are packed into.
struct Packed {
    id: Uuid,
    body: Vec<u8>,
}

impl Packed {
    fn new() -> Self {
        Self {
            id: Uuid::new_v4(),
            body: format::FILE_HEADER.to_vec(),
        }
    }
}

fn put(place: &Arc<dyn Place>, name: &str, body: &[u8]) -> Result<()> {
    let mut sink = place.create(Path::new(name))?;
    let done = sink.write_all(body).and_then(|()| sink.commit());
    done.map_err(|source| {
        sink.discard();
        WriteError::io(name, source).into()
    })
}

fn too_large() -> TableError {
    TableError::unsupported(
        "the marks of one deletion take more than 2 GiB, which is not built: delete by conditions that choose fewer files",
    )
}
