//! Parses text as a settings file: it is rejected with a reason, or survives writing and parsing.

#![no_main]

use std::path::Path;

use fulgurite_archive::settings::{FILE, Settings};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(settings) = Settings::parse(text, Path::new(FILE)) {
        assert_eq!(Settings::parse(&settings.to_file(), Path::new(FILE)).expect("what is written reads back"), settings);
    }
});
