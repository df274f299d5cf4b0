//! Requirements for all stores: one function per property, and [`conformance!`], which creates a
//! test for each.
//!
//! Every property gets a [`Fixture`]: a location where a store can be opened, dropped and reopened.

use std::io::Write;
use std::sync::Arc;

use fulgurite_codec::AlignedBytes;
use fulgurite_domain::{ArchiveId, PlatterId};

use super::{BadMark, Mark, PlatterFile, PlatterSink, PlatterStore, StoreError};

/// The location of one store.
pub(crate) trait Fixture {
    /// Opens the place as an archive's store of this name.
    fn open(&self, archive: ArchiveId, name: &str) -> Arc<dyn PlatterStore>;
    /// Names of all files in the place, as `platters/…`, in any order.
    fn names(&self) -> Vec<String>;
    /// Replaces the mark by this text, or removes it.
    fn spoil_mark(&self, text: Option<&str>);
    /// A platter of about `bytes` to store, different for each seed.
    fn content(&self, seed: u64, bytes: usize) -> Vec<u8> {
        noise(seed, bytes)
    }
}

/// Creates a test for each property. `$place` creates a new [`Fixture`].
macro_rules! conformance {
    ($place:expr) => {
        $crate::store::conformance::conformance! { $place;
            a_place_is_a_store_once_it_is_marked
            a_foreign_mark_is_left_alone
            a_missing_or_damaged_mark_is_written_again_only_on_request
            nobody_sees_a_platter_before_it_is_committed
            a_platter_reads_back_at_any_place
            what_is_finished_can_be_read_and_replaces_nothing_yet
            a_platter_takes_the_place_of_one_that_was_there
            what_is_given_up_leaves_nothing
            what_is_cut_short_is_swept_away
            a_list_has_what_is_committed_and_no_more
            a_platter_is_removed_and_one_that_is_not_there_too
            a_platter_can_be_empty
            a_large_platter_arrives_in_odd_pieces
            two_platters_are_written_at_once
        }
    };
    ($place:expr; $($property:ident)*) => {
        $(
            #[test]
            fn $property() {
                $crate::store::conformance::$property(&$place);
            }
        )*
    };
}
pub(crate) use conformance;

const ARCHIVE: ArchiveId = ArchiveId([0xa5; 16]);
const ONE: PlatterId = PlatterId([0x01; 16]);
const TWO: PlatterId = PlatterId([0xf2; 16]);

/// Pseudorandom bytes that differ between seeds and don't repeat.
pub(crate) fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let step = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 56) as u8
    };
    std::iter::repeat_with(step).take(bytes).collect()
}

/// Opens the place and marks it as a store.
fn marked(place: &dyn Fixture) -> Arc<dyn PlatterStore> {
    let store = place.open(ARCHIVE, "one");
    store.mark().expect("marked");
    store
}

fn begin(store: &dyn PlatterStore, platter: PlatterId, bytes: &[u8]) -> Box<dyn PlatterSink> {
    let mut sink = store.create(platter, bytes.len() as u64).expect("begun");
    sink.write_all(bytes).expect("written");
    sink
}

fn write(store: &dyn PlatterStore, platter: PlatterId, bytes: &[u8]) {
    begin(store, platter, bytes).commit().expect("committed");
}

/// Fills `buffer`, up to the end of the file.
fn read_into(file: &dyn PlatterFile, offset: u64, buffer: &mut [u8]) -> usize {
    let mut read = 0;
    while read < buffer.len() {
        match file.read_at(offset + read as u64, &mut buffer[read..]).expect("read") {
            0 => break,
            more => read += more,
        }
    }
    read
}

fn read_all(file: &dyn PlatterFile) -> Vec<u8> {
    let mut bytes = vec![0; file.length().expect("length") as usize];
    assert_eq!(read_into(file, 0, &mut bytes), bytes.len());
    bytes
}

/// Asserts the content of a platter. Megabytes don't fit in a message, so it only says that they
/// differ.
#[track_caller]
fn assert_holds(store: &dyn PlatterStore, platter: PlatterId, expected: &[u8]) {
    let file = store.open(platter).expect("opened").expect("it is there");
    assert!(read_all(&*file) == expected, "platter {platter} reads back different bytes");
}

#[track_caller]
fn assert_absent(store: &dyn PlatterStore, platter: PlatterId) {
    assert!(store.open(platter).expect("looked for").is_none());
}

fn listed(store: &dyn PlatterStore) -> Vec<PlatterId> {
    let mut platters = store.list().expect("listed");
    platters.sort();
    platters
}

fn parts(place: &dyn Fixture) -> Vec<String> {
    place.names().into_iter().filter(|name| name.ends_with(".part")).collect()
}

pub(crate) fn a_place_is_a_store_once_it_is_marked(place: &dyn Fixture) {
    let store = place.open(ARCHIVE, "one");
    assert_eq!(store.name(), "one");
    let refused = store.check().expect_err("nothing is there");
    assert!(matches!(&refused, StoreError::Unmarked { store, platters: 0, .. } if store == "one"), "{refused}");
    assert_eq!(store.list().expect("nothing to list"), []);
    for _ in 0..2 {
        store.mark().expect("marked, and marked again");
        store.check().expect("marked");
    }
    place.open(ARCHIVE, "one").check().expect("marked for all");
    assert_eq!(parts(place), [""; 0]);
}

pub(crate) fn a_foreign_mark_is_left_alone(place: &dyn Fixture) {
    let store = marked(place);
    for (archive, name) in [(ArchiveId([0x5a; 16]), "one"), (ARCHIVE, "two")] {
        let other = place.open(archive, name);
        for refused in [other.check(), other.mark(), other.restore_mark()] {
            let refused = refused.expect_err("marked for another");
            let StoreError::Foreign { store, found, expected, .. } = &refused else { panic!("{refused}") };
            assert_eq!(**found, Mark { archive: ARCHIVE, name: "one".to_owned() });
            assert_eq!((store.as_str(), *expected), (name, archive));
        }
    }
    store.check().expect("as it was");
}

pub(crate) fn a_missing_or_damaged_mark_is_written_again_only_on_request(place: &dyn Fixture) {
    let store = marked(place);
    write(&*store, ONE, b"platter");
    place.spoil_mark(None);
    let refused = store.check().expect_err("no mark");
    assert!(matches!(refused, StoreError::Unmarked { platters: 1, .. }), "{refused}");
    store.restore_mark().expect("written again");
    store.check().expect("marked");
    for (text, expected) in [("", BadMark::Empty), ("fulgurite stor", BadMark::Damaged("fulgurite stor".to_owned()))] {
        place.spoil_mark(Some(text));
        for refused in [store.check(), store.mark()] {
            let refused = refused.expect_err("a bad mark");
            assert!(matches!(&refused, StoreError::BadMark { mark, .. } if *mark == expected), "{refused}");
        }
        store.restore_mark().expect("written again");
        store.check().expect("marked");
    }
    place.spoil_mark(Some("fulgurite store 2\n"));
    assert!(matches!(store.restore_mark(), Err(StoreError::BadMark { mark: BadMark::Newer(_), .. })));
    assert_holds(&*store, ONE, b"platter");
}

pub(crate) fn nobody_sees_a_platter_before_it_is_committed(place: &dyn Fixture) {
    let store = marked(place);
    let bytes = place.content(1, 3_000_000);
    let mut sink = begin(&*store, ONE, &bytes[..bytes.len() / 3 * 2]);
    assert_absent(&*store, ONE);
    assert_eq!(listed(&*store), []);
    sink.write_all(&bytes[bytes.len() / 3 * 2..]).expect("written");
    sink.finish().expect("finished");
    assert_absent(&*store, ONE);
    assert_eq!(listed(&*store), []);
    sink.commit().expect("committed");
    assert_holds(&*store, ONE, &bytes);
    assert_eq!(listed(&*store), [ONE]);
    assert_eq!(parts(place), [""; 0]);
    drop(store);
    let store = place.open(ARCHIVE, "one");
    assert_holds(&*store, ONE, &bytes);
    assert_eq!(listed(&*store), [ONE]);
}

pub(crate) fn a_platter_reads_back_at_any_place(place: &dyn Fixture) {
    let store = marked(place);
    let bytes = place.content(2, 1_234_567);
    write(&*store, ONE, &bytes);
    let file = store.open(ONE).expect("opened").expect("it is there");
    assert_eq!(file.length().expect("length"), bytes.len() as u64);
    let offsets =
        [0, 1, 511, 512, 4_095, 4_096, 65_537, bytes.len() / 6 * 5, bytes.len() - 4_096, bytes.len() - 1, bytes.len(), bytes.len() + 1];
    for offset in offsets.into_iter().chain([bytes.len() + 5_000]) {
        for length in [0, 1, 2, 512, 4_097, 100_000, 2_000_000] {
            // Disks transfer whole blocks to aligned memory only.
            for skip in [0, 16] {
                let mut memory = AlignedBytes::zeroed(skip + length, 4_096);
                let buffer = &mut memory[skip..];
                buffer.fill(0xee);
                let read = read_into(&*file, offset as u64, buffer);
                let case = format!("{length} bytes at {offset}, {skip} bytes behind a page's start");
                let expected = &bytes[offset.min(bytes.len())..(offset + length).min(bytes.len())];
                assert_eq!(read, expected.len(), "{case}");
                assert!(buffer[..read] == *expected, "{case}");
                assert!(buffer[read..].iter().all(|&byte| byte == 0xee), "bytes past the end are untouched: {case}");
            }
        }
    }
    for offset in [1 << 40, 1 << 62] {
        assert_eq!(file.read_at(offset, &mut [0; 100]).expect("read nothing"), 0, "at {offset}");
    }
}

pub(crate) fn what_is_finished_can_be_read_and_replaces_nothing_yet(place: &dyn Fixture) {
    let store = marked(place);
    let (old, new) = (place.content(3, 1_000_000), place.content(4, 1_100_000));
    write(&*store, ONE, &old);
    let mut sink = begin(&*store, ONE, &new);
    let finished = sink.finish().expect("finished");
    assert_eq!(finished.length().expect("length"), new.len() as u64);
    assert!(read_all(&*finished) == new);
    assert_holds(&*store, ONE, &old);
    assert!(read_all(&*sink.finish().expect("finished already")) == new);
    sink.commit().expect("committed");
    assert_holds(&*store, ONE, &new);
    // Readers opened for verification stay valid after the commit.
    assert!(read_all(&*finished) == new);
}

pub(crate) fn a_platter_takes_the_place_of_one_that_was_there(place: &dyn Fixture) {
    let store = marked(place);
    // Shorter and longer, so that remains of the old platter would be noticed.
    for (seed, bytes) in [(5, 700_000), (6, 300), (7, 5_000_000)] {
        let bytes = place.content(seed, bytes);
        write(&*store, ONE, &bytes);
        assert_holds(&*store, ONE, &bytes);
        assert_eq!(listed(&*store), [ONE]);
    }
    assert_eq!(parts(place), [""; 0]);
}

pub(crate) fn what_is_given_up_leaves_nothing(place: &dyn Fixture) {
    let store = marked(place);
    let before = place.content(8, 10_000);
    write(&*store, ONE, &before);
    let given_up = place.content(9, 9_000_000);
    drop(store.create(TWO, 100).expect("begun"));
    drop(begin(&*store, TWO, &given_up));
    let mut sink = begin(&*store, ONE, &given_up);
    sink.finish().expect("finished");
    drop(sink);
    assert_eq!(listed(&*store), [ONE]);
    assert_holds(&*store, ONE, &before);
    assert_absent(&*store, TWO);
    assert_eq!(parts(place), [""; 0]);
    write(&*store, TWO, &before);
    assert_holds(&*store, TWO, &before);
}

pub(crate) fn what_is_cut_short_is_swept_away(place: &dyn Fixture) {
    let store = marked(place);
    let bytes = place.content(10, 10_000);
    write(&*store, ONE, &bytes);
    for platter in [ONE, TWO] {
        let mut sink = begin(&*store, platter, &place.content(11, 5_000_000));
        sink.finish().expect("finished");
        // A killed process drops nothing either.
        std::mem::forget(sink);
    }
    assert_eq!(parts(place).len(), 2, "there is something to sweep");
    drop(store);
    let store = place.open(ARCHIVE, "one");
    assert_eq!(listed(&*store), [ONE]);
    for _ in 0..2 {
        store.sweep().expect("swept");
        assert_eq!(parts(place), [""; 0]);
        assert_holds(&*store, ONE, &bytes);
    }
    store.check().expect("the mark is no leftover");
}

pub(crate) fn a_list_has_what_is_committed_and_no_more(place: &dyn Fixture) {
    let store = marked(place);
    let platters: Vec<PlatterId> = (0..40).map(|i| PlatterId([i * 6; 16])).collect();
    for (i, &platter) in platters.iter().enumerate() {
        write(&*store, platter, &place.content(i as u64, i));
    }
    let _writing = begin(&*store, TWO, b"not there yet");
    assert_eq!(listed(&*store), platters);
    assert_holds(&*store, platters[39], &place.content(39, 39));
}

pub(crate) fn a_platter_is_removed_and_one_that_is_not_there_too(place: &dyn Fixture) {
    let store = marked(place);
    store.remove(ONE).expect("nothing to remove");
    let bytes = place.content(12, 100_000);
    write(&*store, ONE, &bytes);
    write(&*store, TWO, &bytes);
    for _ in 0..2 {
        store.remove(ONE).expect("removed");
        assert_absent(&*store, ONE);
        assert_eq!(listed(&*store), [TWO]);
    }
    assert_holds(&*store, TWO, &bytes);
    store.check().expect("still a store");
}

pub(crate) fn a_platter_can_be_empty(place: &dyn Fixture) {
    let store = marked(place);
    let mut sink = begin(&*store, ONE, b"");
    assert_eq!(sink.finish().expect("finished").length().expect("length"), 0);
    sink.commit().expect("committed");
    assert_holds(&*store, ONE, b"");
    // Also without a read before the commit.
    write(&*store, TWO, b"");
    assert_holds(&*store, TWO, b"");
    assert_eq!(listed(&*store), [ONE, TWO]);
}

pub(crate) fn a_large_platter_arrives_in_odd_pieces(place: &dyn Fixture) {
    let store = marked(place);
    let bytes = place.content(13, 20_000_003);
    let mut sink = store.create(ONE, bytes.len() as u64).expect("begun");
    let mut rest = &bytes[..];
    for size in [1, 4_095, 0, 4_194_303, 2, 65_536, 3_000_001, 4_194_304, 7].into_iter().cycle() {
        let (now, later) = rest.split_at(size.min(rest.len()));
        sink.write_all(now).expect("written");
        sink.flush().expect("flushed, without durability");
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    sink.commit().expect("committed");
    assert_holds(&*store, ONE, &bytes);
}

pub(crate) fn two_platters_are_written_at_once(place: &dyn Fixture) {
    let store = marked(place);
    let (one, two) = (place.content(14, 9_000_000), place.content(15, 9_000_000));
    let mut sinks = [ONE, TWO].map(|platter| store.create(platter, one.len() as u64).expect("begun"));
    for (one, two) in one.chunks(777_777).zip(two.chunks(777_777)) {
        sinks[0].write_all(one).expect("written");
        sinks[1].write_all(two).expect("written");
    }
    let [first, second] = sinks;
    second.commit().expect("committed");
    assert_absent(&*store, ONE);
    first.commit().expect("committed");
    assert_holds(&*store, ONE, &one);
    assert_holds(&*store, TWO, &two);
    // Also from two threads, one of which aborts.
    std::thread::scope(|scope| {
        scope.spawn(|| write(&*store, ONE, &two));
        scope.spawn(|| drop(begin(&*store, TWO, &one)));
    });
    assert_holds(&*store, ONE, &two);
    assert_holds(&*store, TWO, &two);
}
