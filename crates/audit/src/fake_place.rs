//! A place for tests: files in memory, with faults by script.

use std::collections::{BTreeMap, VecDeque};
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fulgurite_digest::Digest;
use fulgurite_places::{Cause, Connection, Listed, Place, Refusal, StatedDigest, Statement};

/// What the next reading of a file does instead of returning its content.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// Refuses.
    Refuse(Cause),
    /// Returns this instead.
    Content(Vec<u8>),
    /// Passes half of the content, then reports the cut.
    CutHalf,
    /// Claims to have passed all of the content, after half of it.
    LieHalf,
    /// Panics.
    Panic,
}

#[derive(Default)]
struct Files {
    content: BTreeMap<String, Vec<u8>>,
    /// Faults of coming readings, by file; used up in order.
    faults: BTreeMap<String, VecDeque<Fault>>,
    /// Applies to each request while set.
    down: Option<Cause>,
    /// What each request is answered with while set, whatever it asks for.
    page: Option<Vec<u8>>,
    /// Lengths that the place states, where they differ from the content's.
    stated: BTreeMap<String, u64>,
    /// Digests that the place states.
    digests: BTreeMap<String, Vec<StatedDigest>>,
}

#[derive(Clone, Default)]
pub(crate) struct FakePlace {
    files: Arc<Mutex<Files>>,
    pub(crate) connections: Arc<AtomicU64>,
    pub(crate) readings: Arc<AtomicU64>,
}

impl FakePlace {
    pub(crate) fn put(&self, name: &str, content: &[u8]) {
        self.change(|files| files.content.insert(name.into(), content.into()));
    }

    pub(crate) fn delete(&self, name: &str) {
        self.change(|files| files.content.remove(name));
    }

    pub(crate) fn clear(&self) {
        self.change(|files| files.content.clear());
    }

    pub(crate) fn fault(&self, name: &str, fault: Fault) {
        self.change(|files| files.faults.entry(name.into()).or_default().push_back(fault));
    }

    pub(crate) fn set_down(&self, cause: Option<Cause>) {
        self.change(|files| files.down = cause);
    }

    pub(crate) fn answer_all_with(&self, page: &[u8]) {
        self.change(|files| files.page = Some(page.into()));
    }

    pub(crate) fn state_length(&self, name: &str, bytes: u64) {
        self.change(|files| files.stated.insert(name.into(), bytes));
    }

    pub(crate) fn state_digest(&self, name: &str, digest: Digest, is_certain: bool) {
        self.change(|files| files.digests.entry(name.into()).or_default().push(StatedDigest { digest, is_certain }));
    }

    fn change<T>(&self, change: impl FnOnce(&mut Files) -> T) -> T {
        change(&mut self.files.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

impl Place for FakePlace {
    fn connect(&self) -> Result<Box<dyn Connection>, Refusal> {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(self.clone()))
    }

    fn describe(&self) -> String {
        "a fake place".into()
    }
}

fn down(files: &Files) -> Result<(), Refusal> {
    files.down.map_or(Ok(()), |cause| Err(Refusal::new(cause, "")))
}

impl Connection for FakePlace {
    fn length(&mut self, location: &str) -> Result<u64, Refusal> {
        self.change(|files| {
            down(files)?;
            let content = files.page.as_ref().or(files.content.get(location)).ok_or(Refusal::new(Cause::Missing, ""))?;
            Ok(files.stated.get(location).copied().unwrap_or(content.len() as u64))
        })
    }

    fn stated(&mut self, location: &str) -> Result<Statement, Refusal> {
        let bytes = self.length(location)?;
        Ok(Statement { bytes, digests: self.change(|files| files.digests.get(location).cloned().unwrap_or_default()) })
    }

    fn read(&mut self, location: &str, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<u64, Refusal> {
        self.readings.fetch_add(1, Ordering::Relaxed);
        let (content, fault) = self.change(|files| {
            down(files)?;
            let fault = files.faults.get_mut(location).and_then(VecDeque::pop_front);
            match (files.page.as_ref().or(files.content.get(location)).cloned(), fault) {
                (_, Some(Fault::Refuse(cause))) => Err(Refusal::new(cause, "by the test")),
                (content, fault) => Ok((content, fault)),
            }
        })?;
        let content = content.ok_or(Refusal::new(Cause::Missing, ""));
        let (part, result) = match fault {
            Some(Fault::Panic) => panic!("by the test"),
            Some(Fault::Content(other)) => (other.clone(), Ok(other.len() as u64)),
            Some(Fault::CutHalf) => {
                let content = content?;
                let (received, stated) = (content.len() as u64 / 2, content.len() as u64);
                (content[..content.len() / 2].to_vec(), Err(Refusal::new(Cause::Cut { received, stated }, "")))
            }
            Some(Fault::LieHalf) => {
                let content = content?;
                (content[..content.len() / 2].to_vec(), Ok(content.len() as u64))
            }
            Some(Fault::Refuse(_)) => unreachable!("handled above"),
            None => {
                let content = content?;
                let bytes = content.len() as u64;
                (content, Ok(bytes))
            }
        };
        for piece in part.chunks(7) {
            if !sink(piece) {
                return Err(Refusal::new(Cause::Abandoned, ""));
            }
        }
        result
    }

    fn list(&mut self, each: &mut dyn FnMut(Listed) -> bool) -> Result<(), Refusal> {
        let names: Vec<(String, u64)> = self.change(|files| {
            down(files)?;
            Ok(files.content.iter().map(|(name, content)| (name.clone(), content.len() as u64)).collect())
        })?;
        for (location, bytes) in names {
            if !each(Listed::new(location, Some(bytes))) {
                break;
            }
        }
        Ok(())
    }

    fn write(&mut self, location: &str, bytes: u64, content: &mut dyn Read) -> Result<(), Refusal> {
        let mut all = Vec::new();
        content.read_to_end(&mut all).map_err(|error| Refusal::new(Cause::Fault, error.to_string()))?;
        if all.len() as u64 != bytes {
            return Err(Refusal::new(Cause::Cut { received: all.len() as u64, stated: bytes }, ""));
        }
        // A write uses up only refusals: other faults wait for readings.
        let refused = self.change(|files| {
            let faults = files.faults.get_mut(location)?;
            matches!(faults.front(), Some(Fault::Refuse(_))).then(|| faults.pop_front()).flatten()
        });
        if let Some(Fault::Refuse(cause)) = refused {
            return Err(Refusal::new(cause, "by the test"));
        }
        self.put(location, &all);
        Ok(())
    }

    fn remove(&mut self, location: &str) -> Result<(), Refusal> {
        self.delete(location);
        Ok(())
    }

    fn presigned_url(&mut self, _location: &str, _valid: Duration) -> Result<Option<String>, Refusal> {
        Ok(None)
    }
}
