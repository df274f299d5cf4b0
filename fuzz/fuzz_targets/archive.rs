//! Parses the archive of a bulk put.
#![no_main]

use fulgurite_service::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| fuzzing::bulk_put_archive(data));
