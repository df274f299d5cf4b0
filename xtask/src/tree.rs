//! The files of the repository: those that git tracks, and those that the next `git add` would add.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus};

/// Maximum size of a file in git: every clone contains every version of it for ever.
pub(crate) const LARGEST_FILE_BYTES: u64 = 2_000_000;

/// Every file by its path from the root, with `/` between folders.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, File>,
}

#[derive(Debug)]
pub(crate) struct File {
    pub(crate) bytes: u64,
    /// `None` if the file isn't UTF-8, is a symbolic link, or exceeds [`LARGEST_FILE_BYTES`].
    pub(crate) text: Option<String>,
}

/// Why the files can't be listed or read.
#[derive(Debug)]
pub(crate) enum TreeError {
    NoGit { source: io::Error },
    GitRefused { status: ExitStatus, stderr: String },
    NotUtf8 { path: String },
    Unreadable { path: String, source: io::Error },
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGit { source } => write!(f, "can't start git, which lists the files to check: {source}"),
            Self::GitRefused { status, stderr } => write!(f, "git can't list the files ({status}): {stderr}"),
            Self::NotUtf8 { path } => write!(f, "the path {path} isn't UTF-8, so no check can name it: rename the file"),
            Self::Unreadable { path, source } => write!(f, "{path} can't be read: {source}"),
        }
    }
}

impl Error for TreeError {}

impl Tree {
    /// Reads the work tree at `root`. New files count as well, so that a check finds faults before
    /// the commit.
    pub(crate) fn read(root: &Path) -> Result<Self, TreeError> {
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .map_err(|source| TreeError::NoGit { source })?;
        if !listed.status.success() {
            let stderr = String::from_utf8_lossy(&listed.stderr).trim().to_owned();
            return Err(TreeError::GitRefused { status: listed.status, stderr });
        }
        let mut files = BTreeMap::new();
        for path in listed.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
            let Ok(path) = str::from_utf8(path) else {
                return Err(TreeError::NotUtf8 { path: String::from_utf8_lossy(path).into_owned() });
            };
            match File::read(&root.join(path)) {
                Ok(file) => drop(files.insert(path.to_owned(), file)),
                // Deleted in the work tree, but still in git's index.
                Err(source) if source.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(TreeError::Unreadable { path: path.to_owned(), source }),
            }
        }
        Ok(Self { files })
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// The text files, with their content.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter_map(|(path, file)| Some((path, file.text.as_deref()?)))
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.text.as_deref()
    }

    /// True if `path` is a file, or a folder that contains files; the empty path is the root.
    pub(crate) fn has(&self, path: &str) -> bool {
        let inside = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self.files.range(inside.clone()..).next().is_some_and(|(other, _)| other.starts_with(&inside))
    }
}

impl File {
    fn read(path: &Path) -> io::Result<Self> {
        let status = fs::symlink_metadata(path)?;
        let bytes = status.len();
        let text = if status.is_file() && bytes <= LARGEST_FILE_BYTES { String::from_utf8(fs::read(path)?).ok() } else { None };
        Ok(Self { bytes, text })
    }
}

#[cfg(test)]
impl Tree {
    /// A repository with these paths and texts.
    pub(crate) fn of<const N: usize>(files: [(&str, &str); N]) -> Self {
        let file = |(path, text): (&str, &str)| (path.to_owned(), File { bytes: text.len() as u64, text: Some(text.to_owned()) });
        Self { files: files.map(file).into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_exists_if_it_contains_a_file() {
        let tree = Tree::of([("docs/format.md", ""), ("docs-old.md", "")]);
        assert!(tree.has("docs") && tree.has("docs/format.md") && tree.has(""));
        assert!(!tree.has("doc") && !tree.has("docs/format"));
    }

    #[test]
    fn the_files_of_this_repository_are_found() {
        let tree = Tree::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
        assert_eq!(tree.text("xtask/src/tree.rs"), Some(include_str!("tree.rs")));
        assert!(!tree.has("target"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_path_that_is_not_utf_8_is_an_error_and_not_left_unchecked() {
        use std::os::unix::ffi::OsStrExt;
        let root = std::env::temp_dir().join(format!("xtask-tree-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        assert!(Command::new("git").args(["init", "--quiet"]).current_dir(&root).status().unwrap().success());
        fs::write(root.join(std::ffi::OsStr::from_bytes(b"caf\xe9.rs")), "").unwrap();
        let error = Tree::read(&root).unwrap_err();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(error.to_string(), "the path caf\u{fffd}.rs isn't UTF-8, so no check can name it: rename the file");
    }

    #[test]
    fn outside_a_repository_the_error_contains_gits_message() {
        let error = Tree::read(Path::new("/")).unwrap_err();
        assert!(error.to_string().contains("git can't list the files"), "{error}");
    }
}
