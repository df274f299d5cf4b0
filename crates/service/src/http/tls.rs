//! TLS, if the settings name a certificate. The server then needs no proxy for encryption.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

use crate::settings::Tls;

/// Why TLS can't be set up: a file is missing or invalid.
#[derive(Debug, thiserror::Error)]
#[error("{path} can't be used for TLS: {problem}")]
pub struct TlsError {
    path: PathBuf,
    #[source]
    problem: Problem,
}

#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error(transparent)]
    Pem(#[from] pem::Error),
    #[error("it holds no certificate in PEM")]
    NoCertificate,
    #[error(transparent)]
    Refused(#[from] rustls::Error),
}

impl TlsError {
    fn of<E: Into<Problem>>(path: &Path) -> impl FnOnce(E) -> Self {
        move |error| Self { path: path.to_owned(), problem: error.into() }
    }
}

/// A TLS acceptor from the files in the settings. Relative paths start at `home`.
pub(crate) fn acceptor(home: &Path, settings: &Tls) -> Result<TlsAcceptor, TlsError> {
    let certificate = home.join(&settings.certificate);
    let chain = CertificateDer::pem_file_iter(&certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(TlsError::of(&certificate))?;
    if chain.is_empty() {
        return Err(TlsError::of(&certificate)(Problem::NoCertificate));
    }
    let key = home.join(&settings.key);
    let private = PrivateKeyDer::from_pem_file(&key).map_err(TlsError::of(&key))?;
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private));
    let mut config = config.map_err(TlsError::of(&certificate))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
