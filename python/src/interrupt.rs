//! Work without the interpreter's lock that signals such as Ctrl-C can end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use pyo3::prelude::*;

/// How often to look for signals.
const GLANCE: Duration = Duration::from_millis(100);

/// What a signal handler raises, such as `KeyboardInterrupt`. Signals are handled in Python's main
/// thread; elsewhere this takes for ever.
pub(crate) async fn signal() -> PyErr {
    loop {
        tokio::time::sleep(GLANCE).await;
        if let Err(raised) = Python::attach(|py| py.check_signals()) {
            return raised;
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
            let worker = scope.spawn(move || done.send(work(stop)));
            let mut raised = None;
            loop {
                match result.recv_timeout(GLANCE) {
                    Ok(result) => return raised.map_or(Ok(result), Err),
                    Err(RecvTimeoutError::Timeout) => {
                        if let Err(error) = Python::attach(|py| py.check_signals()) {
                            raised = Some(error);
                            stop.store(true, Ordering::Relaxed);
                        }
                    }
                    Err(RecvTimeoutError::Disconnected) => match worker.join() {
                        Err(panic) => std::panic::resume_unwind(panic),
                        Ok(_) => unreachable!("the worker sends its result"),
                    },
                }
            }
        })
    })
}
