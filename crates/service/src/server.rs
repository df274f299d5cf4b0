//! The HTTP server: accepts connections, serves requests on them one after another, and gives
//! requests in progress some time to finish when it stops.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fulgurite_archive::{Archive, ArchiveError};
use futures_util::FutureExt;
use http::HeaderValue;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use s3s::StdError;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::auth::caller::Peer;
use crate::control::Channel;
use crate::gateway::Gateway;
use crate::health::events::EventLog;
use crate::http::addressing::Domain;
use crate::http::connections::{BusyBody, Connection, Connections};
use crate::http::router::Router;
use crate::http::tls::{self, Certificate, TlsError};
use crate::http::write_timeout::WriteTimeout;
use crate::jobs;
use crate::jobs::scrubbing;
use crate::library::{self, Library, LibraryError};
use crate::memory::{Budget, MemoryTooSmall};
use crate::settings::Settings;
use crate::state::{State, StateError};
use crate::traces::Traces;

/// Timeout for receiving the head of a request, and for a TLS handshake.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a request head: S3 allows 8 KiB of headers, and presigned URLs are long.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// How long requests in progress may take after the server is stopped.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);
/// The same after a failure. Most requests would fail anyway.
const FAILURE_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Why the server can't start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The server can't listen on the address.
    #[error(
        "can't listen on {address}: {source}. Use another address: `fulgurite serve --listen ADDRESS:PORT`, or `listen` in service.toml"
    )]
    Listen {
        /// The address in the settings.
        address: SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The setting `domain` isn't a domain.
    #[error("the setting `domain` in service.toml is {domain:?}, which is not a domain: use a name such as s3.example.org")]
    Domain {
        /// The value of the setting.
        domain: String,
    },
    /// The archive failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The service's database failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// The TLS files can't be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The memory limit in the settings is too small.
    #[error(transparent)]
    Memory(#[from] MemoryTooSmall),
    /// The file for traces can't be opened.
    #[error("can't open {file}, the file for traces in service.toml: {source}")]
    Traces {
        /// The file.
        file: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The library can't start.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The server ran, then failed in a way that it can't recover from.
    #[error(
        "the server stopped after a failure: {reason}. Acknowledged objects are safe; restart the server and report the panic in its log"
    )]
    Failed {
        /// The failure.
        reason: String,
    },
}

/// A bound address. Connections wait until a [`Server`] accepts them.
#[derive(Debug)]
pub struct Listener(TcpListener);

impl Listener {
    /// Binds an address. Needs no archive, so that a taken port is noticed before one is created.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub async fn bind(address: SocketAddr) -> Result<Self, ServeError> {
        let bound = TcpListener::bind(address).await;
        bound.map(Self).map_err(|source| ServeError::Listen { address, source })
    }
}

/// A bound server, ready to serve.
pub struct Server {
    listener: TcpListener,
    router: Arc<Router>,
    connections: Connections,
    tls: Option<TlsAcceptor>,
    settings: Settings,
    /// `None` if it can't be created, or once it is served.
    control: Option<Channel>,
}

impl Server {
    /// Checks the certificate in the settings, before anything is created on disk. Relative paths
    /// start at `home`.
    ///
    /// # Errors
    /// [`ServeError::Tls`].
    pub fn check_certificate(home: &Path, settings: &Settings) -> Result<(), ServeError> {
        settings.tls.as_ref().map(|tls| Certificate::read(home, tls)).transpose()?;
        Ok(())
    }

    /// Opens the state, the gateway and the control socket. `events` has what is logged.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    ///
    /// # Errors
    /// [`ServeError`] if the settings or the state can't be used.
    pub fn open(
        Listener(listener): Listener,
        archive: Arc<Archive>,
        settings: Settings,
        events: Arc<EventLog>,
    ) -> Result<Self, ServeError> {
        let certificate = settings.tls.as_ref().map(|tls| Certificate::read(archive.home(), tls)).transpose()?.map(Arc::new);
        let tls = certificate.as_ref().map(tls::acceptor).transpose()?;
        let state = Arc::new(State::open(archive)?);
        let limits = &state.archive().settings().limits;
        let budget = Budget::new(settings.memory_mib, limits.memory_mib, settings.connections)?;
        let traces = Traces::open(state.archive().home(), &settings.traces.file);
        let traces = traces.map_err(|source| ServeError::Traces { file: settings.traces.file.clone(), source })?;
        let library = Library::open(state.archive(), &state, &settings.library, traces.clone())?;
        let mut gateway = Gateway::new(state.clone(), &settings, &budget, library)?;
        (gateway.health.events, gateway.traces) = (events, traces);
        gateway.health.certificate = certificate;
        let gateway = Arc::new(gateway);
        gateway.take_in_sets();
        // The first readiness probe must already report the true state of the disks.
        gateway.check_disks();
        if let Err(error) = gateway.end_completed_uploads() {
            tracing::warn!(%error, "can't end multipart uploads that were completed before");
        }
        let swept = gateway.transfers.parts.sweep(|file| state.knows_part(file).unwrap_or(true));
        if let Err(error) = swept {
            tracing::warn!(%error, "can't remove part files without an upload");
        }
        let router = Arc::new(Router::new(gateway.clone(), domain(&settings)?, &settings));
        // Before the address is announced: a command that follows at once must find the server.
        let control = Channel::open(gateway).inspect_err(|error| {
            // Clients don't need the control socket, so the server runs without it.
            tracing::error!(%error, "can't create the control socket: `verify`, `scrub`, `flush` and `recover` work only while the server is stopped");
        });
        let connections = Connections::new(budget.connections, settings.connections_per_address);
        Ok(Self { listener, router, connections, tls, settings, control: control.ok() })
    }

    /// The state of the service.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.router.gateway.state
    }

    /// The address that the server listens on.
    ///
    /// # Panics
    /// If the operating system can't tell the address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("a socket that was bound has an address")
    }

    /// Whether connections are TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The path of the dashboard, with its token if that was made at this start; `None` if the
    /// dashboard is turned off.
    #[must_use]
    pub fn dashboard_link(&self) -> Option<String> {
        self.router.dashboard.link()
    }

    /// Serves until `stop` resolves, then gives requests in progress some time to finish.
    ///
    /// # Errors
    /// [`ServeError::Failed`] if the server stopped because it could not go on.
    pub async fn serve(mut self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let (stop_sender, stopping) = watch::channel(false);
        let gateway = self.router.gateway.clone();
        let background = self.start_jobs(&gateway, &stopping);
        let graceful = GracefulShutdown::new();
        tokio::select! {
            () = self.accept(&graceful) => {}
            () = stop => {}
            _ = gateway.health.liveness.failed() => {}
        }
        drop(self);
        let _ = stop_sender.send(true);
        let failed = gateway.health.liveness.reason();
        let timeout = if failed.is_some() { FAILURE_SHUTDOWN_TIMEOUT } else { SHUTDOWN_TIMEOUT };
        if tokio::time::timeout(timeout, graceful.shutdown()).await.is_err() {
            tracing::warn!("requests in progress took too long and were cut off");
        }
        for job in background {
            let _ = job.await;
        }
        // The failure may have happened during shutdown.
        if let Some(reason) = failed.or_else(|| gateway.health.liveness.reason()) {
            return Err(ServeError::Failed { reason });
        }
        gateway.back_up_state().await;
        tracing::info!("stopped");
        Ok(())
    }

    /// Starts the control channel and the background jobs, which run until `stop` is set.
    fn start_jobs(&mut self, gateway: &Arc<Gateway>, stop: &watch::Receiver<bool>) -> Vec<JoinHandle<()>> {
        let control = self.control.take().map(|channel| tokio::spawn(channel.serve(stop.clone())));
        let scrubbing = tokio::spawn(scrubbing::scrub(gateway.clone(), self.settings.scrub.clone(), stop.clone()));
        let jobs = tokio::spawn(jobs::run(gateway.clone(), self.settings.background.clone(), stop.clone()));
        let library = gateway.library.is_some().then(|| tokio::spawn(library::run_workers(gateway.clone(), stop.clone())));
        let certificate = gateway.health.certificate.clone().map(|certificate| tokio::spawn(tls::watch(certificate, stop.clone())));
        [jobs, scrubbing].into_iter().chain(control).chain(library).chain(certificate).collect()
    }

    /// Accepts connections, and serves each in a task of its own. Never returns.
    async fn accept(&self, graceful: &GracefulShutdown) {
        loop {
            // When no permit is free, new connections wait in the accept queue.
            let permit = self.connections.acquire_permit().await;
            let (stream, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Most likely out of file descriptors. Some become free when connections end.
                    tracing::warn!(%error, "can't accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            // Refuses the connection if its address is at its limit and none of its connections may
            // be closed.
            let Some(connection) = self.connections.admit(peer.ip(), permit).map(Arc::new) else { continue };
            // Responses are small, and clients wait for them.
            let _ = stream.set_nodelay(true);
            let stream = WriteTimeout::new(stream);
            let (router, tls, watcher) = (self.router.clone(), self.tls.clone(), graceful.watcher());
            tokio::spawn(async move {
                let serving = answer_all(stream, peer.ip(), &router, tls, &connection, watcher);
                // The router catches panics before a response begins. This catches panics in
                // response bodies.
                let serving = AssertUnwindSafe(serving).catch_unwind();
                let ended = tokio::select! {
                    ended = serving => ended,
                    () = connection.evicted() => Ok(Err("closed while idle, to admit another connection".into())),
                };
                match ended {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::debug!(error, "a connection ended"),
                    Err(panic) => router.gateway.panicked("the body of an answer", &*panic),
                }
            });
        }
    }
}

/// Answers the requests of a connection, one after another, until the client closes it or the
/// server stops.
async fn answer_all(
    stream: WriteTimeout<TcpStream>,
    address: IpAddr,
    router: &Arc<Router>,
    tls: Option<TlsAcceptor>,
    connection: &Arc<Connection>,
    watcher: Watcher,
) -> Result<(), StdError> {
    let peer = Peer { address, is_tls: tls.is_some() };
    let service = service_fn(|request| {
        let router = router.clone();
        let (busy_guard, is_last) = connection.request();
        async move {
            let mut response = router.answer(request, peer).await;
            if is_last {
                response.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response.map(|body| BusyBody { body, _busy_guard: busy_guard }))
        }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(HEAD_BYTES_MAX);
    match tls {
        None => watcher.watch(http.serve_connection(TokioIo::new(stream), service)).await?,
        Some(tls) => {
            let handshake = tokio::time::timeout(HEAD_TIMEOUT, tls.accept(stream)).await;
            let stream = handshake.map_err(|_| "the TLS handshake took too long")??;
            watcher.watch(http.serve_connection(TokioIo::new(stream), service)).await?;
        }
    }
    Ok(())
}

/// The domain whose subdomains address buckets.
fn domain(settings: &Settings) -> Result<Option<Domain>, ServeError> {
    let read = |domain: &String| Domain::new(domain).ok_or_else(|| ServeError::Domain { domain: domain.clone() });
    settings.domain.as_ref().map(read).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_gateway::{new_archive, soon};

    fn settings(memory_mib: u64) -> Settings {
        Settings { listen: SocketAddr::from(([127, 0, 0, 1], 0)), memory_mib, ..Settings::default() }
    }

    async fn open(home: &std::path::Path, settings: Settings) -> Result<Server, ServeError> {
        Server::open(Listener::bind(settings.listen).await?, new_archive(home), settings, Arc::default())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_failed_server_stops_with_the_reason() {
        let home = tempfile::tempdir().expect("a folder");
        let server = open(home.path(), settings(1_664)).await.expect("bound");
        server.router.gateway.state.poison();
        let ended = soon(server.serve(std::future::pending())).await.expect_err("it can't go on");
        assert!(matches!(&ended, ServeError::Failed { reason } if reason.contains("poisoned")), "{ended}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn too_little_memory_is_refused_with_the_amount_needed() {
        let home = tempfile::tempdir().expect("a folder");
        let Err(refused) = open(home.path(), settings(100)).await else { panic!("100 MiB are too little") };
        let message = refused.to_string();
        assert!(message.contains("memory_mib = 100") && message.contains("set memory_mib to 898"), "{message}");
    }
}
