//! `kill -9` with real files and a real process: the process puts, removes and flushes, and prints
//! a line after each step. It is killed after a number of lines, whatever it is doing then.
//! Everything that it printed must hold.
//!
//! `FULGURITE_ROUNDS` sets the number of kills.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Home, get_all, noise, put_all};
use fulgurite_archive::watch::Unwatched;
use fulgurite_archive::{Access, Archive};
use fulgurite_domain::ObjectName;

/// Marks the process to be killed, and holds the path of its archive.
const CHILD: &str = "FULGURITE_TO_BE_KILLED";

fn content(index: u64) -> Vec<u8> {
    noise(index, (index * 7_919 % 40_000) as usize)
}

fn put(archive: &Archive, index: u64) {
    put_all(archive, &BTreeMap::from([(format!("{index:06}").into_bytes(), content(index))]));
}

/// Works until killed. Objects with odd numbers stay; half of the even ones are removed again.
fn work(home: &Path) -> ! {
    let archive = Archive::open(home, Access::Write).expect("the archive opens");
    let said = |what: &str, index: u64| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "\n{what} {index}").and_then(|()| out.flush()).expect("the parent reads the pipe");
    };
    let first = archive.catalogue().totals().expect("totals").versions * 2 + 1_000;
    for index in first.. {
        put(&archive, index);
        said("put", index);
        if index % 4 == 0 {
            let name = ObjectName(format!("{index:06}").into_bytes());
            let rows = archive.catalogue().versions_of(&name).expect("versions");
            said("removing", index);
            archive.remove(&rows).expect("removed");
            said("removed", index);
        }
        if index % 5 == 0 {
            archive.flush(&Unwatched).expect("flush");
            said("flushed", index);
        }
    }
    unreachable!("the process is killed first")
}

#[test]
fn a_killed_process_loses_nothing_acknowledged() {
    if let Some(home) = std::env::var_os(CHILD) {
        work(Path::new(&home));
    }
    let rounds = std::env::var("FULGURITE_ROUNDS").map_or(10, |text| text.parse::<u64>().expect("FULGURITE_ROUNDS is a number"));
    let mut home = Home::new(2, 1);
    // Whether each object must exist; `None` if both outcomes are valid.
    let mut expected: BTreeMap<u64, Option<bool>> = BTreeMap::new();
    for round in 0..rounds {
        if round > 0 && round % 8 == 0 {
            // Start over, so that reading everything doesn't take longer in each round.
            (home, expected) = (Home::new(2, 1), BTreeMap::new());
        }
        let mut child = Command::new(std::env::current_exe().expect("a test has a binary"))
            .args([
                "--exact",
                concat!("a_killed_process_loses_nothing_acknowledged", "::a_killed_process_loses_nothing_acknowledged"),
                "--nocapture",
            ])
            .env(CHILD, home.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut said = 0;
        let mut last = None;
        for line in lines {
            let line = line.expect("text");
            let Some((what, index)) = line.split_once(' ').and_then(|(what, index)| Some((what, index.parse::<u64>().ok()?))) else {
                continue;
            };
            match what {
                "put" => drop(expected.insert(index, Some(true))),
                "removing" => drop(expected.insert(index, None)),
                "removed" => drop(expected.insert(index, Some(false))),
                "flushed" => {}
                _ => continue,
            }
            last = Some(index);
            said += 1;
            // Lines already in the pipe are still read and must hold.
            if said == 3 + round * 7 % 61 {
                child.kill().expect("killed");
            }
        }
        child.wait().expect("ended");
        assert!(said >= 3 + round * 7 % 61, "the process exited by itself after {said} lines");
        expected.entry(last.expect("something was said") + 1).or_insert(None);

        let archive = home.open();
        let (report, found) = get_all(&archive, &Unwatched);
        assert_eq!(report.failed, 0, "round {round}");
        for (name, bytes) in &found {
            let index: u64 = std::str::from_utf8(name).expect("digits").parse().expect("digits");
            assert!(*bytes == content(index), "round {round}: {index} has different content");
            assert_ne!(expected.get(&index).copied(), Some(Some(false)), "round {round}: {index} was removed");
            assert!(expected.contains_key(&index), "round {round}: {index} was never put");
        }
        for (index, there) in &mut expected {
            let found = found.contains_key(format!("{index:06}").as_bytes());
            assert!(found || *there != Some(true), "round {round}: {index} was acknowledged and is lost");
            *there = Some(found);
        }
    }
}
