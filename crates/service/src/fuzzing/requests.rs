//! Sends whole requests to the router of a server with its own archive. Requests are signed after
//! mutation, so that they pass the signature check.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use fulgurite_archive::settings::{ArchiveSettings, Limits, SetSettings, Settings as ArchiveFile, StagingSettings, StoreSettings};
use fulgurite_archive::{Access, Archive};
use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};

use super::operations::generate_request;
use super::parse_headers;
use super::signing::sign;
use crate::auth::caller::Peer;
use crate::gateway::Gateway;
use crate::http::router::Router;
use crate::memory::Budget;
use crate::settings::Settings;
use crate::state::{NewKey, State};

/// A server with two accounts, four buckets and some objects.
pub struct Requests {
    router: Router,
    /// Keys of an admin and of another account.
    keys: [NewKey; 2],
    runtime: tokio::runtime::Runtime,
}

impl Requests {
    /// Creates the archive in an empty folder. Panics if it can't be created.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        let settings = ArchiveFile {
            archive: ArchiveSettings { id: fulgurite_archive::new_archive_id(), encrypt: true, master_key: "master.key".into() },
            limits: Limits::default(),
            staging: StagingSettings { segment_mib: 1, ..StagingSettings::default() },
            set: SetSettings { information: 1, redundancy: 1, platter_mib: 64 },
            medium: fulgurite_archive::settings::MediumSettings::default(),
            decode: fulgurite_archive::settings::DecodeSettings::default(),
            stores: ["d1", "d2"].map(|name| StoreSettings { name: name.into(), path: name.into() }).to_vec(),
        };
        Archive::init(folder, &settings).expect("an archive");
        let state = Arc::new(State::open(Arc::new(Archive::open(folder, Access::Write).expect("it opens"))).expect("a state"));
        let keys = [("main", true), ("ada", false)].map(|(name, admin)| state.add_account(name, admin).expect("an account"));
        let settings = Settings::default();
        let budget = Budget::new(settings.memory_mib, 0, settings.connections).expect("the defaults are enough");
        let gateway = Arc::new(Gateway::new(state, &settings, &budget, None).expect("a gateway"));
        let router = Router::new(gateway, None, &settings);
        // Some operations use `block_in_place`, which needs a multi-threaded runtime.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let requests = Self { router, keys, runtime };
        for request in [
            "0PUT /bbb\n\n",
            "0PUT /versioned\n\n",
            "0PUT /versioned?versioning\n\n<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
            "0PUT /suspended\n\n",
            "0PUT /suspended?versioning\n\n<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>",
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

    /// Answers a request: `0`, `1` or `-` for the caller (an admin, another account, anonymous),
    /// method and target, lines of headers, an empty line, the body. Returns the status, or `None`
    /// if the input can't be an HTTP request. Panics if the response is an internal error or ends
    /// early.
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
        let mut headers = parse_headers(lines)?;
        headers.remove(header::AUTHORIZATION);
        headers.insert(header::HOST, "localhost".parse().expect("a value"));
        headers.insert(header::CONTENT_LENGTH, body.len().into());
        if let Some(key) = key {
            sign(&method, &uri, &mut headers, key);
        }
        let mut request = Request::new(Full::new(Bytes::copy_from_slice(body)));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let peer = Peer { address: [127, 0, 0, 1].into(), is_tls: false };
        let status = self.runtime.block_on(async {
            let (head, body) = self.router.answer(request, peer).await.into_parts();
            body.collect().await.expect("a whole answer");
            head.status
        });
        assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(self.router.gateway.health.liveness.reason(), None);
        Some(status)
    }

    /// [Answers](Self::answer) a request generated from bytes: an operation with any headers and
    /// parameters. Also returns the request.
    pub fn answer_generated(&self, data: &[u8]) -> (Option<StatusCode>, Vec<u8>) {
        let request = generate_request(data);
        (self.answer(&request), request)
    }
}
