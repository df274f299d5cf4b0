//! The command `decode-worker`: decodes images of glass for archives.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use fulgurite_archive::WorkerTotals;
use fulgurite_glass::decoder::Device;
use serde_json::json;

use crate::args::DecodeWorker;
use crate::text::count;
use crate::{Outcome, Session, diagnostics};

pub(crate) fn run(session: &Session, arguments: &DecodeWorker) -> Result<Outcome> {
    let threads = arguments.threads.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let device = open_device(arguments.gpu)?;
    let worker = fulgurite_archive::DecodeWorker::open(&arguments.folder, threads, device.clone())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("signals can't be received")?;
    // Registered before the worker announces itself, so that a stop right away is a clean one.
    let mut terminate = {
        let _runtime = runtime.enter();
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).context("signals can't be received")?
    };
    session.answer(|| json!({ "folder": arguments.folder, "threads": threads, "gpu": device.gpu_name() }));
    session.say(&format!(
        "Decoding jobs in {} on {}{}; Ctrl-C stops it.",
        arguments.folder.display(),
        count(threads as u64, "thread"),
        device.gpu_name().map(|name| format!(" and the GPU {name}")).unwrap_or_default(),
    ));
    let stop = AtomicBool::new(false);
    let totals = std::thread::scope(|scope| {
        let worker = scope.spawn(|| worker.run(&stop, &|text| diagnostics::note(text)));
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        });
        stop.store(true, Ordering::Relaxed);
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let WorkerTotals { jobs, sectors, lost, refused } = totals;
    session.answer(|| json!({ "jobs": jobs, "sectors": sectors, "lost": lost, "refused": refused }));
    session.say(&format!(
        "Decoded {}, {}, of which {lost} were lost; refused {}.",
        count(jobs, "job"),
        count(sectors, "sector"),
        count(refused, "job")
    ));
    Ok(Outcome::Good)
}

/// The CPU, or the GPU if it is asked for.
pub(crate) fn open_device(gpu: bool) -> Result<Device> {
    match gpu {
        true => Device::open_gpu().context("leave out --gpu to decode on the CPU"),
        false => Ok(Device::Cpu),
    }
}
