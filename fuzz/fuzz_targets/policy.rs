//! A bucket policy, and what is asked of it.
#![no_main]

use fulgurite_service::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &str| fuzzing::policy(data));
