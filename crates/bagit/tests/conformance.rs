//! Bags that must be accepted, accepted with a warning, or rejected: the cases of the Library of
//! Congress's conformance suite by their names, and more from the text of RFC 8493.
//!
//! The suite itself is a repository of bags; these bags are made here, because what matters of them
//! is a line or two.

mod draft;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use draft::{Draft, MD5_OF_ABC};
use fulgurite_bagit::{Depth, Options, Problem, Verdict};

const OTHER_MD5: &str = "00000000000000000000000000000000";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Valid,
    Warning,
    Invalid,
}
use Expected::{Invalid, Valid, Warning};

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

/// `manifest-md5.txt` with a line for `path`.
fn with_line(version: &str, path: &str) -> Draft {
    Draft::new(version).append("manifest-md5.txt", &format!("{MD5_OF_ABC}  {path}\n"))
}

/// Cases for both versions.
fn cases(version: &'static str) -> Vec<(&'static str, Expected, Draft)> {
    let new = || Draft::new(version);
    let since_1_0 = |expected| if version == "1.0" { Invalid } else { expected };
    let abc = |path: &str| format!("{MD5_OF_ABC}  {path}\n");
    vec![
        ("basic bag", Valid, new()),
        ("basic bag with tag manifest", Valid, new().tag_manifest()),
        ("CRLF line ends", Valid, new().put("manifest-md5.txt", &format!("{MD5_OF_ABC}  data/a.txt\r\n"))),
        ("no final line end", Valid, new().put("manifest-md5.txt", &format!("{MD5_OF_ABC}  data/a.txt"))),
        ("uppercase digest", Valid, new().put("manifest-md5.txt", &format!("{}  data/a.txt\n", MD5_OF_ABC.to_uppercase()))),
        ("one space as separator", Valid, new().put("manifest-md5.txt", &format!("{MD5_OF_ABC} data/a.txt\n"))),
        ("tabs as separator", Valid, new().put("manifest-md5.txt", &format!("{MD5_OF_ABC}\t\tdata/a.txt\n"))),
        ("bag with space in a name", Valid, new().abc("data/a b  c.txt")),
        (
            "bag with escapable characters",
            Valid,
            new()
                .put("data/%\n\r", "abc")
                .append("manifest-md5.txt", &abc(if version == "1.0" { "data/%25%0A%0d" } else { "data/%%0A%0d" })),
        ),
        (
            "name with a URL's percent-encoding",
            if version == "1.0" { Warning } else { Valid },
            new().put("data/a%20b%25c", "abc").append("manifest-md5.txt", &abc("data/a%20b%25c")),
        ),
        ("an ark as a name", Valid, new().abc("data/ark:/13030/x|1|producer/f")),
        ("empty payload", Valid, new().remove("data/a.txt").put("manifest-md5.txt", "")),
        ("bag in a bag", Valid, new().abc("data/bag/bagit.txt").abc("data/bag/manifest-md5.txt")),
        ("duplicate metadata entries", Valid, new().put("bag-info.txt", "Contact-Name: a\nContact-Name: b\nx-y: é\n  folded\n")),
        ("payload oxum", Valid, new().put("bag-info.txt", "payload-oxum: 3.1\n")),
        (
            "ISO-8859-1 tag files",
            Valid,
            new()
                .put("bagit.txt", &format!("BagIt-Version: {version}\nTag-File-Character-Encoding: ISO-8859-1\n"))
                .put_bytes("manifest-md5.txt", format!("{MD5_OF_ABC}  data/").into_bytes().into_iter().chain(*b"\xe9\n").collect())
                .remove("data/a.txt")
                .put("data/é", "abc"),
        ),
        (
            "UTF-16 encoded tag files",
            Valid,
            new()
                .put("bagit.txt", &format!("BagIt-Version: {version}\nTag-File-Character-Encoding: UTF-16BE\n"))
                .put_bytes("manifest-md5.txt", utf16(&abc("data/a.txt")))
                .put_bytes("bag-info.txt", utf16("A: é\n")),
        ),
        ("fetch.txt whose files are present", Valid, new().put("fetch.txt", "https://a/b 3 data/a.txt\n")),
        ("uncommon metadata separators", since_1_0(Valid), new().put("bag-info.txt", "A : b\nC:d\nE\t:\tf\n")),
        ("several manifests", Valid, new().put("manifest-sha1.txt", "a9993e364706816aba3e25717850c26c9cd0d89d  data/a.txt\n")),
        (
            "two manifests with different files",
            since_1_0(Warning),
            new().put("data/b", "abc").put("manifest-sha1.txt", "a9993e364706816aba3e25717850c26c9cd0d89d  data/b\n"),
        ),
        // Warnings.
        ("leading dot slash in manifest", Warning, new().put("manifest-md5.txt", &abc("./data/a.txt"))),
        ("made with md5sum tools", Warning, new().put("manifest-md5.txt", &format!("{MD5_OF_ABC} *data/a.txt\n"))),
        ("filename normalization", Warning, new().put("data/Núñez", "abc").append("manifest-md5.txt", &abc("data/Nu\u{301}n\u{303}ez"))),
        (
            "same filename listed twice with different normalization",
            Warning,
            new().abc("data/Núñez").append("manifest-md5.txt", &abc("data/Nu\u{301}n\u{303}ez")),
        ),
        ("names that differ in case", Warning, new().abc("data/A.txt")),
        ("the same line twice", Warning, new().append("manifest-md5.txt", &abc("data/a.txt"))),
        ("byte-order mark in a manifest", Warning, new().put("manifest-md5.txt", &format!("\u{feff}{}", abc("data/a.txt")))),
        ("lone carriage returns", Warning, new().put("manifest-md5.txt", &format!("{MD5_OF_ABC}  data/a.txt\r"))),
        ("empty lines", Warning, new().put("manifest-md5.txt", &format!("\n{}\n", abc("data/a.txt")))),
        ("empty folder in the payload", Warning, new().folder("data/empty/inner")),
        ("tag file that no tag manifest lists", Warning, new().tag_manifest().put("notes.txt", "x")),
        ("other length in fetch.txt", Warning, new().put("fetch.txt", "https://a/b 4 data/a.txt\n")),
        // Errors.
        ("no bagit.txt", Invalid, new().remove("bagit.txt")),
        (
            "byte-order mark in bagit.txt",
            Invalid,
            new().put("bagit.txt", &format!("\u{feff}BagIt-Version: {version}\nTag-File-Character-Encoding: UTF-8\n")),
        ),
        (
            "bagit.txt with invalid whitespace",
            Invalid,
            new().put("bagit.txt", &format!("BagIt-Version : {version}\nTag-File-Character-Encoding : UTF-8\n")),
        ),
        ("bagit.txt without encoding", Invalid, new().put("bagit.txt", &format!("BagIt-Version: {version}\n"))),
        ("invalid version number", Invalid, new().put("bagit.txt", "BagIt-Version: 1.x\nTag-File-Character-Encoding: UTF-8\n")),
        ("unknown encoding", Invalid, new().put("bagit.txt", &format!("BagIt-Version: {version}\nTag-File-Character-Encoding: UTF-99\n"))),
        ("no payload folder", Invalid, new().remove("data/a.txt").remove_folder("data").put("manifest-md5.txt", "")),
        ("no payload manifest", Invalid, new().remove("manifest-md5.txt")),
        ("corrupt data file", Invalid, new().put("data/a.txt", "abd")),
        ("corrupt tag file", Invalid, new().tag_manifest().append("bag-info.txt", "A: b\n")),
        ("missing data file", Invalid, new().remove("data/a.txt")),
        ("missing tag file", Invalid, new().tag_manifest().remove("bag-info.txt")),
        ("extra file in the payload", Invalid, new().put("data/extra", "abc")),
        ("file to be fetched", Invalid, new().put("fetch.txt", "https://a/b - data/b\n").append("manifest-md5.txt", &abc("data/b"))),
        ("fetch.txt lists what no manifest lists", Invalid, new().put("fetch.txt", "https://a/b - data/b\n")),
        ("fetch.txt with an absolute path", Invalid, new().put("fetch.txt", "https://a/b 3 /tmp/a.txt\n")),
        ("fetch.txt with a path out of the bag", Invalid, new().put("fetch.txt", "https://a/b 3 data/../../a.txt\n")),
        ("fetch.txt with a tag file", Invalid, new().put("fetch.txt", "https://a/b 3 bagit.txt\n")),
        ("fetch.txt without a length", Invalid, new().put("fetch.txt", "https://a/b data/a.txt\n")),
        ("out of scope: dots", Invalid, with_line(version, "../../../README.md")),
        ("out of scope: dots within the payload", Invalid, with_line(version, "data/../../README.md")),
        ("out of scope: absolute path", Invalid, with_line(version, "/etc/passwd")),
        ("out of scope: home", Invalid, with_line(version, "~/x")),
        ("out of scope: another's home", Invalid, with_line(version, "~root/x")),
        ("out of scope: shell variable", Invalid, with_line(version, "$HOME/x")),
        ("out of scope: Windows drive", Invalid, with_line(version, "C:\\x")),
        ("out of scope: UNC path", Invalid, with_line(version, "\\\\server\\x")),
        ("out of scope: file URL", Invalid, with_line(version, "file:///etc/passwd")),
        ("out of scope: tag file", Invalid, with_line(version, "bagit.txt")),
        ("manifest lists a folder", Invalid, with_line(version, "data/")),
        ("manifest lists a folder without slash", Invalid, new().abc("data/folder/x").append("manifest-md5.txt", &abc("data/folder"))),
        ("conflicting lines", Invalid, new().append("manifest-md5.txt", &format!("{OTHER_MD5}  data/a.txt\n"))),
        ("line without path", Invalid, new().append("manifest-md5.txt", &format!("{MD5_OF_ABC}\n"))),
        ("digest of another length", Invalid, new().append("manifest-md5.txt", "00ff  data/a.txt\n")),
        (
            "digest that isn't hexadecimal",
            Invalid,
            new().put("manifest-md5.txt", &format!("{}  data/a.txt\n", MD5_OF_ABC.replace('9', "x"))),
        ),
        ("manifest that isn't UTF-8", Invalid, new().put_bytes("manifest-md5.txt", b"\xff\xfe\n".to_vec())),
        ("wrong payload oxum: bytes", Invalid, new().put("bag-info.txt", "Payload-Oxum: 4.1\n")),
        ("wrong payload oxum: files", Invalid, new().put("bag-info.txt", "Payload-Oxum: 3.2\n")),
        ("malformed payload oxum", Invalid, new().put("bag-info.txt", "Payload-Oxum: 3\n")),
        ("metadata without a colon", Invalid, new().put("bag-info.txt", "A b\n")),
        ("metadata that begins with a folded line", Invalid, new().put("bag-info.txt", "  a: b\n")),
        ("unsupported algorithm", Invalid, new().put("manifest-tiger.txt", "00  data/a.txt\n")),
        ("tag manifest lists a payload file", since_1_0(Warning), new().put("tagmanifest-md5.txt", &abc("data/a.txt")).tag_manifest()),
        ("tag manifest lists a tag manifest", Invalid, new().tag_manifest().append("tagmanifest-md5.txt", &abc("tagmanifest-md5.txt"))),
        ("tag manifest without the payload manifest", since_1_0(Warning), new().put("tagmanifest-md5.txt", "")),
        ("link in the payload", Invalid, new().link("/etc/passwd", "data/link").append("manifest-md5.txt", &abc("data/link"))),
        ("linked folder in the payload", Invalid, new().link("/etc", "data/etc").append("manifest-md5.txt", &abc("data/etc/passwd"))),
        ("linked payload", Invalid, new().remove("data/a.txt").remove_folder("data").link("/etc", "data")),
        ("pipe in the payload", Invalid, new().pipe("data/pipe")),
    ]
}

fn check(name: &str, expected: Expected, draft: &Draft) {
    for threads in [1, 3] {
        let report = draft.validate(&Options { threads: threads.try_into().unwrap(), memory_bytes: 0, ..Options::default() });
        let found = match report.verdict() {
            Verdict::Valid if report.warnings() == 0 => Valid,
            Verdict::Valid => Warning,
            _ => Invalid,
        };
        assert_eq!(found, expected, "{name}: {:#?}", report.findings());
    }
}

#[test]
fn bags_of_version_1_0_are_accepted_and_rejected_as_rfc_8493_says() {
    for (name, expected, draft) in cases("1.0") {
        check(name, expected, &draft);
    }
}

#[test]
fn bags_of_version_0_97_are_accepted_and_rejected_as_its_draft_says() {
    for (name, expected, draft) in cases("0.97") {
        check(name, expected, &draft);
    }
}

#[test]
fn bags_of_older_versions_have_their_metadata_in_package_info() {
    for version in ["0.93", "0.94", "0.95"] {
        check(version, Valid, &Draft::new(version).remove("bag-info.txt").put("package-info.txt", "Payload-Oxum: 3.1\n"));
        check(version, Invalid, &Draft::new(version).put("package-info.txt", "Payload-Oxum: 4.1\n"));
    }
    check("0.96", Valid, &Draft::new("0.96").put("bag-info.txt", "Payload-Oxum: 3.1\n"));
    check("0.96", Invalid, &Draft::new("0.96").put("bag-info.txt", "Payload-Oxum: 4.1\n"));
}

#[test]
fn a_bag_with_files_to_be_fetched_is_incomplete_and_nothing_else() {
    let draft = Draft::new("1.0")
        .append("manifest-md5.txt", &format!("{MD5_OF_ABC}  data/b c\n"))
        .put("fetch.txt", "https://a/b 3 data/b c\n")
        .put("bag-info.txt", "Payload-Oxum: 6.2\n");
    let report = draft.validate(&Options::default());
    assert_eq!((report.verdict(), report.to_fetch(), report.errors()), (Verdict::ToFetch, 1, 1));
    let mut listed = Vec::new();
    let faults = draft.bag().fetch(10, &mut |entry| listed.push((entry.url, entry.bytes, entry.path)));
    assert_eq!((listed, faults.errors()), (vec![("https://a/b".into(), Some(3), "data/b c".into())], 0));
    // Another error isn't hidden behind it.
    let report = draft.put("data/a.txt", "abd").validate(&Options::default());
    assert_eq!((report.verdict(), report.errors()), (Verdict::Invalid, 2));
}

#[test]
fn a_quick_check_sees_presence_and_sizes_and_claims_no_more() {
    let quick = Options { depth: Depth::Quick, ..Options::default() };
    let draft = Draft::new("1.0").put("bag-info.txt", "Payload-Oxum: 3.1\n");
    assert_eq!(draft.validate(&quick).verdict(), Verdict::Complete);
    let draft = draft.put("data/a.txt", "abd");
    let report = draft.validate(&quick);
    assert_eq!((report.verdict(), report.digests_checked()), (Verdict::Complete, 0));
    assert_eq!(draft.put("data/a.txt", "ab").validate(&quick).verdict(), Verdict::Invalid);
    let without = Draft::new("1.0").validate(&quick);
    assert_eq!((without.verdict(), without.warnings()), (Verdict::Complete, 1));
    assert_eq!(Draft::new("1.0").remove("data/a.txt").validate(&quick).verdict(), Verdict::Invalid);
}

#[test]
fn findings_tell_what_happened_to_what() {
    let report = Draft::new("1.0").put("data/a.txt", "abd").validate(&Options::default());
    let text = report.findings()[0].to_string();
    assert!(text.starts_with("error: data/a.txt: the content doesn't match manifest-md5.txt: "), "{text}");
    assert!(text.contains("4911e516e5aa21d327512e0c8b197616") && text.contains(MD5_OF_ABC), "{text}");
    let report = Draft::new("1.0").put("data/evil\nerror: forged\u{1b}[31m", "x").validate(&Options::default());
    assert!(report.findings().iter().all(|finding| !finding.to_string().contains(['\n', '\u{1b}'])));
}

#[test]
fn an_unknown_algorithm_is_the_only_error_of_a_bag_that_is_complete() {
    let draft = Draft::new("1.0").remove("manifest-md5.txt").put("manifest-sha3512.txt", "00ff  data/a.txt\n");
    let report = draft.validate(&Options::default());
    assert_eq!((report.verdict(), report.errors(), report.digests_checked()), (Verdict::Invalid, 1, 0), "{:#?}", report.findings());
    assert_eq!(draft.put("data/b", "x").validate(&Options::default()).errors(), 2);
}

#[test]
fn findings_are_counted_beyond_those_that_are_kept() {
    let lines: String = (0..5000).map(|index| format!("{MD5_OF_ABC} *data/{index}\n")).collect();
    let draft = Draft::new("1.0").put("manifest-md5.txt", &lines);
    let report = draft.validate(&Options { kept_findings: 20, memory_bytes: 10_000, ..Options::default() });
    assert_eq!((report.errors(), report.warnings(), report.findings().len()), (5001, 5000, 20));
    // Warnings come first here, and still don't crowd out the errors.
    assert!(report.findings().iter().all(|finding| !matches!(finding.problem, Problem::Asterisk)));
}

#[test]
fn an_inventory_lists_each_payload_file_once_with_all_digests() {
    let sha1 = "a9993e364706816aba3e25717850c26c9cd0d89d";
    let draft = Draft::new("0.97")
        .abc("data/B")
        .put("data/e\u{301}", "abc")
        .append("manifest-md5.txt", &format!("{MD5_OF_ABC}  data/é\n{MD5_OF_ABC}  data/gone\n{OTHER_MD5}  data/B\n"))
        .put("manifest-sha1.txt", &format!("{sha1}  data/a.txt\n{sha1}  data/B\n"))
        .put("fetch.txt", "https://a/b 77 data/gone\n")
        .put("data/unlisted", "x")
        .tag_manifest();
    for memory_bytes in [0, 1 << 20] {
        let mut inventory = draft.bag().inventory(&Options { memory_bytes, ..Options::default() }).unwrap();
        let entries: Vec<_> = inventory.by_ref().map(Result::unwrap).collect();
        let short: Vec<_> = entries
            .iter()
            .map(|entry| {
                (
                    str::from_utf8(&entry.path).unwrap(),
                    entry.bytes,
                    entry.is_present,
                    entry.digests.iter().map(|digest| digest.algorithm().name()).collect::<Vec<_>>(),
                )
            })
            .collect();
        assert_eq!(
            short,
            [
                ("data/a.txt", Some(3), true, vec!["md5", "sha1"]),
                // Its two digests in the MD5 manifest contradict each other.
                ("data/B", Some(3), true, vec!["sha1"]),
                ("data/gone", Some(77), false, vec!["md5"]),
                ("data/e\u{301}", Some(3), true, vec!["md5"]),
            ]
        );
        assert_eq!(inventory.report().errors(), 1);
    }
}

#[test]
fn a_tag_file_whose_name_is_not_utf_8_is_listed_under_its_own_name() {
    let draft = Draft::new("1.0").put("m\u{fffd}", "other").tag_manifest();
    fs::write(draft.root().join(OsStr::from_bytes(b"m\xff")), "Latin").unwrap();
    let report = draft.bag().validate(&Options::default()).unwrap();
    let unlisted = report.findings().iter().filter(|finding| finding.problem == Problem::UnlistedTagFile);
    assert_eq!((report.errors(), unlisted.count()), (0, 1), "{:?}", report.findings());
    let files = draft.bag().all_files(&Options::default()).unwrap().map(|entry| entry.unwrap().path);
    let found: Vec<Vec<u8>> = files.filter(|path| path.starts_with(b"m") && !path.ends_with(b".txt")).collect();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.contains(&b"m\xff".to_vec()) && found.contains(&"m\u{fffd}".as_bytes().to_vec()), "{found:?}");
}
