//! The server: connections, requests one after another on each, and an end that lets those under way finish.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fulgurite_archive::{Archive, ArchiveError};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use s3s::S3Result;
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::service::{S3Service, S3ServiceBuilder};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use crate::access::{Gate, Signatures};
use crate::address::{Addresses, Domain};
use crate::background;
use crate::between::Between;
use crate::caller::Peer;
use crate::cors::Cors;
use crate::errors::{Asked, XML_BYTES_MAX, complete};
use crate::forms::Forms;
use crate::gateway::Gateway;
use crate::metrics::Metrics;
use crate::names::BucketNames;
use crate::patience::Patient;
use crate::routes::Routes;
use crate::s3::Operations;
use crate::s3::retrieve::Retrieve;
use crate::settings::Settings;
use crate::signatures;
use crate::state::{State, StateError, hex, random};
use crate::tls::{self, TlsError};
use crate::watched::Watched;

/// How long a client may take for the head of a request.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// The longest head of a request: S3 allows 8 KiB of headers, and presigned URLs are long.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// How long requests under way may take when the server is stopped.
const END_PATIENCE: Duration = Duration::from_secs(30);

/// Why the server can't run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address can't be listened on.
    #[error("can't listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// The domain of the settings isn't one.
    #[error("the setting `domain` is {domain:?}, which is not a domain")]
    Domain {
        /// What it is.
        domain: String,
    },
    /// The archive failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The service's database failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// The files for TLS can't be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A server that is about to serve.
pub struct Server {
    listener: TcpListener,
    gateway: Arc<Gateway>,
    service: S3Service,
    forms: Forms,
    cors: Cors,
    tls: Option<TlsAcceptor>,
    settings: Settings,
}

impl Server {
    /// Binds the address and opens everything.
    ///
    /// # Errors
    /// [`ServeError`] says what is in the way.
    pub async fn bind(archive: Arc<Archive>, settings: Settings) -> Result<Self, ServeError> {
        let tls = settings.tls.as_ref().map(|tls| tls::acceptor(archive.home(), tls)).transpose()?;
        let listen = |source| ServeError::Listen { address: settings.listen, source };
        let listener = TcpListener::bind(settings.listen).await.map_err(listen)?;
        let state = Arc::new(State::open(archive)?);
        let gateway = Arc::new(Gateway::new(state.clone(), settings.region.clone(), settings.restores.quota())?);
        let swept = gateway.parts.sweep(|file| state.knows_part(file).unwrap_or(true));
        if let Err(error) = swept {
            tracing::warn!(%error, "files of parts that no upload knows can't be removed");
        }
        let checked = operations(&gateway, &state, &settings)?.build();
        let addresses = Arc::new(Addresses::new(host(&settings)?));
        let retrieve = Retrieve { gateway: gateway.clone(), addresses: addresses.clone() };
        let mut service = operations(&gateway, &state, &settings)?;
        service.set_route(Routes { retrieve, between: Between(checked.clone()) });
        let forms = Forms { operations: checked, state: state.clone(), region: settings.region.clone(), addresses: addresses.clone() };
        let cors = Cors { state, addresses };
        Ok(Self { listener, gateway, service: service.build(), forms, cors, tls, settings })
    }

    /// Where it listens.
    ///
    /// # Panics
    /// If the system doesn't know.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("a socket that was bound has an address")
    }

    /// Whether connections are TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Serves until `stop` is done; then requests under way may finish.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let (tell, told) = watch::channel(false);
        let background = tokio::spawn(background::work(self.gateway.clone(), self.settings.background.clone(), told));
        let connections = Arc::new(Semaphore::new(self.settings.connections));
        let graceful = GracefulShutdown::new();
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).max_buf_size(HEAD_BYTES_MAX);
        let shared = Arc::new(Shared {
            service: self.service,
            forms: self.forms,
            cors: self.cors,
            gateway: self.gateway,
            region: self.settings.region,
            metrics: Metrics::default(),
            metrics_token: self.settings.metrics_token,
        });
        let mut stop = std::pin::pin!(stop);
        loop {
            // Whoever comes while all are taken waits in the system's queue.
            let permit = tokio::select! {
                permit = connections.clone().acquire_owned() => permit.expect("it is never closed"),
                () = &mut stop => break,
            };
            let (stream, peer) = tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        // Out of files, most likely: it passes when connections end.
                        tracing::warn!(%error, "a connection can't be accepted");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                },
                () = &mut stop => break,
            };
            // Answers are small, and clients wait for them.
            let _ = stream.set_nodelay(true);
            let stream = Patient::new(stream);
            let (shared, tls) = (shared.clone(), self.tls.clone());
            let peer = Peer { address: peer.ip(), is_tls: tls.is_some() };
            let service = service_fn(move |request| answer(shared.clone(), request, peer));
            let (http, watcher) = (http.clone(), graceful.watcher());
            tokio::spawn(async move {
                let _permit = permit;
                let ended = match tls {
                    None => watcher.watch(http.serve_connection(TokioIo::new(stream), service)).await.map_err(|error| error.to_string()),
                    Some(tls) => match tokio::time::timeout(HEAD_PATIENCE, tls.accept(stream)).await {
                        Ok(Ok(stream)) => {
                            watcher.watch(http.serve_connection(TokioIo::new(stream), service)).await.map_err(|error| error.to_string())
                        }
                        Ok(Err(error)) => Err(error.to_string()),
                        Err(_) => Err("the TLS handshake took too long".to_owned()),
                    },
                };
                if let Err(error) = ended {
                    tracing::debug!(error, "a connection ended");
                }
            });
        }
        drop(self.listener);
        let _ = tell.send(true);
        if tokio::time::timeout(END_PATIENCE, graceful.shutdown()).await.is_err() {
            tracing::warn!("requests under way took too long and were cut off");
        }
        let _ = background.await;
        shared.gateway.copy_state().await;
        tracing::info!("stopped");
    }
}

/// The operations behind signatures and the gate.
pub(crate) fn operations(gateway: &Arc<Gateway>, state: &Arc<State>, settings: &Settings) -> Result<S3ServiceBuilder, ServeError> {
    let mut builder = S3ServiceBuilder::new(Operations(gateway.clone()));
    builder.set_auth(Signatures(state.clone()));
    builder.set_access(Gate(gateway.clone()));
    builder.set_validation(BucketNames);
    let mut config = S3Config::default();
    config.xml_max_body_size = XML_BYTES_MAX as usize;
    builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(config))));
    if let Some(host) = host(settings)? {
        builder.set_host(host);
    }
    Ok(builder)
}

/// The domain whose subdomains are buckets.
fn host(settings: &Settings) -> Result<Option<Domain>, ServeError> {
    let read = |domain: &String| Domain::new(domain).ok_or_else(|| ServeError::Domain { domain: domain.clone() });
    settings.domain.as_ref().map(read).transpose()
}

static REQUESTS: AtomicU64 = AtomicU64::new(0);

/// What all connections have in common.
struct Shared {
    service: S3Service,
    forms: Forms,
    cors: Cors,
    gateway: Arc<Gateway>,
    region: String,
    metrics: Metrics,
    metrics_token: Option<String>,
}

impl Shared {
    /// Figures, for whoever has the token; without one, for this machine only.
    fn metrics(&self, headers: &HeaderMap, peer: IpAddr) -> Response<s3s::Body> {
        let given = headers.get(http::header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let may = match &self.metrics_token {
            // In constant time: whoever guesses must not learn how far the guess is right.
            Some(token) => {
                given.is_some_and(|given| aws_lc_rs::constant_time::verify_slices_are_equal(token.as_bytes(), given.as_bytes()).is_ok())
            }
            None => peer.to_canonical().is_loopback(),
        };
        if !may {
            let mut response = Response::new(s3s::Body::from("metrics need the token of the settings\n".to_owned()));
            *response.status_mut() = StatusCode::FORBIDDEN;
            return response;
        }
        let mut response = Response::new(s3s::Body::from(self.gateway.figures(&self.metrics)));
        response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4"));
        response
    }
}

impl Shared {
    /// The answer of S3 to a request, or what is wrong with the request; the inner error is the framework failing.
    async fn answered(&self, mut head: Parts, body: Watched) -> S3Result<Result<Response<s3s::Body>, String>> {
        // Browsers sign nothing when they ask what they may.
        if head.method == Method::OPTIONS {
            return self.cors.before(&head.uri, &head.headers).map(Ok);
        }
        if let Some(refused) = signatures::refuse(&head.uri, &head.headers, &self.region) {
            return Err(refused);
        }
        signatures::date(&mut head.headers);
        let form = self.forms.bucket(&head.method, &head.uri, &head.headers);
        let request = Request::from_parts(head, s3s::Body::http_body(body));
        match form {
            Some(bucket) => self.forms.call(&bucket, request).await.map(Ok),
            None => Ok(self.service.call(request).await.map_err(|error| format!("{error:?}"))),
        }
    }
}

/// Answers a request: those of the service itself, and S3's.
async fn answer(shared: Arc<Shared>, mut request: Request<Incoming>, peer: Peer) -> Result<Response<s3s::Body>, Infallible> {
    let begun = Instant::now();
    let id = format!("{:08X}{}", REQUESTS.fetch_add(1, Ordering::Relaxed), hex(&random::<4>()).to_uppercase());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let query = request.uri().query().map(str::to_owned);
    let length = request.headers().get(http::header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let expects = request.headers().contains_key(http::header::EXPECT);
    request.extensions_mut().insert(peer);
    let (head, body) = request.into_parts();
    let of_site = head.headers.contains_key(http::header::ORIGIN).then(|| (head.uri.clone(), head.headers.clone()));
    let (body, ended) = Watched::new(body, &head.headers);
    let mut response = match (&method, path.as_str()) {
        (&Method::GET, "/-/health" | "/-/ready") => Response::new(s3s::Body::from("ok\n".to_owned())),
        (&Method::GET, "/-/metrics") => shared.metrics(&head.headers, peer.address),
        _ => {
            let answered = match shared.answered(head, body).await {
                Ok(answered) => answered,
                Err(refused) => refused.to_http_response().map_err(|error| error.to_string()),
            };
            answered.unwrap_or_else(|error| {
                tracing::error!(error, id, "the framework failed");
                let mut response = Response::new(s3s::Body::empty());
                *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                response
            })
        }
    };
    complete(&mut response, &Asked { path: &path, query: query.as_deref(), length, id: &id });
    if let Some((uri, headers)) = of_site
        && method != Method::OPTIONS
    {
        shared.cors.after(&method, &uri, &headers, &mut response);
    }
    let headers = response.headers_mut();
    // What is left of the body can't be told from a next request.
    // The library asks for no body that is empty, and so never says 100; a client that waits for it takes the next status for this one's.
    if !ended.is_ended() || (expects && length == Some(0)) {
        headers.insert(http::header::CONNECTION, HeaderValue::from_static("close"));
    }
    headers.insert("server", HeaderValue::from_static("fulgurite"));
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert("x-amz-request-id", id);
    }
    shared.metrics.count(&method, response.status(), begun.elapsed(), length.unwrap_or(0));
    // Queries may hold signatures, and stay out of the log.
    tracing::info!(id, %method, path, status = response.status().as_u16(), us = begun.elapsed().as_micros() as u64, "request");
    Ok(response)
}
