//! Object stores, through opendal.

use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use fulgurite_new_file::PART_PREFIX;
use futures_util::TryStreamExt;
use http::StatusCode;
use opendal::services::{AzblobConfig, B2Config, GcsConfig, S3Config, SwiftConfig};
use opendal::{Configurator, ErrorKind, HttpTransporter, OperationContext, Operator};

use super::super::address::{Address, Kind};
use super::super::location;
use super::super::{Cause, Connection, Listed, NewContent, Place, Refusal, Statement, check_missing, fill, pass, wrong_length};
use super::answer::Answer;
use super::azure_url;
use super::b2::B2Transport;
use super::bulk::{BulkBucket, Known};
use super::bulk_get::BulkGets;
use super::bulk_put::BulkPuts;
use super::checksums::RequestSigning;
use super::login::{Login, SignedIn};
use super::transport::Notes;
use super::{Behaviour, Engine, fetch_url, statement};

/// Where opendal keeps the parts of a large upload to Swift, in the same container.
const SWIFT_PARTS: &str = ".segments/";
/// Bytes of a part of a large upload. One is held in memory at a time. S3 requires 5 MiB at least.
const PART_BYTES: u64 = 8 << 20;
/// Parts that an upload to S3 may have.
const PARTS_MAX: u64 = 10_000;
/// Most memory that an upload may take, which limits files to 625 GiB.
const PART_BYTES_MAX: u64 = 64 << 20;

pub(super) struct Store {
    address: Address,
    known: Arc<Known>,
}

impl Store {
    pub(super) fn new(address: Address) -> Self {
        Self { address, known: Arc::default() }
    }
}

impl Place for Store {
    fn fetch_url(&self, url: &str, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, Refusal> {
        fetch_url(url, self.address.resolved("ca_file")?.as_deref(), self.address.deadlines(), sink)
    }

    fn connect(&self) -> Result<Box<dyn Connection>, Refusal> {
        let address = &self.address;
        let mut secrets = address.secrets()?;
        let mut endpoint = address.resolved("endpoint")?;
        let ca_file = address.resolved("ca_file")?;
        let login = if address.kind == Kind::Swift { Login::of(address)? } else { None };
        secrets.extend(login.as_ref().map(|login| login.secret().to_owned()));
        let (first_url, behaviour) = match (&login, address.kind) {
            (Some(login), _) => (Some(login.url()), Behaviour::Referred),
            (None, Kind::Gcs) => (endpoint.as_deref(), Behaviour::Google),
            (None, _) => (endpoint.as_deref(), Behaviour::Store),
        };
        let engine = Engine::open(first_url.unwrap_or_default(), ca_file.as_deref(), address.deadlines(), behaviour, secrets)?;
        let transporter = match login {
            Some(login) => {
                let opening = SignedIn::open(engine.transport.clone(), login, engine.secrets.clone());
                let (signed_in, account) = engine.run(&address.url(), || engine.transport.begin(false), opening)?;
                endpoint = Some(account);
                HttpTransporter::new(signed_in)
            }
            // opendal has no such setting for B2.
            None if address.kind == Kind::B2 => {
                HttpTransporter::new(B2Transport::new(engine.transport.clone(), endpoint.take(), engine.secrets.clone()))
            }
            None => HttpTransporter::new(engine.transport.clone()),
        };
        let operator = operator(address, endpoint.as_deref())
            .map_err(|refusal| Refusal::new(refusal.cause, format!("{address}: {}", engine.secrets.scrub(&refusal.detail))))?;
        let context = OperationContext::new().with_http_transport(transporter);
        let asking = RequestSigning::of(address, &engine.transport)?;
        let bulk = BulkBucket::of(address, endpoint.as_deref(), asking.as_ref(), &self.known);
        let (bulk_gets, bulk_puts) = (bulk.clone().map(BulkGets::new), bulk.map(BulkPuts::new));
        let signing = match address.kind {
            Kind::Swift if !address.options.contains_key("temp_url_key") => Signing::Impossible,
            Kind::Azblob => match azure_url::Signer::of(address, &azure_endpoint(address, endpoint)?)? {
                Some(signer) => Signing::Azure(signer),
                None => Signing::Impossible,
            },
            _ if address.is_true("anonymous") => Signing::Impossible,
            _ => Signing::Opendal,
        };
        Ok(Box::new(StoreConnection {
            engine,
            operator: operator.with_context(context),
            kind: address.kind,
            asking,
            bulk_gets,
            bulk_puts,
            signing,
        }))
    }

    fn describe(&self) -> String {
        self.address.to_string()
    }
}

/// A refusal if an operation failed because opendal found no credentials. The service of the
/// machine is the last place where it looks.
fn no_credentials(kind: Kind, notes: &Notes, error: &opendal::Error) -> Option<Refusal> {
    let is_unasked = notes.answer.is_none() && notes.failure.is_none();
    let is_unsigned = is_unasked && error.to_string().contains("signing credential");
    if !(notes.asks_machine || is_unsigned) {
        return None;
    }
    let looked = match kind {
        Kind::Gcs => "the file that GOOGLE_APPLICATION_CREDENTIALS names, in gcloud's own, or at the service account of this machine",
        _ => "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, in the profiles below ~/.aws, or at the role of this machine",
    };
    let refused = notes.answer.as_ref().filter(|answer| !answer.status.is_success()).map(Answer::refusal);
    let why = notes.failure.clone().or(refused).map_or_else(String::new, |refusal| format!(" ({})", refusal.detail));
    Some(Refusal::new(Cause::Denied, format!("no credentials were found in {looked}{why}")))
}

/// The operator of opendal for an address, with all secrets looked up.
fn operator(address: &Address, endpoint: Option<&str>) -> Result<Operator, Refusal> {
    let (container, prefix) = address.split();
    let mut settings = vec![("root".to_owned(), format!("/{prefix}"))];
    let mut set = |name: &str, value: &str| settings.push((name.to_owned(), value.to_owned()));
    let container_name = if matches!(address.kind, Kind::Azblob | Kind::Swift) { "container" } else { "bucket" };
    set(container_name, container);
    for (option, _) in address.options() {
        let ours = option.ends_with("_timeout") || ["ca_file", "anonymous", "credentials", "endpoint"].contains(&option);
        if let Some(value) = address.resolved(option)?.filter(|_| !ours) {
            set(option, &value);
        }
    }
    if let Some(endpoint) = endpoint {
        set("endpoint", endpoint);
    }
    if address.is_true("anonymous") {
        set("skip_signature", "true");
    }
    let given = |option: &str| address.options.contains_key(option);
    match address.kind {
        Kind::S3 => {
            if !given("region") {
                set("region", "us-east-1");
            }
            // What the address states doesn't depend on the environment.
            if !given("credentials") && !given("profile") {
                set("disable_config_load", "true");
                set("disable_ec2_metadata", "true");
            }
            if !given("endpoint") {
                set("endpoint", "https://s3.amazonaws.com");
            }
        }
        Kind::Gcs if !given("credentials") => {
            set("disable_config_load", "true");
            set("disable_vm_metadata", "true");
        }
        Kind::Azblob if !given("endpoint") => set("endpoint", &azure_endpoint(address, None)?),
        _ => {}
    }
    let built = match address.kind {
        Kind::S3 => S3Config::from_iter(settings).and_then(|config| Operator::new(config.into_builder())),
        Kind::Azblob => AzblobConfig::from_iter(settings).and_then(|config| Operator::new(config.into_builder())),
        Kind::Gcs => GcsConfig::from_iter(settings).and_then(|config| Operator::new(config.into_builder())),
        Kind::Swift => SwiftConfig::from_iter(settings).and_then(|config| Operator::new(config.into_builder())),
        Kind::B2 => B2Config::from_iter(settings).and_then(|config| Operator::new(config.into_builder())),
        Kind::Folder | Kind::Sftp | Kind::Webdav | Kind::Web => {
            return Err(Refusal::new(Cause::Unsupported, format!("{} is no object store", address.scheme())));
        }
    };
    built.map_err(|error| Refusal::new(Cause::Unsupported, format!("the settings are unusable: {error}")))
}

/// The endpoint of a place at Azure.
fn azure_endpoint(address: &Address, given: Option<String>) -> Result<String, Refusal> {
    let account = || Ok(address.resolved("account_name")?.unwrap_or_default());
    given.map_or_else(|| account().map(|account| format!("https://{account}.blob.core.windows.net")), Ok)
}

/// How URLs are signed.
enum Signing {
    Opendal,
    Azure(azure_url::Signer),
    Impossible,
}

struct StoreConnection {
    engine: Engine,
    operator: Operator,
    kind: Kind,
    /// How to ask for checksums, where that is possible.
    asking: Option<RequestSigning>,
    /// Files that arrived before they were asked for, where that is possible.
    bulk_gets: Option<BulkGets>,
    bulk_puts: Option<BulkPuts>,
    signing: Signing,
}

impl StoreConnection {
    /// opendal trims keys, whatever the server could store, and so would answer for another key.
    fn check(location: &str) -> Result<(), Refusal> {
        location::check(location)?;
        match location.trim() == location {
            true => Ok(()),
            false => {
                let problem = "this program can't use keys that begin or end with white space, in any bucket; rename the file";
                Err(Refusal::new(Cause::Unsupported, format!("invalid location {location:?}: {problem}")))
            }
        }
    }

    fn run<T>(&self, location: &str, content: bool, work: impl Future<Output = Result<T, Refusal>>) -> Result<T, Refusal> {
        let result = self.engine.run(location, || self.engine.transport.begin(content), work);
        if let Some(bulk_puts) = &self.bulk_puts {
            bulk_puts.bucket.look_at(&self.engine.transport);
        }
        result
    }

    /// What an error of opendal means, with what the transport noted.
    fn refusal(&self, error: &opendal::Error) -> Refusal {
        let notes = self.engine.transport.notes();
        if let Some(refusal) = no_credentials(self.kind, &notes, error) {
            return refusal;
        }
        if let Some(failure) = notes.failure {
            return failure;
        }
        if let Some(answer) = notes.answer.filter(|answer| !answer.status.is_success()) {
            return answer.refusal();
        }
        let cause = match error.kind() {
            ErrorKind::PermissionDenied => Cause::Denied,
            ErrorKind::Unsupported | ErrorKind::ConfigInvalid | ErrorKind::IsADirectory | ErrorKind::NotADirectory => Cause::Unsupported,
            ErrorKind::RateLimited => Cause::Throttled { retry_after: None },
            // Never missing: no answer said so.
            _ => Cause::Fault,
        };
        Refusal::new(cause, error.to_string())
    }

    /// What the store states about a file.
    async fn state(&self, location: &str) -> Result<Statement, Refusal> {
        if self.kind == Kind::B2 {
            return self.state_of_b2(location).await;
        }
        let metadata = match self.operator.stat(location).await {
            Ok(metadata) if metadata.is_file() => metadata,
            Ok(_) => return Err(Refusal::new(Cause::Unsupported, "it is a folder, not a file")),
            Err(error) => return Err(self.confirm(location, self.refusal(&error)).await),
        };
        let headers = || self.engine.transport.notes().headers;
        let digests = match self.kind {
            Kind::S3 => statement::of_s3(&headers()),
            Kind::Swift => statement::of_swift(&headers()),
            _ => metadata.content_md5().and_then(statement::md5).into_iter().collect(),
        };
        Ok(Statement { bytes: metadata.content_length(), digests })
    }

    /// What B2 states about a file in its answer to a request for the first byte. opendal would
    /// take the first file whose name begins with that of the file, which may be another.
    async fn state_of_b2(&self, location: &str) -> Result<Statement, Refusal> {
        let notes = || self.engine.transport.notes();
        let refusal = match self.operator.read_with(location).range(0..1).await {
            Ok(_) => {
                let bytes = statement::whole_length(&notes().headers);
                let bytes = bytes.ok_or_else(|| Refusal::new(Cause::Fault, "the answer does not state the length of the file"))?;
                return Ok(Statement { bytes, digests: statement::of_b2(&notes().headers) });
            }
            Err(error) => self.refusal(&error),
        };
        let is_empty = notes().answer.is_some_and(|answer| answer.status == StatusCode::RANGE_NOT_SATISFIABLE);
        if !is_empty {
            return Err(self.confirm(location, refusal).await);
        }
        self.engine.transport.begin(false);
        match self.operator.read(location).await {
            Ok(content) => Ok(Statement { bytes: content.len() as u64, digests: statement::of_b2(&notes().headers) }),
            Err(error) => Err(self.refusal(&error)),
        }
    }

    /// After an answer that a file doesn't exist: makes sure that its bucket or container does.
    /// After a refusal of HEAD, whose answer has no body: finds out the reason.
    async fn confirm(&self, location: &str, refusal: Refusal) -> Refusal {
        let transport = &self.engine.transport;
        let names_the_key = || transport.notes().answer.is_some_and(|answer| answer.names_the_key());
        let notes = transport.notes();
        let lacks_reason = notes.failure.is_none() && notes.answer.is_some_and(|answer| answer.lacks_reason());
        if (refusal.cause != Cause::Missing && !lacks_reason) || names_the_key() {
            return refusal;
        }
        transport.begin(false);
        let seen = match self.operator.read_with(location).range(0..1).await {
            Ok(_) if refusal.cause == Cause::Missing => return Refusal::new(Cause::Fault, "it is there for GET, but not for HEAD"),
            Ok(_) => return refusal,
            Err(error) => self.refusal(&error),
        };
        if seen.cause != Cause::Missing || names_the_key() {
            return seen;
        }
        transport.begin(false);
        // B2's files are listed by the bucket's identifier, and read by its name: a listed one must
        // be readable.
        let by_name = self.kind == Kind::B2;
        let root = async { self.operator.lister_with("/").recursive(by_name).limit(1).await?.try_next().await };
        let result = root.await;
        let noted = transport.notes();
        if let (Ok(Some(entry)), true) = (&result, by_name) {
            transport.begin(false);
            let read = self.operator.read_with(entry.path()).range(0..1).await;
            if read.is_err_and(|error| self.refusal(&error).cause == Cause::Missing) {
                return Refusal::new(Cause::Fault, "files that the bucket lists can't be read; check the bucket's name and bucket_id");
            }
        }
        match result {
            // opendal takes a missing container for an empty one.
            Ok(_) if noted.refused.is_none() => seen,
            Ok(_) => gone(),
            Err(error) => match self.refusal(&error) {
                Refusal { cause: Cause::Missing, .. } => gone(),
                other => Refusal::new(other.cause, format!("whether it is missing can't be told, because listing fails: {}", other.detail)),
            },
        }
    }

    /// Writes a file. If `is_new` is true, the server is told to keep an existing file, and the
    /// result is [`Cause::Exists`].
    fn put(&mut self, location: &str, bytes: u64, content: &mut dyn Read, is_new: bool) -> Result<(), Refusal> {
        Self::check(location)?;
        let part_bytes = PART_BYTES.max(bytes.div_ceil(PARTS_MAX));
        if part_bytes > PART_BYTES_MAX {
            return Err(Refusal::new(
                Cause::Unsupported,
                format!("{location}: files of more than 625 GiB can't be written to object stores"),
            ));
        }
        let is_plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte));
        let names_stay = is_plain(location) && is_plain(&self.operator.info().root());
        if self.kind == Kind::B2 && bytes > part_bytes && !names_stay {
            // opendal would encode the name twice.
            let problem = "files of more than 8 MiB can be written to B2 only if their names consist of ASCII letters, digits and /._-~";
            return Err(Refusal::new(Cause::Unsupported, format!("{location}: {problem}")));
        }
        self.run(location, false, async {
            let writer = self.operator.writer_with(location).if_not_exists(is_new).await;
            let mut writer = writer.map_err(|error| self.refusal(&error))?;
            let mut received = 0;
            let sent = loop {
                let mut part = vec![0; usize::try_from(part_bytes.min((bytes - received).max(1))).unwrap_or(usize::MAX)];
                let filled = match fill(content, &mut part) {
                    Ok(filled) => filled,
                    Err(refusal) => break Err(refusal),
                };
                received += filled as u64;
                if filled == 0 || received > bytes {
                    break if received == bytes { Ok(()) } else { Err(wrong_length(received, bytes)) };
                }
                part.truncate(filled);
                if let Err(error) = writer.write(Bytes::from(part)).await {
                    break Err(self.refusal(&error));
                }
            };
            let closed = match sent {
                Ok(()) => writer.close().await.map(drop).map_err(|error| self.refusal(&error)),
                Err(refusal) => Err(refusal),
            };
            let refused = self.engine.transport.notes().refused;
            let exists = is_new && closed.is_err() && refused.is_some_and(|answer| answer.status == StatusCode::PRECONDITION_FAILED);
            if closed.is_err() {
                // Best effort: stores remove unfinished uploads after a while, if told to.
                let _ = writer.abort().await;
            }
            closed.map_err(|refusal| match refusal.cause {
                _ if exists => Refusal::new(Cause::Exists, location),
                // Nothing was looked for, so nothing can be missing but the container.
                Cause::Missing => gone(),
                _ => refusal,
            })
        })
    }
}

fn gone() -> Refusal {
    Refusal::new(Cause::Fault, "the bucket or container does not exist; check its name and the endpoint")
}

impl Connection for StoreConnection {
    fn length(&mut self, location: &str) -> Result<u64, Refusal> {
        Self::check(location)?;
        self.run(location, false, async { self.state(location).await.map(|statement| statement.bytes) })
    }

    fn stated(&mut self, location: &str) -> Result<Statement, Refusal> {
        Self::check(location)?;
        let statement = self.run(location, false, async {
            self.engine.transport.ask_checksums(self.asking.clone());
            self.state(location).await
        });
        // The transport must not keep what may refer to it.
        self.engine.transport.ask_checksums(None);
        statement
    }

    fn read(&mut self, location: &str, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, Refusal> {
        Self::check(location)?;
        if let Some(content) = self.bulk_gets.as_mut().and_then(|ahead| ahead.take(location)) {
            return pass(sink, content).map(|()| content.len() as u64);
        }
        self.run(location, true, async {
            let (mut received, mut abandoned) = (0, false);
            let read = async {
                let mut stream = self.operator.reader(location).await?.into_stream(..).await?;
                while let Some(buffer) = stream.try_next().await? {
                    for piece in buffer {
                        received += piece.len() as u64;
                        if !sink(&piece) {
                            abandoned = true;
                            return Ok(());
                        }
                    }
                }
                Ok(())
            };
            if let Err(error) = read.await {
                return Err(self.confirm(location, self.refusal(&error)).await);
            }
            if abandoned {
                return Err(Refusal::new(Cause::Abandoned, ""));
            }
            // The answer was checked against its own length on the way; this checks opendal.
            match self.engine.transport.notes().answer {
                Some(answer) if answer.status != StatusCode::OK => Err(Refusal::new(Cause::Fault, "the answer is a part only")),
                Some(answer) if answer.bytes.is_some_and(|stated| stated != received) => {
                    Err(Refusal::new(Cause::Cut { received, stated: answer.bytes.unwrap_or(0) }, ""))
                }
                _ => Ok(received),
            }
        })
    }

    fn read_ahead(&mut self, files: &mut dyn Iterator<Item = (&str, u64)>) -> Result<usize, Refusal> {
        let Some(mut bulk_gets) = self.bulk_gets.take() else { return Ok(0) };
        let transport = &self.engine.transport;
        let first = bulk_gets.first(&mut files.take_while(|(location, _)| Self::check(location).is_ok()));
        let ahead = match first.len() {
            0 => Ok(0),
            count => match self.run("a bulk get", false, bulk_gets.get(&first, transport)) {
                Ok(()) => Ok(count),
                Err(refusal) if refusal.cause.is_out_of_reach() => Err(refusal),
                // Files are read one by one then.
                Err(_) => Ok(0),
            },
        };
        self.bulk_gets = Some(bulk_gets);
        ahead
    }

    /// Keys that end with a slash are taken for folders and left out.
    fn list(&mut self, each: &mut dyn FnMut(Listed) -> bool) -> Result<(), Refusal> {
        let root = match self.kind {
            Kind::S3 => Some("ListBucketResult"),
            Kind::Azblob => Some("EnumerationResults"),
            // Their pages are JSON, which other answers aren't.
            _ => None,
        };
        self.run("listing", false, async {
            self.engine.transport.expect_listing(root);
            let listed = async {
                let mut entries = self.operator.lister_with("/").recursive(true).await?;
                while let Some(entry) = entries.try_next().await? {
                    let (path, metadata) = entry.into_parts();
                    let is_part = path.rsplit('/').next().is_some_and(|name| name.starts_with(PART_PREFIX))
                        || (self.kind == Kind::Swift && path.starts_with(SWIFT_PARTS));
                    let tag = metadata.etag().map(str::to_owned).or_else(|| metadata.last_modified().map(|time| time.to_string()));
                    if metadata.is_file() && !is_part && !each(Listed { tag, ..Listed::new(path, Some(metadata.content_length())) }) {
                        break;
                    }
                }
                Ok(())
            };
            listed.await.map_err(|error| match self.refusal(&error) {
                Refusal { cause: Cause::Missing, .. } => gone(),
                refusal => refusal,
            })?;
            // opendal takes a missing container for an empty one.
            match self.engine.transport.notes().refused.map(|answer| answer.refusal()) {
                Some(Refusal { cause: Cause::Missing, .. }) => Err(gone()),
                Some(refusal) => Err(refusal),
                None => Ok(()),
            }
        })
    }

    fn write(&mut self, location: &str, bytes: u64, content: &mut dyn Read) -> Result<(), Refusal> {
        self.put(location, bytes, content, false)
    }

    fn write_new(&mut self, location: &str, bytes: u64, content: &mut dyn Read) -> Result<(), Refusal> {
        // Our servers refuse names that exist. Even if a put that timed out arrives after all,
        // nothing is then stored twice.
        let is_ours = self.bulk_puts.as_ref().is_some_and(|bulk_puts| bulk_puts.bucket.is_ours());
        if !is_ours {
            check_missing(self, location)?;
        }
        self.put(location, bytes, content, is_ours)
    }

    fn write_new_together(&mut self, files: &mut dyn Iterator<Item = NewContent<'_>>) -> Vec<Result<(), Refusal>> {
        let Some(bulk_puts) = &self.bulk_puts else { return Vec::new() };
        let put = async { Ok(bulk_puts.put(files, &self.engine.transport, |location| Self::check(location).is_ok()).await) };
        self.run("a bulk put", false, put).unwrap_or_default()
    }

    fn remove(&mut self, location: &str) -> Result<(), Refusal> {
        Self::check(location)?;
        self.run(location, false, async {
            match self.operator.delete(location).await {
                Ok(()) => Ok(()),
                Err(error) => match self.refusal(&error) {
                    Refusal { cause: Cause::Missing, .. } => Err(gone()),
                    refusal => Err(refusal),
                },
            }
        })
    }

    fn presigned_url(&mut self, location: &str, valid: Duration) -> Result<Option<String>, Refusal> {
        Self::check(location)?;
        match &self.signing {
            Signing::Opendal if self.operator.info().capability().presign_read => {}
            Signing::Azure(signer) => return Ok(SystemTime::now().checked_add(valid).and_then(|until| signer.url(location, until))),
            Signing::Opendal | Signing::Impossible => return Ok(None),
        }
        self.run(location, false, async {
            let signed = self.operator.presign_read(location, valid).await.map_err(|error| self.refusal(&error))?;
            let needs_headers = signed.header().keys().any(|name| *name != http::header::HOST);
            Ok((!needs_headers).then(|| signed.uri().to_string()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_object_store_accepts_its_options() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("secret");
        std::fs::write(&file, "czNjcmV0").expect("it can be written");
        let secret = format!("file:{}", file.display());
        let secret = secret.as_str();
        let endpoint = ("endpoint", "http://127.0.0.1:1");
        for (url, options) in [
            ("s3://b/p", vec![endpoint, ("access_key_id", "k"), ("secret_access_key", secret), ("session_token", secret), ("region", "r")]),
            ("s3://b", vec![endpoint, ("anonymous", "true"), ("enable_virtual_host_style", "true"), ("disable_list_objects_v2", "true")]),
            ("azblob://c/p", vec![endpoint, ("account_name", "n"), ("account_key", secret)]),
            ("azblob://c", vec![("account_name", "n"), ("sas_token", secret)]),
            ("gcs://b/p", vec![endpoint, ("token", secret)]),
            ("gcs://b", vec![endpoint, ("anonymous", "true")]),
            ("swift://c/p", vec![endpoint, ("token", secret), ("temp_url_key", secret)]),
            ("b2://b/p", vec![("bucket_id", "i"), ("application_key_id", "k"), ("application_key", secret)]),
        ] {
            let address = Address::parse(url, options).unwrap_or_else(|error| panic!("{url}: {error}"));
            let connected = Store::new(address).connect();
            assert!(connected.is_ok(), "{url}: {:?}", connected.err());
        }
    }

    #[test]
    fn keys_that_opendal_would_change_are_refused() {
        for location in [" a", "a ", "a//b", "/a", "a/", "a\u{a0}"] {
            assert_eq!(StoreConnection::check(location).map_err(|refusal| refusal.cause), Err(Cause::Unsupported), "{location:?}");
        }
        assert!(StoreConnection::check("a b/ c /d").is_ok());
    }

    #[test]
    fn a_search_for_credentials_that_ends_at_the_machine_is_told() {
        let error = opendal::Error::new(ErrorKind::Unexpected, "signing http request");
        let failure = Some(Refusal::new(Cause::TimedOut, "169.254.169.254: no connection within 10 s"));
        let mut notes = Notes::default();
        notes.failure = failure;
        notes.asks_machine = true;
        let refusal = no_credentials(Kind::S3, &notes, &error).expect("none were found");
        assert_eq!(refusal.cause, Cause::Denied);
        for words in ["no credentials were found in AWS_ACCESS_KEY_ID", "~/.aws", "(169.254.169.254: no connection within 10 s)"] {
            assert!(refusal.detail.contains(words), "{}", refusal.detail);
        }
        assert!(no_credentials(Kind::Gcs, &notes, &error).expect("none").detail.contains("GOOGLE_APPLICATION_CREDENTIALS"));
        // The store itself was asked, or nothing is known of credentials.
        notes.asks_machine = false;
        assert!(no_credentials(Kind::S3, &notes, &error).is_none());
        assert!(no_credentials(Kind::S3, &Notes::default(), &error).is_none());
        let unsigned = opendal::Error::new(ErrorKind::Unexpected, "failed to load signing credential");
        assert!(no_credentials(Kind::S3, &Notes::default(), &unsigned).is_some());
    }
}
