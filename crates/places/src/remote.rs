//! Places behind HTTP: object stores through opendal, WebDAV and plain web servers.
//!
//! ```text
//! Address --connect--> Engine   a runtime on the caller's thread, sockets, notes, secrets
//!                        |
//!            .-----------+-----------.
//!          Store                    Web
//!          opendal: s3, azblob,     webdav (PROPFIND, PUT, MOVE) and https (GET, HEAD)
//!          gcs, swift, b2; bulk
//!          gets and puts of ours
//! ```
//!
//! Each connection owns all of this, so that connections share nothing but the list of trusted
//! certificate authorities, and whether a server takes bulk requests. Calls block: they must not be
//! made on a thread of another runtime.

mod answer;
mod azure_url;
mod b2;
mod bulk;
mod bulk_get;
mod bulk_put;
mod checksums;
mod connect;
mod incoming;
mod login;
mod outgoing;
mod propfind;
mod statement;
mod store;
mod transport;
mod web;

#[cfg(test)]
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use http::{Method, Request};
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::rustls::RootCertStore;

use self::answer::without_query;
use self::transport::{Received, Transport, Upload, drain};
use super::address::{Address, Kind};
use super::secret::Secrets;
use super::{Cause, Deadlines, Place, Refusal};

/// The place at an address of one of these kinds.
pub(super) fn place(address: &Address) -> Result<Box<dyn Place>, Refusal> {
    match address.kind {
        Kind::Webdav | Kind::Web => Ok(Box::new(web::Web::new(address.clone()))),
        _ => Ok(Box::new(store::Store::new(address.clone()))),
    }
}

/// Implements [`Place::fetch_url`].
fn fetch_url(url: &str, ca_file: Option<&str>, deadlines: Deadlines, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, Refusal> {
    let about = without_query(url);
    // Some servers repeat the request in their answers.
    let secrets = url.split_once('?').map(|(_, query)| query.to_owned()).into_iter().collect();
    let engine = Engine::open(url, ca_file, deadlines, Behaviour::Web, secrets)?;
    let request = Request::get(url).body(()).map_err(|error| Refusal::new(Cause::Unsupported, format!("{about}: {error}")))?;
    engine.run(&about, || engine.transport.begin(true), get(&engine.transport, request, sink))
}

/// Sends a GET and reads its content.
async fn get(transport: &Transport, request: Request<()>, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, Refusal> {
    let (parts, ()) = request.into_parts();
    let (head, received) = transport.exchange(parts, Upload::Whole(opendal::Buffer::new())).await?;
    match received {
        Received::Content(mut content) if head.status == http::StatusCode::OK => drain(&mut content, sink).await,
        _ => Err(last_refusal(transport, Method::GET)),
    }
}

/// What the last answer means, if it is no success.
fn last_refusal(transport: &Transport, method: Method) -> Refusal {
    let answer = transport.notes().answer;
    answer.map_or_else(|| Refusal::new(Cause::Connection, format!("{method} got no answer")), |answer| answer.refusal())
}

/// How servers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behaviour {
    /// Redirects are followed.
    Web,
    /// Requests are signed for one host.
    Store,
    /// As above, and content that is stored compressed must be asked for as such.
    Google,
    /// As `Store`; another host tells where the store is.
    Referred,
}

/// What a connection owns.
struct Engine {
    runtime: Option<Runtime>,
    transport: Transport,
    secrets: Arc<Secrets>,
}

impl Engine {
    /// `url` tells whether certificate authorities are needed.
    fn open(url: &str, ca_file: Option<&str>, deadlines: Deadlines, behaviour: Behaviour, secrets: Vec<String>) -> Result<Self, Refusal> {
        let follows_redirects = behaviour == Behaviour::Web;
        // Another host may use https.
        let stays = !matches!(behaviour, Behaviour::Web | Behaviour::Referred);
        let tls = match url.starts_with("http://") && stays {
            true => None,
            false => match authorities(ca_file) {
                Ok(authorities) => Some(connect::tls(authorities)),
                Err(_) if url.starts_with("http://") => None,
                Err(refusal) => return Err(refusal),
            },
        };
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Refusal::new(Cause::Fault, format!("this machine can't start a runtime: {error}")))?;
        Ok(Self {
            runtime: Some(runtime),
            transport: Transport::new(deadlines, tls, follows_redirects, behaviour == Behaviour::Google),
            secrets: Arc::new(Secrets::new(secrets)),
        })
    }

    /// Runs one operation to its end. `about` precedes details of refusals.
    fn run<T>(&self, about: &str, begin: impl FnOnce(), work: impl Future<Output = Result<T, Refusal>>) -> Result<T, Refusal> {
        begin();
        let runtime = self.runtime.as_ref().expect("it is there until this is dropped");
        // opendal relies on what servers send in some places, and panics if it is malformed.
        let result = catch_unwind(AssertUnwindSafe(|| runtime.block_on(work)));
        let result = result.unwrap_or_else(|_| Err(Refusal::new(Cause::Fault, "the place sent an answer that the library can't handle")));
        result.map_err(|refusal| {
            let detail = match refusal.detail.is_empty() {
                true => about.to_owned(),
                false => format!("{about}: {}", refusal.detail),
            };
            Refusal::new(refusal.cause, self.secrets.scrub(&detail))
        })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Name resolution that never ends must not hold up the caller.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The certificate authorities to trust. Those of the system are read once.
fn authorities(file: Option<&str>) -> Result<Arc<RootCertStore>, Refusal> {
    static SYSTEM: Mutex<Option<Arc<RootCertStore>>> = Mutex::new(None);
    if file.is_some() {
        return connect::authorities(file);
    }
    let mut system = SYSTEM.lock().unwrap_or_else(PoisonError::into_inner);
    match &*system {
        Some(authorities) => Ok(authorities.clone()),
        None => Ok(system.insert(connect::authorities(None)?).clone()),
    }
}
