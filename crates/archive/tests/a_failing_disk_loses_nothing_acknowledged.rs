//! Disks are full or fail at every single step of a workload: the operation says so, nothing that was acknowledged is lost, and when all is well
//! again everything works, at once and after the archive was opened anew.
//!
//! The fault model is in `sim/world.rs`.

mod sim;
mod support;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use fulgurite_archive::ArchiveError;
use fulgurite_archive::watch::Unwatched;
use sim::Scene;
use sim::world::{Fault, World};

type Step = fn(&mut Scene) -> Result<(), ArchiveError>;

/// Every operation of the archive. Each goes on with what the faults of those before it have left.
const WORKLOAD: [(&str, Step); 9] = [
    ("put", |scene| scene.put(&[("small", 1_000), ("empty", 0), ("frames", 150_000), ("more frames", 160_000)])),
    ("put again", |scene| scene.put(&[("small", 2_000), ("doomed early", 500), ("doomed late", 600)])),
    ("remove", |scene| scene.remove("doomed early")),
    ("flush", |scene| scene.flush()),
    ("put more", |scene| scene.put(&[("later", 5_000)])),
    ("remove what is archived", |scene| scene.remove("doomed late")),
    ("flush again", |scene| scene.flush()),
    ("lose a platter and scrub", |scene| {
        if let Some(file) = scene.world.platter_files().first() {
            let (store, name) = file.split_once('/').expect("a store and a name");
            let disk = 1 + store[1..].parse::<usize>().expect("stores are called d0, d1, d2");
            scene.world.disk(disk, |disk| disk.lose(&format!("platters/{name}")));
        }
        scene.archive.scrub(true, &Unwatched).map(drop)
    }),
    ("settle", |scene| scene.archive.settle()),
];

/// One flush of several sets with one information platter each, of which each is begun before the one before is complete, and an object that goes on from
/// set to set.
const MANY_SETS: [(&str, Step); 2] =
    [("put", |scene| scene.put(&[("a", 1_000), ("b goes on", 2_300_000), ("c", 70_000)])), ("flush", |scene| scene.flush())];

fn small_sets(encrypt: bool) -> Arc<World> {
    World::with(encrypt, |settings| (settings.set.information, settings.set.redundancy, settings.set.platter_mib) = (1, 1, 2))
}

/// Runs a workload with a fault at step `at`; `None` if it has no such step.
fn run(world: Arc<World>, workload: &[(&str, Step)], at: u64, fault: Fault, expected: &str) -> Result<Option<()>, String> {
    let mut scene = Scene::open(world).expect("a new archive opens");
    scene.world.strike(at, fault);
    let mut failed = None;
    for &(name, step) in workload {
        if let Err(error) = step(&mut scene) {
            if !scene.world.has_struck() {
                return Err(format!("{name} failed before the fault: {error}"));
            }
            if !expected.split('|').any(|words| error.to_string().contains(words)) {
                return Err(format!("{name} failed with something else: {error}"));
            }
            failed = Some(name);
            // Full disks can still be read.
            scene.check().map_err(|why| format!("while the fault lasts, after {name} failed: {why}"))?;
        }
    }
    let Some(struck) = scene.world.calm() else { return Ok(None) };
    let told = |when: &str, why: String| format!("{struck} failed, so did {failed:?}; {when}: {why}");
    scene.check().map_err(|why| told("all is well again", why))?;
    scene.check_usable().map_err(|why| told("all is well again", why))?;
    let mut scene = scene.reopen().map_err(|why| told("opened again", why))?;
    scene.check().map_err(|why| told("opened again", why))?;
    scene.check_tidy().map_err(|why| told("opened again", why))?;
    scene.check_usable().map_err(|why| told("opened again", why))?;
    let archive = scene.world.rebuild()?;
    scene.expected().check(&archive).map_err(|why| told("with the catalogue rebuilt", why))?;
    Ok(Some(()))
}

/// `expected`: what any error says, in one of these ways, which `|` separates.
fn walk(fault: Fault, expected: &str) {
    walk_through(World::new, &WORKLOAD, 80, fault, expected);
}

fn walk_through(world: fn(bool) -> Arc<World>, workload: &[(&str, Step)], least_steps: u64, fault: Fault, expected: &str) {
    let (next, failures) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    match run(world(at.is_multiple_of(2)), workload, at, fault, expected) {
                        Ok(Some(())) => {}
                        Ok(None) => return,
                        Err(why) => failures.lock().expect("not poisoned").push(format!("{fault:?} at step {at}: {why}")),
                    }
                }
            });
        }
    });
    let steps = next.into_inner() - 2;
    let failures = failures.into_inner().expect("not poisoned");
    assert!(failures.is_empty(), "{} of {steps} steps, for example:\n{}", failures.len(), failures[..failures.len().min(12)].join("\n"));
    assert!(steps > least_steps, "the workload has only {steps} steps");
}

#[test]
fn a_disk_that_is_full_once_loses_nothing_and_says_so() {
    walk(Fault::NoSpaceOnce, "no storage space|no more room");
}

#[test]
fn disks_that_stay_full_lose_nothing_and_say_so_until_there_is_space() {
    walk(Fault::NoSpace, "no storage space|no more room");
}

#[test]
fn a_change_that_fails_halfway_loses_nothing_and_says_so() {
    walk(Fault::Io, "nput/output error");
}

#[test]
fn a_reading_that_fails_loses_nothing() {
    walk(Fault::ReadIo, "");
}

#[test]
fn a_reading_that_gives_less_than_was_asked_for_changes_nothing() {
    walk(Fault::ShortRead, "no error is expected");
}

#[test]
fn a_change_that_fails_while_two_sets_are_under_way_loses_nothing_and_says_so() {
    walk_through(small_sets, &MANY_SETS, 60, Fault::Io, "nput/output error");
}

#[test]
fn a_reading_that_fails_while_two_sets_are_under_way_loses_nothing() {
    walk_through(small_sets, &MANY_SETS, 60, Fault::ReadIo, "");
}
