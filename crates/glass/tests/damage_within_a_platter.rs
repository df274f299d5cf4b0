//! Track code and large group repair exactly the damage that they promise to repair.

use std::io;
use std::sync::Arc;

use fulgurite_chance::Xorshift;
use fulgurite_domain::{Geometry, PhysicalTrack, PlatterId, SectorAddress, TrackIndex};
use fulgurite_glass::{BlankPlatter, PlatterSource, ReadDrive, Track, WriteDrive};

const PLATTER: PlatterId = PlatterId([9; 16]);

/// Small enough to be damaged many times: 2 full groups and a partial one.
const GEOMETRY: Geometry = Geometry {
    sector_bytes: 1_024,
    track_information: 10,
    track_redundancy: 3,
    group_information: 4,
    group_redundancy: 2,
    information_tracks: 11,
};

struct Chance(Xorshift);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.bits() >> 11) as usize % bound
    }
}

struct Bytes(Vec<u8>);

impl PlatterSource for Bytes {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let start = (offset as usize).min(self.0.len());
        // A short read, as sources may return.
        let bytes = buffer.len().min(self.0.len() - start).min(5_000);
        buffer[..bytes].copy_from_slice(&self.0[start..start + bytes]);
        Ok(bytes)
    }
}

fn payload(track: u32, sector: u16) -> Vec<u8> {
    let mut chance = Chance(Xorshift::new(u64::from(track) * 1_000 + u64::from(sector) + 1));
    (0..GEOMETRY.sector_bytes).map(|_| chance.below(256) as u8).collect()
}

fn written() -> Vec<u8> {
    let blank = BlankPlatter { platter: PLATTER, geometry: GEOMETRY, header: vec![0x11; Geometry::HEADER_BYTES as usize] };
    let mut drive = WriteDrive::load(blank, Vec::new(), 1).expect("a vector takes everything");
    let mut track = Track::new(GEOMETRY);
    for index in 0..GEOMETRY.information_tracks {
        for sector in 0..GEOMETRY.track_information {
            track.payload_mut(sector).copy_from_slice(&payload(index, sector));
        }
        drive.write(&mut track).expect("a vector takes everything");
    }
    let written = drive.finish().expect("a vector takes everything");
    assert_eq!((written.bytes, written.sink.len() as u64), (GEOMETRY.file_bytes(), GEOMETRY.file_bytes()));
    written.sink
}

fn drive(bytes: Vec<u8>) -> ReadDrive {
    ReadDrive::load(PLATTER, GEOMETRY, Arc::new(Bytes(bytes)))
}

fn holds(track: &Track, index: u32) -> bool {
    (0..GEOMETRY.track_information).all(|sector| track.is_lost(sector) || track.payload(sector) == payload(index, sector))
}

/// Damages one byte of each chosen sector.
fn damage(bytes: &mut [u8], lost: &[SectorAddress], chance: &mut Chance) {
    for &at in lost {
        bytes[GEOMETRY.sector_offset(at) as usize + chance.below(GEOMETRY.sector_stride())] ^= 1 << chance.below(8);
    }
}

#[test]
fn an_undamaged_platter_reads_back_completely() {
    let drive = drive(written());
    let mut track = Track::new(GEOMETRY);
    for index in 0..GEOMETRY.information_tracks {
        assert_eq!(drive.read(GEOMETRY.physical(TrackIndex(index)), &mut track), Ok(0));
        assert!(holds(&track, index));
    }
}

#[test]
fn random_damage_is_repaired_exactly_up_to_the_limits_of_the_codes() {
    let good = written();
    let (mut by_track, mut by_group, mut beyond) = (0, 0, 0);
    for seed in 1..=150 {
        let mut chance = Chance(Xorshift::new(seed * 0x9e37_79b9));
        let density = 1 + chance.below(12);
        let lost: Vec<SectorAddress> = (0..GEOMETRY.physical_tracks())
            .flat_map(|track| (0..GEOMETRY.track_sectors()).map(move |sector| SectorAddress { track: PhysicalTrack(track), sector }))
            .filter(|_| chance.below(30) < density)
            .collect();
        let mut bytes = good.clone();
        damage(&mut bytes, &lost, &mut chance);
        let drive = drive(bytes);
        let lost_of = |track: PhysicalTrack| lost.iter().filter(|at| at.track == track).count();
        let lost_information =
            |track: PhysicalTrack| lost.iter().filter(|at| at.track == track && at.sector < GEOMETRY.track_information).count();
        // Information sectors that a track's own code leaves lost: all lost ones, if too many
        // sectors are lost.
        let left = |track: PhysicalTrack| {
            if lost_of(track) > usize::from(GEOMETRY.track_redundancy) { lost_information(track) } else { 0 }
        };
        let mut track = Track::new(GEOMETRY);
        for group in (0..GEOMETRY.groups()).map(|index| GEOMETRY.group(index)) {
            let redundancy = group.redundancy as usize * usize::from(GEOMETRY.track_information);
            let in_group: usize = group.information_tracks().chain(group.redundancy_tracks()).map(left).sum();
            for (index, physical) in (group.first.0..).zip(group.information_tracks()) {
                let read = drive.read(physical, &mut track);
                assert_eq!(read.is_ok(), left(physical) == 0, "seed {seed}, track {index}");
                assert!(holds(&track, index), "seed {seed}, track {index}");
                if read.is_ok() {
                    by_track += usize::from(lost_of(physical) > 0);
                    continue;
                }
                let repair = drive.repair_group(group, &[TrackIndex(index)]);
                assert_eq!(repair.is_ok(), in_group <= redundancy, "seed {seed}, group of track {index}, {in_group} lost");
                match repair {
                    Ok(repair) => {
                        by_group += 1;
                        assert_eq!(repair.sectors.len(), left(physical));
                        repair.sectors.iter().for_each(|sector| track.restore(sector.sector, &sector.payload));
                        assert!(!track.misses_information() && holds(&track, index), "seed {seed}, track {index}");
                    }
                    Err(_) => beyond += 1,
                }
            }
        }
    }
    assert!(by_track > 50 && by_group > 50 && beyond > 50, "every level must be exercised: {by_track}, {by_group}, {beyond}");
}

#[test]
fn a_truncated_file_has_lost_sectors_but_no_wrong_ones() {
    let good = written();
    let mut track = Track::new(GEOMETRY);
    for cut in [0, 1, 20_000, good.len() / 2, good.len() - 1] {
        let drive = drive(good[..cut].to_vec());
        for index in 0..GEOMETRY.information_tracks {
            let _ = drive.read(GEOMETRY.physical(TrackIndex(index)), &mut track);
            assert!(holds(&track, index), "cut at {cut}, track {index}");
        }
    }
}

#[test]
fn swapped_sectors_count_as_lost() {
    let mut bytes = written();
    let [a, b] = [2, 7].map(|sector| GEOMETRY.sector_offset(SectorAddress { track: PhysicalTrack(1), sector }) as usize);
    let stride = GEOMETRY.sector_stride();
    let copy = bytes[a..a + stride].to_vec();
    bytes.copy_within(b..b + stride, a);
    bytes[b..b + stride].copy_from_slice(&copy);
    let mut track = Track::new(GEOMETRY);
    assert_eq!(drive(bytes).read(PhysicalTrack(1), &mut track), Ok(2));
    assert!(holds(&track, 1));
}
