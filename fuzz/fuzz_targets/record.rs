//! The record of an object. What reads can be written, in no more bytes than it came in.
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
