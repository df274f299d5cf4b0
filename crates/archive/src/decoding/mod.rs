//! The decode service: turns images of sectors of glass into bytes.
//!
//! ```text
//! LoadedFile --SectorBatch--> DecodePool: DecodeQueue, threads --> bytes
//!                                  |                 ^
//!                              job files         result files      a shared folder
//!                                  v                 |
//!                              `fulgurite decode-worker`, on other machines
//! ```
//!
//! `fulgurite_decode` decides whose turn it is; here are the clock, the threads and the folder.
//! `docs/medium.md` describes the service, and specifies the files.

mod folder;
mod pool;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use fulgurite_decode::{Class, Policy, Settings};
use fulgurite_domain::Micros;
use fulgurite_glass::decoder::{Decoders, Device, GpuError};
use fulgurite_glass::{DecodeService, SectorBatch, SectorContent};

use crate::settings::{DecodeDevice, DecodeSettings};
use folder::Client;
use pool::{Pool, Task};

pub use folder::{DecodeFolderError, DecodeWorker, WorkerTotals};
pub use pool::DecodeTotals;

/// The folder that the archive in `home` shares with decode workers, if its settings name one, and
/// whether it can be used now. Without it, the archive decodes everything itself.
#[must_use]
pub fn check_decode_folder(home: &Path, settings: &DecodeSettings) -> Option<(PathBuf, Result<(), DecodeFolderError>)> {
    let folder = home.join(settings.folder.as_ref()?);
    let checked = folder::check(&folder);
    Some((folder, checked))
}

/// Opens the device that the settings name, and tells its name. If it can't be opened, the CPU
/// decodes, with the same answers.
///
/// # Errors
/// [`GpuError`] if it can't be opened.
pub fn check_decode_device(settings: &DecodeSettings) -> Result<Option<String>, GpuError> {
    Ok(open_device(settings.device)?.gpu_name().map(str::to_owned))
}

fn open_device(wanted: DecodeDevice) -> Result<Device, GpuError> {
    match wanted {
        DecodeDevice::Cpu => Ok(Device::Cpu),
        DecodeDevice::Gpu => Device::open_gpu(),
    }
}

/// Tells the time, in microseconds since a midnight.
pub(crate) trait Clock: Send + Sync {
    fn now(&self) -> Micros;
}

/// The clock of the system; hours are those of UTC.
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Micros {
        Micros(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64))
    }
}

impl Task for SectorBatch {
    type Output = SectorContent;
    type Tools = Decoders;

    fn sectors(&self) -> usize {
        self.sectors()
    }

    fn decode(&self, tools: &mut Decoders) -> Vec<Option<SectorContent>> {
        self.decode(tools)
    }

    fn part(&self, indices: &[usize]) -> Self {
        self.part(indices)
    }
}

/// The decode service of an archive.
pub(crate) struct DecodePool {
    pool: Pool<SectorBatch>,
    /// Shared with decode workers.
    folder: Option<PathBuf>,
    /// Started by the first read of glass; `None` without a folder, or without a thread for it.
    client: OnceLock<Option<Arc<Client>>>,
    /// How long verification may wait for cheap hours.
    verification_wait: Micros,
}

impl DecodePool {
    /// The service of an archive in `home`, with up to `threads` threads unless the settings give
    /// another number.
    pub(crate) fn new(home: &Path, settings: &DecodeSettings, threads: usize, clock: Arc<dyn Clock>) -> Self {
        let threads = settings.threads.unwrap_or(threads);
        let defaults = Settings::default();
        let schedule = Settings {
            policy: if settings.prices.is_some() { Policy::Cheapest } else { Policy::AtOnce },
            workers: [threads as u32; 24],
            prices: settings.prices.map_or(defaults.prices, |prices| prices.map(f64::from)),
            // Readers block until their jobs are done, so their number bounds the queue.
            jobs_max: usize::MAX,
            ..defaults
        };
        let verification_wait = Micros(settings.verification_wait_h.saturating_mul(Micros::HOUR.0));
        let folder = settings.folder.as_ref().map(|folder| home.join(folder));
        let wanted = settings.device;
        let device = OnceLock::new();
        // Opened by the first thread that decodes, because opening takes time.
        let open = move || {
            // A driver that panics must not end the threads that decode.
            let opened = std::panic::catch_unwind(|| open_device(wanted));
            opened.ok().and_then(Result::ok).unwrap_or_default()
        };
        let tools = move || Decoders::on(device.get_or_init(open).clone());
        Self { pool: Pool::new(schedule, threads, clock, tools), folder, client: OnceLock::new(), verification_wait }
    }

    /// A service that decodes for one class of readers.
    pub(crate) fn for_class(self: &Arc<Self>, class: Class) -> Arc<dyn DecodeService> {
        Arc::new(ClassService { pool: self.clone(), class })
    }

    /// When a verification that begins now must not wait any longer.
    pub(crate) fn verification_deadline(&self) -> Micros {
        self.pool.now() + self.verification_wait
    }

    /// Waits until computing is cheap enough for a verification with this deadline to decode some
    /// sectors. Asks `goes_on` again and again while it waits, and returns once that is false.
    pub(crate) fn wait_until_cheap(&self, sectors: u32, deadline: Micros, goes_on: &dyn Fn() -> bool) {
        self.pool.wait_until_cheap(sectors, deadline, goes_on);
    }

    pub(crate) fn totals(&self) -> DecodeTotals {
        self.pool.totals()
    }

    /// Connects the pool to the folder of decode workers. Without the thread for that, as without
    /// workers, the pool decodes everything.
    fn connect(&self) {
        self.client.get_or_init(|| {
            let client = Arc::new(Client::start(self.folder.as_ref()?, self.pool.tasks()).ok()?);
            self.pool.set_workers(client.clone());
            Some(client)
        });
    }
}

impl Drop for DecodePool {
    fn drop(&mut self) {
        if let Some(Some(client)) = self.client.get() {
            client.stop();
        }
    }
}

struct ClassService {
    pool: Arc<DecodePool>,
    class: Class,
}

impl DecodeService for ClassService {
    fn decode(&self, batches: Vec<SectorBatch>) -> Vec<Vec<Option<SectorContent>>> {
        self.pool.connect();
        self.pool.pool.decode(self.class, batches)
    }
}
