//! HTTP/1.1 for one connection to a place: its own sockets, deadlines, and a note of what happened.
//!
//! ```text
//! opendal --request--> Transport --> idle socket, or a new one
//!    ^                     |
//!    '------ answer -------+--> Notes: the last answer, the last refusal, the last failure
//! ```
//!
//! opendal's errors don't keep statuses, Retry-After or the kind of a broken connection, so the
//! transport notes them, and the caller reads the notes when an operation fails. Content is passed
//! on as it was stored: nothing is decompressed. Nothing is retried, with one exception: if the
//! server closed an idle socket before a byte of the answer arrived, the request is sent once more
//! on a new one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use fulgurite_client::SERVER_NAME;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, COOKIE, HOST, HeaderValue, LOCATION, SERVER, USER_AGENT};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, request};
use hyper::body::Body;
use opendal::{Buffer, HttpBody, HttpTransport};
use tokio::time::timeout;
use tokio_rustls::rustls::ClientConfig;

use super::super::{Cause, Refusal, pass};
use super::Deadlines;
use super::answer::{Answer, without_query};
use super::checksums::RequestSigning;
use super::connect::{Origin, Socket, connect};
use super::incoming::{Content, chain, failure};
use super::outgoing::{Outgoing, Progress};

/// Bytes of an error answer that are read.
const ERROR_BYTES_MAX: u64 = 64 << 10;
/// Bytes of an answer that isn't content, such as a page of a listing. A WebDAV server lists a
/// folder in one answer.
const PAGE_BYTES_MAX: u64 = 64 << 20;
/// Bytes of an unexpected answer that are shown.
const SHOWN_BYTES: usize = 80;
const REDIRECTS_MAX: usize = 5;
/// How often an upload's progress is looked at within the deadline for its answer.
const LOOKS: u32 = 8;
/// Idle sockets to keep. One request at a time needs one, and an upload in pieces two.
const IDLE_MAX: usize = 2;

/// Handle of a connection's sockets and notes.
#[derive(Clone)]
pub(super) struct Transport(pub(super) Arc<Shared>);

pub(super) struct Shared {
    pub(super) deadlines: Deadlines,
    tls: Option<Arc<ClientConfig>>,
    follows_redirects: bool,
    accepts_gzip: bool,
    idle: Mutex<Vec<Socket>>,
    notes: Mutex<Notes>,
    /// True once the place has answered as a Fulgurite server.
    is_fulgurite: AtomicBool,
}

/// What happened since [`Transport::begin`].
#[derive(Debug, Clone, Default)]
pub(super) struct Notes {
    /// The last answer.
    pub(super) answer: Option<Answer>,
    /// The last answer that wasn't a success.
    pub(super) refused: Option<Answer>,
    /// The last exchange that got no complete answer.
    pub(super) failure: Option<Refusal>,
    /// Headers of the last successful answer.
    pub(super) headers: HeaderMap,
    /// True if the last request was for the credentials of this machine.
    pub(super) asks_machine: bool,
    /// How HEAD asks for checksums, while it does.
    asking: Option<RequestSigning>,
    /// True while an answer is the content of a file, which may have any length.
    content: bool,
    /// The pages of a listing, while there is one.
    listing: Option<ListingPages>,
}

/// The pages of a listing so far.
#[derive(Debug, Clone, Default)]
struct ListingPages {
    /// The root element of a page; `None` if pages aren't XML.
    root: Option<&'static str>,
    /// The requests for the first page and for the last one.
    first: Option<Uri>,
    last: Option<Uri>,
}

impl Transport {
    /// `tls` is needed for https only. Redirects are followed for plain servers; the signature of a
    /// request to an object store holds for one host only. `accepts_gzip` is for Google's store.
    pub(super) fn new(deadlines: Deadlines, tls: Option<Arc<ClientConfig>>, follows_redirects: bool, accepts_gzip: bool) -> Self {
        let (idle, notes, is_fulgurite) = Default::default();
        Self(Arc::new(Shared { deadlines, tls, follows_redirects, accepts_gzip, idle, notes, is_fulgurite }))
    }

    /// Begins an operation: clears the notes. `content` says that answers to GET are content of any
    /// length.
    pub(super) fn begin(&self, content: bool) {
        *self.0.notes() = Notes { content, ..Notes::default() };
    }

    /// Lets HEAD ask for checksums too, until the next operation begins.
    pub(super) fn ask_checksums(&self, asking: Option<RequestSigning>) {
        self.0.notes().asking = asking;
    }

    /// Answers are pages of a listing, until the next operation begins. Each must be asked for once
    /// only, and have the root element `root`, if it is XML: opendal asks for the first page again
    /// if a server says that there are more and not which, and takes any other XML for an empty
    /// page.
    pub(super) fn expect_listing(&self, root: Option<&'static str>) {
        self.0.notes().listing = Some(ListingPages { root, ..ListingPages::default() });
    }

    /// What happened in this operation so far.
    pub(super) fn notes(&self) -> Notes {
        self.0.notes().clone()
    }

    /// Whether the place has answered as a Fulgurite server.
    pub(super) fn is_fulgurite(&self) -> bool {
        self.0.is_fulgurite.load(Ordering::Relaxed)
    }

    /// Forgets what happened since these notes were taken.
    pub(super) fn restore(&self, notes: Notes) {
        *self.0.notes() = notes;
    }

    /// Sends a request, and returns the answer once its head has arrived. An answer other than
    /// success is noted, and returned with the beginning of its body.
    pub(super) async fn exchange(&self, parts: request::Parts, body: Upload) -> Result<(http::response::Parts, Received), Refusal> {
        let page = self.notes().listing.filter(|_| is_page(&parts)).map(|pages| (pages, parts.uri.clone()));
        let result = match &page {
            Some((pages, uri)) if [&pages.first, &pages.last].contains(&&Some(uri.clone())) => {
                Err(Refusal::new(Cause::Fault, "the listing doesn't go on: the server refers to a page that it has sent already"))
            }
            _ => self.0.clone().exchange(parts, body).await,
        };
        if let (Some((_, uri)), Ok((head, _))) = (page, &result)
            && head.status.is_success()
            && let Some(pages) = &mut self.0.notes().listing
        {
            pages.first.get_or_insert_with(|| uri.clone());
            pages.last = Some(uri);
        }
        if let Err(refusal) = &result {
            self.0.notes().failure = Some(refusal.clone());
        }
        result
    }
}

/// Marks a POST that does the same if it arrives twice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Repeatable;

/// The body of a request.
pub(super) enum Upload {
    Whole(Buffer),
    /// Can be sent once only.
    Stream(Option<tokio::sync::mpsc::Receiver<Bytes>>, u64),
}

impl Upload {
    fn outgoing(&mut self, progress: Progress) -> Option<Outgoing> {
        match self {
            Self::Whole(content) => Some(Outgoing::whole(content.clone(), progress)),
            Self::Stream(pieces, bytes) => Some(Outgoing::stream(pieces.take()?, *bytes, progress)),
        }
    }
}

/// The body of an answer.
pub(super) enum Received {
    /// Of an answer other than success.
    Reason(Bytes),
    Content(Box<Content>),
}

impl HttpTransport for Transport {
    async fn fetch(&self, request: Request<Buffer>) -> opendal::Result<Response<HttpBody>> {
        let (mut parts, body) = request.into_parts();
        if parts.method == Method::HEAD
            && let Some(asking) = self.notes().asking
        {
            asking.ask(&mut parts).await;
        }
        let root = self.notes().listing.and_then(|pages| pages.root).filter(|_| is_page(&parts));
        match (root, self.exchange(parts, Upload::Whole(body)).await) {
            (Some(root), Ok((head, Received::Content(mut content)))) => {
                let mut page = Vec::new();
                while let Some(piece) = std::future::poll_fn(|cx| content.poll_piece(cx)).await {
                    page.extend_from_slice(&piece.map_err(|refusal| self.0.failed(refusal))?);
                }
                if root_element(&page) != Some(root) {
                    let begin = String::from_utf8_lossy(&page[..page.len().min(SHOWN_BYTES)]).into_owned();
                    let detail = format!("the answer to a listing is no {root}; it begins with {begin:?}");
                    return Err(self.0.failed(Refusal::new(Cause::Fault, detail)));
                }
                let stream = futures_util::stream::iter([Ok(Buffer::from(page))]);
                Ok(Response::from_parts(head, HttpBody::new(stream, None)))
            }
            (_, result) => answered(result),
        }
    }
}

/// True for a request for a page of a listing; false for those that get credentials.
fn is_page(parts: &request::Parts) -> bool {
    let query = parts.uri.query().unwrap_or_default();
    let names = ["list-type", "max-keys", "marker", "comp", "prefix", "pageToken", "bucketId", "format"];
    parts.method == Method::GET && query.split('&').any(|pair| names.contains(&pair.split('=').next().unwrap_or_default()))
}

/// The name of the first element of an XML document, without its prefix.
fn root_element(document: &[u8]) -> Option<&str> {
    let mut rest = str::from_utf8(document).ok()?.trim_start_matches('\u{feff}').trim_start();
    while rest.starts_with("<?") || rest.starts_with("<!") {
        let end = if rest.starts_with("<!--") { "-->" } else { ">" };
        rest = rest.split_once(end)?.1.trim_start();
    }
    let name = rest.strip_prefix('<')?.split(|of: char| of.is_whitespace() || of == '>' || of == '/').next()?;
    Some(name.rsplit(':').next().unwrap_or(name))
}

/// The result of an exchange in opendal's form.
pub(super) fn answered(result: Result<(http::response::Parts, Received), Refusal>) -> opendal::Result<Response<HttpBody>> {
    match result {
        Ok((parts, Received::Content(content))) => Ok(Response::from_parts(parts, HttpBody::new(content, None))),
        Ok((parts, Received::Reason(body))) => {
            let stream = futures_util::stream::iter([Ok(Buffer::from(body))]);
            Ok(Response::from_parts(parts, HttpBody::new(stream, None)))
        }
        Err(refusal) => Err(opendal_error(&refusal)),
    }
}

fn opendal_error(refusal: &Refusal) -> opendal::Error {
    opendal::Error::new(opendal::ErrorKind::Unexpected, refusal.to_string())
}

impl Shared {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the body of an answer broke.
    pub(super) fn failed(&self, refusal: Refusal) -> opendal::Error {
        let error = opendal_error(&refusal);
        self.notes().failure = Some(refusal);
        error
    }

    /// Keeps a socket for the next request.
    pub(super) fn keep(&self, mut socket: Socket) {
        socket.used = true;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(socket);
        }
    }

    fn idle_socket(&self, origin: &Origin) -> Option<Socket> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|socket| !socket.sender.is_closed());
        let index = idle.iter().position(|socket| socket.origin == *origin)?;
        Some(idle.swap_remove(index))
    }

    async fn exchange(self: Arc<Self>, mut parts: request::Parts, mut body: Upload) -> Result<(http::response::Parts, Received), Refusal> {
        for _ in 0..=REDIRECTS_MAX {
            let origin = Origin::of(&parts.uri)?;
            self.notes().asks_machine = is_of_machine(&origin.host);
            let (response, socket) = self.send(&origin, &parts, &mut body).await?;
            let (answer, incoming) = response.into_parts();
            if self.follows_redirects
                && let Some(target) = redirect(&parts, answer.status, &answer.headers)
            {
                if parts.uri.scheme_str() == Some("https") && target.scheme_str() != Some("https") {
                    return Err(Refusal::new(
                        Cause::Unsupported,
                        format!("redirected from https to {}", without_query(&target.to_string())),
                    ));
                }
                if Origin::of(&target)? != origin {
                    // Credentials are for the host that they were given for.
                    parts.headers.remove(AUTHORIZATION);
                    parts.headers.remove(COOKIE);
                }
                parts.uri = target;
                parts.headers.remove(HOST);
                continue;
            }
            return self.receive(&parts.method, answer, incoming, socket).await;
        }
        Err(Refusal::new(Cause::Fault, format!("redirected more than {REDIRECTS_MAX} times")))
    }

    /// Sends one request, on an idle socket if there is one.
    async fn send(
        &self,
        origin: &Origin,
        parts: &request::Parts,
        body: &mut Upload,
    ) -> Result<(Response<hyper::body::Incoming>, Socket), Refusal> {
        let mut idle = self.idle_socket(origin);
        loop {
            let mut socket = match idle.take() {
                Some(socket) => socket,
                None => connect(origin, self.tls.as_ref(), &self.deadlines).await?,
            };
            // An idle socket that the server closed shows it here, before the body is taken.
            if socket.used && !matches!(timeout(self.deadlines.connect, socket.sender.ready()).await, Ok(Ok(()))) {
                continue;
            }
            let progress = Progress::default();
            let outgoing = body.outgoing(progress.clone());
            let outgoing =
                outgoing.ok_or_else(|| Refusal::new(Cause::Connection, format!("{origin}: the connection was closed during an upload")))?;
            let request = self.request(origin, parts, outgoing)?;
            let error = match self.answer(&mut socket, request, &progress).await {
                None => {
                    let wait = self.deadlines.first_byte;
                    return Err(Refusal::new(Cause::TimedOut, format!("{origin}: no answer within {wait:?}")));
                }
                Some(Ok(response)) => return Ok((response, socket)),
                Some(Err(error)) => error,
            };
            let stale = socket.used && (error.is_canceled() || error.is_closed() || error.is_incomplete_message() || is_reset(&error));
            // A repeated POST could do something twice.
            let may_repeat = parts.method != Method::POST || parts.extensions.get::<Repeatable>().is_some();
            if !stale || !may_repeat || matches!(body, Upload::Stream(None, _)) {
                let cause = if error.is_incomplete_message() { Cause::Connection } else { failure(&error) };
                return Err(Refusal::new(cause, format!("{origin}: no answer: {}", chain(&error))));
            }
        }
    }

    /// Waits for the head of the answer. `None` if the server stays silent, although the request
    /// makes no progress either. What the system still buffers of it counts as sent.
    async fn answer(
        &self,
        socket: &mut Socket,
        request: Request<Outgoing>,
        progress: &Progress,
    ) -> Option<Result<Response<hyper::body::Incoming>, hyper::Error>> {
        let mut answer = std::pin::pin!(socket.sender.send_request(request));
        let mut progressed = (progress.pieces(), Instant::now());
        loop {
            if let Ok(answer) = timeout(self.deadlines.first_byte / LOOKS, answer.as_mut()).await {
                return Some(answer);
            }
            let now = progress.pieces();
            if now != progressed.0 {
                progressed = (now, Instant::now());
            } else if progressed.1.elapsed() >= self.deadlines.first_byte {
                return None;
            }
        }
    }

    fn request(&self, origin: &Origin, parts: &request::Parts, body: Outgoing) -> Result<Request<Outgoing>, Refusal> {
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
        let mut request = Request::builder().method(parts.method.clone()).uri(target);
        if let Some(headers) = request.headers_mut() {
            *headers = parts.headers.clone();
            // The library leaves it out for empty bodies, but it may be signed.
            let uploads = matches!(parts.method, Method::PUT | Method::POST);
            if uploads && body.is_end_stream() {
                headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
            }
            let default_port = if origin.tls { 443 } else { 80 };
            let host = if origin.port == default_port { origin.host.clone() } else { origin.to_string() };
            if !headers.contains_key(HOST)
                && let Ok(host) = HeaderValue::from_str(&host)
            {
                headers.insert(HOST, host);
            }
            // Google decompresses what is stored compressed, unless the client accepts gzip.
            let stored_only = self.accepts_gzip && self.notes().content && parts.method == Method::GET;
            let encoding = HeaderValue::from_static(if stored_only { "gzip" } else { "identity" });
            headers.entry(ACCEPT_ENCODING).or_insert(encoding);
            headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(concat!("fulgurite/", env!("CARGO_PKG_VERSION"))));
        }
        request.body(body).map_err(|error| Refusal::new(Cause::Unsupported, format!("{origin}: the request can't be sent: {error}")))
    }

    /// Notes the answer, and prepares its body.
    async fn receive(
        self: Arc<Self>,
        method: &Method,
        head: http::response::Parts,
        incoming: hyper::body::Incoming,
        socket: Socket,
    ) -> Result<(http::response::Parts, Received), Refusal> {
        let note = |reason: &[u8]| Answer::new(method.clone(), head.status, &head.headers, reason, SystemTime::now());
        let mut answer = note(&[]);
        let names_itself = head.headers.get(SERVER).is_some_and(|name| name == SERVER_NAME);
        if names_itself && !self.notes().asks_machine {
            self.is_fulgurite.store(true, Ordering::Relaxed);
        }
        let content = self.notes().content && *method == Method::GET;
        let stated = answer.bytes.filter(|_| *method != Method::HEAD);
        if head.status.is_success() {
            let mut notes = self.notes();
            notes.answer = Some(answer);
            notes.headers = head.headers.clone();
            drop(notes);
            let limit = if content { u64::MAX } else { PAGE_BYTES_MAX };
            let content = Content::new(incoming, socket, self.clone(), stated, limit);
            return Ok((head, Received::Content(Box::new(content))));
        }
        let mut body = Content::new(incoming, socket, self.clone(), stated, ERROR_BYTES_MAX);
        let mut reason = Vec::new();
        // The reason may be missing or broken; the status is known already.
        while let Some(Ok(piece)) = std::future::poll_fn(|cx| body.poll_piece(cx)).await {
            reason.extend_from_slice(&piece);
        }
        answer = note(&reason);
        let mut notes = self.notes();
        notes.answer = Some(answer.clone());
        notes.refused = Some(answer);
        drop(notes);
        Ok((head, Received::Reason(reason.into())))
    }
}

/// True for the services that give a machine in a cloud its credentials.
fn is_of_machine(host: &str) -> bool {
    host.starts_with("169.254.") || host == "metadata.google.internal"
}

/// Where an answer redirects a request to, if the request can be repeated there.
fn redirect(parts: &request::Parts, status: StatusCode, headers: &HeaderMap) -> Option<Uri> {
    let repeats = match status.as_u16() {
        307 | 308 => true,
        301..=303 => matches!(parts.method, Method::GET | Method::HEAD),
        _ => false,
    };
    let location = headers.get(LOCATION).filter(|_| repeats)?.to_str().ok()?;
    let location = location.split('#').next().unwrap_or_default();
    let base = &parts.uri;
    let text = if location.contains("://") {
        location.to_owned()
    } else if let Some(rest) = location.strip_prefix("//") {
        format!("{}://{rest}", base.scheme_str()?)
    } else {
        let folder = base.path().rfind('/').map_or("/", |end| &base.path()[..=end]);
        let path = if location.starts_with('/') { location.to_owned() } else { format!("{folder}{location}") };
        format!("{}://{}{path}", base.scheme_str()?, base.authority()?)
    };
    text.parse().ok()
}

fn is_reset(error: &hyper::Error) -> bool {
    failure(error) == Cause::Connection && !error.is_user()
}

/// Reads a body to its end and passes it on. Returns its length.
pub(super) async fn drain(content: &mut Content, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, Refusal> {
    let mut bytes = 0;
    while let Some(piece) = std::future::poll_fn(|cx| content.poll_piece(cx)).await {
        let piece = piece?;
        bytes += piece.len() as u64;
        pass(sink, &piece)?;
    }
    Ok(bytes)
}
