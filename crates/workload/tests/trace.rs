//! Traces: valid ones are read, and invalid ones are rejected with line, column, value found and
//! value expected.

use std::io::{BufReader, Read as _};

use fulgurite_domain::Micros;
use fulgurite_workload::{Cell, Header, Platters, Read, Trace, TraceRows, TraceSettings};

const SETTINGS: TraceSettings =
    TraceSettings { platters: Platters { count: 100, tracks: 50, track_bytes: 1000 }, shard_bytes: 10_000, seed: 1 };

fn parse(text: &str) -> Result<Vec<Read>, String> {
    Trace::new(text.as_bytes(), &SETTINGS).and_then(Iterator::collect).map_err(|error| error.to_string())
}

fn refusal(text: &str) -> String {
    parse(text).expect_err("the trace is wrong")
}

#[test]
fn rows_become_reads() {
    let found = parse("arrival,file,bytes,platter,track\n0.25,17,1048,8,40\n0.25,18,1,9,\n1e1,17,1048,8,40\n").unwrap();
    let told: Vec<_> = found.iter().map(|read| (read.at.0, read.object, read.bytes, read.platter, read.tracks)).collect();
    assert_eq!(told, [(250_000, 17, 1048, 8, 2), (250_000, 18, 1, 9, 1), (10_000_000, 17, 1048, 8, 2)]);
    assert_eq!((found[0].first_track, found[2].request, found[2].shards), (40, 2, 1));
}

#[test]
fn columns_may_be_in_any_order_or_quoted_and_lines_may_end_with_crlf() {
    let plain = parse("arrival,file,bytes\n1,a,5\n2,b,6\n").unwrap();
    assert_eq!(parse("\u{feff}bytes,arrival,file\r\n5,1,\"a\"\r\n6,2,b").unwrap(), plain);
    assert_eq!(parse("arrival,file,bytes\n1,\"x,\"\"y\"\"\",5\n").unwrap().len(), 1);
}

#[test]
fn times_of_day_count_from_the_first_row() {
    let found = parse("arrival,account,bytes\n2023-10-23T08:00:00Z,a,1\n2023-10-23T10:00:01.5+02:00,a,1\n").unwrap();
    assert_eq!([found[0].at, found[1].at], [Micros::ZERO, Micros(1_500_000)]);
}

#[test]
fn large_files_are_sharded_only_if_their_place_is_unknown() {
    let found = parse("arrival,file,bytes,platter,track\n1,a,35000,,\n2,b,35000,7,\n").unwrap();
    let cut: Vec<&Read> = found.iter().filter(|read| read.request == 0).collect();
    assert_eq!(cut.len(), 4);
    assert_eq!(cut.iter().map(|read| read.bytes).sum::<u64>(), 35_000);
    let whole: Vec<&Read> = found.iter().filter(|read| read.request == 1).collect();
    assert_eq!((whole.len(), whole[0].platter, whole[0].bytes, whole[0].tracks), (1, 7, 35_000, 35));
}

#[test]
fn files_of_an_account_share_a_platter_and_a_file_keeps_its_place() {
    let text = "arrival,account,file,bytes\n1,ann,a,1\n2,ann,b,1\n3,bob,a,1\n4,ann,a,1\n";
    let found = parse(text).unwrap();
    assert_eq!(found[0].platter, found[1].platter);
    assert_ne!(found[0].platter, found[2].platter);
    assert_ne!(found[0].object, found[2].object, "two accounts may give a file the same name");
    let place = |read: &Read| (read.object, read.platter, read.first_track);
    assert_eq!(place(&found[0]), place(&found[3]));
}

#[test]
fn errors_name_line_and_column() {
    let refused = [
        ("", "the trace is empty: a line with the names of the columns is expected, such as arrival,file,bytes"),
        ("arrival,file,bytes\n", "the trace has a header and no rows: one or more are expected"),
        ("arrival,file\n", "line 1: the required column bytes is missing"),
        ("file,bytes\n", "line 1: the required column arrival is missing"),
        ("arrival,bytes\n", "line 1: neither a file nor an account column: one of them is required"),
        (
            "arrival,file,bytes,platters\n",
            "line 1: column platters is unknown: arrival, file, account, bytes, platter and track are expected",
        ),
        ("arrival,file,bytes,file\n", "line 1: column file appears twice"),
        ("arrival,file,bytes\n1,a,5\n2,a\n", "line 3: found 2 fields, expected 3 as in the header"),
        ("arrival,file,bytes\n1,a,5,6\n", "line 2: found 4 fields, expected 3 as in the header"),
        ("arrival,file,bytes\n1,a,5\n\n2,a,5\n", "line 3: found 0 fields, expected 3 as in the header"),
        (
            "arrival,file,bytes\n2,a,5\n1.5,a,5\n",
            "line 3, column arrival: found \"1.5\", 0.5 s before the row above: rows in order of time are expected",
        ),
        ("arrival,file,bytes\n1,,5\n", "line 2, column file: found \"\", expected a name"),
        ("arrival,file,bytes\n1,\"a,5\n2,b,6\n", "line 2: a quoted field does not end on its line"),
        ("arrival,file,bytes\n1,a\r2,a,5\n", "line 2: a carriage return inside the line"),
    ];
    for (text, message) in refused {
        assert_eq!(refusal(text), message, "{text:?}");
    }
}

#[test]
fn invalid_values_are_rejected() {
    let bytes = "expected a whole number of bytes from 1 to 5000000";
    let seconds = "expected seconds from 0 to 9e12, or an RFC 3339 time";
    for (row, column, found, expected) in [
        ("1,a,-5,,", "bytes", "-5", bytes),
        ("1,a,0,,", "bytes", "0", bytes),
        ("1,a,1.5,,", "bytes", "1.5", bytes),
        ("1,a,+5,,", "bytes", "+5", bytes),
        ("1,a,99999999999999999999,,", "bytes", "99999999999999999999", bytes),
        ("1,a,NaN,,", "bytes", "NaN", bytes),
        ("NaN,a,5,,", "arrival", "NaN", seconds),
        ("inf,a,5,,", "arrival", "inf", seconds),
        ("-1,a,5,,", "arrival", "-1", seconds),
        ("1e300,a,5,,", "arrival", "1e300", seconds),
        (",a,5,,", "arrival", "", seconds),
        ("2023-02-30T00:00:00Z,a,5,,", "arrival", "2023-02-30T00:00:00Z", seconds),
        ("1,a,5,100,", "platter", "100", "expected a whole number from 0 to 99, or nothing"),
        ("1,a,5,-1,", "platter", "-1", "expected a whole number from 0 to 99, or nothing"),
        ("1,a,5,1,50", "track", "50", "expected a whole number from 0 to 49, or nothing"),
        ("1,a,5,,3", "platter", "", "expected the platter of the track that is given"),
        ("1,a,2500,1,48", "track", "48", "expected a track up to 47, since the file takes 3 tracks"),
        ("1,a,50001,1,", "bytes", "50001", "expected a whole number of bytes from 1 to 50000"),
    ] {
        let message = refusal(&format!("arrival,file,bytes,platter,track\n{row}\n"));
        assert_eq!(message, format!("line 2, column {column}: found {found:?}, {expected}"), "{row}");
    }
}

#[test]
fn mixed_kinds_of_time_are_rejected() {
    let message = refusal("arrival,file,bytes\n1,a,5\n2023-10-23T08:00:00Z,a,5\n");
    assert!(message.ends_with("expected seconds from 0 to 9e12, as in the first row"), "{message}");
    let message = refusal("arrival,file,bytes\n2023-10-23T08:00:00Z,a,5\n2,a,5\n");
    assert!(message.ends_with("expected an RFC 3339 time, as in the first row"), "{message}");
    let message = refusal("arrival,file,bytes\n2023-10-23T08:00:00Z,a,5\n2023-10-23T07:59:58Z,a,5\n");
    assert!(message.contains("2 s before the row above"), "{message}");
}

#[test]
fn reading_ends_after_an_error() {
    let mut trace = Trace::new(&b"arrival,file,bytes\n1,a,5\nx,a,5\n3,a,5\n"[..], &SETTINGS).unwrap();
    assert!(trace.next().unwrap().is_ok());
    assert!(trace.next().unwrap().is_err());
    assert!(trace.next().is_none());
}

#[test]
fn an_endless_line_is_rejected_before_it_fills_memory() {
    let endless = BufReader::new("arrival,file,bytes\n1,".as_bytes().chain(std::io::repeat(b'x')));
    let mut trace = Trace::new(endless, &SETTINGS).unwrap();
    assert_eq!(trace.next().unwrap().unwrap_err().to_string(), "line 2: it is longer than 65536 bytes");
    let many = format!("arrival,file,bytes\n1,a{}\n", ",".repeat(1000));
    assert!(refusal(&many).starts_with("line 2: found more than"), "{}", refusal(&many));
}

#[test]
fn invalid_utf_8_is_rejected() {
    for row in [&b"1,\xff,5\n"[..], b"1,\xc3,\xa4\n"] {
        let text = [b"arrival,file,bytes\n", row].concat();
        let error = Trace::new(&text[..], &SETTINGS).unwrap().next().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "line 2: invalid UTF-8: text is expected");
    }
}

#[test]
fn typed_rows_go_through_the_same_checks() {
    let header = Header::new(["arrival", "file", "bytes"].into_iter()).unwrap();
    let mut rows = TraceRows::new(header, &SETTINGS).unwrap();
    rows.take(1, &[Cell::Instant(1_000_000), Cell::Whole(17), Cell::Real(5.0)]).unwrap();
    assert_eq!(rows.next_read().map(|read| (read.at, read.object, read.bytes)), Some((Micros::ZERO, 17, 5)));
    assert_eq!(rows.next_read(), None);
    for (cells, message) in [
        ([Cell::Instant(999_999), Cell::Whole(1), Cell::Whole(1)], "0.000001 s before the row above"),
        ([Cell::Real(f64::NAN), Cell::Whole(1), Cell::Whole(1)], "column arrival: found \"NaN\""),
        ([Cell::Instant(2_000_000), Cell::Missing, Cell::Whole(1)], "column file: found \"\""),
        ([Cell::Instant(2_000_000), Cell::Whole(1), Cell::Real(1.5)], "column bytes: found \"1.5\""),
        ([Cell::Instant(2_000_000), Cell::Whole(1), Cell::Whole(-1)], "column bytes: found \"-1\""),
    ] {
        let found = rows.take(2, &cells).unwrap_err().to_string();
        assert!(found.starts_with("line 2, ") && found.contains(message), "{found}");
    }
}
