//! Changes below a folder that never leave it.
//!
//! Who can write into the folder of a table or a dataset can put a symbolic link in the place of an inner folder, also
//! between two system calls. A path that is resolved again by each call then writes or deletes files of somebody else.
//! [`Folder`] opens each folder on the way without following links (`O_NOFOLLOW`), and creates, renames and removes
//! names relative to the open folder. The root itself may be a link: its user named it.

mod temporary;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;
use std::{error, fmt};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

pub use temporary::{Temporary, is_temporary};

/// Opening a folder for lookups alone asks for no right to list it.
#[cfg(target_os = "linux")]
const LOOKUP: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const LOOKUP: OFlags = OFlags::RDONLY;

/// The umask decides who may read a file or enter a folder.
const FILE_MODE: Mode = Mode::from_raw_mode(0o666);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o777);

/// The error for an inner folder that is a symbolic link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linked(PathBuf);

impl fmt::Display for Linked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is a symbolic link, and nothing is written or removed through links inside a table or a dataset: put a \
             folder in its place",
            self.0.display()
        )
    }
}

impl error::Error for Linked {}

/// Returns true for the error of a folder that is a symbolic link.
#[must_use]
pub fn is_linked(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Linked>());
    inner.is_some()
}

/// An open folder.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    /// For messages.
    path: PathBuf,
}

impl Folder {
    /// Opens a root. Links on the way to it are followed.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn root(path: &Path) -> io::Result<Self> {
        let flags = LOOKUP | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            fd: rustix::fs::open(path, flags, Mode::empty())?,
            path: path.to_path_buf(),
        })
    }

    /// Opens the folder `below` a root.
    ///
    /// # Errors
    /// [`Linked`] for a symbolic link below the root, else what the operating system says.
    pub fn open(root: &Path, below: &Path) -> io::Result<Self> {
        Self::descend(root, below, Self::enter)
    }

    /// Opens the folder `below` a root, and makes folders that are missing. The root must exist.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn make(root: &Path, below: &Path) -> io::Result<Self> {
        Self::descend(root, below, Self::enter_or_make)
    }

    fn descend(
        root: &Path,
        below: &Path,
        step: impl Fn(&Self, &OsStr) -> io::Result<Self>,
    ) -> io::Result<Self> {
        below
            .components()
            .try_fold(Self::root(root)?, |folder, part| match part {
                Component::Normal(name) => step(&folder, name),
                Component::CurDir => Ok(folder),
                _ => Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("{} leads out of its folder", below.display()),
                )),
            })
    }

    /// Its path, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a folder in this one.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn enter(&self, name: &OsStr) -> io::Result<Self> {
        let flags = LOOKUP | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let path = self.path.join(name);
        match rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => Ok(Self { fd, path }),
            // Without a number, whose text would take the place of the message in Python.
            Err(Errno::NOTDIR | Errno::LOOP) if self.is_link(name) => Err(io::Error::other(Linked(path))),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a folder in this one, and makes it if it is missing.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn enter_or_make(&self, name: &OsStr) -> io::Result<Self> {
        match self.enter(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_folder(name)?;
                self.enter(name)
            }
            entered => entered,
        }
    }

    /// Makes a folder in this one. Returns false if there is something of that name.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn make_folder(&self, name: &OsStr) -> io::Result<bool> {
        match rustix::fs::mkdirat(&self.fd, name, FOLDER_MODE) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn is_link(&self, name: &OsStr) -> bool {
        let found = self.status(name);
        found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Symlink)
    }

    /// Returns true if anything has this name, be it a link that leads nowhere.
    ///
    /// # Errors
    /// What the operating system says when it does not know.
    pub fn has(&self, name: &OsStr) -> io::Result<bool> {
        match self.status(name) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// What the name stands for: of a link, the link itself.
    fn status(&self, name: &OsStr) -> rustix::io::Result<Stat> {
        rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Creates a file that must not exist, and opens it for writing.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn create(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.fd, name, flags, FILE_MODE)?.into())
    }

    /// The time at which a regular file was last written; none for anything else.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn modified(&self, name: &OsStr) -> io::Result<Option<SystemTime>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            // A link.
            Err(Errno::LOOP) => return Ok(None),
            opened => File::from(opened?),
        };
        let found = file.metadata()?;
        found.is_file().then(|| found.modified()).transpose()
    }

    /// The names in it, in no order.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::new(self.listed()?)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(&name).to_owned());
            }
        }
        Ok(names)
    }

    /// Makes its entries survive a crash.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn sync(&self) -> io::Result<()> {
        File::from(self.listed()?).sync_all()
    }

    /// The folder, opened for more than lookups.
    fn listed(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.fd, ".", flags, Mode::empty())?)
    }

    /// Removes a file, or a link itself.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)
    }

    /// Moves a file to a name in another folder, over what has that name.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn rename(&self, name: &OsStr, to: &Self, new: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, name, &to.fd, new)?)
    }

    /// Moves a file to a name in another folder that nothing has yet. Where the kernel or the file system cannot do
    /// that in one step, the file gets a hard link of that name and loses its old one.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if something else has the name, else what the operating system says.
    pub fn rename_new(&self, name: &OsStr, to: &Self, new: &OsStr) -> io::Result<()> {
        let own = self.status(name);
        let Err(error) = self.rename_or_link(name, to, new) else {
            return Ok(());
        };
        // A network file system repeats a call whose response is lost. The second call finds that the new name exists,
        // or that the old one is gone, because the file has moved already.
        match (own, to.status(new)) {
            (Ok(own), Ok(new)) if (own.st_dev, own.st_ino) == (new.st_dev, new.st_ino) => {}
            _ => return Err(error.into()),
        }
        // A link leaves the old name.
        let _ = self.remove_file(name);
        Ok(())
    }

    fn rename_or_link(&self, name: &OsStr, to: &Self, new: &OsStr) -> rustix::io::Result<()> {
        #[cfg(any(target_os = "linux", target_os = "macos"))]
        {
            use rustix::fs::{RenameFlags, renameat_with};
            match renameat_with(&self.fd, name, &to.fd, new, RenameFlags::NOREPLACE) {
                Err(Errno::NOSYS | Errno::INVAL) => {}
                done => return done,
            }
        }
        rustix::fs::linkat(&self.fd, name, &to.fd, new, AtFlags::empty())?;
        // The file has its new name; the old one is a stray.
        let _ = self.remove_file(name);
        Ok(())
    }

    /// Opens a file without a name in this folder. None where it can have none, or where it could not be linked.
    #[must_use]
    pub fn unnamed_file(&self) -> Option<File> {
        #[cfg(target_os = "linux")]
        {
            let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
            let file = File::from(rustix::fs::openat(&self.fd, ".", flags, FILE_MODE).ok()?);
            descriptor(&file).try_exists().ok()?.then_some(file)
        }
        #[cfg(not(target_os = "linux"))]
        None
    }

    /// Gives an open file without a name one in this folder.
    ///
    /// # Errors
    /// As [`rename_new`](Self::rename_new).
    pub fn link(&self, file: &File, name: &OsStr) -> io::Result<()> {
        let (path, flags) = (descriptor(file), AtFlags::SYMLINK_FOLLOW);
        Ok(rustix::fs::linkat(CWD, path, &self.fd, name, flags)?)
    }
}

fn descriptor(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Removes a file below a root. A folder on the way that is a link is left alone.
///
/// # Errors
/// As [`Folder::open`].
pub fn remove_file(root: &Path, file: &Path) -> io::Result<()> {
    let (folder, name) = split(file)?;
    Folder::open(root, folder)?.remove_file(name)
}

/// The folder and the name of a path below a root.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] for a path without a name.
pub fn split(file: &Path) -> io::Result<(&Path, &OsStr)> {
    let name = file.file_name().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} names no file", file.display()),
        )
    })?;
    Ok((file.parent().unwrap_or(Path::new("")), name))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn listed(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_link_below_the_root_is_refused_at_any_depth() {
        let (table, victim) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(victim.path().join("c/d")).unwrap();
        fs::write(victim.path().join("c/d/old"), "rows").unwrap();
        fs::create_dir(table.path().join("a")).unwrap();
        symlink(victim.path(), table.path().join("a/b")).unwrap();
        symlink("a", table.path().join("inside")).unwrap();
        for below in ["a/b", "a/b/c", "a/b/c/d", "inside", "a/b/new"] {
            for open in [Folder::open, Folder::make] {
                let refused = open(table.path(), Path::new(below)).unwrap_err();
                assert!(is_linked(&refused), "{below}: {refused}");
            }
        }
        let refused = remove_file(table.path(), Path::new("a/b/c/d/old")).unwrap_err();
        assert!(
            refused.to_string().contains("a/b is a symbolic link"),
            "{refused}"
        );
        assert_eq!(listed(&victim.path().join("c/d")), ["old"]);
        assert_eq!(listed(victim.path()), ["c"]);
    }

    #[test]
    fn the_root_may_be_a_link() {
        let (real, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let link = beside.path().join("table");
        symlink(real.path(), &link).unwrap();
        let folder = Folder::make(&link, Path::new("a/b")).unwrap();
        folder.create(OsStr::new("file")).unwrap();
        assert_eq!(listed(&real.path().join("a/b")), ["file"]);
        remove_file(&link, Path::new("a/b/file")).unwrap();
        assert_eq!(listed(&real.path().join("a/b")), Vec::<String>::new());
    }

    #[test]
    fn an_open_folder_stays_itself_when_a_link_takes_its_name() {
        let (table, victim) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for folder in [table.path().join("a"), victim.path().to_path_buf()] {
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("old"), "rows").unwrap();
        }
        let folder = Folder::open(table.path(), Path::new("a")).unwrap();
        fs::rename(table.path().join("a"), table.path().join("moved")).unwrap();
        symlink(victim.path(), table.path().join("a")).unwrap();
        folder.remove_file(OsStr::new("old")).unwrap();
        folder.create(OsStr::new("new")).unwrap();
        assert_eq!(listed(victim.path()), ["old"]);
        assert_eq!(listed(&table.path().join("moved")), ["new"]);
    }

    #[test]
    fn files_and_their_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("kept");
        fs::write(&kept, "rows").unwrap();
        symlink(&kept, folder.path().join("link")).unwrap();
        symlink("missing", folder.path().join("dangling")).unwrap();
        let root = Folder::root(folder.path()).unwrap();
        for name in ["link", "dangling"] {
            let name = OsStr::new(name);
            let refused = root.create(name).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(root.modified(name).unwrap(), None);
            root.remove_file(name).unwrap();
        }
        assert!(root.modified(OsStr::new("kept")).unwrap().is_some());
        let gone = root.modified(OsStr::new("gone")).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
        assert_eq!(fs::read_to_string(kept).unwrap(), "rows");
        assert_eq!(root.names().unwrap(), ["kept"]);
    }

    #[test]
    fn a_name_that_cannot_be_looked_up_is_neither_there_nor_gone() {
        let folder = tempfile::tempdir().unwrap();
        symlink("missing", folder.path().join("dangling")).unwrap();
        fs::create_dir(folder.path().join("folder")).unwrap();
        let root = Folder::root(folder.path()).unwrap();
        for (name, there) in [("dangling", true), ("folder", true), ("gone", false)] {
            assert_eq!(root.has(name.as_ref()).unwrap(), there, "{name}");
        }
        root.has("x".repeat(256).as_ref()).unwrap_err();
    }

    #[test]
    fn a_repeated_rename_succeeds_unless_another_file_has_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let root = Folder::root(folder.path()).unwrap();
        for name in ["own", "taken"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        let refused = root
            .rename_new("own".as_ref(), &root, "taken".as_ref())
            .unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(listed(folder.path()), ["own", "taken"]);
        fs::hard_link(folder.path().join("own"), folder.path().join("new")).unwrap();
        root.rename_new("own".as_ref(), &root, "new".as_ref()).unwrap();
        assert_eq!(listed(folder.path()), ["new", "taken"]);
        assert_eq!(fs::read_to_string(folder.path().join("new")).unwrap(), "own");
        assert_eq!(fs::read_to_string(folder.path().join("taken")).unwrap(), "taken");
    }

    #[test]
    fn a_path_does_not_lead_out_of_its_root() {
        let folder = tempfile::tempdir().unwrap();
        for below in ["..", "a/../..", "/etc"] {
            let refused = Folder::open(folder.path(), Path::new(below)).unwrap_err();
            assert_ne!(refused.kind(), io::ErrorKind::Other, "{below}");
        }
    }
}
