//! Every impossible command stops the run with a message that says why.

use std::panic::{AssertUnwindSafe, catch_unwind};

use fulgurite_library::{Action, Actor, Bay, Berth, Drive, Platter, Position, Shuttle, Slot};
use fulgurite_mechanics::Settings;

use crate::rig::{DRIVE, Rig, SHUTTLE, mount, pick, place, read, slot, verify};

/// Expects that the last of these commands is rejected for this reason, and the earlier ones are
/// not.
fn refused(before: &[(Actor, Action)], actor: Actor, action: Action, why: &str) {
    let mut rig = Rig::new(Settings::default());
    for &(actor, action) in before {
        rig.take(actor, action);
    }
    refused_by(&mut rig, actor, action, why);
}

fn refused_by(rig: &mut Rig, actor: Actor, action: Action, why: &str) {
    let outcome = catch_unwind(AssertUnwindSafe(|| rig.take(actor, action)));
    let message = *outcome.expect_err("it was carried out").downcast::<String>().expect("a sentence");
    assert!(message.starts_with("programming error at ") && message.contains(why), "{message}");
}

fn at(number: u32) -> Position {
    Rig::new(Settings::default()).mechanics.layout().slot_position(Slot(number))
}

fn go(to: Position) -> Action {
    Action::Move { to }
}

#[test]
fn a_shuttle_moves_along_its_shelf_or_to_a_neighbouring_one_at_the_same_x() {
    let here = at(0);
    refused(&[], SHUTTLE, go(Position { shelf: 2, ..here }), "neither on that shelf");
    refused(&[], SHUTTLE, go(Position { shelf: 1, x_um: here.x_um + 1 }), "neither on that shelf");
    refused(&[], SHUTTLE, go(Position { x_um: -1, ..here }), "outside the panel");
    refused(&[], SHUTTLE, go(Position { x_um: 12_000_001, ..here }), "outside the panel");
    let up: Vec<(Actor, Action)> = (1..=9).map(|shelf| (SHUTTLE, go(Position { shelf, ..here }))).collect();
    refused(&up, SHUTTLE, go(Position { shelf: 10, ..here }), "outside the panel");
}

#[test]
fn a_pick_needs_an_empty_shuttle_in_front_of_the_platter() {
    refused(&[], SHUTTLE, pick(slot(0), 7), "platter 0 is there");
    refused(&[], SHUTTLE, pick(slot(1), 0), "but the berth is at");
    refused(&[(SHUTTLE, go(at(1)))], SHUTTLE, pick(slot(1), 0), "nothing is there");
    refused(&[(SHUTTLE, pick(slot(0), 0))], SHUTTLE, pick(slot(0), 0), "it carries platter 0");
    refused(&[], SHUTTLE, pick(slot(21_000), 0), "the berth doesn't exist");
    let door = Rig::new(Settings::default()).mechanics.layout().drive_position(Drive(0));
    let bay = Berth::Bay(Drive(0), Bay(0));
    refused(&[(SHUTTLE, go(door)), (DRIVE, mount(0, 1))], SHUTTLE, pick(bay, 1), "it is mounted");
}

#[test]
fn a_place_needs_an_empty_berth_and_the_platter_on_the_shuttle() {
    refused(&[], SHUTTLE, place(slot(0), 0), "it carries None");
    refused(&[(SHUTTLE, pick(slot(0), 0))], SHUTTLE, place(slot(0), 1), "it carries Some(Platter(0))");
    refused(&[(SHUTTLE, pick(slot(0), 0))], SHUTTLE, place(slot(1), 0), "but the berth is at");
    let door = Rig::new(Settings::default()).mechanics.layout().drive_position(Drive(0));
    let before = [(SHUTTLE, pick(slot(0), 0)), (SHUTTLE, go(door))];
    refused(&before, SHUTTLE, place(Berth::Bay(Drive(0), Bay(0)), 0), "platter 1 is there");
}

#[test]
fn written_platters_never_return_to_the_write_rack() {
    let mut rig = Rig::new(Settings::default());
    rig.take(SHUTTLE, pick(slot(0), 0));
    let port = rig.mechanics.layout().port_position();
    for shelf in 1..=port.shelf {
        rig.go(0, Position { shelf, ..at(0) });
    }
    rig.go(0, port);
    refused_by(&mut rig, SHUTTLE, place(Berth::Port, 0), "never comes back");
}

#[test]
fn a_shuttle_charges_at_a_dock() {
    refused(&[], SHUTTLE, Action::Charge, "which is not a dock");
}

#[test]
fn a_drive_mounts_an_unmounted_platter_in_its_bay() {
    refused(&[], DRIVE, mount(1, 0), "None is in that bay");
    refused(&[], DRIVE, mount(0, 0), "Some(Platter(1)) is in that bay");
    refused(&[], DRIVE, mount(2, 1), "two bays");
    refused(&[(DRIVE, mount(0, 1))], DRIVE, mount(0, 1), "platter 1 is mounted there");
    refused(&[], DRIVE, Action::Unmount { bay: Bay(0), platter: Platter(1) }, "None is mounted there");
    refused(&[], DRIVE, Action::Switch { to: Bay(2) }, "two bays");
}

#[test]
fn a_drive_reads_the_platter_mounted_under_its_head() {
    refused(&[], DRIVE, read(1, 0, 1, false), "None is mounted there");
    refused(&[(DRIVE, mount(0, 1))], DRIVE, read(0, 0, 1, false), "Some(Platter(1)) is mounted there");
    refused(&[(DRIVE, mount(0, 1)), (DRIVE, Action::Switch { to: Bay(1) })], DRIVE, read(1, 0, 1, false), "turned to bay 1");
    refused(&[(DRIVE, mount(0, 1))], DRIVE, read(1, 0, 0, false), "no tracks");
    refused(&[(DRIVE, mount(0, 1))], DRIVE, verify(1, 0, 0), "no tracks");
    refused(&[], DRIVE, verify(1, 0, 9), "None is mounted there");
}

#[test]
fn the_head_stays_where_the_last_read_left_it() {
    refused(&[(DRIVE, mount(0, 1))], DRIVE, read(1, 0, 1, true), "the head is at None");
    refused(&[(DRIVE, mount(0, 1)), (DRIVE, read(1, 5, 2, false))], DRIVE, read(1, 8, 1, true), "the head is at");
}

#[test]
fn every_actor_runs_one_command_of_its_own_kind_at_a_time() {
    refused(&[], DRIVE, Action::Charge, "a shuttle's work");
    refused(&[], SHUTTLE, mount(0, 1), "a drive's work");
    let mut rig = Rig::new(Settings::default());
    rig.command(SHUTTLE, go(at(50)));
    refused_by(&mut rig, SHUTTLE, go(at(60)), "command 1 has not been answered");
    rig.command(DRIVE, mount(0, 1));
    refused_by(&mut rig, DRIVE, mount(0, 1), "command 3 has not been answered");
}

#[test]
#[should_panic(expected = "put into Slot(Slot(0)), which is taken")]
fn a_berth_holds_one_platter() {
    Rig::new(Settings::default()).mechanics.put(Platter(9), slot(0));
}

#[test]
#[should_panic(expected = "the platter is At(Slot(Slot(0)))")]
fn a_platter_is_in_the_library_once() {
    Rig::new(Settings::default()).mechanics.put(Platter(0), slot(1));
}

#[test]
fn a_platter_mounted_while_it_is_picked_stops_the_run() {
    let mut rig = Rig::new(Settings::default());
    rig.go(0, rig.mechanics.layout().drive_position(Drive(0)));
    rig.command(Actor::Shuttle(Shuttle(0)), pick(Berth::Bay(Drive(0), Bay(0)), 1));
    rig.take(DRIVE, mount(0, 1));
    refused_by(&mut rig, DRIVE, verify(1, 0, 9), "has since mounted it");
}
