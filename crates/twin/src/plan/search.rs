//! Searches for the smallest size that keeps the service level, year after year.
//!
//! ```text
//!   libraries   fewest whose slots hold all sets; more if even their most drives are not enough
//!   drives      more while drives are short of time, then fewer by bisection
//!   shuttles    more while shuttles are short of time or reads are late, then fewer by bisection
//! ```
//!
//! Drives and shuttles are searched together, starting from last year's size or from an arithmetic
//! guess. They depend on each other: more shuttles bring more platters, which leaves drives less
//! time to verify. At the end, one drive fewer and one shuttle fewer were both tried and failed, or
//! are ruled out by arithmetic, by the configured minimum or by last year's size.

use std::collections::BTreeMap;

use fulgurite_library::placement::{PlacementError, Planner, Spread};
use fulgurite_library::{Layout, Position};

use super::load::{YEAR_H, Year, tracks_per_request};
use super::trial::Trials;
use super::{DecodeNeed, Energy, Outcome, Plan, PlanError, Size, Trial, Unmet, YearPlan};
use super::{decoding, failures, staging};

/// What keeps a size from being smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The configured minimum.
    Minimum,
    /// Slots for the platters.
    Slots,
    /// Everything written must be read back.
    Verification,
    /// The time limit of reads.
    Level,
    /// Drives would read nearly all the time.
    DriveTime,
    /// Shuttles would carry nearly all the time.
    ShuttleTime,
}

impl Limit {
    /// A name of one or two words.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Minimum => "minimum",
            Self::Slots => "slots",
            Self::Verification => "verification",
            Self::Level => "service level",
            Self::DriveTime => "drive time",
            Self::ShuttleTime => "shuttle time",
        }
    }
}

/// Plans all years of the horizon, or the first ones for which a size is found.
///
/// # Errors
/// [`PlanError`] if such a library is impossible, or a trace can't be read. If no size is large
/// enough, the result says so in [`Outcome::unmet`].
pub fn plan(plan: &Plan) -> Result<Outcome, PlanError> {
    let mut search = Search::new(plan)?;
    let mut years = Vec::new();
    let mut unmet = None;
    for number in 1..=plan.horizon {
        let year = plan.year(number);
        match search.choose(&year)? {
            Ok(chosen) => years.push(search.complete(year, chosen)?),
            Err(short) => {
                unmet = Some(*short);
                break;
            }
        }
    }
    let failures = years.last().map_or(Ok(Vec::new()), |last| failures::effects(plan, &mut search.trials, last))?;
    Ok(Outcome { plan: plan.clone(), racks: search.racks, years, unmet, failures })
}

/// A tail above this part of the best one so far is hardly a gain.
const GAIN_BELOW: f64 = 0.9;
/// Number of times in a row that more libraries may bring hardly any gain.
const IN_VAIN_MAX: u32 = 3;

/// A size, and what one drive and one shuttle fewer lack.
type Machines = (Size, [Limit; 2]);

/// An insufficient size that can't grow with this number of libraries.
struct Short {
    size: Size,
    limit: Limit,
    trial: Option<Trial>,
}

/// A sufficient size, and what keeps it from being smaller.
#[derive(Debug, Clone)]
pub(super) struct Chosen {
    bound_by: [Limit; 3],
    trial: Trial,
}

pub(super) struct Search<'p> {
    plan: &'p Plan,
    pub(super) racks: u8,
    /// Platters of sets that fit, less the margin of slots, by the number of libraries.
    capacities: BTreeMap<u16, u64>,
    trials: Trials<'p>,
    /// Sizes tried for the current year.
    tried: BTreeMap<Size, Trial>,
    last: Option<Chosen>,
}

impl<'p> Search<'p> {
    pub(super) fn new(plan: &'p Plan) -> Result<Self, PlanError> {
        let racks = racks(plan)?;
        let trials = Trials::new(plan, racks);
        Ok(Self { plan, racks, capacities: BTreeMap::new(), trials, tried: BTreeMap::new(), last: None })
    }

    /// The smallest size for a year that is not below last year's, or what prevents it.
    pub(super) fn choose(&mut self, year: &Year) -> Result<Result<Chosen, Box<Unmet>>, PlanError> {
        self.tried.clear();
        let last = self.last.as_ref().map(|chosen| (chosen.trial.size, chosen.bound_by));
        let limits = &self.plan.limits;
        let floor = last.map_or(Size { libraries: 1, drives: limits.drives[0], shuttles: limits.shuttles[0] }, |(size, _)| size);
        let Some(for_slots) = self.for_slots(year, floor.libraries)? else {
            let size = Size { libraries: limits.libraries, drives: limits.drives[1], shuttles: self.most_shuttles(limits.drives[1]) };
            return Ok(Err(Box::new(Unmet { year: *year, size, limit: Limit::Slots, trial: None })));
        };
        let by_slots = if for_slots == 1 { Limit::Minimum } else { Limit::Slots };
        let mut found = self.machines(year, for_slots, floor)?;
        let mut libraries_limit = by_slots;
        if let Err(short) = found {
            (found, libraries_limit) = match self.more_libraries(year, floor, short)? {
                Ok((machines, limit)) => (Ok(machines), limit),
                Err(short) => return Ok(Err(short)),
            };
        }
        let Ok((size, [drives_limit, shuttles_limit])) = found else { unreachable!("more libraries are enough, or the year is unmet") };
        let mut bound_by = [libraries_limit, drives_limit, shuttles_limit];
        if let Some((before, bound_before)) = last {
            // Numbers unchanged since last year keep last year's reason.
            let same = [before.libraries == size.libraries, before.drives == size.drives, before.shuttles == size.shuttles];
            (0..3).filter(|&index| same[index]).for_each(|index| bound_by[index] = bound_before[index]);
        }
        let chosen = Chosen { bound_by, trial: self.tried(year, size)? };
        self.last = Some(chosen.clone());
        Ok(Ok(chosen))
    }

    /// Finds the fewest libraries above `short`, with their machines, and what one library fewer
    /// lacks.
    fn more_libraries(&mut self, year: &Year, floor: Size, mut short: Short) -> Result<Result<(Machines, Limit), Box<Unmet>>, PlanError> {
        let most = self.plan.limits.libraries;
        let (mut best_s, mut in_vain, mut step) = (f64::INFINITY, 0, 1_u16);
        let (mut high, mut machines) = loop {
            // If several more libraries barely help, further ones won't either: the load is not the
            // limit.
            let tail_s = short.trial.as_ref().map_or(f64::INFINITY, Trial::worst_tail_s);
            if short.limit == Limit::Level && tail_s.is_finite() {
                in_vain = if tail_s > GAIN_BELOW * best_s { in_vain + 1 } else { 0 };
                best_s = best_s.min(tail_s);
            }
            if short.size.libraries >= most || in_vain >= IN_VAIN_MAX {
                return Ok(Err(Box::new(Unmet { year: *year, size: short.size, limit: short.limit, trial: short.trial })));
            }
            let libraries = short.size.libraries.saturating_add(step).min(most);
            step = step.saturating_mul(2);
            match self.machines(year, libraries, floor)? {
                Ok(machines) => break (libraries, machines),
                Err(still) => short = still,
            }
        };
        while high - short.size.libraries > 1 {
            let middle = short.size.libraries + (high - short.size.libraries) / 2;
            match self.machines(year, middle, floor)? {
                Ok(enough) => (high, machines) = (middle, enough),
                Err(still) => short = still,
            }
        }
        Ok(Ok((machines, short.limit)))
    }

    /// Drives and shuttles for this number of libraries such that neither can be one fewer, with
    /// what fewer would lack; or what even the most drives lack.
    fn machines(&mut self, year: &Year, libraries: u16, floor: Size) -> Result<Result<Machines, Short>, PlanError> {
        let most_drives = self.plan.limits.drives[1];
        let for_written = self.drives_for_written(year, libraries);
        if for_written > u32::from(most_drives) {
            let size = Size { libraries, drives: most_drives, shuttles: self.most_shuttles(most_drives) };
            return Ok(Err(Short { size, limit: Limit::Verification, trial: None }));
        }
        let low_drives = floor.drives.max(for_written as u16);
        let drives_at_floor = if for_written > u32::from(floor.drives) { Limit::Verification } else { Limit::Minimum };
        let (mut drives, mut shuttles) = (low_drives, floor.shuttles.min(self.most_shuttles(low_drives)));
        if self.last.is_none() {
            drives = self.guess_drives(year, libraries).clamp(low_drives, most_drives);
            shuttles = self.guess_shuttles(year, libraries).clamp(shuttles, self.most_shuttles(drives));
        }
        // The largest numbers known to be too few.
        let (mut few_drives, mut few_shuttles) = (low_drives - 1, floor.shuttles - 1);
        let (mut more_drives, mut more_shuttles) = (1, 1);
        loop {
            let size = Size { libraries, drives, shuttles };
            let trial = self.tried(year, size)?;
            let Some(limit) = trial.short_of else { break };
            let of_shuttles = matches!(limit, Limit::Level | Limit::ShuttleTime);
            if of_shuttles && shuttles < self.most_shuttles(drives) {
                few_shuttles = shuttles;
                shuttles = (shuttles + more_shuttles).min(self.most_shuttles(drives));
                more_shuttles *= 2;
            } else if drives < most_drives {
                few_drives = drives;
                drives = (drives + more_drives).min(most_drives);
                more_drives *= 2;
            } else {
                return Ok(Err(Short { size, limit, trial: Some(trial) }));
            }
        }
        let short_of = |search: &mut Self, drives: u16, shuttles: u16| -> Result<Option<Limit>, PlanError> {
            let shuttles = shuttles.min(search.most_shuttles(drives));
            Ok(search.tried(year, Size { libraries, drives, shuttles })?.short_of)
        };
        while drives - few_drives > 1 {
            let middle = few_drives + (drives - few_drives) / 2;
            if short_of(self, middle, shuttles)?.is_some() { few_drives = middle } else { drives = middle }
        }
        shuttles = shuttles.min(self.most_shuttles(drives));
        few_shuttles = few_shuttles.min(shuttles - 1);
        while shuttles - few_shuttles > 1 {
            let middle = few_shuttles + (shuttles - few_shuttles) / 2;
            if short_of(self, drives, middle)?.is_some() { few_shuttles = middle } else { shuttles = middle }
        }
        // A failure may have been tried with other numbers of the other machine.
        loop {
            let by_shuttles = if shuttles > floor.shuttles { short_of(self, drives, shuttles - 1)? } else { Some(Limit::Minimum) };
            let Some(by_shuttles) = by_shuttles else {
                shuttles -= 1;
                continue;
            };
            let by_drives = if drives > low_drives { short_of(self, drives - 1, shuttles)? } else { Some(drives_at_floor) };
            let Some(by_drives) = by_drives else {
                drives -= 1;
                shuttles = shuttles.min(self.most_shuttles(drives));
                continue;
            };
            return Ok(Ok((Size { libraries, drives, shuttles }, [by_drives, by_shuttles])));
        }
    }

    fn tried(&mut self, year: &Year, size: Size) -> Result<Trial, PlanError> {
        if let Some(trial) = self.tried.get(&size) {
            return Ok(trial.clone());
        }
        // Last year's size is likely to be enough, so its trial runs all seeds.
        let gives_up = self.last.is_none() || !self.tried.is_empty();
        let trial = self.trials.run(year, size, self.plan.failures.planned_for, gives_up)?;
        self.tried.insert(size, trial.clone());
        Ok(trial)
    }

    /// At most two per drive (SOSP '23, section 4).
    fn most_shuttles(&self, drives: u16) -> u16 {
        self.plan.limits.shuttles[1].min(2 * drives)
    }

    /// Drives needed if they only verified a library's writes, with the margin: a lower bound.
    pub(super) fn drives_for_written(&self, year: &Year, libraries: u16) -> u32 {
        let wanted = year.written_bytes_s / f64::from(libraries) * (1.0 + self.plan.margin.verification);
        (wanted / self.plan.template.mechanics.drive.throughput_bytes_s).ceil() as u32
    }

    /// Drives with enough time for a separate visit per request, in addition to verification.
    fn guess_drives(&self, year: &Year, libraries: u16) -> u16 {
        let (pace, drive) = (self.plan.template.pace(), &self.plan.template.mechanics.drive);
        let tracks = tracks_per_request(&self.plan.reads_like(), drive.track_bytes);
        let visit_s = pace.visit.seconds() + tracks * pace.track.seconds();
        let reading = year.reads_per_second * visit_s;
        let verifying = year.written_bytes_s * (1.0 + self.plan.margin.verification) / drive.throughput_bytes_s;
        ((reading + verifying) / f64::from(libraries)).ceil().min(f64::from(u16::MAX)) as u16
    }

    /// Shuttles with enough time to bring and return a platter for every request.
    fn guess_shuttles(&self, year: &Year, libraries: u16) -> u16 {
        let layout = &self.plan.template.layout;
        // The mean way to the nearer end: half of the racks up to the middle, and half a read rack.
        let quarter = i64::from(self.racks) * layout.rack_width_um / 4;
        let at = |x_um| Position { shelf: 0, x_um };
        let handling_s = self.plan.template.pace().handling(at(quarter + layout.rack_width_um / 2), at(0)).seconds();
        let busy = year.reads_per_second / f64::from(libraries) * handling_s;
        (busy / (1.0 - self.plan.margin.idle)).ceil().min(f64::from(u16::MAX)) as u16
    }

    /// Platters of sets that fit into this number of libraries, less the margin of slots.
    pub(super) fn capacity(&mut self, libraries: u16) -> Result<u64, PlanError> {
        if let Some(known) = self.capacities.get(&libraries) {
            return Ok(*known);
        }
        let layout = Layout { storage_racks: self.racks, ..self.plan.template.layout.clone() };
        let sets = &self.plan.template.sets;
        let members = usize::from(sets.shape.platters());
        let placed = if libraries == 1 {
            let mut planner = Planner::new(&layout, &sets.zones)?;
            let mut placed = 0;
            while planner.place_set(members).is_some() {
                placed += 1;
            }
            placed
        } else {
            match Spread::new(&layout, &sets.zones, libraries.into(), members) {
                Ok(spread) => spread.sets(),
                // More libraries may hold what these can't.
                Err(PlacementError::TooManyMembers { .. }) => 0,
                Err(error) => return Err(error.into()),
            }
        };
        let usable = (placed as f64 * (1.0 - self.plan.margin.slots)) as u64 * members as u64;
        self.capacities.insert(libraries, usable);
        Ok(usable)
    }

    /// The fewest libraries, at least `from`, whose slots hold a year's sets; `None` if even the
    /// most allowed don't.
    fn for_slots(&mut self, year: &Year, from: u16) -> Result<Option<u16>, PlanError> {
        let layout = &self.plan.template.layout;
        let slots = u64::from(self.racks) * u64::from(layout.shelves) * u64::from(layout.slots);
        let least = year.platters.div_ceil(slots.max(1));
        let mut libraries = least.max(from.into());
        while libraries <= self.plan.limits.libraries.into() {
            if self.capacity(libraries as u16)? >= year.platters {
                return Ok(Some(libraries as u16));
            }
            libraries += 1;
        }
        Ok(None)
    }

    fn complete(&mut self, year: Year, chosen: Chosen) -> Result<YearPlan, PlanError> {
        let Chosen { bound_by, trial } = chosen;
        let size = trial.size;
        let capacity_platters = self.capacity(size.libraries)?;
        let decode = decoding::need(self.plan, &year, &trial);
        let content = self.plan.platter_bytes() / self.plan.written_per_byte();
        Ok(YearPlan {
            staging_bytes: staging::bytes(self.plan, &year, &trial)?,
            energy_kwh: energy(self.plan, &year, &trial, &decode),
            full_after_years: self.plan.years_until(capacity_platters as f64 * content),
            year,
            size,
            bound_by,
            trial,
            decode,
            capacity_platters,
        })
    }
}

/// The configured racks, or the fewest that hold a set.
fn racks(plan: &Plan) -> Result<u8, PlanError> {
    const RACKS_MAX: u8 = 30;
    if let Some(racks) = plan.limits.racks {
        return Ok(racks);
    }
    let members = usize::from(plan.template.sets.shape.platters());
    let mut most = 0;
    for racks in 1..=RACKS_MAX {
        let layout = Layout { storage_racks: racks, ..plan.template.layout.clone() };
        most = Planner::new(&layout, &plan.template.sets.zones)?.most();
        if most >= members {
            return Ok(racks);
        }
    }
    Err(PlanError::NoRacks { members, racks: RACKS_MAX, most })
}

/// Energy of a year. Drives verify exactly what is written.
fn energy(plan: &Plan, year: &Year, trial: &Trial, decode: &DecodeNeed) -> Energy {
    let libraries = f64::from(trial.size.libraries);
    let (shuttles, drives) = (libraries * f64::from(trial.size.shuttles), libraries * f64::from(trial.size.drives));
    let verifying = year.written_bytes_s / plan.template.mechanics.drive.throughput_bytes_s;
    let busy = (drives * trial.reading + verifying).min(drives);
    let kwh = |watts: f64| watts * YEAR_H / 1e3;
    Energy {
        shuttles: kwh(trial.motion_w + shuttles * plan.template.mechanics.power.idle_w),
        drives: kwh(busy * plan.power_draw.drive_busy_w + (drives - busy) * plan.power_draw.drive_idle_w),
        decoding: kwh(decode.mean * plan.power_draw.worker_w),
    }
}
