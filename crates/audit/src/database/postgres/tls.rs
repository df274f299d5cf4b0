//! TLS to the server, on rustls.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres::{Client, Config, NoTls, Socket};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::super::DatabaseError;
use super::address::{AddressProblem, Protection, ServerAddress};
use super::session::Fault;

/// How to connect to a server.
pub(super) enum Tls {
    Plain,
    Verified(Verified),
}

/// Verifies certificates by these settings.
#[derive(Clone)]
pub(super) struct Verified(Arc<ClientConfig>);

impl Tls {
    /// Loads the certificate authorities that the address names, or those of the system.
    pub(super) fn new(address: &ServerAddress) -> Result<Self, DatabaseError> {
        if address.protection == Protection::Plain {
            return Ok(Self::Plain);
        }
        let roots = authorities(address.authorities.as_deref()).map_err(|problem| DatabaseError::Address { problem })?;
        Ok(Self::Verified(Verified(Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()))))
    }

    pub(super) async fn connect(&self, config: &Config) -> Result<Client, Fault> {
        // A connection runs as a task beside the client and ends with it, or with an error that the
        // client reports too.
        match self {
            Self::Plain => {
                let (client, connection) = config.connect(NoTls).await?;
                tokio::spawn(connection);
                Ok(client)
            }
            Self::Verified(tls) => {
                let (client, connection) = config.connect(tls.clone()).await?;
                tokio::spawn(connection);
                Ok(client)
            }
        }
    }
}

fn authorities(file: Option<&str>) -> Result<RootCertStore, AddressProblem> {
    let mut roots = RootCertStore::empty();
    let source = if let Some(path) = file {
        let unusable = |why: String| AddressProblem::Unusable { what: format!("sslrootcert={path}"), why };
        let pem = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
            roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
        }
        path
    } else {
        // Systems have some that can't be parsed; the others still work.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        "the system"
    };
    if roots.is_empty() {
        return Err(AddressProblem::Unusable {
            what: source.to_owned(),
            why: "no certificate authority found; set sslrootcert".to_owned(),
        });
    }
    Ok(roots)
}

impl MakeTlsConnect<Socket> for Verified {
    type Stream = Stream;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(Handshake { connector: TlsConnector::from(self.0.clone()), name })
    }
}

pub(super) struct Handshake {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move { Ok(Stream(Box::new(self.connector.connect(self.name, socket).await?))) })
    }
}

pub(super) struct Stream(Box<tokio_rustls::client::TlsStream<Socket>>);

impl TlsStream for Stream {
    /// None: the certificate was verified, so the server is the right one.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(cx)
    }
}
