//! What the demonstration archives: a folder, or this project's source tree and some files made for
//! it.

use std::collections::HashSet;
use std::fs::{self, File, FileTimes, Permissions};
use std::io::{BufWriter, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use fulgurite_archive::Source;
use fulgurite_chance::Xorshift;
use fulgurite_domain::{Medium, ObjectName};
use walkdir::{DirEntry, WalkDir};

use crate::current_folder;
use crate::put::is_leaf;
use crate::text::bytes;

/// Maximum size of a default folder. On disks, a folder that the user names has no limit.
const UNNAMED_BYTES_MAX: u64 = 1 << 30;
/// Maximum size of any folder on glass: some ten minutes of computing.
const GLASS_BYTES_MAX: u64 = 4 << 20;

/// Files to generate.
struct Generated {
    large_bytes: [usize; 3],
    sparse_bytes: u64,
    small: u64,
}

impl Generated {
    fn on(medium: Medium) -> Self {
        match medium {
            Medium::Disk => Self { large_bytes: [37 << 20, 19 << 20, 8 << 20], sparse_bytes: 32 << 20, small: 2_000 },
            Medium::Glass => Self { large_bytes: [20_000, 10_000, 5_000], sparse_bytes: 15_000, small: 10 },
        }
    }
}

/// The folders to archive, each with its name.
pub(crate) struct Input {
    roots: Vec<(PathBuf, Vec<u8>)>,
    /// Folders that are skipped: build outputs, .git, fuzzing corpora, and the demonstration's own.
    skipped_folders: HashSet<PathBuf>,
    medium: Medium,
    pub(crate) bytes: u64,
    pub(crate) text: String,
    /// True if the user named no folder.
    pub(crate) is_generated: bool,
}

/// A file, a link or an empty folder of the input.
pub(crate) struct InputEntry {
    pub(crate) path: PathBuf,
    pub(crate) name: ObjectName,
}

impl Input {
    /// Chooses the given folder, otherwise this project's source tree, otherwise the current
    /// folder. On glass, only docs/decisions in the source tree: all of it would take hours.
    pub(crate) fn choose(folder: Option<&Path>, into: &Path, medium: Medium) -> Result<Self> {
        let root = match (folder, medium) {
            (Some(folder), _) => folder.to_owned(),
            (None, Medium::Disk) => source_tree().map_or_else(current_folder, Ok)?,
            (None, Medium::Glass) => source_tree().map_or_else(current_folder, |root| Ok(root.join("docs/decisions")))?,
        };
        if !root.is_dir() {
            bail!("{} is not a folder; the demonstration archives a folder", root.display());
        }
        let mut input = Self {
            roots: Vec::new(),
            skipped_folders: HashSet::new(),
            medium,
            bytes: 0,
            text: root.display().to_string(),
            is_generated: folder.is_none(),
        };
        let name = match folder {
            Some(_) => {
                root.canonicalize().ok().and_then(|root| Some(root.file_name()?.as_bytes().to_vec())).unwrap_or_else(|| b"folder".to_vec())
            }
            None if medium == Medium::Glass => b"decisions".to_vec(),
            None => b"source".to_vec(),
        };
        if folder.is_none() {
            let skipped = ["target", ".git", "fuzz/target", "fuzz/corpus"];
            input.skipped_folders.extend(skipped.iter().filter_map(|below| root.join(below).canonicalize().ok()));
        }
        // The folder doesn't exist yet, but its parent does.
        let parent = into.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if let (Ok(parent), Some(name)) = (parent.canonicalize(), into.file_name()) {
            input.skipped_folders.insert(parent.join(name));
        }
        input.roots.push((root, name));
        if !input.is_generated && input.entries().next().is_none() {
            bail!("{} contains nothing to archive", input.text);
        }
        let mut found = 0;
        for entry in input.entries() {
            found += fs::symlink_metadata(&entry.path).map_or(0, |metadata| if metadata.is_file() { metadata.len() } else { 0 });
            if input.is_generated && found > UNNAMED_BYTES_MAX {
                bail!("{} contains more than {}: name it explicitly, or name another folder", input.text, bytes(UNNAMED_BYTES_MAX));
            }
        }
        input.bytes = found;
        if medium == Medium::Glass && found > GLASS_BYTES_MAX {
            bail!(
                "{} contains {}, and on glass each MiB takes minutes of computing: name a folder of at most {}",
                input.text,
                bytes(found),
                bytes(GLASS_BYTES_MAX)
            );
        }
        if input.is_generated {
            let generated = Generated::on(medium);
            input.bytes += generated.large_bytes.iter().sum::<usize>() as u64 + generated.sparse_bytes;
        }
        Ok(input)
    }

    pub(crate) fn generate(&mut self, folder: &Path) -> Result<()> {
        let make = || -> std::io::Result<()> {
            fs::create_dir_all(folder.join("large"))?;
            let generated = Generated::on(self.medium);
            for (index, &length) in generated.large_bytes.iter().enumerate() {
                let mut noise = Xorshift::star(index as u64 + 1);
                let mut file = BufWriter::new(File::create_new(folder.join(format!("large/noise-{}", index + 1)))?);
                let mut block = vec![0; 1 << 20];
                for at in (0..length).step_by(block.len()) {
                    noise.fill(&mut block);
                    file.write_all(&block[..(length - at).min(1 << 20)])?;
                }
                file.flush()?;
            }
            let sparse = File::create_new(folder.join("large/sparse"))?;
            sparse.set_len(generated.sparse_bytes)?;
            sparse.write_all_at(b"the beginning", 0)?;
            sparse.write_all_at(b"and the end", generated.sparse_bytes - 11)?;
            fs::create_dir(folder.join("small"))?;
            let mut noise = Xorshift::star(99);
            let mut block = vec![0; 4_096];
            for index in 0..generated.small {
                noise.fill(&mut block);
                let length = noise.below(block.len());
                fs::write(folder.join(format!("small/{index:04}")), &block[..length])?;
            }
            odd_things(&folder.join("odd"))
        };
        make().with_context(|| folder.display().to_string())?;
        self.roots.push((folder.to_owned(), b"generated".to_vec()));
        self.text = format!("{} and files made for it", self.text);
        Ok(())
    }

    /// Everything to archive, sorted by name within each folder.
    pub(crate) fn entries(&self) -> impl Iterator<Item = InputEntry> {
        self.roots.iter().flat_map(|(root, name)| {
            let passes = |entry: &DirEntry| {
                !entry.file_type().is_dir() || !entry.path().canonicalize().is_ok_and(|path| self.skipped_folders.contains(&path))
            };
            let entries = WalkDir::new(root).follow_root_links(true).sort_by_file_name().into_iter().filter_entry(passes).flatten();
            entries.filter(|entry| entry.depth() > 0 && is_leaf(entry)).map(move |entry| {
                let below = entry.path().strip_prefix(root).expect("below its root");
                let name = ObjectName([name, below.as_os_str().as_bytes()].join(&b"/"[..]));
                InputEntry { path: entry.into_path(), name }
            })
        })
    }

    pub(crate) fn sources(&self) -> impl Iterator<Item = Source> + Send {
        self.entries().map(|InputEntry { path, name }| Source::Path { path, name })
    }

    pub(crate) fn path_of(&self, name: &[u8]) -> Option<PathBuf> {
        self.roots.iter().find_map(|(root, prefix)| {
            let below = name.strip_prefix(&prefix[..])?.strip_prefix(b"/")?;
            Some(root.join(PathBuf::from(std::ffi::OsString::from_vec(below.to_vec()))))
        })
    }
}

/// The source tree that this program was compiled from, if it still exists.
fn source_tree() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().ok()?;
    root.join("crates/fulgurite/Cargo.toml").is_file().then_some(root)
}

/// Creates files that an archiver easily gets wrong.
fn odd_things(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder.join("empty folder"))?;
    fs::write(folder.join("empty file"), b"")?;
    fs::write(folder.join("exactly one frame"), vec![7; 65_536])?;
    symlink("../small/0000", folder.join("link"))?;
    symlink("nowhere/at all", folder.join("dangling link"))?;
    // Not every file system takes such names.
    let _ = fs::write(folder.join(std::ffi::OsStr::from_bytes(b"not UTF-8: \xff, and a line\nbreak")), b"odd");
    let old = folder.join("read-only, of 1971");
    let mut file = File::create_new(&old)?;
    file.write_all(b"old")?;
    file.set_times(FileTimes::new().set_modified(UNIX_EPOCH + Duration::new(31_536_001, 123_456_789)))?;
    file.set_permissions(Permissions::from_mode(0o400))
}
