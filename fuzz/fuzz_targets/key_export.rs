//! An export as text; and what begins as a sealed one, at a low cost.
#![no_main]

use fulgurite_format::{KeyExportError, ScryptCost, SealedExportReader, is_sealed_export, read_key_export};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut keys = 0;
    let export = read_key_export(data, |_, _| {
        keys += 1;
        Ok::<_, KeyExportError>(())
    });
    if let Ok(export) = export {
        assert_eq!(export.keys, keys);
    }
    // A cost that is cheap: what is looked for is not the time that scrypt takes.
    let cost = ScryptCost { log2_n: 10, r: 1, p: 1 };
    if is_sealed_export(data) && data.len() > 37 {
        let mut data = data.to_vec();
        data[12] = cost.log2_n;
        data[13..17].copy_from_slice(&cost.r.to_le_bytes());
        data[17..21].copy_from_slice(&cost.p.to_le_bytes());
        let _ = SealedExportReader::new(&data[..], b"passphrase");
    }
});
