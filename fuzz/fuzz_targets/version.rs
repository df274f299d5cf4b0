//! A record as it may stand on a platter from elsewhere, read as a version of S3.
#![no_main]

use fulgurite_service::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| fuzzing::record(data));
