//! Deletion vectors: the rows of data files that are marked as deleted.
//!
//! [`format`](mod@format) has the bytes, [`read`] and [`write`] have the places: the log itself, or files in the
//! table's root that hold several vectors each. The rules are those of "Deletion Vectors" and "Deletion Vector Format"
//! in Delta's protocol.

pub(crate) mod format;
mod wide;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use delta_commit::actions::{Add, DeletionVector, VectorFile};
use delta_commit::path;
use parquet_writer::WriteError;
use roaring::RoaringTreemap;
use uuid::Uuid;

use crate::error::{Result, TableError};
use crate::storage::TableStorage;

pub(crate) use wide::widened;

/// Bytes up to which a vector is in the log. A request for a file, or its sync, costs more than reading so many.
const MOST_INLINE: usize = 256;

/// Bytes between two vectors up to which they are read by one request, which costs more than reading so many.
const MOST_BETWEEN: u64 = 64 << 10;

/// The rows that are deleted from a data file.
///
/// # Errors
/// [`TableError::Malformed`] names the data file, and the vector's file, when the vector is damaged or is another's.
pub(crate) fn read(storage: &Arc<dyn TableStorage>, add: &Add) -> Result<RoaringTreemap> {
    Ok(read_each(storage, &[add])?.pop().unwrap_or_default())
}

/// The rows that are deleted from each of these data files. Vectors that are near each other in one file are read
/// together.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_each(storage: &Arc<dyn TableStorage>, adds: &[&Add]) -> Result<Vec<RoaringTreemap>> {
    let mut each = vec![RoaringTreemap::new(); adds.len()];
    let mut stored = Vec::new();
    for (number, add) in adds.iter().enumerate() {
        let Some(vector) = &add.deletion_vector else {
            continue;
        };
        match place_of(storage, vector).map_err(|error| named(add, error))? {
            VectorLocation::InLog(rows) => {
                check_cardinality(add, vector, &rows)?;
                each[number] = rows;
            }
            VectorLocation::InFile { file, part, size } => stored.push((file, part, size, number)),
        }
    }
    stored.sort_by(|a, b| (&a.0, a.1.start).cmp(&(&b.0, b.1.start)));
    let together = |a: &StoredVector, b: &StoredVector| a.0 == b.0 && b.1.start <= a.1.end + MOST_BETWEEN;
    for run in stored.chunk_by(together) {
        let Some((file, first, ..)) = run.first() else {
            continue;
        };
        let end = run
            .iter()
            .map(|(_, part, ..)| part.end)
            .max()
            .unwrap_or(first.end);
        let bytes = storage.read_range(file, first.start..end)?;
        for (_, part, size, number) in run {
            let add = adds[*number];
            let rows = cut(&bytes, first.start, part)
                .and_then(|part| format::from_file(part, *size))
                .map_err(|error| {
                    TableError::Malformed(format!("{file}, from byte {} on: {error}", part.start))
                });
            let rows = rows.map_err(|error| named(add, error))?;
            if let Some(vector) = &add.deletion_vector {
                check_cardinality(add, vector, &rows)?;
            }
            each[*number] = rows;
        }
    }
    Ok(each)
}

/// All rows of a file of so many but these.
pub(crate) fn others(rows: u64, but: &RoaringTreemap) -> RoaringTreemap {
    let mut others = RoaringTreemap::new();
    others.insert_range(0..rows);
    others -= but;
    others
}

/// The file of a vector, its part of the file, its size, and the number of its data file.
type StoredVector = (String, Range<u64>, usize, usize);

/// The bytes of a vector, as far as the file has them, of those that were read from `from` on.
fn cut<'a>(bytes: &'a [u8], from: u64, part: &Range<u64>) -> Result<&'a [u8]> {
    let at = |byte: u64| usize::try_from(byte - from).map(|at| at.min(bytes.len()));
    match (at(part.start), at(part.end)) {
        (Ok(start), Ok(end)) => Ok(&bytes[start..end]),
        _ => Err(too_large()),
    }
}

enum VectorLocation {
    InLog(RoaringTreemap),
    InFile {
        file: String,
        part: Range<u64>,
        size: usize,
    },
}

fn place_of(storage: &Arc<dyn TableStorage>, vector: &DeletionVector) -> Result<VectorLocation> {
    // delta-spark's vector of no rows has no bytes either.
    if (vector.size_in_bytes, vector.cardinality) == (0, 0) {
        return Ok(VectorLocation::InLog(RoaringTreemap::new()));
    }
    let size = usize::try_from(vector.size_in_bytes).map_err(|_| {
        TableError::Malformed(format!(
            "its size is {} bytes, expected none or more",
            vector.size_in_bytes
        ))
    })?;
    let Some(file) = file_of(storage.root(), vector)? else {
        return format::from_text(&vector.path_or_inline_dv, size).map(VectorLocation::InLog);
    };
    let offset = u64::try_from(vector.offset.unwrap_or(0)).map_err(|_| {
        TableError::Malformed(format!(
            "{file}: its offset is {:?}, expected none or more",
            vector.offset
        ))
    })?;
    let part = offset..offset + format::in_file(size);
    Ok(VectorLocation::InFile { file, part, size })
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
/// An error if the file cannot be written: nothing of it stays.
pub(crate) fn write(storage: &Arc<dyn TableStorage>, of_files: &[RoaringTreemap]) -> Result<WrittenVectors> {
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
        put(storage, &name, &packed.body)?;
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

fn put(storage: &Arc<dyn TableStorage>, name: &str, body: &[u8]) -> Result<()> {
    let mut sink = storage.create(Path::new(name))?;
    let done = sink.write_all(body).and_then(|()| sink.commit());
    done.map_err(|source| {
        sink.discard();
        WriteError::io(name, source).into()
    })
}

fn too_large() -> TableError {
    TableError::unsupported(
        "the marks of one deletion take more than 2 GiB, which is not supported: delete by conditions that choose fewer files",
    )
}
