//! TLS, if the settings name a certificate. The server then needs no proxy for encryption.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::settings::Tls;

/// Why TLS can't be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is missing or invalid.
    #[error("{path} can't be used for TLS: {why}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// A TLS acceptor from the files in the settings. Relative paths start at `home`.
pub(crate) fn acceptor(home: &Path, settings: &Tls) -> Result<TlsAcceptor, TlsError> {
    let certificate = home.join(&settings.certificate);
    let wrong = |path: &Path, why: String| TlsError::File { path: path.to_owned(), why };
    let chain = CertificateDer::pem_file_iter(&certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| wrong(&certificate, error.to_string()))?;
    if chain.is_empty() {
        return Err(wrong(&certificate, "it holds no certificate in PEM".to_owned()));
    }
    let key = home.join(&settings.key);
    let private = PrivateKeyDer::from_pem_file(&key).map_err(|error| wrong(&key, error.to_string()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private));
    let mut config = config.map_err(|error| wrong(&certificate, error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
