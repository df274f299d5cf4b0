//! Sectors to be decoded: what is left to do when the symbols of a platter's file have been read.
//!
//! ```text
//! VoxelPlatter --SectorBatch--> DecodeService: images, decoder, code --SectorContent--> VoxelPlatter
//! ```
//!
//! A batch has everything that its images depend on, so it can be decoded by any thread at any
//! time, and as often as needed. What decides when and where is the [`DecodeService`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use fulgurite_codec::SectorCode;

use super::head::GlassHead;
use super::{header_coding, packing};
use crate::GlassMedium;
use crate::decoder::{DecoderKind, Decoders, NearestSymbol, Probabilities, VoxelDecoder};
use crate::emulator::{Frames, Neighbors, ReadEffects, SectorSeed, WrittenLayer, image, write};

/// How often a sector's images are taken before it counts as lost: noise of the camera differs each
/// time, that of the glass doesn't.
pub(super) const ATTEMPTS: u32 = 3;

/// Decides when and where sectors are decoded.
pub trait DecodeService: Send + Sync {
    /// Takes the images of all sectors and decodes them. Returns the content of the sectors of each
    /// batch, in order; `None` for a lost one.
    fn decode(&self, batches: Vec<SectorBatch>) -> Vec<Vec<Option<SectorContent>>>;
}

/// Decodes on the thread of the caller.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallersThread;

impl DecodeService for CallersThread {
    fn decode(&self, batches: Vec<SectorBatch>) -> Vec<Vec<Option<SectorContent>>> {
        let mut decoders = Decoders::default();
        batches.iter().map(|batch| batch.decode(&mut decoders)).collect()
    }
}

/// What a sector's images say.
#[derive(Debug, Clone, PartialEq)]
pub enum SectorContent {
    /// The payload; the sector's checksum was right.
    Payload(Vec<u8>),
    /// The probabilities of the two symbols that headers are written with. It takes several sectors
    /// to decode a header.
    Header(Probabilities),
}

/// How sectors are coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Sector,
    Header,
}

/// What the images of the sectors of one read depend on.
pub(super) struct Scene {
    pub(super) head: GlassHead,
    pub(super) code: Arc<SectorCode>,
    pub(super) decoder: DecoderKind,
    pub(super) effects: ReadEffects,
    /// Number of the read, for the noise of its images.
    pub(super) read: u32,
    pub(super) symbols: Symbols,
}

/// Packed symbols of consecutive sectors; `None` for those that can't be read.
pub(super) struct Symbols {
    pub(super) first: u32,
    pub(super) packed: Vec<Option<Vec<u8>>>,
}

impl Symbols {
    /// The symbols of a sector; `None` if they were not read.
    pub(super) fn of(&self, sector: u32, medium: &GlassMedium) -> Option<Vec<u8>> {
        let packed = self.packed.get(sector.checked_sub(self.first)? as usize)?.as_ref()?;
        Some(packing::unpack(packed, medium.voxels(), medium.alphabet.bits_per_voxel()))
    }
}

/// Some sectors of a platter, to be decoded together.
#[derive(Clone)]
pub struct SectorBatch {
    scene: Arc<Scene>,
    /// Ascending.
    sectors: Vec<u32>,
    coding: Coding,
}

impl SectorBatch {
    pub(super) fn new(scene: Arc<Scene>, sectors: impl IntoIterator<Item = u32>, coding: Coding) -> Self {
        Self { scene, sectors: sectors.into_iter().collect(), coding }
    }

    /// Number of sectors.
    pub fn sectors(&self) -> usize {
        self.sectors.len()
    }

    /// True if the sectors are those of a header, which has a coding of its own.
    pub fn is_header(&self) -> bool {
        self.coding == Coding::Header
    }

    /// What the sectors are written on.
    pub fn medium(&self) -> &GlassMedium {
        &self.scene.head.medium
    }

    /// The decoder that should decode them.
    pub fn decoder(&self) -> DecoderKind {
        self.scene.decoder
    }

    /// The code of the sectors.
    pub fn code(&self) -> &Arc<SectorCode> {
        &self.scene.code
    }

    /// The address of a sector, which its checksum covers.
    pub fn address(&self, index: usize) -> [u8; 20] {
        self.scene.head.address(self.sectors[index])
    }

    /// Takes images of all sectors once.
    pub fn images(&self) -> Vec<Frames> {
        self.scene.scan(&self.sectors, |_, imaging| imaging(self.scene.read))
    }

    /// Some of the sectors, by their indices.
    #[must_use]
    pub fn part(&self, indices: &[usize]) -> Self {
        let sectors = indices.iter().map(|&index| self.sectors[index]).collect();
        Self { scene: self.scene.clone(), sectors, coding: self.coding }
    }

    /// Takes the images and decodes them on this thread: sectors in up to three attempts, headers
    /// in one. An attempt in which a decoder panics fails.
    pub fn decode(&self, decoders: &mut Decoders) -> Vec<Option<SectorContent>> {
        match self.coding {
            Coding::Sector => self.decode_sectors(decoders),
            Coding::Header => self.decode_header(),
        }
    }

    fn decode_sectors(&self, decoders: &mut Decoders) -> Vec<Option<SectorContent>> {
        let mut results = self.decode_together(self.decoder(), decoders, 0);
        for attempt in 1..ATTEMPTS {
            // What one decoder can't read, the other may, so a sector isn't called lost because of
            // a setting.
            let kind = if attempt + 1 == ATTEMPTS { self.decoder().other() } else { self.decoder() };
            let lost: Vec<usize> = (0..results.len()).filter(|&index| results[index].is_none()).collect();
            if lost.is_empty() {
                break;
            }
            // One by one: a sector on which a decoder panics must not cost the others.
            for index in lost {
                results[index] = self.part(&[index]).decode_together(kind, decoders, attempt).remove(0);
            }
        }
        results
    }

    /// Takes images of all sectors, and decodes them at once. If the decoder panics, all are lost.
    fn decode_together(&self, kind: DecoderKind, decoders: &mut Decoders, attempt: u32) -> Vec<Option<SectorContent>> {
        let decoded = catch_unwind(AssertUnwindSafe(|| {
            let images = self.scene.scan(&self.sectors, |_, imaging| imaging(self.scene.read.wrapping_add(attempt)));
            let addresses: Vec<_> = (0..self.sectors()).map(|index| self.address(index)).collect();
            let sectors: Vec<_> = addresses.iter().map(|address| address.as_slice()).zip(&images).collect();
            decoders.load(kind, self.medium(), || self.code().clone()).decode_all(&sectors)
        }));
        match decoded {
            Ok(decoded) => decoded.into_iter().map(|decoded| Some(SectorContent::Payload(decoded.ok()?.payload))).collect(),
            Err(_) => {
                // What it left behind is not to be trusted.
                decoders.forget();
                (0..self.sectors()).map(|_| None).collect()
            }
        }
    }

    fn decode_header(&self) -> Vec<Option<SectorContent>> {
        let decoded = catch_unwind(AssertUnwindSafe(|| {
            // Always the classical decoder: others are trained on sectors with all symbols.
            let mut decoder: NearestSymbol = header_coding::decoder(self.medium());
            self.scene.scan(&self.sectors, |_, imaging| decoder.decode(&imaging(self.scene.read)).ok().map(SectorContent::Header))
        }));
        decoded.unwrap_or_else(|_| (0..self.sectors()).map(|_| None).collect())
    }
}

impl Scene {
    /// Moves the focus through ascending sectors, layer by layer. `decode` gets a sector's number
    /// and a function that takes its images, with the noise of a given read.
    pub(super) fn scan<T>(&self, sectors: &[u32], mut decode: impl FnMut(u32, &dyn Fn(u32) -> Frames) -> T) -> Vec<T> {
        let Self { head: GlassHead { medium, effects, seed, .. }, symbols, effects: read_effects, .. } = self;
        let seed = |sector| SectorSeed { platter: *seed, sector };
        let layer = |sector: Option<u32>| -> Option<WrittenLayer> {
            let (sector, symbols) = sector.and_then(|sector| Some((sector, symbols.of(sector, medium)?)))?;
            Some(write(&medium.alphabet, medium.columns, &symbols, effects, seed(sector)))
        };
        // The layers above, in and below the focus, kept from one sector to the next.
        let mut layers: Option<(u32, [Option<WrittenLayer>; 3])> = None;
        let mut results = Vec::with_capacity(sectors.len());
        for &sector in sectors {
            let [above, focus] = match layers.take() {
                Some((last, [_, focus, below])) if last + 1 == sector => [focus, below],
                _ => [layer(sector.checked_sub(1)), layer(Some(sector))],
            };
            let below = layer(sector.checked_add(1));
            let in_focus = focus.as_ref().expect("the symbols of all requested sectors were read");
            let imaging = |read| {
                let neighbors = Neighbors { above: above.as_ref(), below: below.as_ref() };
                image(&medium.microscope, medium.pixel_bits, in_focus, neighbors, read_effects, seed(sector), read)
            };
            results.push(decode(sector, &imaging));
            layers = Some((sector, [above, focus, below]));
        }
        results
    }
}
