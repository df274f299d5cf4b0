//! Block reader: finds blocks in a file that may be damaged, and restores lost ones.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Seek, SeekFrom};

use fulgurite_codec::{CauchyCode, CodeError};

use super::blocks::{BLOCK_BYTES, Block, BlockPlace, HEAD_BYTES, MAGIC, PAYLOAD_BYTES, Shape};
use crate::unreadable::read_or_zero;
use crate::v1::sealed_export::SealedExportError;

/// Bytes searched at a time.
const WINDOW_BYTES: usize = 64 << 10;

/// Yields the bytes written into a [`BlockWriter`](super::write::BlockWriter). Its own errors are
/// [`io::ErrorKind::InvalidData`] with a [`SealedExportError`] inside; read errors pass through.
/// Holds one section in memory, and the position of every block in the file.
pub(crate) struct BlockReader<R> {
    reader: R,
    head: [u8; HEAD_BYTES],
    /// Unread sections, last to first.
    sections: Vec<(u32, Section)>,
    /// Content of the current section, yielded up to `start`.
    content: Vec<u8>,
    start: usize,
    lost: u64,
}

/// Positions of a section's blocks.
struct Section {
    shape: Shape,
    bytes: u32,
    /// Keyed by block number.
    offsets: HashMap<u32, u64>,
}

/// Whether the file contains any block.
pub(crate) fn has_block(reader: &mut (impl Read + Seek)) -> io::Result<bool> {
    let mut found = false;
    search(reader, &mut |_, _| {
        found = true;
        false
    })?;
    Ok(found)
}

impl<R: Read + Seek> BlockReader<R> {
    /// Searches a whole file for blocks. Returns `Ok(Err(reader))` if it has none.
    pub(crate) fn new(mut reader: R) -> Result<Result<Self, R>, SealedExportError> {
        let mut heads: Vec<([u8; HEAD_BYTES], u64)> = Vec::new();
        let mut blocks: Vec<(usize, BlockPlace, u64)> = Vec::new();
        let length = search(&mut reader, &mut |offset, block| {
            let head = block.head();
            let index = heads.iter().position(|(known, _)| *known == head).unwrap_or_else(|| {
                heads.push((head, 0));
                heads.len() - 1
            });
            heads[index].1 += 1;
            blocks.push((index, block.place(), offset));
            // Stop: a file gets blocks of this many exports only on purpose.
            heads.len() < 1_000
        })?;
        let Some((chosen, &(head, _))) = heads.iter().enumerate().rev().max_by_key(|(_, (_, votes))| *votes) else {
            return Ok(Err(reader));
        };
        let mut by_section: BTreeMap<u32, Vec<(BlockPlace, u64)>> = BTreeMap::new();
        for (_, place, offset) in blocks.into_iter().filter(|(head, ..)| *head == chosen) {
            by_section.entry(place.section).or_default().push((place, offset));
        }
        let mut sections = Vec::with_capacity(by_section.len());
        let (mut lost, mut file_bytes) = (0, 0);
        for (expected, (number, blocks)) in (0..).zip(by_section) {
            if number != expected {
                return Err(SealedExportError::SectionLost(expected));
            }
            let (information, bytes) = most_frequent(blocks.iter().map(|(place, _)| (place.information, place.bytes)));
            let shape = Shape::new(information);
            let mut offsets = HashMap::new();
            for (place, offset) in blocks.iter().filter(|(place, _)| (place.information, place.bytes) == (information, bytes)) {
                offsets.entry(place.number).or_insert(*offset);
            }
            lost += u64::from(shape.blocks()) - offsets.len() as u64;
            file_bytes += u64::from(shape.blocks()) * BLOCK_BYTES as u64;
            sections.push((number, Section { shape, bytes, offsets }));
        }
        if lost == 0 && length != file_bytes {
            // The file has bytes that belong to no block.
            lost = 1;
        }
        sections.reverse();
        Ok(Ok(Self { reader, head, sections, content: Vec::new(), start: 0, lost }))
    }

    /// The head that every block shares.
    pub(crate) fn head(&self) -> [u8; HEAD_BYTES] {
        self.head
    }

    /// Number of damaged or missing blocks; 1 if none are, but the file has extra bytes.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Reads the next section; returns `false` after the last.
    fn next_section(&mut self) -> Result<bool, SealedExportError> {
        let Some((section, Section { shape, bytes, offsets })) = self.sections.pop() else { return Ok(false) };
        self.content.clear();
        self.content.resize(shape.information as usize * PAYLOAD_BYTES, 0);
        self.start = 0;
        for (number, payload) in (0..).zip(self.content.chunks_mut(PAYLOAD_BYTES)) {
            if let Some(&offset) = offsets.get(&number) {
                read_payload(&mut self.reader, offset, payload)?;
            }
        }
        let code = CauchyCode::new(shape.group_information as usize, shape.group_redundancy as usize).expect("within GF(2^8)");
        let zeros = [0; PAYLOAD_BYTES];
        for group in 0..shape.groups {
            let is_lost = |position: &usize| shape.block(group, *position as u32).is_some_and(|number| !offsets.contains_key(&number));
            let positions = (shape.group_information + shape.group_redundancy) as usize;
            let lost: Vec<usize> = (0..positions).filter(is_lost).collect();
            let wanted: Vec<usize> = lost.iter().copied().filter(|&position| position < shape.group_information as usize).collect();
            if wanted.is_empty() {
                continue;
            }
            let plan = match code.plan_wanted(&lost, &wanted) {
                Ok(plan) => plan,
                Err(CodeError::TooManyLost { .. }) => {
                    let (lost, redundancy) = (lost.len() as u32, shape.group_redundancy);
                    return Err(SealedExportError::Uncorrectable { section, group, lost, redundancy });
                }
                Err(error) => unreachable!("positions of the code: {error}"),
            };
            let mut sources = Vec::with_capacity(plan.sources().len());
            for &position in plan.sources() {
                let number = shape.block(group, position as u32);
                sources.push(match number {
                    None => zeros.to_vec(),
                    Some(number) => {
                        let mut payload = vec![0; PAYLOAD_BYTES];
                        read_payload(&mut self.reader, offsets[&number], &mut payload)?;
                        payload
                    }
                });
            }
            let mut restored = vec![0; wanted.len() * PAYLOAD_BYTES];
            let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
            plan.run(&sources, &mut restored.chunks_mut(PAYLOAD_BYTES).collect::<Vec<_>>());
            for (&position, payload) in wanted.iter().zip(restored.chunks(PAYLOAD_BYTES)) {
                let number = shape.block(group, position as u32).expect("lost positions are blocks") as usize;
                self.content[number * PAYLOAD_BYTES..][..PAYLOAD_BYTES].copy_from_slice(payload);
            }
        }
        self.content.truncate(bytes as usize);
        Ok(true)
    }
}

impl<R: Read + Seek> Read for BlockReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.start == self.content.len() {
            let more = self.next_section().map_err(|error| match error {
                SealedExportError::Io(error) => error,
                error => io::Error::new(io::ErrorKind::InvalidData, error),
            })?;
            if !more {
                return Ok(0);
            }
        }
        let copied = buffer.len().min(self.content.len() - self.start);
        buffer[..copied].copy_from_slice(&self.content[self.start..self.start + copied]);
        self.start += copied;
        Ok(copied)
    }
}

/// The most frequent value; the first one wins a tie.
fn most_frequent<T: Copy + Eq>(values: impl Iterator<Item = T>) -> T {
    let mut votes: Vec<(T, u64)> = Vec::new();
    for value in values {
        match votes.iter().position(|(known, _)| *known == value) {
            Some(index) => votes[index].1 += 1,
            // Bounds the work for a hostile file. Later values get no vote.
            None if votes.len() < 1_000 => votes.push((value, 1)),
            None => {}
        }
    }
    votes.iter().rev().max_by_key(|(_, votes)| *votes).expect("a section has a block").0
}

/// Passes each block of a file to `on_block`, with its offset, until that returns `false`. Returns
/// the length of the file.
fn search(reader: &mut (impl Read + Seek), on_block: &mut dyn FnMut(u64, Block<'_>) -> bool) -> io::Result<u64> {
    let length = reader.seek(SeekFrom::End(0))?;
    let mut window = vec![0; WINDOW_BYTES + BLOCK_BYTES - 1];
    let (mut start, mut at) = (0, 0);
    while start < length {
        let bytes = window.len().min(usize::try_from(length - start).unwrap_or(usize::MAX));
        let window = &mut window[..bytes];
        read_or_zero(reader, start, window)?;
        while at < WINDOW_BYTES
            && let Some(bytes) = window.get(at..at + BLOCK_BYTES)
        {
            at += match Block::parse(bytes.try_into().expect("as many bytes")) {
                Some(block) => {
                    if !on_block(start + at as u64, block) {
                        return Ok(length);
                    }
                    BLOCK_BYTES
                }
                // Skip to the next byte that may start a block.
                None => bytes[1..].iter().position(|byte| *byte == MAGIC[0]).map_or(BLOCK_BYTES, |position| position + 1),
            };
        }
        at = at.saturating_sub(WINDOW_BYTES);
        start += WINDOW_BYTES as u64;
    }
    Ok(length)
}

fn read_payload(reader: &mut (impl Read + Seek), offset: u64, payload: &mut [u8]) -> Result<(), SealedExportError> {
    let mut bytes = [0; BLOCK_BYTES];
    reader.seek(SeekFrom::Start(offset))?;
    reader.read_exact(&mut bytes)?;
    // The frame tags detect changes made since the search.
    payload.copy_from_slice(Block::parse(&bytes).ok_or_else(|| io::Error::other("the key export changed during reading"))?.payload());
    Ok(())
}
