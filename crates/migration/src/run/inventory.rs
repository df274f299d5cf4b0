//! The inventory of a migration: what the source lists.

use fulgurite_places::{LeftOut, Place, Refusal};

use super::database::{Added, Database, DatabaseError, InventoryRow};

/// Rows that are added in one transaction.
const BATCH: usize = 1_000;
/// The largest length that is believed: 8 PiB. Sums of many such lengths don't overflow.
const BYTES_MAX: u64 = 1 << 53;

/// An inventory could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    /// The source could not be listed.
    #[error("can't list the source's files")]
    Listing(#[source] Refusal),
    /// A length can't be true.
    #[error("the source says that {name:?} has {bytes} bytes")]
    Length {
        /// The file.
        name: String,
        /// Its length.
        bytes: u64,
    },
    /// The database failed, or has other facts about a file.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

/// What a listing of the source brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inventoried {
    /// Files that the source listed.
    pub files: u64,
    /// What they brought.
    pub added: Added,
    /// What it left out, as far as it says so.
    pub left_out: LeftOut,
}

/// Adds all files that the source lists. It can be repeated: files that are known and weren't
/// replaced, as far as the source can tell, keep their state. `listed` is called with the number of
/// files so far.
///
/// # Errors
/// [`InventoryError`]. Files that were added before stay.
pub fn list(
    database: &mut Database,
    source: &dyn Place,
    family: &dyn Fn(&str) -> String,
    listed: &mut dyn FnMut(u64),
) -> Result<Inventoried, InventoryError> {
    let mut connection = source.connect().map_err(InventoryError::Listing)?;
    let (mut rows, mut unknown) = (Vec::new(), Vec::new());
    let (mut count, mut added, mut failure) = (0, Added::default(), None);
    let listing = connection.list(&mut |file| {
        count += 1;
        if let Some(bytes) = file.bytes.filter(|&bytes| bytes > BYTES_MAX) {
            failure = Some(InventoryError::Length { name: file.location, bytes });
            return false;
        }
        match file.bytes {
            Some(bytes) => rows.push(InventoryRow::new(file, bytes)),
            None => unknown.push(file),
        }
        if rows.len() >= BATCH {
            listed(count);
            match database.add(&rows, family) {
                Ok(more) => added += more,
                Err(error) => failure = Some(error.into()),
            }
            rows.clear();
        }
        failure.is_none()
    });
    if let Some(failure) = failure {
        return Err(failure);
    }
    listing.map_err(InventoryError::Listing)?;
    // Some places list names only.
    for file in unknown {
        let bytes = connection.length(&file.location).map_err(InventoryError::Listing)?;
        if bytes > BYTES_MAX {
            return Err(InventoryError::Length { name: file.location, bytes });
        }
        rows.push(InventoryRow::new(file, bytes));
    }
    for batch in rows.chunks(BATCH) {
        added += database.add(batch, family)?;
    }
    Ok(Inventoried { files: count, added, left_out: connection.left_out() })
}

/// The family of a file: its first `folders` folders.
#[must_use]
pub fn family_of(name: &str, folders: usize) -> String {
    let parts: Vec<&str> = name.split('/').collect();
    parts[..folders.min(parts.len() - 1)].join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_named_by_the_first_folders() {
        let families = |name: &str| [0, 1, 2, 9].map(|folders| family_of(name, folders));
        assert_eq!(families("a/b/c"), ["", "a", "a/b", "a/b"]);
        assert_eq!(families("c"), ["", "", "", ""]);
    }
}
