//! Parses the target and the headers of a request: signature, ranges, times, checksums, copy
//! sources, continuation tokens.
#![no_main]

use fulgurite_service::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &str| fuzzing::request_head(data));
