//! Repair by the code of a large group, for tracks that their own code can't rebuild.
//!
//! The group is read twice: first to learn which sectors remain lost after the tracks' own repair,
//! then to feed the code. Memory is limited to the code and one track, whatever the size of the
//! group.

use fulgurite_codec::PooledRepairer;
use fulgurite_domain::{Group, PhysicalTrack, TrackIndex};

use crate::write::group_code;
use crate::{Lost, ReadDrive, Track};

/// An information sector rebuilt by its large group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebuiltSector {
    /// Its track.
    pub track: TrackIndex,
    /// Its index in the track.
    pub sector: u16,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// Result of a group repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRepair {
    /// The rebuilt information sectors of the requested tracks.
    pub sectors: Vec<RebuiltSector>,
    /// Information sectors of the whole group that their tracks could not rebuild.
    pub lost: usize,
}

impl ReadDrive {
    /// Rebuilds the lost sectors of the information tracks in `wanted`, all of one group, with the
    /// group's code.
    ///
    /// # Errors
    /// [`Lost`] with the number of information sectors lost in the whole group, if its code can't
    /// rebuild them, or if a sector that could be read at first is lost the next time.
    pub fn repair_group(&self, group: Group, wanted: &[TrackIndex]) -> Result<GroupRepair, Lost> {
        let geometry = self.geometry();
        let sectors = usize::from(geometry.track_information);
        let mut track = Track::new(geometry);
        let mut lost = Vec::new();
        for (index, physical) in group.information_tracks().enumerate() {
            if self.read(physical, &mut track).is_err() {
                lost.extend(lost_information(&track).map(|sector| index * sectors + usize::from(sector)));
            }
        }
        if lost.is_empty() {
            return Ok(GroupRepair { sectors: Vec::new(), lost: 0 });
        }
        let all_lost = Lost { sectors: lost.len() };
        let code = group_code(geometry, group).ok_or(all_lost)?;
        // Rows of the code's redundancy that can be read.
        let mut rows = Vec::new();
        for (index, physical) in group.redundancy_tracks().enumerate() {
            self.read_good_sectors(physical, &mut track);
            rows.extend((0..geometry.track_information).filter(|&s| !track.is_lost(s)).map(|s| index * sectors + usize::from(s)));
        }
        let is_wanted = |symbol: &usize| wanted.contains(&TrackIndex(group.first.0 + (symbol / sectors) as u32));
        let wanted: Vec<usize> = lost.iter().copied().filter(is_wanted).collect();
        let plan = code.plan(&lost, &rows, &wanted).map_err(|_| all_lost)?;
        let mut repairer = PooledRepairer::new(&code, plan, geometry.sector_bytes as usize).expect("sectors are multiples of 64 bytes");
        for (index, physical) in group.information_tracks().enumerate() {
            self.read_good_sectors(physical, &mut track);
            for sector in 0..geometry.track_information {
                let is_lost = lost.binary_search(&(index * sectors + usize::from(sector))).is_ok();
                if !is_lost && track.is_lost(sector) {
                    // Good a moment ago and lost now: the code can't use such an unstable medium.
                    return Err(all_lost);
                }
                repairer.push((!is_lost).then(|| track.payload(sector)));
            }
        }
        let used = repairer.plan().rows().to_vec();
        for (index, physical) in group.redundancy_tracks().enumerate() {
            let rows = used.iter().copied().filter(|row| row / sectors == index).collect::<Vec<_>>();
            if rows.is_empty() {
                continue;
            }
            self.read_good_sectors(physical, &mut track);
            for row in rows {
                if track.is_lost((row % sectors) as u16) {
                    return Err(all_lost);
                }
                repairer.push_redundancy(row, track.payload((row % sectors) as u16));
            }
        }
        let rebuilt = repairer.finish();
        let sectors = wanted.iter().enumerate().map(|(i, symbol)| RebuiltSector {
            track: TrackIndex(group.first.0 + (symbol / sectors) as u32),
            sector: (symbol % sectors) as u16,
            payload: rebuilt.row(i).to_vec(),
        });
        Ok(GroupRepair { sectors: sectors.collect(), lost: lost.len() })
    }

    /// Reads a track and ignores failure: even a track that can't be rebuilt has good sectors.
    fn read_good_sectors(&self, physical: PhysicalTrack, track: &mut Track) {
        let _ = self.read(physical, track);
    }
}

/// The lost information sectors of a track.
fn lost_information(track: &Track) -> impl Iterator<Item = u16> {
    (0..track.geometry().track_information).filter(|&sector| track.is_lost(sector))
}
