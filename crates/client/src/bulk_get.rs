//! Bulk gets: many objects with one request. Only Fulgurite's servers have them.
//!
//! The response is a tar archive whose last entry gives the result for each object; without it the
//! response is incomplete.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The query of a bulk get.
pub const BULK_GET_QUERY: &str = "retrieve=";
/// The query for the order in which a bulk get would read the objects.
pub const BULK_GET_ORDER_QUERY: &str = "order=&retrieve=";
/// The name of the last entry.
const REPORT: &str = "result.json";

/// A requested object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Requested {
    /// Its key.
    pub key: String,
    /// Its version; `None` for the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_id: Option<String>,
    /// The requested bytes, as in the header `Range`; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
}

impl Requested {
    /// The newest version of a key, whole.
    #[must_use]
    pub fn new(key: &str) -> Self {
        Self { key: key.to_owned(), version_id: None, range: None }
    }
}

/// The body of a request for these objects.
#[must_use]
pub fn bulk_get_body(objects: &[Requested]) -> Bytes {
    #[derive(Serialize)]
    struct Body<'a> {
        objects: &'a [Requested],
    }
    serde_json::to_vec(&Body { objects }).expect("texts are JSON").into()
}

/// The server's result for one object.
#[derive(Debug, Deserialize)]
pub struct BulkGetLine {
    /// Its key.
    pub key: String,
    /// Its version, if the bucket keeps versions.
    pub version_id: Option<String>,
    /// Name of its entry, if it was sent.
    pub entry: Option<String>,
    /// Bytes of its content, or of the part of it, if it was sent.
    pub size: Option<u64>,
    /// S3's code; `None` if the object was sent.
    pub code: Option<String>,
    /// S3's message.
    pub message: Option<String>,
}

/// The last entry of a response.
#[derive(Debug, Deserialize)]
pub struct BulkGetReport {
    /// The results, in the order of the request.
    pub objects: Vec<BulkGetLine>,
}

/// Why a response can't be used.
#[derive(Debug, thiserror::Error)]
pub enum BulkGetError {
    /// It ended early: the server does that when it can't read the rest of a large object.
    #[error("the response ended early{}", .0.as_ref().map_or(String::new(), |error| format!(": {error}")))]
    Ended(Option<io::Error>),
    /// It isn't a valid response to a bulk get.
    #[error("{0}")]
    Malformed(String),
}

impl From<io::Error> for BulkGetError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::InvalidData { Self::Malformed(error.to_string()) } else { Self::Ended(Some(error)) }
    }
}

/// Passes each entry of a response and its name to `each`, and returns the report at the end.
///
/// # Errors
/// [`BulkGetError`]; errors of `each` count as those of `reader`.
pub fn read_bulk_get<R: Read>(
    reader: R,
    mut each: impl FnMut(&mut tar::Entry<'_, R>, String) -> io::Result<()>,
) -> Result<BulkGetReport, BulkGetError> {
    let mut archive = tar::Archive::new(reader);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = name_of(&mut entry)?;
        if name == REPORT {
            let mut text = Vec::new();
            entry.read_to_end(&mut text)?;
            return serde_json::from_slice(&text).map_err(|error| BulkGetError::Malformed(error.to_string()));
        }
        each(&mut entry, name)?;
    }
    Err(BulkGetError::Ended(None))
}

/// The name of an entry. The server puts a name that doesn't fit the header into the first record.
/// Later records named `path` are part of a key: the crate splits records at newlines.
fn name_of<R: Read>(entry: &mut tar::Entry<'_, R>) -> io::Result<String> {
    let first = entry.pax_extensions()?.and_then(|mut records| records.next()).and_then(Result::ok);
    let long = first.filter(|record| record.key_bytes() == b"path").map(|record| record.value_bytes().to_vec());
    let name = long.unwrap_or_else(|| entry.header().path_bytes().into_owned());
    String::from_utf8(name).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

impl BulkGetReport {
    /// Checks that there is a line for each object, and that exactly the entries came that they
    /// name, as long as they say. `entries` has the length of each entry.
    ///
    /// # Errors
    /// [`BulkGetError::Malformed`].
    pub fn check(&self, objects: &[Requested], entries: &BTreeMap<String, u64>) -> Result<(), BulkGetError> {
        // An object that is listed twice is sent once, also if its range is spelled in two ways.
        let mut named = BTreeSet::new();
        for line in self.objects.iter().filter(|line| line.code.is_none()) {
            let Some(entry) = line.entry.as_deref() else { continue };
            let found = entries.get(entry).copied();
            if found.is_none() || found != line.size {
                let found = found.map_or_else(|| "no such entry".to_owned(), |size| format!("an entry of {size} bytes"));
                return Err(BulkGetError::Malformed(format!(
                    "the report has {entry:?} with {} bytes, but {found} came",
                    line.size.unwrap_or(0)
                )));
            }
            named.insert(entry);
        }
        if let Some(entry) = entries.keys().find(|entry| !named.contains(entry.as_str())) {
            return Err(BulkGetError::Malformed(format!("the report doesn't have the entry {entry:?}")));
        }
        let is_same = |(object, line): (&Requested, &BulkGetLine)| {
            object.key == line.key && (line.code.is_some() || line.entry.is_some() && line.size.is_some())
        };
        if self.objects.len() == objects.len() && objects.iter().zip(&self.objects).all(is_same) {
            return Ok(());
        }
        Err(BulkGetError::Malformed("the report doesn't have a line for each object".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(entry: Option<&str>) -> BulkGetLine {
        let size = entry.map(|_| 1);
        BulkGetLine { key: "a".to_owned(), version_id: None, entry: entry.map(str::to_owned), size, code: None, message: None }
    }

    #[test]
    fn entries_are_counted_once_for_each_name() {
        let ranged = |range: &str| Requested { range: Some(range.to_owned()), ..Requested::new("a") };
        let objects = [ranged("0-0"), ranged("00-0"), ranged("1-1")];
        let entries = ["ranges/0-0/objects/a", "ranges/0-0/objects/a", "ranges/1-1/objects/a"];
        let report = BulkGetReport { objects: entries.map(|entry| line(Some(entry))).into() };
        let came = |entries: &[(&str, u64)]| entries.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect::<BTreeMap<_, _>>();
        let both = came(&[("ranges/0-0/objects/a", 1), ("ranges/1-1/objects/a", 1)]);
        report.check(&objects, &both).expect("the first two are the same entry");
        let more = came(&[("ranges/0-0/objects/a", 1), ("ranges/1-1/objects/a", 1), ("objects/b", 1)]);
        report.check(&objects, &more).expect_err("an entry is missing from the report");
        let other = came(&[("ranges/0-0/objects/a", 1), ("objects/b", 1)]);
        report.check(&objects, &other).expect_err("as many, but others");
        let longer = came(&[("ranges/0-0/objects/a", 1), ("ranges/1-1/objects/a", 2)]);
        report.check(&objects, &longer).expect_err("another size");
        report.check(&objects[..2], &both).expect_err("a line too many");
        let nameless = BulkGetReport { objects: vec![line(None)] };
        nameless.check(&objects[..1], &came(&[])).expect_err("neither sent nor failed");
    }
}
