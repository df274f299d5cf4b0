//! The certificate of a migration: what arrived, with the digest of a list of all of it.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use fulgurite_digest::{Algorithm, Digest, Digester};
use fulgurite_places::name_at;

use super::database::{Database, DatabaseError};

/// Rows that are fetched at a time.
const PAGE: usize = 1_000;

/// What the list of migrated files contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// Files that were read back from the destination, those released from the source included.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// SHA-256 of the list.
    pub list_sha256: Digest,
}

/// The list could not be written.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The file could not be written.
    #[error("can't write the list of migrated files")]
    Write(#[source] io::Error),
}

/// Writes the list of all migrated files, ordered by name, as `sha256sum` writes one and
/// `sha256sum --check` reads it.
///
/// # Errors
/// [`CertificateError`]; an earlier list then stays as it was.
pub fn write_list(database: &Database, path: &Path) -> Result<Certificate, CertificateError> {
    let new = path.with_extension("new");
    let failed = CertificateError::Write;
    let mut out = BufWriter::new(File::create(&new).map_err(failed)?);
    let mut digester = Digester::new(&[Algorithm::Sha256]);
    let (mut files, mut bytes, mut after) = (0, 0, String::new());
    loop {
        let rows = database.migrated_by_name(&after, PAGE)?;
        let Some(last) = rows.last() else { break };
        after.clone_from(&last.name);
        for row in &rows {
            let sha256 = row.sha256.as_ref().ok_or(DatabaseError::Damaged("a migrated file has no digest"))?;
            let line = line(&sha256.hex(), &row.name);
            digester.update(&line);
            out.write_all(&line).map_err(failed)?;
            (files, bytes) = (files + 1, bytes + row.bytes);
        }
    }
    let file = out.into_inner().map_err(|error| failed(error.into_error()))?;
    file.sync_all().map_err(failed)?;
    std::fs::rename(&new, path).map_err(failed)?;
    Ok(Certificate { files, bytes, list_sha256: digester.finish().pop().expect("one digest for one algorithm") })
}

/// A line of GNU's format, which escapes line breaks and backslashes. The name is that of the file
/// in a folder.
fn line(hex: &str, location: &str) -> Vec<u8> {
    let is_escaped = location.contains(['\n', '\r', '\\']);
    let escaped = location.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r");
    let (mark, name) = if is_escaped { ("\\", &*escaped) } else { ("", location) };
    [mark.as_bytes(), hex.as_bytes(), b"  ", &name_at(name), b"\n"].concat()
}
