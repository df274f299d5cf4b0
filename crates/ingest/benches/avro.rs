//! Reads the key and the cutouts of alerts, beside apache-avro, which decodes all of them.
//!
//! The alert is as large as ZTF's: three cutouts of 15 kB, and 30 earlier detections of 100 fields.
//!
//! ```sh
//! cargo bench -p fulgurite-ingest --bench avro
//! ```

use std::hint::black_box;
use std::time::{Duration, Instant};

use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value;
use apache_avro::writer::datum::GenericDatumWriter;
use fulgurite_ingest::avro::{Kind, Schema, Selection};
use serde_json::json;

const CUTOUTS: [&str; 3] = ["cutoutScience", "cutoutTemplate", "cutoutDifference"];
const ROUNDS: usize = 5;

fn main() {
    let fields: Vec<_> = (0..100).map(|number| json!({"name": format!("f{number}"), "type": ["null", "float"]})).collect();
    let cutout = json!(["null", {"type": "record", "name": "Cutout", "fields": [
        {"name": "fileName", "type": "string"}, {"name": "stampData", "type": "bytes"}]}]);
    let json = json!({"type": "record", "name": "Alert", "fields": [
        {"name": "objectId", "type": "string"},
        {"name": "candid", "type": "long"},
        {"name": "prv_candidates", "type": ["null", {"type": "array", "items": {"type": "record", "name": "Candidate", "fields": fields}}]},
        {"name": CUTOUTS[0], "type": cutout},
        {"name": CUTOUTS[1], "type": ["null", "Cutout"]},
        {"name": CUTOUTS[2], "type": ["null", "Cutout"]}]});
    let peer = apache_avro::Schema::parse(&json).expect("valid");
    let some = |value| Value::Union(1, Box::new(value));
    let candidate = || Value::Record((0..100).map(|number| (format!("f{number}"), some(Value::Float(1.5)))).collect());
    let stamp = || {
        some(Value::Record(vec![
            ("fileName".to_owned(), Value::String("candid.fits.gz".to_owned())),
            ("stampData".to_owned(), Value::Bytes(vec![7; 15_000])),
        ]))
    };
    let mut alert = vec![
        ("objectId".to_owned(), Value::String("ZTF26aaaaaaa".to_owned())),
        ("candid".to_owned(), Value::Long(2_000_000_000_000_000_000)),
        ("prv_candidates".to_owned(), some(Value::Array((0..30).map(|_| candidate()).collect()))),
    ];
    alert.extend(CUTOUTS.iter().map(|&name| (name.to_owned(), stamp())));
    let writer = GenericDatumWriter::builder(&peer).build().expect("the schema is complete");
    let data = writer.write_value_to_vec(Value::Record(alert)).expect("it fits the schema");
    let reader = GenericDatumReader::builder(&peer).build().expect("the schema is complete");

    let schema = Schema::parse(&json.to_string()).expect("valid");
    let keys = ["objectId", "candid"].map(|name| (name, Kind::Key));
    let selection = Selection::new(&schema, keys.into_iter().chain(CUTOUTS.map(|name| (name, Kind::Content)))).expect("all are there");
    println!("alert of {} bytes, {ROUNDS} rounds in turn; medians", data.len());
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(time_of(2000, || drop(black_box(selection.of(&schema, black_box(&data)).expect("intact")))));
        theirs.push(time_of(200, || drop(black_box(reader.read_value(&mut black_box(&data[..])).expect("intact")))));
    }
    let (ours, theirs) = (median(ours), median(theirs));
    println!("selected fields  {:8.1} us", ours * 1e6);
    println!("apache-avro      {:8.1} us  {:.1} times", theirs * 1e6, theirs / ours);
}

/// Seconds for one of `count` calls.
fn time_of(count: u32, mut call: impl FnMut()) -> f64 {
    let begun = Instant::now();
    for _ in 0..count {
        call();
    }
    Duration::as_secs_f64(&(begun.elapsed() / count))
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}
