//! Whole requests, one after another, to an archive that lasts as long as the process: what is
//! found may need those before it.
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
    let _ = REQUESTS.1.answer(data);
});
