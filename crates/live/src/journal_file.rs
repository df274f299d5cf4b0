//! A journal in a file, written by a thread of its own, so that the library never waits for it.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fulgurite_domain::Micros;
use fulgurite_journal::{Fact, Header, JournalWriter};

/// Facts that may wait for the journal's disk: twenty seconds of a library with 3 requests a second
/// at 100 times real time.
const FACTS_WAITING: usize = 1 << 16;
/// How long a fact may wait before it is handed to the system.
const FLUSHED_AFTER: Duration = Duration::from_secs(1);

/// Where a journal is written.
#[derive(Debug, Clone)]
pub struct JournalSettings {
    /// The file; it must not exist.
    pub path: PathBuf,
    /// The journal ends with the input that makes it longer than this.
    pub bytes_max: u64,
}

/// Why a journal ends before its library.
#[derive(Debug, thiserror::Error)]
pub enum JournalEnd {
    /// It has reached its greatest length. It is complete up to then.
    #[error("it has reached its greatest length")]
    Full,
    /// It can't be written.
    #[error(transparent)]
    Failed(#[from] io::Error),
}

pub(crate) struct JournalFile {
    facts: SyncSender<Entry>,
    is_full: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<()>>,
}

enum Entry {
    Fact(Fact),
    End(Micros),
}

impl JournalFile {
    /// Creates the file and starts the thread.
    ///
    /// # Errors
    /// If that fails. A file that was begun is removed.
    pub(crate) fn create(settings: JournalSettings, header: &Header) -> io::Result<Self> {
        let JournalSettings { path, bytes_max } = settings;
        let file = File::create_new(&path)?;
        // A file without a header isn't a journal, even if the process is killed at once.
        let begun = JournalWriter::new(file, header).and_then(|mut writer| writer.flush().map(|()| writer));
        let writer = begun.inspect_err(|_| drop(std::fs::remove_file(&path)))?;
        let (facts, received) = sync_channel(FACTS_WAITING);
        let is_full = Arc::new(AtomicBool::new(false));
        let full = is_full.clone();
        let write = move || write(writer, bytes_max, &received, &full);
        let thread = std::thread::Builder::new().name("journal".to_owned()).spawn(write);
        let thread = thread.inspect_err(|_| drop(std::fs::remove_file(&path)))?;
        Ok(Self { facts, is_full, thread })
    }

    /// Adds a fact.
    ///
    /// # Errors
    /// [`JournalEnd`] if the journal takes no more.
    pub(crate) fn add(&self, fact: Fact) -> Result<(), JournalEnd> {
        if self.is_full.load(Ordering::Acquire) {
            return Err(JournalEnd::Full);
        }
        self.facts.try_send(Entry::Fact(fact)).map_err(|error| match error {
            TrySendError::Full(_) => io::Error::other("its disk is slower than the library").into(),
            TrySendError::Disconnected(_) if self.is_full.load(Ordering::Acquire) => JournalEnd::Full,
            TrySendError::Disconnected(_) => io::Error::other("it can't be written; is its disk full?").into(),
        })
    }

    /// Ends the journal, and waits until it is on disk.
    ///
    /// # Errors
    /// If it couldn't be written.
    pub(crate) fn finish(self, now: Micros) -> io::Result<()> {
        // If the thread has ended, its result says why.
        let _ = self.facts.send(Entry::End(now));
        drop(self.facts);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("its thread panicked")))
    }
}

fn write(mut writer: JournalWriter<File>, bytes_max: u64, facts: &Receiver<Entry>, full: &AtomicBool) -> io::Result<()> {
    let mut flushed = Instant::now();
    loop {
        match facts.recv_timeout(FLUSHED_AFTER) {
            // The outputs of the last input are complete.
            Ok(Entry::Fact(fact)) if fact.instant().is_some() && writer.bytes() > bytes_max => {
                full.store(true, Ordering::Release);
                return writer.finish(Micros::ZERO)?.sync_all();
            }
            Ok(Entry::Fact(fact)) => writer.add(&fact),
            Ok(Entry::End(now)) => return writer.finish(now)?.sync_all(),
            Err(RecvTimeoutError::Timeout) => {}
            // The library's thread has panicked: the journal has no end.
            Err(RecvTimeoutError::Disconnected) => return writer.flush(),
        }
        if flushed.elapsed() >= FLUSHED_AFTER {
            writer.flush()?;
            flushed = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use fulgurite_journal::{Detail, JournalReader, Subject};
    use fulgurite_library::{Command, Event, Library, Outcome, RequestId};

    use super::*;

    #[test]
    fn a_full_journal_is_complete_up_to_its_last_input() {
        let path = std::env::temp_dir().join(format!("fulgurite-journal-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let header = Header::new(Subject::Library, "nothing".to_owned(), 1, Detail::Commands);
        let journal = JournalFile::create(JournalSettings { path: path.clone(), bytes_max: 1_000 }, &header).expect("the file is new");
        let input = Fact::Happened { now: Micros(7), library: Library(0), event: Event::Woken };
        let output = Fact::Commanded { library: Library(0), command: Command::Finish { request: RequestId(3), outcome: Outcome::Read } };
        let why = loop {
            let added = [&input, &output, &output].map(|fact| journal.add(fact.clone()));
            if let Some(why) = added.into_iter().find_map(Result::err) {
                break why;
            }
            std::thread::yield_now();
        };
        assert!(matches!(why, JournalEnd::Full), "{why}");
        journal.finish(Micros(9)).expect("it was written");
        let file = BufReader::new(File::open(&path).expect("it is there"));
        let facts: Result<Vec<_>, _> = JournalReader::new(file).expect("a header").collect();
        let facts: Vec<Fact> = facts.expect("it is complete").into_iter().map(|(_, fact)| fact).collect();
        std::fs::remove_file(&path).expect("it is there");
        let (end, facts) = facts.split_last().expect("it has an end");
        assert!(matches!(end, Fact::End { now: Micros(7), .. }), "{end:?}");
        assert!(facts.chunks(3).all(|chunk| *chunk == [input.clone(), output.clone(), output.clone()]), "{facts:?}");
        let bytes: usize = facts.iter().map(|fact| fact.to_string().len() + 11).sum();
        assert!((1_000..1_200).contains(&bytes), "{bytes}");
    }
}
