//! A file of which something is known is stored only if a check of its content, while it is read,
//! agrees.

use std::fs;
use std::sync::Mutex;

use crate::support::Home;
use fulgurite_archive::catalogue::Versions;
use fulgurite_archive::watch::{Trouble, Watcher};
use fulgurite_archive::{ContentCheck, PutReport, Skip, Source};
use fulgurite_domain::ObjectName;

/// Accepts one content.
struct Only {
    expected: Vec<u8>,
    received: Vec<u8>,
}

impl ContentCheck for Only {
    fn restart(&mut self) {
        self.received.clear();
    }

    fn update(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    fn finish(&mut self) -> Result<(), String> {
        if self.received == self.expected { Ok(()) } else { Err(format!("{} bytes are not what is known", self.received.len())) }
    }
}

#[derive(Default)]
struct Said(Mutex<Vec<String>>);

impl Watcher for Said {
    fn trouble(&self, trouble: Trouble<'_>) {
        if let Trouble::Unreadable { why, .. } = trouble {
            self.0.lock().expect("not poisoned").push(why.to_owned());
        }
    }
}

#[test]
fn only_content_that_passes_its_check_is_stored() {
    let home = Home::new(2, 1);
    let archive = home.open();
    let folder = tempfile::tempdir().expect("a folder");
    // Below, at and beyond the frames and records of staging.
    let sizes = [0, 1, 65_520, 65_536, (1 << 20) - 256, 1 << 20, (2 << 20) + 1];
    let put = |skip: Skip, expected: &dyn Fn(usize) -> Vec<u8>| -> (PutReport, Vec<String>) {
        let said = Said::default();
        let sources = sizes.map(|size| {
            let path = folder.path().join(size.to_string());
            let check = Box::new(Only { expected: expected(size), received: Vec::new() });
            Source::Checked { path, name: ObjectName(size.to_string().into_bytes()), check }
        });
        let outcome = archive.put_changed(sources.into_iter(), skip, &said);
        assert!(outcome.failure.is_none());
        (outcome.report, said.0.into_inner().expect("not poisoned"))
    };
    let content = |size: usize| vec![7; size];
    for size in sizes {
        fs::write(folder.path().join(size.to_string()), content(size)).expect("written");
    }
    let versions = || archive.catalogue().list(b"", Versions::All, None, 100).expect("listed").len();

    let (report, said) = put(Skip::Nothing, &|size| vec![8; size + 1]);
    assert_eq!((report.objects, report.failed, versions()), (0, sizes.len() as u64, 0));
    assert!(said.iter().all(|why| why.ends_with("bytes are not what is known")), "{said:?}");

    let (report, _) = put(Skip::SameContent, &content);
    assert_eq!((report.objects, report.failed, versions()), (sizes.len() as u64, 0, sizes.len()));

    // What is stored already is compared all the same.
    for skip in [Skip::SameContent, Skip::Unchanged] {
        let (report, _) = put(skip, &|size| vec![8; size + 1]);
        assert_eq!((report.objects, report.unchanged, report.failed), (0, 0, sizes.len() as u64), "{skip:?}");
    }
    let (report, _) = put(Skip::SameContent, &content);
    assert_eq!((report.objects, report.unchanged, report.failed, versions()), (0, sizes.len() as u64, 0, sizes.len()));
}

#[test]
fn a_file_that_has_become_a_link_or_a_folder_is_not_stored() {
    let home = Home::new(2, 1);
    let archive = home.open();
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink("/etc/hostname", folder.path().join("link")).expect("a link");
    fs::create_dir(folder.path().join("folder")).expect("a folder");
    let sources = ["link", "folder", "nothing"].map(|name| Source::Checked {
        path: folder.path().join(name),
        name: ObjectName(name.into()),
        check: Box::new(Only { expected: Vec::new(), received: Vec::new() }),
    });
    let outcome = archive.put_changed(sources.into_iter(), Skip::Nothing, &Said::default());
    assert_eq!((outcome.report.objects, outcome.report.failed), (0, 3));
}
