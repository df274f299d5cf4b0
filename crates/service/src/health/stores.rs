//! Which stores are usable. They are checked in the background, so that a hanging disk can't hang a
//! request.

use std::sync::{Mutex, PoisonError};

use fulgurite_archive::Archive;
use fulgurite_archive::store::StoreError;

/// Result of the last check of the stores.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Stores {
    /// Names of stores that are present, as their marks prove.
    pub(crate) usable: Vec<String>,
    /// Names of stores whose mark is missing or that of another store.
    pub(crate) absent: Vec<String>,
    /// Names of stores that can't be read.
    pub(crate) unreadable: Vec<String>,
}

impl Stores {
    /// Why the usable stores are too few for a set of `needed` platters; `None` if they suffice.
    pub(crate) fn shortage(&self, needed: usize) -> Option<String> {
        if self.usable.len() >= needed {
            return None;
        }
        let all = self.usable.len() + self.absent.len() + self.unreadable.len();
        let listed = |what: &str, names: &[String]| (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")));
        let found: Vec<String> = listed("absent", &self.absent).into_iter().chain(listed("unreadable", &self.unreadable)).collect();
        let usable = self.usable.len();
        Some(format!("{usable} of {all} stores are usable and a full set needs {needed} ({})", found.join("; ")))
    }
}

/// The last check of the stores.
#[derive(Debug, Default)]
pub(crate) struct StoreChecks {
    last_result: Mutex<Stores>,
}

impl StoreChecks {
    pub(crate) fn last_result(&self) -> Stores {
        self.last_result.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Checks all stores. Blocks on their disks.
    pub(crate) fn check_all(&self, archive: &Archive) -> Stores {
        let mut stores = Stores::default();
        for store in archive.stores() {
            let names = match store.check() {
                Ok(()) => &mut stores.usable,
                Err(StoreError::Io { .. }) => &mut stores.unreadable,
                Err(_) => &mut stores.absent,
            };
            names.push(store.name().to_owned());
        }
        self.last_result.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&stores);
        stores
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_stores_are_named() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let mut stores = Stores { usable: names(&["d1"]), absent: names(&["d2"]), unreadable: names(&["d3"]) };
        let shortage = stores.shortage(3).expect("too few");
        assert!(shortage.contains("1 of 3") && shortage.contains("absent: d2") && shortage.contains("unreadable: d3"), "{shortage}");
        stores.usable.extend(["d4".to_owned(), "d5".to_owned()]);
        assert_eq!(stores.shortage(3), None);
    }
}
