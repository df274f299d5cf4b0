//! Tests of scenarios with bases and of settings from the command line.

use std::collections::BTreeMap;
use std::io;

use fulgurite_domain::Micros;

use super::{Example, Policy, read};
use crate::{Document, Override, SettingErrors};

fn load(files: &[(&str, &str)], settings: &[&str]) -> Result<Example, SettingErrors> {
    let files: BTreeMap<_, _> = files.iter().map(|(path, text)| (*path, (*text).to_owned())).collect();
    let reader = |path: &str| files.get(path).cloned().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such file"));
    let mut document = Document::load("s/a.toml", &reader)?;
    for setting in settings {
        document.apply(&Override::parse("--set", setting)?);
    }
    read(document).map(|(example, _)| example)
}

fn fails(files: &[(&str, &str)]) -> String {
    load(files, &[]).unwrap_err().to_string()
}

#[test]
fn the_nearest_layer_wins_key_by_key() {
    let files = [
        ("s/a.toml", "base = 'b.toml'\ntitle = 'A'\n[drives]\ncount = 10\nseek.sigma = 0.5\n[[faults]]\nat = '3 h'\n"),
        (
            "s/b.toml",
            "base = '../c.toml'\ntitle = 'B'\n[drives]\ncount = 12\nthroughput = '30 MB/s'\n[[faults]]\nat = '1 h'\n[[faults]]\nat = '2 h'\n",
        ),
        (
            "s/../c.toml",
            "title = 'C'\nseed = 7\n[drives]\nseek = { median = '1 s', sigma = 0.6 }\n[reads]\nsizes = ['1 B', '2 B']\ntrace = 'c.csv'\n",
        ),
    ];
    let example =
        load(&files, &["drives.throughput=120 MB/s", "shuttles.policy = shortest-paths", "reads.sizes=['3 B']", "faults.0.at=5 h"])
            .unwrap();
    assert_eq!((example.title.as_str(), example.seed, example.drive_count), ("A", 7, 10));
    assert_eq!((example.throughput, example.policy, example.sizes), (120e6, Policy::ShortestPaths, vec![3]));
    assert_eq!((example.seek_median, example.seek_sigma), (Micros::SECOND, 0.5));
    assert_eq!(example.faults.iter().map(|fault| fault.at.seconds()).collect::<Vec<_>>(), [18_000.0]);
    // A path is relative to the folder of the file that contains it.
    assert_eq!(example.trace.unwrap().to_str(), Some("s/../c.csv"));
}

#[test]
fn an_error_names_the_file_that_contains_its_value() {
    let files = [("s/a.toml", "base = 'b.toml'\n[drives]\ncount = 1\n"), ("s/b.toml", "[drives]\ncount = 0\nhue = 1\nthroughput = 5\n")];
    assert_eq!(
        fails(&files),
        "s/a.toml:3:9: `drives.count`: expected a whole number, 2 to 20; found 1\n\
         s/b.toml:3:1: unknown setting `drives.hue`; `drives` has `throughput`, `count`, `seek`\n\
         s/b.toml:4:14: `drives.throughput`: expected bytes per time, 1 MB/s to 1 GB/s; found 5; it needs a unit and quotes, such as \"5 MB/s\""
    );
    let broken = [("s/a.toml", "base = 'b.toml'\n"), ("s/b.toml", "[drives]\n[drives]\n")];
    assert_eq!(fails(&broken), "s/b.toml:2:2: duplicate key `drives`");
}

#[test]
fn cyclic_and_missing_bases_are_rejected() {
    let circle = [("s/a.toml", "\nbase = '../s/b.toml'"), ("s/../s/b.toml", "base = './a.toml'")];
    let path = "s/a.toml -> s/../s/b.toml -> s/../s/./a.toml";
    assert_eq!(fails(&circle), format!("s/../s/b.toml:1:8: `base`: a file cannot be based on itself: {path}"));
    assert_eq!(fails(&[("s/a.toml", "base = 'b.toml'")]), "s/a.toml:1:8: s/b.toml cannot be read: no such file");
    assert_eq!(fails(&[]), "s/a.toml: the file cannot be read: no such file");
    assert_eq!(fails(&[("s/a.toml", "base = 1")]), "s/a.toml:1:8: `base`: expected a quoted path; found 1");
    let chain: Vec<_> = (0..20).map(|index| (format!("s/{index}.toml"), format!("base = '{}.toml'", index + 1))).collect();
    let mut files: Vec<_> = chain.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    files.push(("s/a.toml", "base = '0.toml'"));
    assert_eq!(fails(&files), "s/14.toml:1:8: `base`: expected at most 16 files, each based on the next");
}

#[test]
fn the_last_of_two_arguments_wins() {
    let files = [("s/a.toml", "drives = { count = 4 }")];
    let example = load(&files, &["drives.count=6", "drives={count = 8, seek.sigma = 1}", "title=\"12\""]).unwrap();
    assert_eq!((example.drive_count, example.seek_sigma, example.title.as_str()), (8, 1.0, "12"));
}

#[test]
fn settings_are_read_as_written_in_the_file() {
    let text = "seed = 0xffff_ffff_ffff_ffff\n[reads]\nby_hour = ['0 %', '1 %', '2 %', '3 %', '4 %', '5 %', '6 %', '7 %', '8 %', '9 %', '10 %', '11 %',\n\
                '12 %', '13 %', '14 %', '15 %', '16 %', '17 %', '18 %', '19 %', '20 %', '21 %', '22 %', '23 %']\n\
                [[faults]]\nat = '0 s'\nshuttle = 3\nrepair.after = '1 h'\n[[faults]]\nat = '1 d'\n[faults.repair]\nafter = '2 h'\n";
    let example = load(&[("s/a.toml", text)], &[]).unwrap();
    assert_eq!(example.seed, u64::MAX);
    assert_eq!(example.by_hour[15], 0.15);
    let faults: Vec<_> = example.faults.iter().map(|fault| (fault.shuttle, fault.repaired_after.seconds())).collect();
    assert_eq!(faults, [(Some(3), 3600.0), (None, 7200.0)]);
}
