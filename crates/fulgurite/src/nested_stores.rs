//! Stores inside each other. A store is the folder of one disk, so a set on a store and on a folder
//! inside it would lose two platters with one disk.

use std::path::{Path, PathBuf};

use anyhow::Result;
use fulgurite_archive::settings::StoreSettings;

use crate::outcome::Misuse;

/// The file in the folder of each store that names the store.
const MARK: &str = "fulgurite-store";

/// Rejects new stores inside each other or inside a known one, and those that contain a known one,
/// even if their paths lead through links. A store with a mark was one before, so the archive was
/// like that. Relative paths start at `home`.
pub(crate) fn check(home: &Path, known: &[StoreSettings], new: &[StoreSettings]) -> Result<()> {
    let place = |store: &StoreSettings| resolved(&home.join(&store.path));
    let known = known.iter().map(|store| (store, place(store), false));
    let new = new.iter().map(|store| (store, place(store)));
    let all: Vec<_> = known.chain(new.map(|(store, place)| (store, place.clone(), !place.join(MARK).exists()))).collect();
    for (inner, inner_place, inner_is_new) in &all {
        for (outer, outer_place, outer_is_new) in &all {
            let is_nested = inner_place != outer_place && inner_place.starts_with(outer_place);
            if is_nested && (*inner_is_new || *outer_is_new) {
                let text = format!(
                    "store {} in {} would be inside store {} in {}, and lost with it: use a folder on another disk",
                    inner.name,
                    inner_place.display(),
                    outer.name,
                    outer_place.display()
                );
                return Err(Misuse(text).into());
            }
        }
    }
    Ok(())
}

/// A path without symbolic links, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    if let Ok(path) = path.canonicalize() {
        return path;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => resolved(parent).join(name),
        _ => path.to_owned(),
    }
}
