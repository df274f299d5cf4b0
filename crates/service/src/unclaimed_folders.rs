//! Top-level folders without a bucket row: content that the command line put, or the remains of
//! buckets whose rows were lost.

use fulgurite_archive::catalogue::{ListCursor, Versions};
use fulgurite_archive::reserved::is_reserved;
use s3s::validation::NameValidation;

use crate::s3::object_names::BucketNames;
use crate::state::{State, StateError};

/// Rows per page of the catalogue.
const ROWS_PER_PAGE: usize = 64;
/// Maximum number of pages to read: an archive may have millions of names outside of folders, or
/// thousands of folders, each of which takes a page.
const PAGES_MAX: usize = 10_000;

/// The first `limit` folders, by name, that have a valid bucket name and no bucket row. Gives up
/// after a number of pages, so some may be missing in a very large archive.
///
/// # Errors
/// [`StateError`] if the catalogue or the state can't be read.
pub fn without_bucket(state: &State, limit: usize) -> Result<Vec<String>, StateError> {
    let mut found = Vec::new();
    let mut after = None;
    for _ in 0..PAGES_MAX {
        let page = state.archive().reading().list(b"", Versions::All, after.as_ref(), ROWS_PER_PAGE)?;
        let Some(last) = page.last() else { break };
        let first_in_folder = page.iter().find_map(|row| {
            let at = row.record.name.0.iter().position(|&byte| byte == b'/')?;
            Some((row, &row.record.name.0[..at]))
        });
        let Some((row, folder)) = first_in_folder else {
            after = Some(ListCursor::after_row(last));
            continue;
        };
        let name = str::from_utf8(folder).ok().filter(|name| !is_reserved(&row.record.name) && BucketNames.validate_bucket_name(name));
        if let Some(name) = name
            && state.bucket(name)?.is_none()
        {
            found.push(name.to_owned());
            if found.len() == limit {
                break;
            }
        }
        after = ListCursor::after_prefix(&[folder, b"/"].concat());
    }
    Ok(found)
}
