//! Multipart uploads in progress.

use std::sync::Mutex;

use fulgurite_domain::{Attributes, VersionId};
use fulgurite_format::{WrappedKey, decode_attributes, encode_attributes};
use rusqlite::{Row, params};

use super::{State, StateError, hex, now_ms, query_all, query_one, random};

/// A multipart upload. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MultipartUpload {
    pub(crate) id: String,
    pub(crate) bucket: String,
    /// The key of the future object.
    pub(crate) key: String,
    pub(crate) account: String,
    pub(crate) created_ms: i64,
    pub(crate) checksum_algorithm: Option<String>,
    /// Whether the object's checksum covers all its bytes or its parts' checksums.
    pub(crate) checksum_type: Option<String>,
    pub(crate) attributes: Attributes,
}

/// Where an upload belongs.
#[derive(Debug)]
pub(crate) struct UploadKey {
    pub(crate) id: String,
    pub(crate) bucket: String,
    pub(crate) key: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// Part number, from 1.
    pub(crate) number: u32,
    /// ID of the part's file, also bound into the encryption of its frames.
    pub(crate) file: VersionId,
    /// The key of its frames; parts are encrypted in every archive. A part without a key is
    /// unreadable.
    pub(crate) wrapped: Option<WrappedKey>,
    pub(crate) size: u64,
    pub(crate) md5: [u8; 16],
    /// Checksum in Base64, by the upload's algorithm.
    pub(crate) checksum: Option<String>,
    pub(crate) modified_ms: i64,
}

const COLUMNS: &str = "id, bucket, key, account, created, checksum_algorithm, checksum_type, attributes";

/// Digits of the time at the beginning of an ID.
const INSTANT_DIGITS: usize = 12;
/// Those, a counter of four digits, and 12 random bytes.
const ID_DIGITS: usize = INSTANT_DIGITS + 4 + 24;

/// This query runs every few seconds, so it needs an index.
const SELECT_OLD_UPLOADS: &str = "SELECT id FROM upload WHERE created < ?1 ORDER BY created LIMIT ?2";

impl State {
    /// Creates an upload and returns its new ID, whatever `upload.id` is; `None` if the bucket no
    /// longer exists.
    pub(crate) fn begin_upload(&self, upload: &MultipartUpload) -> Result<Option<String>, StateError> {
        // IDs sort in order of creation, as S3 lists uploads.
        let (ms, count) = next_instant();
        let id = format!("{ms:0INSTANT_DIGITS$x}{count:04x}{}", hex(&random::<12>()));
        // Encoding panics on attributes beyond the limits of a record, which are a caller's bug. It
        // runs before the lock is taken, so that no other request is affected.
        let attributes = if upload.attributes.is_empty() { Vec::new() } else { encode_attributes(&upload.attributes) };
        let begun = self.transact("begin an upload", |connection| {
            let statement = format!(
                "INSERT INTO upload ({COLUMNS}) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 WHERE EXISTS (SELECT 1 FROM bucket WHERE name = ?2)"
            );
            connection.execute(
                &statement,
                params![
                    id,
                    upload.bucket,
                    upload.key,
                    upload.account,
                    upload.created_ms,
                    upload.checksum_algorithm,
                    upload.checksum_type,
                    attributes
                ],
            )
        })?;
        Ok((begun == 1).then_some(id))
    }

    pub(crate) fn upload(&self, id: &str) -> Result<Option<MultipartUpload>, StateError> {
        self.query("look up an upload", |connection| {
            query_one(connection, &format!("SELECT {COLUMNS} FROM upload WHERE id = ?1"), [id], read)
        })
    }

    /// Up to `limit` uploads of a bucket whose keys start with `prefix`, ordered by key and ID,
    /// after the given key and ID.
    pub(crate) fn uploads(
        &self,
        bucket: &str,
        prefix: &str,
        after: (&str, &str),
        limit: usize,
    ) -> Result<Vec<MultipartUpload>, StateError> {
        self.query("list uploads", |connection| {
            let statement =
                format!("SELECT {COLUMNS} FROM upload WHERE bucket = ?1 AND key >= ?2 AND (key, id) > (?3, ?4) ORDER BY key, id");
            let mut statement = connection.prepare_cached(&statement)?;
            let rows = statement.query_map(params![bucket, prefix, after.0, after.1], read)?;
            let mut found = Vec::new();
            for upload in rows {
                let upload = upload?;
                if !upload.key.starts_with(prefix) || found.len() == limit {
                    break;
                }
                found.push(upload);
            }
            Ok(found)
        })
    }

    /// Up to `limit` uploads of all buckets by ID, after the given ID.
    pub(crate) fn upload_keys(&self, after: &str, limit: usize) -> Result<Vec<UploadKey>, StateError> {
        self.query("list the keys of uploads", |connection| {
            let statement = "SELECT id, bucket, key FROM upload WHERE id > ?1 ORDER BY id LIMIT ?2";
            query_all(connection, statement, params![after, limit as i64], |row| {
                Ok(UploadKey { id: row.get(0)?, bucket: row.get(1)?, key: row.get(2)? })
            })
        })
    }

    /// Up to `limit` uploads created before a time, oldest first.
    pub(crate) fn uploads_before(&self, ms: i64, limit: usize) -> Result<Vec<String>, StateError> {
        self.query("look for old uploads", |connection| {
            query_all(connection, SELECT_OLD_UPLOADS, params![ms, limit as i64], |row| row.get(0))
        })
    }

    /// Records a part and returns the one it replaces, if any. The outer `None` means that the
    /// upload no longer exists.
    pub(crate) fn add_part(&self, upload: &str, part: &Part) -> Result<Option<Option<Part>>, StateError> {
        self.transact("record a part", |connection| {
            if !connection.prepare_cached("SELECT 1 FROM upload WHERE id = ?1")?.exists([upload])? {
                return Ok(None);
            }
            let statement = format!("SELECT {PART_COLUMNS} FROM part WHERE upload = ?1 AND number = ?2");
            let before = query_one(connection, &statement, params![upload, part.number], read_part)?;
            connection.execute(
                "INSERT OR REPLACE INTO part (upload, number, file, wrapped, size, md5, checksum, modified) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![
                    upload,
                    part.number,
                    part.file.0,
                    part.wrapped.as_ref().map(|wrapped| wrapped.0),
                    part.size as i64,
                    part.md5,
                    part.checksum,
                    part.modified_ms
                ],
            )?;
            Ok(Some(before))
        })
    }

    /// Up to `limit` parts of an upload by number, after number `after`.
    pub(crate) fn parts(&self, upload: &str, after: u32, limit: usize) -> Result<Vec<Part>, StateError> {
        self.query("list parts", |connection| {
            let statement = format!("SELECT {PART_COLUMNS} FROM part WHERE upload = ?1 AND number > ?2 ORDER BY number LIMIT ?3");
            query_all(connection, &statement, params![upload, after, limit as i64], read_part)
        })
    }

    /// Ends an upload and returns its parts, whose files are no longer needed. `None` if it has
    /// already ended.
    pub(crate) fn end_upload(&self, id: &str) -> Result<Option<Vec<Part>>, StateError> {
        self.transact("end an upload", |connection| {
            let statement = format!("SELECT {PART_COLUMNS} FROM part WHERE upload = ?1 ORDER BY number");
            let parts = query_all(connection, &statement, [id], read_part)?;
            Ok((connection.execute("DELETE FROM upload WHERE id = ?1", [id])? == 1).then_some(parts))
        })
    }

    pub(crate) fn knows_part(&self, file: VersionId) -> Result<bool, StateError> {
        self.query("look up a part", |connection| connection.prepare_cached("SELECT 1 FROM part WHERE file = ?1")?.exists([file.0]))
    }
}

/// When the upload with this ID was begun, in milliseconds since 1970; `None` for texts that are
/// not IDs of uploads.
pub(crate) fn begun_ms(upload_id: &str) -> Option<u64> {
    let is_id = upload_id.len() == ID_DIGITS && upload_id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_id.then(|| u64::from_str_radix(&upload_id[..INSTANT_DIGITS], 16).ok()).flatten()
}

/// The time in milliseconds since 1970, with a counter for equal times. Strictly increasing while
/// the process runs.
fn next_instant() -> (i64, u16) {
    static LAST: Mutex<(i64, u16)> = Mutex::new((0, 0));
    let mut last = LAST.lock().expect("nothing panics while it holds this lock");
    let now = now_ms();
    *last = match last.1.checked_add(1) {
        _ if now > last.0 => (now, 0),
        Some(count) => (last.0, count),
        None => (last.0 + 1, 0),
    };
    *last
}

const PART_COLUMNS: &str = "number, file, wrapped, size, md5, checksum, modified";

fn read_part(row: &Row<'_>) -> rusqlite::Result<Part> {
    let wrapped: Option<[u8; 40]> = row.get(2)?;
    Ok(Part {
        number: row.get(0)?,
        file: VersionId(row.get(1)?),
        wrapped: wrapped.map(WrappedKey),
        size: row.get::<_, i64>(3)? as u64,
        md5: row.get(4)?,
        checksum: row.get(5)?,
        modified_ms: row.get(6)?,
    })
}

fn read(row: &Row<'_>) -> rusqlite::Result<MultipartUpload> {
    let attributes: Vec<u8> = row.get(7)?;
    // The format has no empty map.
    let attributes = if attributes.is_empty() {
        Attributes::default()
    } else {
        decode_attributes(&attributes)
            .map_err(|error| rusqlite::Error::FromSqlConversionFailure(7, rusqlite::types::Type::Blob, Box::new(error)))?
    };
    Ok(MultipartUpload {
        id: row.get(0)?,
        bucket: row.get(1)?,
        key: row.get(2)?,
        account: row.get(3)?,
        created_ms: row.get(4)?,
        checksum_algorithm: row.get(5)?,
        checksum_type: row.get(6)?,
        attributes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::file;

    #[test]
    fn old_uploads_are_found_by_index() {
        let folder = tempfile::tempdir().expect("a folder");
        let connection = file::open(&folder.path().join("service.db"), fulgurite_domain::ArchiveId([1; 16])).expect("a file");
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {SELECT_OLD_UPLOADS}")).expect("a plan");
        let plan = statement.query_map([5, 5], |row| row.get::<_, String>(3)).expect("a plan");
        let plan: Vec<String> = plan.map(|step| step.expect("a step")).collect();
        assert!(plan.len() == 1 && plan[0].contains("upload_by_age (created<?)"), "{plan:?}");
    }
}
