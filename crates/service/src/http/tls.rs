//! TLS, if the settings name a certificate. The server then needs no proxy for encryption.
//!
//! Certificates are renewed every few weeks, by programs that replace the files. So the server
//! looks at the files each minute, and new connections get the new certificate. Files that can't be
//! used change nothing.

mod validity;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, UNIX_EPOCH};

use s3s::dto::{Timestamp, TimestampFormat};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, InconsistentKeys, ServerConfig};

use crate::settings::Tls;
use crate::state::now_ms;

/// How often the files are looked at.
const PERIOD: Duration = Duration::from_secs(60);
/// How long before the end of a certificate the log warns.
const WARNED_BEFORE_S: u64 = 14 * DAY_S;
const DAY_S: u64 = 86_400;

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
    Read(#[from] io::Error),
    #[error("it is no valid PEM: {0}. Is it cut off?")]
    Pem(#[from] pem::Error),
    #[error("it holds no certificate in PEM")]
    NoCertificate,
    #[error("certificate {number} in it is damaged")]
    Damaged { number: usize },
    #[error("it holds no private key in PEM")]
    NoKey,
    #[error("the private key in it is encrypted; store it without a passphrase, readable only by the server's user")]
    EncryptedKey,
    #[error("it is not the key of the certificate in {0}")]
    Mismatch(PathBuf),
    #[error(transparent)]
    Refused(#[from] rustls::Error),
}

/// The contents of the files with the certificate and the key.
type Files = [Vec<u8>; 2];

/// A certificate with its key, in use or about to be.
#[derive(Debug, Clone)]
struct Loaded {
    certified: Arc<CertifiedKey>,
    /// When the first certificate of the chain expires, in seconds since 1970.
    expires_s: u64,
}

#[derive(Debug)]
struct Current {
    loaded: Loaded,
    /// What the files held when they were loaded.
    files: Files,
}

/// The server's certificate. It is the same until [`look`](Self::look) finds another one.
#[derive(Debug)]
pub(crate) struct Certificate {
    certificate: PathBuf,
    key: PathBuf,
    current: RwLock<Current>,
}

/// What a look at the files has found.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    Unchanged,
    /// They differ, and may still be changing.
    Changing(Files),
    Renewed,
}

impl Certificate {
    /// Reads the files in the settings. Relative paths start at `home`.
    ///
    /// # Errors
    /// [`TlsError`] if they can't be used.
    pub(crate) fn read(home: &Path, settings: &Tls) -> Result<Self, TlsError> {
        let [certificate, key] = [&settings.certificate, &settings.key].map(|path| home.join(path));
        let files = read_files(&certificate, &key)?;
        let loaded = load(&certificate, &key, &files)?;
        Ok(Self { certificate, key, current: RwLock::new(Current { loaded, files }) })
    }

    /// A poisoned lock is usable: the certificate in it is changed as a whole.
    fn current(&self) -> Loaded {
        self.current.read().unwrap_or_else(PoisonError::into_inner).loaded.clone()
    }

    /// When it expires, in seconds since 1970.
    pub(crate) fn expires_s(&self) -> u64 {
        self.current().expires_s
    }

    /// Looks at the files. New contents are used when two looks in a row have seen them: the two
    /// files are not replaced at one instant.
    fn look(&self, seen: Option<&Files>) -> Result<Look, TlsError> {
        let files = read_files(&self.certificate, &self.key)?;
        if self.current.read().unwrap_or_else(PoisonError::into_inner).files == files {
            return Ok(Look::Unchanged);
        }
        if seen != Some(&files) {
            return Ok(Look::Changing(files));
        }
        let loaded = load(&self.certificate, &self.key, &files)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Current { loaded, files };
        Ok(Look::Renewed)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current().certified)
    }
}

/// An acceptor of connections that shows them this certificate.
///
/// # Errors
/// [`TlsError`] if the protocol can't be set up.
pub(crate) fn acceptor(certificate: &Arc<Certificate>) -> Result<TlsAcceptor, TlsError> {
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider())).with_safe_default_protocol_versions();
    let builder = config.map_err(problem(&certificate.certificate))?.with_no_client_auth();
    let mut config = builder.with_cert_resolver(certificate.clone());
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Looks at the files until `stop` is set, and warns before the certificate expires.
pub(crate) async fn watch(certificate: Arc<Certificate>, mut stop: watch::Receiver<bool>) {
    let (mut seen, mut failed, mut warned_s) = (None, None, None);
    while !*stop.borrow() {
        let (worker, before) = (certificate.clone(), seen.take());
        match tokio::task::spawn_blocking(move || worker.look(before.as_ref()).map_err(|error| error.to_string())).await {
            Ok(Ok(Look::Changing(files))) => seen = Some(files),
            Ok(Ok(look)) => {
                failed = None;
                if look == Look::Renewed {
                    warned_s = None;
                    tracing::info!(expires = %date(certificate.expires_s()), "the TLS certificate was renewed");
                }
            }
            // Once for each reason, not each minute.
            Ok(Err(error)) if failed.as_ref() != Some(&error) => {
                tracing::error!(error, "the new TLS certificate can't be used; the server goes on with the one that it has");
                failed = Some(error);
            }
            Ok(Err(_)) => {}
            Err(error) => tracing::error!(%error, "can't look for a new TLS certificate"),
        }
        let now_s = (now_ms() / 1_000).unsigned_abs();
        if must_warn(certificate.expires_s(), warned_s, now_s) {
            warned_s = Some(now_s);
            tracing::warn!(expires = %date(certificate.expires_s()), "the TLS certificate expires soon, or has expired: clients will refuse it");
        }
        tokio::select! {
            () = tokio::time::sleep(PERIOD) => {}
            _ = stop.changed() => {}
        }
    }
}

/// Whether to warn now, of a certificate that ends at `expires_s`: once a day.
fn must_warn(expires_s: u64, warned_s: Option<u64>, now_s: u64) -> bool {
    now_s.saturating_add(WARNED_BEFORE_S) >= expires_s && warned_s.is_none_or(|warned| now_s >= warned + DAY_S || now_s < warned)
}

fn date(unix_s: u64) -> String {
    let mut text = Vec::new();
    // Years beyond 9999 have no such form.
    let _ = Timestamp::from(UNIX_EPOCH + Duration::from_secs(unix_s)).format(TimestampFormat::DateTime, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn problem<E: Into<Problem>>(path: &Path) -> impl FnOnce(E) -> TlsError {
    move |error| TlsError { path: path.to_owned(), problem: error.into() }
}

fn read_files(certificate: &Path, key: &Path) -> Result<Files, TlsError> {
    Ok([std::fs::read(certificate).map_err(problem(certificate))?, std::fs::read(key).map_err(problem(key))?])
}

fn load(certificate: &Path, key: &Path, [chain_pem, key_pem]: &Files) -> Result<Loaded, TlsError> {
    let of_chain = |why: Problem| problem::<Problem>(certificate)(why);
    let of_key = |why: Problem| problem::<Problem>(key)(why);
    let chain: Vec<_> = CertificateDer::pem_slice_iter(chain_pem).collect::<Result<_, _>>().map_err(|error| of_chain(error.into()))?;
    let ends = chain
        .iter()
        .enumerate()
        .map(|(index, certificate)| validity::expires_s(certificate).map_err(|_| of_chain(Problem::Damaged { number: index + 1 })));
    let ends: Vec<u64> = ends.collect::<Result<_, _>>()?;
    let expires_s = ends.into_iter().min().ok_or_else(|| of_chain(Problem::NoCertificate))?;
    let private = PrivateKeyDer::from_pem_slice(key_pem).map_err(|error| {
        let is_encrypted = key_pem.windows(9).any(|bytes| bytes == b"ENCRYPTED");
        of_key(match error {
            _ if is_encrypted => Problem::EncryptedKey,
            pem::Error::NoItemsFound => Problem::NoKey,
            error => error.into(),
        })
    })?;
    let signing = aws_lc_rs::sign::any_supported_type(&private).map_err(|error| of_key(error.into()))?;
    let certified = CertifiedKey::new(chain, signing);
    match certified.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
        Err(rustls::Error::InconsistentKeys(_)) => return Err(of_key(Problem::Mismatch(certificate.to_owned()))),
        Err(error) => return Err(of_chain(error.into())),
    }
    Ok(Loaded { certified: Arc::new(certified), expires_s })
}

#[cfg(test)]
mod tests;
