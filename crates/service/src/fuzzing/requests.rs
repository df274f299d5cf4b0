//! Whole requests, to an archive of their own: as if their signatures had been checked, since nothing that is changed at random has a right one.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use fulgurite_archive::settings::{ArchiveSettings, Limits, SetSettings, Settings as ArchiveFile, StagingSettings, StoreSettings};
use fulgurite_archive::{Access, Archive};
use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::BodyExt;
use s3s::auth::{Credentials, SecretKey};
use s3s::route::S3Route;
use s3s::service::S3Service;
use s3s::{Body, S3Request};

use super::headers_of;
use crate::address::Addresses;
use crate::between::Between;
use crate::caller::{Peer, Signed};
use crate::errors::{Asked, complete};
use crate::gateway::Gateway;
use crate::routes::Routes;
use crate::s3::retrieve::Retrieve;
use crate::server::operations;
use crate::settings::Settings;
use crate::signatures::refuse;
use crate::state::State;

/// An archive with two accounts and three buckets, and what answers requests to it.
pub struct Requests {
    routes: Routes,
    service: S3Service,
    /// Access keys of an admin and of another account.
    keys: [String; 2],
    runtime: tokio::runtime::Runtime,
}

impl Requests {
    /// Makes an archive in an empty folder.
    ///
    /// # Panics
    /// If it can't be made.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        let settings = ArchiveFile {
            archive: ArchiveSettings { id: fulgurite_archive::new_archive_id(), encrypt: true, master_key: "master.key".into() },
            limits: Limits::default(),
            staging: StagingSettings { segment_mib: 1, ..StagingSettings::default() },
            set: SetSettings { information: 1, redundancy: 1, platter_mib: 64 },
            stores: ["d1", "d2"].map(|name| StoreSettings { name: name.into(), path: name.into() }).to_vec(),
        };
        Archive::init(folder, &settings).expect("an archive");
        let state = Arc::new(State::open(Arc::new(Archive::open(folder, Access::Write).expect("it opens"))).expect("a state"));
        let keys = [("main", true), ("ada", false)].map(|(name, admin)| state.add_account(name, admin).expect("an account").access_key);
        let settings = Settings::default();
        let gateway = Arc::new(Gateway::new(state.clone(), settings.region.clone(), settings.restores.quota()).expect("a gateway"));
        let service = || operations(&gateway, &state, &settings).expect("operations").build();
        let routes = Routes {
            retrieve: Retrieve { gateway: gateway.clone(), addresses: Arc::new(Addresses::new(None)) },
            between: Between(service()),
        };
        // Some operations give their thread away while they read.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let requests = Self { routes, service: service(), keys, runtime };
        for request in [
            "0PUT /bbb\n\n",
            "0PUT /versioned\n\n",
            "0PUT /versioned?versioning\n\n<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
            "0PUT /locked\nx-amz-bucket-object-lock-enabled: true\n\n",
            "0PUT /bbb/k\n\nbody",
            "0PUT /versioned/k\n\none",
            "0PUT /versioned/k\n\ntwo",
            "0PUT /bbb/cold\nx-amz-storage-class: GLACIER\n\nbody",
        ] {
            assert_eq!(requests.answer(request.as_bytes()), Some(StatusCode::OK), "{request}");
        }
        requests
    }

    /// Answers a request: `0`, `1` or `-` for who asks (an admin, another account, nobody), method and target, lines of headers, an empty line, the body.
    /// Says with which status, or nothing if it is none that HTTP would bring here.
    ///
    /// # Panics
    /// If the answer is that of a failure of ours, or ends in the middle.
    pub fn answer(&self, request: &[u8]) -> Option<StatusCode> {
        let end = request.windows(2).position(|pair| pair == b"\n\n")?;
        let (head, body) = (std::str::from_utf8(&request[..end]).ok()?, &request[end + 2..]);
        let mut lines = head.split('\n');
        let (first, target) = lines.next()?.split_once(' ')?;
        let key = match first.get(..1)? {
            "0" => Some(&self.keys[0]),
            "1" => Some(&self.keys[1]),
            "-" => None,
            _ => return None,
        };
        let method: Method = first[1..].parse().ok()?;
        let uri: Uri = target.parse().ok().filter(|uri: &Uri| uri.path().starts_with('/'))?;
        let mut headers = headers_of(lines)?;
        headers.remove(header::AUTHORIZATION);
        headers.insert(header::HOST, "localhost".parse().expect("a value"));
        headers.insert(header::CONTENT_LENGTH, body.len().into());
        if refuse(&uri, &headers, "us-east-1").is_some() {
            return None;
        }
        let (path, query) = (uri.path().to_owned(), uri.query().map(str::to_owned));
        let body = Body::from(Bytes::copy_from_slice(body));
        let status = self.runtime.block_on(async {
            let mut extensions = http::Extensions::new();
            extensions.insert(Peer { address: [127, 0, 0, 1].into(), is_tls: false });
            let mut response = if self.routes.is_match(&method, &uri, &headers, &mut extensions) {
                let credentials = key.map(|key| Credentials { access_key: key.clone(), secret_key: SecretKey::from("secret") });
                let request = S3Request {
                    input: body,
                    method,
                    uri,
                    headers,
                    extensions,
                    credentials,
                    region: None,
                    service: None,
                    trailing_headers: None,
                };
                match self.routes.call(request).await {
                    Ok(answer) => {
                        let mut response = http::Response::new(answer.output);
                        *response.status_mut() = answer.status.unwrap_or(StatusCode::OK);
                        *response.headers_mut() = answer.headers;
                        *response.extensions_mut() = answer.extensions;
                        response
                    }
                    Err(error) => error.to_http_response().expect("an answer"),
                }
            } else {
                extensions.insert(Signed(key.cloned()));
                let mut request = Request::new(body);
                *request.method_mut() = method;
                *request.uri_mut() = uri;
                *request.headers_mut() = headers;
                *request.extensions_mut() = extensions;
                self.service.call(request).await.expect("an answer")
            };
            complete(&mut response, &Asked { path: &path, query: query.as_deref(), length: None, id: "1" });
            let (head, body) = response.into_parts();
            body.collect().await.expect("a whole answer");
            head.status
        });
        assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR);
        Some(status)
    }
}
