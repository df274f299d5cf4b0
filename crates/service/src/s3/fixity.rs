//! The evidence of an object's copies, an extension of S3: `GET /bucket/key?fixity`.
//!
//! For S3 it is a GetObject, so callers that may read an object may ask for its evidence. It reads
//! neither platters nor staging, only the catalogue, so archived objects need no restore.

use bytes::Bytes;
use fulgurite_archive::unread::Hindrance;
use futures_util::{StreamExt, stream};
use http::Uri;
use s3s::dto::{GetObjectInput, GetObjectOutput};
use s3s::{S3Error, S3Request, S3Response, S3Result};
use serde_json::{Value, json};

use crate::auth::caller::Caller;
use crate::fixity::to_json;
use crate::gateway::Gateway;
use crate::http::query::has_parameter;
use crate::memory::MemoryOwner;
use crate::s3::Answer;
use crate::s3::errors::{busy, internal_error};
use crate::s3::version::{Version, shown_id};
use crate::state::Bucket;
use crate::transfer::download;

/// Maximum number of further lookups of an object that is replaced while its copies are looked up.
const RETRIES_MAX: u32 = 8;

/// Whether a GetObject asks for the evidence instead of the content.
pub(super) fn is_asked(uri: &Uri) -> bool {
    has_parameter(uri.query(), "fixity")
}

impl Gateway {
    pub(super) fn fixity(&self, request: &S3Request<GetObjectInput>) -> Answer<GetObjectOutput> {
        let S3Request { input, extensions, .. } = request;
        let bucket = self.namespace.bucket(&input.bucket)?;
        let hide_missing = |error| self.namespace.hide_missing(extensions.get::<Caller>(), &bucket, error);
        let (body, version_id) = self.evidence(&bucket, &input.key, input.version_id.as_deref(), hide_missing)?;
        let body = Bytes::from(format!("{body}\n"));
        let length = body.len() as u64;
        let Some(reservation) = self.buffered_responses.try_reserve(&MemoryOwner::own(), body.len()) else {
            return Err(busy("Too many long answers wait for their clients. Please reduce your request rate.", 5));
        };
        // The reservation is released with the body.
        let pieces = stream::iter([Ok(body)]).map(move |piece| {
            let _ = &reservation;
            piece
        });
        let output = GetObjectOutput {
            body: Some(download::blob(pieces, length)),
            content_length: Some(length as i64),
            content_type: Some("application/json".to_owned()),
            version_id,
            ..GetObjectOutput::default()
        };
        Ok(S3Response::new(output))
    }

    /// The evidence of an object's copies as JSON, and its version ID as S3 shows it. An error that
    /// the object is missing passes through `hide_missing`.
    pub(crate) fn evidence(
        &self,
        bucket: &Bucket,
        key: &str,
        version_id: Option<&str>,
        hide_missing: impl Fn(S3Error) -> S3Error,
    ) -> S3Result<(Value, Option<String>)> {
        let mut attempts = 0;
        let fixity = loop {
            let version = self.namespace.find(&bucket.name, key, version_id).map_err(&hide_missing)?;
            let look_up = || self.archive.fixity(&version.row, &|store| self.store_state(store));
            match tokio::task::block_in_place(look_up).map_err(internal_error("looking for the copies of an object"))? {
                Some(fixity) => break fixity,
                // It was replaced since it was found: look for its successor.
                None if attempts < RETRIES_MAX => attempts += 1,
                None => return Err(busy("The object changes too fast to look for its copies. Try again.", 1)),
            }
        };
        let version_id = shown_id(bucket, &Version::new(fixity.version.clone()));
        let mut body = to_json(&fixity);
        body["bucket"] = json!(bucket.name);
        body["key"] = json!(key);
        body["version_id"] = json!(version_id);
        Ok((body, version_id))
    }

    /// Why a store can't be used, by the last check of the stores; `None` if it can.
    pub(crate) fn store_state(&self, name: &str) -> Option<Hindrance> {
        let checked = self.health.stores.last_result();
        let is_in = |names: &[String]| names.iter().any(|known| known == name);
        if is_in(&checked.usable) {
            return None;
        }
        if is_in(&checked.absent) {
            return Some(Hindrance::Absent);
        }
        if is_in(&checked.unreadable) {
            return Some(Hindrance::Unreadable);
        }
        // The stores were not checked yet, or the settings no longer name this one.
        match self.archive.store(name).map(|store| store.check()) {
            None => Some(Hindrance::Absent),
            Some(Ok(())) => None,
            Some(Err(error)) => Some(error.hindrance()),
        }
    }
}
