//! Applies damage of all kinds to a whole set. A file must be restored exactly if track, large
//! group and platter-set together guarantee it, and every restored byte must be right.
//!
//! The prediction only counts symbols. A track loses what its own code can't rebuild. A group
//! restores all of its tracks or none, depending on the number of symbols lost in it. The same
//! holds for the matching tracks of a set, after repair by tracks and, if that is not enough, by
//! groups.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::FileExt;

use crate::support::{Home, Troubles, get_all, noise, put_all};
use fulgurite_archive::Archive;
use fulgurite_archive::catalogue::{SetDescription, Versions};
use fulgurite_archive::watch::Unwatched;
use fulgurite_chance::Xorshift;
use fulgurite_domain::{Geometry, PhysicalTrack, SectorAddress, TrackIndex};

struct Chance(Xorshift);

impl Chance {
    fn below(&mut self, bound: u32) -> u32 {
        (self.0.bits() >> 11) as u32 % bound
    }
}

/// Lost sectors of a platter; all of them if `gone`.
#[derive(Clone, Default)]
struct Damage {
    gone: bool,
    lost: BTreeSet<SectorAddress>,
}

impl Damage {
    fn random(geometry: Geometry, chance: &mut Chance) -> Self {
        let mut damage = Self::default();
        match chance.below(6) {
            0 => {}
            1 => damage.gone = true,
            2 => damage.scatter(geometry, 1 + chance.below(18), chance),
            // Whole tracks: as many as a group can rebuild, and more.
            3 | 4 => {
                for _ in 0..1 + chance.below(3) {
                    let track = PhysicalTrack(chance.below(geometry.physical_tracks()));
                    damage.lost.extend((0..geometry.track_sectors()).map(|sector| SectorAddress { track, sector }));
                }
            }
            _ => {
                damage.scatter(geometry, 30, chance);
                let track = PhysicalTrack(chance.below(geometry.physical_tracks()));
                damage.lost.extend((0..100).map(|sector| SectorAddress { track, sector }));
            }
        }
        damage
    }

    /// Loses up to `sectors` random sectors of every track.
    fn scatter(&mut self, geometry: Geometry, sectors: u32, chance: &mut Chance) {
        for track in (0..geometry.physical_tracks()).map(PhysicalTrack) {
            for _ in 0..sectors {
                let sector = chance.below(geometry.track_sectors().into()) as u16;
                self.lost.insert(SectorAddress { track, sector });
            }
        }
    }

    /// Information sectors of a track that are lost after the track's own repair.
    fn after_track(&self, geometry: Geometry, track: PhysicalTrack) -> BTreeSet<u16> {
        if self.gone {
            return (0..geometry.track_information).collect();
        }
        let lost: Vec<u16> = self.lost.iter().filter(|at| at.track == track).map(|at| at.sector).collect();
        if lost.len() <= usize::from(geometry.track_redundancy) {
            return BTreeSet::new();
        }
        lost.into_iter().filter(|sector| *sector < geometry.track_information).collect()
    }

    /// Information sectors lost after repair by the large group too.
    fn after_group(&self, geometry: Geometry, index: TrackIndex) -> BTreeSet<u16> {
        let track = self.after_track(geometry, geometry.physical(index));
        if self.gone || track.is_empty() {
            return track;
        }
        let group = geometry.group_of(index);
        let lost: usize =
            group.information_tracks().chain(group.redundancy_tracks()).map(|track| self.after_track(geometry, track).len()).sum();
        if lost <= group.redundancy as usize * usize::from(geometry.track_information) { BTreeSet::new() } else { track }
    }
}

/// Information sectors of a platter's track lost after repair by all codes.
fn after_set(set: &SetDescription, damage: &[Damage], position: usize, index: TrackIndex) -> BTreeSet<u16> {
    let geometry = set.geometry;
    let own = damage[position].after_group(geometry, index);
    if own.is_empty() {
        return own;
    }
    let limit = usize::from(set.shape.redundancy) * usize::from(geometry.track_information);
    let others: usize = damage
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != position)
        .map(|(_, damage)| damage.after_group(geometry, index).len())
        .sum();
    if own.len() + others <= limit { BTreeSet::new() } else { own }
}

fn files() -> BTreeMap<Vec<u8>, Vec<u8>> {
    // Mostly small files, so that a lost file can be told from its neighbours; enough for several
    // tracks per platter.
    let mut files: BTreeMap<_, _> =
        (0..300_u64).map(|i| (format!("f{i:03}").into_bytes(), noise(i, 1_000 + (i * 37 % 9_000) as usize))).collect();
    files.insert(b"large".to_vec(), noise(1_000, 1_500_000));
    files
}

/// Names of the files that must be lost.
fn expected(archive: &Archive, set: &SetDescription, damage: &[Damage]) -> BTreeSet<String> {
    let geometry = set.geometry;
    let lost: Vec<Vec<BTreeSet<u16>>> = (0..usize::from(set.shape.information))
        .map(|position| (0..geometry.information_tracks).map(|index| after_set(set, damage, position, TrackIndex(index))).collect())
        .collect();
    let rows = archive.catalogue().list(b"", Versions::Newest, None, 1_000).expect("listed");
    let is_lost = |row_id| {
        archive.catalogue().extents(row_id).expect("extents").iter().any(|extent| {
            let position = set.platters.iter().position(|place| place.platter == extent.platter).expect("of the set");
            let sector_bytes = u64::from(geometry.sector_bytes);
            (extent.offset / sector_bytes..(extent.offset + extent.bytes).div_ceil(sector_bytes)).any(|sector| {
                let (track, sector, _) = geometry.locate(sector * sector_bytes);
                // A good sector is readable even if its track can't be rebuilt.
                lost[position][track.0 as usize].contains(&sector)
            })
        })
    };
    rows.into_iter().filter(|row| is_lost(row.row_id)).map(|row| format!("lost {}", row.record.name.display())).collect()
}

#[test]
fn a_file_is_restored_if_and_only_if_the_codes_guarantee_it() {
    let home = Home::new(3, 2);
    let archive = home.open();
    let files = files();
    put_all(&archive, &files);
    archive.flush(&Unwatched).expect("flush");
    let set = archive.catalogue().sets().expect("sets").remove(0).description;
    let geometry = set.geometry;
    let paths: Vec<_> =
        set.platters.iter().map(|place| home.path().join(format!("stores/{}/platters/{}.platter", place.store, place.platter))).collect();
    let good: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).expect("read")).collect();
    let (mut nothing_lost, mut something_lost) = (0, 0);
    let seeds: Vec<u64> = match std::env::var("FULGURITE_SEED") {
        Ok(seed) => vec![seed.parse().expect("a number")],
        Err(_) => (1..=24).collect(),
    };
    for seed in seeds {
        let again = format!("again: FULGURITE_SEED={seed} cargo test -p fulgurite-archive --test archive damage_within");
        let mut chance = Chance(Xorshift::seeded(seed));
        let damage: Vec<Damage> = paths.iter().map(|_| Damage::random(geometry, &mut chance)).collect();
        for ((path, good), damage) in paths.iter().zip(&good).zip(&damage) {
            fs::write(path, good).expect("written");
            if damage.gone {
                fs::remove_file(path).expect("removed");
                continue;
            }
            let file = fs::File::options().write(true).open(path).expect("opened");
            for &at in &damage.lost {
                let offset = geometry.sector_offset(at) + u64::from(chance.below(geometry.sector_stride() as u32));
                file.write_all_at(&[!good[offset as usize]], offset).expect("damaged");
            }
        }
        let expected = expected(&archive, &set, &damage);
        let troubles = Troubles::default();
        let (report, found) = get_all(&archive, &troubles);
        let lost: BTreeSet<String> = troubles.take().into_iter().collect();
        assert_eq!(lost, expected, "{again}");
        assert_eq!(report.failed, lost.len() as u64, "{again}");
        assert_eq!(found.len() + lost.len(), files.len(), "{again}");
        assert!(found.iter().all(|(name, content)| files[name] == *content), "{again}");
        // A verification must report the same without reading any file.
        archive.scrub(None, &troubles).expect("scrub");
        let verified: BTreeSet<String> = troubles.take().into_iter().collect();
        assert_eq!(verified, expected, "{again}");
        if lost.is_empty() {
            nothing_lost += 1;
            let report = archive.scrub(Some(Default::default()), &Unwatched).expect("scrub");
            assert_eq!(report.rebuilt, report.unsound.len() as u64, "{again}");
            for (path, good) in paths.iter().zip(&good) {
                assert!(fs::read(path).expect("read") == *good, "{again}");
            }
        } else {
            something_lost += 1;
        }
    }
    assert!(std::env::var("FULGURITE_SEED").is_ok() || (nothing_lost > 3 && something_lost > 3), "{nothing_lost}, {something_lost}");
}
