//! Tests of the queues.

use super::*;

fn ask(queue: &mut Queue, now: u64, id: u64, platter: u32, first: u32) {
    let tracks = Tracks { first, count: 2 };
    queue.push(Micros(now), &ReadRequest { id: RequestId(id), platter: Platter(platter), tracks, deadline: Micros::NEVER });
}

fn line(queue: &Queue, lane: u16) -> Vec<u32> {
    queue.line(Lane(lane)).map(|platter| platter.0).collect()
}

#[test]
fn platters_queue_in_order_of_their_most_urgent_request() {
    let mut queue = Queue::new(5, 2, 100);
    for (now, platter) in [(1, 3), (2, 1), (3, 4), (4, 3)] {
        ask(&mut queue, now, now, platter, 0);
    }
    for platter in [4, 3, 1, 1] {
        queue.enqueue_platter(Platter(platter), Lane(0));
    }
    assert_eq!(line(&queue, 0), [3, 1, 4]);
    assert_eq!((queue.platters_in(Lane(0)), queue.tracks_in(Lane(0)), queue.requests()), (3, 8, 4));
    queue.remove_platter(Platter(1));
    queue.enqueue_platter(Platter(1), Lane(1));
    assert_eq!((line(&queue, 0), line(&queue, 1)), (vec![3, 4], vec![1]));
    queue.remove_platter(Platter(4));
    queue.remove_platter(Platter(3));
    assert_eq!((line(&queue, 0), queue.tracks_in(Lane(0))), (vec![], 0));
}

#[test]
fn requests_of_a_platter_come_in_order_of_arrival_or_of_their_tracks() {
    let mut queue = Queue::new(1, 1, 100);
    for (id, first) in [(1, 50), (2, 10), (3, 30), (4, 12)] {
        ask(&mut queue, id, id, 0, first);
    }
    let mut next = |at| queue.pop(Platter(0), at).map(|waiting| waiting.id.0);
    assert_eq!(next(None), Some(1));
    assert_eq!(next(Some(12)), Some(4));
    assert_eq!(next(Some(14)), Some(3));
    assert_eq!(next(Some(32)), Some(2));
    assert_eq!(next(Some(12)), None);
    ask(&mut queue, 9, 5, 0, 0);
    assert_eq!((queue.requests(), queue.requests_for(Platter(0)), queue.tracks_for(Platter(0)), queue.nodes.len()), (1, 1, 2, 4));
}

#[test]
fn requests_the_head_has_passed_wait_for_its_next_pass() {
    let mut queue = Queue::new(1, 1, 100);
    // Two requests for the same tracks, one that overlaps them, one that follows, and one
    // before the head.
    for (now, id, first) in [(5, 1, 10), (6, 2, 10), (7, 3, 11), (8, 4, 12), (9, 5, 3)] {
        ask(&mut queue, now, id, 0, first);
    }
    let mut next = |at| queue.pop(Platter(0), Some(at)).map(|waiting| (waiting.id.0, waiting.tracks.end()));
    let (mut order, mut at) = (Vec::new(), 9);
    while let Some((id, end)) = next(at) {
        order.push(id);
        at = end;
    }
    assert_eq!(order, [1, 4, 5, 2, 3]);
}

#[test]
fn the_most_urgent_request_is_known_after_any_mix_of_pops_and_pushes() {
    let mut queue = Queue::new(1, 1, 100);
    for (now, id, first) in [(5, 1, 30), (6, 2, 10), (7, 3, 20)] {
        ask(&mut queue, now, id, 0, first);
    }
    let arrived = |queue: &Queue| queue.rank(Platter(0)).map(|rank| rank.arrived);
    let pop = |queue: &mut Queue, at| queue.pop(Platter(0), at).map(|waiting| waiting.id.0);
    assert_eq!((pop(&mut queue, Some(0)), arrived(&queue)), (Some(2), Some(Micros(5))));
    assert_eq!(
        (pop(&mut queue, Some(25)), arrived(&queue)),
        (Some(3), Some(Micros(5))),
        "requests are sorted once, for the head's position at that time"
    );
    ask(&mut queue, 8, 4, 0, 40);
    assert_eq!((pop(&mut queue, Some(22)), arrived(&queue)), (Some(1), Some(Micros(8))));
    ask(&mut queue, 9, 5, 0, 50);
    queue.enqueue_platter(Platter(0), Lane(0));
    assert_eq!((pop(&mut queue, None), arrived(&queue)), (Some(4), Some(Micros(9))));
    assert_eq!((pop(&mut queue, None), arrived(&queue)), (Some(5), None));
}

#[test]
fn the_most_urgent_request_is_known_among_several_of_the_same_time() {
    let mut queue = Queue::new(1, 1, 100);
    for (now, id, first) in [(5, 1, 40), (5, 2, 10), (5, 3, 30), (6, 4, 20), (7, 5, 0)] {
        ask(&mut queue, now, id, 0, first);
    }
    let next = |queue: &mut Queue| {
        let id = queue.pop(Platter(0), Some(0)).map(|waiting| waiting.id.0);
        (id, queue.rank(Platter(0)).map(|rank| rank.arrived.0))
    };
    let order: Vec<_> = (0..5).map(|_| next(&mut queue)).collect();
    assert_eq!(order, [(Some(5), Some(5)), (Some(2), Some(5)), (Some(4), Some(5)), (Some(3), Some(5)), (Some(1), None)]);
    ask(&mut queue, 8, 6, 0, 0);
    ask(&mut queue, 8, 7, 0, 0);
    assert_eq!((next(&mut queue), next(&mut queue)), ((Some(6), Some(8)), (Some(7), None)));
}

fn ask_by(queue: &mut Queue, now: u64, id: u64, platter: u32, deadline: u64) {
    let tracks = Tracks { first: 1000 - 10 * (id % 100) as u32, count: 2 };
    queue.push(Micros(now), &ReadRequest { id: RequestId(id), platter: Platter(platter), tracks, deadline: Micros(deadline) });
}

#[test]
fn what_is_due_first_goes_first() {
    let mut queue = Queue::new(3, 1, 4);
    for (now, id, platter, deadline) in [(1, 1, 0, 900), (2, 2, 1, 800), (3, 3, 2, 850), (4, 4, 0, 870)] {
        ask_by(&mut queue, now, id, platter, deadline);
        queue.enqueue_platter(Platter(platter), Lane(0));
    }
    assert_eq!(line(&queue, 0), [1, 2, 0]);
    // A request for a platter in the line moves it forward.
    ask_by(&mut queue, 5, 5, 0, 100);
    assert_eq!((line(&queue, 0), queue.tracks_in(Lane(0)), queue.long_reads()), (vec![0, 1, 2], 10, &[Platter(0)][..]));
    assert_eq!((queue.head_start(Platter(0)), queue.head_start(Platter(1))), (Micros(804), Micros(101)));
    assert_eq!(queue.age(Platter(0), Micros(7)), Micros(806));
    let order: Vec<u64> = std::iter::from_fn(|| queue.pop(Platter(0), None).map(|waiting| waiting.id.0)).collect();
    assert_eq!(order, [5, 4, 1]);
}

#[test]
fn an_urgent_request_goes_before_those_sorted_by_track() {
    let mut queue = Queue::new(1, 1, 100);
    for id in 1..=4 {
        ask_by(&mut queue, id, id, 0, 1_000_000_000 + id);
    }
    let mut order = vec![queue.pop(Platter(0), Some(0)).map(|waiting| waiting.id.0)];
    ask_by(&mut queue, 5, 5, 0, 500);
    ask_by(&mut queue, 6, 6, 0, 2_000_000_000);
    ask_by(&mut queue, 7, 7, 0, 1_500_000_000);
    order.extend((0..6).map(|_| queue.pop(Platter(0), Some(0)).map(|waiting| waiting.id.0)));
    assert_eq!(order, [4, 5, 3, 2, 1, 7, 6].map(Some), "tracks go up as numbers go down");
    assert_eq!((queue.pop(Platter(0), None), queue.requests(), queue.tracks_for(Platter(0))), (None, 0, 0));
}

#[test]
fn several_urgent_requests_go_before_those_sorted_by_track_in_their_order() {
    let mut queue = Queue::new(1, 1, 100);
    for id in 0..10 {
        ask_by(&mut queue, id, id, 0, 43_200_000_000 + id);
    }
    let pop = |queue: &mut Queue| queue.pop(Platter(0), Some(0)).map(|waiting| waiting.id.0);
    assert_eq!(pop(&mut queue), Some(9));
    for (id, deadline) in [(20, 310_000_000), (21, 311_000_000), (22, 309_000_000)] {
        ask_by(&mut queue, id, id, 0, deadline);
    }
    // Two of those that were sorted are due sooner now.
    queue.hasten(Platter(0), RequestId(3), Micros(312_000_000));
    queue.hasten(Platter(0), RequestId(8), Micros(313_000_000));
    let deadline = |queue: &Queue| queue.rank(Platter(0)).map(|rank| rank.deadline.0 / 1_000_000);
    let mut order = Vec::new();
    while let Some(id) = {
        let urgent = deadline(&queue);
        pop(&mut queue).map(|id| (id, urgent))
    } {
        order.push(id);
    }
    let ids: Vec<u64> = order.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [22, 20, 21, 3, 8, 7, 6, 5, 4, 2, 1, 0]);
    assert_eq!(order[4], (8, Some(313)));
    assert_eq!(order[5], (7, Some(43_200)));
}

#[test]
fn reading_by_track_lets_nothing_wait_for_what_is_due_a_minute_later() {
    let mut seed = 7_u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let (mut queue, mut all) = (Queue::new(1, 1, 100), Vec::<(Rank, u64)>::new());
    for id in 0..50_000 {
        let now = id * 3_000_000;
        match random(10) {
            0..5 => {
                let deadline = now + [300, 18_000, 43_200][random(3) as usize] * 1_000_000;
                ask_by(&mut queue, now, id, 0, deadline);
                all.push((Rank { deadline: Micros(deadline), arrived: Micros(now) }, id));
            }
            5 if !all.is_empty() => {
                let index = random(all.len() as u64) as usize;
                let deadline = Micros(now + random(20_000) * 1_000_000);
                queue.hasten(Platter(0), RequestId(all[index].1), deadline);
                all[index].0.deadline = all[index].0.deadline.min(deadline);
            }
            _ => {
                let by_track = if random(8) == 0 { None } else { Some(random(1_000) as u32) };
                let most_urgent = all.iter().map(|(rank, _)| *rank).min();
                let popped = queue.pop(Platter(0), by_track);
                assert_eq!(popped.is_some(), most_urgent.is_some());
                if let (Some(popped), Some(most_urgent)) = (popped, most_urgent) {
                    assert!(popped.rank.deadline.since(most_urgent.deadline) <= BATCH, "{:?} before {most_urgent:?}", popped.rank);
                    all.retain(|(_, id)| *id != popped.id.0);
                }
            }
        }
        assert_eq!(queue.rank(Platter(0)), all.iter().map(|(rank, _)| *rank).min());
        assert_eq!(queue.requests(), all.len() as u64);
    }
}

#[test]
fn any_mix_of_pushes_and_pops_keeps_the_order_of_ranks() {
    let mut seed = 1_u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let (mut queue, mut all) = (Queue::new(5, 1, 6), Vec::<(u32, Rank, u64)>::new());
    for id in 0..20_000 {
        let platter = random(5) as u32;
        if random(9) < 5 {
            let deadline = if random(8) == 0 { Micros::NEVER.0 } else { id + random(40) };
            ask_by(&mut queue, id, id, platter, deadline);
            all.push((platter, Rank { deadline: Micros(deadline), arrived: Micros(id) }, id));
            queue.enqueue_platter(Platter(platter), Lane(0));
        } else if random(4) == 0 && !all.is_empty() {
            let index = random(all.len() as u64) as usize;
            let (platter, rank, request) = &mut all[index];
            let deadline = Micros(id + random(40));
            queue.hasten(Platter(*platter), RequestId(*request), deadline);
            rank.deadline = rank.deadline.min(deadline);
        } else {
            let first = all.iter().filter(|(of, ..)| *of == platter).min_by_key(|(_, rank, _)| *rank).copied();
            queue.remove_platter(Platter(platter));
            let popped = queue.pop(Platter(platter), None);
            assert_eq!(popped.map(|popped| (platter, popped.rank, popped.id.0)), first);
            all.retain(|waiting| Some(*waiting) != first);
            queue.enqueue_platter(Platter(platter), Lane(0));
        }
        let mut heads: Vec<(Rank, u32)> = (0..5).filter_map(|platter| Some((queue.rank(Platter(platter))?, platter))).collect();
        heads.sort_unstable();
        assert_eq!(line(&queue, 0), heads.iter().map(|(_, platter)| *platter).collect::<Vec<_>>());
        assert_eq!((queue.requests(), queue.tracks_in(Lane(0))), (all.len() as u64, 2 * all.len() as u64));
        let mut long: Vec<Platter> = queue.long_reads().to_vec();
        long.sort_unstable();
        let is_long = |platter: &u32| all.iter().filter(|(of, ..)| of == platter).count() >= 3;
        assert_eq!(long, (0..5).filter(is_long).map(Platter).collect::<Vec<_>>());
    }
}

#[test]
fn a_platter_without_requests_joins_no_line() {
    let mut queue = Queue::new(1, 1, 100);
    queue.enqueue_platter(Platter(0), Lane(0));
    assert_eq!(line(&queue, 0), [0_u32; 0]);
}
