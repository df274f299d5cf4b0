//! Parses a bucket policy and asks it for a decision.
#![no_main]

use fulgurite_service::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &str| fuzzing::policy(data));
