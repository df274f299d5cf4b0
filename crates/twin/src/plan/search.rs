//! The smallest size that keeps the level, year after year.
//!
//! ```text
//!   libraries   fewest whose slots hold all sets; more while none of the largest library's drives and shuttles are enough
//!   drives      fewest, with as many shuttles as go with them
//!   shuttles    fewest, with those drives
//! ```
//!
//! Each is found by doubling steps from a guess and bisection, so that one fewer was tried and failed, or can't be by arithmetic.

use std::collections::BTreeMap;

use fulgurite_library::placement::{Planner, Spread};
use fulgurite_library::{Layout, Position};

use super::load::{Year, tracks_per_request};
use super::trial::trial;
use super::{Case, DecodeNeed, Energy, FailureEffect, Outcome, Plan, PlanError, Size, Trial, Unmet, YearPlan};
use super::{decoding, staging};

/// What makes something as large as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// No fewer are allowed.
    Minimum,
    /// Platters need slots.
    Slots,
    /// What is written has to be read back.
    Verification,
    /// The time within which reads have to be there.
    Level,
    /// Drives would read nearly all the time.
    DriveTime,
    /// Shuttles would carry nearly all the time.
    ShuttleTime,
}

impl Limit {
    /// In a word or two.
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

/// Plans all years of the horizon, or as many as there is a size for.
///
/// # Errors
/// [`PlanError`], if no library of this kind can be, or a trace can't be read. That nothing is large enough is told by
/// [`Outcome::unmet`].
pub fn plan(plan: &Plan) -> Result<Outcome, PlanError> {
    let mut planner = Search::new(plan)?;
    let mut years = Vec::new();
    let mut unmet = None;
    for number in 1..=plan.horizon {
        let year = plan.year(number);
        match planner.choose(&year)? {
            Ok(chosen) => years.push(planner.complete(year, chosen)?),
            Err(short) => {
                unmet = Some(*short);
                break;
            }
        }
    }
    let failures = years.last().map_or(Ok(Vec::new()), |last| planner.failures(last))?;
    Ok(Outcome { plan: plan.clone(), racks: planner.racks, years, unmet, failures })
}

/// A size that is enough, with what made it so large.
#[derive(Debug, Clone)]
pub(super) struct Chosen {
    limits: [Limit; 3],
    trial: Trial,
}

pub(super) struct Search<'p> {
    plan: &'p Plan,
    pub(super) racks: u8,
    /// Platters that sets can have in each, by the number of libraries.
    capacities: BTreeMap<u16, u64>,
    /// What was tried of the year.
    trials: BTreeMap<Size, Trial>,
    last: Option<Chosen>,
}

impl<'p> Search<'p> {
    pub(super) fn new(plan: &'p Plan) -> Result<Self, PlanError> {
        Ok(Self { plan, racks: racks(plan)?, capacities: BTreeMap::new(), trials: BTreeMap::new(), last: None })
    }

    /// The smallest size for a year that is not smaller than the last one, or what stands in the way.
    pub(super) fn choose(&mut self, year: &Year) -> Result<Result<Chosen, Box<Unmet>>, PlanError> {
        self.trials.clear();
        let last = self.last.as_ref().map(|chosen| (chosen.trial.size, chosen.limits));
        let Limits { most_libraries, fewest_drives, fewest_shuttles } = self.limits();
        let floor = last.map_or(Size { libraries: 1, drives: fewest_drives, shuttles: fewest_shuttles }, |(size, _)| size);
        let Some(for_slots) = self.for_slots(year, floor.libraries)? else {
            let size = self.largest(most_libraries);
            return Ok(Err(Box::new(Unmet { year: *year, size, limit: Limit::Slots, trial: None })));
        };
        let by_slots = if for_slots == 1 { Limit::Minimum } else { Limit::Slots };
        // What was enough last year may be enough.
        if let Some((size, mut limits)) = last {
            let trial = self.tried(year, Size { libraries: for_slots, ..size })?;
            if trial.short_of.is_none() {
                if size.libraries != for_slots {
                    limits[0] = by_slots;
                }
                let chosen = Chosen { limits, trial };
                self.last = Some(chosen.clone());
                return Ok(Ok(chosen));
            }
        }
        let ((libraries, libraries_limit), (drives, drives_limit)) = match self.drives(year, for_slots, floor.drives)? {
            Some(drives) => ((for_slots, by_slots), drives),
            None => match self.more_libraries(year, for_slots)? {
                Ok(libraries) => {
                    let drives = self.drives(year, libraries.0, floor.drives)?;
                    (libraries, drives.expect("the largest of so many libraries were enough"))
                }
                Err(short) => return Ok(Err(short)),
            },
        };
        let (shuttles, shuttles_limit) = self.shuttles(year, libraries, drives, floor.shuttles)?;
        let trial = self.tried(year, Size { libraries, drives, shuttles })?;
        let mut limits = [libraries_limit, drives_limit, shuttles_limit];
        if let Some((size, before)) = last {
            // As many as last year, for the same reason.
            let same = [size.libraries == libraries, size.drives == drives, size.shuttles == shuttles];
            (0..3).filter(|&index| same[index]).for_each(|index| limits[index] = before[index]);
        }
        let chosen = Chosen { limits, trial };
        self.last = Some(chosen.clone());
        Ok(Ok(chosen))
    }

    /// More libraries than `too_few`, so many that the largest of their kind are enough, with what fewer are short of.
    fn more_libraries(&mut self, year: &Year, too_few: u16) -> Result<Result<(u16, Limit), Box<Unmet>>, PlanError> {
        let most = self.plan.limits.libraries;
        let (mut low, mut limit) = (too_few, Limit::Level);
        let (mut best_s, mut in_vain) = (f64::INFINITY, 0);
        let mut libraries = too_few;
        let mut high = loop {
            let (short_of, trial) = self.largest_is_short_of(year, libraries)?;
            let Some(short_of) = short_of else { break libraries };
            // More libraries that don't help much will not do so later: what limits is not the load.
            let tail_s = trial.as_ref().map_or(f64::INFINITY, Trial::worst_tail_s);
            if short_of == Limit::Level && tail_s.is_finite() {
                in_vain = if tail_s > 0.9 * best_s { in_vain + 1 } else { 0 };
                best_s = best_s.min(tail_s);
            }
            if libraries >= most || in_vain >= 2 {
                return Ok(Err(Box::new(Unmet { year: *year, size: self.largest(libraries), limit: short_of, trial })));
            }
            (low, limit) = (libraries, short_of);
            libraries = libraries.saturating_mul(2).min(most);
        };
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match self.largest_is_short_of(year, middle)?.0 {
                Some(short_of) => (low, limit) = (middle, short_of),
                None => high = middle,
            }
        }
        Ok(Ok((high, limit)))
    }

    /// What the largest libraries are short of; arithmetic may tell without a trial.
    fn largest_is_short_of(&mut self, year: &Year, libraries: u16) -> Result<(Option<Limit>, Option<Trial>), PlanError> {
        let size = self.largest(libraries);
        if self.drives_for_written(year, libraries) > u32::from(size.drives) {
            return Ok((Some(Limit::Verification), None));
        }
        let trial = self.tried(year, size)?;
        Ok((trial.short_of, Some(trial)))
    }

    /// The fewest drives that are enough with as many shuttles as go with them, and what fewer are short of; none if the most are too few.
    fn drives(&mut self, year: &Year, libraries: u16, floor: u16) -> Result<Option<(u16, Limit)>, PlanError> {
        let most = self.largest(libraries).drives;
        let for_written = self.drives_for_written(year, libraries);
        if for_written > u32::from(most) {
            return Ok(None);
        }
        let low = floor.max(for_written as u16);
        let at_floor = if for_written > u32::from(floor) { Limit::Verification } else { Limit::Minimum };
        let guess = self.guess_drives(year, libraries).clamp(low, most);
        let found = self.smallest(low, most, guess, |search, drives| {
            let shuttles = search.most_shuttles(drives);
            Ok(search.tried(year, Size { libraries, drives, shuttles })?.short_of)
        })?;
        Ok(found.map(|(drives, short_of)| (drives, short_of.unwrap_or(at_floor))))
    }

    /// The fewest shuttles that are enough with these drives, and what fewer are short of. The most are enough.
    fn shuttles(&mut self, year: &Year, libraries: u16, drives: u16, floor: u16) -> Result<(u16, Limit), PlanError> {
        let most = self.most_shuttles(drives);
        let low = floor.min(most);
        let guess = self.guess_shuttles(year, libraries).clamp(low, most);
        let found =
            self.smallest(low, most, guess, |search, shuttles| Ok(search.tried(year, Size { libraries, drives, shuttles })?.short_of))?;
        let (shuttles, short_of) = found.expect("as many shuttles as go with the drives were enough");
        Ok((shuttles, short_of.unwrap_or(Limit::Minimum)))
    }

    /// The smallest of `low..=high` that is short of nothing, and what one fewer is short of, if there is one fewer; none if all are short
    /// of something.
    fn smallest(
        &mut self,
        low: u16,
        high: u16,
        guess: u16,
        mut short_of: impl FnMut(&mut Self, u16) -> Result<Option<Limit>, PlanError>,
    ) -> Result<Option<(u16, Option<Limit>)>, PlanError> {
        // All up to `failed` are too small, and from `enough` on none is.
        let (mut failed, mut enough) = (i32::from(low) - 1, i32::from(high) + 1);
        let mut why = None;
        let (mut next, mut step) = (i32::from(guess), 1);
        while enough - failed > 1 {
            next = next.clamp(failed + 1, enough - 1);
            match short_of(self, next as u16)? {
                Some(limit) => (failed, why, next) = (next, Some(limit), next + step),
                None => (enough, next) = (next, next - step),
            }
            // Away from the guess in growing steps, and in halves once it is between two.
            if failed >= i32::from(low) && enough <= i32::from(high) {
                next = failed + (enough - failed) / 2;
            }
            step *= 2;
        }
        Ok((enough <= i32::from(high)).then_some((enough as u16, why)))
    }

    fn tried(&mut self, year: &Year, size: Size) -> Result<Trial, PlanError> {
        if let Some(trial) = self.trials.get(&size) {
            return Ok(trial.clone());
        }
        let trial = trial(self.plan, self.racks, year, size, self.plan.failures.planned_for, true)?;
        self.trials.insert(size, trial.clone());
        Ok(trial)
    }

    fn limits(&self) -> Limits {
        let limits = &self.plan.limits;
        Limits { most_libraries: limits.libraries, fewest_drives: limits.drives[0], fewest_shuttles: limits.shuttles[0] }
    }

    fn largest(&self, libraries: u16) -> Size {
        let drives = self.plan.limits.drives[1];
        Size { libraries, drives, shuttles: self.most_shuttles(drives) }
    }

    /// At most two a drive (P, section 4).
    fn most_shuttles(&self, drives: u16) -> u16 {
        self.plan.limits.shuttles[1].min(2 * drives)
    }

    /// Drives that verify all the time for what a library writes, with the margin: no fewer can be enough.
    pub(super) fn drives_for_written(&self, year: &Year, libraries: u16) -> u32 {
        let wanted = year.written_bytes_s / f64::from(libraries) * (1.0 + self.plan.margin.verification);
        (wanted / self.plan.like.mechanics.drive.throughput_bytes_s).ceil() as u32
    }

    /// Drives with time for every request on a visit of its own beside verification.
    fn guess_drives(&self, year: &Year, libraries: u16) -> u16 {
        let (pace, drive) = (self.plan.like.pace(), &self.plan.like.mechanics.drive);
        let tracks = tracks_per_request(&self.plan.reads_like(), drive.track_bytes);
        let visit_s = pace.visit.seconds() + tracks * pace.track.seconds();
        let reading = year.reads_per_second * visit_s;
        let verifying = year.written_bytes_s * (1.0 + self.plan.margin.verification) / drive.throughput_bytes_s;
        ((reading + verifying) / f64::from(libraries)).ceil().min(f64::from(u16::MAX)) as u16
    }

    /// Shuttles with time to bring a platter for every request, and to take it back.
    fn guess_shuttles(&self, year: &Year, libraries: u16) -> u16 {
        let layout = &self.plan.like.layout;
        let quarter = i64::from(self.racks) * layout.rack_width_um / 4;
        let at = |x_um| Position { shelf: 0, x_um };
        let handling_s = self.plan.like.pace().handling(at(quarter + layout.rack_width_um / 2), at(0)).seconds();
        let busy = year.reads_per_second / f64::from(libraries) * handling_s;
        (busy / (1.0 - self.plan.margin.idle)).ceil().min(f64::from(u16::MAX)) as u16
    }

    /// Platters that sets can have in so many libraries.
    pub(super) fn capacity(&mut self, libraries: u16) -> Result<u64, PlanError> {
        if let Some(known) = self.capacities.get(&libraries) {
            return Ok(*known);
        }
        let layout = Layout { storage_racks: self.racks, ..self.plan.like.layout.clone() };
        let sets = &self.plan.like.sets;
        let members = usize::from(sets.shape.platters());
        let placed = if libraries == 1 {
            let mut planner = Planner::new(&layout, &sets.zones)?;
            let mut placed = 0;
            while planner.place_set(members).is_some() {
                placed += 1;
            }
            placed
        } else {
            Spread::new(&layout, &sets.zones, libraries.into(), members)?.sets()
        };
        let usable = (placed as f64 * (1.0 - self.plan.margin.slots)) as u64 * members as u64;
        self.capacities.insert(libraries, usable);
        Ok(usable)
    }

    /// The fewest libraries, from `from` on, whose slots hold a year's sets; none if all that may be don't.
    fn for_slots(&mut self, year: &Year, from: u16) -> Result<Option<u16>, PlanError> {
        let layout = &self.plan.like.layout;
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

    /// All else that is to be known of a year.
    fn complete(&mut self, year: Year, chosen: Chosen) -> Result<YearPlan, PlanError> {
        let Chosen { limits, trial } = chosen;
        let size = trial.size;
        let capacity_platters = self.capacity(size.libraries)?;
        let decode = decoding::need(self.plan, self.racks, &year, &trial)?;
        let content = self.plan.platter_bytes() / self.plan.written_per_byte();
        Ok(YearPlan {
            staging_bytes: staging::bytes(self.plan, &year, &trial)?,
            energy_kwh: energy(self.plan, &year, &trial, &decode),
            full_after_years: self.plan.years_until(capacity_platters as f64 * content),
            year,
            size,
            limits,
            trial,
            decode,
            capacity_platters,
        })
    }

    /// What failures do to a year.
    fn failures(&mut self, last: &YearPlan) -> Result<Vec<FailureEffect>, PlanError> {
        let plan = self.plan;
        let level_s = plan.service.in_library().seconds();
        let mut effects = Vec::new();
        for case in [Case::ByChance, Case::Machines, Case::Library] {
            let (size, shape) = (last.size, plan.like.sets.shape);
            if case == Case::Machines && (size.drives < 2 || size.shuttles < 2) {
                let account = "with one drive or shuttle, nothing is read while it is down".to_owned();
                effects.push(FailureEffect { case, trial: None, keeps_level: false, account });
                continue;
            }
            if case == Case::Library {
                let together = usize::from(shape.platters()).div_ceil(size.libraries.into());
                if together > usize::from(shape.redundancy) {
                    let needed = shape.platters().div_ceil(shape.redundancy.max(1));
                    let account = format!(
                        "{together} platters of each set are in it, and {} may be missing: what it holds waits until it is back; with \
                         {needed} libraries it would not",
                        shape.redundancy
                    );
                    effects.push(FailureEffect { case, trial: None, keeps_level: false, account });
                    continue;
                }
            }
            let trial = trial(plan, self.racks, &last.year, size, case, false)?;
            let keeps_level = trial.worst_tail_s() <= level_s && trial.lost == 0.0;
            let account = account(plan, case, last, &trial, keeps_level);
            effects.push(FailureEffect { case, trial: Some(trial), keeps_level, account });
        }
        Ok(effects)
    }
}

/// By the names that the search uses.
struct Limits {
    most_libraries: u16,
    fewest_drives: u16,
    fewest_shuttles: u16,
}

/// The racks that are set, or the fewest that hold a set.
fn racks(plan: &Plan) -> Result<u8, PlanError> {
    const MOST: u8 = 30;
    if let Some(racks) = plan.limits.racks {
        return Ok(racks);
    }
    let members = usize::from(plan.like.sets.shape.platters());
    let mut most = 0;
    for racks in 1..=MOST {
        let layout = Layout { storage_racks: racks, ..plan.like.layout.clone() };
        most = Planner::new(&layout, &plan.like.sets.zones)?.most();
        if most >= members {
            return Ok(racks);
        }
    }
    Err(PlanError::NoRacks { members, racks: MOST, most })
}

const YEAR_H: f64 = 365.25 * 24.0;

/// Energy of a year. Drives verify what is written, and no more.
fn energy(plan: &Plan, year: &Year, trial: &Trial, decode: &DecodeNeed) -> Energy {
    let libraries = f64::from(trial.size.libraries);
    let (shuttles, drives) = (libraries * f64::from(trial.size.shuttles), libraries * f64::from(trial.size.drives));
    let verifying = year.written_bytes_s / plan.like.mechanics.drive.throughput_bytes_s;
    let busy = (drives * trial.reading + verifying).min(drives);
    let kwh = |watts: f64| watts * YEAR_H / 1e3;
    Energy {
        shuttles: kwh(trial.motion_w + shuttles * plan.like.mechanics.power.idle_w),
        drives: kwh(busy * plan.draws.drive_busy_w + (drives - busy) * plan.draws.drive_idle_w),
        decoding: kwh(decode.mean * plan.draws.worker_w),
    }
}

/// What a failure does, in a sentence.
fn account(plan: &Plan, case: Case, last: &YearPlan, trial: &Trial, keeps_level: bool) -> String {
    let (before, after) = (last.trial.worst_tail_s(), trial.worst_tail_s());
    let verdict = if keeps_level { "the level is kept" } else { "the level is not kept" };
    let ended = if after.is_finite() {
        format!("the tail is {} instead of {}, {verdict}", super::report::time(after), super::report::time(before))
    } else {
        "not all reads end in time, the level is not kept".to_owned()
    };
    let verified = if trial.verification < 1.0 { ", and verification falls behind what is written" } else { "" };
    let lost = if trial.lost > 0.0 { format!(", {:.3} % of the reads wait for a repair", 100.0 * trial.lost) } else { String::new() };
    let often = if case == Case::ByChance {
        let libraries = f64::from(last.size.libraries);
        let drives = libraries * f64::from(last.size.drives) * YEAR_H / plan.failures.drive_hours;
        let moving = libraries * f64::from(last.size.shuttles) * last.trial.shuttles_moving * YEAR_H;
        let shuttles = moving / plan.failures.shuttle_hours;
        format!("; {drives:.1} drives and {shuttles:.1} shuttles fail in a year")
    } else {
        String::new()
    };
    format!("{ended}{verified}{lost}{often}")
}
