//! Signals that end a command.

use std::time::Duration;

use anyhow::{Context, Result};

/// The exit status of a process that Ctrl-C ended.
const INTERRUPTED: i32 = 128 + 2;

/// Runs `then` on Ctrl-C or SIGTERM, or after a time. Another Ctrl-C or SIGTERM ends the process at
/// once, for people who won't wait until work in progress is done.
pub(crate) fn on_stop(time: Option<Duration>, then: impl FnOnce() + Send + 'static) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("signals can't be received")?;
    let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || {
        runtime.block_on(async {
            let terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
            let interrupt = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt());
            let (mut terminate, mut interrupt) = match (terminate, interrupt) {
                (Ok(terminate), Ok(interrupt)) => (terminate, interrupt),
                (Err(error), _) | (_, Err(error)) => {
                    let _ = ready.send(Err(error));
                    return;
                }
            };
            let _ = ready.send(Ok(()));
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                () = tokio::time::sleep(time.unwrap_or(Duration::MAX)) => {}
            }
            then();
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            std::process::exit(INTERRUPTED);
        });
    });
    is_ready.recv().context("signals can't be received")?.context("signals can't be received")
}
