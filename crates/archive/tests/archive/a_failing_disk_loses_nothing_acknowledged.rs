//! Makes disks full or failing at every step of a workload. The operation must report the error,
//! nothing acknowledged may be lost, and everything must work again after the fault ends, both at
//! once and after reopening the archive.
//!
//! The fault model is in `sim/world.rs`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::sim::Scene;
use crate::sim::world::{Fault, World};
use fulgurite_archive::ArchiveError;
use fulgurite_archive::watch::Unwatched;

type Step = fn(&mut Scene) -> Result<(), ArchiveError>;

/// Every operation of the archive. Each continues with the state that earlier faults have left.
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
        scene.archive.scrub(Some(Default::default()), &Unwatched).map(drop)
    }),
    ("reconcile", |scene| scene.archive.reconcile()),
];

/// One flush of several sets with one information platter each. Each set is begun before the
/// previous one is complete, and one object spans sets.
const MANY_SETS: [(&str, Step); 2] =
    [("put", |scene| scene.put(&[("a", 1_000), ("b goes on", 2_300_000), ("c", 70_000)])), ("flush", |scene| scene.flush())];

fn small_sets(encrypt: bool) -> Arc<World> {
    World::with(encrypt, |settings| (settings.set.information, settings.set.redundancy, settings.set.platter_mib) = (1, 1, 2))
}

/// Runs a workload with a fault at step `at`. Returns `None` if the workload has no such step.
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
            // A full disk can still be read.
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

/// Every error must contain one of the texts in `expected`, which are separated by `|`.
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
fn a_disk_that_is_full_once_loses_nothing_and_reports_it() {
    walk(Fault::NoSpaceOnce, "no storage space|no more room");
}

#[test]
fn disks_that_stay_full_lose_nothing_and_report_it_until_space_is_freed() {
    walk(Fault::NoSpace, "no storage space|no more room");
}

#[test]
fn a_change_that_fails_halfway_loses_nothing_and_is_reported() {
    walk(Fault::Io, "nput/output error");
}

#[test]
fn a_failed_read_loses_nothing() {
    walk(Fault::ReadIo, "");
}

#[test]
fn a_short_read_changes_nothing() {
    walk(Fault::ShortRead, "no error is expected");
}

#[test]
fn a_change_that_fails_while_two_sets_are_being_written_loses_nothing_and_is_reported() {
    walk_through(small_sets, &MANY_SETS, 60, Fault::Io, "nput/output error");
}

#[test]
fn a_read_that_fails_while_two_sets_are_being_written_loses_nothing() {
    walk_through(small_sets, &MANY_SETS, 60, Fault::ReadIo, "");
}
