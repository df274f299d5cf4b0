//! Routes requests to the server's own paths, CORS, signature checks, browser forms and operations,
//! and completes their responses. The server owns the connections.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use hyper::body::Body;
use s3s::{S3Result, StdError, s3_error};

use crate::auth::bearer;
use crate::auth::caller::Peer;
use crate::auth::signatures::{self, Signing, is_form};
use crate::auth::unsigned;
use crate::dashboard::{self, Dashboard};
use crate::gateway::Gateway;
use crate::health::metrics::Metrics;
use crate::http::addressing::{Addresses, Domain, is_local};
use crate::http::cors::Cors;
use crate::http::drain::DrainOnDrop;
use crate::http::request_body::{BodyProgress, RequestBody};
use crate::memory::{MemoryOwner, MemoryReservation};
use crate::s3::errors::answers::{RequestFacts, error_response, finish_response};
use crate::s3::errors::{FirstError, busy, internal};
use crate::s3::framework::Framework;
use crate::s3::normalize::has_body;
use crate::s3::post_object::Forms;
use crate::s3::{bulk_get, bulk_put};
use crate::settings::Settings;
use crate::state::{hex, random};

/// Maximum number of query parameters. Each takes far more memory than its bytes.
const PARAMETERS_MAX: usize = 128;
/// Timeout of a request, from the arrival of its last byte. A copy of 5 GiB takes minutes on a slow
/// disk.
const PROCESSING_MAX: Duration = Duration::from_secs(15 * 60);
/// Responses up to this size are covered by the memory per connection.
const UNCHARGED_RESPONSE_BYTES_MAX: usize = 64 << 10;

/// Marks responses of the server's own pages, which are no requests of S3 clients.
#[derive(Debug, Clone, Copy)]
struct OwnPage;

/// The server's own pages. No bucket can be called `-`, so they hide no object of a bucket in the
/// path.
const HEALTH: &str = "/-/health";
const READY: &str = "/-/ready";
const METRICS: &str = "/-/metrics";
const SERVER_PAGES: [&str; 5] = [HEALTH, READY, METRICS, dashboard::RESTORES, dashboard::PATH];

/// The policy of objects that are shown as pages: they may do all but use their origin.
const SANDBOX: &str = "sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts";

const DASHBOARD_ELSEWHERE: &str = "the settings have a domain, so the dashboard is served only there and at the server's IP addresses\n";

static REQUESTS: AtomicU64 = AtomicU64::new(0);

/// Answers requests; all connections share it.
pub(crate) struct Router {
    pub(crate) gateway: Arc<Gateway>,
    framework: Framework,
    forms: Forms,
    cors: Cors,
    addresses: Arc<Addresses>,
    region: String,
    metrics: Metrics,
    metrics_token: Option<String>,
    pub(crate) dashboard: Dashboard,
}

impl Router {
    /// A router to the operations of a gateway.
    pub(crate) fn new(gateway: Arc<Gateway>, domain: Option<Domain>, settings: &Settings) -> Self {
        let state = gateway.state.clone();
        let addresses = Arc::new(Addresses::new(domain.clone()));
        let framework = Framework::new(&gateway, domain.as_ref(), &addresses);
        let forms =
            Forms { framework: framework.clone(), state: state.clone(), region: settings.region.clone(), addresses: addresses.clone() };
        Self {
            gateway,
            framework,
            forms,
            cors: Cors { state, addresses: addresses.clone() },
            addresses,
            region: settings.region.clone(),
            metrics: Metrics::default(),
            metrics_token: settings.metrics_token.clone(),
            dashboard: Dashboard::new(&settings.dashboard),
        }
    }

    /// Metrics, for clients with the token. Without a token in the settings, only for this machine
    /// and not through a proxy on it.
    fn metrics(&self, headers: &HeaderMap, peer: IpAddr) -> Response<s3s::Body> {
        let is_allowed = match &self.metrics_token {
            Some(token) => bearer::has_token(headers, token),
            None => peer.to_canonical().is_loopback() && is_local(headers),
        };
        if !is_allowed {
            return page(StatusCode::FORBIDDEN, "metrics require the `metrics_token` of service.toml as bearer token\n");
        }
        let mut response = Response::new(s3s::Body::from(self.gateway.render_metrics(&self.metrics)));
        response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4"));
        response
    }

    /// Liveness: 503 with the reason if the server can't go on.
    fn health(&self) -> Response<s3s::Body> {
        match self.gateway.health.liveness.reason() {
            None => page(StatusCode::OK, "ok\n"),
            Some(reason) => page(StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
        }
    }

    /// Readiness: 503 with the reasons if a part of the server can't do its work.
    fn ready(&self) -> Response<s3s::Body> {
        if self.gateway.health.liveness.reason().is_some() { self.health() } else { self.gateway.health.readiness.response() }
    }

    /// Answers a request for one of the server's own pages. Probes may send HEAD, which hyper
    /// answers without the body.
    async fn server_page(&self, method: &Method, uri: &Uri, headers: &HeaderMap, peer: IpAddr) -> Response<s3s::Body> {
        let path = uri.path();
        if !SERVER_PAGES.contains(&path) && !dashboard::is_path(path) {
            return page(StatusCode::NOT_FOUND, format!("no such page; the server's own pages are {}\n", SERVER_PAGES.join(", ")));
        }
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut response = page(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are allowed here\n");
            response.headers_mut().insert(http::header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match path {
            HEALTH => self.health(),
            READY => self.ready(),
            METRICS => self.metrics(headers, peer),
            // A bucket could take another host over later, with a page of its own at this path.
            _ if !self.addresses.is_bucketless(headers) => page(StatusCode::NOT_FOUND, DASHBOARD_ELSEWHERE),
            _ => self.dashboard.answer(&self.gateway, path, uri.query(), headers).await,
        }
    }

    /// Whether the framework buffers the whole body of a request: all but content, forms and
    /// bulk requests.
    fn is_buffered(&self, head: &Parts) -> bool {
        let is_content = || {
            head.method == Method::PUT
                && !has_body(&head.uri)
                && self.addresses.find(&head.uri, &head.headers).is_some_and(|(_, key)| !key.is_empty())
        };
        let is_bulk = || [bulk_get::KIND, bulk_put::KIND].iter().any(|kind| kind.is_match(&head.method, &head.uri, &head.headers));
        !(is_content() || is_form(&head.method, &head.headers) || is_bulk())
    }

    /// Charges a response that is buffered whole to the shared memory until the client has read it,
    /// since clients may be slow.
    fn reserve_response_memory(
        &self,
        mut response: Response<s3s::Body>,
        memory_owner: &MemoryOwner,
        facts: &RequestFacts<'_>,
    ) -> Response<s3s::Body> {
        let Some(bytes) = response.body().bytes().filter(|bytes| bytes.len() > UNCHARGED_RESPONSE_BYTES_MAX) else { return response };
        match self.gateway.buffered_responses.try_reserve(memory_owner, bytes.len()) {
            Some(reservation) => {
                *response.body_mut() = s3s::Body::from(Bytes::from_owner(ReservedBytes { bytes, _reservation: reservation }));
                response
            }
            None => error_response(busy("Too many long answers wait for their clients. Please reduce your request rate.", 5), facts),
        }
    }

    /// The response of S3, or the S3 error. The inner error is a failure of the framework.
    async fn call_s3<B>(&self, mut head: Parts, body: RequestBody<B>) -> S3Result<Result<Response<s3s::Body>, String>>
    where
        B: Body<Data = Bytes, Error: Into<StdError>> + Send + Sync + Unpin + 'static,
    {
        if head.uri.query().is_some_and(|query| query.bytes().filter(|byte| *byte == b'&').count() >= PARAMETERS_MAX) {
            return Err(s3_error!(InvalidArgument, "The request has more than {PARAMETERS_MAX} parameters."));
        }
        self.gateway.jobs.scrub_progress.record_request();
        // CORS preflight requests are unsigned.
        if head.method == Method::OPTIONS {
            return self.cors.answer_preflight(&head.uri, &head.headers).map(Ok);
        }
        let signing = signatures::check(&head.uri, &head.headers, &self.region)?;
        signatures::add_signing_time(&mut head.headers);
        let form = self.forms.find(&head.method, &head.uri, &head.headers)?;
        let body = match signing {
            Signing::Unsigned if form.is_none() => unsigned::body(&mut head, body)?,
            _ => s3s::Body::http_body(body),
        };
        let request = Request::from_parts(head, body);
        // Boxed, or the futures around them have their size too, and are moved a dozen times.
        match form {
            Some(bucket) => Box::pin(self.forms.call(&bucket, request)).await.map(Ok),
            None => Ok(Box::pin(self.framework.call(request)).await),
        }
    }

    /// Answers a request. A panic fails only this request, with a 500.
    pub(crate) async fn answer<B>(&self, request: Request<B>, peer: Peer) -> Response<s3s::Body>
    where
        B: Body<Data = Bytes, Error: Into<StdError>> + Send + Sync + Unpin + 'static,
    {
        let started = Instant::now();
        let id = format!("{:08X}{}", REQUESTS.fetch_add(1, Ordering::Relaxed), hex(&random::<4>()).to_uppercase());
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let length = request.headers().get(http::header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let facts = RequestFacts { path: &path, id: &id };
        let response_future = std::panic::AssertUnwindSafe(self.route(request, peer, &facts)).catch_unwind();
        let mut response = response_future.await.unwrap_or_else(|panic| {
            self.gateway.panicked("a request", &*panic);
            let mut response = error_response(internal(), &facts);
            // The unread rest of the body must not be taken for the next request.
            response.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
            response
        });
        let headers = response.headers_mut();
        headers.insert("server", HeaderValue::from_static("fulgurite"));
        if let Ok(id) = HeaderValue::from_str(&id) {
            headers.insert("x-amz-request-id", id);
        }
        let (status, time) = (response.status(), started.elapsed());
        // Probes, scrapes and dashboards would hide how clients fare: a probe that is answered with
        // 503 is no error of theirs.
        if response.extensions().get::<OwnPage>().is_some() {
            self.metrics.count_own_page(status);
        } else {
            self.metrics.count(&method, status, time, length.unwrap_or(0));
            self.gateway.health.activity.count(&method, status, time, length.unwrap_or(0));
        }
        // Queries may hold signatures and are not logged.
        tracing::info!(id, %method, path, status = status.as_u16(), us = time.as_micros() as u64, "request");
        response
    }

    async fn route<B>(&self, mut request: Request<B>, peer: Peer, facts: &RequestFacts<'_>) -> Response<s3s::Body>
    where
        B: Body<Data = Bytes, Error: Into<StdError>> + Send + Sync + Unpin + 'static,
    {
        let method = request.method().clone();
        let expects_continue = request.headers().contains_key(http::header::EXPECT);
        let is_empty = request.headers().get(http::header::CONTENT_LENGTH).is_some_and(|length| length == "0");
        let first_error = FirstError::default();
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(first_error.clone());
        let (mut head, body) = request.into_parts();
        let cors_request = head.headers.contains_key(http::header::ORIGIN).then(|| (head.uri.clone(), head.headers.clone()));
        let memory_owner = MemoryOwner::of(&method, &head.headers, peer.address);
        head.extensions.insert(memory_owner.clone());
        let progress = BodyProgress::new(self.gateway.buffered_bodies.reservation(&memory_owner), first_error.clone());
        let body = RequestBody::new(DrainOnDrop::new(body, expects_continue), &head.headers, self.is_buffered(&head), progress.clone());
        let is_server_page =
            |headers: &HeaderMap| self.cors.addresses.is_server_page(headers, |name| !matches!(self.gateway.state.bucket(name), Ok(None)));
        let shares_origin_of_dashboard =
            method == Method::GET && self.dashboard.is_enabled() && self.addresses.is_bucketless(&head.headers);
        let is_own_page = (facts.path == "/-" || facts.path.starts_with("/-/")) && is_server_page(&head.headers);
        let mut response = match is_own_page {
            // Boxed, so that other requests don't carry its future.
            true => Box::pin(self.server_page(&method, &head.uri, &head.headers, peer.address)).await,
            false => match with_timeout(self.call_s3(head, body), &progress).await {
                Ok(Ok(mut response)) => {
                    finish_response(&mut response, facts);
                    response
                }
                Ok(Err(error)) => {
                    tracing::error!(error, id = facts.id, "the framework failed");
                    error_response(internal(), facts)
                }
                Err(error) => error_response(error, facts),
            },
        };
        if let Some(error) = first_error.take() {
            response = error_response(error, facts);
        }
        if shares_origin_of_dashboard && !response.headers().contains_key(http::header::CONTENT_SECURITY_POLICY) {
            sandbox(&mut response);
        }
        let mut response = self.reserve_response_memory(response, &memory_owner, facts);
        if let Some((uri, headers)) = cors_request
            && method != Method::OPTIONS
        {
            self.cors.add_headers(&method, &uri, &headers, &mut response);
        }
        // The unread rest of the body must not be taken for the next request. And hyper never polls
        // an empty body, so it never sends 100 Continue: a client that waits for it would mistake
        // the status of the next response for the status of this one.
        if !progress.is_ended() || (expects_continue && is_empty) {
            response.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
        }
        if is_own_page {
            response.extensions_mut().insert(OwnPage);
        }
        response
    }
}

/// Objects share the origin of the dashboard, so one that a browser shows as a page could use the
/// dashboard with its viewer's token. The sandbox gives the page an origin of its own. Browsers
/// don't show PDFs in a sandbox; scripts in a PDF can't use the origin anyway.
fn sandbox(response: &mut Response<s3s::Body>) {
    let media_type = response.headers().get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_pdf = media_type.split(';').next().is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/pdf"));
    // A 304 leaves the policy of the page that the browser keeps, which may be a PDF.
    if response.status().is_success() && !is_pdf {
        response.headers_mut().insert(http::header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX));
    }
}

/// A page of text.
fn page(status: StatusCode, text: impl Into<String>) -> Response<s3s::Body> {
    let mut response = Response::new(s3s::Body::from(text.into()));
    *response.status_mut() = status;
    response
}

/// Runs a request with a timeout that starts when the last bytes of its body arrived.
async fn with_timeout<T>(response_future: impl Future<Output = S3Result<T>>, progress: &BodyProgress) -> S3Result<T> {
    let mut response_future = std::pin::pin!(response_future);
    loop {
        let end = progress.last_activity() + PROCESSING_MAX;
        match tokio::time::timeout_at(end, &mut response_future).await {
            Ok(result) => return result,
            Err(_) if progress.last_activity() + PROCESSING_MAX > end => {}
            Err(_) => return Err(busy("The request took too long and was given up. Try again when the archive has less to do.", 60)),
        }
    }
}

/// Bytes with their reserved memory.
struct ReservedBytes {
    bytes: Bytes,
    _reservation: MemoryReservation,
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Full};

    use super::*;
    use crate::test_gateway::{TestGateway, soon};

    async fn ask(router: &Router, path: &str) -> (StatusCode, String) {
        let request = Request::get(path).body(Full::new(Bytes::new())).expect("a request");
        let (head, body) = soon(router.answer(request, Peer { address: [127, 0, 0, 1].into(), is_tls: false })).await.into_parts();
        let body = body.collect().await.expect("a whole answer").to_bytes();
        (head.status, String::from_utf8(body.to_vec()).expect("text"))
    }

    /// A body that panics when it is polled.
    struct Panicking;

    impl Body for Panicking {
        type Data = Bytes;
        type Error = StdError;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, StdError>>> {
            panic!("for a test")
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_panic_fails_only_its_own_request() {
        let test = TestGateway::new();
        let gateway = test.gateway.clone();
        let router = Router::new(gateway.clone(), None, &Settings::default());
        let form = Request::post("/photos").header("content-type", "multipart/form-data; boundary=x").body(Panicking).expect("a request");
        let response = soon(router.answer(form, Peer { address: [127, 0, 0, 1].into(), is_tls: false })).await;
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let (headers, body) = (response.headers().clone(), response.into_body().collect().await.expect("an answer").to_bytes());
        assert!(headers.contains_key("x-amz-request-id") && headers[http::header::CONNECTION] == "close");
        assert!(String::from_utf8_lossy(&body).contains("<Code>InternalError</Code>"), "{body:?}");
        assert_eq!(ask(&router, "/-/health").await, (StatusCode::OK, "ok\n".to_owned()));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_servers_own_pages_answer_probes_and_name_each_other() {
        let test = TestGateway::new();
        let router = Router::new(test.gateway.clone(), None, &Settings::default());
        let send = async |method: Method, path: &str| {
            let request = Request::builder().method(method).uri(path).header("host", "127.0.0.1").body(Full::new(Bytes::new()));
            soon(router.answer(request.expect("a request"), Peer { address: [127, 0, 0, 1].into(), is_tls: false })).await
        };
        for path in SERVER_PAGES {
            // Restores name objects: without the token there is no answer.
            let expected = if path == dashboard::RESTORES { StatusCode::UNAUTHORIZED } else { StatusCode::OK };
            for method in [Method::GET, Method::HEAD] {
                assert_eq!(send(method.clone(), path).await.status(), expected, "{method} {path}");
            }
            for method in [Method::OPTIONS, Method::POST, Method::PUT, Method::DELETE] {
                let response = send(method.clone(), path).await;
                assert_eq!(
                    (response.status(), &response.headers()[http::header::ALLOW]),
                    (StatusCode::METHOD_NOT_ALLOWED, &"GET, HEAD".parse().expect("a value")),
                    "{method} {path}"
                );
            }
        }
        for path in ["/-", "/-/", "/-/x", "/-/healthy", "/-/health/"] {
            let (status, body) = ask(&router, path).await;
            assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
            assert!(SERVER_PAGES.iter().all(|page| body.contains(page)), "{body}");
        }
        assert!(!ask(&router, "/-x/health").await.1.contains("no such page"), "only a segment of its own is reserved");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn probes_that_are_answered_with_503_are_no_errors_of_clients() {
        let test = TestGateway::new();
        let router = Router::new(test.gateway.clone(), None, &Settings::default());
        test.gateway.health.readiness.report("staging", Some("staging is full".to_owned()));
        assert_eq!(ask(&router, "/-/ready").await.0, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(ask(&router, "/-/health").await.0, StatusCode::OK);
        assert_eq!(ask(&router, "/photos/none").await.0, StatusCode::FORBIDDEN);
        let metrics = test.gateway.render_metrics(&router.metrics);
        let counted = |name: &str| metrics.lines().filter(|line| line.starts_with(name)).collect::<Vec<_>>();
        assert_eq!(counted("fulgurite_requests_total"), ["fulgurite_requests_total{method=\"GET\",status=\"4xx\"} 1"]);
        assert_eq!(
            counted("fulgurite_own_page_requests_total"),
            ["fulgurite_own_page_requests_total{status=\"2xx\"} 1", "fulgurite_own_page_requests_total{status=\"5xx\"} 1"]
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_panic_that_poisons_a_lock_fails_the_health_check() {
        let test = TestGateway::new();
        let gateway = test.gateway.clone();
        let router = Router::new(gateway.clone(), None, &Settings::default());
        assert_eq!(ask(&router, "/-/health").await.0, StatusCode::OK);
        assert!(gateway.render_metrics(&Metrics::default()).contains("\nfulgurite_ready 1\n"));
        gateway.panicked("a request", &String::from("nothing panics while it holds this lock: PoisonError { .. }"));
        for path in ["/-/health", "/-/ready"] {
            let (status, body) = ask(&router, path).await;
            assert!(status == StatusCode::SERVICE_UNAVAILABLE && body.contains("poisoned"), "{status} {body}");
        }
        let metrics = gateway.render_metrics(&Metrics::default());
        assert!(metrics.contains("\nfulgurite_ready 0\n"), "{metrics}");
        let (status, body) = ask(&router, "/photos/k").await;
        assert_eq!((status, body.contains("<Code>AccessDenied</Code>")), (StatusCode::FORBIDDEN, true), "{body}");
    }
}
