//! The access that a request got when it began, and whether it still has it.
//!
//! A body may take long to arrive. Meanwhile the bucket may be deleted and another account may
//! create one of the same name, the bucket may be given to another account, its policy may change,
//! and the access key may be revoked. So access is checked before the body, and a [`Grant`]
//! remembers what was checked. It is compared with the present state when the operation begins,
//! after a body in XML, and by writes at their commit.
//!
//! ```text
//! gate: key, owner, policy -> Grant -> body -> GrantedBucket -> lock of the bucket -> `current` -> commit
//! ```

use std::ops::Deref;
use std::sync::Arc;

use http::{Extensions, HeaderMap, Uri};
use s3s::access::S3AccessContext;
use s3s::path::S3Path;
use s3s::{S3Result, s3_error};

use crate::auth::caller::Caller;
use crate::s3::errors::{internal, no_such_bucket, state_failed};
use crate::s3::namespace::Namespace;
use crate::state::Bucket;

/// What a request's line and headers ask for.
#[derive(Debug, Clone, Default)]
pub(crate) struct AccessQuestion {
    pub(crate) operation: String,
    pub(crate) bucket: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
}

impl AccessQuestion {
    pub(crate) fn of(context: &S3AccessContext<'_>) -> Self {
        let (bucket, key) = match context.s3_path() {
            S3Path::Root => (None, None),
            S3Path::Bucket { bucket } => (Some(bucket.to_string()), None),
            S3Path::Object { bucket, key } => (Some(bucket.to_string()), Some(key.to_string())),
        };
        let operation = context.s3_op().name().to_owned();
        Self { operation, bucket, key, uri: context.uri().clone(), headers: context.headers().clone() }
    }

    /// Whether the gate checks the policy. DeleteObjects has its keys in the body, and checks each.
    pub(crate) fn is_of_policy(&self) -> bool {
        self.operation != "DeleteObjects"
    }
}

/// The bucket that a bulk put was admitted to. Each of its puts passes the gate, and must find this
/// same bucket. It is a request extension, which clients can't set.
#[derive(Debug, Clone)]
pub(crate) struct AdmittedTo(pub(crate) Arc<Bucket>);

/// The access that the gate gave a request. Clones are cheap.
#[derive(Debug, Clone, Default)]
pub(crate) struct Grant(Arc<Granted>);

#[derive(Debug, Default)]
struct Granted {
    /// The access key that signed the request; `None` if it is anonymous.
    access_key: Option<String>,
    caller: Caller,
    question: AccessQuestion,
    /// The bucket as it was; `None` for requests that need none.
    bucket: Option<Arc<Bucket>>,
}

impl Grant {
    pub(crate) fn new(access_key: Option<String>, caller: Caller, question: AccessQuestion, bucket: Option<Arc<Bucket>>) -> Self {
        Self(Arc::new(Granted { access_key, caller, question, bucket }))
    }

    /// The grant of a request, or an internal error if it didn't pass the gate.
    pub(crate) fn of(request: &Extensions) -> S3Result<Self> {
        request.get::<Self>().cloned().ok_or_else(internal)
    }

    /// Checks that the request would get access now, to the same bucket.
    ///
    /// # Errors
    /// `InvalidAccessKeyId` if its key was revoked, `NoSuchBucket` if its bucket was deleted, even
    /// if another one has the name, or `AccessDenied` if the bucket has another owner or its policy
    /// no longer allows the request.
    pub(crate) fn check(&self, namespace: &Namespace) -> S3Result<()> {
        self.check_key(namespace)?;
        match &self.0.bucket {
            Some(bucket) => self.current(namespace, bucket).map(drop),
            None => Ok(()),
        }
    }

    fn check_key(&self, namespace: &Namespace) -> S3Result<()> {
        match &self.0.access_key {
            Some(key) if namespace.state.key(key).map_err(state_failed)?.is_none() => Err(s3_error!(InvalidAccessKeyId)),
            _ => Ok(()),
        }
    }

    /// The granted bucket as it is now, if the request still has access to it.
    fn current(&self, namespace: &Namespace, granted: &Arc<Bucket>) -> S3Result<Arc<Bucket>> {
        let current = namespace.bucket(&granted.name)?;
        // The state caches buckets, so nearly always nothing was read again.
        if Arc::ptr_eq(&current, granted) {
            return Ok(current);
        }
        check_same(granted, &current)?;
        if current.policy != granted.policy || current.public_access != granted.public_access {
            self.check_policy(namespace, &current)?;
        }
        Ok(current)
    }

    fn check_policy(&self, namespace: &Namespace, bucket: &Bucket) -> S3Result<()> {
        let Granted { caller, question, .. } = &*self.0;
        if question.is_of_policy() { namespace.check_policy(bucket, caller, question) } else { Ok(()) }
    }
}

/// Checks that a bucket is the same as before, and has the same owner.
///
/// # Errors
/// `NoSuchBucket` or `AccessDenied`.
pub(crate) fn check_same(before: &Bucket, now: &Bucket) -> S3Result<()> {
    // An account that deletes and creates a bucket within a millisecond can't tell the two apart,
    // and has the same rights in both.
    if before.name != now.name || before.created_ms != now.created_ms {
        return Err(no_such_bucket());
    }
    if before.owner == now.owner { Ok(()) } else { Err(s3_error!(AccessDenied, "Access Denied")) }
}

/// A bucket that a request got access to, as it was then.
#[derive(Debug, Clone)]
pub(crate) struct GrantedBucket {
    bucket: Arc<Bucket>,
    grant: Grant,
}

impl Deref for GrantedBucket {
    type Target = Bucket;

    fn deref(&self) -> &Bucket {
        &self.bucket
    }
}

impl GrantedBucket {
    /// The bucket as it is now, if the request still has access to it. If nothing changed, this
    /// reads only the clock and the cache. Versions that were looked up by name before this call
    /// belong to this bucket; those looked up later do while the caller holds the bucket's lock.
    ///
    /// # Errors
    /// Those of [`Grant::check`].
    pub(crate) fn current(&self, namespace: &Namespace) -> S3Result<Arc<Bucket>> {
        self.grant.check_key(namespace)?;
        self.grant.current(namespace, &self.bucket)
    }

    /// As [`current`](Self::current), but asks the policy in any case: its answer may depend on
    /// the object's tags, and another object now has the name.
    pub(crate) fn current_for_successor(&self, namespace: &Namespace) -> S3Result<Arc<Bucket>> {
        let current = self.current(namespace)?;
        self.grant.check_policy(namespace, &current)?;
        Ok(current)
    }
}

impl Namespace {
    /// The bucket that a request names, if it is the one that the request got access to.
    ///
    /// # Errors
    /// `NoSuchBucket` if the bucket was deleted, even if another one has its name; `AccessDenied`
    /// if it has another owner, or its policy no longer allows the request.
    pub(crate) fn granted(&self, request: &Extensions, name: &str) -> S3Result<GrantedBucket> {
        let grant = Grant::of(request)?;
        let bucket = match &grant.0.bucket {
            Some(granted) if granted.name == name => grant.current(self, granted)?,
            Some(_) => return Err(internal()),
            None => self.bucket(name)?,
        };
        Ok(GrantedBucket { bucket, grant })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use fulgurite_domain::{Attributes, VersionId};
    use futures_util::stream;
    use http::{Method, Request, Response, StatusCode, header};
    use http_body_util::{BodyExt, StreamBody};
    use hyper::body::Frame;
    use s3s::auth::Credentials;
    use s3s::{Body, S3Request, StdError};
    use tokio::sync::oneshot;

    use super::*;
    use crate::auth::caller::Signed;
    use crate::http::addressing::Addresses;
    use crate::s3::bulk_put;
    use crate::s3::bulk_request::BulkRequests;
    use crate::s3::framework::{Framework, OperationsService};
    use crate::s3::normalize::normalize;
    use crate::state::{MultipartUpload, now_ms};
    use crate::test_gateway::{TestGateway, s3_request, soon};

    /// What happens while a body is on its way.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Meanwhile {
        /// The bucket is deleted, and bob creates one of the same name.
        Replaced,
        /// The bucket is given to bob.
        Given,
        /// The access key is revoked.
        Revoked,
        /// A policy now forbids everything.
        Forbidden,
        /// A policy is put that changes nothing for the caller.
        PolicyPut,
    }

    struct Fixture {
        test: TestGateway,
        operations: OperationsService,
        addresses: Arc<Addresses>,
        bob: String,
    }

    /// A write whose body is slow.
    struct Write {
        method: Method,
        /// Path and query after the bucket.
        target: String,
        body: String,
    }

    fn policy(bucket: &str, effect: &str) -> String {
        format!(
            r#"{{"Statement": {{"Effect": "{effect}", "Principal": "*", "Action": "s3:*", "Resource": ["arn:aws:s3:::{bucket}", "arn:aws:s3:::{bucket}/*"]}}}}"#
        )
    }

    /// A body that says when it is asked for, and then waits.
    fn slow_body(content: Bytes) -> (Body, oneshot::Receiver<()>, oneshot::Sender<()>) {
        let (asked_tx, asked_rx) = oneshot::channel();
        let (go_tx, go_rx) = oneshot::channel::<()>();
        let pieces = stream::once(async move {
            asked_tx.send(()).expect("the test waits for it");
            go_rx.await.expect("the test goes on");
            Ok::<_, StdError>(Frame::data(content))
        });
        (Body::http_body_unsync(StreamBody::new(Box::pin(pieces))), asked_rx, go_tx)
    }

    impl Fixture {
        fn new() -> Self {
            let test = TestGateway::new();
            let addresses = Arc::new(Addresses::new(None));
            let operations = Framework::new(&test.gateway, None, &addresses).operations().clone();
            let bob = test.gateway.state.add_account("bob", false).expect("an account").access_key;
            test.gateway.state.add_account("alice", false).expect("an account");
            Self { test, operations, addresses, bob }
        }

        async fn send(&self, key: &str, method: Method, target: &str, length: usize, body: Body) -> (StatusCode, String, Response<()>) {
            let mut request: S3Request<Body> = s3_request(method, body);
            request.uri = target.parse().expect("a URI");
            request.headers.insert(header::CONTENT_LENGTH, length.into());
            // Deletions would need a digest of their body.
            if !target.ends_with("?delete") {
                normalize(&mut request, &self.addresses).expect("normalized");
            }
            let mut inner = Request::new(request.input);
            (*inner.method_mut(), *inner.uri_mut()) = (request.method, request.uri);
            (*inner.headers_mut(), *inner.extensions_mut()) = (request.headers, request.extensions);
            let sent = self.operations.call_as(Signed(Some(key.to_owned())), inner);
            let (head, body) = soon(sent).await.expect("a response").into_parts();
            let text = body.collect().await.expect("a body").to_bytes();
            (head.status, String::from_utf8_lossy(&text).into_owned(), Response::from_parts(head, ()))
        }

        /// Puts a small object and returns its ETag.
        async fn put(&self, key: &str, target: &str) -> String {
            let (status, text, head) = self.send(key, Method::PUT, target, 4, Body::from("text".to_owned())).await;
            assert_eq!(status, StatusCode::OK, "{text}");
            head.headers()[header::ETAG].to_str().expect("text").to_owned()
        }

        /// Everything that a write may change.
        fn snapshot(&self, bucket: &str) -> (Bucket, Option<VersionId>, Vec<s3s::dto::Tag>, Vec<usize>) {
            let namespace = &self.test.gateway.namespace;
            let newest = namespace.newest(bucket, "k").expect("looked up");
            let tags = newest.as_ref().map(|version| namespace.tags_of(version).expect("tags")).unwrap_or_default();
            let uploads = namespace.state.uploads(bucket, "", ("", ""), 9).expect("uploads");
            let parts = uploads.iter().map(|upload| namespace.state.parts(&upload.id, 0, 9).expect("parts").len()).collect();
            ((*namespace.bucket(bucket).expect("a bucket")).clone(), newest.map(|version| version.row.id), tags, parts)
        }

        async fn happen(&self, meanwhile: Meanwhile, bucket: &str, alice: &str) {
            let state = &self.test.gateway.state;
            let put_policy = |effect: &str| {
                state.change_bucket(bucket, |found| found.policy = Some(policy(bucket, effect))).expect("changed").expect("it exists");
            };
            match meanwhile {
                Meanwhile::Replaced => {
                    assert!(state.remove_bucket(bucket).expect("removed"));
                    assert!(state.add_bucket(bucket, "bob", false, None).expect("added"));
                    self.put(&self.bob, &format!("/{bucket}/k")).await;
                    // It gives the caller all rights, but the caller asked for those in another
                    // bucket.
                    put_policy("Allow");
                }
                Meanwhile::Given => {
                    state.give_bucket(bucket, "bob").expect("given");
                    put_policy("Allow");
                }
                Meanwhile::Revoked => state.revoke_key(alice).expect("revoked"),
                Meanwhile::Forbidden => put_policy("Deny"),
                Meanwhile::PolicyPut => put_policy("Allow"),
            }
        }

        /// Sends a write, lets something happen while its body is on its way, and returns the
        /// response and whether anything was changed by it.
        async fn interrupt(&self, bucket: &str, alice: &str, write: Write, meanwhile: Meanwhile) -> (StatusCode, String, bool) {
            let (body, asked, go) = slow_body(write.body.clone().into());
            let target = format!("/{bucket}{}", write.target);
            let sent = self.send(alice, write.method, &target, write.body.len(), body);
            let happens = async {
                soon(asked).await.expect("the body is read");
                self.happen(meanwhile, bucket, alice).await;
                let before = self.snapshot(bucket);
                go.send(()).expect("the body waits");
                before
            };
            let ((status, text, _), before) = tokio::join!(sent, happens);
            (status, text, self.snapshot(bucket) != before)
        }

        fn begin_upload(&self, bucket: &str) -> String {
            let upload = MultipartUpload {
                id: String::new(),
                bucket: bucket.to_owned(),
                key: "k".to_owned(),
                account: "alice".to_owned(),
                created_ms: now_ms(),
                checksum_algorithm: None,
                checksum_type: None,
                attributes: Attributes::default(),
            };
            self.test.gateway.state.begin_upload(&upload).expect("begun").expect("the bucket exists")
        }
    }

    /// One of the writes with a body, for a bucket with an upload of one part.
    fn write(kind: &str, bucket: &str, upload: &str, etag: &str) -> Write {
        let tags = "<Tagging><TagSet><Tag><Key>by</Key><Value>alice</Value></Tag></TagSet></Tagging>";
        let (method, target, body) = match kind {
            "object" => (Method::PUT, "/k".to_owned(), "alice".to_owned()),
            "part" => (Method::PUT, format!("/k?partNumber=2&uploadId={upload}"), "alice".to_owned()),
            "completion" => (
                Method::POST,
                format!("/k?uploadId={upload}"),
                format!("<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"),
            ),
            "policy" => (Method::PUT, "?policy".to_owned(), policy(bucket, "Allow").replace("s3:*", "s3:Put*")),
            "versioning" => (
                Method::PUT,
                "?versioning".to_owned(),
                "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>".to_owned(),
            ),
            "lifecycle" => (
                Method::PUT,
                "?lifecycle".to_owned(),
                "<LifecycleConfiguration><Rule><Status>Enabled</Status><Filter/><Expiration><Days>9</Days></Expiration></Rule>\
                 </LifecycleConfiguration>"
                    .to_owned(),
            ),
            "bucket tags" => (Method::PUT, "?tagging".to_owned(), tags.to_owned()),
            "object tags" => (Method::PUT, "/k?tagging".to_owned(), tags.to_owned()),
            "deletions" => (Method::POST, "?delete".to_owned(), "<Delete><Object><Key>k</Key></Object></Delete>".to_owned()),
            _ => unreachable!("{kind}"),
        };
        Write { method, target, body }
    }

    const WRITES: [&str; 9] =
        ["object", "part", "completion", "policy", "versioning", "lifecycle", "bucket tags", "object tags", "deletions"];

    #[tokio::test(flavor = "multi_thread")]
    async fn a_write_whose_access_ends_while_its_body_arrives_changes_nothing() {
        let fixture = Fixture::new();
        let state = &fixture.test.gateway.state;
        for (number, meanwhile) in
            [Meanwhile::Replaced, Meanwhile::Given, Meanwhile::Revoked, Meanwhile::Forbidden, Meanwhile::PolicyPut].into_iter().enumerate()
        {
            for (index, kind) in WRITES.into_iter().enumerate() {
                // An owner may repair a policy that forbids everything.
                if meanwhile == Meanwhile::Forbidden && kind == "policy" {
                    continue;
                }
                let bucket = format!("case-{number}-{index}");
                let alice = state.add_key("alice").expect("a key").access_key;
                assert!(state.add_bucket(&bucket, "alice", false, None).expect("added"));
                fixture.put(&alice, &format!("/{bucket}/k")).await;
                let upload = fixture.begin_upload(&bucket);
                let etag = fixture.put(&alice, &format!("/{bucket}/k?partNumber=1&uploadId={upload}")).await;
                let (status, text, has_changed) = fixture.interrupt(&bucket, &alice, write(kind, &bucket, &upload, &etag), meanwhile).await;
                let case = format!("{meanwhile:?}, {kind}: {status} {text}");
                if meanwhile == Meanwhile::PolicyPut {
                    assert!(status.is_success() && has_changed, "{case}");
                    continue;
                }
                assert!(!has_changed, "{case}");
                let codes: &[&str] = match meanwhile {
                    // The clock may show the same millisecond for both buckets.
                    Meanwhile::Replaced => &["NoSuchBucket", "AccessDenied"],
                    Meanwhile::Revoked => &["InvalidAccessKeyId"],
                    _ => &["AccessDenied"],
                };
                assert!(codes.iter().any(|code| text.contains(&format!("<Code>{code}</Code>"))), "{case}");
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_bulk_put_stores_nothing_in_a_later_bucket_of_the_name() {
        let fixture = Fixture::new();
        let gateway = &fixture.test.gateway;
        let alice = gateway.state.add_key("alice").expect("a key").access_key;
        assert!(gateway.state.add_bucket("bulk", "alice", false, None).expect("added"));
        let mut tar = vec![0; 512 + 512 + 1_024];
        tar[..1].copy_from_slice(b"k");
        tar[100..107].copy_from_slice(b"0000644");
        tar[124..135].copy_from_slice(b"00000000001");
        tar[136..147].copy_from_slice(b"00000000000");
        tar[148..156].copy_from_slice(b"        ");
        tar[156] = b'0';
        tar[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = tar[..512].iter().copied().map(u32::from).sum();
        tar[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let length = tar.len();
        let (body, asked, go) = slow_body(tar.into());
        let mut request: S3Request<Body> = s3_request(Method::POST, body);
        request.uri = "/bulk?store".parse().expect("a URI");
        request.headers.insert(header::CONTENT_LENGTH, length.into());
        request.credentials = Some(Credentials { access_key: alice.clone(), secret_key: "".into() });
        let requests = BulkRequests { gateway: gateway.clone(), addresses: fixture.addresses.clone() };
        let happens = async {
            soon(asked).await.expect("the body is read");
            fixture.happen(Meanwhile::Replaced, "bulk", &alice).await;
            go.send(()).expect("the body waits");
            fixture.snapshot("bulk")
        };
        let (answer, before) = tokio::join!(soon(bulk_put::call(&requests, &fixture.operations, request)), happens);
        let result = answer.expect("a result").output.collect().await.expect("a body").to_bytes();
        let result = String::from_utf8_lossy(&result).into_owned();
        assert!(result.contains("\"failed\":1") && (result.contains("NoSuchBucket") || result.contains("AccessDenied")), "{result}");
        assert_eq!(fixture.snapshot("bulk"), before);
    }
}
