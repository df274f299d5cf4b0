//! PREMIS documents, as a parser of XML or JSON that isn't ours reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;
use serde_json::Value;

use crate::support::Sandbox;

/// The texts of an object, event or agent, by the names of their elements; repeated ones in order.
type Texts = BTreeMap<String, Vec<String>>;

/// The objects, events and agents of a document, in their order.
fn entities(document: &str) -> Vec<(String, Texts)> {
    let mut reader = Reader::from_str(document);
    let (mut open, mut text, mut entities) = (Vec::new(), String::new(), Vec::new());
    loop {
        match reader.read_event().expect("well-formed XML") {
            Event::Start(start) => {
                let name = start.local_name().as_ref().to_owned();
                open.push(name.clone());
                text.clear();
                if open.len() == 2 {
                    entities.push((name, Texts::new()));
                }
            }
            Event::Text(part) => text += &part,
            Event::GeneralRef(reference) => match reference.resolve_char_ref().expect("a known reference") {
                Some(character) => text.push(character),
                None => text += resolve_predefined_entity(&reference).expect("a known entity"),
            },
            Event::End(_) => {
                let name = open.pop().expect("an open element");
                if open.len() >= 2 {
                    let (_, texts) = entities.last_mut().expect("an entity");
                    texts.entry(name).or_default().push(std::mem::take(&mut text));
                }
            }
            Event::Eof => break,
            _ => {}
        }
    }
    assert!(open.is_empty(), "{open:?}");
    entities
}

fn of_kind<'a>(entities: &'a [(String, Texts)], kind: &str) -> Vec<&'a Texts> {
    entities.iter().filter(|(found, _)| found == kind).map(|(_, texts)| texts).collect()
}

fn first<'a>(texts: &'a Texts, name: &str) -> &'a str {
    texts.get(name).and_then(|found| found.first()).map_or("", String::as_str)
}

/// The type, the outcome and the copy of each event.
fn steps<'a>(events: &[&'a Texts]) -> Vec<(&'a str, &'a str, &'a str)> {
    let step = |event: &&'a Texts| (first(event, "eventType"), first(event, "eventOutcome"), first(event, "linkingObjectIdentifierValue"));
    events.iter().map(step).collect()
}

fn audit(file: &str) -> Sandbox {
    let place = Sandbox::empty();
    for node in ["one", "two"] {
        place.write(format!("{node}/{file}"), b"right");
        place.write(format!("{node}/other"), b"other");
    }
    let digest = place.shell("printf right | sha256sum").text();
    place.write("list.csv", format!("path,bytes,sha256\n\"{file}\",5,{}\n", &digest[..64]));
    place.good(&["audit", "init"]);
    for node in ["one", "two"] {
        place.good(&["audit", "node", "add", node, node]);
    }
    place.good(&["audit", "inventory", "csv", "list.csv"]);
    place
}

#[test]
fn each_step_of_a_repair_is_in_the_exported_history() {
    let place = audit("f");
    let empty = place.run(&["audit", "export", "--format", "premis-xml"]);
    empty.fails_with(1, "no event comes after event 0");
    place.good(&["audit", "run"]);
    place.write("one/f", b"wrong");
    place.run(&["audit", "run", "--all"]);
    place.good(&["audit", "repair", "--apply"]);
    for node in ["one", "two"] {
        place.write(format!("{node}/f"), b"awful");
    }
    place.run(&["audit", "repair", "--apply"]);
    place.run(&["audit", "run", "--all"]);
    place.run(&["audit", "repair", "--apply"]).fails_with(1, "");
    let exported = place.good(&["audit", "export", "--format", "premis-xml"]).text();
    let entities = entities(&exported);
    let kinds: Vec<&str> = entities.iter().map(|(kind, _)| kind.as_str()).collect();
    let events = of_kind(&entities, "event");
    assert_eq!(kinds[..2], ["object"; 2]);
    assert!(kinds[2..kinds.len() - 1].iter().all(|kind| *kind == "event") && kinds[kinds.len() - 1] == "agent");
    let mut objects: Vec<&str> = of_kind(&entities, "object").iter().map(|object| first(object, "objectIdentifierValue")).collect();
    objects.sort_unstable();
    assert_eq!(objects, ["one/f", "two/f"]);
    let steps = steps(&events);
    let repair = [
        ("fixity check", "fail", "one/f"),
        ("fixity check", "success", "two/f"),
        ("recovery", "success", "one/f"),
        ("fixity check", "success", "one/f"),
    ];
    assert!(steps.windows(4).any(|window| window == repair), "{steps:?}");
    assert!(steps.iter().all(|(_, _, object)| objects.contains(object)), "{steps:?}");
    // As many as the history has, with identifiers that the next export repeats.
    let history = place.good(&["audit", "export", "--json"]).json_lines();
    assert_eq!(events.len(), history.len());
    assert_eq!(place.good(&["audit", "export", "--format", "premis-xml"]).text(), exported);
    let later = place.good(&["audit", "export", "--format", "premis-xml", "--after", "4"]).text();
    let later = self::entities(&later);
    let ids = |events: &[&Texts]| events.iter().map(|event| first(event, "eventIdentifierValue").to_owned()).collect::<Vec<_>>();
    assert_eq!(ids(&of_kind(&later, "event")), ids(&events)[4..]);
    let json = place.good(&["audit", "export", "--format", "premis-json-ld"]).json();
    let graph = json["@graph"].as_array().expect("a graph");
    let found: Vec<String> = graph
        .iter()
        .filter(|node| node["prov:endedAtTime"].is_object())
        .map(|node| node["premis:identifier"]["rdf:value"].as_str().expect("an identifier").to_owned())
        .collect();
    assert_eq!(found, ids(&events));
    let agent = graph.last().expect("an agent");
    let agent_of = |node: &Value| node["http://id.loc.gov/vocabulary/preservation/eventRelatedAgentRole/exe"][0]["@id"].clone();
    assert!(graph.iter().filter(|node| node["prov:endedAtTime"].is_object()).all(|node| agent_of(node) == agent["@id"]));
    // --format decides, whatever --json says.
    assert_eq!(place.good(&["audit", "export", "--format", "json"]).json_lines(), history);
    assert!(place.good(&["audit", "export", "--format", "csv", "--json"]).text().starts_with("event,time,"));
}

#[test]
fn a_name_that_xml_cannot_contain_survives_an_export() {
    let place = audit("a\u{1}<&> 100%");
    place.good(&["audit", "run"]);
    let entities = entities(&place.good(&["audit", "export", "--format", "premis-xml"]).text());
    let mut objects = of_kind(&entities, "object");
    objects.sort_by_key(|object| first(object, "objectIdentifierValue"));
    let object = objects[0];
    assert_eq!(first(object, "objectIdentifierType"), "copy (percent-encoded)");
    assert_eq!(first(object, "objectIdentifierValue"), "one/a%01<&> 100%25");
    assert_eq!(first(object, "originalName"), "percent-encoded: a%01<&> 100%25");
    let json = place.good(&["audit", "export", "--format", "premis-json-ld"]).json();
    assert_eq!(json["@graph"][0]["premis:originalName"], "a\u{1}<&> 100%");
}

#[test]
fn imports_and_exports_describe_what_they_did() {
    let place = Sandbox::new(5, &[]);
    place.write("bag/data/a.txt", b"a");
    place.write("bag/data/b & c.txt", b"bc");
    place.write("bag/bagit.txt", b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n");
    place.shell("cd bag && sha256sum data/* > manifest-sha256.txt");
    place.good(&["import", "bagit", "bag", "--premis", "in.xml"]);
    let text = fs::read_to_string(place.path("in.xml")).expect("a document");
    let found = entities(&text);
    let steps = steps(&of_kind(&found, "event"));
    let count = |kind: &str| steps.iter().filter(|(found, outcome, _)| *found == kind && *outcome == "success").count();
    // The manifest lists two files, and bagit.txt and the manifest itself are stored too.
    assert_eq!((count("fixity check"), count("ingestion"), steps.len()), (2, 4, 6), "{steps:?}");
    let objects = of_kind(&found, "object");
    let stored: Vec<&&Texts> = objects.iter().filter(|object| first(object, "objectIdentifierType") == "version").collect();
    let names: Vec<&str> = stored.iter().map(|object| first(object, "originalName")).collect();
    assert!(names.contains(&"bag/b & c.txt"), "{names:?}");
    let digest = place.shell("printf bc | sha256sum").text();
    let stored = stored.iter().find(|object| first(object, "originalName") == "bag/b & c.txt").expect("it was stored");
    assert_eq!(first(stored, "messageDigest"), &digest[..64]);
    // What is stored already is read and compared, and not ingested again.
    place.run(&["import", "bagit", "bag", "--premis", "in.xml"]).fails_with(2, "in.xml exists");
    place.good(&["import", "bagit", "bag", "--premis", "again.json"]);
    let again: Value = serde_json::from_slice(&place.read("again.json")).expect("JSON");
    let again = again["@graph"].to_string();
    assert!(again.contains("eventType/fix") && !again.contains("eventType/ing"), "{again}");
    // A bag that is refused leaves no event.
    place.shell("cp -r bag bad && printf x >> bad/data/a.txt");
    place.run(&["import", "bagit", "bad", "--premis", "bad.xml"]).fails_with(1, "");
    assert!(!place.path("bad.xml").exists());

    place.good(&["export", "bagit", "bag", "--into", "out", "--premis", "out.xml"]);
    let text = fs::read_to_string(place.path("out.xml")).expect("a document");
    let out = entities(&text);
    let events = of_kind(&out, "event");
    let types: Vec<&str> = events.iter().map(|event| first(event, "eventType")).collect();
    assert_eq!(types.iter().filter(|kind| **kind == "dissemination").count(), types.len() / 2, "{types:?}");
    assert!(types.len() >= 4 && first(events[types.len() - 1], "eventOutcomeDetailNote").contains("it is in the bag out"), "{types:?}");
    place.good(&["export", "ocfl", "bag", "--into", "root", "--premis", "first.xml"]);
    let first_export = fs::read_to_string(place.path("first.xml")).expect("a document");
    assert!(first_export.contains("v1 of the OCFL object bag in root"), "{first_export}");
    place.good(&["export", "ocfl", "bag", "--into", "root", "--premis", "second.xml"]);
    let second = fs::read_to_string(place.path("second.xml")).expect("a document");
    assert!(second.contains("eventType/fix") && !second.contains("eventType/dis"), "nothing was written: {second}");
    // The import of the OCFL object states the same kinds of steps.
    place.good(&["import", "ocfl", "root", "--to", "objects", "--premis", "ocfl.xml"]);
    let text = fs::read_to_string(place.path("ocfl.xml")).expect("a document");
    assert!(text.contains("eventType/fix") && text.contains("eventType/ing"), "{text}");
}

/// A bag whose names are those that texts for people can't tell apart, or that aren't text.
fn odd_bag() -> Sandbox {
    let place = Sandbox::new(5, &[]);
    place.write("bag/data/a\nb", b"line feed");
    place.write("bag/data/a\\nb", b"backslash");
    place.write("bag/bagit.txt", b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n");
    let line = |content: &str, path: &str| {
        let digest = place.shell(&format!("printf '{content}' | sha256sum")).text();
        format!("{}  data/{path}\n", &digest[..64])
    };
    let lines = line("line feed", "a%0Ab") + &line("backslash", "a\\nb");
    place.write("bag/manifest-sha256.txt", lines.as_bytes());
    for (name, content) in [(&b"m\xff"[..], "Latin"), ("m\u{fffd}".as_bytes(), "other")] {
        fs::write(place.path("bag").join(OsStr::from_bytes(name)), content).expect("a file");
    }
    place
}

#[test]
fn each_file_of_an_import_has_an_identifier_and_its_real_name() {
    let place = odd_bag();
    place.good(&["import", "bagit", "bag", "--premis", "in.xml"]);
    let found = entities(&fs::read_to_string(place.path("in.xml")).expect("a document"));
    let objects = of_kind(&found, "object");
    let of_type = |kind: &str| -> Vec<&&Texts> { objects.iter().filter(|object| first(object, "objectIdentifierType") == kind).collect() };
    let mut paths: Vec<&str> = of_type("file").iter().map(|object| first(object, "objectIdentifierValue")).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["bag/data/a\nb", "bag/data/a\\nb"]);
    let mut names: Vec<&str> = of_type("version").iter().map(|object| first(object, "originalName")).collect();
    names.sort_unstable();
    let expected = [
        "bag/.bag/bagit.txt",
        "bag/.bag/m\u{fffd}",
        "bag/.bag/manifest-sha256.txt",
        "bag/a\nb",
        "bag/a\\nb",
        "percent-encoded: bag/.bag/m%FF",
    ];
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(names, expected);

    place.good(&["import", "bagit", "bag", "--premis", "again.json"]);
    let again: Value = serde_json::from_slice(&place.read("again.json")).expect("JSON");
    let ids: Vec<&str> = again["@graph"].as_array().expect("nodes").iter().filter_map(|node| node["@id"].as_str()).collect();
    assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len(), "{ids:?}");
}

#[test]
fn tag_files_whose_names_are_not_utf_8_are_stored_as_they_are() {
    let place = odd_bag();
    place.good(&["import", "bagit", "bag"]);
    place.good(&["get", "bag", "out"]);
    let compared = place.shell("diff -r bag/data out --exclude=.bag && diff -r bag out/.bag --exclude=data");
    assert_eq!(compared.status, 0, "{}{}", compared.text(), compared.err);
}

/// The number of ingestions in a document.
fn ingestions(place: &Sandbox, document: &str) -> usize {
    let found = entities(&fs::read_to_string(place.path(document)).expect("a document"));
    steps(&of_kind(&found, "event")).iter().filter(|(kind, ..)| *kind == "ingestion").count()
}

/// Bags with ten payload files, two tag files each.
fn bags(place: &Sandbox, count: usize) -> Vec<String> {
    let bag = |number: usize| {
        let name = format!("bag{number}");
        for file in 0..10 {
            place.write(format!("{name}/data/{file}"), format!("{number} {file}").as_bytes());
        }
        place.write(format!("{name}/bagit.txt"), b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n");
        place.shell(&format!("cd {name} && sha256sum data/* > manifest-sha256.txt"));
        name
    };
    (0..count).map(bag).collect()
}

#[test]
fn one_document_describes_the_import_of_several_bags() {
    let place = Sandbox::new(5, &[]);
    let names = bags(&place, 2);
    place.good(&["import", "bagit", &names[0], &names[1], "--premis", "in.xml"]);
    assert_eq!(ingestions(&place, "in.xml"), 24);
}

#[test]
fn an_import_that_is_stopped_describes_what_it_stored() {
    let mut stopped = 0;
    for _ in 0..10 {
        let place = Sandbox::new(5, &[]);
        let names = bags(&place, 30);
        let arguments: Vec<&str> = ["import", "bagit"].into_iter().chain(names.iter().map(String::as_str)).collect();
        let mut import =
            place.command().args(&arguments).args(["--premis", "in.xml", "--quiet"]).stderr(Stdio::null()).spawn().expect("it runs");
        let has_stored = || place.segments().iter().any(|segment| segment.metadata().is_ok_and(|found| found.len() > 4_096));
        while import.try_wait().expect("it can be waited for").is_none() && !has_stored() {
            std::thread::yield_now();
        }
        let sent = place.shell(&format!("kill -TERM {}", import.id())).status == 0;
        let status = import.wait().expect("it ends");
        let stored = place.good(&["ls"]).text().lines().count();
        assert_eq!(ingestions(&place, "in.xml"), stored);
        if status.success() {
            // It was done before the signal came.
            continue;
        }
        assert!(sent && status.code() == Some(1) && stored < 360, "{status:?}, {stored} stored");
        place.good(&[&arguments[..], &["--premis", "rest.xml"]].concat());
        assert_eq!(ingestions(&place, "rest.xml"), 360 - stored);
        stopped += 1;
        break;
    }
    assert!(stopped > 0, "no import was stopped");
}
