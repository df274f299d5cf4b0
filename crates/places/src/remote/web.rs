//! WebDAV servers, and plain web servers for reading only.
//!
//! ```text
//! length    webdav: PROPFIND, which tells folders from files      https: HEAD
//! read      GET
//! list      webdav: PROPFIND of each folder, one level at a time
//! write     webdav: MKCOL of missing folders, PUT beside, MOVE    streamed, never held in memory
//! remove    webdav: DELETE
//! ```

use std::io::Read;
use std::time::Duration;

use bytes::Bytes;
use fulgurite_new_file::PART_PREFIX;
use http::header::{AUTHORIZATION, HeaderValue};
use http::{Method, Request, StatusCode, request};
use opendal::Buffer;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::sync::mpsc;

use super::super::address::{Address, Kind};
use super::super::location;
use super::super::{Cause, Connection, Listed, Place, Refusal, Statement, fill, wrong_length};
use super::propfind::{self, Member};
use super::statement;
use super::transport::{Received, Transport, Upload, drain};
use super::{Behaviour, Engine, fetch_url, get, last_refusal};

/// Everything but the unreserved characters of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Bytes of a piece of an upload.
const PIECE_BYTES: usize = 256 << 10;
/// Depth of folders that a listing descends to.
const DEPTH_MAX: usize = 256;
/// Folders that a listing may still have to visit.
const PENDING_MAX: usize = 1_000_000;

pub(super) struct Web {
    address: Address,
}

impl Web {
    pub(super) fn new(address: Address) -> Self {
        Self { address }
    }
}

impl Place for Web {
    fn fetch_url(&self, url: &str, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, Refusal> {
        fetch_url(url, self.address.resolved("ca_file")?.as_deref(), self.address.deadlines(), sink)
    }

    fn connect(&self) -> Result<Box<dyn Connection>, Refusal> {
        let address = &self.address;
        let mut secrets = address.secrets()?;
        let scheme = if address.scheme().ends_with('s') { "https" } else { "http" };
        let base = format!("{scheme}://{}", address.path.trim_end_matches('/'));
        let authorization = match (address.resolved("token")?, address.resolved("username")?) {
            (Some(token), _) => Some(format!("Bearer {token}")),
            (None, Some(user)) => {
                let pair = format!("{user}:{}", address.resolved("password")?.unwrap_or_default());
                let encoded = base64_simd::STANDARD.encode_to_string(pair);
                secrets.push(encoded.clone());
                Some(format!("Basic {encoded}"))
            }
            (None, None) => None,
        };
        let authorization = authorization.map(|value| {
            let mut value = HeaderValue::try_from(value)
                .map_err(|_| Refusal::new(Cause::Unsupported, "the password or token contains characters that HTTP can't send"))?;
            value.set_sensitive(true);
            Ok(value)
        });
        let authorization = authorization.transpose()?;
        let ca_file = address.resolved("ca_file")?;
        let engine = Engine::open(&base, ca_file.as_deref(), address.deadlines(), Behaviour::Web, secrets)?;
        let root = propfind::segments(&base)?;
        let server = Server { transport: engine.transport.clone(), base, root, authorization };
        Ok(Box::new(WebConnection { engine, server, dav: address.kind == Kind::Webdav }))
    }

    fn describe(&self) -> String {
        self.address.to_string()
    }
}

struct WebConnection {
    engine: Engine,
    server: Server,
    /// False for a plain web server.
    dav: bool,
}

impl WebConnection {
    fn run<T>(&self, location: &str, content: bool, work: impl Future<Output = Result<T, Refusal>>) -> Result<T, Refusal> {
        self.engine.run(location, || self.engine.transport.begin(content), work)
    }

    fn dav(&self) -> Result<(), Refusal> {
        match self.dav {
            true => Ok(()),
            false => Err(Refusal::new(Cause::Unsupported, "web servers can be read only; for WebDAV use webdavs://")),
        }
    }
}

impl Connection for WebConnection {
    fn length(&mut self, location: &str) -> Result<u64, Refusal> {
        location::check(location)?;
        self.run(location, false, async {
            if !self.dav {
                return self.server.head(location).await;
            }
            match self.server.member(location).await {
                Ok(Member { is_folder: true, .. }) => Err(Refusal::new(Cause::Unsupported, "it is a folder, not a file")),
                Ok(Member { bytes: Some(bytes), .. }) => Ok(bytes),
                Ok(_) => Err(Refusal::new(Cause::Unsupported, "the server states no length")),
                Err(refusal) => Err(self.server.confirm(refusal).await),
            }
        })
    }

    fn stated(&mut self, location: &str) -> Result<Statement, Refusal> {
        // HEAD doesn't tell folders from files.
        let known = if self.dav { Some(self.length(location)?) } else { None };
        self.run(location, false, async {
            let stated = self.server.head(location).await;
            let digests = || statement::of_web(&self.server.transport.notes().headers);
            match (known, stated) {
                (None, Ok(bytes)) => Ok(Statement { bytes, digests: digests() }),
                (None, Err(refusal)) => Err(refusal),
                (Some(bytes), Ok(stated)) if stated == bytes => Ok(Statement { bytes, digests: digests() }),
                // Some WebDAV servers don't answer HEAD.
                (Some(bytes), Err(Refusal { cause: Cause::Unsupported, .. })) => Ok(Statement { bytes, digests: Vec::new() }),
                // Answers that contradict each other prove nothing.
                (Some(bytes), Ok(stated)) => {
                    Err(Refusal::new(Cause::Fault, format!("PROPFIND states {bytes} bytes, and HEAD states {stated}")))
                }
                (Some(bytes), Err(Refusal { cause: Cause::Missing, .. })) => {
                    Err(Refusal::new(Cause::Fault, format!("PROPFIND states a file of {bytes} bytes, and HEAD states that there is none")))
                }
                (Some(_), Err(refusal)) => Err(refusal),
            }
        })
    }

    fn read(&mut self, location: &str, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, Refusal> {
        location::check(location)?;
        self.run(location, true, async {
            let request = self.server.request(Method::GET, location)?;
            match get(&self.server.transport, request, sink).await {
                Err(refusal) if self.dav => Err(self.server.confirm(refusal).await),
                read => read,
            }
        })
    }

    fn list(&mut self, each: &mut dyn FnMut(Listed) -> bool) -> Result<(), Refusal> {
        if !self.dav {
            return Err(Refusal::new(Cause::Unsupported, "web servers don't list their files; WebDAV does, with webdavs://"));
        }
        self.run("listing", false, self.server.list(each))
    }

    fn write(&mut self, location: &str, bytes: u64, content: &mut dyn Read) -> Result<(), Refusal> {
        location::check(location)?;
        self.dav()?;
        self.run(location, false, self.server.write(location, bytes, content))
    }

    fn remove(&mut self, location: &str) -> Result<(), Refusal> {
        location::check(location)?;
        self.dav()?;
        self.run(location, false, async {
            // DELETE of a folder would remove everything in it.
            match self.server.member(location).await {
                Ok(Member { is_folder: true, .. }) => return Err(Refusal::new(Cause::Unsupported, "it is a folder, not a file")),
                Ok(_) => {}
                Err(refusal) => {
                    return match self.server.confirm(refusal).await {
                        Refusal { cause: Cause::Missing, .. } => Ok(()),
                        refusal => Err(refusal),
                    };
                }
            }
            match self.server.plain(Method::DELETE, location, &[]).await {
                Err(Refusal { cause: Cause::Missing, .. }) => Ok(()),
                result => result,
            }
        })
    }

    fn presigned_url(&mut self, location: &str, _: Duration) -> Result<Option<String>, Refusal> {
        location::check(location)?;
        Ok(self.server.authorization.is_none().then(|| self.server.url(location)))
    }
}

struct Server {
    transport: Transport,
    /// The URL of the place, without a slash at its end.
    base: String,
    /// Its path, decoded.
    root: Vec<String>,
    authorization: Option<HeaderValue>,
}

impl Server {
    fn url(&self, location: &str) -> String {
        location.split('/').filter(|part| !part.is_empty()).fold(self.base.clone(), |mut url, part| {
            url.push('/');
            url.extend(utf8_percent_encode(part, ENCODED));
            url
        })
    }

    fn request(&self, method: Method, location: &str) -> Result<Request<()>, Refusal> {
        let mut url = self.url(location);
        if location.is_empty() || location.ends_with('/') {
            // Servers redirect requests for folders without it.
            url.push('/');
        }
        let mut request = Request::builder().method(method).uri(url);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        request.body(()).map_err(|error| Refusal::new(Cause::Unsupported, format!("the request can't be made: {error}")))
    }

    async fn send(&self, parts: request::Parts, upload: Upload) -> Result<(http::response::Parts, Vec<u8>), Refusal> {
        let method = parts.method.clone();
        match self.transport.exchange(parts, upload).await? {
            (_, Received::Reason(_)) => Err(last_refusal(&self.transport, method)),
            (head, Received::Content(mut content)) => {
                let mut body = Vec::new();
                // Bounded by the transport.
                let mut keep = |piece: &[u8]| {
                    body.extend_from_slice(piece);
                    true
                };
                drain(&mut content, &mut keep).await?;
                Ok((head, body))
            }
        }
    }

    /// Sends a request without a body, and ignores the body of the answer.
    async fn plain(&self, method: Method, location: &str, headers: &[(&'static str, &str)]) -> Result<(), Refusal> {
        let (mut parts, ()) = self.request(method, location)?.into_parts();
        for (name, value) in headers {
            let value = HeaderValue::try_from(*value).map_err(|_| Refusal::new(Cause::Unsupported, "the location can't be sent"))?;
            parts.headers.insert(*name, value);
        }
        self.send(parts, Upload::Whole(Buffer::new())).await.map(drop)
    }

    async fn head(&self, location: &str) -> Result<u64, Refusal> {
        let (parts, ()) = self.request(Method::HEAD, location)?.into_parts();
        let (head, _) = self.send(parts, Upload::Whole(Buffer::new())).await?;
        let answer = self.transport.notes().answer;
        match answer.and_then(|answer| answer.bytes) {
            Some(bytes) if head.status == StatusCode::OK => Ok(bytes),
            _ => Err(Refusal::new(Cause::Unsupported, "the server states no length")),
        }
    }

    /// Asks for a resource, and with `depth` 1 for its members too.
    async fn propfind(&self, location: &str, depth: &'static str) -> Result<Vec<u8>, Refusal> {
        let method = Method::from_bytes(b"PROPFIND").expect("a valid method");
        let (mut parts, ()) = self.request(method, location)?.into_parts();
        parts.headers.insert("depth", HeaderValue::from_static(depth));
        parts.headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/xml; charset=utf-8"));
        let (head, body) = self.send(parts, Upload::Whole(Buffer::from(propfind::REQUEST))).await?;
        match head.status {
            StatusCode::MULTI_STATUS => Ok(body),
            _ => Err(Refusal::new(Cause::Unsupported, "the server does not speak WebDAV")),
        }
    }

    /// What the server says about one resource.
    async fn member(&self, location: &str) -> Result<Member, Refusal> {
        let answer = self.propfind(location, "0").await?;
        let mut found = None;
        propfind::members(&answer, &mut |member| {
            found.get_or_insert(member);
            Ok(())
        })?;
        found.ok_or_else(|| Refusal::new(Cause::Fault, "the answer to PROPFIND is empty"))
    }

    /// After an answer that a file doesn't exist: makes sure that the place does.
    async fn confirm(&self, refusal: Refusal) -> Refusal {
        if refusal.cause != Cause::Missing {
            return refusal;
        }
        self.transport.begin(false);
        match self.member("").await {
            Ok(Member { is_folder: true, .. }) => refusal,
            Ok(_) => Refusal::new(Cause::Fault, "the place is a file, not a folder"),
            Err(Refusal { cause: Cause::Missing, .. }) => Refusal::new(Cause::Fault, "the folder of the place does not exist"),
            Err(other) => Refusal::new(other.cause, format!("whether it is missing can't be told: {}", other.detail)),
        }
    }

    async fn list(&self, each: &mut dyn FnMut(Listed) -> bool) -> Result<(), Refusal> {
        let mut pending = vec![String::new()];
        while let Some(folder) = pending.pop() {
            let answer = self.propfind(&folder, "1").await.map_err(|refusal| {
                let cause = if refusal.cause == Cause::Missing { Cause::Fault } else { refusal.cause };
                Refusal::new(cause, format!("folder {folder:?}: {}", refusal.detail))
            })?;
            let above: Vec<&str> = self.root.iter().map(String::as_str).chain(folder.split('/').filter(|part| !part.is_empty())).collect();
            if above.len() > self.root.len() + DEPTH_MAX {
                return Err(Refusal::new(Cause::Unsupported, format!("folders are nested more than {DEPTH_MAX} deep")));
            }
            let mut goes_on = true;
            propfind::members(&answer, &mut |member| {
                if !goes_on || member.path == above {
                    return Ok(());
                }
                let name = match member.path.split_last() {
                    Some((name, folders)) if folders == above && !matches!(name.as_str(), "." | "..") => name,
                    _ => {
                        return Err(Refusal::new(
                            Cause::Fault,
                            format!("folder {folder:?} has a member elsewhere: /{}", member.path.join("/")),
                        ));
                    }
                };
                let location = format!("{folder}{name}");
                if member.is_folder {
                    if pending.len() >= PENDING_MAX {
                        return Err(Refusal::new(Cause::Unsupported, format!("more than {PENDING_MAX} folders beside each other")));
                    }
                    pending.push(format!("{location}/"));
                } else if !name.starts_with(PART_PREFIX) {
                    goes_on = each(Listed { tag: member.etag.or(member.modified), ..Listed::new(location, member.bytes) });
                }
                Ok(())
            })?;
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    async fn write(&self, location: &str, bytes: u64, content: &mut dyn Read) -> Result<(), Refusal> {
        if let Some((folders, _)) = location.rsplit_once('/') {
            self.make_folders(folders).await?;
        }
        let part = location::part_beside(location);
        let published = async {
            self.put(&part, bytes, content).await?;
            let target = self.url(location);
            let method = Method::from_bytes(b"MOVE").expect("a valid method");
            self.plain(method, &part, &[("destination", &target), ("overwrite", "T")]).await?;
            // Some servers misread an odd name here, and move the file elsewhere.
            match self.member(location).await {
                Ok(Member { is_folder: false, bytes: Some(there), .. }) if there == bytes => Ok(()),
                Ok(_) | Err(Refusal { cause: Cause::Missing, .. }) => {
                    Err(Refusal::new(Cause::Fault, "the server acknowledged the file but does not have it under this name"))
                }
                Err(refusal) => Err(refusal),
            }
        };
        let published = published.await;
        if published.is_err() {
            let _ = self.plain(Method::DELETE, &part, &[]).await;
        }
        published.map_err(|refusal| match refusal.cause {
            Cause::Missing => Refusal::new(Cause::Fault, format!("its folder vanished: {}", refusal.detail)),
            _ => refusal,
        })
    }

    /// Creates those folders that are missing, but never the place itself.
    async fn make_folders(&self, folders: &str) -> Result<(), Refusal> {
        match self.member(&format!("{folders}/")).await {
            Ok(Member { is_folder: true, .. }) => return Ok(()),
            Ok(_) => return Err(Refusal::new(Cause::Unsupported, format!("{folders} is a file"))),
            Err(refusal) if refusal.cause == Cause::Missing => match self.confirm(refusal).await {
                Refusal { cause: Cause::Missing, .. } => {}
                refusal => return Err(refusal),
            },
            Err(refusal) => return Err(refusal),
        }
        let method = Method::from_bytes(b"MKCOL").expect("a valid method");
        for (end, _) in folders.match_indices('/').chain([(folders.len(), "")]) {
            let made = self.plain(method.clone(), &format!("{}/", &folders[..end]), &[]).await;
            // 405: it exists.
            let exists = || self.transport.notes().answer.is_some_and(|answer| answer.status == StatusCode::METHOD_NOT_ALLOWED);
            if let Err(refusal) = made
                && !exists()
            {
                return Err(Refusal::new(refusal.cause, format!("creating folder {:?}: {}", &folders[..end], refusal.detail)));
            }
        }
        Ok(())
    }

    async fn put(&self, location: &str, bytes: u64, content: &mut dyn Read) -> Result<(), Refusal> {
        let (parts, ()) = self.request(Method::PUT, location)?.into_parts();
        let (pieces, upload) = mpsc::channel(2);
        let feed = async move {
            let mut received = 0;
            loop {
                let mut piece = vec![0; PIECE_BYTES];
                let filled = fill(content, &mut piece)?;
                received += filled as u64;
                if filled == 0 || received > bytes {
                    // The end of the channel ends the request; too early, if the content is short.
                    return if received == bytes { Ok(()) } else { Err(wrong_length(received, bytes)) };
                }
                piece.truncate(filled);
                if pieces.send(Bytes::from(piece)).await.is_err() {
                    // The server answered already, perhaps with a refusal.
                    return Ok(());
                }
            }
        };
        let send = self.send(parts, Upload::Stream(Some(upload), bytes));
        let (fed, sent) = futures_util::future::join(feed, send).await;
        fed.and(sent.map(drop))
    }
}
