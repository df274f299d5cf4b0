//! Signals that end a command: Ctrl-C, SIGTERM, and SIGHUP, which says that the terminal is gone.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The exit status of a process that Ctrl-C ended.
const INTERRUPTED: i32 = 128 + 2;

/// Receives the signals that end a command.
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    /// `None` if the process was started with SIGHUP ignored.
    hangup: Option<Signal>,
}

impl StopSignals {
    /// From here on, the signals no longer end the process by themselves. Must be called in a
    /// runtime.
    pub(crate) fn new() -> Result<Self> {
        let register = |kind| signal(kind).context("signals can't be received");
        Ok(Self {
            terminate: register(SignalKind::terminate())?,
            interrupt: register(SignalKind::interrupt())?,
            hangup: if ignores_hangups() { None } else { Some(register(SignalKind::hangup())?) },
        })
    }

    /// Waits for one of the signals.
    pub(crate) async fn recv(&mut self) {
        let Self { terminate, interrupt, hangup } = self;
        let hung_up = async {
            match hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hung_up => {}
        }
    }

    /// Waits for Ctrl-C or SIGTERM. SIGHUP says nothing new after another signal: both a shell and
    /// the system send one when a terminal is closed, and some supervisors send one after SIGTERM.
    async fn recv_again(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Whether the process ignores SIGHUP, as one that `nohup` started does: it is to outlive its
/// terminal. Where the system doesn't say, SIGHUP keeps its effect.
fn ignores_hangups() -> bool {
    std::fs::read_to_string("/proc/self/status").map_or(true, |status| ignores(&status, SignalKind::hangup()))
}

/// Whether a process of this status, as Linux describes it, ignores a signal.
fn ignores(status: &str, kind: SignalKind) -> bool {
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_none_or(|mask| mask >> (kind.as_raw_value() - 1) & 1 == 1)
}

/// Runs `then` on Ctrl-C, SIGTERM or SIGHUP, or after a time. Another Ctrl-C or SIGTERM ends the
/// process at once, for people who won't wait until work in progress is done.
pub(crate) fn on_stop(time: Option<Duration>, then: impl FnOnce() + Send + 'static) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("signals can't be received")?;
    let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || {
        runtime.block_on(async {
            let mut signals = match StopSignals::new() {
                Ok(signals) => signals,
                Err(error) => {
                    let _ = ready.send(Err(error));
                    return;
                }
            };
            let _ = ready.send(Ok(()));
            tokio::select! {
                () = signals.recv() => {}
                () = tokio::time::sleep(time.unwrap_or(Duration::MAX)) => {}
            }
            then();
            signals.recv_again().await;
            std::process::exit(INTERRUPTED);
        });
    });
    is_ready.recv().context("signals can't be received")?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_signal_is_found_in_the_status_of_a_process() {
        let status = |mask: &str| format!("Name:\tfulgurite\nSigBlk:\tffffffffffffffff\nSigIgn:\t{mask}\nSigCgt:\t0000000000000000\n");
        let hangup = |mask| ignores(&status(mask), SignalKind::hangup());
        assert!(!hangup("0000000000000000") && hangup("0000000000000001"));
        // SIGPIPE, which Rust ignores.
        assert!(!hangup("0000000000001000") && hangup("0000000000001001"));
        assert!(ignores(&status("0000000000001000"), SignalKind::pipe()));
        assert!(ignores("Name:\tfulgurite\n", SignalKind::hangup()), "unknown: nothing is overridden");
    }
}
