//! OCFL storage roots as inventories: the content files of all versions of all objects.
//!
//! Inventories and sidecars aren't listed: they change with every version, and a validation checks
//! them against each other.

use fulgurite_ocfl::{Object, RootError, Scope, StorageRoot};

use super::bagit::row;
use super::{InventoryError, Row};
use crate::copy::Expected;

/// The rows of a storage root. Memory is proportional to the largest inventory.
///
/// A file is called by the object's identifier, a slash and its content path, wherever the layout
/// puts the object. An object whose inventory can't be used is an error, and the other objects
/// follow.
pub struct OcflRows<'a> {
    root: &'a StorageRoot,
    objects: Box<dyn Iterator<Item = Result<Object, RootError>> + 'a>,
    location_prefix: String,
    rows: std::vec::IntoIter<Result<Row, InventoryError>>,
}

impl<'a> OcflRows<'a> {
    /// Lists a storage root. Locations at the node are `location_prefix` and the path below the
    /// root.
    #[must_use]
    pub fn new(root: &'a StorageRoot, location_prefix: &str) -> Self {
        Self { root, objects: Box::new(root.objects()), location_prefix: location_prefix.to_owned(), rows: Vec::new().into_iter() }
    }

    fn list(&self, object: &Object) -> Result<Vec<Result<Row, InventoryError>>, InventoryError> {
        let inventory = object.inventory()?;
        let name_prefix = format!("{}/", inventory.id());
        let location_prefix = format!("{}{}/", self.location_prefix, self.root.place(object));
        let rows = inventory.files(Scope::All).map(|file| {
            let expected = Expected { bytes: file.bytes, digests: file.digests };
            let problem = |problem| InventoryError::Line { path: object.folder().to_owned(), line: 0, problem };
            row(&name_prefix, &location_prefix, file.path, expected).map_err(problem)
        });
        Ok(rows.collect())
    }
}

impl Iterator for OcflRows<'_> {
    type Item = Result<Row, InventoryError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.rows.next() {
                return Some(row);
            }
            match self.objects.next()?.map_err(InventoryError::from).and_then(|object| self.list(&object)) {
                Ok(rows) => self.rows = rows.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_digest::Algorithm;
    use fulgurite_ocfl::{Layout, ObjectOptions, SpecVersion, VersionInfo};

    use super::*;

    #[test]
    fn all_versions_are_listed_and_a_broken_object_hides_no_other() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = StorageRoot::create(&folder.path().join("root"), SpecVersion::V1_1, Layout::default()).expect("created");
        let info = || VersionInfo { created: "2026-11-25T07:26:23Z".to_owned(), message: None, user: None };
        let options = ObjectOptions { fixity: vec![Algorithm::Md5], ..ObjectOptions::default() };
        for id in ["ark:/1/a", "ark:/1/b"] {
            let mut writer = root.create_object(id, &options, info()).expect("begun");
            writer.add("x:y", &mut &b"first"[..], &[]).expect("added");
            let object = writer.commit().expect("committed").object;
            let mut writer = root.new_version(&object, &[Algorithm::Md5], info()).expect("begun");
            writer.add("x:y", &mut &b"second"[..], &[]).expect("added");
            writer.commit().expect("committed");
        }
        let broken = root.object("ark:/1/b").expect("placed");
        std::fs::write(broken.folder().join("inventory.json"), "{}").expect("written");
        let place = root.place(&root.object("ark:/1/a").expect("placed"));
        let (rows, errors): (Vec<_>, Vec<_>) = OcflRows::new(&root, "at/").partition(Result::is_ok);
        assert!(matches!(errors[..], [Err(InventoryError::OcflObject(_))]));
        let mut found: Vec<_> = rows.into_iter().flatten().collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let names: Vec<_> = found.iter().map(|row| (row.name.as_str(), row.location.as_deref(), row.expected.digests.len())).collect();
        let at = |version: &str| format!("at/{place}/{version}/content/x%3ay");
        let expected = [("v1", at("v1")), ("v2", at("v2"))].map(|(version, at)| (format!("ark:/1/a/{version}/content/x%3ay"), at));
        let expected: Vec<_> = expected.iter().map(|(name, at)| (name.as_str(), Some(at.as_str()), 2)).collect();
        assert_eq!(names, expected);
    }
}
