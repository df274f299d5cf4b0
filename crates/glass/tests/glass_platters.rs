//! Platters of emulated glass: what was written is read back through laser, camera and decoder, and
//! damage to the symbols costs the sectors that it hits.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use fulgurite_chance::{Xorshift, noise};
use fulgurite_codec::SectorLoss;
use fulgurite_codec::checksum::crc64;
use fulgurite_domain::{Geometry, PhysicalTrack, PlatterId, SectorAddress, TrackIndex};
use fulgurite_glass::decoder::DecoderKind;
use fulgurite_glass::emulator::Preset;
use fulgurite_glass::{BlankPlatter, GlassHead, GlassReader, PlatterSource, ReadDrive, SectorTrouble, Track, VoxelPlatter, WriteDrive};

const PLATTER: PlatterId = PlatterId([9; 16]);

/// Few sectors, since each takes some milliseconds.
const GEOMETRY: Geometry = Geometry {
    sector_bytes: 4_096,
    track_information: 6,
    track_redundancy: 2,
    group_information: 3,
    group_redundancy: 1,
    information_tracks: 2,
};
/// Sectors of a copy of the header: 2 * 131,072 voxels, 10,240 in each.
const HEADER_SECTORS: usize = 26;
/// Bytes of a sector's symbols.
const PACKED: usize = 5_120;

/// A file that returns short reads, and errors in a range.
struct File(Vec<u8>, Range<u64>);

impl PlatterSource for File {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let start = (offset as usize).min(self.0.len());
        let bytes = buffer.len().min(self.0.len() - start).min(70_000);
        if offset < self.1.end && offset + bytes as u64 > self.1.start {
            return Err(io::Error::other("unreadable"));
        }
        buffer[..bytes].copy_from_slice(&self.0[start..start + bytes]);
        Ok(bytes)
    }
}

fn header() -> Vec<u8> {
    let mut header = noise(77, 900);
    header.resize(Geometry::HEADER_BYTES as usize, 0);
    header[..8].copy_from_slice(b"FULGPLAT");
    let checksum = crc64(&header[..16_376]);
    header[16_376..].copy_from_slice(&checksum.to_le_bytes());
    header
}

fn payload(track: u32, sector: u16) -> Vec<u8> {
    noise(u64::from(track) * 100 + u64::from(sector) + 1, GEOMETRY.sector_bytes as usize)
}

/// Writes the platter, and returns its bytes and the file of symbols.
fn written(preset: Preset) -> (Vec<u8>, Vec<u8>) {
    let write = |sink: &mut dyn Write| {
        let mut drive = WriteDrive::load(BlankPlatter { platter: PLATTER, geometry: GEOMETRY, header: header() }, sink, 1).expect("loaded");
        let mut track = Track::new(GEOMETRY);
        for index in 0..GEOMETRY.information_tracks {
            for sector in 0..GEOMETRY.track_information {
                track.payload_mut(sector).copy_from_slice(&payload(index, sector));
            }
            drive.write(&mut track).expect("written");
        }
        drive.finish().expect("finished");
    };
    let mut bytes = Vec::new();
    write(&mut bytes);
    let head = GlassHead::new(PLATTER, GEOMETRY, 42, preset.effects().write).expect("glass");
    let mut glass = reader(preset).writer(head.clone(), Vec::new()).expect("begun");
    write(&mut glass);
    let file = glass.finish().expect("finished");
    assert_eq!(file.len() as u64, head.file_bytes());
    assert_eq!(GlassHead::file_bytes_of(GEOMETRY), Some(head.file_bytes()));
    (bytes, file)
}

fn reader(preset: Preset) -> Arc<GlassReader> {
    Arc::new(GlassReader::new(preset.effects().read, DecoderKind::Nearest))
}

fn open_with(file: File, preset: Preset) -> Option<VoxelPlatter> {
    let length = file.0.len() as u64;
    VoxelPlatter::open(Arc::new(file), length, &reader(preset)).expect("readable")
}

fn open(file: Vec<u8>, preset: Preset) -> Option<VoxelPlatter> {
    open_with(File(file, 0..0), preset)
}

fn read(platter: &dyn PlatterSource, offset: u64, bytes: usize) -> Vec<u8> {
    let mut buffer = vec![0; bytes];
    let mut read = 0;
    while read < bytes {
        match platter.read_at(offset + read as u64, &mut buffer[read..]).expect("read") {
            0 => break,
            more => read += more,
        }
    }
    buffer.truncate(read);
    buffer
}

/// Lost sectors by physical track.
fn lost(platter: VoxelPlatter) -> Vec<Vec<u16>> {
    let drive = ReadDrive::load(PLATTER, GEOMETRY, Arc::new(platter));
    let mut track = Track::new(GEOMETRY);
    let of = |physical| {
        drive.scan(PhysicalTrack(physical), &mut track);
        (0..GEOMETRY.track_sectors()).filter(|&sector| track.is_lost(sector)).collect()
    };
    (0..GEOMETRY.physical_tracks()).map(of).collect()
}

/// Where the symbols of a sector are in the file.
fn symbols_of(track: usize, sector: usize) -> Range<usize> {
    let headers = if track < GEOMETRY.middle() as usize { 1 } else { 2 };
    let number = headers * HEADER_SECTORS + track * usize::from(GEOMETRY.track_sectors()) + sector;
    let start = GlassHead::BYTES + number * PACKED;
    start..start + PACKED
}

#[test]
fn any_part_of_a_platter_reads_back() {
    let (bytes, file) = written(Preset::Clean);
    let platter = open(file, Preset::Clean).expect("glass");
    assert_eq!(platter.bytes(), bytes.len() as u64);
    assert!(read(&platter, 0, bytes.len() + 1) == bytes);
    let stride = GEOMETRY.sector_stride();
    for (offset, length) in [(16_000, 1_000), (16_384 + 3 * stride - 1, 2 * stride), (bytes.len() - 20_000, 30_000), (5, 0)] {
        let expected = &bytes[offset..(offset + length).min(bytes.len())];
        assert!(read(&platter, offset as u64, length) == *expected, "{length} bytes at {offset}");
    }
    assert_eq!(read(&platter, bytes.len() as u64, 10), [0; 0]);
    assert_eq!(read(&platter, 1 << 62, 10), [0; 0]);
}

#[test]
fn headers_survive_all_presets() {
    for preset in [Preset::Nominal, Preset::Harsh] {
        let (bytes, file) = written(preset);
        let platter = open(file, preset).expect("glass");
        for offset in GEOMETRY.header_offsets() {
            let block = read(&platter, offset, Geometry::HEADER_BYTES as usize);
            let wrong = block.iter().zip(&bytes).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
            assert_eq!(wrong, 0, "bits of the header at {offset}, {}", preset.name());
        }
    }
}

#[test]
fn changed_symbols_cost_the_sectors_that_they_hit() {
    let (bytes, good) = written(Preset::Clean);
    // A scratch: 1,000 voxels in each of three sectors above each other, and a few in another.
    let mut file = good.clone();
    for sector in 2..5 {
        file[symbols_of(1, sector)][1_500..3_000].iter_mut().for_each(|byte| *byte ^= 0x66);
    }
    file[symbols_of(0, 3)][100..110].iter_mut().for_each(|byte| *byte ^= 0xff);
    assert_eq!(lost(open(file.clone(), Preset::Clean).expect("glass")), [vec![], vec![2, 3, 4], vec![]]);
    let drive = ReadDrive::load(PLATTER, GEOMETRY, Arc::new(open(file, Preset::Clean).expect("glass")));
    let repaired = drive.repair_group(GEOMETRY.group(0), &[TrackIndex(1)]).expect("one track");
    assert!(repaired.sectors.len() == 3 && repaired.sectors.iter().all(|rebuilt| rebuilt.payload == payload(1, rebuilt.sector)));
    // A header that has lost half of its sectors.
    let mut file = good;
    file[GlassHead::BYTES..GlassHead::BYTES + 13 * PACKED].fill(0);
    assert!(read(&open(file, Preset::Clean).expect("glass"), 0, 16_384) == bytes[..16_384]);
}

#[test]
fn sectors_that_one_decoder_loses_are_read_with_the_other() {
    let (_, file) = written(Preset::Nominal);
    let reader = Arc::new(GlassReader::new(Preset::Nominal.effects().scaled(1.2).read, DecoderKind::Nearest));
    let length = file.len() as u64;
    let platter = VoxelPlatter::open(Arc::new(File(file, 0..0)), length, &reader).expect("readable").expect("glass");
    let tracks = (0..GEOMETRY.physical_tracks()).flat_map(|track| platter.track_quality(PhysicalTrack(track)));
    let lost_to_nearest = tracks.filter(|sector| sector.as_ref().expect("readable").decoded.is_err()).count();
    let lost = lost(platter).concat().len();
    assert!(lost + 6 <= lost_to_nearest, "{lost} of {lost_to_nearest}");
}

#[test]
fn the_quality_of_sectors_is_measured_against_the_symbols_in_the_file() {
    let (bytes, mut file) = written(Preset::Clean);
    // One sector is scratched, and one has symbols of another address.
    file[symbols_of(1, 2)][1_500..4_000].iter_mut().for_each(|byte| *byte ^= 0x66);
    file.copy_within(symbols_of(0, 0), symbols_of(1, 5).start);
    let unreadable = symbols_of(2, 4).start as u64..symbols_of(2, 4).end as u64;
    let length = file.len() as u64;
    let reader = Arc::new(GlassReader::new(Preset::Nominal.effects().read, DecoderKind::Nearest));
    let platter = VoxelPlatter::open(Arc::new(File(file.clone(), unreadable)), length, &reader).expect("readable").expect("glass");
    let sector = |track, sector| SectorAddress { track: PhysicalTrack(track), sector };
    assert_eq!(platter.head().sector_in_file(sector(2, 4)), Some(symbols_of(2, 4).start as u64..symbols_of(2, 4).end as u64));
    assert_eq!((platter.head().sector_in_file(sector(0, 8)), platter.head().sector_in_file(sector(3, 0))), (None, None));
    assert_eq!(platter.head().header_in_file(0), 4_096..symbols_of(0, 0).start as u64);

    let needed = platter.head().medium.needed_information();
    for track in 0..3 {
        for (number, found) in (0..).zip(platter.track_quality(PhysicalTrack(track))) {
            let at = sector(track, number);
            if (track, number) == (2, 4) {
                assert_eq!(found.expect_err("unreadable").kind(), io::ErrorKind::Other);
                continue;
            }
            let found = found.expect("readable");
            let view = platter.sector_view(at).expect("readable");
            assert_eq!((&view.quality, view.symbols.len()), (&found, 10_240));
            assert!(found.bit_errors > 0 && found.symbol_errors > 0 && found.information > needed && found.information < 1.0, "{found:?}");
            let likeliest = view.probabilities.expect("there are voxels").likeliest();
            assert_eq!(likeliest.iter().zip(&view.symbols).filter(|(got, written)| got != written).count(), found.symbol_errors);
            match (track, number) {
                // The changed symbols are read well, but aren't those of the sector.
                (1, 2 | 5) => {
                    assert!(found.attempts == 3 && found.decoded.is_err() && view.payload.is_none(), "{at:?}: {found:?}");
                }
                _ => {
                    let correction = found.decoded.expect("good");
                    assert_eq!((found.attempts, correction.bits as usize), (1, found.bit_errors));
                    let offset = GEOMETRY.sector_offset(at) as usize;
                    let payload = view.payload.expect("good");
                    assert!(payload.starts_with(&bytes[offset..offset + GEOMETRY.sector_stride()]));
                }
            }
        }
    }
    let swapped = platter.sector_view(sector(1, 5)).expect("readable").quality.decoded;
    assert_eq!(swapped, Err(SectorTrouble::Code(SectorLoss::Checksum)));
    // The file ends within a sector.
    file.truncate(symbols_of(2, 6).end - 1);
    let cut = open(file, Preset::Clean).expect("glass").track_quality(PhysicalTrack(2));
    let kinds: Vec<_> = cut.iter().map(|found| found.as_ref().err().map(io::Error::kind)).collect();
    let ended = Some(io::ErrorKind::UnexpectedEof);
    assert_eq!(kinds, [None, None, None, None, None, None, ended, ended]);
}

#[test]
fn a_file_without_its_end_or_its_heads_is_as_damaged_as_it_is() {
    let (bytes, good) = written(Preset::Clean);
    let mut cut = good.clone();
    cut.truncate(symbols_of(2, 3).start + 100);
    let platter = open(cut, Preset::Clean).expect("the first head is there");
    assert_eq!(platter.bytes(), GEOMETRY.track_offset(PhysicalTrack(2)) + 3 * GEOMETRY.sector_stride() as u64);
    assert_eq!(lost(platter), [vec![], vec![], vec![3, 4, 5, 6, 7]]);
    let mut file = good.clone();
    file.truncate(good.len() - 1);
    assert_eq!(open(file.clone(), Preset::Clean).expect("glass").bytes(), bytes.len() as u64 - 1);
    file.resize(good.len() + 7, 0);
    assert_eq!(open(file, Preset::Clean).expect("glass").bytes(), bytes.len() as u64 + 7);
    let mut file = good;
    file[..5_000].fill(0);
    let platter = open(file.clone(), Preset::Clean).expect("the last head is there");
    assert!(read(&platter, 0, 16_384) == bytes[..16_384]);
    let last = file.len() - GlassHead::BYTES;
    file[last..].fill(0);
    assert!(open(file, Preset::Clean).is_none(), "nothing says that this is glass");
    assert!(open(bytes, Preset::Clean).is_none());
    assert!(open(Vec::new(), Preset::Clean).is_none());
}

#[test]
fn random_damage_never_gives_a_wrong_byte() {
    let (bytes, good) = written(Preset::Clean);
    for seed in 1..=6 {
        let mut random = Xorshift::new(seed * 0x9e37_79b9);
        let mut below = |bound: usize| (random.bits() >> 11) as usize % bound;
        let mut file = good.clone();
        for _ in 0..1 + below(4) {
            let at = below(file.len());
            let end = (at + 1 + below(20_000)).min(file.len());
            match below(4) {
                0 => file.truncate(at.max(file.len() / 2)),
                1 => file[at..end].fill(0xff),
                2 => drop(file.drain(at..end)),
                _ => file[at..end].iter_mut().step_by(3).for_each(|byte| *byte ^= below(256) as u8),
            }
        }
        let Some(platter) = open(file, Preset::Clean) else { continue };
        let drive = ReadDrive::load(PLATTER, GEOMETRY, Arc::new(platter));
        let mut track = Track::new(GEOMETRY);
        for physical in (0..GEOMETRY.physical_tracks()).map(PhysicalTrack) {
            drive.scan(physical, &mut track);
            for sector in (0..GEOMETRY.track_sectors()).filter(|&sector| !track.is_lost(sector)) {
                let at = GEOMETRY.sector_offset(SectorAddress { track: physical, sector }) as usize;
                assert!(*track.payload(sector) == bytes[at..at + 4_096], "seed {seed}, track {}, sector {sector}", physical.0);
            }
        }
    }
}

#[test]
fn an_unreadable_sector_costs_no_other() {
    let (_, file) = written(Preset::Clean);
    let unreadable = symbols_of(1, 4);
    let file = File(file, unreadable.start as u64..unreadable.end as u64 - 4_096);
    assert_eq!(lost(open_with(file, Preset::Clean).expect("glass")), [vec![], vec![4], vec![]]);
}
