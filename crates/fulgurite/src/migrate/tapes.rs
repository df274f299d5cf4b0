//! `migrate tapes`: libraries of emulated tapes, to migrate from.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand};
use fulgurite_places::{Connection, Folder, Place, Refusal, name_at};
use fulgurite_settings::Dimension;
use fulgurite_tapes::make::VolumeWriter;
use fulgurite_tapes::settings::{FILE, TapeSettings};
use serde_json::json;

use crate::outcome::Misuse;
use crate::{Outcome, Session, signals, tape_place, text};

/// The subcommands of `fulgurite migrate tapes`.
#[derive(Debug, Subcommand)]
pub(crate) enum Tapes {
    /// Write the files of a folder to the tapes of a new library
    ///
    /// The files are written in the order of their modification times, as they would have arrived.
    Make(Make),
    /// List the tapes of a library
    List {
        /// The library's folder
        library: PathBuf,
    },
    /// Print the reference of all settings of library.toml
    Reference,
}

#[derive(Debug, Args)]
pub(crate) struct Make {
    /// The folder of the library. It must not exist, or be empty
    library: PathBuf,
    /// The folder with the files
    #[arg(long, value_name = "FOLDER")]
    from: PathBuf,
    /// Capacity of a tape
    #[arg(long, value_name = "SIZE", default_value = "200 GB")]
    capacity: String,
    /// Number of drives
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    drives: u16,
    /// How many times faster than real drives they are; 0 for drives that take no time
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    speedup: f64,
}

pub(super) fn tapes(session: &Session, tapes: &Tapes) -> Result<Outcome> {
    match tapes {
        Tapes::Make(asked) => make(session, asked),
        Tapes::List { library } => list(session, library),
        Tapes::Reference => {
            session.print_reference(&fulgurite_tapes::settings::reference());
            Ok(Outcome::Good)
        }
    }
}

fn make(session: &Session, asked: &Make) -> Result<Outcome> {
    let capacity = Dimension::Size.parse_whole(&asked.capacity).map_err(|error| Misuse(format!("--capacity: {error}")))?;
    let library = &asked.library;
    let settings = format!(
        "[drives]\ncount = {}\n\n[volumes]\ncapacity = \"{capacity} B\"\n\n[emulation]\nspeedup = {}\n",
        asked.drives, asked.speedup
    );
    TapeSettings::check(&settings).map_err(|error| Misuse(format!("invalid options for a library: {error}")))?;
    if fs::read_dir(library).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Misuse(format!("{} is not empty: name a new folder", text::path(library))).into());
    }
    let source = Folder::new(asked.from.clone());
    let refused = |refusal: Refusal| anyhow!("can't read {}: {refusal}", text::path(&asked.from));
    let mut connection = source.connect().map_err(refused)?;
    let files = by_time(&asked.from, &mut *connection)?;
    if files.is_empty() {
        bail!("{} has no files", text::path(&asked.from));
    }
    let mut writer = VolumeWriter::new(library.clone(), capacity);
    for file in &files {
        writer.check(&file.name, file.bytes)?;
    }
    if real(library)?.starts_with(real(&asked.from)?) {
        return Err(Misuse(format!("{} would be inside the folder with the files", text::path(library))).into());
    }
    fs::create_dir_all(library).with_context(|| text::path(library))?;
    let is_stopped = Arc::new(AtomicBool::new(false));
    let stop = is_stopped.clone();
    signals::on_stop(None, move || stop.store(true, Ordering::Relaxed))?;
    let written = files.iter().try_for_each(|file| -> Result<()> {
        if is_stopped.load(Ordering::Relaxed) {
            bail!("stopped");
        }
        Ok(writer.add(&file.name, file.bytes, |sink| connection.read(&file.name, sink))?)
    });
    let volumes = written.and_then(|()| {
        let volumes = writer.finish()?;
        // The library exists once its settings do.
        let path = library.join(FILE);
        fs::write(&path, settings).with_context(|| text::path(&path))?;
        Ok(volumes)
    });
    let volumes = volumes.with_context(|| format!("{} is incomplete: remove it", text::path(library)))?;
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    session.answer(|| json!({ "volumes": volumes, "files": files.len(), "bytes": bytes }));
    let (files, volumes) = (text::count(files.len() as u64, "file"), text::count(u64::from(volumes), "tape"));
    session.say(&format!("Wrote {files}, {}, to {volumes} in {}.", text::bytes(bytes), text::path(library)));
    session.say(&format!("`fulgurite migrate init FOLDER --from tapes:{} --to PLACE` begins a migration.", text::path(library)));
    Ok(Outcome::Good)
}

/// The full path of a folder that may not exist yet, without symbolic links.
fn real(path: &Path) -> Result<PathBuf> {
    let full = std::path::absolute(path).with_context(|| text::path(path))?;
    let above = full.ancestors().find_map(|above| Some((above, fs::canonicalize(above).ok()?)));
    let (above, real) = above.with_context(|| text::path(path))?;
    Ok(real.join(full.strip_prefix(above).unwrap_or(&full)))
}

struct Found {
    name: String,
    bytes: u64,
}

/// The files of a folder in the order of their modification times.
fn by_time(folder: &Path, connection: &mut dyn Connection) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    connection
        .list(&mut |file| {
            found.push(file);
            true
        })
        .map_err(|refusal| anyhow!("can't list {}: {refusal}", text::path(folder)))?;
    let mut timed = Vec::with_capacity(found.len());
    for file in found {
        let path = folder.join(OsStr::from_bytes(&name_at(&file.location)));
        let metadata = fs::metadata(&path).with_context(|| text::path(&path))?;
        timed.push((metadata.modified().ok(), Found { name: file.location, bytes: metadata.len() }));
    }
    timed.sort_by(|(a, one), (b, other)| (a, &one.name).cmp(&(b, &other.name)));
    Ok(timed.into_iter().map(|(_, file)| file).collect())
}

fn list(session: &Session, folder: &Path) -> Result<Outcome> {
    let library = tape_place::open_folder(folder)?;
    let (mut volumes, mut damaged) = (Vec::new(), 0_u64);
    for name in library.volumes()? {
        let (mut files, mut bytes) = (0_u64, 0_u64);
        let read = library.files(&name, &mut |file| {
            (files, bytes) = (files + 1, bytes.saturating_add(file.bytes));
            true
        });
        damaged += u64::from(read.is_err());
        volumes.push((name, files, bytes, read.err().map(|refusal| refusal.to_string())));
    }
    session.answer(|| {
        let volume = |(name, files, bytes, error): &(String, u64, u64, Option<String>)| {
            json!({ "volume": name, "files": files, "bytes": bytes, "error": error })
        };
        json!({ "drives": library.settings().drives, "volumes": volumes.iter().map(volume).collect::<Vec<_>>() })
    });
    session.say(&format!("{}, {}", text::count(volumes.len() as u64, "tape"), text::count(library.settings().drives as u64, "drive")));
    for (name, files, bytes, error) in &volumes {
        match error {
            None => session.say(&format!("  {}  {:>14}  {}", text::harmless(name), text::count(*files, "file"), text::bytes(*bytes))),
            Some(error) => session.warn(&format!("  {}  {}", text::harmless(name), text::harmless(error))),
        }
    }
    Ok(Outcome::troubled_if(damaged > 0))
}
