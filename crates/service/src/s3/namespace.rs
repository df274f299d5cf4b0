//! The namespace: buckets, versions, and their state. Everything that S3 operations look up or set
//! without reading or writing content.

use std::sync::Arc;

use fulgurite_archive::Archive;
use fulgurite_archive::catalogue::VersionRow;
use fulgurite_domain::{ObjectName, VersionId};
use s3s::{S3Result, s3_error};

use crate::s3::errors::{catalogue_failed, detailed, no_such_bucket, no_such_key, state_failed};
use crate::s3::object_names::object_name;
use crate::s3::page_positions::PagePositions;
use crate::s3::version::{Version, http_date};
use crate::state::{Bucket, State};

/// Buckets and versions: the catalogue, with the service's state on top.
pub(crate) struct Namespace {
    pub(crate) archive: Arc<Archive>,
    pub(crate) state: Arc<State>,
    /// The region that the server reports.
    pub(crate) region: String,
    /// The ends of pages of versions that were listed last.
    pub(crate) page_positions: PagePositions,
}

impl Namespace {
    /// The bucket of this name, or `NoSuchBucket`.
    pub(crate) fn bucket(&self, name: &str) -> S3Result<Arc<Bucket>> {
        self.state.bucket(name).map_err(state_failed)?.ok_or_else(no_such_bucket)
    }

    /// The newest version of an object, which may be a deletion marker. `None` if the name has no
    /// version.
    pub(crate) fn newest(&self, bucket: &str, key: &str) -> S3Result<Option<Version>> {
        let row = self.archive.reading().newest(&object_name(bucket, key)).map_err(catalogue_failed)?;
        Ok(row.map(Version::new))
    }

    /// The version with this S3 version ID; `null` names the one without an ID.
    pub(crate) fn by_id(&self, bucket: &str, key: &str, id: &str) -> S3Result<Option<Version>> {
        let name = object_name(bucket, key);
        if id == "null" {
            let row = self.archive.reading().null_version(&name).map_err(catalogue_failed)?;
            return Ok(row.map(Version::new));
        }
        let id: VersionId = id.parse().map_err(|_| s3_error!(InvalidArgument, "Invalid version id specified"))?;
        let row = self.archive.reading().version(&name, id).map_err(catalogue_failed)?;
        Ok(row.map(Version::new).filter(|version| !version.is_null()))
    }

    /// All versions of a name, newest first.
    pub(crate) fn versions(&self, name: &ObjectName) -> S3Result<Vec<VersionRow>> {
        self.archive.reading().versions_of(name).map_err(catalogue_failed)
    }

    /// The version that a request reads: the newest, or the one with the given ID. A missing
    /// version or a deletion marker is returned as the S3 error.
    pub(crate) fn find(&self, bucket: &str, key: &str, id: Option<&str>) -> S3Result<Version> {
        let found = id.map_or_else(|| self.newest(bucket, key), |id| self.by_id(bucket, key, id))?;
        let no_such_key = || detailed(no_such_key(), &[("Key", key)]);
        Err(match (found, id) {
            (Some(version), _) if !version.is_marker() => return Ok(version),
            (None, None) => no_such_key(),
            (None, Some(id)) => {
                let error = s3_error!(NoSuchVersion, "The specified version does not exist.");
                detailed(error, &[("Key", key), ("VersionId", id)])
            }
            (Some(marker), None) => {
                let mut error = no_such_key();
                error.set_headers(marker_headers(&marker));
                error
            }
            (Some(marker), Some(_)) => {
                let mut error = s3_error!(MethodNotAllowed, "The specified method is not allowed against this resource.");
                let mut headers = marker_headers(&marker);
                headers.insert("allow", http::HeaderValue::from_static("DELETE"));
                error.set_headers(headers);
                error
            }
        })
    }
}

fn marker_headers(version: &Version) -> http::HeaderMap {
    let mut headers = http::HeaderMap::new();
    headers.insert("x-amz-delete-marker", http::HeaderValue::from_static("true"));
    if let Ok(id) = http::HeaderValue::from_str(&version.id()) {
        headers.insert("x-amz-version-id", id);
    }
    if let Some(modified) = http_date(&version.modified()) {
        headers.insert("last-modified", modified);
    }
    headers
}
