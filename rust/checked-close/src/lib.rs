//! Closes a file and returns the error of `close(2)`, which dropping a [`File`] ignores.
//!
//! NFS, CIFS and FUSE file systems may report only there that earlier writes were lost: `EDQUOT`, `ENOSPC`, `EIO`.

use std::fs::File;
use std::io;

use nix::errno::Errno;

/// Closes the file. The descriptor is released whatever the result, so it is never closed twice.
///
/// # Errors
/// What `close(2)` says, except `EINTR`: Linux has closed the descriptor then.
pub fn close(file: File) -> io::Result<()> {
    match nix::unistd::close(file) {
        Err(Errno::EINTR) => Ok(()),
        closed => Ok(closed?),
    }
}

/// Has the file system report what `close(2)` would, and keeps the file open.
///
/// It closes a duplicate of the descriptor: the kernel flushes a file at the close of each of its descriptors.
///
/// # Errors
/// As [`close`], or when no further descriptor can be had.
pub fn try_close(file: &File) -> io::Result<()> {
    close(file.try_clone()?)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_that_only_tried_to_close_takes_more_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one").unwrap();
        try_close(&file).unwrap();
        file.write_all(b"two").unwrap();
        close(file).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"onetwo");
    }
}
