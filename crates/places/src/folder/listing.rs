//! Listing a folder, and where its files are if it is a mounted tape.
//!
//! A tape with LTFS is mounted as a file system, which states the position of each file as virtual
//! extended attributes. With a tape in the mounted folder itself, or one in each folder of it,
//! files are listed with their positions, so that they can be read in that order. Source: SNIA,
//! LTFS Format Specification 2.4, annex on virtual extended attributes; on Linux, their names begin
//! with `user.`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fulgurite_new_file::PART_PREFIX;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::super::{Cause, LeftOut, Listed, Refusal, VolumePosition, location_of};
use super::{FOLDER, State, refusal};

/// Depth of folders that a listing descends to. Each level keeps a folder open.
const DEPTH_MAX: usize = 256;
/// Folders of a mount that may be tapes: itself, and those in it.
const TAPE_DEPTH: usize = 1;
const VOLUME_UUID: &str = "user.ltfs.volumeUUID";
const PARTITION: &str = "user.ltfs.partition";
const START_BLOCK: &str = "user.ltfs.startblock";

/// Reads an extended attribute; `None` if the file has no such attribute.
type Attribute = fn(BorrowedFd<'_>, &str) -> Option<String>;

pub(super) struct Listing<'a> {
    each: &'a mut dyn FnMut(Listed) -> bool,
    attribute: Attribute,
    pub(super) left_out: LeftOut,
}

/// A mounted tape.
struct Tape {
    /// The name of its folder in the mount, or else its UUID.
    name: String,
    uuid: String,
}

impl<'a> Listing<'a> {
    /// Passes files to `each` until it returns false.
    pub(super) fn new(each: &'a mut dyn FnMut(Listed) -> bool) -> Self {
        Self { each, attribute, left_out: LeftOut::default() }
    }

    /// Lists a folder. Returns false if the caller wants no more.
    pub(super) fn folder(&mut self, root: &OwnedFd) -> Result<bool, Refusal> {
        self.inner(root, "", 0, None)
    }

    fn inner(&mut self, folder: &OwnedFd, prefix: &str, depth: usize, tape: Option<&Tape>) -> Result<bool, Refusal> {
        let here = || if prefix.is_empty() { "the folder" } else { prefix };
        if depth > DEPTH_MAX {
            return Err(Refusal::new(Cause::Unsupported, format!("{prefix}: folders are nested more than {DEPTH_MAX} deep")));
        }
        let uuid = if tape.is_none() && depth <= TAPE_DEPTH { (self.attribute)(folder.as_fd(), VOLUME_UUID) } else { None };
        let name = |uuid: &str| if depth == 0 { uuid.to_owned() } else { prefix.trim_end_matches('/').to_owned() };
        let found = uuid.map(|uuid| Tape { name: name(&uuid), uuid });
        let tape = tape.or(found.as_ref());
        let entries = Dir::read_from(folder).map_err(|errno| refusal(errno, here()))?;
        let mut is_empty = true;
        for entry in entries {
            let entry = entry.map_err(|errno| refusal(errno, here()))?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if name.starts_with(PART_PREFIX.as_bytes()) {
                self.left_out.parts += 1;
                continue;
            }
            is_empty = false;
            let location = format!("{prefix}{}", location_of(name));
            let status = match rustix::fs::statat(folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(status) => status,
                // Removed since the folder was read.
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(refusal(errno, &location)),
            };
            let goes_on = match FileType::from_raw_mode(status.st_mode) {
                FileType::RegularFile => {
                    let position = tape.and_then(|tape| self.position(folder, name, tape));
                    let modified = Some(State::stated(&status).modified);
                    (self.each)(Listed { position, modified, ..Listed::new(location, u64::try_from(status.st_size).ok()) })
                }
                FileType::Directory => match rustix::fs::openat(folder, entry.file_name(), FOLDER | OFlags::NOFOLLOW, Mode::empty()) {
                    Ok(inner) => self.inner(&inner, &format!("{location}/"), depth + 1, tape)?,
                    Err(Errno::NOENT) => true,
                    Err(errno) => return Err(refusal(errno, &location)),
                },
                FileType::Symlink => {
                    self.left_out.links += 1;
                    true
                }
                _ => {
                    self.left_out.special += 1;
                    true
                }
            };
            if !goes_on {
                return Ok(false);
            }
        }
        self.left_out.empty_folders += u64::from(is_empty && depth > 0);
        Ok(true)
    }

    /// The position of a file on its tape. An empty file has no block, and sorts first.
    fn position(&self, folder: &OwnedFd, name: &[u8], tape: &Tape) -> Option<VolumePosition> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(folder, name, flags, Mode::empty()).ok()?;
        let block = (self.attribute)(file.as_fd(), START_BLOCK).and_then(|block| block.trim().parse().ok()).unwrap_or(0);
        let is_second = (self.attribute)(file.as_fd(), PARTITION).is_some_and(|partition| partition.trim() == "b");
        let position = VolumePosition::in_partition(tape.name.clone(), is_second, block);
        Some(VolumePosition { medium: Some(tape.uuid.clone()), ..position })
    }
}

fn attribute(file: BorrowedFd<'_>, name: &str) -> Option<String> {
    // A UUID is the longest of them.
    let mut value = [0; 256];
    let bytes = rustix::fs::fgetxattr(file, name, &mut value[..]).ok()?;
    String::from_utf8(value[..bytes].to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Folders with a file `uuid` are tapes, and files contain their positions: stands in for a
    /// file system with such attributes.
    fn from_content(file: BorrowedFd<'_>, name: &str) -> Option<String> {
        if name == VOLUME_UUID {
            return rustix::fs::statat(file, "uuid", AtFlags::empty()).ok().map(|_| "the-uuid".to_owned());
        }
        let mut content = [0; 16];
        let bytes = rustix::io::pread(file, &mut content[..], 0).ok()?;
        let content = String::from_utf8(content[..bytes].to_vec()).ok()?;
        let (partition, block) = content.split_at_checked(1)?;
        Some(if name == PARTITION { partition.to_owned() } else { block.to_owned() })
    }

    fn listed(files: &[(&str, &str)], attribute: Attribute) -> Vec<(String, Option<VolumePosition>)> {
        let root = tempfile::tempdir().expect("a folder");
        for (name, content) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, content).expect("written");
        }
        let mut found = Vec::new();
        let mut each = |file: Listed| {
            found.push((file.location, file.position));
            true
        };
        let mut listing = Listing { attribute, ..Listing::new(&mut each) };
        let root = rustix::fs::open(root.path(), FOLDER, Mode::empty()).expect("a folder");
        assert_eq!(listing.folder(&root), Ok(true));
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found
    }

    fn at(volume: &str, is_second: bool, block: u64) -> Option<VolumePosition> {
        let position = VolumePosition::in_partition(volume.to_owned(), is_second, block);
        Some(VolumePosition { medium: Some("the-uuid".to_owned()), ..position })
    }

    #[test]
    fn files_of_a_mounted_tape_are_listed_with_their_positions() {
        let found = listed(&[("uuid", ""), ("x", "b30"), ("deep/er/y", "a7"), ("deep/uuid", "b8")], from_content);
        let positions: Vec<_> = found.iter().map(|(_, position)| position.clone()).collect();
        let expected = [at("the-uuid", false, 7), at("the-uuid", true, 8), at("the-uuid", false, 0), at("the-uuid", true, 30)];
        assert_eq!(positions, expected, "{found:?}");
        // The partition `a` comes first.
        assert!(positions[0].as_ref().map(|of| of.block) < positions[1].as_ref().map(|of| of.block));
        // Several tapes, and another folder.
        let found =
            listed(&[("T1/uuid", ""), ("T1/x", "b1"), ("T2/uuid", ""), ("T2/d/x", "b2"), ("no/x", "b3"), ("no/d/uuid", "")], from_content);
        let of = |name: &str| found.iter().find(|(location, _)| location == name).expect("listed").1.clone();
        assert_eq!((of("T1/x"), of("T2/d/x"), of("no/x"), of("no/d/uuid")), (at("T1", true, 1), at("T2", true, 2), None, None));
    }

    #[test]
    fn files_of_other_file_systems_have_no_positions() {
        let found = listed(&[("uuid", ""), ("x", "b30")], attribute);
        assert!(found.len() == 2 && found.iter().all(|(_, position)| position.is_none()), "{found:?}");
    }
}
