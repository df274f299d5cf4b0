//! Listings of objects and versions: parses requests and builds responses.

use fulgurite_archive::catalogue::{After, VersionRow, Versions};
use fulgurite_domain::VersionId;
use s3s::dto::{
    ChecksumAlgorithm, CommonPrefix, DeleteMarkerEntry, EncodingType, ListObjectVersionsInput, ListObjectVersionsOutput, ListObjectsInput,
    ListObjectsOutput, ListObjectsV2Input, ListObjectsV2Output, Object, ObjectStorageClass, ObjectVersion, ObjectVersionStorageClass,
    OptionalObjectAttributes, Owner, RestoreStatus,
};
use s3s::xml::SerializeContent;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::gateway::Gateway;
use crate::s3::errors::answers::written;
use crate::s3::errors::{catalogue_failed, state_failed};
use crate::s3::key_locks::object_name;
use crate::s3::pages::{Entry, PASSED_MAX, Token, Wanted, behind_key, decode_token, encode_token};
use crate::s3::tags::encode_text;
use crate::s3::version::{Version, timestamp};
use crate::state::Bucket;

/// Maximum number of entries of a page.
const PAGE_MAX: usize = 1_000;
/// Options of the entries in a listing.
struct Shown<'a> {
    encoding: Encoding,
    owner: Option<&'a Owner>,
    /// Whether to include the status of restores.
    restores: bool,
}

impl Gateway {
    fn owner(&self, bucket: &Bucket) -> S3Result<Owner> {
        let account = self.state.account(&bucket.owner).map_err(state_failed)?;
        Ok(Owner { display_name: Some(bucket.owner.clone()), id: account.map(|account| account.id.clone()) })
    }

    fn object(&self, key: &str, row: VersionRow, shown: &Shown<'_>) -> S3Result<Object> {
        let key = shown.encoding.of(key);
        let version = Version::new(row);
        Ok(Object {
            checksum_algorithm: algorithms(&version),
            checksum_type: (!version.sums().is_empty()).then(|| version.checksum_type()),
            e_tag: Some(version.etag()),
            key: Some(key),
            last_modified: Some(version.modified()),
            owner: shown.owner.cloned(),
            restore_status: if shown.restores { self.restore_status(&version)? } else { None },
            size: Some(version.size() as i64),
            storage_class: Some(ObjectStorageClass::from(version.class().to_owned())),
        })
    }

    /// The status of a version's restore; `None` if none was requested.
    fn restore_status(&self, version: &Version) -> S3Result<Option<RestoreStatus>> {
        if !version.is_cold() {
            return Ok(None);
        }
        let restore = self.state.restore(version.row.id).map_err(state_failed)?;
        Ok(restore.map(|restore| RestoreStatus {
            is_restore_in_progress: Some(restore.done_ms.is_none()),
            restore_expiry_date: restore.expires_ms.filter(|_| restore.done_ms.is_some()).map(timestamp),
        }))
    }

    pub(crate) fn list(&self, request: S3Request<ListObjectsInput>) -> S3Result<S3Response<ListObjectsOutput>> {
        let input = request.input;
        let bucket = self.bucket(&input.bucket)?;
        let (limit, encoding) = (limit_of(input.max_keys)?, Encoding::parse(input.encoding_type.as_ref())?);
        let prefix = input.prefix.unwrap_or_default();
        let delimiter = input.delimiter.filter(|delimiter| !delimiter.is_empty());
        let wanted = Wanted {
            bucket: &bucket.name,
            prefix: &prefix,
            delimiter: delimiter.as_deref(),
            versions: Versions::Newest,
            limit: limit.min(PAGE_MAX),
            passes: usize::MAX,
        };
        let after = input.marker.as_deref().filter(|marker| !marker.is_empty()).and_then(|marker| behind_key(&wanted, marker));
        let page = self.page(&wanted, after)?;
        let owner = self.owner(&bucket)?;
        let next = page.truncated.then(|| page.entries.last().map(|entry| entry.key().to_owned())).flatten();
        let restores = wants_restores(input.optional_object_attributes.as_deref());
        let shown = Shown { encoding, owner: Some(&owner), restores };
        let (contents, prefixes) = split(page.entries, encoding, |key, row| self.object(key, row, &shown))?;
        let output = ListObjectsOutput {
            name: Some(bucket.name.clone()),
            // Not encoded, unlike in the other listings.
            prefix: Some(prefix),
            marker: Some(encoding.of(&input.marker.unwrap_or_default())),
            max_keys: Some(limit.min(PAGE_MAX) as i32),
            is_truncated: Some(page.truncated),
            contents: Some(contents),
            common_prefixes: Some(prefixes),
            // Without a delimiter, the client can resume at the last key.
            next_marker: next.filter(|_| delimiter.is_some()).map(|key| encoding.of(&key)),
            delimiter: delimiter.map(|delimiter| encoding.of(&delimiter)),
            encoding_type: input.encoding_type,
            ..Default::default()
        };
        Ok(S3Response::new(output))
    }

    pub(crate) fn list_v2(&self, request: S3Request<ListObjectsV2Input>) -> S3Result<S3Response<ListObjectsV2Output>> {
        let input = request.input;
        let bucket = self.bucket(&input.bucket)?;
        let (limit, encoding) = (limit_of(input.max_keys)?, Encoding::parse(input.encoding_type.as_ref())?);
        let prefix = input.prefix.unwrap_or_default();
        let delimiter = input.delimiter.filter(|delimiter| !delimiter.is_empty());
        let wanted = Wanted {
            bucket: &bucket.name,
            prefix: &prefix,
            delimiter: delimiter.as_deref(),
            versions: Versions::Newest,
            limit: limit.min(PAGE_MAX),
            passes: PASSED_MAX,
        };
        let from = match &input.continuation_token {
            Some(token) => {
                Some(decode_token(token).ok_or_else(|| s3_error!(InvalidArgument, "The continuation token provided is incorrect"))?)
            }
            None => input.start_after.clone().filter(|key| !key.is_empty()).map(Token::Key),
        };
        let after = from.and_then(|from| match from {
            Token::Key(key) => behind_key(&wanted, &key),
            Token::Passed(start) => After::prefix(&[object_name(&bucket.name, "").0, start].concat()),
        });
        let page = self.page(&wanted, after)?;
        let owner = match input.fetch_owner {
            Some(true) => Some(self.owner(&bucket)?),
            _ => None,
        };
        let last = page.entries.last().map(|entry| Token::Key(entry.key().to_owned())).filter(|_| page.truncated);
        let next = page.passed.map(Token::Passed).or(last).map(|token| encode_token(&token));
        let count = page.entries.len();
        let restores = wants_restores(input.optional_object_attributes.as_deref());
        let shown = Shown { encoding, owner: owner.as_ref(), restores };
        let (contents, prefixes) = split(page.entries, encoding, |key, row| self.object(key, row, &shown))?;
        let output = ListObjectsV2Output {
            name: Some(bucket.name.clone()),
            prefix: Some(encoding.of(&prefix)),
            max_keys: Some(limit.min(PAGE_MAX) as i32),
            key_count: Some(count as i32),
            continuation_token: input.continuation_token,
            is_truncated: Some(page.truncated),
            next_continuation_token: next,
            contents: Some(contents),
            common_prefixes: Some(prefixes),
            delimiter: delimiter.map(|delimiter| encoding.of(&delimiter)),
            encoding_type: input.encoding_type,
            start_after: input.start_after.map(|key| encoding.of(&key)),
            ..Default::default()
        };
        Ok(S3Response::new(output))
    }

    pub(crate) fn list_versions(&self, request: S3Request<ListObjectVersionsInput>) -> S3Result<S3Response<ListObjectVersionsOutput>> {
        let input = request.input;
        let bucket = self.bucket(&input.bucket)?;
        let (limit, encoding) = (limit_of(input.max_keys)?, Encoding::parse(input.encoding_type.as_ref())?);
        let prefix = input.prefix.unwrap_or_default();
        let delimiter = input.delimiter.filter(|delimiter| !delimiter.is_empty());
        let wanted = Wanted {
            bucket: &bucket.name,
            prefix: &prefix,
            delimiter: delimiter.as_deref(),
            versions: Versions::All,
            limit: limit.min(PAGE_MAX),
            passes: usize::MAX,
        };
        let key_marker = input.key_marker.clone().filter(|key| !key.is_empty());
        let version_marker = input.version_id_marker.clone().filter(|id| !id.is_empty());
        let after = match (&key_marker, &version_marker) {
            (None, Some(_)) => {
                return Err(s3_error!(InvalidArgument, "A version-id marker cannot be specified without a key marker."));
            }
            (None, None) => None,
            (Some(key), None) => behind_key(&wanted, key),
            (Some(key), Some(id)) => match self.by_id(&bucket.name, key, id)? {
                Some(version) => Some(After::row(&version.row)),
                // The version was removed since: resume at the next older one.
                None => match id.parse() {
                    Ok(id) => Some(self.behind_removed(&bucket.name, key, id)?),
                    Err(_) => behind_key(&wanted, key),
                },
            },
        };
        // The first version of a name is its newest, unless the previous page ended within the
        // name.
        let mut last_key = version_marker.is_some().then(|| key_marker.clone()).flatten();
        let page = self.page(&wanted, after)?;
        let owner = self.owner(&bucket)?;
        let restores = wants_restores(input.optional_object_attributes.as_deref());
        let (mut states, mut prefixes) = (Vec::new(), Vec::new());
        let mut next = None;
        for entry in page.entries {
            match entry {
                Entry::Prefix(under) => {
                    next = Some((under.clone(), None));
                    prefixes.push(CommonPrefix { prefix: Some(encoding.of(&under)) });
                }
                Entry::Row(key, row) => {
                    let version = Version::new(*row);
                    let is_latest = last_key.as_ref() != Some(&key);
                    last_key = Some(key.clone());
                    next = Some((key.clone(), Some(version.id())));
                    if version.is_marker() {
                        states.push(State::Marker(DeleteMarkerEntry {
                            is_latest: Some(is_latest),
                            key: Some(encoding.of(&key)),
                            last_modified: Some(version.modified()),
                            owner: Some(owner.clone()),
                            version_id: Some(version.id()),
                        }));
                    } else {
                        states.push(State::Version(Box::new(ObjectVersion {
                            checksum_algorithm: algorithms(&version),
                            checksum_type: (!version.sums().is_empty()).then(|| version.checksum_type()),
                            e_tag: Some(version.etag()),
                            is_latest: Some(is_latest),
                            key: Some(encoding.of(&key)),
                            last_modified: Some(version.modified()),
                            owner: Some(owner.clone()),
                            restore_status: if restores { self.restore_status(&version)? } else { None },
                            size: Some(version.size() as i64),
                            storage_class: Some(ObjectVersionStorageClass::from(version.class().to_owned())),
                            version_id: Some(version.id()),
                        })));
                    }
                }
            }
        }
        let (next_key, next_id) = next.filter(|_| page.truncated).unzip();
        let output = ListObjectVersionsOutput {
            common_prefixes: Some(prefixes),
            delimiter: delimiter.map(|delimiter| encoding.of(&delimiter)),
            encoding_type: input.encoding_type,
            is_truncated: Some(page.truncated),
            key_marker: Some(encoding.of(&input.key_marker.unwrap_or_default())),
            version_id_marker: Some(input.version_id_marker.unwrap_or_default()),
            max_keys: Some(limit.min(PAGE_MAX) as i32),
            name: Some(bucket.name.clone()),
            next_key_marker: next_key.map(|key| encoding.of(&key)),
            next_version_id_marker: next_id.flatten(),
            prefix: Some(encoding.of(&prefix)),
            ..Default::default()
        };
        // The framework would write all versions before all markers.
        let in_one_order = written("ListVersionsResult", |xml| {
            output.serialize_content(xml)?;
            states.iter().try_for_each(|state| match state {
                State::Version(version) => xml.content("Version", &**version),
                State::Marker(marker) => xml.content("DeleteMarker", marker),
            })
        })?;
        let mut response = S3Response::new(output);
        response.extensions.insert(in_one_order);
        Ok(response)
    }

    /// Where a listing resumes after a version that was removed: IDs are in order of time, as
    /// numbers are.
    fn behind_removed(&self, bucket: &str, key: &str, id: VersionId) -> S3Result<After> {
        let name = object_name(bucket, key);
        let Some(newest) = self.newest(bucket, key)? else { return Ok(After::before(name)) };
        let mut newer = None;
        // Binary search, since a name may have any number of versions: versions up to number
        // `older` are older than `id`, those from `end` on are newer.
        let (mut older, mut end) = (0, newest.row.record.version.saturating_add(1));
        while end - older > 1 {
            let middle = older + (end - older) / 2;
            let before = After { name: name.clone(), version: middle + 1, id: VersionId([0; 16]) };
            let rows = self.archive.reading().list(&name.0, Versions::All, Some(&before), 1).map_err(catalogue_failed)?;
            match rows.into_iter().next().filter(|row| row.record.name == name && row.record.version > older) {
                Some(row) if row.id > id => {
                    end = row.record.version;
                    newer = Some(row);
                }
                _ => older = middle,
            }
        }
        Ok(newer.map_or_else(|| After::before(name), |row| After::row(&row)))
    }
}

/// An entry in a listing of versions.
enum State {
    Version(Box<ObjectVersion>),
    Marker(DeleteMarkerEntry),
}

/// The algorithms of a version's checksums.
fn algorithms(version: &Version) -> Option<Vec<ChecksumAlgorithm>> {
    let names: Vec<_> = version.sums().iter().map(|sum| ChecksumAlgorithm::from(sum.algorithm.name().to_uppercase())).collect();
    (!names.is_empty()).then_some(names)
}

type Split = (Vec<Object>, Vec<CommonPrefix>);

fn split(entries: Vec<Entry>, encoding: Encoding, object: impl Fn(&str, VersionRow) -> S3Result<Object>) -> S3Result<Split> {
    let (mut contents, mut prefixes) = (Vec::new(), Vec::new());
    for entry in entries {
        match entry {
            Entry::Row(key, row) => contents.push(object(&key, *row)?),
            Entry::Prefix(prefix) => prefixes.push(CommonPrefix { prefix: Some(encoding.of(&prefix)) }),
        }
    }
    Ok((contents, prefixes))
}

/// Whether a request asks for the status of restores.
fn wants_restores(asked: Option<&[OptionalObjectAttributes]>) -> bool {
    let mut names = asked.unwrap_or_default().iter().flat_map(|list| list.as_str().split(','));
    names.any(|name| name.trim() == OptionalObjectAttributes::RESTORE_STATUS)
}

pub(crate) fn limit_of(max_keys: Option<i32>) -> S3Result<usize> {
    let limit = max_keys.unwrap_or(PAGE_MAX as i32);
    usize::try_from(limit).map_err(|_| s3_error!(InvalidArgument, "Argument maxKeys must be an integer between 0 and 2147483647"))
}

/// The encoding of names in a response.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Encoding {
    Plain,
    Url,
}

impl Encoding {
    pub(crate) fn parse(asked: Option<&EncodingType>) -> S3Result<Self> {
        match asked.map(EncodingType::as_str) {
            None => Ok(Self::Plain),
            Some(EncodingType::URL) => Ok(Self::Url),
            Some(_) => Err(s3_error!(InvalidArgument, "Invalid Encoding Method specified in Request")),
        }
    }

    pub(crate) fn of(self, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            // Slashes aren't encoded, as in AWS.
            Self::Url => text.split('/').map(encode_text).collect::<Vec<_>>().join("/"),
        }
    }
}
