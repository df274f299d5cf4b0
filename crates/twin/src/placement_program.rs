//! Placement as integer and linear programs for a solver: the number of racks that a set needs
//! (Table 1 of Project Silica), and the number of sets that a library can hold.
//!
//! ```text
//! binary program                                   linear program, dual
//!   x[rack, shelf] = 1 if a platter is there         y[rack, shelf] >= 0: the price of a slot
//!   each place of each blast zone: sum x <= 1        each choice of cells for a set: sum y >= 1
//!   maximise sum x, or: sum x = members              minimise slots * sum y
//! ```
//!
//! The paper found its table with the first program (Anderson et al., SOSP '23, section 6). One row
//! for each place of a zone, instead of one for each pair of cells, makes the relaxation so tight
//! that hardly any branching is needed. The second program bounds every filling from above. Its
//! rows are far too many to write down (600,000 for 16+3 in 8 racks), so the planner's own search
//! finds the most violated row and adds it, until no row is violated.
//!
//! The controller has an exact planner of its own and doesn't depend on a solver. This module
//! checks that planner from outside.

use fulgurite_library::Layout;
use fulgurite_library::placement::{Patterns, PlacementError, Zones};
use microlp::{ComparisonOp, OptimizationDirection, Problem, TerminationReason, Variable};

/// Why the solver has no solution.
#[derive(Debug, thiserror::Error)]
pub enum SolverFailure {
    /// It failed.
    #[error(transparent)]
    Failed(#[from] microlp::Error),
    /// It gave up.
    #[error("{0:?}")]
    Stopped(TerminationReason),
}

/// A program without a solution.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum ProgramError {
    #[error("the solver found no solution for {racks} racks of {shelves} shelves: {reason}")]
    Solver { racks: u8, shelves: u8, reason: SolverFailure },
    #[error("no set of {members} platters fits into {most} racks or fewer, of {shelves} shelves each")]
    NoRacks { members: usize, most: u8, shelves: u8 },
    /// The zones or the set are invalid.
    #[error(transparent)]
    Placement(#[from] PlacementError),
}

/// A cell in a grid of storage racks: rack and shelf, both from 0.
pub type GridCell = (u8, u8);

/// Finds a set of exactly `members` platters that keeps the rule, or proves that none exists.
///
/// # Errors
/// [`ProgramError::Solver`], or an error of the zones.
pub fn find_set(racks: u8, shelves: u8, zones: &Zones, members: usize) -> Result<Option<Vec<GridCell>>, ProgramError> {
    let mut grid = Grid::new(racks, shelves, zones)?;
    let all: Vec<(Variable, f64)> = grid.cells.iter().map(|&(_, cell)| (cell, 1.0)).collect();
    grid.problem.add_constraint(&all[..], ComparisonOp::Eq, members as f64);
    grid.solve()
}

/// Finds the largest set that the rule allows.
///
/// # Errors
/// [`ProgramError::Solver`], or an error of the zones.
pub fn largest_set(racks: u8, shelves: u8, zones: &Zones) -> Result<Vec<GridCell>, ProgramError> {
    // The empty set keeps every rule, so a solution always exists.
    Ok(Grid::new(racks, shelves, zones)?.solve()?.unwrap_or_default())
}

/// The smallest number of storage racks, up to `most_racks`, that holds a set of `members`
/// platters.
///
/// # Errors
/// [`ProgramError::NoRacks`] if none does, [`ProgramError::Solver`], or an error of the zones.
pub fn fewest_racks(shelves: u8, zones: &Zones, members: usize, most_racks: u8) -> Result<u8, ProgramError> {
    for racks in 1..=most_racks {
        if find_set(racks, shelves, zones, members)?.is_some() {
            return Ok(racks);
        }
    }
    Err(ProgramError::NoRacks { members, most: most_racks, shelves })
}

/// A row of Table 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SetRow {
    /// Information platters of a set.
    pub information: u32,
    /// Redundancy platters.
    pub redundancy: u32,
    /// Redundancy divided by information: the additional share that the write drive writes.
    pub overhead: f64,
    /// The fewest storage racks that hold a set.
    pub racks: u8,
}

/// Table 1: sets of 12+3, 16+3 and 24+3, in racks of `shelves` shelves; the paper has 10.
///
/// # Errors
/// As [`fewest_racks`], if not even 40 racks hold one of the sets.
pub fn table_1(shelves: u8, zones: &Zones) -> Result<Vec<SetRow>, ProgramError> {
    const RACKS_MAX: u8 = 40;
    let row = |information: u32| {
        let redundancy = 3;
        let racks = fewest_racks(shelves, zones, (information + redundancy) as usize, RACKS_MAX)?;
        Ok(SetRow { information, redundancy, overhead: f64::from(redundancy) / f64::from(information), racks })
    };
    [12, 16, 24].into_iter().map(row).collect()
}

/// The binary program; callers add further constraints.
struct Grid {
    racks: u8,
    shelves: u8,
    problem: Problem,
    cells: Vec<(GridCell, Variable)>,
}

impl Grid {
    fn new(racks: u8, shelves: u8, zones: &Zones) -> Result<Self, ProgramError> {
        zones.check()?;
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let cells: Vec<(GridCell, Variable)> = (0..racks)
            .flat_map(|rack| (0..shelves).map(move |shelf| (rack, shelf)))
            .map(|cell| (cell, problem.add_binary_var(1.0)))
            .collect();
        for shape in &zones.shapes {
            let (wide, tall) = (shape.racks.min(racks), shape.shelves.min(shelves));
            for (left, bottom) in (0..=racks - wide).flat_map(|left| (0..=shelves - tall).map(move |bottom| (left, bottom))) {
                let inside = |&&((rack, shelf), _): &&(GridCell, Variable)| {
                    (left..left + wide).contains(&rack) && (bottom..bottom + tall).contains(&shelf)
                };
                let row: Vec<(Variable, f64)> = cells.iter().filter(inside).map(|&(_, cell)| (cell, 1.0)).collect();
                problem.add_constraint(&row[..], ComparisonOp::Le, 1.0);
            }
        }
        Ok(Self { racks, shelves, problem, cells })
    }

    fn solve(self) -> Result<Option<Vec<GridCell>>, ProgramError> {
        let solution = match self.problem.solve() {
            Ok(outcome) => outcome.into_solution().map_err(|stopped| self.failure(SolverFailure::Stopped(stopped.termination_reason())))?,
            Err(microlp::Error::Infeasible) => return Ok(None),
            Err(error) => return Err(self.failure(error.into())),
        };
        Ok(Some(self.cells.iter().filter(|(_, cell)| solution.var_value(*cell) > 0.5).map(|&(cell, _)| cell).collect()))
    }

    fn failure(&self, reason: SolverFailure) -> ProgramError {
        ProgramError::Solver { racks: self.racks, shelves: self.shelves, reason }
    }
}

/// Upper bound on the number of complete sets of `members` platters in any filling of a library
/// with this layout.
///
/// The solver's prices are rounded to whole numbers, and the cheapest set at these prices is found
/// exactly. By weak duality the value of all slots divided by the price of that set is a bound,
/// whatever the solver's rounding was.
///
/// # Errors
/// [`ProgramError::Solver`], or [`PlacementError`] if no such set exists or the choices are too
/// many.
pub fn most_sets(layout: &Layout, zones: &Zones, members: usize) -> Result<u32, ProgramError> {
    /// A price of 1, as a whole number.
    const UNIT: f64 = (1_u64 << 40) as f64;
    /// Most rows to add; with fewer the bound still holds, but is less tight.
    const ROWS_MAX: usize = 2_000;

    let (racks, shelves) = (layout.storage_racks, layout.shelves);
    if members == 0 {
        return Err(PlacementError::Nothing { members, libraries: 1 }.into());
    }
    let mut search = Patterns::new(racks.into(), shelves.into(), zones)?.search(members)?;
    let count = usize::from(racks) * usize::from(shelves);
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    let prices: Vec<Variable> = (0..count).map(|_| problem.add_var(1.0, (0.0, 1.0))).collect();
    let failure = |reason: SolverFailure| ProgramError::Solver { racks, shelves, reason };

    let mut solution = None;
    let mut bound = layout.slot_count() / members as u32;
    // The first row comes from equal prices, because the program without rows sets all prices to 0.
    let mut whole: Vec<i64> = vec![UNIT as i64; count];
    for _ in 0..ROWS_MAX {
        let weights: Vec<i64> = whole.iter().map(|price| -price).collect();
        let Some(cells) = search.heaviest(&weights) else { break };
        let cheapest: i64 = cells.iter().map(|&cell| whole[cell]).sum();
        let all: i128 = whole.iter().map(|&price| i128::from(price)).sum();
        if cheapest > 0 {
            bound = bound.min((i128::from(layout.slots) * all / i128::from(cheapest)) as u32);
        }
        if solution.is_some() && cheapest as f64 >= UNIT * (1.0 - 1e-6) {
            break;
        }
        let row: Vec<(Variable, f64)> = cells.iter().map(|&cell| (prices[cell], 1.0)).collect();
        let outcome = match solution.take() {
            None => {
                problem.add_constraint(&row[..], ComparisonOp::Ge, 1.0);
                problem.solve()
            }
            Some(before) => microlp::Solution::add_constraint(before, &row[..], ComparisonOp::Ge, 1.0),
        };
        let next = outcome
            .map_err(|error| failure(error.into()))?
            .into_solution()
            .map_err(|stopped| failure(SolverFailure::Stopped(stopped.termination_reason())))?;
        whole = prices.iter().map(|&price| (next.var_value(price).max(0.0) * UNIT) as i64).collect();
        solution = Some(next);
    }
    Ok(bound)
}

#[cfg(test)]
mod tests {
    use fulgurite_library::placement::fill;

    use super::*;

    fn keeps_the_rule(zones: &Zones, cells: &[GridCell]) -> bool {
        let cell = |&(rack, shelf): &GridCell| fulgurite_library::Cell { rack, shelf };
        cells.iter().enumerate().all(|(index, a)| cells[..index].iter().all(|b| !zones.share(cell(a), cell(b))))
    }

    #[test]
    fn the_program_reproduces_table_1_of_the_paper() {
        let rows = table_1(10, &Zones::default()).expect("answers");
        // Anderson et al., SOSP '23, Table 1.
        assert_eq!(
            rows.iter().map(|row| (row.information, row.redundancy, row.racks)).collect::<Vec<_>>(),
            [(12, 3, 6), (16, 3, 7), (24, 3, 10)]
        );
        let percent: Vec<String> = rows.iter().map(|row| format!("{:.1}", 100.0 * row.overhead)).collect();
        assert_eq!(percent, ["25.0", "18.8", "12.5"]);
    }

    #[test]
    fn one_rack_fewer_holds_no_such_set() {
        for (members, racks) in [(15, 6), (19, 7), (27, 10)] {
            let found = find_set(racks, 10, &Zones::default(), members).expect("an answer").expect("a set");
            assert_eq!(found.len(), members);
            assert!(keeps_the_rule(&Zones::default(), &found), "{found:?}");
            assert_eq!(find_set(racks - 1, 10, &Zones::default(), members).expect("an answer"), None, "{members} in {}", racks - 1);
        }
    }

    #[test]
    fn the_solver_and_the_planner_agree_on_the_largest_set() {
        let mut most = Vec::new();
        for racks in 1..=10 {
            let set = largest_set(racks, 10, &Zones::default()).expect("an answer");
            assert!(keeps_the_rule(&Zones::default(), &set), "{set:?}");
            assert_eq!(set.len(), Patterns::new(racks.into(), 10, &Zones::default()).expect("few choices").most(), "{racks} racks");
            most.push(set.len());
        }
        assert_eq!(most, [3, 6, 8, 11, 14, 16, 19, 22, 24, 27]);
    }

    #[test]
    fn the_planner_fills_a_library_to_within_one_percent_of_what_is_possible() {
        for (racks, members, most) in [(6, 15, 400), (7, 19, 200), (8, 19, 421), (10, 27, 200)] {
            let layout = Layout { storage_racks: racks, slots: 100, ..Layout::default() };
            let bound = most_sets(&layout, &Zones::default(), members).expect("a bound");
            assert_eq!(bound, most, "{members} in {racks} racks");
            let filled = fill(&layout, &Zones::default(), members).expect("a filling").sets.len() as u32;
            assert!(filled <= bound && 100 * filled >= 99 * bound, "{filled} of at most {bound} sets of {members} in {racks} racks");
        }
    }

    #[test]
    fn too_few_racks_for_a_set_are_an_error() {
        let error = fewest_racks(10, &Zones::default(), 27, 9).expect_err("too few racks");
        assert_eq!(error.to_string(), "no set of 27 platters fits into 9 racks or fewer, of 10 shelves each");
        assert!(matches!(
            most_sets(&Layout::default(), &Zones::default(), 20),
            Err(ProgramError::Placement(PlacementError::TooManyMembers { .. }))
        ));
    }
}
