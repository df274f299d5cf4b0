//! Tags: up to ten per object and fifty per bucket, stored URL-encoded as in the header.
//!
//! The tags of an object that are set at the put are an attribute; later changes are in the state.

use s3s::dto::{self, Tag};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::gateway::Gateway;
use crate::http::url_encoding;
use crate::s3::Answer;
use crate::s3::errors::state_failed;
use crate::s3::namespace::Namespace;
use crate::s3::object_names::object_name;
use crate::s3::version::{Version, attribute, shown_id};
use crate::state::VersionState;

/// Maximum number of tags of an object.
pub(crate) const OBJECT_TAGS_MAX: usize = 10;
/// Maximum number of tags of a bucket.
pub(crate) const BUCKET_TAGS_MAX: usize = 50;

/// Maximum number of characters of a tag's key.
const KEY_CHARS_MAX: usize = 128;
/// Maximum number of characters of a tag's value.
const VALUE_CHARS_MAX: usize = 256;

/// Parses `x-amz-tagging`: `name=value&name=value`, each URL-encoded.
pub(crate) fn parse(text: &str) -> S3Result<Vec<Tag>> {
    let decode = |text: &str| {
        url_encoding::decode(text).ok_or_else(|| {
            s3_error!(
                InvalidArgument,
                "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name duplicates."
            )
        })
    };
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    let tags = pairs.map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok(Tag { key: Some(decode(key)?), value: Some(decode(value)?) })
    });
    tags.collect()
}

/// Checks tags against the limits of S3.
pub(crate) fn check(tags: &[Tag], tags_max: usize) -> S3Result<()> {
    if tags.len() > tags_max {
        return Err(s3_error!(
            InvalidTag,
            "{} tags cannot be greater than {tags_max}",
            if tags_max == OBJECT_TAGS_MAX { "Object" } else { "Bucket" }
        ));
    }
    let mut names = std::collections::BTreeSet::new();
    for tag in tags {
        let (key, value) = (tag.key.as_deref().unwrap_or_default(), tag.value.as_deref().unwrap_or_default());
        if key.is_empty() || key.chars().count() > KEY_CHARS_MAX {
            return Err(s3_error!(InvalidTag, "The TagKey you have provided is invalid"));
        }
        if value.chars().count() > VALUE_CHARS_MAX {
            return Err(s3_error!(InvalidTag, "The TagValue you have provided is invalid"));
        }
        let is_allowed = |c: char| c.is_alphanumeric() || c == ' ' || "+-=._:/@".contains(c);
        if !key.chars().all(is_allowed) {
            return Err(s3_error!(InvalidTag, "The TagKey you have provided is invalid"));
        }
        if !value.chars().all(is_allowed) {
            return Err(s3_error!(InvalidTag, "The TagValue you have provided is invalid"));
        }
        if key.starts_with("aws:") {
            return Err(s3_error!(InvalidTag, "System tags cannot be added/updated by requester"));
        }
        if !names.insert(key) {
            return Err(s3_error!(InvalidTag, "Cannot provide multiple Tags with the same key"));
        }
    }
    Ok(())
}

/// Encodes tags for storage.
pub(crate) fn encode(tags: &[Tag]) -> String {
    let encode = |text: &Option<String>| url_encoding::encode(text.as_deref().unwrap_or_default());
    let pair = |tag: &Tag| format!("{}={}", encode(&tag.key), encode(&tag.value));
    tags.iter().map(pair).collect::<Vec<_>>().join("&")
}

impl Namespace {
    /// The tags of a version.
    pub(crate) fn tags_of(&self, version: &Version) -> S3Result<Vec<Tag>> {
        let tags = self.state.version(version.row.id).map_err(state_failed)?.tags;
        parse(&tags.or_else(|| version.text(attribute::TAGS)).unwrap_or_default())
    }

    pub(crate) fn get_tags(&self, request: S3Request<dto::GetObjectTaggingInput>) -> Answer<dto::GetObjectTaggingOutput> {
        let input = request.input;
        let bucket = self.bucket(&input.bucket)?;
        let version = self.find(&bucket.name, &input.key, input.version_id.as_deref())?;
        let mut tag_set = self.tags_of(&version)?;
        // Sorted by name, whatever their order at the put.
        tag_set.sort_by(|one, other| one.key.cmp(&other.key));
        let output = dto::GetObjectTaggingOutput { tag_set, version_id: shown_id(&bucket, &version) };
        Ok(S3Response::new(output))
    }
}

impl Gateway {
    pub(crate) async fn put_tags(&self, request: S3Request<dto::PutObjectTaggingInput>) -> Answer<dto::PutObjectTaggingOutput> {
        let granted = self.namespace.granted(&request.extensions, &request.input.bucket)?;
        let input = request.input;
        check(&input.tagging.tag_set, OBJECT_TAGS_MAX)?;
        // A removal by a lifecycle rule that has already looked at the tags finishes first.
        let _key_guard = self.key_locks.lock(object_name(&granted.name, &input.key)).await;
        let _shared = self.bucket_locks.shared(&granted.name).await;
        let bucket = granted.current(&self.namespace)?;
        let version = self.namespace.find(&bucket.name, &input.key, input.version_id.as_deref())?;
        let change = VersionState { tags: Some(encode(&input.tagging.tag_set)), ..VersionState::default() };
        self.state.change_version(version.row.id, &change).map_err(state_failed)?;
        Ok(S3Response::new(dto::PutObjectTaggingOutput { version_id: shown_id(&bucket, &version) }))
    }

    pub(crate) async fn delete_tags(&self, request: S3Request<dto::DeleteObjectTaggingInput>) -> Answer<dto::DeleteObjectTaggingOutput> {
        let granted = self.namespace.granted(&request.extensions, &request.input.bucket)?;
        let input = request.input;
        // A removal by a lifecycle rule that has already looked at the tags finishes first.
        let _key_guard = self.key_locks.lock(object_name(&granted.name, &input.key)).await;
        let _shared = self.bucket_locks.shared(&granted.name).await;
        let bucket = granted.current(&self.namespace)?;
        let version = self.namespace.find(&bucket.name, &input.key, input.version_id.as_deref())?;
        let change = VersionState { tags: Some(String::new()), ..VersionState::default() };
        self.state.change_version(version.row.id, &change).map_err(state_failed)?;
        let output = dto::DeleteObjectTaggingOutput { version_id: shown_id(&bucket, &version) };
        Ok(S3Response::with_status(output, http::StatusCode::NO_CONTENT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_round_trip() {
        let tags = vec![
            Tag { key: Some("a b&c=d".into()), value: Some("é+%".into()) },
            Tag { key: Some("empty".into()), value: Some(String::new()) },
        ];
        assert_eq!(parse(&encode(&tags)).expect("tags"), tags);
        assert!(parse("%f").is_err() && parse("%ff=x").is_err());
    }
}
