//! A panel under load: all shuttles carry platters between slots and drives without a pause.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::*;
use crate::Drive;

/// Shuttles on trips, with motions that take up to a tenth longer than planned.
struct Load {
    layout: Layout,
    traffic: Traffic,
    /// Ends of legs, and of picks and places.
    events: BinaryHeap<Reverse<(Micros, Shuttle, Option<Position>)>>,
    /// The leg or place that each shuttle occupies.
    occupied: Vec<SearchRegion>,
    /// The drive that each shuttle is going to.
    drives: Vec<Option<Drive>>,
    random: u64,
    now: Micros,
}

impl Load {
    fn new(shuttles: u16) -> Self {
        let layout = Layout { shuttles, ..Layout::default() };
        let places = crate::rectangle::resting_places(&layout);
        let occupied = places.iter().map(|place| SearchRegion::of(*place, *place)).collect();
        let mut traffic = Traffic::new(&layout, Pace::default(), places.into_iter());
        traffic.count_on_leaving();
        let drives = vec![Some(Drive(u16::MAX)); usize::from(shuttles)];
        Self { layout, traffic, events: BinaryHeap::new(), occupied, drives, random: 1, now: Micros::ZERO }
    }

    fn below(&mut self, count: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % count
    }

    /// Gives a shuttle that picks or places nothing its next goal: a slot after a drive, else the
    /// nearest drive that no other goes to.
    fn send(&mut self, shuttle: Shuttle, legs: &mut Vec<(Shuttle, Position)>) {
        let at = self.traffic.at(shuttle);
        let goal = if self.drives[usize::from(shuttle.0)].take().is_some() {
            let slot = self.below(self.layout.slot_count().into());
            self.layout.slot_position(crate::Slot(slot as u32))
        } else {
            let free = (0..self.layout.drive_count()).map(Drive).filter(|drive| !self.drives.contains(&Some(*drive)));
            let way = |drive: &Drive| (Pace::default().travel(at, self.layout.drive_position(*drive)), *drive);
            let Some(drive) = free.min_by_key(way) else {
                let slot = self.below(self.layout.slot_count().into());
                self.traffic.set_goal(shuttle, self.layout.slot_position(crate::Slot(slot as u32)));
                self.traffic.advance(shuttle, legs);
                return;
            };
            self.drives[usize::from(shuttle.0)] = Some(drive);
            self.layout.drive_position(drive)
        };
        self.traffic.set_stance(shuttle, Stance::Working);
        self.traffic.set_goal(shuttle, goal);
        self.traffic.advance(shuttle, legs);
    }

    /// Starts legs, and checks that none meets another leg or a resting shuttle.
    fn start(&mut self, legs: &mut Vec<(Shuttle, Position)>) {
        while let Some((shuttle, to)) = legs.pop() {
            let at = self.traffic.at(shuttle);
            let leg = SearchRegion::of(at, to);
            for (other, occupied) in self.occupied.iter().enumerate().filter(|(other, _)| *other != usize::from(shuttle.0)) {
                assert!(!leg.meets(occupied, self.layout.spacing_um), "{shuttle:?} enters the place of shuttle {other}");
            }
            self.occupied[usize::from(shuttle.0)] = leg;
            let least = Pace::default().travel(at, to).0;
            let took = least + self.below(1 + least / 10);
            self.events.push(Reverse((self.now + Micros(took), shuttle, Some(to))));
        }
    }

    /// Runs the panel, and returns how many trips ended, and how much longer they took than alone.
    fn run(&mut self, until: Micros) -> (u64, f64) {
        let mut legs = Vec::new();
        for shuttle in 0..self.layout.shuttles {
            self.send(Shuttle(shuttle), &mut legs);
            self.start(&mut legs);
        }
        while self.now < until {
            let woken = self.traffic.deadline().unwrap_or(Micros::NEVER);
            let next = self.events.peek().map_or(Micros::NEVER, |Reverse((at, ..))| *at);
            assert!(woken.min(next) < Micros::NEVER, "all shuttles rest");
            self.now = woken.min(next);
            self.traffic.set_now(self.now);
            if next <= woken
                && let Some(Reverse((_, shuttle, to))) = self.events.pop()
            {
                self.end(shuttle, to, &mut legs);
            }
            self.traffic.retry(&mut legs);
            self.start(&mut legs);
        }
        let congestion = self.traffic.congestion();
        (congestion.trips, congestion.taken.seconds() / congestion.unhindered.seconds() - 1.0)
    }

    fn end(&mut self, shuttle: Shuttle, to: Option<Position>, legs: &mut Vec<(Shuttle, Position)>) {
        let Some(to) = to else {
            self.send(shuttle, legs);
            return;
        };
        self.occupied[usize::from(shuttle.0)] = SearchRegion::of(to, to);
        let had_goal = self.traffic.goal(shuttle).is_some();
        if !self.traffic.leg_ended(shuttle, to, legs) {
            return;
        }
        if had_goal && self.traffic.goal(shuttle).is_none() {
            self.events.push(Reverse((self.now + Pace::default().pick, shuttle, None)));
        } else {
            self.traffic.advance(shuttle, legs);
        }
    }
}

/// Where every trip is hindered by others, more shuttles can't end more trips; but they must not
/// end many fewer, as they did when plans that began late held up each other.
#[test]
fn more_shuttles_than_the_panel_has_room_for_end_as_many_trips() {
    let trips = [8, 12, 20, 28].map(|shuttles| {
        let (trips, overhead) = Load::new(shuttles).run(Micros::from_seconds(10_000.0));
        println!("{shuttles} shuttles: {trips} trips, which took {:.0} % longer than alone", 100.0 * overhead);
        trips as f64
    });
    assert!(trips[1] > 1.1 * trips[0] && trips[2] > trips[1] && trips[3] > 0.9 * trips[2], "{trips:?}");
}
