//! Files that have a name of their own until they are whole.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::time::SystemTime;

use uuid::Uuid;

use crate::Folder;

const PREFIX: &str = ".spillway-";
const SUFFIX: &str = ".tmp";

/// Returns true for the name of a [`Temporary`], and for `.tmp` and six letters or digits, the names that releases
/// before them gave.
#[must_use]
pub fn is_temporary(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let id = name
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.strip_suffix(SUFFIX));
    if let Some(id) = id {
        return id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    }
    let letters = name.strip_prefix(".tmp");
    letters
        .is_some_and(|letters| letters.len() == 6 && letters.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

/// A file under a random name. Dropping it removes it, unless it got its place.
#[derive(Debug)]
pub struct Temporary {
    folder: Folder,
    name: OsString,
    file: Option<File>,
    is_placed: bool,
    process: u32,
}

impl Temporary {
    /// Creates an empty file in a folder.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn create(folder: Folder) -> io::Result<Self> {
        let name = OsString::from(format!("{PREFIX}{}{SUFFIX}", Uuid::new_v4().simple()));
        let file = folder.create(&name)?;
        Ok(Self {
            folder,
            name,
            file: Some(file),
            is_placed: false,
            process: std::process::id(),
        })
    }

    /// Ends the writing: syncs the file where it has to survive a crash, and closes it.
    ///
    /// # Errors
    /// What the operating system says; a network file system may say only at the close that bytes are lost.
    pub fn close(&mut self, durable: bool) -> io::Result<()> {
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        if durable {
            file.sync_all()?;
        }
        checked_close::close(file)
    }

    /// Closes it. Returns the time of its last write, by the clock of the file system.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn closed_at(&mut self) -> io::Result<SystemTime> {
        // A network file system tells its own time once it has the bytes.
        self.close(false)?;
        let modified = self.folder.modified(&self.name)?;
        modified.ok_or_else(|| io::Error::other("the file system does not say when a file was written"))
    }

    /// Gives it a name that nothing has yet, once it is closed. After an error it may be tried again.
    ///
    /// # Errors
    /// As [`Folder::rename_new`].
    pub fn place_new(&mut self, folder: &Folder, name: &OsStr) -> io::Result<()> {
        self.folder.rename_new(&self.name, folder, name)?;
        self.is_placed = true;
        Ok(())
    }

    /// Gives it a name, in the place of what has it, once it is closed.
    ///
    /// # Errors
    /// As [`Folder::rename`].
    pub fn place(&mut self, folder: &Folder, name: &OsStr) -> io::Result<()> {
        self.folder.rename(&self.name, folder, name)?;
        self.is_placed = true;
        Ok(())
    }
}

impl Write for Temporary {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = self.file.as_mut();
        file.ok_or_else(|| io::Error::other("the temporary file is closed"))?
            .write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // A forked child only inherited it.
        if !self.is_placed && self.process == std::process::id() {
            let _ = self.folder.remove_file(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn a_temporary_file_has_a_name_of_ours_and_goes_unless_it_is_placed() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Folder::root(folder.path()).unwrap();
        let mut one = Temporary::create(open()).unwrap();
        let names = open().names().unwrap();
        assert!(names.iter().all(|name| is_temporary(name)), "{names:?}");
        one.write_all(b"rows").unwrap();
        one.close(false).unwrap();
        one.place_new(&open(), OsStr::new("place")).unwrap();
        let mut other = Temporary::create(open()).unwrap();
        let refused = other.place_new(&open(), OsStr::new("place")).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        drop((one, other));
        assert_eq!(open().names().unwrap(), ["place"]);
        assert_eq!(fs::read(folder.path().join("place")).unwrap(), b"rows");
    }

    #[test]
    fn names_of_others_are_not_ours() {
        for name in [
            "thesis.docx",
            ".tmp",
            ".tmpfile",
            ".tmp12345",
            ".tmp1234567",
            ".tmp.....",
            ".tmpab/de",
            ".spillway-x.tmp",
            ".spillway-.tmp",
            "0.spillway-00000000000000000000000000000000.tmp",
            ".spillway-00000000000000000000000000000000",
        ] {
            assert!(!is_temporary(OsStr::new(name)), "{name}");
        }
        assert!(!is_temporary(OsStr::from_bytes(b".tmp\xff12345")));
        for name in [".tmpaB3dE6", ".spillway-0123456789abcdef0123456789abcdef.tmp"] {
            assert!(is_temporary(OsStr::new(name)), "{name}");
        }
    }
}
