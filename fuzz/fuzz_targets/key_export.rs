//! Parses an export of keys as text: as it is, as a damaged one, and with a valid last line. Seals
//! the last one and opens it, with some bytes changed.
#![no_main]

use std::io::{Cursor, Read, Write};

use aws_lc_rs::digest::{SHA256, digest};
use fulgurite_format::{
    KeyExport, KeyExportError, KeyExportWriter, ScryptCost, SealedExportReader, SealedExportWriter, is_sealed_export,
    read_damaged_key_export, read_key_export,
};
use libfuzzer_sys::fuzz_target;

/// The lowest cost, since the target tests parsing and not scrypt.
const COST: ScryptCost = ScryptCost { log2_n: 10, r: 1, p: 1 };
const PASSPHRASE: &[u8] = b"passphrase";

fuzz_target!(|data: &[u8]| {
    if is_sealed_export(&mut Cursor::new(data)).expect("memory reads") {
        // A cost that would be accepted is lowered, to save time.
        let mut data = data.to_vec();
        if let Some(cost) = data.get_mut(12..21)
            && matches!(cost, [10..=20, _, _, _, 0, _, _, 0, 0])
        {
            cost.copy_from_slice(&[COST.log2_n, 1, 0, 0, 0, 1, 0, 0, 0]);
        }
        let _ = SealedExportReader::new(Cursor::new(&data), PASSPHRASE);
        return;
    }
    let _ = read(data);
    let _ = read_damaged_key_export(Cursor::new(data), None, |_, _| Ok::<_, KeyExportError>(()));
    let Some((&[mode, place, change], text)) = data.split_first_chunk() else { return };
    let mut text = text.to_vec();
    let keys = text.split(|&byte| byte == b'\n').filter(|line| line.starts_with(b"key ")).count();
    let sum: String = digest(&SHA256, &text).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    text.extend(format!("end {keys} {sum}\n").into_bytes());
    let good = read(&text);
    // Scrypt is slow even so: seals only valid exports, and a quarter of them.
    if good.is_none() || mode % 4 != 0 {
        return;
    }
    let mut writer = SealedExportWriter::new(Vec::new(), PASSPHRASE, [7; 16], COST).expect("a vector takes all");
    writer.write_all(&text).expect("a vector takes all");
    let mut sealed = writer.finish().expect("a vector takes all");
    let blocks = sealed.len() / 1_024;
    // At most one block more than a group of one section may lose.
    for block in 0..usize::from(place) % 11 {
        let at = block % blocks * 1_024 + usize::from(place);
        sealed[at] ^= change;
    }
    let mut opened = Vec::new();
    match SealedExportReader::new(Cursor::new(&sealed), PASSPHRASE).map(|mut reader| reader.read_to_end(&mut opened)) {
        Ok(Ok(_)) => assert!(opened == text, "what opens is what was sealed"),
        _ => assert!(change != 0 && place % 11 > 9, "up to nine blocks are given back"),
    }
});

/// Reads an export. Writing it again gives the same length.
fn read(text: &[u8]) -> Option<KeyExport> {
    let mut keys = Vec::new();
    let export = read_key_export(text, |version, key| {
        keys.push((version, key));
        Ok::<_, KeyExportError>(())
    });
    let export = export.ok()?;
    assert_eq!(export.keys, keys.len() as u64);
    let mut again = KeyExportWriter::new(Vec::new(), export.archive, &export.master).expect("a vector takes all");
    for (version, key) in &keys {
        again.push(*version, key).expect("a vector takes all");
    }
    // The bytes may differ: hexadecimal digits may be capital letters.
    assert!(again.finish().expect("a vector takes all").len() == text.len());
    Some(export)
}
