//! Work without the interpreter's lock that signals such as Ctrl-C can end.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use pyo3::prelude::*;

/// How often to look for signals.
const GLANCE: Duration = Duration::from_millis(100);

/// Waits for a result without the interpreter's lock, which the caller has released. The error is
/// what a signal handler raises meanwhile, such as `KeyboardInterrupt`. Signals are handled in
/// Python's main thread only.
pub(crate) fn until_signal<T>(result: &Receiver<T>) -> PyResult<T> {
    loop {
        match result.recv_timeout(GLANCE) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => Python::attach(|py| py.check_signals())?,
            Err(RecvTimeoutError::Disconnected) => panic!("the other thread ended without a result"),
        }
    }
}

/// Runs `work` in another thread, without the interpreter's lock. If a signal handler raises, tells
/// `work` to stop, and waits for it.
pub(crate) fn interruptible<T: Send>(py: Python<'_>, work: impl FnOnce(&AtomicBool) -> T + Send) -> PyResult<T> {
    let stop = AtomicBool::new(false);
    py.detach(|| {
        std::thread::scope(|scope| {
            let (done, result) = mpsc::channel();
            let stop = &stop;
            let worker = scope.spawn(move || {
                // The receiver is gone if a signal came.
                let _ = done.send(work(stop));
            });
            let ended = catch_unwind(AssertUnwindSafe(|| until_signal(&result)));
            stop.store(true, Ordering::Relaxed);
            match (worker.join(), ended) {
                (Err(panic), _) | (Ok(()), Err(panic)) => resume_unwind(panic),
                (Ok(()), Ok(ended)) => ended,
            }
        })
    })
}
