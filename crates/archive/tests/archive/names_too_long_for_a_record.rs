//! A name that no record can hold is refused when it is stored, and keeps nothing else from
//! platters.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use fulgurite_archive::watch::{Trouble, Unwatched, Watcher};
use fulgurite_archive::{Intake, IntakeError, NewObject, Skip, Source};
use fulgurite_domain::{Attributes, Kind, ObjectName};
use fulgurite_format::RECORD_BYTES_MAX;

use crate::support::{Home, record, stage};

#[derive(Default)]
struct Said(Mutex<Vec<String>>);

impl Watcher for Said {
    fn trouble(&self, trouble: Trouble<'_>) {
        if let Trouble::Unreadable { why, .. } | Trouble::Note(why) = trouble {
            self.0.lock().expect("not poisoned").push(why.to_owned());
        }
    }
}

fn name(bytes: usize) -> ObjectName {
    ObjectName([&b"folder/"[..], &vec![b'n'; bytes - 7]].concat())
}

#[test]
fn a_put_refuses_names_that_no_record_can_hold_and_stores_the_others() {
    let home = Home::new(2, 1);
    let archive = home.open();
    let file = home.folder.path().join("file");
    std::fs::write(&file, "content").expect("written");
    let longest = RECORD_BYTES_MAX - 300;
    let said = Said::default();
    let sources = [longest, RECORD_BYTES_MAX, 20].map(|bytes| Source::Path { path: file.clone(), name: name(bytes) });
    let stream = Source::Stream { reader: Box::new(&b"content"[..]), name: name(1_100_000) };
    let outcome = archive.put_changed(sources.into_iter().chain([stream]), Skip::Nothing, &said);
    assert!(outcome.failure.is_none());
    assert_eq!((outcome.report.objects, outcome.report.failed), (2, 2));
    let said = said.0.into_inner().expect("not poisoned");
    assert!(said.iter().any(|why| why.starts_with("the name has 1048576 bytes")), "{said:?}");
    let flushed = archive.flush(&Unwatched).expect("flushed");
    assert_eq!((flushed.versions, flushed.too_long), (2, 0));
    assert!(archive.reading().newest(&name(longest)).expect("a catalogue").expect("it is stored").archived);
}

#[test]
fn an_intake_refuses_a_name_that_no_record_can_hold() {
    let home = Home::new(2, 1);
    let archive = Arc::new(home.open());
    let intake = Intake::open(archive.clone()).expect("an intake");
    let finish = |bytes: usize, attributes: Attributes| {
        let (tell, told) = channel();
        let object = NewObject { name: name(bytes), kind: Kind::File, modified: None, mode: None, attributes };
        intake.upload().finish(object, Vec::new(), Box::new(move |result| tell.send(result).expect("it is awaited")));
        told.recv().expect("an acknowledgement")
    };
    let longest = RECORD_BYTES_MAX - 300;
    let attributes = Attributes([("a".to_owned(), vec![7; 1_000])].into());
    assert!(matches!(finish(longest, attributes.clone()), Err(IntakeError::Record(_))));
    assert!(matches!(finish(1_100_000, Attributes::default()), Err(IntakeError::Record(_))));
    finish(longest, Attributes::default()).expect("acknowledged");
    finish(20, attributes).expect("acknowledged");
    intake.close();
    assert_eq!(archive.flush(&Unwatched).expect("flushed").versions, 2);
}

#[test]
fn a_staged_version_with_too_long_a_record_is_named_and_the_others_are_archived() {
    let home = Home::new(2, 1);
    let long = String::from_utf8(name(1_100_000).0).expect("UTF-8");
    stage(
        &home,
        1,
        &[
            (record("a", 1, Kind::File, b"first", &[]), b"first"),
            (record(&long, 1, Kind::File, b"content", &[]), b"content"),
            (record("z", 1, Kind::File, b"last", &[]), b"last"),
        ],
    );
    let archive = home.open();
    let said = Said::default();
    // Each flush names it, and leaves it where it is.
    for versions in [2, 0] {
        let flushed = archive.flush(&said).expect("flushed");
        assert_eq!((flushed.versions, flushed.too_long, flushed.unreadable), (versions, 1, 0));
    }
    let said = said.0.into_inner().expect("not poisoned");
    let id = archive.reading().newest(&name(1_100_000)).expect("a catalogue").expect("it is listed").id.to_string();
    assert!(said.len() == 2 && said.iter().all(|why| why.contains(": folder/nnn") && why.contains(&id)), "{said:?}");
}
