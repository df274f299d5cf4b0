//! A client of an S3 server: one connection, one request at a time.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use fulgurite_client::{BulkPut, CLOSED, ENTRY_BYTES_MAX, Failure, Server, failure_of, next_frame, read_bulk_put, read_refusal};
use http::{Method, StatusCode};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::SendRequest;

use crate::Operation;
use crate::content::{Checker, Content, PIECE};
use crate::objects::{Objects, Task};
use crate::target::Done;

/// A connection to a server. It is made anew after a failure.
pub(crate) struct Connection {
    server: Arc<Server>,
    sender: Option<SendRequest<Upload>>,
}

impl Connection {
    pub(crate) fn new(server: Arc<Server>) -> Self {
        Self { server, sender: None }
    }

    pub(crate) async fn perform(&mut self, task: &Task, key: &str, class: Option<&str>) -> Result<u64, Failure> {
        let content = task.content;
        let path = format!("/{}/{key}", self.server.bucket());
        match task.operation {
            Operation::Ingest | Operation::Update => {
                self.exchange(Method::PUT, &path, Some(content), class, None).await?;
                Ok(content.bytes)
            }
            Operation::Access => {
                let mut checker = Checker::new(content.number, content.bytes);
                self.exchange(Method::GET, &path, None, None, Some(&mut checker)).await?;
                if checker.is_complete() { Ok(content.bytes) } else { Err("wrong bytes".to_owned()) }
            }
            Operation::Delete => {
                self.exchange(Method::DELETE, &path, None, None, None).await?;
                Ok(0)
            }
        }
    }

    /// Puts new objects with consecutive numbers, with one request.
    pub(crate) async fn bulk_put(&mut self, task: &Task, objects: &Objects) -> Result<Done, Failure> {
        let contents: Vec<Content> =
            (task.content.number..task.content.number + task.objects).map(|number| objects.first(number)).collect();
        let mut bulk_put = BulkPut::with_capacity(contents.iter().map(|content| content.bytes as usize + ENTRY_BYTES_MAX).sum());
        contents.iter().for_each(|content| bulk_put.push(&objects.key(content.number), &[], &content.piece(0, content.bytes)));
        let (path, archive) = (self.server.bulk_put_path(), bulk_put.finish());
        let (status, body) = self.answer(&Method::POST, &path, Upload::archive(archive), objects.storage_class()).await?;
        let lines =
            if status.is_success() { read_bulk_put(body, contents.len()).await } else { Err(read_refusal(status, body).await.to_string()) };
        if lines.is_err() {
            // Unread bytes of this response would be taken for the next one.
            self.sender = None;
        }
        let mut done = Done::default();
        for (line, content) in lines?.into_iter().zip(&contents) {
            match line.code {
                None => {
                    done.objects += 1;
                    done.bytes += content.bytes;
                }
                Some(code) => done.failures.push(code),
            }
        }
        Ok(done)
    }

    /// Creates the bucket, unless it exists.
    pub(crate) async fn create_bucket(&mut self) -> Result<(), Failure> {
        let path = format!("/{}", self.server.bucket());
        match self.exchange(Method::PUT, &path, None, None, None).await {
            Err(failure) if failure.starts_with("409 ") => Ok(()),
            created => created,
        }
    }

    /// Sends a request and reads the response.
    async fn exchange(
        &mut self,
        method: Method,
        path: &str,
        upload: Option<Content>,
        class: Option<&str>,
        checker: Option<&mut Checker>,
    ) -> Result<(), Failure> {
        let (status, body) = self.answer(&method, path, Upload::content(upload), class).await?;
        let read = if status.is_success() { self.read(body, checker).await } else { Err(read_refusal(status, body).await.to_string()) };
        if read.is_err() {
            // Unread bytes of this response would be taken for the next one.
            self.sender = None;
        }
        read
    }

    /// Sends a request. If the server closes a reused connection before it answers, sends the
    /// request once more on a new one: the server may have closed it while it was idle, which isn't
    /// a failure.
    async fn answer(
        &mut self,
        method: &Method,
        path: &str,
        upload: Upload,
        class: Option<&str>,
    ) -> Result<(StatusCode, Incoming), Failure> {
        let was_used = self.sender.is_some();
        match self.send(method, path, upload.clone(), class).await {
            Err(failure) if was_used && failure == CLOSED => self.send(method, path, upload, class).await,
            answer => answer,
        }
    }

    async fn send(&mut self, method: &Method, path: &str, upload: Upload, class: Option<&str>) -> Result<(StatusCode, Incoming), Failure> {
        let class = class.map(|class| ("x-amz-storage-class", class));
        let length = matches!(*method, Method::PUT | Method::POST).then(|| upload.left());
        let request = self.server.request(method, path, class.as_slice(), length, upload).await?;
        let mut sender = match self.sender.take() {
            Some(sender) => sender,
            None => {
                let (sender, connection) = self.server.connect().await?;
                tokio::task::spawn_local(connection);
                sender
            }
        };
        sender.ready().await.map_err(|error| failure_of(&error))?;
        let response = sender.send_request(request).await.map_err(|error| failure_of(&error))?;
        self.sender = Some(sender);
        Ok((response.status(), response.into_body()))
    }

    async fn read(&mut self, mut body: Incoming, mut checker: Option<&mut Checker>) -> Result<(), Failure> {
        while let Some(frame) = next_frame(&mut body).await {
            if let (Ok(data), Some(checker)) = (frame?.into_data(), &mut checker)
                && !checker.take(&data)
            {
                return Err("wrong bytes".to_owned());
            }
        }
        match checker {
            Some(checker) if !checker.is_complete() => Err(if checker.taken() == 0 { "no content" } else { "wrong bytes" }.to_owned()),
            _ => Ok(()),
        }
    }
}

/// The body of a request: content that is made while it is sent, or the archive of a bulk put.
#[derive(Debug, Clone)]
pub(crate) struct Upload {
    content: Option<Content>,
    at: u64,
    archive: Bytes,
}

impl Upload {
    fn content(content: Option<Content>) -> Self {
        Self { content, at: 0, archive: Bytes::new() }
    }

    fn archive(archive: Bytes) -> Self {
        Self { content: None, at: 0, archive }
    }

    fn left(&self) -> u64 {
        self.content.map_or(0, |content| content.bytes - self.at) + self.archive.len() as u64
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !self.archive.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.archive)))));
        }
        let length = self.left().min(PIECE);
        let Some(content) = self.content.filter(|_| length > 0) else { return Poll::Ready(None) };
        let piece = content.piece(self.at, length);
        self.at += length;
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left())
    }
}
