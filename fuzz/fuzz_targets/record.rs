//! Parses the record of an object. Writing a parsed record takes no more bytes than it was read
//! from.
#![no_main]

use fulgurite_format::{decode_record, encode_record};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(record) = decode_record(data) {
        let again = encode_record(&record);
        assert!(again.len() <= data.len());
        assert_eq!(decode_record(&again), Ok(record));
    }
});
