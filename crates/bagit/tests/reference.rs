//! The matching by an external sort against a plain one, with tables in memory.

mod draft;

use std::collections::{BTreeMap, BTreeSet};

use draft::{Draft, MD5_OF_ABC};
use fulgurite_bagit::{Options, Problem, Report};
use fulgurite_chance::Xorshift;

const SHA1_OF_ABC: &str = "a9993e364706816aba3e25717850c26c9cd0d89d";
const NAMES: [&str; 9] = ["a", "b", "c d", "e/f", "e/g", "e.x", "h\u{1}", "i%20", "日"];

/// What a report says about each file.
fn summary(report: &Report) -> BTreeSet<(String, &'static str)> {
    let kind = |problem: &Problem| match problem {
        Problem::Missing { .. } => "missing",
        Problem::ToFetch { .. } => "to fetch",
        Problem::Unlisted => "unlisted",
        Problem::NotInEvery { .. } => "not in every manifest",
        Problem::OtherDigest { .. } => "other digest",
        Problem::FetchNotListed { .. } => "fetch.txt alone",
        other => panic!("{other}"),
    };
    report.findings().iter().map(|finding| (finding.place.file.clone(), kind(&finding.problem))).collect()
}

#[test]
fn a_sort_in_any_memory_finds_what_plain_tables_find() {
    let seed = std::env::var("SEED").map_or(1, |seed| seed.parse().unwrap());
    println!("seed {seed}: repeat with SEED={seed}");
    let mut chance = Xorshift::seeded(seed);
    for round in 0..50 {
        let mut draft = Draft::new("1.0").remove("data/a.txt").put("manifest-md5.txt", "").put("manifest-sha1.txt", "");
        let mut files: BTreeMap<String, bool> = BTreeMap::new();
        let mut listed = [BTreeSet::new(), BTreeSet::new()];
        let mut fetched = BTreeSet::new();
        for name in NAMES {
            let path = format!("data/{name}");
            if chance.below(4) > 0 {
                let is_good = chance.below(5) > 0;
                draft = draft.put(&path, if is_good { "abc" } else { "abd" });
                files.insert(path.clone(), is_good);
            }
            for (manifest, (file, digest)) in [("manifest-md5.txt", MD5_OF_ABC), ("manifest-sha1.txt", SHA1_OF_ABC)].iter().enumerate() {
                if chance.below(5) > 0 {
                    draft = draft.append(file, &format!("{digest}  {path}\n"));
                    listed[manifest].insert(path.clone());
                }
            }
            if chance.below(6) == 0 {
                draft = draft.append("fetch.txt", &format!("https://a/b - {path}\n"));
                fetched.insert(path);
            }
        }
        let mut expected = BTreeSet::new();
        for path in NAMES.map(|name| format!("data/{name}")) {
            let in_manifests = listed.iter().filter(|manifest| manifest.contains(&path)).count();
            let (is_present, is_fetched) = (files.contains_key(&path), fetched.contains(&path));
            let mut expect = |is_so: bool, what| expected.extend(is_so.then(|| (path.clone(), what)));
            expect(in_manifests > 0 && !is_present && !is_fetched, "missing");
            expect(is_fetched && !is_present, "to fetch");
            expect(in_manifests == 0 && is_present && !is_fetched, "unlisted");
            expect(in_manifests == 0 && is_fetched, "fetch.txt alone");
            expect(in_manifests == 1, "not in every manifest");
            expect(in_manifests > 0 && files.get(&path) == Some(&false), "other digest");
        }
        for memory_bytes in [0, 1000, 1 << 20] {
            let report = draft.validate(&Options { memory_bytes, threads: 2.try_into().unwrap(), ..Options::default() });
            assert_eq!(summary(&report), expected, "round {round}, {memory_bytes} bytes of memory");
        }
    }
}
