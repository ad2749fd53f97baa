//! Files that are whole before they have a name.
//!
//! A rename from one folder to another changes both. Linux does one of those at a time, for all of a file system, and
//! each may wait for a sync that writes one of its folders. A file without a name is linked to its place instead, which
//! changes one folder, and nothing is left of it when its process dies.
//!
//! Versions are renamed all the same. A link changes the file too: its count of links. A file system without a journal
//! has no sync that covers this change with the one of the folder, and would take the file for a deleted one.

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::io::{self, Write};
    use std::os::fd::AsRawFd;
    use std::path::{Path, PathBuf};

    use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};

    /// Writes a whole file in a folder; the file system has taken its bytes. None where it can have none without a name,
    /// or where nothing can be linked.
    pub(in crate::store) fn write(folder: &Path, body: &[u8]) -> Option<io::Result<File>> {
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        // Others read the table too; the process' umask decides who.
        let mut file = File::from(open(folder, flags, Mode::from_raw_mode(0o666)).ok()?);
        let is_there = path(&file).try_exists().unwrap_or(false);
        is_there.then(|| {
            file.write_all(body)?;
            // The link needs the descriptor, and must not come before an error of its close.
            checked_close::try_close(&file)?;
            Ok(file)
        })
    }

    /// Gives a file its name, unless another one has it.
    pub(in crate::store) fn link(file: &File, place: &Path) -> io::Result<()> {
        Ok(linkat(CWD, path(file), CWD, place, AtFlags::SYMLINK_FOLLOW)?)
    }

    fn path(file: &File) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    pub(in crate::store) fn write(_: &Path, _: &[u8]) -> Option<io::Result<File>> {
        None
    }

    pub(in crate::store) fn link(_: &File, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::{link, write};
#[cfg(target_os = "linux")]
pub(super) use linux::{link, write};

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::{fs, io};

    use super::*;

    #[test]
    fn a_place_is_had_once_by_a_whole_file() {
        let folder = tempfile::tempdir().unwrap();
        let (place, plain) = (folder.path().join("place"), folder.path().join("plain"));
        let file = write(folder.path(), b"rows").unwrap().unwrap();
        let other = write(folder.path(), b"others").unwrap().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        link(&file, &place).unwrap();
        let refused = link(&other, &place).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&place).unwrap(), b"rows");
        fs::write(&plain, "").unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&place), mode(&plain));
    }

    #[test]
    fn there_are_none_in_a_folder_that_is_missing_or_the_kernels() {
        let folder = tempfile::tempdir().unwrap();
        assert!(write(&folder.path().join("missing"), b"rows").is_none());
        assert!(write(Path::new("/proc"), b"rows").is_none());
    }
}
