//! Simulates a power failure before, during and after every step of a workload, and checks that
//! nothing acknowledged is lost.
//!
//! ```text
//! one run of the workload -> a photograph before each step -> for each kind of survival: reboot, reconcile, check, work on
//!                                                                                        \-> rebuild the catalogue, check
//! ```
//!
//! The fault model is in `sim/disk.rs` and `sim/world.rs`.

use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};

use crate::sim::Scene;
use crate::sim::disk::Survival;
use crate::sim::world::{Photograph, World};
use fulgurite_archive::watch::Unwatched;
use fulgurite_archive::{Archive, ArchiveError, ArchiveStatus};

/// Random survivals tried at each step, in addition to nothing and everything.
const RANDOM_SURVIVALS: u64 = 2;

/// Small and empty objects, an object with several data records in several segments, new versions,
/// removals before and after a flush, a lost and repaired platter, and a platter recovered on a
/// store other than its own.
fn workload(scene: &mut Scene) -> Result<(), ArchiveError> {
    scene.put(&[("small", 1_000), ("empty", 0), ("folder/large", 1_200_000)])?;
    scene.put(&[("small", 2_000), ("doomed early", 500), ("doomed late", 70_000)])?;
    scene.remove("doomed early")?;
    scene.flush()?;
    scene.put(&[("later", 5_000), ("small", 3_000)])?;
    scene.remove("doomed late")?;
    scene.flush()?;
    let lost = scene.world.platter_files()[1].clone();
    let (store, name) = lost.split_once('/').expect("a store and a name");
    let disk = 1 + store.strip_prefix('d').and_then(|digits| digits.parse::<usize>().ok()).expect("a store's name");
    scene.world.disk(disk, |disk| disk.lose(&format!("platters/{name}")));
    let report = scene.archive.scrub(Some(Default::default()), &Unwatched)?;
    assert_eq!((report.rebuilt, report.lost_versions), (1, 0));
    let platter = scene.archive.catalogue().platters()?[0].place.platter;
    scene.archive.recover(platter, Some("spare"), &Unwatched)?;
    scene.put(&[("last", 10)])
}

/// Several sets in one flush, each begun before the previous one is complete, and an object that
/// spans sets.
fn workload_of_many_sets(scene: &mut Scene) -> Result<(), ArchiveError> {
    scene.put(&[("a", 1_000), ("b goes on", 2_300_000), ("c", 70_000)])?;
    scene.flush()?;
    let sets = scene.archive.catalogue().sets()?.len();
    assert!(sets >= 3, "only {sets} sets");
    Ok(())
}

/// Sets of one information platter, with room for little more than one data record.
fn world_of_small_sets(encrypt: bool) -> Arc<World> {
    World::with(encrypt, |settings| (settings.set.information, settings.set.redundancy, settings.set.platter_mib) = (1, 1, 2))
}

fn world(encrypt: bool) -> Arc<World> {
    World::with(encrypt, |settings| {
        settings.stores.push(fulgurite_archive::settings::StoreSettings { name: "spare".into(), path: "stores/spare".into() });
    })
}

fn after_a_crash(photograph: &Photograph, survival: Survival) -> Result<(), String> {
    let mut scene = Scene::open(photograph.reboot(survival))?;
    scene.count_from(1_000);
    scene.check()?;
    scene.check_tidy()?;
    scene.archive.reconcile().map_err(|error| format!("reconciling twice: {error}"))?;
    scene.check_tidy()?;
    scene.check_usable()?;

    // The same crash, with the catalogue lost too. Unacknowledged changes may have a different
    // outcome.
    let world = photograph.reboot(survival);
    let archive = world.rebuild()?;
    let expected = world.expected.lock().expect("not poisoned").clone();
    expected.check(&archive).map_err(|why| format!("with the catalogue rebuilt after the crash: {why}"))?;
    drop(archive);
    open_and_use(world).map_err(|why| format!("with the catalogue rebuilt after the crash: {why}"))?;

    if matches!(survival, Survival::Some(_)) {
        return Ok(());
    }
    // The same crash, and a rebuild that has the catalogue as the crash left it.
    let world = photograph.reboot(survival);
    let missing = |archive: &Archive| Ok::<_, String>(ArchiveStatus::of(archive).map_err(|error| error.to_string())?.missing_platters);
    let missing_before = missing(&world.assemble()?)?;
    let archive = world.rebuild_with_earlier()?;
    let expected = world.expected.lock().expect("not poisoned").clone();
    expected.check(&archive).map_err(|why| format!("with the catalogue rebuilt from the earlier one: {why}"))?;
    // A set that was being written is not taken for a complete one with platters missing.
    if !missing(&archive)?.is_subset(&missing_before) {
        return Err("with the catalogue rebuilt from the earlier one: platters are missing".to_owned());
    }
    drop(archive);
    open_and_use(world).map_err(|why| format!("with the catalogue rebuilt from the earlier one: {why}"))
}

fn open_and_use(world: Arc<World>) -> Result<(), String> {
    let mut scene = Scene::open(world)?;
    scene.count_from(2_000);
    scene.check_usable()
}

/// Checks photographs as they arrive. Collects failures, and returns the number of photographs.
fn check_all(
    photographs: &Mutex<Receiver<Photograph>>,
    failures: &Mutex<Vec<String>>,
    check: impl Fn(&Photograph, Survival) -> Result<(), String>,
) -> u64 {
    let mut checked = 0;
    loop {
        let next = photographs.lock().expect("not poisoned").recv();
        let Ok(photograph) = next else { return checked };
        checked += 1;
        let random = (0..RANDOM_SURVIVALS).map(|round| Survival::Some(photograph.step * 1_000 + round));
        for survival in [Survival::Nothing, Survival::Everything].into_iter().chain(random) {
            if let Err(why) = check(&photograph, survival) {
                let text = format!(
                    "crash before step {} ({}), unsynced changes that survive: {survival:?}: {why}",
                    photograph.step, photograph.what
                );
                failures.lock().expect("not poisoned").push(text);
            }
        }
    }
}

type Workload = fn(&mut Scene) -> Result<(), ArchiveError>;

fn walk(world: Arc<World>, workload: Workload, least_steps: u64, check: impl Fn(&Photograph, Survival) -> Result<(), String> + Sync) {
    let (photographer, photographs) = sync_channel(2);
    let (photographs, failures) = (Mutex::new(photographs), Mutex::new(Vec::new()));
    let mut scene = Scene::open(world).expect("a new archive opens");
    let mut opened = 0;
    let checked: u64 = std::thread::scope(|scope| {
        let checkers: Vec<_> = (0..2).map(|_| scope.spawn(|| check_all(&photographs, &failures, &check))).collect();
        scene.world.photograph_to(Some(photographer));
        opened = scene.world.steps();
        let world = scene.world.clone();
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| workload(&mut scene)));
        // Otherwise the checkers would wait forever.
        world.photograph_to(None);
        let worked = worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        worked.expect("nothing fails in this run");
        checkers.into_iter().map(|checker| checker.join().expect("no panic")).sum()
    });
    let steps = scene.world.steps() - opened;
    scene.check().expect("without a crash");
    assert_eq!(checked, steps, "every step was photographed");
    assert!(checked > least_steps, "the workload has only {checked} steps");
    let failures = failures.into_inner().expect("not poisoned");
    assert!(
        failures.is_empty(),
        "{} of {checked} crashes, for example:\n{}",
        failures.len(),
        failures[..failures.len().min(12)].join("\n")
    );
    println!("{checked} steps");
}

#[test]
fn a_crash_at_any_point_loses_no_acknowledged_sealed_object() {
    walk(world(true), workload, 150, after_a_crash);
}

#[test]
fn a_crash_at_any_point_loses_no_acknowledged_unencrypted_object() {
    walk(world(false), workload, 150, after_a_crash);
}

#[test]
fn a_crash_while_two_sets_are_being_written_loses_nothing_acknowledged() {
    walk(world_of_small_sets(true), workload_of_many_sets, 70, after_a_crash);
}
