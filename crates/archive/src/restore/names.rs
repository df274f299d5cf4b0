//! Chooses file names for restored objects.
//!
//! Object names are bytes separated by slashes, with few rules. Over S3 a key may be `a//b`, `../x`
//! or 1,000 bytes without a slash, and both `a` and `a/b` may be objects. File systems are
//! stricter. These rules make sure that every object can be restored and none replaces another:
//!
//! - A component that is not a valid file name (empty, `.`, `..`, with a NUL byte, longer than 255
//!   bytes) keeps as many of its bytes as fit, followed by `~` and the first 32 hex digits of its
//!   SHA-256. NUL bytes become `_`, and `.` and `..` keep nothing.
//! - An object with content whose name is also a folder gets the suffix `~file` or `~link`; the
//!   folder keeps the name.
//! - If an object or folder of the archive already has the changed name, the suffix `~2`, `~3` … is
//!   added.
//! - An empty object whose name ends with a slash is a folder: S3 clients create folders that way.
//!
//! Every change is reported.

use fulgurite_domain::{Kind, ObjectName};

use crate::archive::{Archive, ArchiveError};
use crate::catalogue::{Catalogue, VersionRow, Versions};

/// Maximum length of a file name on all common file systems.
pub(super) const NAME_BYTES_MAX: usize = 255;

/// Path of an object below the destination folder.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) components: Vec<Vec<u8>>,
    pub(super) is_folder: bool,
    pub(super) rename_reason: Option<&'static str>,
}

impl Target {
    /// Computes the target of a version from its name without the first `strip` bytes. `is_above`
    /// says whether objects exist below its name.
    pub(super) fn of(archive: &Archive, version: &VersionRow, strip: usize, is_above: bool) -> Result<Self, ArchiveError> {
        let record = &version.record;
        let name = &record.name.0;
        let is_marker = record.kind == Kind::File && record.size == 0 && name.ends_with(b"/");
        let end = name.len() - usize::from(is_marker);
        let mut target = Self { components: Vec::new(), is_folder: is_marker || record.kind == Kind::Directory, rename_reason: None };
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
            // A folder with a changed name contains only its own objects, so nothing can clash
            // below it.
            let is_free = |candidate: &[u8]| match target.rename_reason {
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
            target.rename_reason.get_or_insert(why);
            if is_last {
                return Ok(target);
            }
            start += length + 1;
        }
    }
}

/// True if neither an object nor a folder of the archive has this name.
fn is_free(catalogue: &mut dyn Catalogue, name: Vec<u8>) -> Result<bool, ArchiveError> {
    let below = [&name[..], b"/"].concat();
    let object = catalogue.newest(&ObjectName(name))?.is_some_and(|row| row.record.kind != Kind::DeletionMarker);
    Ok(!object && catalogue.list(&below, Versions::Newest, None, 1)?.is_empty())
}

/// Returns the reason why `component` can't be a file name.
fn unfit(component: &[u8]) -> Option<&'static str> {
    match component {
        b"" => Some("a part of its name is empty"),
        b"." | b".." => Some("a part of its name is . or .., which refer to other folders"),
        _ if component.contains(&0) => Some("a part of its name contains a NUL byte"),
        _ if component.len() > NAME_BYTES_MAX => Some("a part of its name is longer than 255 bytes"),
        _ => None,
    }
}

/// Returns a valid file name for a component that can't keep its own: the component with `tag`, and
/// with a digest of it in between if it is no valid name or leaves no room for the tag.
pub(super) fn renamed(component: &[u8], tag: &str) -> Vec<u8> {
    let is_fit = unfit(component).is_none();
    if is_fit && component.len() + tag.len() <= NAME_BYTES_MAX {
        return [component, tag.as_bytes()].concat();
    }
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, component);
    let digits: String = digest.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    let tag = format!("~{digits}{tag}");
    let mut kept: Vec<u8> = match component {
        b"." | b".." => Vec::new(),
        _ => component.iter().map(|&byte| if byte == 0 { b'_' } else { byte }).collect(),
    };
    if kept.len() > NAME_BYTES_MAX - tag.len() {
        let mut end = NAME_BYTES_MAX - tag.len();
        // Don't cut a UTF-8 character, of up to four bytes, in the middle.
        while kept[end] & 0xc0 == 0x80 && end > NAME_BYTES_MAX - tag.len() - 4 {
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
    fn invalid_file_names_get_distinct_valid_names() {
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
    fn a_tag_is_appended_while_the_name_has_room() {
        assert_eq!(renamed(b"a", "~file"), b"a~file");
        assert_eq!(renamed(&[b'a'; 250], "~file").len(), 255);
        let without_room = renamed(&[b'a'; 251], "~file");
        assert!(without_room.len() == 255 && without_room.ends_with(b"~file") && without_room.contains(&b'~'));
    }
}
