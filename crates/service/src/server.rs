//! The server: connections, requests one after another on each, and an end that lets those under way finish.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use fulgurite_archive::{Archive, ArchiveError};
use futures_util::FutureExt;
use http::HeaderValue;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::service::S3ServiceBuilder;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::auth::access::{Gate, Signatures};
use crate::auth::caller::Peer;
use crate::control::Channel;
use crate::gateway::Gateway;
use crate::http::addressing::Domain;
use crate::http::connections::{Connections, Lasting};
use crate::http::router::Router;
use crate::http::tls::{self, TlsError};
use crate::http::write_timeout::Patient;
use crate::jobs;
use crate::jobs::scrubbing;
use crate::memory::{Budget, TooLittle};
use crate::s3::Operations;
use crate::s3::errors::answers::XML_BYTES_MAX;
use crate::s3::key_locks::BucketNames;
use crate::settings::Settings;
use crate::state::{State, StateError};

/// How long a client may take for the head of a request.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// The longest head of a request: S3 allows 8 KiB of headers, and presigned URLs are long.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// How long requests under way may take when the server is stopped.
const END_PATIENCE: Duration = Duration::from_secs(30);
/// The same when the server can't go on. Most of them would fail anyway.
const FAILED_PATIENCE: Duration = Duration::from_secs(5);

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
    /// The memory of the settings is too little.
    #[error(transparent)]
    Memory(#[from] TooLittle),
    /// It ran, and could not go on.
    #[error(
        "the server could not go on and ended: {reason}. What it acknowledged is kept; start it again, and report what its log says of a panic"
    )]
    Failed {
        /// What was found.
        reason: String,
    },
}

/// A server that is about to serve.
pub struct Server {
    listener: TcpListener,
    router: Router,
    connections: Connections,
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
        let limits = &state.archive().settings().limits;
        let budget = Budget::new(settings.memory_mib, limits.memory_mib, settings.connections)?;
        let gateway = Gateway::within(state.clone(), settings.region.clone(), settings.restores.quota(), &budget)?;
        let gateway = Arc::new(gateway.with_staging_limit(settings.staging.limit_bytes()));
        // So that the first probe is answered with what is true.
        gateway.look_at_disks();
        let swept = gateway.parts.sweep(|file| state.knows_part(file).unwrap_or(true));
        if let Err(error) = swept {
            tracing::warn!(%error, "files of parts that no upload knows can't be removed");
        }
        let router = Router::new(gateway, state, &settings)?;
        let connections = Connections::new(budget.connections, settings.connections_per_address);
        Ok(Self { listener, router, connections, tls, settings })
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
    ///
    /// # Errors
    /// [`ServeError::Failed`] if it ended by itself, since it could not go on.
    pub async fn serve(self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let (tell, told) = watch::channel(false);
        let router = Arc::new(self.router);
        let gateway = router.gateway.clone();
        let control = match Channel::open(gateway.clone()) {
            Ok(channel) => Some(tokio::spawn(channel.serve(told.clone()))),
            Err(error) => {
                // Clients don't need it, and shouldn't go without their server because of it.
                tracing::error!(%error, "the control socket can't be made, so `verify`, `scrub` and `flush` have to wait until the server has stopped");
                None
            }
        };
        let scrubbing = tokio::spawn(scrubbing::scrub(gateway.clone(), self.settings.scrub.clone(), told.clone()));
        let background = tokio::spawn(jobs::work(gateway.clone(), self.settings.background.clone(), told));
        let graceful = GracefulShutdown::new();
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE).max_buf_size(HEAD_BYTES_MAX);
        let stop = async {
            tokio::select! {
                () = stop => {}
                _ = gateway.liveness.failed() => {}
            }
        };
        let mut stop = std::pin::pin!(stop);
        loop {
            // While all are taken and busy, new connections wait in the accept queue.
            let room = tokio::select! {
                room = self.connections.room() => room,
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
            // An address with as many connections as it may have, all of them busy, gets no more.
            let Some(connection) = self.connections.admit(peer.ip(), room).map(Arc::new) else { continue };
            // Answers are small, and clients wait for them.
            let _ = stream.set_nodelay(true);
            let stream = Patient::new(stream);
            let (router, tls) = (router.clone(), self.tls.clone());
            let peer = Peer { address: peer.ip(), is_tls: tls.is_some() };
            let gateway = gateway.clone();
            let own = connection.clone();
            let service = service_fn(move |request| {
                let router = router.clone();
                let (busy, is_last) = own.request();
                async move {
                    let mut response = router.answer(request, peer).await;
                    if is_last {
                        response.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
                    }
                    Ok::<_, Infallible>(response.map(|body| Lasting { body, _busy: busy }))
                }
            });
            let (http, watcher) = (http.clone(), graceful.watcher());
            tokio::spawn(async move {
                let told = |error: &dyn std::fmt::Display| error.to_string();
                let serving = async {
                    match tls {
                        None => watcher.watch(http.serve_connection(TokioIo::new(stream), service)).await.map_err(|error| told(&error)),
                        Some(tls) => match tokio::time::timeout(HEAD_PATIENCE, tls.accept(stream)).await {
                            Ok(Ok(stream)) => {
                                watcher.watch(http.serve_connection(TokioIo::new(stream), service)).await.map_err(|error| told(&error))
                            }
                            Ok(Err(error)) => Err(told(&error)),
                            Err(_) => Err("the TLS handshake took too long".to_owned()),
                        },
                    }
                };
                // The router catches what panics before an answer begins. This is for bodies of answers.
                let serving = AssertUnwindSafe(serving).catch_unwind();
                let ended = tokio::select! {
                    ended = serving => ended,
                    () = connection.evicted() => Ok(Err("it was idle, and made room for another".to_owned())),
                };
                match ended {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::debug!(error, "a connection ended"),
                    Err(panic) => gateway.panicked("the body of an answer", &*panic),
                }
            });
        }
        drop(self.listener);
        let _ = tell.send(true);
        let failed = gateway.liveness.reason();
        let patience = if failed.is_some() { FAILED_PATIENCE } else { END_PATIENCE };
        if tokio::time::timeout(patience, graceful.shutdown()).await.is_err() {
            tracing::warn!("requests under way took too long and were cut off");
        }
        let _ = background.await;
        let _ = scrubbing.await;
        if let Some(control) = control {
            let _ = control.await;
        }
        // It may have come to that only now.
        if let Some(reason) = failed.or_else(|| gateway.liveness.reason()) {
            return Err(ServeError::Failed { reason });
        }
        gateway.copy_state().await;
        tracing::info!("stopped");
        Ok(())
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
pub(crate) fn host(settings: &Settings) -> Result<Option<Domain>, ServeError> {
    let read = |domain: &String| Domain::new(domain).ok_or_else(|| ServeError::Domain { domain: domain.clone() });
    settings.domain.as_ref().map(read).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{archive, soon};

    fn settings(memory_mib: u64) -> Settings {
        Settings { listen: SocketAddr::from(([127, 0, 0, 1], 0)), memory_mib, ..Settings::default() }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_server_that_cannot_go_on_ends_with_the_reason() {
        let home = tempfile::tempdir().expect("a folder");
        let server = Server::bind(archive(home.path()), settings(1_664)).await.expect("bound");
        server.router.gateway.state.poison();
        let ended = soon(server.serve(std::future::pending())).await.expect_err("it can't go on");
        assert!(matches!(&ended, ServeError::Failed { reason } if reason.contains("poisoned")), "{ended}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn too_little_memory_is_refused_with_what_would_do() {
        let home = tempfile::tempdir().expect("a folder");
        let Err(refused) = Server::bind(archive(home.path()), settings(100)).await else { panic!("100 MiB are too little") };
        let said = refused.to_string();
        assert!(said.contains("memory_mib = 100") && said.contains("set memory_mib to 898"), "{said}");
    }
}
