//! Folders of the archive that could be buckets and are none: what the command line put, and what is left of buckets whose rows are lost.

use fulgurite_archive::catalogue::{After, Versions};
use fulgurite_archive::reserved::is_reserved;
use s3s::validation::NameValidation;

use crate::s3::key_locks::BucketNames;
use crate::state::{State, StateError};

/// Rows asked of the catalogue at once.
const ROWS: usize = 64;
/// Pages that are looked at, at most: an archive may have millions of names that are in no folder.
const PAGES: usize = 10_000;

/// The first folders, up to `most`, that could be buckets and are none, by name.
///
/// # Errors
/// [`StateError`] if catalogue or state fail.
pub fn without_bucket(state: &State, most: usize) -> Result<Vec<String>, StateError> {
    let mut found = Vec::new();
    let mut after = None;
    for _ in 0..PAGES {
        let page = state.archive().reading().list(b"", Versions::All, after.as_ref(), ROWS)?;
        let Some(last) = page.last() else { break };
        let first_in_folder = page.iter().find_map(|row| {
            let at = row.record.name.0.iter().position(|&byte| byte == b'/')?;
            Some((row, &row.record.name.0[..at]))
        });
        let Some((row, folder)) = first_in_folder else {
            after = Some(After::row(last));
            continue;
        };
        let name = str::from_utf8(folder).ok().filter(|name| !is_reserved(&row.record.name) && BucketNames.validate_bucket_name(name));
        if let Some(name) = name
            && state.bucket(name)?.is_none()
        {
            found.push(name.to_owned());
            if found.len() == most {
                break;
            }
        }
        after = After::prefix(&[folder, b"/"].concat());
    }
    Ok(found)
}
