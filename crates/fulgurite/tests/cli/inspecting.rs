//! The command `inspect`.

use std::fs;

use crate::support::{Sandbox, noise};

#[test]
fn inspect_describes_a_platter() {
    let place = Sandbox::new(3, &[]);
    place.write("file", noise(1, 300_000));
    place.write("other", noise(2, 300_000));
    place.good(&["put", "file", "other", "--flush"]);
    let platters = place.platters();
    let inspect = |index: usize, option: &str| place.good(&["inspect", platters[index].file.to_str().expect("text"), option]);
    let text = inspect(0, "--files").text();
    assert!(
        text.contains("information 1 of 2") && text.contains("(encrypted)") && text.contains("0 of") && text.contains("3 of 3 copies"),
        "{text}"
    );
    assert!(inspect(2, "--files").text().contains("none: a redundancy platter"));
    let lines = inspect(0, "--json").json();
    assert_eq!((&lines["entries"], &lines["lost_sectors"], &lines["set_redundancy"]), (&1.into(), &0.into(), &1.into()));
    // Without any archive.
    fs::rename(place.path("a"), place.path("gone")).expect("renamed");
    inspect(1, "--files");
}

/// CRC-64/NVME, bit by bit.
fn crc64(bytes: &[u8]) -> u64 {
    let step = |crc: u64| if crc & 1 == 1 { crc >> 1 ^ 0x9a6c_9329_ac4b_c9b5 } else { crc >> 1 };
    !bytes.iter().fold(u64::MAX, |crc, &byte| (0..8).fold(crc ^ u64::from(byte), |crc, _| step(crc)))
}

#[test]
fn other_files_are_rejected_with_the_reason() {
    let place = Sandbox::new(2, &["--clear-text"]);
    place.write("file", noise(1, 300_000));
    place.good(&["put", "file", "--flush"]);
    let platter = fs::read(&place.platters()[0].file).expect("readable");
    let geometry = place.good(&["inspect", place.platters()[0].file.to_str().expect("text"), "--json"]).json();
    assert_eq!(geometry["good_headers"], 3);

    place.write("empty", b"");
    place.run(&["inspect", "empty"]).fails_with(1, "not a Fulgurite platter");
    place.write("foreign", noise(9, 3_000_000));
    place.run(&["inspect", "foreign"]).fails_with(1, "foreign: this is not a Fulgurite platter");
    place.run(&["inspect", "a"]).fails_with(1, "not a file");
    place.run(&["inspect", "missing"]).fails_with(1, "missing: No such file");
    place.write("short", &platter[..100]);
    place.run(&["inspect", "short"]).fails_with(1, "short: ");

    place.write("cut", &platter[..platter.len() / 2]);
    let cut = place.run(&["inspect", "cut"]);
    assert!(cut.status == 1 && cut.text().contains("WRONG LENGTH"), "{cut:?}");

    let mut newer = platter.clone();
    let copies: Vec<usize> =
        (0..newer.len() - 16_384).step_by(64).chain([newer.len() - 16_384]).filter(|&at| newer[at..].starts_with(b"FULGPLAT")).collect();
    assert_eq!(copies.len(), 3);
    for at in copies {
        let header = &mut newer[at..at + 16_384];
        header[8..12].copy_from_slice(&2_u32.to_le_bytes());
        let checksum = crc64(&header[..16_376]);
        header[16_376..].copy_from_slice(&checksum.to_le_bytes());
    }
    place.write("longer", [&platter[..], &[0; 100]].concat());
    let longer = place.run(&["inspect", "longer"]);
    assert!(longer.status == 1 && longer.text().contains("WRONG LENGTH"), "{longer:?}");

    let mut commanding = platter.clone();
    let writer = commanding.windows(10).position(|bytes| bytes == b"fulgurite ").expect("the writer's name");
    commanding[writer..writer + 4].copy_from_slice(b"\x1b[2J");
    let checksum = crc64(&commanding[..16_376]);
    commanding[16_376..16_384].copy_from_slice(&checksum.to_le_bytes());
    place.write("commanding", commanding);
    let commanding = place.run(&["inspect", "commanding"]);
    assert!(commanding.text().contains("by \\u{1b}[2J") && !commanding.text().contains('\u{1b}'), "{commanding:?}");

    place.write("newer", newer);
    place.run(&["inspect", "newer"]).fails_with(1, "format version 2, this program reads up to 1");
}

#[test]
fn a_platter_of_another_archive_on_a_store_is_left_out_of_a_rebuild() {
    let place = Sandbox::new(1, &[]);
    place.write("file", b"mine");
    place.good(&["put", "file", "--flush"]);
    place.init("b", "e", 1, &[]);
    place.write("file", b"other");
    place.good(&["-A", "b", "put", "file", "--flush"]);
    let foreign = fs::read_dir(place.path("e1/platters")).expect("there").next().expect("one").expect("there");
    fs::copy(foreign.path(), place.path("d1/platters").join(foreign.file_name())).expect("copied");
    place.good(&["inspect", foreign.path().to_str().expect("text")]);
    let rebuilt = place.good(&["catalogue", "rebuild"]);
    assert!(rebuilt.err.contains("is of archive"), "{rebuilt:?}");
    assert_eq!(place.platters().len(), 1);
    assert_eq!(place.good(&["get", "file", "-"]).out, b"mine");
    place.good(&["verify"]);
}
