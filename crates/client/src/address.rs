//! The address of an HTTP server, and connections to it.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::Uri;
use http::uri::Scheme;
use hyper::body::Body;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::connection::{Failure, failure_of};
use crate::server::ServerError;

/// Bytes to and from a server, with or without TLS.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Where an HTTP server listens.
#[derive(Debug, Clone)]
pub struct Address {
    authority: String,
    host: String,
    port: u16,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl Address {
    /// The address `http://HOST[:PORT]` or `https://HOST[:PORT]`. `authorities` is a file in PEM
    /// form with the certificate authorities to trust, instead of the system's.
    ///
    /// # Errors
    /// [`ServerError`] if the address is wrong, or the authorities can't be read.
    pub fn new(url: &str, authorities: Option<&str>) -> Result<Self, ServerError> {
        if url.contains('@') {
            return Err(ServerError::UserInfo);
        }
        let wrong = || ServerError::Address { found: url.to_owned(), expected: "http://HOST:PORT or https://HOST:PORT" };
        let uri: Uri = url.trim_end_matches('/').parse().map_err(|_| wrong())?;
        let is_tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err(wrong()),
        };
        let authority = uri.authority().filter(|_| matches!(uri.path(), "" | "/") && uri.query().is_none()).ok_or_else(wrong)?;
        // Brackets belong to URLs, not to addresses.
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let tls = match is_tls {
            false => None,
            true => Some((trusting(authorities)?, ServerName::try_from(host.clone()).map_err(|_| wrong())?)),
        };
        Ok(Self { authority: authority.to_string(), host, port, tls })
    }

    /// The host and port, as in the header `Host`.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// `http` or `https`.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// The port, if the host is `localhost` or a loopback address.
    #[must_use]
    pub fn local_port(&self) -> Option<u16> {
        let is_local = self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        is_local.then_some(self.port)
    }

    /// Opens a connection. The returned future drives it; poll it while requests run. The sender
    /// returns errors of the connection.
    ///
    /// # Errors
    /// If the server can't be reached, or TLS fails.
    pub async fn connect<B>(&self) -> Result<(SendRequest<B>, impl Future<Output = ()> + Send + use<B>), Failure>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let failed = |error: io::Error| match error.raw_os_error() {
            Some(_) => format!("no connection: {}", error.kind()),
            // The host was not found, which has no kind of its own.
            None => format!("no connection to {}: {error}", self.host),
        };
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let stream: Box<dyn Stream> = match &self.tls {
            None => Box::new(stream),
            Some((config, name)) => {
                let stream = TlsConnector::from(config.clone()).connect(name.clone(), stream).await;
                Box::new(stream.map_err(|error| format!("TLS failed: {error}"))?)
            }
        };
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| failure_of(&error))?;
        Ok((sender, async move { drop(connection.await) }))
    }
}

/// TLS settings that trust the authorities of the system, or those in a file.
fn trusting(file: Option<&str>) -> Result<Arc<ClientConfig>, ServerError> {
    let mut store = RootCertStore::empty();
    match file {
        Some(path) => {
            let unusable = |error: &dyn std::fmt::Display| ServerError::Authorities(format!("{path}: {error}"));
            let pem = std::fs::read(path).map_err(|error| unusable(&error))?;
            for certificate in CertificateDer::pem_slice_iter(&pem) {
                store.add(certificate.map_err(|error| unusable(&error))?).map_err(|error| unusable(&error))?;
            }
        }
        // Some system certificates can't be parsed; the others still work.
        None => drop(store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    if store.is_empty() {
        return Err(ServerError::Authorities(format!("{} has no certificate authority", file.unwrap_or("the system"))));
    }
    Ok(Arc::new(ClientConfig::builder().with_root_certificates(store).with_no_client_auth()))
}
