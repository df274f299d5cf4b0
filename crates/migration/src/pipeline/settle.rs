//! Settling: free streams take lots.

use std::cmp::Reverse;

use fulgurite_domain::Micros;

use super::{Doing, Mode, OnItsWay, Pipeline, Position, SpoolState, Wait};
use crate::event::Command;
use crate::layout::{LOTS_AT_ONCE, Rules, SpoolId, Stage, StreamId};
use crate::lot::{FamilyId, LotId};

/// Outputs have stalled if an input waits for room and no lot is written for this long. At that
/// rate they drain a few hundred megabytes of memory at less than 100 MB/s, so the disk traffic of
/// a reserve hardly slows them.
const STALL_AFTER: Micros = Micros(5_000_000);

impl Pipeline {
    /// Gives lots to free streams, until none can take another.
    pub(super) fn settle(&mut self, now: Micros, commands: &mut Vec<Command>) {
        for stage in [Stage::Scan, Stage::Output, Stage::Input] {
            for index in 0..self.streams.len() {
                let stream = &self.streams[index];
                if stream.place.stage != stage || matches!(stream.doing, Doing::Handles(_)) {
                    continue;
                }
                let id = StreamId(index as u16);
                let wait = match stage {
                    Stage::Scan => self.settle_scan(id, commands),
                    Stage::Output => self.settle_output(id, commands),
                    Stage::Input => self.settle_input(id, now, commands),
                };
                self.streams[index].wait = wait.err().unwrap_or(Wait::Order);
            }
        }
        self.settle_end(commands);
    }

    fn settle_scan(&mut self, id: StreamId, commands: &mut Vec<Command>) -> Result<(), Wait> {
        let station = self.streams[usize::from(id.0)].place.station;
        let written = self.lots.values().filter(|of| of.station == station && of.position == Position::Written);
        let lot = written.min_by_key(|of| (Reverse(of.lot.priority), of.lot.id)).map(|of| of.lot.id).ok_or(Wait::Output)?;
        self.begin(id, lot, Position::Scanning);
        commands.push(Command::Scan { stream: id, lot });
        Ok(())
    }

    fn settle_output(&mut self, id: StreamId, commands: &mut Vec<Command>) -> Result<(), Wait> {
        let (station, family) = (self.streams[usize::from(id.0)].place.station, self.streams[usize::from(id.0)].family);
        let unscanned =
            self.lots.values().filter(|of| of.station == station && matches!(of.position, Position::Written | Position::Scanning));
        if self.scans[usize::from(station)] && unscanned.count() >= usize::from(self.rules.unscanned_max) {
            return Err(Wait::Scan);
        }
        let mut wait = Wait::Input;
        let mut chosen = None;
        for of in self.lots.values().filter(|of| of.station == station) {
            let Position::Spooled(spool) = of.position else { continue };
            let is_written_elsewhere = self.rules.families_together && self.is_written(of.lot.family, station);
            if is_written_elsewhere {
                wait = Wait::Family;
            } else if !self.is_free(spool) {
                wait = Wait::Volume;
            } else {
                let rank = (Reverse(of.lot.priority), Some(of.lot.family) != family, of.lot.id);
                chosen = chosen.into_iter().chain([(rank, spool)]).min();
            }
        }
        let ((_, _, lot), spool) = chosen.ok_or(wait)?;
        self.streams[usize::from(id.0)].family = Some(self.lots[&lot].lot.family);
        self.spools[usize::from(spool.0)].users += 1;
        self.begin(id, lot, Position::Writing(spool));
        commands.push(Command::Write { stream: id, lot, spool });
        Ok(())
    }

    fn settle_input(&mut self, id: StreamId, now: Micros, commands: &mut Vec<Command>) -> Result<(), Wait> {
        let stream = &self.streams[usize::from(id.0)];
        let (doing, mounted, asks_at) = (stream.doing, stream.mounted, stream.asks_at);
        if doing == Doing::Asked {
            return Err(Wait::Inventory);
        }
        if self.mode != Mode::Running {
            return Err(Wait::Order);
        }
        if let Some(until) = self.limited_until(now) {
            self.wake_at(until, now, commands);
            return Err(Wait::Limit);
        }
        if let Doing::Holds(lot) = doing {
            let station = stream.place.station;
            let spool = match self.room_for(&self.lots[&lot], now) {
                Err(Wait::Room) => {
                    let since = *self.stalled_since[usize::from(station)].get_or_insert(now);
                    let until = Micros(since.0.saturating_add(STALL_AFTER.0));
                    if until > now && self.spools.iter().any(|volume| volume.station == station && volume.spool.is_reserve) {
                        self.wake_at(until, now, commands);
                    }
                    return Err(Wait::Room);
                }
                room => room?,
            };
            self.charge(self.lots[&lot].lot.bytes, now);
            let volume = &mut self.spools[usize::from(spool.0)];
            volume.used += self.lots[&lot].lot.bytes;
            volume.users += 1;
            self.begin(id, lot, Position::Reading(spool));
            commands.push(Command::Read { stream: id, lot, spool });
            return Ok(());
        }
        match asks_at {
            Some(at) if at <= now => {
                self.streams[usize::from(id.0)].doing = Doing::Asked;
                commands.push(Command::Ask { stream: id, mounted });
                Err(Wait::Inventory)
            }
            Some(at) => {
                self.wake_at(at, now, commands);
                Err(Wait::Files)
            }
            None => Err(Wait::Files),
        }
    }

    /// True if an output of the station writes a lot of the family.
    fn is_written(&self, family: FamilyId, station: u16) -> bool {
        self.streams.iter().any(|stream| {
            let is_output = stream.place.station == station && stream.place.stage == Stage::Output;
            is_output && stream.family == Some(family) && matches!(stream.doing, Doing::Handles(_))
        })
    }

    fn begin(&mut self, stream: StreamId, lot: LotId, position: Position) {
        self.streams[usize::from(stream.0)].doing = Doing::Handles(lot);
        self.lots.get_mut(&lot).expect("it is on its way").position = position;
    }

    fn is_free(&self, spool: SpoolId) -> bool {
        let volume = &self.spools[usize::from(spool.0)];
        volume.users == 0 || !volume.spool.is_exclusive
    }

    /// The spool volume for a lot, a reserve only if needed: the first with room that isn't
    /// exclusive, such as memory, or else the emptiest that the stream may use. Lots then alternate
    /// between exclusive volumes, so that one is written while another is read.
    fn room_for(&self, of: &OnItsWay, now: Micros) -> Result<SpoolId, Wait> {
        let (station, bytes) = (of.station, of.lot.bytes);
        let is_spooled = |of: &&OnItsWay| {
            of.station == station && matches!(of.position, Position::Reading(_) | Position::Spooled(_) | Position::Writing(_))
        };
        if self.lots.values().filter(is_spooled).count() >= usize::from(self.rules.spooled_max) {
            return Err(Wait::Room);
        }
        let of_station = || (0..).map(SpoolId).zip(&self.spools).filter(|(_, volume)| volume.station == station);
        let has_reserve = of_station().any(|(_, volume)| volume.spool.is_reserve);
        let largest = of_station().filter(|(_, volume)| !volume.spool.is_reserve).map(|(_, volume)| volume.spool.bytes).max();
        let is_large = |bytes| largest.is_none_or(|largest| bytes > largest / LOTS_AT_ONCE);
        let has_stalled = self.stalled_since[usize::from(station)].is_some_and(|since| now.since(since) >= STALL_AFTER);
        let needs_reserve = is_large(bytes) || has_stalled;
        // Without this, small lots could keep a larger one waiting for as long as there are any.
        let goes_before = |other: &&OnItsWay| {
            let is_waiting = other.station == station && other.position == Position::Held && !is_large(other.lot.bytes);
            is_waiting && (Reverse(other.lot.priority), other.lot.id) < (Reverse(of.lot.priority), of.lot.id)
        };
        let kept: u64 = if has_reserve { self.lots.values().filter(goes_before).map(|other| other.lot.bytes).sum() } else { 0 };
        let with_room = of_station().filter(|(_, volume)| {
            let (may_be_used, kept) = if volume.spool.is_reserve { (needs_reserve, 0) } else { (true, kept) };
            may_be_used && volume.spool.bytes.saturating_sub(volume.used) >= bytes.saturating_add(kept)
        });
        let mut with_room = with_room.peekable();
        if with_room.peek().is_none() {
            return Err(Wait::Room);
        }
        let rank = |volume: &SpoolState| if volume.spool.is_exclusive { (true, volume.used) } else { (false, 0) };
        with_room.filter(|&(id, _)| self.is_free(id)).min_by_key(|&(id, volume)| (rank(volume), id)).map(|(id, _)| id).ok_or(Wait::Volume)
    }

    /// The instant until which no read may begin; `None` if one may begin now.
    fn limited_until(&self, now: Micros) -> Option<Micros> {
        match self.rules.limit_at(now)? {
            0 => Some(Rules::hour_after(now)),
            _ if self.reads_from > now => Some(self.reads_from.min(Rules::hour_after(now))),
            _ => None,
        }
    }

    /// The bytes of a read count against the limit: the next read may begin once they would have
    /// been read at that rate.
    fn charge(&mut self, bytes: u64, now: Micros) {
        if let Some(limit) = self.rules.limit_at(now).filter(|&limit| limit > 0) {
            self.reads_from = Micros(now.0.saturating_add(Micros::from_seconds(bytes as f64 / limit as f64).0));
        }
    }

    fn wake_at(&mut self, at: Micros, now: Micros, commands: &mut Vec<Command>) {
        if self.wakes_at.is_none_or(|earlier| at < earlier || earlier <= now) {
            self.wakes_at = Some(at);
            commands.push(Command::WakeAt(at));
        }
    }

    /// Ends the run once nothing is on its way and no input can get another lot.
    fn settle_end(&mut self, commands: &mut Vec<Command>) {
        let is_done = match self.mode {
            Mode::NotBegun | Mode::Paused | Mode::Ended => false,
            Mode::Stopping => true,
            Mode::Running => self.streams.iter().all(|stream| stream.place.stage != Stage::Input || stream.asks_at.is_none()),
        };
        if is_done && self.lots.is_empty() && self.streams.iter().all(|stream| stream.doing == Doing::Nothing) {
            self.mode = Mode::Ended;
            commands.push(Command::End);
        }
    }
}
