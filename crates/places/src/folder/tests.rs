use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use fulgurite_new_file::PART_PREFIX;

fn folder() -> (tempfile::TempDir, Box<dyn Connection>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let connection = Folder::new(folder.path()).connect().expect("it exists");
    (folder, connection)
}

fn causes(connection: &mut dyn Connection, location: &str) -> (Cause, Cause) {
    let length = connection.length(location).expect_err(location);
    let read = connection.read(location, &mut |_| true).expect_err(location);
    (length.cause, read.cause)
}

#[test]
fn a_folder_does_what_every_place_must_do() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    super::super::conformance::check(&Folder::new(folder.path()));
}

#[test]
fn nothing_is_missing_without_its_folder() {
    let (parent, _) = folder();
    let root = parent.path().join("mount");
    std::fs::create_dir(&root).expect("it is new");
    let place = Folder::new(&root);
    let mut connection = place.connect().expect("it exists");
    assert_eq!(causes(&mut *connection, "a"), (Cause::Missing, Cause::Missing));
    // Unmounted, and the mount point is gone.
    std::fs::rename(&root, parent.path().join("elsewhere")).expect("it can be renamed");
    assert_eq!(causes(&mut *connection, "a"), (Cause::Absent, Cause::Absent));
    assert!(connection.list(&mut |_| true).is_err() && connection.remove("a").is_err());
    // Unmounted, and the mount point is empty.
    std::fs::create_dir(&root).expect("the path is free");
    assert_eq!(causes(&mut *connection, "a"), (Cause::Absent, Cause::Absent));
    assert!(connection.write("a", 0, &mut &b""[..]).is_err());
    // A file is in the place of the folder.
    std::fs::remove_dir(&root).expect("it is empty");
    std::fs::write(&root, "").expect("the path is free");
    assert_eq!(causes(&mut *connection, "a"), (Cause::Absent, Cause::Absent));
    assert_eq!(place.connect().err().map(|refusal| refusal.cause), Some(Cause::Absent));
}

#[test]
fn nothing_is_missing_without_the_marker() {
    let (folder, _) = folder();
    let place = Folder::new(folder.path()).with_marker("here/it is").expect("a valid location");
    assert!(place.connect().err().is_some_and(|refusal| refusal.cause == Cause::Absent && refusal.detail.contains("here/it is")));
    std::fs::create_dir(folder.path().join("here")).expect("it is new");
    std::fs::write(folder.path().join("here/it is"), "").expect("it is new");
    let mut connection = place.connect().expect("the marker is there");
    assert_eq!(causes(&mut *connection, "a"), (Cause::Missing, Cause::Missing));
    std::fs::remove_file(folder.path().join("here/it is")).expect("it is there");
    assert_eq!(causes(&mut *connection, "a"), (Cause::Absent, Cause::Absent));
}

#[test]
fn links_lead_nowhere_outside_and_are_not_listed() {
    let (folder, mut connection) = folder();
    let outside = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(outside.path().join("secret"), "secret").expect("it is new");
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("file"), "content").expect("it is new");
    symlink(outside.path().join("secret"), at("absolute")).expect("it is new");
    symlink(outside.path(), at("folder")).expect("it is new");
    symlink("../../../../../../../etc/passwd", at("relative")).expect("it is new");
    symlink("loop", at("loop")).expect("it is new");
    for location in ["absolute", "folder/secret", "relative", "loop"] {
        assert_eq!(causes(&mut *connection, location), (Cause::Unsupported, Cause::Unsupported), "{location}");
    }
    assert!(connection.write("folder/new", 0, &mut &b""[..]).is_err() && connection.remove("folder/secret").is_err());
    assert_eq!(std::fs::read_dir(outside.path()).expect("it exists").count(), 1);
    let mut names = Vec::new();
    connection
        .list(&mut |listed| {
            names.push(listed.location);
            true
        })
        .expect("it can be listed");
    assert_eq!(names, ["file"]);
    // Replacing a link replaces the link, not its target.
    connection.write("absolute", 1, &mut &b"x"[..]).expect("it can be replaced");
    assert_eq!(std::fs::read(outside.path().join("secret")).expect("it is there"), b"secret");
}

#[test]
fn the_walk_for_old_kernels_follows_no_link() {
    let (folder, _) = folder();
    std::fs::create_dir(folder.path().join("real")).expect("it is new");
    std::fs::write(folder.path().join("real/file"), "").expect("it is new");
    symlink("real", folder.path().join("link")).expect("it is new");
    symlink("real/file", folder.path().join("to file")).expect("it is new");
    let (root, _) = open_root(folder.path()).expect("it exists");
    let open = |path: &[u8]| walk_beneath(root.as_fd(), path, OFlags::RDONLY).map(drop);
    assert_eq!(open(b"real/file"), Ok(()));
    assert_eq!((open(b"link/file"), open(b"to file")), (Err(Errno::LOOP), Err(Errno::LOOP)));
    assert_eq!((open(b"real/none"), open(b"none/file"), open(b"real/file/x")), (Err(Errno::NOENT), Err(Errno::NOENT), Err(Errno::NOTDIR)));
}

#[test]
fn what_is_no_file_is_refused_without_waiting() {
    let (folder, mut connection) = folder();
    std::fs::create_dir(folder.path().join("folder")).expect("it is new");
    let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).expect("it is new");
    rustix::fs::mknodat(CWD, folder.path().join("pipe"), FileType::Fifo, Mode::RUSR, 0).expect("it is new");
    assert_eq!(causes(&mut *connection, "folder"), (Cause::Unsupported, Cause::Unsupported));
    assert_eq!(causes(&mut *connection, "pipe"), (Cause::Unsupported, Cause::Unsupported));
    let (length, read) = causes(&mut *connection, "socket");
    assert!(length != Cause::Missing && read != Cause::Missing);
    assert_eq!(connection.remove("folder").map_err(|refusal| refusal.cause), Err(Cause::Unsupported));
    assert!(connection.write("folder", 0, &mut &b""[..]).is_err());
    assert_eq!(connection.list(&mut |listed| panic!("{listed:?}")), Ok(()));
}

#[test]
fn a_file_without_permission_is_denied_and_not_missing() {
    let (folder, mut connection) = folder();
    std::fs::write(folder.path().join("file"), "").expect("it is new");
    std::fs::set_permissions(folder.path().join("file"), PermissionsExt::from_mode(0o000)).expect("it is ours");
    if rustix::process::geteuid().is_root() {
        return; // Root may read everything.
    }
    assert_eq!(causes(&mut *connection, "file"), (Cause::Denied, Cause::Denied));
}

#[test]
fn names_in_other_encodings_are_listed_read_written_and_removed() {
    let (folder, mut connection) = folder();
    let path = |name: &[u8]| folder.path().join(OsStr::from_bytes(name));
    std::fs::create_dir(path(b"d\xe9")).expect("it is new");
    for name in [&b"d\xe9/a\xff"[..], b"b", "\u{201b}E9".as_bytes()] {
        std::fs::write(path(name), name).expect("it is new");
    }
    let mut names = Vec::new();
    let listed = connection.list(&mut |listed| {
        names.push(listed.location);
        true
    });
    names.sort();
    assert_eq!(listed, Ok(()));
    assert_eq!(names, ["b", "d\u{201b}E9/a\u{201b}FF", "\u{201b}E2\u{201b}80\u{201b}9BE9"]);
    for name in &names {
        let mut content = Vec::new();
        let read = connection.read(name, &mut |piece| {
            content.extend(piece);
            true
        });
        assert_eq!((read, content.as_slice()), (Ok(content.len() as u64), &*name_at(name)));
    }
    assert_eq!(connection.write_new("new\u{201b}E9/x\u{201b}FE", 2, &mut &b"12"[..]), Ok(()));
    assert_eq!(std::fs::read(path(b"new\xe9/x\xfe")).expect("a file"), b"12");
    assert_eq!(connection.remove("d\u{201b}E9/a\u{201b}FF"), Ok(()));
    assert!(!path(b"d\xe9/a\xff").exists() && path("\u{201b}E9".as_bytes()).exists());
}

#[test]
fn files_keep_the_time_at_which_they_were_modified() {
    let (_folder, mut connection) = folder();
    for (replaces, seconds) in [(false, -86_400), (true, 1_234_567_890)] {
        let modified = Some(Modified { seconds, nanoseconds: 123_456_789 });
        assert_eq!(connection.write_modified("a", 1, &mut &b"1"[..], modified, replaces), Ok(()));
        assert_eq!(connection.modified("a"), Ok(modified));
    }
    assert_eq!(connection.write("a", 1, &mut &b"2"[..]), Ok(()));
    assert!(connection.modified("a").is_ok_and(|modified| modified.is_some_and(|of| of.seconds > 1_234_567_890)));
}

#[test]
fn a_file_that_grows_or_shrinks_while_it_is_read_is_cut() {
    let (folder, mut connection) = folder();
    let path = folder.path().join("file");
    let long = vec![7; 2 * BUFFER_BYTES];
    std::fs::write(&path, &long).expect("it is new");
    let mut once = Some(());
    let shrunk = connection.read("file", &mut |_| {
        if once.take().is_some() {
            std::fs::write(&path, "x").expect("it is ours");
        }
        true
    });
    assert_eq!(shrunk.map_err(|refusal| refusal.cause), Err(Cause::Cut { received: BUFFER_BYTES as u64, stated: long.len() as u64 }));
    let grown = connection.read("file", &mut |_| {
        std::fs::write(&path, &long).expect("it is ours");
        true
    });
    assert!(matches!(grown.map_err(|refusal| refusal.cause), Err(Cause::Cut { stated: 1, .. })));
}

#[test]
fn unfinished_writes_are_not_listed() {
    let (folder, mut connection) = folder();
    std::fs::write(folder.path().join(format!("{PART_PREFIX}1")), "").expect("it is new");
    assert_eq!(connection.list(&mut |listed| panic!("{listed:?}")), Ok(()));
}

#[test]
fn errors_of_the_system_are_told_apart() {
    for (errno, cause) in [
        (Errno::IO, Cause::Fault),
        (Errno::STALE, Cause::Fault),
        (Errno::NOSPC, Cause::Fault),
        (Errno::ACCESS, Cause::Denied),
        (Errno::PERM, Cause::Denied),
        (Errno::NOTCONN, Cause::Connection),
        (Errno::HOSTDOWN, Cause::Connection),
        (Errno::TIMEDOUT, Cause::TimedOut),
        (Errno::NOENT, Cause::Missing),
    ] {
        assert_eq!(refusal(errno, "x").cause, cause, "{errno}");
    }
}

#[test]
fn a_file_that_changes_while_it_is_read_is_refused() {
    let (root, _) = folder();
    let path = root.path().join("file");
    let changes: [&dyn Fn(); 4] = [
        &|| std::fs::write(&path, vec![1; 300_000]).expect("written"),
        &|| std::fs::write(&path, vec![1; 300_001]).expect("written"),
        &|| {
            std::fs::write(root.path().join("other"), vec![0; 300_000]).expect("written");
            std::fs::rename(root.path().join("other"), &path).expect("renamed");
        },
        &|| std::fs::remove_file(&path).expect("removed"),
    ];
    for change in changes {
        std::fs::write(&path, vec![0; 300_000]).expect("written");
        // Times of files have the clock's resolution, which may be 10 ms.
        let since = std::fs::metadata(&path).and_then(|of| of.modified()).expect("a time");
        while since.elapsed().is_ok_and(|age| age < Duration::from_millis(20)) {
            std::thread::yield_now();
        }
        let mut connection = Folder::new(root.path()).connect().expect("it exists");
        let mut has_changed = false;
        let read = connection.read_unchanged("file", &mut |_| {
            if !has_changed {
                change();
                has_changed = true;
            }
            true
        });
        let refusal = read.expect_err("it changed");
        assert!(matches!(refusal.cause, Cause::Fault | Cause::Cut { .. } | Cause::Missing), "{refusal}");
    }
}
