//! Bags against profiles: each rule, kept and broken.

mod draft;

use draft::{Draft, MD5_OF_ABC};
use fulgurite_bagit::profile::Violation;
use fulgurite_bagit::{Problem, Profile, Severity};

const URI: &str = "https://example.org/profile.json";

fn profile(rest: &str) -> Profile {
    let json = format!(
        r#"{{"BagIt-Profile-Info": {{"BagIt-Profile-Identifier": "{URI}", "Source-Organization": "x", "Version": "1", "External-Description": "x", "BagIt-Profile-Version": "1.4.0"}} {rest}}}"#
    );
    Profile::parse(json.as_bytes()).unwrap()
}

fn draft() -> Draft {
    Draft::new("1.0")
        .put("bag-info.txt", &format!("BagIt-Profile-Identifier: {URI}\nSource-Organization: x\nContact-Name: a\nContact-Name: b\n"))
}

fn violations(rest: &str, draft: &Draft) -> Vec<(Severity, Violation)> {
    let report = profile(rest).check(&draft.bag(), 100);
    let violations = report.findings().iter().map(|finding| match &finding.problem {
        Problem::Profile(violation) => (finding.severity, violation.clone()),
        other => panic!("{other}"),
    });
    violations.collect()
}

#[test]
fn each_rule_of_a_profile_accepts_and_rejects() {
    use Violation as V;
    let label = || "Contact-Name".to_owned();
    let kept = [
        "",
        r#", "Bag-Info": {"Source-Organization": {"required": true, "values": ["x", "y"]}, "Contact-Name": {"repeatable": true}, "Other": {}}"#,
        r#", "Bag-Info": {"Source-Organization": {"values": []}}"#,
        r#", "Manifests-Required": ["md5"], "Manifests-Allowed": ["md5", "sha512"]"#,
        r#", "Tag-Manifests-Required": [], "Accept-BagIt-Version": ["0.97", "1.0"]"#,
        r#", "Tag-Files-Required": ["bag-info.txt"], "Tag-Files-Allowed": ["bag*"]"#,
        r#", "Payload-Files-Required": ["data/a.txt", "data/"], "Payload-Files-Allowed": ["data/*"]"#,
        r#", "Allow-Fetch.txt": false, "Serialization": "optional", "Accept-Serialization": ["application/zip"]"#,
    ];
    for rest in kept {
        assert_eq!(violations(rest, &draft()), [], "{rest}");
    }
    let broken = [
        (r#", "Bag-Info": {"Bag-Size": {"required": true}}"#, V::FieldMissing { label: "Bag-Size".into() }),
        (r#", "Bag-Info": {"Contact-Name": {"repeatable": false}}"#, V::FieldRepeated { label: label(), times: 2 }),
        (r#", "Bag-Info": {"Contact-Name": {"values": ["a"]}}"#, V::ValueNotAllowed { label: label(), value: "b".into() }),
        (r#", "Manifests-Required": ["sha512"]"#, V::ManifestMissing { name: "manifest-sha512.txt".into() }),
        (r#", "Manifests-Allowed": ["sha512"]"#, V::ManifestNotAllowed),
        (r#", "Tag-Manifests-Required": ["md5"]"#, V::ManifestMissing { name: "tagmanifest-md5.txt".into() }),
        (r#", "Accept-BagIt-Version": ["0.97"]"#, V::VersionNotAccepted { version: "1.0" }),
        (r#", "Tag-Files-Required": ["notes.txt"]"#, V::FileMissing { path: "notes.txt".into() }),
        (r#", "Payload-Files-Required": ["data/b/"]"#, V::FileMissing { path: "data/b/".into() }),
        (r#", "Payload-Files-Allowed": ["data/*.xml"]"#, V::FileNotAllowed { list: "Payload-Files-Allowed" }),
        (r#", "Fetch.txt-Required": true"#, V::FetchMissing),
        (r#", "Data-Empty": true"#, V::PayloadNotEmpty),
    ];
    for (rest, violation) in broken {
        assert_eq!(violations(rest, &draft()), [(Severity::Error, violation)], "{rest}");
    }
}

#[test]
fn other_files_and_tag_manifests_are_checked_too() {
    let draft = draft().put("meta/a.xml", "x").put("fetch.txt", "").tag_manifest();
    assert_eq!(
        violations(r#", "Tag-Files-Allowed": ["meta/*.txt"], "Allow-Fetch.txt": false, "Tag-Manifests-Allowed": []"#, &draft),
        [
            (Severity::Error, Violation::FetchNotAllowed),
            (Severity::Error, Violation::FileNotAllowed { list: "Tag-Files-Allowed" }),
            (Severity::Error, Violation::ManifestNotAllowed)
        ]
    );
    assert_eq!(
        violations(r#", "Tag-Files-Allowed": ["meta/*"], "Fetch.txt-Required": true, "Tag-Manifests-Allowed": ["md5"]"#, &draft),
        []
    );
}

#[test]
fn a_bag_must_name_its_profile() {
    let unnamed = Draft::new("1.0");
    assert_eq!(violations("", &unnamed), [(Severity::Error, Violation::NotNamed { identifier: URI.into() })]);
    assert_eq!(violations("", &unnamed.remove("bag-info.txt")), [(Severity::Error, Violation::NoInfo)]);
    // A bag may follow several.
    let several = draft().append("bag-info.txt", "bagit-profile-identifier: https://example.org/other.json\n");
    assert_eq!(violations("", &several), []);
}

#[test]
fn what_is_not_checked_is_reported() {
    assert_eq!(violations(r#", "Serialization": "required""#, &draft()), [(Severity::Warning, Violation::SerializationNotChecked)]);
    assert_eq!(violations(r#", "Colour": "red""#, &draft()), [(Severity::Warning, Violation::UnknownProperty { name: "Colour".into() })]);
    let draft = draft().append("bag-info.txt", "bag-size: 3\n");
    let found = Violation::OtherCase { label: "Bag-Size".into(), found: "bag-size".into() };
    assert_eq!(violations(r#", "Bag-Info": {"Bag-Size": {"required": true}}"#, &draft), [(Severity::Warning, found)]);
}

#[test]
fn an_empty_payload_may_have_one_empty_file() {
    let draft = draft().put("data/a.txt", "");
    assert_eq!(violations(r#", "Data-Empty": true"#, &draft), []);
    let draft = draft.put("data/b", "").append("manifest-md5.txt", &format!("{MD5_OF_ABC}  data/b\n"));
    assert_eq!(violations(r#", "Data-Empty": true"#, &draft), [(Severity::Error, Violation::PayloadNotEmpty)]);
}
