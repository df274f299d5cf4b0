//! Reads a record from a foreign platter as a version of an S3 object.
#![no_main]

use fulgurite_service::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| fuzzing::version(data));
