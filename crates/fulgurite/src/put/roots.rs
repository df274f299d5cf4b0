//! What a put stores: the given paths, their names in the archive, and the walk below them.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, bail};
use fulgurite_archive::Source;
use fulgurite_archive::reserved::{RESERVED_FOLDER, is_reserved};
use fulgurite_archive::watch::{Trouble, Watcher};
use fulgurite_domain::ObjectName;
use walkdir::{DirEntry, WalkDir};

use crate::args::Put;
use crate::list::trimmed;
use crate::text;

/// A path on the command line, with its name in the archive.
pub(super) enum Root {
    StandardInput(ObjectName),
    /// A file or folder; the name is empty for a folder whose content goes to the top of the
    /// archive.
    Path(PathBuf, Vec<u8>),
}

impl Root {
    fn name(&self) -> &[u8] {
        match self {
            Self::StandardInput(name) => &name.0,
            Self::Path(_, name) => name,
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::StandardInput(_) => Path::new("-"),
            Self::Path(path, _) => path,
        }
    }
}

/// The paths of a put with their names, checked: names can be restored, aren't reserved, and don't
/// clash.
pub(super) fn roots(put: &Put) -> Result<Vec<Root>> {
    if put.name.is_some() && put.paths.len() > 1 {
        bail!("--name accepts one path, but {} were given; --to stores several under a folder", put.paths.len());
    }
    let folder = match &put.to {
        Some(folder) if !trimmed(folder.as_bytes()).is_empty() => check_name(trimmed(folder.as_bytes()))?,
        _ => b"",
    };
    let join_folder = |name: &OsStr| if folder.is_empty() { name.as_bytes().to_vec() } else { [folder, name.as_bytes()].join(&b"/"[..]) };
    let root = |path: &PathBuf| -> Result<Root> {
        let is_input = path.as_os_str() == "-";
        let name = match (&put.name, path.file_name()) {
            (Some(name), _) => check_name(trimmed(name.as_bytes()))?.to_vec(),
            (None, _) if is_input => bail!("standard input needs a name: --name NAME"),
            (None, Some(name)) => join_folder(name),
            // `.` and `..`, for example, mean the content of that folder.
            (None, None) => folder.to_vec(),
        };
        let name = check_reserved(name)?;
        Ok(if is_input { Root::StandardInput(ObjectName(name)) } else { Root::Path(path.clone(), name) })
    };
    let roots: Vec<Root> = put.paths.iter().map(root).collect::<Result<_>>()?;
    refuse_clashes(&roots)?;
    Ok(roots)
}

/// Rejects names that could not be restored later.
fn check_name(name: &[u8]) -> Result<&[u8]> {
    let bad = |part: &[u8]| part.is_empty() || part == b"." || part == b"..";
    if name.split(|&byte| byte == b'/').any(bad) {
        bail!("invalid name {}: its parts must not be empty, . or ..", ObjectName(name.to_vec()).display());
    }
    Ok(name)
}

/// A name for objects, checked: it can be restored and isn't reserved.
pub(crate) fn storable_name(name: &[u8]) -> Result<Vec<u8>> {
    check_reserved(check_name(trimmed(name))?.to_vec())
}

fn check_reserved(name: Vec<u8>) -> Result<Vec<u8>> {
    if is_reserved(&ObjectName(name.clone())) {
        bail!("can't put {}: names below {RESERVED_FOLDER} are reserved for the archive", ObjectName(name).display());
    }
    Ok(name)
}

/// Rejects two paths that would be stored under one name: one would silently become a version of
/// the other.
fn refuse_clashes(roots: &[Root]) -> Result<()> {
    let mut paths: HashMap<&[u8], &Path> = HashMap::new();
    for root in roots {
        if let Some(other) = paths.insert(root.name(), root.path()) {
            return Err(clash(other, root.path(), root.name()));
        }
    }
    // A folder among the paths may contain something that would be stored under the name of another
    // path: look in each folder whose name is the beginning of that name.
    for root in roots {
        let name = root.name();
        let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| (at, at + 1));
        for (end, below) in std::iter::once((0, 0)).filter(|_| !name.is_empty()).chain(slashes) {
            let Some(folder) = paths.get(&name[..end]) else { continue };
            let same = folder.join(OsStr::from_bytes(&name[below..]));
            if folder.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) && same.symlink_metadata().is_ok() {
                return Err(clash(&same, root.path(), name));
            }
        }
    }
    Ok(())
}

fn clash(one: &Path, other: &Path, name: &[u8]) -> anyhow::Error {
    let name = ObjectName(name.to_vec()).display();
    anyhow::anyhow!(
        "{} and {} would both be stored as {}. To keep them apart, put each with its own --to or --name; to merge them, put one \
         after the other",
        text::path(one),
        text::path(other),
        if name.is_empty() { "the top of the archive" } else { &name }
    )
}

/// Walks everything below a path. A symbolic link given as the path is stored as a link, but with
/// `/.` or `/` at its end it means the folder.
pub(super) fn walker(root: &Path, put: &Put) -> WalkDir {
    WalkDir::new(root).follow_links(false).follow_root_links(false).same_file_system(put.one_file_system)
}

/// True if an entry is stored itself. A folder exists through the names of its content, so only an
/// empty one needs an object of its own.
pub(crate) fn is_leaf(entry: &DirEntry) -> bool {
    !entry.file_type().is_dir() || std::fs::read_dir(entry.path()).is_ok_and(|mut entries| entries.next().is_none())
}

/// The sources below `root`, whose name in the archive is `name`. Skips the archive's `own`
/// folders. Paths that can't be stored are reported to `watcher` and counted in `failed`.
pub(super) fn walk<'a>(
    walker: WalkDir,
    root: PathBuf,
    name: Vec<u8>,
    own: &'a HashSet<PathBuf>,
    watcher: &'a (dyn Watcher + 'a),
    failed: &'a AtomicU64,
) -> impl Iterator<Item = Source> + Send + 'a {
    let entries = walker.sort_by_file_name().into_iter();
    let is_top = name.is_empty();
    let entries = entries.filter_entry(move |entry| {
        if is_top && entry.depth() == 1 && entry.file_name() == RESERVED_FOLDER {
            failed.fetch_add(1, Ordering::Relaxed);
            watcher.trouble(Trouble::Unreadable { path: entry.path(), why: "its name is reserved for the archive" });
            return false;
        }
        let is_own = entry.file_type().is_dir() && entry.path().canonicalize().is_ok_and(|path| own.contains(&path));
        if is_own {
            let text = format!("{} belongs to this archive and is not stored in it", entry.path().display());
            watcher.trouble(Trouble::Note(&text));
        }
        !is_own
    });
    entries.filter_map(move |entry| {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                failed.fetch_add(1, Ordering::Relaxed);
                let path = error.path().unwrap_or(Path::new("?")).to_owned();
                let why = error.into_io_error().map_or_else(|| "a loop of links".to_owned(), |error| error.to_string());
                watcher.trouble(Trouble::Unreadable { path: &path, why: &why });
                return None;
            }
        };
        let below = entry.path().strip_prefix(&root).unwrap_or(Path::new(""));
        let parts = [&name[..], below.as_os_str().as_bytes()];
        let name = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(&b'/');
        if name.is_empty() || !is_leaf(&entry) {
            return None;
        }
        Some(Source::Path { path: entry.into_path(), name: ObjectName(name) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_not_be_restored_are_refused() {
        for name in [&b""[..], b"a//b", b"../x", b"a/./b"] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        assert_eq!(check_name(trimmed(b"/a/b/")).ok(), Some(&b"a/b"[..]));
    }

    #[test]
    fn paths_clash_if_both_would_become_one_object() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |path: &str| folder.path().join(path);
        std::fs::create_dir_all(at("one/x")).expect("folders");
        std::fs::write(at("one/x/y"), b"1").expect("written");
        let clashes = |roots: &[(&str, &str)]| {
            let roots: Vec<Root> = roots.iter().map(|(path, name)| Root::Path(at(path), name.as_bytes().to_vec())).collect();
            refuse_clashes(&roots).is_err()
        };
        assert!(clashes(&[("a", "x"), ("b", "x")]));
        assert!(clashes(&[("one/.", ""), ("other", "x")]));
        assert!(clashes(&[("other", "x/y"), ("one/.", "")]));
        assert!(clashes(&[("one", "one"), ("other", "one/x/y")]));
        assert!(!clashes(&[("one", "one"), ("one/x", "x"), ("other", "one/x/z"), ("another", "on")]));
        assert!(!clashes(&[("one/.", ""), ("other", "y")]));
        assert!(!clashes(&[("one/x/y", "y"), ("other", "y/x")]), "nothing is below a file");
    }
}
