//! Which files are models, and what the errors of others say.

use fulgurite_unet::{ModelError, Network, ShapeError, reference};
use proptest::prelude::*;
use serde_json::{Value, json};

fn model() -> Vec<u8> {
    reference::random_model(1, 5, 16, &[16, 32])
}

/// The model with another header.
fn with_header(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let file = model();
    let end = 8 + u64::from_le_bytes(file[..8].try_into().expect("8 bytes")) as usize;
    let mut header: Value = serde_json::from_slice(&file[8..end]).expect("a header of JSON");
    change(&mut header);
    with_header_text(&header.to_string(), &file[end..])
}

fn with_header_text(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

fn message(file: &[u8]) -> String {
    Network::from_bytes(file).expect_err("a file that isn't a model").to_string()
}

#[test]
fn a_network_tells_its_shape_and_its_metadata() {
    let file = with_header(|header| header["__metadata__"]["trained_on"] = json!("desk"));
    let network = Network::from_bytes(&file).expect("a model");
    assert_eq!((network.inputs(), network.outputs(), network.widths(), network.multiple()), (5, 16, &[16, 32][..], 2));
    assert_eq!(network.metadata("trained_on"), Some("desk"));
    assert_eq!(network.metadata("widths"), Some("16,32"));
    assert_eq!(network.metadata("steps"), None);
    // 720 + 2304 + 4608 + 2304 + 512 + 256 at full resolution, 4608 + 9216 at a quarter.
    assert_eq!(network.multiply_adds(8, 10), 80 * 10_704 + 20 * 13_824);
}

#[test]
fn spaces_after_the_header_are_allowed() {
    let file = model();
    let end = 8 + u64::from_le_bytes(file[..8].try_into().expect("8 bytes")) as usize;
    let header = format!("{}   ", std::str::from_utf8(&file[8..end]).expect("text"));
    assert!(Network::from_bytes(&with_header_text(&header, &file[end..])).is_ok());
}

#[test]
fn a_file_cut_anywhere_is_an_error() {
    let file = model();
    for bytes in (0..file.len()).step_by(7).chain([7, 8, file.len() - 1]) {
        assert!(Network::from_bytes(&file[..bytes]).is_err(), "{bytes} bytes of {}", file.len());
    }
    assert!(matches!(Network::from_bytes(b"safe"), Err(ModelError::Truncated { bytes: 4, needed: 8 })));
    let longer = [&file[..], &[0; 3]].concat();
    assert_eq!(message(&longer), "the model has 3 bytes after its last tensor: the file is damaged");
}

#[test]
fn a_header_of_any_claimed_size_takes_no_memory() {
    assert!(matches!(Network::from_bytes(&[0xFF; 64]), Err(ModelError::HeaderTooLarge { bytes: u64::MAX, .. })));
    let claims = [&1_000_000u64.to_le_bytes()[..], b"{}"].concat();
    assert!(matches!(Network::from_bytes(&claims), Err(ModelError::Truncated { bytes: 10, needed: 1_000_008 })));
}

#[test]
fn headers_that_are_not_a_map_of_tensors_are_errors() {
    for header in ["", "[]", "{", "{\"a\": 1}", "{\"a\": {\"dtype\": \"F32\"}}", "{\"__metadata__\": {\"inputs\": 5}}"] {
        assert!(matches!(Network::from_bytes(&with_header_text(header, &[])), Err(ModelError::Header { .. })), "{header}");
    }
    let tensor = "\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}";
    assert!(message(&with_header_text(&format!("{{{tensor},{tensor}}}"), &[])).contains("a occurs twice"));
    let metadata = "\"__metadata__\":{\"widths\":\"16\",\"widths\":\"32\"}";
    assert!(message(&with_header_text(&format!("{{{metadata}}}"), &[])).contains("widths occurs twice"));
}

#[test]
fn tensors_must_cover_the_data_without_gaps_and_overlaps() {
    for offsets in [json!([0, 24]), json!([4, 20]), json!([20, 0]), json!([0, u64::MAX]), json!([u64::MAX, u64::MAX])] {
        let file = with_header(|header| header["input.mean"]["data_offsets"] = offsets.clone());
        assert!(matches!(Network::from_bytes(&file), Err(ModelError::Offsets { .. })), "{offsets}");
    }
    // A tensor whose place is too small for its shape.
    let file = with_header(|header| {
        header["input.mean"]["data_offsets"] = json!([0, 16]);
        header["input.scale"]["data_offsets"] = json!([16, 40]);
    });
    assert_eq!(message(&file), "tensor input.mean has 16 bytes of data, but its shape needs 20: the file is damaged");
}

#[test]
fn metadata_must_describe_a_network_of_this_crate() {
    let change = |key: &str, value: Value| with_header(|header| header["__metadata__"][key] = value);
    assert_eq!(
        message(&change("architecture", json!("fulgurite-unet-2"))),
        "the model's architecture is \"fulgurite-unet-2\", but this version runs \"fulgurite-unet-1\" only"
    );
    assert_eq!(
        message(&change("widths", json!("16,24"))),
        "the model's metadata have widths = \"16,24\": 2 to 4 multiples of 16 up to 1024, separated by commas"
    );
    for widths in ["", "16", "16,32,48,64,80", "0,16", "16,2048", "16,-32", "16;32", "99999999999999999999,16"] {
        assert!(matches!(Network::from_bytes(&change("widths", json!(widths))), Err(ModelError::Metadata { key: "widths", .. })));
    }
    for planes in ["0", "1025", "five", "18446744073709551616", ""] {
        assert!(matches!(Network::from_bytes(&change("inputs", json!(planes))), Err(ModelError::Metadata { key: "inputs", .. })));
        assert!(matches!(Network::from_bytes(&change("outputs", json!(planes))), Err(ModelError::Metadata { key: "outputs", .. })));
    }
    for key in ["architecture", "inputs", "outputs", "widths"] {
        let file = with_header(|header| drop(header["__metadata__"].as_object_mut().expect("a map").remove(key)));
        assert!(message(&file).contains(&format!("{key:?}")));
    }
    let file = with_header(|header| drop(header.as_object_mut().expect("a map").remove("__metadata__")));
    assert!(message(&file).contains("\"architecture\""));
}

#[test]
fn tensors_must_be_those_of_the_architecture() {
    let tensor = "up.0.a.weight";
    assert_eq!(
        message(&with_header(|header| header[tensor]["shape"] = json!([32, 16, 3, 3]))),
        "tensor up.0.a.weight has shape [32, 16, 3, 3], but the model's metadata require [16, 32, 3, 3]"
    );
    assert_eq!(
        message(&with_header(|header| header[tensor]["dtype"] = json!("F64"))),
        "tensor up.0.a.weight has type F64: export it as F32"
    );
    let renamed = with_header(|header| {
        let head = header.as_object_mut().expect("a map").remove("head.bias").expect("a tensor of the model");
        header["head.offset"] = head;
    });
    assert_eq!(message(&renamed), "the model lacks tensor head.bias");
    let empty = json!({ "dtype": "F32", "shape": [0], "data_offsets": [0, 0] });
    assert!(message(&with_header(|header| header["norm.weight"] = empty)).starts_with("the model has a tensor norm.weight, which"));
    // A claim of many levels needs tensors that aren't there, before it takes any memory.
    let wide = with_header(|header| header["__metadata__"]["widths"] = json!("1024,1024,1024,1024"));
    assert!(message(&wide).starts_with("tensor down.0.a.weight has shape [16, 5, 3, 3]"));
}

#[test]
fn weights_that_are_not_finite_are_errors() {
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut file = model();
        let end = file.len();
        file[end - 8..end - 4].copy_from_slice(&value.to_le_bytes());
        // The head's bias is written last.
        let expected = format!("tensor head.bias has {value} at position 14: its training failed, or the file is damaged");
        assert_eq!(message(&file), expected);
    }
}

#[test]
fn images_must_fit_the_network() {
    let network = Network::from_bytes(&reference::random_model(1, 1, 1, &[16, 16, 16])).expect("a model");
    for (rows, columns) in [(0, 4), (4, 0), (6, 4), (4, 6), (1, 1)] {
        assert_eq!(network.runner(rows, columns).expect_err("no multiple"), ShapeError::Multiple { rows, columns, multiple: 4 });
    }
    for (rows, columns) in [(4096, 4100), (1 << 40, 4), (1 << 40, 1 << 40)] {
        assert!(matches!(network.runner(rows, columns), Err(ShapeError::TooLarge { .. })));
    }
    assert!(network.runner(4, 4).is_ok());
}

#[test]
fn a_runner_tells_how_much_memory_it_takes() {
    let network = Network::from_bytes(&reference::random_model(1, 5, 16, &[16, 32, 64])).expect("a model");
    let runner = network.runner(128, 160).expect("a shape of the network");
    assert_eq!((runner.rows(), runner.columns()), (128, 160));
    // 5 planes and 48 channels at full resolution, 112 at a quarter, 160 at a sixteenth; then
    // borders and scratch.
    let images = 128 * 160 * (4 * (5 + 48) + 4 * 112 / 4 + 4 * 160 / 16);
    assert!((images..images * 6 / 5).contains(&runner.memory_bytes()), "{} bytes, images {images}", runner.memory_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_damage_to_a_header_panics(at in 0..4000usize, to in any::<u8>()) {
        let mut file = model();
        file[at] = to;
        if let Ok(network) = Network::from_bytes(&file) {
            // A changed name of no meaning, or an unchanged byte.
            prop_assert_eq!(network.widths(), &[16, 32]);
        }
    }
}
