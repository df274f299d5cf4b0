//! Puts, removals, flushes, crashes, faults, lost platters, scrubs and rebuilds in random order,
//! with a check after every step.
//!
//! `FULGURITE_SEED` selects the first seed, and `FULGURITE_ROUNDS` the number of seeds from there
//! on.

use std::sync::Arc;

use crate::sim::Scene;
use crate::sim::disk::{Chance, Survival};
use crate::sim::world::{Fault, World};
use fulgurite_archive::watch::Unwatched;

const STEPS: u64 = 60;
const NAMES: [&str; 5] = ["a", "b", "folder/c", "folder/d", "e"];

struct Walk {
    chance: Chance,
    scene: Scene,
    puts: u64,
    /// True while a platter may be lost or damaged. No other is damaged until a scrub finds all of
    /// them sound.
    hurt: bool,
    /// True after a rebuild. Platters of an unfinished set may be left then, and no rebuild removes
    /// them, since it can't be sure.
    leftovers: bool,
}

impl Walk {
    /// Runs one operation, which may fail if a fault is set.
    fn work(&mut self) -> Result<&'static str, String> {
        let told = |error: fulgurite_archive::ArchiveError| error.to_string();
        match self.chance.below(10) {
            0..=3 => {
                let mut objects = Vec::new();
                for name in NAMES {
                    if self.chance.one_in(3) {
                        let bytes = match self.chance.below(12) {
                            0 => 1_100_000,
                            1..=3 => 60_000 + self.chance.below(20_000) as usize,
                            _ => self.chance.below(2_000) as usize,
                        };
                        objects.push((name, bytes));
                    }
                }
                self.scene.count_from(self.puts);
                self.puts += objects.len() as u64;
                self.scene.put(&objects).map_err(told).map(|()| "put")
            }
            4 | 5 => {
                let name = NAMES[self.chance.below(NAMES.len() as u64) as usize];
                self.scene.remove(name).map_err(told).map(|()| "remove")
            }
            6 | 7 => self.scene.flush().map_err(told).map(|()| "flush"),
            8 => {
                let report = self.scene.archive.scrub(Some(Default::default()), &Unwatched).map_err(told)?;
                if report.unsound.len() as u64 == report.rebuilt {
                    self.hurt = false;
                }
                Ok("scrub")
            }
            _ => self.scene.archive.reconcile().map_err(told).map(|()| "reconcile"),
        }
    }

    fn reopened(&mut self, world: Arc<World>) -> Result<(), String> {
        self.scene = Scene::open(world)?;
        Ok(())
    }

    fn step(&mut self) -> Result<String, String> {
        match self.chance.below(10) {
            0 | 1 => {
                self.scene.world.strike(self.chance.below(40), Fault::Crash);
                let _ = self.work();
                let photograph = self.scene.world.crash();
                let photograph = photograph.unwrap_or_else(|| self.scene.world.photograph("nothing"));
                let survival = match self.chance.below(4) {
                    0 => Survival::Nothing,
                    1 => Survival::Everything,
                    _ => Survival::Some(self.chance.next()),
                };
                let told = format!("crash before {}", photograph.what);
                let world = photograph.reboot(survival);
                if self.chance.one_in(4) {
                    drop(world.rebuild()?);
                    self.leftovers = true;
                }
                self.reopened(world)?;
                if !self.leftovers {
                    self.scene.check_tidy().map_err(|why| format!("{told}: {why}"))?;
                }
                Ok(told)
            }
            2 | 3 => {
                let fault = [Fault::Io, Fault::NoSpaceOnce, Fault::NoSpace, Fault::ReadIo][self.chance.below(4) as usize];
                self.scene.world.strike(self.chance.below(40), fault);
                let worked = self.work();
                let struck = self.scene.world.calm();
                match (worked, struck) {
                    (Err(error), None) => Err(error),
                    (worked, struck) => Ok(format!("{fault:?} at {struck:?}: {worked:?}")),
                }
            }
            4 if !self.hurt => {
                let files = self.scene.world.platter_files();
                if files.is_empty() {
                    return Ok("nothing to lose".into());
                }
                let (store, name) = files[self.chance.below(files.len() as u64) as usize].split_once('/').expect("a store and a name");
                let disk = 1 + store[1..].parse::<usize>().expect("stores are called d0, d1, d2");
                let name = format!("platters/{name}");
                self.hurt = true;
                let (cut, chance) = (self.chance.one_in(2), self.chance.next());
                self.scene.world.disk(disk, |disk| match cut {
                    true => disk.lose(&name),
                    false => disk.damage(&name, |content| content.truncate((chance % content.len() as u64) as usize)),
                });
                Ok(format!("hurt {name}"))
            }
            5 => {
                let world = self.scene.world.photograph("rebuild").reboot(Survival::Everything);
                drop(world.rebuild()?);
                // An earlier fault may have kept a flush from cleaning up.
                self.leftovers = true;
                self.reopened(world)?;
                Ok("rebuild".into())
            }
            _ => self.work().map(str::to_owned),
        }
    }
}

fn walk(seed: u64) -> Result<(), String> {
    let chance = Chance::new(seed);
    let scene = Scene::open(World::new(seed.is_multiple_of(2)))?;
    let mut walk = Walk { chance, scene, puts: 0, hurt: false, leftovers: false };
    let mut told = Vec::new();
    for step in 0..STEPS {
        let stepped = walk.step().and_then(|what| {
            told.push(format!("{step}: {what}"));
            walk.scene.check()
        });
        if let Err(why) = stepped {
            let last = &told[told.len().saturating_sub(12)..];
            return Err(format!(
                "seed {seed}, step {step}: {why}\n  before that: {}\n  again: FULGURITE_SEED={seed} cargo test -p fulgurite-archive --test \
                 archive a_random_walk_loses_nothing_acknowledged",
                last.join("\n               ")
            ));
        }
    }
    walk.scene.count_from(walk.puts);
    walk.scene.check_usable()
}

#[test]
fn a_random_walk_loses_nothing_acknowledged() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap_or_else(|_| panic!("{name} is a number")));
    let seeds = match (number("FULGURITE_SEED"), number("FULGURITE_ROUNDS")) {
        (None, rounds) => 1..=rounds.unwrap_or(6),
        (Some(seed), rounds) => seed..=seed + rounds.unwrap_or(1) - 1,
    };
    let failures: Vec<String> = seeds.filter_map(|seed| walk(seed).err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
