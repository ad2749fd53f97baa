//! Publishing: moves staged files to their names, all of them or none.
//!
//! A failure half-way is undone. A process that is killed half-way leaves the files that it has moved: a folder of
//! files has no single name to switch. The window is that of a few renames, because everything slow was done before.
//! Of files that replace others, the new ones are moved first, to free names, and the old ones are removed last. So
//! readers see all of the old rows until all of the new ones are there, and rows of both for an instant. For that to
//! hold in a power cut, what replaces files is synced before they are removed, also where nobody asked for `durable`
//! files.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use beneath::Folder;
use parquet_writer::{METADATA_FILE, WriteError, WriteResult, metadata_file};

use crate::options::DatasetMode;
use crate::staging::Staging;
use crate::table_formats::{check_no_table, format_by, table_below};
use crate::template::{SUFFIX, Template};

/// The name of a file with the schema of a dataset alone, as parquet-java and pyarrow write it.
pub const COMMON_METADATA_FILE: &str = "_common_metadata";

/// How often a folder is made that another writer removes.
const MOST_TRIES: usize = 100;

/// The most files that are synced at a time.
const MOST_SYNCING: usize = 16;

/// A file that is finished.
#[derive(Debug)]
pub(crate) struct Staged<'a> {
    /// The path of the staged file.
    pub from: &'a Path,
    /// Its folder below the dataset's own.
    pub folder: &'a Path,
    /// The result of its writer.
    pub result: &'a WriteResult,
}

/// The facts about the dataset that publishing needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PublishTarget<'a> {
    pub root: &'a Path,
    pub template: &'a Template,
    pub mode: DatasetMode,
    pub metadata_file: bool,
    pub durable: bool,
}

/// Refuses a folder that the dataset must not be written to.
///
/// # Errors
/// [`WriteError::Io`] when there is something in it and `mode` is `error`; [`WriteError::Option`] for a table whose log
/// knows its files by name, such as a Delta table, and for a partition's folder in one, for an overwrite of a folder
/// with such tables below it, and for files beside a `_metadata` that would not list them.
pub(crate) fn check_folder(target: PublishTarget<'_>) -> Result<(), WriteError> {
    let with_path = |error| WriteError::io(target.root, error);
    check_no_table(target.root)?;
    let entries = match fs::read_dir(target.root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(with_path)?,
    };
    for entry in entries {
        let name = entry.map_err(with_path)?.file_name();
        if target.mode == DatasetMode::Append && name == METADATA_FILE {
            return Err(WriteError::option("mode", unlisted(&target.root.join(name))));
        }
        let hidden = name.as_encoded_bytes().first() == Some(&b'.');
        if target.mode == DatasetMode::Error && !hidden {
            return Err(with_path(io::Error::from(io::ErrorKind::AlreadyExists)));
        }
    }
    if target.mode == DatasetMode::Overwrite {
        data_files(target.root)?;
    }
    Ok(())
}

/// The reason why no files are added to a folder with `_metadata`, which is at `place`.
#[must_use]
pub fn unlisted(place: &Path) -> String {
    format!(
        "{} lists the files that are there, and readers that go by it would miss new ones: delete it first, or choose \
         mode=\"overwrite\"",
        place.display()
    )
}

/// Moves all files to their names, and returns those in the order of `files`.
///
/// # Errors
/// [`WriteError::Io`] with the path it was about; everything is as it was before then, unless the message says where
/// old files are that could not be moved back.
pub(crate) fn publish(
    files: &[Staged<'_>],
    target: PublishTarget<'_>,
    staging: &mut Staging,
) -> Result<Vec<PathBuf>, WriteError> {
    let mut moves = Moves {
        root: target.root,
        made_root: staging.made_folder(),
        template: target.template,
        done: Vec::new(),
        next_numbers: HashMap::new(),
    };
    match moves.all(files, target, staging) {
        Ok(paths) => {
            let emptied = moves.old_folders(target.root);
            moves.done.clear();
            for folder in emptied {
                // A folder that still holds something stays.
                let _ = moves.remove_folder(&folder);
            }
            Ok(paths)
        }
        Err(error) => {
            if moves.undo() {
                return Err(error);
            }
            Err(stranded(&error, &staging.keep()))
        }
    }
}

/// The error of files that were moved out of sight and could not be moved back.
fn stranded(error: &WriteError, hidden: &Path) -> WriteError {
    WriteError::Io {
        path: Some(hidden.to_path_buf()),
        source: io::Error::other(format!(
            "files that were to be replaced are in this folder, and could not be moved back: move them where they were, \
             or write the rows again; new files may be there already. The cause: {error}"
        )),
    }
}

enum Move {
    MadeFolder(PathBuf),
    Published(PathBuf),
    SetAside { from: PathBuf, to: PathBuf },
}

/// The moves made so far, so that they can be undone.
struct Moves<'a> {
    root: &'a Path,
    /// True if the root is a new entry of the folder above.
    made_root: bool,
    template: &'a Template,
    done: Vec<Move>,
    next_numbers: HashMap<PathBuf, u64>,
}

impl Moves<'_> {
    fn all(
        &mut self,
        files: &[Staged<'_>],
        target: PublishTarget<'_>,
        staging: &mut Staging,
    ) -> Result<Vec<PathBuf>, WriteError> {
        let (old, summaries) = match target.mode {
            DatasetMode::Error | DatasetMode::Append => {
                // Again, because somebody else may have been quicker.
                check_folder(target)?;
                (Vec::new(), Vec::new())
            }
            DatasetMode::Overwrite => (data_files(target.root)?, summaries(target.root)),
        };
        let replaces = !old.is_empty() || !summaries.is_empty();
        if replaces && !target.durable {
            sync_staged(files, target.root)?;
        }
        let target = PublishTarget {
            durable: target.durable || replaces,
            ..target
        };
        let paths = files
            .iter()
            .map(|file| outlasting(file.from, || self.place(file.from, file.folder, target)))
            .collect::<Result<Vec<_>, _>>()?;
        if target.durable {
            // Before an old file goes, the new ones are there to stay.
            self.sync(target.root)?;
        }
        let resummarises = !summaries.is_empty() || target.metadata_file;
        let changes = !old.is_empty() || resummarises;
        for file in summaries {
            self.set_aside(&file, staging)?;
        }
        if target.metadata_file {
            self.place_metadata(files, &paths, target, staging)?;
        }
        if target.durable && resummarises && !old.is_empty() {
            self.sync(target.root)?;
        }
        // No longer listed anywhere.
        for file in old {
            self.set_aside(&file, staging)?;
        }
        if target.durable && changes {
            self.sync(target.root)?;
        }
        Ok(paths)
    }

    /// Moves a data file out of sight.
    fn set_aside(&mut self, from: &Path, staging: &mut Staging) -> Result<(), WriteError> {
        let with_path = |error| WriteError::io(from, error);
        let to = staging.next_path().map_err(with_path)?;
        let renamed = self.rename(from, &to);
        // A rename that failed may have moved the file: a response can be lost. NFS repeats the call then, which finds
        // the file gone. Undoing a rename that did not happen is a no-op.
        self.done.push(Move::SetAside {
            from: from.to_path_buf(),
            to,
        });
        match renamed {
            // Somebody else has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            renamed => renamed.map_err(with_path),
        }
    }

    /// Moves a staged file to a folder below the root.
    fn place(
        &mut self,
        staged: &Path,
        below: &Path,
        target: PublishTarget<'_>,
    ) -> Result<PathBuf, WriteError> {
        let folder = target.root.join(below);
        let inner = self.make_folders(target.root, below)?;
        let mut number = match self.next_numbers.get(&folder) {
            Some(next) => *next,
            None if target.mode == DatasetMode::Error => 0,
            None => next_number(&folder, target.template)?,
        };
        let (from, name_there) = opened(self.root, staged).map_err(|error| WriteError::io(&folder, error))?;
        let path = loop {
            let name = target.template.name(number);
            let path = folder.join(&name);
            let next = number.checked_add(1);
            match (self.rename_new(&from, name_there, &inner, name.as_ref()), next) {
                (Ok(()), next) => {
                    self.next_numbers.insert(folder, next.unwrap_or(number));
                    break path;
                }
                // Another writer is about and took the number.
                (Err(error), Some(next))
                    if error.kind() == io::ErrorKind::AlreadyExists && target.mode != DatasetMode::Error =>
                {
                    number = next;
                }
                (Err(error), _) => return Err(WriteError::io(path, error)),
            }
        };
        Ok(path)
    }

    /// Puts `_metadata` in the folder of the dataset, for files that are at `paths`.
    fn place_metadata(
        &mut self,
        files: &[Staged<'_>],
        paths: &[PathBuf],
        target: PublishTarget<'_>,
        staging: &mut Staging,
    ) -> Result<(), WriteError> {
        let listed = files.iter().zip(paths).map(|(file, path)| {
            let relative = path.strip_prefix(target.root).ok()?.to_str()?;
            Some((relative, file.result))
        });
        let listed: Option<Vec<_>> = listed.collect();
        let listed = listed.ok_or_else(|| WriteError::schema("the name of a partition is not UTF-8"))?;
        let Some(bytes) = metadata_file(listed)? else {
            return Ok(());
        };
        let place = target.root.join(METADATA_FILE);
        let staged = staging
            .next_path()
            .map_err(|error| WriteError::io(&place, error))?;
        let written = (|| {
            let mut file = File::create_new(&staged)?;
            file.write_all(&bytes)?;
            if target.durable {
                file.sync_all()?;
            }
            checked_close::close(file)?;
            Ok(())
        })();
        written.map_err(|error| WriteError::io(&place, error))?;
        let (from, name) = opened(self.root, &staged).map_err(|error| WriteError::io(&place, error))?;
        let to = Folder::root(target.root).map_err(|error| WriteError::io(&place, error))?;
        self.rename_new(&from, name, &to, METADATA_FILE.as_ref())
            .map_err(|error| WriteError::io(&place, error))
    }

    /// Publishes a staged file at a name that nothing has yet.
    fn rename_new(&mut self, from: &Folder, staged: &OsStr, to: &Folder, name: &OsStr) -> io::Result<()> {
        let renamed = from.rename_new(staged, to, name);
        let took_effect = match &renamed {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            // The staged name is gone, so the rename took effect despite the error: another writer would have left our
            // file there.
            Err(_) => matches!(from.has(staged), Ok(false)),
        };
        if took_effect {
            self.done.push(Move::Published(to.path().join(name)));
        }
        renamed
    }

    /// Opens a folder of the dataset, and makes those that are missing. Links are refused: what they lead to belongs to
    /// somebody else.
    fn make_folders(&mut self, root: &Path, below: &Path) -> Result<Folder, WriteError> {
        let mut folder = Folder::root(root).map_err(|error| WriteError::io(root, error))?;
        for name in below {
            let path = folder.path().join(name);
            let with_path = |error| WriteError::io(&path, error);
            if folder.make_folder(name).map_err(with_path)? {
                self.done.push(Move::MadeFolder(path.clone()));
            }
            folder = folder.enter(name).map_err(with_path)?;
        }
        Ok(folder)
    }

    /// Syncs every folder that got an entry or lost one. One that only lost files may be gone: another overwrite
    /// removes empty folders.
    fn sync(&self, root: &Path) -> Result<(), WriteError> {
        let mut folders = BTreeMap::from([(root, true)]);
        if self.made_root {
            folders.extend(root.parent().map(|above| (above, true)));
        }
        for done in &self.done {
            let (path, has_new) = match done {
                Move::MadeFolder(path) | Move::Published(path) => (path, true),
                Move::SetAside { from, .. } => (from, false),
            };
            if let Some(folder) = path.parent() {
                *folders.entry(folder).or_default() |= has_new;
            }
        }
        for (folder, must_exist) in folders {
            match File::open(folder).and_then(|folder| folder.sync_all()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && !must_exist => {}
                synced => synced.map_err(|error| WriteError::io(folder, error))?,
            }
        }
        Ok(())
    }

    /// The folders below `root` that lost files, the deepest first.
    fn old_folders(&self, root: &Path) -> Vec<PathBuf> {
        let mut folders = BTreeSet::new();
        for done in &self.done {
            if let Move::SetAside { from, .. } = done {
                let above = from.ancestors().skip(1).take_while(|folder| *folder != root);
                folders.extend(above.map(Path::to_path_buf));
            }
        }
        folders.into_iter().rev().collect()
    }

    /// Undoes all moves, the last one first. Returns false if a file that was moved out of sight is still there; what
    /// was published stays then, since it may be the only copy of its rows.
    fn undo(&mut self) -> bool {
        let mut all_back = true;
        while let Some(done) = self.done.pop() {
            // What else cannot be undone stays, since there is nobody to report it to.
            let _ = match done {
                Move::SetAside { from, to } => {
                    all_back &= self.put_back(&to, &from);
                    Ok(())
                }
                _ if !all_back => Ok(()),
                Move::MadeFolder(path) => self.remove_folder(&path),
                Move::Published(path) => self.remove_file(&path),
            };
        }
        all_back
    }

    /// Moves a file back to its place, whose folder another overwrite may have removed while it was empty. Returns
    /// false if the file is still aside.
    fn put_back(&mut self, aside: &Path, place: &Path) -> bool {
        let root = self.root;
        for _ in 0..MOST_TRIES {
            let back = self.move_back(aside, place);
            let kind = back.err().map(|error| error.kind());
            // The move out of sight may not have happened, and this one have happened with an error. A summary of
            // another writer's stays.
            if matches!(fs::exists(aside), Ok(false)) || kind == Some(io::ErrorKind::AlreadyExists) {
                return true;
            }
            let below = place.parent().and_then(|folder| folder.strip_prefix(root).ok());
            if kind != Some(io::ErrorKind::NotFound)
                || below.is_none_or(|below| self.make_folders(root, below).is_err())
            {
                return false;
            }
        }
        false
    }

    /// A data file gets another number if another writer has taken its name.
    fn move_back(&self, aside: &Path, place: &Path) -> io::Result<()> {
        let ((old, name), (folder, own)) = (opened(self.root, aside)?, opened(self.root, place)?);
        let is_data = own.as_encoded_bytes().ends_with(SUFFIX.as_bytes());
        let mut renamed = old.rename_new(name, &folder, own);
        let mut number = 0;
        while is_data && matches!(&renamed, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
            renamed = old.rename_new(name, &folder, self.template.name(number).as_ref());
            number += 1;
        }
        renamed
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ((old, name), (new, new_name)) = (opened(self.root, from)?, opened(self.root, to)?);
        old.rename(name, &new, new_name)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = opened(self.root, path)?;
        folder.remove_file(name)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = opened(self.root, path)?;
        folder.remove_folder(name)
    }
}

/// Places a staged file once more where another writer's overwrite has removed its folder while it was empty.
fn outlasting(
    staged: &Path,
    mut place: impl FnMut() -> Result<PathBuf, WriteError>,
) -> Result<PathBuf, WriteError> {
    let mut tries = 0;
    loop {
        match place() {
            Err(WriteError::Io { source, .. })
                if source.kind() == io::ErrorKind::NotFound && tries < MOST_TRIES && staged.exists() =>
            {
                tries += 1;
            }
            placed => return placed,
        }
    }
}

/// Syncs staged files, several at a time: each may wait for the disk.
fn sync_staged(files: &[Staged<'_>], root: &Path) -> Result<(), WriteError> {
    let next = AtomicUsize::new(0);
    let sync_some = || {
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let synced = File::open(file.from).and_then(|staged| staged.sync_all());
            synced.map_err(|error| WriteError::io(root.join(file.folder), error))?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let more = files.len().min(MOST_SYNCING).saturating_sub(1);
        let build = || thread::Builder::new().spawn_scoped(scope, sync_some);
        // Without another thread, this one syncs all.
        let others: Vec<_> = (0..more).map_while(|_| build().ok()).collect();
        let own = sync_some();
        let ended = others.into_iter().map(|other| {
            let panicked = |_| {
                Err(WriteError::io(
                    "",
                    io::Error::other("a thread that syncs files panicked"),
                ))
            };
            other.join().unwrap_or_else(panicked)
        });
        ended.fold(own, Result::and)
    })
}

/// The open folder of a path below the root, and its name in it.
fn opened<'a>(root: &Path, path: &'a Path) -> io::Result<(Folder, &'a OsStr)> {
    let below = path.strip_prefix(root).map_err(io::Error::other)?;
    let (folder, name) = beneath::split(below)?;
    Ok((Folder::open(root, folder)?, name))
}

/// Files that summarise those of `root`, whoever wrote them: they list files that go, or have their schema.
fn summaries(root: &Path) -> Vec<PathBuf> {
    let places = [METADATA_FILE, COMMON_METADATA_FILE].map(|name| root.join(name));
    let is_file = |place: &PathBuf| fs::symlink_metadata(place).is_ok_and(|found| found.is_file());
    places.into_iter().filter(is_file).collect()
}

/// The number after the highest in the folder.
fn next_number(folder: &Path, template: &Template) -> Result<u64, WriteError> {
    let with_path = |error| WriteError::io(folder, error);
    let mut next = 0;
    for entry in fs::read_dir(folder).map_err(with_path)? {
        let name = entry.map_err(with_path)?.file_name();
        if let Some(number) = name.to_str().and_then(|name| template.number(name)) {
            next = next.max(number.saturating_add(1));
        }
    }
    Ok(next)
}

/// Returns true for a name that readers pass over: it begins with a dot or an underscore. The folder of a partition
/// does not hide its files, whatever the name of its column.
#[must_use]
pub fn is_hidden(name: &[u8], is_folder: bool) -> bool {
    name.starts_with(b".") || (name.starts_with(b"_") && !(is_folder && name.contains(&b'=')))
}

/// Every data file below `root`, by the rule of [`is_hidden`].
///
/// # Errors
/// [`WriteError::Option`] for a folder with a table below it whose log knows its files by name.
fn data_files(root: &Path) -> Result<Vec<PathBuf>, WriteError> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let with_path = |error| WriteError::io(&folder, error);
        let entries = match fs::read_dir(&folder) {
            // Another overwrite has removed its files since, and then the folder.
            Err(error) if error.kind() == io::ErrorKind::NotFound && folder != root => continue,
            entries => entries.map_err(with_path)?,
        };
        for entry in entries {
            let entry = entry.map_err(with_path)?;
            let name = entry.file_name();
            let bytes = name.as_encoded_bytes();
            let format = format_by(&folder, &name.to_string_lossy()).map_err(with_path)?;
            if let Some(format) = format {
                return Err(table_below(&folder.display(), format, &root.display()));
            }
            // Symbolic links are neither: what they lead to belongs to somebody else.
            let kind = entry.file_type().map_err(with_path)?;
            if is_hidden(bytes, kind.is_dir()) {
                continue;
            }
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && bytes.ends_with(SUFFIX.as_bytes()) {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn moves<'a>(root: &'a Path, template: &'a Template) -> Moves<'a> {
        Moves {
            root,
            made_root: false,
            template,
            done: Vec::new(),
            next_numbers: HashMap::new(),
        }
    }

    #[test]
    fn an_append_outlives_overwrites_that_remove_its_folder_while_it_is_empty() {
        let root = tempfile::tempdir().unwrap();
        let template = Template::parse("part-{i}.parquet").unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let _ = fs::remove_dir(root.path().join("day=1"));
                    let _ = data_files(root.path()).unwrap();
                }
            });
            for number in 0..200 {
                let from = root.path().join(format!("staged-{number}"));
                fs::write(&from, "rows").unwrap();
                let target = PublishTarget {
                    root: root.path(),
                    template: &template,
                    mode: DatasetMode::Append,
                    metadata_file: false,
                    durable: false,
                };
                let folder = Path::new("day=1");
                let placed = outlasting(&from, || {
                    moves(root.path(), &template).place(&from, folder, target)
                });
                fs::remove_file(placed.unwrap()).unwrap();
            }
            stop.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn undo_leaves_the_file_of_another_writer_that_took_the_name() {
        let root = tempfile::tempdir().unwrap();
        let theirs = root.path().join("part-0.parquet");
        fs::write(&theirs, "theirs").unwrap();
        // A staged file that cannot be opened, as without a free descriptor.
        symlink("missing", root.path().join("staged")).unwrap();
        let template = Template::parse("part-{i}.parquet").unwrap();
        let mut moves = moves(root.path(), &template);
        let folder = Folder::root(root.path()).unwrap();
        let name = theirs.file_name().unwrap();
        let refused = moves
            .rename_new(&folder, "staged".as_ref(), &folder, name)
            .unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert!(moves.undo());
        assert_eq!(fs::read_to_string(theirs).unwrap(), "theirs");
    }

    /// A dataset of one old file that was moved out of sight, whose folder is gone since, and of a new one.
    fn half_overwritten<'a>(root: &'a Path, template: &'a Template) -> Moves<'a> {
        for name in ["aside", "part-0.parquet"] {
            fs::write(root.join(name), name).unwrap();
        }
        let mut moves = moves(root, template);
        moves.done = vec![
            Move::Published(root.join("part-0.parquet")),
            Move::SetAside {
                from: root.join("day=1/part-9.parquet"),
                to: root.join("aside"),
            },
        ];
        moves
    }

    #[test]
    fn undo_makes_a_folder_anew_that_another_overwrite_removed() {
        let root = tempfile::tempdir().unwrap();
        let template = Template::parse("part-{i}.parquet").unwrap();
        assert!(half_overwritten(root.path(), &template).undo());
        let old = fs::read_to_string(root.path().join("day=1/part-9.parquet")).unwrap();
        assert_eq!(old, "aside");
        assert!(!root.path().join("part-0.parquet").exists());
    }

    #[test]
    fn undo_removes_nothing_more_once_an_old_file_cannot_be_moved_back() {
        let root = tempfile::tempdir().unwrap();
        let template = Template::parse("part-{i}.parquet").unwrap();
        fs::write(root.path().join("day=1"), "no folder").unwrap();
        assert!(!half_overwritten(root.path(), &template).undo());
        assert!(root.path().join("aside").exists());
        assert!(root.path().join("part-0.parquet").exists());
    }

    #[test]
    fn undo_keeps_old_files_and_those_of_another_writer() {
        let root = tempfile::tempdir().unwrap();
        let in_root = |name: &str| root.path().join(name);
        let template = Template::parse("part-{i}.parquet").unwrap();
        let mut moves = moves(root.path(), &template);
        for name in ["part-0.parquet", METADATA_FILE] {
            let aside = in_root(&format!(".aside-{name}"));
            fs::write(&aside, "old").unwrap();
            fs::write(in_root(name), "theirs").unwrap();
            moves.done.push(Move::SetAside {
                from: in_root(name),
                to: aside,
            });
        }
        assert!(moves.undo());
        let read = |name| fs::read_to_string(in_root(name)).unwrap();
        assert_eq!(read("part-0.parquet"), "theirs");
        assert_eq!(read(METADATA_FILE), "theirs");
        assert_eq!(read("part-1.parquet"), "old");
    }
}
