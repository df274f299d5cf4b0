//! Repairs that read more than a track: its large group, and the matching tracks of the set.

use std::collections::{HashMap, HashSet};

use fulgurite_codec::{PooledCode, PooledEncoder, PooledPlan, PooledRepairer};
use fulgurite_domain::{Geometry, PlatterId, TrackIndex};
use fulgurite_glass::{GroupRepair, ReadDrive, Track};

use super::OpenSet;
use crate::unread::Presence;

/// Large groups, by platter and first track, that could not be repaired. Finding out requires
/// reading the whole group, so the result is kept for all of its tracks.
pub(super) type FailedGroups = HashSet<(PlatterId, TrackIndex)>;

/// Rebuilds the lost information sectors of a track from its large group, unless that is known to
/// fail.
pub(super) fn repair_by_group(drive: &ReadDrive, index: TrackIndex, failed_groups: &mut FailedGroups) -> Option<GroupRepair> {
    let group = drive.geometry().group_of(index);
    let key = (drive.platter(), group.first);
    if failed_groups.contains(&key) {
        return None;
    }
    let repair = drive.repair_group(group, &[index]).ok();
    if repair.is_none() {
        failed_groups.insert(key);
    }
    repair
}

/// Rebuilds one track from the matching tracks of the set.
///
/// The members' tracks don't fit in memory together. The code is therefore fed from the medium,
/// assuming that sectors not known to be lost are good. If that turns out wrong, the next pass
/// takes the newly lost sectors into account. If too much is lost, the members' large groups are
/// tried.
pub(super) struct SetRepair<'a> {
    set: &'a OpenSet,
    position: u16,
    index: TrackIndex,
    threads: usize,
    /// Lost information sectors of each platter's track, by position, and the payloads that large
    /// groups recovered.
    members: Vec<MemberTrack>,
    failed_groups: &'a mut FailedGroups,
}

#[derive(Default)]
struct MemberTrack {
    lost: Vec<u16>,
    recovered: HashMap<u16, Vec<u8>>,
    tried_group: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetRepairOutcome {
    /// The track has all of its information sectors.
    Whole,
    /// The track could be completed if all sectors that aren't known to be lost were readable.
    NotNow,
    /// Too many sectors of the set are known to be lost, or the set has no redundancy.
    Never,
}

impl<'a> SetRepair<'a> {
    pub(super) fn new(set: &'a OpenSet, position: u16, index: TrackIndex, threads: usize, failed_groups: &'a mut FailedGroups) -> Self {
        let all = |member: &Presence| match member.drive() {
            Some(_) => Vec::new(),
            None => (0..set.description.geometry.track_information).collect(),
        };
        let members = set.members.iter().map(|member| MemberTrack { lost: all(member), ..MemberTrack::default() }).collect();
        Self { set, position, index, threads, members, failed_groups }
    }

    fn geometry(&self) -> Geometry {
        self.set.description.geometry
    }

    /// Restores the lost sectors of `track`, if the set's code can.
    pub(super) fn run(mut self, track: &mut Track) -> SetRepairOutcome {
        let shape = self.set.description.shape;
        let sectors = usize::from(self.geometry().track_information);
        let Ok(code) = PooledCode::new(usize::from(shape.information) * sectors, usize::from(shape.redundancy) * sectors) else {
            return SetRepairOutcome::Never;
        };
        self.members[usize::from(self.position)].lost = (0..self.geometry().track_information).filter(|&s| track.is_lost(s)).collect();
        // The sectors of a redundancy platter's track are the redundancy of this code, which can be
        // computed from the information platters again.
        if self.position >= shape.information {
            return self.run_redundancy(&code, track);
        }
        loop {
            let lost: Vec<&[u16]> = self.members.iter().map(|member| &member.lost[..]).collect();
            let Some(plan) = self.plan(&code, &lost) else {
                if self.repair_members_by_groups() {
                    continue;
                }
                return self.classify_failure(&code);
            };
            let mut repairer = PooledRepairer::new(&code, plan, self.geometry().sector_bytes as usize)
                .expect("sectors are blocks of 64 bytes")
                .with_threads(self.threads);
            if !self.feed(&mut repairer, track) {
                continue;
            }
            let rebuilt = repairer.finish();
            let lost = std::mem::take(&mut self.members[usize::from(self.position)].lost);
            for (row, sector) in lost.into_iter().enumerate() {
                track.restore(sector, rebuilt.row(row));
            }
            return SetRepairOutcome::Whole;
        }
    }

    /// Plans how to rebuild the lost sectors of this platter, given the set's lost sectors by
    /// position. `None` if that is impossible.
    fn plan(&self, code: &PooledCode, lost: &[&[u16]]) -> Option<PooledPlan> {
        let shape = self.set.description.shape;
        let sectors = self.geometry().track_information;
        let symbols = |position: u16, sectors_of: &[u16]| {
            sectors_of.iter().map(|&s| usize::from(position) * usize::from(sectors) + usize::from(s)).collect::<Vec<_>>()
        };
        let of = |position: u16| lost[usize::from(position)];
        let all_lost: Vec<usize> = (0..shape.information).flat_map(|p| symbols(p, of(p))).collect();
        let rows: Vec<usize> = (shape.information..shape.platters())
            .flat_map(|p| {
                let good: Vec<u16> = (0..sectors).filter(|s| of(p).binary_search(s).is_err()).collect();
                symbols(p - shape.information, &good)
            })
            .collect();
        code.plan(&all_lost, &rows, &symbols(self.position, of(self.position))).ok()
    }

    /// Decides whether the track could be rebuilt if every sector not known to be lost were
    /// readable.
    fn classify_failure(&self, code: &PooledCode) -> SetRepairOutcome {
        let physical = self.geometry().physical(self.index);
        let certainly_lost = |(track, member): (&MemberTrack, &Presence)| -> Vec<u16> {
            track.lost.iter().copied().filter(|&sector| !member.may_have(physical, sector)).collect()
        };
        let certainly_lost: Vec<Vec<u16>> = self.members.iter().zip(&self.set.members).map(certainly_lost).collect();
        let certainly_lost: Vec<&[u16]> = certainly_lost.iter().map(Vec::as_slice).collect();
        match certainly_lost[usize::from(self.position)].is_empty() || self.plan(code, &certainly_lost).is_some() {
            true => SetRepairOutcome::NotNow,
            false => SetRepairOutcome::Never,
        }
    }

    /// Feeds the code. Returns false if a sector assumed to be good was lost; the sector is
    /// recorded as lost then.
    fn feed(&mut self, repairer: &mut PooledRepairer, track: &Track) -> bool {
        let shape = self.set.description.shape;
        let sectors = usize::from(self.geometry().track_information);
        let used = repairer.plan().rows().to_vec();
        let mut member_track = Track::new(self.geometry());
        let mut as_expected = true;
        for position in 0..shape.platters() {
            let first_row = usize::from(position.saturating_sub(shape.information)) * sectors;
            let rows = used.iter().filter(|row| (first_row..first_row + sectors).contains(row));
            if position >= shape.information && rows.clone().next().is_none() {
                continue;
            }
            let source = if position == self.position { track } else { self.read_member(position, &mut member_track, &mut as_expected) };
            if !as_expected {
                continue;
            }
            let lost = &self.members[usize::from(position)].lost;
            if position < shape.information {
                for sector in 0..self.geometry().track_information {
                    repairer.push(lost.binary_search(&sector).is_err().then(|| source.payload(sector)));
                }
            } else {
                rows.for_each(|&row| repairer.push_redundancy(row, source.payload((row - first_row) as u16)));
            }
        }
        as_expected
    }

    /// Reads a member's track, and adds the sectors recovered by its large group.
    fn read_member<'t>(&mut self, position: u16, track: &'t mut Track, as_expected: &mut bool) -> &'t Track {
        let Some(loaded) = self.set.members[usize::from(position)].as_loaded() else { return track };
        let physical = self.geometry().physical(self.index);
        if loaded.drive.read(physical, track).is_err() {
            loaded.restore_from_copies(physical, track);
        }
        let member = &mut self.members[usize::from(position)];
        for (&sector, payload) in &member.recovered {
            track.restore(sector, payload);
        }
        let newly_lost = (0..track.geometry().track_information).filter(|&s| track.is_lost(s) && member.lost.binary_search(&s).is_err());
        let newly_lost: Vec<u16> = newly_lost.collect();
        if !newly_lost.is_empty() {
            *as_expected = false;
            member.lost.extend(newly_lost);
            member.lost.sort_unstable();
        }
        track
    }

    /// Tries to recover lost sectors of other members from their large groups. Returns true if any
    /// was recovered.
    fn repair_members_by_groups(&mut self) -> bool {
        let mut has_recovered = false;
        for (position, member) in self.members.iter_mut().enumerate() {
            let Some(drive) = self.set.members[position].drive() else { continue };
            if position == usize::from(self.position) || member.lost.is_empty() || std::mem::replace(&mut member.tried_group, true) {
                continue;
            }
            if let Some(repair) = repair_by_group(drive, self.index, self.failed_groups) {
                for sector in repair.sectors {
                    member.lost.retain(|&lost| lost != sector.sector);
                    member.recovered.insert(sector.sector, sector.payload);
                    has_recovered = true;
                }
            }
        }
        has_recovered
    }

    /// Rebuilds the track of a redundancy platter: first reads or rebuilds every information track,
    /// then encodes them again.
    fn run_redundancy(&mut self, code: &PooledCode, track: &mut Track) -> SetRepairOutcome {
        let shape = self.set.description.shape;
        let geometry = self.geometry();
        let mut encoder =
            PooledEncoder::new(code, geometry.sector_bytes as usize).expect("sectors are blocks of 64 bytes").with_threads(self.threads);
        let mut member_track = Track::new(geometry);
        for position in 0..shape.information {
            let physical = geometry.physical(self.index);
            let is_read = match self.set.members[usize::from(position)].as_loaded() {
                Some(loaded) => {
                    loaded.drive.read(physical, &mut member_track).is_ok() || loaded.restore_from_copies(physical, &mut member_track)
                }
                None => {
                    member_track.mark_all_lost();
                    false
                }
            };
            if !is_read {
                if let Some(drive) = self.set.drive(position)
                    && let Some(repair) = repair_by_group(drive, self.index, self.failed_groups)
                {
                    repair.sectors.iter().for_each(|sector| member_track.restore(sector.sector, &sector.payload));
                }
                if member_track.misses_information() {
                    match SetRepair::new(self.set, position, self.index, self.threads, self.failed_groups).run(&mut member_track) {
                        SetRepairOutcome::Whole => {}
                        // The sectors of this track itself may be fine.
                        SetRepairOutcome::Never if self.lost_may_be_fine() => return SetRepairOutcome::NotNow,
                        failed => return failed,
                    }
                }
            }
            encoder.push(&member_track.information().collect::<Vec<_>>());
        }
        let first_row = usize::from(self.position - shape.information) * usize::from(geometry.track_information);
        let rows = encoder.finish();
        for sector in 0..geometry.track_information {
            if track.is_lost(sector) {
                track.restore(sector, rows.row(first_row + usize::from(sector)));
            }
        }
        SetRepairOutcome::Whole
    }

    /// True if every lost sector of the track itself may be fine.
    fn lost_may_be_fine(&self) -> bool {
        let (member, physical) = (&self.set.members[usize::from(self.position)], self.geometry().physical(self.index));
        self.members[usize::from(self.position)].lost.iter().all(|&sector| member.may_have(physical, sector))
    }
}
