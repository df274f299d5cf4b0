//! Archives and gateways for unit tests.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fulgurite_archive::settings::{ArchiveSettings, Limits, SetSettings, Settings, StagingSettings, StoreSettings};
use fulgurite_archive::{Access, Archive, Upload, new_archive_id};
use fulgurite_domain::Attributes;
use http::{Extensions, HeaderMap, HeaderName, Method, Uri};
use s3s::dto::{CompleteMultipartUploadInput, CompleteMultipartUploadOutput, DeleteObjectInput, UploadPartInput};
use s3s::{Body, S3Request};

use crate::auth::grant::{Grant, GrantedBucket};
use crate::gateway::Gateway;
use crate::memory::{Budget, MemoryOwner};
use crate::s3::Answer;
use crate::s3::conditions::PutConditions;
use crate::s3::xml_body::SentBody;
use crate::settings::{Settings as ServiceSettings, Staging};
use crate::state::{MultipartUpload, State, Versioning, now_ms};

/// Timeout for events that tests expect at once, generous for busy machines. With a paused clock it
/// expires as soon as the runtime is idle.
const SOON: Duration = Duration::from_secs(120);

/// Waits for an event that should come soon: if it doesn't, the test fails instead of hanging.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, what).await.expect("it comes soon")
}

/// A request as the S3 framework hands it over, without headers. Its grant is of no bucket.
pub(crate) fn s3_request<T>(method: Method, input: T) -> S3Request<T> {
    let mut extensions = Extensions::new();
    extensions.insert(Grant::default());
    S3Request {
        input,
        method,
        uri: Uri::default(),
        headers: HeaderMap::new(),
        extensions,
        credentials: None,
        region: None,
        service: None,
        trailing_headers: None,
    }
}

/// An archive with one store, without a service.
pub(crate) fn new_archive(home: &Path) -> Arc<Archive> {
    new_archive_with(home, |_| {})
}

/// The same, with changed settings.
pub(crate) fn new_archive_with(home: &Path, change: impl FnOnce(&mut Settings)) -> Arc<Archive> {
    let mut settings = Settings {
        archive: ArchiveSettings { id: new_archive_id(), encrypt: true, master_key: "master.key".into() },
        limits: Limits::default(),
        staging: StagingSettings::default(),
        set: SetSettings { information: 1, redundancy: 0, platter_mib: 64 },
        medium: fulgurite_archive::settings::MediumSettings::default(),
        decode: fulgurite_archive::settings::DecodeSettings::default(),
        stores: vec![StoreSettings { name: "d1".into(), path: home.join("d1") }],
    };
    change(&mut settings);
    Archive::init(home, &settings).expect("an archive");
    Arc::new(Archive::open(home, Access::Write).expect("it opens"))
}

/// A gateway with the memory limit from `settings`.
pub(crate) fn new_gateway(state: Arc<State>, settings: &ServiceSettings) -> Gateway {
    let budget = Budget::new(settings.memory_mib, 0, settings.connections).expect("enough memory");
    Gateway::new(state, settings, &budget, None).expect("a gateway")
}

/// A gateway to its own archive, with the unversioned bucket `photos`.
pub(crate) struct TestGateway {
    pub(crate) gateway: Arc<Gateway>,
    _home: tempfile::TempDir,
}

impl TestGateway {
    pub(crate) fn new() -> Self {
        Self::with_settings(&ServiceSettings::default())
    }

    /// A gateway whose own limit of staging is `limit_mib`.
    pub(crate) fn with_staging_limit(limit_mib: u64) -> Self {
        Self::with_settings(&ServiceSettings { staging: Staging { limit_mib: Some(limit_mib) }, ..ServiceSettings::default() })
    }

    fn with_settings(settings: &ServiceSettings) -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let state = Arc::new(State::open(new_archive(home.path())).expect("a state"));
        state.add_account("ada", true).expect("an account");
        assert!(state.add_bucket("photos", "ada", false, None).expect("a bucket"));
        let gateway = Arc::new(new_gateway(state, settings));
        Self { gateway, _home: home }
    }

    /// The bucket `photos`, as a request without access key gets access to it.
    pub(crate) fn bucket(&self) -> GrantedBucket {
        self.gateway.namespace.granted(&s3_request(Method::GET, ()).extensions, "photos").expect("it is there")
    }

    pub(crate) fn set_versioning(&self, versioning: Versioning) {
        let changed = self.gateway.state.change_bucket("photos", |bucket| bucket.versioning = versioning);
        changed.expect("set").expect("the bucket exists");
    }

    /// Begins a multipart upload without a checksum algorithm, and returns its ID.
    pub(crate) fn begin_upload(&self, key: &str) -> String {
        let upload = MultipartUpload {
            id: String::new(),
            bucket: "photos".to_owned(),
            key: key.to_owned(),
            account: "ada".to_owned(),
            created_ms: now_ms(),
            checksum_algorithm: None,
            checksum_type: None,
            attributes: Attributes::default(),
        };
        self.gateway.state.begin_upload(&upload).expect("begun").expect("the bucket exists")
    }

    /// Sends a part with headers, and returns its ETag.
    pub(crate) async fn put_part(
        &self,
        (key, upload_id): (&str, &str),
        number: i32,
        content: &'static [u8],
        headers: &[(&str, &str)],
    ) -> String {
        let mut input = UploadPartInput::builder();
        input.set_bucket("photos".to_owned());
        input.set_key(key.to_owned());
        input.set_upload_id(upload_id.to_owned());
        input.set_part_number(number);
        input.set_content_length(Some(content.len() as i64));
        input.set_body(Some(Body::from(Bytes::from_static(content)).into()));
        let mut request = s3_request(Method::PUT, input.build().expect("complete"));
        request
            .headers
            .extend(headers.iter().map(|(name, value)| (name.parse::<HeaderName>().expect("a name"), value.parse().expect("a value"))));
        let response = soon(self.gateway.put_part(request)).await.expect("put");
        response.output.e_tag.expect("an ETag").value().to_owned()
    }

    /// Completes an upload with these parts: numbers and ETags.
    pub(crate) async fn complete(
        &self,
        (key, upload_id): (&str, &str),
        parts: &[(i32, &str)],
        headers: &[(&str, &str)],
    ) -> Answer<CompleteMultipartUploadOutput> {
        let input = CompleteMultipartUploadInput {
            bucket: "photos".to_owned(),
            key: key.to_owned(),
            upload_id: upload_id.to_owned(),
            ..Default::default()
        };
        let mut request = s3_request(Method::POST, input);
        request
            .headers
            .extend(headers.iter().map(|(name, value)| (name.parse::<HeaderName>().expect("a name"), value.parse().expect("a value"))));
        let parts: String =
            parts.iter().map(|(number, etag)| format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>")).collect();
        request.extensions.insert(SentBody::of(&format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>")));
        self.gateway.clone().complete(request).await
    }

    /// Staged content that isn't an object yet.
    pub(crate) async fn upload(&self, content: &[u8]) -> Upload {
        let mut upload = self.gateway.transfers.begin_object(MemoryOwner::own());
        soon(self.gateway.transfers.write(&mut upload, content, content.len() as u64)).await;
        upload.upload()
    }

    pub(crate) async fn put(&self, key: &str, content: &[u8]) {
        let upload = self.upload(content).await;
        soon(self.gateway.store(&self.bucket(), key, upload, Attributes::default(), &PutConditions::default())).await.expect("put");
    }

    pub(crate) async fn delete(&self, key: &str) {
        let input = DeleteObjectInput { bucket: "photos".into(), key: key.into(), ..Default::default() };
        soon(self.gateway.delete(s3_request(Method::DELETE, input))).await.expect("deleted");
    }
}
