//! The command `decode-worker`: decodes images of glass for archives.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use fulgurite_archive::WorkerTotals;
use fulgurite_glass::decoder::Device;
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::args::DecodeWorker;
use crate::signals::StopSignals;
use crate::text::count;
use crate::{Outcome, Session, diagnostics};

pub(crate) fn run(session: &Session, arguments: &DecodeWorker) -> Result<Outcome> {
    let threads = arguments.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let device = open_device(arguments.gpu)?;
    let worker = fulgurite_archive::DecodeWorker::open(&arguments.folder, threads, device.clone())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("signals can't be received")?;
    // Registered before the worker announces itself, so that a stop right away is a clean one.
    let mut signals = {
        let _runtime = runtime.enter();
        StopSignals::new()?
    };
    session.answer(|| json!({ "folder": arguments.folder, "threads": threads, "gpu": device.gpu_name() }));
    session.say(&format!(
        "Decoding jobs in {} on {}{}; Ctrl-C stops it.",
        arguments.folder.display(),
        count(threads as u64, "thread"),
        device.gpu_name().map(|name| format!(" and the GPU {name}")).unwrap_or_default(),
    ));
    let (totals, ended_early) = run_until(&runtime, signals.recv(), |stop| worker.run(stop, &|text| diagnostics::note(text)));
    let WorkerTotals { jobs, sectors, lost, refused } = totals;
    session.answer(|| json!({ "jobs": jobs, "sectors": sectors, "lost": lost, "refused": refused }));
    session.say(&format!(
        "Decoded {}, {}, of which {lost} were lost; refused {}.",
        count(jobs, "job"),
        count(sectors, "sector"),
        count(refused, "job")
    ));
    if ended_early {
        bail!("all threads of the worker have ended, which is a fault of the program; start it again");
    }
    Ok(Outcome::Good)
}

/// Runs `work` on a thread until `stopped` is ready, which sets the flag that it gets. Returns its
/// result, and whether it ended by itself.
fn run_until<T: Send>(runtime: &Runtime, stopped: impl Future<Output = ()>, work: impl FnOnce(&AtomicBool) -> T + Send) -> (T, bool) {
    let stop = AtomicBool::new(false);
    let (ended_tx, ended_rx) = oneshot::channel::<()>();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // Dropped even if `work` panics.
            let _ended_tx = ended_tx;
            work(&stop)
        });
        let ended_early = runtime.block_on(async {
            tokio::select! {
                () = stopped => false,
                _ = ended_rx => true,
            }
        });
        stop.store(true, Ordering::Relaxed);
        (thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), ended_early)
    })
}

/// The CPU, or the GPU if it is asked for.
pub(crate) fn open_device(gpu: bool) -> Result<Device> {
    match gpu {
        true => Device::open_gpu().context("leave out --gpu to decode on the CPU"),
        false => Ok(Device::Cpu),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_without_threads_does_not_wait_for_a_signal() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        assert_eq!(run_until(&runtime, std::future::pending(), |_| 1), (1, true));
        let wait = |stop: &AtomicBool| {
            while !stop.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        };
        assert_eq!(run_until(&runtime, std::future::ready(()), wait), ((), false));
    }
}
