//! The state machine: which stream handles which lot, and when.
//!
//! ```text
//! ask -> offered -> held -> reading -> spooled -> writing -> written -> scanning -> migrated
//!                    |                  ^ |                     |
//!              waits for room     found waits for an output   waits for a scan
//! ```
//!
//! After each event the pipeline settles: free streams take the first lot that the rules let them
//! take, scans before outputs before inputs, so that what is on its way arrives before more is
//! read.

mod settle;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use fulgurite_domain::Micros;
use serde::{Deserialize, Serialize};

use crate::event::{Command, Done, Event};
use crate::layout::{Layout, Rules, Spool, SpoolId, Stage, StreamId, StreamPlace};
use crate::lot::{FamilyId, Lot, LotId, SourceVolume};

/// What a stream does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// It handles a lot.
    Busy(LotId),
    /// It waits.
    Waits(Wait),
}

/// What a stream waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// The run has not begun, is paused, or ends.
    Order,
    /// The inventory's answer.
    Inventory,
    /// Files: none are left, or those left are to be tried again later.
    Files,
    /// The limit of this hour.
    Limit,
    /// Room in a spool volume: outputs are too slow.
    Room,
    /// A spool volume that another stream uses.
    Volume,
    /// A lot in a spool volume: inputs are too slow.
    Input,
    /// Lots in the spool volumes are of families that other outputs write.
    Family,
    /// Scans: too many lots are written and not scanned.
    Scan,
    /// A written lot: outputs are too slow.
    Output,
}

impl Wait {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Order,
        Self::Inventory,
        Self::Files,
        Self::Limit,
        Self::Room,
        Self::Volume,
        Self::Input,
        Self::Family,
        Self::Scan,
        Self::Output,
    ];

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::Inventory => "inventory",
            Self::Files => "files",
            Self::Limit => "limit",
            Self::Room => "room",
            Self::Volume => "volume",
            Self::Input => "input",
            Self::Family => "family",
            Self::Scan => "scan",
            Self::Output => "output",
        }
    }

    /// What it means, after "waiting".
    #[must_use]
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Order => "for the run to begin, resume or end",
            Self::Inventory => "for the inventory",
            Self::Files => "for files",
            Self::Limit => "for the limit of the hour",
            Self::Room => "for room in spools",
            Self::Volume => "for a spool volume in use",
            Self::Input => "for inputs",
            Self::Family => "for an output that writes the family",
            Self::Scan => "for scans",
            Self::Output => "for outputs",
        }
    }
}

/// Why an event can't follow the earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It began before.
    #[error("the run began before")]
    BegunTwice,
    /// A lot was found after the run had begun.
    #[error("lot {} was found after the run had begun", .0.0)]
    FoundLate(LotId),
    /// No stream has the number.
    #[error("there is no stream {}", .0.0)]
    NoStream(StreamId),
    /// No spool volume has the number.
    #[error("there is no spool volume {}", .0.0)]
    NoSpool(SpoolId),
    /// A stream that didn't ask got an answer.
    #[error("stream {} didn't ask for a lot", .0.0)]
    NotAsked(StreamId),
    /// A lot without files.
    #[error("lot {} has no files", .0.0)]
    NoFiles(LotId),
    /// The lot was offered before.
    #[error("lot {} is on its way already", .0.0)]
    OnItsWay(LotId),
    /// A stage ended that never began.
    #[error("stream {} doesn't handle lot {} in this stage", stream.0, lot.0)]
    NotHandled {
        /// The stream.
        stream: StreamId,
        /// The lot.
        lot: LotId,
    },
    /// More passed than the lot had.
    #[error("more files or bytes passed than lot {} had", .0.0)]
    Grown(LotId),
}

/// A stream's current work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Nothing,
    /// An input asked the inventory.
    Asked,
    /// An input waits for room for a lot.
    Holds(LotId),
    Handles(LotId),
}

#[derive(Debug, Clone)]
struct Stream {
    place: StreamPlace,
    doing: Doing,
    /// What it waits for, if it handles nothing.
    wait: Wait,
    /// The volume in an input's drive.
    mounted: Option<SourceVolume>,
    /// The family that an output wrote last.
    family: Option<FamilyId>,
    /// When an input asks again; `None` if the inventory had nothing left for it.
    asks_at: Option<Micros>,
}

#[derive(Debug, Clone)]
struct SpoolState {
    station: u16,
    spool: Spool,
    /// Bytes that lots take or have reserved.
    used: u64,
    /// Streams that read from it or write to it.
    users: u16,
}

/// Where a lot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    Held,
    Reading(SpoolId),
    Spooled(SpoolId),
    Writing(SpoolId),
    Written,
    Scanning,
}

#[derive(Debug, Clone)]
struct OnItsWay {
    lot: Lot,
    station: u16,
    position: Position,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    NotBegun,
    Running,
    Paused,
    Stopping,
    Ended,
}

/// A migration under way.
#[derive(Debug, Clone)]
pub struct Pipeline {
    rules: Rules,
    streams: Vec<Stream>,
    spools: Vec<SpoolState>,
    /// For each station, true if it scans.
    scans: Vec<bool>,
    /// For each station, since when an input has waited for room and no lot was written.
    stalled_since: Vec<Option<Micros>>,
    lots: BTreeMap<LotId, OnItsWay>,
    mode: Mode,
    /// The next read may begin at this instant, because of the limit.
    reads_from: Micros,
    /// The earliest instant for which a wake-up was asked.
    wakes_at: Option<Micros>,
}

impl Pipeline {
    /// A pipeline that has not begun.
    ///
    /// # Panics
    /// If the layout isn't [possible](Layout::is_possible).
    #[must_use]
    pub fn new(layout: &Layout) -> Self {
        assert!(layout.is_possible(), "nothing could pass a station, or there are too many streams");
        let stream =
            |place| Stream { place, doing: Doing::Nothing, wait: Wait::Order, mounted: None, family: None, asks_at: Some(Micros::ZERO) };
        let spool = |(station, spool)| SpoolState { station, spool, used: 0, users: 0 };
        Self {
            rules: layout.rules.clone(),
            streams: layout.streams().into_iter().map(stream).collect(),
            spools: layout.spools().into_iter().map(spool).collect(),
            scans: layout.stations.iter().map(|station| station.scans > 0).collect(),
            stalled_since: vec![None; layout.stations.len()],
            lots: BTreeMap::new(),
            mode: Mode::NotBegun,
            reads_from: Micros::ZERO,
            wakes_at: None,
        }
    }

    /// Handles an event and appends what should be done. Instants never decrease.
    ///
    /// # Panics
    /// If the event can't follow the earlier ones, such as the end of a stage that never began.
    pub fn step(&mut self, now: Micros, event: Event, commands: &mut Vec<Command>) {
        if let Err(unfit) = self.try_step(now, event, commands) {
            panic!("{event:?}: {unfit}");
        }
    }

    /// As [`step`](Self::step), for events that come from outside, such as a journal.
    ///
    /// # Errors
    /// If the event can't follow the earlier ones. The pipeline is then as it was.
    pub fn try_step(&mut self, now: Micros, event: Event, commands: &mut Vec<Command>) -> Result<(), Unfit> {
        self.check(&event)?;
        match event {
            Event::Found { lot, spool } => self.found(lot, spool),
            Event::Begun => self.mode = Mode::Running,
            Event::Offered { stream, lot } => self.offered(stream, lot, commands),
            Event::NothingOffered { stream, again_at } => {
                self.mount(stream, None);
                let stream = &mut self.streams[usize::from(stream.0)];
                (stream.doing, stream.asks_at) = (Doing::Nothing, again_at);
            }
            Event::Read(done) => self.read(done, commands),
            Event::Written(done) => self.written(done, commands),
            Event::Scanned(done) => self.scanned(done),
            Event::Woken => self.wakes_at = self.wakes_at.filter(|&at| at > now),
            Event::Paused if self.mode == Mode::Running => self.mode = Mode::Paused,
            Event::Resumed if self.mode == Mode::Paused => self.mode = Mode::Running,
            Event::Stopped if self.mode != Mode::Ended => self.stop(),
            Event::Paused | Event::Resumed | Event::Stopped => {}
        }
        if self.mode != Mode::NotBegun {
            self.settle(now, commands);
        }
        Ok(())
    }

    fn check(&self, event: &Event) -> Result<(), Unfit> {
        let stream = |id: StreamId| self.streams.get(usize::from(id.0)).ok_or(Unfit::NoStream(id));
        let (done, stage) = match *event {
            Event::Begun if self.mode != Mode::NotBegun => return Err(Unfit::BegunTwice),
            Event::Found { lot, spool } => {
                return match () {
                    () if self.mode != Mode::NotBegun => Err(Unfit::FoundLate(lot.id)),
                    () if usize::from(spool.0) >= self.spools.len() => Err(Unfit::NoSpool(spool)),
                    () if lot.files == 0 => Err(Unfit::NoFiles(lot.id)),
                    () if self.lots.contains_key(&lot.id) => Err(Unfit::OnItsWay(lot.id)),
                    () => Ok(()),
                };
            }
            Event::Offered { stream: id, lot } => {
                return match () {
                    () if stream(id)?.doing != Doing::Asked => Err(Unfit::NotAsked(id)),
                    () if lot.files == 0 => Err(Unfit::NoFiles(lot.id)),
                    () if self.lots.contains_key(&lot.id) => Err(Unfit::OnItsWay(lot.id)),
                    () => Ok(()),
                };
            }
            Event::NothingOffered { stream: id, .. } if stream(id)?.doing != Doing::Asked => return Err(Unfit::NotAsked(id)),
            Event::Read(done) => (done, Stage::Input),
            Event::Written(done) => (done, Stage::Output),
            Event::Scanned(done) => (done, Stage::Scan),
            _ => return Ok(()),
        };
        let handler = stream(done.stream)?;
        let lot = self.lots.get(&done.lot).map(|on_its_way| on_its_way.lot);
        let lot = lot.filter(|_| handler.doing == Doing::Handles(done.lot) && handler.place.stage == stage);
        let lot = lot.ok_or(Unfit::NotHandled { stream: done.stream, lot: done.lot })?;
        if done.files > lot.files || done.bytes > lot.bytes { Err(Unfit::Grown(lot.id)) } else { Ok(()) }
    }

    /// The streams, in the order of their identifiers.
    pub fn streams(&self) -> impl Iterator<Item = (StreamPlace, Activity)> + '_ {
        self.streams.iter().map(|stream| {
            let activity = match stream.doing {
                Doing::Handles(lot) => Activity::Busy(lot),
                _ => Activity::Waits(stream.wait),
            };
            (stream.place, activity)
        })
    }

    /// Bytes that lots take or have reserved in each spool volume, in the order of their
    /// identifiers.
    pub fn spooled_bytes(&self) -> impl Iterator<Item = u64> + '_ {
        self.spools.iter().map(|spool| spool.used)
    }

    /// A lot that is on its way.
    #[must_use]
    pub fn lot(&self, id: LotId) -> Option<&Lot> {
        self.lots.get(&id).map(|on_its_way| &on_its_way.lot)
    }

    /// Number of lots on their way.
    #[must_use]
    pub fn lots(&self) -> usize {
        self.lots.len()
    }

    /// The volumes that other streams than this one have.
    pub fn volumes_in_use(&self, stream: StreamId) -> impl Iterator<Item = SourceVolume> + '_ {
        let others = (0..).zip(&self.streams).filter(move |(index, _)| StreamId(*index) != stream);
        others.filter_map(|(_, other)| other.mounted)
    }

    /// True once [`Command::End`] was given.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.mode == Mode::Ended
    }

    /// A stream's drive has another volume. The one before may have files left for others.
    fn mount(&mut self, id: StreamId, volume: Option<SourceVolume>) {
        let before = std::mem::replace(&mut self.streams[usize::from(id.0)].mounted, volume);
        if before.is_some() && before != volume {
            self.streams.iter_mut().for_each(|stream| stream.asks_at = Some(Micros::ZERO));
        }
    }

    fn offered(&mut self, id: StreamId, lot: Lot, commands: &mut Vec<Command>) {
        self.mount(id, lot.volume);
        let stream = &mut self.streams[usize::from(id.0)];
        let station = stream.place.station;
        let largest = self.spools.iter().filter(|spool| spool.station == station).map(|spool| spool.spool.bytes).max();
        let largest = largest.expect("each station has a spool volume");
        if lot.bytes > largest {
            stream.doing = Doing::Nothing;
            commands.push(Command::Reject { stream: id, lot: lot.id, largest });
            return;
        }
        if self.mode == Mode::Stopping {
            // It stays in the inventory.
            stream.doing = Doing::Nothing;
            return;
        }
        stream.doing = Doing::Holds(lot.id);
        self.lots.insert(lot.id, OnItsWay { lot, station, position: Position::Held });
    }

    fn found(&mut self, lot: Lot, spool: SpoolId) {
        let volume = &mut self.spools[usize::from(spool.0)];
        volume.used = volume.used.saturating_add(lot.bytes);
        self.lots.insert(lot.id, OnItsWay { lot, station: volume.station, position: Position::Spooled(spool) });
    }

    /// Ends a stage: the stream is free, and what passed is left of the lot. Returns where the lot
    /// was.
    fn end_stage(&mut self, done: Done) -> Position {
        self.streams[usize::from(done.stream.0)].doing = Doing::Nothing;
        let on_its_way = self.lots.get_mut(&done.lot).expect("a lot being handled is on its way");
        if done.files < on_its_way.lot.files {
            // The inventory has files again.
            self.streams.iter_mut().for_each(|stream| stream.asks_at = Some(Micros::ZERO));
        }
        (on_its_way.lot.files, on_its_way.lot.bytes) = (done.files, done.bytes);
        on_its_way.position
    }

    fn read(&mut self, done: Done, commands: &mut Vec<Command>) {
        let reserved = self.lots.get(&done.lot).map_or(0, |on_its_way| on_its_way.lot.bytes);
        let Position::Reading(spool) = self.end_stage(done) else { unreachable!("the input handled it") };
        self.spools[usize::from(spool.0)].users -= 1;
        self.spools[usize::from(spool.0)].used -= reserved - done.bytes;
        self.pass_on(done.lot, Position::Spooled(spool));
        if done.files == 0 {
            commands.push(Command::Release { lot: done.lot, spool });
        }
    }

    fn written(&mut self, done: Done, commands: &mut Vec<Command>) {
        let spooled = self.lots.get(&done.lot).map_or(0, |on_its_way| on_its_way.lot.bytes);
        self.stalled_since[usize::from(self.streams[usize::from(done.stream.0)].place.station)] = None;
        let Position::Writing(spool) = self.end_stage(done) else { unreachable!("the output handled it") };
        self.spools[usize::from(spool.0)].users -= 1;
        self.spools[usize::from(spool.0)].used -= spooled;
        commands.push(Command::Release { lot: done.lot, spool });
        let station = self.lots[&done.lot].station;
        self.pass_on(done.lot, Position::Written);
        if !self.scans[usize::from(station)] {
            self.lots.remove(&done.lot);
        }
    }

    fn scanned(&mut self, done: Done) {
        self.end_stage(done);
        self.lots.remove(&done.lot);
    }

    /// Moves a lot on, or forgets it if nothing is left of it.
    fn pass_on(&mut self, lot: LotId, position: Position) {
        let on_its_way = self.lots.get_mut(&lot).expect("it is on its way");
        on_its_way.position = position;
        if on_its_way.lot.files == 0 {
            self.lots.remove(&lot);
        }
    }

    /// Lots that no stream has begun to read stay in the inventory.
    fn stop(&mut self) {
        self.mode = Mode::Stopping;
        self.lots.retain(|_, on_its_way| on_its_way.position != Position::Held);
        for stream in &mut self.streams {
            if matches!(stream.doing, Doing::Holds(_)) {
                stream.doing = Doing::Nothing;
            }
        }
    }
}
