//! New sockets: name resolution, TCP, TLS.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::Uri;
use http::uri::Scheme;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error, RootCertStore, client::Resumption};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::super::{Cause, Refusal};
use super::Deadlines;
use super::outgoing::Outgoing;

/// Scheme, host and port: what a socket can be used for again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) tls: bool,
    pub(super) host: String,
    pub(super) port: u16,
}

impl Origin {
    pub(super) fn of(uri: &Uri) -> Result<Self, Refusal> {
        let invalid = |problem: &str| Refusal::new(Cause::Unsupported, format!("{problem} in the URL of the place"));
        let tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err(invalid("neither http:// nor https://")),
        };
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| invalid("no host"))?;
        let port = uri.port_u16().unwrap_or(if tls { 443 } else { 80 });
        Ok(Self { tls, host: host.to_ascii_lowercase(), port })
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// An HTTP connection, and what ended it.
pub(super) struct Socket {
    pub(super) origin: Origin,
    pub(super) sender: SendRequest<Outgoing>,
    /// True if a request was answered on it before.
    pub(super) used: bool,
    /// True once the server sent bytes after the end of an answer.
    excess: Arc<Mutex<bool>>,
}

impl Socket {
    pub(super) fn sent_too_much(&self) -> bool {
        *self.excess.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The certificate authorities to trust: those of the system, or those in a file in PEM form.
///
/// # Errors
/// [`Cause::Unsupported`] if none can be read.
pub(super) fn authorities(file: Option<&str>) -> Result<Arc<RootCertStore>, Refusal> {
    let mut store = RootCertStore::empty();
    let source = if let Some(path) = file {
        let unusable = |error: &dyn std::fmt::Display| Refusal::new(Cause::Unsupported, format!("ca_file {path}: {error}"));
        let pem = std::fs::read(path).map_err(|error| unusable(&error))?;
        for certificate in tokio_rustls::rustls::pki_types::CertificateDer::pem_slice_iter(&pem) {
            store.add(certificate.map_err(|error| unusable(&error))?).map_err(|error| unusable(&error))?;
        }
        path
    } else {
        // Systems have some that can't be parsed; the others still work.
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        "the system"
    };
    match store.is_empty() {
        true => Err(Refusal::new(Cause::Unsupported, format!("{source} contains no certificate authority; set ca_file"))),
        false => Ok(Arc::new(store)),
    }
}

/// TLS settings that remember no earlier session, because a fresh connection shares nothing.
pub(super) fn tls(authorities: Arc<RootCertStore>) -> Arc<ClientConfig> {
    let mut config = ClientConfig::builder().with_root_certificates(authorities).with_no_client_auth();
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

pub(super) async fn connect(origin: &Origin, tls: Option<&Arc<ClientConfig>>, deadlines: &Deadlines) -> Result<Socket, Refusal> {
    match timeout(deadlines.connect, open(origin, tls)).await {
        Ok(socket) => socket,
        Err(_) => Err(Refusal::new(Cause::TimedOut, format!("{origin}: no connection within {:?}", deadlines.connect))),
    }
}

async fn open(origin: &Origin, tls: Option<&Arc<ClientConfig>>) -> Result<Socket, Refusal> {
    let failed = |what: &str, error: &dyn std::fmt::Display| Refusal::new(Cause::Connection, format!("{origin}: {what}: {error}"));
    // Brackets belong to URLs, not to addresses.
    let host = origin.host.trim_start_matches('[').trim_end_matches(']');
    let addresses = tokio::net::lookup_host((host, origin.port)).await.map_err(|error| failed("the name can't be resolved", &error))?;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let mut stream = None;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(connected) => {
                stream = Some(connected);
                break;
            }
            Err(error) => last = error,
        }
    }
    let stream = stream.ok_or_else(|| failed("connecting failed", &last))?;
    stream.set_nodelay(true).map_err(|error| failed("connecting failed", &error))?;
    let stream = match (origin.tls, tls) {
        (false, _) => Stream::Plain(stream),
        (true, None) => return Err(Refusal::new(Cause::Unsupported, format!("{origin}: no certificate authorities were loaded"))),
        (true, Some(config)) => {
            let name = ServerName::try_from(host.to_owned()).map_err(|error| failed("the host's name is invalid", &error))?;
            let secured = TlsConnector::from(config.clone()).connect(name, stream).await;
            Stream::Tls(Box::new(secured.map_err(|error| failed(untrusted(&error).unwrap_or("TLS failed"), &error))?))
        }
    };
    let (sender, connection) = Builder::new().handshake(TokioIo::new(stream)).await.map_err(|error| failed("connecting failed", &error))?;
    let excess = Arc::new(Mutex::new(false));
    let seen = excess.clone();
    tokio::spawn(async move {
        let too_much = match connection.without_shutdown().await {
            Ok(parts) => !parts.read_buf.is_empty(),
            // hyper has no other way to tell; a test holds that it stays so.
            Err(error) => format!("{error:?}").contains("UnexpectedMessage"),
        };
        if too_much {
            *seen.lock().unwrap_or_else(PoisonError::into_inner) = true;
        }
    });
    Ok(Socket { origin: origin.clone(), sender, used: false, excess })
}

/// Says why a certificate isn't trusted, and what to do. `None` if TLS failed for another reason.
fn untrusted(error: &io::Error) -> Option<&'static str> {
    let Some(Error::InvalidCertificate(problem)) = error.get_ref()?.downcast_ref() else { return None };
    Some(match problem {
        CertificateError::UnknownIssuer => {
            "the certificate is not trusted, because none of the known authorities issued it; if the place has one of its own, set ca_file"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate is not trusted, because it has expired; the place must renew it"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate is not trusted, because it is not valid yet; check the clock of this machine"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the certificate is not trusted, because it is for another host; check the address"
        }
        _ => "the certificate is not trusted",
    })
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
