//! From packets and files to stored objects, whatever they come from.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::future::join_all;
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

#[cfg(feature = "kafka")]
use crate::alert::Unreadable;
use crate::alert::{Alerts, Contents, Object};
use crate::pattern::checked;
use crate::sink::{Sink, SinkError, Stored};

/// What happens while a command runs.
pub trait Events: Send + Sync {
    /// It waits, for this reason. Called often.
    fn waiting(&self, why: &str);
    /// A packet or file was stored as a dead letter.
    fn rejected(&self, origin: &str, why: &str, key: &str);
    /// Something was lost, or can't be read, before it reached the command.
    fn failed(&self, origin: &str, why: &str);
}

/// Why a command ends early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IngestError {
    /// Nothing can be stored or read, and waiting wouldn't help.
    #[error("{0}")]
    Refused(String),
    /// It was stopped before this packet was stored.
    #[error("stopped")]
    Stopped,
}

/// What was done so far.
#[derive(Debug, Default)]
pub struct Counts {
    /// Alerts of which everything is stored.
    pub alerts: AtomicU64,
    /// Files stored as they are.
    pub files: AtomicU64,
    /// Objects that were stored.
    pub stored: AtomicU64,
    /// Their bytes.
    pub bytes: AtomicU64,
    /// Objects that were there already.
    pub earlier: AtomicU64,
    /// Cutouts that are null.
    pub absent: AtomicU64,
    /// Packets and files that are dead letters.
    pub rejected: AtomicU64,
    /// What couldn't be read.
    pub failed: AtomicU64,
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// What is stored, and where.
pub struct Pipeline {
    pub(crate) alerts: Alerts,
    pub(crate) sink: Arc<Sink>,
    pub(crate) dead_letters: String,
    pub(crate) events: Arc<dyn Events>,
    pub(crate) counts: Counts,
}

/// Where a packet or file comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    /// For people.
    pub(crate) name: String,
    /// Its dead letter's key, after the prefix.
    pub(crate) key: String,
    /// Metadata of the dead letter.
    pub(crate) metadata: Vec<(&'static str, String)>,
}

/// Objects of a packet that are stored at once.
const AT_ONCE: usize = 256;
/// What is left as it is in metadata.
const METADATA: &AsciiSet = &CONTROLS.add(b'%');
/// Maximum length of a value, because S3 allows 2 KB of metadata.
const VALUE_BYTES: usize = 800;
/// Maximum length of a name that had to be escaped.
const ESCAPED_BYTES: usize = 600;

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipeline").field("alerts", &self.alerts).field("sink", &self.sink).finish_non_exhaustive()
    }
}

impl Pipeline {
    /// Stores alerts in a bucket. Packets that can't be stored become objects below the prefix
    /// `dead_letters`.
    #[must_use]
    pub fn new(alerts: Alerts, sink: Arc<Sink>, dead_letters: String, events: Arc<dyn Events>) -> Self {
        Self { alerts, sink, dead_letters, events, counts: Counts::default() }
    }

    /// What was done so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Stores a packet of alerts, or else its dead letter.
    #[cfg(feature = "kafka")]
    pub(crate) async fn store_packet(&self, packet: &Bytes, origin: &Origin) -> Result<(), IngestError> {
        let mut attempts = 0;
        let contents = loop {
            let read = tokio::select! {
                read = self.alerts.read(packet) => read,
                () = self.sink.given_up() => return Err(IngestError::Stopped),
            };
            match read {
                Ok(contents) => break Ok(contents),
                Err(Unreadable::Packet(why)) => break Err(why),
                Err(Unreadable::Refused(why)) => return Err(IngestError::Refused(why)),
                Err(Unreadable::Transient(why)) => {
                    // The first attempt may have taken long already.
                    self.events.waiting(&why);
                    self.sink.pause(attempts, &why).await.map_err(ended)?;
                }
            }
            attempts += 1;
        };
        self.store_contents(contents, packet, origin).await
    }

    /// Stores all alerts of a container file, or else its dead letter.
    pub(crate) async fn store_container(&self, packet: &Bytes, origin: &Origin) -> Result<(), IngestError> {
        self.store_contents(self.alerts.read_container(packet).await, packet, origin).await
    }

    /// Stores a file as it is, or else its dead letter.
    pub(crate) async fn store_file(&self, key: Result<String, String>, content: &Bytes, origin: &Origin) -> Result<(), IngestError> {
        let object = key.map(|key| Object { key, content: content.clone(), metadata: Vec::new() });
        let stored = match object {
            Ok(object) => self.store(&object).await?,
            Err(why) => Err(why),
        };
        match stored {
            Ok(()) => add(&self.counts.files, 1),
            Err(why) => self.reject(content, origin, &why).await?,
        }
        Ok(())
    }

    async fn store_contents(&self, contents: Result<Contents, String>, packet: &Bytes, origin: &Origin) -> Result<(), IngestError> {
        let contents = match contents {
            Ok(contents) => contents,
            Err(why) => return self.reject(packet, origin, &why).await,
        };
        let mut why = None;
        for objects in contents.objects.chunks(AT_ONCE) {
            for stored in join_all(objects.iter().map(|object| self.store(object))).await {
                why = why.or(stored?.err());
            }
        }
        match why {
            Some(why) => self.reject(packet, origin, &why).await?,
            None => {
                add(&self.counts.alerts, contents.alerts);
                add(&self.counts.absent, contents.absent);
            }
        }
        Ok(())
    }

    /// Stores an object. The inner error says why it can't be stored.
    async fn store(&self, object: &Object) -> Result<Result<(), String>, IngestError> {
        match self.sink.store(object).await {
            Ok(Stored::Now) => {
                add(&self.counts.stored, 1);
                add(&self.counts.bytes, object.content.len() as u64);
            }
            Ok(Stored::Earlier) => add(&self.counts.earlier, 1),
            Err(SinkError::Object(why)) => return Ok(Err(why)),
            Err(error) => return Err(ended(error)),
        }
        Ok(Ok(()))
    }

    /// Stores a dead letter. Its name contains a checksum, because a topic that was deleted and
    /// made again counts from 0.
    async fn reject(&self, packet: &Bytes, origin: &Origin, why: &str) -> Result<(), IngestError> {
        let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, packet);
        let key = checked(format!("{}{}-{sum:08x}", self.dead_letters, origin.key)).or_else(|_| {
            // Its name can't be part of a key.
            let mut escaped = utf8_percent_encode(&origin.key, NON_ALPHANUMERIC).to_string();
            escaped.truncate(ESCAPED_BYTES);
            checked(format!("{}{escaped}-{sum:08x}", self.dead_letters))
        });
        let key = key.map_err(|error| IngestError::Refused(format!("no dead letter for {}: {error}", origin.name)))?;
        let mut metadata = vec![("reason", header_value(why))];
        metadata.extend(origin.metadata.iter().map(|(name, value)| (*name, header_value(value))));
        match self.sink.store(&Object { key: key.clone(), content: packet.clone(), metadata }).await {
            Ok(_) => {}
            Err(SinkError::Object(error)) => return Err(IngestError::Refused(format!("no dead letter for {}: {error}", origin.name))),
            Err(error) => return Err(ended(error)),
        }
        add(&self.counts.rejected, 1);
        self.events.rejected(&origin.name, why, &key);
        Ok(())
    }
}

/// Text as the value of a header, in ASCII. Spaces at the ends and several in a row don't survive
/// headers and signatures, so they are escaped.
fn header_value(text: &str) -> String {
    let mut value = String::new();
    let mut characters = utf8_percent_encode(text, METADATA).flat_map(str::chars).peekable();
    while let Some(character) = characters.next() {
        let is_plain = character != ' ' || !value.is_empty() && !value.ends_with(' ') && characters.peek().is_some();
        let length = if is_plain { 1 } else { 3 };
        if value.len() + length > VALUE_BYTES {
            break;
        }
        if is_plain { value.push(character) } else { value.push_str("%20") }
    }
    value.truncate(value.trim_end_matches(' ').len());
    value
}

fn ended(error: SinkError) -> IngestError {
    match error {
        SinkError::Stopped => IngestError::Stopped,
        SinkError::Object(why) | SinkError::Refused(why) => IngestError::Refused(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_headers_keep_their_spaces() {
        assert_eq!(header_value("a b"), "a b");
        assert_eq!(header_value(" a  b   c "), "%20a %20b %20 c%20");
        assert_eq!(header_value("ü\n%"), "%C3%BC%0A%25");
        assert_eq!(header_value(&" x".repeat(1000)).len(), VALUE_BYTES);
    }
}
