//! Parses text as `service.toml`.
#![no_main]

use fulgurite_service::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &str| fuzzing::settings(data));
