use super::*;

fn at(shelf: u8, centimetres: i64) -> Position {
    Position { shelf, x_um: centimetres * 10_000 }
}

fn traffic(places: &[Position]) -> Traffic {
    Traffic::new(&Layout::default(), Pace::default(), places.iter().copied())
}

/// Ends legs in order and lets all shuttles continue until none moves.
fn run(traffic: &mut Traffic, mut legs: Vec<(Shuttle, Position)>) -> u32 {
    let mut count = 0;
    while !legs.is_empty() {
        let (shuttle, to) = legs.remove(0);
        count += 1;
        assert!(count < 1_000, "no shuttle arrives");
        let has_ended = traffic.leg_ended(shuttle, to, &mut legs);
        traffic.retry(&mut legs);
        if has_ended {
            traffic.advance(shuttle, &mut legs);
        }
    }
    count
}

fn send(traffic: &mut Traffic, shuttle: u16, goal: Position) -> Vec<(Shuttle, Position)> {
    let mut legs = Vec::new();
    traffic.set_stance(Shuttle(shuttle), Stance::Working);
    traffic.set_goal(Shuttle(shuttle), goal);
    traffic.advance(Shuttle(shuttle), &mut legs);
    legs
}

#[test]
fn a_shuttle_waits_for_a_stretch_that_another_holds() {
    let mut traffic = traffic(&[at(3, 200), at(3, 600)]);
    let first = send(&mut traffic, 0, at(3, 400));
    assert_eq!(first, [(Shuttle(0), at(3, 400))]);
    assert_eq!(send(&mut traffic, 1, at(3, 430)), []);
    traffic.leg_ended(Shuttle(0), at(3, 400), &mut Vec::new());
    let legs = send(&mut traffic, 0, at(3, 300));
    run(&mut traffic, legs);
    assert_eq!((traffic.at(Shuttle(0)), traffic.at(Shuttle(1))), (at(3, 300), at(3, 430)));
}

#[test]
fn an_idle_shuttle_makes_room() {
    let mut traffic = traffic(&[at(3, 200), at(3, 600)]);
    let legs = send(&mut traffic, 0, at(3, 610));
    assert_eq!(legs.len(), 1, "only the idle one moves at first");
    assert_eq!(legs[0].0, Shuttle(1));
    run(&mut traffic, legs);
    assert_eq!(traffic.at(Shuttle(0)), at(3, 610));
    assert_eq!(traffic.congestion().evasions, 1);
}

#[test]
fn an_idle_shuttle_goes_to_the_end_of_the_only_shelf_if_need_be() {
    let layout = Layout { shelves: 1, port_shelf: 0, ..Layout::default() };
    let mut traffic = Traffic::new(&layout, Pace::default(), [at(0, 66), at(0, 124)].into_iter());
    let legs = send(&mut traffic, 0, at(0, 1_163));
    run(&mut traffic, legs);
    assert_eq!((traffic.at(Shuttle(0)), traffic.at(Shuttle(1))), (at(0, 1_163), at(0, 1_200)));
}

#[test]
fn a_resting_shuttle_is_passed_on_another_shelf() {
    let mut traffic = traffic(&[at(3, 200), at(3, 600)]);
    let legs = send(&mut traffic, 0, at(3, 900));
    assert_eq!(run(&mut traffic, legs), 3);
    assert_eq!((traffic.at(Shuttle(0)), traffic.at(Shuttle(1))), (at(3, 900), at(3, 600)));
}

#[test]
fn two_shuttles_that_meet_head_on_take_different_shelves() {
    let mut traffic = traffic(&[at(3, 200), at(3, 600)]);
    let mut legs = send(&mut traffic, 0, at(3, 800));
    legs.extend(send(&mut traffic, 1, at(3, 100)));
    run(&mut traffic, legs);
    assert_eq!((traffic.at(Shuttle(0)), traffic.at(Shuttle(1))), (at(3, 800), at(3, 100)));
}

#[test]
fn two_shuttles_swap_places_and_the_lower_number_makes_room() {
    let mut traffic = traffic(&[at(3, 200), at(3, 600)]);
    traffic.set_stance(Shuttle(1), Stance::Working);
    let mut legs = send(&mut traffic, 0, at(3, 600));
    legs.extend(send(&mut traffic, 1, at(3, 200)));
    assert_eq!(legs, []);
    traffic.set_now(ASK_WAITING_AFTER);
    traffic.retry(&mut legs);
    assert!(legs.iter().all(|(shuttle, _)| *shuttle == Shuttle(0)), "{legs:?}");
    run(&mut traffic, legs);
    assert_eq!((traffic.at(Shuttle(0)), traffic.at(Shuttle(1))), (at(3, 600), at(3, 200)));
}

#[test]
fn a_lost_shuttle_is_passed_on_another_shelf() {
    let mut traffic = traffic(&[at(3, 200), at(3, 600)]);
    traffic.mark_lost(Shuttle(1), 6_000_000);
    let legs = send(&mut traffic, 0, at(3, 900));
    assert_eq!(run(&mut traffic, legs), 3);
    assert_eq!(traffic.at(Shuttle(0)), at(3, 900));
}

#[test]
fn a_shuttle_stuck_between_two_shelves_blocks_both() {
    let mut traffic = traffic(&[at(3, 200), at(3, 600)]);
    let legs = send(&mut traffic, 1, at(2, 600));
    assert_eq!(legs.len(), 1);
    traffic.mark_lost(Shuttle(1), 6_000_000);
    assert_eq!(traffic.other_shelf(Shuttle(1)), Some(2));
    let legs = send(&mut traffic, 0, at(3, 900));
    run(&mut traffic, legs);
    assert_eq!(traffic.at(Shuttle(0)), at(3, 900));
}

#[test]
fn idle_shuttles_that_box_in_another_make_room_too() {
    // Shuttle 1 rests at the goal, with others on both sides, above and below.
    let mut traffic = traffic(&[at(1, 274), at(1, 322), at(1, 358), at(0, 328), at(2, 349), at(1, 394), at(1, 238)]);
    let mut legs = send(&mut traffic, 0, at(1, 300));
    for second in 1..20 {
        run(&mut traffic, std::mem::take(&mut legs));
        traffic.set_now(Micros(second * 1_000_000));
        traffic.retry(&mut legs);
    }
    run(&mut traffic, legs);
    assert_eq!(traffic.at(Shuttle(0)), at(1, 300));
}

#[test]
fn a_shuttle_whose_plan_is_dropped_before_it_began_is_reported() {
    let mut traffic = traffic(&[at(4, 200), at(3, 500), at(9, 500), at(2, 500), at(3, 465), at(3, 535)]);
    // Shuttle 1 has to leave its shelf between others. The one below is taken, and on the one
    // above, shuttle 0 has to pass first.
    let mut legs = send(&mut traffic, 0, at(4, 800));
    let shelf = Path { from: at(3, 0), via: 3, to: at(3, 1_200) };
    assert!(traffic.make_room(Shuttle(1), Shuttle(2), &shelf, &mut legs));
    assert_eq!(legs, [(Shuttle(0), at(4, 800))]);
    traffic.mark_lost(Shuttle(2), 5_000_000);
    assert_eq!(traffic.take_without_plan(), Some(Shuttle(1)));
    assert_eq!(traffic.take_without_plan(), None);
}

#[test]
fn a_shuttle_that_loses_its_plan_at_its_goal_goes_on_with_its_job() {
    let mut traffic = traffic(&[at(3, 500), at(9, 100), at(4, 900)]);
    let mut legs = send(&mut traffic, 2, at(4, 600));
    // Shuttle 0 makes room by way of its goal, one shelf up. Shuttle 2 is in the way of the rest.
    traffic.motions[0].goal = Some(at(4, 500));
    traffic.motions[0].waits_since = Some(Micros::ZERO);
    traffic.waiting = 1;
    let path = Path { from: at(3, 500), via: 4, to: at(4, 700) };
    traffic.set_plan(Shuttle(0), Some(Plan::new(path, Micros(1), &Pace::default())));
    traffic.start_next_leg(Shuttle(0), &mut legs);
    assert_eq!(legs, [(Shuttle(2), at(4, 600)), (Shuttle(0), at(4, 500))]);
    legs.clear();
    assert!(!traffic.leg_ended(Shuttle(0), at(4, 500), &mut legs));
    traffic.mark_lost(Shuttle(1), 1_000_000);
    traffic.retry(&mut legs);
    assert_eq!((legs, traffic.take_without_plan()), (vec![], Some(Shuttle(0))));
    assert_eq!((traffic.goal(Shuttle(0)), traffic.deadline()), (None, None));
}
