use super::*;
use crate::layout::Station;
use crate::lot::FamilyId;

const MB: u64 = 1_000_000;

fn layout(inputs: u16, outputs: u16, scans: u16, spools: &[(u64, bool)]) -> Layout {
    let spools = spools.iter().map(|&(bytes, is_exclusive)| Spool { bytes, is_exclusive, is_reserve: false }).collect();
    Layout { stations: vec![Station { name: "one".into(), inputs, outputs, scans, spools }], rules: Rules::default() }
}

fn lot(id: u64, bytes: u64) -> Lot {
    Lot { id: LotId(id), files: 1, bytes, family: FamilyId(id as u32), volume: None, priority: 0 }
}

fn done(stream: u16, lot: Lot) -> Done {
    Done { stream: StreamId(stream), lot: lot.id, files: lot.files, bytes: lot.bytes, moving: Micros::ZERO }
}

/// A pipeline and the commands of its last step.
struct Driven {
    pipeline: Pipeline,
    now: Micros,
    commands: Vec<Command>,
}

impl Driven {
    fn begun(layout: &Layout) -> Self {
        let mut driven = Self { pipeline: Pipeline::new(layout), now: Micros::ZERO, commands: Vec::new() };
        driven.step(Event::Begun);
        driven
    }

    fn step(&mut self, event: Event) -> Vec<Command> {
        self.commands.clear();
        self.pipeline.step(self.now, event, &mut self.commands);
        self.commands.clone()
    }

    fn offer(&mut self, stream: u16, lot: Lot) -> Vec<Command> {
        self.step(Event::Offered { stream: StreamId(stream), lot })
    }

    fn nothing(&mut self, stream: u16, again_at: Option<Micros>) -> Vec<Command> {
        self.step(Event::NothingOffered { stream: StreamId(stream), again_at })
    }

    fn waits(&self) -> Vec<Activity> {
        self.pipeline.streams().map(|(_, activity)| activity).collect()
    }
}

const ASK_0: Command = Command::Ask { stream: StreamId(0), mounted: None };

#[test]
fn a_lot_passes_all_stages_and_the_run_ends() {
    let mut run = Driven::begun(&layout(1, 1, 1, &[(10 * MB, false)]));
    assert_eq!(run.commands, [ASK_0]);
    let lot = lot(7, MB);
    let (id, spool) = (lot.id, SpoolId(0));
    assert_eq!(run.offer(0, lot), [Command::Read { stream: StreamId(0), lot: id, spool }]);
    assert_eq!(run.step(Event::Read(done(0, lot))), [Command::Write { stream: StreamId(1), lot: id, spool }, ASK_0]);
    assert_eq!(run.nothing(0, None), []);
    assert_eq!(
        run.step(Event::Written(done(1, lot))),
        [Command::Release { lot: id, spool }, Command::Scan { stream: StreamId(2), lot: id }]
    );
    assert!(!run.pipeline.has_ended() && run.pipeline.spooled_bytes().eq([0]));
    assert_eq!(run.step(Event::Scanned(done(2, lot))), [Command::End]);
    assert!(run.pipeline.has_ended() && run.pipeline.lots() == 0);
}

#[test]
fn a_lot_that_was_found_is_written_and_takes_room() {
    let layout = layout(1, 1, 1, &[(10 * MB, false)]);
    let mut run = Driven { pipeline: Pipeline::new(&layout), now: Micros::ZERO, commands: Vec::new() };
    let (found, spool) = (lot(3, 9 * MB), SpoolId(0));
    assert_eq!(run.step(Event::Found { lot: found, spool }), [], "the run has not begun");
    let refused = |run: &mut Driven, lot, spool| run.pipeline.try_step(Micros::ZERO, Event::Found { lot, spool }, &mut Vec::new());
    assert_eq!(refused(&mut run, found, spool), Err(Unfit::OnItsWay(found.id)));
    assert_eq!(refused(&mut run, lot(4, MB), SpoolId(1)), Err(Unfit::NoSpool(SpoolId(1))));
    assert_eq!(run.step(Event::Begun), [Command::Write { stream: StreamId(1), lot: found.id, spool }, ASK_0]);
    assert_eq!(refused(&mut run, lot(4, MB), spool), Err(Unfit::FoundLate(LotId(4))));
    assert_eq!(run.offer(0, lot(4, 2 * MB)), []);
    assert_eq!(run.waits()[0], Activity::Waits(Wait::Room));
    let commands = run.step(Event::Written(done(1, found)));
    assert!(commands.contains(&Command::Read { stream: StreamId(0), lot: LotId(4), spool }), "{commands:?}");
    assert!(run.pipeline.spooled_bytes().eq([2 * MB]));
}

#[test]
fn a_found_lot_may_be_larger_than_what_volumes_have_room_for_now() {
    let mut run = Driven { pipeline: Pipeline::new(&layout(1, 1, 1, &[(MB, false)])), now: Micros::ZERO, commands: Vec::new() };
    run.step(Event::Found { lot: lot(3, 9 * MB), spool: SpoolId(0) });
    run.step(Event::Begun);
    assert_eq!(run.offer(0, lot(4, MB)), []);
    assert!(run.step(Event::Written(done(1, lot(3, 9 * MB)))).contains(&Command::Read {
        stream: StreamId(0),
        lot: LotId(4),
        spool: SpoolId(0)
    }));
}

#[test]
fn a_reserve_takes_large_lots_and_others_only_while_outputs_stall() {
    let mut layout = layout(2, 1, 1, &[(10 * MB, false), (100 * MB, false)]);
    layout.stations[0].spools[1].is_reserve = true;
    let read = |stream, lot: Lot, spool| Command::Read { stream: StreamId(stream), lot: lot.id, spool: SpoolId(spool) };
    let mut run = Driven::begun(&layout);
    // Four for which memory has room, which are read; the output writes the first.
    let small: Vec<Lot> = (1..=7).map(|id| lot(id, 5 * MB / 2)).collect();
    for (stream, lot) in [0, 1, 0, 1].into_iter().zip(&small) {
        assert!(run.offer(stream, *lot).contains(&read(stream, *lot, 0)));
        run.step(Event::Read(done(stream, *lot)));
    }
    run.now = Micros::from_seconds(100.0);
    let large = lot(8, 3 * MB);
    assert!(run.offer(1, large).contains(&read(1, large, 1)), "a large lot doesn't wait for memory");
    run.step(Event::Read(done(1, large)));
    let still = Micros::from_seconds(105.0);
    assert_eq!(run.offer(0, small[4]), [Command::WakeAt(still)]);
    assert_eq!(run.waits()[0], Activity::Waits(Wait::Room));

    // The output goes on: the lot gets the room of the one that was written.
    run.now = Micros::from_seconds(104.0);
    assert!(run.step(Event::Written(done(2, small[0]))).contains(&read(0, small[4], 0)));
    run.step(Event::Read(done(0, small[4])));
    let commands = run.offer(0, small[5]);
    assert_eq!(commands, [], "it is woken at 105 s anyway");
    run.now = still;
    assert_eq!(run.step(Event::Woken), [Command::WakeAt(Micros::from_seconds(109.0))]);

    // It stands still: lots go to the reserve until it goes on.
    run.now = Micros::from_seconds(109.0);
    assert_eq!(run.step(Event::Woken), [read(0, small[5], 1)]);
    run.step(Event::Read(done(0, small[5])));
    assert!(run.offer(0, small[6]).contains(&read(0, small[6], 1)));
    run.step(Event::Written(done(2, small[1])));
    run.step(Event::Read(done(0, small[6])));
    let last = [lot(9, 5 * MB / 2), lot(10, 5 * MB / 2)];
    assert!(run.offer(0, last[0]).contains(&read(0, last[0], 0)), "memory has room again");
    run.step(Event::Read(done(0, last[0])));
    assert_eq!(run.offer(0, last[1]), [Command::WakeAt(Micros::from_seconds(114.0))]);
}

#[test]
fn small_lots_leave_room_for_a_larger_one_that_waits() {
    let mut layout = layout(2, 1, 1, &[(40 * MB, false), (100 * MB, false)]);
    layout.stations[0].spools[1].is_reserve = true;
    let mut run = Driven::begun(&layout);
    let read = |stream, lot: Lot| Command::Read { stream: StreamId(stream), lot: lot.id, spool: SpoolId(0) };
    let small: Vec<Lot> = (1..=9).map(|id| lot(id, 4 * MB)).collect();
    for lot in &small {
        assert!(run.offer(0, *lot).contains(&read(0, *lot)));
        run.step(Event::Read(done(0, *lot)));
    }
    // 4 MB are left, and each lot that is written leaves 4 MB more.
    let (larger, later) = (lot(10, 10 * MB), lot(11, 2 * MB));
    run.offer(1, larger);
    run.offer(0, later);
    assert_eq!(run.waits()[..2], [Activity::Waits(Wait::Room), Activity::Waits(Wait::Room)]);
    run.step(Event::Written(done(2, small[0])));
    assert_eq!(run.waits()[..2], [Activity::Waits(Wait::Room), Activity::Waits(Wait::Room)], "8 MB are for the larger one");
    let commands = run.step(Event::Written(done(2, small[1])));
    assert!(commands.contains(&read(0, later)) && commands.contains(&read(1, larger)), "{commands:?}");
    // An urgent one goes before.
    let mut run = Driven::begun(&layout);
    for lot in &small {
        run.offer(0, *lot);
        run.step(Event::Read(done(0, *lot)));
    }
    run.offer(1, larger);
    let urgent = Lot { priority: 1, ..later };
    assert!(run.offer(0, urgent).contains(&read(0, urgent)));
}

#[test]
fn an_exclusive_volume_has_one_user_and_lots_alternate_between_two() {
    let mut run = Driven::begun(&layout(1, 1, 1, &[(10 * MB, true)]));
    run.offer(0, lot(1, MB));
    run.step(Event::Read(done(0, lot(1, MB))));
    // The output reads the only volume.
    assert_eq!(run.offer(0, lot(2, MB)), []);
    assert_eq!(run.waits()[0], Activity::Waits(Wait::Volume));
    let commands = run.step(Event::Written(done(1, lot(1, MB))));
    assert!(commands.contains(&Command::Read { stream: StreamId(0), lot: LotId(2), spool: SpoolId(0) }));

    let mut run = Driven::begun(&layout(1, 1, 1, &[(10 * MB, true), (10 * MB, true)]));
    run.offer(0, lot(1, MB));
    run.step(Event::Read(done(0, lot(1, MB))));
    assert_eq!(run.offer(0, lot(2, MB)), [Command::Read { stream: StreamId(0), lot: LotId(2), spool: SpoolId(1) }]);
}

#[test]
fn inputs_wait_for_room_and_a_lot_that_never_fits_is_rejected() {
    let mut run = Driven::begun(&layout(2, 1, 0, &[(10 * MB, false)]));
    run.offer(0, lot(1, 6 * MB));
    assert_eq!(run.offer(1, lot(2, 6 * MB)), []);
    assert_eq!(run.waits()[1], Activity::Waits(Wait::Room));
    let read = run.step(Event::Read(Done { files: 1, bytes: 3 * MB, ..done(0, lot(1, 0)) }));
    // Half of it failed to be read, so there is room.
    assert!(read.contains(&Command::Read { stream: StreamId(1), lot: LotId(2), spool: SpoolId(0) }));
    assert_eq!(run.offer(0, lot(3, 11 * MB)), [Command::Reject { stream: StreamId(0), lot: LotId(3), largest: 10 * MB }, ASK_0]);
}

#[test]
fn a_lot_of_which_nothing_is_left_leaves_the_pipeline_and_inputs_ask_again() {
    let mut run = Driven::begun(&layout(2, 1, 1, &[(10 * MB, false)]));
    run.offer(0, lot(1, MB));
    assert_eq!(run.nothing(1, None), []);
    let failed = Done { files: 0, bytes: 0, ..done(0, lot(1, 0)) };
    let asks = Command::Ask { stream: StreamId(1), mounted: None };
    assert_eq!(run.step(Event::Read(failed)), [Command::Release { lot: LotId(1), spool: SpoolId(0) }, ASK_0, asks]);
    run.nothing(0, Some(Micros::HOUR));
    assert_eq!(run.commands, [Command::WakeAt(Micros::HOUR)]);
    assert_eq!(run.nothing(1, Some(Micros::HOUR)), []);
    assert_eq!(run.waits()[0], Activity::Waits(Wait::Files));
    run.now = Micros::HOUR;
    assert_eq!(run.step(Event::Woken), [ASK_0, asks]);
    run.nothing(0, None);
    assert_eq!(run.nothing(1, None), [Command::End]);
}

#[test]
fn families_stay_together_and_priorities_go_first() {
    let of = |id, family, priority| Lot { family: FamilyId(family), priority, ..lot(id, MB) };
    let mut run = Driven::begun(&layout(1, 2, 0, &[(10 * MB, false)]));
    let mut pass = |lot: Lot| {
        run.offer(0, lot);
        run.step(Event::Read(done(0, lot)))
    };
    pass(of(1, 1, 0));
    // Its family is being written by the first output; the second doesn't begin it.
    let commands = pass(of(2, 1, 0));
    assert_eq!(commands, [ASK_0]);
    pass(of(3, 2, 0));
    pass(of(4, 1, 0));
    pass(of(5, 3, 9));
    assert_eq!(run.waits()[1..], [Activity::Busy(LotId(1)), Activity::Busy(LotId(3))]);
    let next = |commands: Vec<Command>| {
        commands.into_iter().find_map(|command| match command {
            Command::Write { lot, .. } => Some(lot.0),
            _ => None,
        })
    };
    assert_eq!(next(run.step(Event::Written(done(1, of(1, 1, 0))))), Some(5), "a priority goes first");
    assert_eq!(next(run.step(Event::Written(done(2, of(3, 2, 0))))), Some(2));
    assert_eq!(next(run.step(Event::Written(done(1, of(5, 3, 9))))), None, "family 1 is being written");
    assert_eq!(run.waits()[1], Activity::Waits(Wait::Family));
    assert_eq!(next(run.step(Event::Written(done(2, of(2, 1, 0))))), Some(4));
}

#[test]
fn a_pause_lets_lots_arrive_and_a_stop_ends_with_them() {
    let mut run = Driven::begun(&layout(2, 1, 1, &[(MB, false)]));
    run.offer(0, lot(1, MB));
    run.offer(1, lot(2, MB));
    assert_eq!(run.step(Event::Paused), []);
    let commands = run.step(Event::Read(done(0, lot(1, MB))));
    assert_eq!(commands, [Command::Write { stream: StreamId(2), lot: LotId(1), spool: SpoolId(0) }]);
    run.step(Event::Written(done(2, lot(1, MB))));
    assert_eq!(run.step(Event::Scanned(done(3, lot(1, MB)))), []);
    assert_eq!(run.waits()[1], Activity::Waits(Wait::Order));
    let resumed = run.step(Event::Resumed);
    assert!(resumed.contains(&Command::Read { stream: StreamId(1), lot: LotId(2), spool: SpoolId(0) }));
    assert_eq!(run.step(Event::Stopped), []);
    // What the inventory offers now stays there.
    assert_eq!(run.offer(0, lot(3, MB)), []);
    run.step(Event::Read(done(1, lot(2, MB))));
    run.step(Event::Written(done(2, lot(2, MB))));
    assert_eq!(run.step(Event::Scanned(done(3, lot(2, MB)))), [Command::End]);
}

#[test]
fn outputs_wait_for_scans() {
    let mut layout = layout(1, 1, 1, &[(10 * MB, false)]);
    layout.rules.unscanned_max = 2;
    let mut run = Driven::begun(&layout);
    for id in 1..=3 {
        run.offer(0, lot(id, MB));
        run.step(Event::Read(done(0, lot(id, MB))));
        if id < 3 {
            run.step(Event::Written(done(1, lot(id, MB))));
        }
    }
    assert_eq!(run.waits()[1], Activity::Waits(Wait::Scan));
    let commands = run.step(Event::Scanned(done(2, lot(1, MB))));
    assert!(commands.contains(&Command::Write { stream: StreamId(1), lot: LotId(3), spool: SpoolId(0) }));
}

#[test]
fn limits_hold_by_hour_of_the_day() {
    let mut layout = layout(1, 1, 0, &[(100 * MB, false)]);
    layout.rules.limits[0] = Some(MB);
    layout.rules.limits[1] = Some(0);
    let mut run = Driven::begun(&layout);
    run.offer(0, lot(1, 10 * MB));
    let commands = run.step(Event::Read(done(0, lot(1, 10 * MB))));
    assert!(commands.contains(&Command::WakeAt(Micros(10_000_000))) && run.waits()[0] == Activity::Waits(Wait::Limit));
    run.now = Micros(10_000_000);
    assert_eq!(run.step(Event::Woken), [ASK_0]);
    run.now = Micros(Micros::HOUR.0 + 5);
    // In the second hour nothing is read, and in the third everything.
    assert_eq!(run.offer(0, lot(2, 10 * MB)), [Command::WakeAt(Micros(2 * Micros::HOUR.0))]);
    run.now = Micros(2 * Micros::HOUR.0);
    assert_eq!(run.step(Event::Woken), [Command::Read { stream: StreamId(0), lot: LotId(2), spool: SpoolId(0) }]);
}

#[test]
fn drives_keep_their_volumes_to_themselves() {
    let mut run = Driven::begun(&layout(2, 1, 0, &[(10 * MB, false)]));
    let tape = SourceVolume(4);
    let of_tape = Lot { volume: Some(tape), ..lot(1, MB) };
    run.offer(0, of_tape);
    assert!(
        run.pipeline.volumes_in_use(StreamId(1)).any(|volume| volume == tape)
            && !run.pipeline.volumes_in_use(StreamId(0)).any(|volume| volume == tape)
    );
    let commands = run.step(Event::Read(done(0, of_tape)));
    assert!(commands.contains(&Command::Ask { stream: StreamId(0), mounted: Some(tape) }));
    run.nothing(0, None);
    assert!(!run.pipeline.volumes_in_use(StreamId(1)).any(|volume| volume == tape));
}
