//! Bulk gets into memory, for lists that fit there.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::atomic::AtomicBool;

use fulgurite_client::{BulkGetLine, Requested, Server, read_bulk_get};

use crate::cut_off::{Ended, Received, bulk_get};
use crate::exchange::{Exchange, ExchangeError, OnRetry};
use crate::order;
use crate::part::came_twice;

/// Maximum number of objects of one request.
pub const OBJECTS_MAX: usize = order::OBJECTS_MAX;

/// A client for bulk gets, for one thread.
pub struct Bulk<'a> {
    exchange: Exchange<'a>,
}

/// Where an object is, and how much a bulk get would send of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Sorts in the archive's read order.
    pub position: String,
    /// Bytes of its content, or of the part of it.
    pub bytes: u64,
}

/// An object that arrived, or why it didn't.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrived {
    /// Its content.
    Content {
        /// The version, if the bucket keeps versions.
        version_id: Option<String>,
        /// The content, or the part of it.
        content: Vec<u8>,
    },
    /// The server can't send it.
    Failed {
        /// S3's code, such as `NoSuchKey`.
        code: String,
        /// S3's message.
        message: String,
    },
}

impl<'a> Bulk<'a> {
    /// A client of a server. `on_retry` is called when a request is sent again; once `stop` is
    /// true, requests end soon with [`ExchangeError::Stopped`].
    ///
    /// # Errors
    /// If the runtime can't start, for example for lack of file descriptors.
    pub fn new(server: &'a Server, on_retry: &'a OnRetry<'a>, stop: &'a AtomicBool) -> io::Result<Self> {
        Ok(Self { exchange: Exchange::new(server, on_retry, stop)? })
    }

    /// Where objects are; `None` for those whose lookup failed. A [`get`](Self::get) says why.
    ///
    /// # Errors
    /// [`ExchangeError`].
    pub fn positions(&self, objects: &[Requested]) -> Result<Vec<Option<Position>>, ExchangeError> {
        let mut positions = Vec::with_capacity(objects.len());
        for piece in pieces(objects) {
            let order = order::ask(&self.exchange, piece)?;
            positions.extend(order.into_iter().map(|place| place.map(|(position, bytes)| Position { position, bytes })));
        }
        Ok(positions)
    }

    /// Gets objects, in as many requests as their number needs. The results are in the order of
    /// `objects`.
    ///
    /// # Errors
    /// [`ExchangeError`].
    pub fn get(&self, objects: &[Requested]) -> Result<Vec<Arrived>, ExchangeError> {
        let mut arrived = Vec::with_capacity(objects.len());
        for piece in pieces(objects) {
            arrived.extend(self.get_piece(piece)?);
        }
        Ok(arrived)
    }

    fn get_piece(&self, objects: &[Requested]) -> Result<Vec<Arrived>, ExchangeError> {
        let (report, mut contents) = bulk_get(&self.exchange, objects, |response| {
            let mut contents: HashMap<String, Vec<u8>> = HashMap::new();
            let (mut arriving, mut too_large) = (None, None);
            let result = read_bulk_get(&mut *response, |entry, name| {
                arriving = Some(name.clone());
                let (size, mut content) = (entry.size(), Vec::new());
                let reserved = usize::try_from(size).map(|size| content.try_reserve_exact(size));
                if !matches!(reserved, Ok(Ok(()))) {
                    too_large = Some(size);
                    return Err(io::ErrorKind::OutOfMemory.into());
                }
                entry.read_to_end(&mut content)?;
                if (content.len() as u64) < size {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                arriving = None;
                match contents.insert(name.clone(), content) {
                    None => Ok(()),
                    Some(_) => Err(came_twice(&name)),
                }
            });
            if let Some(bytes) = too_large {
                return Err(ExchangeError::Memory(bytes).into());
            }
            let report = result.map_err(|error| Ended { error: response.failed(|| error.into()), entry: arriving })?;
            let entries = contents.iter().map(|(name, content)| (name.clone(), content.len() as u64)).collect();
            Ok(Received { report, entries, content: contents })
        })?;
        // An object that is listed twice arrives once.
        let mut left: HashMap<String, usize> = HashMap::new();
        report.objects.iter().flat_map(|line| line.entry.as_ref()).for_each(|entry| *left.entry(entry.clone()).or_default() += 1);
        let arrive = |line: BulkGetLine| match (line.code, line.entry) {
            (Some(code), _) => Ok(Arrived::Failed { code, message: line.message.unwrap_or_default() }),
            (None, Some(entry)) => {
                let uses = left.get_mut(&entry).expect("counted above");
                *uses -= 1;
                let content =
                    if *uses == 0 { contents.remove(&entry) } else { contents.get(&entry).map(|content| copy_of(content)).transpose()? };
                let content = content.ok_or_else(|| ExchangeError::Malformed(format!("no entry {entry:?}")))?;
                Ok(Arrived::Content { version_id: line.version_id, content })
            }
            (None, None) => Err(ExchangeError::Malformed("a line of the report has no entry".to_owned())),
        };
        report.objects.into_iter().map(arrive).collect()
    }
}

/// A copy of content, if there is memory for it.
fn copy_of(content: &[u8]) -> Result<Vec<u8>, ExchangeError> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(content.len()).map_err(|_| ExchangeError::Memory(content.len() as u64))?;
    copy.extend_from_slice(content);
    Ok(copy)
}

/// Cuts a list into pieces that fit into a request.
fn pieces(objects: &[Requested]) -> impl Iterator<Item = &[Requested]> {
    let mut rest = objects;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |object: &&Requested| {
            bytes += order::body_bytes(object);
            bytes <= order::LIST_BYTES_MAX
        };
        let count = rest.iter().take(OBJECTS_MAX).take_while(fits).count().max(1).min(rest.len());
        let piece = rest.split_off(..count)?;
        (!piece.is_empty()).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use fulgurite_client::bulk_get_body;

    use super::*;

    #[test]
    fn pieces_fit_into_requests() {
        let lengths = |objects: &[Requested]| pieces(objects).map(<[_]>::len).collect::<Vec<_>>();
        assert_eq!(lengths(&[]), [0_usize; 0]);
        assert_eq!(lengths(&vec![Requested::new("a"); OBJECTS_MAX + 1]), [OBJECTS_MAX, 1]);
        let long = vec![Requested::new(&"x".repeat(1_024)); 5_000];
        let cut = lengths(&long);
        assert!(cut.len() == 2 && cut.iter().sum::<usize>() == 5_000, "{cut:?}");
        assert!(pieces(&long).all(|piece| bulk_get_body(piece).len() <= 16 << 20));
    }
}
