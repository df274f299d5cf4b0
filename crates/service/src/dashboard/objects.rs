//! Buckets, their objects, and the evidence of an object's copies.

use fulgurite_archive::CopyState;
use fulgurite_archive::catalogue::{VersionRow, Versions};
use s3s::{S3Result, s3_error};
use serde_json::{Value, json};

use crate::dashboard::blocking;
use crate::fixity::rfc_3339;
use crate::gateway::Gateway;
use crate::http::query::parameter;
use crate::s3::errors::state_failed;
use crate::s3::list::{SKIPPED_NAMES_MAX, VersionRows};
use crate::s3::object_names::object_name;
use crate::s3::pages::{Entry, Last, Parameters, Rows, Token, decode_token, encode_token, page};
use crate::s3::version::{Version, shown_id};
use crate::state::Bucket;

/// Entries of a page.
const PAGE_ENTRIES: usize = 100;
/// Maximum number of versions that are listed with an object.
const VERSIONS_MAX: usize = 100;

impl Gateway {
    pub(super) fn dashboard_buckets(&self) -> S3Result<Value> {
        let buckets = tokio::task::block_in_place(|| self.state.buckets(None)).map_err(state_failed)?;
        let buckets: Vec<Value> = buckets.iter().map(|bucket| json!({ "name": bucket.name, "owner": bucket.owner })).collect();
        Ok(json!({ "buckets": buckets }))
    }

    /// A page of a bucket: the common prefixes up to the next slash, and the newest versions with
    /// the state of their copies.
    pub(super) fn dashboard_objects(&self, query: Option<&str>) -> S3Result<Value> {
        let bucket = self.dashboard_bucket(query)?;
        let parameters = Parameters {
            prefix: parameter(query, "prefix").unwrap_or_default(),
            delimiter: Some("/".to_owned()),
            limit: PAGE_ENTRIES,
            encoding: None,
        };
        let rows = VersionRows::new(&self.namespace, &bucket.name, &parameters.prefix, Versions::Newest);
        let after = match parameter(query, "after").filter(|token| !token.is_empty()) {
            None => None,
            Some(token) => match decode_token(&token) {
                None => return Err(s3_error!(InvalidArgument, "The token of the page is wrong.")),
                Some(Token::Key(key)) => parameters.after_key(&rows, &key),
                Some(Token::Prefix(start)) => rows.after(Last::Prefix(&start)),
            },
        };
        let page = tokio::task::block_in_place(|| page(&rows, &parameters, SKIPPED_NAMES_MAX, after))?;
        let last = page.last().map(|entry| Token::Key(entry.key().to_owned()));
        let next = page.resume_prefix.clone().map(Token::Prefix).or(last).map(|token| encode_token(&token));
        let (mut prefixes, mut objects) = (Vec::new(), Vec::new());
        for entry in page.entries {
            match entry {
                Entry::Prefix(prefix) => prefixes.push(prefix),
                Entry::Row(key, row) => objects.extend(self.listed_object(&key, &row)?),
            }
        }
        Ok(json!({ "bucket": bucket.name, "prefix": parameters.prefix, "prefixes": prefixes, "objects": objects, "next": next }))
    }

    /// An object in a listing; `None` if it was removed meanwhile.
    fn listed_object(&self, key: &str, row: &VersionRow) -> S3Result<Option<Value>> {
        let look_up = || self.archive.fixity(row, &|store| self.store_state(store));
        let Some(fixity) = blocking("looking for the copies of an object", look_up)? else { return Ok(None) };
        let version = Version::new(fixity.version.clone());
        Ok(Some(json!({
            "key": key,
            "bytes": version.size(),
            "created": rfc_3339(version.row.record.created_ms / 1_000),
            "class": version.class(),
            "is_staged": fixity.staged.is_some(),
            "state": fixity.worst_state().map(CopyState::word),
            "oldest_verified": fixity.oldest_verified().and_then(rfc_3339),
            "platters_to_spare": fixity.platters_to_spare(),
            "platters_short": fixity.platters_short(),
        })))
    }

    /// The evidence of an object's copies, as `?fixity` answers, with `versions`: those of the same
    /// key, newest first.
    pub(super) fn dashboard_object(&self, query: Option<&str>) -> S3Result<Value> {
        let bucket = self.dashboard_bucket(query)?;
        let key = parameter(query, "key").unwrap_or_default();
        let version_id = parameter(query, "versionId");
        let (mut evidence, _) = self.evidence(&bucket, &key, version_id.as_deref(), |error| error)?;
        let name = object_name(&bucket.name, &key);
        let list = || self.archive.reading().list(&name.0, Versions::All, None, VERSIONS_MAX + 1);
        let mut rows = blocking("listing the versions of an object", list)?;
        // Longer names that start with this one follow.
        rows.retain(|row| row.record.name == name);
        let has_more = rows.len() > VERSIONS_MAX;
        rows.truncate(VERSIONS_MAX);
        let versions: Vec<Value> = rows.into_iter().map(|row| version_json(&bucket, Version::new(row))).collect();
        evidence["versions"] = json!(versions);
        evidence["has_more_versions"] = json!(has_more);
        Ok(evidence)
    }

    fn dashboard_bucket(&self, query: Option<&str>) -> S3Result<std::sync::Arc<Bucket>> {
        self.namespace.bucket(&parameter(query, "bucket").unwrap_or_default())
    }
}

fn version_json(bucket: &Bucket, version: Version) -> Value {
    json!({
        "version_id": shown_id(bucket, &version),
        "bytes": version.size(),
        "created": rfc_3339(version.row.record.created_ms / 1_000),
        "is_marker": version.is_marker(),
        "is_staged": !version.row.archived,
    })
}
