//! Bags as inventories: all files that the manifests list, and those beside the payload.
//!
//! A tag file that no tag manifest lists has a length and no digest: its first reading records one.

use std::path::PathBuf;

use fulgurite_bagit::{Bag, Inventory, Options, Scope, Severity};
use fulgurite_places::location_of;

use super::{InventoryError, LineProblem, Row, check_name};
use crate::copy::Expected;

/// The rows of a bag, in bounded memory.
///
/// A file that is listed but missing has a row too: an audit finds its copies missing. A payload
/// file that isn't listed has none; it is an error, and the other rows follow. So does a fault in a
/// manifest, after all rows.
pub struct BagRows {
    folder: PathBuf,
    files: Inventory,
    name_prefix: String,
    location_prefix: String,
    is_ended: bool,
}

impl BagRows {
    /// Lists a bag. File names in the audit are `name_prefix` and the path in the bag, such as
    /// `data/a`; locations at the node are `location_prefix` and that path.
    ///
    /// # Errors
    /// If the bag can't be read.
    pub fn new(bag: &Bag, options: &Options, name_prefix: &str, location_prefix: &str) -> Result<Self, InventoryError> {
        Ok(Self {
            folder: bag.root().to_owned(),
            files: bag.all_files(options)?,
            name_prefix: name_prefix.to_owned(),
            location_prefix: location_prefix.to_owned(),
            is_ended: false,
        })
    }

    /// The first error of the manifests.
    fn fault(&self) -> Option<InventoryError> {
        let finding = self.files.report().findings().iter().find(|finding| finding.severity == Severity::Error)?;
        Some(InventoryError::BagFinding { folder: self.folder.clone(), finding: Box::new(finding.clone()) })
    }
}

impl Iterator for BagRows {
    type Item = Result<Row, InventoryError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_ended {
            return None;
        }
        let entry = match self.files.next() {
            Some(Ok(entry)) => entry,
            Some(Err(error)) => {
                self.is_ended = true;
                return Some(Err(error.into()));
            }
            None => {
                self.is_ended = true;
                return self.fault().map(Err);
            }
        };
        // Two paths must never become one name, as they could with replacement characters.
        let path = location_of(&entry.path);
        if entry.scope == Scope::Payload && entry.digests.is_empty() {
            return Some(Err(InventoryError::UnlistedPayload { folder: self.folder.clone(), path: path.into_owned() }));
        }
        let expected = Expected { bytes: entry.bytes, digests: entry.digests };
        Some(row(&self.name_prefix, &self.location_prefix, &path, expected).map_err(|problem| InventoryError::Line {
            path: self.folder.clone(),
            line: 0,
            problem,
        }))
    }
}

/// A row for a path of a bag or a storage root.
pub(super) fn row(name_prefix: &str, location_prefix: &str, path: &str, mut expected: Expected) -> Result<Row, LineProblem> {
    // Of two digests of one algorithm, which only an invalid bag or object has, the first counts.
    expected.digests.sort_by_key(|digest| digest.algorithm());
    expected.digests.dedup_by_key(|digest| digest.algorithm());
    let name = format!("{name_prefix}{path}");
    check_name(&name)?;
    let location = format!("{location_prefix}{path}");
    let location = (location != name).then_some(location);
    Ok(Row { name, expected, location, node: None })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    use fulgurite_bagit::{BagWriter, WriteOptions};
    use fulgurite_digest::Algorithm;

    use super::*;

    fn rows(bag: &std::path::Path) -> Vec<Result<Row, InventoryError>> {
        let bag = Bag::open(bag).expect("it is a bag");
        BagRows::new(&bag, &Options::default(), "b/", "mirror/b/").expect("it can be listed").collect()
    }

    #[test]
    fn a_bag_lists_payload_and_tag_files_with_all_digests() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let bag = folder.path().join("bag");
        let options = WriteOptions { algorithms: vec![Algorithm::Md5, Algorithm::Sha512], ..WriteOptions::default() };
        let mut writer = BagWriter::create(&bag, options).expect("created");
        writer.add("100%/a", &mut &b"abc"[..], &[]).expect("added");
        writer.add("gone", &mut &b""[..], &[]).expect("added");
        writer.finish().expect("finished");
        fs::remove_file(bag.join("data/gone")).expect("removed");
        let rows: Vec<Row> = rows(&bag).into_iter().collect::<Result<_, _>>().expect("all rows are good");
        let find = |name: &str| rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("{name} is missing"));
        let row = find("b/data/100%/a");
        assert_eq!(row.location.as_deref(), Some("mirror/b/data/100%/a"));
        assert_eq!((row.expected.bytes, row.expected.digests.len()), (Some(3), 2));
        // What is missing in this folder is expected of the nodes all the same.
        assert_eq!(find("b/data/gone").expected.digests.len(), 2);
        assert_eq!(find("b/bagit.txt").expected.digests.len(), 2);
        assert_eq!(find("b/manifest-md5.txt").expected.digests.len(), 2);
        let unlisted = find("b/tagmanifest-md5.txt");
        assert!(unlisted.expected.bytes.is_some() && unlisted.expected.digests.is_empty());
        assert_eq!(rows.len(), 2 + 2 + 4);
    }

    #[test]
    fn tag_files_whose_names_are_not_utf_8_have_names_of_their_own() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let bag = folder.path().join("bag");
        BagWriter::create(&bag, WriteOptions::default()).expect("created").finish().expect("finished");
        for (name, content) in [(&b"m\xff"[..], "Latin"), ("m\u{fffd}".as_bytes(), "other")] {
            fs::write(bag.join(OsStr::from_bytes(name)), content).expect("written");
        }
        let rows: Vec<Row> = rows(&bag).into_iter().collect::<Result<_, _>>().expect("all rows are good");
        let mut found: Vec<&str> =
            rows.iter().map(|row| row.name.as_str()).filter(|name| name.starts_with("b/m") && !name.ends_with(".txt")).collect();
        found.sort_unstable();
        assert_eq!(found, ["b/m\u{201b}FF", "b/m\u{fffd}"]);
    }

    #[test]
    fn faults_of_a_bag_are_errors_and_the_other_rows_remain() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let bag = folder.path().join("bag");
        let mut writer = BagWriter::create(&bag, WriteOptions::default()).expect("created");
        writer.add("a", &mut &b"abc"[..], &[]).expect("added");
        writer.finish().expect("finished");
        fs::write(bag.join("data/stranger"), "x").expect("written");
        let manifest = bag.join("manifest-sha512.txt");
        let lines = fs::read_to_string(&manifest).expect("read");
        fs::write(&manifest, format!("{lines}zz  data/b\n")).expect("written");
        let rows = rows(&bag);
        assert!(rows.iter().any(|row| matches!(row, Err(InventoryError::UnlistedPayload { path, .. }) if path == "data/stranger")));
        assert!(matches!(rows.last(), Some(Err(InventoryError::BagFinding { .. }))));
        assert!(rows.iter().any(|row| row.as_ref().is_ok_and(|row| row.name == "b/data/a")));
    }
}
