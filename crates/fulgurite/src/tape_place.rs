//! A library of emulated tapes as a place of files, for migrations: `tapes:FOLDER`.

use std::path::Path;

use anyhow::{Context, Result, bail};
use fulgurite_tapes::TapeLibrary;
use fulgurite_tapes::settings::FILE;

use crate::outcome::Misuse;
use crate::text;

/// What the address of such a place begins with; the library's folder follows.
const SCHEME: &str = "tapes:";

/// The folder of the library that an address stands for, if it is one's.
pub(crate) fn folder_of(address: &str) -> Option<&Path> {
    address.strip_prefix(SCHEME).map(Path::new)
}

/// The library that an address stands for, if it is one's.
pub(crate) fn open(address: &str) -> Option<Result<TapeLibrary>> {
    folder_of(address).map(open_folder)
}

/// The library in a folder.
pub(crate) fn open_folder(folder: &Path) -> Result<TapeLibrary> {
    if !folder.join(FILE).is_file() {
        bail!("{} is not the folder of a tape library, or isn't mounted: it has no {FILE}", text::path(folder));
    }
    Ok(TapeLibrary::open(folder)?)
}

/// The address as it is stored: with its full path. `None` if it is another place's.
pub(crate) fn stored(address: &str, options: &[(String, String)]) -> Result<Option<String>> {
    let Some(folder) = address.strip_prefix(SCHEME) else { return Ok(None) };
    if folder.is_empty() {
        return Err(Misuse(format!("{SCHEME} needs the library's folder, as in {SCHEME}/srv/tapes")).into());
    }
    if let Some((key, _)) = options.first() {
        return Err(Misuse(format!("{address} has no option {key:?}; library.toml in its folder has its settings")).into());
    }
    let full = std::path::absolute(folder).with_context(|| format!("can't make {folder:?} an absolute path"))?;
    let full = full.to_str().context("the folder's path isn't UTF-8")?;
    Ok(Some(format!("{SCHEME}{full}")))
}
