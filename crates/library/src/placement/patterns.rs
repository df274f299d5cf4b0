//! Patterns: every choice of cells for a set that keeps the rule, as a graph for dynamic
//! programming from rack to rack.
//!
//! ```text
//! rack 0        rack 1        rack 2               a state: the shelves used in the last racks that still matter (two, with
//!  {}  --{0,4}-->  A  --{1,5,9}-->  C  -- ...               zones at most three racks wide)
//!    \-{1,5,9}-->  B  --{0,4,8}-->  D  -- ...      an edge:  the shelves that the set uses in the next rack
//! ```
//!
//! The shelves of one rack can be chosen in few ways (36 for 10 shelves, 4 apart) and those of two
//! racks in 903, so an exact answer is cheap. A [`Search`] is the part of the graph through which
//! sets of one size reach the last rack; for sets as large as the rule allows, little of the graph
//! is left.

use std::collections::BTreeMap;

use super::{PlacementError, Zones};

/// The weight of a cell that must not be used.
pub const BLOCKED: i64 = i64::MIN;

/// Smaller than any sum of weights, yet far enough from overflow to be added to.
const NONE: i64 = i64::MIN / 2;

/// The largest weight; it keeps every sum clear of [`NONE`].
const WEIGHT_MAX: i64 = 1 << 48;

// Limits that keep the graph small enough for an exact answer.
/// Shelves of a rack: the bits of a [`Subset`]'s mask.
const SHELVES_MAX: usize = 128;
const SUBSETS_MAX: usize = 1_024;
const STATES_MAX: usize = 65_536;
const EDGES_MAX: usize = 1_000_000;

/// Shelves of one rack that a set uses together.
#[derive(Debug, Clone)]
struct Subset {
    mask: u128,
    shelves: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Edge {
    subset: u16,
    next: u32,
}

/// All choices of cells that keep the rule, for sets of any size.
#[derive(Debug, Clone)]
pub struct Patterns {
    racks: usize,
    shelves: usize,
    subsets: Vec<Subset>,
    /// The edges of a state are `edges[first_edge[state]..first_edge[state + 1]]`; state 0 is the
    /// start, at the first rack.
    first_edge: Vec<usize>,
    edges: Vec<Edge>,
    /// Most members from a rack on, `[rack][state]`.
    most_from: Vec<Vec<usize>>,
}

impl Patterns {
    /// Builds the patterns for this number of storage racks and shelves.
    ///
    /// # Errors
    /// [`PlacementError::TooLarge`] if there are too many choices, and the errors of
    /// [`Zones::check`].
    pub fn new(racks: usize, shelves: usize, zones: &Zones) -> Result<Self, PlacementError> {
        zones.check()?;
        let too_large = |what, limit| PlacementError::TooLarge { racks, shelves, what, limit };
        if shelves > SHELVES_MAX {
            return Err(too_large("shelves", SHELVES_MAX));
        }
        let spacing = zones.shelves_within(0);
        let subsets = subsets(shelves, spacing).ok_or_else(|| too_large("ways to use one rack", SUBSETS_MAX))?;
        // A zone wider than the panel adds nothing to one as wide as the panel.
        let memory = zones.racks_within().min(racks).saturating_sub(1);
        let within: Vec<usize> = (0..=memory).map(|apart| zones.shelves_within(apart)).collect();
        // The shelves that this subset forbids in the rack `apart` racks further on.
        let shadow = |subset: u16, apart: usize| widen(subsets[usize::from(subset)].mask, within[apart], shelves);

        // A state is the subsets of the last racks, latest first.
        let mut numbers = BTreeMap::from([(vec![0_u16; memory], 0_u32)]);
        let mut states = vec![vec![0_u16; memory]];
        let (mut first_edge, mut edges) = (vec![0], Vec::new());
        while let Some(state) = states.get(first_edge.len() - 1).cloned() {
            let taken = state.iter().enumerate().fold(0, |taken, (index, &subset)| taken | shadow(subset, index + 1));
            for (number, _) in subsets.iter().enumerate().filter(|(_, subset)| subset.mask & taken == 0) {
                let subset = number as u16;
                let mut after = state.clone();
                after.insert(0, subset);
                after.truncate(memory);
                let next = *numbers.entry(after.clone()).or_insert_with(|| {
                    states.push(after);
                    states.len() as u32 - 1
                });
                edges.push(Edge { subset, next });
            }
            first_edge.push(edges.len());
            if states.len() > STATES_MAX {
                return Err(too_large("states", STATES_MAX));
            }
            if edges.len() > EDGES_MAX {
                return Err(too_large("steps from rack to rack", EDGES_MAX));
            }
        }
        let mut most_from = vec![vec![0; states.len()]; racks + 1];
        for rack in (0..racks).rev() {
            for state in 0..states.len() {
                let steps = &edges[first_edge[state]..first_edge[state + 1]];
                let members = |edge: &Edge| subsets[usize::from(edge.subset)].shelves.len() + most_from[rack + 1][edge.next as usize];
                most_from[rack][state] = steps.iter().map(members).max().unwrap_or(0);
            }
        }
        Ok(Self { racks, shelves, subsets, first_edge, edges, most_from })
    }

    /// The most members that a set can have.
    #[must_use]
    pub fn most(&self) -> usize {
        self.most_from[0][0]
    }

    /// The search for sets of `members`.
    ///
    /// # Errors
    /// [`PlacementError::TooManyMembers`] if no such set exists.
    pub fn search(&self, members: usize) -> Result<Search, PlacementError> {
        if members > self.most() {
            return Err(PlacementError::TooManyMembers { members, most: self.most(), racks: self.racks, shelves: self.shelves });
        }
        Ok(Search::new(self, members))
    }

    fn edges_of(&self, state: usize) -> &[Edge] {
        &self.edges[self.first_edge[state]..self.first_edge[state + 1]]
    }
}

/// Subsets of the shelves with members at least `spacing` apart, the empty one first; `None` if
/// there are too many.
fn subsets(shelves: usize, spacing: usize) -> Option<Vec<Subset>> {
    let mut found = vec![Subset { mask: 0, shelves: Vec::new() }];
    for shelf in 0..shelves {
        for index in 0..found.len() {
            if found[index].shelves.last().is_none_or(|&last| usize::from(last) + spacing <= shelf) {
                let mut more = found[index].clone();
                more.mask |= 1 << shelf;
                more.shelves.push(shelf as u8);
                found.push(more);
            }
        }
        if found.len() > SUBSETS_MAX {
            return None;
        }
    }
    Some(found)
}

/// The shelves less than `within` away from a shelf of the mask.
fn widen(mask: u128, within: usize, shelves: usize) -> u128 {
    let near = |by: usize| if by < SHELVES_MAX { mask << by | mask >> by } else { 0 };
    let all = if shelves < SHELVES_MAX { (1 << shelves) - 1 } else { u128::MAX };
    (0..within).fold(0, |wide, by| wide | near(by)) & all
}

/// A state that sets of the search's size pass before a rack, and the number of members that may
/// then be left: `low..=high`.
#[derive(Debug, Clone, Copy)]
struct Stop {
    low: usize,
    high: usize,
    first_step: usize,
}

/// An edge from a stop to one of the next stage.
#[derive(Debug, Clone, Copy)]
struct Step {
    subset: u16,
    to: u32,
}

/// The stops before one rack, and the steps through that rack. The last stage, after the last rack,
/// has no steps.
#[derive(Debug, Clone)]
struct Stage {
    stops: Vec<Stop>,
    steps: Vec<Step>,
    /// The best sum from here on, `[stop][members left]`; [`NONE`] if there is no set.
    best: Vec<i64>,
}

impl Stage {
    fn steps_of(&self, stop: usize) -> &[Step] {
        let end = self.stops.get(stop + 1).map_or(self.steps.len(), |next| next.first_step);
        &self.steps[self.stops[stop].first_step..end]
    }
}

/// Finds the best set of one size.
#[derive(Debug, Clone)]
pub struct Search {
    members: usize,
    shelves: usize,
    subsets: Vec<Subset>,
    stages: Vec<Stage>,
    /// Sums of weights of one rack, by subset.
    sums: Vec<i64>,
}

impl Search {
    fn new(patterns: &Patterns, members: usize) -> Self {
        let states = patterns.first_edge.len() - 1;
        // The most members placed before a rack, for states that are reachable and can still be
        // completed.
        let mut most_before: Vec<Vec<Option<usize>>> = vec![vec![None; states]; patterns.racks + 1];
        most_before[0][0] = Some(0);
        for rack in 0..patterns.racks {
            for state in 0..states {
                let Some(before) = most_before[rack][state] else { continue };
                for edge in patterns.edges_of(state) {
                    let next = edge.next as usize;
                    let placed = (before + patterns.subsets[usize::from(edge.subset)].shelves.len()).min(members);
                    if placed + patterns.most_from[rack + 1][next] >= members
                        && most_before[rack + 1][next].is_none_or(|most| most < placed)
                    {
                        most_before[rack + 1][next] = Some(placed);
                    }
                }
            }
        }
        // The states that remain at each rack become stops, in the same order.
        let number = |states: &Vec<Option<usize>>| -> Vec<Option<u32>> {
            let mut numbers = 0..;
            states.iter().map(|state| state.and_then(|_| numbers.next())).collect()
        };
        let mut stages = Vec::with_capacity(patterns.racks + 1);
        for (rack, before) in most_before.iter().enumerate() {
            let after = most_before.get(rack + 1).map(number);
            let (mut stops, mut steps) = (Vec::new(), Vec::new());
            for (state, before) in before.iter().enumerate().filter_map(|(state, before)| Some((state, (*before)?))) {
                stops.push(Stop { low: members - before, high: patterns.most_from[rack][state].min(members), first_step: steps.len() });
                if let Some(after) = &after {
                    let step = |edge: &Edge| after[edge.next as usize].map(|to| Step { subset: edge.subset, to });
                    steps.extend(patterns.edges_of(state).iter().filter_map(step));
                }
            }
            let best = vec![NONE; stops.len() * (members + 1)];
            stages.push(Stage { stops, steps, best });
        }
        if let Some(last) = stages.last_mut() {
            // After the last rack, no members are left.
            last.best.iter_mut().step_by(members + 1).for_each(|best| *best = 0);
        }
        Self { members, shelves: patterns.shelves, subsets: patterns.subsets.clone(), stages, sums: Vec::new() }
    }

    /// Members of the sets searched for.
    #[must_use]
    pub fn members(&self) -> usize {
        self.members
    }

    /// The cells of the set with the largest sum of weights, in ascending order; `None` if blocked
    /// cells rule out every set. Weights are per cell, [`BLOCKED`] for cells that must not be used.
    /// Ties always resolve to the same set.
    ///
    /// # Panics
    /// Unless `weights` has one weight per cell, each within ±2^48.
    pub fn heaviest(&mut self, weights: &[i64]) -> Option<Vec<usize>> {
        let racks = self.stages.len() - 1;
        assert_eq!(weights.len(), racks * self.shelves, "one weight per cell is required");
        assert!(weights.iter().all(|&weight| weight == BLOCKED || weight.abs() <= WEIGHT_MAX), "weights must be within ±2^48");
        let width = self.members + 1;
        self.sums.clear();
        for rack in weights.chunks_exact(self.shelves) {
            self.sums.extend(self.subsets.iter().map(|subset| {
                let mut cells = subset.shelves.iter().map(|&shelf| rack[usize::from(shelf)]);
                cells.try_fold(0, |sum, weight| (weight != BLOCKED).then(|| sum + weight)).unwrap_or(NONE)
            }));
        }
        for rack in (0..racks).rev() {
            let sums = &self.sums[rack * self.subsets.len()..][..self.subsets.len()];
            let (front, back) = self.stages.split_at_mut(rack + 1);
            let (stage, after) = (&mut front[rack], &back[0]);
            let mut best = std::mem::take(&mut stage.best);
            for (stop, row) in best.chunks_exact_mut(width).enumerate() {
                let Stop { low, high, .. } = stage.stops[stop];
                row.fill(NONE);
                for step in stage.steps_of(stop) {
                    let sum = sums[usize::from(step.subset)];
                    let count = self.subsets[usize::from(step.subset)].shelves.len();
                    let low = low.max(count);
                    if sum == NONE || low > high {
                        continue;
                    }
                    let rest = &after.best[step.to as usize * width..][..width];
                    for (best, rest) in row[low..=high].iter_mut().zip(&rest[low - count..=high - count]) {
                        *best = (*best).max(rest + sum);
                    }
                }
            }
            stage.best = best;
        }
        self.walk(width)
    }

    /// Follows the first step at each rack that achieves the best sum.
    fn walk(&self, width: usize) -> Option<Vec<usize>> {
        let racks = self.stages.len() - 1;
        let (mut stop, mut left) = (0, self.members);
        let mut cells = Vec::with_capacity(self.members);
        for rack in 0..racks {
            let best = self.stages[rack].best[stop * width + left];
            // Sums that include NONE drift upwards from it, but never reach a real sum.
            if best < NONE / 2 {
                return None;
            }
            let step = self.stages[rack].steps_of(stop).iter().find(|step| {
                let sum = self.sums[rack * self.subsets.len() + usize::from(step.subset)];
                let count = self.subsets[usize::from(step.subset)].shelves.len();
                sum != NONE && count <= left && self.stages[rack + 1].best[step.to as usize * width + left - count] + sum == best
            });
            let step = step.expect("some step achieves the best sum");
            let subset = &self.subsets[usize::from(step.subset)];
            cells.extend(subset.shelves.iter().map(|&shelf| rack * self.shelves + usize::from(shelf)));
            (stop, left) = (step.to as usize, left - subset.shelves.len());
        }
        Some(cells)
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_chance::Stream;

    use super::*;
    use crate::Cell;
    use crate::placement::ZoneShape;

    fn zones(shapes: &[(u8, u8)]) -> Zones {
        Zones { shapes: shapes.iter().map(|&(racks, shelves)| ZoneShape { racks, shelves }).collect() }
    }

    /// The largest sum for each number of members, by trying every choice of cells.
    fn by_brute_force(racks: usize, shelves: usize, zones: &Zones, weights: &[i64]) -> Vec<Option<i64>> {
        fn extend(cells: &[Cell], zones: &Zones, weights: &[i64], from: usize, chosen: &mut Vec<usize>, best: &mut Vec<Option<i64>>) {
            let sum = chosen.iter().map(|&cell| weights[cell]).sum();
            best.resize(best.len().max(chosen.len() + 1), None);
            best[chosen.len()] = best[chosen.len()].max(Some(sum));
            for cell in from..cells.len() {
                if weights[cell] != BLOCKED && chosen.iter().all(|&other| !zones.share(cells[cell], cells[other])) {
                    chosen.push(cell);
                    extend(cells, zones, weights, cell + 1, chosen, best);
                    chosen.pop();
                }
            }
        }
        let cells: Vec<Cell> =
            (0..racks * shelves).map(|cell| Cell { rack: (cell / shelves) as u8, shelf: (cell % shelves) as u8 }).collect();
        let mut best = Vec::new();
        extend(&cells, zones, weights, 0, &mut Vec::new(), &mut best);
        best
    }

    #[test]
    fn the_heaviest_set_matches_brute_force() {
        let shapes: [&[(u8, u8)]; 6] = [&[(1, 4), (3, 1)], &[(2, 2)], &[(1, 1)], &[(3, 1)], &[(1, 3), (2, 2), (4, 1)], &[(9, 9)]];
        for seed in 0..60 {
            let mut chance = Stream::new(seed, "patterns test");
            let zones = zones(shapes[seed as usize % shapes.len()]);
            let (racks, shelves) = (1 + chance.below(4) as usize, 1 + chance.below(4) as usize);
            let weights: Vec<i64> =
                (0..racks * shelves).map(|_| if chance.happens(0.1) { BLOCKED } else { chance.below(40) as i64 - 10 }).collect();
            let best = by_brute_force(racks, shelves, &zones, &weights);
            let patterns = Patterns::new(racks, shelves, &zones).expect("a small grid");
            let all_free = by_brute_force(racks, shelves, &zones, &vec![0; racks * shelves]);
            assert_eq!(patterns.most() + 1, all_free.len(), "seed {seed}");
            for members in 0..=patterns.most() {
                let found = patterns.search(members).expect("not too many").heaviest(&weights);
                let sum = found.as_ref().map(|cells| cells.iter().map(|&cell| weights[cell]).sum());
                assert_eq!(sum, best.get(members).copied().flatten(), "seed {seed}: {members} members: {found:?}");
                let cells = found.unwrap_or_default();
                let cell = |index: usize| Cell { rack: (index / shelves) as u8, shelf: (index % shelves) as u8 };
                let pairs = cells.iter().flat_map(|&a| cells.iter().filter(move |&&b| b < a).map(move |&b| (a, b)));
                assert!(pairs.into_iter().all(|(a, b)| !zones.share(cell(a), cell(b))), "seed {seed}: {cells:?}");
            }
        }
    }

    #[test]
    fn ties_always_resolve_to_the_same_set() {
        let patterns = Patterns::new(7, 10, &Zones::default()).expect("few choices");
        let mut search = patterns.search(19).expect("not too many");
        let first = search.heaviest(&[5; 70]);
        search.heaviest(&[BLOCKED; 70]);
        assert_eq!(search.heaviest(&[5; 70]), first);
        assert_eq!(patterns.search(19).expect("not too many").heaviest(&[5; 70]), first);
        assert_eq!(search.heaviest(&[BLOCKED; 70]), None);
    }

    #[test]
    fn sums_of_extreme_weights_are_not_mistaken_for_no_set() {
        let patterns = Patterns::new(7, 10, &Zones::default()).expect("few choices");
        let mut search = patterns.search(19).expect("not too many");
        for weight in [WEIGHT_MAX, -WEIGHT_MAX] {
            assert_eq!(search.heaviest(&[weight; 70]).map(|cells| cells.len()), Some(19));
        }
    }
}
