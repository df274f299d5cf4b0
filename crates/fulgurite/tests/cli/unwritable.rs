//! An archive on a full or read-only disk is still readable, and a failed `init` leaves nothing
//! behind.

use std::process::Command;

use crate::support::{Sandbox, noise};

/// Runs a script as root in its own mount namespace, whose mounts end with it. `None` if that isn't
/// possible.
fn with_mounts(place: &Sandbox, script: &str) -> Option<String> {
    let program = format!("set -e; f() {{ '{}' -A a \"$@\"; }}; {script}", env!("CARGO_BIN_EXE_fulgurite"));
    let unshared = |script: &str| {
        Command::new("unshare").args(["--mount", "--map-root-user", "sh", "-c", script]).current_dir(place.path("")).output()
    };
    let may = unshared("mount -t tmpfs -o size=1m none /mnt").is_ok_and(|probe| probe.status.success());
    if !may {
        assert!(std::env::var_os("CI").is_none(), "mounting isn't possible here, so this test can't run");
        eprintln!("skipped: mounting isn't possible here");
        return None;
    }
    let output = unshared(&program).expect("it runs");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    Some(said)
}

fn archive() -> Sandbox {
    let place = Sandbox::new(3, &["--set", "2+1"]);
    place.write("file", noise(1, 300_000));
    place.good(&["put", "file", "--flush"]);
    place
}

const READ: &str = "f ls; f get file out --force; cmp out file; f status; f platters; f verify --objects; f catalogue check";

#[test]
fn an_archive_on_a_read_only_file_system_can_be_read() {
    let place = archive();
    let script = format!("mount --bind a a; mount -o remount,bind,ro a; ! touch a/x; {READ}; ! f put file");
    let Some(said) = with_mounts(&place, &script) else { return };
    assert!(said.contains("the health of platters is not recorded") && said.contains("Nothing is lost."), "{said}");
    place.good(&["verify", "--objects"]);
}

#[test]
fn a_read_only_archive_whose_catalogue_lacks_what_is_staged_is_not_taken_for_whole() {
    let place = archive();
    let old = std::fs::read(place.path("a/catalogue.db")).expect("read");
    place.write("newer", b"newer");
    place.good(&["put", "newer"]);
    for log in ["a/catalogue.db-wal", "a/catalogue.db-shm"] {
        let _ = std::fs::remove_file(place.path(log));
    }
    std::fs::write(place.path("a/catalogue.db"), old).expect("written");
    let script = "mount --bind a a; mount -o remount,bind,ro a; status() { s=0; f \"$@\" || s=$?; echo \"[$*] $s\"; }; \
                  status status; status verify; status verify --objects; status --json verify";
    let Some(said) = with_mounts(&place, script) else { return };
    for command in ["[status] 1", "[verify] 1", "[verify --objects] 1", "[--json verify] 1"] {
        assert!(said.contains(command), "{command}: {said}");
    }
    assert!(said.contains("The catalogue doesn't know 1 version or removal in staging"), "{said}");
    assert!(said.contains("\"unknown_staged\":1") && !said.contains("Nothing is lost"), "{said}");
    // With write access, the same command reads and lists it.
    place.good(&["verify"]);
    assert_eq!(place.good(&["get", "newer", "-"]).out, b"newer");
}

#[test]
fn a_read_only_store_keeps_nothing_from_being_stored_removed_and_written_to_the_others() {
    let place = Sandbox::new(4, &["--set", "2+1"]);
    place.write("file", noise(1, 300_000));
    place.write("other", noise(2, 300_000));
    // The set needs three stores. A flush that was cut short has left a part on the read-only one.
    let script = "touch d1/platters/0123456789abcdef0123456789abcdef.part; mount --bind d1 d1; mount -o remount,bind,ro d1; ! touch d1/x; \
                  f put file other; f flush; f status; f store list; f --json store list; f get file out; cmp file out; f rm other; \
                  f flush; f verify --objects";
    let Some(said) = with_mounts(&place, script) else { return };
    assert!(said.contains("store     d1: READ-ONLY, 0 platters: store d1 ("), "{said}");
    assert!(said.contains("d1         read-only") && said.contains("can't be written to: Read-only file system"), "{said}");
    assert!(place.platters().iter().all(|platter| platter.store != "d1"));
    // With too few others, a set can't be written, and the message names the store.
    place.write("third", noise(3, 1_000));
    let script = "mount --bind d1 d1; mount -o remount,bind,ro d1; mv d2 away; mv d3 gone; f put third; ! f flush";
    let said = with_mounts(&place, script).expect("mounting was possible above");
    assert!(said.contains("a set of 1+1 platters needs 2 stores, only 1 is available"), "{said}");
    assert!(said.contains("store d1 (") && said.contains("can't be written to"), "{said}");
}

#[test]
fn a_store_without_free_inodes_is_full_and_sets_go_to_the_others() {
    let place = Sandbox::new(4, &["--set", "2+1"]);
    place.write("file", noise(1, 300_000));
    // By its free bytes, d1 would be the first to be chosen.
    let script = "mount -t tmpfs -o size=64g,nr_inodes=8 none d1; mkdir d1/platters; f store replace d1 > /dev/null || f store replace d1; \
                  i=0; while touch d1/other$i 2> /dev/null; do i=$((i + 1)); done; \
                  f put file --flush; f store list; f status; f get file out; cmp file out; f verify";
    let Some(said) = with_mounts(&place, script) else { return };
    assert!(
        said.contains("d1         full") && said.contains("has no room for another file: its file system has no free inodes"),
        "{said}"
    );
    assert!(said.contains("store     d1: FULL, 0 platters: store d1 ("), "{said}");
    assert_eq!(place.platters().iter().filter(|platter| platter.store != "d1").count(), 2);
}

#[test]
fn a_damaged_platter_on_a_full_store_is_rebuilt_on_another() {
    let place = Sandbox::new(3, &["--set", "1+1"]);
    place.write("file", noise(1, 300_000));
    let script = "for d in d1 d2; do mount -t tmpfs -o size=1m none $d; f store replace $d; done; \
                  mkdir away; mv d3 away; f put file --flush; mv away/d3 .; \
                  for d in d1 d2; do cat /dev/zero > $d/fill 2> /dev/null || true; done; \
                  dd if=/dev/zero of=$(ls d1/platters/*) bs=1k seek=100 count=200 conv=notrunc status=none; \
                  f scrub; ls d3/platters; f verify";
    let Some(said) = with_mounts(&place, script) else { return };
    assert!(said.contains("was written to store d3: store d1 (") && said.contains("bytes free, a platter needs"), "{said}");
    assert_eq!(place.platters().iter().filter(|platter| platter.store == "d3").count(), 1);
}

#[test]
fn an_archive_on_a_full_file_system_can_be_read() {
    let place = archive();
    let fill = "cat /dev/zero > m/fill || true; test $(df --output=avail m | tail -1) = 0";
    let script = format!("mkdir m; mount -t tmpfs -o size=8m none m; cp -a a/. m; {fill}; mount --bind m a; {READ}; ! f put file");
    let Some(said) = with_mounts(&place, &script) else { return };
    assert!(said.lines().last().is_some_and(|line| line.contains("is the disk full?")), "{said}");
    assert!(said.contains("the health of platters is not recorded") && said.contains("Nothing is lost."), "{said}");
}

#[test]
fn a_failed_init_leaves_nothing_behind() {
    let place = archive();
    std::fs::create_dir(place.path("there")).expect("a folder");
    for home in ["new/below", "there"] {
        place.run(&["init", home, "--store", "fresh/e1", "--store", "d1"]).fails_with(1, "can't be set up");
        place.run(&["init", home, "--store", "fresh/e1", "--store", "fresh/../fresh/e1"]).fails_with(1, "same");
    }
    assert!(!place.path("new").exists() && !place.path("fresh").exists());
    assert_eq!(std::fs::read_dir(place.path("there")).expect("it stays").count(), 0);
}

#[test]
fn a_retrieval_that_has_not_begun_does_not_say_that_it_goes_on() {
    let place = Sandbox::empty();
    place.write("list", b"key\n");
    place.write("file", b"");
    std::os::unix::fs::symlink("nowhere/at-all", place.path("dangling")).expect("a link");
    for to in ["file", "dangling"] {
        let mut command = place.command();
        command.args(["retrieve", "list", "--to", to, "--bucket", "b", "--endpoint", "http://localhost:1"]);
        command.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b");
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(to) && !said.contains("goes on from here"), "{said}");
    }
}
