//! Tests of `--vary` arguments.

use super::read;
use crate::{Axis, Document, Sweep};

fn values(argument: &str) -> Vec<String> {
    Axis::parse(argument).unwrap().values().iter().map(|value| value.text().to_owned()).collect()
}

fn fails(argument: &str) -> String {
    Axis::parse(argument).unwrap_err().to_string()
}

#[test]
fn lists_and_ranges_are_read_exactly() {
    assert_eq!(values("drives.throughput=30 MB/s, 60 MB/s,120 MB/s"), ["30 MB/s", "60 MB/s", "120 MB/s"]);
    assert_eq!(values("shuttles.count=8..40:8"), ["8", "16", "24", "32", "40"]);
    assert_eq!(values("x=8,10,20..31:5"), ["8", "10", "20", "25", "30"]);
    assert_eq!(values("x=0.1..0.5:0.1"), ["0.1", "0.2", "0.3", "0.4", "0.5"]);
    assert_eq!(values("x=-1..1:0.5"), ["-1", "-0.5", "0", "0.5", "1"]);
    assert_eq!(values("x=30..90:30 MB/s"), ["30 MB/s", "60 MB/s", "90 MB/s"]);
    assert_eq!(values("x=0.5 s .. 1.5 s : 0.5 s"), ["0.5 s", "1 s", "1.5 s"]);
    assert_eq!(values("x=1e3..3e3:1e3"), ["1000", "2000", "3000"]);
    assert_eq!(values("x=partitioned,shortest-paths"), ["partitioned", "shortest-paths"]);
    assert_eq!(values("x=[1, 2],[3],\"a,b\""), ["[1, 2]", "[3]", "\"a,b\""]);
    assert_eq!(values("reads.trace=../a.csv,b..c.csv"), ["../a.csv", "b..c.csv"]);
}

#[test]
fn combinations_come_in_order_and_are_read_like_other_settings() {
    let sweep = Sweep::parse(["drives.throughput=30 MB/s,60 MB/s", "drives.count=4..8:2"], 6).unwrap();
    assert_eq!((sweep.point_count(), sweep.axes()[1].name()), (6, "drives.count"));
    let scenario = |point: Vec<&crate::Override>| {
        let mut document = Document::empty("defaults");
        point.into_iter().for_each(|setting| document.apply(setting));
        let (example, _) = read(document).unwrap();
        (example.throughput / 1e6, example.drive_count)
    };
    let points: Vec<_> = sweep.points().map(scenario).collect();
    assert_eq!(points, [(30.0, 4), (30.0, 6), (30.0, 8), (60.0, 4), (60.0, 6), (60.0, 8)]);
    assert_eq!(Sweep::parse([], 1).unwrap().points().count(), 1);
}

#[test]
fn an_invalid_value_names_its_own_argument() {
    let sweep = Sweep::parse(["drives.count=2,99"], 10).unwrap();
    let mut document = Document::empty("defaults");
    sweep.points().last().unwrap().into_iter().for_each(|setting| document.apply(setting));
    let found = read(document).unwrap_err().to_string();
    assert_eq!(found, "--vary drives.count=99: `drives.count`: expected a whole number, 2 to 20; found 99");
}

#[test]
fn invalid_sweeps_are_rejected() {
    let range = "a range such as `8..40:4` or `30..210:30 MB/s`";
    assert_eq!(fails("x=8..40"), format!("--vary x=8..40: expected {range}; it has no step after a `:`"));
    assert_eq!(fails("x=8..:4"), format!("--vary x=8..:4: expected {range}; its end is not a number"));
    assert_eq!(fails("x=8..9:a"), format!("--vary x=8..9:a: expected {range}; its step is not a number"));
    assert_eq!(fails("x=8..40:0"), format!("--vary x=8..40:0: expected {range}; ranges ascend by a step above 0"));
    assert_eq!(fails("x=40..8:4"), format!("--vary x=40..8:4: expected {range}; ranges ascend by a step above 0"));
    assert_eq!(fails("x=1 s..2 min:1 s"), format!("--vary x=1 s..2 min:1 s: expected {range}; its numbers have different units"));
    assert_eq!(
        fails("x=0..1e9:1"),
        format!("--vary x=0..1e9:1: expected {range}; it has 1000000001 values, and at most 10000 are allowed")
    );
    let greatest = i128::MAX;
    assert_eq!(
        fails(&format!("x=0..{greatest}:1")),
        format!("--vary x=0..{greatest}:1: expected {range}; it has {} values, and at most 10000 are allowed", greatest.unsigned_abs() + 1)
    );
    assert_eq!(
        fails(&format!("x=-1..{greatest}:1")),
        format!("--vary x=-1..{greatest}:1: expected {range}; its numbers are too far apart")
    );
    assert_eq!(fails("x=1e-300..1e300:1"), format!("--vary x=1e-300..1e300:1: expected {range}; its numbers are too far apart"));
    assert_eq!(fails("x=1,,2"), "--vary x=1,,2: expected values between commas, or a range such as `8..40:4`; one value is empty");
    assert_eq!(fails("x="), "--vary x=: expected values between commas, or a range such as `8..40:4`; one value is empty");
    assert_eq!(fails("x=1,2,1"), "--vary x=1,2,1: expected each value once; 1 is given twice");
    assert_eq!(fails("x"), "--vary x: expected `name=value`, such as `drives.throughput=60 MB/s`");
    assert_eq!(fails("x y=1"), "--vary x y=1: expected the name of a setting before the `=`, such as `drives.throughput`");
    let sweep = |arguments: &[&str], points_max| Sweep::parse(arguments.iter().copied(), points_max).unwrap_err().to_string();
    assert_eq!(sweep(&["x=1", "x=2"], 9), "--vary x=2: expected each setting in one `--vary`; `x` is already varied");
    assert_eq!(sweep(&["x=1,2,3", "y=1..4:1"], 9), "--vary y=1..4:1: expected at most 9 combinations; this one makes it 12");
}
