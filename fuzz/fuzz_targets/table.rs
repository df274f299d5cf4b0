//! File tables whose stated length is right. A table that parses must serialize to the same bytes,
//! except for reserved ones.
#![no_main]

use fulgurite_format::{TableReader, TableWriter};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(mut table) = TableReader::new(data, data.len() as u64) else { return };
    let Ok(entries) = table.by_ref().collect::<Result<Vec<_>, _>>() else { return };
    if table.finish().is_ok() {
        let mut again = Vec::new();
        let mut table = TableWriter::new(&mut again, entries.len() as u64).expect("a vector takes all");
        for entry in &entries {
            table.push(entry).expect("what was read can be written");
        }
        table.finish();
        assert_eq!(again[16..], data[16..]);
    }
});
