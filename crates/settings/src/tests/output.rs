//! Output of a reader: the complete scenario and the reference page.

use proptest::prelude::*;

use super::{example, read};
use crate::{Document, Reader};

#[test]
fn the_complete_file_has_every_setting() {
    let text = "title = \"\\\"Ü\\\" \\\\ \\u0007\"\n[drives]\nthroughput = '0.12 GB/s'\n[reads]\nsizes = ['1024 B']\ntrace = 't.csv'\n[[faults]]\nat = '90 min'\n";
    let (_, complete) = read(Document::parse("a.toml", text).unwrap()).unwrap();
    let hours = ["\"50 %\""; 24].join(", ");
    let expected = format!(
        r#"title = "\"Ü\" \\ \u0007"
seed = 1

[drives]
throughput = "120 MB/s"
count = 20

[drives.seek]
median = "0.6 s"
sigma = 0.4

[shuttles]
policy = "partitioned"
spacing = "35 cm"
crossing = true

[reads]
sizes = ["1 KiB"]
by_hour = [{hours}]
trace = "t.csv"

[[faults]]
at = "1.5 h"

[faults.repair]
after = "4 h"
"#
    );
    assert_eq!(complete, expected);
}

#[test]
fn the_reference_lists_every_setting_once() {
    let mut reader = Reader::new(Document::parse("a.toml", "[[faults]]\nat = '1 h'\n[[faults]]\nat = '2 h'\n").unwrap());
    let _ = example(&mut reader);
    let page = reader.reference("# Example\n");
    let sections = page.split_once("\n## Before").unwrap().1.split_once("\n## Units").unwrap().0;
    let expected = r#" the first section

| setting | unit | default | values | meaning |
| --- | --- | --- | --- | --- |
| `title` | text | `"A small library"` |  | Title of reports. |
| `seed` | whole number | `1` | 0 to 18446744073709551615 | Seed of all random draws. |

## `[drives]`

The read drives.

| setting | unit | default | values | meaning |
| --- | --- | --- | --- | --- |
| `throughput` | B/s, kB/s, MB/s, GB/s, TB/s | `"60 MB/s"` | 1 MB/s to 1 GB/s | Throughput of a drive. |
| `count` | whole number | `20` | 2 to 20 | Drives \| of both ends. |

## `[drives.seek]`

Seek time between tracks.

| setting | unit | default | values | meaning |
| --- | --- | --- | --- | --- |
| `median` | s, min, h, d, ms, us | `"0.6 s"` | at most 2 s | Median seek time. |
| `sigma` | number | `0.4` | at least 0 and below 2 | Deviation of its logarithm. |

## `[shuttles]`

The shuttles.

| setting | unit | default | values | meaning |
| --- | --- | --- | --- | --- |
| `policy` | word | `"partitioned"` | "shortest-paths" or "partitioned" | Policy of the controller. |
| `spacing` | m, mm, cm, km, um | `"35 cm"` | 1 mm to 10 m | Least distance of two shuttles. |
| `crossing` | true or false | `true` |  | Whether shuttles leave their lane. |

## `[reads]`

Reads.

| setting | unit | default | values | meaning |
| --- | --- | --- | --- | --- |
| `sizes` | list of B, kB, MB, GB, TB, PB, EB, KiB, MiB, GiB, TiB, PiB, EiB | `["4 MiB", "100 MB"]` | 1 to 4 values, each at least 1 B | Equally likely sizes. |
"#;
    assert!(sections.starts_with(expected), "{sections}");
    assert_eq!(sections.matches("| `at` |").count(), 1);
    assert!(sections.contains(
        "| `at` | s, min, h, d, ms, us | must be given |  | Instant, from the start. |\n| `shuttle` | whole number | none | 0 to 39 |"
    ));

    let mut without = Reader::new(Document::empty("a.toml"));
    let _ = example(&mut without);
    assert_eq!(without.reference("# Example\n"), page, "the page depends on the declared settings only, not on the file");
}

#[test]
fn an_empty_file_has_all_defaults() {
    let (defaults, complete) = read(Document::empty("defaults")).unwrap();
    assert_eq!((defaults.drive_count, defaults.faults.len()), (20, 0));
    assert_eq!(read(Document::parse("b.toml", &complete).unwrap()).unwrap(), (defaults, complete));
}

proptest! {
    #[test]
    fn the_complete_file_reads_back_as_the_same(
        title in ".{0,20}",
        seed: u64,
        throughput in 1e6..1e9,
        median in 0..2_000_000_u64,
        sigma in 0.0..2.0,
        sizes in proptest::collection::vec(1..i64::MAX, 1..=4),
        faults in proptest::collection::vec(0..1_u64 << 50, 0..3),
    ) {
        use std::fmt::Write as _;
        let sizes: Vec<_> = sizes.iter().map(|size| format!("'{size} B'")).collect();
        let title: String = title.chars().filter(|c| !c.is_control() && *c != '\'').collect();
        let mut text = format!(
            "title = '{title}'\nseed = {seed}\nreads.sizes = [{}]\n[drives]\nthroughput = '{throughput} B/s'\nseek.median = '{median} us'\nseek.sigma = {sigma:?}\n",
            sizes.join(", ")
        );
        for at in faults {
            write!(text, "[[faults]]\nat = '{at} us'\n").unwrap();
        }
        let first = read(Document::parse("a.toml", &text).unwrap()).unwrap();
        prop_assert_eq!(first.0.throughput, throughput);
        let second = read(Document::parse("b.toml", &first.1).unwrap()).unwrap();
        prop_assert_eq!(first, second);
    }
}
