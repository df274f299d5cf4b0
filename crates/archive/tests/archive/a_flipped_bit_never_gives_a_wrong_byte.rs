//! Flips bits in staging, on platters, in the catalogue and in the key store. Reads return the
//! right bytes or an error. If only the catalogue was damaged, a rebuild restores everything.

use crate::sim::Scene;
use crate::sim::disk::{Chance, Survival};
use crate::sim::expected::Seen;
use crate::sim::world::{Photograph, World};
use crate::support::Troubles;
use fulgurite_archive::Archive;
use fulgurite_archive::watch::Unwatched;

/// Objects on platters, in staging, and removed.
fn photograph(encrypt: bool) -> Photograph {
    let mut scene = Scene::open(World::new(encrypt)).expect("opens");
    scene.put(&[("archived", 150_000), ("archived too", 160_000), ("both", 300), ("empty", 0), ("doomed", 400)]).expect("put");
    scene.flush().expect("flush");
    scene.put(&[("staged", 1_500), ("both", 66_000), ("staged, empty", 0)]).expect("put");
    scene.remove("doomed").expect("removed");
    scene.check().expect("nothing is damaged");
    scene.world.photograph("damage")
}

/// Opens a damaged world and reads everything. Errors from opening are added to `told`.
fn look(world: &std::sync::Arc<World>) -> (Seen, Option<Archive>) {
    let expected = world.expected.lock().expect("not poisoned").clone();
    match world.open() {
        Ok(archive) => (expected.look(&archive), Some(archive)),
        Err(error) => (Seen { told: vec![error], ..Seen::default() }, None),
    }
}

/// Flips a bit in a file of the catalogue or the key store.
fn flip(world: &World, file: &str, at: u64, bit: u64) {
    let mut bytes = std::fs::read(world.path(file)).expect("read");
    bytes[at as usize] ^= 1 << bit;
    std::fs::write(world.path(file), bytes).expect("written");
}

#[test]
fn in_staging_it_costs_at_most_one_object_and_does_not_stop_a_flush() {
    for encrypt in [true, false] {
        let photograph = photograph(encrypt);
        let world = photograph.reboot(Survival::Everything);
        let segments = world.disk(0, |disk| disk.names());
        let mut chance = Chance::new(1);
        for segment in segments {
            let bytes = world.disk(0, |disk| disk.content(disk.find(&segment).expect("there")).len() as u64);
            // Dense in heads and records, sparse in payloads.
            let mut at = chance.below(40);
            while at < bytes.min(68_500) {
                let bit = chance.below(8);
                let world = photograph.reboot(Survival::Everything);
                world.disk(0, |disk| disk.damage(&segment, |content| content[at as usize] ^= 1 << bit));
                let told = |why: &str| format!("bit {bit} of byte {at} of {segment}: {why}");
                let (seen, archive) = look(&world);
                assert!(seen.wrong.is_empty() && seen.told.len() <= 1, "{}", told(&format!("{:?} {:?}", seen.wrong, seen.told)));
                let archive = archive.expect("an archive with a damaged segment opens");
                let troubles = Troubles::default();
                let flushed = archive.flush(&troubles).unwrap_or_else(|error| panic!("{}", told(&error.to_string())));
                assert_eq!(flushed.unreadable, troubles.take().len() as u64, "{}", told("versions that stay staged are reported"));
                let left = archive.catalogue().staged_totals().expect("totals").versions;
                assert_eq!(left, flushed.unreadable, "{}", told("all other versions are archived"));
                let after = world.expected.lock().expect("not poisoned").look(&archive);
                assert!(after.wrong.is_empty() && after.told.len() <= 1, "{}", told(&format!("{:?} {:?}", after.wrong, after.told)));
                at += if (2_500..66_000).contains(&at) { 3_000 + chance.below(3_000) } else { 1 + chance.below(40) };
            }
        }
    }
}

#[test]
fn on_a_platter_it_costs_nothing() {
    let photograph = photograph(true);
    let mut chance = Chance::new(2);
    for disk in 1..=3 {
        let world = photograph.reboot(Survival::Everything);
        let name = world.disk(disk, |disk| disk.names().into_iter().find(|name| name.ends_with(".platter")).expect("a platter"));
        let bytes = world.disk(disk, |disk| disk.content(disk.find(&name).expect("there")).len() as u64);
        for _ in 0..40 {
            let (at, bit) = (chance.below(bytes) as usize, chance.below(8));
            let world = photograph.reboot(Survival::Everything);
            world.disk(disk, |disk| disk.damage(&name, |content| content[at] ^= 1 << bit));
            let (seen, archive) = look(&world);
            assert!(seen.wrong.is_empty() && seen.told.is_empty(), "byte {at} on disk {disk}: {:?} {:?}", seen.wrong, seen.told);
            let report = archive.expect("opened").scrub(Some(Default::default()), &Unwatched).expect("scrub");
            assert_eq!((report.unsound.len(), report.rebuilt), (1, 1), "byte {at} on disk {disk}");
        }
    }
}

#[test]
fn damage_beyond_the_codes_is_reported_and_all_other_bytes_are_right() {
    for encrypt in [true, false] {
        let photograph = photograph(encrypt);
        let mut chance = Chance::new(3);
        let mut lost = 0;
        for round in 0..40_u64 {
            let world = photograph.reboot(Survival::Everything);
            for disk in 1..=3 {
                let name = world.disk(disk, |disk| disk.names().into_iter().find(|name| name.ends_with(".platter")).expect("a platter"));
                // Damages some of the sectors with a burst, more of them in each round.
                world.disk(disk, |disk| {
                    disk.damage(&name, |content| {
                        for sector in content.chunks_mut(1_088) {
                            if chance.below(60) < 1 + round {
                                let at = chance.below(sector.len() as u64) as usize;
                                sector[at..].iter_mut().take(9).for_each(|byte| *byte ^= 0x5a);
                            }
                        }
                    });
                });
            }
            let (seen, archive) = look(&world);
            assert!(seen.wrong.is_empty(), "round {round}: {:?}", seen.wrong);
            let archive = archive.expect("an archive with damaged platters opens");
            let troubles = Troubles::default();
            let report = archive.scrub(Some(Default::default()), &troubles).expect("scrub");
            assert_eq!(report.lost_versions, seen.told.len() as u64, "round {round}: {:?}", troubles.take());
            lost += report.lost_versions;
            drop(archive);
            // A rebuild can't list versions whose table is unreadable, but what it lists is right.
            let archive = world.rebuild().expect("rebuilt");
            let wrong = world.expected.lock().expect("not poisoned").look(&archive).wrong;
            assert!(wrong.iter().all(|wrong| wrong.contains("is lost")), "round {round}: {wrong:?}");
        }
        assert!(lost > 0, "the damage exceeds what the codes can repair");
    }
}

#[test]
fn in_the_catalogue_it_is_reported_and_a_rebuild_restores_everything() {
    let photograph = photograph(true);
    let mut chance = Chance::new(4);
    let mut told = 0;
    for file in ["catalogue.db", "catalogue.db-wal"] {
        let Ok(bytes) = std::fs::metadata(photograph.reboot(Survival::Everything).path(file)).map(|metadata| metadata.len()) else {
            continue;
        };
        let mut at = 0;
        while at < bytes {
            let bit = chance.below(8);
            let world = photograph.reboot(Survival::Everything);
            flip(&world, file, at, bit);
            let (seen, archive) = look(&world);
            drop(archive);
            let place = format!("bit {bit} of byte {at} of {file}");
            // A log that ends early is a valid earlier state, and SQLite can't detect it. The
            // rebuild below restores the rest.
            let excused = file.ends_with("-wal");
            assert!(seen.wrong.is_empty() || excused, "{place}: {:?}", seen.wrong);
            told += seen.told.len();
            let archive = world.rebuild().unwrap_or_else(|error| panic!("{place}: {error}"));
            let checked = world.expected.lock().expect("not poisoned").check(&archive);
            checked.unwrap_or_else(|error| panic!("{place}, rebuilt: {error}"));
            at += 200 + chance.below(600);
        }
    }
    assert!(told > 0, "some damage shows");
}

#[test]
fn in_the_key_store_it_is_reported() {
    let photograph = photograph(true);
    let mut chance = Chance::new(5);
    let mut told = 0;
    for file in ["keys.db", "keys.db-wal"] {
        let Ok(bytes) = std::fs::metadata(photograph.reboot(Survival::Everything).path(file)).map(|metadata| metadata.len()) else {
            continue;
        };
        let mut at = 0;
        while at < bytes {
            let bit = chance.below(8);
            let world = photograph.reboot(Survival::Everything);
            flip(&world, file, at, bit);
            let (seen, _) = look(&world);
            assert!(seen.wrong.is_empty(), "bit {bit} of byte {at} of {file}: {:?}", seen.wrong);
            told += seen.told.len();
            at += 1 + chance.below(150);
        }
    }
    assert!(told > 0, "some damage shows");
}
