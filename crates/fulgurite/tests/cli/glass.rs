//! Archives on emulated glass.

use std::fs;

use crate::support::{Sandbox, noise};

/// An archive of glass with small tracks: sectors take milliseconds to read.
fn on_glass() -> Sandbox {
    let place = Sandbox::new(2, &["--medium=glass"]);
    let text = String::from_utf8(place.read("a/fulgurite.toml")).expect("text");
    for line in ["kind = \"glass\"", "preset = \"desk\"", "noise = \"nominal\"", "decoder = \"unet\"", "platter_mib = 10"] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
    place.write("a/fulgurite.toml", text.replace("\"desk\"", "\"tiny\""));
    place
}

#[test]
fn a_file_goes_to_glass_and_comes_back() {
    let place = on_glass();
    place.write("file", noise(1, 20_000));
    place.good(&["put", "file", "--flush"]);
    assert!(place.good(&["get", "file", "-"]).out == noise(1, 20_000));

    let platter = place.platters().remove(0);
    let length = fs::metadata(&platter.file).expect("a file").len();
    let inspected = place.good(&["inspect", platter.file.to_str().expect("text"), "--json"]).json();
    assert_eq!(
        (&inspected["medium"], &inspected["voxels"]["rows"], &inspected["voxels"]["bits"]),
        (&"glass".into(), &64.into(), &4.into())
    );
    assert_eq!((&inspected["file_bytes"], &inspected["lost_sectors"]), (&length.into(), &0.into()));
    let text = place.good(&["inspect", platter.file.to_str().expect("text")]).text();
    assert!(text.contains("medium    glass, sectors of 64 x 160 voxels of 4 bits, code of rate 66/80"), "{text}");
    // Sizes are those of the files, which are larger than the bytes on them.
    let row = place.good(&["platters", "--json"]).json_lines().remove(0);
    assert_eq!(row["bytes"], length);
    let stores = place.good(&["store", "list", "--json"]).json_lines();
    assert_eq!(stores[0]["bytes"], length);

    // A lost sector is nothing unusual, and no reason to write the platter anew.
    let mut symbols = place.read(&platter.file);
    let sector = 4_096 + (26 + 3) * 5_120;
    symbols[sector..sector + 3_000].iter_mut().for_each(|byte| *byte ^= 0x39);
    fs::write(&platter.file, symbols).expect("written");
    let verified = place.good(&["verify"]).text();
    assert!(verified.contains("1 sector of glass was rebuilt by its track") && verified.contains("Nothing is lost."), "{verified}");

    fs::remove_file(&platter.file).expect("removed");
    let verified = place.run(&["verify"]);
    assert!(verified.status == 1 && verified.text().contains("missing"), "{verified:?}");
    assert!(place.good(&["get", "file", "-"]).out == noise(1, 20_000));
    assert!(place.good(&["scrub"]).text().contains("Recovered 1 platter"));
    let verified = place.good(&["verify"]).text();
    assert!(verified.contains("Nothing is lost."), "{verified}");
}

#[test]
fn glass_that_is_read_with_too_much_noise_is_not_given_up() {
    let place = Sandbox::new(1, &["--medium=glass", "--set=1+0"]);
    let text = String::from_utf8(place.read("a/fulgurite.toml")).expect("text");
    place.write("a/fulgurite.toml", text.replace("\"desk\"", "\"tiny\""));
    place.write("file", noise(1, 100_000));
    place.good(&["put", "file", "--flush"]);
    let nominal = String::from_utf8(place.read("a/fulgurite.toml")).expect("text");
    place.write("a/fulgurite.toml", nominal.replace("noise = \"nominal\"", "noise = \"harsh\""));
    let verified = place.run(&["verify"]);
    assert!(verified.status == 1 && verified.text().contains("as they are read now: `noise` in [medium] is \"harsh\""), "{verified:?}");
    assert!(!verified.text().contains("catalogue forget"), "{verified:?}");
    place.write("next", noise(2, 20_000));
    place.good(&["put", "next"]);
    place.run(&["flush"]).fails_with(1, "can't be decoded: more than the decoders lose at the noise \"nominal\"");
    place.write("a/fulgurite.toml", nominal);
    place.good(&["flush"]);
    place.good(&["verify", "--objects"]);
}

#[test]
fn wrong_settings_of_glass_are_refused() {
    let place = on_glass();
    let text = String::from_utf8(place.read("a/fulgurite.toml")).expect("text");
    for (from, to, says) in [
        ("kind = \"glass\"", "kind = \"stone\"", "unknown variant `stone`"),
        ("preset = \"tiny\"", "preset = \"huge\"", "expected one of: desk, tiny"),
        ("noise = \"nominal\"", "noise = \"loud\"", "expected one of: clean, nominal, harsh"),
        ("decoder = \"unet\"", "decoder = \"luck\"", "expected one of: nearest"),
        ("decoder = \"unet\"", "camera = \"nearest\"", "camera"),
        ("kind = \"glass\"", "kind = \"disk\"", "Remove the settings preset, noise, decoder from it"),
    ] {
        place.write("a/fulgurite.toml", text.replace(from, to));
        let ran = place.run(&["ls"]);
        ran.fails_with(1, says);
        ran.fails_with(1, "fulgurite.toml");
    }
    place.run(&["init", "b", "--store=x1", "--medium=stone"]).fails_with(2, "stone");
}
