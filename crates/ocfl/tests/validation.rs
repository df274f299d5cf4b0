//! Every kind of fault is found, in a report that says where it is, and hostile objects cost
//! neither memory nor files outside of them.

mod support;

use std::fs;
use std::path::Path;

use fulgurite_digest::Algorithm;
use fulgurite_ocfl::{
    Code, Object, ObjectError, Report, Scope, StorageRoot, ValidateOptions, Verdict, WriteError, validate_object, validate_root,
};
use support::{codes, describe, digest, edit, info, object, root, validate, validate_all};

/// An object with two versions and a fixity block.
fn two_versions(root: &StorageRoot) -> Object {
    let object = object(root, "urn:x", &[("a", "one"), ("b/c", "two")]);
    let mut writer = root.new_version(&object, &[Algorithm::Md5], info("second")).unwrap();
    writer.add("d", &mut &b"three"[..], &[]).unwrap();
    writer.remove("a");
    writer.commit().unwrap();
    object
}

fn check(change: impl FnOnce(&Object), expected: &[&str]) -> Report {
    let (_folder, root) = root();
    let object = two_versions(&root);
    assert_eq!(codes(&validate(&object)), [""; 0]);
    change(&object);
    let report = validate(&object);
    assert_eq!(codes(&report), expected, "{}", describe(&report));
    let has_error = expected.iter().any(|code| code.starts_with('E'));
    assert_eq!(report.verdict(), if has_error { Verdict::Invalid } else { Verdict::Valid });
    report
}

#[test]
fn faults_of_an_inventory_have_their_codes() {
    let three = digest(b"three", Algorithm::Sha512).hex();
    for (from, to, expected) in [
        ("\"id\": \"urn:x\"", "\"id\": \"\"", &["E037", "E110"][..]),
        ("\"id\": \"urn:x\"", "\"id\": 1", &["E037", "E110"]),
        ("\"id\": \"urn:x\"", "\"id\": \"urn:x\", \"id\": \"urn:x\"", &["E033"]),
        ("\"id\": \"urn:x\"", "\"id\": \"urn:x\", \"other\": {}", &["E102"]),
        ("\"id\": \"urn:x\"", "\"id\": \"x y\"", &["E037", "E110", "W005"]),
        ("/1.1/spec", "/1.2/spec", &["E038"]),
        ("/1.1/spec", "/1.0/spec", &["E038", "E103"]),
        ("\"head\": \"v2\"", "\"head\": \"v1\"", &["E040"]),
        ("\"head\": \"v2\"", "\"head\": 2", &["E040"]),
        ("\"head\": \"v2\"", "\"head\": \"v2\", \"contentDirectory\": \"a/b\"", &["E017"]),
        ("\"head\": \"v2\"", "\"head\": \"v2\", \"contentDirectory\": \"..\"", &["E018"]),
        ("\"head\": \"v2\"", "\"head\": \"v2\", \"contentDirectory\": \"\"", &["E108"]),
        ("\"head\": \"v2\"", "\"head\": \"v2\", \"contentDirectory\": \"content\"", &["E019"]),
        ("\"manifest\": {", "\"manifest\": [", &["E033"]),
        ("\"manifest\"", "\"manifest\": 7, \"versions\": [], \"fixity\"", &["E033", "E044", "E057", "E106"]),
        (&three, &three[1..], &["E023", "E031", "E050", "E057"]),
        ("v2/content/d\"", "v2/content/../../v1/content/a\"", &["E023", "E057", "E092", "E099"]),
        ("v2/content/d\"", "v2/d\"", &["E023", "E042", "E057", "E092"]),
        ("v2/content/d\"", "v9/content/d\"", &["E023", "E042", "E057", "E092"]),
        ("v2/content/d\"", "/v2/content/d\"", &["E023", "E057", "E092", "E100"]),
        ("\"fixity\": {", "\"fixity\": {\"md5\": {}, ", &["E033"]),
        ("\"fixity\": {", "\"fixity\": {\"size\": {\"6\": [\"v2/content/d\"]}, ", &["E093"]),
        ("\"fixity\": {", "\"fixity\": {\"size\": {\"5\": [\"v2/content/d\"]}, ", &[]),
        ("\"fixity\": {", "\"fixity\": {\"size\": {\"-5\": [\"v2/content/d\"]}, ", &["E057"]),
        ("\"fixity\": {", "\"fixity\": {\"sha1\": {\"xy\": [\"v2/content/d\"]}, ", &["E029"]),
        ("\"fixity\": {", "\"fixity\": {\"x-crc\": {\"xy\": [\"v2/content/d\"]}, ", &[]),
        ("\"fixity\": {", "\"fixity\": {\"sha1\": null, ", &["E057"]),
        ("\"fixity\": {", "\"fixity\": null, \"fixity\": {", &["E033", "E111"]),
        ("\"created\"", "\"made\"", &["E048", "E102", "W011"]),
        ("\"created\": \"2026", "\"created\": \"2o26", &["E049", "W011"]),
        ("\"message\": \"first\"", "\"message\": \"1st\"", &["W011"]),
        ("\"message\": \"first\"", "\"message\": 1", &["E094", "W011"]),
        ("\"name\": \"Ada\"", "\"name\": \"\"", &["E054", "W011"]),
        ("\"address\": \"mailto:ada@example.org\"", "\"address\": 5", &["E054", "W011"]),
        ("\"b/c\"", "\"b//c\"", &["E052", "E066"]),
        ("\"b/c\"", "\"/b/c\"", &["E053", "E066"]),
        ("\"b/c\"", "\"b/c\", \"b/c\"", &["E095"]),
        ("\"b/c\"", "\"b/c\", \"b\"", &["E066", "E095"]),
        ("\"b/c\"", "\"b/c\", 7", &["E051", "E066"]),
        ("\"v1\": {", "\"v1\": {}, \"v1\": {", &["E033", "E048", "E066", "E107", "W007", "W011"]),
        ("\"v1\": {", "\"x1\": {", &["E009", "E046", "E042", "E107"]),
    ] {
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        check_loosely(from, to, &expected);
    }
}

/// The expected codes must be there; others may follow from the same fault.
fn check_loosely(from: &str, to: &str, expected: &[&str]) {
    let (_folder, root) = root();
    let object = two_versions(&root);
    edit(&object, &["", "v2"], |text| text.replacen(from, to, 1));
    let report = validate(&object);
    let found = codes(&report);
    assert!(expected.iter().all(|code| found.contains(&(*code).to_owned())), "{from} -> {to}: {expected:?}\n{}", describe(&report));
    assert_eq!(report.verdict() == Verdict::Valid, expected.iter().all(|code| code.starts_with('W')), "{from} -> {to}");
    if expected.is_empty() {
        assert_eq!(found, [""; 0], "{}", describe(&report));
    }
}

#[test]
fn faults_of_files_and_folders_have_their_codes() {
    let write = |path: &'static str, content: &'static str| {
        move |object: &Object| {
            let path = object.folder().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
    };
    let remove = |path: &'static str| move |object: &Object| fs::remove_file(object.folder().join(path)).unwrap();
    let folder = |path: &'static str| move |object: &Object| fs::create_dir_all(object.folder().join(path)).unwrap();

    check(write("extra", ""), &["E001"]);
    check(write("inventory.json.md5", ""), &["E001"]);
    check(folder("x"), &["E001"]);
    check(remove("0=ocfl_object_1.1"), &["E003"]);
    check(write("0=ocfl_object_1.0", "ocfl_object_1.0\n"), &["E003"]);
    check(write("0=ocfl_object_2.0", "ocfl_object_2.0\n"), &["E003", "E004"]);
    check(write("1=ocfl_object_1.1", "ocfl_object_1.1\n"), &["E005"]);
    check(write("0=other", "other\n"), &["E006"]);
    check(write("0=ocfl_object_1.1", "ocfl_object_1.1"), &["E007"]);
    check(write("0=ocfl_object_1.1", "ocfl_object_1.1\n\n"), &["E007"]);
    check(folder("v3"), &["E046", "W010"]);
    check(folder("v4"), &["E010", "E046", "W010"]);
    check(folder("v003"), &["E012", "E046", "W010"]);
    check(write("v1/extra", ""), &["E015"]);
    check(folder("v1/extra"), &["W002"]);
    check(write("v1/content/extra", ""), &["E023"]);
    check(folder("v1/content/x/y"), &["E024"]);
    check(remove("v1/content/b/c"), &["E024", "E092"]);
    check(remove("v2/content/d"), &["E092", "E093", "W003"]);
    check(write("v2/content/d", "thr3e"), &["E092", "E093"]);
    check(remove("inventory.json.sha512"), &["E058"]);
    check(remove("v1/inventory.json.sha512"), &["E058"]);
    check(write("inventory.json.sha512", "00 inventory.json\n"), &["E060"]);
    check(write("v2/inventory.json.sha512", "00 inventory.json\n"), &["E060"]);
    check(write("v1/inventory.json.sha512", "inventory.json\n"), &["E061"]);
    check(remove("inventory.json"), &["E063"]);
    check(write("inventory.json", "{"), &["E033", "E060"]);
    check(write("inventory.json", "\u{feff}{}"), &["E033", "E060"]);
    check(remove("v1/inventory.json"), &["E015", "W010"]);
    check(write("extensions/x", ""), &["E067"]);
    check(write("extensions/other/x", ""), &["W013"]);
    check(write("extensions/0005-mutable-head/x", ""), &[]);
    check(write("logs/x", ""), &[]);
    check(|object| edit(object, &["v1"], |text| text.replace("\"b/c\"", "\"b/d\"")), &["E066"]);
    check(|object| edit(object, &["v2"], |text| text.replace("\"b/c\"", "\"b/d\"")), &["E064", "E066"]);
    check(
        |object| fs::rename(object.folder().join("v1/inventory.json"), object.folder().join("v1/Inventory.json")).unwrap(),
        &["E015", "W010"],
    );
    check(
        |object| {
            fs::rename(object.folder().join("inventory.json.sha512"), object.folder().join("inventory.json.sha256")).unwrap();
        },
        &["E059"],
    );
}

#[test]
fn every_changed_byte_of_content_is_found_by_any_number_of_threads() {
    let (_folder, root) = root();
    let files: Vec<(String, String)> = (0..60).map(|number| (format!("f/{number}"), format!("content {number}"))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, content)| (&**path, &**content)).collect();
    let object = object(&root, "urn:x", &files);
    for number in [3, 30, 59] {
        let path = object.folder().join(format!("v1/content/f/{number}"));
        let mut content = fs::read(&path).unwrap();
        content[2] ^= 1;
        fs::write(path, content).unwrap();
    }
    let places = |threads| {
        let report = validate_object(object.folder(), &ValidateOptions { threads, ..ValidateOptions::default() });
        assert_eq!((report.files_read, report.findings.errors()), (60, 3));
        report.findings.kept().iter().map(|finding| (finding.code(), finding.place.clone())).collect::<Vec<_>>()
    };
    let found = places(0);
    assert_eq!(found.len(), 3);
    assert!(
        found
            .iter()
            .all(|(code, place)| *code == Code::E(92) && ["v1/content/f/3", "v1/content/f/30", "v1/content/f/59"].contains(&&**place))
    );
    assert!((1..6).all(|threads| places(threads) == found));
    let unread = validate_object(object.folder(), &ValidateOptions { reads_content: false, ..ValidateOptions::default() });
    assert_eq!((unread.verdict(), unread.files, unread.files_read), (Verdict::Valid, 60, 0));
}

#[cfg(unix)]
#[test]
fn links_and_pipes_are_reported_and_never_followed() {
    use std::os::unix::fs::symlink;
    let (folder, root) = root();
    let object = two_versions(&root);
    let outside = folder.path().join("outside");
    fs::write(&outside, "one").unwrap();
    let content = object.folder().join("v1/content/a");
    fs::remove_file(&content).unwrap();
    symlink(&outside, &content).unwrap();
    let report = validate(&object);
    assert_eq!(codes(&report), ["E090", "E092"], "{}", describe(&report));
    assert!(matches!(object.open("v1/content/a"), Err(ObjectError::Path { .. })));

    fs::remove_file(&content).unwrap();
    fs::hard_link(object.folder().join("v2/content/d"), object.folder().join("v2/content/e")).unwrap();
    fs::write(&content, "one").unwrap();
    assert_eq!(codes(&validate(&object)), ["E023"]);
    fs::remove_file(object.folder().join("v2/content/e")).unwrap();

    fs::remove_dir_all(object.folder().join("v2/content")).unwrap();
    symlink(folder.path(), object.folder().join("v2/content")).unwrap();
    assert!(codes(&validate(&object)).contains(&"E090".to_owned()));
    assert!(matches!(object.open("v2/content/outside"), Err(ObjectError::Path { .. })));
    for path in ["../outside", "/etc/passwd", "v1/../../outside", ""] {
        assert!(matches!(object.open(path), Err(ObjectError::Path { .. })), "{path}");
    }
    // Opening a socket's name would fail or block.
    let _socket = std::os::unix::net::UnixListener::bind(object.folder().join("v1/content/socket")).unwrap();
    assert!(codes(&validate(&object)).contains(&"E089".to_owned()));
}

#[cfg(unix)]
#[test]
fn two_names_of_one_content_file_are_a_hard_link() {
    let (_folder, root) = root();
    let object = object(&root, "urn:x", &[("a", "one"), ("b", "two")]);
    // Both in the manifest, with the content that both have.
    edit(&object, &["", "v1"], |text| {
        let (one, two) = (digest(b"one", Algorithm::Sha512).hex(), digest(b"two", Algorithm::Sha512).hex());
        let mut value: serde_json::Value = serde_json::from_str(text).unwrap();
        value["manifest"].as_object_mut().unwrap().remove(&two);
        value["manifest"][&one] = serde_json::json!(["v1/content/a", "v1/content/b"]);
        value["versions"]["v1"]["state"] = serde_json::json!({ &*one: ["a", "b"] });
        value.to_string()
    });
    fs::remove_file(object.folder().join("v1/content/b")).unwrap();
    fs::hard_link(object.folder().join("v1/content/a"), object.folder().join("v1/content/b")).unwrap();
    assert_eq!(codes(&validate(&object)), ["E090"]);
    fs::remove_file(object.folder().join("v1/content/b")).unwrap();
    fs::write(object.folder().join("v1/content/b"), "one").unwrap();
    assert_eq!(codes(&validate(&object)), [""; 0]);
    assert_eq!(object.inventory().unwrap().files(Scope::Head).count(), 2);
}

#[test]
fn what_cannot_be_read_is_unknown_and_not_invalid() {
    let (folder, root) = root();
    let object = two_versions(&root);
    let missing = validate_object(&folder.path().join("missing"), &ValidateOptions::default());
    assert_eq!((missing.verdict(), missing.unreadable_count), (Verdict::Unknown, 1));
    let small = validate_object(object.folder(), &ValidateOptions { inventory_bytes_max: 100, ..ValidateOptions::default() });
    assert_eq!(small.verdict(), Verdict::Unknown);
    assert!(small.unreadable[0].to_string().contains("at most 100 are read"), "{}", small.unreadable[0]);
    assert!(matches!(object.inventory_of_at_most(100), Err(ObjectError::Read { .. })));
    assert_eq!(validate_root(&folder.path().join("missing"), &ValidateOptions::default(), &mut |_, _| true).verdict(), Verdict::Unknown);
}

#[test]
fn unknown_keys_are_errors_that_readers_tolerate_and_writers_do_not() {
    let (_folder, root) = root();
    let object = two_versions(&root);
    edit(&object, &["", "v2"], |text| text.replacen("{", "{\"other\": {\"a\": 1},", 1));
    assert_eq!(codes(&validate(&object)), ["E102"]);
    assert_eq!(object.inventory().unwrap().id(), "urn:x");
    assert!(matches!(root.new_version(&object, &[], info("third")), Err(WriteError::Damaged { .. })));
    // Many of them must not hide an error.
    let many: String = (0..2_000).map(|number| format!("\"key{number}\": 0,")).collect();
    edit(&object, &["", "v2"], |text| text.replacen("{", &format!("{{{many}"), 1).replace("\"b/c\"", "\"../c\""));
    assert!(object.inventory().is_err());
}

#[test]
fn hostile_inventories_end_in_findings() {
    let (_folder, root) = root();
    let object = object(&root, "urn:x", &[("a", "one")]);
    let valid = fs::read_to_string(object.folder().join("inventory.json")).unwrap();
    let many = "[],".repeat(200_000);
    for text in [
        "[".repeat(500_000),
        format!("{}{}", "{\"a\":".repeat(200_000), "}".repeat(200_000)),
        valid.replace("\"v1/content/a\"", &format!("{many}[]")),
        valid.replace("\"a\"", &format!("{}\"a\"", "\"\",".repeat(100_000))),
        valid.replace("\"a\"", &format!("\"{}a\"", "a/".repeat(500_000))),
        valid.replace("\"v1\": {", &format!("{}\"v1\": {{", "\"v1\":{},".repeat(50_000))),
        valid.replace("\"v1\": {", "\"v4294967295\": {}, \"v1\": {"),
        valid.replace("urn:x", "\\ud800"),
        "\u{0}".repeat(1_000),
    ] {
        edit(&object, &["", "v1"], |_| text.clone());
        let report = validate(&object);
        let is_long_path = text.len() > 900_000 && text.contains("a/a/a/");
        assert_eq!(report.verdict(), if is_long_path { Verdict::Valid } else { Verdict::Invalid }, "{:.200}", text);
        assert!(report.findings.kept().len() <= 2_000);
        assert!(report.findings.kept().iter().all(|finding| finding.to_string().len() < 2_000));
        edit(&object, &["", "v1"], |_| valid.clone());
    }
    assert_eq!(validate(&object).verdict(), Verdict::Valid);
}

#[test]
fn mutated_inventories_never_panic_and_never_pass_with_another_digest() {
    // xorshift64*, Vigna 2016; the seed repeats the run.
    let seed = 0x9e37_79b9_7f4a_7c15_u64;
    println!("seed {seed:#x}");
    let mut state = seed;
    let mut next = move |below: usize| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % below
    };
    let (_folder, root) = root();
    let object = two_versions(&root);
    let valid = fs::read(object.folder().join("inventory.json")).unwrap();
    let digits: Vec<u8> = b"{}[]\",:/.v0129aF\\ ".to_vec();
    for _ in 0..400 {
        let mut bytes = valid.clone();
        for _ in 0..=next(3) {
            let at = next(bytes.len());
            match next(3) {
                0 => bytes[at] = digits[next(digits.len())],
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, digits[next(digits.len())]),
            }
        }
        if bytes == valid {
            continue;
        }
        fs::write(object.folder().join("inventory.json"), &bytes).unwrap();
        // The sidecar is of the unchanged inventory.
        assert_eq!(validate(&object).verdict(), Verdict::Invalid, "{}", String::from_utf8_lossy(&bytes));
        assert!(object.inventory().is_err());
        let _ = fulgurite_ocfl::Inventory::parse(&bytes);
    }
}

#[test]
fn faults_of_a_storage_root_have_their_codes() {
    type Change = fn(&Path);
    let write = |path: std::path::PathBuf, content: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    let changes: [(&str, Change, &[Code]); 12] = [
        ("no declaration", |root| fs::remove_file(root.join("0=ocfl_1.1")).unwrap(), &[Code::E(69)]),
        ("text", |root| fs::write(root.join("0=ocfl_1.1"), "ocfl_1.1").unwrap(), &[Code::E(80)]),
        ("two", |root| fs::write(root.join("0=ocfl_1.0"), "ocfl_1.0\n").unwrap(), &[Code::E(76)]),
        ("unknown", |root| fs::write(root.join("0=ocfl_9"), "ocfl_9\n").unwrap(), &[Code::E(77), Code::E(76)]),
        ("layout", |root| fs::write(root.join("ocfl_layout.json"), "{\"extension\": \"x\"}").unwrap(), &[Code::E(70)]),
        (
            "name",
            |root| fs::write(root.join("ocfl_layout.json"), "{\"extension\": \"../x\", \"description\": \"\"}").unwrap(),
            &[Code::E(71)],
        ),
        ("empty", |root| fs::create_dir_all(root.join("a/b")).unwrap(), &[Code::E(73)]),
        ("extension", |root| fs::write(root.join("extensions/x"), "").unwrap(), &[Code::E(112)]),
        ("unregistered", |root| fs::create_dir(root.join("extensions/x")).unwrap(), &[Code::W(16)]),
        ("other file", |root| fs::write(root.join("README"), "").unwrap(), &[]),
        ("file in a folder", |root| fs::write(root.join("x"), "").unwrap(), &[]),
        (
            "misplaced",
            |root| {
                let from = StorageRoot::open(root).unwrap().objects().next().unwrap().unwrap();
                fs::rename(from.folder(), from.folder().with_file_name("elsewhere")).unwrap();
            },
            &[Code::E(83)],
        ),
    ];
    for (name, change, expected) in changes {
        let (_folder, root) = root();
        object(&root, "urn:x", &[("a", "one")]);
        object(&root, "urn:y", &[("a", "one")]);
        change(root.folder());
        let report = validate_all(&root);
        let found: Vec<Code> = report.findings.kept().iter().map(|finding| finding.code()).collect();
        assert_eq!(found, expected, "{name}");
        assert_eq!(report.valid, 2);
        assert_eq!(report.verdict() == Verdict::Valid, expected.iter().all(|code| !code.is_error()), "{name}");
    }
    let (_folder, root) = root();
    let object = object(&root, "urn:x", &[("a", "one")]);
    write(object.folder().parent().unwrap().join("stray"), "");
    fs::remove_file(root.folder().join("ocfl_layout.json")).unwrap();
    let (copy, flat) = (root.folder().join("copy"), support::files(object.folder()));
    support::put_files(&copy, &flat);
    fs::write(copy.join("v1/content/a"), "changed").unwrap();
    let mut seen = Vec::new();
    let report = validate_root(root.folder(), &ValidateOptions::default(), &mut |folder, report| {
        seen.push((folder.to_str().unwrap().to_owned(), report.verdict()));
        true
    });
    assert_eq!(seen, [(root.place(&object), Verdict::Valid), ("copy".to_owned(), Verdict::Invalid)]);
    let found: Vec<Code> = report.findings.kept().iter().map(|finding| finding.code()).collect();
    assert_eq!(found, [Code::E(72), Code::W(14), Code::W(15), Code::E(37)]);
    let stopped = validate_root(root.folder(), &ValidateOptions::default(), &mut |_, _| false);
    assert!(stopped.is_stopped && stopped.valid + stopped.invalid == 1);
}

#[test]
fn objects_are_found_in_sorted_order_without_any_layout() {
    let (_folder, root) = root();
    for number in 0..40 {
        object(&root, &format!("urn:{number}"), &[]);
    }
    fs::remove_file(root.folder().join("ocfl_layout.json")).unwrap();
    let root = StorageRoot::open(root.folder()).unwrap();
    assert!(root.layout().is_none());
    let places: Vec<String> = root.objects().map(|object| root.place(&object.unwrap())).collect();
    assert_eq!(places.len(), 40);
    assert!(places.is_sorted());
}
