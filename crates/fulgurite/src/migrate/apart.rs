//! The source and the destination must stay two places.
//!
//! If one path, address or endpoint leads to the other place, files would be migrated onto
//! themselves, and releasing the source would remove the only copies. That can come about long
//! after `init`: once everything has arrived, the old path often becomes a link to the new place.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Error, Result, anyhow, bail};
use fulgurite_new_file::PART_PREFIX;
use fulgurite_places::{Cause, Place, Refusal};

use super::folder::Migration;
use crate::archive_place::ArchivePlace;
use crate::tape_place;

/// The folder of a place on this machine, without symbolic links.
pub(super) fn folder_of(place: &str) -> Option<PathBuf> {
    let path = place.strip_prefix("folder:").or_else(|| place.strip_prefix("archive:")).or_else(|| place.strip_prefix("tapes:"))?;
    std::fs::canonicalize(path).ok()
}

/// Why two folders can't be source and destination, if they can't.
pub(super) fn overlap(source: &Path, destination: &Path) -> Option<&'static str> {
    // What a path refers to, however it is mounted.
    let identity = |path: &Path| std::fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
    if identity(source) == identity(destination) {
        return Some("the source and the destination are the same place, or in the same archive");
    }
    let is_inside = source.starts_with(destination) || destination.starts_with(source);
    is_inside.then_some("one of the source and the destination is inside the other")
}

/// What a probe found.
pub(super) enum Probed {
    Apart,
    Same,
    /// A place can't be used, so nothing is known.
    Unknown(Error),
}

/// Writes an empty file to one place for a moment, and looks for it at the other: a place may have
/// several addresses. `names` says what each of them is.
pub(super) fn probe(written: &dyn Place, looked_at: &dyn Place, names: [&str; 2]) -> Probed {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Every listing leaves such names out.
    let name = format!("{PART_PREFIX}migration-{}-{}", std::process::id(), since.as_nanos());
    let failed =
        |what: &str, which: &str, place: &dyn Place, refusal: Refusal| anyhow!("can't {what} the {which}, {}: {refusal}", place.describe());
    let [written_name, looked_name] = names;
    let found = || {
        // Opened first, so that nothing is written if one of them is absent.
        let mut looking = looked_at.connect().map_err(|refusal| failed("use", looked_name, looked_at, refusal))?;
        let mut writing = written.connect().map_err(|refusal| failed("use", written_name, written, refusal))?;
        // Nothing is written if the other place doesn't answer.
        match looking.length(&name) {
            Err(Refusal { cause: Cause::Missing, .. }) => {}
            Ok(_) => return Ok(true),
            Err(refusal) => return Err(failed("use", looked_name, looked_at, refusal)),
        }
        writing.write_new(&name, 0, &mut std::io::empty()).map_err(|refusal| failed("write to", written_name, written, refusal))?;
        let found = looking.length(&name);
        writing.remove(&name).map_err(|refusal| failed("remove a file from", written_name, written, refusal))?;
        match found {
            Ok(_) => Ok(true),
            Err(Refusal { cause: Cause::Missing, .. }) => Ok(false),
            Err(refusal) => Err(failed("use", looked_name, looked_at, refusal)),
        }
    };
    match found() {
        Ok(true) => Probed::Same,
        Ok(false) => Probed::Apart,
        Err(error) => Probed::Unknown(error),
    }
}

/// What follows if nothing is known, because a place can't be used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unproven {
    /// Only folders are compared: the command writes to no place.
    Unasked,
    /// The command ends: it removes files.
    Fails,
    /// The command goes on: it waits for places.
    GoesOn,
}

/// Makes sure that the places of a migration are still apart.
pub(super) fn check(migration: &Migration, unproven: Unproven) -> Result<()> {
    let (from, to) = (&*migration.settings.source.place, &*migration.settings.destination.place);
    let (source, destination) = (folder_of(from), folder_of(to));
    if let (Some(source), Some(destination)) = (&source, &destination)
        && let Some(why) = overlap(source, destination)
    {
        bail!("{why} by now: {from} and {to}");
    }
    // Archives and tapes are compared by their folders.
    if unproven == Unproven::Unasked || ArchivePlace::home_of(from).is_some() || tape_place::folder_of(from).is_some() {
        return Ok(());
    }
    let probed = if ArchivePlace::home_of(to).is_none() {
        probe(&*migration.destination_place()?, &*migration.source()?, ["destination", "source"])
    } else if source.is_none() && unproven == Unproven::Fails {
        // The source may be a bucket of a server that serves the archive. Many sources can be
        // read and not written, so a refusal says nothing.
        match probe(&*migration.source()?, &*migration.destination_place()?, ["source", "destination"]) {
            Probed::Unknown(_) => Probed::Apart,
            probed => probed,
        }
    } else {
        Probed::Apart
    };
    match probed {
        Probed::Apart => Ok(()),
        Probed::Same => bail!("the source and the destination are the same place by now: a file written to one appears at the other"),
        Probed::Unknown(_) if unproven == Unproven::GoesOn => Ok(()),
        Probed::Unknown(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_places::Folder;

    use super::*;

    #[test]
    fn a_probe_tells_one_place_from_two_and_leaves_nothing() {
        let (one, two) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let probe = |written: &Path, looked_at: &Path| probe(&Folder::new(written), &Folder::new(looked_at), ["destination", "source"]);
        assert!(matches!(probe(one.path(), one.path()), Probed::Same));
        assert!(matches!(probe(one.path(), two.path()), Probed::Apart));
        let absent = probe(one.path(), &two.path().join("absent"));
        assert!(matches!(absent, Probed::Unknown(error) if error.to_string().starts_with("can't use the source, ")));
        assert_eq!(std::fs::read_dir(one.path()).expect("a folder").count(), 0);
    }
}
