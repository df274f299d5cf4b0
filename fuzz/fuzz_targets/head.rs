//! Target and headers of a request: signature, ranges, times, checksums, sources of copies, tokens
//! of lists.
#![no_main]

use fulgurite_service::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &str| fuzzing::head(data));
