//! Pictures of glass platters: `inspect --images` and `inspect --health`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Sandbox, noise};

const PICTURES: [&str; 8] = ["frame-0", "frame-1", "frame-2", "frame-3", "frame-4", "azimuth", "confidence", "errors"];
/// Bytes of a sector's symbols, and where those of track 0 begin.
const PACKED: usize = 5_120;
const FIRST: usize = 4_096 + 26 * PACKED;

/// An archive with a file on small platters of glass with little noise, and the path of one.
fn with_platter() -> (Sandbox, String) {
    let place = Sandbox::new(2, &["--medium=glass"]);
    let settings = String::from_utf8(place.read("a/fulgurite.toml")).expect("text");
    place.write("a/fulgurite.toml", settings.replace("\"desk\"", "\"tiny\"").replace("noise = \"nominal\"", "noise = \"clean\""));
    place.write("file", noise(1, 20_000));
    place.good(&["put", "file", "--flush"]);
    let platter = place.platters().remove(0).file.to_str().expect("text").to_owned();
    (place, platter)
}

/// Width and height of a PNG file.
fn sides(path: &Path) -> [u32; 2] {
    let png = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n") && png.ends_with(b"IEND\xae\x42\x60\x82"), "{}", path.display());
    [16, 20].map(|at| u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes")))
}

/// Makes half of a sector of track 0 unreadable.
fn scratch(platter: &str, sector: usize) {
    let mut symbols = fs::read(platter).expect("readable");
    symbols[FIRST + sector * PACKED..][..PACKED / 2].iter_mut().for_each(|byte| *byte ^= 0x39);
    fs::write(platter, symbols).expect("written");
}

#[test]
fn a_sector_is_shown_from_its_frames_to_its_errors() {
    let (place, platter) = with_platter();
    let found = place.good(&["inspect", &platter, "--images", "new/pictures", "--track=1", "--sector=7", "--json"]).json();
    let listed: Vec<&str> = found["pictures"].as_array().expect("a list").iter().map(|path| path.as_str().expect("text")).collect();
    assert_eq!(listed, PICTURES.map(|picture| format!("new/pictures/track-1-sector-7-{picture}.png")));
    for picture in &listed {
        assert_eq!(sides(&place.path(picture)), [640, 256], "{picture}");
    }
    assert_eq!((&found["lost"], &found["noise"], &found["symbols"]), (&false.into(), &"clean".into(), &10_240.into()));
    let margin = found["information"].as_f64().expect("a number") - found["needed_information"].as_f64().expect("a number");
    assert!((found["margin"].as_f64().expect("a number") - margin).abs() < 1e-9 && margin > 0.05, "{found}");

    // Other pictures of the sector are not replaced.
    let noisy = ["inspect", &platter, "--images", "new/pictures", "--track=1", "--sector=7", "--noise=nominal", "--json"];
    place.run(&noisy).fails_with(1, "track-1-sector-7-frame-0.png already exists, and is not replaced");
    let noisy = noisy.map(|word| if word == "new/pictures" { "others" } else { word });
    assert_eq!(place.good(&noisy).json()["noise"], "nominal");
    let errors = |folder: &str| fs::read(place.path(folder).join("track-1-sector-7-errors.png")).expect("there");
    assert_ne!(errors("others"), errors("new/pictures"));

    // More noise of reading, more errors. Single sectors can be lucky, a track can't.
    let errors = |noise: &str| -> u64 {
        let of = |sector| {
            let [folder, sector, noise] = [format!("track-{noise}"), format!("--sector={sector}"), format!("--noise={noise}")];
            let found = place.run(&["inspect", &platter, "--images", &folder, "--track=1", &sector, &noise, "--json"]).json();
            found["symbol_errors"].as_u64().expect("a number")
        };
        (0..8).map(of).sum()
    };
    let [clean, nominal] = ["clean", "nominal"].map(errors);
    assert!(nominal > 100 + clean, "{nominal} errors of nominal noise, {clean} of clean");

    // Without options, the first sector.
    let text = place.good(&["inspect", &platter, "--images", "others"]).text();
    assert!(text.contains("sector    track 0, sector 0, imaged 1 time") && text.contains("payload   good"), "{text}");
    assert!(place.path("others/track-0-sector-0-azimuth.png").exists());
}

#[test]
fn a_lost_sector_is_shown_too() {
    let (place, platter) = with_platter();
    scratch(&platter, 2);
    let shown = place.run(&["inspect", &platter, "--images", "pictures", "--sector=2"]);
    assert_eq!(shown.status, 1, "{shown:?}");
    assert!(shown.text().contains("payload   LOST: ") && shown.text().contains("imaged 3 times"), "{shown:?}");
    for picture in PICTURES {
        assert_eq!(sides(&place.path(format!("pictures/track-0-sector-2-{picture}.png"))), [640, 256]);
    }
}

#[test]
fn pictures_are_refused_with_the_reason() {
    let (place, platter) = with_platter();
    let platter = &platter[..];
    place.run(&["inspect", platter, "--images", "p", "--track=2"]).fails_with(1, "no track 2: its tracks are 0 to 1");
    place.run(&["inspect", platter, "--images", "p", "--sector=8"]).fails_with(1, "no sector 8: their sectors are 0 to 7");
    assert!(!place.path("p").exists());
    place.run(&["inspect", platter, "--images", "file/p"]).fails_with(1, "can't create the folder file/p");
    place.run(&["inspect", platter, "--health", "file/map.png"]).fails_with(1, "can't write file/map.png");
    place.run(&["inspect", platter, "--health", "file"]).fails_with(1, "file already exists, and is not replaced");
    assert!(place.read("file") == noise(1, 20_000));
    place.run(&["inspect", "missing", "--images", "p"]).fails_with(1, "missing: No such file");
    place.run(&["inspect", "file", "--health", "p"]).fails_with(1, "this is not a Fulgurite platter");
    assert!(!place.path("p").exists());

    let disks = Sandbox::new(1, &[]);
    disks.write("file", b"content");
    disks.good(&["put", "file", "--flush"]);
    let platter = disks.platters().remove(0).file;
    let platter = platter.to_str().expect("text");
    for option in ["--images", "--health"] {
        disks.run(&["inspect", platter, option, "p"]).fails_with(1, "is a platter of the disk medium");
    }
    assert!(!disks.path("p").exists());
}

#[test]
fn the_health_of_a_platter_is_drawn_and_summed_up() {
    let (place, platter) = with_platter();
    let good = place.good(&["inspect", &platter, "--health", "good.png", "--json"]).json();
    assert_eq!((&good["sectors"], &good["good"], &good["lost"]), (&16.into(), &16.into(), &Value::Array(Vec::new())));
    let (least, median) = (good["least_margin"].as_f64().expect("a number"), good["median_margin"].as_f64().expect("a number"));
    assert!(0.05 < least && least <= median && median < 0.14, "{good}");
    let [width, height] = sides(&place.path("good.png"));
    assert!(width > 300 && height > 200);

    scratch(&platter, 2);
    let ran = place.run(&["inspect", &platter, "--health", "lost.png"]);
    assert_eq!(ran.status, 1, "{ran:?}");
    assert!(ran.text().contains("sectors   16 in 2 tracks of 8: 15 good, 1 lost"), "{ran:?}");
    assert!(ran.text().contains("lost      track 0, sector 2: "), "{ran:?}");
    assert_ne!(place.read("good.png"), place.read("lost.png"));

    // All sectors of the tracks are cut off, so there is no margin to draw.
    let symbols = fs::read(&platter).expect("readable");
    fs::write(&platter, &symbols[..FIRST]).expect("written");
    let ran = place.run(&["inspect", &platter, "--health", "cut.png", "--json"]);
    assert_eq!((ran.status, &ran.json()["good"], &ran.json()["median_margin"]), (1, &0.into(), &Value::Null), "{ran:?}");
    assert_eq!(ran.json()["lost"].as_array().map(Vec::len), Some(16));
    assert_eq!(sides(&place.path("cut.png")), sides(&place.path("good.png")));
    place.run(&["inspect", &platter, "--images", "p"]).fails_with(1, "track 0, sector 0");
}
