//! Damages platters as much as the codes promise to tolerate, and no more.
//!
//! ```text
//! disks     damage                                         tolerated by
//! R disks   all platters on them are deleted               the platter-set, R platters
//! next      as many whole tracks as the large group has    the large group, r whole tracks;
//!             redundancy tracks, and scattered sectors       each track, R_t sectors
//! next      R_t sectors in every other track, and the first header
//! next      two sectors with swapped bytes in every track
//! next      the end of the file is cut off: the last header, and half of the last redundancy
//!             track of the last group
//! ```
//!
//! On glass, damage hits symbols: half of a sector's, where a disk loses a few bytes, because the
//! code within a sector corrects a scratch.
//!
//! With R platters gone the set's code has no redundancy left, so the other platters must be
//! repaired by their own codes.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use fulgurite_archive::Archive;
use fulgurite_archive::catalogue::{PlatterPlace, SetDescription};
use fulgurite_chance::Xorshift;
use fulgurite_domain::{Geometry, Medium, PhysicalTrack, SectorAddress};
use fulgurite_glass::GlassHead;
use serde_json::json;

use crate::text::{bytes, count};

#[derive(Debug, Default)]
pub(crate) struct DamagedPlatter {
    store: String,
    platter: String,
    carries_information: bool,
    deleted: bool,
    whole_tracks: Vec<u32>,
    scattered_sectors: u64,
    scattered_tracks: u64,
    exchanged_sectors: u64,
    bad_headers: u64,
    cut_bytes: u64,
}

pub(crate) fn destroy(archive: &Archive, sets: &[SetDescription]) -> Result<Vec<DamagedPlatter>> {
    let mut damaged_platters = Vec::new();
    let Some(first) = sets.first() else { return Ok(damaged_platters) };
    // No set has more platters on these stores than it has redundancy platters.
    let deleted_stores: Vec<&str> = first.platters.iter().take(first.shape.redundancy.into()).map(|place| &place.store[..]).collect();
    let mut noise = Xorshift::star(0xdead);
    for set in sets {
        let mut survivors = 0;
        for (position, place) in set.platters.iter().enumerate() {
            let mut damaged = DamagedPlatter {
                store: place.store.clone(),
                platter: place.platter.to_string(),
                carries_information: position < usize::from(set.shape.information),
                deleted: deleted_stores.contains(&&place.store[..]),
                ..DamagedPlatter::default()
            };
            let path = platter_file(archive, place);
            let done = if damaged.deleted {
                std::fs::remove_file(&path)
            } else {
                survivors += 1;
                OpenOptions::new().read(true).write(true).open(&path).and_then(|file| {
                    let places = Places::find(&file, set)?;
                    let mut knife = Knife { file, geometry: set.geometry, places, noise: &mut noise, damaged: &mut damaged };
                    match survivors {
                        1 => knife.whole_tracks().and_then(|()| knife.scatter(3)),
                        2 => knife.first_header().and_then(|()| knife.scatter(2)),
                        3 => knife.exchange(),
                        4 => knife.cut(),
                        _ => Ok(()),
                    }
                })
            };
            done.with_context(|| path.display().to_string())?;
            damaged_platters.push(damaged);
        }
    }
    Ok(damaged_platters)
}

pub(crate) fn platter_file(archive: &Archive, place: &PlatterPlace) -> PathBuf {
    archive.home().join(&place.store).join("platters").join(format!("{}.platter", place.platter))
}

/// Where a platter's file has its sectors and headers.
enum Places {
    Disk(Geometry),
    Glass(Box<GlassHead>),
}

impl Places {
    fn find(file: &File, set: &SetDescription) -> io::Result<Self> {
        if set.medium == Medium::Disk {
            return Ok(Self::Disk(set.geometry));
        }
        let mut block = vec![0; GlassHead::BYTES];
        file.read_exact_at(&mut block, 0)?;
        let head = GlassHead::from_block(&block).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(Self::Glass(Box::new(head)))
    }

    fn sector(&self, at: SectorAddress) -> Range<u64> {
        match self {
            Self::Disk(geometry) => {
                let start = geometry.sector_offset(at);
                start..start + geometry.sector_stride() as u64
            }
            Self::Glass(head) => head.sector_in_file(at).expect("a sector of the set's geometry"),
        }
    }

    /// Number of bytes to overwrite so that a sector is lost.
    fn fatal_bytes(&self) -> usize {
        match self {
            Self::Disk(_) => 24,
            Self::Glass(_) => {
                let sector = self.sector(SectorAddress { track: PhysicalTrack(0), sector: 0 });
                (sector.end - sector.start) as usize / 2
            }
        }
    }

    /// Bytes to overwrite so that the first header is lost.
    fn first_header(&self) -> Range<u64> {
        match self {
            Self::Disk(_) => 0..512,
            Self::Glass(head) => head.header_in_file(0),
        }
    }

    /// Where the last header begins, and the length of the file.
    fn end(&self) -> Range<u64> {
        match self {
            Self::Disk(geometry) => geometry.header_offsets()[2]..geometry.file_bytes(),
            Self::Glass(head) => head.header_in_file(2).start..head.file_bytes(),
        }
    }
}

struct Knife<'a> {
    file: File,
    geometry: Geometry,
    places: Places,
    noise: &'a mut Xorshift,
    damaged: &'a mut DamagedPlatter,
}

impl Knife<'_> {
    /// Where the file has a track: its sectors follow each other on all media.
    fn track(&self, track: PhysicalTrack) -> Range<u64> {
        let sector = |sector| self.places.sector(SectorAddress { track, sector });
        sector(0).start..sector(self.geometry.track_sectors() - 1).end
    }

    /// Overwrites as many information tracks of each large group as it has redundancy tracks.
    fn whole_tracks(&mut self) -> std::io::Result<()> {
        let places = self.track(PhysicalTrack(0));
        let mut bytes = vec![0; (places.end - places.start) as usize];
        for group in (0..self.geometry.groups()).map(|index| self.geometry.group(index)) {
            for nth in 0..group.redundancy {
                // Spread evenly.
                let track = PhysicalTrack(group.physical.0 + (2 * nth + 1) * group.information / (2 * group.redundancy));
                self.noise.fill(&mut bytes);
                self.file.write_all_at(&bytes, self.track(track).start)?;
                self.damaged.whole_tracks.push(track.0);
            }
        }
        Ok(())
    }

    /// Overwrites, in every `step`th track, as many sectors as the track's code tolerates.
    fn scatter(&mut self, step: usize) -> std::io::Result<()> {
        let mut sectors: Vec<u16> = (0..self.geometry.track_sectors()).collect();
        for track in (0..self.geometry.physical_tracks()).step_by(step) {
            if self.damaged.whole_tracks.contains(&track) {
                continue;
            }
            for nth in 0..usize::from(self.geometry.track_redundancy) {
                let other = nth + self.noise.below(sectors.len() - nth);
                sectors.swap(nth, other);
                let mut bytes = vec![0; self.places.fatal_bytes()];
                self.noise.fill(&mut bytes);
                let sector = self.places.sector(SectorAddress { track: PhysicalTrack(track), sector: sectors[nth] });
                let within = self.noise.below((sector.end - sector.start) as usize - bytes.len()) as u64;
                self.file.write_all_at(&bytes, sector.start + within)?;
                self.damaged.scattered_sectors += 1;
            }
            self.damaged.scattered_tracks += 1;
        }
        Ok(())
    }

    /// Swaps the bytes of two sectors in every track, as if a disk read from the wrong place.
    fn exchange(&mut self) -> std::io::Result<()> {
        let sector = self.places.sector(SectorAddress { track: PhysicalTrack(0), sector: 0 });
        let (mut one, mut other) = (vec![0; (sector.end - sector.start) as usize], vec![0; (sector.end - sector.start) as usize]);
        for track in (0..self.geometry.physical_tracks()).map(PhysicalTrack) {
            let sector = self.noise.below(usize::from(self.geometry.track_sectors()) - 1) as u16;
            let at = [sector, sector + 1].map(|sector| self.places.sector(SectorAddress { track, sector }).start);
            self.file.read_exact_at(&mut one, at[0])?;
            self.file.read_exact_at(&mut other, at[1])?;
            self.file.write_all_at(&other, at[0])?;
            self.file.write_all_at(&one, at[1])?;
            self.damaged.exchanged_sectors += 2;
        }
        Ok(())
    }

    fn first_header(&mut self) -> std::io::Result<()> {
        self.damaged.bad_headers += 1;
        let header = self.places.first_header();
        self.file.write_all_at(&vec![0; (header.end - header.start) as usize], header.start)
    }

    fn cut(&mut self) -> std::io::Result<()> {
        let (end, track) = (self.places.end(), self.track(PhysicalTrack(0)));
        let keep = end.start - (track.end - track.start) / 2;
        self.damaged.bad_headers += 1;
        self.damaged.cut_bytes = end.end - keep;
        self.file.set_len(keep)
    }
}

impl fmt::Display for DamagedPlatter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = if self.carries_information { "information" } else { "redundancy" };
        write!(f, "{}  {} platter {}…: ", self.store, role, &self.platter[..8])?;
        let mut parts = Vec::new();
        if self.deleted {
            parts.push("deleted".to_owned());
        }
        if !self.whole_tracks.is_empty() {
            parts.push(count(self.whole_tracks.len() as u64, "whole track"));
        }
        if self.scattered_sectors > 0 {
            let tracks = count(self.scattered_tracks, "track");
            parts.push(format!("{} in {tracks}", count(self.scattered_sectors, "sector")));
        }
        if self.exchanged_sectors > 0 {
            parts.push(format!("{} swapped with their neighbours", count(self.exchanged_sectors, "sector")));
        }
        if self.cut_bytes > 0 {
            parts.push(format!("the last {} cut off, with a header", bytes(self.cut_bytes)));
        } else if self.bad_headers > 0 {
            parts.push("the first header".to_owned());
        }
        if parts.is_empty() {
            parts.push("nothing".to_owned());
        }
        f.write_str(&parts.join(", "))
    }
}

impl DamagedPlatter {
    pub(crate) fn to_json(&self) -> serde_json::Value {
        json!({
            "store": self.store, "platter": self.platter, "carries_information": self.carries_information, "deleted": self.deleted,
            "whole_tracks": self.whole_tracks, "scattered_sectors": self.scattered_sectors, "exchanged_sectors": self.exchanged_sectors,
            "bad_headers": self.bad_headers, "cut_bytes": self.cut_bytes,
        })
    }
}
