//! The exact text of every error.

use super::{errors, example, read};
use crate::setting_type::{flag, rate};
use crate::{Document, Override, Reader};

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(errors(text), expected, "{text}");
}

#[test]
fn an_invalid_value_is_reported_with_its_position_and_what_is_expected() {
    let drives = |line: &str| errors(&format!("[drives]\n{line}\n"));
    let shuttles = |line: &str| errors(&format!("[shuttles]\n{line}\n"));
    let reads = |line: &str| errors(&format!("[reads]\n{line}\n"));
    let cases = [
        (
            drives("throughput = 60"),
            "a.toml:2:14: `drives.throughput`: expected bytes per time, 1 MB/s to 1 GB/s; found 60; it needs a unit and quotes, such as \"60 MB/s\"",
        ),
        (
            drives("throughput = '60'"),
            "a.toml:2:14: `drives.throughput`: expected bytes per time, 1 MB/s to 1 GB/s; found \"60\"; the unit is missing",
        ),
        (drives("throughput = '2 GB/s'"), "a.toml:2:14: `drives.throughput`: expected bytes per time, 1 MB/s to 1 GB/s; found \"2 GB/s\""),
        (
            drives("throughput = 'fast'"),
            "a.toml:2:14: `drives.throughput`: expected bytes per time, 1 MB/s to 1 GB/s; found \"fast\"; it does not start with a number",
        ),
        (
            drives("throughput = '60 Mb/s'"),
            "a.toml:2:14: `drives.throughput`: expected bytes per time, 1 MB/s to 1 GB/s; found \"60 Mb/s\"; sizes are in bytes (`B`), not bits",
        ),
        (drives("throughput = true"), "a.toml:2:14: `drives.throughput`: expected bytes per time, 1 MB/s to 1 GB/s; found true"),
        (drives("count = 21"), "a.toml:2:9: `drives.count`: expected a whole number, 2 to 20; found 21"),
        (drives("count = -1"), "a.toml:2:9: `drives.count`: expected a whole number, 2 to 20; found -1"),
        (drives("count = 2.5"), "a.toml:2:9: `drives.count`: expected a whole number, 2 to 20; found 2.5"),
        (drives("count = '20'"), "a.toml:2:9: `drives.count`: expected a whole number, 2 to 20; found \"20\"; numbers take no quotes"),
        (
            drives("count = 99999999999999999999999999999999999999999"),
            "a.toml:2:9: `drives.count`: expected a whole number, 2 to 20; found 99999999999999999999999999999999999999999",
        ),
        (drives("count = 3"), "a.toml:2:9: `drives.count`: expected an even number; found 3"),
        (
            drives("seek.median = '5 m'"),
            "a.toml:2:15: `drives.seek.median`: expected a length of time, at most 2 s; found \"5 m\"; minutes are `min`",
        ),
        (
            drives("seek.median = '-1 s'"),
            "a.toml:2:15: `drives.seek.median`: expected a length of time, at most 2 s; found \"-1 s\"; it is negative",
        ),
        (
            drives("seek.median = '1e-7 s'"),
            "a.toml:2:15: `drives.seek.median`: expected a length of time, at most 2 s; found \"1e-7 s\"; it is not a whole number of microseconds",
        ),
        (
            drives("seek.median = '1e300 s'"),
            "a.toml:2:15: `drives.seek.median`: expected a length of time, at most 2 s; found \"1e300 s\"; it is too large",
        ),
        (
            drives("seek.median = '1 kg'"),
            "a.toml:2:15: `drives.seek.median`: expected a length of time, at most 2 s; found \"1 kg\"; units are `s`, `min`, `h`, `d`, `ms`, `us`, `week`, `year`",
        ),
        (
            drives("seek.median = '1,5 s'"),
            "a.toml:2:15: `drives.seek.median`: expected a length of time, at most 2 s; found \"1,5 s\"; expected a unit after the number 1; found `,5 s`",
        ),
        (drives("seek.sigma = 2"), "a.toml:2:14: `drives.seek.sigma`: expected a number, at least 0 and below 2; found 2"),
        (drives("seek.sigma = nan"), "a.toml:2:14: `drives.seek.sigma`: expected a number, at least 0 and below 2; found nan"),
        (
            drives("seek.sigma = '0.4 s'"),
            "a.toml:2:14: `drives.seek.sigma`: expected a number, at least 0 and below 2; found \"0.4 s\"; this setting has no unit",
        ),
        (
            drives("seek.sigma = 1979-05-27"),
            "a.toml:2:14: `drives.seek.sigma`: expected a number, at least 0 and below 2; found the date 1979-05-27",
        ),
        (drives("seek = 1"), "a.toml:2:8: `drives.seek`: expected a table that starts with `[drives.seek]`; found 1"),
        (
            shuttles("policy = 'partitionned'"),
            "a.toml:2:10: `shuttles.policy`: expected \"shortest-paths\" or \"partitioned\"; found \"partitionned\"; did you mean \"partitioned\"?",
        ),
        (shuttles("policy = 'best'"), "a.toml:2:10: `shuttles.policy`: expected \"shortest-paths\" or \"partitioned\"; found \"best\""),
        (shuttles("policy = 1"), "a.toml:2:10: `shuttles.policy`: expected \"shortest-paths\" or \"partitioned\"; found 1"),
        (shuttles("crossing = 1"), "a.toml:2:12: `shuttles.crossing`: expected true or false; found 1"),
        (shuttles("spacing = '11 m'"), "a.toml:2:11: `shuttles.spacing`: expected a length, 1 mm to 10 m; found \"11 m\""),
        (
            reads("sizes = '4 MiB'"),
            "a.toml:2:9: `reads.sizes`: expected a list of 1 to 4, each a number of bytes, at least 1 B; found \"4 MiB\"",
        ),
        (
            reads("sizes = []"),
            "a.toml:2:9: `reads.sizes`: expected a list of 1 to 4, each a number of bytes, at least 1 B; found a list of 0",
        ),
        (
            reads("sizes = ['1 MB',\n  '10 KB']"),
            "a.toml:3:3: `reads.sizes[1]`: expected a number of bytes, at least 1 B; found \"10 KB\"; `kB` are 1000 bytes, `KiB` are 1024",
        ),
        (
            reads("by_hour = ['1 %']"),
            "a.toml:2:11: `reads.by_hour`: expected a list of 24, one for each hour, each a share, at most 100 %; found a list of 1",
        ),
        (reads("trace = ''"), "a.toml:2:9: `reads.trace`: expected a quoted file path; found \"\""),
        (errors("title = 5"), "a.toml:1:9: `title`: expected a quoted string; found 5"),
        (errors("drives = 5"), "a.toml:1:10: `drives`: expected a table that starts with `[drives]`; found 5"),
        (errors("[[drives]]"), "a.toml:1:1: `drives`: expected a table that starts with `[drives]`; found a list of 1"),
        (errors("[faults]\nat = '3 h'"), "a.toml:1:1: `faults`: expected tables that each start with `[[faults]]`; found a table"),
        (errors("faults = [1]"), "a.toml:1:10: `faults`: expected tables that each start with `[[faults]]`; found a list of 1"),
        (errors("\n[[faults]]\nshuttle = 3"), "a.toml:2:1: `faults.0.at` is missing: expected a length of time, such as \"1 s\""),
        (
            errors("[[faults]]\nat = '1 h'\n[[faults]]\nat = 1"),
            "a.toml:4:6: `faults.1.at`: expected a length of time, such as \"1 s\"; found 1; it needs a unit and quotes, such as \"1 s\"",
        ),
        (errors(&format!("seed = 1\ntitle = {:?}\nseed = 2", "x")), "a.toml:3:1: duplicate key `seed`"),
        (errors(&format!("title = [{:?}]", "x".repeat(100))), "a.toml:1:9: `title`: expected a quoted string; found a list of 1"),
        (
            drives(&format!("throughput = '{}'", "x".repeat(100))),
            &format!(
                "a.toml:2:14: `drives.throughput`: expected bytes per time, 1 MB/s to 1 GB/s; found \"{}...\"; it does not start with a number",
                "x".repeat(60)
            ),
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
}

#[test]
fn an_unknown_name_comes_with_a_suggestion_or_all_valid_names() {
    check("[drives]\ntroughput = '60 MB/s'", "a.toml:2:1: unknown setting `drives.troughput`; did you mean `throughput`?");
    check("[drivse]\nthroughput = '60 MB/s'", "a.toml:1:2: unknown section `drivse`; did you mean `drives`?");
    check("[drives]\nspacing = '1 m'", "a.toml:2:1: unknown setting `drives.spacing`; did you mean `shuttles.spacing`?");
    check("[drives]\ntitle = 'x'", "a.toml:2:1: unknown setting `drives.title`; did you mean `title`?");
    check("[drives]\ncolour = 1", "a.toml:2:1: unknown setting `drives.colour`; `drives` has `throughput`, `count`, `seek`");
    check("x = 1", "a.toml:1:1: unknown setting `x`; valid names are `title`, `seed`, `drives`, `shuttles`, `reads`, `faults`");
    check(
        "[[failures]]",
        "a.toml:1:3: unknown section `failures`; valid names are `title`, `seed`, `drives`, `shuttles`, `reads`, `faults`",
    );
    check("[[faults]]\nat = '1 h'\nshutle = 3", "a.toml:3:1: unknown setting `faults.0.shutle`; did you mean `shuttle`?");
    check(
        "[[faults]]\nat = '1 h'\n[faults.repairs]\nafter = '1 h'",
        "a.toml:3:9: unknown section `faults.0.repairs`; did you mean `repair`?",
    );
    check("drives.seek.medain = '1 s'", "a.toml:1:13: unknown setting `drives.seek.medain`; did you mean `median`?");
    check("base = 'b.toml'", "a.toml:1:8: b.toml cannot be read: settings that are read from a text can't have a base");
}

#[test]
fn lines_and_columns_are_right_in_every_toml_notation() {
    let wrong = "expected a whole number, 2 to 20; found 1";
    let cases = [
        ("# é\r\n\r\n[drives]\r\ncount = 1\r\n", "4:9"),
        ("[drives]\n\tcount\t=\t1\n", "2:10"),
        ("drives.count = 1", "1:16"),
        ("drives = { count = 1 }", "1:20"),
        ("title = \"überall\"\ndrives = { seek = { sigma = 0.1 }, count = 1 } # ü", "2:44"),
        ("\"drives\".'count' = 1", "1:20"),
        ("[ \"drives\" ]\n\"co\\u0075nt\" = 1", "2:16"),
        ("title = '''\nthree\nlines'''\n[drives]\ncount = 1", "5:9"),
        ("title = \"über\" \n[drives]\ncount = 1", "3:9"),
        ("[drives.seek]\n[drives]\ncount = 1", "3:9"),
        ("\u{feff}drives.count = 1", "1:16"),
        ("drives = { seek = { sigma = 0.1 }, \n count = 1 }", "2:10"),
    ];
    for (text, place) in cases {
        check(text, &format!("a.toml:{place}: `drives.count`: {wrong}"));
    }
    check("title = \"日本\"; x", "a.toml:1:13: this is not TOML: unexpected key or value, expected newline, `#`");
    check("[drives]\n\"日 本\" = 1", "a.toml:2:1: unknown setting `drives.\"日 本\"`; `drives` has `throughput`, `count`, `seek`");
}

#[test]
fn all_errors_are_reported_together_in_file_order() {
    let text = "colour = 1\n[shuttles]\npolicy = 'x'\n[drives]\nhue = 1\ncount = 1\n[[faults]]\n";
    let expected = "\
a.toml:1:1: unknown setting `colour`; valid names are `title`, `seed`, `drives`, `shuttles`, `reads`, `faults`
a.toml:3:10: `shuttles.policy`: expected \"shortest-paths\" or \"partitioned\"; found \"x\"
a.toml:5:1: unknown setting `drives.hue`; `drives` has `throughput`, `count`, `seek`
a.toml:6:9: `drives.count`: expected a whole number, 2 to 20; found 1
a.toml:7:1: `faults.0.at` is missing: expected a length of time, such as \"1 s\"";
    check(text, expected);
}

#[test]
fn syntax_errors_are_reported_with_line_and_column() {
    let cases = [
        ("[drives]\nthroughput = 60 MB/s\n", "a.toml:2:14: expected a value; found 60 MB/s without quotes; write \"60 MB/s\""),
        (
            "[shuttles]\npolicy = partitioned # best\n",
            "a.toml:2:10: expected a value; found partitioned without quotes; write \"partitioned\"",
        ),
        ("a b = true\n", "a.toml:1:3: this is not TOML: key with no value, expected `=`"),
        ("a = true x\n", "a.toml:1:5: this is not TOML: string values must be quoted, expected literal string"),
        ("[drives\n", "a.toml:1:8: this is not TOML: unclosed table, expected `]`"),
        ("[drives]\ncount =\n", "a.toml:2:8: expected a value after the `=`; found nothing"),
        ("title = \"x", "a.toml:1:11: this is not TOML: invalid basic string, expected `\"`"),
        ("[drives]\n[drives]\n", "a.toml:2:2: duplicate key `drives`"),
        (
            "title = \"\\q\"",
            "a.toml:1:11: this is not TOML: missing escaped value, expected `b`, `e`, `f`, `n`, `r`, `\\`, `\"`, `x`, `u`, `U`",
        ),
    ];
    for (text, expected) in cases {
        check(text, expected);
    }
}

#[test]
fn a_section_that_is_read_in_parts_is_rejected_once() {
    check("reads = 5", "a.toml:1:9: `reads`: expected a table that starts with `[reads]`; found 5");
}

#[test]
fn conflicting_settings_are_reported_at_their_position() {
    let reject = |text: &str, name: &str| {
        let mut reader = Reader::new(Document::parse("a.toml", text).unwrap());
        let _ = example(&mut reader);
        reader.reject(name, "something else");
        reader.finish().unwrap_err().to_string()
    };
    let end = "expected something else; found";
    assert_eq!(reject("\n[drives]\ncount = 4", "drives.count"), format!("a.toml:3:9: `drives.count`: {end} 4"));
    assert_eq!(
        reject("\n[drives]\ncount = 4", "drives.throughput"),
        format!("a.toml:2:1: `drives.throughput`: {end} \"60 MB/s\", the default")
    );
    assert_eq!(reject("\n[drives]\ncount = 4", "drives.seek.sigma"), format!("a.toml:2:1: `drives.seek.sigma`: {end} 0.4, the default"));
    assert_eq!(reject("seed = 4", "drives.count"), format!("a.toml: `drives.count`: {end} 20, the default"));
    let faults = "[[faults]]\nat = '1 h'\n[[faults]]\nat = '2 h'\nrepair.after = '3 h'\n[[faults]]\nat = '4 h'";
    assert_eq!(reject(faults, "faults.1.at"), format!("a.toml:4:6: `faults.1.at`: {end} \"2 h\""));
    assert_eq!(reject(faults, "faults.1.repair.after"), format!("a.toml:5:16: `faults.1.repair.after`: {end} \"3 h\""));
    assert_eq!(reject(faults, "faults.2.repair.after"), format!("a.toml:6:1: `faults.2.repair.after`: {end} \"4 h\", the default"));
    assert_eq!(reject(faults, "faults.2.shuttle"), format!("a.toml:6:1: `faults.2.shuttle`: {end} nothing"));
    // A setting that already has an error is not reported again.
    let wrong = "a.toml:1:16: `drives.count`: expected a whole number, 2 to 20; found 0";
    assert_eq!(reject("drives.count = 0", "drives.count"), wrong);
}

#[test]
fn errors_in_an_argument_name_the_argument() {
    let with = |argument: &str| {
        let mut document = Document::parse("a.toml", "[[faults]]\nat = '1 h'\n").unwrap();
        Override::parse("--set", argument).map(|setting| document.apply(&setting)).and_then(|()| read(document)).unwrap_err().to_string()
    };
    let cases = [
        ("drives.count=1", "--set drives.count=1: `drives.count`: expected a whole number, 2 to 20; found 1"),
        ("drives.cuont=2", "--set drives.cuont=2: unknown setting `drives.cuont`; did you mean `count`?"),
        ("drives.count.x=2", "--set drives.count.x=2: `drives.count`: expected a whole number, 2 to 20; found a table"),
        ("drives=2", "--set drives=2: `drives`: expected a table that starts with `[drives]`; found 2"),
        (
            "faults.0.at=soon",
            "--set faults.0.at=soon: `faults.0.at`: expected a length of time, such as \"1 s\"; found \"soon\"; it does not start with a number",
        ),
        ("faults.1.at=1 h", "--set faults.1.at=1 h: `faults`: expected tables that each start with `[[faults]]`; found a table"),
        (
            "reads.sizes=[\"1 MB\", 5]",
            "--set reads.sizes=[\"1 MB\", 5]: `reads.sizes[1]`: expected a number of bytes, at least 1 B; found 5; it needs a unit and quotes, such as \"5 MB\"",
        ),
        ("reads.sizes=[1", "--set reads.sizes=[1: expected a TOML value after the `=`; unclosed array, expected `]`"),
        ("drives.count", "--set drives.count: expected `name=value`, such as `drives.throughput=60 MB/s`"),
        ("drives count=1", "--set drives count=1: expected the name of a setting before the `=`, such as `drives.throughput`"),
        ("=1", "--set =1: expected the name of a setting before the `=`, such as `drives.throughput`"),
        ("[drives]\ncount=1", "--set [drives]\ncount=1: expected the name of a setting before the `=`, such as `drives.throughput`"),
    ];
    for (argument, expected) in cases {
        assert_eq!(with(argument), expected);
    }
}

#[test]
#[should_panic(expected = "the default 60 of `throughput` is not bytes per time, at least 1 MB/s")]
fn an_unparsable_default_is_a_programming_error() {
    Reader::new(Document::empty("a.toml")).top().setting("throughput", rate("1 MB/s"..), "60", "");
}

#[test]
#[should_panic(expected = "the default \"0 B/s\" of `throughput` is not bytes per time, at least 1 MB/s")]
fn a_default_out_of_range_is_a_programming_error() {
    Reader::new(Document::empty("a.toml")).top().setting_or("throughput", rate("1 MB/s"..), 0.0, "");
}

#[test]
#[should_panic(expected = "the setting `crossing` was declared twice")]
fn declaring_a_setting_twice_is_a_programming_error() {
    let mut reader = Reader::new(Document::empty("a.toml"));
    reader.top().setting("crossing", flag(), "true", "");
    reader.top().setting("crossing", flag(), "true", "");
}
