//! What every place must do, whatever is behind it.

use std::collections::BTreeMap;

use super::{Cause, Connection, Listed, Place, Unchanged};

/// Lengths around the sizes of buffers and packets.
const LENGTHS: [usize; 6] = [0, 1, 32 << 10, (256 << 10) - 1, (256 << 10) + 1, 3 << 20];
const NAMES: [&str; 6] = ["empty", "a", "folder/b c", "folder/deep/er/d+e", "folder/50%25 ü", "folder/&<\"'>#?;"];

fn content(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| ((index * 31 + seed * 7) >> 3) as u8).collect()
}

fn read(connection: &mut dyn Connection, location: &str) -> Result<Vec<u8>, Cause> {
    let mut received = Vec::new();
    let bytes = connection
        .read(location, &mut |piece| {
            received.extend_from_slice(piece);
            true
        })
        .map_err(|refusal| refusal.cause)?;
    assert_eq!(bytes, received.len() as u64, "{location}");
    Ok(received)
}

fn listed(connection: &mut dyn Connection) -> BTreeMap<String, Option<u64>> {
    files(connection).into_iter().map(|(location, file)| (location, file.bytes)).collect()
}

fn files(connection: &mut dyn Connection) -> BTreeMap<String, Listed> {
    let mut files = BTreeMap::new();
    let result = connection.list(&mut |file| {
        let location = file.location.clone();
        assert_eq!(files.insert(location.clone(), file), None, "{location} is listed twice");
        true
    });
    assert_eq!(result, Ok(()));
    files
}

/// Runs all of it on an empty place.
pub(super) fn check(place: &dyn Place) {
    let mut connection = place.connect().unwrap_or_else(|refusal| panic!("{}: {refusal}", place.describe()));
    let connection = &mut *connection;
    assert_eq!(listed(connection), BTreeMap::new());

    // What is written can be read, measured and listed, and nothing else appears.
    for (index, (name, bytes)) in NAMES.iter().zip(LENGTHS).enumerate() {
        let content = content(index, bytes);
        connection.write(name, bytes as u64, &mut &content[..]).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
    }
    let mut fresh = place.connect().expect("it was possible before");
    for (index, (name, bytes)) in NAMES.iter().zip(LENGTHS).enumerate() {
        assert_eq!(connection.length(name), Ok(bytes as u64), "{name}");
        assert!(read(connection, name) == Ok(content(index, bytes)), "{name}");
        assert!(read(&mut *fresh, name) == Ok(content(index, bytes)), "{name}");
    }
    let expected: BTreeMap<_, _> = NAMES.iter().zip(LENGTHS).map(|(name, bytes)| ((*name).to_owned(), Some(bytes as u64))).collect();
    assert_eq!(listed(connection), expected);

    // A caller may end a listing.
    let mut seen = 0;
    let result = connection.list(&mut |_| {
        seen += 1;
        seen < 2
    });
    assert_eq!((result, seen), (Ok(()), 2));

    // A file is replaced as a whole.
    connection.write("folder/b c", 3, &mut &b"new"[..]).expect("it can be replaced");
    assert_eq!(read(connection, "folder/b c"), Ok(b"new".to_vec()));

    // Unless it must not be: then a new file appears, and an existing one stays.
    let exists = connection.write_new("folder/b c", 5, &mut &b"other"[..]).expect_err("it exists");
    assert_eq!((exists.cause, read(connection, "folder/b c")), (Cause::Exists, Ok(b"new".to_vec())));
    connection.write_new("folder/once", 4, &mut &b"once"[..]).expect("it doesn't exist");
    assert_eq!(read(connection, "folder/once"), Ok(b"once".to_vec()));
    connection.remove("folder/once").expect("it can be removed");
    assert_eq!(listed(connection).len(), NAMES.len());

    // A revision, where there is one, changes with the content.
    let before = connection.revision("folder/b c").expect("it is there");
    connection.write("folder/b c", 3, &mut &b"nev"[..]).expect("it can be replaced");
    let after = connection.revision("folder/b c").expect("it is there");
    assert!(before.is_some() == after.is_some() && (before.is_none() || before != after), "{before:?} {after:?}");
    connection.write("folder/b c", 3, &mut &b"new"[..]).expect("it can be replaced");

    // A listing states what changes when a file is replaced, and the times that files have.
    let file = files(connection).remove("folder/b c").expect("it is listed");
    assert!(file.tag.is_some() || file.modified.is_some(), "{file:?}");
    if let Some(modified) = connection.modified("folder/b c").expect("it is there") {
        assert_eq!(file.modified, Some(modified));
    }

    // A file that doesn't change is read with what the place states of it.
    let mut content = Vec::new();
    let unchanged = connection.read_unchanged("folder/b c", &mut |piece| {
        content.extend(piece);
        true
    });
    let (modified, revision) = (connection.modified("folder/b c"), connection.revision("folder/b c"));
    let stated = Unchanged { bytes: 3, modified: modified.expect("it is there"), revision: revision.expect("it is there") };
    assert_eq!((unchanged, &*content), (Ok(stated), &b"new"[..]));

    // A write that fails changes nothing and leaves nothing.
    for (stated, content) in [(4, &b"new"[..]), (2, b"new"), (0, b"new"), (3, b"")] {
        let refusal = connection.write("folder/b c", stated, &mut &content[..]).expect_err("another length than stated");
        // A content that goes on too long isn't read to its end.
        let is_cut = matches!(refusal.cause, Cause::Cut { received, stated: announced } if announced == stated && received != stated);
        assert!(is_cut, "{refusal}");
        assert_eq!(read(connection, "folder/b c"), Ok(b"new".to_vec()));
    }
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("broken"))
        }
    }
    assert!(connection.write("other", 10, &mut Broken).expect_err("unreadable").detail.contains("broken"));
    assert_eq!(listed(connection).len(), NAMES.len());

    // Missing is missing, at any depth, and below a file.
    for location in ["nothing", "folder/nothing", "no/such/folder/x", "a/below"] {
        assert_eq!(connection.length(location).map_err(|refusal| refusal.cause), Err(Cause::Missing), "{location}");
        assert_eq!(read(connection, location), Err(Cause::Missing), "{location}");
        assert_eq!(connection.remove(location), Ok(()), "{location}");
    }

    // Nothing leads out of the place.
    for location in ["", "/etc/passwd", "../x", "folder/../../x", "folder/./a", "folder//a", "folder/"] {
        assert_eq!(connection.length(location).map_err(|refusal| refusal.cause), Err(Cause::Unsupported), "{location}");
        assert_eq!(read(connection, location), Err(Cause::Unsupported), "{location}");
        assert_eq!(connection.write(location, 0, &mut &b""[..]).map_err(|refusal| refusal.cause), Err(Cause::Unsupported), "{location}");
        assert_eq!(connection.remove(location).map_err(|refusal| refusal.cause), Err(Cause::Unsupported), "{location}");
    }

    // Removed files are missing, and the others stay.
    connection.remove("a").expect("it can be removed");
    assert_eq!(read(connection, "a"), Err(Cause::Missing));
    assert_eq!(read(&mut *fresh, "a"), Err(Cause::Missing));
    assert_eq!(listed(connection).len(), NAMES.len() - 1);
}
