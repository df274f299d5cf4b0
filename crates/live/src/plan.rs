//! What doesn't change while a library runs: its settings, and a slot for every platter that it can
//! hold.

use std::collections::BTreeSet;

use fulgurite_domain::SetShape;
use fulgurite_journal::{Stock, StockError};
use fulgurite_library::placement::{PlacementError, fill};
use fulgurite_library::{
    Actor, Berth, Controller, Drive, Found, Inventory, Layout, Library, Platter, Region, RegionPlatter, Sets, Shuttle, Slot, Verification,
    Whereabouts,
};
use fulgurite_library_settings::LibrarySettings;
use fulgurite_mechanics::{Breakdown, Libraries, MotionLog, Settings};
use fulgurite_settings::SettingErrors;

/// One of this many slots stays spare.
const SPARE_OF: u32 = 50;

/// The only library of a region, so far.
pub(crate) const LIBRARY: Library = Library(0);

/// The settings of a library, and the slots of the platters of every set that it can hold. The
/// platters are numbered set by set, in order of their positions.
#[derive(Debug, Clone)]
pub struct Plan {
    settings: LibrarySettings,
    shape: SetShape,
    tracks: u32,
    track_bytes: u64,
    homes: Vec<Slot>,
}

/// The description of a library can't be read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened")]
pub enum DescriptionError {
    #[error("found `{found}`, but {expected} is expected")]
    Line { found: String, expected: &'static str },
    #[error("the slots were assigned by another version of the program")]
    OtherSlots,
    #[error(transparent)]
    Stock(#[from] StockError),
    #[error(transparent)]
    Settings(#[from] SettingErrors),
    #[error(transparent)]
    Placement(#[from] PlacementError),
    #[error(transparent)]
    Mismatch(#[from] StockMismatch),
}

/// A stock that can't be that of this library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the library can't be in this state: {0}")]
pub struct StockMismatch(String);

impl Plan {
    /// Assigns a slot to each platter of as many sets as fit. Some slots stay spare: a platter
    /// whose own slot is out of reach waits in one of them. `tracks` and `track_bytes` are the
    /// largest of the archive's platters.
    ///
    /// # Errors
    /// [`PlacementError`] if not even one set fits.
    pub fn new(settings: LibrarySettings, shape: SetShape, tracks: u32, track_bytes: u64) -> Result<Self, PlacementError> {
        let mut sets = fill(&settings.layout, &settings.zones, shape.platters().into())?.sets;
        let layout = &settings.layout;
        // Each shuttle and each bay may hold a platter that can't go home.
        let spare = (layout.slot_count() / SPARE_OF).max(u32::from(layout.shuttles) + 2 * u32::from(layout.drive_count()));
        let room = layout.slot_count().saturating_sub(spare) / u32::from(shape.platters());
        sets.truncate(room.max(1) as usize);
        Ok(Self { homes: sets.concat(), settings, shape, tracks, track_bytes })
    }

    /// A plan whose slots were assigned before, by [`Plan::new`] of this or an earlier program.
    ///
    /// # Errors
    /// [`StockMismatch`] if they can't be those of whole sets in this library.
    pub fn with_homes(
        settings: LibrarySettings,
        shape: SetShape,
        tracks: u32,
        track_bytes: u64,
        homes: Vec<Slot>,
    ) -> Result<Self, StockMismatch> {
        let distinct: BTreeSet<Slot> = homes.iter().copied().collect();
        let is_inside = distinct.last().is_some_and(|last| last.0 < settings.layout.slot_count());
        if !is_inside || distinct.len() < homes.len() || !homes.len().is_multiple_of(usize::from(shape.platters())) {
            return Err(StockMismatch(format!("{} slots were assigned to sets of {shape}", homes.len())));
        }
        Ok(Self { settings, shape, tracks, track_bytes, homes })
    }

    /// What the assignment of slots depends on: plans with the same text have the same slots, if
    /// the same program assigned them.
    #[must_use]
    pub fn building(settings: &LibrarySettings, shape: SetShape) -> String {
        let LibrarySettings { layout, zones, .. } = settings.clone();
        format!("shape {shape}\n{}", LibrarySettings { layout, zones, ..LibrarySettings::default() }.canonical())
    }

    /// The slot of each platter.
    #[must_use]
    pub fn homes(&self) -> &[Slot] {
        &self.homes
    }

    /// The library's settings.
    #[must_use]
    pub fn settings(&self) -> &LibrarySettings {
        &self.settings
    }

    /// The shape of its sets.
    #[must_use]
    pub fn shape(&self) -> SetShape {
        self.shape
    }

    /// The most tracks that one of its platters may have.
    #[must_use]
    pub fn tracks(&self) -> u32 {
        self.tracks
    }

    /// The number of sets that it can hold.
    #[must_use]
    pub fn sets(&self) -> u32 {
        self.homes.len() as u32 / u32::from(self.shape.platters())
    }

    /// The platters of the set with this number, by position. A set may have fewer information
    /// platters than the shape, but no other redundancy: its platters are the first of these.
    pub fn platters_of(&self, set: u32) -> impl Iterator<Item = RegionPlatter> + use<> {
        let members = u32::from(self.shape.platters());
        (set * members..(set + 1) * members).map(RegionPlatter)
    }

    /// The slot of a platter.
    ///
    /// # Panics
    /// If there is no such platter.
    #[must_use]
    pub fn home(&self, platter: RegionPlatter) -> Slot {
        self.homes[platter.0 as usize]
    }

    /// Checks that a stock can be that of this library: it may come from a file.
    ///
    /// # Errors
    /// [`StockMismatch`] says what is wrong.
    pub fn check(&self, stock: &Stock) -> Result<(), StockMismatch> {
        let layout = &self.settings.layout;
        let wrong = |what: String| Err(StockMismatch(what));
        if stock.written as usize > self.homes.len() {
            return wrong(format!("{} platters are written, but it holds {} at most", stock.written, self.homes.len()));
        }
        if !stock.shuttles.is_empty() && stock.shuttles.len() != usize::from(layout.shuttles) {
            return wrong(format!("{} shuttles are somewhere, but it has {}", stock.shuttles.len(), layout.shuttles));
        }
        let is_inside = |x_um: i64| (0..=layout.width_um()).contains(&x_um);
        if let Some(outside) = stock.shuttles.iter().find(|at| at.shelf >= layout.shelves || !is_inside(at.x_um)) {
            return wrong(format!("a shuttle is at {} µm of shelf {}", outside.x_um, outside.shelf));
        }
        for (shuttle, shelf) in &stock.between {
            let at = stock.shuttles.get(usize::from(shuttle.0)).filter(|at| at.shelf.abs_diff(*shelf) == 1 && *shelf < layout.shelves);
            let is_out_of_order = stock.down.iter().chain(&stock.failed).any(|actor| *actor == Actor::Shuttle(*shuttle));
            if at.is_none() || !is_out_of_order {
                return wrong(format!("shuttle {} can't be between its shelf and shelf {shelf}", shuttle.0));
            }
        }
        if let Some(actor) = stock.down.iter().chain(&stock.failed).find(|actor| !self.has(**actor)) {
            return wrong(format!("{actor:?} is out of order, but doesn't exist"));
        }
        let homes: BTreeSet<Slot> = self.homes.iter().copied().collect();
        let (mut seen, mut taken) = (BTreeSet::new(), BTreeSet::new());
        for Found { platter, at, .. } in &stock.found {
            let home = self.homes.get(platter.0 as usize);
            let Some(home) = home.filter(|_| seen.insert(*platter)) else {
                return wrong(format!("platter {} is in two places, or doesn't exist", platter.0));
            };
            let exists = match at {
                Whereabouts::Unwritten | Whereabouts::Berth(Berth::Port) => continue,
                Whereabouts::Berth(Berth::Slot(slot)) => slot == home || (slot.0 < layout.slot_count() && !homes.contains(slot)),
                Whereabouts::Berth(Berth::Bay(drive, bay)) => self.has(Actor::Drive(*drive)) && bay.0 < 2,
                Whereabouts::Shuttle(shuttle) => self.has(Actor::Shuttle(*shuttle)),
            };
            if !exists || !taken.insert(format!("{at:?}")) {
                return wrong(format!("platter {} can't be in {at:?}, or another one is there", platter.0));
            }
        }
        Ok(())
    }

    pub(crate) fn has(&self, actor: Actor) -> bool {
        match actor {
            Actor::Shuttle(Shuttle(shuttle)) => shuttle < self.settings.layout.shuttles,
            Actor::Drive(Drive(drive)) => drive < self.settings.layout.drive_count(),
        }
    }

    /// The region of this library, with its platters and shuttles where the stock says.
    #[must_use]
    pub fn region(&self, stock: &Stock) -> Region {
        let members = u32::from(self.shape.platters());
        let count = self.homes.len() as u32;
        let inventory = Inventory {
            homes: self.homes.clone(),
            written: stock.written,
            tracks: self.tracks,
            verification: Verification::Written,
            sets: (0..count).map(|platter| platter / members).collect(),
            zones: self.settings.zones.clone(),
            found: stock.found.clone(),
            shuttles: stock.shuttles.clone(),
            between: stock.between.clone(),
        };
        let (pace, policy) = (self.settings.pace(self.track_bytes), self.settings.policy(self.track_bytes));
        let controller = Controller::new(self.settings.layout.clone(), pace, &inventory, policy);
        let places = (0..count).map(|platter| (LIBRARY, Platter(platter))).collect();
        Region::new(vec![controller], Sets { shape: self.shape, places }).with_small_sets()
    }

    /// The controllers and machines, not yet started. `log` makes their motion log, and `adjust`
    /// may change their settings.
    pub(crate) fn libraries<L: MotionLog>(
        &self,
        stock: &Stock,
        seed: u64,
        log: impl FnMut(&Layout) -> L,
        adjust: impl FnOnce(&mut Settings),
    ) -> Libraries<L> {
        let mut settings = self.settings.machines(self.track_bytes);
        adjust(&mut settings);
        Libraries::new(self.region(stock), |_| settings.clone(), seed, log)
    }

    /// The description for the header of a journal.
    pub fn description(&self, stock: &Stock) -> String {
        let Self { shape, tracks, track_bytes, .. } = self;
        let (homes, settings) = (digest(&self.homes), self.settings.canonical());
        format!("shape {shape}\ntracks {tracks}\ntrack_bytes {track_bytes}\nslots {homes:016x}\n{stock}settings\n{settings}")
    }

    /// Reads a description.
    ///
    /// # Errors
    /// [`DescriptionError`] says what is wrong.
    pub fn read(description: &str) -> Result<(Self, Stock), DescriptionError> {
        let mut lines = description.lines();
        let mut next = |word: &str, expected| {
            let line = lines.next().unwrap_or_default();
            let rest = line.strip_prefix(word).and_then(|rest| rest.strip_prefix(' '));
            rest.ok_or_else(|| DescriptionError::Line { found: line.to_owned(), expected })
        };
        let (shape, tracks) = (next("shape", "`shape` of the sets")?, next("tracks", "`tracks` of a platter")?);
        let (track_bytes, homes) = (next("track_bytes", "`track_bytes`")?, next("slots", "`slots` and their digest")?);
        let number = |word: &str| word.parse::<u64>().map_err(|_| DescriptionError::Line { found: word.to_owned(), expected: "a number" });
        let (information, redundancy) = shape.split_once('+').unwrap_or((shape, ""));
        let part = |word: &str| {
            let part = u16::try_from(number(word)?).ok().filter(|part| *part <= 64);
            part.ok_or_else(|| DescriptionError::Line { found: word.to_owned(), expected: "64 platters of a set at most" })
        };
        let shape = SetShape { information: part(information)?, redundancy: part(redundancy)? };
        if shape.information == 0 || shape.platters() > 64 {
            return Err(DescriptionError::Line { found: shape.to_string(), expected: "1 to 64 platters of a set" });
        }
        let tracks = u32::try_from(number(tracks)?).unwrap_or(u32::MAX).max(1);
        let track_bytes = number(track_bytes)?;
        let stock = Stock::parse(lines.by_ref().take_while(|line| *line != "settings"))?;
        let settings: String = lines.flat_map(|line| [line, "\n"]).collect();
        let plan = Self::new(LibrarySettings::parse("the journal's library", &settings)?, shape, tracks, track_bytes)?;
        if format!("{:016x}", digest(&plan.homes)) != homes {
            return Err(DescriptionError::OtherSlots);
        }
        plan.check(&stock)?;
        Ok((plan, stock))
    }
}

/// FNV-1a of the slots, to notice a program that assigns others.
fn digest(homes: &[Slot]) -> u64 {
    let bytes = homes.iter().flat_map(|slot| slot.0.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The fault that puts a machine out of order.
pub(crate) fn breakdown(actor: Actor) -> Breakdown {
    match actor {
        Actor::Shuttle(shuttle) => Breakdown::ShuttleStops(shuttle),
        Actor::Drive(drive) => Breakdown::DriveDown(drive),
    }
}
