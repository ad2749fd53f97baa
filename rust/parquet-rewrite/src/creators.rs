//! Old writers whose faults readers correct by the name in the footer, which copied row groups may lose.

use std::path::Path;

use parquet_writer::WriteError;

/// The versions of parquet-mr whose columns are longer than the footer says: their sizes leave out the header of the
/// dictionary page (PARQUET-816).
const CUT_OFF: (u32, u32, u32) = (1, 2, 9);
/// Before this version of parquet-mr, values in `DELTA_BYTE_ARRAY` may go on from the page before (PARQUET-246).
const CONTINUED: (u32, u32, u32) = (1, 8, 0);

/// Refuses files of which no part can be copied.
///
/// # Errors
/// [`WriteError::Option`] for those of parquet-mr before 1.2.9.
pub(crate) fn check(path: &Path, creator: Option<&[u8]>) -> Result<(), WriteError> {
    match creator.and_then(version_of) {
        Some(("parquet-mr", version)) if version < CUT_OFF => Err(refused(
            path,
            "whose footers state sizes that are too small (PARQUET-816)",
        )),
        _ => Ok(()),
    }
}

/// Refuses files that readers must know the writer of, where the new file has another.
///
/// # Errors
/// [`WriteError::Option`] for those of parquet-mr before 1.8.0, and of parquet-cpp, which Arrow was called before 3.0.0
/// (ARROW-10353).
pub(crate) fn check_mixed(path: &Path, creator: Option<&[u8]>) -> Result<(), WriteError> {
    let (why, is_old) = match creator.and_then(version_of) {
        Some(("parquet-mr", version)) => ("PARQUET-246", version < CONTINUED),
        Some(("parquet-cpp", _)) => ("ARROW-10353", true),
        _ => return Ok(()),
    };
    if is_old {
        let why = format!(
            "whose pages readers correct by its name ({why}), and the other files have another writer"
        );
        return Err(refused(path, &why));
    }
    Ok(())
}

fn refused(path: &Path, why: &str) -> WriteError {
    WriteError::option(
        "files",
        format!(
            "{} is by an old writer, {why}: read its rows, and write them again",
            path.display()
        ),
    )
}

/// The name of a writer and its version; none for a name of another form.
fn version_of(creator: &[u8]) -> Option<(&str, (u32, u32, u32))> {
    let (name, rest) = std::str::from_utf8(creator).ok()?.split_once(" version ")?;
    let mut parts = rest.splitn(3, '.').map(|part| {
        let digits = part.find(|letter: char| !letter.is_ascii_digit());
        part[..digits.unwrap_or(part.len())].parse().ok()
    });
    let mut next = || parts.next().map_or(Some(0), |part| part);
    Some((name, (next()?, next()?, next()?)))
}
