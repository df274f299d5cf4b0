//! Any text as a settings file: refused with a reason, or taken and written back to the same.

#![no_main]

use std::path::Path;

use fulgurite_archive::settings::{FILE, Settings};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(settings) = Settings::parse(text, Path::new(FILE)) {
        assert_eq!(Settings::parse(&settings.to_file(), Path::new(FILE)).expect("what is written reads back"), settings);
    }
});
