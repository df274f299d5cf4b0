//! The list of a batch; what comes back of it in a tar archive.
#![no_main]

use fulgurite_service::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| fuzzing::list(data));
