//! What is loaded: an S3 server, or a folder of files as the baseline.

use std::path::PathBuf;
use std::sync::Arc;

use fulgurite_client::Server;

use crate::connection::Connection;
use crate::files::Files;
use crate::objects::{Objects, Task};
use crate::process::Process;

/// Why a target can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The bucket can't be used.
    #[error("{endpoint}: bucket `{bucket}` can't be created: {why}")]
    Bucket {
        /// The server.
        endpoint: String,
        /// The bucket.
        bucket: String,
        /// The answer.
        why: String,
    },
    /// An object that the load needs can't be put.
    #[error("{target}: object {number} of {of} that the load needs can't be put: {why}")]
    Prepare {
        /// The target.
        target: String,
        /// The object.
        number: u64,
        /// Number of objects that the load needs.
        of: u64,
        /// The error.
        why: String,
    },
    /// The folder can't be used.
    #[error("{}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

/// A target with its name in results.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Where objects are put.
    pub place: Place,
}

/// Where objects are put.
#[derive(Debug, Clone)]
pub enum Place {
    /// An S3 server.
    Server(Arc<Server>),
    /// A folder: each object is a file that is written to a temporary name, synced and renamed, and
    /// its folder is synced. What a careful program does without a server.
    Files(PathBuf),
}

impl Target {
    /// The process that serves it on this machine.
    pub(crate) fn process(&self) -> Option<Process> {
        match &self.place {
            Place::Server(server) => server.local_port().and_then(Process::of_port),
            Place::Files(_) => None,
        }
    }

    /// Whether its clients block their threads.
    pub(crate) fn blocks(&self) -> bool {
        matches!(self.place, Place::Files(_))
    }

    pub(crate) fn client(&self) -> Client {
        match &self.place {
            Place::Server(server) => Client::Connection(Box::new(Connection::new(server.clone()))),
            Place::Files(folder) => Client::Files(Files::new(folder.clone())),
        }
    }
}

/// A client of a target.
pub(crate) enum Client {
    Connection(Box<Connection>),
    Files(Files),
}

/// What an operation did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// Objects that it put, read or deleted.
    pub(crate) objects: u64,
    /// Bytes of their content.
    pub(crate) bytes: u64,
    /// Of a bulk put: the kinds of failure of the other objects.
    pub(crate) failures: Vec<String>,
}

impl Done {
    pub(crate) fn one(bytes: u64) -> Self {
        Self { objects: 1, bytes, failures: Vec::new() }
    }
}

impl Client {
    /// Carries out an operation. Returns what it did, or the kind of its failure.
    pub(crate) async fn perform(&mut self, task: &Task, objects: &Objects) -> Result<Done, String> {
        match self {
            Self::Connection(connection) if task.objects > 1 => connection.bulk_put(task, objects).await,
            Self::Connection(connection) => {
                let key = objects.key(task.content.number);
                connection.perform(task, &key, objects.storage_class()).await.map(Done::one)
            }
            Self::Files(files) => {
                let mut done = Done::default();
                for number in task.content.number..task.content.number + task.objects {
                    let content = if task.objects > 1 { objects.first(number) } else { task.content };
                    let one = Task { operation: task.operation, content, objects: 1 };
                    match files.perform(&one, &objects.key(number)) {
                        Ok(bytes) => {
                            done.bytes += bytes;
                            done.objects += 1;
                        }
                        Err(error) => done.failures.push(error.to_string()),
                    }
                }
                Ok(done)
            }
        }
    }
}
