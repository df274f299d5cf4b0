//! Every check detects its violation: the checks see a real run in which one fact is falsified.

use fulgurite_domain::Micros;
use fulgurite_journal::Fact;
use fulgurite_library::{
    Action, Actor, Berth, Command, Controller, Drive, Event, Library, Panel, Partitioned, Platter, Policy, Region, RegionOutcome,
    RegionPlatter, RequestId, Shard, Shuttle, Slot, Task, Tracks,
};
use fulgurite_mechanics::{DriveState, Footprint, MotionLog, NoTwoShuttlesMeet, Trajectory};
use fulgurite_twin::scenario::{PolicyName, Scenario};

use crate::support::{Facts, checks_of, minutes, scenario, watched};
use fulgurite_checks::{
    Busy, Checked, EveryCommandIsAnsweredOnce, Idled, LittlesLaw, Machines, Misplaced, PlattersAreConserved, Promise, Station, Violation,
    WorkIsConserved, WrongAnswer, WrongEnd, no_two_shuttles_met,
};

const LIBRARY: Library = Library(0);

/// A run of a scenario and what was recorded of it.
struct RecordedRun {
    scenario: Scenario,
    facts: Vec<Fact>,
    machines: Vec<Machines>,
    at: Micros,
}

fn recorded_run() -> RecordedRun {
    let mut scenario = scenario(PolicyName::Partitioned, 20, 0.3);
    (scenario.run.warm_up, scenario.run.measured) = (minutes(1), minutes(4));
    let mut facts = Facts::default();
    let (_, finished) = watched(&scenario, 1, &mut facts);
    let pairs = finished.mechanics.iter().zip(finished.region.controllers());
    let machines = pairs.map(|(machines, one)| Machines::of(machines, one.panel().platter_count(), finished.at)).collect();
    RecordedRun { scenario, facts: facts.0, machines, at: finished.at }
}

impl RecordedRun {
    /// The region at the start of the run.
    fn region(&self) -> Region {
        self.scenario.region(&self.scenario.stock(1).expect("it was run"))
    }

    /// Replays the region and calls `observe` after each fact; also without a fact, before each
    /// input and at the end, when all consequences of the last input have been seen.
    fn replay(&self, mut observe: impl FnMut(&Region, Option<&Fact>)) -> Region {
        let (mut region, mut commands, mut ended) = (self.region(), Vec::new(), Vec::new());
        for fact in &self.facts {
            match fact {
                Fact::Requested { now, request, deadline, shards } => {
                    observe(&region, None);
                    region.request(*now, *request, shards, *deadline, &mut commands, &mut ended);
                }
                Fact::Happened { now, library, event } => {
                    observe(&region, None);
                    region.step(*now, *library, *event, &mut commands, &mut ended);
                }
                _ => {}
            }
            observe(&region, Some(fact));
        }
        observe(&region, None);
        region
    }

    /// Runs all checks, with each fact replaced by the result of `falsify`.
    fn check_falsified(&self, mut falsify: impl FnMut(&Fact) -> Vec<Fact>) -> Result<Checked, Violation> {
        let mut checks = checks_of(&self.scenario);
        checks.begin(&self.region());
        let region = self.replay(|region, fact| match fact {
            Some(fact) => falsify(fact).iter().for_each(|fact| checks.observe(fact)),
            None => checks.settled(region),
        });
        checks.finish(self.at, &region, &self.machines, false)
    }

    /// Replaces only the first fact for which `falsify` returns a replacement.
    fn falsify_once(&self, mut falsify: impl FnMut(&Fact) -> Option<Vec<Fact>>) -> Violation {
        let mut is_over = false;
        let checked = self.check_falsified(|fact| match falsify(fact).filter(|_| !is_over) {
            Some(instead) => {
                is_over = true;
                instead
            }
            None => vec![fact.clone()],
        });
        assert!(is_over, "there was nothing to falsify");
        checked.expect_err("it was falsified")
    }
}

fn commanded(action: impl Fn(Action) -> Option<Action>) -> impl FnMut(&Fact) -> Option<Vec<Fact>> {
    move |fact| match *fact {
        Fact::Commanded { library, command: Command::Do { id, action: was } } => {
            Some(vec![Fact::Commanded { library, command: Command::Do { id, action: action(was)? } }])
        }
        _ => None,
    }
}

#[test]
fn an_unchanged_run_passes() {
    let recorded = recorded_run();
    let checked = recorded.check_falsified(|fact| vec![fact.clone()]).expect("nothing is falsified");
    assert!(checked.requests > 50 && checked.stations.len() == 1 + 1 + 20 + 20 + 1, "{checked:?}");
}

#[test]
fn a_duplicate_answer_is_found() {
    let is_done = |fact: &Fact| matches!(fact, Fact::Happened { event: Event::Done { .. }, .. });
    let violation = recorded_run().falsify_once(|fact| is_done(fact).then(|| vec![fact.clone(), fact.clone()]));
    assert!(matches!(violation, Violation::Answer(WrongAnswer::NotOpen { .. })), "{violation}");
}

#[test]
fn a_missing_answer_is_found() {
    let violation = recorded_run().falsify_once(|fact| matches!(fact, Fact::Happened { event: Event::Done { .. }, .. }).then(Vec::new));
    assert!(matches!(violation, Violation::Answer(WrongAnswer::Busy { .. })), "{violation}");
    let violation =
        recorded_run().falsify_once(|fact| matches!(fact, Fact::Happened { event: Event::Interrupted { .. }, .. }).then(Vec::new));
    assert!(matches!(violation, Violation::Answer(WrongAnswer::NotInterrupted { .. })), "{violation}");
}

#[test]
fn a_request_that_never_ends_is_found() {
    let recorded = recorded_run();
    let violation = recorded.falsify_once(|fact| matches!(fact, Fact::Ended { .. }).then(Vec::new));
    assert!(matches!(violation, Violation::End(WrongEnd::Count { .. })), "{violation}");
    // In a run that continued until all requests ended, the check names the request.
    let mut checks = checks_of(&recorded.scenario);
    checks.begin(&recorded.region());
    let mut first = None;
    let region = recorded.replay(|region, fact| match fact {
        Some(Fact::Ended { request, .. }) if *first.get_or_insert(*request) == *request => {}
        Some(fact) => checks.observe(fact),
        None => checks.settled(region),
    });
    let violation = checks.finish(recorded.at, &region, &recorded.machines, true).expect_err("one is left");
    assert!(matches!(violation, Violation::End(WrongEnd::Never { request, .. }) if Some(request) == first), "{violation}");
}

#[test]
fn a_false_end_is_found() {
    let recorded = recorded_run();
    let violation = recorded.falsify_once(|fact| match fact {
        Fact::Requested { request, .. } => Some(vec![fact.clone(), Fact::Ended { request: *request, outcome: RegionOutcome::Read }]),
        _ => None,
    });
    assert!(matches!(violation, Violation::End(WrongEnd::Untrue { truth: "the tracks were not read", .. })), "{violation}");
    for (outcome, truth) in [
        (RegionOutcome::Unavailable, "nothing has failed"),
        (RegionOutcome::Recovered, "nothing has failed"),
        (RegionOutcome::Refused, "the platter and its tracks exist"),
    ] {
        let violation = recorded.falsify_once(|fact| match fact {
            Fact::Ended { request, .. } => Some(vec![Fact::Ended { request: *request, outcome }]),
            _ => None,
        });
        assert!(matches!(violation, Violation::End(WrongEnd::Untrue { truth: found, .. }) if found == truth), "{violation}");
    }
    let violation = recorded.falsify_once(|fact| matches!(fact, Fact::Ended { .. }).then(|| vec![fact.clone(), fact.clone()]));
    assert!(matches!(violation, Violation::End(WrongEnd::NotOpen { .. })), "{violation}");
}

#[test]
fn a_platter_placed_in_an_occupied_berth_is_found() {
    let recorded = recorded_run();
    let region = recorded.region();
    let panel = region.controllers()[0].panel();
    let other = panel.home(Platter(17)).expect("it has a slot");
    let violation = recorded.falsify_once(commanded(|action| match action {
        Action::Place { to: Berth::Slot(_), platter } if platter != Platter(17) => Some(Action::Place { to: Berth::Slot(other), platter }),
        _ => None,
    }));
    assert!(matches!(violation, Violation::Place(Misplaced::Taken { found: Platter(17), .. })), "{violation}");
}

#[test]
fn a_platter_picked_from_the_wrong_berth_is_found() {
    let violation = recorded_run().falsify_once(commanded(|action| match action {
        Action::Pick { from, platter } => Some(Action::Pick { from, platter: Platter(platter.0 ^ 1) }),
        _ => None,
    }));
    assert!(matches!(violation, Violation::Place(Misplaced::Elsewhere { .. })), "{violation}");
    let violation = recorded_run().falsify_once(commanded(|action| match action {
        Action::Unmount { bay, platter } => Some(Action::Mount { bay, platter }),
        _ => None,
    }));
    assert!(matches!(violation, Violation::Place(Misplaced::Mounted { .. }) | Violation::Work(_)), "{violation}");
}

#[test]
fn machines_that_disagree_about_platters_at_the_end_are_found() {
    let mut recorded = recorded_run();
    recorded.machines[0].platters += 1;
    let violation = recorded.check_falsified(|fact| vec![fact.clone()]).expect_err("one too many");
    assert!(matches!(violation, Violation::Place(Misplaced::Count { .. })), "{violation}");
    let elsewhere = crate::support::scenario(PolicyName::Partitioned, 20, 0.3);
    let machines = fulgurite_mechanics::Mechanics::new(elsewhere.layout.clone(), elsewhere.mechanics_of(LIBRARY), 1);
    recorded.machines = vec![Machines::of(&machines, 620, Micros::ZERO)];
    let violation = recorded.check_falsified(|fact| vec![fact.clone()]).expect_err("none at all");
    assert!(matches!(violation, Violation::Place(Misplaced::Disputed { .. })), "{violation}");
}

#[test]
fn two_platters_of_a_set_in_one_blast_zone_are_found() {
    let recorded = recorded_run();
    let region = recorded.region();
    let panel = region.controllers()[0].panel();
    let homes: Vec<Slot> = (0..600).filter_map(|platter| panel.home(Platter(platter))).collect();
    // With a single library, platter numbers of the region equal those of the library; a set has
    // six platters.
    let beside = |platter: Platter| {
        let other = Platter(platter.0 / 6 * 6 + (platter.0 + 1) % 6);
        let cell = panel.layout().cell_of(panel.home(other).expect("it has a slot"));
        (0..panel.layout().slots).map(|index| panel.layout().slot(cell, index)).find(|slot| !homes.contains(slot))
    };
    let violation = recorded.falsify_once(commanded(|action| match action {
        Action::Place { to: Berth::Slot(_), platter } => Some(Action::Place { to: Berth::Slot(beside(platter)?), platter }),
        _ => None,
    }));
    assert!(matches!(violation, Violation::Zone(_)), "{violation}");
}

#[test]
fn homes_in_one_blast_zone_are_found_at_the_start() {
    let recorded = recorded_run();
    let mut stock = recorded.scenario.stock(1).expect("it was run");
    let first = stock.inventories[0].homes[0];
    let homes = &mut stock.inventories[0].homes;
    let neighbour = (0..100).map(|index| Slot(first.0 / 100 * 100 + index)).find(|slot| !homes.contains(slot)).expect("there is room");
    homes[1] = neighbour;
    let mut checks = checks_of(&recorded.scenario);
    checks.begin(&recorded.scenario.region(&stock));
    assert!(matches!(checks.violation(), Some(Violation::Zone(_))), "{:?}", checks.violation());
}

#[test]
fn two_shuttles_in_one_place_are_found() {
    let scenario = scenario(PolicyName::Partitioned, 20, 0.3);
    let mut log = NoTwoShuttlesMeet::new(&scenario.layout);
    let place = Footprint::level(scenario.layout.drive_position(Drive(3)));
    log.leg(Shuttle(3), &Trajectory::stationary(Micros::ZERO, place));
    log.leg(Shuttle(7), &Trajectory::stationary(Micros::ZERO, Footprint { x_um: place.x_um + 2_000_000, ..place }));
    no_two_shuttles_met(LIBRARY, &mut log, Micros::SECOND).expect("they are two metres apart");
    let to = Footprint { x_um: place.x_um + 300_000, ..place };
    let from = Footprint { x_um: place.x_um + 2_000_000, ..place };
    log.leg(Shuttle(7), &Trajectory::along(Micros::SECOND, from, to, &scenario.mechanics.motion));
    let met = no_two_shuttles_met(LIBRARY, &mut log, minutes(1)).expect_err("they are 0.3 m apart");
    assert_eq!((met.meeting.first, met.meeting.second), (Shuttle(3), Shuttle(7)));
}

#[test]
fn a_drive_that_ignores_its_platter_is_found() {
    let mut mount = None;
    let recorded = recorded_run();
    let checked = recorded.check_falsified(|fact| match *fact {
        Fact::Commanded { command: Command::Do { id, action: Action::Mount { platter, .. } }, .. }
            if mount.is_none() && platter.0 < 600 =>
        {
            mount = Some(id);
            vec![]
        }
        Fact::Happened { event: Event::Done { command }, .. } if Some(command) == mount => vec![],
        _ => vec![fact.clone()],
    });
    let violation = checked.expect_err("a mount was left out");
    assert!(matches!(violation, Violation::Work(Idled::WithPlatter { .. })), "{violation}");
}

/// A policy that does nothing, or only fetches.
struct Lazy(Option<Partitioned>);

impl Policy for Lazy {
    fn assign(&mut self, panel: &Panel) -> Option<(Shuttle, Task)> {
        self.0.as_mut()?.assign(panel).filter(|(_, task)| matches!(task, Task::Fetch { .. }))
    }
}

/// The idle machine that is reported under a lazy policy, after one request and until no more
/// commands follow.
fn idler(policy: Lazy, promise: Promise) -> Idled {
    let scenario = scenario(PolicyName::Partitioned, 20, 0.3);
    let stock = scenario.stock(1).expect("it fits");
    let mut inventory = stock.inventories[0].clone();
    inventory.verification = fulgurite_library::Verification::Off;
    let controller = Controller::new(scenario.layout.clone(), scenario.pace(), &inventory, Box::new(policy));
    let mut region = Region::new(vec![controller], stock.sets);
    let mut work = WorkIsConserved::new(&region, promise);
    let (mut commands, mut ended, mut now) = (Vec::new(), Vec::new(), Micros::SECOND);
    let shard = Shard { platter: RegionPlatter(44), tracks: Tracks { first: 0, count: 1 } };
    region.request(now, RequestId(0), &[shard], Micros::NEVER, &mut commands, &mut ended);
    while let Some((library, command)) = commands.pop() {
        let Command::Do { id, .. } = command else { unreachable!("the region keeps ends") };
        now += Micros::SECOND;
        region.step(now, library, Event::Done { command: id }, &mut commands, &mut ended);
    }
    work.settled(now, &region);
    let until = now + Micros::HOUR;
    work.time_passes(now, until, &EveryCommandIsAnsweredOnce::default()).expect_err("a machine idles")
}

#[test]
fn shuttles_and_drives_that_idle_while_a_platter_waits_are_found() {
    for promise in [Promise::ShuttlesServeAll, Promise::ShuttlesServeTheirOwn, Promise::SectionsAreAttended] {
        let idled = idler(Lazy(None), promise);
        assert!(matches!(idled, Idled::WhileRoom { platter: Platter(44), .. }), "{idled}");
        let layout = scenario(PolicyName::Partitioned, 20, 0.3).layout;
        let idled = idler(Lazy(Some(Partitioned::new(&layout, None))), promise);
        assert!(matches!(idled, Idled::WhileReleased { .. }), "{idled}");
    }
    let idled = idler(Lazy(None), Promise::DrivesFetch);
    assert!(matches!(idled, Idled::WhileWaited { platter: Platter(44), .. }), "{idled}");
}

/// Checks Little's law over a run, with each fact replaced by the result of `falsify`.
fn littles_law(recorded: &RecordedRun, mut falsify: impl FnMut(&Fact) -> Option<Fact>) -> Option<Station> {
    let begin = recorded.region();
    let (mut commands, mut platters) = (EveryCommandIsAnsweredOnce::default(), PlattersAreConserved::new(&begin, false));
    let mut law = LittlesLaw::new(&begin, &platters, false);
    let mut now = Micros::ZERO;
    recorded.replay(|region, fact| {
        let Some(fact) = fact else { return law.settled(now, region) };
        if let Fact::Requested { now: at, .. } | Fact::Happened { now: at, .. } = fact {
            now = *at;
        }
        let answered = commands.observe(now, fact).expect("the run was right");
        platters.observe(now, fact, answered.as_ref()).expect("the run was right");
        // An omitted answer is hidden only from the law.
        if let Some(fact) = falsify(fact) {
            law.observe(now, &fact, answered.as_ref());
        }
    });
    law.finish(recorded.at).err().map(|unequal| unequal.0.station)
}

#[test]
fn a_hidden_arrival_or_departure_breaks_littles_law() {
    let recorded = recorded_run();
    assert_eq!(littles_law(&recorded, |fact| Some(fact.clone())), None);
    let mut placed = None;
    let mut hides_place = |fact: &Fact| match fact {
        Fact::Commanded { command: Command::Do { id, action: Action::Place { to: Berth::Bay(..), .. } }, .. } => {
            placed = placed.or(Some(*id));
            false
        }
        Fact::Happened { event: Event::Done { command }, .. } => placed == Some(*command),
        _ => false,
    };
    let broken = littles_law(&recorded, |fact| (!hides_place(fact)).then(|| fact.clone()));
    assert!(matches!(broken, Some(Station::InDrive(..))), "{broken:?}");
    let mut ended = 0;
    let mut hides_end = |fact: &Fact| {
        ended += u64::from(matches!(fact, Fact::Ended { .. }));
        ended == 1 && matches!(fact, Fact::Ended { .. })
    };
    let broken = littles_law(&recorded, |fact| (!hides_end(fact)).then(|| fact.clone()));
    assert_eq!(broken, Some(Station::Region));
}

#[test]
fn busy_time_without_a_command_breaks_the_utilization_law() {
    for (state, busy) in [
        (DriveState::Mounting, Busy::Mounting),
        (DriveState::Unmounting, Busy::Unmounting),
        (DriveState::Switching, Busy::Switching),
        (DriveState::Seeking, Busy::Reading),
        (DriveState::Reading, Busy::Reading),
        (DriveState::Verifying, Busy::Verifying),
    ] {
        let mut recorded = recorded_run();
        recorded.machines[0].drives[7].time[state as usize] += Micros(1);
        let violation = recorded.check_falsified(|fact| vec![fact.clone()]).expect_err("a microsecond too many");
        let Violation::Utilization(other) = violation else { panic!("{violation}") };
        assert_eq!((other.busy, other.actor), (busy, Actor::Drive(Drive(7))));
    }
}
