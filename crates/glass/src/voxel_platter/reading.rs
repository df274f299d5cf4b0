//! Reads the bytes of a glass platter: takes images of the voxels that its file describes, and
//! decodes them.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fulgurite_codec::{AlignedBytes, SectorCode};
use fulgurite_domain::Geometry;

use super::batch::{ATTEMPTS, Coding, Scene, SectorBatch, SectorContent, Symbols};
use super::head::{GlassHead, GlassHeadError};
use super::header_coding::Votes;
use super::layout::{Layout, UnitKind};
use super::reader::GlassReader;
use crate::PlatterSource;
use crate::decoder::Probabilities;

/// Sectors decoded for one call, at most: as many as the largest track has.
const SECTORS_PER_READ: u32 = 255;
/// Sectors of a batch, which one thread decodes. Few, so that batches for which a client waits come
/// soon; not too few, because the layers above and below them are emulated, too.
const SECTORS_PER_BATCH: u32 = 4;
/// Alignment of reads of symbols, so that they can bypass the page cache.
const BLOCK_BYTES: u64 = 4_096;

/// A written glass platter, read as bytes: headers, tracks and labels as on a disk. Lost sectors
/// read as zeros.
pub struct VoxelPlatter {
    source: Arc<dyn PlatterSource>,
    /// Length of the file.
    file_bytes: u64,
    pub(super) head: GlassHead,
    pub(super) layout: Layout,
    pub(super) code: Arc<SectorCode>,
    pub(super) reader: Arc<GlassReader>,
    /// How often sectors were read, for the noise of their images.
    reads: AtomicU32,
    cache: Mutex<Cache>,
}

/// Units that were decoded last. A caller that reads a range block by block asks for the unit at
/// the edge of two blocks twice.
#[derive(Default)]
struct Cache {
    /// Sectors by number, oldest first.
    sectors: VecDeque<(u32, Arc<[u8]>)>,
    headers: [Option<Arc<[u8]>>; 3],
}

impl VoxelPlatter {
    /// Opens a file of `file_bytes`. `None` if it is not a glass platter, or neither of its heads
    /// is good: the caller then reads the file's own bytes.
    ///
    /// # Errors
    /// Errors of the source if neither head can be read, or [`io::ErrorKind::Unsupported`] if a
    /// later program wrote the platter.
    pub fn open(source: Arc<dyn PlatterSource>, file_bytes: u64, reader: &Arc<GlassReader>) -> io::Result<Option<Self>> {
        let Some(last) = file_bytes.checked_sub(GlassHead::BYTES as u64) else { return Ok(None) };
        let mut failed = Vec::new();
        for offset in [0, last] {
            let mut block = vec![0; GlassHead::BYTES];
            if let Err(error) = read_exact_at(&*source, offset, &mut block) {
                failed.push(error);
                continue;
            }
            match GlassHead::from_block(&block) {
                Ok(head) => return Ok(Some(Self::with_head(source, file_bytes, head, reader))),
                Err(error @ GlassHeadError::Newer(_)) => return Err(io::Error::new(io::ErrorKind::Unsupported, error)),
                // The platter of a disk begins with its header, so there is no need to read its
                // end.
                Err(GlassHeadError::NotGlass) if block.starts_with(b"FULGPLAT") => return Ok(None),
                Err(_) => {}
            }
        }
        match failed.pop() {
            Some(error) if failed.len() == 1 => Err(error),
            _ => Ok(None),
        }
    }

    fn with_head(source: Arc<dyn PlatterSource>, file_bytes: u64, head: GlassHead, reader: &Arc<GlassReader>) -> Self {
        Self {
            source,
            file_bytes,
            layout: head.layout(),
            code: reader.code(&head.medium),
            head,
            reader: reader.clone(),
            reads: AtomicU32::new(0),
            cache: Mutex::default(),
        }
    }

    /// What the glass is.
    pub fn head(&self) -> &GlassHead {
        &self.head
    }

    /// Reads both heads again, and returns how many aren't as they were written.
    ///
    /// # Errors
    /// Errors of the source.
    pub fn bad_heads(&self) -> io::Result<u32> {
        let mut bad = 0;
        for offset in [0, self.head.file_bytes() - GlassHead::BYTES as u64] {
            let mut block = vec![0; GlassHead::BYTES];
            let is_good = match read_exact_at(&*self.source, offset, &mut block) {
                Ok(()) => GlassHead::from_block(&block).as_ref() == Ok(&self.head),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
                Err(error) => return Err(error),
            };
            bad += u32::from(!is_good);
        }
        Ok(bad)
    }

    /// Length of the file of symbols.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Bytes that the platter holds for the archive. Fewer if the file was cut, more if something
    /// was added to it.
    pub fn bytes(&self) -> u64 {
        let whole = self.head.file_bytes();
        match self.file_bytes.checked_sub(whole) {
            Some(more) => self.layout.bytes() + more,
            // Cut, perhaps within the last head.
            None => self.layout.bytes_of_first(self.sectors_in_file()).min(self.layout.bytes() - 1),
        }
    }

    /// Sectors of the platter that are completely in the file.
    pub(super) fn sectors_in_file(&self) -> u32 {
        let sectors = self.file_bytes.saturating_sub(GlassHead::BYTES as u64) / self.head.packed_bytes() as u64;
        sectors.min(self.layout.sectors().into()) as u32
    }

    fn cached(&self, kind: UnitKind) -> Option<Arc<[u8]>> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        match kind {
            UnitKind::Header(copy) => cache.headers[copy].clone(),
            UnitKind::Sector(sector) => cache.sectors.iter().rev().find(|(number, _)| *number == sector).map(|(_, bytes)| bytes.clone()),
        }
    }

    /// Decodes a unit and returns its bytes. If a read of `bytes` from its start also needs the
    /// sectors after it in its track, these are decoded with it.
    fn decode_unit(&self, kind: UnitKind, bytes: u64) -> io::Result<Arc<[u8]>> {
        match kind {
            UnitKind::Header(copy) => {
                let block: Arc<[u8]> = self.decode_header(copy)?.into();
                self.cache.lock().unwrap_or_else(PoisonError::into_inner).headers[copy] = Some(block.clone());
                Ok(block)
            }
            UnitKind::Sector(first) => {
                let stack = self.layout.stack(first);
                let wanted = bytes.div_ceil(self.layout.stride).min(SECTORS_PER_READ.into()) as u32;
                let end = stack.end.min(first.saturating_add(wanted)).min(self.sectors_in_file());
                // Up to the first one that is cached already.
                let end = (first + 1..end).find(|&sector| self.cached(UnitKind::Sector(sector)).is_some()).unwrap_or(end);
                let decoded = self.decode_sectors(first..end, stack)?.into_iter().map(|payload| {
                    let mut payload = payload.unwrap_or_default();
                    payload.resize(self.layout.stride as usize, 0);
                    Arc::from(payload)
                });
                let decoded: Vec<Arc<[u8]>> = decoded.collect();
                let unit = decoded[0].clone();
                let most = 2 * self.layout.track_sectors as usize;
                let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
                cache.sectors.extend((first..).zip(decoded));
                let surplus = cache.sectors.len().saturating_sub(most);
                cache.sectors.drain(..surplus);
                Ok(unit)
            }
        }
    }

    /// Decodes sectors of a stack; `None` for those that are lost.
    fn decode_sectors(&self, sectors: Range<u32>, stack: Range<u32>) -> io::Result<Vec<Option<Vec<u8>>>> {
        let read = self.reads.fetch_add(ATTEMPTS, Ordering::Relaxed);
        let payload = |content| match content {
            Some(SectorContent::Payload(payload)) => Some(payload),
            _ => None,
        };
        Ok(self.decode(sectors, stack, read, Coding::Sector)?.into_iter().map(payload).collect())
    }

    /// What the images of sectors depend on in this read.
    pub(super) fn scene(&self, read: u32, symbols: Symbols) -> Scene {
        Scene {
            head: self.head.clone(),
            code: self.code.clone(),
            decoder: self.reader.decoder,
            effects: self.reader.effects,
            read,
            symbols,
        }
    }

    /// Has sectors decoded by the service, in batches.
    fn decode(&self, sectors: Range<u32>, stack: Range<u32>, read: u32, coding: Coding) -> io::Result<Vec<Option<SectorContent>>> {
        let scene = Arc::new(self.scene(read, self.symbols(sectors.clone(), stack)?));
        let starts = sectors.clone().step_by(SECTORS_PER_BATCH as usize);
        let batch = |start: u32| SectorBatch::new(scene.clone(), start..sectors.end.min(start + SECTORS_PER_BATCH), coding);
        Ok(self.reader.service.decode(starts.map(batch).collect()).into_iter().flatten().collect())
    }

    /// Decodes a copy of the header: from its first sectors if they suffice, as they do in small
    /// sets, and then from more and more of them. Takes their images again while the checksum is
    /// wrong, and in the end returns zeros.
    fn decode_header(&self, copy: usize) -> io::Result<Vec<u8>> {
        let sectors = self.layout.header(copy);
        let end = sectors.end.min(self.sectors_in_file()).max(sectors.start);
        let sixth = sectors.len().div_ceil(6) as u32;
        let bounds = [sectors.start, sectors.start + sixth, sectors.start + 3 * sixth, end].map(|bound| bound.min(end));
        let medium = &self.head.medium;
        let first_read = self.reads.fetch_add(ATTEMPTS, Ordering::Relaxed);
        let mut votes = Votes::new();
        for read in (0..ATTEMPTS).map(|again| first_read.wrapping_add(again)) {
            for part in bounds.windows(2).map(|bounds| bounds[0]..bounds[1]).filter(|part| !part.is_empty()) {
                let seen = self.decode(part.clone(), sectors.clone(), read, Coding::Header)?.into_iter().map(|content| match content {
                    Some(SectorContent::Header(probabilities)) => Some(probabilities),
                    _ => None,
                });
                let seen: Vec<Option<Probabilities>> = seen.collect();
                votes.add(medium, part.start - sectors.start, seen.iter());
                if let Some(block) = votes.good_block() {
                    return Ok(block);
                }
            }
        }
        Ok(vec![0; Geometry::HEADER_BYTES as usize])
    }

    /// Reads the symbols of some sectors, and of their neighbors within the stack.
    pub(super) fn symbols(&self, sectors: Range<u32>, stack: Range<u32>) -> io::Result<Symbols> {
        let bytes = self.head.packed_bytes();
        let end = stack.end.min(self.sectors_in_file());
        let with_neighbors = sectors.start.saturating_sub(1).max(stack.start)..sectors.end.saturating_add(1).min(end);
        if let Ok(packed) = self.packed(with_neighbors.clone()) {
            let packed = packed.chunks_exact(bytes).map(|sector| Some(sector.to_vec())).collect();
            return Ok(Symbols { first: with_neighbors.start, packed });
        }
        // Unreadable neighbors must not cost the sectors themselves.
        let mut packed = Vec::with_capacity(with_neighbors.len());
        for sector in with_neighbors.clone() {
            match self.packed(sector..sector + 1) {
                Err(error) if sectors.contains(&sector) => return Err(error),
                read => packed.push(read.ok()),
            }
        }
        Ok(Symbols { first: with_neighbors.start, packed })
    }

    /// Reads the packed symbols of consecutive sectors.
    fn packed(&self, sectors: Range<u32>) -> io::Result<Vec<u8>> {
        let bytes = self.head.packed_bytes() as u64;
        let start = GlassHead::BYTES as u64 + u64::from(sectors.start) * bytes;
        let length = sectors.len() * bytes as usize;
        // Whole blocks in aligned memory, so that a disk can read them directly.
        let before = (start % BLOCK_BYTES) as usize;
        let mut blocks = AlignedBytes::zeroed((before + length).next_multiple_of(BLOCK_BYTES as usize), BLOCK_BYTES as usize);
        match read_fully(&*self.source, start - before as u64, &mut blocks) {
            Ok(read) if read < before + length => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            // The unreadable part may be next to these sectors.
            Err(_) => read_exact_at(&*self.source, start, &mut blocks[before..before + length])?,
        }
        Ok(blocks[before..before + length].to_vec())
    }
}

impl PlatterSource for VoxelPlatter {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let end = self.bytes().min(self.layout.bytes()).min(offset.saturating_add(buffer.len() as u64));
        let mut at = offset;
        while at < end {
            let unit = self.layout.unit_at(at).expect("within the platter");
            let bytes = match self.cached(unit.kind) {
                Some(bytes) => bytes,
                None => match self.decode_unit(unit.kind, end - unit.offset) {
                    Ok(bytes) => bytes,
                    Err(_) if at > offset => break,
                    Err(error) => return Err(error),
                },
            };
            let from = (at - unit.offset) as usize;
            let now = (unit.bytes as usize - from).min((end - at) as usize);
            buffer[(at - offset) as usize..][..now].copy_from_slice(&bytes[from..from + now]);
            at += now as u64;
        }
        Ok((at - offset) as usize)
    }
}

fn read_fully(source: &dyn PlatterSource, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match source.read_at(offset + read as u64, &mut buffer[read..]) {
            Ok(0) => break,
            Ok(bytes) => read += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

fn read_exact_at(source: &dyn PlatterSource, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    match read_fully(source, offset, buffer)? == buffer.len() {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
