//! What a restored object is called.
//!
//! Names of objects are bytes with slashes between, and few rules: over S3 a key may be `a//b`,
//! `../x` or 1,000 bytes without a slash, and `a` may be an object beside `a/b`. File systems are
//! stricter. So that all of it can be restored, and nothing in the place of something else:
//!
//! - A part that no file can have as its name (empty, `.`, `..`, with a NUL byte, longer than 255
//!   bytes) ends with `~` and the first 32 hex digits of its SHA-256, behind as much of it as can
//!   be kept.
//! - An object with content whose name is a folder too gets `~file`, or `~link`, behind its name;
//!   the folder keeps it.
//! - Where an object or folder of the archive has the changed name already, `~2` is put behind it,
//!   or `~3` …
//! - An empty object whose name ends with a slash is a folder: that is how S3 clients make one.
//!
//! Whatever is changed is reported.

use fulgurite_domain::{Kind, ObjectName};

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{Catalogue, VersionRow, Versions};

/// Longest name of a file, on all common file systems.
pub(super) const NAME_BYTES: usize = 255;

/// Where an object goes, below the folder that it is restored into.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Names of the folders, and of the file. None for the folder itself.
    pub(super) components: Vec<Vec<u8>>,
    /// Whether it is a folder itself.
    pub(super) is_folder: bool,
    /// Why it isn't the object's own name.
    pub(super) changed: Option<&'static str>,
}

impl Target {
    /// The target of a version. Its name without the first `strip` bytes counts; `is_above` says
    /// whether there are objects below its name.
    pub(super) fn of(archive: &Archive, version: &VersionRow, strip: usize, is_above: bool) -> Result<Self, ArchiveError> {
        let record = &version.record;
        let name = &record.name.0;
        let is_marker = record.kind == Kind::File && record.size == 0 && name.ends_with(b"/");
        let end = name.len() - usize::from(is_marker);
        let mut target = Self { components: Vec::new(), is_folder: is_marker || record.kind == Kind::Directory, changed: None };
        let mut start = strip.min(name.len());
        if start > end {
            return Ok(target);
        }
        loop {
            let length = name[start..end].iter().position(|&byte| byte == b'/').unwrap_or(end - start);
            let component = &name[start..start + length];
            let is_last = start + length == end;
            let clashes = is_last && is_above && !target.is_folder;
            let why = unfit(component).or(clashes.then_some("it is a folder too"));
            let Some(why) = why else {
                target.components.push(component.to_vec());
                if is_last {
                    return Ok(target);
                }
                start += length + 1;
                continue;
            };
            let kind = match record.kind {
                _ if !clashes => "",
                Kind::SymbolicLink => "~link",
                _ => "~file",
            };
            // Below a folder with a changed name there is nothing but what was in it.
            let is_free = |candidate: &[u8]| match target.changed {
                None => is_free(&mut *archive.reading(), [&name[..start], candidate].concat()),
                Some(_) => Ok(true),
            };
            let mut changed = renamed(component, kind);
            let mut number = 1;
            while !is_free(&changed)? {
                number += 1;
                changed = renamed(component, &format!("{kind}~{number}"));
            }
            target.components.push(changed);
            target.changed.get_or_insert(why);
            if is_last {
                return Ok(target);
            }
            start += length + 1;
        }
    }
}

/// Whether neither an object nor a folder of the archive has this name.
fn is_free(catalogue: &mut dyn Catalogue, name: Vec<u8>) -> Result<bool, ArchiveError> {
    let below = [&name[..], b"/"].concat();
    let object = catalogue.newest(&ObjectName(name))?.is_some_and(|row| row.record.kind != Kind::DeletionMarker);
    Ok(!object && catalogue.list(&below, Versions::Newest, None, 1)?.is_empty())
}

/// Why no file can have this name.
fn unfit(component: &[u8]) -> Option<&'static str> {
    match component {
        b"" => Some("a part of its name is empty"),
        b"." | b".." => Some("a part of its name is . or .., which mean other folders"),
        _ if component.contains(&0) => Some("a part of its name has a NUL byte"),
        _ if component.len() > NAME_BYTES => Some("a part of its name is longer than 255 bytes"),
        _ => None,
    }
}

/// A name that a file can have, for one that it can't or mustn't have. Different ones for different
/// components and tags.
pub(super) fn renamed(component: &[u8], tag: &str) -> Vec<u8> {
    let is_fit = unfit(component).is_none();
    if is_fit && component.len() + tag.len() <= NAME_BYTES {
        return [component, tag.as_bytes()].concat();
    }
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, component);
    let digits: String = digest.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    let tag = format!("~{digits}{tag}");
    let mut kept: Vec<u8> = match component {
        b"." | b".." => Vec::new(),
        _ => component.iter().map(|&byte| if byte == 0 { b'_' } else { byte }).collect(),
    };
    if kept.len() > NAME_BYTES - tag.len() {
        let mut end = NAME_BYTES - tag.len();
        // Not in the middle of a character, of up to four bytes.
        while kept[end] & 0xc0 == 0x80 && end > NAME_BYTES - tag.len() - 4 {
            end -= 1;
        }
        kept.truncate(end);
    }
    kept.extend_from_slice(tag.as_bytes());
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_can_not_be_called_gets_a_name_of_its_own() {
        let long = |end: &str| ["ü".repeat(200).as_bytes(), end.as_bytes()].concat();
        let names: Vec<Vec<u8>> =
            vec![b"".into(), b".".into(), b"..".into(), b"a\0b".into(), b"a_b\0".into(), long("a"), long("b"), vec![0xbf; 300]];
        let mut made: Vec<Vec<u8>> = names.iter().flat_map(|name| ["", "~2", "~file"].map(|tag| renamed(name, tag))).collect();
        for name in &made {
            assert!(unfit(name).is_none() && !name.contains(&b'/'), "{:?}", ObjectName(name.clone()));
        }
        let count = made.len();
        made.sort();
        made.dedup();
        assert_eq!(made.len(), count);
        assert_eq!(renamed(b"..", ""), b"~5ec1f7e700f37c3d0b2981d04855fc34".to_vec());
        let cut = renamed(&long("a"), "");
        assert!(std::str::from_utf8(&cut).is_ok_and(|text| text.starts_with("üüü")) && cut.len() > 250, "{cut:?}");
    }

    #[test]
    fn a_tag_goes_behind_a_name_while_there_is_room() {
        assert_eq!(renamed(b"a", "~file"), b"a~file");
        assert_eq!(renamed(&[b'a'; 250], "~file").len(), 255);
        let without_room = renamed(&[b'a'; 251], "~file");
        assert!(without_room.len() == 255 && without_room.ends_with(b"~file") && without_room.contains(&b'~'));
    }
}
