//! Listings of objects and versions: parses requests and builds responses.

use fulgurite_archive::catalogue::{ListCursor, VersionRow, Versions};
use fulgurite_domain::{ObjectName, VersionId};
use s3s::dto::{
    self, ChecksumAlgorithm, DeleteMarkerEntry, Object, ObjectStorageClass, ObjectVersion, ObjectVersionStorageClass,
    OptionalObjectAttributes, Owner, RestoreStatus,
};
use s3s::xml::SerializeContent;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::s3::Answer;
use crate::s3::errors::answers::write_xml;
use crate::s3::errors::{catalogue_failed, state_failed};
use crate::s3::namespace::Namespace;
use crate::s3::object_names::{key_of, object_name, unreadable_start};
use crate::s3::pages::{Entry, Last, Parameters, Rows, Token, decode_token, encode_token, listing, page};
use crate::s3::version::{Version, timestamp};

/// Maximum number of names without a key that a page skips before it ends early, if it can return a
/// token.
pub(crate) const SKIPPED_NAMES_MAX: usize = 100_000;

/// Options of the entries in a listing.
struct ListingContext<'a> {
    parameters: &'a Parameters,
    owner: Option<&'a Owner>,
    /// Whether to include the status of restores.
    restores: bool,
}

impl Namespace {
    fn object(&self, key: &str, version: &Version, context: &ListingContext<'_>) -> S3Result<Object> {
        Ok(Object {
            checksum_algorithm: algorithms(version),
            checksum_type: (!version.sums().is_empty()).then(|| version.checksum_type()),
            e_tag: Some(version.etag()),
            key: Some(context.parameters.encode(key)),
            last_modified: Some(version.modified()),
            owner: context.owner.cloned(),
            restore_status: if context.restores { self.restore_status(version)? } else { None },
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

    pub(crate) fn list(&self, request: S3Request<dto::ListObjectsInput>) -> Answer<dto::ListObjectsOutput> {
        let input = request.input;
        let bucket = self.bucket(&input.bucket)?;
        let parameters = Parameters::read(input.prefix, input.delimiter, input.max_keys, input.encoding_type)?;
        let rows = VersionRows::new(self, &bucket.name, &parameters.prefix, Versions::Newest);
        let marker = input.marker.unwrap_or_default();
        let after = if marker.is_empty() { None } else { parameters.after_key(&rows, &marker) };
        let page = page(&rows, &parameters, usize::MAX, after)?;
        let owner = self.owner(&bucket)?;
        let truncated = page.truncated;
        // Without a delimiter, the client can resume at the last key.
        let next = page.last().filter(|_| parameters.delimiter.is_some()).map(|entry| parameters.encode(entry.key()));
        let restores = wants_restores(input.optional_object_attributes.as_deref());
        let context = ListingContext { parameters: &parameters, owner: Some(&owner), restores };
        let (contents, prefixes) = page.split(&parameters, |key, row| self.object(&key, &Version::new(row), &context))?;
        let mut output = listing!(ListObjectsOutput of parameters, prefixes, truncated;
            name: Some(bucket.name.clone()),
            marker: Some(parameters.encode(&marker)),
            max_keys: Some(parameters.limit as i32),
            contents: Some(contents),
            next_marker: next,
        );
        // Not encoded, unlike in the other listings.
        output.prefix = Some(parameters.prefix);
        Ok(S3Response::new(output))
    }

    pub(crate) fn list_v2(&self, request: S3Request<dto::ListObjectsV2Input>) -> Answer<dto::ListObjectsV2Output> {
        let input = request.input;
        let bucket = self.bucket(&input.bucket)?;
        let parameters = Parameters::read(input.prefix, input.delimiter, input.max_keys, input.encoding_type)?;
        let rows = VersionRows::new(self, &bucket.name, &parameters.prefix, Versions::Newest);
        let from = match &input.continuation_token {
            Some(token) => {
                Some(decode_token(token).ok_or_else(|| s3_error!(InvalidArgument, "The continuation token provided is incorrect"))?)
            }
            None => input.start_after.clone().filter(|key| !key.is_empty()).map(Token::Key),
        };
        let after = from.and_then(|from| match from {
            Token::Key(key) => parameters.after_key(&rows, &key),
            Token::Prefix(start) => rows.after(Last::Prefix(&start)),
        });
        let page = page(&rows, &parameters, SKIPPED_NAMES_MAX, after)?;
        let owner = match input.fetch_owner {
            Some(true) => Some(self.owner(&bucket)?),
            _ => None,
        };
        let (truncated, count) = (page.truncated, page.entries.len());
        let last = page.last().map(|entry| Token::Key(entry.key().to_owned()));
        let next = page.resume_prefix.clone().map(Token::Prefix).or(last).map(|token| encode_token(&token));
        let restores = wants_restores(input.optional_object_attributes.as_deref());
        let context = ListingContext { parameters: &parameters, owner: owner.as_ref(), restores };
        let (contents, prefixes) = page.split(&parameters, |key, row| self.object(&key, &Version::new(row), &context))?;
        let output = listing!(ListObjectsV2Output of parameters, prefixes, truncated;
            name: Some(bucket.name.clone()),
            max_keys: Some(parameters.limit as i32),
            key_count: Some(count as i32),
            continuation_token: input.continuation_token,
            next_continuation_token: next,
            contents: Some(contents),
            start_after: input.start_after.map(|key| parameters.encode(&key)),
        );
        Ok(S3Response::new(output))
    }

    pub(crate) fn list_versions(&self, request: S3Request<dto::ListObjectVersionsInput>) -> Answer<dto::ListObjectVersionsOutput> {
        let input = request.input;
        let bucket = self.bucket(&input.bucket)?;
        let parameters = Parameters::read(input.prefix, input.delimiter, input.max_keys, input.encoding_type)?;
        let rows = VersionRows::new(self, &bucket.name, &parameters.prefix, Versions::All);
        let (key_marker, id_marker) = (input.key_marker.unwrap_or_default(), input.version_id_marker.unwrap_or_default());
        let after = self.after_markers(&rows, &parameters, &key_marker, &id_marker)?;
        let page = page(&rows, &parameters, usize::MAX, after)?;
        let owner = self.owner(&bucket)?;
        let truncated = page.truncated;
        let (next_key, next_id) = match page.last() {
            None => (None, None),
            Some(Entry::Prefix(under)) => (Some(parameters.encode(under)), None),
            Some(Entry::Row(key, row)) => {
                let id = Version::new(VersionRow::clone(row)).id();
                self.page_positions.note(id.clone(), ListCursor::after_row(row));
                (Some(parameters.encode(key)), Some(id))
            }
        };
        let restores = wants_restores(input.optional_object_attributes.as_deref());
        let context = ListingContext { parameters: &parameters, owner: Some(&owner), restores };
        let mut last_key = None;
        let (entries, prefixes) = page.split(&parameters, |key, row| {
            // The first version of a name is its newest, unless the previous page ended within the
            // name. Even then it may be: what the previous page listed can be gone.
            let mut is_latest = last_key.as_ref() != Some(&key);
            if is_latest && !id_marker.is_empty() && key == key_marker {
                is_latest = self.newest(&bucket.name, &key)?.is_some_and(|newest| newest.row.id == row.id);
            }
            let entry = self.version_entry(&key, &Version::new(row), is_latest, &context)?;
            last_key = Some(key);
            Ok(entry)
        })?;
        let output = listing!(ListObjectVersionsOutput of parameters, prefixes, truncated;
            key_marker: Some(parameters.encode(&key_marker)),
            version_id_marker: Some(id_marker),
            max_keys: Some(parameters.limit as i32),
            name: Some(bucket.name.clone()),
            next_key_marker: next_key,
            next_version_id_marker: next_id,
        );
        // The framework would write all versions before all markers.
        let in_one_order = write_xml("ListVersionsResult", |xml| {
            output.serialize_content(xml)?;
            entries.iter().try_for_each(|entry| match entry {
                VersionEntry::Version(version) => xml.content("Version", &**version),
                VersionEntry::Marker(marker) => xml.content("DeleteMarker", marker),
            })
        })?;
        let mut response = S3Response::new(output);
        response.extensions.insert(in_one_order);
        Ok(response)
    }

    fn version_entry(&self, key: &str, version: &Version, is_latest: bool, context: &ListingContext<'_>) -> S3Result<VersionEntry> {
        if version.is_marker() {
            return Ok(VersionEntry::Marker(DeleteMarkerEntry {
                is_latest: Some(is_latest),
                key: Some(context.parameters.encode(key)),
                last_modified: Some(version.modified()),
                owner: context.owner.cloned(),
                version_id: Some(version.id()),
            }));
        }
        let Object { checksum_algorithm, checksum_type, e_tag, key, last_modified, owner, restore_status, size, .. } =
            self.object(key, version, context)?;
        Ok(VersionEntry::Version(Box::new(ObjectVersion {
            checksum_algorithm,
            checksum_type,
            e_tag,
            is_latest: Some(is_latest),
            key,
            last_modified,
            owner,
            restore_status,
            size,
            storage_class: Some(ObjectVersionStorageClass::from(version.class().to_owned())),
            version_id: Some(version.id()),
        })))
    }

    /// Where a listing of versions resumes after the markers of the last page, which are empty in
    /// the request for the first one.
    fn after_markers(&self, rows: &VersionRows<'_>, parameters: &Parameters, key: &str, id: &str) -> S3Result<Option<ListCursor>> {
        match (key, id) {
            ("", "") => Ok(None),
            ("", _) => Err(s3_error!(InvalidArgument, "A version-id marker cannot be specified without a key marker.")),
            (key, "") => Ok(parameters.after_key(rows, key)),
            (key, id) => match self.by_id(rows.bucket, key, id)? {
                Some(version) => Ok(Some(ListCursor::after_row(&version.row))),
                None => Ok(Some(self.page_positions.after_removed(object_name(rows.bucket, key), id))),
            },
        }
    }
}

/// The versions of a bucket.
pub(crate) struct VersionRows<'a> {
    namespace: &'a Namespace,
    bucket: &'a str,
    /// Prefix of the names to list.
    prefix: ObjectName,
    versions: Versions,
}

impl<'a> VersionRows<'a> {
    pub(crate) fn new(namespace: &'a Namespace, bucket: &'a str, prefix: &str, versions: Versions) -> Self {
        Self { namespace, bucket, prefix: object_name(bucket, prefix), versions }
    }
}

impl Rows for VersionRows<'_> {
    type Row = VersionRow;
    type Position = ListCursor;
    const ROWS_PER_QUERY_MAX: usize = usize::MAX;

    fn read(&self, after: Option<&ListCursor>, limit: usize) -> S3Result<Vec<VersionRow>> {
        self.namespace.archive.reading().list(&self.prefix.0, self.versions, after, limit).map_err(catalogue_failed)
    }

    fn key<'r>(&self, row: &'r VersionRow) -> Result<&'r str, Vec<u8>> {
        let name = &row.record.name;
        key_of(self.bucket, name).ok_or_else(|| unreadable_start(&name.0)[self.bucket.len() + 1..].to_vec())
    }

    fn after(&self, last: Last<'_, VersionRow>) -> Option<ListCursor> {
        match last {
            Last::Row(row) => Some(ListCursor::after_row(row)),
            Last::Key(key) => Some(ListCursor { name: object_name(self.bucket, key), version: 0, id: VersionId([0; 16]) }),
            Last::Prefix(prefix) => ListCursor::after_prefix(&[self.bucket.as_bytes(), b"/", prefix].concat()),
        }
    }
}

/// An entry in a listing of versions.
enum VersionEntry {
    Version(Box<ObjectVersion>),
    Marker(DeleteMarkerEntry),
}

/// The algorithms of a version's checksums.
fn algorithms(version: &Version) -> Option<Vec<ChecksumAlgorithm>> {
    let names: Vec<_> = version.sums().iter().map(|sum| sum.algorithm.in_xml()).collect();
    (!names.is_empty()).then_some(names)
}

/// Whether a request asks for the status of restores.
fn wants_restores(attributes: Option<&[OptionalObjectAttributes]>) -> bool {
    let mut names = attributes.unwrap_or_default().iter().flat_map(|list| list.as_str().split(','));
    names.any(|name| name.trim() == OptionalObjectAttributes::RESTORE_STATUS)
}

#[cfg(test)]
mod tests {
    use fulgurite_domain::Attributes;

    use super::*;
    use crate::s3::conditions::PutConditions;
    use crate::s3::errors::answers::BodyOverride;
    use crate::state::Versioning;
    use crate::test_gateway::{TestGateway, s3_request, soon};

    /// A listed version: its ID, and whether it is the latest.
    type Listed = (String, bool);

    fn texts(xml: &str, element: &str) -> Vec<String> {
        let (begin, end) = (format!("<{element}>"), format!("</{element}>"));
        xml.split(&begin).skip(1).map(|rest| rest.split(&end).next().expect("it ends").to_owned()).collect()
    }

    /// A page with up to `limit` versions after those of the last one.
    fn page_of(test: &TestGateway, limit: i32, last: Option<&Listed>) -> Vec<Listed> {
        let input = dto::ListObjectVersionsInput {
            bucket: "photos".to_owned(),
            max_keys: Some(limit),
            key_marker: last.map(|_| "sun".to_owned()),
            version_id_marker: last.map(|(id, _)| id.clone()),
            ..Default::default()
        };
        let response = test.gateway.namespace.list_versions(s3_request(http::Method::GET, input)).expect("listed");
        let BodyOverride(xml) = response.extensions.get().expect("a body");
        let xml = std::str::from_utf8(xml).expect("text");
        texts(xml, "VersionId").into_iter().zip(texts(xml, "IsLatest").into_iter().map(|latest| latest == "true")).collect()
    }

    async fn remove(test: &TestGateway, (id, _): &Listed) {
        let version = test.gateway.namespace.by_id("photos", "sun", id).expect("looked up").expect("it is there");
        soon(test.gateway.remove((), vec![version.row])).await.expect("removed");
    }

    /// Lists pages of one version, and deletes each before the next is requested.
    async fn list_and_delete(test: &TestGateway) -> Vec<Listed> {
        let mut found = page_of(test, 1, None);
        while let Some(last) = found.last() {
            remove(test, last).await;
            match page_of(test, 1, Some(last)).pop() {
                Some(next) => found.push(next),
                None => break,
            }
        }
        found
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn no_version_is_skipped_when_the_null_version_of_the_marker_is_deleted() {
        let test = TestGateway::new();
        test.set_versioning(Versioning::Enabled);
        test.put("sun", b"v0").await;
        test.put("sun", b"v1").await;
        test.set_versioning(Versioning::Suspended);
        test.put("sun", b"null").await;
        let expected: Vec<Listed> = page_of(&test, 9, None).into_iter().map(|(id, _)| (id, true)).collect();
        assert_eq!((expected.len(), expected[0].0.as_str()), (3, "null"));
        assert_eq!(list_and_delete(&test).await, expected);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn no_version_is_skipped_when_ids_are_not_in_order() {
        let test = TestGateway::new();
        test.set_versioning(Versioning::Enabled);
        let slow = test.upload(b"slow").await;
        let slow_id = slow.id().to_string();
        soon(async {
            while test.gateway.transfers.intake.upload().id().to_string()[..12] <= slow_id[..12] {
                tokio::task::yield_now().await;
            }
        })
        .await;
        test.put("sun", b"fast").await;
        soon(test.gateway.store(&test.bucket(), "sun", slow, Attributes::default(), &PutConditions::default())).await.expect("put");
        let expected: Vec<Listed> = page_of(&test, 9, None).into_iter().map(|(id, _)| (id, true)).collect();
        assert!(expected[0].0 == slow_id && expected[1].0 > slow_id);
        assert_eq!(list_and_delete(&test).await, expected);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_first_version_of_a_page_is_the_latest_if_all_newer_ones_are_gone() {
        let test = TestGateway::new();
        test.set_versioning(Versioning::Enabled);
        for content in [b"v0", b"v1", b"v2"] {
            test.put("sun", content).await;
        }
        let first = page_of(&test, 1, None);
        let latest = || page_of(&test, 9, first.last()).into_iter().map(|(_, is_latest)| is_latest).collect::<Vec<_>>();
        assert_eq!(latest(), [false, false]);
        remove(&test, &first[0]).await;
        assert_eq!(latest(), [true, false]);
    }
}
