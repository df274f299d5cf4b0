//! Bulk puts: many small objects with one request. Only Fulgurite's servers have them.

use bytes::Bytes;
use hyper::body::Incoming;
use serde::Deserialize;
use tar::{Builder, EntryType, Header};

use crate::connection::{Failure, next_frame};
use crate::server::Server;

/// The query of a bulk put. A value, even an empty one, is what all signers agree on.
pub const BULK_PUT_QUERY: &str = "store=";
/// Maximum length of the archive of a bulk put.
pub const ARCHIVE_BYTES_MAX: usize = 16 << 20;
/// The most that an object may take of the archive besides its content, unless it has headers.
pub const ENTRY_BYTES_MAX: usize = 6 * 512;
/// More than a line of the result has: a key of 1,024 bytes, escaped, a code and a message.
pub const BULK_PUT_LINE_BYTES_MAX: usize = 16 << 10;
/// Maximum length of a name in a plain header.
const NAME_BYTES: usize = 100;
/// The record with the key of an object whose name can't be its key.
const KEY: &str = "SCHILY.xattr.user.fulgurite.key";

/// The objects of a bulk put, as the tar archive that is its body.
pub struct BulkPut {
    archive: Builder<Vec<u8>>,
    count: usize,
}

impl std::fmt::Debug for BulkPut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BulkPut").field("count", &self.count).field("bytes", &self.bytes()).finish()
    }
}

impl Default for BulkPut {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl BulkPut {
    /// Room for an archive of this many bytes.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { archive: Builder::new(Vec::with_capacity(bytes)), count: 0 }
    }

    /// Appends an object. `headers` are those of its put, with names in lower case.
    pub fn push(&mut self, key: &str, headers: &[(&str, &str)], content: &[u8]) {
        // Of others, the server would drop a leading `./`, or take them for folders.
        let is_plain =
            key.len() <= NAME_BYTES && key.bytes().all(|byte| byte.is_ascii_graphic()) && !key.starts_with("./") && !key.ends_with('/');
        let names: Vec<String> = headers.iter().map(|(name, _)| format!("SCHILY.xattr.user.fulgurite.{name}")).collect();
        let key_record = (!is_plain).then_some((KEY, key.as_bytes()));
        let records = names.iter().zip(headers).map(|(name, (_, value))| (name.as_str(), value.as_bytes()));
        let records: Vec<(&str, &[u8])> = key_record.into_iter().chain(records).collect();
        self.archive.append_pax_extensions(records).expect("memory takes everything");
        let mut header = Header::new_ustar();
        let name = if is_plain { key } else { "object" };
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        header.set_entry_type(EntryType::Regular);
        header.set_cksum();
        self.archive.append(&header, content).expect("memory takes everything");
        self.count += 1;
    }

    /// Number of objects.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes of the archive so far.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.archive.get_ref().len()
    }

    /// The archive.
    #[must_use]
    pub fn finish(self) -> Bytes {
        self.archive.into_inner().expect("memory takes everything").into()
    }
}

/// What became of an object of a bulk put.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct BulkPutLine {
    /// Its key.
    pub key: String,
    /// Its ETag, without quotes, if it was stored.
    pub etag: Option<String>,
    /// S3's code, such as `PreconditionFailed`, if it was not.
    pub code: Option<String>,
    /// S3's message.
    pub message: Option<String>,
}

impl Server {
    /// The path of a bulk put.
    #[must_use]
    pub fn bulk_put_path(&self) -> String {
        format!("/{}?{BULK_PUT_QUERY}", self.bucket())
    }
}

/// Reads the result of a bulk put of `count` objects: a line for each, in their order.
///
/// # Errors
/// [`Failure`] if the connection fails, or the result is malformed.
pub async fn read_bulk_put(mut body: Incoming, count: usize) -> Result<Vec<BulkPutLine>, Failure> {
    let mut json = Vec::new();
    while let Some(frame) = next_frame(&mut body).await {
        json.extend_from_slice(frame?.data_ref().map_or(&[], |data| data));
        if json.len() > (count + 1) * BULK_PUT_LINE_BYTES_MAX {
            return Err("invalid answer".to_owned());
        }
    }
    parse_bulk_put(&json, count).ok_or_else(|| "invalid answer".to_owned())
}

/// Parses the result of a bulk put of `count` objects. `None` if it has no line for each.
#[must_use]
pub fn parse_bulk_put(json: &[u8], count: usize) -> Option<Vec<BulkPutLine>> {
    #[derive(Deserialize)]
    struct Report {
        objects: Vec<BulkPutLine>,
    }
    let report: Report = serde_json::from_slice(json).ok()?;
    let is_complete = |line: &BulkPutLine| line.etag.is_some() != line.code.is_some();
    (report.objects.len() == count && report.objects.iter().all(is_complete)).then_some(report.objects)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn keys_are_names_or_else_records() {
        let mut bulk_put = BulkPut::default();
        let long = "k".repeat(101);
        let keys = ["a", "a/b", "./a", "é", "with space", &long, "trailing/"];
        keys.iter().for_each(|key| bulk_put.push(key, &[("content-type", "image/fits")], key.as_bytes()));
        assert_eq!(bulk_put.count(), keys.len());
        let archive = bulk_put.finish();
        let mut reader = tar::Archive::new(&archive[..]);
        for (entry, key) in reader.entries().expect("an archive").zip(keys) {
            let mut entry = entry.expect("an entry");
            let mut content = String::new();
            entry.read_to_string(&mut content).expect("content");
            let name = String::from_utf8(entry.path_bytes().into_owned()).expect("a name");
            let records = entry.pax_extensions().expect("records").expect("some");
            let records: Vec<_> = records.map(|record| record.expect("a record")).collect();
            let record = |name: &str| records.iter().find(|record| record.key() == Ok(name)).map(|record| record.value().expect("text"));
            assert_eq!((record(KEY).unwrap_or(&name), content.as_str()), (key, key));
            assert_eq!(record("SCHILY.xattr.user.fulgurite.content-type"), Some("image/fits"));
            assert_eq!(record(KEY).is_none(), ["a", "a/b"].contains(&key), "{key}");
        }
    }

    #[test]
    fn an_object_takes_no_more_of_the_archive_than_announced() {
        for key in ["k".repeat(1_024), "é".repeat(512), "short".to_owned()] {
            let mut bulk_put = BulkPut::default();
            bulk_put.push(&key, &[], &[0; 513]);
            let before = bulk_put.bytes();
            assert!(before <= 513 + ENTRY_BYTES_MAX, "{before}");
            assert!(bulk_put.finish().len() <= before + 1_024);
        }
    }
}
