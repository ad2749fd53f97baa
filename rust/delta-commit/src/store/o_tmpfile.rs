//! Files that are complete before they have a name (`O_TMPFILE`).
//!
//! A rename from one folder to another changes both. Linux does one of those at a time, for all of a file system, and
//! each may wait for a sync that writes one of its folders. A file without a name is linked to its place instead, which
//! changes one folder, and nothing is left of it when its process dies.
//!
//! Versions are renamed all the same. A link changes the file too: its count of links. A file system without a journal
//! has no sync that covers this change with the one of the folder, and would take the file for a deleted one.

use std::fs::File;
use std::io::{self, Write};

use beneath::Folder;

/// Writes a whole file in a folder; the file system has taken its bytes. None where it can have none without a name, or
/// where nothing can be linked.
pub(super) fn write(folder: &Folder, body: &[u8]) -> Option<io::Result<File>> {
    let mut file = folder.unnamed_file()?;
    Some((|| {
        file.write_all(body)?;
        // The link needs the descriptor, and must not come before an error of its close.
        checked_close::try_close(&file)?;
        Ok(file)
    })())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::{fs, io};

    use super::*;

    #[test]
    fn a_place_is_had_once_by_a_whole_file() {
        let folder = tempfile::tempdir().unwrap();
        let (place, plain) = (folder.path().join("place"), folder.path().join("plain"));
        let open = Folder::root(folder.path()).unwrap();
        let file = write(&open, b"rows").unwrap().unwrap();
        let other = write(&open, b"others").unwrap().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        open.link(&file, OsStr::new("place")).unwrap();
        let refused = open.link(&other, OsStr::new("place")).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&place).unwrap(), b"rows");
        fs::write(&plain, "").unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&place), mode(&plain));
    }

    #[test]
    fn there_are_none_in_a_folder_of_the_kernel() {
        let kernel = Folder::root(Path::new("/proc")).unwrap();
        assert!(write(&kernel, b"rows").is_none());
    }
}
