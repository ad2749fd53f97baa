//! A file that appears at its path only when it is complete.

use std::ffi::OsString;
use std::fs::{File, Metadata, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::unistd::geteuid;

use super::{HiddenFile, ReadBack, Sink, Unsynced};

/// The most symbolic links that are followed before a path counts as a loop, as on Linux.
const MOST_LINKS: usize = 40;
/// Bytes of the destination's name that the temporary one keeps, so that it stays below 255 in all.
const MOST_NAME: usize = 200;

/// The mode of a new file, before the umask.
const NEW_MODE: u32 = 0o666;
/// Read, write and execute, for the owner, the group and others.
const PERMISSIONS: u32 = 0o777;
/// The mode of a folder such as `/tmp`: sticky, and writable for others.
const FOR_ALL_USERS: u32 = 0o1002;
/// The permissions of the group.
const GROUP: u32 = 0o070;

/// A hidden sibling of the destination, renamed over it at the end.
pub struct AtomicFile {
    hidden: HiddenFile,
    destination: PathBuf,
    durable: bool,
}

impl AtomicFile {
    /// Makes the temporary sibling of `destination`, which must not be a symbolic link (see `resolve`). It gets the
    /// mode of the file that it replaces, and its owner and group where the operating system permits that.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn create(destination: &Path, durable: bool) -> io::Result<Self> {
        let replaced = match std::fs::metadata(destination) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let name = destination
            .file_name()
            .ok_or_else(|| io::Error::from(io::ErrorKind::IsADirectory))?;
        let mut prefix = vec![b'.'];
        prefix.extend(name.as_bytes().iter().take(MOST_NAME));
        prefix.push(b'.');
        let temporary = tempfile::Builder::new()
            .prefix(&OsString::from_vec(prefix))
            .suffix(".tmp")
            // Private until `inherit` sets the mode: whoever may not read the old file may not read the new one.
            .permissions(Permissions::from_mode(
                replaced.as_ref().map_or(NEW_MODE, |_| 0o600),
            ))
            .tempfile_in(directory(destination))?;
        if let Some(replaced) = replaced {
            inherit(temporary.as_file(), &replaced)?;
        }
        Ok(Self {
            hidden: HiddenFile::new(temporary),
            destination: destination.to_path_buf(),
            durable,
        })
    }

    fn settle(&mut self) -> io::Result<()> {
        // A power cut must not take both the old file and the new one: a file system may keep the rename and lose the
        // bytes that were renamed.
        let replaces = || std::fs::symlink_metadata(&self.destination).is_ok();
        self.hidden.settle(self.durable || replaces())
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hidden.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hidden.flush()
    }
}

impl Sink for AtomicFile {
    fn commit(&mut self) -> io::Result<()> {
        self.settle()?;
        if let Some(hidden) = self.hidden.close()? {
            hidden.persist(&self.destination)?;
        }
        if self.durable {
            let folder = File::open(directory(&self.destination));
            folder
                .and_then(|folder| folder.sync_all())
                .map_err(Unsynced::after)?;
        }
        Ok(())
    }

    fn discard(&mut self) {
        self.hidden.discard();
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.destination)
    }

    fn spill_directory(&self) -> Option<PathBuf> {
        Some(directory(&self.destination).to_path_buf())
    }

    fn unreadable(&self) -> Option<&'static str> {
        None
    }

    fn read_back(&mut self) -> io::Result<Arc<dyn ReadBack>> {
        self.settle()?;
        self.hidden.read_back()
    }
}

/// Gives `file` the owner, the group and the mode of the file that it replaces, in this order: the operating system
/// takes bits of the mode away when the owner changes. Only root may give a file to another user, and only members may
/// give one to a group; neither is an error.
///
/// # Errors
/// What the operating system says when it refuses the mode.
fn inherit(file: &File, replaced: &Metadata) -> io::Result<()> {
    let new = file.metadata()?;
    if new.uid() != replaced.uid() {
        let _ = fchown(file, Some(replaced.uid()), None);
    }
    let has_group = new.gid() == replaced.gid() || fchown(file, None, Some(replaced.gid())).is_ok();
    let mode = replaced.mode() & PERMISSIONS;
    let mode = if has_group { mode } else { for_another_group(mode) };
    // A file system without modes of its own has the same one for all files, and may refuse to set it.
    if file.metadata()?.mode() & PERMISSIONS == mode {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(mode))
}

/// The mode where the group is another one than before: that group may do no more than others may.
fn for_another_group(mode: u32) -> u32 {
    mode & !GROUP | mode & (mode << 3) & GROUP
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The path at the end of the symbolic links that start at `path`, whether something is there or not.
///
/// A relative path becomes absolute, so that a later change of directory does not move the destination.
///
/// # Errors
/// What the operating system says, that the links never end, or `EACCES` for a link that somebody else has put into a
/// folder like `/tmp`. Linux refuses to follow those, too (`fs.protected_symlinks`), but follows none here.
pub(super) fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut path = std::path::absolute(path)?;
    for _ in 0..MOST_LINKS {
        match std::fs::read_link(&path) {
            Ok(_) if is_foreign(&path)? => return Err(io::ErrorKind::PermissionDenied.into()),
            Ok(target) => path = directory(&path).join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::from_raw_os_error(40))
}

/// Returns true for a link that [`is_planted`].
///
/// # Errors
/// What the operating system says.
fn is_foreign(link: &Path) -> io::Result<bool> {
    let owner = std::fs::symlink_metadata(link)?.uid();
    let folder = std::fs::metadata(directory(link))?;
    Ok(is_planted(owner, folder.uid(), folder.mode(), geteuid().as_raw()))
}

/// Returns true for a link in a folder where all users make files (sticky, and writable for others), if it belongs
/// neither to the user `me` nor to the folder's owner.
fn is_planted(link_uid: u32, folder_uid: u32, folder_mode: u32, me: u32) -> bool {
    let is_for_all = folder_mode & FOR_ALL_USERS == FOR_ALL_USERS;
    is_for_all && link_uid != folder_uid && link_uid != me
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_group_may_do_what_both_the_old_one_and_others_may() {
        for mode in 0..=PERMISSIONS {
            let new = for_another_group(mode);
            assert_eq!((new >> 3) & 7, (mode >> 3) & mode & 7, "{mode:o}");
            assert_eq!(new & !GROUP, mode & !GROUP, "{mode:o}");
        }
    }

    #[test]
    fn a_link_of_a_third_user_in_a_folder_for_all_is_planted() {
        let (me, owner, other) = (1000, 1001, 1002);
        for folder_mode in [0o755, 0o777, 0o1755, 0o1777] {
            let is_for_all = folder_mode & 0o1777 == 0o1777;
            assert_eq!(
                is_planted(other, owner, folder_mode, me),
                is_for_all,
                "{folder_mode:o}"
            );
            assert!(!is_planted(me, owner, folder_mode, me), "{folder_mode:o}");
            assert!(!is_planted(owner, owner, folder_mode, me), "{folder_mode:o}");
            // Root's own folder, and root as the writer.
            assert_eq!(
                is_planted(other, 0, folder_mode, 0),
                is_for_all,
                "{folder_mode:o}"
            );
        }
    }
}
