//! Places the platters of a scenario: sets in slots, each platter with its number in its library
//! and in the region.

use fulgurite_chance::Stream;
use fulgurite_library::placement::{Planner, Spread};
use fulgurite_library::{Inventory, Library, Platter, RegionPlatter, Slot, Verification};
use fulgurite_workload::Platters;

use super::{Scenario, ScenarioError};

/// The platters of all libraries. Region numbers count set by set: first the written sets, then
/// those still to be written.
#[derive(Debug, Clone)]
pub struct Stock {
    /// Contents of each library.
    pub inventories: Vec<Inventory>,
    /// Location of each platter of the region.
    pub sets: fulgurite_library::Sets,
    /// Platters of the region that are written at the start.
    pub written: u32,
    /// The readable platters, as the workload counts them.
    pub readable: Platters,
    /// Unavailable platters, in order.
    pub unavailable: Vec<RegionPlatter>,
}

impl Scenario {
    /// Assigns a slot to every platter. The seed only chooses the unavailable platters.
    ///
    /// # Errors
    /// [`ScenarioError::TooManyPlatters`] says how many fit. [`ScenarioError::NoSet`] if the wanted
    /// platters and the room for ingest don't make up one complete set, or that room leaves none.
    /// Errors of the planner are passed on.
    pub fn stock(&self, seed: u64) -> Result<Stock, ScenarioError> {
        let members = usize::from(self.sets.shape.platters());
        let libraries = u64::from(self.libraries);
        let room = self.ingest.map_or(0, |ingest| ingest.room);
        let sets_of = |platters: u32| u64::from(platters) * libraries / members as u64;
        let wanted = if self.platters == 0 { u64::MAX } else { sets_of(self.platters) + sets_of(room) };
        let mut homes = vec![Vec::new(); self.libraries.into()];
        let mut places = Vec::new();
        let mut put = |library: u32, slot: Slot| {
            let homes: &mut Vec<Slot> = &mut homes[library as usize];
            places.push((Library(library as u16), Platter(homes.len() as u32)));
            homes.push(slot);
        };
        let placed = if libraries == 1 {
            let mut planner = Planner::new(&self.layout, &self.sets.zones)?;
            // `Spread::new` distinguishes a set that is too large for the library from one that
            // merely has no room left.
            if members > planner.most() {
                Spread::new(&self.layout, &self.sets.zones, 1, members)?;
            }
            let mut sets = 0;
            while sets < wanted
                && let Some(slots) = planner.place_set(members)
            {
                slots.into_iter().for_each(|slot| put(0, slot));
                sets += 1;
            }
            sets
        } else {
            let spread = Spread::new(&self.layout, &self.sets.zones, self.libraries.into(), members)?;
            let sets = spread.sets().min(wanted);
            for set in 0..sets {
                for position in 0..members {
                    let (library, slot) = spread.place(set, position).expect("the set and the position are among those that fit");
                    put(library, slot);
                }
            }
            sets
        };
        if sets_of(self.platters) == 0 && placed <= sets_of(room) || placed == 0 {
            return Err(ScenarioError::NoSet { wanted: self.platters, libraries: self.libraries, shape: self.sets.shape });
        }
        if self.platters > 0 && placed < wanted {
            let fit = (placed * members as u64 / libraries) as u32;
            let (shape, libraries, wanted) = (self.sets.shape, self.libraries, self.platters + room);
            return Err(ScenarioError::TooManyPlatters { wanted, fit, sets: placed, shape, libraries });
        }
        let written_sets = placed - sets_of(room);
        let written = written_sets as usize * members;
        let mut counts = vec![0; self.libraries.into()];
        places[..written].iter().for_each(|(library, _)| counts[usize::from(library.0)] += 1);
        let mut sets = vec![Vec::new(); self.libraries.into()];
        places.iter().enumerate().for_each(|(index, (library, _))| sets[usize::from(library.0)].push((index / members) as u32));
        let inventory = |(library, ((homes, written), sets))| {
            let zones = self.sets.zones.clone();
            let verification = if library < usize::from(self.away) { Verification::Off } else { self.verification };
            Inventory { homes, written, tracks: self.tracks, verification, sets, zones, ..Inventory::default() }
        };
        Ok(Stock {
            inventories: homes.into_iter().zip(counts).zip(sets).enumerate().map(inventory).collect(),
            unavailable: self.unavailable(&places[..written], seed),
            sets: fulgurite_library::Sets { shape: self.sets.shape, places },
            written: written as u32,
            readable: self.readable_of(written_sets),
        })
    }

    /// All platters of the libraries that are away, plus others drawn at random up to the wanted
    /// share, each unless its set has already lost as many as its redundancy.
    fn unavailable(&self, written: &[(Library, Platter)], seed: u64) -> Vec<RegionPlatter> {
        let is_away = |platter: u32| written[platter as usize].0.0 < self.away;
        let written_count = written.len() as u32;
        let mut chosen: Vec<RegionPlatter> = match self.away {
            0 => Vec::new(),
            _ => (0..written_count).filter(|&platter| is_away(platter)).map(RegionPlatter).collect(),
        };
        let wanted = (self.sets.unavailable * f64::from(written_count) + 0.5) as usize;
        if wanted == 0 {
            return chosen;
        }
        let members = u32::from(self.sets.shape.platters());
        let mut stream = Stream::new(seed, "unavailable platters");
        let mut order: Vec<u32> = (0..written_count).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, stream.below(last as u64 + 1) as usize);
        }
        let mut lost = vec![0_u16; (written_count / members) as usize];
        chosen.iter().for_each(|platter| lost[(platter.0 / members) as usize] += 1);
        let others = order
            .into_iter()
            .filter(|platter| !is_away(*platter))
            .filter(|platter| {
                let lost = &mut lost[(platter / members) as usize];
                let may = *lost < self.sets.shape.redundancy;
                *lost += u16::from(may);
                may
            })
            .map(RegionPlatter)
            .take(wanted);
        chosen.extend(others);
        chosen.sort_unstable();
        chosen
    }
}

impl Stock {
    /// The same placement for another seed, which draws other unavailable platters.
    #[must_use]
    pub fn for_seed(&self, scenario: &Scenario, seed: u64) -> Self {
        Self { unavailable: scenario.unavailable(&self.sets.places[..self.written as usize], seed), ..self.clone() }
    }

    /// The platter that the workload calls its `index`th: only information platters are read.
    #[must_use]
    pub fn region_platter(&self, index: u32) -> RegionPlatter {
        let shape = self.sets.shape;
        let information = u32::from(shape.information);
        RegionPlatter(index / information * u32::from(shape.platters()) + index % information)
    }
}
