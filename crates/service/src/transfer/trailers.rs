//! Trailers of unsigned bodies: headers that follow the last chunk.

use std::sync::{Arc, Mutex};

use http::HeaderMap;

/// The trailers, as a request extension. They are complete once the body was read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trailers(Arc<Mutex<HeaderMap>>);

impl Trailers {
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let headers = self.0.lock().expect("nothing panics while it holds this lock");
        headers.get(name)?.to_str().ok().map(str::to_owned)
    }

    pub(crate) fn set(&self, headers: HeaderMap) {
        *self.0.lock().expect("nothing panics while it holds this lock") = headers;
    }
}
