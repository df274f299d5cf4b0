//! Hostile input yields an error, never a panic. (That it does so quickly shows in the run time of
//! these tests.)

use proptest::prelude::*;

use super::{errors, read};
use crate::{Document, Override, Sweep, read_file};

#[test]
fn deep_nesting_ends_with_an_error() {
    for text in [
        format!("x = {}", "[".repeat(100_000)),
        format!("x = {}1{}", "[".repeat(100_000), "]".repeat(100_000)),
        format!("x = {}", "{a=".repeat(100_000)),
        format!("x{} = 1", ".x".repeat(100_000)),
        format!("[x{}]", ".x".repeat(100_000)),
        format!("{}x", "[".repeat(100_000)),
    ] {
        let found = errors(&text);
        assert!(found.starts_with("a.toml:1:") && found.len() < 300, "{found}");
    }
    assert!(Override::parse("--set", &format!("x{}=1", ".x".repeat(100_000))).is_err());
    assert!(Override::parse("--set", &format!("x={}", "[".repeat(100_000))).is_err());
}

#[test]
fn oversized_files_are_rejected_unread() {
    let found = errors(&"\u{7}garbage = [[[".repeat(800_000));
    let expected = "expected a file of at most 1024 KiB; found a longer one";
    assert_eq!(found, format!("a.toml: {expected}"));
    // The limit splits a character of this file.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.toml");
    std::fs::write(&path, format!("#{}", "é".repeat(1 << 20))).unwrap();
    let path = path.to_str().unwrap();
    let found = Document::load(path, &read_file).map_or_else(|errors| errors.to_string(), |_| "none".to_owned());
    assert_eq!(found, format!("{path}: {expected}"));
    std::fs::write(path, [b'#', 0xff]).unwrap();
    let found = Document::load(path, &read_file).map_or_else(|errors| errors.to_string(), |_| "none".to_owned());
    assert!(found.contains("cannot be read: invalid utf-8"), "{found}");
}

#[test]
fn thousands_of_errors_are_cut_to_one_page() {
    let many: String = (0..60_000).map(|index| format!("x{index} = 1\n")).collect();
    let found = errors(&many);
    assert_eq!(found.lines().count(), 31);
    assert_eq!(found.lines().last(), Some("and 170 more"));

    let long = errors(&format!("{0} = 1\n{0} = 2\n", "x".repeat(500_000)));
    assert!(long.starts_with("a.toml:2:1: duplicate key `xxx") && long.len() < 200, "{long}");
    let long = errors(&format!("{} = 1\n", "x".repeat(1_000_000)));
    assert!(long.starts_with("a.toml:1:1: unknown setting `\"xxx") && long.len() < 300, "{long}");

    let one_line = format!("reads.sizes = [{}]", "1,".repeat(500_000));
    assert_eq!(
        errors(&one_line),
        "a.toml:1:15: `reads.sizes`: expected a list of 1 to 4, each a number of bytes, at least 1 B; found a list of 500000"
    );
    let tables = "[[faults]]\n".repeat(90_000);
    assert_eq!(errors(&tables).lines().count(), 31);
}

#[test]
fn huge_numbers_are_rejected() {
    let digits = "9".repeat(500_000);
    for text in [
        format!("seed = {digits}"),
        format!("drives.count = {digits}"),
        format!("drives.seek.sigma = {digits}.0"),
        "drives.seek.sigma = 1e999999999".to_owned(),
        format!("drives.seek.median = '{digits} s'"),
        format!("drives.seek.median = '1e{digits} s'"),
        format!("drives.throughput = '{digits} B/s'"),
    ] {
        let found = errors(&text);
        assert!(found.contains("expected a ") || found.contains("expected bytes"), "{found}");
        assert!(found.len() < 300, "{found}");
    }
}

const PIECES: [&str; 30] = [
    "[drives]",
    "[[drives]]",
    "[faults]",
    "[[faults]]",
    "[drives.seek]",
    "drives",
    "drives.seek",
    "count",
    "faults",
    "at",
    "x",
    "=",
    "=",
    "=",
    "1",
    "'1 s'",
    "[",
    "]",
    "{",
    "}",
    ",",
    ".",
    "\n",
    "\n",
    "\n",
    "\r\n",
    "\"",
    "é",
    "#",
    " ",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_mixture_of_toml_panics(pieces in proptest::collection::vec(0..PIECES.len(), 0..40)) {
        let text: String = pieces.into_iter().map(|piece| PIECES[piece]).collect();
        prop_assert!(!errors(&text).is_empty());
    }

    #[test]
    fn no_text_panics(text in any::<String>(), argument in any::<String>()) {
        prop_assert!(!errors(&text).is_empty());
        let mut document = Document::empty("a.toml");
        if let Ok(setting) = Override::parse("--set", &argument) {
            document.apply(&setting);
            let _ = read(document);
        }
        let _ = Sweep::parse([argument.as_str(), "x=1"], 5).map(|sweep| sweep.points().count());
    }

    #[test]
    fn no_argument_panics(name in "[a-z.0-9\" ]{0,12}", value in "[0-9.:, a-z\\[\\]{}'\"=/-]{0,16}") {
        let mut document = Document::parse("a.toml", "[[faults]]\nat = '1 h'\n").unwrap();
        let argument = format!("{name}={value}");
        if let Ok(setting) = Override::parse("--set", &argument) {
            document.apply(&setting);
            let _ = read(document);
        }
        let _ = Sweep::parse([argument.as_str()], 5).map(|sweep| sweep.points().count());
    }
}
