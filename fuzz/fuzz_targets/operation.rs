//! Sends requests generated from bytes through the server's router: every operation, with every
//! header and parameter.
#![no_main]

use std::sync::LazyLock;

use fulgurite_service::fuzzing::Requests;
use libfuzzer_sys::fuzz_target;

static REQUESTS: LazyLock<(tempfile::TempDir, Requests)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let requests = Requests::new(folder.path());
    (folder, requests)
});

fuzz_target!(|data: &[u8]| {
    let _ = REQUESTS.1.answer_generated(data);
});
