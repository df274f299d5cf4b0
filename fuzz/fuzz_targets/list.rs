//! Parses the list of a bulk get, and writes its entries to a tar archive.
#![no_main]

use fulgurite_service::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| fuzzing::bulk_get_list(data));
