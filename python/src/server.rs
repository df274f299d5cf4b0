//! An S3 server: signed requests over connections that are kept open, and bulk gets.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use bytes::Bytes;
use fulgurite_client::{CLOSED, Failure as Broken, ServerOptions, failure_of, next_frame, region};
use fulgurite_retrieval::{Arrived, Bulk, ExchangeError, OBJECTS_MAX, Position, Requested};
use http::{Method, StatusCode};
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use pyo3::exceptions::{PyUnicodeEncodeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tokio::runtime::{Builder, Runtime};

use crate::errors::{Class, Failure};
use crate::interrupt::{interruptible, until_signal};
use crate::name;
use crate::of_process::OfProcess;
use crate::selection::{Content, Range};

type Core = fulgurite_client::Server;

/// Timeout of a response that makes no progress.
const SILENCE: Duration = Duration::from_secs(300);
/// Timeout of the connection that tells whether the server is there.
const CONNECT: Duration = Duration::from_secs(30);
/// Attempts of a request that fails for a reason that may pass.
const ATTEMPTS_MAX: u32 = 6;
/// Pause before the second attempt; it doubles with each.
const PAUSE: Duration = Duration::from_millis(250);
/// Bounds of a bulk get. Each is repeated as a whole if it fails.
const BULK_OBJECTS: usize = 5_000;
const BULK_BYTES: u64 = 64 << 20;

/// A bucket at an S3 server.
#[pyclass(frozen, module = "fulgurite._native")]
pub(crate) struct Server {
    endpoint: String,
    options: ServerOptions,
    /// Bulk gets at a time.
    connections: usize,
    running: Mutex<Option<Arc<OfProcess<Running>>>>,
}

/// Threads and connections.
struct Running {
    /// `Some` until it is dropped.
    runtime: Option<Runtime>,
    core: Core,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
    connections: usize,
}

/// A response: its status, its headers (names in lower case) and its body.
type Response = (StatusCode, Vec<(String, String)>, Vec<u8>);
/// The same for Python.
type Answer<'py> = (u16, Vec<(String, String)>, Bound<'py, PyBytes>);

impl Running {
    fn new(endpoint: &str, options: &ServerOptions, connections: usize) -> Result<Self, Failure> {
        let core = Core::new(endpoint, options).map_err(|error| Failure::new(Class::Other, error))?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| Failure::new(Class::Other, format!("can't prepare for connections: {error}")))?;
        Ok(Self { runtime: Some(runtime), core, idle: Mutex::default(), connections })
    }

    async fn exchange(&self, request: http::Request<Full<Bytes>>) -> Result<Response, Broken> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let silent = |_| "no response".to_owned();
        let exchange = async {
            let mut sender = match idle.filter(|sender| !sender.is_closed()) {
                Some(sender) => sender,
                None => {
                    let (sender, connection) = self.core.connect().await?;
                    tokio::spawn(connection);
                    sender
                }
            };
            sender.ready().await.map_err(|error| failure_of(&error))?;
            let response = sender.send_request(request).await.map_err(|error| failure_of(&error))?;
            Ok::<_, Broken>((sender, response))
        };
        let (sender, response) = tokio::time::timeout(SILENCE, exchange).await.map_err(silent)??;
        let (head, mut body) = response.into_parts();
        let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = head.headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
        let mut content = Vec::new();
        while let Some(frame) = tokio::time::timeout(SILENCE, next_frame(&mut body)).await.map_err(silent)? {
            content.extend_from_slice(frame?.data_ref().map_or(&[], |data| data));
        }
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        Ok((head.status, headers, content))
    }

    /// Sends a request until it succeeds, or fails for a reason that won't pass.
    async fn send(&self, method: &Method, path: &str, headers: &[(String, String)]) -> Result<Response, Failure> {
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let mut attempt = 1;
        loop {
            let request = self.core.request(method, path, &headers, None, Full::new(Bytes::new())).await;
            // A key that is too long, for example.
            let request = request.map_err(|why| Failure::new(Class::Other, format!("{}: {why}", self.core.endpoint())))?;
            let exchanged = self.exchange(request).await;
            let may_pass = match &exchanged {
                Ok((status, ..)) => {
                    status.is_server_error() && *status != StatusCode::NOT_IMPLEMENTED
                        || matches!(*status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
                }
                // A server that isn't there is no passing trouble of one that is.
                Err(error) => !error.starts_with("no connection") && !error.starts_with("TLS failed"),
            };
            if !may_pass || attempt == ATTEMPTS_MAX {
                return exchanged.map_err(|why| Failure::new(Class::Unavailable, format!("{}: {why}", self.core.endpoint())));
            }
            // A connection that the server closed while it was idle says nothing about the server.
            if attempt > 1 || !matches!(&exchanged, Err(error) if error == CLOSED) {
                tokio::time::sleep(PAUSE * (1 << (attempt - 1))).await;
            }
            attempt += 1;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The last one to use it may be a task of the runtime itself, which must not wait for it.
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

impl Server {
    fn running(&self, py: Python<'_>) -> PyResult<Arc<OfProcess<Running>>> {
        let current = || self.running.lock().expect("nothing panics while it holds this lock");
        match &*current() {
            None => return Err(PyValueError::new_err("the bucket is closed")),
            Some(running) if running.is_own() => return Ok(running.clone()),
            Some(_) => {}
        }
        let made = py.detach(|| Running::new(&self.endpoint, &self.options, self.connections));
        let made = Arc::new(OfProcess::new(made.map_err(|failure| failure.raise(py))?));
        *current() = Some(made.clone());
        Ok(made)
    }
}

#[pymethods]
impl Server {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "they are keyword arguments in Python")]
    #[pyo3(signature = (endpoint, bucket, region_name, keys, profile, authorities, connections))]
    fn new(
        py: Python<'_>,
        endpoint: String,
        bucket: String,
        region_name: Option<&str>,
        keys: Option<(String, String)>,
        profile: Option<String>,
        authorities: Option<String>,
        connections: usize,
    ) -> PyResult<Self> {
        let options = ServerOptions { bucket, region: region(region_name), keys, profile, authorities };
        let running = py.detach(|| Running::new(&endpoint, &options, connections)).map_err(|failure| failure.raise(py))?;
        Ok(Self { endpoint, options, connections, running: Mutex::new(Some(Arc::new(OfProcess::new(running)))) })
    }

    #[getter]
    fn endpoint(&self) -> &str {
        &self.endpoint
    }

    #[getter]
    fn bucket(&self) -> &str {
        &self.options.bucket
    }

    #[getter]
    fn closed(&self) -> bool {
        self.running.lock().expect("nothing panics while it holds this lock").is_none()
    }

    fn close(&self, py: Python<'_>) {
        let running = self.running.lock().expect("nothing panics while it holds this lock").take();
        py.detach(|| drop(running));
    }

    /// Sends a request without a body, and returns the response's status, headers and body. `path`
    /// is escaped.
    fn request<'py>(&self, py: Python<'py>, method: &str, path: &str, headers: Vec<(String, String)>) -> PyResult<Answer<'py>> {
        let running = self.running(py)?;
        let method: Method = method.parse().map_err(|_| PyValueError::new_err("a method"))?;
        let (path, task) = (path.to_owned(), running.clone());
        // As a task of the runtime: a signal handler may use it too, or end it.
        let (done, result) = mpsc::channel();
        let sending = running.runtime.as_ref().expect("it is there until the end").spawn(async move {
            // The receiver is gone if the request was interrupted.
            let _ = done.send(task.send(&method, &path, &headers).await);
        });
        let response = py.detach(move || until_signal(&result).inspect_err(|_| sending.abort()))?;
        let (status, headers, content) = response.map_err(|failure| failure.raise(py))?;
        Ok((status.as_u16(), headers, PyBytes::new(py, &content)))
    }

    /// Asks where objects are: keys, versions (`None` for the newest) and ranges (`None` for all).
    fn select(
        &self,
        py: Python<'_>,
        keys: Vec<Bound<'_, PyAny>>,
        version_ids: Option<Vec<Option<String>>>,
        ranges: Option<Vec<Range>>,
    ) -> PyResult<ServerSelection> {
        let running = self.running(py)?;
        let mut objects = Vec::with_capacity(keys.len());
        let mut invalid = HashMap::new();
        for (index, key) in keys.iter().enumerate() {
            let key = match key_of(key)? {
                Some(key) => key,
                None => {
                    invalid.insert(index, Failure::new(Class::NotFound, format!("{}: not UTF-8, so no key of S3", key.repr()?)));
                    String::new()
                }
            };
            let version_id = version_ids.as_ref().and_then(|ids| ids.get(index)?.clone());
            let range = ranges.as_ref().and_then(|ranges| *ranges.get(index)?);
            let range = range.map(|(start, end)| match end {
                None => format!("bytes={start}-"),
                // A range of S3 has at least one byte.
                Some(end) => format!("bytes={start}-{}", end.saturating_sub(1).max(start)),
            });
            objects.push(Requested { key, version_id, range });
        }
        let is_empty = |range: &Range| matches!(range, Some((start, Some(end))) if end <= start);
        let empty = ranges.iter().flatten().enumerate().filter(|(_, range)| is_empty(range)).map(|(index, _)| index).collect();
        let valid: Vec<usize> = (0..objects.len()).filter(|index| !invalid.contains_key(index)).collect();
        let listed: Vec<Requested> = valid.iter().map(|index| objects[*index].clone()).collect();
        let found = interruptible(py, |stop| {
            // A list is tried for two minutes, but not at a server that isn't there.
            let reached = running.runtime.as_ref().expect("it is there until the end").block_on(async {
                let connected = tokio::time::timeout(CONNECT, running.core.connect::<Full<Bytes>>()).await;
                connected.map_err(|_| "no connection: timed out".to_owned())?.map(drop)
            });
            reached.map_err(ExchangeError::Failed)?;
            let bulk = Bulk::new(&running.core, &|_, _| {}, stop).map_err(|error| ExchangeError::Failed(error.to_string()))?;
            bulk.positions(&listed)
        })?;
        let found = found.map_err(|error| failure(&running.core, &error).raise(py))?;
        let mut positions = vec![None; objects.len()];
        valid.iter().zip(found).for_each(|(index, position)| positions[*index] = position);
        let mut order = valid;
        // What could not be looked up comes last.
        order.sort_by_key(|index| (positions[*index].is_none(), positions[*index].clone(), *index));
        let version_ids = Mutex::new(vec![None; objects.len()]);
        Ok(ServerSelection { running, objects, invalid, empty, positions, order, version_ids })
    }
}

/// The failure of a whole list.
fn failure(server: &Core, error: &ExchangeError) -> Failure {
    let class = match error {
        ExchangeError::Refused(refusal) => class_of(refusal.status, refusal.code.as_deref().unwrap_or_default()),
        ExchangeError::Failed(_) => Class::Unavailable,
        ExchangeError::Memory(_) => Class::Memory,
        _ => Class::Other,
    };
    Failure::new(class, format!("the bucket {} at {}: {error}", server.bucket(), server.endpoint()))
}

/// The class of an error of S3.
fn class_of(status: StatusCode, code: &str) -> Class {
    match (code, status) {
        ("NoSuchKey" | "NoSuchVersion" | "NoSuchBucket", _) => Class::NotFound,
        // A deletion marker that the list names.
        ("MethodNotAllowed", StatusCode::OK) => Class::NotFound,
        ("AccessDenied" | "InvalidAccessKeyId" | "SignatureDoesNotMatch", _) | (_, StatusCode::FORBIDDEN) => Class::Refused,
        ("InvalidObjectState" | "SlowDown" | "ServiceUnavailable" | "InternalError", _) => Class::Unavailable,
        _ if status.is_server_error() => Class::Unavailable,
        _ => Class::Other,
    }
}

/// An S3 error with advice, worded as in `_bucket.py`.
fn advised(code: &str, message: &str) -> String {
    match code {
        "InvalidObjectState" => format!("{code}: {}. It must be restored first.", message.trim_end_matches('.')),
        _ => format!("{code}: {message}"),
    }
}

/// A key; `None` if it isn't UTF-8.
fn key_of(key: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    match name::from_python(key) {
        Ok(name) => Ok(String::from_utf8(name.0).ok()),
        Err(error) if error.is_instance_of::<PyUnicodeEncodeError>(key.py()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What a list of keys selects at a server.
#[pyclass(frozen, module = "fulgurite._native")]
pub(crate) struct ServerSelection {
    running: Arc<OfProcess<Running>>,
    /// In the order of the list.
    objects: Vec<Requested>,
    /// What can't be a key.
    invalid: HashMap<usize, Failure>,
    /// Numbers of the objects of which no byte is wanted.
    empty: HashSet<usize>,
    positions: Vec<Option<Position>>,
    /// Numbers of the objects, in read order.
    order: Vec<usize>,
    /// Identifiers of the versions that arrived.
    version_ids: Mutex<Vec<Option<String>>>,
}

/// An object that the server can't send.
struct Failed {
    number: usize,
    /// S3's code.
    code: String,
    message: String,
}

/// What did not arrive as expected.
#[derive(Default)]
struct Unexpected {
    failed: Vec<Failed>,
    /// Content of another length than expected, by number: of objects that were replaced since they
    /// were looked up.
    others: HashMap<usize, Vec<u8>>,
}

impl ServerSelection {
    fn bytes_of(&self, number: usize) -> u64 {
        self.positions.get(number).and_then(Option::as_ref).map_or(0, |position| position.bytes)
    }

    /// Objects for one request each, in read order.
    fn requests(&self, numbers: &[usize]) -> Vec<Vec<usize>> {
        let mut sorted = numbers.to_vec();
        sorted.sort_by_key(|number| (self.positions[*number].is_none(), &self.positions[*number], *number));
        let mut requests: Vec<Vec<usize>> = Vec::new();
        let mut bytes = 0;
        for number in sorted {
            bytes = self.bytes_of(number).saturating_add(bytes);
            match requests.last_mut() {
                Some(last) if last.len() < BULK_OBJECTS.min(OBJECTS_MAX) && bytes <= BULK_BYTES => last.push(number),
                _ => {
                    bytes = self.bytes_of(number);
                    requests.push(vec![number]);
                }
            }
        }
        requests
    }

    fn fetch(&self, numbers: &[usize], stop: &AtomicBool) -> Result<Vec<Arrived>, ExchangeError> {
        let bulk = Bulk::new(&self.running.core, &|_, _| {}, stop).map_err(|error| ExchangeError::Failed(error.to_string()))?;
        let objects: Vec<Requested> = numbers.iter().map(|number| self.objects[*number].clone()).collect();
        bulk.get(&objects)
    }

    /// Gets objects over several connections, and passes each to `arrive` in no order.
    fn fetch_all(&self, numbers: &[usize], stop: &AtomicBool, arrive: &(impl Fn(usize, Arrived) + Sync)) -> Result<(), ExchangeError> {
        let requests = self.requests(numbers);
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(numbers) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
                match self.fetch(numbers, stop) {
                    Ok(arrived) => numbers.iter().zip(arrived).for_each(|(number, object)| arrive(*number, object)),
                    Err(error) => {
                        // The others end too.
                        next.store(requests.len(), Ordering::Relaxed);
                        return Err(error);
                    }
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads = self.running.connections.clamp(1, requests.len().max(1));
            let workers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let own = work();
            let joined = workers.into_iter().map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            joined.fold(own, Result::and)
        })
    }

    /// Bytes that an object is expected to have.
    fn expected_bytes(&self, number: usize) -> usize {
        if self.empty.contains(&number) { 0 } else { usize::try_from(self.bytes_of(number)).unwrap_or(usize::MAX) }
    }

    /// Copies what arrives to its place in `out`, which is as long as all of it is expected to be.
    /// Fails with the exception of a signal handler, or with that of the whole list.
    fn read_into(&self, py: Python<'_>, numbers: &[usize], mut out: &mut [u8]) -> PyResult<Unexpected> {
        let mut places: HashMap<usize, Mutex<&mut [u8]>> = HashMap::with_capacity(numbers.len());
        for number in numbers {
            let place = out.split_off_mut(..self.expected_bytes(*number)).expect("as long as all of them");
            places.insert(*number, Mutex::new(place));
        }
        let (failed, others) = (Mutex::new(Vec::new()), Mutex::new(HashMap::new()));
        let arrive = |number: usize, object: Arrived| match object {
            Arrived::Content { version_id, content } => {
                self.version_ids.lock().expect("nothing panics while it holds this lock")[number] = version_id;
                let mut place = places[&number].lock().expect("nothing panics while it holds this lock");
                if place.len() == content.len() {
                    place.copy_from_slice(&content);
                } else if !self.empty.contains(&number) {
                    others.lock().expect("nothing panics while it holds this lock").insert(number, content);
                }
            }
            // A range beyond the end of an object is empty, as in slices of Python.
            Arrived::Failed { code, .. } if code == "InvalidRange" => {
                if self.expected_bytes(number) > 0 {
                    others.lock().expect("nothing panics while it holds this lock").insert(number, Vec::new());
                }
            }
            Arrived::Failed { code, message } => {
                failed.lock().expect("nothing panics while it holds this lock").push(Failed { number, code, message });
            }
        };
        let valid: Vec<usize> = numbers.iter().copied().filter(|number| !self.invalid.contains_key(number)).collect();
        let fetched = interruptible(py, |stop| self.fetch_all(&valid, stop, &arrive))?;
        fetched.map_err(|error| failure(&self.running.core, &error).raise(py))?;
        let held = "nothing panics while it holds this lock";
        Ok(Unexpected { failed: failed.into_inner().expect(held), others: others.into_inner().expect(held) })
    }
}

#[pymethods]
impl ServerSelection {
    fn __len__(&self) -> usize {
        self.objects.len()
    }

    #[getter]
    fn found_count(&self) -> usize {
        self.positions.iter().flatten().count()
    }

    #[getter]
    fn total_bytes(&self) -> u64 {
        self.positions.iter().flatten().fold(0, |sum, position| position.bytes.saturating_add(sum))
    }

    /// An exception for each that can't be a key. What else can't be read is known once the server
    /// was asked for it.
    fn missing<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let missing = PyDict::new(py);
        for (number, failure) in &self.invalid {
            missing.set_item(number, failure.clone().raise(py))?;
        }
        Ok(missing)
    }

    /// Identifiers of the versions that were read, in the order of the list; `None` in buckets
    /// without versions.
    fn version_ids(&self) -> Vec<Option<String>> {
        self.version_ids.lock().expect("nothing panics while it holds this lock").clone()
    }

    /// Numbers of the next items in read order, from `start` on: at least one, and as many as have
    /// at most `max_bytes`.
    fn batch(&self, start: usize, max_bytes: u64) -> Vec<usize> {
        let mut bytes = 0_u64;
        let rest = self.order.get(start..).unwrap_or_default();
        let fits = |(at, number): &(usize, &usize)| {
            bytes = bytes.saturating_add(self.bytes_of(**number));
            *at == 0 || *at < OBJECTS_MAX && bytes <= max_bytes
        };
        rest.iter().enumerate().take_while(fits).map(|(_, number)| *number).collect()
    }

    /// Reads items by their numbers.
    fn read<'py>(&self, py: Python<'py>, numbers: Vec<usize>) -> PyResult<Content<'py>> {
        if !self.running.is_own() {
            return Err(PyValueError::new_err("a list can't be read on in a child process; begin again there"));
        }
        // Before anything is fetched, so that a list that doesn't fit into memory fails at once.
        let expected = numbers.iter().fold(0_usize, |sum, number| sum.saturating_add(self.expected_bytes(*number)));
        let mut unexpected = Unexpected::default();
        let content = PyBytes::new_with(py, expected, |out| {
            unexpected = self.read_into(py, &numbers, out)?;
            Ok(())
        })?;
        let Unexpected { failed, mut others } = unexpected;
        let errors = PyDict::new(py);
        for Failed { number, code, message } in failed {
            let name = format!("{}/{}", self.running.core.bucket(), self.objects[number].key);
            let failure = Failure::new(class_of(StatusCode::OK, &code), advised(&code, &message)).of(&name);
            errors.set_item(number, failure.raise(py))?;
        }
        let length = |number: &usize| others.get(number).map_or_else(|| self.expected_bytes(*number), Vec::len);
        let (mut ends, mut end): (Vec<u8>, usize) = (0_i64.to_ne_bytes().to_vec(), 0);
        for number in &numbers {
            end += length(number);
            ends.extend((end as i64).to_ne_bytes());
        }
        let ends = PyBytes::new(py, &ends);
        if others.is_empty() {
            return Ok((content, ends, errors, 0));
        }
        let joined = PyBytes::new_with(py, end, |mut rest| {
            let mut content = content.as_bytes();
            for number in &numbers {
                let expected = content.split_off(..self.expected_bytes(*number)).expect("as long as all of them");
                let other = others.remove(number);
                let content = other.as_deref().unwrap_or(expected);
                rest.split_off_mut(..content.len()).expect("as long as all of them").copy_from_slice(content);
            }
            Ok(())
        })?;
        Ok((joined, ends, errors, 0))
    }
}
