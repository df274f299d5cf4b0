//! Places that are named on the command line: folders, buckets, servers, archives and tapes.

use anyhow::{Context, Result};
use fulgurite_places::{Address, AddressError, Place};

use crate::archive_place::{self, ArchivePlace};
use crate::outcome::Misuse;
use crate::tape_place;

/// What a place is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Files are read.
    Read,
    /// A migration writes files.
    Written,
}

/// The place that an address stands for.
pub(crate) fn open(place: &str, options: &[(String, String)]) -> Result<Box<dyn Place>> {
    if let Some(archive) = ArchivePlace::of(place, options)? {
        return Ok(Box::new(archive));
    }
    if let Some(library) = tape_place::open(place) {
        return Ok(Box::new(library?));
    }
    let address = Address::parse(place, options.iter().map(|(key, value)| (key.as_str(), value.as_str())))?;
    Ok(address.place()?)
}

/// An address as it is stored: folders and files with their full path, because commands are run
/// from anywhere. Options for which `is_given` is false were stored earlier, and stay as they are.
pub(crate) fn stored(
    place: &str,
    options: &[(String, String)],
    is_given: &dyn Fn(&str) -> bool,
    used: Use,
) -> Result<(String, Vec<(String, String)>)> {
    if let Some(archive) = archive_place::stored(place, options)? {
        return Ok((archive, options.to_vec()));
    }
    if let Some(tapes) = tape_place::stored(place, options)? {
        return Ok((tapes, Vec::new()));
    }
    let place = match place.contains(':') {
        false => std::path::absolute(place).with_context(|| format!("can't make {place:?} an absolute path"))?.into_os_string(),
        true => place.into(),
    };
    let place = place.to_str().context("the folder's path isn't UTF-8")?;
    let mut address = Address::parse(place, options.iter().map(|(key, value)| (key.as_str(), value.as_str())))
        .map_err(|error| Misuse(invalid(error, used)))?;
    address.make_paths_absolute(is_given).context("can't make the paths of the options absolute")?;
    let options = address.options().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    Ok((address.url(), options))
}

/// What is wrong with an address, with the kinds of places that this program adds.
fn invalid(error: AddressError, used: Use) -> String {
    let AddressError::Scheme { scheme } = error else { return error.to_string() };
    let mut known = Address::examples(used == Use::Written);
    known.push("archive:/path");
    // Tapes are only read.
    known.extend((used == Use::Read).then_some("tapes:/path"));
    format!("unknown kind of place {scheme:?}; known are /path, {}", known.join(", "))
}
