//! Retrievals that find files of earlier ones, and those that fail in the middle.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use fulgurite_retrieval::{Arrived, Bulk, Destination, Format, Progress, Requested, Retrieval, RetrievalError, Settings, Summary};
use stub::{CONTENT, CUT, Stub};

mod stub;

struct Silent;

impl Progress for Silent {}

/// A folder with lists and folders for parts.
struct Place {
    stub: Stub,
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { stub: Stub::new(), folder: tempfile::tempdir().expect("a folder") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Retrieves keys into a folder, with one object in each part.
    fn retrieve(&self, keys: &str, folder: &str, prefix: Option<&str>) -> Result<Summary, String> {
        let list = self.path("list.txt");
        std::fs::write(&list, keys).expect("written");
        let destination = prefix.map(|prefix| Destination { server: self.stub.server(), prefix: prefix.to_owned() });
        let settings = Settings { list, folder: self.path(folder), part_objects: 1, destination, ..Settings::default() };
        self.run(settings).map_err(|error| error.to_string())
    }

    fn run(&self, settings: Settings) -> Result<Summary, RetrievalError> {
        let on_retry = |error: &_, _| panic!("it is tried again: {error:?}");
        Retrieval::new(&self.stub.server(), settings).run(&mut Silent, &on_retry, &AtomicBool::new(false))
    }
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).expect("a file").len()
}

#[test]
fn parts_in_a_bucket_without_their_own_files_are_not_those_of_another_list() {
    let place = Place::new();
    place.retrieve("a", "state", Some("x/")).expect("retrieved");
    std::fs::remove_dir_all(place.path("state/_retrieval")).expect("removed");
    let refused = place.retrieve("c", "state", Some("y/")).expect_err("there is a part");
    assert!(refused.contains("whose own files are gone. Use another folder"), "{refused}");
}

#[test]
fn a_prefix_with_parts_is_refused() {
    let place = Place::new();
    place.retrieve("a\nb", "one", Some("x y/")).expect("retrieved");
    // The second part may have been put first.
    let first = place.stub.objects().remove("x y/part-000001.tar");
    assert!(first.is_some());
    let before = place.stub.objects().clone();
    for _ in 0..2 {
        let refused = place.retrieve("c", "two", Some("x y/")).expect_err("the prefix has parts");
        assert!(refused.contains("s3://b/x y/part-000002.tar exists") && refused.contains("another prefix"), "{refused}");
    }
    assert_eq!(*place.stub.objects(), before, "nothing is replaced");
    place.retrieve("c", "two", Some("x")).expect("only the same prefix counts, and the folder can be used");
}

#[test]
fn a_retrieval_goes_on_after_a_crash_between_a_put_and_its_mark() {
    let place = Place::new();
    let keys = "a\nb";
    place.retrieve(keys, "state", Some("x/")).expect("retrieved");
    let again = place.retrieve(keys, "state", Some("x/")).expect("everything is there");
    assert_eq!((again.parts, again.earlier_parts), (2, 2));
    for part in ["000001", "000002"] {
        std::fs::remove_file(place.path(&format!("state/_part-{part}.uploaded"))).expect("removed");
        let content = place.stub.objects()[&format!("x/part-{part}.tar")].clone();
        std::fs::write(place.path(&format!("state/part-{part}.tar")), content).expect("written");
    }
    let again = place.retrieve(keys, "state", Some("x/")).expect("it goes on");
    assert_eq!((again.earlier_parts, again.retrieved), (0, 0), "its files are put again");
}

#[test]
fn two_retrievals_that_began_with_the_same_prefix_dont_replace_each_others_parts() {
    let place = Place::new();
    for folder in ["one", "two"] {
        place.retrieve(folder, folder, None).expect("retrieved");
        // As if both had seen an empty prefix, and had been killed before their first put.
        let job = place.path(folder).join("_retrieval/job.json");
        let text = std::fs::read_to_string(&job).expect("JSON").trim_end().trim_end_matches('}').to_owned();
        std::fs::write(&job, format!("{text}, \"destination\": \"s3://b/x/\"}}")).expect("written");
    }
    place.retrieve("one", "one", Some("x/")).expect("it is the first");
    let before = place.stub.objects().clone();
    let refused = place.retrieve("two", "two", Some("x/")).expect_err("these are the other's");
    assert!(refused.contains("s3://b/x/part-000001.tar exists") && refused.contains("another prefix"), "{refused}");
    assert_eq!(*place.stub.objects(), before, "nothing is replaced");
}

#[test]
fn a_sorted_list_is_kept_when_its_prefix_is_found_in_use() {
    let place = Place::new();
    place.retrieve("a\nb", "state", Some("x/")).expect("retrieved");
    // As if another retrieval had put these parts after this one had sorted its list.
    for part in ["000001", "000002"] {
        std::fs::remove_file(place.path(&format!("state/_part-{part}.uploaded"))).expect("removed");
    }
    let before = place.stub.objects().clone();
    let refused = place.retrieve("a\nb", "state", Some("x/")).expect_err("they aren't its own");
    assert!(refused.contains("another prefix"), "{refused}");
    assert_eq!(*place.stub.objects(), before, "nothing is replaced");
    let elsewhere = place.retrieve("a\nb", "state", Some("y/")).expect("the advice can be followed");
    assert_eq!((elsewhere.parts, elsewhere.retrieved), (2, 2));
    let refused = place.retrieve("a\nb", "state", Some("z/")).expect_err("its parts are elsewhere");
    assert!(refused.contains("--into"), "{refused}");
}

#[test]
fn a_part_that_was_cut_off_is_retrieved_again() {
    let place = Place::new();
    let keys = "a\nb\nc";
    place.retrieve(keys, "parts", None).expect("retrieved");
    let paths = ["000001", "000002", "000003"].map(|part| place.path(&format!("parts/part-{part}.tar")));
    let whole = length(&paths[0]);
    std::fs::File::options().write(true).open(&paths[0]).and_then(|file| file.set_len(whole - 1)).expect("cut off");
    std::fs::write(&paths[1], "").expect("emptied");
    // As earlier releases left it.
    std::fs::remove_file(place.path("parts/_retrieval/part-000002.json")).expect("removed");
    let again = place.retrieve(keys, "parts", None).expect("retrieved");
    assert_eq!((again.earlier_parts, again.retrieved), (1, 2));
    assert!(paths.iter().all(|path| length(path) == whole));
}

#[test]
fn a_missing_list_in_reading_order_is_reported_as_damage() {
    let place = Place::new();
    place.retrieve("a", "parts", None).expect("retrieved");
    std::fs::remove_file(place.path("parts/_retrieval/sorted")).expect("removed");
    std::fs::remove_file(place.path("parts/part-000001.tar")).expect("removed");
    let failed = place.retrieve("a", "parts", None).expect_err("it can't go on");
    assert!(failed.ends_with("_retrieval/sorted is damaged: it is missing. Retrieve into another folder"), "{failed}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_reported_with_the_file() {
    let place = Place::new();
    std::fs::create_dir(place.path("parts")).expect("a folder");
    std::os::unix::fs::symlink("/dev/full", place.path("parts/_part-000001.tar.partial")).expect("a link");
    let failed = place.retrieve("a", "parts", None).expect_err("no space");
    assert!(failed.contains("parts/_part-000001.tar.partial: No space left"), "{failed}");
    assert!(failed.ends_with(". Free space on its file system"), "{failed}");
}

/// Retrieves a list with an object that is always cut off, into one part.
fn retrieve_cut_off(place: &Place, format: Format) -> Summary {
    let list = place.path("list.jsonl");
    std::fs::write(&list, format!("\"a\"\n{{\"key\": \"{CUT}\"}}\n\"z\"")).expect("written");
    let settings = Settings { list, folder: place.path(&format!("{format:?}")), format, ..Settings::default() };
    Retrieval::new(&place.stub.server(), settings).run(&mut Silent, &|_, _| {}, &AtomicBool::new(false)).expect("the rest is retrieved")
}

#[test]
fn an_object_that_is_cut_off_again_fails_alone() {
    let place = Place::new();
    for format in [Format::Tar, Format::Parquet] {
        for has_been_retrieved in [false, true] {
            let summary = retrieve_cut_off(&place, format);
            let retrieved = if has_been_retrieved { 0 } else { 2 };
            assert_eq!((summary.objects, summary.retrieved, summary.failed, summary.missing_lists), (3, retrieved, 1, 0));
        }
        let failed = std::fs::read_to_string(place.path(&format!("{format:?}/_part-000001.failed.jsonl"))).expect("a list");
        assert!(failed.starts_with(&format!("{{\"key\":\"{CUT}\",\"code\":\"InternalError\",")), "{failed}");
        assert_eq!(failed.lines().count(), 1);
    }
}

#[test]
fn a_bulk_get_into_memory_goes_on_without_an_object_that_is_cut_off_again() {
    let stub = Stub::new();
    let (server, stop) = (stub.server(), AtomicBool::new(false));
    let wanted = ["a", CUT, "z"].map(Requested::new);
    let arrived = Bulk::new(&server, &|_, _| {}, &stop).expect("a runtime").get(&wanted).expect("the others arrive");
    let content = Arrived::Content { version_id: None, content: CONTENT.to_vec() };
    assert_eq!((&arrived[0], &arrived[2]), (&content, &content));
    assert!(matches!(&arrived[1], Arrived::Failed { code, message } if code == "InternalError" && message.contains("to its end")));
    let alone = Bulk::new(&server, &|_, _| {}, &stop).expect("a runtime").get(&wanted[1..2]).expect("nothing is left to request");
    assert!(matches!(&alone[..], [Arrived::Failed { .. }]));
}

#[test]
fn failures_are_remembered_when_their_lists_are_gone() {
    let place = Place::new();
    retrieve_cut_off(&place, Format::Tar);
    std::fs::remove_file(place.path("Tar/_part-000001.failed.jsonl")).expect("moved away");
    let again = retrieve_cut_off(&place, Format::Tar);
    assert_eq!((again.retrieved, again.failed, again.missing_lists), (0, 1, 1));
    // As earlier releases recorded it: the lists alone tell.
    std::fs::write(place.path("Tar/_retrieval/part-000001.json"), length(&place.path("Tar/part-000001.tar")).to_string()).expect("written");
    let again = retrieve_cut_off(&place, Format::Tar);
    assert_eq!((again.earlier_parts, again.failed, again.missing_lists), (1, 0, 0));
}

#[test]
fn an_object_that_is_cut_off_is_named() {
    let place = Place::new();
    let list = place.path("list.txt");
    std::fs::write(&list, format!("a\n{CUT}\nz")).expect("written");
    for format in [Format::Tar, Format::Parquet] {
        let settings = Settings { list: list.clone(), folder: place.path(&format!("{format:?}")), format, ..Settings::default() };
        let (stop, why) = (AtomicBool::new(false), Mutex::new(String::new()));
        let on_retry = |error: &fulgurite_retrieval::ExchangeError, _| {
            *why.lock().expect("no panic") = error.to_string();
            stop.store(true, Ordering::Relaxed);
        };
        let stopped = Retrieval::new(&place.stub.server(), settings).run(&mut Silent, &on_retry, &stop);
        assert_eq!(stopped.expect_err("stopped").to_string(), "stopped");
        let why = why.into_inner().expect("no panic");
        assert!(why.ends_with(&format!(" while receiving {CUT:?}")), "{why}");
    }
    assert!(CONTENT.len() > 1_000, "the cut is within the content");
}
