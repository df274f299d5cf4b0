//! The conformance suite.

use super::*;
use crate::store::conformance::{Fixture, conformance};
use crate::volume::FolderVolume;

struct Folder(tempfile::TempDir);

impl Fixture for Folder {
    fn open(&self, archive: ArchiveId, name: &str) -> Arc<dyn PlatterStore> {
        Arc::new(FolderStore::new(name.to_owned(), archive, Arc::new(FolderVolume::new(self.0.path()))))
    }

    fn names(&self) -> Vec<String> {
        let names = |folder: &str| FolderVolume::new(self.0.path().join(folder)).list("").unwrap_or_default();
        names("").into_iter().chain(names(PLATTERS).iter().map(|name| format!("{PLATTERS}/{name}"))).collect()
    }

    fn spoil_mark(&self, text: Option<&str>) {
        let mark = self.0.path().join(MARK);
        match text {
            Some(text) => std::fs::write(mark, text),
            None => std::fs::remove_file(mark),
        }
        .expect("spoiled");
    }
}

conformance!(Folder(tempfile::tempdir().expect("a temporary folder")));
