//! Lists of files, as other programs make them.

use crate::support::Sandbox;

/// A node with three files, whose names need escaping in lists.
fn node() -> Sandbox {
    let place = Sandbox::empty();
    for (name, content) in [("a", "one"), ("deep/b c", "two"), ("line\nbreak", "three")] {
        place.write(format!("n/{name}"), content);
    }
    place.good(&["audit", "init"]);
    place.good(&["audit", "node", "add", "n", "n"]);
    place
}

#[test]
fn lists_of_the_usual_tools_need_no_conversion() {
    for (tool, algorithm) in [
        ("sha256sum", None),
        ("sha256sum --tag", None),
        ("sha256sum -b", None),
        ("sha512sum", Some("sha512")),
        ("b2sum", Some("blake2b-512")),
        ("b2sum --tag -l 256", None),
        ("md5sum", None),
    ] {
        let place = node();
        place.shell(&format!("(echo '# {tool}'; cd n && find . -type f -exec {tool} {{}} +) > SUMS"));
        let mut command = vec!["audit", "inventory", "checksums", "SUMS"];
        command.extend(algorithm.iter().flat_map(|name| ["--algorithm", name]));
        let imported = place.good(&command);
        assert!(imported.text().starts_with("Read 3 rows: 3 files and 3 copies are new"), "{tool}: {imported:?}");
        place.good(&["audit", "run"]);
        assert_eq!(place.run(&["audit", "status", "--json"]).json()["states"]["verified"]["bytes"], 11, "{tool}");
        place.good(&["audit", "history", "deep/b c"]);
        place.write("n/a", "One");
        assert_eq!(place.run(&["audit", "run", "--all"]).status, 1, "{tool}");
    }
}

#[test]
fn lines_that_cannot_be_used_are_named_and_end_with_1() {
    let place = node();
    place.shell(
        "cd n && sha256sum a > ../SUMS && echo garbage >> ../SUMS && printf x | sha256sum >> ../SUMS && sha256sum 'deep/b c' >> ../SUMS",
    );
    let imported = place.run(&["audit", "inventory", "checksums", "SUMS"]);
    imported.fails_with(1, "SUMS, line 2: it doesn't begin with a digest");
    imported.fails_with(1, "SUMS, line 3: the digest of standard input belongs to no file");
    assert!(imported.text().starts_with("Read 2 rows"), "{imported:?}");
    place.good(&["audit", "run"]);
    place.run(&["audit", "inventory", "checksums", "absent"]).fails_with(2, "can't open absent");
    place.write("list.csv", "path,sha256\n");
    place.run(&["audit", "inventory", "checksums", "list.csv"]).fails_with(1, "is it a CSV file");
    place.write("empty", "");
    place.run(&["audit", "inventory", "checksums", "empty"]).fails_with(1, "empty contains no line with a checksum");
    place.shell("cd n && sha512sum a > ../SUMS");
    place.run(&["audit", "inventory", "checksums", "SUMS"]).fails_with(1, "say which, with --algorithm");
    // Digests of another file contradict what is known.
    place.shell("sed 's/[0-9]/0/g' SUMS > OTHER; cd n && sha256sum 'deep/b c' | sed 's,deep/b c,a,' > ../OTHER");
    place.run(&["audit", "inventory", "checksums", "OTHER"]).fails_with(1, "a contradicts what is known");
}

#[test]
fn names_outside_the_folder_are_not_imported() {
    let place = node();
    place.shell("cd n && sha256sum a > ../SUMS && sha256sum $PWD/a ../n/a >> ../SUMS && sha256sum $PWD/a > ../ABSOLUTE");
    let hint = "is not relative to the node's folder: make the list inside that folder";
    let imported = place.run(&["audit", "inventory", "checksums", "SUMS"]);
    imported.fails_with(1, "SUMS, line 2: the name \"/");
    imported.fails_with(1, &format!("SUMS, line 3: the name \"../n/a\" {hint}"));
    assert!(imported.text().starts_with("Read 1 row"), "{imported:?}");
    place.good(&["audit", "run"]);
    let absolute = place.run(&["audit", "inventory", "checksums", "ABSOLUTE"]);
    absolute.fails_with(1, hint);
    absolute.fails_with(1, "ABSOLUTE contains no line that can be used");
}

#[test]
fn a_list_whose_names_match_no_copy_is_noticed() {
    let place = node();
    place.shell("cp -r n two");
    place.good(&["audit", "node", "add", "two", "two", "--medium", "cold"]);
    place.shell("sha256sum n/a 'n/deep/b c' > SUMS");
    let imported = place.good(&["audit", "inventory", "checksums", "SUMS", "--node", "n"]);
    assert!(imported.text().contains("2 copies are new"), "{imported:?}");
    place.shell("cd n && sha256sum a > ../RIGHT");
    place.good(&["audit", "inventory", "checksums", "RIGHT", "--node", "two"]);
    let hint = |node: &str| format!("every copy at {node} is missing, and none was ever found: do the list's names match the node's?");
    let says = |command: &[&str], node: &str| place.run(command).text().contains(&hint(node));
    assert!(!says(&["audit", "status"], "n"));
    assert!(says(&["audit", "run"], "n"));
    assert!(says(&["audit", "status"], "n") && says(&["audit", "repair"], "n"));
    assert!(!says(&["audit", "repair", "--node", "two"], "n"));
    // What was found once and is gone now is another matter.
    place.shell("mv n/a n/b && mv two/a two/b");
    place.run(&["audit", "run", "--all"]);
    assert!(says(&["audit", "status"], "n") && !says(&["audit", "status"], "two"));
    // The right list, beside the wrong one.
    place.shell("mv n/b n/a && mv two/b two/a");
    place.good(&["audit", "inventory", "checksums", "RIGHT", "--node", "n"]);
    place.run(&["audit", "run", "--all"]).fails_with(1, "");
    assert!(!says(&["audit", "status"], "n"));
}

#[test]
fn digests_that_are_left_out_are_named() {
    let place = node();
    let note = |list: &str, options: &[&str]| {
        place.write("list.csv", list);
        let imported = place.good(&[&["audit", "inventory", "csv", "list.csv"], options].concat());
        imported.err
    };
    assert!(note("path,size\na,3\n", &[]).contains("no column contains digests"));
    let unknown = note("path,sha3-256,crc32c\na,1,2\n", &[]);
    assert!(unknown.contains("no column contains digests of a known algorithm") && unknown.contains("sha3-256, crc32c"), "{unknown}");
    let digest = &place.shell("sha256sum < n/a").text()[..64];
    let other = note(&format!("path,sha256,etag\na,{digest},1\n"), &[]);
    assert!(other.contains("ignored: etag") && other.contains("--digest-column"), "{other}");
    assert_eq!(other.lines().count(), 1, "{other}");
    assert_eq!(note(&format!("path,checksum\na,{digest}\n"), &["--digest-column", "checksum=sha256"]), "");
}
